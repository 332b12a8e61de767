//go:build unix

package handoff

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"herdr-link/mesh/controller"
	"herdr-link/mesh/crash"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/store"
	"herdr-link/twin"
)

// The process that is going to crash learns the credential and the receipt of
// what was before from its environment. They are in no file.
const (
	credVariable    = "HERDR_LINK_TEST_CREDENTIAL"
	receiptVariable = "HERDR_LINK_TEST_RECEIPT"
)

func envValue(env []string, name string) string {
	for _, v := range env {
		if value, found := strings.CutPrefix(v, name+"="); found {
			return value
		}
	}
	return ""
}

func envCredential(env []string) controller.Credential {
	w := append(strings.Fields(envValue(env, credVariable)), "", "", "")
	return controller.Credential{ControllerID: w[0], LeaseID: w[1], Fence: w[2]}
}

// workers are the agents of the plays as they are in that state: lead's pane is
// w1:p0, theirs are w1:p1 and w1:p2, or another one for the first.
func workers(pane, status string, cursor int64) []member {
	return []member{
		{"lead", "w1:p0", "term_0", "working", 1},
		{"one", pane, "term_1", status, cursor},
		{"two", "w1:p2", "term_2", status, cursor},
	}
}

// plays are the operations with receipts. Each begins with a controller in w1:p0
// that has a lease of agents one and two.
func plays() []crash.Play {
	type do func(ctx context.Context, b bridge, by controller.Authority, receipt string) (any, error)
	wait := Wait{Timeout: 30 * time.Second, Lines: 10}
	relay := func(ctx context.Context, b bridge, by controller.Authority, _ string) (any, error) {
		return b.Relay(ctx, by, Request{"one", "task"})
	}
	collect := func(ctx context.Context, b bridge, by controller.Authority, receipt string) (any, error) {
		return b.Collect(ctx, by, []string{receipt}, wait)
	}
	play := func(name string, run do) crash.Play {
		return crash.Play{
			Name: name,
			Run: func(ctx context.Context, dir string, d *disk.Disk) (any, error) {
				b := newBridge(dir, os.Environ(), d, nil)
				return run(ctx, b, b.controllers.By(envCredential(os.Environ())), os.Getenv(receiptVariable))
			},
			Prepare: func(t *testing.T, dir string) []string { return prepare(t, dir, name) },
			Check:   func(t *testing.T, end crash.End) { check(t, name, end) },
		}
	}
	return []crash.Play{
		play("relay", relay),
		play("moved", relay),
		play("handoff", func(ctx context.Context, b bridge, by controller.Authority, _ string) (any, error) {
			return b.Batch(ctx, by, []Request{{"one", "task"}}, wait)
		}),
		play("batch", func(ctx context.Context, b bridge, by controller.Authority, _ string) (any, error) {
			return b.Batch(ctx, by, []Request{{"one", "task"}, {"two", "task"}}, wait)
		}),
		play("collect", collect),
		play("superseded", collect),
		play("blocked", collect),
		play("replay", collect),
		play("abandon", func(ctx context.Context, b bridge, by controller.Authority, receipt string) (any, error) {
			return b.Abandon(ctx, by, receipt)
		}),
	}
}

