package herdrcli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

func TestBinary(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Executable by its mode on Unix, by its name on Windows: it does not start.
	broken := filepath.Join(dir, "broken.exe")
	if err := os.WriteFile(broken, []byte("\x7fELF no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "herdr.cmd")
	if err := os.WriteFile(script, []byte("@exit /b 0"), 0o600); err != nil {
		t.Fatal(err)
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	there, err := filepath.Rel(wd, executableFile(t))
	if err != nil {
		there = "herdr" // on another drive
	}
	for name, bin := range map[string]string{
		"none":            "",
		"missing":         filepath.Join(dir, "missing"),
		"relative":        "herdr",
		"relative, there": there,
		"relative path":   "." + string(filepath.Separator) + "herdr",
		"folder":          dir,
		"not executable":  text,
		"below a file":    filepath.Join(text, "herdr"),
		"broken":          broken,
		"shell script":    script,
	} {
		_, err := New(Options{Bin: bin, Environ: quick(roleVariable + "=print")}).AgentGet(t.Context(), "lead")
		if e := asError(t, err); !errors.Is(err, ErrBinary) || e.Started || e.Exit != -1 || e.Code != "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// Each fault of a Herdr has its class. Started says that it may have acted.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault fakeherdr.Fault
		cause error
		code  string
		exit  int
		acted bool
	}{
		{fakeherdr.Fault{Kind: fakeherdr.Slow, Delay: time.Millisecond}, nil, "", 0, true},
		{fakeherdr.Fault{Kind: fakeherdr.Garbage}, ErrOutput, "", 0, false},
		{fakeherdr.Fault{Kind: fakeherdr.Empty}, ErrOutput, "", 0, false},
		{fakeherdr.Fault{Kind: fakeherdr.Shape}, ErrOutput, "", 0, false},
		{fakeherdr.Fault{Kind: fakeherdr.Exit2}, ErrOutput, "", 2, false},
		{fakeherdr.Fault{Kind: fakeherdr.Debug}, ErrOutput, "", 1, false},
		{fakeherdr.Fault{Kind: fakeherdr.Down}, ErrRefused, "server_not_running", 1, false},
		{fakeherdr.Fault{Kind: fakeherdr.Mismatch}, ErrRefused, "protocol_mismatch", 1, false},
		{fakeherdr.Fault{Kind: fakeherdr.Mismatch, Protocol: 19}, ErrRefused, "protocol_mismatch", 1, false},
		{fakeherdr.Fault{Kind: fakeherdr.ErrorCode, Code: "agent_not_ready"}, ErrRefused, "agent_not_ready", 1, false},
		{fakeherdr.Fault{Kind: fakeherdr.Die}, ErrOutput, "", dead, false},
		{fakeherdr.Fault{Kind: fakeherdr.DieAfter}, ErrOutput, "", dead, true},
		{fakeherdr.Fault{Kind: fakeherdr.Hang}, ErrTimeout, "", -1, false},
		{fakeherdr.Fault{Kind: fakeherdr.HangAfter}, ErrTimeout, "", -1, true},
		{fakeherdr.Fault{Kind: fakeherdr.FloodStderr}, ErrTimeout, "", -1, false},
		{fakeherdr.Fault{Kind: fakeherdr.Flood}, ErrOutput, "", -1, false},
	} {
		t.Run(test.fault.Kind, func(t *testing.T) {
			t.Parallel()
			slower(t, func(d time.Duration) bool {
				o := Options{Timeout: time.Minute}
				if test.cause == ErrTimeout {
					o.Timeout = d
				}
				s, c := newScene(t, o, test.fault)
				err := c.AgentPrompt(t.Context(), "lead", "hello")
				if test.cause == nil {
					if err != nil {
						t.Error(err)
					}
				} else if e := asError(t, err); !errors.Is(err, test.cause) || e.Code != test.code || e.Exit != test.exit || !e.Started || e.Command != "agent prompt" {
					t.Errorf("%+v", e)
				}
				journal := calls(t, s)
				acted := submitted(t, s, "w1:p1") != nil
				if test.cause == ErrTimeout && (len(journal) == 0 || !acted && test.acted) {
					return false
				}
				if acted != test.acted {
					t.Errorf("acted: %t", acted)
				}
				if len(journal) != 1 {
					t.Fatalf("journal: %+v", journal)
				}
				if alive(journal[0].PID) { // at once: the call has reaped it
					t.Error("the child is still there")
				}
				return true
			})
		})
	}
}

// slower runs attempt with a time for Herdr that doubles until it is long enough
// to get going: how long that takes is the machine's affair.
func slower(t *testing.T, attempt func(time.Duration) (gotGoing bool)) {
	t.Helper()
	for d := time.Second; !attempt(d); d *= 2 {
		if d > patience {
			t.Fatal("Herdr never gets going")
		}
	}
}

// A call that is given up kills all of its processes, and waits for their end.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		give  func(c *Client, d time.Duration) (context.Context, context.CancelFunc)
		cause error
	}{
		{"time-out", func(c *Client, d time.Duration) (context.Context, context.CancelFunc) {
			c.timeout = d
			return context.WithCancel(t.Context())
		}, ErrTimeout},
		{"caller's deadline", func(_ *Client, d time.Duration) (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), d)
		}, ErrTimeout},
		{"cancel", func(*Client, time.Duration) (context.Context, context.CancelFunc) {
			return context.WithCancel(t.Context())
		}, context.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			slower(t, func(d time.Duration) bool {
				file := filepath.Join(t.TempDir(), "pids")
				c := New(Options{Bin: executableFile(t), Timeout: time.Minute,
					Environ: quick(roleVariable+"=parent", fileVariable+"="+file)})
				ctx, stop := test.give(c, d)
				defer stop()
				ended := make(chan error, 1)
				go func() { ended <- c.PaneClose(ctx, "w1:p1") }()
				var child, grandchild int
				written := func() bool {
					pids, err := os.ReadFile(file)
					if err != nil {
						return false
					}
					_, err = fmt.Sscan(string(pids), &child, &grandchild)
					return err == nil
				}
				if test.cause == context.Canceled {
					waitFor(t, "the pids", written)
					stop()
				}
				err := <-ended
				if e := asError(t, err); !errors.Is(err, test.cause) || !e.Started || e.Exit != -1 || e.Code != "" {
					t.Errorf("%+v", e)
				}
				if !written() {
					return false
				}
				if alive(child) {
					t.Error("the child has not been reaped")
				}
				waitFor(t, "the grandchild's end", func() bool { return !alive(grandchild) })
				return true
			})
		})
	}
}

