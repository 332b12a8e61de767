package mesh

import (
	"context"
	"runtime"
	"slices"

	"herdr-link/mcp"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/lock"
	"herdr-link/mesh/store"
)

// capabilities are the parts of the older bridge's protocol that are built, on
// every machine.
var capabilities = []string{
	"batch-handoff-v1",
	"controller-cli-v1",
	"controller-fencing-v1",
	"handoff-receipts-v1",
	"lease-reconciliation-v1",
	"owned-pane-cleanup-v1",
	"owned-reviewer-tabs-v1",
	"owned-worker-lanes-v1",
}

// verifying are those that need a sandbox.
var verifying = []string{"owned-worker-host-verification-v1", "python-requirements-bootstrap-v1"}

// controllerTools are the rows of status and controllers (mesh.md §2.1).
func controllerTools() []tool {
	request := []argument{need(argController()), need(arg("authority_ref", references())), need(arg("authority_sha256", digests())), argTTL()}
	confirm := mcp.Schema{Type: "boolean", Default: false, Description: "the lease's Herdr session, which does not answer, is dead"}

	return []tool{
		{"herdr_bridge_status", "Show the bridge", "Show version, capabilities and the state of the store lock. It reads no record.",
			reads, nil, "", nil, false, bridgeStatus},
		{"herdr_controller_acquire", "Acquire a controller", "Begin an authority of this pane's agent. Only the answer has the fence token: keep it, and show it to nobody.",
			"", request, "", nil, false, grants(func(c *controller.Controllers, ctx context.Context, q controller.Request, _ *call) (*store.Controller, error) {
				return c.Acquire(ctx, q)
			})},
		{"herdr_controller_resume", "Resume a controller", "Get a new token for the authority that this pane's agent has, even if it has expired. The old token ends.",
			"", request, "", nil, false, grants(func(c *controller.Controllers, ctx context.Context, q controller.Request, _ *call) (*store.Controller, error) {
				return c.Resume(ctx, q)
			})},
		{"herdr_controller_takeover", "Take over a controller", "Take over an authority that has expired and whose agent is not at work.",
			"D", append(request[:len(request):len(request)], need(arg("expected_predecessor_lease_id", uuids())), arg("confirm_dead_session", confirm)), "", nil, false,
			grants(func(c *controller.Controllers, ctx context.Context, q controller.Request, call *call) (*store.Controller, error) {
				return c.Takeover(ctx, q, call.args.Text("expected_predecessor_lease_id"), call.args.True("confirm_dead_session"))
			})},
		{"herdr_controller_renew", "Renew a controller", "Let an authority last from now on. Its lease id and token stay.",
			"I", credential(argTTL()), "", nil, false, func(ctx context.Context, c *call) (any, error) {
				return leased(c.controllers.Renew(ctx, c.credential(), c.ttl()))
			}},
		{"herdr_controller_release", "Release a controller", "End an authority, with a checkpoint for the next one. Its leases and receipts stay.",
			"D", credential(checkpoint()...), "", nil, false, func(ctx context.Context, c *call) (any, error) {
				return leased(c.controllers.Release(ctx, c.credential(), c.args.Text("checkpoint_ref"), c.args.Text("checkpoint_sha256")))
			}},
		{"herdr_controller_list", "List controllers", "List all controllers and whether each has expired, without tokens.",
			reads, nil, "", nil, false, controllerList},
	}
}

// grants is a tool that makes an authority.
func grants(do func(*controller.Controllers, context.Context, controller.Request, *call) (*store.Controller, error)) runner {
	return func(ctx context.Context, c *call) (any, error) {
		return leased(do(c.controllers, ctx, controller.Request{
			ControllerID: c.args.Text("controller_id"), AuthorityRef: c.args.Text("authority_ref"), AuthoritySHA256: c.args.Text("authority_sha256"), TTL: c.ttl(),
		}, c))
	}
}

// leased is the answer with a controller's lease.
func leased(r *store.Controller, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return map[string]*store.Controller{"lease": r}, nil
}

func controllerList(_ context.Context, c *call) (any, error) {
	list, invalid, err := c.controllers.List()
	if err != nil {
		return nil, err
	}
	return struct {
		Leases  []controller.Listed `json:"leases"`
		Invalid []store.Invalid     `json:"invalidRecords"`
	}{list, append([]store.Invalid{}, invalid...)}, nil
}

// bridgeStatus tells what there is, without a look at any record. The older
// bridge has five locks; here each of them is the one.
func bridgeStatus(ctx context.Context, c *call) (any, error) {
	type platform struct {
		OS                 string `json:"os"`
		HostVerification   bool   `json:"hostVerification"`
		ProcessAttestation bool   `json:"processAttestation"`
	}
	type locks struct {
		Reviewer       lock.Status `json:"reviewer"`
		Writer         lock.Status `json:"writer"`
		AdoptedPane    lock.Status `json:"adoptedPane"`
		Controller     lock.Status `json:"controller"`
		HandoffReceipt lock.Status `json:"handoffReceipt"`
	}
	s, able, verifies := c.store.Status(), capabilities, c.verifier.Available(ctx)
	if verifies {
		able = slices.Concat(able, verifying)
	}
	return struct {
		Name         string   `json:"name"`
		Version      string   `json:"version"`
		Protocol     int      `json:"protocol"`
		Profile      string   `json:"profile"`
		Capabilities []string `json:"capabilities"`
		Locks        locks    `json:"reservationLocks"`
		Platform     platform `json:"platform"`
	}{"herdr-link", c.version, 2, "safe-orchestration", able, locks{s, s, s, s, s}, platform{runtime.GOOS, verifies, true}}, nil
}
