// Package screen makes text of what terminals show: no escape sequence and no
// control character of an agent ever reaches another one.
package screen

import "strings"

// Max is the most, in bytes, that an answer has of one terminal.
const Max = 256 << 10

// An Excerpt is the text of a terminal, as answers have it.
type Excerpt struct {
	Output    string `json:"output"`
	Truncated bool   `json:"outputTruncated,omitempty"`
}

// Of returns the text that a herdr has printed of a terminal.
func Of(text string) Excerpt {
	kept, truncated := Plain(text, Max)
	return Excerpt{kept, truncated}
}

// Plain returns a terminal's text without escape sequences and control
// characters, as valid UTF-8 of at most max bytes: of more, the end.
func Plain(text string, max int) (kept string, truncated bool) {
	var b strings.Builder
	for rest := []rune(strings.ToValidUTF8(text, "\uFFFD")); len(rest) > 0; {
		if n := sequence(rest); n > 0 {
			rest = rest[n:]
			continue
		}
		if r := rest[0]; r == '\n' || r == '\t' || r >= ' ' && r < 0x7F || r > 0x9F {
			b.WriteRune(r)
		}
		rest = rest[1:]
	}
	kept = b.String()
	if len(kept) <= max {
		return kept, false
	}
	return strings.ToValidUTF8(kept[len(kept)-max:], ""), true
}

// sequence returns how long the escape sequence is that a text begins with, or 0.
func sequence(text []rune) int {
	begin, kind := 1, text[0]-0x40 // a C1 character is ESC and that one
	switch {
	case text[0] == 0x1B && len(text) > 1:
		begin, kind = 2, text[1]
	case text[0] < 0x80 || text[0] > 0x9F:
		return 0
	}
	switch kind {
	case '[': // CSI: up to its final character
		for i, r := range text[begin:] {
			if r < ' ' || r > '~' { // broken off
				return begin + i
			}
			if r >= '@' {
				return begin + i + 1
			}
		}
		return len(text)
	case ']', 'P', 'X', '^', '_': // strings: up to BEL or ST, or the end of the line
		for i, r := range text[begin:] {
			switch {
			case r == '\n':
				return begin + i
			case r == 0x07 || r == 0x9C:
				return begin + i + 1
			case r == 0x1B:
				return begin + i + min(2, len(text)-begin-i)
			}
		}
		return len(text)
	}
	for begin < len(text) && text[begin-1] >= ' ' && text[begin-1] <= '/' { // ESC, intermediates, one final
		begin++
	}
	return begin
}