// prepare makes what is there before a play.
func prepare(t *testing.T, dir, name string) []string {
	t.Helper()
	env := quickEnv(dir, "w1:p0")
	quickHerdr(t, dir)
	for _, n := range []string{"1", "2", "9"} {
		put(t, filepath.Join(dir, "screen-"+n), "the answer\n")
	}
	quickAgents(t, dir, "agents", workers("w1:p1", "idle", 1)...)
	b := newBridge(dir, env, nil, nil)
	c, err := b.controllers.Acquire(t.Context(), request("lead"))
	must(t, err)
	l := leaseFor("lead", "one", "w1:p1", "term_1")
	record(t, b.store, l, leaseFor("lead", "two", "w1:p2", "term_2"))
	env = append(env, credVariable+"="+strings.Join([]string{c.ControllerID, c.LeaseID, c.FenceToken}, " "))
	switch name {
	case "relay":
		quickAgents(t, dir, "agents.begun", workers("w1:p1", "working", 2)...)
		return env
	case "moved":
		quickAgents(t, dir, "agents", workers("w1:p9", "idle", 1)...)
		quickAgents(t, dir, "agents.begun", workers("w1:p9", "working", 2)...)
		return env
	case "handoff", "batch":
		quickAgents(t, dir, "agents.begun", workers("w1:p1", "working", 2)...)
		quickAgents(t, dir, "agents.ended", workers("w1:p1", "done", 3)...)
		return env
	}
	r := &store.Receipt{
		Version: 1, ReceiptID: disk.NewID(), ControllerID: "lead", ControllerLeaseID: c.LeaseID, Target: "one", TargetLeaseID: l.LeaseID,
		PaneID: "w1:p1", AgentKind: "pi", Cwd: "/", State: store.Pending, BeforeSeq: 1, AfterSeq: 2, TerminalID: "term_1", HerdrSocket: "/quick.sock",
	}
	r.CreatedAt = store.Stamp(time.Now().Add(-young - time.Second))
	r.UpdatedAt = r.CreatedAt
	switch name {
	case "replay":
		r.State, r.SettledSeq = store.Completed, 3
	case "abandon":
		r.State, r.AfterSeq = store.Reserved, 0
	}
	record(t, b.store, r)
	put(t, filepath.Join(dir, "journal"), "w1:p1\ttask\t"+r.ReceiptID+".json\n")
	status := map[string]string{"superseded": "working", "blocked": "blocked"}[name]
	if status == "" {
		status = "done"
	}
	quickAgents(t, dir, "agents", workers("w1:p1", status, 3)...)
	return append(env, receiptVariable+"="+token(r.ReceiptID))
}

// An answered is what the caller of a play got to know.
type answered struct {
	Answer
	Abandoned
}

// check holds what a crash left to the invariants and the crash table.
func check(t *testing.T, name string, end crash.End) {
	cred := envCredential(end.Env)
	crash.NoFence(t, end.Dir, cred.Fence) // I10
	var answer answered
	if end.Code == "" && !end.Killed {
		must(t, json.Unmarshal(end.Answer, &answer))
	}
	if end.Code != "" && end.Code != "STATE_IO" {
		t.Errorf("the operation failed with %s", end.Code)
	}
	if temps, _ := filepath.Glob(filepath.Join(end.Dir, "state", "*", ".*.tmp")); len(temps) > 0 && !end.Killed && !strings.HasPrefix(end.Op, disk.OpRemove) {
		t.Errorf("left: %q", temps)
	}
	b := newBridge(end.Dir, end.Env, nil, nil)
	all := receipts(t, b.store)
	typed := prompts(t, end.Dir)
	targets := []string{"one", "two"}
	if name != "batch" {
		targets = targets[:1]
	}
	for _, target := range targets {
		var r *store.Receipt
		for _, x := range all {
			if x.Target == target {
				if r != nil {
					t.Errorf("two receipts of %s", target)
				}
				r = x
			}
		}
		var prompted []prompt
		for _, p := range typed {
			if (p.pane == "w1:p2") == (target == "two") {
				prompted = append(prompted, p)
			}
		}
		left(t, name, end, answer, r, prompted)
		recover1(t, end, target, r)
	}
}

