package response

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/herdrcli"
	"herdr-link/mcp"
)

var updateGolden = flag.Bool("update", false, "write the golden file in testdata anew")

const worker = "ses_dd0fc699fffeMecHmS7qEhlPdq"

// Who may read what; without a right no child runs.
func TestRoles(t *testing.T) {
	t.Parallel()
	answers := []string{"sheep-plan", "sheep-build", "shearer-review-low", "shearer-review-medium", "shepherd-plan", "build", ""}
	for role, allowed := range map[string][]string{
		ShepherdPlan: {"sheep-plan"}, ShepherdBuild: answers[:4], Coordinator: answers, "": nil, "sheep-build": nil, "Coordinator": nil,
	} {
		s := newStage(t)
		s.session("w1:p2", "opencode", worker)
		s.opt.Role = role
		for _, answer := range answers {
			s.export(worker, answer, "yes")
			want := "UNAUTHORIZED_AGENT"
			if allowed != nil {
				want = "UNSUPPORTED_WORKER_ROLE"
			}
			for _, a := range allowed {
				if a == answer {
					want = ""
				}
			}
			if a := ask(t, s.reader(), `"target":"reviewer"`); a.code() != want || want == "" && (a.Text != "yes" || a.Role != answer) {
				t.Errorf("%s reads %s: %s", role, answer, a.raw)
			}
		}
		if allowed == nil && s.calls() > 0 {
			t.Errorf("%q: herdr was asked", role)
		}
	}
	for mode, want := range map[string]string{"plan": "", "build": "", "none": "", "": "", "sheep-plan": "UNAUTHORIZED_AGENT", "sheep-build": "UNAUTHORIZED_AGENT", "review": "UNAUTHORIZED_AGENT"} {
		for _, role := range []string{ShepherdPlan, ShepherdBuild, Coordinator} {
			s := newStage(t)
			s.session("w1:p2", "opencode", worker)
			s.export(worker, "sheep-plan", "yes")
			s.opt.Role, s.vars["SHEPHERD_MODE"] = role, mode
			if a := ask(t, s.reader(), `"target":"reviewer"`); a.code() != want || want != "" && s.calls() > 0 {
				t.Errorf("%s in mode %s: %s, %d calls", role, mode, a.raw, s.calls())
			}
		}
	}
	s := newStage(t)
	s.vars["HERDR_PANE_ID"] = ""
	if a := ask(t, s.reader(), `"target":"reviewer"`); a.code() != "UNAUTHORIZED_AGENT" || s.calls() > 0 {
		t.Errorf("a coordinator in no pane: %s", a.raw)
	}
}

