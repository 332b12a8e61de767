package mesh

import (
	"context"
	"time"

	"herdr-link/mcp"
	"herdr-link/mesh/verify"
)

// verifyTools are the rows of host verification (mesh.md §2.7).
func verifyTools() []tool {
	lease := arg("lease_id", uuids())
	expected := []argument{need(lease), need(arg("base_commit", commits())), need(arg("expected_head", commits())), need(arg("expected_status_sha256", digests()))}
	web := mcp.Schema{Type: "boolean", Default: false, Description: "fetch the packages of web by its committed lock, if the gate needs them"}
	path := mcp.Schema{Type: "string", MinLength: 1, MaxLength: 256}
	locks := mcp.Schema{Type: "array", MaxItems: 8, Items: &path, Description: "requirements.lock files whose packages are fetched before the gate"}
	id := argController()
	id.Description = "only its runs"
	of := lease
	of.Description = "only its runs"

	return []tool{
		{"herdr_owned_worker_verification_snapshot", "Snapshot a worker's work", "Digest the worktree of a quiet leased worker: what verify is to run on.",
			reads, append([]argument{need(argController())}, expected...), "", nil, false, verifySnapshot},
		{"herdr_owned_worker_verify", "Verify a worker's work", "Run the repository's gate on a worker's worktree in a sandbox. After 45 s the answer is state running: see the list. A failed gate is no error." + untrusted,
			"O", credential(append(expected, need(arg("expected_worktree_sha256", digests())), arg("bootstrap_web", web), arg("bootstrap_python_locks", locks),
				arg("timeout_seconds", integer(60, 7200, 1800)))...), "", nil, false, verifyRun},
		{"herdr_owned_worker_verification_list", "List verifications", "List verifications, running ones first; the last 8 that ended here with the end of their output." + untrusted,
			reads, []argument{id, of, argLimit()}, "", nil, false, verifyList},
	}
}

// expected is what the caller takes the worktree to be.
func (c *call) expected() verify.Expected {
	return verify.Expected{
		LeaseID: c.args.Text("lease_id"), Base: c.args.Text("base_commit"), Head: c.args.Text("expected_head"), StatusSHA256: c.args.Text("expected_status_sha256"),
	}
}

func verifySnapshot(ctx context.Context, c *call) (any, error) {
	return c.verifier.Snapshot(ctx, c.args.Text("controller_id"), c.expected())
}

func verifyRun(ctx context.Context, c *call) (any, error) {
	return c.verifier.Verify(ctx, c.args.Text("controller_id"), c.authority(), verify.Request{
		Expected: c.expected(), WorktreeSHA256: c.args.Text("expected_worktree_sha256"),
		Web: c.args.True("bootstrap_web"), Locks: c.args.Texts("bootstrap_python_locks"),
		Timeout: time.Duration(c.args.Int("timeout_seconds")) * time.Second,
	}, c.session.Behind)
}

func verifyList(ctx context.Context, c *call) (any, error) {
	return c.verifier.List(ctx, c.args.Text("controller_id"), c.args.Text("lease_id"), c.args.Int("limit"))
}
