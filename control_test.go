package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

// A controlled is what a tool of control returns.
type controlled struct {
	OK        bool
	Command   string
	ExitCode  *int
	ErrorCode string
	Message   string
	Data      json.RawMessage
	Stdout    *string
	Stderr    string
	Preview   *struct {
		Argv       []string
		ArgvDigest string
		Token      string
		ExpiresAt  time.Time
		Required   bool
	}
	result result
}

// steer starts a server with control in the pane; "" is outside of Herdr.
func steer(t testing.TB, s *fakeherdr.Scene, pane string, more ...string) *host {
	t.Helper()
	env := inPane(t, s, pane, more...)
	if pane == "" { // but with a herdr to run
		env = inPane(t, nil, "", append([]string{"HERDR_BIN_PATH=" + s.Bin()}, more...)...)
	}
	h := start(t, env, "--toolsets", "link,control")
	h.initialize("2025-11-25")
	return h
}

func (h *host) control(tool, args string) controlled {
	h.t.Helper()
	return h.controlled(h.begin(tool, args))
}

func (h *host) controlled(id string) (c controlled) {
	h.t.Helper()
	r := h.result(id)
	if err := json.Unmarshal(r.StructuredContent, &c); err != nil || c.OK == r.IsError || !strings.HasPrefix(c.Command, "herdr ") {
		h.t.Fatalf("no result of control: %v, %+v", err, r)
	}
	c.result = r
	return c
}

// fails calls a tool that must be refused with that code.
func (h *host) fails(code, tool, args string) controlled {
	h.t.Helper()
	c := h.control(tool, args)
	if c.OK || c.ErrorCode != code || c.Message == "" {
		h.t.Errorf("%s %.120s: %s, want %s", tool, args, c.result.StructuredContent, code)
	}
	return c
}

// works calls a tool that must do what it is for.
func (h *host) works(tool, args string) controlled {
	h.t.Helper()
	c := h.control(tool, args)
	if !c.OK || c.ErrorCode != "" {
		h.t.Errorf("%s %.120s: %s", tool, args, c.result.StructuredContent)
	}
	return c
}

func quoteJSON(s string) string { text, _ := json.Marshal(s); return string(text) }

// lastArgv is the argv of the latest call of that command.
func lastArgv(t testing.TB, s *fakeherdr.Scene, match ...string) []string {
	t.Helper()
	all := commands(t, s, match...)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// 1: the tools are there if the operator wants them, wherever the server is.
func TestControlListed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	count := func(h *host) (n int) {
		for _, name := range h.list() {
			if strings.HasPrefix(name, "herdr_") && !strings.HasPrefix(name, "herdr_link") {
				n++
			}
		}
		return n
	}
	off := start(t, inPane(t, s, "w1:p1"))
	off.initialize("2025-11-25")
	if n := count(off); n != 0 {
		t.Errorf("%d tools of control without being asked for", n)
	}
	if m := off.answer(off.begin("herdr_pane_list", "{}")); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("a tool of control that is off: %s", m.line)
	}
	for name, h := range map[string]*host{
		"dormant": steer(t, s, "w1:p1"), "outside": steer(t, s, ""),
		"by variable": func() *host {
			h := start(t, inPane(t, s, "w1:p1", "HERDR_LINK_TOOLSETS= control ,link,control"))
			h.initialize("2025-11-25")
			return h
		}(),
		"alone": func() *host {
			h := start(t, inPane(t, s, "w1:p1"), "--toolsets", "control")
			if r := h.initialize("2025-11-25"); strings.Contains(string(r), "listChanged") || strings.Contains(string(r), "instructions") {
				t.Errorf("without link it says of link: %s", r)
			}
			return h
		}(),
	} {
		if n := count(h); n != 24 {
			t.Errorf("%s: %d tools", name, n)
		}
		if all := h.list(); slices.Contains(all, "herdr_link") != (name == "dormant" || name == "by variable") {
			t.Errorf("%s: %q", name, all)
		}
	}
	modern := start(t, inPane(t, s, "w1:p1"), "--toolsets", "link,control", "--era", "2026-07-28")
	meta := `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	m := modern.answer(modern.request("tools/list", meta+"}"))
	if n := strings.Count(m.line, `"openWorldHint"`); n != 25 || strings.Contains(m.line, "outputSchema") {
		t.Errorf("modern: %d tools", n)
	}
	m = modern.answer(modern.request("tools/call", meta+`,"name":"herdr_workspace_list","arguments":{}}`))
	if !strings.Contains(m.line, `workspace_list`) || !strings.Contains(m.line, `"resultType":"complete"`) {
		t.Errorf("modern: %s", m.line)
	}
}

// 2: one acting command each, and look-ups only where something is typed.
func TestControlCommands(t *testing.T) {
	t.Parallel()
	dir := quoteJSON(t.TempDir())
	for _, test := range []struct{ tool, args, argv string }{
		{"herdr_workspace_list", `{}`, "workspace list"},
		{"herdr_workspace_get", `{"workspaceId":"w1"}`, "workspace get w1"},
		{"herdr_tab_list", `{}`, "tab list"},
		{"herdr_tab_get", `{"tabId":"w1:t1"}`, "tab get w1:t1"},
		{"herdr_pane_list", `{}`, "pane list"},
		{"herdr_pane_get", `{"paneId":"w1:p2"}`, "pane get w1:p2"},
		{"herdr_pane_current", `{}`, "pane current --pane w1:p1"},
		{"herdr_pane_layout", `{"paneId":"w1:p2"}`, "pane layout --pane w1:p2"},
		{"herdr_pane_process_info", `{"paneId":"w1:p2"}`, "pane process-info --pane w1:p2"},
		{"herdr_pane_read", `{"paneId":"w1:p2"}`, "pane read w1:p2 --source recent --format text"},
		{"herdr_agent_list", `{}`, "agent list"},
		{"herdr_agent_get", `{"target":"reviewer"}`, "agent get reviewer"},
		{"herdr_agent_read", `{"target":"reviewer"}`, "agent read reviewer --source recent --format text"},
		{"herdr_agent_wait", `{"target":"reviewer","until":["idle"]}`, "agent wait reviewer --until idle --until done --timeout 45000"},
		{"herdr_agent_explain", `{"target":"reviewer"}`, "agent explain reviewer --json"},
		{"herdr_workspace_create", `{"cwd":` + dir + `}`, "workspace create --cwd DIR --no-focus"},
		{"herdr_tab_create", `{"workspaceId":"w1"}`, "tab create --workspace w1 --no-focus"},
		{"herdr_pane_split", `{"paneId":"w1:p2","direction":"down"}`, "pane split w1:p2 --direction down --no-focus"},
		{"herdr_pane_run", `{"paneId":"w1:p4","command":"ls"}`, "pane run w1:p4 ls"},
		{"herdr_pane_send_text", `{"paneId":"w1:p4","text":"ls"}`, "pane send-text w1:p4 ls"},
		{"herdr_agent_start", `{"name":"a","kind":"pi","paneId":"w1:p4"}`, "agent start a --kind pi --pane w1:p4 --timeout 30000"},
		{"herdr_agent_prompt", `{"target":"reviewer","text":"go"}`, "agent prompt reviewer go"},
	} {
		t.Run(test.tool, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			h := steer(t, s, "w1:p1", "HERDR_LINK_OFF=1") // no bootstrap
			h.works(test.tool, test.args)
			want := []string{strings.ReplaceAll(test.argv, "DIR", strings.Trim(dir, `"`))}
			switch test.tool {
			case "herdr_pane_run", "herdr_pane_send_text", "herdr_agent_start":
				want = append(want, "pane get w1:p1", "pane get w1:p4")
			case "herdr_agent_prompt":
				want = append(want, "pane get w1:p1", "agent get reviewer")
			}
			var got []string
			for _, argv := range commands(t, s) {
				got = append(got, strings.Join(argv, " "))
			}
			if len(got) > 0 && got[len(got)-1] != want[0] {
				t.Errorf("it ends with %q", got)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("it ran %q, want %q", got, want)
			}
		})
	}
}

