package hosts

import (
	"bytes"
	"os"
	"slices"
)

// grants reports whether --allow does something.
func (h Host) grants(o Options) bool {
	return h.grant != nil && !h.viaAdapter(o) && !(o.Project && h.grant.text != "")
}

func (h Host) grantTables(text []byte) (_ []byte, err error) {
	for _, name := range granted {
		if text, err = setTOML(text, append(h.entryPath(), "tools", name), object{{"approval_mode", "approve"}}); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// granted is isGranted for the file that the host has now.
func (m Machine) granted(h Host, o Options) bool {
	file, err := m.place(h.file, h.project, o)
	return err == nil && m.isGranted(h, o, file)
}

// isGranted reports whether the gateway may be called without a question
// already: then it must not close panes.
func (m Machine) isGranted(h Host, o Options, file string) bool {
	g := h.grant
	if g.path != nil || g.text != "" {
		var err error
		if file, err = m.place(g.file, g.project, o); err != nil {
			return false
		}
	}
	text, err := os.ReadFile(file)
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
