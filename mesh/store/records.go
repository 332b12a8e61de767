package store

import (
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"herdr-link/mesh/attest"
	"herdr-link/mesh/disk"
)

// A Record is one file of a store (mesh.md §3.3). What may be absent in a file
// is "", 0 or nil; everything else must be there.
type Record interface {
	place() place
	check(*rules)
}

// A place says where a record is kept.
type place struct {
	folder   string
	id       string
	archived bool // terminal ones go to the folder's archive, and
	terminal bool // this is one
	versions int  // 1 is the first that can be read, this the last
	version  int
}

// The folders of the stores.
const (
	controllers = "controller-leases"
	reviewers   = "reviewer-leases"
	writers     = "writer-leases"
	adopted     = "adopted-pane-leases"
	receipts    = "handoff-receipts"
	runs        = "verification-runs"
	archive     = "archive"
)

// folders are all, with how long a terminal record is kept at least.
var folders = [...]struct {
	name string
	keep time.Duration // 0: there is no archive
}{
	{controllers, 0}, {reviewers, leaseAge}, {writers, leaseAge}, {adopted, leaseAge}, {receipts, receiptAge}, {runs, leaseAge},
}

const (
	leaseAge   = 90 * 24 * time.Hour
	receiptAge = 14 * 24 * time.Hour
)

// The states of records. Which may follow which, mesh.md §3.4 and §3.5 say.
const (
	Active   = "active"
	Released = "released"

	Provisioning  = "provisioning"
	Orphaned      = "orphaned"
	FailedClosed  = "failed_closed"
	Closing       = "closing"
	CloseFailed   = "close_failed"
	Closed        = "closed"
	Releasing     = "releasing"
	ReleaseFailed = "release_failed"

	Reserved  = "reserved"
	Pending   = "pending"
	Completed = "completed"
	Failed    = "failed"

	Running = "running"
)

// A Controller is the authority of one coordinating agent. There is one for each
// controller id; each generation replaces the one before.
type Controller struct {
	Version            int             `json:"version"` // 2; 1 can be read
	LeaseType          string          `json:"leaseType"`
	LeaseID            string          `json:"leaseId"`
	ControllerID       string          `json:"controllerId"`
	Generation         int64           `json:"generation"`
	AuthorityRef       string          `json:"authorityRef"`
	AuthoritySHA256    string          `json:"authoritySha256"`
	PaneID             string          `json:"paneId"`
	AgentName          string          `json:"agentName"`
	AgentKind          string          `json:"agentKind"`
	Cwd                string          `json:"cwd"`
	State              string          `json:"state"`
	AcquiredAt         string          `json:"acquiredAt"`
	RenewedAt          string          `json:"renewedAt"`
	ExpiresAt          string          `json:"expiresAt"`
	ReleasedAt         string          `json:"releasedAt,omitempty"`
	PredecessorLeaseID string          `json:"predecessorLeaseId,omitempty"`
	ControllerProcess  *attest.Process `json:"controllerProcess,omitempty"`
	TerminalID         string          `json:"terminalId,omitempty"`
	FenceSHA256        string          `json:"fenceSha256,omitempty"`
	HerdrSocket        string          `json:"herdrSocket,omitempty"`
	// FenceToken is in files of version 1 alone, for comparison. It is never
	// written or shown.
	FenceToken string `json:"fenceToken,omitempty"`

	raw []byte // the file that it was read from
}

func (r *Controller) place() place {
	return place{folder: controllers, id: r.ControllerID, versions: 2, version: r.Version}
}

func (r *Controller) check(c *rules) {
	c.is(r.LeaseType == "controller", "leaseType")
	c.id(r.LeaseID, "leaseId")
	c.is(IsControllerID(r.ControllerID), "controllerId")
	c.is(r.Generation >= 1, "generation")
	c.texts(r.AuthorityRef, "authorityRef", r.PaneID, "paneId", r.AgentName, "agentName", r.AgentKind, "agentKind", r.Cwd, "cwd")
	c.digest(r.AuthoritySHA256, "authoritySha256")
	c.among(r.State, "state", Active, Released)
	c.times(r.AcquiredAt, "acquiredAt", r.RenewedAt, "renewedAt", r.ExpiresAt, "expiresAt")
	c.is(r.State != Released || r.ReleasedAt != "", "releasedAt")
	c.optional(c.times, r.ReleasedAt, "releasedAt")
	c.optional(c.ids, r.PredecessorLeaseID, "predecessorLeaseId")
	if p := r.ControllerProcess; p != nil {
		c.is(p.PID > 0 && p.BootID != "" && p.StartTicks != "", "controllerProcess")
	}
	if r.Version == 1 {
		c.id(r.FenceToken, "fenceToken")
	} else {
		c.digest(r.FenceSHA256, "fenceSha256")
	}
}

