package hosts

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Files as people have them, for every row: PATH is the key of the servers,
// GRANT and HOOK are those of the permissions and hooks.
var handEdited = map[string][]string{
	"json": {
		"", " \n\t\n", "{}", "{}\n", "{ }", "{\n}\n", bom + "{}", "\r\n{\r\n}\r\n", "{\n  \"a\": 1 // c\n}", "// c\n{\n}\n// d\n",
		bom + "{\r\n\t\"PATH\": {},\r\n\t\"permissions\": {\"allow\": []}, \"hooks\": {}\r\n}",
		"{\n    // mine\n    \"PATH\": {\n        \"other\": {\"command\": \"x\", \"args\": [\"-y\",],}, // c\n        /* d */\n    },\n    \"z\": [1, 2.50, \"\\u00e9\",],\n}\n",
		"{\"PATH\":{\"other\":{\"command\":\"x\"}},\"permissions\":{\"allow\":[\"a\"],\"deny\":[\"b\"]}}",
		"{\n\t\"permissions\": {\n\t\t\"allow\": [\n\t\t\t\"Bash(ls)\", // c\n\t\t],\n\t\t\"deny\": [],\n\t},\n\t\"hooks\": {\n\t\t\"SessionStart\": [ /* none */ ],\n\t\t\"Stop\": [{\"hooks\": []}],\n\t},\n}",
		"{\r\n  \"hooks\": {\r\n    \"SessionStart\": [\r\n      {\"matcher\": \"x\", \"hooks\": [{\"type\": \"command\", \"command\": \"y\"}]}\r\n    ]\r\n  }\r\n}\r\n",
	},
	"toml": {
		"", "\n", "# c", "a = 1\r\n[x]\r\n", bom + "a = 1\n", "[mcp_servers]\n", "[mcp_servers.other]\ncommand = 'x' # c\n\n\n[z]\nm = { a = 1 }\n\t# d\n",
		"[mcp_servers.other.env]\r\nA = \"\"\"\r\n[mcp_servers.herdr_link]\"\"\"\r\n\r\n# end", "model = \"x\"\n\n[[rule]]\na = [1,\n  2,\n]\n",
	},
	"yaml": {
		"", "\n", "# c\n", "a: 1", "---\na: 1\n", bom + "a: 1\r\n", "PATH:\n", "PATH: # none\n", "PATH:\n  x:\n    cmd: y\n\n# c\nz: 1\n", "PATH:\r\n    x:\r\n        cmd: 'it''s' # d\r\n\r\n    # e\r\nz: 1\r\n",
		"a: 1\nPATH: {} # none\nz: 1\n", "PATH: {}", "z: |\n  PATH:\n    x: 1\nPATH:\n  x: {a: [1]}\n", "PATH:\n  x:\n    d: >-\n      text\n\n\n",
	},
}

func filled(h Host, text string) string { return strings.ReplaceAll(text, "PATH", h.path[0]) }

// each calls f with each row, and the options that it is to be tested with.
func each(t *testing.T, f func(t *testing.T, h Host, o Options)) {
	for _, h := range Table() {
		if h.Why != "" {
			continue
		}
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			for _, project := range []bool{false, true} {
				for _, mcp := range []bool{false, true} {
					o := full
					o.Project, o.MCP = project, mcp
					if (!project || h.HasProject()) && (mcp || h.adapter != nil) {
						f(t, h, o)
					}
				}
			}
		})
	}
}

// files returns what Install writes to on a machine without files, the entry or
// adapter first.
func (m Machine) files(t *testing.T, h Host, o Options) (files []string) {
	t.Helper()
	parts, err := m.Print(h, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		files = append(files, p.File)
	}
	return files
}

// formatOf is what kind of file it is; an adapter or policy is ours as a whole.
func formatOf(h Host, file string) string {
	switch filepath.Ext(file) {
	case ".toml":
		if h.format != "toml" {
			return "whole"
		}
		return "toml"
	case ".yaml":
		return "yaml"
	case ".ts", ".js":
		return "whole"
	}
	return "json"
}

