//go:build unix

package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	os.Exit(twin.Main(m))
}

var digest, commit = strings.Repeat("ab", 32), strings.Repeat("cd", 20)

// A field is a simulated Herdr, a state root and a clock.
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

func (f *field) pane(id string) *fakeherdr.Pane {
	f.t.Helper()
	w, err := f.scene.World()
	must(f.t, err)
	return w.Pane(id)
}

// want fails if an error is of another code; "" is none.
func (f *field) want(what string, err error, code string) *fault.Fault {
	f.t.Helper()
	if fault.Code(err) != code || (err == nil) != (code == "") {
		f.t.Errorf("%s: %v, not %s", what, err, code)
	}
	var got *fault.Fault
	errors.As(err, &got)
	return got
}

func (f *field) root() string { return filepath.Join(f.dir, "state") }

// A server is one process's view of the field.
type server struct {
	*Ledger
	store       *store.Store
	controllers *controller.Controllers
}

// serve returns the operations of a process with these variables.
func serve(dir string, vars []string, d *disk.Disk, now func() time.Time) *server {
	env := map[string]string{}
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	herdr := herdrcli.New(herdrcli.Options{Bin: env["HERDR_BIN_PATH"], Environ: append(os.Environ(), vars...)})
	s := store.New(store.Options{Root: filepath.Join(dir, "state"), Disk: d, Now: now})
	getenv := func(name string) string { return env[name] }
	c := controller.New(controller.Options{Getenv: getenv, Herdr: herdr, Store: s})
	leases := lease.New(lease.Options{Herdr: herdr, Store: s})
	return &server{New(Options{Store: s, Controllers: c, Leases: leases, Git: git.New(os.Getenv)}), s, c}
}

// in returns the operations of a server in that pane.
func (f *field) in(pane string) *server {
	return serve(f.dir, f.scene.Env(pane), nil, func() time.Time { return time.Now().Add(f.later) })
}

// put writes records as the tools that make them would.
func (f *field) put(records ...store.Record) {
	f.t.Helper()
	x, err := f.in("w1:p1").store.Begin(f.t.Context())
	must(f.t, err)
	defer x.End()
	for _, r := range records {
		must(f.t, x.Create(r))
	}
}