// A caller that gave up before does not even start Herdr.
func TestGivenUpBefore(t *testing.T) {
	t.Parallel()
	s, c := newScene(t, Options{})
	reason := errors.New("a reason")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(reason)
	err := c.PaneClose(ctx, "w1:p1")
	if e := asError(t, err); !errors.Is(err, reason) || e.Started || e.Exit != -1 {
		t.Errorf("%+v", e)
	}
	if got := argvs(t, s); got != "" {
		t.Errorf("Herdr was called:\n%s", got)
	}
}

// What Herdr leaves behind neither delays its answer nor survives it, unless it
// has left the process group.
func TestGrandchild(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{fakeherdr.Grandchild, fakeherdr.GrandchildQuiet, fakeherdr.GrandchildDetached} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, c := newScene(t, Options{Timeout: patience}, fakeherdr.Fault{Kind: kind})
			begun := time.Now()
			agent, err := c.AgentGet(t.Context(), "lead")
			if err != nil || agent.PaneID != "w1:p1" {
				t.Errorf("%+v, %v", agent, err)
			}
			if took := time.Since(begun); took > patience/2 {
				t.Errorf("the call waited for the grandchild: %v", took)
			}
			journal := calls(t, s)
			if len(journal) != 1 || journal[0].Child == 0 {
				t.Fatalf("journal: %+v", journal)
			}
			child := journal[0].Child
			if kind == fakeherdr.GrandchildDetached {
				if runtime.GOOS != "windows" && !alive(child) {
					t.Error("the fault is none: the grandchild in another group is dead")
				}
				return // it ends with the scene
			}
			waitFor(t, "the grandchild's end", func() bool { return !alive(child) })
		})
	}
}

