package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"herdr-link/fakeherdr"
)

const (
	unknownSent   = "NOT_IN_HERDR: Herdr gave no clear answer, so it is unknown whether the message arrived"
	unknownClosed = "NOT_IN_HERDR: Herdr gave no clear answer, so it is unknown whether the pane was closed"
	inTime        = "NOT_IN_HERDR: Herdr did not answer in time"
	notUnderstood = "NOT_IN_HERDR: Herdr's answer could not be understood"
)

// A Herdr that hangs, dies, floods or leaves a process behind, at every command:
// the answer is the right one, and no process is left.
func TestFaultyHerdr(t *testing.T) {
	t.Parallel()
	steps := []struct {
		tool, args string
		match      []string
		acts       string // the answer where it may have acted all the same
	}{
		{"herdr_link_peers", `{}`, []string{"agent", "get", "w1:p1"}, ""},
		{"herdr_link_peers", `{}`, []string{"agent", "list"}, ""},
		{"herdr_link_send", `{"to":"reviewer","message":"hi"}`, []string{"agent", "get", "w1:p1"}, ""},
		{"herdr_link_send", `{"to":"reviewer","message":"hi"}`, []string{"agent", "get", "reviewer"}, ""},
		{"herdr_link_send", `{"to":"reviewer","message":"hi"}`, []string{"agent", "prompt"}, unknownSent},
		{"herdr_link_close", `{"agent":"reviewer"}`, []string{"agent", "get", "w1:p1"}, ""},
		{"herdr_link_close", `{"agent":"reviewer"}`, []string{"agent", "get", "reviewer"}, ""},
		{"herdr_link_close", `{"agent":"reviewer"}`, []string{"pane", "close"}, unknownClosed},
	}
	for kind, want := range map[string]string{
		fakeherdr.Hang:               inTime,
		fakeherdr.HangAfter:          inTime,
		fakeherdr.Flood:              notUnderstood,
		fakeherdr.Die:                notUnderstood,
		fakeherdr.DieAfter:           notUnderstood,
		fakeherdr.Grandchild:         "",
		fakeherdr.GrandchildQuiet:    "",
		fakeherdr.GrandchildDetached: "",
	} {
		for _, step := range steps {
			t.Run(kind+" at "+step.tool+" "+strings.Join(step.match, " "), func(t *testing.T) {
				t.Parallel()
				s := newScene(t)
				limit := "60s" // has no part in it
				if want == inTime {
					limit = "4s"
				}
				h := eager(t, s, "HERDR_LINK_TIMEOUT="+limit)
				awaitCalls(t, s, 1) // of the bootstrap
				h.childless()
				fault(t, s, kind, step.match...)
				r := h.call(step.tool, step.args)
				prefix := want
				if want != "" && step.acts != "" {
					prefix = step.acts
				}
				if r.IsError != (want != "") || !strings.HasPrefix(r.text(), prefix) {
					t.Errorf("%s, not %s", r.text(), prefix)
				}
				if kind == fakeherdr.GrandchildDetached {
					endDetached(t, s)
				}
				h.childless()
			})
		}
	}
}

// endDetached ends what has left its call's process group on purpose: nobody
// else can be blamed for it.
func endDetached(t *testing.T, s *fakeherdr.Scene) {
	t.Helper()
	calls, err := s.Calls()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		if c.Child == 0 {
			continue
		}
		if p, err := os.FindProcess(c.Child); err == nil {
			_ = p.Kill()
		}
	}
}

// A Herdr that is merely slow is waited for.
func TestSlowHerdr(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	change(t, s, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Slow, Delay: 400e6}}
	})
	h := eager(t, s)
	for tool, args := range map[string]string{"herdr_link_peers": `{}`, "herdr_link_send": `{"to":"reviewer","message":"hi"}`} {
		if r := h.call(tool, args); r.IsError {
			t.Error(r.text())
		}
	}
}

// A binary that cannot be run is told as such, by each tool, and a server on
// another socket as one that does not run.
func TestNoHerdr(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	plain := s.Dir() + "/plain"
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ env, want string }{
		"missing":        {"HERDR_BIN_PATH=" + s.Dir() + "/nothing", "cannot be run"},
		"relative":       {"HERDR_BIN_PATH=herdr", "cannot be run"},
		"a folder":       {"HERDR_BIN_PATH=" + s.Dir(), "cannot be run"},
		"not executable": {"HERDR_BIN_PATH=" + plain, "cannot be run"},
		"other socket":   {"HERDR_SOCKET_PATH=" + s.Dir() + "/other.sock", "not running"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := eager(t, s, tc.env)
			for tool, args := range map[string]string{"herdr_link_peers": `{}`, "herdr_link_send": `{"to":"reviewer","message":"hi"}`, "herdr_link_close": `{"agent":"reviewer"}`} {
				if r := h.call(tool, args); !r.IsError || !strings.HasPrefix(r.text(), "NOT_IN_HERDR: ") || !strings.Contains(r.text(), tc.want) {
					t.Errorf("%s: %s", tool, r.text())
				}
			}
		})
	}
	t.Run("empty socket", func(t *testing.T) { // Herdr would take it for a path
		t.Parallel()
		s := newScene(t)
		h := eager(t, s, "HERDR_SOCKET_PATH=", "HERDR_SESSION=")
		if r := h.call("herdr_link_peers", `{}`); r.IsError {
			t.Error(r.text())
		}
		fault(t, s, fakeherdr.Hang, "agent", "list")
		h.begin("herdr_link_peers", `{}`)
		awaitCalls(t, s, 2, "agent", "list")
		for _, pid := range h.env.alive() {
			env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if pid != h.cmd.Process.Pid && (bytes.Contains(env, []byte("\x00HERDR_SOCKET_PATH=")) || bytes.Contains(env, []byte("\x00HERDR_SESSION="))) {
				t.Error("Herdr gets an empty variable")
			}
		}
	})
}

