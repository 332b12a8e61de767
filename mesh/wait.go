package mesh

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mcp"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/screen"
)

// A target is an agent that somebody waits for (mesh.md §4.3).
type target struct {
	target string
	after  int64           // a settled state counts if its cursor is above it; -1: any
	last   *herdrcli.Agent // as it was seen last; nil: not yet
	failed *fault.Fault    // why it is waited for no more
}

// targets are those of the call, in its order.
func (c *call) targets() (all []*target) {
	read := func(v mcp.Values) {
		t := &target{target: v.Text(argTarget), after: -1}
		if v[argAfter] != nil {
			t.after = int64(v.Int(argAfter))
		}
		all = append(all, t)
	}
	list, _ := c.args[argTargets].([]any)
	for _, item := range list {
		v, _ := item.(mcp.Values)
		read(v)
	}
	if list == nil {
		read(c.args)
	}
	return all
}

// look takes note of the agents as they are now, and reports whether this one
// has settled. The first time finds it by its name or pane; later its terminal
// tells it, wherever that has been moved.
func (t *target) look(agents []herdrcli.Agent) bool {
	named := !herdrcli.IsPane(t.target)
	var now *herdrcli.Agent
	for i := range agents {
		a := &agents[i]
		known := t.last != nil && a.TerminalID == t.last.TerminalID && (!named || a.Name == t.target)
		if known || t.last == nil && (named && a.Name == t.target || a.PaneID == t.target) {
			now = a
			break
		}
	}
	switch {
	case now == nil && t.last == nil:
		t.failed = fault.New("AGENT_NOT_FOUND", "there is no agent %s", t.target)
	case now == nil:
		t.failed = fault.New("AGENT_NOT_FOUND", "%s is gone, or has another name or terminal now", t.target)
	case now.Cursor < t.after:
		t.last = now
		t.failed = fault.New("CURSOR_REGRESSED", "the cursor of %s is below after_seq: the Herdr server was restarted since, or it is not that agent's", t.target).
			With("current", now.Cursor).With("after_seq", t.after)
	default:
		t.last = now
		return settled(now.Status) && now.Cursor > t.after
	}
	return false
}

// settled reports whether an agent in that state does nothing by itself.
func settled(status string) bool { return status == "idle" || status == "done" || status == "blocked" }

// An agent is how mesh itself tells one.
type agent struct {
	Target   string `json:"target"`
	Kind     string `json:"kind,omitempty"`
	Status   string `json:"status"`
	Cwd      string `json:"cwd,omitempty"`
	Name     string `json:"name,omitempty"`
	Pane     string `json:"paneId"`
	Terminal string `json:"terminalId"`
	Cursor   int64  `json:"stateChangeSeq"`
}

func (t *target) agent() agent {
	a := t.last
	return agent{t.target, a.Kind, a.Status, a.Cwd, a.Name, a.PaneID, a.TerminalID, a.Cursor}
}

// pause is how long to wait when what was seen of an agent and what was read do
// not fit together.
const pause = 250 * time.Millisecond

// maxStatus is more than any status of an agent has, in bytes.
const maxStatus = 32

var errWaited = errors.New("the time to wait is over")

// A wait is a call that waits for the first of its targets to settle.
type wait struct {
	*call
	targets []*target
	failure *fault.Fault // the first
}

// waitSettled waits until the first target has settled, and reads its screen.
func waitSettled(ctx context.Context, c *call) (any, error) {
	w := &wait{call: c, targets: c.targets()}
	waiting, stop := context.WithTimeoutCause(ctx, c.timeout(), errWaited)
	defer stop()
	for {
		winner, err := w.first(waiting)
		if err != nil {
			return nil, w.over(err)
		}
		seen := winner.last.Cursor
		text, err := w.screen(ctx, winner.last.PaneID)
		if err != nil && fault.Herdr(err).Code != "AGENT_NOT_FOUND" { // moved or gone: that is seen next
			return nil, err
		}
		still, lost := w.again(ctx, winner)
		if lost != nil {
			return nil, lost
		}
		if err == nil && still && winner.last.Cursor == seen {
			return struct {
				Event string `json:"event"`
				Agent agent  `json:"agent"`
				screen.Excerpt
			}{"agent_settled", winner.agent(), text}, nil
		}
		select { // it has gone on: the text may be of another state
		case <-time.After(pause):
		case <-waiting.Done():
		}
	}
}

// first returns the first target that settles, of two the one that stands first.
// A target that fails is waited for no more; when all have, the first failure is
// the error.
func (w *wait) first(ctx context.Context) (*target, error) {
	watch := w.watcher.Join()
	defer watch.Leave()
	for {
		agents, err := watch.Next(ctx)
		if err != nil {
			return nil, err
		}
		left := false
		for _, t := range w.targets {
			if w.look(t, agents) {
				return t, nil
			}
			left = left || t.failed == nil
		}
		if !left {
			return nil, w.failure
		}
	}
}

// again looks once more, and reports whether the target is settled still.
func (w *wait) again(ctx context.Context, t *target) (bool, error) {
	watch := w.watcher.Join()
	defer watch.Leave()
	agents, err := watch.Next(ctx)
	return err == nil && w.look(t, agents), err
}

func (w *wait) look(t *target, agents []herdrcli.Agent) bool {
	if t.failed != nil {
		return false
	}
	settled := t.look(agents)
	if w.failure == nil {
		w.failure = t.failed
	}
	return settled
}

// screen reads the screen of an agent.
func (w *wait) screen(ctx context.Context, pane string) (screen.Excerpt, error) {
	out, err := w.exec(ctx, w.tool.name, 0, "agent", "read", pane, "--source", "visible",
		"--lines", strconv.Itoa(w.args.Int(argLines)), "--format", "text")
	return screen.Of(string(out.Stdout)), err
}

// over says how a wait has ended that came to nothing.
func (w *wait) over(err error) error {
	if !errors.Is(err, errWaited) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	last, text := []agent{}, ""
	for _, t := range w.targets {
		if t.last != nil && t.failed == nil {
			last = append(last, t.agent())
			status, _ := screen.Plain(t.last.Status, maxStatus)
			text += fmt.Sprintf("; %s is %q at %d", t.target, status, t.last.Cursor)
		}
	}
	return fault.New("WAIT_TIMEOUT", "no agent has settled in %d ms%s", w.args.Int(argTimeout), text).With("last", last)
}