// An argument that the system does not take is neither a missing Herdr nor a
// call that may have happened.
func TestTooLong(t *testing.T) {
	t.Parallel()
	s, c := newScene(t, Options{})
	err := c.AgentPrompt(t.Context(), "lead", strings.Repeat("x", 8<<20))
	if e := asError(t, err); !errors.Is(err, ErrTooLong) || e.Started || e.Exit != -1 {
		t.Errorf("%+v", e)
	}
	if got := argvs(t, s); got != "" {
		t.Errorf("Herdr was called: %.100q", got)
	}
}

// The memory of a flood is bounded by what is kept, not by what came.
func TestFloodMemory(t *testing.T) { // alone: it looks at the memory of the process
	for _, test := range []struct {
		kind  string
		cause error
	}{{fakeherdr.Flood, ErrOutput}, {fakeherdr.FloodStderr, ErrTimeout}} {
		_, c := newScene(t, Options{Timeout: 1500 * time.Millisecond}, fakeherdr.Fault{Kind: test.kind})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := c.PaneClose(t.Context(), "w1:p1")
		runtime.ReadMemStats(&after)
		if !errors.Is(err, test.cause) {
			t.Errorf("%s: %v", test.kind, err)
		}
		// A buffer that doubles until it holds 4 MiB takes some four times that on its way.
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 8*maxStdout {
			t.Errorf("%s: %d bytes allocated", test.kind, grown)
		}
	}
}

func TestOutputKeep(t *testing.T) {
	t.Parallel()
	overflows := 0
	o := output{max: 10, overflow: func() { overflows++ }}
	for _, part := range []string{"12345", "67890"} {
		if o.keep([]byte(part)); overflows != 0 {
			t.Errorf("%d overflows after %d bytes", overflows, o.total)
		}
	}
	for range 3 {
		if o.keep(make([]byte, 100_000)); overflows != 1 {
			t.Errorf("%d overflows after %d bytes", overflows, o.total)
		}
	}
	if o.buf.String() != "1234567890" || o.total != 300_010 {
		t.Errorf("kept %q of %d bytes", &o.buf, o.total)
	}
}

// What stands in the pipe when the child has ended is read, also when something
// else holds the pipe open and nobody has come to read it in time.
func TestOutputFinish(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a pipe there cannot be read without waiting")
	}
	o := output{max: 10_000, done: make(chan struct{})}
	if err := o.open(); err != nil {
		t.Fatal(err)
	}
	defer o.close() // open until here
	if _, err := o.w.Write(make([]byte, 9_000)); err != nil {
		t.Fatal(err)
	}
	raw, err := o.r.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	go func() { // a reader that has read nothing when its time is over
		for raw.Read(func(uintptr) bool { return true }) == nil {
			time.Sleep(time.Millisecond)
		}
		close(o.done)
	}()
	over := make(chan struct{})
	close(over)
	o.finish(over)
	if o.total != 9_000 {
		t.Errorf("%d bytes, want 9000", o.total)
	}
}

