package link

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"herdr-link/contract"
	"herdr-link/envelope"
	"herdr-link/mcp"
)

// The four tools. herdr_link is the gateway: alone until it is called, and
// able to do for the others what a host with a fixed list does not offer.
const (
	gatewayName = "herdr_link"
	peersName   = "herdr_link_peers"
	sendName    = "herdr_link_send"
	closeName   = "herdr_link_close"
)

const (
	gatewayText = "Talk to the other coding agents in this Herdr workspace. Call with {} when the user asks for Herdr or another agent, " +
		"or when a [herdr-link/1] message comes in: you get the rules, and the tools herdr_link_peers, herdr_link_send and herdr_link_close. " +
		"If these do not show up, use action and arguments here."
	eagerText = "Talk to the other coding agents in this Herdr workspace, with herdr_link_peers, herdr_link_send and herdr_link_close:\n"
	peersText = "List the live, named agents of your workspace, without you. The state is advisory; one that is blocked waits for its human " +
		"and takes no message."
	sendText = "Send one message to a peer. sent means that Herdr took it, no more. When nothing else is left to do, end your turn: " +
		"a reply comes as a new prompt; never wait or poll with peers for it. No answer is due to mere thanks."
	closeText = "Close the pane of an agent of your workspace and end what runs in it: only after the decision that it should go. " +
		"A last message goes first, in an earlier step."
)

const (
	gatewaySchema = `{"type":"object","properties":{"action":{"type":"string","enum":["activate","peers","send","close"]},` +
		`"arguments":{"type":"object","description":"send: to and message; close: agent"}}}`
	openGatewaySchema = `{"type":"object","properties":{"action":{"type":"string","enum":["activate","peers","send"]},` +
		`"arguments":{"type":"object","description":"send: to and message"}}}`
	peersSchema = `{"type":"object","properties":{}}`
	sendSchema  = `{"type":"object","properties":{"to":{"type":"string","description":"name of a peer"},` +
		`"message":{"type":"string"},"reply_to":{"type":"string","description":"id of the message that you answer"}},"required":["to","message"]}`
	closeSchema = `{"type":"object","properties":{"agent":{"type":"string","description":"its name"}},"required":["agent"]}`

	peersOutput = `{"type":"object","properties":{"self":` + peerSchema + `,"peers":{"type":"array","items":` + peerSchema + `},` + contractSchema + `},"required":["self","peers"]}`
	sendOutput  = `{"type":"object","properties":{"status":{"const":"sent"},"id":{"type":"string"},"to":{"type":"string"},` + contractSchema + `},"required":["status","id","to"]}`
	closeOutput = `{"type":"object","properties":{"status":{"const":"closed"},"agent":{"type":"string"},` + contractSchema + `},"required":["status","agent"]}`

	peerSchema     = `{"type":"object","properties":{"name":{"type":"string"},"state":{"enum":["idle","working","blocked","done","unknown"]}},"required":["name","state"]}`
	contractSchema = `"contract":{"type":"string"}`
)

// Contract is what activation tells: the rules, and how to do without the tools.
func (l *Link) Contract() string {
	if !l.gatewayCloses {
		return contract.Rules + contract.FallbackNoClose
	}
	return contract.Rules + contract.Fallback
}

// Hint is the instructions of the server: what a model knows before it asks.
func (l *Link) Hint() string {
	if !l.inside {
		return ""
	}
	return strings.TrimSpace(contract.Hint)
}

