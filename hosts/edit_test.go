package hosts

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// An editor is one kind of file, as the tests use it.
type editor struct {
	get    func([]byte, []string) (any, bool, error)
	set    func([]byte, []string, object) ([]byte, error)
	remove func([]byte, []string) ([]byte, error)
	path   []string
}

func editors() map[string]editor {
	return map[string]editor{
		"json": {getJSON, func(t []byte, p []string, o object) ([]byte, error) { return setJSON(t, p, o) }, removeJSON, []string{"mcpServers", "herdr_link"}},
		"toml": {getTOML, setTOML, removeTOML, []string{"mcp_servers", "herdr_link"}},
		"yaml": {getYAML, setYAML, removeYAML, []string{"extensions", "herdr_link"}},
	}
}

func sample() object {
	return object{{"command", `/opt/with "quotes" and \/herdr-link`}, {"args", words("--eager", "it's")}, {"enabled", true}, {"timeout", 300}}
}

// law says what is wrong with an editor's work on a file; "" is nothing.
func law(e editor, text []byte) string {
	text = slices.Clip(text)
	before := bytes.Clone(text)
	_, had, err := e.get(text, e.path)
	out, setErr := e.set(text, e.path, sample())
	if !bytes.Equal(text, before) {
		return "the input was changed"
	}
	if err != nil || setErr != nil {
		var p *place
		if setErr == nil {
			return "read failed and write did not: " + err.Error()
		}
		if !errors.As(setErr, &p) || p.line < 1 || p.line > 1+bytes.Count(text, []byte("\n")) {
			return "an error without its line: " + setErr.Error()
		}
		return ""
	}
	got, found, err := e.get(out, e.path)
	if err != nil || !found {
		return "what was written is not found: " + string(out)
	}
	for k, v := range plain(sample()).(map[string]any) {
		if !reflect.DeepEqual(got.(map[string]any)[k], v) {
			return "wrote " + k + " otherwise: " + string(out)
		}
	}
	again, err := e.set(out, e.path, sample())
	if err != nil || !bytes.Equal(again, out) {
		return "twice is not once: " + string(out) + "\nthen\n" + string(again)
	}
	less, err := e.remove(text, e.path)
	if err != nil || !bytes.Equal(less, text) {
		had = true // a table below it, perhaps
	}
	back, err := e.remove(out, e.path)
	if err != nil {
		return "remove: " + err.Error()
	}
	if had && !bytes.Equal(back, less) {
		return "changed what is around the entry:\n" + string(text) + "\nset\n" + string(out) + "\nwithout it\n" + string(back) + "\nwas\n" + string(less)
	}
	if _, found, err := e.get(back, e.path); err != nil || found {
		return "removed and still there: " + string(back)
	}
	if !had && !bytes.Equal(back, text) {
		return "not the same after remove:\n" + string(text) + "\nset\n" + string(out) + "\nremoved\n" + string(back)
	}
	if !had && !inOrder(out, text) {
		return "something else was changed: " + string(out)
	}
	return ""
}

// inOrder reports whether all bytes of part are in text, in their order.
func inOrder(text, part []byte) bool {
	for _, c := range part {
		i := bytes.IndexByte(text, c)
		if i < 0 {
			return false
		}
		text = text[i+1:]
	}
	return true
}

// jsonLaw: what the file means is what it meant, and our entry.
func jsonLaw(text []byte) string {
	e := editors()["json"]
	out, err := setJSON(text, e.path, sample())
	if err != nil {
		return ""
	}
	old, new := map[string]any{}, map[string]any{}
	if pure := uncomment(text); len(bytes.TrimSpace(pure)) > 0 {
		if err := json.Unmarshal(pure, &old); err != nil {
			return "took what is no JSON: " + err.Error()
		}
	}
	if err := json.Unmarshal(uncomment(out), &new); err != nil {
		return "wrote what is no JSON: " + err.Error() + "\n" + string(out)
	}
	servers, _ := old["mcpServers"].(map[string]any)
	servers = maps.Clone(servers)
	if servers == nil {
		servers = map[string]any{}
	}
	entry, _ := servers["herdr_link"].(map[string]any)
	if entry = maps.Clone(entry); entry == nil {
		entry = map[string]any{}
	}
	maps.Copy(entry, plain(sample()).(map[string]any))
	servers["herdr_link"] = entry
	old["mcpServers"] = servers
	if !reflect.DeepEqual(old, new) {
		return "means something else: " + string(out)
	}
	return ""
}

