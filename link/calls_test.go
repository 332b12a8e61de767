package link

import (
	"slices"
	"strings"
	"testing"

	"herdr-link/envelope"
	"herdr-link/fakeherdr"
	"herdr-link/herdrcli"
)

func TestPeers(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.update(func(w *fakeherdr.World) {
		add := func(workspace, name, status string) *fakeherdr.Pane {
			p := w.AddPane(workspace, "claude", name)
			p.Agent.Status = status
			return p
		}
		w.Pane("w1:p2").Agent.Status = fakeherdr.Working
		add("w1", "zoe", "done")
		add("w1", "adam", "blocked")
		add("w1", "odd", " Idle ")
		add("w1", "new", "sleeping")
		add("w1", "unsure", "unknown")
		add("w1", "adam", "idle")  // a name that stands twice
		add("w1", "Not Valid", "") // no name
		add("w1", "lead", "idle")  // the caller's name is not a peer's
		add("w2", "other", "idle") // another workspace
		add("w1", "gone", "idle").Workspace = "w2"
	})
	self, peers, err := s.in("w1:p1").Peers(t.Context())
	if err != nil || self != (Peer{"lead", "idle"}) {
		t.Errorf("self %+v, %v", self, err)
	}
	want := []Peer{{"adam", "blocked"}, {"new", "unknown"}, {"odd", "idle"}, {"reviewer", "working"}, {"unsure", "unknown"}, {"zoe", "done"}}
	if !slices.Equal(peers, want) {
		t.Errorf("%+v\nwant %+v", peers, want)
	}
	s.wantCalls("agent get w1:p1 | agent list")
}

// Nobody else there is an empty list, not none.
func TestPeersAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	self, peers, err := s.in("w2:p1").Peers(t.Context())
	if err != nil || self.Name != "builder" || peers == nil || len(peers) != 0 {
		t.Errorf("%+v, %#v, %v", self, peers, err)
	}
	if got := string(PeersJSON(self, peers)); got != `{"self":{"name":"builder","state":"idle"},"peers":[]}` {
		t.Error(got)
	}
}

func TestSend(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]Message{
		"plain":   {To: "reviewer", Text: "hello"},
		"reply":   {To: "reviewer", Text: "hello", ReplyTo: "hl_abc_123"},
		"dangers": {To: "reviewer", Text: "--session=x \x1b[201~\r\n\u009b2J `id` $HOME {\"a\":1}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t).noWait()
			id, err := s.in("w1:p1").Send(t.Context(), m)
			if err != nil || !envelope.ValidID(id) {
				t.Fatalf("%q, %v", id, err)
			}
			s.wantCalls("agent get w1:p1 | agent get reviewer", "agent prompt reviewer")
			got := s.received("w1:p2")
			if len(got) != 1 || !strings.HasPrefix(got[0], "[herdr-link/1]") {
				t.Fatalf("received %q", got)
			}
			want := envelope.Envelope{ID: id, From: "lead", To: "reviewer", ReplyTo: m.ReplyTo, Message: m.Text}
			if e := parse(t, got[0]); e != want {
				t.Errorf("%+v\nwant %+v", e, want)
			}
		})
	}
}

// The target's state is no condition, but for blocked.
func TestSendState(t *testing.T) {
	t.Parallel()
	s := newStage(t).noWait()
	for _, state := range []string{"idle", "working", "done", "unknown", "whatever"} {
		s.update(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = state })
		if _, err := s.in("w1:p1").Send(t.Context(), Message{To: "reviewer", Text: state}); err != nil {
			t.Errorf("%s: %v", state, err)
		}
	}
	if got := s.received("w1:p2"); len(got) != 5 {
		t.Errorf("received %q", got)
	}
}

// Nobody's agent answers another's dialog.
func TestBlocked(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"0.8", "0.9"} {
		for _, status := range []string{"blocked", " Blocked"} {
			s := newStage(t)
			s.update(func(w *fakeherdr.World) { w.Version, w.Pane("w1:p2").Agent.Status = version, status })
			_, err := s.in("w1:p1").Send(t.Context(), Message{To: "reviewer", Text: "hello"})
			wantFault(t, err, errBlocked)
			s.wantCalls("agent get w1:p1 | agent get reviewer")
		}
	}
}

