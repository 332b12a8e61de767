//go:build unix

package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/store"
)

// lead has the authority without a credential: what that needs is tested where it
// belongs.
func lead(*store.Section, controller.Terminal) (*store.Controller, error) {
	return &store.Controller{ControllerID: "lead"}, nil
}

func (f *field) reconcile(q Request) (*Result, error) {
	f.t.Helper()
	return f.in("w1:p1").Reconcile(f.t.Context(), lead, q)
}

// receipt is one of a task for a lease.
func receipt(r store.Leased, state string) *store.Receipt {
	b := r.Base()
	t := &store.Receipt{Version: 1, ReceiptID: disk.NewID(), ControllerID: "lead", ControllerLeaseID: disk.NewID(), Target: b.AgentName, TargetLeaseID: b.LeaseID,
		PaneID: "w1:p2", AgentKind: b.AgentKind, Cwd: r.Dir(), State: state, CreatedAt: store.Stamp(time.Now()), UpdatedAt: store.Stamp(time.Now())}
	switch state {
	case store.Pending:
		t.AfterSeq = 1
	case store.Completed:
		t.AfterSeq, t.SettledSeq = 1, 1
	}
	return t
}

// close takes a pane away as a person at the screen does.
func (f *field) close(pane string) {
	f.t.Helper()
	cmd := exec.Command(f.scene.Bin(), "pane", "close", pane)
	cmd.Env = append(os.Environ(), f.scene.Env("w1:p1")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Fatalf("%v: %s", err, out)
	}
}

// label names the tab of a pane.
func (f *field) label(pane, label string) {
	f.t.Helper()
	f.update(func(w *fakeherdr.World) {
		p := w.Pane(pane)
		for _, ws := range w.Workspaces {
			if ws.ID == p.Workspace {
				ws.Tabs = slices.DeleteFunc(ws.Tabs, func(t *fakeherdr.Tab) bool { return t.ID == p.Tab })
				ws.Tabs = append(ws.Tabs, &fakeherdr.Tab{ID: p.Tab, Label: label})
			}
		}
	})
}

// files are all files of the state but the lock's, with what is in them.
func files(t *testing.T, dir string) string {
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
	must(t, err)
	return all.String()
}

