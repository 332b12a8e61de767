//go:build unix

package lane

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/herdrcli"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
)

const pane = "w1:p5" // of the reviewer

// closing is what the reviewer can be closed with as it is now.
func (f *field) closing(r *store.Reviewer) Close {
	q := Close{LeaseID: r.LeaseID, Lines: 500}
	if p := f.world().Pane(pane); p != nil && p.Agent != nil {
		q.Cursor = int64(p.Agent.StateChangeSeq)
	}
	return q
}

// agent changes the reviewer's agent.
func (f *field) agent(change func(*fakeherdr.Agent)) {
	f.t.Helper()
	f.update(func(w *fakeherdr.World) { change(w.Pane(pane).Agent) })
}

func status(s string) func(*fakeherdr.Agent) { return func(a *fakeherdr.Agent) { a.Status = s } }

// exit lets the reviewer's agent leave its shell behind, with a program in front
// or none.
func (f *field) exit(program bool) {
	f.t.Helper()
	f.update(func(w *fakeherdr.World) {
		p := w.Pane(pane)
		p.Agent, p.Shell, p.Foreground = nil, 4711, []fakeherdr.Process{{PID: 4711, Name: "bash"}}
		if program {
			p.Foreground = []fakeherdr.Process{{PID: 4712, Name: "vim"}}
		}
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	f := newField(t)
	s, by, r := f.started()
	f.update(func(w *fakeherdr.World) { w.Pane(pane).Text = []string{"", "all \x1b[32mgreen\x1b[0m", ""} })
	before := len(f.calls(""))
	q := f.closing(r)
	q.LeaseID, q.Lines = strings.ToUpper(q.LeaseID), 77
	closed, err := s.CloseReviewer(t.Context(), by, q)
	must(t, err)
	got := closed.Lease.(*store.Reviewer)
	if strings.TrimSpace(closed.Output) != "all green" || closed.Truncated || got.State != store.Closed || got.ClosedAt == "" || got.CaptureSHA256 != digest("all green") ||
		got.Failure != "" || *got != *f.record() {
		t.Errorf("%+v, %+v", closed, got)
	}
	if calls := strings.Join(f.calls("")[before:], "\n"); calls != "pane get w1:p1\nagent list\nagent list\nagent read w1:p5 --source visible --lines 77 --format text\nagent list\npane close w1:p5" {
		t.Errorf("herdr ran:\n%s", calls)
	}
	if archived, _ := filepath.Glob(filepath.Join(f.dir, "state", "reviewer-leases", "archive", r.LeaseID+".json")); len(archived) != 1 || !f.closed(pane) {
		t.Error("the record was not moved, or the pane is there")
	}
	_, err = s.CloseReviewer(t.Context(), by, q)
	if got := f.want("again", err, "LEASE_WRONG_STATE"); got.Details["state"] != store.Closed {
		t.Errorf("%+v", got)
	}
}

// What may stand against a closing, and what may come of it. Scenarios 28, 33, 35,
// 36 and 39. Whatever happens, the state has an exit.
func TestCloseEnds(t *testing.T) {
	t.Parallel()
	age := func(f *field, r *store.Reviewer, by time.Duration) {
		f.edit("reviewer-leases", r.LeaseID, func(m map[string]any) { m["createdAt"] = store.Stamp(time.Now().Add(-by)) })
	}
	type step = func(*field, server, *store.Reviewer)
	is := func(state string) step {
		return func(f *field, _ server, r *store.Reviewer) { f.state(r.LeaseID, state) }
	}
	becomes := func(s string) step { return func(f *field, _ server, _ *store.Reviewer) { f.agent(status(s)) } }
	fault := func(of fakeherdr.Fault, words string) step {
		return func(f *field, _ server, _ *store.Reviewer) { f.fault(of, words) }
	}
	world := func(change func(*fakeherdr.World)) step {
		return func(f *field, _ server, _ *store.Reviewer) { f.update(change) }
	}
	receipt := func(state string) step {
		return func(f *field, s server, r *store.Reviewer) { f.receipt(s, &r.Lease, state) }
	}
	working := func(w *fakeherdr.World) { w.Pane(pane).Agent.Status = fakeherdr.Working }
	for name, tc := range map[string]struct {
		arrange step
		change  func(*Close)
		behind  string // a command, after which
		then    step   // this happens
		code    string
		state   string // of the record afterwards
		there   bool   // the pane
		next    string // code of the next call with a fresh cursor; "-": none is made
	}{
		"as it is":            {nil, nil, "", nil, "", store.Closed, false, "LEASE_WRONG_STATE"},
		"done":                {becomes(fakeherdr.Done), nil, "", nil, "", store.Closed, false, "LEASE_WRONG_STATE"},
		"looked at meanwhile": {becomes(fakeherdr.Done), nil, "agent read", world(func(w *fakeherdr.World) { a := w.Pane(pane).Agent; a.Status = fakeherdr.Idle }), "", store.Closed, false, "-"},
		"blocked":             {becomes(fakeherdr.Blocked), nil, "", nil, "AGENT_BLOCKED", store.Active, true, "AGENT_BLOCKED"},
		"working":             {becomes(fakeherdr.Working), nil, "", nil, "AGENT_NOT_SETTLED", store.Active, true, "AGENT_NOT_SETTLED"},
		"unknown":             {becomes(fakeherdr.Unknown), nil, "", nil, "AGENT_NOT_SETTLED", store.Active, true, "AGENT_NOT_SETTLED"},
		"another cursor":      {nil, func(q *Close) { q.Cursor-- }, "", nil, "CURSOR_MISMATCH", store.Active, true, ""},
		"a turn meanwhile":    {nil, nil, "agent read", world(func(w *fakeherdr.World) { w.Seq += 3; w.Pane(pane).Agent.StateChangeSeq = w.Seq }), "CURSOR_MOVED", store.Active, true, ""},
		"at work meanwhile":   {nil, nil, "agent read", world(working), "CURSOR_MOVED", store.Active, true, "AGENT_NOT_SETTLED"},
		"at work, not counted": {nil, nil, "agent read", func(f *field, _ server, _ *store.Reviewer) {
			seq := f.world().Pane(pane).Agent.StateChangeSeq
			f.update(working)
			f.agent(func(a *fakeherdr.Agent) { a.StateChangeSeq = seq })
		}, "CURSOR_MOVED", store.Active, true, "AGENT_NOT_SETTLED"},
		"renamed meanwhile":     {nil, nil, "agent read", world(func(w *fakeherdr.World) { w.Pane(pane).Agent.Name = "x" }), "CURSOR_MOVED", store.Active, true, "LEASE_IDENTITY_CHANGED"},
		"moved meanwhile":       {nil, nil, "agent read", world(func(w *fakeherdr.World) { w.Move(pane, "w2") }), "", store.Closed, false, "-"},
		"moved before that":     {nil, nil, "agent list, again", world(func(w *fakeherdr.World) { w.Move(pane, "w2") }), "CURSOR_MOVED", store.Active, true, ""},
		"renamed before that":   {nil, nil, "agent list, again", world(func(w *fakeherdr.World) { w.Pane(pane).Agent.Name = "x" }), "CURSOR_MOVED", store.Active, true, "LEASE_IDENTITY_CHANGED"},
		"moved before":          {world(func(w *fakeherdr.World) { w.Move(pane, "w2") }), nil, "", nil, "", store.Closed, false, "-"},
		"another name":          {world(func(w *fakeherdr.World) { w.Pane(pane).Agent.Name = "x" }), nil, "", nil, "LEASE_IDENTITY_CHANGED", store.Active, true, "LEASE_IDENTITY_CHANGED"},
		"another kind":          {world(func(w *fakeherdr.World) { w.Pane(pane).Agent.Kind = "pi" }), nil, "", nil, "LEASE_IDENTITY_CHANGED", store.Active, true, "LEASE_IDENTITY_CHANGED"},
		"another folder":        {world(func(w *fakeherdr.World) { w.Pane(pane).Cwd = "/" }), nil, "", nil, "LEASE_IDENTITY_CHANGED", store.Active, true, "LEASE_IDENTITY_CHANGED"},
		"another terminal":      {world(func(w *fakeherdr.World) { w.Pane(pane).Terminal = "term_x" }), nil, "", nil, "AGENT_NOT_FOUND", store.Active, true, "AGENT_NOT_FOUND"},
		"exited":                {func(f *field, _ server, _ *store.Reviewer) { f.exit(false) }, nil, "", nil, "AGENT_NOT_FOUND", store.Active, true, "-"},
		"no such lease":         {nil, func(q *Close) { q.LeaseID = "0f9d2c7e-3b1a-4c5d-8e6f-001122334455" }, "", nil, "LEASE_NOT_FOUND", store.Active, true, ""},
		"closing, from a crash": {is(store.Closing), nil, "", nil, "", store.Closed, false, "-"},
		"close_failed":          {is(store.CloseFailed), nil, "", nil, "", store.Closed, false, "-"},
		"orphaned":              {is(store.Orphaned), nil, "", nil, "", store.Closed, false, "-"},
		"provisioning":          {is(store.Provisioning), nil, "", nil, "LEASE_WRONG_STATE", store.Provisioning, true, "LEASE_WRONG_STATE"},
		"provisioning, 9 min":   {func(f *field, s server, r *store.Reviewer) { is(store.Provisioning)(f, s, r); age(f, r, 9*time.Minute) }, nil, "", nil, "LEASE_WRONG_STATE", store.Provisioning, true, "-"},
		"provisioning, of 9999": {func(f *field, s server, r *store.Reviewer) {
			is(store.Provisioning)(f, s, r)
			f.edit("reviewer-leases", r.LeaseID, func(m map[string]any) { m["createdAt"] = "9999-01-01T00:00:00Z" })
		}, nil, "", nil, "LEASE_WRONG_STATE", store.Provisioning, true, "-"},
		"provisioning, 10 min": {func(f *field, s server, r *store.Reviewer) {
			is(store.Provisioning)(f, s, r)
			age(f, r, 10*time.Minute)
		}, nil, "", nil, "", store.Closed, false, "-"},
		"of another session": {func(f *field, _ server, r *store.Reviewer) {
			f.edit("reviewer-leases", r.LeaseID, func(m map[string]any) { m["herdrSocket"] = "/x.sock" })
		}, nil, "", nil, "LEASE_OTHER_SESSION", store.Active, true, "LEASE_OTHER_SESSION"},
		"of another controller": {func(f *field, _ server, r *store.Reviewer) {
			f.edit("reviewer-leases", r.LeaseID, func(m map[string]any) { m["controllerId"] = "boss" })
		}, nil, "", nil, "LEASE_OTHER_CONTROLLER", store.Active, true, "-"},
		"of the older bridge": {func(f *field, _ server, r *store.Reviewer) {
			f.edit("reviewer-leases", r.LeaseID, func(m map[string]any) {
				for _, n := range []string{"herdrSocket", "terminalId", "tabId", "tabLabel", "workspaceId"} {
					delete(m, n)
				}
			})
		}, nil, "", nil, "", store.Closed, false, "-"},
		"a pending receipt":     {receipt(store.Pending), nil, "", nil, "RECEIPT_OUTSTANDING", store.Active, true, "RECEIPT_OUTSTANDING"},
		"a reserved receipt":    {receipt(store.Reserved), nil, "", nil, "RECEIPT_OUTSTANDING", store.Active, true, "RECEIPT_OUTSTANDING"},
		"an abandoned one":      {receipt(store.Reserved), func(q *Close) { q.Abandon = true }, "", nil, "", store.Closed, false, "-"},
		"confirmation required": {fault(refusing("confirmation_required"), "pane close"), nil, "", nil, "CLOSE_NEEDS_CONFIRMATION", store.CloseFailed, true, "CLOSE_NEEDS_CONFIRMATION"},
		"refused once":          {fault(fakeherdr.Fault{Kind: fakeherdr.ErrorCode, Code: "internal", Left: 1}, "pane close"), nil, "", nil, "HERDR_ERROR", store.CloseFailed, true, ""},
		"closed by hand":        {fault(refusing("pane_not_found"), "pane close"), nil, "", nil, "", store.Closed, true, "-"},
		"closed, but not said":  {fault(fakeherdr.Fault{Kind: fakeherdr.DieAfter}, "pane close"), nil, "", nil, "HERDR_BAD_OUTPUT", store.CloseFailed, false, "AGENT_NOT_FOUND"},
		"no screen":             {fault(fakeherdr.Fault{Kind: fakeherdr.Down}, "agent read"), nil, "", nil, "HERDR_SERVER_DOWN", store.Active, true, "HERDR_SERVER_DOWN"},
		"the authority is lost": {nil, nil, "agent read", func(f *field, s server, r *store.Reviewer) {
			f.edit("controller-leases", "lead", func(m map[string]any) { m["expiresAt"] = "2026-01-01T00:00:00.000Z" })
		}, "CONTROLLER_EXPIRED", store.Active, true, "CONTROLLER_EXPIRED"},
		"come between the locks": {func(f *field, _ server, _ *store.Reviewer) { f.exit(false) }, nil, "agent list",
			world(func(w *fakeherdr.World) { w.RunAgent(w.Pane(pane), "codex", "critic") }), "LEASE_IDENTITY_CHANGED", store.Active, true, ""},
		"gone between the locks": {nil, nil, "agent list", world(func(w *fakeherdr.World) { w.Pane(pane).Agent = nil }), "AGENT_NOT_FOUND", store.Active, true, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newField(t)
			s, by, r := f.started()
			if tc.arrange != nil {
				tc.arrange(f, s, r)
			}
			q := f.closing(r)
			if tc.change != nil {
				tc.change(&q)
			}
			if tc.behind != "" {
				command, again := strings.CutSuffix(tc.behind, ", again")
				n := 1
				if again {
					n = 2
				}
				f.after(command, n, func() { tc.then(f, s, r) })
			}
			closed, err := s.CloseReviewer(t.Context(), by, q)
			got := f.want("close", err, tc.code)
			if (closed == nil) != (err != nil) || f.closed(pane) == tc.there {
				t.Errorf("%+v, and the pane is there: %t", closed, !f.closed(pane))
			}
			on := f.record()
			if on.State != tc.state || (on.CaptureSHA256 == "") != (on.State == store.Active || on.State == store.Provisioning) {
				t.Errorf("the record is %+v", on)
			}
			if w := f.world(); on.State == store.Closed && !tc.there && (on.PaneID != w.Closed[0].ID || on.TerminalID != w.Closed[0].Terminal || on.HerdrSocket == "") {
				t.Errorf("the lease did not follow its agent: %+v", on)
			}
			if closes := len(f.calls("pane close")); (closes > 0) != (tc.state == store.Closed || tc.state == store.CloseFailed) {
				t.Errorf("%d closings", closes)
			}
			if tc.state == store.CloseFailed && !strings.HasPrefix(on.Failure, tc.code+": ") {
				t.Errorf("failure %q", on.Failure)
			}
			if tc.code == "RECEIPT_OUTSTANDING" {
				if tokens, _ := got.Details["receipts"].([]string); len(tokens) != 1 || !strings.HasPrefix(tokens[0], "herdr-receipt-v1.") {
					t.Errorf("%v", got.Details)
				}
			}
			list, err := store.List[store.Receipt](s.store, 0, nil)
			must(t, err)
			for _, p := range list.Records {
				if abandoned := p.State == store.Failed && p.Failure == "abandoned"; abandoned != (tc.state == store.Closed) {
					t.Errorf("receipt %+v", p)
				}
			}
			if tc.next != "-" {
				_, err = s.CloseReviewer(t.Context(), by, f.closing(r))
				f.want("the next call", err, tc.next)
			}
		})
	}
}

// Scenarios 39 and 53: what is left of an agent that has exited is closed only if
// it is a bare shell, and surely the lease's own.
func TestCloseExited(t *testing.T) {
	t.Parallel()
	restart := func(w *fakeherdr.World) {
		w.Restart()
		p := w.Pane(pane)
		p.Shell, p.Foreground = 4711, []fakeherdr.Process{{PID: 4711}}
	}
	for name, tc := range map[string]struct {
		arrange func(*field, *store.Reviewer)
		code    string
		state   string
		there   bool
	}{
		"a shell": {func(f *field, _ *store.Reviewer) { f.exit(false) }, "", store.Closed, false},
		"a shell that moved": {func(f *field, _ *store.Reviewer) {
			f.exit(false)
			f.update(func(w *fakeherdr.World) { w.Move(pane, "w2") })
		}, "", store.Closed, false},
		"a program":       {func(f *field, _ *store.Reviewer) { f.exit(true) }, "LEASE_IDENTITY_CHANGED", store.Active, true},
		"who knows what":  {func(f *field, _ *store.Reviewer) { f.update(func(w *fakeherdr.World) { w.Pane(pane).Agent = nil }) }, "LEASE_IDENTITY_CHANGED", store.Active, true},
		"the agent":       {func(*field, *store.Reviewer) {}, "LEASE_IDENTITY_CHANGED", store.Active, true},
		"after a restart": {func(f *field, _ *store.Reviewer) { f.update(restart) }, "", store.Closed, false},
		"restart, another tab": {func(f *field, _ *store.Reviewer) {
			f.update(func(w *fakeherdr.World) { restart(w); w.Pane(pane).Tab = "w1:t1" })
		}, "LEASE_IDENTITY_CHANGED", store.Active, true},
		"restart, a new agent": {func(f *field, _ *store.Reviewer) {
			f.update(func(w *fakeherdr.World) { restart(w); w.RunAgent(w.Pane(pane), "pi", "x") })
		}, "LEASE_IDENTITY_CHANGED", store.Active, true},
		"restart, no Herdr": {func(f *field, _ *store.Reviewer) {
			f.update(restart)
			f.fault(fakeherdr.Fault{Kind: fakeherdr.Down}, "tab get")
		}, "HERDR_SERVER_DOWN", store.Active, true},
		"gone": {func(f *field, _ *store.Reviewer) { must(f.t, f.in("w1:p1").herdr.PaneClose(f.t.Context(), pane)) }, "LEASE_IDENTITY_CHANGED", store.Active, false},
		"gone, closing": {func(f *field, r *store.Reviewer) {
			must(f.t, f.in("w1:p1").herdr.PaneClose(f.t.Context(), pane))
			f.state(r.LeaseID, store.Closing)
		}, "", store.Closed, false},
		"gone, close_failed": {func(f *field, r *store.Reviewer) {
			must(f.t, f.in("w1:p1").herdr.PaneClose(f.t.Context(), pane))
			f.state(r.LeaseID, store.CloseFailed)
		}, "", store.Closed, false},
		"orphaned without pane": {func(f *field, r *store.Reviewer) {
			f.exit(false)
			f.edit("reviewer-leases", r.LeaseID, func(m map[string]any) { m["state"], m["paneId"] = store.Orphaned, ""; delete(m, "terminalId") })
		}, "LEASE_IDENTITY_CHANGED", store.Orphaned, true},
		"provisioning, too old": {func(f *field, r *store.Reviewer) {
			f.exit(false)
			f.edit("reviewer-leases", r.LeaseID, func(m map[string]any) { m["state"], m["createdAt"] = store.Provisioning, "2026-01-01T00:00:00.000Z" })
		}, "", store.Closed, false},
		"no processes": {func(f *field, _ *store.Reviewer) {
			f.exit(false)
			f.fault(fakeherdr.Fault{Kind: fakeherdr.Garbage}, "pane process-info --pane w1:p5")
		}, "HERDR_BAD_OUTPUT", store.Active, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newField(t)
			s, by, r := f.started()
			f.update(func(w *fakeherdr.World) { w.Pane(pane).Text = []string{"$ "} })
			terminal := f.world().Pane("w1:p1").Terminal
			tc.arrange(f, r)
			f.update(func(w *fakeherdr.World) { w.Pane("w1:p1").Terminal = terminal }) // the caller's is not what this is about
			closes := len(f.calls("pane close"))
			closed, err := s.CloseReviewer(t.Context(), by, Close{LeaseID: r.LeaseID, Exited: true, Lines: 10})
			f.want("close", err, tc.code)
			if on := f.record(); on.State != tc.state || f.closed(pane) == tc.there {
				t.Errorf("%+v, and the pane is there: %t", on, !f.closed(pane))
			}
			gone := strings.HasPrefix(name, "gone")
			if on := f.record(); on.State == store.Closed && on.PaneID != f.world().Closed[0].ID {
				t.Errorf("the lease did not follow its pane: %+v", on)
			}
			if n := len(f.calls("pane close")) - closes; (n > 0) != (tc.state == store.Closed && !gone) {
				t.Errorf("%d closings", n)
			}
			if err == nil && !gone && (closed.Lease.Base().CaptureSHA256 == "" || len(f.calls("pane read")) != 1) {
				t.Errorf("%+v", closed)
			}
		})
	}
}