// spoil makes a file that is no record.
func (f *field) spoil(path string) {
	f.t.Helper()
	path = filepath.Join(f.root(), path)
	must(f.t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(f.t, os.WriteFile(path, []byte("{"), 0o600))
}

// base is a lease of the agent in that pane, as it is now.
func (f *field) base(pane, state string) store.Lease {
	f.t.Helper()
	p := f.pane(pane)
	l := store.Lease{LeaseID: disk.NewID(), ControllerID: "lead", Purpose: "test", PaneID: p.ID, AgentName: "worker", AgentKind: "codex", State: state,
		TerminalID: p.Terminal, HerdrSocket: filepath.Join(f.scene.Dir(), "herdr.sock")}
	if p.Agent != nil {
		l.AgentName, l.AgentKind = p.Agent.Name, p.Agent.Kind
	}
	return l
}

func (f *field) tab(pane string) store.Tab {
	p := f.pane(pane)
	return store.Tab{ParentPaneID: "w1:p1", CreatedAt: store.Stamp(time.Now().Add(f.later)), TabID: p.Tab, WorkspaceID: p.Workspace, TabLabel: "worker #12345678"}
}

func (f *field) reviewer(pane, state string) *store.Reviewer {
	return &store.Reviewer{Version: 1, Lease: f.base(pane, state), Tab: f.tab(pane), Cwd: f.pane(pane).Cwd}
}

func (f *field) writer(pane, state string) *store.Writer {
	cwd := f.pane(pane).Cwd
	return &store.Writer{Version: 1, LeaseType: "writer", Lease: f.base(pane, state), Tab: f.tab(pane), TicketRef: "T-1", AuthorityRef: "T-1", AuthoritySHA256: digest,
		RepositoryRoot: cwd, GitDir: cwd + "/.git", GitCommonDir: cwd + "/.git", Worktree: cwd, Branch: "topic", BaseCommit: commit, HeadCommit: commit,
		GitStatusSHA256: digest, OwnedScopes: []string{"a"}, LockedScopes: []string{}, ProtectedBranches: []string{"main"}}
}

func (f *field) adopted(pane, state string) *store.Adopted {
	return &store.Adopted{Version: 1, LeaseType: "adopted-pane", Lease: f.base(pane, state), AuthorityRef: "T-1", AuthoritySHA256: digest,
		Cwd: f.pane(pane).Cwd, AdoptedAt: store.Stamp(time.Now())}
}

// mesh.md §2.8: which agent is leased, and which lease has its agent.
func TestInventory(t *testing.T) {
	t.Parallel()
	f := newField(t)
	empty, err := f.in("w1:p1").Inventory(t.Context(), "")
	must(t, err)
	if len(empty.Agents) != 4 || len(empty.Leases) != 0 || empty.Leases == nil || empty.Invalid == nil {
		t.Errorf("before there is any record: %+v", empty)
	}
	if _, err := os.Stat(f.root()); err == nil {
		t.Error("a look made the state")
	}

	review, write, adopt := f.reviewer("w1:p2", store.Active), f.writer("w1:p4", store.Orphaned), f.adopted("w2:p1", store.CloseFailed)
	other := f.adopted("w1:p1", store.Active)
	other.ControllerID = "other"
	starting := f.reviewer("w1:p2", store.Provisioning)
	starting.AgentName, starting.PaneID, starting.TerminalID = "next", "", ""
	ended := f.reviewer("w1:p2", store.Closed)
	stray := f.reviewer("w1:p2", store.FailedClosed) // left in the store by a crash
	f.put(review, write, adopt, other, starting, ended, stray)
	must(t, os.Rename(filepath.Join(f.root(), "reviewer-leases/archive", stray.LeaseID+".json"), filepath.Join(f.root(), "reviewer-leases", stray.LeaseID+".json")))
	f.spoil("reviewer-leases/bad.json")
	f.spoil("adopted-pane-leases/bad.json")
	f.spoil("writer-leases/archive/bad.json") // no lease that is retained
	must(t, os.Chmod(filepath.Join(f.root(), "writer-leases"), 0o755))

	type view struct{ agents, leases, invalid string }
	look := func(controller string) (v view) {
		t.Helper()
		i, err := f.in("").Inventory(t.Context(), controller)
		must(t, err)
		for _, a := range i.Agents {
			v.agents += a.PaneID + " " + a.LeaseStatus
			if a.Lease != nil {
				v.agents += " " + a.Lease.LeaseType + " of " + a.Lease.ControllerID
			}
			v.agents += "\n"
		}
		for _, l := range i.Leases {
			v.leases += fmt.Sprintf("%s %s %s %q %s\n", l.LeaseType, l.ControllerID, l.State, l.PaneID, l.LiveIdentity)
		}
		for _, x := range i.Invalid {
			v.invalid += x.File + " " + x.Code + "\n"
		}
		return v
	}
	is := func(name, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s:\n%swant\n%s", name, got, want)
		}
	}
	v := look("")
	is("agents", v.agents, "w1:p1 matched adopted-pane of other\nw1:p3 unleased\nw1:p2 matched reviewer of lead\nw2:p1 matched adopted-pane of lead\n")
	is("leases", v.leases, `reviewer lead provisioning "" missing_or_changed
reviewer lead active "w1:p2" matched
adopted-pane other active "w1:p1" matched
adopted-pane lead close_failed "w2:p1" matched
`)
	is("invalid", v.invalid, "reviewer-leases/bad.json STATE_CORRUPT\nwriter-leases STATE_INSECURE\nadopted-pane-leases/bad.json STATE_CORRUPT\n")
	v = look("other")
	is("agents beside the leases of one", v.agents, "w1:p1 matched adopted-pane of other\nw1:p3 unleased\nw1:p2 matched reviewer of lead\nw2:p1 matched adopted-pane of lead\n")
	is("leases of one", v.leases, "adopted-pane other active \"w1:p1\" matched\n")
	if !strings.Contains(v.invalid, "reviewer-leases/bad.json") {
		t.Errorf("invalid records of nobody: %q", v.invalid)
	}

	must(t, os.Chmod(filepath.Join(f.root(), "writer-leases"), 0o700))
	f.update(func(w *fakeherdr.World) {
		w.Pane("w1:p2").Agent.Name = "elsewhere"
		w.Pane("w2:p1").Cwd = "/elsewhere"
		w.Move("w1:p1", "w2")
		w.Pane("w1:p4").Terminal = "term_0" // that id, given out again
	})
	v = look("lead")
	is("changed agents", v.agents, "w1:p3 unleased\nw1:p2 identity_mismatch reviewer of lead\nw2:p1 identity_mismatch adopted-pane of lead\nw2:p2 matched adopted-pane of other\n")
	is("their leases", v.leases, `reviewer lead provisioning "" missing_or_changed
reviewer lead active "w1:p2" missing_or_changed
writer lead orphaned "w1:p4" missing_or_changed
adopted-pane lead close_failed "w2:p1" missing_or_changed
`)

	// Of two leases of one terminal the agent's own counts.
	f.put(f.adopted("w1:p2", store.Active))
	is("twins", look("").agents, "w1:p3 unleased\nw1:p2 matched adopted-pane of lead\nw2:p1 identity_mismatch adopted-pane of lead\nw2:p2 matched adopted-pane of other\n")
	f.put(f.reviewer("w1:p2", store.Active))
	is("three of them", look("").agents, "w1:p3 unleased\nw1:p2 matched reviewer of lead\nw2:p1 identity_mismatch adopted-pane of lead\nw2:p2 matched adopted-pane of other\n")

	f.update(func(w *fakeherdr.World) { w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Down}} })
	_, err = f.in("w1:p1").Inventory(t.Context(), "")
	f.want("without a server", err, "HERDR_SERVER_DOWN")
	must(t, os.Chmod(f.root(), 0o755))
	_, err = f.in("w1:p1").Inventory(t.Context(), "")
	f.want("a root that is open", err, "STATE_INSECURE")
}
