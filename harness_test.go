package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/twin"
)

// These tests drive the real binary as its users do: over stdio, as a command,
// and with the embedded fake of Herdr behind HERDR_BIN_PATH.

// patience is how long a test waits for something that must come. It is no
// measure of speed: a loaded machine may take its time.
const patience = 20 * time.Second

// binaries are built once for all tests of this package.
var binaries struct {
	server string // what is tested; with the race detector, if this test has it
	plain  string // never with it: plays herdr, which starts often, and reads what is very long
}

func TestMain(m *testing.M) {
	if server := os.Getenv(parentOf); server != "" {
		os.Exit(beParent(server, os.Args[1:]))
	}
	if filepath.Base(os.Args[0]) == "opencode" {
		os.Exit(beOpenCode(filepath.Dir(os.Args[0])))
	}
	sideBySide()
	dir, err := os.MkdirTemp("", "herdr-link-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := func() int {
		defer os.RemoveAll(dir)
		binaries.plain = filepath.Join(dir, "plain", exe("herdr-link"))
		binaries.server = binaries.plain
		if err := build(binaries.plain, false); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if twin.RaceDetector {
			binaries.server = filepath.Join(dir, "race", exe("herdr-link"))
			if err := build(binaries.server, true); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		return m.Run()
	}()
	os.Exit(code)
}

// sideBySide lets more tests run at a time than there are processors, unless
// the command line says how many: most of them wait for processes.
func sideBySide() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0)))
	}
}

// parentOf is the environment variable with which this test binary is a process
// that starts the server named there and does nothing else.
const parentOf = "HERDR_LINK_TEST_PARENT_OF"

