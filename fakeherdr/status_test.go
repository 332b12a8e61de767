package fakeherdr

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// What status says where no capture shows it.
func TestStatus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		setup func(*World)
		args  []string
		exit  int
		out   []string // parts of stdout
		err   string   // that stderr begins with
	}{
		"older server": {setup: fault(Fault{Kind: Mismatch, Protocol: 19}), args: []string{"status", "--json"},
			out: []string{`"running":true`, `"protocol":19`, `"compatible":false`, `"restart_needed":true}}`}},
		"another client": {setup: func(w *World) { w.Client = "0.7.4" }, args: []string{"status", "--json"}, out: []string{`{"client":{"version":"0.7.4"`}},
		"its version":    {setup: func(w *World) { w.Client = "0.7.4" }, args: []string{"--version"}, out: []string{"herdr 0.7.4\n"}},
		"a session": {args: []string{"status", "--json", "--session", "work"},
			out: []string{`"running":false`, `/sessions/work/herdr.sock","session":"work"`}},
		"debug":   {setup: fault(Fault{Kind: Debug}), args: []string{"status", "--json"}, exit: 1, err: "Error: Custom {"},
		"garbage": {setup: fault(Fault{Kind: Garbage, Match: []string{"status"}}), args: []string{"status", "--json"}, out: []string{"herdr: "}},
		"exit2":   {setup: fault(Fault{Kind: Exit2}), args: []string{"status", "--json"}, exit: 2, err: "unknown command: status"},
		"usage":   {args: []string{"status", "--jsonx"}, exit: 2, err: "herdr status commands:\n"},

		"no session runs":    {setup: fault(Fault{Kind: Down}), args: []string{"session", "list", "--json"}, out: []string{`"running":false`, `"default":true`}},
		"sessions":           {args: []string{"session", "list", "--jsonx"}, exit: 2, err: "usage: herdr session list [--json]\n"},
		"nothing outdated":   {args: []string{"integration", "status", "--outdated-only"}},
		"integration option": {args: []string{"integration", "status", "--bogus"}, exit: 2, err: "usage: herdr integration status [--outdated-only]\n"},
		"outdated": {setup: func(w *World) {
			w.Integrations = map[string]string{"pi": "outdated (legacy < v8)", "omp": "outdated (v1 < v8)", "codex": "current (v3)", "opencode": "outdated (v1 < v9)"}
		}, args: []string{"integration", "status", "--outdated-only"},
			err: "installed herdr integrations need updating; run herdr integration install pi, herdr integration install omp and herdr integration install opencode.\n"},

		"no such pane": {args: []string{"pane", "process-info", "--pane", "w9:p9"}, exit: 1,
			err: `{"error":{"code":"pane_not_found","message":"pane not found"},"id":"cli:pane:process_info"}` + "\n"},
		"nothing known": {args: []string{"pane", "process-info", "--pane", "w1:p4"},
			out: []string{`{"id":"cli:pane:process_info","result":{"process_info":{"pane_id":"w1:p4"},"type":"pane_process_info"}}`}},
		"old id":  {setup: func(w *World) { move(w) }, args: []string{"pane", "process-info", "--pane", "w6:p3"}, out: []string{`"pane_id":"w2:p2"`}},
		"no pane": {args: []string{"pane", "process-info", "--pane"}, exit: 2, err: "missing value for --pane\n"},
		"option":  {args: []string{"pane", "process-info", "--x"}, exit: 2, err: "unknown option: --x\n"},
		"down": {setup: fault(Fault{Kind: Down}), args: []string{"pane", "process-info", "--pane", "w1:p1"}, exit: 1,
			err: `{"id":"cli:pane:process_info","error":{"code":"server_not_running"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			if test.setup != nil {
				update(t, s, test.setup)
			}
			cmd := herdr(s, test.args...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); cmd.ProcessState == nil {
				t.Fatal(err)
			}
			if exit := cmd.ProcessState.ExitCode(); exit != test.exit || !strings.HasPrefix(stderr.String(), test.err) || test.err == "" && stderr.Len() > 0 {
				t.Errorf("exit %d, stderr %q", exit, &stderr)
			}
			for _, part := range test.out {
				if !strings.Contains(stdout.String(), part) {
					t.Errorf("%q is not in %s", part, &stdout)
				}
			}
			if len(test.out) > 0 && stdout.String()[0] == '{' && !json.Valid(stdout.Bytes()) {
				t.Errorf("no JSON: %s", &stdout)
			}
		})
	}
}
