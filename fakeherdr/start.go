package fakeherdr

import (
	"slices"
	"strings"
	"time"
	"unicode"
)

func (c *call) parseAgentStart(cmd command, args []string) (request, error) {
	if len(args) == 0 {
		return request{}, usage(cmd.usage)
	}
	start := agentStart{name: args[0]}
	own := args[1:]
	if i := slices.Index(args, "--"); i >= 0 {
		own, start.args = args[min(1, i):i], args[i+1:]
	}
	ms := new(uint64)
	*ms = 30000
	known := options{"--kind": text(&start.kind), "--pane": text(&start.pane), "--timeout": timeout(&ms)}
	switch err := known.parse(own); {
	case err != nil:
		return request{}, err
	case start.kind == "":
		return request{}, usage("missing required --kind")
	case start.pane == "":
		return request{}, usage("missing required --pane")
	case !knownKind(start.kind):
		return request{}, usage("unsupported interactive agent kind: " + start.kind)
	}
	start.timeout = *ms
	return request{writes: true, run: func(s *Scene, w *World, now time.Time) (any, error) {
		p, err := w.start(start, now)
		if err != nil {
			return nil, err
		}
		in := input{At: now, Text: start.command(), NoPaste: p.noPaste()}
		if err := appendLine(s.inputFile(p.Terminal), in); err != nil {
			return nil, err
		}
		if dialog := !p.Agent.BlockedAt.IsZero(); dialog {
			if err := appendLine(s.inputFile(p.Terminal), input{At: now, Blocked: &dialog}); err != nil {
				return nil, err
			}
		}
		terminal, deadline := p.Terminal, p.Agent.Launch.Deadline
		return pending(func() (any, error) {
			r, err := c.watch(func(w *World, now time.Time) (any, error) { return w.started(start, terminal, deadline, now) })
			agent, _ := r.(agentRecord)
			return startedResult{agent, start.argv(), "agent_started"}, err
		}), nil
	}}, nil
}

func knownKind(kind string) bool { return slices.Contains(strings.Split(kinds, "|"), kind) }

// An agentStart is what a call asks for.
type agentStart struct {
	name, kind, pane string
	args             []string
	timeout          uint64 // milliseconds
}

func (a agentStart) argv() []string {
	program := a.kind
	switch a.kind {
	case "cursor":
		program = "cursor-agent"
	case "kiro":
		program = "kiro-cli"
	}
	return append([]string{program}, a.args...)
}

// command is what the server types into the shell.
func (a agentStart) command() string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%_+=:,./-"
	var words []string
	for _, arg := range a.argv() {
		if arg == "" || strings.Trim(arg, safe) != "" {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

// start begins an agent, or says why it cannot.
func (w *World) start(a agentStart, now time.Time) (*Pane, error) {
	if err := checkName(a.name); err != nil {
		return nil, err
	}
	if strings.ContainsFunc(strings.Join(a.args, ""), unicode.IsControl) {
		return nil, failure{"invalid_agent_argument", "agent arguments cannot be encoded safely for the target shell"}
	}
	if err := w.free(a.name, nil); err != nil {
		return nil, err
	}
	p := w.Pane(a.pane)
	switch {
	case p == nil || p.ID != a.pane:
		return nil, failure{"agent_pane_not_found", "agent target pane " + a.pane + " not found"}
	case p.Agent != nil || p.Busy:
		return nil, failure{"agent_pane_busy", "agent target pane " + a.pane + " is not an available shell"}
	case a.timeout <= 3000 || a.timeout > 300000:
		return nil, failure{"invalid_agent_timeout", "agent start timeout must be greater than 3000ms and at most 300000ms"}
	}
	runs, ok := w.Executables[a.kind]
	if !ok {
		runs = a.kind
	}
	p.Agent = &Agent{Name: a.name, Status: Unknown, LaunchPending: true, Ready: true, Launch: &Launch{
		Runs: runs, ReadyAt: now.Add(w.StartDelay), Deadline: now.Add(w.patience(a.timeout)),
	}}
	if runs == a.kind {
		p.Agent.Kind, p.Agent.Status = a.kind, Idle
		if unseen, asks := w.Dialogs[a.kind]; asks {
			p.Agent.BlockedAt = now.Add(unseen)
		}
	}
	w.count(p)
	return p, nil
}

// settle does what time has done to an agent start.
func (w *World) settle(p *Pane, now time.Time) {
	if a := p.Agent; a != nil && !a.BlockedAt.IsZero() && !now.Before(a.BlockedAt) {
		a.BlockedAt, a.Status = time.Time{}, Blocked
		w.count(p)
	}
	if p.Agent == nil || p.Agent.Launch == nil {
		return
	}
	a, launch := p.Agent, *p.Agent.Launch
	ready := launch.Runs != "" && !now.Before(launch.ReadyAt) && launch.ReadyAt.Before(launch.Deadline)
	if !ready && now.Before(launch.Deadline) {
		return
	}
	a.Launch, a.LaunchPending = nil, false
	if launch.Runs == "" {
		p.Agent = nil
		return
	}
	p.Title = idleTitle(launch.Runs)
	if a.Started = ready && a.Kind == launch.Runs; a.Started {
		return
	}
	a.Name = "" // it is free again
	if a.Kind != launch.Runs {
		a.Kind, a.Status = launch.Runs, Idle
		w.count(p)
	}
}

// started is how a start looks to the client that asked for it: an agent, an
// error, or neither while it has to go on waiting.
func (w *World) started(a agentStart, terminal string, deadline, now time.Time) (any, error) {
	if !now.Before(deadline) {
		return nil, failure{"timeout", "timed out waiting for agent startup"}
	}
	p := w.agentTarget(a.name, now)
	if p == nil {
		p = w.agentTarget(a.pane, now)
	}
	switch {
	case p == nil:
		return nil, nil
	case p.Terminal == terminal && p.Agent.Kind != "" && p.Agent.Kind != a.kind:
		return nil, failure{"agent_kind_mismatch", "expected " + a.kind + ", detected " + p.Agent.Kind}
	case p.Terminal != terminal || p.Agent.Name != a.name:
		return nil, failure{"agent_name_not_found", "named agent " + a.name + " no longer owns the target terminal"}
	case p.Agent.LaunchPending:
		return nil, nil
	case !p.Agent.Started:
		return nil, failure{"agent_start_failed", "agent process exited before becoming interactive"}
	}
	return recordAgent(p), nil
}
