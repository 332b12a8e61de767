package lane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/screen"
	"herdr-link/mesh/store"
)

// A Close is what a closing is asked for with.
type Close struct {
	LeaseID string
	// Cursor is that of the agent when the caller has looked last. It counts
	// unless Exited says that the agent has left its shell behind.
	Cursor  int64
	Exited  bool
	Abandon bool // receipts that are outstanding
	Lines   int  // of the screen that the answer shows
}

// Closed is a lease that has ended, with what its pane showed last.
type Closed struct {
	Lease     store.Leased `json:"lease"`
	Output    string       `json:"terminalOutput"`
	Truncated bool         `json:"outputTruncated,omitempty"`
}

// A closing ends a lease of any kind, with its pane. (mesh.md §4.2, 10 to 14)
type closing struct {
	*Lanes
	caller
	Close
	kind   string
	latest bool // the cursor that counts is the one that is read now
	// before is asked without locks, with the agent if there is one, and again
	// right before the pane is closed; nil: nothing is asked.
	before func(context.Context, store.Leased, *herdrcli.Agent) error
	again  func(context.Context, store.Leased) error
	note   func(store.Leased) // writes more into the record when the closing begins; or nil

	status string // of the agent, when it was seen last
}

// run closes the pane under both locks: that of its terminal, so that a message
// which was just sent is not lost, and then that of the store.
func (c *closing) run(ctx context.Context) (*Closed, error) {
	c.LeaseID = strings.ToLower(c.LeaseID)
	r, err := c.leases.Load(c.kind, c.LeaseID)
	if err != nil {
		return nil, err
	}
	agents, err := c.leases.Agents(ctx)
	if err != nil {
		return nil, err
	}
	a := lease.Agent(r, agents)
	if a != nil && c.latest {
		c.Cursor = a.Cursor
	}
	if c.before != nil {
		if err := c.before(ctx, r, a); err != nil {
			return nil, err
		}
	}
	held, err := c.hold(ctx, r, a)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	x, err := c.store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer x.End()
	r, outstanding, err := c.admit(x)
	if err != nil {
		return nil, err
	}
	look := c.agent
	if c.Exited {
		look = c.shell
	}
	pane, text, err := look(x.Context(), r, held)
	if err != nil {
		return nil, err
	}
	shown := screen.Of(text)
	if pane != "" {
		r.Base().CaptureSHA256 = digest(shown.Output)
	}
	if err := c.end(x, r, outstanding, pane); err != nil {
		return nil, err
	}
	return &Closed{r, shown.Output, shown.Truncated}, nil
}

// digest is the SHA-256 of what a terminal showed, without white space around it.
func digest(text string) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(text)))
	return hex.EncodeToString(sum[:])
}

// hold takes the lock of the agent's terminal, or of the one that it has left.
// Where there is none, what comes next refuses.
func (c *closing) hold(ctx context.Context, r store.Leased, a *herdrcli.Agent) (*lease.Held, error) {
	switch {
	case a != nil:
		return c.leases.Hold(ctx, *a)
	case c.Exited && r.Base().PaneID != "":
		if p, err := c.herdr.PaneGet(ctx, r.Base().PaneID); err == nil && p.TerminalID != "" {
			return c.leases.Hold(ctx, herdrcli.Agent{TerminalID: p.TerminalID, PaneID: p.ID})
		}
	}
	return c.leases.Hold(ctx)
}

// admit reads the lease under the lock, and what stands against its end.
func (c *closing) admit(x *store.Section) (store.Leased, []*store.Receipt, error) {
	who, err := c.may(x)
	if err != nil {
		return nil, nil, err
	}
	r, err := c.leases.Load(c.kind, c.LeaseID)
	if err != nil {
		return nil, nil, err
	}
	for _, err := range []error{lease.Owned(r, who), lease.In(r.Base().HerdrSocket, c.at.Socket), closable(r, c.store.Now())} {
		if err != nil {
			return nil, nil, err
		}
	}
	outstanding, err := receipts(x, c.LeaseID)
	if err != nil {
		return nil, nil, err
	}
	if len(outstanding) > 0 && !c.Abandon {
		tokens := make([]string, len(outstanding))
		for i, p := range outstanding {
			tokens[i] = p.Token()
		}
		return nil, nil, fault.New("RECEIPT_OUTSTANDING", "results of the agent have not been collected: collect them, or close with abandon_receipts").
			With("receipts", tokens)
	}
	return r, outstanding, c.leases.Verifying(x.Context(), x, c.LeaseID)
}

// receipts returns those of the lease that are outstanding.
func receipts(x *store.Section, id string) (of []*store.Receipt, err error) {
	all, err := store.Retained[store.Receipt](x)
	for _, p := range all {
		if strings.EqualFold(p.TargetLeaseID, id) {
			of = append(of, p)
		}
	}
	return of, err
}

// closable fails with LEASE_WRONG_STATE for a lease that may not be closed now
// (mesh.md §3.4).
func closable(r store.Leased, now time.Time) error {
	const code = "LEASE_WRONG_STATE"
	state := r.Base().State
	if lease.Terminal(r) {
		return fault.New(code, "the lease has ended already").With("state", state)
	}
	if left := lease.Starting(r, now); left > 0 {
		return fault.New(code, "the agent of the lease may be being started: a lease that is provisioning can be closed after ten minutes").
			With("state", state).With("retryAfterMs", left.Milliseconds())
	}
	return nil
}

// find is L and I.
func (c *closing) find(ctx context.Context, r store.Leased) (*herdrcli.Agent, error) {
	agents, err := c.leases.Agents(ctx)
	if err != nil {
		return nil, err
	}
	return lease.Find(r, agents)
}

