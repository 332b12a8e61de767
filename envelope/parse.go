package envelope

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// ErrNone says that a text holds no valid envelope.
var ErrNone = errors.New("no herdr-link/1 envelope in this text")

// ErrNotString says that a value is no JSON string.
var ErrNotString = errors.New("not a JSON string")

// shortest is the least that a line with every required field can measure.
const shortest = len(`{"protocol":"","id":"hl_a_a","from":"a","to":"a","message":"a"}`) + len(Protocol)

// Parse finds the envelope in a received text: of its lines, each without
// blanks, TAB and CR at its ends, the last that is a valid envelope by the
// reader's rules (PROTOCOL.md, Envelope). What stands around it, before or
// behind, does not count. The work grows with the length of text alone.
//
// Without such a line the error is ErrNone. An object nested more than 10,000
// deep is no envelope.
func Parse(text string) (Envelope, error) {
	for more := true; more; {
		at := strings.LastIndexByte(text, '\n')
		if e, ok := readLine(strings.Trim(text[at+1:], " \t\r")); ok {
			return e, nil
		}
		if more = at >= 0; more {
			text = text[:at]
		}
	}
	return Envelope{}, ErrNone
}

// readLine reads line if all of it is one valid envelope.
func readLine(line string) (e Envelope, ok bool) {
	if len(line) < shortest || line[0] != '{' || !utf8.ValidString(line) || !json.Valid([]byte(line)) {
		return Envelope{}, false
	}
	var protocol string
	fields := map[string]*string{ // nil once read
		"protocol": &protocol, "id": &e.ID, "from": &e.From, "to": &e.To, "reply_to": &e.ReplyTo, "message": &e.Message,
	}
	// Member by member: decoding into a struct would fold the case of keys,
	// and into a map hide the repeated ones. No step can fail, line is valid.
	members := json.NewDecoder(strings.NewReader(line))
	members.Token() // {
	for members.More() {
		key, _ := members.Token()
		var value json.RawMessage
		members.Decode(&value)
		field, known := fields[key.(string)]
		if !known {
			continue
		}
		if field == nil {
			return Envelope{}, false // a known key twice
		}
		var err error
		if *field, err = Unquote(value); err != nil {
			return Envelope{}, false
		}
		fields[key.(string)] = nil
	}
	if protocol != Protocol || fields["reply_to"] == nil && e.ReplyTo == "" || e.check() != nil {
		return Envelope{}, false
	}
	return e, true
}

// Unquote decodes raw, which must be exactly one JSON string. Unlike
// encoding/json it replaces nothing: text that is not UTF-8 and half a
// surrogate pair are ErrNotText, and everything that is no string, null too,
// is ErrNotString.
func Unquote(raw []byte) (string, error) {
	var s string
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", ErrNotString
	}
	if !utf8.Valid(raw) || halfPair(raw) {
		return "", ErrNotText
	}
	return s, nil
}

// halfPair reports whether the JSON string raw has an escaped surrogate
// without its other half right behind it.
func halfPair(raw []byte) bool {
	low := false // the next escape must be a low surrogate
	for i := 0; i < len(raw); i++ {
		escape := uint16(0) // the code unit, if one is escaped at i
		if raw[i] == '\\' {
			i++
			if raw[i] == 'u' {
				escape = codeUnit(raw[i+1 : i+5])
				i += 4
			}
		}
		if isLow := escape>>10 == 0xDC00>>10; isLow != low {
			return true
		}
		low = escape>>10 == 0xD800>>10
	}
	return false
}

// codeUnit is the value of four hex digits.
func codeUnit(digits []byte) (u uint16) {
	for _, c := range digits {
		if c > '9' {
			c = c&7 + 9 // a and A to 10
		}
		u = u<<4 | uint16(c&15)
	}
	return u
}
