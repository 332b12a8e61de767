package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// after is added to a wait, so that what is due by then has come.
const after = time.Millisecond

// A peer is the client of a served connection, in a synctest bubble: what it
// says has been dealt with, as far as that needs no time, when say returns.
type peer struct {
	t    *testing.T
	in   *io.PipeWriter
	stop context.CancelFunc
	done chan error // what Serve returned

	mu    sync.Mutex
	lines []string // not yet heard
}

func connect(t *testing.T, s *Server) *peer {
	fromPeer, in := io.Pipe()
	out, toPeer := io.Pipe()
	p := &peer{t: t, in: in, done: make(chan error, 1)}
	var ctx context.Context
	ctx, p.stop = context.WithCancel(t.Context())
	t.Cleanup(func() {
		p.stop()
		_ = in.Close()
		time.Sleep(time.Hour) // the bubble's time, for stubborn calls
	})
	go func() {
		p.done <- s.Serve(ctx, fromPeer, toPeer)
		_ = toPeer.Close()
	}()
	go func() {
		scanner := bufio.NewScanner(out)
		scanner.Buffer(nil, 16<<20)
		for scanner.Scan() {
			p.mu.Lock()
			p.lines = append(p.lines, scanner.Text())
			p.mu.Unlock()
		}
	}()
	return p
}

// initialized connects and initializes in that protocol version.
func initialized(t *testing.T, s *Server, version string) *peer {
	t.Helper()
	p := connect(t, s)
	p.say(request("0", "initialize", `{"protocolVersion":"`+version+`"}`), request("", "notifications/initialized", ""))
	p.hears("0 result")
	return p
}

func (p *peer) say(lines ...string) {
	for _, line := range lines {
		if _, err := io.WriteString(p.in, line+"\n"); err != nil {
			p.t.Errorf("saying %.100s: %v", line, err)
		}
		synctest.Wait()
	}
}

// heard returns what the server has said since the last time.
func (p *peer) heard() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := p.lines
	p.lines = nil
	return lines
}

// hears checks, in brief, what the server has said since the last time.
func (p *peer) hears(want ...string) {
	p.t.Helper()
	var got []string
	for _, line := range p.heard() {
		got = append(got, brief(line))
	}
	if !slices.Equal(got, want) {
		p.t.Errorf("heard %q\n want %q", got, want)
	}
}

// asks says one line and returns the one line that it is answered with.
func (p *peer) asks(line string) string {
	p.t.Helper()
	p.say(line)
	lines := p.heard()
	if len(lines) != 1 {
		p.t.Fatalf("%.200s was answered with %q", line, lines)
	}
	return lines[0]
}

// lists returns the names of the listed tools.
func (p *peer) lists(id, params string) string {
	p.t.Helper()
	return names(p.t, p.asks(request(id, "tools/list", params)))
}

func names(t *testing.T, answer string) string {
	t.Helper()
	var m struct {
		Result struct{ Tools []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(answer), &m); err != nil || m.Result.Tools == nil {
		t.Fatalf("no list of tools: %s", answer)
	}
	var all []string
	for _, tool := range m.Result.Tools {
		all = append(all, tool.Name)
	}
	return strings.Join(all, " ")
}

// ends closes the peer's end, and checks that Serve is content with it and
// what was still said.
func (p *peer) ends(want ...string) {
	p.t.Helper()
	_ = p.in.Close()
	if err := <-p.done; err != nil {
		p.t.Errorf("Serve: %v", err)
	}
	p.hears(want...)
}

// brief is a message in short: "ID result", "ID failed" for a tool that says
// it failed, "ID error CODE", or the method; in brackets what is in a batch.
func brief(line string) string {
	if strings.HasPrefix(line, "[") {
		var all []json.RawMessage
		if json.Unmarshal([]byte(line), &all) != nil {
			return "no JSON: " + line
		}
		var each []string
		for _, m := range all {
			each = append(each, brief(string(m)))
		}
		return "[" + strings.Join(each, ", ") + "]"
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Result *struct{ IsError bool }
		Error  *struct{ Code int }
	}
	switch err := json.Unmarshal([]byte(line), &m); {
	case err != nil:
		return "no message: " + line
	case m.Method != "":
		return m.Method
	case m.Error != nil:
		return fmt.Sprintf("%s error %d", m.ID, m.Error.Code)
	case m.Result == nil:
		return "no message: " + line
	case m.Result.IsError:
		return string(m.ID) + " failed"
	}
	return string(m.ID) + " result"
}

// says is the first text of a tool's answer.
func says(line string) string {
	var m struct {
		Result struct{ Content []struct{ Type, Text string } }
	}
	if json.Unmarshal([]byte(line), &m) != nil || len(m.Result.Content) == 0 || m.Result.Content[0].Type != "text" {
		return "no text: " + line
	}
	return m.Result.Content[0].Text
}

// request is a request or, without id, a notification; params may be empty.
func request(id, method, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	if id != "" {
		id = `,"id":` + id
	}
	return `{"jsonrpc":"2.0"` + id + `,"method":"` + method + `"` + params + `}`
}

// call is a tools/call; arguments may be empty.
func call(id, tool, arguments string) string {
	if arguments != "" {
		arguments = `,"arguments":` + arguments
	}
	return request(id, "tools/call", `{"name":"`+tool+`"`+arguments+`}`)
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// modern is a request of 2026-07-28; more are further params.
func modern(id, method, more string) string {
	if more != "" {
		more = "," + more
	}
	return request(id, method, "{"+modernMeta+more+"}")
}

func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// at calls f with each of the versions that have a handshake.
func at(t *testing.T, f func(t *testing.T, version string)) {
	for _, v := range Versions()[:4] {
		bubble(t, v, func(t *testing.T) { f(t, v) })
	}
}

// A bench has tools for tests, and knows what they did.
type bench struct {
	mu  sync.Mutex
	log []string
}

func (b *bench) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, fmt.Sprintf(format, args...))
}

