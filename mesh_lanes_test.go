//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/herdrcli"
)

// A laned is a lease of a pane in an answer.
type laned struct {
	LeaseID, ControllerID, State, PaneID, TerminalID, TabID, TabLabel, AgentName, Cwd, CaptureSHA256, CheckpointRef, Failure string
}

// A bench is a server with an authority, in w1:p1 of a scene.
type bench struct {
	*host
	t     *testing.T
	scene *fakeherdr.Scene
	state string
	home  string
	work  string // the folder of agents
	cred  meshLease
}

func newBench(t *testing.T, env ...string) *bench {
	t.Helper()
	b := &bench{t: t, scene: newScene(t), home: t.TempDir(), work: t.TempDir()}
	var variable string
	b.state, variable = stateOf(t)
	b.host = coordinate(t, b.scene, "w1:p1", append(env, variable, "HOME="+b.home, "HERDR_LINK_LOG="+filepath.Join(b.home, "log"))...)
	b.cred = b.answers("herdr_controller_acquire", asking("")).lease(t)
	return b
}

func lane(t testing.TB, m meshed) (l laned) {
	t.Helper()
	success(t, m)
	if err := json.Unmarshal(m.data["lease"], &l); err != nil {
		t.Fatalf("%v: %s", err, m.StructuredContent)
	}
	return l
}

// starting are the arguments of a reviewer's start.
func (b *bench) starting(name, more string) string {
	return b.cred.showing(fmt.Sprintf(`,"purpose":"look at T-1","parent_pane_id":"w1:p1","cwd":%q,"name":%q,"kind":"codex","start_timeout_ms":5000%s`, b.work, name, more))
}

func (b *bench) reviewer(name string) laned {
	b.t.Helper()
	return lane(b.t, b.answers("herdr_owned_reviewer_start", b.starting(name, "")))
}

