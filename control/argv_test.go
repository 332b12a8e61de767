package control

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"herdr-link/mcp"
)

// argvs are the acting commands of each tool, with as few arguments as there
// may be and with as many. A tilde stands for a folder that is there.
var argvs = []struct {
	tool, args string
	argv       []string
}{
	{"herdr_workspace_list", `{}`, words("workspace list")},
	{"herdr_workspace_get", `{"workspaceId":"w1"}`, words("workspace get w1")},
	{"herdr_tab_list", `{}`, words("tab list")},
	{"herdr_tab_list", `{"workspaceId":"w1"}`, words("tab list --workspace w1")},
	{"herdr_tab_get", `{"tabId":"w1:t1"}`, words("tab get w1:t1")},
	{"herdr_pane_list", `{}`, words("pane list")},
	{"herdr_pane_list", `{"workspaceId":"w1"}`, words("pane list --workspace w1")},
	{"herdr_pane_get", `{"paneId":"w1:p2"}`, words("pane get w1:p2")},
	{"herdr_pane_current", `{}`, words("pane current --pane w1:p1")},
	{"herdr_pane_layout", `{"paneId":"w1:p2"}`, words("pane layout --pane w1:p2")},
	{"herdr_pane_process_info", `{"paneId":"w1:p2"}`, words("pane process-info --pane w1:p2")},
	{"herdr_pane_read", `{"paneId":"w1:p2"}`, words("pane read w1:p2 --source recent --format text")},
	{"herdr_pane_read", `{"paneId":"w1:p2","source":"visible","lines":80,"format":"ansi"}`, words("pane read w1:p2 --source visible --lines 80 --format ansi")},
	{"herdr_pane_wait_output", `{"paneId":"w1:p2","match":"all done"}`, append(words("pane wait-output w1:p2 --match"), "all done", "--source", "recent", "--timeout", "45000")},
	{"herdr_pane_wait_output", `{"paneId":"w1:p2","regex":"^ok$","source":"recent-unwrapped","lines":5,"timeoutMs":1000}`,
		words("pane wait-output w1:p2 --regex ^ok$ --source recent-unwrapped --lines 5 --timeout 1000")},
	{"herdr_agent_list", `{}`, words("agent list")},
	{"herdr_agent_get", `{"target":"lead"}`, words("agent get lead")},
	{"herdr_agent_read", `{"target":"lead"}`, words("agent read lead --source recent --format text")},
	{"herdr_agent_read", `{"target":"w1:p2","source":"detection","lines":1000,"format":"text"}`, words("agent read w1:p2 --source detection --lines 1000 --format text")},
	{"herdr_agent_wait", `{"target":"lead"}`, words("agent wait lead --timeout 45000")},
	{"herdr_agent_wait", `{"target":"lead","until":["idle"]}`, words("agent wait lead --until idle --until done --timeout 45000")},
	{"herdr_agent_wait", `{"target":"lead","until":["blocked","done","working"],"timeoutMs":600000}`,
		words("agent wait lead --until idle --until working --until blocked --until done --timeout 600000")},
	{"herdr_agent_explain", `{"target":"lead"}`, words("agent explain lead --json")},
	{"herdr_workspace_create", `{"cwd":"~"}`, words("workspace create --cwd ~ --no-focus")},
	{"herdr_workspace_create", `{"cwd":"~","label":"my work"}`, append(words("workspace create --cwd ~ --label"), "my work", "--no-focus")},
	{"herdr_tab_create", `{"workspaceId":"w1"}`, words("tab create --workspace w1 --no-focus")},
	{"herdr_tab_create", `{"workspaceId":"w1","cwd":"~","label":"x"}`, words("tab create --workspace w1 --cwd ~ --label x --no-focus")},
	{"herdr_pane_split", `{"paneId":"w1:p2","direction":"down"}`, words("pane split w1:p2 --direction down --no-focus")},
	{"herdr_pane_split", `{"paneId":"w1:p2","direction":"right","ratio":0.3,"cwd":"~"}`, words("pane split w1:p2 --direction right --ratio 0.3 --cwd ~ --no-focus")},
	{"herdr_pane_run", `{"paneId":"w1:p2","command":"echo \"a; b\" && c"}`, append(words("pane run w1:p2"), `echo "a; b" && c`)},
	{"herdr_pane_send_text", `{"paneId":"w1:p2","text":" -n 'x' "}`, append(words("pane send-text w1:p2"), " -n 'x' ")},
	{"herdr_agent_start", `{"name":"a","kind":"pi","paneId":"w1:p2"}`, words("agent start a --kind pi --pane w1:p2 --timeout 30000")},
	{"herdr_agent_start", `{"name":"a","kind":"pi","paneId":"w1:p2","timeoutMs":5000,"args":["--agent","sheep-plan"]}`,
		words("agent start a --kind pi --pane w1:p2 --timeout 5000 -- --agent sheep-plan")},
	{"herdr_agent_start", `{"name":"a","kind":"pi","paneId":"w1:p2","args":[]}`, words("agent start a --kind pi --pane w1:p2 --timeout 30000")},
	{"herdr_agent_prompt", `{"target":"lead","text":"--wait"}`, words("agent prompt lead --wait")},
	{"herdr_agent_prompt", `{"target":"lead","text":"one\ntwo","wait":false}`, append(words("agent prompt lead"), "one\ntwo")},
	{"herdr_agent_prompt", `{"target":"lead","text":"go","wait":true}`, words("agent prompt lead go --wait --timeout 45000")},
	{"herdr_agent_prompt", `{"target":"lead","text":"go","wait":true,"until":["done"],"timeoutMs":1000}`,
		words("agent prompt lead go --wait --until idle --until done --timeout 1000")},
}

