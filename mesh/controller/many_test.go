//go:build unix

package controller

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"herdr-link/mesh/crash"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/store"
	"herdr-link/twin"
)

var howLong = flag.Duration("many", 2*time.Second, "how long 16 processes work on the controllers in TestMany")

const (
	// workerOf and workerAs make this test binary one of those processes: in that
	// folder, in the pane of that number.
	workerOf = "HERDR_LINK_MANY_TEST_DIR"
	workerAs = "HERDR_LINK_MANY_TEST_PANE"

	workers = 16
	// haste is how much faster their clock is, so that leases of a minute expire.
	haste = 100
)

var manyIDs = []string{"lead", "Lead.2", "third"}

// An event is one operation of one process, in its history. Begin and End are
// of the real clock, in nanoseconds; one that was killed has no End.
type event struct {
	Op, ID     string
	Begin, End int64
	Code       string
	Lease      string // that it got, or showed
	Generation int64
	Pane       int
}

func (e event) grants() bool { return e.Op == "acquire" || e.Op == "resume" || e.Op == "takeover" }

// work is one of the processes: random operations until there is a file "stop".
// Each is written to its history before it begins, and when it has ended.
func work(dir string) int {
	pane, _ := strconv.Atoi(os.Getenv(workerAs))
	info, err := os.Stat(filepath.Join(dir, "herdr"))
	if err != nil {
		return 1
	}
	start := info.ModTime()
	c := controllers(dir, quickEnv(dir, fmt.Sprintf("w1:p%d", pane)), nil, func() time.Time { return start.Add(time.Since(start) * haste) })
	history, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("history-%d-%d", pane, os.Getpid())), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	ctx := context.Background()
	held := map[string]*store.Controller{}
	for {
		if _, err := os.Stat(filepath.Join(dir, "stop")); err == nil {
			return 0
		}
		id := manyIDs[rand.N(len(manyIDs))]
		q := request(id)
		q.TTL = minTTL
		e := event{ID: id, Pane: pane}
		var do func() (*store.Controller, error)
		mine := held[id]
		switch n := rand.N(10); {
		case n < 2:
			e.Op, do = "acquire", func() (*store.Controller, error) { return c.Acquire(ctx, q) }
		case n < 4:
			e.Op, do = "resume", func() (*store.Controller, error) { return c.Resume(ctx, q) }
		case n < 6:
			e.Op, do = "takeover", func() (*store.Controller, error) {
				all, _, err := c.List()
				if err != nil {
					return nil, err
				}
				for _, l := range all {
					if l.ControllerID == id {
						return c.Takeover(ctx, q, l.LeaseID, false)
					}
				}
				return nil, fault.New("CONTROLLER_NOT_FOUND", "not listed")
			}
		case mine == nil:
			continue
		case n < 9:
			e.Op, e.Lease, do = "renew", mine.LeaseID, func() (*store.Controller, error) { return c.Renew(ctx, credential(mine), minTTL) }
		default:
			e.Op, e.Lease, do = "release", mine.LeaseID, func() (*store.Controller, error) { return c.Release(ctx, credential(mine), "C-1", sum) }
		}
		e.Begin = time.Now().UnixNano()
		if json.NewEncoder(history).Encode(e) != nil {
			return 1
		}
		r, err := do()
		e.End = time.Now().UnixNano()
		e.Code = fault.Code(err)
		if err == nil {
			e.Lease, e.Generation = r.LeaseID, r.Generation
			if e.grants() {
				held[id] = r
			}
		}
		if json.NewEncoder(history).Encode(e) != nil {
			return 1
		}
	}
}

// quickHerdr writes a Herdr that is quick: what it answers stands in files.
func quickHerdr(t *testing.T, dir string) {
	t.Helper()
	writeProgram(t, filepath.Join(dir, "herdr"), fmt.Sprintf(`#!/bin/sh
case "$1 $2" in
"pane get") n=${3#w1:p}; printf '{"result":{"type":"pane_info","pane":{"pane_id":"%%s","terminal_id":"term_%%s"}}}\n' "$3" "$n" ;;
"pane process-info") printf '{"result":{"type":"pane_process_info","process_info":{"pane_id":"%%s"}}}\n' "$4" ;;
"agent list") read -r line < '%s/agents'; printf '%%s\n' "$line" ;;
*) echo '{"client":{"version":"0.8.0","protocol":20},"server":{"running":true,"socket":"/quick.sock"}}' ;;
esac
`, dir))
}

// writeProgram writes a program that can be run at once. A child that another
// test forks meanwhile would have the file open for writing, and the system runs
// no such program.
func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	must(t, os.WriteFile(path, []byte(text), 0o700))
}

// quickEnv are the variables of a process in one of its panes.
func quickEnv(dir, pane string) []string {
	return []string{"HERDR_ENV=1", "HERDR_PANE_ID=" + pane, "HERDR_BIN_PATH=" + filepath.Join(dir, "herdr")}
}

