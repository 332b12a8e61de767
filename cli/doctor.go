package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"herdr-link/envelope"
	"herdr-link/herdrcli"
	"herdr-link/hosts"
	"herdr-link/mesh"
	"herdr-link/mesh/fault"
)

// doctorTime is how long doctor takes at most, whatever hangs.
const doctorTime = 20 * time.Second

// A check is a line of doctor.
type check struct {
	Group  string `json:"group"`
	Name   string `json:"name"`
	State  string `json:"state"` // ok, warn, fail
	Detail string `json:"detail"`
	Fix    string `json:"fix"` // what to do; empty where there is nothing
}

func doctorCommand() command {
	var asJSON bool
	return command{
		name: "doctor", usage: "doctor [--json]",
		short: "say why herdr-link works here or not, and what to do",
		long: `Looks at the environment, at Herdr and its server, at the own pane, the peers and the servers of herdr-link in it,
at each agent host of this machine, at the toolset mesh where it is on or has records, and at the files that
herdr-link uses. Prints a line for each check: ok, warn or fail, and what to do. Exit 1 if one fails. It changes
nothing and starts no host; it is done within 20 seconds.

  --json   one object: version, ok, and checks with group, name, state, detail and fix

Its lines are for people: they have ids and paths, which no agent gets to see.`,
		flags: func(f *flag.FlagSet) { f.BoolVar(&asJSON, "json", false, "") },
		run: func(ctx context.Context, p *Process, _ *flag.FlagSet, args []string) error {
			if len(args) > 0 {
				return usagef("doctor takes no arguments")
			}
			ctx, stop := context.WithCancelCause(ctx)
			defer stop(nil)
			watch(ctx, p.Stdout, stop)
			limited, release := context.WithTimeout(ctx, doctorTime)
			defer release()
			checks := examine(limited, p)
			if ctx.Err() != nil {
				return errSaid // ended from outside
			}
			var err error
			if asJSON {
				err = encode(p, struct {
					Version string  `json:"version"`
					OK      bool    `json:"ok"`
					Checks  []check `json:"checks"`
				}{p.Version, worst(checks) != hosts.Fail, checks})
			} else {
				err = print(p, picture(checks, styleOf(p)))
			}
			if err == nil && worst(checks) == hosts.Fail {
				err = errSaid
			}
			return err
		},
	}
}

func worst(checks []check) string {
	state := hosts.OK
	for _, c := range checks {
		if c.State == hosts.Fail || c.State == hosts.Warn && state == hosts.OK {
			state = c.State
		}
	}
	return state
}

// A doctor looks at everything once.
type doctor struct {
	p      *Process
	getenv func(string) string
	checks []check

	inside bool // the variables of a pane are there
	plugin bool // Herdr runs this as an action of a plugin
	herdr  *herdrcli.Client
	kind   string // of the agent in the own pane
}

func examine(ctx context.Context, p *Process) []check {
	d := &doctor{p: p, getenv: lookup(p.Environ)}
	d.plugin = d.getenv("HERDR_PLUGIN_ID") != ""
	findings := make(chan []hosts.Finding, 1)
	go func() { findings <- d.findings() }()

	timeout := d.environment()
	if d.program(ctx, timeout) && d.server(ctx) && d.inside {
		d.pane(ctx)
	}
	var all []hosts.Finding
	select {
	case all = <-findings:
		d.servers(ctx, all)
		d.hosts(all)
		d.mesh(ctx, all)
	case <-ctx.Done():
		d.add("hosts", "files", hosts.Warn, "could not be read in time", "look for a file system that hangs")
	}
	d.locks()
	d.log()
	for i, c := range d.checks {
		d.checks[i].Detail, d.checks[i].Fix = harmless(c.Detail), harmless(c.Fix)
	}
	return d.checks
}

func (d *doctor) add(group, name, state, detail, fix string) {
	d.checks = append(d.checks, check{group, name, state, detail, fix})
}

// least is Warn outside Herdr, where nobody promised that there is a Herdr.
func (d *doctor) least(state string) string {
	if state == hosts.Fail && !d.inside {
		return hosts.Warn
	}
	return state
}

