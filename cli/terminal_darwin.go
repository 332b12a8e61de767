package cli

import (
	"os"
	"syscall"
	"unsafe"
)

func isTerminal(f *os.File) bool {
	var termios syscall.Termios
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGETA, uintptr(unsafe.Pointer(&termios)))
	return errno == 0
}

// broken reports whether nobody can read f any more.
func broken(f *os.File) bool {
	fd := pollFD{fd: int32(f.Fd())}
	n, _, errno := syscall.Syscall(syscall.SYS_POLL, uintptr(unsafe.Pointer(&fd)), 1, 0)
	return errno == 0 && n == 1 && fd.broken()
}
