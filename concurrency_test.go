package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"herdr-link/envelope"
	"herdr-link/fakeherdr"
	"herdr-link/twin"
)

// Many agents answer one at the same time: each message is a submission of its
// own, none is merged with another, none is lost.
func TestManySendersOneTarget(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 20 s: Herdr's pause for each message")
	}
	n := 50
	if twin.RaceDetector {
		n = 25 // a lock is waited for 30 s at most
	}
	s := newScene(t)
	home := t.TempDir()
	var panes []string
	change(t, s, func(w *fakeherdr.World) {
		for i := range n {
			panes = append(panes, w.AddPane("w1", "pi", fmt.Sprintf("sender-%d", i)).ID)
		}
	})
	hosts := make([]*host, n)
	for i, pane := range panes {
		hosts[i] = start(t, inPane(t, s, pane, "HOME="+home), "--eager")
		hosts[i].initialize("2025-11-25")
	}
	ids := make([]string, n)
	for i, h := range hosts {
		ids[i] = h.begin("herdr_link_send", fmt.Sprintf(`{"to":"reviewer","message":"message %d"}`, i))
	}
	var want []string
	for i, h := range hosts {
		h.patience = time.Minute
		if r := h.result(ids[i]); r.IsError {
			t.Errorf("sender %d: %s", i, r.text())
		}
		want = append(want, fmt.Sprintf("message %d", i))
	}
	got := received(t, s, "w1:p2", n)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("received %d: %q", len(got), got)
	}
}

// A send that is killed in the middle lets the next one in at once, and that
// one waits for the Enter of the text that was typed already. It counts from
// the start of the prompt, since nobody could note its end: so on a machine
// where Herdr took long to type, there is nothing to see, and another try is due.
func TestKilledSend(t *testing.T) {
	t.Parallel()
	for range 10 {
		got, late := killedSend(t)
		if late < 40*time.Millisecond || slices.Equal(got, []string{"one", "two"}) {
			if !slices.Equal(got, []string{"one", "two"}) {
				t.Errorf("received %q", got)
			}
			return
		}
		t.Logf("Herdr typed %v behind its start", late)
	}
	t.Skip("this machine is too busy")
}

// killedSend kills the first of two sends and returns what the target received,
// and how long after the start of the first prompt its text was typed.
func killedSend(t *testing.T) (got []string, late time.Duration) {
	s := newScene(t)
	home := t.TempDir()
	change(t, s, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.HangAfter, Match: []string{"agent", "prompt"}, Left: 1}}
	})
	first, second := eager(t, s, "HOME="+home, "HERDR_LINK_TIMEOUT=60s"), eager(t, s, "HOME="+home)
	first.begin("herdr_link_send", `{"to":"reviewer","message":"one"}`)
	eventually(t, "the first text", func() bool {
		typed, err := filepath.Glob(s.Dir() + "/input-*.jsonl")
		if err != nil || len(typed) == 0 {
			return false
		}
		info, err := os.Stat(typed[0]) // the file is there a moment before the text
		return err == nil && info.Size() > 0
	})
	locks, err := filepath.Glob(home + "/.local/state/herdr-link/locks/*")
	if err != nil || len(locks) != 1 {
		t.Fatal(locks, err)
	}
	mark, err := os.Stat(locks[0])
	if err != nil {
		t.Fatal(err)
	}
	id := second.begin("herdr_link_send", `{"to":"reviewer","message":"two"}`)
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if r := second.result(id); r.IsError {
		t.Fatal(r.text())
	}
	var all []fakeherdr.Submission
	eventually(t, "two submissions", func() bool {
		if all, err = s.Submissions("w1:p2"); err != nil {
			t.Fatal(err)
		}
		return len(all) >= 2
	})
	for _, sub := range all {
		e, _ := envelope.Parse(sub.Text)
		got = append(got, e.Message)
	}
	return got, all[0].At.Add(-300 * time.Millisecond).Sub(mark.ModTime())
}

// Two servers of one pane, started together, give it one name.
func TestTwoServersOneName(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	home := t.TempDir()
	change(t, s, func(w *fakeherdr.World) { // long enough for both to find no name
		w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Slow, Match: []string{"agent", "rename"}, Delay: 500 * time.Millisecond}}
	})
	hosts := []*host{start(t, inPane(t, s, "w1:p3", "HOME="+home), "--eager"), start(t, inPane(t, s, "w1:p3", "HOME="+home), "--eager")}
	for _, h := range hosts {
		h.write(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
			`{"jsonrpc":"2.0","id":"peers","method":"tools/call","params":{"name":"herdr_link_peers"}}`)
	}
	name := ""
	for _, h := range hosts {
		r := h.result(`"peers"`)
		if r.IsError {
			t.Fatal(r.text())
		}
		self, _, _ := strings.Cut(r.text(), `,"state"`)
		if name != "" && self != name {
			t.Errorf("%s and %s", name, self)
		}
		name = self
	}
	if got := commands(t, s, "agent", "rename"); len(got) != 1 {
		t.Errorf("renamed %d times: %q", len(got), got)
	}
}

// A close by one server right behind a send by another loses no last words.
func TestCloseBehindSend(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	home := t.TempDir()
	sender, closer := eager(t, s, "HOME="+home), eager(t, s, "HOME="+home)
	if r := sender.call("herdr_link_send", `{"to":"reviewer","message":"last words"}`); r.IsError {
		t.Fatal(r.text())
	}
	if r := closer.call("herdr_link_close", `{"agent":"reviewer"}`); r.IsError {
		t.Fatal(r.text())
	}
	if got := received(t, s, "w1:p2", 1); !slices.Equal(got, []string{"last words"}) {
		t.Errorf("received %q", got)
	}
	if len(commands(t, s, "pane", "close")) != 1 {
		t.Error("not closed")
	}
}

// Who waits for a lock decides anew when it has it: the target may have a
// dialog open by then, or the name may be another's.
func TestDecidedUnderTheLock(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*fakeherdr.World)
		want   string
	}{
		"blocked meanwhile": {func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Blocked }, "SEND_FAILED: the peer waits for its human"},
		"moved meanwhile":   {func(w *fakeherdr.World) { w.Move("w1:p2", "w2") }, "PEER_NOT_FOUND: "},
		"another's name": {func(w *fakeherdr.World) {
			w.Pane("w1:p2").Agent.Name = ""
			w.AddPane("w1", "pi", "reviewer")
		}, "PEER_NOT_FOUND: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			home := t.TempDir()
			change(t, s, func(w *fakeherdr.World) {
				w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Hang, Match: []string{"agent", "prompt"}, Left: 1}}
			})
			holder, h := eager(t, s, "HOME="+home, "HERDR_LINK_TIMEOUT=60s"), eager(t, s, "HOME="+home)
			hanging := holder.begin("herdr_link_send", `{"to":"reviewer","message":"one"}`)
			awaitCalls(t, s, 1, "agent", "prompt")
			id := h.begin("herdr_link_send", `{"to":"reviewer","message":"two"}`)
			eventually(t, "the second look at the target", func() bool {
				return len(commands(t, s, "agent", "get", "reviewer")) == 2 && ended(t, s) == len(commands(t, s))-1
			})
			change(t, s, tc.change)
			holder.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + hanging + `}}`)
			if r := h.result(id); !r.IsError || !strings.HasPrefix(r.text(), tc.want) {
				t.Errorf("%s, not %s", r.text(), tc.want)
			}
			if n := len(commands(t, s, "agent", "prompt")); n != 1 {
				t.Errorf("%d prompts", n)
			}
		})
	}
}
