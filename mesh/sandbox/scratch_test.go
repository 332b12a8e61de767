//go:build unix

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"herdr-link/mesh/fault"
)

var one, two = strings.Repeat("1", 64), strings.Repeat("2", 64)

func made(t *testing.T, state, run string) *Scratch {
	t.Helper()
	s, err := MakeScratch(state, run)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func runs(t *testing.T, state string) []string {
	t.Helper()
	list, err := Scratches(state)
	must(t, err)
	return list
}

func TestScratch(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	if list := runs(t, state); len(list) > 0 {
		t.Errorf("there are %q", list)
	}
	must(t, RemoveScratch(state, one))
	if _, err := os.Lstat(filepath.Join(state, homesFolder)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking has made a folder: %v", err)
	}
	s := made(t, state, one)
	for _, dir := range []string{s.Home, s.Inputs, filepath.Dir(s.Home), filepath.Dir(s.Inputs)} {
		if info, err := os.Lstat(dir); err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
	if s.Home != filepath.Join(state, "gate-sandbox-homes", one) || s.Inputs != filepath.Join(state, "gate-inputs", one) {
		t.Errorf("%+v", s)
	}
	if _, err := MakeScratch(state, one); fault.Code(err) != "STATE_IO" {
		t.Errorf("twice: %v", err)
	}
	made(t, state, two)
	must(t, os.Remove(filepath.Join(state, "gate-inputs", two)), os.Mkdir(filepath.Join(state, "gate-inputs", "other"), 0o700))
	if list := runs(t, state); !slices.Equal(list, []string{one, two}) {
		t.Errorf("there are %q", list)
	}
	must(t, RemoveScratch(state, one))
	if list := runs(t, state); !slices.Equal(list, []string{two}) {
		t.Errorf("there are %q", list)
	}
	must(t, RemoveScratch(state, two), RemoveScratch(state, two))
	if list := runs(t, state); len(list) > 0 {
		t.Errorf("there are %q", list)
	}
	for _, run := range []string{"", ".", "..", one + "/", one[1:], one + "1", "../" + one[3:], strings.Repeat("A", 64), one + "\n"} {
		if _, err := MakeScratch(state, run); fault.Code(err) != "INTERNAL" {
			t.Errorf("%q: %v", run, err)
		}
		if err := RemoveScratch(state, run); fault.Code(err) != "INTERNAL" {
			t.Errorf("%q: %v", run, err)
		}
	}
}

func TestScratchInsecure(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(folder, other string) error{
		"a link":         func(folder, other string) error { return os.Symlink(other, folder) },
		"a link inside":  func(folder, _ string) error { return os.Symlink("other", folder) },
		"a file":         func(folder, _ string) error { return os.WriteFile(folder, nil, 0o600) },
		"open to others": func(folder, _ string) error { return errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, 0o710)) },
	} {
		for _, folder := range []string{homesFolder, inputsFolder} {
			state, other := t.TempDir(), t.TempDir()
			must(t, os.Mkdir(filepath.Join(state, "other"), 0o700), prepare(filepath.Join(state, folder), other))
			for _, dir := range []string{other, filepath.Join(state, "other")} {
				must(t, os.Mkdir(filepath.Join(dir, one), 0o700))
			}
			if _, err := MakeScratch(state, two); fault.Code(err) != "STATE_INSECURE" {
				t.Errorf("%s, make: %v", name, err)
			}
			if err := RemoveScratch(state, one); fault.Code(err) != "STATE_INSECURE" {
				t.Errorf("%s, remove: %v", name, err)
			}
			if _, err := Scratches(state); fault.Code(err) != "STATE_INSECURE" {
				t.Errorf("%s, list: %v", name, err)
			}
			for _, dir := range []string{other, filepath.Join(state, "other")} {
				if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != one {
					t.Errorf("%s: in %s are %v, %v", name, dir, entries, err)
				}
			}
		}
	}
	if _, err := MakeScratch(filepath.Join(t.TempDir(), "none"), one); fault.Code(err) != "STATE_IO" {
		t.Errorf("no state: %v", err)
	}
}

// asUser runs the test once more as a user whom modes bind, if this one is root.
func asUser(t *testing.T) (done bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		return false
	}
	dir, err := os.MkdirTemp("", "herdr-link-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Skip("root of a container without other users: ", err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v") // its own path may be closed to others
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("as another user: %v\n%s", err, out)
	}
	return true
}

