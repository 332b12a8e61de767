// Package sandbox runs the commands of a verification in bubblewrap: code of a
// repository that sees the worktree, the tools and nothing else of this system
// (mesh.md §6). It protects from accidents of that code; it is no barrier
// against an agent of the same account.
//
// It knows no record, no lease and no git, and does not judge what a command
// prints.
package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode"

	"herdr-link/herdrcli"
	"herdr-link/mesh/fault"
)

const (
	// probeTime is how long the trial of bubblewrap may take.
	probeTime = 5 * time.Second
	// endTime is how long the processes of a sandbox may take to be gone once they
	// have been killed.
	endTime = 5 * time.Second
)

// A Sandbox runs commands in bubblewrap. Its zero value is ready; its methods
// may be used by many goroutines.
type Sandbox struct {
	programs []string // where bubblewrap may be; nil: bubblewrap

	mu     sync.Mutex
	proved string // the program that has made a sandbox in this process
}

// bubblewrap are the places where it is looked for, and no PATH.
func bubblewrap() []string { return []string{"/usr/bin/bwrap", "/usr/local/bin/bwrap"} }

// Find makes sure that commands can be run: VERIFY_UNAVAILABLE says in plain words
// why not. bubblewrap is tried once; after a failure it is tried again, for it may
// have been installed meanwhile.
func (s *Sandbox) Find(ctx context.Context) error {
	_, err := s.find(ctx)
	return err
}

func (s *Sandbox) find(ctx context.Context) (program string, err error) {
	if runtime.GOOS != "linux" {
		return "", fault.New("VERIFY_UNAVAILABLE", "verification needs bubblewrap, which exists on Linux only")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proved != "" {
		return s.proved, nil
	}
	places := s.programs
	if places == nil {
		places = bubblewrap()
	}
	for _, p := range places {
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			program = p
			break
		}
	}
	if program == "" {
		return "", fault.New("VERIFY_UNAVAILABLE", "verification needs bubblewrap, and there is no program %s", strings.Join(places, " or "))
	}
	args := append(system(lstat, root(), false), "--dir", home, "--clearenv",
		"--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--chdir", home, "--", "true")
	r, err := run(ctx, program, args, 0, probeTime)
	switch {
	case err != nil:
		return "", err
	case r.Exit == nil || *r.Exit != 0 || !r.Began:
		return "", fault.New("VERIFY_UNAVAILABLE", "bubblewrap cannot make a sandbox here: %s", reason(r))
	}
	s.proved = program
	return program, nil
}

// reason is why a trial failed.
func reason(r *Result) string {
	said := string(r.Stderr.Tail)
	switch {
	case r.TimedOut:
		return "it did not end in time"
	case strings.Contains(said, "Unknown option"):
		return "it is too old, 0.5.0 is needed"
	case strings.Contains(said, "namespace") || strings.Contains(said, "uid map"):
		return "this system gives users no namespaces (see kernel.unprivileged_userns_clone, user.max_user_namespaces and " +
			"kernel.apparmor_restrict_unprivileged_userns), or this process runs in a container that forbids them"
	case said == "":
		return "it says nothing of the cause"
	}
	line, _, _ := strings.Cut(said, "\n") // of bubblewrap about this system alone
	line = strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return -1
	}, line)
	return line[:min(len(line), 200)]
}

// lstat is the look at this system.
func lstat(path string) (mode fs.FileMode, target string, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, "", err
	}
	if mode = info.Mode(); mode&fs.ModeSymlink != 0 {
		target, err = os.Readlink(path)
	}
	return mode, target, err
}

func root() bool { return os.Geteuid() == 0 }

// Check reports what Run would refuse the step for: VERIFY_UNAVAILABLE.
func (s *Step) Check() error {
	_, err := s.mounts(lstat)
	return err
}

// A Result is how a command ended.
type Result struct {
	Exit     *int // nil: it was killed
	TimedOut bool // it was killed because its time was over
	// Began is false if the command itself has not been started: the sandbox could
	// not be set up, or has no such program. Then Exit and Stderr are bubblewrap's.
	// Of a command that was killed it tells nothing.
	Began          bool
	Ended          bool // all that it started is gone
	Took           time.Duration
	Stdout, Stderr Stream
}

