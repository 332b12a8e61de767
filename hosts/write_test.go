package hosts

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Links stay links, and the mode of what they point to stays.
func TestLinks(t *testing.T) {
	t.Parallel()
	m := machine(t, map[string]string{"~/dotfiles/claude.json": "{}\n"})
	for from, to := range map[string]string{"~/.claude.json": "dotfiles/link", "~/dotfiles/link": m.path("~/dotfiles/claude.json")} {
		if err := os.Symlink(to, m.path(from)); err != nil {
			t.Skip(err)
		}
	}
	h := must(t, "claude")
	if r := m.Install(h, Options{Program: program}); r.Err != nil {
		t.Fatal(r.Err)
	}
	files := m.tree(t)
	if !strings.HasPrefix(files["~/dotfiles/claude.json"], "-rw-r-----\n{ \n  \"mcpServers\"") || files["~/.claude.json"][0] != 'L' || files["~/dotfiles/link"][0] != 'L' {
		t.Errorf("%q", files)
	}
	if files["~/dotfiles/claude.json"+backupName] != "-rw-r-----\n{}\n" || len(files) != 4 {
		t.Errorf("%q", files)
	}
	if r := m.Uninstall(h, Options{}); r.Err != nil || m.tree(t)["~/dotfiles/claude.json"] != "-rw-r-----\n{}\n" || len(m.tree(t)) != 3 {
		t.Errorf("%+v, %q", r, m.tree(t))
	}
	if err := os.Remove(m.path("~/dotfiles/claude.json")); err != nil {
		t.Fatal(err)
	}
	if r := m.Install(h, Options{Program: program}); r.Err != nil || !strings.HasPrefix(m.tree(t)["~/dotfiles/claude.json"], "-rw-------\n{") {
		t.Errorf("through a link to nothing: %+v, %q", r, m.tree(t))
	}
	if err := errors.Join(os.Remove(m.path("~/dotfiles/link")), os.Symlink("link", m.path("~/dotfiles/link"))); err != nil {
		t.Fatal(err)
	}
	if r := m.Install(h, Options{Program: program}); r.Err == nil || !strings.Contains(r.Err.Error(), "too many links") {
		t.Errorf("%+v", r)
	}
}

// A host may write its file while we do: its change is kept, and ours is made
// upon it.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	h := must(t, "gemini")
	for times, ok := range map[int]bool{1: true, 2: true, 3: false} {
		m := machine(t, map[string]string{"~/.gemini/settings.json": `{"n":0}`})
		n := 0
		m.beforeRename = func() {
			if n++; n <= times {
				put(t, m.path("~/.gemini/settings.json"), `{"n":`+strings.Repeat("1", n)+`}`)
			}
		}
		r := m.Install(h, Options{Program: program})
		files := m.tree(t)
		text := files["~/.gemini/settings.json"]
		if !strings.Contains(text, `{"n":`+strings.Repeat("1", times)) || strings.Contains(text, program) != ok || (r.Err == nil) != ok || !ok && !errors.Is(r.Err, errBusy) {
			t.Errorf("%d: %+v, %s", times, r, text)
		}
		if len(files) != 2 || !strings.HasSuffix(files["~/.gemini/settings.json"+backupName], `{"n":0}`) {
			t.Errorf("%d: %q", times, files)
		}
	}
	m := machine(t, nil) // one that was not there appears
	m.beforeRename = func() {
		if !exists(m.path("~/.gemini/settings.json")) {
			put(t, m.path("~/.gemini/settings.json"), `{"n":1}`)
		}
	}
	if r := m.Install(h, Options{Program: program}); r.Err != nil || !strings.Contains(m.tree(t)["~/.gemini/settings.json"], `{"n":1,`) {
		t.Errorf("%+v, %q", r, m.tree(t))
	}
	m = machine(t, nil) // or a second one does, while the first is written: the copy is not an empty one
	first := true
	m.beforeRename = func() {
		if first {
			put(t, m.path("~/.claude/settings.json"), `{"n":1}`)
		}
		first = false
	}
	if r := m.Install(must(t, "claude"), Options{Program: program, Allow: true}); r.Err != nil {
		t.Errorf("%+v", r)
	}
	if files := m.tree(t); !strings.HasSuffix(files["~/.claude/settings.json"+backupName], "\n"+`{"n":1}`) {
		t.Errorf("%q", files)
	}
	m = machine(t, map[string]string{"~/.gemini/settings.json": "{"}) // and what can be read becomes what cannot
	put(t, m.path("~/.gemini/settings.json"), "{}")
	m.beforeRename = func() { put(t, m.path("~/.gemini/settings.json"), "{") }
	if r := m.Install(h, Options{Program: program}); r.Err == nil || !strings.HasSuffix(m.tree(t)["~/.gemini/settings.json"], "\n{") {
		t.Errorf("%+v, %q", r, m.tree(t))
	}
}

