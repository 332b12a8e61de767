package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"herdr-link/jsonrpc"
)

func TestScheduler(t *testing.T) {
	type step = struct {
		say  string // lines
		pass time.Duration
		did  string
	}
	cancel := func(id string) string { return request("", "notifications/cancelled", `{"requestId":`+id+`}`) }
	const s = time.Second
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"calls without a key run side by side", []step{
			{work("1", "", s) + "\n" + work("2", "", s), 0, "start:1 start:2"},
		}},
		{"calls of a key run one after another, in the order of arrival", []step{
			{work("1", "k", s) + "\n" + work("2", "k", s) + "\n" + work("3", "k", s), 0, "start:1"},
			{"", s, "end:1 start:2"},
			{"", s, "end:2 start:3"},
			{"", s, "end:3"},
		}},
		{"other keys pass", []step{
			{work("1", "a", s) + "\n" + work("2", "a", s) + "\n" + work("3", "b", s) + "\n" + work("4", "", s), 0, "start:1 start:3 start:4"},
			{"", s, "end:1 end:3 end:4 start:2"},
		}},
		{"one that waits and is cancelled makes way", []step{
			{work("1", "k", s) + "\n" + work("2", "k", s) + "\n" + work("3", "k", s), 0, "start:1"},
			{cancel("2"), 0, "late:2"},
			{"", s, "end:1 start:3"},
		}},
		{"one that runs and is cancelled makes way at once", []step{
			{work("1", "k", s) + "\n" + work("2", "k", s), 0, "start:1"},
			{cancel("1"), 0, "end:1 start:2"},
		}},
		{"one that runs is over when it has ended, not when it was cancelled", []step{
			{call("1", "work", `{"name":"1","key":"k","ms":1000,"stubborn":true}`) + "\n" + work("2", "k", s), 0, "start:1"},
			{cancel("1"), 0, ""},
			{"", s, "end:1 start:2"},
		}},
		{"one that frees its key lets the next one run", []step{
			{call("1", "work", `{"name":"1","key":"k","ms":3000,"free":true}`) + "\n" + work("2", "k", s) + "\n" + work("3", "k", s), 0, "start:1 start:2"},
			{"", s, "end:2 start:3"},
			{cancel("1"), 0, "end:1"},
			{work("4", "k", s), 0, ""},
			{"", s, "end:3 start:4"},
		}},
		{"one without a time of its own has 45 s", []step{
			{work("1", "", 50*s), 0, "start:1"},
			{"", 44 * s, ""},
			{"", s, "end:1"},
		}},
		{"one with a time has that", []step{
			{call("1", "work", `{"name":"1","ms":80000,"time":70}`), 0, "start:1"},
			{"", 69 * s, ""},
			{"", s, "end:1"},
		}},
	} {
		bubble(t, c.name, func(t *testing.T) {
			b := &bench{}
			p := initialized(t, b.server(), Latest)
			for _, step := range c.steps {
				if step.say != "" {
					p.say(strings.Split(step.say, "\n")...)
				}
				time.Sleep(step.pass)
				if did := sorted(b.did()); did != sorted(step.did) {
					t.Errorf("%.80q, %v later: it did %q, want %q", step.say, step.pass, did, step.did)
				}
			}
		})
	}
}

// sorted puts what happened at one moment into one order.
func sorted(did string) string {
	words := strings.Fields(did)
	slices.Sort(words)
	return strings.Join(words, " ")
}