// uncomment makes strict JSON by a way that is not the editor's.
func uncomment(text []byte) []byte {
	s := strings.TrimPrefix(string(text), bom)
	var b strings.Builder
	for s != "" {
		switch {
		case s[0] == '"':
			n := skipString([]byte(s), 0)
			if n < 0 {
				n = len(s)
			}
			b.WriteString(s[:n])
			s = s[n:]
		case strings.HasPrefix(s, "//"):
			_, s, _ = strings.Cut(s, "\n")
		case strings.HasPrefix(s, "/*"):
			_, s, _ = strings.Cut(s[2:], "*/")
			b.WriteByte(' ')
		default:
			if s[0] == ',' && closes(s[1:]) {
				s = s[1:]
				continue
			}
			b.WriteByte(s[0])
			s = s[1:]
		}
	}
	return []byte(b.String())
}

// closes reports whether a closing bracket follows, behind blanks and comments.
func closes(s string) bool {
	for {
		s = strings.TrimLeft(s, " \t\r\n")
		switch {
		case strings.HasPrefix(s, "//"):
			_, s, _ = strings.Cut(s, "\n")
		case strings.HasPrefix(s, "/*"):
			_, s, _ = strings.Cut(s[2:], "*/")
		default:
			return s != "" && (s[0] == '}' || s[0] == ']')
		}
	}
}

var jsonFiles = []string{
	"", "\n", "  ", bom, bom + "{}", "{}", "{}\n", "{ }", "{\n}", "{\n}\n", "{\r\n}\r\n", "{\n\n  \n}", "\t{\t}\t",
	`{"a":1}`, `{"a": 1}`, `{ "a": 1 }`, `{"a":1,}`, `{"a": 1, }`, "{\"a\": 1, // c\n}", "{\"a\": 1 // c\n}",
	"{\n  \"a\": 1\n}\n", "{\n\t\"a\": 1\n}", "{\r\n    \"a\": 1\r\n}\r\n", "{\n  \"a\": 1,\n}\n", "{\n  \"a\": 1, // c  \n  // d\n}\n",
	"{\n  \"a\": 1 /* c */ // d\n  /* e\n  */\n}", "{\n  \"a\": 1 /* c\n */\n}", "{\n  /* x */ \"a\": 1}", "{ \"a\": 1,\n  \"b\": [1,2]}", "{\n\"a\": 1\n}",
	`{"mcpServers":{}}`, `{"mcpServers": { }}`, "{\n  \"mcpServers\": {}\n}\n", "{\n  \"mcpServers\": {\n  }\n}", "{\n  \"mcpServers\": {\n  // none\n  }\n}",
	"{\n  \"mcpServers\": { /* none */ }, \"z\": 1\n}", `{"mcpServers":{"x":{"command":"y"}}}`, `{"mcpServers": {"x": {}},"z":[]}`,
	"{\n  \"mcpServers\": {\n    \"x\": {\n      \"command\": \"herdr-link\"\n    }\n  },\n  \"z\": null\n}\n",
	"{\n    \"mcpServers\": {\n        \"x\": {\"command\": \"y\"},\n    },\n}\n",
	"// head\n{\n  // \"mcpServers\": {}\n  \"s\": \"} { \\\" // mcpServers /* , ]\",\n  \"t\": \"\\\\\"\n} // tail\n/* end */",
	"{\n  \"mcpServers\": {\n    \"x\": {} // last\n  } // servers\n}\n", "{\"\\u006dcpServers\": {\"x\": 1}}",
	"{\n  \"mcpServers\": {\n    \"a\": 1, \"b\": 2\n  }\n}", "{\"a\": 1\n}", "{\n  \"a\": 1 }", "{\"a\":{\"mcpServers\":{}},\"mcpServers\":{}}",
	"{\n  \"mcpServers\": {\n    \"herdr-link\": {\"command\": \"npx\"}\n  }\n}\n", "{\n\t\"mcpServers\": {\n\t\t\"x\": [1,\n\t\t2]\n\t}\n}\n",
	"{\n  \"mcpServers\": {\n    \"herdr_link\": {\"command\": \"old\", \"timeout\": 5, \"own\": [1]} // mine\n  }\n}\n",
	"/**/{/**/}/**/", "{\n  \"a\": 1\n,\n}", "{\n  \"a\": 1\n, \"b\": 2\n}", "{\n \"a\": \"\xff\"\n}",
}