// The copy is of how it was before the first change, and no later one.
func TestBackup(t *testing.T) {
	t.Parallel()
	m := machine(t, map[string]string{"~/.codex/config.toml": "a = 1\n"})
	h := must(t, "codex")
	for _, o := range []Options{{Program: "/a/herdr-link"}, {Program: "/b/herdr-link", Allow: true}} {
		if r := m.Install(h, o); r.Err != nil {
			t.Fatal(r.Err)
		}
		if got := m.tree(t)["~/.codex/config.toml"+backupName]; got != "-rw-r-----\na = 1\n" {
			t.Errorf("%q", got)
		}
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	m := machine(t, map[string]string{"~/.qwen/settings.json": "{}", "~/.kimi-code/mcp.json": "{}"})
	if err := os.Chmod(m.path("~/.qwen/settings.json"), 0o444); err != nil {
		t.Fatal(err)
	}
	if r := m.Install(must(t, "qwen"), Options{Program: program}); r.Err == nil || !strings.Contains(r.Err.Error(), "read-only") || !strings.HasSuffix(m.tree(t)["~/.qwen/settings.json"], "\n{}") {
		t.Errorf("%+v", r)
	}
	if err := os.Chmod(m.path("~/.qwen/settings.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "windows" || os.Getuid() == 0 {
		return // to whom no folder is read-only
	}
	dir := filepath.Dir(m.path("~/.kimi-code/mcp.json"))
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o755)
	if r := m.Install(must(t, "kimi"), Options{Program: program}); r.Err == nil || len(m.tree(t)) != 2 {
		t.Errorf("%+v, %q", r, m.tree(t))
	}
}

// A program that was killed in the middle leaves the file as it was; a test can
// only look at what is there before the rename.
func TestNothingHalf(t *testing.T) {
	t.Parallel()
	m := machine(t, map[string]string{"~/.kimi-code/mcp.json": "{}"})
	m.beforeRename = func() {
		files := m.tree(t)
		if !strings.HasSuffix(files["~/.kimi-code/mcp.json"], "\n{}") || len(files) != 3 {
			t.Errorf("before the rename: %q", files)
		}
	}
	if r := m.Install(must(t, "kimi"), Options{Program: program}); r.Err != nil || len(m.tree(t)) != 2 {
		t.Errorf("%+v, %q", r, m.tree(t))
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for want, tc := range map[string][2]string{
		"--- f\n+++ f\n@@ -2,2 +2,3 @@\n b\n+x\n c\n":                               {"a\nb\nc\nd\n", "a\nb\nx\nc\nd\n"},
		"--- f\n+++ f\n@@ -1,1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n": {"a", "a\nb\n"},
		"--- f\n+++ f\n@@ -1,2 +1,1 @@\n-a\n b\n":                                   {"a\nb\nc\n", "b\nc\n"},
		"--- f\n+++ f\n@@ -1,2 +1,3 @@\n+x\n a\n b\n":                               {"", ""},
		"--- f\n+++ f\n@@ -1,2 +1,3 @@\n a\n+x\n b\n@@ -5,2 +6,3 @@\n e\n+y\n f\n":  {"a\nb\nc\nd\ne\nf\n", "a\nx\nb\nc\nd\ne\ny\nf\n"},
		"--- f\n+++ f\n@@ -1,4 +1,6 @@\n a\n-b\n-c\n+x\n+b\n+c\n+y\n d\n":           {"a\nb\nc\nd\n", "a\nx\nb\nc\ny\nd\n"},
		"--- /dev/null\n+++ f\n@@ -0,0 +1,1 @@\n+a\n":                               {"-", "a\n"},
	} {
		if tc[0] == "" {
			continue
		}
		old := []byte(tc[0])
		if tc[0] == "-" {
			old = nil
		}
		if got := diff("f", old, []byte(tc[1])); got != want {
			t.Errorf("%q: %q, want %q", tc, got, want)
		}
	}
}
