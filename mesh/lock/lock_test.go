//go:build unix

package lock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"herdr-link/mesh/attest"
	"herdr-link/mesh/crash"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/twin"
)

func TestMain(m *testing.M) {
	crash.Main(plays()...)
	if dir := os.Getenv(workerOf); dir != "" {
		os.Exit(work(dir))
	}
	os.Exit(twin.Main(m))
}

func lockIn(dir string) *Lock { return New(dir, new(disk.Disk), slog.New(slog.DiscardHandler)) }

func tempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func acquire(t *testing.T, l *Lock) *Held {
	t.Helper()
	h, err := l.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// soon takes the lock, gives it back, and fails if that took a second.
func soon(t *testing.T, dir string) {
	t.Helper()
	begun := time.Now()
	acquire(t, lockIn(dir)).Release()
	if took := time.Since(begun); took > time.Second {
		t.Errorf("it took %v", took)
	}
	if s := lockIn(dir).Look(); s.State != Absent {
		t.Errorf("afterwards it is %v", s)
	}
}

func TestAcquire(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	l := lockIn(dir)
	if s := l.Look(); s != rows[2] || names(t, dir) != "" {
		t.Errorf("at first %v, and there is %q", s, names(t, dir))
	}
	h := acquire(t, l)
	if s := l.Look(); s != rows[1] {
		t.Errorf("taken: %v", s)
	}
	claim := filepath.Join(dir, claimName)
	if err := disk.Folder(claim); err != nil {
		t.Error(err)
	}
	data, err := disk.Read(filepath.Join(claim, ownerName))
	if err != nil {
		t.Fatal(err)
	}
	o := readOwner(data)
	if o == nil || o.LockID != h.id || o.PID != os.Getpid() || o.Impl != "herdr-link" || o.Version != 2 || o.BootID != attest.Boot() || o.HostID != attest.Host() {
		t.Errorf("the owner is %s", data)
	}
	if at, err := time.Parse(time.RFC3339, o.AcquiredAt); err != nil || time.Since(at) > time.Minute {
		t.Errorf("acquired %q", o.AcquiredAt)
	}
	h.Release()
	if s := l.Look(); s != rows[2] {
		t.Errorf("given back: %v", s)
	}
	other, err := disk.Look(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	if free, err := flock(other, false); !free || err != nil {
		t.Fatal(free, err)
	}
	if s := l.Look(); s != rows[2] {
		t.Errorf("while another one looks: %v", s)
	}
	unlock(other)
	if got := names(t, dir); got != fileName {
		t.Errorf("left: %q", got)
	}
	if info, err := os.Stat(filepath.Join(dir, fileName)); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Goroutines exclude each other as processes do.
func TestGoroutines(t *testing.T) {
	t.Parallel()
	l := lockIn(tempDir(t))
	var wait sync.WaitGroup
	var inside atomic.Int32
	for range 8 {
		wait.Go(func() {
			h, err := l.Acquire(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if inside.Add(1) != 1 {
				t.Error("two are inside")
			}
			inside.Add(-1)
			h.Release()
		})
	}
	wait.Wait()
}

func TestBusy(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	h := acquire(t, lockIn(dir))
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() {
		if _, err := lockIn(dir).Acquire(ctx); fault.Code(err) != "CANCELLED" {
			t.Errorf("cancelled: %v", err)
		}
	})
	wait.Go(func() {
		l := lockIn(dir)
		l.patience = 4 * pollMax // not the 10 s that a caller has
		begun := time.Now()
		_, err := l.Acquire(t.Context())
		var f *fault.Fault
		if !errors.As(err, &f) || f.Code != "LOCK_BUSY" || !f.Retryable || f.Details["state"] != Active {
			t.Errorf("%v", err)
		}
		if took := time.Since(begun); took < l.patience-pollMax || took > l.patience+20*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	cancel()
	wait.Wait()
	h.Release()
	soon(t, dir)
	if l := lockIn(dir); l.patience != 10*time.Second {
		t.Errorf("a caller waits %v", l.patience)
	}
}

// A foreign claim as the older bridge makes it.
func foreign() owner {
	o := here()
	o.LockID, o.AcquiredAt, o.Impl, o.PIDNamespace = "other-lock", "2026-01-02T03:04:05.678Z", "", ""
	return o
}

func plant(t *testing.T, dir string, content string) {
	t.Helper()
	claim := filepath.Join(dir, claimName)
	if err := os.Mkdir(claim, 0o700); err != nil {
		t.Fatal(err)
	}
	if content != "" {
		if err := os.WriteFile(filepath.Join(claim, ownerName), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func encode(t *testing.T, o owner) string {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// ended returns the id of a process that was there.
func ended(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", ":")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// A claimed lock is what is on disk, and the row that fits.
type claimed struct {
	owner   string
	disturb func(t *testing.T, dir string)
	row     int
}

// claims are all rows from 3 on, by the name of the case.
func claims(t *testing.T) map[string]claimed {
	gone := ended(t)
	with := func(change func(*owner)) string {
		o := foreign()
		change(&o)
		return encode(t, o)
	}
	return map[string]claimed{
		"no owner": {"", nil, 3},
		"an owner of an hour ago that is not there": {"", func(t *testing.T, dir string) {
			hour := time.Now().Add(-time.Hour)
			if err := os.Chtimes(filepath.Join(dir, claimName), hour, hour); err != nil {
				t.Fatal(err)
			}
		}, 3},
		"no JSON":           {"{", nil, 3},
		"no version":        {with(func(o *owner) { o.Version = 0 }), nil, 3},
		"another version":   {with(func(o *owner) { o.Version = 3 }), nil, 3},
		"no lock id":        {with(func(o *owner) { o.LockID = "" }), nil, 3},
		"no process":        {with(func(o *owner) { o.PID = 0 }), nil, 3},
		"no host":           {with(func(o *owner) { o.Hostname = "" }), nil, 3},
		"a process as text": {strings.Replace(with(func(o *owner) { o.PID = 77777 }), "77777", `"77777"`, 1), nil, 3},
		"open to others": {with(func(*owner) {}), func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, claimName), 0o755); err != nil {
				t.Fatal(err)
			}
		}, 3},
		"an owner open to others": {with(func(*owner) {}), func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, claimName, ownerName), 0o644); err != nil {
				t.Fatal(err)
			}
		}, 3},
		"a file for a claim": {"", func(t *testing.T, dir string) {
			claim := filepath.Join(dir, claimName)
			if err := errors.Join(os.Remove(claim), os.WriteFile(claim, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}, 3},
		"another host":                       {with(func(o *owner) { o.HostID += "x" }), nil, 4},
		"another host, ours":                 {with(func(o *owner) { o.HostID += "x"; o.Impl = implementation }), nil, 4},
		"another host by name":               {with(func(o *owner) { o.HostID = ""; o.Hostname += "x" }), nil, 4},
		"another host by name, gone":         {with(func(o *owner) { o.HostID = ""; o.Hostname += "x"; o.PID = gone }), nil, 4},
		"ours, alive":                        {with(func(o *owner) { o.Impl = implementation }), nil, 5},
		"ours, by name":                      {with(func(o *owner) { o.Impl = implementation; o.HostID = "" }), nil, 5},
		"before the restart":                 {with(func(o *owner) { o.BootID = "x" }), nil, 6},
		"another namespace":                  {with(func(o *owner) { o.PIDNamespace = "pid:[1]"; o.PID = gone }), nil, 7},
		"another namespace, boot not known":  {with(func(o *owner) { o.PIDNamespace = "pid:[1]"; o.PID = gone; o.BootID = "" }), nil, 7},
		"before the restart, in a namespace": {with(func(o *owner) { o.PIDNamespace = "pid:[1]"; o.BootID = "x" }), nil, 6},
		"gone":                               {with(func(o *owner) { o.PID = gone }), nil, 8},
		"gone, boot not known":               {with(func(o *owner) { o.PID = gone; o.BootID = "" }), nil, 8},
		"the id again":                       {with(func(o *owner) { o.ProcessStartTicks = "1" }), nil, 9},
		"the id again, as a number":          {strings.Replace(with(func(o *owner) { o.ProcessStartTicks = "77777" }), `"77777"`, "77777", 1), nil, 9},
		"at work":                            {with(func(*owner) {}), nil, 10},
		"at work, start not known":           {with(func(o *owner) { o.ProcessStartTicks = "" }), nil, 10},
		"at work, boot not known":            {with(func(o *owner) { o.BootID = ""; o.ProcessStartTicks = "1" }), nil, 10},
	}
}

// lock makes what is on disk.
func (c claimed) lock(t *testing.T) (l *Lock, dir string) {
	t.Helper()
	if attest.Namespace() == "" && c.row == 7 || attest.Start(os.Getpid()) == "" && c.row == 9 {
		t.Skip("not known on this system")
	}
	dir = tempDir(t)
	plant(t, dir, c.owner)
	if c.disturb != nil {
		c.disturb(t, dir)
	}
	return lockIn(dir), dir
}

// Every row of the table, by what is on disk. Acquire does as the status says.
func TestRows(t *testing.T) {
	t.Parallel()
	for name, tc := range claims(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, dir := tc.lock(t)
			if got := decide(l.look()); got != tc.row {
				t.Errorf("row %d, not %d", got, tc.row)
			}
			if s := l.Look(); s != rows[tc.row] || names(t, dir) != claimName {
				t.Errorf("status %v, and there is %q", s, names(t, dir))
			}
			switch rows[tc.row].State {
			case Stale:
				soon(t, dir)
				if got := names(t, dir); got != fileName {
					t.Errorf("left: %q", got)
				}
			case Indeterminate:
				if _, err := l.Acquire(t.Context()); fault.Code(err) != "LOCK_INDETERMINATE" {
					t.Errorf("%v", err)
				}
				if got := names(t, dir); got != fileName+" "+claimName {
					t.Errorf("left: %q", got)
				}
			case Active:
				ctx, cancel := context.WithTimeout(t.Context(), 3*pollMin)
				defer cancel()
				if _, err := l.Acquire(ctx); fault.Code(err) != "CANCELLED" {
					t.Errorf("%v", err)
				}
				if got := names(t, dir); got != fileName+" "+claimName {
					t.Errorf("left: %q", got)
				}
			}
		})
	}
}

// A stale claim goes away with whatever is in it: what stays of it would be in the
// way when the next holder gives the lock back.
func TestStaleClaimWithFolder(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	o := here()
	o.LockID, o.AcquiredAt = "x", "2026-01-01T00:00:00.000Z"
	plant(t, dir, encode(t, o))
	deep := filepath.Join(dir, claimName, "deep", "er")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(deep, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(deep, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := lockIn(dir)
	acquire(t, l).Release()
	if s := l.Look(); s != rows[2] || names(t, dir) != fileName {
		t.Errorf("%v, and there is %q", s, names(t, dir))
	}
	if _, err := os.Stat(filepath.Join(outside, "mine")); err != nil {
		t.Error(err)
	}
}

// mesh.md §5.1: a person may move away what nobody on this machine can be using.
func TestUnlock(t *testing.T) {
	t.Parallel()
	for name, tc := range claims(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, dir := tc.lock(t)
			row, code := tc.row, map[int]string{7: "LOCK_INDETERMINATE", 10: "LOCK_BUSY"}[tc.row]
			if strings.Contains(name, "open to others") { // the owner can be read, and is this process
				row, code = 10, "LOCK_BUSY"
			}
			claim := filepath.Join(dir, claimName)
			before, err := os.Lstat(claim)
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(tempDir(t), "new", "quarantine")
			was, moved, err := l.Unlock(to)
			if fault.Code(err) != code || (err == nil) != (code == "") || was != rows[row] {
				t.Fatalf("%v, %v; want row %d and %q", was, err, row, code)
			}
			if code != "" {
				if now, err := os.Lstat(claim); err != nil || !os.SameFile(before, now) || moved != "" {
					t.Errorf("refused, and yet: %v, %q", err, moved)
				}
				if _, err := os.Lstat(to); err == nil {
					t.Error("refused, and yet it made a folder")
				}
				return
			}
			if now, err := os.Lstat(moved); err != nil || !os.SameFile(before, now) || filepath.Dir(moved) != to || disk.Folder(to) != nil {
				t.Errorf("moved to %q: %v", moved, err)
			}
			if text, _ := os.ReadFile(filepath.Join(moved, ownerName)); string(text) != tc.owner {
				t.Errorf("the owner is now %q", text)
			}
			soon(t, dir)
			if got := names(t, dir); got != fileName {
				t.Errorf("left: %q", got)
			}
		})
	}
}

// Rows 1 and 2, and what cannot be moved.
func TestUnlockRefuses(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	to := filepath.Join(dir, "quarantine")
	l := lockIn(dir)
	if was, moved, err := l.Unlock(to); was != rows[2] || moved != "" || err != nil || names(t, dir) != "" {
		t.Errorf("no claim: %v, %q, %v, and there is %q", was, moved, err, names(t, dir))
	}
	h := acquire(t, l)
	if was, _, err := l.Unlock(to); was != rows[1] || fault.Code(err) != "LOCK_BUSY" {
		t.Errorf("held: %v, %v", was, err)
	}
	h.Release()
	file, err := l.disk.Open(filepath.Join(dir, fileName)) // held by one who has not claimed yet
	if err != nil {
		t.Fatal(err)
	}
	if free, err := flock(file, true); !free || err != nil {
		t.Fatal(free, err)
	}
	plant(t, dir, "")
	if was, _, err := l.Unlock(to); was != rows[1] || fault.Code(err) != "LOCK_BUSY" {
		t.Errorf("held, with a claim that has no owner: %v, %v", was, err)
	}
	unlock(file)
	if got := names(t, dir); got != fileName+" "+claimName {
		t.Errorf("left: %q", got)
	}

	if err := errors.Join(os.Mkdir(to, 0o700), os.Chmod(to, 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Unlock(to); fault.Code(err) != "STATE_INSECURE" {
		t.Errorf("to a folder that is open to others: %v", err)
	}
	if err := os.Chmod(filepath.Join(dir, fileName), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Unlock(to); fault.Code(err) != "STATE_INSECURE" {
		t.Errorf("with a lock file that is open to others: %v", err)
	}
	if got := names(t, dir); got != fileName+" "+claimName+" quarantine" || names(t, to) != "" {
		t.Errorf("left: %q", got)
	}
}

// Reasons go to a model: they tell no process, lock or host.
func TestReasons(t *testing.T) {
	t.Parallel()
	host, _ := os.Hostname()
	for i, row := range rows {
		if i > 0 && (row.Reason == "" || strings.ContainsAny(row.Reason, "0123456789") || strings.Contains(row.Reason, host)) {
			t.Errorf("row %d: %q", i, row.Reason)
		}
	}
}

// A live process that could not remove its claim stands in nobody's way.
func TestClaimStays(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	broken := &disk.Disk{Before: func(op, path string) error {
		if op == disk.OpRename && strings.HasSuffix(path, ".old") {
			return fs.ErrPermission
		}
		return nil
	}}
	h := acquire(t, New(dir, broken, slog.New(slog.DiscardHandler)))
	h.Release()
	if s := lockIn(dir).Look(); s != rows[5] {
		t.Errorf("%v", s)
	}
	soon(t, dir)
}

// A claim that somebody else has put in place of ours is not removed.
func TestClaimOfAnother(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	h := acquire(t, lockIn(dir))
	if err := os.RemoveAll(filepath.Join(dir, claimName)); err != nil {
		t.Fatal(err)
	}
	plant(t, dir, encode(t, foreign()))
	h.Release()
	if s := lockIn(dir).Look(); s != rows[10] {
		t.Errorf("%v", s)
	}
}

// The older bridge makes its claim's folder right before ours gets its name.
func TestOlderBridgeIsFaster(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	d := &disk.Disk{Before: func(op, path string) error {
		if op == disk.OpRename && filepath.Base(path) == claimName {
			return os.Mkdir(path, 0o700)
		}
		return nil
	}}
	if _, err := New(dir, d, slog.New(slog.DiscardHandler)).Acquire(t.Context()); fault.Code(err) != "LOCK_INDETERMINATE" {
		t.Errorf("%v", err)
	}
	if got := names(t, dir); got != fileName+" "+claimName {
		t.Errorf("left: %q", got)
	}
}

func TestLockFileInsecure(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(path string) error{
		"mode":   func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o644)) },
		"link":   func(path string) error { return os.Symlink("/dev/null", path) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		dir := tempDir(t)
		if err := make(filepath.Join(dir, fileName)); err != nil {
			t.Fatal(err)
		}
		if _, err := lockIn(dir).Acquire(t.Context()); fault.Code(err) != "STATE_INSECURE" {
			t.Errorf("%s: %v", name, err)
		}
		if s := lockIn(dir).Look(); s.State != Indeterminate {
			t.Errorf("%s: %v", name, s)
		}
	}
}

func plays() []crash.Play {
	return []crash.Play{{
		Lock: true,
		Name: "section",
		Run: func(ctx context.Context, dir string, d *disk.Disk) (any, error) {
			h, err := New(dir, d, slog.New(slog.DiscardHandler)).Acquire(ctx)
			if err != nil {
				return nil, err
			}
			err = disk.Fault(d.Before("section", "inside"))
			h.Release()
			return nil, err
		},
		Prepare: func(t *testing.T, dir string) []string {
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			return nil
		},
		Check: func(t *testing.T, end crash.End) {
			if end.Code != "" && end.Code != "STATE_IO" {
				t.Errorf("%s", end.Code)
			}
			soon(t, end.Dir)
			if got := names(t, end.Dir); !end.Killed && !strings.HasPrefix(end.Op, disk.OpRemove) && got != fileName {
				t.Errorf("left: %s", got)
			}
			for name := range strings.FieldsSeq(names(t, end.Dir)) {
				if name != fileName && !strings.HasSuffix(name, ".old") && !strings.HasSuffix(name, ".new") {
					t.Errorf("left: %s", name)
				}
			}
		},
	}, {
		Lock: true,
		Name: "unlock",
		Run: func(_ context.Context, dir string, d *disk.Disk) (any, error) {
			_, moved, err := New(dir, d, slog.New(slog.DiscardHandler)).Unlock(filepath.Join(dir, "quarantine"))
			return moved, err
		},
		Prepare: func(t *testing.T, dir string) []string {
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			plant(t, dir, "{")
			return nil
		},
		Check: func(t *testing.T, end crash.End) {
			if end.Code != "" && end.Code != "STATE_IO" {
				t.Errorf("%s", end.Code)
			}
			// The claim is at one of the two places, whole, and a second try ends it.
			to := filepath.Join(end.Dir, "quarantine")
			places := 0
			for _, pattern := range []string{claimName, "quarantine/*"} {
				found, _ := filepath.Glob(filepath.Join(end.Dir, pattern, ownerName))
				places += len(found)
			}
			if places != 1 {
				t.Errorf("the claim is at %d places", places)
			}
			if _, _, err := lockIn(end.Dir).Unlock(to); err != nil {
				t.Error(err)
			}
			soon(t, end.Dir)
			if got := strings.Fields(names(t, to)); len(got) != 1 {
				t.Errorf("in quarantine: %q", got)
			}
		},
	}}
}

// A holder that is killed, or whose file system fails, at any step keeps nobody
// out.
func TestCrash(t *testing.T) {
	t.Parallel()
	if twin.Runs(t) { // but for the plays that nobody kills
		return
	}
	for _, p := range plays() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			p.Each(t)
		})
	}
}

// workerOf is the environment variable that makes this test binary one of many
// processes that take the lock in the folder named there.
const workerOf = "HERDR_LINK_LOCK_TEST_DIR"

const workers, rounds = 16, 6

// work takes the lock a few times. Inside, it counts in a file in a way that
// only one at a time can.
func work(dir string) int {
	l := lockIn(dir)
	file := filepath.Join(dir, "count")
	for range rounds {
		h, err := l.Acquire(context.Background())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		text, _ := os.ReadFile(file)
		n, _ := strconv.Atoi(string(text))
		err = os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600)
		h.Release()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// Many processes, a stale claim at the beginning.
func TestProcesses(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	o := foreign()
	o.PID = ended(t)
	plant(t, dir, encode(t, o))
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			cmd := exec.CommandContext(t.Context(), program)
			cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", workerOf+"="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wait.Wait()
	if text, err := os.ReadFile(filepath.Join(dir, "count")); err != nil || string(text) != strconv.Itoa(workers*rounds) {
		t.Errorf("counted to %s, %v", text, err)
	}
	if got := names(t, dir); got != fileName+" count" {
		t.Errorf("left: %q", got)
	}
}
