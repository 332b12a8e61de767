//go:build unix

package lane

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/herdrcli"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/crash"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/git"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
	"herdr-link/twin"
)

func TestMain(m *testing.M) {
	if dir, ok := fakeherdr.Role(os.Args[0]); ok {
		os.Exit(fakeherdr.Main(dir, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
	}
	crash.Main(plays()...)
	if dir := os.Getenv(manyOf); dir != "" {
		os.Exit(work(dir))
	}
	flag.Parse()
	_ = flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))) // most tests wait for processes
	os.Exit(twin.Main(m))
}

var sum = strings.Repeat("ab", 32)

// A field is a simulated Herdr, a state root and a home.
type field struct {
	t     *testing.T
	dir   string // also the folder of the agents
	scene *fakeherdr.Scene

	pauses []time.Duration // of starts; none of them is waited for
	then   []after
}

// An after is what happens right behind a herdr, before anybody reads what it said.
type after struct {
	command string // such as "agent list"
	n       int    // the nth of them from now
	do      func()
}

// Handle is called for each herdr that has ended.
func (f *field) Handle(_ context.Context, r slog.Record) error {
	for i := range f.then {
		if a := &f.then[i]; r.Message == "herdr "+a.command {
			if a.n--; a.n == 0 {
				a.do()
			}
		}
	}
	return nil
}

func (f *field) Enabled(context.Context, slog.Level) bool { return true }
func (f *field) WithAttrs([]slog.Attr) slog.Handler       { return f }
func (f *field) WithGroup(string) slog.Handler            { return f }

// after lets something happen behind the nth herdr of that command from now.
func (f *field) after(command string, n int, do func()) {
	f.then = append(f.then, after{command, n, do})
}

func newField(t *testing.T) *field {
	t.Helper()
	f := &field{t: t, dir: disk.Resolved(t.TempDir())}
	var err error
	f.scene, err = fakeherdr.Create(filepath.Join(f.dir, "scene"), twin.Path(t))
	must(t, err)
	f.update(func(w *fakeherdr.World) {
		for _, p := range w.Panes {
			p.Cwd = f.dir
		}
	})
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *field) update(change func(*fakeherdr.World)) {
	f.t.Helper()
	must(f.t, f.scene.Update(func(w *fakeherdr.World) error { change(w); return nil }))
}

func (f *field) world() *fakeherdr.World {
	f.t.Helper()
	w, err := f.scene.World()
	must(f.t, err)
	return w
}

// fault makes calls go wrong whose argv begins with those words.
func (f *field) fault(of fakeherdr.Fault, words string) {
	f.t.Helper()
	of.Match = strings.Fields(words)
	f.update(func(w *fakeherdr.World) { w.Faults = append(w.Faults, of) })
}

func refusing(code string) fakeherdr.Fault {
	return fakeherdr.Fault{Kind: fakeherdr.ErrorCode, Code: code}
}

// calls returns the calls whose argv begins with those words, each in one line.
func (f *field) calls(words string) (found []string) {
	f.t.Helper()
	all, err := f.scene.Calls()
	must(f.t, err)
	for _, c := range all {
		if line := strings.Join(c.Args, " "); strings.HasPrefix(line, words) {
			found = append(found, line)
		}
	}
	return found
}

// A server is one process of ours in a pane.
type server struct {
	*Lanes
	controllers *controller.Controllers
}

func (f *field) in(pane string) server {
	s := serve(f.dir, f.scene.Env(pane), nil, nil, slog.New(f))
	s.pause = func(ctx context.Context, d time.Duration) error {
		f.pauses = append(f.pauses, d)
		return ctx.Err()
	}
	return s
}

func serve(dir string, vars []string, d *disk.Disk, now func() time.Time, log *slog.Logger) server {
	env := map[string]string{}
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	herdr := herdrcli.New(herdrcli.Options{Bin: env["HERDR_BIN_PATH"], Environ: append(os.Environ(), vars...), Log: log})
	records := store.New(store.Options{Root: filepath.Join(dir, "state"), Disk: d, Now: now})
	c := controller.New(controller.Options{Getenv: func(name string) string { return env[name] }, Herdr: herdr, Store: records})
	leases := lease.New(lease.Options{Herdr: herdr, Store: records, Locks: herdrcli.NewLocks(filepath.Join(dir, "home"))})
	return server{New(Options{Herdr: herdr, Store: records, Controllers: c, Leases: leases, Git: plainGit(dir)}), c}
}

