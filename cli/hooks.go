package cli

import (
	"context"
	"flag"
	"fmt"

	"herdr-link/orchestration"
)

func hooksCommand() command {
	var force bool
	return command{
		name: "hooks", usage: "hooks install|uninstall|status [--force]",
		short: "keep agents from pushing what is not theirs, with Git's hooks",
		long: `The push policy for the agents of orchestration, by their SHEPHERD_MODE: workers and reviewers push nothing, a planner
only the branch that it is on, and never a protected one. Whoever has no such mode is not affected. The hooks are plain sh
scripts, which then run the hooks that Git would have run without them. It guards against mistakes and is no sandbox:
protect branches on the server. See docs/orchestration.md.

  install     write the hooks, and make them the global ones (core.hooksPath)
  uninstall   bring back the setting that there was, and remove what is unchanged
  status      print as JSON how it stands, here
  --force     of install: also if core.hooksPath is set already; its hooks run after the policy

A branch is protected if it is main, master, the remote's HEAD, or set in Git: git config --add orchestration.protectedBranch NAME`,
		flags: func(f *flag.FlagSet) { f.BoolVar(&force, "force", false, "") },
		run: func(ctx context.Context, p *Process, _ *flag.FlagSet, args []string) error {
			if len(args) != 1 {
				return usagef("usage: herdr-link hooks install|uninstall|status [--force]")
			}
			dir, err := orchestration.HooksDir(lookup(p.Environ))
			if err != nil {
				return fmt.Errorf("herdr-link: %w", err)
			}
			h := orchestration.Hooks{Dir: dir, Environ: p.Environ}
			switch args[0] {
			case "install":
				return hooksChange(p, func() (string, error) { return h.Install(ctx, force) })
			case "uninstall":
				return hooksChange(p, func() (string, error) { return h.Uninstall(ctx) })
			case "status":
				return hooksStatus(ctx, p, h)
			}
			return usagef("hooks knows install, uninstall and status, not %.64q", args[0])
		},
	}
}

// hooksChange makes a change and prints what was done.
func hooksChange(p *Process, change func() (done string, err error)) error {
	done, err := change()
	if err != nil {
		return fmt.Errorf("herdr-link: hooks: %w", err)
	}
	return printLine(p, []byte(done))
}

func hooksStatus(ctx context.Context, p *Process, h orchestration.Hooks) error {
	status, err := h.Status(ctx)
	if err != nil {
		return fmt.Errorf("herdr-link: hooks: %w", err)
	}
	return encodeIndented(p, status)
}
