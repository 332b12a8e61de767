package herdrcli

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
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
	// ForegroundCwd is the folder of the program in front, such as one that the
	// agent runs. Older versions do not tell it.
	ForegroundCwd string `json:"foreground_cwd"`

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
	Root   *Pane `json:"root_pane"`
	Panes  *[]Pane
	Tab    *Tab
	Tabs   *[]Tab
}

// call runs a command and decodes its one line of JSON. A result of another
// type than want, or one that complete does not find whole, is ErrOutput.
func (c *Client) call(ctx context.Context, want string, complete func(*answer) bool, command string, secret int, args ...string) (*answer, error) {
	if optional(args[:len(args)-secret]...) {
		return nil, &Error{Command: command, Exit: -1, Err: ErrOutput}
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

// optional reports whether Herdr would take one of the values for an option.
func optional(values ...string) bool {
	return slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(v, "-") })
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

// TabCreate makes a tab of that label in a workspace, which nobody sees come, and
// returns it with its only pane, a shell in the folder. Herdr's code for no such
// workspace: workspace_not_found. If it fails with anything but ErrRefused and
// Error.Started is set, there may be such a tab.
func (c *Client) TabCreate(ctx context.Context, workspace, dir, label string) (Tab, Pane, error) {
	const command = "tab create"
	if optional(workspace, dir, label) {
		return Tab{}, Pane{}, &Error{Command: command, Exit: -1, Err: ErrOutput}
	}
	var a struct{ Result answer }
	err := c.run(ctx, func(stdout []byte) bool {
		r := &a.Result
		return json.Unmarshal(stdout, &a) == nil && r.Type == "tab_created" && r.Tab != nil && r.Tab.ID != "" &&
			r.Root != nil && r.Root.ID != "" && r.Root.TerminalID != ""
	}, command, 0, "--workspace", workspace, "--cwd", dir, "--label", label, "--no-focus")
	if err != nil {
		return Tab{}, Pane{}, err
	}
	return *a.Result.Tab, *a.Result.Root, nil
}

// startMargin is how much longer than the start of an agent its command may take,
// so that Herdr, which goes on asking for the agent, reports the time-out first.
const startMargin = 10 * time.Second

// AgentStart types the command of an agent of that kind, with those arguments,
// into the shell of a pane, names it and waits until it can be prompted, which
// takes 3 s or more. Herdr's codes: agent_pane_busy, agent_pane_not_found,
// agent_name_taken, agent_kind_mismatch, agent_name_not_found, agent_start_failed
// and timeout; after the last the agent may still come up.
func (c *Client) AgentStart(ctx context.Context, name, kind, pane string, timeout time.Duration, args ...string) (Agent, error) {
	const command = "agent start"
	if optional(name, kind, pane) {
		return Agent{}, &Error{Command: command, Exit: -1, Err: ErrOutput}
	}
	argv := []string{name, "--kind", kind, "--pane", pane, "--timeout", strconv.FormatInt(timeout.Milliseconds(), 10)}
	if len(args) > 0 {
		argv = append(append(argv, "--"), args...)
	}
	patient := *c
	patient.timeout = max(c.timeout, timeout+startMargin)
	var a struct{ Result answer }
	err := patient.run(ctx, func(stdout []byte) bool {
		return json.Unmarshal(stdout, &a) == nil && a.Result.Type == "agent_started" && hasAgent(&a.Result)
	}, command, 0, argv...)
	if err != nil {
		return Agent{}, err
	}
	return *a.Result.Agent, nil
}

// Unseen is how long behind an agent start that took so long Herdr may go on to tell
// the agent idle with a dialog on its screen: for 3 s after it has found the agent,
// which it has somewhere between the two ends of the start, it does not look, and
// then it takes a moment more (measured with Herdr 0.8).
func Unseen(took time.Duration) time.Duration { return min(took, 3*time.Second) + time.Second }

// TabsIn returns the tabs of a workspace, each with its id. Herdr's code for no
// such workspace: workspace_not_found.
func (c *Client) TabsIn(ctx context.Context, workspace string) ([]Tab, error) {
	a, err := c.list(ctx, "tab", workspace, func(a *answer) bool {
		return a.Tabs != nil && !slices.ContainsFunc(*a.Tabs, func(t Tab) bool { return t.ID == "" })
	})
	if err != nil {
		return nil, err
	}
	return *a.Tabs, nil
}

// PanesIn returns the panes of a workspace, each with its ids. Herdr's code for no
// such workspace: workspace_not_found.
func (c *Client) PanesIn(ctx context.Context, workspace string) ([]Pane, error) {
	a, err := c.list(ctx, "pane", workspace, func(a *answer) bool {
		return a.Panes != nil && !slices.ContainsFunc(*a.Panes, func(p Pane) bool { return p.ID == "" || p.TerminalID == "" || p.TabID == "" })
	})
	if err != nil {
		return nil, err
	}
	return *a.Panes, nil
}

// list lists what a workspace has of a kind.
func (c *Client) list(ctx context.Context, kind, workspace string, complete func(*answer) bool) (*answer, error) {
	command := kind + " list"
	if strings.HasPrefix(workspace, "-") { // Herdr would take it for an option
		return nil, &Error{Command: command, Exit: -1, Err: ErrOutput}
	}
	var a struct{ Result answer }
	err := c.run(ctx, func(stdout []byte) bool {
		return json.Unmarshal(stdout, &a) == nil && a.Result.Type == kind+"_list" && complete(&a.Result)
	}, command, 0, "--workspace", workspace)
	return &a.Result, err
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
	if optional(pane) {
		return "", &Error{Command: command, Exit: -1, Err: ErrOutput}
	}
	err = c.run(ctx, func(stdout []byte) bool {
		text = string(stdout)
		return true
	}, command, 0, pane, "--source", "visible", "--lines", strconv.Itoa(lines), "--format", "text")
	return text, err
}
