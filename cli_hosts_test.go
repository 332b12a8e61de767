package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// atHome is an environment with a home of its own, and a folder for temporary
// files that the binary under test is not in.
func atHome(t *testing.T, more ...string) (env environment, home string) {
	t.Helper()
	home = t.TempDir()
	vars := []string{"HOME=" + home, "USERPROFILE=" + home, "PATH="}
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} {
		vars = append(vars, name+"="+filepath.Join(home, "tmp"))
	}
	for _, name := range []string{"CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "GEMINI_CLI_HOME", "PI_CODING_AGENT_DIR", "APPDATA"} {
		vars = append(vars, name+"=")
	}
	return inPane(t, nil, "", append(vars, more...)...), home
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// From nothing to registered and back, with every host that is found.
func TestInstall(t *testing.T) {
	t.Parallel()
	env, home := atHome(t)
	claude, codex := filepath.Join(home, ".claude.json"), filepath.Join(home, ".codex", "config.toml")
	writeFile(t, claude, "{\n  \"a\": 1\n}\n")
	writeFile(t, codex, "# mine\n")
	out, errs, code := run(t, env, "", "install")
	if code != 0 || errs != "" || !regexp.MustCompile(`\Aclaude +written to \S+\.claude\.json; start a new session; it asks [^\n]+\ncodex +written to \S+config\.toml; restart it\n\z`).MatchString(out) {
		t.Errorf("install: %d, %s%s", code, out, errs)
	}
	var file struct {
		A          int
		MCPServers map[string]struct {
			Command string
			Args    []string
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, claude)), &file); err != nil || file.A != 1 || file.MCPServers["herdr_link"].Command != binaries.server {
		t.Errorf("%v, %+v", err, file)
	}
	var states []struct{ Host, State string }
	out, errs, code = run(t, env, "", "status", "--json")
	if err := json.Unmarshal([]byte(out), &states); err != nil || code != 0 || errs != "" {
		t.Fatalf("status: %d, %v, %s%s", code, err, out, errs)
	}
	for _, s := range states {
		want := "absent"
		switch s.Host {
		case "claude", "codex":
			want = "current"
		case "dsh":
			want = "unsupported"
		}
		if s.State != want {
			t.Errorf("%+v", s)
		}
	}
	if out, _, code := run(t, env, "", "status"); code != 0 || !regexp.MustCompile(`\Aclaude +current +\S+ \(toolset link\)\ncodex +current +\S+ \(toolset link\)\n\z`).MatchString(out) {
		t.Errorf("status: %d, %s", code, out)
	}
	if out, errs, code := run(t, env, "", "uninstall"); code != 0 || errs != "" || strings.Count(out, "removed from") != 2 {
		t.Errorf("uninstall: %d, %s%s", code, out, errs)
	}
	if readFile(t, claude) != "{\n  \"a\": 1\n}\n" || readFile(t, codex) != "# mine\n" {
		t.Errorf("not as it was: %s%s", readFile(t, claude), readFile(t, codex))
	}
	left, err := filepath.Glob(filepath.Join(home, "*", "*herdr*"))
	more, _ := filepath.Glob(filepath.Join(home, "*herdr*"))
	if len(left)+len(more) > 0 || err != nil {
		t.Errorf("left: %q, %q", left, more)
	}
}

// Status shows toolsets and role of each entry, also of one beside an adapter.
func TestStatusShowsToolsets(t *testing.T) {
	t.Parallel()
	env, home := atHome(t)
	for _, args := range []string{"opencode", "opencode --mcp --toolsets response --caller-role coordinator", "claude --toolsets link,control"} {
		if out, errs, code := run(t, env, "", append([]string{"install"}, strings.Fields(args)...)...); code != 0 {
			t.Fatalf("%d, %s%s", code, out, errs)
		}
	}
	out, _, code := run(t, env, "", "status")
	if code != 0 || !regexp.MustCompile(`\Aclaude +current +\S+ \(toolsets link, control\)\nopencode +current +\S+herdr-link\.js\n +and an entry in \S+opencode\.json \(toolset response; caller role coordinator\)\n\z`).MatchString(out) {
		t.Errorf("%d, %s", code, out)
	}
	type entry struct {
		File     string
		Toolsets []string
		Role     string `json:"caller_role"`
	}
	var states []struct {
		File  string
		Entry *entry
	}
	out, _, _ = run(t, env, "", "status", "--json", "claude", "opencode", "codex")
	if err := json.Unmarshal([]byte(out), &states); err != nil || len(states) != 3 {
		t.Fatalf("%v, %s", err, out)
	}
	claude, opencode := filepath.Join(home, ".claude.json"), filepath.Join(home, ".config", "opencode", "opencode.json")
	if want := (entry{claude, []string{"link", "control"}, ""}); !reflect.DeepEqual(states[0].Entry, &want) || states[0].File != claude {
		t.Errorf("%s", out)
	}
	if want := (entry{opencode, []string{"response"}, "coordinator"}); !reflect.DeepEqual(states[1].Entry, &want) || states[1].File == opencode || states[2].Entry != nil {
		t.Errorf("%s", out)
	}
}

