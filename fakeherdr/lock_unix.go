//go:build unix

package fakeherdr

import (
	"os"
	"syscall"
)

// lock waits for the lock on a file, which is made if it is missing. The system
// frees it when its holder dies.
func lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: file, Err: err}
	}
	return func() { f.Close() }, nil
}

// retry is for Windows.
func retry(f func() error) error { return f() }

// ownGroup makes a process the first of a new group.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
