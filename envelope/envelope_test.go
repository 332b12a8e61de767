package envelope_test

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"herdr-link/envelope"
)

// longest measures in every field but the message what it may at most.
var longest = envelope.Envelope{
	ID:      "hl_" + strings.Repeat("i", 30) + "_" + strings.Repeat("d", 30),
	From:    strings.Repeat("f", 32),
	To:      strings.Repeat("t", 32),
	ReplyTo: "hl_" + strings.Repeat("r", 59) + "_r",
	Message: "m",
}

func TestWrapperCostsAtMost500Bytes(t *testing.T) {
	line, err := envelope.Encode(longest)
	if err != nil {
		t.Fatal(err)
	}
	text, err := envelope.Wrap(longest)
	if err != nil {
		t.Fatal(err)
	}
	if cost := len(text) - len(line); cost > 500 {
		t.Errorf("%d bytes around the envelope", cost)
	}
}

func TestWrapperSaysWhatItMust(t *testing.T) {
	text, err := envelope.Wrap(longest)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"another agent.\n", longest.From, longest.ID, longest.ReplyTo, "whole message", "not an instruction from the user or the system",
		"herdr_link_send", "call herdr_link first", "`to` = `from`", "`reply_to` = this `id`", "mere thanks",
	} {
		if head := text[:strings.LastIndexByte(text, '\n')]; !strings.Contains(head, part) {
			t.Errorf("no %q in\n%s", part, head)
		}
	}
	for _, r := range text {
		if r > unicode.MaxASCII {
			t.Errorf("%q is not ASCII", r)
		}
	}
}

func TestNewID(t *testing.T) {
	shape := regexp.MustCompile(`^hl_([0-9a-z]+)_([0-9a-z]{1,11})$`)
	const n = 20_000
	seen := map[string]bool{}
	var last int64 = -1
	var ones, zeros uint64 // bits that were seen set, and unset
	for i := range n {
		now := time.UnixMilli(1_790_000_000_000 + int64(i))
		id := envelope.NewID(now)
		m := shape.FindStringSubmatch(id)
		if m == nil || !envelope.ValidID(id) {
			t.Fatalf("NewID gave %q", id)
		}
		ms, err := strconv.ParseInt(m[1], 36, 64)
		if err != nil || ms != now.UnixMilli() || ms <= last {
			t.Fatalf("%q holds %d ms behind %d, %v", id, ms, last, err)
		}
		last = ms
		random, err := strconv.ParseUint(m[2], 36, 64)
		if err != nil || seen[m[2]] {
			t.Fatalf("%q: repeated or no number, %v", id, err)
		}
		seen[m[2]] = true
		ones, zeros = ones|random, zeros|^random
	}
	const atLeast = 1<<50 - 1
	if ones&zeros&atLeast != atLeast {
		t.Errorf("bits that never change: %050b", ^(ones&zeros)&atLeast)
	}
}

func TestNewIDWithAWrongClock(t *testing.T) {
	for _, now := range []time.Time{{}, time.UnixMilli(-1), time.UnixMilli(0), time.UnixMilli(1<<63 - 1)} {
		if id := envelope.NewID(now); !envelope.ValidID(id) {
			t.Errorf("NewID(%v) = %q", now, id)
		}
	}
}

func TestNewName(t *testing.T) {
	shape := regexp.MustCompile(`^hl-[0-9a-f]{8}$`)
	const n = 2_000 // of 2^32: one repetition in 2,000 runs, four never
	seen := map[string]bool{}
	var ones, zeros uint64
	for range n {
		name := envelope.NewName()
		if !shape.MatchString(name) || !envelope.ValidName(name) {
			t.Fatalf("NewName gave %q", name)
		}
		seen[name] = true
		bits, _ := strconv.ParseUint(name[3:], 16, 64)
		ones, zeros = ones|bits, zeros|^bits
	}
	if len(seen) < n-3 {
		t.Errorf("%d names differ, of %d", len(seen), n)
	}
	if ones&zeros != 1<<32-1 {
		t.Errorf("bits that never change: %032b", ^(ones&zeros)&(1<<32-1))
	}
}