// mesh.md §4.9: the table, each row dry and then real.
func TestReconcile(t *testing.T) {
	t.Parallel()
	const label = "worker #12345678"
	pane := map[string]func(f *field){
		"there":      func(*field) {},
		"closed":     func(f *field) { f.close("w1:p2") },
		"agent gone": func(f *field) { f.update(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent = nil }) },
		"another":    func(f *field) { f.update(func(w *fakeherdr.World) { w.Pane("w1:p2").Terminal = "term_0" }) },
		"restarted":  func(f *field) { f.label("w1:p2", label); f.update(func(w *fakeherdr.World) { w.Restart() }); f.name() },
		"moved":      func(f *field) { f.update(func(w *fakeherdr.World) { w.Move("w1:p2", "w2") }) },
		"hidden":     func(f *field) { f.trouble("pane_not_found", "pane", "get", "w1:p2") },
		"unknown":    func(f *field) { f.trouble("weather", "pane", "get", "w1:p2") },
		"no terminal": func(f *field) {
			f.update(func(w *fakeherdr.World) {
				w.Faults = []fakeherdr.Fault{{Match: []string{"pane", "get", "w1:p2"}, Kind: fakeherdr.Shape, Text: `{"result":{"type":"pane_info","pane":{"pane_id":"w1:p2"}}}`}}
			})
		},
		"no agents": func(f *field) { f.close("w1:p2"); f.trouble("weather", "agent", "list") },
		"labelled":  func(f *field) { f.update(func(w *fakeherdr.World) { w.Move("w1:p2", "w1") }); f.label("w1:p2", label) },
		"split":     func(f *field) { f.label("w1:p2", label) }, // four panes are in that tab
		"two tabs": func(f *field) {
			f.update(func(w *fakeherdr.World) { w.Move("w1:p2", "w1") })
			f.label("w1:p2", label)
			f.update(func(w *fakeherdr.World) { w.Move("w1:p3", "w1") })
			f.label("w1:p3", label)
		},
		"no workspace": func(f *field) {
			f.update(func(w *fakeherdr.World) { w.Move("w2:p1", "w1"); w.Pane("w1:p2").Agent = nil })
		},
		"another's": func(f *field) {
			f.update(func(w *fakeherdr.World) { w.Pane("w1:p2").Terminal, w.Pane("w1:p2").Agent.Name = "term_0", "other" })
		},
		"tabs unknown": func(f *field) { f.trouble("weather", "tab", "list") },
	}
	for _, tc := range []struct{ kind, state, pane, action, terminal string }{
		{"reviewer", store.Active, "there", preservedLive, ""},
		{"reviewer", store.Active, "agent gone", preservedLive, ""},
		{"reviewer", store.Active, "restarted", preservedLive, ""},
		{"reviewer", store.Active, "moved", preservedLive, ""},
		{"reviewer", store.Active, "unknown", preservedUnknown, ""},
		{"reviewer", store.Active, "no agents", preservedUnknown, ""},
		{"reviewer", store.Active, "hidden", preservedLive, ""}, // its agent is there
		{"reviewer", store.Active, "no terminal", preservedUnknown, ""},
		{"reviewer", store.Active, "closed", "terminalized_missing_pane", store.Closed},
		{"reviewer", store.Active, "another", preservedLive, ""}, // a live handoff has given its agent another terminal
		{"reviewer", store.Active, "another's", "terminalized_missing_pane", store.Closed},
		{"reviewer", store.Closing, "closed", "terminalized_missing_pane", store.Closed},
		{"reviewer", store.CloseFailed, "closed", "terminalized_missing_pane", store.Closed},
		{"reviewer", store.Orphaned, "closed", "terminalized_missing_pane", store.FailedClosed},
		{"reviewer", store.Orphaned, "there", preservedLive, ""},
		{"reviewer", store.Closed, "closed", preservedState, store.Closed},
		{"reviewer", "provisioning 9m", "closed", preservedState, ""},
		{"reviewer", "provisioning -1m", "closed", preservedState, ""},
		{"reviewer", "provisioning 10m", "closed", "terminalized_missing_pane", store.FailedClosed},
		{"reviewer", "provisioning 10m", "there", preservedLive, ""},
		{"reviewer", "provisioning 9m without", "there", preservedState, ""},
		{"reviewer", "provisioning 10m without", "there", preservedLive, ""},
		{"reviewer", "provisioning 10m without", "agent gone", "terminalized_missing_pane", store.FailedClosed},
		{"reviewer", "provisioning 10m without", "no workspace", "terminalized_missing_pane", store.FailedClosed},
		{"reviewer", "provisioning 10m without", "labelled", "bound_orphan_tab", ""},
		{"reviewer", "orphaned without", "labelled", "bound_orphan_tab", ""},
		{"reviewer", "orphaned without", "closed", "terminalized_missing_pane", store.FailedClosed},
		{"reviewer", "orphaned without", "split", preservedUnknown, ""},
		{"reviewer", "orphaned without", "two tabs", preservedUnknown, ""},
		{"reviewer", "orphaned without", "tabs unknown", preservedUnknown, ""},
		{"reviewer", "orphaned without label", "there", preservedUnknown, ""},

		{"adopted-pane", store.Active, "there", preservedLive, ""},
		{"adopted-pane", store.Active, "agent gone", "terminalized_missing_agent", store.Closed},
		{"adopted-pane", store.CloseFailed, "agent gone", "terminalized_missing_agent", store.Closed},
		{"adopted-pane", store.Active, "closed", "terminalized_missing_pane", store.Closed},
		{"adopted-pane", store.Closing, "another", "terminalized_missing_pane", store.Closed},
		{"adopted-pane", store.Active, "restarted", "terminalized_missing_pane", store.Closed},
		{"adopted-pane", store.Active, "unknown", preservedUnknown, ""},
		{"adopted-pane", store.Active, "no agents", preservedUnknown, ""},
		{"adopted-pane", "active of old", "there", preservedLive, ""},
		{"adopted-pane", "active of old", "closed", "terminalized_missing_pane", store.Closed},
		{"adopted-pane", "active of old", "another", preservedLive, ""}, // nothing tells that it is another

		{"writer", store.Active, "there", preservedLive, ""},
		{"writer", store.Active, "closed", preservedWriter, ""},
		{"writer", store.Orphaned, "closed", preservedWriter, ""},
		{"writer", "provisioning 10m", "closed", preservedWriter, ""}, // it had a pane, and perhaps an agent
		{"writer", store.Active, "another", preservedLive, ""},
		{"writer", "releasing checked", "another", preservedLive, ""},
		{"writer", "provisioning 10m without", "agent gone", "terminalized_missing_pane", store.FailedClosed},
		{"writer", "provisioning 10m without", "labelled", "bound_orphan_tab", ""},
		{"writer", "orphaned without", "there", preservedLive, ""},
		{"writer", "orphaned without", "agent gone", "terminalized_missing_pane", store.FailedClosed},
		{"writer", store.Releasing, "closed", preservedWriter, ""},
		{"writer", store.ReleaseFailed, "closed", preservedWriter, ""},
		{"writer", "releasing checked", "closed", "terminalized_missing_pane", store.Released},
		{"writer", "release_failed checked", "closed", "terminalized_missing_pane", store.Released},
		{"writer", "active checked", "closed", preservedWriter, ""},
		{"writer", "releasing checked", "there", preservedLive, ""},
	} {
		name := tc.kind + " " + tc.state + ", " + tc.pane
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newField(t)
			state, how, _ := strings.Cut(tc.state, " ")
			var r store.Leased
			switch tc.kind {
			case "reviewer":
				r = f.reviewer("w1:p2", state)
			case "writer":
				r = f.writer("w1:p2", state)
			default:
				r = f.adopted("w1:p2", state)
			}
			b := r.Base()
			if tab := r.Made(); tab != nil {
				tab.TabLabel = label
				age := time.Hour
				if word, _, _ := strings.Cut(how, " "); strings.HasSuffix(word, "m") {
					var err error
					age, err = time.ParseDuration(word)
					must(t, err)
				}
				tab.CreatedAt = store.Stamp(time.Now().Add(-age))
				if strings.Contains(how, "without") {
					b.PaneID, b.TerminalID, tab.TabID = "", "", ""
				}
				if strings.Contains(how, "label") {
					tab.TabLabel = ""
				}
				if tc.pane == "no workspace" {
					tab.WorkspaceID = "w2"
				}
			}
			if how == "of old" {
				b.TerminalID, b.HerdrSocket = "", ""
			}
			if how == "checked" {
				r.Reached().CheckpointRef, r.Reached().CheckpointSHA256 = "C-1", digest
			}
			pending, reserved, done := receipt(r, store.Pending), receipt(r, store.Reserved), receipt(r, store.Completed)
			foreign := receipt(f.adopted("w2:p1", store.Active), store.Pending)
			f.put(r, pending, reserved, done, foreign)
			pane[tc.pane](f)

			before := files(t, f.root())
			dry := tc.action
			for _, verb := range []string{"bound_orphan", "terminalized"} {
				dry = strings.Replace(dry, verb, map[string]string{"bound_orphan": "would_bind_orphan", "terminalized": "would_terminalize"}[verb], 1)
			}
			q := Request{Type: tc.kind, LeaseID: strings.ToUpper(b.LeaseID), DryRun: true}
			got, err := f.reconcile(q)
			if err != nil || got.Action != dry || got.TerminalState != tc.terminal || got.Lease.Base().State != state {
				t.Fatalf("dry: %+v, %v", got, err)
			}
			if after := files(t, f.root()); after != before {
				t.Errorf("the dry run wrote:\n%s", after)
			}
			q.DryRun = false
			got, err = f.reconcile(q)
			if err != nil || got.Action != tc.action || got.TerminalState != tc.terminal {
				t.Fatalf("real: %+v, %v", got, err)
			}
			after := files(t, f.root())
			if preserved := dry == tc.action; preserved && after != before {
				t.Errorf("it was preserved, and yet it wrote:\n%s", after)
			} else if preserved {
				return
			}
			now, err := f.in("w1:p1").leases.Load(tc.kind, b.LeaseID)
			must(t, err)
			if strings.HasPrefix(tc.action, "bound") {
				p := f.pane("w1:p2")
				if n := now.Base(); n.State != store.Orphaned || n.PaneID != p.ID || n.TerminalID != p.Terminal || now.Made().TabID != p.Tab || got.Lease.Base().PaneID != p.ID {
					t.Errorf("bound: %+v", n)
				}
				tc.terminal = ""
			} else if now.Base().State != tc.terminal || got.Lease.Base().State != tc.terminal || f.pane("w1:p1") == nil {
				t.Errorf("ended: %+v", now.Base())
			}
			archived, _ := filepath.Glob(filepath.Join(f.root(), "*-leases", "archive", b.LeaseID+".json"))
			if (len(archived) == 1) != (tc.terminal != "") {
				t.Errorf("archived: %q", archived)
			}
			f.receipts(tc.terminal != "", pending, reserved)
			f.receipts(false, foreign)
			kept := new(store.Receipt)
			must(t, f.in("w1:p1").store.Load(done.ReceiptID, kept))
			if kept.State != store.Completed {
				t.Errorf("a receipt that was completed is %s", kept.State)
			}
			if tc.pane == "agent gone" && f.pane("w1:p2") == nil {
				t.Error("the pane is closed")
			}

			// Once more: nothing is left to do.
			if tc.terminal != "" {
				got, err = f.reconcile(q)
				if err != nil || got.Action != preservedState || got.TerminalState != tc.terminal || files(t, f.root()) != after {
					t.Errorf("again: %+v, %v", got, err)
				}
			}
			for _, call := range f.acted() {
				t.Errorf("it did %q", call)
			}
		})
	}
}

