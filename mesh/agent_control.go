package mesh

import (
	"context"

	"herdr-link/herdrcli"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/handoff"
	"herdr-link/mesh/lock"
	"herdr-link/mesh/store"
)

// An AgentControl is what the command line may do for the agent that runs it
// (mesh.md §5.1). That agent's process stands in for a credential: nothing here
// reads or needs one. It starts, closes and stops no agent.
type AgentControl struct {
	mesh *Mesh
	id   string // of the controller
	by   controller.Authority
}

// AgentControl returns what there is to do in the name of the controller that the
// environment names. Codes: CALLER_NOT_MANAGED, INVALID_ARGUMENT.
func (m *Mesh) AgentControl(getenv func(string) string) (*AgentControl, error) {
	const variable = "AGENT_CONTROL_CONTROLLER_ID"
	id := getenv(variable)
	switch {
	case getenv("HERDR_ENV") != "1" || !herdrcli.IsPane(getenv("HERDR_PANE_ID")):
		return nil, fault.New("CALLER_NOT_MANAGED", "this command does not run in a pane of Herdr: HERDR_ENV and HERDR_PANE_ID do not name one")
	case !store.IsControllerID(id):
		return nil, invalid("%s must be the id of the controller, 1 to 100 of A-Z a-z 0-9 _ . -", variable)
	}
	return &AgentControl{m, id, m.controllers.Attested(id)}, nil
}

// Status is what herdr_lease_inventory answers for the controller. It needs no
// authority.
func (a *AgentControl) Status(ctx context.Context) (any, error) { return a.mesh.inventory(ctx, a.id) }

// Receipts is what herdr_handoff_receipt_list answers for the controller. It needs
// no authority.
func (a *AgentControl) Receipts() (*handoff.Listing, error) {
	return a.mesh.handoffs.List(a.id, "", listed)
}

// Ask is herdr_batch_handoff.
func (a *AgentControl) Ask(ctx context.Context, requests []handoff.Request, w handoff.Wait) (*handoff.Answer, error) {
	return a.mesh.handoffs.Batch(ctx, a.by, requests, w)
}

// Collect is herdr_collect_handoffs.
func (a *AgentControl) Collect(ctx context.Context, receipts []string, w handoff.Wait) (*handoff.Answer, error) {
	return a.mesh.handoffs.Collect(ctx, a.by, receipts, w)
}

// Abandon is herdr_handoff_receipt_abandon.
func (a *AgentControl) Abandon(ctx context.Context, receipt string) (*handoff.Abandoned, error) {
	return a.mesh.handoffs.Abandon(ctx, a.by, receipt)
}

// An Unlocked store lock had no claim, or has none any more.
type Unlocked struct {
	Was   lock.Status `json:"was"`
	Moved string      `json:"movedTo,omitempty"` // the claim, if there was one
}

// Unlock moves the store lock's claim away, for a person. No tool does that, and
// it works outside of Herdr. Codes: LOCK_BUSY, LOCK_INDETERMINATE, STATE_*.
func (m *Mesh) Unlock() (Unlocked, error) {
	was, moved, err := m.store.Unlock()
	return Unlocked{was, moved}, err
}
