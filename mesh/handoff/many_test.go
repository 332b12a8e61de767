//go:build unix

package handoff

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
	"testing"
	"time"

	"herdr-link/mesh/controller"
	"herdr-link/mesh/crash"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/store"
	"herdr-link/twin"
)

var howLong = flag.Duration("many", 2*time.Second, "how long 16 processes give tasks to the same agents in TestMany")

const (
	// workerOf, workerAs and workerCreds make this test binary one of those
	// processes: in that folder, of that number, with the credentials that are in
	// another folder.
	workerOf    = "HERDR_LINK_MANY_TEST_DIR"
	workerAs    = "HERDR_LINK_MANY_TEST_NUMBER"
	workerCreds = "HERDR_LINK_MANY_TEST_CREDENTIALS"

	processes = 16
	// haste is how much faster their clock is, so that a delivery is old soon.
	haste = 60
	// leasedAgents have each a lease, those with an even number of controller
	// even, the others of odd.
	leasedAgents = 6
)

var manyIDs = []string{"even", "odd"}

// An event is one operation of one process, in its history. Begin and End are
// of the real clock, in nanoseconds; one that was killed has no End.
type event struct {
	Op, ID     string
	Lease      string   // of the credential
	Generation int64    // that it got
	Targets    []string // with
	Texts      []string // for each
	Receipts   []string // tokens that it was about
	Begin, End int64
	Code       string
	Answer     *Answer
}

// clockOf returns the hasty clock of all processes.
func clockOf(dir string) (func() time.Time, error) {
	info, err := os.Stat(filepath.Join(dir, "herdr"))
	if err != nil {
		return nil, err
	}
	start := info.ModTime()
	return func() time.Time { return start.Add(time.Since(start) * haste) }, nil
}

// work is one of the processes: random operations until there is a file "stop".
// Each is written to its history before it begins, and when it has ended.
func work(dir string) int {
	number, _ := strconv.Atoi(os.Getenv(workerAs))
	now, err := clockOf(dir)
	if err != nil {
		return 1
	}
	p := &process{
		bridge: newBridge(dir, quickEnv(dir, fmt.Sprintf("w1:p%d", number%2)), nil, now),
		id:     manyIDs[number%2], creds: filepath.Join(os.Getenv(workerCreds), manyIDs[number%2]), name: fmt.Sprintf("%d-%d", number, os.Getpid()),
	}
	history, err := os.OpenFile(filepath.Join(dir, "history-"+p.name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "stop")); err == nil {
			return 0
		}
		e, do := p.next(context.Background())
		if do == nil {
			continue
		}
		e.Begin = time.Now().UnixNano()
		if json.NewEncoder(history).Encode(e) != nil {
			return 1
		}
		err := do(&e)
		e.End, e.Code = time.Now().UnixNano(), fault.Code(err)
		if err != nil && e.Code == "" {
			e.Code = "not a fault"
		}
		if e.Code == "FENCE_MISMATCH" || e.Code == "CONTROLLER_EXPIRED" {
			p.stale = e.Lease
		}
		if json.NewEncoder(history).Encode(e) != nil {
			return 1
		}
	}
}

// A process knows the credential that its agent shares with all processes of its
// pane.
type process struct {
	bridge
	id, creds, name string
	number          int                   // of the text that it sent last
	stale           string                // the lease of a credential that did not do
	old             controller.Credential // the one before
}