var badJSON = map[string]string{ // and the line that is named
	"{": "1", "[]": "1", "1": "1", "{\"a\": 1\n\"b\": 2}": "2", "{,}": "1", "{\"a\": 1,,}": "1", "{'a': 1}": "1", "{\n\"a\": \"x\ny\"}": "2",
	"{\"mcpServers\": [\n]}": "1", "{\n\"mcpServers\": \"x\"}": "2", "{\n\"mcpServers\": {},\n\"mcpServers\": {}}": "3", "{}\n/*": "2", "{} // \r {}": "1",
	"{\"mcpServers\": {\n\"herdr_link\": {},\n\"herdr_link\": {}}}": "3", "{\"mcpServers\": null}": "1", "{}{}": "1", "// only a comment": "1",
}

var tomlFiles = []string{
	"", "\n", "\r\n", "  ", bom, "# c", "# c\n", "a = 1", "a = 1\n", "a = 1\r\n", "a = 1\r\nb = 2", "a = 1\n\n\n", bom + "a = 1\n",
	"[mcp_servers]\n", "[mcp_servers.x]\ncommand = 'y'\n", "[ mcp_servers . \"x\" ] # c\nargs = [\n  \"a\", # ]\n  'b',\n]\n\n# tail\n",
	"s = \"\"\"\n[mcp_servers.herdr_link]\n\\\"\"\"\"\nt = '''\n[x]'''\n", "[mcp_servers]\nx = { command = \"y\", args = [] }\n", "t = 1979-05-27 07:32:00\nf = -1.5e+3\nn = inf\n",
	"[[x]]\na = 1\n[[x]]\n", "a.b.c = 1\n\"d e\".f = 'x'\n", "[mcp_servers.x.env]\nA = \"[mcp_servers.herdr_link]\"", "[a]\n[mcp_servers.y]\ncommand = \"z\"\n\n[projects.\"/x\"]\ntrust_level = \"trusted\"\n",
	"[mcp_servers.herdr_link]\ncommand = \"old\" # mine\nargs = [ \"--eager\" ]\n# more\ntool_timeout_sec = 9\n\n[mcp_servers.herdr_link.env]\nA = \"b\"\n\n[z]\nk = true\n",
	"[mcp_servers.herdr_link]", "x = { a = 1,\n b = [2], }\n",
	"[a.b]\nc = 1\n[a]\nc = 1\n[a.d]\n[c]\na = 1\n", "[[x]]\na = 1\n[x.y]\na = 1\n[[x.z]]\nb = 1\n[[x.z]]\nb = 1\n[[x]]\na = 1\n[x.y]\na = 1\n[[x.z]]\nb = 1\n", "a.b = 1\na.c = 2\n\"a.b\" = 3\n",
}

