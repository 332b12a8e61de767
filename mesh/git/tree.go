package git

import (
	"context"
	"os"
	"path/filepath"
	"unicode/utf8"

	"herdr-link/mesh/fault"
)

// A Tree is a linked worktree. Its paths are absolute and free of symlinks.
type Tree struct {
	Root           string // of the worktree
	GitDir         string // of this worktree
	CommonDir      string // of the repository, for all its worktrees
	RepositoryRoot string // the main worktree, or the repository itself if it is bare
	IgnoreCase     bool   // its file names do not differ by case alone

	git *Git
}

// Open looks at a folder that has to be the root of a linked worktree: fact 1 of
// mesh.md §4.7. Codes: WORKTREE_NOT_ROOT, WORKTREE_IS_PRIMARY.
func (g *Git) Open(ctx context.Context, dir string) (*Tree, error) {
	if !filepath.IsAbs(dir) {
		return nil, fault.New("INVALID_ARGUMENT", "the worktree's path is not absolute")
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err == nil {
		_, err = os.Lstat(filepath.Join(dir, ".git"))
	}
	if err != nil {
		return nil, errNotRoot()
	}
	t := &Tree{git: g}
	if t.GitDir, err = g.rooted(ctx, dir, "--absolute-git-dir"); err != nil {
		return nil, err
	}
	if t.CommonDir, err = g.rooted(ctx, dir, "--path-format=absolute", "--git-common-dir"); err != nil {
		return nil, err
	}
	if t.CommonDir == t.GitDir {
		return nil, fault.New("WORKTREE_IS_PRIMARY", "that is the repository's main worktree: a writer needs one that git worktree add has made")
	}
	if t.Root, err = g.rooted(ctx, dir, "--show-toplevel"); err != nil {
		return nil, err
	}
	if !same(dir, t.Root) {
		return nil, errNotRoot()
	}
	// Where Git would say the main worktree is. It is not asked, because it may be
	// asked for a list only, of all worktrees.
	if t.RepositoryRoot = t.CommonDir; filepath.Base(t.CommonDir) == ".git" {
		t.RepositoryRoot = filepath.Dir(t.CommonDir)
	}
	fold, err := g.text(ctx, t.Root, "config", "--type=bool", "--default=false", "--get", "core.ignorecase")
	if err != nil {
		return nil, err
	}
	t.IgnoreCase = fold == "true"
	return t, nil
}

func errNotRoot() error {
	return fault.New("WORKTREE_NOT_ROOT", "that is not the root of a Git worktree")
}

// rooted has git rev-parse tell one path. One a call: a newline may be part of it.
func (g *Git) rooted(ctx context.Context, dir string, args ...string) (string, error) {
	path, err := g.text(ctx, dir, "rev-parse", args...)
	if err != nil {
		return "", err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil || !filepath.IsAbs(path) {
		return "", fault.New("GIT_FAILED", "git rev-parse names a folder that is not there, or Git is older than 2.31")
	}
	if !utf8.ValidString(path) { // a record could not hold it
		return "", fault.New("GIT_FAILED", "the path of the worktree or of its repository is not UTF-8")
	}
	return path, nil
}

// same reports whether two paths lead to one file, in whatever case they are.
func same(a, b string) bool {
	if a == b {
		return true
	}
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// Unmoved reports that a worktree's stored root is where it was: WORKTREE_MOVED.
func Unmoved(root string) error {
	if at, err := filepath.EvalSymlinks(root); err != nil || at != root {
		return fault.New("WORKTREE_MOVED", "the worktree's path is gone, or leads to another place than it did")
	}
	return nil
}

// Below reports whether a path, such as a process's working directory, is the
// folder root or inside it. Symlinks are resolved as far as the path exists.
func Below(root, path string) bool {
	if !filepath.IsAbs(path) {
		return false
	}
	path = resolve(filepath.Clean(path))
	for {
		if same(root, path) {
			return true
		}
		parent := filepath.Dir(path)
		if parent == path {
			return false
		}
		path = parent
	}
}

func resolve(path string) string {
	at, err := filepath.EvalSymlinks(path)
	if parent := filepath.Dir(path); err != nil && parent != path {
		return filepath.Join(resolve(parent), filepath.Base(path))
	}
	if err != nil {
		return path
	}
	return at
}