func TestLimits(t *testing.T) {
	fill := func(p *peer, n int, key string) {
		for i := range n {
			p.say(work(fmt.Sprint(1000+i), key, 10*time.Second))
		}
	}
	bubble(t, "64 run, 256 wait, and then it is busy", func(t *testing.T) {
		b := &bench{}
		p := initialized(t, b.server(), Latest)
		fill(p, maxRunning+maxWaiting, "")
		if did := strings.Fields(b.did()); len(did) != maxRunning || did[0] != "start:1000" {
			t.Errorf("%d have begun: %q", len(did), did)
		}
		p.hears()
		busy := p.asks(work("1", "", time.Second))
		if brief(busy) != "1 error -32603" || !strings.Contains(busy, "busy") {
			t.Errorf("one more: %s", busy)
		}
		// All else is served.
		p.say(request("2", "ping", ""), request("3", "tools/list", ""), call("4", "hidden", ""))
		p.hears("2 result", "3 result", "4 result")

		// A cancelled one that waits makes room for one.
		p.say(request("", "notifications/cancelled", fmt.Sprintf(`{"requestId":%d}`, 1000+maxRunning+7)))
		p.say(work("5", "", time.Second), work("6", "", time.Second))
		p.hears("6 error -32603")
		if did := b.did(); did != fmt.Sprintf("late:%d", 1000+maxRunning+7) {
			t.Errorf("it did %q", did)
		}
		// So does one that has run.
		time.Sleep(10*time.Second + after)
		if got := len(p.heard()); got != maxRunning {
			t.Errorf("%d answers, want %d", got, maxRunning)
		}
		p.say(work("7", "", time.Second))
		p.hears()
	})
	bubble(t, "those that wait start in the order of arrival", func(t *testing.T) {
		b := &bench{}
		p := initialized(t, b.server(), Latest)
		for i := range maxRunning { // they end one by one
			p.say(work(fmt.Sprint(1000+i), "", time.Second+time.Duration(i)*time.Millisecond))
		}
		for i := range 20 {
			p.say(work(fmt.Sprint(2000+i), "", time.Minute))
		}
		b.did()
		for i := range 20 {
			if i == 0 {
				time.Sleep(time.Second)
			} else {
				time.Sleep(time.Millisecond)
			}
			if did := b.did(); did != fmt.Sprintf("end:%d start:%d", 1000+i, 2000+i) {
				t.Errorf("at %d: %q", i, did)
			}
		}
	})
	bubble(t, "calls of one key fill the queue, too, and not more", func(t *testing.T) {
		b := &bench{}
		p := initialized(t, b.server(), Latest)
		fill(p, 1+maxWaiting, "k")
		p.say(work("1", "k", time.Second), work("2", "other", time.Second))
		p.hears("1 error -32603") // the other one runs: it need not wait
		if did := b.did(); did != "start:1000 start:2" {
			t.Errorf("it did %q", did)
		}
	})
	bubble(t, "16 MiB wait", func(t *testing.T) {
		// Straight into the handler, since so many bytes take their time to read.
		s := &Session{server: (&bench{}).server(), version: Latest}
		begin := func(size int, key string) jsonrpc.Later {
			later, err := s.handle(t.Context(), &jsonrpc.Request{ID: "1", Method: "tools/call", Size: size,
				Params: json.RawMessage(`{"name":"work","arguments":{"ms":1000,"key":"` + key + `"}}`)})
			if err != nil {
				return nil
			}
			return later.(jsonrpc.Later)
		}
		const m = 4 << 20
		running := begin(m, "k")
		if running == nil || begin(m, "k") == nil || begin(m, "k") == nil || begin(m, "k") == nil || begin(m-200, "k") == nil {
			t.Fatal("refused too early")
		}
		if begin(201, "k") != nil {
			t.Error("one byte too many was taken")
		}
		if begin(m, "other") == nil {
			t.Error("refused, but it need not wait")
		}
		if begin(200, "k") == nil {
			t.Error("refused, but there is room")
		}
		if begin(1, "k") != nil {
			t.Error("taken, but there is no room any more")
		}
		if _, err := running(); err != nil {
			t.Error(err)
		}
		if begin(m, "k") == nil {
			t.Error("refused, but the next one runs and no longer waits")
		}
	})
	bubble(t, "a batch takes a place for each call", func(t *testing.T) {
		b := &bench{}
		p := initialized(t, b.server(), v20250326)
		var calls []string
		for i := range maxRunning + maxWaiting + 2 {
			calls = append(calls, work(fmt.Sprint(1000+i), "", time.Second))
		}
		p.say("[" + strings.Join(calls, ",") + "]")
		_ = p.in.Close()
		<-p.done
		got := p.heard()
		if len(got) != 1 || strings.Count(got[0], "worked") != maxRunning+maxWaiting || strings.Count(got[0], "-32603") != 2 {
			t.Errorf("heard %.300q", got)
		}
	})
}

