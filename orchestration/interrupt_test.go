package orchestration

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/herdrcli"
	"herdr-link/twin"
)

// A pane is one of a scene, with a worker "worker" in w1 and what it takes to
// interrupt it.
type pane struct {
	Interrupter
	t     *testing.T
	scene *fakeherdr.Scene
	home  string
	env   map[string]string
}

func newPane(t *testing.T) *pane {
	t.Helper()
	scene, err := fakeherdr.Create(filepath.Join(t.TempDir(), "scene"), twin.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	p := &pane{t: t, scene: scene, home: t.TempDir(), env: map[string]string{}}
	for _, v := range scene.Env("w1:p1") {
		name, value, _ := strings.Cut(v, "=")
		p.env[name] = value
	}
	p.Interrupter = Interrupter{
		Getenv: func(name string) string { return p.env[name] },
		Herdr:  herdrcli.New(herdrcli.Options{Bin: p.env["HERDR_BIN_PATH"], Environ: append(os.Environ(), scene.Env("w1:p1")...)}),
		Locks:  herdrcli.NewLocks(p.home),
	}
	p.change(func(w *fakeherdr.World) { w.AddPane("w1", "opencode", "worker").Agent.Status = fakeherdr.Working })
	return p
}

func (p *pane) change(f func(*fakeherdr.World)) {
	p.t.Helper()
	if err := p.scene.Update(func(w *fakeherdr.World) error { f(w); return nil }); err != nil {
		p.t.Fatal(err)
	}
}

// keys returns the send-keys calls so far, in their order.
func (p *pane) keys() (calls []fakeherdr.Call) {
	p.t.Helper()
	all, err := p.scene.Calls()
	if err != nil {
		p.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(c fakeherdr.Call) bool { return len(c.Args) < 2 || c.Args[1] != "send-keys" })
}

func worker(w *fakeherdr.World) *fakeherdr.Pane {
	for _, p := range w.Panes {
		if p.Agent != nil && p.Agent.Name == "worker" {
			return p
		}
	}
	panic("no worker")
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		target string // worker unless it says another
		scene  func(*fakeherdr.World)
		env    map[string]string
		want   error
	}{
		"a worker":               {},
		"by its pane":            {target: "w1:p5"},
		"from a shepherd":        {env: map[string]string{"SHEPHERD_MODE": "plan"}},
		"idle":                   {scene: func(w *fakeherdr.World) { worker(w).Agent.Status = fakeherdr.Idle }, want: errNotWorks},
		"done":                   {scene: func(w *fakeherdr.World) { worker(w).Agent.Status = fakeherdr.Done }, want: errNotWorks},
		"unknown":                {scene: func(w *fakeherdr.World) { worker(w).Agent.Status = fakeherdr.Unknown }, want: errNotWorks},
		"blocked":                {scene: func(w *fakeherdr.World) { worker(w).Agent.Status = fakeherdr.Blocked }, want: errBlocked},
		"a working claude":       {scene: func(w *fakeherdr.World) { worker(w).Agent.Kind = "claude" }, want: errKind},
		"another workspace":      {scene: func(w *fakeherdr.World) { w.Move(worker(w).ID, "w2") }, want: errNoAgent},
		"the pane before a move": {target: "w1:p5", scene: func(w *fakeherdr.World) { w.Move("w1:p5", "w2") }, want: errNoAgent},
		"nobody":                 {target: "nobody", want: errNoAgent},
		"a shell":                {target: "w1:p4", want: errNoAgent},
		"the own pane":           {target: "w1:p1", scene: ownWorks, want: errOwn},
		"the own pane by name":   {target: "lead", scene: ownWorks, want: errOwn},
		"the own pane was moved": {scene: func(w *fakeherdr.World) { w.Move("w1:p1", "w2"); w.Move(worker(w).ID, "w2") }},
		"moved, and by name":     {target: "lead", scene: func(w *fakeherdr.World) { ownWorks(w); w.Move("w1:p1", "w2") }, want: errOwn},
		"moved away from it":     {scene: func(w *fakeherdr.World) { w.Move("w1:p1", "w2") }, want: errNoAgent},
		"not seen by Herdr":      {scene: func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.DetectedAt = time.Now().Add(time.Hour) }, want: errNoSelf},
		"an upper-case name":     {target: "Worker", want: errTarget},
		"an option":              {target: "--session", want: errTarget},
		"a long pane":            {target: "w1:p12345678901234567", want: errTarget},
		"no pane of one's own":   {env: map[string]string{"HERDR_PANE_ID": ""}, want: errOutside},
		"no Herdr":               {env: map[string]string{"HERDR_BIN_PATH": ""}, want: errOutside},
		"switched off":           {env: map[string]string{"HERDR_LINK_OFF": "1"}, want: errOff},
		"from sheep-plan":        {env: map[string]string{"SHEPHERD_MODE": "sheep-plan"}, want: errLeaf},
		"from sheep-build":       {env: map[string]string{"SHEPHERD_MODE": "sheep-build"}, want: errLeaf},
		"from a reviewer":        {env: map[string]string{"SHEPHERD_MODE": "review"}, want: errLeaf},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPane(t)
			if test.scene != nil {
				p.change(test.scene)
			}
			for name, value := range test.env {
				p.env[name] = value
			}
			target := test.target
			if target == "" {
				target = "worker"
			}
			if err := p.Interrupt(t.Context(), target); !errors.Is(err, test.want) {
				t.Errorf("%v, not %v", err, test.want)
			}
			keys := p.keys()
			if test.want != nil && len(keys) > 0 {
				t.Errorf("keys were sent: %q", keys[0].Args)
			}
			if test.want == nil && (len(keys) != 1 || !slices.Equal(keys[0].Args, []string{"agent", "send-keys", target, "ctrl+c"})) {
				t.Errorf("%+v", keys)
			}
		})
	}
}

