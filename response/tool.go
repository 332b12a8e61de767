package response

import (
	"context"
	"encoding/json"
	"time"

	"herdr-link/mcp"
)

// Name is the tool's.
const Name = "herdr_agent_response"

const description = "Read the complete final answer of an agent that is idle or done, from its host's own record, not from its terminal. " +
	"First page: target. As long as complete is false, call again with cursor alone. Read all pages in order before you conclude. " +
	"finish other than stop or end_turn (such as length) means that the answer is cut off."

// endMargin is what a call keeps of its time to end its children and to answer.
const endMargin = 1200 * time.Millisecond

// Tools returns the toolset, which is listed always.
func (r *Reader) Tools() []mcp.Tool {
	return []mcp.Tool{{
		Name: Name, Title: "Read an agent's answer", Description: description,
		InputSchema: schema.JSON(),
		Annotations: mcp.Annotations{ReadOnly: true, Idempotent: true},
		Refuse: func(problem string) *mcp.Result {
			return result(r.answer(context.Background(), refused(problem)))
		},
		Begin: func(_ *mcp.Session, args mcp.Args) mcp.Call {
			return mcp.Call{Run: func(ctx context.Context) *mcp.Result {
				if end, ok := ctx.Deadline(); ok {
					var stop context.CancelFunc
					ctx, stop = context.WithDeadline(ctx, end.Add(-endMargin))
					defer stop()
				}
				p, f := r.answer(ctx, func() (mcp.Args, error) { return args, nil })
				return result(p, f)
			}}
		},
	}}
}

// Respond is a call for who is not served over MCP. arguments is valid JSON, or
// nothing. It returns one compact JSON object.
func (r *Reader) Respond(ctx context.Context, arguments json.RawMessage) []byte {
	p, f := r.answer(ctx, func() (mcp.Args, error) {
		args, problem := mcp.ReadArgs(arguments)
		if problem != "" {
			return refused(problem)()
		}
		return args, nil
	})
	if f != nil {
		return failure(f)
	}
	return mcp.Marshal(p)
}

// refused is what arguments come to that are not even an object with different
// names.
func refused(problem string) func() (mcp.Args, error) {
	return func() (mcp.Args, error) { return nil, &fault{Code: "INVALID_REQUEST", Message: problem} }
}

// answer makes one call and logs how it ended.
func (r *Reader) answer(ctx context.Context, arguments func() (mcp.Args, error)) (p *page, f *fault) {
	begun := time.Now()
	p, err := r.call(ctx, arguments)
	code := ""
	if err != nil {
		f = asFault(ctx, err)
		code = f.Code
	}
	r.log.Info("call", "tool", Name, "ok", err == nil, "code", code, "ms", time.Since(begun).Milliseconds())
	return p, f
}

func (r *Reader) call(ctx context.Context, arguments func() (mcp.Args, error)) (*page, error) {
	if err := r.authorize(); err != nil {
		return nil, err
	}
	args, err := arguments()
	if err != nil {
		return nil, err
	}
	q, err := understand(args)
	if err != nil {
		return nil, err
	}
	return r.read(ctx, q)
}

func failure(f *fault) []byte {
	return mcp.Marshal(struct {
		OK          bool   `json:"ok"`
		Error       *fault `json:"error"`
		AgentStatus string `json:"agentStatus,omitempty"`
	}{false, f, f.status})
}

// result is what the model sees: the JSON object as structure; as text the same
// without the page, on many short lines, and then the page as it is.
func result(p *page, f *fault) *mcp.Result {
	if f != nil {
		object := failure(f)
		return &mcp.Result{Text: []string{mcp.Lines(object)}, Structured: object, IsError: true}
	}
	object := mcp.Marshal(p)
	bare := *p
	bare.Text = nil
	return &mcp.Result{Text: []string{mcp.Lines(mcp.Marshal(&bare)), *p.Text}, Structured: object}
}