// plainGit is the git on PATH, without a configuration of the user's.
func plainGit(home string) *git.Git {
	return git.New(func(name string) string { return map[string]string{"PATH": os.Getenv("PATH"), "HOME": home}[name] })
}

func (s server) acquire(t *testing.T, id string) controller.Authority {
	t.Helper()
	r, err := s.controllers.Acquire(t.Context(), controller.Request{ControllerID: id, AuthorityRef: "T-1", AuthoritySHA256: sum, TTL: 900 * time.Second})
	must(t, err)
	return s.controllers.By(controller.Credential{ControllerID: id, LeaseID: r.LeaseID, Fence: r.FenceToken})
}

// lead returns a server in w1:p1 whose controller has an authority.
func (f *field) lead() (server, controller.Authority) {
	f.t.Helper()
	s := f.in("w1:p1")
	return s, s.acquire(f.t, "lead")
}

func (f *field) reviewer() Reviewer {
	return Reviewer{Purpose: "review", ParentPaneID: "w1:p1", Cwd: f.dir, Name: "critic", Kind: "codex", Timeout: time.Minute}
}

// started is a lead with a reviewer.
func (f *field) started() (server, controller.Authority, *store.Reviewer) {
	f.t.Helper()
	s, by := f.lead()
	r, err := s.StartReviewer(f.t.Context(), by, f.reviewer())
	must(f.t, err)
	return s, by, r
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

// records returns all reviewers on disk.
func (f *field) records() []*store.Reviewer {
	f.t.Helper()
	l, err := store.List[store.Reviewer](store.New(store.Options{Root: filepath.Join(f.dir, "state")}), 0, nil)
	must(f.t, err)
	if len(l.Invalid) > 0 {
		f.t.Errorf("invalid: %v", l.Invalid)
	}
	return l.Records
}

// record returns the one reviewer that there is.
func (f *field) record() *store.Reviewer {
	f.t.Helper()
	all := f.records()
	if len(all) != 1 {
		f.t.Fatalf("%d records", len(all))
	}
	return all[0]
}

// edit changes a record in the store behind everybody's back.
func (f *field) edit(folder, id string, change func(map[string]any)) {
	f.t.Helper()
	file := filepath.Join(f.dir, "state", folder, id+".json")
	data, err := os.ReadFile(file)
	must(f.t, err)
	var m map[string]any
	must(f.t, json.Unmarshal(data, &m))
	change(m)
	data, err = json.MarshalIndent(m, "", "  ")
	must(f.t, err)
	must(f.t, os.WriteFile(file, data, 0o600))
}

func (f *field) state(id, state string) {
	f.t.Helper()
	f.edit("reviewer-leases", id, func(m map[string]any) { m["state"] = state })
}

// receipt writes one for a prompt to the lease.
func (f *field) receipt(s server, target *store.Lease, state string) *store.Receipt {
	f.t.Helper()
	x, err := s.store.Begin(f.t.Context())
	must(f.t, err)
	defer x.End()
	now := store.Stamp(time.Now())
	p := &store.Receipt{Version: 1, ReceiptID: disk.NewID(), ControllerID: "lead", ControllerLeaseID: disk.NewID(), Target: target.AgentName, TargetLeaseID: target.LeaseID,
		PaneID: "w1:p9", AgentKind: "codex", Cwd: f.dir, State: state, CreatedAt: now, UpdatedAt: now, BeforeSeq: 1, AfterSeq: 2}
	must(f.t, x.Create(p))
	return p
}

func (f *field) closed(pane string) bool { return f.world().Pane(pane) == nil }

func TestStart(t *testing.T) {
	t.Parallel()
	f := newField(t)
	s, by := f.lead()
	before := len(f.calls(""))
	link := filepath.Join(f.dir, "link")
	must(t, os.Symlink(f.dir, link))
	q := f.reviewer()
	q.Cwd, q.Kind, q.Model, q.Effort = link, "claude", "opus", "high"
	r, err := s.StartReviewer(t.Context(), by, q)
	must(t, err)
	label := "critic #" + r.LeaseID[:8]
	p := f.world().Pane("w1:p5")
	want := store.Reviewer{
		Version: 1,
		Lease: store.Lease{LeaseID: r.LeaseID, ControllerID: "lead", Purpose: "review", PaneID: "w1:p5", AgentName: "critic", AgentKind: "claude", State: store.Active,
			TerminalID: p.Terminal, HerdrSocket: filepath.Join(f.scene.Dir(), "herdr.sock")},
		Tab: store.Tab{ParentPaneID: "w1:p1", CreatedAt: r.CreatedAt, TabID: "w1:t2", WorkspaceID: "w1", TabLabel: label}, Cwd: f.dir,
	}
	if *r != want || *f.record() != want {
		t.Errorf("%+v\n%+v\nnot\n%+v", r, f.record(), want)
	}
	calls := slices.DeleteFunc(f.calls("")[before:], func(c string) bool { return c == "pane get w1:p1" })
	if got := strings.Join(calls, "\n"); got != "agent list\ntab create --workspace w1 --cwd "+f.dir+" --label "+label+" --no-focus\n"+
		"agent start critic --kind claude --pane w1:p5 --timeout 60000 -- --model opus --effort high\nagent list" {
		t.Errorf("herdr ran:\n%s", got)
	}
}

// What may become of a start: the code that its caller gets, and what is left.
// Scenarios 23, 24 and 52.
func TestStartEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		arrange func(*field)
		behind  string                                // a command, after which
		then    func(*field, server, *store.Reviewer) // this happens
		code    string
		state   string // of the record, or "" for none
		panes   int    // that are there beyond those before
		starts  int
		herdr   string // details.herdrCode
	}{
		"as it is": {nil, "", nil, "", store.Active, 1, 1, ""},
		"a blocked first screen": {nil, "agent start", func(f *field, _ server, _ *store.Reviewer) {
			f.update(func(w *fakeherdr.World) { w.Pane("w1:p5").Agent.Status = fakeherdr.Blocked })
		}, "", store.Active, 1, 1, ""},
		"a shell that is busy":    {func(f *field) { busy := refusing("agent_pane_busy"); busy.Left = 2; f.fault(busy, "agent start") }, "", nil, "", store.Active, 1, 3, ""},
		"a shell that stays busy": {func(f *field) { f.fault(refusing("agent_pane_busy"), "agent start") }, "", nil, "AGENT_PANE_BUSY", store.FailedClosed, 0, 27, "agent_pane_busy"},
		"a taken name":            {func(f *field) { f.update(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Name = "critic" }) }, "", nil, "AGENT_NAME_TAKEN", store.FailedClosed, 0, 1, "agent_name_taken"},
		"no such program": {func(f *field) {
			f.update(func(w *fakeherdr.World) { w.Haste, w.Executables = 20, map[string]string{"codex": ""} })
		}, "", nil, "AGENT_START_FAILED", store.FailedClosed, 0, 1, "timeout"},
		"another program": {func(f *field) {
			f.update(func(w *fakeherdr.World) { w.Executables = map[string]string{"codex": "pi"} })
		}, "", nil, "AGENT_START_FAILED", store.FailedClosed, 0, 1, "agent_kind_mismatch"},
		"a start that is killed": {func(f *field) { f.fault(fakeherdr.Fault{Kind: fakeherdr.DieAfter}, "agent start") }, "", nil, "HERDR_BAD_OUTPUT", store.FailedClosed, 0, 1, ""},
		"no parent": {func(f *field) {
			f.update(func(w *fakeherdr.World) { w.Move("w1:p2", "w2") })
			f.fault(refusing("pane_not_found"), "pane get w1:p2")
		}, "", nil, "PANE_NOT_FOUND", "", 0, 0, ""},
		"no workspace":       {func(f *field) { f.fault(refusing("workspace_not_found"), "tab create") }, "", nil, "WORKSPACE_NOT_FOUND", store.FailedClosed, 0, 0, "workspace_not_found"},
		"no server":          {func(f *field) { f.fault(fakeherdr.Fault{Kind: fakeherdr.Down}, "tab create") }, "", nil, "HERDR_SERVER_DOWN", store.FailedClosed, 0, 0, "server_not_running"},
		"another Herdr":      {func(f *field) { f.fault(fakeherdr.Fault{Kind: fakeherdr.Exit2}, "tab create") }, "", nil, "INTERNAL", store.FailedClosed, 0, 0, ""},
		"a tab that is lost": {func(f *field) { f.fault(fakeherdr.Fault{Kind: fakeherdr.DieAfter}, "tab create") }, "", nil, "HERDR_BAD_OUTPUT", store.Orphaned, 1, 0, ""},
		"a close that fails": {func(f *field) {
			f.fault(refusing("agent_name_taken"), "agent start")
			f.fault(refusing("internal"), "pane close")
		}, "", nil, "AGENT_NAME_TAKEN", store.Orphaned, 1, 1, "agent_name_taken"},
		"a pane that is gone": {func(f *field) { f.fault(refusing("agent_name_taken"), "agent start") }, "agent start",
			func(f *field, _ server, r *store.Reviewer) {
				must(f.t, f.in("w1:p1").herdr.PaneClose(f.t.Context(), "w1:p5"))
			}, "AGENT_NAME_TAKEN", store.FailedClosed, 0, 1, "agent_name_taken"},
		"its id is another's": {func(f *field) { f.fault(refusing("agent_name_taken"), "agent start") }, "agent start",
			func(f *field, _ server, r *store.Reviewer) {
				f.update(func(w *fakeherdr.World) { p := w.Pane("w1:p5"); p.Terminal, p.Tab = "term_other", "w1:t1" })
			}, "AGENT_NAME_TAKEN", store.FailedClosed, 1, 1, "agent_name_taken"},
		"another name": {nil, "agent start", func(f *field, _ server, _ *store.Reviewer) {
			f.update(func(w *fakeherdr.World) { w.Pane("w1:p5").Agent.Name = "x" })
		}, "LEASE_IDENTITY_CHANGED", store.FailedClosed, 0, 1, ""},
		"gone at once": {nil, "agent start", func(f *field, _ server, _ *store.Reviewer) {
			f.update(func(w *fakeherdr.World) { w.Pane("w1:p5").Agent = nil })
		}, "AGENT_START_FAILED", store.FailedClosed, 0, 1, ""},
		"moved meanwhile": {nil, "agent start", func(f *field, _ server, _ *store.Reviewer) {
			f.update(func(w *fakeherdr.World) { w.Move("w1:p5", "w2") })
		}, "", store.Active, 1, 1, ""},
		"ended before the tab was there": {nil, "tab create", func(f *field, s server, r *store.Reviewer) { f.end(s, r) }, "LEASE_WRONG_STATE", store.FailedClosed, 0, 0, ""},
		"bound by somebody else":         {nil, "tab create", func(f *field, _ server, r *store.Reviewer) { f.state(r.LeaseID, store.Orphaned) }, "LEASE_WRONG_STATE", store.Orphaned, 0, 0, ""},
		"bound later":                    {nil, "agent start", func(f *field, _ server, r *store.Reviewer) { f.state(r.LeaseID, store.Orphaned) }, "LEASE_WRONG_STATE", store.Orphaned, 0, 1, ""},
		"another generation": {nil, "agent start", func(f *field, s server, r *store.Reviewer) {
			_, err := s.controllers.Resume(f.t.Context(), controller.Request{ControllerID: "lead", AuthorityRef: "T-1", AuthoritySHA256: sum, TTL: 900 * time.Second})
			must(f.t, err)
		}, "FENCE_MISMATCH", store.FailedClosed, 0, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newField(t)
			s, by := f.lead()
			panes := len(f.world().Panes)
			if tc.arrange != nil {
				tc.arrange(f)
			}
			if tc.behind != "" {
				f.after(tc.behind, 1, func() { tc.then(f, s, f.record()) })
			}
			q := f.reviewer()
			if tc.state == "" {
				q.ParentPaneID = "w1:p2"
			}
			r, err := s.StartReviewer(t.Context(), by, q)
			got := f.want("start", err, tc.code)
			if n := len(f.world().Panes) - panes; n != tc.panes {
				t.Errorf("%d panes more, not %d", n, tc.panes)
			}
			if n := len(f.calls("agent start")); n != tc.starts {
				t.Errorf("%d starts, not %d", n, tc.starts)
			}
			if tc.state == "" {
				if n := len(f.records()); n != 0 {
					t.Errorf("%d records", n)
				}
				return
			}
			on := f.record()
			if on.State != tc.state || (on.ClosedAt != "") != (tc.state == store.FailedClosed && tc.code != "LEASE_WRONG_STATE") {
				t.Errorf("the record is %+v, not %s", on, tc.state)
			}
			if got == nil {
				if *on != *r || on.PaneID != f.world().Panes[len(f.world().Panes)-1].ID && name == "moved meanwhile" {
					t.Errorf("%+v is not %+v", r, on)
				}
				return
			}
			if got.Details["leaseId"] != on.LeaseID || tc.code != "LEASE_WRONG_STATE" && (got.Details["leaseState"] != tc.state || !strings.HasPrefix(on.Failure, tc.code+": ")) {
				t.Errorf("%+v, %q", got, on.Failure)
			}
			if herdr, _ := got.Details["herdrCode"].(string); herdr != tc.herdr {
				t.Errorf("of Herdr: %q", herdr)
			}
			_, err = s.StartReviewer(t.Context(), by, f.reviewer())
			if lease.Terminal(on) == (fault.Code(err) == "LEASE_NAME_RETAINED") {
				t.Errorf("the next start: %v", err)
			}
		})
	}
}