// What is wrong with the arguments is said without a child, and in that order.
func TestArguments(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.reader()
	const number = "maxBytes must be an integer from 1024 to 16384"
	const one = "exactly one of target and cursor"
	const name = "target must be the name or the pane id of an agent"
	for args, want := range map[string]string{
		``: one, `"target":null,"cursor":""`: one, `"target":"a","cursor":"b"`: one, `"target":"","maxBytes":2048`: one,
		`"target":"a","maxBytes":1023`: number, `"target":"a","maxBytes":16385`: number, `"target":"a","maxBytes":2.5`: number, `"target":"a","maxBytes":"2048"`: number,
		`"target":"a","maxBytes":true`: number, `"maxBytes":0`: number, `"target":"Foo","maxBytes":0`: number,
		`"target":"Foo"`: name, `"target":"w1:x2"`: name, `"target":"w1:p12345678901234567"`: name, `"target":"-x"`: name, `"target":"a\n"`: name, `"target":" "`: name,
		`"target":5`: "target must be a string", `"target":["a"]`: "target must be a string", `"target":"\ud800"`: "target must be Unicode text, without half of a surrogate pair",
		`"target":"a","agent":"b"`: `"agent" is no argument of this tool`, `"agent":null`: `"agent" is no argument of this tool`, `"x":"","maxBytes":0`: `"x" is no argument of this tool`,
	} {
		a := ask(t, r, args)
		if a.code() != "INVALID_REQUEST" || a.Error.Retryable || !strings.HasPrefix(a.Error.Message, want) {
			t.Errorf("%s: %s", args, a.raw)
		}
	}
	for _, args := range []string{`"cursor":5`, `"cursor":"x"`, `"cursor":"` + strings.Repeat("x", maxCursor+1) + `"`, `"cursor":"a.b","target":null`} {
		if a := ask(t, r, args); a.code() != "INVALID_CURSOR" || a.Error.Retryable {
			t.Errorf("%.40s: %s", args, a.raw)
		}
	}
	for _, raw := range []string{`[]`, `"x"`, `{"target":"a","target":"b"}`} {
		var a answered
		if err := json.Unmarshal(r.Respond(t.Context(), json.RawMessage(raw)), &a); err != nil || a.code() != "INVALID_REQUEST" {
			t.Errorf("%s: %+v, %v", raw, a, err)
		}
	}
	if s.calls() > 0 {
		t.Errorf("herdr was asked %d times", s.calls())
	}
	s.session("w1:p2", "opencode", worker)
	s.export(worker, "sheep-plan", "yes")
	for _, args := range []string{`"cursor":"","target":"reviewer"`, `"cursor":null,"target":"w1:p2","maxBytes":""`, `"target":"reviewer","maxBytes":null`, `"target":"reviewer","maxBytes":2048.0`,
		`"target":"reviewer","wait_for_previous":true`} {
		if a := ask(t, r, args); !a.OK || a.Text != "yes" {
			t.Errorf("%s: %s", args, a.raw)
		}
	}
}

// An agent that has not settled, or has no session that can be read.
func TestUnreadableAgents(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.export(worker, "sheep-plan", "yes")
	r := s.reader()
	set := func(status string, session *fakeherdr.Session) {
		s.change(func(w *fakeherdr.World) {
			w.Pane("w1:p2").Agent.Status, w.Pane("w1:p2").Agent.Session = status, session
		})
	}
	good := fakeherdr.Session{Source: "herdr:opencode", Agent: "opencode", Kind: "id", Value: worker}
	for status, want := range map[string]string{"working": "working", "blocked": "blocked", "unknown": "unknown", "sleeping": "unknown"} {
		set(status, &good)
		if a := ask(t, r, `"target":"reviewer"`); a.code() != "AGENT_NOT_SETTLED" || !a.Error.Retryable || a.AgentStatus != want {
			t.Errorf("%s: %s", status, a.raw)
		}
	}
	for _, status := range []string{"idle", "done"} {
		set(status, &good)
		if a := ask(t, r, `"target":"reviewer"`); !a.OK || strings.Contains(a.raw, "agentStatus") {
			t.Errorf("%s: %s", status, a.raw)
		}
	}
	for name, change := range map[string]func(*fakeherdr.Session){
		"another source": func(s *fakeherdr.Session) { s.Source = "custom:x" }, "its name alone": func(s *fakeherdr.Session) { s.Source = "opencode" },
		"of another agent": func(s *fakeherdr.Session) { s.Agent = "claude" }, "a path": func(s *fakeherdr.Session) { s.Kind = "path" },
		"another host": func(s *fakeherdr.Session) { s.Source, s.Agent = "herdr:pi", "pi" }, "no value": func(s *fakeherdr.Session) { s.Value = "" },
		"long": func(s *fakeherdr.Session) { s.Value = strings.Repeat("x", 513) }, "a control character": func(s *fakeherdr.Session) { s.Value = "ses_\n" },
	} {
		bad := good
		change(&bad)
		set("idle", &bad)
		if a := ask(t, r, `"target":"reviewer"`); a.code() != "AGENT_NOT_OPENCODE" || a.Error.Retryable {
			t.Errorf("%s: %s", name, a.raw)
		}
	}
	set("idle", nil)
	if a := ask(t, r, `"target":"reviewer"`); a.code() != "AGENT_NOT_OPENCODE" || !strings.Contains(a.raw, "none before its first task") {
		t.Errorf("none: %s", a.raw)
	}
}

