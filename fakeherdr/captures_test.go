package fakeherdr

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// different are captures that this Herdr knowingly does not reproduce.
var different = map[string]string{
	"agent-prompt.help":     "its text is for people; here --help is a target",
	"agent-explain.json":    "nothing here looks at a screen",
	"agent-explain.text":    "nothing here looks at a screen",
	"agent-explain.blocked": "nothing here looks at a screen",
	"agent-explain.unnamed": "nothing here looks at a screen",
	"socket.empty-path":     "getenv cannot tell an empty variable from a missing one",
}

// A capture is a file of testdata/herdr; its README says what the fields mean.
type capture struct {
	Argv           []string          `json:"argv"`
	Env            map[string]string `json:"env"`
	Stdout, Stderr string
	Exit           int
	WallMS         float64 `json:"wall_ms"`
}

// scenes says in which state of the scene each case was taken.
var scenes = []struct {
	cases string
	setup func(w *World)
}{
	{`agent-get.case-name agent-get.case-pane agent-get.empty-target agent-get.kind-label agent-get.legacy-id agent-get.missing-name
	  agent-get.missing-pane agent-get.missing-workspace agent-get.name agent-get.name-other-workspace agent-get.no-target
	  agent-get.option-target agent-get.pane-id agent-get.plain-shell agent-get.terminal-id agent-get.two-targets agent-get.unnamed
	  agent-get.after-blocked agent-get.after-failed-start agent-get.released agent-get.idle-after-focus
	  agent-list.ok agent-list.extra-arg
	  agent-prompt.100kb agent-prompt.bad-timeout agent-prompt.bad-until agent-prompt.c1-breakout agent-prompt.c1-csi agent-prompt.crlf
	  agent-prompt.ctrl-u-after-breakout agent-prompt.dash-is-literal agent-prompt.double-dash agent-prompt.double-dash-early
	  agent-prompt.double-dash-only agent-prompt.emoji agent-prompt.empty agent-prompt.esc-sequence agent-prompt.extra-word
	  agent-prompt.kind-label agent-prompt.leading-dash agent-prompt.missing-name agent-prompt.missing-pane agent-prompt.multi-line
	  agent-prompt.name-other-workspace agent-prompt.no-args agent-prompt.no-text agent-prompt.pane-id agent-prompt.paste-begin-inside
	  agent-prompt.paste-breakout agent-prompt.plain-shell agent-prompt.self agent-prompt.short agent-prompt.spaces-only
	  agent-prompt.tab-and-bell agent-prompt.text-is-h agent-prompt.text-is-handoff agent-prompt.text-is-help agent-prompt.text-is-remote
	  agent-prompt.text-is-remote-keybindings agent-prompt.text-is-remote-word agent-prompt.text-is-session
	  agent-prompt.text-is-session-multiline agent-prompt.text-is-session-word agent-prompt.text-is-version agent-prompt.text-is-wait
	  agent-prompt.timeout-without-wait agent-prompt.trailing-newline agent-prompt.unknown-option agent-prompt.until-without-wait
	  agent-rename.32-chars agent-rename.clear agent-rename.clear-twice agent-rename.invalid-33-chars agent-rename.invalid-colon
	  agent-rename.invalid-dash-first agent-rename.invalid-digit-first agent-rename.invalid-dot agent-rename.invalid-empty
	  agent-rename.invalid-newline agent-rename.invalid-non-ascii agent-rename.invalid-slash agent-rename.invalid-space
	  agent-rename.invalid-underscore-first agent-rename.invalid-upper agent-rename.missing agent-rename.missing-and-invalid
	  agent-rename.no-name agent-rename.ok agent-rename.plain-shell agent-rename.taken agent-rename.three-args
	  agent-send-keys.bad-key agent-send-keys.missing agent-send-keys.no-keys agent-send-keys.ok
	  agent.no-subcommand agent.unknown-subcommand bin-path.ignored doctor.unknown unknown-command unknown-option version
	  pane-close.missing pane-close.name pane-close.no-arg
	  pane-get.agent pane-get.legacy-id pane-get.missing pane-get.name pane-get.plain-shell
	  session.bad-name session.env-ignored session.env-unknown session.flag-wins
	  socket.directory socket.missing-file socket.missing-parent socket.regular-file socket.relative socket.stale socket.stale-prompt
	  socket.too-long socket.unset socket.stale-status status.json session-list.json`, func(*World) {}},

	{`agent-explain.missing agent-explain.plain-shell agent-read.bad-lines agent-read.bad-source agent-read.missing agent-read.plain-shell
	  agent-read.unknown-option agent-start.bad-kind agent-start.bad-name agent-start.bad-timeout agent-start.control-char-arg
	  agent-start.missing-pane agent-start.name-taken agent-start.no-kind agent-start.no-pane agent-start.pane-busy
	  agent-start.with-args agent-wait.already agent-wait.bad-status agent-wait.missing agent-wait.unknown-option
	  integration-status pane-current.env pane-current.no-env pane-current.stale-env pane-layout.env pane-layout.missing
	  pane-layout.pane pane-list.missing-workspace pane-read.missing pane-run.missing pane-run.no-command pane-run.to-agent
	  pane-send-text.missing pane-split.missing socket.stale-start tab-create.missing-workspace tab-get.missing tab-get.ok
	  tab-list.missing-workspace tab-list.ok tab-list.workspace workspace-create.ok workspace-create.unknown-option
	  workspace-get.after-last-pane workspace-get.closed workspace-get.index workspace-get.missing workspace-get.no-arg
	  workspace-get.ok workspace-list.ok`, func(*World) {}},

	{"pane-list.ok pane-list.workspace", func(w *World) { w.Pane("w2:p1").Rows = 12 }},
	{"workspace-list.blocked", func(w *World) {
		w.Pane("w1:p1").Agent.Status, w.Pane("w2:p1").Agent.Status = Blocked, Done
	}},
	{"workspace-list.five", func(w *World) { pads(w, "scratch", "~", "withenv") }},
	{"workspace-create.bad-cwd", func(w *World) { pads(w, "scratch") }},
	{"workspace-create.env", func(w *World) { pads(w, "scratch", "~") }},
	{"tab-create.ok", func(w *World) { pads(w, "scratch") }},
	{"pane-split.ok", func(w *World) { w.focus(logs(w)) }},
	{"pane-split.bad-direction pane-split.no-direction pane-split.current-no-env", func(w *World) { logs(w) }},
	{"pane-split.current", func(w *World) { logs(w); w.split(w.Pane("w3:p1"), right, 0.5) }},
	{"pane-split.cwd", func(w *World) {
		logs(w)
		w.split(w.Pane("w3:p1"), right, 0.5)
		w.split(w.Pane("w3:p1"), down, 0.5)
	}},
	{"pane-run.ok pane-send-text.ok", func(w *World) { scratch(w) }},
	{"pane-read.ok", func(w *World) { w.Pane("w1:p4").Text = []string{"$ "} }},
	{"pane-read.after-run", func(w *World) { scratch(w).Text = []string{"$ echo hello world", "hello world", "$ "} }},
	{"pane-wait-output.ok pane-wait-output.timeout", func(w *World) {
		scratch(w).Text = []string{"$ echo hello world", "hello world", "$ # typed, not submitted^C", "$ "}
		w.Haste = 20
	}},
	{"agent-read.ansi agent-read.default agent-read.detection agent-read.recent-unwrapped agent-read.visible", func(w *World) {
		show(w.Pane("w1:p1"))
	}},
	{"pane-read.after-start-with-args", func(w *World) { show(w.Pane("w1:p4")) }},
	{"agent-read.reported-custom agent-explain.reported-custom", func(w *World) {
		p := report(w, Agent{Kind: "mybot", Status: Working, Ready: true})
		p.Cols, p.Text = 27, []string{"$ gemini", "bash: gemini: command not found", "$ sleep 100", "^C", "$ "}
	}},

	{"agent-start.ok", func(w *World) { w.Pane("w1:p2").Agent = nil }},
	{"agent-start.pane-runs-command", func(w *World) { w.Pane("w1:p4").Busy = true }},
	{"agent-start.kind-mismatch", func(w *World) { w.Executables = map[string]string{"gemini": "codex"} }},
	{"agent-start.exits-at-once agent-start.not-installed", func(w *World) {
		w.Executables, w.Haste = map[string]string{"gemini": "", "kilo": ""}, 20
	}},
	{"agent-start.exits-early", func(w *World) { w.StartDelay, w.Haste = long, 5 }},

	{"agent-wait.agent-exits agent-wait.renamed-away agent-wait.server-stops", func(*World) {}},
	{"agent-wait.moved", func(w *World) { w.Pane("w1:p3").Agent.Name = "mover" }},
	{"agent-wait.blocked", func(w *World) { w.Pane("w1:p1").Agent.Status = Blocked }},
	{"agent-wait.done-is-not-idle agent-wait.timeout", func(w *World) { w.Pane("w2:p1").Agent.Status, w.Haste = Done, 20 }},
	{"agent-prompt.wait-done agent-prompt.wait-until-all agent-prompt.wait-until-working", func(*World) {}},
	{"agent-prompt.wait-short-timeout agent-prompt.wait-stalled", func(w *World) { w.Haste = 20 }},
	{"agent-prompt.wait-timeout", func(w *World) { w.Haste = 5 }},
	{"agent-prompt.wait-timeout-long", func(w *World) { w.StallAfter, w.Haste = 5900*time.Millisecond, 3 }},
	{"agent-prompt.wait-until-working-already-working", func(w *World) { work(w.Pane("w1:p1")); w.Haste = 20 }},

	{"agent-get.blocked agent-prompt.to-blocked", func(w *World) { w.Pane("w1:p1").Agent.Status = Blocked }},
	{"agent-prompt.to-working env.none", func(w *World) { work(w.Pane("w1:p1")) }},
	{"agent-get.done agent-get.hung", func(w *World) { w.Pane("w2:p1").Agent.Status = Done }},
	{"agent-rename.taken-other-workspace", func(w *World) { w.Pane("w2:p1").Agent.Status = Done }},
	{"agent-prompt.no-paste-cr agent-prompt.no-paste-multi-line agent-prompt.no-paste-trailing-newline", func(w *World) {
		w.Pane("w2:p1").Agent.Status, w.Pane("w2:p1").Agent.NoPaste = Done, true
	}},
	{"agent-get.exited agent-prompt.exited agent-prompt.exited-by-pane agent-prompt.suspended pane-get.after-agent-exit", func(w *World) {
		w.Pane("w1:p2").Agent, w.Pane("w1:p2").LastStatus = nil, Idle
	}},
	{"agent-prompt.exited-just-now agent-prompt.killed-just-now", func(w *World) { w.Pane("w1:p2").Agent.Ready = false }},
	{"agent-rename.after-restart", func(w *World) {
		w.Pane("w1:p2").Agent.Name, w.Pane("w1:p2").Agent.Started = "", false
	}},
	{"agent-rename.by-name agent-rename.same-name", func(w *World) { w.Pane("w1:p3").Agent.Name = "helper" }},

	{"agent-get.env-hint", func(w *World) { report(w, Agent{Kind: "claude", Status: Idle, Ready: true}) }},
	{"agent-get.reported-custom agent-prompt.reported-custom agent-rename.reported-custom agent-send-keys.reported-custom", func(w *World) {
		report(w, Agent{Kind: "mybot", Status: Working, Ready: true})
	}},
	{"agent-get.unknown-status", func(w *World) { report(w, Agent{Kind: "mybot", Name: "mybot1", Status: Unknown, Ready: true}) }},
	{"agent-prompt.reported-known-no-process", func(w *World) { report(w, Agent{Kind: "claude", Status: Working}) }},
	{"agent-get.launch-pending agent-list.launch-pending agent-prompt.launch-pending agent-rename.launch-pending", func(w *World) {
		report(w, Agent{Kind: "claude", Name: "newbie", Status: Idle, LaunchPending: true})
	}},
	{"agent-get.launch-done", func(w *World) {
		report(w, Agent{Kind: "claude", Name: "newbie", Status: Idle, Ready: true, Started: true}).Title = "✳ ready"
	}},

	{"pane-process-info.ok", func(w *World) {
		p := w.Pane("w1:p1")
		p.Shell = 7461
		p.Foreground = []Process{{8056, "claude", []string{"/usr/bin/python3", "/home/user/bin/claude"}, p.Cwd}}
	}},

	{"agent-get.pane-closed agent-prompt.pane-closed", func(w *World) { w.close(w.AddPane("w1", "claude", "victim")) }},
	{"pane-get.closed pane-close.closed", func(w *World) { w.close(scratch(w)) }},
	{"pane-close.ok", func(w *World) { scratch(w) }},
	{"pane-get.labelled", func(w *World) { scratch(w).Label = "my label" }},
	{"pane-close.agent", func(w *World) { scratch(w); w.AddPane("w3", "", ""); w.AddPane("w3", "codex", "other") }},
	{"pane-close.last-in-workspace", func(w *World) { w.close(scratch(w)); w.AddPane("w3", "", ""); w.close(w.Pane("w3:p1")) }},
	{"pane-close.very-last", func(w *World) {
		for len(w.Panes) > 1 {
			w.close(w.Panes[len(w.Panes)-1])
		}
	}},
	{`empty.after-close empty.agent-list empty.pane-current empty.pane-layout empty.pane-list empty.pane-split empty.tab-create
	  empty.tab-list empty.workspace-list`, func(w *World) {
		for len(w.Panes) > 0 {
			w.close(w.Panes[0])
		}
	}},

	{`agent-get.moved-name agent-get.moved-new-pane-id agent-get.moved-old-pane-id agent-prompt.moved-name agent-prompt.moved-old-pane-id
	  pane-current.moved pane-current.moved-current-flag pane-get.moved-old-pane-id`, func(w *World) { move(w) }},
	{"agent-rename.moved-old-pane-id", func(w *World) { move(w).Agent.Name = "" }},
	{"pane-get.moved-twice-oldest-id", func(w *World) {
		p := move(w)
		w.Move(p.ID, w.AddWorkspace("solo").ID)
		p.Title = "⠋ working"
	}},

	{`server-down.agent-get server-down.agent-list server-down.agent-prompt server-down.agent-rename server-down.pane-close
	  server-down.status server-down.pane-current server-down.workspace-list server-killed.agent-get`, fault(Fault{Kind: Down})},
	{"protocol.server-newer protocol.server-newer-status", fault(Fault{Kind: Mismatch})},
	{"protocol.server-older protocol.server-older-prompt", fault(Fault{Kind: Mismatch, Protocol: 19})},
	{"protocol.empty-response protocol.dies-after-ping", fault(Fault{Kind: Debug})},
	{"protocol.closed-at-once", fault(Fault{Kind: Debug, Text: `Os { code: 104, kind: ConnectionReset, message: "Connection reset by peer" }`})},
	{"protocol.garbage", fault(Fault{Kind: Debug, Text: `Custom { kind: Other, error: Json(Error("expected value", line: 1, column: 1)) }`})},
}

