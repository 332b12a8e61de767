package lane

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"herdr-link/mesh/controller"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
)

// A Reviewer is what a reviewing agent is started with.
type Reviewer struct {
	Purpose       string
	ParentPaneID  string // in whose workspace the agent gets its tab
	Cwd           string // absolute
	Name, Kind    string
	Model, Effort string // of a Claude; "": its own choice
	Timeout       time.Duration
}

// StartReviewer starts an agent in a tab of its own. Codes: those of an Authority,
// CALLER_NOT_MANAGED, INVALID_ARGUMENT, PANE_NOT_FOUND, WORKSPACE_NOT_FOUND,
// LEASE_NAME_RETAINED, LEASE_WRONG_STATE, AGENT_NAME_TAKEN, AGENT_PANE_BUSY,
// AGENT_START_FAILED, LEASE_IDENTITY_CHANGED.
func (l *Lanes) StartReviewer(ctx context.Context, by controller.Authority, q Reviewer) (*store.Reviewer, error) {
	dir, err := folder(q.Cwd)
	if err != nil {
		return nil, err
	}
	switch {
	case q.Kind != "claude" && q.Model != "":
		return nil, fault.New("INVALID_ARGUMENT", "argument model is for the kind claude alone")
	case q.Kind != "claude" && q.Effort != "":
		return nil, fault.New("INVALID_ARGUMENT", "argument effort is for the kind claude alone")
	}
	who, err := l.caller(ctx, by)
	if err != nil {
		return nil, err
	}
	r := &store.Reviewer{
		Version: 1,
		Lease:   store.Lease{LeaseID: disk.NewID(), Purpose: q.Purpose, AgentName: q.Name, AgentKind: q.Kind},
		Tab:     store.Tab{ParentPaneID: q.ParentPaneID},
		Cwd:     dir,
	}
	s := &start{Lanes: l, caller: who, r: r, timeout: q.Timeout}
	if q.Model != "" {
		s.args = append(s.args, "--model", q.Model)
	}
	if q.Effort != "" {
		s.args = append(s.args, "--effort", q.Effort)
	}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// folder resolves the links of an agent's folder, which must be there.
func folder(dir string) (string, error) {
	resolved, err := filepath.EvalSymlinks(dir)
	if err == nil && filepath.IsAbs(dir) {
		if info, err := os.Stat(resolved); err == nil && info.IsDir() {
			return resolved, nil
		}
	}
	return "", fault.New("INVALID_ARGUMENT", "argument cwd must be the absolute path of a folder that is there")
}

// CloseReviewer closes the pane of a reviewer that is quiet, or has exited. Codes:
// those of an Authority, CALLER_NOT_MANAGED, LEASE_*, RECEIPT_OUTSTANDING,
// AGENT_NOT_FOUND, AGENT_BLOCKED, AGENT_NOT_SETTLED, TARGET_*, CURSOR_MISMATCH,
// CURSOR_MOVED, CLOSE_NEEDS_CONFIRMATION.
func (l *Lanes) CloseReviewer(ctx context.Context, by controller.Authority, q Close) (*Closed, error) {
	who, err := l.caller(ctx, by)
	if err != nil {
		return nil, err
	}
	return (&closing{Lanes: l, caller: who, Close: q, kind: "reviewer"}).run(ctx)
}

// A Cleaned lease is one that a cleanup has looked at.
type Cleaned struct {
	LeaseID string  `json:"leaseId"`
	Action  string  `json:"action"`           // preserved, would_close or closed
	Status  string  `json:"status,omitempty"` // of the agent, if there is one
	Error   string  `json:"error,omitempty"`  // the code of why it was preserved, and that in words
	Message string  `json:"message,omitempty"`
	Result  *Closed `json:"result,omitempty"`
}

// cleaning is how long a cleanup begins to close panes. The rest is for the next.
const cleaning = 40 * time.Second

// CleanReviewers closes the panes of all active reviewers of the controller that
// are quiet now and have nothing outstanding. A dry run says which those are.
// Codes: those of an Authority, CALLER_NOT_MANAGED.
func (l *Lanes) CleanReviewers(ctx context.Context, by controller.Authority, lines int, dry bool) ([]Cleaned, error) {
	who, err := l.caller(ctx, by)
	if err != nil {
		return nil, err
	}
	results := []Cleaned{} // [], not null
	var active []*closing
	err = l.section(ctx, who, func(x *store.Section, me *store.Controller) error {
		all, err := store.Retained[store.Reviewer](x)
		if err != nil {
			return err
		}
		for _, r := range all {
			if r.State != store.Active || lease.Owned(r, me) != nil {
				continue
			}
			c := &closing{Lanes: l, caller: who, Close: Close{LeaseID: r.LeaseID, Lines: lines}, kind: "reviewer", latest: true}
			active = append(active, c)
			if dry {
				results = append(results, c.cleaned("would_close", nil, c.would(x)))
			}
		}
		return nil
	})
	if err != nil || dry {
		return results, err
	}
	end := time.Now().Add(cleaning)
	for _, c := range active {
		var closed *Closed
		err := error(fault.New("HERDR_TIMEOUT", "the cleanup has taken too long"))
		if time.Now().Before(end) {
			closed, err = c.run(ctx)
		}
		results = append(results, c.cleaned("closed", closed, err))
	}
	return results, nil
}

func (c *closing) cleaned(action string, closed *Closed, err error) Cleaned {
	if err != nil {
		f := fault.Herdr(err)
		return Cleaned{c.LeaseID, "preserved", c.status, f.Code, f.Message, nil}
	}
	return Cleaned{c.LeaseID, action, c.status, "", "", closed}
}

// would fails as the closing would now, as far as that can be seen.
func (c *closing) would(x *store.Section) error {
	r, _, err := c.admit(x)
	if err != nil {
		return err
	}
	a, err := c.find(x.Context(), r)
	if a != nil {
		c.status = a.Status
	}
	if err != nil {
		return err
	}
	return quiet(a)
}
