// Package crash is a harness for tests of toolset mesh: it runs a sequence of
// operations in a process of its own that is killed before the nth file
// operation, or in which that operation fails, for every n. What the process
// leaves is then looked at by a test.
//
// It is not part of the program.
package crash

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/twin"
)

// A Play is a sequence of operations.
type Play struct {
	Name string
	// Run does it, in a process of its own, in a folder that Prepare has filled.
	// A step that is no file operation can be announced to d.Before as well. The
	// answer is what a caller would get in the end.
	Run func(ctx context.Context, dir string, d *disk.Disk) (answer any, err error)
	// Prepare fills an empty folder; nil: it stays empty. It returns variables
	// for the environment of the process, such as those of a simulated Herdr.
	Prepare func(t *testing.T, dir string) (env []string)
	// Lock says that the play is about the store lock: then each step of taking it
	// and of giving it back is tried, too. Otherwise the last of the one and the
	// first of the other stand for all, unless the tests run with -every-step.
	Lock bool
	// Skip, if not nil, says whether a step need not be tried, since another play
	// has one like it; before are the steps before it. With -every-step it is.
	Skip func(before []string, op string) bool
	// Check looks at what is left. Everything that ran in the process is over.
	Check func(t *testing.T, end End)
}

// An End is how a play came to its end.
type End struct {
	Dir    string
	Env    []string // as Prepare returned it
	Step   int      // the first is 1; 0: nothing happened to it
	Op     string   // the operation of that step, and the base of its path; "answer": all was done, but nobody heard of it
	Killed bool     // before that step; else the step failed, if there is one
	Code   string   // of the fault that Run returned; "" also if it was killed
	Answer json.RawMessage
	Ops    []string // what the process did, the last one not any more; nil if it was killed
}

const (
	playVariable = "HERDR_LINK_CRASH_PLAY"
	dirVariable  = "HERDR_LINK_CRASH_DIR"
	stepVariable = "HERDR_LINK_CRASH_STEP" // a number; negative: the step fails
)

// patience is how long a process may take.
const patience = time.Minute

// Main runs a play and ends the process, if this is the process of one. TestMain
// calls it first.
func Main(plays ...Play) {
	name := os.Getenv(playVariable)
	if name == "" {
		return
	}
	for _, p := range plays {
		if p.Name == name {
			p.act()
			os.Exit(0)
		}
	}
	fmt.Fprintln(os.Stderr, "no such play:", name)
	os.Exit(2)
}

func (p Play) act() {
	step, _ := strconv.Atoi(os.Getenv(stepVariable))
	var end End
	count := func(op string) error {
		end.Ops = append(end.Ops, op)
		switch len(end.Ops) {
		case step:
			die()
		case -step:
			return errors.New("this operation was told to fail")
		}
		return nil
	}
	d := &disk.Disk{Before: func(op, path string) error { return count(op + " " + filepath.Base(path)) }}
	answer, err := p.Run(context.Background(), os.Getenv(dirVariable), d)
	if err != nil {
		end.Code = fault.Code(err)
		if end.Code == "" {
			fmt.Fprintln(os.Stderr, "not a fault:", err)
			os.Exit(3)
		}
	}
	if end.Answer, err = json.Marshal(answer); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
	_ = count("answer")
	_ = json.NewEncoder(os.Stdout).Encode(end)
}

func die() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {}
}

// everyStep is for a longer run, now and then: make crash.
var everyStep = flag.Bool("every-step", false, "try each step in each play, also those that others stand for")

// ofLock reports whether a step is one of those of the store lock that another
// one stands for.
func ofLock(op string) bool {
	switch verb, name, _ := strings.Cut(op, " "); {
	case name == "owner.json" || name == ".reservation-flock":
		return true
	case strings.HasPrefix(name, ".reservation-lock."):
		return verb != "rename" // that gives it back
	}
	return false
}

// Each runs the play once as it is, then once for each of its steps with the
// process killed before it, and once with the step failing; each time in a
// folder of its own, with Check afterwards.
func (p Play) Each(t *testing.T) {
	whole := p.Once(t, 0)
	if whole.Code != "" {
		t.Fatalf("the play fails by itself: %s", whole.Code)
	}
	if len(whole.Ops) < 2 {
		t.Fatalf("the play has no steps: %q", whole.Ops)
	}
	for i, op := range whole.Ops {
		skip := ofLock(op) && !p.Lock || p.Skip != nil && p.Skip(whole.Ops[:i], op)
		if skip && !*everyStep {
			continue
		}
		t.Run(fmt.Sprintf("%02d %s/killed", i+1, op), func(t *testing.T) {
			t.Parallel()
			p.Once(t, i+1)
		})
		if op != "answer" {
			t.Run(fmt.Sprintf("%02d %s/failed", i+1, op), func(t *testing.T) {
				t.Parallel()
				p.Once(t, -i-1)
			})
		}
	}
}

// Once runs the play with the process killed before that step; with a negative
// number the step fails, and with 0 nothing happens. Where the test runs in a
// twin, the process has the race detector unless it is killed: up to there it has
// done what the whole play does.
func (p Play) Once(t *testing.T, step int) End {
	t.Helper()
	end := End{Dir: t.TempDir(), Step: max(step, -step), Killed: step > 0}
	if p.Prepare != nil {
		end.Env = p.Prepare(t, end.Dir)
	}
	program, err := os.Executable()
	if !end.Killed {
		program, err = twin.Original()
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(append(os.Environ(), end.Env...), "GORACE=atexit_sleep_ms=0", playVariable+"="+p.Name, dirVariable+"="+end.Dir, stepVariable+"="+strconv.Itoa(step))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if end.Killed {
		if len(out) > 0 || err == nil || cmd.ProcessState.ExitCode() > 0 || ctx.Err() != nil {
			t.Fatalf("it was not killed at step %d: %v, %q", step, err, out)
		}
	} else {
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		var said End
		if err := json.Unmarshal(out, &said); err != nil {
			t.Fatalf("step %d: %v: %q", step, err, out)
		}
		end.Code, end.Answer, end.Ops = said.Code, said.Answer, said.Ops
		if end.Step > 0 && len(said.Ops) < end.Step {
			t.Fatalf("there was no step %d: %q", end.Step, said.Ops)
		}
		if end.Step > 0 {
			end.Op = said.Ops[end.Step-1]
		}
	}
	p.Check(t, end)
	return end
}
