package orchestration

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxFile is the most that a file of ours, or a configuration of OpenCode's, may
// have to be read.
const maxFile = 4 << 20

// A Place is where the files go.
type Place struct {
	Dir  string // OpenCode's configuration folder, absolute
	Home string // the user's; links from there on are not followed

	beforeRename func(path string) // for tests: what happens just before a file is replaced
}

func (p Place) path(name string) string { return filepath.Join(p.Dir, filepath.FromSlash(name)) }

// An inventory is what the manifest says: which files install has written.
type inventory struct {
	Schema  int          `json:"schema"`
	Version string       `json:"version"`
	Files   []owned      `json:"files"`
	Folders []string     `json:"folders"` // those that had to be made; "." is the configuration folder
	Options savedOptions `json:"options"`
}

type owned struct {
	Path string `json:"path"` // from the configuration folder on, with slashes
	SHA  string `json:"sha256"`
}

type savedOptions struct {
	WorkerModel   string   `json:"workerModel,omitempty"`
	ReviewerModel string   `json:"reviewerModel,omitempty"`
	AllowTools    []string `json:"allowTools,omitempty"`
	SessionHooks  bool     `json:"sessionHooks"`
}

const schema = 1

// errForeign: a file of the manifest's name is none of ours.
var errForeign = errors.New("it is not a manifest of herdr-link")

// readManifest returns nil if there is none.
func (p Place) readManifest() (*inventory, error) {
	text, err := p.read(manifestFile)
	if text == nil || err != nil {
		return nil, err
	}
	var m inventory
	if json.Unmarshal(text, &m) != nil || m.Schema != schema {
		return nil, errForeign
	}
	for _, f := range m.Files {
		if !ownName(f.Path) {
			return nil, errForeign
		}
	}
	for _, dir := range m.Folders {
		if !slices.Contains(ownFolders, dir) {
			return nil, errForeign
		}
	}
	return &m, nil
}

// ownFolders are those that install makes, the inner ones first.
var ownFolders = []string{path.Dir(dataFile), path.Dir(pluginFile), "."}

// ownName reports whether a name in a manifest can be that of a file of ours, in
// whatever version.
func ownName(name string) bool {
	dir, base := path.Split(name)
	return dir == "herdr-link/" && base != "" || dir == "plugins/" && strings.HasPrefix(base, "herdr-link-")
}

// sumOf returns what the manifest says of a file, or "".
func (m *inventory) sumOf(name string) string {
	if m == nil {
		return ""
	}
	for _, f := range m.Files {
		if f.Path == name {
			return f.SHA
		}
	}
	return ""
}

// sum is a file's SHA-256, in hexadecimal.
func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// read returns a file of that name, or nil if there is none. On the way to it
// may be no link.
func (p Place) read(name string) ([]byte, error) {
	if err := p.noLinks(name); err != nil {
		return nil, err
	}
	return readFile(p.path(name))
}

// readFile returns a regular file, or nil if there is none.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxFile:
		return nil, fmt.Errorf("%s is too large", path)
	}
	return text, nil
}

// noLinks refuses a path of which a part, from the home folder on, is a link.
func (p Place) noLinks(name string) error {
	full, from := p.path(name), p.Dir
	if rel, err := filepath.Rel(p.Home, p.Dir); p.Home != "" && err == nil && filepath.IsLocal(rel) {
		from = p.Home
	}
	rel, err := filepath.Rel(from, full)
	if err != nil {
		return err
	}
	parts := strings.Split(rel, string(filepath.Separator))
	for i := range len(parts) + 1 {
		if i == 0 && from == p.Home {
			continue
		}
		at := filepath.Join(from, filepath.Join(parts[:i]...))
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s is a link; nothing is written through links", at)
		}
	}
	return nil
}

// An edit is a change of a file of ours that has not been made yet.
type edit struct {
	name     string
	old, new []byte // nil: there is no file
	foreign  bool   // what is there is not as we left it
}

func (c edit) same() bool { return (c.old == nil) == (c.new == nil) && bytes.Equal(c.old, c.new) }

// A work makes changes, and can take them back.
type work struct {
	place   Place
	done    []edit
	made    []string // folders, the inner ones last
	backups []string
}

// errBusy means that a file is no more as it was read.
var errBusy = errors.New("another program has changed it meanwhile; try again")

// do makes one change. A file that is not ours is copied before.
func (w *work) do(c edit, now time.Time) error {
	if c.same() {
		return nil
	}
	path := w.place.path(c.name)
	if err := w.folder(filepath.Dir(path)); err != nil {
		return err
	}
	if c.foreign && c.old != nil {
		backup := path + ".backup-" + now.UTC().Format("20060102T150405Z")
		if err := w.backup(backup, c.old); err != nil {
			return err
		}
	}
	if err := w.place.replace(c); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	w.done = append(w.done, c)
	return nil
}

// folder makes a folder and those above it, and notes which.
func (w *work) folder(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := w.folder(filepath.Dir(dir)); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o755)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil // by somebody else, just now
	case err == nil:
		w.made = append(w.made, dir)
	}
	return err
}

func (w *work) backup(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w.backups = append(w.backups, path)
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// undo puts everything back as it was.
func (w *work) undo() (err error) {
	for _, c := range slices.Backward(w.done) {
		c.old, c.new = c.new, c.old
		err = errors.Join(err, w.place.replace(c))
	}
	for _, path := range w.backups {
		err = errors.Join(err, os.Remove(path))
	}
	for _, dir := range slices.Backward(w.made) {
		_ = os.Remove(dir) // not if somebody has put something there
	}
	return err
}

// replace puts the new text in the file's place, or takes the file away, unless
// it is no more as it was read.
func (p Place) replace(c edit) error {
	path, temporary := p.path(c.name), ""
	if c.new != nil {
		var err error
		if temporary, err = prepare(path, c.new); err != nil {
			return err
		}
		defer os.Remove(temporary) // gone by then, if all went well
	}
	if p.beforeRename != nil {
		p.beforeRename(path)
	}
	now, err := p.read(c.name)
	switch {
	case err != nil:
		return err
	case (now == nil) != (c.old == nil) || !bytes.Equal(now, c.old):
		return errBusy
	case c.new == nil:
		return os.Remove(path)
	}
	return os.Rename(temporary, path)
}

// prepare writes the text to a file beside the one that it shall become.
func prepare(path string, text []byte) (string, error) {
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".herdr-link-*.tmp")
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}
