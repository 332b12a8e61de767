package control

import (
	"context"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mcp"
)

const (
	// waitMargin is how much longer than a wait its command may take, so that
	// Herdr reports the time-out first; startMargin is the same for an agent's
	// start.
	waitMargin  = 5 * time.Second
	startMargin = 10 * time.Second
	// minWait is the shortest wait that is handed to Herdr.
	minWait = time.Second
	// around is what a long call may take beside its command: look-ups and lock.
	around = 45 * time.Second
)

const reservedText = "a text that is, or begins as, --session, --remote, --remote-keybindings or --handoff is taken for an option by herdr: put other words in front of it"

// A call is one call of a tool, with its arguments checked.
type call struct {
	c      *Control
	t      *tool
	values mcp.Values
	argv   []string      // without the program
	hard   time.Duration // of the acting command
	free   chan struct{} // closed when the next call for the same target may run
}

// begin is a call of the tool. What needs no look at the world to be refused is
// refused at once.
func (c *Control) begin(t *tool, schema *mcp.Schema, args mcp.Args) mcp.Call {
	k, r := c.check(t, schema, args)
	if r != nil {
		c.record(t, 0, r)
		return mcp.Call{Result: r.encode()}
	}
	m := mcp.Call{Waits: k.waits(), Run: func(ctx context.Context) *mcp.Result { return k.run(ctx).encode() }}
	if k.long() {
		m.Time = k.hard + around
	}
	if t.class == types {
		m.Key, m.Free = k.values.Text(argPane)+k.values.Text(argTarget), k.free
	}
	return m
}

// check reads the arguments and makes the command of them, or says why not.
func (c *Control) check(t *tool, schema *mcp.Schema, args mcp.Args) (*call, *result) {
	no := func(code, message string) (*call, *result) { return nil, refuse("herdr "+t.command, code, message) }
	v, err := schema.Read(args)
	if err != nil {
		return no("invalid_argument", "argument "+err.Error())
	}
	if code, message := combine(t, v, args); code != "" {
		return no(code, message)
	}
	k := &call{c: c, t: t, values: v, hard: c.Timeout, free: make(chan struct{})}
	switch ms := time.Duration(v.Int(argTimeout)) * time.Millisecond; {
	case k.waits():
		v[argTimeout] = c.wait(ms).Milliseconds()
		k.hard = c.bounded(c.wait(ms) + waitMargin)
	case k.long():
		k.hard = ms + startMargin
	}
	k.argv = t.argv(v)
	if t.name == "herdr_pane_current" {
		if c.pane == "" {
			return no("not_in_herdr", "HERDR_PANE_ID is not set: this process is not in a pane of Herdr, or the MCP host does not pass the variable on")
		}
		k.argv = append(k.argv, "--pane", c.pane)
	}
	if code, message := c.forbidden(k); code != "" {
		return no(code, message)
	}
	return k, nil
}

// waits reports whether the call waits for something that may never happen.
func (k *call) waits() bool {
	switch k.t.name {
	case "herdr_pane_wait_output", "herdr_agent_wait":
		return true
	}
	return k.values.True("wait")
}

// long reports whether the acting command may take longer than others.
func (k *call) long() bool { return k.waits() || k.t.name == "herdr_agent_start" }

// bounded is a hard time under the ceiling.
func (c *Control) bounded(d time.Duration) time.Duration {
	if c.Ceiling > 0 {
		return min(d, c.Ceiling)
	}
	return d
}

// wait is how long Herdr is told to wait.
func (c *Control) wait(d time.Duration) time.Duration {
	if c.Ceiling > 0 {
		d = max(min(d, c.Ceiling-waitMargin), minWait)
	}
	return d
}

// combine checks arguments that depend on each other, and makes of them what
// herdr is to get.
func combine(t *tool, v mcp.Values, given mcp.Args) (code, message string) {
	const invalid = "invalid_combination"
	has := func(name string) bool { raw := given[name]; return len(raw) > 0 && raw[0] != 'n' }
	if v.True(argPreview) && has(argToken) {
		return invalid, "preview and previewToken exclude each other"
	}
	if t.has("regex") && (v["match"] == nil) == (v["regex"] == nil) {
		return invalid, "it takes either match or regex"
	}
	if _, prompts := v["wait"]; prompts && !v.True("wait") {
		for _, name := range []string{argUntil, argTimeout} {
			if has(name) {
				return invalid, name + " counts only together with wait: true"
			}
		}
		delete(v, argTimeout)
	}
	if list := v.Texts(argUntil); list != nil {
		v[argUntil] = settled(list)
	}
	return "", ""
}

