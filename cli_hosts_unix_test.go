//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A folder can be removed under a shell. That says nothing about the home
// folder, where the user's hosts are.
func TestFolderThatIsGone(t *testing.T) {
	t.Parallel()
	env, home := atHome(t)
	writeFile(t, filepath.Join(home, ".codex", "config.toml"), "")
	script := `/bin/mkdir "$1" && cd "$1" && /bin/rmdir "$1" && shift && exec "$@"`
	for args, want := range map[string]string{
		"doctor":                   "hosts        codex      not registered -- herdr-link install codex",
		"status":                   "codex      absent",
		"install --dry-run":        "codex      would change ",
		"install --project claude": "claude     failed: this folder is not there any more",
	} {
		gone := filepath.Join(t.TempDir(), "gone")
		cmd := exec.Command("/bin/sh", append([]string{"-c", script, "sh", gone, binaries.server}, strings.Fields(args)...)...)
		cmd.Env = append(env.vars, "PWD="+gone)
		out, err := cmd.CombinedOutput()
		if _, lost := err.(*exec.ExitError); err != nil && !lost || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s", args, err, out)
		}
		if _, err := os.Stat(gone); err == nil {
			t.Errorf("%s made the folder again", args)
		}
	}
}
