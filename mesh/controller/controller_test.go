//go:build unix

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/herdrcli"
	"herdr-link/mesh/attest"
	"herdr-link/mesh/crash"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/store"
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

// A field is a simulated Herdr and a state root, and a clock.
type field struct {
	t     *testing.T
	dir   string
	scene *fakeherdr.Scene
	later time.Duration // how far the clock is ahead
}

func newField(t *testing.T) *field {
	t.Helper()
	f := &field{t: t, dir: t.TempDir()}
	f.scene = newScene(t, f.dir)
	f.update(func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Status = fakeherdr.Working })
	return f
}

func newScene(t *testing.T, dir string) *fakeherdr.Scene {
	t.Helper()
	scene, err := fakeherdr.Create(filepath.Join(dir, "scene"), twin.Path(t))
	must(t, err)
	return scene
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *field) update(change func(*fakeherdr.World)) {
	f.t.Helper()
	must(f.t, f.scene.Update(func(w *fakeherdr.World) error { change(w); return nil }))
}

// in returns the operations of a server in that pane.
func (f *field) in(pane string, vars ...string) *Controllers {
	return controllers(f.dir, append(f.scene.Env(pane), vars...), nil, func() time.Time { return time.Now().Add(f.later) })
}

func controllers(dir string, vars []string, d *disk.Disk, now func() time.Time) *Controllers {
	env := map[string]string{}
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	return New(Options{
		Getenv: func(name string) string { return env[name] },
		Herdr:  herdrcli.New(herdrcli.Options{Bin: env["HERDR_BIN_PATH"], Environ: append(os.Environ(), vars...)}),
		Store:  store.New(store.Options{Root: filepath.Join(dir, "state"), Disk: d, Now: now}),
	})
}

func (f *field) file(id string) string {
	return filepath.Join(f.dir, "state", "controller-leases", id+".json")
}

// record returns what is on disk.
func (f *field) record(id string) *store.Controller {
	f.t.Helper()
	r := new(store.Controller)
	must(f.t, store.New(store.Options{Root: filepath.Join(f.dir, "state")}).Load(id, r))
	return r
}

// edit changes a record behind everybody's back.
func (f *field) edit(id string, change func(map[string]any)) {
	f.t.Helper()
	data, err := os.ReadFile(f.file(id))
	must(f.t, err)
	var m map[string]any
	must(f.t, json.Unmarshal(data, &m))
	change(m)
	data, err = json.MarshalIndent(m, "", "  ")
	must(f.t, err)
	must(f.t, os.WriteFile(f.file(id), data, 0o600))
}

var sum = strings.Repeat("ab", 32)

func request(id string) Request { return Request{id, "T-1", sum, 900 * time.Second} }

func credential(r *store.Controller) Credential {
	return Credential{r.ControllerID, r.LeaseID, r.FenceToken}
}

func (f *field) acquire(pane, id string) *store.Controller {
	f.t.Helper()
	r, err := f.in(pane).Acquire(f.t.Context(), request(id))
	must(f.t, err)
	return r
}

func (f *field) want(what string, err error, code string) *fault.Fault {
	f.t.Helper()
	if fault.Code(err) != code || (err == nil) != (code == "") {
		f.t.Errorf("%s: %v, not %s", what, err, code)
	}
	var got *fault.Fault
	errors.As(err, &got)
	return got
}

// authorised is what a call with this credential would come to.
func (f *field) authorised(pane string, cred Credential) error {
	f.t.Helper()
	c := f.in(pane)
	at, err := c.Terminal(f.t.Context())
	must(f.t, err)
	return f.authorise(c, cred, at)
}

func (f *field) authorise(c *Controllers, cred Credential, at Terminal) error {
	f.t.Helper()
	x, err := c.store.Begin(f.t.Context())
	must(f.t, err)
	defer x.End()
	_, err = c.By(cred)(x, at)
	return err
}

