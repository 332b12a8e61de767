package mesh

import (
	"bytes"
	"encoding/json"

	"herdr-link/mcp"
	"herdr-link/mesh/fault"
)

// succeeded is the result with that answer, an object: the whole of it as
// structure; as text the same in many short lines, without the terminals' texts,
// which follow as they are, a block each, in the order of the JSON. One that is
// empty is no block and stays, so that it is clear which block is whose.
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
// the text of a terminal, which it collects.
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
				if text := ""; json.Unmarshal(raw, &text) == nil && text != "" {
					*texts = append(*texts, text)
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
