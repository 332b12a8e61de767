package fakeherdr

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// ask runs a call and decodes its result.
func ask[T any](t testing.TB, s *Scene, args ...string) T {
	t.Helper()
	var reply struct{ Result T }
	if err := json.Unmarshal([]byte(mustRun(t, s, args...)), &reply); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return reply.Result
}

// The ids go on as Herdr's do, and none means two panes.
func TestNumbers(t *testing.T) {
	for n, want := range map[int]string{1: "1", 9: "9", 10: "A", 17: "H", 18: "J", 31: "Z", 32: "0", 33: "11", 64: "10", 65: "21", 1056: "00", 1057: "111"} {
		if got := encodeNumber(n); got != want || decodeNumber(got) != n {
			t.Errorf("%d: %s, %d", n, got, decodeNumber(got))
		}
	}
	s := newScene(t)
	update(t, s, func(w *World) {
		for w.workspace("w1").NextPane <= 12 {
			w.AddPane("w1", "", "")
		}
	})
	for id, want := range map[string]string{"w1:pA": "w1:pA", "1-10": "w1:pA", "1-12": "w1:pC"} {
		if got := ask[paneResult](t, s, "pane", "get", id).Pane.PaneID; got != want {
			t.Errorf("pane get %s: %s", id, got)
		}
	}
}

// drawn is a layout as one line, a pane its id without the workspace.
func drawn(t *testing.T, s *Scene, pane string) string {
	t.Helper()
	layout := ask[layoutResult](t, s, "pane", "layout", "--pane", pane).Layout
	var parts []string
	surface := 0
	for _, p := range layout.Panes {
		parts = append(parts, fmt.Sprintf("%s:%dx%d+%d+%d", p.PaneID[3:], p.Rect.Width, p.Rect.Height, p.Rect.X, p.Rect.Y))
		surface += p.Rect.Width * p.Rect.Height
	}
	if surface != area.Width*area.Height || len(layout.Splits) != len(layout.Panes)-1 {
		t.Errorf("%d splits, and the panes have %d cells: %s", len(layout.Splits), surface, parts)
	}
	return strings.Join(parts, " ")
}

func TestLayout(t *testing.T) {
	s := newScene(t)
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "p1:27x12+26+1 p3:27x11+26+13 p2:27x12+53+1 p4:27x11+53+13"},
		{func() { mustRun(t, s, "pane", "split", "w1:p1", "--direction", "right", "--ratio", "0.25") },
			"p1:7x12+26+1 p5:20x12+33+1 p3:27x11+26+13 p2:27x12+53+1 p4:27x11+53+13"},
		{func() { mustRun(t, s, "pane", "close", "w1:p3") },
			"p1:7x23+26+1 p5:20x23+33+1 p2:27x12+53+1 p4:27x11+53+13"},
		{func() { update(t, s, func(w *World) { w.AddPane("w1", "", "") }) }, // a test knows no layout
			"p1:7x23+26+1 p5:20x23+33+1 p2:27x12+53+1 p4:14x11+53+13 p6:13x11+67+13"},
		{func() { update(t, s, func(w *World) { w.Move("w1:p2", "w1") }) },
			"p1:7x23+26+1 p5:20x23+33+1 p4:14x23+53+1 p6:13x23+67+1"},
		{func() { mustRun(t, s, "pane", "split", "--pane", "w1:p6", "--direction", "down", "--ratio", "7") }, // 0.9 at most
			"p1:7x23+26+1 p5:20x23+33+1 p4:14x23+53+1 p6:13x21+67+1 p7:13x2+67+22"},
		{func() {
			for _, p := range []string{"w1:p5", "w1:p4", "w1:p6", "w1:p7"} {
				mustRun(t, s, "pane", "close", p)
			}
		}, "p1:54x23+26+1"},
	} {
		step.do()
		if got := drawn(t, s, "w1:p1"); got != step.want {
			t.Errorf("%s\nwant\n%s", got, step.want)
		}
		var listed []string
		for _, p := range ask[panesResult](t, s, "pane", "list", "--workspace", "w1").Panes {
			if p.TabID == "w1:t1" {
				listed = append(listed, p.PaneID[3:])
			}
		}
		for i, part := range strings.Fields(step.want) {
			if pane, _, _ := strings.Cut(part, ":"); i >= len(listed) || listed[i] != pane {
				t.Errorf("pane list has %q", listed)
				break
			}
		}
	}
}

