package mcp

import (
	"context"
	"sync"
)

// How many tool calls run at a time, how many of those that wait for something
// (Call.Waits) do so beside them, and how many more may wait for their turn, in
// number and in bytes of their messages.
const (
	maxRunning      = 64
	maxWaits        = 256
	maxWaiting      = 256
	maxWaitingBytes = 16 << 20
)

// A scheduler lets calls run in the order of arrival: those of one key one
// after another, all others side by side, as far as the limits go.
type scheduler struct {
	mu      sync.Mutex
	running int
	waits   int
	busy    map[string]*turn // the keys of the running calls
	waiting []*turn
	bytes   int // of the waiting calls
}

// A turn is a call's place in the scheduler.
type turn struct {
	key   string
	waits bool
	size  int
	start chan struct{} // closed when the call may run
}

// enter takes a place for a call, or returns nil if there is none left.
func (s *scheduler) enter(c *Call, size int) *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &turn{c.Key, c.Waits, size, make(chan struct{})}
	s.waiting = append(s.waiting, t)
	s.bytes += size
	s.startAll()
	if !t.started() && (len(s.waiting) > maxWaiting || s.bytes > maxWaitingBytes) {
		s.withdraw(t)
		return nil
	}
	return t
}

// wait returns when the call may run, or with the context's error: then it may
// run no more, and has left already.
func (s *scheduler) wait(ctx context.Context, t *turn) error {
	select {
	case <-t.start:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.started() {
		return nil
	}
	s.withdraw(t)
	s.startAll() // one of its key may have stood behind it
	return context.Cause(ctx)
}

// leave ends a call that has run.
func (s *scheduler) leave(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.count(t)--
	s.release(t)
}

// free lets the next call of the key run beside this one.
func (s *scheduler) free(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(t)
}

func (s *scheduler) release(t *turn) {
	if s.busy[t.key] == t { // not another one's by now
		delete(s.busy, t.key)
	}
	s.startAll()
}

// count is where the call counts while it runs.
func (s *scheduler) count(t *turn) *int {
	if t.waits {
		return &s.waits
	}
	return &s.running
}

func (t *turn) started() bool {
	select {
	case <-t.start:
		return true
	default:
		return false
	}
}

func (s *scheduler) withdraw(t *turn) {
	for i, w := range s.waiting {
		if w == t {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			s.bytes -= t.size
			return
		}
	}
}

// startAll starts every waiting call that may run: a place is free, and no call
// of its key runs.
func (s *scheduler) startAll() {
	if s.busy == nil {
		s.busy = map[string]*turn{}
	}
	var passed map[string]bool // keys of those that go on waiting: nobody overtakes them
	rest := s.waiting[:0]
	for _, t := range s.waiting {
		full := s.running >= maxRunning
		if t.waits {
			full = s.waits >= maxWaits
		}
		if full || s.busy[t.key] != nil || passed[t.key] {
			if t.key != "" {
				if passed == nil {
					passed = map[string]bool{}
				}
				passed[t.key] = true
			}
			rest = append(rest, t)
			continue
		}
		*s.count(t)++
		s.bytes -= t.size
		if t.key != "" {
			s.busy[t.key] = t
		}
		close(t.start)
	}
	clear(s.waiting[len(rest):])
	s.waiting = rest
}
