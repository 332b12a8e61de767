package fakeherdr

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Main plays one call of herdr in the scene in dir and returns its exit status:
// 0, 1 and 2 as the real one does, 70 if the scene itself cannot be used. args
// are those after argv[0]. For some faults it ends the process or never returns,
// so only a process that is herdr may call it.
func Main(dir string, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	c := &call{scene: &Scene{dir}, getenv: getenv, stdout: stdout, stderr: stderr}
	if getenv(sleepVariable) != "" {
		c.scene.sleep()
	}
	pid := os.Getpid()
	if err := c.scene.note(note{PID: pid, Args: append([]string{}, args...)}); err != nil {
		return c.finish("", nil, err)
	}
	exit := c.play(args)
	if err := c.scene.note(note{PID: pid, Exit: &exit}); err != nil {
		return c.finish("", nil, err)
	}
	return exit
}

// A call is one run of herdr.
type call struct {
	scene          *Scene
	getenv         func(string) string
	stdout, stderr io.Writer

	args  []string // without global options
	fault Fault
}

func (c *call) play(argv []string) int {
	for i, arg := range argv {
		if !utf8.ValidString(arg) {
			return c.finish("", nil, usage("argument "+strconv.Itoa(i+1)+" is not valid UTF-8"))
		}
	}
	args, session, optionErr := cutGlobals(argv)
	c.args = args
	var err error
	if c.fault, err = c.scene.takeFault(args); err != nil {
		return c.finish("", nil, err)
	}
	time.Sleep(c.fault.Delay)
	if exit, instead := c.before(); instead {
		return exit
	}
	if optionErr != nil {
		return c.finish("", nil, optionErr)
	}
	for _, cmd := range c.commands() {
		if len(args) >= len(cmd.words) && slices.Equal(cmd.words, args[:len(cmd.words)]) {
			result, err := c.run(cmd, args[len(cmd.words):], session)
			return c.end(cmd.id(), result, err)
		}
	}
	if len(args) > 0 && args[0] == "status" {
		return c.status(session)
	}
	return c.other()
}

// run is a command from its arguments to the server's answer.
func (c *call) run(cmd command, args []string, session string) (result any, err error) {
	req, err := cmd.parse(cmd, args)
	if err != nil {
		return nil, err
	}
	if !req.local {
		if err := c.reach(session); err != nil {
			return nil, err
		}
	}
	if result, err = c.ask(req); err != nil {
		return nil, err
	}
	if wait, ok := result.(pending); ok {
		return wait()
	}
	return result, nil
}

func (c *call) ask(req request) (result any, err error) {
	if !req.writes {
		w, err := c.scene.World()
		if err != nil {
			return nil, err
		}
		return req.run(c.scene, w, time.Now())
	}
	err = c.scene.Update(func(w *World) (err error) {
		result, err = req.run(c.scene, w, time.Now()) // the clock is read under the lock: inputs are in order
		return err
	})
	return result, err
}

// end lets a fault have its way with a call that has acted, then prints.
func (c *call) end(id string, result any, err error) int {
	if err2 := c.after(); err2 != nil {
		return c.finish("", nil, err2)
	}
	return c.finish(id, result, err)
}

// other answers what the table does not have.
func (c *call) other() int {
	if slices.Equal(c.args, []string{"--version"}) {
		w, err := c.scene.World()
		if err != nil {
			return c.finish("", nil, err)
		}
		if err := c.after(); err != nil {
			return c.finish("", nil, err)
		}
		return c.say(0, "herdr "+w.client()+"\n", "")
	}
	if len(c.args) == 0 {
		return c.say(1, "", "fakeherdr has no screen to show\n")
	}
	if help := groupUsage(c.args[0]); help != "" {
		return c.say(2, "", help)
	}
	return c.say(2, "", c.unknown())
}

func (c *call) unknown() string {
	what := "command"
	if len(c.args) == 0 {
		return hint
	}
	if strings.HasPrefix(c.args[0], "-") {
		what = "option"
	}
	return "unknown " + what + ": " + c.args[0] + "\n" + hint
}

const hint = "run 'herdr --help' for usage\n"
