package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// errEnd is why a process ends that was told to: by a signal, or by the death
// of its parent.
var errEnd = fmt.Errorf("told to end: %w", context.Canceled)

// errNobody is why a process ends whose stdout has been closed.
var errNobody = fmt.Errorf("nobody reads stdout: %w", context.Canceled)

// lastCall is how long a process that was told to end may take to do so. It is
// not needed but for a bug or a disk that hangs.
const lastCall = 800 * time.Millisecond

// untilEnd returns a context that ends with SIGTERM, SIGINT, SIGHUP or SIGQUIT;
// a process that does not obey it is ended a little later.
func untilEnd() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	endSoon(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	// A write to a closed stdout shall be an error, not the death of this
	// process: it has children to end. (Ignored, the signal would be so in
	// the children as well.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		select {
		case <-signals:
			cancel(errEnd)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// endSoon ends this process when ctx is over and lastCall is, too.
func endSoon(ctx context.Context) {
	context.AfterFunc(ctx, func() {
		time.Sleep(lastCall)
		os.Exit(exitFailed)
	})
}

// watched runs what has children, and must end when it is told to or has been
// abandoned, as configured by the options and the environment.
func watched(ctx context.Context, p *Process, o options, do func(context.Context, *config) error) error {
	c, err := configure(p, o)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watch(ctx, p.Stdout, stop)
	return do(ctx, c)
}

// watch stops everything, and in the end this process, when the parent has
// died or nobody can read stdout any more: some hosts abandon their servers
// without a word.
func watch(ctx context.Context, stdout *os.File, stop context.CancelCauseFunc) {
	endSoon(ctx)
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if os.Getppid() != parent {
				stop(errEnd)
			} else if broken(stdout) {
				stop(errNobody)
			}
		}
	}()
}
