//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

// A meshLease is a controller's lease in an answer.
type meshLease struct {
	LeaseID, ControllerID, FenceToken, State, TerminalID, PaneID, ExpiresAt string
	Generation                                                              int
	Expired                                                                 bool
}

var anyDigest = strings.Repeat("ab", 32)

const authority = `"controller_id":"lead","authority_ref":"T-1","authority_sha256":`

// asking are the arguments of acquire, resume and takeover.
func asking(more string) string { return `{` + authority + `"` + anyDigest + `"` + more + `}` }

// showing are the arguments that prove a lease.
func (l meshLease) showing(more string) string {
	return fmt.Sprintf(`{"controller_id":%q,"controller_lease_id":%q,"controller_fence_token":%q%s}`, l.ControllerID, l.LeaseID, l.FenceToken, more)
}

func (m meshed) lease(t testing.TB) (l meshLease) {
	t.Helper()
	success(t, m)
	if err := json.Unmarshal(m.data["lease"], &l); err != nil {
		t.Fatalf("%v: %s", err, m.StructuredContent)
	}
	return l
}

// stateOf makes a state root and says its variable.
func stateOf(t testing.TB) (dir, variable string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "state")
	return dir, "HERDR_MESH_STATE_DIR=" + dir
}

// expire lets a controller's lease have ended.
func expire(t *testing.T, state string) {
	t.Helper()
	file := filepath.Join(state, "controller-leases", "lead.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	m["expiresAt"] = "2026-01-01T00:00:00.000Z"
	text, _ = json.Marshal(m)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// without fails if a file below dir has one of the tokens, or its name does.
func without(t *testing.T, dir string, tokens ...string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, token := range tokens {
			if strings.Contains(path+string(text), token) {
				t.Errorf("a fence token is in %s", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// mesh.md §8, 1 to 5, 48, 54: the life of an authority. Its tokens are in the
// three answers that made them and nowhere else.
func TestMeshControllers(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	state, variable := stateOf(t)
	log := filepath.Join(t.TempDir(), "log")
	h := coordinate(t, s, "w1:p1", variable, "HERDR_LINK_LOG="+log)
	other := coordinate(t, s, "w2:p1", variable, "HERDR_LINK_LOG="+log)

	one := h.answers("herdr_controller_acquire", asking("")).lease(t)
	if one.Generation != 1 || one.State != "active" || len(one.FenceToken) != 36 || one.PaneID != "w1:p1" {
		t.Errorf("%+v", one)
	}
	if info, err := os.Stat(filepath.Join(state, "controller-leases", "lead.json")); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	without(t, state, one.FenceToken)
	h.refuses("CONTROLLER_EXISTS", "herdr_controller_acquire", asking(""))
	renewed := h.answers("herdr_controller_renew", one.showing(`,"ttl_seconds":1800`))
	if l := renewed.lease(t); l.FenceToken != "" || l.LeaseID != one.LeaseID || l.ExpiresAt <= one.ExpiresAt || strings.Contains(string(renewed.StructuredContent), "fenceToken") {
		t.Errorf("%s", renewed.StructuredContent)
	}
	other.refuses("CONTROLLER_OTHER_PANE", "herdr_controller_renew", one.showing(""))
	other.refuses("CONTROLLER_IDENTITY_CHANGED", "herdr_controller_resume", asking(""))

	change(t, s, func(w *fakeherdr.World) { w.Move("w1:p1", "w2") })
	two := h.answers("herdr_controller_resume", asking("")).lease(t)
	if two.Generation != 2 || two.FenceToken == one.FenceToken || two.TerminalID != one.TerminalID || two.PaneID == one.PaneID {
		t.Errorf("%+v", two)
	}
	without(t, state, one.FenceToken, two.FenceToken)
	h.refuses("FENCE_MISMATCH", "herdr_controller_renew", one.showing(""))
	h.answers("herdr_controller_renew", two.showing(""))

	takeover := asking(fmt.Sprintf(`,"expected_predecessor_lease_id":%q`, two.LeaseID))
	if m := other.refuses("TAKEOVER_NOT_EXPIRED", "herdr_controller_takeover", takeover); !*m.fault.Retryable || m.fault.Details["expiresAt"] == nil {
		t.Errorf("%s", m.StructuredContent)
	}
	other.refuses("TAKEOVER_PREDECESSOR_MISMATCH", "herdr_controller_takeover", asking(fmt.Sprintf(`,"expected_predecessor_lease_id":%q`, one.LeaseID)))
	expire(t, state)
	other.refuses("TAKEOVER_PREDECESSOR_LIVE", "herdr_controller_takeover", takeover)
	h.refuses("CONTROLLER_EXPIRED", "herdr_controller_renew", two.showing(""))
	list := h.answers("herdr_controller_list", `{}`)
	var leases []meshLease
	if err := json.Unmarshal(list.data["leases"], &leases); err != nil || len(leases) != 1 || !leases[0].Expired || leases[0].LeaseID != two.LeaseID ||
		strings.Contains(string(list.StructuredContent), "fence") || string(list.data["invalidRecords"]) != "[]" {
		t.Errorf("%v, %s", err, list.StructuredContent)
	}
	setStatus(t, s, "w1:p1", fakeherdr.Blocked)
	three := other.answers("herdr_controller_takeover", takeover).lease(t)
	if three.Generation != 3 || three.PaneID != "w2:p1" {
		t.Errorf("%+v", three)
	}
	without(t, state, two.FenceToken, three.FenceToken)
	h.refuses("CALLER_NOT_ACTIVE", "herdr_controller_resume", asking(""))
	checkpoint := fmt.Sprintf(`,"checkpoint_ref":"C-1","checkpoint_sha256":%q`, anyDigest)
	if l := other.answers("herdr_controller_release", three.showing(checkpoint)).lease(t); l.State != "released" || l.FenceToken != "" {
		t.Errorf("%+v", l)
	}
	other.refuses("CONTROLLER_RELEASED", "herdr_controller_release", three.showing(checkpoint))

	tokens := []string{one.FenceToken, two.FenceToken, three.FenceToken}
	without(t, state, tokens...)
	without(t, s.Dir(), tokens...) // argv of every herdr
	without(t, filepath.Dir(log), tokens...)
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), `"msg":"herdr pane get"`) || strings.Contains(string(text), "w1:p1") || strings.Contains(string(text), "argv") {
		t.Errorf("the log: %s, %v", text, err)
	}
	for _, x := range []*host{h, other} {
		for _, pid := range x.env.alive() {
			argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			for _, token := range tokens {
				if strings.Contains(string(argv)+string(environ), token) {
					t.Error("a fence token is in a process's arguments or variables")
				}
			}
		}
		x.stdin.Close()
		x.wait() // stderr is whole then
		for _, token := range tokens {
			if strings.Contains(x.stderr.String(), token) {
				t.Error("a fence token is on stderr")
			}
		}
	}
}

// mesh.md §8, 59: what is wrong is named, and nothing is asked or made.
func TestMeshControllersRefuse(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	state, variable := stateOf(t)
	h := coordinate(t, s, "w1:p1", variable)
	lease := meshLease{ControllerID: "lead", LeaseID: "0f9d2c7e-3b1a-4c5d-8e6f-001122334455", FenceToken: "0f9d2c7e-3b1a-4c5d-8e6f-001122334455"}
	long := strings.Repeat("ä", 501)
	for _, test := range []struct{ tool, args, says string }{
		{"herdr_bridge_status", `{"x":1}`, `"x" is no argument`},
		{"herdr_controller_acquire", `{}`, "controller_id is required"},
		{"herdr_controller_acquire", `{"controller_id":"a/b","authority_ref":"T","authority_sha256":"` + anyDigest + `"}`, "controller_id must be"},
		{"herdr_controller_acquire", `{"controller_id":"a","authority_ref":"","authority_sha256":"` + anyDigest + `"}`, "authority_ref must have 1 to 500"},
		{"herdr_controller_acquire", `{"controller_id":"a","authority_ref":"` + long + `","authority_sha256":"` + anyDigest + `"}`, "authority_ref must have 1 to 500"},
		{"herdr_controller_acquire", `{"controller_id":"a","authority_ref":"T","authority_sha256":"` + anyDigest[1:] + `"}`, "authority_sha256 must be 64"},
		{"herdr_controller_acquire", asking(`,"ttl_seconds":59`), "ttl_seconds must be an integer from 60 to 1800"},
		{"herdr_controller_resume", asking(`,"ttl_seconds":1801`), "ttl_seconds must be an integer from 60 to 1800"},
		{"herdr_controller_takeover", asking(``), "expected_predecessor_lease_id is required"},
		{"herdr_controller_takeover", asking(`,"expected_predecessor_lease_id":"x"`), "expected_predecessor_lease_id must be a UUID"},
		{"herdr_controller_renew", `{"controller_id":"a","controller_lease_id":"` + lease.LeaseID + `"}`, "controller_fence_token is required"},
		{"herdr_controller_renew", strings.Replace(lease.showing(""), `4455","controller_fence`, `445","controller_fence`, 1), "controller_lease_id must be a UUID"},
		{"herdr_controller_release", lease.showing(""), "checkpoint_ref is required"},
	} {
		if m := h.refuses("INVALID_ARGUMENT", test.tool, test.args); !strings.Contains(m.fault.Message, test.says) {
			t.Errorf("%s %s: %s", test.tool, test.args, m.fault.Message)
		}
	}
	if calls := commands(t, s); len(calls) > 0 {
		t.Errorf("herdr ran: %q", calls)
	}
	h.refuses("CONTROLLER_NOT_FOUND", "herdr_controller_resume", asking(""))
	h.refuses("CONTROLLER_NOT_FOUND", "herdr_controller_renew", lease.showing(""))
	outside := coordinate(t, s, "", variable)
	outside.refuses("CALLER_NOT_MANAGED", "herdr_controller_acquire", asking(""))
	outside.answers("herdr_controller_list", "{}")
	coordinate(t, s, "w1:p4", variable).refuses("CALLER_NOT_NAMED", "herdr_controller_acquire", asking(""))
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p1").Shell = 1 << 29 })
	h.refuses("CALLER_PANE_UNPROVEN", "herdr_controller_acquire", asking(""))
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p1").Shell = os.Getpid() }) // this test is the shell of that pane
	m := h.answers("herdr_controller_acquire", asking(""))
	if !strings.Contains(string(m.data["lease"]), fmt.Sprintf(`"controllerProcess":{"pid":%d,`, os.Getpid())) {
		t.Errorf("%s", m.StructuredContent)
	}

	// §8, 13.
	file := filepath.Join(state, "controller-leases", "lead.json")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if m := h.refuses("STATE_INSECURE", "herdr_controller_resume", asking("")); !strings.Contains(m.fault.Message, file) || string(m.fault.Details["mode"]) != `"0644"` {
		t.Errorf("%s", m.StructuredContent)
	}
	if m := h.answers("herdr_controller_list", "{}"); string(m.data["invalidRecords"]) != `[{"file":"controller-leases/lead.json","code":"STATE_INSECURE"}]` {
		t.Errorf("%s", m.StructuredContent)
	}
}

// mesh.md §8, 5: of servers that resume at once, one has the valid token.
func TestMeshControllersAtOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	_, variable := stateOf(t)
	hosts := []*host{coordinate(t, s, "w1:p1", variable), coordinate(t, s, "w1:p1", variable), coordinate(t, s, "w1:p1", variable)}
	hosts[0].answers("herdr_controller_acquire", asking(""))
	got := make([]meshLease, len(hosts))
	var wait sync.WaitGroup
	for i, h := range hosts {
		id := h.begin("herdr_controller_resume", asking(""))
		wait.Go(func() { got[i] = h.meshed(id).lease(t) })
	}
	wait.Wait()
	valid, generations := 0, map[int]bool{}
	for i, l := range got {
		generations[l.Generation] = true
		if m := hosts[i].mesh("herdr_controller_renew", l.showing("")); !m.IsError {
			valid++
		} else if m.fault.Code != "FENCE_MISMATCH" {
			t.Errorf("%s", m.StructuredContent)
		}
	}
	if valid != 1 || !generations[2] || !generations[3] || !generations[4] {
		t.Errorf("%d valid, %v", valid, generations)
	}
}

// mesh.md §8, 9 to 12: one lock under five names.
func TestMeshBridgeStatus(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	state, variable := stateOf(t)
	h := coordinate(t, s, "w1:p1", variable)
	locks := func(want string) {
		t.Helper()
		m := h.answers("herdr_bridge_status", "{}")
		var status map[string]struct{ State, Reason string }
		if err := json.Unmarshal(m.data["reservationLocks"], &status); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"reviewer", "writer", "adoptedPane", "controller", "handoffReceipt"} {
			if status[name].State != want || status[name].Reason == "" {
				t.Errorf("%s is %+v, not %s", name, status[name], want)
			}
		}
		if len(status) != 5 {
			t.Errorf("%v", status)
		}
	}
	m := h.answers("herdr_bridge_status", "{}")
	for name, want := range map[string]string{"name": `"herdr-link"`, "protocol": "2", "profile": `"safe-orchestration"`} {
		if string(m.data[name]) != want {
			t.Errorf("%s: %s", name, m.data[name])
		}
	}
	if !strings.Contains(string(m.data["capabilities"]), `"controller-fencing-v1"`) || !m.has("version") || !m.has("platform") {
		t.Errorf("%s", m.StructuredContent)
	}
	locks("absent")
	if _, err := os.Stat(state); err == nil || len(commands(t, s)) > 0 {
		t.Error("the status made something, or ran a herdr")
	}
	h.answers("herdr_controller_acquire", asking(""))
	locks("absent")

	claim := filepath.Join(state, "controller-leases", ".reservation-lock")
	put := func(owner string) {
		t.Helper()
		if err := os.RemoveAll(claim); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(claim, 0o700); err != nil {
			t.Fatal(err)
		}
		if owner != "" {
			if err := os.WriteFile(filepath.Join(claim, "owner.json"), []byte(owner), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	owner := func(host string, pid int) string {
		return fmt.Sprintf(`{"version":2,"lockId":"x","pid":%d,"hostname":%q,"acquiredAt":"2026-01-01T00:00:00.000Z"}`, pid, host)
	}
	put(owner(hostname+"x", 1))
	locks("indeterminate")
	h.refuses("LOCK_INDETERMINATE", "herdr_controller_resume", asking(""))
	if text, err := os.ReadFile(filepath.Join(claim, "owner.json")); err != nil || string(text) != owner(hostname+"x", 1) {
		t.Errorf("the claim is now %s, %v", text, err)
	}
	put("")
	hour := time.Now().Add(-time.Hour)
	if err := os.Chtimes(claim, hour, hour); err != nil {
		t.Fatal(err)
	}
	locks("indeterminate")
	h.refuses("LOCK_INDETERMINATE", "herdr_controller_resume", asking(""))
	put(owner(hostname, os.Getpid()))
	locks("active")
	put(owner(hostname, 1<<30))
	locks("stale")
	begun := time.Now()
	h.answers("herdr_controller_resume", asking(""))
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	locks("absent")
}
