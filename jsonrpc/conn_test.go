package jsonrpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A peer is the other end of a connection, in a synctest bubble: what it says
// has been dealt with, as far as that needs no time, when say returns.
type peer struct {
	t    *testing.T
	conn *Conn
	in   *io.PipeWriter
	stop context.CancelFunc
	done chan error // what Serve returned

	mu    sync.Mutex
	lines []string // not yet heard
	begun []string // ids of requests, methods of notifications
}

// connect serves a new connection with the test's methods; see peer.handle.
func connect(t *testing.T, set ...func(*Conn)) *peer {
	r, w := io.Pipe()
	p := start(t, nil, w, set...)
	go func() {
		scanner := bufio.NewScanner(r)
		scanner.Buffer(nil, 2*MaxLine)
		for scanner.Scan() {
			p.mu.Lock()
			p.lines = append(p.lines, scanner.Text())
			p.mu.Unlock()
		}
	}()
	return p
}

// start serves a new connection whose answers go to w. It reads from r, or
// from what the peer says if r is nil.
func start(t *testing.T, r io.Reader, w io.Writer, set ...func(*Conn)) *peer {
	p := &peer{t: t, done: make(chan error, 1)}
	if r == nil {
		r, p.in = io.Pipe()
		t.Cleanup(func() { _ = p.in.Close() })
	}
	var ctx context.Context
	ctx, p.stop = context.WithCancel(t.Context())
	t.Cleanup(p.stop)
	p.conn = NewConn(p.handle)
	for _, f := range set {
		f(p.conn)
	}
	go func() {
		p.done <- p.conn.Serve(ctx, r, w)
		if c, ok := w.(io.Closer); ok {
			_ = c.Close()
		}
	}()
	return p
}

// batches is a setting: they are allowed.
func batches(c *Conn) { c.Batches = func() bool { return true } }

// handle has the methods of the tests. "wait" answers after the milliseconds
// in its params, or at once when it is cancelled; then it says so.
func (p *peer) handle(ctx context.Context, req *Request) (any, error) {
	p.mu.Lock()
	if req.ID != "" {
		p.begun = append(p.begun, string(req.ID))
	} else {
		p.begun = append(p.begun, req.Method)
	}
	p.mu.Unlock()
	switch req.Method {
	case "now":
		return "now", nil
	case "size":
		return req.Size, nil
	case "batch":
		return req.Batch, nil
	case "wait":
		var ms [1]int
		if err := json.Unmarshal(req.Params, &ms); err != nil {
			return nil, Errorf(InvalidParams, "%v", err)
		}
		return Later(func() (any, error) {
			select {
			case <-time.After(time.Duration(ms[0]) * time.Millisecond):
				return "waited", nil
			case <-ctx.Done():
				p.mu.Lock()
				defer p.mu.Unlock()
				p.begun = append(p.begun, "stopped "+string(req.ID))
				return "stopped", nil
			}
		}), nil
	case "stubborn":
		return Later(func() (any, error) { time.Sleep(50 * time.Millisecond); return "at last", nil }), nil
	case "echo":
		return Later(func() (any, error) { return "echo", nil }), nil
	case "announce":
		p.conn.Notify("changed", nil)
		return "announced", nil
	case "cancel": // the id in its params
		p.conn.Cancel(ID(bytes.Trim(req.Params, "[]")))
		return "dropped", nil
	case "refuse":
		return nil, &Error{Code: -32000, Message: "no <way>", Data: []int{1}}
	case "refuse later":
		return Later(func() (any, error) { return nil, fmt.Errorf("wrapped: %w", Errorf(-32001, "later")) }), nil
	case "fail":
		return nil, errors.New("with a secret")
	case "later and fail":
		return Later(func() (any, error) { panic("must not run") }), errors.New("x")
	case "no JSON":
		return func() {}, nil
	case "html":
		return json.RawMessage("{ \"a\":\n\"<&>\u2028\" }"), nil
	}
	return nil, Errorf(MethodNotFound, "no such method")
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

// hears checks what the server has said since the last time. Of an error only
// the code counts.
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

// sees checks what has begun, in its order.
func (p *peer) sees(want ...string) {
	p.t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.begun, want) {
		p.t.Errorf("begun: %q, want %q", p.begun, want)
	}
}

