//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/twin"
)

// endTime is the time in which a server has to be gone with all its children.
func endTime() time.Duration {
	if twin.RaceDetector {
		return 3 * time.Second
	}
	return time.Second
}

// soon does a thing that has to be done in endTime and says how long it took.
// On a machine with much to do a process may be late for no fault of its own:
// only one that is late three times running has failed.
func soon(t *testing.T, do func() time.Duration) {
	t.Helper()
	for try := 1; ; try++ {
		took := do()
		switch {
		case took <= endTime() || t.Failed():
			return
		case try == 3:
			t.Errorf("it took %v", took)
			return
		}
		t.Logf("try %d took %v", try, took)
	}
}

// A stage is a moment of a server's life. reach starts a server with launch,
// brings it there and returns the ids of the calls that are under way.
type stage struct {
	name  string
	reach func(t *testing.T, l launch) (h *host, pending []string)
}

// A launch starts servers in one scene, with one home and as one kind of child.
type launch struct {
	s     *fakeherdr.Scene
	home  string
	short bool // calls of Herdr have little time, since the server waits for them
	start func(env environment, args ...string) *host
}

func (l launch) in(t *testing.T, pane string) environment {
	timeout := "HERDR_LINK_TIMEOUT=60s"
	if l.short {
		timeout = "HERDR_LINK_TIMEOUT=2s"
	}
	return inPane(t, l.s, pane, "HOME="+l.home, timeout)
}

// eager starts a server that has done its bootstrap.
func (l launch) eager(t *testing.T) *host {
	h := l.start(l.in(t, "w1:p1"), "--eager")
	h.initialize("2025-11-25")
	eventually(t, "the end of the bootstrap", func() bool { return ended(t, l.s) > 0 })
	return h
}

const (
	sendArgs  = `{"to":"reviewer","message":"hi"}`
	closeArgs = `{"agent":"reviewer"}`
)

func stages() []stage {
	return []stage{
		{"idle", func(t *testing.T, l launch) (*host, []string) {
			return l.eager(t), nil
		}},
		{"before initialize", func(t *testing.T, l launch) (*host, []string) {
			h := l.start(l.in(t, "w1:p1"))
			h.answer(h.request("ping", ""))
			return h, nil
		}},
		{"lookup", func(t *testing.T, l launch) (*host, []string) {
			fault(t, l.s, fakeherdr.Hang, "agent", "get", "reviewer")
			h := l.eager(t)
			id := h.begin("herdr_link_send", sendArgs)
			awaitCalls(t, l.s, 1, "agent", "get", "reviewer")
			return h, []string{id}
		}},
		{"lock", func(t *testing.T, l launch) (*host, []string) {
			change(t, l.s, func(w *fakeherdr.World) {
				w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Hang, Match: []string{"agent", "prompt"}, Left: 1}}
			})
			holder := start(t, l.in(t, "w1:p1"), "--eager")
			holder.initialize("2025-11-25")
			holder.begin("herdr_link_send", sendArgs)
			awaitCalls(t, l.s, 1, "agent", "prompt")
			h := l.eager(t)
			id := locking(t, h, "herdr_link_send", sendArgs)
			return h, []string{id}
		}},
		{"sleep for the Enter", func(t *testing.T, l launch) (*host, []string) {
			env := l.in(t, "w1:p1")
			if _, stderr, code := run(t, env, "", "send", "reviewer", "before"); code != 0 {
				t.Fatal(stderr)
			}
			h := l.eager(t)
			id := locking(t, h, "herdr_link_send", sendArgs, func() {
				late := time.Now().Add(time.Hour) // sleeps the longest time there is
				for _, lock := range locks(t, l.home) {
					if err := os.Chtimes(lock, late, late); err != nil {
						t.Fatal(err)
					}
				}
			})
			return h, []string{id}
		}},
		{"prompt", func(t *testing.T, l launch) (*host, []string) {
			fault(t, l.s, fakeherdr.Hang, "agent", "prompt")
			h := l.eager(t)
			id := h.begin("herdr_link_send", sendArgs)
			awaitCalls(t, l.s, 1, "agent", "prompt")
			return h, []string{id}
		}},
		{"prompt with a child that hangs too", func(t *testing.T, l launch) (*host, []string) {
			change(t, l.s, func(w *fakeherdr.World) {
				w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.GrandchildQuiet, Match: []string{"agent", "get", "reviewer"}, Left: 1}, {Kind: fakeherdr.Hang, Match: []string{"agent", "prompt"}}}
			})
			h := l.eager(t)
			id := h.begin("herdr_link_send", sendArgs)
			awaitCalls(t, l.s, 1, "agent", "prompt")
			return h, []string{id}
		}},
		{"close, with a send behind it", func(t *testing.T, l launch) (*host, []string) {
			fault(t, l.s, fakeherdr.Hang, "pane", "close")
			h := l.eager(t)
			ids := []string{h.begin("herdr_link_close", closeArgs), h.begin("herdr_link_send", sendArgs), h.begin("herdr_link_peers", "")}
			awaitCalls(t, l.s, 1, "pane", "close")
			return h, append(ids[:2], settled(h, ids[2])...)
		}},
		{"bootstrap", func(t *testing.T, l launch) (*host, []string) {
			fault(t, l.s, fakeherdr.Hang, "agent", "rename")
			h := l.start(l.in(t, "w1:p3"), "--eager")
			h.initialize("2025-11-25")
			awaitCalls(t, l.s, 1, "agent", "rename")
			return h, nil
		}},
		{"bootstrap that a call waits for", func(t *testing.T, l launch) (*host, []string) {
			fault(t, l.s, fakeherdr.Hang, "agent", "rename")
			h := l.start(l.in(t, "w1:p3"), "--eager")
			h.initialize("2025-11-25")
			id := h.begin("herdr_link_peers", "")
			awaitCalls(t, l.s, 1, "agent", "rename")
			awaitCalls(t, l.s, 1, "agent", "list")
			return h, []string{id}
		}},
		{"bootstrap's first look", func(t *testing.T, l launch) (*host, []string) {
			fault(t, l.s, fakeherdr.Hang, "agent", "get")
			h := l.start(l.in(t, "w1:p3"))
			h.initialize("2025-11-25")
			awaitCalls(t, l.s, 1, "agent", "get")
			return h, nil
		}},
		{"held activation", func(t *testing.T, l launch) (*host, []string) {
			h := l.start(l.in(t, "w1:p1"))
			h.initialize("2025-11-25")
			id := h.begin("herdr_link", "{}")
			if m := h.read(); m.Method != "notifications/tools/list_changed" {
				t.Fatalf("not list_changed: %s", m.line)
			}
			return h, []string{id}
		}},
	}
}

