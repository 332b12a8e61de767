package sandbox

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"
)

// seal keeps the descriptors that this process got from its parent from being
// handed on: bubblewrap passes to the command whatever it finds open. Those that
// Go opens are sealed anyway, so another goroutine's are never in the way.
func seal() {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// end kills the process, which is no child, and waits until it has exited. The
// first one of a pid namespace does so after all others. Without a pidfd it is
// not touched: its id may be another's.
func end(p *os.Process, within time.Duration) (over bool) {
	if errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		return true
	}
	_ = p.WithHandle(func(pidfd uintptr) {
		_ = p.Kill()
		over = readable(int(pidfd), within)
	})
	return over
}

// readable waits until the descriptor can be read.
func readable(fd int, within time.Duration) bool {
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return false
	}
	defer syscall.Close(poll)
	if err := syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN}); err != nil {
		return false
	}
	for end := time.Now().Add(within); ; {
		left := max(0, time.Until(end))
		switch n, err := syscall.EpollWait(poll, make([]syscall.EpollEvent, 1), int(left.Milliseconds())); {
		case errors.Is(err, syscall.EINTR):
		case err != nil || n > 0 || left == 0:
			return n > 0
		}
	}
}
