// Package link is the herdr-link/1 core: an agent finds the peers of its
// workspace, sends them messages and closes finished ones, through Herdr.
//
// The same core serves MCP (Tools) and the command line (Peers, Send, Close,
// Bootstrap). PROTOCOL.md is its specification.
package link

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"herdr-link/envelope"
	"herdr-link/herdrcli"
)

// Options say where the process is and how it shall behave.
type Options struct {
	Getenv func(string) string // the process environment
	Herdr  *herdrcli.Client
	Locks  *herdrcli.Locks
	Log    *slog.Logger // for the operator; never a message's text

	Eager          bool // active from the start, for hosts that never list again
	NoGatewayClose bool // the gateway refuses action close
}

// A Link is the core in one pane. Its methods may be used by many goroutines.
type Link struct {
	herdr  *herdrcli.Client
	locks  *herdrcli.Locks
	log    *slog.Logger
	inside bool
	pane   string // own pane id at the start of the process: a move makes it stale
	socket string
	eager  bool
	// gatewayCloses: herdr_link has an action close.
	gatewayCloses bool

	mu     sync.Mutex
	flight *flight // the bootstrap that runs now, or nil
}

// New returns the core. It is inside Herdr if HERDR_ENV is 1, HERDR_BIN_PATH
// and HERDR_PANE_ID are set, and HERDR_LINK_OFF is not 1; outside it starts no
// process and every call is NOT_IN_HERDR. HERDR_WORKSPACE_ID and HERDR_TAB_ID
// are never read: after a move of the pane they are stale.
func New(o Options) *Link {
	l := &Link{
		herdr:         o.Herdr,
		locks:         o.Locks,
		log:           o.Log,
		pane:          o.Getenv("HERDR_PANE_ID"),
		socket:        o.Getenv("HERDR_SOCKET_PATH"),
		eager:         o.Eager,
		gatewayCloses: !o.Eager && !o.NoGatewayClose,
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.inside = o.Getenv("HERDR_ENV") == "1" && o.Getenv("HERDR_BIN_PATH") != "" && l.pane != "" &&
		o.Getenv("HERDR_LINK_OFF") != "1"
	return l
}

// Inside reports whether the process is in a Herdr pane.
func (l *Link) Inside() bool { return l.inside }

// A Peer is an agent as its peers see it. State is one of idle, working,
// blocked, done and unknown, and advisory.
type Peer struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

func peer(a herdrcli.Agent) Peer { return Peer{a.Name, state(a.Status)} }

func state(reported string) string {
	switch s := strings.ToLower(strings.TrimSpace(reported)); s {
	case "idle", "working", "blocked", "done":
		return s
	}
	return "unknown"
}

// self reads the own record. errNoSelf: Herdr does not know an agent here.
func (l *Link) self(ctx context.Context, herdr *herdrcli.Client) (herdrcli.Agent, error) {
	a, err := herdr.AgentIn(ctx, l.pane)
	if errors.Is(err, herdrcli.ErrNoAgent) {
		err = errNoSelf
	}
	return a, err
}

// sides are the two ends of a call, each as read or with why not.
type sides struct {
	self, target       herdrcli.Agent
	selfErr, targetErr error
}

// look reads both ends at the same time.
func (l *Link) look(ctx context.Context, herdr *herdrcli.Client, name string) (s sides) {
	var wait sync.WaitGroup
	wait.Go(func() { s.self, s.selfErr = l.self(ctx, herdr) })
	s.target, s.targetErr = herdr.AgentGet(ctx, name)
	wait.Wait()
	if herdrcli.Code(s.targetErr) == "agent_not_found" {
		s.targetErr = errNoPeer
	}
	return s
}

// unreachable returns why Herdr could not be asked about one of the ends.
func (s sides) unreachable() error {
	for _, err := range []error{s.selfErr, s.targetErr} {
		if err != nil && !errors.Is(err, errNoSelf) && !errors.Is(err, errNoPeer) {
			return err
		}
	}
	return nil
}

// guard lets pass what is named exactly so, in the same workspace.
func (s sides) guard(name string) error {
	switch {
	case s.selfErr != nil || s.targetErr != nil:
		return errNoPeer
	case s.target.Name != name:
		return errNoPeer
	case s.self.WorkspaceID == "" || s.self.WorkspaceID != s.target.WorkspaceID:
		return errNoPeer
	}
	return nil
}

// same reports whether both ends are one agent.
func (s sides) same() bool {
	return s.self.PaneID == s.target.PaneID ||
		s.self.TerminalID != "" && s.self.TerminalID == s.target.TerminalID
}

// An act is what shall happen to a named agent.
type act struct {
	name    string                             // of the target
	message bool                               // it types into the pane, in the caller's name
	allowed func(sides) error                  // asked after the guard
	do      func(context.Context, sides) error // called under the target's lock
}

// fresh is how long a record is good enough to act by. Herdr needs less for all
// that comes before a command, unless something is slow or has to be waited for.
const fresh = time.Second

// perform reads both ends, guards, takes the target's lock and acts. If
// anything can have changed meanwhile, all is read and decided again.
func (l *Link) perform(ctx context.Context, herdr *herdrcli.Client, a act) error {
	begun := time.Now()
	s := l.look(ctx, herdr, a.name)
	if err := s.unreachable(); err != nil {
		return err
	}
	if a.message && s.unnamed() {
		if s.self, s.selfErr = l.Bootstrap(ctx); s.selfErr != nil {
			return s.selfErr
		}
	}
	if err := a.decide(s); err != nil {
		return err
	}
	lock, err := l.lock(ctx, s.target)
	if err != nil {
		return err
	}
	waited := false
	if lock != nil {
		defer lock.Release()
		if waited, err = lock.Settle(ctx); err != nil {
			return err
		}
		waited = waited || lock.Waited
	}
	if waited || time.Since(begun) > fresh {
		if s, err = l.lookAgain(ctx, herdr, a, s.target); err != nil {
			return err
		}
	}
	if lock != nil && a.message {
		l.marked(lock.Mark())
		defer func() { l.marked(lock.Typed()) }()
	}
	return a.do(ctx, s)
}

// lookAgain reads and decides once more, under the lock. It does not name the
// caller: that takes a lock of its own, and two that wait for each other's
// would both wait in vain.
func (l *Link) lookAgain(ctx context.Context, herdr *herdrcli.Client, a act, meant herdrcli.Agent) (sides, error) {
	s := l.look(ctx, herdr, a.name)
	if err := s.unreachable(); err != nil {
		return s, err
	}
	if a.message && s.unnamed() {
		return s, errUnnamed
	}
	if s.targetErr == nil &&
		(s.target.TerminalID != meant.TerminalID || meant.TerminalID == "" && s.target.PaneID != meant.PaneID) {
		return s, errNoPeer // somebody else has the name now
	}
	return s, a.decide(s)
}

func (s sides) unnamed() bool { return s.selfErr != nil || !envelope.ValidName(s.self.Name) }

func (a act) decide(s sides) error {
	if err := s.guard(a.name); err != nil {
		return err
	}
	return a.allowed(s)
}

// lockTime is how long a call waits for the lock of its target.
const lockTime = 30 * time.Second

// lock takes the lock of the agent's terminal. Where there can be none, the
// operator hears of it and the call goes on without: nil, nil.
func (l *Link) lock(ctx context.Context, a herdrcli.Agent) (*herdrcli.Lock, error) {
	lock, err := l.locks.Acquire(ctx, a, l.socket, lockTime)
	switch {
	case err == nil:
		return lock, nil
	case errors.Is(err, herdrcli.ErrLockBusy) || ctx.Err() != nil:
		return nil, err
	}
	l.log.Warn("no lock: going on without", "error", err.Error())
	return nil, nil
}

// marked tells the operator of a lock that could not be marked.
func (l *Link) marked(err error) {
	if err != nil {
		l.log.Warn("the lock cannot be marked", "error", err.Error())
	}
}