// A Lease is what the leases of all panes have in common.
type Lease struct {
	LeaseID       string `json:"leaseId"`
	ControllerID  string `json:"controllerId"`
	Purpose       string `json:"purpose"`
	PaneID        string `json:"paneId"` // "" until it is known
	AgentName     string `json:"agentName"`
	AgentKind     string `json:"agentKind"`
	State         string `json:"state"`
	CaptureSHA256 string `json:"captureSha256,omitempty"`
	Failure       string `json:"failure,omitempty"`
	TerminalID    string `json:"terminalId,omitempty"`
	HerdrSocket   string `json:"herdrSocket,omitempty"`
}

// Base returns what the record has in common with others.
func (l *Lease) Base() *Lease { return l }

func (l *Lease) check(c *rules) {
	c.id(l.LeaseID, "leaseId")
	c.is(IsControllerID(l.ControllerID), "controllerId")
	c.texts(l.Purpose, "purpose", l.AgentName, "agentName", l.AgentKind, "agentKind")
	// Only a lease that never got so far has no pane.
	c.is(l.PaneID != "" || l.State == Provisioning || l.State == Orphaned || l.State == FailedClosed, "paneId")
	c.optional(c.digests, l.CaptureSHA256, "captureSha256")
}

// A Tab is where the bridge has made a pane for an agent.
type Tab struct {
	ParentPaneID string `json:"parentPaneId"`
	CreatedAt    string `json:"createdAt"`
	TabID        string `json:"tabId,omitempty"` // "" until it is known
	WorkspaceID  string `json:"workspaceId,omitempty"`
	TabLabel     string `json:"tabLabel,omitempty"` // by which it is found again
}

func (t *Tab) check(c *rules) {
	c.texts(t.ParentPaneID, "parentPaneId")
	c.times(t.CreatedAt, "createdAt")
}

// A Checkpoint says how far the work of a lease came.
type Checkpoint struct {
	CheckpointRef    string `json:"checkpointRef,omitempty"`
	CheckpointSHA256 string `json:"checkpointSha256,omitempty"`
}

func (p *Checkpoint) check(c *rules) {
	c.optional(c.digests, p.CheckpointSHA256, "checkpointSha256")
}

// A Leased record is a lease of a pane, of one of the three kinds.
type Leased interface {
	Record
	Base() *Lease
	Type() string         // reviewer, writer or adopted-pane
	Dir() string          // the folder of the agent
	Made() *Tab           // nil: the pane was there before
	Reached() *Checkpoint // nil: a lease of this kind has none
	Ended(at string)      // notes when it became terminal
}

// A Reviewer is a lease of a pane that the bridge made for a reviewing agent.
type Reviewer struct {
	Version int `json:"version"` // 1
	Lease
	Tab
	Cwd      string `json:"cwd"`
	ClosedAt string `json:"closedAt,omitempty"`
}

func (r *Reviewer) place() place {
	return place{reviewers, r.LeaseID, true, r.State == Closed || r.State == FailedClosed, 1, r.Version}
}

func (r *Reviewer) check(c *rules) {
	r.Lease.check(c)
	r.Tab.check(c)
	c.texts(r.Cwd, "cwd")
	c.among(r.State, "state", Provisioning, Active, Closing, CloseFailed, Closed, FailedClosed, Orphaned)
	c.optional(c.times, r.ClosedAt, "closedAt")
}

// Type is reviewer.
func (r *Reviewer) Type() string { return "reviewer" }

// Dir is the agent's folder.
func (r *Reviewer) Dir() string { return r.Cwd }

// Made is the tab of the pane.
func (r *Reviewer) Made() *Tab { return &r.Tab }

// Reached is nil.
func (r *Reviewer) Reached() *Checkpoint { return nil }

// Ended sets ClosedAt.
func (r *Reviewer) Ended(at string) { r.ClosedAt = at }

