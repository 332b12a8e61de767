// Package lease is what prompts, closing and reconciling share about leased
// panes: which agent a lease is of, the locks of its terminal, and what stands
// against acting on it (mesh.md §4).
//
// It makes and ends no lease.
package lease

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unicode"

	"herdr-link/herdrcli"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/store"
)

// shown is how long after a prompt its agent may still be told as it was before:
// Herdr presses Enter after 300 ms, and what that does is seen up to 400 ms later
// (measured with Herdr 0.8).
const shown = time.Second

// patience is how long the locks of all terminals of a call may take.
const patience = 5 * time.Second

// Options are what the leases of a process need to know.
type Options struct {
	Herdr *herdrcli.Client
	Store *store.Store
	Locks *herdrcli.Locks
}

// Leases look at leases and at what Herdr says of their agents. Their methods may
// be used by many goroutines. Errors are faults.
type Leases struct {
	herdr *herdrcli.Client
	store *store.Store
	locks *herdrcli.Locks
}

// New returns the operations. Nothing is looked at yet.
func New(o Options) *Leases { return &Leases{o.Herdr, o.Store, o.Locks} }

// Agents is [Agents].
func (l *Leases) Agents(ctx context.Context) ([]herdrcli.Agent, error) { return Agents(ctx, l.herdr) }

// Agents lists the agents of all workspaces. Each has a terminal, a pane, a
// status and a cursor: see [Plausible].
func Agents(ctx context.Context, herdr *herdrcli.Client) ([]herdrcli.Agent, error) {
	list, err := herdr.AgentList(ctx)
	if err != nil {
		return nil, fault.Herdr(err)
	}
	if !Plausible(list) {
		return nil, fault.New("HERDR_BAD_OUTPUT", "herdr agent list did not tell an agent's terminal, pane, status or cursor, told an odd one, or one terminal twice")
	}
	return list, nil
}

// How long what Herdr tells may be, in bytes.
const (
	longestID   = 256
	longestText = 4 << 10
)

