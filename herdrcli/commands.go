package herdrcli

import (
	"context"
	"encoding/json"
	"strings"
)

// An Agent is Herdr's record of an agent in a pane, as far as it is needed
// here. Ids are opaque; a missing value is "".
type Agent struct {
	Name        string `json:"name"`  // absent until somebody names the agent
	Kind        string `json:"agent"` // such as claude
	Status      string `json:"agent_status"`
	PaneID      string `json:"pane_id"`
	WorkspaceID string `json:"workspace_id"`
	TerminalID  string `json:"terminal_id"`
}

// A Pane is Herdr's record of a pane, as far as it is needed here.
type Pane struct {
	ID string `json:"pane_id"`
}

// answer is the "result" of a call that went well.
type answer struct {
	Type   string
	Agent  *Agent
	Agents *[]Agent
	Pane   *Pane
}

// call runs a command and decodes its one line of JSON. A result of another
// type than want, or one that complete does not find whole, is ErrOutput.
func (c *Client) call(ctx context.Context, want string, complete func(*answer) bool, command string, secret int, args ...string) (*answer, error) {
	for _, target := range args[:len(args)-secret] {
		if strings.HasPrefix(target, "-") { // Herdr would take it for an option
			return nil, &Error{Command: command, Exit: -1, Err: ErrOutput}
		}
	}
	var a struct{ Result answer }
	read := func(stdout []byte) bool {
		return json.Unmarshal(stdout, &a) == nil && a.Result.Type == want && complete(&a.Result)
	}
	if err := c.run(ctx, read, command, secret, args...); err != nil {
		return nil, err
	}
	return &a.Result, nil
}

func hasAgent(a *answer) bool { return a.Agent != nil && a.Agent.PaneID != "" }

// AgentGet returns the agent with that name or current pane id, in whatever
// workspace. Herdr's code for none: agent_not_found.
func (c *Client) AgentGet(ctx context.Context, target string) (Agent, error) {
	a, err := c.call(ctx, "agent_info", hasAgent, "agent get", 0, target)
	if err != nil {
		return Agent{}, err
	}
	return *a.Agent, nil
}

// AgentList returns the agents of all workspaces.
func (c *Client) AgentList(ctx context.Context) ([]Agent, error) {
	a, err := c.call(ctx, "agent_list", func(a *answer) bool { return a.Agents != nil }, "agent list", 0)
	if err != nil {
		return nil, err
	}
	return *a.Agents, nil
}

// AgentPrompt types text into the agent's pane, and Enter some 300 ms later;
// it returns before that. text must not begin with "-". If it fails with
// anything but ErrRefused and Error.Started is set, the text may have arrived.
func (c *Client) AgentPrompt(ctx context.Context, target, text string) error {
	if strings.HasPrefix(text, "-") {
		return &Error{Command: "agent prompt", Exit: -1, Err: ErrOutput}
	}
	_, err := c.call(ctx, "agent_prompted", hasAgent, "agent prompt", 1, target, text)
	return err
}

// AgentRename names the agent in that pane. Herdr's codes: agent_name_taken,
// agent_not_found, agent_launch_pending, invalid_agent_name.
func (c *Client) AgentRename(ctx context.Context, pane, name string) error {
	_, err := c.call(ctx, "agent_info", hasAgent, "agent rename", 0, pane, name)
	return err
}

// PaneGet returns the pane with that id; an id from before a move will do, and
// the answer has the current one. Herdr's code for none: pane_not_found.
func (c *Client) PaneGet(ctx context.Context, pane string) (Pane, error) {
	a, err := c.call(ctx, "pane_info", func(a *answer) bool { return a.Pane != nil && a.Pane.ID != "" }, "pane get", 0, pane)
	if err != nil {
		return Pane{}, err
	}
	return *a.Pane, nil
}

// PaneClose closes the pane and kills what runs in it.
func (c *Client) PaneClose(ctx context.Context, pane string) error {
	_, err := c.call(ctx, "ok", func(*answer) bool { return true }, "pane close", 0, pane)
	return err
}
