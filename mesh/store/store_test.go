//go:build unix

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"herdr-link/mesh/attest"
	"herdr-link/mesh/crash"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/lock"
	"herdr-link/twin"
)

func TestMain(m *testing.M) {
	crash.Main(play())
	os.Exit(twin.Main(m))
}

const (
	id1    = "0f9d2c7e-3b1a-4c5d-8e6f-001122334455"
	id2    = "1f9d2c7e-3b1a-4c5d-8e6f-001122334455"
	id3    = "2f9d2c7e-3b1a-4c5d-8e6f-001122334455"
	moment = "2026-01-02T03:04:05.678Z"
)

var digest, commit = strings.Repeat("ab", 32), strings.Repeat("cd", 20)

func controller() *Controller {
	return &Controller{
		Version: 2, LeaseType: "controller", LeaseID: id1, ControllerID: "lead.1", Generation: 3, AuthorityRef: "T-1", AuthoritySHA256: digest,
		PaneID: "w1:p1", AgentName: "lead", AgentKind: "claude", Cwd: "/home/user", State: Active, AcquiredAt: moment, RenewedAt: moment,
		ExpiresAt: moment, PredecessorLeaseID: id2, ControllerProcess: &attest.Process{PID: 7, BootID: "b", StartTicks: "9"},
		TerminalID: "term_1", FenceSHA256: digest, HerdrSocket: "/run/herdr.sock",
	}
}

func receipt(id, state string) *Receipt {
	r := &Receipt{
		Version: 1, ReceiptID: id, ControllerID: "lead.1", ControllerLeaseID: id2, Target: "reviewer", TargetLeaseID: id3, PaneID: "w1:p2",
		AgentKind: "codex", Cwd: "/home/user", State: state, CreatedAt: moment, UpdatedAt: moment, BeforeSeq: 4, TerminalID: "term_2", HerdrSocket: "/run/herdr.sock",
	}
	switch state {
	case Pending:
		r.AfterSeq = 6
	case Completed:
		r.AfterSeq, r.SettledSeq = 6, 6
	case Failed:
		r.Failure = "abandoned"
	}
	return r
}

// all has a record of each kind.
func all() []Record {
	exit := 0
	return []Record{
		controller(),
		&Reviewer{Version: 1, Lease: Lease{LeaseID: id1, ControllerID: "lead.1", Purpose: "review", AgentName: "reviewer", AgentKind: "codex", State: Provisioning},
			Tab: Tab{ParentPaneID: "w1:p1", CreatedAt: moment, WorkspaceID: "w1", TabLabel: "reviewer #0f9d2c7e"}, Cwd: "/home/user"},
		&Writer{Version: 1, LeaseType: "writer", Lease: Lease{LeaseID: id1, ControllerID: "lead.1", Purpose: "write", PaneID: "w1:p3", AgentName: "writer", AgentKind: "pi", State: Active},
			Tab: Tab{ParentPaneID: "w1:p1", CreatedAt: moment}, TicketRef: "T-1", AuthorityRef: "T-1", AuthoritySHA256: digest,
			RepositoryRoot: "/r", GitDir: "/r/.git/worktrees/w", GitCommonDir: "/r/.git", Worktree: "/w", Branch: "topic", BaseCommit: commit, HeadCommit: commit,
			GitStatusSHA256: digest, OwnedScopes: []string{"a"}, LockedScopes: []string{}, ProtectedBranches: []string{"main"}},
		&Adopted{Version: 1, LeaseType: "adopted-pane", Lease: Lease{LeaseID: id1, ControllerID: "lead.1", Purpose: "close", PaneID: "w1:p2", AgentName: "reviewer", AgentKind: "codex", State: Active},
			AuthorityRef: "T-1", AuthoritySHA256: digest, Cwd: "/home/user", StateChangeSeq: 0, AdoptedAt: moment},
		receipt(id1, Pending),
		&Run{Version: 1, RunID: digest, ControllerID: "lead.1", ControllerGeneration: 1, WriterLeaseID: id1, TicketRef: "T-1", Worktree: "/w", Branch: "topic",
			BaseCommit: commit, HeadCommit: commit, WorktreeSHA256: digest, State: Running, StartedAt: moment, ExitCode: &exit, Owner: &attest.Process{PID: 7, BootID: "b", StartTicks: "9"}},
	}
}

func newStore(t *testing.T) (s *Store, root string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "state")
	return New(Options{Root: root}), root
}

