//go:build unix

package git

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"herdr-link/mesh/fault"
)

// withSubmodules is a repository whose tree has the submodule a/sub, with another
// in it, deep, and an empty one.
func withSubmodules(t *testing.T) *repo {
	r := newRepo(t, "sha1")
	for _, name := range []string{"deep", "sub"} {
		dir := filepath.Join(r.home, name)
		r.git(r.home, "init", "-q", "-b", "main", dir)
		r.write(dir, "file", name)
		r.commit(dir, "one")
	}
	add := []string{"-c", "protocol.file.allow=always", "submodule", "add", "-q"}
	r.git(filepath.Join(r.home, "sub"), append(add, filepath.Join(r.home, "deep"), "deep")...)
	r.commit(filepath.Join(r.home, "sub"), "two")
	r.git(r.tree, append(add, filepath.Join(r.home, "sub"), "a/sub")...)
	r.git(r.tree, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init", "--recursive")
	r.git(r.tree, "update-index", "--add", "--cacheinfo", "160000,"+r.base+",empty")
	must(t, os.MkdirAll(filepath.Join(r.tree, "empty"), 0o700))
	r.git(r.tree, "commit", "-qm", "submodules")
	return r
}

func TestPin(t *testing.T) {
	t.Parallel()
	r := withSubmodules(t)
	at := func(name string) string { return filepath.Join(r.tree, name) }
	tree := r.open()
	pin, err := tree.Pin(t.Context())
	must(t, err)
	if got, want := pin.Files(), []string{at(".git"), at("a/sub/.git"), at("a/sub/deep/.git")}; !slices.Equal(got, want) || !pin.Same() {
		t.Fatalf("%q", got)
	}
	// Each is undone by a rename of what was put aside, or else by a removal.
	for name, change := range map[string]func() (undo func()){
		"another .git":         r.rewrite(at(".git")),
		"a submodule's":        r.rewrite(at("a/sub/.git")),
		"a deep one's":         r.rewrite(at("a/sub/deep/.git")),
		"the common folder":    r.rewrite(filepath.Join(tree.GitDir, "commondir")),
		"the way back":         r.rewrite(filepath.Join(tree.GitDir, "gitdir")),
		"a submodule gone":     r.aside(at("a/sub/.git"), func() {}),
		"a link to it":         r.aside(at("a/sub/.git"), func() { must(t, os.Symlink(at("aside"), at("a/sub/.git"))) }),
		"a link on the way":    r.aside(at("a"), func() { must(t, os.Symlink(at("aside"), at("a"))) }),
		"a folder":             r.aside(at("a/sub/.git"), func() { must(t, os.Mkdir(at("a/sub/.git"), 0o700)) }),
		"the empty one filled": r.aside(at("empty"), func() { r.write(r.tree, "empty/.git", "gitdir: x") }),
		"the empty one a link": r.aside(at("empty"), func() { must(t, os.Symlink(at("a/sub"), at("empty"))) }),
	} {
		undo := change()
		if pin.Same() {
			t.Errorf("%s: the same", name)
		}
		undo()
		if !pin.Same() {
			t.Fatalf("%s: not undone", name)
		}
	}
}

// What the worktree's writer could rewrite is refused before git status enters it.
func TestPinRefuses(t *testing.T) {
	t.Parallel()
	r := withSubmodules(t)
	at := func(name string) string { return filepath.Join(r.tree, name) }
	tree := r.open()
	facts := Facts{Branch: "lane", Base: r.base, Head: r.head(r.tree)}
	for name, change := range map[string]func() (undo func()){
		"a folder":            r.aside(at("a/sub/.git"), func() { r.git(r.home, "init", "-q", at("a/sub")) }),
		"of an empty one":     r.aside(at("empty"), func() { r.git(r.home, "init", "-q", at("empty")) }),
		"inside the worktree": r.aside(at("empty"), func() { r.write(r.tree, "empty/.git", "gitdir: ../a") }),
		"inside another":      r.aside(at("empty"), func() { r.write(r.tree, "empty/.git", "gitdir: "+r.home+"/sub/.git") }),
		"behind a link":       r.aside(at("empty"), func() { must(t, os.Symlink(at("a/sub"), at("empty"))) }),
		"a deep one":          r.aside(at("a/sub/deep"), func() { r.git(r.home, "init", "-q", at("a/sub/deep")) }),
	} {
		undo := change()
		if _, err := tree.Pin(t.Context()); fault.Code(err) != "GIT_FAILED" {
			t.Errorf("%s: %v", name, err)
		}
		if err := tree.Check(t.Context(), facts); fault.Code(err) != "GIT_FAILED" {
			t.Errorf("%s: checked, %v", name, err)
		}
		undo()
	}
	if _, err := tree.Pin(t.Context()); err != nil {
		t.Error(err)
	}
}

// aside moves what stands at a path away and puts something else there.
func (r *repo) aside(path string, put func()) func() func() {
	away := filepath.Join(r.tree, "aside")
	return func() func() {
		must(r.T, os.Rename(path, away))
		put()
		return func() {
			must(r.T, os.RemoveAll(path))
			must(r.T, os.Rename(away, path))
		}
	}
}

func (r *repo) rewrite(path string) func() func() {
	return r.aside(path, func() { must(r.T, os.WriteFile(path, []byte("gitdir: elsewhere\n"), 0o600)) })
}
