package main

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

// From nothing to six agents and back, without OpenCode on PATH. Nothing of the
// user's is touched.
func TestOrchestration(t *testing.T) {
	t.Parallel()
	env, home := atHome(t)
	config := filepath.Join(home, ".config", "opencode")
	settings := filepath.Join(config, "opencode.jsonc")
	const mine = "{\n  // mine\n  \"agent\": { \"sheep-plan\": { \"model\": \"p/m\" } }, /* and mine */\n}\n"
	writeFile(t, settings, mine)

	out, errs, code := run(t, env, "", "orchestration", "install", "--dry-run", "--worker-model", "p/w")
	if code != 0 || errs != "" || strings.Count(out, "create    ") != 3 || !strings.HasSuffix(out, "nothing was written\n") {
		t.Errorf("dry run: %d, %s%s", code, out, errs)
	}
	if all, err := os.ReadDir(config); err != nil || len(all) != 1 {
		t.Errorf("after a dry run: %v, %v", err, all)
	}
	out, errs, code = run(t, env, "", "orchestration", "install", "--worker-model", "p/w", "--allow-tool", "forge_*")
	if code != 0 || errs != "" || !strings.HasPrefix(out, "no model is set for the reviewers: they take the one that is active in OpenCode\nopencode is not on PATH") ||
		!strings.Contains(out, "\nthe push policy is not in the shells of these agents: ") || // there is no git either
		strings.Count(out, "created   ") != 3 || !strings.HasSuffix(out, "start OpenCode anew: a running one knows nothing of it\n") {
		t.Errorf("install: %d, %s%s", code, out, errs)
	}
	out, errs, code = run(t, env, "", "orchestration", "status")
	var s struct {
		ConfigDir string
		Installed bool
		Files     []struct{ State string }
		Binary    struct {
			Path, Version string
			Exists        bool
		}
		Models struct{ Worker, Reviewer *string }
		Agents []struct {
			Name       string
			Overridden bool
		}
		OpenCode    struct{ Supported bool }
		Integration *string
		Conflicts   []string
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != 0 || errs != "" || !strings.HasPrefix(out, "{\n  \"version\": ") {
		t.Fatalf("status: %d, %v, %s%s", code, err, out, errs)
	}
	if s.ConfigDir != config || !s.Installed || len(s.Files) != 2 || s.Files[0].State != "ok" || s.Binary.Path != binaries.server || !s.Binary.Exists ||
		s.Binary.Version != strings.TrimSpace(version) || *s.Models.Worker != "p/w" || s.Models.Reviewer != nil || len(s.Agents) != 6 || s.OpenCode.Supported ||
		s.Integration != nil || len(s.Conflicts) > 0 {
		t.Errorf("%s", out)
	}
	for _, a := range s.Agents {
		if a.Overridden != (a.Name == "sheep-plan") {
			t.Errorf("%+v", a)
		}
	}
	if out, _, code := run(t, env, "", "orchestration", "status", "--check"); code != 1 || !strings.HasPrefix(out, "{") { // there is no OpenCode
		t.Errorf("status --check: %d, %s", code, out)
	}
	out, errs, code = run(t, env, "", "orchestration", "uninstall")
	if code != 0 || errs != "" || strings.Count(out, "removed   ") != 3 {
		t.Errorf("uninstall: %d, %s%s", code, out, errs)
	}
	if all, err := os.ReadDir(config); err != nil || len(all) != 1 || readFile(t, settings) != mine {
		t.Errorf("afterwards: %v, %v, %s", err, all, readFile(t, settings))
	}
	if out, _, code := run(t, env, "", "orchestration", "uninstall"); code != 0 || out != "nothing installed\n" {
		t.Errorf("uninstall again: %d, %s", code, out)
	}
}

// The push policy comes and goes with it: for these agents alone, or for all.
func TestOrchestrationHooks(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not on PATH")
	}
	env, home := atHome(t, "PATH="+os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=")
	env.vars = set(env.vars, "GIT_CONFIG_GLOBAL")
	policy := filepath.Join(home, ".config", "herdr-link", "hooks")
	state := func() (global string, active, there bool) {
		t.Helper()
		cmd := exec.Command(git, "config", "--global", "core.hooksPath")
		cmd.Env = env.vars
		out, _ := cmd.Output()
		text, errs, code := run(t, env, "", "orchestration", "status")
		var s struct {
			Hooks struct{ Active, HookInstalled bool }
		}
		if err := json.Unmarshal([]byte(text), &s); err != nil || code != 0 {
			t.Fatalf("%d, %v, %s%s", code, err, text, errs)
		}
		return strings.TrimSpace(string(out)), s.Hooks.Active, s.Hooks.HookInstalled
	}
	check := func(words string, wantGlobal string, wantActive, wantThere bool) {
		t.Helper()
		out, errs, code := run(t, env, "", append([]string{"orchestration"}, strings.Fields(words)...)...)
		if code != 0 || errs != "" {
			t.Fatalf("%s: %d, %s%s", words, code, out, errs)
		}
		if global, active, there := state(); global != wantGlobal || active != wantActive || there != wantThere {
			t.Errorf("after %s: %q, %t, %t", words, global, active, there)
		}
	}
	const install = "install --no-validate --worker-model inherit --reviewer-model inherit"
	check(install, "", false, true)
	if out, _, _ := run(t, env, "", append([]string{"orchestration"}, strings.Fields(install)...)...); !strings.Contains(out, "are in "+policy+"\n") {
		t.Errorf("it does not say where the hooks are: %s", out)
	}
	check(install+" --no-session-hooks", "", false, false)
	check(install+" --with-hooks", policy, true, true)
	check("uninstall", policy, true, true)
	check(install+" --with-hooks", policy, true, true)
	check("uninstall --with-hooks", "", false, false)

	writeFile(t, filepath.Join(home, ".gitconfig"), "[core]\n\thooksPath = /theirs\n")
	out, errs, code := run(t, env, "", append([]string{"orchestration"}, strings.Fields(install+" --with-hooks")...)...)
	if code != 1 || out != "" || !strings.Contains(errs, "/theirs") {
		t.Errorf("%d, %s%s", code, out, errs)
	}
	if global, _, there := state(); global != "/theirs" || there {
		t.Errorf("afterwards: %q, %t", global, there)
	}
	if all, err := os.ReadDir(filepath.Join(home, ".config", "opencode")); err == nil && len(all) > 0 {
		t.Errorf("afterwards: %v", all)
	}
}

// An install that fails at its last step, or is told to end there, leaves the
// hooks that sessions use already as they were.
func TestOrchestrationHooksUndone(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not on PATH")
	}
	if runtime.GOOS == "windows" {
		t.Skip("nothing can be told to end there")
	}
	const install = "orchestration install --no-validate --worker-model inherit --reviewer-model inherit"
	for name, test := range map[string]struct {
		before  bool // there is an installation, of which a hook has to be renewed
		foreign bool // somebody else's hooks are the global ones
		stuck   string
		more    string
	}{
		"anew":                  {foreign: true, more: "--with-hooks"},
		"renewed":               {before: true, foreign: true, more: "--with-hooks"},
		"out of the sessions":   {before: true, foreign: true, more: "--with-hooks --no-session-hooks"},
		"told to end":           {before: true, stuck: "--file", more: "--allow-tool x"},
		"told to end, anew":     {stuck: "--file", more: "--with-hooks"},
		"told to end, near end": {before: true, stuck: "--replace-all", more: "--with-hooks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, home := atHome(t, "PATH="+os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1")
			env.vars = set(env.vars, "GIT_CONFIG_GLOBAL")
			if test.before {
				if out, errs, code := run(t, env, "", strings.Fields(install)...); code != 0 {
					t.Fatal(out, errs)
				}
				if err := os.Chmod(filepath.Join(home, ".config", "herdr-link", "hooks", "pre-push"), 0o744); err != nil {
					t.Fatal(err)
				}
			}
			if test.foreign {
				writeFile(t, filepath.Join(home, ".gitconfig"), "[core]\n\thooksPath = /theirs\n")
			} else {
				writeFile(t, filepath.Join(home, ".gitconfig"), "[user]\n\tname = x\n")
			}
			before := texts(t, home)
			bin := t.TempDir()
			env.vars = append(env.vars, "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
			writeProgram(t, filepath.Join(bin, "git"), "#!/bin/sh\ncase \"$*\" in *'"+cmp.Or(test.stuck, "never")+"'*) mkdir '"+bin+"/stuck' 2>/dev/null && exec sleep 60 ;; esac\nexec '"+git+"' \"$@\"\n")
			h := start(t, env, strings.Fields(install+" "+test.more)...)
			if test.stuck != "" {
				eventually(t, "a git that is stuck", func() bool { _, err := os.Stat(filepath.Join(bin, "stuck")); return err == nil })
				if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			if code := h.wait(); code != 1 {
				t.Errorf("exit code %d: %s", code, h.stderr)
			}
			after := texts(t, home)
			for path, was := range before {
				if after[path] != was {
					t.Errorf("%s is %q, and was %q", path, after[path], was)
				}
			}
			for path := range after {
				if _, was := before[path]; !was {
					t.Errorf("left: %s", path)
				}
			}
		})
	}
}