var badTOML = map[string]string{
	"a": "1", "a = ": "1", "[a": "1", "a = x": "1", "a = :": "1", `a = "\]"`: "1", "\na = \"\\\n\"": "2", "a = 1\nb = \"x": "2", "a = 1 b = 2": "1", "a = [1": "1", "a = 1\rb": "1", "# \x01": "1", "a = \xff": "1",
	"mcp_servers = {}": "1", "\nmcp_servers.herdr_link.command = 'x'": "2", "mcp_servers.x.command = 'y'": "1", "[mcp_servers]\nherdr_link = { command = 'x' }": "2",
	"[mcp_servers]\n\nherdr_link.command = 'x'": "3", "[[mcp_servers]]": "1", "[[mcp_servers.herdr_link]]": "1", "[mcp_servers.herdr_link]\n[mcp_servers.herdr_link]": "2",
	"[mcp_servers.herdr_link]\nargs.x = 1": "2",
	// What the host cannot read either: each name stands once.
	"a = 1\n\"a\" = 2": "2", "[a]\nb = 1\n[c]\nb = 1\n[ 'a' ] # c": "5", "[a]\nb.c = 1\nb.c = 2": "3", "a = 1\n[a]": "2", "[[x]]\na = 1\na = 2": "3", "[[x]]\n[x.y]\n[[x]]\n[x.y]\n[x.y]": "5",
	"[x]\n[[x]]": "2", "[[x]]\n[x]": "2", "x = 1\n[[x]]": "2", "[[x]]\n[[x.y]]\n[x.y]": "3", "[mcp_servers.herdr_link]\ncommand = 'x'\ncommand = 'y'": "3",
}

var yamlFiles = []string{
	"", "\n", bom, "# c", "# c\n", "a: 1", "a: 1\n", "a: 1\r\nb: 2\r\n", "---\na: 1\n", "a: 1\n\n# tail\n", "extensions:", "extensions:\n", "extensions:\r\n", "extensions: # none\nz: 1\n",
	"extensions:\n  x:\n    cmd: y\n", "extensions:\n  x:\n    cmd: y", "extensions:\n    x:\n        cmd: y\n        args:\n        - a\n        - b: c\n          d: e\n# about z\nz: 1\n",
	"a: |\n  extensions:\n    x: 1\n\n\nextensions:\n  x: {a: [1, \"}\"], b: 'it''s'}\nz: >-\n  text\n", "a: \"x\n  extensions: y\"\nb: [1,\n  2]\n", "l:\n- a\n- b: c\n  d: e\n- - f\nextensions:\n  x: 1\n",
	"a: &x 1\nb: *x\nc: !!str 2\n", "\"extensions\":\n  'x': 1\n", "url: http://x:1/y#z\nplain: it's \"so\"\nm: a\n  b\n  c\n", "extensions:\n  x:\n    d: |\n      text\n\n  y: 1\n\nz: 2\n",
	"extensions:\n  herdr_link:\n    cmd: old\n    command: old # mine\n    args:\n      - --eager\n      - it's\n    own: 1\n  x: 2\n", "k: 1\nextensions:\n  # none yet\n", "GOOSE_MODE: auto\n",
	"a:\n  - b\n  -\n    c: d\n", "extensions:\n  x: |+\n    t\n\n\n", "extensions:\n  herdr_link:\n", "a: 1\nextensions: {}\nz: 1\n", "extensions: { } # none\r\n", "extensions: {\"x\": {\"cmd\": \"y\"}}", "extensions: {\"x\":{\"cmd\":\"y\"}}\n",
	"extensions: {\"herdr_link\": {\"cmd\": \"y\"}}\n", "extensions: {\"a\": 1, \"herdr_link\": {}, \"b\": [\"//\"]}", "extensions:   {}", "extensions:\n  herdr_link: \n    command: x",
}

var badYAML = map[string]string{
	"\ta: 1": "1", "a: 1\n---\nb: 2": "2", "%YAML 1.2": "1", "a": "1", "- a": "1", "a: \"x": "1", "a: [1": "1", "a: [1\n2]": "2", "extensions: {x: 1}": "1", "z: 1\nextensions: {\"x\": 1, \"x\": 2, \"herdr_link\": {}, \"herdr_link\": {}}": "2", "extensions: {\n  }": "1", "extensions: 1": "1",
	"extensions: &x\n  y: 1": "1", "extensions:\n- x": "2", "extensions:\n  - x": "2", "extensions:\nextensions:": "2", "? a\n: b": "1", "extensions:\n  herdr_link: {cmd: x}": "2",
	"extensions:\n  herdr_link: *x": "2", "a: |\n  x": "2", "extensions:\n  x: 1\n y: 2": "3", "a: 1 \n  b: 2": "2", "a: 'x' y": "1", "a: b\rc": "1", "a: \"x\ny: z\"": "2", "a: 1 # \x01": "1", "a: \xff": "1", "extensions:\n  herdr_link:\n  herdr_link:": "3",
}