// meanwhile is what happened to the world while the call of a case was waiting.
var meanwhile = map[string]func(w *World){
	"agent-start.exits-early": func(w *World) { w.Pane("w1:p4").Agent = nil },
	"agent-wait.agent-exits":  func(w *World) { w.Pane("w1:p2").Agent = nil },
	"agent-wait.moved":        func(w *World) { w.Move("w1:p3", "w2") },
	"agent-wait.renamed-away": func(w *World) { w.Pane("w1:p2").Agent.Name = "other" },
	"agent-wait.server-stops": fault(Fault{Kind: Down}),
	"agent-prompt.wait-done": func(w *World) {
		w.Pane("w1:p1").Agent.Status = Working
		w.count(w.Pane("w1:p1"))
		w.Pane("w1:p1").Agent.Status = Idle
	},
	"agent-prompt.wait-timeout":       func(w *World) { work(w.Pane("w1:p1")) },
	"agent-prompt.wait-timeout-long":  func(w *World) { work(w.Pane("w1:p1")) },
	"agent-prompt.wait-until-all":     func(w *World) { work(w.Pane("w1:p1")) },
	"agent-prompt.wait-until-working": func(w *World) { work(w.Pane("w1:p1")) },
}

func fault(f Fault) func(*World) { return func(w *World) { w.Faults = []Fault{f} } }

