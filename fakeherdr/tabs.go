package fakeherdr

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func parseTabList(_ command, args []string) (request, error) {
	var workspace string
	if err := (options{"--workspace": text(&workspace)}).parse(args); err != nil {
		return request{}, err
	}
	return request{run: func(_ *Scene, w *World, now time.Time) (any, error) {
		list, err := w.workspaces(workspace)
		if err != nil {
			return nil, err
		}
		tabs := []tabRecord{} // [], not null
		for _, ws := range list {
			for _, tab := range w.tabs(ws) {
				tabs = append(tabs, w.recordTab(tab, now))
			}
		}
		return tabsResult{tabs, "tab_list"}, nil
	}}, nil
}

func parseTabGet(c command, args []string) (request, error) {
	if len(args) != 1 {
		return request{}, usage(c.usage)
	}
	return request{run: func(_ *Scene, w *World, now time.Time) (any, error) {
		if !slices.ContainsFunc(w.Panes, func(p *Pane) bool { return p.Tab == args[0] }) {
			return nil, failure{"tab_not_found", "tab " + args[0] + " not found"}
		}
		return tabResult{w.recordTab(args[0], now), "tab_info"}, nil
	}}, nil
}

func (c *call) parseTabCreate(_ command, args []string) (request, error) {
	var at place
	var workspace string
	known := at.options()
	known["--label"], known["--workspace"] = text(&at.label), text(&workspace)
	if err := known.parse(args); err != nil {
		return request{}, err
	}
	return request{writes: true, run: func(_ *Scene, w *World, now time.Time) (any, error) {
		if workspace == "" {
			if w.focused() == nil {
				return nil, failure{"workspace_not_found", "no active workspace"}
			}
			workspace = w.focused().Workspace
		}
		ws, err := w.workspaceTarget(workspace)
		if err != nil {
			return nil, err
		}
		p := w.open(ws, c.directory(at.cwd, w.tabFocus(w.activeTab(ws))))
		if at.label != "" {
			ws.keepTab(p.Tab).Label = at.label
		}
		if at.focus {
			w.focus(p)
		}
		return createdResult{recordPane(p, false), w.recordTab(p.Tab, now), "tab_created", nil}, nil
	}}, nil
}

// tabs returns the ids of a workspace's tabs, in their order on the screen: they
// are never moved, so it is that of their numbers.
func (w *World) tabs(ws *Workspace) []string {
	var tabs []string
	for _, p := range w.Panes {
		if p.Workspace == ws.ID && !slices.Contains(tabs, p.Tab) {
			tabs = append(tabs, p.Tab)
		}
	}
	slices.SortFunc(tabs, func(a, b string) int { return cmp.Compare(tabNumber(a), tabNumber(b)) })
	return tabs
}

func tabNumber(tab string) int {
	_, number, _ := strings.Cut(tab, ":t")
	return decodeNumber(number)
}

// tab returns what is written down about a tab; nobody may change it.
func (ws *Workspace) tab(id string) *Tab {
	for _, t := range ws.Tabs {
		if t.ID == id {
			return t
		}
	}
	return &Tab{ID: id}
}

// keepTab returns it so that it can be changed.
func (ws *Workspace) keepTab(id string) *Tab {
	t := ws.tab(id)
	if !slices.Contains(ws.Tabs, t) {
		ws.Tabs = append(ws.Tabs, t)
	}
	return t
}

// tabOwner is the workspace of a tab that has a pane.
func (w *World) tabOwner(tab string) *Workspace {
	workspace, _, _ := strings.Cut(tab, ":")
	return w.workspace(workspace)
}

func (w *World) recordTab(tab string, now time.Time) tabRecord {
	ws := w.tabOwner(tab)
	r := tabRecord{
		Focused:     w.focused() != nil && w.focused().Tab == tab,
		Label:       ws.tab(tab).Label,
		Number:      tabNumber(tab),
		TabID:       tab,
		WorkspaceID: ws.ID,
	}
	if r.Label == "" {
		r.Label = strconv.Itoa(slices.Index(w.tabs(ws), tab) + 1)
	}
	r.PaneCount, r.AgentStatus = w.sum(func(p *Pane) bool { return p.Tab == tab }, now)
	return r
}

// focused is the pane that a person at the screen types into, or nil.
func (w *World) focused() *Pane {
	for _, p := range w.Panes {
		if p.Focused {
			return p
		}
	}
	return nil
}

// activeTab is the one that a workspace shows.
func (w *World) activeTab(ws *Workspace) string {
	tabs := w.tabs(ws)
	switch p := w.focused(); {
	case p != nil && p.Workspace == ws.ID:
		return p.Tab
	case slices.Contains(tabs, ws.ActiveTab):
		return ws.ActiveTab
	case len(tabs) > 0:
		return tabs[0]
	}
	return ""
}

// tabFocus is the pane that has the focus when its tab is shown, or nil if there
// is no such tab.
func (w *World) tabFocus(tab string) *Pane {
	if p := w.focused(); p != nil && p.Tab == tab {
		return p
	}
	ws := w.tabOwner(tab)
	if ws == nil {
		return nil
	}
	if p := w.terminal(ws.tab(tab).Focus); p != nil && p.Tab == tab {
		return p
	}
	for _, p := range w.Panes {
		if p.Tab == tab {
			return p
		}
	}
	return nil
}

// focus gives p the focus, and remembers where it was. What was done in its tab
// has then been seen.
func (w *World) focus(p *Pane) {
	if old := w.focused(); old != nil {
		ws := w.workspace(old.Workspace)
		ws.ActiveTab, ws.keepTab(old.Tab).Focus = old.Tab, old.Terminal
		old.Focused = false
	}
	p.Focused = true
	for _, q := range w.Panes {
		if q.Tab == p.Tab && q.status() == Done {
			q.Agent.Status = Idle
		}
	}
}

// terminal returns the live pane with that terminal, or nil.
func (w *World) terminal(id string) *Pane {
	for _, p := range w.Panes {
		if p.Terminal == id {
			return p
		}
	}
	return nil
}
