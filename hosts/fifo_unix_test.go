//go:build unix

package hosts

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What stands where a host has a file and is none is never opened: reading it
// would not come to an end.
func TestPipesAreNotRead(t *testing.T) {
	t.Parallel()
	claude, _ := Find("claude")
	for _, name := range []string{"~/.claude.json", "~/.claude/settings.json", "~/.claude.json" + backupName, ".mcp.json"} {
		m := machine(t, map[string]string{"~/.claude/x": ""})
		if name == "~/.claude.json"+backupName {
			put(t, m.path("~/.claude.json"), `{"mcpServers":{"herdr_link":{"command":"/x/herdr-link"}}}`)
		}
		if err := os.MkdirAll(filepath.Dir(m.path(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(m.path(name), 0o600); err != nil {
			t.Fatal(err)
		}
		done := make(chan Report, 2)
		go func() {
			o := Options{Program: "/x/herdr-link", Allow: true, Project: name == ".mcp.json"}
			m.Examine(claude, o)
			done <- m.Uninstall(claude, o)
			done <- m.Install(claude, o)
		}()
		for range 2 {
			select {
			case r := <-done:
				if !strings.HasSuffix(name, backupName) && (r.Err == nil || strings.Count(r.Err.Error(), m.path(name)) != 1) {
					t.Errorf("%s: %+v", name, r)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%s is being read", name)
			}
		}
	}
}
