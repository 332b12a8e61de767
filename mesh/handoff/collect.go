package handoff

import (
	"context"
	"errors"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/screen"
	"herdr-link/mesh/store"
)

var errWaited = errors.New("the time to wait is over")

// waiting is the context of all waits of a call.
func (b *batch) waiting(ctx context.Context, w Wait) (context.Context, func()) {
	ctx, stop := context.WithCancel(ctx)
	if w.Until != nil {
		go func() {
			select {
			case <-w.Until:
				stop()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, stop
}

// open begins a section for a call whose authority holds. End must follow.
func (h *Handoffs) open(ctx context.Context, by controller.Authority) (*batch, *store.Section, *store.Controller, error) {
	at, err := h.controllers.Terminal(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	x, err := h.store.Begin(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	c, err := by(x, at)
	if err != nil {
		x.End()
		return nil, nil, nil, err
	}
	return &batch{Handoffs: h, by: by, at: at}, x, c, nil
}

// take makes an item of each receipt. One whose lease has ended or changed fails
// by itself (mesh.md §4.5, 1).
func (h *Handoffs) take(ctx context.Context, by controller.Authority, tokens []string) (*batch, error) {
	if len(tokens) == 0 || len(tokens) > MaxRequests {
		return nil, fault.New("INVALID_ARGUMENT", "there must be 1 to %d receipts", MaxRequests)
	}
	var ids []string
	known := map[string]bool{}
	for _, t := range tokens {
		id, err := parseToken(t)
		if err != nil {
			return nil, err
		}
		if known[id] {
			return nil, fault.New("INVALID_ARGUMENT", "a receipt must not be there twice")
		}
		known[id] = true
		ids = append(ids, id)
	}
	b, x, c, err := h.open(ctx, by)
	if err != nil {
		return nil, err
	}
	defer x.End()
	for _, id := range ids {
		r, err := h.load(id, c)
		if err != nil {
			return nil, err
		}
		if r.State != store.Pending && r.State != store.Completed {
			return nil, fault.New("RECEIPT_WRONG_STATE", "only a pending or completed receipt can be collected").With("receipt", token(id)).With("state", r.State)
		}
		b.items = append(b.items, &item{batch: b, receipt: r})
	}
	for _, i := range b.items {
		if i.receipt.State == store.Pending {
			i.stands(x)
		}
	}
	return b, nil
}

// stands holds a pending receipt to its lease.
func (i *item) stands(x *store.Section) {
	r := i.receipt
	if err := lease.In(r.HerdrSocket, i.at.Socket); err != nil {
		i.fail("collection", fault.Herdr(err))
		return
	}
	l, err := i.leases.Lookup(r.TargetLeaseID)
	switch {
	case err != nil:
		i.fail("collection", fault.Herdr(err))
	case l != nil && !lease.Terminal(l) && matches(r, l):
	default:
		if err := i.replace(x, failed("identity_changed")); err != nil {
			i.fail("collection", fault.Herdr(err))
			return
		}
		i.fail("collection", identityChanged())
	}
}

// matches reports whether a lease is where it was at the delivery.
func matches(r *store.Receipt, l store.Leased) bool {
	b := l.Base()
	return b.PaneID == r.PaneID && (r.TerminalID == "" || b.TerminalID == r.TerminalID) && b.AgentKind == r.AgentKind && disk.Resolved(l.Dir()) == disk.Resolved(r.Cwd)
}

func identityChanged() *fault.Fault {
	return fault.New("COLLECT_IDENTITY_CHANGED", "the agent of the task is gone, or its terminal, pane, name, kind or folder is another one now")
}

// collect waits until the agent of a pending receipt has settled, and completes
// it with what its screen shows. ctx is for what has begun.
func (i *item) collect(ctx, waiting context.Context, w Wait) {
	waiting, stop := context.WithTimeoutCause(waiting, w.Timeout, errWaited)
	defer stop()
	if i.follower == nil {
		i.follower = follow(i.receipt)
	}
	for {
		agents, err := i.watch.Next(waiting)
		if err != nil {
			i.over(err)
			return
		}
		a := of(i.receipt, agents)
		if a == nil {
			i.end(ctx, "identity_changed", identityChanged())
			return
		}
		switch i.follower.see(a, time.Now()) {
		case blocked:
			i.block(ctx, a)
			return
		case superseded:
			i.end(ctx, "cursor_superseded", cursorSuperseded())
			return
		case settled:
			if i.capture(ctx, waiting, a, w) {
				return
			}
		}
	}
}

func cursorSuperseded() *fault.Fault {
	return fault.New("COLLECT_CURSOR_SUPERSEDED", "the agent has begun another turn since: what its screen shows need not be the answer")
}

// over ends a wait that came to nothing: the receipt stays as it is.
func (i *item) over(err error) {
	switch {
	case errors.Is(err, errWaited) || errors.Is(err, context.DeadlineExceeded):
		i.fail("collection", fault.New("COLLECT_TIMEOUT", "the agent has not finished yet: collect its receipt later"))
	case errors.Is(err, context.Canceled) && i.receipt.State == store.Completed:
		i.fail("collection", fault.New("CANCELLED", "nobody waits any more: collect the receipt again"))
	case errors.Is(err, context.Canceled): // nobody waits any more, and it is listed as pending
	default:
		i.fail("collection", fault.Herdr(err))
	}
}

// end fails the receipt.
func (i *item) end(ctx context.Context, failure string, f *fault.Fault) {
	if err := i.commit(ctx, failed(failure)); err != nil {
		f = fault.Herdr(err)
	}
	i.fail("collection", f)
}

// block notes that the turn waits for its human. The receipt stays pending.
func (i *item) block(ctx context.Context, a *herdrcli.Agent) {
	f := fault.New("AGENT_BLOCKED", "the agent waits for its human: collect the receipt again when it goes on")
	if i.receipt.BlockedSeq != a.Cursor {
		if err := i.commit(ctx, func(r *store.Receipt) { r.BlockedSeq = a.Cursor }); err != nil {
			f = fault.Herdr(err)
		}
	}
	i.fail("collection", f)
}

// capture reads the screen of an agent that is quiet, and completes the receipt if
// nothing has changed meanwhile. It reports whether the receipt is decided.
func (i *item) capture(ctx, waiting context.Context, a *herdrcli.Agent, w Wait) (decided bool) {
	text, now, err := i.look(waiting, a, w)
	switch {
	case err != nil:
		i.over(err)
	case now == nil:
		i.end(ctx, "identity_changed", identityChanged())
	case i.follower.see(now, time.Now()) == settled && now.Cursor == a.Cursor:
		err := i.commit(ctx, func(r *store.Receipt) { r.State, r.SettledSeq = store.Completed, now.Cursor })
		switch {
		case err == nil:
			i.complete(now, text, i.follower.proof())
		case fault.Code(err) == "RECEIPT_WRONG_STATE" && i.receipt.State == store.Completed && i.receipt.SettledSeq == now.Cursor:
			i.second(now, text)
		default:
			i.fail("collection", fault.Herdr(err))
		}
	case now.Cursor != a.Cursor && !i.follower.unbroken:
		i.end(ctx, "cursor_superseded", cursorSuperseded())
	default:
		return false
	}
	return true
}

// second answers a receipt that another call of the controller has completed while
// this one read the same screen.
func (i *item) second(a *herdrcli.Agent, text string) {
	switch followed, err := i.followed(); {
	case err != nil:
		i.over(err)
	case followed:
		i.fail("collection", stale())
	default:
		i.complete(a, text, "first_seen")
	}
}

func stale() *fault.Fault {
	return fault.New("COLLECT_STALE", "the agent has gone on or changed since it was collected: its screen does not show that answer any more")
}

// look reads the screen of an agent and returns the agent as it is after that, nil
// if it is not the receipt's any more.
func (i *item) look(ctx context.Context, a *herdrcli.Agent, w Wait) (text string, now *herdrcli.Agent, err error) {
	text, err = i.herdr.AgentRead(ctx, a.PaneID, w.Lines)
	switch herdrcli.Code(err) {
	case "agent_not_found", "agent_not_running", "pane_not_found", "agent_pane_not_found": // that is seen next
		err = nil
	}
	if err != nil {
		return "", nil, err
	}
	agents, err := i.sample(ctx)
	return text, of(i.receipt, agents), err
}

func (i *item) complete(a *herdrcli.Agent, text, proof string) {
	e := screen.Of(text)
	i.done = &Completed{i.receipt.Target, token(i.receipt.ReceiptID), a.Status, a.Cursor, proof, e.Output, e.Truncated}
}

// replay answers a completed receipt once more, if its agent has done nothing
// since (mesh.md §4.5, 5).
func (i *item) replay(ctx context.Context, w Wait) {
	ctx, stop := context.WithTimeoutCause(ctx, w.Timeout, errWaited)
	defer stop()
	current := func(a *herdrcli.Agent) bool {
		return a != nil && lease.Quiet(a.Status) && a.Cursor == i.receipt.SettledSeq
	}
	agents, err := i.watch.Next(ctx)
	if a := of(i.receipt, agents); err == nil && current(a) {
		var text string
		followed := false
		if text, a, err = i.look(ctx, a, w); err == nil {
			followed, err = i.followed()
		}
		if err == nil && current(a) && !followed {
			i.complete(a, text, "first_seen")
			return
		}
	}
	if err != nil {
		i.over(err)
		return
	}
	i.fail("collection", stale())
}

// followed reports whether another task was sent to the agent after this one's
// answer. A turn of a moment need not have moved the cursor.
func (i *item) followed() (bool, error) {
	l, err := store.List(i.store, 1, func(r *store.Receipt) bool {
		return r.TargetLeaseID == i.receipt.TargetLeaseID && r.ReceiptID != i.receipt.ReceiptID && after(i.receipt, r)
	})
	return len(l.Records) > 0, err
}

// after reports whether a task of the same lease was sent, or may have been, after
// the answer of the completed receipt r.
func after(r, other *store.Receipt) bool {
	return other.BeforeSeq >= r.SettledSeq && other.Failure != "delivery_failed"
}
