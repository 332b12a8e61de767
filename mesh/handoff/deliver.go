package handoff

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
	"herdr-link/mesh/watch"
)

const (
	// confirmTime is how long after a prompt its agent may take to show that it
	// has begun (mesh.md §4.4, 8).
	confirmTime = 5 * time.Second
	// sampleTime is how long one list of the agents may take.
	sampleTime = 10 * time.Second
)

// A batch is one call, with an item for each request or receipt.
type batch struct {
	*Handoffs
	by    controller.Authority
	at    controller.Terminal
	items []*item
}

// An item is one request or receipt of a call, and what becomes of it. One
// goroutine at a time uses it.
type item struct {
	*batch
	message  string         // of a delivery
	receipt  *store.Receipt // as it is on disk
	sent     time.Time      // when the prompt had ended
	seen     time.Time      // when the agents were listed last since, or sent
	watch    *watch.Watch
	follower *follower // nil: nobody has watched since the delivery

	done    *Completed
	stage   string
	failure *fault.Fault
}

func (i *item) fail(stage string, f *fault.Fault) { i.stage, i.failure = stage, f }

// each has all that have not failed done side by side, each with a watch of its
// own, and returns when that is over.
func (b *batch) each(do func(*item)) {
	var wait sync.WaitGroup
	for _, i := range b.items {
		if i.failure != nil {
			continue
		}
		wait.Go(func() {
			i.watch = b.watcher.Join()
			defer i.watch.Leave()
			do(i)
		})
	}
	wait.Wait()
}

// answer tells what became of each.
func (b *batch) answer(mode string) *Answer {
	a := &Answer{mode, []Completed{}, []Failed{}, []string{}}
	for _, i := range b.items {
		t := token(i.receipt.ReceiptID)
		if i.done != nil {
			a.Completed = append(a.Completed, *i.done)
		} else if i.failure != nil {
			a.Failed = append(a.Failed, Failed{i.receipt.Target, t, i.stage, i.failure.Code, i.failure.Message})
		}
		if i.receipt.State == store.Pending {
			a.Pending = append(a.Pending, t)
		}
	}
	return a
}

// deliver sends the requests, each with a receipt, or none of them. What became of
// each prompt is still to be confirmed.
func (h *Handoffs) deliver(ctx context.Context, by controller.Authority, requests []Request) (*batch, error) {
	requests, err := Check(requests)
	if err != nil {
		return nil, err
	}
	b := &batch{Handoffs: h, by: by}
	if b.at, err = h.controllers.Terminal(ctx); err != nil {
		return nil, err
	}
	agents, err := h.leases.Agents(ctx)
	if err != nil {
		return nil, err
	}
	agents = slices.DeleteFunc(agents, func(a herdrcli.Agent) bool {
		return !slices.ContainsFunc(requests, func(q Request) bool { return q.Target == a.Name })
	})
	held, err := h.leases.Hold(ctx, agents...)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	x, err := h.store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer x.End()
	if err := b.admit(x, held, requests); err != nil {
		return nil, err
	}
	if err := b.reserve(x); err != nil {
		return nil, err
	}
	b.prompt(x, held)
	return b, nil
}

// admit makes an item of each request, if all may be sent (mesh.md §4.4, 1 to 4),
// and asks for the authority again before anything is written.
func (b *batch) admit(x *store.Section, held *lease.Held, requests []Request) error {
	c, err := b.by(x, b.at)
	if err != nil {
		return err
	}
	leases, err := b.leased(x, c, requests)
	if err != nil {
		return err
	}
	agents, err := b.leases.Agents(x.Context())
	if err != nil {
		return err
	}
	found := make([]*herdrcli.Agent, len(leases))
	for n, l := range leases {
		if found[n], err = ready(l, agents, held); err != nil {
			return about(err, requests[n].Target)
		}
	}
	if _, err := b.by(x, b.at); err != nil {
		return err
	}
	for n, l := range leases {
		a := found[n]
		if err := lease.Bind(x, l, a, b.at.Socket); err != nil {
			return err
		}
		now := store.Stamp(b.store.Now())
		b.items = append(b.items, &item{batch: b, message: requests[n].Message, receipt: &store.Receipt{
			Version: 1, ReceiptID: disk.NewID(), ControllerID: c.ControllerID, ControllerLeaseID: c.LeaseID,
			Target: a.Name, TargetLeaseID: l.Base().LeaseID, PaneID: a.PaneID, AgentKind: a.Kind, Cwd: disk.Resolved(a.Cwd),
			State: store.Reserved, CreatedAt: now, UpdatedAt: now, BeforeSeq: a.Cursor, TerminalID: a.TerminalID, HerdrSocket: b.at.Socket,
		}})
	}
	return nil
}

