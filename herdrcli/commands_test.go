package herdrcli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

// Every call has exactly this argv, and reads what a Herdr answers to it.
func TestCommands(t *testing.T) {
	t.Parallel()
	s, c := newScene(t, Options{})
	update(t, s, func(w *fakeherdr.World) { w.Pane("w1:p2").Front = "/elsewhere" })
	w, err := s.World()
	if err != nil {
		t.Fatal(err)
	}
	lead, reviewer := w.Pane("w1:p1"), w.Pane("w1:p2")
	record := func(p *fakeherdr.Pane) Agent {
		return Agent{Name: p.Agent.Name, Kind: p.Agent.Kind, Status: p.Agent.Status, PaneID: p.ID, WorkspaceID: p.Workspace, TerminalID: p.Terminal,
			Cwd: p.Cwd, ForegroundCwd: cmp.Or(p.Front, p.Cwd), Changes: Raw(strconv.Itoa(p.Agent.StateChangeSeq)), Cursor: int64(p.Agent.StateChangeSeq)}
	}
	ctx := t.Context()

	if got, err := c.AgentGet(ctx, "reviewer"); err != nil || got != record(reviewer) {
		t.Errorf("AgentGet by name: %+v, %v", got, err)
	}
	if got, err := c.AgentGet(ctx, "w1:p1"); err != nil || got != record(lead) {
		t.Errorf("AgentGet by pane: %+v, %v", got, err)
	}
	list, err := c.AgentList(ctx)
	if want := []Agent{record(lead), record(w.Pane("w1:p3")), record(reviewer), record(w.Pane("w2:p1"))}; err != nil || !slices.Equal(list, want) {
		t.Errorf("AgentList: %+v, %v\nwant %+v", list, err, want)
	}
	const text = "[x] --wait; $HOME `id` 'a' \"b\" %PATH% \\ \n* ü"
	if err := c.AgentPrompt(ctx, "reviewer", text); err != nil {
		t.Errorf("AgentPrompt: %v", err)
	}
	if got := submitted(t, s, "w1:p2"); !slices.Equal(got, []string{text}) {
		t.Errorf("the pane received %q", got)
	}
	if err := c.AgentRename(ctx, "w1:p3", "third"); err != nil {
		t.Errorf("AgentRename: %v", err)
	}
	if got, err := c.AgentGet(ctx, "third"); err != nil || got.PaneID != "w1:p3" {
		t.Errorf("after AgentRename: %+v, %v", got, err)
	}
	if err := c.AgentSendKeys(ctx, "reviewer", "ctrl+c"); err != nil {
		t.Errorf("AgentSendKeys: %v", err)
	}
	if err := c.AgentSendKeys(ctx, "reviewer", "nosuchkey"); Code(err) != "invalid_key" {
		t.Errorf("AgentSendKeys with no such key: %v", err)
	}
	if got, err := c.PaneGet(ctx, "w1:p4"); err != nil || got != (Pane{"w1:p4", w.Pane("w1:p4").Terminal, "w1:t1", "w1", ""}) {
		t.Errorf("PaneGet: %+v, %v", got, err)
	}
	tab, root, err := c.TabCreate(ctx, "w2", "/", "logs #1")
	if err != nil || tab != (Tab{"w2:t2", "logs #1"}) || root.ID != "w2:p2" || root.TerminalID == "" || root.TabID != tab.ID || root.WorkspaceID != "w2" {
		t.Errorf("TabCreate: %+v, %+v, %v", tab, root, err)
	}
	if _, _, err := c.TabCreate(ctx, "w9", "/", "x"); Code(err) != "workspace_not_found" {
		t.Errorf("TabCreate in no workspace: %v", err)
	}
	if a, err := c.AgentStart(ctx, "other", "claude", root.ID, 5*time.Second, "--model", "opus", "--session"); err != nil || a.Name != "other" || a.TerminalID != root.TerminalID {
		t.Errorf("AgentStart: %+v, %v", a, err)
	}
	if _, err := c.AgentStart(ctx, "fourth", "pi", root.ID, 6*time.Second); Code(err) != "agent_pane_busy" {
		t.Errorf("AgentStart where one is: %v", err)
	}
	if err := c.PaneClose(ctx, "w1:p4"); err != nil {
		t.Errorf("PaneClose: %v", err)
	}
	if _, err := c.PaneGet(ctx, "w1:p4"); Code(err) != "pane_not_found" || !errors.Is(err, ErrRefused) {
		t.Errorf("PaneGet of a closed pane: %v", err)
	}

	want := [][]string{
		{"agent", "get", "reviewer"},
		{"agent", "get", "w1:p1"},
		{"agent", "list"},
		{"agent", "prompt", "reviewer", text},
		{"agent", "rename", "w1:p3", "third"},
		{"agent", "get", "third"},
		{"agent", "send-keys", "reviewer", "ctrl+c"},
		{"agent", "send-keys", "reviewer", "nosuchkey"},
		{"pane", "get", "w1:p4"},
		{"tab", "create", "--workspace", "w2", "--cwd", "/", "--label", "logs #1", "--no-focus"},
		{"tab", "create", "--workspace", "w9", "--cwd", "/", "--label", "x", "--no-focus"},
		{"agent", "start", "other", "--kind", "claude", "--pane", "w2:p2", "--timeout", "5000", "--", "--model", "opus", "--session"},
		{"agent", "start", "fourth", "--kind", "pi", "--pane", "w2:p2", "--timeout", "6000"},
		{"pane", "close", "w1:p4"},
		{"pane", "get", "w1:p4"},
	}
	var got [][]string
	for _, call := range calls(t, s) {
		got = append(got, call.Args)
	}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("argv:\n%q\nwant\n%q", got, want)
	}
}