// next says what it does next; do fills in what came of it.
func (p *process) next(ctx context.Context) (e event, do func(*event) error) {
	data, _ := os.ReadFile(p.creds)
	words := append(strings.Fields(string(data)), "", "")
	cred := controller.Credential{ControllerID: p.id, LeaseID: words[0], Fence: words[1]}
	if p.stale == cred.LeaseID && rand.N(2) == 0 {
		return p.resume(ctx) // the newest does not do: a process was killed before it told its own
	}
	if p.old.LeaseID != "" && rand.N(20) == 0 {
		cred = p.old // somebody remembers what may not be true any more
	} else {
		p.old = cred
	}
	e.ID, e.Lease = p.id, cred.LeaseID
	by := p.controllers.By(cred)
	wait := Wait{First: rand.N(4) == 0, Timeout: time.Second + rand.N(time.Second), Lines: 10}
	some := func(state string) bool {
		l, err := p.List(p.id, state, 20)
		if err != nil || len(l.Invalid) > 0 {
			e.Op, do = "list", func(*event) error { return fault.New("INVALID", "%v %v", l, err) }
			return true
		}
		rand.Shuffle(len(l.Receipts), func(i, j int) { l.Receipts[i], l.Receipts[j] = l.Receipts[j], l.Receipts[i] })
		for _, r := range l.Receipts[:min(len(l.Receipts), 1+rand.N(3))] {
			e.Receipts = append(e.Receipts, r.Receipt)
		}
		return len(e.Receipts) > 0
	}
	n := rand.N(100)
	switch {
	case n < 50:
		e.Op = "relay"
		count := 1
		if n < 25 {
			e.Op, count = "batch", 1+rand.N(3)
		}
		var requests []Request
		for _, a := range rand.Perm(leasedAgents) {
			if a%2 != slices.Index(manyIDs, p.id) && rand.N(20) > 0 || len(requests) == count { // seldom one of the other's
				continue
			}
			p.number++
			q := Request{fmt.Sprint("agent", a), fmt.Sprintf("task %s-%d", p.name, p.number)}
			requests = append(requests, q)
			e.Targets, e.Texts = append(e.Targets, q.Target), append(e.Texts, q.Message)
		}
		if len(requests) == 0 {
			return e, nil
		}
		do = func(e *event) (err error) {
			if e.Op == "relay" {
				e.Answer, err = p.Relay(ctx, by, requests[0])
			} else {
				e.Answer, err = p.Batch(ctx, by, requests, wait)
			}
			return err
		}
	case n < 80:
		state := store.Pending
		if n > 75 {
			state = store.Completed
		}
		if !some(state) || do != nil {
			return e, do
		}
		e.Op, do = "collect", func(e *event) (err error) {
			e.Answer, err = p.Collect(ctx, by, e.Receipts, wait)
			return err
		}
	case n < 92:
		state := store.Reserved
		if n > 89 {
			state = store.Pending
		}
		if !some(state) || do != nil {
			return e, do
		}
		e.Receipts = e.Receipts[:1]
		e.Op, do = "abandon", func(e *event) error {
			_, err := p.Abandon(ctx, by, e.Receipts[0])
			return err
		}
	case n < 98:
		e.Op, do = "renew", func(*event) error {
			_, err := p.controllers.Renew(ctx, cred, 900*time.Second)
			return err
		}
	default:
		return p.resume(ctx)
	}
	return e, do
}

// resume makes a new generation.
func (p *process) resume(ctx context.Context) (event, func(*event) error) {
	return event{Op: "resume", ID: p.id}, func(e *event) error {
		r, err := p.controllers.Resume(ctx, request(p.id))
		if err != nil {
			return err
		}
		e.Lease, e.Generation = r.LeaseID, r.Generation
		return remember(p.creds, r)
	}
}

