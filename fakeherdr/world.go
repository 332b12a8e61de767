package fakeherdr

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The states an agent can be in, as Herdr writes them.
const (
	Idle    = "idle"
	Working = "working"
	Blocked = "blocked"
	Done    = "done"
	Unknown = "unknown"
)

// A World is everything a scene's server knows. Change it in [Scene.Update];
// pointers into it are valid until that function returns, or for as long as
// one likes in the snapshot of [Scene.World].
type World struct {
	Version    string        // "0.8", or "0.9": prompts to blocked agents are refused
	Client     string        // what the program says of its own version; empty: Version and ".0"
	EnterDelay time.Duration // from a prompt's text to its Enter; 0: no pause at all
	StartDelay time.Duration // from agent start to an agent that can be prompted; the real one takes 3 s
	StallAfter time.Duration // how long a waiting prompt gives an agent to do anything; 0: 5 s, as the real one
	Haste      int           `json:",omitempty"` // a --timeout, and StallAfter, are this many times shorter; 0: as given

	Workspaces []*Workspace
	Panes      []*Pane // in the order in which agent list shows a workspace's panes
	Closed     []*Pane // so that one can ask what they had received

	Faults []Fault // the first that matches a call hits it

	// What agent start really runs for a kind: that kind itself if it is not
	// named here, another one, or "" for a program that is not installed.
	Executables map[string]string `json:",omitempty"`

	// The kinds whose program has a dialog open from its start on, and how long
	// after agent start has begun that is told: the real one takes any agent for
	// idle until 3 s after it has found it, whatever its screen shows.
	Dialogs map[string]time.Duration `json:",omitempty"`

	// What integration status says of an agent that is named here; the others
	// are "not installed".
	Integrations map[string]string `json:",omitempty"`

	NextWorkspace int      // number of the next new workspace: none is used twice
	Seq           int      // counts changes of state over all agents
	Changes       []Change `json:",omitempty"` // the latest of them, written by the scene
}

// A Change is an agent's change of state.
type Change struct {
	Seq      int
	Terminal string
	Status   string
}

// A Workspace is a row of tabs.
type Workspace struct {
	ID    string // "w1"
	Label string

	NextPane, NextTab int // numbers of the next new ones: none is used twice

	Tabs      []*Tab `json:",omitempty"` // what cannot be seen in the panes; one without news has no entry
	ActiveTab string `json:",omitempty"` // the one in front, unless the focused pane is in another; empty: the first
}

// A Tab is what a row of panes has beyond them.
type Tab struct {
	ID     string // "w1:t1"
	Label  string `json:",omitempty"` // empty: its position in the workspace
	Focus  string `json:",omitempty"` // terminal of the pane that has the focus when the tab is in front; empty: the first
	Layout *Node  `json:",omitempty"` // how the panes share the screen; those that are missing here are split off the last
}

// A Node of a layout is a terminal, or a place split in two.
type Node struct {
	Terminal      string  `json:",omitempty"`
	Direction     string  `json:",omitempty"` // "right" or "down": where Second is
	Ratio         float32 `json:",omitempty"` // what First has
	First, Second *Node   `json:",omitempty"`
}

// A Pane is a terminal and its place on the screen.
type Pane struct {
	ID        string   // "w1:p1"
	Workspace string   // "w1"
	Tab       string   // "w1:t1"
	Terminal  string   // "term_" and 14 hex digits; stays through moves
	Aliases   []string // the ids before its moves to other workspaces, oldest first

	Cwd      string
	Front    string `json:",omitempty"` // folder of the program in front; empty: Cwd
	Title    string // the window title; empty: the key is absent
	Label    string
	Rows     int
	Cols     int `json:",omitempty"` // lines are wrapped there; 0: never
	Revision int
	Focused  bool // on one pane of the world

	Text []string `json:",omitempty"` // the terminal's lines, oldest first; the screen shows the last Rows rows of them
	Busy bool     `json:",omitempty"` // the shell runs a command: no agent can be started

	Agent      *Agent // nil: a plain shell
	LastStatus string // what pane get says without an agent; empty: unknown

	Shell      int       // process id of the pane's first process; 0: not known
	Foreground []Process // the first one leads the group

	ClosedAt time.Time // set on those in World.Closed
}

// An Agent is a program that Herdr takes for a coding agent.
type Agent struct {
	Kind   string // "claude"; a kind Herdr does not know cannot be prompted
	Name   string // empty: unnamed
	Status string // Idle, Working, Blocked, Done or Unknown

	DetectedAt    time.Time // before it, agent commands answer agent_not_found
	LaunchPending bool      // agent start has not come to its end
	Started       bool      // agent start has: records say interactive_ready
	Ready         bool      // false: prompt answers agent_not_ready, as for a process just gone
	NoPaste       bool      // no bracketed paste: every newline is a key press
	Launch        *Launch   `json:",omitempty"` // what agent start is waiting for
	BlockedAt     time.Time // from when on it is told that a dialog is open; zero: nothing is to be told

	StateChangeSeq int // written by the scene when Status changes

	Session *Session // as an integration of the agent's host reported it; nil: none did
}

