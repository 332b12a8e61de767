//go:build unix

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

// A writer is a worker's lease in an answer.
type writer struct {
	laned
	LeaseType, TicketRef, RepositoryRoot, GitDir, GitCommonDir, Worktree, Branch, BaseCommit, HeadCommit, GitStatusSHA256, CheckpointSHA256, ReleasedAt string
	OwnedScopes, LockedScopes, ProtectedBranches                                                                                                        []string
}

func written(t testing.TB, m meshed) (w writer) {
	t.Helper()
	success(t, m)
	if err := json.Unmarshal(m.data["lease"], &w); err != nil {
		t.Fatalf("%v: %s", err, m.StructuredContent)
	}
	return w
}

// A repo is a real repository with linked worktrees, each on a branch of its name.
type repo struct {
	t          *testing.T
	home, main string
	base       string // the first commit
}

func newRepo(t *testing.T, trees ...string) *repo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not here")
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &repo{t: t, home: home, main: filepath.Join(home, "main")}
	r.git(home, "init", "-q", "-b", "main", r.main)
	r.write(r.main, "src/a.txt", "one\n")
	r.base = r.commit(r.main)
	r.write(r.main, "docs/b.txt", "two\n")
	r.commit(r.main)
	for _, name := range trees {
		r.git(r.main, "worktree", "add", "-q", "-b", name, r.tree(name))
	}
	return r
}

func (r *repo) tree(name string) string { return filepath.Join(r.home, name) }

// git is the plain one, as anybody has it.
func (r *repo) git(dir string, args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.home, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@example.com", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@example.com"}
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		r.t.Fatalf("git %q: %v: %s", args, err, words.String())
	}
	return out.String()
}

func (r *repo) write(dir, name, text string) {
	r.t.Helper()
	file := filepath.Join(dir, name)
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) link(to, from string) {
	r.t.Helper()
	if err := os.Symlink(to, from); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) commit(dir string) string {
	r.t.Helper()
	r.git(dir, "add", "-A")
	r.git(dir, "commit", "-q", "--allow-empty", "-m", "x")
	return r.head(dir)
}

func (r *repo) head(dir string) string { return strings.TrimSpace(r.git(dir, "rev-parse", "HEAD")) }

// status is the digest that a caller makes with a plain git and sha256sum.
func (r *repo) status(dir string) string {
	sum := sha256.Sum256([]byte(r.git(dir, "status", "--porcelain=v1", "--untracked-files=all")))
	return hex.EncodeToString(sum[:])
}

// bytes is a digest of all files of the repository and its worktrees: names,
// modes, times and contents, those in .git as well.
func (r *repo) bytes() string {
	r.t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(r.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, path, info.Mode(), info.ModTime().UnixNano())
		switch {
		case info.Mode().IsRegular():
			text, err := os.ReadFile(path)
			fmt.Fprintln(sum, len(text))
			sum.Write(text)
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			fmt.Fprintln(sum, to)
			return err
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// program writes a program that leaves a mark, and returns what tells whether it
// has run since it was asked last.
func (r *repo) program(name string) (path string, ran func() bool) {
	r.t.Helper()
	path = filepath.Join(r.t.TempDir(), name)
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\n: >'%s.ran'\ncat \"$1\" 2>/dev/null\nexit 0\n", path), 0o700); err != nil {
		r.t.Fatal(err)
	}
	return path, func() bool { return os.Remove(path+".ran") == nil }
}

// some are arguments that take the place of others; nil: there is none.
type some map[string]any

