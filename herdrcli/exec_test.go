package herdrcli

import (
	"context"
	"errors"
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
			out := c.Exec(t.Context(), 3*time.Second, "x")
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
