package herdrcli

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
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
	Cwd         string `json:"cwd"`

	// Changes counts changes of the state, as the JSON value that it is. Older
	// versions have none.
	Changes Raw     `json:"state_change_seq"`
	Session Session `json:"agent_session"`
	// Cursor is Changes as the number that it is in newer versions, or 0. One
	// counter of the server feeds all agents: it only grows, but not by one.
	Cursor int64 `json:"-"`
}

// UnmarshalJSON reads Herdr's record.
func (a *Agent) UnmarshalJSON(record []byte) error {
	type plain Agent
	var p plain
	if err := json.Unmarshal(record, &p); err != nil {
		return err
	}
	*a = Agent(p)
	if n, err := strconv.ParseInt(string(a.Changes), 10, 64); err == nil {
		a.Cursor = n
	}
	return nil
}

// Raw is a JSON value as it stands in Herdr's answer, whatever its type.
type Raw string

// UnmarshalJSON takes every value.
func (r *Raw) UnmarshalJSON(value []byte) error {
	*r = Raw(value)
	return nil
}

// A Session says where the agent's host keeps the conversation, if an integration
// has reported that. Anyone in the pane can report anything.
type Session struct {
	Source string `json:"source"` // who reported it, such as herdr:claude
	Agent  string `json:"agent"`
	Kind   string `json:"kind"` // of Value: id or path
	Value  string `json:"value"`
}

// UnmarshalJSON takes every value: one that is no such object is no session.
func (s *Session) UnmarshalJSON(value []byte) error {
	type plain Session
	var p plain
	if json.Unmarshal(value, &p) != nil {
		p = plain{}
	}
	*s = Session(p)
	return nil
}

// A Pane is Herdr's record of a pane, as far as it is needed here.
type Pane struct {
	ID          string `json:"pane_id"`
	TerminalID  string `json:"terminal_id"`
	TabID       string `json:"tab_id"`
	WorkspaceID string `json:"workspace_id"`
	Agent       string `json:"agent"` // the kind of the one that runs there, or ""
}

// A Tab is Herdr's record of a tab, as far as it is needed here.
type Tab struct {
	ID    string `json:"tab_id"`
	Label string `json:"label"`
}

// answer is the "result" of a call that went well.
type answer struct {
	Type   string
	Agent  *Agent
	Agents *[]Agent
	Pane   *Pane
	Tab    *Tab
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

// ErrNoAgent: Herdr sees no agent in that pane.
var ErrNoAgent = errors.New("no agent in that pane")

// AgentIn returns the agent in the pane with that id, which may be one from
// before a move: a process whose pane was moved to another workspace keeps its
// old id, which Herdr's pane commands still take and its agent commands do not.
// One that belongs to no workspace is ErrNoAgent, too.
func (c *Client) AgentIn(ctx context.Context, pane string) (Agent, error) {
	a, err := c.exactly(ctx, pane)
	if !errors.Is(err, ErrNoAgent) {
		return a, err
	}
	p, err := c.PaneGet(ctx, pane)
	if Code(err) == "pane_not_found" || err == nil && p.ID == pane {
		return Agent{}, ErrNoAgent
	}
	if err != nil {
		return Agent{}, err
	}
	return c.exactly(ctx, p.ID)
}

// exactly reads the agent in that pane. (agent get takes names as well, so the
// record counts only if it is the pane's.)
func (c *Client) exactly(ctx context.Context, pane string) (Agent, error) {
	a, err := c.AgentGet(ctx, pane)
	if Code(err) == "agent_not_found" || err == nil && (a.PaneID != pane || a.WorkspaceID == "") {
		return Agent{}, ErrNoAgent
	}
	return a, err
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
// it returns before that. A text that begins with "-" is no option, but for those
// that are ErrReserved. If it fails with anything but ErrRefused and Error.Started
// is set, the text may have arrived.
func (c *Client) AgentPrompt(ctx context.Context, target, text string) error {
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

// TabGet returns the tab with that id. Herdr's code for none: tab_not_found.
func (c *Client) TabGet(ctx context.Context, tab string) (Tab, error) {
	a, err := c.call(ctx, "tab_info", func(a *answer) bool { return a.Tab != nil && a.Tab.ID != "" }, "tab get", 0, tab)
	if err != nil {
		return Tab{}, err
	}
	return *a.Tab, nil
}

// PaneClose closes the pane and kills what runs in it.
func (c *Client) PaneClose(ctx context.Context, pane string) error {
	_, err := c.call(ctx, "ok", func(*answer) bool { return true }, "pane close", 0, pane)
	return err
}

// AgentRead returns the last lines of the screen of the agent in that pane, at
// most 4 MiB, as text.
func (c *Client) AgentRead(ctx context.Context, pane string, lines int) (string, error) {
	return c.read(ctx, "agent read", pane, lines)
}

// PaneRead is AgentRead for a pane that need not have an agent.
func (c *Client) PaneRead(ctx context.Context, pane string, lines int) (string, error) {
	return c.read(ctx, "pane read", pane, lines)
}

func (c *Client) read(ctx context.Context, command, pane string, lines int) (text string, err error) {
	if strings.HasPrefix(pane, "-") { // Herdr would take it for an option
		return "", &Error{Command: command, Exit: -1, Err: ErrOutput}
	}
	err = c.run(ctx, func(stdout []byte) bool {
		text = string(stdout)
		return true
	}, command, 0, pane, "--source", "visible", "--lines", strconv.Itoa(lines), "--format", "text")
	return text, err
}
