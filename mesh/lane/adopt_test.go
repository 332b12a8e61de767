//go:build unix

package lane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/store"
)

// adoption is that of the agent reviewer in w1:p2, as it is now.
func (f *field) adoption() Adoption {
	f.t.Helper()
	a := f.world().Pane("w1:p2").Agent
	return Adoption{Purpose: "help", AuthorityRef: "T-2", AuthoritySHA256: sum, Target: "reviewer", PaneID: "w1:p2", Name: "reviewer", Kind: "codex", Cwd: f.dir,
		Cursor: int64(a.StateChangeSeq), Protected: []string{"w1:p1"}}
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	f := newField(t)
	s, by := f.lead()
	link := filepath.Join(f.dir, "link")
	must(t, os.Symlink(f.dir, link))
	q := f.adoption()
	q.Cwd, q.Protected = link, []string{"w1:p1", "w9:p9", "w1:p3"}
	r, err := s.Adopt(t.Context(), by, q)
	must(t, err)
	want := store.Adopted{
		Version: 1, LeaseType: "adopted-pane",
		Lease: store.Lease{LeaseID: r.LeaseID, ControllerID: "lead", Purpose: "help", PaneID: "w1:p2", AgentName: "reviewer", AgentKind: "codex", State: store.Active,
			TerminalID: f.world().Pane("w1:p2").Terminal, HerdrSocket: filepath.Join(f.scene.Dir(), "herdr.sock")},
		AuthorityRef: "T-2", AuthoritySHA256: sum, Cwd: f.dir, StateChangeSeq: q.Cursor, AdoptedAt: r.AdoptedAt,
	}
	on := new(store.Adopted)
	must(t, s.store.Load(r.LeaseID, on))
	if *r != want || *on != want {
		t.Errorf("%+v\n%+v\nnot\n%+v", r, on, want)
	}
	_, err = s.Adopt(t.Context(), by, f.adoption())
	f.want("twice", err, "PANE_CLAIMED")
	q2 := f.reviewer()
	q2.Name = "reviewer"
	_, err = s.StartReviewer(t.Context(), by, q2)
	f.want("a start of that name", err, "LEASE_NAME_RETAINED")

	reached := store.Checkpoint{CheckpointRef: "C-1", CheckpointSHA256: sum}
	closed, err := s.CloseAdopted(t.Context(), by, Close{LeaseID: r.LeaseID, Cursor: q.Cursor, Lines: 10}, reached)
	must(t, err)
	if got := closed.Lease.(*store.Adopted); got.State != store.Closed || got.ClosedAt == "" || got.Checkpoint != reached || got.CaptureSHA256 == "" || !f.closed("w1:p2") {
		t.Errorf("%+v", got)
	}
	_, err = s.CloseReviewer(t.Context(), by, Close{LeaseID: r.LeaseID, Lines: 10})
	f.want("of another kind", err, "LEASE_NOT_FOUND")
}