// Scenario 1.
func TestAcquire(t *testing.T) {
	t.Parallel()
	f := newField(t)
	f.update(func(w *fakeherdr.World) { w.Pane("w1:p1").Shell = os.Getppid() })
	r := f.acquire("w1:p1", "lead")
	lead, err := f.scene.World()
	must(t, err)
	pane := lead.Pane("w1:p1")
	if !disk.IsID(r.FenceToken) || !disk.IsID(r.LeaseID) || r.Generation != 1 || r.State != "active" || r.TerminalID != pane.Terminal || r.PaneID != "w1:p1" ||
		r.AgentName != "lead" || r.AgentKind != "claude" || r.Cwd != disk.Resolved(pane.Cwd) || r.AuthorityRef != "T-1" || r.PredecessorLeaseID != "" ||
		!strings.HasSuffix(r.HerdrSocket, "herdr.sock") || r.FenceSHA256 != digest(r.FenceToken) {
		t.Errorf("%+v", r)
	}
	if p := r.ControllerProcess; p == nil || p.PID != os.Getppid() || p.BootID != attest.Boot() {
		t.Errorf("process %+v", r.ControllerProcess)
	}
	from, err1 := store.Time(r.AcquiredAt)
	to, err2 := store.Time(r.ExpiresAt)
	if err1 != nil || err2 != nil || to.Sub(from) != 900*time.Second || r.RenewedAt != r.AcquiredAt {
		t.Errorf("from %s to %s", r.AcquiredAt, r.ExpiresAt)
	}
	info, err := os.Stat(f.file("lead"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	crash.NoFence(t, f.dir, r.FenceToken)
	must(t, f.authorised("w1:p1", credential(r)))

	// Scenario 2.
	_, err = f.in("w1:p1").Acquire(t.Context(), request("lead"))
	f.want("again", err, "CONTROLLER_EXISTS")
	f.later = time.Hour
	_, err = f.in("w2:p1").Acquire(t.Context(), request("lead"))
	f.want("though it has expired", err, "CONTROLLER_EXISTS")
	f.acquire("w2:p1", "other")
	f.edit("other", func(m map[string]any) { m["controllerId"] = "Lead" })
	must(t, os.Rename(f.file("other"), f.file("other2")))
	_, err = f.in("w1:p1").Acquire(t.Context(), request("other2")) // the file of another id, as where letters have no size
	f.want("collision", err, "CONTROLLER_ID_COLLISION")
}

func TestCaller(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pane   string
		change func(*fakeherdr.World)
		vars   []string
		code   string
	}{
		"done":         {"w1:p1", func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Status = fakeherdr.Done }, nil, ""},
		"idle":         {"w1:p1", func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Status = fakeherdr.Idle }, nil, ""},
		"blocked":      {"w1:p1", func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Status = fakeherdr.Blocked }, nil, "CALLER_NOT_ACTIVE"},
		"unknown":      {"w1:p1", func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Status = fakeherdr.Unknown }, nil, "CALLER_NOT_ACTIVE"},
		"no name":      {"w1:p3", nil, nil, "CALLER_NOT_NAMED"},
		"no agent":     {"w1:p4", nil, nil, "CALLER_NOT_NAMED"},
		"no folder":    {"w1:p1", func(w *fakeherdr.World) { w.Pane("w1:p1").Cwd = "" }, nil, "CALLER_NOT_NAMED"},
		"no such pane": {"w9:p9", nil, nil, "CALLER_NOT_MANAGED"},
		"outside":      {"w1:p1", nil, []string{"HERDR_ENV="}, "CALLER_NOT_MANAGED"},
		"no pane":      {"w1:p1", nil, []string{"HERDR_PANE_ID="}, "CALLER_NOT_MANAGED"},
		"an option":    {"w1:p1", nil, []string{"HERDR_PANE_ID=--session"}, "CALLER_NOT_MANAGED"},
		"not its pane": {"w1:p1", func(w *fakeherdr.World) { w.Pane("w1:p1").Shell = 1 << 29 }, nil, "CALLER_PANE_UNPROVEN"},
		"that is fine": {"w1:p1", func(w *fakeherdr.World) { w.Pane("w1:p1").Shell = 1 << 29 }, []string{"HERDR_LINK_MESH_UNPROVEN_CALLER=1"}, ""},
		"no Herdr":     {"w1:p1", nil, []string{"HERDR_BIN_PATH=/nowhere/herdr"}, "HERDR_NOT_FOUND"},
		"no server":    {"w1:p1", func(w *fakeherdr.World) { w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Down}} }, nil, "HERDR_SERVER_DOWN"},
		"nonsense": {"w1:p1", func(w *fakeherdr.World) {
			w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Shape, Match: []string{"agent", "list"}}}
		}, nil, "HERDR_BAD_OUTPUT"},
		"an odd name":   {"w1:p1", func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Name = "le\x1b[2Jad" }, nil, "HERDR_BAD_OUTPUT"},
		"a long folder": {"w1:p1", func(w *fakeherdr.World) { w.Pane("w1:p1").Cwd = "/" + strings.Repeat("a", 5000) }, nil, "HERDR_BAD_OUTPUT"},
		"an odd pane": {"w1:p1", func(w *fakeherdr.World) {
			w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Shape, Match: []string{"pane", "get"},
				Text: `{"result":{"type":"pane_info","pane":{"pane_id":"w1:p1\u001b[2J","terminal_id":"` + w.Pane("w1:p1").Terminal + `"}}}`}}
		}, nil, "HERDR_BAD_OUTPUT"},
		"other nonsense": {"w1:p1", func(w *fakeherdr.World) {
			w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Garbage, Match: []string{"status"}}}
		}, nil, "HERDR_BAD_OUTPUT"},
	} {
		f := newField(t)
		if tc.change != nil {
			f.update(tc.change)
		}
		_, err := f.in(tc.pane, tc.vars...).Acquire(t.Context(), request("lead"))
		f.want(name, err, tc.code)
		if _, e := os.Stat(f.file("lead")); (e == nil) != (tc.code == "") {
			t.Errorf("%s: there is a record: %t", name, e == nil)
		}
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	f := newField(t)
	r := f.acquire("w1:p1", "lead")
	c := f.in("w1:p1")
	for name, change := range map[string]func(*Request){
		"controller_id":    func(q *Request) { q.ControllerID = "a/b" },
		"authority_ref":    func(q *Request) { q.AuthorityRef = "" },
		"checkpoint_ref":   func(q *Request) { q.AuthorityRef = "T-1\u009b2J" },
		"authority_sha256": func(q *Request) { q.AuthoritySHA256 = sum[1:] + "g" },
		"ttl_seconds":      func(q *Request) { q.TTL = 59 * time.Second },
	} {
		q := request("lead")
		change(&q)
		for _, do := range []func() error{
			func() error { _, err := c.Acquire(t.Context(), q); return err },
			func() error { _, err := c.Resume(t.Context(), q); return err },
			func() error { _, err := c.Takeover(t.Context(), q, r.LeaseID, false); return err },
		} {
			if got := f.want(name, do(), "INVALID_ARGUMENT"); got != nil && !strings.Contains(got.Message, name) {
				t.Errorf("%s: %v", name, got)
			}
		}
	}
	_, err := c.Renew(t.Context(), credential(r), 1801*time.Second)
	f.want("renew", err, "INVALID_ARGUMENT")
	_, err = c.Release(t.Context(), credential(r), "", sum)
	f.want("release", err, "INVALID_ARGUMENT")
}

