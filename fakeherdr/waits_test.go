package fakeherdr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A waiting call has begun to wait.
type waiting struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

func startWait(t *testing.T, s *Scene, args ...string) *waiting {
	t.Helper()
	w := &waiting{cmd: herdr(s, args...)}
	w.cmd.Stdout, w.cmd.Stderr = &w.stdout, &w.stderr
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(patience, func() { w.cmd.Process.Kill() })
	t.Cleanup(func() { stop.Stop(); w.cmd.Process.Kill() })
	waitFor(t, "wait", func() bool {
		for _, c := range calls(t, s) {
			if c.PID == w.cmd.Process.Pid && (c.Waits || c.Done) {
				return true
			}
		}
		return false
	})
	return w
}

// end returns the state in a call's answer, or the code of its error.
func (w *waiting) end(t *testing.T) string {
	t.Helper()
	_ = w.cmd.Wait()
	var reply struct {
		Result struct {
			Agent       agentRecord
			MatchedLine string `json:"matched_line"`
		}
		Error failure
	}
	if err := json.Unmarshal(append(w.stdout.Bytes(), w.stderr.Bytes()...), &reply); err != nil {
		t.Fatalf("%s%s: %v", &w.stdout, &w.stderr, err)
	}
	return reply.Error.Code + reply.Result.Agent.AgentStatus + reply.Result.MatchedLine
}

// A wait goes on until the world is as it wants it, and no longer.
func TestWaits(t *testing.T) {
	status := func(states ...string) func(*World) {
		return func(w *World) {
			p := w.Pane("w1:p1")
			for i, state := range states {
				if p.Agent.Status = state; i < len(states)-1 {
					w.count(p) // the last is counted by the scene
				}
			}
		}
	}
	for name, test := range map[string]struct {
		args string
		then []func(*World) // changes, one after the other
		want string
		from func(*World) // how the world is when it begins
	}{
		"a state":                   {"agent wait lead --until blocked", []func(*World){status(Working), status(Blocked)}, "blocked", nil},
		"one of several states":     {"agent wait lead --until blocked --until working", []func(*World){status(Unknown), status(Working)}, "working", nil},
		"settled, without a word":   {"agent wait reviewer", []func(*World){func(w *World) { w.Pane("w1:p2").Agent.Status = Done }}, "done", nil},
		"a state that passed":       {"agent wait lead --until working", []func(*World){status(Working, Idle)}, "working", nil},
		"the state of another":      {"agent wait lead --until done --timeout 100", []func(*World){func(w *World) { w.Pane("w2:p1").Agent.Status = Done }}, "timeout", nil},
		"its pane closes":           {"agent wait lead --until working", []func(*World){func(w *World) { w.close(w.Pane("w1:p1")) }}, "agent_not_running", nil},
		"another agent comes":       {"agent wait w1:p1 --until working", []func(*World){func(w *World) { w.Pane("w1:p1").Agent = &Agent{Kind: "codex", Status: Working} }}, "agent_not_running", nil},
		"another gets the name":     {"agent wait lead --until working", []func(*World){func(w *World) { w.Pane("w1:p1").Agent.Name, w.Pane("w1:p2").Agent.Name = "", "lead" }}, "agent_not_running", nil},
		"it moves in its workspace": {"agent wait lead --until working", []func(*World){func(w *World) { w.Move("w1:p1", "w1") }}, "agent_not_running", nil},
		"renamed, asked by pane":    {"agent wait w1:p1 --until working", []func(*World){func(w *World) { w.Pane("w1:p1").Agent.Name = "x" }, status(Working)}, "working", nil},

		"output": {"pane wait-output w1:p4 --match ready", []func(*World){func(w *World) { w.Pane("w1:p4").Text = []string{"not yet"} },
			func(w *World) { w.Pane("w1:p4").Text = []string{"not yet", "it is ready now"} }}, "it is ready now", nil},
		"a regular expression":      {"pane wait-output w1:p4 --regex ^done:[0-9]+$", []func(*World){func(w *World) { w.Pane("w1:p4").Text = []string{"done:?", "done:17"} }}, "done:17", nil},
		"output in a row":           {"pane wait-output w1:p4 --match cdef", []func(*World){func(w *World) { w.Pane("w1:p4").Cols, w.Pane("w1:p4").Text = 4, []string{"abcdef"} }}, "abcdef", nil},
		"output cut by a row":       {"pane wait-output w1:p4 --match cdef --source visible --timeout 100", nil, "timeout", func(w *World) { w.Pane("w1:p4").Cols, w.Pane("w1:p4").Text = 4, []string{"abcdef"} }},
		"output above what is read": {"pane wait-output w1:p4 --match ready --lines 12 --timeout 100", nil, "timeout", func(w *World) { w.Pane("w1:p4").Text = append([]string{"ready"}, make([]string, 12)...) }},
		"the pane closes":           {"pane wait-output w1:p4 --match ready", []func(*World){func(w *World) { w.close(w.Pane("w1:p4")) }}, "pane_not_found", nil},
		"the pane moves":            {"pane wait-output w1:p4 --match ready", []func(*World){func(w *World) { w.Move("w1:p4", "w2").Text = []string{"ready"} }}, "ready", nil},
		"no pane":                   {"pane wait-output w1:p9 --match ready", nil, "pane_not_found", nil},
		"no expression":             {"pane wait-output w1:p4 --regex a(b", nil, "invalid_regex", nil},

		"a prompt that is worked on":  {"agent prompt lead hello --wait", []func(*World){status(Working), status(Done)}, "done", nil},
		"a prompt to one that works":  {"agent prompt builder hello --wait", []func(*World){func(w *World) { w.Pane("w2:p1").Agent.Status = Idle }}, "idle", nil},
		"a prompt that blocks":        {"agent prompt lead hello --wait", []func(*World){status(Working), status(Blocked)}, "blocked", nil},
		"a prompt, until it works":    {"agent prompt lead hello --wait --until working", []func(*World){status(Blocked), status(Working)}, "working", nil},
		"a prompt, and it leaves":     {"agent prompt lead hello --wait", []func(*World){status(Working), func(w *World) { w.Pane("w1:p1").Agent = nil }}, "agent_not_running", nil},
		"a prompt, and nothing":       {"agent prompt lead hello --wait --timeout 200000", nil, "agent_prompt_stalled", func(w *World) { w.StallAfter, w.Haste = 2*time.Second, 20 }},
		"a prompt, and still at work": {"agent prompt builder hello --wait --timeout 4000", nil, "timeout", func(w *World) { w.StallAfter, w.Haste = 2*time.Second, 20 }},
		"a prompt, and no patience":   {"agent prompt lead hello --wait --timeout 100", nil, "timeout", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			update(t, s, func(w *World) {
				work(w.Pane("w1:p2"))
				work(w.Pane("w2:p1"))
				w.EnterDelay, w.StallAfter = 0, patience
				if test.from != nil {
					test.from(w)
				}
			})
			call := startWait(t, s, strings.Fields(test.args)...)
			for _, then := range test.then {
				update(t, s, then)
			}
			if got := call.end(t); got != test.want {
				t.Errorf("%s, want %s\n%s%s", got, test.want, &call.stdout, &call.stderr)
			}
		})
	}
}