// end is what reconciling does with a start that has made no tab.
// A tab that Herdr says it has made, and that was there before, is somebody's.
func TestStartAnothersPane(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pane, terminal string // as Herdr tells them; "": as they are
		arrange        func(*field, server, controller.Authority)
	}{
		"an agent's":          {"", "", func(*field, server, controller.Authority) {}},
		"an agent's pane":     {"", "term_new", func(*field, server, controller.Authority) {}},
		"an agent's terminal": {"w1:p9", "", func(*field, server, controller.Authority) {}},
		"a lease's": {"", "", func(f *field, s server, by controller.Authority) {
			_, err := s.Adopt(f.t.Context(), by, f.adoption())
			must(f.t, err)
			f.update(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent = nil })
		}},
		"a controller's": {"", "", func(f *field, _ server, _ controller.Authority) {
			f.in("w1:p2").acquire(f.t, "other")
			f.update(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent = nil })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newField(t)
			s, by := f.lead()
			tc.arrange(f, s, by)
			p := f.world().Pane("w1:p2")
			told := func(v, or string) string {
				if v == "" {
					return or
				}
				return v
			}
			pane, terminal := told(tc.pane, p.ID), told(tc.terminal, p.Terminal)
			f.fault(fakeherdr.Fault{Kind: fakeherdr.Shape, Text: fmt.Sprintf(`{"id":"x","result":{"type":"tab_created",`+
				`"root_pane":{"pane_id":%q,"terminal_id":%q,"tab_id":%q,"workspace_id":"w1"},"tab":{"tab_id":%q,"workspace_id":"w1","label":"x"}}}`, pane, terminal, p.Tab, p.Tab)}, "tab create")
			_, err := s.StartReviewer(t.Context(), by, f.reviewer())
			got := f.want("start", err, "HERDR_BAD_OUTPUT")
			if n := len(f.calls("pane close")) + len(f.calls("agent start")); n > 0 || f.closed("w1:p2") {
				t.Errorf("%d commands that act on it", n)
			}
			r := f.record()
			if r.State != store.Orphaned || r.PaneID != "" || r.TerminalID != "" || r.TabID != "" || got != nil && got.Details["leaseState"] != store.Orphaned {
				t.Errorf("%+v, %v", r, got)
			}
		})
	}
}