func TestCallTime(t *testing.T) {
	bubble(t, "a call has its time from its arrival", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		p.say(work("1", "", time.Hour))
		time.Sleep(callTime - after)
		p.hears()
		time.Sleep(2 * after)
		p.hears("1 failed")
	})
	bubble(t, "the wait in the queue counts", func(t *testing.T) {
		b := &bench{}
		p := initialized(t, b.server(), Latest)
		p.say(work("1", "k", 30*time.Second), work("2", "k", 30*time.Second))
		time.Sleep(30 * time.Second)
		p.hears("1 result")
		time.Sleep(15*time.Second - after)
		p.hears()
		time.Sleep(2 * after)
		p.hears("2 failed")
		if did := b.did(); did != "start:1 end:1 start:2 end:2" {
			t.Errorf("it did %q", did)
		}
	})
	bubble(t, "one that never had its turn leaves the queue and says so", func(t *testing.T) {
		b := &bench{}
		p := initialized(t, b.server(), Latest)
		p.say(call("1", "work", `{"name":"1","key":"k","ms":100000,"stubborn":true}`), work("2", "k", time.Second))
		time.Sleep(10 * time.Second)
		p.say(work("3", "k", time.Second))
		time.Sleep(callTime - 10*time.Second + after)
		p.hears("2 failed")
		if did := b.did(); did != "start:1 late:2" {
			t.Errorf("it did %q", did)
		}
		p.say(request("4", "ping", ""))
		p.hears("4 result")
		time.Sleep(10 * time.Second)
		p.hears("3 failed")
		time.Sleep(time.Minute)
		p.hears("1 result")
		p.say(work("5", "k", time.Second))
		p.ends("5 result")
	})
	bubble(t, "at the end of input those that wait are cancelled, the others finish", func(t *testing.T) {
		b := &bench{}
		p := initialized(t, b.server(), Latest)
		p.say(work("1", "", 40*time.Second), call("2", "work", `{"name":"2","ms":100000,"time":100,"waits":true}`),
			call("3", "work", `{"name":"3","ms":100000,"time":100}`))
		_ = p.in.Close()
		p.hears("2 failed")
		time.Sleep(callTime - after)
		p.hears("1 result")
		time.Sleep(2 * after)
		p.hears("3 failed")
		<-p.done
	})
	bubble(t, "expired ones make room", func(t *testing.T) {
		b := &bench{}
		p := initialized(t, b.server(), Latest)
		for i := range maxRunning {
			p.say(call(fmt.Sprint(1000+i), "work", `{"ms":50000,"stubborn":true}`))
		}
		for i := range maxWaiting {
			p.say(work(fmt.Sprint(2000+i), "", time.Second))
		}
		p.say(work("1", "", time.Second))
		p.hears("1 error -32603")
		time.Sleep(callTime + after)
		if got := p.heard(); len(got) != maxWaiting || brief(got[0])[5:] != "failed" {
			t.Errorf("%d answers: %.200q", len(got), got)
		}
		for i := range maxWaiting {
			p.say(work(fmt.Sprint(3000+i), "", time.Second))
		}
		p.say(work("2", "", time.Second))
		p.hears("2 error -32603")
	})
}

// A slowModel is the scheduler as a statement: it looks at everything anew.
type slowModel struct{ calls []*modelCall }

type modelCall struct {
	turn    *turn // the real one
	key     string
	waits   bool
	size    int
	running bool
	freed   bool // of its key
}

// settle lets every call run that may: fewer than 64 run, or 256 if it waits,
// and no earlier one of its key is there that has not freed it.
func (m *slowModel) settle() {
	left := map[bool]int{false: maxRunning - m.count(false), true: maxWaits - m.count(true)}
	for i, c := range m.calls {
		if c.running || left[c.waits] == 0 {
			continue
		}
		if c.key == "" || !slices.ContainsFunc(m.calls[:i], func(e *modelCall) bool { return e.key == c.key && !e.freed }) {
			c.running = true
			left[c.waits]--
		}
	}
}

// count counts the running calls that wait, or those that do not.
func (m *slowModel) count(waits bool) (n int) {
	for _, c := range m.calls {
		if c.running && c.waits == waits {
			n++
		}
	}
	return n
}

// arrive reports whether there is a place for the call.
func (m *slowModel) arrive(c *modelCall) bool {
	m.calls = append(m.calls, c)
	m.settle()
	waiting, bytes := 0, 0
	for _, other := range m.calls {
		if !other.running {
			waiting++
			bytes += other.size
		}
	}
	if !c.running && (waiting > maxWaiting || bytes > maxWaitingBytes) {
		m.calls = m.calls[:len(m.calls)-1]
		return false
	}
	return true
}