func (b *bench) world() *fakeherdr.World {
	b.t.Helper()
	w, err := b.scene.World()
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

func (b *bench) cursor(pane string) int {
	b.t.Helper()
	return b.world().Pane(pane).Agent.StateChangeSeq
}

// closing are the arguments that close the lease's pane as it is now.
func (b *bench) closing(l laned, more string) string {
	b.t.Helper()
	return b.cred.showing(fmt.Sprintf(`,"lease_id":%q,"expected_state_change_seq":%d%s`, l.LeaseID, b.cursor(l.PaneID), more))
}

func (b *bench) exited(l laned, more string) string {
	return b.cred.showing(fmt.Sprintf(`,"lease_id":%q,"agent_exited":true%s`, l.LeaseID, more))
}

const reached = `,"checkpoint_ref":"C-1","checkpoint_sha256":"abababababababababababababababababababababababababababababababab"`

// adopting are the arguments that adopt the agent in that pane, as it is now.
func (b *bench) adopting(pane, more string) string {
	b.t.Helper()
	p := b.world().Pane(pane)
	return b.cred.showing(fmt.Sprintf(`,"purpose":"help","authority_ref":"T-2","authority_sha256":%q,"target":%q,"expected_pane_id":%q,"expected_name":%q,"expected_kind":%q,`+
		`"expected_cwd":%q,"expected_state_change_seq":%d,"controller_pane_id":"w1:p1"%s`, anyDigest, p.Agent.Name, p.ID, p.Agent.Name, p.Agent.Kind, p.Cwd, p.Agent.StateChangeSeq, more))
}

// listed returns what a list has.
func (b *bench) listed(tool, args string) (all []laned) {
	b.t.Helper()
	m := b.answers(tool, args)
	if err := json.Unmarshal(m.data["leases"], &all); err != nil || string(m.data["invalidRecords"]) != "[]" || !m.has("truncated") {
		b.t.Fatalf("%v: %s", err, m.StructuredContent)
	}
	return all
}

// put changes a record behind everybody's back.
func (b *bench) put(folder, id string, change func(map[string]any)) {
	b.t.Helper()
	file := filepath.Join(b.state, folder, id+".json")
	text, err := os.ReadFile(file)
	var m map[string]any
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	change(m)
	text, _ = json.Marshal(m)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) run(words string) int { return len(commands(b.t, b.scene, strings.Fields(words)...)) }

// shell leaves a bare shell of a pane, or a program in front of it.
func (b *bench) shell(pane string, program bool) {
	b.t.Helper()
	change(b.t, b.scene, func(w *fakeherdr.World) {
		p := w.Pane(pane)
		p.Agent, p.Shell, p.Foreground = nil, 4711, []fakeherdr.Process{{PID: 4711, Name: "bash"}}
		if program {
			p.Foreground = []fakeherdr.Process{{PID: 4712, Name: "vim"}}
		}
	})
}

// The life of a reviewer, from its start to its archive, as a model sees it.
func TestMeshReviewer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	l := b.reviewer("critic")
	if l.State != "active" || l.PaneID != "w1:p5" || l.TabLabel != "critic #"+l.LeaseID[:8] || l.AgentName != "critic" || l.ControllerID != "lead" {
		t.Errorf("%+v", l)
	}
	if p := b.world().Pane(l.PaneID); p == nil || p.Agent.Name != "critic" || p.Focused || p.Terminal != l.TerminalID {
		t.Errorf("%+v", p)
	}
	if info, err := os.Stat(filepath.Join(b.state, "reviewer-leases", l.LeaseID+".json")); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	m := b.answers("herdr_owned_reviewer_cleanup", b.cred.showing(""))
	if string(m.data["dryRun"]) != "true" || string(m.data["results"]) != `[{"leaseId":"`+l.LeaseID+`","action":"would_close","status":"idle"}]` {
		t.Errorf("%s", m.StructuredContent)
	}
	change(t, b.scene, func(w *fakeherdr.World) { w.Pane(l.PaneID).Text = []string{"", "\x1b[32mtwo remarks\x1b[0m"} })
	m = b.answers("herdr_owned_reviewer_close", b.closing(l, ""))
	closed := lane(t, m)
	if closed.State != "closed" || len(closed.CaptureSHA256) != 64 || b.world().Pane(l.PaneID) != nil {
		t.Errorf("%+v", closed)
	}
	if len(m.Content) != 2 || strings.Contains(m.text(), "remarks") || strings.TrimSpace(m.Content[1].Text) != "two remarks" || !strings.Contains(string(m.StructuredContent), `two remarks`) {
		t.Errorf("%q", m.Content)
	}
	b.refuses("LEASE_WRONG_STATE", "herdr_owned_reviewer_close", b.exited(l, ""))
	if b.run("agent read "+l.PaneID+" --source visible --lines 500 --format text") != 1 {
		t.Errorf("%q", commands(t, b.scene, "agent", "read"))
	}

	two, three := b.reviewer("critic"), b.reviewer("other")
	if all := b.listed("herdr_owned_reviewer_list", `{"controller_id":"lead"}`); len(all) != 3 || all[2].LeaseID != l.LeaseID {
		t.Errorf("%+v", all)
	}
	if all := b.listed("herdr_owned_reviewer_list", `{"state":"closed"}`); len(all) != 1 || all[0].LeaseID != l.LeaseID {
		t.Errorf("%+v", all)
	}
	if m := b.answers("herdr_owned_reviewer_list", `{"limit":1}`); string(m.data["truncated"]) != "true" {
		t.Errorf("%s", m.StructuredContent)
	}
	if all := b.listed("herdr_owned_reviewer_list", `{"controller_id":"boss"}`); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	setStatus(t, b.scene, three.PaneID, fakeherdr.Working)
	m = b.answers("herdr_owned_reviewer_cleanup", b.cred.showing(`,"dry_run":false`))
	var results []struct {
		LeaseID, Action, Status, Error string
		Result                         *struct {
			Lease          laned
			TerminalOutput *string
		}
	}
	if err := json.Unmarshal(m.data["results"], &results); err != nil || len(results) != 2 {
		t.Fatalf("%v: %s", err, m.StructuredContent)
	}
	for _, r := range results {
		if r.LeaseID == two.LeaseID && (r.Action != "closed" || r.Result == nil || r.Result.Lease.State != "closed" || r.Result.TerminalOutput == nil) ||
			r.LeaseID == three.LeaseID && (r.Action != "preserved" || r.Error != "AGENT_NOT_SETTLED" || r.Status != "working" || r.Result != nil) {
			t.Errorf("%+v", r)
		}
	}
	b.stdin.Close()
	b.wait()
	without(t, b.state, b.cred.FenceToken)
	without(t, b.scene.Dir(), b.cred.FenceToken)
	without(t, b.home, b.cred.FenceToken)
	if strings.Contains(b.stderr.String(), b.cred.FenceToken) {
		t.Error("a fence token is on stderr")
	}
}

