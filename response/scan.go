package response

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A scanner reads JSON from a stream value by value, and keeps nothing but what
// it is asked for: a session has up to 64 MiB, and a line of it may be all of
// that. A mistake in the text stops it: then every method does nothing, and err
// says why.
//
// Read with line, each line is a text of its own, and a mistake ends with it.
type scanner struct {
	src   io.Reader
	space []byte
	buf   []byte // what has been read ahead
	pos   int    // of the next byte in buf
	base  int64  // of buf in the stream
	lines bool   // line has been called
	depth int
	stack []byte // of skip, kept for the next one
	key   []byte // of object, likewise
	err   error
}

var (
	errSyntax = errors.New("not JSON")
	errEnd    = errors.New("the text has ended")
)

// maxDepth is how deep values may be nested.
const maxDepth = 1000

func newScanner(src io.Reader) *scanner { return &scanner{src: src, space: make([]byte, 64<<10)} }

// reset begins anew with another stream.
func (s *scanner) reset(src io.Reader) {
	*s = scanner{src: src, space: s.space, stack: s.stack, key: s.key}
}

// A patient reader ends with its context.
type patient struct {
	ctx context.Context
	io.Reader
}

func (p patient) Read(b []byte) (int, error) {
	if p.ctx.Err() != nil {
		return 0, context.Cause(p.ctx)
	}
	return p.Reader.Read(b)
}

func (s *scanner) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// offset is where the next byte stands in the stream.
func (s *scanner) offset() int64 { return s.base + int64(s.pos) }

// next returns the next byte without taking it, or 0 if there is none.
func (s *scanner) next() byte {
	if s.err != nil {
		return 0
	}
	if s.pos == len(s.buf) && !s.fill() {
		return 0
	}
	return s.buf[s.pos]
}

func (s *scanner) fill() bool {
	s.base += int64(len(s.buf))
	s.buf, s.pos = nil, 0
	for {
		n, err := s.src.Read(s.space)
		s.buf = s.space[:n]
		switch {
		case n > 0:
			return true
		case errors.Is(err, io.EOF):
			s.fail(errEnd)
			return false
		case err != nil:
			s.fail(err)
			return false
		}
	}
}

// until skips what stands before the first such byte.
func (s *scanner) until(c byte) {
	for s.next() != c && s.err == nil {
		s.pos++
	}
}

// line goes to the next line, at first to the first one, and reports whether
// there is one.
func (s *scanner) line() bool {
	if s.lines {
		if errors.Is(s.err, errSyntax) {
			s.err = nil
		}
		s.until('\n')
		s.pos++
	}
	s.lines, s.depth = true, 0
	s.next()
	return s.err == nil
}

// lineEnds reports whether nothing but the line's end is left of it.
func (s *scanner) lineEnds() bool { return s.peek() == '\n' && s.err == nil }

// peek returns the next byte that is no white space, without taking it.
func (s *scanner) peek() byte {
	for {
		switch c := s.next(); {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' && !s.lines:
			s.pos++
		default:
			return c
		}
	}
}

// take takes that byte, if it is the next one behind white space.
func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.err != nil {
		return false
	}
	s.pos++
	return true
}

// skip reads a value and forgets it.
func (s *scanner) skip() {
	stack := s.stack[:0] // of the brackets that are open
	for s.value(&stack) {
		for done := false; !done; {
			if s.err != nil || len(stack) == 0 {
				s.stack = stack
				return
			}
			top := stack[len(stack)-1]
			switch {
			case s.take(top + 2): // its other half: [ and ], { and }
				stack = stack[:len(stack)-1]
			case !s.take(','):
				s.fail(errSyntax)
			default:
				done = true
				if top == '{' {
					s.passKey()
				}
			}
		}
	}
}

// value reads a value, or the beginning of one in brackets up to its first part.
// It reports whether that was all of the value.
func (s *scanner) value(stack *[]byte) bool {
	for {
		switch c := s.peek(); {
		case c == '{' || c == '[':
			s.pos++
			if s.depth+len(*stack) >= maxDepth {
				s.fail(errSyntax)
			}
			if s.take(c + 2) {
				return true
			}
			*stack = append(*stack, c)
			if c == '{' {
				s.passKey()
			}
			if s.err == nil {
				continue
			}
		case c == '"':
			s.pass()
		case c == 't':
			s.word("true")
		case c == 'f':
			s.word("false")
		case c == 'n':
			s.word("null")
		case c == '-' || c >= '0' && c <= '9':
			s.number()
		default:
			s.fail(errSyntax)
		}
		return true
	}
}

// passKey reads a member's key and the colon behind it.
func (s *scanner) passKey() {
	if s.peek() != '"' {
		s.fail(errSyntax)
		return
	}
	if s.pass(); !s.take(':') {
		s.fail(errSyntax)
	}
}

// pass reads a string and forgets it.
func (s *scanner) pass() {
	for s.pos++; s.err == nil; {
		s.pos += len(s.run())
		switch s.next() {
		case '"':
			s.pos++
			return
		case '\\':
			s.pos++
			s.escape()
		default:
			s.ordinary()
		}
	}
}

// run returns what is in the buffer of a string that stands for itself.
func (s *scanner) run() []byte {
	rest := s.buf[s.pos:]
	for i, c := range rest {
		if c < ' ' || c == '"' || c == '\\' {
			return rest[:i]
		}
	}
	return rest
}

// ordinary fails if the next byte cannot stand in a string.
func (s *scanner) ordinary() {
	if c := s.next(); s.err == nil && c < ' ' {
		s.fail(errSyntax)
	}
}