// left holds the receipt of one agent to what was prompted and what was answered.
func left(t *testing.T, name string, end crash.End, answer answered, r *store.Receipt, prompted []prompt) {
	t.Helper()
	switch {
	case len(prompted) > 1:
		t.Errorf("prompted twice: %+v", prompted)
	case len(prompted) == 1 && (r == nil || !slices.Equal(prompted[0].receipts, []string{r.ReceiptID})):
		t.Errorf("I4: the prompt had the receipts %q, and there is %+v", prompted[0].receipts, r)
	case len(prompted) == 1 && r.Failure == "delivery_failed":
		t.Error("a prompt that arrived counts as never sent")
	case len(prompted) == 1 && end.Code != "" && slices.Contains([]string{"relay", "moved", "handoff", "batch"}, name):
		t.Errorf("a prompt arrived, and the caller got %s without its receipt", end.Code)
	case len(prompted) == 0 && r != nil && r.State != store.Reserved && r.Failure != "delivery_failed":
		t.Errorf("no prompt arrived, and there is %+v", r)
	}
	if r == nil {
		return
	}
	expected := map[string][]string{
		"collect":    {store.Pending, store.Completed},
		"superseded": {store.Pending, "cursor_superseded"},
		"blocked":    {store.Pending},
		"replay":     {store.Completed},
		"abandon":    {store.Reserved, "abandoned"},
		"handoff":    {store.Reserved, store.Pending, store.Completed, "delivery_failed"},
		"batch":      {store.Reserved, store.Pending, store.Completed, "delivery_failed"},
	}[name]
	if expected == nil {
		expected = []string{store.Reserved, store.Pending, "delivery_failed"}
	}
	state := r.State
	if state == store.Failed {
		state = r.Failure
	}
	if !slices.Contains(expected, state) {
		t.Errorf("the receipt is %s", state)
	}
	switch {
	case end.Step == 0 && !slices.Contains(expected[1:], state) && name != "blocked" && name != "replay" && name != "batch":
		t.Errorf("nothing happened, and the receipt is %s", state)
	case slices.Contains(answer.Pending, token(r.ReceiptID)) && r.State != store.Pending && (end.Step == 0 || end.Op == "answer"):
		t.Errorf("it was answered that it is pending, and it is %s", state)
	case name == "blocked" && end.Step == 0 && (r.BlockedSeq != 3 || len(answer.Answer.Failed) != 1 || answer.Answer.Failed[0].Code != "AGENT_BLOCKED"):
		t.Errorf("blocked: %+v, %+v", r, answer)
	case name == "abandon" && answer.Abandoned.State != "" && (state != "abandoned" || answer.Abandoned.Failure != "abandoned"):
		t.Errorf("it was answered that it is abandoned, and it is %s", state)
	}
	for _, c := range answer.Completed {
		if c.Receipt == token(r.ReceiptID) && (r.State != store.Completed || c.Output != "the answer\n" || c.Cursor != 3) {
			t.Errorf("it was answered that it is completed, %+v, and it is %+v", c, r)
		}
	}
}