// shown are arguments with the proof of authority.
func (b *bench) shown(all ...some) string {
	args := some{"controller_id": b.cred.ControllerID, "controller_lease_id": b.cred.LeaseID, "controller_fence_token": b.cred.FenceToken}
	for _, more := range all {
		for name, value := range more {
			if args[name] = value; value == nil {
				delete(args, name)
			}
		}
	}
	text, err := json.Marshal(args)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// writing are the arguments that start a writer in the worktree as it is now, or
// with more. It owns a folder of its name.
func (b *bench) writing(r *repo, tree string, more some) string {
	b.t.Helper()
	dir := r.tree(tree)
	return b.shown(some{
		"purpose": "mend T-1", "ticket_ref": "T-1", "authority_ref": "A-1", "authority_sha256": anyDigest, "parent_pane_id": "w1:p1",
		"worktree": dir, "branch": tree, "base_commit": r.base, "expected_head": r.head(dir), "expected_status_sha256": r.status(dir),
		"owned_scopes": []string{tree}, "locked_scopes": []string{}, "protected_branches": []string{"main"}, "name": tree, "kind": "codex", "start_timeout_ms": 5000,
	}, more)
}

func (b *bench) worker(r *repo, tree string, more some) writer {
	b.t.Helper()
	return written(b.t, b.answers("herdr_owned_worker_start", b.writing(r, tree, more)))
}

// releasing are the arguments that release the writer as it and its worktree are
// now, or with more.
func (b *bench) releasing(r *repo, w writer, more some) string {
	b.t.Helper()
	args := some{"lease_id": w.LeaseID, "expected_head": r.head(w.Worktree), "expected_status_sha256": r.status(w.Worktree), "checkpoint_ref": "C-1", "checkpoint_sha256": anyDigest}
	if p := b.world().Pane(w.PaneID); p != nil && p.Agent != nil {
		args["expected_state_change_seq"] = p.Agent.StateChangeSeq
	}
	return b.shown(args, more)
}

func (b *bench) writers(args string) (all []writer) {
	b.t.Helper()
	m := b.answers("herdr_owned_worker_list", args)
	if err := json.Unmarshal(m.data["leases"], &all); err != nil || string(m.data["invalidRecords"]) != "[]" || !m.has("truncated") {
		b.t.Fatalf("%v: %s", err, m.StructuredContent)
	}
	return all
}

// says returns a detail of a refusal.
func (m meshed) says(t testing.TB, name string) (value string) {
	t.Helper()
	if err := json.Unmarshal(m.fault.Details[name], &value); err != nil {
		t.Errorf("details.%s: %v: %s", name, err, m.StructuredContent)
	}
	return value
}

// differs holds a refusal to both values that differ.
func (m meshed) differs(t testing.TB, expected, current string) {
	t.Helper()
	if m.says(t, "expected") != expected || m.says(t, "current") != current {
		t.Errorf("%s, want %s and %s", m.StructuredContent, expected, current)
	}
}

// The life of a writer, from its start to its archive, as a model sees it. No byte
// of Git's or of the worktree is changed by us (mesh.md §8, 20 and 38).
func TestMeshWorker(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newRepo(t, "lane")
	tree := r.tree("lane")
	r.write(tree, "note", "not committed\n")
	if m := b.answers("herdr_bridge_status", "{}"); !strings.Contains(string(m.data["capabilities"]), `"owned-worker-lanes-v1"`) {
		t.Errorf("%s", m.StructuredContent)
	}
	args := b.writing(r, "lane", some{"owned_scopes": []string{"./src//", "docs/x", "src"}, "locked_scopes": []string{"go.mod"}, "protected_branches": []string{"main", " refs/heads/release\t"},
		"base_commit": strings.ToUpper(r.base), "expected_head": strings.ToUpper(r.head(tree)), "expected_status_sha256": strings.ToUpper(r.status(tree))})
	before, head := r.bytes(), r.head(tree)
	w := written(t, b.answers("herdr_owned_worker_start", args))
	if r.bytes() != before {
		t.Error("the start has changed something")
	}
	want := writer{
		laned: laned{LeaseID: w.LeaseID, ControllerID: "lead", State: "active", PaneID: "w1:p5", TerminalID: b.world().Pane("w1:p5").Terminal, TabID: "w1:t2",
			TabLabel: "lane #" + w.LeaseID[:8], AgentName: "lane"},
		LeaseType: "writer", TicketRef: "T-1", RepositoryRoot: r.main, GitDir: filepath.Join(r.main, ".git", "worktrees", "lane"), GitCommonDir: filepath.Join(r.main, ".git"),
		Worktree: tree, Branch: "lane", BaseCommit: r.base, HeadCommit: head, GitStatusSHA256: r.status(tree),
		OwnedScopes: []string{"docs/x", "src"}, LockedScopes: []string{"go.mod"}, ProtectedBranches: []string{"main", " refs/heads/release\t"},
	}
	if got, want := fmt.Sprintf("%+v", w), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	if all := b.writers(`{"state":"active"}`); len(all) != 1 || fmt.Sprintf("%+v", all[0]) != fmt.Sprintf("%+v", w) {
		t.Errorf("%+v", all)
	}
	if info, err := os.Stat(filepath.Join(b.state, "writer-leases", w.LeaseID+".json")); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for words, argv := range map[string][]string{
		"tab create":  {"tab", "create", "--workspace", "w1", "--cwd", tree, "--label", w.TabLabel, "--no-focus"},
		"agent start": {"agent", "start", "lane", "--kind", "codex", "--pane", "w1:p5", "--timeout", "5000"},
	} {
		if got := commands(t, b.scene, strings.Fields(words)...); len(got) != 1 || !slices.Equal(got[0], argv) {
			t.Errorf("%q", got)
		}
	}

	// The writer commits, and goes on writing.
	old := b.releasing(r, w, nil)
	oldStatus := r.status(tree)
	r.write(tree, "src/a.txt", "changed\n")
	newHead := r.commit(tree)
	b.refuses("HEAD_MISMATCH", "herdr_owned_worker_release", old).differs(t, head, newHead)
	r.write(tree, "src/c.txt", "new\n")
	b.refuses("STATUS_DIGEST_MISMATCH", "herdr_owned_worker_release", b.releasing(r, w, some{"expected_status_sha256": oldStatus})).differs(t, oldStatus, r.status(tree))
	wrong := some{"expected_head": r.base} // what the agent does, is told first
	setStatus(t, b.scene, w.PaneID, fakeherdr.Blocked)
	b.refuses("AGENT_BLOCKED", "herdr_owned_worker_release", b.releasing(r, w, wrong))
	setStatus(t, b.scene, w.PaneID, fakeherdr.Working)
	b.refuses("AGENT_NOT_SETTLED", "herdr_owned_worker_release", b.releasing(r, w, wrong))
	setStatus(t, b.scene, w.PaneID, fakeherdr.Done)
	m := b.refuses("CURSOR_MISMATCH", "herdr_owned_worker_release", b.releasing(r, w, some{"expected_head": r.base, "expected_state_change_seq": 1}))
	if string(m.fault.Details["expected"]) != "1" || string(m.fault.Details["current"]) != fmt.Sprint(b.cursor(w.PaneID)) {
		t.Errorf("%s", m.StructuredContent)
	}
	change(t, b.scene, func(world *fakeherdr.World) { world.Pane(w.PaneID).Agent.Name = "other" })
	b.refuses("LEASE_IDENTITY_CHANGED", "herdr_owned_worker_release", b.releasing(r, w, wrong))
	change(t, b.scene, func(world *fakeherdr.World) { world.Pane(w.PaneID).Agent.Name = "lane" })
	if b.run("pane close") > 0 || b.run("agent read") > 0 || len(b.writers(`{"state":"active"}`)) != 1 {
		t.Error("a refused release has done something")
	}

	change(t, b.scene, func(world *fakeherdr.World) { world.Pane(w.PaneID).Text = []string{"", "\x1b[32mall green\x1b[0m"} })
	args = b.releasing(r, w, some{"expected_head": strings.ToUpper(newHead)})
	before = r.bytes()
	m = b.answers("herdr_owned_worker_release", args)
	if r.bytes() != before {
		t.Error("the release has changed something")
	}
	gone := written(t, m)
	if gone.State != "released" || gone.ReleasedAt == "" || gone.HeadCommit != newHead || gone.GitStatusSHA256 != r.status(tree) || gone.BaseCommit != r.base ||
		gone.CheckpointRef != "C-1" || gone.CheckpointSHA256 != anyDigest || len(gone.CaptureSHA256) != 64 || b.world().Pane(w.PaneID) != nil {
		t.Errorf("%+v", gone)
	}
	if len(m.Content) != 2 || strings.TrimSpace(m.Content[1].Text) != "all green" || strings.Contains(m.text(), "green") {
		t.Errorf("%q", m.Content)
	}
	m = b.refuses("LEASE_WRONG_STATE", "herdr_owned_worker_release", b.releasing(r, w, some{"agent_exited": true, "expected_head": r.base}))
	if m.says(t, "state") != "released" {
		t.Errorf("%s", m.StructuredContent)
	}
	b.refuses("LEASE_NOT_FOUND", "herdr_owned_worker_release", b.releasing(r, writer{laned: laned{LeaseID: b.cred.LeaseID}, Worktree: tree}, some{"agent_exited": true}))
	again := b.worker(r, "lane", nil) // all that it had is free
	if all := b.writers(`{"controller_id":"lead"}`); len(all) != 2 || all[0].LeaseID != again.LeaseID || all[1].LeaseID != w.LeaseID {
		t.Errorf("%+v", all)
	}
	if all := b.writers(`{"controller_id":"boss"}`); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	b.stdin.Close()
	b.wait()
	for _, dir := range []string{b.state, b.scene.Dir(), b.home, r.home} {
		without(t, dir, b.cred.FenceToken)
	}
}

// mesh.md §8, 16 to 20 and 22: what a worktree must be. Nothing is made for one
// that is something else.
func TestMeshWorkerRefused(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newRepo(t, "lane", "other")
	lane := r.tree("lane")
	r.write(lane, "src/deep/file", "x\n")
	r.link("src", filepath.Join(lane, "link"))
	r.link("../docs/b.txt", filepath.Join(lane, "src", "file"))
	head := r.commit(lane)
	alien := r.commit(r.tree("other")) // no ancestor
	zeros := strings.Repeat("0", 64)
	inside := func(dir, front string) func() {
		return func() {
			change(t, b.scene, func(w *fakeherdr.World) { w.Pane("w1:p2").Cwd, w.Pane("w1:p2").Front = dir, front })
		}
	}
	outside := inside("/", "")
	linked := filepath.Join(t.TempDir(), "link")
	r.link(r.home, linked)
	for name, tc := range map[string]struct {
		more              some
		before, after     func()
		code              string
		expected, current string
	}{
		"primary checkout":        {more: some{"worktree": r.main, "branch": "main"}, code: "WORKTREE_IS_PRIMARY"},
		"a folder of it":          {more: some{"worktree": r.main + "/src"}, code: "WORKTREE_NOT_ROOT"},
		"a folder of the lane":    {more: some{"worktree": lane + "/src"}, code: "WORKTREE_NOT_ROOT"},
		"its folder in .git":      {more: some{"worktree": r.main + "/.git/worktrees/lane"}, code: "WORKTREE_NOT_ROOT"},
		"no repository":           {more: some{"worktree": r.home}, code: "WORKTREE_NOT_ROOT"},
		"nothing":                 {more: some{"worktree": lane + "/none"}, code: "WORKTREE_NOT_ROOT"},
		"another branch":          {more: some{"branch": "other"}, code: "BRANCH_MISMATCH", expected: "other", current: "lane"},
		"protected":               {more: some{"protected_branches": []string{"main", "\t refs/heads/lane "}}, code: "BRANCH_PROTECTED"},
		"another head":            {more: some{"expected_head": r.base}, code: "HEAD_MISMATCH", expected: r.base, current: head},
		"no ancestor":             {more: some{"base_commit": alien}, code: "BASE_NOT_ANCESTOR"},
		"another status":          {more: some{"expected_status_sha256": zeros}, code: "STATUS_DIGEST_MISMATCH", expected: zeros, current: r.status(lane)},
		"an agent in it":          {before: inside(lane, ""), after: outside, code: "WORKTREE_OCCUPIED"},
		"an agent below it":       {before: inside(lane+"/src/deep", ""), after: outside, code: "WORKTREE_OCCUPIED"},
		"an agent by a link":      {before: inside(linked+"/lane/link", ""), after: outside, code: "WORKTREE_OCCUPIED"},
		"a program in it":         {before: inside("/", lane+"/none/any more"), after: outside, code: "WORKTREE_OCCUPIED"},
		"detached":                {before: func() { r.git(lane, "checkout", "-q", "--detach") }, after: func() { r.git(lane, "checkout", "-q", "lane") }, code: "DETACHED_HEAD"},
		"up":                      {more: some{"owned_scopes": []string{"a/../b"}}, code: "SCOPE_INVALID"},
		"absolute":                {more: some{"owned_scopes": []string{"/a"}}, code: "SCOPE_INVALID"},
		"a pattern":               {more: some{"owned_scopes": []string{"ok", "a*"}}, code: "SCOPE_INVALID"},
		"all":                     {more: some{"owned_scopes": []string{"."}}, code: "SCOPE_INVALID"},
		"a locked pattern":        {more: some{"locked_scopes": []string{"a?"}}, code: "SCOPE_INVALID"},
		"through a link":          {more: some{"owned_scopes": []string{"link/deep"}}, code: "SCOPE_SYMLINK"},
		"a link":                  {more: some{"locked_scopes": []string{"src/file"}}, code: "SCOPE_SYMLINK"},
		"owned and locked":        {more: some{"owned_scopes": []string{"a"}, "locked_scopes": []string{"a/b"}}, code: "SCOPE_LOCKED"},
		"no such pane":            {more: some{"parent_pane_id": "w9:p9"}, code: "PANE_NOT_FOUND"},
		"another controller's":    {more: some{"controller_fence_token": b.cred.LeaseID}, code: "FENCE_MISMATCH"},
		"no such controller":      {more: some{"controller_id": "boss"}, code: "CONTROLLER_NOT_FOUND"},
		"a name that is retained": {before: func() { b.worker(r, "other", nil) }, more: some{"name": "other"}, code: "LEASE_NAME_RETAINED"},
	} {
		if tc.before != nil {
			tc.before()
		}
		tabs := b.run("tab create")
		args := b.writing(r, "lane", tc.more)
		before := r.bytes()
		m := b.refuses(tc.code, "herdr_owned_worker_start", args)
		if tc.expected != "" {
			m.differs(t, tc.expected, tc.current)
		}
		if tc.code == "SCOPE_INVALID" && !strings.Contains(m.fault.Message, "_scopes[") {
			t.Errorf("%s: %s", name, m.fault.Message)
		}
		if b.run("tab create") != tabs || len(b.writers(`{"state":"failed_closed"}`)) > 0 || r.bytes() != before {
			t.Errorf("%s: something was made", name)
		}
		if tc.after != nil {
			tc.after()
		}
	}
	// An agent beside it is none of its business, and its own folder may be a link.
	change(t, b.scene, func(w *fakeherdr.World) { w.Pane("w1:p2").Cwd = r.home })
	if w := b.worker(r, "lane", some{"worktree": linked + "/lane/"}); w.Worktree != lane {
		t.Errorf("%+v", w)
	}
}

// mesh.md §8, 16 to 18: what two writers may not share.
func TestMeshWorkerLanes(t *testing.T) {
	t.Parallel()
	b, r, far := newBench(t), newRepo(t, "lane", "two", "three"), newRepo(t, "lane", "four")
	first := b.worker(r, "lane", some{"owned_scopes": []string{"a/b", "src"}, "locked_scopes": []string{"docs"}})
	linked := filepath.Join(t.TempDir(), "link")
	r.link(r.home, linked)
	r.git(r.main, "worktree", "add", "-q", "-f", r.tree("again"), "lane")
	own := func(scopes ...string) some { return some{"owned_scopes": scopes} }
	lock := func(scopes ...string) some { return some{"locked_scopes": scopes} }
	for name, tc := range map[string]struct {
		repo         *repo
		tree         string
		more         some
		code         string
		scope, other string
	}{
		"through a link":      {r, "lane", some{"worktree": linked + "/lane", "name": "x"}, "LANE_RETAINED", "", ""},
		"the same branch":     {r, "again", some{"branch": "lane"}, "LANE_RETAINED", "", ""},
		"the same path":       {r, "two", own("z", "a/b"), "SCOPE_OVERLAP", "a/b", "a/b"},
		"below":               {r, "two", own("a/b/c"), "SCOPE_OVERLAP", "a/b/c", "a/b"},
		"above":               {r, "two", own("a"), "SCOPE_OVERLAP", "a", "a/b"},
		"another spelling":    {r, "two", own("./a//b/"), "SCOPE_OVERLAP", "a/b", "a/b"},
		"beside, but longer":  {r, "two", own("a/bc"), "", "", ""},
		"owns what is locked": {r, "two", own("docs/x"), "SCOPE_LOCKED", "docs/x", "docs"},
		"locks what is owned": {r, "two", lock("src/y"), "SCOPE_LOCKED", "src/y", "src"},
		"locks all of it":     {r, "two", lock("a"), "SCOPE_LOCKED", "a", "a/b"},
		"both lock":           {r, "three", lock("docs/x"), "", "", ""},
		"another repository":  {far, "lane", some{"owned_scopes": []string{"a/b"}, "name": "far"}, "", "", ""},
	} {
		tabs := b.run("tab create")
		args := b.writing(tc.repo, tc.tree, tc.more)
		if tc.code == "" {
			w := written(t, b.answers("herdr_owned_worker_start", args))
			written(t, b.answers("herdr_owned_worker_release", b.releasing(tc.repo, w, nil)))
			continue
		}
		m := b.refuses(tc.code, "herdr_owned_worker_start", args)
		if m.says(t, "leaseId") != first.LeaseID || tc.scope != "" && (m.says(t, "scope") != tc.scope || m.says(t, "other") != tc.other) {
			t.Errorf("%s: %s", name, m.StructuredContent)
		}
		if b.run("tab create") != tabs {
			t.Errorf("%s: a tab was made", name)
		}
	}

	// A lane is retained in every state but the last ones, wherever its worktree is
	// now, and whoever's it is.
	for _, state := range []string{"provisioning", "orphaned", "releasing", "release_failed"} {
		b.put("writer-leases", first.LeaseID, func(m map[string]any) { m["state"] = state })
		b.refuses("SCOPE_OVERLAP", "herdr_owned_worker_start", b.writing(r, "two", own("src")))
	}
	b.put("writer-leases", first.LeaseID, func(m map[string]any) { m["controllerId"], m["herdrSocket"] = "boss", "/another.sock" })
	b.refuses("SCOPE_OVERLAP", "herdr_owned_worker_start", b.writing(r, "two", own("src")))
	r.git(r.main, "worktree", "move", r.tree("lane"), r.tree("moved"))
	r.git(r.tree("moved"), "checkout", "-q", "-b", "moved")
	b.refuses("LANE_RETAINED", "herdr_owned_worker_start", b.writing(r, "moved", nil))

	// What the older bridge has written need not be clean, and what cannot be
	// compared stands in the way of all of its repository (I11).
	b.put("writer-leases", first.LeaseID, func(m map[string]any) { m["ownedScopes"], m["gitCommonDir"] = []string{"src/"}, linked+"/main/.git" })
	b.refuses("SCOPE_OVERLAP", "herdr_owned_worker_start", b.writing(r, "two", own("src/x")))
	b.put("writer-leases", first.LeaseID, func(m map[string]any) { m["ownedScopes"] = []string{"src", "."} })
	b.refuses("STATE_CORRUPT", "herdr_owned_worker_start", b.writing(r, "two", own("z")))
	four := b.worker(far, "four", nil)
	written(t, b.answers("herdr_owned_worker_release", b.releasing(far, four, nil)))
	b.put("writer-leases", first.LeaseID, func(m map[string]any) { m["state"], m["releasedAt"] = "released", "2026-01-01T00:00:00.000Z" })
	b.worker(r, "two", own("src"))
}

// Where names do not differ by case alone, neither do branches and scopes.
func TestMeshWorkerIgnoreCase(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newRepo(t, "lane", "two")
	r.git(r.main, "config", "core.ignorecase", "true")
	b.refuses("BRANCH_PROTECTED", "herdr_owned_worker_start", b.writing(r, "lane", some{"protected_branches": []string{"refs/heads/LANE"}}))
	b.refuses("SCOPE_LOCKED", "herdr_owned_worker_start", b.writing(r, "lane", some{"owned_scopes": []string{"a"}, "locked_scopes": []string{"A/b"}}))
	b.worker(r, "lane", some{"owned_scopes": []string{"Src"}, "protected_branches": []string{"lanes"}})
	b.refuses("SCOPE_OVERLAP", "herdr_owned_worker_start", b.writing(r, "two", some{"owned_scopes": []string{"sRC/x"}}))
	r.git(r.main, "config", "core.ignorecase", "false")
	b.worker(r, "two", some{"owned_scopes": []string{"sRC/x"}, "protected_branches": []string{"TWO"}})
}

// mesh.md §8, 15: two servers, two controllers, one branch, at the same moment.
func TestMeshWorkerRace(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newRepo(t, "lane")
	r.git(r.main, "worktree", "add", "-q", "-f", r.tree("again"), "lane")
	other := *b
	other.host = coordinate(t, b.scene, "w2:p1", "HERDR_MESH_STATE_DIR="+b.state, "HOME="+b.home)
	other.cred = other.answers("herdr_controller_acquire", strings.Replace(asking(""), `"lead"`, `"boss"`, 1)).lease(t)
	for round, tree := range []string{"lane", "again", "lane"} {
		tabs := b.run("tab create")
		one, two := b.writing(r, "lane", some{"name": "one"}), other.writing(r, tree, some{"name": "two", "branch": "lane"})
		first, second := b.begin("herdr_owned_worker_start", one), other.begin("herdr_owned_worker_start", two)
		got := map[*bench]meshed{b: b.meshed(first), &other: other.meshed(second)}
		var won *bench
		for who, m := range got {
			if !m.IsError {
				won = who
			} else {
				refusal(t, m, "LANE_RETAINED")
			}
		}
		if won == nil || got[b].IsError == got[&other].IsError || b.run("tab create") != tabs+1 || len(b.writers(`{"state":"active"}`)) != 1 {
			t.Fatalf("round %d: %s, %s", round, got[b].StructuredContent, got[&other].StructuredContent)
		}
		written(t, won.answers("herdr_owned_worker_release", won.releasing(r, written(t, got[won]), nil)))
	}
}

// mesh.md §8, 21: no program that the repository names is run.
func TestMeshWorkerHostile(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newRepo(t, "lane")
	lane := r.tree("lane")
	r.write(lane, "src/a.txt", "changed\n")
	ran := map[string]func() bool{}
	name := func(what string) (path string) {
		path, ran[what] = r.program(what)
		return path
	}
	r.write(r.main, ".git/info/attributes", "* diff=evil\n")
	for key, value := range map[string]string{
		"core.fsmonitor": name("fsmonitor"), "diff.evil.textconv": name("textconv"), "core.pager": name("pager"), "pager.status": "true", "pager.rev-parse": name("own-pager"),
		"core.hooksPath": filepath.Dir(name("post-index-change")), "core.sshCommand": name("ssh"), "core.askPass": name("askpass"), "core.editor": name("editor"),
	} {
		r.git(r.main, "config", key, value)
	}
	r.git(lane, "status") // a plain git runs them
	r.git(lane, "diff", "HEAD")
	if !ran["fsmonitor"]() || !ran["textconv"]() {
		t.Error("a plain git does not run them either")
	}
	start := b.writing(r, "lane", nil)
	for _, was := range ran {
		was()
	}
	quiet := func(what string) {
		t.Helper()
		for name, was := range ran {
			if was() {
				t.Errorf("%s ran %s", what, name)
			}
		}
	}
	w := written(t, b.answers("herdr_owned_worker_start", start))
	quiet("the start")
	release := b.releasing(r, w, nil)
	for _, was := range ran {
		was()
	}
	written(t, b.answers("herdr_owned_worker_release", release))
	quiet("the release")
}

// mesh.md §8, 14, 52 and 61: records that cannot be read, and one that somebody
// has decided about.
func TestMeshWorkerRecords(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newRepo(t, "lane", "two")
	w := b.worker(r, "lane", nil)
	written(t, b.answers("herdr_owned_worker_release", b.releasing(r, w, nil)))
	spoil := func(path string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(b.state, "writer-leases", path), []byte(`{"version":1,"leaseType":`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bad := "0f9d2c7e-3b1a-4c5d-8e6f-001122334455.json"
	invalid := func(want string) {
		t.Helper()
		if m := b.answers("herdr_owned_worker_list", "{}"); string(m.data["invalidRecords"]) != want {
			t.Errorf("%s", m.StructuredContent)
		}
	}
	spoil("archive/" + bad)
	invalid(`[{"file":"writer-leases/archive/` + bad + `","code":"STATE_CORRUPT"}]`)
	w = b.worker(r, "lane", nil)
	spoil(bad)
	invalid(`[{"file":"writer-leases/` + bad + `","code":"STATE_CORRUPT"},{"file":"writer-leases/archive/` + bad + `","code":"STATE_CORRUPT"}]`)
	tabs := b.run("tab create")
	b.refuses("STATE_CORRUPT", "herdr_owned_worker_start", b.writing(r, "two", nil))
	if b.run("tab create") != tabs {
		t.Error("a tab was made")
	}
	written(t, b.answers("herdr_owned_worker_release", b.releasing(r, w, nil))) // that is another file
	for _, file := range []string{bad, "archive/" + bad} {
		if err := os.Remove(filepath.Join(b.state, "writer-leases", file)); err != nil {
			t.Fatal(err)
		}
	}

	change(t, b.scene, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Match: []string{"tab", "create"}, Kind: fakeherdr.Slow, Delay: time.Second, Left: 1}}
	})
	panes, starts := len(b.world().Panes), b.run("agent start")
	id := b.begin("herdr_owned_worker_start", b.writing(r, "two", nil))
	awaitCalls(t, b.scene, tabs+1, "tab", "create")
	young := b.writers(`{"state":"provisioning"}`)
	if len(young) != 1 {
		t.Fatalf("%+v", young)
	}
	m := b.refuses("LEASE_WRONG_STATE", "herdr_owned_worker_release", b.releasing(r, young[0], some{"agent_exited": true}))
	if m.fault.Details["retryAfterMs"] == nil {
		t.Errorf("%s", m.StructuredContent)
	}
	b.put("writer-leases", young[0].LeaseID, func(m map[string]any) { m["state"] = "failed_closed" })
	refusal(t, b.meshed(id), "LEASE_WRONG_STATE")
	if all := b.writers(`{"state":"failed_closed"}`); len(all) != 1 || len(b.world().Panes) != panes || b.run("agent start") != starts {
		t.Errorf("%+v, %d panes", all, len(b.world().Panes))
	}
}

