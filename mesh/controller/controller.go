// Package controller is the authority of one coordinating agent: who may change
// something, for how long, and how another one takes over (mesh.md §4.1).
//
// An authority is a record in the store, bound to the terminal in which its
// agent runs, and a fence token that only the answer has which made it. Of the
// token the record has a digest.
package controller

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mesh/attest"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
)

const (
	// skew is how far the clock may have been set back since a renewal. Further,
	// the authority counts as expired.
	skew = 60 * time.Second
	// deadTime is how far apart two looks at a session must be that say that it
	// is dead.
	deadTime = 60 * time.Second
	// apart is how far apart they may be: in a longer time a session can have
	// come back and gone again.
	apart = 5 * time.Minute
)

// A silence is how long a server has not answered, as far as it was looked at.
type silence struct{ first, last time.Time }

// Options are what the controllers of a process need to know.
type Options struct {
	Getenv func(string) string
	Herdr  *herdrcli.Client
	Store  *store.Store
}

// Controllers do the operations. Their methods may be used by many goroutines.
// Errors are faults.
type Controllers struct {
	getenv func(string) string
	herdr  *herdrcli.Client
	store  *store.Store

	mu     sync.Mutex
	socket string             // of the server, once it is known
	dead   map[string]silence // of servers that did not answer, by their sockets
}

// New returns the operations. Nothing is looked at yet.
func New(o Options) *Controllers {
	return &Controllers{getenv: o.Getenv, herdr: o.Herdr, store: o.Store, dead: map[string]silence{}}
}

// A Request is what a new authority is asked for with.
type Request struct {
	ControllerID    string
	AuthorityRef    string
	AuthoritySHA256 string
	TTL             time.Duration
}

// A Credential is what a caller proves its authority with.
type Credential struct {
	ControllerID string
	LeaseID      string
	Fence        string
}

// A Terminal is where this process runs: T0 of mesh.md §4.
type Terminal struct {
	ID     string
	PaneID string // now: a move changes it
	Socket string // of the Herdr server that has it
}

// A caller is an agent that asks for, or has, an authority.
type caller struct {
	Terminal
	name, kind, cwd, status string
	process                 *attest.Process // nil: not known
}

// Terminal returns where this process runs. A caller asks once a call, before
// any lock. Code: CALLER_NOT_MANAGED.
func (c *Controllers) Terminal(ctx context.Context) (Terminal, error) {
	pane := c.getenv("HERDR_PANE_ID")
	if c.getenv("HERDR_ENV") != "1" || !herdrcli.IsPane(pane) {
		return Terminal{}, fault.New("CALLER_NOT_MANAGED", "this server does not run in a pane of Herdr: HERDR_ENV and HERDR_PANE_ID do not name one")
	}
	p, err := c.herdr.PaneGet(ctx, pane)
	switch {
	case herdrcli.Code(err) == "pane_not_found":
		return Terminal{}, fault.New("CALLER_NOT_MANAGED", "the pane that HERDR_PANE_ID names is not there")
	case err != nil:
		return Terminal{}, fault.Herdr(err)
	case p.TerminalID == "" || !herdrcli.IsPane(p.ID):
		return Terminal{}, fault.New("HERDR_BAD_OUTPUT", "herdr pane get did not tell the pane and its terminal")
	}
	socket, err := c.Session(ctx)
	if err != nil {
		return Terminal{}, err
	}
	return Terminal{p.TerminalID, p.ID, socket}, nil
}

