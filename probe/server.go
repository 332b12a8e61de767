package probe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A server is a server process, seen by its host.
type server struct {
	t      *trial
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File // the end that the host reads
	stderr *head
	lines  chan string
	stop   chan struct{} // closed when nobody reads lines any more
	exited chan struct{}

	next int
	log  []*message // all that came, in order
}

// A message is one line of the server's.
type message struct {
	JSONRPC string
	ID      json.RawMessage
	Method  string
	Params  json.RawMessage
	Result  json.RawMessage
	Error   *struct {
		Code    int
		Message string
	}
	line  string
	taken bool // it was an answer, and was asked for
}

// A result is that of tools/call.
type result struct {
	Content           []struct{ Type, Text string }
	StructuredContent json.RawMessage
	IsError           bool
}

// text is the first text block.
func (r result) text() string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// start starts a server with that environment, args behind its command line.
func (t *trial) start(env []string, args ...string) *server {
	argv := append(slices.Clone(t.o.Command), args...)
	s := &server{
		t: t, cmd: exec.Command(argv[0], argv[1:]...), stderr: &head{max: 4 << 10},
		lines: make(chan string), stop: make(chan struct{}), exited: make(chan struct{}),
	}
	s.cmd.Env, s.cmd.Stderr, s.cmd.WaitDelay = env, s.stderr, time.Second
	ownGroup(s.cmd)
	r, w, err := os.Pipe()
	if err != nil {
		t.fail("a pipe", "%v", err)
	}
	s.stdout, s.cmd.Stdout = r, w
	s.stdin, err = s.cmd.StdinPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	w.Close()
	if err != nil {
		r.Close()
		t.fail("a server that starts", "%v", err)
	}
	t.servers = append(t.servers, s)
	go s.read(r)
	go func() {
		_ = s.cmd.Wait()
		close(s.exited)
	}()
	return s
}

// read passes on whole lines. It keeps at most one, so that a server which
// never stops writing costs nothing.
func (s *server) read(r io.Reader) {
	defer close(s.lines)
	const most = 16 << 20
	in := bufio.NewReader(r)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if err == bufio.ErrBufferFull && len(line) < most {
			continue
		}
		if len(line) > 0 {
			select {
			case s.lines <- string(line):
			case <-s.stop:
				return
			}
		}
		if err != nil {
			return
		}
		line = line[:0]
	}
}

// kill ends the server and all that it started in its group.
func (s *server) kill() {
	close(s.stop)
	_ = killGroup(s.cmd)
	s.stdin.Close()
	s.stdout.Close()
	select {
	case <-s.exited:
	case <-time.After(2 * time.Second):
	}
}

// write sends lines as they are, each with a newline. That a server no longer
// reads shows when its answer does not come.
func (s *server) write(lines ...string) { s.writeRaw(strings.Join(lines, "\n") + "\n") }

func (s *server) writeRaw(text string) {
	done := make(chan struct{})
	go func() {
		_, _ = io.WriteString(s.stdin, text)
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(s.t.o.Patience):
		s.t.fail("a server that reads its stdin", "a full pipe for %v", s.t.o.Patience)
	case <-s.t.ctx.Done():
		s.t.fail("a server that reads its stdin", "%v", context.Cause(s.t.ctx))
	}
}

// receive returns the next message, or fails with what was waited for.
func (s *server) receive(expected string) *message {
	timer := time.NewTimer(s.t.o.Patience)
	defer timer.Stop()
	select {
	case line, ok := <-s.lines:
		if !ok {
			select { // it may be about to exit
			case <-s.exited:
			case <-time.After(100 * time.Millisecond):
			}
			s.t.fail(expected, "the end of the server's output%s", s.how())
		}
		m := &message{line: strings.TrimSuffix(line, "\n")}
		if m.line == line || !isJSON(line) || line[0] != '[' && (json.Unmarshal([]byte(line), m) != nil || m.JSONRPC != "2.0") {
			s.t.fail("nothing but lines of JSON-RPC on stdout", "%s", line)
		}
		s.log = append(s.log, m)
		return m
	case <-timer.C:
		s.t.fail(expected, "no answer in %v%s", s.t.o.Patience, s.how())
	case <-s.t.ctx.Done():
		s.t.fail(expected, "%v", context.Cause(s.t.ctx))
	}
	panic("unreachable")
}