// mesh.md §8, 23 and 24.
func TestMeshReviewerStart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	change(t, b.scene, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "start"}, Kind: fakeherdr.ErrorCode, Code: "agent_pane_busy", Left: 2}}
	})
	begun := time.Now()
	l := b.reviewer("critic")
	if took := time.Since(begun); b.run("agent start") != 3 || b.run("tab create") != 1 || took < 300*time.Millisecond {
		t.Errorf("%q after %v", commands(t, b.scene, "agent", "start"), took)
	}
	for _, argv := range commands(t, b.scene, "agent", "start") {
		if !slices.Equal(argv, []string{"agent", "start", "critic", "--kind", "codex", "--pane", l.PaneID, "--timeout", "5000"}) {
			t.Errorf("%q", argv)
		}
	}
	b.refuses("LEASE_NAME_RETAINED", "herdr_owned_reviewer_start", b.starting("critic", ""))
	lane(t, b.answers("herdr_owned_reviewer_start", strings.Replace(b.starting("opus", `,"model":"opus-4.5","effort":"xhigh"`), "codex", "claude", 1)))
	if argv := commands(t, b.scene, "agent", "start", "opus"); len(argv) != 1 || !strings.HasSuffix(strings.Join(argv[0], " "), " --timeout 5000 -- --model opus-4.5 --effort xhigh") {
		t.Errorf("%q", argv)
	}

	starts := b.run("agent start")
	m := b.refuses("AGENT_NAME_TAKEN", "herdr_owned_reviewer_start", b.starting("builder", "")) // an agent that has no lease
	failed := b.listed("herdr_owned_reviewer_list", `{"state":"failed_closed"}`)
	if b.run("agent start") != starts+1 || len(failed) != 1 || string(m.fault.Details["leaseId"]) != `"`+failed[0].LeaseID+`"` ||
		!strings.HasPrefix(failed[0].Failure, "AGENT_NAME_TAKEN: ") || b.world().Pane(failed[0].PaneID) != nil {
		t.Errorf("%+v, %s", failed, m.StructuredContent)
	}
	change(t, b.scene, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Match: []string{"pane", "close"}, Kind: fakeherdr.ErrorCode, Code: "internal", Left: 1}}
	})
	b.refuses("AGENT_NAME_TAKEN", "herdr_owned_reviewer_start", b.starting("builder", ""))
	orphans := b.listed("herdr_owned_reviewer_list", `{"state":"orphaned"}`)
	if len(orphans) != 1 || b.world().Pane(orphans[0].PaneID) == nil {
		t.Fatalf("%+v", orphans)
	}
	b.refuses("LEASE_NAME_RETAINED", "herdr_owned_reviewer_start", b.starting("builder", ""))
	b.shell(orphans[0].PaneID, false) // its exit
	if l := lane(t, b.answers("herdr_owned_reviewer_close", b.exited(orphans[0], ""))); l.State != "closed" {
		t.Errorf("%+v", l)
	}
}

