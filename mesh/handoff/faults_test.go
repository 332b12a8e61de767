//go:build unix

package handoff

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
)

// until is an authority that says no from its nth look on. do, if not nil, is done
// at that look, which then says yes.
func (o *office) until(n int, do func()) controller.Authority {
	return func(x *store.Section, at controller.Terminal) (*store.Controller, error) {
		n--
		switch {
		case n > 0:
		case do == nil:
			return nil, fault.New("FENCE_MISMATCH", "resumed")
		case n == 0:
			do()
		}
		return o.by(x, at)
	}
}

func (o *office) want(what string, err error, code string, states ...string) {
	o.t.Helper()
	if fault.Code(err) != code {
		o.t.Errorf("%s: %v, want %q", what, err, code)
	}
	if got := o.states(); !slices.Equal(got, states) {
		o.t.Errorf("%s: receipts %q, want %q", what, got, states)
	}
}

// one is the only failure of an answer.
func (o *office) one(what string, a *Answer, err error, stage, code string, pending int) Failed {
	o.t.Helper()
	if err != nil || len(a.Failed) != 1 || len(a.Completed) != 0 || len(a.Pending) != pending || a.Failed[0].Code != code || a.Failed[0].Stage != stage {
		o.t.Fatalf("%s: %+v, %v", what, a, err)
	}
	return a.Failed[0]
}

var both = []Request{{"reviewer", "look at it"}, {"builder", "look at it"}}

// mesh.md §1, I3, I4: before each step the authority is looked at again, and a
// receipt is on disk before a prompt.
func TestAuthorityIsLookedAt(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	_, err := o.Batch(t.Context(), o.until(1, nil), both, soon)
	o.want("admission", err, "FENCE_MISMATCH")
	_, err = o.Batch(t.Context(), o.until(2, nil), both, soon)
	o.want("reservation", err, "FENCE_MISMATCH")
	ctx, cancel := context.WithCancel(t.Context())
	_, err = o.Batch(ctx, o.until(2, cancel), both, soon)
	o.want("cancelled at the reservation", err, "CANCELLED", "failed/delivery_failed", "failed/delivery_failed")
	if n := o.prompts(); n != 0 {
		t.Errorf("%d prompts", n)
	}
	o.on("w1:p2", fakeherdr.Working)
	a, err := o.Relay(t.Context(), o.until(3, nil), both[0])
	f := o.one("commit", a, err, "delivery", "FENCE_MISMATCH", 0)
	o.want("commit", nil, "", "failed/delivery_failed", "failed/delivery_failed", "reserved")
	_, err = o.Collect(t.Context(), o.by, []string{f.Receipt}, soon)
	o.want("collected", err, "RECEIPT_WRONG_STATE", "failed/delivery_failed", "failed/delivery_failed", "reserved")
	o.set(func() { o.later = young })
	o.status("w1:p2", fakeherdr.Idle)
	for n := range 2 {
		_, err = o.Abandon(t.Context(), o.until(n+1, nil), f.Receipt)
		o.want("abandoned", err, "FENCE_MISMATCH", "failed/delivery_failed", "failed/delivery_failed", "reserved")
	}
	ctx, cancel = context.WithCancel(t.Context())
	_, err = o.Abandon(ctx, o.until(2, cancel), f.Receipt)
	o.want("abandoned, and cancelled", err, "CANCELLED", "failed/delivery_failed", "failed/delivery_failed", "reserved")
}