// how says what else is known about a server that does not answer.
func (s *server) how() string {
	text := ""
	select {
	case <-s.exited:
		text = ", exit " + strconv.Itoa(s.cmd.ProcessState.ExitCode())
	default:
	}
	if said := strings.TrimSpace(s.stderr.String()); said != "" {
		text += "; stderr: " + said
	}
	return text
}

// answer returns the answer to that id, which is a number, "null" or the like.
func (s *server) answer(id string) *message {
	for _, m := range s.log {
		if m.answers(id) {
			m.taken = true
			return m
		}
	}
	for {
		if m := s.receive("an answer to request " + id); m.answers(id) {
			m.taken = true
			return m
		}
	}
}

func (m *message) answers(id string) bool {
	return !m.taken && m.Method == "" && string(m.ID) == id
}

// silent fails if an answer to id came or comes until the server answers a ping
// that is sent now.
func (s *server) silent(id string) {
	s.ping()
	for _, m := range s.log {
		if m.answers(id) {
			s.t.fail("no answer to "+id, "%s", m.line)
		}
	}
}

// request sends a request and returns its id. params may be "".
func (s *server) request(method, params string) (id string) {
	s.next++
	id = strconv.Itoa(s.next)
	s.write(request(id, method, params))
	return id
}

func request(id, method, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `"` + params + `}`
}

func toolCall(tool, args string) string { return `{"name":"` + tool + `","arguments":` + args + `}` }

func initializeParams(version string) string {
	return `{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"herdr-link-probe","version":"1"}}`
}

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// An identity is the result of initialize.
type identity struct {
	ProtocolVersion string
	Capabilities    struct{ Tools *struct{ ListChanged bool } }
	ServerInfo      struct{ Name, Version string }
	Instructions    string
	raw             string
}

// initialize does the handshake.
func (s *server) initialize(version string) (i identity) {
	m := s.answer(s.request("initialize", initializeParams(version)))
	s.t.must(m.Error == nil, "a result of initialize", m.line)
	s.t.decode("the result of initialize", m.Result, &i)
	s.write(initialized)
	i.raw = string(m.Result)
	return i
}

// ping makes a round trip: what the server had to say before, it has said.
func (s *server) ping() {
	m := s.answer(s.request("ping", ""))
	s.t.must(m.Error == nil && compact(m.Result) == "{}", "{} as the result of ping", m.line)
}

// A tool is an entry of tools/list.
type tool struct {
	Name, Title, Description  string
	InputSchema, OutputSchema *struct {
		Type       string
		Properties map[string]json.RawMessage
		Required   []string
	}
	Annotations *struct {
		Title                                                        string
		ReadOnlyHint, DestructiveHint, IdempotentHint, OpenWorldHint *bool
	}
	Meta map[string]json.RawMessage `json:"_meta"`
}

// list returns the tools, by name.
func (s *server) list() map[string]tool { return s.listed(s.request("tools/list", "")) }

func (s *server) listed(id string) map[string]tool {
	m := s.answer(id)
	s.t.must(m.Error == nil, "a result of tools/list", m.line)
	var l struct{ Tools *[]tool }
	s.t.decode("the result of tools/list", m.Result, &l)
	s.t.must(l.Tools != nil, "an array of tools", m.line)
	tools := map[string]tool{}
	for _, tool := range *l.Tools {
		_, twice := tools[tool.Name]
		s.t.must(!twice, "each tool once in tools/list", tool.Name)
		tools[tool.Name] = tool
	}
	return tools
}

