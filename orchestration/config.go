package orchestration

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Settings are OpenCode's own configuration, which is looked at and never changed.
type Settings struct {
	Dirs    []string // folders of configuration: the user's
	Files   []string // single files of it
	Project string   // the folder from which on upwards a project has its own
}

// oldPackage is the npm package that this one replaces. Both define the same
// agents and the same tool.
const oldPackage = "opencode-herdr-orchestration"

// A token is a string in a text of JSON with comments.
type token struct {
	text string
	key  bool // of an object's member
}

// tokens returns the strings of the text. What is no JSON at all yields what can
// be found.
func tokens(text []byte) (list []token) {
	for i := 0; i < len(text); {
		if rest := skip(text[i:]); rest > 0 {
			i += rest
			continue
		}
		if text[i] != '"' {
			i++
			continue
		}
		end := i + 1
		for end < len(text) && text[end] != '"' && text[end] != '\n' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end+1, len(text))
		var t token
		if json.Unmarshal(text[i:end], &t.text) == nil {
			after := end
			for after < len(text) {
				n := skip(text[after:])
				if n == 0 {
					break
				}
				after += n
			}
			t.key = after < len(text) && text[after] == ':'
			list = append(list, t)
		}
		i = end
	}
	return list
}

// skip returns how long the blank space or the comment is with which text begins.
func skip(text []byte) int {
	switch two := string(text[:min(len(text), 2)]); {
	case two == "":
		return 0
	case strings.ContainsAny(two[:1], " \t\r\n"):
		return 1
	case two == "//":
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			return i
		}
		return len(text)
	case two == "/*":
		if i := bytes.Index(text[2:], []byte("*/")); i >= 0 {
			return i + 4
		}
		return len(text)
	}
	return 0
}

// upwards returns the folders in which OpenCode looks for a project's files: the
// one where it starts, and those above it up to a repository's root.
func (s Settings) upwards() (dirs []string) {
	if s.Project == "" {
		return nil
	}
	for dir := s.Project; ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil || filepath.Dir(dir) == dir {
			return dirs
		}
	}
}

// files returns the configuration files that are there, the user's alone or
// the project's, too.
func (s Settings) files(project bool) (list []string) {
	add := func(dir string) {
		for _, name := range []string{"opencode.json", "opencode.jsonc", "config.json"} {
			list = append(list, filepath.Join(dir, name))
		}
	}
	for _, dir := range s.Dirs {
		add(dir)
	}
	list = append(list, s.Files...)
	if project {
		for _, dir := range s.upwards() {
			add(dir)
			add(filepath.Join(dir, ".opencode"))
		}
	}
	return slices.DeleteFunc(list, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || !info.Mode().IsRegular()
	})
}

// conflicts says what is configured that does not go with these files.
func (s Settings) conflicts() (old []string, doubles []string) {
	for _, path := range s.files(false) {
		text, err := readFile(path)
		if err != nil {
			continue // OpenCode cannot read it either
		}
		list := tokens(text)
		for i, t := range list {
			switch {
			case t.text == oldPackage || strings.HasPrefix(t.text, oldPackage+"@") || strings.Contains(t.text, "/"+oldPackage):
				old = append(old, path)
			case t.text == "--toolsets" && i+1 < len(list) && slices.Contains(strings.Split(list[i+1].text, ","), "response"):
				doubles = append(doubles, path)
			}
		}
	}
	return slices.Compact(old), slices.Compact(doubles)
}

// overriding returns the files in which something is set for that agent, the
// project's among them: they can loosen any rule.
func (s Settings) overriding(name string) (paths []string) {
	dirs := slices.Clone(s.Dirs)
	for _, dir := range s.upwards() {
		dirs = append(dirs, filepath.Join(dir, ".opencode"))
	}
	for _, dir := range dirs {
		for _, folder := range []string{"agent", "agents", "mode", "modes"} {
			path := filepath.Join(dir, folder, name+".md")
			if _, err := os.Stat(path); err == nil {
				paths = append(paths, path)
			}
		}
	}
	for _, path := range s.files(true) {
		text, err := readFile(path)
		if err == nil && slices.Contains(tokens(text), token{name, true}) {
			paths = append(paths, path)
		}
	}
	return paths
}