func (m *slowModel) gone(i int) {
	m.calls = slices.Delete(m.calls, i, i+1)
	m.settle()
}

// Whatever happens, the scheduler runs the calls that the model runs, and
// refuses those that it refuses.
func TestSchedulerModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ended, end := context.WithCancelCause(context.Background())
	errEnded := errors.New("ended")
	end(errEnded)

	refused, most, mostWaits := 0, 0, 0
	for round := range 8 {
		s, m := &scheduler{}, &slowModel{}
		keys := []int{1, 3, 40, 400, 3, 40, 400, 1}[round]
		large := round == 4 || round == 5 // so that bytes are short before places are
		waiters := round >= 6
		for op := range map[bool]int{false: 1000, true: 1500}[waiters] {
			switch what := r.IntN(20); {
			case what < 13 || len(m.calls) == 0:
				c := &modelCall{size: 1 + r.IntN(1000), waits: waiters && r.IntN(8) > 0}
				if large {
					c.size = 1 + r.IntN(500_000)
				}
				if k := r.IntN(keys + keys/3 + 1); k < keys {
					c.key = fmt.Sprint(k)
				}
				c.turn = s.enter(&Call{Key: c.key, Waits: c.waits}, c.size)
				if takes := m.arrive(c); takes != (c.turn != nil) {
					t.Fatalf("round %d, operation %d: the model takes the call: %t", round, op, takes)
				} else if !takes {
					refused++
				}
			case what < 15:
				if c := m.calls[r.IntN(len(m.calls))]; c.running {
					s.free(c.turn)
					c.freed = true
					m.settle()
				}
			default:
				i := r.IntN(len(m.calls))
				c := m.calls[i]
				if c.running {
					if err := s.wait(t.Context(), c.turn); err != nil {
						t.Fatalf("round %d, operation %d: a call that may run got %v", round, op, err)
					}
					s.leave(c.turn)
				} else if err := s.wait(ended, c.turn); !errors.Is(err, errEnded) {
					t.Fatalf("round %d, operation %d: a call that may not run got %v", round, op, err)
				}
				m.gone(i)
			}
			running, waits, waiting, bytes := m.count(false), m.count(true), 0, 0
			for i, c := range m.calls {
				if c.turn.started() != c.running {
					t.Fatalf("round %d, operation %d: call %d with key %q runs: %t, want %t", round, op, i, c.key, c.turn.started(), c.running)
				}
				if !c.running {
					waiting++
					bytes += c.size
				}
			}
			if s.running != running || s.waits != waits || len(s.waiting) != waiting || s.bytes != bytes {
				t.Fatalf("round %d, operation %d: it counts %d running, %d waits, %d waiting, %d bytes; want %d, %d, %d, %d",
					round, op, s.running, s.waits, len(s.waiting), s.bytes, running, waits, waiting, bytes)
			}
			most, mostWaits = max(most, running), max(mostWaits, waits)
		}
	}
	if refused == 0 || most != maxRunning || mostWaits != maxWaits {
		t.Errorf("the limits were not reached: %d calls refused, %d running and %d waits at most", refused, most, mostWaits)
	}
}

// A call that may run at the very moment when it is cancelled either runs and
// leaves, or has left already: no place is lost.
func TestSchedulerRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scheduler{}
		for round := range 500 {
			first, second, third := s.enter(&Call{Key: "k"}, 1), s.enter(&Call{Key: "k"}, 1), s.enter(&Call{Key: "k"}, 1)
			ctx, cancel := context.WithCancel(t.Context())
			if round%2 == 0 { // at once
				go cancel()
				go s.leave(first)
			} else { // both, before it looks
				s.leave(first)
				cancel()
			}
			if s.wait(ctx, second) == nil {
				s.leave(second)
			}
			if err := s.wait(t.Context(), third); err != nil {
				t.Fatal(err)
			}
			s.leave(third)
			synctest.Wait()
			if s.running != 0 || s.bytes != 0 || len(s.waiting) != 0 || len(s.busy) != 0 {
				t.Fatalf("left over: %+v", s)
			}
		}
	})
}
