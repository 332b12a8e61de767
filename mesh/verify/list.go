package verify

import (
	"context"

	"herdr-link/mesh/screen"
	"herdr-link/mesh/store"
)

// kept is how many runs that ended in this process keep the ends of their output.
const kept = 8

// Tails are the ends of what a run's last command printed, as text.
type Tails struct {
	Stdout string `json:"stdoutTail,omitempty"`
	Stderr string `json:"stderrTail,omitempty"`
}

type tails struct {
	run string
	Tails
}

// maxTail is the most, in bytes, that is kept of one stream.
const maxTail = 32 << 10

// plain is what a command printed last, without anything that acts on a terminal.
func plain(tail []byte) string {
	text, _ := screen.Plain(string(tail), maxTail)
	return text
}

// keep remembers the tails of a run in memory. They are on no disk.
func (v *Verifier) keep(run string, t Tails) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended = append(v.ended, tails{run, t})
	v.ended = v.ended[max(0, len(v.ended)-kept):]
}

func (v *Verifier) tails(run string) Tails {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range v.ended {
		if t.run == run {
			return t.Tails
		}
	}
	return Tails{}
}

// A Listed run is what everybody may see of one.
type Listed struct {
	*store.Run
	Tails
}

// A Listing are runs: those that run first, then the others, newest first.
type Listing struct {
	Records   []Listed        `json:"records"`
	Truncated bool            `json:"truncated"`
	Invalid   []store.Invalid `json:"invalidRecords"`
}

// List returns at most limit runs, of a controller and a lease if these are not
// "". A run whose process is gone is shown as interrupted; nothing is written.
func (v *Verifier) List(ctx context.Context, controllerID, leaseID string, limit int) (*Listing, error) {
	l, err := store.List(v.store, limit, func(r *store.Run) bool {
		return (controllerID == "" || r.ControllerID == controllerID) && (leaseID == "" || r.WriterLeaseID == leaseID)
	})
	if err != nil {
		return nil, err
	}
	all := &Listing{[]Listed{}, l.Truncated, append([]store.Invalid{}, l.Invalid...)}
	for _, r := range l.Records {
		if r.Abandoned(ctx, v.store.Now()) {
			r.Interrupt(v.store.Now())
		}
		listed := Listed{Run: r}
		if r.State != store.Running {
			listed.Tails = v.tails(r.RunID)
		}
		all.Records = append(all.Records, listed)
	}
	return all, nil
}
