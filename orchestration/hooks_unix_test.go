//go:build unix

package orchestration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Whatever ends the hook, no file with its lines is left. (The sandbox looks
// for one at the end of every test.)
func TestSignals(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			s := newSandbox(t, "sha1")
			s.hook(".git/hooks", "pre-push", "repo")
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			cmd := exec.Command(filepath.Join(s.Dir, "pre-push"), "origin")
			cmd.Dir, cmd.Env, cmd.Stdin = s.dir, append(slices.Clone(s.env), "SHEPHERD_MODE=plan"), r
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			r.Close()
			w.WriteString("refs/heads/feature ")
			deadline := time.Now().Add(time.Minute)
			for written := 0; written == 0; time.Sleep(time.Millisecond) {
				files, _ := filepath.Glob(filepath.Join(quoteGlob(s.root), "tmp", "*"))
				for _, file := range files {
					info, err := os.Stat(file)
					if err != nil || info.Mode() != 0o600 {
						t.Errorf("%v, %v", info, err)
					}
					written += len(s.text(file))
				}
				if time.Now().After(deadline) {
					t.Fatal("there is no temporary file")
				}
			}
			if err := syscall.Kill(-cmd.Process.Pid, signal); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("it ended well")
			}
			s.logged()
		})
	}
}