// What becomes of a release, and how it goes on (mesh.md §7).
func TestMeshWorkerRelease(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newRepo(t, "lane")
	lane := r.tree("lane")
	w := b.worker(r, "lane", nil)

	// Somebody commits, or goes to another branch, while the screen is read: facts 2
	// and 3 are looked at again, right before the pane would be closed.
	for name, tc := range map[string]struct {
		during, after func()
		code          string
	}{
		"a commit":  {func() { r.git(lane, "commit", "-q", "--allow-empty", "-m", "x") }, func() {}, "HEAD_MISMATCH"},
		"a branch":  {func() { r.git(lane, "checkout", "-q", "-b", "elsewhere") }, func() { r.git(lane, "checkout", "-q", "lane") }, "BRANCH_MISMATCH"},
		"no branch": {func() { r.git(lane, "checkout", "-q", "--detach") }, func() { r.git(lane, "checkout", "-q", "lane") }, "DETACHED_HEAD"},
	} {
		change(t, b.scene, func(w *fakeherdr.World) {
			w.Faults = []fakeherdr.Fault{{Match: []string{"agent", "read"}, Kind: fakeherdr.Slow, Delay: 2 * time.Second, Left: 1}}
		})
		reads := b.run("agent read")
		id := b.begin("herdr_owned_worker_release", b.releasing(r, w, nil))
		awaitCalls(t, b.scene, reads+1, "agent", "read")
		tc.during()
		refusal(t, b.meshed(id), tc.code)
		if b.run("pane close") > 0 || len(b.writers(`{"state":"active"}`)) != 1 {
			t.Errorf("%s: something was written or closed", name)
		}
		tc.after()
	}

	// The lane is not where it was.
	args := b.releasing(r, w, nil)
	away := r.tree("away")
	rename := func(from, to string) { // an agent goes with the folder that it is in
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
		change(t, b.scene, func(s *fakeherdr.World) { s.Pane(w.PaneID).Cwd = to })
	}
	for _, instead := range []func(){
		func() {}, // it is gone
		func() { r.link(away, lane) },
		func() { // one of another repository
			far := newRepo(t)
			far.git(far.main, "worktree", "add", "-q", "-b", "lane", lane)
		},
		func() { // one of the same, but with another git folder
			r.git(r.main, "worktree", "add", "-q", "--detach", lane+"2")
			if err := os.Rename(lane+"2", lane); err != nil {
				t.Fatal(err)
			}
		},
	} {
		rename(lane, away)
		instead()
		b.refuses("WORKTREE_MOVED", "herdr_owned_worker_release", args)
		if err := os.RemoveAll(lane); err != nil {
			t.Fatal(err)
		}
		rename(away, lane)
	}
	for field, tc := range map[string]struct {
		value any
		code  string
	}{
		"baseCommit":        {strings.Repeat("1", 40), "BASE_NOT_ANCESTOR"},
		"protectedBranches": {[]string{"lane"}, "BRANCH_PROTECTED"},
		"branch":            {"main", "BRANCH_MISMATCH"},
		"terminalId":        {"term_0", "AGENT_NOT_FOUND"},
		"controllerId":      {"boss", "LEASE_OTHER_CONTROLLER"},
	} {
		var was any
		b.put("writer-leases", w.LeaseID, func(m map[string]any) { was, m[field] = m[field], tc.value })
		b.refuses(tc.code, "herdr_owned_worker_release", args)
		b.put("writer-leases", w.LeaseID, func(m map[string]any) { m[field] = was })
	}

	b.put("writer-leases", w.LeaseID, func(m map[string]any) { m["terminalId"], m["herdrSocket"] = "term_0", "/another.sock" })
	b.refuses("LEASE_OTHER_SESSION", "herdr_owned_worker_release", args)
	b.put("writer-leases", w.LeaseID, func(m map[string]any) {
		m["terminalId"], m["herdrSocket"] = w.TerminalID, filepath.Join(b.scene.Dir(), "herdr.sock")
	})

	// Herdr refuses to close the pane; then it does, but nobody writes that down.
	change(t, b.scene, func(w *fakeherdr.World) {
		w.Faults = []fakeherdr.Fault{{Match: []string{"pane", "close"}, Kind: fakeherdr.ErrorCode, Code: "confirmation_required", Left: 1}}
	})
	m := b.refuses("CLOSE_NEEDS_CONFIRMATION", "herdr_owned_worker_release", args)
	failed := b.writers(`{"state":"release_failed"}`)
	if len(failed) != 1 || failed[0].CheckpointRef != "C-1" || failed[0].HeadCommit != r.head(lane) || !strings.HasPrefix(failed[0].Failure, "CLOSE_NEEDS") || m.says(t, "state") != "release_failed" {
		t.Errorf("%+v", failed)
	}
	r.write(lane, "more", "x\n")
	b.refuses("STATUS_DIGEST_MISMATCH", "herdr_owned_worker_release", args)
	b.put("writer-leases", w.LeaseID, func(m map[string]any) { m["state"] = "releasing" })
	change(t, b.scene, func(world *fakeherdr.World) { world.Move(w.PaneID, "w2") })
	if gone := written(t, b.answers("herdr_owned_worker_release", b.releasing(r, w, some{"checkpoint_ref": "C-2"}))); gone.State != "released" || gone.CheckpointRef != "C-2" || gone.GitStatusSHA256 != r.status(lane) {
		t.Errorf("%+v", gone)
	}

	w = b.worker(r, "lane", nil)
	b.refuses("LEASE_IDENTITY_CHANGED", "herdr_owned_worker_release", b.releasing(r, w, some{"agent_exited": true}))
	b.shell(w.PaneID, true)
	b.refuses("LEASE_IDENTITY_CHANGED", "herdr_owned_worker_release", b.releasing(r, w, some{"agent_exited": true}))
	b.shell(w.PaneID, false)
	b.refuses("AGENT_NOT_FOUND", "herdr_owned_worker_release", b.releasing(r, w, some{"expected_state_change_seq": 1}))
	b.refuses("HEAD_MISMATCH", "herdr_owned_worker_release", b.releasing(r, w, some{"agent_exited": true, "expected_head": r.base}))
	if gone := written(t, b.answers("herdr_owned_worker_release", b.releasing(r, w, some{"agent_exited": true}))); gone.State != "released" || b.world().Pane(w.PaneID) != nil || r.status(lane) != gone.GitStatusSHA256 {
		t.Errorf("%+v", gone)
	}

	w = b.worker(r, "lane", nil) // the pane is gone, and its end was not written down
	b.put("writer-leases", w.LeaseID, func(m map[string]any) { m["state"] = "releasing" })
	if _, err := exec.Command(b.scene.Bin(), "pane", "close", w.PaneID).Output(); err != nil {
		t.Fatal(err)
	}
	if gone := written(t, b.answers("herdr_owned_worker_release", b.releasing(r, w, some{"agent_exited": true}))); gone.State != "released" {
		t.Errorf("%+v", gone)
	}
}

