package hosts

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// What doctor says of each host, from its files alone. PROGRAM in a text is a
// program that is there, DIR the project's folder.
func TestExamine(t *testing.T) {
	t.Parallel()
	const (
		claude  = `{"mcpServers": {"herdr_link": {"command": "PROGRAM", "args": [], "env": {}}}`
		mcpJSON = `{"mcpServers": {"herdr_link": {"command": "herdr-link", "args": [], "env": {}}}}`
		codex   = "[mcp_servers.herdr_link]\ncommand = \"PROGRAM\"\nargs = [\"--eager\"]\nenv_vars = [\"HERDR_ENV\", \"HERDR_BIN_PATH\", \"HERDR_PANE_ID\", \"HERDR_SOCKET_PATH\", \"HERDR_SESSION\", \"HERDR_LINK_OFF\", \"HERDR_LINK_EAGER\", \"HERDR_LINK_ERA\", \"HERDR_LINK_TOOLSETS\", \"HERDR_LINK_TIMEOUT\", \"HERDR_LINK_LOG\", \"HERDR_LINK_CLI_TIMEOUT_MS\", \"DSH_HERDR_CLI_TIMEOUT_MS\", \"HERDR_LINK_PREVIEW_REQUIRED\", \"DSH_HERDR_PREVIEW_REQUIRED\", \"HERDR_LINK_AGENT_ARGS\", \"HERDR_MESH_STATE_DIR\", \"HERDR_LINK_MESH_UNPROVEN_CALLER\", \"HERDR_LINK_VERIFY_NODE\", \"HERDR_LINK_CALLER_ROLE\", \"SHEPHERD_MODE\", \"CLAUDE_CONFIG_DIR\", \"CODEX_HOME\", \"XDG_DATA_HOME\"]\n"
		gemini  = `{"mcpServers": {"herdr_link": {"command": "PROGRAM", "args": []}}`
		adapter = "ADAPTER"
	)
	type files map[string]string
	for name, tc := range map[string]struct {
		host  string
		files files
		env   map[string]string
		state string
		has   []string // in the detail or the fix
		not   []string
	}{
		"not there":      {"claude", nil, nil, Warn, []string{"not registered", "herdr-link install claude"}, nil},
		"registered":     {"claude", files{"~/.claude.json": claude + "}"}, nil, OK, []string{"registered in ~", "passes its environment", "lists tools again", "asks before each call"}, []string{"not registered", "old in", "starts"}},
		"allowed":        {"claude", files{"~/.claude.json": claude + "}", "~/.claude/settings.json": `{"permissions": {"allow": ["mcp__herdr_link__herdr_link"]}}`}, nil, OK, nil, []string{"asks"}},
		"another one":    {"claude", files{"~/.claude.json": strings.ReplaceAll(claude, "PROGRAM", "OTHER") + "}"}, nil, OK, []string{"starts ~"}, nil},
		"program gone":   {"claude", files{"~/.claude.json": strings.ReplaceAll(claude, "PROGRAM", "PROGRAMx/herdr-link") + "}"}, nil, Fail, []string{"its program is not there", "herdr-link install claude"}, nil},
		"foreign":        {"claude", files{"~/.claude.json": `{"mcpServers": {"herdr_link": {"command": "/bin/else"}}}`}, nil, Fail, []string{"is not ours", "--force"}, nil},
		"broken":         {"claude", files{"~/.claude.json": "{\n\"a\" 1}"}, nil, Fail, []string{"cannot be read", "line 2", "--print claude"}, nil},
		"doubled":        {"claude", files{"~/.claude.json": strings.Replace(claude, `{"herdr_link"`, `{"herdr-link": {}, "herdr_link"`, 1) + "}"}, nil, Warn, []string{"second entry", "remove that entry"}, nil},
		"the old key":    {"claude", files{"~/.claude.json": `{"mcpServers": {"herdr-link": {"command": "herdr-link"}}}`}, nil, Warn, []string{"not registered", "second entry", "install claude"}, nil},
		"doubled, local": {"claude", files{"~/.claude.json": claude + `, "projects": {"DIR": {"mcpServers": {"herdr-link": {}}}}}`}, nil, Warn, []string{"second entry", "for this folder"}, nil},
		"off here":       {"claude", files{"~/.claude.json": claude + `, "projects": {"DIR": {"disabledMcpServers": ["herdr_link"]}}}`}, nil, Warn, []string{"switched off for this folder"}, nil},
		"off elsewhere":  {"claude", files{"~/.claude.json": claude + `, "projects": {"/else": {"disabledMcpServers": ["herdr_link"]}}}`}, nil, OK, nil, []string{"switched off"}},
		"a fixed pane":   {"claude", files{"~/.claude.json": strings.Replace(claude, `"env": {}`, `"env": {"HERDR_PANE_ID": "w1:p1"}`, 1) + "}"}, nil, Warn, []string{"HERDR_PANE_ID is fixed"}, nil},
		"no fixed pane":  {"claude", files{"~/.claude.json": strings.Replace(claude, `"env": {}`, `"env": {"HERDR_PANE_ID": "${HERDR_PANE_ID}"}`, 1) + "}"}, nil, OK, nil, []string{"fixed"}},

		"pending":         {"claude", files{".mcp.json": mcpJSON, "~/bin/herdr-link": "x"}, nil, Warn, []string{"waits for approval", "approve"}, []string{"not registered", "not on PATH"}},
		"approved":        {"claude", files{".mcp.json": mcpJSON, "~/bin/herdr-link": "x", ".claude/settings.local.json": `{"enabledMcpjsonServers": ["herdr_link"]}`}, nil, OK, nil, []string{"approval"}},
		"approved, all":   {"claude", files{".mcp.json": mcpJSON, "~/bin/herdr-link": "x", "~/.claude/settings.json": `{"enableAllProjectMcpServers": true}`}, nil, OK, nil, []string{"approval"}},
		"approved before": {"claude", files{".mcp.json": mcpJSON, "~/bin/herdr-link": "x", "~/.claude.json": `{"projects": {"DIR": {"enabledMcpjsonServers": ["herdr_link"]}}}`}, nil, OK, nil, []string{"approval"}},
		"another's":       {"claude", files{".mcp.json": mcpJSON, "~/bin/herdr-link": "x", "~/.claude/settings.json": `{"enabledMcpjsonServers": ["x"]}`}, nil, Warn, []string{"waits for approval"}, nil},
		"rejected":        {"claude", files{".mcp.json": mcpJSON, "~/bin/herdr-link": "x", ".claude/settings.local.json": `{"disabledMcpjsonServers": ["herdr_link"]}`}, nil, Warn, []string{"rejected"}, nil},
		"not on PATH":     {"claude", files{".mcp.json": mcpJSON}, nil, Warn, []string{"herdr-link is not on PATH"}, nil},

		"by name":        {"codex", files{"~/.codex/config.toml": codex}, nil, OK, []string{"passes HERDR_* by name", "all tools from the start"}, []string{"asks"}},
		"without names":  {"codex", files{"~/.codex/config.toml": "[mcp_servers.herdr_link]\ncommand = \"PROGRAM\"\nargs = [\"--eager\"]\n"}, nil, Fail, []string{"does not pass HERDR_ENV, HERDR_BIN_PATH, HERDR_PANE_ID", "install codex"}, nil},
		"not eager":      {"codex", files{"~/.codex/config.toml": strings.Replace(codex, `"--eager"`, "", 1)}, nil, Warn, []string{"--eager is missing", "lists tools again: no"}, nil},
		"inline":         {"codex", files{"~/.codex/config.toml": "a = 1\nmcp_servers = {}\n"}, nil, Fail, []string{"cannot be read", "line 2"}, nil},
		"not trusted":    {"codex", files{".codex/config.toml": codex}, nil, Warn, []string{"not trusted"}, nil},
		"trusted":        {"codex", files{".codex/config.toml": codex, "~/.codex/config.toml": "[projects.\"DIR\"]\ntrust_level = \"trusted\"\n"}, nil, OK, nil, []string{"trusted"}},
		"other trusted":  {"codex", files{".codex/config.toml": codex, "~/.codex/config.toml": "[projects.\"DIRx\"]\ntrust_level = \"trusted\"\n"}, nil, Warn, []string{"not trusted"}, nil},
		"said untrusted": {"codex", files{".codex/config.toml": codex, "~/.codex/config.toml": "[projects.\"DIR\"]\ntrust_level = \"untrusted\"\n"}, nil, Warn, []string{"not trusted"}, nil},
		"trust for user": {"codex", files{"~/.codex/config.toml": codex}, nil, OK, nil, []string{"trusted"}},

		"untrusted":       {"gemini", files{"~/.gemini/settings.json": gemini + "}"}, nil, Warn, []string{"not trusted"}, nil},
		"trust":           {"gemini", files{"~/.gemini/settings.json": gemini + "}", "~/.gemini/trustedFolders.json": `{"DIR": "TRUST_FOLDER"}`}, nil, OK, nil, []string{"trusted"}},
		"trust parent":    {"gemini", files{"~/.gemini/settings.json": gemini + "}", "~/.gemini/trustedFolders.json": `{"DIR/x": "TRUST_PARENT"}`}, nil, OK, nil, []string{"trusted"}},
		"distrust":        {"gemini", files{"~/.gemini/settings.json": gemini + "}", "~/.gemini/trustedFolders.json": `{"/": "TRUST_FOLDER", "DIR": "DO_NOT_TRUST"}`}, nil, Warn, []string{"not trusted"}, nil},
		"trust inside":    {"gemini", files{"~/.gemini/settings.json": gemini + "}", "~/.gemini/trustedFolders.json": `{"/": "DO_NOT_TRUST", "DIR": "TRUST_FOLDER"}`}, nil, OK, nil, []string{"trusted"}},
		"trust elsewhere": {"gemini", files{"~/.gemini/settings.json": gemini + "}", "~/.gemini/trustedFolders.json": `{"DIR/sub": "TRUST_FOLDER"}`}, nil, Warn, []string{"not trusted"}, nil},
		"no trust needed": {"gemini", files{"~/.gemini/settings.json": gemini + `, "security": {"folderTrust": {"enabled": false}}}`}, nil, OK, nil, []string{"trusted"}},
		"trust by env":    {"gemini", files{"~/.gemini/settings.json": gemini + "}"}, map[string]string{"GEMINI_CLI_TRUST_WORKSPACE": "true"}, OK, nil, []string{"trusted"}},
		"distrust by env": {"gemini", files{"~/.gemini/settings.json": gemini + "}", "~/.gemini/trustedFolders.json": `{"DIR": "TRUST_FOLDER"}`}, map[string]string{"GEMINI_CLI_TRUST_WORKSPACE": "false"}, Warn, []string{"not trusted"}, nil},

		"adapter":            {"pi", files{"~/.pi/agent/extensions/herdr-link/index.ts": adapter}, nil, OK, []string{"registered in ~", "by its adapter"}, nil},
		"old adapter":        {"pi", files{"~/.pi/agent/extensions/herdr-link/index.ts": "ADAPTER0"}, nil, Warn, []string{"version 0", "install pi"}, nil},
		"adapter, gone":      {"pi", files{"~/.pi/agent/extensions/herdr-link/index.ts": "ADAPTERx"}, nil, Fail, []string{"its program is not there"}, nil},
		"foreign adapter":    {"pi", files{"~/.pi/agent/extensions/herdr-link/index.ts": "// mine"}, nil, Fail, []string{"not ours"}, nil},
		"beside the adapter": {"pi", files{"~/.pi/agent/extensions/herdr-link/index.ts": adapter, "~/.pi/agent/mcp.json": `{"mcpServers": {"herdr_link": {"command": "PROGRAM"}}}`}, nil, Warn, []string{"beside the adapter"}, nil},
		"other toolsets": {"pi", files{"~/.pi/agent/extensions/herdr-link/index.ts": adapter,
			"~/.pi/agent/mcp.json": `{"mcpServers": {"herdr_link": {"command": "PROGRAM", "args": ["--toolsets", "control"], "exposure": "direct"}}}`}, nil, OK, []string{"and an entry in ~/.pi/agent/mcp.json, toolset control"}, []string{"beside"}},
		"old beside it": {"pi", files{"~/.pi/agent/extensions/herdr-link/index.ts": adapter,
			"~/.pi/agent/mcp.json": `{"mcpServers": {"herdr_link": {"command": "PROGRAMx/herdr-link", "args": ["--toolsets", "control"], "exposure": "direct"}}}`}, nil, Fail, []string{"its entry: its program is not there", "install pi"}, nil},
		"beside in project": {"pi", files{"~/.pi/agent/extensions/herdr-link/index.ts": adapter, ".pi/mcp.json": `{"mcpServers": {"herdr_link": {"command": "PROGRAM", "exposure": "direct"}}}`}, nil, Warn, []string{"beside the adapter"}, nil},
		"two adapters":      {"opencode", files{"~/.config/opencode/plugins/herdr-link.js": adapter, ".opencode/plugins/herdr-link.js": adapter}, nil, Warn, []string{"there twice"}, nil},
		"old pi": {"pi", files{"~/.pi/agent/mcp.json": `{"mcpServers": {"herdr_link": {"command": "PROGRAM", "exposure": "direct"}}}`,
			"~/lib/pi/package.json": `{"version": "0.73.1", "bin": {"pi": "bin/pi"}}`, "~/lib/pi/bin/pi": "x"}, nil, Fail, []string{"0.73.1", "no MCP"}, nil},
		"old pi, both": {"pi", files{"~/.pi/agent/extensions/herdr-link/index.ts": adapter, "~/.pi/agent/mcp.json": `{"mcpServers": {"herdr_link": {"command": "PROGRAM", "args": ["--toolsets", "control"], "exposure": "direct"}}}`,
			"~/lib/pi/package.json": `{"version": "0.73.1", "bin": {"pi": "bin/pi"}}`, "~/lib/pi/bin/pi": "x"}, nil, Warn, []string{"no MCP", "update it to 1.6"}, []string{"install pi"}},
		"new pi": {"pi", files{"~/.pi/agent/mcp.json": `{"mcpServers": {"herdr_link": {"command": "PROGRAM", "exposure": "direct"}}}`,
			"~/lib/pi/package.json": `{"version": "1.6.0", "bin": {"pi": "bin/pi"}}`, "~/lib/pi/bin/pi": "x"}, nil, OK, []string{"1.6.0"}, []string{"no MCP"}},

		"switched off": {"opencode", files{"~/.config/opencode/opencode.json": `{"mcp": {"herdr_link": {"type": "local", "command": ["PROGRAM"], "enabled": false}}}`}, nil, Warn, []string{"switched off in its entry"}, nil},
		"disabled":     {"kiro", files{"~/.kiro/settings/mcp.json": `{"mcpServers": {"herdr_link": {"command": "PROGRAM", "disabled": true}}}`}, nil, Warn, []string{"switched off in its entry", "HERDR_*: not known", "lists tools again: not known"}, nil},
		"approval":     {"amp", files{".amp/settings.json": `{"amp.mcpServers": {"herdr_link": {"command": "PROGRAM"}}}`}, nil, OK, []string{"amp mcp approve"}, nil},
		"references":   {"cursor", files{"~/.cursor/mcp.json": `{"mcpServers": {"herdr_link": {"command": "PROGRAM", "env": {"HERDR_ENV": "${env:HERDR_ENV}"}}}}`}, nil, Fail, []string{"does not pass HERDR_BIN_PATH, HERDR_PANE_ID"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS == "windows" && (strings.Contains(name, "pi") || strings.HasPrefix(name, "approved") || name == "pending") {
				t.Skip("the programs of this test are no programs there")
			}
			m := machine(t, files{"~/program/herdr-link": "x", "~/other/herdr-link": "x"})
			m.Getenv = func(name string) string {
				if name == "PATH" {
					return m.path("~/bin") + string(filepath.ListSeparator) + m.path("~/lib/pi/bin")
				}
				return tc.env[name]
			}
			program := m.path("~/program/herdr-link")
			escape := func(s string) string { return strings.Trim(quote(s), `"`) }
			for file, text := range tc.files {
				h := must(t, tc.host)
				switch text {
				case adapter:
					text = string(h.adapter.text(program, "1"))
				case "ADAPTER0":
					text = string(h.adapter.text(program, "0"))
				case "ADAPTERx":
					text = string(h.adapter.text(program+"x", "1"))
				default:
					text = strings.NewReplacer("CONFIG_DIR", "CONFIG_DIR", "STATE_DIR", "STATE_DIR", "PROGRAM", escape(program), "OTHER", escape(m.path("~/other/herdr-link")), "DIR", escape(m.Dir)).Replace(text)
				}
				put(t, m.path(file), text)
				if text == "x" {
					if err := os.Chmod(m.path(file), 0o700); err != nil {
						t.Fatal(err)
					}
				}
			}
			before := m.tree(t)
			f := m.Examine(must(t, tc.host), Options{Version: "1", Program: program})
			text := strings.ReplaceAll(strings.ReplaceAll(f.Detail+"\n"+f.Fix, m.Dir, "PROJECT"), `\`, "/") // its path has the test's name
			if f.State != tc.state || f.Host != tc.host {
				t.Errorf("%+v, not %s", f, tc.state)
			}
			if f.Known != (len(tc.files) > 0) || f.Serves != (strings.Contains(f.Detail, "lists tools") || strings.Contains(f.Detail, "all tools")) {
				t.Errorf("known %t, serves %t: %s", f.Known, f.Serves, f.Detail)
			}
			for _, words := range tc.has {
				if !strings.Contains(text, words) {
					t.Errorf("%q is not in %q, %q", words, f.Detail, f.Fix)
				}
			}
			for _, words := range tc.not {
				if strings.Contains(text, words) {
					t.Errorf("%q is in %q, %q", words, f.Detail, f.Fix)
				}
			}
			if f.State != OK && f.Fix == "" {
				t.Errorf("nothing to do about %q", f.Detail)
			}
			if !maps.Equal(before, m.tree(t)) {
				t.Error("it changed something")
			}
		})
	}
}

// What install wrote, however it was told to, has nothing wrong with it but
// what the user has yet to do.
func TestExamineInstalled(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{}, {MCP: true}, {Allow: true, Hint: true}} {
		for _, h := range Table() {
			if h.Why != "" {
				continue
			}
			m := machine(t, map[string]string{"~/program/herdr-link": "x"})
			o.Program, o.Version = m.path("~/program/herdr-link"), "1"
			if r := m.Install(h, o); r.Err != nil {
				t.Fatal(r.Err)
			}
			f := m.Examine(h, o)
			if want := map[string]string{"gemini": Warn}[h.Name]; f.State != OK && f.State != want || !f.Known || !f.Found {
				t.Errorf("%+v: %+v", o, f)
			}
		}
	}
}

// A file that has no end, or never begins, is not read.
func TestExamineWhatIsNoFile(t *testing.T) {
	t.Parallel()
	m := machine(t, nil)
	if err := os.MkdirAll(m.path("~/.claude.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := m.Examine(must(t, "claude"), Options{})
	if f.State != Fail || !strings.Contains(f.Detail, "not a regular file") {
		t.Errorf("%+v", f)
	}
}

func TestOffersLink(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []any
		env  string
		want bool
	}{
		{nil, "", true},
		{[]any{"--toolsets", "control"}, "", false},
		{[]any{"--toolsets=control, link"}, "", true},
		{[]any{"-toolsets", "mesh"}, "link", false},
		{nil, "control,mesh", false},
		{[]any{"--toolsets"}, "", true},
		{[]any{"toolsets", "control"}, "", true},
		{[]any{"", "-"}, "", true},
	} {
		e := map[string]any{"command": "herdr-link", "args": tc.args, "env": map[string]any{"HERDR_LINK_TOOLSETS": tc.env}}
		if got := offersLink(e); got != tc.want {
			t.Errorf("%q, %q: %t", tc.args, tc.env, got)
		}
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{"/usr/bin/claude": "claude", "/x/codex.js": "codex", `C:\x\gemini.CMD`: "gemini", "cursor-agent": "cursor", "claudette": "", "": "", "bash": ""} {
		if got := Of(program); got != want {
			t.Errorf("%q is of %q", program, got)
		}
	}
	for _, h := range Table() {
		if h.Why == "" && (len(h.programs) == 0 || !slices.Contains([]string{"all", "named", ""}, h.passes)) {
			t.Errorf("%s: %q", h.Name, h.passes)
		}
	}
}
