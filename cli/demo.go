package cli

import (
	"context"
	"flag"
	"fmt"
	"os"

	"herdr-link/probe"
)

func demoCommand() command {
	return command{
		name: "demo", usage: "demo",
		short: "show two agents that talk, in a simulated Herdr",
		long: `Shows how two agents find each other, talk and part, step by step: two real servers of this program, one for each
agent, in a simulated Herdr. Your own Herdr, if there is one, is not touched. Exit 0 only if all of it happened.`,
		run: func(ctx context.Context, p *Process, _ *flag.FlagSet, args []string) error {
			if len(args) > 0 {
				return usagef("demo takes no arguments")
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("herdr-link: this program cannot find itself: %w", err)
			}
			o := probe.Options{Command: []string{self}, Own: true, Environ: p.Environ, Herdr: self}
			if err := probe.Demo(ctx, o, p.Stdout); err != nil {
				return fmt.Errorf("herdr-link: %w", err)
			}
			return nil
		},
	}
}