// mesh.md §8, 53: after a restart of the server.
func TestMeshWorkerRestart(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newRepo(t, "one", "two")
	one, two := b.worker(r, "one", nil), b.worker(r, "two", nil)
	change(t, b.scene, func(w *fakeherdr.World) {
		w.Restart()
		w.RunAgent(w.Pane("w1:p1"), "claude", "lead")
		w.Pane(two.PaneID).Tab = "w1:t1" // its id was given to another pane
	})
	b.shell(one.PaneID, false)
	b.shell(two.PaneID, false)
	expire(t, b.state)
	b.cred = b.answers("herdr_controller_takeover", asking(fmt.Sprintf(`,"expected_predecessor_lease_id":%q`, b.cred.LeaseID))).lease(t)
	b.refuses("AGENT_NOT_FOUND", "herdr_owned_worker_release", b.releasing(r, one, some{"expected_state_change_seq": 0}))
	if gone := written(t, b.answers("herdr_owned_worker_release", b.releasing(r, one, some{"agent_exited": true}))); gone.State != "released" || b.world().Pane(one.PaneID) != nil {
		t.Errorf("%+v", gone)
	}
	b.refuses("LEASE_IDENTITY_CHANGED", "herdr_owned_worker_release", b.releasing(r, two, some{"agent_exited": true}))
	if b.run("pane close") != 1 || b.run("agent prompt") > 0 {
		t.Errorf("%q", commands(t, b.scene))
	}
	b.worker(r, "one", nil)
	b.refuses("LANE_RETAINED", "herdr_owned_worker_start", b.writing(r, "two", nil))
}

