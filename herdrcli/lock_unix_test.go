//go:build unix

package herdrcli

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// keepOpen is what a child does to a file between fork and exec.
func keepOpen(t *testing.T, f *os.File) {
	t.Helper()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
}

func TestLockModes(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	acquire(t, home, terminal).Release()
	file := lockFile(home, terminal)
	for path, want := range map[string]fs.FileMode{
		file:                             0o600,
		filepath.Dir(file):               fs.ModeDir | 0o700,
		filepath.Dir(filepath.Dir(file)): fs.ModeDir | 0o700,
	} {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v", filepath.Base(path), info.Mode())
		}
	}
}

// Others may look into the folders; only writing is dangerous.
func TestLockReadableFolder(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	locks := filepath.Dir(lockFile(home, terminal))
	if err := os.MkdirAll(locks, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(locks, 0o755); err != nil {
		t.Fatal(err)
	}
	acquire(t, home, terminal).Release()
}

func TestLockTraps(t *testing.T) {
	t.Parallel()
	chmod := func(path string, mode fs.FileMode) error {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		return os.Chmod(path, mode) // past the umask
	}
	symlink := func(target, path string) error {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		return os.Symlink(target, path)
	}
	for name, spoil := range map[string]func(base, locks, file string) error{
		"locks for the group":       func(_, locks, _ string) error { return chmod(locks, 0o770) },
		"locks for all":             func(_, locks, _ string) error { return chmod(locks, 0o702) },
		"herdr-link for all":        func(base, _, _ string) error { return chmod(base, 0o707) },
		"sticky is not enough":      func(_, locks, _ string) error { return chmod(locks, 0o777|fs.ModeSticky) },
		"herdr-link is a link":      func(base, _, _ string) error { return symlink(tempIn(base), base) },
		"locks is a link":           func(_, locks, _ string) error { return symlink(tempIn(locks), locks) },
		"locks is a dangling link":  func(_, locks, _ string) error { return symlink(locks+".none", locks) },
		"lock is a link outside":    func(_, _, file string) error { return symlink("/dev/null", file) },
		"lock is a dangling link":   func(_, _, file string) error { return symlink("none", file) },
		"lock is a link to a lock":  func(_, _, file string) error { return linkToFile(file, symlink) },
		"lock is a FIFO":            func(_, _, file string) error { return fifo(file) },
		"lock is a link to a FIFO":  func(_, _, file string) error { return linkToFIFO(file, symlink) },
		"lock is a link to nothing": func(_, _, file string) error { return symlink(filepath.Join("..", "x"), file) },
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, func(base, locks, file string) error {
				err := spoil(base, locks, file)
				t.Cleanup(func() {
					if _, err := os.Lstat(filepath.Join(filepath.Dir(file), "none")); err == nil {
						t.Error("a dangling link was filled")
					}
				})
				return err
			})
		})
	}
}

// tempIn makes a folder beside path for a link to it, all else being well.
func tempIn(path string) string {
	target := path + ".target"
	_ = os.MkdirAll(filepath.Join(target, "locks"), 0o700)
	return target
}

func linkToFile(file string, symlink func(target, path string) error) error {
	if err := mkdirWrite(file + ".other"); err != nil {
		return err
	}
	return symlink(filepath.Base(file)+".other", file)
}

func linkToFIFO(file string, symlink func(target, path string) error) error {
	if err := fifo(file + ".fifo"); err != nil {
		return err
	}
	return symlink(filepath.Base(file)+".fifo", file)
}

func fifo(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return syscall.Mkfifo(file, 0o600)
}
