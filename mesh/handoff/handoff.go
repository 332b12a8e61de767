// Package handoff gives tasks to leased agents and brings back what they answer
// (mesh.md §4.4 to §4.6).
//
// A receipt on disk stands before each prompt. While it is outstanding its agent
// gets no other one: a prompt of which nobody knows whether it arrived is never
// sent again, until a person or an agent abandons it.
package handoff

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"herdr-link/herdrcli"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
	"herdr-link/mesh/watch"
)

// MaxRequests is how many agents one call may give a task to.
const MaxRequests = 8

// MaxMessage is the most that a message has, in bytes. The system takes 128 KiB in
// one argument.
const MaxMessage = 64 << 10

// Options are what handoffs need to know.
type Options struct {
	Herdr       *herdrcli.Client
	Store       *store.Store
	Controllers *controller.Controllers
	Leases      *lease.Leases
	Watcher     *watch.Watcher
}

// Handoffs do the operations. Their methods may be used by many goroutines.
// Errors are faults.
type Handoffs struct {
	herdr       *herdrcli.Client
	store       *store.Store
	controllers *controller.Controllers
	leases      *lease.Leases
	watcher     *watch.Watcher
	confirming  time.Duration // confirmTime, unless a test has no time
}

// New returns the operations. Nothing is looked at yet.
func New(o Options) *Handoffs {
	return &Handoffs{o.Herdr, o.Store, o.Controllers, o.Leases, o.Watcher, confirmTime}
}

// A Request is a task for the leased agent of that name.
type Request struct {
	Target  string
	Message string
}

// A Wait says how answers are waited for.
type Wait struct {
	First   bool          // the first answer is enough: the other agents go on
	Timeout time.Duration // for all of them, from the delivery on
	Lines   int           // of each agent's screen
	// Until, if not nil, is closed when nobody waits any more. What is being
	// delivered is delivered, and stays pending.
	Until <-chan struct{}
}

func (w Wait) mode() string {
	if w.First {
		return "first"
	}
	return "all"
}

// An Answer is what became of the requests or receipts of a call, in their order.
type Answer struct {
	Mode      string      `json:"mode"`
	Completed []Completed `json:"completed"`
	Failed    []Failed    `json:"failed"`
	Pending   []string    `json:"pendingReceipts"` // tokens of those that can be collected later
}

// A Completed request has an answer.
type Completed struct {
	Target    string `json:"target"`
	Receipt   string `json:"receipt"`
	Status    string `json:"status"`
	Cursor    int64  `json:"stateChangeSeq"`
	Proof     string `json:"cursorProof"` // continuous, or first_seen: turns in between cannot be excluded
	Output    string `json:"output"`
	Truncated bool   `json:"outputTruncated"`
}

// A Failed request has none, or none yet.
type Failed struct {
	Target  string `json:"target"`
	Receipt string `json:"receipt,omitempty"`
	Stage   string `json:"stage"` // delivery or collection
	Code    string `json:"error"`
	Message string `json:"message"`
}

// token is what a caller knows a receipt by.
func token(id string) string { return store.TokenPrefix + id }

// parseToken returns the id of a receipt. Letters may be of either size.
func parseToken(text string) (id string, err error) {
	id, found := strings.CutPrefix(strings.ToLower(text), store.TokenPrefix)
	if !found || !disk.IsID(id) || len(text) != len(store.TokenPrefix+id) { // some other letters have a small one of ASCII
		return "", fault.New("RECEIPT_INVALID", "a receipt is %s and a UUID", store.TokenPrefix)
	}
	return id, nil
}

// IsToken reports whether a text is the token of some receipt.
func IsToken(text string) bool { _, err := parseToken(text); return err == nil }

// Check holds requests to the rules of mesh.md §0.4 and returns them as they are
// sent. Codes: INVALID_ARGUMENT, MESSAGE_TOO_LARGE, MESSAGE_FORBIDDEN_BYTES.
func Check(requests []Request) ([]Request, error) {
	if len(requests) == 0 || len(requests) > MaxRequests {
		return nil, fault.New("INVALID_ARGUMENT", "there must be 1 to %d requests", MaxRequests)
	}
	checked := make([]Request, len(requests))
	targets := map[string]bool{}
	for i, q := range requests {
		switch {
		case !herdrcli.IsName(q.Target):
			return nil, fault.New("INVALID_ARGUMENT", "a target must be the name of an agent: %s", herdrcli.NamePattern)
		case targets[q.Target]:
			return nil, fault.New("INVALID_ARGUMENT", "the target %s must not be there twice", q.Target)
		}
		targets[q.Target] = true
		message, err := checkMessage(q.Message)
		if err != nil && len(requests) > 1 {
			err = about(err, q.Target)
		}
		if err != nil {
			return nil, err
		}
		checked[i] = Request{q.Target, message}
	}
	return checked, nil
}

