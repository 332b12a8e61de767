//go:build unix

package lock

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// flock takes the file lock if it is free. A file system that has none is an error.
func flock(f *os.File, exclusive bool) (free bool, err error) {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	for {
		switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, fmt.Errorf("the file system has no file locks: %w", err)
		}
	}
}

// unlock gives the file lock back at once, even if a child that is being made
// still has the file.
func unlock(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	_ = f.Close()
}
