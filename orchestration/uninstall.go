package orchestration

import (
	"context"
	"fmt"
	"os"
	"slices"
)

// Uninstall takes away what install wrote and nobody has changed since, and the
// folders that were made for it if they are empty. Then comes Policy.
func (i Installer) Uninstall(ctx context.Context) (r Report, err error) {
	m, err := i.Place.readManifest()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", i.Place.path(manifestFile), err)
	case m == nil:
		r.add("nothing installed")
	default:
		if r, err = i.remove(m); err != nil {
			return r, err
		}
	}
	if i.Policy != nil {
		done, err := i.Policy(ctx)
		if err != nil {
			return r, err
		}
		if done != "" {
			r.add("%s", done)
		}
	}
	return r, nil
}

// remove removes what the manifest names, and the manifest.
func (i Installer) remove(m *inventory) (r Report, err error) {
	text, err := i.Place.read(manifestFile)
	if err != nil {
		return nil, err
	}
	var changes []edit
	for _, f := range m.Files {
		old, err := i.Place.read(f.Path)
		switch {
		case err == nil && old == nil:
			r.add("%-9s %s", "gone", i.Place.path(f.Path))
		case err != nil || sum(old) != f.SHA:
			r.add("%-9s %s: it is not as herdr-link left it", "kept", i.Place.path(f.Path))
		default:
			changes = append(changes, edit{name: f.Path, old: old})
		}
	}
	changes = append(changes, edit{name: manifestFile, old: text})
	for _, c := range changes {
		if err := i.Place.replace(c); err != nil {
			return r, fmt.Errorf("%s: %w", i.Place.path(c.name), err)
		}
		r.add("%-9s %s", "removed", i.Place.path(c.name))
	}
	for _, dir := range ownFolders {
		if slices.Contains(m.Folders, dir) {
			_ = os.Remove(i.Place.path(dir)) // not if there is something in it
		}
	}
	r.add("start OpenCode anew: a running one still has it")
	return r, nil
}
