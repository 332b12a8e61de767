package orchestration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Limits of one git.
const (
	gitTime   = 10 * time.Second
	gitGrace  = 500 * time.Millisecond // to end when told to: what it was for has to be undone yet
	gitOutput = 1 << 20                // bytes of each stream
)

var (
	errNoGit     = errors.New("git is not on PATH")
	errElsewhere = errors.New("a file that your global Git configuration includes sets it")
)

// A gitError is a git that failed.
type gitError struct {
	args []string
	exit int // -1: it did not exit by itself
	said string
	err  error
}

func (e *gitError) Error() string {
	why := e.said
	if why == "" {
		why = e.err.Error()
	}
	return fmt.Sprintf("git %s: %s", e.args[0], why)
}

func (e *gitError) Unwrap() error { return e.err }

// git runs git and returns its stdout.
func (h Hooks) git(ctx context.Context, environ []string, args ...string) ([]byte, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, errNoGit
	}
	ctx, stop := context.WithTimeout(ctx, gitTime)
	defer stop()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = environ
	cmd.Cancel = func() error { // gently: a git that is killed leaves the lock of a file that it changes
		if cmd.Process.Signal(syscall.SIGTERM) == nil {
			return nil
		}
		return cmd.Process.Kill()
	}
	cmd.WaitDelay = gitGrace
	var stdout, stderr limited
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if err == nil && stdout.over {
		err = errors.New("it says too much")
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		said := strings.Join(strings.Fields(strings.ToValidUTF8(stderr.String(), "?")), " ")
		return nil, &gitError{args, cmd.ProcessState.ExitCode(), said[:min(len(said), 1000)], err}
	}
	return stdout.Bytes(), nil
}

// limited keeps the first bytes and swallows the rest.
type limited struct {
	buffer bytes.Buffer
	over   bool
}

func (l *limited) Write(p []byte) (int, error) {
	keep := min(len(p), gitOutput-l.buffer.Len())
	l.over = l.over || keep < len(p)
	l.buffer.Write(p[:keep])
	return len(p), nil
}

func (l *limited) Bytes() []byte  { return l.buffer.Bytes() }
func (l *limited) String() string { return l.buffer.String() }

// environ is that of h without variables with these names.
func (h Hooks) environ(without ...string) []string {
	return slices.DeleteFunc(slices.Clone(h.Environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(without, name)
	})
}

// outside is an environment in which git sees what the user's own files say and
// no repository: some settings hold in one repository only, and the directory
// that this happens to run in shall not matter. GIT_CONFIG_GLOBAL,
// GIT_CONFIG_SYSTEM and GIT_CONFIG_NOSYSTEM count, as for the user's own git.
func (h Hooks) outside() []string {
	return append(h.environ("GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE"),
		"GIT_DIR="+os.DevNull)
}

// A gitVersion is its first two numbers.
type gitVersion [2]int

// version asks git for its version: two numbers, and all of it.
func (h Hooks) version(ctx context.Context) (v gitVersion, text string, err error) {
	out, err := h.git(ctx, h.outside(), "version")
	if err != nil {
		return v, "", err
	}
	v, text = parseVersion(string(out))
	if text == "" {
		return v, "", errors.New("git does not tell its version")
	}
	return v, text, nil
}

// parseVersion reads "git version 2.39.5 (Apple Git-154)" and the like.
func parseVersion(line string) (v gitVersion, text string) {
	words := strings.Fields(line)
	if len(words) < 3 {
		return v, ""
	}
	for i, number := range strings.SplitN(words[2], ".", len(v)+1) {
		if i < len(v) {
			v[i], _ = strconv.Atoi(number)
		}
	}
	return v, words[2]
}

// A setting is a value of core.hooksPath.
type setting struct {
	set       bool
	raw, path string // as it is written, and as git reads it: ~ is the home folder
}

// last returns the last value of these scopes.
func (h Hooks) last(ctx context.Context, environ []string, scopes ...string) (s setting, err error) {
	for _, read := range []struct {
		into *string
		as   []string
	}{{&s.raw, nil}, {&s.path, []string{"--type=path"}}} {
		args := append([]string{"config", "--null", "--show-scope"}, read.as...)
		out, err := h.git(ctx, environ, append(args, "--get-all", "core.hooksPath")...)
		if none(err) {
			return setting{}, nil
		} else if err != nil {
			return setting{}, err
		}
		fields := strings.Split(string(out), "\x00")
		for i := 0; i+1 < len(fields); i += 2 {
			if slices.Contains(scopes, fields[i]) {
				s.set, *read.into = true, fields[i+1]
			}
		}
	}
	return s, nil
}

// none reports whether git has found no value.
func none(err error) bool {
	var e *gitError
	return errors.As(err, &e) && e.exit == 1
}

