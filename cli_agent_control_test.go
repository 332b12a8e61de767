//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

// A console is a scene in which this test is the shell of w1:p1, and so the process
// of the controller there; the pane's agent reviewer is leased.
type console struct {
	*testing.T
	scene  *fakeherdr.Scene
	state  string
	env    environment
	lease  meshLease
	server *host
}

func newConsole(t *testing.T, more ...string) *console {
	t.Helper()
	d := &console{T: t, scene: newScene(t)}
	var variable string
	d.state, variable = stateOf(t)
	change(t, d.scene, func(w *fakeherdr.World) { w.Pane("w1:p1").Shell = os.Getpid() })
	d.server = coordinate(t, d.scene, "w1:p1", append(more, variable)...)
	d.lease = d.server.answers("herdr_controller_acquire", asking("")).lease(t)
	leased(t, d.scene, d.state, "w1:p2", leaseID("1"), nil)
	d.env = inPane(t, d.scene, "w1:p1", variable, "AGENT_CONTROL_CONTROLLER_ID=lead")
	return d
}

// with is the environment with other variables.
func (d *console) with(more ...string) environment {
	return environment{append(d.env.vars[:len(d.env.vars):len(d.env.vars)], more...), d.env.mark}
}

// control runs agent-control. What it prints is checked: JSON on stdout, or a line
// with a code on stderr, and never the fence token.
func (d *console) control(env environment, stdin string, args ...string) (answer map[string]json.RawMessage, problem string, code int) {
	d.Helper()
	out, errs, code := run(d, env, stdin, append([]string{"agent-control"}, args...)...)
	problem, prefixed := strings.CutPrefix(strings.TrimSuffix(errs, "\n"), "herdr-link agent-control: ")
	switch code {
	case 0, 3:
		if json.Unmarshal([]byte(out), &answer) != nil || errs != "" || strings.Count(out, "\n") != 1 {
			d.Errorf("%q: exit %d, %q, %q", args, code, out, errs)
		}
	default:
		if out != "" || !prefixed || strings.Contains(problem, "\n") {
			d.Errorf("%q: exit %d, %q, %q", args, code, out, errs)
		}
	}
	if strings.Contains(out+errs, d.lease.FenceToken) {
		d.Errorf("%q: the token was told", args)
	}
	return answer, problem, code
}

// fails runs a command that must end with that exit code and error code.
func (d *console) fails(exit int, code string, env environment, args ...string) string {
	d.Helper()
	_, problem, got := d.control(env, "", args...)
	if got != exit || !strings.HasPrefix(problem, code+": ") {
		d.Errorf("%.100q: exit %d, %q; want %d %s", args, got, problem, exit, code)
	}
	return problem
}

func (d *console) does(args ...string) map[string]json.RawMessage {
	d.Helper()
	answer, problem, code := d.control(d.env, "", args...)
	if code != 0 {
		d.Fatalf("%q: exit %d, %s", args, code, problem)
	}
	return answer
}

// prompts is how many prompts Herdr has got.
func (d *console) prompts() int { return len(commands(d, d.scene, "agent", "prompt")) }

// works lets the agent in a pane take the task, and be done with it.
func works(t testing.TB, s *fakeherdr.Scene, pane, task, says string) {
	t.Helper()
	submittedTo(t, s, pane, task)
	setStatus(t, s, pane, fakeherdr.Working)
	polled(t, s, 2)
	change(t, s, func(w *fakeherdr.World) { w.Pane(pane).Text = []string{says} })
	setStatus(t, s, pane, fakeherdr.Done)
}

