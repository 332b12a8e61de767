//go:build unix

package herdrcli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// dead is the exit code of a herdr that killed itself.
const dead = -1

// alive says whether a process runs. One that has ended and waits only for a
// parent that is not us to notice does not.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	parent := 0
	fmt.Sscanf(string(state), "Z %d", &parent)
	return parent == 0 || parent == os.Getpid()
}
