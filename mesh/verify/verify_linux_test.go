package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/crash"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/git"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/sandbox"
	"herdr-link/mesh/store"
	"herdr-link/twin"
)

func TestMain(m *testing.M) {
	crash.Main(play)
	os.Exit(twin.Main(m))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

const worker = "0f9d2c7e-3b1a-4c5d-8e6f-000000000007"

var sum = strings.Repeat("ab", 32)

// write writes a file, which may be a program that is run at once.
func write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	syscall.ForkLock.RLock() // a child that another test forks must not have it open
	defer syscall.ForkLock.RUnlock()
	must(t, os.WriteFile(path, []byte(text), 0o700))
}

func runGit(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org"}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %q: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// A place is a folder with a quick Herdr, a repository, a lane whose gate is a
// script, and a controller.
type place struct {
	dir string
	env map[string]string
}

func getenv(dir string) map[string]string {
	return map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": filepath.Join(dir, "home"), "HERDR_ENV": "1", "HERDR_PANE_ID": "w1:p0", "HERDR_BIN_PATH": filepath.Join(dir, "herdr"),
	}
}

func prepare(t testing.TB, dir string) *place {
	t.Helper()
	if err := new(sandbox.Sandbox).Find(t.Context()); err != nil {
		t.Skipf("%v (apt-get install bubblewrap)", err)
	}
	dir, err := filepath.EvalSymlinks(dir)
	must(t, err)
	p := &place{dir, getenv(dir)}
	tree := filepath.Join(dir, "lane")
	p.agents(t, 1)
	write(t, filepath.Join(dir, "herdr"), fmt.Sprintf(`#!/bin/sh
case "$1 $2" in
"pane get") printf '{"result":{"type":"pane_info","pane":{"pane_id":"%%s","terminal_id":"term_%%s"}}}\n' "$3" "${3#w1:p}" ;;
"pane process-info") printf '{"result":{"type":"pane_process_info","process_info":{"pane_id":"%%s"}}}\n' "$4" ;;
"agent list") read -r line < '%s/agents'; printf '%%s\n' "$line" ;;
*) echo '{"client":{"version":"0.8.0","protocol":20},"server":{"running":true,"socket":"/quick.sock"}}' ;;
esac
`, dir))
	write(t, filepath.Join(dir, "home/.local/bin/uv"), "#!/bin/sh\nshift\nexec \"$@\"\n")
	write(t, filepath.Join(dir, "home/.local/bin/just"), "#!/bin/sh\nname=$1\nshift\n. \"${0%/*}/gates/$name\"\n")
	p.gate(t, "verification-plan", "echo 'Minimum final gate: just check-fast'")
	p.gate(t, "check-fast", "echo printed")
	repo := filepath.Join(dir, "repo")
	runGit(t, dir, "init", "-q", "-b", "main", repo)
	write(t, filepath.Join(repo, ".gitignore"), "*.log\n")
	runGit(t, repo, "add", ".")
	runGit(t, repo, "commit", "-qm", "one")
	runGit(t, repo, "worktree", "add", "-q", "-b", "work", tree)
	return p
}

func (p *place) gate(t testing.TB, name, script string) {
	write(t, filepath.Join(p.dir, "home/.local/bin/gates", name), script+"\n")
}

// agents are the controller's and the worker, with that cursor.
func (p *place) agents(t testing.TB, cursor int) {
	t.Helper()
	agent := func(n int, cwd string) string {
		return fmt.Sprintf(`{"name":"a%d","agent":"pi","agent_status":"idle","pane_id":"w1:p%d","terminal_id":"term_%d","cwd":"%s","state_change_seq":%d}`, n, n, n, cwd, cursor)
	}
	write(t, filepath.Join(p.dir, "agents"), `{"result":{"type":"agent_list","agents":[`+agent(0, p.dir)+","+agent(1, p.tree())+"]}}\n")
}

