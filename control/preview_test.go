package control

import (
	"slices"
	"testing"
	"time"
)

func TestTokens(t *testing.T) {
	now := time.Now()
	var kept tokens
	issue := func(tool string) string {
		return kept.issue(ticket{tool: tool, digest: tool, expires: now.Add(tokenTime)}).token
	}
	a, b := issue("run"), issue("run")
	if a == b || !isToken(a) || !isToken(b) {
		t.Fatalf("%q, %q", a, b)
	}
	if k, ok := kept.take(a, "run", now.Add(tokenTime-1)); !ok || k.digest != "run" {
		t.Error("a good token is refused")
	}
	if _, ok := kept.take(a, "run", now); ok {
		t.Error("a token counts twice")
	}
	if _, ok := kept.take(b, "run", now.Add(tokenTime)); ok {
		t.Error("a token counts after its time")
	}
	if _, ok := kept.take(b, "run", now); ok {
		t.Error("an attempt does not consume a token")
	}
	c := issue("run")
	if _, ok := kept.take(c, "prompt", now); ok {
		t.Error("a token counts for another tool")
	}
	if _, ok := kept.take(c, "run", now); ok {
		t.Error("another tool's attempt does not consume a token")
	}
	var all []string
	for range maxTokens + 1 {
		all = append(all, issue("run"))
	}
	if _, ok := kept.take(all[0], "run", now); ok {
		t.Error("more tokens are kept than may be")
	}
	for _, token := range slices.Backward(all[1:]) {
		if _, ok := kept.take(token, "run", now); !ok {
			t.Error("a token was lost")
		}
	}
}

func TestDigest(t *testing.T) {
	seen := map[string]bool{}
	for _, list := range [][]string{nil, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"b", "a"}, {"a\x00b"}} {
		d := digest(list)
		if len(d) != 64 || seen[d] {
			t.Errorf("%q: %s", list, d)
		}
		seen[d] = true
	}
	// The length as eight bytes, the most significant first, then the element.
	if got := digest([]string{"ab"}); got != "9caccc24b5d7e06c21c0277b6530d66664273e11f326515c58eaa3691afccfff" {
		t.Error(got)
	}
}
