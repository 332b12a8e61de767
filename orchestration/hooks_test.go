package orchestration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"herdr-link/twin"
)

// templates holds what sandboxes are copied from, made by the first test that
// needs it.
var templates struct {
	dir   string
	hooks func() (string, error)
	repos map[string]func() (string, error) // by object format
}

// withTemplates runs the tests with what those of the hooks are made of.
func withTemplates(m *testing.M) int {
	dir, err := os.MkdirTemp("", "herdr-link-hooks-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	templates.dir = dir
	templates.hooks = sync.OnceValues(makeHooks)
	templates.repos = map[string]func() (string, error){}
	for _, format := range []string{"sha1", "sha256"} {
		templates.repos[format] = sync.OnceValues(func() (string, error) { return makeRepos(format) })
	}
	defer os.RemoveAll(dir)
	return twin.Main(m)
}

// makeHooks writes hooks that no global setting points to yet.
func makeHooks() (string, error) {
	h := Hooks{filepath.Join(templates.dir, "hooks dir"), isolated(templates.dir)}
	_, err := h.InstallSession(context.Background())
	return h.Dir, err
}

// makeRepos makes origin.git and work, a clone of it. The branch main is of one
// commit; feature, which is checked out, has one more there and two more here.
func makeRepos(format string) (string, error) {
	dir := filepath.Join(templates.dir, format)
	if err := os.MkdirAll(filepath.Join(dir, "home"), 0o700); err != nil {
		return "", err
	}
	config := "[user]\n\tname = a\n\temail = a@example.com\n[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n"
	if err := os.WriteFile(filepath.Join(dir, "home", ".gitconfig"), []byte(config), 0o600); err != nil {
		return "", err
	}
	for _, args := range []string{
		"init -q --bare --object-format=" + format + " origin.git",
		"init -q --object-format=" + format + " work",
		"-C work remote add origin ../origin.git",
		"-C work commit -q --allow-empty -m one",
		"-C work push -q origin main",
		"-C work checkout -q -b feature",
		"-C work commit -q --allow-empty -m two",
		"-C work push -q origin feature",
		"-C work commit -q --allow-empty -m three",
	} {
		cmd := exec.Command("git", strings.Fields(args)...)
		cmd.Dir, cmd.Env = dir, isolated(dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("git %s: %w: %s", args, err, out)
		}
	}
	return dir, nil
}

// isolated is the environment of a git that sees nothing of this machine.
func isolated(root string) []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return strings.HasPrefix(name, "GIT_") || slices.Contains([]string{"SHEPHERD_MODE", "XDG_CONFIG_HOME"}, name)
	})
	home := filepath.Join(root, "home")
	return append(env, "HOME="+home, "USERPROFILE="+home, "GIT_CONFIG_NOSYSTEM=1", "TMPDIR="+filepath.Join(root, "tmp"), "LC_ALL=C")
}

// A sandbox is a home, an origin and a clone of it, with the hooks in force.
type sandbox struct {
	t    *testing.T
	root string
	env  []string
	dir  string // where git runs: work
	Hooks
}

func newSandbox(t *testing.T, format string) *sandbox {
	t.Helper()
	t.Parallel()
	needGit(t)
	hooks, err := templates.hooks()
	if err != nil {
		t.Fatal(err)
	}
	s := bare(t, format)
	s.git("config", "--global", "core.hooksPath", hooks)
	s.Dir = hooks
	return s
}

// bare is a sandbox without hooks; Dir is where Install would put them.
func bare(t *testing.T, format string) *sandbox {
	t.Helper()
	needGit(t)
	template, err := templates.repos[format]()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "a b'$(c)[d]*") // no shell may read anything into it
	if err := os.CopyFS(root, os.DirFS(template)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := &sandbox{t: t, root: root, env: isolated(root), dir: filepath.Join(root, "work")}
	s.Hooks = Hooks{filepath.Join(root, "home", ".config", "herdr-link", "hooks"), s.env}
	t.Cleanup(func() {
		if left, _ := os.ReadDir(filepath.Join(root, "tmp")); len(left) > 0 {
			t.Errorf("temporary files are left: %v", left)
		}
	})
	return s
}

func needGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed: nothing of the push policy is tested")
	}
	if runtime.GOOS == "windows" {
		t.Skip("on Windows Git brings its own sh: the hooks are not tested there")
	}
}

