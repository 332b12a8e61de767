package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

// These tests have this test binary play opencode: called so, it prints the file
// that is called like the session, from its own folder.

// beOpenCode plays opencode export. A session that is not there never ends.
func beOpenCode(dir string) int {
	if len(os.Args) != 3 || os.Args[1] != "export" {
		return 1
	}
	text, err := os.ReadFile(filepath.Join(dir, os.Args[2]))
	if err != nil {
		child := exec.Command("sleep", "600")
		if child.Start() != nil {
			return 2
		}
		fmt.Print("{")
		for os.MkdirAll(filepath.Join(dir, "waiting"), 0o700) == nil {
			time.Sleep(20 * time.Millisecond)
			if _, err := os.Stat(filepath.Join(dir, "opencode")); err != nil {
				break // the test is over
			}
		}
		return 3
	}
	if _, err := os.Stdout.Write(text); err != nil {
		return 4
	}
	return 0
}

// A flock is a scene in which reviewer's session is one of OpenCode's.
type flock struct {
	scene *fakeherdr.Scene
	bin   string // where opencode is
	tmp   string // for temporary files, and empty when all is over
	env   []string
}

const workerSession = "ses_dd0fc699fffeMecHmS7qEhlPdq"

func newFlock(t *testing.T) *flock {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("opencode is a link here")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &flock{scene: newScene(t), bin: t.TempDir(), tmp: t.TempDir()}
	if err := os.Symlink(exe, filepath.Join(f.bin, "opencode")); err != nil {
		t.Fatal(err)
	}
	f.env = []string{"PATH=" + f.bin + ":" + os.Getenv("PATH"), "TMPDIR=" + f.tmp}
	f.session(t, "w1:p2", workerSession)
	return f
}

func (f *flock) session(t *testing.T, pane, id string) {
	change(t, f.scene, func(w *fakeherdr.World) {
		w.Pane(pane).Agent.Session = &fakeherdr.Session{Source: "herdr:opencode", Agent: "opencode", Kind: "id", Value: id}
	})
}

// answer has OpenCode's session end with that text.
func (f *flock) answer(t *testing.T, id, role, text string) {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(f.bin, id), `{"info":{"id":"`+id+`"},"messages":[{"info":{"role":"user","id":"msg_1"},"parts":[]},`+
		`{"info":{"role":"assistant","id":"msg_2","parentID":"msg_1","agent":"`+role+`","finish":"stop","time":{"completed":1}},"parts":[{"type":"text","text":`+string(quoted)+`}]}]}`)
}

func (f *flock) start(t *testing.T, role string, more ...string) *host {
	t.Helper()
	h := start(t, inPane(t, f.scene, "w1:p1", append(f.env, more...)...), "--toolsets", "response", "--caller-role", role)
	h.initialize("2025-11-25")
	return h
}

