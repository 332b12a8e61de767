//go:build unix

package lease

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/store"
)

// Whoever acts behind a prompt sees what that has done: the agent is told as it was
// before for up to 700 ms.
func TestHold(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	locks := herdrcli.NewLocks(home)
	l := New(Options{Locks: locks})
	a, b := herdrcli.Agent{TerminalID: "term_1"}, herdrcli.Agent{TerminalID: "term_2"}
	begun := time.Now()
	held, err := l.Hold(t.Context(), a, b)
	if err != nil || !held.Has("term_1") || !held.Has("term_2") || held.Has("term_3") {
		t.Fatalf("%v, %v", held, err)
	}
	if took := time.Since(begun); took > shown/2 {
		t.Errorf("with nothing typed it took %v", took)
	}
	if err := held.Type("term_3"); fault.Code(err) != "TARGET_LOCK_UNAVAILABLE" {
		t.Errorf("a terminal that is not locked: %v", err)
	}
	if err := held.Type("term_2"); err != nil {
		t.Fatal(err)
	}
	held.Typed("term_2")
	typed := time.Now()
	held.Release()

	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if _, err := l.Hold(ctx, b); fault.Code(err) != "CANCELLED" {
		t.Errorf("a call that ends meanwhile: %v", err)
	}
	held, err = l.Hold(t.Context(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	if rested := time.Since(typed); rested < 900*time.Millisecond || rested > 3*time.Second {
		t.Errorf("it has rested for %v", rested)
	}
	held.Release()

	open := filepath.Join(home, ".local", "state", "herdr-link", "locks")
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Hold(t.Context(), a); fault.Code(err) != "TARGET_LOCK_UNAVAILABLE" {
		t.Errorf("a folder that is open to others: %v", err)
	}
}

// A start has ten minutes for itself, also where the clock was set back.
func TestStarting(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for age, want := range map[time.Duration]time.Duration{
		-time.Hour: Young, 0: Young, Young - time.Second: time.Second, Young: 0, time.Hour: 0,
	} {
		// A record has whole milliseconds.
		r := &store.Reviewer{Lease: store.Lease{State: store.Provisioning}, Tab: store.Tab{CreatedAt: store.Stamp(now.Add(-age))}}
		if got := Starting(r, now); want-got > time.Millisecond || got-want > time.Millisecond {
			t.Errorf("%v old: %v", age, got)
		}
		r.State = store.Orphaned
		if got := Starting(r, now); got != 0 {
			t.Errorf("%v old, not provisioning: %v", age, got)
		}
	}
	if got := Starting(&store.Adopted{Lease: store.Lease{State: store.Active}}, now); got != 0 {
		t.Errorf("adopted: %v", got)
	}
}

// An agent that is not the leased one: the facts that differ are named, not their values.
func TestSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := &store.Reviewer{Lease: store.Lease{AgentName: "critic", AgentKind: "pi"}, Cwd: dir}
	if err := Same(r, &herdrcli.Agent{Name: "critic", Kind: "pi", Cwd: dir + "/../" + filepath.Base(dir)}); err != nil {
		t.Error(err)
	}
	for a, want := range map[herdrcli.Agent]string{
		{Name: "other-x", Kind: "pi", Cwd: dir}:          "name",
		{Name: "critic", Kind: "other-x", Cwd: dir}:      "kind",
		{Name: "critic", Kind: "pi", Cwd: "/other-x"}:    "cwd",
		{Name: "critic", Kind: "pi"}:                     "cwd",
		{Name: "other-x", Kind: "pi", Cwd: dir + "/sub"}: "name and cwd",
	} {
		err := Same(r, &a)
		if err == nil || err.Error() != "LEASE_IDENTITY_CHANGED: the agent in the leased terminal has another "+want+" than the lease" {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

// What Herdr tells is nothing to rely on.
func TestPlausible(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", longestText+1)
	for name, tc := range map[string]struct {
		change func(*herdrcli.Agent)
		ok     bool
	}{
		"as it is":                  {func(*herdrcli.Agent) {}, true},
		"unnamed":                   {func(a *herdrcli.Agent) { a.Name = "" }, true},
		"no kind, no folder":        {func(a *herdrcli.Agent) { a.Kind, a.Cwd = "", "" }, true},
		"of another language":       {func(a *herdrcli.Agent) { a.Name, a.Cwd = "ünï", "/tmp/a b" }, true},
		"cursor 0":                  {func(a *herdrcli.Agent) { a.Changes, a.Cursor = herdrcli.Raw("0"), 0 }, true},
		"a negative cursor":         {func(a *herdrcli.Agent) { a.Changes, a.Cursor = herdrcli.Raw("-7"), -7 }, false},
		"a cursor as text":          {func(a *herdrcli.Agent) { a.Changes = herdrcli.Raw(`"5"`) }, false},
		"no pane":                   {func(a *herdrcli.Agent) { a.PaneID = "" }, false},
		"an option for a pane":      {func(a *herdrcli.Agent) { a.PaneID = "--session=x" }, false},
		"a path for a pane":         {func(a *herdrcli.Agent) { a.PaneID = "../x" }, false},
		"no status":                 {func(a *herdrcli.Agent) { a.Status = "" }, false},
		"no terminal":               {func(a *herdrcli.Agent) { a.TerminalID = "" }, false},
		"a long terminal":           {func(a *herdrcli.Agent) { a.TerminalID = long[:longestID] }, true},
		"too long a terminal":       {func(a *herdrcli.Agent) { a.TerminalID = long[:longestID+1] }, false},
		"a path for a terminal":     {func(a *herdrcli.Agent) { a.TerminalID = "../x" }, false},
		"a backslash in a terminal": {func(a *herdrcli.Agent) { a.TerminalID = `..\x` }, false},
		"a line feed in a terminal": {func(a *herdrcli.Agent) { a.TerminalID = "term\n" }, false},
		"a terminal twice":          {func(a *herdrcli.Agent) { a.TerminalID = "term_2" }, false},
		"a long name":               {func(a *herdrcli.Agent) { a.Name = long }, false},
		"a long kind":               {func(a *herdrcli.Agent) { a.Kind = long }, false},
		"a long folder":             {func(a *herdrcli.Agent) { a.Cwd = long }, false},
		"a long folder still":       {func(a *herdrcli.Agent) { a.Cwd = long[1:] }, true},
		"an escape in a name":       {func(a *herdrcli.Agent) { a.Name = "\x1b[31m" }, false},
		"C1 in a kind":              {func(a *herdrcli.Agent) { a.Kind = "a\u009b" }, false},
		"a line feed in a folder":   {func(a *herdrcli.Agent) { a.Cwd = "/a\nb" }, true}, // anybody may make one
		"DEL in a status":           {func(a *herdrcli.Agent) { a.Status = "idle\x7f" }, false},
	} {
		list := []herdrcli.Agent{
			{Name: "one", Kind: "codex", Status: "idle", PaneID: "w1:p2", TerminalID: "term_1", Cwd: "/a", Changes: herdrcli.Raw("5"), Cursor: 5},
			{Kind: "pi", Status: "working", PaneID: "w1:p3", TerminalID: "term_2", Changes: herdrcli.Raw("6"), Cursor: 6},
		}
		tc.change(&list[0])
		if got := Plausible(list); got != tc.ok {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !Plausible(nil) {
		t.Error("no agents")
	}
}

// A real Herdr's lists pass.
func TestPlausibleCaptures(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ok", "launch-pending"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "herdr", "agent-list."+name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var capture struct{ Stdout string }
		var answer struct {
			Result struct{ Agents []herdrcli.Agent }
		}
		if err := json.Unmarshal(data, &capture); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(capture.Stdout), &answer); err != nil {
			t.Fatal(err)
		}
		if list := answer.Result.Agents; len(list) < 3 || !Plausible(list) {
			t.Errorf("%s: %+v", name, list)
		}
	}
}
