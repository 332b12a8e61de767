//go:build unix

package link

import (
	"errors"
	"syscall"
)

// alive says whether a child of ours has not been reaped.
func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