// What the collection writes needs the authority as well, and what cannot be
// written is not told.
func TestCollectWithoutAuthority(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	r := o.relay("reviewer", "w1:p2")
	o.change(func(w *fakeherdr.World) { w.Pane("w1:p2").Text = []string{"the answer"} })
	_, err := o.Collect(t.Context(), o.until(1, nil), []string{r}, soon)
	o.want("taken", err, "FENCE_MISMATCH", "pending")
	o.status("w1:p2", fakeherdr.Blocked)
	a, err := o.Collect(t.Context(), o.until(2, nil), []string{r}, soon)
	o.one("blocked", a, err, "collection", "FENCE_MISMATCH", 1)
	a, err = o.Collect(t.Context(), o.by, []string{r}, soon)
	o.one("blocked", a, err, "collection", "AGENT_BLOCKED", 1)
	a, err = o.Collect(t.Context(), o.until(2, nil), []string{r}, soon) // it is noted already
	o.one("blocked", a, err, "collection", "AGENT_BLOCKED", 1)
	o.status("w1:p2", fakeherdr.Done)
	a, err = o.Collect(t.Context(), o.until(2, nil), []string{r}, soon)
	o.one("completed", a, err, "collection", "FENCE_MISMATCH", 1)
	o.set(func() {
		o.before = func(op, path string) error {
			if op == disk.OpCreate && strings.Contains(path, "handoff-receipts") {
				return errors.New("disk full")
			}
			return nil
		}
	})
	a, err = o.Collect(t.Context(), o.by, []string{r}, soon)
	o.one("not written", a, err, "collection", "STATE_IO", 1)
	o.set(func() { o.before = nil })
	o.change(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Name = "other" })
	a, err = o.Collect(t.Context(), o.until(2, nil), []string{r}, soon)
	o.one("another agent", a, err, "collection", "FENCE_MISMATCH", 1)
	o.want("at the end", nil, "", "pending")
}

// A disk that fails stops what has not begun, and hides nothing that has.
func TestDiskFails(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	// fails lets the nth operation of that name on receipts fail, and all later ones.
	fails := func(n int, name string) {
		o.set(func() {
			o.before = func(op, path string) error {
				if op != name || !strings.Contains(path, "handoff-receipts") {
					return nil
				}
				if n--; n >= 1 {
					return nil
				}
				return errors.New("disk full")
			}
		})
	}
	fails(2, disk.OpLink)
	_, err := o.Batch(t.Context(), o.by, both, soon)
	o.want("the second receipt", err, "STATE_IO", "failed/delivery_failed", "failed/delivery_failed")
	if n := o.prompts(); n != 0 {
		t.Errorf("%d prompts", n)
	}
	failed := []string{"failed/delivery_failed", "failed/delivery_failed"}
	fails(1, disk.OpRename)
	o.on("w1:p2", fakeherdr.Working)
	a, err := o.Relay(t.Context(), o.by, both[0])
	f := o.one("the commit", a, err, "delivery", "DELIVERY_AMBIGUOUS", 0)
	o.want("the commit", nil, "", append(failed, "reserved")...)
	if !strings.Contains(f.Message, "STATE_IO") || !strings.Contains(f.Message, "Do not send it again") || strings.Contains(f.Message, "/") {
		t.Errorf("%+v", f)
	}
	// One of which it is known that it was not sent stands as well, if that could
	// not be noted.
	o.change(func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "prompt"}, Kind: fakeherdr.ErrorCode, Code: "agent_not_ready"}}
	})
	a, err = o.Relay(t.Context(), o.by, both[1])
	o.one("a refused one", a, err, "delivery", "DELIVERY_REJECTED", 0)
	o.want("a refused one", nil, "", append(failed, "reserved", "reserved")...)
}

// Between the prompt and its confirmation others may have decided.
func TestConfirmTooLate(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.confirming = 20 * time.Second
	done := make(chan Failed)
	go func() {
		a, err := o.Relay(t.Context(), o.by, both[0])
		if err != nil || len(a.Failed) != 1 || len(a.Pending) != 0 {
			t.Errorf("%+v, %v", a, err)
			a = &Answer{Failed: make([]Failed, 1)}
		}
		done <- a.Failed[0]
	}()
	o.eventually("a prompt", func() bool { return o.prompts() == 1 })
	l, err := o.List("lead", store.Reserved, 10)
	if err != nil || len(l.Receipts) != 1 {
		t.Fatalf("%+v, %v", l, err)
	}
	for _, test := range []struct {
		later time.Duration
		wait  int64 // at least, in ms
	}{{0, 1}, {young - 5*time.Second, 1}, {5*time.Second - young, young.Milliseconds()}} {
		o.set(func() { o.later = test.later })
		_, err := o.Abandon(t.Context(), o.by, l.Receipts[0].Receipt)
		var f *fault.Fault
		if !errors.As(err, &f) || f.Code != "AGENT_NOT_SETTLED" || f.Details["retryAfterMs"].(int64) < test.wait {
			t.Errorf("%v later: %+v", test.later, f)
		}
	}
	o.set(func() { o.later = young })
	if a, err := o.Abandon(t.Context(), o.by, l.Receipts[0].Receipt); err != nil || a.State != "failed" || a.Failure != "abandoned" || a.Status != "idle" {
		t.Fatalf("%+v, %v", a, err)
	}
	o.status("w1:p2", fakeherdr.Working)
	if f := <-done; f.Code != "DELIVERY_AMBIGUOUS" || !strings.Contains(f.Message, "RECEIPT_WRONG_STATE") {
		t.Errorf("%+v", f)
	}
	o.want("at the end", nil, "", "failed/abandoned")
}

