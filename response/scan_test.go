package response

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// accepts reports whether the scanner takes the text as one value.
func accepts(text []byte) bool {
	s := newScanner(bytes.NewReader(text))
	s.skip()
	ok := s.err == nil
	s.peek()
	return ok && errors.Is(s.err, errEnd)
}

var texts = []string{
	`{}`, `[]`, `[[[]],{}]`, `{"a":1,"b":[true,false,null],"c":"x"}`, ` { "a" : [ 1 , 2 ] } `, `[0,-0,1.5,-1e9,2E+3,1e-2]`, `["\u00e4\ud83d\ude00\\\"\/\b\f\n\r\t"]`,
	`[01]`, `[1.]`, `[.5]`, `[-]`, `[1e]`, `[+1]`, `[1,]`, `[,1]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `{1:1}`, `{"a":1 "b":2}`, `[1 2]`, `[tru]`, `[nul]`,
	`["\x"]`, `["\u12"]`, `["\u12g4"]`, "[\"a\nb\"]", "[\"\x00\"]", `["`, `{"a":`, `[`, `{`, `]`, `}`, `[]]`, `{}{}`, "[\"\xff\xfe\"]", "\ufeff{}", `["\ud800"]`, `["\udc00"]`, `["\ud800\ud800\udc00"]`, `["\ud800x"]`,
	strings.Repeat("[", 999) + strings.Repeat("]", 999),
}

// The scanner takes what package json takes.
func FuzzSkip(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if trimmed := bytes.TrimLeft(text, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' && trimmed[0] != '[' {
			return // it reads objects and arrays only
		}
		if bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) > maxDepth {
			return
		}
		if got, want := accepts(text), json.Valid(text); got != want {
			t.Errorf("%q: %t, package json: %t", text, got, want)
		}
	})
}

func TestDepth(t *testing.T) {
	for depth, want := range map[int]bool{maxDepth: true, maxDepth + 1: false, 1 << 20: false} {
		if got := accepts([]byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))); got != want {
			t.Errorf("%d deep: %t", depth, got)
		}
	}
}

// A string is what package json makes of it, and always UTF-8, in whatever
// pieces it comes.
func FuzzText(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	for _, text := range []string{"\xff\xfe", "a\xe2\x82", "\xed\xa0\x80x", `\ud83d\ude00`, `\ud800`, `\udc00\ud800\udbff\udfff`, `\u00e4\n\/\"`, "ü\x7f"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		text := append(append([]byte{'"'}, raw...), '"')
		var want string
		if json.Unmarshal(text, &want) != nil {
			return
		}
		for name, r := range map[string]io.Reader{"whole": bytes.NewReader(text), "in bytes": iotest.OneByteReader(bytes.NewReader(text))} {
			if got, ok := newScanner(r).text([]byte("x")); !ok || string(got) != "x"+want {
				t.Errorf("%s: %q, package json: %q", name, got, want)
			}
		}
	})
}

func TestShort(t *testing.T) {
	for text, want := range map[string]string{
		`"abc"`: "abc", `"\u00e4"`: "ä", `"a\nb"`: "", `"a\u0085b"`: "", "\"\xff\"": "", `5`: "", `null`: "", `{"a":"b"}`: "",
		quote(strings.Repeat("x", maxWord)): strings.Repeat("x", maxWord), quote(strings.Repeat("x", maxWord+1)): "",
	} {
		s := newScanner(strings.NewReader("[" + text + ",1]"))
		var got []string
		s.array(func() { got = append(got, s.short()) })
		if s.err != nil || len(got) != 2 || got[0] != want {
			t.Errorf("%.40s: %q, %v", text, got, s.err)
		}
	}
}

// What a callback leaves alone is skipped; what is of another type, too.
func TestScanner(t *testing.T) {
	s := newScanner(strings.NewReader(`{"a":[1,{"b":2}],"c":"d","e":{"f":true,"g":null},"h":"i","c":"last"}`))
	var c, h string
	var f, g bool
	s.object(func(key []byte) {
		switch string(key) {
		case "c":
			c = s.short()
		case "e":
			s.object(func(key []byte) {
				switch string(key) {
				case "f":
					f = s.isTrue()
				case "g":
					g = s.isSet()
				}
			})
		case "h":
			s.object(func([]byte) { t.Error("h is no object") })
			h = "passed"
		}
	})
	if s.err != nil || c != "last" || !f || g || h != "passed" {
		t.Errorf("%q %t %t %q %v", c, f, g, h, s.err)
	}
}

// A broken line does not spoil the next, and one without an end is none.
func TestLines(t *testing.T) {
	s := newScanner(strings.NewReader("{\"a\":1}\r\n\n{\"a\":\n[2]\n{\"a\":3} x\n  {\"a\":4} \n{\"a\":\"5\n{\"a\":6}"))
	var whole []string
	for n := 1; s.line(); n++ {
		s.object(func([]byte) {})
		if s.lineEnds() {
			whole = append(whole, string(rune('0'+n)))
		}
	}
	if got := strings.Join(whole, ""); got != "146" || !errors.Is(s.err, errEnd) {
		t.Errorf("%s, %v", got, s.err)
	}
}

func TestPatient(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	s := newScanner(patient{ctx, strings.NewReader("{}")})
	if s.skip(); !errors.Is(s.err, context.Canceled) {
		t.Error(s.err)
	}
	s = newScanner(iotest.ErrReader(io.ErrClosedPipe))
	if s.line() || !errors.Is(s.err, io.ErrClosedPipe) {
		t.Error(s.err)
	}
}

func recorded(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
