package mesh

import (
	"context"
	"slices"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mcp"
	"herdr-link/mesh/lane"
	"herdr-link/mesh/store"
)

// laneTools are the rows of reviewers and adopted panes (mesh.md §2.5 and §2.8).
func laneTools() []tool {
	model := syntax(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}$`, isModel, "1 to 100 of A-Z a-z 0-9 _ . : -, with a letter or digit first")
	model.Description = "of kind claude alone"
	effort := mcp.Schema{Type: "string", Enum: []string{"low", "medium", "high", "xhigh", "max"}, Description: "of kind claude alone"}
	dry := mcp.Schema{Type: "boolean", Default: true, Description: "only say what would be closed"}
	target := syntax(herdrcli.TargetPattern, herdrcli.IsTarget, "an agent's name or a pane id such as w1:p1")
	protected := panes()
	own := panes()
	own.Description = "the controller's pane: it is protected, as the caller's own is in any case"

	return []tool{
		{"herdr_owned_reviewer_start", "Start a reviewer", "Start an agent in a new tab of the parent pane's workspace, under a lease. Nobody's focus moves. Takes 7 seconds or more.",
			"", credential(need(argPurpose()), need(arg("parent_pane_id", panes())), need(arg("cwd", folders())), need(arg("name", names())), need(arg("kind", kinds())),
				arg("model", model), arg("effort", effort), argStart()), "", nil, false, reviewerStart},
		{"herdr_owned_reviewer_list", "List reviewers", "List the leases of reviewers, also of those that have ended.",
			reads, listings(store.Provisioning, store.Active, store.Closing, store.CloseFailed, store.Closed, store.FailedClosed, store.Orphaned), "", nil, false, leases[store.Reviewer]},
		{"herdr_owned_reviewer_close", "Close a reviewer", "Read a quiet reviewer's screen and close its pane, if nothing has happened since you looked. A blocked one is its human's." + untrusted,
			"D", closings(), "", nil, false, reviewerClose},
		{"herdr_owned_reviewer_cleanup", "Close all quiet reviewers", "Close each of your reviewers that is quiet and has no result outstanding, or say which those are." + untrusted,
			"D", credential(arg(argDryRun, dry), arg(argLines, integer(1, 1000, 500))), "", nil, false, reviewerCleanup},

		{"herdr_owned_pane_adopt", "Adopt a pane", "Make a lease of the pane of a quiet agent that is exactly the one you saw. It permits prompts and closing the pane.",
			"", credential(need(argPurpose()), need(arg("authority_ref", references())), need(arg("authority_sha256", digests())), need(arg(argTarget, target)),
				need(arg("expected_pane_id", panes())), need(arg("expected_name", names())), need(arg("expected_kind", kinds())), need(arg("expected_cwd", folders())), need(argCursor()),
				need(arg("controller_pane_id", own)), arg("protected_pane_ids", mcp.Schema{Type: "array", MaxItems: 100, Items: &protected, Description: "panes that must not be adopted"})),
			"", nil, false, paneAdopt},
		{"herdr_owned_pane_list", "List adopted panes", "List the leases of adopted panes, also of those that have ended.",
			reads, listings(store.Active, store.Closing, store.CloseFailed, store.Closed), "", nil, false, leases[store.Adopted]},
		{"herdr_owned_pane_close", "Close an adopted pane", "Read a quiet agent's screen and close its adopted pane, if nothing has happened since you looked." + untrusted,
			"D", closings(checkpoint()...), "", nil, false, paneClose},
	}
}

func isModel(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || r != '_' && r != '.' && r != ':' && r != '-') {
			return false
		}
	}
	return s != "" && len(s) <= 100
}

func reviewerStart(ctx context.Context, c *call) (any, error) {
	r, err := c.lanes.StartReviewer(ctx, c.authority(), lane.Reviewer{
		Purpose: c.args.Text("purpose"), ParentPaneID: c.args.Text("parent_pane_id"), Cwd: c.args.Text("cwd"),
		Name: c.args.Text("name"), Kind: c.args.Text("kind"), Model: c.args.Text("model"), Effort: c.args.Text("effort"),
		Timeout: time.Duration(c.args.Int(argStartTime)) * time.Millisecond,
	})
	return answered("lease", r, err)
}

// answered is an answer with one member.
func answered[T any](name string, value T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return map[string]T{name: value}, nil
}

// closing is what the tool was asked to close.
func (c *call) closing() (lane.Close, error) {
	q := lane.Close{
		LeaseID: c.args.Text("lease_id"), Cursor: int64(c.args.Int(argExpected)), Lines: c.args.Int(argLines),
		Exited: c.args.True("agent_exited"), Abandon: c.args.True("abandon_receipts"),
	}
	if !q.Exited && c.args[argExpected] == nil {
		return q, invalid("argument %s is required, unless agent_exited is true", argExpected)
	}
	return q, nil
}

func reviewerClose(ctx context.Context, c *call) (any, error) {
	q, err := c.closing()
	if err != nil {
		return nil, err
	}
	return whole(c.lanes.CloseReviewer(ctx, c.authority(), q))
}

func paneClose(ctx context.Context, c *call) (any, error) {
	q, err := c.closing()
	if err != nil {
		return nil, err
	}
	return whole(c.lanes.CloseAdopted(ctx, c.authority(), q, c.reached()))
}

// reached is the checkpoint that the caller brings.
func (c *call) reached() store.Checkpoint {
	return store.Checkpoint{CheckpointRef: c.args.Text("checkpoint_ref"), CheckpointSHA256: c.args.Text("checkpoint_sha256")}
}

// whole is an answer that is one already.
func whole[T any](answer T, err error) (any, error) { return answer, err }

func reviewerCleanup(ctx context.Context, c *call) (any, error) {
	dry := c.args.True(argDryRun)
	results, err := c.lanes.CleanReviewers(ctx, c.authority(), c.args.Int(argLines), dry)
	return struct {
		DryRun  bool           `json:"dryRun"`
		Results []lane.Cleaned `json:"results"`
	}{dry, results}, err
}

func paneAdopt(ctx context.Context, c *call) (any, error) {
	r, err := c.lanes.Adopt(ctx, c.authority(), lane.Adoption{
		Purpose: c.args.Text("purpose"), AuthorityRef: c.args.Text("authority_ref"), AuthoritySHA256: c.args.Text("authority_sha256"),
		Target: c.args.Text(argTarget), PaneID: c.args.Text("expected_pane_id"), Name: c.args.Text("expected_name"), Kind: c.args.Text("expected_kind"),
		Cwd: c.args.Text("expected_cwd"), Cursor: int64(c.args.Int(argExpected)),
		Protected: slices.Concat([]string{c.args.Text("controller_pane_id")}, c.args.Texts("protected_pane_ids")),
	})
	return answered("lease", r, err)
}

// leases lists the leases of one kind. It needs no Herdr.
func leases[T any, R interface {
	*T
	store.Leased
}](_ context.Context, c *call) (any, error) {
	l, err := store.List[T, R](c.store, c.args.Int("limit"), func(r R) bool {
		b, id, state := r.Base(), c.args.Text("controller_id"), c.args.Text("state")
		return (id == "" || b.ControllerID == id) && (state == "" || b.State == state)
	})
	if err != nil {
		return nil, err
	}
	return struct {
		Leases    []R             `json:"leases"`
		Truncated bool            `json:"truncated"`
		Invalid   []store.Invalid `json:"invalidRecords"`
	}{append([]R{}, l.Records...), l.Truncated, append([]store.Invalid{}, l.Invalid...)}, nil
}
