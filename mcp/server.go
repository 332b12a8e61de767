// Package mcp serves tools over the Model Context Protocol on stdio: versions,
// capabilities, tools/list, tools/call and list_changed, over package jsonrpc.
//
// A toolset is a slice of Tool. The server knows no toolset by name and
// nothing of Herdr.
package mcp

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"herdr-link/jsonrpc"
)

// Protocol versions. They are dates, so that they compare as strings.
const (
	v20241105 = "2024-11-05"
	v20250326 = "2025-03-26"
	v20250618 = "2025-06-18"
	// Latest is the newest version with an initialize handshake. It is what
	// the server answers to a version that it does not know.
	Latest = "2025-11-25"
	// Modern is the stateless version: served only on request (Server.Modern),
	// since it forbids a tool list that changes.
	Modern = "2026-07-28"
)

const (
	// callTime is the time of a tool call that does not say another one, its
	// wait in the scheduler included. Hosts give up at 60 s.
	callTime = 45 * time.Second
	// An answer with Hold waits until the tools have been listed again, plus
	// holdSettle for the client to offer them, and at most holdMax in all. On a
	// busy machine Gemini CLI needs more than 50 ms between list and model.
	holdSettle = 150 * time.Millisecond
	holdMax    = 500 * time.Millisecond
	// endGrace is how long the last answers may take to leave when no call has
	// time any more.
	endGrace = time.Second
)

// A Server describes one MCP server. It is not changed by serving.
type Server struct {
	Name         string
	Title        string
	Version      string
	Instructions string // for initialize and server/discover; may be empty
	Tools        []Tool
	Modern       bool // serve 2026-07-28, too

	// Initialized, if not nil, is called in a goroutine of its own when a
	// client has initialized. Its context ends with Serve, which waits for it.
	Initialized func(ctx context.Context)
}

// A Session is the state of one connection. What a tool may see and change of it
// is used only while requests begin, so it needs no lock, but for Owe and Settle.
type Session struct {
	server  *Server
	conn    *jsonrpc.Conn
	ctx     context.Context
	calls   scheduler
	version string // negotiated; empty before initialize
	active  bool
	owed    atomic.Bool
	relist  chan struct{} // closed by the next tools/list; nil if nobody waits
	behind  *behind
}

// behind is what goes on when the call that began it has been answered.
type behind struct {
	ctx context.Context // ends with the input, or with the process
	all sync.WaitGroup
}

// Serve answers one client until r ends (nil), ctx ends or w fails (that
// error). At the end of r the calls in flight are answered first.
func (s *Server) Serve(ctx context.Context, r io.Reader, w io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	life, end := context.WithCancelCause(ctx)
	session := &Session{server: s, ctx: ctx, active: !s.changes(), behind: &behind{ctx: life}}
	session.conn = jsonrpc.NewConn(session.handle)
	session.conn.Batches = func() bool { return session.version == v20250326 }
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-session.conn.Ended():
			end(ErrEnded)
		}
		select { // no call takes longer, but an answer may find no reader
		case <-ctx.Done():
		case <-time.After(callTime + endGrace): // longer ones are cancelled by then
			stop()
		}
	}()
	err := session.conn.Serve(ctx, r, w)
	end(ErrEnded) // if nothing else has ended it
	stop()
	session.behind.all.Wait() // it may have a child to end
	return err
}

// changes reports whether the list of tools can change.
func (s *Server) changes() bool {
	return slices.ContainsFunc(s.Tools, func(t Tool) bool { return t.Listing == WhenActive })
}

// Activate lists the WhenActive tools from now on, and tells the client.
// It reports whether they were not listed before.
func (s *Session) Activate() bool {
	if s.active {
		return false
	}
	s.active = true
	s.conn.Notify("notifications/tools/list_changed", nil)
	return true
}

// Owe notes that a call has activated without telling what there is to know then:
// it failed. Another answer has to.
func (s *Session) Owe() { s.owed.Store(true) }

// Settle reports whether that is still owed, and takes it on.
func (s *Session) Settle() bool { return s.owed.Swap(false) }

// Behind has something done that may go on when the call which asks for it has
// been answered. Its context ends with the input, because of [ErrEnded], or with
// the process; nothing of it is left when Serve returns. A call may use it until
// it has its result.
func (s *Session) Behind(do func(ctx context.Context)) {
	s.behind.all.Go(func() { do(s.behind.ctx) })
}

// handle is the connection's jsonrpc.Handler.
func (s *Session) handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	if req.ID == "" {
		if req.Method == "notifications/cancelled" {
			s.cancel(req.Params)
		}
		return nil, nil
	}
	p, err := readParams(req.Params)
	if err != nil {
		return nil, err
	}
	if s.server.Modern && (p.modern || req.Method == "server/discover") {
		return s.modern(ctx, req, p)
	}
	switch {
	case req.Method == "ping":
		return struct{}{}, nil
	case req.Method == "server/discover":
		return nil, unknownMethod(req)
	case req.Method == "initialize":
		return s.initialize(p)
	case s.version == "":
		return nil, jsonrpc.Errorf(jsonrpc.InvalidRequest, "the first request must be initialize")
	}
	switch req.Method {
	case "tools/list":
		if s.relist != nil {
			close(s.relist)
			s.relist = nil
		}
		return s.list(p, s.version, s.active)
	case "tools/call":
		return s.call(ctx, req, p, s, s.version)
	}
	return nil, unknownMethod(req)
}