// Scenario 40, and what else is not adopted.
func TestAdoptEnds(t *testing.T) {
	t.Parallel()
	// What is said to differ, and no more.
	differs := map[string]string{"another pane": "paneId", "another name": "name", "another kind": "kind", "another folder": "cwd", "another agent": "paneId name kind cwd"}
	lead := func(q *Adoption) { q.Target, q.PaneID, q.Name, q.Kind = "lead", "w1:p1", "lead", "claude" }
	for name, tc := range map[string]struct {
		arrange func(*field, server)
		change  func(*Adoption)
		code    string
	}{
		"as it is":    {nil, nil, ""},
		"by its pane": {nil, func(q *Adoption) { q.Target = "w1:p2" }, ""},
		"done": {func(f *field, _ server) {
			f.update(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Done })
		}, nil, ""},
		"another pane":   {nil, func(q *Adoption) { q.PaneID = "w1:p3" }, "LEASE_IDENTITY_CHANGED"},
		"another name":   {nil, func(q *Adoption) { q.Target, q.Name = "w1:p2", "x" }, "LEASE_IDENTITY_CHANGED"},
		"another kind":   {nil, func(q *Adoption) { q.Kind = "pi" }, "LEASE_IDENTITY_CHANGED"},
		"another folder": {nil, func(q *Adoption) { q.Cwd = "/" }, "LEASE_IDENTITY_CHANGED"},
		"another agent":  {nil, func(q *Adoption) { q.PaneID, q.Name, q.Kind, q.Cwd = "w1:p3", "x", "pi", "/" }, "LEASE_IDENTITY_CHANGED"},
		"an odd terminal": {func(f *field, _ server) {
			f.update(func(w *fakeherdr.World) { w.Pane("w1:p2").Terminal = "../term" })
		}, nil, "HERDR_BAD_OUTPUT"},
		"another cursor": {nil, func(q *Adoption) { q.Cursor++ }, "CURSOR_MISMATCH"},
		"no such agent":  {nil, func(q *Adoption) { q.Target = "nobody" }, "AGENT_NOT_FOUND"},
		"working": {func(f *field, _ server) {
			f.update(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Working })
		}, nil, "AGENT_NOT_SETTLED"},
		"blocked": {func(f *field, _ server) {
			f.update(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Blocked })
		}, nil, "AGENT_BLOCKED"},
		"the caller":        {nil, lead, "PANE_PROTECTED"},
		"the caller, moved": {func(f *field, _ server) { f.update(func(w *fakeherdr.World) { w.Move("w1:p1", "w2") }) }, func(q *Adoption) { lead(q); q.Protected = nil }, "PANE_PROTECTED"},
		"a working caller": {func(f *field, _ server) {
			f.update(func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Status = fakeherdr.Working })
		}, lead, "PANE_PROTECTED"},
		"protected": {nil, func(q *Adoption) { q.Protected = append(q.Protected, "w1:p2") }, "PANE_PROTECTED"},
		"protected, moved": {func(f *field, _ server) { f.update(func(w *fakeherdr.World) { w.Move("w1:p2", "w2") }) },
			func(q *Adoption) { q.PaneID = "w2:p2"; q.Protected = append(q.Protected, "w1:p2") }, "PANE_PROTECTED"},
		"another controller": {func(f *field, _ server) { f.in("w1:p2").acquire(f.t, "boss") }, nil, "PANE_PROTECTED"},
		"one that has expired": {func(f *field, _ server) {
			f.in("w1:p2").acquire(f.t, "boss")
			f.edit("controller-leases", "boss", func(m map[string]any) { m["expiresAt"] = "2026-01-01T00:00:00.000Z" })
		}, nil, "PANE_PROTECTED"},
		"one of the older bridge": {func(f *field, _ server) {
			f.in("w1:p2").acquire(f.t, "boss")
			f.edit("controller-leases", "boss", func(m map[string]any) { delete(m, "terminalId"); delete(m, "herdrSocket") })
		}, nil, "PANE_PROTECTED"},
		"one that was released": {func(f *field, _ server) {
			f.in("w1:p2").acquire(f.t, "boss")
			f.edit("controller-leases", "boss", func(m map[string]any) { m["state"], m["releasedAt"] = "released", store.Stamp(time.Now()) })
		}, nil, ""},
		"a controller that nobody can read": {func(f *field, _ server) {
			f.in("w1:p2").acquire(f.t, "boss")
			f.edit("controller-leases", "boss", func(m map[string]any) { delete(m, "state") })
		}, nil, "STATE_CORRUPT"},
		"a lease of its pane":                 {func(f *field, s server) { f.leased(s, "w1:p2", "term_x", "x", "") }, nil, "PANE_CLAIMED"},
		"a lease of that pane, other session": {func(f *field, s server) { f.leased(s, "w1:p2", "term_x", "x", "/x.sock") }, nil, ""},
		"a lease of its terminal":             {func(f *field, s server) { f.leased(s, "w1:p9", f.world().Pane("w1:p2").Terminal, "x", "") }, nil, "PANE_CLAIMED"},
		"a lease of its name":                 {func(f *field, s server) { f.leased(s, "w1:p9", "term_x", "reviewer", "/x.sock") }, nil, "PANE_CLAIMED"},
		"a lease that has ended": {func(f *field, s server) {
			f.leased(s, "w1:p2", f.world().Pane("w1:p2").Terminal, "reviewer", "").State = store.Closed
		}, nil, "PANE_CLAIMED"},
		"no pane get": {func(f *field, _ server) { f.fault(fakeherdr.Fault{Kind: fakeherdr.Garbage}, "pane get w1:p3") }, func(q *Adoption) { q.Protected = []string{"w1:p3"} }, "HERDR_BAD_OUTPUT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newField(t)
			s, by := f.lead()
			q := f.adoption()
			if tc.arrange != nil {
				tc.arrange(f, s)
				q.Cursor = int64(f.world().Pane("w1:p2").Agent.StateChangeSeq)
			}
			if tc.change != nil {
				tc.change(&q)
			}
			_, err := s.Adopt(t.Context(), by, q)
			f.want("adopt", err, tc.code)
			if what := differs[name]; what != "" {
				var got *fault.Fault
				if !errors.As(err, &got) || fmt.Sprint(got.Details["differ"]) != "["+what+"]" || !strings.Contains(got.Message, "another "+strings.ReplaceAll(what, " ", " and ")+" than") {
					t.Errorf("%v, %+v, want %s", err, got.Details, what)
				}
			}
			l, err := store.List[store.Adopted](s.store, 0, nil)
			must(t, err)
			if (len(l.Records) == 1) != (tc.code == "") {
				t.Errorf("%d records", len(l.Records))
			}
		})
	}
}

// leased writes a lease of a reviewer.
func (f *field) leased(s server, pane, terminal, name, socket string) *store.Reviewer {
	f.t.Helper()
	x, err := s.store.Begin(f.t.Context())
	must(f.t, err)
	defer x.End()
	r := &store.Reviewer{Version: 1, Lease: store.Lease{LeaseID: "0f9d2c7e-3b1a-4c5d-8e6f-001122334455", ControllerID: "lead", Purpose: "x", PaneID: pane, AgentName: name,
		AgentKind: "pi", State: store.Active, TerminalID: terminal, HerdrSocket: socket}, Tab: store.Tab{ParentPaneID: "w1:p1", CreatedAt: store.Stamp(time.Now())}, Cwd: "/"}
	must(f.t, x.Create(r))
	return r
}