// remember writes a credential to a file that is not among those of the program.
func remember(path string, r *store.Controller) error {
	temp := fmt.Sprint(path, ".", os.Getpid())
	if err := os.WriteFile(temp, []byte(r.LeaseID+" "+r.FenceToken), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// A troop are the agents of the quick Herdr, which do what they are prompted to,
// more or less: some turns leave no trace, some are blocked, now and then a human
// gives them a task, or moves them.
type troop struct {
	t       *testing.T
	dir     string
	counter int64
	agents  []*soldier
	noted   int // prompts that were seen
}

type soldier struct {
	member
	text  string // of its task
	until time.Time
}

func newTroop(t *testing.T, dir string) *troop {
	r := &troop{t: t, dir: dir, counter: 1}
	for i := range leasedAgents {
		r.agents = append(r.agents, &soldier{member: member{fmt.Sprint("agent", i), fmt.Sprint("w1:p1", i), fmt.Sprint("term_1", i), "idle", 1}})
		r.screen(r.agents[i], "ready")
	}
	r.show()
	return r
}

// show publishes the agents. Their screens must be right before.
func (r *troop) show() {
	all := []member{{"even", "w1:p0", "term_0", "working", 1}, {"odd", "w1:p1", "term_1", "working", 1}}
	for _, a := range r.agents {
		all = append(all, a.member)
	}
	quickAgents(r.t, r.dir, "agents", all...)
}

// screen writes what an agent's pane shows, wherever that is.
func (r *troop) screen(a *soldier, text string) {
	number := strings.TrimPrefix(a.terminal, "term_1")
	for _, pane := range []string{"1", "2"} {
		put(r.t, filepath.Join(r.dir, "screen-"+pane+number), text+"\n")
	}
}

// turn lets time pass.
func (r *troop) turn(now time.Time) {
	all := prompts(r.t, r.dir)
	for _, p := range all[r.noted:] {
		a := r.agents[int(p.pane[len(p.pane)-1]-'0')]
		if rand.N(10) == 0 {
			r.screen(a, "answer to "+p.text) // and nobody sees it at work
			continue
		}
		r.begin(a, p.text, now)
	}
	r.noted = len(all)
	for _, a := range r.agents {
		over := now.After(a.until)
		switch {
		case a.status == "working" && over && rand.N(6) == 0:
			r.change(a, "blocked", now)
		case a.status == "working" && over:
			r.screen(a, "answer to "+a.text)
			r.change(a, "done", now)
		case a.status == "blocked" && over:
			r.change(a, "working", now)
		case a.status == "done" && rand.N(50) == 0:
			a.status = "idle" // somebody looks at it
		case a.status != "working" && a.status != "blocked" && rand.N(400) == 0:
			r.begin(a, "a human", now)
		case rand.N(1000) == 0: // moved
			n := map[byte]string{'1': "2", '2': "1"}[a.pane[4]]
			a.pane = a.pane[:4] + n + a.pane[5:]
		}
	}
	r.show()
}

func (r *troop) begin(a *soldier, text string, now time.Time) {
	a.text = text
	r.screen(a, "at work")
	r.change(a, "working", now)
}

func (r *troop) change(a *soldier, status string, now time.Time) {
	r.counter++
	a.status, a.cursor, a.until = status, r.counter, now.Add(50*time.Millisecond+rand.N(600*time.Millisecond))
}

// Many processes at work with the same agents, some of which are killed at any
// moment. Their whole history is looked at afterwards.
func TestMany(t *testing.T) {
	dir, creds := t.TempDir(), t.TempDir()
	quickHerdr(t, dir)
	put(t, filepath.Join(dir, "journal"), "")
	agents := newTroop(t, dir)
	now, err := clockOf(dir)
	must(t, err)
	var first []event
	for i, id := range manyIDs {
		b := newBridge(dir, quickEnv(dir, fmt.Sprintf("w1:p%d", i)), nil, now)
		c, err := b.controllers.Acquire(t.Context(), request(id))
		must(t, err)
		must(t, remember(filepath.Join(creds, id), c))
		first = append(first, event{Op: "resume", ID: id, Lease: c.LeaseID, Generation: c.Generation, Begin: 1, End: 2})
		for n, a := range agents.agents {
			if n%2 == i {
				record(t, b.store, leaseFor(id, a.name, a.pane, a.terminal))
			}
		}
	}
	program := twin.Path(t)
	over := time.Now().Add(*howLong)
	var wait sync.WaitGroup
	for number := range processes {
		wait.Go(func() {
			for stopped := false; !stopped; {
				cmd := exec.Command(program)
				cmd.Env = append(os.Environ(), workerOf+"="+dir, workerAs+"="+strconv.Itoa(number), workerCreds+"="+creds)
				cmd.Stderr = os.Stderr
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				life := time.Until(over) + patienceOfMany
				if number%4 < 2 { // the others live for ever
					life = min(life, 200*time.Millisecond+rand.N(4*time.Second))
				}
				kill := time.AfterFunc(life, func() { _ = cmd.Process.Kill() })
				err := cmd.Wait()
				if kill.Stop() && err != nil {
					t.Errorf("%d: %v", number, err)
				}
				stopped = time.Now().After(over)
			}
		})
	}
	ended := make(chan struct{})
	go func() { wait.Wait(); close(ended) }()
	for done, stopped := false, false; !done; {
		select {
		case <-ended:
			done = true
		case now := <-time.After(10 * time.Millisecond):
			agents.turn(now)
			if !stopped && now.After(over) {
				stopped = true
				must(t, os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600))
			}
		}
	}
	crash.NoFence(t, dir)
	h := history{journal: prompts(t, dir), created: map[string]int64{}, updated: map[string]int64{}}
	h.read(t, dir)
	h.done = append(h.done, first...)
	info, err := os.Stat(filepath.Join(dir, "herdr"))
	must(t, err)
	real := func(text string) int64 {
		at, err := store.Time(text)
		must(t, err)
		return info.ModTime().Add(at.Sub(info.ModTime()) / haste).UnixNano()
	}
	s := store.New(store.Options{Root: filepath.Join(dir, "state")})
	h.receipts = receipts(t, s)
	for _, r := range h.receipts {
		h.created[r.ReceiptID], h.updated[r.ReceiptID] = real(r.CreatedAt), real(r.UpdatedAt)
	}
	h.tell(t)
	h.judge(t)
	if status := s.Status(); status.State != "absent" && status.State != "stale" {
		t.Errorf("the lock is %v", status)
	}
}

// patienceOfMany is how long a process may take to notice the end.
const patienceOfMany = time.Minute

// A history is all that is known of what the processes did.
type history struct {
	done, killed []event
	journal      []prompt
	receipts     []*store.Receipt
	// created and updated are the times of receipts, of the real clock.
	created, updated map[string]int64
}

// read reads the histories of all processes.
func (h *history) read(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "history-*"))
	must(t, err)
	for _, file := range files {
		f, err := os.Open(file)
		must(t, err)
		var open *event
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) != nil {
				break // it was killed while it wrote
			}
			if e.End == 0 {
				open = &e
			} else {
				h.done, open = append(h.done, e), nil
			}
		}
		if open != nil {
			h.killed = append(h.killed, *open)
		}
		must(t, f.Close())
	}
}

