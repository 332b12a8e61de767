package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

// A diagnosis is what doctor --json prints, with the checks by group and name.
type diagnosis struct {
	Version string
	OK      *bool
	Checks  []struct{ Group, Name, State, Detail, Fix string }
	by      map[string]string // "state detail -- fix"
	code    int
}

// diagnose runs doctor there, and looks at what holds for all of them.
func diagnose(t *testing.T, env environment) (d diagnosis) {
	t.Helper()
	out, errs, code := run(t, env, "", "doctor", "--json")
	if err := json.Unmarshal([]byte(out), &d); err != nil || errs != "" {
		t.Fatalf("%v, %s%s", err, out, errs)
	}
	d.code, d.by = code, map[string]string{}
	failed := false
	for _, c := range d.Checks {
		key := c.Group + " " + c.Name
		if _, twice := d.by[key]; twice || c.Group == "" || c.Name == "" || c.Detail == "" {
			t.Errorf("twice, or not whole: %+v", c)
		}
		if !slices.Contains([]string{"ok", "warn", "fail"}, c.State) || c.State == "ok" && c.Fix != "" {
			t.Errorf("%+v", c)
		}
		failed = failed || c.State == "fail"
		d.by[key] = c.State + " " + c.Detail + " -- " + c.Fix
	}
	if d.OK == nil || *d.OK == failed || (code == 1) != failed || code > 1 || d.Version != strings.TrimSpace(version) {
		t.Errorf("exit %d, failed %t, ok %v, version %q", code, failed, d.OK, d.Version)
	}
	return d
}

// want checks that a line begins so and has these words.
func (d diagnosis) want(t *testing.T, key, begin string, words ...string) {
	t.Helper()
	line := d.by[key]
	ok := strings.HasPrefix(line, begin)
	for _, w := range words {
		ok = ok && strings.Contains(line, w)
	}
	if !ok {
		t.Errorf("%s: %q, not %q with %q", key, line, begin, words)
	}
}

// bad returns the keys of all lines that are not ok.
func (d diagnosis) bad() (keys []string) {
	for _, c := range d.Checks {
		if c.State != "ok" {
			keys = append(keys, c.Group+" "+c.Name)
		}
	}
	return keys
}

// patient is the environment of a process in that pane, with a home of its own,
// in which no host is. The pane belongs to this test.
func patient(t *testing.T, pane string, more ...string) (s *fakeherdr.Scene, env environment, home string) {
	t.Helper()
	s = newScene(t)
	change(t, s, func(w *fakeherdr.World) {
		if p := w.Pane(pane); p != nil {
			p.Shell, p.Foreground = os.Getpid(), []fakeherdr.Process{{PID: os.Getpid(), Name: "agent"}}
		}
	})
	env, home = atHome(t, append(s.Env(pane), more...)...)
	return s, env, home
}

const nobody = 1<<22 + 7 // no process has that id

func TestDoctorOutside(t *testing.T) {
	t.Parallel()
	env, home := atHome(t)
	writeFile(t, filepath.Join(home, ".codex", "config.toml"), "")
	d := diagnose(t, env)
	if d.code != 0 {
		t.Errorf("exit %d: %v", d.code, d.by)
	}
	d.want(t, "environment variables", "warn outside Herdr", "run it in a pane")
	d.want(t, "herdr program", "warn no herdr on PATH")
	d.want(t, "hosts codex", "warn not registered -- herdr-link install codex")
	d.want(t, "hosts others", "ok", "more are known")
	d.want(t, "files locks", "ok", "will be made")
	d.want(t, "files log", "ok HERDR_LINK_LOG is not set")
	if got := d.bad(); len(got) != 3 {
		t.Errorf("not ok: %q", got)
	}
	if out, errs, code := run(t, env, "", "doctor", "x"); code != 2 || out != "" || !strings.Contains(errs, "no arguments") {
		t.Errorf("%d, %s%s", code, out, errs)
	}
}

