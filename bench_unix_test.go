//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"herdr-link/fakeherdr"
)

// BenchmarkMeshAdmission: all that a relay looks at before it writes its receipt,
// beside 1,000 archived and 50 retained records and beside none, against a bare
// prompt. Its target is blocked, which is the last thing that it looks at.
func BenchmarkMeshAdmission(b *testing.B) {
	for _, beside := range []struct{ archived, retained int }{{0, 0}, {1000, 50}} {
		b.Run(fmt.Sprintf("%d archived and %d retained", beside.archived, beside.retained), func(b *testing.B) {
			s, names := crowd(b, samples)
			change(b, s, func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Blocked })
			state, variable := stateOf(b)
			env := inPane(b, s, "w1:p1", "HERDR_LINK_OFF=1", variable)
			h := coordinate(b, s, "w1:p1", variable)
			l := h.answers("herdr_controller_acquire", asking("")).lease(b)
			leased(b, s, state, "w1:p2", leaseID("1"), nil)
			for i := range beside.archived + beside.retained {
				besides(b, s, state, i, i >= beside.retained)
			}
			args := l.showing(`,"target":"reviewer","text":"look at it"`)
			if m := h.mesh("herdr_relay", args); !strings.Contains(m.text(), "AGENT_BLOCKED") {
				b.Fatal(m.text())
			}
			for b.Loop() {
				report2(b, h, func(int) string { return h.begin("herdr_relay", args) }, func(i int) { herdr(b, s, env, "agent", "prompt", names[i], text) })
			}
		})
	}
}

// besides writes a record that a relay reads, or may not need to: of a lease or of
// a receipt in turn.
func besides(b *testing.B, s *fakeherdr.Scene, state string, i int, archived bool) {
	id := fmt.Sprintf("0f9d2c7e-3b1a-4c5d-8e6f-1%011d", i)
	stamp := "2026-01-02T03:04:05.678Z"
	if i%2 == 0 {
		leased(b, s, state, "w1:p2", id, func(m map[string]any) {
			m["agentName"] = "other" + strconv.Itoa(i)
			if archived {
				m["state"], m["closedAt"] = "closed", stamp
			}
		})
	} else {
		m := map[string]any{
			"version": 1, "receiptId": id, "controllerId": "lead", "controllerLeaseId": id, "target": "other" + strconv.Itoa(i), "targetLeaseId": id,
			"paneId": "w1:p2", "agentKind": "claude", "cwd": "/", "state": "reserved", "createdAt": stamp, "updatedAt": stamp, "beforeSeq": 1,
		}
		if archived {
			m["state"], m["failure"] = "failed", "abandoned"
		}
		writeRecord(b, filepath.Join(state, "handoff-receipts", id+".json"), m)
	}
	if archived {
		folder := filepath.Join(state, []string{"reviewer-leases", "handoff-receipts"}[i%2])
		if err := os.MkdirAll(filepath.Join(folder, "archive"), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.Rename(filepath.Join(folder, id+".json"), filepath.Join(folder, "archive", id+".json")); err != nil {
			b.Fatal(err)
		}
	}
}
