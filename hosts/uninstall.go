package hosts

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"herdr-link/adapters"
)

// Uninstall takes away what Install wrote.
func (m Machine) Uninstall(h Host, o Options) Report {
	r := Report{Host: h.Name}
	if h.Why != "" {
		r.Err = errors.New(h.Why)
		return r
	}
	var foreign string
	e := m.uninstallEdits(h, o, &foreign)
	all, err := e.drafts(o, leftover)
	if err == nil {
		err = r.apply(m, h, o, all)
	}
	if r.Err = err; err != nil {
		return r
	}
	var files []string
	for _, d := range all {
		if d.changes() {
			files = append(files, d.path)
		}
		if !o.DryRun {
			err = errors.Join(err, d.tidy())
		}
	}
	if !o.DryRun {
		m.leaveConfig()
	}
	r.Err = err
	switch {
	case len(files) > 0 && o.DryRun:
		r.Done = "would change " + strings.Join(files, ", ")
	case len(files) > 0:
		r.Done = "removed from " + strings.Join(files, ", ") + "; restart it"
	case foreign != "":
		r.Done = "left alone, it is not ours: " + foreign
	default:
		r.Done = "is not there"
	}
	return r
}

// leftover decides what becomes of a file from which uninstall took something. A
// file of ours gives way to the one that it replaced.
func leftover(d *draft, text []byte) ([]byte, error) {
	d.keep = false
	if _, ours := adapters.Mark(d.old); blank(text) && (ours || bytes.HasPrefix(d.old, []byte(grantMark))) {
		was, err := read(d.path + backupName)
		if err != nil {
			return nil, nil
		}
		return was, nil
	}
	return emptied(d, text)
}

// emptied decides what becomes of a file in which nothing is left. One that was
// there before stays.
func emptied(d *draft, text []byte) ([]byte, error) {
	if text == nil || !blank(text) || bytes.Equal(text, d.old) {
		return text, nil
	}
	was, err := read(d.path + backupName)
	switch {
	case err != nil:
		return nil, nil
	case blank(was) || filepath.Ext(d.path) == ".toml" || filepath.Ext(d.path) == ".yaml":
		return text, nil
	}
	return []byte("{}" + newline(was)), nil // JSON must have something
}

func blank(text []byte) bool {
	return len(bytes.TrimSpace(bytes.TrimPrefix(text, []byte(bom)))) == 0
}

// tidy removes the copy of a file.
func (d *draft) tidy() error {
	if err := os.Remove(d.path + backupName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// uninstallEdits returns the edits. When they are made, foreign becomes the
// file whose entry is not ours.
func (m Machine) uninstallEdits(h Host, o Options, foreign *string) (e edits) {
	add := func(user paths, project []string, f edit) {
		if file, err := m.place(user, project, o); err == nil && exists(file) {
			e.add(file, f)
		}
	}
	if h.hook != nil && !o.Project {
		add(h.hook.file, nil, func(text []byte) ([]byte, error) {
			if len(h.hook.path) > 0 {
				return dropJSON(text, h.hook.path, func(v any) bool { return isHook(v, h.Name) })
			}
			if !hasHook(text, h) {
				return text, nil
			}
			return removeJSON(text, []string{"herdr-link"})
		})
	}
	if g := h.grant; g != nil && g.path != nil {
		for _, rule := range slices.Backward(g.rules) {
			add(g.file, g.project, func(text []byte) ([]byte, error) {
				return dropJSON(text, g.path, func(v any) bool { return v == rule })
			})
		}
	}
	if g := h.grant; g != nil && g.text != "" && !o.Project {
		add(g.file, nil, func(text []byte) ([]byte, error) {
			if bytes.HasPrefix(text, []byte(grantMark)) || o.Force {
				return nil, nil
			}
			return text, nil
		})
	}
	k := editorOf(h.format)
	add(h.file, h.project, func(text []byte) ([]byte, error) {
		v, found, err := k.get(text, h.entryPath())
		if err != nil || !found {
			return text, err
		}
		if !ours(v) && !o.Force {
			*foreign, _ = m.place(h.file, h.project, o)
			return text, nil
		}
		return k.remove(text, h.entryPath())
	})
	if h.adapter == nil {
		return e
	}
	if file, err := m.place(h.adapter.file, h.adapter.project, o); err == nil && (exists(file) || exists(file+backupName)) {
		e.add(file, func(text []byte) ([]byte, error) {
			_, ours := adapters.Mark(text)
			switch {
			case text == nil: // an entry took its place, and what it had replaced comes back
				return read(file + backupName)
			case ours || o.Force:
				return nil, nil
			}
			return text, nil
		})
	}
	return e
}
