package herdrcli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var terminal = Agent{TerminalID: "term_1", PaneID: "w1:p1"}

// hold is a process that takes the lock, says so, and keeps it while its stdin
// is open.
func hold(home string) {
	if _, err := NewLocks(home).Acquire(context.Background(), terminal, "", lockTime); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// count is a process that adds to a number in a file, under the lock.
func count(home string) {
	file := filepath.Join(home, "number")
	for range counts {
		lock, err := NewLocks(home).Acquire(context.Background(), terminal, "", lockTime)
		if err != nil {
			os.Exit(1)
		}
		data, _ := os.ReadFile(file)
		n, _ := strconv.Atoi(string(data))
		time.Sleep(time.Millisecond) // so that others would have the time to spoil it
		if os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600) != nil {
			os.Exit(1)
		}
		lock.Release()
	}
	os.Exit(0)
}

const counts = 10

func child(t *testing.T, role, home string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(executableFile(t))
	cmd.Env = quick(roleVariable+"="+role, fileVariable+"="+home)
	return cmd
}

// holder starts a process that holds the lock.
func holder(t *testing.T, home string) (cmd *exec.Cmd, stdin io.Closer) {
	t.Helper()
	cmd = child(t, "hold", home)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	if word := readLine(t, bufio.NewReader(out)); word != "held" {
		t.Fatal(word)
	}
	return cmd, in
}

func acquire(t testing.TB, home string, a Agent) *Lock {
	t.Helper()
	lock, err := NewLocks(home).Acquire(t.Context(), a, "", lockTime)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// busy says whether the terminal's lock is held, from another file of its own.
func busy(t testing.TB, home string, a Agent) bool {
	t.Helper()
	file, err := NewLocks(home).open(lockName(a, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	free, err := tryLock(file)
	if err != nil {
		t.Fatal(err)
	}
	return !free
}

// lockTime is how long the tests wait for a lock.
const lockTime = 30 * time.Second

func TestLockAcrossProcesses(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	_, stdin := holder(t, home)
	if !busy(t, home, terminal) {
		t.Fatal("two processes have the lock")
	}
	other := acquire(t, home, Agent{TerminalID: "term_2", PaneID: "w1:p1"}) // another terminal is free
	if other.Waited {
		t.Error("a free lock was waited for")
	}
	other.Release()

	reason := errors.New("a reason")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(reason)
	if lock, err := NewLocks(home).Acquire(ctx, terminal, "", lockTime); lock != nil || !errors.Is(err, reason) {
		t.Errorf("%v, %v", lock, err)
	}
	ctx, end := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer end()
	if lock, err := NewLocks(home).Acquire(ctx, terminal, "", lockTime); lock != nil || !errors.Is(err, ErrTimeout) {
		t.Errorf("%v, %v", lock, err)
	}
	stdin.Close()
	lock := acquire(t, home, terminal)
	lock.Release()
}

// The system frees the lock of a process that is no more.
func TestLockOfKilledHolder(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cmd, _ := holder(t, home)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	lock := acquire(t, home, terminal)
	defer lock.Release()
	if lock.Waited {
		t.Error("a free lock was waited for")
	}
}

// Several processes at once: nobody's work is lost.
func TestLockExcludes(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	var all []*exec.Cmd
	for range 4 {
		cmd := child(t, "count", home)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(home, "number"))
	if err != nil || string(data) != strconv.Itoa(counts*len(all)) {
		t.Errorf("counted %s, %v", data, err)
	}
}

// Locks look only, and never block in the system: so all of their waiting can
// be told by the clock of a bubble.
func TestLockBusy(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		held := acquire(t, home, terminal)
		defer held.Release()
		begun := time.Now()
		lock, err := NewLocks(home).Acquire(t.Context(), terminal, "", lockTime)
		if lock != nil || !errors.Is(err, ErrLockBusy) {
			t.Errorf("%v, %v", lock, err)
		}
		if took := time.Since(begun); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("waited %v", took)
		}
	})
}

func TestLockWaits(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		held := acquire(t, home, terminal)
		if held.Waited {
			t.Error("a free lock was waited for")
		}
		got := make(chan *Lock)
		go func() { got <- acquire(t, home, terminal) }()
		time.Sleep(20 * time.Second)
		select {
		case <-got:
			t.Fatal("two have the lock")
		default:
		}
		held.Release()
		begun := time.Now()
		lock := <-got
		defer lock.Release()
		if took := time.Since(begun); took > lockPoll {
			t.Errorf("a free lock was noticed after %v", took)
		}
		if !lock.Waited {
			t.Error("Waited is not set")
		}
	})
}

