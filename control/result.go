package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"herdr-link/herdrcli"
	"herdr-link/mcp"
)

// A result is what every tool returns (control.md §5, HerdrResult).
type result struct {
	OK        bool            `json:"ok"`
	Command   string          `json:"command"`
	ExitCode  *int            `json:"exitCode,omitempty"`
	ErrorCode string          `json:"errorCode,omitempty"`
	Message   string          `json:"message,omitempty"`
	Stdout    *string         `json:"stdout,omitempty"`
	Stderr    string          `json:"stderr,omitempty"`
	Preview   *shown          `json:"preview,omitempty"`
	Data      json.RawMessage `json:"-"` // compact JSON, the last member: see object
}

// object returns the result as JSON. Data can be large, and is not read again.
func (r *result) object() []byte {
	b := mcp.Marshal(r)
	if r.Data != nil {
		b = append(append(append(b[:len(b)-1], `,"data":`...), r.Data...), '}')
	}
	return b
}

// encode returns the result for MCP: the whole of it as structure; as text the
// same in many short lines, without the terminal's text, which follows as it is.
func (r *result) encode() *mcp.Result {
	whole := r.object()
	object, terminal := whole, ""
	brief := *r
	if r.Stdout != nil {
		terminal, brief.Stdout = *r.Stdout, nil
		object = brief.object()
	} else if bytes.Contains(r.Data, []byte(`"read":`)) {
		brief.Data, terminal = cutText(r.Data)
		object = brief.object()
	}
	m := &mcp.Result{Text: []string{mcp.Lines(object)}, Structured: whole, IsError: !r.OK}
	if terminal != "" {
		m.Text = append(m.Text, terminal)
	}
	return m
}

// cutText takes data.result.read.text out of what herdr printed about a match.
func cutText(data json.RawMessage) (rest json.RawMessage, text string) {
	var answer, result, read map[string]json.RawMessage
	if json.Unmarshal(data, &answer) != nil || json.Unmarshal(answer["result"], &result) != nil ||
		json.Unmarshal(result["read"], &read) != nil || json.Unmarshal(read["text"], &text) != nil {
		return data, ""
	}
	delete(read, "text")
	result["read"] = mcp.Marshal(read)
	answer["result"] = mcp.Marshal(result)
	return mcp.Marshal(answer), text
}

// refuse makes the result of a call that came to nothing here.
func refuse(command, code, message string) *result {
	return &result{Command: command, ErrorCode: code, Message: message}
}

const nothingSent = "nothing was sent"

// read makes a result of what a command came to. uncertain is what to add where
// nobody knows whether it has acted.
func read(t *tool, out herdrcli.Outcome, uncertain string) *result {
	r := &result{Command: "herdr " + t.command, Stderr: clean(out.Stderr)}
	stdout := clean(out.Stdout)
	if out.Err != nil {
		r.failed(t, out, uncertain)
		return r
	}
	if out.Exit >= 0 {
		r.ExitCode = &out.Exit
	}
	if out.Exit != 0 {
		r.refused(out, stdout, uncertain)
		return r
	}
	r.OK = true
	switch t.output {
	case printsText:
		r.Stdout = &stdout
	case printsJSON:
		if r.Data = compact(stdout); r.Data != nil {
			break
		}
		r.Stdout = &stdout
		r.Message = "herdr exited with 0, but did not print the JSON expected"
		if t.class != reads {
			r.Message += "; it has acted: do not repeat it"
		}
	default:
		if stdout != "" {
			r.Stdout = &stdout
		}
	}
	return r
}