// ends closes the peer's end and checks what Serve says to it.
func (p *peer) ends(want ...string) {
	p.t.Helper()
	_ = p.in.Close()
	if err := <-p.done; err != nil {
		p.t.Errorf("Serve: %v", err)
	}
	p.hears(want...)
}

// brief is a message in short: "ID result", "ID error CODE" or the method; in
// brackets what stands in a batch.
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
		JSONRPC string
		ID      json.RawMessage
		Method  string
		Result  json.RawMessage
		Error   *Error
	}
	dec := json.NewDecoder(strings.NewReader(line))
	dec.DisallowUnknownFields()
	if dec.Decode(&m) != nil || m.JSONRPC != "2.0" || strings.Contains(line, "\n") {
		return "no message: " + line
	}
	switch {
	case m.Method != "":
		return m.Method
	case m.Error != nil:
		return fmt.Sprintf("%s error %d", m.ID, m.Error.Code)
	}
	return fmt.Sprintf("%s %s", m.ID, m.Result)
}

func message(id, method, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	if id != "" {
		id = `,"id":` + id
	}
	return `{"jsonrpc":"2.0"` + id + `,"method":"` + method + `"` + params + `}`
}

const after = time.Millisecond // added to a wait, so that what is due has come

func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{message(`1`, "now", ""), `{"jsonrpc":"2.0","id":1,"result":"now"}`},
		{message(`"\u0061"`, "now", ""), `{"jsonrpc":"2.0","id":"\u0061","result":"now"}`},
		{message(`-0`, "echo", ""), `{"jsonrpc":"2.0","id":-0,"result":"echo"}`},
		{message(`1`, "size", ""), `{"jsonrpc":"2.0","id":1,"result":40}`},
		{message(`1`, "batch", ""), `{"jsonrpc":"2.0","id":1,"result":false}`},
		{message(`1`, "refuse", ""), `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no <way>","data":[1]}}`},
		{message(`1`, "refuse later", ""), `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"later"}}`},
		{message(`1`, "fail", ""), `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`},
		{message(`1`, "later and fail", ""), `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`},
		{message(`1`, "no JSON", ""), `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the result has no JSON form"}}`},
		{message(`1`, "html", ""), `{"jsonrpc":"2.0","id":1,"result":{"a":"<&>` + "\u2028" + `"}}`},
		{message(`1`, "nothing of the kind", ""), `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such method"}}`},
		{message(``, "now", ""), ``},
		{message(``, "fail", ""), ``},
		{message(``, "echo", ""), ``},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, ``},
		{"  \t\r", ``},
		{"", ``},
	} {
		bubble(t, c.line, func(t *testing.T) {
			p := connect(t)
			p.say(c.line)
			if got := strings.Join(p.heard(), "\n"); got != c.want {
				t.Errorf("heard %s\n want %s", got, c.want)
			}
			p.say(message("99", "now", ""))
			p.ends(`99 "now"`)
		})
	}
}

