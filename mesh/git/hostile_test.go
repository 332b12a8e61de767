//go:build unix

package git

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// everything does all that a caller may do, and returns the first error.
func everything(r *repo, g *Git) error {
	tree, err := g.Open(r.Context(), r.tree)
	if err != nil {
		return err
	}
	status, first := tree.StatusDigest(r.Context())
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	note(tree.Check(r.Context(), Facts{Branch: "lane", Base: r.base, Head: r.head(r.tree), StatusSHA256: status}))
	_, err = tree.ContentDigest(r.Context(), r.base)
	note(err)
	_, _, err = tree.Show(r.Context(), r.base, "file")
	note(err)
	return first
}

// No program that a repository names is run. Each case shows first that it is run
// by a plain git.
func TestHostile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set   func(r *repo, program string)
		plain []string
		code  string // of everything
	}{
		"fsmonitor": {func(r *repo, p string) { r.git(r.main, "config", "core.fsmonitor", p) }, []string{"status"}, ""},
		"an included file": {func(r *repo, p string) {
			r.write(r.home, "included", "[core]\n\tfsmonitor = "+p+"\n")
			r.git(r.main, "config", "include.path", filepath.Join(r.home, "included"))
		}, []string{"status"}, ""},
		"configuration of the worktree": {func(r *repo, p string) {
			r.git(r.main, "config", "extensions.worktreeConfig", "true")
			r.git(r.tree, "config", "--worktree", "core.fsmonitor", p)
		}, []string{"status"}, ""},
		"configuration of the user": {func(r *repo, p string) { r.git(r.main, "config", "--global", "core.fsmonitor", p) }, []string{"status"}, ""},
		"textconv": {func(r *repo, p string) {
			r.write(r.main, ".git/info/attributes", "* diff=evil\n")
			r.git(r.main, "config", "diff.evil.textconv", p)
		}, []string{"diff", "HEAD"}, ""},
		"a diff of its own": {func(r *repo, p string) { r.git(r.main, "config", "diff.external", p) }, []string{"diff", "HEAD"}, ""},
		"a diff for some files": {func(r *repo, p string) {
			r.write(r.main, ".git/info/attributes", "* diff=evil\n")
			r.git(r.main, "config", "diff.evil.command", p)
		}, []string{"diff", "HEAD"}, ""},
		"a hook": {func(r *repo, p string) {
			hooks := filepath.Join(r.home, "hooks")
			must(r.T, os.Mkdir(hooks, 0o700))
			must(r.T, os.Symlink(p, filepath.Join(hooks, "post-index-change")))
			r.git(r.main, "config", "core.hooksPath", hooks)
		}, []string{"status"}, ""},
		"a hook in its place": {func(r *repo, p string) {
			must(r.T, os.MkdirAll(filepath.Join(r.main, ".git/hooks"), 0o700))
			must(r.T, os.Symlink(p, filepath.Join(r.main, ".git/hooks/post-index-change")))
		}, []string{"status"}, ""},
		"fsmonitor of a submodule": {func(r *repo, p string) {
			r.submodule()
			r.git(filepath.Join(r.tree, "part"), "config", "core.fsmonitor", p)
		}, []string{"status"}, ""},
		"textconv of a submodule": {func(r *repo, p string) {
			r.submodule()
			r.git(r.main, "config", "diff.submodule", "diff")
			part := filepath.Join(r.tree, "part")
			r.git(part, "config", "diff.evil.textconv", p)
			r.write(part, ".gitattributes", "* diff=evil\n")
		}, []string{"diff", "HEAD"}, ""},
		"a signature": {func(r *repo, p string) {
			r.git(r.main, "config", "log.showSignature", "true")
			r.git(r.main, "config", "gpg.program", p)
			object := r.git(r.tree, "cat-file", "commit", "HEAD")
			signed := strings.Replace(object, "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n", 1)
			r.write(r.home, "commit", signed)
			r.git(r.tree, "update-ref", "HEAD", strings.TrimSpace(r.git(r.tree, "hash-object", "-t", "commit", "-w", filepath.Join(r.home, "commit"))))
		}, []string{"show", "HEAD"}, ""},
		"a fetch of what is missing": {func(r *repo, p string) {
			r.promise()
			r.git(r.main, "config", "remote.origin.url", "ext::"+p)
			r.git(r.main, "config", "protocol.ext.allow", "always")
		}, []string{"diff", "HEAD~1"}, "GIT_FAILED"},
		"a fetch by a program for it": {func(r *repo, p string) {
			r.promise()
			r.git(r.main, "config", "remote.origin.url", r.main)
			r.git(r.main, "config", "remote.origin.uploadpack", p)
		}, []string{"diff", "HEAD~1"}, "GIT_FAILED"},
		"a fetch by ssh": {func(r *repo, p string) {
			r.promise()
			r.git(r.main, "config", "remote.origin.url", "ssh://localhost/none")
			r.git(r.main, "config", "core.sshCommand", p)
		}, []string{"diff", "HEAD~1"}, "GIT_FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, "sha1")
			program, ran := r.program("hostile")
			tc.set(r, program)
			r.write(r.tree, "file", "changed\n")
			r.touch()
			ran()
			wantCode(t, "everything", everything(r, r.ours()), tc.code)
			if ran() {
				t.Error("the program was run")
			}
			r.touch()
			out, err := r.try(r.tree, tc.plain...)
			if !ran() {
				t.Errorf("git %q does not run it, so nothing was shown: %s, %v", tc.plain, out, err)
			}
		})
	}
}

