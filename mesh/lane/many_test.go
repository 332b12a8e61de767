//go:build unix

package lane

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"herdr-link/mesh/controller"
	"herdr-link/mesh/crash"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
	"herdr-link/twin"
)

var howLong = flag.Duration("many", 2*time.Second, "how long 16 processes start and release writers in TestMany")

const (
	// manyOf and manyAs make this test binary one of those processes: in that
	// folder, in the pane of that name.
	manyOf = "HERDR_LINK_MANY_TEST_DIR"
	manyAs = "HERDR_LINK_MANY_TEST_PANE"

	processes = 16
	// haste is how much faster their clock is, so that a lease which was left
	// provisioning can be released after a while.
	haste = 400
)

// manyTrees are the worktrees, of two repositories, and manyScopes what writers
// want of them.
var (
	manyTrees  = map[string][]string{"one": {"a", "b", "c", "d", "e"}, "two": {"x", "y"}}
	manyScopes = []string{"src", "src/api", "src/api/v1", "src/apis", "docs", "docs/x", "go.mod", "web"}
)

// work is one of the processes: it starts and releases writers until there is a
// file "stop", and notes in its own file with which code each call ended.
func work(dir string) int {
	pane := os.Getenv(manyAs)
	info, err := os.Stat(filepath.Join(dir, "herdr"))
	if err != nil {
		return 1
	}
	begun := info.ModTime()
	now := func() time.Time { return begun.Add(time.Since(begun) * haste) }
	env := append(quickEnv(dir), "QUICK_MANY=1", "HERDR_PANE_ID="+pane)
	s := serve(dir, env, chronicle(dir), now, nil)
	codes, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("codes-%d", os.Getpid())), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	ctx := context.Background()
	me := "lead-" + strings.TrimPrefix(pane, "w1:p")
	var by controller.Authority
	for round := 0; ; round++ {
		if _, err := os.Stat(filepath.Join(dir, "stop")); err == nil {
			return 0
		}
		var op string
		switch mine := ours(s, me); {
		case by == nil || round%20 == 19: // their time is short
			op = "authority"
			by, err = authorized(ctx, s, me)
		case len(mine) > 0 && rand.N(3) > 0:
			op = "release"
			err = release(ctx, s, by, mine[rand.N(len(mine))])
		default:
			op = "start"
			err = begin(ctx, s, by, dir)
		}
		if code := fault.Code(err); code == "" && err != nil {
			return 2
		} else if _, err := fmt.Fprintln(codes, op, code); err != nil {
			return 1
		} else if code == "CONTROLLER_EXPIRED" {
			by = nil
		}
	}
}