// command runs it where s is, with more variables.
func (s *sandbox) command(env []string, name string, args ...string) (out string, err error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = s.dir, append(slices.Clone(s.env), env...)
	cmd.WaitDelay = time.Second
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// git must succeed.
func (s *sandbox) git(args ...string) string {
	s.t.Helper()
	out, err := s.command(nil, "git", args...)
	if err != nil {
		s.t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSuffix(out, "\n")
}

// remote is what the origin has.
func (s *sandbox) remote() string { return s.git("-C", "../origin.git", "for-each-ref") }

// as is the environment of an agent in that mode; "-" is a person's.
func as(mode string) []string {
	if mode == "-" {
		return nil
	}
	return []string{"SHEPHERD_MODE=" + mode}
}

// denied pushes in that mode, and wants one line that says these words and no
// change of the origin.
func (s *sandbox) denied(mode, words string, args ...string) {
	s.t.Helper()
	before := s.remote()
	out, err := s.command(as(mode), "git", append([]string{"push"}, args...)...)
	var ours []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "herdr-link:") {
			ours = append(ours, line)
		}
	}
	if err == nil || len(ours) != 1 || !strings.HasPrefix(ours[0], "herdr-link: mode "+mode+" may not push ") || !strings.Contains(ours[0], words) {
		s.t.Errorf("mode %s, push %q: %v, not denied with %q:\n%s", mode, args, err, words, out)
	}
	if after := s.remote(); after != before {
		s.t.Errorf("mode %s, push %q: the origin has changed from\n%s\nto\n%s", mode, args, before, after)
	}
}

// allowed pushes in that mode, and wants no word of ours.
func (s *sandbox) allowed(mode string, args ...string) {
	s.t.Helper()
	out, err := s.command(as(mode), "git", append([]string{"push"}, args...)...)
	if err != nil || strings.Contains(out, "herdr-link") {
		s.t.Errorf("mode %s, push %q: %v\n%s", mode, args, err, out)
	}
}

// at wants the origin's branch to be that local commit.
func (s *sandbox) at(branch, commit string) {
	s.t.Helper()
	if got, want := s.git("-C", "../origin.git", "rev-parse", "refs/heads/"+branch), s.git("rev-parse", commit+"^{commit}"); got != want {
		s.t.Errorf("the origin's %s is %s, not %s", branch, got, want)
	}
}

// recorder is a hook that notes its name and arguments in a log, and its stdin
// in a file; it exits with the number that is in the file exit.
const recorder = `#!/bin/sh
line="$HOOKS ${0##*/}"
for argument; do line="$line [$argument]"; done
printf '%s\n' "${line# }" >>"$HOME/log"
cat >"$HOME/stdin"
[ ! -f "$HOME/exit" ] || exit "$(cat "$HOME/exit")"
`

// hook puts a recorder in that directory, which signs with a word.
func (s *sandbox) hook(dir, name, sign string) {
	s.t.Helper()
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(s.dir, dir)
	}
	s.put(filepath.Join(dir, name), strings.Replace(recorder, "$HOOKS", sign, 1), 0o755)
}

func (s *sandbox) home(name string) string { return filepath.Join(s.root, "home", name) }

func (s *sandbox) put(path, text string, mode fs.FileMode) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	os.Remove(path)
	syscall.ForkLock.RLock() // a program that a child has open for writing cannot be run
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		s.t.Fatal(err)
	}
}

// take returns a file's text and removes it; "" without a file.
func (s *sandbox) take(path string) string {
	text, _ := os.ReadFile(path)
	os.Remove(path)
	return string(text)
}

// logged wants these lines in the log since it was asked last.
func (s *sandbox) logged(want ...string) {
	s.t.Helper()
	text := strings.Join(want, "\n")
	if len(want) > 0 {
		text += "\n"
	}
	if got := s.take(s.home("log")); got != text {
		s.t.Errorf("hooks ran:\n%swant:\n%s", got, text)
	}
}

func formats(t *testing.T, do func(t *testing.T, s *sandbox)) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) { do(t, newSandbox(t, format)) })
	}
}

// Acceptance 38.
func TestPlannerPushes(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, s *sandbox) {
		s.allowed("plan", "origin", "HEAD") // what the origin has is an ancestor
		s.at("feature", "feature")
		s.git("checkout", "-q", "-b", "topic/new")
		s.allowed("plan", "-u", "origin", "HEAD") // the origin has none
		s.at("topic/new", "topic/new")
		s.git("commit", "-q", "--allow-empty", "-m", "four")
		s.allowed("plan", "--set-upstream", "origin", "HEAD")
		s.git("commit", "-q", "--allow-empty", "-m", "five")
		s.allowed("plan", "origin", "topic/new")
		s.git("commit", "-q", "--allow-empty", "-m", "six")
		s.allowed("plan", "origin", "@")
		s.at("topic/new", "topic/new")
		s.allowed("plan", "origin", "HEAD") // nothing is left to push
		s.allowed("plan")
	})
}

