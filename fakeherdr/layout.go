package fakeherdr

import (
	"math"
	"slices"
	"strconv"
)

// The directions in which a place is split, as Herdr writes them.
const (
	right = "right"
	down  = "down"
)

// area is the part of the screen that has panes: what a terminal of 80 columns
// and 24 rows leaves beside the list of workspaces.
var area = rect{Height: 23, Width: 54, X: 26, Y: 1}

// split gives a part of target's place to a new shell, which has its directory.
// The ratio is what target keeps.
func (w *World) split(target *Pane, direction string, ratio float32) *Pane {
	ws := w.workspace(target.Workspace)
	t := ws.keepTab(target.Tab)
	t.Layout = w.layout(ws, target.Tab)
	p := w.newPane(ws, target.Tab)
	p.Cwd, p.Rows = target.Cwd, w.rows()
	leaf := t.Layout.find(target.Terminal)
	*leaf = Node{Direction: direction, Ratio: min(max(ratio, 0.1), 0.9), First: &Node{Terminal: target.Terminal}, Second: &Node{Terminal: p.Terminal}}
	w.Panes = slices.Insert(w.Panes, slices.Index(w.Panes, target)+1, p)
	return p
}

// rows is the height that Herdr gives to new terminals: that of the first pane
// it shows.
func (w *World) rows() int {
	p := w.focused()
	if p == nil {
		return 24
	}
	_, panes := w.place(p)
	return panes[0].Rect.Height
}

// layout returns a tab's panes in their places, or nil if it has none: what was
// written down, without those that have gone and with those that have come.
func (w *World) layout(ws *Workspace, tab string) *Node {
	var terminals []string
	for _, p := range w.Panes {
		if p.Tab == tab {
			terminals = append(terminals, p.Terminal)
		}
	}
	root := ws.tab(tab).Layout.without(func(terminal string) bool { return !slices.Contains(terminals, terminal) })
	for _, terminal := range terminals {
		switch leaf := root.last(); {
		case root == nil:
			root = &Node{Terminal: terminal}
		case root.find(terminal) == nil:
			*leaf = Node{Direction: right, Ratio: 0.5, First: &Node{Terminal: leaf.Terminal}, Second: &Node{Terminal: terminal}}
		}
	}
	return root
}

// without returns a copy that lacks the terminals that have gone: the other
// half of a split gets the whole place.
func (n *Node) without(gone func(terminal string) bool) *Node {
	if n == nil || n.First == nil && gone(n.Terminal) {
		return nil
	}
	kept := *n
	if n.First == nil {
		return &kept
	}
	kept.First, kept.Second = n.First.without(gone), n.Second.without(gone)
	switch {
	case kept.First == nil:
		return kept.Second
	case kept.Second == nil:
		return kept.First
	}
	return &kept
}

// find returns a terminal's leaf, or nil.
func (n *Node) find(terminal string) *Node {
	switch {
	case n == nil:
		return nil
	case n.First == nil && n.Terminal == terminal:
		return n
	}
	if leaf := n.First.find(terminal); leaf != nil {
		return leaf
	}
	return n.Second.find(terminal)
}

func (n *Node) last() *Node {
	for n != nil && n.First != nil {
		n = n.Second
	}
	return n
}

// place returns the splits and the panes of the tab that p is in, as pane layout
// shows them: splits from the root on, panes from the upper left on.
func (w *World) place(p *Pane) (splits []splitRecord, panes []placeRecord) {
	splits = []splitRecord{} // [], not null
	focus := w.tabFocus(p.Tab)
	var walk func(n *Node, r rect, path string)
	walk = func(n *Node, r rect, path string) {
		if n.First == nil {
			q := w.terminal(n.Terminal)
			panes = append(panes, placeRecord{q == focus, q.ID, r})
			return
		}
		id := "split_" + strconv.Itoa(len(splits)) + "_"
		if path == "" {
			id += "root"
		}
		splits = append(splits, splitRecord{n.Direction, id + path, n.Ratio, r})
		first, second := r.split(n.Direction, n.Ratio)
		walk(n.First, first, path+"0")
		walk(n.Second, second, path+"1")
	}
	walk(w.layout(w.workspace(p.Workspace), p.Tab), area, "")
	return splits, panes
}

func (r rect) split(direction string, ratio float32) (first, second rect) {
	first, second = r, r
	part := func(whole int) int { return int(math.Round(float64(whole) * float64(ratio))) }
	if direction == right {
		first.Width = part(r.Width)
		second.X, second.Width = r.X+first.Width, r.Width-first.Width
	} else {
		first.Height = part(r.Height)
		second.Y, second.Height = r.Y+first.Height, r.Height-first.Height
	}
	return first, second
}
