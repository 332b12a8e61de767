package lock

import "encoding/json"

// A State is what the store lock looks like (mesh.md §3.6).
type State string

const (
	Absent        State = "absent"        // free
	Active        State = "active"        // somebody has it
	Stale         State = "stale"         // who had it is gone: the next one takes it
	Indeterminate State = "indeterminate" // nobody can tell: a person must look
)

// A Status is a state and why it is that. The reason names no process, lock or
// host.
type Status struct {
	State  State  `json:"state"`
	Reason string `json:"reason"`
}

// rows is the table of mesh.md §3.6, by its numbers.
var rows = [...]Status{
	1:  {Active, "a process holds the file lock"},
	2:  {Absent, "nobody holds it"},
	3:  {Indeterminate, "the claim has no owner that can be read, or is open to others"},
	4:  {Indeterminate, "the claim is of another machine"},
	5:  {Stale, "the claim is of this program, whose file lock is free: its holder is gone"},
	6:  {Stale, "the claim is from before a restart of the machine"},
	7:  {Indeterminate, "the claim is of another namespace of processes"},
	8:  {Stale, "the claim's process is gone"},
	9:  {Stale, "the claim's process is gone, and its id was given out again"},
	10: {Active, "another bridge holds it"},
}

// implementation is what the claims of this program say of themselves.
const implementation = "herdr-link"

// An owner is owner.json in a claim.
type owner struct {
	Version           int    `json:"version"` // 2
	LockID            string `json:"lockId"`
	PID               int    `json:"pid"`
	Hostname          string `json:"hostname"`
	AcquiredAt        string `json:"acquiredAt"`
	BootID            string `json:"bootId,omitempty"`
	ProcessStartTicks ticks  `json:"processStartTicks,omitempty"`
	HostID            string `json:"hostId,omitempty"`
	PIDNamespace      string `json:"pidNamespace,omitempty"`
	Impl              string `json:"impl,omitempty"`
}

// ticks are a start time, which a claim may have as text or as a number.
type ticks string

func (t *ticks) UnmarshalJSON(data []byte) error {
	var n json.Number
	if err := json.Unmarshal(data, &n); err == nil {
		*t = ticks(n)
		return nil
	}
	return json.Unmarshal(data, (*string)(t))
}

// readOwner returns nil for what is no owner.
func readOwner(data []byte) *owner {
	var o owner
	if json.Unmarshal(data, &o) != nil || o.Version != 2 || o.LockID == "" || o.PID <= 0 || o.Hostname == "" || o.AcquiredAt == "" {
		return nil
	}
	return &o
}

// An observation is what there is to decide by.
type observation struct {
	held  bool   // somebody has the file lock
	claim bool   // there is a claim
	owner *owner // of the claim; nil: none that can be read
	us    owner  // as a claim of this process would have it
	// exists and start say of a process of this machine whether there is one of
	// that id, and when it was started ("": not known).
	exists func(pid int) bool
	start  func(pid int) string
}

// decide returns the number of the row that fits first.
func decide(o observation) int {
	switch {
	case o.held:
		return 1
	case !o.claim:
		return 2
	case o.owner == nil:
		return 3
	}
	them, us := o.owner, &o.us
	here := them.HostID == us.HostID
	if them.HostID == "" || us.HostID == "" {
		here = them.Hostname == us.Hostname
	}
	sameBoot := them.BootID != "" && them.BootID == us.BootID
	start := ""
	if sameBoot {
		start = o.start(them.PID)
	}
	switch {
	case !here:
		return 4
	case them.Impl == implementation:
		return 5
	case them.BootID != "" && us.BootID != "" && !sameBoot:
		return 6
	case them.PIDNamespace != "" && us.PIDNamespace != "" && them.PIDNamespace != us.PIDNamespace:
		return 7 // even if the boot is not known: the id means nothing here
	case !o.exists(them.PID):
		return 8
	case start != "" && them.ProcessStartTicks != "" && string(them.ProcessStartTicks) != start:
		return 9
	}
	return 10
}