// Acceptance 39.
func TestPlannerDenied(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, s *sandbox) {
		s.git("tag", "v1")
		s.git("tag", "-a", "-m", "x", "feature", "HEAD") // a tag with the branch's name
		s.git("branch", "other", "HEAD")
		s.git("notes", "add", "-m", "x")
		s.git("branch", "-f", "main", "HEAD")
		s.denied("plan", "refs/heads/main", "origin", "main")
		s.denied("plan", "refs/tags/v1", "origin", "v1")
		s.denied("plan", "refs/tags/feature", "origin", "refs/tags/feature")
		s.denied("plan", "refs/tags/v1", "origin", "HEAD", "v1")
		s.denied("plan", "refs/tags/feature", "--follow-tags", "origin", "HEAD")
		s.denied("plan", "refs/tags/", "--tags", "origin")
		s.denied("plan", "refs/heads/other", "origin", "HEAD:other")
		s.denied("plan", "refs/heads/other", "origin", "HEAD:refs/heads/other")
		s.denied("plan", "refs/heads/other", "origin", "other")
		s.denied("plan", "refs/heads/main", "origin", "HEAD:main")
		s.denied("plan", "refs/notes/commits", "origin", "refs/notes/commits")
		s.denied("plan", "refs/heads/feature: this would delete", "origin", ":feature")
		s.denied("plan", "refs/heads/feature: this would delete", "origin", "HEAD:refs/heads/other", ":feature")
		s.denied("plan", "refs/heads/main: this would delete", "--delete", "origin", "main")
		s.denied("plan", "only the current branch itself", "origin", "other:refs/heads/feature")
		s.denied("plan", "only the current branch itself", "origin", "HEAD~0:refs/heads/feature")
		s.denied("plan", "only the current branch itself", "origin", s.git("rev-parse", "HEAD")+":refs/heads/feature")
		s.denied("plan", "only the current branch itself", "origin", "HEAD^{/three}:refs/heads/feature")
		s.denied("plan", "only the current branch itself", "origin", "HEAD^{/th[r ]ee}:refs/heads/feature")
		s.denied("plan", "only refs/heads/feature", "--mirror", "origin")
		s.denied("plan", "only refs/heads/feature", "--all", "origin")

		s.git("tag", "-d", "feature")
		s.git("commit", "-q", "--amend", "--allow-empty", "-m", "three, too")
		s.allowed("plan", "origin", "HEAD") // the origin has only its parent
		s.git("commit", "-q", "--amend", "--allow-empty", "-m", "three again")
		for _, force := range [][]string{{"--force", "origin", "HEAD"}, {"origin", "+HEAD"}, {"--force-with-lease", "origin", "HEAD"}} {
			s.denied("plan", "this would rewrite", force...)
		}
		s.git("replace", "--graft", "HEAD", s.git("rev-parse", "@{1}")) // a parent that is none
		s.denied("plan", "this would rewrite", "--force", "origin", "HEAD")
	})
}

// A commit of the origin that is not here cannot be an ancestor.
func TestUnknownCommitDenied(t *testing.T) {
	s := newSandbox(t, "sha1")
	tree := s.git("rev-parse", "HEAD^{tree}")
	s.git("-C", "../origin.git", "update-ref", "refs/heads/feature", s.git("-C", "../origin.git", "commit-tree", "-p", "feature", "-m", "x", tree))
	s.denied("plan", "this would rewrite", "--force", "origin", "HEAD")
	s.allowed("build", "--force", "origin", "HEAD")
}

// Acceptance 40.
func TestSHA256(t *testing.T) {
	s := newSandbox(t, "sha256")
	s.denied("plan", "refs/heads/feature: this would delete", "origin", ":feature")
	s.git("checkout", "-q", "-b", "new")
	s.allowed("plan", "origin", "HEAD")
	s.at("new", "HEAD")
}

// Acceptance 41.
func TestDetached(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, s *sandbox) {
		s.git("checkout", "-q", "--detach")
		s.denied("plan", "HEAD is detached", "origin", "HEAD:refs/heads/feature")
		s.denied("plan", "HEAD is detached", "origin", "feature")
		s.allowed("none", "origin", "HEAD:refs/heads/new")
		s.at("new", "HEAD")
		s.git("checkout", "-q", "feature")
		s.git("update-ref", "refs/other", "HEAD")
		s.git("symbolic-ref", "HEAD", "refs/other")
		s.denied("plan", "on no branch", "origin", "HEAD:refs/heads/feature")
	})
}

// Acceptance 42.
func TestLeavesPushNothing(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, s *sandbox) {
		s.hook(".git/hooks", "pre-push", "repo")
		for _, mode := range []string{"sheep-plan", "sheep-build", "review"} {
			s.denied(mode, "refs/heads/feature", "origin", "HEAD")
			s.denied(mode, "refs/heads/new", "origin", "HEAD:refs/heads/new")
			s.denied(mode, "refs/heads/main", "origin", ":main")
			s.denied(mode, "anything", "origin", "main") // there is nothing to push
			s.denied(mode, "refs/heads/", "--mirror", "origin")
		}
		s.logged()
	})
}