// What was installed is what starts: the entry's command line is a server.
func TestInstalledEntryStarts(t *testing.T) {
	t.Parallel()
	env, home := atHome(t)
	if out, errs, code := run(t, env, "", "install", "--allow", "qwen", "codex", "claude"); code != 0 {
		t.Fatalf("%d, %s%s", code, out, errs)
	}
	for file, tools := range map[string]int{filepath.Join(home, ".claude.json"): 1, filepath.Join(home, ".qwen", "settings.json"): 4} {
		var entry struct {
			MCPServers map[string]struct {
				Command string
				Args    []string
			}
		}
		if err := json.Unmarshal([]byte(readFile(t, file)), &entry); err != nil {
			t.Fatal(err)
		}
		s := newScene(t)
		e := entry.MCPServers["herdr_link"]
		h := startProgram(t, inPane(t, s, "w1:p1"), e.Command, e.Args...)
		h.initialize("2025-11-25")
		if names := h.list(); len(names) != tools {
			t.Errorf("%s: %q", file, names)
		}
	}
}

// One host that fails does not keep the others from being done.
func TestInstallOneFails(t *testing.T) {
	t.Parallel()
	env, home := atHome(t)
	writeFile(t, filepath.Join(home, ".codex", "config.toml"), "a = 1\nmcp_servers = {}\n")
	out, errs, code := run(t, env, "", "install", "codex", "kimi")
	if code != 1 || !strings.Contains(out, "kimi       written to") || strings.Contains(out, "codex") {
		t.Errorf("%d, %s", code, out)
	}
	if !strings.Contains(errs, "config.toml: line 2: ") || !strings.Contains(errs, "\n[mcp_servers.herdr_link]\ncommand = ") {
		t.Errorf("%s", errs)
	}
	if got := readFile(t, filepath.Join(home, ".codex", "config.toml")); got != "a = 1\nmcp_servers = {}\n" {
		t.Errorf("changed: %s", got)
	}
}

