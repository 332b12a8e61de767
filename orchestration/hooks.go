package orchestration

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"herdr-link/herdrcli"
)

// hookScript is the one script behind every hook name.
//
//go:embed hook.sh
var hookScript []byte

// hookNames are the hooks that the script stands for. A global core.hooksPath
// hides every hook of a repository, so that all have to be chained. Left out are
// those that change Git, or cost a process a ref, by being there: see unshimmed.
var hookNames = [...]string{
	"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg",
	"post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-auto-gc", "post-rewrite", "sendemail-validate",
	"pre-receive", "update", "post-receive", "post-update",
}

// unshimmed are Git's other hooks.
var unshimmed = [...]string{"push-to-checkout", "proc-receive", "reference-transaction", "post-index-change", "fsmonitor-watchman"}

// Hooks is the push policy on this machine: a directory of Git hooks, and the
// global setting, or that of a session, which makes Git use it.
type Hooks struct {
	Dir     string   // of the hooks, absolute: see HooksDir
	Environ []string // what git is run with, as os.Environ
}

// HooksDir is where the hooks are for that environment, absolute.
func HooksDir(getenv func(string) string) (string, error) {
	if config := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(config) {
		return filepath.Join(config, "herdr-link", "hooks"), nil
	}
	home := homeDir(getenv)
	if !filepath.IsAbs(home) {
		return "", errors.New("the home folder is not known: set HOME (on Windows USERPROFILE)")
	}
	return filepath.Join(home, ".config", "herdr-link", "hooks"), nil
}

// homeDir is the user's home folder by that environment.
func homeDir(getenv func(string) string) string {
	home := getenv("HOME")
	if home == "" && runtime.GOOS == "windows" {
		home = getenv("USERPROFILE")
	}
	return home
}

// lock keeps other processes of the user from changing hooks or the setting: two
// changes at once would each take what the other has half done for what was there.
func (h Hooks) lock(ctx context.Context) (release func(), err error) {
	lock, err := herdrcli.NewLocks(homeDir(h.getenv)).AcquireNamed(ctx, "hooks", lockTime)
	switch {
	case errors.Is(err, herdrcli.ErrLockBusy):
		return nil, errors.New("another herdr-link is changing the hooks; try again")
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("the hooks cannot be locked in .local/state/herdr-link/locks of the home folder: %w", err)
	}
	return lock.Release, nil
}

// effect is what holds after a change.
const effect = "\nThis holds from Git's next command on. Agents get their mode in newly started OpenCode processes; nothing was restarted."

// What Git has to be able to do.
var (
	scopes   = gitVersion{2, 26} // list the scopes of settings
	sessions = gitVersion{2, 31} // take settings from GIT_CONFIG_COUNT
)

