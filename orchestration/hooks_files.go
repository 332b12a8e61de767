package orchestration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// manifestName is the file beside the hooks that says what was written. It has
// the form of Git's own configuration, so that the script can ask it with git
// for the previous hooks path, byte by byte.
const manifestName = "manifest"

// A manifest is what Install and InstallSession have to remember.
type manifest struct {
	session  bool              // sessions use the hooks
	previous *string           // the global core.hooksPath that was there, as it was written; nil: none
	replaced []string          // the values in the very file that was changed, for Uninstall
	digests  map[string]string // SHA-256 of each hook, hexadecimal
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// encode writes the manifest for hooks that are all the script of this version.
func (m manifest) encode() []byte {
	var b bytes.Buffer
	b.WriteString("# What herdr-link hooks install has written here. Git reads it.\n[herdr-link]\n\tschema = 1\n")
	if m.session {
		b.WriteString("\tsession = true\n")
	}
	if m.previous != nil {
		fmt.Fprintf(&b, "\tprevious = %s\n", quote(*m.previous))
	}
	for _, v := range m.replaced {
		fmt.Fprintf(&b, "\treplaced = %s\n", quote(v))
	}
	sum := digest(hookScript)
	for _, name := range hookNames {
		fmt.Fprintf(&b, "[herdr-link %s]\n\tsha256 = %s\n", quote(name), sum)
	}
	return b.Bytes()
}

// quote writes a value as Git's configuration has it.
func quote(v string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(v) + `"`
}

// manifest reads the manifest; without a file it is empty.
func (h Hooks) manifest(ctx context.Context) (m manifest, err error) {
	file := h.path(manifestName)
	m.digests = map[string]string{}
	if info, err := os.Lstat(file); err != nil {
		return m, nil
	} else if !info.Mode().IsRegular() { // git would wait for a pipe
		return m, fmt.Errorf("%s is no regular file", file)
	}
	out, err := h.git(ctx, h.outside(), "config", "--file", file, "--null", "--list")
	if err != nil {
		return m, fmt.Errorf("%s cannot be read: %w", file, err)
	}
	ours := false
	for entry := range strings.SplitSeq(string(out), "\x00") {
		key, value, _ := strings.Cut(entry, "\n")
		switch key {
		case "herdr-link.schema":
			ours = value == "1"
		case "herdr-link.session":
			m.session = value == "true"
		case "herdr-link.previous":
			m.previous = &value
		case "herdr-link.replaced":
			m.replaced = append(m.replaced, value)
		default:
			name, of := strings.CutPrefix(key, "herdr-link.")
			if name, is := strings.CutSuffix(name, ".sha256"); of && is {
				m.digests[name] = value
			}
		}
	}
	if !ours {
		return m, fmt.Errorf("%s is not a manifest of this version of herdr-link", file)
	}
	return m, nil
}

// written reports whether that text was written by us: as the manifest says, or
// as this version writes it.
func (m manifest) written(name string, text []byte) bool {
	sum := digest(text)
	return sum == m.digests[name] || sum == digest(hookScript)
}

// intact reports whether every hook is there as it was written.
func (h Hooks) intact(m manifest) bool {
	for _, name := range hookNames {
		text, err := readFile(h.path(name))
		if err != nil || !runnable(h.path(name)) || digest(text) != m.digests[name] {
			return false
		}
	}
	return true
}

// A change is a file that was written, and how it was before, or a folder that was
// made.
type change struct {
	path   string
	folder bool
	old    []byte // nil: there was none
	mode   fs.FileMode
	backup string // a copy that is kept, or ""
}

type journal []change

// undo brings back how it was.
func (j journal) undo() (err error) {
	for _, c := range slices.Backward(j) {
		switch {
		case c.folder:
			_ = os.Remove(c.path) // not if somebody has put something there
		case c.old == nil:
			err = errors.Join(err, os.Remove(c.path))
		default:
			err = errors.Join(err, replace(c.path, c.old, c.mode))
		}
		if c.backup != "" {
			err = errors.Join(err, os.Remove(c.backup))
		}
	}
	return err
}

// write writes the hooks, and the manifest at the end. A hook that somebody has
// changed is copied before. On an error nothing is written.
func (h Hooks) write(m manifest) (j journal, err error) {
	for dir := h.Dir; !exists(dir) && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		j = append(j, change{path: dir, folder: true})
	}
	slices.Reverse(j) // the outer ones first, as they are made
	if err := os.MkdirAll(h.Dir, 0o755); err != nil {
		return nil, errors.Join(err, j.undo())
	}
	for _, name := range hookNames {
		if err = h.put(&j, name, hookScript, 0o755, func(old []byte) bool { return !m.written(name, old) }); err != nil {
			break
		}
	}
	if err == nil {
		err = h.put(&j, manifestName, m.encode(), 0o644, func([]byte) bool { return false })
	}
	if err != nil {
		return nil, errors.Join(err, j.undo())
	}
	return j, nil
}

// rewrite writes the manifest alone.
func (h Hooks) rewrite(m manifest) error {
	var j journal
	return h.put(&j, manifestName, m.encode(), 0o644, func([]byte) bool { return false })
}

// put makes a file what it shall be, if it is not so already.
func (h Hooks) put(j *journal, name string, text []byte, mode fs.FileMode, keep func(old []byte) bool) error {
	c := change{path: h.path(name)}
	info, err := os.Lstat(c.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", c.path)
	default:
		c.mode = info.Mode().Perm()
		if c.old, err = readFile(c.path); err != nil {
			return err
		}
		if bytes.Equal(c.old, text) && (c.mode == mode || runtime.GOOS == "windows") {
			return nil
		}
		if keep(c.old) {
			c.backup = c.path + ".backup-" + time.Now().UTC().Format("20060102T150405Z")
			if err := replace(c.backup, c.old, c.mode); err != nil {
				return err
			}
		}
	}
	if err := replace(c.path, text, mode); err != nil {
		if c.backup != "" {
			err = errors.Join(err, os.Remove(c.backup))
		}
		return err
	}
	*j = append(*j, c)
	return nil
}

// replace puts a file with that text and mode in the place of path.
func replace(path string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".herdr-link-*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// remove removes what was written and is unchanged, and returns what has been
// changed since.
func (h Hooks) remove(m manifest) (kept []string, err error) {
	for _, name := range hookNames {
		info, failed := os.Lstat(h.path(name))
		if errors.Is(failed, fs.ErrNotExist) {
			continue
		}
		var text []byte
		if failed == nil && info.Mode().IsRegular() {
			text, failed = readFile(h.path(name))
		}
		if failed != nil || text == nil || !m.written(name, text) {
			kept = append(kept, h.path(name))
			continue
		}
		err = errors.Join(err, os.Remove(h.path(name)))
	}
	if err != nil {
		return kept, err
	}
	if err := os.Remove(h.path(manifestName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return kept, err
	}
	h.removeEmpty()
	return kept, nil
}

// removeEmpty removes the hooks folder and herdr-link's folder around it, each
// only if nothing is in it.
func (h Hooks) removeEmpty() {
	for _, dir := range []string{h.Dir, filepath.Dir(h.Dir)} {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() || os.Remove(dir) != nil {
			return
		}
	}
}