// environment checks the variables and returns the time of each call.
func (d *doctor) environment() time.Duration {
	const group = "environment"
	var missing []string
	for _, name := range []string{"HERDR_ENV", "HERDR_BIN_PATH", "HERDR_PANE_ID"} {
		if d.getenv(name) == "" || name == "HERDR_ENV" && d.getenv(name) != "1" {
			missing = append(missing, name)
		}
	}
	d.inside = len(missing) == 0
	switch {
	case d.inside:
		d.add(group, "variables", hosts.OK, "inside Herdr, pane "+d.getenv("HERDR_PANE_ID"), "")
	case d.plugin && slices.Equal(missing, []string{"HERDR_PANE_ID"}):
		d.add(group, "variables", hosts.Warn, "run by Herdr as an action, for no pane", "")
	case len(missing) == 3 || slices.Equal(missing, []string{"HERDR_ENV", "HERDR_PANE_ID"}):
		d.add(group, "variables", hosts.Warn, "outside Herdr: no HERDR_ENV=1, no HERDR_PANE_ID", "run it in a pane of Herdr")
	case slices.Equal(missing, []string{"HERDR_BIN_PATH"}):
		d.add(group, "variables", hosts.Fail, "no HERDR_BIN_PATH: lost on the way, or Herdr is 0.8.0 or older, which does not set it",
			"update Herdr, or set HERDR_BIN_PATH to its program in the shell's profile, and let what starts this pass it on")
	default:
		d.add(group, "variables", hosts.Fail, "lost on the way: "+strings.Join(missing, ", "), "let what starts this pass all HERDR_* on; herdr-link install sees to it for a host")
	}
	switch socket, session := d.getenv("HERDR_SOCKET_PATH"), d.getenv("HERDR_SESSION"); {
	case socket != "" && !filepath.IsAbs(socket):
		d.add(group, "socket", hosts.Warn, "HERDR_SOCKET_PATH="+socket+" is not absolute", "set the whole path, or unset it")
	case socket != "":
		d.add(group, "socket", hosts.OK, socket, "")
	case session != "":
		d.add(group, "socket", hosts.OK, "that of the session "+session, "")
	default:
		d.add(group, "socket", hosts.OK, "Herdr's default", "")
	}
	return d.settings(group)
}

// settings checks our own variables, each by itself.
func (d *doctor) settings(group string) time.Duration {
	var set, wrong, nothing []string
	var timeout time.Duration
	for _, name := range []string{"HERDR_LINK_EAGER", "HERDR_LINK_ERA", "HERDR_LINK_TOOLSETS", "HERDR_LINK_TIMEOUT",
		"HERDR_LINK_CLI_TIMEOUT_MS", "DSH_HERDR_CLI_TIMEOUT_MS", "HERDR_LINK_PREVIEW_REQUIRED", "DSH_HERDR_PREVIEW_REQUIRED", "HERDR_LINK_AGENT_ARGS", "HERDR_LINK_CALLER_ROLE", "HERDR_MESH_STATE_DIR"} {
		if d.getenv(name) == "" {
			continue
		}
		set = append(set, name+"="+d.getenv(name))
		if words := idle(name, d.getenv(name)); words != nil {
			nothing = append(nothing, name+"="+d.getenv(name)+" does nothing: there is "+strings.Join(words, ", "))
		}
		environ := []string{name + "=" + d.getenv(name)}
		if strings.HasSuffix(name, "_CLI_TIMEOUT_MS") || strings.HasSuffix(name, "_PREVIEW_REQUIRED") || name == "HERDR_MESH_STATE_DIR" { // count with their toolset only
			environ = append(environ, "HERDR_LINK_TOOLSETS="+d.getenv("HERDR_LINK_TOOLSETS"))
		}
		c, err := d.configure(options{}, environ...)
		if err != nil {
			wrong = append(wrong, err.Error())
		} else if name == "HERDR_LINK_TIMEOUT" {
			timeout = c.timeout
		}
	}
	off := d.getenv("HERDR_LINK_OFF")
	switch {
	case len(wrong) > 0:
		d.add(group, "settings", hosts.Fail, strings.Join(wrong, "; "), "mend or unset it: no server starts so")
	case off == "1":
		d.add(group, "settings", hosts.Warn, "HERDR_LINK_OFF=1: switched off here", "unset it, unless this is an agent inside another agent's pane")
	case off != "" && off != "0":
		d.add(group, "settings", hosts.Warn, "HERDR_LINK_OFF="+off+" does nothing: only 1 switches off", "set 1, or unset it")
	case len(nothing) > 0:
		d.add(group, "settings", hosts.Warn, strings.Join(nothing, "; "), "set one of these, or unset it")
	case len(set) > 0:
		d.add(group, "settings", hosts.OK, strings.Join(set, ", "), "")
	default:
		d.add(group, "settings", hosts.OK, "none", "")
	}
	return timeout
}