// Install and uninstall leave everything as it was, whatever was there.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h Host, o Options) {
		files := machine(t, nil).files(t, h, o)
		most := 0
		for _, texts := range handEdited {
			most = max(most, len(texts))
		}
		for i := -1; i < most; i++ { // -1: no file
			m := machine(t, nil)
			for n, file := range m.files(t, h, o) {
				if texts := handEdited[formatOf(h, file)]; i >= 0 && len(texts) > 0 {
					put(t, file, filled(h, texts[(i+n*5)%len(texts)])) // not the same in each file
				}
			}
			roundTrip(t, m, h, o)
		}
		for _, file := range files { // a rule and a hook of others alone
			if formatOf(h, file) == "whole" {
				m := machine(t, nil)
				put(t, m.path("~/unrelated"), "x")
				roundTrip(t, m, h, o)
			}
		}
	})
}

// What is broken, read-only, a folder or no text is left alone, in whichever of
// the files it is, and so are the others.
func TestFailures(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h Host, o Options) {
		for n := range machine(t, nil).files(t, h, o) {
			for name, spoil := range map[string]func(file string) error{
				"broken": func(file string) error { return os.WriteFile(file, []byte("{\"a\": [\n\tx: \"}\n"), 0o640) },
				"binary": func(file string) error { return os.WriteFile(file, []byte("\x00\xff\xfe{}"), 0o640) },
				"folder": func(file string) error { return os.Mkdir(file, 0o700) },
				"read-only": func(file string) error {
					return errors.Join(os.WriteFile(file, nil, 0o640), os.Chmod(file, 0o440))
				},
			} {
				m := machine(t, nil)
				files := m.files(t, h, o)
				if formatOf(h, files[n]) == "whole" && name == "read-only" {
					continue // an empty file is not ours; TestRefused has that
				}
				for i, file := range files {
					if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
						t.Fatal(err)
					}
					if i == n {
						if err := spoil(file); err != nil {
							t.Fatal(err)
						}
					} else if texts := handEdited[formatOf(h, file)]; len(texts) > 0 {
						put(t, file, filled(h, texts[len(texts)-1]))
					}
				}
				before := m.tree(t)
				r := m.Install(h, o)
				if r.Err == nil || !strings.Contains(r.Err.Error(), filepath.Base(files[n])) || r.Done != "" {
					t.Errorf("%s in %s: %+v", name, files[n], r)
				}
				if len(r.Fix) != len(files) {
					t.Errorf("%s in %s: %d of %d parts are shown", name, files[n], len(r.Fix), len(files))
				}
				after := m.tree(t)
				if name == "read-only" { // seen when it is written: what came before it stands, with its copy
					for _, file := range files[:n] {
						for _, path := range []string{file, file + backupName} {
							delete(before, m.treeName(path))
							delete(after, m.treeName(path))
						}
					}
				}
				if !maps.Equal(before, after) {
					t.Errorf("%s in %s: before %q, after %q", name, files[n], before, after)
				}
			}
		}
	})
}