// One that becomes blocked behind the look is refused by Herdr 0.9 itself, in
// the same words.
func TestBlockedMeanwhile(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ended := make(chan error, 1)
	err := s.scene.Update(func(w *fakeherdr.World) error { // the prompt waits for the scene
		w.Version = "0.9"
		go func() {
			_, err := s.in("w1:p1").Send(t.Context(), Message{To: "reviewer", Text: "hello"})
			ended <- err
		}()
		err := waitFor("the prompt", func() bool { return s.ran("agent prompt") == 1 })
		w.Pane("w1:p2").Agent.Status = fakeherdr.Blocked
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wantFault(t, <-ended, errBlocked)
}

// A closed pane is the target's, and its last words have arrived. A close that
// waited for them looks once more; one that came later, on a slow machine, need not.
func TestSendThenClose(t *testing.T) {
	t.Parallel()
	const look = "agent get w1:p1 | agent get reviewer"
	for tries, waited := 0, false; !waited; tries++ {
		s := newStage(t)
		l := s.in("w1:p1")
		if _, err := l.Send(t.Context(), Message{To: "reviewer", Text: "bye"}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(t.Context(), "reviewer"); err != nil {
			t.Fatal(err)
		}
		if waited = s.ran("agent get") > 4 || tries == 10; waited {
			s.wantCalls(look, "agent prompt reviewer", look, look, "pane close w1:p2")
		} else {
			s.wantCalls(look, "agent prompt reviewer", look, "pane close w1:p2")
		}
		if got := s.received("w1:p2"); len(got) != 1 || parse(t, got[0]).Message != "bye" {
			t.Errorf("received %q", got)
		}
		if s.world().Pane("w1:p2") != nil {
			t.Error("the pane is still there")
		}
	}
}

// Messages to one peer never merge, however many send at a time.
func TestSendsDoNotMerge(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	senders := []*Link{s.in("w1:p1"), s.in("w1:p1"), s.in("w1:p3")}
	s.update(func(w *fakeherdr.World) { w.Pane("w1:p3").Agent.Name = "third" })
	errs := make(chan error)
	for _, l := range senders {
		go func() {
			_, err := l.Send(t.Context(), Message{To: "reviewer", Text: "hello"})
			errs <- err
		}()
	}
	for range senders {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	var got []string
	if err := waitFor("all Enters", func() bool { got = s.received("w1:p2"); return len(got) >= len(senders) }); err != nil {
		t.Fatal(err)
	}
	for _, text := range got {
		if strings.Count(text, envelope.Protocol+"]") != 1 {
			t.Errorf("merged: %q", text)
		}
	}
}

func TestCloseUnnamedAndOneself(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	if err := s.in("w1:p3").Close(t.Context(), "reviewer"); err != nil {
		t.Errorf("a caller without a name: %v", err)
	}
	s.wantCalls("agent get w1:p3 | agent get reviewer", "pane close w1:p2")
	if err := s.in("w1:p1").Close(t.Context(), "lead"); err != nil {
		t.Errorf("oneself: %v", err)
	}
	if s.world().Pane("w1:p1") != nil || s.world().Pane("w1:p3").Agent.Name != "" {
		t.Error("the wrong thing happened")
	}
}

// Herdr closes what it is told to, whatever has the focus.
func TestCloseIgnoresFocus(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.update(func(w *fakeherdr.World) { w.Pane("w1:p1").Focused, w.Pane("w1:p4").Focused = false, true })
	if err := s.in("w1:p1").Close(t.Context(), "reviewer"); err != nil {
		t.Fatal(err)
	}
	if w := s.world(); w.Pane("w1:p4") == nil || w.Pane("w1:p1") == nil || w.Pane("w1:p2") != nil {
		t.Error("the wrong pane is closed")
	}
}

// What the guard does not let pass is refused in the same words, and nothing is
// prompted or closed.
func TestGuard(t *testing.T) {
	t.Parallel()
	record := func(text string) fakeherdr.Fault {
		f := fault1(fakeherdr.Shape, "agent get reviewer")
		f.Text = `{"id":"cli:agent:get","result":{"agent":{` + text + `},"type":"agent_info"}}`
		return f
	}
	for name, test := range map[string]struct {
		to     string
		change func(*fakeherdr.World)
		closes bool // a close is allowed
	}{
		"unknown":               {to: "nobody"},
		"another workspace":     {to: "builder"},
		"oneself":               {to: "lead", closes: true},
		"target's workspace":    {to: "reviewer", change: func(w *fakeherdr.World) { w.Pane("w1:p2").Workspace = "" }},
		"not detected yet":      {to: "reviewer", change: func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.DetectedAt = farFuture }},
		"ended":                 {to: "reviewer", change: func(w *fakeherdr.World) { w.Pane("w1:p2").Agent = nil }},
		"the record's name":     {to: "reviewer", change: faulted(record(`"name":"reviewer2","pane_id":"w1:p2","workspace_id":"w1","terminal_id":"t"`))},
		"the record's case":     {to: "reviewer", change: faulted(record(`"name":"Reviewer","pane_id":"w1:p2","workspace_id":"w1","terminal_id":"t"`))},
		"no name in the record": {to: "reviewer", change: faulted(record(`"pane_id":"w1:p2","workspace_id":"w1","terminal_id":"t"`))},
		"no workspace in it":    {to: "reviewer", change: faulted(record(`"name":"reviewer","pane_id":"w1:p2","terminal_id":"t"`))},
		"the own pane":          {to: "reviewer", change: faulted(record(`"name":"reviewer","pane_id":"w1:p1","workspace_id":"w1","terminal_id":"t"`)), closes: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			if test.change != nil {
				s.update(test.change)
			}
			l := s.in("w1:p1")
			_, err := l.Send(t.Context(), Message{To: test.to, Text: secret})
			wantFault(t, err, errNoPeer)
			if !test.closes {
				wantFault(t, l.Close(t.Context(), test.to), errNoPeer)
			}
			if n := s.ran("agent prompt") + s.ran("pane close"); n != 0 {
				t.Errorf("Herdr was told to act: %q", s.calls())
			}
		})
	}
	// One terminal with two records is one agent.
	s := newStage(t)
	s.update(faulted(record(`"name":"reviewer","pane_id":"w1:p9","workspace_id":"w1","terminal_id":"` + s.world().Pane("w1:p1").Terminal + `"`)))
	_, err := s.in("w1:p1").Send(t.Context(), Message{To: "reviewer", Text: secret})
	wantFault(t, err, errNoPeer)
}

func faulted(f ...fakeherdr.Fault) func(*fakeherdr.World) {
	return func(w *fakeherdr.World) { w.Faults = f }
}

// A name that cannot be one never reaches a command line.
func TestInvalidNames(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	l := s.in("w1:p1")
	for _, name := range []string{"", "w1:p2", "Reviewer", "-h", "--session=x", "a b", "reviewer\n", "1-1", "9a", strings.Repeat("a", 33), "ü", "a\x00"} {
		_, err := l.Send(t.Context(), Message{To: name, Text: "hello"})
		wantFault(t, err, errNoPeer)
		wantFault(t, l.Close(t.Context(), name), errNoPeer)
	}
	s.wantCalls()
}

// The own pane as Herdr sees it, in all its states.
func TestSelf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pane            string
		change          func(*fakeherdr.World)
		sendTo          string
		send, close     error
		afterMove       bool
		callsOfTheClose []string
	}{
		"named":     {pane: "w1:p1", sendTo: "reviewer", callsOfTheClose: []string{"agent get w1:p1 | agent get reviewer", "pane close w1:p2"}},
		"unnamed":   {pane: "w1:p3", sendTo: "reviewer", callsOfTheClose: []string{"agent get w1:p3 | agent get reviewer", "pane close w1:p2"}},
		"no agent":  {pane: "w1:p4", sendTo: "reviewer", send: errUnnamed, close: errNoPeer},
		"no pane":   {pane: "w7:p7", sendTo: "reviewer", send: errUnnamed, close: errNoPeer},
		"a name":    {pane: "lead", sendTo: "reviewer", send: errUnnamed, close: errNoPeer},
		"workspace": {pane: "w1:p1", change: func(w *fakeherdr.World) { w.Pane("w1:p1").Workspace = "" }, sendTo: "reviewer", send: errUnnamed, close: errNoPeer},
		"neither has a workspace": {pane: "w1:p1", change: func(w *fakeherdr.World) {
			w.Pane("w1:p1").Workspace, w.Pane("w1:p2").Workspace = "", ""
		}, sendTo: "reviewer", send: errUnnamed, close: errNoPeer},
		"moved, to a peer there": {pane: "w1:p1", change: func(w *fakeherdr.World) { w.Move("w1:p1", "w2") }, sendTo: "builder"},
		"moved, to an old peer":  {pane: "w1:p1", change: func(w *fakeherdr.World) { w.Move("w1:p1", "w2") }, sendTo: "reviewer", send: errNoPeer, close: errNoPeer},
		"moved twice, back":      {pane: "w1:p1", change: func(w *fakeherdr.World) { w.Move("w1:p1", "w2"); w.Move("w1:p1", "w1") }, sendTo: "reviewer"},
		"moved without a name":   {pane: "w1:p3", change: func(w *fakeherdr.World) { w.Move("w1:p3", "w2") }, sendTo: "builder"},
		"moved in the workspace": {pane: "w1:p1", change: func(w *fakeherdr.World) { w.Move("w1:p1", "w1") }, sendTo: "reviewer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			act := func(kind string, want error, do func(*Link) error) {
				s := newStage(t)
				l := s.in(test.pane) // before the move
				if test.change != nil {
					s.update(test.change)
				}
				err := do(l)
				switch {
				case want != nil:
					wantFault(t, err, want)
				case err != nil:
					t.Errorf("%s: %v", kind, err)
				}
				if want != nil && s.ran("agent prompt")+s.ran("pane close")+s.ran("agent rename") != 0 {
					t.Errorf("%s: %q", kind, s.calls())
				}
				if kind == "close" && test.callsOfTheClose != nil {
					s.wantCalls(test.callsOfTheClose...)
				}
			}
			act("send", test.send, func(l *Link) error {
				_, err := l.Send(t.Context(), Message{To: test.sendTo, Text: secret})
				return err
			})
			act("close", test.close, func(l *Link) error { return l.Close(t.Context(), test.sendTo) })
			peersWant := test.send
			if peersWant == errNoPeer {
				peersWant = nil
			}
			act("peers", peersWant, func(l *Link) error {
				_, _, err := l.Peers(t.Context())
				return err
			})
		})
	}
}

