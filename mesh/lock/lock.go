// Package lock is the one lock of all stores of toolset mesh (mesh.md §3.6): a
// file lock, which the kernel drops when its holder dies, and a claim, a folder
// that tells who holds it. The claim adds what the file lock cannot tell
// (another machine, another bridge) and keeps the older bridge out.
//
// It knows no record, and has no rule by age.
package lock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"herdr-link/mesh/attest"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
)

const (
	fileName  = ".reservation-flock"
	claimName = ".reservation-lock"
	ownerName = "owner.json"

	// patience is how long Acquire waits, and
	// pollMin and pollMax how long between two looks.
	patience = 10 * time.Second
	pollMin  = 25 * time.Millisecond
	pollMax  = 200 * time.Millisecond
)

// A Lock is the one in a folder. Its methods may be used by many goroutines.
type Lock struct {
	dir      string
	disk     *disk.Disk
	log      *slog.Logger
	patience time.Duration
}

// New returns the lock in that folder.
func New(dir string, d *disk.Disk, log *slog.Logger) *Lock {
	return &Lock{dir, d, log, patience}
}

// A Held lock is this goroutine's until Release.
type Held struct {
	lock *Lock
	id   string
	file *os.File
}

// Acquire takes the lock in the folder, which must be there. It waits 10 s for
// who has it, then fails with LOCK_BUSY. Other codes: LOCK_INDETERMINATE,
// STATE_INSECURE, STATE_IO, CANCELLED.
func (l *Lock) Acquire(ctx context.Context) (*Held, error) {
	for deadline := time.Now().Add(l.patience); ; {
		held, row, err := l.try()
		if err != nil {
			return nil, disk.Fault(err)
		}
		if held != nil {
			return held, nil
		}
		status := rows[row]
		if status.State == Indeterminate {
			return nil, fault.New("LOCK_INDETERMINATE", "the store lock cannot be taken: %s. A person must make sure that nobody uses it, and run herdr-link agent-control unlock --confirm", status.Reason).
				With("state", status.State)
		}
		pause := pollMin + rand.N(pollMax-pollMin)
		if time.Until(deadline) < pause {
			return nil, fault.New("LOCK_BUSY", "the store lock was not free for %v: %s", l.patience, status.Reason).With("state", status.State)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fault.New("CANCELLED", "the call was cancelled while it waited for the store lock")
		}
	}
}

// try takes the lock if it is free, or else says by which row it is not.
func (l *Lock) try() (held *Held, row int, err error) {
	file, err := l.disk.Open(filepath.Join(l.dir, fileName)) // its own for each: so goroutines exclude each other, too
	if err != nil {
		return nil, 0, err
	}
	free, err := flock(file, true)
	if err != nil || !free {
		_ = file.Close()
		return nil, 1, err
	}
	id := disk.NewID()
	if row, err = l.clear(id); err == nil && row == 2 {
		err = l.claim(id)
		if errors.Is(err, fs.ErrExist) { // the other bridge was faster
			row, err = 10, nil
		} else if err == nil {
			return &Held{l, id, file}, 2, nil
		}
	}
	unlock(file)
	return nil, row, err
}

// clear removes a stale claim: that is safe, since the file lock is ours. It
// returns row 2 if there is none now.
func (l *Lock) clear(id string) (row int, err error) {
	row = decide(l.look())
	if rows[row].State != Stale {
		return row, nil
	}
	old := l.name(id, "old")
	if err := l.disk.Rename(l.path(), old); err != nil {
		return 0, err
	}
	_ = l.disk.Clear(old) // or swept later
	l.log.Info("the store lock was stale and is taken over", "reason", rows[row].Reason)
	return 2, nil
}

// claim makes the claim, which is never to be seen without its owner.
func (l *Lock) claim(id string) error {
	us := here()
	us.LockID = id
	us.AcquiredAt = time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	data, err := json.MarshalIndent(us, "", "  ")
	if err != nil {
		return err
	}
	dir := l.name(id, "new")
	err = l.disk.Mkdir(dir)
	if err == nil {
		err = l.disk.Write(filepath.Join(dir, ownerName), append(data, '\n'))
	}
	if err == nil {
		err = l.disk.Claim(dir, l.path())
	}
	if err != nil {
		_ = l.disk.Clear(dir) // or swept later
	}
	return err
}

