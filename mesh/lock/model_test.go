package lock

import (
	"fmt"
	"testing"

	"herdr-link/twin"
)

// A model of the lock's protocol, explored in all interleavings of three
// processes, each of which may be killed at any step and started again, and
// whose renames may fail. It decides by the table of the program itself.

// Where a process of ours is.
const (
	outside  = iota // and about to try the file lock
	locked          // it has the file lock, and looks at the claim
	clearing        // it found a stale claim
	claiming        // it has built its claim, and is about to rename it
	inside
	leaving   // it reads the owner again
	removing  // the claim is its own
	unlocking // the file lock is given back last
	refused   // it gave up, with an error
	dead
)

// Where a process of the older bridge is, which knows no file lock: it makes
// the claim's folder and then writes the owner.
const (
	olderOutside = iota
	olderOwning
	olderInside
	olderDead
)

// What the claim is.
const (
	none      = iota
	ours      // of process .by
	bare      // a folder without an owner
	busy      // of the older bridge, whose process is there
	forgotten // of the older bridge, whose process is gone
	elsewhere // of another machine
)

type world struct {
	at    [3]int8 // processes of ours, or of the older bridge from index ours on
	flock int8    // who has the file lock; -1: nobody
	claim int8
	by    int8 // whose claim
	life  bool // the claim's process has not been killed since
}

// A protocol is one to be explored: the right one is the zero value but for ours.
type protocol struct {
	ours      int  // how many processes are ours; the others are of the older bridge
	noFlock   bool // mistakes, by which the exploration is tested
	overwrite bool
	noClaim   bool
	steal     bool
}

// next returns all worlds that one step of process p can lead to.
func (m protocol) next(w world, p int) (all []world) {
	if p >= m.ours {
		return m.older(w, p)
	}
	step := func(to int8, change func(*world)) {
		v := w
		v.at[p] = to
		if change != nil {
			change(&v)
		}
		all = append(all, v)
	}
	give := func(v *world) {
		if v.flock == int8(p) {
			v.flock = -1
		}
	}
	if w.at[p] == dead {
		step(outside, nil)
		return all
	}
	if w.at[p] != refused {
		step(dead, func(v *world) { // killed
			give(v)
			if v.claim == ours && v.by == int8(p) {
				v.life = false
			}
		})
	}
	switch w.at[p] {
	case outside:
		if m.noFlock {
			step(locked, nil)
		} else if w.flock < 0 {
			step(locked, func(v *world) { v.flock = int8(p) })
		}
	case locked:
		row := decide(w.observe())
		switch state := rows[row].State; {
		case state == Absent:
			step(claiming, nil)
		case state == Stale || m.steal && state == Active:
			step(clearing, nil)
		case state == Active:
			step(outside, give)
		default:
			step(refused, give)
		}
	case clearing:
		step(claiming, func(v *world) { v.claim, v.by, v.life = none, 0, false })
		step(refused, give)
	case claiming:
		switch {
		case m.noClaim:
			step(inside, nil)
		case w.claim == none || m.overwrite && w.claim == bare:
			step(inside, func(v *world) { v.claim, v.by, v.life = ours, int8(p), true })
		default:
			step(outside, give)
		}
		step(refused, give)
	case inside:
		step(leaving, nil)
	case leaving:
		if w.claim == ours && w.by == int8(p) && w.life {
			step(removing, nil)
		} else {
			step(unlocking, nil)
		}
	case removing:
		step(unlocking, func(v *world) { v.claim, v.by, v.life = none, 0, false })
		step(unlocking, nil) // it cannot be removed
	case unlocking:
		step(outside, give)
	}
	return all
}

func (m protocol) older(w world, p int) (all []world) {
	step := func(to, claim int8) {
		v := w
		v.at[p], v.claim = to, claim
		all = append(all, v)
	}
	switch w.at[p] {
	case olderOutside:
		if w.claim == none {
			step(olderOwning, bare)
		}
	case olderOwning:
		step(olderDead, w.claim)
		step(olderInside, busy)
	case olderInside:
		step(olderDead, forgotten)
		step(olderOutside, none)
	case olderDead:
		step(olderOutside, w.claim)
	}
	return all
}

