//go:build unix

package git

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"herdr-link/mesh/fault"
)

// TestMain lets this binary be the git on PATH: one that plays a role, which the
// file role beside it names. The environment cannot: no variable gets through.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "git" {
		os.Exit(play(filepath.Dir(os.Args[0])))
	}
	os.Exit(m.Run())
}

// A role is what a git of the tests does.
type role struct {
	Report bool // write down what it was started with
	Out    int  // bytes to print
	Exit   int
	Sleep  bool // never end

	// Before the Nth call whose command and first argument are these, counted from
	// 1, it writes a file; every call is handed to the real one.
	Real, Command, Arg string
	N                  int
	Write, Text        string
	Remove             string
	Run                []string
}

type report struct {
	Argv, Environ []string
	StdinEmpty    bool
}

func play(dir string) int {
	var r role
	text, err := os.ReadFile(filepath.Join(dir, "role"))
	if err != nil || json.Unmarshal(text, &r) != nil {
		return 90
	}
	switch {
	case r.Report:
		n, err := os.Stdin.Read(make([]byte, 1))
		text, _ := json.Marshal(report{os.Args[1:], os.Environ(), n == 0 && err == io.EOF})
		if os.WriteFile(filepath.Join(dir, "report"), text, 0o600) != nil {
			return 91
		}
	case r.Sleep:
		if os.WriteFile(filepath.Join(dir, "asleep"), fmt.Append(nil, os.Getpid()), 0o600) != nil {
			return 91
		}
		time.Sleep(time.Hour) // a mere select would be a deadlock, which ends it
	case r.Real != "":
		if err := r.meddle(dir); err != nil {
			return 92
		}
		_ = syscall.Exec(r.Real, append([]string{r.Real}, os.Args[1:]...), os.Environ())
		return 93
	}
	_, _ = os.Stdout.Write(bytes.Repeat([]byte("x"), r.Out))
	return r.Exit
}

func (r role) meddle(dir string) error {
	for i, arg := range os.Args {
		if arg != r.Command || i+1 >= len(os.Args) || os.Args[i+1] != r.Arg {
			continue
		}
		for n := 1; ; n++ {
			f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint("call", n)), os.O_CREATE|os.O_EXCL, 0o600)
			if errors.Is(err, os.ErrExist) {
				continue
			}
			f.Close()
			if err != nil || n != r.N {
				return err
			}
			break
		}
		if r.Remove != "" {
			if err := os.Remove(r.Remove); err != nil {
				return err
			}
		}
		if len(r.Run) > 0 {
			return exec.Command(r.Run[0], r.Run[1:]...).Run()
		}
		return os.WriteFile(r.Write, []byte(r.Text), 0o600)
	}
	return nil
}

// fake is a Git whose git plays that role, in the folder that is returned.
func fake(t *testing.T, r role) (*Git, string) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	must(t, err)
	must(t, os.Symlink(self, filepath.Join(dir, "git")))
	text, err := json.Marshal(r)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "role"), text, 0o600))
	return New(environment{"PATH": dir, "HOME": dir}.get), dir
}

type environment map[string]string

func (e environment) get(name string) string { return e[name] }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	if fault.Code(err) != code || code == "" && err != nil {
		t.Errorf("%s: %v, not %q", what, err, code)
	}
}

// A repo is a repository with two commits and a linked worktree, on branch lane.
type repo struct {
	*testing.T
	home, main, tree string
	base             string // the first commit
}

func realGit(t *testing.T) string {
	t.Helper()
	bin, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not here")
	}
	return bin
}

// newRepo makes one whose object format is sha1 or sha256.
func newRepo(t *testing.T, format string) *repo {
	t.Helper()
	realGit(t)
	home, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	r := &repo{T: t, home: home, main: filepath.Join(home, "main"), tree: filepath.Join(home, "tree")}
	r.git(home, "init", "-q", "-b", "main", "--object-format="+format, r.main)
	r.write(r.main, "file", "one\n")
	r.write(r.main, "other", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n")
	r.write(r.main, ".gitignore", "*.ignored\n")
	r.base = r.commit(r.main, "base")
	r.write(r.main, "file", "two\n")
	r.commit(r.main, "head")
	r.git(r.main, "worktree", "add", "-q", "-b", "lane", r.tree)
	return r
}

// git is the plain git, as anybody has it, in a clean environment.
func (r *repo) git(dir string, args ...string) string {
	r.Helper()
	out, err := r.try(dir, args...)
	if err != nil {
		r.Fatalf("git %q: %v, %s", args, err, out)
	}
	return out
}

func (r *repo) try(dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(r.Context(), "git", args...)
	cmd.Dir, cmd.Env = dir, r.environ()
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		return words.String(), err
	}
	return out.String(), nil
}

func (r *repo) environ() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.home, "GIT_CONFIG_NOSYSTEM=1"}
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		env = append(env, "GIT_"+who+"_NAME=mesh", "GIT_"+who+"_EMAIL=mesh@example.com", "GIT_"+who+"_DATE=2026-01-01T00:00:00Z")
	}
	return env
}

func (r *repo) commit(dir, message string) string {
	r.Helper()
	r.git(dir, "add", "-A")
	r.git(dir, "commit", "-q", "--allow-empty", "-m", message)
	return r.head(dir)
}

func (r *repo) head(dir string) string {
	r.Helper()
	return strings.TrimSuffix(r.git(dir, "rev-parse", "HEAD"), "\n")
}

func (r *repo) write(dir, name, text string) {
	r.Helper()
	file := filepath.Join(dir, name)
	must(r.T, os.MkdirAll(filepath.Dir(file), 0o700))
	must(r.T, os.WriteFile(file, []byte(text), 0o600))
}

func (r *repo) ours() *Git {
	return New(environment{"PATH": os.Getenv("PATH"), "HOME": r.home}.get)
}

func (r *repo) open() *Tree {
	r.Helper()
	t, err := r.ours().Open(r.Context(), r.tree)
	must(r.T, err)
	return t
}

// facts are those that hold.
func (r *repo) facts() Facts {
	r.Helper()
	status, err := r.open().StatusDigest(r.Context())
	must(r.T, err)
	return Facts{Branch: "lane", Protected: []string{"main"}, Base: r.base, Head: r.head(r.tree), StatusSHA256: status}
}
