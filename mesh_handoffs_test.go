//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"herdr-link/fakeherdr"
)

// A handed is what a tool of handoffs answers.
type handed struct {
	Mode      string
	Completed []struct {
		Target, Receipt, Status, CursorProof, Output string
		StateChangeSeq                               int
		OutputTruncated                              *bool
	}
	Failed []struct {
		Target, Receipt, Stage, Error, Message string
	}
	PendingReceipts []string
}

func (m meshed) handed(t testing.TB) (a handed) {
	t.Helper()
	success(t, m)
	if err := json.Unmarshal(m.StructuredContent, &a); err != nil || a.Completed == nil || a.Failed == nil || a.PendingReceipts == nil {
		t.Fatalf("%v: %s", err, m.StructuredContent)
	}
	return a
}

// leaseID is the id of the lease of a pane's agent that leased makes.
func leaseID(n string) string { return "0f9d2c7e-3b1a-4c5d-8e6f-00000000000" + n }

// leased writes the record of a reviewer's lease as the older bridge or a start
// would have left it, of the agent that is in that pane now.
func leased(t testing.TB, s *fakeherdr.Scene, state, pane, id string, edit func(map[string]any)) {
	t.Helper()
	w, err := s.World()
	if err != nil {
		t.Fatal(err)
	}
	p := w.Pane(pane)
	m := map[string]any{
		"version": 1, "leaseId": id, "controllerId": "lead", "purpose": "review", "parentPaneId": "w1:p1", "paneId": p.ID, "agentName": p.Agent.Name,
		"agentKind": p.Agent.Kind, "cwd": p.Cwd, "state": "active", "createdAt": "2026-01-02T03:04:05.678Z", "terminalId": p.Terminal,
	}
	if edit != nil {
		edit(m)
	}
	writeRecord(t, filepath.Join(state, "reviewer-leases", id+".json"), m)
}

func writeRecord(t testing.TB, path string, m map[string]any) {
	t.Helper()
	text, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// submittedTo waits until the pane has got a prompt more than it had.
func submittedTo(t testing.TB, s *fakeherdr.Scene, pane, text string) {
	t.Helper()
	eventually(t, "the prompt "+text, func() bool {
		all, err := s.Submissions(pane)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(all, func(p fakeherdr.Submission) bool { return p.Text == text })
	})
}

func TestMeshRelay(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	state, variable := stateOf(t)
	h := coordinate(t, s, "w1:p1", variable)
	l := h.answers("herdr_controller_acquire", asking("")).lease(t)
	leased(t, s, state, "w1:p2", leaseID("1"), nil)
	id := h.begin("herdr_relay", l.showing(`,"target":"reviewer","text":"look at it"`))
	submittedTo(t, s, "w1:p2", "look at it")
	setStatus(t, s, "w1:p2", fakeherdr.Working)
	a := h.meshed(id).handed(t)
	if a.Mode != "none" || len(a.PendingReceipts) != 1 || len(a.Failed) != 0 {
		t.Fatalf("%+v", a)
	}
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p2").Text = []string{"it is good"} })
	setStatus(t, s, "w1:p2", fakeherdr.Done)
	a = h.answers("herdr_collect_handoffs", l.showing(`,"receipts":["`+a.PendingReceipts[0]+`"]`)).handed(t)
	if len(a.Completed) != 1 || a.Completed[0].Output != "it is good\n" || a.Completed[0].CursorProof != "first_seen" {
		t.Errorf("%+v", a)
	}
}
