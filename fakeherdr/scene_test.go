package fakeherdr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMain lets the test binary be the herdr of its scenes.
func TestMain(m *testing.M) {
	if dir, ok := Role(os.Args[0]); ok {
		os.Exit(Main(dir, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
	}
	// The race detector lets a process that exits wait a second for races. These
	// tests start hundreds of processes.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

func newScene(t testing.TB) *Scene {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Create(filepath.Join(t.TempDir(), "scene"), exe)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func update(t testing.TB, s *Scene, f func(*World)) {
	t.Helper()
	if err := s.Update(func(w *World) error { f(w); return nil }); err != nil {
		t.Fatal(err)
	}
}

func world(t testing.TB, s *Scene) *World {
	t.Helper()
	w, err := s.World()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func calls(t testing.TB, s *Scene) []Call {
	t.Helper()
	list, err := s.Calls()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// texts is what a pane has received, one string a submission, as of a moment.
func texts(t testing.TB, s *Scene, pane string, now time.Time) (list []string) {
	t.Helper()
	submissions, err := s.submissions(pane, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range submissions {
		text := sub.Text
		if sub.Dialog {
			text = "dialog:" + text
		}
		if sub.Empty != (sub.Text == "") {
			t.Errorf("%q: Empty is %t", sub.Text, sub.Empty)
		}
		list = append(list, text)
	}
	return list
}

func herdr(s *Scene, args ...string) *exec.Cmd {
	cmd := exec.Command(s.Bin(), args...)
	cmd.Env = append(os.Environ(), s.Env("w1:p1")...)
	return cmd
}

// run runs the scene's herdr and returns its stdout; the error holds Herdr's
// code if it printed one.
func run(s *Scene, args ...string) (string, error) {
	cmd := herdr(s, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil {
		return stdout.String(), nil
	}
	var reply struct {
		Error struct{ Code string }
	}
	if json.Unmarshal(stderr.Bytes(), &reply) == nil && reply.Error.Code != "" {
		return stdout.String(), errors.New(reply.Error.Code)
	}
	return stdout.String(), fmt.Errorf("%w: %s", err, &stderr)
}

func mustRun(t testing.TB, s *Scene, args ...string) string {
	t.Helper()
	out, err := run(s, args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return out
}

func wantCode(t testing.TB, s *Scene, code string, args ...string) {
	t.Helper()
	if out, err := run(s, args...); err == nil || err.Error() != code {
		t.Errorf("%q: %q, %v, want %s", args, out, err, code)
	}
}

const long = time.Hour // no Enter comes by itself while a test runs

func later() time.Time { return time.Now().Add(2 * long) }

func TestRole(t *testing.T) {
	s := newScene(t)
	if dir, ok := Role(s.Bin()); !ok || dir != s.Dir() {
		t.Errorf("Role(%q) = %q, %t", s.Bin(), dir, ok)
	}
	real := filepath.Join(t.TempDir(), filepath.Base(s.Bin()))
	if err := os.WriteFile(real, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, argv0 := range []string{os.Args[0], filepath.Join(s.Dir(), "herdr-link"), real, "herdr-link", ""} {
		if dir, ok := Role(argv0); ok {
			t.Errorf("Role(%q) = %q", argv0, dir)
		}
	}
	t.Setenv("PATH", s.Dir())
	if dir, ok := Role("herdr"); !ok || dir != s.Dir() {
		t.Errorf("from PATH: %q, %t", dir, ok)
	}
	if err := os.RemoveAll(s.Dir()); err != nil {
		t.Fatal(err)
	}
	if _, ok := Role(s.Bin()); !ok {
		t.Error("a late call is no herdr any more")
	}
	t.Setenv(sleepVariable, "1")
	if _, ok := Role(real); !ok {
		t.Error("a late grandchild is no herdr any more")
	}
}

func TestCreate(t *testing.T) {
	s := newScene(t)
	if _, err := Create(s.Dir(), os.Args[0]); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second scene in one place: %v", err)
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("opened a scene that is none")
	}
	other, err := Open(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if got := world(t, other).EnterDelay; got != 300*time.Millisecond {
		t.Errorf("Enter comes after %v", got)
	}
}

func TestUpdate(t *testing.T) {
	s := newScene(t)
	mistake := errors.New("mistake")
	err := s.Update(func(w *World) error {
		w.Pane("w1:p1").Agent.Name = "changed"
		return mistake
	})
	if err != mistake || world(t, s).Pane("w1:p1").Agent.Name != "lead" {
		t.Errorf("%v, and the name is %s", err, world(t, s).Pane("w1:p1").Agent.Name)
	}
	for _, wrong := range []func(*World){
		func(w *World) { w.Version = "0.7" },
		func(w *World) { w.Faults = []Fault{{Kind: "hangs"}} },
		func(w *World) { w.Faults = []Fault{{Kind: ErrorCode}} },
	} {
		if err := s.Update(func(w *World) error { wrong(w); return nil }); err == nil {
			t.Error("an impossible world was accepted")
		}
	}
	before := world(t, s).Pane("w1:p1")
	update(t, s, func(w *World) { w.Pane("w1:p1").Agent.Status = Working })
	after := world(t, s).Pane("w1:p1")
	if after.Agent.StateChangeSeq <= before.Agent.StateChangeSeq || after.Revision != before.Revision+1 {
		t.Errorf("a change of state was not counted: %+v, %+v", before, after)
	}
}

func TestEnv(t *testing.T) {
	s := newScene(t)
	update(t, s, func(w *World) { w.Move("w1:p3", "w2") })
	for pane, want := range map[string]string{
		"w1:p2": "HERDR_WORKSPACE_ID=w1 HERDR_TAB_ID=w1:t1 HERDR_PANE_ID=w1:p2",
		"w2:p2": "HERDR_WORKSPACE_ID=w2 HERDR_TAB_ID=w2:t2 HERDR_PANE_ID=w2:p2",
		"w1:p3": "HERDR_WORKSPACE_ID=w1 HERDR_TAB_ID=w1:t1 HERDR_PANE_ID=w1:p3",
	} {
		want = "HERDR_ENV=1 HERDR_SOCKET_PATH=" + filepath.Join(s.Dir(), "herdr.sock") + " HERDR_BIN_PATH=" + s.Bin() + " " + want
		if got := strings.Join(s.Env(pane), " "); got != want {
			t.Errorf("%s\n%s\nwant\n%s", pane, got, want)
		}
	}
}

func TestMerge(t *testing.T) {
	s := newScene(t)
	update(t, s, func(w *World) { w.EnterDelay = long })
	for _, text := range []string{"one", "two", "three"} {
		mustRun(t, s, "agent", "prompt", "lead", text)
	}
	if got := texts(t, s, "w1:p1", time.Now()); got != nil {
		t.Errorf("before Enter: %q", got)
	}
	if got, want := texts(t, s, "w1:p1", later()), []string{"onetwothree", "", ""}; !slices.Equal(got, want) {
		t.Errorf("merged: %q, want %q", got, want)
	}
	update(t, s, func(w *World) { w.EnterDelay = 0 })
	for _, text := range []string{"four", "five"} {
		mustRun(t, s, "agent", "prompt", "reviewer", text)
	}
	if got, want := texts(t, s, "w1:p2", time.Now()), []string{"four", "five"}; !slices.Equal(got, want) {
		t.Errorf("apart: %q, want %q", got, want)
	}
}

func TestReplay(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	type prompts []struct {
		ms   int
		text string
	}
	for name, test := range map[string]struct {
		prompts prompts
		noPaste bool
		want    string
	}{
		"merging ends with the Enter": {prompts{{0, "a"}, {150, "b"}, {300, "c"}}, false, "[300 ab] [450 c] [600 ]"},
		"310 ms are enough":           {prompts{{0, "a"}, {310, "b"}}, false, "[300 a] [610 b]"},
		"lines in a paste":            {prompts{{0, "a\nb\r\nc\n"}}, false, "[300 a\nb\r\nc\n]"},
		"a paste that breaks out":     {prompts{{0, "safe\x1b[201~\rEVIL"}}, false, "[0 safe] [300 EVIL]"},
		"a paste begins in a paste":   {prompts{{0, "a\x1b[200~b"}}, false, "[300 ab]"},
		"no paste: every line":        {prompts{{0, "one\ntwo"}}, true, "[0 one] [300 two]"},
		"no paste: a last newline":    {prompts{{0, "x\n"}}, true, "[0 x] [300 ]"},
	} {
		var inputs []input
		for _, p := range test.prompts {
			inputs = append(inputs, input{At: at(p.ms), Text: p.text, Enter: 300 * time.Millisecond, NoPaste: test.noPaste})
		}
		var got []string
		for _, sub := range replay(inputs, at(10000)).submissions {
			got = append(got, fmt.Sprintf("[%d %s]", sub.At.Sub(start).Milliseconds(), sub.Text))
		}
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	// The delay may change between two prompts.
	inputs := []input{{At: at(0), Text: "a", Enter: time.Second}, {At: at(1), Text: "b", Enter: time.Millisecond}}
	if got := replay(inputs, at(10)).submissions; len(got) != 1 || got[0].Text != "ab" || !got[0].At.Equal(at(2)) {
		t.Errorf("a short delay behind a long one: %+v", got)
	}
}

func TestCloseLosesWhatIsPending(t *testing.T) {
	s := newScene(t)
	update(t, s, func(w *World) { w.EnterDelay = 0 })
	mustRun(t, s, "agent", "prompt", "lead", "in time")
	update(t, s, func(w *World) { w.EnterDelay = long })
	mustRun(t, s, "agent", "prompt", "lead", "too late")
	mustRun(t, s, "agent", "prompt", "reviewer", "not concerned")
	mustRun(t, s, "pane", "close", "w1:p1")
	if got, want := texts(t, s, "w1:p1", later()), []string{"in time"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := texts(t, s, "w1:p2", later()); len(got) != 1 {
		t.Errorf("the other pane has %q", got)
	}
	wantCode(t, s, "agent_not_found", "agent", "prompt", "lead", "gone")
	wantCode(t, s, "pane_not_found", "pane", "get", "w1:p1")
	if _, err := s.Submissions("w1:p99"); err == nil {
		t.Error("a pane that never was has submissions")
	}
}

func TestMove(t *testing.T) {
	s := newScene(t)
	mustRun(t, s, "agent", "prompt", "reviewer", "before")
	terminal := world(t, s).Pane("w1:p2").Terminal
	update(t, s, func(w *World) {
		if p := w.Move("w1:p2", "w2"); p.ID != "w2:p2" {
			t.Errorf("the new id is %s", p.ID)
		}
		if p := w.Move("w1:p2", w.AddWorkspace("third").ID); p.ID != "w3:p1" || p.Tab != "w3:t1" {
			t.Errorf("after two moves: %s in %s", p.ID, p.Tab)
		}
		if p := w.Move("w3:p1", "w3"); p.ID != "w3:p1" || p.Tab != "w3:t2" {
			t.Errorf("inside the workspace: %s in %s", p.ID, p.Tab)
		}
	})
	for _, old := range []string{"w1:p2", "w2:p2"} {
		if out := mustRun(t, s, "pane", "get", old); !strings.Contains(out, `"pane_id":"w3:p1"`) {
			t.Errorf("pane get %s: %s", old, out)
		}
		wantCode(t, s, "agent_not_found", "agent", "get", old)
		wantCode(t, s, "agent_not_found", "agent", "prompt", old, "x")
		wantCode(t, s, "agent_not_found", "agent", "rename", old, "x")
	}
	if out := mustRun(t, s, "agent", "get", "reviewer"); !strings.Contains(out, terminal) {
		t.Errorf("name or terminal did not survive: %s", out)
	}
	mustRun(t, s, "agent", "prompt", "w3:p1", "after")
	if got := strings.Join(texts(t, s, "w1:p2", later()), ""); got != "beforeafter" {
		t.Errorf("received %q", got)
	}
	mustRun(t, s, "pane", "close", "w1:p2") // the alias
	wantCode(t, s, "pane_not_found", "pane", "get", "w3:p1")
}

func TestRestart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	update(t, s, func(w *World) { w.close(w.AddPane(w.AddWorkspace("gone").ID, "", "")) })
	var before string
	update(t, s, func(w *World) { before = w.Pane("w1:p2").Terminal; w.Restart() })
	w, err := s.World()
	if err != nil {
		t.Fatal(err)
	}
	p := w.Pane("w1:p2")
	if p == nil || p.Agent != nil || p.Terminal == before || w.agentTarget("reviewer", time.Now()) != nil || w.Seq != 0 {
		t.Errorf("after a restart: %+v", p)
	}
	update(t, s, func(w *World) {
		w.RunAgent(w.Pane("w1:p2"), "codex", "reviewer")
		if id := w.AddWorkspace("new").ID; id != "w3" {
			t.Errorf("the new workspace is %s", id)
		}
	})
	if w, err = s.World(); err != nil || w.Pane("w1:p2").Agent.StateChangeSeq != 1 {
		t.Errorf("cursor %d, %v", w.Pane("w1:p2").Agent.StateChangeSeq, err)
	}
}

func TestIDsAreNotUsedAgain(t *testing.T) {
	s := newScene(t)
	ids, terminals := make(map[string]bool), make(map[string]bool)
	for _, p := range world(t, s).Panes {
		ids[p.ID], terminals[p.Terminal] = true, true
	}
	for range 3 {
		update(t, s, func(w *World) {
			ws := w.AddWorkspace("fresh")
			for _, p := range []*Pane{w.AddPane(ws.ID, "pi", ""), w.AddPane("w1", "", "")} {
				if ids[p.ID] || terminals[p.Terminal] {
					t.Errorf("%s or %s again", p.ID, p.Terminal)
				}
				ids[p.ID], terminals[p.Terminal] = true, true
				w.close(p)
			}
			if w.workspace(ws.ID) != nil {
				t.Errorf("%s is still open", ws.ID)
			}
		})
	}
}

func TestDetection(t *testing.T) {
	s := newScene(t)
	update(t, s, func(w *World) { w.Pane("w1:p1").Agent.DetectedAt = later() })
	wantCode(t, s, "agent_not_found", "agent", "get", "lead")
	wantCode(t, s, "agent_not_found", "agent", "get", "w1:p1")
	wantCode(t, s, "agent_not_found", "agent", "prompt", "w1:p1", "x")
	wantCode(t, s, "agent_not_found", "agent", "rename", "w1:p1", "x")
	if out := mustRun(t, s, "agent", "list"); strings.Contains(out, "w1:p1") {
		t.Errorf("listed: %s", out)
	}
	if out := mustRun(t, s, "pane", "get", "w1:p1"); strings.Contains(out, "claude") || !strings.Contains(out, `"agent_status":"unknown"`) {
		t.Errorf("pane get: %s", out)
	}
	update(t, s, func(w *World) { w.Pane("w1:p1").Agent.DetectedAt = time.Now() })
	mustRun(t, s, "agent", "get", "lead")
}

func TestBlocked(t *testing.T) {
	s := newScene(t)
	update(t, s, func(w *World) { w.EnterDelay = long; w.Pane("w1:p1").Agent.Status = Blocked })
	mustRun(t, s, "agent", "prompt", "lead", "yes?")
	mustRun(t, s, "agent", "prompt", "lead", "hello")
	if got := world(t, s).Pane("w1:p1").Agent.Status; got != Blocked {
		t.Errorf("before Enter: %s", got)
	}
	if got, want := texts(t, s, "w1:p1", later()), []string{"dialog:yes?hello", ""}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if w, _, err := s.read(later()); err != nil || w.Pane("w1:p1").Agent.Status != Idle {
		t.Errorf("after Enter: %+v, %v", w.Pane("w1:p1").Agent, err)
	}

	// A dialog that opens between text and Enter gets that Enter.
	mustRun(t, s, "agent", "prompt", "builder", "unlucky")
	update(t, s, func(w *World) { w.Pane("w2:p1").Agent.Status = Blocked })
	if got, want := texts(t, s, "w2:p1", later()), []string{"dialog:unlucky"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}

	// One that closes by itself gets none, and the next opens anew.
	update(t, s, func(w *World) { w.EnterDelay = 0; w.Pane("w1:p2").Agent.Status = Blocked })
	update(t, s, func(w *World) { w.Pane("w1:p2").Agent.Status = Idle })
	mustRun(t, s, "agent", "prompt", "reviewer", "a message")
	update(t, s, func(w *World) { w.Pane("w1:p2").Agent.Status = Blocked })
	mustRun(t, s, "agent", "prompt", "reviewer", "an answer")
	if got, want := texts(t, s, "w1:p2", time.Now()), []string{"a message", "dialog:an answer"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if out := mustRun(t, s, "agent", "get", "reviewer"); !strings.Contains(out, `"agent_status":"idle"`) {
		t.Errorf("answered, but %s", out)
	}
	update(t, s, func(w *World) { w.Pane("w1:p2").Agent.Status = Blocked })
	if out := mustRun(t, s, "agent", "get", "reviewer"); !strings.Contains(out, `"agent_status":"blocked"`) {
		t.Errorf("a dialog right after the last: %s", out)
	}
}

func TestBlockedIn09(t *testing.T) {
	s := newScene(t)
	update(t, s, func(w *World) { w.Version = "0.9"; w.Pane("w1:p1").Agent.Status = Blocked })
	wantCode(t, s, "agent_blocked", "agent", "prompt", "lead", "hello")
	mustRun(t, s, "agent", "prompt", "reviewer", "hello")
	if got := texts(t, s, "w1:p1", later()); got != nil {
		t.Errorf("received %q", got)
	}
	if out := mustRun(t, s, "--version"); out != "herdr 0.9.0\n" {
		t.Errorf("--version: %q", out)
	}
}

// Prompts, renames, closings and a counted fault at the same time: nothing is
// lost, and everybody who looks sees a whole world.
func TestParallel(t *testing.T) {
	const n = 64
	s := newScene(t)
	update(t, s, func(w *World) {
		w.EnterDelay = 0
		w.Faults = []Fault{{Kind: Slow, Match: []string{"agent", "prompt"}, Left: 1000}}
		for i := range n {
			w.AddPane("w1", "pi", fmt.Sprintf("extra-%d", i))
		}
	})
	var all sync.WaitGroup
	for i := range n {
		for _, args := range [][]string{
			{"agent", "prompt", "lead", fmt.Sprintf("%d %s", i, strings.Repeat("x", 10000))},
			{"agent", "rename", fmt.Sprintf("extra-%d", i), fmt.Sprintf("renamed-%d", i)},
			{"agent", "list"},
		} {
			all.Go(func() {
				if _, err := run(s, args...); err != nil {
					t.Errorf("%.40q: %v", args, err)
				}
			})
		}
	}
	all.Wait()
	got := texts(t, s, "w1:p1", time.Now())
	slices.Sort(got)
	if got = slices.Compact(got); len(got) != n {
		t.Errorf("%d of %d prompts arrived", len(got), n)
	}
	w := world(t, s)
	if left := w.Faults[0].Left; left != 1000-n {
		t.Errorf("the fault has %d left", left)
	}
	for i := range n {
		if name := fmt.Sprintf("renamed-%d", i); w.agentTarget(name, time.Now()) == nil {
			t.Errorf("%s is lost", name)
		}
	}
	journal := calls(t, s)
	if len(journal) != 3*n {
		t.Errorf("%d calls in the journal", len(journal))
	}
	for _, c := range journal {
		if !c.Done || c.Exit != 0 || c.PID == 0 || len(c.Args) < 2 {
			t.Errorf("journal: %.80q", fmt.Sprint(c))
		}
	}
}

func TestJournal(t *testing.T) {
	s := newScene(t)
	run(s)
	run(s, "agent", "get", "nobody")
	run(s, "agent", "get", "--session=other", "lead")
	var got []string
	for _, c := range calls(t, s) {
		got = append(got, fmt.Sprintf("%q %t %d", c.Args, c.Done, c.Exit))
	}
	want := []string{`[] true 1`, `["agent" "get" "nobody"] true 1`, `["agent" "get" "--session=other" "lead"] true 1`}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTextIsNotEscaped(t *testing.T) {
	out, err := herdr(newScene(t), "agent", "get", "<&> żółć \"").CombinedOutput()
	want := `{"error":{"code":"agent_not_found","message":"agent target <&> żółć \" not found"},"id":"cli:agent:get"}` + "\n"
	if err == nil || string(out) != want {
		t.Errorf("%v: %s", err, out)
	}
}

// A line that is still being written is not there yet; a broken one is an error.
func TestReadLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lines")
	for content, want := range map[string]int{"{}\n{}\n": 2, "{}\n{\"Text\":\"ha": 1, "": 0, "{}\nha\n": -1} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := readLines[input](file)
		if want < 0 && err == nil || want >= 0 && (err != nil || len(list) != want) {
			t.Errorf("%q: %v, %v", content, list, err)
		}
	}
}

// A scene that cannot be used is never taken for an answer of Herdr's.
func TestBrokenScene(t *testing.T) {
	s := newScene(t)
	if err := os.WriteFile(filepath.Join(s.Dir(), worldFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := herdr(s, "agent", "get", "lead")
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 70 || !bytes.HasPrefix(out, []byte("fakeherdr: ")) {
		t.Errorf("%v: %s", err, out)
	}
}

func BenchmarkCall(b *testing.B) {
	s := newScene(b)
	for b.Loop() {
		mustRun(b, s, "agent", "get", "lead")
	}
}

func BenchmarkPrompt(b *testing.B) {
	s := newScene(b)
	for b.Loop() {
		mustRun(b, s, "agent", "prompt", "lead", "hello")
	}
}

// A look at what is done makes it idle, and is no change of its state; all else is.
func TestLook(t *testing.T) {
	s := newScene(t)
	now := func() (seq, revision int) {
		p := world(t, s).Pane("w2:p1")
		return p.Agent.StateChangeSeq, p.Revision
	}
	for i, status := range []string{Done, Idle, Done, Working, Idle} {
		seq, revision := now()
		update(t, s, func(w *World) { w.Pane("w2:p1").Agent.Status = status })
		want := 1
		if i == 1 {
			want = 0
		}
		if seq2, revision2 := now(); seq2-seq != want || revision2-revision != want {
			t.Errorf("%s: from %d, %d to %d, %d", status, seq, revision, seq2, revision2)
		}
	}
}