// configure is what a server would do that has these variables alone, and the
// home folder.
func (d *doctor) configure(o options, environ ...string) (*config, error) {
	return configure(&Process{Environ: append(environ, "HOME="+d.getenv("HOME"))}, o)
}

// idle returns the words that count for a variable of which servers take any
// other one for none, if the value is not one of them.
func idle(name, value string) (words []string) {
	switch {
	case strings.HasSuffix(name, "_PREVIEW_REQUIRED"):
		words, value = []string{"1", "true", "yes", "on", "0", "false", "no", "off"}, strings.ToLower(value)
	case name == "HERDR_LINK_AGENT_ARGS":
		words = []string{"any"}
	case name == "HERDR_LINK_CALLER_ROLE":
		words = callerRoles
	}
	if slices.Contains(words, value) {
		return nil
	}
	return words
}

// lastVersion is that of the newest herdr whose answers were looked at.
const lastVersion = "0.9"

// program checks the herdr that is called, and reports whether it can be.
func (d *doctor) program(ctx context.Context, timeout time.Duration) bool {
	const group = "herdr"
	bin := d.getenv("HERDR_BIN_PATH")
	if bin == "" {
		found, err := exec.LookPath("herdr")
		if err != nil || !filepath.IsAbs(found) {
			d.add(group, "program", hosts.Warn, "no herdr on PATH, and no HERDR_BIN_PATH", "install Herdr, and run this in one of its panes")
			return false
		}
		bin = found
	}
	d.herdr = herdrcli.New(herdrcli.Options{Bin: bin, Environ: d.p.Environ, Timeout: timeout})
	version, err := d.herdr.Version(ctx)
	numbers, ok := herdrcli.ParseVersion(version)
	switch {
	case errors.Is(err, herdrcli.ErrBinary) && !filepath.IsAbs(bin):
		d.add(group, "program", d.least(hosts.Fail), "HERDR_BIN_PATH="+bin+" is not absolute, and is not looked for", "let what starts this pass HERDR_BIN_PATH on as Herdr sets it")
		return false
	case errors.Is(err, herdrcli.ErrBinary):
		d.add(group, "program", d.least(hosts.Fail), bin+" cannot be run: it is no executable file", "install Herdr there, or restart it and this pane after an update")
		return false
	case err != nil:
		d.add(group, "program", d.least(hosts.Fail), bin+": "+err.Error(), "run it with --version")
		return false
	case !ok:
		d.add(group, "program", hosts.Warn, version+", "+bin+": not a version that can be compared", "use "+herdrcli.MinVersion+" to "+lastVersion)
	case !herdrcli.Supported(numbers):
		d.add(group, "program", hosts.Fail, version+", "+bin+": too old, it cannot send messages", "update Herdr to "+herdrcli.MinVersion+" or newer")
	case slices.Compare(numbers[:2], []int{0, 9}) > 0:
		d.add(group, "program", hosts.Warn, version+", "+bin+": newer than what this version knows ("+herdrcli.MinVersion+" to "+lastVersion+")", "update herdr-link if something fails")
	default:
		d.add(group, "program", hosts.OK, version+", "+bin+" (supported: "+herdrcli.MinVersion+" to "+lastVersion+")", "")
	}
	return true
}