// tell logs what has happened how often.
func (h *history) tell(t *testing.T) {
	t.Helper()
	counts := map[string]int{}
	for _, e := range h.done {
		counts[e.Op+" "+e.Code]++
		if e.Answer != nil {
			for _, f := range e.Answer.Failed {
				counts[e.Op+"  failed "+f.Stage+" "+f.Code]++
			}
			for _, c := range e.Answer.Completed {
				counts[e.Op+"  completed "+c.Proof]++
			}
		}
	}
	for _, e := range h.killed {
		counts["killed in "+e.Op]++
	}
	for _, r := range h.receipts {
		counts["receipt "+r.State+" "+r.Failure]++
	}
	counts["prompts"] = len(h.journal)
	for _, line := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%5d %s", counts[line], line)
	}
}

// judge holds the history to the rules.
func (h *history) judge(t *testing.T) {
	t.Helper()
	byID := map[string]*store.Receipt{}
	standing := map[string]string{} // outstanding receipts by lease
	for _, r := range h.receipts {
		byID[r.ReceiptID] = r
		if other := standing[r.TargetLeaseID]; outstanding(r) && other != "" {
			t.Errorf("I5: receipts %s and %s of one lease are outstanding", other, r.ReceiptID)
		} else if outstanding(r) {
			standing[r.TargetLeaseID] = r.ReceiptID
		}
	}
	senders := map[string]event{} // by text
	for _, e := range append(slices.Clone(h.done), h.killed...) {
		for _, text := range e.Texts {
			senders[text] = e
		}
	}
	of := map[string]string{} // receipts by the text of their prompt
	texts := map[string]string{}
	last := map[string]*store.Receipt{} // of a lease
	for _, p := range h.journal {
		e, known := senders[p.text]
		if !known {
			t.Errorf("nobody sent %s", p.text)
			continue
		}
		if len(p.receipts) != 1 || byID[p.receipts[0]] == nil {
			t.Errorf("I4, I5: there were %d receipts when %s was prompted (%+v)", len(p.receipts), p.text, e)
			continue
		}
		r := byID[p.receipts[0]]
		switch {
		case of[p.text] != "" || texts[r.ReceiptID] != "":
			t.Errorf("%s was prompted twice, or two texts have receipt %s", p.text, r.ReceiptID)
		case e.End != 0 && e.Code != "":
			t.Errorf("%s was refused with %s, and prompted", e.Op, e.Code)
		case r.Target != e.Targets[slices.Index(e.Texts, p.text)] || r.ControllerID != e.ID || r.PaneID != p.pane:
			t.Errorf("%s has the receipt %+v of another one", p.text, r)
		case r.Failure == "delivery_failed":
			t.Errorf("%s was prompted, and counts as never sent", p.text)
		}
		of[p.text], texts[r.ReceiptID] = r.ReceiptID, p.text
		if before := last[r.TargetLeaseID]; before != nil && (outstanding(before) || h.updated[before.ReceiptID] > h.created[r.ReceiptID]) {
			t.Errorf("I5: %s was prompted while receipt %s was %s", p.text, before.ReceiptID, before.State)
		}
		last[r.TargetLeaseID] = r
	}
	for _, r := range h.receipts {
		if texts[r.ReceiptID] == "" && (r.State == store.Pending || r.State == store.Completed) {
			t.Errorf("nothing was prompted, and a receipt is %s", r.State)
		}
	}
	h.judgeGenerations(t)
	for _, e := range h.done {
		h.judgeAnswer(t, e, byID, of)
	}
}

