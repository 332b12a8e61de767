package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"herdr-link/mesh/fault"
)

// maxLink is the most that a file which leads to a repository may have, in bytes.
const maxLink = 64 << 10

// A Pin is all that leads git from a worktree to a configuration, which can name
// programs: the worktree's .git, those of its submodules, also of those that are
// not there, and what its own git folder says of the others.
type Pin struct {
	root string
	seen map[string]string // by path: "" is nothing, else what at says
}

// Of fails with WORKTREE_MOVED unless the worktree has those git folders, as a
// record names them. One of its own would have a configuration of its own.
func (t *Tree) Of(gitDir, commonDir string) error {
	if t.CommonDir != resolve(commonDir) {
		return fault.New("WORKTREE_MOVED", "at the worktree's path is one of another repository")
	}
	if t.GitDir != resolve(gitDir) {
		return fault.New("WORKTREE_MOVED", "the worktree's .git leads to another git folder than it did")
	}
	return nil
}

// Reopen is Open for a worktree that was opened before, and is to be that one
// still: WORKTREE_MOVED.
func (g *Git) Reopen(ctx context.Context, root, gitDir, commonDir string) (*Tree, error) {
	if err := Unmoved(root); err != nil {
		return nil, err
	}
	t, err := g.Open(ctx, root)
	if err != nil {
		return nil, err
	}
	return t, t.Of(gitDir, commonDir)
}

// Pin looks at what leads git from the worktree. It is GIT_FAILED if that is
// something that whoever writes to the worktree could rewrite. Then git status
// and git diff must not be run: they enter submodules.
func (t *Tree) Pin(ctx context.Context) (*Pin, error) {
	if within(t.CommonDir, t.Root) || !within(t.GitDir, t.CommonDir) || within(t.GitDir, t.Root) {
		return nil, fault.New("GIT_FAILED", "the worktree's git folder is inside the worktree, or not inside its repository")
	}
	p := &Pin{root: t.Root, seen: map[string]string{}}
	for _, path := range []string{filepath.Join(t.Root, ".git"), filepath.Join(t.GitDir, "commondir"), filepath.Join(t.GitDir, "gitdir")} {
		p.seen[path] = p.at(path)
		if _, ok := strings.CutPrefix(p.seen[path], isFile); !ok {
			return nil, fault.New("GIT_FAILED", "the worktree's .git, or what its git folder says of it, is no regular file")
		}
	}
	return p, t.pin(ctx, p, t.Root)
}

// pin adds the submodules of a worktree, which may be a submodule.
func (t *Tree) pin(ctx context.Context, p *Pin, dir string) error {
	names := new(gitlinks)
	exit, err := t.git.run(ctx, dir, names, t.git.limit, "ls-files", "--stage", "-z")
	switch {
	case errors.Is(err, errTooMuch):
		return t.git.errTooLarge()
	case err != nil:
		return err
	case exit != 0:
		return failed("ls-files", exit)
	}
	for _, name := range names.found {
		sub := filepath.Join(dir, name)
		link := filepath.Join(sub, ".git")
		if _, ok := p.seen[link]; ok { // an unmerged one has several entries
			continue
		}
		p.seen[link] = p.at(link)
		if p.seen[link] == "" {
			continue
		}
		text, ok := strings.CutPrefix(p.seen[link], isFile+"gitdir: ")
		to := strings.TrimRight(text, "\r\n")
		if !filepath.IsAbs(to) {
			to = filepath.Join(sub, to)
		}
		if to = resolve(to); !ok || !within(to, t.CommonDir) || within(to, t.Root) {
			return fault.New("GIT_FAILED", "the repository of a submodule is not inside that of the worktree, where git submodule has it: whoever writes to the worktree could rewrite its configuration")
		}
		if err := t.pin(ctx, p, sub); err != nil {
			return err
		}
	}
	return nil
}

// Same reports whether all of it is as it was. It runs no git.
func (p *Pin) Same() bool {
	for path, was := range p.seen {
		if p.at(path) != was {
			return false
		}
	}
	return true
}

// Files are those of it that are in the worktree.
func (p *Pin) Files() (files []string) {
	for _, path := range slices.Sorted(maps.Keys(p.seen)) {
		if within(path, p.root) && p.seen[path] != "" {
			files = append(files, path)
		}
	}
	return files
}

const (
	isFile  = "-" // and the content
	strange = "?"
)

// at is what stands at a path: "" if nothing does, isFile and its content for a
// file that no symbolic link in the worktree leads to, or strange.
func (p *Pin) at(path string) string {
	seen, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return ""
	case err != nil || !seen.Mode().IsRegular() || seen.Size() > maxLink:
		return strange
	}
	for dir := filepath.Dir(path); within(dir, p.root) && dir != p.root; dir = filepath.Dir(dir) {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			return strange
		}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return strange
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxLink))
	if err != nil || !unchanged(f, seen) {
		return strange
	}
	return isFile + string(text)
}

// within reports whether a path is a folder or inside it, by their names.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}

// gitlinks reads what git ls-files --stage -z prints, and keeps the names of
// submodules.
type gitlinks struct {
	part  []byte
	found []string
}

func (g *gitlinks) Write(p []byte) (int, error) {
	g.part = append(g.part, p...)
	for {
		entry, rest, whole := bytes.Cut(g.part, []byte{0})
		if !whole {
			g.part = slices.Clone(entry)
			return len(p), nil
		}
		g.part = rest
		if about, name, ok := bytes.Cut(entry, []byte("\t")); ok && bytes.HasPrefix(about, []byte("160000 ")) {
			g.found = append(g.found, string(name))
		}
	}
}
