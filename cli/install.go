package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"herdr-link/contract"
	"herdr-link/hosts"
	"herdr-link/response"
)

// hostFlags are the options of install and uninstall.
type hostFlags struct {
	hosts.Options
	all      bool
	print    string
	toolsets *string
}

func installCommand() command {
	var o hostFlags
	return command{
		name: "install", usage: "install [OPTIONS] [HOST…]",
		short: "register herdr-link with the agent hosts of this machine",
		long: `Registers this program, by the path that it is called with, in the configuration of each HOST, or of all hosts that
are found here. What else is in a file stays as it is; before the first change a copy is kept beside it, called
*.herdr-link.bak. Prints a line a host: what was done, where, and what is left to do. See docs/hosts.md.

  --dry-run            show what would change, and change nothing
  --print HOST         print the entry alone, for files that you keep yourself; with --allow and --hint also what these add.
                       On stderr stands which file each part is for
  --all                also those that are not found here
  --project            the project's file in this folder, with the program's bare name
  --mcp                an MCP entry also for OpenCode and Pi, which get an adapter otherwise
  --allow              let the host not ask before herdr_link, its peers and send (never close)
  --hint               add the hint at the start of a session (claude, codex, agy)
  --force              replace an entry of our name that is not ours
  --npx                start it by npx, to try it out
  --toolsets LIST      the toolsets that the server offers; without it those that its entry has, at first link alone.
                       --toolsets link goes back to that
  --caller-role ROLE   the caller's role, for the toolset response: ` + roleNames() + `;
                       without it the one that its entry has

What you added to an entry of ours by hand stays: other members, variables, and the options --response-hosts,
--max-session-bytes and --era.

HOST is one of: ` + hostNames(),
		flags: func(f *flag.FlagSet) {
			o.common(f)
			f.BoolVar(&o.all, "all", false, "")
			f.StringVar(&o.print, "print", "", "")
			f.BoolVar(&o.NPX, "npx", false, "")
			f.BoolVar(&o.MCP, "mcp", false, "")
			f.BoolVar(&o.Allow, "allow", false, "")
			f.BoolVar(&o.Hint, "hint", false, "")
			f.StringVar(&o.CallerRole, "caller-role", "", "")
			f.Func("toolsets", "", func(list string) error {
				o.toolsets = &list
				return nil
			})
		},
		run: func(_ context.Context, p *Process, _ *flag.FlagSet, args []string) error { return install(p, o, args) },
	}
}

func (o *hostFlags) common(f *flag.FlagSet) {
	f.BoolVar(&o.Project, "project", false, "")
	f.BoolVar(&o.DryRun, "dry-run", false, "")
	f.BoolVar(&o.Force, "force", false, "")
}

func hostNames() string {
	var names []string
	for _, h := range hosts.Table() {
		if h.Why == "" {
			names = append(names, h.Name)
		}
	}
	return strings.Join(names, ", ")
}

// callerRoles are those that may read answers.
var callerRoles = []string{response.ShepherdPlan, response.ShepherdBuild, response.Coordinator}

func roleNames() string { return strings.Join(callerRoles, ", ") }

// chosen returns the hosts with these names; without names, those that are
// wanted.
func chosen(names []string, wanted func(hosts.Host) bool) ([]hosts.Host, error) {
	var all []hosts.Host
	for _, name := range names {
		h, ok := hosts.Find(name)
		if !ok {
			return nil, usagef("no such host: %.64q; there are: %s", name, hostNames())
		}
		if !slices.ContainsFunc(all, func(o hosts.Host) bool { return o.Name == name }) {
			all = append(all, h)
		}
	}
	if len(names) > 0 {
		return all, nil
	}
	return slices.DeleteFunc(hosts.Table(), func(h hosts.Host) bool { return !wanted(h) }), nil
}

func install(p *Process, o hostFlags, args []string) error {
	o.Version = p.Version
	if err := o.checkToolsets(p); err != nil {
		return err
	}
	if o.NPX && o.Project {
		return usagef("--npx and --project exclude each other: a project's file names a program that is on PATH")
	}
	m, err := hosts.Here(lookup(p.Environ))
	if err != nil {
		return fmt.Errorf("herdr-link: %w", err)
	}
	if !o.NPX && !o.Project {
		if o.Program, err = invoked(p); err != nil {
			return fmt.Errorf("herdr-link: %w", err)
		}
	}
	if o.print != "" {
		return printEntry(p, m, o, args)
	}
	all, err := chosen(args, func(h hosts.Host) bool { return h.Why == "" && (o.all || m.Found(h)) && (!o.Project || h.HasProject()) })
	if err != nil {
		return err
	}
	if o.Program != "" {
		if why := m.Stays(o.Program); why != "" {
			return fmt.Errorf("herdr-link: %s is no path for a configuration: %s\nPut the program into a folder that stays, such as ~/.local/bin, and call it there; or use --npx, to try it out", o.Program, why)
		}
		if hosts.Base(o.Program) != "herdr-link" {
			return fmt.Errorf("herdr-link: %s is no path for a configuration: its name is not herdr-link, by which an entry is known again\nRename it, or make a link of that name in a folder that stays, and call that", o.Program)
		}
	}
	if len(all) == 0 {
		return printLine(p, []byte("no host was found here; name one, or use --all"))
	}
	return report(p, all, func(h hosts.Host) hosts.Report { return m.Install(h, o.Options) })
}