// 4, 30, 39: what comes back of an addition, and of numbers.
func TestControlAnswers(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := steer(t, s, "w1:p1")
	dir := quoteJSON(t.TempDir())
	made := h.works("herdr_workspace_create", `{"cwd":`+dir+`,"label":"my work"}`)
	if argv := lastArgv(t, s, "workspace", "create"); argv[len(argv)-1] != "--no-focus" {
		t.Errorf("argv %q", argv)
	}
	var data struct {
		Result struct {
			Workspace struct {
				ID string `json:"workspace_id"`
			}
		}
	}
	if err := json.Unmarshal(made.Data, &data); err != nil || data.Result.Workspace.ID != "w3" {
		t.Errorf("data %s", made.Data)
	}
	change(t, s, func(w *fakeherdr.World) { w.Seq = 9007199254740993; w.Pane("w1:p2").Agent.StateChangeSeq = w.Seq })
	if c := h.works("herdr_agent_get", `{"target":"reviewer"}`); !strings.Contains(string(c.Data), ":9007199254740993") {
		t.Errorf("digits were lost: %s", c.Data)
	}
	change(t, s, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Garbage, Match: []string{"workspace", "create"}}}
	})
	c := h.works("herdr_workspace_create", `{"cwd":`+dir+`}`)
	if c.Stdout == nil || c.Message == "" || c.Data != nil || *c.ExitCode != 0 {
		t.Errorf("no JSON: %s", c.result.StructuredContent)
	}
}

// 5, 7, 9 to 13, 23, 27, 38: what is refused before any command.
func TestControlRefuses(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := steer(t, s, "w1:p1", "HERDR_LINK_OFF=1", "HERDR_LINK_CLI_TIMEOUT_MS=14999")
	const prompt, run, text, begin, look = "herdr_agent_prompt", "herdr_pane_run", "herdr_pane_send_text", "herdr_agent_start", "herdr_pane_wait_output"
	agent := func(more string) string { return `{"name":"a","kind":"pi","paneId":"w1:p4"` + more + `}` }
	for _, test := range []struct{ code, tool, args, says string }{
		{"invalid_argument", "herdr_tab_create", `[]`, "must be a JSON object"},
		{"invalid_argument", "herdr_tab_create", `{"workspaceId":"w1","workspaceId":"w2"}`, "twice"},
		{"invalid_argument", "herdr_tab_create", `{}`, "workspaceId is required"},
		{"invalid_argument", "herdr_tab_create", `{"workspaceId":"w1","focus":true}`, `"focus" is no argument`},
		{"invalid_argument", run, `{"paneId":"w1:p4","command":"ls","perview":true}`, `"perview" is no argument`},
		{"invalid_argument", run, `{"paneId":"term_66180279f36e42","command":"ls"}`, "paneId must be a pane id"},
		{"invalid_argument", run, `{"paneId":"w1:p4","command":" \n"}`, "command must be text"},
		{"invalid_argument", run, `{"paneId":"w1:p4","command":"a\u001b[201~"}`, "command must be text"},
		{"invalid_argument", run, `{"paneId":"w1:p4","command":"a\u009bb"}`, "command must be text"},
		{"invalid_argument", run, `{"paneId":"w1:p4","command":"\ud800"}`, "surrogate"},
		{"invalid_argument", run, `{"paneId":"w1:p4","command":` + quoteJSON(strings.Repeat("x", 16385)) + `}`, "16384 bytes"},
		{"invalid_argument", text, `{"paneId":"w1:p4","text":"a\u0003"}`, "text must be text"},
		{"invalid_argument", text, `{"paneId":"w1:p4","text":"a\nb"}`, "text must be text"},
		{"invalid_argument", begin, agent(`,"timeoutMs":4999`), "from 5000 to 300000"},
		{"invalid_argument", "herdr_workspace_create", `{"cwd":"relative"}`, "cwd must be an absolute path"},
		{"invalid_argument", "herdr_workspace_create", `{"cwd":"/","label":"-x"}`, "label must be"},
		{"invalid_argument", "herdr_agent_get", `{"target":"Claude"}`, "target must be"},
		{"invalid_argument", look, `{"paneId":"w1:p4","match":"x","source":"detection"}`, "source must be one of"},
		{"invalid_combination", prompt, `{"target":"reviewer","text":"x","until":["idle"]}`, "until"},
		{"invalid_combination", prompt, `{"target":"reviewer","text":"x","wait":false,"timeoutMs":5000}`, "timeoutMs"},
		{"invalid_combination", run, `{"paneId":"w1:p4","command":"ls","preview":true,"previewToken":"AAAAAAAAAAAAAAAAAAAAAA"}`, "exclude"},
		{"invalid_combination", look, `{"paneId":"w1:p4","match":"x","regex":"y"}`, "either"},
		{"invalid_combination", look, `{"paneId":"w1:p4"}`, "either"},
		{"reserved_argument", prompt, `{"target":"reviewer","text":"--session=other"}`, "--session"},
		{"reserved_argument", prompt, `{"target":"reviewer","text":"--handoff"}`, "--handoff"},
		{"reserved_argument", text, `{"paneId":"w1:p4","text":"--remote"}`, "--remote"},
		{"agent_args_forbidden", begin, agent(`,"args":["--dangerously-skip-permissions"]`), "--agent"},
		{"agent_args_forbidden", begin, agent(`,"args":["--model","-x"]`), "--agent"},
		{"agent_args_forbidden", begin, agent(`,"args":["--model"]`), "--agent"},
		{"ceiling_too_low", begin, agent(`,"timeoutMs":5000`), "HERDR_LINK_CLI_TIMEOUT_MS"},
		{"cwd_not_found", "herdr_workspace_create", `{"cwd":` + quoteJSON(filepath.Join(t.TempDir(), "none")) + `}`, "cwd"},
		{"cwd_not_found", "herdr_pane_split", `{"paneId":"w1:p4","direction":"down","cwd":` + quoteJSON(binaries.plain) + `}`, "cwd"},
		{"preview_unknown", run, `{"paneId":"w1:p4","command":"ls","previewToken":"AAAAAAAAAAAAAAAAAAAAAA"}`, "preview"},
	} {
		c := h.fails(test.code, test.tool, test.args)
		if !strings.Contains(c.Message, test.says) || c.ExitCode != nil || len(c.Message) > 1000 {
			t.Errorf("%s %.120s: %q, want %q", test.tool, test.args, c.Message, test.says)
		}
	}
	if calls := commands(t, s); len(calls) > 0 {
		t.Errorf("it ran %q", calls)
	}
	outside := steer(t, s, "")
	outside.fails("not_in_herdr", "herdr_pane_current", `{}`)
	if calls := commands(t, s); len(calls) > 0 {
		t.Errorf("outside it ran %q", calls)
	}
	strange := steer(t, s, "", "HERDR_PANE_ID=--help")
	strange.fails("not_in_herdr", "herdr_pane_current", `{}`)

	// What is nearly the same, and fine.
	h = steer(t, s, "w1:p1", "HERDR_LINK_AGENT_ARGS=any")
	h.works("herdr_tab_create", `{"workspaceId":"w1","wait_for_previous":true}`)
	h.works(prompt, `{"target":"reviewer","text":"use --session=other"}`)
	if argv := lastArgv(t, s, "agent", "prompt"); argv[len(argv)-1] != "use --session=other" {
		t.Errorf("argv %q", argv)
	}
	h.works(begin, agent(`,"timeoutMs":5000,"args":["--dangerously-skip-permissions"]`))
	if argv := lastArgv(t, s, "agent", "start"); !slices.Equal(argv[len(argv)-2:], []string{"--", "--dangerously-skip-permissions"}) {
		t.Errorf("argv %q", argv)
	}
}

// 6, 8, 10: a value is one element, whatever it looks like.
func TestControlVerbatim(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := steer(t, s, "w1:p1")
	h.works("herdr_pane_run", `{"paneId":"w1:p4","command":"echo \"a; b\" && c"}`)
	if argv := lastArgv(t, s, "pane", "run"); !slices.Equal(argv, []string{"pane", "run", "w1:p4", `echo "a; b" && c`}) {
		t.Errorf("argv %q", argv)
	}
	h.works("herdr_agent_prompt", `{"target":"reviewer","text":"--wait"}`)
	if argv := lastArgv(t, s, "agent", "prompt"); !slices.Equal(argv, []string{"agent", "prompt", "reviewer", "--wait"}) {
		t.Errorf("argv %q", argv)
	}
	h.works("herdr_agent_start", `{"name":"a","kind":"opencode","paneId":"w1:p4","args":["--agent","sheep-plan","-m","x/y:z"]}`)
	if argv := lastArgv(t, s, "agent", "start"); !slices.Equal(argv[len(argv)-5:], []string{"--", "--agent", "sheep-plan", "-m", "x/y:z"}) {
		t.Errorf("argv %q", argv)
	}
}