// A coordinator has its own workspace's named agents, and a shepherd has OpenCode.
func TestHosts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.export(worker, "sheep-plan", "from opencode")
	s.put(s.claude(), claudeAnswer("from claude"))
	s.put(s.codex(), codexAnswer("from codex"))
	for host, id := range map[string]string{"opencode": worker, "claude": uuid, "codex": uuid} {
		s.session("w1:p2", host, id)
		for _, test := range []struct {
			role  string
			hosts []string
			ok    bool
		}{
			{Coordinator, nil, true}, {Coordinator, []string{"claude"}, host == "claude"}, {Coordinator, []string{"codex", "opencode"}, host != "claude"},
			{ShepherdBuild, nil, host == "opencode"}, {ShepherdPlan, []string{"claude"}, host == "opencode"},
		} {
			s.opt.Role, s.opt.Hosts = test.role, test.hosts
			a := ask(t, s.reader(), `"target":"reviewer"`)
			if a.OK != test.ok || a.OK && (a.Text != "from "+host || a.Host != host || a.SessionID != id) || !a.OK && a.code() != "AGENT_NOT_OPENCODE" {
				t.Errorf("%+v of %s: %s", test, host, a.raw)
			}
		}
	}
}

func TestCoordinator(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.put(s.claude(), claudeAnswer("yes"))
	for _, pane := range []string{"w1:p1", "w1:p2", "w1:p3", "w2:p1"} {
		s.session(pane, "claude", uuid)
	}
	unknown := ask(t, s.reader(), `"target":"nobody"`)
	if unknown.code() != "AGENT_NOT_FOUND" || unknown.Error.Retryable {
		t.Fatal(unknown.raw)
	}
	expect := func(what, target, code string) {
		t.Helper()
		a := ask(t, s.reader(), `"target":`+quote(target))
		if a.code() != code || code == "AGENT_NOT_FOUND" && a.raw != unknown.raw {
			t.Errorf("%s: %s", what, a.raw)
		}
	}
	expect("by name", "reviewer", "")
	expect("by pane", "w1:p2", "")
	expect("of another workspace", "builder", "AGENT_NOT_FOUND")
	expect("of another workspace, by pane", "w2:p1", "AGENT_NOT_FOUND")
	expect("without a name", "w1:p3", "AGENT_NOT_FOUND")
	expect("a shell", "w1:p4", "AGENT_NOT_FOUND")
	expect("no pane", "w9:p9", "AGENT_NOT_FOUND")
	expect("oneself, by name", "lead", "INVALID_REQUEST")
	expect("oneself, by pane", "w1:p1", "INVALID_REQUEST")

	s.change(func(w *fakeherdr.World) { w.Move("w1:p1", "w2") }) // the process keeps its id
	expect("after a move", "builder", "")
	expect("of the workspace before", "reviewer", "AGENT_NOT_FOUND")
	expect("oneself after a move", "lead", "INVALID_REQUEST")

	s.change(func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.DetectedAt = time.Now().Add(time.Hour) })
	expect("without an own record", "builder", "AGENT_NOT_FOUND")
	s.opt.Role = ShepherdBuild // needs no own pane, and has no workspace
	expect("a shepherd", "reviewer", "AGENT_NOT_OPENCODE")
	expect("a shepherd and nobody", "nobody", "AGENT_NOT_FOUND")
}