// chronicle is a disk that writes down each writer that is about to be created or
// archived. Both happen under the store lock, so all processes write into one
// file, and its lines are in the order in which it happened.
func chronicle(dir string) *disk.Disk {
	return &disk.Disk{Before: func(op, path string) error {
		folder, name := filepath.Split(path)
		id, isRecord := strings.CutSuffix(name, ".json")
		event := map[string]string{"link writer-leases": "created", "rename archive": "ended"}[op+" "+filepath.Base(folder)]
		if event == "" || !isRecord {
			return nil
		}
		f, err := os.OpenFile(filepath.Join(dir, "chronicle"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(f, "%s %s\n", event, id)
			err = errors.Join(err, f.Close())
		}
		return err
	}}
}

func authorized(ctx context.Context, s server, me string) (controller.Authority, error) {
	q := controller.Request{ControllerID: me, AuthorityRef: "T-1", AuthoritySHA256: sum, TTL: 1800 * time.Second}
	r, err := s.controllers.Acquire(ctx, q)
	if fault.Code(err) == "CONTROLLER_EXISTS" {
		r, err = s.controllers.Resume(ctx, q)
	}
	if err != nil {
		return nil, err
	}
	return s.controllers.By(controller.Credential{ControllerID: me, LeaseID: r.LeaseID, Fence: r.FenceToken}), nil
}

// ours are the writers of a controller that are retained.
func ours(s server, me string) []*store.Writer {
	l, _ := store.List(s.store, 0, func(r *store.Writer) bool { return r.ControllerID == me && !lease.Terminal(r) })
	return l.Records
}

func begin(ctx context.Context, s server, by controller.Authority, dir string) error {
	repo := []string{"one", "one", "one", "two"}[rand.N(4)]
	q, err := quickWorker(filepath.Join(dir, repo, manyTrees[repo][rand.N(len(manyTrees[repo]))]))
	if err != nil {
		return err
	}
	mixed := slices.Clone(manyScopes)
	rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	n := 1 + rand.N(2)
	q.Owned, q.Locked = mixed[:n], mixed[n:n+rand.N(2)]
	q.Name = fmt.Sprintf("w%d-%d", os.Getpid(), rand.N(1000))
	_, err = s.StartWorker(ctx, by, q)
	return err
}

func release(ctx context.Context, s server, by controller.Authority, w *store.Writer) error {
	f, err := facts(w.Worktree)
	if err != nil {
		return err
	}
	q := Release{Close{LeaseID: w.LeaseID, Cursor: 7, Lines: 10}, f.Head, f.StatusSHA256, store.Checkpoint{CheckpointRef: "C-1", CheckpointSHA256: sum}}
	_, err = s.ReleaseWorker(ctx, by, q)
	if fault.Code(err) == "AGENT_NOT_FOUND" {
		q.Exited = true
		_, err = s.ReleaseWorker(ctx, by, q)
	}
	return err
}

// Many processes start and release writers with all kinds of scopes in a few
// worktrees, and some of them are killed at any moment. At no time were there two
// retained writers that share anything (I9), and no byte was changed in Git.
func TestMany(t *testing.T) {
	dir := disk.Resolved(t.TempDir())
	quickHerdr(t, dir)
	for repo, trees := range manyTrees {
		must(t, os.Mkdir(filepath.Join(dir, repo), 0o700))
		quickRepo(t, filepath.Join(dir, repo), "main", trees...)
	}
	for i := range processes {
		must(t, os.WriteFile(filepath.Join(dir, "panes", fmt.Sprintf("w1:plead%d", i)), fmt.Appendf(nil, "lead%d claude 1\n", i), 0o600))
	}
	repos := slices.Collect(maps.Keys(manyTrees))
	slices.Sort(repos)
	before := snapshot(t, dir, repos...)
	program := twin.Path(t)
	going, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for i := range processes {
		wait.Go(func() {
			for stopped := false; !stopped; {
				cmd := exec.Command(program)
				cmd.Env = append(os.Environ(), manyOf+"="+dir, manyAs+"="+fmt.Sprintf("w1:plead%d", i))
				cmd.Stderr = os.Stderr
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				life := *howLong + 2*patience
				if i%2 == 0 { // the others live for ever
					life = 200*time.Millisecond + rand.N(2*time.Second)
				}
				kill := time.AfterFunc(life, func() { _ = cmd.Process.Kill() })
				err := cmd.Wait()
				if kill.Stop() && err != nil {
					t.Errorf("%d: %v", i, err)
				}
				stopped = going.Err() != nil
			}
		})
	}
	for begun := time.Now(); time.Since(begun) < *howLong || time.Since(begun) < patience && !enough(dir); {
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	must(t, os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600))
	wait.Wait()
	if snapshot(t, dir, repos...) != before {
		t.Error("a byte of the worktrees or of their repositories was changed")
	}
	judgeCodes(t, dir)
	l, err := store.List[store.Writer](store.New(store.Options{Root: filepath.Join(dir, "state")}), 0, nil)
	must(t, err)
	if len(l.Invalid) > 0 {
		t.Errorf("invalid: %v", l.Invalid)
	}
	text, err := os.ReadFile(filepath.Join(dir, "chronicle"))
	must(t, err)
	most := judge(t, string(text), l.Records)
	t.Logf("%d writers, %d of them at a time", len(l.Records), most)
	crash.NoFence(t, dir)
}

// patience is how long a busy machine may take for a few of each.
const patience = time.Minute

// enough reports whether so much has happened that the history says something.
func enough(dir string) bool {
	text, _ := os.ReadFile(filepath.Join(dir, "chronicle"))
	return strings.Count(string(text), "ended") >= 8
}

// judgeCodes fails if a call ended with a code that it should not.
func judgeCodes(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "codes-*"))
	must(t, err)
	counts := map[string]int{}
	for _, file := range files {
		f, err := os.Open(file)
		must(t, err)
		for lines := bufio.NewScanner(f); lines.Scan(); {
			counts[lines.Text()]++
		}
		must(t, f.Close())
	}
	allowed := strings.Fields("LANE_RETAINED SCOPE_OVERLAP SCOPE_LOCKED LEASE_WRONG_STATE CONTROLLER_EXPIRED FENCE_MISMATCH LOCK_BUSY TARGET_BUSY " +
		// what a process leaves that was killed
		"WORKTREE_OCCUPIED LEASE_IDENTITY_CHANGED PANE_NOT_FOUND AGENT_START_FAILED AGENT_NOT_FOUND")
	for _, line := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%5d %s", counts[line], line)
		if _, code, _ := strings.Cut(line, " "); code != "" && !slices.Contains(allowed, code) {
			t.Errorf("a call ended with %s", line)
		}
	}
	for _, op := range []string{"authority ", "start ", "release ", "start LANE_RETAINED", "start SCOPE_OVERLAP"} {
		if counts[op] == 0 {
			t.Errorf("there was no %q", op)
		}
	}
}