func (p *place) tree() string { return filepath.Join(p.dir, "lane") }

// verifier returns one for that place, with a disk and a clock of its own.
func (p *place) verifier(d *disk.Disk, now func() time.Time) *Verifier {
	var environ []string
	for name, value := range p.env {
		environ = append(environ, name+"="+value)
	}
	get := func(name string) string { return p.env[name] }
	h := herdrcli.New(herdrcli.Options{Bin: p.env["HERDR_BIN_PATH"], Environ: environ, Gentle: true})
	s := store.New(store.Options{Root: filepath.Join(p.dir, "state"), Disk: d, Now: now})
	v := New(Options{
		Getenv: get, Environ: environ, Store: s, Controllers: controller.New(controller.Options{Getenv: get, Herdr: h, Store: s}),
		Leases: lease.New(lease.Options{Herdr: h, Store: s}), Git: git.New(get), Log: slog.New(slog.DiscardHandler),
	})
	v.again = 10 * time.Millisecond
	return v
}

// acquire makes the controller and the worker's lease.
func (p *place) acquire(t testing.TB, v *Verifier, ttl time.Duration) controller.Credential {
	t.Helper()
	c, err := v.controllers.Acquire(t.Context(), controller.Request{ControllerID: "lead", AuthorityRef: "T-1", AuthoritySHA256: sum, TTL: ttl})
	must(t, err)
	x, err := v.store.Begin(t.Context())
	must(t, err)
	defer x.End()
	repo := filepath.Join(p.dir, "repo")
	head := runGit(t, repo, "rev-parse", "HEAD")
	must(t, x.Create(&store.Writer{
		Version: 1, LeaseType: "writer",
		Lease:     store.Lease{LeaseID: worker, ControllerID: "lead", Purpose: "work", PaneID: "w1:p1", AgentName: "a1", AgentKind: "pi", State: store.Active, TerminalID: "term_1", HerdrSocket: "/quick.sock"},
		Tab:       store.Tab{ParentPaneID: "w1:p0", CreatedAt: store.Stamp(time.Now())},
		TicketRef: "T-7", AuthorityRef: "T-1", AuthoritySHA256: sum, RepositoryRoot: repo, GitDir: filepath.Join(repo, ".git/worktrees/lane"), GitCommonDir: filepath.Join(repo, ".git"),
		Worktree: p.tree(), Branch: "work", BaseCommit: head, HeadCommit: head, GitStatusSHA256: sum, OwnedScopes: []string{"a"}, LockedScopes: []string{}, ProtectedBranches: []string{"main"},
	}))
	return controller.Credential{ControllerID: "lead", LeaseID: c.LeaseID, Fence: c.FenceToken}
}

// request is what verifies the place as it is.
func (p *place) request(ctx context.Context, v *Verifier) (Request, error) {
	w := new(store.Writer)
	if err := v.store.Load(worker, w); err != nil {
		return Request{}, err
	}
	empty := sha256.Sum256(nil)
	q := Request{Expected: Expected{LeaseID: worker, Base: w.BaseCommit, Head: w.HeadCommit, StatusSHA256: hex.EncodeToString(empty[:])}, Timeout: time.Hour}
	s, err := v.Snapshot(ctx, "lead", q.Expected)
	if err == nil {
		q.WorktreeSHA256 = s.WorktreeSHA256
	}
	return q, err
}

// A snapshot looks once at what leads git from the worktree, and keeps that.
func TestSnapshotPins(t *testing.T) {
	t.Parallel()
	p := prepare(t, t.TempDir())
	real, err := exec.LookPath("git")
	must(t, err)
	log := filepath.Join(p.dir, "gits")
	write(t, filepath.Join(p.dir, "bin/git"), "#!/bin/sh\necho \"$*\" >>'"+log+"'\nexec '"+real+"' \"$@\"\n")
	p.env["PATH"] = filepath.Join(p.dir, "bin") + ":" + os.Getenv("PATH")
	v := p.verifier(nil, nil)
	p.acquire(t, v, 900*time.Second)
	_, err = p.request(t.Context(), v)
	must(t, err)
	text, err := os.ReadFile(log)
	must(t, err)
	if n := strings.Count(string(text), "ls-files --stage"); n != 1 {
		t.Errorf("%d times:\n%s", n, text)
	}
}

