package fakeherdr

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The kinds of [Fault].
const (
	Slow        = "slow"         // after Delay, as if nothing were wrong
	Hang        = "hang"         // never ends, never acts
	HangAfter   = "hang-after"   // acts, but says nothing and never ends
	Flood       = "flood"        // endless stdout, does not act
	FloodStderr = "flood-stderr" // endless stderr, does not act
	Garbage     = "garbage"      // exit 0, and stdout is not JSON
	Empty       = "empty"        // exit 0, and stdout is empty
	Shape       = "shape"        // exit 0, and stdout is JSON of the wrong shape
	Exit2       = "exit2"        // exit 2, and stderr is text, as from a client that lacks the command
	Debug       = "debug"        // exit 1, and stderr is Rust debug text; whether the server acted is unknown (it did not)
	Down        = "down"         // server_not_running
	Mismatch    = "mismatch"     // protocol_mismatch
	ErrorCode   = "code"         // exit 1 with Herdr's error Code, as from the server, which does not act
	Die         = "die"          // kills itself before it acts
	DieAfter    = "die-after"    // acts, but kills itself before it says so

	// Acts, prints, exits 0, but leaves a sleeping child behind: in the process
	// group of the call and on its stdout and stderr; in that group but on no
	// pipe; on both pipes, but in a group of its own, so that killing the
	// call's group does not reach it.
	Grandchild         = "grandchild"
	GrandchildQuiet    = "grandchild-quiet"
	GrandchildDetached = "grandchild-detached"
)

// A Fault makes calls go wrong. Usage errors still come first for those kinds
// in which the server, or the way to it, is at fault: down, mismatch, debug and
// code; a call that needs no server (--version) does not notice them. A call that
// waits acts before it waits, what comes after acting comes after the wait, and
// down ends a wait that has begun. All that sleeps ends when the scene's
// directory is removed.
type Fault struct {
	Match    []string      // how argv begins, without argv[0] and global options; empty: any call
	Kind     string        // one of the constants
	Delay    time.Duration // slept before anything else, with every kind
	Left     int           // how many calls it hits before it is gone; 0: all
	Code     string        // of ErrorCode: "agent_name_taken"
	Text     string        // instead of the usual text of garbage, shape, debug or code (there: the message)
	Protocol int           // of Mismatch: the server's; 0: 21, newer than the client's 20
}

func (f Fault) check() error {
	switch f.Kind {
	case Slow, Hang, HangAfter, Flood, FloodStderr, Garbage, Empty, Shape, Exit2, Debug, Down, Mismatch,
		Die, DieAfter, Grandchild, GrandchildQuiet, GrandchildDetached:
		return nil
	case ErrorCode:
		if f.Code != "" {
			return nil
		}
		return fmt.Errorf("fault %q has no code", f.Kind)
	}
	return fmt.Errorf("unknown kind of fault: %q", f.Kind)
}

func (w *World) fault(args []string) int {
	return slices.IndexFunc(w.Faults, func(f Fault) bool {
		return len(f.Match) <= len(args) && slices.Equal(f.Match, args[:len(f.Match)])
	})
}

// takeFault returns the fault that hits a call, and counts it. Its zero value
// is none.
func (s *Scene) takeFault(args []string) (Fault, error) {
	w, err := s.World()
	if err != nil {
		return Fault{}, err
	}
	i := w.fault(args)
	if i < 0 {
		return Fault{}, nil
	}
	if w.Faults[i].Left == 0 {
		return w.Faults[i], nil
	}
	var hit Fault
	return hit, s.Update(func(w *World) error {
		i := w.fault(args) // again: another call may have taken the last
		if i < 0 {
			return nil
		}
		hit = w.Faults[i]
		switch hit.Left {
		case 0:
		case 1:
			w.Faults = slices.Delete(w.Faults, i, i+1)
		default:
			w.Faults[i].Left--
		}
		return nil
	})
}

// before is what a fault does instead of the call, if anything.
func (c *call) before() (exit int, instead bool) {
	switch f := c.fault; f.Kind {
	case Hang:
		c.scene.sleep()
	case Die:
		die()
	case Flood:
		return flood(c.stdout), true
	case FloodStderr:
		return flood(c.stderr), true
	case Garbage:
		return c.say(0, f.or("herdr: \x1b[2mall panes are fine\x1b[0m {\n"), ""), true
	case Empty:
		return c.say(0, "", ""), true
	case Shape:
		return c.say(0, f.or(`{"id":"cli:shape","result":[{"agent":"lead","type":7}]}`+"\n"), ""), true
	case Exit2:
		return c.say(2, "", c.unknown()), true
	}
	return 0, false
}

func (f Fault) or(text string) string {
	if f.Text != "" {
		return f.Text
	}
	return text
}

// server is the fault of the server or of the way to it, as an error of those
// that run reports; nil if all is well there.
func (c *call) server(socket string) error {
	switch f := c.fault; f.Kind {
	case Down:
		return notRunning(socket)
	case Mismatch:
		return mismatch(f.Protocol, socket)
	case Debug:
		return debug(f.or("Custom { kind: Other, error: EmptyResponse }"))
	case ErrorCode:
		return failure{f.Code, f.or("the scene was told to answer " + f.Code)}
	}
	return nil
}

// after is what a fault does once the call has acted and before it prints.
func (c *call) after() error {
	switch c.fault.Kind {
	case HangAfter:
		c.scene.sleep()
	case DieAfter:
		die()
	case Grandchild, GrandchildQuiet, GrandchildDetached:
		return c.leaveChild()
	}
	return nil
}

const sleepVariable = "FAKEHERDR_SLEEP"

// leaveChild starts this program again, as one that only sleeps.
func (c *call) leaveChild() error {
	attr := &os.ProcAttr{
		Env:   append(os.Environ(), sleepVariable+"=1"),
		Files: make([]*os.File, 3),
	}
	if c.fault.Kind != GrandchildQuiet {
		attr.Files[1], _ = c.stdout.(*os.File)
		attr.Files[2], _ = c.stderr.(*os.File)
	}
	if c.fault.Kind == GrandchildDetached {
		attr.Sys = ownGroup()
	}
	child, err := os.StartProcess(c.scene.Bin(), []string{c.scene.Bin()}, attr)
	if err != nil {
		return err
	}
	if err := c.scene.note(note{PID: os.Getpid(), Child: child.Pid}); err != nil {
		return err
	}
	return child.Release()
}

// sleep never returns. It ends the process when the scene is gone, so that no
// test leaves anything behind; then it must not write, or it would bring the
// directory back to life while it is being removed.
func (s *Scene) sleep() {
	for {
		if _, err := os.Stat(filepath.Join(s.dir, worldFile)); os.IsNotExist(err) {
			os.Exit(1)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// die is SIGKILL, or what is most like it.
func die() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		p.Kill()
	}
	for {
		time.Sleep(time.Second)
	}
}
