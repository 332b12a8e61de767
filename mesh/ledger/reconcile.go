package ledger

import (
	"context"
	"slices"
	"strings"

	"herdr-link/herdrcli"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/git"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
)

// A Request asks for one lease to be reconciled with what there is.
type Request struct {
	Type, LeaseID string
	DryRun        bool        // say what would be done, and write nothing
	ConfirmDead   bool        // the lease's Herdr session, which does not answer, is dead
	Checkpoint    *Checkpoint // nil: none; else the lease is a writer's
}

// A Checkpoint says how far a writer's work came, and what its worktree is then.
type Checkpoint struct {
	store.Checkpoint
	Head, StatusSHA256 string
}

// A Result says what was done with a lease, or would be.
type Result struct {
	Action        string       `json:"action"`
	TerminalState string       `json:"terminalState,omitempty"` // of a lease that has ended, or would end
	Lease         store.Leased `json:"lease"`
}

// The actions (mesh.md §2.8). A dry run has them with would_ and the verb.
const (
	preservedState   = "preserved_state"            // it has ended, or its start may be under way
	preservedLive    = "preserved_live_pane"        // close or release it
	preservedWriter  = "preserved_ambiguous_writer" // a checkpoint is needed
	preservedUnknown = "preserved_unknown"          // Herdr did not say whether the pane is there
)

// A change is what a lease comes to.
type change struct {
	would, done string
	state       string
	edit        func(store.Leased)
}

// ends is the end of a lease whose pane, or whose agent, is missing.
func ends(missing, state string) *change {
	return &change{"would_terminalize_missing_" + missing, "terminalized_missing_" + missing, state, func(store.Leased) {}}
}

// Reconcile ends a lease of the controller whose pane is surely gone, with its
// receipts, or binds one to the pane that its start has left. It closes no pane,
// and what it cannot be sure of it preserves (mesh.md §4.9).
//
// Codes: those of the authority, INVALID_ARGUMENT, LEASE_NOT_FOUND,
// LEASE_OTHER_CONTROLLER, LEASE_OTHER_SESSION, for a writer VERIFY_RUNNING, and with
// a checkpoint those of the facts of a worktree.
func (l *Ledger) Reconcile(ctx context.Context, by controller.Authority, q Request) (*Result, error) {
	q.LeaseID = strings.ToLower(q.LeaseID)
	if q.Checkpoint != nil && q.Type != "writer" {
		return nil, fault.New("INVALID_ARGUMENT", "a checkpoint is for the lease of a writer alone")
	}
	at, err := l.controllers.Terminal(ctx)
	if err != nil {
		return nil, err
	}
	var tree *git.Tree
	if q.Checkpoint != nil {
		if tree, err = l.worktree(ctx, q); err != nil {
			return nil, err
		}
	}
	x, err := l.store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer x.End()
	c, err := by(x, at)
	if err != nil {
		return nil, err
	}
	r, err := l.leases.Load(q.Type, q.LeaseID)
	if err != nil {
		return nil, err
	}
	if err := lease.Owned(r, c); err != nil {
		return nil, err
	}
	if lease.Terminal(r) {
		return &Result{preservedState, r.Base().State, r}, nil
	}
	dead, err := l.dead(x.Context(), r, at, q.ConfirmDead)
	if err != nil {
		return nil, err
	}
	to, preserved := l.decide(x, r, q.Checkpoint, dead)
	if err := x.Err(); err != nil { // whatever was seen by then
		return nil, err
	}
	if to == nil {
		return &Result{preserved, "", r}, nil
	}
	if tree != nil {
		if err := tree.CheckHead(x.Context(), facts(r.(*store.Writer), q.Checkpoint)); err != nil {
			return nil, err
		}
	}
	result := &Result{to.would, to.state, r}
	if to.state == store.Orphaned {
		result.TerminalState = ""
	}
	if q.DryRun {
		return result, nil
	}
	if r.Type() == "writer" { // no lane is given away while a gate writes in it
		if err := l.leases.Verifying(x.Context(), x, r.Base().LeaseID); err != nil {
			return nil, err
		}
	}
	if _, err := by(x, at); err != nil {
		return nil, err
	}
	if err := x.Err(); err != nil {
		return nil, err
	}
	result.Action = to.done
	return result, l.carry(x, r, to)
}

// worktree reads the facts of a writer's worktree, which must be those that the
// caller knows. A lease that is not there, or has ended, has none: that is said later.
func (l *Ledger) worktree(ctx context.Context, q Request) (*git.Tree, error) {
	r, err := l.leases.Load(q.Type, q.LeaseID)
	if err != nil {
		return nil, err
	}
	w, ok := r.(*store.Writer)
	if !ok || lease.Terminal(r) {
		return nil, nil
	}
	if err := l.leases.VerifyingIn(ctx, w.Worktree); err != nil {
		return nil, err
	}
	tree, err := l.git.Reopen(ctx, w.Worktree, w.GitDir, w.GitCommonDir)
	if err != nil {
		return nil, err
	}
	return tree, tree.Check(ctx, facts(w, q.Checkpoint))
}