// Records need not name a terminal. Two that do not are not of one pane for that.
func TestNoTerminal(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.put(s.claude(), claudeAnswer("yes"))
	s.session("w1:p2", "claude", uuid)
	var faults []fakeherdr.Fault
	for _, target := range []string{"w1:p1", "reviewer", "lead"} {
		out, err := exec.Command(s.vars["HERDR_BIN_PATH"], "agent", "get", target).Output()
		if err != nil {
			t.Fatal(err)
		}
		bare := regexp.MustCompile(`"terminal_id":"[^"]*",?`).ReplaceAllString(string(out), "")
		if !json.Valid([]byte(bare)) || bare == string(out) {
			t.Fatal(bare)
		}
		faults = append(faults, fakeherdr.Fault{Kind: fakeherdr.Shape, Text: bare, Match: []string{"agent", "get", target}})
	}
	s.change(func(w *fakeherdr.World) { w.Faults = faults })
	if a := ask(t, s.reader(), `"target":"reviewer"`); a.code() != "" {
		t.Errorf("another one: %s", a.raw)
	}
	if a := ask(t, s.reader(), `"target":"lead"`); a.code() != "INVALID_REQUEST" {
		t.Errorf("oneself: %s", a.raw)
	}
}

// A record that Herdr gives for another name or pane is nobody's answer.
func TestAnotherOne(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.put(s.claude(), claudeAnswer("yes"))
	s.session("w1:p2", "claude", uuid)
	if a := ask(t, s.reader(), `"target":"reviewer"`); a.code() != "" {
		t.Fatal(a.raw)
	}
	out, err := exec.Command(s.vars["HERDR_BIN_PATH"], "agent", "get", "reviewer").Output()
	if err != nil {
		t.Fatal(err)
	}
	s.change(func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Kind: fakeherdr.Shape, Text: string(out), Match: []string{"agent", "get", "claude"}}}
	})
	if a := ask(t, s.reader(), `"target":"claude"`); a.code() != "AGENT_NOT_FOUND" {
		t.Errorf("%s", a.raw)
	}
}

// Herdr cannot be asked, in several ways.
func TestHerdrUnavailable(t *testing.T) {
	t.Parallel()
	for _, role := range []string{Coordinator, ShepherdBuild} {
		for name, arrange := range map[string]func(*stage){
			"down":     func(s *stage) { s.fault(fakeherdr.Down) },
			"mismatch": func(s *stage) { s.fault(fakeherdr.Mismatch) },
			"garbage":  func(s *stage) { s.fault(fakeherdr.Garbage) },
			"debug":    func(s *stage) { s.fault(fakeherdr.Debug) },
			"shape":    func(s *stage) { s.fault(fakeherdr.Shape) },
			"flood":    func(s *stage) { s.fault(fakeherdr.Flood) },
			"relative": func(s *stage) { s.vars["HERDR_BIN_PATH"] = "herdr"; s.onPath() },
			"missing":  func(s *stage) { s.vars["HERDR_BIN_PATH"] = filepath.Join(s.tmp, "none"); s.onPath() },
			"nowhere":  func(s *stage) { s.vars["HERDR_BIN_PATH"], s.vars["PATH"] = "", s.bin },
		} {
			t.Run(role+", "+name, func(t *testing.T) {
				t.Parallel()
				s := newStage(t)
				s.opt.Role = role
				s.session("w1:p2", "opencode", worker)
				s.export(worker, "sheep-plan", "yes")
				arrange(s)
				if a := ask(t, s.reader(), `"target":"reviewer"`); a.code() != "HERDR_UNAVAILABLE" || !a.Error.Retryable {
					t.Error(a.raw)
				}
			})
		}
	}
	s := newStage(t)
	s.session("w1:p2", "opencode", worker)
	s.export(worker, "sheep-plan", "yes")
	s.vars["HERDR_BIN_PATH"] = ""
	s.onPath()
	if a := ask(t, s.reader(), `"target":"reviewer"`); !a.OK {
		t.Errorf("herdr on PATH: %s", a.raw)
	}
}

