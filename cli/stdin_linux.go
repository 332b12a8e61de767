package cli

import (
	"io"
	"os"
	"syscall"
)

// parked returns f so that a Read which has to wait keeps neither a thread nor,
// for a moment, a processor from the calls in flight. What cannot be polled, a
// regular file, is returned as it is.
//
// The usual way, O_NONBLOCK, would change the pipe for others that have it too.
// So f goes into an epoll set of this process, and that set into Go's poller.
func parked(f *os.File) io.Reader {
	set, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return f
	}
	fd := int(f.Fd())
	if syscall.EpollCtl(set, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}) != nil ||
		syscall.SetNonblock(set, true) != nil {
		_ = syscall.Close(set)
		return f
	}
	poller := os.NewFile(uintptr(set), "stdin")
	ready, err := poller.SyscallConn()
	if err != nil {
		_ = poller.Close()
		return f
	}
	return &parkedReader{f, poller, ready}
}

type parkedReader struct {
	f      *os.File
	poller *os.File // kept open as long as ready is used
	ready  syscall.RawConn
}

func (r *parkedReader) Read(p []byte) (int, error) {
	_ = r.ready.Read(func(set uintptr) bool {
		var events [1]syscall.EpollEvent
		n, err := syscall.EpollWait(int(set), events[:], 0)
		for err == syscall.EINTR {
			n, err = syscall.EpollWait(int(set), events[:], 0)
		}
		return n != 0 // also if it cannot be told
	}) // where Go cannot poll the set, the Read below waits
	return r.f.Read(p)
}
