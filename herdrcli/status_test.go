package herdrcli

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"herdr-link/fakeherdr"
)

// Each call has exactly this argv, and reads what a Herdr answers to it.
func TestStatusCalls(t *testing.T) {
	t.Parallel()
	s, c := newScene(t, Options{})
	update(t, s, func(w *fakeherdr.World) {
		p := w.Pane("w1:p2")
		p.Shell, p.Foreground = 10, []fakeherdr.Process{{PID: 20, Name: "codex", Argv: []string{"codex"}}, {PID: 30, Name: "bash"}}
	})
	ctx := t.Context()
	if v, err := c.Version(ctx); err != nil || v != "0.8.0" {
		t.Errorf("Version: %q, %v", v, err)
	}
	got, err := c.Status(ctx)
	if err != nil || got.Client.Version != "0.8.0" || got.Client.Protocol != 20 || !got.Server.Running || got.Server.Version != "0.8.0" ||
		got.Server.Protocol != 20 || got.Server.Compatible == nil || !*got.Server.Compatible || !strings.HasSuffix(got.Server.Socket, "herdr.sock") {
		t.Errorf("Status: %+v, %v", got, err)
	}
	info, err := c.PaneProcesses(ctx, "w1:p2")
	if want := (Processes{"w1:p2", 10, 20, []Process{{20, "codex"}, {30, "bash"}}}); err != nil || !reflect.DeepEqual(info, want) {
		t.Errorf("PaneProcesses: %+v, %v", info, err)
	}
	if info, err = c.PaneProcesses(ctx, "w1:p4"); err != nil || !reflect.DeepEqual(info, Processes{Pane: "w1:p4"}) {
		t.Errorf("PaneProcesses where nothing is known: %+v, %v", info, err)
	}
	if _, err := c.PaneProcesses(ctx, "w9:p9"); Code(err) != "pane_not_found" {
		t.Errorf("PaneProcesses of no pane: %v", err)
	}
	var argv [][]string
	for _, call := range calls(t, s) {
		argv = append(argv, call.Args)
	}
	want := [][]string{{"--version"}, {"status", "--json"}, {"pane", "process-info", "--pane", "w1:p2"},
		{"pane", "process-info", "--pane", "w1:p4"}, {"pane", "process-info", "--pane", "w9:p9"}}
	if !slices.EqualFunc(argv, want, slices.Equal) {
		t.Errorf("argv %q", argv)
	}
	if _, err := c.PaneProcesses(ctx, "--current"); !errors.Is(err, ErrOutput) || len(calls(t, s)) != len(want) {
		t.Errorf("an option got onto a command line: %v", err)
	}
}

// A server that is down or of another protocol is an answer.
func TestStatusOfNoServer(t *testing.T) {
	t.Parallel()
	s, c := newScene(t, Options{}, fakeherdr.Fault{Kind: fakeherdr.Down})
	got, err := c.Status(t.Context())
	if err != nil || got.Server.Running || got.Server.Compatible != nil || got.Server.Protocol != 0 || got.Client.Protocol != 20 {
		t.Errorf("down: %+v, %v", got, err)
	}
	update(t, s, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Mismatch, Protocol: 19}}
	})
	got, err = c.Status(t.Context())
	if err != nil || !got.Server.Running || got.Server.Compatible == nil || *got.Server.Compatible || got.Server.Protocol != 19 {
		t.Errorf("mismatch: %+v, %v", got, err)
	}
}

// Another socket is another server: the scene has one at its own alone.
func TestAt(t *testing.T) {
	t.Parallel()
	s, c := newScene(t, Options{})
	own, err := c.Status(t.Context())
	if err != nil || !own.Server.Running {
		t.Fatalf("%+v, %v", own, err)
	}
	other, err := c.At(s.Dir() + "/other.sock").Status(t.Context())
	if err != nil || other.Server.Running || other.Server.Socket != s.Dir()+"/other.sock" {
		t.Errorf("the other one: %+v, %v", other, err)
	}
	if again, err := c.At(own.Server.Socket).Status(t.Context()); err != nil || !again.Server.Running {
		t.Errorf("the own one: %+v, %v", again, err)
	}
}

func TestStatusDecoding(t *testing.T) {
	t.Parallel()
	version := func(ctx context.Context, c *Client) error { _, err := c.Version(ctx); return err }
	status := func(ctx context.Context, c *Client) error { _, err := c.Status(ctx); return err }
	processes := func(ctx context.Context, c *Client) error { _, err := c.PaneProcesses(ctx, "w1:p1"); return err }
	for name, test := range map[string]struct {
		call func(context.Context, *Client) error
		out  string
		good bool
	}{
		"version":                {version, "herdr 0.9.0-preview.3\r\n", true},
		"version, another":       {version, "tmux 3.4\n", false},
		"version, none":          {version, "herdr \n", false},
		"version, more words":    {version, "herdr 0.8.0 is here\n", false},
		"version, more lines":    {version, "herdr 0.8.0\nhello\n", false},
		"version, endless":       {version, "herdr " + strings.Repeat("0", 65), false},
		"version, nothing":       {version, "", false},
		"status, unknown server": {status, `{"client":{"version":"1","protocol":1},"server":{"running":true,"compatible":null},"x":[]}`, true},
		"status, text":           {status, "client:\n  version: 0.8.0\n", false},
		"status, a list":         {status, `[]`, false},
		"status, no client":      {status, `{"server":{"running":true}}`, false},
		"status, wrong types":    {status, `{"client":{"version":1}}`, false},
		"processes":              {processes, `{"result":{"type":"pane_process_info","process_info":{"pane_id":"w1:p1","shell_pid":null}}}`, true},
		"processes, no pane":     {processes, `{"result":{"type":"pane_process_info","process_info":{}}}`, false},
		"processes, other type":  {processes, `{"result":{"type":"pane_info","process_info":{"pane_id":"w1:p1"}}}`, false},
		"processes, a text":      {processes, `{"result":{"type":"pane_process_info","process_info":{"pane_id":"w1:p1","shell_pid":"1"}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := test.call(t.Context(), role(t, "print", outVariable+"="+test.out))
			if test.good && err != nil || !test.good && !errors.Is(err, ErrOutput) {
				t.Error(err)
			}
		})
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][3]int{"0.8.0": {0, 8, 0}, "0.9.0-preview.3": {0, 9, 0}, "1.22.333+x": {1, 22, 333}} {
		if got, ok := ParseVersion(text); !ok || got != want {
			t.Errorf("%s: %v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "0.8", "0.8.x", "0.8.0.1", "0.-8.0", "v0.8.0", "99999999999999999999.0.0", "+1.0.0"} {
		if got, ok := ParseVersion(text); ok {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestIntegrations(t *testing.T) {
	t.Parallel()
	got := Integrations("pi: not installed (/home/a (b)/x.ts)\nclaude: current (v8) (/c.sh)\nkilo: outdated (v7 < v8) (C:\\k.js)\n\nwarning\nomp: legacy\nx: (v8)\n")
	want := []Integration{
		{"pi", "not installed", "/home/a (b)/x.ts"}, {"claude", "current (v8)", "/c.sh"}, {"kilo", "outdated (v7 < v8)", `C:\k.js`},
		{"omp", "legacy", ""}, {"x", "(v8)", ""},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