func (o *hostFlags) checkToolsets(p *Process) error {
	if o.toolsets != nil {
		if _, err := configure(p, options{toolsets: o.toolsets}); err != nil {
			return err
		}
		var names []string
		for name := range strings.SplitSeq(*o.toolsets, ",") {
			names = append(names, strings.TrimSpace(name))
		}
		o.Toolsets = strings.Join(names, ",")
	}
	if o.CallerRole != "" && !slices.Contains(callerRoles, o.CallerRole) {
		return usagef("no such role: %.64q; there are: %s", o.CallerRole, roleNames())
	}
	if o.CallerRole != "" && !slices.Contains(strings.Split(o.Toolsets, ","), "response") {
		return usagef("--caller-role is for the toolset response: name it with --toolsets")
	}
	return nil
}

func printEntry(p *Process, m hosts.Machine, o hostFlags, args []string) error {
	if len(args) > 0 {
		return usagef("--print takes the only host")
	}
	all, err := chosen([]string{o.print}, nil)
	if err != nil {
		return err
	}
	parts, err := m.Print(all[0], o.Options)
	if err != nil {
		return fmt.Errorf("herdr-link: %s: %w", o.print, err)
	}
	for i, part := range parts { // stdout has only what is to be pasted
		if i > 0 {
			fmt.Fprintln(p.Stdout)
		}
		fmt.Fprintf(p.Stderr, "for %s:\n", part.File)
		if _, err := p.Stdout.WriteString(part.Text); err != nil {
			return err
		}
	}
	for _, note := range all[0].Idle(o.Options) {
		fmt.Fprintln(p.Stderr, note)
	}
	return nil
}

// report does it for each host and prints a line for each.
func report(p *Process, all []hosts.Host, do func(hosts.Host) hosts.Report) error {
	failed := false
	for _, h := range all {
		r := do(h)
		if r.Err != nil {
			failed = true
			fmt.Fprintf(p.Stderr, "%-10s failed: %s\n", r.Host, visible(r.Err.Error()))
			for _, part := range r.Fix {
				fmt.Fprintf(p.Stderr, "To do it yourself, put this into %s:\n%s\n", part.File, strings.TrimRight(part.Text, "\r\n"))
			}
			continue
		}
		if isTerminal(p.Stdout) { // elsewhere it is for patch, byte for byte
			r.Diff = visibleLines(r.Diff)
		}
		if _, err := fmt.Fprintf(p.Stdout, "%-10s %s\n%s", r.Host, visible(r.Done), r.Diff); err != nil {
			return err
		}
	}
	if failed {
		return errSaid
	}
	return nil
}

// visibleLines is visible for lines, in which there may be tabs.
func visibleLines(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		for i, part := range strings.Split(line, "\t") {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(visible(part))
		}
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// invoked returns the absolute path by which this program was called. Links in
// it stay: what they point to may move with the next version.
func invoked(p *Process) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("this program cannot find itself: %w", err)
	}
	path := p.Args[0]
	if !strings.ContainsRune(path, filepath.Separator) {
		if path, err = exec.LookPath(path); err != nil {
			return self, nil
		}
	}
	if path, err = filepath.Abs(path); err != nil {
		return self, nil
	}
	a, errA := os.Stat(path)
	b, errB := os.Stat(self)
	if errA != nil || errB != nil || !os.SameFile(a, b) {
		return self, nil // a caller may say anything
	}
	return path, nil
}

