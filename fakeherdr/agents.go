package fakeherdr

import (
	"fmt"
	"strings"
	"time"
)

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

func (c *call) parseAgentPrompt(cmd command, args []string) (request, error) {
	switch len(args) {
	case 0:
		return request{}, usage(cmd.usage)
	case 1:
		return request{}, usage("agent prompt requires text")
	}
	wait, err := parsePromptOptions(args[2:])
	if err != nil {
		return request{}, err
	}
	target, text := args[0], args[1]
	return request{writes: true, run: func(s *Scene, w *World, now time.Time) (any, error) {
		p, err := w.agent(target, now)
		if err != nil && (text != "" || wait != nil) {
			return nil, err
		}
		if text == "" { // looked at before the target, unless somebody waits for it
			return nil, failure{"empty_agent_prompt", "agent prompt must not be empty"}
		}
		if err := w.promptable(p, target); err != nil {
			return nil, err
		}
		in := input{At: now, Text: text, Enter: w.EnterDelay, NoPaste: p.Agent.NoPaste}
		if err := appendLine(s.inputFile(p.Terminal), in); err != nil {
			return nil, err
		}
		if wait != nil {
			after := w.promptWait(p, target, *wait, now)
			return pending(func() (any, error) { return c.waitForPrompt(after) }), nil
		}
		return agentResult{recordAgent(p), "agent_prompted"}, nil
	}}, nil
}

// parsePromptOptions returns nil if nobody is to wait.
func parsePromptOptions(args []string) (*waitOptions, error) {
	var wait bool
	var o waitOptions
	known := options{"--wait": flag(&wait, true), "--until": until(&o.until), "--timeout": timeout(&o.timeout)}
	switch err := known.parse(args); {
	case err != nil:
		return nil, err
	case wait:
		return &o, nil
	case o.until != nil:
		return nil, usage("--until requires --wait")
	case o.timeout != nil:
		return nil, usage("--timeout requires --wait")
	}
	return nil, nil
}

// promptable says why a detected agent cannot be prompted.
func (w *World) promptable(p *Pane, target string) error {
	switch {
	case p.Agent.LaunchPending || !knownKind(p.Agent.Kind):
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
		} else if err := checkName(name); err != nil {
			return nil, err
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

func checkName(name string) error {
	if !validName(name) {
		return failure{"invalid_agent_name", "agent name must start with a lowercase letter and contain only lowercase letters, digits, '-' or '_' (1-32 characters)"}
	}
	return nil
}

// free says why an agent cannot have a name: names are unique in a scene.
func (w *World) free(name string, p *Pane) error {
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
