package hosts

import (
	"bytes"
	"fmt"
	"strings"
)

// diff shows the change of a file as patch would read it, with little around
// it: what stands there may be secret.
func diff(name string, old, new []byte) string {
	a, b := lines(old), lines(new)
	var out strings.Builder
	from, to := name, name
	if old == nil {
		from = "/dev/null"
	}
	if new == nil {
		to = "/dev/null"
	}
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", from, to)
	for _, h := range hunks(a, b) {
		before := min(1, h.a0)
		after := min(1, len(a)-h.a1)
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(h.a0-before, h.a1+after), span(h.b0-before, h.b1+after))
		put := func(mark string, of []string) {
			for _, l := range of {
				out.WriteString(mark + strings.TrimRight(l, "\r\n") + "\n")
				if !strings.HasSuffix(l, "\n") {
					out.WriteString("\\ No newline at end of file\n")
				}
			}
		}
		put(" ", a[h.a0-before:h.a0])
		put("-", a[h.a0:h.a1])
		put("+", b[h.b0:h.b1])
		put(" ", a[h.a1:h.a1+after])
	}
	return out.String()
}

func lines(text []byte) (all []string) {
	for l := range bytes.Lines(text) {
		all = append(all, string(l))
	}
	return all
}

func span(from, to int) string {
	if from == to {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

type hunk struct{ a0, a1, b0, b1 int }

// hunks returns what differs. Our edits add or change few lines, so looking for
// the next line that both have, a little ahead, is enough.
func hunks(a, b []string) (all []hunk) {
	const ahead = 200
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		if i < len(a) && j < len(b) && a[i] == b[j] {
			i, j = i+1, j+1
			continue
		}
		h := hunk{a0: i, b0: j, a1: len(a), b1: len(b)}
	search:
		for n := 1; n <= ahead; n++ { // of skipped lines, on both sides together
			for x := 0; x <= n; x++ {
				if p, q := i+x, j+n-x; p < len(a) && q < len(b) && a[p] == b[q] && (p+1 >= len(a) || q+1 >= len(b) || a[p+1] == b[q+1]) {
					h.a1, h.b1 = p, q
					break search
				}
			}
		}
		i, j = h.a1, h.b1
		if n := len(all) - 1; n >= 0 && h.a0-all[n].a1 <= 2 { // what is shown around them would overlap
			all[n].a1, all[n].b1 = h.a1, h.b1
			continue
		}
		all = append(all, h)
	}
	return all
}
