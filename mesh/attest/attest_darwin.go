package attest

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// blind: whether a process that the system does not show excuses a missing
// proof. ps may be out of reach in a sandbox.
const blind = true

// psTime is how long ps may take.
const psTime = 2 * time.Second

// Boot returns the id of this boot of the machine, or "".
func Boot() string { return sysctl("kern.bootsessionuuid") }

// Host returns the id of this machine, or "".
func Host() string { return sysctl("kern.uuid") }

// Namespace returns "": ids of processes have none here.
func Namespace() string { return "" }

// Start returns "": nothing but ps knows when a process was started.
func Start(int) string { return "" }

// Exists reports whether there is a process of that id. One that this user may
// not signal is one.
func Exists(pid int) bool {
	return pid > 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func sysctl(name string) string {
	value, _ := syscall.Sysctl(name)
	return strings.TrimSpace(value)
}

// look asks ps, which knows starts to the second.
func look(ctx context.Context, pid int) (seen, bool) {
	ctx, stop := context.WithTimeout(ctx, psTime)
	defer stop()
	cmd := exec.CommandContext(ctx, "/bin/ps", "-o", "ppid=,lstart=,stat=", "-p", strconv.Itoa(pid))
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC"} // so that two processes read the same
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return seen{}, false
	}
	return parsePS(string(out))
}
