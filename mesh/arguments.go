package mesh

import (
	"path/filepath"
	"strings"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mcp"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/store"
)

// What the arguments of the tools with records look like (mesh.md §2).

// references are opaque names of something outside, such as a ticket.
func references() mcp.Schema {
	return mcp.Schema{Type: "string", MinLength: 1, MaxLength: store.MaxReference, Rule: "text without control characters", Valid: store.IsReference}
}

func uuids() mcp.Schema {
	return syntax(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`, disk.IsID, "a UUID")
}

func digests() mcp.Schema {
	return syntax(`^[0-9a-fA-F]{64}$`, store.IsDigest, "64 hexadecimal digits")
}

func argController() argument {
	return arg("controller_id", syntax(`^[A-Za-z0-9_.-]{1,100}$`, store.IsControllerID, "1 to 100 of A-Z a-z 0-9 _ . -"))
}

func argWait() argument { return arg(argTimeout, integer(1, 600000, 45000)) }

func argScreen() argument { return arg(argLines, integer(1, 1000, 200)) }

func argLease() argument { return arg("lease_id", uuids()) }

func argPurpose() argument { return arg("purpose", references()) }

// argCursor is the agent's cursor as the caller has seen it.
func argCursor() argument {
	return arg(argExpected, mcp.Schema{Type: "integer", Min: new(float64), Description: "the agent's state_change_seq when it was looked at last"})
}

func folders() mcp.Schema {
	return mcp.Schema{Type: "string", MinLength: 1, MaxLength: 4096, Rule: "an absolute path", Valid: func(s string) bool {
		return filepath.IsAbs(s) && isLine(s) && !strings.Contains(s, "\t")
	}}
}

func panes() mcp.Schema {
	return syntax(herdrcli.PanePattern, herdrcli.IsPane, "a pane id such as w1:p1")
}

func names() mcp.Schema {
	return syntax(herdrcli.NamePattern, herdrcli.IsName, "a name of a-z 0-9 _ -, with a letter first and at most 32 characters")
}

func kinds() mcp.Schema {
	return mcp.Schema{Type: "string", Enum: strings.Fields(herdrcli.Kinds)}
}

// argStart is how long an agent may take to start.
func argStart() argument { return arg(argStartTime, integer(5000, 300000, 30000)) }

// closings are the arguments of a tool that closes the pane of a lease, with
// those that the kind of lease wants.
func closings(more ...argument) []argument {
	flag := func(name, what string) argument {
		return arg(name, mcp.Schema{Type: "boolean", Default: false, Description: what})
	}
	cursor := argCursor()
	cursor.Description += "; required unless agent_exited is true"
	all := append([]argument{need(argLease()), cursor}, more...)
	return credential(append(all, arg(argLines, integer(1, 1000, 500)),
		flag("agent_exited", "the agent has left its pane to a bare shell"), flag("abandon_receipts", "results that are outstanding are not wanted any more"))...)
}

// checkpoint are the arguments that say how far the work of a lease came.
func checkpoint() []argument {
	return []argument{need(arg("checkpoint_ref", references())), need(arg("checkpoint_sha256", digests()))}
}

// listings are the arguments of a tool that lists leases, which may be in those
// states.
func listings(states ...string) []argument {
	return []argument{argController(), arg("state", mcp.Schema{Type: "string", Enum: states}), argLimit()}
}

func argTTL() argument { return arg("ttl_seconds", integer(60, 1800, 900)) }

// credential are the arguments of a tool that needs an authority: what proves it,
// and more.
func credential(more ...argument) []argument {
	return append([]argument{
		need(argController()), need(arg("controller_lease_id", uuids())), need(arg("controller_fence_token", uuids())),
	}, more...)
}

// credential is what the caller proves its authority with.
func (c *call) credential() controller.Credential {
	return controller.Credential{
		ControllerID: c.args.Text("controller_id"), LeaseID: c.args.Text("controller_lease_id"), Fence: c.args.Text("controller_fence_token"),
	}
}

func (c *call) authority() controller.Authority { return c.controllers.By(c.credential()) }

func (c *call) ttl() time.Duration { return time.Duration(c.args.Int("ttl_seconds")) * time.Second }
