// Package git reads what mesh must know of a writer's Git worktree: that it is
// one, where it stands, what has changed in it, and which paths two writers may
// not share (mesh.md §4.7, §4.10). It changes no byte of a repository.
//
// It knows no lease and no Herdr. Errors are faults.
package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mesh/fault"
)

const (
	// runTime is how long one git may take.
	runTime = 30 * time.Second
	// maxText is the most that is kept of what one git prints.
	maxText = 8 << 20
	// maxDigest is the most that goes into one digest.
	maxDigest = 512 << 20
)

// A Git runs git so that no program of a repository's choice is run by it
// (mesh.md §0.3). Clean filters are the exception: without them the status would
// be another one. Its methods may be used by many goroutines.
type Git struct {
	path    string
	environ []string
	timeout time.Duration
	limit   int64 // of a digest
}

// New returns a Git for the environment that getenv shows: of it git gets PATH,
// HOME and XDG_CONFIG_HOME, and no variable of its own.
func New(getenv func(string) string) *Git {
	g := &Git{path: getenv("PATH"), timeout: runTime, limit: maxDigest}
	for _, name := range []string{"PATH", "HOME", "XDG_CONFIG_HOME"} {
		if value := getenv(name); value != "" {
			g.environ = append(g.environ, name+"="+value)
		}
	}
	g.environ = append(g.environ, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0",
		// In a partial clone a missing object is fetched, by a program that the
		// repository names. No protocol is allowed, and later versions do not try.
		"GIT_ALLOW_PROTOCOL=", "GIT_NO_LAZY_FETCH=1")
	return g
}

// hardened stands before every command.
var hardened = []string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat"}

// exact stands before every command but status, which has to print what it
// prints to anybody. A commit's name then means its own bytes and none that
// stand in for them, and what has no option of its own is not left to the
// configuration.
var exact = []string{
	"--no-replace-objects", "--literal-pathspecs",
	"-c", "core.quotePath=true", "-c", "core.looseCompression=1", "-c", "core.bigFileThreshold=512m",
	"-c", "core.trustctime=true", "-c", "core.checkStat=default",
	"-c", "diff.autoRefreshIndex=true", "-c", "diff.suppressBlankEmpty=false",
}

// run runs git in a folder, with its stdout to sink, max bytes at most, and
// returns its exit code: 0, or 1 for a command that answers a question by it.
func (g *Git) run(ctx context.Context, dir string, sink io.Writer, max int64, command string, args ...string) (int, error) {
	bin, err := herdrcli.Find(g.path, "git")
	if err != nil {
		return -1, fault.New("GIT_NOT_FOUND", "there is no git on PATH")
	}
	argv := append(hardened[:len(hardened):len(hardened)], "-C", dir)
	if command != "status" {
		argv = append(argv, exact...)
	}
	argv = append(append(argv, command), args...)
	out := herdrcli.Program{Bin: bin, Environ: g.environ, Timeout: g.timeout, Sink: sink, MaxStdout: int(max)}.Exec(ctx, argv...)
	switch {
	case ctx.Err() != nil && out.Err != nil:
		return -1, ended(ctx, "git "+command)
	case errors.Is(out.Err, herdrcli.ErrTimeout):
		return -1, fault.New("GIT_FAILED", "git %s did not end in %v", command, g.timeout)
	case errors.Is(out.Err, herdrcli.ErrTooMuch):
		return -1, errTooMuch
	case errors.Is(out.Err, herdrcli.ErrTooLong):
		return -1, fault.New("INVALID_ARGUMENT", "an argument of git %s is longer than the system takes", command)
	case errors.Is(out.Err, herdrcli.ErrResources):
		return -1, fault.New("INTERNAL", "the system has no room for another process or open file now")
	case errors.Is(out.Err, herdrcli.ErrBinary):
		return -1, fault.New("GIT_NOT_FOUND", "the git on PATH cannot be run")
	case out.Err != nil || out.Exit < 0:
		return -1, fault.New("GIT_FAILED", "git %s did not end by itself", command)
	case out.Exit > 1:
		return -1, failed(command, out.Exit)
	}
	return out.Exit, nil
}

// ended says why the call that ctx is of has ended before what was done for it.
func ended(ctx context.Context, what string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.New("HERDR_TIMEOUT", "%s was not finished in the time that the call had", what)
	}
	return fault.New("CANCELLED", "the call was cancelled")
}

// errTooMuch is how run fails with a git that prints more than it may; what that
// means is the command's to say.
var errTooMuch = errors.New("git printed too much")

// failed is git's own refusal. What it says of it is not handed on: it quotes
// names and paths.
func failed(command string, exit int) error {
	return fault.New("GIT_FAILED", "git %s failed: run it in the worktree to see why", command).With("exit", exit)
}

// ask returns what git prints, without the newline behind it. no: the exit code
// was 1, which for such a command is an answer.
func (g *Git) ask(ctx context.Context, dir, command string, args ...string) (text string, no bool, err error) {
	var out bytes.Buffer
	exit, err := g.run(ctx, dir, &out, maxText, command, args...)
	if errors.Is(err, errTooMuch) {
		err = fault.New("GIT_FAILED", "git %s printed more than %d MiB", command, maxText>>20)
	}
	return strings.TrimSuffix(out.String(), "\n"), exit == 1, err
}

// text is ask for a command that has to succeed.
func (g *Git) text(ctx context.Context, dir, command string, args ...string) (string, error) {
	text, no, err := g.ask(ctx, dir, command, args...)
	if err == nil && no {
		err = failed(command, 1)
	}
	return text, err
}