func TestEditors(t *testing.T) {
	t.Parallel()
	good := map[string][]string{"json": jsonFiles, "toml": tomlFiles, "yaml": yamlFiles}
	bad := map[string]map[string]string{"json": badJSON, "toml": badTOML, "yaml": badYAML}
	for kind, e := range editors() {
		for _, text := range good[kind] {
			if out, err := e.set([]byte(text), e.path, sample()); err != nil {
				t.Errorf("%s %q: %v", kind, text, err)
			} else if problem := law(e, []byte(text)); problem != "" {
				t.Errorf("%s %q: %s", kind, text, problem)
			} else if kind == "json" {
				if problem := jsonLaw([]byte(text)); problem != "" {
					t.Errorf("%q: %s", text, problem)
				}
			} else if testing.Verbose() {
				t.Logf("%s:\n%s\n--->\n%s", kind, text, out)
			}
		}
		for text, line := range bad[kind] {
			out, err := e.set([]byte(text), e.path, sample())
			if err == nil || !strings.HasPrefix(err.Error(), "line "+line+": ") {
				t.Errorf("%s %q: %v, %q; want line %s", kind, text, err, out, line)
			}
			if problem := law(e, []byte(text)); problem != "" {
				t.Errorf("%s %q: %s", kind, text, problem)
			}
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, text := range jsonFiles {
		f.Add([]byte(text))
	}
	for text := range badJSON {
		f.Add([]byte(text))
	}
	e := editors()["json"]
	f.Fuzz(func(t *testing.T, text []byte) {
		if problem := law(e, text) + jsonLaw(text); problem != "" {
			t.Errorf("%q: %s", text, problem)
		}
	})
}

// arrayLaw is the law for an element of an array, such as a permission: it is
// added once, and what is around it stays as it was.
func arrayLaw(text []byte) string {
	path := []string{"permissions", "allow"}
	same := func(v any) bool { return v == "rule" }
	there := func(text []byte) (n int, all []any) {
		v, _, _ := getJSON(text, path)
		all, _ = v.([]any)
		for _, v := range all {
			if same(v) {
				n++
			}
		}
		return n, all
	}
	before := bytes.Clone(text)
	out, err := addJSON(text, path, "rule", same)
	if !bytes.Equal(text, before) {
		return "the input was changed"
	}
	if err != nil {
		return ""
	}
	had, old := there(text)
	n, now := there(out)
	if n != max(had, 1) || had == 0 && (len(now) != len(old)+1 || !reflect.DeepEqual(now[:len(old)], append([]any{}, old...))) {
		return "not the element alone was added: " + string(out)
	}
	if again, err := addJSON(out, path, "rule", same); err != nil || !bytes.Equal(again, out) {
		return "twice is not once: " + string(out)
	}
	back, err := dropJSON(out, path, same)
	if err != nil {
		return "drop: " + err.Error()
	}
	if had == 0 && !bytes.Equal(back, text) {
		return "not the same after it was dropped:\n" + string(text) + "\nadded\n" + string(out) + "\ndropped\n" + string(back)
	}
	if had == 0 && !inOrder(out, text) {
		return "something else was changed: " + string(out)
	}
	if less, _ := there(back); less != max(had, 1)-1 {
		return "dropped and still there: " + string(back)
	}
	var a, b map[string]any
	if json.Unmarshal(uncomment(text), &a) == nil && json.Unmarshal(uncomment(out), &b) == nil {
		delete(a, "permissions")
		delete(b, "permissions")
		if !reflect.DeepEqual(a, b) && len(a)+len(b) > 0 {
			return "means something else: " + string(out)
		}
	}
	return ""
}

var arrayFiles = []string{
	`{"permissions":{"allow":[]}}`, `{"permissions":{"allow":["a"]}}`, `{"permissions": {"allow": ["rule", "a",],},}`, "{\n  \"permissions\": {\n    \"allow\": [\n      \"a\", // c\n      \"rule\" /* d */\n    ]\n  }\n}\n",
	"{\r\n\t\"permissions\": {\r\n\t\t\"deny\": [],\r\n\t\t\"allow\": [ ]\r\n\t}\r\n}", `{"permissions": {"allow": {}}}`, `{"permissions": []}`, `{"permissions":{"allow":[{"a":1},2,["rule"]]}}`, "{\"permissions\": {\"allow\": [\n\n]}}",
	`{"permissions":{"allow":[/*x*/"rule"/*y*/]}}`, `{"permissions":{"allow":[],"allow":[]}}`, `{"permissions":null}`,
}

func FuzzArray(f *testing.F) {
	for _, text := range slices.Concat(jsonFiles, arrayFiles) {
		f.Add([]byte(text))
	}
	for text := range badJSON {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if problem := arrayLaw(text); problem != "" {
			t.Errorf("%q: %s", text, problem)
		}
	})
}

// grantLaw: the tables that allow tools come and go as the entry does.
func grantLaw(text []byte) string {
	h, _ := Find("codex")
	out, err := setTOML(text, h.entryPath(), sample())
	if err == nil {
		out, err = h.grantTables(out)
	}
	if err != nil {
		return ""
	}
	for _, name := range granted {
		if v, found, err := getTOML(out, append(h.entryPath(), "tools", name)); err != nil || !found || v.(map[string]any)["approval_mode"] != "approve" {
			return "not allowed: " + string(out)
		}
	}
	if again, err := h.grantTables(out); err != nil || !bytes.Equal(again, out) {
		return "twice is not once: " + string(out) + "\nthen\n" + string(again)
	}
	less, err := removeTOML(text, h.entryPath())
	if err != nil {
		return "remove before: " + err.Error()
	}
	if back, err := removeTOML(out, h.entryPath()); err != nil || !bytes.Equal(back, less) {
		return "not the same after remove:\n" + string(text) + "\nset\n" + string(out) + "\nremoved\n" + string(back)
	}
	return ""
}

func FuzzTOML(f *testing.F) { fuzz(f, "toml", tomlFiles, badTOML, grantLaw) }
func FuzzYAML(f *testing.F) { fuzz(f, "yaml", yamlFiles, badYAML) }

func fuzz(f *testing.F, kind string, good []string, bad map[string]string, more ...func([]byte) string) {
	for _, text := range good {
		f.Add([]byte(text))
	}
	for text := range bad {
		f.Add([]byte(text))
	}
	e := editors()[kind]
	f.Fuzz(func(t *testing.T, text []byte) {
		if problem := law(e, text); problem != "" {
			t.Errorf("%q: %s", text, problem)
		}
		for _, law := range more {
			if problem := law(text); problem != "" {
				t.Errorf("%q: %s", text, problem)
			}
		}
	})
}

// A new entry comes last, in the way of the file; comments stay with their lines.
func TestPlacement(t *testing.T) {
	t.Parallel()
	e := object{{"command", "x"}, {"args", words("y")}}
	for text, want := range map[string]string{
		`{"a":1}`:                          `{"a":1,"m":{"k":{"command":"x","args":["y"]}}}`,
		"{\n\t\"a\": 1, // c\n\t// d\n}\n": "{\n\t\"a\": 1, // c\n\t\"m\": {\n\t\t\"k\": {\n\t\t\t\"command\": \"x\",\n\t\t\t\"args\": [\"y\"]\n\t\t}\n\t},\n\t// d\n}\n",
		"{\n    \"m\": {\n        \"a\": 1 /* c */ // d\n    }\n}": "{\n    \"m\": {\n        \"a\": 1, /* c */ // d\n        \"k\": {\n            \"command\": \"x\",\n            \"args\": [\"y\"]\n        }\n    }\n}",
		"{\n  \"m\": {}\n}":                     "{\n  \"m\": { \n    \"k\": {\n      \"command\": \"x\",\n      \"args\": [\"y\"]\n    }\n  }\n}",
		"{\n  \"m\": {\n      \"a\": 1\n  }\n}": "{\n  \"m\": {\n      \"a\": 1,\n      \"k\": {\n          \"command\": \"x\",\n          \"args\": [\"y\"]\n      }\n  }\n}",
		`{ "m": {} }`:                           `{ "m": { "k": {"command": "x", "args": ["y"]}} }`,
		"{\n  \"m\": {\n    \"k\": {\"own\": 1, \"command\": \"z\"}\n  }\n}": "{\n  \"m\": {\n    \"k\": {\"own\": 1, \"command\": \"x\", \"args\": [\"y\"]}\n  }\n}",
		"": "{\n  \"m\": {\n    \"k\": {\n      \"command\": \"x\",\n      \"args\": [\"y\"]\n    }\n  }\n}\n",
	} {
		if got, err := setJSON([]byte(text), []string{"m", "k"}, e); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", text, err, got, want)
		}
	}
	for text, want := range map[string]string{
		"[a]\nx = 1\n\n[b]\n": "[a]\nx = 1\n\n[b]\n\n[m.k]\ncommand = \"x\"\nargs = [\"y\"]\n",
		"[m.k]\nargs = ['z'] # mine\ncommand = 'x'\nown = 1\n[b]\n": "[m.k]\nargs = [\"y\"] # mine\ncommand = 'x'\nown = 1\n[b]\n",
		"[m.k]\n\n[b]": "[m.k]\ncommand = \"x\"\nargs = [\"y\"]\n\n[b]",
	} {
		if got, err := setTOML([]byte(text), []string{"m", "k"}, e); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", text, err, got, want)
		}
	}
	for text, want := range map[string]string{
		"m:\n    a:\n        b: 1\n\n# z\nz: 1\n":                    "m:\n    a:\n        b: 1\n    k:\n      command: \"x\"\n      args: [\"y\"]\n\n# z\nz: 1\n",
		"m:\n  k:\n    args:\n    - z\n    own: 1\n    command: x\n": "m:\n  k:\n    args: [\"y\"]\n    own: 1\n    command: x\n",
	} {
		if got, err := setYAML([]byte(text), []string{"m", "k"}, e); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", text, err, got, want)
		}
	}
}