// mesh.md §8, 59: what is wrong is named, and nothing is asked or made.
func TestMeshWorkersRefuse(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	state, variable := stateOf(t)
	path := t.TempDir() // no git is there
	h := coordinate(t, s, "w1:p1", variable, "PATH="+path)
	id := "0f9d2c7e-3b1a-4c5d-8e6f-001122334455"
	b := &bench{host: h, t: t, scene: s, cred: meshLease{ControllerID: "lead", LeaseID: id, FenceToken: id}}
	commit := strings.Repeat("1", 40)
	good := some{"purpose": "x", "ticket_ref": "T-1", "authority_ref": "A-1", "authority_sha256": anyDigest, "parent_pane_id": "w1:p1", "worktree": path, "branch": "lane", "base_commit": commit,
		"expected_head": commit, "expected_status_sha256": anyDigest, "owned_scopes": []string{"a"}, "locked_scopes": []string{}, "protected_branches": []string{"main"}, "name": "lane", "kind": "pi"}
	release := some{"lease_id": id, "expected_state_change_seq": 1, "expected_head": commit, "expected_status_sha256": anyDigest, "checkpoint_ref": "C-1", "checkpoint_sha256": anyDigest}
	many := func(n int, text string) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint(text, i))
		}
		return all
	}
	for _, test := range []struct {
		tool string
		more some
		says string
	}{
		{"start", some{"dryrun": true}, `"dryrun" is no argument`},
		{"start", some{"ticket_ref": nil}, "ticket_ref is required"},
		{"start", some{"ticket_ref": ""}, "ticket_ref must have 1 to 500"},
		{"start", some{"authority_ref": nil}, "authority_ref is required"},
		{"start", some{"authority_sha256": "x"}, "authority_sha256 must be 64"},
		{"start", some{"worktree": "lane"}, "worktree must be an absolute path"},
		{"start", some{"branch": ""}, "branch must have 1 to 500"},
		{"start", some{"branch": "--session=x"}, "branch must not be"},
		{"start", some{"base_commit": "main"}, "base_commit must be a whole commit id"},
		{"start", some{"base_commit": commit[1:]}, "base_commit must be a whole commit id"},
		{"start", some{"expected_head": commit + "1"}, "expected_head must be a whole commit id"},
		{"start", some{"expected_status_sha256": nil}, "expected_status_sha256 is required"},
		{"start", some{"owned_scopes": nil}, "owned_scopes is required"},
		{"start", some{"owned_scopes": []string{}}, "owned_scopes must have 1 to 500"},
		{"start", some{"owned_scopes": many(501, "s")}, "owned_scopes must have 1 to 500"},
		{"start", some{"owned_scopes": "a"}, "owned_scopes must be a"},
		{"start", some{"locked_scopes": nil}, "locked_scopes is required"},
		{"start", some{"locked_scopes": many(501, "s")}, "locked_scopes must have"},
		{"start", some{"protected_branches": []string{}}, "protected_branches must have 1 to 20"},
		{"start", some{"protected_branches": many(21, "b")}, "protected_branches must have 1 to 20"},
		{"start", some{"protected_branches": []string{""}}, "protected_branches[0] must have 1 to 500"},
		{"start", some{"start_timeout_ms": 4999}, "start_timeout_ms must be an integer from 5000"},
		{"start", some{"name": "Lane"}, "name must be"},
		{"start", some{"kind": "bash"}, "kind must be"},
		{"release", some{"expected_state_change_seq": nil}, "expected_state_change_seq is required, unless agent_exited"},
		{"release", some{"expected_head": nil}, "expected_head is required"},
		{"release", some{"expected_status_sha256": nil}, "expected_status_sha256 is required"},
		{"release", some{"checkpoint_ref": nil}, "checkpoint_ref is required"},
		{"release", some{"read_lines": 1001}, "read_lines must be an integer from 1 to 1000"},
		{"release", some{"base_commit": commit}, `"base_commit" is no argument`},
	} {
		args := map[string]some{"start": good, "release": release}[test.tool]
		if m := h.refuses("INVALID_ARGUMENT", "herdr_owned_worker_"+test.tool, b.shown(args, test.more)); !strings.Contains(m.fault.Message, test.says) {
			t.Errorf("%s %v: %s", test.tool, test.more, m.fault.Message)
		}
	}
	for _, test := range []struct {
		more some
		says string
	}{
		{some{"owned_scopes": []string{"ok", strings.Repeat("x", 201)}}, "argument owned_scopes[1]: a scope has 1 to 200 bytes"},
		{some{"owned_scopes": []string{""}}, "argument owned_scopes[0]: a scope has 1 to 200 bytes"},
		{some{"locked_scopes": []string{"a/../b"}}, "argument locked_scopes[0]: a scope has no .."},
	} {
		if m := h.refuses("SCOPE_INVALID", "herdr_owned_worker_start", b.shown(good, test.more)); m.fault.Message != test.says {
			t.Errorf("%s", m.fault.Message)
		}
	}
	if calls := commands(t, s); len(calls) > 0 {
		t.Errorf("herdr ran: %q", calls)
	}
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Error("a state was made")
	}
	if err := os.Mkdir(filepath.Join(path, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.refuses("GIT_NOT_FOUND", "herdr_owned_worker_start", b.shown(good))
	h.refuses("LEASE_NOT_FOUND", "herdr_owned_worker_release", b.shown(release))
	if m := h.refuses("INVALID_ARGUMENT", "herdr_owned_worker_list", `{"state":"closed"}`); !strings.Contains(m.fault.Message, "state must be") {
		t.Errorf("%s", m.StructuredContent)
	}
}

// mesh.md §8, 60: within 1 s of a signal all children are gone, git as well.
func TestMeshWorkerTerm(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	_, variable := stateOf(t)
	r := newRepo(t, "lane")
	dir := t.TempDir()
	syscall.ForkLock.RLock()
	err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\ntrap '' TERM\n: > '"+dir+"/asleep'\nwhile :; do sleep 100; done\n"), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	h := coordinate(t, s, "w1:p1", variable, "PATH="+dir+":"+os.Getenv("PATH"))
	b := &bench{host: h, t: t, scene: s}
	b.cred = h.answers("herdr_controller_acquire", asking("")).lease(t)
	h.begin("herdr_owned_worker_start", b.writing(r, "lane", nil))
	for !exists(filepath.Join(dir, "asleep")) {
		if t.Context().Err() != nil {
			t.Fatal("git was not run")
		}
		time.Sleep(10 * time.Millisecond)
	}
	begun := time.Now()
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	h.wait()
	if took := time.Since(begun); took > 2*time.Second { // 1 s, and a busy machine
		t.Errorf("it took %v", took)
	}
	if pids := h.env.alive(); len(pids) > 0 {
		t.Errorf("still there: %v", pids)
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }
