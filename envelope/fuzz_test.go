package envelope_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"herdr-link/envelope"
)

// maxSeed keeps the huge vectors out of the fuzzer: they would slow it down.
const maxSeed = 4096

// quiet fails if s holds a character on which a terminal could act.
func quiet(t *testing.T, s string) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Errorf("%q is not UTF-8", s)
	}
	for _, r := range s {
		if r < ' ' || r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029' {
			t.Errorf("%U is in %q", r, s)
		}
	}
}

// allowed says without the package's help whether e may be written, where
// names and ids are left to the tests of their own.
func allowed(e envelope.Envelope) bool {
	return envelope.ValidID(e.ID) && envelope.ValidName(e.From) && envelope.ValidName(e.To) &&
		(e.ReplyTo == "" || envelope.ValidID(e.ReplyTo)) &&
		utf8.ValidString(e.Message) && strings.TrimSpace(strings.ReplaceAll(e.Message, "\uFEFF", "")) != ""
}

// FuzzParse: what is read comes back when written and read again, noise
// around it changes nothing, and all else is ErrNone.
func FuzzParse(f *testing.F) {
	for _, v := range vectors(f) {
		if len(v.body) < maxSeed {
			f.Add(v.body)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := envelope.Parse(text)
		if err != nil {
			if !errors.Is(err, envelope.ErrNone) || e != (envelope.Envelope{}) {
				t.Errorf("Parse(%q) = %+v, %v", text, e, err)
			}
			return
		}
		if !allowed(e) {
			t.Errorf("Parse(%q) = %+v", text, e)
		}
		line, err := envelope.Encode(e)
		if err != nil {
			t.Fatalf("Encode(%+v): %v", e, err)
		}
		quiet(t, string(line))
		for _, again := range []string{
			string(line), text + "\n{\xff}", "{\n" + text, strings.ReplaceAll(text, "\n", "\t\r\n "), "{}\n \t" + string(line) + "\r\n\n}\n",
		} {
			if got, err := envelope.Parse(again); err != nil || got != e {
				t.Errorf("Parse(%q) = %+v, %v, want %+v", again, got, err, e)
			}
		}
	})
}

func seedFields(f *testing.F) {
	for _, v := range vectors(f) {
		e := v.fields
		if v.fields == (envelope.Envelope{}) {
			e = envelope.Envelope{ID: "hl_a_b", From: "a", To: "b", Message: v.body}
		}
		if len(e.Message) < maxSeed {
			f.Add(e.ID, e.From, e.To, e.ReplyTo, e.Message)
		}
	}
}

// FuzzEncode: only what is allowed is written, in the fixed order, on one
// line on which no terminal acts, and any JSON reader and ours read it back.
func FuzzEncode(f *testing.F) {
	seedFields(f)
	f.Fuzz(func(t *testing.T, id, from, to, replyTo, message string) {
		e := envelope.Envelope{ID: id, From: from, To: to, ReplyTo: replyTo, Message: message}
		line, err := envelope.Encode(e)
		if (err == nil) != allowed(e) {
			t.Fatalf("Encode(%+v): %v", e, err)
		}
		if err != nil {
			return
		}
		quiet(t, string(line))
		if got, err := envelope.Parse(string(line)); err != nil || got != e {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", line, got, err, e)
		}
		want := map[string]any{"protocol": "herdr-link/1", "id": id, "from": from, "to": to, "message": message}
		start := `{"protocol":"herdr-link/1","id":"` + id + `","from":"` + from + `","to":"` + to + `",`
		if replyTo != "" {
			want["reply_to"] = replyTo
			start += `"reply_to":"` + replyTo + `",`
		}
		if !strings.HasPrefix(string(line), start+`"message":"`) {
			t.Errorf("%q does not start with %q", line, start)
		}
		var got map[string]any
		if err := json.Unmarshal(line, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %v, %v", line, got, err)
		}
	})
}

// FuzzWrap: the text begins with the marker, costs at most 500 bytes, has no
// character on which a terminal acts but its own newlines, ends with the
// envelope, and is read as that envelope, also if the message holds others.
func FuzzWrap(f *testing.F) {
	seedFields(f)
	f.Fuzz(func(t *testing.T, id, from, to, replyTo, message string) {
		e := envelope.Envelope{ID: id, From: from, To: to, ReplyTo: replyTo, Message: message}
		text, err := envelope.Wrap(e)
		if (err == nil) != allowed(e) {
			t.Fatalf("Wrap(%+v): %v", e, err)
		}
		if err != nil {
			return
		}
		checkWrapped(t, e, text)
		for _, message := range []string{text, text + "\n", "\n" + message + "\r\n" + text[strings.LastIndexByte(text, '\n'):]} {
			outer := envelope.Envelope{ID: "hl_outer_1", From: "outer", To: "b", Message: message}
			text, err := envelope.Wrap(outer)
			if err != nil {
				t.Fatalf("Wrap(%+v): %v", outer, err)
			}
			checkWrapped(t, outer, text)
		}
	})
}

func checkWrapped(t *testing.T, e envelope.Envelope, text string) {
	t.Helper()
	line, err := envelope.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	head, ok := strings.CutSuffix(text, "\n\n"+string(line))
	if !ok || len(text)-len(line) > 500 || !strings.HasPrefix(head, "[herdr-link/1] ") || strings.Count(text, "\n") != 4 {
		t.Errorf("%+v is wrapped as %q", e, text)
	}
	quiet(t, strings.ReplaceAll(text, "\n", ""))
	if got, err := envelope.Parse(text); err != nil || got != e {
		t.Errorf("Parse(%q) = %+v, %v, want %+v", text, got, err, e)
	}
}

// FuzzUnquote: where nothing had to be replaced, the result is that of
// encoding/json; everything else is one of the two errors, and the right one.
func FuzzUnquote(f *testing.F) {
	for _, v := range vectors(f) {
		if len(v.body) > maxSeed {
			continue
		}
		f.Add([]byte(v.body))
		f.Add([]byte(`"` + v.body + `"`))
		if _, message, ok := strings.Cut(v.body, `"message":`); ok {
			f.Add([]byte(strings.TrimSuffix(message, "}")))
		}
		quoted, _ := json.Marshal(v.fields.Message)
		f.Add(quoted)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want any
		isJSON := json.Unmarshal(raw, &want) == nil
		text, isString := want.(string)
		isString = isString && isJSON && raw[0] == '"' && raw[len(raw)-1] == '"'
		got, err := envelope.Unquote(raw)
		switch {
		case err == nil && (!isString || got != text):
			t.Errorf("Unquote(%q) = %q, want %q", raw, got, text)
		case err != nil && got != "":
			t.Errorf("Unquote(%q) = %q with %v", raw, got, err)
		case isString && errors.Is(err, envelope.ErrNotString), !isString && !errors.Is(err, envelope.ErrNotString):
			t.Errorf("Unquote(%q): %v", raw, err)
		case isString && (err != nil) != replaced(raw, text):
			t.Errorf("Unquote(%q): %v, but encoding/json gave %q", raw, err, text)
		}
	})
}

// replaced reports whether encoding/json put a U+FFFD into text that is not in
// raw: neither as itself nor as an escape.
func replaced(raw []byte, text string) bool {
	// An escaped backslash must not begin what looks like an escape.
	s := strings.ReplaceAll(string(raw), `\\`, "  ")
	own := len(regexp.MustCompile(`(?i)\\ufffd`).FindAllString(s, -1))
	for i, r := range s {
		if _, size := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && size == 3 {
			own++
		}
	}
	return strings.Count(text, "\uFFFD") != own
}
