// Package attest tells processes apart beyond their ids: by the boot and the
// time at which each was started. So the bridge can say which agent runs it,
// and whether that agent is still there.
//
// It reads what the system shows of processes and asks Herdr for a pane's
// shell. It changes nothing and knows no record.
package attest

import (
	"context"
	"os"
	"slices"

	"herdr-link/herdrcli"
	"herdr-link/mesh/fault"
)

// A Process is one that no other will ever be taken for (mesh.md §5).
type Process struct {
	PID        int    `json:"pid"`
	BootID     string `json:"bootId"`
	StartTicks string `json:"startTicks"` // clock ticks since the boot; on macOS what ps says of the start
}

// maxSteps is how many generations are walked up.
const maxSteps = 256

// seen is what the system shows of a process.
type seen struct {
	parent int
	start  string
	ended  bool // it only waits for its parent to notice
}

// A view is how processes are looked at. known is false where the system cannot
// tell now, which is not the same as no process.
type view func(ctx context.Context, pid int) (p seen, known bool)

// Caller returns the process of the agent that runs this one, in that pane: the
// ancestor right below the pane's shell, however many wrappers stand between. It
// is nil where the system tells nothing. If the shell is no ancestor, the pane is
// not proved to be this process's own: CALLER_PANE_UNPROVEN, or nil if unproven
// callers are allowed. Other errors are Herdr's.
func Caller(ctx context.Context, herdr *herdrcli.Client, pane string, unproven bool) (*Process, error) {
	in, err := herdr.PaneProcesses(ctx, pane)
	if err != nil {
		return nil, fault.Herdr(err)
	}
	return caller(ctx, look, Boot(), in.Shell, os.Getpid(), unproven)
}

func caller(ctx context.Context, look view, boot string, shell, self int, unproven bool) (*Process, error) {
	chain, known := ancestors(ctx, look, self)
	at := 1 // Herdr knows no shell: this process's parent
	if shell != 0 {
		switch at = slices.Index(chain, shell); {
		case at < 0 && (unproven || !known && blind):
			return nil, nil
		case at < 0:
			return nil, fault.New("CALLER_PANE_UNPROVEN", "this server does not run in the pane that HERDR_PANE_ID names: "+
				"start it from the agent in that pane, or set HERDR_LINK_MESH_UNPROVEN_CALLER=1 if it cannot (a container)")
		case at >= 2:
			at-- // below the shell; if there is only this server, the shell itself
		}
	}
	if at >= len(chain) {
		return nil, nil
	}
	p, known := look(ctx, chain[at])
	if !known || boot == "" {
		return nil, nil
	}
	return &Process{PID: chain[at], BootID: boot, StartTicks: p.start}, nil
}

// ancestors returns the ids of a process, its parent and so on. known is false
// if the system did not show one of them.
func ancestors(ctx context.Context, look view, pid int) (chain []int, known bool) {
	for pid > 0 && len(chain) < maxSteps && !slices.Contains(chain, pid) {
		p, known := look(ctx, pid)
		if !known {
			return chain, false
		}
		chain = append(chain, pid)
		pid = p.parent
	}
	return chain, true
}

// Self returns this process, or nil if the system does not tell enough of it.
func Self(ctx context.Context) *Process {
	p, known := look(ctx, os.Getpid())
	if boot := Boot(); known && boot != "" && p.start != "" {
		return &Process{PID: os.Getpid(), BootID: boot, StartTicks: p.start}
	}
	return nil
}

// Gone reports whether the process has surely ended. What cannot be found out
// counts as alive.
func (p *Process) Gone(ctx context.Context) bool { return p.gone(ctx, look, Boot(), Exists) }

func (p *Process) gone(ctx context.Context, look view, boot string, exists func(int) bool) bool {
	if boot != "" && p.BootID != "" && boot != p.BootID || !exists(p.PID) {
		return true
	}
	now, known := look(ctx, p.PID)
	return known && (now.ended || now.start != "" && p.StartTicks != "" && now.start != p.StartTicks)
}

// Above reports whether the process is this one's ancestor and still the same.
// What cannot be read fails. (mesh.md §5, 5)
func (p *Process) Above(ctx context.Context) bool {
	return p.above(ctx, look, Boot(), os.Getpid())
}

func (p *Process) above(ctx context.Context, look view, boot string, self int) bool {
	chain, _ := ancestors(ctx, look, self)
	if boot == "" || boot != p.BootID || !slices.Contains(chain, p.PID) {
		return false
	}
	now, known := look(ctx, p.PID)
	return known && now.start != "" && now.start == p.StartTicks
}
