package screen

import (
	"strings"
	"testing"
	"unicode/utf8"
)

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
		if got, cut := Plain(text, 100); got != want || cut {
			t.Errorf("%q: %q, %t", text, got, cut)
		}
	}
	got, truncated := Plain(strings.Repeat("x", 10)+strings.Repeat("ä", 10), 9)
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
		got, _ := Plain(text, 1<<20)
		for _, r := range got {
			if r < ' ' && r != '\n' && r != '\t' || r >= 0x7F && r <= 0x9F {
				t.Errorf("%q: %q has %U", text, got, r)
			}
		}
		if again, _ := Plain(got, 1<<20); again != got || !utf8.ValidString(got) {
			t.Errorf("%q: %q, and then %q", text, got, again)
		}
	})
}
