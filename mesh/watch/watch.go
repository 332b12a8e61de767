// Package watch looks at all agents again and again for whoever waits for one:
// any number of waits cost one herdr at a time.
//
// It knows no target and decides nothing: a [Watch] gets every list, or the
// latest, and its owner says what that means.
package watch

import (
	"context"
	"sync"
	"time"

	"herdr-link/herdrcli"
)

// maxFailures is how many lists in a row may fail before a watch does.
const maxFailures = 3

// pace is how often the agents are looked at when the youngest watch is that
// old.
func pace(age time.Duration) time.Duration {
	switch {
	case age < 10*time.Second:
		return 250 * time.Millisecond
	case age < 2*time.Minute:
		return 500 * time.Millisecond
	}
	return time.Second
}

// A Watcher lists the agents while it has watches. Its methods may be used by
// many goroutines.
type Watcher struct {
	list func(context.Context) ([]herdrcli.Agent, error)

	mu    sync.Mutex
	all   map[*Watch]bool
	new   chan struct{}      // has something if a watch has joined since the latest list began
	stop  context.CancelFunc // ends the present loop
	ended chan struct{}      // closed when the latest loop has ended; nil: there was none
}

// New returns a watcher that runs list, never twice at the same time.
func New(list func(context.Context) ([]herdrcli.Agent, error)) *Watcher {
	return &Watcher{list: list, all: map[*Watch]bool{}, new: make(chan struct{}, 1)}
}

// A Watch is one who waits. Only one goroutine may use it.
type Watch struct {
	watcher *Watcher
	since   time.Time
	lists   chan list // the latest one that has not been asked for
	failed  int       // lists in a row; of the loop alone
}

type list struct {
	agents []herdrcli.Agent
	err    error
}

// Join begins a watch. Its first list begins at once, or when the one has ended
// that is under way. Leave must be called.
func (w *Watcher) Join() *Watch {
	s := &Watch{watcher: w, since: time.Now(), lists: make(chan list, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) == 0 {
		ctx, stop := context.WithCancel(context.Background()) // of all watches that are to come
		before, ended := w.ended, make(chan struct{})
		w.stop, w.ended = stop, ended
		go w.loop(ctx, before, ended)
	}
	w.all[s] = true
	select {
	case w.new <- struct{}{}:
	default:
	}
	return s
}

// Leave ends the watch. After that of the last one no herdr runs any more.
func (s *Watch) Leave() {
	w := s.watcher
	w.mu.Lock()
	delete(w.all, s)
	var ended chan struct{}
	if len(w.all) == 0 {
		w.stop()
		ended = w.ended
	}
	w.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// Next returns the next list of agents, which nobody may change. A list that
// fails is left out; three in a row are an error, and so is the end of ctx.
func (s *Watch) Next(ctx context.Context) ([]herdrcli.Agent, error) {
	select {
	case l := <-s.lists:
		return l.agents, l.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// loop lists the agents until ctx ends. before is the end of the loop before it.
func (w *Watcher) loop(ctx context.Context, before <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	if before != nil {
		<-before
	}
	for {
		watches, every := w.present()
		begun := time.Now()
		agents, err := w.list(ctx)
		if ctx.Err() != nil {
			return
		}
		for _, s := range watches {
			s.give(list{agents, err})
		}
		timer := time.NewTimer(every - time.Since(begun))
		select {
		case <-timer.C:
		case <-w.new:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// present returns those whom the list that begins now is for, and when the next
// one is due.
func (w *Watcher) present() (watches []*Watch, every time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.new:
	default:
	}
	every = pace(time.Hour)
	for s := range w.all {
		watches = append(watches, s)
		every = min(every, pace(time.Since(s.since)))
	}
	return watches, every
}

// give hands a list over, in place of one that nobody has asked for.
func (s *Watch) give(l list) {
	if l.err == nil {
		s.failed = 0
	} else if s.failed++; s.failed < maxFailures {
		return
	}
	select {
	case <-s.lists:
	default:
	}
	s.lists <- l
}