// The lock of the terminal comes first, and is waited for without the store's.
// Scenarios 50 and 51.
func TestCloseLocks(t *testing.T) {
	t.Parallel()
	f := newField(t)
	s, by, r := f.started()
	locks := herdrcli.NewLocks(filepath.Join(f.dir, "home"))
	lock, err := locks.Acquire(t.Context(), herdrcli.Agent{TerminalID: r.TerminalID}, "", time.Second)
	must(t, err)
	var wait sync.WaitGroup
	wait.Go(func() {
		_, err := s.CloseReviewer(t.Context(), by, f.closing(r))
		f.want("while somebody types", err, "TARGET_BUSY")
	})
	before := len(f.calls("agent list"))
	for len(f.calls("agent list")) == before {
		time.Sleep(5 * time.Millisecond)
	}
	x, err := s.store.Begin(t.Context()) // it is free
	must(t, err)
	x.End()
	wait.Wait()
	must(t, lock.Mark())
	typed := time.Now()
	lock.Release()
	if f.record().State != store.Active || len(f.calls("pane close")) > 0 || len(f.calls("agent read")) > 0 {
		t.Error("something was done without the lock")
	}
	_, err = s.CloseReviewer(t.Context(), by, f.closing(r))
	must(t, err)
	if took := f.world().Closed[0].ClosedAt.Sub(typed); took < 350*time.Millisecond {
		t.Errorf("closed %v after the last prompt", took)
	}

	r, err = s.StartReviewer(t.Context(), by, f.reviewer())
	must(t, err)
	folder := filepath.Join(f.dir, "home", ".local", "state", "herdr-link", "locks")
	must(t, os.Rename(folder, folder+"2"))
	must(t, os.Symlink(folder+"2", folder))
	q := f.closing(r)
	q.Cursor = int64(f.world().Pane(r.PaneID).Agent.StateChangeSeq)
	_, err = s.CloseReviewer(t.Context(), by, q)
	f.want("a link for a folder", err, "TARGET_LOCK_UNAVAILABLE")
	must(t, os.Remove(folder))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = s.CloseReviewer(ctx, by, q)
	f.want("cancelled", err, "CANCELLED")
	_, err = s.CloseReviewer(t.Context(), by, q)
	must(t, err)
}

// What a kind of lease wants beyond the rest is asked at its places.
func TestCloseHooks(t *testing.T) {
	t.Parallel()
	f := newField(t)
	s, by, r := f.started()
	who, err := s.caller(t.Context(), by)
	must(t, err)
	var asked []string
	fail := ""
	c := &closing{Lanes: s.Lanes, caller: who, Close: f.closing(r), kind: "reviewer",
		before: func(_ context.Context, r store.Leased, a *herdrcli.Agent) error {
			asked = append(asked, "before "+a.PaneID)
			if fail == "before" {
				return changed("x")
			}
			return nil
		},
		again: func(_ context.Context, r store.Leased) error {
			asked = append(asked, "again", f.calls("")[len(f.calls(""))-1])
			if fail == "again" {
				return changed("x")
			}
			return nil
		},
		note: func(r store.Leased) { r.Base().Purpose = "noted" },
	}
	for _, fail = range []string{"before", "again"} {
		_, err := c.run(t.Context())
		f.want(fail, err, "LEASE_IDENTITY_CHANGED")
		if on := f.record(); on.State != store.Active || on.Purpose != "review" || f.closed(pane) {
			t.Errorf("%s: %+v", fail, on)
		}
	}
	fail = ""
	_, err = c.run(t.Context())
	must(t, err)
	if want := []string{"before w1:p5", "before w1:p5", "again", "agent list", "before w1:p5", "again", "agent list"}; !slices.Equal(asked, want) || f.record().Purpose != "noted" {
		t.Errorf("%q, %+v", asked, f.record())
	}
}

