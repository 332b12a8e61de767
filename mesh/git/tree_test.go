//go:build unix

package git

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"herdr-link/mesh/fault"
)

func formats(t *testing.T, test func(t *testing.T, format string)) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			test(t, format)
		})
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, format string) {
		r := newRepo(t, format)
		link := filepath.Join(r.home, "link")
		must(t, os.Symlink(r.tree, link))
		through := filepath.Join(r.home, "through")
		must(t, os.Symlink(r.home, through))
		for _, dir := range []string{r.tree, link, filepath.Join(through, "link"), r.tree + "/", r.tree + "/../tree"} {
			got, err := r.ours().Open(t.Context(), dir)
			if err != nil {
				t.Errorf("%s: %v", dir, err)
				continue
			}
			if got.Root != r.tree || got.GitDir != r.main+"/.git/worktrees/tree" || got.CommonDir != r.main+"/.git" || got.RepositoryRoot != r.main || got.IgnoreCase {
				t.Errorf("%s: %+v", dir, got)
			}
		}
		r.write(r.tree, "sub/file", "x")
		r.write(r.home, "outside/file", "x")
		broken := filepath.Join(r.home, "broken")
		r.write(broken, ".git", "gitdir: "+r.home+"/none\n")
		for dir, code := range map[string]string{
			"tree":                   "INVALID_ARGUMENT",
			r.main:                   "WORKTREE_IS_PRIMARY",
			r.tree + "/sub":          "WORKTREE_NOT_ROOT",
			r.tree + "/file":         "WORKTREE_NOT_ROOT",
			r.main + "/.git":         "WORKTREE_NOT_ROOT",
			filepath.Dir(r.home):     "WORKTREE_NOT_ROOT",
			r.home + "/outside":      "WORKTREE_NOT_ROOT",
			r.home + "/none":         "WORKTREE_NOT_ROOT",
			r.home + "/with\x00null": "WORKTREE_NOT_ROOT",
			broken:                   "GIT_FAILED",
		} {
			_, err := r.ours().Open(t.Context(), dir)
			wantCode(t, dir, err, code)
		}
		_, err := New(environment{}.get).Open(t.Context(), r.tree)
		wantCode(t, "without PATH", err, "GIT_NOT_FOUND")

		// A folder that Git takes for a part of another worktree.
		inner := filepath.Join(r.tree, "inner")
		must(t, os.MkdirAll(filepath.Join(inner, ".git"), 0o700))
		_, err = r.ours().Open(t.Context(), inner)
		wantCode(t, "a .git that is none", err, "WORKTREE_NOT_ROOT")
	})
}

// The repository root is what Git has first in its list of worktrees.
func TestRepositoryRoot(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "sha1")
	bare := filepath.Join(r.home, "bare repository.git")
	r.git(r.home, "clone", "-q", "--bare", r.main, bare)
	apart := filepath.Join(r.home, "apart")
	r.git(r.home, "clone", "-q", "--separate-git-dir="+filepath.Join(r.home, "store"), r.main, apart)
	super := filepath.Join(r.home, "super")
	r.git(r.home, "init", "-q", super)
	r.git(super, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", r.main, "part")
	hidden := filepath.Join(r.home, "hidden")
	r.git(r.home, "clone", "-q", "--bare", r.main, filepath.Join(hidden, ".git"))
	for _, from := range []string{bare, apart, filepath.Join(super, "part"), hidden} {
		dir := filepath.Join(r.home, "lane of "+filepath.Base(from))
		r.git(from, "worktree", "add", "-q", "-b", "new", dir)
		got, err := r.ours().Open(t.Context(), dir)
		if err != nil {
			t.Errorf("%s: %v", from, err)
			continue
		}
		first, _, _ := strings.Cut(r.git(dir, "worktree", "list", "--porcelain", "-z"), "\x00")
		if want := strings.TrimPrefix(first, "worktree "); got.RepositoryRoot != want || !filepath.IsAbs(want) {
			t.Errorf("%s: %s, not %s", from, got.RepositoryRoot, want)
		}
	}
	for dir, code := range map[string]string{bare: "WORKTREE_NOT_ROOT", hidden: "WORKTREE_IS_PRIMARY", apart: "WORKTREE_IS_PRIMARY", super + "/part": "WORKTREE_IS_PRIMARY"} {
		_, err := r.ours().Open(t.Context(), dir)
		wantCode(t, dir, err, code)
	}
}

