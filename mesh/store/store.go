// Package store keeps the records of toolset mesh: a file each, in a folder for
// each kind, private and written whole. Whoever changes one holds the store lock.
//
// It knows what a record looks like. Who may change it to what is decided above.
package store

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/lock"
)

// Options are what a Store needs to know.
type Options struct {
	Root string           // absolute; made when something is written
	Disk *disk.Disk       // nil: the plain one
	Log  *slog.Logger     // nil: none
	Now  func() time.Time // nil: time.Now
}

// A Store is all stores below one root. Its methods may be used by many
// goroutines.
type Store struct {
	root string
	disk *disk.Disk
	log  *slog.Logger
	now  func() time.Time

	mu       sync.Mutex
	resolved string    // root without links, once it is there
	swept    time.Time // when old leftovers were looked for last
}

// New returns the store. Nothing is looked at or made yet.
func New(o Options) *Store {
	s := &Store{root: o.Root, disk: o.Disk, log: o.Log, now: o.Now}
	if s.disk == nil {
		s.disk = new(disk.Disk)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// Now is the store's time.
func (s *Store) Now() time.Time { return s.now() }

// dir returns the root, resolved through links once and checked each time. It
// fails with fs.ErrNotExist while there is none.
func (s *Store) dir() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resolved == "" {
		path, err := filepath.EvalSymlinks(s.root)
		if err != nil {
			return "", err
		}
		s.resolved = path
	}
	return s.resolved, disk.Folder(s.resolved)
}

// Root is the folder that all stores are in, without links and checked. It is
// there once something has been written. Codes: STATE_INSECURE, STATE_IO.
func (s *Store) Root() (string, error) {
	root, err := s.dir()
	return root, disk.Fault(err)
}

// Check looks at the root and at the folder of each store, as far as they are
// there: STATE_INSECURE names the first that others have a say in. It makes and
// mends nothing. Other codes: STATE_IO.
func (s *Store) Check() error {
	_, err := s.dir()
	for _, f := range folders {
		if err == nil {
			if _, err = s.folder(f.name); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return disk.Fault(err)
}

// folder returns a store's folder, checked.
func (s *Store) folder(name string) (string, error) {
	root, err := s.dir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, name)
	return path, disk.Folder(path)
}

// Status says how it is with the store lock. It reads no record and makes
// nothing.
func (s *Store) Status() lock.Status {
	path, err := s.folder(controllers)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return lock.Status{State: lock.Absent, Reason: "there is no state yet"}
	case err != nil:
		return lock.Status{State: lock.Indeterminate, Reason: "the state's folder is open to others, or cannot be read"}
	}
	return lock.New(path, s.disk, s.log).Look()
}

// Unlock moves a claim of the store lock that no rule may take away to the folder
// quarantine of the root, for a person: see [lock.Lock.Unlock].
func (s *Store) Unlock() (was lock.Status, moved string, err error) {
	path, err := s.folder(controllers)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return lock.Status{State: lock.Absent, Reason: "there is no state yet"}, "", nil
	case err != nil:
		return was, "", disk.Fault(err)
	}
	return lock.New(path, s.disk, s.log).Unlock(filepath.Join(filepath.Dir(path), "quarantine"))
}

const suffix = ".json"

// Load reads the record of that id into r, from the store or from its archive.
// It fails with fs.ErrNotExist, STATE_INSECURE, STATE_CORRUPT, STATE_VERSION or
// STATE_IO, and for a controller with CONTROLLER_ID_COLLISION.
func (s *Store) Load(id string, r Record) error {
	if !IsControllerID(id) { // ids of others are of fewer characters
		return fs.ErrNotExist
	}
	p := r.place()
	path, err := s.folder(p.folder)
	if err != nil {
		return missingOr(err)
	}
	err = read(path, id+suffix, r)
	if p.archived && errors.Is(err, fs.ErrNotExist) {
		path = filepath.Join(path, archive)
		if err = disk.Folder(path); err == nil {
			err = read(path, id+suffix, r)
		}
	}
	return missingOr(err)
}

// missingOr leaves fs.ErrNotExist as it is.
func missingOr(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fs.ErrNotExist
	}
	return disk.Fault(err)
}

