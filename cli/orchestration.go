package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/hosts"
	"herdr-link/orchestration"
	"herdr-link/response"
)

// teamFlags are the options of the command orchestration.
type teamFlags struct {
	orchestration.Options
	configDir string
	withHooks bool
	check     bool
}

// teamCommands are its words, and which options each takes.
var teamCommands = map[string][]string{
	"install":   {"config-dir", "worker-model", "reviewer-model", "allow-tool", "no-session-hooks", "with-hooks", "no-validate", "dry-run", "force"},
	"uninstall": {"config-dir", "with-hooks"},
	"status":    {"config-dir", "check"},
	"interrupt": {},
	"respond":   {},
}

func orchestrationCommand() command {
	var o teamFlags
	return command{
		name: "orchestration", usage: "orchestration install|uninstall|status|interrupt [OPTIONS]",
		short: "six roles for OpenCode: two that lead, four that work",
		long: `install writes a plugin and its data into OpenCode's folder: two agents that lead (shepherd-plan, shepherd-build) and four
that work for them, with the rules and models of each. No file of yours is edited: what you set for these agents in your
own files still wins. uninstall takes away what is as it was written. See docs/orchestration.md.

  install [OPTIONS]
    --worker-model PROVIDER/MODEL     the model of sheep-plan and sheep-build
    --reviewer-model PROVIDER/MODEL   the model of the reviewers; inherit: the one that is active, for both options
    --allow-tool NAME                 one more tool for shepherd-build; may be repeated
    --no-session-hooks                keep the push policy out of the shells of these agents
    --with-hooks                      do hooks install, too
    --no-validate                     do not ask OpenCode whether it takes the agents
    --dry-run                         show what would change, and change nothing
    --force                           replace files that are not as herdr-link left them; a copy is kept
  uninstall [--with-hooks]
  status [--check]                    JSON; with --check exit 1 unless all is well
  interrupt TARGET                    press ctrl+c in the pane of an OpenCode that works, of the own workspace: it ends

  --config-dir DIR    OpenCode's folder, if it is not the usual one

OpenCode must be started anew to see a change.`,
		flags: o.define,
		run: func(ctx context.Context, p *Process, flags *flag.FlagSet, args []string) error {
			if len(args) == 0 {
				return usagef("orchestration needs one of install, uninstall, status, interrupt")
			}
			takes, ok := teamCommands[args[0]]
			if !ok {
				return usagef("orchestration knows install, uninstall, status and interrupt, not %.64q", args[0])
			}
			var stray error
			flags.Visit(func(f *flag.Flag) {
				if !slices.Contains(takes, f.Name) {
					stray = usagef("orchestration %s has no option --%s", args[0], f.Name)
				}
			})
			if stray != nil {
				return stray
			}
			if args[0] == "interrupt" {
				if len(args) != 2 {
					return usagef("usage: herdr-link orchestration interrupt TARGET")
				}
				return interrupt(ctx, p, args[1])
			}
			if len(args) > 1 {
				return usagef("orchestration %s takes no arguments", args[0])
			}
			return watched(ctx, p, options{}, func(ctx context.Context, c *config) error {
				if args[0] == "respond" { // what the plugin runs, and no command for people
					return respond(ctx, p, c)
				}
				return o.run(ctx, p, args[0])
			})
		},
	}
}

func (o *teamFlags) define(f *flag.FlagSet) {
	f.StringVar(&o.configDir, "config-dir", "", "")
	f.StringVar(&o.WorkerModel, "worker-model", "", "")
	f.StringVar(&o.ReviewerModel, "reviewer-model", "", "")
	f.Func("allow-tool", "", func(name string) error {
		if !orchestration.IsTool(name) {
			return fmt.Errorf("no tool that can be added")
		}
		if !slices.Contains(o.AllowTools, name) {
			o.AllowTools = append(o.AllowTools, name)
		}
		return nil
	})
	f.BoolVar(&o.NoSessionHooks, "no-session-hooks", false, "")
	f.BoolVar(&o.withHooks, "with-hooks", false, "")
	f.BoolVar(&o.NoValidate, "no-validate", false, "")
	f.BoolVar(&o.DryRun, "dry-run", false, "")
	f.BoolVar(&o.Force, "force", false, "")
	f.BoolVar(&o.check, "check", false, "")
}

func (o *teamFlags) run(ctx context.Context, p *Process, word string) error {
	for name, model := range map[string]string{"--worker-model": o.WorkerModel, "--reviewer-model": o.ReviewerModel} {
		if model != "" && model != orchestration.Inherit && !orchestration.IsModel(model) {
			return usagef("%s must be PROVIDER/MODEL or inherit, not %.64q", name, model)
		}
	}
	m, err := hosts.Here(lookup(p.Environ))
	if err != nil {
		return fmt.Errorf("herdr-link: %w", err)
	}
	i, err := o.installer(p, m)
	if err != nil {
		return fmt.Errorf("herdr-link: %w", err)
	}
	h := orchestration.Hooks{Dir: i.Data.Hooks, Environ: p.Environ}
	if word == "status" {
		return o.status(ctx, p, i, h)
	}
	i.Policy = o.policy(h, word)
	i.Asking = func() {
		fmt.Fprintln(p.Stderr, "asking OpenCode whether it takes the agents; the first time that can take minutes, since it installs a package of its own")
	}
	var done orchestration.Report
	if word == "uninstall" {
		done, err = i.Uninstall(ctx)
	} else {
		if why := m.Stays(i.Data.Program); why != "" {
			return fmt.Errorf("herdr-link: %s is no path for a configuration: %s\nPut the program into a folder that stays, such as ~/.local/bin, and call it there", i.Data.Program, why)
		}
		done, err = i.Install(ctx, o.Options)
	}
	if err != nil {
		return fmt.Errorf("herdr-link: %w", err)
	}
	return print(p, strings.Join(done, "\n")+"\n")
}