// 14 to 16, 31: the result in both forms.
func TestControlResults(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	change(t, s, func(w *fakeherdr.World) {
		w.Pane("w1:p4").Text = []string{`{"a":1}`}
		w.Pane("w1:p2").Text = []string{"done"}
	})
	h := steer(t, s, "w1:p1")
	c := h.fails("pane_not_found", "herdr_pane_get", `{"paneId":"w9:p9"}`)
	if *c.ExitCode != 1 || !strings.Contains(string(c.Data), `"pane_not_found"`) || !strings.Contains(c.Stderr, `"pane_not_found"`) || !c.result.IsError {
		t.Errorf("refused: %s", c.result.StructuredContent)
	}
	c = h.works("herdr_pane_read", `{"paneId":"w1:p4"}`)
	if c.Stdout == nil || strings.TrimSpace(*c.Stdout) != `{"a":1}` || c.Data != nil ||
		strings.Contains(c.result.Content[0].Text, `"a"`) || c.result.Content[1].Text != *c.Stdout {
		t.Errorf("a screen: %s, %q", c.result.StructuredContent, c.result.Content)
	}
	c = h.works("herdr_pane_run", `{"paneId":"w1:p4","command":"ls"}`)
	if got, want := string(c.result.StructuredContent), `{"ok":true,"command":"herdr pane run","exitCode":0}`; got != want || len(c.result.Content) != 1 {
		t.Errorf("nothing: %s, want %s", got, want)
	}
	h.works("herdr_agent_read", `{"target":"reviewer"}`)
	if argv := lastArgv(t, s, "agent", "read"); slices.Contains(argv, "--lines") {
		t.Errorf("argv %q", argv)
	}
	c = h.works("herdr_pane_wait_output", `{"paneId":"w1:p2","match":"done"}`)
	if len(c.result.Content) != 2 || strings.Contains(c.result.Content[0].Text, `"text":`) || !strings.Contains(c.result.Content[1].Text, "done") {
		t.Errorf("a match: %q", c.result.Content)
	}
	old := start(t, inPane(t, s, "w1:p1"), "--toolsets", "control")
	old.initialize("2025-03-26")
	if r := old.call("herdr_workspace_list", `{}`); r.StructuredContent != nil || !strings.Contains(r.text(), `"workspace_list"`) || strings.Count(r.text(), "\n") < 10 {
		t.Errorf("2025-03-26: %+v", r)
	}
}

// 17: the program may be missing, and come later.
func TestControlBinary(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	empty := t.TempDir()
	found := filepath.Dir(s.Bin())
	for _, test := range []struct {
		name string
		vars []string
		code string
		exit int
	}{
		{"nowhere", []string{"PATH=" + empty, "HERDR_BIN_PATH="}, "herdr_not_found", 127},
		{"named, not there", []string{"PATH=" + found, "HERDR_BIN_PATH=" + filepath.Join(empty, "herdr")}, "herdr_not_found", 127},
		{"relative", []string{"PATH=" + found, "HERDR_BIN_PATH=herdr"}, "herdr_not_executable", 126},
		{"a folder", []string{"PATH=" + found, "HERDR_BIN_PATH=" + empty}, "herdr_not_executable", 126},
		{"on PATH", []string{"PATH=" + found, "HERDR_BIN_PATH="}, "", 0},
	} {
		h := steer(t, s, "w1:p1", test.vars...)
		for _, call := range [][2]string{{"herdr_agent_list", `{}`}, {"herdr_pane_run", `{"paneId":"w1:p4","command":"ls"}`}} {
			c := h.control(call[0], call[1])
			if c.ErrorCode != test.code || c.ExitCode == nil || *c.ExitCode != test.exit {
				t.Errorf("%s: %s", test.name, c.result.StructuredContent)
			}
		}
	}
}

// 18, 20: a command that never ends, and one that says too much.
func TestControlBounds(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	fault(t, s, fakeherdr.Hang, "agent", "list")
	fault(t, s, fakeherdr.Flood, "pane", "read")
	fault(t, s, fakeherdr.FloodStderr, "tab", "list")
	fault(t, s, fakeherdr.Hang, "agent", "wait")
	h := steer(t, s, "w1:p1", "HERDR_LINK_CLI_TIMEOUT_MS=2000")
	hung, waits := h.begin("herdr_agent_list", `{}`), h.begin("herdr_agent_wait", `{"target":"reviewer","timeoutMs":600000}`)
	for _, c := range []controlled{h.control("herdr_pane_read", `{"paneId":"w1:p4"}`), h.control("herdr_tab_list", `{}`)} {
		if c.ErrorCode != "output_too_large" || c.ExitCode != nil {
			t.Errorf("a flood: %s", c.result.StructuredContent)
		}
	}
	for _, id := range []string{hung, waits} {
		if c := h.controlled(id); c.ErrorCode != "cli_timeout" || *c.ExitCode != 124 {
			t.Errorf("no end: %s", c.result.StructuredContent)
		}
	}
	if argv := lastArgv(t, s, "agent", "wait"); argv[len(argv)-1] != "1000" {
		t.Errorf("Herdr shall give up first: %q", argv)
	}
	h.childless()
}

