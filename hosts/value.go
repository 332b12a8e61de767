package hosts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// What the editors write is a string, a bool, an int, a list or an object: a
// map that keeps its order.
type (
	object []member
	list   []any
	member struct {
		key   string
		value any
	}
)

// plain returns v as encoding/json would decode it, to compare it with what a
// file has.
func plain(v any) any {
	switch v := v.(type) {
	case object:
		m := map[string]any{}
		for _, f := range v {
			m[f.key] = plain(f.value)
		}
		return m
	case list:
		l := make([]any, len(v))
		for i := range v {
			l[i] = plain(v[i])
		}
		return l
	case int:
		return float64(v)
	}
	return v
}

// words makes a list of strings.
func words(of ...string) list {
	l := list{}
	for _, w := range of {
		l = append(l, w)
	}
	return l
}

// quote returns s as a JSON string, which is a string of TOML and YAML as well.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can always be encoded
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}

// A place is an error at a line of a file.
type place struct {
	line int
	text string
}

func (e *place) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.text) }

// at is the error at that offset of the text.
func at(text []byte, offset int, format string, args ...any) error {
	offset = min(max(offset, 0), len(text))
	return &place{1 + bytes.Count(text[:offset], []byte("\n")), fmt.Sprintf(format, args...)}
}

// newline is the line end that a file uses.
func newline(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// splice returns text with what is between from and to replaced.
func splice(text []byte, from, to int, by string) []byte {
	out := make([]byte, 0, len(text)-(to-from)+len(by))
	out = append(out, text[:from]...)
	out = append(out, by...)
	return append(out, text[to:]...)
}

// chop returns the offset before the line end that stands before i, or i.
func chop(text []byte, i int) int {
	if i > 0 && text[i-1] == '\n' {
		i--
		if i > 0 && text[i-1] == '\r' {
			i--
		}
	}
	return i
}

// lineStart is where the line with offset i begins.
func lineStart(text []byte, i int) int { return bytes.LastIndexByte(text[:i], '\n') + 1 }

const bom = "\xef\xbb\xbf"
