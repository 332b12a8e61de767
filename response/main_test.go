package response

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/herdrcli"
	"herdr-link/mcp"
	"herdr-link/twin"
)

// The test binary is every other process: the herdr of a scene and, called so,
// opencode.
func TestMain(m *testing.M) {
	if dir, ok := fakeherdr.Role(os.Args[0]); ok {
		os.Exit(fakeherdr.Main(dir, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
	}
	if base := filepath.Base(os.Args[0]); base == "opencode" || base == "opencode.exe" {
		os.Exit(beOpenCode(filepath.Dir(os.Args[0])))
	}
	os.Exit(twin.Main(m))
}

// beOpenCode plays opencode export: it prints the file of that name in its
// folder, and does what mode there says. Like the real one, it loses what a pipe
// does not take at once.
func beOpenCode(dir string) int {
	if len(os.Args) != 3 || os.Args[1] != "export" {
		fmt.Fprintln(os.Stderr, "opencode export [sessionID]")
		return 1
	}
	cwd, _ := os.Getwd()
	inside, _ := os.ReadDir(".")
	report := fmt.Sprintf("%s\n%s\n%s\n%d\n%v\n%s%s\n", cwd, os.Getenv("PWD"), os.Getenv("OPENCODE_DISABLE_PROJECT_CONFIG"), len(inside), isFile(os.Stdout),
		os.Getenv("HERDR_ENV"), os.Getenv("HERDR_PANE_ID"))
	_ = os.WriteFile(filepath.Join(dir, "report"), []byte(report), 0o600)
	mode, _ := os.ReadFile(filepath.Join(dir, "mode"))
	fmt.Fprintln(os.Stderr, "Exporting session: "+os.Args[2])
	switch string(mode) {
	case "fail":
		fmt.Fprint(os.Stderr, "\x1b[91m\x1b[1mError: \x1b[0mthe\tdatabase \n is  locked\x00\xff"+strings.Repeat("é", 2000))
		return 3
	case "flood":
		for line := make([]byte, 64<<10); ; {
			if _, err := os.Stdout.Write(line); err != nil {
				return 1
			}
		}
	case "hang": // with a child, and deaf
		signal.Ignore(syscall.SIGTERM)
		child := exec.Command("sleep", "600")
		if child.Start() != nil {
			return 4
		}
		_ = os.WriteFile(filepath.Join(dir, "pids.new"), fmt.Appendf(nil, "%d %d", os.Getpid(), child.Process.Pid), 0o600)
		_ = os.Rename(filepath.Join(dir, "pids.new"), filepath.Join(dir, "pids"))
		for {
			time.Sleep(20 * time.Millisecond)
			if _, err := os.Stat(dir); err != nil {
				return 1
			}
		}
	case "litter":
		_ = os.MkdirAll(filepath.Join("a", "b"), 0o700)
		_ = os.WriteFile(filepath.Join("a", "b", "c"), nil, 0o400)
	}
	text, err := os.ReadFile(filepath.Join(dir, os.Args[2]))
	if err != nil {
		fmt.Fprint(os.Stderr, "\x1b[91m\x1b[1mError: \x1b[0mSession not found: "+os.Args[2])
		return 1
	}
	if !isFile(os.Stdout) {
		text = text[:min(len(text), 64<<10)]
	}
	_, _ = os.Stdout.Write(text)
	return 0
}

func isFile(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// A stage has a scene, an opencode, and a home with transcripts of its own. The
// caller is in w1:p1.
type stage struct {
	t     *testing.T
	scene *fakeherdr.Scene
	bin   string // opencode's folder
	home  string
	tmp   string
	vars  map[string]string
	opt   Options
}

func newStage(t *testing.T) *stage {
	t.Helper()
	exe := twin.Path(t)
	s := &stage{t: t, bin: t.TempDir(), home: t.TempDir(), tmp: t.TempDir()}
	var err error
	if s.scene, err = fakeherdr.Create(filepath.Join(t.TempDir(), "scene"), exe); err != nil {
		t.Fatal(err)
	}
	name := "opencode"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if err := os.Symlink(exe, filepath.Join(s.bin, name)); err != nil {
		if err := os.Link(exe, filepath.Join(s.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.vars = map[string]string{"PATH": s.bin + string(filepath.ListSeparator) + os.Getenv("PATH")}
	s.env(s.scene.Env("w1:p1")...)
	s.opt = Options{Home: s.home, Role: Coordinator}
	return s
}

func (s *stage) env(vars ...string) {
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		s.vars[name] = value
	}
}

// reader makes the reader for what has been arranged.
func (s *stage) reader() *Reader {
	o := s.opt
	o.Getenv = func(name string) string { return s.vars[name] }
	environ := os.Environ()
	for name, value := range s.vars {
		environ = append(environ, name+"="+value)
	}
	o.Environ = environ
	o.Herdr = herdrcli.New(herdrcli.Options{Bin: s.vars["HERDR_BIN_PATH"], Path: s.vars["PATH"], Environ: environ})
	return New(o)
}

func (s *stage) change(f func(*fakeherdr.World)) {
	s.t.Helper()
	if err := s.scene.Update(func(w *fakeherdr.World) error { f(w); return nil }); err != nil {
		s.t.Fatal(err)
	}
}

// session says that the agent in a pane has that session.
func (s *stage) session(pane, host, id string) {
	s.t.Helper()
	s.change(func(w *fakeherdr.World) {
		w.Pane(pane).Agent.Session = &fakeherdr.Session{Source: "herdr:" + host, Agent: host, Kind: "id", Value: id}
	})
}

func (s *stage) put(path, text string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// export makes a session of OpenCode with that answer.
func (s *stage) export(id, role, text string) {
	s.t.Helper()
	s.put(filepath.Join(s.bin, id), session(id, user("msg_1"), assistant("msg_2", "msg_1", `"agent":`+quote(role)+`,"finish":"stop"`, part(text))))
}

func quote(s string) string { return string(mcp.Marshal(s)) }

func session(id string, messages ...string) string {
	return `Exporting…` + "\n" + `{"info":{"id":` + quote(id) + `},"messages":[` + strings.Join(messages, ",") + `]}`
}

func user(id string) string {
	return `{"info":{"role":"user","id":` + quote(id) + `,"summary":{"diffs":[]}},"parts":[{"type":"text","text":"do it"}]}`
}

func assistant(id, parent, more string, parts ...string) string {
	return `{"info":{"role":"assistant","id":` + quote(id) + `,"parentID":` + quote(parent) + `,"time":{"created":1,"completed":2},` + more +
		`},"parts":[` + strings.Join(parts, ",") + `]}`
}

func part(text string) string { return `{"type":"text","text":` + quote(text) + `}` }

// uuid is the session of Claude Code and Codex in these tests.
const uuid = "01234567-89ab-cdef-0123-456789abcdef"

func (s *stage) claude() string {
	return filepath.Join(s.home, ".claude", "projects", "-home-user-project", uuid+".jsonl")
}

func (s *stage) codex() string {
	return filepath.Join(s.home, ".codex", "sessions", "2026", "12", "01", "rollout-2026-12-01T00-31-40-"+uuid+".jsonl")
}

func claudeAnswer(text string) string {
	return `{"type":"user","message":{"role":"user","content":"do it"},"uuid":"u1"}` + "\n" +
		`{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":` + quote(text) + `}],"stop_reason":"end_turn"},"uuid":"u2"}` + "\n"
}

func codexAnswer(text string) string {
	return `{"type":"session_meta","payload":{"id":"` + uuid + `"}}` + "\n" + `{"type":"event_msg","payload":{"type":"task_started","turn_id":"t1"}}` + "\n" +
		`{"type":"event_msg","payload":{"type":"task_complete","turn_id":"t1","last_agent_message":` + quote(text) + `}}` + "\n"
}

// An answered is what a caller of the plugin gets.
type answered struct {
	OK          bool
	Host        string
	Target      string
	SessionID   string
	MessageID   string
	Role        string
	Finish      string
	Offset      int
	NextOffset  int
	TotalBytes  int
	Complete    bool
	Cursor      *string
	Text        string
	Error       *fault
	AgentStatus string
	raw         string
}

// code is that of the error, or "".
func (a answered) code() string {
	if a.Error == nil {
		return ""
	}
	return a.Error.Code
}

// ask is a call with these arguments, "name":value and so on.
func ask(t *testing.T, r *Reader, args string) (a answered) {
	t.Helper()
	raw := r.Respond(t.Context(), json.RawMessage("{"+args+"}"))
	if err := json.Unmarshal(raw, &a); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	a.raw = string(raw)
	if a.OK == (a.Error != nil) || len(raw) > maxResult {
		t.Errorf("%d bytes: %s", len(raw), raw)
	}
	return a
}

// all reads an answer to its end.
func all(t *testing.T, r *Reader, target string, size int) (text string, pages []answered) {
	t.Helper()
	args := `"target":` + quote(target)
	for {
		a := ask(t, r, fmt.Sprintf(`%s,"maxBytes":%d`, args, size))
		if !a.OK {
			t.Fatal(a.raw)
		}
		text += a.Text
		pages = append(pages, a)
		if a.Complete {
			return text, pages
		}
		args = `"cursor":` + quote(*a.Cursor)
	}
}

// calls are how many herdr calls there have been.
func (s *stage) calls() int {
	s.t.Helper()
	list, err := s.scene.Calls()
	if err != nil {
		s.t.Fatal(err)
	}
	return len(list)
}