func TestInstallCommands(t *testing.T) {
	t.Parallel()
	usage := func(words string) string { return `herdr-link: [^\n]*` + words + `[^\n]*\n` }
	for name, tc := range map[string]struct {
		args      []string
		code      int
		out, errs string
	}{
		"nothing found":      {args: []string{"install"}, out: `no host was found here[^\n]*\n`},
		"nothing to remove":  {args: []string{"uninstall"}, out: `no host was found here\n`},
		"no status":          {args: []string{"status"}, out: `no host was found here: of the 20 known ones no program is on PATH[^\n]*\n`},
		"unknown host":       {args: []string{"install", "claude", "nope"}, code: 2, errs: usage(`"nope"`)},
		"unknown, uninstall": {args: []string{"uninstall", "nope"}, code: 2, errs: usage(`"nope"`)},
		"unknown, status":    {args: []string{"status", "nope"}, code: 2, errs: usage(`"nope"`)},
		"unknown, print":     {args: []string{"install", "--print", "nope"}, code: 2, errs: usage(`"nope"`)},
		"no row":             {args: []string{"install", "dsh"}, code: 1, errs: `dsh +failed: [^\n]+\n`},
		"print and a host":   {args: []string{"install", "--print", "pi", "codex"}, code: 2, errs: usage("--print")},
		"unknown toolset":    {args: []string{"install", "--toolsets", "dance"}, code: 2, errs: usage("dance")},
		"role alone":         {args: []string{"install", "--caller-role", "coordinator"}, code: 2, errs: usage("--caller-role is for the toolset response")},
		"no role":            {args: []string{"install", "--toolsets", "link,response", "--caller-role", "boss"}, code: 2, errs: usage(`"boss"; there are: shepherd-plan, shepherd-build, coordinator`)},
		"npx and project":    {args: []string{"install", "--npx", "--project"}, code: 2, errs: usage("--npx")},
		"hint without host":  {args: []string{"hint"}, code: 2, errs: usage("hint HOST")},
		"hint, other host":   {args: []string{"hint", "pi"}, code: 2, errs: usage(`"pi"`)},
		"hint outside":       {args: []string{"hint", "claude"}},
		"dry run":            {args: []string{"install", "--dry-run", "kimi"}, out: `kimi +would change \S+mcp\.json\n--- /dev/null\n\+\+\+ \S+\n@@ -0,0 \+1,8 @@\n(\+[^\n]+\n){8}`},
		"print":              {args: []string{"install", "--print", "kimi"}, out: `\{\n  "mcpServers": \{\n    "herdr_link": \{\n      "command": "[^\n]+",\n      "args": \["--eager"\]\n    \}\n  \}\n\}\n`, errs: `for \S+mcp\.json:\n`},
		"print npx":          {args: []string{"install", "--print", "codex", "--npx"}, out: `\[mcp_servers\.herdr_link\]\ncommand = [^\n]+\nargs = \[[^\n]*"-y", "herdr-link@[^\n]+\nenv_vars = [^\n]+\n`, errs: `for \S+config\.toml:\n`},
		"print all":          {args: []string{"install", "--print", "claude", "--allow", "--hint"}, out: `\{\n(?s:.*)"--no-gateway-close"(?s:.*)\n\}\n\n\{\n  "permissions": (?s:.*)"hooks": (?s:.*)\n\}\n`, errs: `for \S+\.claude\.json:\nfor \S+settings\.json:\n`},
		"print, idle":        {args: []string{"install", "--print", "vscode", "--allow", "--hint"}, out: `\{\n(?s:.*)\n\}\n`, errs: `for \S+mcp\.json:\n--allow does nothing here: [^\n]+\n--hint does nothing here\n`},
		"print, no project":  {args: []string{"install", "--print", "hermes", "--project"}, code: 1, errs: `herdr-link: hermes: [^\n]+\n`},
		"npx":                {args: []string{"install", "--npx", "goose"}, out: `goose +written to \S+config\.yaml; start a new session\n`},
		"toolsets":           {args: []string{"install", "--toolsets", "link", "pi", "--dry-run"}, out: `pi +would change \S+mcp\.json\n(?s:.*)"--toolsets", "link"(?s:.*)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, home := atHome(t)
			out, errs, code := run(t, env, "", tc.args...)
			if code != tc.code {
				t.Errorf("exit %d, not %d", code, tc.code)
			}
			for stream, texts := range map[string][2]string{"stdout": {out, tc.out}, "stderr": {errs, tc.errs}} {
				if !regexp.MustCompile(`\A(?:` + texts[1] + `)\z`).MatchString(texts[0]) {
					t.Errorf("%s: %q, not %s", stream, texts[0], texts[1])
				}
			}
			if entries, _ := os.ReadDir(home); len(entries) > 0 && name != "npx" {
				t.Errorf("wrote %v", entries)
			}
		})
	}
}

// The command is the path that was called, with its links; from a folder that
// will be gone there is none.
func TestInstallPath(t *testing.T) {
	t.Parallel()
	env, home := atHome(t)
	link := filepath.Join(home, "bin", exe("herdr-link"))
	if err := os.Mkdir(filepath.Dir(link), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binaries.server, link); err != nil {
		t.Skip(err)
	}
	start := func(path, dir string, vars []string, args ...string) (string, error) {
		cmd := exec.Command(path, args...)
		cmd.Env, cmd.Dir = vars, dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	calls := map[string][]string{"": {link}, "bin": {"." + string(filepath.Separator) + exe("herdr-link")}}
	for dir, path := range calls {
		if out, err := start(path[0], filepath.Join(home, dir), env.vars, "install", "--print", "kimi"); err != nil || !strings.Contains(out, `"command": `+jsonString(link)) {
			t.Errorf("%s: %v, %s", path, err, out)
		}
	}
	if runtime.GOOS != "windows" { // found by PATH
		cmd := exec.Command(link, "install", "--print", "kimi")
		cmd.Args[0] = "herdr-link"
		cmd.Env = append(slices.Clone(env.vars), "PATH="+filepath.Dir(link))
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), jsonString(link)) {
			t.Errorf("%v, %s", err, out)
		}
		cmd = exec.Command(link, "install", "--print", "kimi")
		cmd.Args[0] = "/bin/sh" // a caller may say anything
		cmd.Env = env.vars
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "/bin/sh") {
			t.Errorf("%v, %s", err, out)
		}
	}
	for _, tmp := range []string{filepath.Dir(binaries.server), filepath.Join(home, "bin")} {
		vars := slices.Clone(env.vars)
		for _, name := range []string{"TMPDIR", "TMP", "TEMP"} {
			vars = append(vars, name+"="+tmp)
		}
		out, err := start(link, home, vars, "install", "kimi")
		if err == nil || !strings.Contains(out, "temporary") || !strings.Contains(out, "--npx") {
			t.Errorf("%s: %v, %s", tmp, err, out)
		}
		if _, err := os.Stat(filepath.Join(home, ".kimi-code")); err == nil {
			t.Error("and wrote it")
		}
	}
}

// An entry is known again by the program's name, so there is none for another.
func TestInstallName(t *testing.T) {
	t.Parallel()
	env, home := atHome(t)
	before := tree(t, home)
	other := filepath.Join(t.TempDir(), exe("herdr-link-linux-amd64"))
	if err := os.Symlink(binaries.server, other); err != nil {
		t.Skip(err)
	}
	for _, args := range [][]string{{"install", "claude", "--hint"}, {"install", "--dry-run", "kimi"}, {"install", "pi"}} {
		cmd := exec.Command(other, args...)
		cmd.Env = env.vars
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "its name is not herdr-link") || !strings.Contains(string(out), "Rename it") {
			t.Errorf("%v, %s", err, out)
		}
	}
	for _, args := range [][]string{{"install", "--npx", "kimi"}, {"install", "--print", "kimi"}, {"uninstall"}} { // names no program, or is not written
		cmd := exec.Command(other, args...)
		cmd.Env = env.vars
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v, %s", err, out)
		}
	}
	if after := tree(t, home); len(after) != len(before) {
		t.Errorf("there is %q", after)
	}
}

func jsonString(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// A project's file names the program alone.
func TestInstallProject(t *testing.T) {
	t.Parallel()
	env, _ := atHome(t)
	dir := t.TempDir()
	start := func(args ...string) string {
		cmd := exec.Command(binaries.server, args...)
		cmd.Env, cmd.Dir = env.vars, dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v", args, err)
		}
		return string(out)
	}
	start("install", "--project", "claude", "codex")
	if text := readFile(t, filepath.Join(dir, ".mcp.json")); !strings.Contains(text, `"command": "herdr-link"`) {
		t.Error(text)
	}
	if text := readFile(t, filepath.Join(dir, ".codex", "config.toml")); !strings.Contains(text, `command = "herdr-link"`) {
		t.Error(text)
	}
	start("uninstall", "--project")
	if _, err := os.Stat(filepath.Join(dir, ".mcp.json")); err == nil {
		t.Error("the file is still there")
	}
	start("install", "--project", "--all")
	if out := start("status", "--project", "--json"); strings.Contains(out, `"old"`) || strings.Contains(out, `"foreign"`) {
		t.Error(out)
	}
}

func TestHint(t *testing.T) {
	t.Parallel()
	hint := strings.TrimSuffix(readFile(t, filepath.Join("contract", "hint.txt")), "\n")
	for name, tc := range map[string]struct {
		host, stdin, env, want string
	}{
		"claude":      {host: "claude", want: `{"hookSpecificOutput":{"additionalContext":` + jsonString(hint) + `,"hookEventName":"SessionStart"}}` + "\n"},
		"codex":       {host: "codex", stdin: "{}", want: `{"hookSpecificOutput":{"additionalContext":` + jsonString(hint) + `,"hookEventName":"SessionStart"}}` + "\n"},
		"agy":         {host: "agy", stdin: `{"invocationNum":0}`, want: `{"injectSteps":[{"ephemeralMessage":` + jsonString(hint) + `}]}` + "\n"},
		"agy, later":  {host: "agy", stdin: `{"invocationNum":1}`},
		"outside":     {host: "claude", env: "HERDR_ENV="},
		"outside agy": {host: "agy", stdin: `{}`, env: "HERDR_ENV="},
		"off":         {host: "codex", env: "HERDR_LINK_OFF=1"},
	} {
		s := newScene(t)
		env := inPane(t, s, "w1:p1", tc.env)
		out, errs, code := run(t, env, tc.stdin, "hint", tc.host)
		if code != 0 || errs != "" || out != tc.want {
			t.Errorf("%s: %d, %q%q, want %q", name, code, out, errs, tc.want)
		}
		if n := len(commands(t, s)); n > 0 {
			t.Errorf("%s: %d commands of Herdr", name, n)
		}
	}
}

// What others wrote into a project's or a host's file does not act on the terminal.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	env, home := atHome(t)
	const evil = `\u001b]0;x\u0007\u202e`
	writeFile(t, filepath.Join(home, ".claude.json"), `{"mcpServers":{"herdr_link":{"command":"/`+evil+`/herdr-link"}}}`)
	writeFile(t, filepath.Join(home, ".codex", "config.toml"), `mcp_servers."`+evil+`".a = 1`)
	for args, want := range map[string]string{
		"status":            "its program is not there: /" + evil,
		"status codex":      "line 1: mcp_servers." + evil,
		"install codex":     "line 1: mcp_servers." + evil,
		"uninstall codex":   "line 1: mcp_servers." + evil,
		"doctor":            "mcp_servers." + evil,
		"install --dry-run": "line 1: mcp_servers." + evil,
	} {
		out, errs, _ := run(t, env, "", strings.Fields(args)...)
		if !strings.Contains(out+errs, want) || strings.ContainsAny(out+errs, "\x1b\a\u202e") {
			t.Errorf("%s: %q, %q", args, out, errs)
		}
	}
}
