package handoff

import (
	"testing"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mesh/store"
)

// The table of mesh.md §4.5, 2, for a turn that was accepted at 5: what each
// sample means, to whom has seen everything and to others, before and after a
// blocked one.
func TestFollowerSee(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	for _, test := range []struct {
		status           string
		cursor           int64
		unbroken         verdict
		broken           verdict
		afterBlocked     verdict // broken, too
		stillUnbroken    bool    // of the first sample of all
		blockedFromThere bool
	}{
		{"working", 4, goOn, goOn, goOn, false, false},
		{"working", 5, goOn, goOn, goOn, true, false},
		{"working", 6, goOn, superseded, goOn, false, false},
		{"unknown", 4, goOn, goOn, goOn, false, false},
		{"unknown", 5, goOn, goOn, goOn, true, false},
		{"unknown", 6, goOn, goOn, goOn, false, false},
		{"idle", 4, goOn, goOn, goOn, false, false},
		{"idle", 5, settled, settled, settled, true, false},
		{"idle", 6, settled, settled, settled, false, false},
		{"done", 4, goOn, goOn, goOn, false, false},
		{"done", 5, settled, settled, settled, true, false},
		{"done", 6, settled, settled, settled, false, false},
		{"blocked", 4, goOn, goOn, goOn, false, false},
		{"blocked", 5, blocked, blocked, blocked, true, true},
		{"blocked", 6, blocked, blocked, blocked, false, true},
		{"another", 6, goOn, goOn, goOn, false, false},
	} {
		a := &herdrcli.Agent{Status: test.status, Cursor: test.cursor}
		seen := &follower{after: 5, unbroken: true, last: begun}
		if got := seen.see(a, begun.Add(gap-1)); got != test.unbroken || !seen.unbroken || seen.proof() != "continuous" || seen.blocked != test.blockedFromThere {
			t.Errorf("%s at %d, unbroken: %d, %+v", test.status, test.cursor, got, seen)
		}
		late := &follower{after: 5, unbroken: true, last: begun}
		if got := late.see(a, begun.Add(gap)); got != test.broken || late.unbroken || late.proof() != "first_seen" {
			t.Errorf("%s at %d, after a gap: %d, %+v", test.status, test.cursor, got, late)
		}
		broken := &follower{after: 5, last: begun} // a gap is never mended
		if got := broken.see(a, begun); got != test.broken || broken.unbroken {
			t.Errorf("%s at %d, broken: %d, %+v", test.status, test.cursor, got, broken)
		}
		first := follow(&store.Receipt{BeforeSeq: 3, AfterSeq: 5})
		want := test.broken
		if test.stillUnbroken {
			want = test.unbroken
		}
		if got := first.see(a, begun); got != want || first.unbroken != test.stillUnbroken || first.last != begun {
			t.Errorf("%s at %d, first: %d, %+v", test.status, test.cursor, got, first)
		}
		human := follow(&store.Receipt{BeforeSeq: 3, AfterSeq: 5, BlockedSeq: 5})
		if got := human.see(a, begun); got != test.afterBlocked {
			t.Errorf("%s at %d, after a blocked one: %d", test.status, test.cursor, got)
		}
	}
	// The time between two samples counts, not that since the first.
	f := &follower{after: 5, unbroken: true, last: begun}
	for n := range 10 {
		begun = begun.Add(gap - time.Second)
		if v := f.see(&herdrcli.Agent{Status: "working", Cursor: int64(5 + n)}, begun); v != goOn || !f.unbroken {
			t.Fatalf("sample %d: %d, %+v", n, v, f)
		}
	}
}