func begin(t *testing.T, s *Store) *Section {
	t.Helper()
	x, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.End)
	return x
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func blank(r Record) Record { return reflect.New(reflect.TypeOf(r).Elem()).Interface().(Record) }

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	s, root := newStore(t)
	x := begin(t, s)
	for _, r := range all() {
		p := r.place()
		must(t, x.Create(r))
		file := filepath.Join(root, p.folder, p.id+".json")
		info, err := os.Stat(file)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", p.folder, info, err)
		}
		if info, err := os.Stat(filepath.Dir(file)); err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", p.folder, info, err)
		}
		got := blank(r)
		must(t, s.Load(p.id, got))
		if c, ok := got.(*Controller); ok {
			c.raw = nil
		}
		if !reflect.DeepEqual(got, r) {
			t.Errorf("%s: %+v\nis not %+v", p.folder, got, r)
		}
		text, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(text), "{\n  \"version\": ") || !strings.HasSuffix(string(text), "\n}\n") || strings.Contains(string(text), "null") {
			t.Errorf("%s: %v\n%s", p.folder, err, text)
		}
		if err := x.Create(r); fault.Code(err) != "STATE_IO" {
			t.Errorf("%s, twice: %v", p.folder, err)
		}
		must(t, x.Replace(r))
		if left, _ := filepath.Glob(filepath.Join(root, p.folder, ".*.tmp")); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}

// Each change makes a good file one that is refused.
func TestDecode(t *testing.T) {
	t.Parallel()
	set := func(name string, value any) func(map[string]any) { return func(m map[string]any) { m[name] = value } }
	drop := func(name string) func(map[string]any) { return func(m map[string]any) { delete(m, name) } }
	kind := map[string]Record{"controller": controller(), "pending": receipt(id1, Pending), "completed": receipt(id1, Completed), "failed": receipt(id1, Failed)}
	for i, name := range []string{"", "reviewer", "writer", "adopted", "", "run"} {
		if name != "" {
			kind[name] = all()[i]
		}
	}
	for name, tc := range map[string]struct {
		kind   string
		change func(map[string]any)
		code   string
	}{
		"as it is":               {"controller", func(map[string]any) {}, ""},
		"more than is known":     {"controller", set("extra", 1), ""},
		"another size of letter": {"controller", func(m map[string]any) { m["State"] = "released" }, ""},
		"only another size":      {"controller", func(m map[string]any) { m["State"] = m["state"]; delete(m, "state") }, "STATE_CORRUPT"},
		"version 1": {"controller", func(m map[string]any) {
			m["version"] = 1
			m["fenceToken"] = id3
			delete(m, "fenceSha256")
			delete(m, "terminalId")
			delete(m, "herdrSocket")
		}, ""},
		"version 1, no token":    {"controller", set("version", 1), "STATE_CORRUPT"},
		"version 3":              {"controller", set("version", 3), "STATE_VERSION"},
		"version 0":              {"controller", set("version", 0), "STATE_VERSION"},
		"version as text":        {"controller", set("version", "2"), "STATE_CORRUPT"},
		"no version":             {"controller", drop("version"), "STATE_CORRUPT"},
		"a receipt of version 2": {"pending", set("version", 2), "STATE_VERSION"},
		"null":                   {"controller", set("releasedAt", nil), "STATE_CORRUPT"},
		"missing":                {"controller", drop("cwd"), "STATE_CORRUPT"},
		"empty":                  {"controller", set("cwd", ""), "STATE_CORRUPT"},
		"a number as text":       {"controller", set("generation", "3"), "STATE_CORRUPT"},
		"text as a number":       {"controller", set("cwd", 3), "STATE_CORRUPT"},
		"half a number":          {"controller", set("generation", 1.5), "STATE_CORRUPT"},
		"generation 0":           {"controller", set("generation", 0), "STATE_CORRUPT"},
		"a state":                {"controller", set("state", "closed"), "STATE_CORRUPT"},
		"released when":          {"controller", set("state", "released"), "STATE_CORRUPT"},
		"a lease id":             {"controller", set("leaseId", "x"), "STATE_CORRUPT"},
		"a controller id":        {"controller", set("controllerId", "a/b"), "STATE_CORRUPT"},
		"a digest":               {"controller", set("fenceSha256", digest[1:]), "STATE_CORRUPT"},
		"no fence":               {"controller", drop("fenceSha256"), "STATE_CORRUPT"},
		"a time":                 {"controller", set("expiresAt", "tomorrow"), "STATE_CORRUPT"},
		"a type of lease":        {"controller", set("leaseType", "writer"), "STATE_CORRUPT"},
		"half a process":         {"controller", set("controllerProcess", map[string]any{"pid": 7}), "STATE_CORRUPT"},
		"a predecessor":          {"controller", set("predecessorLeaseId", "x"), "STATE_CORRUPT"},
		"after before":           {"pending", set("afterSeq", 4), "STATE_CORRUPT"},
		"no after":               {"pending", drop("afterSeq"), "STATE_CORRUPT"},
		"settled early":          {"completed", set("settledSeq", 5), "STATE_CORRUPT"},
		"settled later":          {"completed", set("settledSeq", 9), ""},
		"not settled":            {"completed", drop("settledSeq"), "STATE_CORRUPT"},
		"failed of nothing":      {"failed", drop("failure"), "STATE_CORRUPT"},
		"failed of something":    {"failed", set("failure", "weather"), "STATE_CORRUPT"},
		"active without a pane":  {"reviewer", set("state", "active"), "STATE_CORRUPT"},
		"no pane id at all":      {"reviewer", drop("paneId"), "STATE_CORRUPT"},
		"a writer's state":       {"writer", set("state", "closing"), "STATE_CORRUPT"},
		"no scopes":              {"writer", set("ownedScopes", []string{}), "STATE_CORRUPT"},
		"scopes of another type": {"writer", set("lockedScopes", []int{1}), "STATE_CORRUPT"},
		"a commit":               {"writer", set("headCommit", commit[1:]), "STATE_CORRUPT"},
		"a cursor":               {"adopted", set("stateChangeSeq", -1), "STATE_CORRUPT"},
		"an exit code of null":   {"run", set("exitCode", nil), ""},
		"an exit code as text":   {"run", set("exitCode", "0"), "STATE_CORRUPT"},
		"a flag as text":         {"run", set("bootstrapWeb", "true"), "STATE_CORRUPT"},
		"a run's state":          {"run", set("state", "active"), "STATE_CORRUPT"},
	} {
		good, err := encode(kind[tc.kind])
		must(t, err)
		var m map[string]any
		must(t, json.Unmarshal(good, &m))
		tc.change(m)
		data, err := json.Marshal(m)
		must(t, err)
		err = decode("f.json", data, blank(kind[tc.kind]))
		if fault.Code(err) != tc.code || (err == nil) != (tc.code == "") {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "f.json") {
			t.Errorf("%s does not name the file: %v", name, err)
		}
	}
	for _, text := range []string{"", "{", "[]", "null", "{}", "7", `{"version":2} x`} {
		if err := decode("f.json", []byte(text), new(Controller)); fault.Code(err) != "STATE_CORRUPT" {
			t.Errorf("%q: %v", text, err)
		}
	}
	c := new(Controller)
	good, err := encode(controller())
	must(t, err)
	must(t, decode("f.json", []byte(strings.Replace(string(good), `"state"`, `"STATE": "released", "state"`, 1)), c))
	if c.State != Active {
		t.Error("the size of letters does not count")
	}
}