// observe is what a process that has the file lock finds.
func (w world) observe() observation {
	us := owner{Version: 2, LockID: "us", PID: 1, Hostname: "h", AcquiredAt: "t", HostID: "h", BootID: "b", Impl: implementation}
	o := observation{us: us, claim: w.claim != none, start: func(int) string { return "" },
		exists: func(int) bool { return w.claim == busy || w.claim == ours && w.life }}
	if w.claim != none && w.claim != bare {
		them := us
		them.LockID = "them"
		if w.claim != ours {
			them.Impl = ""
		}
		if w.claim == elsewhere {
			them.HostID = "x"
		}
		o.owner = &them
	}
	return o
}

// explore looks at all worlds that can come to be, breadth first, and returns
// how many there are, or what is wrong and how it came about.
func (m protocol) explore(claim int8) (worlds int, wrong string) {
	start := world{flock: -1, claim: claim}
	came := map[world]world{start: {}} // from which other
	tell := func(w world, what string) string {
		for w != start {
			what = fmt.Sprintf("%+v\n%s", w, what)
			w = came[w]
		}
		return what
	}
	for queue := []world{start}; len(queue) > 0; queue = queue[1:] {
		w := queue[0]
		if what := m.wrong(w); what != "" {
			return len(came), tell(w, what)
		}
		for p := range w.at {
			for _, v := range m.next(w, p) {
				foreign := w.claim == bare || w.claim == busy || w.claim == elsewhere
				if p < m.ours && foreign && v.claim != w.claim {
					return len(came), tell(w, "the claim of another is changed")
				}
				if _, known := came[v]; !known {
					came[v] = w
					queue = append(queue, v)
				}
			}
		}
	}
	return len(came), ""
}

// wrong says what must not be.
func (m protocol) wrong(w world) string {
	in := 0
	for p, at := range w.at {
		switch {
		case p >= m.ours && at == olderInside:
			in++
		case p < m.ours && at == inside:
			in++
			if w.flock != int8(p) || w.claim != ours || w.by != int8(p) || !w.life {
				return "one is inside without file lock and claim"
			}
		}
	}
	if in > 1 {
		return "two are inside"
	}
	// Nobody is in the way of one who comes alone now.
	if w.flock >= 0 || w.claim == bare || w.claim == busy || w.claim == elsewhere {
		return ""
	}
	for p := range m.ours {
		if w.at[p] == outside && !m.arrives(w, p) {
			return "one who comes alone does not get in"
		}
	}
	return ""
}

// arrives reports whether process p gets inside if only it moves, and nothing
// fails.
func (m protocol) arrives(w world, p int) bool {
	for range dead {
		if w.at[p] == inside {
			return true
		}
		moved := false
		for _, v := range m.next(w, p) {
			if v.at[p] != dead && v.at[p] != refused {
				w, moved = v, true
				break
			}
		}
		if !moved {
			return false
		}
	}
	return false
}

func TestModel(t *testing.T) {
	t.Parallel()
	if twin.Runs(t) { // each exploration is one goroutine
		return
	}
	total := 0
	for _, n := range []int{3, 2} { // all ours, or one of the older bridge
		for claim := int8(none); claim <= elsewhere; claim++ {
			if claim == ours {
				continue // it comes to be anyway
			}
			worlds, wrong := protocol{ours: n}.explore(claim)
			if wrong != "" {
				t.Errorf("%d of ours, claim %d:\n%s", n, claim, wrong)
			}
			total += worlds
		}
	}
	t.Logf("%d worlds", total)
	if total < 1000 {
		t.Errorf("there are only %d worlds: something never happens", total)
	}
}

// The exploration finds mistakes.
func TestModelFails(t *testing.T) {
	t.Parallel()
	if twin.Runs(t) { // each exploration is one goroutine
		return
	}
	for name, m := range map[string]protocol{
		"no file lock":           {ours: 3, noFlock: true},
		"over an empty folder":   {ours: 2, overwrite: true},
		"no claim":               {ours: 2, noClaim: true},
		"an active claim stolen": {ours: 2, steal: true},
	} {
		if _, wrong := m.explore(none); wrong == "" {
			t.Errorf("%s: nothing is wrong", name)
		}
	}
}
