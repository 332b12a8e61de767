package link

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"herdr-link/envelope"
	"herdr-link/fakeherdr"
	"herdr-link/herdrcli"
)

var generated = regexp.MustCompile(`^hl-[0-9a-f]{8}$`)

func TestBootstrap(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	self, err := s.in("w1:p3").Bootstrap(t.Context())
	if err != nil || !generated.MatchString(self.Name) || self.PaneID != "w1:p3" {
		t.Fatalf("%+v, %v", self, err)
	}
	s.wantCalls("agent get w1:p3", "agent get w1:p3", "agent rename w1:p3 "+self.Name, "agent get w1:p3")
	again, err := s.in("w1:p3").Bootstrap(t.Context())
	if err != nil || again != self {
		t.Errorf("%+v, %v", again, err)
	}
	for _, p := range s.world().Panes {
		if p.Agent != nil && p.Agent.Name != map[string]string{"w1:p1": "lead", "w1:p2": "reviewer", "w1:p3": self.Name, "w2:p1": "builder"}[p.ID] {
			t.Errorf("%s is named %q", p.ID, p.Agent.Name)
		}
	}
}

// A valid name stays, wherever it came from; what is none does not count.
func TestBootstrapKeepsNames(t *testing.T) {
	t.Parallel()
	for name, keeps := range map[string]bool{"lead": true, "hl-00000000": true, "w1": true, "all": true, "Lead": false, "a b": false, "-": false} {
		s := newStage(t)
		s.update(func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Name = name })
		self, err := s.in("w1:p1").Bootstrap(t.Context())
		if err != nil || keeps != (self.Name == name) || keeps != (s.ran("agent rename") == 0) {
			t.Errorf("%q: %+v, %v, %q", name, self, err, s.calls())
		}
		if keeps {
			s.wantCalls("agent get w1:p1")
		}
	}
}

// After a move the pane is renamed by its new id.
func TestBootstrapMoved(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	l := s.in("w1:p3")
	s.update(func(w *fakeherdr.World) { w.Move("w1:p3", "w2") })
	self, err := l.Bootstrap(t.Context())
	if err != nil || s.ran("agent rename w2:p2 "+self.Name) != 1 || s.ran("agent rename") != 1 {
		t.Errorf("%+v, %v, %q", self, err, s.calls())
	}
}

func TestBootstrapRefused(t *testing.T) {
	t.Parallel()
	taken := func(left int) fakeherdr.Fault {
		f := refusal("agent_name_taken", "agent rename")
		f.Left = left
		return f
	}
	for name, test := range map[string]struct {
		faults  []fakeherdr.Fault
		renames int
		want    error
	}{
		"taken once":        {[]fakeherdr.Fault{taken(1)}, 2, nil},
		"taken twice":       {[]fakeherdr.Fault{taken(2)}, 3, nil},
		"taken three times": {[]fakeherdr.Fault{taken(3)}, 3, errUnnamed},
		"invalid":           {[]fakeherdr.Fault{refusal("invalid_agent_name", "agent rename")}, 1, errUnnamed},
		"gone":              {[]fakeherdr.Fault{refusal("agent_not_found", "agent rename")}, 1, errUnnamed},
		"launch":            {[]fakeherdr.Fault{refusal("agent_launch_pending", "agent rename")}, 1, errUnnamed},
		"unheard of":        {[]fakeherdr.Fault{refusal("not_today", "agent rename")}, 1, errUnnamed},
		"down":              {[]fakeherdr.Fault{fault1(fakeherdr.Down, "agent rename")}, 1, down()},
		"mismatch":          {[]fakeherdr.Fault{fault1(fakeherdr.Mismatch, "agent rename")}, 1, &herdrcli.Error{Code: "protocol_mismatch", Err: herdrcli.ErrRefused}},
		"debug text":        {[]fakeherdr.Fault{fault1(fakeherdr.Debug, "agent rename")}, 1, herdrcli.ErrOutput},
		"died":              {[]fakeherdr.Fault{fault1(fakeherdr.Die, "agent rename")}, 1, herdrcli.ErrOutput},
		"down at once":      {[]fakeherdr.Fault{{Kind: fakeherdr.Down}}, 0, down()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, test.faults...)
			self, err := s.in("w1:p3").Bootstrap(t.Context())
			if test.want != nil {
				wantFault(t, err, test.want)
			} else if err != nil || !generated.MatchString(self.Name) {
				t.Errorf("%+v, %v", self, err)
			}
			var names []string
			for _, c := range s.calls() {
				if name, ok := strings.CutPrefix(c, "agent rename w1:p3 "); ok {
					names = append(names, name)
				}
			}
			if len(names) != test.renames || len(slices.Compact(slices.Sorted(slices.Values(names)))) != test.renames {
				t.Errorf("tried %q", names)
			}
		})
	}
}

