package handoff

import (
	"fmt"
	"testing"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mesh/lease"
	"herdr-link/mesh/store"
	"herdr-link/twin"
)

// A model of the receipts of one lease, explored in all interleavings of two
// bridges that prompt, confirm, collect, abandon and resume the controller, and
// of the agent, which works, is blocked, settles, is given a task by its human, is
// moved to another pane or comes back in another terminal. Each bridge may be
// killed at any step. What a list of the agents means is decided by the program
// itself, and that the store lock lets one in at a time the model of package lock
// has shown.
//
// Time is not modelled: it is only assumed that what was typed has been taken up
// when 5 s are over, and that terminals take input in order.

// Where a bridge is.
const (
	rest       = iota
	prompting  // with the store lock: its receipt is on disk
	refusing   // with the store lock: the prompt was refused
	confirming // it watches whether the agent begins
	committing // it is about to take the store lock and to write what goal says
	watching
	reading   // it has seen that the agent has settled
	looking   // it has read the screen, and looks again
	replaying // it has seen that the receipt is current
	relooking // it has read the screen, and looks again
)

// What a bridge is about to write.
const (
	nothing = iota
	accepted
	blockedNow
	completed
	identityGone
	secondTurn
)

// The states of a receipt.
const (
	none = iota
	reserved
	pending
	complete
	deliveryFailed
	abandoned
	otherFailed
)

// statuses are those of the agent, as Herdr names them.
var statuses = [...]string{"idle", "working", "blocked"}

const (
	quietly = iota
	atWork
	stuck
)

// lastGeneration is the one after which nobody resumes.
const lastGeneration = 3

// human is whose turn it is if it is that of no receipt.
const human = 9

// A paper is a receipt on disk.
type paper struct {
	state, before, after, settled, stuckAt int8
	pane, terminal                         int8
	typed                                  bool // nobody can say that it surely did not arrive
}

// A bridger is a process. Beside at and gen all is forgotten at the end of what
// it does.
type bridger struct {
	at, gen, r, goal int8
	state            int8 // of the receipt, when it was read
	after            int8 // of its follower
	blocked          bool
	unbroken         bool
	watched          bool
	seen             int8 // the cursor at which the agent had settled
	text             int8 // whose turn the screen showed
	textAt           int8 // at which cursor
	textQuiet        bool
	textRight        bool // it was the screen of the receipt's terminal and pane
	// What the rules are about, without the follower: whether the watch misses
	// nothing, whether it knows of a block, and whether it knows of a second turn.
	sure, stopped, knew bool
}

type model struct {
	gen      int8 // of the controller
	pane     int8 // of the lease
	lock     int8 // the bridge that has it; -1: nobody
	receipts [2]paper
	bridges  [2]bridger

	status, cursor, at, terminal int8 // of the agent
	turn                         int8 // whose task it does, or its screen shows: of a receipt, from 1, or human
	inbox                        int8 // the receipt, from 1, of what was typed and is not taken up

	humans, blocks, mishaps int8 // that are still to come
}

// A ruleset is a protocol to be explored: the right one is the zero value.
type ruleset struct {
	// Mistakes, by which the exploration is tested.
	noLock, promptFirst, noBarrier, noStateCheck, noAuthority, refuseAll, noSecondLook, noIdentity,
	noSuperseded, abandonYoung, anyCursor, collectReserved, abandonAtWork, replayAny, replayBeside bool
}

func names(i int8) string { return string(rune('a' + i)) }

// list is what Herdr says of the agent.
func (w *model) list() []herdrcli.Agent {
	return []herdrcli.Agent{{Name: "x", Kind: "pi", Status: statuses[w.status], PaneID: names(w.at), TerminalID: names(w.terminal), Cursor: int64(w.cursor)}}
}

func (w *model) lease() store.Leased {
	return &store.Reviewer{Lease: store.Lease{AgentName: "x", AgentKind: "pi", PaneID: names(w.pane), TerminalID: names(0), State: store.Active}}
}

// receipt is one as the program reads it.
func (p paper) receipt() *store.Receipt {
	failure := ""
	if p.state == deliveryFailed {
		failure = "delivery_failed"
	}
	return &store.Receipt{Failure: failure, Target: "x", AgentKind: "pi", PaneID: names(p.pane), TerminalID: names(p.terminal),
		BeforeSeq: int64(p.before), AfterSeq: int64(p.after), BlockedSeq: int64(p.stuckAt), SettledSeq: int64(p.settled)}
}

