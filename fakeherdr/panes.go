package fakeherdr

import (
	"strings"
	"time"
)

func parsePaneList(_ command, args []string) (request, error) {
	var workspace string
	if err := (options{"--workspace": text(&workspace)}).parse(args); err != nil {
		return request{}, err
	}
	return request{run: func(_ *Scene, w *World, now time.Time) (any, error) {
		list, err := w.workspaces(workspace)
		if err != nil {
			return nil, err
		}
		panes := []paneRecord{} // [], not null
		for _, ws := range list {
			for _, p := range w.Panes {
				if p.Workspace == ws.ID {
					panes = append(panes, recordPane(p, p.detected(now)))
				}
			}
		}
		return panesResult{panes, "pane_list"}, nil
	}}, nil
}

func (c *call) parsePaneCurrent(_ command, args []string) (request, error) {
	caller := c.callerPane()
	pane := caller
	if err := (options{"--pane": text(&pane), "--current": flag(&pane, caller)}).parse(args); err != nil {
		return request{}, err
	}
	return request{run: func(_ *Scene, w *World, now time.Time) (any, error) {
		p, err := w.paneOrFocused(pane)
		if err != nil {
			return nil, err
		}
		return paneResult{recordPane(p, p.detected(now)), "pane_current"}, nil
	}}, nil
}

// callerPane is the pane that the call comes from, or "".
func (c *call) callerPane() string {
	pane := c.getenv("HERDR_PANE_ID")
	if strings.TrimSpace(pane) == "" {
		return ""
	}
	return pane
}

// paneOrFocused resolves the target of a pane command that can do without one.
func (w *World) paneOrFocused(target string) (*Pane, error) {
	p := w.focused()
	if target != "" {
		p = w.paneTarget(target)
	}
	if p == nil {
		return nil, failure{"pane_not_found", "pane not found"} // without its name
	}
	return p, nil
}

func (c *call) parsePaneLayout(_ command, args []string) (request, error) {
	var pane string
	if err := (options{"--pane": text(&pane), "--current": flag(&pane, c.callerPane())}).parse(args); err != nil {
		return request{}, err
	}
	return request{run: func(_ *Scene, w *World, _ time.Time) (any, error) {
		p, err := w.paneOrFocused(pane)
		if err != nil {
			return nil, err
		}
		splits, panes := w.place(p)
		return layoutResult{layoutRecord{area, w.tabFocus(p.Tab).ID, panes, splits, p.Tab, p.Workspace, false}, "pane_layout"}, nil
	}}, nil
}

func (c *call) parsePaneSplit(cmd command, args []string) (request, error) {
	var (
		at        place
		pane      string
		direction string
		part      float32 = 0.5
	)
	if len(args) > 0 && !strings.HasPrefix(args[0], "--") {
		pane, args = args[0], args[1:]
	}
	known := at.options()
	known["--pane"], known["--ratio"] = text(&pane), ratio(&part)
	known["--current"] = option{alone: true, set: func(string) error {
		if pane = c.callerPane(); pane == "" {
			return usage("--current requires HERDR_PANE_ID")
		}
		return nil
	}}
	known["--direction"] = option{set: func(value string) error {
		if direction = value; value != right && value != down {
			return usage("invalid split direction: " + value)
		}
		return nil
	}}
	if err := known.parse(args); err != nil {
		return request{}, err
	}
	if direction == "" {
		return request{}, usage(cmd.usage)
	}
	return request{writes: true, run: func(_ *Scene, w *World, _ time.Time) (any, error) {
		target, err := w.paneOrFocused(pane)
		if err != nil {
			return nil, err
		}
		p := w.split(target, direction, part)
		p.Cwd = c.directory(at.cwd, target)
		if at.focus {
			w.focus(p)
		}
		return paneResult{recordPane(p, false), "pane_info"}, nil
	}}, nil
}

// parsePaneRun types a text and, in the same moment, presses Enter.
func parsePaneRun(c command, args []string) (request, error) {
	return c.types(args, func(p *Pane, in input) input {
		in.NoPaste = p.noPaste()
		return in
	})
}

// parseSendText types a text bare: nobody tells the program that it is one.
func parseSendText(c command, args []string) (request, error) {
	return c.types(args, func(_ *Pane, in input) input {
		in.NoPaste, in.NoEnter = true, true
		return in
	})
}

// types writes words to a terminal, whatever runs there. It prints nothing.
func (c command) types(args []string, how func(*Pane, input) input) (request, error) {
	if len(args) < 2 {
		return request{}, usage(c.usage)
	}
	return request{writes: true, run: func(s *Scene, w *World, now time.Time) (any, error) {
		p, err := w.pane(args[0])
		if err != nil {
			return nil, err
		}
		in := how(p, input{At: now, Text: strings.Join(args[1:], " ")})
		return plain(""), appendLine(s.inputFile(p.Terminal), in)
	}}, nil
}

// noPaste says whether the program in p takes every newline for a key press. A
// shell does not.
func (p *Pane) noPaste() bool { return p.Agent != nil && p.Agent.NoPaste }

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
