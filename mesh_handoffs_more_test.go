//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

// A office is a coordinating agent in w1:p1 with leases of three others: reviewer,
// builder and tester. At its end its fence tokens are nowhere (mesh.md §8, 48).
type office struct {
	t           *testing.T
	s           *fakeherdr.Scene
	state, home string
	log         string
	l           meshLease // the present one
	h           *host     // in its pane

	tokens []string
	hosts  []*host
}

// panes are where the leased agents are.
var panes = map[string]string{"reviewer": "w1:p2", "builder": "w2:p1", "tester": "w1:p3"}

func newOffice(t *testing.T, more ...string) *office {
	t.Helper()
	d := &office{t: t, s: newScene(t), home: t.TempDir(), log: filepath.Join(t.TempDir(), "log")}
	d.state, _ = stateOf(t)
	change(t, d.s, func(w *fakeherdr.World) { w.Pane("w1:p3").Agent.Name = "tester" })
	t.Cleanup(d.secret)
	d.h = d.open("w1:p1", more...)
	d.acquire()
	for n, name := range []string{"reviewer", "builder", "tester"} {
		leased(t, d.s, d.state, panes[name], leaseID(fmt.Sprint(n+1)), nil)
	}
	return d
}

// open starts one more server of the same user.
func (d *office) open(pane string, more ...string) *host {
	d.t.Helper()
	h := coordinate(d.t, d.s, pane, append([]string{"HERDR_MESH_STATE_DIR=" + d.state, "HOME=" + d.home, "HERDR_LINK_LOG=" + d.log}, more...)...)
	d.hosts = append(d.hosts, h)
	return h
}

func (d *office) acquire() { d.t.Helper(); d.has(d.h.answers("herdr_controller_acquire", asking(""))) }

func (d *office) resume() { d.t.Helper(); d.has(d.h.answers("herdr_controller_resume", asking(""))) }

func (d *office) has(m meshed) {
	d.t.Helper()
	d.l = m.lease(d.t)
	d.tokens = append(d.tokens, d.l.FenceToken)
}

// secret holds everything that was written to the secrecy of the tokens. All
// servers have ended.
func (d *office) secret() {
	for _, dir := range []string{d.state, d.s.Dir(), d.home, filepath.Dir(d.log)} {
		without(d.t, dir, d.tokens...)
	}
	for _, h := range d.hosts {
		for _, token := range d.tokens {
			if strings.Contains(h.stderr.String(), token) {
				d.t.Error("a fence token is on stderr")
			}
		}
	}
}

func (d *office) handoff(more string) string {
	return d.l.showing(`,"target":"reviewer","message":"look at it"` + more)
}

func (d *office) relayArgs(target, text string) string {
	return d.l.showing(fmt.Sprintf(`,"target":%q,"text":%s`, target, quoteJSON(text)))
}

func (d *office) batchArgs(more string, targets ...string) string {
	var all []string
	for _, name := range targets {
		all = append(all, fmt.Sprintf(`{"target":%q,"message":"for %s"}`, name, name))
	}
	return d.l.showing(`,"requests":[` + strings.Join(all, ",") + `]` + more)
}

func (d *office) collectArgs(more string, receipts ...string) string {
	list, _ := json.Marshal(receipts)
	return d.l.showing(`,"receipts":` + string(list) + more)
}

// relay gives an agent a task, which it begins, and returns the pending receipt.
func (d *office) relay(target, text string) (receipt string) {
	d.t.Helper()
	id := d.h.begin("herdr_relay", d.relayArgs(target, text))
	submittedTo(d.t, d.s, panes[target], text)
	setStatus(d.t, d.s, panes[target], fakeherdr.Working)
	a := d.h.meshed(id).handed(d.t)
	if a.Mode != "none" || len(a.PendingReceipts) != 1 || len(a.Failed)+len(a.Completed) != 0 {
		d.t.Fatalf("%+v", a)
	}
	return a.PendingReceipts[0]
}

// shows sets what is on an agent's screen.
func (d *office) shows(pane string, lines ...string) {
	d.t.Helper()
	change(d.t, d.s, func(w *fakeherdr.World) { w.Pane(pane).Text = lines })
}

// A stored receipt is one as it is on disk.
type stored struct {
	State, Failure, CreatedAt, TerminalID, PaneID, TargetLeaseID, HerdrSocket string
	BeforeSeq, AfterSeq, SettledSeq, BlockedSeq                               int
}

func (d *office) receipt(token string) (r stored) {
	d.t.Helper()
	text, err := os.ReadFile(d.receiptFile(token))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// receiptFile is where the receipt is now.
func (d *office) receiptFile(token string) string {
	d.t.Helper()
	name := strings.TrimPrefix(token, "herdr-receipt-v1.") + ".json"
	for _, dir := range []string{"", "archive"} {
		file := filepath.Join(d.state, "handoff-receipts", dir, name)
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	d.t.Fatalf("there is no receipt %q", token)
	return ""
}

// receipts are the tokens of all receipts in that state.
func (d *office) receipts(state string) (tokens []string) {
	d.t.Helper()
	var list []struct{ Receipt string }
	m := d.h.answers("herdr_handoff_receipt_list", fmt.Sprintf(`{"state":%q}`, state))
	if err := json.Unmarshal(m.data["receipts"], &list); err != nil {
		d.t.Fatal(err)
	}
	for _, r := range list {
		tokens = append(tokens, r.Receipt)
	}
	return tokens
}

// one returns the only receipt in that state, and waits for it.
func (d *office) one(state string) (token string) {
	d.t.Helper()
	eventually(d.t, "one receipt that is "+state, func() bool {
		all := d.receipts(state)
		if len(all) != 1 {
			return false
		}
		token = all[0]
		return true
	})
	return token
}

// age makes a receipt two minutes old.
func (d *office) age(token string) {
	d.t.Helper()
	editRecord(d.t, d.receiptFile(token), func(m map[string]any) { m["createdAt"] = "2026-01-02T03:04:05.678Z" })
}

// unprompted fails if a prompt was sent.
func (d *office) unprompted() {
	d.t.Helper()
	if calls := commands(d.t, d.s, "agent", "prompt"); len(calls) > 0 {
		d.t.Errorf("it was prompted: %q", calls)
	}
	if all := d.receiptCount(); all != 0 {
		d.t.Errorf("there are %d receipts", all)
	}
}

func (d *office) receiptCount() (n int) {
	for _, dir := range []string{"", "archive"} {
		files, _ := filepath.Glob(filepath.Join(d.state, "handoff-receipts", dir, "*.json"))
		n += len(files)
	}
	return n
}

// failedAs checks that all of an answer is one failure, and returns its receipt.
func (a handed) failedAs(t testing.TB, stage, code string, pending int) (receipt string) {
	t.Helper()
	if len(a.Failed) != 1 || a.Failed[0].Stage != stage || a.Failed[0].Error != code || len(a.Completed) != 0 || len(a.PendingReceipts) != pending {
		t.Fatalf("%+v, want %s at the %s", a, code, stage)
	}
	return a.Failed[0].Receipt
}

// completedAs checks that all of an answer is one completed request.
func (a handed) completedAs(t testing.TB, output, proof string) {
	t.Helper()
	if len(a.Completed) != 1 || a.Completed[0].Output != output || a.Completed[0].CursorProof != proof || len(a.Failed)+len(a.PendingReceipts) != 0 ||
		a.Completed[0].OutputTruncated == nil || *a.Completed[0].OutputTruncated {
		t.Fatalf("%+v, want %q, %s", a, output, proof)
	}
}

// mesh.md §8, 3: an old credential prompts nobody.
func TestMeshHandoffOldCredential(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	old := d.l
	d.resume()
	for tool, more := range map[string]string{
		"herdr_relay":                   `,"target":"reviewer","text":"x"`,
		"herdr_handoff":                 `,"target":"reviewer","message":"x"`,
		"herdr_batch_handoff":           `,"requests":[{"target":"reviewer","message":"x"}]`,
		"herdr_collect_handoffs":        `,"receipts":["herdr-receipt-v1.` + leaseID("9") + `"]`,
		"herdr_handoff_receipt_abandon": `,"receipt":"herdr-receipt-v1.` + leaseID("9") + `"`,
	} {
		d.h.refuses("FENCE_MISMATCH", tool, old.showing(more))
	}
	other := d.open("w2:p1")
	other.refuses("CONTROLLER_OTHER_PANE", "herdr_relay", d.relayArgs("reviewer", "x"))
	d.open("").refuses("CALLER_NOT_MANAGED", "herdr_relay", d.relayArgs("reviewer", "x"))
	expire(t, d.state)
	d.h.refuses("CONTROLLER_EXPIRED", "herdr_relay", d.relayArgs("reviewer", "x"))
	d.unprompted()
}

// mesh.md §8, 6: who resumes waits for the prompt that is on its way, and what
// became of that is not noted by the old generation.
func TestMeshHandoffResumedMeanwhile(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	change(t, d.s, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "prompt"}, Kind: fakeherdr.Slow, Delay: 2 * time.Second}}
	})
	id := d.h.begin("herdr_batch_handoff", d.batchArgs("", "reviewer"))
	awaitCalls(t, d.s, 1, "agent", "prompt")
	d.resume() // waits for the store lock
	if keys, err := d.s.Keystrokes("w1:p2"); err != nil || len(keys) != 1 {
		t.Errorf("it was resumed while the prompt was on its way: %v, %v", keys, err)
	}
	setStatus(t, d.s, "w1:p2", fakeherdr.Working)
	receipt := d.h.meshed(id).handed(t).failedAs(t, "delivery", "FENCE_MISMATCH", 0)
	if r := d.receipt(receipt); r.State != "reserved" {
		t.Errorf("%+v", r)
	}
	// The new generation has to deal with it.
	d.h.refuses("RECEIPT_WRONG_STATE", "herdr_collect_handoffs", d.collectArgs("", receipt))
	setStatus(t, d.s, "w1:p2", fakeherdr.Done)
	m := d.h.refuses("RECEIPT_OUTSTANDING", "herdr_relay", d.relayArgs("reviewer", "more"))
	if string(m.fault.Details["receipts"]) != `["`+receipt+`"]` {
		t.Errorf("%s", m.StructuredContent)
	}
}

