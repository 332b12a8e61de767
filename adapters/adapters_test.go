package adapters

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"herdr-link/contract"
	"herdr-link/link"
)

var makers = map[string]func(binary, version string) []byte{"pi": Pi, "opencode": OpenCode}

// programLine is the only place where the path is.
var programLine = regexp.MustCompile(`(?m)^const PROGRAM = (".*");$`)

func TestPlaceholders(t *testing.T) {
	t.Parallel()
	for host, file := range makers {
		plain := file("X", "V")
		for _, path := range []string{
			"/opt/herdr-link", `C:\Program Files\herdr-link.exe`, `/it's "quoted"/\u0041\`, "/a\nb\rc\td\x00e", "/程序/ü/😀", "/a\u2028b\u2029c",
			"/*/${x}`//</script>", `/"@VERSION@"/"@HERDR_LINK@"`, "",
		} {
			text := file(path, "V")
			found := programLine.FindAllSubmatch(text, -1)
			if len(found) != 1 {
				t.Fatalf("%s, %q: %d lines name the program", host, path, len(found))
			}
			var got string
			if err := json.Unmarshal(found[0][1], &got); err != nil || got != path {
				t.Errorf("%s: %q became %q, %v", host, path, got, err)
			}
			// Nothing else changed: the path did not end its string, nor its line.
			if rest := bytes.Replace(text, found[0][1], []byte(`"X"`), 1); !bytes.Equal(rest, plain) {
				t.Errorf("%s: %q changed more than its own line", host, path)
			}
			if bytes.ContainsAny(found[0][1], "\u2028\u2029\n\r") {
				t.Errorf("%s: %q has a line's end in it", host, path)
			}
			if got := Program(text); got != path {
				t.Errorf("%s: the program of %q is %q", host, path, got)
			}
		}
	}
}

func TestNoProgram(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "const PROGRAM = 1;", "\nconst PROGRAM = \"a\"\n", "\nconst PROGRAM = x;\n", "\nconst PROGRAM = 1;\n"} {
		if got := Program([]byte(text)); got != "" {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestMark(t *testing.T) {
	t.Parallel()
	for host, file := range makers {
		for _, version := range []string{"0.6.0", "", "1.0.0-rc.1+x", "a\nb", `"`, "\u2028", "*/"} {
			if got, ours := Mark(file("/opt/herdr-link", version)); !ours || got != version {
				t.Errorf("%s: version %q is read as %q, %v", host, version, got, ours)
			}
		}
	}
	for _, text := range []string{
		mark + `"0.1.0"`, mark + `"0.1.0"` + "\nanything", mark + `"0.1.0"` + "\r\nfrom an editor",
	} {
		if got, ours := Mark([]byte(text)); !ours || got != "0.1.0" {
			t.Errorf("%q: %q, %v", text, got, ours)
		}
	}
	for _, text := range []string{
		"", "export default 1", mark, mark + "0.1.0", mark + `"0.1.0`, mark + `"0.1.0" "0.2.0"`, mark + `17`, mark + "\n" + `"0.1.0"`,
		"\n" + mark + `"0.1.0"`, "// herdr-link",
	} {
		if got, ours := Mark([]byte(text)); ours {
			t.Errorf("%q is taken for ours, version %q", text, got)
		}
	}
}

// A rule or a text that a model reads is never written twice.
func TestNoText(t *testing.T) {
	t.Parallel()
	var texts []string
	inside := map[string]string{"HERDR_ENV": "1", "HERDR_BIN_PATH": "herdr", "HERDR_PANE_ID": "pane"}
	for _, tool := range link.New(link.Options{Getenv: func(name string) string { return inside[name] }}).Tools() {
		texts = append(texts, tool.Title, string(tool.InputSchema), "inputSchema:")
		texts = append(texts, sentences(tool.Description)...)
		texts = append(texts, descriptions(t, tool.InputSchema)...)
	}
	for _, text := range []string{contract.Rules, contract.Fallback, contract.Hint} {
		texts = append(texts, sentences(text)...)
	}
	if len(texts) < 30 {
		t.Fatalf("only %d texts to look for", len(texts))
	}
	for host, file := range makers {
		text := string(file("/opt/herdr-link", "V"))
		for _, forbidden := range texts {
			if strings.Contains(text, forbidden) {
				t.Errorf("%s: says %q", host, forbidden)
			}
		}
		for _, forbidden := range []string{"herdr_link_", "herdr-link/1", "PEER_NOT_FOUND", "SEND_FAILED", "shell:", "exec(", "execSync", "require(", "HERDR_WORKSPACE_ID"} {
			if strings.Contains(text, forbidden) {
				t.Errorf("%s: has %s", host, forbidden)
			}
		}
		for _, from := range regexp.MustCompile(`(?m)^import (type )?.* from "(.*)";$`).FindAllStringSubmatch(text, -1) {
			if from[1] == "" && !strings.HasPrefix(from[2], "node:") {
				t.Errorf("%s: imports %s", host, from[2])
			}
		}
		if n, m := strings.Count(text, "import"), len(regexp.MustCompile(`(?m)^import (type )?\{`).FindAllString(text, -1)); n != m {
			t.Errorf("%s: %d of %d imports are of another form", host, n-m, n)
		}
	}
}

func sentences(text string) []string {
	parts := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(".:;\n", r) })
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	var long []string
	for _, p := range parts {
		if len(p) > 12 {
			long = append(long, p)
		}
	}
	return long
}

func descriptions(t *testing.T, schema []byte) (found []string) {
	t.Helper()
	var s struct {
		Properties map[string]struct {
			Description string `json:"description"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Properties {
		if p.Description != "" {
			found = append(found, p.Description)
		}
	}
	return found
}