// mesh.md §8, 52: the start's side.
func TestMeshReviewerDecided(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, state := range []string{"failed_closed", "orphaned"} {
		change(t, b.scene, func(w *fakeherdr.World) {
			w.Faults = []fakeherdr.Fault{{Match: []string{"tab", "create"}, Kind: fakeherdr.Slow, Delay: 2 * time.Second, Left: 1}}
		})
		before := b.run("tab create")
		panes := len(b.world().Panes)
		id := b.begin("herdr_owned_reviewer_start", b.starting("critic", ""))
		awaitCalls(t, b.scene, before+1, "tab", "create")
		var l laned
		for _, r := range b.listed("herdr_owned_reviewer_list", `{"state":"provisioning"}`) {
			l = r
		}
		b.put("reviewer-leases", l.LeaseID, func(m map[string]any) { m["state"] = state })
		refusal(t, b.meshed(id), "LEASE_WRONG_STATE")
		all := b.listed("herdr_owned_reviewer_list", `{"state":"`+state+`"}`)
		if len(all) != 1 || all[0].LeaseID != l.LeaseID || len(b.world().Panes) != panes || b.run("agent start") > 0 {
			t.Errorf("%s: %+v, %d panes", state, all, len(b.world().Panes))
		}
	}
}

// A dialog that is open from the start on is Herdr's to tell, and told late. No task
// that is given right behind the start answers it.
func TestMeshReviewerAsks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	change(t, b.scene, func(w *fakeherdr.World) { w.Dialogs = map[string]time.Duration{"codex": 700 * time.Millisecond} })
	l := b.reviewer("critic")
	b.refuses("AGENT_BLOCKED", "herdr_relay", b.cred.showing(`,"target":"critic","text":"hello"`))
	if keys, err := b.scene.Keystrokes(l.PaneID); err != nil || len(keys) != 1 || keys[0].Text != "codex" {
		t.Errorf("%+v, %v", keys, err) // the command of the start alone
	}
}

// mesh.md §8, 28, 35, 36 and 39.
func TestMeshReviewerClose(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	l := b.reviewer("critic")
	setStatus(t, b.scene, l.PaneID, fakeherdr.Blocked)
	b.refuses("AGENT_BLOCKED", "herdr_owned_reviewer_close", b.closing(l, ""))
	if keys, err := b.scene.Keystrokes(l.PaneID); err != nil || len(keys) != 1 || keys[0].Text != "codex" {
		t.Errorf("%+v, %v", keys, err) // the command of the start alone
	}
	setStatus(t, b.scene, l.PaneID, fakeherdr.Done)
	args := b.closing(l, "")
	change(t, b.scene, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "read"}, Kind: fakeherdr.Slow, Delay: 2 * time.Second, Left: 1}}
	})
	id := b.begin("herdr_owned_reviewer_close", args)
	awaitCalls(t, b.scene, 1, "agent", "read")
	setStatus(t, b.scene, l.PaneID, fakeherdr.Working)
	setStatus(t, b.scene, l.PaneID, fakeherdr.Done)
	m := refusal(t, b.meshed(id), "CURSOR_MOVED")
	if !*m.fault.Retryable || string(m.fault.Details["current"]) != fmt.Sprint(b.cursor(l.PaneID)) {
		t.Errorf("%s", m.StructuredContent)
	}
	m = b.refuses("CURSOR_MISMATCH", "herdr_owned_reviewer_close", args)
	if string(m.fault.Details["current"]) != fmt.Sprint(b.cursor(l.PaneID)) || b.run("pane close") > 0 {
		t.Errorf("%s", m.StructuredContent)
	}
	if all := b.listed("herdr_owned_reviewer_list", `{"state":"active"}`); len(all) != 1 {
		t.Errorf("%+v", all)
	}

	b.put("reviewer-leases", l.LeaseID, func(m map[string]any) { m["state"] = "closing" }) // as after a crash
	change(t, b.scene, func(w *fakeherdr.World) { w.Move(l.PaneID, "w2") })
	if closed := lane(t, b.answers("herdr_owned_reviewer_close", b.closing(l, ""))); closed.State != "closed" || closed.PaneID == l.PaneID {
		t.Errorf("%+v", closed)
	}

	l = b.reviewer("critic")
	b.refuses("LEASE_IDENTITY_CHANGED", "herdr_owned_reviewer_close", b.exited(l, ""))
	b.shell(l.PaneID, true)
	b.refuses("LEASE_IDENTITY_CHANGED", "herdr_owned_reviewer_close", b.exited(l, ""))
	b.shell(l.PaneID, false)
	if closed := lane(t, b.answers("herdr_owned_reviewer_close", b.exited(l, ""))); closed.State != "closed" || b.world().Pane(l.PaneID) != nil {
		t.Errorf("%+v", closed)
	}
}