// mesh.md §8, 7 and 8: nothing is locked while a handoff waits. If the fence
// changes meanwhile its output is for the new generation.
func TestMeshHandoffFenceRotates(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	d.shows("w1:p2", "the answer")
	id := d.h.begin("herdr_handoff", d.handoff(`,"timeout_ms":600000,"wait_status":"working"`))
	submittedTo(t, d.s, "w1:p2", "look at it")
	setStatus(t, d.s, "w1:p2", fakeherdr.Working)
	receipt := d.one("pending")
	polled(t, d.s, 2)
	begun := time.Now()
	d.h.answers("herdr_controller_renew", d.l.showing(""))
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("to renew took %v", took)
	}
	d.resume()
	setStatus(t, d.s, "w1:p2", fakeherdr.Done)
	m := d.h.meshed(id)
	if got := m.handed(t).failedAs(t, "collection", "FENCE_MISMATCH", 1); got != receipt || strings.Contains(string(m.StructuredContent)+fmt.Sprint(m.Content), "the answer") {
		t.Errorf("%s", m.StructuredContent)
	}
	if r := d.receipt(receipt); r.State != "pending" || r.SettledSeq != 0 {
		t.Errorf("%+v", r)
	}
	d.h.answers("herdr_collect_handoffs", d.collectArgs("", strings.ToUpper(receipt))).handed(t).completedAs(t, "the answer\n", "first_seen")
	if r := d.receipt(receipt); r.State != "completed" || filepath.Base(filepath.Dir(d.receiptFile(receipt))) != "archive" {
		t.Errorf("%+v", r)
	}
}

// mesh.md §8, 25: what other agents do is nothing to a receipt, and a prompt
// waits for nothing.
func TestMeshRelayAmongOthers(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	change(t, d.s, func(w *fakeherdr.World) {
		for n := range 5 {
			w.AddPane("w2", "pi", fmt.Sprintf("other%d", n))
		}
	})
	stir := func() {
		change(t, d.s, func(w *fakeherdr.World) {
			for _, p := range w.Panes {
				if p.Agent != nil && strings.HasPrefix(p.Agent.Name, "other") {
					p.Agent.Status = map[string]string{"idle": "working", "working": "done", "done": "working"}[p.Agent.Status]
				}
			}
		})
	}
	w, err := d.s.World()
	if err != nil {
		t.Fatal(err)
	}
	before := w.Pane("w1:p2").Agent.StateChangeSeq
	id := d.h.begin("herdr_relay", d.relayArgs("reviewer", "look\r\nat\tit"))
	submittedTo(t, d.s, "w1:p2", "look\nat\tit")
	stir()
	after := setStatus(t, d.s, "w1:p2", fakeherdr.Working)
	stir()
	a := d.h.meshed(id).handed(t)
	if len(a.PendingReceipts) != 1 {
		t.Fatalf("%+v", a)
	}
	r := d.receipt(a.PendingReceipts[0])
	if r.State != "pending" || r.BeforeSeq != before || r.AfterSeq != after || after <= before+1 || r.TargetLeaseID != leaseID("1") || r.PaneID != "w1:p2" ||
		r.TerminalID != w.Pane("w1:p2").Terminal || r.HerdrSocket == "" {
		t.Errorf("%+v, from %d to %d", r, before, after)
	}
	if argv := lastArgv(t, d.s, "agent", "prompt"); !slices.Equal(argv, []string{"agent", "prompt", "w1:p2", "look\nat\tit"}) {
		t.Errorf("%q", argv)
	}
	text, err := os.ReadFile(d.receiptFile(a.PendingReceipts[0]))
	if err != nil || strings.Contains(string(text), "look") {
		t.Errorf("the receipt has the prompt: %s, %v", text, err)
	}
	id = d.h.begin("herdr_collect_handoffs", d.collectArgs("", a.PendingReceipts...))
	polled(t, d.s, 2)
	stir()
	setStatus(t, d.s, "w1:p2", fakeherdr.Done)
	stir()
	d.h.meshed(id).handed(t).completedAs(t, "", "continuous") // the first sample had the cursor of the receipt
}

// mesh.md §8, 26: a prompt of which nobody knows is never repeated by itself.
func TestMeshRelayAmbiguous(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{fakeherdr.Die, fakeherdr.DieAfter, fakeherdr.Hang, fakeherdr.HangAfter, fakeherdr.Garbage, fakeherdr.Debug, fakeherdr.ErrorCode} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := newOffice(t, "HERDR_LINK_TIMEOUT=1s")
			change(t, d.s, func(w *fakeherdr.World) {
				w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "prompt"}, Kind: kind, Code: "weather", Left: 1}}
			})
			begun := time.Now()
			m := d.h.answers("herdr_relay", d.relayArgs("reviewer", "look at it"))
			receipt := m.handed(t).failedAs(t, "delivery", "DELIVERY_AMBIGUOUS", 0)
			if took := time.Since(begun); took < 5*time.Second || !strings.Contains(m.text(), "Do not send it again") {
				t.Errorf("after %v: %s", took, m.text())
			}
			if r := d.receipt(receipt); r.State != "reserved" || r.AfterSeq != 0 {
				t.Errorf("%+v", r)
			}
			abandon := d.l.showing(`,"receipt":"` + receipt + `"`)
			d.h.refuses("RECEIPT_OUTSTANDING", "herdr_relay", d.relayArgs("reviewer", "again"))
			d.h.refuses("RECEIPT_OUTSTANDING", "herdr_batch_handoff", d.batchArgs("", "builder", "reviewer"))
			if m := d.h.refuses("AGENT_NOT_SETTLED", "herdr_handoff_receipt_abandon", abandon); m.fault.Details["retryAfterMs"] == nil || !*m.fault.Retryable {
				t.Errorf("%s", m.StructuredContent)
			}
			d.age(receipt)
			setStatus(t, d.s, "w1:p2", fakeherdr.Working)
			if m := d.h.refuses("AGENT_NOT_SETTLED", "herdr_handoff_receipt_abandon", abandon); string(m.fault.Details["status"]) != `"working"` {
				t.Errorf("%s", m.StructuredContent)
			}
			cursor := setStatus(t, d.s, "w1:p2", fakeherdr.Idle)
			m = d.h.answers("herdr_handoff_receipt_abandon", abandon)
			want := fmt.Sprintf(`{"receipt":%q,"target":"reviewer","state":"failed","failure":"abandoned","observedStatus":"idle","observedSeq":%d}`, receipt, cursor)
			if string(m.StructuredContent) != want {
				t.Errorf("%s, want %s", m.StructuredContent, want)
			}
			d.h.refuses("RECEIPT_WRONG_STATE", "herdr_handoff_receipt_abandon", abandon)
			d.relay("reviewer", "another task")
			if n := len(commands(t, d.s, "agent", "prompt")); n != 2 {
				t.Errorf("%d prompts", n)
			}
		})
	}
	t.Run("and the agent begins", func(t *testing.T) {
		t.Parallel()
		d := newOffice(t)
		fault(t, d.s, fakeherdr.DieAfter, "agent", "prompt")
		receipt := d.relay("reviewer", "look at it")
		if r := d.receipt(receipt); r.State != "pending" {
			t.Errorf("%+v", r)
		}
		// A pending one can be abandoned at once, when its agent has settled.
		abandon := d.l.showing(`,"receipt":"` + receipt + `"`)
		d.h.refuses("AGENT_NOT_SETTLED", "herdr_handoff_receipt_abandon", abandon)
		setStatus(t, d.s, "w1:p2", fakeherdr.Blocked)
		if m := d.h.answers("herdr_handoff_receipt_abandon", abandon); string(m.data["failure"]) != `"abandoned"` || string(m.data["observedStatus"]) != `"blocked"` {
			t.Errorf("%s", m.StructuredContent)
		}
	})
}

// mesh.md §8, 27 and §4.4.7: what Herdr has surely not typed stands in nobody's
// way.
func TestMeshRelayRejected(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	faults := []fakeherdr.Fault{{Kind: fakeherdr.Exit2}}
	for _, code := range []string{"empty_agent_prompt", "agent_not_found", "agent_not_ready", "agent_blocked", "agent_launch_pending", "agent_target_ambiguous",
		"server_not_running", "protocol_mismatch"} {
		faults = append(faults, fakeherdr.Fault{Kind: fakeherdr.ErrorCode, Code: code, Text: "look at it"})
	}
	for _, f := range faults {
		f.Match, f.Left = []string{"agent", "prompt"}, 1
		change(t, d.s, func(w *fakeherdr.World) { w.Faults = []fakeherdr.Fault{f} })
		begun := time.Now()
		m := d.h.answers("herdr_relay", d.relayArgs("reviewer", "look at it"))
		receipt := m.handed(t).failedAs(t, "delivery", "DELIVERY_REJECTED", 0)
		if r := d.receipt(receipt); r.State != "failed" || r.Failure != "delivery_failed" {
			t.Errorf("%s: %+v", f.Code, r)
		}
		if strings.Contains(string(m.StructuredContent), "look") || time.Since(begun) > 4500*time.Millisecond {
			t.Errorf("%s: after %v: %s", f.Code, time.Since(begun), m.StructuredContent)
		}
	}
	change(t, d.s, func(w *fakeherdr.World) { w.Version, w.Faults = "0.9", nil })
	d.relay("reviewer", "look at it")
}

