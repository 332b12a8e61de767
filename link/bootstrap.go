package link

import (
	"context"
	"errors"
	"fmt"
	"time"

	"herdr-link/envelope"
	"herdr-link/herdrcli"
)

// maxRenames is how many names a bootstrap tries.
const maxRenames = 3

// A flight is a bootstrap under way. All that need one wait for the same; when
// the last of them has given up, it is cancelled.
type flight struct {
	cancel  context.CancelFunc
	waiting int
	done    chan struct{}
	self    herdrcli.Agent
	err     error
}

// Bootstrap returns the own record with a valid name: the one it has, or a new
// one if it has none. Only the own pane is ever renamed. Every error is a
// *Fault: NOT_IN_HERDR or SELF_UNNAMED.
func (l *Link) Bootstrap(ctx context.Context) (herdrcli.Agent, error) {
	if !l.inside {
		return herdrcli.Agent{}, fault(errOutside)
	}
	l.mu.Lock()
	f := l.flight
	if f == nil {
		f = &flight{done: make(chan struct{})}
		var flightCtx context.Context
		flightCtx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
		l.flight = f
		go func() {
			f.self, f.err = l.bootstrap(flightCtx)
			f.cancel()
			l.land(f)
			close(f.done)
		}()
	}
	f.waiting++
	l.mu.Unlock()
	select {
	case <-f.done:
		return f.self, fault(f.err)
	case <-ctx.Done():
	}
	l.mu.Lock()
	f.waiting--
	last := f.waiting == 0
	if last {
		f.cancel()
		if l.flight == f { // nobody may join what has been given up
			l.flight = nil
		}
	}
	l.mu.Unlock()
	if last {
		<-f.done // no child outlives the call that wanted it
	}
	return herdrcli.Agent{}, fault(context.Cause(ctx))
}

func (l *Link) land(f *flight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flight == f {
		l.flight = nil
	}
}

func (l *Link) bootstrap(ctx context.Context) (herdrcli.Agent, error) {
	herdr := l.herdr.For("bootstrap")
	self, err := l.detect(ctx, herdr)
	if err != nil || envelope.ValidName(self.Name) {
		return self, unnamed(err)
	}
	// Two servers of one pane name it once: the second one finds the name.
	lock, err := l.lock(ctx, self)
	if err != nil {
		return self, unnamed(err)
	}
	if lock != nil {
		defer lock.Release()
		self, err = l.self(ctx, herdr)
	}
	for range maxRenames {
		if err != nil || envelope.ValidName(self.Name) {
			return self, unnamed(err)
		}
		err = herdr.AgentRename(ctx, self.PaneID, envelope.NewName())
		if herdrcli.Code(err) == "agent_name_taken" {
			err = nil
			continue
		}
		if err == nil {
			self, err = l.self(ctx, herdr)
		} else { // a refusal of this command does not mean that Herdr is away
			err = fmt.Errorf("%w: %w", errUnnamed, err)
		}
		break
	}
	if err == nil && !envelope.ValidName(self.Name) {
		err = errUnnamed
	}
	return self, unnamed(err)
}

// detect reads the own record, several times if need be: Herdr takes up to
// half a second to see a new agent.
func (l *Link) detect(ctx context.Context, herdr *herdrcli.Client) (self herdrcli.Agent, err error) {
	for _, pause := range []time.Duration{0, 100, 200, 400} {
		select {
		case <-time.After(pause * time.Millisecond):
		case <-ctx.Done():
			return self, context.Cause(ctx)
		}
		if self, err = l.self(ctx, herdr); !errors.Is(err, errNoSelf) {
			break
		}
	}
	return self, err
}

// unnamed lets only NOT_IN_HERDR through; whatever else kept the caller from
// having a name is that it has none.
func unnamed(err error) error {
	if errors.Is(err, herdrcli.ErrLockBusy) {
		return errUnnamed
	}
	var f *Fault
	if err == nil || errors.As(fault(err), &f) && f.Code == notInHerdr {
		return err
	}
	return errUnnamed
}
