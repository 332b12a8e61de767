package fakeherdr

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

func parseWorkspaceList(c command, args []string) (request, error) {
	if len(args) != 0 {
		return request{}, usage(c.usage)
	}
	return request{run: func(_ *Scene, w *World, now time.Time) (any, error) {
		list := []workspaceRecord{} // [], not null
		for _, ws := range w.Workspaces {
			list = append(list, w.recordWorkspace(ws, now))
		}
		return workspacesResult{"workspace_list", list}, nil
	}}, nil
}

func parseWorkspaceGet(c command, args []string) (request, error) {
	if len(args) != 1 {
		return request{}, usage(c.usage)
	}
	return request{run: func(_ *Scene, w *World, now time.Time) (any, error) {
		ws, err := w.workspaceTarget(args[0])
		if err != nil {
			return nil, err
		}
		return workspaceResult{"workspace_info", w.recordWorkspace(ws, now)}, nil
	}}, nil
}

func (c *call) parseWorkspaceCreate(_ command, args []string) (request, error) {
	var at place
	known := at.options()
	known["--label"] = text(&at.label)
	if err := known.parse(args); err != nil {
		return request{}, err
	}
	return request{writes: true, run: func(_ *Scene, w *World, now time.Time) (any, error) {
		cwd := c.directory(at.cwd, w.focused())
		if at.label == "" {
			at.label = filepath.Base(cwd)
			if cwd == c.getenv("HOME") {
				at.label = "~"
			}
		}
		ws := w.AddWorkspace(at.label)
		p := w.open(ws, cwd)
		if at.focus || w.focused() == nil {
			w.focus(p)
		}
		record := w.recordWorkspace(ws, now)
		return createdResult{recordPane(p, false), w.recordTab(p.Tab, now), "workspace_created", &record}, nil
	}}, nil
}

// directory is where a new shell begins: where it was told to if that exists,
// otherwise at home; without a word, where the shell is that it follows.
func (c *call) directory(cwd string, follows *Pane) string {
	switch info, err := os.Stat(cwd); {
	case cwd == "" && follows != nil:
		return follows.Cwd
	case err == nil && info.IsDir():
		return cwd
	}
	return c.getenv("HOME")
}

// open opens a new tab with one shell, behind all that is there.
func (w *World) open(ws *Workspace, cwd string) *Pane {
	rows := w.rows()
	p := w.newPane(ws, ws.newTab())
	p.Cwd, p.Rows = cwd, rows
	w.Panes = append(w.Panes, p)
	return p
}

// workspaceTarget finds what commands accept: an id, or a position from 1 on.
func (w *World) workspaceTarget(target string) (*Workspace, error) {
	if ws := w.workspace(target); ws != nil {
		return ws, nil
	}
	if i, err := strconv.Atoi(target); err == nil && i > 0 && i <= len(w.Workspaces) {
		return w.Workspaces[i-1], nil
	}
	return nil, failure{"workspace_not_found", "workspace " + target + " not found"}
}

// workspaces are those that a list is about: one, or all if none is named.
func (w *World) workspaces(target string) ([]*Workspace, error) {
	if target == "" {
		return w.Workspaces, nil
	}
	ws, err := w.workspaceTarget(target)
	return []*Workspace{ws}, err
}

func (w *World) recordWorkspace(ws *Workspace, now time.Time) workspaceRecord {
	r := workspaceRecord{
		ActiveTabID: w.activeTab(ws),
		Focused:     w.focused() != nil && w.focused().Workspace == ws.ID,
		Label:       ws.Label,
		Number:      slices.Index(w.Workspaces, ws) + 1,
		TabCount:    len(w.tabs(ws)),
		WorkspaceID: ws.ID,
	}
	r.PaneCount, r.AgentStatus = w.sum(func(p *Pane) bool { return p.Workspace == ws.ID }, now)
	return r
}

// sum counts panes and returns the state among them that wants most attention.
func (w *World) sum(of func(*Pane) bool, now time.Time) (count int, status string) {
	attention := []string{Unknown, Idle, Working, Done, Blocked}
	most := 0
	for _, p := range w.Panes {
		if of(p) {
			count++
			most = max(most, slices.Index(attention, p.shown(p.detected(now))))
		}
	}
	return count, attention[most]
}
