package lease

import (
	"context"
	"slices"

	"herdr-link/herdrcli"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/store"
)

// A Presence says whether the pane of a lease is there (mesh.md §4.9).
type Presence int

// The presences of a pane.
const (
	Unknown Presence = iota // Herdr did not say
	Live                    // it is there, and the lease's own
	Absent                  // it is not: its id may have been given to another one since
)

// Pane looks whether the pane that the lease has recorded is there. A lease that
// has recorded none is to be looked for by its tab. The error says why the
// presence is Unknown.
func (l *Leases) Pane(ctx context.Context, r store.Leased) (Presence, error) {
	p, own, err := l.Own(ctx, r)
	switch {
	case herdrcli.Code(err) == "pane_not_found":
		return Absent, nil
	case err != nil:
		return Unknown, fault.Herdr(err)
	case p.TerminalID == "": // it might be the lease's own
		return Unknown, fault.New("HERDR_BAD_OUTPUT", "herdr pane get did not tell the pane's terminal")
	case own || r.Base().TerminalID == "" && label(r) == "":
		return Live, nil
	}
	return Absent, nil
}

// Own returns the pane of that id, and whether it is surely the lease's own: by
// its terminal, or after a restart of the server, which gives new ones, by the
// label of its tab. The error is one of package herdrcli.
func (l *Leases) Own(ctx context.Context, r store.Leased) (p herdrcli.Pane, own bool, err error) {
	p, err = l.herdr.PaneGet(ctx, r.Base().PaneID)
	if err != nil || r.Base().TerminalID != "" && p.TerminalID == r.Base().TerminalID {
		return p, err == nil, err
	}
	if label(r) == "" || p.TabID == "" {
		return p, false, nil
	}
	tab, err := l.herdr.TabGet(ctx, p.TabID)
	if herdrcli.Code(err) == "tab_not_found" {
		return p, false, nil
	}
	return p, err == nil && tab.Label == label(r), err
}

// Lost looks for the pane of a lease that has recorded none, by the label of its
// tab. It is Absent if there is no such tab, and Live if there is one with one pane.
func (l *Leases) Lost(ctx context.Context, r store.Leased) (herdrcli.Pane, Presence, error) {
	none := herdrcli.Pane{}
	tab := r.Made()
	if tab == nil || tab.TabLabel == "" || tab.WorkspaceID == "" {
		return none, Unknown, fault.New("INTERNAL", "the lease does not tell by what its pane can be found")
	}
	tabs, err := l.herdr.TabsIn(ctx, tab.WorkspaceID)
	if herdrcli.Code(err) == "workspace_not_found" {
		return none, Absent, nil
	}
	if err != nil {
		return none, Unknown, fault.Herdr(err)
	}
	tabs = slices.DeleteFunc(tabs, func(t herdrcli.Tab) bool { return t.Label != tab.TabLabel })
	if len(tabs) == 0 {
		return none, Absent, nil
	}
	panes, err := l.herdr.PanesIn(ctx, tab.WorkspaceID)
	if err != nil {
		return none, Unknown, fault.Herdr(err)
	}
	panes = slices.DeleteFunc(panes, func(p herdrcli.Pane) bool { return p.TabID != tabs[0].ID })
	if len(tabs) > 1 || len(panes) != 1 {
		return none, Unknown, fault.New("HERDR_ERROR", "more than one pane could be the lease's")
	}
	return panes[0], Live, nil
}

// label is what the lease's tab is called, or "".
func label(r store.Leased) string {
	if tab := r.Made(); tab != nil {
		return tab.TabLabel
	}
	return ""
}
