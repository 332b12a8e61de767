//go:build unix

package handoff

import (
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
	"herdr-link/mesh/crash"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
	"herdr-link/mesh/watch"
	"herdr-link/twin"
)

func TestMain(m *testing.M) {
	if dir, ok := fakeherdr.Role(os.Args[0]); ok {
		os.Exit(fakeherdr.Main(dir, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
	}
	crash.Main(plays()...)
	if dir := os.Getenv(workerOf); dir != "" {
		os.Exit(work(dir))
	}
	os.Exit(twin.Main(m))
}

// An office is a simulated Herdr, a controller in w1:p1 and leases of reviewer in
// w1:p2 and builder in w2:p1. A confirmation takes less than 5 s.
type office struct {
	*Handoffs
	t     *testing.T
	scene *fakeherdr.Scene
	by    controller.Authority

	mu     sync.Mutex
	later  time.Duration               // how far the clock is ahead
	before func(op, path string) error // of the file operations
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{t: t}
	dir := t.TempDir()
	var err error
	o.scene, err = fakeherdr.Create(filepath.Join(dir, "scene"), twin.Path(t))
	must(t, err)
	env := map[string]string{}
	for _, v := range o.scene.Env("w1:p1") {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	herdr := herdrcli.New(herdrcli.Options{Bin: env["HERDR_BIN_PATH"], Environ: append(os.Environ(), o.scene.Env("w1:p1")...)})
	d := &disk.Disk{Before: func(op, path string) error {
		o.mu.Lock()
		before := o.before
		o.mu.Unlock()
		if before == nil {
			return nil
		}
		return before(op, path)
	}}
	s := store.New(store.Options{Root: filepath.Join(dir, "state"), Disk: d, Now: func() time.Time {
		o.mu.Lock()
		defer o.mu.Unlock()
		return time.Now().Add(o.later)
	}})
	controllers := controller.New(controller.Options{Getenv: func(name string) string { return env[name] }, Herdr: herdr, Store: s})
	leases := lease.New(lease.Options{Herdr: herdr, Store: s, Locks: herdrcli.NewLocks(dir)})
	o.Handoffs = New(Options{herdr, s, controllers, leases, watch.New(herdr.AgentList)})
	if o.confirming != 5*time.Second {
		t.Errorf("a confirmation takes %v", o.confirming)
	}
	o.confirming = 3 * time.Second
	c, err := controllers.Acquire(t.Context(), controller.Request{ControllerID: "lead", AuthorityRef: "T-1", AuthoritySHA256: strings.Repeat("ab", 32), TTL: time.Hour / 2})
	must(t, err)
	o.by = controllers.By(controller.Credential{ControllerID: c.ControllerID, LeaseID: c.LeaseID, Fence: c.FenceToken})
	x, err := s.Begin(t.Context())
	must(t, err)
	defer x.End()
	for _, pane := range []string{"w1:p2", "w2:p1"} {
		must(t, x.Create(reviewer(o.pane(pane), store.Stamp(s.Now()))))
	}
	return o
}

// reviewer is a lease of the agent in that pane.
func reviewer(p *fakeherdr.Pane, made string) *store.Reviewer {
	return &store.Reviewer{
		Version: 1, Cwd: p.Cwd, Tab: store.Tab{ParentPaneID: "w1:p1", CreatedAt: made},
		Lease: store.Lease{LeaseID: disk.NewID(), ControllerID: "lead", Purpose: "review", PaneID: p.ID, AgentName: p.Agent.Name, AgentKind: p.Agent.Kind,
			State: store.Active, TerminalID: p.Terminal},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (o *office) set(f func()) { o.mu.Lock(); defer o.mu.Unlock(); f() }

func (o *office) pane(id string) *fakeherdr.Pane {
	o.t.Helper()
	w, err := o.scene.World()
	must(o.t, err)
	return w.Pane(id)
}

func (o *office) change(f func(*fakeherdr.World)) {
	o.t.Helper()
	must(o.t, o.scene.Update(func(w *fakeherdr.World) error { f(w); return nil }))
}

func (o *office) status(pane, status string) {
	o.t.Helper()
	o.change(func(w *fakeherdr.World) { w.Pane(pane).Agent.Status = status })
}

// prompts counts the herdrs that were to prompt.
func (o *office) prompts() (n int) {
	o.t.Helper()
	calls, err := o.scene.Calls()
	must(o.t, err)
	for _, c := range calls {
		if len(c.Args) > 1 && c.Args[1] == "prompt" {
			n++
		}
	}
	return n
}

func (o *office) eventually(what string, ok func() bool) {
	o.t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			o.t.Fatalf("waited in vain: %s", what)
		}
	}
}

// on lets every prompt be followed by that state of its agent.
func (o *office) on(pane, status string) {
	before := o.prompts()
	go func() {
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			calls, err := o.scene.Calls()
			n := 0
			for _, c := range calls {
				if len(c.Args) > 1 && c.Args[1] == "prompt" && c.Done {
					n++
				}
			}
			if err != nil || n > before {
				break
			}
		}
		_ = o.scene.Update(func(w *fakeherdr.World) error { w.Pane(pane).Agent.Status = status; return nil })
	}()
}

// states are those of all receipts, sorted.
func (o *office) states() (all []string) {
	o.t.Helper()
	l, err := store.List[store.Receipt](o.store, 0, nil)
	must(o.t, err)
	for _, r := range l.Records {
		all = append(all, strings.TrimSuffix(r.State+"/"+r.Failure, "/"))
	}
	slices.Sort(all)
	return all
}

// relay gives a task that is begun, and returns its receipt.
func (o *office) relay(target, pane string) string {
	o.t.Helper()
	o.on(pane, fakeherdr.Working)
	a, err := o.Relay(o.t.Context(), o.by, Request{target, "look at it"})
	must(o.t, err)
	if len(a.Pending) != 1 {
		o.t.Fatalf("%+v", a)
	}
	o.eventually("a submission", func() bool { // or its Enter would answer a dialog
		keys, err := o.scene.Keystrokes(pane)
		must(o.t, err)
		all, err := o.scene.Submissions(pane)
		must(o.t, err)
		return len(all) == len(keys)
	})
	return a.Pending[0]
}

var soon = Wait{Timeout: 20 * time.Second, Lines: 10}

// What is complete already is told whoever answers first.
func TestFirstKeepsCompleted(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	receipts := []string{o.relay("reviewer", "w1:p2"), o.relay("builder", "w2:p1")}
	o.status("w1:p2", fakeherdr.Done)
	o.status("w2:p1", fakeherdr.Done)
	a, err := o.Collect(t.Context(), o.by, receipts, soon)
	if err != nil || len(a.Completed) != 2 {
		t.Fatalf("%+v, %v", a, err)
	}
	o.change(func(w *fakeherdr.World) { // one screen is read for long
		w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "read", "w2:p1"}, Kind: fakeherdr.Slow, Delay: 2 * time.Second}}
	})
	a, err = o.Collect(t.Context(), o.by, receipts, Wait{First: true, Timeout: 20 * time.Second, Lines: 10})
	if err != nil || len(a.Completed) != 2 || len(a.Failed) != 0 {
		t.Errorf("%+v, %v", a, err)
	}
	a, err = o.Collect(t.Context(), o.by, receipts[1:], Wait{Timeout: time.Second, Lines: 10})
	if err != nil || len(a.Completed) != 0 || len(a.Failed) != 1 || a.Failed[0].Code != "COLLECT_TIMEOUT" || len(a.Pending) != 0 {
		t.Errorf("%+v, %v", a, err)
	}
	// The end of all waits is told as well.
	until := make(chan struct{})
	o.slowly("w2:p1", func() { close(until) })
	a, err = o.Collect(t.Context(), o.by, receipts[1:], Wait{Timeout: 20 * time.Second, Lines: 10, Until: until})
	if err != nil || len(a.Completed) != 0 || len(a.Failed) != 1 || a.Failed[0].Code != "CANCELLED" || a.Failed[0].Receipt != receipts[1] || len(a.Pending) != 0 {
		t.Errorf("%+v, %v", a, err)
	}
}
