//go:build unix

package cli

import "syscall"

// nonBlock keeps the opening of a FIFO from waiting for its reader.
const nonBlock = syscall.O_NONBLOCK

// A pollFD is C's struct pollfd.
type pollFD struct {
	fd              int32
	events, revents int16
}

func (p pollFD) broken() bool {
	const pollErr, pollHup, pollNval = 0x8, 0x10, 0x20
	return p.revents&(pollErr|pollHup|pollNval) != 0
}