// The scene's own refusal, as an agent meets it that has just been started.
func TestBootstrapLaunchPending(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.update(func(w *fakeherdr.World) { w.Pane("w1:p3").Agent.LaunchPending = true })
	_, err := s.in("w1:p3").Bootstrap(t.Context())
	wantFault(t, err, errUnnamed)
	s.wantCalls("agent get w1:p3", "agent get w1:p3", "agent rename w1:p3 "+lastWord(s.calls()[2]))
}

func lastWord(s string) string { return s[strings.LastIndexByte(s, ' ')+1:] }

// Herdr needs a moment to see a new agent. Only the name in a fresh record counts.
func TestBootstrapDetection(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		after time.Duration // when Herdr sees it
		reads int           // until then
		took  time.Duration
	}{
		"at once":          {0, 1, 0},
		"a little late":    {50 * time.Millisecond, 2, 100 * time.Millisecond},
		"late":             {200 * time.Millisecond, 3, 300 * time.Millisecond},
		"very late":        {699 * time.Millisecond, 4, 700 * time.Millisecond},
		"too late":         {701 * time.Millisecond, 4, 700 * time.Millisecond},
		"not for ages yet": {time.Hour, 4, 700 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			if test.after > 0 {
				s.update(func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.DetectedAt = farFuture })
			}
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				seen := time.AfterFunc(test.after, func() {
					s.update(func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.DetectedAt = time.Time{} })
				})
				defer seen.Stop()
				self, err := s.in("w1:p1").Bootstrap(t.Context())
				if took := time.Since(begun); took != test.took {
					t.Errorf("took %v", took)
				}
				if test.after > 700*time.Millisecond {
					wantFault(t, err, errUnnamed)
				} else if err != nil || self.Name != "lead" {
					t.Errorf("%+v, %v", self, err)
				}
			})
			if n := s.ran("agent get"); n != test.reads {
				t.Errorf("%d reads: %q", n, s.calls())
			}
			if s.ran("agent rename") != 0 {
				t.Errorf("%q", s.calls())
			}
		})
	}
}

// A cancelled bootstrap does not go on looking.
func TestBootstrapDetectionCancelled(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, stop)
		begun := time.Now()
		_, err := s.in("w1:p4").Bootstrap(ctx)
		wantFault(t, err, context.Canceled)
		if took := time.Since(begun); took != 50*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
	s.wantCalls("agent get w1:p4", "pane get w1:p4")
}

