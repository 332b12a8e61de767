package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"
	"strings"

	"herdr-link/mesh/fault"
)

// Facts are what a caller expects of a worktree (mesh.md §4.7).
type Facts struct {
	Branch       string // without refs/heads/
	Protected    []string
	Head         string // commits, all digits
	Base         string
	StatusSHA256 string
}

// Check is facts 2 to 5; fact 1 is that the Tree could be opened. Codes:
// DETACHED_HEAD, BRANCH_MISMATCH, BRANCH_PROTECTED, HEAD_MISMATCH,
// BASE_NOT_ANCESTOR, STATUS_DIGEST_MISMATCH.
func (t *Tree) Check(ctx context.Context, f Facts) error {
	_, err := t.CheckPin(ctx, f)
	return err
}

// CheckPin is Check, and returns the Pin that stood when git status was run.
func (t *Tree) CheckPin(ctx context.Context, f Facts) (*Pin, error) {
	if err := t.CheckHead(ctx, f); err != nil {
		return nil, err
	}
	if err := t.base(ctx, f.Base); err != nil {
		return nil, err
	}
	pin, err := t.Pin(ctx)
	if err != nil {
		return nil, err
	}
	digest, err := t.StatusDigest(ctx)
	if err == nil && !strings.EqualFold(digest, f.StatusSHA256) {
		err = fault.Mismatch("STATUS_DIGEST_MISMATCH", "git status prints something else than was expected", f.StatusSHA256, digest)
	}
	return pin, err
}

// CheckHead is facts 2 and 3, the cheap ones.
func (t *Tree) CheckHead(ctx context.Context, f Facts) error {
	if err := t.branch(ctx, f); err != nil {
		return err
	}
	head, err := t.Head(ctx)
	if err == nil && (head == "" || !strings.EqualFold(head, f.Head)) {
		err = fault.Mismatch("HEAD_MISMATCH", "the worktree is at another commit than was expected", f.Head, head)
	}
	return err
}

// branch reads the whole name of HEAD's target: the short one is longer than the
// branch where a tag has the same name.
func (t *Tree) branch(ctx context.Context, f Facts) error {
	ref, no, err := t.git.ask(ctx, t.Root, "symbolic-ref", "--quiet", "HEAD")
	if err != nil {
		return err
	}
	branch, ok := strings.CutPrefix(ref, "refs/heads/")
	if no || !ok {
		return fault.New("DETACHED_HEAD", "the worktree is on no branch")
	}
	if branch != f.Branch {
		return fault.Mismatch("BRANCH_MISMATCH", "the worktree is on another branch than was expected", f.Branch, branch)
	}
	for _, p := range f.Protected {
		if equal(strings.TrimPrefix(strings.TrimSpace(p), "refs/heads/"), branch, t.IgnoreCase) {
			return fault.New("BRANCH_PROTECTED", "the worktree is on a protected branch").With("branch", branch)
		}
	}
	return nil
}

// Head returns the commit that the worktree is at, or "" if its branch has none.
func (t *Tree) Head(ctx context.Context) (string, error) { return t.commit(ctx, "HEAD") }

// commit returns the name of a commit, or "" if there is none.
func (t *Tree) commit(ctx context.Context, rev string) (string, error) {
	name, no, err := t.git.ask(ctx, t.Root, "rev-parse", "--verify", "--quiet", rev+"^{commit}")
	switch {
	case err != nil || no:
		return "", err
	case !IsCommit(name):
		return "", fault.New("GIT_FAILED", "git rev-parse did not print a commit")
	}
	return name, nil
}

// IsCommit reports whether s is the whole name of a commit: 40 or 64 hex digits.
func IsCommit(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

func (t *Tree) base(ctx context.Context, base string) error {
	if !IsCommit(base) {
		return fault.New("INVALID_ARGUMENT", "the base commit is not 40 or 64 hex digits")
	}
	name, err := t.commit(ctx, base)
	if err != nil {
		return err
	}
	if !strings.EqualFold(name, base) { // also a branch or tag that is called so
		return fault.New("BASE_NOT_ANCESTOR", "the repository has no such base commit").With("base", base)
	}
	_, no, err := t.git.ask(ctx, t.Root, "merge-base", "--is-ancestor", base, "HEAD")
	if err == nil && no {
		err = fault.New("BASE_NOT_ANCESTOR", "the base commit is not an ancestor of the worktree's").With("base", base)
	}
	return err
}

// StatusDigest returns the SHA-256, in hex digits, of what
// git status --porcelain=v1 --untracked-files=all prints.
func (t *Tree) StatusDigest(ctx context.Context) (string, error) {
	sum := sha256.New()
	exit, err := t.git.run(ctx, t.Root, sum, t.git.limit, "status", "--porcelain=v1", "--untracked-files=all")
	switch {
	case errors.Is(err, errTooMuch):
		return "", fault.New("GIT_FAILED", "git status printed more than %d MiB", t.git.limit>>20)
	case err != nil:
		return "", err
	case exit != 0:
		return "", failed("status", exit)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Show returns the bytes of a regular file in a commit, or found is false. rev
// is HEAD or the whole name of a commit; the file may have 8 MiB.
func (t *Tree) Show(ctx context.Context, rev, file string) (data []byte, found bool, err error) {
	if rev != "HEAD" && !IsCommit(rev) || file != path.Clean(file) || path.IsAbs(file) || file == "." || file == ".." ||
		strings.HasPrefix(file, "../") || strings.Contains(file, "\x00") {
		return nil, false, fault.New("INVALID_ARGUMENT", "that is not a commit and a path in it")
	}
	// git show would do, but it does not say whether the file is missing or
	// something is wrong, and takes a link's text for a file's.
	list, err := t.git.text(ctx, t.Root, "ls-tree", "-z", "--full-tree", rev, "--", file)
	if err != nil || list == "" {
		return nil, false, err
	}
	about, _, _ := strings.Cut(list, "\t") // mode, type, object
	words := strings.Fields(about)
	if len(words) != 3 || list != about+"\t"+file+"\x00" || !IsCommit(words[2]) {
		return nil, false, fault.New("GIT_FAILED", "git ls-tree printed something unexpected")
	}
	if words[0] != "100644" && words[0] != "100755" {
		return nil, false, fault.New("GIT_FAILED", "the path is not of a regular file in that commit")
	}
	var out bytes.Buffer
	exit, err := t.git.run(ctx, t.Root, &out, maxText, "cat-file", "blob", words[2])
	switch {
	case errors.Is(err, errTooMuch):
		return nil, false, fault.New("GIT_FAILED", "the file has more than %d MiB in that commit", maxText>>20)
	case err != nil:
		return nil, false, err
	case exit != 0:
		return nil, false, failed("cat-file", exit)
	}
	return out.Bytes(), true, nil
}