func changed(why string) error { return fault.New("LEASE_IDENTITY_CHANGED", "%s", why) }

// agent reads the screen of an agent that is quiet at the cursor that the caller
// knows, and was so before and after.
func (c *closing) agent(ctx context.Context, r store.Leased, held *lease.Held) (pane, text string, err error) {
	a, err := c.find(ctx, r)
	if a != nil {
		c.status = a.Status
	}
	switch {
	case err != nil:
		return "", "", err
	case !held.Has(a.TerminalID):
		return "", "", changed("the agent has come into the leased terminal only now: call again")
	}
	if err := quiet(a); err != nil {
		return "", "", err
	}
	if err := cursor(a, c.Cursor); err != nil {
		return "", "", err
	}
	text, err = c.herdr.AgentRead(ctx, a.PaneID, c.Lines)
	if err != nil && herdrcli.Code(err) != "agent_not_found" { // then it has moved: that is looked at next
		return "", "", fault.Herdr(err)
	}
	read := err == nil
	b, err := c.find(ctx, r)
	switch code := fault.Code(err); {
	case err == nil && read && quiet(b) == nil && b.Cursor == a.Cursor:
		lease.Follow(r, b, c.at.Socket)
		return b.PaneID, text, nil
	case err != nil && code != "AGENT_NOT_FOUND" && code != "LEASE_IDENTITY_CHANGED":
		return "", "", err
	}
	moved := fault.New("CURSOR_MOVED", "the agent went on while its screen was read: nothing was closed")
	if b != nil {
		c.status = b.Status
		moved = moved.With("expected", a.Cursor).With("current", b.Cursor)
	}
	return "", "", moved
}

// shell reads the screen of a shell that an agent has left behind, in a pane that
// is surely the lease's own. There is no pane "" to be closed if it is gone and an
// earlier closing had begun.
func (c *closing) shell(ctx context.Context, r store.Leased, held *lease.Held) (pane, text string, err error) {
	agents, err := c.leases.Agents(ctx)
	if err != nil {
		return "", "", err
	}
	if a := lease.Agent(r, agents); a != nil {
		c.status = a.Status
		return "", "", changed("an agent is in the leased terminal: close without agent_exited")
	}
	b := r.Base()
	if b.PaneID == "" {
		return "", "", changed("nobody knows the pane of this lease: reconcile it")
	}
	p, own, err := c.leases.Own(ctx, r)
	switch {
	case herdrcli.Code(err) == "pane_not_found" && begun(b.State):
		return "", "", nil
	case herdrcli.Code(err) == "pane_not_found":
		return "", "", changed("the pane is gone: reconcile the lease")
	case err != nil:
		return "", "", fault.Herdr(err)
	case !own:
		return "", "", changed("the pane that has this id now is not the lease's: reconcile the lease")
	case p.Agent != "":
		return "", "", changed("another agent is in the pane")
	case !held.Has(p.TerminalID):
		return "", "", changed("the pane has come back only now: call again")
	}
	if text, err = c.herdr.PaneRead(ctx, p.ID, c.Lines); err != nil {
		return "", "", fault.Herdr(err)
	}
	// The last look before the end, so that nothing begins in between.
	running, err := c.herdr.PaneProcesses(ctx, p.ID)
	switch {
	case err != nil:
		return "", "", fault.Herdr(err)
	case running.Shell == 0 || running.Group != running.Shell:
		return "", "", changed("a program runs in the foreground of the pane, or Herdr does not know: only a bare shell is closed")
	}
	b.PaneID = p.ID
	if b.HerdrSocket == "" {
		b.HerdrSocket = c.at.Socket
	}
	return p.ID, text, nil
}

// begun reports whether a closing has begun in that state.
func begun(state string) bool {
	switch state {
	case store.Closing, store.CloseFailed, store.Releasing, store.ReleaseFailed:
		return true
	}
	return false
}

// ends are the states in which a closing begins, is refused, and is over.
func ends(r store.Leased) (begins, refused, over string) {
	if r.Type() == "writer" {
		return store.Releasing, store.ReleaseFailed, store.Released
	}
	return store.Closing, store.CloseFailed, store.Closed
}

// end closes the pane, if there is one. What it does is written down before and
// after. (mesh.md §4.2, 13)
func (c *closing) end(x *store.Section, r store.Leased, outstanding []*store.Receipt, pane string) error {
	if c.again != nil {
		if err := c.again(x.Context(), r); err != nil {
			return err
		}
	}
	if _, err := c.may(x); err != nil {
		return err
	}
	b := r.Base()
	begins, refused, over := ends(r)
	b.State, b.Failure = begins, ""
	if c.note != nil {
		c.note(r)
	}
	if err := x.Replace(r); err != nil {
		return err
	}
	for _, p := range outstanding {
		p.State, p.Failure, p.UpdatedAt = store.Failed, "abandoned", store.Stamp(c.store.Now())
		if err := x.Replace(p); err != nil {
			return err
		}
	}
	var err error
	if pane != "" {
		err = c.herdr.PaneClose(x.Context(), pane)
	}
	switch {
	case err == nil || herdrcli.Code(err) == "pane_not_found":
		b.State = over
		r.Ended(store.Stamp(c.store.Now()))
		return x.Replace(r)
	case x.Err() != nil:
		return x.Err() // whether the pane is gone is not known: it stays as it is
	}
	f := fault.Herdr(err)
	b.State, b.Failure = refused, f.Error()
	if err := x.Replace(r); err != nil {
		return err
	}
	return f.With("state", refused)
}
