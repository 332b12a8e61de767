package mesh

import (
	"context"

	"herdr-link/mcp"
	"herdr-link/mesh/ledger"
	"herdr-link/mesh/store"
)

// ledgerTools are the rows of what tells of all leases (mesh.md §2.8).
func ledgerTools() []tool {
	lease := need(arg("lease_id", uuids()))
	kind := need(arg("lease_type", mcp.Schema{Type: "string", Enum: []string{"reviewer", "writer", "adopted-pane"}}))
	flag := func(name string, value bool, what string) argument {
		return arg(name, mcp.Schema{Type: "boolean", Default: value, Description: what})
	}
	head := arg("expected_head", commits())
	return []tool{
		{"herdr_lease_inventory", "List agents and leases", "Set all agents and the leases that have not ended side by side: which agent is leased, which lease has lost its agent.",
			reads, []argument{argController()}, "", nil, false, func(ctx context.Context, c *call) (any, error) {
				return c.inventory(ctx, c.args.Text("controller_id"))
			}},
		{"herdr_lease_reconcile", "End a lease without a pane", "End a lease whose pane is surely gone, with its receipts; or find the pane that a start has left. A writer's wants the four of its checkpoint.",
			"DI", credential(kind, lease, flag("dry_run", true, "only say what would be done"), flag("confirm_dead_session", false, "the lease's Herdr session, which does not answer, is dead"),
				arg("checkpoint_ref", references()), arg("checkpoint_sha256", digests()), head, arg("expected_status_sha256", digests())), "", nil, false, reconcile},
	}
}

// inventory is what the tool and the command line answer.
func (m *Mesh) inventory(ctx context.Context, controllerID string) (any, error) {
	type row struct {
		agent
		LeaseStatus string          `json:"leaseStatus"`
		Lease       *ledger.Summary `json:"lease,omitempty"`
	}
	i, err := m.ledger.Inventory(ctx, controllerID)
	if err != nil {
		return nil, err
	}
	rows := make([]row, len(i.Agents))
	for n := range i.Agents {
		s := &i.Agents[n]
		t := target{target: s.Name, last: &s.Agent}
		if t.target == "" {
			t.target = s.PaneID
		}
		rows[n] = row{t.agent(), s.LeaseStatus, s.Lease}
	}
	return struct {
		Agents  []row           `json:"agents"`
		Leases  []ledger.Kept   `json:"retainedLeases"`
		Invalid []store.Invalid `json:"invalidRecords"`
	}{rows, i.Leases, i.Invalid}, nil
}

func reconcile(ctx context.Context, c *call) (any, error) {
	q := ledger.Request{
		Type: c.args.Text("lease_type"), LeaseID: c.args.Text("lease_id"), DryRun: c.args.True("dry_run"), ConfirmDead: c.args.True("confirm_dead_session"),
	}
	given := 0
	for _, name := range []string{"checkpoint_ref", "checkpoint_sha256", "expected_head", "expected_status_sha256"} {
		if c.args[name] != nil {
			given++
		}
	}
	switch {
	case given != 0 && given != 4:
		return nil, invalid("arguments checkpoint_ref, checkpoint_sha256, expected_head and expected_status_sha256 must all be there, or none")
	case given != 0 && q.Type != "writer":
		return nil, invalid("arguments checkpoint_ref and the three beside it are for lease_type writer")
	case given != 0:
		q.Checkpoint = &ledger.Checkpoint{
			Checkpoint: store.Checkpoint{CheckpointRef: c.args.Text("checkpoint_ref"), CheckpointSHA256: c.args.Text("checkpoint_sha256")},
			Head:       c.args.Text("expected_head"), StatusSHA256: c.args.Text("expected_status_sha256"),
		}
	}
	return c.ledger.Reconcile(ctx, c.authority(), q)
}
