package mcp

import (
	"bytes"
	"encoding/json"
)

// Marshal returns compact JSON without the escapes that only HTML needs. It is
// for plain values, which always have a JSON form.
func Marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Lines returns valid JSON in many short lines, for a Result's text: some hosts
// cut long ones. JSON of which most would be indentation comes as it is.
func Lines(object []byte) string {
	var b bytes.Buffer
	_, blank := layout(object)
	if blank > len(object)+maxBlank {
		return string(object)
	}
	b.Grow(len(object) + blank)
	_ = json.Indent(&b, object, "", "  ")
	return b.String()
}

// maxBlank is how much of what Lines returns may be indentation alone, beside as
// much as there is of text.
const maxBlank = 1 << 20

// Depth is how many brackets are open at a time in valid JSON.
func Depth(text []byte) int {
	depth, _ := layout(text)
	return depth
}

// layout returns the depth of valid JSON, and about how many bytes of white space
// a line for each of its values would add.
func layout(text []byte) (depth, blank int) {
	open, inside := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inside && c == '\\':
			i++
		case c == '"':
			inside = !inside
		case inside:
		case c == '{' || c == '[':
			open++
			depth = max(depth, open)
			blank += 1 + 2*open
		case c == '}' || c == ']':
			open--
			blank += 1 + 2*open
		case c == ',':
			blank += 1 + 2*open
		case c == ':':
			blank++
		}
	}
	return depth, blank
}