// Outside there may be a Herdr on PATH. It is asked, and a server that does not
// run is no failure.
func TestDoctorOutsideWithHerdr(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	env, _ := atHome(t, "PATH="+s.Dir(), "HERDR_SOCKET_PATH="+filepath.Join(s.Dir(), "herdr.sock"))
	d := diagnose(t, env)
	d.want(t, "herdr program", "ok 0.8.0")
	d.want(t, "herdr server", "ok runs")
	if len(commands(t, s, "agent", "get")) > 0 || d.by["pane pane"] != "" {
		t.Error("it looked for a pane")
	}
	fault(t, s, fakeherdr.Down)
	d = diagnose(t, env)
	d.want(t, "herdr server", "warn does not run", "start Herdr")
	if d.code != 0 {
		t.Errorf("exit %d", d.code)
	}
}

// Everything is as it should be: nothing but ok, and nothing was changed.
func TestDoctorWell(t *testing.T) {
	t.Parallel()
	s, env, home := patient(t, "w1:p1")
	if out, errs, code := run(t, env, "", "install", "claude"); code != 0 {
		t.Fatal(out, errs)
	}
	h := start(t, env)
	h.initialize("2025-11-25")
	awaitCalls(t, s, 1)
	h.childless()
	before := tree(t, home)
	calls := len(commands(t, s))
	d := diagnose(t, env)
	for key, begin := range map[string]string{
		"environment variables": "ok inside Herdr, pane w1:p1",
		"environment socket":    "ok " + filepath.Join(s.Dir(), "herdr.sock"),
		"environment settings":  "ok none",
		"herdr program":         "ok 0.8.0, " + s.Bin(),
		"herdr server":          "ok runs, version 0.8.0, protocol 20",
		"herdr call":            "ok takes ",
		"pane pane":             "ok w1:p1",
		"pane name":             "ok lead: claude, idle, workspace w1",
		"pane peers":            "ok reviewer (idle); 1 without a name, out of reach; 1 in other workspaces",
		"pane owner":            "ok ",
		"pane servers":          "ok ",
		"hosts claude":          "ok registered in ~",
	} {
		d.want(t, key, begin)
	}
	if runtime.GOOS == "linux" {
		d.want(t, "pane owner", "ok this process belongs to claude")
		d.want(t, "pane servers", "ok one runs in this pane: process "+fmt.Sprint(h.cmd.Process.Pid))
	}
	if got := d.bad(); len(got) > 0 || d.code != 0 {
		t.Errorf("exit %d, not ok: %q", d.code, got)
	}
	if after := tree(t, home); !maps.Equal(before, after) {
		t.Errorf("it was %v, and is %v", before, after)
	}
	for _, args := range commands(t, s)[calls:] {
		if !slices.Contains([]string{"--version", "status --json", "agent list", "agent get w1:p1", "pane process-info --pane w1:p1"}, strings.Join(args, " ")) {
			t.Errorf("it called %q", args)
		}
	}
}

// tree returns all files with their size and mode.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		all[path] = fmt.Sprint(info.Mode(), info.Size(), info.ModTime())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// One thing is wrong at a time.
func TestDoctorInside(t *testing.T) {
	t.Parallel()
	type world = func(*fakeherdr.World)
	faulty := func(kind string, match ...string) world {
		return func(w *fakeherdr.World) { w.Faults = []fakeherdr.Fault{{Kind: kind, Match: match}} }
	}
	for name, tc := range map[string]struct {
		pane  string // w1:p1 if empty
		env   []string
		world world
		home  func(t *testing.T, home string)
		code  int
		key   string
		begin string
		words []string
		none  []string // lines that are not there
	}{
		"lost":                          {env: []string{"HERDR_PANE_ID="}, code: 1, key: "environment variables", begin: "fail lost on the way: HERDR_PANE_ID"},
		"not 1":                         {env: []string{"HERDR_ENV=0"}, code: 1, key: "environment variables", begin: "fail lost on the way: HERDR_ENV"},
		"no program":                    {env: []string{"HERDR_BIN_PATH="}, code: 1, key: "environment variables", begin: "fail no HERDR_BIN_PATH: lost on the way, or Herdr is 0.8.0 or older", words: []string{"update Herdr, or set HERDR_BIN_PATH"}},
		"an action":                     {env: []string{"HERDR_PANE_ID=", "HERDR_PLUGIN_ID=herdr-link"}, key: "environment variables", begin: "warn run by Herdr as an action"},
		"a pane's action":               {env: []string{"HERDR_PLUGIN_ID=herdr-link"}, key: "pane owner", begin: "ok not known: Herdr runs this"},
		"relative socket":               {env: []string{"HERDR_SOCKET_PATH=x.sock"}, code: 1, key: "environment socket", begin: "warn", words: []string{"not absolute"}},
		"another session":               {env: []string{"HERDR_SOCKET_PATH=", "HERDR_SESSION=work"}, code: 1, key: "herdr server", begin: "fail does not run at", words: []string{"sessions/work"}},
		"bad ceiling":                   {env: []string{"HERDR_LINK_CLI_TIMEOUT_MS=2s", "HERDR_LINK_TOOLSETS=link,control"}, code: 1, key: "environment settings", begin: "fail HERDR_LINK_CLI_TIMEOUT_MS must be", words: []string{`"2s"`}},
		"a ceiling of nothing":          {env: []string{"HERDR_LINK_CLI_TIMEOUT_MS=2s"}, key: "environment settings", begin: "ok HERDR_LINK_CLI_TIMEOUT_MS=2s"},
		"mesh, no root":                 {env: []string{"HERDR_MESH_STATE_DIR=x", "HERDR_LINK_TOOLSETS=mesh"}, code: 1, key: "environment settings", begin: "fail HERDR_MESH_STATE_DIR must be", words: []string{`"x"`}},
		"mesh, the usual root":          {env: []string{"HERDR_LINK_TOOLSETS=link,mesh"}, key: "environment settings", begin: "ok HERDR_LINK_TOOLSETS=link,mesh"},
		"a root of nothing":             {env: []string{"HERDR_MESH_STATE_DIR=x"}, key: "environment settings", begin: "ok HERDR_MESH_STATE_DIR=x"},
		"mesh and control":              {env: []string{"HERDR_LINK_TOOLSETS=mesh,control"}, code: 1, key: "environment settings", begin: "fail the toolsets control and mesh exclude"},
		"bad time":                      {env: []string{"HERDR_LINK_TIMEOUT=soon"}, code: 1, key: "environment settings", begin: "fail HERDR_LINK_TIMEOUT must be", words: []string{`"soon"`}},
		"two bad ones":                  {env: []string{"HERDR_LINK_EAGER=yes", "HERDR_LINK_TOOLSETS=dance"}, code: 1, key: "environment settings", begin: "fail HERDR_LINK_EAGER must be", words: []string{"dance"}},
		"bad era":                       {env: []string{"HERDR_LINK_ERA=1999"}, code: 1, key: "environment settings", begin: "fail the era must be"},
		"good ones":                     {env: []string{"HERDR_LINK_EAGER=1", "HERDR_LINK_TIMEOUT=9s"}, key: "environment settings", begin: "ok HERDR_LINK_EAGER=1, HERDR_LINK_TIMEOUT=9s"},
		"no such switch":                {env: []string{"HERDR_LINK_PREVIEW_REQUIRED=y"}, key: "environment settings", begin: "warn HERDR_LINK_PREVIEW_REQUIRED=y does nothing: there is 1, true"},
		"no such switch, and it counts": {env: []string{"HERDR_LINK_PREVIEW_REQUIRED=y", "HERDR_LINK_TOOLSETS=control"}, code: 1, key: "environment settings", begin: "fail HERDR_LINK_PREVIEW_REQUIRED must be 1, true"},
		"switched off":                  {env: []string{"HERDR_LINK_PREVIEW_REQUIRED=No"}, key: "environment settings", begin: "ok HERDR_LINK_PREVIEW_REQUIRED=No"},
		"no such arguments":             {env: []string{"HERDR_LINK_AGENT_ARGS=all"}, key: "environment settings", begin: "warn HERDR_LINK_AGENT_ARGS=all does nothing"},
		"no such role":                  {env: []string{"HERDR_LINK_CALLER_ROLE=Coordinator"}, key: "environment settings", begin: "warn HERDR_LINK_CALLER_ROLE=Coordinator does nothing", words: []string{"coordinator"}},
		"off":                           {env: []string{"HERDR_LINK_OFF=1"}, key: "environment settings", begin: "warn HERDR_LINK_OFF=1: switched off"},
		"not off":                       {env: []string{"HERDR_LINK_OFF=yes"}, key: "environment settings", begin: "warn HERDR_LINK_OFF=yes does nothing"},
		"no herdr":                      {env: []string{"HERDR_BIN_PATH=/nowhere/herdr"}, code: 1, key: "herdr program", begin: "fail /nowhere/herdr cannot be run", words: []string{"install Herdr"}, none: []string{"herdr server", "pane pane"}},
		"a relative herdr":              {env: []string{"HERDR_BIN_PATH=herdr"}, code: 1, key: "herdr program", begin: "fail HERDR_BIN_PATH=herdr is not absolute"},
		"not a herdr":                   {world: faulty(fakeherdr.Garbage, "--version"), code: 1, key: "herdr program", begin: "fail", words: []string{"unexpected output"}, none: []string{"herdr server"}},
		"old":                           {world: func(w *fakeherdr.World) { w.Client = "0.7.4" }, code: 1, key: "herdr program", begin: "fail 0.7.4", words: []string{"too old", "0.7.5"}},
		"oldest":                        {world: func(w *fakeherdr.World) { w.Client = "0.7.5" }, key: "herdr program", begin: "ok 0.7.5"},
		"newest":                        {world: func(w *fakeherdr.World) { w.Client = "0.9.12-preview.2" }, key: "herdr program", begin: "ok 0.9.12"},
		"newer":                         {world: func(w *fakeherdr.World) { w.Client = "0.10.0" }, key: "herdr program", begin: "warn 0.10.0", words: []string{"newer"}},
		"much newer":                    {world: func(w *fakeherdr.World) { w.Client = "1.0.0" }, key: "herdr program", begin: "warn 1.0.0"},
		"no version":                    {world: func(w *fakeherdr.World) { w.Client = "today" }, key: "herdr program", begin: "warn today"},
		"down":                          {world: faulty(fakeherdr.Down), code: 1, key: "herdr server", begin: "fail does not run at", words: []string{"herdr.sock", "start Herdr"}, none: []string{"herdr call", "pane pane"}},
		"newer server":                  {world: faulty(fakeherdr.Mismatch), code: 1, key: "herdr server", begin: "fail protocol 21 of server 0.9.0 does not match protocol 20 of program 0.8.0", words: []string{"restart Herdr"}, none: []string{"pane pane"}},
		"no status":                     {world: faulty(fakeherdr.Exit2, "status"), key: "herdr server", begin: "warn its status is not known"},
		"down for all": {world: func(w *fakeherdr.World) {
			w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Exit2, Match: []string{"status"}}, {Kind: fakeherdr.Down}}
		}, code: 1, key: "herdr call", begin: "fail the server does not run"},
		"no list": {world: faulty(fakeherdr.Shape, "agent", "list"), code: 1, key: "herdr call", begin: "fail", words: []string{"unexpected output"}},
		"slow": {world: func(w *fakeherdr.World) {
			w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Slow, Match: []string{"agent", "list"}, Delay: 2100 * time.Millisecond, Left: 1}}
		}, key: "herdr call", begin: "warn takes "},
		"no such pane":   {pane: "w9:p9", code: 1, key: "pane pane", begin: "fail Herdr has no pane w9:p9", none: []string{"pane name", "pane owner"}},
		"a name as pane": {pane: "lead", code: 1, key: "pane pane", begin: "fail Herdr has no pane lead"},
		"a shell":        {pane: "w1:p4", key: "pane pane", begin: "warn Herdr sees no agent in w1:p4", none: []string{"pane name"}},
		"moved":          {world: func(w *fakeherdr.World) { w.Move("w1:p1", "w2") }, key: "pane pane", begin: "ok moved: w1:p1 is w2:p2 now"},
		"moved, name":    {world: func(w *fakeherdr.World) { w.Move("w1:p1", "w2") }, key: "pane name", begin: "ok lead: claude, idle, workspace w2"},
		"moved, peers":   {world: func(w *fakeherdr.World) { w.Move("w1:p1", "w2") }, key: "pane peers", begin: "ok builder (idle); 2 in other"},
		"refused": {world: func(w *fakeherdr.World) {
			w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.ErrorCode, Code: "odd", Match: []string{"agent", "get"}}}
		}, code: 1, key: "pane pane", begin: "fail herdr agent get: refused by herdr (odd)"},
		"unnamed":        {pane: "w1:p3", key: "pane name", begin: "warn none yet: pi, idle", words: []string{"bootstrap"}},
		"a bad name":     {world: func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Name = "Bad" }, key: "pane name", begin: "warn Bad is no valid name"},
		"alone":          {pane: "w2:p1", key: "pane peers", begin: "ok none in this workspace; 3 in other"},
		"a blocked peer": {world: func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Blocked }, key: "pane peers", begin: "ok reviewer (blocked)"},
		"no processes":   {world: faulty(fakeherdr.Exit2, "pane", "process-info"), key: "pane owner", begin: "ok not known: herdr pane process-info"},
		"nobody known":   {world: func(w *fakeherdr.World) { w.Pane("w1:p1").Shell, w.Pane("w1:p1").Foreground = 0, nil }, key: "pane owner", begin: "ok not known"},
		"no host":        {key: "hosts others", begin: "warn none of the"},
		"a bad entry": {home: func(t *testing.T, home string) {
			writeFile(t, filepath.Join(home, ".claude.json"), `{"mcpServers":{"herdr_link":{"command":`+jsonString(binaries.server)+`,"env":{"HERDR_LINK_TIMEOUT":"soon"}}}}`)
		}, code: 1, key: "hosts claude", begin: "fail registered in", words: []string{`in its entry HERDR_LINK_TIMEOUT must be`}},
		"an entry that is off": {home: func(t *testing.T, home string) {
			writeFile(t, filepath.Join(home, ".claude.json"), `{"mcpServers":{"herdr_link":{"type":"stdio","command":`+jsonString(binaries.server)+`,"env":{"HERDR_LINK_OFF":"1"}}}}`)
		}, key: "hosts claude", begin: "warn registered in", words: []string{"HERDR_LINK_OFF=1"}},
		"no such switch there": {home: func(t *testing.T, home string) {
			writeFile(t, filepath.Join(home, ".claude.json"), `{"mcpServers":{"herdr_link":{"type":"stdio","command":`+jsonString(binaries.server)+`,"env":{"HERDR_LINK_PREVIEW_REQUIRED":"sure"}}}}`)
		}, key: "hosts claude", begin: "warn registered in", words: []string{"HERDR_LINK_PREVIEW_REQUIRED=sure does nothing"}},
		"toolsets there": {home: func(t *testing.T, home string) {
			writeFile(t, filepath.Join(home, ".claude.json"), `{"mcpServers":{"herdr_link":{"type":"stdio","command":`+jsonString(binaries.server)+`,"args":["--toolsets","link,response","--caller-role","coordinator"],"env":{}}}}`)
		}, key: "hosts claude", begin: "ok registered in", words: []string{"toolsets link, response; caller role coordinator"}},
		"mesh there": {home: func(t *testing.T, home string) {
			writeFile(t, filepath.Join(home, ".claude.json"), `{"mcpServers":{"herdr_link":{"type":"stdio","command":`+jsonString(binaries.server)+`,"args":["--toolsets","mesh"],"env":{}}}}`)
		}, key: "hosts claude", begin: "ok registered in", words: []string{"toolset mesh"}},
		"mesh nowhere":      {key: "hosts others", begin: "warn none of the", none: []string{"mesh platform", "mesh state", "mesh lock", "mesh sandbox"}},
		"mesh, no records":  {env: []string{"HERDR_LINK_TOOLSETS=link, mesh"}, key: "mesh state", begin: "ok HOME/.local/state/herdr-mesh will be made"},
		"mesh, no lock":     {home: meshEntry(""), key: "mesh lock", begin: "ok free: there is no state yet"},
		"mesh, no room":     {env: []string{"HERDR_LINK_TOOLSETS=mesh", "HERDR_MESH_STATE_DIR=HOME/file/state"}, home: func(t *testing.T, home string) { writeFile(t, filepath.Join(home, "file"), "") }, code: 1, key: "mesh state", begin: "fail HOME/file/state: STATE_IO", words: []string{"not a directory", "HERDR_MESH_STATE_DIR"}},
		"mesh, its records": {home: meshEntry("", "controller-leases/"), key: "mesh state", begin: "ok HOME/.local/state/herdr-mesh, open to nobody else"},
		"mesh, free":        {home: meshEntry("", "controller-leases/"), key: "mesh lock", begin: "ok free: nobody holds it"},
		"mesh, open to others": {home: meshEntry("", "writer-leases/", "chmod writer-leases"), code: 1, key: "mesh state", begin: "fail STATE_INSECURE: HOME/.local/state/herdr-mesh/writer-leases is open to other users (mode 0755)",
			words: []string{"chmod"}, none: []string{"mesh lock"}},
		"mesh, open to others and off": {home: func(t *testing.T, home string) {
			meshEntry("", "writer-leases/", "chmod writer-leases")(t, home)
			writeFile(t, filepath.Join(home, ".claude.json"), "{}")
		}, key: "mesh state", begin: "warn STATE_INSECURE"},
		"mesh, a link that leads nowhere": {home: func(t *testing.T, home string) {
			meshEntry("")(t, home)
			if err := os.MkdirAll(filepath.Join(home, ".local", "state"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("nowhere", filepath.Join(home, ".local", "state", "herdr-mesh")); err != nil {
				t.Fatal(err)
			}
		}, code: 1, key: "mesh state", begin: "fail one may not write in HOME/.local/state/herdr-mesh"},
		"mesh, a claim of nobody": {home: meshEntry("", "controller-leases/.reservation-lock/"), code: 1, key: "mesh lock", begin: "fail indeterminate: the claim has no owner", words: []string{"herdr-link agent-control unlock --confirm"}},
		"mesh, a claim of another machine": {home: meshEntry("", `controller-leases/.reservation-lock/owner.json={"version":2,"lockId":"x","pid":1,"hostname":"elsewhere","acquiredAt":"x","hostId":"elsewhere","impl":"herdr-link"}`),
			code: 1, key: "mesh lock", begin: "fail indeterminate: the claim is of another machine", words: []string{"unlock --confirm"}},
		"mesh, a claim of the dead": {home: func(t *testing.T, home string) {
			host, err := os.Hostname()
			if err != nil {
				t.Fatal(err)
			}
			meshEntry("", `controller-leases/.reservation-lock/owner.json={"version":2,"lockId":"x","pid":1,"hostname":`+jsonString(host)+`,"acquiredAt":"x","impl":"herdr-link"}`)(t, home)
		}, key: "mesh lock", begin: "ok stale: the claim is of this program", words: []string{"takes it over"}},
		"mesh, a lock for all":           {home: meshEntry("", "controller-leases/.reservation-flock=", "chmod controller-leases/.reservation-flock"), code: 1, key: "mesh lock", begin: "fail indeterminate: the lock's file is open", words: []string{"local disk"}},
		"mesh, a root of an entry's own": {home: meshEntry("records"), code: 1, key: "mesh state", begin: `fail HERDR_MESH_STATE_DIR must be an absolute path, not "records"`, words: []string{"mend"}},
		"no such toolset there": {home: func(t *testing.T, home string) {
			writeFile(t, filepath.Join(home, ".claude.json"), `{"mcpServers":{"herdr_link":{"type":"stdio","command":`+jsonString(binaries.server)+`,"args":["--toolsets","link,dance"],"env":{}}}}`)
		}, code: 1, key: "hosts claude", begin: "fail registered in", words: []string{`in its entry no such toolset: "dance"`}},
		"no such role there": {home: func(t *testing.T, home string) {
			writeFile(t, filepath.Join(home, ".claude.json"), `{"mcpServers":{"herdr_link":{"type":"stdio","command":`+jsonString(binaries.server)+`,"args":["--toolsets","response","--caller-role","boss"],"env":{}}}}`)
		}, key: "hosts claude", begin: "warn registered in", words: []string{"caller role boss", "there is shepherd-plan, shepherd-build, coordinator"}},
		"a broken file": {home: func(t *testing.T, home string) {
			writeFile(t, filepath.Join(home, ".claude.json"), "{")
		}, code: 1, key: "hosts claude", begin: "fail ~", words: []string{"cannot be read", "line 1"}},
		"log":       {env: []string{"HERDR_LINK_LOG=HOME/log"}, home: func(t *testing.T, home string) { writeFile(t, filepath.Join(home, "log"), "x") }, key: "files log", begin: "ok", words: []string{"log, 1 bytes"}},
		"no log":    {env: []string{"HERDR_LINK_LOG=HOME/log"}, key: "files log", begin: "ok", words: []string{"will be made"}},
		"log where": {env: []string{"HERDR_LINK_LOG=HOME/no/log"}, code: 1, key: "files log", begin: "fail", words: []string{"cannot be made"}},
		"log here":  {env: []string{"HERDR_LINK_LOG=log"}, key: "files log", begin: "warn log is not absolute"},
		"log is a folder": {env: []string{"HERDR_LINK_LOG=HOME"}, code: 1, key: "files log", begin: "fail",
			words: []string{"not a regular file"}},
		"locks": {home: func(t *testing.T, home string) {
			if err := os.MkdirAll(filepath.Join(home, ".local", "state", "herdr-link", "locks"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, key: "files locks", begin: "ok", words: []string{"locks -- "}},
		"no locks": {home: func(t *testing.T, home string) { writeFile(t, filepath.Join(home, ".local"), "") }, code: 1, key: "files locks",
			begin: "fail", words: []string{"not a directory", "merge"}},
	} {
		if runtime.GOOS == "windows" && strings.HasPrefix(name, "mesh") {
			continue // it is not there
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pane := tc.pane
			if pane == "" {
				pane = "w1:p1"
			}
			s, env, home := patient(t, pane)
			for _, v := range tc.env {
				env.vars = append(env.vars, strings.Replace(v, "HOME", home, 1))
			}
			if tc.world != nil {
				change(t, s, tc.world)
			}
			if tc.home != nil {
				tc.home(t, home)
			}
			before := tree(t, home)
			d := diagnose(t, env)
			d.want(t, tc.key, strings.Replace(tc.begin, "HOME", home, 1), inHome(tc.words, home)...)
			if d.code != tc.code {
				t.Errorf("exit %d: %q", d.code, d.bad())
			}
			if strings.HasPrefix(tc.begin, "warn") || strings.HasPrefix(tc.begin, "fail") {
				if !strings.Contains(tc.begin, "its status") && !strings.Contains(tc.begin, "as an action") && strings.HasSuffix(d.by[tc.key], " -- ") {
					t.Errorf("nothing to do about it: %s", d.by[tc.key])
				}
			}
			for _, key := range tc.none {
				if line, there := d.by[key]; there {
					t.Errorf("%s: %s", key, line)
				}
			}
			if !maps.Equal(before, tree(t, home)) {
				t.Error("it changed something")
			}
			if n := len(commands(t, s, "agent", "rename")); n > 0 {
				t.Errorf("%d times renamed", n)
			}
		})
	}
}

func inHome(words []string, home string) (all []string) {
	for _, w := range words {
		all = append(all, strings.Replace(w, "HOME", home, 1))
	}
	return all
}

// meshEntry makes an entry that has the toolset mesh on, with that folder for its
// records if it names one, and in the usual folder what is named: NAME/ a folder,
// NAME=TEXT a file, both private, and chmod NAME opens one for others to read.
func meshEntry(root string, state ...string) func(t *testing.T, home string) {
	return func(t *testing.T, home string) {
		t.Helper()
		env := "{}"
		if root != "" {
			env = `{"HERDR_MESH_STATE_DIR":` + jsonString(root) + `}`
		}
		writeFile(t, filepath.Join(home, ".claude.json"), `{"mcpServers":{"herdr_link":{"type":"stdio","command":`+jsonString(binaries.server)+`,"args":["--toolsets","link,mesh"],"env":`+env+`}}}`)
		for _, s := range state {
			name, text, file := strings.Cut(s, "=")
			name, open := strings.CutPrefix(name, "chmod ")
			path := filepath.Join(home, ".local", "state", "herdr-mesh", filepath.FromSlash(name))
			dir := path
			if file {
				dir = filepath.Dir(path)
			}
			err := os.MkdirAll(dir, 0o700)
			if open {
				err = os.Chmod(path, 0o755)
			}
			if file {
				err = os.WriteFile(path, []byte(text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Whatever Herdr does, doctor comes to an end, says so, and leaves nothing behind.
func TestDoctorFaultyHerdr(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{fakeherdr.Hang, fakeherdr.Die, fakeherdr.Empty, fakeherdr.Debug, fakeherdr.Grandchild} {
		for _, match := range []string{"", "--version", "status", "agent list", "agent get", "pane process-info"} {
			t.Run(kind+" at "+match, func(t *testing.T) {
				t.Parallel()
				s, env, _ := patient(t, "w1:p1", "HERDR_LINK_TIMEOUT=3s")
				fault(t, s, kind, strings.Fields(match)...)
				d := diagnose(t, env)
				well := kind == fakeherdr.Grandchild || kind == fakeherdr.Debug && match == "--version"
				unknown := match == "pane process-info" || match == "status" && kind != fakeherdr.Hang
				if failed := d.code == 1; failed == (well || unknown) {
					t.Errorf("exit %d: %v", d.code, d.by)
				}
				eventually(t, "the end of all children", func() bool { return len(env.alive()) == 0 })
			})
		}
	}
}

var colour = regexp.MustCompile("\x1b\\[[0-9]*m")

// What Herdr and others' files say cannot do anything to a terminal.
func TestDoctorHostile(t *testing.T) {
	t.Parallel()
	const evil = "\x1b]0;owned\a\u009b31m\u202e\r\n"
	s, env, home := patient(t, "w1:p1", "HERDR_LINK_TIMEOUT=9s", "HERDR_LINK_LOG=/"+strings.ReplaceAll(evil, "\n", "")+"log")
	writeFile(t, filepath.Join(home, ".claude.json"), `{"mcpServers":{"herdr_link":{"command":`+jsonString("/"+evil+"/herdr-link")+`}}}`)
	change(t, s, func(w *fakeherdr.World) {
		w.Client = "0.8" + strings.TrimSpace(evil)
		lead, reviewer := w.Pane("w1:p1"), w.Pane("w1:p2")
		lead.Agent.Kind, lead.Agent.Name = "claude"+evil, "lead"+evil
		reviewer.Agent.Status = "idle" + evil
		lead.ID = "w1:p1"
	})
	for _, args := range [][]string{{"doctor"}, {"doctor", "--json"}} {
		out, errs, _ := run(t, env, "", args...)
		for _, r := range strings.ReplaceAll(out, "\n", "") {
			if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' {
				t.Fatalf("%q: %q in %q", args, r, out)
			}
		}
		if errs != "" || strings.Count(out, "owned") < 5 {
			t.Errorf("%q: %s%s", args, errs, out)
		}
	}
}

// Piped it is plain: one line a check, no marks and no colours.
func TestDoctorPlain(t *testing.T) {
	t.Parallel()
	_, env, _ := patient(t, "w1:p4")
	out, errs, code := run(t, env, "", "doctor")
	if code != 0 || errs != "" {
		t.Errorf("exit %d, %s", code, errs)
	}
	d := diagnose(t, env)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != len(d.Checks)+1 || len(lines) > 40 {
		t.Fatalf("%d lines for %d checks", len(lines), len(d.Checks))
	}
	for i, c := range d.Checks {
		if f := strings.Fields(lines[i]); f[0] != c.State || f[1] != c.Group || f[2] != c.Name || c.Fix != "" != strings.Contains(lines[i], " -- ") {
			t.Errorf("%q is of %+v", lines[i], c)
		}
	}
	if !regexp.MustCompile(`\A\d+ ok, \d+ warnings, 0 failed\z`).MatchString(lines[len(lines)-1]) {
		t.Errorf("the last one is %q", lines[len(lines)-1])
	}
	if strings.ContainsAny(out, "✓✗→\x1b") {
		t.Errorf("not plain: %q", out)
	}
}