func TestInput(t *testing.T) {
	long := message("1", "now", `{"x":"`+strings.Repeat("x", MaxLine)+`"}`)
	fits := message("2", "size", `{"x":"`+strings.Repeat("x", MaxLine-len(message("2", "size", `{"x":""}`)))+`"}`)
	for _, c := range []struct {
		name, input string
		want        []string
	}{
		{"several in one write", message("1", "now", "") + "\n" + message("2", "now", "") + "\n", []string{`1 "now"`, `2 "now"`}},
		{"the last one without a newline", message("1", "now", ""), []string{`1 "now"`}},
		{"BOM and CRLF", "\uFEFF" + message("1", "now", "") + "\r\n\r\n" + message("2", "now", "") + "\r\n", []string{`1 "now"`, `2 "now"`}},
		{"no JSON between", message("1", "now", "") + "\n{\n" + message("2", "now", "") + "\n", []string{`1 "now"`, `null error -32700`, `2 "now"`}},
		{"too long", long + "\n" + message("2", "now", ""), []string{`null error -32600`, `2 "now"`}},
		{"the longest", fits + "\n", []string{fmt.Sprintf(`2 %d`, MaxLine)}},
		{"nothing", "", nil},
	} {
		bubble(t, c.name, func(t *testing.T) {
			var out bytes.Buffer
			p := start(t, strings.NewReader(c.input), &out)
			if err := <-p.done; err != nil {
				t.Errorf("Serve: %v", err)
			}
			var got []string
			for line := range strings.Lines(out.String()) {
				got = append(got, brief(strings.TrimSuffix(line, "\n")))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("heard %q\n want %q", got, c.want)
			}
		})
	}
	bubble(t, "one byte per write", func(t *testing.T) {
		p := connect(t)
		for _, b := range []byte(message("1", "now", "") + "\n") {
			p.hears()
			if _, err := p.in.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		p.ends(`1 "now"`)
	})
}

func TestOrder(t *testing.T) {
	bubble(t, "messages begin as they arrive", func(t *testing.T) {
		p := connect(t)
		p.say(message("1", "wait", "[20]"), message("2", "wait", "[10]"), message("", "note", ""), message("3", "now", ""))
		p.sees("1", "2", "note", "3")
		p.hears(`3 "now"`)
		time.Sleep(10*time.Millisecond + after)
		p.hears(`2 "waited"`)
		time.Sleep(10 * time.Millisecond)
		p.ends(`1 "waited"`)
	})
	bubble(t, "answers at once keep the order, whatever waits", func(t *testing.T) {
		p := connect(t)
		var want []string
		p.say(message("0", "wait", "[1000]"))
		for id := range 200 {
			p.say(message(fmt.Sprint(id+1), "now", ""))
			want = append(want, fmt.Sprintf(`%d "now"`, id+1))
		}
		p.ends(append(want, `0 "waited"`)...)
	})
	bubble(t, "a notification leaves before the answers that follow", func(t *testing.T) {
		p := connect(t)
		p.say(message("1", "now", "") + "\n" + message("2", "announce", "") + "\n" + message("3", "now", ""))
		p.ends(`1 "now"`, "changed", `2 "announced"`, `3 "now"`)
	})
	bubble(t, "also before a batch that causes it", func(t *testing.T) {
		p := connect(t, batches)
		p.say("[" + message("1", "now", "") + "," + message("2", "announce", "") + "]")
		p.ends("changed", `[1 "now", 2 "announced"]`)
	})
}

func TestCancel(t *testing.T) {
	bubble(t, "the call ends and its answer is dropped", func(t *testing.T) {
		p := connect(t)
		p.say(message("1", "wait", "[1000]"), message("2", "wait", "[1000]"), message("", "cancel", "[1]"))
		p.sees("1", "2", "cancel", "stopped 1")
		p.hears()
		time.Sleep(time.Second + after)
		p.ends(`2 "waited"`)
	})
	bubble(t, "unknown and finished ones are no error", func(t *testing.T) {
		p := connect(t)
		p.say(message("1", "now", ""), message("", "cancel", "[1]"), message("", "cancel", "[7]"), message("", "cancel", `["1"]`), message("", "cancel", `[{}]`))
		p.say(message("2", "now", ""))
		p.ends(`1 "now"`, `2 "now"`)
	})
	bubble(t, "1 is not \"1\", but escapes do not matter", func(t *testing.T) {
		p := connect(t)
		p.say(message("1", "wait", "[50]"), message(`"1"`, "wait", "[50]"), message("", "cancel", `["\u0031"]`))
		p.sees("1", `"1"`, "cancel", `stopped "1"`)
		p.ends(`1 "waited"`)
	})
	bubble(t, "twice", func(t *testing.T) {
		p := connect(t)
		p.say(message("1", "wait", "[50]"), message("", "cancel", "[1]"), message("", "cancel", "[1]"), message("2", "now", ""))
		p.ends(`2 "now"`)
	})
	bubble(t, "a finished id may be used again, and cancelled again", func(t *testing.T) {
		p := connect(t)
		p.say(message("1", "wait", "[50]"), message("", "cancel", "[1]"))
		p.say(message("1", "now", ""))
		p.say(message("1", "wait", "[50]"))
		p.hears(`1 "now"`)
		time.Sleep(50*time.Millisecond + after)
		p.hears(`1 "waited"`)
		p.say(message("1", "wait", "[50]"), message("", "cancel", "[1]"))
		time.Sleep(50*time.Millisecond + after)
		p.ends()
	})
	bubble(t, "one of a batch", func(t *testing.T) {
		p := connect(t, batches)
		p.say("["+message("1", "wait", "[50]")+","+message("2", "wait", "[60]")+"]", message("", "cancel", "[1]"))
		p.ends(`[2 "waited"]`)
	})
	bubble(t, "all of a batch", func(t *testing.T) {
		p := connect(t, batches)
		p.say("["+message("1", "wait", "[50]")+"]", "["+message("", "cancel", "[1]")+"]", message("2", "now", ""))
		p.ends(`2 "now"`)
	})
}

// Whichever of the two comes first, a call that is cancelled while it finishes
// is answered at most once, and its id can be used again afterwards.
func TestCancelRaces(t *testing.T) {
	const rounds = 300
	var in, out bytes.Buffer
	for id := range rounds {
		fmt.Fprintf(&in, "%s\n%s\n", message(fmt.Sprint(id), "echo", ""), message("", "cancel", fmt.Sprintf("[%d]", id)))
	}
	p := &peer{t: t}
	p.conn = NewConn(p.handle)
	if err := p.conn.Serve(t.Context(), &in, &out); err != nil {
		t.Fatal(err)
	}
	answered := map[string]int{}
	for line := range strings.Lines(out.String()) {
		answered[brief(strings.TrimSuffix(line, "\n"))]++
	}
	for what, n := range answered {
		if n != 1 || !strings.HasSuffix(what, ` "echo"`) {
			t.Errorf("%s, %d times", what, n)
		}
	}
	if len(p.conn.inFlight) != 0 {
		t.Errorf("still in flight: %v", p.conn.inFlight)
	}
}

func TestSameIDInFlight(t *testing.T) {
	bubble(t, "the second is refused and the first unaffected", func(t *testing.T) {
		p := connect(t)
		p.say(message(`"a"`, "wait", "[50]"), message(`"\u0061"`, "now", ""), message(`"a"`, "wait", "[1]"))
		p.hears("null error -32600", "null error -32600")
		p.sees(`"a"`)
		time.Sleep(50*time.Millisecond + after)
		p.hears(`"a" "waited"`)
		p.say(message(`"a"`, "now", ""))
		p.ends(`"a" "now"`)
	})
	bubble(t, "inside a batch", func(t *testing.T) {
		p := connect(t, batches)
		p.say("[" + message("1", "wait", "[50]") + "," + message("1", "now", "") + "]")
		p.ends(`[null error -32600, 1 "waited"]`)
	})
	bubble(t, "a cancelled one counts until it has ended", func(t *testing.T) {
		p := connect(t)
		p.say(message("1", "stubborn", ""), message("", "cancel", "[1]"))
		p.say(message("1", "now", ""))
		p.hears("null error -32600")
		time.Sleep(50*time.Millisecond + after)
		p.say(message("1", "now", ""))
		p.ends(`1 "now"`)
	})
}

func TestBatch(t *testing.T) {
	many := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(message("", "note", "")+",", n-1), ",") + "," + message("1", "now", "") + "]"
	}
	for _, c := range []struct {
		name, line string
		want       []string
	}{
		{"one", "[" + message("1", "now", "") + "]", []string{`[1 "now"]`}},
		{"they know that they are in one", "[" + message("1", "batch", "") + "]", []string{`[1 true]`}},
		{"the size is the member's", "[" + message("1", "now", "") + " , " + message("2", "size", "") + "]", []string{`[1 "now", 2 40]`}},
		{"with a notification and a response", "[" + message("", "note", "") + `,{"jsonrpc":"2.0","id":5,"result":1},` + message("1", "now", "") + "]", []string{`[1 "now"]`}},
		{"notifications alone", "[" + message("", "note", "") + "," + message("", "note", "") + "]", nil},
		{"responses alone", `[{"jsonrpc":"2.0","id":5,"result":1}]`, nil},
		{"slow ones last", "[" + message("1", "wait", "[20]") + "," + message("2", "now", "") + "," + message("3", "wait", "[10]") + "]", []string{`[2 "now", 3 "waited", 1 "waited"]`}},
		{"empty", "[]", []string{`null error -32600`}},
		{"empty, with blanks", " [ ] ", []string{`null error -32600`}},
		{"invalid members", `[1,[],null,{},` + message("1.5", "now", "") + `,` + message("1", "now", "") + `]`,
			[]string{`[null error -32600, null error -32600, null error -32600, null error -32600, null error -32600, 1 "now"]`}},
		{"no JSON", "[" + message("1", "now", "") + ",]", []string{`null error -32700`}},
		{"the largest", many(maxBatch), []string{`[1 "now"]`}},
		{"too large", many(maxBatch + 1), []string{`null error -32600`}},
	} {
		bubble(t, c.name, func(t *testing.T) {
			p := connect(t, batches)
			p.say(c.line)
			p.ends(c.want...)
		})
	}
	bubble(t, "never allowed by default", func(t *testing.T) {
		p := connect(t)
		p.say("["+message("1", "now", "")+"]", message("2", "now", ""))
		p.ends(`null error -32600`, `2 "now"`)
	})
	bubble(t, "not allowed now", func(t *testing.T) {
		begun := false // used by the reader alone
		p := connect(t, func(c *Conn) {
			c.Batches = func() bool { return begun }
			handle := c.handle
			c.handle = func(ctx context.Context, req *Request) (any, error) {
				begun = true
				return handle(ctx, req)
			}
		})
		p.say("["+message("1", "now", "")+"]", message("2", "now", ""), "["+message("3", "now", "")+"]")
		p.ends(`null error -32600`, `2 "now"`, `[3 "now"]`)
	})
	bubble(t, "others are served meanwhile", func(t *testing.T) {
		p := connect(t, batches)
		p.say("["+message("1", "wait", "[50]")+"]", message("2", "now", ""))
		p.hears(`2 "now"`)
		p.ends(`[1 "waited"]`)
	})
}