// settled puts the states into one order, and idle and done together: done is
// idle in a tab that nobody has looked at yet.
func settled(list []string) []any {
	var all []any
	for _, state := range states {
		same := (state == "idle" || state == "done") && (slices.Contains(list, "idle") || slices.Contains(list, "done"))
		if same || slices.Contains(list, state) {
			all = append(all, state)
		}
	}
	return all
}

// forbidden says what herdr must not get as an argument.
func (c *Control) forbidden(k *call) (code, message string) {
	if herdrcli.Reserved(k.argv...) {
		return "reserved_argument", reservedText
	}
	if k.t.has("args") {
		if !c.AnyAgentArgs && !harmless(k.values.Texts("args")) {
			return "agent_args_forbidden", "args may only have the pairs --agent V, --model V and -m V, with V a plain word: " +
				"others could switch off the agent's own approvals (the operator's HERDR_LINK_AGENT_ARGS=any allows them)"
		}
		if c.Ceiling > 0 && k.hard > c.Ceiling {
			return "ceiling_too_low", "timeoutMs and 10000 are more than the operator's HERDR_LINK_CLI_TIMEOUT_MS"
		}
	}
	return "", ""
}

// harmless reports whether args are only pairs that choose an agent or a model.
func harmless(args []string) bool {
	for ; len(args) >= 2; args = args[2:] {
		if !slices.Contains([]string{"--agent", "--model", "-m"}, args[0]) || !isWord(args[1]) {
			return false
		}
	}
	return len(args) == 0
}

// isWord matches ^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$.
func isWord(s string) bool {
	const first = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	return s != "" && len(s) <= 128 && strings.Contains(first, s[:1]) && strings.Trim(s, first+"._:/-") == ""
}

// run carries the call out.
func (k *call) run(ctx context.Context) *result {
	if k.t.name == "herdr_doctor" {
		return k.c.doctor(ctx)
	}
	if dir, ok := k.values[argCwd].(string); ok {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return k.refuse("cwd_not_found", "cwd must be a folder that is there: herdr would silently take the home folder")
		}
	}
	if k.t.class == types {
		return k.typeIn(ctx)
	}
	uncertain := ""
	if k.t.class == adds {
		uncertain = "it may have happened: list before you repeat it"
	}
	return k.act(ctx, uncertain)
}

func (k *call) refuse(code, message string) *result { return k.c.refused(k.t, code, message) }

// refused is the result of a call that comes to nothing here.
func (c *Control) refused(t *tool, code, message string) *result {
	r := refuse("herdr "+t.command, code, message)
	c.record(t, 0, r)
	return r
}

// act runs the acting command.
func (k *call) act(ctx context.Context, uncertain string) *result {
	out := k.c.Herdr.Exec(ctx, k.hard, k.argv...)
	r := read(k.t, out, uncertain)
	switch {
	case k.t.name == "herdr_agent_prompt" && (r.ErrorCode == "timeout" || r.ErrorCode == "agent_prompt_stalled"):
		r.Message += "; the prompt was delivered: read the terminal before you decide"
	case k.t.name == "herdr_agent_start" && r.ErrorCode == "timeout":
		r.Message += "; an agent, perhaps without a name, may be in the pane"
	case k.t.name == "herdr_agent_start" && r.OK: // or a prompt that comes next could answer a dialog that nobody tells of
		select {
		case <-time.After(herdrcli.Unseen(out.Took)):
		case <-ctx.Done():
		}
	}
	k.c.record(k.t, out.Took, r)
	return r
}

// record writes the operator's log. It has no argument, no argv and no output.
func (c *Control) record(t *tool, took time.Duration, r *result) {
	attrs := []slog.Attr{slog.String("tool", t.name), slog.Float64("ms", float64(took.Microseconds())/1000)}
	if r.ExitCode != nil {
		attrs = append(attrs, slog.Int("exit", *r.ExitCode))
	}
	level := slog.LevelInfo
	if r.ErrorCode != "" {
		level, attrs = slog.LevelWarn, append(attrs, slog.String("code", r.ErrorCode))
	}
	c.Log.LogAttrs(context.Background(), level, r.Command, attrs...)
}

// differs returns the name of the first argument that is not the same.
func differs(t *tool, a, b mcp.Values) string {
	for _, arg := range t.args {
		if arg.name != argPreview && arg.name != argToken && !reflect.DeepEqual(a[arg.name], b[arg.name]) {
			return arg.name
		}
	}
	return ""
}
