package mesh

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"herdr-link/mesh/fault"
)

// The first block is the JSON without terminals' texts; these follow in its
// order, and the structure has all.
func TestSucceeded(t *testing.T) {
	answer := `{"mode":"all","completed":[{"target":"a","output":"<one>\n","n":9007199254740993},{"output":"two","target":"b"}],` +
		`"failed":[],"none":{},"record":{"stdoutTail":"three","stderrTail":"","ok":true},"terminalOutput":"four","output":{"output":["odd",null,1.50]}}`
	r := succeeded(json.RawMessage(answer))
	if string(r.Structured) != answer || r.IsError {
		t.Errorf("structure %s", r.Structured)
	}
	if want := []string{"<one>\n", "two", "three", "four"}; !reflect.DeepEqual(r.Text[1:], want) {
		t.Errorf("texts %q", r.Text[1:])
	}
	var brief strings.Builder
	for line := range strings.Lines(r.Text[0]) {
		brief.WriteString(strings.TrimSpace(line))
		if len(line) > 60 {
			t.Errorf("a long line: %s", line)
		}
	}
	want := `{"mode": "all","completed": [{"target": "a","n": 9007199254740993},{"target": "b"}],` +
		`"failed": [],"none": {},"record": {"ok": true},"output": {"output": ["odd",null,1.50]}}`
	if brief.String() != want {
		t.Errorf("got  %s\nwant %s", &brief, want)
	}
}

func TestFailed(t *testing.T) {
	r := failed(fault.New("WAIT_TIMEOUT", "too <late>").With("last", []agent{{Target: "a", Status: "working", Cursor: 7}}))
	const want = `{"error":{"code":"WAIT_TIMEOUT","message":"too <late>","retryable":true,` +
		`"details":{"last":[{"target":"a","status":"working","paneId":"","terminalId":"","stateChangeSeq":7}]}}}`
	if string(r.Structured) != want || !r.IsError || !reflect.DeepEqual(r.Text, []string{"WAIT_TIMEOUT: too <late>"}) {
		t.Errorf("%s, %q", r.Structured, r.Text)
	}
	if r := failed(fault.New("INTERNAL", "x")); strings.Contains(string(r.Structured), "details") || !strings.Contains(string(r.Structured), `"retryable":false`) {
		t.Errorf("%s", r.Structured)
	}
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"a\tb\nc\r\n":                 "a\tb\nc\n",
		"\x1b[31mred\x1b[0m":          "red",
		"\u009b31mred\u009bm":         "red",
		"\x1b]0;title\x07text":        "text",
		"\x1b]8;;http://x\x1b\\text":  "text",
		"\u009dtitle\u009ctext":       "text",
		"\x1bPq#1\x1b\\text":          "text",
		"\x1b]open\nnext line":        "\nnext line",
		"\x1b]open":                   "",
		"\x1b[31\nbroken":             "\nbroken",
		"\x1b[":                       "",
		"\x1b(Bx\x1b=y\x1bMz":         "xyz",
		"end\x1b":                     "end",
		"bell\a back\b\x00\x7f\u0085": "bell back",
		"\xff ok":                     "\uFFFD ok",
		"äöü 👍 \u2028":                "äöü 👍 \u2028",
	} {
		if got, cut := plain(text, 100); got != want || cut {
			t.Errorf("%q: %q, %t", text, got, cut)
		}
	}
	got, truncated := plain(strings.Repeat("x", 10)+strings.Repeat("ä", 10), 9)
	if got != "ääää" || !truncated {
		t.Errorf("the end: %q, %t", got, truncated)
	}
}

// No control character but tab and newline comes through, and what is clean
// stays as it is.
func FuzzPlain(f *testing.F) {
	for _, text := range []string{"a\x1b[1mb", "\u009d\x1b", "\x1b]x\x1b[", "ok\n", "\x1b( \x1b(B", "\xc2"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, _ := plain(text, 1<<20)
		for _, r := range got {
			if r < ' ' && r != '\n' && r != '\t' || r >= 0x7F && r <= 0x9F {
				t.Errorf("%q: %q has %U", text, got, r)
			}
		}
		if again, _ := plain(got, 1<<20); again != got || !utf8.ValidString(got) {
			t.Errorf("%q: %q, and then %q", text, got, again)
		}
	})
}