// quickAgents gives each agent a state: the nth pane has the nth, and those
// behind have the last.
func quickAgents(t *testing.T, dir string, states ...string) {
	t.Helper()
	var list []string
	for i := range workers {
		status := states[min(i, len(states)-1)]
		list = append(list, fmt.Sprintf(`{"name":"a%d","agent":"pi","agent_status":"%s","pane_id":"w1:p%d","terminal_id":"term_%d","cwd":"/","state_change_seq":1}`, i, status, i, i))
	}
	must(t, os.WriteFile(filepath.Join(dir, "agents.new"), []byte(`{"result":{"type":"agent_list","agents":[`+strings.Join(list, ",")+"]}}\n"), 0o600))
	must(t, os.Rename(filepath.Join(dir, "agents.new"), filepath.Join(dir, "agents")))
}

// anyStates are those of all agents. One that is blocked can be taken over from.
func anyStates() (all []string) {
	for range workers {
		all = append(all, []string{"working", "idle", "done", "working", "blocked"}[rand.N(5)])
	}
	return all
}

// Many processes at work on the same controllers, some of which are killed at
// any moment. Their whole history is looked at afterwards.
func TestMany(t *testing.T) {
	dir := t.TempDir()
	quickHerdr(t, dir)
	quickAgents(t, dir, anyStates()...)
	program := twin.Path(t)
	over := time.Now().Add(*howLong)
	var wait sync.WaitGroup
	for pane := range workers {
		wait.Go(func() {
			for stopped := false; !stopped; {
				cmd := exec.Command(program)
				cmd.Env = append(os.Environ(), workerOf+"="+dir, workerAs+"="+strconv.Itoa(pane))
				cmd.Stderr = os.Stderr
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				life := time.Until(over) + patienceOfMany
				if pane%2 == 0 { // the others live for ever
					life = min(life, 100*time.Millisecond+rand.N(time.Second))
				}
				kill := time.AfterFunc(life, func() { _ = cmd.Process.Kill() })
				err := cmd.Wait()
				if kill.Stop() && err != nil {
					t.Errorf("%d: %v", pane, err)
				}
				stopped = time.Now().After(over)
			}
		})
	}
	for time.Now().Before(over) {
		time.Sleep(50 * time.Millisecond)
		quickAgents(t, dir, anyStates()...)
	}
	must(t, os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600))
	wait.Wait()
	judge(t, dir)
	crash.NoFence(t, dir)
}

// patienceOfMany is how long a process may take to notice the end.
const patienceOfMany = 30 * time.Second

// judge reads the history of all processes.
func judge(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "history-*"))
	must(t, err)
	var done, killed []event
	for _, file := range files {
		f, err := os.Open(file)
		must(t, err)
		var open *event
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) != nil {
				break // it was killed while it wrote
			}
			if e.End == 0 {
				open = &e
			} else {
				done, open = append(done, e), nil
			}
		}
		if open != nil {
			killed = append(killed, *open)
		}
		must(t, f.Close())
	}
	counts := map[string]int{}
	for _, e := range done {
		counts[e.Op+" "+e.Code]++
		switch e.Code {
		case "", "CONTROLLER_EXISTS", "CONTROLLER_NOT_FOUND", "CONTROLLER_RELEASED", "CONTROLLER_IDENTITY_CHANGED", "CONTROLLER_EXPIRED",
			"FENCE_MISMATCH", "TAKEOVER_NOT_EXPIRED", "TAKEOVER_PREDECESSOR_LIVE", "TAKEOVER_PREDECESSOR_MISMATCH", "CALLER_NOT_ACTIVE", "LOCK_BUSY":
		default:
			t.Errorf("%s of %s ended with %s", e.Op, e.ID, e.Code)
		}
	}
	for _, line := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%5d %s", counts[line], line)
	}
	t.Logf("%5d killed", len(killed))
	s := store.New(store.Options{Root: filepath.Join(dir, "state")})
	for _, id := range manyIDs {
		of := func(e event) bool { return e.ID != id }
		final := new(store.Controller)
		must(t, s.Load(id, final))
		judgeOne(t, id, slices.DeleteFunc(slices.Clone(done), of), slices.DeleteFunc(slices.Clone(killed), of), final)
	}
	if status := s.Status(); status.State != "absent" && status.State != "stale" {
		t.Errorf("the lock is %v", status)
	}
}

