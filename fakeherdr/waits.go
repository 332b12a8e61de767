package fakeherdr

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// waitOptions are those of the calls that wait for an agent's state.
type waitOptions struct {
	until   []string
	timeout *uint64 // milliseconds; nil: for ever
}

// statuses are those that end a wait: without a word, every one in which an
// agent does nothing by itself.
func (o waitOptions) statuses() []string {
	if o.until == nil {
		return []string{Idle, Done, Blocked}
	}
	return o.until
}

// deadline returns the zero time if there is none.
func (o waitOptions) deadline(w *World, from time.Time) time.Time {
	if o.timeout == nil {
		return time.Time{}
	}
	return from.Add(w.patience(*o.timeout))
}

var errTimeout = failure{"timeout", "timed out waiting for agent status"}

func (c *call) parseAgentWait(cmd command, args []string) (request, error) {
	if len(args) == 0 {
		return request{}, usage(cmd.usage)
	}
	var o waitOptions
	if err := (options{"--until": until(&o.until), "--timeout": timeout(&o.timeout)}).parse(args[1:]); err != nil {
		return request{}, err
	}
	return request{run: func(_ *Scene, w *World, now time.Time) (any, error) {
		p, err := w.agent(args[0], now)
		if err != nil {
			return nil, err
		}
		if slices.Contains(o.statuses(), p.Agent.Status) {
			return agentResult{recordAgent(p), "agent_info"}, nil
		}
		watch := watched(p, args[0], w.Seq)
		return pending(func() (any, error) {
			r, err := c.await(watch, func(_ agentRecord, w *World) string { return watch.passed(w, o.statuses()) }, o.deadline(w, now))
			return agentResult{r, "agent_info"}, err
		}), nil
	}}, nil
}

// A watchedAgent is the one that a call waits for. It is no longer there when
// its target names nobody, another agent, or one that has been moved.
type watchedAgent struct {
	target, terminal, pane, tab, kind string
	seq                               int // changes after it count
}

func watched(p *Pane, target string, seq int) watchedAgent {
	return watchedAgent{target, p.Terminal, p.ID, p.Tab, p.Agent.Kind, seq}
}

func (a watchedAgent) in(w *World, now time.Time) (*Pane, error) {
	p := w.agentTarget(a.target, now)
	if p == nil || p.ID != a.pane || p.Tab != a.tab || p.Agent.Kind != a.kind {
		return nil, failure{"agent_not_running", "agent is no longer running in the target pane"}
	}
	return p, nil
}

// passed returns the first of the states that the agent has come to since the
// wait began, even if it is in another one by now, or "".
func (a watchedAgent) passed(w *World, statuses []string) string {
	for _, change := range w.Changes {
		if change.Seq > a.seq && change.Terminal == a.terminal && slices.Contains(statuses, change.Status) {
			return change.Status
		}
	}
	return ""
}

// await waits until an agent is as it is wanted: wanted returns the state to
// report, or "". After the deadline it is a time-out.
func (c *call) await(a watchedAgent, wanted func(agentRecord, *World) string, deadline time.Time) (agentRecord, error) {
	result, err := c.watch(func(w *World, now time.Time) (any, error) {
		p, err := a.in(w, now)
		if err != nil {
			return nil, err
		}
		r := recordAgent(p)
		if status := wanted(r, w); status != "" {
			r.AgentStatus = status
			return r, nil
		}
		if !deadline.IsZero() && !now.Before(deadline) {
			return nil, errTimeout
		}
		return nil, nil
	})
	r, _ := result.(agentRecord)
	return r, err
}

// A promptWait has two steps: until the agent does anything at all, unless it was
// working anyway, and then until it is as it is wanted.
type promptWait struct {
	agent    watchedAgent
	statuses []string
	working  bool
	deadline time.Time // zero: none
	stall    uint64    // milliseconds that the first step may take
	stalls   time.Time // its deadline
	brief    bool      // the caller waits no longer than that, and is not told that the agent stalled
}

func (w *World) promptWait(p *Pane, target string, o waitOptions, now time.Time) promptWait {
	stall := w.stallAfter()
	wait := promptWait{
		agent:    watched(p, target, p.Agent.StateChangeSeq),
		statuses: o.statuses(),
		working:  p.Agent.Status == Working,
		deadline: o.deadline(w, now),
		stall:    stall,
		stalls:   now.Add(w.patience(stall)),
		brief:    o.timeout != nil && *o.timeout <= stall,
	}
	if wait.brief {
		wait.stalls = wait.deadline
	}
	return wait
}

func (c *call) waitForPrompt(wait promptWait) (any, error) {
	if !wait.working {
		if err := c.waitForEffect(wait); err != nil {
			return nil, err
		}
	}
	settled := func(r agentRecord, w *World) string {
		if wait.working && wait.agent.moved(r, w) == "" || !slices.Contains(wait.statuses, r.AgentStatus) {
			return ""
		}
		return r.AgentStatus
	}
	r, err := c.await(wait.agent, settled, wait.deadline)
	return agentResult{r, "agent_prompted"}, err
}

func (c *call) waitForEffect(wait promptWait) error {
	status := Unknown
	_, err := c.await(wait.agent, func(r agentRecord, w *World) string {
		status = r.AgentStatus
		return wait.agent.moved(r, w)
	}, wait.stalls)
	if err == errTimeout && !wait.brief {
		return failure{"agent_prompt_stalled", fmt.Sprintf(
			"agent prompt produced no observed state change within %d ms; status is %s and state_change_seq remained %d", wait.stall, status, wait.agent.seq)}
	}
	return err
}

// moved returns the agent's state if it has changed since the wait began.
func (a watchedAgent) moved(r agentRecord, _ *World) string {
	if r.StateChangeSeq <= a.seq {
		return ""
	}
	return r.AgentStatus
}

// stallAfter is in milliseconds.
func (w *World) stallAfter() uint64 {
	if w.StallAfter == 0 {
		return 5000
	}
	return uint64(w.StallAfter.Milliseconds())
}

// watch looks at the world again and again, until f returns a result or an
// error. A server that stops meanwhile ends it, and the scene's end the process.
func (c *call) watch(f func(w *World, now time.Time) (any, error)) (any, error) {
	if err := c.scene.note(note{PID: os.Getpid(), Waits: true}); err != nil {
		return nil, err
	}
	for begin := time.Now(); ; {
		w, err := c.scene.World()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.scene.sleep() // ends the process
		case err != nil:
			return nil, err
		}
		if i := w.fault(c.args); i >= 0 && w.Faults[i].Kind == Down {
			return nil, debug("Custom { kind: Other, error: EmptyResponse }")
		}
		if result, err := f(w, time.Now()); result != nil || err != nil {
			return result, err
		}
		// Many may wait at the same time, but most tests do not wait long.
		time.Sleep(min(5*time.Millisecond+time.Since(begin)/20, 50*time.Millisecond))
	}
}