// What somebody else put around the entry stays when it goes.
func TestRemoval(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"m": {/* mine */ "k": {}}}`:            `{"m": {/* mine */ }}`,
		`{"m": {"k": {} /* mine */}, "z": 1}`:    `{"m": { /* mine */}, "z": 1}`,
		"{\n  \"m\": {\n    \"k\": {},\n  }\n}":  "{\n  \"m\": {\n  }\n}",
		`{"m": {"k": {}, "o": 1}}`:               `{"m": { "o": 1}}`,
		"{\n  \"m\": {\n    \"k\": {}\n  }\n}\n": "",
		"// c\n{\"m\": {\"k\": {}}}\n":           "// c\n{}\n",
		"{\"m\": {\"k\": {}}} // c":              "{} // c",
	} {
		if got, err := removeJSON([]byte(text), []string{"m", "k"}); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", text, err, got, want)
		}
	}
	for text, want := range map[string]string{
		"[m.k]\na = 1\n# mine\n[z]\n":                        "# mine\n[z]\n",
		"x = 1\n\n[m.k.env]\na = 1\n\n[z]\n\n[m.k]\nb = 2\n": "x = 1\n\n[z]\n",
	} {
		if got, err := removeTOML([]byte(text), []string{"m", "k"}); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", text, err, got, want)
		}
	}
	for text, want := range map[string]string{
		"m:\n  k:\n    a: 1\n  # mine\nz: 1\n":       "  # mine\nz: 1\n",
		"m: # mine\n  k:\n    a: 1\nz: 1\n":          "m: # mine\nz: 1\n",
		"m:\n  # mine\n  k:\n    a: 1\n  o: 1\n":     "m:\n  # mine\n  o: 1\n",
		"m:\n  # mine\n  k:\n    a: [1,\n      2]\n": "m:\n  # mine\n",
	} {
		if got, err := removeYAML([]byte(text), []string{"m", "k"}); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", text, err, got, want)
		}
	}
}
