package fakeherdr

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A command is a row of the table: what later toolsets need is added there.
type command struct {
	words []string // how argv begins
	usage string

	// parse looks at the arguments after words. A [usage] error is a wrong
	// command line; the request is what the server is asked for.
	parse func(c command, args []string) (request, error)
}

// A request does its work on the world, under the scene's lock if it writes,
// and returns the result to print. A [failure] is Herdr's refusal.
type request struct {
	writes bool
	run    func(s *Scene, w *World, now time.Time) (any, error)
}

func commands() []command {
	return []command{
		{[]string{"agent", "list"}, "usage: herdr agent list", parseAgentList},
		{[]string{"agent", "get"}, "usage: herdr agent get <target>", parseAgentGet},
		{[]string{"agent", "prompt"}, "usage: herdr agent prompt <target> <text> [--wait] [--until STATUS]... [--timeout MS]", parseAgentPrompt},
		{[]string{"agent", "rename"}, "usage: herdr agent rename <target> <name>|--clear", parseAgentRename},
		{[]string{"pane", "get"}, "usage: herdr pane get <pane_id>", parsePaneGet},
		{[]string{"pane", "close"}, "usage: herdr pane close <pane_id>", parsePaneClose},
		{[]string{"pane", "process-info"}, "", parseProcessInfo},
	}
}

// id is what Herdr's client calls its request.
func (c command) id() string {
	return "cli:" + strings.ReplaceAll(strings.Join(c.words, ":"), "-", "_")
}

func parseAgentList(c command, args []string) (request, error) {
	if len(args) != 0 {
		return request{}, usage(c.usage)
	}
	return request{run: func(_ *Scene, w *World, now time.Time) (any, error) {
		agents := []agentRecord{} // [], not null
		for _, ws := range w.Workspaces {
			for _, p := range w.Panes {
				if p.Workspace == ws.ID && p.detected(now) {
					agents = append(agents, recordAgent(p))
				}
			}
		}
		return agentsResult{agents, "agent_list"}, nil
	}}, nil
}

func parseAgentGet(c command, args []string) (request, error) {
	if len(args) != 1 {
		return request{}, usage(c.usage)
	}
	return request{run: func(_ *Scene, w *World, now time.Time) (any, error) {
		p, err := w.agent(args[0], now)
		if err != nil {
			return nil, err
		}
		return agentResult{recordAgent(p), "agent_info"}, nil
	}}, nil
}

// agent resolves the target of an agent command.
func (w *World) agent(target string, now time.Time) (*Pane, error) {
	p := w.agentTarget(target, now)
	if p == nil {
		return nil, failure{"agent_not_found", "agent target " + target + " not found"}
	}
	return p, nil
}

func parseAgentPrompt(c command, args []string) (request, error) {
	switch len(args) {
	case 0:
		return request{}, usage(c.usage)
	case 1:
		return request{}, usage("agent prompt requires text")
	}
	if err := checkPromptOptions(args[2:]); err != nil {
		return request{}, err
	}
	target, text := args[0], args[1]
	return request{writes: true, run: func(s *Scene, w *World, now time.Time) (any, error) {
		p, err := w.agent(target, now)
		if err != nil {
			return nil, err
		}
		if text == "" {
			return nil, failure{"empty_agent_prompt", "agent prompt must not be empty"}
		}
		if err := w.promptable(p, target); err != nil {
			return nil, err
		}
		err = appendLine(s.inputFile(p.Terminal), input{At: now, Text: text, Enter: w.EnterDelay, NoPaste: p.Agent.NoPaste})
		return agentResult{recordAgent(p), "agent_prompted"}, err
	}}, nil
}

