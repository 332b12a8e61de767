// Package lane makes leases of panes and ends them: it starts agents in tabs of
// their own, adopts agents that are there, and closes panes again, each under the
// authority of a controller (mesh.md §4.2, §4.7 and §4.8).
//
// The two sequences, a start and a closing, are the same for all kinds of leases;
// what a kind wants beyond them it says with a few functions. No step of them
// leaves a lease in a state without an exit (mesh.md §7).
package lane

import (
	"context"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/git"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
)

// Options are what the lanes of a process need to know.
type Options struct {
	Herdr       *herdrcli.Client
	Store       *store.Store
	Controllers *controller.Controllers
	Leases      *lease.Leases
	Git         *git.Git
}

// Lanes do the operations. Their methods may be used by many goroutines. Errors
// are faults.
type Lanes struct {
	herdr       *herdrcli.Client
	store       *store.Store
	controllers *controller.Controllers
	leases      *lease.Leases
	git         *git.Git

	pause func(context.Context, time.Duration) error // between two tries of a start, and behind it
}

// New returns the operations. Nothing is looked at yet.
func New(o Options) *Lanes { return &Lanes{o.Herdr, o.Store, o.Controllers, o.Leases, o.Git, pause} }

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fault.New("CANCELLED", "the call was cancelled")
	}
}

// A caller is somebody with an authority, at its terminal.
type caller struct {
	by controller.Authority
	at controller.Terminal
}

// caller asks where this process runs: once a call, before any lock.
func (l *Lanes) caller(ctx context.Context, by controller.Authority) (c caller, err error) {
	c.by = by
	c.at, err = l.controllers.Terminal(ctx)
	return c, err
}

// may is asked under the store lock, right before whatever acts or writes (I3):
// nothing begins when the section is over, or without an authority.
func (c caller) may(x *store.Section) (*store.Controller, error) {
	if err := x.Err(); err != nil {
		return nil, err
	}
	return c.by(x, c.at)
}

// section runs do under the store lock, for a caller that may act.
func (l *Lanes) section(ctx context.Context, c caller, do func(*store.Section, *store.Controller) error) error {
	x, err := l.store.Begin(ctx)
	if err != nil {
		return err
	}
	defer x.End()
	who, err := c.may(x)
	if err != nil {
		return err
	}
	return do(x, who)
}

// quiet fails unless the agent is idle or done: AGENT_BLOCKED, for a dialog
// belongs to its human (I8), or AGENT_NOT_SETTLED.
func quiet(a *herdrcli.Agent) error {
	switch {
	case lease.Quiet(a.Status):
		return nil
	case a.Status == "blocked":
		return fault.New("AGENT_BLOCKED", "the agent waits for its human, who must answer it first")
	}
	return fault.New("AGENT_NOT_SETTLED", "the agent is neither idle nor done: wait until it has settled").With("status", a.Status)
}

// cursor fails with CURSOR_MISMATCH if the agent's cursor is another one.
func cursor(a *herdrcli.Agent, expected int64) error {
	if a.Cursor == expected {
		return nil
	}
	return fault.Mismatch("CURSOR_MISMATCH", "the agent's cursor is another one than expected: something has happened since, so read its screen again", expected, a.Cursor)
}
