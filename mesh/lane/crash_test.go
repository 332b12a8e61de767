//go:build unix

package lane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"herdr-link/mesh/controller"
	"herdr-link/mesh/crash"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/git"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
	"herdr-link/twin"
)

// credVariable has the credential of the controller, for the process that is
// going to crash. It is in no file.
const credVariable = "HERDR_LINK_TEST_CREDENTIAL"

func authority(s server, env []string) controller.Authority {
	for _, v := range env {
		if words := strings.Fields(strings.TrimPrefix(v, credVariable+"=")); strings.HasPrefix(v, credVariable+"=") {
			return s.controllers.By(controller.Credential{ControllerID: words[0], LeaseID: words[1], Fence: words[2]})
		}
	}
	panic("no credential")
}

// A call of quickHerdr goes wrong if these say so: it is the nth, counted from 1,
// and refuses before it acts, or dies after it has.
const (
	nthVariable  = "QUICK_NTH"
	modeVariable = "QUICK_MODE" // refuse or die
)

// quickHerdr writes a Herdr that is quick: its panes are files, which are always
// whole, "-" stands for nothing. The lead is in w1:p0, another agent in w1:p1, and a new tab has the
// next number, or with QUICK_MANY one of its own.
func quickHerdr(t *testing.T, dir string) {
	t.Helper()
	text := fmt.Sprintf(`#!/bin/sh
d='%s'
echo "$*" >> "$d/calls"
no() { echo '{"error":{"code":"'$1'","message":"x"},"id":"x"}' >&2; exit 1; }
end() { [ -n "$hit" ] && kill -9 $$; exit 0; }
if [ -n "$QUICK_NTH" ] && [ "$(wc -l < "$d/calls")" -eq "$QUICK_NTH" ]; then
	[ "$QUICK_MODE" = refuse ] && no server_not_running
	hit=1
fi
read_pane() { n=${1#w1:p}; { read -r name kind seq dir < "$d/panes/$1"; } 2>/dev/null; }
write_pane() { echo "$2" > "$d/$1.$$" && mv "$d/$1.$$" "$d/panes/$1"; }
look() { read_pane "$1" || no pane_not_found; }
agent() { printf '{"name":"%%s","agent":"%%s","agent_status":"idle","pane_id":"%%s","terminal_id":"term_%%s","cwd":"%%s","state_change_seq":%%s}' "$name" "$kind" "$1" "$n" "${dir:-$d}" "$seq"; }
case "$1 $2" in
"status --json") echo '{"client":{"version":"0.8.0","protocol":20},"server":{"running":true,"socket":"/quick.sock"}}' ;;
"pane get")
	look "$3"
	[ "$kind" = - ] || more=',"agent":"'$kind'"'
	printf '{"result":{"type":"pane_info","pane":{"pane_id":"%%s","terminal_id":"term_%%s","tab_id":"w1:t%%s","workspace_id":"w1"%%s}}}\n' "$3" "$n" "$n" "$more" ;;
"pane process-info")
	look "$4"
	group=4711
	[ "$kind" = - ] || group=4712
	printf '{"result":{"type":"pane_process_info","process_info":{"pane_id":"%%s","shell_pid":4711,"foreground_process_group_id":%%s}}}\n' "$4" "$group" ;;
"tab get")
	[ -e "$d/tabs/$3" ] || no tab_not_found
	read -r label < "$d/tabs/$3"
	printf '{"result":{"type":"tab_info","tab":{"tab_id":"%%s","label":"%%s"}}}\n' "$3" "$label" ;;
"tab create")
	n=${QUICK_MANY:+$$}
	n=${n:-2}
	while [ -e "$d/tabs/w1:t$n" ]; do n=$((n + 1)); done
	echo "$8" > "$d/tabs/w1:t$n"
	write_pane "w1:p$n" "- - 0 $6"
	[ -n "$hit" ] && end
	printf '{"result":{"type":"tab_created","tab":{"tab_id":"w1:t%%s","label":"%%s"},"root_pane":{"pane_id":"w1:p%%s","terminal_id":"term_%%s","tab_id":"w1:t%%s","workspace_id":"w1"}}}\n' "$n" "$8" "$n" "$n" "$n" ;;
"agent start")
	look "$7"
	name=$3 kind=$5 seq=7
	write_pane "$7" "$name $kind $seq $dir"
	[ -n "$hit" ] && end
	printf '{"result":{"type":"agent_started","agent":%%s}}\n' "$(agent "$7")" ;;
"agent get")
	for pane in "$d"/panes/*; do
		pane=${pane##*/}
		read_pane "$pane" && [ "$name" = "$3" ] && printf '{"result":{"type":"agent_info","agent":%%s}}\n' "$(agent "$pane")" && end
	done
	no agent_not_found ;;
"agent list")
	list=
	for pane in "$d"/panes/*; do
		pane=${pane##*/}
		read_pane "$pane" || continue # it was closed meanwhile
		[ "$kind" = - ] || list="$list,$(agent "$pane")"
	done
	printf '{"result":{"type":"agent_list","agents":[%%s]}}\n' "${list#,}" ;;
"agent read" | "pane read") look "$3"; echo "the last words" ;;
"pane close")
	look "$3"
	rm "$d/panes/$3"
	[ -n "$hit" ] && end
	echo '{"result":{"type":"ok"}}' ;;
*) exit 2 ;;
esac
end
`, dir)
	must(t, os.MkdirAll(filepath.Join(dir, "panes"), 0o700))
	must(t, os.MkdirAll(filepath.Join(dir, "tabs"), 0o700))
	for pane, text := range map[string]string{"w1:p0": "lead claude 1\n", "w1:p1": "helper pi 2\n"} {
		must(t, os.WriteFile(filepath.Join(dir, "panes", pane), []byte(text), 0o600))
	}
	// A child that another test forks meanwhile would have the file open for
	// writing, and the system runs no such program.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	must(t, os.WriteFile(filepath.Join(dir, "herdr"), []byte(text), 0o700))
}