// After a move the own record is read with the pane's new id.
func TestMovedSelf(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	l := s.in("w1:p1")
	s.update(func(w *fakeherdr.World) { w.Move("w1:p1", "w2") })
	self, peers, err := l.Peers(t.Context())
	if err != nil || self.Name != "lead" || !slices.Equal(peers, []Peer{{"builder", "idle"}}) {
		t.Errorf("%+v, %+v, %v", self, peers, err)
	}
	s.wantCalls("agent get w1:p1 | agent list | pane get w1:p1 | agent get w2:p2")
}

// HERDR_WORKSPACE_ID and HERDR_TAB_ID do not count.
func TestStaleVariables(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	_, peers, err := s.in("w1:p1", "HERDR_WORKSPACE_ID=w2", "HERDR_TAB_ID=w2:t1").Peers(t.Context())
	if err != nil || !slices.Equal(peers, []Peer{{"reviewer", "idle"}}) {
		t.Errorf("%+v, %v", peers, err)
	}
}

func TestGate(t *testing.T) {
	t.Parallel()
	for _, vars := range [][]string{
		{"HERDR_ENV="}, {"HERDR_ENV=0"}, {"HERDR_ENV=true"}, {"HERDR_BIN_PATH="}, {"HERDR_PANE_ID="}, {"HERDR_LINK_OFF=1"},
	} {
		s := newStage(t)
		l := s.in("w1:p1", vars...)
		if l.Inside() || l.Hint() != "" {
			t.Errorf("%s: inside", vars)
		}
		_, _, err := l.Peers(t.Context())
		wantFault(t, err, errOutside)
		_, err = l.Send(t.Context(), Message{To: "reviewer", Text: "x"})
		wantFault(t, err, errOutside)
		wantFault(t, l.Close(t.Context(), "reviewer"), errOutside)
		_, err = l.Bootstrap(t.Context())
		wantFault(t, err, errOutside)
		s.wantCalls()
	}
	for _, vars := range [][]string{{}, {"HERDR_LINK_OFF="}, {"HERDR_LINK_OFF=0"}, {"HERDR_SOCKET_PATH="}} {
		s := newStage(t)
		if l := s.in("w1:p1", vars...); !l.Inside() || l.Hint() == "" {
			t.Errorf("%s: outside", vars)
		}
	}
}

