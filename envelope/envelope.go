// Package envelope is the herdr-link/1 wire format: the JSON object that
// travels from one agent to another inside a prompt, the text around it, and
// the names and ids in it.
//
// It encodes, reads and checks. It does no I/O, knows no limit of size and
// does not know whether a peer exists: those are the business of its callers.
// The rules are those of PROTOCOL.md, sections Identifiers, Envelope and
// Wrapper; testdata/envelope holds them as vectors.
package envelope

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Protocol names this version of the format, in every envelope.
const Protocol = "herdr-link/1"

// An Envelope is one message between two agents. ReplyTo is empty if the
// message answers none.
type Envelope struct{ ID, From, To, ReplyTo, Message string }

// ErrNotText says that a string holds bytes that are not UTF-8, or one half
// of a surrogate pair.
var ErrNotText = errors.New("not Unicode text")

// Blank reports whether message says nothing: it has no character that is
// neither Unicode White_Space nor U+FEFF (PROTOCOL.md, Envelope).
func Blank(message string) bool {
	return strings.TrimFunc(message, func(r rune) bool {
		return r == '\uFEFF' || unicode.Is(unicode.White_Space, r)
	}) == ""
}

// check returns what forbids e on the wire, nil if nothing does.
func (e Envelope) check() error {
	switch {
	case !ValidID(e.ID):
		return errors.New("envelope: invalid id")
	case !ValidName(e.From):
		return errors.New("envelope: invalid from")
	case !ValidName(e.To):
		return errors.New("envelope: invalid to")
	case e.ReplyTo != "" && !ValidID(e.ReplyTo):
		return errors.New("envelope: invalid reply_to")
	case !utf8.ValidString(e.Message):
		return fmt.Errorf("envelope: message: %w", ErrNotText)
	case Blank(e.Message):
		return errors.New("envelope: blank message")
	}
	return nil
}

// Encode returns e as one line of JSON without a newline, its fields in the
// fixed order (PROTOCOL.md, Envelope). Equal envelopes give equal bytes. It
// fails if e is not valid, with ErrNotText for a message that is not UTF-8.
func Encode(e Envelope) ([]byte, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	line := make([]byte, 0, len(e.Message)+len(e.Message)/16+256)
	line = append(line, `{"protocol":"`+Protocol+`","id":"`+e.ID+`","from":"`+e.From+`","to":"`+e.To+`"`...)
	if e.ReplyTo != "" {
		line = append(line, `,"reply_to":"`+e.ReplyTo+`"`...)
	}
	line = appendString(append(line, `,"message":`...), e.Message)
	return append(line, '}'), nil
}

// appendString appends s as a JSON string on which no terminal acts: C0, DEL,
// C1, U+2028 and U+2029 are escaped, all else stays as it is. What JSON has a
// short escape for gets that one, the rest \u and four lower-case digits, so
// below U+007F the bytes are those of JavaScript's JSON.stringify.
func appendString(b []byte, s string) []byte {
	const short = "\"\"\\\\\bb\ff\nn\rr\tt" // pairs: a character and its letter
	b = append(b, '"')
	done := 0 // s up to here is in b
	for i, r := range s {
		if r >= ' ' && r < 0x7f && r != '"' && r != '\\' || r > 0x9f && r != '\u2028' && r != '\u2029' {
			continue
		}
		b = append(b, s[done:i]...)
		done = i + utf8.RuneLen(r)
		if at := strings.IndexRune(short, r); at >= 0 && r < 0x7f {
			b = append(b, '\\', short[at+1])
		} else {
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return append(append(b, s[done:]...), '"')
}
