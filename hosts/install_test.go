package hosts

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// machine is a home and a project folder of their own, with these files: names
// begin with ~/ or stand in the project.
func machine(t *testing.T, files map[string]string) Machine {
	t.Helper()
	root := t.TempDir()
	m := Machine{Getenv: func(string) string { return "" }, Home: filepath.Join(root, "home"), Dir: filepath.Join(root, "project"), OS: runtime.GOOS}
	for _, dir := range []string{m.Home, m.Dir} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		put(t, m.path(name), text)
	}
	return m
}

func (m Machine) path(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		return filepath.Join(m.Home, filepath.FromSlash(rest))
	}
	return filepath.Join(m.Dir, filepath.FromSlash(name))
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// tree returns all files with their text and mode.
func (m Machine) tree(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for prefix, root := range map[string]string{"~/": m.Home, "": m.Dir} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := os.Lstat(path)
			if err != nil {
				return err
			}
			text, _ := os.ReadFile(path)
			rel, _ := filepath.Rel(root, path)
			all[prefix+filepath.ToSlash(rel)] = info.Mode().String() + "\n" + string(text)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// treeName is a path as tree has it.
func (m Machine) treeName(path string) string {
	if rel, err := filepath.Rel(m.Home, path); err == nil && filepath.IsLocal(rel) {
		return "~/" + filepath.ToSlash(rel)
	}
	rel, _ := filepath.Rel(m.Dir, path)
	return filepath.ToSlash(rel)
}

func must(t *testing.T, name string) Host {
	t.Helper()
	h, ok := Find(name)
	if !ok {
		t.Fatalf("no host %s", name)
	}
	return h
}

const program = "/opt/herdr-link"

var full = Options{Program: program, Version: "1.2.3", MCP: true, Allow: true, Hint: true}

// What each host's own command writes was recorded from the real hosts; ours
// means the same, and what that command cannot do.
func TestEntries(t *testing.T) {
	t.Parallel()
	herdr := []any{"HERDR_ENV", "HERDR_BIN_PATH", "HERDR_PANE_ID", "HERDR_SOCKET_PATH", "HERDR_SESSION", "HERDR_LINK_OFF", "HERDR_LINK_EAGER", "HERDR_LINK_ERA", "HERDR_LINK_TOOLSETS", "HERDR_LINK_TIMEOUT", "HERDR_LINK_LOG", "HERDR_LINK_CLI_TIMEOUT_MS", "DSH_HERDR_CLI_TIMEOUT_MS", "HERDR_LINK_PREVIEW_REQUIRED", "DSH_HERDR_PREVIEW_REQUIRED", "HERDR_LINK_AGENT_ARGS", "HERDR_MESH_STATE_DIR", "HERDR_LINK_MESH_UNPROVEN_CALLER", "HERDR_LINK_VERIFY_NODE",
		"HERDR_LINK_CALLER_ROLE", "SHEPHERD_MODE", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME"}
	for name, want := range map[string]map[string]any{
		"claude":   {"type": "stdio", "command": program, "args": []any{}, "env": map[string]any{}},
		"codex":    {"command": program, "args": []any{"--eager"}, "env_vars": herdr},
		"opencode": {"type": "local", "command": []any{program}, "enabled": true},
		"pi":       {"command": program, "args": []any{}, "exposure": "direct"},
		"gemini":   {"command": program, "args": []any{}},
		"qwen":     {"command": program, "args": []any{"--eager"}},
		"kimi":     {"command": program, "args": []any{"--eager"}},
		"vscode":   {"type": "stdio", "command": program, "args": []any{}},
		"amp":      {"command": program, "args": []any{}},
		"copilot":  {"type": "local", "command": program, "args": []any{}, "tools": []any{"*"}},
		"droid":    {"type": "stdio", "command": program, "args": []any{}, "disabled": false},
		"kilo":     {"type": "local", "command": []any{program}, "enabled": true},
		"cline":    {"transport": map[string]any{"type": "stdio", "command": program, "args": []any{"--eager"}}},
		"qodercli": {"command": program, "args": []any{}},
		"mastracode": {"command": program, "args": []any{"--eager"}, "env": map[string]any{"HERDR_ENV": "${HERDR_ENV}", "HERDR_BIN_PATH": "${HERDR_BIN_PATH}", "HERDR_PANE_ID": "${HERDR_PANE_ID}",
			"HERDR_SOCKET_PATH": "${HERDR_SOCKET_PATH}", "HERDR_SESSION": "${HERDR_SESSION}"}},
		"goose": {"type": "stdio", "name": "herdr_link", "enabled": true, "cmd": program, "args": []any{}, "env_keys": []any{}, "timeout": 300.0},
		"cursor": {"command": program, "args": []any{}, "env": map[string]any{"HERDR_ENV": "${env:HERDR_ENV}", "HERDR_BIN_PATH": "${env:HERDR_BIN_PATH}", "HERDR_PANE_ID": "${env:HERDR_PANE_ID}",
			"HERDR_SOCKET_PATH": "${env:HERDR_SOCKET_PATH}", "HERDR_SESSION": "${env:HERDR_SESSION}"}},
	} {
		h := must(t, name)
		parts, err := machine(t, nil).Print(h, Options{Program: program, MCP: true})
		if err != nil || len(parts) != 1 {
			t.Fatalf("%q, %v", parts, err)
		}
		if got, found, err := editorOf(h.format).get([]byte(parts[0].Text), h.entryPath()); err != nil || !found || !reflect.DeepEqual(got, any(want)) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		o    Options
		os   string
		want []string
	}{
		"plain":    {Options{Program: "/x/herdr-link"}, "linux", []string{"/x/herdr-link", "--eager"}},
		"project":  {Options{Program: "/x/herdr-link", Project: true}, "linux", []string{"herdr-link", "--eager"}},
		"npx":      {Options{NPX: true, Version: "1.0.0"}, "darwin", []string{"npx", "-y", "herdr-link@1.0.0", "--eager"}},
		"npx.cmd":  {Options{NPX: true, Version: "1.0.0"}, "windows", []string{"cmd", "/c", "npx", "-y", "herdr-link@1.0.0", "--eager"}},
		"toolsets": {Options{Program: "/x/herdr-link", Toolsets: "link,response", CallerRole: "shepherd"}, "linux", []string{"/x/herdr-link", "--eager", "--toolsets", "link,response", "--caller-role", "shepherd"}},
	} {
		e := plain(must(t, "codex").entry(tc.o, tc.os, permit{})).(map[string]any)
		if got := commandOf(e); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q", name, got)
		}
		if !ours(e) {
			t.Errorf("%s is not ours", name)
		}
	}
	for command, want := range map[string]bool{
		"/x/herdr-link": true, `C:\x\herdr-link.exe`: true, `C:\x\Herdr-Link.EXE`: true, "herdr-link": true, "/x/herdr": false, "node": false, "/herdr-link/other": false, "": false, "npx": false, "cmd": false,
	} {
		if got := ours(map[string]any{"command": command, "args": []any{"x"}}); got != want {
			t.Errorf("%q is ours: %t", command, got)
		}
	}
	if !ours(map[string]any{"command": "npx", "args": []any{"-y", "herdr-link"}}) || ours(map[string]any{"url": "http://x"}) || ours("herdr-link") {
		t.Error("npx with herdr-link alone is ours")
	}
}

func roundTrip(t *testing.T, m Machine, h Host, o Options) {
	t.Helper()
	before := m.tree(t)
	dry := o
	dry.DryRun = true
	if r := m.Install(h, dry); r.Err != nil || !strings.Contains(r.Diff, "+++ ") {
		t.Fatalf("%s %+v: %+v", h.Name, before, r)
	}
	if after := m.tree(t); !maps.Equal(before, after) {
		t.Errorf("%s: a dry run changed %v", h.Name, after)
	}
	if r := m.Install(h, o); r.Err != nil {
		t.Fatalf("%s %+v: %+v", h.Name, before, r)
	}
	installed := m.tree(t)
	if s := m.Status(h, o); s.State != "current" && !strings.Contains(strings.Join(s.Remarks, ""), "program is not there") {
		t.Errorf("%s: %+v", h.Name, s)
	}
	if r := m.Install(h, o); r.Err != nil || !strings.HasPrefix(r.Done, "is there already") {
		t.Errorf("%s again: %+v", h.Name, r)
	}
	sticky := o
	sticky.Allow, sticky.Hint = false, false
	if r := m.Install(h, sticky); r.Err != nil || !maps.Equal(installed, m.tree(t)) {
		t.Errorf("%s: what was granted once is not kept: %+v", h.Name, r)
	}
	other := sticky
	other.Program = "/usr/bin/herdr-link"
	if r := m.Install(h, other); r.Err != nil || !o.Project && maps.Equal(installed, m.tree(t)) {
		t.Errorf("%s with another program: %+v", h.Name, r)
	}
	for name, text := range m.tree(t) {
		if strings.Contains(text, program) {
			t.Errorf("%s still has the old program in %s: %s", h.Name, name, text)
		}
	}
	if r := m.Uninstall(h, o); r.Err != nil {
		t.Errorf("%s: %+v", h.Name, r)
	}
	if after := m.tree(t); !maps.Equal(before, after) {
		t.Errorf("%s %+v: before %q, installed %q, after %q", h.Name, o, before, installed, after)
	}
	if r := m.Uninstall(h, o); r.Err != nil || r.Done != "is not there" {
		t.Errorf("%s: uninstalled twice: %+v", h.Name, r)
	}
}

// folders returns all folders and links.
func (m Machine) folders(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Dir(m.Home), func(path string, d fs.DirEntry, err error) error {
		if err == nil && (d.IsDir() || d.Type() == fs.ModeSymlink) {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Uninstall leaves no folder behind that install made: hosts that were not here
// would count as found. Those stay that the user or a variable named, and links.
func TestFolders(t *testing.T) {
	t.Parallel()
	for _, h := range Table() {
		for _, o := range []Options{full, {Program: program, Version: "1", Allow: true}, {Version: "1", Project: true}} {
			if h.Why != "" || o.Project && !h.HasProject() {
				continue
			}
			m := machine(t, map[string]string{"~/Library/Application Support/x": ""})
			if err := os.Mkdir(m.path("~/.config"), 0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := m.place(h.file, h.project, o); err != nil {
				continue
			}
			before := m.folders(t)
			for range 2 { // first without an install
				if r := m.Uninstall(h, o); r.Err != nil {
					t.Fatal(r.Err)
				}
				if after := m.folders(t); !slices.Equal(before, after) {
					t.Errorf("%s: there are %q, before there were %q (%+v)", h.Name, after, before, o)
				}
				if !o.Project && m.Found(h) {
					t.Errorf("%s is found", h.Name)
				}
				if r := m.Install(h, o); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
		}
	}

	m := machine(t, nil)
	set := map[string]string{"CODEX_HOME": m.path("~/own/codex"), "PI_CODING_AGENT_DIR": m.path("pi"), "AMP_SETTINGS_FILE": filepath.Join(m.Home, "../other/amp.json")}
	m.Getenv = func(name string) string { return set[name] }
	for _, dir := range []string{set["CODEX_HOME"], set["PI_CODING_AGENT_DIR"], filepath.Dir(set["AMP_SETTINGS_FILE"]), m.path("~/.config/opencode"), m.path("~/plugins")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(m.path("~/plugins"), m.path("~/.config/opencode/plugins")); err != nil {
		t.Skip(err)
	}
	if err := errors.Join(os.Mkdir(m.path("~/.gemini"), 0o700), os.Mkdir(m.path("~/dotfiles"), 0o700), os.Symlink("../dotfiles/gemini.json", m.path("~/.gemini/settings.json"))); err != nil {
		t.Fatal(err)
	}
	before := m.folders(t)
	for _, name := range []string{"amp", "codex", "opencode", "pi", "gemini"} {
		if r := m.Install(must(t, name), Options{Program: program, Version: "1"}); r.Err != nil {
			t.Fatal(r.Err)
		}
		if r := m.Uninstall(must(t, name), Options{}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if after := m.folders(t); !slices.Equal(before, after) {
		t.Errorf("there are %q, before there were %q", after, before)
	}
}

// --allow never lets the gateway close panes.
func TestAllow(t *testing.T) {
	t.Parallel()
	for _, h := range Table() {
		if h.grant == nil {
			continue
		}
		m := machine(t, nil)
		o := Options{Program: program, Allow: true}
		if r := m.Install(h, o); r.Err != nil {
			t.Fatal(r.Err)
		}
		var all strings.Builder
		for name, text := range m.tree(t) {
			all.WriteString(name + text)
		}
		if s := all.String(); !strings.Contains(s, "--no-gateway-close") || strings.Contains(s, "herdr_link_close") || !strings.Contains(s, "herdr_link_send") || strings.Contains(s, "*") {
			t.Errorf("%s: %s", h.Name, s)
		}
		if r := m.Install(h, Options{Program: program}); r.Err != nil || !strings.HasPrefix(r.Done, "is there already") {
			t.Errorf("%s: %+v", h.Name, r)
		}
	}
	m := machine(t, nil)
	if r := m.Install(must(t, "claude"), Options{Program: program}); r.Err != nil || !strings.Contains(r.Done, "unless --allow") {
		t.Errorf("%+v", r)
	}
	if r := m.Install(must(t, "codex"), Options{Program: program}); r.Err != nil || strings.Contains(r.Done, "--allow") {
		t.Errorf("it asks for close alone: %+v", r)
	}
	if r := m.Install(must(t, "kimi"), Options{Program: program, Allow: true}); r.Err != nil || !strings.Contains(r.Done, "; --allow does nothing here: answer its question") {
		t.Errorf("%+v", r)
	}
	if text := m.tree(t)["~/.kimi-code/mcp.json"]; strings.Contains(text, "--no-gateway-close") {
		t.Errorf("nothing was allowed: %s", text)
	}
}

// A hook is told of where there is one.
func TestHintReview(t *testing.T) {
	t.Parallel()
	for _, project := range []bool{false, true} {
		o := Options{Program: program, Hint: true, Project: project}
		r := machine(t, nil).Install(must(t, "codex"), o)
		if r.Err != nil || strings.Contains(r.Done, "review the hook with /hooks") == project || strings.Contains(r.Done, "--hint is for the user's own files only") != project {
			t.Errorf("%+v", r)
		}
	}
}

// What the user allowed counts in a project, too: there the gateway closes
// nothing either, although the project's files get no permission.
func TestAllowedElsewhere(t *testing.T) {
	t.Parallel()
	for _, h := range Table() {
		if h.grant == nil || !h.HasProject() {
			continue
		}
		m := machine(t, nil)
		if r := m.Install(h, Options{Program: program, Allow: true}); r.Err != nil {
			t.Fatal(r.Err)
		}
		if r := m.Install(h, Options{Program: program, Project: true}); r.Err != nil {
			t.Fatal(r.Err)
		}
		file, err := m.place(h.file, h.project, Options{Project: true})
		if err != nil {
			t.Fatal(err)
		}
		files := m.tree(t)
		if s := files[m.treeName(file)]; !strings.Contains(s, "--no-gateway-close") || strings.Contains(s, "herdr_link_send") {
			t.Errorf("%s: %s", h.Name, s)
		}
		for name, text := range files {
			if !strings.HasPrefix(name, "~/") && name != m.treeName(file) {
				t.Errorf("%s: %s: %s", h.Name, name, text)
			}
		}
		if r := m.Install(h, Options{Program: program, Project: true, Toolsets: "link,control"}); r.Err != nil || strings.Contains(r.Done, "asks before each call") != (h.grant.field != "") {
			t.Errorf("%s: %+v", h.Name, r)
		}
		if f := m.Examine(h, Options{Program: program}); strings.Contains(f.Detail, "asks before each call") != (h.grant.field != "") {
			t.Errorf("%s: %+v", h.Name, f)
		}
		own := h.grant.path != nil || h.grant.text != ""
		r := m.Install(h, Options{Program: program, Project: true, Allow: true})
		if r.Err != nil || (own && h.grant.project == nil) != strings.Contains(r.Done, "--allow is for the user's own files only") {
			t.Errorf("%s: %+v", h.Name, r)
		}
	}
}

// A part for each file, each as if the file had nothing else.
func TestPrint(t *testing.T) {
	t.Parallel()
	entry := func(path, args string) string {
		return "{\n  \"" + path + "\": {\n    \"herdr_link\": {\n      \"command\": \"/opt/herdr-link\",\n      \"args\": [" + args + "]\n    }\n  }"
	}
	const closed = `"--no-gateway-close"`
	allow := func(before, after string) string {
		return "\"permissions\": {\n    \"allow\": [\"" + before + "herdr_link" + after + "\", \"" + before + "herdr_link_peers" + after + "\", \"" + before + "herdr_link_send" + after + "\"]\n  }"
	}
	for name, tc := range map[string]struct {
		host string
		o    Options
		want []Part
		idle string
	}{
		"alone":      {"qwen", Options{}, []Part{{"~/.qwen/settings.json", entry("mcpServers", `"--eager"`) + "\n}\n"}}, ""},
		"one file":   {"qwen", Options{Allow: true}, []Part{{"~/.qwen/settings.json", entry("mcpServers", `"--eager", `+closed) + ",\n  " + allow("mcp__herdr_link__", "") + "\n}\n"}}, ""},
		"its own":    {"gemini", Options{Allow: true}, []Part{{"~/.gemini/settings.json", entry("mcpServers", closed) + "\n}\n"}, {"~/.gemini/policies/herdr-link.toml", must(t, "gemini").grant.text}}, ""},
		"in project": {"gemini", Options{Allow: true, Project: true}, []Part{{".gemini/settings.json", strings.Replace(entry("mcpServers", "")+"\n}\n", "/opt/", "", 1)}}, "--allow is for the user's own files only"},
		"nothing":    {"kimi", Options{Allow: true, Hint: true}, []Part{{"~/.kimi-code/mcp.json", entry("mcpServers", `"--eager"`) + "\n}\n"}}, "--allow does nothing here: answer its question with \"always\""},
		"three": {"agy", Options{Allow: true, Hint: true}, []Part{
			{"~/.gemini/config/mcp_config.json", entry("mcpServers", closed) + "\n}\n"},
			{"~/.gemini/antigravity-cli/settings.json", "{\n  " + allow("mcp(herdr_link/", ")") + "\n}\n"},
			{"~/.gemini/config/hooks.json", "{\n  \"herdr-link\": {\n    \"PreInvocation\": [\n      {\n        \"type\": \"command\",\n        \"command\": \"/opt/herdr-link hint agy\",\n        \"timeout\": 10\n      }\n    ]\n  }\n}\n"},
		}, ""},
	} {
		m := machine(t, map[string]string{"~/.qwen/settings.json": "broken", "~/.gemini/config/hooks.json": "{"}) // looks at none
		h := must(t, tc.host)
		tc.o.Program = program
		parts, err := m.Print(h, tc.o)
		if err != nil || len(parts) != len(tc.want) {
			t.Errorf("%s: %q, %v", name, parts, err)
			continue
		}
		for i, p := range parts {
			if p.File != m.path(tc.want[i].File) || p.Text != tc.want[i].Text {
				t.Errorf("%s: %s\n%s\nwant %s\n%s", name, p.File, p.Text, tc.want[i].File, tc.want[i].Text)
			}
		}
		if idle := strings.Join(h.Idle(tc.o), "; "); !strings.HasPrefix(idle, tc.idle) || tc.idle == "" && idle != "" || tc.o.Hint && h.hook == nil && !strings.HasSuffix(idle, "; --hint does nothing here") {
			t.Errorf("%s: idle: %q", name, idle)
		}
	}
	if parts, err := machine(t, nil).Print(must(t, "goose"), Options{Program: program, Project: true}); err == nil {
		t.Errorf("%q", parts)
	}
}

// What is not ours stays, and so does what cannot be read.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		host, file, text, want string
	}{
		"foreign":      {"gemini", "~/.gemini/settings.json", `{"mcpServers": {"herdr_link": {"command": "/x/other"}}}`, "not ours"},
		"foreign toml": {"codex", "~/.codex/config.toml", "[mcp_servers.herdr_link]\ncommand = \"other\"\n", "not ours"},
		"foreign yaml": {"goose", "~/.config/goose/config.yaml", "extensions:\n  herdr_link:\n    cmd: other\n", "not ours"},
		"broken":       {"claude", "~/.claude.json", "{\n  \"a\": \n}", "line 3: no valid JSON"},
		"inline":       {"codex", "~/.codex/config.toml", "a = 1\nmcp_servers = { x = {} }\n", "line 2: mcp_servers is an inline table"},
		"flow":         {"goose", "~/.config/goose/config.yaml", "a: 1\nextensions: {x: {}}\n", "line 2: extensions is no block map"},
		"no object":    {"amp", "~/.config/amp/settings.json", `{"amp.mcpServers": []}`, "line 1: amp.mcpServers is no object"},
		"hook broken":  {"codex", "~/.codex/hooks.json", "{]", "line 1: no valid JSON"},
		"policy":       {"gemini", "~/.gemini/policies/herdr-link.toml", "# mine\n", "not ours"},
		"adapter":      {"pi", "~/.pi/agent/extensions/herdr-link/index.ts", "export default 1", "not ours"},
		"a folder":     {"kimi", "~/.kimi-code/mcp.json/x", "", "mcp.json"},
	} {
		if runtime.GOOS != "linux" && strings.Contains(name, "yaml") {
			continue
		}
		m := machine(t, map[string]string{tc.file: tc.text})
		before := m.tree(t)
		r := m.Install(must(t, tc.host), Options{Program: program, Version: "1", Hint: true, Allow: name == "policy"})
		if r.Err == nil || !strings.Contains(r.Err.Error(), tc.want) || len(r.Fix) == 0 || !strings.Contains(r.Err.Error(), filepath.Base(m.path(tc.file))) && name != "a folder" {
			t.Errorf("%s: %+v, want %s", name, r, tc.want)
		}
		if after := m.tree(t); !maps.Equal(before, after) {
			t.Errorf("%s: changed: %q", name, after)
		}
		h := must(t, tc.host)
		if name == "policy" {
			force := m.Install(h, Options{Program: program, Allow: true, Force: true})
			if r := m.Uninstall(h, Options{}); force.Err != nil || r.Err != nil || !maps.Equal(before, m.tree(t)) {
				t.Errorf("%s: %+v, %+v, %q", name, force, r, m.tree(t))
			}
		}
		if !strings.HasPrefix(name, "foreign") && name != "adapter" {
			continue
		}
		if s := m.Status(h, Options{}); s.State != "foreign" {
			t.Errorf("%s: %+v", name, s)
		}
		if r := m.Uninstall(h, Options{}); r.Err != nil || !maps.Equal(before, m.tree(t)) {
			t.Errorf("%s: uninstall: %+v, %q", name, r, m.tree(t))
		}
		if r := m.Install(h, Options{Program: program, Version: "1", Force: true}); r.Err != nil || m.Status(h, Options{Version: "1"}).State == "foreign" {
			t.Errorf("%s: by force: %+v", name, r)
		}
		if r := m.Uninstall(h, Options{}); r.Err != nil || m.Status(h, Options{}).State != "absent" && name != "adapter" || name == "adapter" && !maps.Equal(before, m.tree(t)) {
			t.Errorf("%s: uninstall after force: %+v, %q", name, r, m.tree(t))
		}
	}
}

func TestUnsupported(t *testing.T) {
	t.Parallel()
	m := machine(t, nil)
	h := must(t, "dsh")
	if r := m.Install(h, full); r.Err == nil || r.Err.Error() != h.Why {
		t.Errorf("%+v", r)
	}
	if s := m.Status(h, full); s.State != "unsupported" || s.Found {
		t.Errorf("%+v", s)
	}
}

// The hosts' own variables move their files.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		host, os string
		env      map[string]string
		files    []string
		want     string
	}{
		"claude":           {host: "claude", want: "~/.claude.json"},
		"claude, old":      {host: "claude", files: []string{"~/.claude/.config.json"}, want: "~/.claude/.config.json"},
		"claude, moved":    {host: "claude", env: map[string]string{"CLAUDE_CONFIG_DIR": "~/c"}, files: []string{"~/.claude/.config.json"}, want: "~/c/.claude.json"},
		"codex, moved":     {host: "codex", env: map[string]string{"CODEX_HOME": "~/c"}, want: "~/c/config.toml"},
		"relative":         {host: "codex", env: map[string]string{"CODEX_HOME": "c"}, want: "~/.codex/config.toml"},
		"opencode":         {host: "opencode", want: "~/.config/opencode/opencode.json"},
		"opencode, jsonc":  {host: "opencode", files: []string{"~/.config/opencode/opencode.jsonc"}, want: "~/.config/opencode/opencode.jsonc"},
		"opencode, XDG":    {host: "opencode", env: map[string]string{"XDG_CONFIG_HOME": "~/x"}, files: []string{"~/.config/opencode/opencode.jsonc"}, want: "~/x/opencode/opencode.json"},
		"gemini, moved":    {host: "gemini", env: map[string]string{"GEMINI_CLI_HOME": "~/g"}, want: "~/g/.gemini/settings.json"},
		"pi, moved":        {host: "pi", env: map[string]string{"PI_CODING_AGENT_DIR": "~/p"}, want: "~/p/mcp.json"},
		"kimi, moved":      {host: "kimi", env: map[string]string{"KIMI_CODE_HOME": "~/k"}, want: "~/k/mcp.json"},
		"qwen, moved":      {host: "qwen", env: map[string]string{"QWEN_HOME": "~/q"}, want: "~/q/settings.json"},
		"amp, moved":       {host: "amp", env: map[string]string{"AMP_SETTINGS_FILE": "~/a.json", "XDG_CONFIG_HOME": "~/x"}, want: "~/a.json"},
		"amp, XDG":         {host: "amp", env: map[string]string{"XDG_CONFIG_HOME": "~/x"}, files: []string{"~/x/amp/settings.jsonc"}, want: "~/x/amp/settings.jsonc"},
		"droid, moved":     {host: "droid", env: map[string]string{"FACTORY_HOME_OVERRIDE": "~/f"}, want: "~/f/.factory/mcp.json"},
		"kilo, moved":      {host: "kilo", env: map[string]string{"KILO_CONFIG_DIR": "~/k", "XDG_CONFIG_HOME": "~/x"}, want: "~/k/kilo.jsonc"},
		"qoder, moved":     {host: "qodercli", env: map[string]string{"QODER_CONFIG_DIR": "~/q"}, want: "~/q/settings.json"},
		"cline, moved":     {host: "cline", env: map[string]string{"CLINE_MCP_SETTINGS_PATH": "~/k.json"}, want: "~/k.json"},
		"vscode":           {host: "vscode", os: "linux", want: "~/.config/Code/User/mcp.json"},
		"vscode, mac":      {host: "vscode", os: "darwin", want: "~/Library/Application Support/Code/User/mcp.json"},
		"vscode, windows":  {host: "vscode", os: "windows", env: map[string]string{"APPDATA": "~/AppData"}, want: "~/AppData/Code/User/mcp.json"},
		"goose, windows":   {host: "goose", os: "windows", env: map[string]string{"APPDATA": "~/AppData"}, want: "~/AppData/Block/goose/config/config.yaml"},
		"goose, moved":     {host: "goose", env: map[string]string{"GOOSE_PATH_ROOT": "~/g"}, want: "~/g/config/config.yaml"},
		"windows, nothing": {host: "vscode", os: "windows"},
	} {
		m := machine(t, nil)
		if tc.os != "" {
			m.OS = tc.os
		}
		m.Getenv = func(name string) string {
			if v := tc.env[name]; strings.HasPrefix(v, "~/") {
				return m.path(v)
			}
			return tc.env[name]
		}
		for _, f := range tc.files {
			put(t, m.path(f), "{}")
		}
		want := ""
		if tc.want != "" {
			want = m.path(tc.want)
		}
		if got := m.pick(must(t, tc.host).file); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestFound(t *testing.T) {
	t.Parallel()
	m := machine(t, map[string]string{"~/bin/codex": "", "~/bin/gemini": "", "~/.kimi-code/x": ""})
	if err := os.Chmod(m.path("~/bin/codex"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.Getenv = func(name string) string {
		if name == "PATH" {
			return "relative" + string(filepath.ListSeparator) + m.path("~/bin")
		}
		return ""
	}
	var found []string
	for _, h := range Table() {
		if m.Found(h) {
			found = append(found, h.Name)
		}
	}
	want := []string{"codex", "kimi"}
	if runtime.GOOS == "windows" {
		want = []string{"kimi"}
	}
	if !slices.Equal(found, want) {
		t.Errorf("found %q", found)
	}
}

func TestStays(t *testing.T) {
	t.Parallel()
	m := machine(t, map[string]string{"~/bin/herdr-link": "", "~/.npm/_npx/1/herdr-link": "", "~/go-build1/herdr-link": "", "~/.cache/x/herdr-link": "", "~/t/herdr-link": ""})
	m.Getenv = func(name string) string {
		if name == "TMPDIR" || name == "TEMP" {
			return m.path("~/t")
		}
		return ""
	}
	if err := os.Symlink(m.path("~/t/herdr-link"), m.path("~/bin/link")); err != nil {
		t.Skip(err)
	}
	for name, want := range map[string]string{
		"~/bin/herdr-link": "", "~/.npm/_npx/1/herdr-link": "npx", "~/go-build1/herdr-link": "Go", "~/.cache/x/herdr-link": "cache", "~/t/herdr-link": "temporary", "~/bin/link": "temporary", "~/none": "read",
	} {
		if got := m.Stays(m.path(name)); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	there := filepath.Join(t.TempDir(), "herdr-link")
	if err := os.WriteFile(there, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	quoted := quote(there)
	for name, tc := range map[string]struct {
		host, file, text, state, remark string
	}{
		"absent":     {"gemini", "~/.gemini/settings.json", "{}", "absent", ""},
		"current":    {"gemini", "~/.gemini/settings.json", `{"mcpServers": {"herdr_link": {"command": ` + quoted + `}}}`, "current", ""},
		"npx":        {"gemini", "~/.gemini/settings.json", `{"mcpServers": {"herdr_link": {"command": "npx", "args": ["-y", "herdr-link"]}}}`, "current", ""},
		"gone":       {"gemini", "~/.gemini/settings.json", `{"mcpServers": {"herdr_link": {"command": ` + quote(there+"x/herdr-link") + `}}}`, "old", "not there"},
		"not eager":  {"qwen", "~/.qwen/settings.json", `{"mcpServers": {"herdr_link": {"command": ` + quoted + `}}}`, "old", "--eager"},
		"no vars":    {"codex", "~/.codex/config.toml", "[mcp_servers.herdr_link]\ncommand = " + quoted + "\nargs = [\"--eager\"]\n", "old", "env_vars"},
		"exposure":   {"pi", "~/.pi/agent/mcp.json", `{"mcpServers": {"herdr_link": {"command": ` + quoted + `}}}`, "old", "exposure"},
		"twice":      {"claude", "~/.claude.json", `{"mcpServers": {"herdr_link": {"command": ` + quoted + `, "env": {}}, "herdr-link": {}}}`, "current", "second entry"},
		"unreadable": {"claude", "~/.claude.json", "{", "unreadable", "line 1"},
	} {
		m := machine(t, map[string]string{tc.file: tc.text})
		s := m.Status(must(t, tc.host), Options{Version: "1"})
		if remarks := strings.Join(s.Remarks, "; "); s.State != tc.state || !strings.Contains(remarks, tc.remark) || tc.remark == "" && remarks != "" {
			t.Errorf("%s: %+v", name, s)
		}
	}
	m := machine(t, map[string]string{"~/.claude.json": `{"mcpServers": {"herdr-link": {"command": "/x/herdr-link"}}}`})
	if r := m.Install(must(t, "claude"), Options{Program: there}); r.Err != nil || !strings.Contains(r.Done, "there is a second entry, called herdr-link, in ") {
		t.Errorf("%+v", r)
	}
	m = machine(t, nil)
	h := must(t, "pi")
	if r := m.Install(h, Options{Program: there, Version: "1"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	if s := m.Status(h, Options{Version: "2"}); s.State != "old" || !strings.Contains(s.Remarks[0], "version 1") {
		t.Errorf("%+v", s)
	}
	put(t, m.path("~/.pi/agent/mcp.json"), `{"mcpServers": {"herdr_link": {"command": "herdr-link"}}}`)
	if s := m.Status(h, Options{Version: "1"}); s.State != "current" || len(s.Remarks) != 1 || !strings.Contains(s.Remarks[0], "beside the adapter") {
		t.Errorf("%+v", s)
	}
	if r := m.Install(h, Options{Program: there, Version: "1"}); r.Err != nil || len(m.Status(h, Options{Version: "1"}).Remarks) > 0 {
		t.Errorf("the second one is not gone: %+v", r)
	}
	if r := m.Install(h, Options{Program: there, Version: "1", MCP: true}); r.Err != nil || exists(m.path("~/.pi/agent/extensions/herdr-link")) {
		t.Errorf("the adapter is not gone: %+v", r)
	}
}

func TestHookCommand(t *testing.T) {
	t.Parallel()
	for want, tc := range map[string]struct{ program, os string }{
		"/opt/herdr-link hint codex":               {"/opt/herdr-link", "linux"},
		`'/opt/a b/it'\''s/herdr-link' hint codex`: {"/opt/a b/it's/herdr-link", "darwin"},
		`'/opt/$x;/herdr-link' hint codex`:         {"/opt/$x;/herdr-link", "linux"},
		`"C:\a b\herdr-link.exe" hint codex`:       {`C:\a b\herdr-link.exe`, "windows"},
	} {
		if got := hookCommand(Command{Program: tc.program}, "codex", tc.os); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A file of which only our entry is left becomes an empty object, if it had
// something in it before; what was empty or missing is so again.
func TestLeftover(t *testing.T) {
	t.Parallel()
	m := machine(t, map[string]string{"~/.gemini/settings.json": `{"a":1}`})
	h := must(t, "gemini")
	if r := m.Install(h, Options{Program: program}); r.Err != nil {
		t.Fatal(r.Err)
	}
	put(t, m.path("~/.gemini/settings.json"), `{"mcpServers":{"herdr_link":{"command":"/opt/herdr-link"}}}`)
	if r := m.Uninstall(h, Options{}); r.Err != nil || !maps.Equal(m.tree(t), map[string]string{"~/.gemini/settings.json": "-rw-r-----\n{}\n"}) {
		t.Errorf("%+v, %q", r, m.tree(t))
	}
}

// An entry for other toolsets stands beside the adapter, in whatever order the
// two come; one with link takes its place, or gives way to it and keeps the others.
func TestEntryBesideAdapter(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"opencode", "pi"} {
		h := must(t, name)
		m := machine(t, nil)
		plugin := Options{Program: program, Version: "1.2.3"}
		with := func(toolsets string) Options {
			return Options{Program: program, Version: "1.2.3", MCP: true, Toolsets: toolsets, CallerRole: "shepherd-build"}
		}
		adapter, err1 := m.place(h.adapter.file, nil, plugin)
		file, err2 := m.place(h.file, nil, plugin)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		expect := func(what string, o Options, adapted bool, toolsets ...string) {
			t.Helper()
			if r := m.Install(h, o); r.Err != nil {
				t.Fatalf("%s, %s: %v", name, what, r.Err)
			}
			text, _ := os.ReadFile(file)
			v, _, err := editorOf(h.format).get(text, h.entryPath())
			e, _ := v.(map[string]any)
			words := commandOf(e)
			if i := slices.Index(words, "--toolsets"); i >= 0 {
				words = words[i:]
			} else {
				words = nil
			}
			if exists(adapter) != adapted || !slices.Equal(words, toolsets) || err != nil {
				t.Errorf("%s, %s: adapter %t, %q, %v", name, what, exists(adapter), words, err)
			}
			if s := m.Status(h, o); strings.Contains(strings.Join(s.Remarks, " "), "beside") {
				t.Errorf("%s, %s: %+v", name, what, s)
			}
		}
		entry := []string{"--toolsets", "response", "--caller-role", "shepherd-build"}
		expect("the adapter", plugin, true)
		expect("an entry beside it", with("response"), true, entry...)
		expect("the adapter again", plugin, true, entry...)
		expect("an entry in its place", with("link,response"), false, "--toolsets", "link,response", "--caller-role", "shepherd-build")
		expect("the adapter again, for link alone", plugin, true, entry...)
		expect("and nothing else", with("link"), false, "--toolsets", "link", "--caller-role", "shepherd-build")
		expect("the adapter in that one's place", plugin, true)
	}
}