// mesh.md §5.1: each command answers as its tool does.
func TestAgentControl(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	leased(t, d.scene, d.state, "w2:p1", leaseID("2"), nil)
	leased(t, d.scene, d.state, "w1:p1", leaseID("3"), func(m map[string]any) { m["controllerId"] = "other" })
	same := func(tool, args, command string) {
		t.Helper()
		out, _, _ := run(t, d.env, "", "agent-control", command)
		if want := string(d.server.answers(tool, args).StructuredContent) + "\n"; out != want {
			t.Errorf("%s prints\n%s, and the tool answers\n%s", command, out, want)
		}
	}
	same("herdr_lease_inventory", `{"controller_id":"lead"}`, "status")
	same("herdr_handoff_receipt_list", `{"controller_id":"lead"}`, "receipts")

	// Three ways to a message.
	file := filepath.Join(t.TempDir(), "message")
	if err := os.WriteFile(file, []byte("from a file\r\nof two lines"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args  []string
		stdin string
		task  string
	}{
		{[]string{"ask", "reviewer", "--", "look", "at  it"}, "", "look at  it"},
		{[]string{"ask", "reviewer", "--message-file", file}, "", "from a file\nof two lines"},
		{[]string{"ask", "--stdin", "reviewer"}, "from stdin", "from stdin"},
	} {
		done := make(chan struct{})
		var a handed
		go func() {
			defer close(done)
			answer, problem, code := d.control(d.env, test.stdin, test.args...)
			a = decoded(t, answer)
			if code != 0 || problem != "" {
				t.Errorf("%q: exit %d, %s", test.args, code, problem)
			}
		}()
		works(t, d.scene, "w1:p2", test.task, "about "+test.task)
		<-done
		if a.Mode != "all" || len(a.Completed) != 1 || a.Completed[0].Target != "reviewer" || a.Completed[0].Output != "about "+test.task+"\n" || a.Completed[0].CursorProof != "continuous" {
			t.Fatalf("%q: %+v", test.args, a)
		}
	}

	// Exit 3: answered, and not for all.
	answer, _, code := d.control(d.env, "", "ask-many", "--request", "reviewer=a=b", "--request=builder=c", "--timeout-ms", "1")
	a := decoded(t, answer)
	if code != 3 || len(a.Failed) != 2 || a.Failed[0].Target != "reviewer" {
		t.Fatalf("exit %d, %+v", code, a)
	}
	if all, err := d.scene.Submissions("w1:p2"); err != nil || all[len(all)-1].Text != "a=b" {
		t.Errorf("%v, %v", all, err)
	}
	if problem := d.fails(1, "RECEIPT_OUTSTANDING", d.env, "ask", "reviewer", "--", "secret words"); strings.Contains(problem, "secret") {
		t.Error(problem)
	}
	token := a.Failed[0].Receipt
	d.fails(1, "AGENT_NOT_SETTLED", d.env, "abandon", "--receipt", token) // it may be under way
	age(t, d.state, token)
	if answer := d.does("abandon", "--receipt", strings.ToUpper(token)); string(answer["failure"]) != `"abandoned"` || string(answer["receipt"]) != quoteJSON(token) {
		t.Errorf("%s", answer)
	}
	d.fails(1, "RECEIPT_WRONG_STATE", d.env, "collect", "--receipt", token)

	relayed := d.server.begin("herdr_relay", d.lease.showing(`,"target":"reviewer","text":"one more"`))
	submittedTo(t, d.scene, "w1:p2", "one more")
	setStatus(t, d.scene, "w1:p2", fakeherdr.Working)
	token = d.server.meshed(relayed).handed(t).PendingReceipts[0]
	before := d.prompts()
	answer, _, code = d.control(d.env, "", "collect", "--receipt", token, "--timeout-ms", "1")
	if a := decoded(t, answer); code != 3 || len(a.PendingReceipts) != 1 {
		t.Errorf("exit %d, %+v", code, a)
	}
	setStatus(t, d.scene, "w1:p2", fakeherdr.Done)
	if a := decoded(t, d.does("collect", "--receipt", token, "--mode", "first", "--read-lines", "1")); a.Mode != "first" || len(a.Completed) != 1 {
		t.Errorf("%+v", a)
	}
	if d.prompts() != before {
		t.Error("collect has prompted")
	}
	if list := d.does("receipts"); strings.Count(string(list["receipts"]), `"receipt":`) != 6 || !strings.Contains(string(list["receipts"]), token) {
		t.Errorf("%s", list)
	}

	// As a program of its own.
	link := filepath.Join(t.TempDir(), "herdr-agent-control")
	if err := os.Symlink(binaries.server, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(link, "receipts")
	cmd.Env = d.env.vars
	out, err := cmd.Output()
	if want, _, _ := run(t, d.env, "", "agent-control", "receipts"); err != nil || string(out) != want {
		t.Errorf("by its other name: %v, %s", err, out)
	}
	cmd = exec.Command(link, "--help")
	cmd.Env = d.env.vars
	if out, err := cmd.Output(); err != nil || !strings.HasPrefix(string(out), "Usage: herdr-link agent-control ") {
		t.Errorf("by its other name: %v, %s", err, out)
	}
	without(t, d.scene.Dir(), d.lease.FenceToken)
	without(t, d.state, d.lease.FenceToken)
}

func decoded(t testing.TB, answer map[string]json.RawMessage) (a handed) {
	t.Helper()
	text, _ := json.Marshal(answer)
	if err := json.Unmarshal(text, &a); err != nil || a.Completed == nil || a.Failed == nil || a.PendingReceipts == nil {
		t.Errorf("%v: %s", err, text)
	}
	return a
}

// age lets a receipt have been made long ago.
func age(t testing.TB, state, token string) {
	t.Helper()
	editRecord(t, filepath.Join(state, "handoff-receipts", strings.TrimPrefix(token, "herdr-receipt-v1.")+".json"), func(m map[string]any) {
		m["createdAt"] = "2026-01-01T00:00:00.000Z"
	})
}

func editRecord(t testing.TB, file string, edit func(map[string]any)) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&m); err != nil {
		t.Fatal(err)
	}
	edit(m)
	writeRecord(t, file, m)
}