// Nobody knows of which turn a cursor is if nobody has looked since the prompt.
func TestGrown(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status   string
		cursor   int64
		ago      time.Duration
		grown    bool
		blocked  bool
		unbroken bool
	}{
		{"working", 4, 0, false, false, false},
		{"working", 5, 0, false, false, false},
		{"working", 6, 0, true, false, true},
		{"idle", 9, gap - time.Second, true, false, true},
		{"blocked", 6, 0, true, true, true},
		{"working", 6, gap, true, false, false},
	} {
		i := &item{receipt: &store.Receipt{BeforeSeq: 5}, seen: time.Now().Add(-test.ago)}
		if got := i.grown(&herdrcli.Agent{Status: test.status, Cursor: test.cursor}); got != test.grown || (i.follower != nil) != got {
			t.Errorf("%+v: %v, %+v", test, got, i.follower)
			continue
		}
		if f := i.follower; f != nil && (f.after != test.cursor || f.blocked != test.blocked || f.unbroken != test.unbroken || time.Since(f.last) > time.Minute) {
			t.Errorf("%+v: %+v", test, f)
		}
	}
}

// A receipt is of exactly one agent; one of the older bridge knows no terminal.
func TestOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mine := herdrcli.Agent{TerminalID: "term_1", PaneID: "w1:p1", Name: "reviewer", Kind: "codex", Cwd: dir}
	r := store.Receipt{TerminalID: "term_1", PaneID: "w1:p1", Target: "reviewer", AgentKind: "codex", Cwd: dir + "/."}
	for name, test := range map[string]struct {
		edit     func(*herdrcli.Agent)
		now, old bool // found by a receipt with, without a terminal
	}{
		"the same":         {func(*herdrcli.Agent) {}, true, true},
		"another terminal": {func(a *herdrcli.Agent) { a.TerminalID = "term_2" }, false, true},
		"another pane":     {func(a *herdrcli.Agent) { a.PaneID = "w1:p2" }, false, false},
		"another name":     {func(a *herdrcli.Agent) { a.Name = "other" }, false, false},
		"another kind":     {func(a *herdrcli.Agent) { a.Kind = "pi" }, false, false},
		"another folder":   {func(a *herdrcli.Agent) { a.Cwd = "/" }, false, false},
	} {
		a := mine
		test.edit(&a)
		agents := []herdrcli.Agent{{TerminalID: "term_9", PaneID: "w1:p9", Name: "x"}, a}
		old := r
		old.TerminalID = ""
		if got := of(&r, agents); (got == &agents[1]) != test.now || (got == nil) == test.now {
			t.Errorf("%s: %+v", name, got)
		}
		if got := of(&old, agents); (got == &agents[1]) != test.old || (got == nil) == test.old {
			t.Errorf("%s, older bridge: %+v", name, got)
		}
	}
	if got := of(&r, nil); got != nil {
		t.Errorf("%+v", got)
	}
}

// A pending receipt stands as long as its lease is where it was.
func TestMatches(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := store.Receipt{TerminalID: "term_1", PaneID: "w1:p1", AgentKind: "codex", Cwd: dir}
	for name, test := range map[string]struct {
		edit     func(*store.Reviewer)
		now, old bool
	}{
		"the same":         {func(*store.Reviewer) {}, true, true},
		"another terminal": {func(l *store.Reviewer) { l.TerminalID = "term_2" }, false, true},
		"no terminal yet":  {func(l *store.Reviewer) { l.TerminalID = "" }, false, true},
		"another pane":     {func(l *store.Reviewer) { l.PaneID = "w1:p2" }, false, false},
		"another kind":     {func(l *store.Reviewer) { l.AgentKind = "pi" }, false, false},
		"another folder":   {func(l *store.Reviewer) { l.Cwd = "/" }, false, false},
	} {
		l := &store.Reviewer{Cwd: dir + "/.", Lease: store.Lease{TerminalID: "term_1", PaneID: "w1:p1", AgentKind: "codex"}}
		test.edit(l)
		old := r
		old.TerminalID = ""
		if got, was := matches(&r, l), matches(&old, l); got != test.now || was != test.old {
			t.Errorf("%s: %v, older bridge %v", name, got, was)
		}
	}
}