// A gate can make its home hard to remove. What its links point to stays.
func TestRemoveScratch(t *testing.T) {
	t.Parallel()
	if asUser(t) {
		return
	}
	state, kept := t.TempDir(), t.TempDir()
	s, other := made(t, state, one), made(t, state, two)
	file := func(path string) { must(t, os.WriteFile(path, []byte("x"), 0o400)) }
	outside, locked := filepath.Join(kept, "file"), filepath.Join(kept, "locked")
	file(outside)
	file(filepath.Join(other.Home, "file"))
	must(t, os.Mkdir(locked, 0o500))
	t.Cleanup(func() { os.Chmod(locked, 0o700) })
	in := func(names ...string) string { return filepath.Join(append([]string{s.Home}, names...)...) }
	must(t,
		os.MkdirAll(in("a", "b", "c"), 0o700),
		os.MkdirAll(in("odd", "..."), 0o700),
		os.Mkdir(in("\xff\n"), 0o700),
		os.Symlink(kept, in("a", "to a folder")), os.Symlink(locked, in("a", "to a locked one")),
		os.Symlink(outside, in("a", "to a file")), os.Symlink("../../"+two, in("a", "to another run")),
		os.Symlink("none", in("a", "to nothing")), os.Symlink(".", in("a", "to itself")),
		os.Link(outside, in("a", "b", "the same file")),
		syscall.Mkfifo(in("a", "pipe"), 0),
	)
	for i := range 2*batch + 3 { // more than are read at once
		file(in("a", fmt.Sprintf("file %d", i)))
	}
	for i := range batch {
		must(t, os.Mkdir(in("odd", fmt.Sprintf("folder %d", i)), 0o500))
	}
	file(in("a", "b", "c", "file"))
	must(t, os.Remove(s.Inputs), os.Symlink(two, s.Inputs))
	file(filepath.Join(other.Inputs, "x-requirements.lock"))
	must(t, os.Chmod(in("a", "b", "c"), 0), os.Chmod(in("a", "b"), 0o500), os.Chmod(in("a"), 0o500), os.Chmod(s.Home, 0o100))
	if err := os.RemoveAll(s.Home); err == nil {
		t.Error("a plain removal can do it as well")
	}
	for i := range 9 { // left by a crash
		must(t, os.MkdirAll(filepath.Join(state, homesFolder, fmt.Sprintf("%s.%d", one, i), "a", "b"), 0o700))
	}
	must(t, os.Mkdir(filepath.Join(state, homesFolder, one+".x"), 0))
	if list := runs(t, state); !slices.Equal(list, []string{one, two}) {
		t.Errorf("there are %q", list)
	}
	must(t, RemoveScratch(state, one))
	for _, name := range []string{homesFolder, inputsFolder} {
		entries, err := os.ReadDir(filepath.Join(state, name))
		if err != nil || len(entries) != 1 || entries[0].Name() != two {
			t.Errorf("%s holds %v, %v", name, entries, err)
		}
	}
	for _, path := range []string{outside, filepath.Join(other.Home, "file"), filepath.Join(other.Inputs, "x-requirements.lock")} {
		if text, err := os.ReadFile(path); err != nil || string(text) != "x" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	if info, err := os.Stat(locked); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("the mode of what a link points to: %v, %v", info, err)
	}
}

// Nor does it matter how deep a gate goes.
func TestRemoveScratchDeep(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	s := made(t, state, one)
	dir, err := os.OpenRoot(s.Home)
	must(t, err)
	const name = "a folder with quite a long name, so that a path of a few hundred of them is longer than any may be"
	for range 3000 {
		must(t, dir.Mkdir(name, 0o700))
		next, err := dir.OpenRoot(name)
		must(t, err, dir.Close())
		dir = next
	}
	must(t, dir.Close())
	must(t, RemoveScratch(state, one))
	if list := runs(t, state); len(list) > 0 {
		t.Errorf("there are %q", list)
	}
}

// A crash may come anywhere: the next call does the rest.
func TestRemoveScratchAgain(t *testing.T) {
	t.Parallel()
	if asUser(t) {
		return
	}
	state := t.TempDir()
	s := made(t, state, one)
	must(t, os.MkdirAll(filepath.Join(s.Home, "a", "b"), 0o700), os.Remove(s.Inputs))
	homes := filepath.Dir(s.Home)
	must(t, os.Chmod(homes, 0o500)) // nothing can be moved up, or removed
	if err := RemoveScratch(state, one); fault.Code(err) != "STATE_IO" || strings.Contains(err.Error(), s.Home) {
		t.Errorf("%v", err)
	}
	must(t, os.Chmod(homes, 0o700), os.Rename(filepath.Join(s.Home, "a"), s.Home+".7"), os.Remove(s.Home))
	if list := runs(t, state); !slices.Equal(list, []string{one}) {
		t.Errorf("there are %q", list)
	}
	must(t, RemoveScratch(state, one))
	if list := runs(t, state); len(list) > 0 {
		t.Errorf("there are %q", list)
	}
}
