package fakeherdr

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

func faulty(t *testing.T, f Fault) *Scene {
	t.Helper()
	s := newScene(t)
	update(t, s, func(w *World) { w.EnterDelay = 0; w.Faults = []Fault{f} })
	return s
}

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// waitFor looks until it sees what it looks for, or gives up.
func waitFor(t *testing.T, what string, seen func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !seen(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
	}
}

func acted(t *testing.T, s *Scene) bool { return len(texts(t, s, "w1:p1", later())) > 0 }

// Faults in which the process ends by itself.
func TestFaultsThatAnswer(t *testing.T) {
	isJSON := func(s string) bool { return json.Valid([]byte(s)) }
	ok := func(out, _ string) bool { return strings.Contains(out, `"type":"agent_prompted"`) }
	for name, test := range map[string]struct {
		fault Fault
		exit  int
		acts  bool
		says  func(stdout, stderr string) bool
	}{
		"slow":    {Fault{Kind: Slow}, 0, true, ok},
		"garbage": {Fault{Kind: Garbage}, 0, false, func(out, err string) bool { return out != "" && !isJSON(out) && err == "" }},
		"empty":   {Fault{Kind: Empty}, 0, false, func(out, err string) bool { return out+err == "" }},
		"shape": {Fault{Kind: Shape}, 0, false, func(out, err string) bool {
			var v struct {
				Result struct{ Agent struct{ Name string } }
			}
			return isJSON(out) && json.Unmarshal([]byte(out), &v) != nil && err == ""
		}},
		"shape of one's own": {Fault{Kind: Shape, Text: "[]"}, 0, false, func(out, _ string) bool { return out == "[]" }},
		"exit2": {Fault{Kind: Exit2}, 2, false, func(out, err string) bool {
			return out == "" && err == "unknown command: agent\nrun 'herdr --help' for usage\n"
		}},
		"debug": {Fault{Kind: Debug}, 1, false, func(out, err string) bool { return out == "" && strings.HasPrefix(err, "Error: Custom {") }},
		"down":  {Fault{Kind: Down}, 1, false, func(_, err string) bool { return strings.Contains(err, `"code":"server_not_running"`) }},
		"mismatch": {Fault{Kind: Mismatch}, 1, false, func(_, err string) bool {
			return strings.Contains(err, `"code":"protocol_mismatch"`)
		}},
		"code": {Fault{Kind: ErrorCode, Code: "agent_not_ready", Text: "wait a bit"}, 1, false, func(out, err string) bool {
			return out == "" && err == `{"error":{"code":"agent_not_ready","message":"wait a bit"},"id":"cli:agent:prompt"}`+"\n"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := faulty(t, test.fault)
			cmd := herdr(s, "agent", "prompt", "lead", "hello")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); cmd.ProcessState == nil {
				t.Fatal(err)
			}
			if exit := cmd.ProcessState.ExitCode(); exit != test.exit || !test.says(stdout.String(), stderr.String()) {
				t.Errorf("exit %d, stdout %q, stderr %q", exit, &stdout, &stderr)
			}
			if acted(t, s) != test.acts {
				t.Errorf("acted: %t", !test.acts)
			}
			if c := calls(t, s); len(c) != 1 || !c[0].Done || c[0].Exit != test.exit {
				t.Errorf("journal: %+v", c)
			}
		})
	}
}

func TestDelay(t *testing.T) {
	const delay = 150 * time.Millisecond
	s := faulty(t, Fault{Kind: Slow, Delay: delay})
	begin := time.Now()
	mustRun(t, s, "agent", "get", "lead")
	if took := time.Since(begin); took < delay {
		t.Errorf("took only %v", took)
	}
}

// A fault hits what it matches, the first that does, and as often as it says.
func TestFaultMatches(t *testing.T) {
	s := newScene(t)
	update(t, s, func(w *World) {
		w.Faults = []Fault{
			{Kind: ErrorCode, Code: "first", Match: []string{"agent", "get"}, Left: 2},
			{Kind: ErrorCode, Code: "second", Match: []string{"agent"}},
			{Kind: ErrorCode, Code: "third", Match: []string{"pane", "get", "w1:p1", "too", "long"}},
		}
	})
	wantCode(t, s, "first", "agent", "get", "lead")
	wantCode(t, s, "second", "agent", "list")
	wantCode(t, s, "server_not_running", "agent", "--session=other", "get", "lead") // the fault is hit behind the option
	wantCode(t, s, "second", "agent", "get", "lead")
	wantCode(t, s, "second", "agent", "get", "lead")
	mustRun(t, s, "pane", "get", "w1:p1")
	if f := world(t, s).Faults; len(f) != 2 {
		t.Errorf("left: %+v", f)
	}
}

// What needs no server does not notice that there is none.
func TestDownStaysBehindUsage(t *testing.T) {
	s := faulty(t, Fault{Kind: Down})
	if out := mustRun(t, s, "--version"); out != "herdr 0.8.0\n" {
		t.Errorf("--version: %q", out)
	}
	cmd := herdr(s, "agent", "get")
	if out, _ := cmd.CombinedOutput(); string(out) != "usage: herdr agent get <target>\n" {
		t.Errorf("%q", out)
	}
}

