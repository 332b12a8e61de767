package herdrcli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// settle is how long after a prompt its Enter may still be to come: Herdr
	// presses it 300 ms behind the text.
	settle = 350 * time.Millisecond
	// lockPoll is how often it looks. (flock itself cannot be cancelled.)
	lockPoll = 10 * time.Millisecond
)

// ErrLockBusy: another process kept the lock for the whole time of Acquire.
var ErrLockBusy = errors.New("the lock was not free in time")

// Locks are advisory file locks, one a terminal, in a folder of the user's
// home that every process of the user agrees on. They keep two writers from
// typing into one pane at the same time, across processes.
type Locks struct {
	home string
}

// NewLocks returns the locks under that home folder. Nothing is made before
// the first Acquire.
func NewLocks(home string) *Locks { return &Locks{home} }

// A Lock is held by this process until Release.
type Lock struct {
	file *os.File
	// Waited reports whether another one held the lock when it was asked for.
	Waited   bool
	Terminal string // of the agent whose lock it is
	got      time.Time
}

// Acquire takes the lock of the terminal in which the agent runs. It fails
// with ErrLockBusy when it was not free for that time, with the context's error, or with another one
// if there can be no lock: a folder that is not the user's own, say.
func (l *Locks) Acquire(ctx context.Context, a Agent, socket string, patience time.Duration) (*Lock, error) {
	return l.acquire(ctx, lockName(a, socket), a.TerminalID, patience)
}

// AcquireNamed is Acquire for what the user has once, such as a setting, and not a
// terminal: the lock of that name.
func (l *Locks) AcquireNamed(ctx context.Context, name string, patience time.Duration) (*Lock, error) {
	return l.acquire(ctx, hashed("name\x00"+name), "", patience)
}

func (l *Locks) acquire(ctx context.Context, name, terminal string, patience time.Duration) (*Lock, error) {
	file, err := l.open(name)
	if err != nil {
		return nil, err
	}
	lock := &Lock{file: file, Terminal: terminal}
	deadline := time.Now().Add(patience)
	for {
		free, err := tryLock(file)
		switch {
		case err != nil:
			_ = file.Close()
			return nil, err
		case free:
			lock.got = time.Now()
			return lock, nil
		case time.Now().After(deadline):
			_ = file.Close()
			return nil, ErrLockBusy
		}
		lock.Waited = true
		if err := sleep(ctx, lockPoll); err != nil {
			_ = file.Close()
			return nil, err
		}
	}
}

// AcquireAll takes the locks of several terminals in the order of their files, so
// that no two who want the same ones wait for each other. It has all or none;
// patience is for all. Terminals that are there twice are locked once.
func (l *Locks) AcquireAll(ctx context.Context, agents []Agent, socket string, patience time.Duration) (all []*Lock, err error) {
	agents = slices.Clone(agents)
	slices.SortFunc(agents, func(a, b Agent) int { return strings.Compare(lockName(a, socket), lockName(b, socket)) })
	agents = slices.CompactFunc(agents, func(a, b Agent) bool { return lockName(a, socket) == lockName(b, socket) })
	deadline := time.Now().Add(patience)
	for _, a := range agents {
		lock, err := l.Acquire(ctx, a, socket, time.Until(deadline))
		if err != nil {
			for _, lock := range all {
				lock.Release()
			}
			return nil, err
		}
		all = append(all, lock)
	}
	return all, nil
}

// lockName is the same for all who mean that terminal. Ids are hashed, so that
// whatever Herdr sends makes a file name.
func lockName(a Agent, socket string) string {
	key := "terminal\x00" + a.TerminalID
	if a.TerminalID == "" {
		key = "pane\x00" + socket + "\x00" + a.PaneID
	}
	return hashed(key)
}

func hashed(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

// folders returns the folder of the locks, and the one above it, which is ours
// as well.
func (l *Locks) folders() (base, dir string, err error) {
	if !filepath.IsAbs(l.home) {
		return "", "", errors.New("no home folder to lock in")
	}
	base = filepath.Join(l.home, ".local", "state", "herdr-link")
	return base, filepath.Join(base, "locks"), nil
}

// Look says where the locks are and why there can be none, if so. there is dir,
// or the folder that is there already and in which dir is going to be made.
// Nothing is made or changed, and whether one may write in there is not looked at.
func (l *Locks) Look() (dir, there string, err error) {
	base, dir, err := l.folders()
	if err != nil {
		return "", "", err
	}
	for _, d := range []string{base, dir} {
		info, err := os.Lstat(d)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err == nil {
			err = private(info)
		}
		if err != nil {
			return dir, "", err
		}
	}
	for there = dir; ; there = filepath.Dir(there) {
		switch info, err := os.Stat(there); {
		case err == nil && info.IsDir():
			return dir, there, nil
		case err == nil:
			return dir, "", fmt.Errorf("%s is not a folder", there)
		case isLink(there):
			return dir, "", fmt.Errorf("%s is a link to nothing", there)
		case !errors.Is(err, fs.ErrNotExist) || there == filepath.Dir(there):
			return dir, "", err
		}
	}
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

func (l *Locks) open(name string) (*os.File, error) {
	base, dir, err := l.folders()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for _, d := range []string{base, dir} {
		info, err := os.Lstat(d)
		if err != nil {
			return nil, err
		}
		if err := private(info); err != nil {
			return nil, err
		}
	}
	// Not through an os.Root: it follows links that stay inside, noFollow or not.
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = file.Close()
		return nil, errors.New("the lock is not a regular file")
	}
	return file, nil
}

// private refuses a folder that others could put their files in.
func private(info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0 || !info.IsDir():
		return fmt.Errorf("%s is not a folder", info.Name())
	case !own(info):
		return fmt.Errorf("%s belongs to another user", info.Name())
	case info.Mode().Perm()&0o022 != 0 && othersCount:
		return fmt.Errorf("%s is writable by others", info.Name())
	}
	return nil
}

// Settle sleeps until the Enter of the prompt before has been pressed, at most
// 350 ms. It reports whether there was something to sleep for.
func (l *Lock) Settle(ctx context.Context) (slept bool, err error) { return l.Rest(ctx, settle) }

// Rest is Settle for who waits for more than the Enter: until that time after the
// prompt before.
func (l *Lock) Rest(ctx context.Context, after time.Duration) (slept bool, err error) {
	info, err := l.file.Stat()
	if err != nil || info.Size() == 0 { // nothing was prompted yet
		return false, nil
	}
	ended := info.ModTime()
	if l.Waited && l.got.After(ended) {
		// Who held the lock may have been killed in the middle of a prompt, and
		// have marked no end.
		ended = l.got
	}
	rest := min(time.Until(ended.Add(after)), after)
	if rest <= 0 {
		return false, nil
	}
	return true, sleep(ctx, rest)
}

// Mark notes that something is typed now. It is on disk for the next holder even
// if this process is killed.
func (l *Lock) Mark() error {
	_, err := l.file.WriteAt([]byte{'\n'}, 0) // a write sets the modification time
	return err
}

// Typed notes that what was typed has ended now. If that fails, on a full disk,
// say, nobody else will know: then it returns only when the Enter must have been
// pressed, so that the lock is kept until then, and with the reason.
func (l *Lock) Typed() error {
	err := l.Mark()
	if err != nil {
		time.Sleep(settle)
	}
	return err
}

// Release lets the next one in.
func (l *Lock) Release() {
	_ = unlock(l.file) // at once, even if a child being forked still has the file
	_ = l.file.Close()
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return cause(ctx)
	}
}