func (p paper) outstanding() bool { return p.state == reserved || p.state == pending }

// then is the time of the sample before, in every world.
var then = time.Unix(1, 0)

func (b *bridger) follower() *follower {
	f := &follower{after: int64(b.after), blocked: b.blocked, unbroken: b.unbroken}
	if b.watched {
		f.last = then
	}
	return f
}

func (b *bridger) follow(f *follower) {
	b.after, b.blocked, b.unbroken, b.watched = int8(f.after), f.blocked, f.unbroken, !f.last.IsZero()
}

// agentOf is of, as the bridge looks now.
func (m ruleset) agentOf(w *model, r int8) *herdrcli.Agent {
	if m.noIdentity {
		return &w.list()[0]
	}
	return of(w.receipts[r].receipt(), w.list())
}

// next calls do for each world that one step of bridge p can lead to, and says
// what the step is.
func (m ruleset) next(w *model, p int8, do func(string, model)) {
	step := func(what string, change func(*model, *bridger)) {
		v := *w
		change(&v, &v.bridges[p])
		do(what, m.forget(v))
	}
	b := &w.bridges[p]
	give := func(v *model) {
		if v.lock == p {
			v.lock = -1
		}
	}
	if b.at != rest {
		step("killed", func(v *model, b *bridger) { give(v); b.at = rest })
	}
	free := w.lock < 0 || m.noLock
	authority := b.gen == w.gen || m.noAuthority
	switch b.at {
	case rest:
		if free {
			m.begin(w, b, authority, p, step)
		}
	case prompting:
		arrives := w.at == w.receipts[b.r].pane
		sent := func(v *model, b *bridger) { give(v); b.at = confirming; v.receipts[b.r].typed = true }
		if arrives {
			step("prompts", func(v *model, b *bridger) { sent(v, b); v.inbox = b.r + 1 })
			step("is killed as it prompts", func(v *model, b *bridger) { sent(v, b); v.inbox = b.r + 1; b.at = rest })
		}
		step("prompts, and nobody knows", func(v *model, b *bridger) {
			sent(v, b)
			if m.refuseAll {
				v.lock, b.at = p, refusing
			}
		})
		step("is refused", func(v *model, b *bridger) { b.at = refusing })
	case refusing:
		step("writes that it was refused", func(v *model, b *bridger) { v.receipts[b.r].state = deliveryFailed; give(v); b.at = rest })
	case confirming:
		if a := m.agentOf(w, b.r); a != nil {
			early := a.Status == "working" || a.Status == "blocked"
			for _, late := range []bool{false, true} { // nobody has looked for long
				i := &item{receipt: w.receipts[b.r].receipt()}
				if !late {
					i.seen = time.Now()
				}
				grown := i.grown(a)
				if m.anyCursor && !grown {
					grown, i.follower = true, &follower{after: a.Cursor, unbroken: true, last: then}
				}
				if grown && (early || w.inbox == 0) {
					step("sees it begin", func(v *model, b *bridger) {
						b.at, b.goal = committing, accepted
						b.follow(i.follower)
						b.sure, b.stopped = !late, a.Status == "blocked"
					})
				}
			}
		}
	case committing:
		if free {
			step("writes", func(v *model, b *bridger) { m.commit(v, b, authority) })
		}
	case watching:
		m.sample(w, b, step, func(v *model, b *bridger, a *herdrcli.Agent, saw verdict) {
			switch {
			case saw == blocked:
				b.at, b.goal, b.seen = committing, blockedNow, int8(a.Cursor)
			case saw == superseded && !m.noSuperseded:
				b.at, b.goal = committing, secondTurn
			case saw == settled:
				b.at, b.seen = reading, int8(a.Cursor)
			}
		})
	case reading, replaying:
		step("reads", func(v *model, b *bridger) {
			b.at++
			r := v.receipts[b.r]
			if v.at == r.pane || m.noIdentity {
				b.text, b.textAt, b.textQuiet = v.turn, v.cursor, v.status == quietly
				b.textRight = v.at == r.pane && v.terminal == r.terminal
			}
			if m.noSecondLook && b.at == looking {
				b.at, b.goal = committing, completed
			}
		})
	case looking:
		m.sample(w, b, step, func(v *model, b *bridger, a *herdrcli.Agent, saw verdict) {
			switch cursor := int8(a.Cursor); { // as item.capture
			case saw == settled && cursor == b.seen:
				b.at, b.goal = committing, completed
			case cursor != b.seen && !b.unbroken:
				b.at, b.goal = committing, secondTurn
			default:
				b.at = watching
			}
		})
	case relooking:
		step("answers once more", func(v *model, b *bridger) {
			b.at = rest // wrong looks at what it answers
		})
	}
}