// Tools returns the toolset. Outside Herdr no tool is listed, dormant only
// herdr_link, eager all; called, each does what it can.
func (l *Link) Tools() []mcp.Tool {
	gateway, rest := mcp.Always, mcp.WhenActive
	switch {
	case !l.inside:
		gateway, rest = mcp.Never, mcp.Never
	case l.eager:
		rest = mcp.Always
	}
	description, schema := gatewayText, gatewaySchema
	if l.eager {
		description = eagerText + l.Contract()
	}
	if !l.gatewayCloses {
		schema = openGatewaySchema
	}
	tools := []mcp.Tool{
		{
			Name: gatewayName, Title: "Herdr Link", Description: description,
			InputSchema: json.RawMessage(schema),
			Annotations: mcp.Annotations{Destructive: l.gatewayCloses},
			// Claude Code hides tools behind a search; this one is never hidden.
			Meta:    json.RawMessage(`{"anthropic/alwaysLoad":true}`),
			Listing: gateway, Begin: l.beginGateway,
		},
		{
			Name: peersName, Title: "List peers", Description: peersText,
			InputSchema: json.RawMessage(peersSchema), OutputSchema: json.RawMessage(peersOutput),
			Annotations: mcp.Annotations{ReadOnly: true, Idempotent: true},
			Listing:     rest, Begin: l.begin(l.peersCall),
		},
		{
			Name: sendName, Title: "Send a message", Description: sendText,
			InputSchema: json.RawMessage(sendSchema), OutputSchema: json.RawMessage(sendOutput),
			Listing: rest, Begin: l.begin(l.sendCall),
		},
		{
			Name: closeName, Title: "Close an agent's pane", Description: closeText,
			InputSchema: json.RawMessage(closeSchema), OutputSchema: json.RawMessage(closeOutput),
			Annotations: mcp.Annotations{Destructive: true},
			Listing:     rest, Begin: l.begin(l.closeCall),
		},
	}
	for i := range tools {
		tools[i].Begin = l.logged(tools[i].Name, tools[i].Begin)
	}
	return tools
}

// logged has a record of each call of the tool in the operator's log: how it
// ended and how long it took.
func (l *Link) logged(tool string, begin func(*mcp.Session, mcp.Args) mcp.Call) func(*mcp.Session, mcp.Args) mcp.Call {
	return func(s *mcp.Session, args mcp.Args) mcp.Call {
		begun := time.Now()
		record := func(r *mcp.Result) *mcp.Result {
			attrs := []any{"tool", tool, "ok", !r.IsError, "ms", time.Since(begun).Milliseconds()}
			if r.IsError {
				attrs = append(attrs, "error", r.Text[0]) // fixed words: see faults
			}
			l.log.Info("call", attrs...)
			return r
		}
		c := begin(s, args)
		if run := c.Run; run != nil {
			c.Run = func(ctx context.Context) *mcp.Result { return record(run(ctx)) }
		} else {
			record(c.Result)
		}
		return c
	}
}

// A call is one that has been understood: what to do, and the name of its
// target, so that calls for one target keep their order.
type call struct {
	target string
	do     func(ctx context.Context) (object []byte, err error)
}

type newCall func(mcp.Args) (call, error)

func (l *Link) beginGateway(s *mcp.Session, args mcp.Args) mcp.Call {
	if !l.inside {
		return failed(errOutside)
	}
	action, ok := optionalString(args["action"])
	inner := args
	if nested, given := args["arguments"]; given {
		var problem string
		if inner, problem = mcp.ReadArgs(nested); problem != "" {
			return failed(errors.New(problem))
		}
		if isNull(nested) {
			inner = args
		}
	}
	switch {
	case !ok:
	case action == "" && isNull(args["action"]), action == "activate":
		result := mcp.Structured(mcp.Marshal(struct {
			Status       string   `json:"status"`
			Capabilities []string `json:"capabilities"`
			Contract     string   `json:"contract"`
		}{"active", []string{"peers", "send", "close"}, l.Contract()}))
		s.Settle()
		return mcp.Call{Result: result, Hold: s.Activate()}
	case action == "peers":
		return l.begin(l.peersCall)(s, inner)
	case action == "send":
		return l.begin(l.sendCall)(s, inner)
	case action == "close" && l.gatewayCloses:
		return l.begin(l.closeCall)(s, inner)
	case action == "close":
		if s.Activate() {
			s.Owe()
		}
		return failed(errors.New(`herdr_link does not close here: call herdr_link_close with {"agent":"NAME"}`))
	}
	valid := "activate, peers, send or close"
	if !l.gatewayCloses {
		valid = "activate, peers or send"
	}
	return failed(errors.New("action must be " + valid))
}

