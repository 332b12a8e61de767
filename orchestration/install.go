package orchestration

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"
)

//go:embed plugin.js
var plugin []byte

// Options are what an installation may be told.
type Options struct {
	// The models of workers and reviewers: "" is the origin's if OpenCode has it,
	// Inherit none.
	WorkerModel, ReviewerModel string
	AllowTools                 []string
	NoSessionHooks             bool
	NoValidate                 bool
	DryRun                     bool
	Force                      bool
}

// Inherit as a model is that of the session.
const Inherit = "inherit"

// The models of the origin, of a private gateway. They are used only where
// OpenCode has them.
const (
	originWorker   = "litellm/glm-5.3-flash"
	originReviewer = "litellm-responses/gpt-5.6-terra"
)

// An Installer installs, and takes away again.
type Installer struct {
	Place    Place
	Settings Settings
	OpenCode *OpenCode // nil: it is not there
	Data     Data      // Models, Hooks and AllowTools as the options want them
	Now      func() time.Time
	// Asking, if not nil, is called before OpenCode is asked about the agents, which
	// can take minutes.
	Asking func()
	// Policy, if not nil, does what belongs to the push policy, when all else has
	// been done, and says what. If it fails, so does the whole, with nothing done.
	Policy func(context.Context) (done string, err error)
}

// A Report is what was done, or would be, a line each.
type Report []string

func (r *Report) add(format string, args ...any) { *r = append(*r, fmt.Sprintf(format, args...)) }

// Install writes the files. When it fails, all is as it was.
func (i Installer) Install(ctx context.Context, o Options) (r Report, err error) {
	d := i.Data
	d.AllowTools = o.AllowTools
	if o.NoSessionHooks {
		d.Hooks = ""
	}
	d.Models.Worker = i.model(ctx, &r, "workers", o.WorkerModel, originWorker)
	d.Models.Reviewer = i.model(ctx, &r, "reviewers", o.ReviewerModel, originReviewer)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	before, err := i.Place.readManifest()
	if err != nil && (!errors.Is(err, errForeign) || !o.Force) {
		return nil, fmt.Errorf("%s: %w", i.Place.path(manifestFile), err)
	}
	changes, err := i.changes(before, d, o)
	if err != nil {
		return nil, err
	}
	if err := i.refuse(changes, o); err != nil {
		return nil, err
	}
	if o.DryRun {
		for _, c := range changes {
			r.add("%-9s %s%s", c.verb("create", "change", "unchanged"), i.Place.path(c.name), c.summary())
		}
		if d.Hooks != "" {
			r.add("the hooks of the push policy would be in %s", d.Hooks)
		}
		r.add("nothing was written")
		return r, nil
	}
	w := &work{place: i.Place}
	defer func() {
		if err == nil {
			return
		}
		r = nil
		if undone := w.undo(); undone != nil {
			err = fmt.Errorf("%w\nand what was written could not be taken back: %w", err, undone)
		}
	}()
	if err := i.write(w, before, changes, d, o); err != nil {
		return nil, unwritable(err)
	}
	switch {
	case o.NoValidate:
	case i.OpenCode == nil:
		r.add("opencode is not on PATH, so nobody has checked that it takes the agents")
	default:
		if i.Asking != nil {
			i.Asking()
		}
		if err := i.validate(ctx); err != nil {
			return nil, err
		}
		r.add("OpenCode was asked, and takes all six agents")
	}
	policy := ""
	if i.Policy != nil {
		if policy, err = i.Policy(ctx); err != nil {
			return nil, err
		}
	}
	for _, c := range changes {
		r.add("%-9s %s", c.verb("created", "changed", "unchanged"), i.Place.path(c.name))
	}
	if policy != "" {
		r.add("%s", policy)
	}
	for _, path := range w.backups {
		r.add("%-9s %s", "kept", path)
	}
	r.add("start OpenCode anew: a running one knows nothing of it")
	return r, nil
}

// unwritable says what to do where one may not write.
func unwritable(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
		return fmt.Errorf("nothing was written: %s: %w\nOpenCode's folder must be one that you may write to; --config-dir names another", p.Path, p.Err)
	}
	return err
}