func work(p *Pane) { p.Agent.Status, p.Title = Working, "⠋ working" }

// report makes the shell's pane host an agent.
func report(w *World, a Agent) *Pane {
	p := w.Pane("w1:p4")
	p.Agent = &a
	return p
}

// pads opens w3 and those after it, a shell in each.
func pads(w *World, labels ...string) {
	for _, label := range labels {
		w.AddPane(w.AddWorkspace(label).ID, "", "")
	}
}

// logs opens w3 with w3:p1, and a second tab with w3:p2.
func logs(w *World) *Pane {
	pads(w, "scratch")
	return w.open(w.workspace("w3"), "/")
}

// show is the screen of the program that was taken for claude.
func show(p *Pane) {
	line := strings.Repeat("─", 60)
	p.Cols, p.Text = 53, []string{"claude (fake)", line, "❯ ", line}
}

// scratch opens w3 with w3:p1 and, where p2 has gone, w3:p3.
func scratch(w *World) *Pane {
	ws := w.AddWorkspace("scratch")
	w.AddPane(ws.ID, "", "")
	ws.NextPane = 3
	return w.AddPane(ws.ID, "", "")
}

// move takes w6:p3 to w2:p2.
func move(w *World) *Pane {
	w.NextWorkspace = 6
	ws := w.AddWorkspace("six")
	w.AddPane(ws.ID, "", "")
	ws.NextPane = 3
	p := w.AddPane(ws.ID, "claude", "mover")
	p.Agent.Started, p.Rows = false, 12 // named by rename
	return w.Move(p.ID, "w2")
}

