//go:build unix

package lease

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mesh/fault"
)

// Whoever acts behind a prompt sees what that has done: the agent is told as it was
// before for up to 700 ms.
func TestHold(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	locks := herdrcli.NewLocks(home)
	l := New(Options{Locks: locks})
	a, b := herdrcli.Agent{TerminalID: "term_1"}, herdrcli.Agent{TerminalID: "term_2"}
	begun := time.Now()
	held, err := l.Hold(t.Context(), a, b)
	if err != nil || !held.Has("term_1") || !held.Has("term_2") || held.Has("term_3") {
		t.Fatalf("%v, %v", held, err)
	}
	if took := time.Since(begun); took > shown/2 {
		t.Errorf("with nothing typed it took %v", took)
	}
	if err := held.Type("term_3"); fault.Code(err) != "TARGET_LOCK_UNAVAILABLE" {
		t.Errorf("a terminal that is not locked: %v", err)
	}
	if err := held.Type("term_2"); err != nil {
		t.Fatal(err)
	}
	held.Typed("term_2")
	typed := time.Now()
	held.Release()

	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if _, err := l.Hold(ctx, b); fault.Code(err) != "CANCELLED" {
		t.Errorf("a call that ends meanwhile: %v", err)
	}
	held, err = l.Hold(t.Context(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	if rested := time.Since(typed); rested < 900*time.Millisecond || rested > 3*time.Second {
		t.Errorf("it has rested for %v", rested)
	}
	held.Release()

	open := filepath.Join(home, ".local", "state", "herdr-link", "locks")
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Hold(t.Context(), a); fault.Code(err) != "TARGET_LOCK_UNAVAILABLE" {
		t.Errorf("a folder that is open to others: %v", err)
	}
}