// A Session is where an agent's host keeps the conversation.
type Session struct {
	Agent  string `json:"agent"`
	Kind   string `json:"kind"` // of Value: "id" or "path"
	Source string `json:"source"`
	Value  string `json:"value"`
}

// A Launch is an agent start that has not come to its end.
type Launch struct {
	Runs              string    // the kind that the program turns out to be; "": there is none
	ReadyAt, Deadline time.Time // it is ready, or it is given up
}

// Pane returns the live pane with that id, be it the present one or one from
// before a move, or nil.
func (w *World) Pane(id string) *Pane {
	for _, p := range w.Panes {
		if p.ID == id || slices.Contains(p.Aliases, id) {
			return p
		}
	}
	return nil
}

// AddWorkspace opens a workspace that has no pane yet.
func (w *World) AddWorkspace(label string) *Workspace {
	ws := &Workspace{ID: "w" + encodeNumber(w.NextWorkspace), Label: label, NextPane: 1, NextTab: 1}
	w.NextWorkspace++
	w.Workspaces = append(w.Workspaces, ws)
	return ws
}

// AddPane opens a pane at the end of a workspace's latest tab, with a fresh id
// and a fresh terminal. kind "" is a plain shell; otherwise an agent runs there,
// idle, detected and ready, and with a name ("" for none) as if agent start had
// given it. An unknown workspace is a mistake of the test: AddPane panics.
func (w *World) AddPane(workspace, kind, name string) *Pane {
	ws := w.workspace(workspace)
	if ws == nil {
		panic("fakeherdr: no workspace " + workspace)
	}
	if ws.NextTab == 1 {
		ws.newTab()
	}
	p := w.newPane(ws, fmt.Sprintf("%s:t%s", ws.ID, encodeNumber(ws.NextTab-1)))
	p.Cwd = "/home/user/project/" + ws.Label
	p.Rows = 23
	p.Focused = len(w.Panes) == 0
	w.Panes = append(w.Panes, p)
	w.host(p, kind, name)
	return p
}

// newPane makes a plain shell that is not on the screen yet.
func (w *World) newPane(ws *Workspace, tab string) *Pane {
	return &Pane{ID: ws.newPane(), Workspace: ws.ID, Tab: tab, Terminal: newTerminal()}
}

func newTerminal() string { return fmt.Sprintf("term_%014x", rand.Uint64()>>8) }

// host runs an agent in a pane, unless kind is empty.
func (w *World) host(p *Pane, kind, name string) {
	if kind == "" {
		return
	}
	w.Seq++
	p.Revision = 1
	p.Title = idleTitle(kind)
	p.Agent = &Agent{Kind: kind, Name: name, Status: Idle, Started: name != "", Ready: true, StateChangeSeq: w.Seq}
}

// idleTitle is what the programs behind the captures had as window title.
func idleTitle(kind string) string {
	switch kind {
	case "claude":
		return "✳ ready"
	case "pi":
		return "pi"
	}
	return kind + " ready"
}

// Move takes a pane (by any of its ids) to a new tab of a workspace, as pane
// move --new-tab does. In another workspace it gets a new id; the old one stays
// as an alias for pane commands, agent commands refuse it. Terminal and name
// survive. A workspace without panes closes. Move panics if the pane or the
// workspace does not exist.
func (w *World) Move(pane, workspace string) *Pane {
	p, ws := w.Pane(pane), w.workspace(workspace)
	if p == nil || ws == nil {
		panic(fmt.Sprintf("fakeherdr: cannot move %s to %s", pane, workspace))
	}
	p.Tab = ws.newTab()
	if p.Workspace != ws.ID {
		p.Aliases = append(p.Aliases, p.ID)
		p.ID, p.Workspace = ws.newPane(), ws.ID
	}
	w.Panes = append(slices.DeleteFunc(w.Panes, func(q *Pane) bool { return q == p }), p)
	w.prune()
	return p
}

// Restart is what a stop and a new start of the server leave: the panes with
// their ids, but other terminals with shells in them, no agents, no names, and
// a counter that begins anew. The ids of closed workspaces are used again.
func (w *World) Restart() {
	w.Seq, w.Changes, w.NextWorkspace = 0, nil, 1
	for _, ws := range w.Workspaces {
		w.NextWorkspace = max(w.NextWorkspace, decodeNumber(ws.ID[1:])+1)
	}
	for _, p := range w.Panes {
		p.Terminal, p.Agent, p.LastStatus = newTerminal(), nil, ""
		p.Aliases, p.Text, p.Title, p.Revision, p.Busy = nil, nil, "", 0, false
	}
	for _, ws := range w.Workspaces {
		for _, t := range ws.Tabs {
			t.Focus, t.Layout = "", nil // they name terminals
		}
	}
}

