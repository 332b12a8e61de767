package herdrcli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

// In these tests the test binary itself is every other process: the herdr of a
// scene, and what roleVariable names.
const (
	roleVariable = "HERDRCLI_TEST_ROLE"
	fileVariable = "HERDRCLI_TEST_FILE" // what the role works on
	outVariable  = "HERDRCLI_TEST_OUT"
	errVariable  = "HERDRCLI_TEST_ERR"
	exitVariable = "HERDRCLI_TEST_EXIT"
)

func TestMain(m *testing.M) {
	if dir, ok := fakeherdr.Role(os.Args[0]); ok {
		os.Exit(fakeherdr.Main(dir, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
	}
	file := os.Getenv(fileVariable)
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "print": // a herdr that prints what it is told to
		fmt.Print(os.Getenv(outVariable))
		fmt.Fprint(os.Stderr, os.Getenv(errVariable))
		exit, _ := strconv.Atoi(os.Getenv(exitVariable))
		os.Exit(exit)
	case "report": // a herdr whose agent's name is a report about itself
		report()
	case "parent": // a herdr that never ends, nor does its child
		leaveChild(file)
		sleepWhile(file)
	case "sleep":
		sleepWhile(file)
	case "pour": // a herdr that prints a file
		text, _ := os.ReadFile(file)
		to := os.Stdout
		if os.Getenv(outVariable) == "stderr" {
			to = os.Stderr
		}
		_, _ = to.Write(text)
		sleepWhile(file)
	case "copy": // one that prints a file and ends
		text, _ := os.ReadFile(file)
		to := os.Stdout
		if os.Getenv(outVariable) == "stderr" {
			to = os.Stderr
		}
		_, _ = to.Write(text)
		os.Exit(0)
	case "where": // one that prints where it runs
		dir, _ := os.Getwd()
		fmt.Print(dir)
		os.Exit(0)
	case "third": // one that prints what it reads from descriptor 3
		_, _ = io.Copy(os.Stdout, os.NewFile(3, "third"))
		os.Exit(0)
	case "stat": // one that prints what the system says of it
		text, _ := os.ReadFile("/proc/self/stat")
		_, _ = os.Stdout.Write(text)
		os.Exit(0)
	case "polite": // a herdr that ends when it is asked to, and says so
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		fmt.Print("ready")
		go sleepWhile(file)
		<-asked
		fmt.Print(" asked")
		os.Exit(3)
	case "stubborn": // a herdr that does not
		signal.Ignore(syscall.SIGTERM)
		fmt.Print("ready")
		sleepWhile(file)
	case "hold": // a process that holds the lock while its stdin is open
		hold(file)
	case "count":
		count(file)
	}
	os.Exit(3)
}

type reported struct {
	Environ   []string
	StdinNull bool
}

func report() {
	r := reported{Environ: os.Environ()}
	stdin, err := os.Stdin.Stat()
	if null, err2 := os.Stat(os.DevNull); err == nil && err2 == nil {
		r.StdinNull = os.SameFile(stdin, null)
	}
	if n, err := os.Stdin.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		r.StdinNull = false
	}
	name, _ := json.Marshal(r)
	line, _ := json.Marshal(map[string]any{"id": "cli:agent:get", "result": map[string]any{
		"type": "agent_info", "agent": Agent{Name: string(name), PaneID: "w1:p1"},
	}})
	fmt.Println(string(line))
	os.Exit(0)
}

// leaveChild starts a child on the same pipes and writes both pids to file.
func leaveChild(file string) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), roleVariable+"=sleep")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		os.Exit(4)
	}
	pids := fmt.Sprintf("%d %d\n", os.Getpid(), child.Process.Pid)
	if os.WriteFile(file+".new", []byte(pids), 0o600) != nil || os.Rename(file+".new", file) != nil {
		os.Exit(5)
	}
}

// sleepWhile never returns; the process ends when the file's folder is gone, so
// that a failed test leaves nothing behind.
func sleepWhile(file string) {
	for {
		if _, err := os.Stat(filepath.Dir(file)); err != nil {
			os.Exit(1)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// patience is how long a test waits for what must come. It is no measure of
// speed: a loaded machine may take its time.
const patience = 20 * time.Second

func waitFor(t *testing.T, what string, seen func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !seen(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// quick is the environment of children, in which the race detector does not
// pause at their end.
func quick(vars ...string) []string {
	return append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), vars...)
}

func executableFile(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// role returns a client whose herdr is this binary in that role.
func role(t testing.TB, name string, vars ...string) *Client {
	t.Helper()
	return New(Options{Bin: executableFile(t), Environ: quick(append(vars, roleVariable+"="+name)...)})
}

// newScene returns a scene with these faults, and a client in its pane w1:p1.
func newScene(t testing.TB, o Options, faults ...fakeherdr.Fault) (*fakeherdr.Scene, *Client) {
	t.Helper()
	s, err := fakeherdr.Create(filepath.Join(t.TempDir(), "scene"), executableFile(t))
	if err != nil {
		t.Fatal(err)
	}
	update(t, s, func(w *fakeherdr.World) { w.EnterDelay, w.Faults = 0, faults })
	o.Bin = s.Bin()
	o.Environ = append(quick(s.Env("w1:p1")...), o.Environ...)
	return s, New(o)
}

func update(t testing.TB, s *fakeherdr.Scene, f func(*fakeherdr.World)) {
	t.Helper()
	if err := s.Update(func(w *fakeherdr.World) error { f(w); return nil }); err != nil {
		t.Fatal(err)
	}
}

func calls(t testing.TB, s *fakeherdr.Scene) []fakeherdr.Call {
	t.Helper()
	list, err := s.Calls()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// argvs is the journal as text: a line a call.
func argvs(t testing.TB, s *fakeherdr.Scene) string {
	t.Helper()
	var b strings.Builder
	for _, c := range calls(t, s) {
		fmt.Fprintf(&b, "%q\n", c.Args)
	}
	return b.String()
}

// submitted is what a pane has received.
func submitted(t testing.TB, s *fakeherdr.Scene, pane string) (texts []string) {
	t.Helper()
	list, err := s.Submissions(pane)
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range list {
		texts = append(texts, sub.Text)
	}
	return texts
}

// readLine reads the word of another process.
func readLine(t testing.TB, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("the other process said %q: %v", line, err)
	}
	return strings.TrimSpace(line)
}