// Where a repository says that its worktree is does not move a linked one.
func TestCoreWorktree(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "sha1")
	elsewhere := filepath.Join(r.home, "elsewhere")
	r.write(elsewhere, "file", "decoy\n")
	r.write(r.tree, "file", "real change\n")
	want := r.facts()
	r.git(r.main, "config", "extensions.worktreeConfig", "true")
	r.git(r.tree, "config", "--worktree", "core.worktree", elsewhere)
	r.git(r.main, "config", "core.worktree", elsewhere)
	tree, err := r.ours().Open(t.Context(), r.tree)
	if err != nil {
		wantCode(t, "open", err, "WORKTREE_NOT_ROOT")
		return
	}
	wantCode(t, "facts", tree.Check(t.Context(), want), "")
	_, err = r.ours().Open(t.Context(), elsewhere)
	wantCode(t, "elsewhere", err, "WORKTREE_NOT_ROOT")
}

func TestOddPaths(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "sha1")
	for name, code := range map[string]string{
		"new\nline": "", "trailing\n": "", " blanks ": "", `quo"te's`: "", "ünï": "", "-c": "", "latin-\xe9": "GIT_FAILED",
	} {
		if code != "" && runtime.GOOS == "darwin" {
			continue // no such name there
		}
		dir := filepath.Join(r.home, name)
		r.git(r.main, "worktree", "add", "-q", "--detach", "--", dir)
		got, err := r.ours().Open(t.Context(), dir)
		wantCode(t, name, err, code)
		if err == nil && got.Root != dir {
			t.Errorf("%q: %q", name, got.Root)
		}
	}
}

func TestUnmoved(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "sha1")
	wantCode(t, "there", Unmoved(r.tree), "")
	away := filepath.Join(r.home, "away")
	must(t, os.Rename(r.tree, away))
	wantCode(t, "gone", Unmoved(r.tree), "WORKTREE_MOVED")
	must(t, os.Symlink(away, r.tree))
	wantCode(t, "a symlink", Unmoved(r.tree), "WORKTREE_MOVED")
}