// Acceptance 43.
func TestOthersPushAnything(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, s *sandbox) {
		s.git("config", "--add", "orchestration.protectedBranch", "feature")
		s.git("checkout", "-q", "main")
		for i, mode := range []string{"build", "-", "none", "", "Plan", "plan ", "sheep"} {
			s.git("commit", "-q", "--amend", "--allow-empty", "-m", fmt.Sprint("one, ", i))
			s.allowed(mode, "--force", "origin", "main")
			s.at("main", "main")
			s.allowed(mode, "origin", "HEAD:refs/heads/other")
			s.allowed(mode, "origin", ":other")
		}
	})
}

// Acceptance 44, and every other way for a branch to be protected.
func TestProtected(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, s *sandbox) {
		const words = "the branch is protected"
		for _, branch := range []string{"main", "master"} {
			s.git("checkout", "-q", "-B", branch, "feature")
			s.denied("plan", "refs/heads/"+branch+": "+words, "origin", "HEAD")
			s.denied("plan", words, "origin", "HEAD:refs/heads/feature") // from there nothing
		}
		for _, branch := range []string{"mains", "x/main", "Main"} {
			s.git("checkout", "-q", "-b", branch, "feature")
			s.allowed("plan", "origin", "HEAD")
		}
		s.git("config", "extensions.worktreeConfig", "true")
		s.put(s.home("included"), "[orchestration]\n\tprotectedBranch = included\n", 0o600)
		s.git("config", "--global", "include.path", s.home("included"))
		system := filepath.Join(s.root, "system")
		s.env = append(s.env, "GIT_CONFIG_SYSTEM="+system, "GIT_CONFIG_NOSYSTEM=0",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=orchestration.protectedBranch", "GIT_CONFIG_VALUE_0=command")
		for _, scope := range []string{"local", "worktree", "global", "system"} {
			s.git("config", "--"+scope, "--add", "orchestration.protectedBranch", "release")
			s.git("config", "--"+scope, "--add", "orchestration.protectedBranch", scope+"/$(x)'")
			s.git("config", "--"+scope, "--add", "orchestration.protectedBranch", "[a-z]*")
			s.git("config", "--"+scope, "--add", "orchestration.protectedBranch", "-e")
		}
		for _, branch := range []string{"release", "local", "worktree", "global", "system", "command", "included"} {
			if !strings.Contains("release command included", branch) {
				branch += "/$(x)'"
			}
			s.git("symbolic-ref", "HEAD", "refs/heads/"+branch)
			s.git("update-ref", "HEAD", "feature")
			s.denied("plan", "refs/heads/"+branch+": "+words, "origin", "HEAD")
			env := s.env
			s.env = append(slices.Clone(env), "GIT_CONFIG="+s.home("none")) // it counts for git config alone
			s.denied("plan", "refs/heads/"+branch+": "+words, "origin", "HEAD")
			s.env = env
		}
		for _, branch := range []string{"releases", "relea", "local/x", "e"} {
			s.git("checkout", "-q", "-b", branch, "feature")
			s.allowed("plan", "origin", "HEAD")
		}
	})
}

// A branch is protected if Git does not tell whether it is.
func TestProtectedUnknown(t *testing.T) {
	s := newSandbox(t, "sha1")
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	s.put(filepath.Join(s.root, "bin", "git"), "#!/bin/sh\n[ \"$2 $3\" != '--get-all orchestration.protectedBranch' ] || exit 3\nexec '"+git+"' \"$@\"\n", 0o755)
	path := "PATH=" + filepath.Join(s.root, "bin") + string(os.PathListSeparator) + os.Getenv("PATH")
	if errs, exit := s.run(nil, append(as("plan"), path), "pre-push", strings.NewReader(""), "origin"); exit != 1 || !strings.Contains(errs, "the branch is protected") {
		t.Errorf("%d, %s", exit, errs)
	}
}

// A remote's own main branch is protected if it is known here.
func TestRemoteHead(t *testing.T) {
	s := newSandbox(t, "sha1")
	s.git("remote", "add", "fork", "../origin.git")
	s.git("remote", "set-head", "origin", "feature")
	s.denied("plan", "refs/heads/feature: the branch is protected", "origin", "HEAD")
	s.allowed("plan", "fork", "HEAD")
	s.git("checkout", "-q", "-b", "feature2")
	s.allowed("plan", "origin", "HEAD")
	s.git("symbolic-ref", "refs/remotes/fork/HEAD", "refs/remotes/fork/feature2")
	s.git("commit", "-q", "--allow-empty", "-m", "x")
	s.denied("plan", "the branch is protected", "fork", "HEAD")
	s.allowed("plan", "../origin.git", "HEAD") // no name of a remote
}