func (f *field) end(s server, r *store.Reviewer) {
	f.t.Helper()
	x, err := s.store.Begin(f.t.Context())
	must(f.t, err)
	defer x.End()
	r.State = store.FailedClosed
	must(f.t, x.Replace(r))
}

func TestStartPauses(t *testing.T) {
	t.Parallel()
	f := newField(t)
	s, by := f.lead()
	f.fault(refusing("agent_pane_busy"), "agent start")
	_, err := s.StartReviewer(t.Context(), by, f.reviewer())
	f.want("busy", err, "AGENT_PANE_BUSY")
	var all time.Duration
	for i, d := range f.pauses {
		if want := min(100*time.Millisecond<<i, 400*time.Millisecond); i < 8 && d != want {
			t.Errorf("pause %d is %v", i, d)
		}
		all += d
	}
	if all > 10*time.Second || all < 9*time.Second {
		t.Errorf("%v in all", all)
	}
	begun := time.Now()
	must(t, pause(t.Context(), time.Millisecond))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	f.want("cancelled", pause(ctx, time.Hour), "CANCELLED")
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

// A call that is cancelled undoes what it has made.
func TestStartCancelled(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"tab create", "agent start"} {
		f := newField(t)
		s, by := f.lead()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		f.fault(fakeherdr.Fault{Kind: fakeherdr.HangAfter}, call)
		go func() {
			for len(f.calls(call)) == 0 || call == "agent start" && f.world().Pane("w1:p5").Agent == nil {
				time.Sleep(5 * time.Millisecond)
			}
			stop()
		}()
		_, err := s.StartReviewer(ctx, by, f.reviewer())
		f.want(call, err, "CANCELLED")
		if r := f.record(); call == "agent start" && (r.State != store.FailedClosed || !f.closed("w1:p5")) || call == "tab create" && r.State != store.Orphaned {
			t.Errorf("%s: %+v", call, r)
		}
	}
}