func quickEnv(dir string) []string {
	return []string{"HERDR_ENV=1", "HERDR_PANE_ID=w1:p0", "HERDR_LINK_MESH_UNPROVEN_CALLER=1", "HERDR_BIN_PATH=" + filepath.Join(dir, "herdr")}
}

// A sequence is an operation that is broken off in all places.
type sequence struct {
	name   string
	pane   string                                                 // that it is about
	ends   string                                                 // the state of the lease when it is done
	tree   bool                                                   // there is a worktree
	before func(*testing.T, server, controller.Authority, string) // what there is already
	run    func(context.Context, server, controller.Authority, string) (any, error)
}

func quickReviewer(dir string) Reviewer {
	return Reviewer{Purpose: "review", ParentPaneID: "w1:p0", Cwd: dir, Name: "critic", Kind: "codex", Timeout: time.Minute}
}

// quickRepo makes a repository with linked worktrees, each on a branch of its name.
func quickRepo(t *testing.T, dir, main string, trees ...string) {
	t.Helper()
	run := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@example.com", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@example.com"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not here")
	}
	run(dir, "init", "-q", "-b", "main", main)
	main = filepath.Join(dir, main)
	run(main, "commit", "-q", "--allow-empty", "-m", "x")
	for _, name := range trees {
		run(main, "worktree", "add", "-q", "-b", name, filepath.Join(dir, name))
		must(t, os.WriteFile(filepath.Join(dir, name, "new"), []byte(name), 0o600))
		look(t, plainGit(dir), filepath.Join(dir, name))
	}
}

// look writes down the facts of a worktree, which stay as they are, on the branch
// of its name.
func look(t *testing.T, g *git.Git, tree string) {
	t.Helper()
	opened, err := g.Open(t.Context(), tree)
	must(t, err)
	f := git.Facts{Branch: filepath.Base(tree), Protected: []string{"main"}}
	f.Head, err = opened.Head(t.Context())
	must(t, err)
	f.Base = f.Head
	f.StatusSHA256, err = opened.StatusDigest(t.Context())
	must(t, err)
	text, err := json.Marshal(f)
	must(t, err)
	must(t, os.WriteFile(tree+".facts", text, 0o600))
}

func facts(tree string) (f git.Facts, err error) {
	text, err := os.ReadFile(tree + ".facts")
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	return f, err
}

func quickWorker(tree string) (Worker, error) {
	f, err := facts(tree)
	return Worker{Purpose: "mend", TicketRef: "T-1", AuthorityRef: "A-1", AuthoritySHA256: sum, ParentPaneID: "w1:p0", Worktree: tree, Expected: f,
		Owned: []string{"src"}, Locked: []string{"docs"}, Name: "critic", Kind: "codex", Timeout: time.Minute}, err
}

func startWorker(ctx context.Context, s server, by controller.Authority, dir string) (any, error) {
	q, err := quickWorker(filepath.Join(dir, "lane"))
	if err != nil {
		return nil, err
	}
	return s.StartWorker(ctx, by, q)
}

