package main

import (
	"fmt"
	"strings"
	"testing"

	"herdr-link/envelope"
	"herdr-link/fakeherdr"
)

// A line of 4 MiB is served; of a longer one the rest is skipped.
func TestLongLines(t *testing.T) {
	t.Parallel()
	h := startProgram(t, inPane(t, nil, ""), binaries.plain)
	h.initialize("2025-11-25")
	for _, tc := range []struct {
		size int
		ok   bool
	}{{4 << 20, true}, {4<<20 + 1, false}, {4<<20 - 1, true}, {10 << 20, false}, {4 << 20, true}} {
		const head, tail = `{"jsonrpc":"2.0","id":"long","method":"ping","params":{"pad":"`, `"}}`
		h.write(head + strings.Repeat("x", tc.size-len(head)-len(tail)) + tail)
		m := h.read()
		switch {
		case tc.ok && (m.Error != nil || string(m.ID) != `"long"`):
			t.Errorf("%d bytes: %s", tc.size, m.line)
		case !tc.ok && (m.Error == nil || m.Error.Code != -32600 || string(m.ID) != "null"):
			t.Errorf("%d bytes: %s", tc.size, m.line)
		}
	}
	h.answer(h.request("ping", ""))
	if len(h.got) > 0 {
		t.Errorf("answered as well: %v", h.got)
	}
}

// The text for Herdr may have 120 KiB. A message's id has up to 22 bytes, and
// seldom fewer: so some sends may be needed to meet the limit exactly.
func TestLongMessages(t *testing.T) {
	t.Parallel()
	const limit = 120 << 10
	s := newScene(t)
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Name = "x" })
	wrapped, err := envelope.Wrap(envelope.Envelope{ID: "hl_" + strings.Repeat("0", 8) + "_" + strings.Repeat("0", 10), From: "x", To: "reviewer", Message: "m"})
	if err != nil {
		t.Fatal(err)
	}
	fits := limit - len(wrapped) + 1
	h := eager(t, s)

	longest := 0
	for range 10 {
		if r := h.call("herdr_link_send", `{"to":"reviewer","message":"`+strings.Repeat("m", fits)+`"}`); r.IsError {
			t.Fatalf("%d bytes: %s", fits, r.text())
		}
		for _, args := range commands(t, s, "agent", "prompt") {
			longest = max(longest, len(args[3]))
		}
		if longest == limit {
			break
		}
	}
	if longest != limit {
		t.Errorf("the longest text for Herdr had %d bytes", longest)
	}
	refused := false
	for range 10 {
		before := len(commands(t, s, "agent", "prompt"))
		r := h.call("herdr_link_send", `{"to":"reviewer","message":"`+strings.Repeat("m", fits+1)+`"}`)
		if !r.IsError {
			continue // a short id
		}
		refused = true
		if want := fmt.Sprintf("%d of at most %d", limit+1, limit); !strings.HasPrefix(r.text(), "SEND_FAILED: ") || !strings.Contains(r.text(), want) {
			t.Errorf("%s, not %s", r.text(), want)
		}
		if after := len(commands(t, s, "agent", "prompt")); after != before {
			t.Error("it was sent all the same")
		}
		break
	}
	if !refused {
		t.Error("a text over the limit is not refused")
	}
	for name, message := range map[string]string{
		"a message of 1 MiB":      strings.Repeat("m", 1<<20),
		"escapes count":           strings.Repeat(`\u001b`, 30<<10),
		"bytes count, not runes":  strings.Repeat("€", 50<<10),
		"too long, to a bad name": strings.Repeat("m", limit),
	} {
		to := "reviewer"
		if strings.HasSuffix(name, "bad name") {
			to = "Nobody"
		}
		if r := h.call("herdr_link_send", `{"to":"`+to+`","message":"`+message+`"}`); !strings.HasPrefix(r.text(), "SEND_FAILED: message is too long") {
			t.Errorf("%s: %.200s", name, r.text())
		}
	}
}

// What Herdr prints is read to 4 MiB of stdout; then it is killed. stderr may
// be as long as it likes, as far as the time goes.
func TestFloods(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := eager(t, s, "HERDR_LINK_TIMEOUT=60s")
	fault(t, s, fakeherdr.Flood, "agent", "list")
	if r := h.call("herdr_link_peers", ""); !strings.HasPrefix(r.text(), "NOT_IN_HERDR: ") || !strings.Contains(r.text(), "could not be understood") {
		t.Errorf("a flood on stdout: %s", r.text())
	}
	h.childless()

	s = newScene(t)
	h = eager(t, s, "HERDR_LINK_TIMEOUT=3s")
	fault(t, s, fakeherdr.FloodStderr, "agent", "list")
	if r := h.call("herdr_link_peers", ""); !strings.HasPrefix(r.text(), "NOT_IN_HERDR: ") || !strings.Contains(r.text(), "in time") {
		t.Errorf("a flood on stderr: %s", r.text())
	}
	h.childless()
}

