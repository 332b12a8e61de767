package hosts

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A Machine is where hosts are looked for.
type Machine struct {
	Getenv func(string) string
	Home   string
	Dir    string // of the project; "" if this process is in a folder that is gone
	OS     string // as runtime.GOOS

	beforeRename func() // for tests: what happens just before a file is replaced
}

// Here is the machine that this process runs on, with that environment.
func Here(getenv func(string) string) (Machine, error) {
	m := Machine{Getenv: getenv, OS: runtime.GOOS}
	if m.Home = getenv("HOME"); m.OS == "windows" {
		m.Home = getenv("USERPROFILE")
	}
	if !filepath.IsAbs(m.Home) {
		return m, errors.New("the home folder is not known: set HOME (on Windows USERPROFILE)")
	}
	m.Dir, _ = os.Getwd()
	return m, nil
}

// pick returns the path that counts of the candidates, or "".
func (m Machine) pick(p paths) string {
	candidates := p.all
	if m.OS == "darwin" && p.darwin != nil {
		candidates = p.darwin
	}
	if m.OS == "windows" && p.windows != nil {
		candidates = p.windows
	}
	for _, c := range candidates {
		c, must := strings.CutPrefix(c, "?")
		path := c
		if rest, ok := strings.CutPrefix(c, "~/"); ok {
			path = filepath.Join(m.Home, filepath.FromSlash(rest))
		} else if strings.HasPrefix(c, "$") {
			name, rest, _ := strings.Cut(c[1:], "/")
			value := m.Getenv(name)
			if !filepath.IsAbs(value) {
				continue
			}
			path = filepath.Join(value, filepath.FromSlash(rest))
		}
		if must && !exists(path) {
			continue
		}
		return path
	}
	return ""
}

// named returns the absolute paths that variables of the host name.
func (m Machine) named(h Host) (all []string) {
	for _, p := range []paths{h.folder, h.file} {
		for _, c := range slices.Concat(p.all, p.darwin, p.windows) {
			if c = strings.TrimPrefix(c, "?"); strings.HasPrefix(c, "$") {
				name, _, _ := strings.Cut(c[1:], "/")
				if value := m.Getenv(name); filepath.IsAbs(value) {
					all = append(all, value)
				}
			}
		}
	}
	return all
}

// inProject is pick for paths from the project's folder on.
func (m Machine) inProject(candidates []string) string {
	if m.Dir == "" {
		return ""
	}
	for _, c := range candidates {
		c, must := strings.CutPrefix(c, "?")
		if path := filepath.Join(m.Dir, filepath.FromSlash(c)); !must || exists(path) {
			return path
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Found reports whether the host is on this machine: one of its programs is on
// PATH, or its folder or file is there.
func (m Machine) Found(h Host) bool {
	if h.Why != "" {
		return false
	}
	if m.program(h.programs) != "" {
		return true
	}
	for _, p := range []paths{h.folder, h.file} {
		if path := m.pick(p); path != "" && exists(path) {
			return true
		}
	}
	return false
}

// program returns the path of the first of the programs that is on PATH, or "".
func (m Machine) program(names []string) string {
	for _, name := range names {
		for _, dir := range filepath.SplitList(m.Getenv("PATH")) {
			if !filepath.IsAbs(dir) {
				continue
			}
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path
			}
		}
	}
	return ""
}

// Stays says why a program's path is not one to be kept in a configuration: it
// is in a folder for temporary files or in a cache. "" means that it stays.
func (m Machine) Stays(program string) string {
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return "it cannot be read"
	}
	for _, path := range []string{program, real} {
		for part := range strings.SplitSeq(filepath.ToSlash(path), "/") {
			switch {
			case part == "_npx":
				return "it is in the cache of npx"
			case strings.HasPrefix(part, "go-build"):
				return "it is in the cache of Go"
			case part == ".cache" || part == "Caches" || part == "npm-cache":
				return "it is in a cache"
			}
		}
		for _, dir := range m.temporary() {
			if inside(path, dir) {
				return "it is in a folder for temporary files"
			}
		}
	}
	return ""
}

func (m Machine) temporary() []string {
	var dirs []string
	names := []string{"TMPDIR"}
	if m.OS == "windows" {
		names = []string{"TMP", "TEMP"}
	}
	for _, name := range names {
		if dir := m.Getenv(name); filepath.IsAbs(dir) {
			dirs = append(dirs, dir)
		}
	}
	if m.OS == "darwin" || len(dirs) == 0 && m.OS != "windows" {
		dirs = append(dirs, "/tmp")
	}
	for _, dir := range dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dirs = append(dirs, real)
		}
	}
	return dirs
}

func inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
