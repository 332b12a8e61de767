package herdrcli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestExec(t *testing.T) {
	t.Parallel()
	out := role(t, "print", outVariable+"=to \xff stdout", errVariable+"=to stderr", exitVariable+"=7").Exec(t.Context(), 0, "a", "b")
	if out.Exit != 7 || string(out.Stdout) != "to \xff stdout" || string(out.Stderr) != "to stderr" || !out.Started || out.Err != nil || out.Took <= 0 {
		t.Errorf("%+v", out)
	}
}

func TestExecTooMuch(t *testing.T) {
	t.Parallel()
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, []byte(strings.Repeat("x", maxStdout+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, stream := range []string{"stdout", "stderr"} {
		out := role(t, "pour", fileVariable+"="+big, outVariable+"="+stream).Exec(t.Context(), 0, "x")
		if !errors.Is(out.Err, ErrTooMuch) || out.Exit != -1 || !out.Started || len(out.Stdout) > maxStdout || len(out.Stderr) > maxStdout {
			t.Errorf("%s: exit %d, %v, %d and %d bytes", stream, out.Exit, out.Err, len(out.Stdout), len(out.Stderr))
		}
	}
}

// A child that has to end is asked first, and killed if it does not.
func TestExecEnds(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be asked to end there")
	}
	for name, want := range map[string]string{"polite": "ready asked", "stubborn": "ready"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "alive")
			c := role(t, name, fileVariable+"="+file)
			out := c.Exec(t.Context(), 8*time.Second, "x")
			if !errors.Is(out.Err, ErrTimeout) || out.Exit != -1 || string(out.Stdout) != want {
				t.Errorf("time-out: exit %d, %v, %q", out.Exit, out.Err, out.Stdout)
			}
			gone := errors.New("gone")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(gone)
			if out := c.Exec(ctx, 0, "x"); !errors.Is(out.Err, gone) || out.Started {
				t.Errorf("cancelled: %+v", out)
			}
		})
	}
}

func TestExecBinary(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := "herdr"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	hit, miss := filepath.Join(dir, "hit"), filepath.Join(dir, "miss")
	for _, d := range []string{hit, miss} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(hit, name)
	if err := os.Link(executableFile(t), program); err != nil {
		if err = os.Symlink(executableFile(t), program); err != nil {
			t.Skip(err)
		}
	}
	text := filepath.Join(miss, name)
	if err := os.WriteFile(text, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	list := func(dirs ...string) string { return strings.Join(dirs, string(filepath.ListSeparator)) }
	for _, test := range []struct {
		name, bin, path, want string
		err                   error
	}{
		{"named", program, "", program, nil},
		{"on PATH", "", list("", ".", filepath.Join(dir, "none"), miss, hit), program, nil},
		{"named wins", text, hit, text, ErrBinary},
		{"relative, whatever PATH has", name, hit, name, ErrBinary},
		{"not on PATH", "", miss, "", ErrNotFound},
		{"only below the current folder", "", ".", "", ErrNotFound},
		{"missing", filepath.Join(dir, "none"), hit, filepath.Join(dir, "none"), ErrNotFound},
		{"nothing named, no PATH", "", "", "", ErrNotFound},
	} {
		c := New(Options{Bin: test.bin, Path: test.path, Environ: quick(roleVariable + "=print")})
		got, err := c.Binary()
		if got != test.want || !errors.Is(err, test.err) || test.err == ErrBinary && errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %q, %v", test.name, got, err)
		}
		out := c.Exec(t.Context(), 0, "x")
		if !errors.Is(out.Err, test.err) || out.Started != (test.err == nil) {
			t.Errorf("%s: %+v", test.name, out)
		}
	}
}

func TestExecReserved(t *testing.T) {
	t.Parallel()
	c := role(t, "print")
	for _, argv := range [][]string{{"agent", "prompt", "lead", "--session=x"}, {"--handoff"}, {"a", "--remote", "--", "b"}} {
		if out := c.Exec(t.Context(), 0, argv...); !errors.Is(out.Err, ErrReserved) || out.Started {
			t.Errorf("%q: %+v", argv, out)
		}
	}
	if out := c.Exec(t.Context(), 0, "agent", "start", "--", "--session=x"); out.Err != nil || out.Exit != 0 {
		t.Errorf("behind --: %+v", out)
	}
}