// Two servers of one pane, started together, name it once.
func TestBootstrapAcrossProcesses(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var outs []*bufio.Reader
	err := s.scene.Update(func(*fakeherdr.World) error { // renames wait for the scene
		for range 2 {
			cmd := exec.Command(os.Args[0])
			cmd.Env = s.environ("w1:p3", homeVariable+"="+s.home)
			out, err := cmd.StdoutPipe()
			if err != nil {
				return err
			}
			if err := cmd.Start(); err != nil {
				return err
			}
			t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
			outs = append(outs, bufio.NewReader(out))
		}
		// Both have seen that there is no name, and one of them has seen it under the lock.
		return waitFor("three looks and a rename", func() bool {
			return s.ran("agent get") >= 3 && s.ran("agent rename") >= 1 || s.ran("agent rename") >= 2
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, out := range outs {
		name, err := out.ReadString('\n')
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		names = append(names, strings.TrimSpace(name))
	}
	if !generated.MatchString(names[0]) || names[0] != names[1] {
		t.Errorf("the two have %q", names)
	}
	if n := s.ran("agent rename"); n != 1 {
		t.Errorf("%d renames: %q", n, s.calls())
	}
}

// waiting says how many wait for the bootstrap under way.
func (l *Link) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flight == nil {
		return 0
	}
	return l.flight.waiting
}

type outcome struct {
	self herdrcli.Agent
	err  error
}

// However many calls need a name at once, there is one bootstrap; and one that
// gives up does not take it from the others.
func TestSingleFlight(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	l := s.in("w1:p3")
	const others = 12
	got, given := make(chan outcome, others), make(chan outcome, 1)
	err := s.scene.Update(func(*fakeherdr.World) error { // the rename waits for the scene
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		bootstrap := func(ctx context.Context, to chan outcome) { self, err := l.Bootstrap(ctx); to <- outcome{self, err} }
		go bootstrap(ctx, given) // the one that begins it
		if err := waitFor("the first one", func() bool { return l.waiting() == 1 }); err != nil {
			return err
		}
		for range others {
			go bootstrap(t.Context(), got)
		}
		if err := waitFor("all", func() bool { return l.waiting() == 1+others }); err != nil {
			return err
		}
		if err := waitFor("the rename", func() bool { return s.ran("agent rename") == 1 }); err != nil {
			return err
		}
		cancel()
		select {
		case o := <-given:
			wantFault(t, o.err, context.Canceled)
		case <-time.After(patience):
			return errors.New("a waiter that gave up still waits")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	name := ""
	for range others {
		o := <-got
		if o.err != nil || !envelope.ValidName(o.self.Name) || name != "" && o.self.Name != name {
			t.Errorf("%+v, %v", o.self, o.err)
		}
		name = o.self.Name
	}
	if n := s.ran("agent rename"); n != 1 {
		t.Errorf("%d renames: %q", n, s.calls())
	}
	if l.waiting() != 0 {
		t.Error("something is remembered")
	}
	// Nothing is kept: the next one looks anew.
	s.update(func(w *fakeherdr.World) { w.Pane("w1:p3").Agent.Name = "fresh" })
	if self, err := l.Bootstrap(t.Context()); err != nil || self.Name != "fresh" {
		t.Errorf("%+v, %v", self, err)
	}
}

// With the last one that waits, the bootstrap and its child are gone.
func TestFlightGivenUp(t *testing.T) {
	t.Parallel()
	s := newStage(t, fault1(fakeherdr.Hang, "agent rename"))
	l := s.in("w1:p3")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := make(chan error)
	for range 3 {
		go func() { _, err := l.Bootstrap(ctx); errs <- err }()
	}
	if err := waitFor("the rename", func() bool { return s.ran("agent rename") == 1 && l.waiting() == 3 }); err != nil {
		t.Fatal(err)
	}
	journal, err := s.scene.Calls()
	if err != nil {
		t.Fatal(err)
	}
	pid := journal[len(journal)-1].PID
	cancel()
	given := []error{<-errs, <-errs, <-errs}
	if alive(pid) { // at once: the last one waits for it
		t.Error("the child is still there")
	}
	for _, err := range given {
		wantFault(t, err, context.Canceled)
	}
	s.update(func(w *fakeherdr.World) { w.Faults = nil })
	if self, err := l.Bootstrap(t.Context()); err != nil || !envelope.ValidName(self.Name) {
		t.Errorf("the next one: %+v, %v", self, err)
	}
}

// A call that needs a name gets one, and says so in its message.
func TestSendUnnamed(t *testing.T) {
	t.Parallel()
	s := newStage(t).noWait()
	if err := send("reviewer")(s.in("w1:p3")); err != nil {
		t.Fatal(err)
	}
	name := s.world().Pane("w1:p3").Agent.Name
	if got := s.received("w1:p2"); len(got) != 1 || parse(t, got[0]).From != name || !generated.MatchString(name) {
		t.Errorf("%q is named %q", got, name)
	}
	s = newStage(t)
	self, peers, err := s.in("w1:p3").Peers(t.Context())
	if err != nil || !generated.MatchString(self.Name) || !slices.Equal(peers, []Peer{{"lead", "idle"}, {"reviewer", "idle"}}) {
		t.Errorf("%+v, %+v, %v", self, peers, err)
	}
}

// Who is written to for half a minute cannot be named meanwhile, and is unnamed
// then: Herdr is there.
func TestBootstrapBusy(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	l := s.in("w1:p3")
	synctest.Test(t, func(t *testing.T) {
		lock := s.lock("w1:p3")
		defer lock.Release()
		_, err := l.Bootstrap(t.Context())
		wantFault(t, err, errUnnamed)
	})
	if s.ran("agent rename") != 0 {
		t.Errorf("renamed: %q", s.calls())
	}
}
