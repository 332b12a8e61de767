// Package hosts knows where agent hosts keep their MCP servers, and puts
// herdr-link there and away again: a row a host, and an editor for each kind of
// file.
//
// It changes files and nothing else. It starts no host and no server, and what
// a server does is no concern of it.
package hosts

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"herdr-link/adapters"
)

// Options say what install writes.
type Options struct {
	Program    string // path of this program, as it was called
	Version    string
	NPX        bool // start it by npx
	Project    bool // in the project's file, with the program's bare name
	MCP        bool // an entry also where an adapter is better
	Allow      bool // and the permission for all tools but close
	Hint       bool // and the hint at the start of a session
	Force      bool // replace what is not ours
	Toolsets   string
	CallerRole string
	DryRun     bool

	// What a hand edit of the entry has set, and is to stay.
	responseHosts, maxSession, era string
	noClose                        bool
}

// A Report says what became of one host.
type Report struct {
	Host string
	Done string // one line, without the host's name
	Diff string // of a dry run
	Err  error  // nothing was changed in the file that it names
	Fix  []Part // to be pasted, if there is an error
}

// errForeign is an entry or file that is not ours.
var errForeign = errors.New("what is there under our name is not ours (--force replaces it)")

// errNoMCP is a host for which an entry does nothing.
var errNoMCP = errors.New("this version has no MCP, which came with 1.6: there is only the extension, without other toolsets (herdr-link install pi)")

// A fileError is an error with the file that it is about.
type fileError struct {
	file string
	err  error
}

func (e *fileError) Error() string {
	var p *fs.PathError
	var f *fileError
	if errors.As(e.err, &p) || errors.As(e.err, &f) {
		return e.err.Error() // names the file
	}
	return e.file + ": " + e.err.Error()
}

func (e *fileError) Unwrap() error { return e.err }

type edit func(text []byte) ([]byte, error)

// Edits are what is to be done to each file, in order.
type edits struct {
	files []string
	of    map[string][]edit
}

func (e *edits) add(file string, f edit) {
	if e.of == nil {
		e.of = map[string][]edit{}
	}
	if _, ok := e.of[file]; !ok {
		e.files = append(e.files, file)
	}
	e.of[file] = append(e.of[file], f)
}

// drafts reads all files and makes all edits, so that an error in one comes
// before another is changed.
func (e *edits) drafts(o Options, end func(d *draft, text []byte) ([]byte, error)) (all []*draft, err error) {
	for _, file := range e.files {
		d := &draft{mode: 0o600, folder: 0o700, keep: true}
		if o.Project {
			d.mode, d.folder = 0o644, 0o755
		}
		if d.path, err = target(file); err != nil {
			return nil, err
		}
		d.linked = d.path != file
		d.steps = e.of[file]
		d.edit = func(text []byte) ([]byte, error) {
			out, err := d.run(text)
			if err != nil {
				return nil, err
			}
			return end(d, out)
		}
		if err := d.read(); err != nil {
			return nil, &fileError{file, err}
		}
		if _, ours := adapters.Mark(d.old); ours {
			d.keep = false // it can be made again
		}
		all = append(all, d)
	}
	return all, nil
}

// A kind is an editor for one kind of file.
type kind struct {
	get    func([]byte, []string) (any, bool, error)
	set    func([]byte, []string, object) ([]byte, error)
	remove func([]byte, []string) ([]byte, error)
}

func editorOf(format string) kind {
	switch format {
	case "toml":
		return kind{getTOML, setTOML, removeTOML}
	case "yaml":
		return kind{getYAML, setYAML, removeYAML}
	}
	return kind{getJSON, func(text []byte, path []string, v object) ([]byte, error) { return setJSON(text, path, v) }, removeJSON}
}

func (h Host) entryPath() []string { return append(slices.Clone(h.path), key) }

func (m Machine) place(user paths, project []string, o Options) (string, error) {
	if !o.Project {
		if path := m.pick(user); path != "" {
			return path, nil
		}
		return "", errors.New("a variable that says where its files are is not set")
	}
	if m.Dir == "" {
		return "", errors.New("this folder is not there any more")
	}
	if path := m.inProject(project); len(project) > 0 && path != "" {
		return path, nil
	}
	return "", errors.New("it has no file of its own in a project")
}

// viaAdapter reports whether the host gets an adapter instead of an entry. An
// adapter starts this very program, with nothing else to say.
func (h Host) viaAdapter(o Options) bool {
	return h.adapter != nil && !o.MCP && !o.NPX && o.Toolsets == ""
}

// command is what starts the server.
func (o Options) command(os string) Command {
	switch {
	case o.NPX && os == "windows": // npx is a script there
		return Command{"cmd", []string{"/c", "npx", "-y", "herdr-link@" + o.Version}}
	case o.NPX:
		return Command{"npx", []string{"-y", "herdr-link@" + o.Version}}
	case o.Project:
		return Command{"herdr-link", nil}
	}
	return Command{o.Program, nil}
}

