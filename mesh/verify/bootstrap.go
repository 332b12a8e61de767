package verify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"herdr-link/mesh/git"
	"herdr-link/mesh/sandbox"
)

const (
	bootstrapTime = 900 * time.Second
	// maxLock is the most that a lock file may have, in bytes.
	maxLock = 4 << 20
)

// What of web says which packages are fetched, and from where.
const (
	webPackage = "web/package.json"
	webLock    = "web/package-lock.json"
	webConfig  = "web/.npmrc"
	webOther   = "web/npm-shrinkwrap.json" // npm would take it for the lock
)

// A fetch is a command with the network.
type fetch struct {
	step sandbox.Step
	argv []string
	code string // of its failure
}

// bootstrap fetches what the gate needs and the sandbox does not have, by lock
// files that can be trusted (mesh.md §6.3). All of them are looked at before the
// first command has the network.
func (r *run) bootstrap(ctx context.Context, scratch *sandbox.Scratch) *ending {
	tree, err := r.git.Open(ctx, r.record.Worktree)
	if err != nil {
		return void("CONTENT_CHANGED")
	}
	root, err := os.OpenRoot(tree.Root)
	if err != nil {
		return void("CONTENT_CHANGED")
	}
	defer root.Close()
	var all []fetch
	if r.record.SelectedGate == "check-fast" && lacksWeb(root) {
		if !r.q.Web {
			return preflight("WEB_DEPS_MISSING")
		}
		if !trustedWeb(ctx, tree, root, r.record.BaseCommit) {
			return preflight("WEB_LOCK_UNTRUSTED")
		}
		step := r.step
		step.Kind = sandbox.Web
		node := "node@" + cmp.Or(step.Node, sandbox.DefaultNode)
		all = append(all, fetch{step, []string{"mise", "exec", node, "--", "npm", "--prefix", "web", "ci", "--ignore-scripts"}, "WEB_BOOTSTRAP_FAILED"})
	}
	for _, name := range r.q.Locks {
		text, code := trustedLock(ctx, tree, root, r.record.BaseCommit, name)
		if code != "" {
			return preflight(code)
		}
		step := r.step
		step.Kind = sandbox.Python
		if step.Lock, err = writeLock(scratch, name, text); err != nil {
			return preflight("STATE_IO")
		}
		target := sha256.Sum256([]byte(name))
		all = append(all, fetch{step, []string{
			"uv", "pip", "install", "--require-hashes", "--no-build", "--no-config", "--target", "/gate-home/python-bootstrap/" + hex.EncodeToString(target[:]),
			"--requirements", "/gate-inputs/" + filepath.Base(step.Lock),
		}, "PY_BOOTSTRAP_FAILED"})
	}
	for _, f := range all {
		result, end := r.command(ctx, f.step, bootstrapTime, preflightFailed, f.argv...)
		if end != nil {
			return end
		}
		if end := judge(result, f.code); end.state != passed {
			return end
		}
	}
	return nil
}

// lacksWeb reports whether web has packages that are not installed.
func lacksWeb(root *os.Root) bool {
	if lock, err := root.Lstat(webLock); err != nil || !lock.Mode().IsRegular() {
		return false
	}
	tsc, err := root.Stat("web/node_modules/.bin/tsc")
	return err != nil || !tsc.Mode().IsRegular() || tsc.Mode()&0o111 == 0
}

// trustedWeb reports whether npm would fetch what was committed, pinned, and from
// where the base commit says.
func trustedWeb(ctx context.Context, tree *git.Tree, root *os.Root, base string) bool {
	manifest := func(folder string) ([]byte, error) { return plainFile(root, path.Join("web", folder, "package.json")) }
	for _, name := range []string{webPackage, webLock} {
		text, err := plainFile(root, name)
		committed, found, err2 := tree.Show(ctx, "HEAD", name)
		if err != nil || err2 != nil || !found || !bytes.Equal(text, committed) || name == webLock && !pinnedWeb(text, manifest) {
			return false
		}
	}
	if _, err := root.Lstat(webOther); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	text, err := plainFile(root, webConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	committed, found, err2 := tree.Show(ctx, base, webConfig)
	return err == nil && err2 == nil && found && bytes.Equal(text, committed)
}

// trustedLock returns the base commit's content of a Python lock that is the
// worktree's, too, or why not.
func trustedLock(ctx context.Context, tree *git.Tree, root *os.Root, base, name string) (text []byte, code string) {
	text, err := plainFile(root, name)
	committed, found, err2 := tree.Show(ctx, base, name)
	switch {
	case err != nil || err2 != nil || !found || !bytes.Equal(text, committed):
		return nil, "PY_LOCK_DRIFT"
	case !pinnedPython(committed):
		return nil, "PY_LOCK_UNPINNED"
	}
	return committed, ""
}

var errNotPlain = errors.New("it is no regular file of a possible size, or behind a link")

// plainFile reads a regular file, if no part of its path is a link.
func plainFile(root *os.Root, name string) ([]byte, error) {
	for i, c := range name + "/" {
		if c != '/' {
			continue
		}
		info, err := root.Lstat(name[:i])
		if err != nil {
			return nil, err
		}
		if i < len(name) && !info.IsDir() || i == len(name) && (!info.Mode().IsRegular() || info.Size() > maxLock) {
			return nil, errNotPlain
		}
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxLock+1))
	if err == nil && len(text) > maxLock {
		err = errNotPlain
	}
	return text, err
}

// writeLock makes the copy of a lock that a command gets.
func writeLock(scratch *sandbox.Scratch, name string, text []byte) (file string, err error) {
	sum := sha256.Sum256(slices.Concat([]byte(name), []byte{0}, text))
	file = filepath.Join(scratch.Inputs, hex.EncodeToString(sum[:])+"-requirements.lock")
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	return file, errors.Join(err, f.Close())
}
