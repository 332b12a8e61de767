package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// A Tool is one row of a toolset.
type Tool struct {
	Name         string
	Title        string // for humans
	Description  string // for the model
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage // nil: none is declared
	Annotations  Annotations
	Meta         json.RawMessage // an object for _meta, or nil
	Listing      Listing

	// Refuse is the result of a call whose arguments are not even an object with
	// different names; nil: the problem as text.
	Refuse func(problem string) *Result

	// Begin makes a call of the arguments. It runs while the request begins,
	// in the order of arrival, and must not block.
	Begin func(s *Session, args Args) Call
}

func (t *Tool) refuse(problem string) *Result {
	if t.Refuse == nil {
		return Error(problem)
	}
	return t.Refuse(problem)
}

// Annotations are a tool's hints. Every one is sent explicitly, since hosts
// decide by them whether they ask their user.
type Annotations struct {
	ReadOnly    bool
	Destructive bool
	Idempotent  bool
	OpenWorld   bool
}

// A Listing says when tools/list has a tool. It can be called all the same.
type Listing int

// The listings of a tool. In the stateless era of 2026-07-28, where a list
// never changes, WhenActive is as good as Never.
const (
	Always Listing = iota
	WhenActive
	Never
)

// Args are a call's arguments, by name. Values are as they came.
type Args map[string]json.RawMessage

// A Call is what a tool made of a request: a result that is there at once, or
// a func that gets one.
type Call struct {
	Result *Result
	// Hold delays Result until the client has listed the tools again (Serve
	// has the times), so that it may offer them in the same turn of its model.
	Hold bool

	// Run gets the result beside other calls. Its context ends when the
	// request is cancelled or the call's time is over.
	Run func(ctx context.Context) *Result
	// Time is what the call may take in all, its wait in the scheduler
	// included; 0 is 45 s. At the end of input no call gets more than that.
	Time time.Duration
	// Waits says that Run waits for something that may never happen: the call
	// does not count among those that run, and it is cancelled at the end of
	// input.
	Waits bool
	// Progress is how often a client that wants to know is told that the call
	// goes on, in whole seconds; 0: never.
	Progress time.Duration
	// Key, if not empty, makes calls of the same key run one after another, in
	// the order of arrival.
	Key string
	// Free, if not nil, is closed by Run when the next call of Key may run
	// beside this one.
	Free <-chan struct{}
}

// limit is the call's time.
func (c *Call) limit() time.Duration { return cmp.Or(c.Time, callTime) }

// ErrEnded is why a call is cancelled that has no time left after the end of
// input: the cause of its context. What such a call has begun it may end.
var ErrEnded = fmt.Errorf("the input has ended: %w", context.Canceled)

// A Result is what the model sees of a call.
type Result struct {
	Text       []string        // a content block each
	Structured json.RawMessage // the first Text's JSON as an object, or nil
	IsError    bool
}

// Error is the result of a call that failed.
func Error(text string) *Result { return &Result{Text: []string{text}, IsError: true} }

// Structured is the result that has the JSON object as text and as structure.
func Structured(object []byte) *Result {
	return &Result{Text: []string{string(object)}, Structured: object}
}

type annotationsJSON struct {
	Title       string `json:"title"`
	ReadOnly    bool   `json:"readOnlyHint"`
	Destructive bool   `json:"destructiveHint"`
	Idempotent  bool   `json:"idempotentHint"`
	OpenWorld   bool   `json:"openWorldHint"`
}

type toolJSON struct {
	Name         string           `json:"name"`
	Title        string           `json:"title,omitempty"`
	Description  string           `json:"description"`
	InputSchema  json.RawMessage  `json:"inputSchema"`
	OutputSchema json.RawMessage  `json:"outputSchema,omitempty"`
	Annotations  *annotationsJSON `json:"annotations,omitempty"`
	Meta         json.RawMessage  `json:"_meta,omitempty"`
}

// Describe returns the tool as tools/list of that protocol version has it:
// with annotations from 2025-03-26 on, with title, outputSchema and _meta from
// 2025-06-18 on.
func (t *Tool) Describe(version string) any {
	d := toolJSON{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema}
	if version >= v20250326 {
		a := t.Annotations
		d.Annotations = &annotationsJSON{t.Title, a.ReadOnly, a.Destructive, a.Idempotent, a.OpenWorld}
	}
	if version >= v20250618 {
		d.Title, d.OutputSchema, d.Meta = t.Title, t.OutputSchema, t.Meta
	}
	return d
}

type textJSON struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type resultJSON struct {
	Content    []textJSON      `json:"content"`
	Structured json.RawMessage `json:"structuredContent,omitempty"`
	IsError    bool            `json:"isError,omitempty"`
	ResultType string          `json:"resultType,omitempty"`
}

// Encode returns the result as tools/call of that protocol version has it:
// with structuredContent from 2025-06-18 on, with resultType from 2026-07-28 on.
func (r *Result) Encode(version string) any {
	j := resultJSON{Content: make([]textJSON, len(r.Text)), IsError: r.IsError}
	for i, text := range r.Text {
		j.Content[i] = textJSON{"text", text}
	}
	if version >= v20250618 {
		j.Structured = r.Structured
	}
	if version >= Modern {
		j.ResultType = "complete"
	}
	return j
}
