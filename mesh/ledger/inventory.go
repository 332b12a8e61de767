// Package ledger tells which leases there are and whether their agents are, and
// ends those whose pane is gone (mesh.md §2.8, §4.9).
//
// It closes no pane and reads no screen.
package ledger

import (
	"context"

	"herdr-link/herdrcli"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/git"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
)

// Options are what a ledger needs to know.
type Options struct {
	Store       *store.Store
	Controllers *controller.Controllers
	Leases      *lease.Leases
	Git         *git.Git
}

// A Ledger does the operations. Its methods may be used by many goroutines.
// Errors are faults.
type Ledger struct {
	store       *store.Store
	controllers *controller.Controllers
	leases      *lease.Leases
	git         *git.Git
}

// New returns the operations. Nothing is looked at yet.
func New(o Options) *Ledger { return &Ledger{o.Store, o.Controllers, o.Leases, o.Git} }

// What an agent, or a lease, is for the other.
const (
	Matched  = "matched"
	Mismatch = "identity_mismatch"  // the agent in a leased terminal is not the one that was leased
	Unleased = "unleased"           // no lease is of the agent's terminal
	Missing  = "missing_or_changed" // the lease's agent is gone, or is not the one that was leased
)

// A Summary is a lease in few words.
type Summary struct {
	LeaseType    string `json:"leaseType"`
	LeaseID      string `json:"leaseId"`
	ControllerID string `json:"controllerId"`
	State        string `json:"state"`
	PaneID       string `json:"paneId"`
	AgentName    string `json:"agentName"`
}

func summary(r store.Leased) Summary {
	b := r.Base()
	return Summary{r.Type(), b.LeaseID, b.ControllerID, b.State, b.PaneID, b.AgentName}
}

// A Seen agent is one that Herdr lists.
type Seen struct {
	herdrcli.Agent
	LeaseStatus string   // Matched, Mismatch or Unleased
	Lease       *Summary // nil: Unleased
}

// A Kept lease is one that is not terminal.
type Kept struct {
	Summary
	LiveIdentity string `json:"liveIdentity"` // Matched or Missing
}

// An Inventory sets the agents and the leases side by side.
type Inventory struct {
	Agents  []Seen
	Leases  []Kept
	Invalid []store.Invalid
}

// Inventory looks at all agents and all retained leases, and returns the leases
// of that controller ("": of all). An agent's lease may be any controller's. A
// record that cannot be read is named, and hides no other. Herdr must answer.
func (l *Ledger) Inventory(ctx context.Context, controllerID string) (*Inventory, error) {
	// In this order: an agent that was started in between then has no lease yet,
	// and no lease is without its agent.
	leases, invalid, err := lease.Standing(l.store)
	if err != nil {
		return nil, err
	}
	agents, err := l.leases.Agents(ctx)
	if err != nil {
		return nil, err
	}
	i := &Inventory{Agents: make([]Seen, len(agents)), Leases: []Kept{}, Invalid: invalid}
	of := map[string]*Seen{} // by terminal
	for n, a := range agents {
		i.Agents[n] = Seen{a, Unleased, nil}
		of[a.TerminalID] = &i.Agents[n]
	}
	for _, r := range leases {
		live, s := Missing, summary(r)
		if a := lease.Agent(r, agents); a != nil {
			status := Mismatch
			if lease.Same(r, a) == nil {
				live, status = Matched, Matched
			}
			if seen := of[a.TerminalID]; seen.Lease == nil || seen.LeaseStatus == Mismatch {
				seen.LeaseStatus, seen.Lease = status, &s
			}
		}
		if controllerID == "" || controllerID == s.ControllerID {
			i.Leases = append(i.Leases, Kept{s, live})
		}
	}
	return i, nil
}