func words(text string) []string { return strings.Fields(text) }

// argvOf is what the tool would run, or why it would not.
func argvOf(c *Control, name, args string) ([]string, *result) {
	rows := table()
	i := slices.IndexFunc(rows, func(t tool) bool { return t.name == name })
	schema := rows[i].schema()
	read, _ := mcp.ReadArgs(json.RawMessage(args))
	k, r := c.check(&rows[i], &schema, read)
	if r != nil {
		return nil, r
	}
	return k.argv, nil
}

func inPane(name string) string {
	if name == "HERDR_PANE_ID" {
		return "w1:p1"
	}
	return ""
}

func TestArgv(t *testing.T) {
	dir := t.TempDir()
	c := New(Options{Getenv: inPane})
	seen := map[string]bool{}
	for _, test := range argvs {
		seen[test.tool] = true
		home, _ := json.Marshal(dir)
		args := strings.ReplaceAll(test.args, `"~"`, string(home))
		want := slices.Clone(test.argv)
		for i, w := range want {
			if w == "~" {
				want[i] = dir
			}
		}
		for range 2 { // the first call leaves nothing that changes the second
			if got, r := argvOf(c, test.tool, args); r != nil || !slices.Equal(got, want) {
				t.Errorf("%s %s: %q, %+v\nwant %q", test.tool, args, got, r, want)
			}
		}
	}
	for _, row := range table() {
		if !seen[row.name] && row.name != "herdr_doctor" {
			t.Errorf("%s has no argv here", row.name)
		}
	}
}

// What stands behind the bare dashes goes to the agent: Herdr's own words mean
// nothing there, if the operator lets them through.
func TestArgvAnyAgentArgs(t *testing.T) {
	c := New(Options{Getenv: inPane, AnyAgentArgs: true})
	const args = `{"name":"a","kind":"pi","paneId":"w1:p2","args":["--session","x","--"]}`
	want := words("agent start a --kind pi --pane w1:p2 --timeout 30000 -- --session x --")
	if got, r := argvOf(c, "herdr_agent_start", args); r != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %+v", got, r)
	}
}

// onlyTried are options that no capture has, but that a real Herdr 0.8.0 took.
var onlyTried = []string{"pane read --lines", "pane read --format", "agent read --format", "pane wait-output --regex", "pane wait-output --source",
	"pane wait-output --lines", "tab create --cwd", "workspace create --cwd", "pane split --ratio", "pane current --pane"}

// standing is a command with the number of words that stand behind it alone.
func standing(argv []string) string {
	n := slices.IndexFunc(argv, func(arg string) bool { return strings.HasPrefix(arg, "--") })
	if n < 0 {
		n = len(argv)
	}
	return fmt.Sprintf("%s +%d", strings.Join(argv[:2], " "), n-2)
}