// mesh.md §8, 28: what waits for its human gets nothing from anybody else. And
// §4.4, 2 to 4: whom a prompt is not for.
func TestMeshRelayRefused(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	w, err := d.s.World()
	if err != nil {
		t.Fatal(err)
	}
	file := func(n string) string { return filepath.Join(d.state, "reviewer-leases", leaseID(n)+".json") }
	set := func(member string, value any) func() {
		return func() { editRecord(t, file("1"), func(m map[string]any) { m[member] = value }) }
	}
	pane := func(do func(*fakeherdr.Pane)) func() {
		return func() { change(t, d.s, func(w *fakeherdr.World) { do(w.Pane("w1:p2")) }) }
	}
	run := map[string]any{
		"version": 1, "runId": anyDigest, "controllerId": "lead", "controllerGeneration": 1, "writerLeaseId": leaseID("1"), "ticketRef": "T", "worktree": "/w",
		"branch": "b", "baseCommit": anyDigest, "headCommit": anyDigest, "worktreeSha256": anyDigest, "bootstrapWeb": false, "state": "running",
		"startedAt": time.Now().UTC().Format(time.RFC3339),
	}
	runFile := filepath.Join(d.state, "verification-runs", anyDigest+".json")
	for _, test := range []struct {
		name, code string
		do         func()
	}{
		{"blocked", "AGENT_BLOCKED", func() { setStatus(t, d.s, "w1:p2", fakeherdr.Blocked) }},
		{"working", "AGENT_NOT_SETTLED", func() { setStatus(t, d.s, "w1:p2", fakeherdr.Working) }},
		{"unknown", "AGENT_NOT_SETTLED", func() { setStatus(t, d.s, "w1:p2", fakeherdr.Unknown) }},
		{"exited", "AGENT_NOT_FOUND", pane(func(p *fakeherdr.Pane) { p.Agent = nil })},
		{"renamed", "LEASE_IDENTITY_CHANGED", pane(func(p *fakeherdr.Pane) { p.Agent.Name = "other" })},
		{"of another kind", "LEASE_IDENTITY_CHANGED", pane(func(p *fakeherdr.Pane) { p.Agent.Kind = "pi" })},
		{"elsewhere", "LEASE_IDENTITY_CHANGED", pane(func(p *fakeherdr.Pane) { p.Cwd = "/" })},
		{"in another terminal", "AGENT_NOT_FOUND", pane(func(p *fakeherdr.Pane) { p.Terminal = "term_00000000000001" })},
		{"not active", "LEASE_WRONG_STATE", set("state", "close_failed")},
		{"closed", "LEASE_NOT_RETAINED", func() {
			editRecord(t, file("1"), func(m map[string]any) { m["state"] = "closed" })
			editRecord(t, file("1"), func(m map[string]any) { m["closedAt"] = "2026-01-02T03:04:05.678Z" })
		}},
		{"of another controller", "LEASE_OTHER_CONTROLLER", set("controllerId", "other")},
		{"of another session", "LEASE_OTHER_SESSION", set("herdrSocket", "/elsewhere.sock")},
		{"unreadable", "STATE_CORRUPT", func() {
			if err := os.WriteFile(file("1"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"twice", "LEASE_DUPLICATE", func() { leased(t, d.s, d.state, "w1:p2", leaseID("8"), nil) }},
		{"under verification", "VERIFY_RUNNING", func() { writeRecord(t, runFile, run) }},
	} {
		test.do()
		for tool, args := range map[string]string{
			"herdr_relay": d.relayArgs("reviewer", "x"), "herdr_handoff": d.handoff(""), "herdr_batch_handoff": d.batchArgs("", "builder", "reviewer"),
		} {
			if m := d.h.refuses(test.code, tool, args); !strings.HasPrefix(test.code, "STATE") && (!strings.HasPrefix(m.fault.Message, "reviewer: ") || string(m.fault.Details["target"]) != `"reviewer"`) {
				t.Errorf("%s: %s", test.name, m.StructuredContent)
			}
		}
		change(t, d.s, func(world *fakeherdr.World) {
			p, q := world.Pane("w1:p2"), w.Pane("w1:p2")
			agent := *q.Agent
			p.Agent, p.Cwd, p.Terminal = &agent, q.Cwd, q.Terminal
		})
		_ = os.Remove(file("8"))
		_ = os.Remove(runFile)
		_ = os.Remove(filepath.Join(d.state, "reviewer-leases", "archive", leaseID("1")+".json"))
		leased(t, d.s, d.state, "w1:p2", leaseID("1"), nil)
	}
	d.h.refuses("LEASE_NOT_RETAINED", "herdr_relay", d.relayArgs("nobody", "x"))
	d.unprompted()
	if keys, err := d.s.Keystrokes("w1:p2"); err != nil || len(keys) > 0 {
		t.Errorf("%v, %v", keys, err)
	}
	// A run whose process is gone is none.
	run["owner"] = map[string]any{"pid": 1 << 30, "bootId": "x", "startTicks": "1"}
	writeRecord(t, runFile, run)
	d.relay("reviewer", "x")
}

// mesh.md §8, 29, 59: what is wrong in the arguments is named, before anything.
func TestMeshHandoffArguments(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	before := len(commands(t, d.s))
	const good = "herdr-receipt-v1.0f9d2c7e-3b1a-4c5d-8e6f-001122334455"
	nine := strings.TrimSuffix(strings.Repeat(`{"target":"a","message":"x"},`, 9), ",")
	for _, test := range []struct{ code, tool, more, says string }{
		{"MESSAGE_FORBIDDEN_BYTES", "herdr_relay", `,"target":"reviewer","text":"a\u001b[201~b"`, "control characters"},
		{"MESSAGE_FORBIDDEN_BYTES", "herdr_relay", `,"target":"reviewer","text":"a\rb"`, "control characters"},
		{"MESSAGE_FORBIDDEN_BYTES", "herdr_handoff", `,"target":"reviewer","message":"a\u009b201~b"`, "control characters"},
		{"MESSAGE_FORBIDDEN_BYTES", "herdr_batch_handoff", `,"requests":[{"target":"reviewer","message":"a\u007f"}]`, "control characters"},
		{"MESSAGE_TOO_LARGE", "herdr_relay", `,"target":"reviewer","text":"` + strings.Repeat("x", 70000) + `"`, "65536 bytes"},
		{"MESSAGE_TOO_LARGE", "herdr_handoff", `,"target":"reviewer","message":"` + strings.Repeat("ä", 32769) + `"`, "65536 bytes"},
		{"MESSAGE_TOO_LARGE", "herdr_batch_handoff", `,"requests":[{"target":"reviewer","message":"` + strings.Repeat("x", 65537) + `"}]`, "65536 bytes"},
		{"INVALID_ARGUMENT", "herdr_relay", `,"target":"reviewer","text":""`, "must not be empty"},
		{"INVALID_ARGUMENT", "herdr_relay", `,"target":"reviewer","text":"--session=x"`, "text must not be"},
		{"INVALID_ARGUMENT", "herdr_handoff", `,"target":"reviewer","message":"--session=x"`, "message must not be"},
		{"INVALID_ARGUMENT", "herdr_batch_handoff", `,"requests":[{"target":"reviewer","message":"--remote"}]`, "message must not be"},
		{"INVALID_ARGUMENT", "herdr_relay", `,"target":"w1:p2","text":"x"`, "target must be the name of an agent"},
		{"INVALID_ARGUMENT", "herdr_relay", `,"target":"reviewer","text":"x","submit":false`, "submit must be true"},
		{"INVALID_ARGUMENT", "herdr_relay", `,"target":"reviewer","text":"x","dryrun":true`, `"dryrun" is no argument`},
		{"INVALID_ARGUMENT", "herdr_relay", `,"target":"reviewer"`, "text is required"},
		{"INVALID_ARGUMENT", "herdr_handoff", `,"target":"reviewer","message":"x","read_lines":1001`, "read_lines must be an integer from 1 to 1000"},
		{"INVALID_ARGUMENT", "herdr_handoff", `,"target":"reviewer","message":"x","timeout_ms":0`, "timeout_ms must be an integer from 1 to 600000"},
		{"INVALID_ARGUMENT", "herdr_handoff", `,"target":"reviewer","message":"x","wait_status":"settled"`, "wait_status must be one of"},
		{"INVALID_ARGUMENT", "herdr_batch_handoff", `,"requests":[]`, "requests must have 1 to 8 items"},
		{"INVALID_ARGUMENT", "herdr_batch_handoff", `,"requests":[` + nine + `]`, "requests must have 1 to 8 items"},
		{"INVALID_ARGUMENT", "herdr_batch_handoff", `,"requests":[{"target":"a","message":"x"},{"target":"a","message":"y"}]`, "a must not be there twice"},
		{"INVALID_ARGUMENT", "herdr_batch_handoff", `,"requests":[{"target":"a","text":"x"}]`, `requests[0]."text" is no argument`},
		{"INVALID_ARGUMENT", "herdr_batch_handoff", `,"requests":[{"target":"a","message":"x"}],"mode":"any"`, "mode must be one of"},
		{"INVALID_ARGUMENT", "herdr_collect_handoffs", `,"receipts":[]`, "receipts must have 1 to 8 items"},
		{"RECEIPT_INVALID", "herdr_collect_handoffs", `,"receipts":["` + good + `","herdr-receipt-v2.` + leaseID("1") + `"]`, "herdr-receipt-v1. and a UUID"},
		{"RECEIPT_INVALID", "herdr_handoff_receipt_abandon", `,"receipt":"` + leaseID("1") + `"`, "herdr-receipt-v1. and a UUID"},
		{"INVALID_ARGUMENT", "herdr_collect_handoffs", `,"receipts":["` + good + `","` + strings.ToUpper(good) + `"]`, "must not be there twice"},
		{"INVALID_ARGUMENT", "herdr_handoff_receipt_list", ``, `is no argument`},
	} {
		m := d.h.refuses(test.code, test.tool, d.l.showing(test.more))
		if !strings.Contains(m.fault.Message, test.says) || *m.fault.Retryable {
			t.Errorf("%s %.80s: %s", test.tool, test.more, m.fault.Message)
		}
	}
	for _, args := range []string{`{"limit":0}`, `{"limit":501}`, `{"state":"open"}`, `{"controller_id":"a/b"}`} {
		d.h.refuses("INVALID_ARGUMENT", "herdr_handoff_receipt_list", args)
	}
	if calls := commands(t, d.s)[before:]; len(calls) > 0 {
		t.Errorf("herdr ran: %q", calls)
	}
	d.h.refuses("RECEIPT_NOT_FOUND", "herdr_collect_handoffs", d.collectArgs("", good))
	d.h.refuses("RECEIPT_NOT_FOUND", "herdr_handoff_receipt_abandon", d.l.showing(`,"receipt":"`+good+`"`))
	d.unprompted()
	// What the older bridge took is let go.
	id := d.h.begin("herdr_relay", d.l.showing(`,"target":"reviewer","text":"-- 64 KiB: `+strings.Repeat("x", 65536-11)+`","submit":true,"wait_for_previous":true`))
	eventually(t, "a submission", func() bool { all, _ := d.s.Submissions("w1:p2"); return len(all) == 1 && len(all[0].Text) == 65536 })
	setStatus(t, d.s, "w1:p2", fakeherdr.Working)
	receipt := d.h.meshed(id).handed(t).PendingReceipts[0]
	editRecord(t, d.receiptFile(receipt), func(m map[string]any) { m["controllerId"] = "other" })
	d.h.refuses("RECEIPT_OTHER_CONTROLLER", "herdr_collect_handoffs", d.collectArgs("", receipt))
	d.h.refuses("RECEIPT_OTHER_CONTROLLER", "herdr_handoff_receipt_abandon", d.l.showing(`,"receipt":"`+receipt+`"`))
}

// mesh.md §8, 30: all or nothing before the first prompt, each for itself after
// it.
func TestMeshBatch(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	setStatus(t, d.s, "w1:p3", fakeherdr.Blocked)
	d.h.refuses("AGENT_BLOCKED", "herdr_batch_handoff", d.batchArgs("", "reviewer", "builder", "tester"))
	d.unprompted()
	setStatus(t, d.s, "w1:p3", fakeherdr.Idle)
	fault(t, d.s, fakeherdr.Die, "agent", "prompt", "w2:p1")
	id := d.h.begin("herdr_batch_handoff", d.batchArgs(`,"read_lines":7`, "tester", "builder", "reviewer"))
	submittedTo(t, d.s, "w1:p2", "for reviewer")
	submittedTo(t, d.s, "w1:p3", "for tester")
	setStatus(t, d.s, "w1:p2", fakeherdr.Working)
	setStatus(t, d.s, "w1:p3", fakeherdr.Working)
	eventually(t, "pending receipts", func() bool { return len(d.receipts("pending")) == 2 })
	d.shows("w1:p2", "of \x1b[31mreviewer\x1b[0m")
	d.shows("w1:p3", "of tester\x07")
	setStatus(t, d.s, "w1:p2", fakeherdr.Done)
	setStatus(t, d.s, "w1:p3", fakeherdr.Done)
	m := d.h.meshed(id)
	a := m.handed(t)
	if a.Mode != "all" || len(a.Completed) != 2 || a.Completed[0].Output != "of tester\n" || a.Completed[1].Output != "of reviewer\n" ||
		a.Completed[0].CursorProof != "continuous" || a.Completed[0].Status != "done" || a.Completed[1].Target != "reviewer" || len(a.PendingReceipts) != 0 ||
		len(a.Failed) != 1 || a.Failed[0].Target != "builder" || a.Failed[0].Error != "DELIVERY_AMBIGUOUS" {
		t.Errorf("%s", m.StructuredContent)
	}
	if r := d.receipt(a.Completed[0].Receipt); r.State != "completed" || r.SettledSeq != a.Completed[0].StateChangeSeq || r.SettledSeq <= r.AfterSeq {
		t.Errorf("%+v", r)
	}
	if argv := lastArgv(t, d.s, "agent", "read"); strings.Join(argv[3:], " ") != "--source visible --lines 7 --format text" {
		t.Errorf("%q", argv)
	}
	// §8, 62.
	if len(m.Content) != 3 || m.Content[1].Text != "of tester\n" || m.Content[2].Text != "of reviewer\n" || strings.Contains(m.text(), "of tester") ||
		strings.Count(m.text(), "\n") < 20 || !strings.Contains(m.text(), "outputTruncated") || strings.Contains(m.text(), `"output"`) {
		t.Errorf("%q", m.Content)
	}
}

// mesh.md §8, 31: the first answer, and the others later.
func TestMeshBatchFirst(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	id := d.h.begin("herdr_batch_handoff", d.batchArgs(`,"mode":"first"`, "reviewer", "builder", "tester"))
	for name, pane := range panes {
		submittedTo(t, d.s, pane, "for "+name)
		setStatus(t, d.s, pane, fakeherdr.Working)
		d.shows(pane, "of "+name)
	}
	eventually(t, "pending receipts", func() bool { return len(d.receipts("pending")) == 3 })
	setStatus(t, d.s, "w2:p1", fakeherdr.Done)
	a := d.h.meshed(id).handed(t)
	if a.Mode != "first" || len(a.Completed) != 1 || a.Completed[0].Output != "of builder\n" || len(a.Failed) != 0 || len(a.PendingReceipts) != 2 {
		t.Fatalf("%+v", a)
	}
	reviewer, tester, builder := a.PendingReceipts[0], a.PendingReceipts[1], a.Completed[0].Receipt
	if keys, err := d.s.Keystrokes("w1:p2"); err != nil || len(keys) != 1 {
		t.Errorf("%v, %v", keys, err)
	}
	a = d.h.answers("herdr_collect_handoffs", d.collectArgs(`,"timeout_ms":1000`, reviewer, tester)).handed(t)
	if len(a.Failed) != 2 || a.Failed[0].Error != "COLLECT_TIMEOUT" || a.Failed[1].Stage != "collection" || !slices.Equal(a.PendingReceipts, []string{reviewer, tester}) {
		t.Errorf("%+v", a)
	}
	// One that is complete already is the first, whoever else is.
	for range 5 {
		a = d.h.answers("herdr_collect_handoffs", d.collectArgs(`,"mode":"first"`, tester, builder)).handed(t)
		if len(a.Completed) != 1 || a.Completed[0].Receipt != builder || !slices.Equal(a.PendingReceipts, []string{tester}) {
			t.Errorf("%+v", a)
		}
	}
	setStatus(t, d.s, "w1:p3", fakeherdr.Done)
	setStatus(t, d.s, "w1:p2", fakeherdr.Done)
	a = d.h.answers("herdr_collect_handoffs", d.collectArgs("", reviewer, tester)).handed(t)
	if len(a.Completed) != 2 || a.Completed[0].Output != "of reviewer\n" || a.Completed[1].Output != "of tester\n" {
		t.Errorf("%+v", a)
	}
	// Complete ones are never left out: two were lost if the third was faster.
	for range 5 {
		a = d.h.answers("herdr_collect_handoffs", d.collectArgs(`,"mode":"first"`, reviewer, builder, tester)).handed(t)
		if len(a.Completed) != 3 {
			t.Fatalf("%+v", a)
		}
	}
	// If all fail, all are listed.
	for _, pane := range panes {
		setStatus(t, d.s, pane, fakeherdr.Working)
	}
	a = d.h.answers("herdr_collect_handoffs", d.collectArgs(`,"mode":"first"`, reviewer, builder, tester)).handed(t)
	if len(a.Failed) != 3 || a.Failed[1].Receipt != builder || a.Failed[2].Error != "COLLECT_STALE" {
		t.Errorf("%+v", a)
	}
}

// mesh.md §8, 32: what a second turn shows is not the answer of the first. Only
// who has seen everything knows that it is the same turn.
func TestMeshCollectSuperseded(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	receipt := d.relay("reviewer", "look at it")
	if err := d.h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	d.h.wait()
	setStatus(t, d.s, "w1:p2", fakeherdr.Done)
	d.shows("w1:p2", "something else")
	setStatus(t, d.s, "w1:p2", fakeherdr.Working)
	d.h = d.open("w1:p1")
	d.resume()
	m := d.h.answers("herdr_collect_handoffs", d.collectArgs("", receipt))
	m.handed(t).failedAs(t, "collection", "COLLECT_CURSOR_SUPERSEDED", 0)
	if r := d.receipt(receipt); r.State != "failed" || r.Failure != "cursor_superseded" || strings.Contains(string(m.StructuredContent), "something else") {
		t.Errorf("%+v, %s", r, m.StructuredContent)
	}
	d.h.refuses("RECEIPT_WRONG_STATE", "herdr_collect_handoffs", d.collectArgs("", receipt))

	// The same while a screen is read, of an agent whose turn nobody has seen.
	receipt = d.relay("builder", "look at that")
	setStatus(t, d.s, "w2:p1", fakeherdr.Done)
	slowRead := func() {
		change(t, d.s, func(w *fakeherdr.World) {
			w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "read"}, Kind: fakeherdr.Slow, Delay: time.Second, Left: 1}}
		})
	}
	slowRead()
	id := d.h.begin("herdr_collect_handoffs", d.collectArgs("", receipt))
	awaitCalls(t, d.s, 1, "agent", "read", "w2:p1")
	setStatus(t, d.s, "w2:p1", fakeherdr.Working)
	d.h.meshed(id).handed(t).failedAs(t, "collection", "COLLECT_CURSOR_SUPERSEDED", 0)

	// And of one that was watched all the time.
	slowRead()
	id = d.h.begin("herdr_batch_handoff", d.batchArgs("", "tester"))
	submittedTo(t, d.s, "w1:p3", "for tester")
	setStatus(t, d.s, "w1:p3", fakeherdr.Working)
	receipt = d.one("pending")
	setStatus(t, d.s, "w1:p3", fakeherdr.Done)
	awaitCalls(t, d.s, 1, "agent", "read", "w1:p3")
	setStatus(t, d.s, "w1:p3", fakeherdr.Working)
	d.shows("w1:p3", "half of it")
	polled(t, d.s, 8) // until the screen is read, and on
	if r := d.receipt(receipt); r.State != "pending" {
		t.Errorf("%+v", r)
	}
	d.shows("w1:p3", "the whole")
	setStatus(t, d.s, "w1:p3", fakeherdr.Done)
	d.h.meshed(id).handed(t).completedAs(t, "the whole\n", "continuous")
}

// mesh.md §8, 33: a tab that is looked at is no news.
func TestMeshCollectLookedAt(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	receipt := d.relay("reviewer", "look at it")
	cursor := setStatus(t, d.s, "w1:p2", fakeherdr.Done)
	change(t, d.s, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "read"}, Kind: fakeherdr.Slow, Delay: 2 * time.Second}}
	})
	id := d.h.begin("herdr_collect_handoffs", d.collectArgs("", receipt))
	awaitCalls(t, d.s, 1, "agent", "read")
	setStatus(t, d.s, "w1:p2", fakeherdr.Idle)
	change(t, d.s, func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.StateChangeSeq = cursor })
	a := d.h.meshed(id).handed(t)
	a.completedAs(t, "", "first_seen")
	if a.Completed[0].Status != "idle" || a.Completed[0].StateChangeSeq != cursor || len(commands(t, d.s, "agent", "read")) != 1 {
		t.Errorf("%+v", a)
	}
}

// mesh.md §8, 34: what was collected can be collected again while its agent has
// done nothing else.
func TestMeshCollectAgain(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	receipt := d.relay("reviewer", "look at it")
	d.shows("w1:p2", "the answer")
	setStatus(t, d.s, "w1:p2", fakeherdr.Done)
	d.h.begin("herdr_collect_handoffs", d.collectArgs("", receipt))
	completed := d.one("completed") // and nobody hears of it
	if err := d.h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	d.h.wait()
	d.h = d.open("w1:p1")
	d.resume()
	again := func() {
		t.Helper()
		before, err := os.ReadFile(d.receiptFile(receipt))
		if err != nil {
			t.Fatal(err)
		}
		d.h.answers("herdr_collect_handoffs", d.collectArgs("", completed)).handed(t).completedAs(t, "the answer\n", "first_seen")
		if after, err := os.ReadFile(d.receiptFile(receipt)); err != nil || !bytes.Equal(before, after) {
			t.Errorf("it was written: %s, %v", after, err)
		}
	}
	dir := filepath.Join(d.state, "handoff-receipts")
	for _, folder := range []string{dir, filepath.Join(dir, "archive")} { // before and after it was moved
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		file := d.receiptFile(receipt)
		if err := os.Rename(file, filepath.Join(folder, filepath.Base(file))); err != nil {
			t.Fatal(err)
		}
		again()
	}
	cursor := d.receipt(receipt).SettledSeq
	stale := func(what string) {
		t.Helper()
		m := d.h.answers("herdr_collect_handoffs", d.collectArgs("", receipt))
		m.handed(t).failedAs(t, "collection", "COLLECT_STALE", 0)
		if r := d.receipt(receipt); r.State != "completed" || strings.Contains(string(m.StructuredContent), "the answer") {
			t.Errorf("%s: %+v, %s", what, r, m.StructuredContent)
		}
	}
	change(t, d.s, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "read"}, Kind: fakeherdr.Slow, Delay: time.Second, Left: 1}}
	})
	reads := len(commands(t, d.s, "agent", "read"))
	id := d.h.begin("herdr_collect_handoffs", d.collectArgs("", receipt))
	awaitCalls(t, d.s, reads+1, "agent", "read")
	setStatus(t, d.s, "w1:p2", fakeherdr.Working)
	d.h.meshed(id).handed(t).failedAs(t, "collection", "COLLECT_STALE", 0)
	stale("it works")
	change(t, d.s, func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Idle })
	change(t, d.s, func(w *fakeherdr.World) {
		w.Pane("w1:p2").Agent.StateChangeSeq = cursor
		w.Pane("w1:p2").Agent.Name = "other"
	})
	stale("it has another name")
	change(t, d.s, func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Name = "reviewer" })
	again()
	next := d.relay("reviewer", "another task")
	stale("another prompt")
	setStatus(t, d.s, "w1:p2", fakeherdr.Done)
	stale("another turn")
	a := d.h.answers("herdr_collect_handoffs", d.collectArgs("", receipt, next)).handed(t)
	if len(a.Completed) != 1 || a.Completed[0].Receipt != next || len(a.Failed) != 1 {
		t.Errorf("%+v", a)
	}
}