// server checks the way to the server and the time that it takes, and reports
// whether there is one.
func (d *doctor) server(ctx context.Context) bool {
	const group, start = "herdr", "start Herdr; agents of an ended server cannot be reached"
	s, err := d.herdr.Status(ctx)
	compatible := s.Server.Compatible == nil || *s.Server.Compatible
	switch {
	case errors.Is(err, herdrcli.ErrTimeout):
		d.add(group, "server", d.least(hosts.Fail), "does not answer: "+err.Error(), "restart Herdr; HERDR_LINK_TIMEOUT is the time that it gets")
		return false
	case err != nil:
		d.add(group, "server", hosts.Warn, "its status is not known: "+err.Error(), "")
	case !s.Server.Running:
		d.add(group, "server", d.least(hosts.Fail), "does not run at "+s.Server.Socket, start)
		return false
	case !compatible:
		d.add(group, "server", hosts.Fail, fmt.Sprintf("protocol %d of server %s does not match protocol %d of program %s",
			s.Server.Protocol, s.Server.Version, s.Client.Protocol, s.Client.Version), "restart Herdr, and what runs in its panes")
		return false
	default:
		detail := fmt.Sprintf("runs, version %s, protocol %d", s.Server.Version, s.Server.Protocol)
		if s.Server.Compatible == nil {
			detail = "runs; it does not tell its protocol"
		}
		d.add(group, "server", hosts.OK, detail, "")
	}
	begun := time.Now()
	_, err = d.herdr.AgentList(ctx)
	took := time.Since(begun).Round(time.Millisecond)
	switch {
	case herdrcli.Code(err) == "server_not_running":
		d.add(group, "call", d.least(hosts.Fail), "the server does not run", start)
	case err != nil:
		d.add(group, "call", d.least(hosts.Fail), err.Error(), "restart Herdr")
	case took >= slow:
		d.add(group, "call", hosts.Warn, "takes "+took.String(), "see what keeps the machine or Herdr busy")
	default:
		d.add(group, "call", hosts.OK, "takes "+took.String(), "")
	}
	return err == nil
}

// slow is longer than any healthy call takes: most need 10 ms, some 100 or 200 more.
const slow = 2 * time.Second

// pane checks the own pane, who owns it, the own name, and the peers.
func (d *doctor) pane(ctx context.Context) {
	id := d.getenv("HERDR_PANE_ID")
	self, now, ok := d.self(ctx, id)
	if !ok {
		return
	}
	d.owner(ctx, now)
	if self.PaneID == "" {
		return
	}
	who := cmp.Or(self.Kind, "an agent") + ", " + cmp.Or(self.Status, "unknown") + ", workspace " + self.WorkspaceID
	switch {
	case self.Name == "":
		d.add("pane", "name", hosts.Warn, "none yet: "+who, "herdr-link bootstrap, or let the server do it when it starts")
	case !envelope.ValidName(self.Name):
		d.add("pane", "name", hosts.Warn, self.Name+" is no valid name: "+who, "herdr-link bootstrap gives it another")
	default:
		d.add("pane", "name", hosts.OK, self.Name+": "+who, "")
	}
	d.peers(ctx, self)
}