// A task whose answer nobody has collected keeps the pane, unless nobody wants it.
func TestMeshReviewerReceipts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	l := b.reviewer("critic")
	id := b.begin("herdr_relay", b.cred.showing(`,"target":"critic","text":"Review the last commit."`))
	awaitCalls(t, b.scene, 1, "agent", "prompt")
	setStatus(t, b.scene, l.PaneID, fakeherdr.Working)
	success(t, b.meshed(id))
	b.refuses("RECEIPT_OUTSTANDING", "herdr_owned_reviewer_close", b.closing(l, `,"abandon_receipts":false`))
	b.refuses("AGENT_NOT_SETTLED", "herdr_owned_reviewer_close", b.closing(l, `,"abandon_receipts":true`))
	setStatus(t, b.scene, l.PaneID, fakeherdr.Done)
	m := b.refuses("RECEIPT_OUTSTANDING", "herdr_owned_reviewer_close", b.closing(l, ""))
	if closed := lane(t, b.answers("herdr_owned_reviewer_close", b.closing(l, `,"abandon_receipts":true`))); closed.State != "closed" {
		t.Errorf("%+v", closed)
	}
	var tokens []string
	var receipts []struct{ Receipt, State, Failure string }
	list := b.answers("herdr_handoff_receipt_list", "{}")
	if json.Unmarshal(m.fault.Details["receipts"], &tokens) != nil || json.Unmarshal(list.data["receipts"], &receipts) != nil || len(tokens) != 1 || len(receipts) != 1 ||
		receipts[0].Receipt != tokens[0] || receipts[0].State != "failed" || receipts[0].Failure != "abandoned" {
		t.Errorf("%s, %s", m.StructuredContent, list.StructuredContent)
	}
}

// mesh.md §8, 39 and 40.
func TestMeshAdopt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	setStatus(t, b.scene, "w1:p1", fakeherdr.Working) // it is the caller
	b.refuses("PANE_PROTECTED", "herdr_owned_pane_adopt", b.adopting("w1:p1", ""))
	b.refuses("PANE_PROTECTED", "herdr_owned_pane_adopt", b.adopting("w1:p2", `,"protected_pane_ids":["w1:p4","w1:p2"]`))
	b.refuses("PANE_PROTECTED", "herdr_owned_pane_adopt", strings.Replace(b.adopting("w1:p2", ""), `"controller_pane_id":"w1:p1"`, `"controller_pane_id":"w1:p2"`, 1))
	change(t, b.scene, func(w *fakeherdr.World) { w.Move("w1:p2", "w2") })
	b.refuses("PANE_PROTECTED", "herdr_owned_pane_adopt", b.adopting("w1:p2", `,"protected_pane_ids":["w1:p2"]`))
	l := lane(t, b.answers("herdr_owned_pane_adopt", b.adopting("w1:p2", `,"protected_pane_ids":["w1:p3","w9:p9"]`)))
	if l.State != "active" || l.PaneID != "w2:p2" || l.AgentName != "reviewer" {
		t.Errorf("%+v", l)
	}
	b.refuses("PANE_CLAIMED", "herdr_owned_pane_adopt", b.adopting("w1:p2", ""))
	b.shell(l.PaneID, true)
	b.refuses("LEASE_IDENTITY_CHANGED", "herdr_owned_pane_close", b.exited(l, reached))
	b.shell(l.PaneID, false)
	if closed := lane(t, b.answers("herdr_owned_pane_close", b.exited(l, reached))); closed.State != "closed" || closed.CheckpointRef != "C-1" || b.world().Pane(l.PaneID) != nil {
		t.Errorf("%+v", closed)
	}

	// A pane with a lease that has ended can be adopted.
	l = lane(t, b.answers("herdr_owned_pane_adopt", b.adopting("w2:p1", "")))
	b.put("adopted-pane-leases", l.LeaseID, func(m map[string]any) { m["state"], m["closedAt"] = "closed", "2026-01-01T00:00:00.000Z" })
	l = lane(t, b.answers("herdr_owned_pane_adopt", b.adopting("w2:p1", "")))
	if all := b.listed("herdr_owned_pane_list", `{"state":"active"}`); len(all) != 1 || all[0].LeaseID != l.LeaseID {
		t.Errorf("%+v", all)
	}
	if closed := lane(t, b.answers("herdr_owned_pane_close", b.closing(l, reached))); closed.State != "closed" || b.world().Pane("w2:p1") != nil {
		t.Errorf("%+v", closed)
	}
}

