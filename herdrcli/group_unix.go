//go:build unix

package herdrcli

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"unsafe"
)

// A group is the process group of one child: all that the child started and
// that did not leave it.
type group struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	gone bool // the leader may have been reaped, its id may be another's
}

func newGroup(cmd *exec.Cmd) *group {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	return &group{cmd: cmd}
}

// session makes the child lead a session too, and with it its group.
func (g *group) session() { g.cmd.SysProcAttr.Setpgid, g.cmd.SysProcAttr.Setsid = false, true }

// kill kills the group while its leader has not been reaped.
func (g *group) kill() error { return g.signal(syscall.SIGKILL) }

// terminate asks the group to end.
func (g *group) terminate() error { return g.signal(syscall.SIGTERM) }

func (g *group) signal(s syscall.Signal) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone || g.cmd.Process == nil {
		return os.ErrProcessDone
	}
	err := syscall.Kill(-g.cmd.Process.Pid, s)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// adopt does nothing: the child has made the group itself.
func (g *group) adopt() {}

// wait waits until the leader has exited, and kills what it left behind before
// it is reaped: until then nobody else can get its id.
func (g *group) wait() {
	waitExited(g.cmd.Process.Pid)
	_ = g.kill()
	g.mu.Lock()
	g.gone = true
	g.mu.Unlock()
}

// waitExited waits until the child has exited, without reaping it.
func waitExited(pid int) {
	const pPID = 1
	var info [128]byte // siginfo_t, not looked at
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid),
			uintptr(unsafe.Pointer(&info[0])), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		runtime.KeepAlive(&info)
		if errno != syscall.EINTR {
			return
		}
	}
}

func runnable(info fs.FileInfo, _ string) bool { return info.Mode()&0o111 != 0 }

// tooLong reports an error of the system that means what E2BIG does.
func tooLong(error) bool { return false }

// waiting returns what can be read from the pipe at once, up to about max bytes.
func waiting(r *os.File, max int) (data []byte) {
	raw, err := r.SyscallConn()
	if err != nil {
		return nil
	}
	chunk := make([]byte, 4096)
	_ = raw.Read(func(fd uintptr) bool {
		for len(data) <= max {
			n, err := syscall.Read(int(fd), chunk)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if n <= 0 {
				break
			}
			data = append(data, chunk[:n]...)
		}
		return true
	})
	return data
}