// Scenario 3: a resume ends the token before.
func TestResume(t *testing.T) {
	t.Parallel()
	f := newField(t)
	_, err := f.in("w1:p1").Resume(t.Context(), request("lead"))
	f.want("nothing to resume", err, "CONTROLLER_NOT_FOUND")
	one := f.acquire("w1:p1", "lead")
	f.later = time.Hour // an expired lease can be resumed
	f.want("expired", f.authorised("w1:p1", credential(one)), "CONTROLLER_EXPIRED")
	two, err := f.in("w1:p1").Resume(t.Context(), request("lead"))
	must(t, err)
	if two.Generation != 2 || two.PredecessorLeaseID != one.LeaseID || two.LeaseID == one.LeaseID || two.FenceToken == one.FenceToken {
		t.Errorf("%+v", two)
	}
	must(t, f.authorised("w1:p1", credential(two)))
	f.want("the old token", f.authorised("w1:p1", credential(one)), "FENCE_MISMATCH")
	mixed := Credential{"lead", two.LeaseID, one.FenceToken}
	f.want("the new lease with the old token", f.authorised("w1:p1", mixed), "FENCE_MISMATCH")
	mixed = Credential{"lead", one.LeaseID, two.FenceToken}
	f.want("the old lease with the new token", f.authorised("w1:p1", mixed), "FENCE_MISMATCH")
	mixed = Credential{"lead", two.LeaseID, ""}
	f.want("no token", f.authorised("w1:p1", mixed), "FENCE_MISMATCH")
	mixed = Credential{"lead", strings.ToUpper(two.LeaseID), strings.ToUpper(two.FenceToken)}
	must(t, f.authorised("w1:p1", mixed))
	f.want("another id", f.authorised("w1:p1", Credential{"none", two.LeaseID, two.FenceToken}), "CONTROLLER_NOT_FOUND")
	f.want("another pane", f.authorised("w2:p1", credential(two)), "CONTROLLER_OTHER_PANE")

	for name, change := range map[string]func(*fakeherdr.Pane){
		"name": func(p *fakeherdr.Pane) { p.Agent.Name = "boss" },
		"kind": func(p *fakeherdr.Pane) { p.Agent.Kind = "codex" },
		"cwd":  func(p *fakeherdr.Pane) { p.Cwd = "/elsewhere" },
	} {
		var before fakeherdr.Pane
		var agent fakeherdr.Agent
		f.update(func(w *fakeherdr.World) {
			p := w.Pane("w1:p1")
			before, agent = *p, *p.Agent
			change(p)
		})
		_, err := f.in("w1:p1").Resume(t.Context(), request("lead"))
		f.want(name, err, "CONTROLLER_IDENTITY_CHANGED")
		_, err = f.in("w1:p1").Renew(t.Context(), credential(two), 900*time.Second)
		f.want("renew with another "+name, err, "CONTROLLER_IDENTITY_CHANGED")
		_, err = f.in("w1:p1").Release(t.Context(), credential(two), "C-1", sum)
		f.want("release with another "+name, err, "CONTROLLER_IDENTITY_CHANGED")
		f.update(func(w *fakeherdr.World) { *w.Pane("w1:p1") = before; *w.Pane("w1:p1").Agent = agent })
	}
	_, err = f.in("w2:p1").Resume(t.Context(), request("lead"))
	f.want("from another pane", err, "CONTROLLER_IDENTITY_CHANGED")
	f.edit("lead", func(m map[string]any) { m["herdrSocket"] = "/other.sock" })
	_, err = f.in("w1:p1").Resume(t.Context(), request("lead"))
	f.want("of another session", err, "CONTROLLER_OTHER_SESSION")
	f.want("of another session", f.authorised("w1:p1", credential(two)), "CONTROLLER_OTHER_SESSION")
	crash.NoFence(t, f.dir, one.FenceToken, two.FenceToken)
}

