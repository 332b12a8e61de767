package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"herdr-link/mesh/fault"
)

// A Scratch is the folders of one run below the state root (mesh.md §3.1). What
// is in Home was written by a gate and is worth no trust.
type Scratch struct {
	Home   string // a Step's Home
	Inputs string // for copies of lock files
}

const (
	homesFolder  = "gate-sandbox-homes"
	inputsFolder = "gate-inputs"
)

// isRun reports whether a name is the id of a run.
func isRun(name string) bool { return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == "" }

// MakeScratch makes the folders of a run, which must not be there yet. state is
// there.
func MakeScratch(state, run string) (*Scratch, error) {
	if !isRun(run) {
		return nil, fault.New("INTERNAL", "a run is not named by 64 hex digits")
	}
	for _, name := range []string{homesFolder, inputsFolder} {
		folder, err := openFolder(state, name, true)
		if err != nil {
			return nil, err
		}
		err = folder.Mkdir(run, 0o700)
		_ = folder.Close()
		if err != nil {
			return nil, onDisk(err)
		}
	}
	return &Scratch{Home: filepath.Join(state, homesFolder, run), Inputs: filepath.Join(state, inputsFolder, run)}, nil
}

// RemoveScratch removes what there is of a run's folders, whatever a gate has made
// of them. No process of the run may be left. It follows no symbolic link.
func RemoveScratch(state, run string) error {
	if !isRun(run) {
		return fault.New("INTERNAL", "a run is not named by 64 hex digits")
	}
	var failed error
	for _, name := range []string{homesFolder, inputsFolder} {
		folder, err := openFolder(state, name, false)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = onDisk(removeRun(folder, run))
			_ = folder.Close()
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// Scratches returns the runs that have something below the state root.
func Scratches(state string) ([]string, error) {
	runs := map[string]bool{}
	for _, name := range []string{homesFolder, inputsFolder} {
		folder, err := openFolder(state, name, false)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		names, err := list(folder, ".", -1)
		_ = folder.Close()
		if err != nil {
			return nil, onDisk(err)
		}
		for _, e := range names {
			if run, _, _ := strings.Cut(e.Name(), "."); isRun(run) {
				runs[run] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(runs)), nil
}

// openFolder opens one of the two folders of all runs. It fails with
// fs.ErrNotExist if it is not there, and is not to be made.
func openFolder(state, name string, create bool) (*os.Root, error) {
	root, err := os.OpenRoot(state)
	if err != nil {
		return nil, onDisk(err)
	}
	defer root.Close()
	if create {
		if err := root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, onDisk(err)
		}
	}
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, onDisk(err)
	case !info.IsDir() || info.Mode().Perm()&0o077 != 0:
		path, mode := filepath.Join(state, name), fmt.Sprintf("%04o", info.Mode().Perm())
		return nil, fault.New("STATE_INSECURE", "%s is not a folder of this user alone (mode %s)", path, mode).With("path", path).With("mode", mode)
	}
	folder, err := root.OpenRoot(name)
	return folder, onDisk(err)
}

// removeRun removes the run's folder. A gate may have nested folders deeper than a
// path or the number of open files allows, and have taken its rights on them: each
// is given them back and moved up before it is emptied, so that none is ever deep.
// What a crash leaves of that is named by the run too, and found by the next call.
func removeRun(folder *os.Root, run string) error {
	names, err := list(folder, ".", -1)
	if err != nil {
		return err
	}
	moved := 0
	taken := map[string]bool{}
	var left []string
	for _, e := range names {
		if taken[e.Name()] = true; e.Name() == run || strings.HasPrefix(e.Name(), run+".") {
			left = append(left, e.Name())
		}
	}
	up := func(path string) error {
		to := ""
		for to == "" || taken[to] {
			moved++
			to = fmt.Sprintf("%s.%d", run, moved)
		}
		if err := folder.Chmod(path, 0o700); err != nil { // a folder can only be moved by who may write to it
			return err
		}
		if err := folder.Rename(path, to); err != nil {
			return err
		}
		left = append(left, to)
		return nil
	}
	for len(left) > 0 {
		name := left[len(left)-1]
		left = left[:len(left)-1]
		if err := empty(folder, name, up); err != nil {
			return err
		}
		if err := folder.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// batch is how many names are read at once.
const batch = 1024

// empty removes the files in a folder and moves up the folders. If name is none
// there is nothing to do.
func empty(folder *os.Root, name string, up func(path string) error) error {
	if info, err := folder.Lstat(name); err != nil || !info.IsDir() {
		return err
	}
	if err := folder.Chmod(name, 0o700); err != nil {
		return err
	}
	for {
		entries, err := list(folder, name, batch)
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			remove := folder.Remove
			if e.IsDir() {
				remove = up
			}
			if err := remove(name + "/" + e.Name()); err != nil {
				return err
			}
		}
	}
}

// list returns names of a folder: n of them, or all if n is negative.
func list(folder *os.Root, name string, n int) ([]fs.DirEntry, error) {
	f, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, err
}

// onDisk is STATE_IO for an error of the file system. Names that a gate chose are
// not repeated.
func onDisk(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return fault.New("STATE_IO", "the folders of a verification run could not be made, read or removed: %v", err)
}
