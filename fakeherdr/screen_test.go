package fakeherdr

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	s := newScene(t)
	update(t, s, func(w *World) {
		p := w.Pane("w1:p4")
		p.Rows, p.Cols = 4, 5
		p.Text = []string{"one", "\x1b[1mtwo\x1b[0m  ", "three and", "", "żółć"} // three and: two rows
		q := w.Pane("w1:p2")
		q.Rows = 10
		q.Text = []string{"top", "bottom"}
		pi := w.Pane("w1:p3")
		for i := range 2000 {
			pi.Text = append(pi.Text, strings.Repeat("x", i%3+1))
		}
	})
	for _, test := range []struct{ args, want string }{
		{"w1:p4", "one\ntwo\nthree\n and\n\nżółć\n"},
		{"w1:p4 --source recent-unwrapped", "one\ntwo\nthree and\n\nżółć"},
		{"w1:p4 --source recent_unwrapped --lines 3", " and\n\nżółć"},
		{"w1:p4 --source visible", "three\n and\n\nżółć\n"},
		{"w1:p4 --source visible --lines 1", "żółć\n"},
		{"w1:p4 --source visible --lines 0", ""},
		{"w1:p4 --source detection --format ansi", "three\n and\n\nżółć\n"},
		{"w1:p4 --lines 2 --format text", "\nżółć\n"},
		{"w1:p4 --ansi", "one\r\n\x1b[1mtwo\x1b[0m  \r\nthree\r\n and\r\n\r\nżółć"},
		{"w1:p4 --source recent-unwrapped --ansi", "one\r\n\x1b[1mtwo\x1b[0m  \r\nthree and\r\n\r\nżółć"},
		{"w1:p4 --ansi --format text --lines 1", "żółć\n"},
		{"w1:p2", "top\nbottom\n"},
		{"w1:p2 --lines 5", ""}, // the last rows are blank
		{"w1:p2 --source visible --lines 5", "top\nbottom\n"},
		{"w1:p1", ""},
		{"1-2", "top\nbottom\n"},
	} {
		if got := mustRun(t, s, append([]string{"pane", "read"}, strings.Fields(test.args)...)...); got != test.want {
			t.Errorf("pane read %s\n%q\nwant\n%q", test.args, got, test.want)
		}
	}
	if got := mustRun(t, s, "pane", "read", "w1:p4", "--raw"); got != mustRun(t, s, "pane", "read", "w1:p4", "--ansi") {
		t.Errorf("raw: %q", got)
	}
	for args, want := range map[string]int{"w1:p3": 80, "w1:p3 --lines 5000": 1000, "w1:p3 --source visible": 23} {
		if got := strings.Count(mustRun(t, s, append([]string{"agent", "read"}, strings.Fields(args)...)...), "\n"); got != want {
			t.Errorf("agent read %s: %d lines", args, got)
		}
	}
	if got := ask[paneResult](t, s, "pane", "get", "w1:p3").Pane.Scroll; got != (scroll{Max: 1977, Rows: 23}) {
		t.Errorf("scroll: %+v", got)
	}
	if got := ask[matchedResult](t, s, "pane", "wait-output", "w1:p3", "--match", "x", "--lines", "7").Read; !got.Truncated || got.Source != "recent_unwrapped" || strings.Count(got.Text, "\n") != 6 {
		t.Errorf("read: %+v", got)
	}
}

// Without a screen, the explanation has the keys that the real one has, and one
// that says so.
func TestExplain(t *testing.T) {
	s := newScene(t)
	update(t, s, func(w *World) { w.Pane("w1:p1").Agent.Status = Done })
	var want, got map[string]any
	if err := json.Unmarshal([]byte(readCapture(t, "../testdata/herdr/agent-explain.json.json").Stdout), &want); err != nil {
		t.Fatal(err)
	}
	out := mustRun(t, s, "agent", "explain", "--json", "lead")
	if err := json.Unmarshal([]byte(out), &got); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	if got["state"] != Idle || got["agent"] != "claude" || got["screen_detection_skip_reason"] == nil {
		t.Errorf("%v", got)
	}
	for key := range got {
		if _, ok := want[key]; !ok && key != "screen_detection_skip_reason" {
			t.Errorf("%s is new", key)
		}
	}
	for key := range want {
		if _, ok := got[key]; !ok {
			t.Errorf("%s is missing", key)
		}
	}
	if got := mustRun(t, s, "agent", "explain", "w1:p3", "--format", "json", "--format", "text"); !strings.HasPrefix(got, "agent: pi\nstate: idle\n") {
		t.Errorf("%q", got)
	}
}

