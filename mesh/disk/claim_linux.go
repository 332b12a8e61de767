package disk

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// claim renames only to a free name. Package syscall knows neither the call,
// renameat2, nor its flag.
func claim(from, to string) error {
	const (
		atFdCwd   = -100
		noReplace = 1
	)
	source, err := syscall.BytePtrFromString(from)
	if err != nil {
		return err
	}
	target, err := syscall.BytePtrFromString(to)
	if err != nil {
		return err
	}
	at := atFdCwd
	_, _, errno := syscall.Syscall6(renameat2, uintptr(at), uintptr(unsafe.Pointer(source)),
		uintptr(at), uintptr(unsafe.Pointer(target)), noReplace, 0)
	switch {
	case errno == 0:
		return nil
	case errors.Is(errno, syscall.ENOSYS) || errors.Is(errno, syscall.EINVAL): // an old kernel, or a file system without it
		return os.Rename(from, to) // which looks before
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: errno}
}
