//go:build unix

package link

const (
	// maxArg is how long the text for Herdr may be. Linux takes 128 KiB in one argument.
	maxArg   = 120 << 10
	sizeUnit = "bytes"
)

func argSize(text string) int { return len(text) }
