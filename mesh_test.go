//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

// A meshed is what a tool of mesh returns: the structure, and the error in it.
type meshed struct {
	data  map[string]json.RawMessage
	fault *meshFault
	result
}

type meshFault struct {
	Code, Message string
	Retryable     *bool
	Details       map[string]json.RawMessage
}

// A meshAgent is how mesh tells an agent.
type meshAgent struct {
	Target, Kind, Status, Cwd, Name, PaneID, TerminalID string
	StateChangeSeq                                      int
}

// coordinate starts a server with mesh in the pane; "" is outside of Herdr.
func coordinate(t testing.TB, s *fakeherdr.Scene, pane string, more ...string) *host {
	t.Helper()
	more = append([]string{"HERDR_LINK_OFF=1"}, more...) // no bootstrap
	env := inPane(t, s, pane, more...)
	if pane == "" { // but with a herdr to run
		env = inPane(t, nil, "", append([]string{"HERDR_BIN_PATH=" + s.Bin()}, more...)...)
	}
	h := start(t, env, "--toolsets", "link,mesh")
	h.initialize("2025-11-25")
	return h
}

func (h *host) mesh(tool, args string) meshed {
	h.t.Helper()
	return h.meshed(h.begin(tool, args))
}

// meshed returns the result of the call, whose form is checked.
func (h *host) meshed(id string) (m meshed) {
	h.t.Helper()
	m.result = h.result(id)
	if err := json.Unmarshal(m.StructuredContent, &m.data); err != nil || len(m.Content) == 0 {
		h.t.Fatalf("no result of mesh: %v, %+v", err, m.result)
	}
	if !m.IsError {
		if !json.Valid([]byte(m.text())) {
			h.t.Errorf("the first block is no JSON: %s", m.text())
		}
		return m
	}
	if err := json.Unmarshal(m.data["error"], &m.fault); err != nil || m.fault.Message == "" || m.fault.Retryable == nil ||
		len(m.data) != 1 || len(m.Content) != 1 || m.text() != m.fault.Code+": "+m.fault.Message {
		h.t.Errorf("no error of mesh: %v, %s, %q", err, m.StructuredContent, m.Content)
	}
	return m
}

// refuses calls a tool that must fail with that code.
func (h *host) refuses(code, tool, args string) meshed {
	h.t.Helper()
	return refusal(h.t, h.mesh(tool, args), code)
}

func refusal(t testing.TB, m meshed, code string) meshed {
	t.Helper()
	if m.fault == nil || m.fault.Code != code {
		t.Fatalf("%s, want %s", m.StructuredContent, code)
	}
	return m
}

// answers calls a tool that must do what it is for.
func (h *host) answers(tool, args string) meshed {
	h.t.Helper()
	return success(h.t, h.mesh(tool, args))
}

func success(t testing.TB, m meshed) meshed {
	t.Helper()
	if m.IsError {
		t.Fatalf("%s", m.StructuredContent)
	}
	return m
}

// settledAs is what a wait for the first settled agent says.
func settledAs(t testing.TB, m meshed) (a meshAgent, output string) {
	t.Helper()
	success(t, m)
	var event string
	if json.Unmarshal(m.data["event"], &event) != nil || event != "agent_settled" || json.Unmarshal(m.data["agent"], &a) != nil ||
		json.Unmarshal(m.data["output"], &output) != nil {
		t.Fatalf("%s", m.StructuredContent)
	}
	return a, output
}

// polled waits until mesh has looked at the agents n times more.
func polled(t testing.TB, s *fakeherdr.Scene, n int) {
	t.Helper()
	awaitCalls(t, s, len(commands(t, s, "agent", "list"))+n, "agent", "list")
}

func setStatus(t testing.TB, s *fakeherdr.Scene, pane, status string) (cursor int) {
	t.Helper()
	change(t, s, func(w *fakeherdr.World) { w.Pane(pane).Agent.Status = status })
	w, err := s.World()
	if err != nil {
		t.Fatal(err)
	}
	return w.Pane(pane).Agent.StateChangeSeq
}

// meshTools is how many there are, of the parts that are built.
const meshTools = 44

