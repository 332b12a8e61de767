package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/lock"
)

const (
	// sectionTime is how long a section under the lock may take (mesh.md §3.6).
	sectionTime = 20 * time.Second
	// sweepAge is how old a leftover must be before it is removed.
	sweepAge = time.Hour
	// batch is how many old records one call moves or deletes.
	batch = 200
)

// A Section is the time in which this goroutine has the store lock. Only in it
// can records be changed.
type Section struct {
	s     *Store
	held  *lock.Held
	ctx   context.Context
	stop  context.CancelFunc
	moved int // records moved to archives, beside those that it changed
	ended bool
}

// Begin takes the store lock; see [lock.Lock.Acquire] for its errors. The root
// and its folders are made if they are missing. End must follow.
func (s *Store) Begin(ctx context.Context) (*Section, error) {
	if err := s.found(); err != nil {
		return nil, err
	}
	root, err := s.dir()
	if err != nil {
		return nil, disk.Fault(err)
	}
	dir := filepath.Join(root, controllers)
	if err := s.need(dir); err != nil {
		return nil, err
	}
	held, err := lock.New(dir, s.disk, s.log).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	x := &Section{s: s, held: held}
	x.ctx, x.stop = context.WithTimeout(ctx, sectionTime)
	x.sweep(root)
	return x, nil
}

// found makes the root if there has never been one. A root that was there and is
// gone is not made anew: everything would be forgotten that is retained in it.
func (s *Store) found() error {
	s.mu.Lock()
	gone := s.resolved
	s.mu.Unlock()
	if gone == "" {
		return disk.Fault(s.disk.Mkdir(s.root))
	}
	if _, err := os.Lstat(gone); errors.Is(err, fs.ErrNotExist) {
		return fault.New("STATE_IO", "%s: the state was there and is gone: bring it back, or restart this server to begin anew", gone).With("path", gone)
	}
	return nil
}

// need makes a folder if it is missing, and checks it.
func (s *Store) need(dir string) error {
	err := disk.Folder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.disk.Mkdir(dir); err == nil {
			err = disk.Folder(dir)
		}
	}
	return disk.Fault(err)
}

// End gives the lock back. It may be called twice.
func (x *Section) End() {
	if !x.ended {
		x.ended = true
		x.stop()
		x.held.Release()
	}
}

// Context ends after 20 s, or with the call: for what waits while the lock is
// held.
func (x *Section) Context() context.Context { return x.ctx }

// Err says why nothing may begin any more in this section: HERDR_TIMEOUT or
// CANCELLED. What has begun may still be written down.
func (x *Section) Err() error {
	switch err := x.ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New("HERDR_TIMEOUT", "the store lock was held for %v: nothing more was begun", sectionTime)
	}
	return fault.New("CANCELLED", "the call was cancelled")
}

// Create writes a new record. One that is there stays: STATE_IO.
func (x *Section) Create(r Record) error {
	return x.write(r, func(temp, final string) error {
		err := x.s.disk.Link(temp, final)
		_ = x.s.disk.Remove(temp) // or swept later
		return err
	})
}

// Replace writes a record in the place of the one that is there. A terminal one
// then goes to the archive.
func (x *Section) Replace(r Record) error {
	return x.write(r, x.s.disk.Rename)
}

// Swap is Replace for a controller, if its file is still as old was read:
// CONTROLLER_CHANGED.
func (x *Section) Swap(old, r *Controller) error {
	dir, err := x.s.folder(controllers)
	if err != nil {
		return disk.Fault(err)
	}
	now, err := disk.Read(filepath.Join(dir, r.ControllerID+suffix))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return disk.Fault(err)
	}
	if err != nil || !bytes.Equal(now, old.raw) {
		return fault.New("CONTROLLER_CHANGED", "the controller's record was changed by another program meanwhile")
	}
	return x.Replace(r)
}

