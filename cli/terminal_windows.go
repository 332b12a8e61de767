package cli

import (
	"io/fs"
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

// obeysColours reports whether a console obeys the sequences for colours.
func obeysColours(f *os.File) bool {
	const virtualTerminal = 4
	var mode uint32
	return syscall.GetConsoleMode(syscall.Handle(f.Fd()), &mode) == nil && mode&virtualTerminal != 0
}

// mayWrite cannot be known here before one tries: access lists say it.
func mayWrite(string) bool { return true }

// openToOthers is what the user profile's access list says, not the mode.
func openToOthers(fs.FileInfo) bool { return false }