// leased returns the lease of each target, if it is the controller's, active, and
// has neither a task nor a verification.
func (b *batch) leased(x *store.Section, c *store.Controller, requests []Request) ([]store.Leased, error) {
	retained, err := lease.Retained(x)
	if err != nil {
		return nil, err
	}
	receipts, err := store.Retained[store.Receipt](x)
	if err != nil {
		return nil, err
	}
	var all []store.Leased
	tokens := []string{}
	for _, q := range requests {
		l, err := leaseOf(retained, c, b.at, q.Target)
		if err != nil {
			return nil, about(err, q.Target)
		}
		all = append(all, l)
		for _, r := range receipts {
			if r.TargetLeaseID == l.Base().LeaseID {
				tokens = append(tokens, token(r.ReceiptID))
			}
		}
	}
	if len(tokens) > 0 {
		return nil, fault.New("RECEIPT_OUTSTANDING", "a target has a task whose answer is not collected: collect or abandon %s", strings.Join(tokens, ", ")).With("receipts", tokens)
	}
	for n, l := range all {
		if err := b.leases.Verifying(x.Context(), x, l.Base().LeaseID); err != nil {
			return nil, about(err, requests[n].Target)
		}
	}
	return all, nil
}

func leaseOf(retained []store.Leased, c *store.Controller, at controller.Terminal, name string) (found store.Leased, err error) {
	for _, l := range retained {
		if l.Base().AgentName != name {
			continue
		}
		if found != nil {
			return nil, fault.New("LEASE_DUPLICATE", "more than one lease is of an agent of that name: list them, and close or reconcile one")
		}
		found = l
	}
	if found == nil {
		return nil, fault.New("LEASE_NOT_RETAINED", "no lease is of that agent: start a reviewer or a worker, or adopt its pane")
	}
	b := found.Base()
	if err := errors.Join(lease.Owned(found, c), lease.In(b.HerdrSocket, at.Socket)); err != nil {
		return nil, err
	}
	if b.State != store.Active {
		return nil, fault.New("LEASE_WRONG_STATE", "the lease of that agent is not active").With("state", b.State)
	}
	return found, nil
}

// ready returns the agent of a lease, if it can take a task: the one whose
// terminal is locked, and quiet.
func ready(l store.Leased, agents []herdrcli.Agent, held *lease.Held) (*herdrcli.Agent, error) {
	a, err := lease.Find(l, agents)
	switch {
	case err != nil:
		return nil, err
	case !held.Has(a.TerminalID):
		return nil, fault.New("LEASE_IDENTITY_CHANGED", "another agent had that name when its terminal was to be locked: call again")
	case a.Status == "blocked":
		return nil, fault.New("AGENT_BLOCKED", "the agent waits for its human")
	case !lease.Quiet(a.Status):
		return nil, fault.New("AGENT_NOT_SETTLED", "the agent is neither idle nor done").With("status", a.Status)
	}
	return a, nil
}

// about names the target that a fault is about.
func about(err error, target string) error {
	var f *fault.Fault
	if !errors.As(err, &f) {
		return err
	}
	f = f.With("target", target)
	f.Message = target + ": " + f.Message
	return f
}

// reserve writes all receipts, or none that stands in anybody's way.
func (b *batch) reserve(x *store.Section) (err error) {
	for n := 0; err == nil && n < len(b.items); n++ {
		if err = x.Create(b.items[n].receipt); err != nil {
			b.withdraw(x, b.items[:n+1])
		}
	}
	if err == nil {
		if err = x.Err(); err != nil {
			b.withdraw(x, b.items)
		}
	}
	return err
}

func (b *batch) withdraw(x *store.Section, items []*item) {
	for _, i := range items {
		_ = i.replace(x, failed("delivery_failed")) // or it stands until it is abandoned
	}
}

// prompt sends each message to its agent, and notes which surely did not arrive.
func (b *batch) prompt(x *store.Section, held *lease.Held) {
	var wait sync.WaitGroup
	for _, i := range b.items {
		wait.Go(func() { i.prompt(x, held) })
	}
	wait.Wait()
	for _, i := range b.items {
		if i.failure != nil {
			_ = i.replace(x, failed("delivery_failed")) // or it stands until it is abandoned
		}
	}
}

func (i *item) prompt(x *store.Section, held *lease.Held) {
	err := x.Err()
	if err == nil {
		err = held.Type(i.receipt.TerminalID)
	}
	if err != nil {
		i.fail("delivery", fault.Herdr(err))
		return
	}
	err = i.herdr.AgentPrompt(x.Context(), i.receipt.PaneID, i.message)
	held.Typed(i.receipt.TerminalID)
	if err != nil && never(err) {
		f := fault.Herdr(err)
		i.fail("delivery", fault.New("DELIVERY_REJECTED", "the message was not sent: %s", f.Message))
	}
	i.sent = time.Now()
	i.seen = i.sent
}