// A Writer is a lease of a pane that the bridge made for an agent that works in
// a Git worktree of its own, the lane.
type Writer struct {
	Version   int    `json:"version"` // 1
	LeaseType string `json:"leaseType"`
	Lease
	Tab
	TicketRef         string   `json:"ticketRef"`
	AuthorityRef      string   `json:"authorityRef"`
	AuthoritySHA256   string   `json:"authoritySha256"`
	RepositoryRoot    string   `json:"repositoryRoot"`
	GitDir            string   `json:"gitDir"`
	GitCommonDir      string   `json:"gitCommonDir"`
	Worktree          string   `json:"worktree"`
	Branch            string   `json:"branch"`
	BaseCommit        string   `json:"baseCommit"`
	HeadCommit        string   `json:"headCommit"`
	GitStatusSHA256   string   `json:"gitStatusSha256"`
	OwnedScopes       []string `json:"ownedScopes"`
	LockedScopes      []string `json:"lockedScopes"`
	ProtectedBranches []string `json:"protectedBranches"`
	ReleasedAt        string   `json:"releasedAt,omitempty"`
	Checkpoint
}

func (r *Writer) place() place {
	return place{writers, r.LeaseID, true, r.State == Released || r.State == FailedClosed, 1, r.Version}
}

func (r *Writer) check(c *rules) {
	c.is(r.LeaseType == "writer", "leaseType")
	r.Lease.check(c)
	r.Tab.check(c)
	r.Checkpoint.check(c)
	c.texts(r.TicketRef, "ticketRef", r.AuthorityRef, "authorityRef", r.RepositoryRoot, "repositoryRoot", r.GitDir, "gitDir",
		r.GitCommonDir, "gitCommonDir", r.Worktree, "worktree", r.Branch, "branch")
	c.digests(r.AuthoritySHA256, "authoritySha256", r.GitStatusSHA256, "gitStatusSha256")
	c.commits(r.BaseCommit, "baseCommit", r.HeadCommit, "headCommit")
	c.is(len(r.OwnedScopes) > 0, "ownedScopes")
	c.among(r.State, "state", Provisioning, Active, Releasing, ReleaseFailed, Released, FailedClosed, Orphaned)
	c.optional(c.times, r.ReleasedAt, "releasedAt")
}

// Type is writer.
func (r *Writer) Type() string { return "writer" }

// Dir is the worktree.
func (r *Writer) Dir() string { return r.Worktree }

// Made is the tab of the pane.
func (r *Writer) Made() *Tab { return &r.Tab }

// Reached is the checkpoint of the release.
func (r *Writer) Reached() *Checkpoint { return &r.Checkpoint }

// Ended sets ReleasedAt.
func (r *Writer) Ended(at string) { r.ReleasedAt = at }

// An Adopted is a lease of a pane that was there before.
type Adopted struct {
	Version   int    `json:"version"` // 1
	LeaseType string `json:"leaseType"`
	Lease
	AuthorityRef    string `json:"authorityRef"`
	AuthoritySHA256 string `json:"authoritySha256"`
	Cwd             string `json:"cwd"`
	StateChangeSeq  int64  `json:"stateChangeSeq"`
	AdoptedAt       string `json:"adoptedAt"`
	ClosedAt        string `json:"closedAt,omitempty"`
	Checkpoint
}

func (r *Adopted) place() place {
	return place{adopted, r.LeaseID, true, r.State == Closed, 1, r.Version}
}

func (r *Adopted) check(c *rules) {
	c.is(r.LeaseType == "adopted-pane", "leaseType")
	r.Lease.check(c)
	r.Checkpoint.check(c)
	c.texts(r.AuthorityRef, "authorityRef", r.Cwd, "cwd")
	c.digest(r.AuthoritySHA256, "authoritySha256")
	c.is(r.StateChangeSeq >= 0, "stateChangeSeq")
	c.among(r.State, "state", Active, Closing, CloseFailed, Closed)
	c.times(r.AdoptedAt, "adoptedAt")
	c.optional(c.times, r.ClosedAt, "closedAt")
}

// Type is adopted-pane.
func (r *Adopted) Type() string { return "adopted-pane" }

// Dir is the agent's folder.
func (r *Adopted) Dir() string { return r.Cwd }

// Made is nil.
func (r *Adopted) Made() *Tab { return nil }

// Reached is the checkpoint of the closing.
func (r *Adopted) Reached() *Checkpoint { return &r.Checkpoint }

// Ended sets ClosedAt.
func (r *Adopted) Ended(at string) { r.ClosedAt = at }