// 19: which variable counts, and what a bad one comes to.
func TestControlCeiling(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, test := range []struct {
		vars []string
		want string
	}{
		{[]string{"DSH_HERDR_CLI_TIMEOUT_MS=7000"}, "2000"},
		{[]string{"DSH_HERDR_CLI_TIMEOUT_MS=7000", "HERDR_LINK_CLI_TIMEOUT_MS=9000"}, "4000"},
		{[]string{"DSH_HERDR_CLI_TIMEOUT_MS=7000", "HERDR_LINK_CLI_TIMEOUT_MS="}, "2000"},
		{nil, "45000"},
	} {
		steer(t, s, "w1:p1", test.vars...).works("herdr_agent_wait", `{"target":"reviewer","until":["idle"]}`)
		if argv := lastArgv(t, s, "agent", "wait"); argv[len(argv)-1] != test.want {
			t.Errorf("%q: argv %q", test.vars, argv)
		}
	}
	for _, bad := range []string{"HERDR_LINK_CLI_TIMEOUT_MS=999", "HERDR_LINK_CLI_TIMEOUT_MS=3600001", "HERDR_LINK_CLI_TIMEOUT_MS=2s", "DSH_HERDR_CLI_TIMEOUT_MS=-1", "HERDR_LINK_TIMEOUT=soon",
		"HERDR_LINK_PREVIEW_REQUIRED=y", "DSH_HERDR_PREVIEW_REQUIRED=sure"} {
		_, errs, code := run(t, inPane(t, s, "w1:p1", bad), "", "--toolsets", "control")
		name, _, _ := strings.Cut(bad, "=")
		if code != 2 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, name) {
			t.Errorf("%s: exit %d, %q", bad, code, errs)
		}
	}
}

// 21 to 24: previews.
func TestControlPreview(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	home := t.TempDir()
	h := steer(t, s, "w1:p1", "HERDR_LINK_PREVIEW_REQUIRED=Yes", "HOME="+home, "HERDR_LINK_OFF=1")
	const run = "herdr_pane_run"
	args := func(command, token string) string {
		if token != "" {
			token = `,"previewToken":"` + token + `"`
		}
		return `{"paneId":"w1:p4","command":"` + command + `"` + token + `}`
	}
	preview := func(command string) string {
		t.Helper()
		c := h.works(run, `{"paneId":"w1:p4","command":"`+command+`","preview":true}`)
		if c.Preview == nil || !slices.Equal(c.Preview.Argv, []string{s.Bin(), "pane", "run", "w1:p4", command}) || c.ExitCode != nil ||
			len(c.Preview.ArgvDigest) != 64 || !c.Preview.Required || time.Until(c.Preview.ExpiresAt) > 121*time.Second || time.Until(c.Preview.ExpiresAt) < time.Minute {
			t.Fatalf("preview: %s", c.result.StructuredContent)
		}
		return c.Preview.Token
	}
	for tool, args := range map[string]string{
		run: args("ls", ""), "herdr_pane_send_text": `{"paneId":"w1:p4","text":"ls"}`, "herdr_agent_prompt": `{"target":"reviewer","text":"x"}`,
		"herdr_agent_start": `{"name":"a","kind":"pi","paneId":"w1:p4"}`,
	} {
		h.fails("preview_required", tool, args)
	}
	h.works("herdr_workspace_list", `{}`)
	h.works("herdr_tab_create", `{"workspaceId":"w1"}`)

	token := preview("ls")
	if calls := commands(t, s, "pane", "run"); len(calls) > 0 {
		t.Errorf("a preview ran %q", calls)
	}
	if _, err := os.Stat(filepath.Join(home, ".local")); err == nil {
		t.Error("a preview took a lock")
	}
	h.works(run, args("ls", token))
	h.fails("preview_unknown", run, args("ls", token))
	if calls := commands(t, s, "pane", "run"); len(calls) != 1 {
		t.Errorf("it ran %q", calls)
	}
	token = preview("ls")
	if c := h.fails("preview_mismatch", run, args("ls -a", token)); !strings.Contains(c.Message, "command") || !strings.Contains(c.Message, "the token is used up") || strings.Contains(c.Message, "ls") {
		t.Errorf("it says %q", c.Message)
	}
	h.fails("preview_unknown", run, args("ls", token))
	other := steer(t, s, "w1:p1", "HOME="+home)
	token = preview("ls")
	other.fails("preview_unknown", run, args("ls", token))
	h.fails("preview_unknown", "herdr_pane_send_text", `{"paneId":"w1:p4","text":"ls","previewToken":"`+token+`"}`)
	h.fails("preview_unknown", run, args("ls", token)) // the attempt has consumed it
	other.works(run, args("ls", ""))

	// The token comes before the herdr program, which may be away for a moment.
	token = preview("ls")
	if err := os.Rename(s.Bin(), s.Bin()+".away"); err != nil {
		t.Fatal(err)
	}
	h.fails("preview_required", run, args("ls", ""))
	h.fails("herdr_not_found", run, args("ls", token))
	if err := os.Rename(s.Bin()+".away", s.Bin()); err != nil {
		t.Fatal(err)
	}
	h.fails("preview_unknown", run, args("ls", token))

	// 35: another one is there since.
	token = preview("ls")
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p4").Terminal = "term_00000000000001" })
	h.fails("target_changed", run, args("ls", token))
	if calls := commands(t, s, "pane", "run"); len(calls) != 2 {
		t.Errorf("it ran %q", calls)
	}
}

// 25: a secret is in no log, and in no message.
func TestControlSecrets(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	file := filepath.Join(t.TempDir(), "log")
	h := steer(t, s, "w1:p1", "HERDR_LINK_LOG="+file)
	const secret = "hunter2hunter2"
	for _, call := range [][2]string{
		{"herdr_agent_prompt", `{"target":"reviewer","text":"` + secret + `"}`},
		{"herdr_agent_prompt", `{"target":"reviewer","text":"--session=` + secret + `"}`},
		{"herdr_agent_prompt", `{"target":"nobody","text":"` + secret + `"}`},
		{"herdr_pane_run", `{"paneId":"w1:p4","command":"` + secret + `","preview":true}`},
		{"herdr_pane_run", `{"paneId":"w1:p4","command":"` + secret + `\u0000"}`},
		{"herdr_pane_send_text", `{"paneId":"w1:p4","text":"` + secret + `"}`},
		{"herdr_agent_start", `{"name":"a","kind":"pi","paneId":"w1:p4","args":["` + secret + `"]}`},
		{"herdr_pane_wait_output", `{"paneId":"w1:p4","match":"` + secret + `","timeoutMs":1000}`},
		{"herdr_workspace_create", `{"cwd":"/` + secret + `","label":"` + secret + `"}`},
	} {
		c := h.control(call[0], call[1])
		if strings.Contains(c.Command+c.Message, secret) {
			t.Errorf("%s: %s", call[0], c.result.StructuredContent)
		}
	}
	h.stdin.Close()
	h.wait()
	log, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(log), secret) || strings.Contains(string(log), "w1:p4") || !strings.Contains(string(log), `"tool":"herdr_agent_prompt"`) {
		t.Errorf("log %v: %s", err, log)
	}
}