func TestBelow(t *testing.T) {
	t.Parallel()
	home, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	root := filepath.Join(home, "lane")
	for _, dir := range []string{"lane/a/b", "lane2", "other"} {
		must(t, os.MkdirAll(filepath.Join(home, dir), 0o700))
	}
	must(t, os.Symlink(root+"/a", home+"/in"))
	must(t, os.Symlink(home+"/other", root+"/out"))
	for path, want := range map[string]bool{
		root: true, root + "/": true, root + "/a/b": true, root + "/./a/../a": true,
		home: false, home + "/lane2": false, home + "/other": false, "/": false, "": false, "lane": false, "lane/a": false,
		home + "/in": true, home + "/in/b": true, root + "/out": false, root + "/out/x": false, root + "/../other": false,
		root + "/a/gone": true, root + "/a (deleted)": true, home + "/in/gone/more": true, root + "-gone": false, home + "/lane2/gone": false,
	} {
		if got := Below(root, path); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
	// As a file system would whose names do not differ by case alone.
	if os.Link(home+"/lane2", home+"/LANE2") == nil || os.Symlink(root, home+"/LANE") != nil {
		t.Skip("no second name for a folder")
	}
	if !Below(home+"/LANE", root+"/a") {
		t.Error("the root by another name")
	}
}

func TestFacts(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, format string) {
		r := newRepo(t, format)
		side := strings.TrimSpace(r.git(r.main, "commit-tree", "-m", "side", r.base+"^{tree}"))
		zero := strings.Repeat("0", len(r.base))
		blob := strings.TrimSpace(r.git(r.tree, "rev-parse", "HEAD:file"))
		other := map[string]string{"sha1": strings.Repeat("a", 64), "sha256": strings.Repeat("a", 40)}[format]
		r.git(r.main, "branch", other, r.base)
		r.git(r.main, "tag", "-a", "-m", "x", "annotated", r.base)
		tag := strings.TrimSpace(r.git(r.main, "rev-parse", "annotated"))
		r.git(r.main, "tag", "lane") // makes the short name of the branch another one
		tree, good := r.open(), r.facts()
		for name, tc := range map[string]struct {
			change func(*Facts)
			code   string
			cheap  bool
		}{
			"all right":               {func(*Facts) {}, "", true},
			"capitals":                {func(f *Facts) { f.Head, f.Base = strings.ToUpper(f.Head), strings.ToUpper(f.Base) }, "", true},
			"a base that is the head": {func(f *Facts) { f.Base = f.Head }, "", true},
			"another branch":          {func(f *Facts) { f.Branch = "main" }, "BRANCH_MISMATCH", true},
			"in other case":           {func(f *Facts) { f.Branch = "Lane" }, "BRANCH_MISMATCH", true},
			"as Git shortens":         {func(f *Facts) { f.Branch = "heads/lane" }, "BRANCH_MISMATCH", true},
			"protected":               {func(f *Facts) { f.Protected = []string{"main", " refs/heads/lane\t"} }, "BRANCH_PROTECTED", true},
			"a longer one":            {func(f *Facts) { f.Protected = []string{"lane2", "la", "Lane", ""} }, "", true},
			"another head":            {func(f *Facts) { f.Head = r.base }, "HEAD_MISMATCH", true},
			"no head":                 {func(f *Facts) { f.Head = "" }, "HEAD_MISMATCH", true},
			"a short head":            {func(f *Facts) { f.Head = f.Head[:12] }, "HEAD_MISMATCH", true},
			"no ancestor":             {func(f *Facts) { f.Base = side }, "BASE_NOT_ANCESTOR", false},
			"no such base":            {func(f *Facts) { f.Base = zero }, "BASE_NOT_ANCESTOR", false},
			"a blob":                  {func(f *Facts) { f.Base = blob }, "BASE_NOT_ANCESTOR", false},
			"a tag's object":          {func(f *Facts) { f.Base = tag }, "BASE_NOT_ANCESTOR", false},
			"a branch called so":      {func(f *Facts) { f.Base = other }, "BASE_NOT_ANCESTOR", false},
			"no commit":               {func(f *Facts) { f.Base = "main" }, "INVALID_ARGUMENT", false},
			"an option":               {func(f *Facts) { f.Base = "--all" }, "INVALID_ARGUMENT", false},
			"another status":          {func(f *Facts) { f.StatusSHA256 = strings.Repeat("0", 64) }, "STATUS_DIGEST_MISMATCH", false},
			"no status":               {func(f *Facts) { f.StatusSHA256 = "" }, "STATUS_DIGEST_MISMATCH", false},
		} {
			f := good
			tc.change(&f)
			wantCode(t, name, tree.Check(t.Context(), f), tc.code)
			if !tc.cheap {
				tc.code = ""
			}
			wantCode(t, name+", cheap", tree.CheckHead(t.Context(), f), tc.code)
		}

		// What was expected and what is, in the details.
		details := func(err error) map[string]any {
			t.Helper()
			var f *fault.Fault
			if !errors.As(err, &f) {
				t.Fatal(err)
			}
			return f.Details
		}
		r.write(r.tree, "file", "three\n")
		err := tree.Check(t.Context(), good)
		wantCode(t, "an edit", err, "STATUS_DIGEST_MISMATCH")
		if d := details(err); d["expected"] != good.StatusSHA256 || d["current"] != r.facts().StatusSHA256 {
			t.Errorf("%v", d)
		}
		head := r.commit(r.tree, "more")
		err = tree.Check(t.Context(), good)
		wantCode(t, "a commit", err, "HEAD_MISMATCH")
		if d := details(err); d["expected"] != good.Head || d["current"] != head {
			t.Errorf("%v", d)
		}
		r.git(r.tree, "checkout", "-q", "--orphan", "unborn")
		f := good
		f.Branch = "unborn"
		err = tree.Check(t.Context(), f)
		wantCode(t, "a branch without a commit", err, "HEAD_MISMATCH")
		if d := details(err); d["current"] != "" {
			t.Errorf("%v", d)
		}
		r.git(r.tree, "checkout", "-q", "--force", "--detach", good.Head)
		wantCode(t, "no branch", tree.Check(t.Context(), good), "DETACHED_HEAD")
		wantCode(t, "no branch, cheap", tree.CheckHead(t.Context(), good), "DETACHED_HEAD")
		r.git(r.tree, "symbolic-ref", "HEAD", "refs/tags/lane")
		wantCode(t, "a tag for a branch", tree.Check(t.Context(), good), "DETACHED_HEAD")
		must(t, os.RemoveAll(r.tree))
		wantCode(t, "gone", tree.Check(t.Context(), good), "GIT_FAILED")
	})
}

