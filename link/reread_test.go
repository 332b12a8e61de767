package link

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/herdrcli"
)

// In these tests time is that of a bubble: it stands still while a process
// runs, and passes only in the pauses of package link and of the locks.

// meanwhile lets something happen between the look of a call and its turn at
// the lock.
func (s *stage) meanwhile(t *testing.T, slept bool, happen func(*fakeherdr.World), do func(context.Context) error) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		lock := s.lock("w1:p2")
		if slept { // a prompt has just ended
			if err := lock.Mark(); err != nil {
				t.Fatal(err)
			}
			lock.Release()
		}
		ended := make(chan error)
		go func() { ended <- do(t.Context()) }()
		synctest.Wait() // both ends have been read; the call waits for the lock, or sleeps under it
		if n := s.ran("agent get"); n < 2 {
			t.Fatalf("%d looks", n)
		}
		if happen != nil {
			s.update(happen)
		}
		if !slept {
			lock.Release()
		}
		err = <-ended
	})
	return err
}

func TestReadAgain(t *testing.T) {
	t.Parallel()
	replaced := func(w *fakeherdr.World) { // another agent of that name, in another terminal
		w.Pane("w1:p2").Agent.Name = ""
		w.AddPane("w1", "claude", "reviewer")
	}
	for name, test := range map[string]struct {
		happen      func(*fakeherdr.World)
		send, close error
		closed      string // the pane, if not w1:p2
	}{
		"nothing":   {},
		"replaced":  {happen: replaced, send: errNoPeer, close: errNoPeer},
		"blocked":   {happen: func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = "blocked" }, send: errBlocked},
		"moved":     {happen: func(w *fakeherdr.World) { w.Move("w1:p2", "w2") }, send: errNoPeer, close: errNoPeer},
		"renamed":   {happen: func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Name = "other" }, send: errNoPeer, close: errNoPeer},
		"ended":     {happen: func(w *fakeherdr.World) { w.Pane("w1:p2").Agent = nil }, send: errNoPeer, close: errNoPeer},
		"we moved":  {happen: func(w *fakeherdr.World) { w.Move("w1:p1", "w2") }, send: errNoPeer, close: errNoPeer},
		"both did":  {happen: func(w *fakeherdr.World) { w.Move("w1:p1", "w2"); w.Move("w1:p2", "w2") }, closed: "w2:p3"},
		"lost name": {happen: func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Name = "" }, send: errUnnamed},
		"Herdr":     {happen: faulted(fakeherdr.Fault{Kind: fakeherdr.Down}), send: down(), close: down()},
	} {
		for _, slept := range []bool{false, true} {
			how := "/waited"
			if slept {
				how = "/slept"
			}
			t.Run(name+how, func(t *testing.T) {
				t.Parallel()
				s := newStage(t).noWait()
				l := s.in("w1:p1")
				err := s.meanwhile(t, slept, test.happen, func(ctx context.Context) error {
					_, err := l.Send(ctx, Message{To: "reviewer", Text: secret})
					return err
				})
				if test.send != nil {
					wantFault(t, err, test.send)
				} else if err != nil || s.ran("agent prompt") != 1 {
					t.Errorf("send: %v", err)
				}
				if test.send != nil && s.ran("agent prompt")+s.ran("agent rename") != 0 {
					t.Errorf("send: %q", s.calls())
				}

				if slept {
					return // what sleeps and what waits is decided before it is known what for
				}
				s = newStage(t)
				l = s.in("w1:p1")
				err = s.meanwhile(t, slept, test.happen, func(ctx context.Context) error { return l.Close(ctx, "reviewer") })
				pane := "w1:p2"
				if test.closed != "" {
					pane = test.closed
				}
				if test.close != nil {
					wantFault(t, err, test.close)
				} else if err != nil || s.ran("pane close "+pane) != 1 {
					t.Errorf("close: %v, %q", err, s.calls())
				}
				if test.close != nil && s.ran("pane close") != 0 {
					t.Errorf("close: %q", s.calls())
				}
			})
		}
	}
}

