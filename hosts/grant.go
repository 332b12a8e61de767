package hosts

import (
	"bytes"
	"slices"
)

// grants reports whether --allow does something.
func (h Host) grants(o Options) bool {
	if h.grant == nil || h.viaAdapter(o) {
		return false
	}
	own := h.grant.path != nil || h.grant.text != "" // a file of its own
	return !o.Project || !own || h.grant.project != nil
}

// grantEdit tells the host not to ask. The entry is in file.
func (m Machine) grantEdit(h Host, o Options, file string, e *edits) error {
	g := h.grant
	switch {
	case g.tables:
		e.add(file, h.grantTables)
		return nil
	case g.field != "":
		return nil // stands in the entry
	}
	rules, err := m.place(g.file, g.project, o)
	if err != nil {
		return err
	}
	if g.text != "" {
		e.add(rules, func(text []byte) ([]byte, error) {
			if text != nil && !bytes.HasPrefix(text, []byte(grantMark)) && !o.Force {
				return nil, errForeign
			}
			return []byte(g.text), nil
		})
		return nil
	}
	for _, rule := range g.rules {
		e.add(rules, func(text []byte) ([]byte, error) {
			return addJSON(text, g.path, rule, func(v any) bool { return v == rule })
		})
	}
	return nil
}

func (h Host) grantTables(text []byte) (_ []byte, err error) {
	for _, name := range granted {
		if text, err = setTOML(text, append(h.entryPath(), "tools", name), object{{"approval_mode", "approve"}}); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// asks reports whether the host asks before each call. What the user's own files
// allow holds in a project as well, unless it stands in the entry itself.
func (m Machine) asks(h Host, o Options) bool {
	if !h.grants(o) || h.grant.seldom || m.granted(h, o) {
		return false
	}
	user := o
	user.Project = false
	return h.grant.field != "" || !m.granted(h, user)
}

// granted reports whether the gateway may be called without a question already,
// by what the user's files say, or the project's: then it must not close panes.
func (m Machine) granted(h Host, o Options) bool {
	if !h.grants(o) {
		return false
	}
	g := h.grant
	file, err := m.place(h.file, h.project, o)
	if g.path != nil || g.text != "" {
		file, err = m.place(g.file, g.project, o)
	}
	if err != nil {
		return false
	}
	text, err := read(file)
	if err != nil {
		return false
	}
	if g.text != "" {
		return bytes.HasPrefix(text, []byte(grantMark))
	}
	if g.path != nil {
		v, _, _ := getJSON(text, g.path)
		l, _ := v.([]any)
		return slices.Contains(l, any(g.rules[0]))
	}
	if g.tables {
		v, _, _ := getTOML(text, append(h.entryPath(), "tools", granted[0]))
		t, _ := v.(map[string]any)
		return t["approval_mode"] == "approve"
	}
	v, _, _ := editorOf(h.format).get(text, h.entryPath())
	t, _ := v.(map[string]any)
	l, _ := t[g.field].([]any)
	return slices.Contains(l, any(granted[0]))
}