func TestEndOfInput(t *testing.T) {
	bubble(t, "the calls in flight are answered", func(t *testing.T) {
		p := connect(t)
		p.say(message("1", "wait", "[5000]"), message("2", "wait", "[4000]"))
		select {
		case <-p.conn.Ended():
			t.Error("ended too early")
		default:
		}
		_ = p.in.Close()
		synctest.Wait()
		select {
		case <-p.conn.Ended():
		default:
			t.Error("not ended")
		}
		select {
		case err := <-p.done:
			t.Errorf("Serve returned %v with calls in flight", err)
		default:
		}
		p.ends(`2 "waited"`, `1 "waited"`)
	})
	bubble(t, "an error of the reader is an end, too", func(t *testing.T) {
		p := connect(t)
		p.say(message("1", "wait", "[50]"))
		_ = p.in.CloseWithError(errors.New("broken"))
		p.ends(`1 "waited"`)
	})
	bubble(t, "cancelled by the caller", func(t *testing.T) {
		p := connect(t)
		p.say(message("1", "wait", "[5000]"))
		p.stop()
		if err := <-p.done; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
		p.sees("1", "stopped 1")
	})
}

// A brokenWriter takes some lines and fails from then on.
type brokenWriter struct {
	takes  int
	writes int
}

var errBroken = errors.New("broken pipe")

