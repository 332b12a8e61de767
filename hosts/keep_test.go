package hosts

import (
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// args returns the arguments of our entry, without those that go by the host.
func (m Machine) args(t *testing.T, h Host, o Options) (args []string) {
	t.Helper()
	words := commandOf(m.entryThere(h, o))
	if len(words) == 0 {
		t.Fatalf("%s: no entry of ours", h.Name)
	}
	for _, w := range words[1:] {
		if w != "--eager" && w != "--no-gateway-close" {
			args = append(args, w)
		}
	}
	return args
}

// What the operator chose and a later install does not name stays in the entry,
// in one order; what it names is taken, and the default comes back by name.
func TestRenewedEntryKeeps(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h Host, o Options) {
		if h.viaAdapter(o) {
			return
		}
		o.Allow, o.Hint = false, false
		m := machine(t, nil)
		before := m.tree(t)
		step := func(what string, change func(*Options), said string, want ...string) {
			t.Helper()
			now := o
			change(&now)
			r := m.Install(h, now)
			if got := m.args(t, h, o); r.Err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, %s: %q, not %q, %v", h.Name, what, got, want, r.Err)
			}
			if _, kept, _ := strings.Cut(r.Done, "; kept "); kept != said && !strings.HasPrefix(kept, said+";") || said == "" && kept != "" {
				t.Errorf("%s, %s: %q", h.Name, what, r.Done)
			}
			installed := m.tree(t)
			if r := m.Install(h, now); r.Err != nil || !strings.HasPrefix(r.Done, "is there already") || !maps.Equal(installed, m.tree(t)) {
				t.Errorf("%s, %s, again: %+v", h.Name, what, r)
			}
		}
		step("chosen", func(o *Options) { o.Toolsets = "link,control" }, "", "--toolsets", "link,control")
		step("renewed", func(o *Options) {}, "--toolsets link,control", "--toolsets", "link,control")
		step("allowed", func(o *Options) { o.Allow = true }, "--toolsets link,control", "--toolsets", "link,control")
		step("moved", func(o *Options) { o.Program = "/usr/bin/herdr-link" }, "--toolsets link,control", "--toolsets", "link,control")
		step("another choice", func(o *Options) { o.Toolsets, o.CallerRole = "response,link", "coordinator" }, "", "--toolsets", "response,link", "--caller-role", "coordinator")
		step("both", func(o *Options) {}, "--toolsets response,link --caller-role coordinator", "--toolsets", "response,link", "--caller-role", "coordinator")
		step("the role", func(o *Options) { o.Toolsets = "response" }, "--caller-role coordinator", "--toolsets", "response", "--caller-role", "coordinator")
		step("the default", func(o *Options) { o.Toolsets = "link" }, "", "--toolsets", "link")
		step("the default, renewed", func(o *Options) {}, "", "--toolsets", "link")
		if r := m.Uninstall(h, o); r.Err != nil || !maps.Equal(before, m.tree(t)) {
			t.Errorf("%s: %+v, %q", h.Name, r, m.tree(t))
		}
	})
}

