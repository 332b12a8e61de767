package fakeherdr

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
	"unsafe"
)

const lockfileExclusive = 2 // LOCKFILE_EXCLUSIVE_LOCK

// lock waits for the lock on a file, which is made if it is missing. The system
// frees it when its holder dies.
func lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	ok, _, err := syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx").Call(
		f.Fd(), lockfileExclusive, 0, 1, 0, uintptr(unsafe.Pointer(new(syscall.Overlapped))))
	if ok == 0 {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: file, Err: err}
	}
	return func() { f.Close() }, nil
}

// retry tries again for two seconds: while one process has the world open,
// Windows lets no other replace it, and while it is replaced, none open it.
func retry(f func() error) error {
	const sharingViolation = syscall.Errno(32)
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
		err := f()
		if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, sharingViolation) || time.Now().After(end) {
			return err
		}
	}
}

// ownGroup makes a process the first of a new group.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
