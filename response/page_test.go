package response

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"herdr-link/mcp"
)

// paged is a reader of an answer that is there already.
func paged() *Reader { return New(Options{Getenv: func(string) string { return "" }}) }

// pages cuts a text to its end.
func pages(t *testing.T, r *Reader, text string, size int) (list []*page) {
	t.Helper()
	a := &answer{"claude", uuid, "m1", "claude", "end_turn", []byte(text)}
	at := cursor{Version: 1, Host: a.host, Target: "worker", Session: a.session, Message: a.message, Role: a.role, Digest: digest(a.text), Expires: 1}
	var whole strings.Builder
	for {
		p, err := r.cut(a, at, size)
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.ValidString(*p.Text) || p.Offset != whole.Len() || p.NextOffset != p.Offset+len(*p.Text) || p.TotalBytes != len(text) ||
			p.Complete != (p.Cursor == nil) || p.Complete != (p.NextOffset == len(text)) || len(*p.Text) > size || len(mcp.Marshal(p)) > maxResult {
			t.Fatalf("%+v", p)
		}
		whole.WriteString(*p.Text)
		list = append(list, p)
		if p.Complete {
			break
		}
		next, err := readCursor(r.secret, *p.Cursor)
		if err != nil || next.Offset != p.NextOffset || next.Expires != at.Expires {
			t.Fatalf("%+v, %v", next, err)
		}
		at = *next
	}
	if whole.String() != text {
		t.Error("the pages are not the text")
	}
	return list
}