func ownWorks(w *fakeherdr.World) {
	w.Pane("w1:p1").Agent.Kind, w.Pane("w1:p1").Agent.Status = "opencode", fakeherdr.Working
}

// hold takes the lock of the worker, as one who sends to it does.
func (p *pane) hold() *herdrcli.Lock {
	p.t.Helper()
	w, err := p.scene.World()
	if err != nil {
		p.t.Fatal(err)
	}
	lock, err := p.Locks.Acquire(p.t.Context(), herdrcli.Agent{TerminalID: worker(w).Terminal}, p.env["HERDR_SOCKET_PATH"], time.Minute)
	if err != nil {
		p.t.Fatal(err)
	}
	return lock
}

// A key comes 350 ms behind a message at the earliest, and the next message as
// long behind the key.
func TestInterruptKeepsDistance(t *testing.T) {
	t.Parallel()
	p := newPane(t)
	lock := p.hold()
	if err := lock.Mark(); err != nil {
		t.Fatal(err)
	}
	sent := time.Now()
	lock.Release()
	if err := p.Interrupt(t.Context(), "worker"); err != nil {
		t.Fatal(err)
	}
	keys := p.keys()
	if len(keys) != 1 || keys[0].At.Sub(sent) < 340*time.Millisecond {
		t.Fatalf("%v after the message", keys[0].At.Sub(sent))
	}
	lock = p.hold()
	defer lock.Release()
	if slept, err := lock.Settle(t.Context()); err != nil || !slept && time.Since(keys[0].At) < 350*time.Millisecond {
		t.Errorf("the next one does not wait: %v", err)
	}
}

// What was true when it was asked may be no more when the terminal is free.
func TestInterruptLooksAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*fakeherdr.World)
		want   error
	}{
		"it is done":        {func(w *fakeherdr.World) { worker(w).Agent.Status = fakeherdr.Done }, errNotWorks},
		"it asks its human": {func(w *fakeherdr.World) { worker(w).Agent.Status = fakeherdr.Blocked }, errBlocked},
		"the name is another's": {func(w *fakeherdr.World) {
			worker(w).Agent.Name = "other"
			w.AddPane("w1", "opencode", "worker").Agent.Status = fakeherdr.Working
		}, errOther},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPane(t)
			lock := p.hold()
			ended := make(chan error, 1)
			go func() { ended <- p.Interrupt(t.Context(), "worker") }()
			p.awaitLooks(2)
			p.change(test.change)
			lock.Release()
			if err := <-ended; !errors.Is(err, test.want) || len(p.keys()) > 0 {
				t.Errorf("%v, %+v", err, p.keys())
			}
		})
	}
}

// awaitLooks waits until so many records have been read.
func (p *pane) awaitLooks(n int) {
	p.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		calls, err := p.scene.Calls()
		if err != nil || time.Now().After(end) {
			p.t.Fatal("it does not look", err)
		}
		if len(slices.DeleteFunc(calls, func(c fakeherdr.Call) bool { return !c.Done })) >= n {
			return
		}
	}
}

// Without a lock nothing is pressed, and nobody waits for ever.
func TestInterruptWithoutLock(t *testing.T) {
	t.Parallel()
	p := newPane(t)
	p.Locks = herdrcli.NewLocks("")
	if err := p.Interrupt(t.Context(), "worker"); !errors.Is(err, errLock) || len(p.keys()) > 0 {
		t.Errorf("%v, %+v", err, p.keys())
	}
	p = newPane(t)
	defer p.hold().Release()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Interrupt(ctx, "worker") }()
	p.awaitLooks(2)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || len(p.keys()) > 0 {
		t.Errorf("%v, %+v", err, p.keys())
	}
}

// Whoever keeps the terminal for too long is left alone.
func TestInterruptBusy(t *testing.T) {
	t.Parallel()
	p := newPane(t)
	p.patience = 50 * time.Millisecond
	defer p.hold().Release()
	if err := p.Interrupt(t.Context(), "worker"); !errors.Is(err, errBusyPane) || len(p.keys()) > 0 {
		t.Errorf("%v, %+v", err, p.keys())
	}
}

// Herdr's own troubles are told, and a key whose fate is unknown is.
func TestInterruptFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault fakeherdr.Fault
		want  error
	}{
		"the server is down": {fakeherdr.Fault{Kind: fakeherdr.Down}, herdrcli.ErrRefused},
		"the agent has left": {fakeherdr.Fault{Kind: fakeherdr.ErrorCode, Code: "agent_not_ready", Match: []string{"agent", "send-keys"}}, herdrcli.ErrRefused},
		"no answer":          {fakeherdr.Fault{Kind: fakeherdr.DieAfter, Match: []string{"agent", "send-keys"}}, errUncertain},
		"another's record": {fakeherdr.Fault{Kind: fakeherdr.Shape, Match: []string{"agent", "get", "worker"},
			Text: `{"id":"cli:agent:get","result":{"agent":{"agent":"opencode","agent_status":"working","name":"other","pane_id":"w1:p9","terminal_id":"t","workspace_id":"w1"},"type":"agent_info"}}` + "\n"}, errNoAgent},
		"no look at oneself": {fakeherdr.Fault{Kind: fakeherdr.Garbage, Match: []string{"agent", "get", "w1:p1"}}, herdrcli.ErrOutput},
	} {
		p := newPane(t)
		p.change(func(w *fakeherdr.World) { w.Faults = []fakeherdr.Fault{test.fault} })
		if err := p.Interrupt(t.Context(), "worker"); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
