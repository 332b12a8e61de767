package handoff

import (
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
)

// gap is how far apart two samples of a watch may be. What happens in a longer one
// may be more than one turn.
const gap = 5 * time.Second

// A verdict is what a sample means for a receipt (mesh.md §4.5, 2).
type verdict int

const (
	goOn       verdict = iota
	settled            // it is to be captured
	blocked            // its human must act
	changed            // the agent is not that of the receipt any more
	superseded         // it has begun another turn
)

// A follower knows what has been seen of the agent that a pending receipt is of.
type follower struct {
	after    int64     // the cursor at which its turn was accepted
	blocked  bool      // the turn was seen blocked once: what works later is its rest
	unbroken bool      // nothing can have happened that was not seen
	last     time.Time // of the sample before; zero: there was none
}

// follow is a follower of a receipt whose turn nobody has watched since.
func follow(r *store.Receipt) *follower {
	return &follower{after: r.AfterSeq, blocked: r.BlockedSeq > 0}
}

// see judges the agent as it is at that time. It must be the receipt's own.
func (f *follower) see(a *herdrcli.Agent, now time.Time) verdict {
	switch {
	case f.last.IsZero():
		f.unbroken = a.Cursor == f.after
	case now.Sub(f.last) >= gap:
		f.unbroken = false
	}
	f.last = now
	switch {
	case a.Cursor < f.after: // that was before its turn
	case a.Status == "blocked":
		f.blocked = true
		return blocked
	case lease.Quiet(a.Status):
		return settled
	case a.Status == "working" && a.Cursor > f.after && !f.unbroken && !f.blocked:
		return superseded
	}
	return goOn
}

// proof says how sure it is that a settled state is that of the receipt's turn.
func (f *follower) proof() string {
	if f.unbroken {
		return "continuous"
	}
	return "first_seen"
}

// of returns the agent of a receipt as it is now, or nil: the terminal, the pane,
// the name, the kind and the folder must be those of the receipt.
func of(r *store.Receipt, agents []herdrcli.Agent) *herdrcli.Agent {
	for i := range agents {
		a := &agents[i]
		if r.TerminalID != "" && a.TerminalID != r.TerminalID || a.PaneID != r.PaneID {
			continue
		}
		if a.Name == r.Target && a.Kind == r.AgentKind && disk.Resolved(a.Cwd) == disk.Resolved(r.Cwd) {
			return a
		}
	}
	return nil
}
