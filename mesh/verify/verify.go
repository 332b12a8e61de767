// Package verify has this host check a writer's work: the repository's own plan
// names a gate, and the gate runs in a sandbox without a network, on a worktree
// that is the same before and after (mesh.md §4.10).
//
// It says that a gate passed on exactly those bytes. Whether that is enough for
// anything is for others to say.
package verify

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/git"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/sandbox"
	"herdr-link/mesh/store"
)

// answerTime is how long a call waits for the end of its run: hosts give up at 60 s.
const answerTime = 45 * time.Second

// again is how long a run waits before it tries again to write down its end.
const again = time.Second

// Options are what a Verifier needs to know.
type Options struct {
	Getenv      func(string) string
	Environ     []string // the same, as os.Environ gives it
	Store       *store.Store
	Controllers *controller.Controllers
	Leases      *lease.Leases
	Git         *git.Git
	Log         *slog.Logger // a record a command; never its arguments or output
}

// A Verifier does the operations. Its methods may be used by many goroutines.
// Errors are faults.
type Verifier struct {
	getenv      func(string) string
	environ     []string
	store       *store.Store
	controllers *controller.Controllers
	leases      *lease.Leases
	log         *slog.Logger
	git         *git.Git
	sandbox     sandbox.Sandbox
	answerTime  time.Duration
	again       time.Duration

	mu    sync.Mutex
	ended []tails // of the runs that ended here last, the newest last
}

// New returns the operations. Nothing is looked at or tried yet.
func New(o Options) *Verifier {
	return &Verifier{
		getenv: o.Getenv, environ: o.Environ, store: o.Store, controllers: o.Controllers, leases: o.Leases, git: o.Git, log: o.Log,
		answerTime: answerTime, again: again,
	}
}

// probeTime is how long a look whether this host can verify may take.
const probeTime = 2 * time.Second

// Available reports whether this host can verify: it is Linux, and bubblewrap
// works. That is tried by the first who asks, in some ms, and remembered.
func (v *Verifier) Available(ctx context.Context) bool { return v.Unavailable(ctx) == nil }

// Unavailable says in plain words why this host cannot verify: VERIFY_UNAVAILABLE,
// or nil if it can.
func (v *Verifier) Unavailable(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, probeTime)
	defer stop()
	err := v.sandbox.Find(ctx)
	if err != nil && ctx.Err() != nil {
		return fault.New("VERIFY_UNAVAILABLE", "bubblewrap did not make a sandbox within %v", probeTime)
	}
	return err
}

// Expected is what the caller takes a writer's worktree to be.
type Expected struct {
	LeaseID      string
	Base, Head   string // commits
	StatusSHA256 string
}

// A Snapshot is what a writer's worktree is, while its agent is quiet.
type Snapshot struct {
	ControllerID    string `json:"controllerId"`
	WriterLeaseID   string `json:"writerLeaseId"`
	TicketRef       string `json:"ticketRef"`
	Branch          string `json:"branch"`
	BaseCommit      string `json:"baseCommit"`
	HeadCommit      string `json:"headCommit"`
	GitStatusSHA256 string `json:"gitStatusSha256"`
	WorktreeSHA256  string `json:"worktreeSha256"`

	cursor int64
	tree   *git.Tree
	pin    *git.Pin
}

// Snapshot looks at the worktree of a lease of the controller. It needs no
// authority. Codes: LEASE_*, AGENT_NOT_FOUND, AGENT_NOT_SETTLED, VERIFY_RUNNING, those
// of Git's facts, DIGEST_TOO_LARGE.
func (v *Verifier) Snapshot(ctx context.Context, controllerID string, e Expected) (*Snapshot, error) {
	socket, err := v.controllers.Session(ctx)
	if err != nil {
		return nil, err
	}
	w, a, err := v.agent(ctx, socket, controllerID, e)
	if err != nil {
		return nil, err
	}
	if err := v.leases.VerifyingIn(ctx, w.Worktree); err != nil {
		return nil, err
	}
	return v.read(ctx, w, a, e)
}