// 34: a prompt right behind a start answers no dialog, though Herdr tells late of one
// that was open from the start on.
func TestControlStartAsks(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	change(t, s, func(w *fakeherdr.World) { w.Dialogs = map[string]time.Duration{"pi": 700 * time.Millisecond} })
	h := steer(t, s, "w1:p1")
	h.works("herdr_agent_start", `{"name":"a","kind":"pi","paneId":"w1:p4"}`)
	h.fails("agent_blocked", "herdr_agent_prompt", `{"target":"a","text":"hello"}`)
	if keys, err := s.Keystrokes("w1:p4"); err != nil || len(keys) != 1 || keys[0].Text != "pi" {
		t.Errorf("%+v, %v", keys, err) // the command of the start alone
	}
}

// 26, 34: nobody types into the own terminal, a dialog or, as a command, into
// an agent.
func TestControlTargets(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := steer(t, s, "w1:p1")
	all := func(code, pane, name string) {
		t.Helper()
		for tool, args := range map[string]string{
			"herdr_pane_run":       `{"paneId":"` + pane + `","command":"ls"}`,
			"herdr_pane_send_text": `{"paneId":"` + pane + `","text":"ls"}`,
			"herdr_agent_start":    `{"name":"a","kind":"pi","paneId":"` + pane + `"}`,
		} {
			h.fails(code, tool, args)
		}
		for _, target := range []string{name, pane} {
			h.fails(code, "herdr_agent_prompt", `{"target":"`+target+`","text":"x"}`)
			h.fails(code, "herdr_agent_prompt", `{"target":"`+target+`","text":"x","preview":true}`)
		}
	}
	all("self_target", "w1:p1", "lead")
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Blocked })
	all("agent_blocked", "w1:p2", "reviewer")
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Working })
	h.fails("pane_hosts_agent", "herdr_pane_run", `{"paneId":"w1:p2","command":"ls"}`)
	h.fails("pane_hosts_agent", "herdr_pane_send_text", `{"paneId":"w1:p2","text":"ls"}`)
	var moved string
	change(t, s, func(w *fakeherdr.World) { moved = w.Move("w1:p1", "w2").ID }) // HERDR_PANE_ID is stale now
	all("self_target", moved, "lead")
	for _, pane := range []string{"w1:p2", moved} {
		if typed, err := s.Keystrokes(pane); err != nil || len(typed) > 0 {
			t.Errorf("%s got %v, %v", pane, typed, err)
		}
	}
	// An own pane that is gone is none.
	steer(t, s, "w1:p1", "HERDR_PANE_ID=w1:p9").works("herdr_pane_run", `{"paneId":"w1:p4","command":"ls"}`)
	// Look-ups that fail end the call.
	for _, test := range []struct{ kind, code string }{
		{fakeherdr.Down, "server_not_running"}, {fakeherdr.Mismatch, "protocol_mismatch"}, {fakeherdr.Shape, "unparsable_output"}, {fakeherdr.Exit2, "usage_error"},
	} {
		for _, pane := range []string{"w1:p4", "w1:p1"} {
			change(t, s, func(w *fakeherdr.World) {
				w.Faults = []fakeherdr.Fault{{Kind: test.kind, Match: []string{"pane", "get", pane}}}
			})
			c := h.fails(test.code, "herdr_pane_run", `{"paneId":"w1:p4","command":"ls"}`)
			if !strings.Contains(c.Message, "nothing was sent") || c.Command != "herdr pane run" {
				t.Errorf("%s: %s", test.kind, c.result.StructuredContent)
			}
		}
	}
	if calls := commands(t, s, "pane", "run"); len(calls) != 1 {
		t.Errorf("it ran %q", calls)
	}
}

