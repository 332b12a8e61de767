package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"herdr-link/mesh/fault"
)

// digestTag names the way a worktree is hashed. A change of it needs another tag.
const digestTag = "herdr-link-worktree-v1"

// ContentDigest returns a SHA-256, in hex digits, of all that Git sees in the
// worktree: HEAD, the differences from a base commit, and the untracked files
// (mesh.md §4.10; testdata/mesh-worktree has the format and vectors). Ignored
// files do not count, and of a submodule only its commit and whether anything
// has been changed in it.
//
// What is read has been the same before and after: a change meanwhile is
// GIT_FAILED, if it was not undone at once. Codes: DIGEST_TOO_LARGE, GIT_FAILED.
func (t *Tree) ContentDigest(ctx context.Context, base string) (string, error) {
	before, err := t.look(ctx, base)
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(t.Root)
	if err != nil {
		return "", errChanged()
	}
	defer root.Close()
	seen, err := t.list(ctx, root, before.untracked)
	if err != nil {
		return "", err
	}

	d := t.git.digester()
	d.field(digestTag)
	d.field(before.head)
	d.length(before.diff.size)
	again := t.git.digester()
	if err := t.diff(ctx, base, io.MultiWriter(d, again), before.diff.size); err != nil {
		if errors.Is(err, errTooMuch) {
			err = errChanged()
		}
		return "", err
	}
	if !again.equal(before.diff) {
		return "", errChanged()
	}
	for i, name := range before.untracked {
		if err := d.file(ctx, root, name, seen[i]); err != nil {
			return "", err
		}
	}
	if d.size > t.git.limit {
		return "", t.git.errTooLarge()
	}
	head, err := t.Head(ctx)
	if err != nil {
		return "", err
	}
	untracked, err := t.untracked(ctx)
	if err != nil {
		return "", err
	}
	if head != before.head || !slices.Equal(untracked, before.untracked) {
		return "", errChanged()
	}
	return hex.EncodeToString(d.sum.Sum(nil)), nil
}

func errChanged() error {
	return fault.New("GIT_FAILED", "the worktree changed while it was read")
}

func (g *Git) errTooLarge() error {
	return fault.New("DIGEST_TOO_LARGE", "the changes and untracked files of the worktree are more than %d MiB", g.limit>>20)
}

// A view is what there is to be hashed.
type view struct {
	head      string
	diff      *digester // alone: its length has to be known before its bytes
	untracked []string
}

func (t *Tree) look(ctx context.Context, base string) (v view, err error) {
	if !IsCommit(base) {
		return v, fault.New("INVALID_ARGUMENT", "the base commit is not 40 or 64 hex digits")
	}
	if v.head, err = t.Head(ctx); err != nil {
		return v, err
	}
	v.diff = t.git.digester()
	if err = t.diff(ctx, base, v.diff, t.git.limit); errors.Is(err, errTooMuch) {
		err = t.git.errTooLarge()
	}
	if err == nil {
		v.untracked, err = t.untracked(ctx)
	}
	return v, err
}

// diff prints the differences of tracked files. By default Git prints the same
// without the options of the second and third line, but a configuration may say
// otherwise, and one of diff.submodule has git run in the submodule, with all
// that there is configured.
func (t *Tree) diff(ctx context.Context, base string, sink io.Writer, max int64) error {
	exit, err := t.git.run(ctx, t.Root, sink, max, "diff", "--no-ext-diff", "--no-textconv", "--no-color",
		"--submodule=short", "--ignore-submodules=none", "--no-relative", "-O/dev/null",
		"--unified=3", "--inter-hunk-context=0", "--indent-heuristic",
		"--binary", "--full-index", "--no-renames", "--diff-algorithm=myers", "--src-prefix=a/", "--dst-prefix=b/", base, "--")
	if err == nil && exit != 0 {
		err = failed("diff", exit)
	}
	return err
}

// untracked returns the names of the untracked files, sorted by their bytes.
func (t *Tree) untracked(ctx context.Context) ([]string, error) {
	var out bytes.Buffer
	exit, err := t.git.run(ctx, t.Root, &out, maxText, "ls-files", "--others", "--exclude-standard", "-z")
	switch {
	case errors.Is(err, errTooMuch):
		return nil, fault.New("DIGEST_TOO_LARGE", "the names of the untracked files are more than %d MiB", maxText>>20)
	case err != nil:
		return nil, err
	case exit != 0:
		return nil, failed("ls-files", exit)
	}
	names := strings.Split(out.String(), "\x00")
	names = names[:len(names)-1]
	slices.Sort(names)
	return names, nil
}

