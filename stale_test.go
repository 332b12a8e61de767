package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

// What was read long ago is read again before it is acted upon: the target may
// have become blocked, moved away, or lost its name meanwhile.
func TestNothingIsDoneByStaleRecords(t *testing.T) {
	t.Parallel()
	changes := map[string]struct {
		change func(*fakeherdr.World)
		want   string
	}{
		"blocked": {func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Blocked }, "SEND_FAILED: the peer waits"},
		"moved":   {func(w *fakeherdr.World) { w.Move("w1:p2", "w2") }, "PEER_NOT_FOUND"},
		"renamed": {func(w *fakeherdr.World) {
			w.Pane("w1:p2").Agent.Name = "former"
			w.Pane("w2:p1").Agent.Name = "reviewer"
		}, "PEER_NOT_FOUND"},
	}
	// What takes its time after the target's record has been read.
	for slow, pane := range map[string]string{"agent get": "w1:p1", "agent rename": "w1:p3"} {
		for name, c := range changes {
			t.Run(slow+", "+name, func(t *testing.T) {
				t.Parallel()
				s := newScene(t)
				match := append(strings.Fields(slow), pane)
				change(t, s, func(w *fakeherdr.World) {
					w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Slow, Match: match, Delay: 1500 * time.Millisecond}}
				})
				h := start(t, inPane(t, s, pane), "--eager") // not initialized by its host: the send itself makes the name
				h.write(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
				id := h.begin("herdr_link_send", `{"to":"reviewer","message":"hi"}`)
				eventually(t, "the end of the lookup", func() bool {
					calls, err := s.Calls()
					if err != nil {
						t.Fatal(err)
					}
					begun := len(commands(t, s, match...)) > 0
					return begun && slices.ContainsFunc(calls, func(c fakeherdr.Call) bool {
						return c.Done && slices.Equal(c.Args, []string{"agent", "get", "reviewer"})
					})
				})
				change(t, s, c.change)
				if r := h.result(id); !r.IsError || !strings.HasPrefix(r.text(), c.want) {
					t.Errorf("got %q, want %s", r.text(), c.want)
				}
				if sent := commands(t, s, "agent", "prompt"); len(sent) > 0 {
					t.Errorf("prompted: %q", sent)
				}
			})
		}
	}
}
