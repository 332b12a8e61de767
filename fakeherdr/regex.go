package fakeherdr

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A regex is what --regex of a test may be: alternatives of single characters,
// ".", "\d", "\s", "\w", an escaped character or "[...]", each with "*", "+" or
// "?" behind it, and with "^" and "$" at the ends. The real one is a library of
// Rust's; here it is not worth the size of one.
type regex []sequence

// A sequence is an alternative.
type sequence struct {
	begin, end bool // it must be where the line begins, or ends
	items      []item
}

// An item is a character, as often as its operator says.
type item struct {
	is       func(rune) bool
	operator byte // '*', '+', '?', or 0: once
}

// compileRegex returns a failure for what is no regular expression anywhere, and
// another error, which is nothing that Herdr would say, for one that is beyond
// this one.
func compileRegex(pattern string) (regex, error) {
	re := regex{{}}
	for rest := pattern; rest != ""; {
		s := &re[len(re)-1]
		switch c := rest[0]; {
		case c == '|':
			re = append(re, sequence{})
			rest = rest[1:]
		case c == '^' && len(s.items) == 0:
			s.begin, rest = true, rest[1:]
		case c == '$' && (len(rest) == 1 || rest[1] == '|'):
			s.end, rest = true, rest[1:]
		case c == '(' && !strings.Contains(rest, ")"):
			return nil, badRegex(pattern, len(pattern)-len(rest), "unclosed group")
		case strings.IndexByte("*+?", c) >= 0:
			if len(s.items) == 0 || s.items[len(s.items)-1].operator != 0 {
				return nil, badRegex(pattern, len(pattern)-len(rest), "repetition operator missing expression")
			}
			s.items[len(s.items)-1].operator, rest = c, rest[1:]
		case strings.IndexByte("(){}^$", c) >= 0:
			return nil, errors.New("a regular expression with " + string(c) + " is too much for a simulated Herdr")
		default:
			is, size := atom(rest)
			if size == 0 {
				return nil, badRegex(pattern, len(pattern)-len(rest), "unclosed character class")
			}
			s.items, rest = append(s.items, item{is: is}), rest[size:]
		}
	}
	return re, nil
}

// badRegex is in the words of Rust's library.
func badRegex(pattern string, at int, why string) error {
	return failure{"invalid_regex", "regex parse error:\n    " + pattern + "\n    " + strings.Repeat(" ", at) + "^\nerror: " + why}
}

// atom returns the test for the first character of a pattern, and how many bytes
// of the pattern that is; 0 if it does not end.
func atom(pattern string) (is func(rune) bool, size int) {
	r, size := utf8.DecodeRuneInString(pattern)
	switch r {
	case '.':
		return func(rune) bool { return true }, size
	case '\\':
		if len(pattern) == 1 {
			return nil, 0
		}
		r, size := utf8.DecodeRuneInString(pattern[1:])
		return escaped(r), 1 + size
	case '[':
		return class(pattern)
	}
	return func(c rune) bool { return c == r }, size
}

func escaped(r rune) func(rune) bool {
	switch r {
	case 'd':
		return unicode.IsDigit
	case 's':
		return unicode.IsSpace
	case 'w':
		return func(c rune) bool { return c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) }
	}
	return func(c rune) bool { return c == r }
}

// class reads "[a-z_]" or "[^a-z_]".
func class(pattern string) (is func(rune) bool, size int) {
	inside, _, ok := strings.Cut(pattern[1:], "]")
	if !ok {
		return nil, 0
	}
	size = len(inside) + 2
	set, not := strings.CutPrefix(inside, "^")
	runes := []rune(set)
	return func(c rune) bool {
		found := false
		for i := 0; i < len(runes); i++ {
			if i+2 < len(runes) && runes[i+1] == '-' {
				found = found || runes[i] <= c && c <= runes[i+2]
				i += 2
				continue
			}
			found = found || runes[i] == c
		}
		return found != not
	}, size
}

// match says whether a part of the line is as it should be.
func (re regex) match(line string) bool {
	runes := []rune(line)
	for _, s := range re {
		for at := 0; at <= len(runes); at++ {
			if s.here(s.items, runes[at:]) {
				return true
			}
			if s.begin {
				break
			}
		}
	}
	return false
}

func (s sequence) here(items []item, text []rune) bool {
	if len(items) == 0 {
		return !s.end || len(text) == 0
	}
	it := items[0]
	most := 1
	if it.operator == '*' || it.operator == '+' {
		most = len(text)
	}
	least := 1
	if it.operator == '*' || it.operator == '?' {
		least = 0
	}
	for n := 0; n <= most; n++ {
		if n >= least && s.here(items[1:], text[n:]) {
			return true
		}
		if n == len(text) || !it.is(text[n]) {
			break
		}
	}
	return false
}