// A Receipt follows one prompt to a leased agent. It never has a text of the
// prompt or of the answer.
type Receipt struct {
	Version           int    `json:"version"` // 1
	ReceiptID         string `json:"receiptId"`
	ControllerID      string `json:"controllerId"`
	ControllerLeaseID string `json:"controllerLeaseId"`
	Target            string `json:"target"`
	TargetLeaseID     string `json:"targetLeaseId"`
	PaneID            string `json:"paneId"`
	AgentKind         string `json:"agentKind"`
	Cwd               string `json:"cwd"`
	State             string `json:"state"`
	CreatedAt         string `json:"createdAt"`
	UpdatedAt         string `json:"updatedAt"`
	BeforeSeq         int64  `json:"beforeSeq"`
	AfterSeq          int64  `json:"afterSeq,omitempty"`
	SettledSeq        int64  `json:"settledSeq,omitempty"`
	BlockedSeq        int64  `json:"blockedSeq,omitempty"`
	Failure           string `json:"failure,omitempty"`
	TerminalID        string `json:"terminalId,omitempty"`
	HerdrSocket       string `json:"herdrSocket,omitempty"`
}

// TokenPrefix and a receipt's id are its token: what a caller knows it by. It is no
// secret.
const TokenPrefix = "herdr-receipt-v1."

// Token returns the receipt's token.
func (r *Receipt) Token() string { return TokenPrefix + r.ReceiptID }

func (r *Receipt) place() place {
	return place{receipts, r.ReceiptID, true, r.State == Completed || r.State == Failed, 1, r.Version}
}

func (r *Receipt) check(c *rules) {
	c.ids(r.ReceiptID, "receiptId", r.ControllerLeaseID, "controllerLeaseId", r.TargetLeaseID, "targetLeaseId")
	c.is(IsControllerID(r.ControllerID), "controllerId")
	c.texts(r.Target, "target", r.PaneID, "paneId", r.AgentKind, "agentKind", r.Cwd, "cwd")
	c.among(r.State, "state", Reserved, Pending, Completed, Failed)
	c.times(r.CreatedAt, "createdAt", r.UpdatedAt, "updatedAt")
	c.is(r.BeforeSeq >= 0, "beforeSeq")
	c.is(r.State != Pending && r.State != Completed || r.AfterSeq > r.BeforeSeq, "afterSeq")
	c.is(r.State != Completed || r.SettledSeq >= r.AfterSeq, "settledSeq")
	c.is(r.BlockedSeq >= 0, "blockedSeq")
	if r.State == Failed {
		c.among(r.Failure, "failure", "delivery_failed", "identity_changed", "cursor_superseded", "abandoned", "target_gone")
	}
}

// A Run is one verification of a writer's work by this host.
type Run struct {
	Version              int             `json:"version"` // 1
	RunID                string          `json:"runId"`
	ControllerID         string          `json:"controllerId"`
	ControllerGeneration int64           `json:"controllerGeneration"`
	WriterLeaseID        string          `json:"writerLeaseId"`
	TicketRef            string          `json:"ticketRef"`
	Worktree             string          `json:"worktree"`
	Branch               string          `json:"branch"`
	BaseCommit           string          `json:"baseCommit"`
	HeadCommit           string          `json:"headCommit"`
	WorktreeSHA256       string          `json:"worktreeSha256"`
	SelectedGate         string          `json:"selectedGate,omitempty"`
	BootstrapWeb         bool            `json:"bootstrapWeb"`
	BootstrapPythonLocks []string        `json:"bootstrapPythonLocks,omitempty"`
	State                string          `json:"state"`
	StartedAt            string          `json:"startedAt"`
	CompletedAt          string          `json:"completedAt,omitempty"`
	DurationMs           int64           `json:"durationMs,omitempty"`
	ExitCode             *int            `json:"exitCode,omitempty"` // may be null in a file
	Command              []string        `json:"command,omitempty"`
	StdoutSHA256         string          `json:"stdoutSha256,omitempty"`
	StderrSHA256         string          `json:"stderrSha256,omitempty"`
	AfterWorktreeSHA256  string          `json:"afterWorktreeSha256,omitempty"`
	Failure              string          `json:"failure,omitempty"`
	FailureCode          string          `json:"failureCode,omitempty"`
	Owner                *attest.Process `json:"owner,omitempty"`
	HerdrSocket          string          `json:"herdrSocket,omitempty"`
}