// A permit says how the host's questions are dealt with.
type permit struct {
	rules  bool // the host is told not to ask
	closed bool // the gateway closes nothing: it may be called without a question
}

// entry is what stands in the host's file.
func (h Host) entry(o Options, os string, p permit) object {
	c := o.command(os)
	add := func(args ...string) { c.Args = append(c.Args, args...) }
	if h.onlyOnce() {
		add("--eager")
	}
	add(o.options()...)
	if p.closed || o.noClose && h.grant == nil { // without a grant this is the user's choice
		add("--no-gateway-close")
	}
	e := h.form(c)
	if p.rules && h.grant.field != "" {
		e = append(e, member{h.grant.field, words(granted...)})
	}
	return e
}

// A Part is what belongs into one file.
type Part struct {
	File string
	Text string // as if the file had nothing else
}

// Print returns what Install would write, were there no files.
func (m Machine) Print(h Host, o Options) (parts []Part, err error) {
	if h.Why != "" {
		return nil, errors.New(h.Why)
	}
	allowed := o.Allow && h.grants(o)
	e, err := m.wanted(h, o, permit{allowed, allowed}, o.Hint)
	if err != nil {
		return nil, err
	}
	for _, file := range e.files {
		text, err := (&draft{steps: e.of[file]}).run(nil)
		if err != nil {
			return nil, err
		}
		parts = append(parts, Part{file, string(text)})
	}
	return parts, nil
}

// Install registers herdr-link in the host, or renews what is there.
func (m Machine) Install(h Host, o Options) Report {
	r := Report{Host: h.Name}
	if h.Why != "" {
		r.Err = errors.New(h.Why)
		return r
	}
	with, was := m.settled(h, o)
	e, err := m.installEdits(h, o)
	var all []*draft
	if err == nil {
		all, err = e.drafts(o, emptied)
	}
	if err == nil {
		var foreign string
		unforced := o
		unforced.Force = false
		away := m.uninstallEdits(h, unforced, &foreign)
		for i, d := range all { // no copy of what is ours alone
			less, err := (&draft{steps: away.of[e.files[i]]}).run(d.old)
			d.keep = d.keep && !(err == nil && blank(less) && !blank(d.old))
		}
		err = r.apply(m, h, o, all)
	}
	if r.Err = err; err != nil {
		if !h.viaAdapter(o) {
			o = with // or what was kept were lost in pasting
		}
		if !errors.Is(err, errNoMCP) {
			r.Fix, _ = m.Print(h, o)
		}
		return r
	}
	m.tell(h, o, &r, all)
	for _, note := range with.chosen(h, o, was, all) {
		r.Done += "; " + note
	}
	return r
}

const secondEntry = "there is a second entry, called herdr-link"

// tell says what Install did.
func (m Machine) tell(h Host, o Options, r *Report, all []*draft) {
	var files []string
	fresh := false
	for _, d := range all {
		if d.changes() && d.new != nil {
			files = append(files, d.path)
		}
		fresh = fresh || d.changes()
	}
	switch {
	case !fresh:
		r.Done = "is there already: " + all[0].path
	case o.DryRun:
		r.Done = "would change " + strings.Join(files, ", ")
	default:
		r.Done = "written to " + strings.Join(files, ", ") + "; " + h.todo
	}
	if i := slices.IndexFunc(m.Status(h, o).Remarks, func(r string) bool { return strings.HasPrefix(r, secondEntry) }); i >= 0 {
		r.Done += "; " + m.Status(h, o).Remarks[i] + ": remove it"
	}
	if !o.Allow && fresh && m.asks(h, o) {
		r.Done += "; it asks before each call, unless --allow is given"
	}
	for _, note := range h.Idle(o) {
		r.Done += "; " + note
	}
	if o.Hint && !o.Project && h.Name == "codex" && fresh {
		r.Done += "; review the hook with /hooks"
	}
}

// Idle says which options do nothing for the host, and why.
func (h Host) Idle(o Options) (notes []string) {
	switch {
	case !o.Allow || h.grants(o):
	case h.grant != nil:
		notes = append(notes, "--allow is for the user's own files only")
	default:
		notes = append(notes, "--allow does nothing here: "+h.allow)
	}
	switch {
	case !o.Hint:
	case h.hook == nil:
		notes = append(notes, "--hint does nothing here")
	case o.Project:
		notes = append(notes, "--hint is for the user's own files only")
	}
	return notes
}

