package response

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"herdr-link/herdrcli"
	"herdr-link/mcp"
)

// A fault is a failure as the caller sees it. Its message has no id, no path and
// no word of a worker's; only a child's stderr may add some.
type fault struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`

	status string // of an agent that has not settled
}

func (f *fault) Error() string { return f.Code + ": " + f.Message }

// The faults. errors.Is finds them by identity.
var (
	errUnauthorized = &fault{Code: "UNAUTHORIZED_AGENT", Message: "This process may read no answers: its role is fixed when it starts, by --caller-role or HERDR_LINK_CALLER_ROLE, as shepherd-plan, shepherd-build or coordinator, and a worker has none."}
	errNoPane       = &fault{Code: "UNAUTHORIZED_AGENT", Message: "A coordinator reads answers of its own workspace only, and this process is in no Herdr pane: HERDR_PANE_ID is not set."}

	errOwnPane  = &fault{Code: "INVALID_REQUEST", Message: "target must be another agent than the caller"}
	errNotOne   = &fault{Code: "INVALID_REQUEST", Message: "exactly one of target and cursor must be given: target for the first page, cursor for each further one"}
	errNotFound = &fault{Code: "AGENT_NOT_FOUND", Message: "There is no such agent here."}

	errNotOpenCode = &fault{Code: "AGENT_NOT_OPENCODE", Message: "Herdr knows no session of this agent that can be read here. Its host's integration must be installed (herdr integration install opencode, claude or codex), and the agent started after that. One that has just been started has none before its first task."}
	errNoSession   = &fault{Code: "SESSION_NOT_FOUND", Message: "The agent's host has no such session."}
	errTooLarge    = &fault{Code: "SESSION_EXPORT_TOO_LARGE", Message: "The session is larger than --max-session-bytes allows."}
	errForeign     = &fault{Code: "SESSION_EXPORT_FAILED", Message: "What was found is another session."}
	errCompressed  = &fault{Code: "SESSION_EXPORT_FAILED", Message: "The session's file is compressed, and cannot be read."}
	errTime        = &fault{Code: "SESSION_EXPORT_FAILED", Message: "The session could not be read in time. Try again later.", Retryable: true}
	errCancelled   = &fault{Code: "SESSION_EXPORT_FAILED", Message: "The call was cancelled.", Retryable: true}
	errUnreadable  = &fault{Code: "SESSION_EXPORT_FAILED", Message: "The session cannot be read.", Retryable: true}

	errNoAnswer = &fault{Code: "NO_COMPLETED_RESPONSE", Message: "The latest turn has not ended with a text.", Retryable: true}
	errRole     = &fault{Code: "UNSUPPORTED_WORKER_ROLE", Message: "The caller may not read answers of an agent of that role."}
	errCursor   = &fault{Code: "INVALID_CURSOR", Message: "This is no cursor of this process. Begin again with target."}
	errExpired  = &fault{Code: "EXPIRED_CURSOR", Message: "The cursor has expired. Begin again with target."}
	errChanged  = &fault{Code: "MESSAGE_CHANGED", Message: "The answer that the cursor belongs to is gone or has changed. Begin again with target."}
	errBudget   = &fault{Code: "OUTPUT_BUDGET_EXCEEDED", Message: "The answer cannot be told in pages of that size."}
)

// errExport is a failed export.
func errExport(reason string) *fault {
	return &fault{Code: "SESSION_EXPORT_FAILED", Message: "The session cannot be read: " + reason, Retryable: true}
}

// unsettled is the fault of an agent in that state.
func unsettled(status string) *fault {
	switch status {
	case "working", "blocked", "idle", "done":
	default:
		status = "unknown"
	}
	f := &fault{Code: "AGENT_NOT_SETTLED", Retryable: true, status: status}
	switch status {
	case "working":
		f.Message = "The agent is working. Wait until it is idle or done, and try again."
	case "blocked":
		f.Message = "The agent waits for its human to answer a dialog. Try again when it is idle or done."
	case "unknown":
		f.Message = "Herdr cannot tell what the agent is doing. Try again later."
	default:
		f.Message = "The agent's state has changed while its answer was read. Try again."
	}
	return f
}

// asFault turns any error of this package into what the caller sees, at the end
// of a call with that context.
func asFault(ctx context.Context, err error) *fault {
	var f *fault
	var argument *mcp.ArgumentError
	var herdr *herdrcli.Error
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &argument):
		return &fault{Code: "INVALID_REQUEST", Message: argument.Error()}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errTime
	case ctx.Err() != nil:
		return errCancelled
	case errors.As(err, &herdr):
		return unavailable(herdr)
	}
	return errUnreadable
}

// unavailable says in fixed words why Herdr could not be asked.
func unavailable(err *herdrcli.Error) *fault {
	why := "its answer could not be understood"
	switch {
	case errors.Is(err, herdrcli.ErrNotFound), errors.Is(err, herdrcli.ErrBinary):
		why = "its program cannot be run: HERDR_BIN_PATH must be an absolute path or, if it is not set, herdr must be on PATH"
	case errors.Is(err, herdrcli.ErrResources):
		why = "this machine has no room for another process right now"
	case errors.Is(err, herdrcli.ErrTimeout):
		why = "it did not answer in time"
	case err.Code == "server_not_running":
		why = "its server is not running"
	case err.Code == "protocol_mismatch":
		why = "program and server do not match: it has to be restarted after its update"
	case err.Code != "":
		why = "it refused: " + detail([]byte(err.Code))
	}
	return &fault{Code: "HERDR_UNAVAILABLE", Message: "Herdr cannot be asked: " + why + ".", Retryable: true}
}

// maxDetail is how many characters of a child's words are told.
const maxDetail = 1000

// detail is what a child said, without escape sequences and control characters,
// on one line.
func detail(said []byte) string {
	var b strings.Builder
	n, space := 0, false
	for rest := string(said); rest != "" && n < maxDetail; {
		if rest[0] == 0x1b {
			rest = behindEscape(rest[1:])
			continue
		}
		r, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			space = true
			continue
		}
		if space && n > 0 {
			b.WriteByte(' ')
			n++
		}
		space = false
		b.WriteRune(r)
		n++
	}
	return b.String()
}

// behindEscape returns what stands behind an escape sequence without its ESC.
func behindEscape(s string) string {
	if !strings.HasPrefix(s, "[") {
		return s
	}
	for i := 1; i < len(s); i++ {
		if s[i] >= 0x40 && s[i] <= 0x7e {
			return s[i+1:]
		}
	}
	return ""
}

func errOpenCode(said []byte, exit int) *fault {
	reason := fmt.Sprintf("opencode export failed with exit code %d", exit)
	if words := detail(said); words != "" {
		reason += ": " + words
	}
	return errExport(reason)
}