// lfs is a pre-push that reads all, as that of Git LFS does.
const lfs = "#!/bin/sh\nprintf '[%s]' \"$@\" >\"$HOME/arguments\"\ncat >\"$HOME/stdin\"\n[ ! -f \"$HOME/exit\" ]\n"

// Acceptance 45.
func TestRepositoryHooks(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, s *sandbox) {
		const failing = "#!/bin/sh\necho no >&2\nexit 3\n"
		s.put(filepath.Join(s.dir, ".git", "hooks", "pre-push"), lfs, 0o755)
		s.git("worktree", "add", "-q", "-b", "linked", "../linked")
		work := s.dir
		for _, dir := range []string{work, filepath.Join(s.root, "linked")} {
			s.dir = dir
			branch := s.git("branch", "--show-current")
			s.put(filepath.Join(work, ".git", "hooks", "pre-commit"), failing, 0o755)
			if out, err := s.command(nil, "git", "commit", "--allow-empty", "-m", "x"); err == nil || out != "no\n" {
				t.Errorf("%s: the failing pre-commit did not count: %s", branch, out)
			}
			s.put(filepath.Join(work, ".git", "hooks", "pre-commit"), failing, 0o644) // Git runs no such file
			for _, mode := range []string{"plan", "-", "build"} {
				s.git("commit", "-q", "--allow-empty", "-m", mode)
				ref := "refs/heads/" + branch
				id, old := s.git("rev-parse", ref), strings.Repeat("0", len(s.git("rev-parse", ref)))
				if known, err := s.command(nil, "git", "-C", "../origin.git", "rev-parse", "--verify", "-q", ref); err == nil {
					old = strings.TrimSpace(known)
				}
				s.put(s.home("exit"), "", 0o600)
				if out, err := s.command(as(mode), "git", "push", "origin", ref); err == nil {
					t.Errorf("%s, %s: the failing pre-push did not count: %s", branch, mode, out)
				}
				os.Remove(s.home("exit"))
				s.allowed(mode, "origin", ref)
				if got, want := s.take(s.home("stdin")), fmt.Sprintf("%s %s %s %s\n", ref, id, ref, old); got != want {
					t.Errorf("%s, %s: stdin %q, want %q", branch, mode, got, want)
				}
				if got := s.take(s.home("arguments")); got != "[origin][../origin.git]" {
					t.Errorf("%s, %s: arguments %q", branch, mode, got)
				}
				s.at(branch, ref)
			}
		}
	})
}

// Acceptance 46.
func TestSessionHooks(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, s *sandbox) {
		session := []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.hooksPath", "GIT_CONFIG_VALUE_0=" + s.Dir}
		s.git("config", "--global", "--unset", "core.hooksPath")
		s.git("config", "core.hooksPath", "my hooks")
		s.hook("my hooks", "pre-push", "local")
		s.hook(".git/hooks", "pre-push", "repo")
		plain := s.env
		s.env = append(slices.Clone(plain), session...)
		s.denied("review", "refs/heads/feature", "origin", "HEAD")
		s.denied("plan", "refs/heads/other", "origin", "HEAD:other")
		s.logged()
		s.allowed("plan", "origin", "HEAD")
		s.allowed("build", "origin", "HEAD:other")
		s.logged("local pre-push [origin] [../origin.git]", "local pre-push [origin] [../origin.git]")
		s.env = plain
		s.allowed("review", "origin", ":other") // no agent's shell
		s.allowed("-", "origin", "HEAD:main", "--force")
		s.logged("local pre-push [origin] [../origin.git]", "local pre-push [origin] [../origin.git]")

		s.env = append(slices.Clone(plain), session...)
		s.git("config", "--unset", "core.hooksPath")
		s.allowed("build", "origin", "HEAD:other")
		s.logged("repo pre-push [origin] [../origin.git]")
		s.git("config", "--global", "core.hooksPath", "~/global hooks")
		s.hook(s.home("global hooks"), "pre-push", "global")
		s.allowed("build", "origin", ":other")
		s.logged("global pre-push [origin] [../origin.git]")
	})
}