// Readers do not agree about which of two members counts.
func TestTwice(t *testing.T) {
	t.Parallel()
	c := controller()
	c.ControllerProcess = &attest.Process{PID: 7, BootID: "b", StartTicks: "9"}
	good, err := encode(c)
	must(t, err)
	for name, tc := range map[string]struct{ from, to, code string }{
		"a state":               {`"state": "active"`, `"state": "active", "state": "released"`, "STATE_CORRUPT"},
		"the same":              {`"state": "active"`, `"state": "active", "state": "active"`, "STATE_CORRUPT"},
		"escaped":               {`"state": "active"`, `"state": "active", "st\u0061te": "released"`, "STATE_CORRUPT"},
		"the version":           {`"version": 2`, `"version": 3, "version": 2`, "STATE_CORRUPT"},
		"below":                 {`"pid": 7`, `"pid": 8, "pid": 7`, "STATE_CORRUPT"},
		"below, in other sizes": {`"pid": 7`, `"PID": 8, "pid": 7`, "STATE_CORRUPT"},
		"behind a member":       {`"state": "active"`, `"x": [{}, "y", {"z": ["state"]}], "state": "active", "state": "active"`, "STATE_CORRUPT"},
		"a name as a value":     {`"state": "active"`, `"x": ["state", "state", {"state": "state"}, {"state": 1e999}], "state": "active"`, ""},
	} {
		text := strings.Replace(string(good), tc.from, tc.to, 1)
		if text == string(good) {
			t.Fatalf("%s: nothing was changed", name)
		}
		if err := decode("f.json", []byte(text), new(Controller)); fault.Code(err) != tc.code || (err == nil) != (tc.code == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A token of version 1 is read and never written.
func TestNoToken(t *testing.T) {
	t.Parallel()
	s, root := newStore(t)
	x := begin(t, s)
	for _, change := range []func(*Controller){
		func(c *Controller) { c.FenceToken = id3 },
		func(c *Controller) { c.FenceToken, c.FenceSHA256, c.Version = id3, "", 1 },
	} {
		c := controller()
		change(c)
		for _, write := range []func(Record) error{x.Create, x.Replace} {
			if err := write(c); fault.Code(err) != "INTERNAL" || strings.Contains(err.Error(), id3) {
				t.Errorf("%v", err)
			}
		}
	}
	if files, _ := filepath.Glob(filepath.Join(root, "*", "*.json")); len(files) > 0 {
		t.Errorf("there is %q", files)
	}
}

// Nothing is written that could not be read again.
func TestNoNonsense(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	x := begin(t, s)
	w := all()[2].(*Writer)
	w.LockedScopes = nil // null in the file
	if err := x.Create(w); fault.Code(err) != "INTERNAL" {
		t.Errorf("%v", err)
	}
	x.End()
	if err := x.Create(controller()); fault.Code(err) != "INTERNAL" {
		t.Errorf("after the end: %v", err)
	}
}

func TestReadingMakesNothing(t *testing.T) {
	t.Parallel()
	s, root := newStore(t)
	if err := s.Load("x", new(Controller)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if l, err := List[Controller](s, 0, nil); err != nil || len(l.Records) > 0 || len(l.Invalid) > 0 {
		t.Errorf("%+v, %v", l, err)
	}
	if got := s.Status(); got.State != lock.Absent {
		t.Errorf("%v", got)
	}
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	begin(t, s)
	if got := s.Status(); got.State != lock.Active {
		t.Errorf("%v", got)
	}
}

// The root may be a link; it is resolved once.
func TestRootLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	must(t, os.Symlink(filepath.Join(dir, "real"), filepath.Join(dir, "link")))
	s := New(Options{Root: filepath.Join(dir, "link")})
	must(t, begin(t, s).Create(controller()))
	if _, err := os.Stat(filepath.Join(dir, "real", controllers, "lead.1.json")); err != nil {
		t.Error(err)
	}
}

// Others have no say in the state: what they could have changed is refused by
// what changes, and named by what lists. (mesh.md §8, 13)
func TestInsecure(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil   func(root string) error
		path    string // below the root
		invalid string
		list    string // the code of List
		begin   string
		load    string
	}{
		"a record": {func(root string) error { return os.Chmod(filepath.Join(root, controllers, "lead.1.json"), 0o644) },
			"controller-leases/lead.1.json", "controller-leases/lead.1.json", "", "", "STATE_INSECURE"},
		"a record that is a link": {func(root string) error {
			file := filepath.Join(root, controllers, "lead.1.json")
			return errors.Join(os.Rename(file, file+".x"), os.Symlink(file+".x", file))
		}, "controller-leases/lead.1.json", "controller-leases/lead.1.json", "", "", "STATE_INSECURE"},
		"a folder": {func(root string) error { return os.Chmod(filepath.Join(root, controllers), 0o750) },
			"controller-leases", "controller-leases", "", "STATE_INSECURE", "STATE_INSECURE"},
		"a folder that is a link": {func(root string) error {
			dir := filepath.Join(root, controllers)
			return errors.Join(os.Rename(dir, dir+".x"), os.Symlink(dir+".x", dir))
		}, "controller-leases", "controller-leases", "", "STATE_INSECURE", "STATE_INSECURE"},
		"the root": {func(root string) error { return os.Chmod(root, 0o711) }, ".", "", "STATE_INSECURE", "STATE_INSECURE", "STATE_INSECURE"},
	} {
		s, root := newStore(t)
		x := begin(t, s)
		must(t, x.Create(controller()))
		x.End()
		must(t, tc.spoil(root))
		l, err := List[Controller](s, 0, nil)
		if fault.Code(err) != tc.list || len(l.Records) > 0 {
			t.Errorf("%s: list %+v, %v", name, l, err)
		}
		if tc.invalid != "" && !slices.Equal(l.Invalid, []Invalid{{tc.invalid, "STATE_INSECURE"}}) {
			t.Errorf("%s: %+v", name, l.Invalid)
		}
		err = s.Load("lead.1", new(Controller))
		var f *fault.Fault
		if fault.Code(err) != tc.load || !errors.As(err, &f) || f.Details["path"] != filepath.Join(root, tc.path) {
			t.Errorf("%s: load %v", name, err)
		}
		x, err = s.Begin(t.Context())
		if fault.Code(err) != tc.begin {
			t.Errorf("%s: begin %v", name, err)
		}
		if err == nil {
			x.End()
		} else if info, _ := os.Stat(filepath.Join(root, tc.path)); info.Mode().Perm() == 0o700 && !strings.Contains(name, "link") {
			t.Errorf("%s was mended", name)
		}
	}
}

// A record of another id, as on a file system where the size of letters is none.
func TestCollision(t *testing.T) {
	t.Parallel()
	s, root := newStore(t)
	x := begin(t, s)
	must(t, x.Create(controller()))
	must(t, x.Create(receipt(id1, Pending)))
	for folder, names := range map[string][2]string{controllers: {"lead.1", "Lead.1"}, receipts: {id1, id2}} {
		dir := filepath.Join(root, folder)
		must(t, os.Link(filepath.Join(dir, names[0]+".json"), filepath.Join(dir, names[1]+".json")))
	}
	err := s.Load("Lead.1", new(Controller))
	if f := (*fault.Fault)(nil); fault.Code(err) != "CONTROLLER_ID_COLLISION" || !errors.As(err, &f) || f.Details["path"] != filepath.Join(root, controllers, "Lead.1.json") {
		t.Errorf("%v", err)
	}
	if err := s.Load(id2, new(Receipt)); fault.Code(err) != "STATE_CORRUPT" {
		t.Errorf("%v", err)
	}
	l, err := List[Receipt](s, 0, nil)
	if err != nil || len(l.Records) != 1 || !slices.Equal(l.Invalid, []Invalid{{"handoff-receipts/" + id2 + ".json", "STATE_CORRUPT"}}) {
		t.Errorf("%+v, %v", l, err)
	}
	for _, id := range []string{"", "..", "../handoff-receipts/" + id1, "a/b", strings.Repeat("a", 101)} {
		if err := s.Load(id, new(Controller)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", id, err)
		}
	}
	must(t, os.WriteFile(filepath.Join(root, controllers, "Large.json"), []byte(strings.Repeat(" ", disk.MaxFile+1)), 0o600))
	if err := s.Load("Large", new(Controller)); fault.Code(err) != "STATE_CORRUPT" {
		t.Errorf("%v", err)
	}
}

func TestSwap(t *testing.T) {
	t.Parallel()
	s, root := newStore(t)
	x := begin(t, s)
	must(t, x.Create(controller()))
	old := new(Controller)
	must(t, s.Load("lead.1", old))
	next := *old
	next.Generation++
	must(t, x.Swap(old, &next))
	now := new(Controller)
	must(t, s.Load("lead.1", now))
	if now.Generation != 4 {
		t.Errorf("generation %d", now.Generation)
	}
	if err := x.Swap(old, &next); fault.Code(err) != "CONTROLLER_CHANGED" {
		t.Errorf("twice: %v", err)
	}
	must(t, os.Remove(filepath.Join(root, controllers, "lead.1.json")))
	if err := x.Swap(now, &next); fault.Code(err) != "CONTROLLER_CHANGED" {
		t.Errorf("gone: %v", err)
	}
}

func ids(l Listing[*Receipt]) (all []string) {
	for _, r := range l.Records {
		all = append(all, r.ReceiptID[:1])
	}
	return all
}

func TestArchive(t *testing.T) {
	t.Parallel()
	s, root := newStore(t)
	x := begin(t, s)
	dir := filepath.Join(root, receipts)
	at := func(file string, minutes int) {
		when := time.Now().Add(-time.Duration(minutes) * time.Minute)
		must(t, os.Chtimes(filepath.Join(dir, file), when, when))
	}
	name := func(n int) string { return fmt.Sprint(n) + id1[1:] }
	for i, state := range []string{Reserved, Pending, Completed, Failed, Pending} {
		r := receipt(name(i), Reserved)
		must(t, x.Create(r))
		if state != Reserved {
			must(t, x.Replace(receipt(name(i), state)))
		}
	}
	for n, file := range []string{name(0) + ".json", name(1) + ".json", "archive/" + name(2) + ".json", "archive/" + name(3) + ".json", name(4) + ".json"} {
		at(file, 10+n)
	}
	for i, state := range []string{Reserved, Pending, Completed, Failed} {
		r := new(Receipt)
		if err := s.Load(name(i), r); err != nil || r.State != state {
			t.Errorf("%d: %v, %v", i, r.State, err)
		}
	}
	list := func(limit int, match func(*Receipt) bool) Listing[*Receipt] {
		l, err := List(s, limit, match)
		must(t, err)
		return l
	}
	if l := list(0, nil); !slices.Equal(ids(l), []string{"0", "1", "4", "2", "3"}) || l.Truncated || len(l.Invalid) > 0 {
		t.Errorf("%v, %+v", ids(l), l)
	}
	for limit, truncated := range map[int]bool{1: true, 3: true, 4: true, 5: false} {
		if l := list(limit, nil); len(l.Records) != limit || l.Truncated != truncated {
			t.Errorf("limit %d: %v, %t", limit, ids(l), l.Truncated)
		}
	}
	pending := func(r *Receipt) bool { return r.State == Pending }
	if l := list(0, pending); !slices.Equal(ids(l), []string{"1", "4"}) {
		t.Errorf("%v", ids(l))
	}
	if l := list(2, pending); len(l.Records) != 2 || l.Truncated {
		t.Errorf("%v, %t", ids(l), l.Truncated)
	}

	// A bad file in the archive blocks nothing; one beside the retained does.
	must(t, os.WriteFile(filepath.Join(dir, archive, name(9)+".json"), []byte("{"), 0o600))
	if l := list(0, nil); len(l.Records) != 5 || !slices.Equal(l.Invalid, []Invalid{{"handoff-receipts/archive/" + name(9) + ".json", "STATE_CORRUPT"}}) {
		t.Errorf("%v, %+v", ids(l), l.Invalid)
	}
	if all, err := Retained[Receipt](x); err != nil || len(all) != 3 {
		t.Errorf("%v, %v", all, err)
	}
	must(t, os.WriteFile(filepath.Join(dir, name(8)+".json"), []byte(`{"version":1}`), 0o600))
	if all, err := Retained[Receipt](x); fault.Code(err) != "STATE_CORRUPT" {
		t.Errorf("%v, %v", all, err)
	}
	if l := list(0, nil); len(l.Records) != 5 || len(l.Invalid) != 2 {
		t.Errorf("%v, %+v", ids(l), l.Invalid)
	}
}

// Terminal records that were not moved count as terminal, and are moved, so many
// a call.
func TestStragglers(t *testing.T) {
	t.Parallel()
	s, root := newStore(t)
	x := begin(t, s)
	must(t, x.Create(receipt(id1, Reserved)))
	x.End()
	dir := filepath.Join(root, receipts)
	const many = batch + 5
	for i := range many {
		r := receipt(fmt.Sprintf("%08d", i)+id2[8:], Failed)
		data, err := encode(r)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, r.ReceiptID+".json"), data, 0o600))
	}
	l, err := List[Receipt](s, 0, nil)
	if err != nil || len(l.Records) != many+1 || l.Records[0].ReceiptID != id1 {
		t.Fatalf("%d records, %v", len(l.Records), err)
	}
	for _, left := range []int{many - batch, 0} {
		x := begin(t, s)
		for range 2 { // the limit is the section's
			if all, err := Retained[Receipt](x); err != nil || len(all) != 1 || all[0].ReceiptID != id1 {
				t.Fatalf("%d records, %v", len(all), err)
			}
		}
		x.End()
		files, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil || len(files) != left+1 {
			t.Errorf("%d are left, %v", len(files)-1, err)
		}
	}
	if l, err := List[Receipt](s, 0, nil); err != nil || len(l.Records) != many+1 {
		t.Errorf("%d records, %v", len(l.Records), err)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	_, root := newStore(t)
	now := time.Now()
	s := New(Options{Root: root, Now: func() time.Time { return now }})
	x := begin(t, s)
	must(t, x.Create(controller()))
	must(t, x.Create(receipt(id1, Reserved)))
	must(t, x.Replace(receipt(id1, Failed)))
	must(t, x.Create(receipt(id2, Reserved)))
	x.End()
	files := []string{
		"controller-leases/.lead.1.json.7.x.tmp", "controller-leases/.reservation-lock.x.new/owner.json", "controller-leases/.reservation-lock.x.old/owner.json",
		"controller-leases/.reservation-lock.y.old/", "handoff-receipts/.x.json.7.x.tmp", "controller-leases/mine.txt", "writer-leases/x.old/mine",
	}
	for _, file := range files {
		path := filepath.Join(root, file)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		if !strings.HasSuffix(file, "/") {
			must(t, os.WriteFile(path, []byte("x"), 0o600))
		} else {
			must(t, os.MkdirAll(path, 0o700))
		}
	}
	there := func() (all []string) {
		for _, file := range append(slices.Clone(files), "controller-leases/lead.1.json", "handoff-receipts/archive/"+id1+".json", "handoff-receipts/"+id2+".json") {
			if _, err := os.Stat(filepath.Join(root, file)); err == nil {
				all = append(all, filepath.Base(file))
			}
		}
		return all
	}
	before := there()
	now = now.Add(50 * time.Minute)
	New(Options{Root: root, Now: s.now}).sweepNow(t)
	if got := there(); !slices.Equal(got, before) {
		t.Errorf("too young, and yet: %q", got)
	}
	now = now.Add(20 * time.Minute)
	s.sweepNow(t)
	want := []string{"mine.txt", "mine", "lead.1.json", id1 + ".json", id2 + ".json"}
	if got := there(); !slices.Equal(got, want) {
		t.Errorf("left: %q", got)
	}
	now = now.Add(13 * 24 * time.Hour)
	s.sweepNow(t)
	if got := there(); !slices.Equal(got, want) {
		t.Errorf("after 13 days: %q", got)
	}
	now = now.Add(2 * 24 * time.Hour)
	s.sweepNow(t)
	if got := there(); !slices.Equal(got, []string{"mine.txt", "mine", "lead.1.json", id2 + ".json"}) {
		t.Errorf("after 15 days: %q", got)
	}
}

