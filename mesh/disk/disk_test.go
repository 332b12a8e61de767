//go:build unix

package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"herdr-link/mesh/fault"
)

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	var ops []string
	d := &Disk{Before: func(op, path string) error { ops = append(ops, op+" "+filepath.Base(path)); return nil }}
	if err := d.Write(file, []byte("x\n")); err != nil {
		t.Fatal(err)
	}
	if want := []string{"create a", "write a", "sync a"}; !slices.Equal(ops, want) {
		t.Errorf("operations %q", ops)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if data, err := Read(file); err != nil || string(data) != "x\n" {
		t.Errorf("%q, %v", data, err)
	}
	if err := d.Write(file, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("twice: %v", err)
	}
	if data, _ := Read(file); string(data) != "x\n" {
		t.Errorf("the second one left %q", data)
	}
}

// A failure of any operation is the caller's, and leaves no file.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, op := range []string{OpCreate, OpWrite, OpSync} {
		dir := t.TempDir()
		d := &Disk{Before: func(o, _ string) error {
			if o == op {
				return broken
			}
			return nil
		}}
		if err := d.Write(filepath.Join(dir, "a"), []byte("x")); !errors.Is(err, broken) {
			t.Errorf("%s: %v", op, err)
		}
		if left := names(t, dir); len(left) > 0 {
			t.Errorf("%s leaves %q", op, left)
		}
	}
}

func TestClaim(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := new(Disk)
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"new", "empty"} {
		if err := d.Mkdir(path(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Write(path("new/owner"), nil); err != nil {
		t.Fatal(err)
	}
	if err := d.Claim(path("new"), path("empty")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("onto an empty folder: %v", err)
	}
	if err := os.Rename(path("new"), path("empty")); !errors.Is(err, fs.ErrExist) { // what claim falls back to
		t.Errorf("without the system's help: %v", err)
	}
	if err := d.Claim(path("new"), path("free")); err != nil {
		t.Error(err)
	}
	if err := d.Clear(path("free")); err != nil {
		t.Error(err)
	}
	if left := names(t, dir); !slices.Equal(left, []string{"empty"}) {
		t.Errorf("there are %q", left)
	}
}

func TestMkdir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b")
	for range 2 {
		if err := new(Disk).Mkdir(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{path, filepath.Dir(path)} {
		if info, err := os.Stat(p); err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", p, info.Mode(), err)
		}
		if err := Folder(p); err != nil {
			t.Error(err)
		}
	}
	if err := Folder(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

// What others could have put there, or could read, is refused with its path and
// mode.
func TestInsecure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(path("good"), []byte("x"), 0o600))
	must(os.WriteFile(path("copied"), []byte("x"), 0o400))
	must(os.WriteFile(path("open"), []byte("x"), 0o600))
	must(os.Chmod(path("open"), 0o644))
	must(os.Symlink(path("good"), path("link")))
	must(syscall.Mkfifo(path("pipe"), 0o600))
	must(os.Mkdir(path("folder"), 0o700))
	must(os.Mkdir(path("shared"), 0o700))
	must(os.Chmod(path("shared"), 0o750))
	must(os.Symlink(path("folder"), path("way")))
	must(os.WriteFile(path("large"), make([]byte, MaxFile+1), 0o600))

	read := func(name string) error { _, err := Read(path(name)); return err }
	folder := func(name string) error { return Folder(path(name)) }
	for name, tc := range map[string]struct {
		do   func(string) error
		code string
		mode string
	}{
		"good": {read, "", ""}, "copied": {read, "", ""}, "folder": {folder, "", ""},
		"open": {read, "STATE_INSECURE", "0644"}, "link": {read, "STATE_INSECURE", "0777"}, "pipe": {read, "STATE_INSECURE", "0600"},
		"shared": {folder, "STATE_INSECURE", "0750"}, "way": {folder, "STATE_INSECURE", "0777"}, "large": {read, "STATE_CORRUPT", ""},
	} {
		err := tc.do(name)
		if fault.Code(err) != tc.code || (err == nil) != (tc.code == "") {
			t.Errorf("%s: %v", name, err)
		}
		var f *fault.Fault
		if errors.As(err, &f) && f.Details["path"] != path(name) {
			t.Errorf("%s: %+v", name, f)
		}
		if tc.mode != "" && (f == nil || f.Details["mode"] != tc.mode || !strings.Contains(f.Message, path(name))) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if err := read("folder"); fault.Code(err) != "STATE_INSECURE" || !strings.Contains(err.Error(), "is a folder and not a file") {
		t.Errorf("a folder for a file: %v", err)
	}
	if err := folder("good"); fault.Code(err) != "STATE_INSECURE" || !strings.Contains(err.Error(), "is a file and not a folder") {
		t.Errorf("a file for a folder: %v", err)
	}
	for name, code := range map[string]string{"good": "", "open": "", "link": "STATE_IO", "pipe": "STATE_INSECURE", "folder": "STATE_INSECURE", "large": "STATE_CORRUPT"} {
		data, err := Peek(path(name))
		if fault.Code(Fault(err)) != code || (err == nil) != (code == "") || err == nil && string(data) != "x" {
			t.Errorf("a peek at %s: %q, %v", name, data, err)
		}
	}
	if _, err := Peek(path("none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a peek at nothing: %v", err)
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	if Fault(nil) != nil || fault.Code(Fault(fs.ErrPermission)) != "STATE_IO" || fault.Code(Fault(fault.New("LOCK_BUSY", "x"))) != "LOCK_BUSY" {
		t.Error("a wrong code")
	}
}
