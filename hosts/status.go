package hosts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"herdr-link/adapters"
)

// Status is how it is with one host.
type Status struct {
	Host    string   `json:"host"`
	Title   string   `json:"title"`
	Found   bool     `json:"found"`
	State   string   `json:"state"` // absent, current, old, foreign, unreadable, unsupported
	File    string   `json:"file,omitempty"`
	Refresh string   `json:"refreshes_tools,omitempty"`
	Remarks []string `json:"remarks,omitempty"`
}

// Status looks at the host's files. With o.Project these are the project's.
func (m Machine) Status(h Host, o Options) Status {
	s := Status{Host: h.Name, Title: h.Title, Found: m.Found(h), State: "absent", Refresh: h.refresh}
	remark := func(format string, args ...any) { s.Remarks = append(s.Remarks, fmt.Sprintf(format, args...)) }
	if h.Why != "" {
		s.State = "unsupported"
		remark("%s", h.Why)
		return s
	}
	adapted := false
	if h.adapter != nil {
		if file, err := m.place(h.adapter.file, h.adapter.project, o); err == nil {
			text, err := os.ReadFile(file)
			if err == nil {
				version, mine := adapters.Mark(text)
				s.File = file
				switch adapted = mine; {
				case !mine:
					s.State = "foreign"
				case version != o.Version:
					s.State = "old"
					remark("the adapter is of version %s", version)
				default:
					s.State = "current"
				}
			}
		}
	}
	file, err := m.place(h.file, h.project, o)
	if err != nil {
		remark("%v", err)
		return s
	}
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s
	case err != nil:
		s.State, s.File = "unreadable", file
		remark("%v", err)
		return s
	}
	k := editorOf(h.format)
	v, found, err := k.get(text, h.entryPath())
	if err != nil {
		s.State, s.File = "unreadable", file
		remark("%v", err)
		return s
	}
	if _, second, err := k.get(text, append(slices.Clone(h.path), "herdr-link")); err == nil && second {
		remark("%s, in %s", secondEntry, file)
	}
	if !found {
		return s
	}
	if adapted {
		remark("there is an entry beside the adapter, in %s", file)
		return s
	}
	s.File = file
	if !ours(v) {
		s.State = "foreign"
		return s
	}
	s.State = "current"
	for _, problem := range m.outdated(h, o, v.(map[string]any)) {
		s.State = "old"
		remark("%s", problem)
	}
	return s
}

// outdated says what is wrong with an entry of ours.
func (m Machine) outdated(h Host, o Options, e map[string]any) (problems []string) {
	words := commandOf(e)
	if filepath.IsAbs(words[0]) {
		if info, err := os.Stat(words[0]); err != nil || info.IsDir() {
			problems = append(problems, "its program is not there: "+words[0])
		}
	}
	if h.onlyOnce() && !slices.Contains(words, "--eager") {
		problems = append(problems, "--eager is missing: the host lists tools only once")
	}
	want, _ := plain(h.form(Command{})).(map[string]any)
	for _, name := range []string{"env_vars", "env", "exposure"} {
		if !covers(e[name], want[name]) {
			problems = append(problems, name+" is not as it should be")
		}
	}
	return problems
}

// covers reports whether all that want has is in v.
func covers(v, want any) bool {
	switch want := want.(type) {
	case nil:
		return true
	case []any:
		l, _ := v.([]any)
		return !slices.ContainsFunc(want, func(w any) bool { return !slices.Contains(l, w) })
	case map[string]any:
		m, _ := v.(map[string]any)
		for k, w := range want {
			if m[k] != w {
				return false
			}
		}
		return true
	}
	return v == want
}