// each is every typed call, with targets.
var each = map[string]func(context.Context, *Client, string) error{
	"agent get": func(ctx context.Context, c *Client, target string) error {
		_, err := c.AgentGet(ctx, target)
		return err
	},
	"agent list":   func(ctx context.Context, c *Client, _ string) error { _, err := c.AgentList(ctx); return err },
	"agent prompt": func(ctx context.Context, c *Client, target string) error { return c.AgentPrompt(ctx, target, "text") },
	"agent rename": func(ctx context.Context, c *Client, target string) error { return c.AgentRename(ctx, target, "name") },
	"agent send-keys": func(ctx context.Context, c *Client, target string) error {
		return c.AgentSendKeys(ctx, target, "ctrl+c")
	},
	"pane get": func(ctx context.Context, c *Client, target string) error {
		_, err := c.PaneGet(ctx, target)
		return err
	},
	"pane close": func(ctx context.Context, c *Client, target string) error { return c.PaneClose(ctx, target) },
	"tab create": func(ctx context.Context, c *Client, target string) error {
		_, _, err := c.TabCreate(ctx, target, "/", "label")
		return err
	},
	"agent start": func(ctx context.Context, c *Client, target string) error {
		_, err := c.AgentStart(ctx, "name", "pi", target, 5*time.Second)
		return err
	},
}

// What Herdr would take for an option never gets onto a command line.
func TestNoOptions(t *testing.T) {
	t.Parallel()
	s, c := newScene(t, Options{})
	check := func(name string, err error) {
		t.Helper()
		if e := asError(t, err); !errors.Is(err, ErrOutput) || e.Started || e.Exit != -1 {
			t.Errorf("%s: %+v", name, e)
		}
	}
	for name, call := range each {
		if name == "agent list" {
			continue // has no target
		}
		for _, target := range []string{"-", "--session=x", "-h"} {
			check(name+" "+target, call(t.Context(), c, target))
		}
	}
	check("rename to an option", c.AgentRename(t.Context(), "w1:p3", "--clear"))
	if err := c.AgentPrompt(t.Context(), "lead", "--remote=x"); !errors.Is(err, ErrReserved) || asError(t, err).Started {
		t.Errorf("text: %v", err)
	}
	if got := argvs(t, s); got != "" {
		t.Errorf("Herdr was called:\n%s", got)
	}
}

