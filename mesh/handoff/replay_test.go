//go:build unix

package handoff

import (
	"testing"
	"time"

	"herdr-link/mesh/disk"
	"herdr-link/mesh/store"
)

// Scenario 34: a turn of a moment moves no cursor, and its answer is not that of
// the task before.
func TestReplayBehindAnotherTask(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		state, failure string
		before         int64
		code           string
	}{
		"sent, and abandoned":   {store.Failed, "abandoned", 3, "COLLECT_STALE"},
		"being sent":            {store.Reserved, "", 3, "COLLECT_STALE"},
		"never sent":            {store.Failed, "delivery_failed", 3, ""},
		"sent before":           {store.Failed, "abandoned", 1, ""},
		"sent to another agent": {store.Failed, "abandoned", 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			env := prepare(t, dir, "replay")
			b := newBridge(dir, env, nil, nil)
			other := *receipts(t, b.store)[0]
			other.ReceiptID, other.State, other.Failure, other.BeforeSeq, other.AfterSeq, other.SettledSeq = disk.NewID(), tc.state, tc.failure, tc.before, 0, 0
			if name == "sent to another agent" {
				other.TargetLeaseID = disk.NewID()
			}
			record(t, b.store, &other)
			a, err := b.Collect(t.Context(), b.controllers.By(envCredential(env)), []string{envValue(env, receiptVariable)}, Wait{Timeout: 30 * time.Second, Lines: 10})
			must(t, err)
			code := ""
			if len(a.Failed) == 1 {
				code = a.Failed[0].Code
			}
			if code != tc.code || len(a.Completed)+len(a.Failed) != 1 {
				t.Errorf("%+v", a)
			}
		})
	}
}