// recover1 is the next process: it brings the agent to its next task, as the
// crash table says (mesh.md §7).
func recover1(t *testing.T, end crash.End, target string, r *store.Receipt) {
	t.Helper()
	ctx, begun := t.Context(), time.Now()
	pane := "w1:p1"
	if r != nil && target == "one" {
		pane = r.PaneID
	}
	for _, file := range []string{"die-before", "die-noted", "die-begun", "agents.begun", "agents.ended", "agents.next"} {
		_ = os.Remove(filepath.Join(end.Dir, file))
	}
	b := newBridge(end.Dir, end.Env, nil, nil)
	later := newBridge(end.Dir, end.Env, nil, func() time.Time { return time.Now().Add(young + time.Second) })
	by, byLater := b.controllers.By(envCredential(end.Env)), later.controllers.By(envCredential(end.Env))
	wait := Wait{Timeout: 30 * time.Second, Lines: 10}
	now := func(status string, cursor int64) { quickAgents(t, end.Dir, "agents", workers(pane, status, cursor)...) }
	before := len(prompts(t, end.Dir))
	refused := func() {
		t.Helper()
		now("idle", 3)
		_, err := b.Relay(ctx, by, Request{target, "again"})
		want(t, "another task", err, "RECEIPT_OUTSTANDING") // I5
	}
	switch {
	case r == nil || r.State == store.Failed:
	case r.State == store.Reserved:
		refused()
		if made, _ := store.Time(r.CreatedAt); time.Since(made) < young/2 {
			_, err := b.Abandon(ctx, by, token(r.ReceiptID))
			want(t, "abandoned at once", err, "AGENT_NOT_SETTLED")
		}
		_, err := b.Collect(ctx, by, []string{token(r.ReceiptID)}, wait)
		want(t, "collected though reserved", err, "RECEIPT_WRONG_STATE")
		now("working", 2)
		_, err = later.Abandon(ctx, byLater, token(r.ReceiptID))
		want(t, "abandoned at work", err, "AGENT_NOT_SETTLED")
		now("done", 3)
		a, err := later.Abandon(ctx, byLater, token(r.ReceiptID))
		must(t, err)
		if a.State != store.Failed || a.Failure != "abandoned" || a.Status != "done" {
			t.Errorf("abandoned: %+v", a)
		}
	default:
		if r.State == store.Pending {
			refused()
		}
		now("done", 3)
		for range 2 { // and once more
			a, err := b.Collect(ctx, by, []string{token(r.ReceiptID)}, wait)
			must(t, err)
			if len(a.Completed) != 1 || a.Completed[0].Output != "the answer\n" || a.Completed[0].Proof != "first_seen" {
				t.Errorf("collected: %+v", a)
			}
		}
	}
	if typed := prompts(t, end.Dir); len(typed) != before {
		t.Errorf("prompted: %+v", typed[before:])
	}
	now("idle", 3)
	quickAgents(t, end.Dir, "agents.begun", workers(pane, "working", 4)...)
	a, err := b.Relay(ctx, by, Request{target, "next"})
	must(t, err)
	typed := prompts(t, end.Dir)
	if len(a.Pending) != 1 || len(typed) != before+1 || !slices.Equal(typed[before].receipts, []string{idOf(a.Pending[0])}) {
		t.Errorf("the next task: %+v, %+v", a, typed)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestCrash breaks each play off at every step. Of those that begin as another one
// does only the sections that are their own are broken off: all of relay is in
// moved, say.
func TestCrash(t *testing.T) {
	t.Parallel()
	if twin.Runs(t) { // but for the plays that nobody kills
		return
	}
	own := map[string]int{"moved": 1, "handoff": 3, "collect": 1, "superseded": 2, "blocked": 2, "replay": 1, "abandon": 1}
	for _, p := range plays() {
		if own[p.Name] == 0 { // the steps of a batch are not the same each time
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			if own[p.Name] == 1 {
				p.Each(t)
				return
			}
			sections, broken := 0, 0
			for i, op := range p.Once(t, 0).Ops {
				if op == "open .reservation-flock" {
					sections++
				}
				if sections < own[p.Name] {
					continue
				}
				broken++
				t.Run(fmt.Sprintf("%02d %s/killed", i+1, op), func(t *testing.T) { t.Parallel(); p.Once(t, i+1) })
				if op != "answer" {
					t.Run(fmt.Sprintf("%02d %s/failed", i+1, op), func(t *testing.T) { t.Parallel(); p.Once(t, -i-1) })
				}
			}
			if broken < 10 {
				t.Errorf("only %d steps were broken off", broken)
			}
		})
	}
}

// neverStep is a step that no play has: what kills it is the prompt.
const neverStep = 1 << 20

func TestCrashInPrompt(t *testing.T) {
	t.Parallel()
	for _, p := range plays() {
		if !slices.Contains([]string{"relay", "moved", "handoff", "batch"}, p.Name) {
			continue
		}
		for _, when := range []string{"before", "noted", "begun"} {
			t.Run(p.Name+"/"+when, func(t *testing.T) {
				t.Parallel()
				p := p
				p.Prepare = func(t *testing.T, dir string) []string {
					put(t, filepath.Join(dir, "die-"+when), "")
					return prepare(t, dir, p.Name)
				}
				end := p.Once(t, neverStep)
				typed := slices.ContainsFunc(prompts(t, end.Dir), func(p prompt) bool { return p.text == "task" })
				if typed != (when != "before") {
					t.Errorf("prompted: %t", typed)
				}
			})
		}
	}
}
