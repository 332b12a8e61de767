package hosts

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/hosts.md anew")

// docs/hosts.md is made from the table.
func TestDocs(t *testing.T) {
	t.Parallel()
	const file = "../docs/hosts.md"
	want := document(t)
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || strings.ReplaceAll(string(got), "\r\n", "\n") != want {
		t.Errorf("%s is not what the table says (%v): go test ./hosts -run TestDocs -update", file, err)
	}
}

func document(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("# Hosts\n\n<!-- Made from the table in hosts/table.go: go test ./hosts -run TestDocs -update -->\n")
	say("`herdr-link install` puts all this where it belongs, and `herdr-link uninstall` takes it away again; `--dry-run` shows it first.")
	say("`/opt/herdr-link` below stands for the program's absolute path. `herdr-link install --print HOST` prints the lines for yours.\n")
	say("A later `install` renews an entry. What you added to it stays: other members, variables, and the options `--toolsets`, `--caller-role`,")
	say("`--response-hosts`, `--max-session-bytes` and `--era`; so does a choice such as `enabled`, `disabled`, `timeout` or `tools`.\n")
	names := regexp.MustCompile("[a-z_-]*_[a-z_-]*")
	say("| host | the model sees | lists tools again |\n|---|---|---|")
	for _, h := range Table() {
		if h.Why == "" {
			tool := names.ReplaceAllString(strings.ReplaceAll(h.tool, "%s", key), "`$0`")
			say("| [%s](#%s) `%s` | %s | %s |", h.Title, strings.ReplaceAll(strings.ToLower(h.Title), " ", "-"), h.Name, tool, h.refresh)
		}
	}
	say("\nA host that lists the tools again gets herdr-link dormant: one tool, until it is called. One that never does gets `--eager`, all")
	say("tools from the start. Where it is not known, the dormant `herdr_link` runs the other tools itself, by `action` and `arguments`.\n")
	say("`--allow` lets a host not ask before `herdr_link`, `herdr_link_peers` and `herdr_link_send`, never before `herdr_link_close`, so the entry")
	say("then has `--no-gateway-close`: the gateway closes nothing. Some hosts ask for no tool at all: it is said there. `--hint` adds one line at")
	say("the start of a session inside Herdr. What `--print` shows with these options are the blocks below, a file each.")
	for _, h := range Table() {
		say("\n## %s", h.Title)
		if h.Why != "" {
			say("\nNo entry: %s.", h.Why)
			continue
		}
		describe(t, h, say)
	}
	return b.String()
}

func describe(t *testing.T, h Host, say func(string, ...any)) {
	t.Helper()
	m := Machine{Getenv: func(string) string { return "" }, OS: "linux"}
	o := Options{Program: "/opt/herdr-link", MCP: true}
	parts, err := m.Print(h, o)
	if err != nil {
		t.Fatal(err)
	}
	if h.adapter != nil {
		say("\nGets the adapter %s; with `--mcp` an entry instead.", code(h.adapter.file))
	}
	say("\n%s:\n\n```%s\n%s```\n", code(h.file), h.format, parts[0].Text)
	if h.project != nil {
		say("- With `--project`: `%s`", strings.Join(without(h.project), "` or `"))
	}
	say("- After it: %s", h.todo)
	switch g := h.grant; {
	case g == nil:
		say("- To allow the tools: %s", h.allow)
	case g.field != "":
		say("- To allow the tools (`--allow`): `\"%s\": [\"%s\"]` in the entry", g.field, strings.Join(granted, "\", \""))
	default:
		where, format, also := code(h.file), h.format, ""
		if !g.tables {
			where = code(g.file)
		}
		if g.text != "" {
			format = "toml"
		}
		if g.project != nil {
			also = "; with `--project` in `" + strings.Join(without(g.project), "` or `") + "`"
		}
		say("- To allow the tools (`--allow`): in %s%s:\n\n```%s\n%s```\n", where, also, format, grantText(t, h))
	}
	if h.hook != nil {
		var e edits
		m.hookEdit(h, o, &e)
		text, err := (&draft{steps: e.of[e.files[0]]}).run(nil)
		if err != nil {
			t.Fatal(err)
		}
		say("- Hint at the start of a session (`--hint`): in %s:\n\n```json\n%s```\n", code(h.hook.file), text)
	}
	for _, n := range h.notes {
		say("- %s", n)
	}
	say("- From: %s", h.source)
}

// grantText is what --allow adds, alone.
func grantText(t *testing.T, h Host) string {
	t.Helper()
	var e edits
	if err := (Machine{Getenv: func(string) string { return "" }, OS: "linux"}).grantEdit(h, Options{}, "", &e); err != nil {
		t.Fatal(err)
	}
	text, err := (&draft{steps: e.of[e.files[0]]}).run(nil)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimLeft(strings.TrimPrefix(string(text), grantMark), "\n")
}

func without(candidates []string) (all []string) {
	seen := map[string]bool{}
	for _, c := range candidates {
		if c = strings.TrimPrefix(c, "?"); !seen[c] {
			all = append(all, c)
		}
		seen[c] = true
	}
	return all
}

// code writes the candidates of a path.
func code(p paths) string {
	s := "`" + strings.Join(without(p.all), "` or `") + "`"
	if p.darwin != nil {
		s += "; macOS: `" + strings.Join(without(p.darwin), "` or `") + "`"
	}
	if p.windows != nil {
		s += "; Windows: `" + strings.Join(without(p.windows), "` or `") + "`"
	}
	return s
}