// A life is what goes on behind calls, until it is ended.
type life struct {
	wait sync.WaitGroup
	ctx  context.Context
	end  context.CancelFunc
}

func newLife(t *testing.T) *life {
	l := new(life)
	l.ctx, l.end = context.WithCancel(context.Background())
	t.Cleanup(func() { l.end(); l.wait.Wait() })
	return l
}

func (l *life) behind(do func(context.Context)) { l.wait.Go(func() { do(l.ctx) }) }

// until is a script that says that it runs, and goes on until it is let go.
func until(name string) string {
	return ": > " + name + ".began.log; until [ -e " + name + ".log ]; do sleep 0.02; done; echo printed"
}

func (p *place) began(t *testing.T, name string) {
	t.Helper()
	eventually(t, name, func() bool { _, err := os.Stat(filepath.Join(p.tree(), name+".began.log")); return err == nil })
}

func (p *place) letGo(t *testing.T, name string) {
	t.Helper()
	write(t, filepath.Join(p.tree(), name+".log"), "")
}

func (p *place) only(t *testing.T, v *Verifier) Listed {
	t.Helper()
	l, err := v.List(t.Context(), "lead", worker, 10)
	must(t, err)
	if len(l.Records) != 1 || l.Truncated || len(l.Invalid) > 0 {
		t.Fatalf("%+v", l)
	}
	return l.Records[0]
}