func TestIntegrations(t *testing.T) {
	s := newScene(t)
	update(t, s, func(w *World) {
		w.Integrations = map[string]string{"claude": "outdated (v2 < v3)", "pi": "current (v3)"}
	})
	out := mustRun(t, s, "integration", "status")
	for _, want := range []string{"pi: current (v3) (", "omp: not installed (", "claude: outdated (v2 < v3) ("} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestRegex(t *testing.T) {
	for _, test := range []struct {
		pattern, line string
		want          bool
	}{
		{"b", "abc", true}, {"^b", "abc", false}, {"^a", "abc", true}, {"b$", "abc", false}, {"c$", "abc", true}, {"^$", "", true}, {"", "abc", true},
		{"a.c", "abc", true}, {"a.c", "a\tc", true}, {"ab*c", "ac", true}, {"ab+c", "ac", false}, {"ab+c", "abbbc", true}, {"ab?c", "abbc", false},
		{"^.*ready.*$", "it is ready", true}, {`\d+ passed`, "17 passed", true}, {`\d\d passed`, "7 passed", false}, {`a\.c`, "abc", false}, {`\w+\s\w+`, "é x", true},
		{"[a-c]+[^0-9]$", "xbc1", false}, {"[a-c]+[^0-9]$", "xbcz", true}, {"[a-]", "-", true}, {"ready|failed", "it failed", true}, {"^ready$|^failed$", "it failed", false},
		{"ż+ó", "żżó", true},
	} {
		re, err := compileRegex(test.pattern)
		if err != nil {
			t.Errorf("%s: %v", test.pattern, err)
		} else if re.match(test.line) != test.want {
			t.Errorf("%s on %q: %t", test.pattern, test.line, !test.want)
		}
	}
	for pattern, herdrs := range map[string]bool{"a(b": true, "[ab": true, "*a": true, "a**": true, `a\`: true, "(a)": false, "a{2}": false, "a^b": false} {
		_, err := compileRegex(pattern)
		if _, ok := err.(failure); err == nil || ok != herdrs {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// Wrong command lines, before any server is asked.
func TestUsage(t *testing.T) {
	s := faulty(t, Fault{Kind: Down})
	run := func(args ...string) (stderr string, exit int) {
		cmd := exec.Command(s.Bin(), args...)
		var out bytes.Buffer
		cmd.Stderr = &out
		_ = cmd.Run()
		return out.String(), cmd.ProcessState.ExitCode()
	}
	for _, test := range []struct {
		args   string
		exit   int
		stderr string
	}{
		{"pane read w1:p1 --lines=80", 2, "unknown option: --lines=80"},
		{"pane read --lines 80", 2, "unknown option: 80"}, // --lines was the pane
		{"pane read w1:p1 --lines", 2, "missing value for --lines"},
		{"pane read w1:p1 --lines -1", 1, `Error: Custom { kind: Other, error: "invalid value for --lines: -1" }`},
		{"pane read w1:p1 --lines 4294967296", 1, `Error: Custom { kind: Other, error: "invalid value for --lines: 4294967296" }`},
		{"pane read w1:p1 --format html", 1, `Error: Custom { kind: Other, error: "invalid read format: html" }`},
		{"agent read lead --raw", 2, "unknown option: --raw"},
		{"pane wait-output", 2, "usage: herdr pane wait-output <pane_id> (--match TEXT | --regex PATTERN) [--source visible|recent|recent-unwrapped] [--lines N] [--timeout MS] [--raw]"},
		{"pane wait-output w1:p1", 2, "missing required --match or --regex"},
		{"pane wait-output w1:p1 --match=x", 2, "unknown option: --match=x"},
		{"pane wait-output w1:p1 --match x --regex y", 2, "--match and --regex are mutually exclusive"},
		{"pane wait-output w1:p1 --match x --format text", 2, "unknown option: --format"},
		{"pane wait-output w1:p1 --match x --timeout y", 1, `Error: Custom { kind: Other, error: "invalid value for --timeout: y" }`},
		{"pane split w1:p1 --direction down --ratio NaN", 2, "invalid ratio: NaN"},
		{"pane split w1:p1 --direction down --ratio x", 2, "invalid ratio: x"},
		{"pane split --direction", 2, "missing value for --direction"},
		{"pane run w1:p1", 2, "usage: herdr pane run <pane_id> <command>"},
		{"pane list w1", 2, "unknown option: w1"},
		{"pane current --pane", 2, "missing value for --pane"},
		{"pane frobnicate", 2, strings.TrimSuffix(groupUsage("pane"), "\n")},
		{"tab", 2, strings.TrimSuffix(groupUsage("tab"), "\n")},
		{"tab get", 2, "usage: herdr tab get <tab_id>"},
		{"workspace", 2, strings.TrimSuffix(groupUsage("workspace"), "\n")},
		{"workspace list --json", 2, "usage: herdr workspace list"},
		{"workspace create --env x", 2, "env must use KEY=VALUE"},
		{"workspace create --env =x", 2, "env key must not be empty"},
		{"workspace create --cwd --session=x", 2, "missing value for --cwd"}, // a global option is cut out first
		{"agent wait lead --until", 2, "--until requires at least one status"},
		{"agent wait lead --timeout x", 2, "invalid value for --timeout: x"},
		{"agent prompt lead x --wait --until", 2, "--until requires at least one status"},
		{"agent start", 2, "usage: herdr agent start <name> --kind KIND --pane ID [--timeout MS] [-- <agent-args...>]"},
		{"agent start x --kind pi --pane -- --pane w1:p4", 2, "missing value for --pane"},
		{"agent start x --kind Pi --pane w1:p4", 2, "unsupported interactive agent kind: Pi"},
		{"agent explain", 2, "usage: herdr agent explain <target> [--json]\nusage: herdr agent explain --file PATH --agent LABEL [--json]"},
		{"agent explain lead --format yaml", 2, "invalid --format: yaml (expected text or json)"},
		{"agent explain lead reviewer", 2, "usage: herdr agent explain <target> [--json]"},
		{"integration status --json", 2, "usage: herdr integration status [--outdated-only]"},
	} {
		if stderr, exit := run(strings.Fields(test.args)...); exit != test.exit || stderr != test.stderr+"\n" {
			t.Errorf("%s: exit %d\n%s\nwant %d\n%s", test.args, exit, stderr, test.exit, test.stderr)
		}
	}
}

// What is wrong first is said first.
func TestEmptyPrompt(t *testing.T) {
	s := newScene(t)
	wantCode(t, s, "empty_agent_prompt", "agent", "prompt", "nobody", "")
	wantCode(t, s, "agent_not_found", "agent", "prompt", "nobody", "", "--wait")
	wantCode(t, s, "empty_agent_prompt", "agent", "prompt", "lead", "", "--wait")
}