// snapshot is a digest of all files below some folders of dir: names, modes, times
// and contents.
func snapshot(t *testing.T, dir string, folders ...string) string {
	t.Helper()
	h := sha256.New()
	for _, folder := range folders {
		must(t, filepath.WalkDir(filepath.Join(dir, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			fmt.Fprintln(h, path, info.Mode(), info.ModTime().UnixNano())
			if !info.Mode().IsRegular() {
				return nil
			}
			text, err := os.ReadFile(path)
			fmt.Fprintln(h, len(text))
			h.Write(text)
			return err
		}))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func quickAdoption(dir string) Adoption {
	return Adoption{Purpose: "help", AuthorityRef: "T-2", AuthoritySHA256: sum, Target: "helper", PaneID: "w1:p1", Name: "helper", Kind: "pi", Cwd: dir, Cursor: 2}
}

// only returns the one lease that there is, or nil.
func only(s server) (r store.Leased, err error) {
	all, err := leases[store.Reviewer](s, nil, nil)
	all, err = leases[store.Writer](s, all, err)
	all, err = leases[store.Adopted](s, all, err)
	switch {
	case err != nil || len(all) == 0:
		return nil, err
	case len(all) > 1:
		return nil, fmt.Errorf("%d leases", len(all))
	}
	return all[0], nil
}

// leases adds those of one kind.
func leases[T any, R interface {
	*T
	store.Leased
}](s server, all []store.Leased, err error) ([]store.Leased, error) {
	if err != nil {
		return nil, err
	}
	l, err := store.List[T, R](s.store, 0, nil)
	if err == nil && len(l.Invalid) > 0 {
		err = fmt.Errorf("invalid: %v", l.Invalid)
	}
	for _, r := range l.Records {
		all = append(all, r)
	}
	return all, err
}

// shut closes the one lease's pane.
func shut(ctx context.Context, s server, by controller.Authority, q Close) (any, error) {
	r, err := only(s)
	if err != nil {
		return nil, err
	}
	q.LeaseID, q.Lines = r.Base().LeaseID, 10
	switch r.Type() {
	case "reviewer":
		return s.CloseReviewer(ctx, by, q)
	case "writer":
		f, err := facts(r.Dir())
		if err != nil {
			return nil, err
		}
		return s.ReleaseWorker(ctx, by, Release{q, f.Head, f.StatusSHA256, store.Checkpoint{CheckpointRef: "C-1", CheckpointSHA256: sum}})
	}
	return s.CloseAdopted(ctx, by, q, store.Checkpoint{CheckpointRef: "C-1", CheckpointSHA256: sum})
}

func sequences() []sequence {
	start := func(ctx context.Context, s server, by controller.Authority, dir string) (any, error) {
		return s.StartReviewer(ctx, by, quickReviewer(dir))
	}
	adopt := func(ctx context.Context, s server, by controller.Authority, dir string) (any, error) {
		return s.Adopt(ctx, by, quickAdoption(dir))
	}
	done := func(do func(context.Context, server, controller.Authority, string) (any, error)) func(*testing.T, server, controller.Authority, string) {
		return func(t *testing.T, s server, by controller.Authority, dir string) {
			_, err := do(t.Context(), s, by, dir)
			must(t, err)
			x, err := s.store.Begin(t.Context()) // a result that nobody wants
			must(t, err)
			defer x.End()
			r, err := only(s)
			must(t, err)
			now := store.Stamp(time.Now())
			must(t, x.Create(&store.Receipt{Version: 1, ReceiptID: disk.NewID(), ControllerID: "lead", ControllerLeaseID: disk.NewID(), Target: "x", TargetLeaseID: r.Base().LeaseID,
				PaneID: "w1:p9", AgentKind: "codex", Cwd: dir, State: store.Reserved, CreatedAt: now, UpdatedAt: now, BeforeSeq: 1}))
		}
	}
	closing := func(cursor int64) func(context.Context, server, controller.Authority, string) (any, error) {
		return func(ctx context.Context, s server, by controller.Authority, _ string) (any, error) {
			return shut(ctx, s, by, Close{Cursor: cursor, Abandon: true})
		}
	}
	return []sequence{
		{"start", "w1:p2", store.Active, false, nil, start},
		{"close", "w1:p2", store.Closed, false, done(start), closing(7)},
		{"adopt", "w1:p1", store.Active, false, nil, adopt},
		{"close adopted", "w1:p1", store.Closed, false, done(adopt), closing(2)},
		{"start worker", "w1:p2", store.Active, true, nil, startWorker},
		{"release worker", "w1:p2", store.Released, true, done(startWorker), closing(7)},
	}
}

// prepare makes what there is before, and returns the environment of who goes on.
func (q sequence) prepare(t *testing.T, dir string) []string {
	t.Helper()
	quickHerdr(t, dir)
	env := quickEnv(dir)
	s := serve(dir, env, nil, nil, nil)
	r, err := s.controllers.Acquire(t.Context(), controller.Request{ControllerID: "lead", AuthorityRef: "T-1", AuthoritySHA256: sum, TTL: 1800 * time.Second})
	must(t, err)
	env = append(env, credVariable+"="+strings.Join([]string{r.ControllerID, r.LeaseID, r.FenceToken}, " "))
	if q.tree {
		quickRepo(t, dir, "main", "lane")
		must(t, os.WriteFile(filepath.Join(dir, "bytes"), []byte(snapshot(t, dir, "main", "lane")), 0o600))
	}
	if q.before != nil {
		q.before(t, s, authority(s, env), dir)
	}
	must(t, os.Remove(filepath.Join(dir, "calls")))
	return env
}

// announced is a log that is a step of the play for each herdr that has ended.
type announced struct {
	slog.Handler
	d *disk.Disk
}

func (a announced) Handle(_ context.Context, r slog.Record) error {
	_ = a.d.Before(r.Message, "")
	return nil
}

func plays() (all []crash.Play) {
	for _, q := range sequences() {
		all = append(all, crash.Play{
			Name: q.name,
			Run: func(ctx context.Context, dir string, d *disk.Disk) (any, error) {
				s := serve(dir, os.Environ(), d, nil, slog.New(announced{slog.NewTextHandler(os.Stderr, nil), d}))
				return q.run(ctx, s, authority(s, os.Environ()), dir)
			},
			Skip:    func(before []string, op string) bool { return !q.own(before, op) },
			Prepare: func(t *testing.T, dir string) []string { return q.prepare(t, disk.Resolved(dir)) },
			Check: func(t *testing.T, end crash.End) {
				if end.Code != "" && end.Code != "STATE_IO" {
					t.Errorf("it failed with %s", end.Code)
				}
				q.check(t, disk.Resolved(end.Dir), end.Env, end.Code == "" && !end.Killed)
			},
		})
	}
	return all
}

// own reports whether a step is the sequence's own. Writers are started as
// reviewers are once their lease stands; and whatever is closed, it is so in the
// same way until the record of that is written.
func (q sequence) own(before []string, op string) bool {
	has := func(text string) bool {
		return slices.ContainsFunc(append(slices.Clone(before), op), func(op string) bool { return strings.Contains(op, text) })
	}
	switch q.name {
	case "start worker":
		return !has("herdr tab create")
	case "close adopted", "release worker":
		return has(".json.")
	}
	return true
}

// check holds what is left to the invariants, and goes on from there as the crash
// table says (mesh.md §7). done says that the operation was answered well.
func (q sequence) check(t *testing.T, dir string, env []string, done bool) {
	t.Helper()
	token := strings.Fields(env[len(env)-1])[2]
	crash.NoFence(t, dir, token) // I10
	there := func(pane string) bool {
		_, err := os.Stat(filepath.Join(dir, "panes", pane))
		return err == nil
	}
	s := serve(dir, env, nil, func() time.Time { return time.Now().Add(lease.Young) }, nil)
	r, err := only(s)
	must(t, err)
	state := "" // there is none
	if r != nil {
		state = r.Base().State
	}

	closes := q.ends != store.Active

	// Nobody's pane is gone (I2), and one that was made is under a lease (I11).
	for _, pane := range []string{"w1:p0", "w1:p1"} {
		if !there(pane) && (pane != q.pane || !closes) {
			t.Errorf("%s was closed, which nobody wanted", pane)
		}
	}
	if there(q.pane) && (r == nil && strings.HasPrefix(q.name, "start") || r != nil && lease.Terminal(r)) {
		t.Errorf("the pane is there, and its lease is %q", state)
	}
	if done && (state != q.ends || there(q.pane) == closes) {
		t.Errorf("it was done, and the lease is %q", state)
	}
	if q.tree {
		if before, err := os.ReadFile(filepath.Join(dir, "bytes")); err != nil || string(before) != snapshot(t, dir, "main", "lane") {
			t.Errorf("a byte of the worktree or of its repository was changed: %v", err)
		}
	}
	q.receipts(t, s, state)
	q.goOn(t, s, authority(s, env), dir, r, there)
	crash.NoFence(t, dir, token)
}

// receipts holds the receipts to what became of their lease: they end with it, and
// not before its closing has begun.
func (q sequence) receipts(t *testing.T, s server, state string) {
	t.Helper()
	list, err := store.List[store.Receipt](s.store, 0, nil)
	must(t, err)
	if (len(list.Records) > 0) != (q.before != nil) || len(list.Invalid) > 0 {
		t.Errorf("receipts: %+v", list)
	}
	closed := state == store.Closed || state == store.Released
	for _, p := range list.Records {
		reserved, abandoned := p.State == store.Reserved, p.State == store.Failed && p.Failure == "abandoned"
		if !reserved && !abandoned || reserved && closed || abandoned && state == store.Active {
			t.Errorf("the lease is %s, and its receipt %s", state, p.State)
		}
	}
}

// goOn ends the lease in whatever state it is, and begins anew.
func (q sequence) goOn(t *testing.T, s server, by controller.Authority, dir string, r store.Leased, there func(string) bool) {
	t.Helper()
	if r != nil && !lease.Terminal(r) {
		b := r.Base()
		if q.tree { // nobody else gets what it has (I9, I11)
			other, err := quickWorker(r.Dir())
			must(t, err)
			other.Name = "other"
			if _, err := s.StartWorker(t.Context(), by, other); fault.Code(err) != "LANE_RETAINED" {
				t.Errorf("the lease is %s, and another one: %v", b.State, err)
			}
		}
		_, err := shut(t.Context(), s, by, Close{Cursor: map[string]int64{"w1:p1": 2, "w1:p2": 7}[q.pane], Abandon: true})
		if fault.Code(err) == "AGENT_NOT_FOUND" {
			_, err = shut(t.Context(), s, by, Close{Exited: true, Abandon: true})
		}
		switch {
		case err == nil && !there(q.pane):
		case fault.Code(err) != "LEASE_IDENTITY_CHANGED":
			t.Fatalf("the lease is %s, and closing it: %v", b.State, err)
		case b.PaneID == "" && (b.State == store.Provisioning || b.State == store.Orphaned):
			// Reconciling finds the tab by its label, or that there is none. An agent
			// is started only where the lease knows.
			if text, _ := os.ReadFile(filepath.Join(dir, "panes", q.pane)); len(text) > 0 && !strings.HasPrefix(string(text), "- ") {
				t.Errorf("an agent runs, and the lease does not know where: %s", text)
			}
			if text, _ := os.ReadFile(filepath.Join(dir, "tabs", "w1:t2")); len(text) > 0 && strings.TrimSpace(string(text)) != r.Made().TabLabel {
				t.Errorf("the tab is called %q", text)
			}
			return
		case !begun(b.State) && !there(q.pane): // reconciling finds that
			return
		default:
			t.Fatalf("the lease is %s, and closing it: %v", b.State, err)
		}
	}
	begin := q.run // what it had is free again
	if q.tree {
		begin = startWorker
	}
	if (q.ends == store.Active || q.tree) && there("w1:p1") {
		if _, err := begin(t.Context(), s, by, dir); err != nil {
			t.Errorf("again: %v", err)
		}
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	if twin.Runs(t) { // but for the plays that nobody kills
		return
	}
	for _, p := range plays() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			p.Each(t)
		})
	}
}