// isTrue reads a value and reports whether it is true.
func (s *scanner) isTrue() bool {
	is := s.peek() == 't'
	s.skip()
	return is
}

// isSet reads a value and reports whether it is another one than null.
func (s *scanner) isSet() bool {
	is := s.peek() != 'n'
	s.skip()
	return is
}

// maxWord is how long a string may be that is no text: an id, a role, a key.
const maxWord = 512

// short reads a value and returns it if it is a string of at most maxWord bytes
// without control characters, else "".
func (s *scanner) short() string {
	if s.peek() != '"' {
		s.skip()
		return ""
	}
	text := s.quoted(nil, maxWord+1)
	if len(text) > maxWord || !plain(string(text)) {
		return ""
	}
	return string(text)
}

// plain reports whether s is text without control characters.
func plain(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) }

// object reads an object and calls member for each of its members: key is good
// until that reads something. What it does not read of the value is skipped. A
// value that is no object is skipped.
func (s *scanner) object(member func(key []byte)) {
	s.list('{', '}', func() {
		if s.peek() != '"' {
			s.fail(errSyntax)
			return
		}
		if s.key = s.quoted(s.key[:0], maxWord); !s.take(':') {
			s.fail(errSyntax)
			return
		}
		s.each(func() { member(s.key) })
	})
}

// array reads an array and calls item for each of its items, as object does.
func (s *scanner) array(item func()) { s.list('[', ']', func() { s.each(item) }) }

func (s *scanner) each(read func()) {
	s.peek()
	before := s.offset()
	if read(); s.offset() == before {
		s.skip()
	}
}

func (s *scanner) list(begin, end byte, element func()) {
	if s.peek() != begin {
		s.skip()
		return
	}
	if s.depth++; s.depth > maxDepth {
		s.fail(errSyntax)
	}
	s.take(begin)
	empty := s.take(end)
	for !empty && s.err == nil {
		element()
		if s.take(end) {
			break
		}
		if !s.take(',') {
			s.fail(errSyntax)
		}
	}
	s.depth--
}

func (s *scanner) word(want string) {
	for i := range len(want) {
		if s.next() != want[i] {
			s.fail(errSyntax)
			return
		}
		s.pos++
	}
}

func (s *scanner) number() {
	s.one("-")
	if !s.one("0") {
		s.digits()
	}
	if s.one(".") {
		s.digits()
	}
	if s.one("eE") {
		s.one("+-")
		s.digits()
	}
}

func (s *scanner) digits() {
	if c := s.next(); c < '0' || c > '9' {
		s.fail(errSyntax)
	}
	for c := s.next(); c >= '0' && c <= '9'; c = s.next() {
		s.pos++
	}
}

// one takes the next byte if it is one of these.
func (s *scanner) one(of string) bool {
	if c := s.next(); c == 0 || strings.IndexByte(of, c) < 0 {
		return false
	}
	s.pos++
	return true
}

// text reads a value; if it is a string, it is appended to dst.
func (s *scanner) text(dst []byte) (_ []byte, ok bool) {
	if s.peek() != '"' {
		s.skip()
		return dst, false
	}
	begin := len(dst)
	dst = s.quoted(dst, math.MaxInt)
	if !utf8.Valid(dst[begin:]) {
		dst = append(dst[:begin], valid(dst[begin:])...)
	}
	return dst, s.err == nil
}

// valid returns text with U+FFFD for each byte that is not UTF-8.
func valid(text []byte) []byte {
	out := make([]byte, 0, len(text)+len(text)/2)
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		out, text = utf8.AppendRune(out, r), text[n:]
	}
	return out
}

// quoted reads a string and appends it to dst, until that has max bytes or a few
// more. Half of a surrogate pair becomes U+FFFD, as in package json.
func (s *scanner) quoted(dst []byte, max int) []byte {
	high := rune(0) // the first half of a pair
	add := func(r rune) {
		if len(dst) < max {
			dst = utf8.AppendRune(dst, r)
		}
	}
	flush := func() {
		if high != 0 {
			add(utf8.RuneError)
			high = 0
		}
	}
	for s.pos++; s.err == nil; {
		if run := s.run(); len(run) > 0 {
			flush()
			dst = append(dst, run[:min(len(run), max-min(max, len(dst)))]...)
			s.pos += len(run)
		}
		switch s.next() {
		case '"':
			s.pos++
			flush()
			return dst
		case '\\':
			s.pos++
			r, unit := s.escape()
			switch {
			case unit && high != 0 && r>>10 == 0xDC00>>10:
				add(0x10000 + (high-0xD800)<<10 + (r - 0xDC00))
				high = 0
			case unit && r>>10 == 0xD800>>10:
				flush()
				high = r
			default:
				flush()
				add(r) // as U+FFFD if it is the other half
			}
		default:
			s.ordinary()
		}
	}
	return dst
}

// escape reads what stands behind a backslash. unit: it is a UTF-16 code unit.
func (s *scanner) escape() (r rune, unit bool) {
	c := s.next()
	if s.err != nil {
		return 0, false
	}
	s.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), false
	case 'b':
		return '\b', false
	case 'f':
		return '\f', false
	case 'n':
		return '\n', false
	case 'r':
		return '\r', false
	case 't':
		return '\t', false
	case 'u':
		return s.hex(), true
	}
	s.fail(errSyntax)
	return 0, false
}

func (s *scanner) hex() (r rune) {
	for range 4 {
		c := s.next()
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			s.fail(errSyntax)
			return 0
		}
		s.pos++
		r = r<<4 | rune(c)
	}
	return r
}