// HERDR_LINK_TIMEOUT ends each call of Herdr, and what it has started.
func TestTimeout(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ tool, args, want string }{
		{"herdr_link_peers", `{}`, "NOT_IN_HERDR: Herdr did not answer in time"},
		{"herdr_link_send", `{"to":"reviewer","message":"hi"}`, "NOT_IN_HERDR: Herdr gave no clear answer, so it is unknown whether the message arrived"},
		{"herdr_link_close", `{"agent":"reviewer"}`, "NOT_IN_HERDR: Herdr gave no clear answer, so it is unknown whether the pane was closed"},
	} {
		t.Run(tc.tool, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			fault(t, s, fakeherdr.Hang, "agent", "list")
			fault(t, s, fakeherdr.Hang, "agent", "prompt")
			fault(t, s, fakeherdr.Hang, "pane", "close")
			h := eager(t, s, "HERDR_LINK_TIMEOUT=2s")
			if r := h.call(tc.tool, tc.args); !r.IsError || !strings.HasPrefix(r.text(), tc.want) {
				t.Error(r.text())
			}
			h.childless()
		})
	}
}

// 64 calls run, 256 more wait in order, the next ones are told that the server
// is busy. Lists, ping and cancel are served all the same.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := eager(t, s, "HERDR_LINK_TIMEOUT=60s")
	fault(t, s, fakeherdr.Hang, "agent", "list")
	const running, waiting, extra = 64, 256, 3
	var ids, busy []string
	for range running + waiting {
		ids = append(ids, h.begin("herdr_link_peers", ""))
	}
	awaitCalls(t, s, running, "agent", "list")
	for range extra {
		busy = append(busy, h.begin("herdr_link_peers", ""))
	}
	for _, id := range busy {
		m := h.read()
		if string(m.ID) != id || m.Error == nil || !strings.Contains(m.Error.Message, "busy") {
			t.Errorf("call %s: %s", id, m.line)
		}
	}
	if h.answer(h.request("ping", "")).Error != nil || len(h.list()) != 4 {
		t.Error("ping and lists are not served")
	}
	if n := len(commands(t, s, "agent", "list")); n != running {
		t.Errorf("%d calls run", n)
	}

	cancel := func(id string) {
		h.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	}
	cancel(ids[running+waiting-1]) // one that waits: it leaves its place to another
	var again string
	eventually(t, "a free place", func() bool {
		again = h.begin("herdr_link_peers", "")
		h.request("ping", "")
		if string(h.read().ID) != again {
			return true // the ping's answer: the call waits
		}
		h.read()
		return false
	})
	cancel(ids[0]) // one that runs: the next one starts
	awaitCalls(t, s, running+1, "agent", "list")
	change(t, s, func(w *fakeherdr.World) { w.Faults = nil })
	for _, id := range ids[1 : running+1] {
		cancel(id)
	}
	for _, id := range append(ids[running+1:running+waiting-1], again) {
		if r := h.result(id); r.IsError {
			t.Fatal(r.text())
		}
	}
	if len(h.got) > 0 {
		t.Errorf("answered as well: %v", h.got)
	}
	h.childless()
}

// What waits has at most 16 MiB.
func TestManyBytes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	fault(t, s, fakeherdr.Hang, "agent", "prompt")
	h := startProgram(t, inPane(t, s, "w1:p1", "HERDR_LINK_TIMEOUT=60s"), binaries.plain, "--eager")
	h.initialize("2025-11-25")
	h.begin("herdr_link_send", `{"to":"reviewer","message":"hi"}`)
	awaitCalls(t, s, 1, "agent", "prompt")
	long := strings.Repeat("x", 4<<20-1024)
	for range 4 {
		h.begin("herdr_link_send", `{"to":"reviewer","message":"`+long+`"}`)
	}
	fifth := h.begin("herdr_link_send", `{"to":"reviewer","message":"`+long+`"}`)
	if m := h.read(); string(m.ID) != fifth || m.Error == nil || !strings.Contains(m.Error.Message, "busy") {
		t.Errorf("%s", m.line)
	}
	small := h.begin("herdr_link_send", `{"to":"nobody","message":"hi"}`)
	if r := h.result(small); !strings.HasPrefix(r.text(), "PEER_NOT_FOUND") {
		t.Errorf("one that need not wait: %s", r.text())
	}
}