// never reports whether a prompt that failed has surely typed nothing (mesh.md
// §4.4, 7).
func never(err error) bool {
	var e *herdrcli.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case "empty_agent_prompt", "agent_not_found", "agent_not_ready", "agent_blocked", "agent_launch_pending", "agent_target_ambiguous",
		"server_not_running", "protocol_mismatch":
		return true
	}
	return !e.Started || e.Exit == 2
}

// confirm waits until the agent shows that it has the message, and makes the
// receipt pending (mesh.md §4.4, 8 to 10).
func (i *item) confirm(ctx context.Context) {
	if !i.accepted(ctx) {
		i.fail("delivery", fault.New("DELIVERY_AMBIGUOUS", "nobody knows whether the message arrived: a task that takes less than a moment leaves no trace. "+
			"Do not send it again: read the agent's screen, then abandon the receipt"))
		return
	}
	err := i.commit(ctx, func(r *store.Receipt) {
		r.State, r.AfterSeq = store.Pending, i.follower.after
		if i.follower.blocked {
			r.BlockedSeq = r.AfterSeq
		}
	})
	switch fault.Code(err) {
	case "":
	case "LOCK_BUSY", "HERDR_TIMEOUT", "CANCELLED", "STATE_IO", "RECEIPT_WRONG_STATE":
		i.fail("delivery", fault.New("DELIVERY_AMBIGUOUS", "the message arrived, and that could not be noted (%s). "+
			"Do not send it again: wait for the agent, read its screen, then abandon the receipt", fault.Code(err)))
	default:
		i.fail("delivery", fault.Herdr(err))
	}
}

// accepted watches the agent for a while. It has the message if its cursor has grown
// and it works, or is blocked; at the end of that time any state will do.
func (i *item) accepted(ctx context.Context) bool {
	early, stop := context.WithDeadline(ctx, i.sent.Add(i.confirming))
	defer stop()
	for early.Err() == nil {
		agents, err := i.watch.Next(early)
		if err != nil {
			continue
		}
		if a := of(i.receipt, agents); a != nil && (a.Status == "working" || a.Status == "blocked") && i.grown(a) {
			return true
		}
		i.seen = time.Now()
	}
	agents, err := i.sample(ctx)
	a := of(i.receipt, agents)
	return err == nil && a != nil && i.grown(a)
}

// grown reports whether the cursor has grown since the receipt, and goes on from
// there. If nobody has looked for long, that may be a later turn.
func (i *item) grown(a *herdrcli.Agent) bool {
	if a.Cursor <= i.receipt.BeforeSeq {
		return false
	}
	now := time.Now()
	i.follower = &follower{after: a.Cursor, blocked: a.Status == "blocked", unbroken: now.Sub(i.seen) < gap, last: now}
	return true
}

// sample lists the agents as they are from now on.
func (h *Handoffs) sample(ctx context.Context) ([]herdrcli.Agent, error) {
	ctx, stop := context.WithTimeoutCause(ctx, sampleTime, herdrcli.ErrTimeout)
	defer stop()
	w := h.watcher.Join()
	defer w.Leave()
	return w.Next(ctx)
}

// commit changes the receipt on disk, if the authority still holds and nobody has
// changed it meanwhile: RECEIPT_WRONG_STATE.
func (i *item) commit(ctx context.Context, change func(*store.Receipt)) error {
	x, err := i.store.Begin(ctx)
	if err != nil {
		return err
	}
	defer x.End()
	c, err := i.by(x, i.at)
	if err != nil {
		return err
	}
	now, err := i.load(i.receipt.ReceiptID, c)
	if err != nil {
		return err
	}
	before := i.receipt.State
	if i.receipt = now; now.State != before {
		return fault.New("RECEIPT_WRONG_STATE", "the receipt was changed meanwhile").With("state", now.State)
	}
	if err := x.Err(); err != nil {
		return err
	}
	return i.replace(x, change)
}

func (i *item) replace(x *store.Section, change func(*store.Receipt)) error {
	r := *i.receipt
	change(&r)
	r.UpdatedAt = store.Stamp(i.store.Now())
	if err := x.Replace(&r); err != nil {
		return err
	}
	i.receipt = &r
	return nil
}

// failed is the end of a receipt that comes to nothing.
func failed(failure string) func(*store.Receipt) {
	return func(r *store.Receipt) { r.State, r.Failure = store.Failed, failure }
}
