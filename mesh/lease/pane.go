package lease

import (
	"context"

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
	case own || p.TerminalID != "" && r.Base().TerminalID == "" && label(r) == "":
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

// label is what the lease's tab is called, or "".
func label(r store.Leased) string {
	if tab := r.Made(); tab != nil {
		return tab.TabLabel
	}
	return ""
}