// beParent starts the server on this process's own stdin, stdout and stderr,
// and waits for it.
func beParent(server string, args []string) int {
	cmd := exec.Command(server, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	_ = cmd.Run()
	return max(cmd.ProcessState.ExitCode(), 0)
}

func exe(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

func build(path string, race bool) error {
	args, cgo := []string{"build", "-trimpath", "-ldflags", "-s -w -buildid=", "-o", path}, "CGO_ENABLED=0"
	if race {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// newScene makes the standard scene; see fakeherdr.Create.
func newScene(t testing.TB) *fakeherdr.Scene {
	t.Helper()
	s, err := fakeherdr.Create(filepath.Join(t.TempDir(), "scene"), binaries.plain)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// change changes the scene's world.
func change(t testing.TB, s *fakeherdr.Scene, f func(*fakeherdr.World)) {
	t.Helper()
	if err := s.Update(func(w *fakeherdr.World) error { f(w); return nil }); err != nil {
		t.Fatal(err)
	}
}

// fault adds one fault to the scene, for calls whose argv begins with match.
func fault(t testing.TB, s *fakeherdr.Scene, kind string, match ...string) {
	t.Helper()
	change(t, s, func(w *fakeherdr.World) {
		w.Faults = append(w.Faults, fakeherdr.Fault{Match: match, Kind: kind})
	})
}

// commands returns the argv of the Herdr calls so far whose argv begins with match.
func commands(t testing.TB, s *fakeherdr.Scene, match ...string) (found [][]string) {
	t.Helper()
	calls, err := s.Calls()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		if len(c.Args) >= len(match) && slices.Equal(c.Args[:len(match)], match) {
			found = append(found, c.Args)
		}
	}
	return found
}

// awaitCalls waits until n Herdr calls whose argv begins with match have begun.
func awaitCalls(t testing.TB, s *fakeherdr.Scene, n int, match ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d calls of %q", n, match), func() bool { return len(commands(t, s, match...)) >= n })
}

// environment is that of a process in the pane, with a home of its own and a
// mark by which processes can be found.
type environment struct {
	vars []string
	mark string
}

var marks struct {
	sync.Mutex
	n int
}

func inPane(t testing.TB, s *fakeherdr.Scene, pane string, more ...string) environment {
	marks.Lock()
	marks.n++
	mark := fmt.Sprintf("HERDR_LINK_TEST_MARK=%d.%d", os.Getpid(), marks.n)
	marks.Unlock()
	vars := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HERDR_") })
	vars = append(vars, "HOME="+t.TempDir(), mark, "GORACE=atexit_sleep_ms=0")
	if s != nil {
		vars = append(vars, s.Env(pane)...)
	}
	return environment{append(vars, more...), mark}
}

// alive returns the ids of the processes that have the mark in their
// environment (Linux only: elsewhere it finds none).
func (e environment) alive() (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range dirs {
		env, err := os.ReadFile(path) // empty for a zombie
		if err == nil && bytes.Contains(env, []byte(e.mark+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// living returns those of the processes that still run.
func (e environment) living(pids []int) (still []int) {
	for _, pid := range pids {
		env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ") // empty for a zombie
		if err == nil && bytes.Contains(env, []byte(e.mark+"\x00")) {
			still = append(still, pid)
		}
	}
	return still
}

// childless waits until the server has no child and no other descendant.
func (h *host) childless() {
	h.t.Helper()
	var left []int
	eventually(h.t, "the end of all children", func() bool {
		left = slices.DeleteFunc(h.env.alive(), func(pid int) bool { return pid == h.cmd.Process.Pid })
		return len(left) == 0
	})
}

// eventually waits until ok is true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// A host is an MCP host with one server.
type host struct {
	t      testing.TB
	cmd    *exec.Cmd
	env    environment
	stdin  io.WriteCloser
	stdout *os.File // the end that the host reads
	lines  chan string
	stderr *bytes.Buffer
	exited chan struct{}
	next   int
	got    []message // read and not asked for yet

	patience time.Duration // with its messages
}

// A message is one line of the server's.
type message struct {
	ID     json.RawMessage
	Method string
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
	line string
}

// A result is that of tools/call.
type result struct {
	Content           []struct{ Type, Text string }
	StructuredContent json.RawMessage
	IsError           bool
}

func (r result) text() string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// start starts a server. It is killed at the end of the test if it still runs.
func start(t testing.TB, env environment, args ...string) *host {
	t.Helper()
	return startProgram(t, env, binaries.server, args...)
}

// startProgram starts something that is or has a server on its stdin and stdout.
func startProgram(t testing.TB, env environment, program string, args ...string) *host {
	t.Helper()
	h := &host{t: t, env: env, lines: make(chan string, 4096), stderr: new(bytes.Buffer), exited: make(chan struct{}), patience: patience}
	h.cmd = exec.Command(program, args...)
	h.cmd.Env = env.vars
	h.cmd.Stderr = h.stderr
	in, err := h.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.stdin = in
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	h.stdout, h.cmd.Stdout = r, w
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() {
		defer close(h.lines)
		reader := bufio.NewReader(r)
		for {
			line, err := reader.ReadString('\n')
			if line != "" {
				h.lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		_ = h.cmd.Wait()
		close(h.exited)
	}()
	t.Cleanup(func() {
		_ = h.cmd.Process.Kill()
		in.Close()
		<-h.exited
		r.Close()
	})
	return h
}

// write sends lines as they are, each with a newline.
func (h *host) write(lines ...string) {
	h.t.Helper()
	if _, err := io.WriteString(h.stdin, strings.Join(lines, "\n")+"\n"); err != nil {
		h.t.Errorf("write to the server: %v", err)
	}
}

// read returns the server's next message, whatever it is.
func (h *host) read() message {
	h.t.Helper()
	select {
	case line, ok := <-h.lines:
		if !ok {
			h.t.Fatalf("the server has ended its output; stderr: %s", h.stderr)
		}
		m := message{line: strings.TrimSuffix(line, "\n")}
		if !strings.HasSuffix(line, "\n") {
			h.t.Fatalf("no whole line: %q", line)
		}
		if m.line[0] != '[' {
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				h.t.Fatalf("%v: %q", err, line)
			}
		}
		return m
	case <-time.After(h.patience):
		h.t.Fatal("no message from the server")
	}
	panic("unreachable")
}

// answer returns the answer to that id; other messages are kept.
func (h *host) answer(id string) message {
	h.t.Helper()
	for i, m := range h.got {
		if string(m.ID) == id && m.Method == "" {
			h.got = slices.Delete(h.got, i, i+1)
			return m
		}
	}
	for {
		m := h.read()
		if string(m.ID) == id && m.Method == "" {
			return m
		}
		h.got = append(h.got, m)
	}
}

// request sends a request and returns its id. params may be "".
func (h *host) request(method, params string) (id string) {
	h.t.Helper()
	h.next++
	id = strconv.Itoa(h.next)
	if params != "" {
		params = `,"params":` + params
	}
	h.write(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `"` + params + `}`)
	return id
}

// initialize does the handshake and returns the server's result.
func (h *host) initialize(version string) json.RawMessage {
	h.t.Helper()
	m := h.answer(h.request("initialize", `{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"test","version":"0"}}`))
	h.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if m.Error != nil {
		h.t.Fatalf("initialize: %s", m.line)
	}
	return m.Result
}

// list returns the names that tools/list has.
func (h *host) list() (names []string) {
	h.t.Helper()
	var l struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(h.answer(h.request("tools/list", "")).Result, &l); err != nil {
		h.t.Fatal(err)
	}
	for _, tool := range l.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// begin sends a tools/call and returns its id. args may be "".
func (h *host) begin(tool, args string) (id string) {
	h.t.Helper()
	if args != "" {
		args = `,"arguments":` + args
	}
	return h.request("tools/call", `{"name":"`+tool+`"`+args+`}`)
}

// call calls a tool and returns its result.
func (h *host) call(tool, args string) result {
	h.t.Helper()
	return h.result(h.begin(tool, args))
}

// result returns the result of the call with that id.
func (h *host) result(id string) (r result) {
	h.t.Helper()
	m := h.answer(id)
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil {
		h.t.Fatalf("no result of a tool: %s", m.line)
	}
	return r
}

// wait waits until the server has exited and returns its exit code, -1 if it
// was killed.
func (h *host) wait() int {
	h.t.Helper()
	select {
	case <-h.exited:
	case <-time.After(patience):
		h.t.Fatal("the server does not exit")
	}
	return h.cmd.ProcessState.ExitCode()
}

// run runs the binary as a command and returns what it printed.
func run(t testing.TB, env environment, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(binaries.server, args...)
	cmd.Env = env.vars
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