func TestRenewAndRelease(t *testing.T) {
	t.Parallel()
	f := newField(t)
	one := f.acquire("w1:p1", "lead")
	f.later = 600 * time.Second
	r, err := f.in("w1:p1").Renew(t.Context(), credential(one), 300*time.Second)
	must(t, err)
	from, err := store.Time(r.RenewedAt)
	must(t, err)
	to, err := store.Time(r.ExpiresAt)
	must(t, err)
	if r.FenceToken != "" || r.LeaseID != one.LeaseID || r.Generation != 1 || r.FenceSHA256 != one.FenceSHA256 || to.Sub(from) != 300*time.Second ||
		r.AcquiredAt != one.AcquiredAt || r.RenewedAt <= one.RenewedAt {
		t.Errorf("%+v", r)
	}
	must(t, f.authorised("w1:p1", credential(one)))
	f.later += 301 * time.Second
	_, err = f.in("w1:p1").Renew(t.Context(), credential(one), 300*time.Second)
	if got := f.want("too late", err, "CONTROLLER_EXPIRED"); got != nil && got.Details["expiresAt"] != r.ExpiresAt {
		t.Errorf("%v", got.Details)
	}
	f.later = 600*time.Second - skew + 5*time.Second // the clock was set back a little
	must(t, f.authorised("w1:p1", credential(one)))
	f.later = 600*time.Second - skew - 5*time.Second
	f.want("the clock was set back", f.authorised("w1:p1", credential(one)), "CONTROLLER_EXPIRED")
	f.later = 610 * time.Second

	bad := credential(one)
	bad.Fence = disk.NewID()
	_, err = f.in("w1:p1").Release(t.Context(), bad, "C-1", sum)
	f.want("another token", err, "FENCE_MISMATCH")
	r, err = f.in("w1:p1").Release(t.Context(), credential(one), "C-1", strings.Repeat("cd", 32))
	must(t, err)
	if r.State != "released" || r.ReleasedAt == "" || r.ExpiresAt != r.ReleasedAt || r.AuthorityRef != "C-1" || r.AuthoritySHA256 != strings.Repeat("cd", 32) || r.FenceToken != "" {
		t.Errorf("%+v", r)
	}
	_, err = f.in("w1:p1").Release(t.Context(), credential(one), "C-1", sum)
	f.want("twice", err, "CONTROLLER_RELEASED")
	_, err = f.in("w1:p1").Resume(t.Context(), request("lead"))
	f.want("resume", err, "CONTROLLER_RELEASED")
	_, err = f.in("w2:p1").Takeover(t.Context(), request("lead"), one.LeaseID, true)
	f.want("takeover", err, "CONTROLLER_RELEASED")
	if next := f.acquire("w2:p1", "lead"); next.Generation != 2 || next.AgentName != "builder" {
		t.Errorf("%+v", next)
	}
	crash.NoFence(t, f.dir, one.FenceToken)
}

