package mesh

import (
	"time"

	"herdr-link/mcp"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/store"
)

// What the arguments of the tools with records look like (mesh.md §2).

// references are opaque names of something outside, such as a ticket.
func references() mcp.Schema { return mcp.Schema{Type: "string", MinLength: 1, MaxLength: 500} }

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