// mesh.md §8, 39 and §4.5: a receipt is of the pane, the name, the kind, the
// folder and the terminal that it was made for.
func TestMeshCollectIdentity(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*fakeherdr.World, *fakeherdr.Pane){
		"moved":   func(w *fakeherdr.World, p *fakeherdr.Pane) { w.Move(p.ID, "w2") },
		"renamed": func(_ *fakeherdr.World, p *fakeherdr.Pane) { p.Agent.Name = "other" },
		"exited":  func(_ *fakeherdr.World, p *fakeherdr.Pane) { p.Agent = nil },
		"another": func(_ *fakeherdr.World, p *fakeherdr.Pane) { p.Agent.Kind = "claude" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newOffice(t)
			// Before anybody waits, while somebody does, and while the screen is read.
			receipts := []string{d.relay("reviewer", "look at it"), d.relay("builder", "look at it"), d.relay("tester", "look at it")}
			change(t, d.s, func(w *fakeherdr.World) {
				do(w, w.Pane("w1:p2"))
				w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "read"}, Kind: fakeherdr.Slow, Delay: time.Second}}
			})
			setStatus(t, d.s, "w1:p3", fakeherdr.Done)
			id := d.h.begin("herdr_collect_handoffs", d.collectArgs("", receipts...))
			awaitCalls(t, d.s, 1, "agent", "read", "w1:p3")
			polled(t, d.s, 2)
			change(t, d.s, func(w *fakeherdr.World) {
				do(w, w.Pane("w1:p3"))
				if name == "moved" {
					w.Move("w2:p1", "w1")
				} else {
					do(w, w.Pane("w2:p1"))
				}
			})
			if name == "another" { // builder is a claude already
				change(t, d.s, func(w *fakeherdr.World) { w.Pane("w2:p1").Cwd = "/" })
			}
			a := d.h.meshed(id).handed(t)
			if len(a.Failed) != 3 || len(a.PendingReceipts) != 0 {
				t.Fatalf("%+v", a)
			}
			for n, f := range a.Failed {
				if f.Error != "COLLECT_IDENTITY_CHANGED" || f.Receipt != receipts[n] {
					t.Errorf("%+v", f)
				}
				if r := d.receipt(f.Receipt); r.State != "failed" || r.Failure != "identity_changed" {
					t.Errorf("%+v", r)
				}
			}
		})
	}
	t.Run("the lease", func(t *testing.T) {
		t.Parallel()
		d := newOffice(t)
		receipts := []string{d.relay("reviewer", "look at it"), d.relay("builder", "look at it"), d.relay("tester", "look at it")}
		setStatus(t, d.s, "w2:p1", fakeherdr.Done)
		leases := filepath.Join(d.state, "reviewer-leases")
		editRecord(t, filepath.Join(leases, leaseID("1")+".json"), func(m map[string]any) { m["paneId"] = "w1:p9" }) // closed and bound anew
		if err := os.Remove(filepath.Join(leases, leaseID("3")+".json")); err != nil {
			t.Fatal(err)
		}
		a := d.h.answers("herdr_collect_handoffs", d.collectArgs("", receipts...)).handed(t)
		if len(a.Completed) != 1 || a.Completed[0].Receipt != receipts[1] || len(a.Failed) != 2 || a.Failed[0].Error != "COLLECT_IDENTITY_CHANGED" || a.Failed[1].Error != "COLLECT_IDENTITY_CHANGED" {
			t.Errorf("%+v", a)
		}
		// §4.6: the same if it is abandoned.
		receipt := d.relay("builder", "more")
		if err := os.Remove(filepath.Join(leases, leaseID("2")+".json")); err != nil {
			t.Fatal(err)
		}
		if m := d.h.answers("herdr_handoff_receipt_abandon", d.l.showing(`,"receipt":"`+receipt+`"`)); string(m.data["failure"]) != `"target_gone"` || m.has("observedStatus") {
			t.Errorf("%s", m.StructuredContent)
		}
		if r := d.receipt(receipt); r.Failure != "target_gone" {
			t.Errorf("%+v", r)
		}
	})
}

// mesh.md §4: a moved agent gets its task in the pane where it is now, and a
// record of the older bridge gets its terminal at the first task.
func TestMeshRelayBinds(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	w, err := d.s.World()
	if err != nil {
		t.Fatal(err)
	}
	leased(t, d.s, d.state, "w2:p1", leaseID("2"), func(m map[string]any) { delete(m, "terminalId") })
	d.relay("builder", "look at it")
	var moved string
	change(t, d.s, func(w *fakeherdr.World) { moved = w.Move("w1:p2", "w2").ID })
	receipt := d.relay("reviewer", "look at it")
	for n, pane := range map[string]string{"1": moved, "2": "w2:p1"} {
		text, err := os.ReadFile(filepath.Join(d.state, "reviewer-leases", leaseID(n)+".json"))
		var r stored
		if err != nil || json.Unmarshal(text, &r) != nil || r.PaneID != pane || r.HerdrSocket == "" || r.TerminalID != w.Pane(map[string]string{"1": "w1:p2", "2": "w2:p1"}[n]).Terminal {
			t.Errorf("%s, %v", text, err)
		}
	}
	if argv := lastArgv(t, d.s, "agent", "prompt"); argv[2] != moved || d.receipt(receipt).PaneID != moved {
		t.Errorf("%q", argv)
	}
	setStatus(t, d.s, moved, fakeherdr.Done)
	d.h.answers("herdr_collect_handoffs", d.collectArgs("", receipt)).handed(t).completedAs(t, "", "first_seen")

	// §8, 54: the controller may be moved, too.
	change(t, d.s, func(w *fakeherdr.World) { w.Move("w1:p1", "w2") })
	d.relay("reviewer", "more")
}

