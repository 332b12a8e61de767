package attest

import (
	"context"
	"os"
	"reflect"
	"runtime"
	"testing"

	"herdr-link/mesh/fault"
)

// A tree of processes: 100 is this one, its ancestors follow.
func tree(parents map[int]int) view {
	return func(_ context.Context, pid int) (seen, bool) {
		parent, known := parents[pid]
		return seen{parent: parent, start: "s" + string(rune('0'+pid/10))}, known
	}
}

var family = map[int]int{100: 90, 90: 80, 80: 70, 70: 60, 60: 1, 1: 0}

func TestCaller(t *testing.T) {
	t.Parallel()
	circle := map[int]int{100: 90, 90: 100}
	for name, tc := range map[string]struct {
		parents  map[int]int
		boot     string
		shell    int
		unproven bool
		want     int // 0: none
		code     string
	}{
		"the agent, behind two wrappers":     {family, "b", 60, false, 70, ""},
		"behind none":                        {family, "b", 80, false, 90, ""},
		"run by the shell":                   {family, "b", 90, false, 90, ""},
		"the pane's first process":           {family, "b", 100, false, 100, ""},
		"another pane":                       {family, "b", 55, false, 0, "CALLER_PANE_UNPROVEN"},
		"another pane, and that is fine":     {family, "b", 55, true, 0, ""},
		"in the pane, though it need not be": {family, "b", 60, true, 70, ""},
		"no shell known":                     {family, "b", 0, false, 90, ""},
		"no shell known, no parent":          {map[int]int{100: 0}, "b", 0, false, 0, ""},
		"no boot known":                      {family, "", 60, false, 0, ""},
		"a circle":                           {circle, "b", 55, false, 0, "CALLER_PANE_UNPROVEN"},
	} {
		p, err := caller(t.Context(), tree(tc.parents), tc.boot, tc.shell, 100, tc.unproven)
		var got int
		if p != nil {
			got = p.PID
			if want := (Process{tc.want, "b", "s" + string(rune('0'+tc.want/10))}); *p != want {
				t.Errorf("%s: %+v", name, p)
			}
		}
		if got != tc.want || fault.Code(err) != tc.code {
			t.Errorf("%s: process %d, %v", name, got, err)
		}
	}
	p, err := caller(t.Context(), tree(map[int]int{100: 90}), "b", 60, 100, false) // 90 is not shown
	if (err == nil) != blind || p != nil {
		t.Errorf("a process that is not shown: %+v, %v", p, err)
	}
	if chain, known := ancestors(t.Context(), tree(circle), 100); len(chain) != 2 || !known {
		t.Errorf("round the circle: %v, %t", chain, known)
	}
	long := map[int]int{}
	for pid := 100; pid < 1000; pid++ {
		long[pid] = pid + 1
	}
	if chain, _ := ancestors(t.Context(), tree(long), 100); len(chain) != maxSteps {
		t.Errorf("%d steps", len(chain))
	}
}

func TestGone(t *testing.T) {
	t.Parallel()
	process := Process{70, "b", "7"}
	there := seen{start: "7"}
	for name, tc := range map[string]struct {
		p      Process
		boot   string
		exists bool
		now    *seen // nil: not shown
		want   bool
	}{
		"the same":         {process, "b", true, &there, false},
		"ended":            {process, "b", false, nil, true},
		"a zombie":         {process, "b", true, &seen{start: "7", ended: true}, true},
		"the id again":     {process, "b", true, &seen{start: "8"}, true},
		"another boot":     {process, "c", true, &there, true},
		"not shown":        {process, "b", true, nil, false},
		"boot not known":   {process, "", true, &there, false},
		"no boot recorded": {Process{70, "", "7"}, "b", true, &there, false},
		"start not known":  {process, "b", true, &seen{}, false},
	} {
		look := func(context.Context, int) (seen, bool) {
			if tc.now == nil {
				return seen{}, false
			}
			return *tc.now, true
		}
		if got := tc.p.gone(t.Context(), look, tc.boot, func(int) bool { return tc.exists }); got != tc.want {
			t.Errorf("%s: gone %t", name, got)
		}
	}
}

func TestAbove(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		p    Process
		boot string
		want bool
	}{
		"the agent":         {Process{70, "b", "s7"}, "b", true},
		"a sibling":         {Process{75, "b", "s7"}, "b", false},
		"the id again":      {Process{70, "b", "s6"}, "b", false},
		"another boot":      {Process{70, "a", "s7"}, "b", false},
		"no boot":           {Process{70, "", "s7"}, "", false},
		"no start recorded": {Process{70, "b", ""}, "b", false},
	} {
		if got := tc.p.above(t.Context(), tree(family), tc.boot, 100); got != tc.want {
			t.Errorf("%s: above %t", name, got)
		}
	}
	if (&Process{70, "b", "s7"}).above(t.Context(), tree(map[int]int{100: 80}), "b", 100) {
		t.Error("above a process that is not shown")
	}
}

func TestParsePS(t *testing.T) {
	t.Parallel()
	got, known := parsePS("  501 Tue Dec  1 01:21:34 2026     S+\n")
	if want := (seen{501, "Tue Dec 1 01:21:34 2026", false}); !known || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %t", got, known)
	}
	if got, known := parsePS("1 Tue Dec 1 01:21:34 2026 Z"); !known || !got.ended {
		t.Errorf("a zombie: %+v, %t", got, known)
	}
	for _, text := range []string{"", "501", "x Tue Dec 1 01:21:34 2026 S", "-1 Tue Dec 1 01:21:34 2026 S", "501 Tue Dec 1 01:21:34 S"} {
		if got, known := parsePS(text); known {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// This very system.
func TestSystem(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("not known on " + runtime.GOOS)
	}
	chain, _ := ancestors(t.Context(), look, os.Getpid())
	if len(chain) < 2 || chain[1] != os.Getppid() || Boot() == "" {
		t.Errorf("ancestors %v, boot %q", chain, Boot())
	}
	if !Exists(os.Getpid()) || Exists(1<<30) || Exists(0) {
		t.Error("who exists is not known")
	}
	p, err := caller(t.Context(), look, Boot(), 0, os.Getpid(), false)
	if err != nil || p == nil || p.PID != os.Getppid() {
		t.Fatalf("%+v, %v", p, err)
	}
	if p.Gone(t.Context()) || !p.Above(t.Context()) {
		t.Errorf("the parent: gone %t, above %t", p.Gone(t.Context()), p.Above(t.Context()))
	}
	again := *p
	again.StartTicks += "1"
	if !again.Gone(t.Context()) || again.Above(t.Context()) {
		t.Error("the parent's id, used again, passes")
	}
}