// checkPromptOptions knows the options; nothing here waits for anybody.
func checkPromptOptions(args []string) error {
	var wait, until, timeout bool
	for len(args) > 0 {
		option := args[0]
		args = args[1:]
		if option == "--wait" {
			wait = true
			continue
		}
		if option != "--until" && option != "--timeout" {
			return usage("unknown option: " + option)
		}
		if len(args) == 0 {
			return usage("missing value for " + option)
		}
		value := args[0]
		args = args[1:]
		if option == "--until" {
			until = true
			if !slices.Contains([]string{Idle, Working, Blocked, Done, Unknown}, value) {
				return usage("invalid agent status: " + value + " (expected idle, working, blocked, done, or unknown)")
			}
			continue
		}
		timeout = true
		if _, err := strconv.ParseUint(value, 10, 64); err != nil {
			return usage("invalid value for --timeout: " + value)
		}
	}
	switch {
	case until && !wait:
		return usage("--until requires --wait")
	case timeout && !wait:
		return usage("--timeout requires --wait")
	}
	return nil
}

// promptable says why a detected agent cannot be prompted.
func (w *World) promptable(p *Pane, target string) error {
	known := slices.Contains(strings.Split(kinds, "|"), p.Agent.Kind)
	switch {
	case p.Agent.LaunchPending || !known:
		return failure{"agent_not_ready", "agent " + target + " is not an active named agent"}
	case !p.Agent.Ready:
		return failure{"agent_not_ready", "agent " + target + " is no longer the pane foreground process"}
	case p.Agent.Status == Blocked && w.Version != "0.8":
		return failure{"agent_blocked", "agent " + target + " is blocked"} // the words are ours: 0.9 was never captured
	}
	return nil
}

func parseAgentRename(c command, args []string) (request, error) {
	if len(args) != 2 {
		return request{}, usage(c.usage)
	}
	target, name := args[0], args[1]
	return request{writes: true, run: func(_ *Scene, w *World, now time.Time) (any, error) {
		p, err := w.agent(target, now)
		if err != nil {
			return nil, err
		}
		if name == "--clear" {
			name = ""
		} else if err := w.free(name, p); err != nil {
			return nil, err
		}
		if p.Agent.LaunchPending {
			return nil, failure{"agent_launch_pending", "agent name cannot change while startup is pending"}
		}
		p.Agent.Name = name
		return agentResult{recordAgent(p), "agent_info"}, nil
	}}, nil
}

// free says why an agent cannot have a name: names are unique in a scene.
func (w *World) free(name string, p *Pane) error {
	if !validName(name) {
		return failure{"invalid_agent_name", "agent name must start with a lowercase letter and contain only lowercase letters, digits, '-' or '_' (1-32 characters)"}
	}
	for _, q := range w.Panes {
		if q != p && q.Agent != nil && q.Agent.Name == name {
			return failure{"agent_name_taken", fmt.Sprintf(
				"agent name %s is already used; candidates: terminal_id=%s pane_id=%s workspace_id=%s tab_id=%s cwd=%s status=%s",
				name, q.Terminal, q.ID, q.Workspace, q.Tab, q.Cwd, strings.ToUpper(q.Agent.Status[:1])+q.Agent.Status[1:])}
		}
	}
	return nil
}

func validName(name string) bool {
	const first, rest = "abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyz0123456789-_"
	return name != "" && len(name) <= 32 && strings.Contains(first, name[:1]) && strings.Trim(name, rest) == ""
}

func parsePaneGet(c command, args []string) (request, error) {
	if len(args) != 1 {
		return request{}, usage(c.usage)
	}
	return request{run: func(_ *Scene, w *World, now time.Time) (any, error) {
		p, err := w.pane(args[0])
		if err != nil {
			return nil, err
		}
		return paneResult{recordPane(p, p.detected(now)), "pane_info"}, nil
	}}, nil
}

func parsePaneClose(c command, args []string) (request, error) {
	if len(args) != 1 {
		return request{}, usage(c.usage)
	}
	return request{writes: true, run: func(_ *Scene, w *World, now time.Time) (any, error) {
		p, err := w.pane(args[0])
		if err != nil {
			return nil, err
		}
		w.close(p)
		return okResult{"ok"}, nil
	}}, nil
}

// pane resolves the target of a pane command.
func (w *World) pane(target string) (*Pane, error) {
	p := w.paneTarget(target)
	if p == nil {
		return nil, failure{"pane_not_found", "pane " + target + " not found"}
	}
	return p, nil
}
