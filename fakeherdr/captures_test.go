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
)

// different are captures that this Herdr knowingly does not reproduce.
var different = map[string]string{
	"agent-prompt.help":                               "its text is for people; here --help is a target",
	"agent-prompt.wait-short-timeout":                 "nothing here waits",
	"agent-prompt.wait-stalled":                       "nothing here waits",
	"agent-prompt.wait-timeout":                       "nothing here waits",
	"agent-prompt.wait-timeout-long":                  "nothing here waits",
	"agent-prompt.wait-until-all":                     "nothing here waits, and no agent begins to work",
	"agent-prompt.wait-until-working":                 "nothing here waits, and no agent begins to work",
	"agent-prompt.wait-until-working-already-working": "nothing here waits",
	"socket.empty-path":                               "getenv cannot tell an empty variable from a missing one",
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
	  agent-prompt.wait-done
	  agent-rename.32-chars agent-rename.clear agent-rename.clear-twice agent-rename.invalid-33-chars agent-rename.invalid-colon
	  agent-rename.invalid-dash-first agent-rename.invalid-digit-first agent-rename.invalid-dot agent-rename.invalid-empty
	  agent-rename.invalid-newline agent-rename.invalid-non-ascii agent-rename.invalid-slash agent-rename.invalid-space
	  agent-rename.invalid-underscore-first agent-rename.invalid-upper agent-rename.missing agent-rename.missing-and-invalid
	  agent-rename.no-name agent-rename.ok agent-rename.plain-shell agent-rename.taken agent-rename.three-args
	  agent.no-subcommand agent.unknown-subcommand bin-path.ignored doctor.unknown unknown-command unknown-option version
	  pane-close.missing pane-close.name pane-close.no-arg
	  pane-get.agent pane-get.legacy-id pane-get.missing pane-get.name pane-get.plain-shell
	  session.bad-name session.env-ignored session.env-unknown session.flag-wins
	  socket.directory socket.missing-file socket.missing-parent socket.regular-file socket.relative socket.stale socket.stale-prompt
	  socket.too-long socket.unset socket.stale-status status.json`, func(*World) {}},

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
	{"agent-get.reported-custom agent-prompt.reported-custom agent-rename.reported-custom", func(w *World) {
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
	{"empty.agent-list", func(w *World) {
		for len(w.Panes) > 0 {
			w.close(w.Panes[0])
		}
	}},

	{`agent-get.moved-name agent-get.moved-new-pane-id agent-get.moved-old-pane-id agent-prompt.moved-name agent-prompt.moved-old-pane-id
	  pane-get.moved-old-pane-id`, func(w *World) { move(w) }},
	{"agent-rename.moved-old-pane-id", func(w *World) { move(w).Agent.Name = "" }},
	{"pane-get.moved-twice-oldest-id", func(w *World) {
		p := move(w)
		w.Move(p.ID, w.AddWorkspace("solo").ID)
		p.Title = "⠋ working"
	}},

	{`server-down.agent-get server-down.agent-list server-down.agent-prompt server-down.agent-rename server-down.pane-close
	  server-down.status server-killed.agent-get`, fault(Fault{Kind: Down})},
	{"protocol.server-newer protocol.server-newer-status", fault(Fault{Kind: Mismatch})},
	{"protocol.server-older protocol.server-older-prompt", fault(Fault{Kind: Mismatch, Protocol: 19})},
	{"protocol.empty-response protocol.dies-after-ping", fault(Fault{Kind: Debug})},
	{"protocol.closed-at-once", fault(Fault{Kind: Debug, Text: `Os { code: 104, kind: ConnectionReset, message: "Connection reset by peer" }`})},
	{"protocol.garbage", fault(Fault{Kind: Debug, Text: `Custom { kind: Other, error: Json(Error("expected value", line: 1, column: 1)) }`})},
}

func fault(f Fault) func(*World) { return func(w *World) { w.Faults = []Fault{f} } }

func work(p *Pane) { p.Agent.Status, p.Title = Working, "⠋ working" }

// report makes the shell's pane host an agent.
func report(w *World, a Agent) *Pane {
	p := w.Pane("w1:p4")
	p.Agent = &a
	return p
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
			replayCapture(t, file, setup)
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
}

func replayCapture(t *testing.T, file string, setup func(*World)) {
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
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
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
		{`"(cwd|foreground_cwd)":"/[^"]*"`, `"$1":"/x"`},
		{` cwd=/\S+`, ` cwd=/x`},
		{`"binary":"[^"]*"`, `"binary":"/x"`},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	return text
}
