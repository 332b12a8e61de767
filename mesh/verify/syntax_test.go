package verify

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// What is read by hand is what these say.
var (
	requirement = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._, -]*\])?==[A-Za-z0-9][A-Za-z0-9.!+_-]*$`)
	hashOption  = regexp.MustCompile(`^--hash=sha256:[0-9a-fA-F]{64}$`)
	marker      = regexp.MustCompile(`^(?:[a-z_]+|'[A-Za-z0-9._ +*-]*'|"[A-Za-z0-9._ +*-]*"|[()]|[<>=!~]=?=?|\s)+$`)
	gateName    = regexp.MustCompile(`^Minimum final gate: just ([A-Za-z0-9_-]{1,100})$`)
)

func TestSyntax(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("aB", 32)
	seeds := []string{
		"name==1.0", "a[b,c]==1", "a==1!2+x", "n.a-m_e==0", "-a==1", "a-==1", "a==", "==1", "a[b==1", "a]==1", "a[]==1", "a[b]c==1", "a==b==c", "ä==1", "a=1", "",
		"--hash=sha256:" + sum, "--hash=sha256:" + sum[1:], "--hash=md5:" + sum, "--hash=sha256:" + sum + "0",
		` python_version >= "3.8" and os_name == 'nt'`, ` (extra=='x')`, `'`, `"a'`, `a ; b`, `3`, `--index`, "a\u00a0b", "a\tb", "===x", "a '--x' b", "\v",
		"Minimum final gate: just check-fast", "Minimum final gate: just ", "Minimum final gate: just a b", "Minimum final gate: just " + strings.Repeat("x", 101),
		"Minimum final gate: just " + strings.Repeat("x", 100), "Minimum final gate:just a",
	}
	try := func(s string) {
		t.Helper()
		if got, want := isRequirement(s), requirement.MatchString(s); got != want {
			t.Errorf("requirement %q: %t", s, got)
		}
		if got, want := isHash(s), hashOption.MatchString(s); got != want {
			t.Errorf("hash %q: %t", s, got)
		}
		if got, want := isMarker(s), marker.MatchString(s); got != want {
			t.Errorf("marker %q: %t", s, got)
		}
		want := ""
		if found := gateName.FindStringSubmatch(s); found != nil {
			want = found[1]
		}
		if got := gate(s); !strings.Contains(s, "\n") && got != want {
			t.Errorf("gate %q: %q", s, got)
		}
	}
	pieces := strings.Split("a B 3 . _ - , [ ] == = ! + ' \" ( ) < > ~ * ; ä \t \n --hash=sha256: "+sum, " ")
	pieces = append(pieces, " ", "\u00a0", "Minimum final gate: just ")
	for _, s := range seeds {
		try(s)
		for range 200 { // one piece more, less or another
			i, j := rand.N(len(s)+1), rand.N(len(s)+1)
			try(s[:min(i, j)] + pieces[rand.N(len(pieces))] + s[max(i, j):])
		}
	}
	for range 20000 {
		var b strings.Builder
		for range rand.N(8) {
			b.WriteString(pieces[rand.N(len(pieces))])
		}
		try(b.String())
	}
}
