package response

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// isUUID reports whether id is one, and so can be part of a file's name.
func isUUID(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i, c := range []byte(id) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)) {
			return false
		}
	}
	return true
}

// folder returns the folder that a variable names, else that one in the home;
// "" if there is none.
func (r *Reader) folder(variable, inHome string) string {
	dir := r.getenv(variable)
	if dir == "" && r.home != "" {
		dir = filepath.Join(r.home, inHome)
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}

// openRoot opens the folder below which all transcripts of a host are.
func openRoot(dir, sub string) (*os.Root, error) {
	if dir == "" {
		return nil, errNoSession
	}
	root, err := os.OpenRoot(filepath.Join(dir, sub))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoSession
	}
	return root, err
}

// openClaude opens the transcript of a session: projects/FOLDER/ID.jsonl, where
// the folder is made of the path in which Claude Code runs, in a way that
// depends on its version. If there are several, the last that was written.
func (r *Reader) openClaude(id string) (*os.File, error) {
	if !isUUID(id) {
		return nil, errNoSession
	}
	root, err := openRoot(r.folder("CLAUDE_CONFIG_DIR", ".claude"), "projects")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	folders, err := names(root)
	if err != nil {
		return nil, err
	}
	name := id + ".jsonl"
	var in string
	var newest fs.FileInfo
	for _, folder := range folders {
		info, err := root.Lstat(filepath.Join(folder, name))
		if err != nil || !info.Mode().IsRegular() || newest != nil && !info.ModTime().After(newest.ModTime()) {
			continue
		}
		if dir, err := root.Lstat(folder); err == nil && dir.IsDir() { // no link to one
			in, newest = folder, info
		}
	}
	if newest == nil {
		return nil, errNoSession
	}
	return openIn(root, in, name)
}

// openCodex opens the rollout of a session:
// sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl. Newer days come first.
func (r *Reader) openCodex(id string) (*os.File, error) {
	if !isUUID(id) {
		return nil, errNoSession
	}
	root, err := openRoot(r.folder("CODEX_HOME", ".codex"), "sessions")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	compressed := false
	var find func(at *os.Root, depth int) (*os.File, error)
	find = func(at *os.Root, depth int) (*os.File, error) {
		all, err := names(at)
		if err != nil {
			return nil, err
		}
		slices.Sort(all)
		for _, name := range slices.Backward(all) {
			if depth == 0 {
				rest, ok := strings.CutPrefix(name, "rollout-")
				switch {
				case ok && strings.HasSuffix(rest, "-"+id+".jsonl"):
					return openIn(at, name)
				case ok && strings.HasSuffix(rest, "-"+id+".jsonl.zst"):
					compressed = true
				}
				continue
			}
			if strings.Trim(name, "0123456789") != "" {
				continue
			}
			sub, err := enter(at, name)
			if err != nil {
				continue
			}
			f, err := find(sub, depth-1)
			_ = sub.Close()
			if f != nil || err != nil {
				return f, err
			}
		}
		return nil, nil
	}
	f, err := find(root, 3)
	switch {
	case f != nil || err != nil:
		return f, err
	case compressed:
		return nil, errCompressed
	}
	return nil, errNoSession
}

func names(root *os.Root) ([]string, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// errLink is a symbolic link, or a file that is none.
var errLink = errors.New("not a regular file below regular folders")

// enter opens a folder that is no symbolic link.
func enter(root *os.Root, name string) (*os.Root, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	sub, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if now, err := sub.Stat("."); err != nil || !os.SameFile(before, now) { // replaced meanwhile
		_ = sub.Close()
		return nil, errLink
	}
	return sub, nil
}

// openIn opens a regular file below the root by the names of the path to it,
// none of which may be a symbolic link.
func openIn(root *os.Root, path ...string) (*os.File, error) {
	for len(path) > 1 {
		sub, err := enter(root, path[0])
		if err != nil {
			return nil, err
		}
		defer sub.Close()
		root, path = sub, path[1:]
	}
	before, err := root.Lstat(path[0])
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, errLink
	}
	f, err := root.OpenFile(path[0], os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(before, now) {
		_ = f.Close()
		return nil, errLink
	}
	return f, nil
}