// judgeAnswer holds an answer to what is on disk and to what was prompted.
func (h *history) judgeAnswer(t *testing.T, e event, byID map[string]*store.Receipt, of map[string]string) {
	t.Helper()
	switch e.Code {
	case "", "FENCE_MISMATCH", "CONTROLLER_EXPIRED", "LOCK_BUSY", "TARGET_BUSY", "LEASE_OTHER_CONTROLLER", "AGENT_BLOCKED", "AGENT_NOT_SETTLED",
		"AGENT_NOT_FOUND", "RECEIPT_OUTSTANDING", "RECEIPT_WRONG_STATE":
	default:
		t.Errorf("%s ended with %s", e.Op, e.Code)
	}
	if e.Op == "abandon" && e.Code == "" && byID[idOf(e.Receipts[0])].Failure != "abandoned" {
		t.Errorf("%s was abandoned, and is not", e.Receipts[0])
	}
	if e.Answer == nil {
		return
	}
	state := map[string]string{} // by id, as it was answered
	for _, c := range e.Answer.Completed {
		id := idOf(c.Receipt)
		state[id] = store.Completed
		r := byID[id]
		if r == nil || r.State != store.Completed || r.SettledSeq != c.Cursor {
			t.Errorf("it was answered that it is completed, %+v, and it is %+v", c, r)
		}
		if text, found := strings.CutPrefix(strings.TrimSpace(c.Output), "answer to "); found && text != "a human" && of[text] != id {
			t.Errorf("the answer of receipt %s is that of %s, of receipt %s", id, text, of[text])
		}
	}
	for _, f := range e.Answer.Failed {
		id := idOf(f.Receipt)
		state[id] = f.Code
		switch f.Code {
		case "DELIVERY_REJECTED":
			if byID[id] == nil || byID[id].Failure != "delivery_failed" {
				t.Errorf("it was answered that it was not sent, and it is %+v", byID[id])
			}
		case "COLLECT_IDENTITY_CHANGED", "COLLECT_CURSOR_SUPERSEDED":
			if byID[id] == nil || byID[id].State != store.Failed {
				t.Errorf("it was answered %s, and it is %+v", f.Code, byID[id])
			}
		case "DELIVERY_AMBIGUOUS", "AGENT_BLOCKED", "COLLECT_TIMEOUT", "COLLECT_STALE", "FENCE_MISMATCH", "CONTROLLER_EXPIRED", "LOCK_BUSY", "RECEIPT_WRONG_STATE":
		default:
			t.Errorf("%s of one failed with %s", e.Op, f.Code)
		}
	}
	for _, receipt := range e.Answer.Pending {
		id := idOf(receipt)
		if state[id] == "" {
			state[id] = store.Pending
		}
		if byID[id] == nil || byID[id].State == store.Reserved || byID[id].Failure == "delivery_failed" {
			t.Errorf("it was answered that it is pending, and it is %+v", byID[id])
		}
	}
	for _, text := range e.Texts {
		if id := of[text]; id != "" && state[id] == "" {
			t.Errorf("%s was prompted, and its receipt was not answered: %+v", text, e.Answer)
		}
	}
	if len(e.Texts) > 0 && len(state) != len(e.Texts) {
		t.Errorf("%d tasks have %d answers: %+v", len(e.Texts), len(state), e.Answer)
	}
}