// failed is a command that did not end by itself.
func (r *result) failed(t *tool, out herdrcli.Outcome, uncertain string) {
	var code string
	exit := -1
	switch err := out.Err; {
	case errors.Is(err, herdrcli.ErrNotFound):
		exit, code, r.Message = 127, "herdr_not_found", "the herdr program is not there: fix HERDR_BIN_PATH or PATH of the MCP host"
	case errors.Is(err, herdrcli.ErrBinary):
		exit, code, r.Message = 126, "herdr_not_executable", "the herdr program cannot be run: HERDR_BIN_PATH must be an absolute path to an executable file"
	case errors.Is(err, herdrcli.ErrResources):
		exit, code, r.Message = 126, "herdr_not_executable", "the system has no room for another process or open file now: try again later"
	case errors.Is(err, herdrcli.ErrReserved):
		code, r.Message = "reserved_argument", reservedText
	case errors.Is(err, herdrcli.ErrTooLong):
		code, r.Message = "invalid_argument", "the system does not take so long a command line: shorten the text"
	case errors.Is(err, herdrcli.ErrTooMuch):
		code, r.Message = "output_too_large", "herdr printed more than 4 MiB: use fewer lines"
	case errors.Is(err, herdrcli.ErrTimeout):
		exit, code, r.Message = 124, "cli_timeout", "herdr did not end in time and was killed"
	default:
		exit, code, r.Message = 130, "cancelled", "the call was cancelled"
	}
	r.ErrorCode = code
	if exit >= 0 {
		r.ExitCode = &exit
	}
	if r.Stderr == "" && errors.Is(out.Err, herdrcli.ErrBinary) {
		r.Stderr = out.Err.Error() // has no path
	}
	if !out.Started && t.class == types {
		r.Message += "; " + nothingSent
	} else if out.Started && uncertain != "" {
		r.Message += "; " + uncertain
	}
}

// refused is a command that ended with another code than 0. Herdr's error is
// JSON on stderr, at times on stdout.
func (r *result) refused(out herdrcli.Outcome, stdout, uncertain string) {
	for _, text := range []string{r.Stderr, stdout} {
		var envelope struct {
			Error struct{ Code, Message string }
		}
		if json.Unmarshal([]byte(text), &envelope) == nil && envelope.Error.Code != "" {
			r.Data = compact(text)
			r.ErrorCode, r.Message = envelope.Error.Code, shorten(envelope.Error.Message)
			return
		}
	}
	switch {
	case out.Exit == 2:
		r.ErrorCode = "usage_error"
		r.Message = "this herdr does not know such a command line: herdr_doctor compares the versions"
	case nobodyThere(r.Stderr):
		r.ErrorCode = "server_unreachable"
		r.Message = "no Herdr server answers: start herdr in a terminal"
	case strings.HasPrefix(r.Stderr, ioError), strings.HasPrefix(r.Stderr, noAnswer):
		r.ErrorCode = "server_unreachable"
		r.Message = "the Herdr server did not answer to the end, as when it is stopped meanwhile"
		if uncertain != "" {
			r.Message += "; " + uncertain
		}
	default:
		r.ErrorCode = "unparsable_output"
		r.Message = "herdr failed without an error that it has a code for"
		if uncertain != "" {
			r.Message += "; " + uncertain
		}
	}
}

// What herdr, a Rust program, prints of an I/O error, and of a server that went
// away without an answer. (herdr-cli.md §6)
const (
	ioError  = "Error: Os {"
	noAnswer = "Error: Custom { kind: Other, error: EmptyResponse }"
)

// nobodyThere reports whether that is an I/O error of the connection itself, so
// that no server can have got the command.
func nobodyThere(stderr string) bool {
	return strings.HasPrefix(stderr, ioError) && (strings.Contains(stderr, "kind: NotFound") ||
		strings.Contains(stderr, "kind: ConnectionRefused") || strings.Contains(stderr, "kind: PermissionDenied"))
}

// clean returns text as valid UTF-8.
func clean(text []byte) string { return strings.ToValidUTF8(string(text), "\uFFFD") }

// maxDepth is how many brackets of Herdr's JSON may stand inside of each other.
// It has ten or so. In many lines, each indented, 10,000 of them would be
// gigabytes, and with what stands around them no JSON that can be read again.
const maxDepth = 200

// compact returns JSON without the blanks between its tokens, or nil if it is
// not valid, or too deep. Numbers keep their digits.
func compact(text string) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil || mcp.Depth(b.Bytes()) > maxDepth {
		return nil
	}
	return b.Bytes()
}

// maxMessage is how many characters of Herdr's words a message has. With what is
// added to them it has at most 1000.
const maxMessage = 900

// shorten collapses the blanks of a message.
func shorten(message string) string {
	runes := []rune(strings.Join(strings.Fields(message), " "))
	return string(runes[:min(len(runes), maxMessage)])
}