func TestCaptures(t *testing.T) {
	setups := make(map[string]func(*World))
	for _, row := range scenes {
		for _, name := range strings.Fields(row.cases) {
			setups[name] = row.setup
		}
	}
	files, err := filepath.Glob("../testdata/herdr/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	seen := make(map[string]bool)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		seen[name] = true
		if why := different[name]; why != "" {
			t.Logf("not reproduced: %s: %s", name, why)
			continue
		}
		setup := setups[name]
		if setup == nil {
			t.Errorf("%s: neither reproduced nor named as different", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replayCapture(t, file, setup, meanwhile[name])
		})
	}
	for name := range different {
		if !seen[name] {
			t.Errorf("no such capture: %s", name)
		}
	}
	for name := range setups {
		if !seen[name] {
			t.Errorf("no such capture: %s", name)
		}
	}
	for name := range meanwhile {
		if setups[name] == nil {
			t.Errorf("no such case: %s", name)
		}
	}
}

func replayCapture(t *testing.T, file string, setup, meanwhile func(*World)) {
	want := readCapture(t, file)
	s := newScene(t)
	update(t, s, setup)
	cmd := exec.Command(s.Bin(), want.Argv[1:]...)
	cmd.Env = []string{"HOME=/home/user", "GORACE=" + os.Getenv("GORACE")}
	for key, value := range want.Env {
		if key != "HERDR_SOCKET_PATH" {
			cmd.Env = append(cmd.Env, key+"="+value)
		}
	}
	socket, ok := want.Env["HERDR_SOCKET_PATH"]
	switch {
	case slices.Contains([]string{"/home/user/.config/herdr/herdr.sock", "/home/user/.config/herdr/fake.sock"}, socket),
		want.Env["HERDR_SESSION"] == "work": // the server that was up is this scene's
		cmd.Env = append(cmd.Env, "HERDR_SOCKET_PATH="+s.socket())
	case ok:
		cmd.Env = append(cmd.Env, "HERDR_SOCKET_PATH="+socket)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if meanwhile != nil {
		waitFor(t, "wait", func() bool { return slices.ContainsFunc(calls(t, s), func(c Call) bool { return c.Waits }) })
		update(t, s, meanwhile)
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != want.Exit {
		t.Errorf("exit %d, want %d", got, want.Exit)
	}
	for _, stream := range []struct{ name, got, want string }{
		{"stdout", stdout.String(), want.Stdout},
		{"stderr", stderr.String(), want.Stderr},
	} {
		got := strings.ReplaceAll(stream.got, strings.ReplaceAll(s.socket(), `\`, `\\`), socket)
		if got, want := neutral(got), neutral(stream.want); got != want {
			t.Errorf("%s\n%s\nwant\n%s", stream.name, got, want)
		}
	}
}

func readCapture(t *testing.T, file string) (c capture) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		t.Fatal(file, err)
	}
	return c
}

// neutral replaces what a scene cannot know. Everything else is compared byte
// by byte, so key order is too.
func neutral(text string) string {
	for _, r := range []struct{ pattern, with string }{
		{`term_[0-9a-f]{14}`, `term_X`},
		{`"(revision|state_change_seq)":[0-9]+`, `"$1":0`},
		{`state_change_seq remained [0-9]+`, `state_change_seq remained 0`},
		{`"(cwd|foreground_cwd)":"/[^"]*"`, `"$1":"/x"`},
		{` cwd=/\S+`, ` cwd=/x`},
		{`"binary":"[^"]*"`, `"binary":"/x"`},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	return text
}
