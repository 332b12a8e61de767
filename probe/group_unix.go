//go:build unix

package probe

import (
	"os"
	"os/exec"
	"syscall"
)

const signals = true

// ownGroup puts a child into a process group of its own: a runner such as npx
// starts the server as a child of a child.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// alive reports whether there is such a process, be it only unburied.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
