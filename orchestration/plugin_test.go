package orchestration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The plugin, in Node: testdata/plugin.test.mjs says what it must do. This test
// binary plays the program that it runs.
func TestPlugin(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not on PATH: the plugin is not loaded")
	}
	tr := newTrial(t, "")
	tr.Data.Tool = Tool{"the description", json.RawMessage(`{"target":{"type":"string"},"cursor":{"type":"string"},"maxBytes":{"type":"integer"}}`)}
	tr.install(quick)
	tr.put("package.json", `{"type":"module"}`) // OpenCode takes every file for a module
	if err := os.WriteFile(tr.journal, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=spec", filepath.Join("testdata", "plugin.test.mjs"))
	cmd.Env = append(os.Environ(), "CONFIG="+tr.Place.Dir, "HOOKS="+tr.Data.Hooks, roleVariable+"=herdr-link", journalVariable+"="+tr.journal,
		"GIT_CONFIG_COUNT=0", "HERDR_LINK_BIN=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