func (s *stage) fault(kind string) {
	s.change(func(w *fakeherdr.World) { w.Faults = []fakeherdr.Fault{{Kind: kind}} })
}

func (s *stage) onPath() {
	s.vars["PATH"] = strings.Join([]string{s.bin, s.scene.Dir(), os.Getenv("PATH")}, string(filepath.ListSeparator))
}

// Between the two looks something happens.
func TestSecondLook(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(w *fakeherdr.World)
		code   string
		status string
	}{
		"nothing":    {func(*fakeherdr.World) {}, "", ""},
		"works":      {func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Working }, "AGENT_NOT_SETTLED", "working"},
		"had worked": {func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.StateChangeSeq += 2 }, "AGENT_NOT_SETTLED", "idle"},
		"is seen":    {func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Session.Value = uuid[:35] + "0" }, "AGENT_NOT_SETTLED", "idle"},
		"is gone":    {func(w *fakeherdr.World) { w.Pane("w1:p2").Agent = nil }, "AGENT_NOT_FOUND", ""},
		"is moved":   {func(w *fakeherdr.World) { w.Move("w1:p2", "w2") }, "AGENT_NOT_FOUND", ""},
		"is another": {func(w *fakeherdr.World) {
			w.Pane("w1:p2").Agent.Name = ""
			w.Pane("w1:p3").Agent.Name = "reviewer"
			w.Pane("w1:p3").Agent.Session = w.Pane("w1:p2").Agent.Session
			w.Pane("w1:p3").Agent.StateChangeSeq = w.Pane("w1:p2").Agent.StateChangeSeq
		}, "AGENT_NOT_FOUND", ""},
	} {
		s := newStage(t)
		s.session("w1:p2", "claude", uuid)
		s.put(s.claude(), claudeAnswer("yes"))
		r := s.reader()
		looks := 0
		r.getenv = func(name string) string { // asked for the folder: between the looks
			if name == "CLAUDE_CONFIG_DIR" {
				looks++
				s.change(test.change)
			}
			return s.vars[name]
		}
		if a := ask(t, r, `"target":"reviewer"`); a.code() != test.code || a.AgentStatus != test.status || looks != 1 {
			t.Errorf("%s: %s, %d", name, a.raw, looks)
		}
	}
}

