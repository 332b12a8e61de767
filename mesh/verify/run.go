package verify

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"herdr-link/mesh/controller"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/sandbox"
	"herdr-link/mesh/store"
)

const (
	planTime = 120 * time.Second
	// maxPlan is the most that is read of what a plan prints.
	maxPlan = 256 << 10
)

// The states of a run that is over.
const (
	passed          = "passed"
	failed          = store.Failed
	timedOut        = "timed_out"
	preflightFailed = "preflight_failed"
	invalidated     = "invalidated"
)

// An ending is what came of a run. code is "" if the gate itself says it.
type ending struct {
	state, code string
	unstarted   bool // the sandbox did not start the command
}

func preflight(code string) *ending { return &ending{state: preflightFailed, code: code} }
func void(code string) *ending      { return &ending{state: invalidated, code: code} }

// texts says what the code of a failed run means. A record has these and no
// other words: none of a command's, no path, no argument.
var texts = map[string]string{
	"INTERRUPTED":              "the run was ended before it was over",
	"FENCE_LOST":               "the controller was resumed, taken over or released, or its lease has expired, before the run was over",
	"CONTROLLER_TTL_TOO_SHORT": "the controller's lease had no time left for a command: renew it while a verification runs",
	"CONTENT_CHANGED":          "the worktree is not what it was when the run began",
	"CURSOR_MOVED":             "the worker did something during the run",
	"PLAN_FAILED":              "the plan did not succeed",
	"PLAN_AMBIGUOUS":           "the plan does not name exactly one gate",
	"GATE_NOT_LOCAL":           "the plan names a gate that cannot run here",
	"WEB_DEPS_MISSING":         "the gate needs the packages of web, which are not installed, and bootstrap_web is not set",
	"WEB_LOCK_UNTRUSTED":       "package.json, package-lock.json or .npmrc of web is not the committed one, or names packages that are not pinned",
	"WEB_BOOTSTRAP_FAILED":     "the packages of web could not be fetched" + bare,
	"PY_LOCK_DRIFT":            "a requirements.lock is not there, no plain file, too large, or another one than in the base commit",
	"PY_LOCK_UNPINNED":         "a requirements.lock has something else than packages pinned by version and SHA-256",
	"PY_BOOTSTRAP_FAILED":      "Python packages could not be fetched" + bare,
}

// bare is what may surprise in a fetch that fails.
const bare = ": the end of stderr says why. A fetch has no proxy, token or setting of yours, and trusts the authorities of this system"

func (e *ending) text() string {
	switch text := texts[e.code]; {
	case e.unstarted:
		return "a command could not be started in the sandbox: its stderr says why"
	case text != "":
		return text
	case e.code != "":
		return "it could not be done: " + e.code
	case e.state == failed:
		return "the gate failed"
	case e.state == timedOut:
		return "the gate did not end in time"
	}
	return ""
}

// work does the run and writes down its end. ctx ends with what ends the run,
// life with the process.
func (r *run) work(ctx, life context.Context) {
	root, err := r.store.Root()
	end := preflight(fault.Code(err))
	if err == nil {
		r.sweep(ctx, root)
		end = r.verify(ctx, root)
	}
	if ctx.Err() != nil {
		end = void("INTERRUPTED")
	}
	r.keep(r.record.RunID, r.tails) // before anybody can see that it is over
	if !r.end(life, end) {
		return
	}
	if err := sandbox.RemoveScratch(root, r.record.RunID); err != nil {
		r.log.Warn("verify: scratch is left to the next run", "code", fault.Code(err))
	}
}

// end writes down the end, if that can be done before the process ends. As long as
// the record says running, nobody may touch the worker.
func (r *run) end(life context.Context, end *ending) bool {
	for !r.finish(end) {
		select {
		case <-life.Done():
			return false
		case <-time.After(r.again):
		}
	}
	return true
}