// forget takes out of a world what cannot matter any more, so that there are fewer
// of them. A bridge whose commit is going to be refused does nothing else.
func (m ruleset) forget(w model) model {
	for k := range w.receipts {
		if r := &w.receipts[k]; r.state > reserved {
			r.typed = false
			if r.state > complete {
				r.after, r.stuckAt = 0, 0
			}
		}
	}
	for p := range w.bridges {
		b := &w.bridges[p]
		late := b.gen != w.gen && !m.noAuthority || b.state != none && w.receipts[b.r].state != b.state && !m.noStateCheck
		switch {
		case b.at == rest || late && w.lock != int8(p) && b.at != replaying && b.at != relooking:
			*b = bridger{gen: b.gen}
		case b.at == watching:
			b.seen, b.text, b.textAt, b.textQuiet, b.textRight, b.goal = 0, 0, 0, false, false, nothing
		}
	}
	if a, b := &w.bridges[0], &w.bridges[1]; a.gen > b.gen || a.gen == b.gen && a.at > b.at { // which is which does not matter
		*a, *b = *b, *a
		if w.lock >= 0 {
			w.lock = 1 - w.lock
		}
	}
	return w
}

// begin are the calls that a bridge can begin.
func (m ruleset) begin(w *model, b *bridger, authority bool, p int8, step func(string, func(*model, *bridger))) {
	if w.gen < lastGeneration {
		step("resumes", func(v *model, b *bridger) { v.gen++; b.gen = v.gen })
	}
	if !authority {
		return
	}
	barrier := false
	for k := range w.receipts {
		k := int8(k)
		r := w.receipts[k]
		barrier = barrier || r.outstanding()
		if r.outstanding() {
			a, err := lease.Find(w.lease(), w.list())
			taken := r.state == pending || w.inbox != k+1
			if err == nil && (lease.Quiet(a.Status) || a.Status == "blocked" || m.abandonAtWork) && (taken || m.abandonYoung) {
				step("abandons", func(v *model, b *bridger) { v.receipts[k].state = abandoned })
			}
		}
		switch {
		case r.state == pending || m.collectReserved && r.state == reserved:
			step("collects", func(v *model, b *bridger) {
				b.r = k
				if !matches(r.receipt(), v.lease()) {
					v.receipts[k].state = otherFailed
					return
				}
				b.at, b.state = watching, r.state
				b.follow(follow(r.receipt()))
				b.stopped = r.stuckAt > 0
			})
		case r.state == complete && m.current(w, k):
			step("replays", func(v *model, b *bridger) { b.r, b.at = k, replaying })
		}
		if r.state == none {
			a, err := lease.Find(w.lease(), w.list())
			if err == nil && lease.Quiet(a.Status) && (!barrier || m.noBarrier) {
				step("reserves", func(v *model, b *bridger) {
					b.r, b.at, b.state, v.pane, v.lock = k, prompting, reserved, v.at, p
					if !m.promptFirst {
						v.receipts[k] = paper{state: reserved, before: int8(a.Cursor), pane: v.at, terminal: v.terminal}
					}
				})
			}
			return // the other one's turn comes later
		}
	}
}

// current is whether a completed receipt can be replayed.
func (m ruleset) current(w *model, r int8) bool {
	a := m.agentOf(w, r)
	return a != nil && lease.Quiet(a.Status) && (int8(a.Cursor) == w.receipts[r].settled || m.replayAny)
}

// gone is whether another task was sent after the answer of a receipt.
func (m ruleset) gone(w *model, r int8) bool {
	for k, other := range w.receipts {
		if int8(k) != r && other.state != none && after(w.receipts[r].receipt(), other.receipt()) && !m.replayBeside {
			return true
		}
	}
	return false
}

// sample looks at the agent of the receipt, at once and after so long that
// something may have been missed.
func (m ruleset) sample(w *model, b *bridger, step func(string, func(*model, *bridger)), judge func(*model, *bridger, *herdrcli.Agent, verdict)) {
	a := m.agentOf(w, b.r)
	if a == nil {
		step("sees another agent", func(v *model, b *bridger) { b.at, b.goal = committing, identityGone })
		return
	}
	for _, late := range []bool{false, true} {
		if late && !b.watched {
			return
		}
		step("looks", func(v *model, b *bridger) {
			f, now := b.follower(), then
			if late {
				now = now.Add(gap)
			}
			b.sure = b.sure && !late || !b.watched && w.cursor == b.after
			b.knew = b.knew || !b.sure && !b.stopped && w.status == atWork && w.cursor > b.after
			b.stopped = b.stopped || w.status == stuck
			saw := f.see(a, now)
			b.follow(f)
			judge(v, b, a, saw)
		})
	}
}

