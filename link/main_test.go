package link

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"herdr-link/envelope"
	"herdr-link/fakeherdr"
	"herdr-link/herdrcli"
)

var updateGolden = flag.Bool("update", false, "write the golden files in testdata anew")

// homeVariable makes this binary a process that bootstraps in its environment.
const homeVariable = "LINK_TEST_HOME"

func TestMain(m *testing.M) {
	if dir, ok := fakeherdr.Role(os.Args[0]); ok {
		os.Exit(fakeherdr.Main(dir, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
	}
	if home := os.Getenv(homeVariable); home != "" {
		l := New(Options{Getenv: os.Getenv, Locks: herdrcli.NewLocks(home),
			Herdr: herdrcli.New(herdrcli.Options{Bin: os.Getenv("HERDR_BIN_PATH"), Environ: os.Environ(), Timeout: time.Minute})})
		self, err := l.Bootstrap(context.Background())
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(self.Name)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what must come. It is no measure of
// speed: a loaded machine may take its time.
const patience = 20 * time.Second

// waitFor looks until it sees what it looks for.
func waitFor(what string, seen func() bool) error {
	for end := time.Now().Add(patience); !seen(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("waited in vain for " + what)
		}
	}
	return nil
}

// A stage is a scene, and what the processes in its panes share.
type stage struct {
	t     testing.TB
	scene *fakeherdr.Scene
	home  string
	log   logbook
}

type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logbook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logbook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newStage(t testing.TB, faults ...fakeherdr.Fault) *stage {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	scene, err := fakeherdr.Create(filepath.Join(t.TempDir(), "scene"), exe)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, scene: scene, home: t.TempDir()}
	s.update(func(w *fakeherdr.World) { w.Faults = faults })
	return s
}

// fault1 is a fault of one command: "agent get lead".
func fault1(kind, command string) fakeherdr.Fault {
	return fakeherdr.Fault{Kind: kind, Match: strings.Fields(command)}
}

func refusal(code, command string) fakeherdr.Fault {
	return fakeherdr.Fault{Kind: fakeherdr.ErrorCode, Code: code, Match: strings.Fields(command), Text: "w1:p2 of term_1 in /home"}
}

func (s *stage) update(f func(*fakeherdr.World)) {
	s.t.Helper()
	if err := s.scene.Update(func(w *fakeherdr.World) error { f(w); return nil }); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) world() *fakeherdr.World {
	s.t.Helper()
	w, err := s.scene.World()
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

func (s *stage) environ(pane string, vars ...string) []string {
	environ := append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), s.scene.Env(pane)...)
	return append(environ, vars...)
}

// in returns the core of a process in that pane; later variables win.
func (s *stage) in(pane string, vars ...string) *Link { return s.with(Options{}, pane, vars...) }

// timeoutVariable is the time of a call to Herdr, in tests that wait for it.
const timeoutVariable = "LINK_TEST_TIMEOUT"

func (s *stage) with(o Options, pane string, vars ...string) *Link {
	environ := s.environ(pane, vars...)
	o.Getenv = func(name string) string {
		for _, v := range slices.Backward(environ) {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
	timeout, err := time.ParseDuration(o.Getenv(timeoutVariable))
	if err != nil {
		timeout = time.Minute
	}
	o.Log = slog.New(slog.NewJSONHandler(&s.log, nil))
	o.Herdr = herdrcli.New(herdrcli.Options{Bin: o.Getenv("HERDR_BIN_PATH"), Environ: environ, Timeout: timeout, Log: o.Log})
	if o.Locks == nil {
		o.Locks = herdrcli.NewLocks(s.home)
	}
	return New(o)
}

// lock takes the lock of a pane's terminal, as another process would.
func (s *stage) lock(pane string) *herdrcli.Lock {
	s.t.Helper()
	lock, err := herdrcli.NewLocks(s.home).Acquire(context.Background(), herdrcli.Agent{TerminalID: s.world().Pane(pane).Terminal}, "", lockTime)
	if err != nil {
		s.t.Fatal(err)
	}
	return lock
}

// calls are the commands that were run, without the texts of prompts.
func (s *stage) calls() (list []string) {
	s.t.Helper()
	journal, err := s.scene.Calls()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range journal {
		if len(c.Args) == 4 && c.Args[1] == "prompt" {
			c.Args = c.Args[:3]
		}
		list = append(list, strings.Join(c.Args, " "))
	}
	return list
}

// ran counts the calls of a command.
func (s *stage) ran(command string) (n int) {
	s.t.Helper()
	for _, c := range s.calls() {
		if c == command || strings.HasPrefix(c, command+" ") {
			n++
		}
	}
	return n
}

// wantCalls compares the journal with groups of commands. Those of a group,
// with " | " between them, were run side by side.
func (s *stage) wantCalls(groups ...string) {
	s.t.Helper()
	var want, got []string
	all := s.calls()
	rest := all
	for _, group := range groups {
		commands := strings.Split(group, " | ")
		part := slices.Clone(rest[:min(len(commands), len(rest))])
		rest = rest[len(part):]
		slices.Sort(commands)
		slices.Sort(part)
		want, got = append(want, commands...), append(got, part...)
	}
	got = append(got, rest...)
	if !slices.Equal(got, want) {
		s.t.Errorf("Herdr was called so:\n%s\nwant\n%s", strings.Join(all, "\n"), strings.Join(groups, "\n"))
	}
}

// received is what the program in a pane got, an entry for each Enter.
func (s *stage) received(pane string) (texts []string) {
	s.t.Helper()
	list, err := s.scene.Submissions(pane)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, sub := range list {
		texts = append(texts, sub.Text)
	}
	return texts
}

// noWait lets an Enter follow its text at once, for tests that look at once.
func (s *stage) noWait() *stage {
	s.update(func(w *fakeherdr.World) { w.EnterDelay = 0 })
	return s
}

// secret is what must be in no error and no log.
const secret = "correct horse battery staple"

// leak is what no reason may hold: an id, a path, or Herdr's own words.
var leak = regexp.MustCompile(`w\d+:|\bp\d\b|term_|/|\\|\{|Error|agent_|pane_|server_|herdr:|` + secret)

// asFault wants a *Fault that says nothing it must not say.
func asFault(t testing.TB, err error) *Fault {
	t.Helper()
	f, ok := err.(*Fault)
	if !ok {
		t.Fatalf("%v (%T) is no *Fault", err, err)
	}
	if found := leak.FindString(f.Reason); found != "" {
		t.Errorf("%q is in the reason: %s", found, f)
	}
	return f
}

// wantFault wants the fault of that cause.
func wantFault(t testing.TB, err, cause error) {
	t.Helper()
	if got, want := asFault(t, err), asFault(t, fault(cause)); *got != *want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// parse returns the one envelope in a text.
func parse(t testing.TB, text string) envelope.Envelope {
	t.Helper()
	e, err := envelope.Parse(text)
	if err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return e
}