// self finds the own agent. now is the pane's current id; ok is false if there
// is no pane to look at. A record without a pane is no agent.
func (d *doctor) self(ctx context.Context, id string) (self herdrcli.Agent, now string, ok bool) {
	get := func(pane string) (herdrcli.Agent, error) {
		a, err := d.herdr.AgentGet(ctx, pane)
		if herdrcli.Code(err) == "agent_not_found" || err == nil && a.PaneID != pane { // a name may look like it
			return herdrcli.Agent{}, nil
		}
		return a, err
	}
	self, err := get(id)
	now = id
	moved := ""
	if err == nil && self.PaneID == "" {
		var pane herdrcli.Pane
		pane, err = d.herdr.PaneGet(ctx, id)
		if herdrcli.Code(err) == "pane_not_found" {
			d.add("pane", "pane", hosts.Fail, "Herdr has no pane "+id, "the pane is closed, or of another server: start the agent anew in a pane")
			return self, "", false
		}
		if err == nil && pane.ID != id {
			now, moved = pane.ID, "moved: "+id+" is "+pane.ID+" now, which herdr-link follows"
			self, err = get(now)
		}
	}
	d.kind = self.Kind
	switch {
	case err != nil:
		d.add("pane", "pane", hosts.Fail, err.Error(), "set HERDR_LINK_LOG, and look at what Herdr says")
		return self, "", false
	case self.PaneID == "":
		detail := "Herdr sees no agent in " + now
		if moved != "" {
			detail = moved + "; " + detail
		}
		d.add("pane", "pane", hosts.Warn, detail, "start an agent there: a plain shell can neither list nor send")
	default:
		d.add("pane", "pane", hosts.OK, cmp.Or(moved, id+", where it was"), "")
	}
	return self, now, true
}

func (d *doctor) owner(ctx context.Context, pane string) {
	if d.plugin {
		d.add("pane", "owner", hosts.OK, "not known: Herdr runs this as an action, not the pane", "")
		return
	}
	in, err := d.herdr.PaneProcesses(ctx, pane)
	if err != nil {
		d.add("pane", "owner", hosts.OK, "not known: "+err.Error(), "")
		return
	}
	state, detail, fix := owner(lineage(ctx), in, d.kind)
	d.add("pane", "owner", state, detail, fix)
}

func (d *doctor) peers(ctx context.Context, self herdrcli.Agent) {
	all, err := d.herdr.AgentList(ctx)
	if err != nil {
		d.add("pane", "peers", hosts.Fail, err.Error(), "restart Herdr")
		return
	}
	var names []string
	unnamed, elsewhere := 0, 0
	for _, a := range all {
		switch {
		case a.PaneID == self.PaneID:
		case a.WorkspaceID != self.WorkspaceID:
			elsewhere++
		case !envelope.ValidName(a.Name):
			unnamed++
		default:
			names = append(names, a.Name+" ("+cmp.Or(a.Status, "unknown")+")")
		}
	}
	slices.Sort(names)
	detail := "none in this workspace"
	if len(names) > 0 {
		detail = strings.Join(names, ", ")
	}
	if unnamed > 0 {
		detail += fmt.Sprintf("; %d without a name, out of reach", unnamed)
	}
	if elsewhere > 0 {
		detail += fmt.Sprintf("; %d in other workspaces", elsewhere)
	}
	d.add("pane", "peers", hosts.OK, detail, "")
}

// servers checks which other servers of herdr-link run in the own pane.
func (d *doctor) servers(ctx context.Context, findings []hosts.Finding) {
	if !d.inside {
		return
	}
	vars := map[string]string{"HERDR_PANE_ID": d.getenv("HERDR_PANE_ID"), "HERDR_SOCKET_PATH": d.getenv("HERDR_SOCKET_PATH")}
	if vars["HERDR_SOCKET_PATH"] == "" {
		vars["HERDR_SESSION"] = d.getenv("HERDR_SESSION")
	}
	found, known := servers(ctx, vars)
	found = alone(found)
	serves := slices.ContainsFunc(findings, func(f hosts.Finding) bool { return f.Host == d.kind && f.Serves })
	var pids []string
	for _, p := range found {
		pids = append(pids, strconv.Itoa(p.pid))
	}
	switch {
	case !known:
		d.add("pane", "servers", hosts.OK, "not known on this system", "")
	case len(found) > 1:
		d.add("pane", "servers", hosts.Warn, fmt.Sprintf("%d run in this pane: processes %s", len(found), strings.Join(pids, ", ")),
			"register it once: see hosts below; an agent inside this one gets HERDR_LINK_OFF=1")
	case len(found) == 1:
		d.add("pane", "servers", hosts.OK, "one runs in this pane: process "+pids[0], "")
	case serves:
		d.add("pane", "servers", hosts.Warn, "none runs in this pane, though "+d.kind+" is to start one", "restart "+d.kind+", and see what it says of its MCP servers")
	default:
		d.add("pane", "servers", hosts.OK, "none runs in this pane", "")
	}
}