func (w *brokenWriter) Write(line []byte) (int, error) {
	w.writes++
	if w.writes > w.takes {
		return 0, errBroken
	}
	return len(line), nil
}

func TestBrokenWriter(t *testing.T) {
	bubble(t, "everything is cancelled", func(t *testing.T) {
		w := &brokenWriter{takes: 1}
		p := start(t, nil, w)
		p.say(message("1", "wait", "[5000]"), message("2", "now", ""), message("3", "now", ""))
		if err := <-p.done; !errors.Is(err, errBroken) {
			t.Errorf("Serve: %v", err)
		}
		p.sees("1", "2", "3", "stopped 1")
		if w.writes != 2 {
			t.Errorf("%d writes, want none after the failure", w.writes)
		}
		_ = p.in.Close()
	})
	bubble(t, "at the last answer", func(t *testing.T) {
		p := start(t, strings.NewReader(message("1", "now", "")), &brokenWriter{})
		if err := <-p.done; !errors.Is(err, errBroken) {
			t.Errorf("Serve: %v", err)
		}
	})
	bubble(t, "with many answers on their way nobody blocks", func(t *testing.T) {
		var in strings.Builder
		for id := range 10 * outbox {
			in.WriteString(message(fmt.Sprint(id), []string{"now", "echo", "announce"}[id%3], "") + "\n")
		}
		p := start(t, strings.NewReader(in.String()), &brokenWriter{takes: 3})
		if err := <-p.done; !errors.Is(err, errBroken) {
			t.Errorf("Serve: %v", err)
		}
	})
}