// mesh.md §8, 50 and 51: the lock that link and control take as well.
func TestMeshCloseLocks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	l := b.reviewer("critic")
	lock, err := herdrcli.NewLocks(b.home).Acquire(t.Context(), herdrcli.Agent{TerminalID: l.TerminalID}, "", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	id := b.begin("herdr_owned_reviewer_close", b.closing(l, ""))
	b.answers("herdr_controller_renew", b.cred.showing("")) // the store lock is free meanwhile
	m := refusal(t, b.meshed(id), "TARGET_BUSY")
	if !*m.fault.Retryable || b.run("agent read") > 0 || b.run("pane close") > 0 {
		t.Errorf("%s", m.StructuredContent)
	}
	if err := lock.Mark(); err != nil { // a prompt
		t.Fatal(err)
	}
	typed := time.Now()
	lock.Release()
	success(t, b.mesh("herdr_owned_reviewer_close", b.closing(l, "")))
	if took := b.world().Closed[0].ClosedAt.Sub(typed); took < 350*time.Millisecond {
		t.Errorf("it was closed %v after the prompt", took)
	}

	l = b.reviewer("critic")
	locks := filepath.Join(b.home, ".local", "state", "herdr-link", "locks")
	if err := os.Rename(locks, locks+"2"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(locks+"2", locks); err != nil {
		t.Fatal(err)
	}
	closes := b.run("pane close")
	b.refuses("TARGET_LOCK_UNAVAILABLE", "herdr_owned_reviewer_close", b.closing(l, ""))
	if b.run("pane close") != closes || len(b.listed("herdr_owned_reviewer_list", `{"state":"active"}`)) != 1 {
		t.Error("it was closed without a lock")
	}
}

// mesh.md §8, 56, a closing's side: what hangs under the store lock has 20 s. Before
// the pane is closed nothing is written; after that nobody says that it is gone.
func TestMeshCloseHangs(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{"agent read": "active", "pane close": "closing"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "HERDR_LINK_TIMEOUT=60s")
			b.patience = time.Minute
			l := b.reviewer("critic")
			args := b.closing(l, "")
			fault(t, b.scene, fakeherdr.Hang, strings.Fields(command)...)
			begun := time.Now()
			b.refuses("HERDR_TIMEOUT", "herdr_owned_reviewer_close", args)
			if took := time.Since(begun); took < 20*time.Second || took > 25*time.Second {
				t.Errorf("it took %v", took)
			}
			if all := b.listed("herdr_owned_reviewer_list", `{}`); len(all) != 1 || all[0].State != want || all[0].Failure != "" || (all[0].CaptureSHA256 != "") != (want == "closing") {
				t.Errorf("%+v", all)
			}
			change(t, b.scene, func(w *fakeherdr.World) { w.Faults = nil })
			if closed := lane(t, b.answers("herdr_owned_reviewer_close", args)); closed.State != "closed" || b.world().Pane(l.PaneID) != nil {
				t.Errorf("%+v", closed)
			}
		})
	}
}