func (x *Section) write(r Record, place func(temp, final string) error) error {
	if x.ended {
		return fault.New("INTERNAL", "a record was about to be written without the store lock")
	}
	p := r.place()
	if c, ok := r.(*Controller); ok && (c.FenceToken != "" || c.Version != 2) {
		return fault.New("INTERNAL", "a fence token was about to be written")
	}
	data, err := encode(r)
	if err != nil {
		return disk.Fault(err)
	}
	root, err := x.s.dir()
	if err != nil {
		return disk.Fault(err)
	}
	dir := filepath.Join(root, p.folder)
	if err := x.s.need(dir); err != nil {
		return err
	}
	name := p.id + suffix
	temp := filepath.Join(dir, fmt.Sprintf(".%s.%d.%s.tmp", name, os.Getpid(), disk.NewID()))
	err = x.s.disk.Write(temp, data)
	if err == nil {
		if err = place(temp, filepath.Join(dir, name)); err != nil {
			_ = os.Remove(temp) // it may be gone already
		}
	}
	if err == nil {
		err = x.s.disk.Sync(dir)
	}
	if err == nil && p.archived && p.terminal {
		err = x.move(dir, name)
	}
	return disk.Fault(err)
}

// move takes a terminal record out of the way.
func (x *Section) move(dir, name string) error {
	to := filepath.Join(dir, archive)
	if err := x.s.need(to); err != nil {
		return err
	}
	if err := x.s.disk.Rename(filepath.Join(dir, name), filepath.Join(to, name)); err != nil {
		return err
	}
	return errors.Join(x.s.disk.Sync(to), x.s.disk.Sync(dir))
}

// Retained returns all records of a kind that are not terminal. One that cannot
// be read may be such a record: its error, STATE_CORRUPT, STATE_VERSION,
// STATE_INSECURE or STATE_IO, is returned. Terminal ones that lie about are moved
// to the archive.
func Retained[T any, R interface {
	*T
	Record
}](x *Section) (all []R, err error) {
	folder := R(new(T)).place().folder
	dir, err := x.s.folder(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, disk.Fault(err)
	}
	files, err := newest(dir)
	if err != nil {
		return nil, disk.Fault(err)
	}
	for _, file := range files {
		r := R(new(T))
		if err := read(dir, file, r); err != nil {
			return nil, disk.Fault(err)
		}
		if p := r.place(); !p.terminal {
			all = append(all, r)
		} else if p.archived && x.moved < batch {
			x.moved++
			if err := x.move(dir, file); err != nil {
				return nil, disk.Fault(err)
			}
		}
	}
	return all, nil
}

// sweep removes, once an hour, what killed processes have left behind, and
// archived records that nobody needs any more. Nothing depends on it, so its
// failures are none.
func (x *Section) sweep(root string) {
	s, now := x.s, x.s.now()
	s.mu.Lock()
	due := now.Sub(s.swept) >= sweepAge || now.Before(s.swept)
	if due {
		s.swept = now
	}
	s.mu.Unlock()
	if !due {
		return
	}
	deleted := 0
	for _, f := range folders {
		dir := filepath.Join(root, f.name)
		x.each(dir, func(path, name string, age time.Duration) {
			switch {
			case age < sweepAge:
			case strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".tmp"):
				_ = s.disk.Remove(path)
			case f.name == controllers && lock.IsLeftover(name):
				_ = s.disk.Clear(path)
			}
		})
		if f.keep > 0 {
			x.each(filepath.Join(dir, archive), func(path, name string, age time.Duration) {
				if strings.HasSuffix(name, suffix) && age > f.keep && deleted < batch {
					deleted++
					_ = s.disk.Remove(path)
				}
			})
		}
	}
}

func (x *Section) each(dir string, do func(path, name string, age time.Duration)) {
	if disk.Folder(dir) != nil {
		return
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			do(filepath.Join(dir, e.Name()), e.Name(), x.s.now().Sub(info.ModTime()))
		}
	}
}
