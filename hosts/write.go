package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// backupName is what is added to a file's name for the copy of how it was
// before the first change.
const backupName = ".herdr-link.bak"

// attempts is how often an edit is made anew because the file has changed.
const attempts = 3

// errBusy means that a file changed during every attempt.
var errBusy = errors.New("it is changed again and again by another program; try once more")

// A draft is a change of one file that has not been made yet.
type draft struct {
	path   string
	linked bool // what leads there is a link: the folder is the user's
	steps  []edit
	edit   edit
	old    []byte // nil: there is no file
	new    []byte // nil: there shall be none
	mode   fs.FileMode
	folder fs.FileMode // of folders that have to be made
	keep   bool        // a copy of how it was
}

// target follows links to the file that is meant, which need not exist.
func target(path string) (string, error) {
	for range 40 {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil // no link
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", fmt.Errorf("%s: too many links", path)
}

// run makes the steps one after another.
func (d *draft) run(text []byte) (_ []byte, err error) {
	for _, f := range d.steps {
		if text, err = f(text); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// read reads the file and makes the edit.
func (d *draft) read() error {
	old, err := read(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		old, err = nil, nil
	} else if old == nil {
		old = []byte{}
	}
	if err != nil {
		return err
	}
	d.old = old
	d.new, err = d.edit(old)
	return err
}

func (d *draft) changes() bool {
	return (d.old == nil) != (d.new == nil) || !bytes.Equal(d.old, d.new)
}

// write makes the change.
func (d *draft) write(m Machine) error {
	for range attempts {
		if !d.changes() {
			return nil
		}
		done, err := d.replace(m)
		if done || err != nil {
			return err
		}
		if err := d.read(); err != nil {
			return err
		}
	}
	return errBusy
}

// replace puts the new text in the file's place, unless the file is no more as
// it was read: then it is not done.
func (d *draft) replace(m Machine) (done bool, err error) {
	info, err := os.Stat(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		info = nil
	case err != nil:
		return false, err
	case !info.Mode().IsRegular():
		return false, fmt.Errorf("%s is no file", d.path)
	case info.Mode().Perm()&0o200 == 0:
		return false, fmt.Errorf("%s is read-only", d.path)
	}
	if err := m.makeFolder(filepath.Dir(d.path), d.folder); err != nil {
		return false, err
	}
	if d.keep && info != nil && d.old != nil { // one that has appeared since is read again
		if err := d.backup(info); err != nil {
			return false, err
		}
	}
	temporary := ""
	if d.new != nil {
		like := info
		if like == nil { // one that comes back is as it was
			like, _ = os.Stat(d.path + backupName)
		}
		if temporary, err = d.prepare(like); err != nil {
			return false, err
		}
		defer os.Remove(temporary) // gone by then, if all went well
	}
	if m.beforeRename != nil {
		m.beforeRename()
	}
	now, err := read(d.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if (err == nil) != (d.old != nil) || !bytes.Equal(now, d.old) {
		return false, nil
	}
	if d.new == nil {
		return true, os.Remove(d.path)
	}
	return true, os.Rename(temporary, d.path)
}

// madeName is a file in a folder that many programs share and install has made.
const madeName = ".herdr-link.made"

// config is that folder.
func (m Machine) config() string { return filepath.Join(m.Home, ".config") }

// makeFolder makes a folder and those above it.
func (m Machine) makeFolder(dir string, mode fs.FileMode) error {
	fresh := inside(dir, m.config()) && !exists(m.config())
	err := os.MkdirAll(dir, mode)
	if err == nil && fresh {
		err = os.WriteFile(filepath.Join(m.config(), madeName), nil, 0o600)
	}
	return err
}

// leaveConfig removes ~/.config if install has made it and nothing is in it, and
// the mark of that when nothing of ours is there.
func (m Machine) leaveConfig() {
	mark := filepath.Join(m.config(), madeName)
	if !exists(mark) {
		return
	}
	in, err := os.ReadDir(m.config())
	ours := slices.ContainsFunc(table, func(h Host) bool {
		s := m.Status(h, Options{})
		return s.entry != nil || s.adapter
	})
	if err == nil && (len(in) == 1 || !ours) {
		_ = os.Remove(mark)
		_ = os.Remove(m.config()) // not if something is in it
	}
}

// prepare writes the new text to a file beside the old one.
func (d *draft) prepare(info fs.FileInfo) (path string, err error) {
	f, err := os.CreateTemp(filepath.Dir(d.path), ".herdr-link-*.tmp")
	if err != nil {
		return "", err
	}
	mode := d.mode
	if info != nil {
		mode = info.Mode().Perm()
	}
	_, err = f.Write(d.new)
	if info != nil {
		err = errors.Join(err, sameOwner(f, info))
	}
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// backup keeps a copy of how the file was, unless there is one.
func (d *draft) backup(info fs.FileInfo) error {
	name := d.path + backupName
	if exists(name) {
		return nil
	}
	copied := draft{path: name, new: d.old, mode: d.mode}
	path, err := copied.prepare(info)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	if err := os.Link(path, name); err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return os.Rename(path, name) // a file system without hard links
}