// A result counts only if it is what the call asks for, and whole.
func TestDecoding(t *testing.T) {
	t.Parallel()
	const (
		agent = `{"id":"cli:x","result":{"agent":{"pane_id":"w1:p1"},"type":"agent_info"}}`
		list  = `{"id":"cli:x","result":{"agents":[],"type":"agent_list"}}`
		pane  = `{"id":"cli:x","result":{"pane":{"pane_id":"w1:p1"},"type":"pane_info"}}`
		done  = `{"id":"cli:x","result":{"type":"ok"}}`
	)
	prompted := strings.Replace(agent, "agent_info", "agent_prompted", 1)
	started := strings.Replace(agent, "agent_info", "agent_started", 1)
	const created = `{"id":"cli:x","result":{"root_pane":{"pane_id":"w1:p1","terminal_id":"term_1"},"tab":{"tab_id":"w1:t1"},"type":"tab_created"}}`
	good := map[string]string{
		"agent get": agent, "agent list": list, "agent prompt": prompted, "agent rename": agent, "pane get": pane, "pane close": done,
		"agent send-keys": done, "agent start": started, "tab create": created,
	}
	for _, test := range []struct{ name, out string }{
		{"get", agent}, {"list", list}, {"prompt", prompted}, {"pane", pane}, {"ok", done}, {"start", started}, {"tab", created},
		{"a tab without its pane", `{"result":{"type":"tab_created","tab":{"tab_id":"w1:t1"}}}`},
		{"a pane without its tab", `{"result":{"type":"tab_created","root_pane":{"pane_id":"w1:p1","terminal_id":"term_1"}}}`},
		{"a pane without its terminal", `{"result":{"type":"tab_created","root_pane":{"pane_id":"w1:p1"},"tab":{"tab_id":"w1:t1"}}}`},
		{"spaces and keys in another order", " {\"result\":{\"type\":\"ok\"} , \"id\":1}\r\n"},
		{"no agent", `{"result":{"type":"agent_info"}}`},
		{"agent null", `{"result":{"type":"agent_info","agent":null}}`},
		{"agent is a list", `{"result":{"type":"agent_info","agent":[]}}`},
		{"agent without its pane", `{"result":{"type":"agent_info","agent":{"name":"lead"}}}`},
		{"pane id is a number", `{"result":{"type":"agent_info","agent":{"pane_id":1}}}`},
		{"agents null", `{"result":{"type":"agent_list","agents":null}}`},
		{"no agents", `{"result":{"type":"agent_list"}}`},
		{"agents is an object", `{"result":{"type":"agent_list","agents":{}}}`},
		{"pane without its id", `{"result":{"type":"pane_info","pane":{}}}`},
		{"no pane", `{"result":{"type":"pane_info"}}`},
		{"no type", `{"result":{"agent":{"pane_id":"w1:p1"},"agents":[],"pane":{"pane_id":"w1:p1"}}}`},
		{"no result", `{"id":"cli:x"}`},
		{"result is a list", `{"result":[]}`},
		{"result is a text", `{"result":"ok"}`},
		{"null", "null"},
		{"a number", "7"},
		{"two lines", done + "\n" + done + "\n"},
		{"a line and more", done + "\nbye\n"},
		{"half a line", done[:len(done)-1]},
		{"not UTF-8", strings.Replace(done, `cli:x`, "caf\xe9", 1)},
		{"plain text", "ok\n"},
		{"nothing", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client := role(t, "print", outVariable+"="+test.out)
			for name, call := range each {
				if strings.HasPrefix(name, "agent ") && name != "agent get" && !strings.Contains(test.out, `"type":"agent_`) {
					continue // one is enough to show what is no result at all
				}
				err := call(t.Context(), client, "lead")
				fits := test.out == good[name] || name == "pane close" && strings.HasPrefix(test.out, " {")
				if fits {
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
					continue
				}
				if e := asError(t, err); !errors.Is(err, ErrOutput) || !e.Started || e.Exit != 0 || e.Code != "" || e.Command != name {
					t.Errorf("%s: %+v", name, e)
				}
			}
		})
	}
}

// What a workspace has, and what is no whole list of it.
func TestWorkspaceLists(t *testing.T) {
	t.Parallel()
	s, c := newScene(t, Options{})
	w, err := s.World()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.TabsIn(t.Context(), "w2"); err != nil || !slices.Equal(got, []Tab{{"w2:t1", "1"}}) {
		t.Errorf("TabsIn: %+v, %v", got, err)
	}
	if got, err := c.PanesIn(t.Context(), "w2"); err != nil || !slices.Equal(got, []Pane{{"w2:p1", w.Pane("w2:p1").Terminal, "w2:t1", "w2", "claude"}}) {
		t.Errorf("PanesIn: %+v, %v", got, err)
	}
	lists := map[string]func(*Client, string) error{
		"tab":  func(c *Client, workspace string) error { _, err := c.TabsIn(t.Context(), workspace); return err },
		"pane": func(c *Client, workspace string) error { _, err := c.PanesIn(t.Context(), workspace); return err },
	}
	for kind, list := range lists {
		if err := list(c, "w9"); Code(err) != "workspace_not_found" {
			t.Errorf("%s list of no workspace: %v", kind, err)
		}
		if e := asError(t, list(c, "--session=x")); e.Started || !errors.Is(e, ErrOutput) {
			t.Errorf("%s list with an option: %+v", kind, e)
		}
		for _, result := range []string{`"type":"%s_list"`, `"type":"%s_list","%ss":null`, `"type":"%s_list","%ss":{}`, `"type":"%s_list","%ss":[{}]`, `"%ss":[]`} {
			out := `{"result":{` + strings.ReplaceAll(result, "%s", kind) + `}}`
			if e := asError(t, list(role(t, "print", outVariable+"="+out), "w1")); !e.Started || !errors.Is(e, ErrOutput) {
				t.Errorf("%s: %+v", out, e)
			}
		}
		if err := list(role(t, "print", outVariable+`={"result":{"type":"`+kind+`_list","`+kind+`s":[]}}`), "w1"); err != nil {
			t.Errorf("an empty list: %v", err)
		}
	}
	if got := argvs(t, s); !strings.HasPrefix(got, `["tab" "list" "--workspace" "w2"]`+"\n"+`["pane" "list" "--workspace" "w2"]`+"\n") {
		t.Errorf("argv:\n%s", got)
	}
}

