package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"herdr-link/envelope"
	"herdr-link/fakeherdr"
)

// eager starts an eager server in the pane of lead and initializes it.
func eager(t *testing.T, s *fakeherdr.Scene, more ...string) *host {
	t.Helper()
	h := start(t, inPane(t, s, "w1:p1", more...), "--eager")
	h.initialize("2025-11-25")
	return h
}

// received returns the messages that the agent in the pane got, once it has
// got n of them.
func received(t *testing.T, s *fakeherdr.Scene, pane string, n int) (messages []string) {
	t.Helper()
	var all []fakeherdr.Submission
	eventually(t, fmt.Sprintf("%d submissions", n), func() bool {
		var err error
		if all, err = s.Submissions(pane); err != nil {
			t.Fatal(err)
		}
		return len(all) >= n
	})
	for _, sub := range all {
		if strings.Count(sub.Text, "[herdr-link/1]") != 1 {
			t.Errorf("no submission of one message: %q", sub.Text)
		}
		e, err := envelope.Parse(sub.Text)
		if err != nil {
			t.Errorf("%v: %q", err, sub.Text)
		}
		messages = append(messages, e.Message)
	}
	return messages
}

// While Herdr hangs, what needs no Herdr is answered at once.
func TestPingPassesHangingCalls(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := eager(t, s)
	fault(t, s, fakeherdr.Hang, "agent", "list")
	fault(t, s, fakeherdr.Hang, "agent", "get", "reviewer")
	h.begin("herdr_link_peers", "")
	h.begin("herdr_link_send", `{"to":"reviewer","message":"hi"}`)
	h.begin("herdr_link_close", `{"agent":"reviewer"}`) // waits for the send
	awaitCalls(t, s, 1, "agent", "list")
	awaitCalls(t, s, 1, "agent", "get", "reviewer")
	for _, id := range []string{h.request("ping", ""), h.request("tools/list", ""), h.begin("herdr_link", "{}")} {
		if m := h.read(); string(m.ID) != id || m.Error != nil {
			t.Errorf("not the answer to %s: %s", id, m.line)
		}
	}
}

func TestSameTargetKeepsOrder(t *testing.T) {
	t.Parallel()
	send := func(id, text string) string {
		return `{"jsonrpc":"2.0","id":"` + id + `","method":"tools/call","params":{"name":"herdr_link_send","arguments":{"to":"reviewer","message":"` + text + `"}}}`
	}
	const closing = `{"jsonrpc":"2.0","id":"close","method":"tools/call","params":{"name":"herdr_link_close","arguments":{"agent":"reviewer"}}}`

	t.Run("sends and a close", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		h := eager(t, s)
		h.write(send("1", "one"), send("2", "two"), send("3", "last words"), closing)
		for _, id := range []string{`"1"`, `"2"`, `"3"`, `"close"`} {
			if m := h.read(); string(m.ID) != id || m.Error != nil || strings.Contains(m.line, `"isError":true`) {
				t.Errorf("not the good answer to %s: %s", id, m.line)
			}
		}
		if got := received(t, s, "w1:p2", 3); !slices.Equal(got, []string{"one", "two", "last words"}) {
			t.Errorf("received %q", got)
		}
	})
	t.Run("a close and a send", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		h := eager(t, s)
		h.write(closing, send("1", "too late"))
		if r := h.result(`"close"`); r.IsError {
			t.Error(r.text())
		}
		if r := h.result(`"1"`); !strings.HasPrefix(r.text(), "PEER_NOT_FOUND: ") {
			t.Errorf("the send: %s", r.text())
		}
		if got := commands(t, s, "agent", "prompt"); len(got) > 0 {
			t.Errorf("a prompt after the close: %q", got)
		}
	})
}

// A peer that hangs keeps nobody from reaching another, and its own queue
// goes on when its call is cancelled.
func TestOtherTargetsPass(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	change(t, s, func(w *fakeherdr.World) { w.AddPane("w1", "pi", "other") })
	fault(t, s, fakeherdr.Hang, "agent", "prompt", "reviewer")
	h := eager(t, s)
	hanging := h.begin("herdr_link_send", `{"to":"reviewer","message":"hi"}`)
	awaitCalls(t, s, 1, "agent", "prompt", "reviewer")
	queued := h.begin("herdr_link_close", `{"agent":"reviewer"}`)
	for _, id := range []string{h.begin("herdr_link_send", `{"to":"other","message":"hi"}`), h.begin("herdr_link_peers", "")} {
		if r := h.result(id); r.IsError {
			t.Error(r.text())
		}
	}
	if n := len(commands(t, s, "pane", "close")); n > 0 || len(h.got) > 0 {
		t.Fatalf("the close did not wait: %d, %v", n, h.got)
	}
	h.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + hanging + `}}`)
	if r := h.result(queued); r.IsError {
		t.Error(r.text())
	}
	if len(h.got) > 0 {
		t.Errorf("a cancelled call was answered: %v", h.got)
	}
	h.childless()
}

// An id that is in flight cannot be used again; its call is unaffected. After
// its answer it can.
func TestIDInFlight(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := eager(t, s)
	change(t, s, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Hang, Match: []string{"agent", "list"}, Left: 1}}
	})
	const call = `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"herdr_link_peers"}}`
	h.write(call)
	awaitCalls(t, s, 1, "agent", "list")
	for _, same := range []string{`"x"`, `"\u0078"`} {
		h.write(`{"jsonrpc":"2.0","id":` + same + `,"method":"ping"}`)
		if m := h.read(); string(m.ID) != "null" || m.Error == nil || m.Error.Code != -32600 {
			t.Errorf("id %s in flight: %s", same, m.line)
		}
	}
	h.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`)
	h.childless()
	eventually(t, "the id is free again", func() bool {
		h.write(call)
		m := h.read()
		return m.Error == nil && string(m.ID) == `"x"`
	})
}