// 28: a diagnosis needs no server.
func TestControlDoctor(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	type diagnosis struct {
		Checks []struct {
			Name string
			OK   bool
			Code string
		}
		Herdr struct {
			Version        string
			ClientProtocol int
			ServerProtocol *int
			Running        bool
			Compatible     *bool
		}
		Pane struct {
			InHerdr bool
			PaneID  string
		}
		Integrations []struct{ Name, State string }
		Link         struct {
			Version         string
			Toolsets        []string
			PreviewRequired bool
			CLITimeoutMs    int
		}
	}
	diagnose := func(h *host) (c controlled, d diagnosis, failed []string) {
		t.Helper()
		c = h.control("herdr_doctor", `{}`)
		if err := json.Unmarshal(c.Data, &d); err != nil {
			t.Fatal(err, string(c.Data))
		}
		var names []string
		for _, check := range d.Checks {
			names = append(names, check.Name)
			if !check.OK {
				failed = append(failed, check.Name+" "+check.Code)
			}
		}
		if !slices.Equal(names, []string{"binary", "version", "server", "protocol", "pane"}) {
			t.Errorf("checks %q", names)
		}
		return c, d, failed
	}
	h := steer(t, s, "w1:p1", "HERDR_LINK_CLI_TIMEOUT_MS=20000", "DSH_HERDR_PREVIEW_REQUIRED=on")
	c, d, failed := diagnose(h)
	version, err := os.ReadFile("version.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !c.OK || failed != nil || d.Herdr.Version != "0.8.0" || !d.Herdr.Running || d.Herdr.ClientProtocol != 20 || *d.Herdr.ServerProtocol != 20 || !d.Pane.InHerdr || d.Pane.PaneID != "w1:p1" ||
		d.Link.Version != strings.TrimSpace(string(version)) || !reflect.DeepEqual(d.Link.Toolsets, []string{"link", "control"}) || !d.Link.PreviewRequired || d.Link.CLITimeoutMs != 20000 {
		t.Errorf("all well: %s", c.result.StructuredContent)
	}
	if len(d.Integrations) < 10 || d.Integrations[0].Name != "pi" || d.Integrations[0].State != "not installed" {
		t.Errorf("integrations %v", d.Integrations)
	}
	if c, _, failed := diagnose(steer(t, s, "")); !c.OK || !slices.Equal(failed, []string{"pane not_in_herdr"}) {
		t.Errorf("outside: %v, %q", c.OK, failed)
	}
	fault(t, s, fakeherdr.Down)
	c, d, failed = diagnose(h)
	if c.OK || c.ErrorCode != "server_not_running" || !slices.Equal(failed, []string{"server server_not_running", "protocol server_not_running"}) ||
		d.Herdr.Version != "0.8.0" || len(d.Integrations) < 10 || *c.ExitCode != 0 {
		t.Errorf("no server: %s", c.result.StructuredContent)
	}
	c, d, failed = diagnose(steer(t, s, "w1:p1", "HERDR_BIN_PATH=/none/herdr"))
	if c.OK || c.ErrorCode != "herdr_not_found" || len(failed) != 4 || d.Integrations == nil || *c.ExitCode != 127 {
		t.Errorf("no program: %s, %q", c.result.StructuredContent, failed)
	}
}

// 29, 40: waits take nobody's place, and end when they are told to.
func TestControlWaits(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := steer(t, s, "w1:p1")
	const waits = 70
	var ids []string
	for range waits {
		ids = append(ids, h.begin("herdr_agent_wait", `{"target":"reviewer","until":["blocked"],"timeoutMs":60000}`))
	}
	awaitCalls(t, s, waits, "agent", "wait")
	h.works("herdr_agent_list", `{}`)
	h.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + ids[0] + `}}`)
	eventually(t, "the end of the cancelled wait", func() bool { return len(h.env.alive()) == waits })
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Blocked })
	for _, id := range ids[1:] {
		if c := h.controlled(id); !c.OK {
			t.Fatalf("a wait: %s", c.result.StructuredContent)
		}
	}
	open := h.begin("herdr_agent_wait", `{"target":"reviewer","until":["idle"],"timeoutMs":60000}`)
	awaitCalls(t, s, waits+1, "agent", "wait")
	h.stdin.Close()
	if c := h.controlled(open); c.ErrorCode != "cancelled" || *c.ExitCode != 130 {
		t.Errorf("at the end of input: %s", c.result.StructuredContent)
	}
	if code := h.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
	for line := range h.lines {
		if strings.Contains(line, `"id":`+ids[0]+`,`) {
			t.Errorf("a late result: %s", line)
		}
	}
}

// 100 parallel reads while a wait is open: none is delayed by it.
func TestControlReadsBesideWait(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := steer(t, s, "w1:p1")
	wait := h.begin("herdr_agent_wait", `{"target":"reviewer","until":["blocked"],"timeoutMs":45000}`)
	awaitCalls(t, s, 1, "agent", "wait")
	var ids []string
	for range 100 {
		ids = append(ids, h.begin("herdr_agent_get", `{"target":"reviewer"}`))
	}
	for _, id := range ids {
		if c := h.controlled(id); !c.OK {
			t.Errorf("a read: %s", c.result.StructuredContent)
		}
	}
	h.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + wait + `}}`)
	h.childless()
}

// 32: whoever types into a terminal, by whatever name, gets a submission of
// its own.
func TestControlOneAtATime(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	home := t.TempDir()
	one, two := steer(t, s, "w1:p1", "HOME="+home), steer(t, s, "w1:p3", "HOME="+home)
	var ids []string
	for i := range 2 {
		ids = append(ids, one.begin("herdr_agent_prompt", fmt.Sprintf(`{"target":"reviewer","text":"one %d"}`, i)),
			one.begin("herdr_agent_prompt", fmt.Sprintf(`{"target":"w1:p2","text":"one by id %d"}`, i)))
	}
	send, prompt := two.begin("herdr_link_send", `{"to":"reviewer","message":"two"}`), two.begin("herdr_agent_prompt", `{"target":"reviewer","text":"two"}`)
	one.works("herdr_pane_read", `{"paneId":"w1:p2"}`)
	for _, id := range ids {
		if c := one.controlled(id); !c.OK {
			t.Errorf("one: %s", c.result.StructuredContent)
		}
	}
	if c := two.controlled(prompt); !c.OK || two.result(send).IsError {
		t.Errorf("two: %s", c.result.StructuredContent)
	}
	change(t, s, func(w *fakeherdr.World) { // a prompt whose end is not its start
		w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Slow, Delay: 400 * time.Millisecond, Match: []string{"agent", "prompt"}, Left: 1}}
	})
	for i := range 2 { // one right after the other, when nobody has to wait for the lock
		one.works("herdr_agent_prompt", fmt.Sprintf(`{"target":"reviewer","text":"last %d"}`, i))
	}
	var all []fakeherdr.Submission
	eventually(t, "eight submissions", func() bool {
		var err error
		if all, err = s.Submissions("w1:p2"); err != nil {
			t.Fatal(err)
		}
		return len(all) >= 8
	})
	var texts []string
	for _, sub := range all {
		text, _, _ := strings.Cut(sub.Text, " This")
		if strings.HasPrefix(text, "[herdr-link/1]") {
			text = "a message"
		}
		texts = append(texts, text)
	}
	if slices.Index(texts, "one 0") > slices.Index(texts, "one 1") {
		t.Errorf("out of order: %q", texts)
	}
	slices.Sort(texts)
	if want := []string{"a message", "last 0", "last 1", "one 0", "one 1", "one by id 0", "one by id 1", "two"}; !slices.Equal(texts, want) {
		t.Errorf("received %q", texts)
	}
	typed, err := s.Keystrokes("w1:p2")
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(typed, func(a, b fakeherdr.Keystroke) int { return a.At.Compare(b.At) })
	for i := 2; i < len(typed); i += 2 { // text, Enter, text, Enter
		if gap := typed[i].At.Sub(typed[i-2].At); gap < 300*time.Millisecond {
			t.Errorf("%v between two texts", gap)
		}
	}
}

