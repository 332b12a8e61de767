//go:build unix

package hosts

import (
	"os"
	"syscall"
	"testing"
)

func TestOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only the superuser can give files away")
	}
	m := machine(t, map[string]string{"~/.kimi-code/mcp.json": "{}"})
	if err := os.Chown(m.path("~/.kimi-code/mcp.json"), 12345, 12346); err != nil {
		t.Skip(err)
	}
	if r := m.Install(must(t, "kimi"), Options{Program: program}); r.Err != nil {
		t.Fatal(r.Err)
	}
	for _, name := range []string{"mcp.json", "mcp.json" + backupName} {
		info, err := os.Stat(m.path("~/.kimi-code/" + name))
		if err != nil {
			t.Fatal(err)
		}
		if s := info.Sys().(*syscall.Stat_t); s.Uid != 12345 || s.Gid != 12346 {
			t.Errorf("%s belongs to %d, %d", name, s.Uid, s.Gid)
		}
	}
}
