// Package cli is the command line: flags, environment, files and signals, and
// the one place where all other packages meet.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"herdr-link/fakeherdr"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the command ran and failed, or found something wrong
	exitUsage  = 2
)

// A Process is what a command may touch of the world.
type Process struct {
	Args    []string // with the program's name in front
	Environ []string
	Stdin   *os.File
	Stdout  *os.File
	Stderr  io.Writer
	Version string
}

// A command is one word of the command line.
type command struct {
	name  string
	usage string // after "herdr-link "
	short string // one line for the overview; empty: not for people, and not there
	long  string // for its own help
	run   func(ctx context.Context, p *Process, flags *flag.FlagSet, args []string) error
	flags func(*flag.FlagSet)                                        // defines its options
	raw   func(ctx context.Context, p *Process, args []string) error // instead of run: reads its words itself
	text  bool                                                       // behind its first word comes text, so that --help there may be meant as such
}

// commands returns them in the order of the overview. The first one has no
// name: it is what a host starts.
func commands() []command {
	return []command{
		serveCommand(),
		peersCommand(),
		sendCommand(),
		closeCommand(),
		bootstrapCommand(),
		toolsCommand(),
		callCommand(),
		installCommand(),
		uninstallCommand(),
		statusCommand(),
		doctorCommand(),
		hintCommand(),
		hooksCommand(),
		orchestrationCommand(),
		agentControlCommand(),
		probeCommand(),
		demoCommand(),
		versionCommand(),
	}
}

// Main runs the command line and returns the exit code. Before anything else
// it plays herdr if it was started in that role by a scene of fakeherdr.
func Main(p *Process) int {
	if dir, ok := fakeherdr.Role(p.Args[0]); ok {
		return fakeherdr.Main(dir, p.Args[1:], os.Getenv, p.Stdout, p.Stderr)
	}
	p.Environ = told(p.Environ)
	ctx, stop := untilEnd()
	defer stop()
	err := dispatch(ctx, p)
	var usage *usageError
	var exit exitStatus
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &usage):
		fmt.Fprintf(p.Stderr, "herdr-link: %v\n", usage)
		return exitUsage
	case !errors.Is(err, errSaid):
		fmt.Fprintln(p.Stderr, err)
	}
	return exitFailed
}

// errSaid is a failure that has been printed already.
var errSaid = errors.New("failed")

// An exitStatus ends the program with that code. All else has been said.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// A usageError is a mistake in how the program was started.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

func dispatch(ctx context.Context, p *Process) error {
	args := p.Args[1:]
	if isControl(p.Args[0]) {
		args = append([]string{controlName}, args...)
	}
	all := commands()
	c := all[0]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name := args[0]
		args = args[1:]
		if name == "help" {
			return help(p, all, args)
		}
		found := false
		for _, d := range all[1:] {
			if d.name == name {
				c, found = d, true
			}
		}
		if !found {
			return usagef("no such command: %.64q; see herdr-link --help", name)
		}
	} else if len(args) == 1 && args[0] == "--version" {
		return printVersion(p, false)
	}
	if c.raw != nil {
		return c.raw(ctx, p, args)
	}
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	if c.flags != nil {
		c.flags(flags)
	}
	rest, err := parse(flags, args, c.text)
	switch {
	case errors.Is(err, flag.ErrHelp):
		if c.name == "" {
			return help(p, all, nil)
		}
		return help(p, all, []string{c.name})
	case err != nil:
		return usagef("%v; see herdr-link %s", err, strings.TrimSpace(c.name+" --help"))
	}
	return c.run(ctx, p, flags, rest)
}

// parse reads options wherever they stand before "--", and returns the words
// between and behind them.
func parse(flags *flag.FlagSet, args []string, text bool) (words []string, err error) {
	var behind []string
	for i, arg := range args {
		if arg == "--" {
			args, behind = args[:i], args[i+1:]
			break
		}
	}
	for len(args) > 0 {
		if err := flags.Parse(args); err != nil {
			if text && len(words) > 0 && errors.Is(err, flag.ErrHelp) {
				return nil, errors.New(behindDashes)
			}
			if err = asTyped(err, args[:len(args)-flags.NArg()]); text && len(words) > 0 && strings.HasPrefix(err.Error(), noOption) {
				err = fmt.Errorf("%w (%s)", err, behindDashes)
			}
			return nil, err
		}
		args = flags.Args()
		if len(args) > 0 {
			words, args = append(words, args[0]), args[1:]
		}
	}
	return append(words, behind...), nil
}

const noOption = "no such option: "

const behindDashes = "a text that begins with a dash stands behind --"

// asTyped says what was wrong with an option, which package flag names with one
// dash, however it was typed. It is the last of args, or its value is.
func asTyped(err error, args []string) error {
	text := err.Error()
	if typed, ok := strings.CutPrefix(text, "bad flag syntax: "); ok {
		return fmt.Errorf(noOption+"%.64s", typed)
	}
	for _, typed := range slices.Backward(args[max(0, len(args)-2):]) {
		typed, _, _ := strings.Cut(typed, "=")
		flagName := "-" + strings.TrimLeft(typed, "-")
		switch before, reason, found := strings.Cut(text, flagName+": "); {
		case !strings.HasPrefix(typed, "-"):
		case strings.HasPrefix(text, "flag needs an argument: ") && strings.HasSuffix(text, " "+flagName):
			return fmt.Errorf("%.64s needs a value", typed)
		case strings.HasPrefix(text, "flag provided but not defined: "):
			return fmt.Errorf(noOption+"%.64s", typed)
		case found:
			return fmt.Errorf("%s%.64s: %s", strings.TrimSuffix(before, "flag "), typed, reason)
		}
	}
	return err
}

func help(p *Process, all []command, args []string) error {
	if len(args) == 0 {
		return print(p, overview(all))
	}
	for _, c := range all[1:] {
		if c.name == args[0] {
			return print(p, "Usage: herdr-link "+c.usage+"\n\n"+c.long+"\n")
		}
	}
	return usagef("no such command: %.64q; see herdr-link --help", args[0])
}

func overview(all []command) string {
	var b strings.Builder
	b.WriteString("herdr-link lets the coding agents in the panes of a Herdr workspace talk to each other.\n\n")
	fmt.Fprintf(&b, "Usage: herdr-link %s\n       herdr-link COMMAND [OPTIONS]   (herdr-link COMMAND --help says more)\n\n", all[0].usage)
	b.WriteString(all[0].long + "\n\nCommands:\n")
	for _, c := range all[1:] {
		if c.short != "" {
			fmt.Fprintf(&b, "  %-13s %s\n", c.name, c.short)
		}
	}
	b.WriteString(environmentHelp)
	return b.String()
}

const environmentHelp = `
Environment:
  HERDR_ENV, HERDR_BIN_PATH, HERDR_PANE_ID   set by Herdr in its panes; without them every call is NOT_IN_HERDR
  HERDR_LINK_OFF=1        switch herdr-link off, for an agent inside another agent's pane
  HERDR_LINK_EAGER=1      as --eager
  HERDR_LINK_ERA          as --era
  HERDR_LINK_TOOLSETS     as --toolsets
  HERDR_LINK_CLI_TIMEOUT_MS     control: a ceiling for each Herdr call, 1000 to 3600000
  HERDR_LINK_PREVIEW_REQUIRED=1 control: type nothing that has not been previewed
  HERDR_LINK_AGENT_ARGS=any     control: start agents with any arguments
  AGENT_CONTROL_CONTROLLER_ID   agent-control: the id of the controller whose agent runs it
  HERDR_MESH_STATE_DIR          mesh: where its records are (default .local/state/herdr-mesh of the home folder)
  HERDR_LINK_MESH_UNPROVEN_CALLER=1  mesh: a server that cannot be proved to run in its pane may have authority
  HERDR_LINK_VERIFY_NODE        mesh: the version of node on the PATH of a verification (default 22.22.2)
  HERDR_LINK_CALLER_ROLE  as --caller-role
  HERDR_LINK_TIMEOUT      time of each Herdr call, such as 5s (default 10s)
  HERDR_LINK_LOG          a file for JSON lines about each call, never with a message's text
`