func (d *doctor) findings() (all []hosts.Finding) {
	m, err := hosts.Here(d.getenv)
	if err != nil {
		return nil
	}
	o := hosts.Options{Version: d.p.Version}
	o.Program, _ = invoked(d.p)
	for _, h := range hosts.Table() {
		if h.Why == "" {
			all = append(all, m.Examine(h, o))
		}
	}
	return all
}

func (d *doctor) hosts(all []hosts.Finding) {
	others := 0
	for _, f := range all {
		if !f.Found && !f.Known {
			others++
			continue
		}
		for name, value := range f.Env {
			if strings.HasPrefix(name, "HERDR_LINK_") && name != "HERDR_LINK_LOG" && !strings.Contains(value, "$") {
				if _, err := d.configure(options{}, name+"="+value); err != nil {
					f.State, f.Detail, f.Fix = hosts.Fail, f.Detail+"; in its entry "+err.Error(), "mend that entry: no server starts so"
				} else if name == "HERDR_LINK_OFF" && value == "1" && f.State == hosts.OK {
					f.State, f.Detail, f.Fix = hosts.Warn, f.Detail+"; its entry has HERDR_LINK_OFF=1", "take that out"
				} else if words := idle(name, value); words != nil && f.State == hosts.OK {
					f.State, f.Detail, f.Fix = hosts.Warn, f.Detail+"; in its entry "+name+"="+value+" does nothing: there is "+strings.Join(words, ", "), "mend that entry"
				}
			}
		}
		for _, e := range f.Entries {
			list := strings.Join(e.Toolsets, ",")
			if _, err := d.configure(options{toolsets: &list}); err != nil && f.Env["HERDR_LINK_TOOLSETS"] == "" {
				f.State, f.Detail, f.Fix = hosts.Fail, f.Detail+"; in its entry "+err.Error(), "mend that entry: no server starts so"
			} else if e.CallerRole != "" && f.State == hosts.OK && !strings.Contains(e.CallerRole, "$") && !slices.Contains(callerRoles, e.CallerRole) {
				f.State, f.Detail, f.Fix = hosts.Warn, f.Detail+"; its caller role may read nothing: there is "+roleNames(), "mend that entry"
			}
		}
		d.add("hosts", f.Host, f.State, f.Detail, f.Fix)
	}
	switch {
	case len(all) == 0:
		d.add("hosts", "others", hosts.Warn, "not looked for: the home folder is not known", "set HOME")
	case others == len(all):
		d.add("hosts", "others", hosts.Warn, fmt.Sprintf("none of the %d known hosts is here", len(all)), "herdr-link install HOST, or docs/hosts.md")
	default:
		d.add("hosts", "others", hosts.OK, fmt.Sprintf("%d more are known, and not here", others), "")
	}
}