func TestLockCancel(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		held := acquire(t, home, terminal)
		defer held.Release()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := NewLocks(home).Acquire(ctx, terminal, "", lockTime)
			ended <- err
		}()
		synctest.Wait()
		begun := time.Now()
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(begun) != 0 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

// Settle sleeps for what is left of the time after a mark.
func TestSettle(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		marked time.Duration // before now
		waited bool          // for the lock, which was got 50 ms ago
		want   time.Duration
	}{
		"now":                           {0, false, 350 * time.Millisecond},
		"a moment ago":                  {100 * time.Millisecond, false, 250 * time.Millisecond},
		"nearly over":                   {349 * time.Millisecond, false, time.Millisecond},
		"just over":                     {350 * time.Millisecond, false, 0},
		"long ago":                      {time.Hour, false, 0},
		"soon":                          {-100 * time.Millisecond, false, 350 * time.Millisecond},
		"in a far tomorrow":             {-24 * time.Hour, false, 350 * time.Millisecond},
		"an age of the past":            {50 * 365 * 24 * time.Hour, false, 0},
		"by one that was killed then":   {time.Hour, true, 300 * time.Millisecond},
		"since the lock was waited for": {20 * time.Millisecond, true, 330 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				lock := acquire(t, home, terminal)
				defer lock.Release()
				if err := lock.Mark(); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				lock.Waited, lock.got = test.waited, begun.Add(-50*time.Millisecond)
				at := begun.Add(-test.marked)
				if err := os.Chtimes(lockFile(home, terminal), at, at); err != nil {
					t.Fatal(err)
				}
				slept, err := lock.Settle(t.Context())
				if took := time.Since(begun); err != nil || took != test.want || slept != (test.want > 0) {
					t.Errorf("slept %v (%t), %v", took, slept, err)
				}
			})
		})
	}
}

// A lock that nobody has marked has nothing to settle, however new its file is.
func TestSettleFresh(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) { // here files are made in a far future
		for range 2 {
			lock := acquire(t, home, terminal)
			begun := time.Now()
			if slept, err := lock.Settle(t.Context()); slept || err != nil || time.Since(begun) != 0 {
				t.Errorf("slept %v (%t), %v", time.Since(begun), slept, err)
			}
			lock.Release()
		}
	})
}

func TestSettleCancel(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		lock := acquire(t, home, terminal)
		defer lock.Release()
		if err := lock.Mark(); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer stop()
		if slept, err := lock.Settle(ctx); !slept || !errors.Is(err, ErrTimeout) {
			t.Errorf("%t, %v", slept, err)
		}
	})
}

// Each Mark sets the time, and the next holder sees it: on disk, not in memory.
func TestMark(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	file := lockFile(home, terminal)
	old := time.Now().Add(-time.Hour)
	for range 2 {
		lock := acquire(t, home, terminal)
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
		if err := lock.Mark(); err != nil {
			t.Fatal(err)
		}
		lock.Release()
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if age := time.Since(info.ModTime()); age > time.Minute || age < -time.Minute {
			t.Errorf("marked %v ago", age)
		}
		if info.Size() != 1 {
			t.Errorf("the file has grown to %d bytes", info.Size())
		}
	}
}

// Release frees the lock even if a child that is being started has its file.
func TestRelease(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	lock := acquire(t, home, terminal)
	if !busy(t, home, terminal) {
		t.Fatal("a lock is not exclusive in one process")
	}
	keepOpen(t, lock.file)
	lock.Release()
	if busy(t, home, terminal) {
		t.Error("not free at once")
	}
	if _, err := os.Stat(lockFile(home, terminal)); err != nil {
		t.Errorf("the file is gone: %v", err)
	}
}

func lockFile(home string, a Agent) string {
	return filepath.Join(home, ".local", "state", "herdr-link", "locks", lockName(a, ""))
}

func TestLockName(t *testing.T) {
	t.Parallel()
	a := Agent{TerminalID: "term_1", PaneID: "w1:p1", Name: "lead"}
	moved := Agent{TerminalID: "term_1", PaneID: "w2:p7", Name: "boss"}
	bare := Agent{PaneID: "w1:p1", Name: "lead"}
	if lockName(a, "/a") != lockName(moved, "/b") {
		t.Error("one terminal has two locks")
	}
	if lockName(bare, "/a") != lockName(Agent{PaneID: "w1:p1"}, "/a") {
		t.Error("one pane has two locks")
	}
	names := map[string]bool{}
	for _, c := range []struct {
		agent  Agent
		socket string
	}{
		{a, "/a"},
		{Agent{TerminalID: "term_2", PaneID: "w1:p1"}, "/a"},
		{bare, "/a"}, {bare, "/b"}, {bare, ""},
		{Agent{PaneID: "w1:p2"}, "/a"},
		{Agent{TerminalID: "../../../x"}, "/a"},
		{Agent{TerminalID: "/etc/passwd"}, "/a"},
		{Agent{TerminalID: "w1:p1"}, "/a"},
	} {
		name := lockName(c.agent, c.socket)
		if names[name] {
			t.Errorf("%+v, %s: another's name", c.agent, c.socket)
		}
		names[name] = true
		if len(name) != 32 || strings.Trim(name, "0123456789abcdef") != "" {
			t.Errorf("%q is no hash", name)
		}
	}
}