// An Enter that comes after a while may be what a wait waits for; a prompt that
// nobody saw was delivered all the same.
func TestWaitForEnter(t *testing.T) {
	s := newScene(t)
	update(t, s, func(w *World) { w.EnterDelay = 100 * time.Millisecond; w.Pane("w1:p1").Agent.Status = Blocked })
	mustRun(t, s, "agent", "prompt", "lead", "1", "--wait", "--until", "idle")
	update(t, s, func(w *World) { w.Pane("w1:p1").Agent.Status = Blocked })
	mustRun(t, s, "agent", "prompt", "lead", "2")
	mustRun(t, s, "agent", "wait", "lead", "--until", "idle")
	wantCode(t, s, "timeout", "agent", "prompt", "lead", "3", "--wait", "--timeout", "150")
	if got := fmt.Sprintf("%q", texts(t, s, "w1:p1", time.Now())); got != `["dialog:1" "dialog:2" "3"]` {
		t.Errorf("received %s", got)
	}
}

// Faults hit calls that wait as they hit the others: a prompt is there when its
// call dies, and none is when a call hangs.
func TestWaitsAndFaults(t *testing.T) {
	s := faulty(t, Fault{Kind: DieAfter, Match: []string{"agent", "prompt"}})
	call := startWait(t, s, "agent", "prompt", "lead", "hello", "--wait", "--until", "working")
	if !acted(t, s) {
		t.Error("it waits, but nothing was typed")
	}
	update(t, s, func(w *World) { work(w.Pane("w1:p1")) })
	if err := call.cmd.Wait(); err == nil || call.stdout.Len()+call.stderr.Len() > 0 {
		t.Errorf("%v: %s%s", err, &call.stdout, &call.stderr)
	}
	update(t, s, func(w *World) { w.Faults = []Fault{{Kind: ErrorCode, Code: "strange"}} })
	for _, args := range [][]string{
		{"workspace", "list"}, {"tab", "create"}, {"pane", "layout"}, {"pane", "read", "w1:p1"}, {"pane", "run", "w1:p1", "x"},
		{"pane", "wait-output", "w1:p1", "--match", "x"}, {"agent", "wait", "lead"}, {"agent", "start", "x", "--kind", "pi", "--pane", "w1:p4"},
		{"agent", "explain", "lead", "--json"},
	} {
		wantCode(t, s, "strange", args...)
	}
	if out := mustRun(t, s, "integration", "status"); !strings.Contains(out, "claude: not installed") {
		t.Errorf("a call that needs no server: %q", out)
	}
}

// Nothing is left of a call that waits for ever when the scene has gone.
func TestWaitEndsWithTheScene(t *testing.T) {
	s := newScene(t)
	call := startWait(t, s, "agent", "wait", "lead", "--until", "working")
	if err := os.Remove(filepath.Join(s.Dir(), worldFile)); err != nil {
		t.Fatal(err)
	}
	if err := call.cmd.Wait(); err == nil {
		t.Error("exit 0")
	}
	if call.stdout.Len()+call.stderr.Len() > 0 {
		t.Errorf("%s%s", &call.stdout, &call.stderr)
	}
}