// name gives the caller's pane what the server's restart has taken.
func (f *field) name() {
	f.update(func(w *fakeherdr.World) { w.RunAgent(w.Pane("w1:p1"), "claude", "lead") })
}

// trouble lets Herdr refuse some calls with that code.
func (f *field) trouble(code string, match ...string) {
	f.update(func(w *fakeherdr.World) {
		w.Faults = append(w.Faults, fakeherdr.Fault{Match: match, Kind: fakeherdr.ErrorCode, Code: code})
	})
}

// acted are the calls of Herdr that change something, but for the one of close.
func (f *field) acted() (found [][]string) {
	f.t.Helper()
	calls, err := f.scene.Calls()
	must(f.t, err)
	for _, c := range calls {
		switch strings.Join(c.Args[:2], " ") {
		case "pane get", "tab get", "tab list", "pane list", "agent list", "status --json":
		case "pane close":
			if len(found) > 0 || c.Args[2] != "w1:p2" {
				found = append(found, c.Args)
			}
		default:
			found = append(found, c.Args)
		}
	}
	return found
}

// receipts fails unless each has ended since its target is gone, or has not.
func (f *field) receipts(gone bool, all ...*store.Receipt) {
	f.t.Helper()
	for _, r := range all {
		now := new(store.Receipt)
		must(f.t, f.in("w1:p1").store.Load(r.ReceiptID, now))
		want, failure := r.State, ""
		if gone {
			want, failure = store.Failed, "target_gone"
		}
		if now.State != want || now.Failure != failure {
			f.t.Errorf("a receipt that was %s is %s, %q", r.State, now.State, now.Failure)
		}
	}
}

