package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"herdr-link/mesh/attest"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/git"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/sandbox"
	"herdr-link/mesh/store"
)

// A Request is what is to be verified.
type Request struct {
	Expected
	WorktreeSHA256 string // of the snapshot
	Web            bool   // web's packages may be fetched if the gate needs them
	Locks          []string
	Timeout        time.Duration // of the gate
}

// An Answer is a run as it is now. One that has ended has its tails.
type Answer struct {
	Record *store.Run `json:"record"`
	Tails
}

// A run is one verification.
type run struct {
	*Verifier
	by     controller.Authority
	at     controller.Terminal
	q      Request
	step   sandbox.Step
	pin    *git.Pin // before the first command
	loose  bool     // something of a command may still run
	cursor int64
	record *store.Run // nobody else's until done is closed
	tails  Tails
	done   chan struct{}
}

// Verify begins a run and returns with its end, or when 45 s are over: then it
// goes on in this process, by behind, and the list has its end. Until it has
// answered, the end of ctx ends the run, but not that its time is over. What
// comes of the run is no error.
//
// Codes: those of the authority, those of Snapshot, VERIFY_UNAVAILABLE,
// CONTENT_DIGEST_MISMATCH, CURSOR_MOVED, VERIFY_RUNNING, BOOTSTRAP_LOCK_INVALID,
// CONTROLLER_TTL_TOO_SHORT.
func (v *Verifier) Verify(ctx context.Context, controllerID string, by controller.Authority, q Request, behind func(func(context.Context))) (*Answer, error) {
	r, err := v.admit(ctx, controllerID, by, q)
	if err != nil && r != nil {
		behind(func(life context.Context) { r.end(life, void("INTERRUPTED")) })
	}
	if err != nil {
		return nil, err
	}
	begun := *r.record
	stopped, stop := context.WithCancel(context.Background())
	behind(func(life context.Context) {
		defer close(r.done)
		defer stop()
		defer context.AfterFunc(life, stop)()
		r.work(stopped, life)
	})
	late := time.NewTimer(v.answerTime)
	defer late.Stop()
	select {
	case <-r.done:
	case <-late.C:
		return &Answer{Record: &begun}, nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return &Answer{Record: &begun}, nil
		}
		stop()
		<-r.done
	}
	return &Answer{r.record, r.tails}, nil
}

// admit makes a run whose record is on disk. With an error there is a run only if
// its record may be there all the same.
func (v *Verifier) admit(ctx context.Context, controllerID string, by controller.Authority, q Request) (*run, error) {
	r := &run{Verifier: v, by: by, q: q, done: make(chan struct{})}
	var err error
	if r.step, err = v.step(ctx); err != nil {
		return nil, err
	}
	if r.at, err = v.controllers.Terminal(ctx); err != nil {
		return nil, err
	}
	s, err := v.Snapshot(ctx, controllerID, q.Expected)
	if err != nil {
		return nil, err
	}
	if !strings.EqualFold(s.WorktreeSHA256, q.WorktreeSHA256) {
		return nil, fault.Mismatch("CONTENT_DIGEST_MISMATCH", "the worktree has another content than was expected", q.WorktreeSHA256, s.WorktreeSHA256)
	}
	owner := attest.Self(ctx)
	if owner == nil {
		return nil, fault.New("VERIFY_UNAVAILABLE", "the system does not tell when this process was started, so nobody could tell that it has ended")
	}
	x, err := v.store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer x.End()
	r.cursor, r.step.Worktree, r.step.GitDir = s.cursor, s.tree.Root, s.tree.CommonDir
	r.pin, r.step.Fixed = s.pin, s.pin.Files()
	if r.step.Home, err = v.store.Root(); err != nil { // each run has a folder in it
		return nil, err
	}
	if err := v.apart(r.step.Worktree, r.step.Home); err != nil {
		return nil, err
	}
	if err := r.step.Check(); err != nil {
		return nil, err
	}
	c, err := by(x, r.at)
	if err != nil {
		return nil, err
	}
	w, a, err := v.agent(x.Context(), r.at.Socket, controllerID, q.Expected)
	if err != nil {
		return nil, err
	}
	if a.Cursor != s.cursor {
		return nil, fault.Mismatch("CURSOR_MOVED", "the worker did something while its worktree was read", s.cursor, a.Cursor)
	}
	if err := v.leases.Verifying(x.Context(), x, w.LeaseID); err != nil {
		return nil, err
	}
	if err := checkLocks(q.Locks); err != nil {
		return nil, err
	}
	if left(c, v.store.Now()) <= 0 {
		return nil, fault.New("CONTROLLER_TTL_TOO_SHORT", "the controller's lease is about to expire: renew it").With("expiresAt", c.ExpiresAt)
	}
	if err := lease.Bind(x, w, a, r.at.Socket); err != nil {
		return nil, err
	}
	if err := x.Err(); err != nil {
		return nil, err
	}
	now := store.Stamp(v.store.Now())
	sum := sha256.Sum256([]byte(disk.NewID() + "\x00" + now))
	r.record = &store.Run{
		Version: 1, RunID: hex.EncodeToString(sum[:]), ControllerID: c.ControllerID, ControllerGeneration: c.Generation,
		WriterLeaseID: w.LeaseID, TicketRef: w.TicketRef, Worktree: w.Worktree, Branch: w.Branch, BaseCommit: s.BaseCommit, HeadCommit: s.HeadCommit,
		WorktreeSHA256: s.WorktreeSHA256, BootstrapWeb: q.Web, BootstrapPythonLocks: q.Locks,
		State: store.Running, StartedAt: now, Owner: owner, HerdrSocket: r.at.Socket,
	}
	return r, x.Create(r.record)
}

// margin is how long before the end of the controller's lease a command ends, so
// that its result can be written down.
const margin = 5 * time.Second

// left is how long a command of that controller may take.
func left(c *store.Controller, now time.Time) time.Duration {
	expires, err := store.Time(c.ExpiresAt)
	if err != nil || controller.Expired(c, now) {
		return 0
	}
	return expires.Add(-margin).Sub(now)
}