// An answer is read on when its agent has gone on or is gone, and not when it
// has changed.
func TestContinuation(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789abcdef", 200)
	for host, arrange := range map[string]func(s *stage, text, more string){
		"opencode": func(s *stage, text, more string) {
			messages := []string{user("msg_1"), assistant("msg_2", "msg_1", `"agent":"sheep-plan"`, part(text))}
			if more != "" {
				messages = append(messages, user("msg_3"), assistant("msg_4", "msg_3", `"agent":"sheep-plan"`, part(more)))
			}
			s.put(filepath.Join(s.bin, worker), session(worker, messages...))
		},
		"claude": func(s *stage, text, more string) {
			lines := claudeAnswer(text)
			if more != "" {
				lines += strings.NewReplacer("u1", "u3", "u2", "u4", "m1", "m3").Replace(claudeAnswer(more))
			}
			s.put(s.claude(), lines)
		},
		"codex": func(s *stage, text, more string) {
			lines := codexAnswer(text)
			if more != "" {
				lines += strings.ReplaceAll(codexAnswer(more), `"t1"`, `"t2"`)
			}
			s.put(s.codex(), lines)
		},
	} {
		s := newStage(t)
		arrange(s, text, "")
		s.session("w1:p2", host, sessionOf(host))
		r := s.reader()
		first := ask(t, r, `"target":"reviewer","maxBytes":1024`)
		if !first.OK {
			t.Fatal(first.raw)
		}
		next := `"maxBytes":1024,"cursor":` + quote(*first.Cursor)
		before := s.calls()
		s.fault(fakeherdr.Down)
		arrange(s, text, "another turn")
		a := ask(t, r, next)
		if !a.OK || a.Text != text[1024:2048] || a.MessageID != first.MessageID || a.Offset != 1024 || a.Target != "reviewer" || s.calls() != before {
			t.Errorf("%s, another turn: %s", host, a.raw)
		}
		for what, changed := range map[string]string{"shorter": text[:2000], "edited": text[:len(text)-1] + "x", "longer": text + "x", "blank": " "} {
			arrange(s, changed, "")
			if a := ask(t, r, next); a.code() != "MESSAGE_CHANGED" || a.Error.Retryable {
				t.Errorf("%s, %s: %s", host, what, a.raw)
			}
		}
		arrange(s, text, "")
		if a := ask(t, r, next); !a.OK {
			t.Errorf("%s, as before: %s", host, a.raw)
		}
		if a := ask(t, s.reader(), next); a.code() != "INVALID_CURSOR" {
			t.Errorf("%s, another process: %s", host, a.raw)
		}
		s.opt.Secret = r.secret
		s.opt.Role = ShepherdBuild
		if a := ask(t, s.reader(), next); host == "opencode" != a.OK || !a.OK && a.code() != "MESSAGE_CHANGED" {
			t.Errorf("%s, another caller: %s", host, a.raw)
		}
		_ = os.Remove(filepath.Join(s.bin, worker))
		_ = os.Remove(s.claude())
		_ = os.Remove(s.codex())
		if a := ask(t, r, next); a.code() != "SESSION_NOT_FOUND" {
			t.Errorf("%s, gone: %s", host, a.raw)
		}
	}
	// In one OpenCode two shepherds have one secret, and not the same rights.
	s := newStage(t)
	s.session("w1:p2", "opencode", worker)
	s.export(worker, "sheep-build", text)
	s.opt.Role, s.opt.Secret = ShepherdBuild, bytes.Repeat([]byte{1}, SecretSize)
	next := `"cursor":` + quote(*ask(t, s.reader(), `"target":"reviewer","maxBytes":1024`).Cursor)
	s.opt.Role = ShepherdPlan
	if a := ask(t, s.reader(), next); a.code() != "MESSAGE_CHANGED" {
		t.Error(a.raw)
	}
	s.export(worker, "sheep-plan", text)
	s.opt.Role = ShepherdBuild
	if a := ask(t, s.reader(), next); a.code() != "MESSAGE_CHANGED" {
		t.Errorf("another role: %s", a.raw)
	}
}

func sessionOf(host string) string {
	if host == "opencode" {
		return worker
	}
	return uuid
}

// Many read at once, and no page is another's.
func TestConcurrentReaders(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	texts := map[string]string{}
	s.change(func(w *fakeherdr.World) {
		for i := range 4 {
			name := fmt.Sprint("worker-", i)
			id := fmt.Sprintf("%s%d", uuid[:35], i)
			w.AddPane("w1", "claude", name).Agent.Session = &fakeherdr.Session{Source: "herdr:claude", Agent: "claude", Kind: "id", Value: id}
			texts[name] = strings.Repeat(fmt.Sprintf("text of %s. ", name), 400)
			s.put(filepath.Join(filepath.Dir(s.claude()), id+".jsonl"), claudeAnswer(texts[name]))
		}
	})
	r := s.reader()
	var wait sync.WaitGroup
	for name, want := range texts {
		for range 2 {
			wait.Go(func() {
				if got, _ := all(t, r, name, 1024); got != want {
					t.Errorf("%s: %d bytes of %d", name, len(got), len(want))
				}
			})
		}
	}
	wait.Wait()
}

