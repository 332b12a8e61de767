package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// withGit is a home of its own with the git of this machine.
func withGit(t *testing.T, more ...string) (env environment, home string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	env, home = atHome(t, append([]string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + filepath.Join(t.TempDir(), "config")}, more...)...)
	for i, v := range env.vars {
		if strings.HasPrefix(v, "GIT_DIR=") || strings.HasPrefix(v, "GIT_WORK_TREE=") {
			env.vars[i] = "NOTHING="
		}
	}
	return env, home
}

// The policy goes in and out, and status tells it as it is specified.
func TestHooksCommand(t *testing.T) {
	t.Parallel()
	env, home := withGit(t)
	dir := filepath.Join(home, ".config", "herdr-link", "hooks")
	status := func(installed bool) {
		t.Helper()
		out, errs, code := run(t, env, "", "hooks", "status")
		var got map[string]any
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || errs != "" {
			t.Fatalf("%d, %v: %s%s", code, err, out, errs)
		}
		version, _ := got["gitVersion"].(string)
		want := map[string]any{
			"configuredHooksPath": nil, "expectedHooksPath": dir, "hookInstalled": installed, "active": installed, "digestOk": installed,
			"previousHooksPath": nil, "gitVersion": version, "repoHooksPath": nil, "unshimmed": []any{},
		}
		if installed {
			want["configuredHooksPath"] = filepath.ToSlash(dir)
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if string(a) != string(b) || version == "" {
			t.Errorf("%s, want %s", a, b)
		}
	}
	step := func(pattern string, args ...string) {
		t.Helper()
		if out, errs, code := run(t, env, "", args...); code != 0 || errs != "" || !regexp.MustCompile(`\A`+pattern+`\z`).MatchString(out) {
			t.Errorf("%q: %d, %s%s", args, code, out, errs)
		}
	}
	const effect = `This holds from Git's next command on\. [^\n]+\n`
	status(false)
	step(`core\.hooksPath is now \S+\n`+effect, "hooks", "install")
	status(true)
	step(`nothing to do: [^\n]+\n`, "hooks", "install", "--force")
	status(true)
	step(`the global core\.hooksPath is unset again\n`+effect, "hooks", "uninstall")
	step(`nothing was changed: [^\n]+\n`, "hooks", "uninstall")
	status(false)
	if entries, _ := os.ReadDir(filepath.Join(home, ".config")); len(entries) > 0 {
		t.Errorf("left: %v", entries)
	}
}

func TestHooksRefused(t *testing.T) {
	t.Parallel()
	old := t.TempDir() // a git that is too old
	writeProgram(t, filepath.Join(old, "git"), "#!/bin/sh\necho git version 2.25.4\n")
	for name, tc := range map[string]struct {
		args []string
		path string // instead of the machine's
		code int
		out  string
		errs string
	}{
		"no word":        {args: []string{"hooks"}, code: 2, errs: "herdr-link: usage: herdr-link hooks "},
		"two words":      {args: []string{"hooks", "install", "x"}, code: 2, errs: "herdr-link: usage: herdr-link hooks "},
		"another word":   {args: []string{"hooks", "remove"}, code: 2, errs: `herdr-link: hooks knows install, uninstall and status, not "remove"`},
		"another option": {args: []string{"hooks", "install", "--all"}, code: 2, errs: "herdr-link: "},
		"old git":        {args: []string{"hooks", "install"}, path: old, code: 1, errs: "herdr-link: hooks: git 2.26 or later is needed; this one is 2.25.4"},
		"no git":         {args: []string{"hooks", "install"}, path: "/none", code: 1, errs: "herdr-link: hooks: git is not on PATH"},
		"no git to undo": {args: []string{"hooks", "uninstall"}, path: "/none", code: 1, errs: "herdr-link: hooks: git is not on PATH"},
		"no git to ask":  {args: []string{"hooks", "status"}, path: "/none", out: `"gitVersion": null,`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.path == old && runtime.GOOS == "windows" {
				t.Skip("a script is no program there")
			}
			env, home := withGit(t)
			if tc.path != "" {
				env.vars = append(env.vars, "PATH="+tc.path)
			}
			out, errs, code := run(t, env, "", tc.args...)
			if code != tc.code || !strings.HasPrefix(errs, tc.errs) || (tc.errs == "") != (errs == "") || strings.Count(errs, "\n") > 1 || !strings.Contains(out, tc.out) {
				t.Errorf("%d, %q, %q", code, out, errs)
			}
			if entries, _ := os.ReadDir(home); len(entries) > 0 {
				t.Errorf("wrote %v", entries)
			}
		})
	}
	t.Run("foreign", func(t *testing.T) {
		t.Parallel()
		env, home := withGit(t)
		env.vars = append(env.vars, "GIT_CONFIG_GLOBAL="+filepath.Join(home, "config"))
		writeFile(t, filepath.Join(home, "config"), "[core]\n\thooksPath = ~/mine\n")
		_, errs, code := run(t, env, "", "hooks", "install")
		if code != 1 || !strings.Contains(errs, "--force") || readFile(t, filepath.Join(home, "config")) != "[core]\n\thooksPath = ~/mine\n" {
			t.Errorf("%d, %s", code, errs)
		}
		if out, errs, code := run(t, env, "", "hooks", "--force", "install"); code != 0 || !strings.Contains(out, "run after the policy") {
			t.Errorf("%d, %s%s", code, out, errs)
		}
		if out, _, code := run(t, env, "", "hooks", "uninstall"); code != 0 || !strings.HasPrefix(out, "the global core.hooksPath is again ~/mine\n") {
			t.Errorf("%d, %s", code, out)
		}
	})
}