// A Herdr that does not list its agents ends a wait, and the receipt stays.
func TestHerdrFails(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	r := o.relay("reviewer", "w1:p2")
	o.change(func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "list"}, Kind: fakeherdr.ErrorCode, Code: "weather"}}
	})
	a, err := o.Collect(t.Context(), o.by, []string{r}, soon)
	o.one("lists", a, err, "collection", "HERDR_ERROR", 1)
	o.change(func(w *fakeherdr.World) { w.Faults[0].Left = 2 }) // two in a row are nothing
	o.status("w1:p2", fakeherdr.Done)
	o.change(func(w *fakeherdr.World) {
		w.Faults = append(w.Faults, fakeherdr.Fault{Match: []string{"agent", "read"}, Kind: fakeherdr.ErrorCode, Code: "weather", Left: 1})
	})
	a, err = o.Collect(t.Context(), o.by, []string{r}, soon)
	o.one("reads", a, err, "collection", "HERDR_ERROR", 1)
	o.change(func(w *fakeherdr.World) { // what is gone when it is read is seen to be gone
		w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "read"}, Kind: fakeherdr.ErrorCode, Code: "agent_not_found", Delay: time.Second}}
	})
	go func() {
		for range 2000 {
			if calls, err := o.scene.Calls(); err != nil || slices.ContainsFunc(calls[len(calls)-1:], func(c fakeherdr.Call) bool { return c.Args[1] == "read" && !c.Done }) {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		_ = o.scene.Update(func(w *fakeherdr.World) error { w.Pane("w1:p2").Agent = nil; return nil })
	}()
	a, err = o.Collect(t.Context(), o.by, []string{r}, soon)
	o.one("gone", a, err, "collection", "COLLECT_IDENTITY_CHANGED", 0)
	o.want("at the end", nil, "", "failed/identity_changed")
}

// mesh.md §4.6: what is seen of the agent, or that it is gone for good.
func TestAbandonable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do            func(*office, *fakeherdr.World)
		code, failure string
		status        string
	}{
		"idle":    {func(_ *office, w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = "idle" }, "", "abandoned", "idle"},
		"done":    {func(_ *office, w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = "done" }, "", "abandoned", "done"},
		"blocked": {func(_ *office, w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = "blocked" }, "", "abandoned", "blocked"},
		"unknown": {func(_ *office, w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = "unknown" }, "AGENT_NOT_SETTLED", "", ""},
		"working": {func(*office, *fakeherdr.World) {}, "AGENT_NOT_SETTLED", "", ""},
		"another": {func(_ *office, w *fakeherdr.World) { w.Pane("w1:p2").Agent.Name = "other" }, "LEASE_IDENTITY_CHANGED", "", ""},
		"exited":  {func(_ *office, w *fakeherdr.World) { w.Pane("w1:p2").Agent = nil }, "LEASE_IDENTITY_CHANGED", "", ""},
		"pane closed": {func(_ *office, w *fakeherdr.World) {
			w.Panes = slices.DeleteFunc(w.Panes, func(p *fakeherdr.Pane) bool { return p.ID == "w1:p2" })
		}, "", "target_gone", ""},
		"id reused": {func(_ *office, w *fakeherdr.World) { w.Pane("w1:p2").Terminal = "term_00000000000001" }, "", "target_gone", ""},
		"not to tell": {func(_ *office, w *fakeherdr.World) {
			w.Pane("w1:p2").Agent = nil
			w.Faults = []fakeherdr.Fault{{Match: []string{"pane", "get", "w1:p2"}, Kind: fakeherdr.ErrorCode, Code: "weather"}}
		}, "HERDR_ERROR", "", ""},
		"no lists": {func(_ *office, w *fakeherdr.World) {
			w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "list"}, Kind: fakeherdr.ErrorCode, Code: "weather"}}
		}, "HERDR_ERROR", "", ""},
		"lease ended": {func(o *office, _ *fakeherdr.World) {
			o.lease("reviewer", func(l *store.Reviewer) { l.State = store.Closed })
		}, "", "target_gone", ""},
		"lease closing": {func(o *office, w *fakeherdr.World) {
			o.lease("reviewer", func(l *store.Reviewer) { l.State = store.Closing })
			w.Pane("w1:p2").Agent.Status = "idle"
		}, "", "abandoned", "idle"},
		"session": {func(o *office, w *fakeherdr.World) {
			o.lease("reviewer", func(l *store.Reviewer) { l.HerdrSocket = "/x" })
			w.Pane("w1:p2").Agent.Status = "idle"
		}, "LEASE_OTHER_SESSION", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			r := o.relay("reviewer", "w1:p2")
			o.change(func(w *fakeherdr.World) { test.do(o, w) })
			a, err := o.Abandon(t.Context(), o.by, r)
			if err != nil {
				o.want(name, err, test.code, "pending")
				return
			}
			if test.code != "" || a.Failure != test.failure || a.Status != test.status || (a.Cursor != nil) != (a.Status != "") || a.Receipt != r || a.Target != "reviewer" ||
				a.State != "failed" {
				t.Errorf("%+v", a)
			}
			if a.Cursor != nil && *a.Cursor != int64(o.pane("w1:p2").Agent.StateChangeSeq) {
				t.Errorf("at %d", *a.Cursor)
			}
			o.want(name, nil, "", "failed/"+test.failure)
		})
	}
}

