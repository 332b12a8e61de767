//go:build unix

package main

import (
	"encoding/base64"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A signal ends an export, all its processes and its files, within a second.
func TestResponseEnds(t *testing.T) {
	t.Parallel()
	key := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	for name, begin := range map[string]func(f *flock) *host{
		"server": func(f *flock) *host {
			h := f.start(t, "shepherd-plan")
			h.begin("herdr_agent_response", `{"target":"reviewer"}`)
			return h
		},
		"respond": func(f *flock) *host {
			h := startProgram(t, inPane(t, f.scene, "w1:p1", f.env...), binaries.server, "orchestration", "respond")
			h.write(`{"v":1,"secret":"` + key + `","agent":"shepherd-plan","args":{"target":"reviewer"}}`)
			h.stdin.Close()
			return h
		},
	} {
		t.Run(name, func(t *testing.T) {
			soon(t, func() time.Duration {
				f := newFlock(t)
				h := begin(f)
				eventually(t, "an export", func() bool {
					found, _ := filepath.Glob(filepath.Join(f.bin, "waiting"))
					return len(found) > 0
				})
				pids := h.env.alive()
				if len(pids) < 3 {
					t.Errorf("only %d processes", len(pids))
				}
				begun := time.Now()
				if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Error(err)
				}
				h.wait()
				took := time.Since(begun)
				eventually(t, "the end of all", func() bool { return len(h.env.living(pids)) == 0 })
				f.clean(t)
				return max(took, time.Since(begun)-20*time.Millisecond)
			})
		})
	}
}
