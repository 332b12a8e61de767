//go:build unix

package orchestration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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

// stuckGit is a git that, the first time it shall change a setting, takes the lock
// of the file and gets stuck, before or after it has made the change.
const stuckGit = `#!/bin/sh
case "$*" in *"config --global --"[ru]*)
	if mkdir "$HOME/once" 2>/dev/null; then
		[ %[2]s = before ] || %[1]s "$@"
		: >"$HOME/.gitconfig.lock"
		trap 'kill "$!"; rm "$HOME/.gitconfig.lock"; exit 143' TERM
		sleep 60 >/dev/null 2>&1 &
		: >"$HOME/stuck"
		wait
	fi ;;
esac
exec %[1]s "$@"
`

// stop puts such a git on PATH, runs do, and cancels its context when git is stuck.
func (s *sandbox) stop(when string, do func(context.Context) (string, error)) error {
	s.t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		s.t.Fatal(err)
	}
	s.put(s.home("bin/git"), fmt.Sprintf(stuckGit, git, when), 0o755)
	s.t.Setenv("PATH", s.home("bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	ctx, stop := context.WithCancel(s.t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		_, err := do(ctx)
		done <- err
	}()
	for end := time.Now().Add(time.Minute); !exists(s.home("stuck")); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatal("no git was stuck")
		}
	}
	stop()
	err = <-done
	if exists(s.home(".gitconfig.lock")) {
		s.t.Error("the lock of the global configuration is left")
	}
	return err
}

// A process that has to end leaves all or nothing behind, whatever git had done.
func TestHooksStopped(t *testing.T) {
	for _, before := range []string{"", "[core]\n\thooksPath = ~/mine\n"} {
		for _, when := range []string{"before", "after"} {
			name := when + strings.Fields(before + " unset")[0]
			t.Run("install over "+name, func(t *testing.T) {
				s := bare(t, "sha1")
				s.put(s.home(".gitconfig"), before+s.config(), 0o600)
				config := s.config()
				if err := s.stop(when, func(ctx context.Context) (string, error) { return s.Install(ctx, true) }); err == nil {
					t.Error("it says that it went well")
				}
				if got := s.config(); got != config || len(s.files()) > 0 {
					t.Errorf("left: %q and\n%s", s.files(), got)
				}
			})
			t.Run("uninstall to "+name, func(t *testing.T) {
				s := bare(t, "sha1")
				s.put(s.home(".gitconfig"), before+s.config(), 0o600)
				config := s.config()
				s.install(true)
				if err := s.stop(when, s.Uninstall); err != nil {
					t.Error(err)
				}
				if got := s.config(); got != config || len(s.files()) > 0 {
					t.Errorf("left: %q and\n%s", s.files(), got)
				}
			})
		}
	}
}

// Nothing waits for a pipe, wherever one stands.
func TestHooksPipes(t *testing.T) {
	s := fresh(t, "")
	s.install(false)
	pipe := func(path string) {
		t.Helper()
		os.Remove(path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	pipe(s.path("update"))
	if got := s.status(); got.DigestOK || !got.Active {
		t.Errorf("%+v", got)
	}
	if done := s.uninstall(); !strings.Contains(done, "kept: "+s.path("update")) {
		t.Error(done)
	}
	s.refused("update is no regular file", false)
	os.Remove(s.path("update"))
	pipe(s.path(manifestName))
	s.refused("manifest is no regular file", false)
	os.Remove(s.path(manifestName))
	pipe(s.home("mine/pre-push"))
	s.git("config", "--global", "core.hooksPath", s.home("mine"))
	s.install(true)
	s.uninstall()
}

// With the right to do so, git would put a file in the place of /dev/null, which
// stands for no global configuration at all.
func TestNoGlobalConfig(t *testing.T) {
	for _, how := range []string{"variable", "link"} {
		t.Run(how, func(t *testing.T) {
			s := fresh(t, "")
			null := os.DevNull
			if os.Geteuid() == 0 { // another one like it
				info, err := os.Stat(null)
				if err != nil {
					t.Fatal(err)
				}
				null = s.home("null")
				if err := syscall.Mknod(null, syscall.S_IFCHR|0o666, int(info.Sys().(*syscall.Stat_t).Rdev)); err != nil {
					t.Skip(err)
				}
			}
			if how == "link" {
				os.Remove(s.home(".gitconfig"))
				if err := os.Symlink(null, s.home(".gitconfig")); err != nil {
					t.Fatal(err)
				}
			} else {
				s.Environ = append(slices.Clone(s.env), "GIT_CONFIG_GLOBAL="+null)
			}
			s.refused("is no regular file", true)
			if info, err := os.Stat(null); err != nil || info.Mode()&os.ModeCharDevice == 0 {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
}
