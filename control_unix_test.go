//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/herdrcli"
)

// 35, 36: locks.
func TestControlLocks(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	home := t.TempDir()
	terminal := func() string {
		w, err := s.World()
		if err != nil {
			t.Fatal(err)
		}
		return w.Pane("w1:p4").Terminal
	}
	hold := func() *herdrcli.Lock {
		t.Helper()
		lock, err := herdrcli.NewLocks(home).Acquire(t.Context(), herdrcli.Agent{TerminalID: terminal()}, "", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return lock
	}
	h := steer(t, s, "w1:p1", "HOME="+home, "HERDR_LINK_OFF=1")
	const run, args = "herdr_pane_run", `{"paneId":"w1:p4","command":"ls"}`
	lock := hold()
	id := locking(t, h, run, args)
	change(t, s, func(w *fakeherdr.World) { // while the call waits for the lock
		w.Pane("w1:p4").Agent = &fakeherdr.Agent{Kind: "pi", Status: fakeherdr.Idle, Ready: true}
	})
	lock.Release()
	if c := h.controlled(id); c.ErrorCode != "pane_hosts_agent" {
		t.Errorf("an agent came meanwhile: %s", c.result.StructuredContent)
	}
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p4").Agent = nil })
	lock = hold()
	id = locking(t, h, run, args)
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p4").Terminal = "term_00000000000001" })
	lock.Release()
	if c := h.controlled(id); c.ErrorCode != "target_changed" {
		t.Errorf("another terminal: %s", c.result.StructuredContent)
	}

	lock = hold()
	h.fails("target_busy", run, args)
	h.works("herdr_pane_read", `{"paneId":"w1:p4"}`)
	lock.Release()
	if calls := commands(t, s, "pane", "run"); len(calls) > 0 {
		t.Errorf("it ran %q", calls)
	}
	h.works(run, args)

	bad := t.TempDir()
	if err := os.WriteFile(filepath.Join(bad, ".local"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h = steer(t, s, "w1:p1", "HOME="+bad, "HERDR_LINK_OFF=1")
	c := h.fails("lock_failed", run, args)
	if strings.Contains(c.Message, bad) {
		t.Errorf("it says %q", c.Message)
	}
	h.works("herdr_pane_read", `{"paneId":"w1:p4"}`)
	h.works("herdr_tab_create", `{"workspaceId":"w1"}`)
}