// settled waits for the answer to a call that nothing keeps from ending.
func settled(h *host, id string) []string {
	h.answer(id)
	return nil
}

// locks returns the lock files of a home.
func locks(t *testing.T, home string) []string {
	t.Helper()
	files, err := filepath.Glob(home + "/.local/state/herdr-link/locks/*")
	if err != nil || len(files) == 0 {
		t.Fatal("no locks", err)
	}
	return files
}

// locking begins a call, waits until the server has a lock file open for it, and
// returns the call's id. It looks for the server's processes before: that takes
// longer than some locks are open. A call that was faster than the test all the
// same is made again, each time behind what is given to do before.
func locking(t *testing.T, h *host, tool, args string, before ...func()) (id string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells which files a process has open")
	}
	pids := h.env.alive()
	for range 20 {
		for _, do := range before {
			do()
		}
		id = h.begin(tool, args)
		open := false
		eventually(t, "an open lock", func() bool {
			open = holds(pids, "/herdr-link/locks/")
			return open || len(h.lines) > 0
		})
		if open {
			return id
		}
		h.answer(id)
	}
	t.Fatal("every call was faster than the test")
	return ""
}

// holds reports whether one of the processes has a file open in such a folder.
func holds(pids []int, folder string) bool {
	for _, pid := range pids {
		fds, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil && strings.Contains(to, folder) {
				return true
			}
		}
	}
	return false
}