// read has Git look at the worktree.
func (v *Verifier) read(ctx context.Context, w *store.Writer, a *herdrcli.Agent, e Expected) (s *Snapshot, err error) {
	s = &Snapshot{
		ControllerID: w.ControllerID, WriterLeaseID: w.LeaseID, TicketRef: w.TicketRef, Branch: w.Branch,
		BaseCommit: w.BaseCommit, HeadCommit: strings.ToLower(e.Head), GitStatusSHA256: strings.ToLower(e.StatusSHA256), cursor: a.Cursor,
	}
	if s.tree, err = v.git.Open(ctx, w.Worktree); err != nil {
		return nil, err
	}
	if err := s.tree.Of(w.GitDir, w.GitCommonDir); err != nil {
		return nil, err
	}
	facts := git.Facts{Branch: w.Branch, Protected: w.ProtectedBranches, Head: e.Head, Base: w.BaseCommit, StatusSHA256: e.StatusSHA256}
	if s.pin, err = s.tree.CheckPin(ctx, facts); err != nil {
		return nil, err
	}
	s.WorktreeSHA256, err = s.tree.ContentDigest(ctx, w.BaseCommit)
	return s, err
}

// agent returns the lease and its agent, which must be quiet.
func (v *Verifier) agent(ctx context.Context, socket, controllerID string, e Expected) (*store.Writer, *herdrcli.Agent, error) {
	l, err := v.leases.Load("writer", strings.ToLower(e.LeaseID))
	if err != nil {
		return nil, nil, err
	}
	w := l.(*store.Writer)
	if err := lease.Owned(w, &store.Controller{ControllerID: controllerID}); err != nil {
		return nil, nil, err
	}
	switch {
	case w.State != store.Active:
		return nil, nil, fault.New("LEASE_WRONG_STATE", "the lease is not active").With("state", w.State)
	case !strings.EqualFold(w.BaseCommit, e.Base):
		return nil, nil, fault.Mismatch("BASE_NOT_ANCESTOR", "the lease has another base commit", e.Base, w.BaseCommit)
	}
	if err := lease.In(w.HerdrSocket, socket); err != nil {
		return nil, nil, err
	}
	if err := git.Unmoved(w.Worktree); err != nil {
		return nil, nil, err
	}
	agents, err := v.leases.Agents(ctx)
	if err != nil {
		return nil, nil, err
	}
	a, err := lease.Find(w, agents)
	if err == nil && !lease.Quiet(a.Status) {
		err = fault.New("AGENT_NOT_SETTLED", "the worker is neither idle nor done").With("status", a.Status)
	}
	return w, a, err
}

// apart fails with VERIFY_UNAVAILABLE if a gate, which may write all of the
// worktree, could write the records or what git and others read of HOME.
func (v *Verifier) apart(worktree, state string) error {
	if state = disk.Resolved(state); git.Below(worktree, state) || git.Below(state, worktree) {
		return fault.New("VERIFY_UNAVAILABLE", "the mesh's state is inside the worktree, or the worktree inside it: a gate could write to the records. Set HERDR_MESH_STATE_DIR to another place")
	}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME"} {
		if dir := v.getenv(name); dir != "" && git.Below(worktree, dir) {
			return fault.New("VERIFY_UNAVAILABLE", "%s is inside the worktree: a gate could write the configuration of git and of other programs", name)
		}
	}
	return nil
}

// step is the surroundings of the run's commands, as far as they are the same
// for all. It fails with VERIFY_UNAVAILABLE.
func (v *Verifier) step(ctx context.Context) (sandbox.Step, error) {
	home := v.getenv("HOME")
	if !filepath.IsAbs(home) {
		return sandbox.Step{}, fault.New("VERIFY_UNAVAILABLE", "HOME is not set to an absolute path: the tools of a gate are looked for in it")
	}
	s := sandbox.Step{UserHome: filepath.Clean(home), Environ: v.environ, Node: v.getenv("HERDR_LINK_VERIFY_NODE")}
	return s, v.sandbox.Find(ctx)
}