// A hand edit of our entry stays: other members, choices, variables, and options
// that install does not write by itself.
func TestRenewedEntryKeepsHandEdits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		host, file, text string
		has, not         []string
		args             []string
	}{
		"options": {"claude", "~/.claude.json", `{"mcpServers": {"herdr_link": {"command": "/x/herdr-link", "args": ["-era=2026-07-28", "--max-session-bytes", "2000000", "--eager", "--response-hosts=codex", "--toolsets", "mesh", "--toolsets", "response", "--dance"]}}}`,
			nil, nil, []string{"--toolsets", "response", "--response-hosts", "codex", "--max-session-bytes", "2000000", "--era", "2026-07-28"}},
		"members": {"claude", "~/.claude.json", `{"mcpServers": {"herdr_link": {"alwaysLoad": true, "command": "/x/herdr-link", /* c */ "timeout": 9, "env": {"HERDR_LINK_TOOLSETS": "link,control"}}}}`,
			[]string{`"alwaysLoad": true`, "/* c */", `"timeout": 9`, `{"HERDR_LINK_TOOLSETS": "link,control"}`}, []string{"/x/"}, nil},
		"trust": {"gemini", "~/.gemini/settings.json", `{"mcpServers": {"herdr_link": {"command": "/x/herdr-link", "trust": true, "args": []}}}`, []string{`"trust": true`}, []string{"/x/"}, nil},
		"variables": {"cursor", "~/.cursor/mcp.json", `{"mcpServers": {"herdr_link": {"command": "/x/herdr-link", "env": {"HERDR_LINK_LOG": "/l", "HERDR_ENV": "x"}}}}`,
			[]string{`"HERDR_LINK_LOG": "/l"`, `"${env:HERDR_SESSION}"`, `"${env:HERDR_ENV}"`}, nil, nil},
		"switched off":  {"kilo", "~/.config/kilo/kilo.jsonc", `{"mcp": {"herdr_link": {"type": "local", "command": ["/x/herdr-link", "--no-gateway-close"], "enabled": false}}}`, []string{`"enabled": false`, `"--no-gateway-close"`}, []string{"/x/"}, nil},
		"disabled":      {"droid", "~/.factory/mcp.json", `{"mcpServers": {"herdr_link": {"command": "/x/herdr-link", "disabled": true}}}`, []string{`"disabled": true`}, []string{"/x/"}, nil},
		"fewer tools":   {"copilot", "~/.copilot/mcp-config.json", `{"mcpServers": {"herdr_link": {"command": "/x/herdr-link", "tools": ["herdr_link"]}}}`, []string{`"tools": ["herdr_link"]`}, []string{"*"}, nil},
		"more approved": {"kiro", "~/.kiro/settings/mcp.json", `{"mcpServers": {"herdr_link": {"command": "/x/herdr-link", "autoApprove": ["herdr_link", "herdr_pane_list"]}}}`, []string{`"herdr_link", "herdr_link_peers", "herdr_link_send", "herdr_pane_list"`, "--no-gateway-close"}, nil, nil},
		"names": {"codex", "~/.codex/config.toml", "[mcp_servers.herdr_link]\ncommand = \"/x/herdr-link\"\nenv_vars = [\"MINE\"] # c\nenabled = false\ntool_timeout_sec = 9\nenv = { HERDR_LINK_LOG = \"/l\" }\n",
			[]string{`"MINE"] # c`, `"HERDR_PANE_ID"`, "enabled = false\ntool_timeout_sec = 9\nenv = { HERDR_LINK_LOG = \"/l\" }\n"}, []string{"/x/"}, nil},
		"all names": {"codex", "~/.codex/config.toml", strings.Replace(codexEntry, "env_vars = [", "env_vars = [\"MINE\", ", 1) + "\n[mcp_servers.herdr_link.env]\nA = \"b\"\n", []string{`["MINE", "HERDR_ENV"`, "[mcp_servers.herdr_link.env]\nA = \"b\"\n"}, []string{"/x/"}, nil},
		"goose":     {"goose", "~/.config/goose/config.yaml", "extensions:\n  herdr_link:\n    cmd: /x/herdr-link\n    timeout: 600 # c\n    envs:\n      A: b\n", []string{"timeout: 600 # c", "    envs:\n      A: b\n"}, []string{"/x/", "300"}, nil},
		"hermes":    {"hermes", "~/.hermes/config.yaml", "mcp_servers:\n  herdr_link:\n    command: /x/herdr-link\n    env:\n      A: b\n      HERDR_ENV: x\n", []string{"A: \"b\"\n", `"${HERDR_ENV}"`, `"${HERDR_SESSION}"`}, []string{"/x/"}, nil},
		"cline":     {"cline", "~/.cline/data/settings/cline_mcp_settings.json", `{"mcpServers": {"herdr_link": {"transport": {"type": "stdio", "command": "/x/herdr-link", "args": ["--toolsets", "link,mesh"], "env": {"A": "b"}}}}}`, []string{`"env": {"A": "b"}`}, []string{"/x/"}, []string{"--toolsets", "link,mesh"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := must(t, tc.host)
			m := machine(t, map[string]string{tc.file: tc.text})
			before := m.tree(t)
			o := Options{Program: program, MCP: true}
			if r := m.Install(h, o); r.Err != nil {
				t.Fatal(r.Err)
			}
			got := m.tree(t)[tc.file]
			for _, words := range tc.has {
				if !strings.Contains(got, words) {
					t.Errorf("%s is not in %s", words, got)
				}
			}
			for _, words := range append(tc.not, "--dance") {
				if strings.Contains(got, words) {
					t.Errorf("%s is in %s", words, got)
				}
			}
			if args := m.args(t, h, o); !slices.Equal(args, tc.args) {
				t.Errorf("%q, not %q", args, tc.args)
			}
			installed := m.tree(t)
			if r := m.Install(h, o); r.Err != nil || !maps.Equal(installed, m.tree(t)) {
				t.Errorf("again: %+v, %s", r, m.tree(t)[tc.file])
			}
			if len(before) != 1 {
				t.Error("no file")
			}
		})
	}
	m := machine(t, map[string]string{"~/.codex/config.toml": "[mcp_servers.herdr_link]\ncommand = \"herdr-link\"\nenv_vars = [{ name = \"A\", source = \"remote\" }]\n"})
	before := m.tree(t)
	if r := m.Install(must(t, "codex"), Options{Program: program}); r.Err == nil || !strings.Contains(r.Err.Error(), "env_vars") || !maps.Equal(before, m.tree(t)) {
		t.Errorf("%+v, %q", r, m.tree(t))
	}
}