// list looks at the untracked files, and for what would be missing in a digest.
func (t *Tree) list(ctx context.Context, root *os.Root, names []string) ([]fs.FileInfo, error) {
	hidden := &hidden{root: root}
	exit, err := t.git.run(ctx, t.Root, hidden, t.git.limit, "ls-files", "-v", "-z")
	switch {
	case errors.Is(err, errTooMuch):
		return nil, t.git.errTooLarge()
	case err != nil:
		return nil, err
	case exit != 0:
		return nil, failed("ls-files", exit)
	case hidden.found:
		return nil, fault.New("GIT_FAILED", "Git has been told not to look at a tracked file (git update-index --assume-unchanged or --skip-worktree), so its content cannot be vouched for")
	}
	seen := make([]fs.FileInfo, len(names))
	size := int64(0)
	for i, name := range names {
		if seen[i], err = root.Lstat(strings.TrimSuffix(name, "/")); err != nil {
			return nil, errChanged()
		}
		if size += seen[i].Size(); size > t.git.limit {
			return nil, t.git.errTooLarge()
		}
	}
	return seen, nil
}

// hidden reads what git ls-files -v -z prints, and finds files that Git takes
// for unchanged without a look: their letter is a small one, or S, which is right
// only for those that a sparse checkout has left out.
type hidden struct {
	root  *os.Root
	part  []byte
	found bool
}

func (h *hidden) Write(p []byte) (int, error) {
	h.part = append(h.part, p...)
	for {
		entry, rest, whole := bytes.Cut(h.part, []byte{0})
		if !whole {
			h.part = slices.Clone(entry)
			return len(p), nil
		}
		h.part = rest
		letter, name, _ := bytes.Cut(entry, []byte(" "))
		switch {
		case bytes.ContainsAny(letter, "abcdefghijklmnopqrstuvwxyz"):
			h.found = true
		case string(letter) == "S":
			_, err := h.root.Lstat(string(name))
			h.found = h.found || !errors.Is(err, fs.ErrNotExist)
		}
	}
}

// A digester hashes fields: each is its length as 8 bytes, the highest first,
// and its bytes.
type digester struct {
	git  *Git
	sum  hash.Hash
	size int64 // of what was written
}

func (g *Git) digester() *digester { return &digester{git: g, sum: sha256.New()} }

func (d *digester) Write(p []byte) (int, error) {
	d.size += int64(len(p))
	return d.sum.Write(p)
}

func (d *digester) length(n int64) {
	_, _ = d.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

func (d *digester) field(s string) {
	d.length(int64(len(s)))
	_, _ = io.WriteString(d, s)
}

func (d *digester) equal(e *digester) bool {
	return d.size == e.size && bytes.Equal(d.sum.Sum(nil), e.sum.Sum(nil))
}

// file hashes an untracked file: name, type, content. seen is what it was when
// the names were listed.
func (d *digester) file(ctx context.Context, root *os.Root, name string, seen fs.FileInfo) error {
	d.field(name)
	kind := "file"
	switch {
	case seen.Mode().IsRegular() && seen.Mode()&0o100 != 0:
		kind = "exec"
	case seen.Mode().IsRegular():
	case seen.Mode()&fs.ModeSymlink != 0:
		text, err := root.Readlink(name)
		if err != nil {
			return errChanged()
		}
		if now, err := root.Lstat(name); err != nil || !alike(now, seen) {
			return errChanged()
		}
		d.field("symlink")
		d.field(text)
		return nil
	default: // such as a repository inside this one
		return fault.New("GIT_FAILED", "something untracked is neither a file nor a symlink").With("mode", seen.Mode().String())
	}
	d.field(kind)
	d.length(seen.Size())
	if d.size+seen.Size() > d.git.limit {
		return d.git.errTooLarge()
	}
	// A pipe in the file's place is not waited for.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) {
		return fault.New("GIT_FAILED", "an untracked file may not be read")
	}
	if err != nil {
		return errChanged()
	}
	defer f.Close()
	if !unchanged(f, seen) {
		return errChanged()
	}
	n, err := io.Copy(d, io.LimitReader(reader{ctx, f}, seen.Size()+1))
	switch {
	case ctx.Err() != nil:
		return ended(ctx, "the digest")
	case err != nil || n != seen.Size() || !unchanged(f, seen):
		return errChanged()
	}
	return nil
}

// unchanged reports whether an open file is the one that was seen, as it was.
func unchanged(f *os.File, seen fs.FileInfo) bool {
	now, err := f.Stat()
	return err == nil && alike(now, seen)
}

func alike(now, seen fs.FileInfo) bool {
	return os.SameFile(now, seen) && now.Mode() == seen.Mode() &&
		now.Size() == seen.Size() && now.ModTime().Equal(seen.ModTime())
}

// A reader stops reading when the call has ended.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
