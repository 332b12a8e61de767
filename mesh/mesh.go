// Package mesh is the opt-in toolset of that name: tools with which one agent
// observes the others, waits for them and coordinates them, and which promise
// that nothing is typed, closed or run without a lease.
//
// It reads and waits, gives one agent the authority to coordinate, and lets that
// one start, adopt and close agents under leases, those that write each in a Git
// worktree of its own, give them tasks, collect the answers, and have this host
// verify what was written.
package mesh

import (
	"log/slog"

	"herdr-link/herdrcli"
	"herdr-link/mcp"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/git"
	"herdr-link/mesh/handoff"
	"herdr-link/mesh/lane"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/ledger"
	"herdr-link/mesh/store"
	"herdr-link/mesh/verify"
	"herdr-link/mesh/watch"
)

// Options say how the toolset reaches Herdr and where its records are.
type Options struct {
	Getenv  func(string) string
	Environ []string // the same, as os.Environ gives it
	Herdr   *herdrcli.Client
	Locks   *herdrcli.Locks // of terminals, shared with the other toolsets
	Log     *slog.Logger    // a record a command; never argv, arguments or output
	State   string          // root of the records, absolute
	Version string          // of herdr-link
}

// A Mesh is the toolset in one process. Its methods may be used by many
// goroutines.
type Mesh struct {
	herdr   *herdrcli.Client
	log     *slog.Logger
	version string
	watcher *watch.Watcher

	store       *store.Store
	controllers *controller.Controllers
	leases      *lease.Leases
	handoffs    *handoff.Handoffs
	lanes       *lane.Lanes
	ledger      *ledger.Ledger
	verifier    *verify.Verifier
}

// New returns the toolset. It works outside of Herdr, too.
func New(o Options) *Mesh {
	m := &Mesh{herdr: o.Herdr, log: o.Log, version: o.Version}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	m.watcher = watch.New(m.agents)
	m.store = store.New(store.Options{Root: o.State, Log: m.log})
	m.controllers = controller.New(controller.Options{Getenv: o.Getenv, Herdr: o.Herdr, Store: m.store})
	m.leases = lease.New(lease.Options{Herdr: o.Herdr, Store: m.store, Locks: o.Locks})
	m.handoffs = handoff.New(handoff.Options{Herdr: o.Herdr, Store: m.store, Controllers: m.controllers, Leases: m.leases, Watcher: m.watcher})
	trees := git.New(o.Getenv)
	m.lanes = lane.New(lane.Options{Herdr: o.Herdr, Store: m.store, Controllers: m.controllers, Leases: m.leases, Git: trees})
	m.ledger = ledger.New(ledger.Options{Store: m.store, Controllers: m.controllers, Leases: m.leases, Git: trees})
	m.verifier = verify.New(verify.Options{Getenv: o.Getenv, Environ: o.Environ, Store: m.store, Controllers: m.controllers, Leases: m.leases, Git: trees, Log: m.log})
	return m
}

// Tools returns the tools, in the order of the table.
func (m *Mesh) Tools() []mcp.Tool {
	rows := table()
	all := make([]mcp.Tool, len(rows))
	for i := range rows {
		t := &rows[i]
		schema := t.schema()
		all[i] = mcp.Tool{
			Name: t.name, Title: t.title, Description: t.description,
			InputSchema: schema.JSON(), Annotations: t.hints.annotations(),
			Refuse: func(problem string) *mcp.Result { return failed(invalid("%s", problem)) },
			Begin:  func(s *mcp.Session, args mcp.Args) mcp.Call { return m.begin(s, t, &schema, args) },
		}
	}
	return all
}