// A writer ends through states of its own.
func TestEnds(t *testing.T) {
	t.Parallel()
	for kind, want := range map[store.Leased][3]string{
		new(store.Reviewer): {store.Closing, store.CloseFailed, store.Closed},
		new(store.Adopted):  {store.Closing, store.CloseFailed, store.Closed},
		new(store.Writer):   {store.Releasing, store.ReleaseFailed, store.Released},
	} {
		begins, refused, over := ends(kind)
		if got := [3]string{begins, refused, over}; got != want {
			t.Errorf("%s: %v", kind.Type(), got)
		}
		if kind.Base().State = over; !lease.Terminal(kind) || begun(over) || !begun(begins) || !begun(refused) {
			t.Errorf("%s: %v", kind.Type(), want)
		}
	}
}

func TestCleanReviewers(t *testing.T) {
	t.Parallel()
	f := newField(t)
	s, by := f.lead()
	ids := map[string]string{} // by lease
	panes := map[string]string{}
	for _, name := range []string{"quiet", "busy", "dialog", "owes", "gone", "foreign", "orphan"} {
		q := f.reviewer()
		q.Name = name
		r, err := s.StartReviewer(t.Context(), by, q)
		must(t, err)
		ids[r.LeaseID], panes[name] = name, r.PaneID
		switch name {
		case "owes":
			f.receipt(s, &r.Lease, store.Pending)
		case "foreign":
			f.edit("reviewer-leases", r.LeaseID, func(m map[string]any) { m["controllerId"] = "boss" })
		case "orphan":
			f.state(r.LeaseID, store.Orphaned)
		}
	}
	f.update(func(w *fakeherdr.World) {
		w.Pane(panes["busy"]).Agent.Status = fakeherdr.Working
		w.Pane(panes["dialog"]).Agent.Status = fakeherdr.Blocked
		w.Pane(panes["gone"]).Agent = nil
	})
	check := func(dry bool, quiet string) {
		t.Helper()
		results, err := s.CleanReviewers(t.Context(), by, 500, dry)
		must(t, err)
		got := map[string]string{}
		for _, c := range results {
			got[ids[c.LeaseID]] = strings.Join([]string{c.Action, c.Status, c.Error}, " ")
			if (c.Result != nil) != (c.Action == "closed") {
				t.Errorf("%+v", c)
			}
		}
		want := map[string]string{"quiet": quiet, "busy": "preserved working AGENT_NOT_SETTLED", "dialog": "preserved blocked AGENT_BLOCKED",
			"owes": "preserved  RECEIPT_OUTSTANDING", "gone": "preserved  AGENT_NOT_FOUND"}
		if quiet == "" {
			delete(want, "quiet")
		}
		if len(got) != len(want) {
			t.Errorf("%v", got)
		}
		for name, result := range want {
			if got[name] != result {
				t.Errorf("%s: %q, not %q", name, got[name], result)
			}
		}
	}
	reads := len(f.calls("agent read"))
	check(true, "would_close idle ")
	if len(f.calls("agent read")) != reads || len(f.calls("pane close")) > 0 {
		t.Error("a dry run reads or closes")
	}
	if locks, _ := os.ReadDir(filepath.Join(f.dir, "home")); len(locks) > 0 {
		t.Error("a dry run takes a lock")
	}
	check(false, "closed idle ")
	check(false, "")
	if f.closed(panes["orphan"]) || !f.closed(panes["quiet"]) {
		t.Error("the wrong pane was closed")
	}
	_, err := s.CleanReviewers(t.Context(), func(*store.Section, controller.Terminal) (*store.Controller, error) { return nil, changed("x") }, 1, true)
	f.want("no authority", err, "LEASE_IDENTITY_CHANGED")
}
