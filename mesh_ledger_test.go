//go:build unix

package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
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

// reconciling are the arguments that ask for one lease.
func (l meshLease) reconciling(kind, id, more string) string {
	return l.showing(fmt.Sprintf(`,"lease_type":%q,"lease_id":%q%s`, kind, id, more))
}

// reconciled fails unless the answer is that action and state.
func (m meshed) reconciled(t testing.TB, action, terminal string) {
	t.Helper()
	success(t, m)
	if string(m.data["action"]) != quoteJSON(action) || m.has("terminalState") != (terminal != "") || terminal != "" && string(m.data["terminalState"]) != quoteJSON(terminal) || !m.has("lease") {
		t.Errorf("%s, want %s %s", m.StructuredContent, action, terminal)
	}
}

// closed closes a pane as a person does.
func closed(t testing.TB, s *fakeherdr.Scene, pane string) {
	t.Helper()
	cmd := exec.Command(s.Bin(), "pane", "close", pane)
	cmd.Env = append(os.Environ(), s.Env("w1:p1")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// mesh.md §8, 37 and 39: a pane that was closed by hand, and an adopted one whose
// agent has exited.
func TestMeshReconcile(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	state, variable := stateOf(t)
	h := coordinate(t, s, "w1:p1", variable)
	l := h.answers("herdr_controller_acquire", asking("")).lease(t)
	lease, adopted := reviewerOf(t, s, "w1:p2"), adoptedOf(t, s, "w2:p1")
	write(t, state, lease, adopted)
	task := h.begin("herdr_relay", l.showing(`,"target":"reviewer","text":"look at it"`))
	submittedTo(t, s, "w1:p2", "look at it")
	setStatus(t, s, "w1:p2", fakeherdr.Working)
	token := h.meshed(task).handed(t).PendingReceipts[0]

	h.answers("herdr_lease_reconcile", l.reconciling("reviewer", lease.LeaseID, `,"dry_run":false`)).reconciled(t, "preserved_live_pane", "")
	closed(t, s, "w1:p2")
	h.answers("herdr_lease_reconcile", l.reconciling("reviewer", lease.LeaseID, "")).reconciled(t, "would_terminalize_missing_pane", "closed")
	list := h.answers("herdr_handoff_receipt_list", `{}`)
	if !strings.Contains(string(list.data["receipts"]), `"state":"pending"`) {
		t.Errorf("after the dry run: %s", list.StructuredContent)
	}
	h.answers("herdr_lease_reconcile", l.reconciling("reviewer", lease.LeaseID, `,"dry_run":false`)).reconciled(t, "terminalized_missing_pane", "closed")
	list = h.answers("herdr_handoff_receipt_list", `{}`)
	if text := string(list.data["receipts"]); !strings.Contains(text, `"state":"failed"`) || !strings.Contains(text, `"failure":"target_gone"`) || !strings.Contains(text, token) {
		t.Errorf("its receipt: %s", text)
	}
	h.refuses("LEASE_NOT_RETAINED", "herdr_relay", l.showing(`,"target":"reviewer","text":"again"`))
	h.answers("herdr_lease_reconcile", l.reconciling("reviewer", lease.LeaseID, "")).reconciled(t, "preserved_state", "closed")

	change(t, s, func(w *fakeherdr.World) { w.Pane("w2:p1").Agent = nil })
	h.answers("herdr_lease_reconcile", l.reconciling("adopted-pane", adopted.LeaseID, `,"dry_run":false`)).reconciled(t, "terminalized_missing_agent", "closed")
	w, err := s.World()
	if err != nil || w.Pane("w2:p1") == nil {
		t.Errorf("the pane was not left alone: %v", err)
	}

	// Who may, and what is wrong.
	foreign := adoptedOf(t, s, "w1:p1")
	foreign.ControllerID = "other"
	write(t, state, foreign)
	h.refuses("LEASE_OTHER_CONTROLLER", "herdr_lease_reconcile", l.reconciling("adopted-pane", foreign.LeaseID, ""))
	h.refuses("LEASE_NOT_FOUND", "herdr_lease_reconcile", l.reconciling("writer", foreign.LeaseID, ""))
	const four = `,"checkpoint_ref":"C-1","expected_head":"%s","expected_status_sha256":"%s"`
	facts := fmt.Sprintf(four, strings.Repeat("a", 40), anyDigest)
	for args, says := range map[string]string{
		l.reconciling("pane", lease.LeaseID, ""):                                                   "lease_type must be one of",
		l.reconciling("reviewer", "x", ""):                                                         "lease_id must be a UUID",
		l.reconciling("reviewer", lease.LeaseID, `,"dryrun":true`):                                 `"dryrun" is no argument`,
		l.reconciling("reviewer", lease.LeaseID, `,"dry_run":1`):                                   "dry_run must be",
		l.reconciling("writer", lease.LeaseID, facts):                                              "must all be there",
		l.reconciling("reviewer", lease.LeaseID, facts+`,"checkpoint_sha256":"`+anyDigest+`"`):     "are for lease_type writer",
		l.reconciling("writer", lease.LeaseID, `,"expected_head":"`+strings.Repeat("a", 41)+`"`):   "expected_head must be",
		l.reconciling("writer", lease.LeaseID, `,"checkpoint_ref":"`+strings.Repeat("x", 501)+`"`): "checkpoint_ref must have",
	} {
		if m := h.refuses("INVALID_ARGUMENT", "herdr_lease_reconcile", args); !strings.Contains(m.fault.Message, says) {
			t.Errorf("%s, want %s", m.fault.Message, says)
		}
	}
	l.FenceToken = leaseID("9")
	h.refuses("FENCE_MISMATCH", "herdr_lease_reconcile", l.reconciling("reviewer", lease.LeaseID, ""))
}

// mesh.md §8, 52 and 53, reconcile's side: a start that was broken off, and a
// restart of the server.
func TestMeshReconcileStart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	state, variable := stateOf(t)
	h := coordinate(t, s, "w1:p1", variable)
	l := h.answers("herdr_controller_acquire", asking("")).lease(t)
	provisioning := func(age time.Duration) *store.Reviewer {
		r := reviewerOf(t, s, "w1:p2")
		r.State, r.PaneID, r.TerminalID, r.WorkspaceID = store.Provisioning, "", "", "w2"
		r.CreatedAt, r.TabLabel = store.Stamp(time.Now().Add(-age)), "worker #"+r.LeaseID[:8]
		return r
	}
	early, late, made := provisioning(9*time.Minute), provisioning(10*time.Minute), provisioning(10*time.Minute)
	kept, lost := reviewerOf(t, s, "w1:p2"), reviewerOf(t, s, "w1:p2")
	kept.TabLabel = "kept #1"
	write(t, state, early, late, made, kept, lost)
	cmd := exec.Command(s.Bin(), "tab", "create", "--workspace", "w2", "--label", made.TabLabel, "--no-focus")
	cmd.Env = append(os.Environ(), s.Env("w1:p1")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	real := func(r *store.Reviewer) meshed {
		t.Helper()
		return h.answers("herdr_lease_reconcile", l.reconciling("reviewer", r.LeaseID, `,"dry_run":false`))
	}
	real(early).reconciled(t, "preserved_state", "")
	real(late).reconciled(t, "preserved_live_pane", "") // an agent of its name is there
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Name = "other" })
	real(late).reconciled(t, "terminalized_missing_pane", "failed_closed")
	h.answers("herdr_lease_reconcile", l.reconciling("reviewer", made.LeaseID, "")).reconciled(t, "would_bind_orphan_tab", "")
	m := real(made)
	m.reconciled(t, "bound_orphan_tab", "")
	if text := string(m.data["lease"]); !strings.Contains(text, `"state":"orphaned"`) || !strings.Contains(text, `"paneId":"w2:p2"`) || !strings.Contains(text, `"tabId":"w2:t2"`) {
		t.Errorf("%s", text)
	}
	real(made).reconciled(t, "preserved_live_pane", "")

	// After a restart pane ids come back: a tab's label tells the lease's own pane.
	change(t, s, func(w *fakeherdr.World) {
		for _, ws := range w.Workspaces {
			if ws.ID == "w1" {
				ws.Tabs = []*fakeherdr.Tab{{ID: "w1:t1", Label: kept.TabLabel}}
			}
		}
		w.Restart()
		w.RunAgent(w.Pane("w1:p1"), "claude", "lead")
	})
	h.refuses("CONTROLLER_OTHER_PANE", "herdr_lease_reconcile", l.reconciling("reviewer", kept.LeaseID, ""))
	expire(t, state)
	l = h.answers("herdr_controller_takeover", asking(fmt.Sprintf(`,"expected_predecessor_lease_id":%q`, l.LeaseID))).lease(t)
	real(kept).reconciled(t, "preserved_live_pane", "")
	real(lost).reconciled(t, "terminalized_missing_pane", "closed")
	if calls := commands(t, s, "pane", "close"); len(calls) > 0 {
		t.Errorf("it closed %q", calls)
	}
}

