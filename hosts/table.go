package hosts

import (
	"slices"

	"herdr-link/adapters"
)

// A Host is a row of the table: where an agent host keeps its MCP servers and
// how an entry looks there. What is not known of a host is left out, and a host
// of which too little is known has a reason instead.
type Host struct {
	Name  string // Herdr's name of the kind, where it has one
	Title string
	Why   string // why there is no row; all else is empty then

	programs []string // that show that the host is installed, as does its folder
	folder   paths
	file     paths // where the entry stands
	project  []string
	format   string   // json, toml, yaml
	path     []string // of keys, down to the servers
	form     func(Command) object

	adapter *adapterFile // a file of ours that is better than an entry
	grant   *grant
	hook    *hook

	allow   string // how the user allows the tools; "" if --allow does it
	tool    string // what the model sees, with %s for herdr_link
	refresh string // whether the host lists the tools again: yes, no, not known
	passes  string // of its environment to a server: all, named (what the entry names), or "" if that is not known
	todo    string // what the user does after install
	notes   []string
	source  string // where all this is from
}

// paths are candidates for a file: the first one counts whose variables are
// set. With a question mark in front one counts only if it exists.
type paths struct{ all, darwin, windows []string }

func everywhere(candidates ...string) paths { return paths{all: candidates} }

// A Command is how a host starts the server.
type Command struct {
	Program string
	Args    []string
}

type adapterFile struct {
	file    paths
	project []string
	text    func(binary, version string) []byte
}

// A grant is how a host is told not to ask before the gateway, peers and send.
type grant struct {
	file    paths // nil: the entry's own file
	project []string
	path    []string // of an array of rules
	rules   []string
	field   string // or the member of the entry that has the names of tools
	tables  bool   // or a table for each tool below the entry, as Codex has them
	seldom  bool   // unless the user wants it otherwise, the host asks for close alone
	text    string // or a whole file, which begins with grantMark
}

// grantMark is the first line of a file that is a grant.
const grantMark = "# herdr-link install --allow made this file, and herdr-link uninstall removes it.\n"

// A hook is a command that the host runs when a session starts.
type hook struct {
	file paths
	path []string // of an array; empty: of a group called herdr-link
	make func(command string) object
}

// granted are the tools that need no question. Closing always does.
var granted = []string{"herdr_link", "herdr_link_peers", "herdr_link_send"}

const key = "herdr_link"

// herdrVars is what a server must see of its environment.
var herdrVars = []string{"HERDR_ENV", "HERDR_BIN_PATH", "HERDR_PANE_ID", "HERDR_SOCKET_PATH", "HERDR_SESSION"}