// Who may, and which lease.
func TestReconcileRefuses(t *testing.T) {
	t.Parallel()
	f := newField(t)
	mine, other := f.reviewer("w1:p2", store.Active), f.reviewer("w1:p2", store.Active)
	other.ControllerID = "other"
	f.put(mine, other)
	f.close("w1:p2")
	_, err := f.reconcile(Request{Type: "reviewer", LeaseID: other.LeaseID})
	f.want("another's", err, "LEASE_OTHER_CONTROLLER")
	_, err = f.reconcile(Request{Type: "writer", LeaseID: mine.LeaseID})
	f.want("of another kind", err, "LEASE_NOT_FOUND")
	_, err = f.reconcile(Request{Type: "reviewer", LeaseID: mine.LeaseID, Checkpoint: &Checkpoint{}})
	f.want("a checkpoint of a reviewer", err, "INVALID_ARGUMENT")
	_, err = f.in("").Reconcile(t.Context(), lead, Request{Type: "reviewer", LeaseID: mine.LeaseID})
	f.want("from nowhere", err, "CALLER_NOT_MANAGED")

	// The authority is asked first and last.
	for nth := range 2 {
		asked := 0
		by := func(*store.Section, controller.Terminal) (*store.Controller, error) {
			if asked++; asked > nth {
				return nil, fault.New("FENCE_MISMATCH", "it was resumed")
			}
			return lead(nil, controller.Terminal{})
		}
		_, err = f.in("w1:p1").Reconcile(t.Context(), by, Request{Type: "reviewer", LeaseID: mine.LeaseID})
		f.want(fmt.Sprint("refused after ", nth), err, "FENCE_MISMATCH")
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = f.in("w1:p1").Reconcile(ctx, func(*store.Section, controller.Terminal) (*store.Controller, error) {
		cancel() // while the lock is held
		return lead(nil, controller.Terminal{})
	}, Request{Type: "reviewer", LeaseID: mine.LeaseID})
	f.want("cancelled", err, "CANCELLED")
	f.put(receipt(mine, store.Pending))
	f.spoil("handoff-receipts/bad.json")
	_, err = f.reconcile(Request{Type: "reviewer", LeaseID: mine.LeaseID})
	f.want("with a receipt that cannot be read", err, "STATE_CORRUPT")
	now := new(store.Reviewer)
	if must(t, f.in("w1:p1").store.Load(mine.LeaseID, now)); now.State != store.Active {
		t.Errorf("refused, and yet it is %s", now.State)
	}
}

// mesh.md §3.3, scenarios 37 and 55: what is seen from one session proves nothing
// in another, unless that one is dead.
func TestReconcileSessions(t *testing.T) {
	t.Parallel()
	f := newField(t)
	r := f.reviewer("w1:p2", store.Active)
	r.HerdrSocket = "/nowhere/herdr.sock"
	young := f.reviewer("w1:p2", store.Provisioning)
	young.HerdrSocket = r.HerdrSocket
	w := f.writer("w1:p2", store.Active)
	w.HerdrSocket = r.HerdrSocket
	alive := f.reviewer("w2:p1", store.Active)
	waits := receipt(r, store.Pending)
	f.put(r, young, w, alive, waits)
	s := f.in("w1:p1")
	q := Request{Type: "reviewer", LeaseID: r.LeaseID, DryRun: true}
	reconcile := func(s *server, q Request) (*Result, error) { return s.Reconcile(t.Context(), lead, q) }

	before := files(t, f.root())
	_, err := reconcile(s, q)
	if got := f.want("one look", err, "LEASE_OTHER_SESSION"); got.Details["retryAfterMs"] != int64(60000) {
		t.Errorf("%+v", got.Details)
	}
	f.later = 59 * time.Second
	_, err = reconcile(s, q)
	f.want("too early", err, "LEASE_OTHER_SESSION")
	if files(t, f.root()) != before {
		t.Error("refused, and yet it wrote")
	}
	f.later = 61 * time.Second
	if got, err := reconcile(s, q); err != nil || got.Action != "would_terminalize_missing_pane" {
		t.Errorf("two looks: %+v, %v", got, err)
	}
	_, err = reconcile(f.in("w1:p1"), q)
	f.want("one look of another process", err, "LEASE_OTHER_SESSION")

	q.ConfirmDead = true
	if got, err := reconcile(f.in("w1:p1"), q); err != nil || got.Action != "would_terminalize_missing_pane" {
		t.Errorf("on the caller's word: %+v, %v", got, err)
	}
	if got, err := f.reconcile(Request{Type: "reviewer", LeaseID: young.LeaseID, ConfirmDead: true}); err != nil || got.Action != preservedState {
		t.Errorf("its start may be under way: %+v, %v", got, err)
	}
	if got, err := f.reconcile(Request{Type: "writer", LeaseID: w.LeaseID, ConfirmDead: true}); err != nil || got.Action != preservedWriter {
		t.Errorf("a writer: %+v, %v", got, err)
	}
	q.DryRun = false
	if got, err := f.reconcile(q); err != nil || got.Action != "terminalized_missing_pane" || got.TerminalState != store.Closed {
		t.Errorf("real: %+v, %v", got, err)
	}
	f.receipts(true, waits)
	if f.pane("w1:p2") == nil {
		t.Error("a pane of this session was closed")
	}

	// From the default session, where that of the scene is another one, and alive.
	f.close("w2:p1")
	vars := slices.DeleteFunc(f.scene.Env("w1:p1"), func(v string) bool { return strings.HasPrefix(v, "HERDR_SOCKET_PATH=") })
	elsewhere := serve(f.dir, append(vars, "HERDR_SOCKET_PATH="), nil, nil)
	for _, confirm := range []bool{false, true} {
		_, err := reconcile(elsewhere, Request{Type: "reviewer", LeaseID: alive.LeaseID, ConfirmDead: confirm})
		if got := f.want("a session that is alive", err, "LEASE_OTHER_SESSION"); got.Details["retryAfterMs"] != nil {
			t.Errorf("%+v", got.Details)
		}
	}

	// A look that finds it alive begins the count anew.
	f.down(true)
	from := serve(f.dir, append(vars, "HERDR_SOCKET_PATH="), nil, func() time.Time { return time.Now().Add(f.later) })
	_, err = reconcile(from, Request{Type: "reviewer", LeaseID: alive.LeaseID})
	f.want("down", err, "LEASE_OTHER_SESSION")
	f.down(false)
	_, err = reconcile(from, Request{Type: "reviewer", LeaseID: alive.LeaseID})
	f.want("up", err, "LEASE_OTHER_SESSION")
	f.down(true)
	f.later += time.Hour
	_, err = reconcile(from, Request{Type: "reviewer", LeaseID: alive.LeaseID})
	f.want("down again", err, "LEASE_OTHER_SESSION")
	f.later += time.Minute
	if got, err := reconcile(from, Request{Type: "reviewer", LeaseID: alive.LeaseID}); err != nil || got.TerminalState != store.Closed {
		t.Errorf("down for a minute: %+v, %v", got, err)
	}
}

// down lets only the look at a session say that it does not run.
func (f *field) down(down bool) {
	f.update(func(w *fakeherdr.World) {
		w.Faults = nil
		if down {
			w.Faults = []fakeherdr.Fault{{Match: []string{"status"}, Kind: fakeherdr.Down}}
		}
	})
}

// A repo is a repository with a linked worktree on branch topic.
type repo struct {
	*testing.T
	home, main, tree string
	base             string
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not here")
	}
	home := disk.Resolved(t.TempDir())
	r := &repo{T: t, home: home, main: filepath.Join(home, "main"), tree: filepath.Join(home, "tree")}
	r.git(home, "init", "-q", "-b", "main", r.main)
	r.base = r.commit(r.main)
	r.git(r.main, "worktree", "add", "-q", "-b", "topic", r.tree)
	r.commit(r.tree)
	must(t, os.WriteFile(filepath.Join(r.tree, "unsaved"), []byte("work\n"), 0o600))
	return r
}