// sweep removes the scratch of runs that are over, or whose process is.
func (r *run) sweep(ctx context.Context, root string) {
	ids, _ := sandbox.Scratches(root)
	for _, id := range ids {
		var other store.Run
		err := r.store.Load(id, &other)
		alive := err == nil && other.State == store.Running && !other.Abandoned(ctx, r.store.Now())
		if alive || err != nil && !errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
			continue
		}
		if err := sandbox.RemoveScratch(root, id); err != nil {
			r.log.Warn("verify: scratch of an earlier run cannot be removed", "code", fault.Code(err))
		}
	}
}

// verify is steps 4 to 9 of mesh.md §4.10.
func (r *run) verify(ctx context.Context, root string) *ending {
	scratch, err := sandbox.MakeScratch(root, r.record.RunID)
	if err != nil {
		return preflight(fault.Code(err))
	}
	r.step.Home = scratch.Home
	name, end := r.plan(ctx)
	if end != nil {
		return end
	}
	if r.record.SelectedGate = name; !isLocal(name) {
		return preflight("GATE_NOT_LOCAL")
	}
	// The plan is the worker's code: what has the network takes no program or
	// configuration from its home.
	err = sandbox.RemoveScratch(root, r.record.RunID)
	if err == nil {
		scratch, err = sandbox.MakeScratch(root, r.record.RunID)
	}
	if err != nil {
		return preflight(fault.Code(err))
	}
	if end := r.bootstrap(ctx, scratch); end != nil {
		return end
	}
	if end := r.same(ctx); end != nil {
		return end
	}
	result, end := r.command(ctx, r.step, r.q.Timeout, failed, "uv", "run", "just", name)
	if ctx.Err() != nil || r.loose {
		return end
	}
	if changed := r.same(ctx); changed != nil {
		return changed
	}
	if end != nil {
		return end
	}
	return judge(result, "")
}

// plan returns the gate that the repository's plan names.
func (r *run) plan(ctx context.Context) (name string, end *ending) {
	step := r.step
	step.Head = maxPlan
	result, end := r.command(ctx, step, planTime, preflightFailed, "uv", "run", "just", "verification-plan", "--base", r.record.BaseCommit)
	if end != nil {
		return "", end
	}
	if end := judge(result, "PLAN_FAILED"); end.state != passed {
		return "", end
	}
	if result.Stdout.Whole() {
		name = gate(string(result.Stdout.Head))
	}
	if name == "" {
		return "", preflight("PLAN_AMBIGUOUS")
	}
	return name, nil
}

// judge is what a command's result says. code is that of a failure.
func judge(result *sandbox.Result, code string) *ending {
	switch {
	case result.TimedOut:
		return &ending{state: timedOut, code: code}
	case result.Exit == nil || *result.Exit != 0 || !result.Began:
		return &ending{state: failed, code: code, unstarted: !result.Began && result.Exit != nil}
	}
	return &ending{state: passed}
}

// command runs one command and notes what the record has of the last one. It
// takes no longer than the controller's lease has time. state is that of a run
// whose command could not be run.
func (r *run) command(ctx context.Context, step sandbox.Step, limit time.Duration, state string, argv ...string) (*sandbox.Result, *ending) {
	c, end := r.controller()
	if end != nil {
		return nil, end
	}
	most, short := limit, false
	if l := left(c, r.store.Now()); l < limit {
		most, short = l, true
	}
	if most <= 0 {
		return nil, preflight("CONTROLLER_TTL_TOO_SHORT")
	}
	result, err := r.sandbox.Run(ctx, &step, most, argv...)
	var attrs []slog.Attr
	if err != nil {
		attrs = append(attrs, slog.String("code", fault.Code(err)))
	}
	if result != nil {
		r.record.Command, r.record.ExitCode = argv, result.Exit
		r.record.StdoutSHA256, r.record.StderrSHA256 = result.Stdout.SHA256, result.Stderr.SHA256
		r.tails = Tails{plain(result.Stdout.Tail), plain(result.Stderr.Tail)}
		attrs = append(attrs, slog.Float64("ms", float64(result.Took.Microseconds())/1000))
		if result.Exit != nil {
			attrs = append(attrs, slog.Int("exit", *result.Exit))
		}
	}
	r.log.LogAttrs(context.Background(), slog.LevelInfo, "verify "+argv[0], attrs...)
	switch {
	case err != nil:
		r.loose = result != nil && !result.Ended
		return nil, &ending{state: state, code: fault.Code(err)}
	case !r.pin.Same(): // git must not be run again
		return nil, void("CONTENT_CHANGED")
	case result.TimedOut && short:
		return nil, &ending{state: timedOut, code: "CONTROLLER_TTL_TOO_SHORT"}
	}
	return result, nil
}