// judge goes through the chronicle, and returns how many writers were retained at
// most. One that was about to be created, and is in no record, was killed before.
func judge(t *testing.T, chronicle string, records []*store.Writer) (most int) {
	t.Helper()
	byID := map[string]*store.Writer{}
	for _, r := range records {
		byID[r.LeaseID] = r
	}
	active := map[string]*store.Writer{}
	seen := map[string]bool{}
	for line := range strings.Lines(chronicle) {
		event, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		r := byID[id]
		if r == nil && event == "created" {
			continue
		}
		if r == nil {
			t.Errorf("%s has ended, and left no record", id)
			continue
		}
		if event == "ended" {
			delete(active, id)
			continue
		}
		for _, o := range active {
			if share(r, o) {
				t.Errorf("%s began while %s was there:\n%+v\n%+v", r.LeaseID, o.LeaseID, r, o)
			}
		}
		active[id], seen[id] = r, true
		most = max(most, len(active))
	}
	for id := range byID {
		if !seen[id] {
			t.Errorf("%s is not in the chronicle", id)
		}
	}
	return most
}

// share reports whether two writers may not be there together: the rule once more,
// from its text (mesh.md §4.7, 8).
func share(a, b *store.Writer) bool {
	if a.Worktree == b.Worktree {
		return true
	}
	if a.GitCommonDir != b.GitCommonDir {
		return false
	}
	meet := func(xs, ys []string) bool {
		for _, x := range xs {
			for _, y := range ys {
				if strings.HasPrefix(x+"/", y+"/") || strings.HasPrefix(y+"/", x+"/") {
					return true
				}
			}
		}
		return false
	}
	return a.Branch == b.Branch || meet(a.OwnedScopes, b.OwnedScopes) || meet(a.OwnedScopes, b.LockedScopes) || meet(a.LockedScopes, b.OwnedScopes)
}

// The judge finds what it is there for.
func TestJudge(t *testing.T) {
	t.Parallel()
	writer := func(id, tree, branch, owned, locked string) *store.Writer {
		r := &store.Writer{GitCommonDir: "/r", Worktree: tree, Branch: branch, OwnedScopes: strings.Fields(owned), LockedScopes: strings.Fields(locked)}
		r.LeaseID, r.State = id, store.Active
		return r
	}
	first := writer("1", "/a", "a", "src", "docs")
	far := writer("2", "/b", "a", "src", "")
	far.GitCommonDir = "/far"
	for name, tc := range map[string]struct {
		second    *store.Writer
		chronicle string
		fails     bool
	}{
		"apart":               {writer("2", "/b", "b", "srcs web", "docs/x"), "created 1\ncreated 2\n", false},
		"one worktree":        {writer("2", "/a", "b", "web", ""), "created 1\ncreated 2\n", true},
		"one branch":          {writer("2", "/b", "a", "web", ""), "created 1\ncreated 2\n", true},
		"below":               {writer("2", "/b", "b", "src/x", ""), "created 1\ncreated 2\n", true},
		"above":               {writer("2", "/b", "b", "web", "src"), "created 2\ncreated 1\n", true},
		"locked":              {writer("2", "/b", "b", "docs/x", ""), "created 1\ncreated 2\n", true},
		"one after the other": {writer("2", "/a", "a", "src", ""), "created 1\nended 1\ncreated 2\n", false},
		"ended too late":      {writer("2", "/a", "a", "src", ""), "created 1\ncreated 2\nended 1\n", true},
		"another repository":  {far, "created 1\ncreated 2\n", false},
		"not created":         {writer("2", "/a", "a", "src", ""), "created 1\ncreated 3\nended 1\ncreated 2\n", false},
		"not written down":    {writer("2", "/b", "b", "web", ""), "created 1\n", true},
		"without a record":    {writer("2", "/b", "b", "web", ""), "created 1\ncreated 2\nended 3\n", true},
	} {
		stand := new(testing.T)
		judge(stand, tc.chronicle, []*store.Writer{first, tc.second})
		if stand.Failed() != tc.fails {
			t.Errorf("%s: failed %t", name, stand.Failed())
		}
	}
}