func TestFailure(t *testing.T) {
	t.Parallel()
	code := []byte(`{"error":{"code":"agent_not_found","message":"x"},"id":"cli:agent:get"}`)
	for name, test := range map[string]struct {
		out  Outcome
		err  error
		code string
	}{
		"well":             {Outcome{Exit: 0, Stderr: code}, nil, ""},
		"refused":          {Outcome{Exit: 1, Stderr: code}, ErrRefused, "agent_not_found"},
		"without a code":   {Outcome{Exit: 1, Stderr: []byte("Error: Os {}")}, ErrOutput, ""},
		"usage":            {Outcome{Exit: 2, Stderr: code}, ErrOutput, ""},
		"killed":           {Outcome{Exit: -1}, ErrOutput, ""},
		"not by itself":    {Outcome{Exit: -1, Err: ErrTimeout, Stderr: code}, ErrTimeout, ""},
		"killed too late":  {Outcome{Exit: 0, Err: ErrTooMuch}, ErrTooMuch, ""},
		"told to end":      {Outcome{Exit: 1, Err: context.Canceled, Stderr: code}, context.Canceled, ""},
		"and has acted":    {Outcome{Exit: 1, Started: true}, ErrOutput, ""},
		"and has not even": {Outcome{Exit: -1, Err: ErrNotFound}, ErrNotFound, ""},
	} {
		err := test.out.Failure("agent get")
		var e *Error
		if !errors.Is(err, test.err) || Code(err) != test.code ||
			err != nil && (!errors.As(err, &e) || e.Command != "agent get" || e.Exit != test.out.Exit || e.Started != test.out.Started) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// program is this binary in that role, as a program that writes to a file.
func program(t *testing.T, name string, vars ...string) (Program, func() string) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := Program{
		Bin: executableFile(t), Dir: dir, Environ: quick(append(vars, roleVariable+"="+name)...),
		Timeout: patience, Stdout: file, MaxStdout: 1 << 20,
	}
	return p, func() string {
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

func TestProgram(t *testing.T) {
	t.Parallel()
	p, stdout := program(t, "print", outVariable+"=to stdout", errVariable+"=to stderr", exitVariable+"=7")
	out := p.Exec(t.Context(), "--session", "is no word of this one's")
	if out.Exit != 7 || out.Err != nil || !out.Started || string(out.Stderr) != "to stderr" || out.Stdout != nil || stdout() != "to stdout" {
		t.Errorf("%+v, %q", out, stdout())
	}
	p, stdout = program(t, "where")
	if p.Exec(t.Context()); stdout() != p.Dir {
		t.Errorf("it runs in %s, not in %s", stdout(), p.Dir)
	}
	for bin, want := range map[string]error{"relative": ErrBinary, filepath.Join(p.Dir, "none"): ErrNotFound, p.Dir: ErrBinary} {
		p.Bin = bin
		if out := p.Exec(t.Context()); !errors.Is(out.Err, want) || out.Started || out.Exit != -1 {
			t.Errorf("%s: %+v", bin, out)
		}
	}
}

// A file may be as large as it may be, and no larger, whether or not the program
// goes on.
func TestProgramTooMuch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		role string // pour never ends by itself
		size int
		want error
	}{
		{"copy", 1 << 20, nil}, {"copy", 1<<20 + 1, ErrTooMuch}, {"pour", 1 << 20, ErrTimeout}, {"pour", 1<<20 + 1, ErrTooMuch},
	} {
		big := filepath.Join(t.TempDir(), "big")
		if err := os.WriteFile(big, make([]byte, test.size), 0o600); err != nil {
			t.Fatal(err)
		}
		p, stdout := program(t, test.role, fileVariable+"="+big)
		if test.want != nil {
			p.Timeout = 8 * time.Second
		}
		if out := p.Exec(t.Context()); !errors.Is(out.Err, test.want) || len(stdout()) != test.size {
			t.Errorf("%+v: %v, %d", test, out.Err, len(stdout()))
		}
	}
}

// A sink gets what comes through the pipe, and never more than it may.
func TestProgramSink(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("0123456789abcdef", 1<<16) + "!") // more than a pipe holds
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		role string // pour never ends by itself
		max  int
		want error
	}{
		{"copy", len(text), nil}, {"copy", len(text) - 1, ErrTooMuch}, {"pour", 0, ErrTooMuch},
	} {
		p, _ := program(t, test.role, fileVariable+"="+file)
		var sink bytes.Buffer
		p.Stdout, p.Sink, p.MaxStdout = nil, &sink, test.max
		out := p.Exec(t.Context())
		if !errors.Is(out.Err, test.want) || out.Stdout != nil || !bytes.Equal(sink.Bytes(), text[:test.max]) {
			t.Errorf("%+v: exit %d, %v, %d bytes", test, out.Exit, out.Err, sink.Len())
		}
	}
}

