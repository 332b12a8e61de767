package fakeherdr

import (
	"cmp"
	"strings"
)

// Herdr sorts its keys, so the fields of these structs are in that order.
type (
	agentRecord struct {
		Agent            string   `json:"agent,omitempty"`
		AgentSession     *Session `json:"agent_session,omitempty"`
		AgentStatus      string   `json:"agent_status"`
		Cwd              string   `json:"cwd"`
		Focused          bool     `json:"focused"`
		ForegroundCwd    string   `json:"foreground_cwd"`
		InteractiveReady bool     `json:"interactive_ready,omitempty"`
		LaunchPending    bool     `json:"launch_pending,omitempty"`
		Name             string   `json:"name,omitempty"`
		PaneID           string   `json:"pane_id"`
		Revision         int      `json:"revision"`
		StateChangeSeq   int      `json:"state_change_seq"`
		TabID            string   `json:"tab_id"`
		TerminalID       string   `json:"terminal_id"`
		Title            string   `json:"terminal_title,omitempty"`
		TitleStripped    string   `json:"terminal_title_stripped,omitempty"`
		WorkspaceID      string   `json:"workspace_id"`
	}
	paneRecord struct {
		Agent         string `json:"agent,omitempty"`
		AgentStatus   string `json:"agent_status"`
		Cwd           string `json:"cwd"`
		Focused       bool   `json:"focused"`
		ForegroundCwd string `json:"foreground_cwd"`
		Label         string `json:"label,omitempty"`
		PaneID        string `json:"pane_id"`
		Revision      int    `json:"revision"`
		Scroll        scroll `json:"scroll"`
		TabID         string `json:"tab_id"`
		TerminalID    string `json:"terminal_id"`
		Title         string `json:"terminal_title,omitempty"`
		TitleStripped string `json:"terminal_title_stripped,omitempty"`
		WorkspaceID   string `json:"workspace_id"`
	}
	workspaceRecord struct {
		ActiveTabID string `json:"active_tab_id"`
		AgentStatus string `json:"agent_status"`
		Focused     bool   `json:"focused"`
		Label       string `json:"label"`
		Number      int    `json:"number"`
		PaneCount   int    `json:"pane_count"`
		TabCount    int    `json:"tab_count"`
		WorkspaceID string `json:"workspace_id"`
	}
	tabRecord struct {
		AgentStatus string `json:"agent_status"`
		Focused     bool   `json:"focused"`
		Label       string `json:"label"`
		Number      int    `json:"number"`
		PaneCount   int    `json:"pane_count"`
		TabID       string `json:"tab_id"`
		WorkspaceID string `json:"workspace_id"`
	}
	layoutRecord struct {
		Area          rect          `json:"area"`
		FocusedPaneID string        `json:"focused_pane_id"`
		Panes         []placeRecord `json:"panes"`
		Splits        []splitRecord `json:"splits"`
		TabID         string        `json:"tab_id"`
		WorkspaceID   string        `json:"workspace_id"`
		Zoomed        bool          `json:"zoomed"`
	}
	placeRecord struct {
		Focused bool   `json:"focused"`
		PaneID  string `json:"pane_id"`
		Rect    rect   `json:"rect"`
	}
	splitRecord struct {
		Direction string  `json:"direction"`
		ID        string  `json:"id"`
		Ratio     float32 `json:"ratio"`
		Rect      rect    `json:"rect"`
	}
	rect struct {
		Height int `json:"height"`
		Width  int `json:"width"`
		X      int `json:"x"`
		Y      int `json:"y"`
	}
	readRecord struct {
		Format      string `json:"format"`
		PaneID      string `json:"pane_id"`
		Revision    int    `json:"revision"` // always 0
		Source      string `json:"source"`
		TabID       string `json:"tab_id"`
		Text        string `json:"text"`
		Truncated   bool   `json:"truncated"`
		WorkspaceID string `json:"workspace_id"`
	}
	scroll struct {
		Max    int `json:"max_offset_from_bottom"`
		Offset int `json:"offset_from_bottom"`
		Rows   int `json:"viewport_rows"`
	}

	agentResult struct {
		Agent agentRecord `json:"agent"`
		Type  string      `json:"type"`
	}
	agentsResult struct {
		Agents []agentRecord `json:"agents"`
		Type   string        `json:"type"`
	}
	paneResult struct {
		Pane paneRecord `json:"pane"`
		Type string     `json:"type"`
	}
	panesResult struct {
		Panes []paneRecord `json:"panes"`
		Type  string       `json:"type"`
	}
	layoutResult struct {
		Layout layoutRecord `json:"layout"`
		Type   string       `json:"type"`
	}
	tabResult struct {
		Tab  tabRecord `json:"tab"`
		Type string    `json:"type"`
	}
	tabsResult struct {
		Tabs []tabRecord `json:"tabs"`
		Type string      `json:"type"`
	}
	workspaceResult struct {
		Type      string          `json:"type"`
		Workspace workspaceRecord `json:"workspace"`
	}
	workspacesResult struct {
		Type       string            `json:"type"`
		Workspaces []workspaceRecord `json:"workspaces"`
	}
	createdResult struct {
		RootPane  paneRecord       `json:"root_pane"`
		Tab       tabRecord        `json:"tab"`
		Type      string           `json:"type"`
		Workspace *workspaceRecord `json:"workspace,omitempty"`
	}
	startedResult struct {
		Agent agentRecord `json:"agent"`
		Argv  []string    `json:"argv"`
		Type  string      `json:"type"`
	}
	matchedResult struct {
		MatchedLine string     `json:"matched_line"`
		PaneID      string     `json:"pane_id"`
		Read        readRecord `json:"read"`
		Revision    int        `json:"revision"` // always 0
		Type        string     `json:"type"`
	}
	okResult struct {
		Type string `json:"type"`
	}
)

