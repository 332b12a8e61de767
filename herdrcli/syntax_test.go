package herdrcli

import (
	"regexp"
	"strings"
	"testing"
)

var syntaxes = []struct {
	pattern string
	valid   func(string) bool
}{
	{WorkspacePattern, IsWorkspace}, {TabPattern, IsTab}, {PanePattern, IsPane}, {NamePattern, IsName}, {TargetPattern, IsTarget},
}

func TestSyntax(t *testing.T) {
	t.Parallel()
	hits := 0
	check := func(s string) {
		for _, x := range syntaxes {
			want := regexp.MustCompile(x.pattern).MatchString(s)
			if want {
				hits++
			}
			if got := x.valid(s); got != want {
				t.Errorf("%s on %q: %t, want %t", x.pattern, s, got, want)
			}
		}
	}
	long := strings.Repeat("a", 33)
	for _, s := range []string{
		"", "w", "w1", "wZ9", "W1", "w1 ", "w1\n", "w-1", "w1:p1", "w1:t1", "w1:p", "w1:", ":p1", "w:p1", "w1:q1", "w1:p1:p1", "w1p1", "w1:pé",
		"lead", "l", "Lead", "1lead", "_a", "-a", "a-_9", "a.b", "a\n", "hl-0a", long[:32], long,
		"w" + long[:16], "w" + long[:17], "w1:p" + long[:16], "w1:p" + long[:17], "w" + long[:17] + ":p1", "term_66180279f36e42", "1-1", "w1:t1\x00",
	} {
		check(s)
	}
	if hits < 15 {
		t.Errorf("only %d matches", hits)
	}
}

func FuzzSyntax(f *testing.F) {
	for _, s := range []string{"w1", "w1:t1", "w1:p1", "lead", "a-_9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, x := range syntaxes {
			if got, want := x.valid(s), regexp.MustCompile(x.pattern).MatchString(s); got != want {
				t.Errorf("%s on %q: %t, want %t", x.pattern, s, got, want)
			}
		}
	})
}

func TestReserved(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"--session": true, "--session=x": true, "--session=work\nplease": true, "--remote": true, "--remote=a": true,
		"--remote-keybindings": true, "--remote-keybindings=x": true, "--handoff": true, "--handoff=1": true,
		"": false, "--": false, "--sessions": false, "use --session=other": false, " --session": false, "-session": false, "--wait": false, "--remotely=1": false,
	} {
		if Reserved(text) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
}