// A host may write any of the files while we do: what it wrote is kept. What
// becomes unreadable in that moment is left alone.
func TestWrittenMeanwhile(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h Host, o Options) {
		for n := range machine(t, nil).files(t, h, o) {
			m := machine(t, nil)
			files := m.files(t, h, o)
			format := formatOf(h, files[n])
			if format == "whole" {
				continue // nobody else writes it
			}
			texts := handEdited[format]
			put(t, files[n], filled(h, texts[len(texts)-1]))
			theirs := filled(h, texts[len(texts)-2])
			renames := 0
			m.beforeRename = func() {
				if renames == n {
					put(t, files[n], theirs)
				}
				renames++
			}
			if r := m.Install(h, o); r.Err != nil || renames != len(files)+1 {
				t.Fatalf("%s: %+v after %d renames", files[n], r, renames)
			}
			if text, err := os.ReadFile(files[n]); err != nil || !inOrder(text, []byte(theirs)) || bytes.Equal(text, []byte(theirs)) {
				t.Errorf("%s: %v, %q", files[n], err, text)
			}
			m.beforeRename = nil
			if r := m.Uninstall(h, o); r.Err != nil {
				t.Errorf("%+v", r)
			}
			if after := m.tree(t); len(after) != 1 || !strings.HasSuffix(after[m.treeName(files[n])], "\n"+theirs) {
				t.Errorf("%s: %q", files[n], after)
			}

			m = machine(t, nil)
			files = m.files(t, h, o)
			renames = 0
			m.beforeRename = func() {
				if renames == n {
					put(t, files[n], "{\"a\": [\n\tx: \"}\n")
				}
				renames++
			}
			if r := m.Install(h, o); r.Err == nil || !strings.HasSuffix(m.tree(t)[m.treeName(files[n])], "\n{\"a\": [\n\tx: \"}\n") {
				t.Errorf("%s: %+v, %q", files[n], r, m.tree(t))
			}
			for name := range m.tree(t) {
				if strings.HasSuffix(name, ".tmp") {
					t.Errorf("%s is left", name)
				}
			}
		}
	})
}

// Every file may be a link: it stays one, and what it points to is changed.
func TestLinkedFiles(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h Host, o Options) {
		m := machine(t, nil)
		for n, file := range m.files(t, h, o) {
			texts := handEdited[formatOf(h, file)]
			if len(texts) == 0 {
				continue
			}
			to := m.path("~/dotfiles/" + string(rune('a'+n)) + filepath.Ext(file))
			put(t, to, filled(h, texts[len(texts)-1]))
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(to, file); err != nil {
				t.Skip(err)
			}
		}
		before := m.tree(t)
		if r := m.Install(h, o); r.Err != nil {
			t.Fatal(r.Err)
		}
		for name, text := range before {
			if now := m.tree(t)[name]; now[0] != text[0] || strings.HasPrefix(name, "~/dotfiles/") == (now == text) && now[0] != 'L' {
				t.Errorf("%s: %q, was %q", name, now, text)
			}
		}
		if r := m.Uninstall(h, o); r.Err != nil || !maps.Equal(before, m.tree(t)) {
			t.Errorf("%+v, before %q, after %q", r, before, m.tree(t))
		}
	})
}

// A file whose folder cannot be written to stays as it was.
func TestLockedFolder(t *testing.T) {
	t.Parallel()
	if os.Getuid() <= 0 {
		t.Skip("no folder is locked to this user")
	}
	each(t, func(t *testing.T, h Host, o Options) {
		m := machine(t, nil)
		file := m.files(t, h, o)[0]
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Dir(file), 0o500); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(filepath.Dir(file), 0o700)
		before := m.tree(t)
		if r := m.Install(h, o); !errors.Is(r.Err, fs.ErrPermission) || !maps.Equal(before, m.tree(t)) {
			t.Errorf("%+v, %q", r, m.tree(t))
		}
	})
}