func TestPages(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		size int
		want []int // where each page begins
	}{
		"one":              {"yes", 1024, []int{0}},
		"all of a page":    {strings.Repeat("x", 1024), 1024, []int{0}},
		"one byte more":    {strings.Repeat("x", 1025), 1024, []int{0, 1024}},
		"four":             {strings.Repeat("x", 24500), 8192, []int{0, 8192, 16384}},
		"wide":             {strings.Repeat("🦀", 512), 1025, []int{0, 1024}},
		"wide, at an edge": {"x" + strings.Repeat("🦀", 512), 1025, []int{0, 1025}},
		"wider, off it":    {"xx" + strings.Repeat("🦀", 512), 1025, []int{0, 1022, 2046}},
		"HTML is no more":  {strings.Repeat("<&>", 16384/3), 16384, []int{0}},
		"escaped":          {strings.Repeat("\x01", 16384), 16384, []int{0, 4096, 8192, 12288}},
		"quotes":           {strings.Repeat("\"", 16384), 16384, []int{0, 8192}},
		"separators":       {strings.Repeat("\u2028", 5461), 16384, []int{0, 8190}},
	} {
		var got []int
		for _, p := range pages(t, paged(), test.text, test.size) {
			got = append(got, p.Offset)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestPagesOfAnything(t *testing.T) {
	letters := []rune("aé€🦀<\"\n\x01\u2028")
	for range 200 {
		text := make([]rune, 1+rand.IntN(20000))
		for i := range text {
			text[i] = letters[rand.IntN(len(letters))]
		}
		pages(t, paged(), string(text), minPage+rand.IntN(maxPage-minPage))
	}
}

// What cannot be told in any page is no endless loop.
func TestBudget(t *testing.T) {
	a := &answer{"claude", uuid, "m1", "claude", "end_turn", []byte("yes")}
	if _, err := paged().cut(a, cursor{Target: strings.Repeat("x", maxResult)}, maxPage); !errors.Is(err, errBudget) {
		t.Error(err)
	}
	a.text = bytes.Repeat(a.text, 1000)
	if _, err := paged().cut(a, cursor{Message: strings.Repeat("\\", maxCursor)}, minPage); !errors.Is(err, errBudget) {
		t.Errorf("a cursor that nobody takes: %v", err)
	}
}

var sample = cursor{Version: 1, Host: "claude", Target: "worker", Session: uuid, Message: "m", Role: "claude", Digest: "d", Offset: 1024, Expires: 1796085437000}

func TestCursor(t *testing.T) {
	secret := bytes.Repeat([]byte{7}, SecretSize)
	good := sample.sign(secret)
	if c, err := readCursor(secret, good); err != nil || *c != sample {
		t.Errorf("%+v, %v", c, err)
	}
	bad := map[string]string{"empty": "", "a point": ".", "no mac": good[:strings.Index(good, ".")+1], "no payload": good[strings.Index(good, "."):],
		"three parts": good + ".x", "behind it": good + "=", "before it": " " + good, "too long": good + strings.Repeat("A", maxCursor)}
	for i := range good {
		for _, c := range []byte("Aa0_-.!") {
			if good[i] != c {
				bad[fmt.Sprint("changed at ", i)] = good[:i] + string(c) + good[i+1:]
			}
		}
		bad[fmt.Sprint("cut at ", i)] = good[:i]
	}
	// Signed, but of a form that this version does not write.
	for name, payload := range map[string]string{
		"no JSON": "x", "an array": "[]", "version 2": strings.Replace(string(mcp.Marshal(sample)), `"v":1`, `"v":2`, 1),
		"a fraction": strings.Replace(string(mcp.Marshal(sample)), `1024`, `1024.5`, 1), "a text": strings.Replace(string(mcp.Marshal(sample)), `1024`, `"1024"`, 1),
		"negative": strings.Replace(string(mcp.Marshal(sample)), `1024`, `-1`, 1), "unsafe": strings.Replace(string(mcp.Marshal(sample)), `1024`, `9007199254740992`, 1),
		"no session": strings.Replace(string(mcp.Marshal(sample)), uuid, ``, 1),
	} {
		part := b64.EncodeToString([]byte(payload))
		bad[name] = part + "." + signature(secret, part)
	}
	for name, text := range bad {
		if _, err := readCursor(secret, text); !errors.Is(err, errCursor) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readCursor(bytes.Repeat([]byte{8}, SecretSize), good); !errors.Is(err, errCursor) {
		t.Errorf("of another process: %v", err)
	}
}

// Only what this process has signed is a cursor, and it is written in one way.
func FuzzCursor(f *testing.F) {
	secret := bytes.Repeat([]byte{7}, SecretSize)
	other := sample
	other.Target, other.Offset = "w1:p2", 0
	f.Add(sample.sign(secret))
	f.Add(other.sign(secret))
	f.Add("a.b")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := readCursor(secret, text)
		switch {
		case err == nil && c.sign(secret) != text:
			t.Errorf("%q is a cursor, and would be %q", text, c.sign(secret))
		case err != nil && !errors.Is(err, errCursor):
			t.Error(err)
		}
		signed := b64.EncodeToString([]byte(text)) // as if the secret were known
		if c, err := readCursor(secret, signed+"."+signature(secret, signed)); err == nil && (c.Offset < 0 || c.Version != 1 || c.Session == "") {
			t.Errorf("%q: %+v", text, c)
		}
	})
}

// A cursor is good for six hours from the first page, and no longer for later ones.
func TestExpiry(t *testing.T) {
	s := newStage(t)
	s.put(s.claude(), claudeAnswer(strings.Repeat("x", 3000)))
	s.session("w1:p2", "claude", uuid)
	r := s.reader()
	begin := time.UnixMilli(1796085437000)
	r.now = func() time.Time { return begin }
	next := quote(*ask(t, r, `"target":"reviewer","maxBytes":1024`).Cursor)
	for after, want := range map[time.Duration]string{0: "", cursorTime: "", cursorTime + time.Millisecond: "EXPIRED_CURSOR"} {
		r.now = func() time.Time { return begin.Add(after) }
		if a := ask(t, r, `"maxBytes":1024,"cursor":`+next); a.code() != want {
			t.Errorf("after %v: %s", after, a.raw)
		}
	}
	r.now = func() time.Time { return begin.Add(time.Hour) }
	next = quote(*ask(t, r, `"maxBytes":1024,"cursor":`+next).Cursor)
	r.now = func() time.Time { return begin.Add(cursorTime + time.Millisecond) }
	if a := ask(t, r, `"cursor":`+next); a.code() != "EXPIRED_CURSOR" {
		t.Errorf("a later page: %s", a.raw)
	}
}
