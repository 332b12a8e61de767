// Package control is the opt-in toolset of that name: 24 tools, each of which
// maps checked arguments to exactly one acting herdr command and returns what
// came of it in one uniform result.
//
// It keeps no topology and starts nothing by itself. Its only memory are the
// tokens of previews; on disk it has the per-target locks that all toolsets
// share.
package control

import (
	"log/slog"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mcp"
)

// Options say where the process is and how the toolset shall behave.
type Options struct {
	Getenv   func(string) string // the process environment
	Herdr    *herdrcli.Client
	Locks    *herdrcli.Locks
	Log      *slog.Logger // a record a command; never argv, arguments or output
	Version  string       // of herdr-link, and
	Toolsets []string     // which ones are on, for herdr_doctor

	// Timeout is the hard time of a command that neither waits nor starts an agent.
	Timeout time.Duration
	// Ceiling bounds every hard time; 0: there is none.
	Ceiling time.Duration
	// PreviewRequired refuses tools that type into a terminal without a token.
	PreviewRequired bool
	// AnyAgentArgs lets agents be started with all arguments.
	AnyAgentArgs bool
}

// A Control is the toolset in one process. Its methods may be used by many
// goroutines.
type Control struct {
	Options
	pane   string // own pane id at the start of the process, or "": a move makes it stale
	socket string
	tokens tokens
}

// New returns the toolset. It works outside of Herdr, too.
func New(o Options) *Control {
	c := &Control{Options: o, socket: o.Getenv("HERDR_SOCKET_PATH")}
	if pane := o.Getenv("HERDR_PANE_ID"); herdrcli.IsPane(pane) {
		c.pane = pane
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Timeout <= 0 {
		c.Timeout = herdrcli.DefaultTimeout
	}
	c.Timeout = c.bounded(c.Timeout)
	return c
}

// Tools returns the 24 tools, in the order of the table.
func (c *Control) Tools() []mcp.Tool {
	rows := table()
	all := make([]mcp.Tool, len(rows))
	for i := range rows {
		t := &rows[i]
		schema := t.schema()
		all[i] = mcp.Tool{
			Name: t.name, Title: t.title, Description: t.description,
			InputSchema: schema.JSON(), Annotations: t.class.annotations(),
			Begin:  func(_ *mcp.Session, args mcp.Args) mcp.Call { return c.begin(t, &schema, args) },
			Refuse: func(problem string) *mcp.Result { return c.refused(t, "invalid_argument", problem).encode() },
		}
	}
	return all
}
