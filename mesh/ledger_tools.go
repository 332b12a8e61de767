package mesh

import (
	"context"

	"herdr-link/mesh/ledger"
	"herdr-link/mesh/store"
)

// ledgerTools are the rows of what tells of all leases (mesh.md §2.8).
func ledgerTools() []tool {
	return []tool{
		{"herdr_lease_inventory", "List agents and leases", "Set all agents and the leases that have not ended side by side: which agent is leased, which lease has lost its agent.",
			reads, []argument{argController()}, "", nil, false, func(ctx context.Context, c *call) (any, error) {
				return c.inventory(ctx, c.args.Text("controller_id"))
			}},
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