// mesh.md §8, 50: whoever types into a pane, each text is one submission.
func TestMeshThreeWriters(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	link, relay, batch := d.open("w1:p1", "HERDR_LINK_OFF=0"), d.open("w1:p1"), d.open("w1:p1")
	link.call("herdr_link", "{}")
	const rounds = 3
	for n := range rounds {
		sent := link.begin("herdr_link_send", fmt.Sprintf(`{"to":"reviewer","message":"link %d"}`, n))
		ids := []string{
			relay.begin("herdr_relay", d.relayArgs("reviewer", fmt.Sprintf("relay %d", n))),
			batch.begin("herdr_batch_handoff", d.l.showing(fmt.Sprintf(`,"requests":[{"target":"reviewer","message":"batch %d"}]`, n))),
		}
		arrived := func(what string, enough func([]fakeherdr.Submission) bool) {
			t.Helper()
			eventually(t, what, func() bool {
				all, err := d.s.Submissions("w1:p2")
				if err != nil {
					t.Fatal(err)
				}
				return enough(all)
			})
		}
		arrived("a task", func(all []fakeherdr.Submission) bool {
			return slices.ContainsFunc(all, func(s fakeherdr.Submission) bool {
				return s.Text == fmt.Sprintf("relay %d", n) || s.Text == fmt.Sprintf("batch %d", n)
			})
		})
		setStatus(t, d.s, "w1:p2", fakeherdr.Working)
		if r := link.result(sent); r.IsError {
			t.Fatal(r.text())
		}
		arrived("two submissions more", func(all []fakeherdr.Submission) bool { return len(all) == 2*(n+1) })
		d.one("pending")
		// Who comes second is refused while the agent has the task of the first.
		refused := func(m meshed) bool {
			return m.IsError && (m.fault.Code == "RECEIPT_OUTSTANDING" || m.fault.Code == "AGENT_NOT_SETTLED")
		}
		first := relay.meshed(ids[0])
		if !refused(first) {
			if second := batch.meshed(ids[1]); !refused(second) {
				t.Fatalf("both tasks were taken: %s", second.StructuredContent)
			}
		}
		setStatus(t, d.s, "w1:p2", fakeherdr.Done)
		if refused(first) {
			batch.meshed(ids[1]).handed(t).completedAs(t, "", "continuous")
		} else {
			d.h.answers("herdr_collect_handoffs", d.collectArgs("", first.handed(t).PendingReceipts...)).handed(t).completedAs(t, "", "first_seen")
		}
	}
	all, err := d.s.Submissions("w1:p2")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		texts := 0
		for n := range rounds {
			for _, who := range []string{"link", "relay", "batch"} {
				texts += strings.Count(p.Text, fmt.Sprintf("%s %d", who, n))
			}
		}
		if texts != 1 || p.Empty {
			t.Errorf("no submission of one text: %q", p.Text)
		}
	}

	// What comes right behind a prompt that took its time is another submission.
	change(t, d.s, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "prompt"}, Kind: fakeherdr.Slow, Delay: time.Second, Left: 1}}
	})
	slow := relay.begin("herdr_relay", d.relayArgs("reviewer", "slow"))
	eventually(t, "the slow prompt", func() bool {
		keys, err := d.s.Keystrokes("w1:p2")
		return err == nil && len(keys) == 2*rounds+1
	})
	if r := link.call("herdr_link_send", `{"to":"reviewer","message":"quick"}`); r.IsError {
		t.Fatal(r.text())
	}
	eventually(t, "two submissions", func() bool {
		all, err := d.s.Submissions("w1:p2")
		return err == nil && len(all) == 2*rounds+2 && all[2*rounds].Text == "slow" && strings.Contains(all[2*rounds+1].Text, "quick")
	})
	setStatus(t, d.s, "w1:p2", fakeherdr.Working)
	if a := relay.meshed(slow).handed(t); len(a.PendingReceipts) != 1 {
		t.Errorf("%+v", a)
	}

	// A close right behind a prompt lets it be submitted.
	id := relay.begin("herdr_relay", d.relayArgs("tester", "last words"))
	awaitCalls(t, d.s, 2*rounds+3, "agent", "prompt")
	if r := link.call("herdr_link_close", `{"agent":"tester"}`); r.IsError {
		t.Fatal(r.text())
	}
	if all, err := d.s.Submissions("w1:p3"); err != nil || len(all) != 1 || all[0].Text != "last words" {
		t.Errorf("%v, %v", all, err)
	}
	receipt := relay.meshed(id).handed(t).failedAs(t, "delivery", "DELIVERY_AMBIGUOUS", 0)
	d.age(receipt)
	if m := relay.answers("herdr_handoff_receipt_abandon", d.l.showing(`,"receipt":"`+receipt+`"`)); string(m.data["failure"]) != `"target_gone"` {
		t.Errorf("%s", m.StructuredContent)
	}
}

// mesh.md §8, 51: nobody prompts without the lock of the terminal, and nobody
// waits for one under the store lock.
func TestMeshTargetLocks(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	fault(t, d.s, fakeherdr.Hang, "agent", "prompt")
	link := d.open("w1:p1", "HERDR_LINK_TIMEOUT=60s", "HERDR_LINK_OFF=0")
	link.call("herdr_link", "{}")
	link.begin("herdr_link_send", `{"to":"reviewer","message":"hi"}`)
	awaitCalls(t, d.s, 1, "agent", "prompt")
	before := len(commands(t, d.s, "agent", "list"))
	ids := []string{d.h.begin("herdr_relay", d.relayArgs("reviewer", "x")), d.h.begin("herdr_batch_handoff", d.batchArgs("", "builder", "reviewer"))}
	awaitCalls(t, d.s, before+2, "agent", "list")
	d.h.answers("herdr_controller_renew", d.l.showing(""))
	if len(d.h.got) > 0 {
		t.Errorf("it did not wait: %v", d.h.got)
	}
	for _, id := range ids {
		m := refusal(t, d.h.meshed(id), "TARGET_BUSY")
		if !*m.fault.Retryable {
			t.Errorf("%s", m.StructuredContent)
		}
	}
	if n := len(commands(t, d.s, "agent", "prompt")); n != 1 || d.receiptCount() != 0 {
		t.Errorf("%d prompts, %d receipts", n, d.receiptCount())
	}
	_ = link.cmd.Process.Kill()
	link.wait()
	change(t, d.s, func(w *fakeherdr.World) { w.Faults = nil })

	// In opposite order there is no deadlock.
	other := d.open("w1:p1")
	ids = []string{d.h.begin("herdr_batch_handoff", d.batchArgs(`,"timeout_ms":1`, "builder", "reviewer")), other.begin("herdr_batch_handoff", d.batchArgs(`,"timeout_ms":1`, "reviewer", "builder"))}
	submittedTo(t, d.s, "w1:p2", "for reviewer")
	submittedTo(t, d.s, "w2:p1", "for builder")
	change(t, d.s, func(w *fakeherdr.World) {
		w.Pane("w1:p2").Agent.Status, w.Pane("w2:p1").Agent.Status = fakeherdr.Working, fakeherdr.Working
	})
	taken := 0
	for i, h := range []*host{d.h, other} {
		m := h.meshed(ids[i])
		if !m.IsError {
			taken++
			if a := m.handed(t); len(a.PendingReceipts) != 2 {
				t.Errorf("%+v", a)
			}
		} else if m.fault.Code != "RECEIPT_OUTSTANDING" {
			t.Errorf("%s", m.StructuredContent)
		}
	}
	if taken != 1 {
		t.Errorf("%d of two were taken", taken)
	}

	locks := filepath.Join(d.home, ".local", "state", "herdr-link", "locks")
	if err := os.RemoveAll(locks); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), locks); err != nil {
		t.Fatal(err)
	}
	prompts, receipts := len(commands(t, d.s, "agent", "prompt")), d.receiptCount()
	d.h.refuses("TARGET_LOCK_UNAVAILABLE", "herdr_relay", d.relayArgs("tester", "x"))
	if n := len(commands(t, d.s, "agent", "prompt")); n != prompts || d.receiptCount() != receipts {
		t.Errorf("%d prompts, %d receipts", n, d.receiptCount())
	}
}

// mesh.md §8, 53: after a restart of the server no lease is of anybody.
func TestMeshHandoffRestart(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	receipt := d.relay("reviewer", "look at it")
	id := d.h.begin("herdr_collect_handoffs", d.collectArgs("", receipt))
	polled(t, d.s, 2)
	others := []string{d.relay("builder", "look at it"), d.relay("tester", "look at it")}
	change(t, d.s, func(w *fakeherdr.World) {
		w.Restart()
		w.RunAgent(w.Pane("w1:p1"), "claude", "lead")
		w.RunAgent(w.Pane("w1:p2"), "codex", "reviewer")
		w.RunAgent(w.Pane("w2:p1"), "claude", "builder")
	})
	prompts := len(commands(t, d.s, "agent", "prompt"))
	d.h.meshed(id).handed(t).failedAs(t, "collection", "COLLECT_IDENTITY_CHANGED", 0)
	d.h.refuses("CONTROLLER_OTHER_PANE", "herdr_relay", d.relayArgs("reviewer", "x"))
	d.h.refuses("CONTROLLER_IDENTITY_CHANGED", "herdr_controller_resume", asking(""))
	expire(t, d.state)
	d.has(d.h.answers("herdr_controller_takeover", asking(fmt.Sprintf(`,"expected_predecessor_lease_id":%q`, d.l.LeaseID))))
	for tool, args := range map[string]string{
		"herdr_relay": d.relayArgs("reviewer", "x"), "herdr_handoff": d.handoff(""), "herdr_batch_handoff": d.batchArgs("", "reviewer"),
	} {
		d.h.refuses("AGENT_NOT_FOUND", tool, args)
	}
	if n := len(commands(t, d.s, "agent", "prompt")); n != prompts {
		t.Errorf("%d prompts", n-prompts)
	}
	d.h.answers("herdr_collect_handoffs", d.collectArgs("", others[0])).handed(t).failedAs(t, "collection", "COLLECT_IDENTITY_CHANGED", 0)
	if m := d.h.answers("herdr_handoff_receipt_abandon", d.l.showing(`,"receipt":"`+others[1]+`"`)); string(m.data["failure"]) != `"target_gone"` {
		t.Errorf("%s", m.StructuredContent)
	}
	d.h.refuses("AGENT_NOT_FOUND", "herdr_relay", d.relayArgs("builder", "x"))
}