// mesh.md §8, 55: a session that was stopped once is not dead yet, unless the
// caller says so; one that is alive never is.
func TestMeshReconcileDead(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	state, variable := stateOf(t)
	h := coordinate(t, s, "w1:p1", variable)
	l := h.answers("herdr_controller_acquire", asking("")).lease(t)
	lease := reviewerOf(t, s, "w1:p2")
	lease.HerdrSocket = filepath.Join(t.TempDir(), "herdr.sock")
	write(t, state, lease)
	m := h.refuses("LEASE_OTHER_SESSION", "herdr_lease_reconcile", l.reconciling("reviewer", lease.LeaseID, `,"dry_run":false`))
	var ms int
	if err := json.Unmarshal(m.fault.Details["retryAfterMs"], &ms); err != nil || ms <= 0 || ms > 60000 {
		t.Errorf("%s", m.StructuredContent)
	}
	h.answers("herdr_lease_reconcile", l.reconciling("reviewer", lease.LeaseID, `,"confirm_dead_session":true`)).reconciled(t, "would_terminalize_missing_pane", "closed")
	h.answers("herdr_lease_reconcile", l.reconciling("reviewer", lease.LeaseID, `,"dry_run":false,"confirm_dead_session":true`)).reconciled(t, "terminalized_missing_pane", "closed")

	// From the default session, to that of the scene.
	alive := reviewerOf(t, s, "w1:p2")
	alive.ControllerID = "second"
	write(t, state, alive)
	other := coordinate(t, s, "w2:p1", variable, "HERDR_SOCKET_PATH=")
	l = other.answers("herdr_controller_acquire", strings.Replace(asking(""), "lead", "second", 1)).lease(t)
	closed(t, s, "w1:p2")
	for _, more := range []string{`,"dry_run":false`, `,"dry_run":false,"confirm_dead_session":true`} {
		if m := other.refuses("LEASE_OTHER_SESSION", "herdr_lease_reconcile", l.reconciling("reviewer", alive.LeaseID, more)); m.fault.Details["retryAfterMs"] != nil {
			t.Errorf("%s", m.StructuredContent)
		}
	}
}

