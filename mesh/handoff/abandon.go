package handoff

import (
	"context"
	"time"

	"herdr-link/mesh/controller"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
)

// young is how old a reserved receipt must be to be abandoned: its delivery may be
// under way.
const young = 60 * time.Second

// An Abandoned receipt stands in nobody's way any more.
type Abandoned struct {
	Receipt string `json:"receipt"`
	Target  string `json:"target"`
	State   string `json:"state"`
	Failure string `json:"failure"`                  // abandoned, or target_gone
	Status  string `json:"observedStatus,omitempty"` // of the agent, if it is there
	Cursor  *int64 `json:"observedSeq,omitempty"`
}

// Abandon gives up an outstanding receipt, so that its agent can be given another
// task (mesh.md §4.6). The agent is left alone. Codes: those of the authority,
// RECEIPT_INVALID, RECEIPT_NOT_FOUND, RECEIPT_OTHER_CONTROLLER,
// RECEIPT_WRONG_STATE, AGENT_NOT_SETTLED, LEASE_IDENTITY_CHANGED,
// LEASE_OTHER_SESSION.
func (h *Handoffs) Abandon(ctx context.Context, by controller.Authority, receipt string) (*Abandoned, error) {
	id, err := parseToken(receipt)
	if err != nil {
		return nil, err
	}
	b, x, c, err := h.open(ctx, by)
	if err != nil {
		return nil, err
	}
	defer x.End()
	i := &item{batch: b}
	if i.receipt, err = h.load(id, c); err != nil {
		return nil, err
	}
	if i.receipt.State != store.Reserved && i.receipt.State != store.Pending {
		return nil, fault.New("RECEIPT_WRONG_STATE", "the receipt is not outstanding").With("state", i.receipt.State)
	}
	made, _ := store.Time(i.receipt.CreatedAt)
	if age := h.store.Now().Sub(made); i.receipt.State == store.Reserved && age > -young && age < young { // or the clock was set back
		return nil, fault.New("AGENT_NOT_SETTLED", "the delivery may be under way: abandon the receipt when it is %v old", young).
			With("retryAfterMs", (young - age).Milliseconds())
	}
	a, err := i.abandonable(x)
	if err != nil {
		return nil, err
	}
	if _, err := by(x, b.at); err != nil {
		return nil, err
	}
	if err := x.Err(); err != nil {
		return nil, err
	}
	if err := i.replace(x, failed(a.Failure)); err != nil {
		return nil, err
	}
	a.State = i.receipt.State
	return a, nil
}

// abandonable says what becomes of the receipt: the agent must have settled, or be
// gone for good.
func (i *item) abandonable(x *store.Section) (*Abandoned, error) {
	a := &Abandoned{Receipt: token(i.receipt.ReceiptID), Target: i.receipt.Target, Failure: "target_gone"}
	l, err := i.leases.Lookup(i.receipt.TargetLeaseID)
	if err != nil {
		return nil, err
	}
	if l == nil || lease.Terminal(l) {
		return a, nil
	}
	if err := lease.In(l.Base().HerdrSocket, i.at.Socket); err != nil {
		return nil, err
	}
	agents, err := i.leases.Agents(x.Context())
	if err != nil {
		return nil, err
	}
	agent := lease.Agent(l, agents)
	if agent == nil {
		there, err := i.leases.Pane(x.Context(), l)
		switch there {
		case lease.Absent:
			return a, nil
		case lease.Live:
			return nil, fault.New("LEASE_IDENTITY_CHANGED", "the agent has ended and its pane is there: close it with agent_exited and abandon_receipts")
		}
		return nil, err
	}
	if err := lease.Same(l, agent); err != nil {
		return nil, err
	}
	if !lease.Quiet(agent.Status) && agent.Status != "blocked" {
		return nil, fault.New("AGENT_NOT_SETTLED", "the agent is at work, perhaps on that very task").With("status", agent.Status)
	}
	a.Failure, a.Status, a.Cursor = "abandoned", agent.Status, &agent.Cursor
	return a, nil
}

// A Listed receipt is what everybody may see of one.
type Listed struct {
	Receipt      string `json:"receipt"`
	ControllerID string `json:"controllerId"`
	Target       string `json:"target"`
	PaneID       string `json:"paneId"`
	AgentKind    string `json:"agentKind"`
	Cwd          string `json:"cwd"`
	State        string `json:"state"`
	BeforeSeq    int64  `json:"beforeSeq"`
	AfterSeq     int64  `json:"afterSeq,omitempty"`
	SettledSeq   int64  `json:"settledSeq,omitempty"`
	Failure      string `json:"failure,omitempty"`
	CreatedAt    string `json:"createdAt"`
	UpdatedAt    string `json:"updatedAt"`
}

// A Listing are receipts: those outstanding first, then the others, newest first.
type Listing struct {
	Receipts  []Listed        `json:"receipts"`
	Truncated bool            `json:"truncated"`
	Invalid   []store.Invalid `json:"invalidRecords"`
}

// List returns at most limit receipts, of a controller and in a state if these are
// not "". It needs no authority.
func (h *Handoffs) List(controllerID, state string, limit int) (*Listing, error) {
	l, err := store.List(h.store, limit, func(r *store.Receipt) bool {
		return (controllerID == "" || r.ControllerID == controllerID) && (state == "" || r.State == state)
	})
	if err != nil {
		return nil, err
	}
	all := &Listing{[]Listed{}, l.Truncated, append([]store.Invalid{}, l.Invalid...)}
	for _, r := range l.Records {
		all.Receipts = append(all.Receipts, Listed{
			token(r.ReceiptID), r.ControllerID, r.Target, r.PaneID, r.AgentKind, r.Cwd, r.State,
			r.BeforeSeq, r.AfterSeq, r.SettledSeq, r.Failure, r.CreatedAt, r.UpdatedAt,
		})
	}
	return all, nil
}