// What the hosts' own commands wrote, with this program: copied from files that
// they left.
var theirOwn = map[string]string{
	"claude":   "{\n  \"installMethod\": \"npm\",\n  \"mcpServers\": {\n    \"herdr_link\": {\n      \"type\": \"stdio\",\n      \"command\": \"/opt/herdr-link\",\n      \"args\": [],\n      \"env\": {}\n    }\n  }\n}",
	"codex":    "[mcp_servers.herdr_link]\ncommand = \"/opt/herdr-link\"\n",
	"gemini":   "{\n  \"mcpServers\": {\n    \"herdr_link\": {\n      \"command\": \"/opt/herdr-link\",\n      \"args\": []\n    }\n  }\n}",
	"pi":       "{\n  \"mcpServers\": {\n    \"herdr_link\": {\n      \"command\": \"/opt/herdr-link\",\n      \"exposure\": \"direct\"\n    }\n  }\n}\n",
	"qwen":     "{\n  \"mcpServers\": {\n    \"herdr_link\": {\n      \"command\": \"/opt/herdr-link\",\n      \"args\": []\n    }\n  }\n}",
	"amp":      "{\n  \"amp.mcpServers\": {\n    \"herdr_link\": {\n      \"command\": \"/opt/herdr-link\",\n      \"args\": [\n        \"--eager\"\n      ]\n    }\n  }\n}",
	"copilot":  "{\n  \"mcpServers\": {\n    \"herdr_link\": {\n      \"tools\": [\n        \"*\"\n      ],\n      \"type\": \"local\",\n      \"command\": \"/opt/herdr-link\",\n      \"args\": []\n    }\n  }\n}\n",
	"droid":    "{\n  \"mcpServers\": {\n    \"herdr_link\": {\n      \"type\": \"stdio\",\n      \"command\": \"/opt/herdr-link\",\n      \"args\": [],\n      \"disabled\": false\n    }\n  }\n}",
	"kilo":     "{\n  \"$schema\": \"https://app.kilo.ai/config.json\",\n  \"mcp\": {\n    \"herdr_link\": {\n      \"type\": \"local\",\n      \"command\": [\n        \"/opt/herdr-link\"\n      ]\n    }\n  }\n}",
	"cline":    "{\n  \"mcpServers\": {\n    \"herdr_link\": {\n      \"transport\": {\n        \"type\": \"stdio\",\n        \"command\": \"/opt/herdr-link\"\n      }\n    }\n  }\n}\n",
	"qodercli": "{\n  \"mcpServers\": {\n    \"herdr_link\": {\n      \"command\": \"/opt/herdr-link\",\n      \"args\": [\n        \"--eager\"\n      ]\n    }\n  }\n}",
}

// An entry that the host's own command made is ours, and install makes of it
// what it would have written, and leaves what else is in it.
func TestTheirOwn(t *testing.T) {
	t.Parallel()
	for name, text := range theirOwn {
		h := must(t, name)
		k := editorOf(h.format)
		m := machine(t, nil)
		o := Options{Program: program, MCP: true}
		file := m.pick(h.file)
		put(t, file, text)
		if s := m.Status(h, o); s.State != "current" && s.State != "old" {
			t.Errorf("%s: %+v", name, s)
		}
		want := plain(h.entry(o, m.OS, permit{}))
		if name != "pi" && name != "codex" && name != "cline" { // these leave out an empty list
			got, _, _ := k.get([]byte(text), h.entryPath())
			for key, v := range got.(map[string]any) {
				if key != "args" && !covers(want.(map[string]any)[key], v) {
					t.Errorf("%s: its command writes %s: %v", name, key, v)
				}
			}
		}
		if r := m.Install(h, o); r.Err != nil {
			t.Fatal(r.Err)
		}
		now, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := k.get(now, h.entryPath()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v in %s", name, got, want, now)
		}
		if r := m.Uninstall(h, o); r.Err != nil {
			t.Errorf("%s: %+v", name, r)
		}
		if strings.Contains(m.tree(t)[m.treeName(file)], "herdr") {
			t.Errorf("%s: %q", name, m.tree(t))
		}
	}
}

