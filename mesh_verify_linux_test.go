package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/mesh/sandbox"
	"herdr-link/twin"
)

// A checked is a writer's lane with a repository whose gates are scripts of the
// test, and a server whose agent is the controller.
type checked struct {
	*host
	t                    *testing.T
	s                    *fakeherdr.Scene
	state, home, tree    string
	base, head           string
	lease                meshLease
	writer, worker, pane string
}

// A verdict is a record of a verification in an answer.
type verdict struct {
	RunID, State, Failure, FailureCode, SelectedGate, StdoutTail, StderrTail string
	WorktreeSHA256, AfterWorktreeSHA256, StdoutSHA256, WriterLeaseID         string
	StartedAt, CompletedAt                                                   string
	Command, BootstrapPythonLocks                                            []string
	ExitCode                                                                 *int
	DurationMs                                                               int64
	BootstrapWeb                                                             bool
}

// check makes all that a verification needs. The gate is check-fast.
func check(t *testing.T) *checked {
	t.Helper()
	if err := new(sandbox.Sandbox).Find(t.Context()); err != nil {
		t.Skipf("%v (apt-get install bubblewrap)", err)
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &checked{t: t, s: newScene(t), state: filepath.Join(root, "state"), home: filepath.Join(root, "home"), tree: filepath.Join(root, "lane"), writer: leaseID("7"), worker: "reviewer", pane: "w1:p2"}
	c.put(".local/bin/uv", "#!/bin/sh\ncase $1 in\nrun) shift; exec \"$@\" ;;\npip) . \"${0%/*}/gates/pip\" ;;\nesac\n")
	c.put(".local/bin/mise", "#!/bin/sh\n. \"${0%/*}/gates/mise\"\n")
	c.put(".local/bin/just", "#!/bin/sh\nname=$1\nshift\n. \"${0%/*}/gates/$name\"\n")
	c.gate("verification-plan", `[ "$1 $2" = "--base `+"$base"+`" ] || exit 65; echo 'Minimum final gate: just check-fast'`)
	c.gate("check-fast", "echo printed; printf '\\033[31mwarned\\033[0m\\n' >&2")
	repo := filepath.Join(root, "repo")
	c.git(root, "init", "-q", "-b", "main", repo)
	c.file(repo, "a.txt", "one\n")
	c.file(repo, ".gitignore", "*.log\nnode_modules\n")
	c.git(repo, "add", ".")
	c.git(repo, "commit", "-qm", "one")
	c.git(repo, "worktree", "add", "-q", "-b", "work", c.tree)
	c.base = c.git(repo, "rev-parse", "HEAD")
	c.file(c.tree, "b.txt", "two\n")
	c.git(c.tree, "add", ".")
	c.git(c.tree, "commit", "-qm", "two")
	c.head = c.git(c.tree, "rev-parse", "HEAD")
	c.file(c.tree, "c.txt", "three\n")
	c.gate("verification-plan", `[ "$1 $2" = "--base `+c.base+`" ] || exit 65; echo 'Minimum final gate: just check-fast'`)

	change(t, c.s, func(w *fakeherdr.World) { w.Pane(c.pane).Cwd = c.tree })
	w, err := c.s.World()
	if err != nil {
		t.Fatal(err)
	}
	p := w.Pane(c.pane)
	c.host = coordinate(t, c.s, "w1:p1", "HERDR_MESH_STATE_DIR="+c.state, "HOME="+c.home, "HERDR_LINK_LOG="+filepath.Join(root, "log"))
	c.lease = c.answers("herdr_controller_acquire", asking("")).lease(t)
	writeRecord(t, filepath.Join(c.state, "writer-leases", c.writer+".json"), map[string]any{
		"version": 1, "leaseType": "writer", "leaseId": c.writer, "controllerId": "lead", "purpose": "work", "parentPaneId": "w1:p1", "paneId": p.ID,
		"agentName": p.Agent.Name, "agentKind": p.Agent.Kind, "state": "active", "createdAt": "2026-01-02T03:04:05.678Z", "terminalId": p.Terminal,
		"ticketRef": "T-7", "authorityRef": "T-1", "authoritySha256": anyDigest, "repositoryRoot": repo, "gitDir": filepath.Join(repo, ".git", "worktrees", "lane"),
		"gitCommonDir": filepath.Join(repo, ".git"), "worktree": c.tree, "branch": "work", "baseCommit": c.base, "headCommit": c.head,
		"gitStatusSha256": c.status(), "ownedScopes": []string{"b.txt"}, "lockedScopes": []string{}, "protectedBranches": []string{"main"},
	})
	return c
}

// put writes a program of the test's home.
func (c *checked) put(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.home, name)
	syscall.ForkLock.RLock() // a child that another test forks must not have it open
	defer syscall.ForkLock.RUnlock()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o700)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// gate writes what just does for that name: lines of a shell in the worktree.
func (c *checked) gate(name, script string) { c.put(".local/bin/gates/"+name, script+"\n") }