func checkMessage(text string) (string, error) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	switch {
	case text == "":
		return "", fault.New("INVALID_ARGUMENT", "a message must not be empty")
	case len(text) > MaxMessage:
		return "", fault.New("MESSAGE_TOO_LARGE", "a message may have %d bytes: write the rest to a file and name it", MaxMessage).With("bytes", len(text))
	case !utf8.ValidString(text) || strings.ContainsFunc(text, forbidden):
		return "", fault.New("MESSAGE_FORBIDDEN_BYTES", "a message must be UTF-8 without control characters but tab and line feed: "+
			"in a terminal they would be keystrokes")
	case herdrcli.Reserved(text):
		return "", fault.New("INVALID_ARGUMENT", "a message must not be, nor begin as, --session, --remote, --remote-keybindings or --handoff: "+
			"herdr takes these for options of its own")
	}
	return text, nil
}

func forbidden(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' || r >= 0x7F && r <= 0x9F
}

// Relay delivers one request and waits for no answer.
func (h *Handoffs) Relay(ctx context.Context, by controller.Authority, q Request) (*Answer, error) {
	b, err := h.deliver(ctx, by, []Request{q})
	if err != nil {
		return nil, err
	}
	b.each(func(i *item) { i.confirm(ctx) })
	return b.answer("none"), nil
}

// Batch delivers requests and waits for their answers. If one is refused before
// the first is sent, none is.
//
// Codes: those of the authority, INVALID_ARGUMENT, MESSAGE_*,
// LEASE_NOT_RETAINED, LEASE_DUPLICATE, LEASE_OTHER_CONTROLLER,
// LEASE_OTHER_SESSION, LEASE_WRONG_STATE, LEASE_IDENTITY_CHANGED,
// AGENT_NOT_FOUND, AGENT_BLOCKED, AGENT_NOT_SETTLED, TARGET_*,
// RECEIPT_OUTSTANDING, VERIFY_RUNNING. A failed request has DELIVERY_*,
// COLLECT_*, AGENT_BLOCKED or a code of the authority.
func (h *Handoffs) Batch(ctx context.Context, by controller.Authority, requests []Request, w Wait) (*Answer, error) {
	b, err := h.deliver(ctx, by, requests)
	if err != nil {
		return nil, err
	}
	waiting, stop := b.waiting(ctx, w)
	defer stop()
	b.each(func(i *item) {
		i.confirm(ctx)
		if i.receipt.State == store.Pending && i.failure == nil {
			i.collect(ctx, waiting, w)
		}
		if w.First && i.done != nil {
			stop()
		}
	})
	return b.answer(w.mode()), nil
}

// Collect waits for the answers of receipts. It sends nothing. Codes: those of
// the authority, RECEIPT_INVALID, RECEIPT_NOT_FOUND, RECEIPT_OTHER_CONTROLLER,
// RECEIPT_WRONG_STATE. A failed receipt has COLLECT_*, AGENT_BLOCKED,
// LEASE_OTHER_SESSION or a code of the authority.
func (h *Handoffs) Collect(ctx context.Context, by controller.Authority, tokens []string, w Wait) (*Answer, error) {
	b, err := h.take(ctx, by, tokens)
	if err != nil {
		return nil, err
	}
	heard, end := b.waiting(ctx, w)
	defer end()
	waiting, stop := context.WithCancel(heard)
	defer stop()
	b.each(func(i *item) {
		if i.receipt.State == store.Completed {
			i.replay(heard, w) // which no other answer cuts short
		} else {
			i.collect(ctx, waiting, w)
		}
		if w.First && i.done != nil {
			stop()
		}
	})
	return b.answer(w.mode()), nil
}

// load reads a receipt of the controller.
func (h *Handoffs) load(id string, c *store.Controller) (*store.Receipt, error) {
	r := new(store.Receipt)
	err := h.store.Load(id, r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New("RECEIPT_NOT_FOUND", "there is no such receipt: list the receipts").With("receipt", token(id))
	case err != nil:
		return nil, err
	case r.ControllerID != c.ControllerID:
		return nil, fault.New("RECEIPT_OTHER_CONTROLLER", "the receipt is of another controller").With("receipt", token(id))
	}
	return r, nil
}