func down() error { return &herdrcli.Error{Code: "server_not_running", Err: herdrcli.ErrRefused} }

// Each prompt marks the lock, in whatever way it ends; a close marks nothing.
func TestMarks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		faults []fakeherdr.Fault
		do     func(*Link) error
		marks  bool
	}{
		"sent":      {nil, send("reviewer"), true},
		"refused":   {[]fakeherdr.Fault{refusal("agent_not_ready", "agent prompt")}, send("reviewer"), true},
		"died":      {[]fakeherdr.Fault{fault1(fakeherdr.DieAfter, "agent prompt")}, send("reviewer"), true},
		"not found": {nil, send("nobody"), false},
		"closed":    {[]fakeherdr.Fault{refusal("pane_not_found", "pane close")}, closing("reviewer"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, test.faults...).noWait()
			synctest.Test(t, func(t *testing.T) {
				l := s.in("w1:p1")
				begun := time.Now()
				_ = test.do(l)
				if took := time.Since(begun); took != 0 {
					t.Errorf("a first call slept %v", took)
				}
				lock := s.lock("w1:p2")
				defer lock.Release()
				slept, err := lock.Settle(t.Context())
				if err != nil || slept != test.marks || test.marks && time.Since(begun) != 350*time.Millisecond {
					t.Errorf("the next one slept %v: %t, %v", time.Since(begun), slept, err)
				}
			})
		})
	}
}

// The mark is there before the prompt, should its sender be killed, and is set
// anew when the prompt has ended: its Enter comes after that.
func TestMarksTwice(t *testing.T) {
	t.Parallel()
	s := newStage(t).noWait()
	old := time.Now().Add(-time.Hour)
	var file string
	ended := make(chan error, 1)
	err := s.scene.Update(func(*fakeherdr.World) error { // the prompt waits for the scene
		go func() { ended <- send("reviewer")(s.in("w1:p1")) }()
		if err := waitFor("the prompt", func() bool { return s.ran("agent prompt") == 1 }); err != nil {
			return err
		}
		files, err := filepath.Glob(filepath.Join(s.home, ".local", "state", "herdr-link", "locks", "*"))
		if err != nil || len(files) != 1 {
			return fmt.Errorf("locks %q, %v", files, err)
		}
		file = files[0]
		info, err := os.Stat(file)
		if err != nil || info.Size() == 0 {
			return fmt.Errorf("not marked before the prompt: %v", err)
		}
		return os.Chtimes(file, old, old)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || time.Since(info.ModTime()) > time.Hour/2 {
		t.Errorf("not marked after the prompt: %v", err)
	}
}

func send(to string) func(*Link) error {
	return func(l *Link) error {
		_, err := l.Send(context.Background(), Message{To: to, Text: secret})
		return err
	}
}

func closing(name string) func(*Link) error {
	return func(l *Link) error { return l.Close(context.Background(), name) }
}

// The lock comes after all that is decided, and before the command.
func TestLockBusy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do   func(*Link) error
		want error
	}{
		"send":  {send("reviewer"), errSendBusy},
		"close": {closing("reviewer"), errCloseBusy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, refusal("agent_not_ready", "agent prompt"), refusal("pane_not_found", "pane close"))
			synctest.Test(t, func(t *testing.T) {
				defer s.lock("w1:p2").Release()
				begun := time.Now()
				wantFault(t, test.do(s.in("w1:p1")), test.want)
				if took := time.Since(begun); took < 30*time.Second || took > 31*time.Second {
					t.Errorf("waited %v", took)
				}
				s.wantCalls("agent get w1:p1 | agent get reviewer")
			})
		})
	}
	s := newStage(t)
	s.update(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = "blocked" })
	synctest.Test(t, func(t *testing.T) {
		defer s.lock("w1:p2").Release()
		begun := time.Now()
		wantFault(t, send("reviewer")(s.in("w1:p1")), errBlocked)
		if took := time.Since(begun); took != 0 {
			t.Errorf("a blocked peer was waited for: %v", took)
		}
	})
}