func (r *Run) place() place { return place{runs, r.RunID, true, r.State != Running, 1, r.Version} }

func (r *Run) check(c *rules) {
	c.digest(r.RunID, "runId")
	c.is(IsControllerID(r.ControllerID), "controllerId")
	c.is(r.ControllerGeneration >= 1, "controllerGeneration")
	c.id(r.WriterLeaseID, "writerLeaseId")
	c.texts(r.TicketRef, "ticketRef", r.Worktree, "worktree", r.Branch, "branch")
	c.commits(r.BaseCommit, "baseCommit", r.HeadCommit, "headCommit")
	c.digest(r.WorktreeSHA256, "worktreeSha256")
	c.among(r.State, "state", Running, "passed", Failed, "timed_out", "preflight_failed", "invalidated")
	c.times(r.StartedAt, "startedAt")
	c.optional(c.times, r.CompletedAt, "completedAt")
	c.optional(c.digests, r.StdoutSHA256, "stdoutSha256", r.StderrSHA256, "stderrSha256", r.AfterWorktreeSHA256, "afterWorktreeSha256")
	if p := r.Owner; p != nil {
		c.is(p.PID > 0 && p.BootID != "" && p.StartTicks != "", "owner")
	}
}

// longest is more than all commands of a run may take together.
const longest = 24 * time.Hour

// Abandoned reports whether a run that is not over has surely lost its process.
// The older bridge did not note which that was; of its runs only the time tells.
func (r *Run) Abandoned(ctx context.Context, now time.Time) bool {
	if r.State != Running {
		return false
	}
	if r.Owner != nil {
		return r.Owner.Gone(ctx)
	}
	started, err := Time(r.StartedAt)
	return err == nil && now.Sub(started) > longest
}

// Interrupt ends a run whose process is gone.
func (r *Run) Interrupt(now time.Time) {
	r.State, r.CompletedAt = "invalidated", Stamp(now)
	r.FailureCode, r.Failure = "INTERRUPTED", "the process that ran it has ended before it"
}

// rules finds the first field that breaks a rule. Its methods with many
// arguments take values and the fields' names in turn.
type rules struct{ broken string }

func (c *rules) is(ok bool, field string) {
	if !ok && c.broken == "" {
		c.broken = field
	}
}

func (c *rules) each(ok func(string) bool, pairs []string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		c.is(ok(pairs[i]), pairs[i+1])
	}
}

// optional has those checked that are there.
func (c *rules) optional(check func(...string), pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] != "" {
			check(pairs[i], pairs[i+1])
		}
	}
}

func (c *rules) texts(pairs ...string) {
	c.each(func(s string) bool { return s != "" }, pairs)
}

func (c *rules) id(value, field string)     { c.is(disk.IsID(value), field) }
func (c *rules) ids(pairs ...string)        { c.each(disk.IsID, pairs) }
func (c *rules) digest(value, field string) { c.is(IsDigest(value), field) }

func (c *rules) digests(pairs ...string) {
	c.each(IsDigest, pairs)
}

func (c *rules) commits(pairs ...string) {
	c.each(func(s string) bool { return isHex(s, 40, 64) }, pairs)
}

func (c *rules) times(pairs ...string) {
	c.each(func(s string) bool { _, err := Time(s); return err == nil }, pairs)
}

func (c *rules) among(value, field string, values ...string) {
	ok := false
	for _, v := range values {
		ok = ok || v == value
	}
	c.is(ok, field)
}

func isHex(s string, min, max int) bool {
	return len(s) >= min && len(s) <= max && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// IsControllerID reports whether s matches ^[A-Za-z0-9_.-]{1,100}$.
func IsControllerID(s string) bool {
	return s != "" && len(s) <= 100 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == ""
}

// MaxReference is how many characters a reference may have.
const MaxReference = 500

// IsReference reports whether s may be a purpose, or the name of something outside:
// 1 to 500 characters in one line, since people see it on a terminal.
func IsReference(s string) bool {
	n := utf8.RuneCountInString(s)
	return n >= 1 && n <= MaxReference && !strings.ContainsFunc(s, unicode.IsControl)
}

// IsDigest reports whether s is a SHA-256 in hexadecimal digits.
func IsDigest(s string) bool { return isHex(s, 64, 64) }

// Stamp writes a time as records have it: RFC 3339 in UTC with milliseconds.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Time reads a time of a record.
func Time(text string) (time.Time, error) { return time.Parse(time.RFC3339, text) }