func unknownMethod(req *jsonrpc.Request) error {
	return jsonrpc.Errorf(jsonrpc.MethodNotFound, "no such method: %.64q", req.Method)
}

func (s *Session) cancel(raw json.RawMessage) {
	for key, value := range jsonrpc.Members(raw) {
		if key == "requestId" {
			s.conn.Cancel(jsonrpc.ID(value))
			return
		}
	}
}

type info struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

type toolsCapability struct {
	ListChanged bool `json:"listChanged,omitempty"`
}

type capabilities struct {
	Tools toolsCapability `json:"tools"`
}

func (s *Session) initialize(p *params) (any, error) {
	if s.version != "" {
		return nil, jsonrpc.Errorf(jsonrpc.InvalidRequest, "this connection has been initialized already")
	}
	s.version = Latest
	switch v := p.text("protocolVersion"); v {
	case v20241105, v20250326, v20250618:
		s.version = v
	}
	if s.server.Initialized != nil {
		s.behind.all.Go(func() { s.server.Initialized(s.ctx) })
	}
	name := info{Name: s.server.Name, Version: s.server.Version}
	if s.version >= v20250618 {
		name.Title = s.server.Title
	}
	return struct {
		ProtocolVersion string       `json:"protocolVersion"`
		Capabilities    capabilities `json:"capabilities"`
		ServerInfo      info         `json:"serverInfo"`
		Instructions    string       `json:"instructions,omitempty"`
	}{s.version, capabilities{toolsCapability{s.server.changes()}}, name, s.server.Instructions}, nil
}

type listJSON struct {
	ResultType string `json:"resultType,omitempty"`
	Tools      []any  `json:"tools"`
	TTL        *int   `json:"ttlMs,omitempty"`
	CacheScope string `json:"cacheScope,omitempty"`
}

func (s *Session) list(p *params, version string, active bool) (*listJSON, error) {
	if p.text("cursor") != "" {
		return nil, jsonrpc.Errorf(jsonrpc.InvalidParams, "no such cursor: the list has one page")
	}
	l := &listJSON{Tools: []any{}}
	for _, t := range s.server.Tools {
		if t.Listing == Always || t.Listing == WhenActive && active {
			l.Tools = append(l.Tools, t.Describe(version))
		}
	}
	return l, nil
}

// call begins a tools/call. view is the session as the tool sees it.
func (s *Session) call(ctx context.Context, req *jsonrpc.Request, p *params, view *Session, version string) (any, error) {
	if jsonrpc.Kind(p.fields["name"]) != '"' {
		return nil, jsonrpc.Errorf(jsonrpc.InvalidParams, "tools/call: name must be a string")
	}
	name := p.text("name")
	i := slices.IndexFunc(s.server.Tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return nil, jsonrpc.Errorf(jsonrpc.InvalidParams, "no such tool: %.64q", name)
	}
	args, problem := ReadArgs(p.fields["arguments"])
	if problem != "" {
		return s.server.Tools[i].refuse(problem).Encode(version), nil
	}
	call := s.server.Tools[i].Begin(view, args)
	if call.Run == nil {
		if call.Hold && !req.Batch && view == s { // a modern list never changes
			return s.hold(ctx, call.Result.Encode(version)), nil
		}
		return call.Result.Encode(version), nil
	}
	turn := s.calls.enter(&call, req.Size)
	if turn == nil {
		return nil, jsonrpc.Errorf(jsonrpc.InternalError,
			"busy: %d tool calls are running and no more can wait; call again when some have been answered", maxRunning)
	}
	ctx, stop := context.WithTimeout(ctx, call.limit())
	if call.Waits || call.limit() > callTime {
		var end context.CancelCauseFunc
		ctx, end = context.WithCancelCause(ctx)
		go s.endLong(ctx, &call, end)
	}
	return jsonrpc.Later(func() (any, error) {
		defer stop()
		defer s.tell(ctx, p.token(), call.Progress)()
		if s.calls.wait(ctx, turn) == nil {
			defer s.calls.leave(turn)
			if call.Free != nil {
				go func() {
					select {
					case <-call.Free:
						s.calls.free(turn)
					case <-ctx.Done():
					}
				}()
			}
		}
		// Without a turn ctx is over: the tool says in its own words that it had no time.
		return call.Run(ctx).Encode(version), nil
	}), nil
}

// endLong cancels a call that would go on for long after the end of input.
func (s *Session) endLong(ctx context.Context, call *Call, end context.CancelCauseFunc) {
	select {
	case <-s.conn.Ended():
	case <-ctx.Done():
		return
	}
	if !call.Waits {
		select {
		case <-time.After(callTime):
		case <-ctx.Done():
			return
		}
	}
	end(ErrEnded)
}

// hold answers with result when the client has listed the tools again.
func (s *Session) hold(ctx context.Context, result any) jsonrpc.Later {
	if s.relist == nil {
		s.relist = make(chan struct{})
	}
	relist := s.relist
	limit := time.NewTimer(holdMax)
	return func() (any, error) {
		defer limit.Stop()
		select {
		case <-relist:
			select {
			case <-time.After(holdSettle):
			case <-limit.C:
			case <-s.conn.Ended():
			case <-ctx.Done():
			}
		case <-limit.C:
		case <-s.conn.Ended():
		case <-ctx.Done():
		}
		return result, nil
	}
}
