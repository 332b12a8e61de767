//go:build unix

package disk

import (
	"io/fs"
	"os"
	"syscall"
)

const (
	noFollow = syscall.O_NOFOLLOW
	nonBlock = syscall.O_NONBLOCK // opening a named pipe must not wait for its writer
)

// private reports whether nobody but this user has any right.
func private(info fs.FileInfo) bool { return own(info) && info.Mode().Perm()&0o077 == 0 }

func own(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

func syncFolder(f *os.File) error { return f.Sync() }