func (s *Store) sweepNow(t *testing.T) { begin(t, s).End() }

func TestUnlock(t *testing.T) {
	t.Parallel()
	s, root := newStore(t)
	if was, moved, err := s.Unlock(); was.State != lock.Absent || moved != "" || err != nil {
		t.Errorf("no state: %v, %q, %v", was, moved, err)
	}
	if _, err := os.Stat(root); err == nil {
		t.Error("it made the root")
	}
	x := begin(t, s)
	if _, _, err := s.Unlock(); fault.Code(err) != "LOCK_BUSY" {
		t.Errorf("held: %v", err)
	}
	x.End()
	must(t, os.Mkdir(filepath.Join(root, "controller-leases", ".reservation-lock"), 0o700))
	if _, err := s.Begin(t.Context()); fault.Code(err) != "LOCK_INDETERMINATE" {
		t.Fatalf("a claim without an owner: %v", err)
	}
	was, moved, err := s.Unlock()
	if was.State != lock.Indeterminate || filepath.Dir(moved) != filepath.Join(root, "quarantine") || err != nil {
		t.Errorf("%v, %q, %v", was, moved, err)
	}
	begin(t, s).End()
	must(t, os.Chmod(root, 0o755))
	if _, _, err := s.Unlock(); fault.Code(err) != "STATE_INSECURE" {
		t.Errorf("open to others: %v", err)
	}
}