// Where the next hook is, by what is set where: the first that is set counts,
// as it does for Git.
func TestChain(t *testing.T) {
	s := newSandbox(t, "sha1")
	s.git("config", "extensions.worktreeConfig", "true")
	s.env = append(s.env, "GIT_CONFIG_SYSTEM="+filepath.Join(s.root, "system"), "GIT_CONFIG_NOSYSTEM=0", "GIT_CONFIG="+filepath.Join(s.root, "none"))
	session := append(slices.Clone(s.env), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.hooksPath", "GIT_CONFIG_VALUE_0="+s.Dir)
	commit := func(want string) {
		t.Helper()
		plain := s.env
		s.env = session
		s.git("commit", "-q", "--allow-empty", "-m", "x")
		s.env = plain
		if want == "" {
			s.logged()
		} else {
			s.logged(want + " pre-commit")
		}
	}
	for _, dir := range []string{"local", "worktree", "global", "system"} {
		s.hook("hooks/"+dir, "pre-commit", dir)
	}
	commit("")
	s.hook(".git/hooks", "pre-commit", "repo")
	commit("repo")
	s.git("config", "-f", filepath.Join(s.root, "system"), "core.hooksPath", "hooks/system")
	commit("system")
	s.git("config", "-f", s.home(".gitconfig"), "core.hooksPath", "hooks/global")
	commit("global")
	s.git("config", "-f", s.home("included"), "core.hooksPath", "hooks/local")
	s.git("config", "-f", ".git/config", "include.path", s.home("included"))
	commit("local")
	s.git("config", "-f", ".git/config.worktree", "core.hooksPath", "hooks/worktree")
	commit("worktree")
	s.git("config", "-f", ".git/config.worktree", "core.hooksPath", "hooks/none") // what is set counts, there or not
	commit("")
	for _, path := range []string{s.Dir, s.Dir + "/", "", "/dev/null"} {
		s.git("config", "-f", ".git/config.worktree", "core.hooksPath", path)
		commit("")
	}
	link := filepath.Join(s.root, "link")
	if err := os.Symlink(s.Dir, link); err != nil {
		t.Fatal(err)
	}
	s.git("config", "-f", ".git/config.worktree", "core.hooksPath", link)
	commit("")
	s.git("config", "-f", ".git/config.worktree", "--unset", "core.hooksPath")
	s.git("config", "-f", ".git/config", "--unset", "include.path")
	s.git("config", "-f", s.home(".gitconfig"), "core.hooksPath", link)
	commit("system") // the global one is ours
	s.git("config", "-f", filepath.Join(s.root, "system"), "--unset", "core.hooksPath")
	commit("repo")
	os.Remove(filepath.Join(s.dir, ".git", "hooks", "pre-commit"))
	if err := os.Symlink(filepath.Join(s.Dir, "pre-commit"), filepath.Join(s.dir, ".git", "hooks", "pre-commit")); err != nil {
		t.Fatal(err)
	}
	commit("") // it is not run by itself again and again
	own := filepath.Join(s.root, "changed")
	s.put(filepath.Join(own, "pre-commit"), strings.Replace(string(hookScript), "# herdr-link hook\n", "# mine\n", 1), 0o755)
	s.git("config", "-f", s.home(".gitconfig"), "core.hooksPath", own)
	if out, err := s.command(nil, "git", "commit", "-q", "--allow-empty", "-m", "x"); err != nil {
		t.Errorf("a changed script: %v, %s", err, out)
	}
}

// Directories may have any name that Git takes.
func TestOddPaths(t *testing.T) {
	s := newSandbox(t, "sha1")
	paths := []string{"-x", "--", "a b", " a ", "a\nb", "a\n", "\na", "a\\b\"c", "$(touch x)`x`", "*", "~/h", "a\tb", "#;", "é"}
	if runtime.GOOS == "linux" {
		paths = append(paths, "\xff\xfe", "\x01")
	}
	for _, path := range paths {
		s.git("config", "--replace-all", "--", "core.hooksPath", path)
		dir := path
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			dir = s.home(rest)
		}
		session := []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.hooksPath", "GIT_CONFIG_VALUE_0=" + s.Dir}
		s.hook(dir, "pre-commit", "odd")
		s.command(session, "git", "commit", "-q", "--allow-empty", "-m", "x")
		if path == "\x01" {
			s.logged() // it stands for a newline on the way
		} else if got := s.take(s.home("log")); got != "odd pre-commit\n" {
			t.Errorf("%q: %q", path, got)
		}
	}
}

// run runs an installed hook as Git does, with that stdin.
func (s *sandbox) run(shell []string, env []string, name string, stdin io.Reader, args ...string) (stderr string, exit int) {
	s.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	argv := slices.Concat(shell, []string{filepath.Join(s.Dir, name)}, args)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin = s.dir, append(slices.Clone(s.env), env...), stdin
	cmd.WaitDelay = time.Second
	var errs bytes.Buffer
	cmd.Stderr = &errs
	cmd.Run()
	return errs.String(), cmd.ProcessState.ExitCode()
}

