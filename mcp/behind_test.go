package mcp

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// goesOn has a tool whose call begins something that goes on for an hour.
func goesOn(b *bench) *Server {
	s := both(static())
	s.Tools = []Tool{{Name: "begin", InputSchema: schema, Begin: func(s *Session, _ Args) Call {
		return Call{Run: func(context.Context) *Result {
			s.Behind(func(ctx context.Context) {
				select {
				case <-time.After(time.Hour):
					b.note("done")
				case <-ctx.Done():
					b.note("ended %t", errors.Is(context.Cause(ctx), ErrEnded))
					time.Sleep(time.Second)
				}
				b.note("over")
			})
			return &Result{Text: []string{"begun"}}
		}}
	}}}
	return s
}

// What goes on behind a call has all the time there is, and ends with the input
// or the process, in each era.
func TestBehind(t *testing.T) {
	for era, begin := range map[string]string{"legacy ": call("1", "begin", ""), "modern ": modern("1", "tools/call", `"name":"begin"`)} {
		for name, test := range map[string]struct {
			end  func(*peer)
			want string
		}{
			"by itself":        {func(*peer) { time.Sleep(2 * time.Hour) }, "done over"},
			"with the input":   {func(p *peer) { _ = p.in.Close(); <-p.done }, "ended true over"},
			"with the process": {func(p *peer) { p.stop(); <-p.done }, "ended false over"},
		} {
			bubble(t, era+name, func(t *testing.T) {
				b := &bench{}
				p := initialized(t, goesOn(b), Latest)
				p.say(begin)
				p.hears("1 result")
				time.Sleep(time.Minute) // longer than a call may take
				if did := b.did(); did != "" {
					t.Errorf("too early: %s", did)
				}
				if test.end(p); b.did() != test.want {
					t.Error("it did not end so")
				}
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		r, err := CallOne(t.Context(), goesOn(b).Tools, "begin", nil)
		if err != nil || r.IsError || b.did() != "done over" {
			t.Errorf("alone: %+v, %v", r, err)
		}
	})
}