// begin activates, since a host may call what it has not listed, and makes a
// call of the arguments. The answer of the call that activated carries the
// contract, or, if that failed, the next one that does not fail.
func (l *Link) begin(understand newCall) func(*mcp.Session, mcp.Args) mcp.Call {
	return func(s *mcp.Session, args mcp.Args) mcp.Call {
		if !l.inside {
			return failed(errOutside)
		}
		activated := s.Activate()
		fail := func(err error) mcp.Call {
			if activated {
				s.Owe()
			}
			return failed(err)
		}
		c, err := understand(args)
		if err != nil {
			return fail(err)
		}
		return mcp.Call{Key: c.target, Run: func(ctx context.Context) *mcp.Result {
			object, err := c.do(ctx)
			if err != nil {
				return fail(err).Result
			}
			result := mcp.Structured(object)
			if owed := s.Settle(); owed || activated {
				if ctx.Err() != nil {
					s.Owe() // cancelled: nobody will see this answer
				}
				result.Structured = withContract(object, l.Contract())
				result.Text = append(result.Text, l.Contract())
			}
			return result
		}}
	}
}

// failed is a call that has failed already: a cause of this package as its
// fault, anything else in its own words.
func failed(err error) mcp.Call {
	if errors.Is(err, errOutside) {
		err = fault(err)
	}
	return mcp.Call{Result: mcp.Error(err.Error())}
}

func (l *Link) peersCall(mcp.Args) (call, error) {
	return call{do: func(ctx context.Context) ([]byte, error) {
		self, peers, err := l.Peers(ctx)
		if err != nil {
			return nil, err
		}
		return PeersJSON(self, peers), nil
	}}, nil
}

// PeersJSON is the result of Peers as JSON, each peer on a line of its own:
// some hosts cut long lines.
func PeersJSON(self Peer, peers []Peer) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"self":%s,"peers":[`, mcp.Marshal(self))
	for i, p := range peers {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(mcp.Marshal(p))
	}
	b.WriteString("]}")
	return b.Bytes()
}

func (l *Link) sendCall(args mcp.Args) (call, error) {
	var m Message
	var ok bool
	if m.Text, ok = unquote(args["message"]); !ok {
		if loneSurrogate(args["message"]) {
			return call{}, fault(errNotText)
		}
		return call{}, invalid(sendFailed, "message", "a string, the text for the peer.")
	}
	if m.ReplyTo, ok = optionalString(args["reply_to"]); !ok || m.ReplyTo == "" && !isNull(args["reply_to"]) {
		return call{}, fault(errReplyTo)
	}
	if err := m.check(); err != nil {
		return call{}, fault(err)
	}
	if m.To, ok = unquote(args["to"]); !ok {
		return call{}, invalid(peerNotFound, "to", "a string, the name of a peer.")
	}
	return call{m.To, func(ctx context.Context) ([]byte, error) {
		id, err := l.Send(ctx, m)
		if err != nil {
			return nil, err
		}
		return SentJSON(id, m.To), nil
	}}, nil
}

// SentJSON is the result of Send as JSON.
func SentJSON(id, to string) []byte {
	return mcp.Marshal(struct {
		Status string `json:"status"`
		ID     string `json:"id"`
		To     string `json:"to"`
	}{"sent", id, to})
}

func (l *Link) closeCall(args mcp.Args) (call, error) {
	name, ok := unquote(args["agent"])
	if !ok {
		return call{}, invalid(peerNotFound, "agent", "a string, the name of an agent.")
	}
	return call{name, func(ctx context.Context) ([]byte, error) {
		if err := l.Close(ctx, name); err != nil {
			return nil, err
		}
		return ClosedJSON(name), nil
	}}, nil
}

// ClosedJSON is the result of Close as JSON.
func ClosedJSON(agent string) []byte {
	return mcp.Marshal(struct {
		Status string `json:"status"`
		Agent  string `json:"agent"`
	}{"closed", agent})
}

// withContract adds the member "contract" to a JSON object that has members.
func withContract(object []byte, contract string) []byte {
	b := append(bytes.TrimSuffix(object[:len(object):len(object)], []byte("}")), `,"contract":`...)
	return append(append(b, mcp.Marshal(contract)...), '}')
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || raw[0] == 'n' }

func unquote(raw json.RawMessage) (string, bool) {
	s, err := envelope.Unquote(raw)
	return s, err == nil
}

// optionalString is "" for a value that is absent or null.
func optionalString(raw json.RawMessage) (string, bool) {
	if isNull(raw) {
		return "", true
	}
	return unquote(raw)
}

func loneSurrogate(raw json.RawMessage) bool {
	_, err := envelope.Unquote(raw)
	return errors.Is(err, envelope.ErrNotText)
}
