package mesh

import (
	"context"
	"strings"
	"time"

	"herdr-link/mcp"
	"herdr-link/mesh/git"
	"herdr-link/mesh/lane"
	"herdr-link/mesh/store"
)

// workerTools are the rows of writers (mesh.md §2.6).
func workerTools() []tool {
	list := func(name string, min, max int, of mcp.Schema, what string) argument {
		return need(arg(name, mcp.Schema{Type: "array", MinItems: min, MaxItems: max, Items: &of, Description: what}))
	}
	branch := references()
	branch.Description = "that the worktree is on, without refs/heads/"
	protected := references()
	protected.Valid = func(s string) bool { // white space around the name is let go later
		name := strings.TrimSpace(s)
		return name == "" || store.IsReference(name)
	}
	base := commits()
	base.Description = "that the work begins at"
	// What is wrong with a scope has a code of its own.
	scope := mcp.Schema{Type: "string", Description: "a path from the worktree's root, 1 to 200 bytes"}

	return []tool{
		{"herdr_owned_worker_start", "Start a writer", "Start an agent that writes in a linked Git worktree of its own, under a lease. No two of them share a worktree, branch or path. Takes 7 seconds or more.",
			"", credential(need(argPurpose()), need(arg("ticket_ref", references())), need(arg("authority_ref", references())), need(arg("authority_sha256", digests())),
				need(arg("parent_pane_id", panes())), need(arg("worktree", folders())), need(arg("branch", branch)), need(arg("base_commit", base)), argHead(), argGitStatus(),
				list("owned_scopes", 1, 500, scope, "what the writer works on"), list("locked_scopes", 0, 500, scope, "what no writer may work on, as long as this one is there"),
				list("protected_branches", 1, 20, protected, "branches that nobody may work on"), need(arg("name", names())), need(arg("kind", kinds())), argStart()), "", nil, false, workerStart},
		{"herdr_owned_worker_list", "List writers", "List the leases of writers, also of those that have ended.",
			reads, listings(store.Provisioning, store.Active, store.Releasing, store.ReleaseFailed, store.Released, store.FailedClosed, store.Orphaned), "", nil, false, leases[store.Writer]},
		{"herdr_owned_worker_release", "Release a writer", "Read a quiet writer's screen and close its pane, if it and its worktree are as you saw them. The worktree stays as it is." + untrusted,
			"D", closings(append([]argument{argHead(), argGitStatus()}, checkpoint()...)...), "", nil, false, workerRelease},
	}
}

// argHead and argGitStatus are what the caller has seen of a worktree.
func argHead() argument {
	head := commits()
	head.Description = "that the worktree is at"
	return need(arg("expected_head", head))
}

func argGitStatus() argument {
	status := digests()
	status.Description = "of what git status --porcelain=v1 --untracked-files=all prints in the worktree"
	return need(arg("expected_status_sha256", status))
}

func commits() mcp.Schema {
	return syntax(`^([0-9a-fA-F]{40}|[0-9a-fA-F]{64})$`, git.IsCommit, "a whole commit id, 40 or 64 hexadecimal digits")
}

func workerStart(ctx context.Context, c *call) (any, error) {
	r, err := c.lanes.StartWorker(ctx, c.authority(), lane.Worker{
		Purpose: c.args.Text("purpose"), TicketRef: c.args.Text("ticket_ref"), AuthorityRef: c.args.Text("authority_ref"), AuthoritySHA256: c.args.Text("authority_sha256"),
		ParentPaneID: c.args.Text("parent_pane_id"), Worktree: c.args.Text("worktree"),
		Expected: git.Facts{
			Branch: c.args.Text("branch"), Protected: c.args.Texts("protected_branches"),
			Head: c.args.Text("expected_head"), Base: c.args.Text("base_commit"), StatusSHA256: c.args.Text("expected_status_sha256"),
		},
		Owned: c.args.Texts("owned_scopes"), Locked: c.args.Texts("locked_scopes"), Name: c.args.Text("name"), Kind: c.args.Text("kind"),
		Timeout: time.Duration(c.args.Int(argStartTime)) * time.Millisecond,
	})
	return answered("lease", r, err)
}

func workerRelease(ctx context.Context, c *call) (any, error) {
	q, err := c.closing()
	if err != nil {
		return nil, err
	}
	return whole(c.lanes.ReleaseWorker(ctx, c.authority(), lane.Release{
		Close: q, Head: c.args.Text("expected_head"), StatusSHA256: c.args.Text("expected_status_sha256"), Reached: c.reached(),
	}))
}