// Session returns the socket of the Herdr server, which is asked for once.
func (c *Controllers) Session(ctx context.Context) (string, error) {
	c.mu.Lock()
	socket := c.socket
	c.mu.Unlock()
	if socket != "" {
		return socket, nil
	}
	status, err := c.herdr.Status(ctx)
	if err != nil {
		return "", fault.Herdr(err)
	}
	if status.Server.Socket == "" {
		return "", fault.New("HERDR_BAD_OUTPUT", "herdr status did not tell the server's socket")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.socket = status.Server.Socket
	return c.socket, nil
}

// caller returns the agent that runs this process.
func (c *Controllers) caller(ctx context.Context) (*caller, error) {
	at, err := c.Terminal(ctx)
	if err != nil {
		return nil, err
	}
	who, err := c.agent(ctx, at)
	if err != nil {
		return nil, err
	}
	switch who.status {
	case "idle", "done", "working":
		return who, nil
	}
	return nil, fault.New("CALLER_NOT_ACTIVE", "the calling agent's status is neither idle nor done nor working").With("status", who.status)
}

// agent returns the agent in this process's terminal.
func (c *Controllers) agent(ctx context.Context, at Terminal) (*caller, error) {
	agents, err := lease.Agents(ctx, c.herdr)
	if err != nil {
		return nil, err
	}
	for _, a := range agents {
		if a.TerminalID != at.ID {
			continue
		}
		if a.Name == "" || a.Kind == "" || a.Cwd == "" {
			break
		}
		return &caller{Terminal: at, name: a.Name, kind: a.Kind, cwd: disk.Resolved(a.Cwd), status: a.Status}, nil
	}
	return nil, fault.New("CALLER_NOT_NAMED", "the pane of this server has no named agent with kind and folder: name it first (herdr agent rename)")
}

// attested is caller, with its process.
func (c *Controllers) attested(ctx context.Context) (*caller, error) {
	who, err := c.caller(ctx)
	if err != nil {
		return nil, err
	}
	who.process, err = attest.Caller(ctx, c.herdr, who.PaneID, c.getenv("HERDR_LINK_MESH_UNPROVEN_CALLER") == "1")
	return who, err
}

// is reports whether a record was made by this caller. A record of the older
// bridge has no terminal; there the pane counts.
func (who *caller) is(r *store.Controller) bool {
	if r.TerminalID == "" && r.PaneID != who.PaneID || r.TerminalID != "" && r.TerminalID != who.ID {
		return false
	}
	return r.AgentName == who.name && r.AgentKind == who.kind && disk.Resolved(r.Cwd) == who.cwd
}

// issue gives the authority to the caller, if it may have it: that is decided
// while the store lock is held, by the record that is there, or nil.
func (c *Controllers) issue(ctx context.Context, q Request, may func(ctx context.Context, old *store.Controller, who *caller) error) (*store.Controller, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	who, err := c.attested(ctx)
	if err != nil {
		return nil, err
	}
	x, err := c.store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer x.End()
	old, err := c.load(q.ControllerID)
	if err != nil {
		return nil, err
	}
	if err := may(x.Context(), old, who); err != nil {
		return nil, err
	}
	return c.grant(x, old, who, q)
}

// load returns the controller's record, or nil if there is none.
func (c *Controllers) load(id string) (*store.Controller, error) {
	r := new(store.Controller)
	err := c.store.Load(id, r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return r, nil
}

// Acquire makes an authority where there is none. The answer alone has the fence
// token. Codes: CALLER_*, CONTROLLER_EXISTS.
func (c *Controllers) Acquire(ctx context.Context, q Request) (*store.Controller, error) {
	return c.issue(ctx, q, func(_ context.Context, old *store.Controller, _ *caller) error {
		if old != nil && old.State != store.Released {
			return fault.New("CONTROLLER_EXISTS", "this controller id is in use, even if its lease has expired: resume it from its own pane, or take it over")
		}
		return nil
	})
}

// Resume makes a new generation for the agent that has the authority already,
// and so ends the old token. Codes: CALLER_*, CONTROLLER_NOT_FOUND,
// CONTROLLER_RELEASED, CONTROLLER_IDENTITY_CHANGED, CONTROLLER_OTHER_SESSION,
// CONTROLLER_CHANGED.
func (c *Controllers) Resume(ctx context.Context, q Request) (*store.Controller, error) {
	return c.issue(ctx, q, func(_ context.Context, old *store.Controller, who *caller) error {
		if err := active(old); err != nil {
			return err
		}
		if !who.is(old) {
			return changed()
		}
		if old.HerdrSocket != "" && old.HerdrSocket != who.Socket {
			return otherSession()
		}
		return nil
	})
}

// Takeover makes a new generation for another agent, once the lease of the one
// before has expired and its agent is not at work. confirm says that a Herdr
// session which does not answer is dead. Codes: CALLER_*, CONTROLLER_NOT_FOUND,
// CONTROLLER_RELEASED, CONTROLLER_OTHER_SESSION, TAKEOVER_*, CONTROLLER_CHANGED.
func (c *Controllers) Takeover(ctx context.Context, q Request, predecessor string, confirm bool) (*store.Controller, error) {
	return c.issue(ctx, q, func(ctx context.Context, old *store.Controller, who *caller) error {
		if err := active(old); err != nil {
			return err
		}
		if !strings.EqualFold(old.LeaseID, predecessor) {
			return fault.New("TAKEOVER_PREDECESSOR_MISMATCH", "the controller's present lease is another one: list the controllers again")
		}
		if !Expired(old, c.store.Now()) {
			return fault.New("TAKEOVER_NOT_EXPIRED", "the controller's lease has not expired").With("expiresAt", old.ExpiresAt)
		}
		if old.HerdrSocket != "" && old.HerdrSocket != who.Socket {
			// Its agents are as dead as their session.
			return c.ended(ctx, old.HerdrSocket, confirm)
		}
		live, err := c.live(ctx, old)
		if err == nil && live {
			err = fault.New("TAKEOVER_PREDECESSOR_LIVE", "the controller's agent is at work, or its process is there: let it resume or release")
		}
		return err
	})
}

// ended returns nil if a session is dead.
func (c *Controllers) ended(ctx context.Context, socket string, confirm bool) error {
	dead, retry, err := c.Dead(ctx, socket, confirm)
	switch {
	case err != nil:
		return err
	case dead:
		return nil
	case retry > 0:
		f := otherSession().With("retryAfterMs", retry.Milliseconds())
		f.Message += ", which does not answer now: look again later, or set confirm_dead_session if it is dead"
		return f
	}
	return otherSession()
}

// live reports whether the agent of a record is there and working, or quiet with
// its process alive. One that is blocked or of unknown state is not.
func (c *Controllers) live(ctx context.Context, r *store.Controller) (bool, error) {
	agents, err := lease.Agents(ctx, c.herdr)
	if err != nil {
		return false, err
	}
	for _, a := range agents {
		if a.Name != r.AgentName || r.TerminalID != "" && a.TerminalID != r.TerminalID || r.TerminalID == "" && a.PaneID != r.PaneID {
			continue
		}
		switch a.Status {
		case "working":
			return true, nil
		case "idle", "done":
			return r.ControllerProcess == nil || !r.ControllerProcess.Gone(ctx), nil
		}
	}
	return false, nil
}

// grant writes the next generation and returns it with its token. Behind one that
// was released nobody follows.
func (c *Controllers) grant(x *store.Section, old *store.Controller, who *caller, q Request) (*store.Controller, error) {
	now := c.store.Now()
	token := disk.NewID()
	r := &store.Controller{
		Version: 2, LeaseType: "controller", LeaseID: disk.NewID(), ControllerID: q.ControllerID, Generation: 1,
		AuthorityRef: q.AuthorityRef, AuthoritySHA256: q.AuthoritySHA256,
		PaneID: who.PaneID, AgentName: who.name, AgentKind: who.kind, Cwd: who.cwd, State: store.Active,
		AcquiredAt: store.Stamp(now), RenewedAt: store.Stamp(now), ExpiresAt: store.Stamp(now.Add(q.TTL)),
		ControllerProcess: who.process, TerminalID: who.ID, FenceSHA256: digest(token), HerdrSocket: who.Socket,
	}
	if old != nil {
		r.Generation = old.Generation + 1
		if old.State != store.Released {
			r.PredecessorLeaseID = old.LeaseID
		}
	}
	if err := x.Err(); err != nil {
		return nil, err
	}
	var err error
	if old == nil {
		err = x.Create(r)
	} else {
		err = x.Swap(old, r)
	}
	if err != nil {
		return nil, err
	}
	answer := *r
	answer.FenceToken = token
	return &answer, nil
}

// Renew lets a lease last from now on. Its id and token stay. Codes: those of
// an Authority, CALLER_*, CONTROLLER_IDENTITY_CHANGED.
func (c *Controllers) Renew(ctx context.Context, cred Credential, ttl time.Duration) (*store.Controller, error) {
	if err := checkTTL(ttl); err != nil {
		return nil, err
	}
	return c.change(ctx, cred, func(r *store.Controller, now time.Time) {
		r.RenewedAt, r.ExpiresAt = store.Stamp(now), store.Stamp(now.Add(ttl))
	})
}

// Release ends an authority. The checkpoint says how far it came; leases and
// receipts stay for the next generation. Codes: as Renew.
func (c *Controllers) Release(ctx context.Context, cred Credential, checkpointRef, checkpointSHA256 string) (*store.Controller, error) {
	if err := (Request{cred.ControllerID, checkpointRef, checkpointSHA256, minTTL}).check(); err != nil {
		return nil, err
	}
	return c.change(ctx, cred, func(r *store.Controller, now time.Time) {
		r.State, r.ExpiresAt, r.ReleasedAt = store.Released, store.Stamp(now), store.Stamp(now)
		r.AuthorityRef, r.AuthoritySHA256 = checkpointRef, checkpointSHA256
	})
}

// change writes the caller's own record anew.
func (c *Controllers) change(ctx context.Context, cred Credential, edit func(*store.Controller, time.Time)) (*store.Controller, error) {
	who, err := c.caller(ctx)
	if err != nil {
		return nil, err
	}
	x, err := c.store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer x.End()
	old, err := c.By(cred)(x, who.Terminal)
	if err != nil {
		return nil, err
	}
	if !who.is(old) {
		return nil, changed()
	}
	r := *old
	edit(&r, c.store.Now())
	if err := x.Err(); err != nil {
		return nil, err
	}
	if err := x.Swap(old, &r); err != nil {
		return nil, err
	}
	return &r, nil
}

// An Authority is how somebody shows that it may act, again and again: A of
// mesh.md §4. It is asked while the store lock is held, right before whatever
// acts, and returns the controller's record. Codes: CONTROLLER_NOT_FOUND,
// CONTROLLER_RELEASED, FENCE_MISMATCH, CONTROLLER_EXPIRED,
// CONTROLLER_OTHER_SESSION, CONTROLLER_OTHER_PANE; see [Controllers.Attested] for
// more.
type Authority func(x *store.Section, at Terminal) (*store.Controller, error)

// By is the authority of a credential.
func (c *Controllers) By(cred Credential) Authority {
	return func(_ *store.Section, at Terminal) (*store.Controller, error) {
		r, err := c.load(cred.ControllerID)
		if err != nil {
			return nil, err
		}
		if err := active(r); err != nil {
			return nil, err
		}
		if !strings.EqualFold(r.LeaseID, cred.LeaseID) || !fenceOf(r, cred.Fence) {
			return nil, fault.New("FENCE_MISMATCH", "the lease id or the fence token is not the present one: the controller was resumed or taken over")
		}
		return r, c.valid(r, at)
	}
}

// Attested is the authority of a process that the controller's agent runs: it
// needs no credential. Beside those of a credential it fails with
// CONTROLLER_IDENTITY_CHANGED, ATTESTATION_MISSING and ATTESTATION_FAILED.
// (mesh.md §5)
func (c *Controllers) Attested(id string) Authority {
	return func(x *store.Section, at Terminal) (*store.Controller, error) {
		r, err := c.load(id)
		if err != nil {
			return nil, err
		}
		if err := active(r); err != nil {
			return nil, err
		}
		if err := c.valid(r, at); err != nil {
			return nil, err
		}
		who, err := c.agent(x.Context(), at)
		if err != nil {
			return nil, err
		}
		switch {
		case !who.is(r):
			return nil, changed()
		case r.ControllerProcess == nil:
			return nil, fault.New("ATTESTATION_MISSING", "the controller's lease does not tell the agent's process: resume it once from the agent's MCP server")
		case !r.ControllerProcess.Above(x.Context()):
			return nil, fault.New("ATTESTATION_FAILED", "this process was not started by the agent that has the controller's lease")
		}
		return r, nil
	}
}

// valid holds a record to the time and to where the caller runs.
func (c *Controllers) valid(r *store.Controller, at Terminal) error {
	switch {
	case Expired(r, c.store.Now()):
		return fault.New("CONTROLLER_EXPIRED", "the controller's lease has expired: resume it").With("expiresAt", r.ExpiresAt)
	case r.HerdrSocket != "" && r.HerdrSocket != at.Socket:
		return otherSession()
	case r.HerdrSocket == "" || r.TerminalID != at.ID:
		return fault.New("CONTROLLER_OTHER_PANE", "the controller's lease is of another pane, or of the older bridge: resume it from its own pane; "+
			"or Herdr has given new terminals since: take it over when it has expired")
	}
	return nil
}

// active refuses what has no authority to give: none, or one that was released.
func active(r *store.Controller) error {
	switch {
	case r == nil:
		return fault.New("CONTROLLER_NOT_FOUND", "there is no controller of this id: acquire it")
	case r.State == store.Released:
		return fault.New("CONTROLLER_RELEASED", "the controller was released: acquire it again")
	}
	return nil
}

func changed() error {
	return fault.New("CONTROLLER_IDENTITY_CHANGED", "the controller's lease is of another agent: terminal, name, kind or folder differ from the caller's")
}

func otherSession() *fault.Fault {
	return fault.New("CONTROLLER_OTHER_SESSION", "the controller's lease is of another Herdr session")
}

// Expired reports whether a lease is over. A clock that was set back makes it so.
func Expired(r *store.Controller, now time.Time) bool {
	expires, err1 := store.Time(r.ExpiresAt)
	renewed, err2 := store.Time(r.RenewedAt)
	return err1 != nil || err2 != nil || !now.Before(expires) || now.Before(renewed.Add(-skew))
}

// fenceOf reports whether the token is that of the record. How long that takes
// tells nothing.
func fenceOf(r *store.Controller, token string) bool {
	want := strings.ToLower(r.FenceSHA256)
	if r.Version == 1 {
		want = digest(r.FenceToken)
	}
	return want != "" && subtle.ConstantTimeCompare([]byte(want), []byte(digest(token))) == 1
}

func digest(token string) string {
	sum := sha256.Sum256([]byte(strings.ToLower(token)))
	return hex.EncodeToString(sum[:])
}

// Dead reports whether the Herdr session at that socket is dead: it did not run
// in two looks 60 s apart, and none in between, which are at most 5 min apart,
// said otherwise; or it does not run
// now, and the caller confirms that it is dead. One look proves nothing: a clean
// stop takes seconds, and a live update swaps servers. If it may be dead, retry
// is when another look can tell.
func (c *Controllers) Dead(ctx context.Context, socket string, confirm bool) (dead bool, retry time.Duration, err error) {
	status, err := c.herdr.At(socket).Status(ctx)
	if err != nil {
		return false, 0, fault.Herdr(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if status.Server.Running {
		delete(c.dead, socket)
		return false, 0, nil
	}
	now := c.store.Now()
	looks, known := c.dead[socket]
	if !known || now.Sub(looks.last) > apart {
		looks.first = now
	}
	looks.last = now
	c.dead[socket] = looks
	if left := deadTime - now.Sub(looks.first); left > 0 && !confirm {
		return false, left, nil
	}
	return true, 0, nil
}

// A Listed controller is what everybody may see of a record.
type Listed struct {
	*store.Controller
	Expired bool `json:"expired"`
}

// List returns all controllers, without tokens and their digests, and the files
// that could not be read.
func (c *Controllers) List() ([]Listed, []store.Invalid, error) {
	l, err := store.List[store.Controller](c.store, 0, nil)
	if err != nil {
		return nil, nil, err
	}
	all := make([]Listed, len(l.Records))
	for i, r := range l.Records {
		all[i] = Listed{r, Expired(r, c.store.Now())}
		r.FenceToken, r.FenceSHA256 = "", ""
	}
	return all, l.Invalid, nil
}

const (
	minTTL = 60 * time.Second
	maxTTL = 1800 * time.Second
)

// check holds a request to mesh.md §2: a record that breaks these rules could
// not be read again.
func (q Request) check() error {
	invalid := func(name, rule string) error {
		return fault.New("INVALID_ARGUMENT", "argument %s must be %s", name, rule)
	}
	switch {
	case !store.IsControllerID(q.ControllerID):
		return invalid("controller_id", "1 to 100 of A-Z a-z 0-9 _ . -")
	case !store.IsReference(q.AuthorityRef):
		return invalid("authority_ref or checkpoint_ref", "of 1 to 500 characters and without control characters")
	case !store.IsDigest(q.AuthoritySHA256):
		return invalid("authority_sha256 or checkpoint_sha256", "64 hexadecimal digits")
	}
	return checkTTL(q.TTL)
}

func checkTTL(ttl time.Duration) error {
	if ttl < minTTL || ttl > maxTTL {
		return fault.New("INVALID_ARGUMENT", "argument ttl_seconds must be an integer from 60 to 1800")
	}
	return nil
}