// controller reads the controller's lease anew: it may have been renewed, or be
// another generation's.
func (r *run) controller() (*store.Controller, *ending) {
	c := new(store.Controller)
	if err := r.store.Load(r.record.ControllerID, c); err != nil {
		return nil, void("FENCE_LOST")
	}
	if c.Generation != r.record.ControllerGeneration || c.State != store.Active || controller.Expired(c, r.store.Now()) {
		return nil, void("FENCE_LOST")
	}
	return c, nil
}

// changes are the codes of a snapshot that is another one than before.
var changes = map[string]bool{
	"WORKTREE_NOT_ROOT": true, "WORKTREE_IS_PRIMARY": true, "WORKTREE_MOVED": true, "DETACHED_HEAD": true, "BRANCH_MISMATCH": true,
	"BRANCH_PROTECTED": true, "HEAD_MISMATCH": true, "BASE_NOT_ANCESTOR": true, "STATUS_DIGEST_MISMATCH": true, "DIGEST_TOO_LARGE": true,
}

// same looks whether all is as it was when the run began.
func (r *run) same(ctx context.Context) *ending {
	if !r.pin.Same() {
		r.record.AfterWorktreeSHA256 = ""
		return void("CONTENT_CHANGED")
	}
	s, err := r.snapshot(ctx)
	code := fault.Code(err)
	switch {
	case changes[code]:
		if r.record.AfterWorktreeSHA256 = ""; !strings.HasPrefix(code, "WORKTREE_") { // else it is another's
			r.record.AfterWorktreeSHA256 = r.content(ctx)
		}
		return void("CONTENT_CHANGED")
	case err != nil:
		return void(code)
	}
	r.record.AfterWorktreeSHA256 = s.WorktreeSHA256
	switch {
	case s.WorktreeSHA256 != r.record.WorktreeSHA256:
		return void("CONTENT_CHANGED")
	case s.cursor != r.cursor:
		return void("CURSOR_MOVED")
	}
	return nil
}

// snapshot is Snapshot for the run itself, which is what runs there.
func (r *run) snapshot(ctx context.Context) (*Snapshot, error) {
	w, a, err := r.agent(ctx, r.at.Socket, r.record.ControllerID, r.q.Expected)
	if err != nil {
		return nil, err
	}
	return r.read(ctx, w, a, r.q.Expected)
}

// content is the digest of whatever the worktree is now, or "".
func (r *run) content(ctx context.Context) string {
	tree, err := r.git.Open(ctx, r.record.Worktree)
	if err != nil || !r.pin.Same() {
		return ""
	}
	digest, _ := tree.ContentDigest(ctx, r.record.BaseCommit)
	return digest
}

// finish writes down the end. It reports false if that is to be tried again.
func (r *run) finish(end *ending) bool {
	x, err := r.store.Begin(context.Background())
	if err != nil {
		return false
	}
	defer x.End()
	var now store.Run
	switch err := r.store.Load(r.record.RunID, &now); {
	case errors.Is(err, fs.ErrNotExist):
		return true
	case err == nil && now.State != store.Running:
		*r.record = now // somebody took this process for gone
		return true
	}
	// A run that is void needs no authority to end: it is this process's own.
	if end.state != invalidated {
		if c, err := r.by(x, r.at); err != nil || c.Generation != r.record.ControllerGeneration {
			end = void("FENCE_LOST")
		}
	}
	done := *r.record
	done.State, done.FailureCode, done.Failure = end.state, end.code, end.text()
	at := r.store.Now()
	done.CompletedAt = store.Stamp(at)
	if begun, err := store.Time(done.StartedAt); err == nil {
		done.DurationMs = max(0, at.Sub(begun).Milliseconds())
	}
	if err := x.Replace(&done); err != nil {
		return false
	}
	*r.record = done
	return true
}
