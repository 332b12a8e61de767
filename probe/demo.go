package probe

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"herdr-link/envelope"
	"herdr-link/fakeherdr"
)

// Demo shows two agents that talk through two servers of o.Command, in a
// simulated Herdr, and prints to w what happens, when it happens. It fails if
// anything did not happen. Of the options, Checks is not used.
func Demo(ctx context.Context, o Options, w io.Writer) error {
	o.defaults()
	var written error
	say := func(format string, args ...any) {
		if written == nil {
			_, written = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	f := o.try(ctx, Check{run: func(t *trial) { t.demo(say) }})
	if f != nil {
		return fmt.Errorf("the demo failed: expected %s, got %s", plain(f.expected), plain(f.got))
	}
	return written
}

func (t *trial) demo(say func(string, ...any)) {
	const question, reply = "Is the parser ready to merge?\nPlease look at the error paths first.", "Yes, but for one error that nobody reads: parse.go, line 40."
	t.change(func(w *fakeherdr.World) { // nobody else in their workspace
		w.Panes = slices.DeleteFunc(w.Panes, func(p *fakeherdr.Pane) bool {
			return p.ID != "w1:p1" && p.ID != "w1:p2" && p.Workspace == "w1"
		})
	})
	say(`Herdr Link demo
Herdr is SIMULATED here: its panes and its agents (lead and reviewer) are not real, and no model takes part.
The two herdr-link servers are real, one a pane: this program calls their tools over MCP, as agents do.
`)
	lead, reviewer := t.dormant(), t.dormantIn("w1:p2")

	t.is("the tools before", lead.names(), []string{"herdr_link"})
	say("1. lead has one tool, herdr_link, and calls it:")
	t.called(say, lead, "herdr_link", "{}")
	t.is("of list_changed the number", lead.changes(), 1)
	t.is("the tools now", lead.names(), four)
	say("   Its server has announced a new list of tools: %s.\n", strings.Join(four, ", "))

	say("2. lead looks who is there:")
	object := t.called(say, lead, "herdr_link_peers", "{}")
	t.is("the peers", peerNames(t, object), []string{"reviewer"})
	say("")

	say("3. lead sends a message:")
	id, _ := t.called(say, lead, "herdr_link_send", `{"to":"reviewer","message":`+quote(question)+`}`)["id"].(string)
	asked := t.arrived(say, "reviewer", "w1:p2")
	t.is("the message", asked, envelope.Envelope{ID: id, From: "lead", To: "reviewer", Message: question})

	say("4. reviewer answers that message (it calls herdr_link first, as the text says):")
	t.called(say, reviewer, "herdr_link", "{}")
	args := `{"to":"` + asked.From + `","message":` + quote(reply) + `,"reply_to":"` + asked.ID + `"}`
	id, _ = t.called(say, reviewer, "herdr_link_send", args)["id"].(string)
	got := t.arrived(say, "lead", "w1:p1")
	t.is("the reply", got, envelope.Envelope{ID: id, From: "reviewer", To: "lead", ReplyTo: asked.ID, Message: reply})

	say("5. lead needs reviewer no more, and closes it:")
	t.called(say, lead, "herdr_link_close", closeReviewer)
	t.must(!t.open("w1:p2") && t.open("w1:p1"), "reviewer's pane closed, and lead's open", t.commands("pane", "close"))
	say("   reviewer's pane is gone.\n")

	say("6. lead looks again:")
	object = t.called(say, lead, "herdr_link_peers", "{}")
	t.is("the peers", peerNames(t, object), []string{})
	for _, s := range t.servers {
		s.stdin.Close()
		t.is("the exit status of a server", s.wait(t.o.Patience), 0)
	}
	say("\nAll of this was checked: both messages arrived whole, the reply names the message it answers, the pane is closed.")
}

// called calls a tool and prints the call and the result; of a result with the
// contract all but that.
func (t *trial) called(say func(string, ...any), s *server, tool, args string) map[string]any {
	say("     %s %s", tool, args)
	var object map[string]any
	if tool == "herdr_link" {
		object = s.activate()
		text, _ := object["contract"].(string)
		say("     -> status %v, capabilities %v, and the contract (%d lines)", object["status"], object["capabilities"], strings.Count(text, "\n"))
		t.is("the status", object["status"], "active")
		return object
	}
	r := s.call(tool, args)
	t.must(!r.IsError, "a success of "+tool, r.text())
	say("     -> %s", strings.ReplaceAll(r.text(), "\n", "\n        "))
	t.decode("the result of "+tool, []byte(r.text()), &object)
	return object
}

// arrived waits for the first submission in a pane, prints it as it is and
// returns its envelope.
func (t *trial) arrived(say func(string, ...any), name, pane string) envelope.Envelope {
	say("   Herdr types it into %s's pane and presses Enter 300 ms later. What arrives there, word for word:", name)
	text := t.arrive(pane, 1)[0]
	t.must(!rawControl(text) && !rawOther(text), "no control characters", text)
	say("     | %s\n", strings.ReplaceAll(text, "\n", "\n     | "))
	return t.lastLine(text)
}
