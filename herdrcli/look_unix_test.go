//go:build unix

package herdrcli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Why the system did not start it is told, but not where it is.
func TestExecNoProgram(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "herdr")
	if err := os.WriteFile(bin, []byte("neither a script nor a binary"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := New(Options{Bin: bin}).Exec(context.Background(), 0, "x").Err
	if !errors.Is(err, ErrBinary) || !strings.HasSuffix(err.Error(), ": exec format error") || strings.Contains(err.Error(), "/") {
		t.Errorf("%v", err)
	}
}

// Look finds wrong what Acquire would, and makes nothing.
func TestLook(t *testing.T) {
	t.Parallel()
	const base = ".local/state/herdr-link"
	for name, test := range map[string]struct {
		make  func(home string) error
		there string // below the home; "-": there can be no locks
	}{
		"nothing yet":   {func(string) error { return nil }, ""},
		"half the way":  {func(h string) error { return os.MkdirAll(filepath.Join(h, ".local/state"), 0o755) }, ".local/state"},
		"all":           {func(h string) error { return os.MkdirAll(filepath.Join(h, base, "locks"), 0o700) }, base + "/locks"},
		"read by all":   {func(h string) error { return os.MkdirAll(filepath.Join(h, base), 0o755) }, base},
		"a file":        {func(h string) error { return os.WriteFile(filepath.Join(h, ".local"), nil, 0o600) }, "-"},
		"a broken link": {func(h string) error { return os.Symlink("nowhere", filepath.Join(h, ".local")) }, "-"},
		"a linked state": {func(h string) error {
			if err := os.Mkdir(filepath.Join(h, "state"), 0o700); err != nil {
				return err
			}
			if err := os.Mkdir(filepath.Join(h, ".local"), 0o700); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(h, "state"), filepath.Join(h, ".local/state"))
		}, ".local/state"},
		"linked": {func(h string) error {
			if err := os.MkdirAll(filepath.Join(h, ".local/state"), 0o700); err != nil {
				return err
			}
			return os.Symlink(h, filepath.Join(h, base))
		}, "-"},
		"written by others": {func(h string) error {
			if err := os.MkdirAll(filepath.Join(h, base, "locks"), 0o700); err != nil {
				return err
			}
			return os.Chmod(filepath.Join(h, base, "locks"), 0o770)
		}, "-"},
	} {
		home := t.TempDir()
		if err := test.make(home); err != nil {
			t.Fatal(err)
		}
		before := list(t, home)
		dir, there, err := NewLocks(home).Look()
		switch {
		case dir != filepath.Join(home, base, "locks"):
			t.Errorf("%s: the folder is %q", name, dir)
		case test.there == "-":
			if err == nil {
				t.Errorf("%s: nothing is wrong", name)
			}
			if lock, err := NewLocks(home).Acquire(t.Context(), Agent{TerminalID: "t"}, "", lockTime); err == nil {
				lock.Release()
				t.Errorf("%s: but a lock can be had", name)
			}
		case err != nil || there != filepath.Join(home, test.there):
			t.Errorf("%s: %q, %v", name, there, err)
		}
		if after := list(t, home); test.there != "-" && after != before {
			t.Errorf("%s: it was %q, and is %q", name, before, after)
		}
	}
	if _, _, err := NewLocks("").Look(); err == nil {
		t.Error("no home, and nothing is wrong")
	}
}

func list(t *testing.T, dir string) (names string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names += path + "\n"
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