// 33: a prompt that waits keeps nobody out for long.
func TestControlLongPrompt(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	home := t.TempDir()
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Working })
	one, two := steer(t, s, "w1:p1", "HOME="+home), steer(t, s, "w1:p3", "HOME="+home)
	long := one.begin("herdr_agent_prompt", `{"target":"reviewer","text":"go","wait":true,"until":["blocked"],"timeoutMs":60000}`)
	awaitCalls(t, s, 1, "agent", "prompt")
	next := one.begin("herdr_agent_prompt", `{"target":"reviewer","text":"next"}`)
	if r := two.call("herdr_link_send", `{"to":"reviewer","message":"beside"}`); r.IsError {
		t.Errorf("a peer is kept out: %s", r.text())
	}
	if c := one.controlled(next); !c.OK {
		t.Errorf("the next prompt is kept out: %s", c.result.StructuredContent)
	}
	one.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + long + `}}`)
	one.childless()
}

// The command line has the same tools, a process a call.
func TestControlCommandLine(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	env := inPane(t, s, "w1:p1")
	out, errs, code := run(t, env, `{"paneId":"w1:p4"}`, "call", "herdr_pane_get", "--toolsets", "control")
	if code != 0 || errs != "" || !strings.Contains(out, `"pane_info"`) {
		t.Errorf("call: %d %q %q", code, out, errs)
	}
	if _, errs, code := run(t, env, `{}`, "call", "herdr_pane_list"); code != 2 || !strings.Contains(errs, "no such tool without --toolsets control: herdr_pane_list") {
		t.Errorf("call of what is off: %d %q", code, errs)
	}
	out, _, _ = run(t, env, "", "tools", "--toolsets", "link,control")
	if n := strings.Count(out, "\n"); n != 28 {
		t.Errorf("tools: %d lines", n)
	}
	out, _, _ = run(t, env, `{"paneId":"w1:p4","command":"ls","preview":true}`, "call", "herdr_pane_run", "--toolsets", "control")
	var r result
	var c controlled
	if json.Unmarshal([]byte(out), &r) != nil || json.Unmarshal(r.StructuredContent, &c) != nil || c.Preview == nil {
		t.Fatalf("a preview: %s", out)
	}
	out, _, _ = run(t, env, `{"paneId":"w1:p4","command":"ls","previewToken":"`+c.Preview.Token+`"}`, "call", "herdr_pane_run", "--toolsets", "control")
	if !strings.Contains(out, "preview_unknown") {
		t.Errorf("a token of another process: %s", out)
	}
}

// What Herdr says may be long. What is added to it is not cut off.
func TestControlLongMessage(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	change(t, s, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.ErrorCode, Code: "odd", Text: strings.Repeat("ä ", 5000), Match: []string{"agent", "get"}}}
	})
	c := steer(t, s, "w1:p1").fails("odd", "herdr_agent_prompt", `{"target":"reviewer","text":"hi"}`)
	if n := len([]rune(c.Message)); n > 1000 || n < 800 || !strings.HasSuffix(c.Message, "; nothing was sent") {
		t.Errorf("%d characters: %q", n, c.Message)
	}
}

// Whoever slept before it types looks again: the world may have changed.
func TestControlLooksAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	home := t.TempDir()
	h := steer(t, s, "w1:p1", "HOME="+home, "USERPROFILE="+home)
	h.works("herdr_agent_prompt", `{"target":"reviewer","text":"one"}`)
	locks, err := filepath.Glob(filepath.Join(home, ".local", "state", "herdr-link", "locks", "*"))
	if later := time.Now().Add(time.Hour); err != nil || len(locks) != 1 || os.Chtimes(locks[0], later, later) != nil {
		t.Fatal(err, locks) // however busy this machine is, there is something to sleep for
	}
	if n := len(commands(t, s, "agent", "get", "reviewer")); n != 1 {
		t.Errorf("%d look-ups before the first text", n)
	}
	h.works("herdr_agent_prompt", `{"target":"reviewer","text":"two"}`)
	if n := len(commands(t, s, "agent", "get", "reviewer")); n != 3 {
		t.Errorf("%d look-ups, and 2 of them should be before the second text", n)
	}
}

// An agent that takes long to start keeps nobody out of its pane for as long.
func TestControlLongStart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	home := t.TempDir()
	change(t, s, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Hang, Match: []string{"agent", "start"}}}
	})
	one, two := steer(t, s, "w1:p1", "HOME="+home), steer(t, s, "w1:p3", "HOME="+home)
	long := one.begin("herdr_agent_start", `{"name":"late","kind":"pi","paneId":"w1:p4"}`)
	awaitCalls(t, s, 1, "agent", "start")
	two.works("herdr_pane_run", `{"paneId":"w1:p4","command":"ls"}`) // after 10 s it is target_busy
	one.works("herdr_pane_run", `{"paneId":"w1:p4","command":"ls"}`)
	one.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + long + `}}`)
	one.childless()
}