// global is the value of all the user's global files together.
func (h Hooks) global(ctx context.Context) (setting, error) {
	return h.last(ctx, h.outside(), "global")
}

// replaced returns the values in the very file that point changes.
func (h Hooks) replaced(ctx context.Context) ([]string, error) {
	out, err := h.git(ctx, h.outside(), "config", "--global", "--null", "--get-all", "core.hooksPath")
	if none(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}

// point makes our directory the global one. If it does not become so, these
// values are set again.
func (h Hooks) point(ctx context.Context, replaced []string) error {
	undo := context.WithoutCancel(ctx)
	if err := h.set(ctx, "", "--replace-all", "core.hooksPath", filepath.ToSlash(h.Dir)); err != nil {
		if !h.points(undo) {
			return err
		}
		return errors.Join(err, h.restore(undo, "", replaced)) // it was killed when it had done so
	}
	now, err := h.global(ctx)
	if err == nil && h.same(now.path) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("core.hooksPath stays %s: %w", now.path, errElsewhere)
	}
	return errors.Join(err, h.restore(undo, "", replaced))
}

// points reports whether the global value is known to be our directory.
func (h Hooks) points(ctx context.Context) bool {
	now, err := h.global(ctx)
	return err == nil && now.set && h.same(now.path)
}

// restore undoes point, in that file: see set.
func (h Hooks) restore(ctx context.Context, file string, values []string) error {
	const missing = 5 // what --unset-all exits with if there is nothing to unset
	if len(values) == 0 {
		err := h.set(ctx, file, "--unset-all", "core.hooksPath")
		var e *gitError
		if errors.As(err, &e) && e.exit == missing {
			return nil
		}
		return err
	}
	how := "--replace-all"
	for _, v := range values {
		if err := h.set(ctx, file, how, "core.hooksPath", v); err != nil {
			return err
		}
		how = "--add"
	}
	return nil
}

// globalFiles are the user's global files; git reads all, the first one last, and
// changes the first that is there.
func (h Hooks) globalFiles() []string {
	if file := h.getenv("GIT_CONFIG_GLOBAL"); file != "" {
		return []string{file}
	}
	home, config := homeDir(h.getenv), h.getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(home, ".config")
	}
	return []string{filepath.Join(home, ".gitconfig"), filepath.Join(config, "git", "config")}
}

// older returns the second global file if the setting stands there: it was the only
// one when it was written, and there is a first one since. Else it returns "".
func (h Hooks) older(ctx context.Context) string {
	files := h.globalFiles()
	if len(files) == 1 || !exists(files[0]) {
		return ""
	}
	get := func(file string) (string, error) {
		out, err := h.git(ctx, h.outside(), "config", "--file", file, "--null", "--type=path", "--get", "core.hooksPath")
		return strings.TrimSuffix(string(out), "\x00"), err
	}
	if _, err := get(files[0]); !none(err) {
		return ""
	}
	if path, err := get(files[1]); err != nil || !h.same(path) {
		return ""
	}
	return files[1]
}

// set changes that global file, or if it is "" the one that git changes. Git would put
// a regular file in the place of one that is none: of /dev/null, as GIT_CONFIG_GLOBAL
// or behind a link, with the rights for that.
func (h Hooks) set(ctx context.Context, file string, args ...string) error {
	files, where := h.globalFiles(), []string{"config", "--global"}
	if file != "" {
		files, where = []string{file}, []string{"config", "--file", file}
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			continue
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("the global configuration of Git, %s, is no regular file", file)
		}
		break
	}
	_, err := h.git(ctx, h.outside(), append(where, args...)...)
	return err
}

// getenv is os.Getenv for h; the last one of a name counts.
func (h Hooks) getenv(name string) (value string) {
	for _, entry := range h.Environ {
		if n, v, _ := strings.Cut(entry, "="); n == name {
			value = v
		}
	}
	return value
}

// repository returns the value of the repository that this process is in, and
// the directory of the hooks that ours stand before there; "" outside.
func (h Hooks) repository(ctx context.Context) (s setting, dir string, err error) {
	environ := h.environ("GIT_CONFIG")
	out, err := h.git(ctx, environ, "rev-parse", "--git-common-dir")
	var e *gitError
	if errors.As(err, &e) && e.exit > 0 {
		return setting{}, "", nil
	} else if err != nil {
		return setting{}, "", err
	}
	dir = filepath.Join(strings.TrimSuffix(string(out), "\n"), "hooks")
	if s, err = h.last(ctx, environ, "local", "worktree"); err != nil || !s.set {
		return s, dir, err
	}
	if dir = s.path; !filepath.IsAbs(dir) {
		if top, err := h.git(ctx, environ, "rev-parse", "--show-toplevel"); err == nil {
			dir = filepath.Join(strings.TrimSuffix(string(top), "\n"), dir)
		}
	}
	return s, dir, nil
}