// texts returns all files and folders with their modes, and the files' texts, but
// for locks, which stay.
func texts(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for path := range tree(t, dir) {
		if strings.HasPrefix(path, filepath.Join(dir, ".local")) {
			continue
		}
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = info.Mode().String()
		if info.Mode().IsRegular() {
			all[path] += " " + readFile(t, path)
		}
	}
	return all
}

// That OpenCode is asked is said before, and what it answered.
func TestOrchestrationAsks(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a script is no program there")
	}
	bin := t.TempDir()
	writeProgram(t, filepath.Join(bin, "opencode"), "#!/bin/sh\n[ \"$1\" = debug ] && printf '{\"name\":\"%s\",\"mode\":\"primary\"}' \"$3\"\n")
	env, _ := atHome(t, "PATH="+bin)
	out, errs, code := run(t, env, "", "orchestration", "install")
	if code != 0 || !strings.HasPrefix(errs, "asking OpenCode whether it takes the agents") || !strings.Contains(out, "takes all six agents") {
		t.Errorf("%d, %s%s", code, out, errs)
	}
}

// Where OpenCode's folder is.
func TestOrchestrationFolder(t *testing.T) {
	t.Parallel()
	env, home := atHome(t)
	for name, test := range map[string]struct {
		vars, args []string
		want       string
	}{
		"the usual":            {want: filepath.Join(home, ".config", "opencode")},
		"by XDG":               {vars: []string{"XDG_CONFIG_HOME=" + filepath.Join(home, "xdg")}, want: filepath.Join(home, "xdg", "opencode")},
		"no XDG":               {vars: []string{"XDG_CONFIG_HOME=relative"}, want: filepath.Join(home, ".config", "opencode")},
		"by OpenCode":          {vars: []string{"XDG_CONFIG_HOME=" + home, "OPENCODE_CONFIG_DIR=" + filepath.Join(home, "oc")}, want: filepath.Join(home, "oc")},
		"by the option":        {vars: []string{"OPENCODE_CONFIG_DIR=" + home}, args: []string{"--config-dir", filepath.Join(home, "option")}, want: filepath.Join(home, "option")},
		"as a relative option": {args: []string{"--config-dir", "here"}, want: filepath.Join(workingFolder(t), "here")},
	} {
		vars := append(slices.Clone(env.vars), test.vars...)
		out, errs, code := run(t, environment{vars: vars}, "", append([]string{"orchestration", "status"}, test.args...)...)
		var s struct{ ConfigDir string }
		if err := json.Unmarshal([]byte(out), &s); err != nil || code != 0 || s.ConfigDir != test.want {
			t.Errorf("%s: %d, %v, %s%s", name, code, err, out, errs)
		}
	}
}

func workingFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Mistakes end with 2, refusals with 1, and neither writes.
func TestOrchestrationRefuses(t *testing.T) {
	t.Parallel()
	env, home := atHome(t)
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"orchestration":                                {2, "needs one of install, uninstall, status, interrupt"},
		"orchestration start":                          {2, "knows install, uninstall, status and interrupt"},
		"orchestration install here":                   {2, "takes no arguments"},
		"orchestration status --force":                 {2, "has no option --force"},
		"orchestration install --check":                {2, "has no option --check"},
		"orchestration uninstall --dry-run":            {2, "has no option --dry-run"},
		"orchestration install --worker-model x":       {2, "--worker-model must be PROVIDER/MODEL or inherit"},
		"orchestration install --reviewer-model /x":    {2, "--reviewer-model must be PROVIDER/MODEL or inherit"},
		"orchestration install --allow-tool bash":      {2, "no tool that can be added"},
		"orchestration install --nothing":              {2, "no such option: --nothing"},
		"orchestration interrupt":                      {2, "usage: herdr-link orchestration interrupt TARGET"},
		"orchestration interrupt a b":                  {2, "usage: herdr-link orchestration interrupt TARGET"},
		"orchestration interrupt a --config-dir x":     {2, "has no option --config-dir"},
		"orchestration interrupt worker":               {1, "this is not a pane of Herdr"},
		"orchestration interrupt -- --session=x":       {1, "this is not a pane of Herdr"},
		"orchestration status --config-dir /dev/null":  {0, ""},
		"orchestration install --config-dir /dev/null": {1, "/dev/null"},
	} {
		if strings.Contains(args, "/dev/null") && os.DevNull != "/dev/null" {
			continue
		}
		out, errs, code := run(t, env, "", strings.Fields(args)...)
		if code != want.code || !strings.Contains(errs, want.says) || code != 0 && out != "" {
			t.Errorf("%s: %d, %s%s", args, code, out, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(home, ".config")); err == nil {
		t.Error("something was written")
	}
	temporary := append(slices.Clone(env.vars), "TMPDIR="+filepath.Dir(binaries.server), "TMP="+filepath.Dir(binaries.server), "TEMP="+filepath.Dir(binaries.server))
	if _, errs, code := run(t, environment{vars: temporary}, "", "orchestration", "install"); code != 1 || !strings.Contains(errs, "it is in a folder for temporary files") {
		t.Errorf("from a temporary folder: %d, %s", code, errs)
	}
}

// One key, for a working OpenCode of the own workspace alone.
func TestOrchestrationInterrupt(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	add := func(w *fakeherdr.World, workspace, kind, name, status string) {
		w.AddPane(workspace, kind, name).Agent.Status = status
	}
	change(t, s, func(w *fakeherdr.World) {
		add(w, "w1", "opencode", "busy", fakeherdr.Working)
		add(w, "w1", "opencode", "rests", fakeherdr.Idle)
		add(w, "w1", "opencode", "asks", fakeherdr.Blocked)
		add(w, "w2", "opencode", "away", fakeherdr.Working)
		w.Pane("w1:p1").Agent.Kind, w.Pane("w1:p1").Agent.Status = "opencode", fakeherdr.Working
		w.Pane("w1:p2").Agent.Status = fakeherdr.Working // codex
	})
	env := inPane(t, s, "w1:p1")
	for target, says := range map[string]string{
		"rests": "nothing to interrupt", "asks": "waits for its human", "away": "no such agent in this workspace", "nobody": "no such agent in this workspace",
		"reviewer": "no OpenCode, and ctrl+c may end", "lead": "own pane", "w1:p1": "own pane", "Busy": "a target is",
	} {
		out, errs, code := run(t, env, "", "orchestration", "interrupt", target)
		if code != 1 || out != "" || !strings.Contains(errs, says) || strings.Contains(strings.ReplaceAll(errs, "w1:p2", ""), "w1:") {
			t.Errorf("%s: %d, %s%s", target, code, out, errs)
		}
	}
	leaf := environment{vars: append(slices.Clone(env.vars), "SHEPHERD_MODE=sheep-build")}
	if _, errs, code := run(t, leaf, "", "orchestration", "interrupt", "busy"); code != 1 || !strings.Contains(errs, "by its SHEPHERD_MODE") {
		t.Errorf("a leaf: %d, %s", code, errs)
	}
	if keys := commands(t, s, "agent", "send-keys"); len(keys) > 0 {
		t.Fatalf("keys were sent: %q", keys)
	}

	if _, errs, code := run(t, env, "hello", "send", "busy"); code != 0 {
		t.Fatalf("send: %s", errs)
	}
	out, errs, code := run(t, env, "", "orchestration", "interrupt", "busy")
	if code != 0 || errs != "" || out != "interrupted busy\n" {
		t.Errorf("%d, %s%s", code, out, errs)
	}
	if keys := commands(t, s, "agent", "send-keys"); len(keys) != 1 || !slices.Equal(keys[0], []string{"agent", "send-keys", "busy", "ctrl+c"}) {
		t.Errorf("%q", keys)
	}
	if _, errs, code := run(t, env, "hello again", "send", "busy"); code != 0 {
		t.Fatalf("send: %s", errs)
	}
	calls, err := s.Calls()
	if err != nil {
		t.Fatal(err)
	}
	var at []time.Time // of a message, the key and a message
	for _, c := range calls {
		if c.Args[1] == "prompt" || c.Args[1] == "send-keys" {
			at = append(at, c.At)
		}
	}
	if len(at) != 3 || at[1].Sub(at[0]) < 350*time.Millisecond || at[2].Sub(at[1]) < 340*time.Millisecond {
		t.Errorf("too near to each other: %v", at)
	}
}