// judgeGenerations looks for what a generation did after its end.
func (h *history) judgeGenerations(t *testing.T) {
	t.Helper()
	generation := map[string]int64{} // by lease
	for _, e := range h.done {
		if e.Op == "resume" && e.Code == "" {
			generation[e.Lease] = e.Generation
		}
	}
	// over reports whether a later generation was given before that time.
	over := func(id, lease string, at int64) bool {
		g, known := generation[lease]
		return known && slices.ContainsFunc(h.done, func(e event) bool {
			return e.Op == "resume" && e.Code == "" && e.ID == id && e.Generation > g && e.End < at
		})
	}
	for _, e := range h.done {
		if e.Op != "resume" && e.Op != "list" && e.Code == "" && over(e.ID, e.Lease, e.Begin) {
			t.Errorf("I3: %s went well after a later generation was given", e.Op)
		}
	}
	for _, r := range h.receipts {
		if over(r.ControllerID, r.ControllerLeaseID, h.created[r.ReceiptID]) {
			t.Errorf("I3: receipt %s was made after a later generation was given", r.ReceiptID)
		}
	}
}

// The judge finds what it is there for.
func TestJudge(t *testing.T) {
	t.Parallel()
	r := func(id, state, failure string) *store.Receipt {
		return &store.Receipt{ReceiptID: id, ControllerID: "x", ControllerLeaseID: "L1", Target: "a", TargetLeaseID: "T", PaneID: "p", State: state, Failure: failure, SettledSeq: 7}
	}
	sent := func(op, text string, begin int64, a Answer) event {
		return event{Op: op, ID: "x", Lease: "L1", Targets: []string{"a"}, Texts: []string{text}, Begin: begin, End: begin + 5, Answer: &a}
	}
	done := func(id, output string) Answer {
		return Answer{Completed: []Completed{{Receipt: token(id), Cursor: 7, Output: output}}}
	}
	failed := func(id, code string) Answer { return Answer{Failed: []Failed{{Receipt: token(id), Code: code}}} }
	for name, change := range map[string]func(*history){
		"good": func(*history) {},
		"nobody sent it": func(h *history) {
			h.journal = append(h.journal, prompt{"p", "t9", []string{"r3"}})
		},
		"no receipt":   func(h *history) { h.journal[1].receipts = nil },
		"two receipts": func(h *history) { h.journal[1].receipts = []string{"r1", "r2"} },
		"twice":        func(h *history) { h.journal = append(h.journal, h.journal[2]) },
		"of another":   func(h *history) { h.receipts[0].Target = "b" },
		"refused": func(h *history) {
			h.done[0].Code, h.done[0].Answer = "AGENT_BLOCKED", nil
		},
		"never sent":        func(h *history) { h.receipts[1].Failure = "delivery_failed" },
		"two outstanding":   func(h *history) { h.receipts[0].State = store.Pending },
		"while outstanding": func(h *history) { h.updated["r1"] = 25 },
		"never prompted":    func(h *history) { h.journal = h.journal[:2] },
		"not completed":     func(h *history) { h.receipts[0].State, h.receipts[0].Failure = store.Failed, "abandoned" },
		"another's answer":  func(h *history) { h.done[0].Answer.Completed[0].Output = "answer to t2\n" },
		"not abandoned":     func(h *history) { h.receipts[1].Failure = "identity_changed" },
		"rejected": func(h *history) {
			h.done[1].Answer.Failed[0].Code = "DELIVERY_REJECTED"
		},
		"not answered": func(h *history) { h.done[1].Answer.Failed = nil },
		"another's":    func(h *history) { h.done[1].Answer.Failed[0].Receipt = token("r1") },
		"not superseded": func(h *history) {
			h.done[3].Answer = &Answer{Failed: []Failed{{Receipt: token("r3"), Code: "COLLECT_CURSOR_SUPERSEDED"}}}
		},
		"reserved":        func(h *history) { h.receipts[2].State = store.Reserved },
		"unknown code":    func(h *history) { h.done[3].Code = "INTERNAL" },
		"unknown failure": func(h *history) { h.done[1].Answer.Failed[0].Code = "INTERNAL" },
		"an old one": func(h *history) {
			h.done = append(h.done, event{Op: "resume", ID: "x", Lease: "L2", Generation: 2, Begin: 1, End: 25})
		},
		"an old one's receipt": func(h *history) {
			h.done = append(h.done, event{Op: "resume", ID: "x", Lease: "L2", Generation: 2, Begin: 26, End: 29})
			h.done[3].Begin, h.created["r3"] = 28, 30
		},
	} {
		h := &history{
			done: []event{
				sent("batch", "t1", 10, done("r1", "answer to t1\n")),
				sent("relay", "t2", 20, failed("r2", "DELIVERY_AMBIGUOUS")),
				{Op: "abandon", ID: "x", Lease: "L1", Receipts: []string{token("r2")}, Begin: 26, End: 28},
				sent("relay", "t3", 30, Answer{Pending: []string{token("r3")}}),
				{Op: "resume", ID: "x", Lease: "L1", Generation: 1, Begin: 1, End: 2},
			},
			journal:  []prompt{{"p", "t1", []string{"r1"}}, {"p", "t2", []string{"r2"}}, {"p", "t3", []string{"r3"}}},
			receipts: []*store.Receipt{r("r1", store.Completed, ""), r("r2", store.Failed, "abandoned"), r("r3", store.Pending, "")},
			created:  map[string]int64{"r1": 11, "r2": 21, "r3": 31},
			updated:  map[string]int64{"r1": 15, "r2": 27, "r3": 34},
		}
		change(h)
		stand := new(testing.T)
		h.judge(stand)
		if stand.Failed() != (name != "good") {
			t.Errorf("%s: failed %t", name, stand.Failed())
		}
	}
}
