package orchestration

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// fresh is a sandbox without hooks, with that text in front of its global
// configuration.
func fresh(t *testing.T, config string) *sandbox {
	t.Helper()
	t.Parallel()
	s := bare(t, "sha1")
	s.put(s.home(".gitconfig"), config+s.config(), 0o600)
	return s
}

func (s *sandbox) config() string { return s.text(s.home(".gitconfig")) }

func (s *sandbox) text(path string) string {
	s.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s *sandbox) install(force bool) string {
	s.t.Helper()
	done, err := s.Install(s.t.Context(), force)
	if err != nil {
		s.t.Fatal(err)
	}
	return done
}

func (s *sandbox) uninstall() string {
	s.t.Helper()
	done, err := s.Uninstall(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return done
}

// refused wants an error with these words and no change at all.
func (s *sandbox) refused(words string, force bool) {
	s.t.Helper()
	config, files := s.config(), s.files()
	if done, err := s.Install(s.t.Context(), force); err == nil || !strings.Contains(err.Error(), words) {
		s.t.Errorf("%q, %v, not %q", done, err, words)
	}
	if got := s.config(); got != config {
		s.t.Errorf("the configuration was changed to\n%s", got)
	}
	if got := s.files(); !slices.Equal(got, files) {
		s.t.Errorf("files: %q, before: %q", got, files)
	}
}

// files are the names below ~/.config/herdr-link, sorted.
func (s *sandbox) files() (names []string) {
	top := s.home(".config/herdr-link")
	filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
		if err == nil {
			name, _ := filepath.Rel(top, path)
			names = append(names, name)
		}
		return nil
	})
	return names
}

// value is the global core.hooksPath as it is written.
func (s *sandbox) value() string {
	out, _ := s.command(nil, "git", "config", "--global", "--get-all", "core.hooksPath")
	return strings.TrimSuffix(out, "\n")
}