func TestSectionEnds(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	x, err := s.Begin(ctx)
	must(t, err)
	defer x.End()
	if err := x.Err(); err != nil {
		t.Error(err)
	}
	if end, ok := x.Context().Deadline(); !ok || time.Until(end) > sectionTime || time.Until(end) < sectionTime-5*time.Second {
		t.Errorf("it ends at %v", end)
	}
	cancel()
	if err := x.Err(); fault.Code(err) != "CANCELLED" {
		t.Error(err)
	}
	must(t, x.Create(controller())) // what has begun is written down
	x.ctx, x.stop = context.WithTimeout(t.Context(), 0)
	if err := x.Err(); fault.Code(err) != "HERDR_TIMEOUT" {
		t.Error(err)
	}
}

// play is the life of a receipt.
func play() crash.Play {
	states := []string{Reserved, Pending, Completed}
	return crash.Play{
		Name: "receipt",
		Run: func(ctx context.Context, dir string, d *disk.Disk) (any, error) {
			s := New(Options{Root: filepath.Join(dir, "state"), Disk: d})
			for i, state := range states {
				x, err := s.Begin(ctx)
				if err != nil {
					return state, err
				}
				write := x.Replace
				if i == 0 {
					write = x.Create
				}
				err = write(receipt(id1, state))
				x.End()
				if err != nil {
					return state, err
				}
			}
			return "", nil
		},
		Check: func(t *testing.T, end crash.End) {
			if end.Code != "" && end.Code != "STATE_IO" {
				t.Errorf("%s", end.Code)
			}
			root := filepath.Join(end.Dir, "state")
			s := New(Options{Root: root})
			begun := time.Now()
			x := begin(t, s) // nobody is in the way
			defer x.End()
			if took := time.Since(begun); took > time.Second {
				t.Errorf("the lock took %v", took)
			}
			r := new(Receipt)
			err := s.Load(id1, r)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			// A failed write left the state before, or made the new one, never another.
			if !end.Killed && end.Code != "" {
				var at string
				must(t, json.Unmarshal(end.Answer, &at))
				if i := slices.Index(states, at); err == nil && r.State != at && (i == 0 || r.State != states[i-1]) || err != nil && i != 0 {
					t.Errorf("%s failed, and it is %q, %v", at, r.State, err)
				}
			}
			if !end.Killed && end.Code == "" && r.State != Completed {
				t.Errorf("it is %q, %v", r.State, err)
			}
			if all, err := Retained[Receipt](x); err != nil || len(all) > 1 {
				t.Errorf("%v, %v", all, err)
			}
			// A terminal one has been moved at the latest now, and is in one place.
			here, _ := filepath.Glob(filepath.Join(root, receipts, "*.json"))
			there, _ := filepath.Glob(filepath.Join(root, receipts, archive, "*.json"))
			if terminal := r.State == Completed; err == nil && (len(here)+len(there) != 1 || terminal != (len(there) == 1)) {
				t.Errorf("%s: %q and %q", r.State, here, there)
			}
			if temps, _ := filepath.Glob(filepath.Join(root, "*", ".*.tmp")); len(temps) > 0 && !end.Killed && !strings.HasPrefix(end.Op, disk.OpRemove) {
				t.Errorf("left: %q", temps)
			}
		},
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	if twin.Runs(t) { // but for the plays that nobody kills
		return
	}
	play().Each(t)
}

// The order of operations is what a crash in between relies on. (mesh.md §3.2)
func TestSteps(t *testing.T) {
	t.Parallel()
	_, root := newStore(t)
	var ops []string
	s := New(Options{Root: root, Disk: &disk.Disk{Before: func(op, path string) error {
		name := filepath.Base(path)
		if strings.HasSuffix(name, ".tmp") {
			name = "temp"
		}
		ops = append(ops, op+" "+strings.Replace(name, id1, "id", 1))
		return nil
	}}})
	x := begin(t, s)
	must(t, x.Create(receipt(id2, Failed))) // makes the folders
	for _, tc := range []struct {
		write func(Record) error
		state string
		want  []string
	}{
		{x.Create, Reserved, []string{"create temp", "write temp", "sync temp", "link id.json", "remove temp", "sync handoff-receipts"}},
		{x.Replace, Pending, []string{"create temp", "write temp", "sync temp", "rename id.json", "sync handoff-receipts"}},
		{x.Replace, Completed, []string{"create temp", "write temp", "sync temp", "rename id.json", "sync handoff-receipts",
			"rename id.json", "sync archive", "sync handoff-receipts"}},
	} {
		ops = nil
		must(t, tc.write(receipt(id1, tc.state)))
		if !slices.Equal(ops, tc.want) {
			t.Errorf("%s: %q", tc.state, ops)
		}
	}
}

// A run belongs to a process. What the older bridge left is known by its age.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	now := time.Now()
	self := attest.Self(t.Context())
	if self == nil {
		t.Skip("this system does not tell when a process was started")
	}
	other := *self
	other.StartTicks += "1"
	for name, test := range map[string]struct {
		run  Run
		want bool
	}{
		"of this process":     {Run{State: Running, Owner: self, StartedAt: Stamp(now.Add(-48 * time.Hour))}, false},
		"of a process before": {Run{State: Running, Owner: &other, StartedAt: Stamp(now)}, true},
		"over":                {Run{State: "passed", Owner: &other, StartedAt: Stamp(now)}, false},
		"of nobody, young":    {Run{State: Running, StartedAt: Stamp(now.Add(-23 * time.Hour))}, false},
		"of nobody, old":      {Run{State: Running, StartedAt: Stamp(now.Add(-25 * time.Hour))}, true},
	} {
		if got := test.run.Abandoned(t.Context(), now); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Nothing is written that cannot be read: one such record would stop all others.
func TestLarge(t *testing.T) {
	t.Parallel()
	s, root := newStore(t)
	x := begin(t, s)
	w := all()[2].(*Writer)
	must(t, x.Create(w))
	for len(w.OwnedScopes) < 500 { // six bytes for each of these
		w.OwnedScopes = append(w.OwnedScopes, strings.Repeat("\x01", 200))
	}
	if err := x.Replace(w); fault.Code(err) != "STATE_IO" {
		t.Errorf("%v", err)
	}
	if files, err := os.ReadDir(filepath.Join(root, writers)); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
	if _, err := Retained[Writer](x); err != nil {
		t.Error(err)
	}
	if err := Fits(w); fault.Code(err) != "INVALID_ARGUMENT" {
		t.Errorf("%v", err)
	}
}

// What just fits at its start can be written to its end.
func TestFits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\x01", 500)
	w := all()[2].(*Writer)
	w.PaneID, w.ControllerID, w.LeaseID = "", "", id1
	w.OwnedScopes = nil
	for _, size := range []int{5000, 100} { // the second fills what the first has left
		for Fits(w) == nil {
			w.OwnedScopes = append(w.OwnedScopes, strings.Repeat("x", size))
		}
		w.OwnedScopes = w.OwnedScopes[:len(w.OwnedScopes)-1]
	}
	must(t, Fits(w))
	w.ControllerID, w.TerminalID, w.State = strings.Repeat("c", 100), strings.Repeat("\"", 256), ReleaseFailed
	w.TabLabel, w.HerdrSocket = strings.Repeat("a", 64), strings.Repeat("/", 108)
	w.CheckpointSHA256, w.CaptureSHA256, w.ReleasedAt, w.HeadCommit = digest, digest, moment, digest
	w.PaneID, w.TabID, w.WorkspaceID = strings.Repeat("p", 64), strings.Repeat("t", 256), strings.Repeat("w", 256)
	w.CheckpointRef, w.Failure = long, strings.Repeat("\u2028", 1000)
	if _, err := encode(w); err != nil {
		t.Error(err)
	}
}

// A root that is gone is not made anew: what was retained in it would be
// forgotten. A new process may begin anew.
func TestRootGone(t *testing.T) {
	t.Parallel()
	s, root := newStore(t)
	x, err := s.Begin(t.Context())
	must(t, err)
	must(t, x.Create(controller()))
	x.End()
	away := root + ".away"
	must(t, os.Rename(root, away))
	if _, err := s.Begin(t.Context()); fault.Code(err) != "STATE_IO" {
		t.Errorf("gone: %v", err)
	}
	if _, err := os.Lstat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was made again: %v", err)
	}
	must(t, os.Rename(away, root))
	x, err = s.Begin(t.Context())
	must(t, err)
	x.End()
	must(t, s.Load("lead.1", new(Controller)))

	must(t, os.Rename(root, away))
	x, err = New(Options{Root: root}).Begin(t.Context())
	must(t, err)
	x.End()
}

func TestIsReference(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"T-1": true, "ä b": true, strings.Repeat("ä", 500): true,
		"": false, strings.Repeat("ä", 501): false, "a\tb": false, "a\n": false, "\x1b": false, "\x7f": false, "\u0080": false, "a\u009b2J": false,
	} {
		if IsReference(s) != want {
			t.Errorf("%q", s)
		}
	}
}