// A scene that was written before there were layouts is one that can be played.
func TestOldScene(t *testing.T) {
	s := newScene(t)
	update(t, s, func(w *World) {
		w.Workspaces[0].Tabs, w.StartDelay, w.StallAfter = nil, 0, 0
	})
	const want = "p1:27x23+26+1 p3:14x23+53+1 p2:7x23+67+1 p4:6x23+74+1"
	if got := drawn(t, s, "w1:p1"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := world(t, s).stallAfter(); got != 5000 {
		t.Errorf("a prompt stalls after %d ms", got)
	}
}

func TestFocus(t *testing.T) {
	s := newScene(t)
	tab := func(ws string) string {
		return ask[workspaceResult](t, s, "workspace", "get", ws).Workspace.ActiveTabID
	}
	here := func() string {
		cmd := herdr(s, "pane", "current")
		cmd.Env = append(cmd.Env, "HERDR_PANE_ID= ") // blank is as if it were not set
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var reply struct{ Result paneResult }
		if err := json.Unmarshal(out, &reply); err != nil {
			t.Fatal(err)
		}
		return reply.Result.Pane.PaneID
	}
	for _, args := range [][]string{
		{"pane", "split", "w1:p4", "--direction", "down", "--focus", "--no-focus"},
		{"tab", "create", "--workspace", "w1", "--no-focus"},
		{"workspace", "create", "--no-focus"},
		{"workspace", "create"},
	} {
		mustRun(t, s, args...)
		if here() != "w1:p1" || tab("w1") != "w1:t1" {
			t.Errorf("%q moved the focus to %s in %s", args, here(), tab("w1"))
		}
	}
	update(t, s, func(w *World) { w.Pane("w2:p1").Agent.Status = Done })
	for _, step := range []struct{ args, pane string }{
		{"pane split w1:p2 --direction right --focus", "w1:p7"},
		{"tab create --workspace w2 --label logs --focus", "w2:p2"},
		{"workspace create --label third --focus", "w5:p1"},
	} {
		if mustRun(t, s, strings.Fields(step.args)...); here() != step.pane {
			t.Errorf("after %s %s has the focus", step.args, here())
		}
	}
	if w := world(t, s); w.Pane("w2:p1").Agent.Status != Done || tab("w1") != "w1:t1" || tab("w2") != "w2:t2" {
		t.Errorf("w2:p1 is %s, the tabs in front are %s and %s", w.Pane("w2:p1").Agent.Status, tab("w1"), tab("w2"))
	}
	if got := ask[layoutResult](t, s, "pane", "layout", "--pane", "w1:p1").Layout.FocusedPaneID; got != "w1:p7" {
		t.Errorf("%s has the focus when w1 is shown", got)
	}
	mustRun(t, s, "pane", "split", "w2:p1", "--direction", "down", "--focus")
	if got := world(t, s).Pane("w2:p1").Agent.Status; got != Idle {
		t.Errorf("somebody looked, and it is %s", got)
	}
	if got := ask[tabResult](t, s, "tab", "get", "w2:t2").Tab; got.Label != "logs" || got.Focused {
		t.Errorf("w2:t2 is %+v", got)
	}
	mustRun(t, s, "pane", "close", "w2:p2")
	wantCode(t, s, "tab_not_found", "tab", "get", "w2:t2")
	if tabs := world(t, s).workspace("w2").Tabs; slices.ContainsFunc(tabs, func(t *Tab) bool { return t.ID == "w2:t2" }) {
		t.Error("a tab that has gone is remembered")
	}
}

// The first shell of an empty world has the focus without being asked.
func TestFirstWorkspace(t *testing.T) {
	s := newScene(t)
	update(t, s, func(w *World) {
		for len(w.Panes) > 0 {
			w.close(w.Panes[0])
		}
	})
	got := ask[createdResult](t, s, "workspace", "create", "--no-focus")
	if !got.RootPane.Focused || !got.Tab.Focused || !got.Workspace.Focused || got.Workspace.WorkspaceID != "w3" || got.Workspace.Number != 1 {
		t.Errorf("%+v", got)
	}
	if got := ask[paneResult](t, s, "pane", "split", "--direction", "down").Pane; got.PaneID != "w3:p2" || got.Focused {
		t.Errorf("%+v", got)
	}
}

// A workspace and a tab show the state that wants most attention.
func TestAttention(t *testing.T) {
	s := newScene(t)
	for _, step := range []struct{ pane, status, want string }{
		{"w1:p1", Unknown, Idle}, {"w1:p2", Working, Working}, {"w1:p3", Done, Done}, {"w1:p1", Blocked, Blocked},
	} {
		update(t, s, func(w *World) { w.Pane(step.pane).Agent.Status = step.status })
		ws, tab := ask[workspaceResult](t, s, "workspace", "get", "w1").Workspace, ask[tabResult](t, s, "tab", "get", "w1:t1").Tab
		if ws.AgentStatus != step.want || tab.AgentStatus != step.want {
			t.Errorf("%s is %s: %s, %s", step.pane, step.status, ws.AgentStatus, tab.AgentStatus)
		}
	}
}

// New shells are where they were told to be, or where the one they follow is.
func TestDirectories(t *testing.T) {
	s := newScene(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	dir := filepath.Join(home, "project")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(home, "missing")
	update(t, s, func(w *World) { w.Pane("w2:p1").Cwd = "/elsewhere" })
	for _, test := range []struct {
		args       []string
		cwd, label string
	}{
		{[]string{"workspace", "create", "--cwd", dir}, dir, "project"},
		{[]string{"workspace", "create", "--cwd", missing}, home, "~"},
		{[]string{"workspace", "create"}, "/home/user/project/api", "api"},
		{[]string{"tab", "create", "--workspace", "w2"}, "/elsewhere", ""},
		{[]string{"tab", "create", "--workspace", "w2", "--cwd", dir}, dir, ""},
		{[]string{"tab", "create", "--cwd", missing}, home, ""},
	} {
		got := ask[createdResult](t, s, test.args...)
		if got.RootPane.Cwd != test.cwd || got.Workspace != nil && got.Workspace.Label != test.label {
			t.Errorf("%q: in %s, %+v", test.args, got.RootPane.Cwd, got.Workspace)
		}
	}
	if got := ask[paneResult](t, s, "pane", "split", "w2:p1", "--direction", "down").Pane.Cwd; got != "/elsewhere" {
		t.Errorf("the split is in %s", got)
	}
	if got := ask[paneResult](t, s, "pane", "split", "w2:p1", "--direction", "down", "--cwd", dir).Pane.Cwd; got != dir {
		t.Errorf("the split is in %s", got)
	}
	if got := ask[tabsResult](t, s, "tab", "list", "--workspace", "w2").Tabs; len(got) != 3 || got[2].Label != "3" || got[2].TabID != "w2:t3" {
		t.Errorf("the tabs of w2: %+v", got)
	}
}

// What reaches a terminal, and what becomes one message there.
func TestTyping(t *testing.T) {
	s := newScene(t)
	update(t, s, func(w *World) { w.EnterDelay = long; w.Pane("w2:p1").Agent.NoPaste = true })
	type step struct {
		args []string
		want []string // what has been submitted by now
	}
	for pane, steps := range map[string][]step{
		"w1:p4": {
			{[]string{"pane", "send-text", "w1:p4", "echo", "one; "}, nil}, // words are joined
			{[]string{"pane", "run", "w1:p4", "echo two\necho three"}, []string{"echo one; echo two\necho three"}},
			{[]string{"pane", "send-text", "w1:p4", "four\n"}, []string{"echo one; echo two\necho three", "four"}},
			{[]string{"pane", "run", "w1:p4", ""}, []string{"echo one; echo two\necho three", "four", ""}},
		},
		"w1:p1": { // a run between a prompt and its Enter takes the prompt along
			{[]string{"agent", "prompt", "lead", "hello "}, nil},
			{[]string{"pane", "run", "w1:p1", "world"}, []string{"hello world"}},
			{[]string{"pane", "run", "w1:p1", "again"}, []string{"hello world", "again"}},
		},
		"w2:p1": { // no paste: every newline is Enter
			{[]string{"pane", "run", "w2:p1", "one\ntwo"}, []string{"one", "two"}},
		},
	} {
		for _, step := range steps {
			if out := mustRun(t, s, step.args...); out != "" && step.args[0] == "pane" {
				t.Errorf("%q printed %q", step.args, out)
			}
			if got := texts(t, s, pane, time.Now()); !slices.Equal(got, step.want) {
				t.Errorf("%q: %q, want %q", step.args, got, step.want)
			}
		}
	}
	keys, err := s.Keystrokes("w1:p1")
	if err != nil || len(keys) != 3 {
		t.Fatal(keys, err)
	}
	for i, want := range []struct {
		text  string
		enter time.Duration
	}{{"hello ", long}, {"world", 0}, {"again", 0}} {
		if got := keys[i]; got.Text != want.text || got.Enter.Sub(got.At) != want.enter {
			t.Errorf("keystroke %d: %+v", i, got)
		}
	}
	if keys, err := s.Keystrokes("w1:p4"); err != nil || len(keys) != 4 || !keys[0].Enter.IsZero() || keys[0].Text != "echo one; " {
		t.Errorf("%+v, %v", keys, err)
	}
}
