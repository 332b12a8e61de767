package mesh

import (
	"context"
	"errors"

	"herdr-link/herdrcli"
	"herdr-link/mcp"
	"herdr-link/mesh/handoff"
	"herdr-link/mesh/store"
)

// handoffTools are the rows of tasks and their receipts (mesh.md §2.2).
func handoffTools() []tool {
	target := need(arg(argTarget, syntax(herdrcli.NamePattern, herdrcli.IsName, "the name of an agent")))
	message := mcp.Schema{Type: "string", Description: "1 to 65536 bytes of UTF-8, no control characters but tab and line feed"}
	// Not checked here: what is none is RECEIPT_INVALID.
	receipt := mcp.Schema{Type: "string", Pattern: `^herdr-receipt-v1\.[0-9a-fA-F-]{36}$`, Rule: "herdr-receipt-v1. and a UUID"}
	mode := arg("mode", mcp.Schema{Type: "string", Enum: []string{"all", "first"}, Default: "all", Description: "first: one answer is enough, the others can be collected later"})
	requests := mcp.Schema{Type: "array", MinItems: 1, MaxItems: handoff.MaxRequests, Items: &mcp.Schema{Type: "object",
		Properties: []mcp.Property{target.Property, need(arg("message", message)).Property}}}
	receipts := mcp.Schema{Type: "array", MinItems: 1, MaxItems: handoff.MaxRequests, Items: &receipt}
	ignored := mcp.Schema{Type: "string", Enum: states, Description: "ignored"}
	only := mcp.Schema{Type: "boolean", Default: true, Description: "only true"}
	id := argController()
	id.Description = "only its receipts"
	state := mcp.Schema{Type: "string", Enum: []string{store.Reserved, store.Pending, store.Completed, store.Failed}}

	const once = " DELIVERY_AMBIGUOUS may have arrived (a very short turn): read the agent, abandon; never resend."
	return []tool{
		{"herdr_relay", "Give a task", "Send a task to a quiet leased agent. Collect its receipt later." + once,
			"", credential(target, need(arg("text", message)), arg("submit", only)), "", nil, false, relay},
		{"herdr_handoff", "Give a task and wait", "Give a quiet leased agent a task and wait for it." + once + untrusted,
			"", credential(target, need(arg("message", message)), arg("wait_status", ignored), argWait(), argScreen()), "", nil, true, oneHandoff},
		{"herdr_batch_handoff", "Give several tasks and wait", "Give quiet leased agents tasks (all or none) and wait." + once + untrusted,
			"", credential(need(arg("requests", requests)), mode, argWait(), argScreen()), "", nil, true, batchHandoff},
		{"herdr_collect_handoffs", "Collect answers", "Wait for the answers of tasks that were sent before. It sends nothing." + untrusted,
			"I", credential(need(arg("receipts", receipts)), mode, argWait(), argScreen()), "", nil, true, collectHandoffs},
		{"herdr_handoff_receipt_list", "List receipts", "List the receipts of tasks, those without an answer first.",
			reads, []argument{id, arg("state", state), argLimit()}, "", nil, false, receiptList},
		{"herdr_handoff_receipt_abandon", "Abandon a receipt", "Give up a receipt whose agent has settled, so that the agent can get another task. The agent is left alone.",
			"DI", credential(need(arg("receipt", receipt))), "", nil, false, abandonReceipt},
	}
}

// listed is how many records a list has if nobody asks for another number.
const listed = 200

func argLimit() argument { return arg("limit", integer(1, 500, listed)) }

func relay(ctx context.Context, c *call) (any, error) {
	if !c.args.True("submit") {
		return nil, invalid("argument submit must be true: a text that is not submitted is no task")
	}
	return c.handoffs.Relay(ctx, c.authority(), handoff.Request{Target: c.args.Text(argTarget), Message: c.args.Text("text")})
}

func oneHandoff(ctx context.Context, c *call) (any, error) {
	return c.hand(ctx, handoff.Request{Target: c.args.Text(argTarget), Message: c.args.Text("message")})
}

func batchHandoff(ctx context.Context, c *call) (any, error) {
	var requests []handoff.Request
	list, _ := c.args["requests"].([]any)
	for _, item := range list {
		v, _ := item.(mcp.Values)
		requests = append(requests, handoff.Request{Target: v.Text(argTarget), Message: v.Text("message")})
	}
	return c.hand(ctx, requests...)
}

func (c *call) hand(ctx context.Context, requests ...handoff.Request) (any, error) {
	ctx, w, stop := c.wait(ctx)
	defer stop()
	return c.handoffs.Batch(ctx, c.authority(), requests, w)
}

func collectHandoffs(ctx context.Context, c *call) (any, error) {
	ctx, w, stop := c.wait(ctx)
	defer stop()
	return c.handoffs.Collect(ctx, c.authority(), c.args.Texts("receipts"), w)
}

// wait says how the call waits. The end of input ends the wait alone: what has been
// begun is brought to its end.
func (c *call) wait(ctx context.Context) (context.Context, handoff.Wait, func()) {
	w := handoff.Wait{First: c.args.Text("mode") == "first", Timeout: c.timeout(), Lines: c.args.Int(argLines), Until: ctx.Done()}
	whole, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	end := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); !errors.Is(cause, mcp.ErrEnded) {
			stop(cause)
		}
	})
	return whole, w, func() { end(); stop(nil) }
}

func receiptList(_ context.Context, c *call) (any, error) {
	return c.handoffs.List(c.args.Text("controller_id"), c.args.Text("state"), c.args.Int("limit"))
}

func abandonReceipt(ctx context.Context, c *call) (any, error) {
	return c.handoffs.Abandon(ctx, c.authority(), c.args.Text("receipt"))
}
