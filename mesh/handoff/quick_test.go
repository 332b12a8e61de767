//go:build unix

package handoff

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mesh/controller"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
	"herdr-link/mesh/watch"
)

func want(t *testing.T, what string, err error, code string) {
	t.Helper()
	if fault.Code(err) != code || (err == nil) != (code == "") {
		t.Errorf("%s: %v, not %s", what, err, code)
	}
}

// A bridge is what a process of ours has.
type bridge struct {
	*Handoffs
	store       *store.Store
	controllers *controller.Controllers
}

func newBridge(dir string, vars []string, d *disk.Disk, now func() time.Time) bridge {
	env := map[string]string{}
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	herdr := herdrcli.New(herdrcli.Options{Bin: env["HERDR_BIN_PATH"], Environ: append(os.Environ(), vars...)})
	s := store.New(store.Options{Root: filepath.Join(dir, "state"), Disk: d, Now: now})
	c := controller.New(controller.Options{Getenv: func(name string) string { return env[name] }, Herdr: herdr, Store: s})
	l := lease.New(lease.Options{Herdr: herdr, Store: s, Locks: herdrcli.NewLocks(dir)})
	return bridge{New(Options{Herdr: herdr, Store: s, Controllers: c, Leases: l, Watcher: watch.New(l.Agents)}), s, c}
}

// quickHerdr writes a Herdr that is quick: what it answers stands in files. Each
// prompt is noted in the file journal, with its pane, its text and the
// outstanding receipts of that pane at that moment. Files tell it when to kill
// who called it: before it notes the prompt, behind that, and when the agent has
// begun.
func quickHerdr(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "herdr")
	text := fmt.Sprintf(`#!/bin/sh
cd '%s' || exit 1
die() { if [ -f "die-$1" ]; then kill -9 $PPID; exit 1; fi; }
here() {
	read -r line < agents
	case "$line" in *"\"pane_id\":\"$1\""*) ;; *) echo '{"error":{"code":"agent_not_found","message":"no"}}' >&2; exit 1 ;; esac
}
case "$1 $2" in
"pane get") printf '{"result":{"type":"pane_info","pane":{"pane_id":"%%s","terminal_id":"term_%%s"}}}\n' "$3" "${3#w1:p}" ;;
"pane process-info") printf '{"result":{"type":"pane_process_info","process_info":{"pane_id":"%%s"}}}\n' "$4" ;;
"agent list")
	read -r line < agents
	printf '%%s\n' "$line"
	if [ -f agents.next ]; then mv agents.next agents; fi ;;
"agent read")
	here "$3"
	while read -r line; do printf '%%s\n' "$line"; done < "screen-${3#w1:p}" ;;
"agent prompt")
	here "$3"
	die before
	out=$(grep -lE '"state": "(reserved|pending)"' /dev/null $(grep -l "\"paneId\": \"$3\"" state/handoff-receipts/*.json))
	printf '%%s\t%%s\t%%s\n' "$3" "$4" "$(echo $out)" >> journal
	die noted
	if [ -f agents.begun ]; then mv agents.begun agents; fi
	if [ -f agents.ended ]; then mv agents.ended agents.next; fi
	die begun
	printf '{"result":{"type":"agent_prompted","agent":{"pane_id":"%%s"}}}\n' "$3" ;;
*) echo '{"client":{"version":"0.8.0","protocol":20},"server":{"running":true,"socket":"/quick.sock"}}' ;;
esac
`, dir)
	// A child that another test forks meanwhile would have the file open for
	// writing, and the system runs no such program.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	must(t, os.WriteFile(path, []byte(text), 0o700))
}

// quickEnv are the variables of a process in one of its panes.
func quickEnv(dir, pane string) []string {
	return []string{"HERDR_ENV=1", "HERDR_PANE_ID=" + pane, "HERDR_BIN_PATH=" + filepath.Join(dir, "herdr")}
}

// A member is an agent that the quick Herdr has.
type member struct {
	name, pane, terminal, status string
	cursor                       int64
}

// quickAgents says which agents there are, in the file agents or in another one.
func quickAgents(t *testing.T, dir, file string, members ...member) {
	t.Helper()
	var list []string
	for _, m := range members {
		list = append(list, fmt.Sprintf(`{"name":"%s","agent":"pi","agent_status":"%s","pane_id":"%s","terminal_id":"%s","cwd":"/","state_change_seq":%d}`,
			m.name, m.status, m.pane, m.terminal, m.cursor))
	}
	put(t, filepath.Join(dir, file), `{"result":{"type":"agent_list","agents":[`+strings.Join(list, ",")+"]}}\n")
}

// put writes a file whole.
func put(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path+".new", []byte(text), 0o600))
	must(t, os.Rename(path+".new", path))
}

// A prompt is a line of the quick Herdr's journal.
type prompt struct {
	pane, text string
	receipts   []string // ids of those outstanding for that pane then
}

// prompts reads the journal.
func prompts(t *testing.T, dir string) (all []prompt) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "journal"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		words := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(words) != 3 {
			t.Fatalf("journal: %q", line)
		}
		p := prompt{pane: words[0], text: words[1]}
		for _, file := range strings.Fields(words[2]) {
			p.receipts = append(p.receipts, strings.TrimSuffix(filepath.Base(file), ".json"))
		}
		all = append(all, p)
	}
	return all
}

var sum = strings.Repeat("ab", 32)

func request(id string) controller.Request {
	return controller.Request{ControllerID: id, AuthorityRef: "T-1", AuthoritySHA256: sum, TTL: 900 * time.Second}
}

// idOf is the id of a receipt that was answered.
func idOf(receipt string) string { return strings.TrimPrefix(receipt, token("")) }

// record writes new records.
func record(t *testing.T, s *store.Store, records ...store.Record) {
	t.Helper()
	x, err := s.Begin(t.Context())
	must(t, err)
	defer x.End()
	for _, r := range records {
		must(t, x.Create(r))
	}
}

// leaseFor is an active lease of an agent.
func leaseFor(id, name, pane, terminal string) *store.Reviewer {
	return &store.Reviewer{
		Version: 1, Cwd: "/",
		Lease: store.Lease{LeaseID: disk.NewID(), ControllerID: id, Purpose: "review", PaneID: pane, AgentName: name, AgentKind: "pi",
			State: store.Active, TerminalID: terminal, HerdrSocket: "/quick.sock"},
		Tab: store.Tab{ParentPaneID: "w1:p0", CreatedAt: store.Stamp(time.Now())},
	}
}

// receipts are all that there are.
func receipts(t *testing.T, s *store.Store) []*store.Receipt {
	t.Helper()
	l, err := store.List[store.Receipt](s, 0, nil)
	must(t, err)
	if len(l.Invalid) > 0 {
		t.Errorf("receipts that cannot be read: %+v", l.Invalid)
	}
	return l.Records
}

func outstanding(r *store.Receipt) bool {
	return slices.Contains([]string{store.Reserved, store.Pending}, r.State)
}