// Where the files are, by system. What is empty is as on Linux.
func TestPaths(t *testing.T) {
	t.Parallel()
	const roaming, local = "~/AppData/Roaming", "~/AppData/Local"
	type place struct{ linux, darwin, windows string }
	want := map[string][]place{ // entry, adapter, permissions, hook
		"claude":     {{linux: "~/.claude.json"}, {}, {linux: "~/.claude/settings.json"}, {linux: "~/.claude/settings.json"}},
		"codex":      {{linux: "~/.codex/config.toml"}, {}, {}, {linux: "~/.codex/hooks.json"}},
		"opencode":   {{linux: "~/.config/opencode/opencode.json"}, {linux: "~/.config/opencode/plugins/herdr-link.js"}, {}, {}},
		"pi":         {{linux: "~/.pi/agent/mcp.json"}, {linux: "~/.pi/agent/extensions/herdr-link/index.ts"}, {}, {}},
		"gemini":     {{linux: "~/.gemini/settings.json"}, {}, {linux: "~/.gemini/policies/herdr-link.toml"}, {}},
		"agy":        {{linux: "~/.gemini/config/mcp_config.json"}, {}, {linux: "~/.gemini/antigravity-cli/settings.json"}, {linux: "~/.gemini/config/hooks.json"}},
		"qwen":       {{linux: "~/.qwen/settings.json"}, {}, {linux: "~/.qwen/settings.json"}, {}},
		"kimi":       {{linux: "~/.kimi-code/mcp.json"}, {}, {}, {}},
		"amp":        {{linux: "~/.config/amp/settings.json"}, {}, {}, {}},
		"goose":      {{"~/.config/goose/config.yaml", "", roaming + "/Block/goose/config/config.yaml"}, {}, {}, {}},
		"cursor":     {{linux: "~/.cursor/mcp.json"}, {}, {linux: "~/.cursor/cli-config.json"}, {}},
		"vscode":     {{"~/.config/Code/User/mcp.json", "~/Library/Application Support/Code/User/mcp.json", roaming + "/Code/User/mcp.json"}, {}, {}, {}},
		"copilot":    {{linux: "~/.copilot/mcp-config.json"}, {}, {}, {}},
		"droid":      {{linux: "~/.factory/mcp.json"}, {}, {}, {}},
		"kilo":       {{linux: "~/.config/kilo/kilo.jsonc"}, {}, {}, {}},
		"kiro":       {{linux: "~/.kiro/settings/mcp.json"}, {}, {}, {}},
		"cline":      {{linux: "~/.cline/data/settings/cline_mcp_settings.json"}, {}, {}, {}},
		"hermes":     {{"~/.hermes/config.yaml", "", local + "/hermes/config.yaml"}, {}, {}, {}},
		"qodercli":   {{linux: "~/.qoder/settings.json"}, {}, {linux: "~/.qoder/settings.json"}, {}},
		"mastracode": {{linux: "~/.mastracode/mcp.json"}, {}, {}, {}},
	}
	m := machine(t, nil)
	for _, h := range Table() {
		if h.Why != "" {
			continue
		}
		if len(want[h.Name]) != 4 {
			t.Errorf("no paths of %s", h.Name)
			continue
		}
		all := []paths{h.file, {}, {}, {}}
		if h.adapter != nil {
			all[1] = h.adapter.file
		}
		if h.grant != nil {
			all[2] = h.grant.file
		}
		if h.hook != nil {
			all[3] = h.hook.file
		}
		for i, p := range all {
			w := want[h.Name][i]
			for os, path := range map[string]string{"linux": w.linux, "darwin": w.darwin, "windows": w.windows} {
				m.OS = os
				m.Getenv = func(name string) string {
					return map[string]string{"windowsAPPDATA": m.path(roaming), "windowsLOCALAPPDATA": m.path(local)}[os+name]
				}
				if path == "" {
					path = w.linux
				}
				if path != "" {
					path = m.path(path)
				}
				if got := m.pick(p); got != path {
					t.Errorf("%s, %s: %s, want %s", h.Name, os, got, path)
				}
			}
			if again := slices.Concat(p.all, p.darwin, p.windows); slices.ContainsFunc(again, func(c string) bool { return strings.Contains(c, `\`) }) {
				t.Errorf("%s: a backslash in %q", h.Name, again)
			}
		}
	}
}