// Release lets the next one in. A claim that is not this one's any more stays.
func (h *Held) Release() {
	l := h.lock
	defer unlock(h.file)
	data, err := disk.Read(filepath.Join(l.path(), ownerName))
	if o := readOwner(data); err != nil || o == nil || o.LockID != h.id {
		l.log.Warn("the store lock's claim is not this process's any more, and is left alone")
		return
	}
	old := l.name(h.id, "old")
	if err := l.disk.Rename(l.path(), old); err != nil {
		l.log.Warn("the store lock's claim could not be removed; the next one will do that")
		return
	}
	_ = l.disk.Clear(old) // or swept later
}

// Unlock takes away a claim that no rule may take away, for a person: it moves it
// into the folder to, which is made if it is missing, and says to where; "" if
// there was none. It refuses while somebody has the file lock (LOCK_BUSY), or the
// claim's owner may live on this machine (LOCK_BUSY, LOCK_INDETERMINATE). An owner
// that others could have written counts as well.
func (l *Lock) Unlock(to string) (was Status, moved string, err error) {
	if was = l.Look(); was.State == Absent { // make nothing
		return was, "", nil
	}
	file, err := l.disk.Open(filepath.Join(l.dir, fileName))
	if err != nil {
		return was, "", disk.Fault(err)
	}
	defer unlock(file)
	row := 1
	free, err := flock(file, true)
	if err != nil {
		return was, "", disk.Fault(err)
	}
	if free {
		o := l.look()
		if o.claim && o.owner == nil {
			data, _ := disk.Peek(filepath.Join(l.path(), ownerName))
			o.owner = readOwner(data)
		}
		row = decide(o)
	}
	was = rows[row]
	switch row {
	case 1, 10:
		return was, "", fault.New("LOCK_BUSY", "the store lock is in use: %s. End that process first", was.Reason).With("state", was.State)
	case 2:
		return was, "", nil
	case 7:
		return was, "", fault.New("LOCK_INDETERMINATE", "the store lock may be in use: %s on this machine. End it first, such as its container", was.Reason).With("state", was.State)
	}
	moved = filepath.Join(to, strings.TrimPrefix(claimName, ".")+"."+disk.NewID())
	if err = l.disk.Mkdir(to); err == nil {
		err = disk.Folder(to)
	}
	if err == nil {
		err = l.disk.Rename(l.path(), moved)
	}
	if err == nil {
		err = errors.Join(l.disk.Sync(to), l.disk.Sync(l.dir))
	}
	if err != nil {
		return was, "", disk.Fault(err)
	}
	l.log.Info("the store lock's claim was moved away by a person", "reason", was.Reason)
	return was, moved, nil
}

// Look says how it is with the lock. It makes and changes nothing, not even the
// folder.
func (l *Lock) Look() Status {
	file, err := disk.Look(filepath.Join(l.dir, fileName))
	switch {
	case err == nil:
		defer unlock(file)
		free, err := flock(file, false) // shared: two who look do not see each other
		if err != nil {
			return Status{Indeterminate, "the file system of the store has no file locks"}
		}
		if !free {
			return rows[1]
		}
	case !errors.Is(err, fs.ErrNotExist):
		return Status{Indeterminate, "the lock's file is open to others, or cannot be read"}
	}
	return rows[decide(l.look())]
}

// look observes the claim, while the file lock is free or ours.
func (l *Lock) look() observation {
	o := observation{us: here(), exists: attest.Exists, start: attest.Start}
	for range 2 { // again, if it went away in the middle
		err := disk.Folder(l.path())
		if errors.Is(err, fs.ErrNotExist) {
			o.claim = false
			break
		}
		o.claim = true
		if err != nil {
			break
		}
		data, err := disk.Read(filepath.Join(l.path(), ownerName))
		if err == nil {
			o.owner = readOwner(data)
			break
		}
	}
	return o
}

// here is what a claim of this process has, but for its id and time.
func here() owner {
	hostname, err := os.Hostname()
	if err != nil || hostname == "" {
		hostname = "unknown"
	}
	return owner{
		Version: 2, PID: os.Getpid(), Hostname: hostname, BootID: attest.Boot(), ProcessStartTicks: ticks(attest.Start(os.Getpid())),
		HostID: attest.Host(), PIDNamespace: attest.Namespace(), Impl: implementation,
	}
}

func (l *Lock) path() string { return filepath.Join(l.dir, claimName) }

func (l *Lock) name(id, suffix string) string {
	return filepath.Join(l.dir, fmt.Sprintf("%s.%s.%s", claimName, id, suffix))
}

// IsLeftover reports whether a file of the lock's folder was left by a process
// that ended while it made or removed its claim.
func IsLeftover(name string) bool {
	rest, ok := strings.CutPrefix(name, claimName+".")
	return ok && (strings.HasSuffix(rest, ".new") || strings.HasSuffix(rest, ".old"))
}