// clean reports what is left in the folder for temporary files.
func (f *flock) clean(t *testing.T) {
	t.Helper()
	if left, err := os.ReadDir(f.tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A pageRead is a result of herdr_agent_response.
type pageRead struct {
	OK                 bool
	Text               string
	Role               string
	Offset, NextOffset int
	Complete           bool
	Cursor             string
	Error              struct{ Code, Message string }
}

func (r result) page(t *testing.T) (p pageRead) {
	t.Helper()
	if err := json.Unmarshal(r.StructuredContent, &p); err != nil || p.OK == r.IsError {
		t.Fatalf("%v: %s", err, r.StructuredContent)
	}
	return p
}

// A long answer is read page by page; the model gets each page as it is.
func TestResponse(t *testing.T) {
	t.Parallel()
	f := newFlock(t)
	text := strings.Repeat("<one> & \"two\" — 🦀\n", 20000)
	f.answer(t, workerSession, "sheep-plan", text)
	h := f.start(t, "shepherd-plan")
	var whole strings.Builder
	for args := `{"target":"reviewer","maxBytes":16384}`; ; {
		r := h.call("herdr_agent_response", args)
		p := r.page(t)
		if !p.OK || len(r.Content) != 2 || r.Content[1].Text != p.Text || p.Offset != whole.Len() || strings.Contains(r.Content[0].Text, "two") ||
			strings.Count(r.Content[0].Text, "\n") < 10 || len(r.StructuredContent) > 32768 {
			t.Fatalf("%+v", p)
		}
		if whole.WriteString(p.Text); p.Complete {
			break
		}
		args = fmt.Sprintf(`{"cursor":%q,"maxBytes":16384}`, p.Cursor)
	}
	if whole.String() != text {
		t.Errorf("%d bytes of %d", whole.Len(), len(text))
	}
	old := start(t, inPane(t, f.scene, "w1:p1", append(f.env, "HERDR_LINK_CALLER_ROLE=shepherd-plan")...), "--toolsets", "response")
	old.initialize("2025-03-26")
	if r := old.call("herdr_agent_response", `{"target":"reviewer"}`); r.StructuredContent != nil || len(r.Content) != 2 || r.IsError || !strings.HasPrefix(text, r.Content[1].Text) {
		t.Errorf("in 2025-03-26: %+v", r)
	}
	f.clean(t)
}

// Two shepherds in one process and two workers: no page is another's.
func TestResponsesSideBySide(t *testing.T) {
	t.Parallel()
	f := newFlock(t)
	f.session(t, "w1:p1", "ses_lead")
	texts := map[string]string{"lead": strings.Repeat("lead ", 4000), "reviewer": strings.Repeat("reviewer ", 3000)}
	f.answer(t, "ses_lead", "sheep-plan", texts["lead"])
	f.answer(t, workerSession, "sheep-plan", texts["reviewer"])
	h := f.start(t, "shepherd-plan")
	next, got := map[string]string{}, map[string]string{}
	for target := range texts {
		next[target] = `{"target":"` + target + `","maxBytes":4096}`
	}
	for len(next) > 0 {
		ids := map[string]string{}
		for target, args := range next {
			ids[target] = h.begin("herdr_agent_response", args)
		}
		for target, id := range ids {
			p := h.result(id).page(t)
			got[target] += p.Text
			next[target] = fmt.Sprintf(`{"cursor":%q,"maxBytes":4096}`, p.Cursor)
			if p.Complete {
				delete(next, target)
			}
		}
	}
	for target, want := range texts {
		if got[target] != want {
			t.Errorf("%s: %.80s…", target, got[target])
		}
	}
}

// An export that never ends is ended in time to answer, when stdin has ended too.
func TestResponseInTime(t *testing.T) {
	t.Parallel()
	f := newFlock(t)
	h := f.start(t, "shepherd-plan")
	h.patience = time.Minute
	begun := time.Now()
	id := h.begin("herdr_agent_response", `{"target":"reviewer"}`)
	h.stdin.Close()
	p := h.result(id).page(t)
	if took := time.Since(begun); p.Error.Code != "SESSION_EXPORT_FAILED" || took > 45*time.Second {
		t.Errorf("after %v: %+v", took, p)
	}
	if code := h.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
	h.childless()
	f.clean(t)
}

// The log has codes, exit codes and times; errors have no word of a worker's.
func TestResponseSecrecy(t *testing.T) {
	t.Parallel()
	f := newFlock(t)
	log := filepath.Join(t.TempDir(), "log")
	f.answer(t, workerSession, "sheep-plan", strings.Repeat(secret+" ", 100))
	h := f.start(t, "shepherd-plan", "HERDR_LINK_LOG="+log)
	p := h.call("herdr_agent_response", `{"target":"reviewer","maxBytes":1024}`).page(t)
	f.answer(t, workerSession, "sheep-plan", secret)
	failed := h.answer(h.begin("herdr_agent_response", fmt.Sprintf(`{"cursor":%q}`, p.Cursor))).line
	failed += h.answer(h.begin("herdr_agent_response", `{"target":"`+secret+`"}`)).line
	f.answer(t, workerSession, "sheep-build", secret)
	failed += h.answer(h.begin("herdr_agent_response", `{"target":"reviewer"}`)).line
	if !strings.Contains(p.Text, secret) || strings.Contains(failed, secret) || strings.Count(failed, `"ok":false`) != 3 {
		t.Errorf("%+v\n%s", p, failed)
	}
	h.stdin.Close()
	h.wait()
	text := readFile(t, log)
	for _, word := range []string{secret, p.Cursor, workerSession, "reviewer", "w1:p", "argv", "msg_2", f.bin} {
		if strings.Contains(text, word) {
			t.Errorf("the log has %q: %s", word, text)
		}
	}
	for _, want := range []string{`"program":"opencode","exit":0`, `"code":"MESSAGE_CHANGED"`, `"code":"agent_not_found"`, `"code":"UNSUPPORTED_WORKER_ROLE"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s: %s", want, text)
		}
	}
}

// What OpenCode's plugin runs: one document in, one out.
func TestRespond(t *testing.T) {
	t.Parallel()
	f := newFlock(t)
	text := strings.Repeat("<one> & \"two\"\n", 200)
	f.answer(t, workerSession, "sheep-build", text)
	env := inPane(t, f.scene, "w1:p1", append(f.env, "HERDR_LINK_CALLER_ROLE=coordinator")...)
	key := base64.RawURLEncoding.EncodeToString([]byte("0123456789abcdefghijklmnopqrstuv"))
	request := func(agent, args string) string {
		return `{"v":1,"secret":"` + key + `","agent":"` + agent + `","args":` + args + `}`
	}
	ask := func(agent, args string) (p pageRead) {
		t.Helper()
		out, errs, code := run(t, env, request(agent, args), "orchestration", "respond")
		if err := json.Unmarshal([]byte(out), &p); err != nil || code != 0 || errs != "" || strings.Count(out, "\n") != 1 || strings.Contains(out, "\\u003c") {
			t.Errorf("%s, %s: %d, %s%s", agent, args, code, out, errs)
		}
		return p
	}
	p := ask("shepherd-build", `{"target":"reviewer","cursor":"","maxBytes":1024}`)
	if p.Text != text[:1024] || p.Role != "sheep-build" || p.NextOffset != 1024 {
		t.Errorf("%+v", p)
	}
	if q := ask("shepherd-build", fmt.Sprintf(`{"cursor":%q}`, p.Cursor)); q.Text != text[1024:] || !q.Complete { // of another process
		t.Errorf("%+v", q)
	}
	for what, test := range map[string]struct{ agent, args, code string }{
		"another shepherd": {"shepherd-plan", `{"target":"reviewer"}`, "UNSUPPORTED_WORKER_ROLE"},
		"a coordinator":    {"coordinator", `{"target":"reviewer"}`, "UNAUTHORIZED_AGENT"},
		"nobody":           {"build", `{"target":"reviewer"}`, "UNAUTHORIZED_AGENT"},
		"an unknown field": {"shepherd-build", `{"target":"reviewer","x":1}`, "INVALID_REQUEST"},
		"no object":        {"shepherd-build", `[]`, "INVALID_REQUEST"},
		"no arguments":     {"shepherd-build", `null`, "INVALID_REQUEST"},
	} {
		if p := ask(test.agent, test.args); p.OK || p.Error.Code != test.code {
			t.Errorf("%s: %+v", what, p)
		}
	}
	good := request("shepherd-build", `{"target":"reviewer"}`)
	for what, in := range map[string]string{
		"nothing": "", "no JSON": good[1:], "version 2": strings.Replace(good, `"v":1`, `"v":2`, 1), "no version": strings.Replace(good, `"v":1,`, ``, 1),
		"short secret": strings.Replace(good, key, key[:42], 1), "long secret": strings.Replace(good, key, key+"AA", 1), "no base64": strings.Replace(good, key[:1], "=", 1),
		"too long": good + strings.Repeat(" ", 64<<10),
	} {
		out, errs, code := run(t, env, in, "orchestration", "respond")
		if code != 2 || out != "" || !strings.HasPrefix(errs, "herdr-link: ") || strings.Count(errs, "\n") != 1 || strings.Contains(errs, key[:20]) {
			t.Errorf("%s: %d, %s%s", what, code, out, errs)
		}
	}
	for _, args := range [][]string{{"orchestration"}, {"orchestration", "dance"}, {"orchestration", "respond", "x"}} {
		if _, _, code := run(t, env, good, args...); code != 2 {
			t.Errorf("%q: exit %d", args, code)
		}
	}
	if out, _, _ := run(t, env, "", "--help"); strings.Contains(out, "respond") {
		t.Error("the overview names it")
	}
	f.clean(t)
}

// Options of the toolset, and what wins.
func TestResponseOptions(t *testing.T) {
	t.Parallel()
	f := newFlock(t)
	f.answer(t, workerSession, "sheep-build", "yes")
	env := inPane(t, f.scene, "w1:p1", append(f.env, "HERDR_LINK_TOOLSETS=response", "HERDR_LINK_CALLER_ROLE=shepherd-plan")...)
	for what, test := range map[string]struct {
		args []string
		want string
	}{
		"the variable":      {nil, `"UNSUPPORTED_WORKER_ROLE"`},
		"the option wins":   {[]string{"--caller-role", "shepherd-build"}, `"ok":true`},
		"hosts":             {[]string{"--caller-role=coordinator", "--response-hosts", "claude, codex"}, `"AGENT_NOT_OPENCODE"`},
		"hosts, and it":     {[]string{"--caller-role=coordinator", "--response-hosts=codex,opencode"}, `"ok":true`},
		"largest and least": {[]string{"--caller-role=coordinator", "--max-session-bytes", "1048576"}, `"ok":true`},
	} {
		out, errs, code := run(t, env, `{"target":"reviewer"}`, append([]string{"call", "herdr_agent_response"}, test.args...)...)
		if code != 0 || errs != "" || !strings.Contains(out, test.want) {
			t.Errorf("%s: %d, %s%s", what, code, out, errs)
		}
	}
	for _, args := range [][]string{{"--response-hosts", "claude,pi"}, {"--response-hosts", ","}, {"--max-session-bytes", "1048575"}, {"--max-session-bytes", "64M"}, {"--max-session-bytes", "-1"}} {
		for _, command := range [][]string{nil, {"tools"}, {"call", "herdr_agent_response"}} {
			if out, errs, code := run(t, env, "", append(slices.Clone(command), args...)...); code != 2 || out != "" || !strings.Contains(errs, args[0]) {
				t.Errorf("%q %q: %d, %s%s", command, args, code, out, errs)
			}
		}
	}
	if out, _, code := run(t, env, "", "tools", "--toolsets", "link,response"); code != 0 || strings.Count(out, "\n") != 5 || !strings.Contains(out, "herdr_agent_response") {
		t.Errorf("%d, %s", code, out)
	}
	f.answer(t, workerSession, "sheep-build", strings.Repeat("x", 2<<20))
	if out, _, _ := run(t, env, `{"target":"reviewer"}`, "call", "herdr_agent_response", "--caller-role=coordinator", "--max-session-bytes", "1048576"); !strings.Contains(out, "SESSION_EXPORT_TOO_LARGE") {
		t.Error(out)
	}
	f.clean(t)
}

// install writes what the toolset needs, with and without link.
func TestInstallResponse(t *testing.T) {
	t.Parallel()
	env, _ := atHome(t)
	for _, test := range []struct {
		args, want []string
	}{
		{[]string{"--print", "opencode", "--mcp", "--toolsets", "response", "--caller-role", "shepherd-build"}, []string{`"--toolsets"`, `"response"`, `"--caller-role"`, `"shepherd-build"`}},
		{[]string{"--print", "claude", "--toolsets", "link, response", "--caller-role", "coordinator"}, []string{`"link,response"`, `"coordinator"`}},
		{[]string{"--print", "codex", "--toolsets", "response"}, []string{`"--eager", "--toolsets", "response"]`, `"HERDR_LINK_CALLER_ROLE"`, `"SHEPHERD_MODE"`}},
	} {
		out, errs, code := run(t, env, "", append([]string{"install"}, test.args...)...)
		for _, want := range test.want {
			if code != 0 || !strings.HasPrefix(errs, "for ") || !strings.Contains(out, want) {
				t.Errorf("%q: %d, %s%s", test.args, code, out, errs)
			}
		}
	}
	for _, args := range [][]string{{"--print", "claude", "--caller-role", "coordinator"}, {"--print", "claude", "--toolsets", "link", "--caller-role", "coordinator"}, {"--print", "claude", "--toolsets", "answers"}} {
		if _, errs, code := run(t, env, "", append([]string{"install"}, args...)...); code != 2 {
			t.Errorf("%q: %d, %s", args, code, errs)
		}
	}
}