// commit writes what the bridge is about to, if it may.
func (m ruleset) commit(v *model, b *bridger, authority bool) {
	r := &v.receipts[b.r]
	goal := b.goal
	b.at = rest
	if !authority || r.state != b.state && !m.noStateCheck {
		return
	}
	switch goal {
	case accepted:
		r.state, r.after, r.stuckAt = pending, b.after, 0
		if b.blocked {
			r.stuckAt = b.after
		}
		b.at, b.state = watching, pending // a handoff; a relay ends here
	case blockedNow:
		r.state, r.stuckAt = pending, b.seen
	case completed:
		r.state, r.settled = complete, b.seen
	default:
		r.state = otherFailed
	}
}

// agent calls do for each world that the agent alone can lead to.
func (w *model) agent(do func(string, model)) {
	step := func(what string, change func(*model)) {
		v := *w
		change(&v)
		do(what, v)
	}
	if w.inbox != 0 {
		step("takes up its task", func(v *model) {
			v.turn, v.inbox = v.inbox, 0
			if v.status == quietly {
				v.status, v.cursor = atWork, v.cursor+1
			}
		})
		if w.status == quietly {
			step("does its task in a moment", func(v *model) { v.turn, v.inbox = v.inbox, 0 })
		}
	} else {
		switch w.status {
		case quietly:
			if w.humans > 0 {
				step("gets a task from its human", func(v *model) { v.status, v.cursor, v.turn, v.humans = atWork, v.cursor+1, human, v.humans-1 })
			}
		case atWork:
			step("settles", func(v *model) { v.status, v.cursor = quietly, v.cursor+1 })
			if w.blocks > 0 {
				step("is blocked", func(v *model) { v.status, v.cursor, v.blocks = stuck, v.cursor+1, v.blocks-1 })
			}
		case stuck:
			step("goes on", func(v *model) { v.status, v.cursor = atWork, v.cursor+1 })
		}
	}
	if w.mishaps > 0 {
		step("is moved", func(v *model) { v.at++; v.mishaps-- })
		step("comes back in another terminal", func(v *model) {
			v.terminal++
			v.mishaps--
			v.status, v.cursor, v.turn, v.inbox = quietly, 0, 0, 0
		})
	}
}

// mayFollow are the transitions of mesh.md §3.5.
var mayFollow = map[[2]int8]bool{
	{none, reserved}: true, {reserved, pending}: true, {reserved, deliveryFailed}: true, {reserved, abandoned}: true, {pending, pending}: true,
	{pending, abandoned}: true, {pending, complete}: true, {pending, otherFailed}: true,
}

// wrong says what must not be in the step of bridge p from w to v.
func (m ruleset) wrong(w, v *model, p int8, what string) string {
	b := &w.bridges[p]
	wrote := w.pane != v.pane
	standing := 0
	for k := range v.receipts {
		old, now := w.receipts[k], v.receipts[k]
		if now.outstanding() {
			standing++
		}
		typing := old
		typing.typed = now.typed
		if typing == now {
			continue // to have typed is in no record
		}
		wrote = true
		switch {
		case !mayFollow[[2]int8{old.state, now.state}]:
			return fmt.Sprintf("receipt %d goes from state %d to %d", k, old.state, now.state)
		case now.state == deliveryFailed && old.typed:
			return "what may have arrived counts as never sent"
		case (now.state == pending || now.state == complete) && now.after <= now.before || now.state == complete && now.settled < now.after:
			return "the cursors of a receipt are in a wrong order"
		case now.state == abandoned && w.status == atWork && w.terminal == old.terminal:
			return "the receipt of an agent at work is abandoned"
		case now.state == complete:
			switch {
			case !b.textRight:
				return "completed by the screen of another terminal or pane"
			case !b.textQuiet || b.textAt != now.settled:
				return "completed by the screen of another moment"
			case b.text != int8(k+1) && b.text != human:
				return "completed by another task's answer"
			case b.knew:
				return "completed though a second turn was seen"
			}
		}
	}
	switch {
	case standing > 1:
		return "two receipts of one lease are outstanding"
	case wrote && b.gen != w.gen:
		return "a stale generation writes"
	case v.inbox != w.inbox && w.inbox != 0:
		return "two tasks are typed"
	case v.inbox != w.inbox && (w.receipts[v.inbox-1].state != reserved || w.lock != p || b.gen != w.gen):
		return "a task is typed without its receipt, the store lock and the authority"
	case what != "answers once more" || !m.current(w, b.r) || m.gone(w, b.r):
	case b.text != b.r+1 && b.text != human:
		return "another task's answer is replayed"
	case !b.textRight || !b.textQuiet || b.textAt != w.receipts[b.r].settled:
		return "the screen of another moment is replayed"
	}
	return ""
}

