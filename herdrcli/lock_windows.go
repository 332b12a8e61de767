package herdrcli

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"unsafe"
)

const (
	noFollow    = 0
	othersCount = false // the user profile's access list says who may write
)

var (
	lockFileEx   = kernel32.NewProc("LockFileEx")
	unlockFileEx = kernel32.NewProc("UnlockFileEx")
)

// The locked byte lies far behind the file's end, so that Mark can write.
func lockedByte() *syscall.Overlapped { return &syscall.Overlapped{Offset: 1 << 30} }

func tryLock(f *os.File) (bool, error) {
	const failImmediately, exclusive, lockViolation = 1, 2, syscall.Errno(33)
	ok, _, err := lockFileEx.Call(f.Fd(), failImmediately|exclusive, 0, 1, 0, uintptr(unsafe.Pointer(lockedByte())))
	switch {
	case ok != 0:
		return true, nil
	case errors.Is(err, lockViolation):
		return false, nil
	}
	return false, err
}

func unlock(f *os.File) error {
	if ok, _, err := unlockFileEx.Call(f.Fd(), 0, 1, 0, uintptr(unsafe.Pointer(lockedByte()))); ok == 0 {
		return err
	}
	return nil
}

func own(fs.FileInfo) bool { return true }