// touch lets Git's index look old, so that a git that may write it does.
func (r *repo) touch() {
	r.Helper()
	file := filepath.Join(r.tree, "other")
	text, err := os.ReadFile(file)
	must(r.T, err)
	must(r.T, os.Remove(file))
	must(r.T, os.WriteFile(file, text, 0o600))
}

// submodule commits one, with a change in it that is not committed.
func (r *repo) submodule() {
	r.Helper()
	r.git(r.tree, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", r.main, "part")
	r.commit(r.tree, "a submodule")
	r.write(filepath.Join(r.tree, "part"), "file", "changed\n")
}

// promise takes the first commit's file away and says that the remote has it.
func (r *repo) promise() {
	r.Helper()
	blob := strings.TrimSpace(r.git(r.main, "rev-parse", r.base+":file"))
	for name, value := range map[string]string{"core.repositoryFormatVersion": "1", "extensions.partialClone": "origin", "remote.origin.promisor": "true"} {
		r.git(r.main, "config", name, value)
	}
	must(r.T, os.Remove(filepath.Join(r.main, ".git/objects", blob[:2], blob[2:])))
}

// Nor one that the environment names, or another repository than the folder's.
func TestHostileEnvironment(t *testing.T) {
	r := newRepo(t, "sha1")
	program, ran := r.program("hostile")
	r.write(r.tree, "file", "changed\n")
	want := r.digest()
	for _, v := range []string{
		"GIT_EXTERNAL_DIFF=" + program, "GIT_DIR=" + r.home + "/none", "GIT_WORK_TREE=" + r.main, "GIT_INDEX_FILE=" + r.home + "/none",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0=" + program, "GIT_CONFIG_PARAMETERS='core.fsmonitor'='" + program + "'",
		"GIT_CONFIG_GLOBAL=" + r.home + "/none", "GIT_TRACE=" + r.home + "/trace", "GIT_EXEC_PATH=" + r.home, "GIT_PAGER=" + program,
		"GIT_CEILING_DIRECTORIES=/", "GIT_DEFAULT_HASH=sha256", "GIT_DIFF_OPTS=-u9", "GIT_NAMESPACE=x", "GIT_OBJECT_DIRECTORY=" + r.home,
	} {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	t.Setenv("HOME", r.home)
	g := New(os.Getenv)
	wantCode(t, "everything", everything(r, g), "")
	tree, err := g.Open(t.Context(), r.tree)
	must(t, err)
	if got, err := tree.ContentDigest(t.Context(), r.base); got != want || err != nil {
		t.Errorf("%s, %v; without the variables %s", got, err, want)
	}
	if ran() {
		t.Error("the program was run")
	}
	if _, err := os.Stat(filepath.Join(r.home, "trace")); err == nil {
		t.Error("there is a trace")
	}
	for _, with := range [][]string{
		{"GIT_EXTERNAL_DIFF=" + program},
		{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0=" + program},
	} {
		cmd := exec.CommandContext(t.Context(), "git", "-C", r.tree, "diff", "HEAD")
		cmd.Env = append(r.environ(), with...)
		if out, err := cmd.CombinedOutput(); !ran() {
			t.Errorf("git with %q does not run it, so nothing was shown: %s, %v", with, out, err)
		}
	}
}

// program writes a program that leaves a mark, and returns what tells whether it
// has run since it was last asked.
func (r *repo) program(name string) (path string, ran func() bool) {
	r.Helper()
	path = filepath.Join(r.home, name)
	mark := path + ".ran"
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	must(r.T, os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\n: >'%s'\ncat \"$1\" 2>/dev/null\nexit 0\n", mark), 0o700))
	return path, func() bool { return os.Remove(mark) == nil }
}
