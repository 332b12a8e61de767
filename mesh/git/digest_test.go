//go:build unix

package git

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func (r *repo) digest() string {
	r.Helper()
	d, err := r.open().ContentDigest(r.Context(), r.base)
	must(r.T, err)
	return d
}

// work makes changes of all kinds.
func (r *repo) work(dir string) {
	r.Helper()
	r.odd(dir)
	r.write(dir, "staged", "x\n")
	r.write(dir, "file", "three\n")
	r.write(dir, "binary", strings.Repeat("a\x00b\xff", 999))
	r.git(dir, "add", "staged", "file", "binary")
	r.write(dir, "file", "four\n")
	r.write(dir, "other", "1\n2\n3\n4\n5\nfive and a half\n6\n7\n8\n9\n\n10")
	r.write(dir, "x.ignored", "x")
}

// The same work in another clone is the same digest, however Git is configured
// there, and that of the command which the specification names.
func TestDigestStable(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, format string) {
		r := newRepo(t, format)
		second := &repo{T: t, home: r.home, main: r.home + "/second", tree: r.home + "/second tree", base: r.base}
		r.git(r.home, "clone", "-q", r.main, second.main)
		r.git(second.main, "worktree", "add", "-q", "-b", "another-name", second.tree)
		r.work(r.tree)
		second.work(second.tree)
		want := r.digest()
		if got := second.digest(); got != want {
			t.Errorf("in another clone %s, not %s", got, want)
		}
		for file, how := range map[string]fs.FileMode{"-dash": 0o640, "other": 0o604} {
			must(t, os.Chmod(filepath.Join(second.tree, file), how))
			must(t, os.Chtimes(filepath.Join(second.tree, file), time.Unix(1, 0), time.Unix(1, 0)))
		}
		r.write(second.tree, "y.ignored", "y")
		r.write(second.main, "only in the main worktree", "y")
		if got := second.digest(); got != want {
			t.Errorf("with other times %s, not %s", got, want)
		}
		for name, value := range map[string]string{
			"diff.noprefix": "true", "diff.mnemonicPrefix": "true", "diff.renames": "copies", "diff.algorithm": "patience", "diff.context": "9",
			"diff.interHunkContext": "9", "diff.suppressBlankEmpty": "true", "diff.relative": "true", "diff.submodule": "log", "diff.ignoreSubmodules": "all",
			"diff.indentHeuristic": "false", "diff.orderFile": r.home + "/order", "diff.autoRefreshIndex": "false", "diff.wsErrorHighlight": "all",
			"diff.colorMoved": "zebra", "color.ui": "always", "core.quotePath": "false", "core.abbrev": "5", "core.compression": "9", "core.looseCompression": "9",
			"core.checkStat": "minimal", "core.trustctime": "false", "core.pager": "false", "core.bigFileThreshold": "1", "diff.srcPrefix": "x/", "core.whitespace": "cr-at-eol",
			"status.showUntrackedFiles": "no", "core.untrackedCache": "true", "diff.tool": "x", "diff.statGraphWidth": "3", "diff.dirstat": "lines",
		} {
			r.git(second.main, "config", name, value)
			if got := second.digest(); got != want {
				t.Errorf("with %s=%s: %s, not %s", name, value, got, want)
			}
		}

		fields := []string{"herdr-link-worktree-v1", r.head(r.tree), r.git(r.tree, specDiff(r.base)...)}
		names, err := r.open().untracked(t.Context())
		must(t, err)
		if len(names) < 14 {
			t.Errorf("untracked: %q", names)
		}
		for _, name := range names {
			kind, content := "file", ""
			info, err := os.Lstat(filepath.Join(r.tree, name))
			must(t, err)
			if info.Mode()&fs.ModeSymlink != 0 {
				kind = "symlink"
				content, err = os.Readlink(filepath.Join(r.tree, name))
			} else {
				var text []byte
				text, err = os.ReadFile(filepath.Join(r.tree, name))
				content = string(text)
			}
			must(t, err)
			if name == "it's" {
				kind = "exec"
			}
			fields = append(fields, name, kind, content)
		}
		if got := framed(fields...); got != want {
			t.Errorf("its fields give %s, not %s", got, want)
		}
		if !strings.Contains(fields[2], "GIT binary patch") || !strings.Contains(fields[2], "five and a half") {
			t.Errorf("the diff is\n%s", fields[2])
		}
	})
}

