package link

import (
	"syscall"
	"unicode/utf16"
)

const (
	// maxArg is how long the text for Herdr may be. Windows takes 32,767 units
	// in a whole command line.
	maxArg   = 30_000
	sizeUnit = "UTF-16 units"
)

func argSize(text string) int { return len(utf16.Encode([]rune(syscall.EscapeArg(text)))) }