func TestIgnoreCase(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "sha1")
	for value, want := range map[string]bool{"true": true, "1": true, "on": true, "false": false, "0": false} {
		r.git(r.main, "config", "core.ignoreCase", value)
		f := Facts{Branch: "lane", Protected: []string{"refs/heads/LANE"}, Head: r.head(r.tree)}
		tree := r.open()
		code := map[bool]string{true: "BRANCH_PROTECTED"}[want]
		if tree.IgnoreCase != want {
			t.Errorf("core.ignoreCase=%s: %t", value, tree.IgnoreCase)
		}
		wantCode(t, value, tree.CheckHead(t.Context(), f), code)
	}
	r.git(r.main, "config", "core.ignoreCase", "perhaps")
	_, err := r.ours().Open(t.Context(), r.tree)
	wantCode(t, "perhaps", err, "GIT_FAILED")
}

// odd writes files of names that are hard to print, and links.
func (r *repo) odd(dir string) {
	r.Helper()
	names := []string{"new\nline", `quo"te`, "it's", " blank ", "-dash", "tab\t", "ünï", "back\\slash", "a/b/c", "a/b.d", "*?[x]", "über\u0301"}
	if runtime.GOOS != "darwin" {
		names = append(names, "latin-\xe9", "\xff\xfe")
	}
	for i, name := range names {
		r.write(dir, name, strings.Repeat(name, i))
	}
	must(r.T, os.Chmod(filepath.Join(dir, "it's"), 0o700))
	must(r.T, os.Symlink("some\nwhere", filepath.Join(dir, "link")))
	must(r.T, os.Symlink("/", filepath.Join(dir, "link to the root")))
}

// The digest is that of the bytes that anybody gets who runs git status.
func TestStatusDigest(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, format string) {
		r := newRepo(t, format)
		tree := r.open()
		equal := func(what string) {
			t.Helper()
			sum := sha256.Sum256([]byte(r.git(r.home, "-C", r.tree, "status", "--porcelain=v1", "--untracked-files=all")))
			got, err := tree.StatusDigest(t.Context())
			if err != nil || got != hex.EncodeToString(sum[:]) {
				t.Errorf("%s: %s, %v; git has %x", what, got, err, sum)
			}
		}
		equal("nothing changed")
		r.odd(r.tree)
		equal("odd names")
		r.write(r.tree, "x.ignored", "x")
		r.git(r.tree, "add", "-A")
		r.git(r.tree, "mv", "other", "moved")
		r.write(r.tree, "file", "changed\n")
		must(t, os.Remove(filepath.Join(r.tree, "it's")))
		equal("changes")
		for name, value := range map[string]string{
			"status.short": "true", "status.branch": "true", "status.showStash": "true", "status.renames": "false", "status.relativePaths": "false",
			"status.showUntrackedFiles": "no", "core.quotePath": "false", "color.ui": "always", "color.status": "always", "core.fileMode": "false", "column.ui": "always",
		} {
			r.git(r.main, "config", name, value)
			equal(name)
		}
		// Another commit in the place of HEAD: what status shows, it shows to all.
		r.git(r.main, "replace", r.head(r.tree), r.base)
		equal("a commit that stands in for HEAD")
	})
	r := newRepo(t, "sha1")
	tree := r.open()
	tree.git.limit = 1
	r.write(r.tree, "new", "")
	_, err := tree.StatusDigest(t.Context())
	wantCode(t, "too long", err, "GIT_FAILED")
}

