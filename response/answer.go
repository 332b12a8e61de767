package response

import "bytes"

// An answer is the text with which a turn of an agent ended.
type answer struct {
	host    string // opencode, claude or codex
	session string
	message string // pins it: a later look finds this very one
	role    string
	finish  string // why the model stopped
	text    []byte // UTF-8, not blank
}

// separate begins another part of a text: a blank line stands between two.
func separate(text []byte) []byte {
	if len(text) == 0 {
		return text
	}
	return append(text, "\n\n"...)
}

func blank(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 }

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