// Whatever changes in the worktree is another digest.
func TestDigestSees(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "sha1")
	r.git(r.tree, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", r.main, "part")
	r.git(r.main, "config", "submodule.part.ignore", "all")
	r.commit(r.tree, "a submodule")
	in := func(name string) string { return filepath.Join(r.tree, name) }
	seen := map[string]string{}
	look := func(what string) {
		t.Helper()
		d := r.digest()
		if other, ok := seen[d]; ok {
			t.Errorf("%q is the same as %q", what, other)
		}
		seen[d] = what
	}
	look("nothing")
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"a tracked file", func() { r.write(r.tree, "file", "x\n") }},
		{"the same in size", func() { r.write(r.tree, "file", "y\n") }},
		{"its mode", func() { must(t, os.Chmod(in("file"), 0o700)) }},
		{"a tracked file gone", func() { must(t, os.Remove(in("other"))) }},
		{"a link in its place", func() { must(t, os.Symlink("file", in("other"))) }},
		{"an untracked file", func() { r.write(r.tree, "u", "") }},
		{"its content", func() { r.write(r.tree, "u", "ab") }},
		{"the same in size, untracked", func() { r.write(r.tree, "u", "cd") }},
		{"its mode, untracked", func() { must(t, os.Chmod(in("u"), 0o700)) }},
		{"its name", func() { must(t, os.Rename(in("u"), in("v"))) }},
		{"a part of the content in the name", func() { must(t, os.Remove(in("v"))); r.write(r.tree, "vc", "d") }},
		{"a second one", func() { r.write(r.tree, "w", "1") }},
		{"contents swapped", func() { r.write(r.tree, "w", "d"); r.write(r.tree, "vc", "1") }},
		{"a link for a file", func() { must(t, os.Remove(in("w"))); must(t, os.Symlink("d", in("w"))) }},
		{"another link", func() { must(t, os.Remove(in("w"))); must(t, os.Symlink("e", in("w"))) }},
		{"an untracked file added", func() { r.git(r.tree, "add", "vc") }},
		{"a file in a folder", func() { r.write(r.tree, "new/folder/file", "") }},
		{"a submodule's content", func() { r.write(r.tree, "part/file", "changed\n") }},
		{"a submodule's commit", func() { r.git(in("part"), "checkout", "-q", "--force", "HEAD~1") }},
		{"a commit without a change", func() { r.git(r.tree, "commit", "-q", "--allow-empty", "-m", "empty") }},
		{"a conflict", func() {
			r.git(r.tree, "reset", "-q", "--hard")
			r.git(r.tree, "checkout", "-q", "-b", "side", r.base)
			r.write(r.tree, "file", "side\n")
			r.git(r.tree, "commit", "-q", "-a", "-m", "side")
			r.git(r.tree, "checkout", "-q", "lane")
			if _, err := r.try(r.tree, "merge", "side"); err == nil {
				t.Fatal("no conflict")
			}
		}},
		{"an edit of it", func() { r.write(r.tree, "file", "edited\n") }},
	} {
		step.do()
		look(step.what)
	}
	tree := r.open()
	d, err := tree.ContentDigest(t.Context(), r.head(r.tree))
	if must(t, err); seen[d] != "" {
		t.Error("another base")
	}
	for base, code := range map[string]string{"main": "INVALID_ARGUMENT", "--output=x": "INVALID_ARGUMENT", strings.Repeat("0", 40): "GIT_FAILED"} {
		_, err := tree.ContentDigest(t.Context(), base)
		wantCode(t, base, err, code)
	}
}

// What Git does not look at cannot be vouched for.
func TestDigestHidden(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "sha1")
	tree := r.open()
	digest := func(what, code string) {
		t.Helper()
		_, err := tree.ContentDigest(t.Context(), r.base)
		wantCode(t, what, err, code)
	}
	for _, flag := range []string{"assume-unchanged", "skip-worktree"} {
		r.git(r.tree, "update-index", "--"+flag, "file")
		digest(flag, "GIT_FAILED")
		r.git(r.tree, "update-index", "--no-"+flag, "file")
		digest("no "+flag, "")
	}
	r.git(r.tree, "sparse-checkout", "set", "--no-cone", "/file")
	if _, err := os.Lstat(filepath.Join(r.tree, "other")); err == nil {
		t.Fatal("the checkout is not sparse")
	}
	digest("a sparse checkout", "")

	must(t, os.Mkdir(filepath.Join(r.tree, "inner"), 0o700))
	r.git(filepath.Join(r.tree, "inner"), "init", "-q", "-b", "main")
	r.commit(filepath.Join(r.tree, "inner"), "x")
	digest("a repository inside", "GIT_FAILED")
	must(t, os.RemoveAll(filepath.Join(r.tree, "inner")))
	r.write(r.tree, "secret", "x")
	must(t, os.Chmod(filepath.Join(r.tree, "secret"), 0))
	if os.Getuid() != 0 {
		digest("an unreadable file", "GIT_FAILED")
	}
	must(t, os.Remove(filepath.Join(r.tree, "secret")))
	must(t, syscall.Mkfifo(filepath.Join(r.tree, "fifo"), 0o600)) // Git shows none
	digest("a pipe", "")
}

