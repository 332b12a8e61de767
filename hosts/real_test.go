package hosts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// With HERDR_LINK_HOSTS=DIR, where DIR/<host>/node_modules/.bin has the real
// hosts, their own command for adding a server must end in what install writes,
// but for what that command cannot do. They get a home of their own.
func TestRealHosts(t *testing.T) {
	dir := os.Getenv("HERDR_LINK_HOSTS")
	if dir == "" {
		t.Skip("HERDR_LINK_HOSTS is not set")
	}
	for name, tc := range map[string]struct {
		program string
		add     []string
		list    []string
	}{
		"claude": {"claude/node_modules/.bin/claude", []string{"mcp", "add", "-s", "user", key, "--", program}, []string{"mcp", "get", key}},
		"codex":  {"codex/node_modules/.bin/codex", []string{"mcp", "add", key, "--", program, "--eager"}, []string{"mcp", "get", key}},
		"gemini": {"gemini/node_modules/.bin/gemini", []string{"mcp", "add", "-s", "user", key, program}, []string{"mcp", "list"}},
		"pi":     {"pi-new/node_modules/.bin/pi", []string{"mcp", "add", key, "--exposure", "direct", "--", program}, []string{"mcp", "list"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := must(t, name)
			run := func(m Machine, args ...string) (string, error) {
				t.Helper()
				if err := os.MkdirAll(m.path("~/.codex"), 0o700); err != nil { // Codex wants it
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), filepath.Join(dir, tc.program), args...)
				cmd.Dir = m.Dir
				cmd.WaitDelay = time.Second
				cmd.Env = []string{"HOME=" + m.Home, "PATH=" + filepath.Join(dir, "node22/node_modules/.bin") + ":/usr/bin:/bin", "DISABLE_AUTOUPDATER=1",
					"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "PI_OFFLINE=1", "GEMINI_CLI_TRUST_WORKSPACE=true"}
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			theirs, ours := machine(t, nil), machine(t, nil)
			if out, err := run(theirs, tc.add...); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			text, err := os.ReadFile(theirs.pick(h.file))
			if err != nil {
				t.Fatal(err)
			}
			got, found, err := editorOf(h.format).get(text, h.entryPath())
			if err != nil || !found {
				t.Fatalf("%v in %s", err, text)
			}
			want := plain(h.entry(Options{Program: program}, ours.OS, permit{}))
			if !sameBut(got, want) {
				t.Errorf("it wrote %v, we %v", got, want)
			}
			if s := theirs.Status(h, Options{}); s.State == "foreign" || s.State == "absent" {
				t.Errorf("not recognised: %+v", s)
			}
			if r := ours.Install(h, Options{Program: program, MCP: true, Allow: true}); r.Err != nil {
				t.Fatal(r.Err)
			}
			if out, _ := run(ours, tc.list...); !strings.Contains(out, key) || !strings.Contains(out, program) {
				t.Errorf("it does not see it:\n%s", out)
			}
		})
	}
}

// sameBut reports whether all that got has is in want, but for empty lists,
// which some leave out.
func sameBut(got, want any) bool {
	g, w := got.(map[string]any), want.(map[string]any)
	for k, v := range g {
		switch v := v.(type) {
		case string:
			if w[k] != v {
				return false
			}
		default:
			if !covers(w[k], v) {
				return false
			}
		}
	}
	return true
}