// What is split, joined or marked is read as it was meant.
func TestSplitInput(t *testing.T) {
	t.Parallel()
	const (
		hello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"ü","version":"0"}}}`
		ping  = `{"jsonrpc":"2.0","id":"ping","method":"ping"}`
		last  = `{"jsonrpc":"2.0","id":"last","method":"tools/list"}`
	)
	for name, in := range map[string]struct {
		text  string
		write int // bytes a write
	}{
		"one byte a write":    {hello + "\n" + ping + "\n" + last + "\n", 1},
		"one write":           {hello + "\n" + ping + "\n" + last + "\n", 1 << 20},
		"three bytes a write": {"\uFEFF" + hello + "\r\n" + ping + "\r\n" + last + "\r\n", 3},
		"BOM and CRLF":        {"\uFEFF" + hello + "\r\n" + ping + "\r\n" + last + "\r\n", 1 << 20},
		"no newline at last":  {hello + "\n" + ping + "\n" + last, 1 << 20},
		"empty lines":         {"\n\r\n" + hello + "\n\n  \n" + ping + "\n\t\n" + last + "\n\n", 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, inPane(t, nil, ""))
			for part := range slices.Chunk([]byte(in.text), in.write) {
				if _, err := h.stdin.Write(part); err != nil {
					t.Fatal(err)
				}
			}
			h.stdin.Close()
			for _, id := range []string{`"hello"`, `"ping"`, `"last"`} {
				if m := h.read(); string(m.ID) != id || m.Error != nil {
					t.Errorf("not the answer to %s: %s", id, m.line)
				}
			}
			if code := h.wait(); code != 0 {
				t.Errorf("exit %d", code)
			}
		})
	}
}

// What is no UTF-8, or nested beyond all measure, is refused; the next line is
// served.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	h := start(t, inPane(t, nil, ""))
	h.initialize("2025-11-25")
	for name, line := range map[string]string{
		"not UTF-8":           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}",
		"half a rune":         "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xe2\x82\"}}",
		"a surrogate in CESU": "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xed\xa0\x80\"}}",
		"NUL":                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\x00",
		"deep arrays":         `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000) + "}",
		"deep objects":        `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat(`{"a":`, 500_000) + "1" + strings.Repeat("}", 500_000) + "}",
		"open brackets":       strings.Repeat("[", 4<<20),
	} {
		h.write(line)
		if m := h.read(); m.Error == nil || m.Error.Code != -32700 || string(m.ID) != "null" {
			t.Errorf("%s: %.300s", name, m.line)
		}
	}
	if m := h.answer(h.request("ping", "")); m.Error != nil {
		t.Error(m.line)
	}
}

// TestStorm sends 10,000 random messages, good and bad, in random pieces. Each
// good id is answered once, each bad message that asks for it once with id null,
// nothing else is. HERDR_LINK_TEST_SEED repeats a run.
func TestStorm(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-03-26", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			if v := os.Getenv("HERDR_LINK_TEST_SEED"); v != "" {
				if _, err := fmt.Sscan(v, &seed); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("HERDR_LINK_TEST_SEED=%d", seed)
			storm(t, version, seed)
		})
	}
}

func storm(t *testing.T, version string, seed uint64) {
	s := newScene(t)
	h := start(t, inPane(t, s, "w1:p1"))
	h.initialize(version)
	w := weather{r: rand.New(rand.NewPCG(seed, 0)), batches: version == "2025-03-26", want: map[string]string{}}
	var lines strings.Builder
	for range 10_000 {
		lines.WriteString(w.line() + "\n")
	}
	lines.WriteString(`{"jsonrpc":"2.0","id":"last","method":"ping"}`)
	text := lines.String()
	go func() {
		for text != "" {
			n := min(len(text), 1+w.r.IntN(8192))
			if _, err := h.stdin.Write([]byte(text[:n])); err != nil {
				return // the reader below says what happened
			}
			text = text[n:]
		}
		h.stdin.Close()
	}()
	got := map[string]int{}
	pong, changed, nulls := false, 0, 0
	for line := range h.lines {
		for _, m := range messagesOf(t, line) {
			switch id := string(m.ID); {
			case m.Method == "notifications/tools/list_changed":
				changed++
			case m.Method != "":
				t.Errorf("unexpected: %s", m.line)
			case id == "null":
				nulls++
				if m.Error == nil || m.Error.Code != -32600 && m.Error.Code != -32700 {
					t.Errorf("id null: %s", m.line)
				}
			case id == `"last"`:
				pong = m.Error == nil
			default:
				got[id]++
				want, asked := w.want[id]
				is := "result"
				if m.Error != nil {
					is = fmt.Sprint(m.Error.Code)
				}
				if !asked || got[id] > 1 || is != want {
					t.Fatalf("answer %d, want %q: %.300s", got[id], want, m.line)
				}
			}
		}
	}
	for id := range w.want {
		if got[id] == 0 && !w.cancelled[id] {
			t.Errorf("no answer to %s", id)
		}
	}
	if nulls != w.nulls || changed != 1 || !pong {
		t.Errorf("%d answers with id null instead of %d, %d list_changed, ping at the end: %t", nulls, w.nulls, changed, pong)
	}
	if code := h.wait(); code != 0 || h.stderr.Len() > 0 {
		t.Errorf("exit %d, stderr %s", code, h.stderr)
	}
}