// codexEntry is what install writes for Codex, with another program.
var codexEntry = func() string {
	h, _ := Find("codex")
	text, _ := setTOML(nil, h.entryPath(), h.form(Command{"/x/herdr-link", []string{"--eager"}}))
	return string(text)
}()

// Toolsets that variables of the entry name count, and stay where they are.
func TestToolsetsOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"command = \"herdr-link\"\n": {"link"},
		"command = \"herdr-link\"\nenv = { X = \"y, }\", # c\n HERDR_LINK_TOOLSETS = 'link, mesh' }\n":                                             {"link", "mesh"},
		"command = \"herdr-link\"\n[mcp_servers.herdr_link.env]\nHERDR_LINK_TOOLSETS = \"control\"\n":                                              {"control"},
		"command = \"herdr-link\"\nargs = [\"--toolsets=response\"]\nenv.a = 1\n[mcp_servers.herdr_link.env]\nHERDR_LINK_TOOLSETS = \"control\"\n": {"response"},
	} {
		v, _, err := getTOML([]byte("[mcp_servers.herdr_link]\n"+text), []string{"mcp_servers", "herdr_link"})
		if err != nil {
			t.Fatal(err)
		}
		if got := toolsetsOf(v.(map[string]any)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// What is to be pasted has what the entry there had.
func TestFixKeeps(t *testing.T) {
	t.Parallel()
	m := machine(t, map[string]string{
		"~/.codex/config.toml": "[mcp_servers.herdr_link]\ncommand = \"herdr-link\"\nargs = [\"--toolsets\", \"link,control\"]\n", "~/.codex/hooks.json": "{]",
	})
	if r := m.Install(must(t, "codex"), Options{Program: program, Hint: true}); r.Err == nil || len(r.Fix) != 2 || !strings.Contains(r.Fix[0].Text, `"link,control"`) {
		t.Errorf("%+v", r)
	}
}

// Who may read answers is asked for once.
func TestNobodyMayRead(t *testing.T) {
	t.Parallel()
	const said = "nobody may read answers yet"
	h := must(t, "claude")
	for name, tc := range map[string]struct {
		text string
		o    Options
		want bool
	}{
		"none":     {"", Options{Toolsets: "link,response"}, true},
		"other":    {"", Options{Toolsets: "link,control"}, false},
		"given":    {"", Options{Toolsets: "response", CallerRole: "coordinator"}, false},
		"kept":     {`{"mcpServers": {"herdr_link": {"command": "herdr-link", "args": ["--toolsets", "response", "--caller-role", "coordinator"]}}}`, Options{Toolsets: "link,response"}, false},
		"variable": {`{"mcpServers": {"herdr_link": {"command": "herdr-link", "env": {"HERDR_LINK_CALLER_ROLE": "coordinator"}}}}`, Options{Toolsets: "link,response"}, false},
		"still":    {`{"mcpServers": {"herdr_link": {"command": "herdr-link", "env": {"HERDR_LINK_TOOLSETS": "response"}}}}`, Options{}, true},
	} {
		m := machine(t, nil)
		if tc.text != "" {
			put(t, m.path("~/.claude.json"), tc.text)
		}
		tc.o.Program = program
		if r := m.Install(h, tc.o); r.Err != nil || strings.Contains(r.Done, said) != tc.want {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// An adapter whose tools an entry has goes, and that is said; not where a host is
// too old for the entry.
func TestAdapterGivesWay(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"opencode", "pi"} {
		h := must(t, name)
		m := machine(t, nil)
		o := Options{Program: program, Version: "1"}
		if r := m.Install(h, o); r.Err != nil || strings.Contains(r.Done, "place") {
			t.Fatalf("%+v", r)
		}
		adapter, _ := m.place(h.adapter.file, nil, o)
		o.Toolsets, o.DryRun = "link,control", true
		if r := m.Install(h, o); r.Err != nil || !strings.Contains(r.Done, "takes the place of its adapter, "+adapter) || !exists(adapter) {
			t.Errorf("%+v", r)
		}
		o.DryRun = false
		if r := m.Install(h, o); r.Err != nil || !strings.Contains(r.Done, "takes the place of its adapter, "+adapter) || exists(adapter) {
			t.Errorf("%+v", r)
		}
		if r := m.Install(h, o); r.Err != nil || strings.Contains(r.Done, "place") {
			t.Errorf("%+v", r)
		}
	}
	for version, tooOld := range map[string]bool{"0.73.1": true, "1.5.9": true, "1.6.0": false} {
		m := machine(t, map[string]string{"~/lib/pi/package.json": `{"version": "` + version + `", "bin": {"pi": "bin/pi"}}`, "~/lib/pi/bin/pi": "x"})
		if err := os.Chmod(m.path("~/lib/pi/bin/pi"), 0o700); err != nil {
			t.Fatal(err)
		}
		m.Getenv = func(name string) string { return map[string]string{"PATH": m.path("~/lib/pi/bin")}[name] }
		h := must(t, "pi")
		if m.program(h.programs) == "" {
			t.Skip("that is no program here")
		}
		o := Options{Program: program, Version: "1"}
		if r := m.Install(h, o); r.Err != nil {
			t.Fatal(r.Err)
		}
		before := m.tree(t)
		for _, with := range []Options{{Toolsets: "link,control"}, {Toolsets: "control"}, {MCP: true}} {
			with.Program, with.Version = program, "1"
			r := m.Install(h, with)
			if (r.Err != nil) != tooOld || tooOld && (!strings.Contains(r.Err.Error(), "1.6") || len(r.Fix) > 0 || !maps.Equal(before, m.tree(t))) {
				t.Errorf("%s: %+v", version, r)
			}
		}
	}
}

// However often and with whatever options install ran, uninstall leaves all as it was.
func TestAnyInstalls(t *testing.T) {
	t.Parallel()
	choices := map[string]Options{
		"": {}, "--mcp": {MCP: true}, "--allow": {Allow: true}, "--hint": {Hint: true}, "--toolsets link": {Toolsets: "link"}, "--toolsets link,control": {Toolsets: "link,control"},
		"--toolsets response": {Toolsets: "response", CallerRole: "coordinator"}, "--npx": {NPX: true}, "--force": {Force: true}, "--mcp --allow --hint": full,
	}
	for seed, h := range Table() {
		if h.Why != "" {
			continue
		}
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, uint64(seed)))
			for range 30 {
				m := machine(t, nil)
				project := h.HasProject() && r.IntN(3) == 0
				for _, mcp := range []bool{false, true} {
					for _, file := range m.files(t, h, Options{Program: program, MCP: mcp, Project: project, Allow: true, Hint: true}) {
						if texts := handEdited[formatOf(h, file)]; len(texts) > 0 && r.IntN(2) == 0 {
							put(t, file, filled(h, texts[r.IntN(len(texts))]))
						}
					}
				}
				before, folders := m.tree(t), m.folders(t)
				var done []string
				names := slices.Sorted(maps.Keys(choices))
				for range 1 + r.IntN(4) {
					name := names[r.IntN(len(names))]
					o := choices[name]
					o.Program, o.Version, o.Project = program, "1", project
					done = append(done, name)
					if r := m.Install(h, o); r.Err != nil {
						t.Fatalf("%q: %v", done, r.Err)
					}
				}
				if r := m.Uninstall(h, Options{Project: project}); r.Err != nil || !maps.Equal(before, m.tree(t)) || !slices.Equal(folders, m.folders(t)) {
					t.Errorf("%q, project %t: %v, before %q, after %q, %q", done, project, r.Err, before, m.tree(t), m.folders(t))
				}
			}
		})
	}
}