// Faults in which the process does not end by itself.
func TestFaultsThatHang(t *testing.T) {
	for _, test := range []struct {
		kind string
		acts bool
	}{{Hang, false}, {HangAfter, true}} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			s := faulty(t, Fault{Kind: test.kind})
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			hanging := herdr(s, "agent", "prompt", "lead", "hello")
			cmd := exec.CommandContext(ctx, hanging.Path, hanging.Args[1:]...)
			cmd.Env = hanging.Env
			out, err := cmd.CombinedOutput()
			if ctx.Err() == nil || err == nil || len(out) != 0 {
				t.Errorf("ended by itself: %v, %q", err, out)
			}
			if acted(t, s) != test.acts {
				t.Errorf("acted: %t", !test.acts)
			}
			if c := calls(t, s); len(c) != 1 || c[0].Done || c[0].Exit != -1 || c[0].PID != cmd.Process.Pid {
				t.Errorf("journal: %+v, want pid %d", c, cmd.Process.Pid)
			}
		})
	}
}

// Nothing is left behind when a test forgets a hanging call.
func TestHangEndsWithTheScene(t *testing.T) {
	s := faulty(t, Fault{Kind: Hang})
	cmd := herdr(s, "agent", "list")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(patience, func() { cmd.Process.Kill(); t.Error("killed") }).Stop()
	waitFor(t, "call", func() bool { return len(calls(t, s)) == 1 })
	if err := os.Remove(s.dir + "/" + worldFile); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("exit 0")
	}
}

func TestFlood(t *testing.T) {
	for _, kind := range []string{Flood, FloodStderr} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := faulty(t, Fault{Kind: kind})
			cmd := herdr(s, "agent", "prompt", "lead", "hello")
			pipe, open := cmd.StdoutPipe, 1
			if kind == FloodStderr {
				pipe, open = cmd.StderrPipe, 2
			}
			r, err := pipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer time.AfterFunc(patience, func() { cmd.Process.Kill() }).Stop()
			if n, err := io.CopyN(io.Discard, r, 8<<20); err != nil {
				t.Errorf("only %d bytes on %d: %v", n, open, err)
			}
			r.Close() // nobody reads: the flood ends
			if err := cmd.Wait(); err == nil {
				t.Error("exit 0")
			}
			if acted(t, s) {
				t.Error("acted")
			}
		})
	}
}

func TestDie(t *testing.T) {
	for _, test := range []struct {
		kind string
		acts bool
	}{{Die, false}, {DieAfter, true}} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			s := faulty(t, Fault{Kind: test.kind})
			cmd := herdr(s, "agent", "prompt", "lead", "hello")
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !killed(exit) || len(out) != 0 {
				t.Errorf("%v, %q", err, out)
			}
			if acted(t, s) != test.acts {
				t.Errorf("acted: %t", !test.acts)
			}
			if c := calls(t, s); len(c) != 1 || c[0].Done {
				t.Errorf("journal: %+v", c)
			}
		})
	}
}

// A grandchild outlives a call that went well, and holds its pipes or not.
func TestGrandchild(t *testing.T) {
	for _, test := range []struct {
		kind  string
		holds bool
	}{{Grandchild, true}, {GrandchildDetached, true}, {GrandchildQuiet, false}} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			s := faulty(t, Fault{Kind: test.kind})
			cmd := herdr(s, "agent", "prompt", "lead", "hello")
			newGroup(cmd)
			outEnds, errEnds := pipeTo(t, &cmd.Stdout), pipeTo(t, &cmd.Stderr)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			cmd.Stdout.(*os.File).Close()
			cmd.Stderr.(*os.File).Close()
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			journal := calls(t, s)
			if len(journal) != 1 || !journal[0].Done || journal[0].Child == 0 || !acted(t, s) {
				t.Fatalf("journal: %+v, acted: %t", journal, acted(t, s))
			}
			child, err := os.FindProcess(journal[0].Child)
			if err != nil {
				t.Fatal(err)
			}
			defer child.Kill()
			checkGroup(t, test.kind, cmd.Process.Pid, child.Pid)
			if test.holds {
				// Only an end that comes can be waited for; none may come here.
				select {
				case out := <-outEnds:
					t.Fatalf("stdout ended with %q", out)
				case err := <-errEnds:
					t.Fatalf("stderr ended with %q", err)
				case <-time.After(200 * time.Millisecond):
				}
			} else if out, err := <-outEnds, <-errEnds; !strings.Contains(out, "agent_prompted") || err != "" {
				t.Errorf("%q, %q", out, err)
			}
			checkAlive(t, child)
			if err := child.Kill(); err != nil {
				t.Error(err)
			}
			if test.holds {
				if out, err := <-outEnds, <-errEnds; !strings.Contains(out, "agent_prompted") || err != "" {
					t.Errorf("%q, %q", out, err)
				}
			}
			if journal := calls(t, s); len(journal) != 1 || !slices.Equal(journal[0].Args, cmd.Args[1:]) {
				t.Errorf("the grandchild is in the journal: %+v", journal)
			}
		})
	}
}

// pipeTo sets stream to a new pipe and returns what comes through it, when it
// has come to its end.
func pipeTo(t *testing.T, stream *io.Writer) <-chan string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	*stream = w
	ended := make(chan string, 1)
	go func() {
		data, _ := io.ReadAll(r)
		ended <- string(data)
	}()
	stop := time.AfterFunc(patience, func() { r.Close(); t.Error("a pipe has no end") })
	t.Cleanup(func() { stop.Stop(); r.Close() })
	return ended
}
