package link

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"herdr-link/fakeherdr"
)

// An incident makes one row of faults happen.
type incident struct {
	row    string // its text
	code   string
	faults []fakeherdr.Fault
	change func(*fakeherdr.World)
	vars   []string
	pane   string // w1:p1 if empty
	do     func(*Link) error
	bubble func(*stage) (end func()) // run in a bubble, after this
}

func peersOf(l *Link) error { _, _, err := l.Peers(context.Background()); return err }

func message(m Message) func(*Link) error {
	return func(l *Link) error { _, err := l.Send(context.Background(), m); return err }
}

func incidents() []incident {
	one := func(f ...fakeherdr.Fault) []fakeherdr.Fault { return f }
	const short = timeoutVariable + "=300ms"
	cancelled := func(l *Link) error {
		ctx, stop := context.WithCancel(context.Background())
		stop()
		_, _, err := l.Peers(ctx)
		return err
	}
	held := func(s *stage) func() { return s.lock("w1:p2").Release }
	const (
		uncertainPrompt = "`agent prompt` timed out, was killed or gave no answer"
		uncertainClose  = "`pane close` timed out, was killed or gave no answer"
		badOutput       = "output that is not what the call expects, or too large"
		noPeer          = "unknown, invalid, oneself, another workspace or none"
		noBinary        = "HERDR_BIN_PATH is missing, relative or not executable"
		unnamedRow      = "own pane not detected as an agent, or no valid name could be given to it"
	)
	list := []incident{
		{row: "not in a pane, or switched off there", code: notInHerdr, vars: []string{"HERDR_ENV="}, do: peersOf},
		{row: noBinary, code: notInHerdr, vars: []string{"HERDR_BIN_PATH=/nowhere/herdr"}, do: peersOf},
		{row: noBinary, code: notInHerdr, vars: []string{"HERDR_BIN_PATH=herdr"}, do: send("reviewer")},
		{row: "the server does not run", code: notInHerdr, faults: one(fakeherdr.Fault{Kind: fakeherdr.Down}), do: closing("reviewer")},
		{row: "the server does not run", code: notInHerdr, faults: one(fault1(fakeherdr.Down, "agent prompt")), do: send("reviewer")},
		{row: "the server does not run", code: notInHerdr, vars: []string{"HERDR_SOCKET_PATH=/nowhere/herdr.sock"}, do: peersOf},
		{row: "program and server speak different protocols", code: notInHerdr, faults: one(fakeherdr.Fault{Kind: fakeherdr.Mismatch}), do: peersOf},
		{row: "program and server speak different protocols", code: notInHerdr, faults: one(fault1(fakeherdr.Mismatch, "pane close")), do: closing("reviewer")},
		{row: "the system refused so long an argument", code: sendFailed},       // TestHugeEnvironment
		{row: "the environment leaves no room for a command", code: notInHerdr}, // TestHugeEnvironment
		{row: "no room for another process or open file", code: notInHerdr},     // TestNoDescriptors, at the root
		{row: "a call took too long", code: notInHerdr, faults: one(fault1(fakeherdr.Hang, "agent list")), vars: []string{short}, do: peersOf},
		{row: "a call took too long", code: notInHerdr, faults: one(fault1(fakeherdr.Hang, "agent get reviewer")), vars: []string{short}, do: send("reviewer")},
		{row: "the call was cancelled", code: notInHerdr, do: cancelled},
		{row: unnamedRow, code: selfUnnamed, pane: "w1:p3", faults: one(refusal("agent_launch_pending", "agent rename")), do: peersOf},
		{row: unnamedRow, code: selfUnnamed, pane: "w1:p4", do: send("reviewer")},
		{row: noPeer, code: peerNotFound, do: send("nobody")},
		{row: noPeer, code: peerNotFound, do: send("w1:p2")},
		{row: noPeer, code: peerNotFound, do: send("lead")},
		{row: noPeer, code: peerNotFound, do: closing("builder")},
		{row: "`message` is blank", code: sendFailed, do: message(Message{"reviewer", "\ufeff \n", ""})},
		{row: "`message` has half a surrogate pair or is not UTF-8", code: sendFailed, do: message(Message{"reviewer", "a\xff", ""})},
		{row: "`message` is over the limit", code: sendFailed, do: message(Message{"reviewer", strings.Repeat("x", maxArg), ""})},
		{row: "`reply_to` is not a message id", code: sendFailed, do: message(Message{"reviewer", "x", "w1:p2"})},
		{row: "the target's state is blocked", code: sendFailed, do: send("reviewer"),
			change: func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Blocked }},
		{row: "Herdr refused a blocked target", code: sendFailed, faults: one(refusal("agent_blocked", "agent prompt")), do: send("reviewer")},
		{row: "the target is starting or has just ended", code: sendFailed, do: send("reviewer"),
			change: func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Ready = false }},
		{row: "the target is starting or has just ended", code: sendFailed, do: send("reviewer"),
			change: func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.LaunchPending = true }},
		{row: "the target's lock was not free in 30 s", code: sendFailed, bubble: held, do: send("reviewer")},
		{row: "the target ended before the prompt", code: sendFailed, faults: one(refusal("agent_not_running", "agent prompt")), do: send("reviewer")},
		{row: "the target vanished before the prompt", code: sendFailed, faults: one(refusal("agent_not_found", "agent prompt")), do: send("reviewer")},
		{row: "any other refusal of `agent prompt`", code: sendFailed, faults: one(refusal("not_today", "agent prompt")), do: send("reviewer")},
		{row: "the pane's lock was not free in 30 s", code: closeFailed, bubble: held, do: closing("reviewer")},
		{row: "any refusal of `pane close`", code: closeFailed, faults: one(refusal("pane_not_found", "pane close")), do: closing("reviewer")},
		{row: "any refusal of `pane close`", code: closeFailed, faults: one(refusal("agent_not_found", "pane close")), do: closing("reviewer")},
		{row: "an unexpected refusal of any other command", code: notInHerdr, faults: one(refusal("not_today", "agent get")), do: peersOf},
		{row: "an unexpected refusal of any other command", code: notInHerdr, pane: "w1:p4", faults: one(refusal("not_today", "pane get")), do: closing("reviewer")},
	}
	for _, kind := range []string{fakeherdr.HangAfter, fakeherdr.Hang, fakeherdr.DieAfter, fakeherdr.Die, fakeherdr.Debug,
		fakeherdr.Exit2, fakeherdr.Garbage, fakeherdr.Empty, fakeherdr.Shape, fakeherdr.Flood} {
		var vars []string
		if strings.HasPrefix(kind, fakeherdr.Hang) {
			vars = []string{timeoutVariable + "=1s"}
		}
		list = append(list,
			incident{row: uncertainPrompt, code: notInHerdr, faults: one(fault1(kind, "agent prompt")), vars: vars, do: send("reviewer")})
		if slices.Contains([]string{fakeherdr.HangAfter, fakeherdr.DieAfter, fakeherdr.Debug, fakeherdr.Garbage}, kind) {
			list = append(list, incident{row: uncertainClose, code: notInHerdr, faults: one(fault1(kind, "pane close")), vars: vars, do: closing("reviewer")})
		}
		if vars == nil {
			list = append(list, incident{row: badOutput, code: notInHerdr, faults: one(fault1(kind, "agent list")), do: peersOf})
		}
	}
	return list
}