func (r *repo) git(dir string, args ...string) string {
	r.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.home, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		r.Fatalf("git %q: %v, %s", args, err, &errs)
	}
	return out.String()
}

func (r *repo) commit(dir string) string {
	r.Helper()
	r.git(dir, "commit", "-q", "--allow-empty", "-m", "x")
	return r.head()
}

func (r *repo) head() string {
	r.Helper()
	dir := r.tree
	if _, err := os.Stat(dir); err != nil {
		dir = r.main
	}
	return strings.TrimSpace(r.git(dir, "rev-parse", "HEAD"))
}

// facts are what the caller of a reconcile says of the worktree.
func (r *repo) facts() *Checkpoint {
	sum := sha256.Sum256([]byte(r.git(r.tree, "status", "--porcelain=v1", "--untracked-files=all")))
	return &Checkpoint{store.Checkpoint{CheckpointRef: "C-1", CheckpointSHA256: digest}, r.head(), hex.EncodeToString(sum[:])}
}

func (r *repo) lane(f *field, state string) *store.Writer {
	w := f.writer("w1:p2", state)
	w.RepositoryRoot, w.GitDir, w.GitCommonDir, w.Worktree = r.main, filepath.Join(r.main, ".git/worktrees/tree"), filepath.Join(r.main, ".git"), r.tree
	w.BaseCommit, w.HeadCommit = r.base, r.base
	return w
}