// mesh checks what the toolset mesh needs, where an entry or the environment has
// it on, and where its records are.
func (d *doctor) mesh(ctx context.Context, findings []hosts.Finding) {
	const variable = "HERDR_MESH_STATE_DIR"
	type root struct {
		dir string // as the variable has it
		on  bool   // a server uses it
	}
	usual := root{d.getenv(variable), slices.ContainsFunc(strings.Split(d.getenv("HERDR_LINK_TOOLSETS"), ","), func(name string) bool { return strings.TrimSpace(name) == "mesh" })}
	var roots []root
	for _, f := range findings {
		for _, e := range f.Entries {
			dir := f.Env[variable]
			switch {
			case !slices.Contains(e.Toolsets, "mesh"):
			case dir == "" || strings.Contains(dir, "$"):
				usual.on = true
			default:
				roots = append(roots, root{dir, true})
			}
		}
	}
	on := usual.on || len(roots) > 0
	list := "mesh"
	configured := func(r root) (*config, error) { return d.configure(options{toolsets: &list}, variable+"="+r.dir) }
	there := false // records stay where nothing has mesh on any more
	if c, err := configured(usual); err == nil {
		_, err := os.Lstat(c.state)
		there = err == nil
	}
	if usual.on || there {
		roots = append([]root{usual}, roots...)
	}
	switch {
	case on && runtime.GOOS == "windows":
		d.add("mesh", "platform", hosts.Fail, "the toolset mesh is for Linux and macOS", "leave it out of the toolsets: no server starts with it")
		return
	case len(roots) == 0:
		return
	case runtime.GOOS == "linux":
		d.add("mesh", "platform", hosts.OK, "Linux", "")
	default:
		d.add("mesh", "platform", hosts.OK, runtime.GOOS+": all but verification, which needs Linux", "")
	}
	var health mesh.Health
	seen := map[string]bool{}
	for _, r := range roots {
		c, err := configured(r)
		if err != nil {
			d.add("mesh", d.another("state"), hosts.Fail, err.Error(), "mend or unset it: no server with mesh starts so")
			continue
		}
		if !seen[c.state] {
			seen[c.state] = true
			health = c.mesh(d.p).Health(ctx)
			d.state(c.state, health, r.on)
		}
	}
	if runtime.GOOS == "linux" && len(seen) > 0 {
		if health.Verify != nil {
			d.add("mesh", "sandbox", hosts.Warn, health.Verify.Error(), "mend that to have work verified on this machine; all else of mesh does without")
		} else {
			d.add("mesh", "sandbox", hosts.OK, "bubblewrap makes sandboxes for verification", "")
		}
	}
}

// another returns a name that no check of mesh has yet.
func (d *doctor) another(name string) string {
	for n := 2; slices.ContainsFunc(d.checks, func(c check) bool { return c.Group == "mesh" && c.Name == name }); n++ {
		name = fmt.Sprintf("%s %d", strings.Fields(name)[0], n)
	}
	return name
}

// state says how it is with the records of mesh in dir, and with their lock. Where
// mesh is not on, nothing fails by that.
func (d *doctor) state(dir string, health mesh.Health, on bool) {
	bad := hosts.Warn
	if on {
		bad = hosts.Fail
	}
	name, there := d.another("state"), dir
	_, err := os.Lstat(dir)
	for errors.Is(err, os.ErrNotExist) && there != filepath.Dir(there) {
		there = filepath.Dir(there)
		_, err = os.Lstat(there)
	}
	const other = "make it yours, or set HERDR_MESH_STATE_DIR to the absolute path of a folder of your own"
	switch {
	case fault.Code(health.State) == "STATE_INSECURE": // names the path
		d.add("mesh", name, bad, health.State.Error(), "make it yours alone (chmod, chown), after a look at who could change it: mesh mends nothing by itself")
		return
	case health.State != nil:
		d.add("mesh", name, bad, dir+": "+health.State.Error(), other)
		return
	case !mayWrite(there):
		d.add("mesh", name, bad, "one may not write in "+there, other)
	case there != dir:
		d.add("mesh", name, hosts.OK, dir+" will be made", "")
	default:
		d.add("mesh", name, hosts.OK, dir+", open to nobody else", "")
	}
	name = d.another("lock")
	detail := string(health.Lock.State) + ": " + health.Lock.Reason
	switch health.Lock.State {
	case "absent":
		d.add("mesh", name, hosts.OK, "free: "+health.Lock.Reason, "")
	case "stale":
		d.add("mesh", name, hosts.OK, detail+", and the next call takes it over", "")
	case "active":
		d.add("mesh", name, hosts.Warn, detail, "look again: a call needs it for moments only. If calls end with LOCK_BUSY, end the process that has it")
	default:
		fix := "make sure that nobody uses it, then herdr-link agent-control unlock --confirm"
		if !strings.HasPrefix(health.Lock.Reason, "the claim ") {
			fix = "make it yours alone, or set HERDR_MESH_STATE_DIR to a folder of your own on a local disk"
		}
		d.add("mesh", name, bad, detail, fix)
	}
}