// lease changes the record of a lease.
func (o *office) lease(name string, edit func(*store.Reviewer)) {
	o.t.Helper()
	x, err := o.store.Begin(o.t.Context())
	must(o.t, err)
	defer x.End()
	all, err := store.Retained[store.Reviewer](x)
	must(o.t, err)
	for _, l := range all {
		if l.AgentName == name {
			edit(l)
			must(o.t, x.Replace(l))
		}
	}
}

// A receipt of another session, or whose lease cannot be read, fails by itself, and
// stays.
func TestCollectElsewhere(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	one, two := o.relay("reviewer", "w1:p2"), o.relay("builder", "w2:p1")
	o.status("w2:p1", fakeherdr.Done)
	edit := func(token string, edit func(*store.Receipt)) {
		x, err := o.store.Begin(t.Context())
		must(t, err)
		defer x.End()
		r := new(store.Receipt)
		must(t, o.store.Load(strings.TrimPrefix(token, store.TokenPrefix), r))
		edit(r)
		must(t, x.Replace(r))
	}
	edit(one, func(r *store.Receipt) { r.HerdrSocket = "/elsewhere.sock" })
	a, err := o.Collect(t.Context(), o.by, []string{one, two}, soon)
	if err != nil || len(a.Completed) != 1 || len(a.Failed) != 1 || a.Failed[0].Code != "LEASE_OTHER_SESSION" || !slices.Equal(a.Pending, []string{one}) {
		t.Errorf("%+v, %v", a, err)
	}
	o.want("at the end", nil, "", "completed", "pending")
	_, err = o.Collect(t.Context(), o.by, []string{two, strings.ToUpper(two)}, soon)
	o.want("twice", err, "INVALID_ARGUMENT", "completed", "pending")
	_, err = o.Collect(t.Context(), o.by, nil, soon)
	o.want("none", err, "INVALID_ARGUMENT", "completed", "pending")
	_, err = o.Collect(t.Context(), o.by, make([]string, MaxRequests+1), soon)
	o.want("nine", err, "INVALID_ARGUMENT", "completed", "pending")
	_, err = o.Collect(t.Context(), o.by, []string{"x"}, soon)
	o.want("no token", err, "RECEIPT_INVALID", "completed", "pending")
	_, err = o.Abandon(t.Context(), o.by, "x")
	o.want("no token", err, "RECEIPT_INVALID", "completed", "pending")
	edit(one, func(r *store.Receipt) { r.HerdrSocket = "" })
	o.status("w1:p2", fakeherdr.Done)
	a, err = o.Collect(t.Context(), o.by, []string{one}, soon)
	if err != nil || len(a.Completed) != 1 {
		t.Errorf("of the older bridge: %+v, %v", a, err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	l, err := o.List("", "", 10)
	if err != nil || len(l.Receipts) != 0 || l.Receipts == nil || l.Invalid == nil || l.Truncated {
		t.Errorf("%+v, %v", l, err)
	}
	x, err := o.store.Begin(t.Context())
	must(t, err)
	want := map[string]Listed{}
	for n, state := range []string{store.Reserved, store.Pending, store.Completed, store.Failed, store.Pending} {
		r := &store.Receipt{
			Version: 1, ReceiptID: disk.NewID(), ControllerID: fmt.Sprintf("lead%d", n%2), ControllerLeaseID: disk.NewID(), Target: "reviewer", TargetLeaseID: disk.NewID(),
			PaneID: "w1:p2", AgentKind: "codex", Cwd: "/x", State: state, CreatedAt: "2026-01-02T03:04:05.678Z", UpdatedAt: "2026-01-02T03:04:06.678Z",
			BeforeSeq: int64(n), TerminalID: "term_1", HerdrSocket: "/s",
		}
		e := Listed{store.TokenPrefix + r.ReceiptID, r.ControllerID, "reviewer", "w1:p2", "codex", "/x", state, int64(n), 0, 0, "", r.CreatedAt, r.UpdatedAt}
		if state != store.Reserved && state != store.Failed {
			r.AfterSeq, e.AfterSeq = 20, 20
		}
		if state == store.Completed {
			r.SettledSeq, e.SettledSeq = 30, 30
		}
		if state == store.Failed {
			r.Failure, e.Failure = "abandoned", "abandoned"
		}
		must(t, x.Create(r))
		want[e.Receipt] = e
	}
	x.End()
	for _, test := range []struct {
		controller, state string
		limit, n          int
		truncated         bool
	}{
		{"", "", 10, 5, false}, {"", "", 5, 5, false}, {"", "", 4, 4, true}, {"", "", 1, 1, true},
		{"lead0", "", 10, 3, false}, {"lead1", "", 10, 2, false}, {"lead", "", 10, 0, false},
		{"", "pending", 10, 2, false}, {"", "completed", 10, 1, false}, {"lead0", "pending", 10, 1, false}, {"lead1", "completed", 10, 0, false}, {"lead1", "pending", 1, 1, false},
	} {
		l, err := o.List(test.controller, test.state, test.limit)
		if err != nil || len(l.Receipts) != test.n || l.Truncated != test.truncated || len(l.Invalid) != 0 {
			t.Errorf("%+v: %+v, %v", test, l, err)
		}
		for _, r := range l.Receipts {
			if r != want[r.Receipt] || test.controller != "" && r.ControllerID != test.controller || test.state != "" && r.State != test.state {
				t.Errorf("%+v: %+v", test, r)
			}
		}
	}
}

// Nothing goes on behind an answer.
func TestNothingIsLeft(t *testing.T) { // not beside other tests
	o := newOffice(t)
	goroutines := runtime.NumGoroutine()
	for _, w := range []Wait{soon, {First: true, Timeout: time.Second, Lines: 1, Until: make(chan struct{})}, {Timeout: 10 * time.Millisecond, Lines: 1}} {
		o.on("w1:p2", fakeherdr.Working)
		o.on("w2:p1", fakeherdr.Done)
		go func() {
			for range 2000 {
				if l, err := o.List("", store.Pending, 10); err == nil && len(l.Receipts) == 2 {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			_ = o.scene.Update(func(w *fakeherdr.World) error { w.Pane("w1:p2").Agent.Status = "done"; return nil })
		}()
		a, err := o.Batch(t.Context(), o.by, both, w)
		if err != nil {
			t.Fatalf("%+v, %v", a, err)
		}
		o.status("w1:p2", fakeherdr.Done)
		o.status("w2:p1", fakeherdr.Done)
		for _, r := range a.Pending {
			if c, err := o.Collect(t.Context(), o.by, []string{r}, soon); err != nil || len(c.Completed) != 1 {
				t.Fatalf("%+v, %v", c, err)
			}
		}
		o.status("w2:p1", fakeherdr.Idle)
		for _, f := range a.Failed {
			if f.Stage == "delivery" {
				t.Fatalf("%+v", a)
			}
		}
	}
	o.eventually("the end of all goroutines", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// A receipt is in the way of its own lease, and not of the next one of that name.
func TestBarrierIsOfALease(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.relay("reviewer", "w1:p2")
	o.status("w1:p2", fakeherdr.Done)
	_, err := o.Relay(t.Context(), o.by, both[0])
	o.want("the same lease", err, "RECEIPT_OUTSTANDING", "pending")
	o.lease("reviewer", func(l *store.Reviewer) { l.State = store.Closed })
	x, err := o.store.Begin(t.Context())
	must(t, err)
	p := o.pane("w1:p2")
	must(t, x.Create(reviewer(p, store.Stamp(o.store.Now()))))
	x.End()
	o.relay("reviewer", "w1:p2")
	o.want("another lease", nil, "", "pending", "pending")
}

// Only the agent whose terminal is locked may be prompted.
func TestReady(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	agents, err := o.leases.Agents(t.Context())
	must(t, err)
	l := reviewer(o.pane("w1:p2"), store.Stamp(o.store.Now()))
	if a, err := ready(l, agents, new(lease.Held)); a != nil || fault.Code(err) != "LEASE_IDENTITY_CHANGED" {
		t.Errorf("%+v, %v", a, err)
	}
	held, err := o.leases.Hold(t.Context(), agents...)
	must(t, err)
	defer held.Release()
	if a, err := ready(l, agents, held); err != nil || a.PaneID != "w1:p2" {
		t.Errorf("%+v, %v", a, err)
	}
}

// Who is blocked has the message, as has who works: nobody waits for more.
func TestConfirmedEarly(t *testing.T) {
	t.Parallel()
	for _, status := range []string{fakeherdr.Working, fakeherdr.Blocked} {
		o := newOffice(t)
		o.confirming = time.Minute
		o.change(func(w *fakeherdr.World) { w.EnterDelay = 0 }) // it must not answer a dialog
		o.on("w1:p2", status)
		begun := time.Now()
		a, err := o.Relay(t.Context(), o.by, both[0])
		if err != nil || len(a.Pending) != 1 || time.Since(begun) > 30*time.Second {
			t.Fatalf("%s: %+v, %v after %v", status, a, err, time.Since(begun))
		}
		r := new(store.Receipt)
		must(t, o.store.Load(strings.TrimPrefix(a.Pending[0], store.TokenPrefix), r))
		if (r.BlockedSeq == r.AfterSeq) != (status == fakeherdr.Blocked) || r.AfterSeq != int64(o.pane("w1:p2").Agent.StateChangeSeq) {
			t.Errorf("%s: %+v", status, r)
		}
	}
}

// What is cancelled at the commit is not noted.
func TestCommitCancelled(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ctx, cancel := context.WithCancel(t.Context())
	o.on("w1:p2", fakeherdr.Working)
	a, err := o.Relay(ctx, o.until(3, cancel), both[0])
	f := o.one("cancelled", a, err, "delivery", "DELIVERY_AMBIGUOUS", 0)
	if !strings.Contains(f.Message, "CANCELLED") {
		t.Errorf("%+v", f)
	}
	o.want("cancelled", nil, "", "reserved")
	// A clock that was set back by more than the time of a delivery keeps nobody.
	o.status("w1:p2", fakeherdr.Done)
	o.set(func() { o.later = -time.Second })
	_, err = o.Abandon(t.Context(), o.by, f.Receipt)
	o.want("a little", err, "AGENT_NOT_SETTLED", "reserved")
	x, err := o.store.Begin(t.Context())
	must(t, err)
	r := new(store.Receipt)
	must(t, o.store.Load(strings.TrimPrefix(f.Receipt, store.TokenPrefix), r))
	r.CreatedAt = store.Stamp(time.Now().Add(young + time.Hour))
	must(t, x.Replace(r))
	x.End()
	if a, err := o.Abandon(t.Context(), o.by, f.Receipt); err != nil || a.Failure != "abandoned" {
		t.Errorf("%+v, %v", a, err)
	}
}

// slowly lets the screen of a pane be read for a second, and does something
// meanwhile.
func (o *office) slowly(pane string, do func()) {
	o.t.Helper()
	o.change(func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "read", pane}, Kind: fakeherdr.Slow, Delay: time.Second, Left: 1}}
	})
	reads := func() (n int) {
		calls, _ := o.scene.Calls()
		for _, c := range calls {
			if len(c.Args) > 2 && c.Args[1] == "read" && c.Args[2] == pane {
				n++
			}
		}
		return n
	}
	before := reads()
	go func() {
		for end := time.Now().Add(20 * time.Second); reads() == before && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		do()
	}()
}

// What is decided while the screen is read, and what the agent does meanwhile.
func TestMeanwhile(t *testing.T) {
	t.Parallel()
	set := func(o *office, status string) {
		_ = o.scene.Update(func(w *fakeherdr.World) error { w.Pane("w1:p2").Agent.Status = status; return nil })
	}
	t.Run("abandoned", func(t *testing.T) {
		t.Parallel()
		o := newOffice(t)
		r := o.relay("reviewer", "w1:p2")
		o.status("w1:p2", fakeherdr.Done)
		o.slowly("w1:p2", func() {
			if _, err := o.Abandon(context.Background(), o.by, r); err != nil {
				t.Error(err)
			}
		})
		a, err := o.Collect(t.Context(), o.by, []string{r}, soon)
		o.one("abandoned", a, err, "collection", "RECEIPT_WRONG_STATE", 0)
		o.want("abandoned", nil, "", "failed/abandoned")
	})
	t.Run("collected", func(t *testing.T) {
		t.Parallel()
		o := newOffice(t)
		r := o.relay("reviewer", "w1:p2")
		o.change(func(w *fakeherdr.World) { w.Pane("w1:p2").Text = []string{"the answer"} })
		o.status("w1:p2", fakeherdr.Done)
		o.slowly("w1:p2", func() {
			if a, err := o.Collect(context.Background(), o.by, []string{r}, soon); err != nil || len(a.Completed) != 1 {
				t.Errorf("%+v, %v", a, err)
			}
		})
		a, err := o.Collect(t.Context(), o.by, []string{r}, soon)
		if err != nil || len(a.Completed) != 1 || len(a.Failed) > 0 || a.Completed[0].Proof != "first_seen" || !strings.HasPrefix(a.Completed[0].Output, "the answer") {
			t.Errorf("%+v, %v", a, err)
		}
		o.want("collected", nil, "", "completed")
	})
	t.Run("collected, and another task", func(t *testing.T) {
		t.Parallel()
		o := newOffice(t)
		r := o.relay("reviewer", "w1:p2")
		o.status("w1:p2", fakeherdr.Done)
		o.slowly("w1:p2", func() {
			if a, err := o.Collect(context.Background(), o.by, []string{r}, soon); err != nil || len(a.Completed) != 1 {
				t.Errorf("%+v, %v", a, err)
				return
			}
			done := new(store.Receipt)
			if err := o.store.Load(strings.TrimPrefix(r, store.TokenPrefix), done); err != nil {
				t.Error(err)
				return
			}
			next := *done
			next.ReceiptID, next.State, next.BeforeSeq, next.AfterSeq, next.SettledSeq = disk.NewID(), store.Reserved, done.SettledSeq, 0, 0
			x, err := o.store.Begin(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			defer x.End()
			if err := x.Create(&next); err != nil {
				t.Error(err)
			}
		})
		a, err := o.Collect(t.Context(), o.by, []string{r}, soon)
		o.one("followed", a, err, "collection", "COLLECT_STALE", 0)
	})
	t.Run("another whole turn", func(t *testing.T) {
		t.Parallel()
		o := newOffice(t)
		r := o.relay("reviewer", "w1:p2")
		o.status("w1:p2", fakeherdr.Done)
		o.slowly("w1:p2", func() { set(o, fakeherdr.Working); set(o, fakeherdr.Done) })
		a, err := o.Collect(t.Context(), o.by, []string{r}, soon)
		o.one("superseded", a, err, "collection", "COLLECT_CURSOR_SUPERSEDED", 0)
		o.want("superseded", nil, "", "failed/cursor_superseded")
	})
	t.Run("replayed", func(t *testing.T) {
		t.Parallel()
		o := newOffice(t)
		r := o.relay("reviewer", "w1:p2")
		o.set(func() { o.later = 10 * time.Second })
		o.status("w1:p2", fakeherdr.Done)
		a, err := o.Collect(t.Context(), o.by, []string{r}, soon)
		if err != nil || len(a.Completed) != 1 {
			t.Fatalf("%+v, %v", a, err)
		}
		l, err := o.List("", "", 1)
		must(t, err)
		made, err1 := store.Time(l.Receipts[0].CreatedAt)
		changed, err2 := store.Time(l.Receipts[0].UpdatedAt)
		if err1 != nil || err2 != nil || changed.Sub(made) < 10*time.Second {
			t.Errorf("%+v", l.Receipts[0])
		}
		cursor := o.pane("w1:p2").Agent.StateChangeSeq
		o.status("w1:p2", fakeherdr.Unknown) // by no turn
		o.change(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.StateChangeSeq = cursor })
		a, err = o.Collect(t.Context(), o.by, []string{r}, soon)
		o.one("not quiet", a, err, "collection", "COLLECT_STALE", 0)
	})
	t.Run("blocked twice", func(t *testing.T) {
		t.Parallel()
		o := newOffice(t)
		r := o.relay("reviewer", "w1:p2")
		for range 2 {
			o.status("w1:p2", fakeherdr.Blocked)
			a, err := o.Collect(t.Context(), o.by, []string{r}, soon)
			o.one("blocked", a, err, "collection", "AGENT_BLOCKED", 1)
			record := new(store.Receipt)
			must(t, o.store.Load(strings.TrimPrefix(r, store.TokenPrefix), record))
			if want := o.pane("w1:p2").Agent.StateChangeSeq; record.BlockedSeq != int64(want) {
				t.Errorf("blocked at %d, not %d", record.BlockedSeq, want)
			}
			o.status("w1:p2", fakeherdr.Working)
		}
	})
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		o := newOffice(t)
		r := o.relay("reviewer", "w1:p2")
		o.status("w1:p2", fakeherdr.Done)
		o.lease("reviewer", func(l *store.Reviewer) { l.State = store.Closed })
		a, err := o.Collect(t.Context(), o.by, []string{r}, soon)
		o.one("closed", a, err, "collection", "COLLECT_IDENTITY_CHANGED", 0)
		o.want("closed", nil, "", "failed/identity_changed")
	})
}