// What an adapter replaced comes back, also if an entry has taken its place since.
func TestReplacedAdapter(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"opencode", "pi"} {
		h := must(t, name)
		m := machine(t, nil)
		put(t, m.pick(h.adapter.file), "// mine\n")
		before := m.tree(t)
		for _, o := range []Options{{Force: true}, {MCP: true}} {
			o.Program, o.Version = program, "1"
			if r := m.Install(h, o); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		if r := m.Uninstall(h, Options{}); r.Err != nil || !maps.Equal(before, m.tree(t)) {
			t.Errorf("%+v, before %q, after %q", r, before, m.tree(t))
		}
	}
}

// ~/.config goes with the last host if install has made it, and stays with what
// others put there since, without our mark.
func TestConfigFolder(t *testing.T) {
	t.Parallel()
	m := machine(t, nil)
	before := m.folders(t)
	both := func(do func(Host, Options) Report, names ...string) {
		t.Helper()
		for _, name := range names {
			if r := do(must(t, name), Options{Program: program, Version: "1"}); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	both(m.Install, "amp", "goose", "claude")
	both(m.Uninstall, "amp")
	if len(m.tree(t)) != 3 {
		t.Errorf("%q", m.tree(t))
	}
	both(m.Uninstall, "goose", "claude")
	if after := m.folders(t); !slices.Equal(before, after) || len(m.tree(t)) > 0 {
		t.Errorf("%q, before %q, %q", after, before, m.tree(t))
	}
	both(m.Install, "amp", "goose")
	put(t, m.path("~/.config/mine"), "x")
	both(m.Uninstall, "goose", "amp")
	if files := slices.Collect(maps.Keys(m.tree(t))); !slices.Equal(files, []string{"~/.config/mine"}) {
		t.Errorf("%q", files)
	}
}
