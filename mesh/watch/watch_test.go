package watch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"herdr-link/herdrcli"
)

// A herdr notes when it is asked, and takes its time.
type herdr struct {
	t     *testing.T
	begun time.Time

	mu    sync.Mutex
	at    []time.Duration // since begun
	busy  bool
	takes time.Duration
	err   error
	hangs bool // until it is told to end, and a while longer
}

func (h *herdr) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

func (h *herdr) asked() []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.at)
}

func watched(t *testing.T) (*herdr, *Watcher) {
	h := &herdr{t: t, begun: time.Now()}
	return h, New(h.list)
}

// list has the number of the call as cursor.
func (h *herdr) list(ctx context.Context) ([]herdrcli.Agent, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy {
		h.t.Error("two at the same time")
	}
	h.busy = true
	h.at = append(h.at, time.Since(h.begun))
	n, takes := int64(len(h.at)), h.takes
	if h.hangs {
		h.mu.Unlock()
		<-ctx.Done()
		time.Sleep(300 * time.Millisecond)
		h.mu.Lock()
	}
	h.mu.Unlock()
	time.Sleep(takes)
	h.mu.Lock()
	h.busy = false
	return []herdrcli.Agent{{Cursor: n}}, h.err
}

// next returns the number of the list that comes next.
func next(t *testing.T, s *Watch) int64 {
	t.Helper()
	agents, err := s.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return agents[0].Cursor
}

func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func TestWatcher(t *testing.T) {
	bubble(t, "nobody waits, nothing runs", func(t *testing.T) {
		h, w := watched(t)
		time.Sleep(time.Hour)
		s := w.Join()
		next(t, s)
		s.Leave()
		time.Sleep(time.Hour)
		if len(h.asked()) != 1 {
			t.Errorf("asked at %v", h.asked())
		}
	})
	bubble(t, "one list for any number", func(t *testing.T) {
		h, w := watched(t)
		var all []*Watch
		for range 16 {
			all = append(all, w.Join())
		}
		for range 4 {
			for _, s := range all {
				next(t, s)
			}
		}
		for _, s := range all {
			s.Leave()
		}
		ms := time.Millisecond
		if want := []time.Duration{0, 250 * ms, 500 * ms, 750 * ms}; !slices.Equal(h.asked(), want) {
			t.Errorf("asked at %v", h.asked())
		}
	})
	bubble(t, "less often with time, and anew for who is new", func(t *testing.T) {
		h, w := watched(t)
		s := w.Join()
		defer s.Leave()
		at := func(d time.Duration) (gap time.Duration) {
			t.Helper()
			time.Sleep(d - time.Since(h.begun) + time.Millisecond)
			all := h.asked()
			return all[len(all)-1] - all[len(all)-2]
		}
		if a, b, c := at(9*time.Second), at(20*time.Second), at(3*time.Minute); a != 250*time.Millisecond || b != 500*time.Millisecond || c != time.Second {
			t.Errorf("gaps of %v, %v, %v", a, b, c)
		}
		two := w.Join()
		if got := at(3*time.Minute + 2*time.Second); got != 250*time.Millisecond {
			t.Errorf("a gap of %v for the new one", got)
		}
		two.Leave()
		if got := at(4 * time.Minute); got != time.Second {
			t.Errorf("a gap of %v when it has left", got)
		}
	})
	bubble(t, "a list that began before is none of one's own", func(t *testing.T) {
		h, w := watched(t)
		h.set(func() { h.takes = 100 * time.Millisecond })
		one := w.Join()
		time.Sleep(50 * time.Millisecond) // the first is under way
		two := w.Join()
		if a, b := next(t, one), next(t, two); a != 1 || b != 2 {
			t.Errorf("lists %d and %d", a, b)
		}
		if want := []time.Duration{0, 100 * time.Millisecond}; !slices.Equal(h.asked(), want) {
			t.Errorf("asked at %v", h.asked())
		}
		one.Leave()
		two.Leave()
	})
	bubble(t, "who is late gets the latest", func(t *testing.T) {
		_, w := watched(t)
		s := w.Join()
		defer s.Leave()
		time.Sleep(1001 * time.Millisecond)
		if got := next(t, s); got != 5 {
			t.Errorf("list %d", got)
		}
	})
	bubble(t, "three failures in a row are one", func(t *testing.T) {
		h, w := watched(t)
		s := w.Join()
		defer s.Leave()
		next(t, s)
		h.set(func() { h.err = errors.New("down") })
		time.Sleep(501 * time.Millisecond) // two of them
		h.set(func() { h.err = nil })
		if got := next(t, s); got != 4 {
			t.Errorf("list %d", got)
		}
		h.set(func() { h.err = errors.New("down") })
		if _, err := s.Next(t.Context()); err == nil || err.Error() != "down" || len(h.asked()) != 7 {
			t.Errorf("%v after %d", err, len(h.asked()))
		}
	})
	bubble(t, "the end of the waiting one", func(t *testing.T) {
		h, w := watched(t)
		h.set(func() { h.hangs = true })
		ctx, stop := context.WithTimeoutCause(t.Context(), time.Second, errors.New("late"))
		defer stop()
		s := w.Join()
		if _, err := s.Next(ctx); err == nil || err.Error() != "late" {
			t.Errorf("%v", err)
		}
		var busy bool
		s.Leave()
		if h.set(func() { busy = h.busy }); busy {
			t.Error("it still runs when the last one has left")
		}
		begun := time.Now()
		h.set(func() { h.hangs = false })
		s = w.Join()
		next(t, s)
		s.Leave()
		if time.Since(begun) != 0 {
			t.Error("the next one waited")
		}
	})
	bubble(t, "one comes while the last one leaves", func(t *testing.T) {
		h, w := watched(t)
		h.set(func() { h.hangs = true })
		one := w.Join()
		synctest.Wait()
		go one.Leave()
		synctest.Wait()
		h.set(func() { h.hangs = false })
		two := w.Join() // its loop begins when the other one's herdr is gone
		if got := next(t, two); got != 2 || len(h.asked()) != 2 || h.asked()[1] != 300*time.Millisecond {
			t.Errorf("list %d, asked at %v", got, h.asked())
		}
		two.Leave()
	})
}
