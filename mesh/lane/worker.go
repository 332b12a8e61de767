package lane

import (
	"context"
	"fmt"
	"strings"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/git"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
)

// A Worker is what a writing agent is started with.
type Worker struct {
	Purpose         string
	TicketRef       string
	AuthorityRef    string
	AuthoritySHA256 string
	ParentPaneID    string    // in whose workspace the agent gets its tab
	Worktree        string    // absolute
	Expected        git.Facts // what the caller has seen of the worktree
	Owned, Locked   []string  // paths from its root: those it works on, and those nobody may
	Name, Kind      string
	Timeout         time.Duration
}

// StartWorker starts an agent in a tab of its own that writes in a linked worktree,
// which is its lane: no other writer that is retained has that worktree, branch or
// any of its paths (I9). Git is asked, and never told anything. Codes: as
// StartReviewer, and GIT_*, WORKTREE_*, DETACHED_HEAD, BRANCH_*, HEAD_MISMATCH,
// BASE_NOT_ANCESTOR, STATUS_DIGEST_MISMATCH, SCOPE_*, LANE_RETAINED.
func (l *Lanes) StartWorker(ctx context.Context, by controller.Authority, q Worker) (*store.Writer, error) {
	if err := spelt("owned_scopes", q.Owned); err != nil {
		return nil, err
	}
	if err := spelt("locked_scopes", q.Locked); err != nil {
		return nil, err
	}
	f := q.Expected
	r := &store.Writer{
		Version: 1, LeaseType: "writer",
		Lease:     store.Lease{LeaseID: disk.NewID(), Purpose: q.Purpose, AgentName: q.Name, AgentKind: q.Kind},
		Tab:       store.Tab{ParentPaneID: q.ParentPaneID},
		TicketRef: q.TicketRef, AuthorityRef: q.AuthorityRef, AuthoritySHA256: q.AuthoritySHA256, Worktree: q.Worktree,
		Branch: f.Branch, BaseCommit: strings.ToLower(f.Base), HeadCommit: strings.ToLower(f.Head), GitStatusSHA256: strings.ToLower(f.StatusSHA256),
		OwnedScopes: q.Owned, LockedScopes: q.Locked, ProtectedBranches: f.Protected,
	}
	if err := store.Fits(r); err != nil { // before anything is asked; the rest of it when that is known
		return nil, err
	}
	who, err := l.caller(ctx, by)
	if err != nil {
		return nil, err
	}
	tree, err := l.git.Open(ctx, q.Worktree)
	if err != nil {
		return nil, err
	}
	if err := l.free(tree); err != nil {
		return nil, err
	}
	if err := tree.Check(ctx, q.Expected); err != nil {
		return nil, err
	}
	if r.OwnedScopes, r.LockedScopes, err = git.Scopes(tree.Root, q.Owned, q.Locked, tree.IgnoreCase); err != nil {
		return nil, err
	}
	r.RepositoryRoot, r.GitDir, r.GitCommonDir, r.Worktree = tree.RepositoryRoot, tree.GitDir, tree.CommonDir, tree.Root
	s := &start{Lanes: l, caller: who, r: r, timeout: q.Timeout, admit: func(x *store.Section, retained []store.Leased) error {
		if err := tree.CheckHead(x.Context(), f); err != nil { // it has been a while
			return err
		}
		for _, o := range retained {
			if o, ok := o.(*store.Writer); ok {
				if err := beside(r, o, tree.IgnoreCase); err != nil {
					return err
				}
			}
		}
		return l.unoccupied(x.Context(), tree.Root)
	}}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// spelt has each scope look like one, before anything is asked.
func spelt(argument string, scopes []string) error {
	for i, s := range scopes {
		if _, err := git.Scope(s); err != nil {
			f := fault.Herdr(err)
			f.Message = fmt.Sprintf("argument %s[%d]: %s", argument, i, f.Message)
			return f
		}
	}
	return nil
}

// free fails with LANE_RETAINED if a writer that is retained has the worktree, as far
// as that can be seen without the lock: its gate may be running there, and then no
// git is to look at what it writes.
func (l *Lanes) free(tree *git.Tree) error {
	lanes, err := store.Standing[store.Writer](l.store)
	if err != nil {
		return err
	}
	ours := git.Lane{CommonDir: tree.CommonDir, Worktree: tree.Root}
	for _, o := range lanes.Records {
		// Without a repository only the worktree counts: the rest is for the lock.
		if err := ours.Beside(git.Lane{Worktree: disk.Resolved(o.Worktree)}, tree.IgnoreCase); err != nil {
			return fault.Herdr(err).With("leaseId", o.LeaseID)
		}
	}
	return nil
}

// beside fails with LANE_RETAINED, SCOPE_OVERLAP or SCOPE_LOCKED if a new lane
// cannot be beside one that is retained (mesh.md §4.7, 8).
func beside(r, o *store.Writer, ignoreCase bool) error {
	theirs := git.Lane{CommonDir: disk.Resolved(o.GitCommonDir), Worktree: disk.Resolved(o.Worktree), Branch: o.Branch}
	// A worktree that was moved since has another path, and the same Git folder.
	if disk.Resolved(o.GitDir) == r.GitDir {
		theirs.Worktree = r.Worktree
	}
	if strings.EqualFold(theirs.CommonDir, r.GitCommonDir) {
		var err error
		if theirs.Owned, err = stored(o, o.OwnedScopes); err != nil {
			return err
		}
		if theirs.Locked, err = stored(o, o.LockedScopes); err != nil {
			return err
		}
	}
	ours := git.Lane{CommonDir: r.GitCommonDir, Worktree: r.Worktree, Branch: r.Branch, Owned: r.OwnedScopes, Locked: r.LockedScopes}
	if err := ours.Beside(theirs, ignoreCase); err != nil {
		return fault.Herdr(err).With("leaseId", o.LeaseID)
	}
	return nil
}

// stored reads the scopes of a record, which the older bridge may have written.
// One that is no path may be any, and is not passed over.
func stored(o *store.Writer, scopes []string) (clean []string, err error) {
	for _, s := range scopes {
		c, err := git.Scope(s)
		if err != nil {
			return nil, fault.New("STATE_CORRUPT", "a retained writer's record has a scope that is none").With("leaseId", o.LeaseID)
		}
		clean = append(clean, c)
	}
	return clean, nil
}

// unoccupied fails with WORKTREE_OCCUPIED if an agent is in the worktree, or runs
// something there. It is asked when the lanes have been compared: the agent of a
// retained writer is to be found by its lease.
func (l *Lanes) unoccupied(ctx context.Context, root string) error {
	agents, err := l.leases.Agents(ctx)
	if err != nil {
		return err
	}
	for _, a := range agents {
		if git.Below(root, a.Cwd) || git.Below(root, a.ForegroundCwd) {
			return fault.New("WORKTREE_OCCUPIED", "an agent is in the worktree already").With("paneId", a.PaneID).With("agentName", a.Name)
		}
	}
	return nil
}

// A Release is what a writer is released with: what its worktree has come to, as
// the caller has seen it, and where that is written down.
type Release struct {
	Close
	Head, StatusSHA256 string
	Reached            store.Checkpoint
}

// ReleaseWorker closes the pane of a writer that is quiet, or has exited, and ends
// its lane. The worktree is as it was. Codes: as CloseReviewer, and GIT_*,
// WORKTREE_*, DETACHED_HEAD, BRANCH_*, HEAD_MISMATCH, BASE_NOT_ANCESTOR,
// STATUS_DIGEST_MISMATCH.
func (l *Lanes) ReleaseWorker(ctx context.Context, by controller.Authority, q Release) (*Closed, error) {
	who, err := l.caller(ctx, by)
	if err != nil {
		return nil, err
	}
	var tree *git.Tree
	var facts git.Facts
	c := &closing{Lanes: l, caller: who, Close: q.Close, kind: "writer"}
	c.before = func(ctx context.Context, r store.Leased, a *herdrcli.Agent) error {
		w := r.(*store.Writer)
		facts = git.Facts{Branch: w.Branch, Protected: w.ProtectedBranches, Head: q.Head, Base: w.BaseCommit, StatusSHA256: q.StatusSHA256}
		// What is refused under the lock in any case, need not wait for Git.
		for _, err := range []error{lease.In(w.HerdrSocket, who.at.Socket), closable(r, l.store.Now()), c.still(r, a)} {
			if fault.Code(err) == "LEASE_IDENTITY_CHANGED" { // an agent goes with the folder that it is in
				if _, moved := l.git.Reopen(ctx, w.Worktree, w.GitDir, w.GitCommonDir); fault.Code(moved) == "WORKTREE_MOVED" {
					return moved
				}
			}
			if err != nil {
				return err
			}
		}
		if err := l.leases.VerifyingIn(ctx, w.Worktree); err != nil {
			return err
		}
		var err error
		tree, err = l.lane(ctx, w, facts)
		return err
	}
	c.again = func(ctx context.Context, _ store.Leased) error { return tree.CheckHead(ctx, facts) }
	c.note = func(r store.Leased) {
		w := r.(*store.Writer)
		w.HeadCommit, w.GitStatusSHA256, w.Checkpoint = strings.ToLower(q.Head), strings.ToLower(q.StatusSHA256), q.Reached
	}
	return c.run(ctx)
}

// still fails unless the leased agent is quiet at the cursor that the caller
// knows: then what Git says now is what the agent has left.
func (c *closing) still(r store.Leased, a *herdrcli.Agent) error {
	if c.Exited {
		return nil
	}
	var agents []herdrcli.Agent
	if a != nil {
		agents = append(agents, *a)
	}
	a, err := lease.Find(r, agents)
	if err != nil {
		return err
	}
	if err := quiet(a); err != nil {
		return err
	}
	return cursor(a, c.Cursor)
}

// lane opens a writer's worktree, if all facts hold (mesh.md §4.7, 1 to 5).
func (l *Lanes) lane(ctx context.Context, w *store.Writer, f git.Facts) (*git.Tree, error) {
	tree, err := l.git.Reopen(ctx, w.Worktree, w.GitDir, w.GitCommonDir)
	if err != nil {
		return nil, err
	}
	return tree, tree.Check(ctx, f)
}