// mesh.md §8, 38: a writer whose pane is gone is released with a checkpoint alone,
// and its worktree is as it was.
func TestMeshReconcileWriter(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not here")
	}
	s := newScene(t)
	state, variable := stateOf(t)
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	git := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %q: %v", args, err)
		}
		return string(out)
	}
	repository, tree := filepath.Join(home, "main"), filepath.Join(home, "tree")
	git(home, "init", "-q", "-b", "main", repository)
	git(repository, "commit", "-q", "--allow-empty", "-m", "base")
	git(repository, "worktree", "add", "-q", "-b", "topic", tree)
	if err := os.WriteFile(filepath.Join(tree, "unsaved"), []byte("work\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	head := strings.TrimSpace(git(tree, "rev-parse", "HEAD"))
	status := fmt.Sprintf("%x", sha256.Sum256([]byte(git(tree, "status", "--porcelain=v1", "--untracked-files=all"))))

	h := coordinate(t, s, "w1:p1", variable, "HOME="+home)
	l := h.answers("herdr_controller_acquire", asking("")).lease(t)
	r := reviewerOf(t, s, "w1:p2")
	w := &store.Writer{Version: 1, LeaseType: "writer", Lease: r.Lease, Tab: r.Tab, TicketRef: "T-1", AuthorityRef: "T-1", AuthoritySHA256: anyDigest,
		RepositoryRoot: repository, GitDir: filepath.Join(repository, ".git/worktrees/tree"), GitCommonDir: filepath.Join(repository, ".git"), Worktree: tree,
		Branch: "topic", BaseCommit: head, HeadCommit: head, GitStatusSHA256: status, OwnedScopes: []string{"a"}, LockedScopes: []string{}, ProtectedBranches: []string{"main"}}
	write(t, state, w)
	closed(t, s, "w1:p2")
	before := content(t, home)
	h.answers("herdr_lease_reconcile", l.reconciling("writer", w.LeaseID, `,"dry_run":false`)).reconciled(t, "preserved_ambiguous_writer", "")
	with := func(digest, more string) string {
		return l.reconciling("writer", w.LeaseID, fmt.Sprintf(`,"checkpoint_ref":"C-1","checkpoint_sha256":%q,"expected_head":%q,"expected_status_sha256":%q%s`, anyDigest, head, digest, more))
	}
	if m := h.refuses("STATUS_DIGEST_MISMATCH", "herdr_lease_reconcile", with(anyDigest, `,"dry_run":false`)); string(m.fault.Details["current"]) != quoteJSON(status) {
		t.Errorf("%s", m.StructuredContent)
	}
	h.answers("herdr_lease_reconcile", with(status, "")).reconciled(t, "would_terminalize_missing_pane", "released")
	m := h.answers("herdr_lease_reconcile", with(status, `,"dry_run":false`))
	m.reconciled(t, "terminalized_missing_pane", "released")
	if text := string(m.data["lease"]); !strings.Contains(text, `"checkpointRef":"C-1"`) || !strings.Contains(text, `"releasedAt":"`) {
		t.Errorf("%s", text)
	}
	if after := content(t, home); after != before {
		t.Errorf("the worktree or its repository has changed:\n%s\nit was\n%s", after, before)
	}
}

// content is what the files below dir are.
func content(t testing.TB, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%s %x\n", path, sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
