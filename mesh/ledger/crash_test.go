//go:build unix

package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"herdr-link/mesh/crash"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/store"
	"herdr-link/twin"
)

const (
	crashed = "0f9d2c7e-3b1a-4c5d-8e6f-001122334455" // the lease
	task    = "1f9d2c7e-3b1a-4c5d-8e6f-00112233445"  // its receipts, but for the last digit
)

// plays are a reconcile that ends a lease with two outstanding receipts, and one
// that binds a tab.
func plays() []crash.Play {
	play := func(name, pane string, state string) crash.Play {
		return crash.Play{
			Name: name,
			Run: func(ctx context.Context, dir string, d *disk.Disk) (any, error) {
				return serve(dir, quickEnv(dir), d, nil).Reconcile(ctx, lead, Request{Type: "reviewer", LeaseID: crashed})
			},
			Prepare: func(t *testing.T, dir string) []string {
				quickHerdr(t, dir)
				r := &store.Reviewer{Version: 1, Lease: store.Lease{LeaseID: crashed, ControllerID: "lead", Purpose: "test", PaneID: pane, AgentName: "worker", AgentKind: "codex",
					State: state, TerminalID: pane, HerdrSocket: "/quick.sock"}, Cwd: "/",
					Tab: store.Tab{ParentPaneID: "w1:p1", CreatedAt: "2026-01-02T03:04:05.678Z", WorkspaceID: "w1", TabLabel: "worker #0f9d2c7e"}}
				x, err := serve(dir, quickEnv(dir), nil, nil).store.Begin(t.Context())
				must(t, err)
				defer x.End()
				must(t, x.Create(r))
				for i, state := range []string{store.Pending, store.Reserved} {
					o := receipt(r, state)
					o.ReceiptID = task + fmt.Sprint(i)
					must(t, x.Create(o))
				}
				return quickEnv(dir)
			},
			Check: func(t *testing.T, end crash.End) { check(t, pane != "", end) },
		}
	}
	return []crash.Play{play("end", "w1:p2", store.Active), play("bind", "", store.Orphaned)}
}

// quickHerdr writes a Herdr that has the caller in w1:p1, and a pane without an
// agent in a tab that has the lease's label.
func quickHerdr(t *testing.T, dir string) {
	t.Helper()
	text := `#!/bin/sh
case "$1 $2" in
"pane get")
	if [ "$3" = w1:p1 ]; then echo '{"result":{"type":"pane_info","pane":{"pane_id":"w1:p1","terminal_id":"term_1"}}}'
	else echo '{"error":{"code":"pane_not_found","message":"x"}}' >&2; exit 1; fi ;;
"tab list") echo '{"result":{"type":"tab_list","tabs":[{"tab_id":"w1:t1","label":"1"},{"tab_id":"w1:t9","label":"worker #0f9d2c7e"}]}}' ;;
"pane list") echo '{"result":{"type":"pane_list","panes":[{"pane_id":"w1:p1","terminal_id":"term_1","tab_id":"w1:t1"},{"pane_id":"w1:p9","terminal_id":"term_9","tab_id":"w1:t9"}]}}' ;;
"agent list") echo '{"result":{"type":"agent_list","agents":[]}}' ;;
*) echo '{"client":{"version":"0.8.0","protocol":20},"server":{"running":true,"socket":"/quick.sock"}}' ;;
esac
`
	syscall.ForkLock.RLock() // else a child of another test would have it open for writing
	defer syscall.ForkLock.RUnlock()
	must(t, os.WriteFile(filepath.Join(dir, "herdr"), []byte(text), 0o700))
}

func quickEnv(dir string) []string {
	return []string{"HERDR_ENV=1", "HERDR_PANE_ID=w1:p1", "HERDR_BIN_PATH=" + filepath.Join(dir, "herdr")}
}

// check holds what a crash left to the invariants, and goes on from there.
func check(t *testing.T, ends bool, end crash.End) {
	if end.Code != "" && end.Code != "STATE_IO" {
		t.Errorf("it failed with %s", end.Code)
	}
	s := serve(end.Dir, end.Env, nil, nil)
	look := func() (r *store.Reviewer, open int) {
		t.Helper()
		r = new(store.Reviewer)
		must(t, s.store.Load(crashed, r))
		for i := range 2 {
			o := new(store.Receipt)
			must(t, s.store.Load(task+fmt.Sprint(i), o))
			switch {
			case o.State == store.Pending || o.State == store.Reserved:
				open++
			case o.Failure != "target_gone":
				t.Errorf("a receipt is %s, %q", o.State, o.Failure)
			}
		}
		return r, open
	}
	r, open := look()
	answered := end.Code == "" && !end.Killed
	switch {
	case ends && r.State == store.Closed && open > 0:
		t.Errorf("the lease has ended, and %d receipts have not", open)
	case ends && r.State != store.Closed && r.State != store.Active, !ends && r.State != store.Orphaned:
		t.Errorf("the lease is %s", r.State)
	case !ends && open != 2:
		t.Errorf("%d receipts are left", open)
	case ends && answered && r.State != store.Closed, !ends && answered && r.PaneID == "":
		t.Errorf("it was answered, and the lease is %s in %q", r.State, r.PaneID)
	case !ends && (r.PaneID != "" && r.PaneID != "w1:p9" || (r.PaneID == "") != (r.TerminalID == "")):
		t.Errorf("half bound: %q, %q", r.PaneID, r.TerminalID)
	}

	// A new process brings it to its end, or finds that there.
	begun := time.Now()
	result, err := s.Reconcile(t.Context(), lead, Request{Type: "reviewer", LeaseID: crashed})
	must(t, err)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	r, open = look()
	if ends && (r.State != store.Closed || open > 0 || result.TerminalState != store.Closed) {
		t.Errorf("in the end: %s, %d, %+v", r.State, open, result)
	}
	// A lease that is bound has its pane, which has gone meanwhile: it comes to an end as well.
	if !ends && r.PaneID != "w1:p9" && r.State != store.FailedClosed {
		t.Errorf("in the end: %s in %q", r.State, r.PaneID)
	}
	if temps, _ := filepath.Glob(filepath.Join(end.Dir, "state", "*", ".*.tmp")); len(temps) > 0 && !end.Killed && !strings.HasPrefix(end.Op, disk.OpRemove) {
		t.Errorf("left: %q", temps)
	}
	var answer struct{ Action string }
	if answered && (json.Unmarshal(end.Answer, &answer) != nil || answer.Action == "") {
		t.Errorf("the answer was %s", end.Answer)
	}
	places := 0
	for _, pattern := range []string{"reviewer-leases", "reviewer-leases/archive"} {
		if _, err := os.Stat(filepath.Join(end.Dir, "state", pattern, crashed+".json")); err == nil {
			places++
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
	if places != 1 {
		t.Errorf("the lease is at %d places", places)
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	if twin.Runs(t) { // but for the plays that nobody kills
		return
	}
	for _, p := range plays() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			p.Each(t)
		})
	}
}