// mesh.md §8, 56: nothing holds the store lock for more than 20 s.
func TestMeshHandoffHangs(t *testing.T) {
	t.Parallel()
	t.Run("before the prompt", func(t *testing.T) {
		t.Parallel()
		d := newOffice(t, "HERDR_LINK_TIMEOUT=60s")
		d.h.patience = time.Minute
		change(t, d.s, func(w *fakeherdr.World) { // the first list is before the lock
			w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "list"}, Kind: fakeherdr.Slow, Left: 1}, {Match: []string{"agent", "list"}, Kind: fakeherdr.Hang, Left: 1}}
		})
		lists := len(commands(t, d.s, "agent", "list"))
		begun := time.Now()
		id := d.h.begin("herdr_relay", d.relayArgs("reviewer", "x"))
		awaitCalls(t, d.s, lists+2, "agent", "list")
		other := d.open("w1:p1")
		other.patience = time.Minute
		if m := other.refuses("LOCK_BUSY", "herdr_controller_renew", d.l.showing("")); !*m.fault.Retryable {
			t.Errorf("%s", m.StructuredContent)
		}
		refusal(t, d.h.meshed(id), "HERDR_TIMEOUT")
		if took := time.Since(begun); took < 20*time.Second || took > 25*time.Second {
			t.Errorf("it took %v", took)
		}
		d.unprompted()
		other.answers("herdr_controller_renew", d.l.showing(""))
	})
	t.Run("in the prompt", func(t *testing.T) {
		t.Parallel()
		d := newOffice(t, "HERDR_LINK_TIMEOUT=60s")
		d.h.patience = time.Minute
		fault(t, d.s, fakeherdr.Hang, "agent", "prompt")
		begun := time.Now()
		id := d.h.begin("herdr_handoff", d.handoff(""))
		awaitCalls(t, d.s, 1, "agent", "prompt")
		other := d.open("w1:p1")
		other.patience = time.Minute
		other.refuses("LOCK_BUSY", "herdr_controller_resume", asking(""))
		for m := other.mesh("herdr_controller_renew", d.l.showing("")); m.IsError; m = other.mesh("herdr_controller_renew", d.l.showing("")) {
			refusal(t, m, "LOCK_BUSY") // for 20 s in all
		}
		if took := time.Since(begun); took > 25*time.Second {
			t.Errorf("it took %v", took)
		}
		receipt := d.h.meshed(id).handed(t).failedAs(t, "delivery", "DELIVERY_AMBIGUOUS", 0)
		if r := d.receipt(receipt); r.State != "reserved" {
			t.Errorf("%+v", r)
		}
		d.h.childless()
	})
}

// mesh.md §8, 57: who waits for a human is waited for.
func TestMeshHandoffBlocked(t *testing.T) {
	t.Parallel()
	for name, before := range map[string][]string{"at once": nil, "later": {fakeherdr.Working}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newOffice(t)
			id := d.h.begin("herdr_handoff", d.handoff(""))
			submittedTo(t, d.s, "w1:p2", "look at it")
			for _, status := range before {
				setStatus(t, d.s, "w1:p2", status)
				d.one("pending")
			}
			d.shows("w1:p2", "May I?")
			cursor := setStatus(t, d.s, "w1:p2", fakeherdr.Blocked)
			m := d.h.meshed(id)
			receipt := m.handed(t).failedAs(t, "collection", "AGENT_BLOCKED", 1)
			if r := d.receipt(receipt); r.State != "pending" || r.BlockedSeq != cursor || r.AfterSeq > cursor || (before == nil) != (r.AfterSeq == cursor) ||
				strings.Contains(string(m.StructuredContent), "May I") {
				t.Errorf("%+v at %d, %s", r, cursor, m.StructuredContent)
			}
			d.h.answers("herdr_collect_handoffs", d.collectArgs("", receipt)).handed(t).failedAs(t, "collection", "AGENT_BLOCKED", 1)
			d.h.refuses("RECEIPT_OUTSTANDING", "herdr_relay", d.relayArgs("reviewer", "x"))
			setStatus(t, d.s, "w1:p2", fakeherdr.Working) // the human has answered
			id = d.h.begin("herdr_collect_handoffs", d.collectArgs("", receipt))
			polled(t, d.s, 2)
			d.shows("w1:p2", "the answer")
			setStatus(t, d.s, "w1:p2", fakeherdr.Done)
			d.h.meshed(id).handed(t).completedAs(t, "the answer\n", "first_seen")
		})
	}
	t.Run("the others go on", func(t *testing.T) {
		t.Parallel()
		d := newOffice(t)
		id := d.h.begin("herdr_batch_handoff", d.batchArgs("", "reviewer", "builder"))
		submittedTo(t, d.s, "w1:p2", "for reviewer")
		submittedTo(t, d.s, "w2:p1", "for builder")
		setStatus(t, d.s, "w1:p2", fakeherdr.Blocked)
		setStatus(t, d.s, "w2:p1", fakeherdr.Working)
		eventually(t, "pending receipts", func() bool { return len(d.receipts("pending")) == 2 })
		polled(t, d.s, 3)
		setStatus(t, d.s, "w2:p1", fakeherdr.Done)
		a := d.h.meshed(id).handed(t)
		if len(a.Completed) != 1 || a.Completed[0].Target != "builder" || len(a.Failed) != 1 || a.Failed[0].Error != "AGENT_BLOCKED" || !slices.Equal(a.PendingReceipts, []string{a.Failed[0].Receipt}) {
			t.Errorf("%+v", a)
		}
	})
}

// mesh.md §8, 58: a turn that leaves no trace is not told from none. One that
// leaves its cursor is accepted.
func TestMeshHandoffShortTurn(t *testing.T) {
	t.Parallel()
	t.Run("no trace", func(t *testing.T) {
		t.Parallel()
		d := newOffice(t)
		receipt := d.h.answers("herdr_handoff", d.handoff("")).handed(t).failedAs(t, "delivery", "DELIVERY_AMBIGUOUS", 0)
		if r := d.receipt(receipt); r.State != "reserved" {
			t.Errorf("%+v", r)
		}
		if keys, err := d.s.Keystrokes("w1:p2"); err != nil || len(keys) != 1 {
			t.Errorf("%v, %v", keys, err)
		}
	})
	t.Run("a cursor", func(t *testing.T) {
		t.Parallel()
		d := newOffice(t)
		begun := time.Now()
		id := d.h.begin("herdr_handoff", d.handoff(""))
		submittedTo(t, d.s, "w1:p2", "look at it")
		d.shows("w1:p2", "the answer")
		cursor := setStatus(t, d.s, "w1:p2", fakeherdr.Done)
		a := d.h.meshed(id).handed(t)
		a.completedAs(t, "the answer\n", "continuous")
		if took := time.Since(begun); took < 5*time.Second {
			t.Errorf("it took %v", took)
		}
		if r := d.receipt(a.Completed[0].Receipt); r.AfterSeq != cursor || r.SettledSeq != cursor {
			t.Errorf("%+v", r)
		}
	})
}

// mesh.md §8, 60: the end of input ends a wait, and loses nothing.
func TestMeshHandoffEndOfInput(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"while it waits": true, "before it is confirmed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newOffice(t)
			id := d.h.begin("herdr_handoff", d.handoff(`,"timeout_ms":600000`))
			submittedTo(t, d.s, "w1:p2", "look at it")
			if before {
				setStatus(t, d.s, "w1:p2", fakeherdr.Working)
				d.one("pending")
				polled(t, d.s, 2)
			}
			d.h.stdin.Close()
			if !before {
				polled(t, d.s, 2)
				setStatus(t, d.s, "w1:p2", fakeherdr.Working)
			}
			a := d.h.meshed(id).handed(t)
			if len(a.PendingReceipts) != 1 || len(a.Failed)+len(a.Completed) != 0 || d.receipt(a.PendingReceipts[0]).State != "pending" {
				t.Errorf("%+v", a)
			}
			if code := d.h.wait(); code != 0 || len(d.h.env.alive()) > 0 {
				t.Errorf("exit %d, and %v", code, d.h.env.alive())
			}
		})
	}
	t.Run("collect", func(t *testing.T) {
		t.Parallel()
		d := newOffice(t)
		receipt := d.relay("reviewer", "look at it")
		id := d.h.begin("herdr_collect_handoffs", d.collectArgs("", receipt))
		polled(t, d.s, 2)
		d.h.stdin.Close()
		if a := d.h.meshed(id).handed(t); !slices.Equal(a.PendingReceipts, []string{receipt}) {
			t.Errorf("%+v", a)
		}
		if code := d.h.wait(); code != 0 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		d := newOffice(t, "HERDR_LINK_TIMEOUT=60s")
		fault(t, d.s, fakeherdr.HangAfter, "agent", "prompt")
		id := d.h.begin("herdr_handoff", d.handoff(""))
		awaitCalls(t, d.s, 1, "agent", "prompt")
		begun := time.Now()
		d.h.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		d.h.childless()
		if took := time.Since(begun); took > 10*time.Second { // of the 20 that it would have
			t.Errorf("it took %v", took)
		}
		d.one("reserved") // it may have arrived
		change(t, d.s, func(w *fakeherdr.World) { w.Faults = nil })
		d.h.refuses("RECEIPT_OUTSTANDING", "herdr_relay", d.relayArgs("reviewer", "x"))
		for _, m := range d.h.got {
			if string(m.ID) == id {
				t.Errorf("answered: %s", m.line)
			}
		}
	})
}

