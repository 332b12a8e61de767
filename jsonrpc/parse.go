package jsonrpc

import (
	"bytes"
	"encoding/json"
	"iter"
	"unicode/utf8"
)

// Members yields the members of a JSON object in their order, keys exactly as
// they are and as often as they come. raw must be valid JSON; of anything but
// an object nothing is yielded.
func Members(raw []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		dec := json.NewDecoder(bytes.NewReader(raw))
		if t, err := dec.Token(); err != nil || t != json.Delim('{') {
			return
		}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return
			}
			var value json.RawMessage
			if dec.Decode(&value) != nil || !yield(key.(string), value) {
				return
			}
		}
	}
}

// Kind is the first byte of a JSON value: '{', '[', '"', 'n' and so on; 0 if
// there is none.
func Kind(raw []byte) byte {
	if raw = bytes.TrimLeft(raw, " \t\r\n"); len(raw) > 0 {
		return raw[0]
	}
	return 0
}

// check refuses what is not one JSON text in UTF-8.
func check(line []byte) *Error {
	if !utf8.Valid(line) {
		return Errorf(ParseError, "the message is not UTF-8")
	}
	if !json.Valid(line) {
		return Errorf(ParseError, "the message is not JSON, or is nested too deeply")
	}
	return nil
}

// parse reads one message, which has passed check. It returns nil, nil for a
// response, which asks for no answer, however odd it is: an error with its id
// would look like the answer to a request of the peer's own. On an error the request still carries
// the id to answer with, if that id was a good one.
func parse(raw []byte) (*Request, *Error) {
	req := &Request{Size: len(raw)}
	if Kind(raw) != '{' {
		return req, Errorf(InvalidRequest, "a message is a JSON object")
	}
	fields := map[string]json.RawMessage{}
	twice := ""
	for key, value := range Members(raw) {
		switch key {
		case "jsonrpc", "id", "method", "params", "result", "error":
			if fields[key] != nil && twice != "id" { // two ids leave none to answer with
				twice = key
			}
			fields[key] = value
		}
	}
	if fields["method"] == nil && (fields["result"] != nil || fields["error"] != nil) {
		return nil, nil
	}
	if twice != "id" && validID(fields["id"]) {
		req.ID = ID(fields["id"])
	}
	if twice != "" {
		return req, Errorf(InvalidRequest, "%q stands in the message twice", twice)
	}
	if fields["id"] != nil && req.ID == "" && fields["method"] != nil {
		return req, Errorf(InvalidRequest, "an id is a string or an integer of at most %d bytes", MaxID)
	}
	var version string
	if json.Unmarshal(fields["jsonrpc"], &version) != nil || version != "2.0" {
		return req, Errorf(InvalidRequest, `"jsonrpc" must be "2.0"`)
	}
	if fields["method"] == nil {
		return req, Errorf(InvalidRequest, `"method" is missing`)
	}
	if Kind(fields["method"]) != '"' || json.Unmarshal(fields["method"], &req.Method) != nil {
		return req, Errorf(InvalidRequest, `"method" must be a string`)
	}
	switch Kind(fields["params"]) {
	case 0, '{', '[':
		req.Params = fields["params"]
	default:
		return req, Errorf(InvalidRequest, `"params" must be an object`)
	}
	return req, nil
}

func validID(raw []byte) bool {
	if len(raw) == 0 || len(raw) > MaxID {
		return false
	}
	if raw[0] == '"' {
		return true
	}
	digits := bytes.TrimPrefix(raw, []byte("-"))
	return len(digits) > 0 && len(bytes.Trim(digits, "0123456789")) == 0
}

// split returns the first messages of a batch, which has passed check: at most
// limit of them.
func split(raw []byte, limit int) (messages []json.RawMessage) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil
	}
	for dec.More() && len(messages) < limit {
		var m json.RawMessage
		if dec.Decode(&m) != nil {
			return nil
		}
		messages = append(messages, m)
	}
	return messages
}