// What Herdr says with exit 1 is an answer if it is JSON with a code. Branching
// is on the code alone.
func TestErrorAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, stdout, stderr, exit string
		code                       string
		cause                      error
	}{
		{"server", "", `{"error":{"code":"agent_not_found","message":"m"},"id":"cli:x"}` + "\n", "1", "agent_not_found", ErrRefused},
		{"client", "", `{"id":"cli:x","error":{"message":"server_not_running\nx","code":"c"}}`, "1", "c", ErrRefused},
		{"message only", "", `{"error":{"message":"agent_not_found"}}`, "1", "", ErrOutput},
		{"code is a number", "", `{"error":{"code":1}}`, "1", "", ErrOutput},
		{"on stdout", `{"error":{"code":"c"}}`, "", "1", "", ErrOutput},
		{"debug text", "", `Error: Custom { kind: Other, error: "agent_not_found" }`, "1", "", ErrOutput},
		{"nothing", "", "", "1", "", ErrOutput},
		{"a good result with exit 1", `{"result":{"type":"ok"}}`, "", "1", "", ErrOutput},
		{"usage", "", "usage: herdr pane close\n", "2", "", ErrOutput},
		{"a code with exit 2", "", `{"error":{"code":"c"}}`, "2", "", ErrOutput},
		{"another exit", "", `{"error":{"code":"c"}}`, "101", "", ErrOutput},
		{"noise on stderr", `{"result":{"type":"ok"}}`, `{"error":{"code":"c"}}`, "0", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client := role(t, "print", outVariable+"="+test.stdout, errVariable+"="+test.stderr, exitVariable+"="+test.exit)
			err := client.PaneClose(t.Context(), "w1:p1")
			if test.cause == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			e := asError(t, err)
			exit, _ := json.Marshal(e.Exit)
			if !errors.Is(err, test.cause) || e.Code != test.code || Code(err) != test.code || string(exit) != test.exit || !e.Started {
				t.Errorf("%+v", e)
			}
		})
	}
	if Code(errors.New("another")) != "" || Code(nil) != "" {
		t.Error("an error that is not Herdr's has a code")
	}
}

func asError(t testing.TB, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v (%T) is no *Error", err, err)
	}
	return e
}

// What an integration reported is read, and a value of another form is none.
func TestAgentSession(t *testing.T) {
	t.Parallel()
	s, c := newScene(t, Options{})
	update(t, s, func(w *fakeherdr.World) {
		w.Pane("w1:p2").Agent.Session = &fakeherdr.Session{Source: "herdr:codex", Agent: "codex", Kind: "id", Value: "x1"}
	})
	if a, err := c.AgentGet(t.Context(), "reviewer"); err != nil || a.Session != (Session{"herdr:codex", "codex", "id", "x1"}) {
		t.Errorf("%+v, %v", a, err)
	}
	for raw, want := range map[string]Agent{
		`{}`: {},
		`{"agent_session":"x","state_change_seq":"x"}`:           {Changes: `"x"`},
		`{"state_change_seq":7}`:                                 {Changes: "7", Cursor: 7},
		`{"agent_session":{"source":1},"state_change_seq":null}`: {Changes: "null"},
		`{"agent_session":{"value":"v","new":1},"state_change_seq":18446744073709551615}`: {
			Session: Session{Value: "v"}, Changes: "18446744073709551615"},
	} {
		var a Agent
		if err := json.Unmarshal([]byte(raw), &a); err != nil || a != want {
			t.Errorf("%s: %+v, %v", raw, a, err)
		}
	}
}

// The own pane is found after a move, and only if an agent is seen in it.
func TestAgentIn(t *testing.T) {
	t.Parallel()
	s, c := newScene(t, Options{})
	get := func(pane string) (string, error) {
		a, err := c.AgentIn(t.Context(), pane)
		return a.PaneID, err
	}
	if id, err := get("w1:p1"); id != "w1:p1" || err != nil {
		t.Errorf("%s, %v", id, err)
	}
	var moved string
	update(t, s, func(w *fakeherdr.World) { moved = w.Move("w1:p1", "w2").ID })
	if id, err := get("w1:p1"); id != moved || err != nil {
		t.Errorf("after a move: %s, %v", id, err)
	}
	for _, pane := range []string{"w1:p4", "w9:p9", "lead"} { // a shell, none, a name
		if _, err := get(pane); !errors.Is(err, ErrNoAgent) {
			t.Errorf("%s: %v", pane, err)
		}
	}
	update(t, s, func(w *fakeherdr.World) { w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Down}} })
	if _, err := get("w1:p1"); !errors.Is(err, ErrRefused) {
		t.Errorf("without a server: %v", err)
	}
}