func TestShow(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, format string) {
		r := newRepo(t, format)
		r.odd(r.tree)
		big := strings.Repeat("0123456789abcdef", maxText/16)
		r.write(r.tree, "big", big)
		r.write(r.tree, "bigger", big+"!")
		r.write(r.tree, "binary", "a\x00\r\n\xff")
		r.git(r.tree, "-c", "advice.addEmbeddedRepo=false", "add", "-A")
		r.write(r.main, "x", "x")
		r.git(r.tree, "update-index", "--add", "--cacheinfo", "160000,"+r.base+",sub")
		r.git(r.tree, "commit", "-q", "-m", "odd")
		r.write(r.tree, "file", "not committed\n")
		tree := r.open()
		for _, tc := range []struct{ rev, path, want, code string }{
			{"HEAD", "file", "two\n", ""}, {r.base, "file", "one\n", ""}, {strings.ToUpper(r.base), "file", "one\n", ""},
			{"HEAD", "a/b/c", strings.Repeat("a/b/c", 8), ""}, {"HEAD", "new\nline", "", ""}, {"HEAD", "*?[x]", strings.Repeat("*?[x]", 10), ""},
			{"HEAD", "-dash", strings.Repeat("-dash", 4), ""}, {"HEAD", "binary", "a\x00\r\n\xff", ""}, {"HEAD", "it's", strings.Repeat("it's", 2), ""},
			{"HEAD", "big", big, ""}, {"HEAD", "bigger", "", "GIT_FAILED"},
			{"HEAD", "none", "", "absent"}, {r.base, "big", "", "absent"}, {"HEAD", ":(top)file", "", "absent"}, {"HEAD", "f*", "", "absent"}, {"HEAD", "file/x", "", "absent"},
			{"HEAD", "a/b", "", "GIT_FAILED"}, {"HEAD", "link", "", "GIT_FAILED"}, {"HEAD", "sub", "", "GIT_FAILED"},
			{strings.Repeat("0", len(r.base)), "file", "", "GIT_FAILED"},
			{"main", "file", "", "INVALID_ARGUMENT"}, {"--all", "file", "", "INVALID_ARGUMENT"}, {"", "file", "", "INVALID_ARGUMENT"},
			{"HEAD", "", "", "INVALID_ARGUMENT"}, {"HEAD", ".", "", "INVALID_ARGUMENT"}, {"HEAD", "./file", "", "INVALID_ARGUMENT"}, {"HEAD", "a/../file", "", "INVALID_ARGUMENT"},
			{"HEAD", "..", "", "INVALID_ARGUMENT"}, {"HEAD", "../x", "", "INVALID_ARGUMENT"}, {"HEAD", "/file", "", "INVALID_ARGUMENT"}, {"HEAD", "a/b/", "", "INVALID_ARGUMENT"}, {"HEAD", "a\x00", "", "INVALID_ARGUMENT"},
		} {
			data, found, err := tree.Show(t.Context(), tc.rev, tc.path)
			if tc.code == "absent" {
				if found || err != nil || data != nil {
					t.Errorf("%s:%s: %q, %v", tc.rev, tc.path, data, err)
				}
				continue
			}
			wantCode(t, tc.rev+":"+tc.path, err, tc.code)
			if string(data) != tc.want || found != (tc.code == "") {
				t.Errorf("%s:%s: %d bytes, found: %t", tc.rev, tc.path, len(data), found)
			}
		}
		// A file that stands in for another one is not shown.
		r.git(r.main, "replace", strings.TrimSpace(r.git(r.main, "rev-parse", r.base+":file")), strings.TrimSpace(r.git(r.main, "rev-parse", "HEAD:other")))
		if r.git(r.main, "show", r.base+":file") == "one\n" {
			t.Error("nothing was replaced")
		}
		if data, _, err := tree.Show(t.Context(), r.base, "file"); string(data) != "one\n" {
			t.Errorf("%q, %v", data, err)
		}
	})
}

func TestSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if !same(dir, dir+"/.") || same(dir, dir+"/none") || same(dir+"/none", dir) || same(dir, filepath.Dir(dir)) {
		t.Error("same folders")
	}
}
