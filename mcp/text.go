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
// cut long ones.
func Lines(object []byte) string {
	var b bytes.Buffer
	b.Grow(2 * len(object))
	_ = json.Indent(&b, object, "", "  ")
	return b.String()
}