// mesh.md §8, 53: after a restart of the server.
func TestMeshLanesRestart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two := b.reviewer("critic"), b.reviewer("other")
	adopted := lane(t, b.answers("herdr_owned_pane_adopt", b.adopting("w1:p2", "")))
	change(t, b.scene, func(w *fakeherdr.World) {
		w.Restart()
		w.RunAgent(w.Pane("w1:p1"), "claude", "lead")
		w.Pane(two.PaneID).Tab = "w1:t1" // its id was given to another pane
	})
	for _, pane := range []string{one.PaneID, two.PaneID, adopted.PaneID} {
		b.shell(pane, false)
	}
	expire(t, b.state)
	b.cred = b.answers("herdr_controller_takeover", asking(fmt.Sprintf(`,"expected_predecessor_lease_id":%q`, b.cred.LeaseID))).lease(t)
	b.refuses("AGENT_NOT_FOUND", "herdr_owned_reviewer_close", b.cred.showing(`,"expected_state_change_seq":0,"lease_id":"`+one.LeaseID+`"`))
	if closed := lane(t, b.answers("herdr_owned_reviewer_close", b.exited(one, ""))); closed.State != "closed" || b.world().Pane(one.PaneID) != nil {
		t.Errorf("%+v", closed)
	}
	b.refuses("LEASE_IDENTITY_CHANGED", "herdr_owned_reviewer_close", b.exited(two, ""))
	b.refuses("LEASE_IDENTITY_CHANGED", "herdr_owned_pane_close", b.exited(adopted, reached))
	if b.run("pane close") != 1 {
		t.Errorf("%q", commands(t, b.scene, "pane", "close"))
	}
}