// Each row is what the model sees of a real failure of a scene, and each is
// reached by one.
func TestFaults(t *testing.T) {
	t.Parallel()
	rows := map[string]*row{}
	for i := range faults {
		if rows[faults[i].text] != nil {
			t.Errorf("two rows are called %q", faults[i].text)
		}
		rows[faults[i].text] = &faults[i]
	}
	seen := map[string]bool{}
	for _, in := range incidents() {
		r := rows[in.row]
		if r == nil {
			t.Errorf("no row is called %q", in.row)
			continue
		}
		seen[in.row] = true
		if r.Code != in.code {
			t.Errorf("%s: the code is %s", in.row, r.Code)
		}
		if in.do == nil {
			continue // by a test of its own, which only some systems can run
		}
		t.Run(in.row, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, in.faults...)
			if in.change != nil {
				s.update(in.change)
			}
			pane := in.pane
			if pane == "" {
				pane = "w1:p1"
			}
			var err error
			if in.bubble == nil {
				err = in.do(s.in(pane, in.vars...))
			} else {
				synctest.Test(t, func(*testing.T) {
					defer in.bubble(s)()
					err = in.do(s.in(pane, in.vars...))
				})
			}
			f := asFault(t, err)
			start, end, sized := strings.Cut(r.Reason, "%d of at most %d")
			if f.Code != r.Code || !sized && f.Reason != r.Reason ||
				sized && (!strings.HasPrefix(f.Reason, start) || !strings.HasSuffix(f.Reason, end)) {
				t.Errorf("got  %s\nwant %s: %s", f, r.Code, r.Reason)
			}
		})
	}
	for text := range rows {
		if !seen[text] {
			t.Errorf("no test reaches the row %q", text)
		}
	}
}

// What has been delivered although the call failed must not be called unsent.
func TestUncertain(t *testing.T) {
	t.Parallel()
	s := newStage(t, fault1(fakeherdr.DieAfter, "agent prompt"), fault1(fakeherdr.DieAfter, "pane close")).noWait()
	l := s.in("w1:p1")
	err := send("reviewer")(l)
	if len(s.received("w1:p2")) != 1 || !strings.Contains(asFault(t, err).Reason, "unknown whether the message arrived") {
		t.Errorf("delivered, and told %v", err)
	}
	err = closing("reviewer")(l)
	if s.world().Pane("w1:p2") != nil || !strings.Contains(asFault(t, err).Reason, "unknown whether the pane was closed") {
		t.Errorf("closed, and told %v", err)
	}
	if n := s.ran("agent prompt") + s.ran("pane close"); n != 2 {
		t.Errorf("something was tried again: %q", s.calls())
	}
}

// A prompt that a user cancels under way is told as uncertain, too.
func TestCancelledPrompt(t *testing.T) {
	t.Parallel()
	s := newStage(t, fault1(fakeherdr.HangAfter, "agent prompt")).noWait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := make(chan error)
	go func() { _, err := s.in("w1:p1").Send(ctx, Message{To: "reviewer", Text: "x"}); errs <- err }()
	if err := waitFor("the prompt", func() bool { return len(s.received("w1:p2")) == 1 }); err != nil {
		t.Fatal(err)
	}
	cancel()
	wantFault(t, <-errs, errPromptUncertain)
}

// An error that no row is for is told without its words.
func TestUnforeseen(t *testing.T) {
	t.Parallel()
	f := asFault(t, fault(errors.New("agent_x in w1:p2: "+secret)))
	if f.Code != notInHerdr {
		t.Error(f)
	}
	if fault(nil) != nil {
		t.Error("no error is a fault")
	}
	if again := fault(f); again != error(f) {
		t.Errorf("%v became %v", f, again)
	}
}

// Every reason can stand alone: it is a sentence, and says nothing it must not.
func TestReasons(t *testing.T) {
	t.Parallel()
	for _, r := range faults {
		asFault(t, &r.Fault)
		if !strings.HasSuffix(r.Reason, ".") || strings.ContainsAny(r.Reason, "\n|") {
			t.Errorf("%s: %q", r.text, r.Reason)
		}
	}
}