// Scenario 38: a writer whose pane is gone wants a checkpoint, and its worktree
// is left as it is.
func TestReconcileWriter(t *testing.T) {
	t.Parallel()
	repo := newRepo(t)
	f := newField(t)
	w := repo.lane(f, store.Active)
	waits := receipt(w, store.Reserved)
	f.put(w, waits)
	f.close("w1:p2")
	q := Request{Type: "writer", LeaseID: w.LeaseID}
	if got, err := f.reconcile(q); err != nil || got.Action != preservedWriter || got.TerminalState != "" {
		t.Errorf("no checkpoint: %+v, %v", got, err)
	}
	f.receipts(false, waits)
	before := files(t, f.root())
	right := repo.facts()
	for name, tc := range map[string]struct {
		change func(p *Checkpoint)
		code   string
	}{
		"another head":   {func(p *Checkpoint) { p.Head = repo.base }, "HEAD_MISMATCH"},
		"another digest": {func(p *Checkpoint) { p.StatusSHA256 = digest }, "STATUS_DIGEST_MISMATCH"},
	} {
		p := *right
		tc.change(&p)
		_, err := f.reconcile(Request{Type: "writer", LeaseID: w.LeaseID, Checkpoint: &p})
		if got := f.want(name, err, tc.code); got.Details["current"] == nil {
			t.Errorf("%s: %+v", name, got.Details)
		}
	}
	for name, tc := range map[string]struct {
		change func(w *store.Writer)
		code   string
	}{
		"another branch": {func(w *store.Writer) { w.Branch = "other" }, "BRANCH_MISMATCH"},
		"protected":      {func(w *store.Writer) { w.ProtectedBranches = []string{"topic"} }, "BRANCH_PROTECTED"},
		"no ancestor":    {func(w *store.Writer) { w.BaseCommit = commit }, "BASE_NOT_ANCESTOR"},
		"moved":          {func(w *store.Writer) { w.Worktree += "2" }, "WORKTREE_MOVED"},
		"another's":      {func(w *store.Writer) { w.GitCommonDir = repo.tree }, "WORKTREE_MOVED"},
		"other config":   {func(w *store.Writer) { w.GitDir += "2" }, "WORKTREE_MOVED"},
		"the main one":   {func(w *store.Writer) { w.Worktree = repo.main }, "WORKTREE_IS_PRIMARY"},
		"not a worktree": {func(w *store.Writer) { w.Worktree = f.dir }, "WORKTREE_NOT_ROOT"},
	} {
		bad := *w
		bad.LeaseID = disk.NewID()
		tc.change(&bad)
		f.put(&bad)
		_, err := f.reconcile(Request{Type: "writer", LeaseID: bad.LeaseID, Checkpoint: right})
		f.want(name, err, tc.code)
		must(t, os.Remove(filepath.Join(f.root(), "writer-leases", bad.LeaseID+".json")))
	}
	if files(t, f.root()) != before {
		t.Error("refused, and yet it wrote")
	}

	// The cheap facts are read again under the lock.
	moved := false
	by := func(*store.Section, controller.Terminal) (*store.Controller, error) {
		if !moved {
			moved = true
			repo.git(repo.tree, "checkout", "-q", "--detach")
		}
		return lead(nil, controller.Terminal{})
	}
	_, err := f.in("w1:p1").Reconcile(t.Context(), by, Request{Type: "writer", LeaseID: w.LeaseID, Checkpoint: right})
	f.want("changed meanwhile", err, "DETACHED_HEAD")
	repo.git(repo.tree, "checkout", "-q", "topic")
	worktree := files(t, repo.home)

	// So is whether a gate writes there. Before the lock no git looks at what it writes.
	gate := &store.Run{Version: 1, RunID: strings.Repeat("a", 64), ControllerID: "lead", ControllerGeneration: 1, WriterLeaseID: w.LeaseID, TicketRef: "T-1", Worktree: w.Worktree,
		Branch: w.Branch, BaseCommit: w.BaseCommit, HeadCommit: w.HeadCommit, WorktreeSHA256: digest, State: store.Running, StartedAt: store.Stamp(time.Now())}
	begun := false
	by = func(x *store.Section, _ controller.Terminal) (*store.Controller, error) {
		if !begun {
			begun = true
			must(t, x.Create(gate))
		}
		return lead(nil, controller.Terminal{})
	}
	_, err = f.in("w1:p1").Reconcile(t.Context(), by, Request{Type: "writer", LeaseID: w.LeaseID, Checkpoint: right})
	f.want("a gate that began meanwhile", err, "VERIFY_RUNNING")
	wrong := *right
	wrong.Head = repo.base
	for _, dry := range []bool{true, false} {
		_, err = f.reconcile(Request{Type: "writer", LeaseID: w.LeaseID, Checkpoint: &wrong, DryRun: dry})
		f.want("a gate runs", err, "VERIFY_RUNNING")
	}
	if got, err := f.reconcile(q); err != nil || got.Action != preservedWriter {
		t.Errorf("a gate runs, no checkpoint: %+v, %v", got, err)
	}
	f.receipts(false, waits)
	must(t, os.RemoveAll(filepath.Join(f.root(), "verification-runs")))

	big := *right
	big.Head, big.StatusSHA256 = strings.ToUpper(big.Head), strings.ToUpper(big.StatusSHA256)
	q.Checkpoint, q.DryRun = &big, true
	if got, err := f.reconcile(q); err != nil || got.Action != "would_terminalize_missing_pane" || got.TerminalState != store.Released || files(t, f.root()) != before {
		t.Errorf("dry: %+v, %v", got, err)
	}
	gate.StartedAt = store.Stamp(time.Now().Add(-25 * time.Hour)) // nobody's any more
	f.put(gate)
	q.DryRun = false
	if got, err := f.reconcile(q); err != nil || got.Action != "terminalized_missing_pane" || got.TerminalState != store.Released {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := f.in("w1:p1").store.Load(gate.RunID, gate); err != nil || gate.FailureCode != "INTERRUPTED" {
		t.Errorf("a run that nobody ends: %+v, %v", gate, err)
	}
	now := new(store.Writer)
	must(t, f.in("w1:p1").store.Load(w.LeaseID, now))
	if now.State != store.Released || now.CheckpointRef != "C-1" || now.HeadCommit != right.Head || now.GitStatusSHA256 != right.StatusSHA256 || now.ReleasedAt == "" {
		t.Errorf("%+v", now)
	}
	f.receipts(true, waits)
	if files(t, repo.home) != worktree {
		t.Error("the worktree or its repository was changed")
	}
	if got, err := f.reconcile(q); err != nil || got.Action != preservedState || got.TerminalState != store.Released {
		t.Errorf("again: %+v, %v", got, err)
	}

	// With a live pane a checkpoint changes nothing.
	live := *w
	live.LeaseID, live.PaneID, live.TerminalID = disk.NewID(), "w2:p1", f.pane("w2:p1").Terminal
	f.put(&live)
	if got, err := f.reconcile(Request{Type: "writer", LeaseID: live.LeaseID, Checkpoint: right}); err != nil || got.Action != preservedLive {
		t.Errorf("live: %+v, %v", got, err)
	}
}
