package cli

import (
	"context"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"herdr-link/herdrcli"
	"herdr-link/hosts"
)

// chain makes a lineage: this process first, ids from 100 down.
func chain(commands ...string) (all []process) {
	for i, c := range commands {
		all = append(all, process{pid: 100 - i, parent: 99 - i, argv: strings.Split(c, " ")})
	}
	return all
}

func TestOwner(t *testing.T) {
	t.Parallel()
	pane := func(shell, group int, foreground ...int) (in herdrcli.Processes) {
		in.Shell, in.Group = shell, group
		for _, pid := range foreground {
			in.Foreground = append(in.Foreground, herdrcli.Process{PID: pid})
		}
		return in
	}
	for name, tc := range map[string]struct {
		lineage []process
		in      herdrcli.Processes
		kind    string
		state   string
		words   string
	}{
		"its own": {chain("herdr-link doctor", "bash -c x", "claude", "bash", "herdr server"), pane(97, 98, 98), "claude", hosts.OK, "belongs to claude"},
		"a launcher": {chain("herdr-link doctor", "/opt/codex/bin/codex exec", "node /usr/bin/codex exec", "bash", "herdr server"), pane(97, 98, 98, 99),
			"codex", hosts.OK, "belongs to codex"},
		"a node with options": {chain("herdr-link doctor", "sh -c x", "node --no-warnings=x /usr/bin/gemini", "node /usr/bin/gemini", "bash"), pane(96, 97, 97),
			"gemini", hosts.OK, "belongs to gemini"},
		"another inside": {chain("herdr-link doctor", "sh -c x", "/opt/codex exec", "bash -c y", "claude", "bash"), pane(95, 96, 96), "claude", hosts.Warn, "codex runs inside claude"},
		"itself inside":  {chain("herdr-link doctor", "claude -p", "bash -c y", "claude", "bash"), pane(96, 97, 97), "claude", hosts.Warn, "claude runs inside claude"},
		"straight inside": {chain("herdr-link doctor", "codex exec", "claude", "bash"), pane(97, 98, 98), "claude", hosts.Warn,
			"codex runs inside claude"},
		"behind a wrapper": {chain("herdr-link doctor", "claude", "bash -c x", "mine", "bash"), pane(96, 97, 97), "claude", hosts.OK, "belongs to claude"},
		"in an agent of another name": {chain("herdr-link doctor", "codex", "bash -c x", "mine", "bash"), pane(96, 97, 97), "claude", hosts.Warn,
			"codex runs inside claude"},
		"outside the pane":   {chain("herdr-link doctor", "claude", "bash", "tmux"), pane(7, 8, 8), "claude", hosts.Warn, "does not descend"},
		"beside the agent":   {chain("herdr-link doctor", "bash"), pane(99, 50, 50), "claude", hosts.Warn, "owns the pane: claude"},
		"the agent's group":  {chain("herdr-link doctor", "claude", "bash"), pane(98, 50, 50, 99), "claude", hosts.OK, "belongs"},
		"a shell":            {chain("herdr-link doctor", "bash"), pane(99, 100, 100), "", hosts.OK, "own shell"},
		"a shell, elsewhere": {chain("herdr-link doctor", "bash"), pane(7, 7, 7), "", hosts.Warn, "does not descend"},
		"nothing known":      {chain("herdr-link doctor", "bash"), pane(0, 0), "claude", hosts.OK, "not known"},
		"another system":     {nil, pane(7, 8, 8), "claude", hosts.OK, "not known on this system"},
		"a file of that name": {chain("herdr-link doctor", "sh -c x", "make code", "claude", "bash"), pane(96, 97, 97), "claude",
			hosts.OK, "belongs to claude"},
		"above the pane does not count": {chain("herdr-link doctor", "claude", "bash", "herdr server", "bash", "code"), pane(98, 99, 99), "claude", hosts.OK, "belongs"},
	} {
		state, detail, fix := owner(tc.lineage, tc.in, tc.kind)
		if state != tc.state || !strings.Contains(detail, tc.words) || (fix != "") != (state != hosts.OK) {
			t.Errorf("%s: %s, %q, %q", name, state, detail, fix)
		}
	}
}

func TestServes(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"/usr/bin/herdr-link": true, "herdr-link --eager": true, `C:\x\herdr-link.exe --toolsets link`: true,
		"node /usr/lib/node_modules/.bin/herdr-link": true, "node /x/herdr-link --eager": true,
		"herdr-link doctor": false, "herdr-link call herdr_link": false, "herdr-link --version": false, "vim herdr-link": false, "node /x/other": false, "node": false, "": false,
		"node /x/herdr-link peers": false,
	} {
		if got := (process{argv: strings.Split(line, " ")}).serves(); got != want {
			t.Errorf("%q: %t", line, got)
		}
	}
	if (process{}).serves() || (process{}).host() != "" {
		t.Error("a process without a command line")
	}
}

// A launcher is not a second server.
func TestAlone(t *testing.T) {
	t.Parallel()
	if got := alone([]process{{pid: 5}, {pid: 6, parent: 5}, {pid: 7}}); len(got) != 2 || got[0].pid != 6 || got[1].pid != 7 {
		t.Errorf("%v", got)
	}
}

// What ps of a Mac prints, after its manual: the environment behind the words.
func TestListed(t *testing.T) {
	t.Parallel()
	all := listed("    1     0 /sbin/launchd\n  501   400 -zsh\nno line\n 1200   501 /opt/bin/herdr-link --eager HERDR_PANE_ID=w1:p1 HOME=/Users/a b HERDR_ENV=1\n")
	want := []process{
		{1, 0, []string{"/sbin/launchd"}, ""},
		{501, 400, []string{"-zsh"}, ""},
		{1200, 501, []string{"/opt/bin/herdr-link", "--eager"}, " HERDR_PANE_ID=w1:p1 HOME=/Users/a b HERDR_ENV=1 "},
	}
	if !reflect.DeepEqual(all, want) {
		t.Fatalf("%+v", all)
	}
	p := all[2]
	if !p.has(map[string]string{"HERDR_PANE_ID": "w1:p1", "HERDR_SESSION": ""}) || p.has(map[string]string{"HERDR_PANE_ID": "w1:p"}) || p.has(map[string]string{"HERDR_ENV": ""}) {
		t.Errorf("its environment is not understood: %q", p.env)
	}
	if got := ancestors(1200, all); len(got) != 2 || got[1].pid != 501 {
		t.Errorf("%+v", got)
	}
	if got := ancestors(5, []process{{pid: 5, parent: 6}, {pid: 6, parent: 5}}); len(got) != maxLineage {
		t.Errorf("a circle has %d members", len(got))
	}
}

func TestLineage(t *testing.T) {
	t.Parallel()
	all := lineage(context.Background())
	if runtime.GOOS == "windows" {
		if len(all) > 0 {
			t.Errorf("%v", all)
		}
		return
	}
	if len(all) < 2 || all[0].pid != os.Getpid() || all[1].pid != os.Getppid() || all[0].argv[0] != os.Args[0] {
		t.Errorf("%+v", all)
	}
}

func TestHarmless(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a ü 程序 😀": "a ü 程序 😀", "\x1b]0;x\a\r\n": `\u001b]0;x\u0007\u000d\u000a`, "\u009b31m": `\u009b31m`, "a\u202eb\u200b": `a\u202eb\u200b`, "\xff": "\ufffd",
	} {
		if got := harmless(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := harmless(strings.Repeat("ü", 1000)); len([]rune(got)) != maxDetail+1 {
		t.Errorf("%d characters", len([]rune(got)))
	}
}