// mesh.md §8, 60: a signal ends everything at once, at each moment.
func TestMeshHandoffSignals(t *testing.T) { // not beside other tests, since time counts
	for _, stage := range []struct {
		name  string
		reach func(d *office)
		state string // of the receipt that is left
	}{
		{"target lock", func(d *office) {
			fault(d.t, d.s, fakeherdr.Hang, "agent", "prompt")
			link := d.open("w1:p1", "HERDR_LINK_TIMEOUT=60s", "HERDR_LINK_OFF=0")
			link.call("herdr_link", "{}")
			link.begin("herdr_link_send", `{"to":"reviewer","message":"hi"}`)
			awaitCalls(d.t, d.s, 1, "agent", "prompt")
			lists := len(commands(d.t, d.s, "agent", "list"))
			d.h.begin("herdr_relay", d.relayArgs("reviewer", "x"))
			awaitCalls(d.t, d.s, lists+1, "agent", "list")
		}, ""},
		{"admission", func(d *office) {
			change(d.t, d.s, func(w *fakeherdr.World) {
				w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "list"}, Kind: fakeherdr.Slow, Left: 1}, {Match: []string{"agent", "list"}, Kind: fakeherdr.Hang}}
			})
			lists := len(commands(d.t, d.s, "agent", "list"))
			d.h.begin("herdr_handoff", d.handoff(""))
			awaitCalls(d.t, d.s, lists+2, "agent", "list")
		}, ""},
		{"delivery", func(d *office) {
			fault(d.t, d.s, fakeherdr.Hang, "agent", "prompt")
			d.h.begin("herdr_batch_handoff", d.batchArgs("", "reviewer", "builder"))
			awaitCalls(d.t, d.s, 2, "agent", "prompt")
		}, "reserved"},
		{"confirmation", func(d *office) {
			d.h.begin("herdr_relay", d.relayArgs("reviewer", "x"))
			submittedTo(d.t, d.s, "w1:p2", "x")
			fault(d.t, d.s, fakeherdr.Hang, "agent", "list")
			lists := len(commands(d.t, d.s, "agent", "list"))
			awaitCalls(d.t, d.s, lists+1, "agent", "list")
		}, "reserved"},
		{"wait", func(d *office) {
			d.h.begin("herdr_handoff", d.handoff(""))
			submittedTo(d.t, d.s, "w1:p2", "look at it")
			setStatus(d.t, d.s, "w1:p2", fakeherdr.Working)
			d.one("pending")
			fault(d.t, d.s, fakeherdr.Hang, "agent", "list")
			awaitCalls(d.t, d.s, len(commands(d.t, d.s, "agent", "list"))+1, "agent", "list")
		}, "pending"},
		{"collect", func(d *office) {
			receipt := d.relay("reviewer", "x")
			setStatus(d.t, d.s, "w1:p2", fakeherdr.Done)
			fault(d.t, d.s, fakeherdr.Hang, "agent", "read")
			d.h.begin("herdr_collect_handoffs", d.collectArgs("", receipt))
			awaitCalls(d.t, d.s, 1, "agent", "read")
		}, "pending"},
	} {
		t.Run(stage.name, func(t *testing.T) {
			t.Parallel()
			soon(t, func() time.Duration {
				d := newOffice(t, "HERDR_LINK_TIMEOUT=60s")
				stage.reach(d)
				pids := d.h.env.alive()
				begun := time.Now()
				if err := d.h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the end of all processes", func() bool { return len(d.h.env.living(pids)) == 0 })
				took := time.Since(begun)
				d.h.wait()
				if left := d.h.env.alive(); len(left) > 0 {
					t.Errorf("left behind: %d", left)
				}
				onlyProtocol(t, d.h)
				change(t, d.s, func(w *fakeherdr.World) { w.Faults = nil })
				d.h = d.open("w2:p1")
				if stage.state == "" {
					if n := d.receiptCount(); n != 0 {
						t.Errorf("%d receipts", n)
					}
				} else if all := d.receipts(stage.state); len(all) == 0 || len(all) != d.receiptCount() {
					t.Errorf("%v are %s of %d", all, stage.state, d.receiptCount())
				}
				return took
			})
		})
	}
}

// mesh.md §8, 61, §2.2: lists name what cannot be read, and nothing in the archive
// stops anybody.
func TestMeshReceiptList(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	if m := d.h.answers("herdr_handoff_receipt_list", "{}"); string(m.StructuredContent) != `{"receipts":[],"truncated":false,"invalidRecords":[]}` {
		t.Errorf("%s", m.StructuredContent)
	}
	receipts := []string{d.relay("reviewer", "one"), d.relay("builder", "two"), d.relay("tester", "three")}
	setStatus(t, d.s, "w1:p2", fakeherdr.Done)
	d.h.answers("herdr_collect_handoffs", d.collectArgs("", receipts[0])).handed(t).completedAs(t, "", "first_seen")
	setStatus(t, d.s, "w2:p1", fakeherdr.Done)
	d.h.answers("herdr_handoff_receipt_abandon", d.l.showing(`,"receipt":"`+strings.ToUpper(receipts[1])+`"`))
	list := func(args string, truncated bool, want ...string) meshed {
		t.Helper()
		m := d.open("").answers("herdr_handoff_receipt_list", args) // anybody may look
		var all []struct{ Receipt string }
		if err := json.Unmarshal(m.data["receipts"], &all); err != nil || string(m.data["truncated"]) != fmt.Sprint(truncated) {
			t.Errorf("%s: %v, %s", args, err, m.StructuredContent)
		}
		var got []string
		for _, r := range all {
			got = append(got, r.Receipt)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
		return m
	}
	d.hosts = d.hosts[:1]
	m := list(`{}`, false, receipts[2], receipts[1], receipts[0])
	r := d.receipt(receipts[0])
	w, err := d.s.World()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`{"receipt":%q,"controllerId":"lead","target":"reviewer","paneId":"w1:p2","agentKind":"codex","cwd":%q,"state":"completed","beforeSeq":%d,"afterSeq":%d,"settledSeq":%d,"createdAt":%q`,
		receipts[0], w.Pane("w1:p2").Cwd, r.BeforeSeq, r.AfterSeq, r.SettledSeq, r.CreatedAt)
	if !strings.Contains(string(m.StructuredContent), want) || !strings.Contains(string(m.StructuredContent), `"failure":"abandoned"`) || !strings.Contains(string(m.StructuredContent), `"updatedAt"`) {
		t.Errorf("%s, want %s", m.StructuredContent, want)
	}
	list(`{"state":"pending"}`, false, receipts[2])
	list(`{"state":"failed"}`, false, receipts[1])
	list(`{"state":"reserved"}`, false)
	list(`{"controller_id":"other"}`, false)
	list(`{"controller_id":"lead","state":"completed"}`, false, receipts[0])
	list(`{"limit":1}`, true, receipts[2])
	list(`{"limit":2}`, true, receipts[2], receipts[1])
	list(`{"limit":3}`, false, receipts[2], receipts[1], receipts[0])

	for _, name := range []string{"archive/" + leaseID("5") + ".json", "archive/x.json"} {
		if err := os.WriteFile(filepath.Join(d.state, "handoff-receipts", name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m = list(`{}`, false, receipts[2], receipts[1], receipts[0])
	for _, name := range []string{leaseID("5"), "x"} {
		if !strings.Contains(string(m.data["invalidRecords"]), `{"file":"handoff-receipts/archive/`+name+`.json","code":"STATE_CORRUPT"}`) {
			t.Errorf("%s", m.StructuredContent)
		}
	}
	d.relay("reviewer", "four")
	// In the store itself it may be a barrier.
	if err := os.WriteFile(filepath.Join(d.state, "handoff-receipts", leaseID("6")+".json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	setStatus(t, d.s, "w2:p1", fakeherdr.Idle)
	d.h.refuses("STATE_CORRUPT", "herdr_relay", d.relayArgs("builder", "x"))
	if m := d.h.answers("herdr_handoff_receipt_list", `{"state":"pending"}`); !strings.Contains(string(m.data["invalidRecords"]), leaseID("6")) {
		t.Errorf("%s", m.StructuredContent)
	}
}

// Abandoning from several servers at once, and collecting meanwhile: one of them
// decides.
func TestMeshReceiptAtOnce(t *testing.T) {
	t.Parallel()
	d := newOffice(t)
	receipt := d.relay("reviewer", "look at it")
	setStatus(t, d.s, "w1:p2", fakeherdr.Done)
	hosts := []*host{d.open("w1:p1"), d.open("w1:p1"), d.open("w1:p1")}
	var mu sync.Mutex
	done := 0
	var wait sync.WaitGroup
	for i, h := range hosts {
		tool, args := "herdr_handoff_receipt_abandon", d.l.showing(`,"receipt":"`+receipt+`"`)
		if i == 0 {
			tool, args = "herdr_collect_handoffs", d.collectArgs("", receipt)
		}
		id := h.begin(tool, args)
		wait.Go(func() {
			m := h.meshed(id)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case m.IsError:
				if m.fault.Code != "RECEIPT_WRONG_STATE" {
					t.Errorf("%s", m.StructuredContent)
				}
			case i > 0:
				done++
			default:
				if a := m.handed(t); len(a.Completed) == 1 {
					done++
				} else {
					a.failedAs(t, "collection", "RECEIPT_WRONG_STATE", 0)
				}
			}
		})
	}
	wait.Wait()
	if done != 1 {
		t.Errorf("%d have decided", done)
	}
}