func uninstallCommand() command {
	var o hostFlags
	return command{
		name: "uninstall", usage: "uninstall [OPTIONS] [HOST…]",
		short: "take away what install wrote",
		long: `Takes away what install wrote in the configuration of each HOST, or of all, with the copies that it kept.

  --dry-run   show what would change, and change nothing
  --project   the project's file in this folder
  --force     also an entry of our name that is not ours`,
		flags: o.common,
		run: func(_ context.Context, p *Process, _ *flag.FlagSet, args []string) error {
			m, err := hosts.Here(lookup(p.Environ))
			if err != nil {
				return fmt.Errorf("herdr-link: %w", err)
			}
			all, err := chosen(args, func(h hosts.Host) bool {
				return h.Why == "" && (o.Project && h.HasProject() || !o.Project && m.Found(h))
			})
			if err != nil {
				return err
			}
			if len(all) == 0 {
				return printLine(p, []byte("no host was found here"))
			}
			return report(p, all, func(h hosts.Host) hosts.Report { return m.Uninstall(h, o.Options) })
		},
	}
}

func statusCommand() command {
	var asJSON bool
	var o hosts.Options
	return command{
		name: "status", usage: "status [--json] [--project] [HOST…]",
		short: "say with which hosts herdr-link is registered",
		long: `Prints a line for each HOST, or for all that are found here: current, old (install renews it), absent, foreign (what
is there under our name is not ours) or unreadable; the toolsets of its entry and the caller's role; and what is wrong
below it.`,
		flags: func(f *flag.FlagSet) {
			f.BoolVar(&asJSON, "json", false, "")
			f.BoolVar(&o.Project, "project", false, "")
		},
		run: func(_ context.Context, p *Process, _ *flag.FlagSet, args []string) error {
			o.Version = p.Version
			m, err := hosts.Here(lookup(p.Environ))
			if err != nil {
				return fmt.Errorf("herdr-link: %w", err)
			}
			all, err := chosen(args, func(h hosts.Host) bool { return asJSON || m.Found(h) })
			if err != nil {
				return err
			}
			states := make([]hosts.Status, len(all))
			for i, h := range all {
				states[i] = m.Status(h, o)
			}
			if asJSON {
				return encode(p, states)
			}
			return printStatus(p, states)
		},
	}
}

func printStatus(p *Process, states []hosts.Status) error {
	var b strings.Builder
	for _, s := range states {
		fmt.Fprintf(&b, "%-10s %-11s %s", s.Host, s.State, visible(s.File))
		switch e := s.Entry; {
		case e == nil:
		case e.File == s.File:
			fmt.Fprintf(&b, " (%s)", visible(e.String()))
		default:
			fmt.Fprintf(&b, "\n%-10s and an entry in %s (%s)", "", visible(e.File), visible(e.String()))
		}
		b.WriteByte('\n')
		for _, r := range s.Remarks {
			fmt.Fprintf(&b, "%-10s %s\n", "", visible(r))
		}
	}
	if len(states) == 0 {
		known := len(strings.Split(hostNames(), ", "))
		fmt.Fprintf(&b, "no host was found here: of the %d known ones no program is on PATH, and no folder or file of its configuration is there\n", known)
	}
	_, err := p.Stdout.WriteString(b.String())
	return err
}

func hintCommand() command {
	return command{
		name: "hint", usage: "hint HOST",
		short: "print the hint as a hook of HOST gives it to the model",
		long: `What install --hint makes a host run when a session starts. Inside Herdr it prints the hint in the form that HOST
(claude, codex, agy) takes; outside it prints nothing.`,
		run: func(ctx context.Context, p *Process, _ *flag.FlagSet, args []string) error {
			if len(args) != 1 {
				return usagef("usage: herdr-link hint HOST")
			}
			if args[0] != "agy" && args[0] != "claude" && args[0] != "codex" {
				return usagef("no such host: %.64q; hint knows claude, codex and agy", args[0])
			}
			c, err := configure(p, options{})
			if err != nil {
				return err
			}
			if !c.core(p).Inside() {
				return nil
			}
			hint := strings.TrimSuffix(contract.Hint, "\n")
			if args[0] != "agy" {
				return encode(p, map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": "SessionStart", "additionalContext": hint}})
			}
			first, err := firstInvocation(ctx, p)
			if err != nil || !first {
				return err
			}
			return encode(p, map[string]any{"injectSteps": []any{map[string]any{"ephemeralMessage": hint}}})
		},
	}
}

// firstInvocation reads what AGY tells its hook: it runs before each call of
// the model, and the hint is for the first one only.
func firstInvocation(ctx context.Context, p *Process) (bool, error) {
	if isTerminal(p.Stdin) {
		return true, nil
	}
	text, err := readInput(ctx, p.Stdin, maxInput)
	if err != nil {
		return false, err
	}
	var event struct{ InvocationNum int }
	if err := json.Unmarshal(text, &event); err != nil && len(text) > 0 {
		return false, errors.New("herdr-link: what AGY told the hook cannot be read")
	}
	return event.InvocationNum == 0, nil
}
