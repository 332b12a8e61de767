package mesh

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mcp"
	"herdr-link/mesh/fault"
)

const (
	// around is what a wait may take beside its own time: its turn, and the
	// commands behind it.
	around = 45 * time.Second
	// starting is what a start may take beside the agent's own time: a shell that
	// is not ready, the store lock again and again, and undoing it all.
	starting = 90 * time.Second
	// telling is how often a client is told that a wait goes on.
	telling = 15 * time.Second
)

// A call is one call of a tool, with its arguments checked.
type call struct {
	*Mesh
	session *mcp.Session
	tool    *tool
	args    mcp.Values
}

// begin is a call of the tool. What breaks a rule is refused at once. However it
// ends, the log has a record of it.
func (m *Mesh) begin(s *mcp.Session, t *tool, schema *mcp.Schema, args mcp.Args) mcp.Call {
	begun := time.Now()
	refused := func(f *fault.Fault) *mcp.Result {
		m.called(t.name, begun, f.Code)
		return failed(f)
	}
	values, err := schema.Read(args)
	if err != nil {
		return mcp.Call{Result: refused(invalid("argument %v", err))}
	}
	c := &call{m, s, t, values}
	if f := c.check(); f != nil {
		return mcp.Call{Result: refused(f)}
	}
	made := mcp.Call{Run: func(ctx context.Context) *mcp.Result {
		answer, err := t.run(ctx, c)
		if err != nil {
			return refused(fault.Herdr(err))
		}
		m.called(t.name, begun, "")
		return succeeded(answer)
	}}
	made.Waits = t.waits
	if made.Time = c.time(); made.Time > 0 {
		made.Progress = telling
	}
	return made
}

// called has a call of a tool in the operator's log, with the code that it failed
// with or "".
func (m *Mesh) called(tool string, begun time.Time, code string) {
	attrs := []slog.Attr{slog.String("tool", tool), slog.Bool("ok", code == ""), slog.Int64("ms", time.Since(begun).Milliseconds())}
	if code != "" {
		attrs = append(attrs, slog.String("code", code))
	}
	m.log.LogAttrs(context.Background(), slog.LevelInfo, "call", attrs...)
}

func invalid(format string, args ...any) *fault.Fault {
	return fault.New("INVALID_ARGUMENT", format, args...)
}

// check holds the arguments to what a schema cannot say.
func (c *call) check() *fault.Fault {
	for _, a := range c.tool.args {
		if herdrcli.Reserved(c.args.Text(a.Name)) {
			return invalid("argument %s must not be, nor begin as, --session, --remote, --remote-keybindings or --handoff: "+
				"herdr takes these for options of its own", a.Name)
		}
	}
	var seen []string
	for i, target := range c.targets() {
		if slices.Contains(seen, target.target) {
			return invalid("argument targets[%d].target must not be there twice", i)
		}
		seen = append(seen, target.target)
	}
	return nil
}

// time is what the call may take in all, or 0 for the usual.
func (c *call) time() time.Duration {
	switch {
	case c.tool.waits:
		return c.timeout() + around
	case c.args[argStartTime] != nil:
		return time.Duration(c.args.Int(argStartTime))*time.Millisecond + starting
	case c.args[argDryRun] == false: // for many
		return 2 * around
	}
	return 0
}

// timeout is how long the caller wants to wait.
func (c *call) timeout() time.Duration {
	return time.Duration(c.args.Int(argTimeout)) * time.Millisecond
}