// Run runs a command in a sandbox and returns when no process of it is left. A
// command that has not ended in time, or whose context ends, is killed with all
// that it started: bubblewrap gets SIGTERM and does not pass it on, so nothing
// inside is asked first. With an error, CANCELLED for example, there may be a
// result too.
//
// Nothing but its time bounds what a command prints, and what it writes: to the
// worktree and its home on the disk, to /, /tmp and /dev in memory, of which each
// takes half at most.
func (s *Sandbox) Run(ctx context.Context, step *Step, timeout time.Duration, command ...string) (*Result, error) {
	program, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	args, err := step.argv(lstat, root(), command)
	if err != nil {
		return nil, err
	}
	return run(ctx, program, args, step.Head, timeout)
}

func run(ctx context.Context, program string, args []string, head int, timeout time.Duration) (*Result, error) {
	seal()
	status, child, err := os.Pipe()
	if err != nil {
		return nil, fault.New("INTERNAL", "the system has no room for another open file now")
	}
	defer status.Close()
	var inside progress
	told := make(chan struct{})
	go func() {
		defer close(told)
		inside.read(status)
	}()
	stdout, stderr := newDigester(head), newDigester(0)
	out := herdrcli.Program{
		Bin: program, Dir: "/", Environ: []string{}, Timeout: timeout,
		Sink: stdout, MaxStdout: math.MaxInt, ErrSink: stderr, Files: []*os.File{child}, Session: true,
	}.Exec(ctx, append([]string{"--json-status-fd", "3"}, args...)...)
	_ = child.Close()
	// bubblewrap has closed the pipe by ending, unless it cannot be killed.
	_ = status.SetReadDeadline(time.Now().Add(endTime))
	<-told
	r := &Result{
		TimedOut: errors.Is(out.Err, herdrcli.ErrTimeout), Began: inside.exit != nil,
		Took: out.Took, Stdout: stdout.stream(), Stderr: stderr.stream(),
	}
	if out.Err == nil && out.Exit >= 0 {
		r.Exit = &out.Exit
	}
	if r.Ended = inside.over(); !r.Ended {
		return r, fault.New("INTERNAL", "processes of the sandbox could not be ended")
	}
	switch {
	case out.Err == nil || r.TimedOut:
		return r, nil
	case ctx.Err() != nil:
		return r, fault.New("CANCELLED", "the command was cancelled")
	case errors.Is(out.Err, herdrcli.ErrTooLong):
		return nil, fault.New("INVALID_ARGUMENT", "the command is longer than the system takes")
	case errors.Is(out.Err, herdrcli.ErrResources):
		return nil, fault.New("INTERNAL", "the system has no room for another process or open file now")
	}
	return nil, fault.New("VERIFY_UNAVAILABLE", "bubblewrap cannot be started")
}

// A progress is what bubblewrap tells of a sandbox.
type progress struct {
	first *os.Process // the first process inside: with it end all others
	exit  *int        // of the command; nil: it has not begun, or not ended by itself
}

// read reads what bubblewrap tells until it ends. The first line comes before
// anything runs inside.
func (p *progress) read(status *os.File) {
	for lines := bufio.NewScanner(status); lines.Scan(); {
		var line struct {
			Child int  `json:"child-pid"`
			Exit  *int `json:"exit-code"`
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		if line.Child > 1 && p.first == nil {
			p.first, _ = os.FindProcess(line.Child)
		}
		if line.Exit != nil {
			p.exit = line.Exit
		}
	}
}

// over waits until all processes inside are gone. bubblewrap ends when the
// command does, or at a signal: whatever else runs inside is then being killed
// by the kernel, but may still write.
func (p *progress) over() bool {
	if p.first == nil { // nothing was made
		return true
	}
	defer p.first.Release()
	return end(p.first, endTime) // if bubblewrap was killed early, it has not told the kernel yet to kill
}