// Each herdr of each operation is refused, or dies when it has acted.
func TestHerdrFails(t *testing.T) {
	t.Parallel()
	for _, q := range sequences() {
		run := func(t *testing.T, nth int, mode string) (calls int, err error) {
			dir := disk.Resolved(t.TempDir())
			env := q.prepare(t, dir)
			s := serve(dir, append(env, fmt.Sprintf("%s=%d", nthVariable, nth), modeVariable+"="+mode), nil, nil, nil)
			_, err = q.run(t.Context(), s, authority(s, env), dir)
			text, readErr := os.ReadFile(filepath.Join(dir, "calls"))
			must(t, readErr)
			q.check(t, dir, env, err == nil)
			return strings.Count(string(text), "\n"), err
		}
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			calls, err := run(t, 0, "")
			must(t, err)
			for nth := 1; nth <= calls; nth++ {
				for _, mode := range []string{"refuse", "die"} {
					t.Run(fmt.Sprintf("%d %s", nth, mode), func(t *testing.T) {
						t.Parallel()
						_, err := run(t, nth, mode)
						if code := fault.Code(err); mode == "refuse" && code != "HERDR_SERVER_DOWN" || mode == "die" && err != nil && code != "HERDR_BAD_OUTPUT" {
							t.Errorf("%v", err)
						}
					})
				}
			}
		})
	}
}
