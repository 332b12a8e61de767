package orchestration

import (
	"context"
	"errors"
	"time"

	"herdr-link/herdrcli"
)

// Why an interrupt is refused. None of them names an id.
var (
	errOutside   = errors.New("this is not a pane of Herdr: HERDR_PANE_ID or HERDR_BIN_PATH is not set")
	errOff       = errors.New("herdr-link is switched off here by HERDR_LINK_OFF=1")
	errLeaf      = errors.New("by its SHEPHERD_MODE this agent works for others, and such an agent interrupts nobody")
	errTarget    = errors.New("a target is a name (a lower-case letter, then a-z, 0-9, - and _) or a pane, such as w1:p2")
	errNoAgent   = errors.New("there is no such agent in this workspace")
	errNoSelf    = errors.New("no agent is seen by Herdr in this pane, and a plain shell interrupts nobody")
	errOwn       = errors.New("that is this agent's own pane")
	errKind      = errors.New("that agent is no OpenCode, and ctrl+c may end another one altogether")
	errNotWorks  = errors.New("that agent is not working now: there is nothing to interrupt")
	errBlocked   = errors.New("that agent waits for its human: the dialog is not to be answered by another")
	errOther     = errors.New("another agent has come to its pane meanwhile")
	errLock      = errors.New("its terminal cannot be locked: the folder .local/state/herdr-link/locks of the home folder must be the user's own")
	errBusyPane  = errors.New("others write to that agent; try again in a while")
	errUncertain = errors.New("no answer came from Herdr; the key may have been pressed")
)

// interruptKey is the only key that is pressed. OpenCode 1.18 ends by it, unless
// there is a draft in its input line: that is emptied then, and nothing else.
const interruptKey = "ctrl+c"

// lockTime is how long an interrupt waits for the lock of its target, and a change
// of the hooks for another one.
const lockTime = 10 * time.Second

// An Interrupter interrupts workers for whoever runs in a pane.
type Interrupter struct {
	Getenv func(string) string
	Herdr  *herdrcli.Client
	Locks  *herdrcli.Locks

	patience time.Duration // with the lock; 0: lockTime
}

// Interrupt presses ctrl+c in the terminal of an OpenCode that works, in the own
// workspace. Every error says in plain words why it did not.
func (i Interrupter) Interrupt(ctx context.Context, target string) error {
	switch {
	case leaf(i.Getenv("SHEPHERD_MODE")):
		return errLeaf
	case i.Getenv("HERDR_LINK_OFF") == "1":
		return errOff
	case i.Getenv("HERDR_PANE_ID") == "" || i.Getenv("HERDR_BIN_PATH") == "":
		return errOutside
	case !herdrcli.IsTarget(target):
		return errTarget
	}
	first, err := i.look(ctx, target)
	if err != nil {
		return err
	}
	if i.patience == 0 {
		i.patience = lockTime
	}
	lock, err := i.Locks.Acquire(ctx, first, i.Getenv("HERDR_SOCKET_PATH"), i.patience)
	switch {
	case errors.Is(err, herdrcli.ErrLockBusy):
		return errBusyPane
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return errLock
	}
	defer lock.Release()
	if _, err := lock.Settle(ctx); err != nil {
		return err
	}
	// Always again: a key in the wrong place is not taken back.
	now, err := i.look(ctx, target)
	if err != nil {
		return err
	}
	if now.TerminalID != first.TerminalID || now.PaneID != first.PaneID {
		return errOther
	}
	if lock.Mark() != nil { // the next message keeps its distance, too
		return errLock
	}
	err = i.Herdr.AgentSendKeys(ctx, target, interruptKey)
	_ = lock.Typed() // it has waited, if it could not be noted
	var failed *herdrcli.Error
	if errors.As(err, &failed) && failed.Started && failed.Code == "" {
		return errUncertain
	}
	return err
}

// look reads both ends and decides.
func (i Interrupter) look(ctx context.Context, target string) (herdrcli.Agent, error) {
	type end struct {
		agent herdrcli.Agent
		err   error
	}
	own := make(chan end, 1)
	go func() {
		a, err := i.Herdr.AgentIn(ctx, i.Getenv("HERDR_PANE_ID"))
		own <- end{a, err}
	}()
	a, err := i.Herdr.AgentGet(ctx, target)
	self := <-own
	switch {
	case errors.Is(self.err, herdrcli.ErrNoAgent):
		return a, errNoSelf
	case self.err != nil:
		return a, self.err
	case herdrcli.Code(err) == "agent_not_found":
		return a, errNoAgent
	case err != nil:
		return a, err
	case a.Name != target && a.PaneID != target:
		return a, errNoAgent
	case a.PaneID == self.agent.PaneID || a.TerminalID != "" && a.TerminalID == self.agent.TerminalID:
		return a, errOwn
	case a.WorkspaceID == "" || a.WorkspaceID != self.agent.WorkspaceID:
		return a, errNoAgent
	case a.Kind != "opencode":
		return a, errKind
	case a.Status == "blocked":
		return a, errBlocked
	case a.Status != "working":
		return a, errNotWorks
	}
	return a, nil
}