// Plausible reports whether a list of agents can be what it should be: each agent
// has a pane, a status, a cursor and a terminal of its own, and nothing that would
// be odd in a record, a message or a file's name. Not all agents have names. A
// folder may be called anything: one agent in an odd one must not stop the others.
func Plausible(list []herdrcli.Agent) bool {
	terminals := map[string]bool{}
	for _, a := range list {
		_, err := strconv.ParseInt(string(a.Changes), 10, 64)
		if err != nil || a.Cursor < 0 || !herdrcli.IsPane(a.PaneID) || a.Status == "" || terminals[a.TerminalID] ||
			a.TerminalID == "" || len(a.TerminalID) > longestID || strings.ContainsAny(a.TerminalID, `/\`) || strings.ContainsFunc(a.TerminalID, unicode.IsControl) {
			return false
		}
		if len(a.Cwd) > longestText {
			return false
		}
		for _, text := range []string{a.Name, a.Kind, a.Status} {
			if len(text) > longestText || strings.ContainsFunc(text, unicode.IsControl) {
				return false
			}
		}
		terminals[a.TerminalID] = true
	}
	return true
}

// Retained returns the leases of all three kinds that are not terminal. One
// record that cannot be read may be such a lease, and is an error.
func Retained(x *store.Section) (all []store.Leased, err error) {
	reviewers, err1 := store.Retained[store.Reviewer](x)
	writers, err2 := store.Retained[store.Writer](x)
	adopted, err3 := store.Retained[store.Adopted](x)
	if err := cmp.Or(err1, err2, err3); err != nil {
		return nil, err
	}
	return join(reviewers, writers, adopted), nil
}

// Standing returns the leases of all three kinds that are not terminal, as they
// stand without the lock, and the files that cannot be read.
func Standing(s *store.Store) (all []store.Leased, invalid []store.Invalid, err error) {
	reviewers, err1 := store.Standing[store.Reviewer](s)
	writers, err2 := store.Standing[store.Writer](s)
	adopted, err3 := store.Standing[store.Adopted](s)
	if err := cmp.Or(err1, err2, err3); err != nil {
		return nil, nil, err
	}
	invalid = append(append(append([]store.Invalid{}, reviewers.Invalid...), writers.Invalid...), adopted.Invalid...) // [], not null
	return join(reviewers.Records, writers.Records, adopted.Records), invalid, nil
}

func join(reviewers []*store.Reviewer, writers []*store.Writer, adopted []*store.Adopted) (all []store.Leased) {
	for _, r := range reviewers {
		all = append(all, r)
	}
	for _, r := range writers {
		all = append(all, r)
	}
	for _, r := range adopted {
		all = append(all, r)
	}
	return all
}

// Load reads a lease of that kind, which may be terminal. Codes:
// LEASE_NOT_FOUND, STATE_*.
func (l *Leases) Load(kind, id string) (store.Leased, error) {
	var r store.Leased
	switch kind {
	case "reviewer":
		r = new(store.Reviewer)
	case "writer":
		r = new(store.Writer)
	case "adopted-pane":
		r = new(store.Adopted)
	default:
		return nil, fault.New("INTERNAL", "there is no such kind of lease")
	}
	err := l.store.Load(id, r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New("LEASE_NOT_FOUND", "there is no such %s lease: list the leases again", kind)
	case err != nil:
		return nil, err
	}
	return r, nil
}

// Lookup is Load for a lease whose kind is not known. None of that id is nil.
func (l *Leases) Lookup(id string) (store.Leased, error) {
	for _, kind := range []string{"reviewer", "writer", "adopted-pane"} {
		r, err := l.Load(kind, id)
		if fault.Code(err) != "LEASE_NOT_FOUND" {
			return r, err
		}
	}
	return nil, nil
}

// Terminal reports whether a lease has ended.
func Terminal(r store.Leased) bool {
	switch r.Base().State {
	case store.Closed, store.FailedClosed, store.Released:
		return true
	}
	return false
}

// Young is how old a lease must be at least that is provisioning still, before
// anybody but its start may end it: that start may be under way (mesh.md §3.4).
const Young = 10 * time.Minute

// Starting returns for how long nobody but its start may end the lease: 0 if
// anybody may. One that is made in the future, as the clock has it, is young.
func Starting(r store.Leased, now time.Time) time.Duration {
	if r.Base().State != store.Provisioning {
		return 0
	}
	made, err := store.Time(r.Made().CreatedAt)
	if err != nil { // a record that can be read has that time
		return Young
	}
	return max(0, Young-max(0, now.Sub(made)))
}

// Agent is L of mesh.md §4: the agent in the lease's terminal, in whatever pane
// that is now, or nil. A record of the older bridge has no terminal; there the
// pane counts.
func Agent(r store.Leased, agents []herdrcli.Agent) *herdrcli.Agent {
	b := r.Base()
	for i := range agents {
		a := &agents[i]
		if b.TerminalID != "" && a.TerminalID == b.TerminalID || b.TerminalID == "" && b.PaneID != "" && a.PaneID == b.PaneID {
			return a
		}
	}
	return nil
}

// Same is I of mesh.md §4: it fails with LEASE_IDENTITY_CHANGED if an agent is
// not the one that was leased.
func Same(r store.Leased, a *herdrcli.Agent) error {
	b := r.Base()
	if differ := Differ(a, b.AgentName, b.AgentKind, r.Dir()); len(differ) > 0 {
		return fault.New("LEASE_IDENTITY_CHANGED", "the agent in the leased terminal has another %s than the lease", strings.Join(differ, " and ")).With("differ", differ)
	}
	return nil
}

// Differ returns which of an agent's name, kind and cwd are others than these. It
// tells no value: the agent may be anybody's.
func Differ(a *herdrcli.Agent, name, kind, cwd string) (facts []string) {
	if a.Name != name {
		facts = append(facts, "name")
	}
	if a.Kind != kind {
		facts = append(facts, "kind")
	}
	if disk.Resolved(a.Cwd) != disk.Resolved(cwd) {
		facts = append(facts, "cwd")
	}
	return facts
}

// Quiet reports whether an agent in that state has nothing to do. It is idle once
// somebody has looked at what was done.
func Quiet(status string) bool { return status == "idle" || status == "done" }

// Find is Agent and Same: AGENT_NOT_FOUND, LEASE_IDENTITY_CHANGED.
func Find(r store.Leased, agents []herdrcli.Agent) (*herdrcli.Agent, error) {
	a := Agent(r, agents)
	if a == nil {
		return nil, fault.New("AGENT_NOT_FOUND", "the agent of the lease is not in its terminal any more")
	}
	return a, Same(r, a)
}

// Bind writes down in which pane the leased agent is now, and what a record of
// the older bridge does not have. A lease never changes its terminal.
func Bind(x *store.Section, r store.Leased, a *herdrcli.Agent, socket string) error {
	b := r.Base()
	if b.PaneID == a.PaneID && b.TerminalID == a.TerminalID && b.HerdrSocket != "" {
		return nil
	}
	Follow(r, a, socket)
	return x.Replace(r)
}

// Follow has the lease follow its agent into the pane where it is now. That is
// written down with what is written next.
func Follow(r store.Leased, a *herdrcli.Agent, socket string) {
	b := r.Base()
	b.PaneID, b.TerminalID = a.PaneID, a.TerminalID
	if b.HerdrSocket == "" { // a record of the older bridge
		b.HerdrSocket = socket
	}
}

// In fails with LEASE_OTHER_SESSION if a record is of another Herdr session than
// the one at that socket: pane ids are the same in all of them.
func In(recorded, socket string) error {
	if recorded != "" && recorded != socket {
		return fault.New("LEASE_OTHER_SESSION", "the record is of another Herdr session")
	}
	return nil
}

// Owned fails with LEASE_OTHER_CONTROLLER if a lease is not the controller's.
func Owned(r store.Leased, c *store.Controller) error {
	if r.Base().ControllerID != c.ControllerID {
		return fault.New("LEASE_OTHER_CONTROLLER", "the lease is of another controller")
	}
	return nil
}

// Verifying fails with VERIFY_RUNNING while a verification of that lease runs.
// One whose process is gone is written down as invalidated.
func (l *Leases) Verifying(ctx context.Context, x *store.Section, id string) error {
	runs, err := store.Retained[store.Run](x)
	if err != nil {
		return err
	}
	for _, r := range runs {
		switch {
		case r.WriterLeaseID != id:
		case !r.Abandoned(ctx, l.store.Now()):
			return errVerifying()
		default:
			r.Interrupt(l.store.Now())
			if err := x.Replace(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func errVerifying() *fault.Fault {
	return fault.New("VERIFY_RUNNING", "a verification of this worker is running: wait for its end")
}

// VerifyingIn fails with VERIFY_RUNNING while a verification runs in that worktree.
// Its gate writes there what it likes, so no git is to look at it meanwhile. It needs
// no lock and writes nothing: whoever goes on to write asks Verifying as well.
func (l *Leases) VerifyingIn(ctx context.Context, worktree string) error {
	runs, err := store.Standing[store.Run](l.store)
	if err != nil {
		return err
	}
	for _, r := range runs.Records {
		if r.Worktree == worktree && !r.Abandoned(ctx, l.store.Now()) {
			return errVerifying()
		}
	}
	return nil
}

// Held are the locks of some terminals.
type Held struct {
	locks map[string]*herdrcli.Lock // by terminal
}

// Hold takes the locks of the agents' terminals, those that link and control take
// as well, and waits until what was typed there before can be seen in the agent's
// state. It must not be called under the store lock. Codes: TARGET_BUSY, TARGET_LOCK_UNAVAILABLE,
// CANCELLED.
func (l *Leases) Hold(ctx context.Context, agents ...herdrcli.Agent) (*Held, error) {
	cancelled := fault.New("CANCELLED", "the call was cancelled")
	locks, err := l.locks.AcquireAll(ctx, agents, "", patience)
	switch {
	case errors.Is(err, herdrcli.ErrLockBusy):
		return nil, fault.New("TARGET_BUSY", "another program has been typing into a target's pane for %v", patience)
	case err != nil && ctx.Err() != nil:
		return nil, cancelled
	case err != nil:
		return nil, fault.New("TARGET_LOCK_UNAVAILABLE", "the lock of a target's terminal cannot be made: "+
			"the folder .local/state/herdr-link/locks in the home folder must be this user's own, and nobody else may write in it")
	}
	h := &Held{map[string]*herdrcli.Lock{}}
	for _, lock := range locks {
		h.locks[lock.Terminal] = lock
	}
	for _, lock := range locks {
		if _, err := lock.Rest(ctx, shown); err != nil {
			h.Release()
			return nil, cancelled
		}
	}
	return h, nil
}

// Has reports whether the terminal's lock is held.
func (h *Held) Has(terminal string) bool { return h.locks[terminal] != nil }

// Type notes that something is typed into that terminal now. Typed must follow
// when that has ended. If it cannot be noted, nothing may be typed.
func (h *Held) Type(terminal string) error {
	if lock := h.locks[terminal]; lock == nil || lock.Mark() != nil {
		return fault.New("TARGET_LOCK_UNAVAILABLE", "the time of the prompt cannot be noted in the lock of the target's terminal")
	}
	return nil
}

// Typed notes that what was typed has ended.
func (h *Held) Typed(terminal string) { _ = h.locks[terminal].Typed() } // it has waited, if that could not be noted

// Release lets others type.
func (h *Held) Release() {
	for _, lock := range h.locks {
		lock.Release()
	}
	h.locks = nil
}