// mesh.md §8, 59: what is wrong is named, and nothing is asked or made.
func TestMeshLanesRefuse(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	_, variable := stateOf(t)
	h := coordinate(t, s, "w1:p1", variable)
	id := "0f9d2c7e-3b1a-4c5d-8e6f-001122334455"
	b := &bench{host: h, t: t, scene: s, work: t.TempDir(), cred: meshLease{ControllerID: "lead", LeaseID: id, FenceToken: id}}
	closing := func(more string) string { return b.cred.showing(`,"lease_id":"` + id + `"` + more) }
	adopt := func(from, to string) string {
		args := b.adopting("w1:p2", "")
		if !strings.Contains(args, from) {
			t.Fatalf("%s has no %s", args, from)
		}
		return strings.Replace(args, from, to, 1)
	}
	for _, test := range []struct{ tool, args, says string }{
		{"herdr_owned_reviewer_start", `{}`, "controller_id is required"},
		{"herdr_owned_reviewer_start", b.starting("critic", `,"start_timeout":1`), `"start_timeout" is no argument`},
		{"herdr_owned_reviewer_start", strings.Replace(b.starting("critic", ""), "5000", "4999", 1), "start_timeout_ms must be an integer from 5000 to 300000"},
		{"herdr_owned_reviewer_start", strings.Replace(b.starting("critic", ""), "5000", "300001", 1), "start_timeout_ms must be an integer from 5000 to 300000"},
		{"herdr_owned_reviewer_start", b.starting("Critic", ""), "name must be"},
		{"herdr_owned_reviewer_start", strings.Replace(b.starting("critic", ""), "codex", "bash", 1), "kind must be"},
		{"herdr_owned_reviewer_start", strings.Replace(b.starting("critic", ""), b.work, "here", 1), "cwd must be an absolute path"},
		{"herdr_owned_reviewer_start", strings.Replace(b.starting("critic", ""), b.work, b.work+"/none", 1), "cwd must be the absolute path of a folder"},
		{"herdr_owned_reviewer_start", b.starting("critic", `,"model":"-x"`), "model must be"},
		{"herdr_owned_reviewer_start", b.starting("critic", `,"model":"opus"`), "model is for the kind claude"},
		{"herdr_owned_reviewer_start", b.starting("critic", `,"effort":"low"`), "effort is for the kind claude"},
		{"herdr_owned_reviewer_start", b.starting("critic", `,"effort":"most"`), "effort must be"},
		{"herdr_owned_reviewer_start", strings.Replace(b.starting("critic", ""), "look at T-1", "--session=x", 1), "purpose must not be"},
		{"herdr_owned_reviewer_start", strings.Replace(b.starting("critic", ""), "w1:p1", "reviewer", 1), "parent_pane_id must be a pane id"},
		{"herdr_owned_reviewer_close", closing(""), "expected_state_change_seq is required, unless agent_exited"},
		{"herdr_owned_reviewer_close", closing(`,"agent_exited":false`), "expected_state_change_seq is required, unless agent_exited"},
		{"herdr_owned_reviewer_close", closing(`,"expected_state_change_seq":-1`), "expected_state_change_seq must be"},
		{"herdr_owned_reviewer_close", closing(`,"expected_state_change_seq":1,"read_lines":1001`), "read_lines must be an integer from 1 to 1000"},
		{"herdr_owned_reviewer_close", b.cred.showing(`,"lease_id":"x","expected_state_change_seq":1`), "lease_id must be a UUID"},
		{"herdr_owned_reviewer_cleanup", b.cred.showing(`,"dryrun":false`), `"dryrun" is no argument`},
		{"herdr_owned_reviewer_list", `{"state":"releasing"}`, "state must be"},
		{"herdr_owned_reviewer_list", `{"limit":501}`, "limit must be an integer from 1 to 500"},
		{"herdr_owned_pane_adopt", adopt(`"controller_pane_id":"w1:p1"`, `"controller_pane_id":"x"`), "controller_pane_id must be a pane id"},
		{"herdr_owned_pane_adopt", adopt(`"controller_pane_id":"w1:p1"`, `"controller_pane_id":"w1:p1","protected_pane_ids":["x"]`), "protected_pane_ids[0] must be a pane id"},
		{"herdr_owned_pane_adopt", adopt(`"target":"reviewer"`, `"target":"-x"`), "target must be"},
		{"herdr_owned_pane_adopt", adopt(`"expected_cwd":"/`, `"expected_cwd":"`), "expected_cwd must be an absolute path"},
		{"herdr_owned_pane_close", closing(`,"expected_state_change_seq":1`), "checkpoint_ref is required"},
		{"herdr_owned_pane_close", closing(`,"checkpoint_ref":"x","checkpoint_sha256":"x","expected_state_change_seq":1`), "checkpoint_sha256 must be 64"},
	} {
		if m := h.refuses("INVALID_ARGUMENT", test.tool, test.args); !strings.Contains(m.fault.Message, test.says) {
			t.Errorf("%s %s: %s", test.tool, test.args, m.fault.Message)
		}
	}
	if calls := commands(t, s); len(calls) > 0 {
		t.Errorf("herdr ran: %q", calls)
	}
	h.refuses("CONTROLLER_NOT_FOUND", "herdr_owned_reviewer_start", b.starting("critic", ""))
	h.refuses("CONTROLLER_NOT_FOUND", "herdr_owned_pane_adopt", b.adopting("w1:p2", ""))
	h.refuses("CONTROLLER_NOT_FOUND", "herdr_owned_reviewer_cleanup", b.cred.showing(""))
	h.refuses("LEASE_NOT_FOUND", "herdr_owned_reviewer_close", closing(`,"agent_exited":true`))
	outside := coordinate(t, s, "", variable)
	outside.refuses("CALLER_NOT_MANAGED", "herdr_owned_reviewer_start", b.starting("critic", ""))
	outside.answers("herdr_owned_reviewer_list", "{}")
	outside.answers("herdr_owned_pane_list", "{}")
	for _, words := range []string{"tab create", "agent start", "pane close"} {
		if b.run(words) > 0 {
			t.Errorf("herdr %s ran", words)
		}
	}
}