func (c *checked) file(dir, name, text string) {
	c.t.Helper()
	path := filepath.Join(dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *checked) git(dir string, args ...string) string {
	c.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+c.home, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("git %q: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// status is the digest of what git status prints.
func (c *checked) status() string {
	c.t.Helper()
	cmd := exec.Command("git", "-C", c.tree, "status", "--porcelain=v1", "--untracked-files=all")
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatal(err)
	}
	sum := sha256.Sum256(out)
	return hex.EncodeToString(sum[:])
}

// facts are the arguments of a snapshot beside the controller's id.
func (c *checked) facts() string {
	return fmt.Sprintf(`,"lease_id":%q,"base_commit":%q,"expected_head":%q,"expected_status_sha256":%q`, c.writer, c.base, c.head, c.status())
}

func (c *checked) digest() (digest string) {
	c.t.Helper()
	m := c.answers("herdr_owned_worker_verification_snapshot", `{"controller_id":"lead"`+c.facts()+`}`)
	_ = json.Unmarshal(m.data["worktreeSha256"], &digest)
	return digest
}

// wanting are the arguments of verify, for what the worktree is now.
func (c *checked) wanting(more string) string {
	c.t.Helper()
	return c.lease.showing(c.facts() + fmt.Sprintf(`,"expected_worktree_sha256":%q%s`, c.digest(), more))
}

// verdict is the record in an answer of verify, which must have been one.
func (c *checked) verdict(m meshed) (v verdict) {
	c.t.Helper()
	success(c.t, m)
	if err := json.Unmarshal(m.data["record"], &v); err != nil {
		c.t.Fatalf("%v: %s", err, m.StructuredContent)
	}
	_ = json.Unmarshal(m.data["stdoutTail"], &v.StdoutTail)
	_ = json.Unmarshal(m.data["stderrTail"], &v.StderrTail)
	return v
}

func (c *checked) verify(more string) verdict {
	c.t.Helper()
	return c.verdict(c.answers("herdr_owned_worker_verify", c.wanting(more)))
}

// listed are the runs that the list of a server has.
func (c *checked) listed(h *host) (all []verdict) {
	c.t.Helper()
	m := h.answers("herdr_owned_worker_verification_list", `{}`)
	if err := json.Unmarshal(m.data["records"], &all); err != nil || string(m.data["invalidRecords"]) != "[]" {
		c.t.Fatalf("%v: %s", err, m.StructuredContent)
	}
	return all
}

// running begins a verification whose gate shows that it runs, and never ends.
func (c *checked) running() (id string) {
	c.t.Helper()
	c.gate("check-fast", "echo begun; : > gate.log; sleep 1000 & sleep 1000")
	id = c.begin("herdr_owned_worker_verify", c.wanting(""))
	eventually(c.t, "the gate", func() bool { _, err := os.Stat(filepath.Join(c.tree, "gate.log")); return err == nil })
	return id
}

// sandboxed are the processes of this test's gates. Their environment is not the
// server's.
func (c *checked) sandboxed() (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range dirs {
		line, err := os.ReadFile(path)
		cwd, _ := os.Readlink(filepath.Join(filepath.Dir(path), "cwd"))
		if err == nil && len(line) > 0 && (strings.Contains(string(line), c.tree) || cwd == c.tree) {
			var pid int
			_, _ = fmt.Sscanf(path, "/proc/%d/", &pid)
			pids = append(pids, pid)
		}
	}
	return pids
}

func (c *checked) scratch() []string {
	left, _ := filepath.Glob(filepath.Join(c.state, "gate-*", "*"))
	return left
}

func TestMeshVerify(t *testing.T) {
	t.Parallel()
	c := check(t)
	m := c.answers("herdr_bridge_status", "{}")
	if !strings.Contains(string(m.data["capabilities"]), `"owned-worker-host-verification-v1","python-requirements-bootstrap-v1"`) || !strings.Contains(string(m.data["platform"]), `"hostVerification":true`) {
		t.Errorf("%s", m.StructuredContent)
	}
	m = c.answers("herdr_owned_worker_verification_snapshot", `{"controller_id":"lead"`+c.facts()+`}`)
	for name, want := range map[string]string{
		"controllerId": "lead", "writerLeaseId": c.writer, "ticketRef": "T-7", "branch": "work", "baseCommit": c.base, "headCommit": c.head, "gitStatusSha256": c.status(),
	} {
		if string(m.data[name]) != `"`+want+`"` {
			t.Errorf("%s: %s", name, m.data[name])
		}
	}
	// A UUID and hexadecimal digits may be of capitals.
	big := c.answers("herdr_owned_worker_verification_snapshot", fmt.Sprintf(`{"controller_id":"lead","lease_id":%q,"base_commit":%q,"expected_head":%q,"expected_status_sha256":%q}`,
		strings.ToUpper(c.writer), strings.ToUpper(c.base), strings.ToUpper(c.head), strings.ToUpper(c.status())))
	if string(big.StructuredContent) != string(m.StructuredContent) {
		t.Errorf("%s", big.StructuredContent)
	}
	v := c.verify("")
	if v.State != "passed" || v.ExitCode == nil || *v.ExitCode != 0 || v.SelectedGate != "check-fast" || strings.Join(v.Command, " ") != "uv run just check-fast" ||
		v.StdoutTail != "printed\n" || v.StderrTail != "warned\n" || v.AfterWorktreeSHA256 != v.WorktreeSHA256 || v.FailureCode != "" || v.Failure != "" || v.CompletedAt < v.StartedAt {
		t.Errorf("%+v", v)
	}
	sum := sha256.Sum256([]byte("printed\n"))
	if v.StdoutSHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("stdout %s", v.StdoutSHA256)
	}
	if left := c.scratch(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if all := c.listed(c.host); len(all) != 1 || all[0].RunID != v.RunID || all[0].StdoutTail != "printed\n" {
		t.Errorf("%+v", all)
	}
	other := coordinate(t, c.s, "w2:p1", "HERDR_MESH_STATE_DIR="+c.state)
	if all := c.listed(other); len(all) != 1 || all[0].State != "passed" || all[0].StdoutTail != "" {
		t.Errorf("%+v", all)
	}
	out, errs, code := run(t, c.env, c.wanting(""), "call", "herdr_owned_worker_verify", "--toolsets", "mesh")
	if code != 0 || errs != "" || !strings.Contains(out, `"state":"passed"`) {
		t.Errorf("alone: exit %d, %q, %s", code, errs, out)
	}
	without(t, c.state, c.lease.FenceToken, "printed", "warned")
	without(t, filepath.Dir(c.state)+"/log", c.lease.FenceToken, "check-fast", c.tree)
}

// mesh.md §8, 44 and 45, and all other ends that a run may come to by itself.
func TestMeshVerifyEnds(t *testing.T) {
	t.Parallel()
	c := check(t)
	plan := func(lines string) func() { return func() { c.gate("verification-plan", lines) } }
	gate := func(script string) func() { return func() { c.gate("check-fast", script) } }
	const line = "Minimum final gate: just "
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	for _, test := range []struct {
		name                      string
		do                        func()
		state, code, gate, stdout string
	}{
		{"a failed gate", gate("echo no; exit 3"), "failed", "", "check-fast", "no\n"},
		{"a gate that is not there", plan("echo '" + line + "check-docs'"), "failed", "", "check-docs", ""},
		{"two gates", plan("echo '" + line + "check-fast'; echo '" + line + "check-docs'"), "preflight_failed", "PLAN_AMBIGUOUS", "", line + "check-fast\n" + line + "check-docs\n"},
		{"one gate twice", plan("echo '" + line + "check-fast'; echo '" + line + "check-fast'"), "preflight_failed", "PLAN_AMBIGUOUS", "", line + "check-fast\n" + line + "check-fast\n"},
		{"no gate", plan("echo check-fast"), "preflight_failed", "PLAN_AMBIGUOUS", "", "check-fast\n"},
		{"a gate with arguments", plan("echo '" + line + "check-fast --all'"), "preflight_failed", "PLAN_AMBIGUOUS", "", line + "check-fast --all\n"},
		{"a gate that needs more", plan("echo '" + line + "check-integration'"), "preflight_failed", "GATE_NOT_LOCAL", "check-integration", line + "check-integration\n"},
		{"a plan that fails", plan("echo '" + line + "check-fast'; exit 1"), "failed", "PLAN_FAILED", "", line + "check-fast\n"},
		{"a gate that edits", gate("echo x >> b.txt"), "invalidated", "CONTENT_CHANGED", "check-fast", ""},
		{"a gate that fails and adds", gate("echo x > d.txt; exit 1"), "invalidated", "CONTENT_CHANGED", "check-fast", ""},
		{"a gate that edits what is new", gate("echo x >> c.txt"), "invalidated", "CONTENT_CHANGED", "check-fast", ""},
		{"a plan that edits", plan("echo x >> b.txt; echo '" + line + "check-fast'"), "invalidated", "CONTENT_CHANGED", "check-fast", line + "check-fast\n"},
		{"a gate that writes what Git ignores", gate("echo x > d.log"), "passed", "", "check-fast", ""},
		{"a connection", gate("bash -c ': < /dev/tcp/192.0.2.1/80' 2>/dev/null || { echo none; exit 1; }"), "failed", "", "check-fast", "none\n"},
		{"a connection to this host", gate("bash -c ': < /dev/tcp/127.0.0.1/" + port + "' 2>/dev/null || { echo none; exit 1; }"), "failed", "", "check-fast", "none\n"},
		{"a name", gate("getent hosts example.org || { echo none; exit 1; }"), "failed", "", "check-fast", "none\n"},
		{"a gate that cannot see the home", gate("ls '" + c.home + "/secret' 2>/dev/null || echo hidden"), "passed", "", "check-fast", "hidden\n"},
		{"a gate that looks at its variables", gate("env | grep -c HERDR; :"), "passed", "", "check-fast", "0\n"},
	} {
		c.gate("verification-plan", "echo '"+line+"check-fast'")
		c.gate("check-fast", "echo printed")
		c.file(c.home, "secret", "x")
		c.git(c.tree, "checkout", "-q", "b.txt")
		_ = os.Remove(filepath.Join(c.tree, "d.txt"))
		c.file(c.tree, "c.txt", "three\n")
		test.do()
		v := c.verify("")
		if v.State != test.state || v.FailureCode != test.code || v.SelectedGate != test.gate || v.StdoutTail != test.stdout || (v.Failure == "") != (test.state == "passed") {
			t.Errorf("%s: %+v", test.name, v)
		}
		if strings.Contains(v.Failure, c.home) || strings.Contains(v.Failure, "uv") || len(c.scratch()) > 0 {
			t.Errorf("%s: %q, left %q", test.name, v.Failure, c.scratch())
		}
		changed := v.FailureCode == "CONTENT_CHANGED"
		if after := v.AfterWorktreeSHA256; changed && after == "" || after != "" && changed == (after == v.WorktreeSHA256) {
			t.Errorf("%s: %s, %s", test.name, v.WorktreeSHA256, v.AfterWorktreeSHA256)
		}
	}
	if err := os.Remove(filepath.Join(c.home, ".local/bin/uv")); err != nil {
		t.Fatal(err)
	}
	if v := c.verify(""); v.State != "failed" || v.FailureCode != "PLAN_FAILED" || !strings.Contains(v.Failure, "could not be started") || !strings.Contains(v.StderrTail, "uv") {
		t.Errorf("without uv: %+v", v)
	}
	// The last 8 have their output here, and the others no more.
	texts := 0
	for _, v := range c.listed(c.host) {
		if v.StdoutTail != "" {
			texts++
		}
	}
	if texts == 0 || texts > 8 {
		t.Errorf("%d runs with output", texts)
	}
}

// What is refused leaves no record, and says what is the case.
func TestMeshVerifyRefuses(t *testing.T) {
	t.Parallel()
	c := check(t)
	other := strings.Repeat("0", 40)
	const snapshot, verify, list = "herdr_owned_worker_verification_snapshot", "herdr_owned_worker_verify", "herdr_owned_worker_verification_list"
	facts, digest := c.facts(), c.digest()
	show := func(facts string) string { return `{"controller_id":"lead"` + facts + `}` }
	with := func(old, new string) string { return strings.ReplaceAll(facts, old, new) }
	refuses := func(code, facts string) {
		t.Helper()
		c.refuses(code, snapshot, show(facts))
		c.refuses(code, verify, c.lease.showing(facts+`,"expected_worktree_sha256":"`+digest+`"`))
	}
	both := func(m meshed, expected, current string) {
		t.Helper()
		if string(m.fault.Details["expected"]) != expected || string(m.fault.Details["current"]) != current {
			t.Errorf("%s", m.StructuredContent)
		}
	}
	refuses("LEASE_NOT_FOUND", with(c.writer, leaseID("9")))
	refuses("HEAD_MISMATCH", with(c.head, other))
	refuses("BASE_NOT_ANCESTOR", with(c.base, other))
	refuses("STATUS_DIGEST_MISMATCH", with(c.status(), anyDigest))
	both(c.refuses("HEAD_MISMATCH", snapshot, show(with(c.head, other))), `"`+other+`"`, `"`+c.head+`"`)
	both(c.refuses("BASE_NOT_ANCESTOR", snapshot, show(with(c.base, other))), `"`+other+`"`, `"`+c.base+`"`)
	both(c.refuses("CONTENT_DIGEST_MISMATCH", verify, c.lease.showing(facts+`,"expected_worktree_sha256":"`+anyDigest+`"`)), `"`+anyDigest+`"`, `"`+digest+`"`)
	c.refuses("LEASE_OTHER_CONTROLLER", snapshot, `{"controller_id":"other"`+facts+`}`)
	for _, args := range []string{
		`,"timeout_seconds":59`, `,"timeout_seconds":7201`, `,"bootstrap_web":1`, `,"bootstrap_python_locks":["a","b","c","d","e","f","g","h","i"]`,
		`,"bootstrap_python_locks":["` + strings.Repeat("a", 257) + `"]`, `,"command":"x"`,
	} {
		c.refuses("INVALID_ARGUMENT", verify, c.wanting(args))
	}
	c.refuses("INVALID_ARGUMENT", list, `{"limit":0}`)
	c.refuses("INVALID_ARGUMENT", snapshot, show(with(c.base, c.base[1:])))
	for _, status := range []string{fakeherdr.Working, fakeherdr.Blocked} {
		setStatus(t, c.s, c.pane, status)
		refuses("AGENT_NOT_SETTLED", facts)
	}
	setStatus(t, c.s, c.pane, fakeherdr.Done)
	old := c.lease
	c.lease.FenceToken = leaseID("1")
	c.refuses("FENCE_MISMATCH", verify, c.wanting(""))
	c.lease = old
	change(t, c.s, func(w *fakeherdr.World) { w.Pane(c.pane).Agent.Name = "else" })
	refuses("LEASE_IDENTITY_CHANGED", facts)
	change(t, c.s, func(w *fakeherdr.World) { w.Pane(c.pane).Agent.Name = c.worker })
	c.git(c.tree, "checkout", "-q", "--detach")
	refuses("DETACHED_HEAD", facts)
	c.git(c.tree, "checkout", "-q", "work")
	record := filepath.Join(c.state, "writer-leases", c.writer+".json")
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	for code, edit := range map[string][2]string{
		"LEASE_WRONG_STATE": {`"state": "active"`, `"state": "releasing"`}, "BRANCH_PROTECTED": {`"main"`, `"work"`}, "BRANCH_MISMATCH": {`"branch": "work"`, `"branch": "play"`},
		"WORKTREE_MOVED": {`"worktree": "` + c.tree, `"worktree": "` + c.tree + "/../lane"}, "LEASE_OTHER_SESSION": {`"version": 1`, `"herdrSocket": "/elsewhere", "version": 1`},
	} {
		if err := os.WriteFile(record, []byte(strings.Replace(string(text), edit[0], edit[1], 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		refuses(code, facts)
	}
	if err := os.WriteFile(record, text, 0o600); err != nil {
		t.Fatal(err)
	}
	outside := coordinate(t, c.s, "", "HERDR_MESH_STATE_DIR="+c.state, "HOME="+c.home)
	outside.answers(snapshot, show(facts))
	outside.refuses("CALLER_NOT_MANAGED", verify, c.wanting(""))
	coordinate(t, c.s, "w1:p1", "HERDR_MESH_STATE_DIR="+c.state, "HOME="+c.home, "HERDR_LINK_VERIFY_NODE=latest").refuses("VERIFY_UNAVAILABLE", verify, c.wanting(""))
	if left, _ := filepath.Glob(filepath.Join(c.state, "verification-runs", "*")); len(left) > 0 || len(c.listed(c.host)) > 0 {
		t.Errorf("there are runs: %q", left)
	}
	c.verify("")
	without(t, c.state, c.lease.FenceToken)
}

// mesh.md §8, 47 and 60: while a gate runs nobody gives its worker a task, and
// whatever ends the run, nothing of it is left, and its record says so.
func TestMeshVerifyInterrupted(t *testing.T) { // not beside other tests, since time counts
	list := func(t *testing.T, c *checked) verdict {
		t.Helper()
		next := coordinate(t, c.s, "w1:p1", "HERDR_MESH_STATE_DIR="+c.state, "HOME="+c.home)
		all := c.listed(next)
		if len(all) != 1 || all[0].State != "invalidated" || all[0].FailureCode != "INTERRUPTED" || all[0].CompletedAt == "" {
			t.Errorf("%+v", all)
		}
		return all[0]
	}
	// onDisk is the state in the record itself, and where that is.
	onDisk := func(t *testing.T, c *checked, run string) (state, folder string) {
		t.Helper()
		for _, folder := range []string{"verification-runs", "verification-runs/archive"} {
			text, err := os.ReadFile(filepath.Join(c.state, folder, run+".json"))
			var v verdict
			if err == nil && json.Unmarshal(text, &v) == nil {
				return v.State, folder
			}
		}
		return "", ""
	}
	t.Run("SIGTERM", func(t *testing.T) {
		t.Parallel()
		soon(t, func() time.Duration {
			c := check(t)
			c.running()
			if len(c.sandboxed()) < 3 {
				t.Fatalf("%d processes of the gate", len(c.sandboxed()))
			}
			begun := time.Now()
			if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the end of all processes", func() bool { return len(c.sandboxed()) == 0 && len(c.env.alive()) == 0 })
			took := time.Since(begun)
			c.wait()
			if state, _ := onDisk(t, c, list(t, c).RunID); state != "invalidated" && !twin.RaceDetector {
				t.Errorf("on disk: %s", state)
			}
			return took
		})
	})
	t.Run("SIGKILL", func(t *testing.T) {
		t.Parallel()
		c := check(t)
		c.running()
		if err := c.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		c.wait()
		eventually(t, "the end of all processes", func() bool { return len(c.sandboxed()) == 0 })
		old := list(t, c)
		if state, folder := onDisk(t, c, old.RunID); state != "running" || folder != "verification-runs" || len(c.scratch()) != 2 {
			t.Errorf("%s in %s, scratch %q", state, folder, c.scratch())
		}
		c.host = coordinate(t, c.s, "w1:p1", "HERDR_MESH_STATE_DIR="+c.state, "HOME="+c.home)
		c.gate("check-fast", "echo printed")
		if v := c.verify(""); v.State != "passed" {
			t.Errorf("%+v", v)
		}
		if state, folder := onDisk(t, c, old.RunID); state != "invalidated" || folder != "verification-runs/archive" || len(c.scratch()) > 0 {
			t.Errorf("%s in %s, scratch %q", state, folder, c.scratch())
		}
	})
	t.Run("end of input", func(t *testing.T) {
		t.Parallel()
		c := check(t)
		id := c.running()
		c.stdin.Close()
		if v := c.verdict(c.meshed(id)); v.State != "invalidated" || v.FailureCode != "INTERRUPTED" || v.StdoutTail != "begun\n" {
			t.Errorf("%+v", v)
		}
		if code := c.wait(); code != 0 || len(c.sandboxed()) > 0 || len(c.scratch()) > 0 {
			t.Errorf("exit %d, %d processes, scratch %q", code, len(c.sandboxed()), c.scratch())
		}
		if state, _ := onDisk(t, c, list(t, c).RunID); state != "invalidated" {
			t.Errorf("on disk: %s", state)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		c := check(t)
		id := c.running()
		leased(t, c.s, c.state, "w2:p1", leaseID("2"), nil) // a worker that nothing is verified of
		w, err := c.s.World()
		if err != nil {
			t.Fatal(err)
		}
		facts := fmt.Sprintf(`,"lease_id":%q,"base_commit":%q,"expected_head":%q,"expected_status_sha256":%q`, c.writer, c.base, c.base, anyDigest)
		ending := fmt.Sprintf(`,"lease_id":%q,"expected_head":%q,"expected_status_sha256":%q,"checkpoint_ref":"C-1","checkpoint_sha256":%q`, c.writer, c.base, anyDigest, anyDigest)
		for _, call := range [][2]string{
			{"herdr_relay", c.lease.showing(`,"target":"` + c.worker + `","text":"hi"`)},
			// No git looks at what the gate writes: that the commit is another one is not seen.
			{"herdr_owned_worker_verification_snapshot", `{"controller_id":"lead"` + facts + `}`},
			{"herdr_owned_worker_verify", c.lease.showing(facts + `,"expected_worktree_sha256":"` + anyDigest + `"`)},
			{"herdr_owned_worker_release", c.lease.showing(ending + fmt.Sprintf(`,"expected_state_change_seq":%d`, w.Pane(c.pane).Agent.StateChangeSeq))},
			{"herdr_owned_worker_release", c.lease.showing(ending + `,"agent_exited":true`)},
			{"herdr_lease_reconcile", c.lease.showing(ending + `,"lease_type":"writer"`)},
		} {
			c.refuses("VERIFY_RUNNING", call[0], call[1])
		}
		c.answers("herdr_lease_reconcile", c.lease.reconciling("writer", c.writer, "")).reconciled(t, "preserved_live_pane", "")
		if m := c.refuses("LANE_RETAINED", "herdr_owned_worker_start", c.lease.showing(`,"purpose":"x","ticket_ref":"T","authority_ref":"A","authority_sha256":"`+anyDigest+`","parent_pane_id":"w1:p1",`+
			`"worktree":"`+c.tree+`","branch":"x","base_commit":"`+c.base+`","expected_head":"`+c.base+`","expected_status_sha256":"`+anyDigest+`","owned_scopes":["x"],"locked_scopes":[],`+
			`"protected_branches":["main"],"name":"x","kind":"codex"`)); string(m.fault.Details["leaseId"]) != `"`+c.writer+`"` {
			t.Errorf("%s", m.StructuredContent)
		}
		if all := c.listed(c.host); len(all) != 1 || all[0].State != "running" || all[0].StdoutTail != "" {
			t.Errorf("%+v", all)
		}
		c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		eventually(t, "the end of the run", func() bool { return c.listed(c.host)[0].State != "running" })
		if v := c.listed(c.host)[0]; v.FailureCode != "INTERRUPTED" || v.StdoutTail != "begun\n" {
			t.Errorf("%+v", v)
		}
		eventually(t, "the end of its scratch", func() bool { return len(c.scratch()) == 0 })
		if len(c.sandboxed()) > 0 {
			t.Error("the gate still runs")
		}
		c.gate("check-fast", "echo printed")
		if v := c.verify(""); v.State != "passed" {
			t.Errorf("%+v", v)
		}
	})
}

// What happens to controller and worker during a run voids it.
func TestMeshVerifyVoid(t *testing.T) {
	t.Parallel()
	c := check(t)
	// until begins a run whose gate goes on until there is a file of that name.
	until := func(name string) (id string) {
		c.gate("check-fast", "echo begun; : > "+name+".began.log; until [ -e "+name+".log ]; do sleep 0.05; done")
		id = c.begin("herdr_owned_worker_verify", c.wanting(""))
		eventually(t, "the gate", func() bool { _, err := os.Stat(filepath.Join(c.tree, name+".began.log")); return err == nil })
		return id
	}
	ends := func(id, name, code string) {
		t.Helper()
		c.file(c.tree, name+".log", "")
		if v := c.verdict(c.meshed(id)); v.State != "invalidated" || v.FailureCode != code || v.ExitCode == nil || *v.ExitCode != 0 {
			t.Errorf("%s: %+v", name, v)
		}
	}
	id := until("turn")
	setStatus(t, c.s, c.pane, fakeherdr.Working)
	setStatus(t, c.s, c.pane, fakeherdr.Done)
	ends(id, "turn", "CURSOR_MOVED")
	id = until("work")
	setStatus(t, c.s, c.pane, fakeherdr.Working)
	ends(id, "work", "AGENT_NOT_SETTLED")
	setStatus(t, c.s, c.pane, fakeherdr.Idle)
	id = until("rename")
	change(t, c.s, func(w *fakeherdr.World) { w.Pane(c.pane).Agent.Name = "else" })
	ends(id, "rename", "LEASE_IDENTITY_CHANGED")
	change(t, c.s, func(w *fakeherdr.World) { w.Pane(c.pane).Agent.Name = c.worker })
	id = until("looked")
	change(t, c.s, func(w *fakeherdr.World) { c.pane = w.Move(c.pane, "w2").ID }) // a move voids nothing
	c.file(c.tree, "looked.log", "")
	if v := c.verdict(c.meshed(id)); v.State != "passed" {
		t.Errorf("%+v", v)
	}
	id = until("resumed")
	fence := c.lease.FenceToken
	c.lease = c.answers("herdr_controller_resume", asking("")).lease(t)
	ends(id, "resumed", "FENCE_LOST")
	without(t, c.state, fence, c.lease.FenceToken)
	text, err := os.ReadFile(filepath.Join(c.state, "writer-leases", c.writer+".json"))
	if err != nil || !strings.Contains(string(text), `"paneId": "`+c.pane+`"`) {
		t.Errorf("the lease does not know where its agent is now: %v, %s", err, text)
	}
}

const (
	pinnedPython = "# one\na==1.0 \\\n    --hash=sha256:0000000000000000000000000000000000000000000000000000000000000000\n"
	pinnedWeb    = `{"lockfileVersion":3,"packages":{"":{"name":"web"},"node_modules/a":{"version":"1.0.0","resolved":"https://r.example.org/a.tgz","integrity":"sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="}}}`
)

// commit adds files to the base commit of the lane.
func (c *checked) commit(files map[string]string) {
	c.t.Helper()
	for name, text := range files {
		c.file(c.tree, name, text)
		c.git(c.tree, "add", name)
	}
	c.git(c.tree, "commit", "-qm", "more")
	c.head = c.git(c.tree, "rev-parse", "HEAD")
}

// rebase makes the present commit the lane's base.
func (c *checked) rebase() {
	c.t.Helper()
	record := filepath.Join(c.state, "writer-leases", c.writer+".json")
	text, err := os.ReadFile(record)
	if err == nil {
		err = os.WriteFile(record, []byte(strings.ReplaceAll(string(text), c.base, c.head)), 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.base = c.head
	c.gate("verification-plan", "echo 'Minimum final gate: just check-fast'")
}

// What the gate needs is fetched by locks, and only what it needs. The plan has no
// part in it: its home is gone.
func TestMeshVerifyBootstraps(t *testing.T) {
	t.Parallel()
	c := check(t)
	c.gate("mise", `[ "$*" = "exec node@22.22.2 -- npm --prefix web ci --ignore-scripts" ] || exit 66
[ -s /etc/resolv.conf ] && [ ! -e a.txt ] && [ ! -e .git ] && [ -z "$(ls -A /gate-home)" ] || exit 67
mkdir -p web/node_modules/.bin; printf '#!/bin/sh\n' > web/node_modules/.bin/tsc; chmod +x web/node_modules/.bin/tsc; echo fetched`)
	c.gate("pip", `[ -s /etc/resolv.conf ] && [ ! -e '`+c.tree+`' ] && [ "$(ls /run 2>/dev/null)$(ls -A /gate-home)" = "" ] || exit 67
[ "$(id -u)" = 0 ] || ! [ -w "$9" ] || exit 68
mkdir -p "$7"; cp "$9" "$7/copy"; echo "$@" > "$7/args"`)
	c.gate("check-fast", `[ -x web/node_modules/.bin/tsc ] && [ ! -e /etc/resolv.conf ] || exit 69; cat /gate-home/python-bootstrap/*/copy /gate-home/python-bootstrap/*/args`)
	c.commit(map[string]string{"py/requirements.lock": pinnedPython, "web/package.json": "{}", "web/package-lock.json": pinnedWeb})
	c.rebase()
	c.gate("verification-plan", "mkdir -p /gate-home/.config/mise; : > /gate-home/.config/mise/config.toml; echo 'Minimum final gate: just check-fast'")
	if v := c.verify(""); v.State != "preflight_failed" || v.FailureCode != "WEB_DEPS_MISSING" || v.BootstrapWeb {
		t.Fatalf("%+v", v)
	}
	v := c.verify(`,"bootstrap_web":true,"bootstrap_python_locks":["py/requirements.lock"]`)
	sum := sha256.Sum256([]byte("py/requirements.lock\x00" + pinnedPython))
	target := sha256.Sum256([]byte("py/requirements.lock"))
	want := pinnedPython + "pip install --require-hashes --no-build --no-config --target /gate-home/python-bootstrap/" + hex.EncodeToString(target[:]) +
		" --requirements /gate-inputs/" + hex.EncodeToString(sum[:]) + "-requirements.lock\n"
	if v.State != "passed" || v.StdoutTail != want || !v.BootstrapWeb || len(v.BootstrapPythonLocks) != 1 {
		t.Errorf("%+v, want %q", v, want)
	}
	if len(c.scratch()) > 0 {
		t.Errorf("left: %q", c.scratch())
	}
	// What is there is not fetched again; what fails says which it was.
	c.gate("mise", "exit 1")
	c.gate("pip", "echo no; exit 2")
	if v := c.verify(`,"bootstrap_web":true`); v.State != "failed" || v.FailureCode != "" || v.Command[0] != "uv" {
		t.Errorf("%+v", v)
	}
	if v := c.verify(`,"bootstrap_python_locks":["py/requirements.lock"]`); v.State != "failed" || v.FailureCode != "PY_BOOTSTRAP_FAILED" || *v.ExitCode != 2 || v.StdoutTail != "no\n" ||
		!strings.Contains(v.Failure, "no proxy") {
		t.Errorf("%+v", v)
	}
	if err := os.RemoveAll(filepath.Join(c.tree, "web/node_modules")); err != nil {
		t.Fatal(err)
	}
	if v := c.verify(`,"bootstrap_web":true`); v.State != "failed" || v.FailureCode != "WEB_BOOTSTRAP_FAILED" || v.Command[0] != "mise" || !strings.Contains(v.Failure, "no proxy") {
		t.Errorf("%+v", v)
	}
	c.gate("verification-plan", "echo 'Minimum final gate: just check-docs'") // which needs no web
	c.gate("check-docs", "echo printed")
	if v := c.verify(""); v.State != "passed" {
		t.Errorf("%+v", v)
	}
}

// mesh.md §8, 46: a lock that is not what it should be is refused before anything
// has the network.
func TestMeshVerifyLocks(t *testing.T) {
	t.Parallel()
	c := check(t)
	c.gate("mise", "exit 0")
	c.gate("pip", "exit 0")
	bad := "a==1.0\n"
	files := map[string]string{
		"py/requirements.lock": pinnedPython, "other/requirements.lock": pinnedPython + "-r x.txt\n", "bare/requirements.lock": bad, "web/package.json": "{}",
		"web/package-lock.json": pinnedWeb, "web/.npmrc": "registry=https://r.example.org\n",
	}
	c.commit(files)
	if err := os.Symlink("py", filepath.Join(c.tree, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(c.tree, "linked"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../py/requirements.lock", filepath.Join(c.tree, "linked", "requirements.lock")); err != nil {
		t.Fatal(err)
	}
	c.git(c.tree, "add", ".")
	c.git(c.tree, "commit", "-qm", "links")
	c.head = c.git(c.tree, "rev-parse", "HEAD")
	c.rebase()
	python := func(path string) string { return `,"bootstrap_python_locks":["` + path + `"]` }
	const web = `,"bootstrap_web":true`
	none := func() {}
	write := func(name, text string) func() { return func() { c.file(c.tree, name, text) } }
	for _, test := range []struct {
		name       string
		do         func()
		args, code string
	}{
		{"one byte", write("py/requirements.lock", strings.Replace(pinnedPython, "one", "two", 1)), web + python("py/requirements.lock"), "PY_LOCK_DRIFT"},
		{"one byte, committed", func() { c.commit(map[string]string{"py/requirements.lock": pinnedPython + "\n"}) }, python("py/requirements.lock"), "PY_LOCK_DRIFT"},
		{"another file", none, python("other/requirements.lock"), "PY_LOCK_UNPINNED"},
		{"no hash", none, python("bare/requirements.lock"), "PY_LOCK_UNPINNED"},
		{"a good one and a bad one", none, `,"bootstrap_python_locks":["py/requirements.lock","bare/requirements.lock"]`, "PY_LOCK_UNPINNED"},
		{"a linked folder", none, python("link/requirements.lock"), "PY_LOCK_DRIFT"},
		{"a link", none, python("linked/requirements.lock"), "PY_LOCK_DRIFT"},
		{"none", none, python("nowhere/requirements.lock"), "PY_LOCK_DRIFT"},
		{"a new one", write("new/requirements.lock", pinnedPython), python("new/requirements.lock"), "PY_LOCK_DRIFT"},
		{"npm's lock edited", write("web/package-lock.json", pinnedWeb+"\n"), web, "WEB_LOCK_UNTRUSTED"},
		{"npm's lock without hash", func() {
			c.commit(map[string]string{"web/package-lock.json": strings.Replace(pinnedWeb, "integrity", "x", 1)})
		}, web, "WEB_LOCK_UNTRUSTED"},
		{"package.json edited", write("web/package.json", "{ }"), web, "WEB_LOCK_UNTRUSTED"},
		{"a repository instead of a version, committed", func() { c.commit(map[string]string{"web/package.json": `{"dependencies":{"a":"owner/name"}}`}) }, web, "WEB_LOCK_UNTRUSTED"},
		{"the same in a workspace", func() {
			c.commit(map[string]string{"web/package-lock.json": strings.Replace(pinnedWeb, `"":`, `"w":{},"":`, 1)})
			c.file(c.tree, "web/w/package.json", `{"dependencies":{"a":"owner/name"}}`)
		}, web, "WEB_LOCK_UNTRUSTED"},
		{"another registry, committed", func() { c.commit(map[string]string{"web/.npmrc": "registry=https://e.example.org\n"}) }, web, "WEB_LOCK_UNTRUSTED"},
		{"another lock", func() { c.commit(map[string]string{"web/npm-shrinkwrap.json": pinnedWeb}) }, web, "WEB_LOCK_UNTRUSTED"},
		{"package.json a link", func() {
			path := filepath.Join(c.tree, "web/package.json")
			_ = os.Rename(path, path+".log")
			_ = os.Symlink("package.json.log", path)
		}, web, "WEB_LOCK_UNTRUSTED"},
		{"web a link", func() {
			_ = os.Rename(filepath.Join(c.tree, "web"), filepath.Join(c.tree, "web.log"))
			_ = os.Symlink("web.log", filepath.Join(c.tree, "web"))
		}, web, "WEB_LOCK_UNTRUSTED"},
	} {
		test.do()
		args := test.args
		if !strings.Contains(args, web) {
			args += web
		}
		v := c.verify(args)
		if v.State != "preflight_failed" || v.FailureCode != test.code || len(v.Command) < 4 || v.Command[3] != "verification-plan" {
			t.Errorf("%s: %+v", test.name, v)
		}
		_ = os.Remove(filepath.Join(c.tree, "web")) // if it is a link
		c.git(c.tree, "reset", "-q", "--hard", c.base)
		c.git(c.tree, "clean", "-qfdx")
		c.head = c.base
	}
	for _, path := range []string{"../requirements.lock", "/requirements.lock", "py/requirements.txt"} {
		c.refuses("BOOTSTRAP_LOCK_INVALID", "herdr_owned_worker_verify", c.wanting(python(path)))
	}
	if v := c.verify(web + python("py/requirements.lock")); v.State != "passed" {
		t.Errorf("%+v", v)
	}
}

// escape is a line of a shell that makes a folder the git folder of a repository
// whose configuration runs a program outside, and a script of that program.
func (c *checked) escape(dir string) (script, proof string) {
	proof = filepath.Join(filepath.Dir(c.state), "escaped")
	return `printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n[filter "x"]\n\tclean = "touch ` + proof + `; cat"\n' > ` + dir + `/config
mkdir -p ` + dir + `/info; echo '* filter=x' > ` + dir + `/info/attributes
`, proof
}

// submodule commits one to the lane, whose folder is empty. other is the
// repository that its commit is of, below the home of tools.
func (c *checked) submodule() (other string) {
	other = filepath.Join(c.home, ".local/bin/other")
	c.git(filepath.Dir(c.state), "init", "-q", "-b", "main", other)
	c.file(other, "f.txt", "hello\n")
	c.git(other, "add", ".")
	c.git(other, "commit", "-qm", "sub")
	c.git(c.tree, "update-index", "--add", "--cacheinfo", "160000,"+c.git(other, "rev-parse", "HEAD")+",sub")
	if err := os.MkdirAll(filepath.Join(c.tree, "sub"), 0o700); err != nil {
		c.t.Fatal(err)
	}
	c.commit(map[string]string{".gitmodules": "[submodule \"sub\"]\n\tpath = sub\n\turl = " + other + "\n"})
	return other
}

// looks has a snapshot refused. This test's own git stays out of such a worktree.
func (c *checked) looks(code, why string) {
	c.t.Helper()
	m := c.refuses(code, "herdr_owned_worker_verification_snapshot", fmt.Sprintf(`{"controller_id":"lead","lease_id":%q,"base_commit":%q,"expected_head":%q,"expected_status_sha256":%q}`, c.writer, c.base, c.head, anyDigest))
	if !strings.Contains(m.fault.Message, why) {
		c.t.Error(m.fault.Message)
	}
}

func (c *checked) lacks(proof string) {
	c.t.Helper()
	if _, err := os.Lstat(proof); !errors.Is(err, fs.ErrNotExist) {
		c.t.Errorf("a program of the gate ran outside the sandbox: %v", err)
	}
}

// What a gate writes is no configuration of any git outside: not of one that
// looks at the worktree after it, nor at the next snapshot.
func TestMeshVerifySubmodule(t *testing.T) {
	t.Parallel()
	c := check(t)
	other := c.submodule()
	script, proof := c.escape("sub/.git")
	for name, more := range map[string]string{
		"verification-plan": `,"bootstrap_python_locks":["requirements.lock"]`, // there is none, but no git looks for it
		"check-fast":        "",
	} {
		c.gate("verification-plan", "echo 'Minimum final gate: just check-fast'")
		c.gate(name, "set -e\ncp -r "+other+"/. sub/\n"+script+"touch sub/f.txt\necho 'Minimum final gate: just check-fast'")
		if v := c.verify(more); v.State != "invalidated" || v.FailureCode != "CONTENT_CHANGED" || v.AfterWorktreeSHA256 != "" || v.ExitCode == nil || *v.ExitCode != 0 {
			t.Errorf("%s: %+v", name, v)
		}
		c.looks("GIT_FAILED", "submodule")
		c.lacks(proof)
		if err := os.RemoveAll(filepath.Join(c.tree, "sub")); err != nil {
			t.Fatal(err)
		}
		c.file(c.tree, "sub/x", "")
		_ = os.Remove(filepath.Join(c.tree, "sub/x"))
	}
	// One that is there as git submodule makes it is no obstacle, and its .git is fixed.
	c.git(c.tree, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init")
	c.gate("verification-plan", "echo 'Minimum final gate: just check-fast'")
	c.gate("check-fast", "! rm -f sub/.git && ! sh -c 'echo x > sub/.git'")
	if v := c.verify(""); v.State != "passed" {
		t.Errorf("%+v", v)
	}
	c.gate("check-fast", "mv sub other.log; mkdir sub; cp -r "+other+"/. sub/\n"+script+"touch sub/f.txt")
	if v := c.verify(""); v.State != "invalidated" || v.FailureCode != "CONTENT_CHANGED" || v.AfterWorktreeSHA256 != "" {
		t.Errorf("%+v", v)
	}
	c.lacks(proof)
}

// The .git of the lane cannot be written by a gate, and if somebody else points
// it elsewhere meanwhile, no git follows.
func TestMeshVerifyGitFile(t *testing.T) {
	t.Parallel()
	c := check(t)
	common := filepath.Join(filepath.Dir(c.state), "repo", ".git")
	c.gate("check-fast", "! rm -f .git && ! mv .git x.log && ! sh -c 'echo x > .git' && ! touch "+common+"/worktrees/lane/x")
	if v := c.verify(""); v.State != "passed" {
		t.Errorf("%+v", v)
	}
	script, proof := c.escape("evil.log")
	c.gate("check-fast", "set -e\ncp -r "+common+" evil.log\n"+script+`mkdir -p evil.log/worktrees/mine
echo ../.. > evil.log/worktrees/mine/commondir
echo "$PWD/.git" > evil.log/worktrees/mine/gitdir
cp evil.log/worktrees/lane/index evil.log/worktrees/lane/HEAD evil.log/worktrees/mine
mkdir own.log
cp evil.log/worktrees/lane/index evil.log/worktrees/lane/HEAD own.log
echo `+common+` > own.log/commondir
echo "$PWD/.git" > own.log/gitdir
touch a.txt b.txt
: > began.log; until [ -e end.log ]; do sleep 0.05; done`)
	link := filepath.Join(c.tree, ".git")
	for name, dir := range map[string]string{"another repository": "evil.log/worktrees/mine", "the same one": "own.log"} {
		was, err := os.ReadFile(link)
		if err != nil {
			t.Fatal(err)
		}
		id := c.begin("herdr_owned_worker_verify", c.wanting(""))
		eventually(t, "the gate", func() bool { _, err := os.Stat(filepath.Join(c.tree, "began.log")); return err == nil })
		c.file(c.tree, "new.log", "gitdir: "+filepath.Join(c.tree, dir)+"\n")
		if err := os.Rename(filepath.Join(c.tree, "new.log"), link); err != nil {
			t.Fatal(err)
		}
		c.file(c.tree, "end.log", "")
		if v := c.verdict(c.meshed(id)); v.State != "invalidated" || v.FailureCode != "CONTENT_CHANGED" || v.AfterWorktreeSHA256 != "" {
			t.Errorf("%s: %+v", name, v)
		}
		c.looks("WORKTREE_MOVED", "the worktree")
		c.lacks(proof)
		c.file(c.tree, ".git", string(was))
		for _, name := range []string{"began.log", "end.log", "evil.log", "own.log"} {
			if err := os.RemoveAll(filepath.Join(c.tree, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A gate may write the worktree: nothing that others trust may be in it.
func TestMeshVerifyApart(t *testing.T) {
	t.Parallel()
	c := check(t)
	refused := func(what string, env ...string) {
		t.Helper()
		c.host = coordinate(t, c.s, "w1:p1", append([]string{"HERDR_MESH_STATE_DIR=" + c.state, "HOME=" + c.home}, env...)...)
		m := c.refuses("VERIFY_UNAVAILABLE", "herdr_owned_worker_verify", c.wanting(""))
		if !strings.Contains(m.fault.Message, "inside the worktree") || !strings.Contains(m.fault.Message, ": a gate could write") {
			t.Errorf("%s: %s", what, m.fault.Message)
		}
	}
	refused("the configuration", "XDG_CONFIG_HOME="+filepath.Join(c.tree, "config.log"))
	home := filepath.Join(c.tree, "home.log")
	c.file(home, "x", "")
	refused("HOME", "HOME="+home)
	inside := filepath.Join(c.tree, "state.log")
	if err := os.Rename(c.state, inside); err != nil {
		t.Fatal(err)
	}
	refused("the state", "HERDR_MESH_STATE_DIR="+inside)
	around := filepath.Dir(c.tree)
	all, err := os.ReadDir(inside)
	for _, e := range all {
		if err == nil {
			err = os.Rename(filepath.Join(inside, e.Name()), filepath.Join(around, e.Name()))
		}
	}
	if err == nil {
		err = os.Chmod(around, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	refused("a worktree in the state", "HERDR_MESH_STATE_DIR="+around)
}