func TestStartArguments(t *testing.T) {
	t.Parallel()
	f := newField(t)
	s, by := f.lead()
	before := len(f.calls(""))
	file := filepath.Join(f.dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for what, change := range map[string]func(*Reviewer){
		"cwd, which is relative": func(q *Reviewer) { q.Cwd = "." },
		"cwd, which is missing":  func(q *Reviewer) { q.Cwd = filepath.Join(f.dir, "none") },
		"cwd, which is a file":   func(q *Reviewer) { q.Cwd = file },
		"model of codex":         func(q *Reviewer) { q.Model = "opus" },
		"effort of codex":        func(q *Reviewer) { q.Effort = "low" },
	} {
		q := f.reviewer()
		change(&q)
		_, err := s.StartReviewer(t.Context(), by, q)
		name, _, _ := strings.Cut(what, " ")
		if got := f.want(what, err, "INVALID_ARGUMENT"); got != nil && !strings.Contains(got.Message, "argument "+strings.TrimSuffix(name, ",")) {
			t.Errorf("%s: %v", what, got)
		}
	}
	if n := len(f.calls("")); n != before {
		t.Errorf("herdr ran: %q", f.calls("")[before:])
	}
	_, err := s.StartReviewer(t.Context(), func(x *store.Section, at controller.Terminal) (*store.Controller, error) {
		return nil, fault.New("FENCE_MISMATCH", "no")
	}, f.reviewer())
	f.want("no authority", err, "FENCE_MISMATCH")
	if len(f.records()) > 0 || len(f.calls("tab")) > 0 {
		t.Error("something was made without an authority")
	}
}

// I3: an authority that ends at any moment ends what is under way, before the next
// thing that acts.
func TestAuthorityEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		command string // behind the nth of which the authority is gone
		n       int
		run     func(*field, server, controller.Authority) error
		acts    []string // what has run nevertheless
	}{
		"before a lease is written": {"pane get", 2, startReviewer, nil},
		"before a pane is noted":    {"tab create", 1, startReviewer, []string{"tab create", "pane close"}},
		"before another try":        {"agent start", 1, startReviewer, []string{"tab create", "agent start", "pane close"}},
		"before it is active":       {"agent list", 2, startReviewer, []string{"tab create", "agent start", "agent start", "pane close"}},
		"before an adoption is": {"agent get", 1, func(f *field, s server, by controller.Authority) error {
			_, err := s.Adopt(f.t.Context(), by, f.adoption())
			return err
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newField(t)
			s, by := f.lead()
			f.fault(fakeherdr.Fault{Kind: fakeherdr.ErrorCode, Code: "agent_pane_busy", Left: 1}, "agent start")
			f.after(tc.command, tc.n, func() {
				f.edit("controller-leases", "lead", func(m map[string]any) { m["leaseId"] = "0f9d2c7e-3b1a-4c5d-8e6f-001122334455" })
			})
			f.want("it", tc.run(f, s, by), "FENCE_MISMATCH")
			calls := slices.DeleteFunc(f.calls(""), func(c string) bool {
				return !strings.HasPrefix(c, "tab create") && !strings.HasPrefix(c, "agent start") && !strings.HasPrefix(c, "pane close")
			})
			if !slices.EqualFunc(calls, tc.acts, strings.HasPrefix) {
				t.Errorf("herdr ran: %q", calls)
			}
			adopted, err := store.List[store.Adopted](s.store, 0, nil)
			must(t, err)
			if reviewers := f.records(); (len(reviewers) > 0) != (tc.acts != nil) || len(adopted.Records) > 0 || len(reviewers) > 0 && reviewers[0].State != store.FailedClosed {
				t.Errorf("%+v, %+v", reviewers, adopted.Records)
			}
		})
	}
}

func startReviewer(f *field, s server, by controller.Authority) error {
	_, err := s.StartReviewer(f.t.Context(), by, f.reviewer())
	return err
}