// An answer of just the limit is taken, and not a byte more.
func TestLimit(t *testing.T) {
	t.Parallel()
	c := role(t, "print", outVariable+"="+`{"result":{"type":"ok"}}`)
	if err := c.PaneClose(t.Context(), "w1:p1"); err != nil {
		t.Fatal(err)
	}
	long := `{"result":{"type":"ok","x":"` + strings.Repeat("x", maxStdout-len(`{"result":{"type":"ok","x":""}}`)) + `"}}`
	for size, text := range map[int]string{maxStdout: long, maxStdout + 1: long + " "} {
		_, c := newScene(t, Options{}, fakeherdr.Fault{Kind: fakeherdr.Garbage, Text: text})
		err := c.PaneClose(t.Context(), "w1:p1")
		if size > maxStdout && !errors.Is(err, ErrOutput) || size == maxStdout && err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// The environment goes through, but for two variables that must not be empty.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		vars, gone []string
	}{
		{vars: []string{"HERDR_SOCKET_PATH=/run/x", "HERDR_SESSION=work", "EMPTY=", "HERDR_WORKSPACE_ID=", "ODD=a=b"}},
		{vars: []string{"HERDR_SESSION=work"}, gone: []string{"HERDR_SOCKET_PATH"}},
		{vars: []string{"HERDR_SOCKET_PATH=/run/x"}, gone: []string{"HERDR_SESSION"}},
		{gone: []string{"HERDR_SOCKET_PATH", "HERDR_SESSION"}},
	} {
		environ := slices.DeleteFunc(quick(roleVariable+"=report"), func(v string) bool {
			return strings.HasPrefix(v, "HERDR_SOCKET_PATH=") || strings.HasPrefix(v, "HERDR_SESSION=")
		})
		environ = append(environ, test.vars...)
		for _, name := range test.gone {
			environ = append(environ, name+"=")
		}
		given := slices.Clone(environ)
		c := New(Options{Bin: executableFile(t), Environ: environ})
		if !slices.Equal(given, environ) {
			t.Error("New changed the environment that it was given")
		}
		agent, err := c.AgentGet(t.Context(), "lead")
		if err != nil {
			t.Fatal(err)
		}
		var r reported
		if err := json.Unmarshal([]byte(agent.Name), &r); err != nil {
			t.Fatal(err)
		}
		if !r.StdinNull {
			t.Error("stdin is not the null device")
		}
		for _, v := range test.vars {
			if !slices.Contains(r.Environ, v) {
				t.Errorf("%s did not arrive", v)
			}
		}
		for _, name := range test.gone {
			if slices.ContainsFunc(r.Environ, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
				t.Errorf("an empty %s arrived", name)
			}
		}
	}
}

// Many calls at a time do not get into each other's way.
func TestParallelCalls(t *testing.T) {
	t.Parallel()
	_, c := newScene(t, Options{})
	errs := make(chan error)
	const n = 12
	for i := range n {
		go func() {
			want := []string{"lead", "reviewer", "builder"}[i%3]
			a, err := c.AgentGet(t.Context(), want)
			if err == nil && a.Name != want {
				err = fmt.Errorf("%s for %s", a.Name, want)
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// An Error has nothing in it that Herdr wrote but its code.
func TestErrorText(t *testing.T) {
	t.Parallel()
	s, c := newScene(t, Options{}, fakeherdr.Fault{Kind: fakeherdr.ErrorCode, Code: "agent_not_ready", Text: "w1:p1 in term_1"})
	if err := c.AgentPrompt(t.Context(), "lead", "hello"); err == nil || err.Error() != "herdr agent prompt: refused by herdr (agent_not_ready)" {
		t.Errorf("%v", err)
	}
	update(t, s, func(w *fakeherdr.World) { w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Debug}} })
	if _, err := c.AgentGet(t.Context(), "w1:p1"); err == nil || err.Error() != "herdr agent get: unexpected output of herdr" {
		t.Errorf("%v", err)
	}
}

// An answer that was there in time counts, although the pipe is held open beyond it.
func TestAnswerInTheLastMoment(t *testing.T) {
	t.Parallel()
	for range 50 {
		_, c := newScene(t, Options{})
		begun := time.Now()
		if _, err := c.AgentList(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Enough for the call, and less than with what is left to a held pipe.
		limit := time.Since(begun) + pipeGrace/2
		_, c = newScene(t, Options{Timeout: limit}, fakeherdr.Fault{Kind: fakeherdr.GrandchildDetached})
		begun = time.Now()
		if _, err := c.AgentList(t.Context()); err == nil && time.Since(begun) > limit {
			return
		}
	}
	t.Error("no answer outlived its time, in 50 tries")
}