// mesh.md §0.1: the tools are there if the operator wants them,
// wherever the server is, and never with control.
func TestMeshListed(t *testing.T) {
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
		t.Errorf("%d tools of mesh without being asked for", n)
	}
	if m := off.answer(off.begin("herdr_agent_list", "{}")); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("a tool of mesh that is off: %s", m.line)
	}
	for name, h := range map[string]*host{
		"inside": coordinate(t, s, "w1:p1"), "outside": coordinate(t, s, ""),
		"by variable": func() *host {
			h := start(t, inPane(t, s, "w1:p1", "HERDR_LINK_TOOLSETS= mesh ,link,mesh"))
			h.initialize("2025-11-25")
			return h
		}(),
		"alone": func() *host {
			h := start(t, inPane(t, s, "w1:p1"), "--toolsets", "mesh")
			if r := h.initialize("2025-11-25"); strings.Contains(string(r), "listChanged") || strings.Contains(string(r), "instructions") {
				t.Errorf("without link it says of link: %s", r)
			}
			return h
		}(),
	} {
		if n := count(h); n != meshTools {
			t.Errorf("%s: %d tools", name, n)
		}
		if !h.answers("herdr_agent_list", "{}").has("agents") {
			t.Errorf("%s: no agents", name)
		}
	}
	modern := start(t, inPane(t, s, "w1:p1"), "--toolsets", "link,mesh", "--era", "2026-07-28")
	meta := `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	m := modern.answer(modern.request("tools/list", meta+"}"))
	if n := strings.Count(m.line, `"openWorldHint"`); n != meshTools+1 || strings.Contains(m.line, "outputSchema") {
		t.Errorf("modern: %d tools", n)
	}
	m = modern.answer(modern.request("tools/call", meta+`,"name":"herdr_agent_list","arguments":{}}`))
	if !strings.Contains(m.line, `"state_change_seq"`) || !strings.Contains(m.line, `"resultType":"complete"`) {
		t.Errorf("modern: %s", m.line)
	}

	for _, test := range []struct {
		list, set, says string
	}{
		{"link,control,mesh", "HERDR_MESH_STATE_DIR=", "exclude each other"},
		{"mesh,control", "HERDR_MESH_STATE_DIR=", "exclude each other"},
		{"mesh", "HERDR_MESH_STATE_DIR=relative", "HERDR_MESH_STATE_DIR must be an absolute path"},
		{"mesh", "HOME=", "HOME must be an absolute path"},
	} {
		env := inPane(t, s, "w1:p1", test.set)
		for _, args := range [][]string{{"--toolsets", test.list}, {"tools", "--toolsets", test.list}, {"install", "codex", "--toolsets", test.list}} {
			out, errs, code := run(t, env, "", args...)
			if code != 2 || out != "" || !strings.Contains(errs, test.says) || strings.Count(errs, "\n") != 1 {
				t.Errorf("%s: exit %d, %q, %q", args, code, out, errs)
			}
		}
	}
}

func (m meshed) has(member string) bool { return m.data[member] != nil }

// mesh.md §2.3 and §2.4: each tool is that command, and its answer what Herdr
// has at that place.
func TestMeshCommands(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	change(t, s, func(w *fakeherdr.World) {
		w.Pane("w1:p2").Text = []string{"$ run", "all \x1b[32mgreen\x1b[0m"}
		w.Integrations = map[string]string{"pi": "current (v8)", "claude": "outdated (v1 < v9)"}
		w.Seq = 9007199254740993
		w.Pane("w1:p2").Agent.StateChangeSeq = w.Seq
	})
	h := coordinate(t, s, "w1:p1")
	w, err := s.World()
	if err != nil {
		t.Fatal(err)
	}
	reviewer := w.Pane("w1:p2").Terminal
	for _, test := range []struct {
		tool, args, argv string
		members          string // of the answer
		has              []string
		text             string // the second block
	}{
		{"herdr_agent_list", `{}`, "agent list", "agents", []string{`"agents":[{"agent":"claude","agent_status":"idle"`, `"state_change_seq":9007199254740993`}, ""},
		{"herdr_agent_get", `{"target":"reviewer"}`, "agent get reviewer", "agent", []string{`"terminal_id":"` + reviewer + `"`, `"tab_id":"w1:t1"`}, ""},
		{"herdr_agent_read", `{"target":"reviewer","lines":50}`, "agent read reviewer --source visible --lines 50 --format text", "output", nil, "$ run\nall green\n"},
		{"herdr_agent_wait", `{"target":"reviewer","status":"done"}`, "agent wait reviewer --until idle --until done --timeout 45000", "agent", []string{`"agent_status":"idle"`}, ""},
		{"herdr_wait_output", `{"pane_id":"w1:p2","match":"gr.en","regex":true}`, "pane wait-output w1:p2 --regex gr.en --timeout 45000", "matchedLine paneId",
			[]string{`{"paneId":"w1:p2","matchedLine":"all green"}`}, ""},
		{"herdr_session_list", `{}`, "session list --json", "sessions", []string{`"name":"default","running":true`}, ""},
		{"herdr_pane_list", `{"workspace":"w2"}`, "pane list --workspace w2", "panes type", []string{`"panes":[{"agent":"claude"`}, ""},
		{"herdr_pane_get", `{"pane_id":"w1:p4"}`, "pane get w1:p4", "pane type", []string{`"type":"pane_info"`}, ""},
		{"herdr_pane_read", `{"pane_id":"w1:p2","source":"recent"}`, "pane read w1:p2 --source recent --lines 200 --format text", "output", nil, "$ run\nall green\n"},
		{"herdr_tab_list", `{}`, "tab list", "tabs type", []string{`"tab_id":"w2:t1"`}, ""},
		{"herdr_tab_get", `{"tab_id":"w1:t1"}`, "tab get w1:t1", "tab type", nil, ""},
		{"herdr_workspace_list", `{}`, "workspace list", "type workspaces", nil, ""},
		{"herdr_workspace_get", `{"workspace_id":"w2"}`, "workspace get w2", "type workspace", []string{`"label":"web"`}, ""},
		{"herdr_integration_status", `{}`, "integration status", "integrations raw",
			[]string{`{"target":"pi","state":"current (v8)","path":"/`, `"raw":"pi: current (v8) (/`}, ""},
	} {
		before := len(commands(t, s))
		m := h.answers(test.tool, test.args)
		var members []string
		for name := range m.data {
			members = append(members, name)
		}
		slices.Sort(members)
		if got := strings.Join(members, " "); got != test.members {
			t.Errorf("%s has %s", test.tool, got)
		}
		for _, part := range test.has {
			if !strings.Contains(string(m.StructuredContent), part) {
				t.Errorf("%s: %s is not in %s", test.tool, part, m.StructuredContent)
			}
		}
		if calls := commands(t, s)[before:]; len(calls) != 1 || strings.Join(calls[0], " ") != test.argv {
			t.Errorf("%s ran %q, want %s", test.tool, calls, test.argv)
		}
		switch {
		case test.text == "" && len(m.Content) != 1:
			t.Errorf("%s: %d blocks", test.tool, len(m.Content))
		case test.text != "" && (len(m.Content) != 2 || m.Content[1].Text != test.text || m.text() != "{}" || string(m.data["output"]) != quoteJSON(test.text)):
			t.Errorf("%s: %q, %s", test.tool, m.Content, m.StructuredContent)
		}
	}
	m := h.answers("herdr_integration_status", `{"outdated_only":true}`)
	var list []struct{ Target, State, Path string }
	if err := json.Unmarshal(m.data["integrations"], &list); err != nil || len(list) != 1 || list[0].Target != "claude" || list[0].State != "outdated (v1 < v9)" ||
		filepath.Base(list[0].Path) != "herdr-agent-state.sh" || !strings.Contains(string(m.data["raw"]), "herdr integration install claude.") {
		t.Errorf("outdated: %v, %s", err, m.StructuredContent)
	}
	change(t, s, func(w *fakeherdr.World) { w.Integrations = nil })
	if m := h.answers("herdr_integration_status", `{"outdated_only":true}`); string(m.StructuredContent) != `{"integrations":[],"raw":""}` {
		t.Errorf("nothing outdated: %s", m.StructuredContent)
	}
	old := start(t, inPane(t, s, "w1:p1"), "--toolsets", "mesh")
	old.initialize("2025-03-26")
	if r := old.call("herdr_agent_list", `{}`); r.StructuredContent != nil || strings.Count(r.text(), "\n") < 40 {
		t.Errorf("2025-03-26: %+v", r)
	}
}

// mesh.md §2, scenario 59: what is wrong in the arguments is named, and no
// herdr runs.
func TestMeshRefuses(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := coordinate(t, s, "w1:p1")
	const settled, anyOf, output = "herdr_agent_wait_settled", "herdr_agent_wait_any", "herdr_wait_output"
	many := strings.TrimSuffix(strings.Repeat(`{"target":"a"},`, 17), ",")
	for _, test := range []struct{ tool, args, says string }{
		{"herdr_agent_get", `{}`, "target is required"},
		{"herdr_agent_get", `{"target":"-x"}`, "target must be"},
		{"herdr_agent_get", `{"target":"Claude"}`, "target must be"},
		{"herdr_agent_get", `{"target":"reviewer","dryrun":true}`, `"dryrun" is no argument`},
		{"herdr_agent_list", `{"workspace":"w1"}`, `"workspace" is no argument`},
		{"herdr_agent_read", `{"target":"reviewer","lines":1001}`, "lines must be an integer from 1 to 1000"},
		{"herdr_agent_read", `{"target":"reviewer","source":"detection"}`, "source must be one of"},
		{"herdr_agent_wait", `{"target":"reviewer"}`, "status is required"},
		{"herdr_agent_wait", `{"target":"reviewer","status":"settled"}`, "status must be one of"},
		{"herdr_agent_wait", `{"target":"reviewer","status":"idle","timeout_ms":0}`, "timeout_ms must be an integer from 1 to 600000"},
		{settled, `{"target":"reviewer","read_lines":1001}`, "read_lines must be an integer from 1 to 1000"},
		{settled, `{"target":"reviewer","after_seq":-1}`, "after_seq must be an integer, 0 or more"},
		{settled, `{"target":"reviewer","timeout_ms":600001}`, "timeout_ms must be"},
		{anyOf, `{"targets":[]}`, "targets must have 1 to 16 items"},
		{anyOf, `{"targets":[` + many + `]}`, "targets must have 1 to 16 items"},
		{anyOf, `{"targets":["reviewer"]}`, "targets[0] must be an object"},
		{anyOf, `{"targets":[{"target":"lead"},{"target":"reviewer","after":1}]}`, `targets[1]."after" is no argument`},
		{anyOf, `{"targets":[{"target":"lead"},{"target":"lead","after_seq":1}]}`, "targets[1].target must not be there twice"},
		{output, `{"pane_id":"reviewer","match":"x"}`, "pane_id must be"},
		{output, `{"pane_id":"w1:p2","match":""}`, "match must have 1 to 1000 characters"},
		{output, `{"pane_id":"w1:p2","match":` + quoteJSON(strings.Repeat("ä", 1001)) + `}`, "match must have 1 to 1000 characters, and has 1001"},
		{output, `{"pane_id":"w1:p2","match":"a\u0000"}`, "match must be text without control characters"},
		{output, `{"pane_id":"w1:p2","match":"--session=x"}`, "match must not be"},
		{output, `{"pane_id":"w1:p2","match":"--remote"}`, "match must not be"},
		{output, `{"pane_id":"w1:p2","match":"x","regex":"x"}`, "regex must be true or false"},
		{"herdr_pane_list", `{"workspace":"api"}`, "workspace must be"},
		{"herdr_pane_get", `{"pane_id":"w1:t1"}`, "pane_id must be"},
		{"herdr_tab_get", `{"tab_id":"w1:p1"}`, "tab_id must be"},
		{"herdr_workspace_get", `{"workspace_id":"1"}`, "workspace_id must be"},
		{"herdr_integration_status", `{"outdated_only":1}`, "outdated_only must be true or false"},
		{"herdr_agent_list", `[]`, "arguments must be a JSON object"},
		{"herdr_agent_get", `{"target":"lead","target":"reviewer"}`, "given twice"},
	} {
		if m := h.refuses("INVALID_ARGUMENT", test.tool, test.args); !strings.Contains(m.fault.Message, test.says) || *m.fault.Retryable {
			t.Errorf("%s %.100s: %q, want %q", test.tool, test.args, m.fault.Message, test.says)
		}
	}
	if calls := commands(t, s); len(calls) > 0 {
		t.Errorf("it ran %q", calls)
	}
	h.answers("herdr_agent_get", `{"target":"reviewer","wait_for_previous":true}`)
	h.answers(settled, `{"target":"reviewer","after_seq":null}`)
	h.refuses("WAIT_TIMEOUT", output, `{"pane_id":"w1:p2","match":"use --session=x","timeout_ms":50}`)
	if m := h.refuses("INVALID_ARGUMENT", output, `{"pane_id":"w1:p2","match":"(","regex":true}`); !strings.Contains(m.fault.Message, "match") {
		t.Errorf("a bad pattern: %s", m.StructuredContent)
	}
}

// mesh.md §2.9: what went wrong with Herdr.
func TestMeshFaults(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := coordinate(t, s, "w1:p1", "HERDR_LINK_TIMEOUT=2s")
	for _, test := range []struct{ code, tool, args, of string }{
		{"AGENT_NOT_FOUND", "herdr_agent_get", `{"target":"nobody"}`, "agent_not_found"},
		{"AGENT_NOT_FOUND", "herdr_agent_read", `{"target":"w1:p4"}`, "agent_not_found"},
		{"AGENT_NOT_FOUND", "herdr_agent_wait", `{"target":"nobody","status":"idle"}`, "agent_not_found"},
		{"WAIT_TIMEOUT", "herdr_agent_wait", `{"target":"reviewer","status":"blocked","timeout_ms":50}`, "timeout"},
		{"PANE_NOT_FOUND", "herdr_pane_get", `{"pane_id":"w9:p9"}`, "pane_not_found"},
		{"PANE_NOT_FOUND", "herdr_pane_read", `{"pane_id":"w9:p9"}`, "pane_not_found"},
		{"PANE_NOT_FOUND", "herdr_wait_output", `{"pane_id":"w9:p9","match":"x"}`, "pane_not_found"},
		{"TAB_NOT_FOUND", "herdr_tab_get", `{"tab_id":"w9:t9"}`, "tab_not_found"},
		{"WORKSPACE_NOT_FOUND", "herdr_workspace_get", `{"workspace_id":"w9"}`, "workspace_not_found"},
		{"WORKSPACE_NOT_FOUND", "herdr_pane_list", `{"workspace":"w9"}`, "workspace_not_found"},
		{"WORKSPACE_NOT_FOUND", "herdr_tab_list", `{"workspace":"w9"}`, "workspace_not_found"},
	} {
		m := h.refuses(test.code, test.tool, test.args)
		if string(m.fault.Details["herdrCode"]) != quoteJSON(test.of) || *m.fault.Retryable != (test.code == "WAIT_TIMEOUT") {
			t.Errorf("%s: %s", test.tool, m.StructuredContent)
		}
	}
	for _, test := range []struct {
		fault     fakeherdr.Fault
		code      string
		retryable bool
	}{
		{fakeherdr.Fault{Kind: fakeherdr.Down}, "HERDR_SERVER_DOWN", true},
		{fakeherdr.Fault{Kind: fakeherdr.Mismatch}, "HERDR_PROTOCOL_MISMATCH", false},
		{fakeherdr.Fault{Kind: fakeherdr.Hang}, "HERDR_TIMEOUT", true},
		{fakeherdr.Fault{Kind: fakeherdr.Flood}, "HERDR_OUTPUT_TOO_LARGE", false},
		{fakeherdr.Fault{Kind: fakeherdr.FloodStderr}, "HERDR_OUTPUT_TOO_LARGE", false},
		{fakeherdr.Fault{Kind: fakeherdr.Garbage}, "HERDR_BAD_OUTPUT", false},
		{fakeherdr.Fault{Kind: fakeherdr.Empty}, "HERDR_BAD_OUTPUT", false},
		{fakeherdr.Fault{Kind: fakeherdr.Shape}, "HERDR_BAD_OUTPUT", false},
		{fakeherdr.Fault{Kind: fakeherdr.Shape, Text: `{"result":{"agent":[],"agents":{},"pane":null,"x":{"agent":{"pane_id":"w1:p1"}}}}`}, "HERDR_BAD_OUTPUT", false},
		{fakeherdr.Fault{Kind: fakeherdr.Debug}, "HERDR_BAD_OUTPUT", false},
		{fakeherdr.Fault{Kind: fakeherdr.Die}, "HERDR_BAD_OUTPUT", false},
		{fakeherdr.Fault{Kind: fakeherdr.Exit2}, "INTERNAL", false},
		{fakeherdr.Fault{Kind: fakeherdr.ErrorCode, Code: "weather", Text: "secret words"}, "HERDR_ERROR", false},
		{fakeherdr.Fault{Kind: fakeherdr.ErrorCode, Code: "agent_target_ambiguous"}, "AGENT_AMBIGUOUS", false},
	} {
		change(t, s, func(w *fakeherdr.World) { w.Faults = []fakeherdr.Fault{test.fault} })
		for _, call := range [][2]string{{"herdr_agent_list", `{}`}, {"herdr_agent_get", `{"target":"reviewer"}`}, {"herdr_pane_get", `{"pane_id":"w1:p1"}`}} {
			m := h.refuses(test.code, call[0], call[1])
			if *m.fault.Retryable != test.retryable || strings.Contains(m.text(), "secret") || strings.Contains(m.text(), "reviewer") {
				t.Errorf("%s: %s", test.fault.Kind, m.StructuredContent)
			}
		}
	}
	if m := h.refuses("AGENT_AMBIGUOUS", "herdr_agent_get", `{"target":"reviewer"}`); m.fault.Details["herdrCode"] == nil {
		t.Errorf("%s", m.StructuredContent)
	}
	change(t, s, func(w *fakeherdr.World) { w.Faults = nil })
	// A wait has its own time, and two seconds more.
	h.refuses("WAIT_TIMEOUT", "herdr_agent_wait", `{"target":"reviewer","status":"blocked","timeout_ms":2500}`)
	fault(t, s, fakeherdr.Hang, "agent", "wait")
	begun := time.Now()
	if h.refuses("HERDR_TIMEOUT", "herdr_agent_wait", `{"target":"reviewer","status":"blocked","timeout_ms":1}`); time.Since(begun) < 2*time.Second {
		t.Errorf("given up after %v", time.Since(begun))
	}
	change(t, s, func(w *fakeherdr.World) { w.Faults = nil })
	for name, vars := range map[string][]string{
		"nowhere":  {"PATH=" + t.TempDir(), "HERDR_BIN_PATH="},
		"relative": {"PATH=" + s.Dir(), "HERDR_BIN_PATH=herdr"},
	} {
		h := coordinate(t, s, "w1:p1", vars...)
		h.refuses("HERDR_NOT_FOUND", "herdr_agent_list", `{}`)
		if m := h.refuses("HERDR_NOT_FOUND", "herdr_agent_wait_settled", `{"target":"reviewer"}`); strings.Contains(m.text(), s.Dir()) {
			t.Errorf("%s: %s", name, m.text())
		}
	}
	coordinate(t, s, "w1:p1", "PATH="+s.Dir(), "HERDR_BIN_PATH=").answers("herdr_agent_list", `{}`)
}

// Scenario 42: a wait is for what comes after a cursor.
func TestMeshSettled(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p2").Text = []string{"❯ done"} })
	h := coordinate(t, s, "w1:p1")
	const tool = "herdr_agent_wait_settled"
	w, err := s.World()
	if err != nil {
		t.Fatal(err)
	}
	p := w.Pane("w1:p2")
	cursor := p.Agent.StateChangeSeq
	m := h.answers(tool, `{"target":"reviewer"}`)
	a, output := settledAs(t, m)
	if want := (meshAgent{"reviewer", "codex", "idle", p.Cwd, "reviewer", "w1:p2", p.Terminal, cursor}); a != want || output != "❯ done\n" {
		t.Errorf("%+v, %q", a, output)
	}
	if len(m.Content) != 2 || m.Content[1].Text != output || strings.Contains(m.text(), "output") {
		t.Errorf("blocks %q", m.Content)
	}
	if argv := lastArgv(t, s, "agent", "read"); strings.Join(argv, " ") != "agent read w1:p2 --source visible --lines 200 --format text" {
		t.Errorf("it read %q", argv)
	}

	id := h.begin(tool, fmt.Sprintf(`{"target":"reviewer","after_seq":%d,"read_lines":7}`, cursor))
	polled(t, s, 2)
	setStatus(t, s, "w2:p1", fakeherdr.Working) // others take numbers
	working := setStatus(t, s, "w1:p2", fakeherdr.Working)
	polled(t, s, 2)
	if reads := commands(t, s, "agent", "read"); len(reads) != 1 {
		t.Errorf("it read %q", reads)
	}
	done := setStatus(t, s, "w1:p2", fakeherdr.Done)
	a, _ = settledAs(t, h.meshed(id))
	if a.StateChangeSeq != done || done <= working || a.Status != "done" {
		t.Errorf("%+v, want %d", a, done)
	}
	if argv := lastArgv(t, s, "agent", "read"); argv[6] != "7" {
		t.Errorf("it read %q", argv)
	}
	// What is looked at is idle, and its cursor the same: nothing new.
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Idle })
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.StateChangeSeq = done })
	m = h.refuses("WAIT_TIMEOUT", tool, fmt.Sprintf(`{"target":"reviewer","after_seq":%d,"timeout_ms":1500}`, done))
	var last []meshAgent
	if json.Unmarshal(m.fault.Details["last"], &last) != nil || len(last) != 1 || last[0].StateChangeSeq != done || last[0].Target != "reviewer" || !*m.fault.Retryable {
		t.Errorf("%s", m.StructuredContent)
	}
	setStatus(t, s, "w1:p2", fakeherdr.Blocked)
	if a, _ := settledAs(t, h.answers(tool, `{"target":"w1:p2"}`)); a.Status != "blocked" || a.Target != "w1:p2" || a.Name != "reviewer" {
		t.Errorf("blocked: %+v", a)
	}
	h.refuses("AGENT_NOT_FOUND", tool, `{"target":"nobody"}`)
	h.refuses("AGENT_NOT_FOUND", tool, `{"target":"w1:p4"}`)
	h.refuses("CURSOR_REGRESSED", tool, `{"target":"reviewer","after_seq":99}`)
	if n := len(commands(t, s, "agent", "wait")); n > 0 {
		t.Errorf("herdr waited %d times", n)
	}
}

// Scenario 42: no agent of before outlives a restart of the server, and the
// cursors of before mean nothing.
func TestMeshRestart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	cursor := setStatus(t, s, "w1:p2", fakeherdr.Working)
	h := coordinate(t, s, "w1:p1")
	const tool = "herdr_agent_wait_settled"
	begin := func(target string) string {
		return h.begin(tool, fmt.Sprintf(`{"target":%q,"after_seq":%d}`, target, cursor))
	}
	running := []string{begin("reviewer"), begin("w1:p2"),
		h.begin("herdr_agent_wait_any", `{"targets":[{"target":"reviewer","after_seq":99}]}`)}
	refusal(t, h.meshed(running[2]), "CURSOR_REGRESSED")
	polled(t, s, 2)
	change(t, s, func(w *fakeherdr.World) {
		w.Restart()
		w.RunAgent(w.Pane("w1:p2"), "codex", "reviewer") // a new one, in the same pane, of the same name
	})
	for _, id := range running[:2] {
		refusal(t, h.meshed(id), "AGENT_NOT_FOUND")
	}
	m := h.refuses("CURSOR_REGRESSED", tool, fmt.Sprintf(`{"target":"reviewer","after_seq":%d}`, cursor))
	if string(m.fault.Details["current"]) != "1" || *m.fault.Retryable {
		t.Errorf("%s", m.StructuredContent)
	}
	if a, _ := settledAs(t, h.answers(tool, `{"target":"reviewer","after_seq":0}`)); a.StateChangeSeq != 1 {
		t.Errorf("%+v", a)
	}
}

// A wait finds its agent wherever its pane was moved, and not by a name that
// another one has now.
func TestMeshMoved(t *testing.T) {
	t.Parallel()
	var (
		s    *fakeherdr.Scene
		h    *host
		pane string
	)
	// One wait at a time: two lists of the agents are known to be its own.
	for tool, args := range map[string]string{"herdr_agent_wait_settled": `{"target":"reviewer"}`, "herdr_agent_wait_any": `{"targets":[{"target":"w1:p2"}]}`} {
		s = newScene(t)
		setStatus(t, s, "w1:p2", fakeherdr.Working)
		h = coordinate(t, s, "w1:p1")
		id := h.begin(tool, args)
		polled(t, s, 2)
		change(t, s, func(w *fakeherdr.World) {
			p := w.Move("w1:p2", "w2")
			pane, p.Text = p.ID, []string{"here"}
		})
		polled(t, s, 2)
		setStatus(t, s, pane, fakeherdr.Done)
		if a, output := settledAs(t, h.meshed(id)); a.PaneID != pane || output != "here\n" {
			t.Errorf("%s: %+v, %q", tool, a, output)
		}
	}
	h.refuses("AGENT_NOT_FOUND", "herdr_agent_get", `{"target":"w1:p2"}`) // as Herdr has it
	h.answers("herdr_pane_get", `{"pane_id":"w1:p2"}`)

	setStatus(t, s, pane, fakeherdr.Working)
	ids := []string{h.begin("herdr_agent_wait_settled", `{"target":"reviewer"}`), h.begin("herdr_agent_wait", `{"target":"reviewer","status":"blocked"}`)}
	awaitCalls(t, s, 1, "agent", "wait")
	polled(t, s, 2)
	change(t, s, func(w *fakeherdr.World) { w.Pane(pane).Agent.Name = "other" })
	for _, id := range ids {
		refusal(t, h.meshed(id), "AGENT_NOT_FOUND")
	}
	id := h.begin("herdr_agent_wait_settled", `{"target":"other"}`)
	polled(t, s, 2)
	change(t, s, func(w *fakeherdr.World) { w.Pane(pane).Agent = nil }) // it has exited
	refusal(t, h.meshed(id), "AGENT_NOT_FOUND")
}

// What was read belongs to the state that is told: an agent that goes on
// meanwhile is waited for again.
func TestMeshGoesOn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p2").Text = []string{"first"} })
	slow := func(n int) {
		change(t, s, func(w *fakeherdr.World) {
			w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Slow, Match: []string{"agent", "read"}, Delay: 1500 * time.Millisecond, Left: n}}
		})
	}
	h := coordinate(t, s, "w1:p1")
	slow(1)
	id := h.begin("herdr_agent_wait_settled", `{"target":"reviewer"}`)
	awaitCalls(t, s, 1, "agent", "read")
	change(t, s, func(w *fakeherdr.World) {
		w.Pane("w1:p2").Agent.Status, w.Pane("w1:p2").Text = fakeherdr.Working, []string{"second"}
	})
	polled(t, s, 3)
	done := setStatus(t, s, "w1:p2", fakeherdr.Done)
	if a, output := settledAs(t, h.meshed(id)); a.StateChangeSeq != done || output != "second\n" {
		t.Errorf("%+v, %q", a, output)
	}
	// A whole turn while it is read: it is read again.
	slow(1)
	before := len(commands(t, s, "agent", "read"))
	id = h.begin("herdr_agent_wait_settled", `{"target":"reviewer"}`)
	awaitCalls(t, s, before+1, "agent", "read")
	setStatus(t, s, "w1:p2", fakeherdr.Working)
	done = setStatus(t, s, "w1:p2", fakeherdr.Done)
	if a, _ := settledAs(t, h.meshed(id)); a.StateChangeSeq != done || len(commands(t, s, "agent", "read")) != before+2 {
		t.Errorf("%+v, read once", a)
	}
	// A look at its tab while it is read changes nothing that counts.
	slow(1)
	before = len(commands(t, s, "agent", "read"))
	id = h.begin("herdr_agent_wait_settled", `{"target":"reviewer"}`)
	awaitCalls(t, s, before+1, "agent", "read")
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Idle })
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.StateChangeSeq = done })
	if a, _ := settledAs(t, h.meshed(id)); a.Status != "idle" || len(commands(t, s, "agent", "read")) != before+1 {
		t.Errorf("%+v, read again", a)
	}
	// A move while it is read: it is found where it is now.
	before++
	slow(1)
	var pane string
	id = h.begin("herdr_agent_wait_settled", `{"target":"reviewer"}`)
	awaitCalls(t, s, before+1, "agent", "read")
	change(t, s, func(w *fakeherdr.World) { pane = w.Move("w1:p2", "w2").ID })
	if a, output := settledAs(t, h.meshed(id)); a.PaneID != pane || output != "second\n" {
		t.Errorf("%+v, %q", a, output)
	}
	// It goes on until there is no time left.
	setStatus(t, s, pane, fakeherdr.Idle)
	slow(1)
	before = len(commands(t, s, "agent", "read"))
	id = h.begin("herdr_agent_wait_settled", `{"target":"reviewer","timeout_ms":500}`)
	awaitCalls(t, s, before+1, "agent", "read")
	setStatus(t, s, pane, fakeherdr.Working)
	refusal(t, h.meshed(id), "WAIT_TIMEOUT")
}

// Scenario 43: of any number of targets the first to settle is told, and at
// most one herdr runs at a time for all of them.
func TestMeshAny(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var targets []string
	var panes []string
	change(t, s, func(w *fakeherdr.World) {
		for i := range 16 {
			p := w.AddPane("w1", "claude", fmt.Sprintf("a%d", i))
			p.Agent.Status = fakeherdr.Working
			targets, panes = append(targets, fmt.Sprintf(`{"target":"a%d"}`, i)), append(panes, p.ID)
		}
		w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Slow, Delay: 30 * time.Millisecond, Match: []string{"agent"}}}
	})
	h := coordinate(t, s, "w1:p1")
	all := `{"targets":[` + strings.Join(targets, ",") + `]}`
	id := h.begin("herdr_agent_wait_any", all)
	polled(t, s, 4)
	change(t, s, func(w *fakeherdr.World) { // at the same moment
		w.Pane(panes[11]).Agent.Status, w.Pane(panes[6]).Agent.Status = fakeherdr.Idle, fakeherdr.Blocked
	})
	if a, _ := settledAs(t, h.meshed(id)); a.Target != "a6" || a.Status != "blocked" {
		t.Errorf("%+v", a)
	}
	calls, err := s.Calls()
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range calls[1:] {
		if before := calls[i]; !before.Done || c.At.Before(before.Ended) {
			t.Errorf("%q ran beside %q", c.Args, before.Args)
		}
	}
	if reads := commands(t, s, "agent", "read"); len(reads) != 1 {
		t.Errorf("it read %q", reads)
	}

	// One that fails is dropped; when all have failed, the first is told.
	a, _ := settledAs(t, h.answers("herdr_agent_wait_any", `{"targets":[{"target":"nobody"},{"target":"a6","after_seq":999},{"target":"a11"}]}`))
	if a.Target != "a11" {
		t.Errorf("%+v", a)
	}
	h.refuses("CURSOR_REGRESSED", "herdr_agent_wait_any", `{"targets":[{"target":"a6","after_seq":999},{"target":"nobody"}]}`)
	id = h.begin("herdr_agent_wait_any", `{"targets":[{"target":"a1"},{"target":"nobody"}]}`)
	polled(t, s, 2)
	change(t, s, func(w *fakeherdr.World) { w.Pane(panes[1]).Agent = nil })
	if m := refusal(t, h.meshed(id), "AGENT_NOT_FOUND"); !strings.Contains(m.fault.Message, "nobody") {
		t.Errorf("the first failure: %s", m.text())
	}
	id = h.begin("herdr_agent_wait_any", `{"targets":[{"target":"later"},{"target":"a2"},{"target":"a4"}]}`)
	polled(t, s, 2)
	change(t, s, func(w *fakeherdr.World) { w.AddPane("w1", "claude", "later") }) // it was not there when it counted
	polled(t, s, 2)
	setStatus(t, s, panes[4], fakeherdr.Idle)
	if a, _ := settledAs(t, h.meshed(id)); a.Target != "a4" {
		t.Errorf("%+v", a)
	}
	m := h.refuses("WAIT_TIMEOUT", "herdr_agent_wait_any", `{"targets":[{"target":"a2"},{"target":"nobody"},{"target":"a5","after_seq":999},{"target":"a3","after_seq":1}],"timeout_ms":1500}`)
	var last []meshAgent
	if json.Unmarshal(m.fault.Details["last"], &last) != nil || len(last) != 2 || last[0].Target != "a2" || last[1].Target != "a3" {
		t.Errorf("%s", m.StructuredContent)
	}
}

// Any number of waits cost one list a poll, and take nobody's place.
func TestMeshManyWaits(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	setStatus(t, s, "w1:p2", fakeherdr.Working)
	h := coordinate(t, s, "w1:p1")
	const waits = 70
	var ids []string
	for range waits {
		ids = append(ids, h.begin("herdr_agent_wait_settled", `{"target":"reviewer","timeout_ms":600000}`))
	}
	polled(t, s, 3)
	h.answers("herdr_pane_list", `{}`)
	before, begun := len(commands(t, s, "agent", "list")), time.Now()
	polled(t, s, 4)
	if n, most := len(commands(t, s, "agent", "list"))-before, int(time.Since(begun)/(240*time.Millisecond))+2; n > most {
		t.Errorf("%d lists in %v", n, time.Since(begun))
	}
	h.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + ids[0] + `}}`)
	setStatus(t, s, "w1:p2", fakeherdr.Idle)
	for _, id := range ids[1:] {
		settledAs(t, h.meshed(id))
	}
	h.childless()
	n := len(commands(t, s))
	h.answers("herdr_session_list", `{}`)
	if calls := commands(t, s)[n:]; len(calls) != 1 { // nobody waits, nobody looks
		t.Errorf("it ran %q", calls)
	}
	h.stdin.Close()
	h.wait()
	for line := range h.lines {
		t.Errorf("a late result: %s", line)
	}
}

// Herdr may fail twice in a row while somebody waits.
func TestMeshFailingHerdr(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	setStatus(t, s, "w1:p2", fakeherdr.Working)
	h := coordinate(t, s, "w1:p1")
	down := func(n int) {
		change(t, s, func(w *fakeherdr.World) {
			w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Down, Match: []string{"agent", "list"}, Left: n}}
		})
	}
	id := h.begin("herdr_agent_wait_settled", `{"target":"reviewer"}`)
	polled(t, s, 1)
	down(2)
	polled(t, s, 4)
	done := setStatus(t, s, "w1:p2", fakeherdr.Done)
	if a, _ := settledAs(t, h.meshed(id)); a.StateChangeSeq != done {
		t.Errorf("%+v", a)
	}
	down(3)
	h.refuses("HERDR_SERVER_DOWN", "herdr_agent_wait_settled", `{"target":"reviewer"}`)
	h.answers("herdr_agent_wait_settled", `{"target":"reviewer"}`)
	for _, agent := range []string{
		`{"pane_id":"w1:p2","agent_status":"idle","state_change_seq":1}`, `{"terminal_id":"t","agent_status":"idle","state_change_seq":1}`,
		`{"pane_id":"w1:p2","terminal_id":"t","state_change_seq":1}`, `{"pane_id":"w1:p2","terminal_id":"t","agent_status":"idle"}`,
		`{"pane_id":"w1:p2","terminal_id":"t","agent_status":"idle","state_change_seq":"1"}`,
	} {
		change(t, s, func(w *fakeherdr.World) {
			w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Shape, Match: []string{"agent", "list"}, Text: `{"result":{"agents":[` + agent + `]}}`}}
		})
		h.refuses("HERDR_BAD_OUTPUT", "herdr_agent_wait_settled", `{"target":"w1:p2"}`)
	}
	change(t, s, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Down, Match: []string{"agent", "read"}}}
	})
	h.refuses("HERDR_SERVER_DOWN", "herdr_agent_wait_settled", `{"target":"reviewer"}`)
}

// Scenario 60: waits end with the input, and all ends with a signal.
func TestMeshEnds(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) (s *fakeherdr.Scene, h *host, ids []string) {
		s = newScene(t)
		setStatus(t, s, "w1:p2", fakeherdr.Working)
		h = coordinate(t, s, "w1:p1")
		ids = []string{
			h.begin("herdr_agent_wait", `{"target":"reviewer","status":"blocked","timeout_ms":600000}`),
			h.begin("herdr_wait_output", `{"pane_id":"w1:p2","match":"never","timeout_ms":600000}`),
			h.begin("herdr_agent_wait_settled", `{"target":"reviewer","timeout_ms":600000}`),
			h.begin("herdr_agent_wait_any", `{"targets":[{"target":"reviewer"}],"timeout_ms":600000}`),
		}
		awaitCalls(t, s, 1, "agent", "wait")
		awaitCalls(t, s, 1, "pane", "wait-output")
		polled(t, s, 2)
		return s, h, ids
	}
	t.Run("input", func(t *testing.T) {
		t.Parallel()
		s, h, ids := open(t)
		change(t, s, func(w *fakeherdr.World) { // what is no wait may end
			w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Slow, Delay: 300 * time.Millisecond, Match: []string{"pane", "list"}}}
		})
		list := h.begin("herdr_pane_list", `{}`)
		awaitCalls(t, s, 1, "pane", "list")
		h.stdin.Close()
		for _, id := range ids {
			refusal(t, h.meshed(id), "CANCELLED")
		}
		success(t, h.meshed(list))
		if code := h.wait(); code != 0 {
			t.Errorf("exit %d", code)
		}
	})
	for _, hang := range []bool{false, true} {
		t.Run(fmt.Sprintf("signal, hanging %t", hang), func(t *testing.T) {
			t.Parallel()
			soon(t, func() time.Duration {
				s, h, _ := open(t)
				if hang {
					fault(t, s, fakeherdr.Hang, "agent", "list")
					polled(t, s, 1)
				}
				pids := h.env.alive()
				begun := time.Now()
				if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the end of all processes", func() bool { return len(h.env.living(pids)) == 0 })
				took := time.Since(begun)
				h.wait()
				return took
			})
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		s, h, ids := open(t)
		fault(t, s, fakeherdr.Hang, "agent", "list")
		polled(t, s, 1)
		for _, id := range ids {
			h.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		}
		h.childless()
		h.answers("herdr_session_list", `{}`)
	})
}

// The log has what ran and how it ended, and nothing of what was asked for.
func TestMeshLog(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	file := filepath.Join(t.TempDir(), "log")
	h := coordinate(t, s, "w1:p1", "HERDR_LINK_LOG="+file)
	const secret = "swordfish"
	h.answers("herdr_agent_wait_settled", `{"target":"reviewer"}`)
	h.refuses("AGENT_NOT_FOUND", "herdr_agent_get", `{"target":"`+secret+`"}`)
	h.refuses("WAIT_TIMEOUT", "herdr_wait_output", `{"pane_id":"w1:p4","match":"`+secret+`","timeout_ms":50}`)
	h.refuses("INVALID_ARGUMENT", "herdr_tab_get", `{"tab_id":"`+secret+`"}`)
	h.refuses("CONTROLLER_NOT_FOUND", "herdr_relay", `{"controller_id":"`+secret+`","controller_lease_id":"36ee57e3-2d3d-44bb-b97c-df113c470274","controller_fence_token":"36ee57e3-2d3d-44bb-b97c-df113c470275","target":"reviewer","text":"`+secret+`"}`)
	h.stdin.Close()
	h.wait()
	log, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"msg":"herdr agent list","pid"`, `"tool":"watcher"`, `"msg":"herdr agent read"`, `"tool":"herdr_agent_wait_settled"`,
		`"msg":"herdr agent get"`, `"exit":1,"code":"AGENT_NOT_FOUND"`, `"code":"WAIT_TIMEOUT"`, `"ms":`} {
		if !strings.Contains(string(log), part) {
			t.Errorf("no %s in the log: %s", part, log)
		}
	}
	var calls []string
	for line := range strings.Lines(string(log)) {
		var r struct{ Msg, Tool, Code string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Msg == "call" {
			calls = append(calls, r.Tool+" "+r.Code)
		}
	}
	want := []string{"herdr_agent_wait_settled ", "herdr_agent_get AGENT_NOT_FOUND", "herdr_wait_output WAIT_TIMEOUT", "herdr_tab_get INVALID_ARGUMENT", "herdr_relay CONTROLLER_NOT_FOUND"}
	if !slices.Equal(calls, want) {
		t.Errorf("the log has the calls %q, not %q", calls, want)
	}
	if strings.Contains(string(log), secret) || strings.Contains(string(log), "w1:p") {
		t.Errorf("the log has too much: %s", log)
	}
}

// The command line has the same tools, a process a call.
func TestMeshCommandLine(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	env := inPane(t, s, "w1:p1")
	out, errs, code := run(t, env, `{"target":"reviewer"}`, "call", "herdr_agent_wait_settled", "--toolsets", "mesh")
	if code != 0 || errs != "" || !strings.Contains(out, `"agent_settled"`) {
		t.Errorf("call: %d %q %q", code, out, errs)
	}
	out, _, _ = run(t, env, "", "tools", "--toolsets", "link,mesh")
	if n := strings.Count(out, "\n"); n != 4+meshTools {
		t.Errorf("tools: %d lines", n)
	}
}
