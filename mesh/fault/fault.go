// Package fault is how the operations of toolset mesh fail: with a stable code
// that a model and a program can branch on (mesh.md §2.9).
//
// It knows no operation. Which cause becomes which code is decided where the
// cause is known.
package fault

import (
	"errors"
	"fmt"
)

// A Fault is an error that the caller of a tool sees as it is. Neither Message
// nor Details ever hold a fence token, text of a prompt or of a terminal, or
// arguments of a child.
type Fault struct {
	Code      string         // such as LOCK_BUSY
	Message   string         // a sentence for the model
	Retryable bool           // the same call may succeed later; the code decides it
	Details   map[string]any // facts such as the expected and the current value; nil: none
}

// New returns a fault of that code.
func New(code, format string, args ...any) *Fault {
	return &Fault{Code: code, Message: fmt.Sprintf(format, args...), Retryable: retryable[code]}
}

// With returns the fault with one more detail.
func (f *Fault) With(name string, value any) *Fault {
	details := map[string]any{name: value}
	for n, v := range f.Details {
		if n != name {
			details[n] = v
		}
	}
	g := *f
	g.Details = details
	return &g
}

// Mismatch returns the fault of a fact that is another one than its caller has seen:
// its details have both.
func Mismatch(code, message string, expected, current any) *Fault {
	return New(code, "%s", message).With("expected", expected).With("current", current)
}

func (f *Fault) Error() string { return f.Code + ": " + f.Message }

// Code returns the code of the first fault in err's chain, or "".
func Code(err error) string {
	var f *Fault
	if errors.As(err, &f) {
		return f.Code
	}
	return ""
}

// retryable are the codes marked with r in mesh.md §2.9: the call may be
// repeated without a change of its input.
var retryable = map[string]bool{
	"HERDR_SERVER_DOWN": true, "HERDR_TIMEOUT": true, "WAIT_TIMEOUT": true,
	"AGENT_NOT_READY": true, "AGENT_PANE_BUSY": true, "AGENT_NOT_SETTLED": true, "TARGET_BUSY": true,
	"CURSOR_MOVED":       true,
	"CONTROLLER_CHANGED": true, "TAKEOVER_NOT_EXPIRED": true, "TAKEOVER_PREDECESSOR_LIVE": true,
	"LOCK_BUSY":       true,
	"COLLECT_TIMEOUT": true,
}