func TestLockGivenUp(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	synctest.Test(t, func(t *testing.T) {
		defer s.lock("w1:p2").Release()
		l := s.in("w1:p1")
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err := l.Send(ctx, Message{To: "reviewer", Text: secret})
		wantFault(t, err, herdrcli.ErrTimeout)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		wantFault(t, l.Close(ctx, "reviewer"), context.Canceled)
	})
	if s.ran("agent prompt")+s.ran("pane close") != 0 {
		t.Errorf("%q", s.calls())
	}
}

// Without a lock the call goes on, and the operator hears of it.
func TestNoLock(t *testing.T) {
	t.Parallel()
	s := newStage(t).noWait()
	l := s.with(Options{Locks: herdrcli.NewLocks("nowhere")}, "w1:p1")
	if err := send("reviewer")(l); err != nil {
		t.Error(err)
	}
	if err := l.Close(t.Context(), "reviewer"); err != nil {
		t.Error(err)
	}
	if n := strings.Count(s.log.String(), "no lock"); n != 2 {
		t.Errorf("%d warnings: %s", n, &s.log)
	}
	s.wantCalls("agent get w1:p1 | agent get reviewer", "agent prompt reviewer", "agent get w1:p1 | agent get reviewer", "pane close w1:p2")
}

// However a send ends, the log has no word of it.
func TestLogNeverHasTheText(t *testing.T) {
	t.Parallel()
	quote := refusal("agent_not_ready", "agent prompt")
	quote.Text = secret
	debug := fault1(fakeherdr.Debug, "agent prompt")
	debug.Text = secret
	for name, faults := range map[string][]fakeherdr.Fault{
		"sent": nil, "refused": {quote}, "debug": {debug}, "died": {fault1(fakeherdr.Die, "agent prompt")},
		"down": {{Kind: fakeherdr.Down}}, "not found": {refusal("agent_not_found", "agent get reviewer")},
	} {
		s := newStage(t, faults...).noWait()
		id, err := s.in("w1:p1").Send(t.Context(), Message{To: "reviewer", Text: secret})
		log := s.log.String()
		if strings.Contains(log, "horse") || err != nil && strings.Contains(err.Error(), "horse") {
			t.Errorf("%s: %v, log: %s", name, err, log)
		}
		if !strings.Contains(log, `"tool":"herdr_link_send"`) || id != "" && !strings.Contains(log, id) {
			t.Errorf("%s: log: %s", name, log)
		}
	}
}

// Where Herdr reports no terminal, the pane says whether it is still the one that
// was meant.
func TestReadAgainWithoutTerminal(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	other := ""
	s.update(func(w *fakeherdr.World) {
		other = w.AddPane("w1", "claude", "other").ID
		for _, p := range w.Panes {
			p.Terminal = ""
		}
	})
	l := s.in("w1:p1")
	synctest.Test(t, func(t *testing.T) {
		socket := filepath.Join(s.scene.Dir(), "herdr.sock")
		lock, err := herdrcli.NewLocks(s.home).Acquire(t.Context(), herdrcli.Agent{PaneID: "w1:p2"}, socket, lockTime)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- l.Close(t.Context(), "reviewer") }()
		synctest.Wait()
		s.update(func(w *fakeherdr.World) {
			w.Pane("w1:p2").Agent.Name = "former"
			w.Pane(other).Agent.Name = "reviewer"
		})
		lock.Release()
		wantFault(t, <-ended, errNoPeer)
	})
	if s.ran("pane close") != 0 {
		t.Errorf("closed: %q", s.calls())
	}
}