// Install writes the hooks and makes them the global ones, and says what it has
// done. A global core.hooksPath of somebody else's is an error, unless force is
// set: it is then kept in the manifest, and its hooks run after the policy. On
// an error everything is as it was.
func (h Hooks) Install(ctx context.Context, force bool) (done string, err error) {
	if err := h.require(ctx, scopes); err != nil {
		return "", err
	}
	release, err := h.lock(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	m, err := h.manifest(ctx)
	if err != nil {
		return "", err
	}
	now, err := h.global(ctx)
	if err != nil {
		return "", err
	}
	ours := now.set && h.same(now.path)
	switch {
	case ours:
	case !now.set:
		m.previous, m.replaced = nil, nil
	case !force:
		return "", fmt.Errorf("core.hooksPath is %s in your global Git configuration; with --force its hooks run after the policy, and uninstall brings it back", now.path)
	case isOurs(now.path):
		return "", fmt.Errorf("core.hooksPath is %s, another hooks folder of herdr-link; uninstall that one first", now.path)
	default:
		m.previous = &now.raw
		if m.replaced, err = h.replaced(ctx); err != nil {
			return "", err
		}
	}
	j, err := h.write(m)
	if err != nil {
		return "", err
	}
	if !ours {
		if err := h.point(ctx, m.replaced); err != nil {
			return "", errors.Join(err, j.undo())
		}
	}
	switch {
	case !ours && m.previous != nil:
		done = fmt.Sprintf("core.hooksPath is now %s, and the hooks of %s run after the policy", h.Dir, now.path)
	case !ours:
		done = "core.hooksPath is now " + h.Dir
	case len(j) > 0:
		done = "written anew in " + h.Dir
	default:
		return "nothing to do: the hooks are installed in " + h.Dir, nil
	}
	for _, c := range j {
		if c.backup != "" {
			done += "\nkept as it was: " + c.backup
		}
	}
	return done + effect, nil
}

// Uninstall brings back the global setting that there was before, removes what
// is unchanged since it was written, and says what it has done. The files stay
// as long as sessions use them (InstallSession). If the global setting is not
// ours, nothing is changed.
func (h Hooks) Uninstall(ctx context.Context) (done string, err error) {
	if err := h.require(ctx, scopes); err != nil {
		return "", err
	}
	release, err := h.lock(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	now, err := h.global(ctx)
	if err != nil {
		return "", err
	}
	if !now.set || !h.same(now.path) {
		return "nothing was changed: the global core.hooksPath is not that of herdr-link", nil
	}
	m, err := h.manifest(ctx)
	if err != nil {
		return "", err
	}
	file := h.older(ctx)
	err = h.restore(ctx, file, m.replaced)
	if err != nil && ctx.Err() != nil { // nobody knows how far it came, so the whole is done
		ctx = context.WithoutCancel(ctx)
		err = h.restore(ctx, file, m.replaced)
	}
	if err != nil {
		return "", err
	}
	if now, err = h.global(ctx); err != nil {
		return "", err
	} else if now.set && h.same(now.path) {
		return "", fmt.Errorf("core.hooksPath stays %s: %w", now.path, errElsewhere)
	}
	done = "the global core.hooksPath is unset again"
	if m.previous != nil {
		done = "the global core.hooksPath is again " + *m.previous
	}
	m.previous, m.replaced = nil, nil
	if m.session {
		return done + "; the hooks stay for the sessions of OpenCode" + effect, h.rewrite(m)
	}
	kept, err := h.remove(m)
	return done + told(kept) + effect, err
}

// InstallSession writes the hooks for sessions that name Dir as core.hooksPath
// in GIT_CONFIG_COUNT, and touches no setting. undo puts back what was there; it
// is nil if nothing had to be written. It leaves what has become the global setting
// meanwhile.
func (h Hooks) InstallSession(ctx context.Context) (undo func() error, err error) {
	if err := h.require(ctx, sessions); err != nil {
		return nil, err
	}
	release, err := h.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	m, err := h.manifest(ctx)
	if err != nil {
		return nil, err
	}
	m.session = true
	j, err := h.write(m)
	if len(j) == 0 {
		return nil, err
	}
	return func() error {
		ctx := context.WithoutCancel(ctx)
		release, err := h.lock(ctx)
		if err != nil {
			return err
		}
		defer release()
		if h.points(ctx) {
			return nil
		}
		return j.undo()
	}, nil
}

// UninstallSession takes back InstallSession. The files stay as long as the
// global setting is ours; else those that have been changed do, and are returned.
func (h Hooks) UninstallSession(ctx context.Context) (kept []string, err error) {
	if !exists(h.path(manifestName)) {
		return nil, nil
	}
	release, err := h.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	m, err := h.manifest(ctx)
	if err != nil || !m.session {
		return nil, err
	}
	now, err := h.global(ctx)
	if err != nil {
		return nil, err
	}
	if now.set && h.same(now.path) {
		m.session = false
		return nil, h.rewrite(m)
	}
	return h.remove(m)
}

// HooksStatus says how the push policy stands, as hooks status prints it.
type HooksStatus struct {
	ConfiguredHooksPath *string  `json:"configuredHooksPath"` // the global value; nil: none
	ExpectedHooksPath   string   `json:"expectedHooksPath"`   // Dir
	HookInstalled       bool     `json:"hookInstalled"`       // there is a pre-push
	Active              bool     `json:"active"`              // it is installed, and the global value is ours
	DigestOK            bool     `json:"digestOk"`            // every hook is there as it was written
	PreviousHooksPath   *string  `json:"previousHooksPath"`   // what uninstall brings back
	GitVersion          *string  `json:"gitVersion"`          // nil: no git
	RepoHooksPath       *string  `json:"repoHooksPath"`       // the value of the current repository, which wins over the global one
	Unshimmed           []string `json:"unshimmed"`           // hooks of the current repository that do not run with ours
}

// Status only looks. What cannot be told without git is nil.
func (h Hooks) Status(ctx context.Context) (HooksStatus, error) {
	s := HooksStatus{ExpectedHooksPath: h.Dir, HookInstalled: runnable(h.path("pre-push")), Unshimmed: []string{}}
	_, version, err := h.version(ctx)
	if errors.Is(err, errNoGit) {
		return s, nil
	} else if err != nil {
		return s, err
	}
	s.GitVersion = &version
	if m, err := h.manifest(ctx); err == nil {
		s.DigestOK, s.PreviousHooksPath = h.intact(m), m.previous
	}
	now, err := h.global(ctx)
	if err != nil {
		return s, err
	}
	if now.set {
		s.ConfiguredHooksPath = &now.path
		s.Active = s.HookInstalled && h.same(now.path)
	}
	repo, dir, err := h.repository(ctx)
	if err != nil {
		return s, err
	}
	if repo.set {
		s.RepoHooksPath = &repo.path
	}
	for _, name := range unshimmed {
		if dir != "" && runnable(filepath.Join(dir, name)) {
			s.Unshimmed = append(s.Unshimmed, name)
		}
	}
	return s, nil
}

// same reports whether path is our directory, whatever it is called.
func (h Hooks) same(path string) bool {
	if filepath.Clean(filepath.FromSlash(path)) == filepath.Clean(h.Dir) {
		return true
	}
	a, errA := os.Stat(path)
	b, errB := os.Stat(h.Dir)
	return filepath.IsAbs(path) && errA == nil && errB == nil && os.SameFile(a, b)
}

// isOurs reports whether that is a hooks folder of herdr-link, wherever it is.
func isOurs(dir string) bool {
	text, err := readFile(filepath.Join(dir, "pre-push"))
	return err == nil && filepath.IsAbs(dir) && bytes.HasPrefix(text, []byte("#!/bin/sh\n# herdr-link hook\n"))
}

func (h Hooks) path(name string) string { return filepath.Join(h.Dir, name) }

func (h Hooks) require(ctx context.Context, least gitVersion) error {
	v, text, err := h.version(ctx)
	if err != nil {
		return err
	}
	if slices.Compare(v[:], least[:]) < 0 {
		return fmt.Errorf("git %d.%d or later is needed; this one is %s", least[0], least[1], text)
	}
	return nil
}

func told(kept []string) string {
	if len(kept) == 0 {
		return ""
	}
	return "\nchanged since, and kept: " + strings.Join(kept, ", ")
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// runnable reports whether Git would run that file as a hook.
func runnable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0)
}
