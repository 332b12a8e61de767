package cli

import (
	"os"
	"syscall"
)

const nonBlock = 0

func isTerminal(f *os.File) bool {
	var mode uint32
	return syscall.GetConsoleMode(syscall.Handle(f.Fd()), &mode) == nil
}

// broken is never known here before a write fails; a host's death closes stdin.
func broken(*os.File) bool { return false }
