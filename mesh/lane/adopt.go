package lane

import (
	"context"
	"strings"

	"herdr-link/herdrcli"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
)

// An Adoption is what an agent that is there is adopted with: what the caller has
// seen of it, and which panes are not to be adopted.
type Adoption struct {
	Purpose         string
	AuthorityRef    string
	AuthoritySHA256 string
	Target          string // a name or a pane
	PaneID          string
	Name, Kind, Cwd string
	Cursor          int64
	Protected       []string // panes; an id from before a move will do
}

// Adopt makes a lease of the pane of an agent that is quiet, and exactly the one
// that was seen. The lease permits prompts and the closing of the pane, no more.
// Codes: those of an Authority, CALLER_NOT_MANAGED, INVALID_ARGUMENT, AGENT_*,
// LEASE_IDENTITY_CHANGED, CURSOR_MISMATCH, PANE_PROTECTED, PANE_CLAIMED.
func (l *Lanes) Adopt(ctx context.Context, by controller.Authority, q Adoption) (*store.Adopted, error) {
	who, err := l.caller(ctx, by)
	if err != nil {
		return nil, err
	}
	protected, err := l.terminals(ctx, q.Protected)
	if err != nil {
		return nil, err
	}
	var r *store.Adopted
	err = l.section(ctx, who, func(x *store.Section, _ *store.Controller) error {
		a, err := l.herdr.AgentGet(x.Context(), q.Target)
		if err != nil {
			return fault.Herdr(err)
		}
		if !lease.Plausible([]herdrcli.Agent{a}) {
			return fault.New("HERDR_BAD_OUTPUT", "herdr agent get did not tell the agent's terminal, pane, status or cursor, or told an odd one")
		}
		if err := spared(x, &a, protected); err != nil {
			return err
		}
		if err := q.is(&a); err != nil {
			return err
		}
		if err := free(x, &a, who.at.Socket); err != nil {
			return err
		}
		me, err := who.may(x)
		if err != nil {
			return err
		}
		r = &store.Adopted{
			Version: 1, LeaseType: "adopted-pane",
			Lease: store.Lease{
				LeaseID: disk.NewID(), ControllerID: me.ControllerID, Purpose: q.Purpose, PaneID: a.PaneID, AgentName: a.Name, AgentKind: a.Kind,
				State: store.Active, TerminalID: a.TerminalID, HerdrSocket: who.at.Socket,
			},
			AuthorityRef: q.AuthorityRef, AuthoritySHA256: q.AuthoritySHA256, Cwd: disk.Resolved(a.Cwd),
			StateChangeSeq: a.Cursor, AdoptedAt: store.Stamp(l.store.Now()),
		}
		return x.Create(r)
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// terminals returns those of the panes that are there.
func (l *Lanes) terminals(ctx context.Context, panes []string) (map[string]bool, error) {
	all := map[string]bool{}
	for _, pane := range panes {
		p, err := l.herdr.PaneGet(ctx, pane)
		switch {
		case herdrcli.Code(err) == "pane_not_found": // nothing to protect
		case err != nil:
			return nil, fault.Herdr(err)
		case p.TerminalID == "":
			return nil, fault.New("HERDR_BAD_OUTPUT", "herdr pane get did not tell the pane's terminal")
		default:
			all[p.TerminalID] = true
		}
	}
	return all, nil
}

// is fails unless the agent is the one that was seen, and quiet at that cursor.
func (q Adoption) is(a *herdrcli.Agent) error {
	differ := lease.Differ(a, q.Name, q.Kind, q.Cwd)
	if a.PaneID != q.PaneID {
		differ = append([]string{"paneId"}, differ...)
	}
	if len(differ) > 0 {
		return fault.New("LEASE_IDENTITY_CHANGED", "the agent has another %s than expected: look at it again", strings.Join(differ, " and ")).With("differ", differ)
	}
	if err := quiet(a); err != nil {
		return err
	}
	return cursor(a, q.Cursor)
}

// spared fails with PANE_PROTECTED if nobody may adopt the agent. That is asked
// first: a caller is at work itself, and is to hear that it is protected, as each
// controller is.
func spared(x *store.Section, a *herdrcli.Agent, protected map[string]bool) error {
	controllers, err := store.Retained[store.Controller](x)
	if err != nil {
		return err
	}
	for _, c := range controllers {
		// A record of the older bridge has no terminal; there the pane counts.
		if c.State == store.Active && (c.TerminalID == a.TerminalID || c.TerminalID == "" && c.PaneID == a.PaneID) {
			protected[a.TerminalID] = true
		}
	}
	if protected[a.TerminalID] {
		return fault.New("PANE_PROTECTED", "the pane is the caller's, another controller's, or one that was to be protected")
	}
	return nil
}

// free fails with PANE_CLAIMED if the agent has a lease that has not ended.
func free(x *store.Section, a *herdrcli.Agent, socket string) error {
	retained, err := lease.Retained(x)
	if err != nil {
		return err
	}
	for _, r := range retained {
		b := r.Base()
		here := lease.In(b.HerdrSocket, socket) == nil // pane ids are the same in all sessions
		if b.TerminalID == a.TerminalID || b.AgentName == a.Name || here && b.PaneID == a.PaneID {
			return fault.New("PANE_CLAIMED", "a lease that has not ended has this pane, terminal or name").With("leaseType", r.Type()).With("leaseId", b.LeaseID)
		}
	}
	return nil
}

// CloseAdopted closes an adopted pane. The checkpoint says how far the work came.
// Codes: as CloseReviewer.
func (l *Lanes) CloseAdopted(ctx context.Context, by controller.Authority, q Close, reached store.Checkpoint) (*Closed, error) {
	who, err := l.caller(ctx, by)
	if err != nil {
		return nil, err
	}
	return (&closing{Lanes: l, caller: who, Close: q, kind: "adopted-pane", note: func(r store.Leased) { *r.Reached() = reached }}).run(ctx)
}