// TestEnds ends servers in each way at each stage. Within a second the server
// and everything that it started are gone, and it said nothing but protocol.
func TestEnds(t *testing.T) { // not beside other tests, since time counts
	type end struct {
		name string
		do   func(t *testing.T, h *host)
	}
	signal := func(s syscall.Signal) func(*testing.T, *host) {
		return func(t *testing.T, h *host) {
			if err := h.cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	const orphan, closedStdin = "dead parent", "closed stdin"
	for _, end := range []end{
		{"SIGTERM", signal(syscall.SIGTERM)},
		{"SIGINT", signal(syscall.SIGINT)},
		{"SIGHUP", signal(syscall.SIGHUP)},
		{closedStdin, func(_ *testing.T, h *host) { h.stdin.Close() }},
		{"closed stdout", func(_ *testing.T, h *host) { h.stdout.Close() }},
		{orphan, signal(syscall.SIGKILL)}, // the host's process is the parent here
	} {
		for _, stage := range stages() {
			t.Run(end.name+" at "+stage.name, func(t *testing.T) {
				t.Parallel()
				soon(t, func() time.Duration {
					l := launch{s: newScene(t), home: t.TempDir(), short: end.name == closedStdin}
					l.start = func(env environment, args ...string) *host { return start(t, env, args...) }
					if end.name == orphan {
						l.start = func(env environment, args ...string) *host {
							env.vars = append(env.vars, parentOf+"="+binaries.server)
							self, err := os.Executable()
							if err != nil {
								t.Fatal(err)
							}
							return startProgram(t, env, self, args...)
						}
					}
					h, pending := stage.reach(t, l)
					pids := h.env.alive()
					if runtime.GOOS == "linux" && len(pids) == 0 {
						t.Fatal("no process to end")
					}
					begun, took := time.Now(), time.Duration(0)
					end.do(t, h)
					if end.name == closedStdin {
						answered(t, h, pending)
					} else {
						eventually(t, "the end of all processes", func() bool { return len(h.env.living(pids)) == 0 })
						took = time.Since(begun)
					}
					h.wait()
					if left := h.env.alive(); len(left) > 0 {
						t.Errorf("left behind: %d", left)
					}
					onlyProtocol(t, h)
					return took
				})
			})
		}
	}
}

// answered checks that a server whose input has ended answers each call that
// is under way, once, and exits with 0.
func answered(t *testing.T, h *host, pending []string) {
	t.Helper()
	for range pending {
		m := h.read()
		i := slices.Index(pending, string(m.ID))
		if i < 0 || m.Error != nil {
			t.Fatalf("no answer to one of %s: %s", pending, m.line)
		}
		pending = slices.Concat(pending[:i], pending[i+1:])
	}
	if code := h.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
	for line := range h.lines {
		t.Errorf("one line too many: %s", line)
	}
}

// onlyProtocol checks what the server printed until its end.
func onlyProtocol(t *testing.T, h *host) {
	t.Helper()
	for line := range h.lines {
		var m struct{ JSONRPC string }
		if json.Unmarshal([]byte(line), &m) != nil || m.JSONRPC != "2.0" {
			t.Errorf("no protocol: %q", line)
		}
	}
	if h.stderr.Len() > 0 {
		t.Errorf("stderr: %s", h.stderr)
	}
}

// A command of the command line ends with a signal, too, and so do its
// children: while Herdr hangs, and while it waits for its input.
func TestCommandEnds(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		wait bool // nothing comes on stdin, and it does not end
		hang []string
	}{
		{"call", []string{"call", "herdr_link_peers"}, false, []string{"agent", "list"}},
		{"call send", []string{"call", "herdr_link_send"}, false, []string{"agent", "prompt"}},
		{"call, no input", []string{"call", "herdr_link_send"}, true, nil},
		{"peers", []string{"peers"}, false, []string{"agent", "get"}},
		{"send", []string{"send", "reviewer", "hi"}, false, []string{"agent", "prompt"}},
		{"send, no input", []string{"send", "reviewer"}, true, nil},
		{"close", []string{"close", "reviewer"}, false, []string{"pane", "close"}},
		{"bootstrap", []string{"bootstrap"}, false, []string{"agent", "get"}},
	} {
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
			t.Run(fmt.Sprintf("%s, %v", tc.name, s), func(t *testing.T) {
				t.Parallel()
				soon(t, func() time.Duration {
					scene := newScene(t)
					env := inPane(t, scene, "w1:p1")
					if tc.hang != nil {
						fault(t, scene, fakeherdr.Hang, tc.hang...)
					}
					h := startProgram(t, env, binaries.server, tc.args...)
					if tc.wait {
						reading(t, h)
					} else {
						_, _ = io.WriteString(h.stdin, sendArgs)
						h.stdin.Close()
						awaitCalls(t, scene, 1, tc.hang...)
					}
					pids := env.alive()
					begun := time.Now()
					if err := h.cmd.Process.Signal(s); err != nil {
						t.Fatal(err)
					}
					eventually(t, "the end of all processes", func() bool { return len(env.living(pids)) == 0 })
					took := time.Since(begun)
					if code := h.wait(); code == 0 {
						t.Error("exit 0, as if it had done its work")
					}
					if left := env.alive(); len(left) > 0 {
						t.Errorf("left behind: %d", left)
					}
					return took
				})
			})
		}
	}
}

// reading waits until the process waits for its input: all its threads sleep,
// and it has had the time for it to matter.
func reading(t *testing.T, h *host) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells what a process waits for")
	}
	eventually(t, "a process that reads", func() bool {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", h.cmd.Process.Pid))
		for _, task := range tasks {
			// "0 0x0 …" on amd64, "63 0x0 …" on arm64: read(0, …)
			data, _ := os.ReadFile(task)
			if words := bytes.Fields(data); len(words) > 1 && string(words[1]) == "0x0" && (string(words[0]) == "0" || string(words[0]) == "63") {
				return true
			}
		}
		return waitsInPoll(h.cmd.Process.Pid)
	})
}

// waitsInPoll reports whether the process watches its stdin with epoll.
func waitsInPoll(pid int) bool {
	infos, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	for _, info := range infos {
		data, _ := os.ReadFile(info)
		for line := range bytes.Lines(data) {
			if words := bytes.Fields(line); len(words) > 1 && string(words[0]) == "tfd:" && string(words[1]) == "0" {
				return true
			}
		}
	}
	return false
}
