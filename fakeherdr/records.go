package fakeherdr

import "strings"

// Herdr sorts its keys, so the fields of these structs are in that order.
type (
	agentRecord struct {
		Agent            string `json:"agent"`
		AgentStatus      string `json:"agent_status"`
		Cwd              string `json:"cwd"`
		Focused          bool   `json:"focused"`
		ForegroundCwd    string `json:"foreground_cwd"`
		InteractiveReady bool   `json:"interactive_ready,omitempty"`
		LaunchPending    bool   `json:"launch_pending,omitempty"`
		Name             string `json:"name,omitempty"`
		PaneID           string `json:"pane_id"`
		Revision         int    `json:"revision"`
		StateChangeSeq   int    `json:"state_change_seq"`
		TabID            string `json:"tab_id"`
		TerminalID       string `json:"terminal_id"`
		Title            string `json:"terminal_title,omitempty"`
		TitleStripped    string `json:"terminal_title_stripped,omitempty"`
		WorkspaceID      string `json:"workspace_id"`
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
	okResult struct {
		Type string `json:"type"`
	}
)

func recordAgent(p *Pane) agentRecord {
	return agentRecord{
		Agent:            p.Agent.Kind,
		AgentStatus:      p.Agent.Status,
		Cwd:              p.Cwd,
		Focused:          p.Focused,
		ForegroundCwd:    p.Cwd,
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
		AgentStatus:   p.LastStatus,
		Cwd:           p.Cwd,
		Focused:       p.Focused,
		ForegroundCwd: p.Cwd,
		Label:         p.Label,
		PaneID:        p.ID,
		Revision:      p.Revision,
		Scroll:        scroll{Rows: p.Rows},
		TabID:         p.Tab,
		TerminalID:    p.Terminal,
		Title:         p.Title,
		TitleStripped: stripped(p.Title),
		WorkspaceID:   p.Workspace,
	}
	if detected {
		r.Agent, r.AgentStatus = p.Agent.Kind, p.Agent.Status
	}
	if r.AgentStatus == "" {
		r.AgentStatus = Unknown
	}
	return r
}

// stripped is a title without the sign of activity that agents put before it.
func stripped(title string) string {
	return strings.TrimLeftFunc(title, func(r rune) bool {
		return r == ' ' || r == '✳' || r >= 0x2800 && r <= 0x28ff // braille: spinners
	})
}