// A stuckPipe never lets go of a Read or a Write.
type stuckPipe struct{ never chan struct{} }

func (s stuckPipe) Read([]byte) (int, error)  { <-s.never; return 0, io.EOF }
func (s stuckPipe) Write([]byte) (int, error) { <-s.never; return 0, io.EOF }

func TestStuck(t *testing.T) {
	bubble(t, "Read", func(t *testing.T) {
		stuck := stuckPipe{make(chan struct{})}
		defer close(stuck.never) // the bubble waits for all goroutines
		p := start(t, stuck, io.Discard)
		synctest.Wait()
		p.stop()
		if err := <-p.done; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
	})
	bubble(t, "Write", func(t *testing.T) {
		stuck := stuckPipe{make(chan struct{})}
		defer close(stuck.never)
		p := start(t, nil, stuck)
		p.say(message("1", "now", ""), message("2", "wait", "[5000]"))
		_ = p.in.Close()
		time.Sleep(time.Hour)
		select {
		case err := <-p.done:
			t.Errorf("Serve returned %v, but an answer is not written", err)
		default:
		}
		p.stop()
		if err := <-p.done; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
	})
	bubble(t, "Read and Write, with answers in the queue", func(t *testing.T) {
		stuck := stuckPipe{make(chan struct{})}
		defer close(stuck.never)
		var in strings.Builder
		for id := range 3 * outbox {
			in.WriteString(message(fmt.Sprint(id), []string{"now", "echo"}[id%2], "") + "\n")
		}
		p := start(t, io.MultiReader(strings.NewReader(in.String()), stuck), stuck)
		synctest.Wait()
		p.stop()
		if err := <-p.done; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
	})
}

// endless is a peer's flood of one kind of request, each with an id of its own.
type endless struct {
	method string
	batch  bool
	n      int
	rest   []byte
}

func (e *endless) Read(b []byte) (int, error) {
	if len(e.rest) == 0 {
		e.n++
		line := message(fmt.Sprint(e.n), e.method, "")
		if e.batch {
			line = "[" + line + "]"
		}
		e.rest = []byte(line + "\n")
	}
	n := copy(b, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// A peer that asks without end and reads nothing is not read on: what the
// server holds for it stays bounded, also in answers that come later.
func TestNoReader(t *testing.T) {
	for _, flood := range []*endless{
		{method: "now"}, {method: "echo"}, {method: "announce"}, {method: "fail"}, {method: "echo", batch: true},
	} {
		bubble(t, fmt.Sprintf("%s, batch %t", flood.method, flood.batch), func(t *testing.T) {
			stuck := stuckPipe{make(chan struct{})}
			defer close(stuck.never)
			flood := &limitedFlood{endless: flood, most: 100 * outbox}
			p := start(t, flood, stuck, batches)
			synctest.Wait()
			p.mu.Lock()
			begun := len(p.begun)
			p.mu.Unlock()
			if begun > 4*outbox {
				t.Errorf("%d requests have begun, and nobody reads the answers", begun)
			}
			p.stop()
			<-p.done
		})
	}
}

// A limitedFlood ends when it has shown enough, so that a server without a
// bound fails and does not hang.
type limitedFlood struct {
	*endless
	most int
}

func (l *limitedFlood) Read(b []byte) (int, error) {
	if l.n >= l.most {
		return 0, io.EOF
	}
	return l.endless.Read(b)
}

// wholeLines fails the test at a write that is not one line.
type wholeLines struct {
	t *testing.T
	*io.PipeWriter
}

func (w wholeLines) Write(line []byte) (int, error) {
	if bytes.IndexByte(line, '\n') != len(line)-1 || len(line) < 2 {
		w.t.Errorf("written at once: %q", line)
	}
	return w.PipeWriter.Write(line)
}

// A slow reader gets every answer all the same, each in one write.
func TestSlowReader(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r, w := io.Pipe()
		p := start(t, &limitedFlood{endless: &endless{method: "echo"}, most: 5 * outbox}, wholeLines{t, w})
		scanner, seen := bufio.NewScanner(r), map[string]bool{}
		for scanner.Scan() {
			seen[scanner.Text()] = true
			time.Sleep(time.Second)
		}
		if len(seen) != 5*outbox {
			t.Errorf("%d answers, want %d", len(seen), 5*outbox)
		}
		if err := <-p.done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}