// hidden reads its entries however they are cut.
func TestHiddenParts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "there"), nil, 0o600))
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	for text, want := range map[string]bool{
		"": false, "H a\x00H b c\x00": false, "S gone\x00H there\x00": false, "H a\x00h b\x00H c\x00": true, "S there\x00": true, "s gone\x00": true,
		"H S there\x00M h\x00": false, "H a\nh b\x00": false,
	} {
		for n := 1; n < 9; n++ {
			h := &hidden{root: root}
			for at := 0; at < len(text); at += n {
				if k, err := h.Write([]byte(text[at:min(at+n, len(text))])); err != nil || k == 0 {
					t.Fatal(k, err)
				}
			}
			if h.found != want {
				t.Errorf("%q, %d bytes at a time: %t", text, n, h.found)
			}
		}
	}
}

func TestDigestLimit(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "sha1")
	tree := r.open()
	field := func(n int) int64 { return 8 + int64(n) }
	diff := len(r.git(r.tree, specDiff(r.base)...))
	total := field(len(digestTag)) + field(40) + field(diff)
	at := func(what string, limit int64, code string) {
		t.Helper()
		tree.git.limit = limit
		_, err := tree.ContentDigest(t.Context(), r.base)
		wantCode(t, what, err, code)
	}
	at("the diff, just", total, "")
	at("the diff and more", total-1, "DIGEST_TOO_LARGE")
	at("the diff", int64(diff)-1, "DIGEST_TOO_LARGE")
	r.write(r.tree, "u", strings.Repeat("x", 1<<20))
	total += field(1) + field(4) + field(1<<20)
	at("a file, just", total, "")
	at("a file", total-1, "DIGEST_TOO_LARGE")
	at("a file alone", 1<<20-1, "DIGEST_TOO_LARGE")
	must(t, os.Symlink("to", filepath.Join(r.tree, "v")))
	total += field(1) + field(7) + field(2)
	at("a symlink, just", total, "")
	at("a symlink", total-1, "DIGEST_TOO_LARGE")
	// A hole of a file is not read to be found too large.
	must(t, os.Truncate(filepath.Join(r.tree, "u"), maxDigest+1))
	at("a huge file", maxDigest, "DIGEST_TOO_LARGE")
}

