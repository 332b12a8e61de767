package orchestration

import (
	"bytes"
	"encoding/json"
)

// An object is a JSON object that keeps its order, in which OpenCode reads
// rules: the last that matches wins.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON writes the members as they stand.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		key, err := line(m.key)
		if err != nil {
			return nil, err
		}
		value, err := line(m.value)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, key...), ':'), value...)
	}
	return append(b, '}'), nil
}

// line is json.Marshal without escapes for HTML: > and & are signs of rules.
func line(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// encode writes v as a file that people can read.
func encode(v any) ([]byte, error) {
	text, err := line(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = json.Indent(&b, text, "", "  ")
	b.WriteByte('\n')
	return b.Bytes(), err
}
