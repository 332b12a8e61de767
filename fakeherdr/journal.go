package fakeherdr

import (
	"path/filepath"
	"time"
)

// A Call is one run of the scene's herdr.
type Call struct {
	At    time.Time // when it began, before it did anything
	PID   int
	Args  []string  // whole, without argv[0]; bytes that are no UTF-8 are lost
	Done  bool      // it came to its end: not killed, not hanging, not running
	Exit  int       // its exit status if Done, otherwise -1
	Ended time.Time // when it was, if Done
	Waits bool      // it has begun to wait for the world to change
	Child int       // pid of the grandchild that a fault left behind, or 0
}

// A note is a line of the journal: the begin, the wait, the child or the end of a
// call.
type note struct {
	PID   int
	At    time.Time
	Args  []string `json:",omitzero"` // only the begin has them, if only an empty list
	Child int      `json:",omitempty"`
	Exit  *int     `json:",omitempty"`
	Waits bool     `json:",omitempty"`
}

func (s *Scene) note(n note) error {
	n.At = time.Now()
	return appendLine(filepath.Join(s.dir, journalFile), n)
}

// Calls returns the journal, in the order in which the calls began.
func (s *Scene) Calls() ([]Call, error) {
	notes, err := readLines[note](filepath.Join(s.dir, journalFile))
	if err != nil {
		return nil, err
	}
	var calls []Call
	latest := make(map[int]int) // index into calls by pid: systems use pids again
	for _, n := range notes {
		switch {
		case n.Args != nil:
			latest[n.PID] = len(calls)
			calls = append(calls, Call{At: n.At, PID: n.PID, Args: n.Args, Exit: -1})
		case n.Waits:
			calls[latest[n.PID]].Waits = true
		case n.Child != 0:
			calls[latest[n.PID]].Child = n.Child
		case n.Exit != nil:
			c := &calls[latest[n.PID]]
			c.Done, c.Exit, c.Ended = true, *n.Exit, n.At
		}
	}
	return calls, nil
}
