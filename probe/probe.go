// Package probe checks a herdr-link/1 server from outside: as a process that
// it starts, speaks MCP with over stdio, and gives a simulated Herdr to work
// on. It knows the server by its command line alone and imports nothing of it,
// so what is checked may be any implementation.
//
// A check that only herdr-link's own program promises is marked as such; what
// the others say holds for every server of herdr-link/1.
package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"herdr-link/fakeherdr"
)

// A Check is one row of the table: a promise, and the func that tries it.
type Check struct {
	Name    string // group/what-is-promised; stays the same between versions
	Expects string // the promise, as a sentence without a full stop
	Own     bool   // only herdr-link's own program promises this
	run     func(*trial)
}

// Select returns the checks whose names match pattern (see path.Match) or
// begin with it, in the order of the table; all of them for "".
func Select(pattern string) []Check {
	all := slices.Concat(gateChecks(), dormantChecks(), activateChecks(), toolsChecks(), peersChecks(), sendChecks(),
		closeChecks(), gatewayChecks(), errorChecks(), bootstrapChecks(), movedChecks(), rpcChecks(), lifeChecks(), cliChecks())
	return slices.DeleteFunc(all, func(c Check) bool {
		matches, err := path.Match(pattern, c.Name)
		return !(err == nil && matches) && !strings.HasPrefix(c.Name, pattern)
	})
}

// Options say what is checked and how.
type Options struct {
	Checks  []Check
	Command []string // starts the server
	Own     bool     // Command is herdr-link's own program
	Home    bool     // keep the home of Environ; otherwise each check has an empty one
	Environ []string // as os.Environ gives it; HERDR_ variables are left out
	Herdr   string   // path of a program that plays herdr: see fakeherdr.Role

	Patience time.Duration // for each thing that must come; 0: 10 s
	Limit    time.Duration // for all checks together; 0: 30 times Patience
}

// A Report counts the outcomes.
type Report struct{ Passed, Failed, Skipped int }

func (r Report) String() string {
	s := fmt.Sprintf("%d passed, %d failed", r.Passed, r.Failed)
	if r.Skipped > 0 {
		s += fmt.Sprintf(", %d skipped", r.Skipped)
	}
	return s
}

// atOnce is how many checks run side by side: most of their time is waiting.
const atOnce = 6

// Run runs the checks and prints a line for each, in their order, and the
// report. Nothing that the server does ends it early or makes it last longer
// than Limit and a little; then, as when ctx ends, checks that have no result
// fail. An error means that w cannot be written.
func Run(ctx context.Context, o Options, w io.Writer) (Report, error) {
	o.defaults()
	ctx, stop := context.WithTimeoutCause(ctx, o.Limit, errors.New("the time of the whole probe was over"))
	defer stop()

	lines := make([]chan string, len(o.Checks))
	places := make(chan struct{}, atOnce)
	for i := range lines {
		lines[i] = make(chan string, 1)
	}
	go func() {
		for i, c := range o.Checks {
			places <- struct{}{}
			go func() {
				lines[i] <- o.line(ctx, c)
				<-places
			}()
		}
	}()
	var r Report
	var failed error
	for _, line := range lines {
		text := <-line
		switch text[:4] {
		case "ok  ":
			r.Passed++
		case "skip":
			r.Skipped++
		default:
			r.Failed++
		}
		if failed == nil {
			if _, failed = fmt.Fprintln(w, text); failed != nil {
				stop() // but wait for what runs: it has processes to end
			}
		}
	}
	if failed == nil {
		_, failed = fmt.Fprintln(w, r)
	}
	return r, failed
}

func (o *Options) defaults() {
	if o.Patience == 0 {
		o.Patience = 10 * time.Second
	}
	if o.Limit == 0 {
		o.Limit = 30 * o.Patience
	}
}

// line runs one check and returns its line.
func (o *Options) line(ctx context.Context, c Check) string {
	if c.Own && !o.Own {
		return "skip " + c.Name + ": only herdr-link's own binary promises this"
	}
	switch f := o.try(ctx, c); {
	case f == nil:
		return "ok   " + c.Name
	case f.skip != "":
		return "skip " + c.Name + ": " + f.skip
	default:
		return "FAIL " + c.Name + ": expected " + plain(f.expected) + ", got " + plain(f.got)
	}
}

// try runs one check in a scene of its own.
func (o *Options) try(ctx context.Context, c Check) (f *failure) {
	if ctx.Err() != nil {
		return &failure{expected: "to be run", got: context.Cause(ctx).Error()}
	}
	ctx, stop := context.WithTimeoutCause(ctx, 4*o.Patience, errors.New("the time of the check was over"))
	defer stop()
	dir, err := os.MkdirTemp("", "herdr-link-probe-")
	if err != nil {
		return &failure{expected: "a temporary folder", got: err.Error()}
	}
	t := &trial{o: o, ctx: ctx, dir: dir}
	defer func() {
		t.end()
		if r := recover(); r != nil {
			var ok bool
			if f, ok = r.(*failure); !ok {
				panic(r)
			}
		}
	}()
	if t.scene, err = fakeherdr.Create(filepath.Join(dir, "scene"), o.Herdr); err != nil {
		t.fail("a simulated Herdr", "%v", err)
	}
	c.run(t)
	return nil
}

// plain makes a text fit for one line of a terminal: strangers wrote it.
func plain(s string) string {
	const most = 400
	var b strings.Builder
	for _, r := range s {
		if b.Len() > most {
			b.WriteString("…")
			break
		}
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r < ' ' || r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