// explore looks at all worlds that can come to be, breadth first, and returns how
// many there are, or what is wrong and how it came about.
func (m ruleset) explore(start model) (worlds int, wrong string) {
	type origin struct {
		from int32
		step string
	}
	known := map[model]struct{}{start: {}}
	queue, origins := []model{start}, []origin{{}}
	for n := 0; n < len(queue) && wrong == ""; n++ {
		w := queue[n]
		found := func(who int8, step string, v model) {
			if wrong != "" {
				return
			}
			if who >= 0 {
				wrong = m.wrong(&w, &v, who, step)
				step = names(who) + " " + step
			} else {
				step = "the agent " + step
			}
			if wrong != "" {
				wrong += fmt.Sprintf(", as it %s in %+v", step, w)
				for k := int32(n); k != 0; k = origins[k].from {
					wrong = origins[k].step + "\n" + wrong
				}
				return
			}
			if _, old := known[v]; !old {
				known[v] = struct{}{}
				queue, origins = append(queue, v), append(origins, origin{int32(n), step})
			}
		}
		for p := range w.bridges {
			m.next(&w, int8(p), func(step string, v model) { found(int8(p), step, v) })
		}
		w.agent(func(step string, v model) { found(-1, step, v) })
	}
	return len(queue), wrong
}

// starts are the worlds to begin with: all that can happen at the same time would
// be too much.
func starts() []model {
	base := model{gen: 1, lock: -1, cursor: 1, bridges: [2]bridger{{gen: 1}, {gen: 1}}}
	with := func(humans, blocks, mishaps, gen int8) model {
		w := base
		w.humans, w.blocks, w.mishaps, w.gen = humans, blocks, mishaps, gen
		w.bridges[0].gen, w.bridges[1].gen = gen, gen
		return w
	}
	return []model{
		with(2, 0, 0, lastGeneration),
		with(1, 1, 0, lastGeneration),
		with(0, 2, 0, lastGeneration),
		with(1, 0, 1, lastGeneration),
		with(0, 0, 0, 1),
		with(1, 0, 0, 2),
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	if twin.Runs(t) { // each exploration is one goroutine
		return
	}
	total := 0
	for _, start := range starts() {
		begun := time.Now()
		worlds, wrong := ruleset{}.explore(start)
		if wrong != "" {
			t.Errorf("%+v:\n%s", start, wrong)
		}
		t.Logf("%d worlds in %v", worlds, time.Since(begun))
		total += worlds
	}
	if total < 10000 {
		t.Errorf("there are only %d worlds: something never happens", total)
	}
}

// The exploration finds mistakes.
func TestModelFails(t *testing.T) {
	t.Parallel()
	if twin.Runs(t) { // each exploration is one goroutine
		return
	}
	for name, m := range map[string]ruleset{
		"no store lock":                 {noLock: true},
		"the prompt before the receipt": {promptFirst: true},
		"no barrier":                    {noBarrier: true},
		"a receipt that has changed":    {noStateCheck: true},
		"no authority":                  {noAuthority: true},
		"uncertain is refused":          {refuseAll: true},
		"no second look":                {noSecondLook: true},
		"any agent":                     {noIdentity: true},
		"a second turn":                 {noSuperseded: true},
		"abandoned at once":             {abandonYoung: true},
		"abandoned at work":             {abandonAtWork: true},
		"any cursor is accepted":        {anyCursor: true},
		"reserved is collected":         {collectReserved: true},
		"any cursor is replayed":        {replayAny: true},
		"replayed beside another task":  {replayBeside: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var wrong string
			for _, start := range starts() {
				if _, wrong = m.explore(start); wrong != "" {
					break
				}
			}
			if wrong == "" {
				t.Error("nothing is wrong")
			}
			t.Log(wrong)
		})
	}
}