func facts(w *store.Writer, p *Checkpoint) git.Facts {
	return git.Facts{Branch: w.Branch, Protected: w.ProtectedBranches, Head: p.Head, Base: w.BaseCommit, StatusSHA256: p.StatusSHA256}
}

// dead reports whether the lease is of another Herdr session, which is dead. It
// fails with LEASE_OTHER_SESSION if it is of one that is not: what is seen from
// here proves nothing there.
func (l *Ledger) dead(ctx context.Context, r store.Leased, at controller.Terminal, confirm bool) (bool, error) {
	other := lease.In(r.Base().HerdrSocket, at.Socket)
	if other == nil {
		return false, nil
	}
	dead, retry, err := l.controllers.Dead(ctx, r.Base().HerdrSocket, confirm)
	switch {
	case err != nil:
		return false, err
	case dead:
		return true, nil
	case retry > 0:
		return false, fault.New("LEASE_OTHER_SESSION", "the lease is of another Herdr session, which does not answer now: "+
			"look again later, or set confirm_dead_session if it is dead").With("retryAfterMs", retry.Milliseconds())
	}
	return false, other
}

// decide returns what the lease comes to, or why it is preserved.
func (l *Ledger) decide(x *store.Section, r store.Leased, p *Checkpoint, dead bool) (to *change, preserved string) {
	b := r.Base()
	if lease.Starting(r, l.store.Now()) > 0 {
		return nil, preservedState
	}
	if dead {
		return gone(r, p)
	}
	agents, err := l.leases.Agents(x.Context())
	if err != nil {
		return nil, preservedUnknown
	}
	if b.PaneID == "" {
		pane, there, _ := l.leases.Lost(x.Context(), r)
		switch {
		case there == lease.Absent && alive(r, agents):
			return nil, preservedLive
		case there == lease.Absent:
			return gone(r, p)
		case there == lease.Live:
			return bind(pane), ""
		}
		return nil, preservedUnknown
	}
	there, _ := l.leases.Pane(x.Context(), r)
	if there == lease.Unknown {
		return nil, preservedUnknown
	}
	agent := lease.Agent(r, agents)
	switch {
	case agent != nil: // wherever its pane is by now
		return nil, preservedLive
	case there == lease.Absent && alive(r, agents):
		return nil, preservedLive
	case there == lease.Absent:
		return gone(r, p)
	case r.Type() == "adopted-pane":
		return ends("agent", store.Closed), ""
	}
	return nil, preservedLive
}

// alive reports whether an agent that the bridge has made may be there though its
// terminal is not: a live handoff of the server gives all terminals new ids. It is
// one of the lease's name, kind and folder. (An adopted pane is only let go, and can
// be adopted anew.)
func alive(r store.Leased, agents []herdrcli.Agent) bool {
	return r.Made() != nil && slices.ContainsFunc(agents, func(a herdrcli.Agent) bool { return lease.Same(r, &a) == nil })
}

// bind is the change of a lease whose pane was made and not written down.
func bind(pane herdrcli.Pane) *change {
	return &change{"would_bind_orphan_tab", "bound_orphan_tab", store.Orphaned, func(r store.Leased) {
		r.Base().PaneID, r.Base().TerminalID, r.Made().TabID = pane.ID, pane.TerminalID, pane.TabID
	}}
}

// gone is what a lease comes to whose pane is absent: the table of mesh.md §4.9.
func gone(r store.Leased, p *Checkpoint) (to *change, preserved string) {
	b := r.Base()
	starting := b.State == store.Provisioning || b.State == store.Orphaned
	w, ok := r.(*store.Writer)
	switch {
	case !ok && starting, ok && starting && b.PaneID == "": // in no pane nobody has written anything
		return ends("pane", store.FailedClosed), ""
	case !ok:
		return ends("pane", store.Closed), ""
	case p != nil:
		to = ends("pane", store.Released)
		to.edit = func(store.Leased) {
			w.Checkpoint, w.HeadCommit, w.GitStatusSHA256 = p.Checkpoint, strings.ToLower(p.Head), strings.ToLower(p.StatusSHA256)
		}
		return to, ""
	case (b.State == store.Releasing || b.State == store.ReleaseFailed) && w.CheckpointRef != "" && w.CheckpointSHA256 != "":
		return ends("pane", store.Released), ""
	}
	return nil, preservedWriter
}

// carry writes the change down. The receipts come first: a crash then leaves a
// lease that can be reconciled again.
func (l *Ledger) carry(x *store.Section, r store.Leased, to *change) error {
	now := store.Stamp(l.store.Now())
	to.edit(r)
	r.Base().State = to.state
	if !lease.Terminal(r) {
		return x.Replace(r)
	}
	r.Ended(now)
	receipts, err := store.Retained[store.Receipt](x)
	if err != nil {
		return err
	}
	for _, t := range receipts {
		if !strings.EqualFold(t.TargetLeaseID, r.Base().LeaseID) {
			continue
		}
		t.State, t.Failure, t.UpdatedAt = store.Failed, "target_gone", now
		if err := x.Replace(t); err != nil {
			return err
		}
	}
	return x.Replace(r)
}