var ownVars = []string{"HERDR_LINK_OFF", "HERDR_LINK_EAGER", "HERDR_LINK_ERA", "HERDR_LINK_TOOLSETS", "HERDR_LINK_TIMEOUT", "HERDR_LINK_LOG",
	"HERDR_LINK_CLI_TIMEOUT_MS", "DSH_HERDR_CLI_TIMEOUT_MS", "HERDR_LINK_PREVIEW_REQUIRED", "DSH_HERDR_PREVIEW_REQUIRED", "HERDR_LINK_AGENT_ARGS", "HERDR_MESH_STATE_DIR", "HERDR_LINK_MESH_UNPROVEN_CALLER", "HERDR_LINK_VERIFY_NODE",
	// Those of the toolset response: who may read, and where sessions are.
	"HERDR_LINK_CALLER_ROLE", "SHEPHERD_MODE", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME"}

// Table returns all rows.
func Table() []Host { return slices.Clone(table) }

// Find returns the row with that name.
func Find(name string) (Host, bool) {
	i := slices.IndexFunc(table, func(h Host) bool { return h.Name == name })
	if i < 0 {
		return Host{}, false
	}
	return table[i], true
}

// onlyOnce reports whether the host lists tools only once, so that all must be
// offered from the start.
func (h Host) onlyOnce() bool { return h.refresh == "no" }

// HasProject reports whether a project can have a file of its own for the host.
func (h Host) HasProject() bool { return len(h.project) > 0 }

func simple(c Command) object {
	return object{{"command", c.Program}, {"args", words(c.Args...)}}
}

func typed(kind string, more ...member) func(Command) object {
	return func(c Command) object {
		return append(append(object{{"type", kind}}, simple(c)...), more...)
	}
}

// inOne has program and arguments in one list.
func inOne(c Command) object {
	return object{{"type", "local"}, {"command", words(append([]string{c.Program}, c.Args...)...)}, {"enabled", true}}
}

// forwarding names Herdr's variables, each with the reference to its value that
// the host replaces.
func forwarding(before, after string) func(Command) object {
	return func(c Command) object {
		env := object{}
		for _, v := range herdrVars {
			env = append(env, member{v, before + v + after})
		}
		return append(simple(c), member{"env", env})
	}
}

// ruled has a rule for each tool that needs no question.
func ruled(before, after string) []string {
	rules := make([]string, len(granted))
	for i, name := range granted {
		rules[i] = before + name + after
	}
	return rules
}

// sessionStart is the form that Claude Code made and Codex took over.
func sessionStart(command string) object {
	return object{{"hooks", list{object{{"type", "command"}, {"command", command}}}}}
}

var table = []Host{
	{
		Name: "claude", Title: "Claude Code", programs: []string{"claude"},
		folder: everywhere("$CLAUDE_CONFIG_DIR", "~/.claude"),
		file:   everywhere("?$CLAUDE_CONFIG_DIR/.config.json", "$CLAUDE_CONFIG_DIR/.claude.json", "?~/.claude/.config.json", "~/.claude.json"),
		format: "json", path: []string{"mcpServers"}, project: []string{".mcp.json"},
		form: typed("stdio", member{"env", object{}}),
		grant: &grant{file: everywhere("$CLAUDE_CONFIG_DIR/settings.json", "~/.claude/settings.json"), project: []string{".claude/settings.json"},
			path: []string{"permissions", "allow"}, rules: ruled("mcp__herdr_link__", "")},
		hook: &hook{file: everywhere("$CLAUDE_CONFIG_DIR/settings.json", "~/.claude/settings.json"), path: []string{"hooks", "SessionStart"}, make: sessionStart},
		tool: "mcp__herdr_link__%s", refresh: "yes", passes: "all", todo: "start a new session",
		notes: []string{
			"A server of a project's .mcp.json stays pending until it is approved once.",
			"From 2.1.332 on the model finds MCP tools by its tool search; a member `\"alwaysLoad\": true` puts the gateway in front of it.",
		},
		source: "`claude mcp add` of 2.1.197, run",
	},
	{
		Name: "codex", Title: "Codex", programs: []string{"codex"},
		folder: everywhere("$CODEX_HOME", "~/.codex"), file: everywhere("$CODEX_HOME/config.toml", "~/.codex/config.toml"),
		format: "toml", path: []string{"mcp_servers"}, project: []string{".codex/config.toml"},
		form: func(c Command) object {
			return append(simple(c), member{"env_vars", words(append(slices.Clone(herdrVars), ownVars...)...)})
		},
		grant: &grant{tables: true, seldom: true},
		hook:  &hook{file: everywhere("$CODEX_HOME/hooks.json", "~/.codex/hooks.json"), path: []string{"hooks", "SessionStart"}, make: sessionStart},
		tool:  "mcp__herdr_link, function %s", refresh: "no", passes: "named", todo: "restart it",
		notes: []string{
			"It hands a server only the variables that `env_vars` names: without them every call is NOT_IN_HERDR.",
			"It goes by what a tool says of itself, and asks for close alone, unless `default_tools_approval_mode` is `\"prompt\"`.",
			"A project's file counts only in a trusted folder. A hook runs only after it was reviewed there with /hooks.",
		},
		source: "`codex mcp add`, `codex mcp list` of 0.171.0, run; hooks: developers.openai.com/codex/hooks",
	},
	{
		Name: "opencode", Title: "OpenCode", programs: []string{"opencode"},
		folder: everywhere("$OPENCODE_CONFIG_DIR", "$XDG_CONFIG_HOME/opencode", "~/.config/opencode"),
		file: everywhere("?$XDG_CONFIG_HOME/opencode/opencode.json", "?$XDG_CONFIG_HOME/opencode/opencode.jsonc", "$XDG_CONFIG_HOME/opencode/opencode.json",
			"?~/.config/opencode/opencode.json", "?~/.config/opencode/opencode.jsonc", "~/.config/opencode/opencode.json"),
		format: "json", path: []string{"mcp"}, project: []string{"?opencode.json", "?opencode.jsonc", "opencode.json"}, form: inOne,
		adapter: &adapterFile{file: everywhere("$XDG_CONFIG_HOME/opencode/plugins/herdr-link.js", "~/.config/opencode/plugins/herdr-link.js"),
			project: []string{".opencode/plugins/herdr-link.js"}, text: adapters.OpenCode},
		allow: "it does not ask, unless `permission` in its configuration says so",
		tool:  "herdr_link_%s; with the plugin herdr_link", refresh: "yes", passes: "all", todo: "restart it",
		notes: []string{
			"A call ends after 60 seconds.",
			"With any plugin it first installs a package of its own, 64 MB; without network it tries that for 70 seconds at each start. `--mcp` needs no plugin.",
			"The Node package's plugin stands at the same place: `--force` replaces it, and keeps a copy.",
		},
		source: "`opencode mcp list` of 1.18.33, run",
	},
	{
		Name: "pi", Title: "Pi", programs: []string{"pi"},
		folder: everywhere("$PI_CODING_AGENT_DIR", "~/.pi/agent"), file: everywhere("$PI_CODING_AGENT_DIR/mcp.json", "~/.pi/agent/mcp.json"),
		format: "json", path: []string{"mcpServers"}, project: []string{".pi/mcp.json"},
		form: func(c Command) object { return append(simple(c), member{"exposure", "direct"}) },
		adapter: &adapterFile{file: everywhere("$PI_CODING_AGENT_DIR/extensions/herdr-link/index.ts", "~/.pi/agent/extensions/herdr-link/index.ts"),
			project: []string{".pi/extensions/herdr-link/index.ts"}, text: adapters.Pi},
		allow: "it does not ask",
		tool:  "mcp__herdr_link__%s; with the extension herdr_link", refresh: "yes", passes: "all", todo: "restart it",
		notes: []string{
			"Only 1.6 and newer have MCP; the extension runs in 0.73, too.",
			"Without `\"exposure\": \"direct\"` the model sees no tool of a server, only a script that can call them.",
			"The Node package is installed by Pi itself: `pi remove npm:herdr-link` before this one, or both offer the same tool.",
		},
		source: "`pi mcp add` of 1.6.0, run; its docs/environment-variables.md",
	},
	{
		Name: "gemini", Title: "Gemini CLI", programs: []string{"gemini"},
		folder: everywhere("$GEMINI_CLI_HOME/.gemini", "~/.gemini"), file: everywhere("$GEMINI_CLI_HOME/.gemini/settings.json", "~/.gemini/settings.json"),
		format: "json", path: []string{"mcpServers"}, project: []string{".gemini/settings.json"}, form: simple,
		grant: &grant{file: everywhere("$GEMINI_CLI_HOME/.gemini/policies/herdr-link.toml", "~/.gemini/policies/herdr-link.toml"),
			text: grantMark + "[[rule]]\nmcpName = \"herdr_link\"\ntoolName = [\"herdr_link\", \"herdr_link_peers\", \"herdr_link_send\"]\ndecision = \"allow\"\npriority = 100\n"},
		tool: "mcp_herdr_link_%s", refresh: "yes", passes: "all", todo: "restart it; servers run in trusted folders only",
		notes: []string{
			"In a folder that is not trusted even the user's servers are switched off.",
			"`\"trust\": true` in the entry would let agents close panes unasked, so --allow writes a policy for three tools instead.",
		},
		source: "`gemini mcp add` of 0.61.0, run; its docs/reference/policy-engine.md, run",
	},
	{
		Name: "agy", Title: "Antigravity CLI", programs: []string{"agy"},
		folder: everywhere("~/.gemini/config", "~/.gemini/antigravity-cli"), file: everywhere("~/.gemini/config/mcp_config.json"),
		format: "json", path: []string{"mcpServers"}, project: []string{".agents/mcp_config.json"}, form: simple,
		grant: &grant{file: everywhere("~/.gemini/antigravity-cli/settings.json"), path: []string{"permissions", "allow"}, rules: ruled("mcp(herdr_link/", ")")},
		hook: &hook{file: everywhere("~/.gemini/config/hooks.json"), make: func(command string) object {
			return object{{"PreInvocation", list{object{{"type", "command"}, {"command", command}, {"timeout", 10}}}}}
		}},
		tool: "call_mcp_tool with ServerName herdr_link, ToolName %s", refresh: "not known", todo: "restart it; /mcp shows it",
		notes: []string{
			"Up to 1.1.3 it asks a server for server/discover before anything else, which herdr-link answers.",
			"A rule of `ask` or `deny` counts more than one of `allow`. Permissions are the user's alone: a project has none.",
		},
		source: "github.com/speakeasy-api/gram/issues/5732; antigravity.google/docs/hooks, antigravity.google/docs/permissions",
	},
	{
		Name: "qwen", Title: "Qwen Code", programs: []string{"qwen"},
		folder: everywhere("$QWEN_HOME", "~/.qwen"), file: everywhere("$QWEN_HOME/settings.json", "~/.qwen/settings.json"),
		format: "json", path: []string{"mcpServers"}, project: []string{".qwen/settings.json"}, form: simple,
		grant: &grant{file: everywhere("$QWEN_HOME/settings.json", "~/.qwen/settings.json"), project: []string{".qwen/settings.json"},
			path: []string{"permissions", "allow"}, rules: ruled("mcp__herdr_link__", "")},
		tool: "mcp__herdr_link__%s", refresh: "no", passes: "all", todo: "restart it",
		notes:  []string{"Its tool search may hide MCP tools from the model until it looks for them.", "A rule of `ask` or `deny` counts more than one of `allow`."},
		source: "`qwen mcp add` of 0.24.4; a run with these rules, in which close was refused; its docs/configuration/settings.md",
	},
	{
		Name: "kimi", Title: "Kimi Code", programs: []string{"kimi"},
		folder: everywhere("$KIMI_CODE_HOME", "~/.kimi-code"), file: everywhere("$KIMI_CODE_HOME/mcp.json", "~/.kimi-code/mcp.json"),
		format: "json", path: []string{"mcpServers"}, project: []string{".kimi-code/mcp.json"}, form: simple,
		allow: "answer its question with \"always\", in each session. 2.1.0 reads `[[permission.rules]]` of config.toml, but asks all the same",
		tool:  "mcp__herdr_link__%s", refresh: "no", passes: "all", todo: "restart it, and approve each tool once",
		notes:  []string{"It does not show a server's instructions to the model.", "A call ends after 60 seconds."},
		source: "moonshotai.github.io/kimi-code/zh/customization/mcp; 2.1.0, run, also with such rules",
	},
	{
		Name: "amp", Title: "Amp", programs: []string{"amp"},
		folder: everywhere("$XDG_CONFIG_HOME/amp", "~/.config/amp"),
		file: everywhere("$AMP_SETTINGS_FILE", "?$XDG_CONFIG_HOME/amp/settings.json", "?$XDG_CONFIG_HOME/amp/settings.jsonc", "$XDG_CONFIG_HOME/amp/settings.json",
			"?~/.config/amp/settings.json", "?~/.config/amp/settings.jsonc", "~/.config/amp/settings.json"),
		format: "json", path: []string{"amp.mcpServers"}, project: []string{"?.amp/settings.json", "?.amp/settings.jsonc", ".amp/settings.json"}, form: simple,
		allow: "it does not ask, unless a rule of the user says so; `amp permissions test NAME` tells",
		tool:  "mcp__herdr_link__%s (not verified)", refresh: "not known", todo: "restart it",
		notes:  []string{"A workspace's server needs `amp mcp approve`."},
		source: "`amp mcp add`, `amp permissions test` of 0.0.1790142911, run; ampcode.com/manual",
	},
	{
		Name: "goose", Title: "Goose", programs: []string{"goose"},
		folder: paths{all: []string{"$GOOSE_PATH_ROOT/config", "$XDG_CONFIG_HOME/goose", "~/.config/goose"}, windows: []string{"$GOOSE_PATH_ROOT/config", "$APPDATA/Block/goose/config"}},
		file: paths{all: []string{"$GOOSE_PATH_ROOT/config/config.yaml", "$XDG_CONFIG_HOME/goose/config.yaml", "~/.config/goose/config.yaml"},
			windows: []string{"$GOOSE_PATH_ROOT/config/config.yaml", "$APPDATA/Block/goose/config/config.yaml"}},
		format: "yaml", path: []string{"extensions"},
		form: func(c Command) object {
			return object{{"type", "stdio"}, {"name", key}, {"enabled", true}, {"cmd", c.Program}, {"args", words(c.Args...)}, {"env_keys", list{}}, {"timeout", 300}}
		},
		allow: "it does not ask in its mode `auto`, which is the default; in the others choose Always Allow for the three tools (`goose configure`, Tool Permission)",
		tool:  "herdr_link__%s (not verified)", refresh: "yes, for the next reply", passes: "all", todo: "start a new session",
		source: "block.github.io/goose/docs/guides/config-files, goose-permissions; it adds to its environment, github.com/aaif-goose/goose, extension_manager.rs",
	},
	{
		Name: "cursor", Title: "Cursor", programs: []string{"cursor", "cursor-agent"},
		folder: everywhere("~/.cursor"), file: everywhere("~/.cursor/mcp.json"),
		format: "json", path: []string{"mcpServers"}, project: []string{".cursor/mcp.json"}, form: forwarding("${env:", "}"),
		grant: &grant{file: paths{all: []string{"$CURSOR_CONFIG_DIR/cli-config.json", "$XDG_CONFIG_HOME/cursor/cli-config.json", "~/.cursor/cli-config.json"},
			darwin:  []string{"$CURSOR_CONFIG_DIR/cli-config.json", "~/.cursor/cli-config.json"},
			windows: []string{"$CURSOR_CONFIG_DIR/cli-config.json", "~/.cursor/cli-config.json"}},
			project: []string{".cursor/cli.json"}, path: []string{"permissions", "allow"}, rules: ruled("Mcp(herdr_link:", ")")},
		tool: "%s (not verified)", refresh: "not known", passes: "named", todo: "restart it, and approve the server once",
		notes: []string{
			"It hands a server only a short list of variables, so the entry names Herdr's.",
			"These rules are the command line's (cursor-agent). The editor has `\"mcpAllowlist\": [\"herdr_link:herdr_link\"]` in ~/.cursor/permissions.json instead; " +
				"that file replaces the list that its settings keep, so it is left to the user.",
		},
		source: "cursor.com/docs/context/mcp, cursor.com/docs/cli/reference/permissions, cursor.com/docs/cli/reference/configuration, cursor.com/docs/reference/permissions; github.com/boozedog/pi-codemode/issues/74",
	},
	{
		Name: "vscode", Title: "VS Code Copilot", programs: []string{"code"},
		folder: paths{all: []string{"$XDG_CONFIG_HOME/Code/User", "~/.config/Code/User"}, darwin: []string{"~/Library/Application Support/Code/User"}, windows: []string{"$APPDATA/Code/User"}},
		file: paths{all: []string{"$XDG_CONFIG_HOME/Code/User/mcp.json", "~/.config/Code/User/mcp.json"}, darwin: []string{"~/Library/Application Support/Code/User/mcp.json"},
			windows: []string{"$APPDATA/Code/User/mcp.json"}},
		format: "json", path: []string{"servers"}, project: []string{".vscode/mcp.json"}, form: typed("stdio"),
		allow: "choose Always Allow for each tool in its question",
		tool:  "%s (not verified)", refresh: "yes, at times for the next prompt", passes: "all", todo: "start the server with MCP: List Servers, and trust it",
		notes: []string{
			"It is of use only if VS Code itself was started in a pane of Herdr: a server gets the editor's environment.",
			"Tools that it does not show are remembered: MCP: Reset Cached Tools.",
		},
		source: "code.visualstudio.com/docs/copilot/chat/mcp-servers",
	},
	{
		Name: "copilot", Title: "GitHub Copilot CLI", programs: []string{"copilot"},
		folder: everywhere("$COPILOT_HOME", "~/.copilot"), file: everywhere("$COPILOT_HOME/mcp-config.json", "~/.copilot/mcp-config.json"),
		format: "json", path: []string{"mcpServers"}, project: []string{".github/mcp.json"}, form: typed("local", member{"tools", words("*")}),
		allow: "start it with `--allow-tool 'herdr_link(herdr_link)'`, and so for herdr_link_peers and herdr_link_send; what its question keeps counts for that folder alone (`permissions-config.json`)",
		tool:  "herdr_link-%s", refresh: "yes", passes: "all", todo: "restart it, and approve each tool once",
		source: "`copilot mcp add`, `copilot help permissions` of 1.0.102, run; a run with these options, in which close was refused",
	},
	{
		Name: "droid", Title: "Factory Droid", programs: []string{"droid"},
		folder: everywhere("$FACTORY_HOME_OVERRIDE/.factory", "~/.factory"), file: everywhere("$FACTORY_HOME_OVERRIDE/.factory/mcp.json", "~/.factory/mcp.json"),
		format: "json", path: []string{"mcpServers"}, project: []string{".factory/mcp.json"}, form: typed("stdio", member{"disabled", false}),
		allow: "choose to always allow the tool in its question; `droid mcp permissions list` shows what was allowed",
		tool:  "herdr_link___%s", refresh: "not known", passes: "all", todo: "restart it, and approve each tool once",
		source: "`droid mcp add`, `droid mcp list` of 0.225.2, run; docs.factory.ai/cli/configuration/mcp",
	},
	{
		Name: "kilo", Title: "Kilo Code", programs: []string{"kilo"},
		folder: everywhere("$KILO_CONFIG_DIR", "$XDG_CONFIG_HOME/kilo", "~/.config/kilo"),
		file: everywhere("?$KILO_CONFIG_DIR/kilo.jsonc", "?$KILO_CONFIG_DIR/kilo.json", "$KILO_CONFIG_DIR/kilo.jsonc",
			"?$XDG_CONFIG_HOME/kilo/kilo.jsonc", "?$XDG_CONFIG_HOME/kilo/kilo.json", "$XDG_CONFIG_HOME/kilo/kilo.jsonc",
			"?~/.config/kilo/kilo.jsonc", "?~/.config/kilo/kilo.json", "~/.config/kilo/kilo.jsonc"),
		format: "json", path: []string{"mcp"}, project: []string{"?kilo.jsonc", "?kilo.json", "?.kilo/kilo.json", ".kilo/kilo.jsonc"}, form: inOne,
		allow: "it does not ask, unless `permission` in its configuration says so",
		tool:  "herdr_link_%s", refresh: "yes", passes: "all", todo: "restart it",
		notes:  []string{"It does not ask for herdr_link_close either; `\"permission\": {\"herdr_link_herdr_link_close\": \"ask\"}` makes it ask, and `--no-gateway-close` in `args` of the entry closes the way around."},
		source: "`kilo run`, `kilo mcp list` of 7.7.9, run; github.com/Kilo-Org/kilocode, packages/kilo-docs/pages/automate/mcp/using-in-kilo-code.md",
	},
	{
		Name: "kiro", Title: "Kiro", programs: []string{"kiro-cli", "kiro"},
		folder: everywhere("~/.kiro"), file: everywhere("~/.kiro/settings/mcp.json"),
		format: "json", path: []string{"mcpServers"}, project: []string{".kiro/settings/mcp.json"}, form: simple,
		grant: &grant{field: "autoApprove"},
		tool:  "not known", refresh: "not known", todo: "restart it",
		notes:  []string{"An agent's own file may leave the servers of this one out."},
		source: "kiro.dev/docs/cli/mcp/configuration, kiro.dev/docs/mcp/configuration",
	},
	{
		Name: "cline", Title: "Cline CLI", programs: []string{"cline"},
		folder: everywhere("$CLINE_DATA_DIR", "~/.cline"),
		file:   everywhere("$CLINE_MCP_SETTINGS_PATH", "$CLINE_DATA_DIR/settings/cline_mcp_settings.json", "~/.cline/data/settings/cline_mcp_settings.json"),
		format: "json", path: []string{"mcpServers"}, form: func(c Command) object { return object{{"transport", typed("stdio")(c)}} },
		allow: "it asks only with `--auto-approve false`, and then for every tool, whatever `autoApprove` of the entry says",
		tool:  "herdr_link__%s", refresh: "no", passes: "all", todo: "restart it",
		notes:  []string{"Before 3 it knew only an entry without `transport`, with `command` and `args` in its place."},
		source: "`cline mcp add` of 3.0.65, and runs with both forms and with autoApprove; docs.cline.bot/mcp/mcp-overview",
	},
	{
		Name: "hermes", Title: "Hermes Agent", programs: []string{"hermes"},
		folder: paths{all: []string{"$HERMES_HOME", "~/.hermes"}, windows: []string{"$HERMES_HOME", "$LOCALAPPDATA/hermes", "~/AppData/Local/hermes"}},
		file: paths{all: []string{"$HERMES_HOME/config.yaml", "~/.hermes/config.yaml"},
			windows: []string{"$HERMES_HOME/config.yaml", "$LOCALAPPDATA/hermes/config.yaml", "~/AppData/Local/hermes/config.yaml"}},
		format: "yaml", path: []string{"mcp_servers"}, form: forwarding("${", "}"),
		allow: "answer its question, if it has one (not verified)",
		tool:  "mcp__herdr_link__%s, in older ones mcp_herdr_link_%s", refresh: "yes", passes: "named", todo: "restart it, or say /reload-mcp",
		notes:  []string{"It hands a server only a short list of variables, so the entry names Herdr's."},
		source: "hermes-agent.nousresearch.com/docs/user-guide/features/mcp; github.com/NousResearch/hermes-agent, hermes_constants.py, tools/mcp_tool.py",
	},
	{
		Name: "qodercli", Title: "Qoder CLI", programs: []string{"qodercli", "qoder"},
		folder: everywhere("$QODER_CONFIG_DIR", "~/.qoder"), file: everywhere("$QODER_CONFIG_DIR/settings.json", "~/.qoder/settings.json"),
		format: "json", path: []string{"mcpServers"}, project: []string{".mcp.json"}, form: simple,
		grant: &grant{file: everywhere("$QODER_CONFIG_DIR/settings.json", "~/.qoder/settings.json"), project: []string{".qoder/settings.json"},
			path: []string{"permissions", "allow"}, rules: ruled("mcp__herdr_link__", "")},
		tool: "mcp__herdr_link__%s", refresh: "not known", todo: "restart it, or say /mcp reload",
		source: "`qodercli mcp add` of 1.1.52, run; docs.qoder.com/cli/mcp-servers",
	},
	{
		Name: "mastracode", Title: "Mastra Code", programs: []string{"mastracode"},
		folder: everywhere("~/.mastracode"), file: everywhere("~/.mastracode/mcp.json"),
		format: "json", path: []string{"mcpServers"}, project: []string{".mastracode/mcp.json"}, form: forwarding("${", "}"),
		allow: "it does not ask in its YOLO mode, which is the default; without it answer its question with \"always\", in each session",
		tool:  "herdr_link_%s", refresh: "no", passes: "named", todo: "restart it, or say /mcp reload",
		notes:  []string{"It hands a server only a short list of variables, so the entry names Herdr's."},
		source: "code.mastra.ai/configuration; @mastra/code-sdk 1.0.1, mcp/config.js, mcp/manager.js, permissions.js; @mastra/mcp 1.15.0",
	},
	{
		Name: "dsh", Title: "DSH",
		Why: "it has no MCP servers of its own: plugins bring them, each with a file of its own, so there is no place that every DSH reads",
	},
}