// Scenario 4.
func TestTakeover(t *testing.T) {
	t.Parallel()
	if attest.Start(os.Getpid()) == "" {
		t.Skip("only ps knows starts here")
	}
	f := newField(t)
	cmd := exec.Command("/bin/cat") // the agent of the predecessor
	stdin, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	agent := attest.Process{PID: cmd.Process.Pid, BootID: attest.Boot(), StartTicks: attest.Start(cmd.Process.Pid)}
	one := f.acquire("w1:p1", "lead")
	f.edit("lead", func(m map[string]any) { m["controllerProcess"] = agent })
	status := func(s string) { f.update(func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Status = s }) }
	try := func(what, code string) {
		t.Helper()
		before, err := os.ReadFile(f.file("lead"))
		must(t, err)
		r, err := f.in("w2:p1").Takeover(t.Context(), request("lead"), one.LeaseID, false)
		f.want(what, err, code)
		after, err := os.ReadFile(f.file("lead"))
		must(t, err)
		if code != "" {
			if string(before) != string(after) {
				t.Errorf("%s: the record was changed", what)
			}
			return
		}
		if r == nil || r.Generation != 2 || r.AgentName != "builder" || r.PredecessorLeaseID != one.LeaseID {
			t.Errorf("%s: %+v", what, r)
		}
		must(t, f.authorised("w2:p1", credential(r)))
		f.want("the old one", f.authorised("w1:p1", credential(one)), "FENCE_MISMATCH")
		must(t, os.WriteFile(f.file("lead"), before, 0o600)) // for the next try
	}
	_, err = f.in("w2:p1").Takeover(t.Context(), request("none"), one.LeaseID, false)
	f.want("of nobody", err, "CONTROLLER_NOT_FOUND")
	_, err = f.in("w2:p1").Takeover(t.Context(), request("lead"), disk.NewID(), false)
	f.want("of another lease", err, "TAKEOVER_PREDECESSOR_MISMATCH")
	try("too early", "TAKEOVER_NOT_EXPIRED")
	f.later = time.Hour
	try("working", "TAKEOVER_PREDECESSOR_LIVE")
	status(fakeherdr.Idle)
	try("idle, its process there", "TAKEOVER_PREDECESSOR_LIVE")
	status(fakeherdr.Done)
	try("done, its process there", "TAKEOVER_PREDECESSOR_LIVE")
	status(fakeherdr.Blocked)
	try("blocked", "")
	status(fakeherdr.Unknown)
	try("unknown", "")
	status(fakeherdr.Idle)
	must(t, stdin.Close())
	must(t, cmd.Wait())
	try("idle, its process gone", "")
	status(fakeherdr.Working)
	try("working, its process gone", "TAKEOVER_PREDECESSOR_LIVE")
	status(fakeherdr.Idle)
	f.edit("lead", func(m map[string]any) { delete(m, "controllerProcess") })
	try("idle, no process known", "TAKEOVER_PREDECESSOR_LIVE")
	f.update(func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Name = "boss" })
	try("another one in its terminal", "")
	f.update(func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Name = "lead" })
	try("it is back", "TAKEOVER_PREDECESSOR_LIVE")
	f.update(func(w *fakeherdr.World) { w.Pane("w1:p1").Agent = nil })
	try("absent", "")
	f.update(func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.ErrorCode, Code: "weather", Match: []string{"agent", "list"}}}
	})
	try("nobody knows", "HERDR_ERROR")
	crash.NoFence(t, f.dir, one.FenceToken)
}