func recordAgent(p *Pane) agentRecord {
	return agentRecord{
		Agent:            p.Agent.Kind,
		AgentSession:     p.Agent.Session,
		AgentStatus:      p.Agent.Status,
		Cwd:              p.Cwd,
		Focused:          p.Focused,
		ForegroundCwd:    cmp.Or(p.Front, p.Cwd),
		InteractiveReady: p.Agent.Started && !p.Agent.LaunchPending,
		LaunchPending:    p.Agent.LaunchPending,
		Name:             p.Agent.Name,
		PaneID:           p.ID,
		Revision:         p.Revision,
		StateChangeSeq:   p.Agent.StateChangeSeq,
		TabID:            p.Tab,
		TerminalID:       p.Terminal,
		Title:            p.Title,
		TitleStripped:    stripped(p.Title),
		WorkspaceID:      p.Workspace,
	}
}

func recordPane(p *Pane, detected bool) paneRecord {
	r := paneRecord{
		Cwd:           p.Cwd,
		Focused:       p.Focused,
		ForegroundCwd: cmp.Or(p.Front, p.Cwd),
		Label:         p.Label,
		PaneID:        p.ID,
		Revision:      p.Revision,
		Scroll:        scroll{Max: max(0, len(p.lines())-p.Rows), Rows: p.Rows},
		TabID:         p.Tab,
		TerminalID:    p.Terminal,
		Title:         p.Title,
		TitleStripped: stripped(p.Title),
		WorkspaceID:   p.Workspace,
	}
	r.AgentStatus = p.shown(detected)
	if detected {
		r.Agent = p.Agent.Kind
	}
	return r
}

// shown is the state that a pane shows, even a shell.
func (p *Pane) shown(detected bool) string {
	switch {
	case detected:
		return p.Agent.Status
	case p.LastStatus != "":
		return p.LastStatus
	}
	return Unknown
}

// stripped is a title without the sign of activity that agents put before it.
func stripped(title string) string {
	return strings.TrimLeftFunc(title, func(r rune) bool {
		return r == ' ' || r == '✳' || r >= 0x2800 && r <= 0x28ff // braille: spinners
	})
}
