package mesh

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mcp"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/screen"
)

// waitMargin is how much longer than a wait its command may take, so that Herdr
// reports the time-out first.
const waitMargin = 2 * time.Second

// exec runs a command for a tool and returns what it printed. hard is its time,
// 0 the usual one. The error is a *herdrcli.Error.
func (m *Mesh) exec(ctx context.Context, tool string, hard time.Duration, argv ...string) (out herdrcli.Outcome, err error) {
	command := strings.Join(argv[:2], " ")
	out = m.herdr.Exec(ctx, hard, argv...)
	err = out.Failure(command)
	attrs := []slog.Attr{slog.String("tool", tool), slog.Float64("ms", float64(out.Took.Microseconds())/1000), slog.Int("exit", out.Exit)}
	level := slog.LevelInfo
	if err != nil {
		level, attrs = slog.LevelWarn, append(attrs, slog.String("code", fault.Herdr(err).Code))
	}
	m.log.LogAttrs(context.Background(), level, "herdr "+command, attrs...)
	return out, err
}

// act runs the tool's own command.
func (c *call) act(ctx context.Context) (out herdrcli.Outcome, err error) {
	var hard time.Duration
	if c.tool.waits {
		hard = c.timeout() + waitMargin
	}
	return c.exec(ctx, c.tool.name, hard, c.tool.argv(c.args)...)
}

// agents lists all agents for the watcher.
func (m *Mesh) agents(ctx context.Context) ([]herdrcli.Agent, error) {
	out, err := m.exec(ctx, "watcher", 0, "agent", "list")
	if err != nil {
		return nil, err
	}
	var list []herdrcli.Agent
	found, err := find(out.Stdout, "agents", '[')
	if err != nil || json.Unmarshal(found.member, &list) != nil || !lease.Plausible(list) {
		return nil, badOutput("agent list")
	}
	return list, nil
}

func badOutput(command string) error {
	return &herdrcli.Error{Command: command, Started: true, Err: herdrcli.ErrOutput}
}

// maxDepth is how many brackets of Herdr's JSON may stand inside of each other. It
// has ten or so; with more, an answer around it could not be read again.
const maxDepth = 200

// A found is what Herdr answered, and the member of it that counts.
type found struct{ result, member json.RawMessage }

// find reads Herdr's answer. kind is how the member begins: { or [.
func find(stdout []byte, name string, kind byte) (found, error) {
	var answer struct{ Result json.RawMessage }
	var result map[string]json.RawMessage
	text := []byte(strings.ToValidUTF8(string(stdout), "\uFFFD"))
	if json.Unmarshal(text, &answer) != nil || mcp.Depth(text) > maxDepth || json.Unmarshal(answer.Result, &result) != nil || len(result[name]) == 0 || result[name][0] != kind {
		return found{}, herdrcli.ErrOutput
	}
	return found{answer.Result, result[name]}, nil
}

// ask runs the tool's command, whose answer has that member.
func (c *call) ask(ctx context.Context, name string, kind byte) (found, error) {
	out, err := c.act(ctx)
	if err != nil {
		return found{}, err
	}
	f, err := find(out.Stdout, name, kind)
	if err != nil {
		return found{}, badOutput(c.tool.command)
	}
	return f, nil
}

type runner = func(context.Context, *call) (any, error)

// result answers with all that Herdr's result has, as it is.
func result(name string, kind byte) runner {
	return func(ctx context.Context, c *call) (any, error) {
		f, err := c.ask(ctx, name, kind)
		return f.result, err
	}
}

// member answers with one member of Herdr's result, as it is.
func member(name string, kind byte) runner {
	return func(ctx context.Context, c *call) (any, error) {
		f, err := c.ask(ctx, name, kind)
		return map[string]json.RawMessage{name: f.member}, err
	}
}

func screenText(ctx context.Context, c *call) (any, error) {
	out, err := c.act(ctx)
	return screen.Of(string(out.Stdout)), err
}

// waitOutput waits for a line of a pane.
func waitOutput(ctx context.Context, c *call) (any, error) {
	out, err := c.act(ctx)
	switch {
	case herdrcli.Code(err) == "invalid_regex":
		return nil, invalid("argument %s is no regular expression that Herdr knows", argMatch).With("herdrCode", "invalid_regex")
	case err != nil:
		return nil, err
	}
	var answer struct {
		Result struct {
			Pane *string `json:"pane_id"`
			Line *string `json:"matched_line"`
		}
	}
	if json.Unmarshal(out.Stdout, &answer) != nil || answer.Result.Pane == nil || answer.Result.Line == nil {
		return nil, badOutput(c.tool.command)
	}
	line, _ := screen.Plain(*answer.Result.Line, screen.Max)
	return struct {
		Pane string `json:"paneId"`
		Line string `json:"matchedLine"`
	}{*answer.Result.Pane, line}, nil
}

// sessions answers with Herdr's bare object.
func sessions(ctx context.Context, c *call) (any, error) {
	out, err := c.act(ctx)
	if err != nil {
		return nil, err
	}
	f, err := find([]byte(`{"result":`+string(out.Stdout)+`}`), "sessions", '[')
	if err != nil {
		return nil, badOutput(c.tool.command)
	}
	return f.result, nil
}

// An integration is a line of integration status.
type integration struct {
	Target string `json:"target"`
	State  string `json:"state"`
	Path   string `json:"path"`
}

// integrations reads lines such as "pi: current (v8) (/path)". With
// --outdated-only Herdr 0.8 prints one sentence instead, on stderr; then the
// outdated ones are taken from the whole list.
func integrations(ctx context.Context, c *call) (any, error) {
	out, err := c.act(ctx)
	if err != nil {
		return nil, err
	}
	raw, _ := screen.Plain(string(out.Stdout)+string(out.Stderr), screen.Max)
	all := integrationLines(out.Stdout)
	if c.args.True("outdated_only") && len(all) == 0 && raw != "" {
		if out, err = c.exec(ctx, c.tool.name, 0, "integration", "status"); err != nil {
			return nil, err
		}
		for _, i := range integrationLines(out.Stdout) {
			if strings.HasPrefix(i.State, "outdated") {
				all = append(all, i)
			}
		}
	}
	return struct {
		Integrations []integration `json:"integrations"`
		Raw          string        `json:"raw"`
	}{all, raw}, nil
}

// integrationLines are the integrations that have a path.
func integrationLines(stdout []byte) []integration {
	all := []integration{} // [], not null
	text, _ := screen.Plain(string(stdout), screen.Max)
	for _, i := range herdrcli.Integrations(text) {
		if i.Path != "" {
			all = append(all, integration{i.Name, i.State, i.Path})
		}
	}
	return all
}
