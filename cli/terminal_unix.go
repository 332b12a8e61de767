//go:build unix

package cli

// A pollFD is C's struct pollfd.
type pollFD struct {
	fd              int32
	events, revents int16
}

func (p pollFD) broken() bool {
	const pollErr, pollHup, pollNval = 0x8, 0x10, 0x20
	return p.revents&(pollErr|pollHup|pollNval) != 0
}