// The log has codes, exit codes and times, and neither it nor an error has a word
// of anybody's.
func TestSecrecy(t *testing.T) {
	t.Parallel()
	const secret = "xyzzy-4711-plugh"
	s := newStage(t)
	var log bytes.Buffer
	s.opt.Log = slog.New(slog.NewJSONHandler(&log, nil))
	s.session("w1:p2", "opencode", worker)
	r := s.reader()
	var said strings.Builder
	fails := func(args string) { said.WriteString(ask(t, r, args).raw) }
	text := strings.Repeat(secret, 200)
	s.export(worker, "sheep-plan", text)
	page := ask(t, r, `"target":"reviewer","maxBytes":1024`)
	next := *page.Cursor
	fails(`"cursor":` + quote(next+"x"))
	s.export(worker, "sheep-plan", text+"x")
	fails(`"cursor":` + quote(next))
	s.put(filepath.Join(s.bin, worker), session(worker, user("msg_1"), assistant("m", "msg_1", `"finish":"tool-calls"`, part(text))))
	fails(`"target":"reviewer"`)
	s.put(filepath.Join(s.bin, worker), session("ses_"+secret))
	fails(`"target":"reviewer"`)
	s.put(filepath.Join(s.bin, worker), "["+quote(text))
	fails(`"target":"reviewer"`)
	fails(`"target":"` + secret + `"`)
	fails(`"target":"` + secret + ` "`)
	fails(`"cursor":"` + secret + `"`)
	if page.Text == "" || !strings.Contains(page.Text, secret) {
		t.Error(page.raw)
	}
	for what, printed := range map[string]string{"an error": said.String(), "the log": log.String()} {
		for _, word := range []string{secret, next[:40], string(b64.EncodeToString(r.secret)), string(r.secret)} {
			if strings.Contains(printed, word) {
				t.Errorf("%s has %q: %s", what, word, printed)
			}
		}
	}
	for _, word := range []string{worker, "reviewer", "w1:p", "argv", s.bin} {
		if strings.Contains(log.String(), word) {
			t.Errorf("the log has %q: %s", word, log.String())
		}
	}
	for _, want := range []string{`"program":"opencode","exit":0`, `"program":"herdr","exit":0`, `"program":"herdr","exit":1,"code":"agent_not_found"`, `"ok":true,"code":""`, `"ok":false,"code":"MESSAGE_CHANGED"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s: %s", want, log.String())
		}
	}
}

// Over MCP the model gets the page by itself, as text.
func TestResult(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.session("w1:p2", "claude", uuid)
	text := "<one> & \"two\"\n" + strings.Repeat("\x01", 16384)
	s.put(s.claude(), claudeAnswer(text))
	tools := s.reader().Tools()
	call := func(args string) *mcp.Result {
		r, err := mcp.CallOne(t.Context(), tools, Name, []byte(args))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := call(`{"target":"reviewer","maxBytes":16384}`)
	var whole, bare answered
	if json.Unmarshal(r.Structured, &whole) != nil || len(r.Text) != 2 || json.Unmarshal([]byte(r.Text[0]), &bare) != nil || r.IsError {
		t.Fatalf("%+v", r)
	}
	if whole.Text != r.Text[1] || !strings.HasPrefix(text, whole.Text) || strings.Contains(r.Text[0], `"text"`) || bare.TotalBytes != len(text) || *bare.Cursor != *whole.Cursor {
		t.Errorf("%s", r.Text[0])
	}
	if strings.Count(r.Text[0], "\n") < 12 || bytes.Contains(r.Structured, []byte("\n")) || !bytes.Contains(r.Structured, []byte(`<one> & \"two\"`)) {
		t.Errorf("%s\n%.200s", r.Text[0], r.Structured)
	}
	if plugin := ask(t, s.reader(), `"target":"reviewer","maxBytes":16384`); plugin.NextOffset != whole.NextOffset || plugin.NextOffset != 4096 {
		t.Errorf("the plugin's page ends at %d, that over MCP at %d", plugin.NextOffset, whole.NextOffset)
	}
	r = call(`{"target":"nobody"}`)
	if !r.IsError || len(r.Text) != 1 || json.Unmarshal([]byte(r.Text[0]), &bare) != nil || bare.code() != "AGENT_NOT_FOUND" || json.Unmarshal(r.Structured, &whole) != nil || whole.code() != "AGENT_NOT_FOUND" {
		t.Errorf("%+v", r)
	}
}

