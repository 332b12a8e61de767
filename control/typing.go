package control

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"herdr-link/herdrcli"
)

const (
	// lockTime is how long a call waits for the lock of its target.
	lockTime = 10 * time.Second
	// lockHeld is how long after the start of a command that goes on for long
	// the lock is kept: by then it has typed what it has to.
	lockHeld = 2 * time.Second
	// fresh is how long what was seen is good enough to act by.
	fresh = time.Second
)

// A subject is what was seen of a target. Whoever acts on it later must see the
// same.
type subject struct {
	terminal, agent, name string
	pane                  string
	blocked               bool
}

// same reports whether both are one terminal with one agent in it.
func (s subject) same(o subject) bool {
	return s.terminal == o.terminal && s.agent == o.agent && s.name == o.name && (s.terminal != "" || s.pane == o.pane)
}

// typeIn carries out a call that types into a terminal: preview, look-ups, lock
// and command (control.md §4, rules 8 to 10, and §6).
func (k *call) typeIn(ctx context.Context) *result {
	token := k.values.Text(argToken)
	ticket, known := k.c.tokens.take(token, k.t.name, time.Now()) // used up by this attempt, whatever comes of it
	switch {
	case token != "" && !known:
		return k.refuse("preview_unknown", "there is no such preview: it was used, has expired, or is of another tool or process; make a new one")
	case token == "" && k.c.PreviewRequired && !k.values.True(argPreview):
		return k.refuse("preview_required", "call it with preview: true first, and then with the previewToken of the answer; "+nothingSent)
	}
	bin, err := k.c.Herdr.Binary()
	if err != nil {
		return k.failed(err)
	}
	argv := append([]string{bin}, k.argv...)
	if token != "" && ticket.digest != digest(argv) {
		name := differs(k.t, ticket.values, k.values)
		if name == "" {
			name = "the herdr program"
		}
		return k.refuse("preview_mismatch", name+" is not what the preview has shown; "+nothingSent+", and the token is used up: make a new preview")
	}

	begun := time.Now()
	now, r := k.look(ctx)
	if r != nil {
		return r
	}
	if token != "" && !now.same(ticket.seen) {
		return k.changed()
	}
	if k.values.True(argPreview) {
		return k.preview(argv, now)
	}
	lock, err := k.c.Locks.Acquire(ctx, herdrcli.Agent{TerminalID: now.terminal, PaneID: now.pane}, k.c.socket, lockTime)
	switch {
	case errors.Is(err, herdrcli.ErrLockBusy):
		return k.refuse("target_busy", "another one types into this terminal; "+nothingSent+"; try again")
	case err != nil && ctx.Err() != nil:
		return k.over(ctx)
	case err != nil:
		return k.refuse("lock_failed", "the lock of this terminal cannot be made in .local/state/herdr-link/locks of the home folder, which must be the user's own; "+nothingSent)
	}
	held := &held{lock: lock, free: k.free}
	defer held.release()
	slept, err := lock.Settle(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return k.over(ctx)
	case err != nil:
		return k.refuse("lock_failed", "the lock of this terminal cannot be read; "+nothingSent)
	}
	if slept || lock.Waited || time.Since(begun) > fresh {
		again, r := k.look(ctx)
		if r != nil {
			return r
		}
		if !again.same(now) {
			return k.changed()
		}
	}
	if lock.Mark() != nil {
		return k.refuse("lock_failed", "the lock of this terminal cannot be written; "+nothingSent)
	}
	held.typed = true
	if k.long() {
		timer := time.AfterFunc(lockHeld, held.release)
		defer timer.Stop()
	}
	return k.act(ctx, "it may have happened: read the terminal before you repeat it")
}

// A held lock is released once, with the time of what was typed.
type held struct {
	once  sync.Once
	lock  *herdrcli.Lock
	free  chan struct{}
	typed bool
}

func (h *held) release() {
	h.once.Do(func() {
		if h.typed {
			_ = h.lock.Typed() // it has waited, if it could not be noted
		}
		h.lock.Release()
		close(h.free)
	})
}