// A section whose time is over begins no prompt.
func TestPromptTooLate(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	agents, err := o.leases.Agents(t.Context())
	must(t, err)
	held, err := o.leases.Hold(t.Context(), agents...)
	must(t, err)
	defer held.Release()
	ctx, cancel := context.WithCancel(t.Context())
	x, err := o.store.Begin(ctx)
	must(t, err)
	defer x.End()
	cancel()
	p := o.pane("w1:p2")
	i := &item{batch: &batch{Handoffs: o.Handoffs}, message: "x", receipt: &store.Receipt{PaneID: p.ID, TerminalID: p.Terminal}}
	if i.prompt(x, held); i.failure == nil || i.failure.Code != "CANCELLED" || i.stage != "delivery" || o.prompts() != 0 {
		t.Errorf("%+v, %d prompts", i.failure, o.prompts())
	}
	if i.prompt(x, new(lease.Held)); i.failure.Code != "CANCELLED" {
		t.Errorf("%+v", i.failure)
	}
}

// Who is cancelled while a delivery is to be confirmed waits for no herdr.
func TestConfirmCancelled(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.confirming = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	var begun time.Time
	lists := func() (n int) {
		calls, _ := o.scene.Calls()
		for _, c := range calls {
			if len(c.Args) > 1 && c.Args[1] == "list" && !c.Done {
				n++
			}
		}
		return n
	}
	go func() {
		for end := time.Now().Add(20 * time.Second); o.prompts() == 0 && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		_ = o.scene.Update(func(w *fakeherdr.World) error {
			w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "list"}, Kind: fakeherdr.Hang}}
			return nil
		})
		for end := time.Now().Add(20 * time.Second); lists() == 0 && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		begun = time.Now()
		cancel()
	}()
	a, err := o.Relay(ctx, o.by, both[0])
	if took := time.Since(begun); took > sampleTime/2 {
		t.Errorf("it took %v", took)
	}
	o.one("cancelled", a, err, "delivery", "DELIVERY_AMBIGUOUS", 0)
	o.want("cancelled", nil, "", "reserved")
}
