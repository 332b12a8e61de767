package mesh

import (
	"bytes"
	"encoding/json"
	"strings"

	"herdr-link/mcp"
	"herdr-link/mesh/fault"
)

// succeeded is the result with that answer, an object: the whole of it as
// structure; as text the same in many short lines, without the terminals' texts,
// which follow as they are, a block each, in the order of the JSON.
func succeeded(answer any) *mcp.Result {
	whole := mcp.Marshal(answer)
	var brief bytes.Buffer
	var texts []string
	dec := json.NewDecoder(bytes.NewReader(whole))
	dec.UseNumber()
	cut(dec, &brief, &texts)
	return &mcp.Result{Text: append([]string{mcp.Lines(brief.Bytes())}, texts...), Structured: whole}
}

// failed is the result of a call that came to nothing.
func failed(f *fault.Fault) *mcp.Result {
	type problem struct {
		Code      string         `json:"code"`
		Message   string         `json:"message"`
		Retryable bool           `json:"retryable"`
		Details   map[string]any `json:"details,omitempty"`
	}
	return &mcp.Result{
		Text: []string{f.Error()}, IsError: true,
		Structured: mcp.Marshal(map[string]problem{"error": {f.Code, f.Message, f.Retryable, f.Details}}),
	}
}

// cut copies the next value of dec, valid JSON, without the members that are
// the text of a terminal. It collects those that have one.
func cut(dec *json.Decoder, to *bytes.Buffer, texts *[]string) {
	token, _ := dec.Token()
	open, nested := token.(json.Delim)
	if !nested {
		to.Write(mcp.Marshal(token))
		return
	}
	to.WriteString(open.String())
	for first := true; dec.More(); {
		var name json.Token
		value := dec
		if open == '{' {
			if name, _ = dec.Token(); isTerminal(name) {
				var raw json.RawMessage
				_ = dec.Decode(&raw)
				if text := ""; json.Unmarshal(raw, &text) == nil {
					if text != "" {
						*texts = append(*texts, text)
					}
					continue
				}
				value = json.NewDecoder(bytes.NewReader(raw))
				value.UseNumber()
			}
		}
		if !first {
			to.WriteByte(',')
		}
		first = false
		if open == '{' {
			to.Write(mcp.Marshal(name))
			to.WriteByte(':')
		}
		cut(value, to, texts)
	}
	end, _ := dec.Token()
	to.WriteString(end.(json.Delim).String())
}

// isTerminal reports whether a member of that name is the text of a terminal.
func isTerminal(name json.Token) bool {
	switch name {
	case "output", "terminalOutput", "stdoutTail", "stderrTail":
		return true
	}
	return false
}

// maxOutput is the most, in bytes, that an answer has of one terminal.
const maxOutput = 256 << 10

// plain returns a terminal's text without escape sequences and control
// characters, as valid UTF-8 of at most max bytes: of more, the end.
func plain(text string, max int) (kept string, truncated bool) {
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