// names returns the names of the listed tools, sorted.
func (s *server) names() []string { return names(s.list()) }

func names(tools map[string]tool) []string {
	list := []string{}
	for name := range tools {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// begin sends a tools/call and returns its id.
func (s *server) begin(tool, args string) (id string) {
	return s.request("tools/call", toolCall(tool, args))
}

// result returns the result of the call with that id.
func (s *server) result(id string) (r result) {
	m := s.answer(id)
	s.t.must(m.Error == nil && m.Result != nil, "a result of tools/call", m.line)
	s.t.decode("the result of tools/call", m.Result, &r)
	s.t.must(len(r.Content) > 0 && r.Content[0].Type == "text", "text as the first content of a result", m.line)
	return r
}

func (s *server) call(tool, args string) result { return s.result(s.begin(tool, args)) }

// success calls a tool and returns its result as JSON.
func (s *server) success(tool, args string) map[string]any {
	return s.succeeded(tool, s.begin(tool, args))
}

func (s *server) succeeded(what, id string) map[string]any {
	r := s.result(id)
	s.t.must(!r.IsError, "a success of "+what, r.text())
	var object map[string]any
	s.t.decode("the result of "+what, []byte(r.text()), &object)
	return object
}

// refuse calls a tool, which must fail with that code, and returns the text.
func (s *server) refuse(code, tool, args string) string {
	return s.refused(code, tool, s.begin(tool, args))
}

func (s *server) refused(code, what, id string) string {
	r := s.result(id)
	s.t.must(r.IsError, what+" to fail with "+code, "success: "+r.text())
	s.t.must(strings.HasPrefix(r.text(), code+": ") && len(r.text()) > len(code)+2, what+" to fail with "+code+" and a reason", r.text())
	return r.text()
}

// rejected fails unless the answer to id is that JSON-RPC error.
func (s *server) rejected(id string, code int) {
	m := s.answer(id)
	s.t.must(m.Error != nil && m.Error.Code == code, fmt.Sprintf("the error %d", code), m.line)
}

// activate activates the server as a host does that lists the tools at once.
func (s *server) activate() map[string]any {
	call := s.begin("herdr_link", "{}")
	list := s.request("tools/list", "")
	object := s.succeeded("herdr_link {}", call)
	s.listed(list)
	return object
}

// changes counts the list_changed notifications so far.
func (s *server) changes() (n int) {
	for _, m := range s.log {
		if m.Method == "notifications/tools/list_changed" {
			n++
		}
	}
	return n
}

// before counts the list_changed notifications that came before the answer to id.
func (s *server) before(id string) (n int) {
	for _, m := range s.log {
		if m.Method == "" && string(m.ID) == id {
			break
		}
		if m.Method == "notifications/tools/list_changed" {
			n++
		}
	}
	return n
}

// wait waits for the server's end and returns its exit status, -1 if it was
// killed by a signal. Its output has to end, too.
func (s *server) wait(limit time.Duration) int {
	timer := time.After(limit)
	for lines := s.lines; lines != nil; {
		select {
		case line, ok := <-lines:
			if !ok {
				lines = nil
				break
			}
			m := &message{line: line}
			s.t.must(json.Unmarshal([]byte(line), m) == nil, "nothing but lines of JSON-RPC on stdout", line)
			s.log = append(s.log, m)
		case <-timer:
			s.t.fail("the end of the server's output", "none in %v", limit)
		case <-s.t.ctx.Done():
			s.t.fail("the end of the server's output", "%v", context.Cause(s.t.ctx))
		}
	}
	select {
	case <-s.exited:
	case <-timer:
		s.t.fail("the end of the server", "a process that runs after %v", limit)
	}
	return s.cmd.ProcessState.ExitCode()
}

// A head keeps the first max bytes that are written to it.
type head struct {
	mu  sync.Mutex
	buf bytes.Buffer
	max int
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf.Write(p[:min(len(p), h.max-h.buf.Len())])
	return len(p), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.String()
}
