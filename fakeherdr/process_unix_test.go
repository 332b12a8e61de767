//go:build unix

package fakeherdr

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func newGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killed(err *exec.ExitError) bool {
	status := err.Sys().(syscall.WaitStatus)
	return status.Signaled() && status.Signal() == syscall.SIGKILL
}

// checkGroup says which group a grandchild has to be in: whoever kills the
// group of the call reaches it, or must not.
func checkGroup(t *testing.T, kind string, call, child int) {
	t.Helper()
	want := call
	if kind == GrandchildDetached {
		want = child
	}
	if got, err := syscall.Getpgid(child); err != nil || got != want {
		t.Errorf("the grandchild is in group %d, not %d: %v", got, want, err)
	}
}

func checkAlive(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the grandchild: %v", err)
	}
}

// Windows has no such arguments.
func TestArgumentsAreUTF8(t *testing.T) {
	out, err := herdr(newScene(t), "agent", "prompt", "lead", "caf\xe9").CombinedOutput()
	if err == nil || string(out) != "argument 4 is not valid UTF-8\n" {
		t.Errorf("%v: %s", err, out)
	}
}