// What tools/list sends is a golden file.
func TestGolden(t *testing.T) {
	var listed bytes.Buffer
	for _, tool := range paged().Tools() {
		if tool.Listing != mcp.Always || tool.OutputSchema != nil || tool.Meta != nil {
			t.Errorf("%+v", tool)
		}
		if err := json.Indent(&listed, mcp.Marshal(tool.Describe(mcp.Latest)), "", "  "); err != nil {
			t.Fatal(err)
		}
		listed.WriteByte('\n')
	}
	file := filepath.Join("testdata", "tool.json")
	if *updateGolden {
		if err := os.WriteFile(file, listed.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := recorded(t, "tool.json"); listed.String() != want {
		t.Errorf("tools/list has\n%s\nnot\n%s", listed.String(), want)
	}
}

// Every fault is one of the specification's codes, with its word on whether to
// try again.
func TestFaults(t *testing.T) {
	retry := map[string]bool{
		"UNAUTHORIZED_AGENT": false, "INVALID_REQUEST": false, "AGENT_NOT_FOUND": false, "HERDR_UNAVAILABLE": true, "AGENT_NOT_SETTLED": true,
		"AGENT_NOT_OPENCODE": false, "SESSION_NOT_FOUND": false, "SESSION_EXPORT_TOO_LARGE": false, "SESSION_EXPORT_FAILED": true,
		"NO_COMPLETED_RESPONSE": true, "UNSUPPORTED_WORKER_ROLE": false, "INVALID_CURSOR": false, "EXPIRED_CURSOR": false,
		"MESSAGE_CHANGED": false, "OUTPUT_BUDGET_EXCEEDED": false,
	}
	for _, f := range []*fault{errUnauthorized, errNoPane, errOwnPane, errNotOne, errNotFound, errNotOpenCode, errNoSession, errTooLarge, errTime, errCancelled, errUnreadable,
		errNoAnswer, errRole, errCursor, errExpired, errChanged, errBudget, errExport("x"), unsettled("idle"), unavailable(&herdrcli.Error{})} {
		if want, known := retry[f.Code]; !known || f.Retryable != want || f.Message == "" {
			t.Errorf("%+v", f)
		}
	}
	_, docs, _ := strings.Cut(recorded(t, filepath.Join("..", "..", "docs", "orchestration.md")), "### When there is no answer\n")
	for code, retry := range retry {
		row := regexp.MustCompile("(?m)^\\| [^|]*`" + code + "`[^|]* \\| (yes|no)\\b").FindStringSubmatch(docs)
		if row == nil || (row[1] == "yes") != retry {
			t.Errorf("docs/orchestration.md says of %s: %q", code, row)
		}
	}
	if !strings.Contains(errNotOpenCode.Message, "herdr integration install") {
		t.Errorf("it does not say what to do: %s", errNotOpenCode.Message)
	}
	for _, f := range []*fault{errForeign, errCompressed} {
		if f.Code != "SESSION_EXPORT_FAILED" || f.Retryable {
			t.Errorf("%+v", f)
		}
	}
	over, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	<-over.Done()
	gone, stop2 := context.WithCancel(t.Context())
	stop2()
	for _, test := range []struct {
		ctx  context.Context
		err  error
		want *fault
	}{
		{t.Context(), os.ErrPermission, errUnreadable}, {over, os.ErrPermission, errTime}, {over, &herdrcli.Error{Err: herdrcli.ErrTimeout}, errTime},
		{over, errNoAnswer, errNoAnswer}, {gone, context.Canceled, errCancelled},
	} {
		if got := asFault(test.ctx, test.err); got != test.want {
			t.Errorf("%v: %v", test.err, got)
		}
	}
}