// mesh.md §5, scenario 41: only what the controller's agent runs acts for it; to
// look needs no proof, and the record with the token is not opened.
func TestAgentControlProof(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	mutating := [][]string{
		{"ask", "reviewer", "--", "secret words"},
		{"ask-many", "--request", "reviewer=secret words"},
		{"collect", "--receipt", "herdr-receipt-v1." + leaseID("9")},
		{"abandon", "--receipt", "herdr-receipt-v1." + leaseID("9")},
	}
	refused := func(what, code string, env environment) {
		t.Helper()
		for _, args := range mutating {
			if problem := d.fails(1, code, env, args...); strings.Contains(problem, "secret") {
				t.Errorf("%s: %s", what, problem)
			}
		}
		if d.prompts() > 0 {
			t.Fatalf("%s: it was prompted", what)
		}
		if strings.HasPrefix(code, "CALLER") {
			return
		}
		for _, command := range []string{"status", "receipts"} {
			if _, problem, code := d.control(env, "", command); code != 0 {
				t.Errorf("%s: %s: exit %d, %s", what, command, code, problem)
			}
		}
	}
	record := filepath.Join(d.state, "controller-leases", "lead.json")
	whole, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	edited := func(edit func(map[string]any)) {
		t.Helper()
		if err := os.WriteFile(record, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		editRecord(t, record, edit)
	}
	process := func(edit func(map[string]any)) func(map[string]any) {
		return func(m map[string]any) { edit(m["controllerProcess"].(map[string]any)) }
	}

	d.fails(1, "RECEIPT_NOT_FOUND", d.env, mutating[3]...) // this test is the shell, and below it is fine
	for name, edit := range map[string]func(map[string]any){
		"a process id that was given out again": process(func(p map[string]any) { p["startTicks"] = "1" }),
		"a process from before a restart":       process(func(p map[string]any) { p["bootId"] = "another" }),
		"not below the agent":                   process(func(p map[string]any) { p["pid"] = d.server.cmd.Process.Pid }),
	} {
		edited(edit)
		refused(name, "ATTESTATION_FAILED", d.env)
	}
	edited(func(m map[string]any) { delete(m, "controllerProcess") })
	refused("no process", "ATTESTATION_MISSING", d.env)
	edited(func(m map[string]any) { m["agentName"] = "other" })
	refused("another agent", "CONTROLLER_IDENTITY_CHANGED", d.env)
	edited(func(m map[string]any) { m["expiresAt"] = "2026-01-01T00:00:00.000Z" })
	refused("expired", "CONTROLLER_EXPIRED", d.env)
	edited(func(m map[string]any) { m["state"], m["releasedAt"] = "released", m["acquiredAt"] })
	refused("released", "CONTROLLER_RELEASED", d.env)
	edited(func(map[string]any) {})
	refused("a sibling pane", "CONTROLLER_OTHER_PANE", d.with("HERDR_PANE_ID=w1:p2"))
	refused("another id", "CONTROLLER_NOT_FOUND", d.with("AGENT_CONTROL_CONTROLLER_ID=none"))

	refused("outside of Herdr", "CALLER_NOT_MANAGED", d.with("HERDR_ENV="))
	refused("no pane", "CALLER_NOT_MANAGED", d.with("HERDR_PANE_ID=--session"))
	for _, command := range []string{"status", "receipts"} {
		d.fails(1, "CALLER_NOT_MANAGED", d.with("HERDR_PANE_ID="), command)
		d.fails(1, "CALLER_NOT_MANAGED", d.with("HERDR_ENV="), command)
		d.fails(2, "INVALID_ARGUMENT", d.with("AGENT_CONTROL_CONTROLLER_ID=a/b"), command)
		d.fails(2, "INVALID_ARGUMENT", d.with("AGENT_CONTROL_CONTROLLER_ID="), command)
	}
	d.fails(2, "INVALID_ARGUMENT", d.with("HERDR_MESH_STATE_DIR=relative"), "status")

	// What nobody can read is not missed by those who only look.
	if err := os.Remove(record); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(record, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("no record that could be read", "STATE_INSECURE", d.env)
}

// The same, with an agent between the shell and the server: what the agent runs
// may act, and what the shell runs may not.
func TestAgentControlBelow(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	state, variable := stateOf(t)
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p1").Shell = os.Getpid() })
	env := inPane(t, s, "w1:p1", variable, "AGENT_CONTROL_CONTROLLER_ID=lead", "HERDR_LINK_OFF=1")
	const agent = `"$0" --toolsets mesh; "$0" agent-control ask reviewer -- "from below"; echo "exit $?"`
	h := startProgram(t, env, "/bin/sh", "-c", agent, binaries.server)
	h.initialize("2025-11-25")
	m := h.answers("herdr_controller_acquire", asking(""))
	if !strings.Contains(string(m.data["lease"]), fmt.Sprintf(`"controllerProcess":{"pid":%d,`, h.cmd.Process.Pid)) {
		t.Fatalf("the agent is another process: %s", m.StructuredContent)
	}
	leased(t, s, state, "w1:p2", leaseID("1"), nil)
	_, errs, code := run(t, env, "", "agent-control", "ask", "reviewer", "--", "from the shell")
	if code != 1 || !strings.Contains(errs, "ATTESTATION_FAILED") || len(commands(t, s, "agent", "prompt")) > 0 {
		t.Errorf("a sibling of the agent: exit %d, %s", code, errs)
	}
	h.stdin.Close()
	works(t, s, "w1:p2", "from below", "fine")
	var answer string
	for line := range h.lines {
		if exit, ok := strings.CutPrefix(line, "exit "); ok {
			if exit != "0\n" || !strings.Contains(answer, `"output":"fine\n"`) {
				t.Errorf("exit %s after %s, %s", exit, answer, h.stderr)
			}
			return
		}
		answer = line
	}
	t.Error("the agent has not run it")
}

// What is given is checked before anything is looked at, and none of it is told.
func TestAgentControlRefuses(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"large": strings.Repeat("secret ", 10000), "lines": strings.Repeat("\r\n", 40000), "keys": "secret \x1b[201~\r", "latin": "secret \xe4", "empty": ""} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/dev/zero", path("link")); err != nil {
		t.Fatal(err)
	}
	before := len(commands(t, d.scene))
	nowhere := d.with("HERDR_ENV=", "HERDR_BIN_PATH=/nowhere", "AGENT_CONTROL_CONTROLLER_ID=") // and yet what is wrong comes first
	for name, code := range map[string]string{
		"pipe": "INVALID_ARGUMENT", "link": "INVALID_ARGUMENT", "none": "INVALID_ARGUMENT", ".": "INVALID_ARGUMENT", "empty": "INVALID_ARGUMENT",
		"large": "MESSAGE_TOO_LARGE", "lines": "MESSAGE_TOO_LARGE", "keys": "MESSAGE_FORBIDDEN_BYTES", "latin": "MESSAGE_FORBIDDEN_BYTES",
	} {
		begun := time.Now()
		if problem := d.fails(2, code, nowhere, "ask", "reviewer", "--message-file", path(name)); strings.Contains(problem, "secret") || strings.Contains(problem, dir) {
			t.Errorf("%s: %s", name, problem)
		}
		if took := time.Since(begun); took > patience/2 {
			t.Errorf("%s: it took %v", name, took)
		}
	}
	for text, code := range map[string]string{"": "INVALID_ARGUMENT", strings.Repeat("x", 65537): "MESSAGE_TOO_LARGE", "secret \a": "MESSAGE_FORBIDDEN_BYTES"} {
		if _, problem, exit := d.control(nowhere, text, "ask", "reviewer", "--stdin"); exit != 2 || !strings.HasPrefix(problem, code+": ") || strings.Contains(problem, "secret") {
			t.Errorf("%d bytes on stdin: exit %d, %s", len(text), exit, problem)
		}
	}
	for _, args := range [][]string{{}, {"close", "reviewer"}, {"status", "x"}, {"ask", "reviewer", "secret"}, {"ask", "reviewer", "--secret", "--", "x"},
		{"ask-many", "--request", "secret"}, {"collect", "--receipt", "secret"}, {"abandon"}, {"unlock"}} {
		_, problem, exit := d.control(nowhere, "", args...)
		if exit != 2 || strings.Contains(problem, "secret") {
			t.Errorf("%q: exit %d, %s", args, exit, problem)
		}
	}
	if len(commands(t, d.scene)) != before {
		t.Errorf("herdr ran: %q", commands(t, d.scene)[before:])
	}
	d.fails(1, "LEASE_NOT_RETAINED", d.env, "ask", "builder", "--", "x")
	fault(t, d.scene, fakeherdr.Down)
	d.fails(1, "HERDR_SERVER_DOWN", d.env, "status")
	d.fails(1, "HERDR_SERVER_DOWN", d.env, "ask", "reviewer", "--", "x")

	// A pipe that gives nothing ends with the command.
	cmd := exec.Command(binaries.server, "agent-control", "ask", "reviewer", "--stdin")
	cmd.Env = d.env.vars
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its start", func() bool { return len(d.env.alive()) > 0 })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 && code != -1 { // -1: before it listens to signals
		t.Errorf("exit %d", code)
	}
}

// mesh.md §5.1: a person may clear the lock, wherever that is; the rows are tested
// in mesh/lock.
func TestAgentControlUnlock(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	outside := inPane(t, nil, "", "HERDR_MESH_STATE_DIR="+d.state)
	unlocks := func(state string) (moved string) {
		t.Helper()
		answer, problem, code := d.control(outside, "", "unlock", "--confirm")
		var was struct{ State, Reason string }
		if code != 0 || json.Unmarshal(answer["was"], &was) != nil || was.State != state || was.Reason == "" {
			t.Fatalf("exit %d, %s, %s", code, answer, problem)
		}
		if answer["movedTo"] != nil {
			_ = json.Unmarshal(answer["movedTo"], &moved)
		}
		return moved
	}
	if moved := unlocks("absent"); moved != "" {
		t.Error(moved)
	}
	claim := filepath.Join(d.state, "controller-leases", ".reservation-lock")
	if err := os.Mkdir(claim, 0o700); err != nil {
		t.Fatal(err)
	}
	d.server.refuses("LOCK_INDETERMINATE", "herdr_controller_renew", d.lease.showing(""))
	if moved := unlocks("indeterminate"); filepath.Dir(moved) != filepath.Join(d.state, "quarantine") {
		t.Errorf("moved to %q", moved)
	}
	d.server.answers("herdr_controller_renew", d.lease.showing(""))

	if err := os.Mkdir(claim, 0o700); err != nil {
		t.Fatal(err)
	}
	hostname, _ := os.Hostname()
	owner := fmt.Sprintf(`{"version":2,"lockId":"x","pid":%d,"hostname":%q,"acquiredAt":"2026-01-01T00:00:00.000Z"}`, os.Getpid(), hostname)
	if err := os.WriteFile(filepath.Join(claim, "owner.json"), []byte(owner), 0o644); err != nil {
		t.Fatal(err)
	}
	if problem := d.fails(1, "LOCK_BUSY", outside, "unlock", "--confirm"); strings.Contains(problem, fmt.Sprint(os.Getpid())) {
		t.Error(problem)
	}
	if entries, err := os.ReadDir(filepath.Join(d.state, "quarantine")); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}