// installer is for OpenCode's folder as the option or the environment has it.
func (o *teamFlags) installer(p *Process, m hosts.Machine) (i orchestration.Installer, err error) {
	config := m.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		config = filepath.Join(m.Home, ".config")
	}
	usual := filepath.Join(config, "opencode")
	dir, err := filepath.Abs(or(o.configDir, m.Getenv("OPENCODE_CONFIG_DIR"), usual))
	if err != nil {
		return i, err
	}
	program, err := invoked(p)
	if err != nil {
		return i, err
	}
	forced := ""
	if o.configDir != "" {
		forced = dir
	}
	settings := orchestration.Settings{Dirs: []string{dir}, Project: m.Dir}
	if dir != usual {
		settings.Dirs = append(settings.Dirs, usual)
	}
	if file := m.Getenv("OPENCODE_CONFIG"); file != "" {
		settings.Files = append(settings.Files, file)
	}
	hooks, err := orchestration.HooksDir(m.Getenv)
	if err != nil {
		return i, err
	}
	tool, err := answerTool()
	if err != nil {
		return i, err
	}
	return orchestration.Installer{
		Place:    orchestration.Place{Dir: dir, Home: m.Home},
		Settings: settings,
		OpenCode: orchestration.FindOpenCode(m.Getenv("PATH"), forced, p.Environ),
		Data: orchestration.Data{
			Program: program, Version: p.Version, Hooks: hooks, Tool: tool,
		},
		Now: time.Now,
	}, nil
}

// answerTool is the tool of the toolset response, as OpenCode takes it.
func answerTool() (t orchestration.Tool, err error) {
	tool := response.New(response.Options{}).Tools()[0]
	var schema struct{ Properties json.RawMessage }
	err = json.Unmarshal(tool.InputSchema, &schema)
	return orchestration.Tool{Description: tool.Description, Properties: schema.Properties}, err
}

// policy is what a word does for the push policy: its hooks are for the shells
// of OpenCode's agents, unless these do without, and for all of Git with --with-hooks.
func (o *teamFlags) policy(h orchestration.Hooks, word string) func(context.Context) (string, error) {
	if word == "install" {
		return func(ctx context.Context) (string, error) { return o.enforce(ctx, h) }
	}
	return func(ctx context.Context) (done string, err error) {
		kept, err := h.UninstallSession(ctx)
		if len(kept) > 0 {
			done = "kept      " + strings.Join(kept, "\nkept      ")
		}
		if err == nil && o.withHooks {
			done, err = h.Uninstall(ctx)
		}
		return done, err
	}
}

// enforce installs the policy. Where only sessions would have it and Git cannot
// do that, this is said, and is no failure; after one all is as it was.
func (o *teamFlags) enforce(ctx context.Context, h orchestration.Hooks) (done string, err error) {
	var undo func() error
	if !o.NoSessionHooks {
		undo, err = h.InstallSession(ctx)
	}
	if err == nil && o.withHooks {
		done, err = h.Install(ctx, false)
	}
	if err == nil && o.NoSessionHooks {
		_, err = h.UninstallSession(ctx)
	}
	switch {
	case err == nil && !o.withHooks && !o.NoSessionHooks:
		return "the hooks of the push policy, for the shells of these agents, are in " + h.Dir, nil
	case err == nil:
		return done, nil
	case !o.withHooks && ctx.Err() == nil:
		return "the push policy is not in the shells of these agents: " + err.Error(), nil
	}
	if undo != nil {
		err = errors.Join(err, undo())
	}
	return "", err
}

func (o *teamFlags) status(ctx context.Context, p *Process, i orchestration.Installer, h orchestration.Hooks) error {
	getenv := lookup(p.Environ)
	s := i.Status(ctx, herdrcli.New(herdrcli.Options{Bin: getenv("HERDR_BIN_PATH"), Path: getenv("PATH"), Environ: p.Environ}))
	hooks, err := h.Status(ctx)
	if err != nil {
		s.Conflicts = append(s.Conflicts, err.Error())
	} else {
		s.Hooks = &hooks
	}
	if err := encodeIndented(p, s); err != nil {
		return err
	}
	if o.check && !s.OK() {
		return errSaid
	}
	return nil
}

func interrupt(ctx context.Context, p *Process, target string) error {
	return watched(ctx, p, options{}, func(ctx context.Context, c *config) error {
		home, _ := os.UserHomeDir() // none: there can be no lock, and nothing is done
		err := orchestration.Interrupter{
			Getenv: c.getenv,
			Herdr:  herdrcli.New(herdrcli.Options{Bin: c.getenv("HERDR_BIN_PATH"), Environ: p.Environ, Timeout: c.timeout, Log: c.log}).For("interrupt"),
			Locks:  herdrcli.NewLocks(home),
		}.Interrupt(ctx, target)
		if err != nil {
			return fmt.Errorf("herdr-link: interrupt: %w", err)
		}
		return printLine(p, []byte("interrupted "+target))
	})
}