// Scenario 54: a move of the pane to another workspace changes nothing.
func TestMoved(t *testing.T) {
	t.Parallel()
	f := newField(t)
	one := f.acquire("w1:p1", "lead")
	var now string
	f.update(func(w *fakeherdr.World) { now = w.Move("w1:p1", "w2").ID })
	if now == "w1:p1" {
		t.Fatal("it was not moved")
	}
	_, err := f.in("w1:p1").Renew(t.Context(), credential(one), 60*time.Second)
	must(t, err)
	f.later = time.Hour
	_, err = f.in("w2:p1").Takeover(t.Context(), request("lead"), one.LeaseID, false)
	f.want("takeover", err, "TAKEOVER_PREDECESSOR_LIVE")
	two, err := f.in("w1:p1").Resume(t.Context(), request("lead"))
	must(t, err)
	if two.PaneID != now || two.TerminalID != one.TerminalID {
		t.Errorf("%+v", two)
	}
	_, err = f.in("w1:p1").Release(t.Context(), credential(two), "C-1", sum)
	must(t, err)
}

// After a restart of the server its terminals are others.
func TestRestart(t *testing.T) {
	t.Parallel()
	f := newField(t)
	one := f.acquire("w1:p1", "lead")
	f.update(func(w *fakeherdr.World) { w.Pane("w1:p1").Terminal = "term_00000000000001" })
	f.want("authority", f.authorised("w1:p1", credential(one)), "CONTROLLER_OTHER_PANE")
	_, err := f.in("w1:p1").Resume(t.Context(), request("lead"))
	f.want("resume", err, "CONTROLLER_IDENTITY_CHANGED")
	_, err = f.in("w1:p1").Takeover(t.Context(), request("lead"), one.LeaseID, false)
	f.want("takeover", err, "TAKEOVER_NOT_EXPIRED")
	f.later = time.Hour
	_, err = f.in("w1:p1").Takeover(t.Context(), request("lead"), one.LeaseID, false)
	must(t, err)
}

// A record of the older bridge: its token counts until it is resumed, once.
func TestOlder(t *testing.T) {
	t.Parallel()
	f := newField(t)
	one := f.acquire("w1:p1", "lead")
	f.edit("lead", func(m map[string]any) {
		m["version"], m["fenceToken"] = 1, one.FenceToken
		for _, name := range []string{"fenceSha256", "terminalId", "herdrSocket", "controllerProcess"} {
			delete(m, name)
		}
	})
	f.want("the right token", f.authorised("w1:p1", credential(one)), "CONTROLLER_OTHER_PANE")
	bad := credential(one)
	bad.Fence = disk.NewID()
	f.want("a wrong token", f.authorised("w1:p1", bad), "FENCE_MISMATCH")
	list, invalid, err := f.in("w1:p1").List()
	must(t, err)
	if text, err := json.Marshal(list); err != nil || len(list) != 1 || len(invalid) > 0 || strings.Contains(string(text), one.FenceToken) || strings.Contains(string(text), "fence") {
		t.Errorf("%s, %v", text, err)
	}
	_, err = f.in("w2:p1").Resume(t.Context(), request("lead"))
	f.want("from another pane", err, "CONTROLLER_IDENTITY_CHANGED")
	f.later = time.Hour
	_, err = f.in("w2:p1").Takeover(t.Context(), request("lead"), one.LeaseID, false)
	f.want("takeover", err, "TAKEOVER_PREDECESSOR_LIVE")
	f.edit("lead", func(m map[string]any) { m["paneId"] = "w1:p9" })
	_, err = f.in("w1:p1").Resume(t.Context(), request("lead"))
	f.want("of another pane", err, "CONTROLLER_IDENTITY_CHANGED")
	saved, err := os.ReadFile(f.file("lead"))
	must(t, err)
	_, err = f.in("w2:p1").Takeover(t.Context(), request("lead"), one.LeaseID, false)
	f.want("takeover from a pane that is gone", err, "")
	must(t, os.WriteFile(f.file("lead"), saved, 0o600))
	f.edit("lead", func(m map[string]any) { m["paneId"] = "w1:p1" })
	two, err := f.in("w1:p1").Resume(t.Context(), request("lead"))
	must(t, err)
	must(t, f.authorised("w1:p1", credential(two)))
	saved, err = os.ReadFile(f.file("lead"))
	must(t, err)
	f.edit("lead", func(m map[string]any) { delete(m, "herdrSocket") })
	f.want("no session recorded", f.authorised("w1:p1", credential(two)), "CONTROLLER_OTHER_PANE")
	must(t, os.WriteFile(f.file("lead"), saved, 0o600))
	if r := f.record("lead"); r.Version != 2 || r.FenceToken != "" || r.TerminalID == "" || r.HerdrSocket == "" || r.Generation != 2 {
		t.Errorf("%+v", r)
	}
	crash.NoFence(t, f.dir, one.FenceToken, two.FenceToken)
}

