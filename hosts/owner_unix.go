//go:build unix

package hosts

import (
	"io/fs"
	"os"
	"syscall"
)

// sameOwner gives the file the owner and group that info has. Only the
// superuser can, and only he needs it.
func sameOwner(f *os.File, info fs.FileInfo) error {
	was, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	now, err := f.Stat()
	if err != nil {
		return err
	}
	is, ok := now.Sys().(*syscall.Stat_t)
	if !ok || is.Uid == was.Uid && is.Gid == was.Gid {
		return nil
	}
	return f.Chown(int(was.Uid), int(was.Gid))
}