// Each command is one that a real Herdr took, with its words and options in the
// same places.
func TestArgvCaptures(t *testing.T) {
	files, err := filepath.Glob("../testdata/herdr/*.json")
	if err != nil || len(files) < 100 {
		t.Fatal(len(files), err)
	}
	// What was taken: commands, commands with an option, and commands with the
	// number of words in front of the first option.
	taken := map[string]bool{}
	for _, file := range files {
		var capture struct {
			Argv []string
			Exit int
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if json.Unmarshal(text, &capture) != nil || capture.Exit != 0 || len(capture.Argv) < 3 {
			continue
		}
		command := strings.Join(capture.Argv[1:3], " ")
		taken[command] = true
		taken[standing(capture.Argv[1:])] = true
		for _, arg := range capture.Argv[3:] {
			taken[command+" "+arg] = true
		}
	}
	c := New(Options{Getenv: inPane})
	for _, test := range argvs {
		argv, _ := argvOf(c, test.tool, strings.ReplaceAll(test.args, `"~"`, fmt.Sprintf("%q", "/")))
		command := strings.Join(argv[:2], " ")
		if !taken[command] || !taken[standing(argv)] && !slices.Contains(onlyTried, standing(argv)) {
			t.Errorf("no capture of herdr %s like %q", command, argv)
		}
		for _, arg := range argv[2:] {
			if arg == "--" {
				break
			}
			if option := command + " " + arg; strings.HasPrefix(arg, "--") && test.args != `{"target":"lead","text":"--wait"}` &&
				!taken[option] && !slices.Contains(onlyTried, option) {
				t.Errorf("no capture of herdr %s", option)
			}
		}
	}
}

// How long the acting command may take, and the whole call.
func TestHard(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		ceiling    time.Duration
		tool, args string
		hard, call time.Duration
		waits      bool
	}{
		{0, "herdr_pane_list", `{}`, 7 * time.Second, 0, false},
		{0, "herdr_pane_run", `{"paneId":"w1:p2","command":"ls"}`, 7 * time.Second, 0, false},
		{0, "herdr_agent_prompt", `{"target":"lead","text":"go"}`, 7 * time.Second, 0, false},
		{0, "herdr_agent_prompt", `{"target":"lead","text":"go","wait":true}`, 50000 * ms, 95000 * ms, true},
		{0, "herdr_agent_wait", `{"target":"lead","timeoutMs":600000}`, 605000 * ms, 650000 * ms, true},
		{0, "herdr_pane_wait_output", `{"paneId":"w1:p2","match":"x","timeoutMs":1000}`, 6000 * ms, 51000 * ms, true},
		{0, "herdr_agent_start", `{"name":"a","kind":"pi","paneId":"w1:p2"}`, 40000 * ms, 85000 * ms, false},
		{5 * time.Second, "herdr_pane_list", `{}`, 5 * time.Second, 0, false},
		{20 * time.Second, "herdr_agent_wait", `{"target":"lead"}`, 20 * time.Second, 65 * time.Second, true},
		{2 * time.Second, "herdr_agent_wait", `{"target":"lead"}`, 2 * time.Second, 47 * time.Second, true},
		{15 * time.Second, "herdr_agent_start", `{"name":"a","kind":"pi","paneId":"w1:p2","timeoutMs":5000}`, 15 * time.Second, 60 * time.Second, false},
	} {
		c := New(Options{Getenv: inPane, Timeout: 7 * time.Second, Ceiling: test.ceiling})
		rows := table()
		i := slices.IndexFunc(rows, func(row tool) bool { return row.name == test.tool })
		schema := rows[i].schema()
		args, _ := mcp.ReadArgs(json.RawMessage(test.args))
		k, r := c.check(&rows[i], &schema, args)
		if r != nil || k.hard != test.hard {
			t.Errorf("%s %s under %v: %+v, %v", test.tool, test.args, test.ceiling, r, k.hard)
		}
		if call := c.begin(&rows[i], &schema, args); call.Time != test.call || call.Waits != test.waits {
			t.Errorf("%s %s under %v: the call may take %v, it waits: %t", test.tool, test.args, test.ceiling, call.Time, call.Waits)
		}
	}
}
