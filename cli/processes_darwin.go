package cli

import (
	"context"
	"os"
	"os/exec"
	"time"
)

// psTime is how long ps may take.
const psTime = 2 * time.Second

// ps returns what the system's ps prints about the processes of this user, a
// line each: ids, command line and environment.
func ps(ctx context.Context) string {
	ctx, stop := context.WithTimeout(ctx, psTime)
	defer stop()
	cmd := exec.CommandContext(ctx, "/bin/ps", "-xEww", "-o", "pid=,ppid=,command=")
	cmd.WaitDelay = time.Second
	out, _ := cmd.Output()
	return string(out)
}

// lineage returns this process, its parent and so on, or nothing.
func lineage(ctx context.Context) []process { return ancestors(os.Getpid(), listed(ps(ctx))) }

// servers returns the MCP servers of herdr-link that this user runs with these
// values of variables, but for this process. known is false where ps does not
// even show the variables of this one. (Nobody has tried this on a Mac yet.)
func servers(ctx context.Context, vars map[string]string) (found []process, known bool) {
	for _, p := range listed(ps(ctx)) {
		switch {
		case !p.has(vars):
		case p.pid == os.Getpid():
			known = true
		case p.serves():
			found = append(found, p)
		}
	}
	return found, known
}
