package hosts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	Entry   *Entry   `json:"entry,omitempty"` // of ours; File is the adapter's if it stands beside one
	Remarks []string `json:"remarks,omitempty"`

	entry   map[string]any // ours, in the host's file
	adapter bool           // ours is there
	program string         // that one of the two starts
	gone    bool           // and that is not there
	doubled bool           // one of the remarks is about a second registration
}

// An Entry is what our entry in a host's file says of its server.
type Entry struct {
	File       string   `json:"file"`
	Toolsets   []string `json:"toolsets"`
	CallerRole string   `json:"caller_role,omitempty"`
}

func (e Entry) String() string {
	text := "toolsets " + strings.Join(e.Toolsets, ", ")
	if len(e.Toolsets) == 1 {
		text = "toolset " + e.Toolsets[0]
	}
	if e.CallerRole != "" {
		text += "; caller role " + e.CallerRole
	}
	return text
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
	if h.adapter != nil {
		if file, err := m.place(h.adapter.file, h.adapter.project, o); err == nil {
			text, err := read(file)
			if err == nil {
				version, mine := adapters.Mark(text)
				s.File, s.State = file, "current"
				if s.adapter = mine; mine {
					s.program = adapters.Program(text)
				}
				if !mine {
					s.State = "foreign"
				} else if version != o.Version {
					s.State = "old"
					remark("the adapter is of version %s", version)
				}
				if s.gone = mine && missing(s.program); s.gone {
					s.State = "old"
					remark("its program is not there: %s", s.program)
				}
			}
		}
	}
	file, err := m.place(h.file, h.project, o)
	if err != nil {
		remark("%v", err)
		return s
	}
	text, err := read(file)
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
		s.doubled = true
		remark("%s, in %s", secondEntry, file)
	}
	if !found {
		return s
	}
	if ours(v) {
		s.entry = v.(map[string]any)
		s.Entry = &Entry{file, toolsetsOf(s.entry), roleOf(s.entry)}
	}
	if s.adapter {
		if s.entry == nil || offersLink(s.entry) {
			s.doubled = true
			remark("there is an entry beside the adapter, in %s", file)
			return s
		}
		for _, problem := range outdated(h, s.entry) {
			s.State, s.gone = "old", s.gone || missing(commandOf(s.entry)[0])
			remark("its entry: %s", problem)
		}
		return s
	}
	s.File = file
	if s.entry == nil {
		s.State = "foreign"
		return s
	}
	s.State, s.program = "current", commandOf(s.entry)[0]
	s.gone = missing(s.program)
	for _, problem := range outdated(h, s.entry) {
		s.State = "old"
		remark("%s", problem)
	}
	return s
}

// maxFile is more than any host's configuration has, in bytes.
const maxFile = 64 << 20

// read reads a file that anybody may have put there: only a regular one, so
// that it comes to an end.
func read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &fileError{file, errors.New("it is not a regular file")}
	case info.Size() > maxFile:
		return nil, &fileError{file, errors.New("it is too large to be read")}
	}
	return os.ReadFile(file)
}

// missing reports whether a program's absolute path leads to none.
func missing(program string) bool {
	info, err := os.Stat(program)
	return filepath.IsAbs(program) && (err != nil || info.IsDir())
}

// outdated says what is wrong with an entry of ours.
func outdated(h Host, e map[string]any) (problems []string) {
	words := commandOf(e)
	if missing(words[0]) {
		problems = append(problems, "its program is not there: "+words[0])
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