// Every name hands on arguments, stdin and exit code, in every mode.
func TestEveryName(t *testing.T) {
	s := newSandbox(t, "sha1")
	args := []string{"", "a b", "-x", "--", "a\nb", "$x*"}
	stdin := make([]byte, 256)
	for i := range stdin {
		stdin[i] = byte(i)
	}
	s.put(s.home("exit"), "7", 0o600)
	for i, name := range hookNames {
		s.hook(".git/hooks", name, "repo")
		mode := []string{"-", "plan", "review", "build", "sheep-build", "sheep-plan"}[i%6]
		if name == "pre-push" {
			mode = "build"
		}
		if errs, exit := s.run(nil, as(mode), name, bytes.NewReader(stdin), args...); exit != 7 || errs != "" {
			t.Errorf("%s: %d, %s", name, exit, errs)
		}
		s.logged("repo "+name+" [] [a b] [-x] [--] [a", "b] [$x*]")
		if got := s.take(s.home("stdin")); got != string(stdin) {
			t.Errorf("%s: stdin %q", name, got)
		}
	}
}

// The environment of the next hook is the one that Git gave to ours.
func TestEnvironment(t *testing.T) {
	s := newSandbox(t, "sha1")
	var env []string
	for _, name := range []string{"branch", "name", "dir", "repo", "path", "IFS", "GIT_CONFIG", "CDPATH", "mark", "x"} {
		env = append(env, name+"=kept")
	}
	env = append(env, "LC_ALL=POSIX")
	for _, name := range []string{"pre-commit", "pre-push"} {
		s.put(filepath.Join(s.dir, ".git", "hooks", name), "#!/bin/sh\nenv >\"$HOME/env\"; umask >>\"$HOME/env\"; trap >>\"$HOME/env\"\n", 0o755)
		if errs, exit := s.run(nil, append(env, "SHEPHERD_MODE=plan"), name, strings.NewReader("")); exit != 0 || errs != "" {
			t.Errorf("%s: %d, %s", name, exit, errs)
		}
		got := strings.Split(s.take(s.home("env")), "\n")
		for _, entry := range env {
			if !slices.Contains(got, entry) && !strings.HasPrefix(entry, "IFS=") { // no shell hands IFS on
				t.Errorf("%s: %s is lost in %q", name, entry, got)
			}
		}
		for _, entry := range got {
			if strings.HasPrefix(entry, "herdr_link") || strings.HasPrefix(entry, "trap") || entry == "0077" || entry == "077" {
				t.Errorf("%s: the hook has %s", name, entry)
			}
		}
	}
}

// A hook without stdin does not wait for it.
func TestStdinIsNotAwaited(t *testing.T) {
	s := newSandbox(t, "sha1")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close() // not before all of them have ended
	for _, name := range hookNames {
		if name != "pre-push" {
			if errs, exit := s.run(nil, as("plan"), name, r); exit != 0 {
				t.Errorf("%s: %d, %s", name, exit, errs)
			}
		}
	}
}

// shells are those of this machine that may be an sh.
func shells() map[string][]string {
	found := map[string][]string{"sh": nil}
	for _, name := range []string{"dash", "bash", "busybox", "ksh", "mksh"} {
		if path, err := exec.LookPath(name); err == nil {
			found[name] = []string{path}
		}
	}
	if argv, ok := found["busybox"]; ok {
		found["busybox"] = append(argv, "sh")
	}
	if argv, ok := found["bash"]; ok {
		found["bash as sh"] = append(slices.Clone(argv), "--posix")
	}
	return found
}