func (s *sandbox) status() HooksStatus {
	s.t.Helper()
	status, err := s.Status(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return status
}

func TestHooksDir(t *testing.T) {
	t.Parallel()
	abs := t.TempDir()
	join := func(parts ...string) string { return filepath.Join(append([]string{abs}, parts...)...) }
	for name, tc := range map[string]struct {
		env  map[string]string
		want string
	}{
		"home":         {map[string]string{"HOME": abs}, join(".config", "herdr-link", "hooks")},
		"xdg":          {map[string]string{"HOME": "/x", "XDG_CONFIG_HOME": abs}, join("herdr-link", "hooks")},
		"relative xdg": {map[string]string{"HOME": abs, "XDG_CONFIG_HOME": "x"}, join(".config", "herdr-link", "hooks")},
		"no home":      {nil, ""},
		"a wrong home": {map[string]string{"HOME": "x"}, ""},
	} {
		got, err := HooksDir(func(name string) string { return tc.env[name] })
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestGitVersion(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct {
		v    gitVersion
		text string
	}{
		"git version 2.39.5\n":                 {gitVersion{2, 39}, "2.39.5"},
		"git version 2.39.5 (Apple Git-154)\n": {gitVersion{2, 39}, "2.39.5"},
		"git version 2.45.1.windows.1\n":       {gitVersion{2, 45}, "2.45.1.windows.1"},
		"git version 3.0\n":                    {gitVersion{3, 0}, "3.0"},
		"git version 2.26-rc1\n":               {gitVersion{2, 0}, "2.26-rc1"},
		"":                                     {},
	} {
		if v, text := parseVersion(line); v != want.v || text != want.text {
			t.Errorf("%q: %v, %q", line, v, text)
		}
	}
}

func quoteGlob(path string) string { return strings.NewReplacer("[", `\[`, "*", `\*`).Replace(path) }

// Git's hooks, as githooks(5) of 2.53 lists them, are covered or named as not.
func TestHookNames(t *testing.T) {
	t.Parallel()
	all := strings.Fields(`applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg
		post-commit pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update
		reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman post-index-change`)
	ours := slices.Concat(hookNames[:], unshimmed[:])
	slices.Sort(all)
	slices.Sort(ours)
	if !slices.Equal(ours, all) {
		t.Errorf("%q, not %q", ours, all)
	}
	text, err := os.ReadFile("../docs/orchestration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range unshimmed {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/orchestration.md does not name %s", name)
		}
	}
	if n := fmt.Sprintf("hook, %d in all", len(hookNames)); !strings.Contains(string(text), n) {
		t.Errorf("docs/orchestration.md does not say %q", n)
	}
}

// From nothing to installed and back: everything is as it was.
func TestInstallHooks(t *testing.T) {
	s := fresh(t, "# mine\n[core]\n\tpager = cat # yes\n")
	before := s.config()
	if done := s.install(false); !strings.HasPrefix(done, "core.hooksPath is now "+s.Dir+"\n") || !strings.Contains(done, "newly started OpenCode") {
		t.Errorf("%q", done)
	}
	if got := s.value(); got != s.Dir {
		t.Errorf("core.hooksPath is %q", got)
	}
	for _, name := range hookNames {
		info, err := os.Lstat(s.path(name))
		if err != nil || info.Mode() != 0o755 || s.text(s.path(name)) != string(hookScript) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if names := s.files(); len(names) != 1+1+len(hookNames)+1 { // both folders, hooks, manifest
		t.Errorf("%q", names)
	}
	s.denied("plan", "refs/heads/other", "origin", "HEAD:other")
	installed := s.config()
	info, _ := os.Stat(s.path(manifestName))
	if done := s.install(false); !strings.HasPrefix(done, "nothing to do") {
		t.Errorf("again: %q", done)
	}
	s.install(true)
	if again, _ := os.Stat(s.path(manifestName)); s.config() != installed || !again.ModTime().Equal(info.ModTime()) || !os.SameFile(info, again) {
		t.Error("installing again has changed something")
	}
	if done := s.uninstall(); !strings.HasPrefix(done, "the global core.hooksPath is unset again\n") {
		t.Errorf("%q", done)
	}
	if got := s.config(); got != before {
		t.Errorf("the configuration is now\n%s", got)
	}
	if names := s.files(); len(names) > 0 {
		t.Errorf("left: %q", names)
	}
	if done := s.uninstall(); !strings.HasPrefix(done, "nothing was changed") {
		t.Errorf("again: %q", done)
	}
}

// Acceptance 37.
func TestForeignHooksPath(t *testing.T) {
	for name, value := range map[string]string{"home": "~/my hooks", "relative": ".githooks", "odd": "-x \"a\\b\"\n# é ; ", "empty": "", "missing": "/none/at/all"} {
		t.Run(name, func(t *testing.T) {
			s := fresh(t, "[core]\n\t# a comment\n[user]\n\tx = y\n")
			s.git("config", "--global", "--add", "--", "core.hooksPath", value)
			before := s.config()
			s.refused("core.hooksPath is ", false)
			s.install(true)
			if s.value() != s.Dir {
				t.Errorf("core.hooksPath is %q", s.value())
			}
			if got := s.status(); got.PreviousHooksPath == nil || *got.PreviousHooksPath != value || !got.Active {
				t.Errorf("%+v", got)
			}
			s.install(false) // a second one forgets nothing
			s.install(true)
			s.uninstall()
			if got := s.config(); got != before {
				t.Errorf("the configuration is now\n%s\nbefore\n%s", got, before)
			}
			if names := s.files(); len(names) > 0 {
				t.Errorf("left: %q", names)
			}
		})
	}
	t.Run("other bytes", func(t *testing.T) {
		s := fresh(t, "[core]\n\thooksPath = \"/\xff\xfe\"\n")
		s.install(true)
		s.uninstall()
		if got := s.value(); got != "/\xff\xfe" {
			t.Errorf("core.hooksPath is %q", got)
		}
	})
	t.Run("two values", func(t *testing.T) {
		s := fresh(t, "[core]\n\thooksPath = ~/one\n\thooksPath = ~/two\n")
		s.hook(s.home("one"), "pre-commit", "one")
		s.hook(s.home("two"), "pre-commit", "two")
		s.install(true)
		s.git("commit", "-q", "--allow-empty", "-m", "x")
		s.logged("two pre-commit")
		s.uninstall()
		if got := s.value(); got != "~/one\n~/two" {
			t.Errorf("core.hooksPath is %q", got)
		}
	})
}

// A value is ours by whatever name.
func TestOwnHooksPath(t *testing.T) {
	s := fresh(t, "")
	link := filepath.Join(s.root, "link")
	if err := os.Symlink(s.home(".config"), link); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"~/.config/herdr-link/hooks", s.Dir + "/", s.home(".config/./herdr-link//hooks"), link + "/herdr-link/hooks"} {
		s.install(false)
		s.git("config", "--global", "core.hooksPath", value)
		if done := s.install(false); !strings.HasPrefix(done, "nothing to do") || s.value() != value {
			t.Errorf("%s: %q, %s", value, done, s.value())
		}
		if got := s.status(); !got.Active {
			t.Errorf("%s: %+v", value, got)
		}
		if !strings.HasPrefix(value, link) { // where that leads to, nobody knows without the folder
			if err := os.RemoveAll(s.Dir); err != nil {
				t.Fatal(err)
			}
			if done := s.install(false); !strings.HasPrefix(done, "written anew") {
				t.Errorf("%s: %q", value, done)
			}
		}
		s.uninstall()
		if s.value() != "" || len(s.files()) > 0 {
			t.Errorf("%s: %q, %q", value, s.value(), s.files())
		}
	}
	s.install(false)
	s.git("config", "--global", "--unset", "core.hooksPath")
	s.put(s.home("included"), "[core]\n\thooksPath = ~/.config/herdr-link/hooks\n", 0o600)
	s.git("config", "--global", "include.path", "included")
	if done, err := s.Uninstall(t.Context()); err == nil || !strings.Contains(err.Error(), "includes sets it") || !s.status().Active {
		t.Errorf("%q, %v", done, err)
	}
}

// Acceptance 50.
func TestPreviousHooks(t *testing.T) {
	s := fresh(t, "[core]\n\thooksPath = ~/my hooks\n")
	s.hook(s.home("my hooks"), "pre-push", "mine")
	s.hook(s.home("my hooks"), "pre-commit", "mine")
	s.hook(".git/hooks", "pre-push", "repo")
	s.hook(".git/hooks", "pre-commit", "repo")
	s.hook(".git/hooks", "post-commit", "repo")
	round := func() {
		t.Helper()
		s.git("commit", "-q", "--allow-empty", "-m", "x")
		s.allowed("-", "origin", "HEAD")
		s.logged("mine pre-commit", "mine pre-push [origin] [../origin.git]")
	}
	round()
	s.install(true)
	round()
	s.denied("plan", "refs/heads/other", "origin", "HEAD:other")
	s.logged()
	s.git("config", "--global", "--unset", "core.hooksPath") // the user has let go of it
	env := s.env
	s.env = append(s.env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.hooksPath", "GIT_CONFIG_VALUE_0="+s.Dir)
	s.allowed("-", "origin", "HEAD:other")
	s.logged("repo pre-push [origin] [../origin.git]")
	s.env = env
	s.install(false)
	s.allowed("-", "origin", ":other")
	s.logged("repo pre-push [origin] [../origin.git]") // what was recorded before is forgotten
	s.uninstall()
	if s.value() != "" {
		t.Errorf("core.hooksPath is %s", s.value())
	}
}

// Acceptance 47.
func TestUninstallKeeps(t *testing.T) {
	s := fresh(t, "")
	s.install(false)
	s.put(s.path("my-file"), "mine", 0o600)
	s.put(s.path("pre-commit"), "#!/bin/sh\n", 0o755)
	os.Remove(s.path("update"))
	os.Remove(s.path("pre-push"))
	s.put(s.home("copy"), string(hookScript), 0o755)
	if err := os.Symlink(s.home("copy"), s.path("pre-push")); err != nil {
		t.Fatal(err)
	}
	if done := s.uninstall(); !strings.Contains(done, "\nchanged since, and kept: "+s.path("pre-commit")+", "+s.path("pre-push")+"\n") {
		t.Errorf("%q", done)
	}
	if names := s.files(); !slices.Equal(names, []string{".", "hooks", "hooks/my-file", "hooks/pre-commit", "hooks/pre-push"}) {
		t.Errorf("%q", names)
	}
}

// What was written by a version before is renewed; what somebody has changed is
// kept beside.
func TestInstallRenews(t *testing.T) {
	s := fresh(t, "")
	s.install(false)
	old := "#!/bin/sh\n# herdr-link hook\n# older\n"
	s.put(s.path("pre-push"), old, 0o755)
	s.put(s.path(manifestName), strings.Replace(s.text(s.path(manifestName)), "\"pre-push\"]\n\tsha256 = "+digest(hookScript), "\"pre-push\"]\n\tsha256 = "+digest([]byte(old)), 1), 0o644)
	s.put(s.path("update"), "#!/bin/sh\n", 0o755)
	if err := os.Chmod(s.path("pre-commit"), 0o644); err != nil {
		t.Fatal(err)
	}
	if s.status().DigestOK {
		t.Error("digestOk")
	}
	done := s.install(false)
	backups, _ := filepath.Glob(quoteGlob(s.Dir) + "/*.backup-*")
	if len(backups) != 1 || !strings.HasPrefix(filepath.Base(backups[0]), "update.backup-2") || s.text(backups[0]) != "#!/bin/sh\n" || !strings.Contains(done, "\nkept as it was: "+backups[0]+"\n") {
		t.Errorf("%q: %q", done, backups)
	}
	if !s.status().DigestOK {
		t.Error("not digestOk")
	}
}

// Where a step fails, everything is as it was.
func TestInstallRollsBack(t *testing.T) {
	t.Run("no regular file", func(t *testing.T) {
		s := fresh(t, "")
		s.put(s.path("pre-commit"), "changed", 0o755)
		if err := os.Symlink("pre-commit", s.path("update")); err != nil {
			t.Fatal(err)
		}
		s.refused("update is no regular file", false)
		if s.text(s.path("pre-commit")) != "changed" {
			t.Error("pre-commit was changed")
		}
	})
	t.Run("first file", func(t *testing.T) {
		s := fresh(t, "")
		s.put(s.path(hookNames[0]+"/x"), "", 0o600)
		s.refused("is no regular file", false)
	})
	t.Run("no place", func(t *testing.T) {
		s := fresh(t, "")
		s.put(s.home(".config"), "", 0o600)
		s.refused(".config", false)
	})
	t.Run("foreign manifest", func(t *testing.T) {
		s := fresh(t, "")
		for text, words := range map[string]string{"[a]\n\tb = c\n": "is not a manifest", "\x00\x00": "cannot be read", "[herdr-link]\n\tschema = 2\n": "is not a manifest", "[": "cannot be read"} {
			s.put(s.path(manifestName), text, 0o644)
			s.refused(words, true)
			if got := s.status(); got.DigestOK || got.HookInstalled {
				t.Errorf("%+v", got)
			}
		}
	})
	t.Run("locked", func(t *testing.T) {
		s := fresh(t, "[core]\n\thooksPath = /x\n")
		s.put(s.home(".gitconfig.lock"), "", 0o600)
		s.refused("git config: ", true)
	})
	t.Run("another hooks folder of herdr-link", func(t *testing.T) {
		s := fresh(t, "")
		other := Hooks{s.home("other/herdr-link/hooks"), s.env}
		if _, err := other.Install(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		s.refused("another hooks folder of herdr-link", true)
	})
	t.Run("included", func(t *testing.T) {
		s := fresh(t, "")
		s.put(s.home("included"), "[core]\n\thooksPath = ~/x\n", 0o600)
		s.put(s.home(".gitconfig"), "[core]\n\tbare = false\n"+s.config()+"[include]\n\tpath = included\n", 0o600)
		s.refused("with --force", false)
		s.refused("core.hooksPath stays "+s.home("x"), true)
	})
}

// The setting is taken from where it was written, although git would write it
// elsewhere by now.
func TestTwoGlobalFiles(t *testing.T) {
	for _, before := range []string{"[user]\n\tname = a\n", "[core]\n\thooksPath = ~/mine\n"} {
		t.Run(strings.Fields(before)[0], func(t *testing.T) {
			s := fresh(t, "")
			first, second := s.home(".gitconfig"), s.home(".config/git/config")
			text := s.take(first)
			s.put(second, before, 0o600)
			s.install(true)
			s.put(first, text, 0o600)
			s.uninstall()
			if s.text(first) != text || s.text(second) != before || len(s.files()) > 0 {
				t.Errorf("left: %q\n%s\n%s", s.files(), s.text(first), s.text(second))
			}
		})
	}
}

// Changes at once come one after the other, and none takes another's half for
// what was there.
func TestHooksAtOnce(t *testing.T) {
	s := fresh(t, "[core]\n\thooksPath = ~/mine\n")
	config := s.config()
	all := func(do func() error) {
		t.Helper()
		errs := make(chan error)
		for range 4 {
			go func() { errs <- do() }()
		}
		for range 4 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	}
	all(func() error { _, err := s.Install(t.Context(), true); return err })
	if got := s.status(); !got.Active || !got.DigestOK || got.PreviousHooksPath == nil || *got.PreviousHooksPath != "~/mine" {
		t.Errorf("%+v", got)
	}
	all(func() error { _, err := s.InstallSession(t.Context()); return err })
	all(func() error { _, err := s.Uninstall(t.Context()); return err })
	if got := s.status(); !got.DigestOK || s.config() != config {
		t.Errorf("%+v\n%s", got, s.config())
	}
	all(func() error { _, err := s.UninstallSession(t.Context()); return err })
	if len(s.files()) > 0 {
		t.Errorf("left: %q", s.files())
	}
}

// What a file that is included before sets is not touched.
func TestIncludedHooksPath(t *testing.T) {
	s := fresh(t, "[include]\n\tpath = included\n[core]\n\tbare = false\n")
	s.put(s.home("included"), "[core]\n\thooksPath = ~/x\n", 0o600)
	s.hook(s.home("x"), "pre-commit", "x")
	before := s.config()
	s.install(true)
	s.git("commit", "-q", "--allow-empty", "-m", "x")
	s.logged("x pre-commit")
	s.uninstall()
	if s.config() != before {
		t.Errorf("the configuration is now\n%s", s.config())
	}
}

// The caller's variables that redirect Git do not change which file is meant,
// but those for the global file do, as for the user's own git.
func TestCallersGitVariables(t *testing.T) {
	s := fresh(t, "")
	other := s.home("other")
	s.put(s.home(".config/git/config"), "", 0o600)
	s.Environ = append(slices.Clone(s.env), "GIT_DIR="+filepath.Join(s.dir, ".git"), "GIT_CONFIG="+other, "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=core.hooksPath", "GIT_CONFIG_VALUE_0="+s.Dir, "GIT_CONFIG_PARAMETERS='core.hookspath'='/x'")
	s.install(false)
	if s.value() != s.Dir {
		t.Errorf("core.hooksPath is %q", s.value())
	}
	s.uninstall()
	if _, err := os.Stat(other); err == nil || s.value() != "" {
		t.Errorf("core.hooksPath is %q", s.value())
	}
	before := s.config()
	s.Environ = append(slices.Clone(s.env), "GIT_CONFIG_GLOBAL="+other)
	s.install(false)
	if got := s.text(other); !strings.Contains(got, "hooksPath") || s.config() != before {
		t.Errorf("%q, %q", got, s.config())
	}
}

// A setting that only one repository includes is none that holds everywhere.
func TestConditionalInclude(t *testing.T) {
	s := bare(t, "sha1")
	t.Chdir(s.dir) // so it cannot be parallel
	s.put(s.home("included"), "[core]\n\thooksPath = ~/x\n", 0o600)
	s.git("config", "--global", "includeIf.gitdir:**/work/.git.path", "included")
	if got := s.git("config", "core.hooksPath"); got != "~/x" {
		t.Fatalf("it is not included: %q", got)
	}
	s.install(false)
	if s.value() != s.Dir {
		t.Errorf("core.hooksPath is %q", s.value())
	}
	s.git("config", "--global", "core.hooksPath", "../home/.config/herdr-link/hooks") // ours from here, and from nowhere else
	s.refused("with --force", false)
}

// The hooks of sessions and the global ones are the same files: the last one who
// needs them takes them away.
func TestSessionFiles(t *testing.T) {
	s := fresh(t, "[core]\n\thooksPath = ~/mine\n")
	config := s.config()
	undo, err := s.InstallSession(t.Context())
	if err != nil || undo == nil || s.config() != config {
		t.Fatalf("%v", err)
	}
	if err := undo(); err != nil || len(s.files()) > 0 {
		t.Errorf("taken back: %v, left: %q", err, s.files())
	}
	if _, err := s.InstallSession(t.Context()); err != nil {
		t.Fatal(err)
	}
	if undo, err := s.InstallSession(t.Context()); err != nil || undo != nil {
		t.Errorf("again: %v, something was written: %t", err, undo != nil)
	}
	if got := s.status(); !got.HookInstalled || got.Active || !got.DigestOK {
		t.Errorf("%+v", got)
	}
	if done := s.uninstall(); !strings.HasPrefix(done, "nothing was changed") || len(s.files()) == 0 {
		t.Errorf("%q, %q", done, s.files())
	}
	s.install(true)
	if done := s.uninstall(); !strings.Contains(done, "is again ~/mine; the hooks stay for the sessions") || !s.status().DigestOK || s.config() != config {
		t.Errorf("%q, %s", done, s.config())
	}
	s.install(true)
	if kept, err := s.UninstallSession(t.Context()); err != nil || len(kept) > 0 || !s.status().Active || *s.status().PreviousHooksPath != "~/mine" {
		t.Errorf("%v, %v", kept, err)
	}
	s.uninstall()
	if len(s.files()) > 0 || s.config() != config {
		t.Errorf("left: %q", s.files())
	}
	if _, err := s.InstallSession(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.put(s.path("update"), "changed", 0o755)
	for range 2 {
		if kept, err := s.UninstallSession(t.Context()); err != nil || len(kept) > 0 && !slices.Equal(kept, []string{s.path("update")}) {
			t.Errorf("%v, %v", kept, err)
		}
	}
	if names := s.files(); !slices.Equal(names, []string{".", "hooks", "hooks/update"}) || s.config() != config {
		t.Errorf("left: %q", names)
	}
}

func TestHooksStatus(t *testing.T) {
	s := fresh(t, "")
	s.Environ = append(slices.Clone(s.env), "GIT_DIR="+filepath.Join(s.dir, ".git"), "GIT_WORK_TREE="+s.dir)
	version := strings.Fields(s.git("version"))[2]
	text := func(v string) *string { return &v }
	want := HooksStatus{ExpectedHooksPath: s.Dir, GitVersion: &version, Unshimmed: []string{}}
	check := func(step string) {
		t.Helper()
		if got := s.status(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", step, got, want)
		}
	}
	check("nothing")
	s.git("config", "--global", "core.hooksPath", "~/x")
	want.ConfiguredHooksPath = text(s.home("x"))
	check("foreign")
	s.install(true)
	want.ConfiguredHooksPath, want.PreviousHooksPath = text(s.Dir), text("~/x")
	want.HookInstalled, want.Active, want.DigestOK = true, true, true
	check("installed")
	s.hook(".git/hooks", "reference-transaction", "x")
	s.put(filepath.Join(s.dir, ".git", "hooks", "proc-receive"), "", 0o644)
	want.Unshimmed = []string{"reference-transaction"}
	check("unshimmed")
	s.git("config", "core.hooksPath", "hooks")
	s.hook("hooks", "fsmonitor-watchman", "x")
	want.RepoHooksPath, want.Unshimmed = text("hooks"), []string{"fsmonitor-watchman"}
	check("repository")
	s.Environ = append(s.Environ, "GIT_DIR=/none")
	want.RepoHooksPath, want.Unshimmed = nil, []string{}
	check("outside")
	if err := os.Chmod(s.path("pre-push"), 0o644); err != nil {
		t.Fatal(err)
	}
	want.HookInstalled, want.Active, want.DigestOK = false, false, false
	check("not executable")
}

// A hooks folder of any name can be the global one.
func TestOddHooksDir(t *testing.T) {
	names := []string{" a b", "-x", "a\nb", "a\n", "a\\b\"c", "$(x)`x`", "~", "#;é"}
	if runtime.GOOS == "linux" {
		names = append(names, "\xff")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			s := fresh(t, "[core]\n\thooksPath = "+quote("../"+name)+"\n")
			s.Dir = filepath.Join(s.root, name, "herdr-link", "hooks")
			s.hook("../"+name, "pre-push", "mine")
			s.install(true)
			s.denied("plan", "refs/heads/other", "origin", "HEAD:other")
			s.logged()
			s.allowed("plan", "origin", "HEAD")
			s.logged("mine pre-push [origin] [../origin.git]")
			s.uninstall()
			if got, _ := s.command(nil, "git", "config", "--global", "core.hooksPath"); got != "../"+name+"\n" {
				t.Errorf("core.hooksPath is %q", got)
			}
		})
	}
}
