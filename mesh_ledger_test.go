//go:build unix

package main

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/store"
)

// write makes records as the tools that make them would.
func write(t testing.TB, state string, records ...store.Record) {
	t.Helper()
	x, err := store.New(store.Options{Root: state}).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer x.End()
	for _, r := range records {
		if err := x.Create(r); err != nil {
			t.Fatal(err)
		}
	}
}

// leaseOf is a lease of the agent in that pane.
func leaseOf(t testing.TB, s *fakeherdr.Scene, pane string) store.Lease {
	t.Helper()
	w, err := s.World()
	if err != nil {
		t.Fatal(err)
	}
	p := w.Pane(pane)
	return store.Lease{LeaseID: disk.NewID(), ControllerID: "lead", Purpose: "test", PaneID: p.ID, AgentName: p.Agent.Name, AgentKind: p.Agent.Kind,
		State: store.Active, TerminalID: p.Terminal, HerdrSocket: filepath.Join(s.Dir(), "herdr.sock")}
}

func folderOf(t testing.TB, s *fakeherdr.Scene, pane string) string {
	t.Helper()
	w, err := s.World()
	if err != nil {
		t.Fatal(err)
	}
	return w.Pane(pane).Cwd
}

// reviewerOf is the lease of a reviewer, adoptedOf that of a pane that was there.
func reviewerOf(t testing.TB, s *fakeherdr.Scene, pane string) *store.Reviewer {
	t.Helper()
	return &store.Reviewer{Version: 1, Lease: leaseOf(t, s, pane), Tab: store.Tab{ParentPaneID: "w1:p1", CreatedAt: store.Stamp(time.Now())}, Cwd: folderOf(t, s, pane)}
}

func adoptedOf(t testing.TB, s *fakeherdr.Scene, pane string) *store.Adopted {
	t.Helper()
	return &store.Adopted{Version: 1, LeaseType: "adopted-pane", Lease: leaseOf(t, s, pane), AuthorityRef: "T-1", AuthoritySHA256: anyDigest,
		Cwd: folderOf(t, s, pane), AdoptedAt: store.Stamp(time.Now())}
}

// An inventory is what herdr_lease_inventory answers.
type inventory struct {
	Agents []struct {
		meshAgent
		LeaseStatus string
		Lease       map[string]string
	}
	RetainedLeases []map[string]string
	InvalidRecords []map[string]string
}

// mesh.md §2.8: agents and leases side by side, for everybody.
func TestMeshInventory(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	state, variable := stateOf(t)
	outside := coordinate(t, s, "", variable)
	look := func(args string) (i inventory) {
		t.Helper()
		m := outside.answers("herdr_lease_inventory", args)
		if err := json.Unmarshal(m.StructuredContent, &i); err != nil {
			t.Fatal(err)
		}
		return i
	}
	m := outside.answers("herdr_lease_inventory", "{}")
	if string(m.data["retainedLeases"]) != "[]" || string(m.data["invalidRecords"]) != "[]" || len(m.data) != 3 {
		t.Errorf("%s", m.StructuredContent)
	}
	if _, err := os.Stat(state); err == nil {
		t.Error("a look made the state")
	}

	lease, foreign := reviewerOf(t, s, "w1:p2"), adoptedOf(t, s, "w2:p1")
	foreign.ControllerID = "other"
	write(t, state, lease, foreign)
	if err := os.WriteFile(filepath.Join(state, "reviewer-leases", "broken.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	i := look("{}")
	if len(i.Agents) != 4 || len(i.RetainedLeases) != 2 || len(i.InvalidRecords) != 1 ||
		i.InvalidRecords[0]["file"] != "reviewer-leases/broken.json" || i.InvalidRecords[0]["code"] != "STATE_CORRUPT" {
		t.Errorf("%+v", i)
	}
	for _, a := range i.Agents {
		if a.TerminalID == "" || a.PaneID == "" || a.Status != "idle" || a.Kind == "" || a.StateChangeSeq == 0 || a.Target != cmp.Or(a.Name, a.PaneID) {
			t.Errorf("%+v", a)
		}
		status, id := "unleased", ""
		switch a.Name {
		case "reviewer":
			status, id = "matched", lease.LeaseID
		case "builder":
			status, id = "matched", foreign.LeaseID
		}
		if a.LeaseStatus != status || a.Lease["leaseId"] != id {
			t.Errorf("%+v", a)
		}
	}
	i = look(`{"controller_id":"other"}`)
	if len(i.RetainedLeases) != 1 || i.RetainedLeases[0]["leaseId"] != foreign.LeaseID || i.RetainedLeases[0]["liveIdentity"] != "matched" || len(i.RetainedLeases[0]) != 7 || len(i.InvalidRecords) != 1 {
		t.Errorf("%+v", i)
	}
	change(t, s, func(w *fakeherdr.World) { w.Pane("w2:p1").Agent = nil })
	if i = look(`{"controller_id":"other"}`); i.RetainedLeases[0]["liveIdentity"] != "missing_or_changed" || len(i.Agents) != 3 {
		t.Errorf("%+v", i)
	}
	if m := outside.refuses("INVALID_ARGUMENT", "herdr_lease_inventory", `{"controller_id":"a/b"}`); !strings.Contains(m.fault.Message, "controller_id") {
		t.Errorf("%s", m.StructuredContent)
	}
	fault(t, s, fakeherdr.Down)
	outside.refuses("HERDR_SERVER_DOWN", "herdr_lease_inventory", "{}")
}