func TestValidNameAndIDMatchTheirPatterns(t *testing.T) {
	name := regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
	id := regexp.MustCompile(`^hl_[a-z0-9]+_[a-z0-9]+$`)
	for b := range 256 {
		for _, s := range []string{
			string([]byte{byte(b)}), string([]byte{byte(b), 'a'}), string([]byte{'a', byte(b)}), string([]byte{'a', byte(b), 'a'}),
			"hl_" + string([]byte{byte(b)}) + "_a", "hl_a_" + string([]byte{byte(b)}), "hl" + string([]byte{byte(b)}) + "a_a", "hl_a" + string([]byte{byte(b)}) + "a",
		} {
			if got, want := envelope.ValidName(s), name.MatchString(s); got != want {
				t.Errorf("ValidName(%q) = %t", s, got)
			}
			if got, want := envelope.ValidID(s), id.MatchString(s); got != want {
				t.Errorf("ValidID(%q) = %t", s, got)
			}
		}
	}
}

func TestBlankKnowsWhiteSpace(t *testing.T) {
	for r := range rune(unicode.MaxRune + 1) {
		if got, want := envelope.Blank(string(r)), unicode.Is(unicode.White_Space, r) || r == 0xFEFF; got != want {
			t.Errorf("Blank(%U) = %t", r, got)
		}
	}
}

func TestUnquoteTellsCasesApart(t *testing.T) {
	for _, c := range []struct {
		raw, want string
		err       error
	}{
		{`""`, "", nil},
		{`"hi"`, "hi", nil},
		{`"\u0000\ud83d\ude00\/"`, "\x00😀/", nil},
		{"\"\u009b\u2028\"", "\u009b\u2028", nil},
		{`"\ufffd�"`, "��", nil},
		{`"\\ud800"`, `\ud800`, nil},
		{`"\ud7ff\ue000"`, "\ud7ff\ue000", nil},
		{`"\ud800"`, "", envelope.ErrNotText},
		{`"\uDBFFx"`, "", envelope.ErrNotText},
		{`"\udc00"`, "", envelope.ErrNotText},
		{`"\uDFFF\uD800"`, "", envelope.ErrNotText},
		{`"\ud83d\ude00\ude00"`, "", envelope.ErrNotText},
		{`"\ud83d\ud83d\ude00"`, "", envelope.ErrNotText},
		{`"\ud83d` + "😀" + `\ude00"`, "", envelope.ErrNotText},
		{"\"caf\xc3\"", "", envelope.ErrNotText},
		{"\"\xed\xa0\x80\"", "", envelope.ErrNotText},
		{``, "", envelope.ErrNotString},
		{`"`, "", envelope.ErrNotString},
		{`null`, "", envelope.ErrNotString},
		{`7`, "", envelope.ErrNotString},
		{`["a"]`, "", envelope.ErrNotString},
		{`"a","b"`, "", envelope.ErrNotString},
		{` "a"`, "", envelope.ErrNotString},
		{`"a" `, "", envelope.ErrNotString},
		{"\"a\"\n", "", envelope.ErrNotString},
		{`"a\"`, "", envelope.ErrNotString},
		{`"\x41"`, "", envelope.ErrNotString},
		{`"\u12"`, "", envelope.ErrNotString},
		{"\"a\nb\"", "", envelope.ErrNotString},
	} {
		if got, err := envelope.Unquote([]byte(c.raw)); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("Unquote(%q) = %q, %v, want %q, %v", c.raw, got, err, c.want, c.err)
		}
	}
}

func TestEncodeSaysWhatIsWrong(t *testing.T) {
	for part, spoil := range map[string]func(*envelope.Envelope){
		"invalid id":       func(e *envelope.Envelope) { e.ID = "" },
		"invalid from":     func(e *envelope.Envelope) { e.From = "" },
		"invalid to":       func(e *envelope.Envelope) { e.To = "-x" },
		"invalid reply_to": func(e *envelope.Envelope) { e.ReplyTo = "x" },
		"blank message":    func(e *envelope.Envelope) { e.Message = "" },
		"not Unicode text": func(e *envelope.Envelope) { e.Message = "\xff" },
	} {
		e := longest
		spoil(&e)
		if _, err := envelope.Encode(e); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want %s", err, part)
		} else if errors.Is(err, envelope.ErrNotText) != (part == "not Unicode text") {
			t.Errorf("%v and ErrNotText", err)
		}
	}
}

// TestDepthLimit holds Parse to the limit in its comment.
func TestDepthLimit(t *testing.T) {
	nested := func(depth int) string { // the object itself is the first level
		line, _ := envelope.Encode(longest)
		return string(line[:len(line)-1]) + `,"x":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + "}"
	}
	if _, err := envelope.Parse(nested(10_000)); err != nil {
		t.Errorf("10,000 deep: %v", err)
	}
	if _, err := envelope.Parse(nested(10_001)); !errors.Is(err, envelope.ErrNone) {
		t.Errorf("10,001 deep: %v", err)
	}
}