// Every shell decides the same, and hands the lines on byte by byte.
func TestDecision(t *testing.T) {
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(t, "sha1")
			s.hook(".git/hooks", "pre-push", "repo")
			head, old, zero := s.git("rev-parse", "HEAD"), s.git("rev-parse", "HEAD~1"), strings.Repeat("0", 40)
			const ref = "refs/heads/feature"
			good := ref + " " + head + " " + ref + " " + old + "\n"
			for _, tc := range []struct{ what, mode, lines, denied string }{
				{"nothing", "plan", "", ""},
				{"the branch", "plan", good, ""},
				{"twice", "plan", good + good, ""},
				{"HEAD", "plan", "HEAD " + head + " " + ref + " " + old + "\n", ""},
				{"a new one", "plan", "HEAD " + head + " " + ref + " " + zero + "\n", ""},
				{"new, in 64 zeros", "plan", "HEAD " + head + " " + ref + " " + zero + zero[:24] + "\n", ""},
				{"no newline at the end", "plan", strings.TrimSuffix(good, "\n"), ""},
				{"bytes", "build", "\x00\xff\r\n\n \\x -n\t", ""},
				{"deletion", "plan", "(delete) " + zero + " " + ref + " " + old + "\n", ref + ": this would delete it"},
				{"deletion in 64 zeros", "plan", "(delete) " + zero + zero[:24] + " " + ref + " " + old + "\n", ref + ": this would delete it"},
				{"deletion behind", "plan", good + "(delete) " + zero + " refs/heads/x " + old, "refs/heads/x: this would delete it"},
				{"deletion first in order", "plan", ref + " " + head + " refs/tags/v " + zero + "\n(delete) " + zero + " " + ref + " " + old + "\n", ref + ": this would delete it"},
				{"another ref", "plan", good + ref + " " + head + " refs/notes/x " + zero + "\n", "refs/notes/x: only " + ref + " may be pushed"},
				{"almost its name", "plan", ref + " " + head + " " + ref + "s " + zero + "\n", ref + "s: only " + ref + " may be pushed"},
				{"bytes in a name", "plan", ref + " " + head + " refs/heads/\xff* " + zero + "\n", "refs/heads/\xff*: only " + ref + " may be pushed"},
				{"rename", "plan", "refs/heads/other " + head + " " + ref + " " + old + "\n", "refs/heads/other: only the current branch itself may be pushed"},
				{"raw id", "plan", head + " " + head + " " + ref + " " + old + "\n", head + ": only the current branch itself may be pushed"},
				{"rewrite", "plan", ref + " " + old + " " + ref + " " + head + "\n", ref + ": this would rewrite its history"},
				{"unknown", "plan", ref + " " + head + " " + ref + " " + strings.Repeat("1", 40) + "\n", ref + ": this would rewrite its history"},
				{"unknown, behind", "plan", good + ref + " " + head + " " + ref + " " + strings.Repeat("1", 40) + "\n", ref + ": this would rewrite its history"},
				{"a short line", "plan", ref + " " + head + " " + ref + "\n", ref + ": what Git says about it cannot be read"},
				{"an option", "plan", ref + " --all " + ref + " " + old + "\n", ref + ": what Git says about it cannot be read"},
				{"an empty line", "plan", good + "\n", ref + ": what Git says about it cannot be read"},
				{"a worker", "sheep-build", good, ref + ": only shepherds use remote repositories"},
				{"a worker, nothing", "sheep-plan", "", "anything: only shepherds use remote repositories"},
				{"a reviewer", "review", "x", "anything: only shepherds use remote repositories"},
			} {
				errs, exit := s.run(shell, as(tc.mode), "pre-push", strings.NewReader(tc.lines), "origin", "a b")
				if tc.denied != "" {
					if want := "herdr-link: mode " + tc.mode + " may not push " + tc.denied + "\n"; exit != 1 || errs != want {
						t.Errorf("%s: %d, %q, want %q", tc.what, exit, errs, want)
					}
					s.logged()
					continue
				}
				if exit != 0 || errs != "" {
					t.Errorf("%s: %d, %s", tc.what, exit, errs)
				}
				s.logged("repo pre-push [origin] [a b]")
				if got := s.take(s.home("stdin")); got != tc.lines {
					t.Errorf("%s: stdin %q, want %q", tc.what, got, tc.lines)
				}
			}
			if errs, exit := s.run(shell, append(as("plan"), "TMPDIR="+filepath.Join(s.root, "none")), "pre-push", strings.NewReader(good), "origin"); exit != 1 || errs != "herdr-link: mode plan may not push anything: no temporary file can be made\n" {
				t.Errorf("without a temporary file: %d, %q", exit, errs)
			}
			s.put(s.home("exit"), "5", 0o600)
			if errs, exit := s.run(shell, as("plan"), "pre-push", strings.NewReader(good), "origin"); exit != 5 || errs != "" {
				t.Errorf("the next hook's exit: %d, %q", exit, errs)
			}
		})
	}
}

// All lines are read, many as well.
func TestManyRefs(t *testing.T) {
	s := newSandbox(t, "sha1")
	s.hook(".git/hooks", "pre-push", "repo")
	head, zero := s.git("rev-parse", "HEAD"), strings.Repeat("0", 40)
	var lines strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&lines, "refs/tags/%d %s refs/tags/%d %s\n", i, head, i, zero)
	}
	if errs, exit := s.run(nil, as("plan"), "pre-push", strings.NewReader(lines.String()+"(delete) "+zero+" refs/heads/x "+head+"\n"), "origin"); exit != 1 || !strings.Contains(errs, "refs/heads/x: this would delete it") {
		t.Errorf("%d, %s", exit, errs)
	}
	all := strings.NewReader(lines.String())
	if errs, exit := s.run(nil, as("review"), "pre-push", all, "origin"); exit != 1 || !strings.Contains(errs, "refs/tags/0: ") {
		t.Errorf("%d, %s", exit, errs)
	}
	if all.Len() > 0 {
		t.Errorf("%d bytes were not read", all.Len())
	}
}