// RunAgent starts an agent in a pane's shell, as AddPane does in a new one.
func (w *World) RunAgent(p *Pane, kind, name string) { w.host(p, kind, name) }

// close takes p off the screen, and its workspace with its last pane.
func (w *World) close(p *Pane) {
	w.Panes = slices.DeleteFunc(w.Panes, func(q *Pane) bool { return q == p })
	w.Closed = append(w.Closed, p)
	if p.Focused && len(w.Panes) > 0 {
		w.Panes[0].Focused = true
	}
	p.Focused, p.ClosedAt = false, time.Now()
	w.prune()
}

// prune forgets what has no pane any more.
func (w *World) prune() {
	w.Workspaces = slices.DeleteFunc(w.Workspaces, func(ws *Workspace) bool {
		return ws.NextPane > 1 && !slices.ContainsFunc(w.Panes, func(p *Pane) bool { return p.Workspace == ws.ID })
	})
	for _, ws := range w.Workspaces {
		ws.Tabs = slices.DeleteFunc(ws.Tabs, func(t *Tab) bool {
			return !slices.ContainsFunc(w.Panes, func(p *Pane) bool { return p.Tab == t.ID })
		})
	}
}

func (w *World) workspace(id string) *Workspace {
	for _, ws := range w.Workspaces {
		if ws.ID == id {
			return ws
		}
	}
	return nil
}

// everPane finds a pane that is or was open.
func (w *World) everPane(id string) *Pane {
	if p := w.Pane(id); p != nil {
		return p
	}
	return (&World{Panes: w.Closed}).Pane(id)
}

// paneTarget finds what pane commands accept: ids, ids from before a move, and
// the old form 1-1.
func (w *World) paneTarget(target string) *Pane {
	if ws, pane, ok := strings.Cut(target, "-"); ok && isNumber(ws) && isNumber(pane) {
		ws, _ := strconv.Atoi(ws)
		pane, _ := strconv.Atoi(pane)
		target = "w" + encodeNumber(ws) + ":p" + encodeNumber(pane)
	}
	return w.Pane(target)
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// agentTarget finds what agent commands accept: exact present pane ids and
// names, of agents that have been detected.
func (w *World) agentTarget(target string, now time.Time) *Pane {
	for _, p := range w.Panes {
		if p.detected(now) && (p.ID == target || target != "" && p.Agent.Name == target) {
			return p
		}
	}
	return nil
}

// detected says whether the server has noticed an agent in p by now.
func (p *Pane) detected(now time.Time) bool {
	return p.Agent != nil && !now.Before(p.Agent.DetectedAt)
}

func (ws *Workspace) newPane() string {
	ws.NextPane++
	return ws.ID + ":p" + encodeNumber(ws.NextPane-1)
}

func (ws *Workspace) newTab() string {
	ws.NextTab++
	return ws.ID + ":t" + encodeNumber(ws.NextTab-1)
}

const digits = "123456789ABCDEFGHJKMNPQRSTVWXYZ0"

// encodeNumber writes a number as Herdr's ids do: base 32 with digits from 1 to
// 32, so that 9 is followed by A, and 0 by 11.
func encodeNumber(n int) string {
	if n <= 0 {
		return "0"
	}
	text := ""
	for ; n > 0; n = (n - 1) / len(digits) {
		text = digits[(n-1)%len(digits):][:1] + text
	}
	return text
}

// decodeNumber is the way back; 0 for what is no number.
func decodeNumber(text string) int {
	n := 0
	for _, r := range text {
		n = n*len(digits) + strings.IndexRune(digits, r) + 1
	}
	return n
}

// standard is the scene in which the captures were taken.
func standard() *World {
	w := &World{
		Version:       "0.8",
		EnterDelay:    300 * time.Millisecond,
		StartDelay:    50 * time.Millisecond,
		StallAfter:    5 * time.Second,
		NextWorkspace: 1,
	}
	api, web := w.AddWorkspace("api"), w.AddWorkspace("web")
	lead := w.AddPane(api.ID, "claude", "lead")
	reviewer := w.split(lead, right, 0.5)
	pi := w.split(lead, down, 0.5) // below lead, left of reviewer: lists follow the layout
	shell := w.split(reviewer, down, 0.5)
	w.host(reviewer, "codex", "reviewer")
	w.host(pi, "pi", "")
	w.AddPane(web.ID, "claude", "builder")
	for _, p := range w.Panes {
		p.Rows = 23 // as they were made; nobody has looked at them since
	}
	shell.Rows = 12
	return w
}