func TestLockNeedsHome(t *testing.T) {
	t.Parallel()
	for _, home := range []string{"", "home", "."} {
		if lock, err := NewLocks(home).Acquire(t.Context(), terminal, "", lockTime); lock != nil || err == nil || errors.Is(err, ErrLockBusy) {
			t.Errorf("%q: %v, %v", home, lock, err)
		}
	}
	if _, err := os.Stat(".local"); err == nil {
		t.Error("a folder was made in the working directory")
	}
}

// What is no folder where a folder must be, and no file where a file must be.
func TestLockFolder(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(base, locks, file string) error{
		"file for .local":     func(base, _, _ string) error { return os.WriteFile(filepath.Dir(filepath.Dir(base)), nil, 0o600) },
		"file for herdr-link": func(base, _, _ string) error { return mkdirWrite(base) },
		"file for locks":      func(_, locks, _ string) error { return mkdirWrite(locks) },
		"folder for the lock": func(_, _, file string) error { return os.MkdirAll(file, 0o700) },
	} {
		t.Run(name, func(t *testing.T) { refused(t, spoil) })
	}
}

func mkdirWrite(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, nil, 0o600)
}

// refused wants that there is no lock in a home that has been spoilt.
func refused(t *testing.T, spoil func(base, locks, file string) error) {
	t.Helper()
	home := t.TempDir()
	file := lockFile(home, terminal)
	locks := filepath.Dir(file)
	if err := spoil(filepath.Dir(locks), locks, file); err != nil {
		t.Fatal(err)
	}
	type result struct {
		lock *Lock
		err  error
	}
	got := make(chan result, 1)
	go func() {
		lock, err := NewLocks(home).Acquire(t.Context(), terminal, "", lockTime)
		got <- result{lock, err}
	}()
	select {
	case r := <-got:
		if r.lock != nil || r.err == nil || errors.Is(r.err, ErrLockBusy) {
			t.Errorf("%v, %v", r.lock, r.err)
		}
		if r.err != nil && strings.Contains(r.err.Error(), "belongs to another") {
			t.Errorf("refused for the wrong reason: %v", r.err)
		}
	case <-time.After(patience):
		t.Fatal("hangs")
	}
}

// All or none, in one order, and nobody waits for himself.
func TestAcquireAll(t *testing.T) {
	t.Parallel()
	l := NewLocks(t.TempDir())
	agents := []Agent{{TerminalID: "a"}, {TerminalID: "b"}, {TerminalID: "c"}, {TerminalID: "b"}}
	all, err := l.AcquireAll(t.Context(), agents, "", time.Second)
	if err != nil || len(all) != 3 || agents[3].TerminalID != "b" {
		t.Fatalf("%d locks, %v, %v", len(all), err, agents)
	}
	if _, err := l.AcquireAll(t.Context(), agents[1:2], "", 20*time.Millisecond); !errors.Is(err, ErrLockBusy) {
		t.Errorf("a second holder: %v", err)
	}
	for _, lock := range all {
		lock.Release()
	}
	one, err := l.Acquire(t.Context(), agents[2], "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.AcquireAll(t.Context(), agents, "", 20*time.Millisecond); !errors.Is(err, ErrLockBusy) {
		t.Errorf("one is held: %v", err)
	}
	if all, err := l.AcquireAll(t.Context(), agents[:2], "", 0); err != nil || len(all) != 2 {
		t.Errorf("those that it had were kept: %d, %v", len(all), err)
	}
	one.Release()

	// In whatever order two ask, they do not wait for each other.
	l = NewLocks(t.TempDir())
	var wait sync.WaitGroup
	for i := range 2 {
		mine := slices.Clone(agents)
		if i == 1 {
			slices.Reverse(mine)
		}
		wait.Go(func() {
			for range 50 {
				all, err := l.AcquireAll(t.Context(), mine, "", 20*time.Second)
				if err != nil {
					t.Errorf("%d: %v", i, err)
					return
				}
				for _, lock := range all {
					lock.Release()
				}
			}
		})
	}
	wait.Wait()
}