// judgeOne holds the history of one controller to the rules.
func judgeOne(t *testing.T, id string, done, killed []event, final *store.Controller) {
	t.Helper()
	grants := map[int64]event{}
	byLease := map[string]event{}
	last := int64(0)
	for _, e := range done {
		if e.Code != "" || !e.grants() {
			continue
		}
		if other, twice := grants[e.Generation]; twice {
			t.Errorf("%s: generation %d was given twice: %+v, %+v", id, e.Generation, other, e)
		}
		grants[e.Generation], byLease[e.Lease] = e, e
		last = max(last, e.Generation)
	}
	lost := 0 // generations of which nobody heard: each by a process that was killed
	for _, e := range killed {
		if e.grants() {
			lost++
		}
	}
	last = max(last, final.Generation)
	if final.Generation != last {
		t.Errorf("%s: the generation went back to %d from %d", id, final.Generation, last)
	}
	for g := int64(1); g <= last; g++ {
		if _, known := grants[g]; !known {
			lost--
		}
	}
	if lost < 0 {
		t.Errorf("%s: %d generations are nobody's", id, -lost)
	}
	released := map[string]bool{}
	for _, e := range append(slices.Clone(done), killed...) {
		if e.Op == "release" && (e.Code == "") {
			released[e.Lease] = true
		}
	}
	for g, e := range grants {
		for later, n := range grants {
			if later > g && n.End < e.Begin {
				t.Errorf("%s: generation %d was given before %d", id, later, g)
			}
		}
		before, known := grants[g-1]
		switch {
		case !known:
		case e.Op == "acquire" && !released[before.Lease]:
			t.Errorf("%s: generation %d was acquired though %d was not released", id, g, g-1)
		case e.Op != "acquire" && released[before.Lease] && !maybe(killed, "release", before.Lease):
			t.Errorf("%s: generation %d came by %s after a release", id, g, e.Op)
		case e.Op == "resume" && e.Pane != before.Pane:
			t.Errorf("%s: generation %d was resumed from another pane", id, g)
		}
	}
	for _, e := range done {
		grant, known := byLease[e.Lease]
		if e.grants() || !known {
			continue
		}
		newer := func(when func(event) bool) bool {
			for g, n := range grants {
				if g > grant.Generation && when(n) {
					return true
				}
			}
			return false
		}
		switch {
		case e.Code == "" && newer(func(n event) bool { return n.End < e.Begin }):
			t.Errorf("%s: %s of generation %d went well after a later one was given", id, e.Op, grant.Generation)
		case e.Code == "FENCE_MISMATCH" && !newer(func(n event) bool { return n.Begin < e.End }) && !slices.ContainsFunc(killed, event.grants):
			t.Errorf("%s: %s of generation %d was refused though it was the last", id, e.Op, grant.Generation)
		}
	}
}

// maybe reports whether a killed process may have done that.
func maybe(killed []event, op, lease string) bool {
	return slices.ContainsFunc(killed, func(e event) bool { return e.Op == op && e.Lease == lease })
}

// The judge finds what it is there for.
func TestJudge(t *testing.T) {
	t.Parallel()
	grant := func(op string, generation, begin, end int64, pane int) event {
		return event{Op: op, ID: "x", Begin: begin, End: end, Lease: fmt.Sprint("L", generation), Generation: generation, Pane: pane}
	}
	used := func(op, code string, generation, begin, end int64) event {
		return event{Op: op, ID: "x", Begin: begin, End: end, Code: code, Lease: fmt.Sprint("L", generation)}
	}
	good := []event{grant("acquire", 1, 10, 20, 1), grant("resume", 2, 15, 30, 1), grant("takeover", 3, 40, 50, 2), used("renew", "", 3, 51, 60),
		used("renew", "FENCE_MISMATCH", 2, 45, 55), used("release", "", 3, 70, 80), grant("acquire", 4, 90, 95, 5)}
	for name, tc := range map[string]struct {
		more   []event
		killed []event
		final  int64
		fails  bool
	}{
		"good":                    {nil, nil, 4, false},
		"twice":                   {[]event{grant("resume", 2, 31, 32, 1)}, nil, 4, true},
		"back":                    {nil, nil, 3, true},
		"nobody's":                {[]event{grant("takeover", 6, 100, 110, 2)}, nil, 6, true},
		"lost by a killed one":    {[]event{grant("takeover", 6, 100, 110, 2)}, []event{{Op: "takeover", ID: "x", Begin: 97}}, 6, false},
		"in a wrong order":        {[]event{grant("takeover", 5, 1, 5, 2)}, nil, 5, true},
		"not released":            {[]event{grant("takeover", 5, 100, 110, 2), grant("acquire", 6, 120, 130, 2)}, nil, 6, true},
		"another pane":            {[]event{grant("resume", 5, 100, 110, 2)}, nil, 5, true},
		"after a release":         {[]event{used("release", "", 4, 96, 97), grant("resume", 5, 100, 110, 5)}, nil, 5, true},
		"an old one goes well":    {[]event{used("renew", "", 2, 60, 70)}, nil, 4, true},
		"the last one is refused": {[]event{used("renew", "FENCE_MISMATCH", 4, 96, 97)}, nil, 4, true},
	} {
		stand := new(testing.T)
		judgeOne(stand, "x", append(slices.Clone(good), tc.more...), tc.killed, &store.Controller{Generation: tc.final})
		if stand.Failed() != tc.fails {
			t.Errorf("%s: failed %t", name, stand.Failed())
		}
	}
}