// Scenario 55, at the socket of another session.
func TestDeadSession(t *testing.T) {
	t.Parallel()
	f := newField(t)
	one := f.acquire("w1:p1", "lead")
	socket := filepath.Join(f.dir, "other.sock")
	f.edit("lead", func(m map[string]any) { m["herdrSocket"] = socket })
	f.later = time.Hour
	c := f.in("w2:p1")
	c.herdr = herdrcli.New(herdrcli.Options{Bin: twoSessions(t, f.dir, f.scene.Bin(), socket), Environ: append(os.Environ(), f.scene.Env("w2:p1")...)})
	up := func(running bool) {
		must(t, errors.Join(os.RemoveAll(socket)))
		if running {
			must(t, os.WriteFile(socket, nil, 0o600))
		}
	}
	try := func(what string, confirm bool, code string) *fault.Fault {
		t.Helper()
		before, err := os.ReadFile(f.file("lead"))
		must(t, err)
		_, err = c.Takeover(t.Context(), request("lead"), one.LeaseID, confirm)
		must(t, os.WriteFile(f.file("lead"), before, 0o600))
		return f.want(what, err, code)
	}
	wait := func(what string, from, to int64) {
		t.Helper()
		got := try(what, false, "CONTROLLER_OTHER_SESSION")
		if ms, _ := got.Details["retryAfterMs"].(int64); ms < from || ms > to {
			t.Errorf("%s: %v", what, got.Details)
		}
	}
	up(true)
	for _, confirm := range []bool{false, true} {
		if got := try("alive", confirm, "CONTROLLER_OTHER_SESSION"); got.Details["retryAfterMs"] != nil {
			t.Errorf("%v", got.Details)
		}
	}
	up(false)
	wait("first look", 59000, 60000)
	try("confirmed", true, "")
	f.later += 50 * time.Second
	wait("too soon", 1, 10000)
	up(true)
	try("alive again", false, "CONTROLLER_OTHER_SESSION")
	up(false)
	f.later += 20 * time.Second
	wait("anew", 59000, 60000)
	f.later += 6 * time.Minute
	wait("too long ago", 59000, 60000)
	f.later += 61 * time.Second
	try("dead", false, "")
}

// twoSessions makes a herdr that answers status for another socket, too: that
// server runs while there is such a file. All else is the scene's.
func twoSessions(t *testing.T, dir, scene, socket string) string {
	t.Helper()
	file := filepath.Join(dir, "herdr-of-two")
	writeProgram(t, file, fmt.Sprintf(`#!/bin/sh
if [ "$1" != status ] || [ "$HERDR_SOCKET_PATH" != '%s' ]; then exec '%s' "$@"; fi
running=false; [ -e '%s' ] && running=true
printf '{"client":{"version":"0.8.0","protocol":20},"server":{"running":%%s,"socket":"%s"}}\n' $running
`, socket, scene, socket, socket))
	return file
}

func TestList(t *testing.T) {
	t.Parallel()
	f := newField(t)
	if all, invalid, err := f.in("w1:p1").List(); err != nil || len(all) > 0 || len(invalid) > 0 {
		t.Errorf("%v, %v, %v", all, invalid, err)
	}
	one, two := f.acquire("w1:p1", "lead"), f.acquire("w2:p1", "other")
	f.later = time.Hour
	f.edit("lead", func(m map[string]any) {})
	must(t, os.WriteFile(f.file("broken"), []byte("{"), 0o600))
	must(t, os.Chmod(f.file("other"), 0o640))
	all, invalid, err := f.in("w1:p4").List()
	if err != nil || len(all) != 1 || all[0].ControllerID != "lead" || !all[0].Expired || len(invalid) != 2 {
		t.Errorf("%v, %v, %v", all, invalid, err)
	}
	text, err := json.Marshal(all)
	if err != nil || strings.Contains(string(text), "fence") || !strings.Contains(string(text), `"expired":true`) || !strings.Contains(string(text), one.LeaseID) {
		t.Errorf("%s, %v", text, err)
	}
	_, err = f.in("w1:p1").Resume(t.Context(), request("broken"))
	f.want("broken", err, "STATE_CORRUPT")
	_, err = f.in("w2:p1").Renew(t.Context(), credential(two), 900*time.Second)
	f.want("open", err, "STATE_INSECURE")
	_, err = f.in("w1:p1").Resume(t.Context(), request("lead")) // the others stand in nobody's way here
	must(t, err)
}

// Scenario 5: of two who resume at once, one has the valid token.
func TestResumeAtOnce(t *testing.T) {
	t.Parallel()
	f := newField(t)
	f.acquire("w1:p1", "lead")
	got := make([]*store.Controller, 4)
	var wait sync.WaitGroup
	for i := range got {
		c := f.in("w1:p1")
		wait.Go(func() {
			r, err := c.Resume(t.Context(), request("lead"))
			if err != nil {
				t.Error(err)
			}
			got[i] = r
		})
	}
	wait.Wait()
	generations, valid := map[int64]bool{}, 0
	for _, r := range got {
		generations[r.Generation] = true
		if f.authorised("w1:p1", credential(r)) == nil {
			valid++
		}
	}
	if valid != 1 || len(generations) != len(got) || f.record("lead").Generation != int64(len(got)+1) {
		t.Errorf("%d valid tokens, generations %v", valid, generations)
	}
}

// Scenario 56: a Herdr that hangs under the lock ends the section in time, and
// nothing was changed. (Here in less than its 20 s.)
func TestHangUnderLock(t *testing.T) {
	t.Parallel()
	f := newField(t)
	one := f.acquire("w1:p1", "lead")
	f.later = time.Hour
	c := f.in("w2:p1")
	ctx, cancel := context.WithCancel(t.Context())
	f.update(func(w *fakeherdr.World) {
		// The second list is the one under the lock.
		w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Slow, Match: []string{"agent", "list"}, Left: 1}, {Kind: fakeherdr.Hang, Match: []string{"agent", "list"}}}
	})
	done := make(chan error)
	go func() {
		_, err := c.Takeover(ctx, request("lead"), one.LeaseID, false)
		done <- err
	}()
	for c.store.Status().State != "active" {
		time.Sleep(time.Millisecond)
	}
	cancel()
	f.want("cancelled", <-done, "CANCELLED")
	if r := f.record("lead"); r.LeaseID != one.LeaseID {
		t.Errorf("%+v", r)
	}
	if s := c.store.Status(); s.State != "absent" {
		t.Errorf("the lock is %v", s)
	}
}

// A call that is cancelled right after it got the lock changes nothing.
func TestCancelled(t *testing.T) {
	t.Parallel()
	f := newField(t)
	var cancel context.CancelFunc
	d := &disk.Disk{Before: func(op, path string) error {
		if op == disk.OpRename && filepath.Base(path) == ".reservation-lock" {
			cancel()
		}
		return nil
	}}
	c := controllers(f.dir, f.scene.Env("w1:p1"), d, nil)
	try := func(what string, do func(context.Context) error) {
		t.Helper()
		var ctx context.Context
		ctx, cancel = context.WithCancel(t.Context())
		f.want(what, do(ctx), "CANCELLED")
	}
	try("acquire", func(ctx context.Context) error { _, err := c.Acquire(ctx, request("lead")); return err })
	if _, err := os.Stat(f.file("lead")); err == nil {
		t.Error("there is a record")
	}
	one := f.acquire("w1:p1", "lead")
	try("resume", func(ctx context.Context) error { _, err := c.Resume(ctx, request("lead")); return err })
	try("renew", func(ctx context.Context) error {
		_, err := c.Renew(ctx, credential(one), 1800*time.Second)
		return err
	})
	try("release", func(ctx context.Context) error { _, err := c.Release(ctx, credential(one), "C-1", sum); return err })
	if r := f.record("lead"); r.LeaseID != one.LeaseID || r.State != "active" || r.ExpiresAt != one.ExpiresAt {
		t.Errorf("%+v", r)
	}
}
