package lane

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
)

const (
	// A new shell is not ready at once. It is asked again after firstPause, and
	// after twice as long each time up to longestPause, until the pauses would
	// make more than readiness. None of that is time of the start itself.
	firstPause   = 100 * time.Millisecond
	longestPause = 400 * time.Millisecond
	readiness    = 10 * time.Second

	// undoing is how long a rollback may take. It goes on if the call is cancelled.
	undoing = 30 * time.Second
)

// A start makes a tab and starts an agent in it, for a lease of any kind that has
// such a tab. (mesh.md §4.2, 1 to 8)
type start struct {
	*Lanes
	caller
	r       store.Leased // as it is going to be written next; its kind, purpose, name and folder are given
	timeout time.Duration
	args    []string // for the agent's program
	// admit is asked under the lock whether the lease may be made beside those
	// that are retained; nil: it may.
	admit func(x *store.Section, retained []store.Leased) error

	there []herdrcli.Agent // before the tab was made
	lost  bool             // there may be a tab of which nobody knows the pane
}

// run returns when the lease is active, or when what was made is gone again, as
// far as that can be. The error tells which lease it was, and what became of it.
func (s *start) run(ctx context.Context) error {
	if err := store.Fits(s.r); err != nil {
		return err
	}
	if err := s.reserve(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{s.create, s.launch, s.activate} {
		if err := step(ctx); err != nil {
			return s.rollback(ctx, fault.Herdr(err))
		}
	}
	return nil
}

// reserve writes the lease down before anything is made, so that its name is
// taken, and with a label by which the tab is found whatever happens.
func (s *start) reserve(ctx context.Context) error {
	return s.section(ctx, s.caller, func(x *store.Section, _ *store.Controller) error {
		b, tab := s.r.Base(), s.r.Made()
		retained, err := lease.Retained(x)
		if err != nil {
			return err
		}
		for _, o := range retained {
			if o.Base().AgentName == b.AgentName {
				return fault.New("LEASE_NAME_RETAINED", "a lease that has not ended has this name: close it, or choose another name").
					With("leaseType", o.Type()).With("leaseId", o.Base().LeaseID)
			}
		}
		if s.admit != nil {
			if err := s.admit(x, retained); err != nil {
				return err
			}
		}
		if s.there, err = s.leases.Agents(x.Context()); err != nil {
			return err
		}
		parent, err := s.herdr.PaneGet(x.Context(), tab.ParentPaneID)
		switch {
		case err != nil:
			return fault.Herdr(err)
		case parent.WorkspaceID == "":
			return fault.New("HERDR_BAD_OUTPUT", "herdr pane get did not tell the pane's workspace")
		}
		who, err := s.may(x)
		if err != nil {
			return err
		}
		b.ControllerID, b.State, b.HerdrSocket = who.ControllerID, store.Provisioning, s.at.Socket
		tab.CreatedAt, tab.WorkspaceID, tab.TabLabel = store.Stamp(s.store.Now()), parent.WorkspaceID, b.AgentName+" #"+b.LeaseID[:8]
		return x.Create(s.r)
	})
}

// on runs do under the store lock, if the start may go on.
func (s *start) on(ctx context.Context, do func(*store.Section) error) error {
	return s.section(ctx, s.caller, func(x *store.Section, _ *store.Controller) error {
		if err := s.provisioning(); err != nil {
			return err
		}
		return do(x)
	})
}

// provisioning fails with LEASE_WRONG_STATE if the record is not in the state any
// more in which this start has left it: somebody has decided about it.
func (s *start) provisioning() error {
	now, err := s.leases.Load(s.r.Type(), s.r.Base().LeaseID)
	switch {
	case fault.Code(err) == "LEASE_NOT_FOUND":
		return fault.New("LEASE_WRONG_STATE", "the lease was taken away while its agent was being started")
	case err != nil:
		return err
	case now.Base().State != store.Provisioning:
		return fault.New("LEASE_WRONG_STATE", "the lease was ended while its agent was being started").With("state", now.Base().State)
	}
	return nil
}

// create makes the tab, and writes down which pane it has. One that was there
// before is somebody's: nothing of it is written down, and so it is never closed.
func (s *start) create(ctx context.Context) error {
	b, made := s.r.Base(), s.r.Made()
	tab, root, err := s.herdr.TabCreate(ctx, made.WorkspaceID, s.r.Dir(), made.TabLabel)
	if err != nil {
		s.lost = mayHaveActed(err)
		return err
	}
	if known, err := s.known(root); known || err != nil {
		s.lost = true
		if err == nil {
			err = fault.New("HERDR_BAD_OUTPUT", "herdr tab create answered with a pane that was there before: it is left as it is")
		}
		return err
	}
	b.PaneID, b.TerminalID, made.TabID = root.ID, root.TerminalID, tab.ID
	return s.on(ctx, func(x *store.Section) error { return x.Replace(s.r) })
}

// known reports whether a pane is one of the agents that were there, or is told of
// by a lease or a controller. It needs no lock: what is looked for was there before.
func (s *start) known(p herdrcli.Pane) (bool, error) {
	if p.ID == s.r.Made().ParentPaneID || slices.ContainsFunc(s.there, func(a herdrcli.Agent) bool { return a.PaneID == p.ID || a.TerminalID == p.TerminalID }) {
		return true, nil
	}
	// Herdr may give the id of a pane that is gone to another one, but no terminal's.
	known := false
	told := func(socket, pane, terminal string) {
		same := terminal == p.TerminalID || terminal == "" && pane == p.ID
		known = known || same && lease.In(socket, s.at.Socket) == nil
	}
	leases, _, err1 := lease.Standing(s.store)
	controllers, err2 := store.Standing[store.Controller](s.store)
	for _, r := range leases {
		b := r.Base()
		told(b.HerdrSocket, b.PaneID, b.TerminalID)
	}
	for _, r := range controllers.Records {
		if r.State == store.Active {
			told(r.HerdrSocket, r.PaneID, r.TerminalID)
		}
	}
	return known, cmp.Or(err1, err2)
}

// mayHaveActed reports whether a command that failed may have done its work.
func mayHaveActed(err error) bool {
	var e *herdrcli.Error
	return !errors.As(err, &e) || e.Started && e.Code == "" && e.Exit != 2
}

// launch starts the agent and waits until Herdr has seen its screen, so that no
// task that comes next is typed into a dialog. Only a shell that is not ready is
// asked again.
func (s *start) launch(ctx context.Context) error {
	b := s.r.Base()
	for wait, waited := firstPause, time.Duration(0); ; wait = min(2*wait, longestPause) {
		if err := s.on(ctx, func(*store.Section) error { return nil }); err != nil {
			return err
		}
		begun := time.Now()
		_, err := s.herdr.AgentStart(ctx, b.AgentName, b.AgentKind, b.PaneID, s.timeout, s.args...)
		switch {
		case err == nil:
			return s.pause(ctx, herdrcli.Unseen(time.Since(begun)))
		case herdrcli.Code(err) != "agent_pane_busy" || waited+wait > readiness:
			return unstarted(err)
		}
		if err := s.pause(ctx, wait); err != nil {
			return err
		}
		waited += wait
	}
}

// unstarted is the fault of an agent start that has come to nothing.
func unstarted(err error) *fault.Fault {
	f, code := fault.Herdr(err), herdrcli.Code(err)
	if code == "" {
		return f
	}
	switch f.Code {
	case "AGENT_NAME_TAKEN", "AGENT_PANE_BUSY", "PANE_NOT_FOUND", "HERDR_SERVER_DOWN", "HERDR_PROTOCOL_MISMATCH":
		return f
	}
	why := "Herdr could not start the agent"
	switch code {
	case "timeout":
		why = "the agent was not ready in time: its program is not installed, has ended, or needs longer than start_timeout_ms"
	case "agent_kind_mismatch":
		why = "the program in the pane turned out to be another agent"
	case "agent_start_failed", "agent_name_not_found":
		why = "the agent's program has ended, or got another name, before it was ready"
	}
	return fault.New("AGENT_START_FAILED", "%s", why).With("herdrCode", code)
}

// activate ends the start, if the agent is the one that was wanted. One that is
// blocked is: prompts wait for its human.
func (s *start) activate(ctx context.Context) error {
	agents, err := s.leases.Agents(ctx)
	if err != nil {
		return err
	}
	a, err := lease.Find(s.r, agents)
	switch {
	case a == nil:
		return fault.New("AGENT_START_FAILED", "the agent was gone right after its start")
	case err != nil:
		return err
	}
	return s.on(ctx, func(x *store.Section) error {
		lease.Follow(s.r, a, s.at.Socket)
		s.r.Base().State = store.Active
		return x.Replace(s.r)
	})
}

// rollback undoes what a start has made that came to nothing, and returns why
// that was. No authority is needed for it, since this very call has made it.
func (s *start) rollback(ctx context.Context, cause *fault.Fault) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), undoing)
	defer stop()
	b := s.r.Base()
	b.State = store.Orphaned
	if s.undone(ctx) {
		b.State = store.FailedClosed
		s.r.Ended(store.Stamp(s.store.Now()))
	}
	b.Failure = cause.Error()
	cause = cause.With("leaseId", b.LeaseID)
	x, err := s.store.Begin(ctx)
	if err != nil {
		return cause // it stays provisioning, and is for reconciling in a while
	}
	defer x.End()
	if s.provisioning() != nil {
		return cause // what somebody else has decided, stays
	}
	if x.Replace(s.r) == nil {
		cause = cause.With("leaseState", b.State)
	}
	return cause
}

// undone closes the pane, and reports whether there surely is none any more. One
// that has got the pane's id since is left alone.
func (s *start) undone(ctx context.Context) bool {
	if s.r.Base().PaneID == "" {
		return !s.lost
	}
	p, own, err := s.leases.Own(ctx, s.r)
	if err == nil && own {
		err = s.herdr.PaneClose(ctx, p.ID)
	}
	return err == nil || herdrcli.Code(err) == "pane_not_found"
}