// apply makes the changes, or shows them.
func (r *Report) apply(m Machine, h Host, o Options, all []*draft) error {
	for _, d := range all {
		switch {
		case !d.changes():
		case o.DryRun:
			r.Diff += diff(d.path, d.old, d.new)
		default:
			before, after := d.old, d.new
			if err := d.write(m); err != nil {
				return &fileError{d.path, err}
			}
			if d.new == nil && !d.linked {
				m.prune(h, d.path)
			}
			d.old, d.new = before, after // for tell
		}
	}
	return nil
}

// prune removes the empty folders above a file that is gone: a host counts as
// found where they are. The home, the project, what a variable names and links
// stay.
func (m Machine) prune(h Host, file string) {
	ends := append(m.named(h), m.Home, m.config(), m.Dir)
	for i, dir := range ends {
		ends[i] = filepath.Clean(dir)
	}
	for dir := filepath.Dir(file); !slices.Contains(ends, dir); dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		below := slices.ContainsFunc(ends, func(end string) bool { return inside(dir, end) })
		if err != nil || !info.IsDir() || !below || os.Remove(dir) != nil { // not if something is in it
			return
		}
	}
}

// wanted are the edits that put herdr-link into the host.
func (m Machine) wanted(h Host, o Options, p permit, hint bool) (e edits, err error) {
	if h.viaAdapter(o) {
		return e, m.adapterEdit(h, o, &e)
	}
	file, err := m.place(h.file, h.project, o)
	if err != nil {
		return e, err
	}
	k := editorOf(h.format)
	e.add(file, func(text []byte) ([]byte, error) {
		v, found, err := k.get(text, h.entryPath())
		switch {
		case err != nil:
			return nil, err
		case found && ours(v):
			return h.renew(text, v.(map[string]any), o.keeping(v.(map[string]any)), m.OS, p)
		case found && !o.Force:
			return nil, errForeign
		case found:
			if text, err = k.remove(text, h.entryPath()); err != nil {
				return nil, err
			}
		}
		return k.set(text, h.entryPath(), h.entry(o, m.OS, p))
	})
	if p.rules {
		if err := m.grantEdit(h, o, file, &e); err != nil {
			return e, err
		}
	}
	if hint && h.hook != nil && !o.Project {
		m.hookEdit(h, o, &e)
	}
	return e, nil
}

func (m Machine) installEdits(h Host, o Options) (e edits, err error) {
	if !h.viaAdapter(o) && m.withoutMCP(h) {
		return e, errNoMCP
	}
	user := o
	user.Project = false
	allowed := h.grants(o) && (o.Allow || m.granted(h, o))
	e, err = m.wanted(h, o, permit{allowed, allowed || m.granted(h, user)}, o.Hint || m.hinted(h))
	if err != nil || h.adapter == nil {
		return e, err
	}
	if h.viaAdapter(o) { // one of both is enough
		return e, m.withoutEntry(h, o, &e)
	}
	if with, there := m.settled(h, o); !slices.Contains(with.toolsets(there), "link") {
		return e, nil // and each of both has what the other one lacks
	}
	if file, err := m.place(h.adapter.file, h.adapter.project, o); err == nil && exists(file) {
		e.add(file, func(text []byte) ([]byte, error) {
			if _, ours := adapters.Mark(text); ours {
				return nil, nil
			}
			return text, nil
		})
	}
	return e, nil
}

func (m Machine) adapterEdit(h Host, o Options, e *edits) error {
	file, err := m.place(h.adapter.file, h.adapter.project, o)
	if err != nil {
		return err
	}
	e.add(file, func(text []byte) ([]byte, error) {
		if _, ours := adapters.Mark(text); text != nil && !ours && !o.Force {
			return nil, errForeign
		}
		return h.adapter.text(o.command(m.OS).Program, o.Version), nil
	})
	return nil
}

// renew writes our entry over the one that is there.
func (h Host) renew(text []byte, was map[string]any, o Options, os string, p permit) ([]byte, error) {
	e, err := renewed(h.entry(o, os, p), was)
	if err != nil {
		return nil, err
	}
	return editorOf(h.format).set(text, h.entryPath(), e)
}

// withoutEntry takes our entry away, if there is one, but for the toolsets that
// the adapter has not.
func (m Machine) withoutEntry(h Host, o Options, e *edits) error {
	entry, err := m.place(h.file, h.project, o)
	if err != nil || !exists(entry) {
		return nil
	}
	k := editorOf(h.format)
	e.add(entry, func(text []byte) ([]byte, error) {
		v, found, err := k.get(text, h.entryPath())
		if err != nil || !found || !ours(v) {
			return text, nil // not to be changed, so not to be complained about
		}
		was := v.(map[string]any)
		if with, some := o.beside(was); some {
			return h.renew(text, was, with, m.OS, permit{})
		}
		return k.remove(text, h.entryPath())
	})
	return nil
}