// locks looks at the folder of the locks, and makes nothing.
func (d *doctor) locks() {
	home, _ := os.UserHomeDir()
	dir, there, err := herdrcli.NewLocks(home).Look()
	fix := "make it yours alone: without it, messages to one agent may merge"
	if !filepath.IsAbs(home) {
		fix = "set HOME: without it, messages to one agent may merge"
	}
	switch {
	case err != nil:
		d.add("files", "locks", hosts.Fail, cmp.Or(dir, "no folder")+": "+err.Error(), fix)
	case !mayWrite(there):
		d.add("files", "locks", hosts.Fail, "one may not write in "+there, fix)
	case there != dir:
		d.add("files", "locks", hosts.OK, dir+" will be made", "")
	default:
		d.add("files", "locks", hosts.OK, dir, "")
	}
}

// log looks at the log file, and makes nothing.
func (d *doctor) log() {
	path := d.getenv("HERDR_LINK_LOG")
	if path == "" {
		d.add("files", "log", hosts.OK, "HERDR_LINK_LOG is not set", "")
		return
	}
	const fix = "set HERDR_LINK_LOG to the absolute path of a regular file of your own"
	if !filepath.IsAbs(path) {
		d.add("files", "log", hosts.Warn, path+" is not absolute: each host means another file", fix)
		return
	}
	info, err := os.Stat(path)
	dir, dirErr := os.Stat(filepath.Dir(path))
	switch {
	case errors.Is(err, os.ErrNotExist) && dirErr == nil && dir.IsDir() && mayWrite(filepath.Dir(path)):
		d.add("files", "log", hosts.OK, path+" will be made", "")
	case err != nil:
		d.add("files", "log", hosts.Fail, path+" cannot be made", fix)
	case !info.Mode().IsRegular():
		d.add("files", "log", hosts.Fail, path+" is not a regular file", fix)
	case !mayWrite(path):
		d.add("files", "log", hosts.Fail, "one may not write to "+path, fix)
	case openToOthers(info):
		d.add("files", "log", hosts.Warn, path+" can be read by others", "chmod 600; the next server does it, too")
	default:
		d.add("files", "log", hosts.OK, fmt.Sprintf("%s, %d bytes", path, info.Size()), "")
	}
}

// maxDetail is how much of a text is printed, in characters.
const maxDetail = 400

// harmless is visible, and short.
func harmless(s string) string {
	if r := []rune(s); len(r) > maxDetail {
		return visible(string(r[:maxDetail])) + "…"
	}
	return visible(s)
}

// visible replaces what a terminal could act on, or nobody could see: the texts
// come from Herdr and from files of others. A byte that is no UTF-8 becomes U+FFFD.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// A style is how a list of checks looks.
type style struct{ marks, colours bool }

func styleOf(p *Process) style {
	if !isTerminal(p.Stdout) {
		return style{}
	}
	getenv := lookup(p.Environ)
	return style{true, getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && obeysColours(p.Stdout)}
}

// picture returns the lines: on a terminal a table with marks, elsewhere the
// same as plain words.
func picture(checks []check, s style) string {
	group, name := 0, 0
	for _, c := range checks {
		group, name = max(group, len(c.Group)), max(name, len(c.Name))
	}
	looks := map[string][2]string{hosts.OK: {"✓", "32"}, hosts.Warn: {"!", "33"}, hosts.Fail: {"✗", "31"}}
	paint := func(text, colour string) string {
		if !s.colours {
			return text
		}
		return "\x1b[" + colour + "m" + text + "\x1b[0m"
	}
	var b strings.Builder
	count := map[string]int{}
	before := ""
	for _, c := range checks {
		count[c.State]++
		mark, of, arrow := fmt.Sprintf("%-4s", c.State), c.Group, " -- "
		if s.marks {
			mark, arrow = paint(looks[c.State][0]+" "+mark, looks[c.State][1]), " → "
			if of == before {
				of = ""
			}
		}
		before = c.Group
		fmt.Fprintf(&b, "%s  %-*s  %-*s  %s", mark, group, of, name, c.Name, c.Detail)
		if c.Fix != "" {
			b.WriteString(paint(arrow+c.Fix, "1"))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%d ok, %d warnings, %d failed\n", count[hosts.OK], count[hosts.Warn], count[hosts.Fail])
	return b.String()
}