func (k *call) changed() *result {
	return k.refuse("target_changed", "another terminal or agent is there now; "+nothingSent+"; look again")
}

// over is the result of a call that was cancelled, or out of time, before its
// command.
func (k *call) over(ctx context.Context) *result {
	err := context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = herdrcli.ErrTimeout
	}
	return k.failed(err)
}

// failed is the result of a call whose command was not started.
func (k *call) failed(err error) *result {
	r := read(k.t, herdrcli.Outcome{Exit: -1, Err: err}, "")
	k.c.record(k.t, 0, r)
	return r
}

// preview shows what would run, and gives a token for it.
func (k *call) preview(argv []string, now subject) *result {
	ticket := k.c.tokens.issue(ticket{
		tool: k.t.name, digest: digest(argv), values: k.values, seen: now, expires: time.Now().Add(tokenTime),
	})
	r := &result{OK: true, Command: "herdr " + k.t.command, Preview: &shown{
		Argv: argv, Digest: ticket.digest, Token: ticket.token, ExpiresAt: ticket.expires.UTC(), Required: k.c.PreviewRequired,
	}}
	k.c.record(k.t, 0, r)
	return r
}

// look reads the target and the own pane, and decides whether the call may type
// into it. A result is why not.
func (k *call) look(ctx context.Context) (subject, *result) {
	var wait sync.WaitGroup
	var own subject
	var ownResult *result
	if k.c.pane != "" {
		wait.Go(func() { own, ownResult = k.record(ctx, "pane get", "pane", k.c.pane) })
	}
	command, member, id := "pane get", "pane", k.values.Text(argPane)
	if id == "" {
		command, member, id = "agent get", "agent", k.values.Text(argTarget)
	}
	now, r := k.record(ctx, command, member, id)
	wait.Wait()
	if ownResult != nil && ownResult.ErrorCode == "pane_not_found" {
		own, ownResult = subject{}, nil // none here
	}
	for _, failed := range []*result{r, ownResult} {
		if failed != nil {
			return subject{}, failed
		}
	}
	switch {
	case own.pane != "" && now.terminal == own.terminal && (now.terminal != "" || now.pane == own.pane):
		return now, k.refuse("self_target", "this is your own terminal; "+nothingSent)
	case now.blocked:
		return now, k.refuse("agent_blocked", "the agent there waits for its human; "+nothingSent+"; leave the dialog to the human and try later")
	case now.agent != "" && (k.t.name == "herdr_pane_run" || k.t.name == "herdr_pane_send_text"):
		return now, k.refuse("pane_hosts_agent", "an agent runs in this pane; "+nothingSent+"; use herdr_agent_prompt")
	}
	return now, nil
}

// record reads what herdr knows of a pane or an agent.
func (k *call) record(ctx context.Context, command, member, id string) (subject, *result) {
	lookup := &tool{name: k.t.name, command: command, class: reads}
	argv := append(strings.Fields(command), id)
	out := k.c.Herdr.Exec(ctx, k.c.Timeout, argv...)
	r := read(lookup, out, "")
	k.c.record(lookup, out.Took, r)
	var answer struct {
		Result map[string]json.RawMessage
	}
	var found struct {
		Terminal string `json:"terminal_id"`
		Pane     string `json:"pane_id"`
		Status   string `json:"agent_status"`
		Agent    string `json:"agent"`
		Name     string `json:"name"`
	}
	if r.OK && (json.Unmarshal(r.Data, &answer) != nil || json.Unmarshal(answer.Result[member], &found) != nil || found.Pane == "") {
		r.OK, r.ErrorCode, r.Data = false, "unparsable_output", nil
		r.Message = "what herdr says about the target is not the JSON expected: report its version"
	}
	if !r.OK {
		r.Command = "herdr " + k.t.command
		r.Message += "; " + nothingSent
		return subject{}, r
	}
	return subject{terminal: found.Terminal, agent: found.Agent, name: found.Name, pane: found.Pane, blocked: found.Status == "blocked"}, nil
}