// It is asked to end before it is killed, and its children go with it.
func TestProgramEnds(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be asked to end there")
	}
	for name, want := range map[string]string{"polite": "ready asked", "stubborn": "ready", "parent": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "alive")
			p, stdout := program(t, name, fileVariable+"="+file)
			p.Timeout = 8 * time.Second
			if out := p.Exec(t.Context()); !errors.Is(out.Err, ErrTimeout) || out.Exit != -1 || stdout() != want {
				t.Errorf("exit %d, %v, %q", out.Exit, out.Err, stdout())
			}
			if name == "parent" {
				var one, other int
				text, err := os.ReadFile(file)
				if _, scanned := fmt.Sscan(string(text), &one, &other); err != nil || scanned != nil || alive(one) {
					t.Errorf("%q, %v: the first lives: %t", text, err, alive(one))
				}
				waitFor(t, "the end of its child", func() bool { return !alive(other) })
			}
		})
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := "tool"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	path := strings.Join([]string{"", ".", "relative", t.TempDir(), dir}, string(filepath.ListSeparator))
	if file, err := Find(path, "tool"); file != filepath.Join(dir, name) || err != nil {
		t.Errorf("%s, %v", file, err)
	}
	if _, err := Find(path, "other"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestProgramErrSink(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("0123456789abcdef", 1<<16) + "!") // more than is kept
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p, _ := program(t, "copy", fileVariable+"="+file, outVariable+"=stderr")
	var sink bytes.Buffer
	p.ErrSink = &sink
	if out := p.Exec(t.Context()); out.Exit != 0 || out.Err != nil || out.Stderr != nil || !bytes.Equal(sink.Bytes(), text) {
		t.Errorf("exit %d, %v, %d and %d bytes", out.Exit, out.Err, len(out.Stderr), sink.Len())
	}
}

func TestProgramFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there are no descriptors there")
	}
	p, stdout := program(t, "third")
	file := filepath.Join(p.Dir, "third")
	if err := os.WriteFile(file, []byte("read"), 0o600); err != nil {
		t.Fatal(err)
	}
	third, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	p.Files = []*os.File{third}
	if out := p.Exec(t.Context()); out.Err != nil || stdout() != "read" {
		t.Errorf("%+v, %q", out, stdout())
	}
}

func TestProgramSession(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells the session of a process in a file")
	}
	for _, session := range []bool{false, true} {
		p, stdout := program(t, "stat")
		p.Session = session
		p.Exec(t.Context())
		_, stat, _ := strings.Cut(stdout(), ") ")
		var state string
		var parent, group, sid, pid int
		fmt.Sscan(stdout(), &pid)
		if _, err := fmt.Sscan(stat, &state, &parent, &group, &sid); err != nil || group != pid || (sid == pid) != session {
			t.Errorf("session %v: process %d, group %d, session %d, %v", session, pid, group, sid, err)
		}
	}
}