// mesh.md §8, 47: a long run is answered before it is over, and goes on.
func TestLong(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*Verifier, *testing.T) context.Context{
		"its own time": func(v *Verifier, t *testing.T) context.Context {
			v.answerTime = 50 * time.Millisecond
			return t.Context()
		},
		"the call's": func(_ *Verifier, t *testing.T) context.Context {
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			t.Cleanup(stop)
			return ctx
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := prepare(t, t.TempDir())
			v := p.verifier(nil, nil)
			cred := p.acquire(t, v, 900*time.Second)
			p.gate(t, "check-fast", until("gate"))
			q, err := p.request(t.Context(), v)
			must(t, err)
			l := newLife(t)
			a, err := v.Verify(limit(v, t), "lead", v.controllers.By(cred), q, l.behind)
			must(t, err)
			if a.Record.State != store.Running || a.Record.CompletedAt != "" || a.Stdout != "" {
				t.Errorf("%+v", a.Record)
			}
			p.began(t, "gate")
			if r := p.only(t, v); r.State != store.Running || r.RunID != a.Record.RunID {
				t.Errorf("%+v", r.Run)
			}
			if _, err := v.Verify(t.Context(), "lead", v.controllers.By(cred), q, l.behind); fault.Code(err) != "VERIFY_RUNNING" {
				t.Error(err)
			}
			p.letGo(t, "gate")
			eventually(t, "its end", func() bool { return p.only(t, v).State != store.Running })
			if r := p.only(t, v); r.State != passed || r.Stdout != "printed\n" || r.DurationMs < 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A call that is cancelled after its answer ends nothing; the process does.
func TestLifeEnds(t *testing.T) {
	t.Parallel()
	p := prepare(t, t.TempDir())
	v := p.verifier(nil, nil)
	v.answerTime = 50 * time.Millisecond
	cred := p.acquire(t, v, 900*time.Second)
	p.gate(t, "check-fast", until("gate"))
	q, err := p.request(t.Context(), v)
	must(t, err)
	l := newLife(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = v.Verify(ctx, "lead", v.controllers.By(cred), q, l.behind)
	must(t, err)
	cancel()
	p.began(t, "gate")
	l.end()
	l.wait.Wait()
	if r := p.only(t, v); r.State != invalidated || r.FailureCode != "INTERRUPTED" {
		t.Errorf("%+v", r.Run)
	}
}

// No command takes longer than the controller's lease has time, less 5 s.
func TestTTL(t *testing.T) {
	t.Parallel()
	p := prepare(t, t.TempDir())
	var ahead atomic.Int64
	begun := time.Now()
	v := p.verifier(nil, func() time.Time { return begun.Add(time.Duration(ahead.Load())) }) // it stands still
	cred := p.acquire(t, v, 60*time.Second)
	q, err := p.request(t.Context(), v)
	must(t, err)
	l := newLife(t)
	verify := func() (*Answer, error) { return v.Verify(t.Context(), "lead", v.controllers.By(cred), q, l.behind) }
	ahead.Store(int64(55 * time.Second))
	if _, err := verify(); fault.Code(err) != "CONTROLLER_TTL_TOO_SHORT" {
		t.Errorf("at the end of its time: %v", err)
	}
	for name, test := range map[string]struct {
		ahead       time.Duration // while the plan runs
		state, code string
	}{
		"enough":  {54 * time.Second, passed, ""},
		"little":  {55*time.Second - 300*time.Millisecond, timedOut, "CONTROLLER_TTL_TOO_SHORT"},
		"none":    {55 * time.Second, preflightFailed, "CONTROLLER_TTL_TOO_SHORT"},
		"expired": {60 * time.Second, invalidated, "FENCE_LOST"},
	} {
		ahead.Store(0)
		p.gate(t, "verification-plan", until(name)+"; echo 'Minimum final gate: just check-fast'")
		p.gate(t, "check-fast", "echo printed")
		if test.state == timedOut {
			p.gate(t, "check-fast", "sleep 1000")
		}
		l.wait.Go(func() {
			p.began(t, name)
			ahead.Store(int64(test.ahead))
			p.letGo(t, name)
		})
		a, err := verify()
		must(t, err)
		if a.Record.State != test.state || a.Record.FailureCode != test.code {
			t.Errorf("%s: %+v", name, a.Record)
		}
	}
	// It is read anew for each command: a renewal meanwhile counts.
	ahead.Store(0)
	p.gate(t, "verification-plan", until("renewed")+"; echo 'Minimum final gate: just check-fast'")
	p.gate(t, "check-fast", "echo printed")
	l.wait.Go(func() {
		p.began(t, "renewed")
		ahead.Store(int64(50 * time.Second))
		if _, err := v.controllers.Renew(context.Background(), cred, 60*time.Second); err != nil {
			t.Error(err)
		}
		ahead.Store(int64(80 * time.Second))
		p.letGo(t, "renewed")
	})
	a, err := verify()
	must(t, err)
	if a.Record.State != passed {
		t.Errorf("renewed: %+v", a.Record)
	}
}

// A gate has its own time, and one that has changed something proves nothing in it.
func TestTimedOut(t *testing.T) {
	t.Parallel()
	p := prepare(t, t.TempDir())
	v := p.verifier(nil, nil)
	cred := p.acquire(t, v, 900*time.Second)
	l := newLife(t)
	for script, want := range map[string]ending{"": {state: timedOut}, "echo x > new; ": {state: invalidated, code: "CONTENT_CHANGED"}} {
		p.gate(t, "check-fast", script+"echo begun; sleep 1000")
		q, err := p.request(t.Context(), v)
		must(t, err)
		q.Timeout = 2 * time.Second
		a, err := v.Verify(t.Context(), "lead", v.controllers.By(cred), q, l.behind)
		must(t, err)
		if r := a.Record; r.State != want.state || r.FailureCode != want.code || r.Failure != want.text() || r.ExitCode != nil || r.SelectedGate != "check-fast" || a.Stdout != "begun\n" || r.DurationMs < 2000 {
			t.Errorf("%q: %+v, %q", script, r, a.Stdout)
		}
		_ = os.Remove(filepath.Join(p.tree(), "new"))
	}
	if end := judge(&sandbox.Result{TimedOut: true}, "PLAN_FAILED"); *end != (ending{state: timedOut, code: "PLAN_FAILED"}) {
		t.Errorf("a plan: %+v", end)
	}
}

// Whoever cannot write down the end tries again: until then the worker is barred.
func TestFinishAgain(t *testing.T) {
	t.Parallel()
	p := prepare(t, t.TempDir())
	var full atomic.Bool
	var tries atomic.Int64
	v := p.verifier(&disk.Disk{Before: func(op, path string) error {
		if full.Load() && op == disk.OpWrite {
			tries.Add(1)
			return errors.New("the disk is full")
		}
		return nil
	}}, nil)
	cred := p.acquire(t, v, 900*time.Second)
	p.gate(t, "check-fast", until("gate"))
	q, err := p.request(t.Context(), v)
	must(t, err)
	v.answerTime = 50 * time.Millisecond
	l := newLife(t)
	_, err = v.Verify(t.Context(), "lead", v.controllers.By(cred), q, l.behind)
	must(t, err)
	p.began(t, "gate")
	full.Store(true)
	p.letGo(t, "gate")
	eventually(t, "three tries", func() bool { return tries.Load() >= 3 })
	if r := p.only(t, v); r.State != store.Running {
		t.Errorf("%+v", r.Run)
	}
	full.Store(false)
	eventually(t, "its end", func() bool { return p.only(t, v).State == passed })
}

// A record that was written although that failed does not bar the worker for the
// life of this process.
func TestWrittenAllTheSame(t *testing.T) {
	t.Parallel()
	p := prepare(t, t.TempDir())
	var linked, failed atomic.Bool
	v := p.verifier(&disk.Disk{Before: func(op, path string) error {
		if op == disk.OpLink && strings.Contains(path, "verification-runs") {
			linked.Store(true)
		}
		if op == disk.OpSync && linked.Load() && filepath.Base(path) == "verification-runs" && !failed.Swap(true) {
			return errors.New("the disk is no more")
		}
		return nil
	}}, nil)
	cred := p.acquire(t, v, 900*time.Second)
	q, err := p.request(t.Context(), v)
	must(t, err)
	l := newLife(t)
	verify := func() (*Answer, error) { return v.Verify(t.Context(), "lead", v.controllers.By(cred), q, l.behind) }
	if _, err := verify(); fault.Code(err) != "STATE_IO" {
		t.Fatal(err)
	}
	l.wait.Wait()
	if r := p.only(t, v); r.FailureCode != "INTERRUPTED" {
		t.Errorf("%+v", r.Run)
	}
	if a, err := verify(); err != nil || a.Record.State != passed {
		t.Errorf("%+v, %v", a, err)
	}
}

// A worker that did something after its worktree was read is not verified.
func TestMovesMeanwhile(t *testing.T) {
	t.Parallel()
	p := prepare(t, t.TempDir())
	var move atomic.Bool
	v := p.verifier(&disk.Disk{Before: func(op, _ string) error {
		if op == disk.OpOpen && move.Load() { // the store lock
			p.agents(t, 2)
		}
		return nil
	}}, nil)
	cred := p.acquire(t, v, 900*time.Second)
	q, err := p.request(t.Context(), v)
	must(t, err)
	move.Store(true)
	_, err = v.Verify(t.Context(), "lead", v.controllers.By(cred), q, newLife(t).behind)
	var f *fault.Fault
	if !errors.As(err, &f) || f.Code != "CURSOR_MOVED" || f.Details["expected"] != int64(1) || f.Details["current"] != int64(2) || !f.Retryable {
		t.Errorf("%+v", err)
	}
}

// What is kept of output is the last eight runs'.
func TestTails(t *testing.T) {
	t.Parallel()
	v := new(Verifier)
	for i := range 10 {
		v.keep(fmt.Sprint(i), Tails{Stdout: fmt.Sprint("out", i)})
	}
	for i := range 10 {
		want := fmt.Sprint("out", i)
		if i < 2 {
			want = ""
		}
		if got := v.tails(fmt.Sprint(i)).Stdout; got != want {
			t.Errorf("%d: %q", i, got)
		}
	}
	long := strings.Repeat("ä", maxTail)
	if got := plain([]byte("\x1b[2J" + long + "\x07\x1b]0;x\x07")); got != long[maxTail:] {
		t.Errorf("%d bytes, %q", len(got), got[:9])
	}
}

const (
	leaseVariable = "VERIFY_TEST_LEASE"
	fenceVariable = "VERIFY_TEST_FENCE"
)

// mesh.md §7: whatever is left of a verification, the list shows it as over when
// its process is, the next one writes that down and removes its scratch.
var play = crash.Play{
	Name: "verify",
	Prepare: func(t *testing.T, dir string) []string {
		p := prepare(t, dir)
		cred := p.acquire(t, p.verifier(nil, nil), 900*time.Second)
		return []string{leaseVariable + "=" + cred.LeaseID, fenceVariable + "=" + cred.Fence}
	},
	Run: func(ctx context.Context, dir string, d *disk.Disk) (any, error) {
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return nil, err
		}
		p := &place{dir, getenv(dir)}
		v := p.verifier(d, nil)
		q, err := p.request(ctx, v)
		if err != nil {
			return nil, err
		}
		var wait sync.WaitGroup
		defer wait.Wait()
		cred := controller.Credential{ControllerID: "lead", LeaseID: os.Getenv(leaseVariable), Fence: os.Getenv(fenceVariable)}
		return v.Verify(ctx, "lead", v.controllers.By(cred), q, func(do func(context.Context)) { wait.Go(func() { do(ctx) }) })
	},
	Check: func(t *testing.T, end crash.End) {
		dir, err := filepath.EvalSymlinks(end.Dir)
		must(t, err)
		p := &place{dir, getenv(dir)}
		v := p.verifier(nil, nil)
		l, err := v.List(t.Context(), "", "", 0)
		must(t, err)
		for _, r := range l.Records {
			if r.State != passed && (r.State != invalidated || r.FailureCode != "INTERRUPTED" || !end.Killed && end.Code != "STATE_IO") {
				t.Errorf("%+v", r.Run)
			}
		}
		var answer Answer
		if !end.Killed && end.Code == "" && (json.Unmarshal(end.Answer, &answer) != nil || answer.Record.State != passed || len(l.Records) != 1) {
			t.Errorf("%s, %d records", end.Answer, len(l.Records))
		}
		fence := strings.TrimPrefix(end.Env[1], fenceVariable+"=")
		crash.NoFence(t, filepath.Join(dir, "state"), fence)
		cred := controller.Credential{ControllerID: "lead", LeaseID: strings.TrimPrefix(end.Env[0], leaseVariable+"="), Fence: fence}
		q, err := p.request(t.Context(), v)
		must(t, err)
		a, err := v.Verify(t.Context(), "lead", v.controllers.By(cred), q, newLife(t).behind)
		if err != nil || a.Record.State != passed {
			t.Fatalf("the next one: %+v, %v", a, err)
		}
		left, _ := filepath.Glob(filepath.Join(dir, "state/gate-*/*"))
		running, _ := filepath.Glob(filepath.Join(dir, "state/verification-runs/*.json"))
		if len(left)+len(running) > 0 {
			t.Errorf("left: %q, %q", left, running)
		}
	},
}

func TestCrash(t *testing.T) {
	t.Parallel()
	if twin.Runs(t) { // but for the plays that nobody kills
		return
	}
	play.Each(t)
}
