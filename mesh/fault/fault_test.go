package fault

import (
	"errors"
	"fmt"
	"testing"
)

func TestFault(t *testing.T) {
	t.Parallel()
	busy := New("LOCK_BUSY", "busy for %d s", 10)
	if !busy.Retryable || busy.Message != "busy for 10 s" || busy.Error() != "LOCK_BUSY: busy for 10 s" || busy.Details != nil {
		t.Errorf("%+v", busy)
	}
	if New("STATE_CORRUPT", "x").Retryable {
		t.Error("a corrupt store does not mend itself")
	}
	one := busy.With("state", "active")
	two := one.With("state", "stale").With("n", 2)
	if busy.Details != nil || one.Details["state"] != "active" || len(two.Details) != 2 || two.Details["state"] != "stale" {
		t.Errorf("%v, %v, %v", busy.Details, one.Details, two.Details)
	}
	if f := Mismatch("CURSOR_MOVED", "50% more", int64(5), 7); f.Error() != "CURSOR_MOVED: 50% more" || !f.Retryable || f.Details["expected"] != int64(5) || f.Details["current"] != 7 {
		t.Errorf("%+v", f)
	}
	if got := Code(fmt.Errorf("around: %w", two)); got != "LOCK_BUSY" {
		t.Errorf("code %q", got)
	}
	if got := Code(errors.New("x")); got != "" {
		t.Errorf("code %q", got)
	}
}