// A change while the worktree is read is no digest.
func TestDigestChanges(t *testing.T) {
	t.Parallel()
	bin := realGit(t)
	for name, tc := range map[string]struct {
		command, arg string
		n            int
		set          func(r *repo, role *role)
	}{
		"a tracked file":             {"diff", "--no-ext-diff", 2, func(r *repo, c *role) { c.Write, c.Text = r.tree+"/file", "xxx\n" }},
		"a tracked file, by more":    {"diff", "--no-ext-diff", 2, func(r *repo, c *role) { c.Write, c.Text = r.tree+"/file", strings.Repeat("x\n", 99) }},
		"a tracked file, by less":    {"diff", "--no-ext-diff", 2, func(r *repo, c *role) { c.Write, c.Text = r.tree+"/file", "one\n" }},
		"an untracked file":          {"diff", "--no-ext-diff", 2, func(r *repo, c *role) { c.Write, c.Text = r.tree+"/u", "y" }},
		"an untracked file, by more": {"diff", "--no-ext-diff", 2, func(r *repo, c *role) { c.Write, c.Text = r.tree+"/u", "xy" }},
		"an untracked file gone":     {"diff", "--no-ext-diff", 2, func(r *repo, c *role) { c.Remove, c.Run = r.tree+"/u", []string{"true"} }},
		"gone when it is looked at":  {"ls-files", "-v", 1, func(r *repo, c *role) { c.Remove, c.Run = r.tree+"/u", []string{"true"} }},
		"another one in its place": {"diff", "--no-ext-diff", 2, func(r *repo, c *role) {
			c.Run = []string{"mv", r.home + "/twin", r.tree + "/u"}
		}},
		"a pipe in its place":    {"diff", "--no-ext-diff", 2, func(r *repo, c *role) { c.Remove, c.Run = r.tree+"/u", []string{"mkfifo", r.tree + "/u"} }},
		"a symlink in its place": {"diff", "--no-ext-diff", 2, func(r *repo, c *role) { c.Remove, c.Run = r.tree+"/u", []string{"ln", "-s", "file", r.tree + "/u"} }},
		"another symlink":        {"diff", "--no-ext-diff", 2, func(r *repo, c *role) { c.Remove, c.Run = r.tree+"/v", []string{"ln", "-s", "other", r.tree + "/v"} }},
		"a file for a symlink":   {"diff", "--no-ext-diff", 2, func(r *repo, c *role) { c.Remove, c.Write = r.tree+"/v", r.tree+"/v" }},
		"its mode":               {"diff", "--no-ext-diff", 2, func(r *repo, c *role) { c.Run = []string{"chmod", "700", r.tree + "/u"} }},
		"a new file":             {"ls-files", "--others", 2, func(r *repo, c *role) { c.Write = r.tree + "/new" }},
		"a new commit": {"rev-parse", "--verify", 2, func(r *repo, c *role) {
			c.Run = []string{bin, "-C", r.tree, "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-q", "--allow-empty", "-m", "x"}
		}},
		"nothing": {"diff", "--no-ext-diff", 2, func(r *repo, c *role) { c.Write = r.tree + "/x.ignored" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, "sha1")
			r.write(r.tree, "file", "two and a half\n")
			r.write(r.tree, "u", "x")
			r.write(r.home, "twin", "y")
			must(t, os.Symlink("away", filepath.Join(r.tree, "v")))
			for _, file := range []string{r.tree + "/u", r.home + "/twin"} { // so that a write is another time
				must(t, os.Chtimes(file, time.Unix(1, 0), time.Unix(1, 0)))
			}
			c := role{Real: bin, Command: tc.command, Arg: tc.arg, N: tc.n}
			tc.set(r, &c)
			g, dir := fake(t, c)
			g.environ = append(g.environ, "HOME="+r.home, "PATH="+os.Getenv("PATH"))
			tree, err := g.Open(t.Context(), r.tree)
			must(t, err)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute) // a pipe would be waited for
			defer stop()
			code := "GIT_FAILED"
			if name == "nothing" {
				code = ""
			}
			_, err = tree.ContentDigest(ctx, r.base)
			wantCode(t, name, err, code)
			if err != nil && !strings.Contains(err.Error(), "changed while") {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "call2")); tc.n == 2 && err != nil {
				t.Error("it was over before")
			}
		})
	}
}

// Nor is one while a file is read.
func TestFileChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "u")
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	size := 1 << 20
	write := func(text string) { must(t, os.WriteFile(file, []byte(text), 0o600)) }
	for name, tc := range map[string]struct {
		change func()
		code   string
	}{
		"nothing": {func() {}, ""},
		"longer":  {func() { write(strings.Repeat("x", size+1)) }, "GIT_FAILED"},
		"shorter": {func() { write(strings.Repeat("x", size-1)) }, "GIT_FAILED"},
		"empty":   {func() { write("") }, "GIT_FAILED"},
		"other":   {func() { write(strings.Repeat("y", size)) }, "GIT_FAILED"},
	} {
		write(strings.Repeat("x", size))
		must(t, os.Chtimes(file, time.Unix(1, 0), time.Unix(1, 0)))
		seen, err := root.Lstat("u")
		must(t, err)
		asked := 0
		ctx := late{t.Context(), func() {
			if asked++; asked == 3 { // after a part of it
				tc.change()
			}
		}}
		err = New(environment{}.get).digester().file(ctx, root, "u", seen)
		wantCode(t, name, err, tc.code)
		if asked < 4 {
			t.Errorf("%s: read in %d parts", name, asked)
		}
	}
	seen, err := root.Lstat("u")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantCode(t, "cancelled", New(environment{}.get).digester().file(ctx, root, "u", seen), "CANCELLED")
}

// A late is a context that does something when it is asked for its end.
type late struct {
	context.Context
	do func()
}

func (l late) Err() error {
	l.do()
	return l.Context.Err()
}