// Of two things that are wrong, the first in this order is told.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxArg)
	down := fakeherdr.Fault{Kind: fakeherdr.Down}
	unknown := fault1(fakeherdr.Garbage, "agent get nobody")
	noName := refusal("agent_launch_pending", "agent rename")
	refused := &herdrcli.Error{Code: "server_not_running", Err: herdrcli.ErrRefused}
	garbled := &herdrcli.Error{Err: herdrcli.ErrOutput}
	for name, test := range map[string]struct {
		pane    string
		vars    []string
		faults  []fakeherdr.Fault
		change  func(*fakeherdr.World)
		message Message
		want    error
		calls   bool
	}{
		"gate before blank":      {vars: []string{"HERDR_ENV="}, message: Message{To: "reviewer"}, want: errOutside},
		"blank before name":      {message: Message{To: "W", Text: " \t"}, want: errBlank},
		"blank before reply_to":  {message: Message{To: "reviewer", Text: " ", ReplyTo: "x"}, want: errBlank},
		"reply_to before name":   {message: Message{To: "W", Text: "x", ReplyTo: "x"}, want: errReplyTo},
		"too long before name":   {message: Message{To: "W", Text: long}, want: errTooLong},
		"not text before name":   {message: Message{To: "W", Text: "\xff"}, want: errNotText},
		"name before Herdr":      {faults: []fakeherdr.Fault{down}, message: Message{To: "W", Text: "x"}, want: errNoPeer},
		"Herdr before self":      {pane: "w1:p4", faults: []fakeherdr.Fault{unknown}, message: Message{To: "nobody", Text: "x"}, want: garbled, calls: true},
		"Herdr before bootstrap": {pane: "w1:p3", faults: []fakeherdr.Fault{unknown}, message: Message{To: "nobody", Text: "x"}, want: garbled, calls: true},
		"Herdr before guard":     {faults: []fakeherdr.Fault{fault1(fakeherdr.Down, "agent get w1:p1")}, message: Message{To: "nobody", Text: "x"}, want: refused, calls: true},
		"self before guard":      {pane: "w1:p3", faults: []fakeherdr.Fault{noName}, message: Message{To: "nobody", Text: "x"}, want: errUnnamed, calls: true},
		"guard before blocked": {change: func(w *fakeherdr.World) { w.Pane("w2:p1").Agent.Status = "blocked" },
			message: Message{To: "builder", Text: "x"}, want: errNoPeer, calls: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, test.faults...)
			if test.change != nil {
				s.update(test.change)
			}
			pane := test.pane
			if pane == "" {
				pane = "w1:p1"
			}
			_, err := s.in(pane, test.vars...).Send(t.Context(), test.message)
			want := test.want
			if want == errTooLong {
				// the size is that of the shortest names there are
				text, wrapErr := envelope.Wrap(envelope.Envelope{ID: envelope.NewID(startOfTest), From: "x", To: "x", Message: test.message.Text})
				if wrapErr != nil {
					t.Fatal(wrapErr)
				}
				got := asFault(t, err)
				if got.Code != sendFailed || !strings.Contains(got.Reason, "too long") {
					t.Errorf("%s (some %d bytes)", got, len(text))
				}
			} else {
				wantFault(t, err, want)
			}
			if !test.calls {
				s.wantCalls()
			}
			if test.pane == "w1:p3" && test.want == garbled && s.ran("agent rename") != 0 {
				t.Error("renamed although Herdr could not be asked")
			}
			if s.ran("agent prompt") != 0 {
				t.Error("prompted")
			}
		})
	}
}