// read reads one file. The record must be the one that the name says, which it
// need not be where names differ in size of letters alone.
func read(dir, name string, r Record) error {
	file := filepath.Join(dir, name)
	data, err := disk.Read(file)
	if err != nil {
		return err
	}
	if err := decode(file, data, r); err != nil {
		return err
	}
	if p := r.place(); p.id+suffix != name {
		if p.folder == controllers {
			return fault.New("CONTROLLER_ID_COLLISION", "%s is the record of another controller id: ids must differ in more than the size of letters", file).With("path", file)
		}
		return fault.New("STATE_CORRUPT", "%s: the record's id is another one", file).With("path", file)
	}
	if c, ok := r.(*Controller); ok {
		c.raw = data
	}
	return nil
}

// An Invalid is a file that could not be read as the record that it should be.
type Invalid struct {
	File string `json:"file"` // below the state root
	Code string `json:"code"`
}

// A Listing is what a store has.
type Listing[R any] struct {
	Records   []R
	Truncated bool // there are more than the limit
	Invalid   []Invalid
}

// List returns the records that match: first those that are retained, then the
// terminal ones, newest file first, up to limit (0: all). What cannot be read is
// named and left out. The error is STATE_INSECURE of the root, or STATE_IO.
func List[T any, R interface {
	*T
	Record
}](s *Store, limit int, match func(R) bool) (l Listing[R], err error) {
	p := R(new(T)).place()
	var terminal []R // in the store itself, from a crash or of the older bridge
	add := func(r R) bool {
		if limit > 0 && len(l.Records) == limit {
			l.Truncated = true
			return false
		}
		l.Records = append(l.Records, r)
		return true
	}
	// each calls do for the matching records of a folder until it returns false.
	each := func(name string, do func(R) bool) error {
		return walk(s, name, &l.Invalid, func(r R) bool { return match != nil && !match(r) || do(r) })
	}
	err = each(p.folder, func(r R) bool {
		if r.place().terminal {
			terminal = append(terminal, r)
			return true
		}
		return add(r)
	})
	if err != nil || !p.archived || l.Truncated {
		return l, err
	}
	seen := map[string]bool{} // what was moved between the two looks is there twice
	for _, r := range l.Records {
		seen[r.place().id] = true
	}
	for _, r := range terminal {
		seen[r.place().id] = true
		if !add(r) {
			return l, nil
		}
	}
	return l, each(filepath.Join(p.folder, archive), func(r R) bool { return seen[r.place().id] || add(r) })
}

// Standing returns the records that are not terminal, newest file first, without
// the lock and without a look at the archive. It fails as List does.
func Standing[T any, R interface {
	*T
	Record
}](s *Store) (l Listing[R], err error) {
	err = walk(s, R(new(T)).place().folder, &l.Invalid, func(r R) bool {
		if !r.place().terminal {
			l.Records = append(l.Records, r)
		}
		return true
	})
	return l, err
}

// walk calls do for the records of a folder, the newest file first, until it
// returns false. What cannot be read is added to invalid.
func walk[T any, R interface {
	*T
	Record
}](s *Store, folder string, invalid *[]Invalid, do func(R) bool) error {
	root, err := s.dir()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return disk.Fault(err)
	}
	dir := filepath.Join(root, folder)
	files, err := newest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if code := fault.Code(err); code != "" {
		*invalid = append(*invalid, Invalid{folder, code})
		return nil
	}
	if err != nil {
		return disk.Fault(err)
	}
	for _, file := range files {
		r := R(new(T))
		err := read(dir, file, r)
		switch {
		case errors.Is(err, fs.ErrNotExist): // moved or replaced since
		case err != nil:
			*invalid = append(*invalid, Invalid{filepath.Join(folder, file), fault.Code(disk.Fault(err))})
		case !do(r):
			return nil
		}
	}
	return nil
}

// newest returns the names of a folder's records, the newest file first.
func newest(dir string) (names []string, err error) {
	if err := disk.Folder(dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	times := map[string]time.Time{}
	for _, e := range entries {
		info, err := e.Info()
		if strings.HasSuffix(e.Name(), suffix) && err == nil {
			names = append(names, e.Name())
			times[e.Name()] = info.ModTime()
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return times[b].Compare(times[a]) })
	return names, nil
}