// write makes the changes, the manifest last: it names the folders made for the
// others.
func (i Installer) write(w *work, before *inventory, changes []edit, d Data, o Options) error {
	for n := range changes {
		c := &changes[n]
		if c.name == manifestFile {
			var made []string
			for _, dir := range ownFolders {
				if slices.Contains(w.made, i.Place.path(dir)) || before != nil && slices.Contains(before.Folders, dir) {
					made = append(made, dir)
				}
			}
			text, err := i.manifest(changes, made, d, o)
			if err != nil {
				return err
			}
			c.new = text
		}
		if err := w.do(*c, i.Now()); err != nil {
			return err
		}
	}
	return nil
}

// validate asks OpenCode, and does not wait for it when this process has to end:
// what was written must be taken back before.
func (i Installer) validate(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- i.OpenCode.check(ctx) }()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%w\nEverything is as it was. (--no-validate does not ask OpenCode.)", err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// model returns which model to write for some agents, or "".
func (i Installer) model(ctx context.Context, r *Report, whose, wanted, origin string) string {
	switch {
	case wanted == Inherit:
		return ""
	case wanted != "":
		return wanted
	case i.OpenCode != nil && i.OpenCode.lists(ctx, origin):
		return origin
	}
	r.add("no model is set for the %s: they take the one that is active in OpenCode", whose)
	return ""
}

// changes returns what has to be done, the manifest last.
func (i Installer) changes(before *inventory, d Data, o Options) ([]edit, error) {
	data, err := d.encode()
	if err != nil {
		return nil, err
	}
	all := []edit{{name: pluginFile, new: plugin}, {name: dataFile, new: data}, {name: manifestFile}}
	for n := range all {
		c := &all[n]
		if c.old, err = i.Place.read(c.name); err != nil {
			return nil, err
		}
		if c.name == manifestFile {
			c.foreign = before == nil
			folders := []string(nil)
			if before != nil {
				folders = before.Folders
			}
			c.new, err = i.manifest(all, folders, d, o)
			if err != nil {
				return nil, err
			}
			continue
		}
		c.foreign = c.old != nil && sum(c.old) != before.sumOf(c.name) && !bytes.Equal(c.old, c.new)
	}
	return all, nil
}

func (i Installer) manifest(changes []edit, folders []string, d Data, o Options) ([]byte, error) {
	m := inventory{Schema: schema, Version: d.Version, Folders: folders, Options: savedOptions{
		o.WorkerModel, o.ReviewerModel, o.AllowTools, !o.NoSessionHooks,
	}}
	if m.Folders == nil {
		m.Folders = []string{}
	}
	for _, c := range changes {
		if c.name != manifestFile {
			m.Files = append(m.Files, owned{c.name, sum(c.new)})
		}
	}
	return encode(m)
}

// refuse says why nothing may be written.
func (i Installer) refuse(changes []edit, o Options) error {
	if o.Force {
		return nil
	}
	var reasons []string
	for _, c := range changes {
		if c.foreign && c.old != nil {
			reasons = append(reasons, i.Place.path(c.name)+" is not as herdr-link left it")
		}
	}
	old, _ := i.Settings.conflicts()
	for _, path := range old {
		reasons = append(reasons, path+" names the package "+oldPackage+", which defines the same agents and tool: take it out there")
	}
	if len(reasons) == 0 {
		return nil
	}
	return errors.New("nothing was written:\n  " + strings.Join(reasons, "\n  ") + "\n--force goes on all the same; files are copied before.")
}

func (c edit) verb(created, changed, same string) string {
	switch {
	case c.same():
		return same
	case c.old == nil:
		return created
	}
	return changed
}

// summary says how many lines come and go.
func (c edit) summary() string {
	if c.same() {
		return ""
	}
	count := map[string]int{}
	for line := range bytes.Lines(c.old) {
		count[string(line)]++
	}
	added, removed := 0, 0
	for line := range bytes.Lines(c.new) {
		if count[string(line)]--; count[string(line)] < 0 {
			added++
		}
	}
	for _, n := range count {
		removed += max(n, 0)
	}
	return fmt.Sprintf("  +%d -%d lines", added, removed)
}