// did returns what was noted since the last time.
func (b *bench) did() string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	log := strings.Join(b.log, " ")
	b.log = nil
	return log
}

var schema = json.RawMessage(`{"type":"object"}`)

func (a Args) text(name string) string { return text(a[name]) }

func (a Args) number(name string) (n int) {
	_ = json.Unmarshal(a[name], &n)
	return n
}

// server has a gateway that activates and holds, as link's does, a tool that
// is listed when it has, and these: "hidden" is never listed, "args" answers
// with its arguments, "work" takes "ms" milliseconds under "key", notes when
// "name" starts and ends, and with "stubborn" does not care for its context; with
// "waits", "time" and "progress" (in seconds) it is such a Call, with "free" it frees
// its key. Of arguments that are none it says "no: " and the problem.
func (b *bench) server() *Server {
	return &Server{Name: "bench", Title: "The Bench", Version: "7", Instructions: "ask", Tools: []Tool{
		{Name: "herdr_link", Title: "Gate", Description: "opens", InputSchema: schema, Begin: func(s *Session, _ Args) Call {
			return Call{Result: &Result{Text: []string{"active"}}, Hold: s.Activate()}
		}},
		{Name: "herdr_link_send", Title: "More", Description: "does more", InputSchema: schema, Listing: WhenActive,
			OutputSchema: json.RawMessage(`{"type":"object","title":"out"}`), Meta: json.RawMessage(`{"a/b":true}`),
			Annotations: Annotations{ReadOnly: true, Idempotent: true},
			Begin: func(s *Session, _ Args) Call {
				s.Activate()
				return Call{Run: func(context.Context) *Result { return Structured([]byte(`{"more":1}`)) }}
			}},
		{Name: "hidden", InputSchema: schema, Listing: Never, Begin: func(*Session, Args) Call {
			return Call{Result: &Result{Text: []string{"found"}}}
		}},
		{Name: "args", InputSchema: schema, Listing: Never, Begin: func(_ *Session, args Args) Call {
			encoded, _ := json.Marshal(args)
			return Call{Result: &Result{Text: []string{string(encoded)}}}
		}},
		{Name: "work", InputSchema: schema, Listing: Never, Refuse: func(problem string) *Result { return Error("no: " + problem) }, Begin: func(_ *Session, args Args) Call {
			free := make(chan struct{})
			return Call{Key: args.text("key"), Waits: args["waits"] != nil, Time: time.Duration(args.number("time")) * time.Second,
				Progress: time.Duration(args.number("progress")) * time.Second,
				Free:     free, Run: func(ctx context.Context) *Result {
					if args["free"] != nil {
						close(free)
					}
					return b.work(ctx, args)
				}}
		}},
	}}
}

func (b *bench) work(ctx context.Context, args Args) *Result {
	name := args.text("name")
	if ctx.Err() != nil {
		b.note("late:%s", name)
		return Error("late")
	}
	b.note("start:%s", name)
	defer b.note("end:%s", name)
	over := ctx.Done()
	if args["stubborn"] != nil {
		over = nil
	}
	select {
	case <-time.After(time.Duration(args.number("ms")) * time.Millisecond):
		return &Result{Text: []string{"worked"}}
	case <-over:
		return Error("stopped")
	}
}

// work is a call of the tool work that notes its id.
func work(id, key string, takes time.Duration) string {
	return call(id, "work", fmt.Sprintf(`{"name":"%s","key":"%s","ms":%d}`, id, key, takes.Milliseconds()))
}

// static is a server whose list cannot change.
func static() *Server {
	s := (&bench{}).server()
	s.Tools = s.Tools[:1]
	return s
}

func both(s *Server) *Server {
	s.Modern = true
	return s
}
