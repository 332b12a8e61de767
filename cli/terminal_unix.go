//go:build unix

package cli

import (
	"io/fs"
	"os"
	"syscall"
)

// nonBlock keeps the opening of a FIFO from waiting for its reader.
const nonBlock = syscall.O_NONBLOCK

// A pollFD is C's struct pollfd.
type pollFD struct {
	fd              int32
	events, revents int16
}

func (p pollFD) broken() bool {
	const pollErr, pollHup, pollNval = 0x8, 0x10, 0x20
	return p.revents&(pollErr|pollHup|pollNval) != 0
}

// obeysColours reports whether a terminal obeys the sequences for colours.
func obeysColours(*os.File) bool { return true }

// mayWrite reports whether this process may write to a file or in a folder.
func mayWrite(path string) bool {
	const w, x = 2, 1
	mode := uint32(w)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		mode |= x
	}
	return syscall.Access(path, mode) == nil
}

// openToOthers reports whether others than the owner may do anything with a file.
func openToOthers(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }
