package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"text/tabwriter"
	"time"

	"herdr-link/probe"
)

func probeCommand() command {
	var list, own bool
	var pattern string
	var patience time.Duration
	return command{
		name: "probe", usage: "probe [--list] [--run PATTERN] [--own] [--patience TIME] [-- COMMAND ARGS…]",
		short: "check a server of herdr-link/1 over stdio",
		long: `Starts the server that COMMAND is, or this program if there is none, against a simulated Herdr, and checks what it
promises, over stdio. Prints a line for each check, and exits 1 if one failed. Your own Herdr is not touched.

  --list            print the checks and what they expect, and run none
  --run PATTERN     only those whose names match (errors/*-down) or begin so (send/)
  --own             COMMAND is this program by another way: run the checks that only it promises, too
  --patience TIME   how long to wait for each answer (10s); more for a server that starts slowly`,
		flags: func(f *flag.FlagSet) {
			f.BoolVar(&list, "list", false, "")
			f.BoolVar(&own, "own", false, "")
			f.StringVar(&pattern, "run", "", "")
			f.DurationVar(&patience, "patience", 10*time.Second, "")
		},
		run: func(ctx context.Context, p *Process, _ *flag.FlagSet, args []string) error {
			checks := probe.Select(pattern)
			if len(checks) == 0 {
				return usagef("no check is called %.64q; see herdr-link probe --list", pattern)
			}
			if patience <= 0 {
				return usagef("--patience needs a time above zero, like 10s")
			}
			if list {
				return printChecks(p, checks)
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("herdr-link: this program cannot find itself: %w", err)
			}
			o := probe.Options{Checks: checks, Command: args, Own: own, Home: true, Environ: p.Environ, Herdr: self, Patience: patience}
			if len(args) > 0 {
				if _, err := exec.LookPath(args[0]); err != nil {
					return usagef("%.64q cannot be started; checks are selected with --run", args[0])
				}
			} else {
				o.Command, o.Own, o.Home = []string{self}, true, false
			}
			report, err := probe.Run(ctx, o, p.Stdout)
			if err != nil || report.Failed > 0 {
				return errors.Join(err, errSaid)
			}
			return nil
		},
	}
}

func printChecks(p *Process, checks []probe.Check) error {
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	for _, c := range checks {
		mark := ""
		if c.Own {
			mark = " (only herdr-link's own binary)"
		}
		fmt.Fprintf(w, "%s\t%s%s\n", c.Name, c.Expects, mark)
	}
	return w.Flush()
}
