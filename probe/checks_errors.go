package probe

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"herdr-link/envelope"
	"herdr-link/fakeherdr"
)

const (
	sendHi        = `{"to":"reviewer","message":"hi"}`
	closeReviewer = `{"agent":"reviewer"}`
)

// unreachable is what peers, send and close must say of a Herdr with a fault.
func unreachable(name, expects string, own bool, f fakeherdr.Fault, more ...string) Check {
	return Check{Name: "errors/" + name, Own: own, Expects: expects + " is NOT_IN_HERDR for peers, send and close", run: func(t *trial) {
		s := t.active(more...)
		t.fault(f)
		s.refuse("NOT_IN_HERDR", "herdr_link_peers", "{}")
		s.refuse("NOT_IN_HERDR", "herdr_link_send", sendHi)
		s.refuse("NOT_IN_HERDR", "herdr_link_close", closeReviewer)
		t.nothing("agent", "prompt")
		t.nothing("pane", "close")
	}}
}

func errorChecks() []Check {
	// notFound tries send and close on a name that must not be found.
	notFound := func(t *trial, s *server, name string) {
		s.refuse("PEER_NOT_FOUND", "herdr_link_send", `{"to":`+quote(name)+`,"message":"hi"}`)
		s.refuse("PEER_NOT_FOUND", "herdr_link_close", `{"agent":`+quote(name)+`}`)
		t.nothing("agent", "prompt")
		t.nothing("pane", "close")
	}
	invalid := []string{"", "Reviewer", "w1:p2", "--all", "-x", "a b", "reviewer\n", "rév", "a234567890123456789012345678901234"}
	return []Check{
		{Name: "errors/peer-unknown", Expects: "send and close to an unknown name are PEER_NOT_FOUND", run: func(t *trial) {
			notFound(t, t.active(), "nobody")
		}},
		{Name: "errors/peer-other-workspace", Expects: "an agent of another workspace is PEER_NOT_FOUND, in the words of an unknown one", run: func(t *trial) {
			s := t.active()
			notFound(t, s, "builder")
			t.must(t.open("w2:p1"), "its pane to stay", "a closed one")
			t.is("the text", s.refuse("PEER_NOT_FOUND", "herdr_link_send", `{"to":"builder","message":"hi"}`),
				s.refuse("PEER_NOT_FOUND", "herdr_link_send", `{"to":"nobody","message":"hi"}`))
		}},
		{Name: "errors/peer-invalid-name", Expects: "a name that cannot be one is PEER_NOT_FOUND and reaches no command line", run: func(t *trial) {
			s := t.active()
			for _, name := range invalid {
				notFound(t, s, name)
				t.must(name == "" || len(t.calls("agent", "get", name)) == 0, "no command with the name "+name, t.commands("agent", "get"))
			}
		}},
		{Name: "errors/peer-missing", Expects: "a missing or non-string to or agent is PEER_NOT_FOUND", run: func(t *trial) {
			s := t.active()
			for _, args := range []string{`{"message":"hi"}`, `{"to":7,"message":"hi"}`, `{"to":["reviewer"],"message":"hi"}`} {
				s.refuse("PEER_NOT_FOUND", "herdr_link_send", args)
			}
			for _, args := range []string{`{}`, `{"agent":7}`, `{"agent":null}`} {
				s.refuse("PEER_NOT_FOUND", "herdr_link_close", args)
			}
		}},
		{Name: "errors/peer-vanished", Expects: "an agent that has gone since the last list is PEER_NOT_FOUND", run: func(t *trial) {
			s := t.active()
			s.success("herdr_link_peers", "{}")
			t.change(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent = nil })
			notFound(t, s, "reviewer")
		}},
		{Name: "errors/peer-itself", Own: true, Expects: "a send to oneself is PEER_NOT_FOUND", run: func(t *trial) {
			t.active().refuse("PEER_NOT_FOUND", "herdr_link_send", `{"to":"lead","message":"hi"}`)
			t.nothing("agent", "prompt")
		}},
		{Name: "errors/send-blank", Expects: "a message without a visible character is SEND_FAILED, and no prompt is run", run: func(t *trial) {
			s := t.active()
			for _, message := range []string{"", " \t\r\n", "\u00a0\u2003\u3000", "\ufeff"} {
				s.refuse("SEND_FAILED", "herdr_link_send", `{"to":"reviewer","message":`+quote(message)+`}`)
			}
			t.nothing("agent", "prompt")
		}},
		{Name: "errors/send-no-message", Expects: "a missing or non-string message is SEND_FAILED", run: func(t *trial) {
			s := t.active()
			for _, args := range []string{`{"to":"reviewer"}`, `{"to":"reviewer","message":{"a":1}}`, `{"to":"reviewer","message":null}`} {
				s.refuse("SEND_FAILED", "herdr_link_send", args)
			}
			t.nothing("agent", "prompt")
		}},
		{Name: "errors/send-bad-reply-to", Expects: "a reply_to that is no message id is SEND_FAILED, and no prompt is run", run: func(t *trial) {
			s := t.active()
			t.needsReply(s)
			for _, id := range []string{`"nonsense"`, `"hl_A_1"`, `7`, `"hl_a_` + strings.Repeat("b", 60) + `"`} {
				s.refuse("SEND_FAILED", "herdr_link_send", `{"to":"reviewer","message":"hi","reply_to":`+id+`}`)
			}
			t.nothing("agent", "prompt")
		}},
		{Name: "errors/send-half-pair", Own: true, Expects: "half a surrogate pair in a message is SEND_FAILED: nothing is silently replaced", run: func(t *trial) {
			t.active().refuse("SEND_FAILED", "herdr_link_send", `{"to":"reviewer","message":"a\ud83d b"}`)
			t.nothing("agent", "prompt")
		}},
		{Name: "errors/send-refused", Expects: "a prompt that Herdr refuses is SEND_FAILED", run: func(t *trial) {
			s := t.active()
			t.change(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Ready = false })
			s.refuse("SEND_FAILED", "herdr_link_send", sendHi)
		}},
		{Name: "errors/send-not-found-late", Own: true, Expects: "agent_not_found from the prompt itself is SEND_FAILED", run: func(t *trial) {
			s := t.active()
			t.fault(fakeherdr.Fault{Match: []string{"agent", "prompt"}, Kind: fakeherdr.ErrorCode, Code: "agent_not_found"})
			s.refuse("SEND_FAILED", "herdr_link_send", sendHi)
		}},
		{Name: "errors/send-reasons", Own: true, Expects: "blank, bad reply_to, too long, blocked, not ready and refused have reasons of their own", run: func(t *trial) {
			s := t.active()
			seen := map[string]bool{}
			try := func(args string) {
				text := s.refuse("SEND_FAILED", "herdr_link_send", args)
				t.must(!seen[text], "a reason of its own", text)
				seen[text] = true
			}
			try(`{"to":"reviewer","message":" "}`)
			try(`{"to":"reviewer","message":"hi","reply_to":"x"}`)
			try(`{"to":"reviewer","message":"` + strings.Repeat("x", 200<<10) + `"}`)
			t.change(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Blocked })
			try(sendHi)
			t.change(func(w *fakeherdr.World) {
				w.Pane("w1:p2").Agent.Status, w.Pane("w1:p2").Agent.Ready = fakeherdr.Idle, false
			})
			try(sendHi)
			t.fault(fakeherdr.Fault{Match: []string{"agent", "prompt"}, Kind: fakeherdr.ErrorCode, Code: "something_new"})
			try(sendHi)
		}},
		{Name: "errors/close-refused", Expects: "a close that Herdr refuses is CLOSE_FAILED", run: func(t *trial) {
			s := t.active()
			t.fault(fakeherdr.Fault{Match: []string{"pane", "close"}, Kind: fakeherdr.ErrorCode, Code: "pane_close_failed"})
			s.refuse("CLOSE_FAILED", "herdr_link_close", closeReviewer)
			t.must(t.open("w1:p2"), "the pane to stay", "a closed one")
		}},
		{Name: "errors/self-unnamed", Expects: "send and peers of a caller that has no name and gets none are SELF_UNNAMED", run: func(t *trial) {
			t.fault(fakeherdr.Fault{Match: []string{"agent", "rename"}, Kind: fakeherdr.ErrorCode, Code: "agent_launch_pending"})
			s := t.activeIn("w1:p3")
			s.refuse("SELF_UNNAMED", "herdr_link_send", sendHi)
			s.refuse("SELF_UNNAMED", "herdr_link_peers", "{}")
			t.nothing("agent", "prompt")
		}},
		{Name: "errors/self-undetected", Expects: "send and peers from a pane in which Herdr sees no agent are SELF_UNNAMED", run: func(t *trial) {
			s := t.activeIn("w1:p4")
			s.refuse("SELF_UNNAMED", "herdr_link_send", sendHi)
			s.refuse("SELF_UNNAMED", "herdr_link_peers", "{}")
		}},
		{Name: "errors/self-undetected-close", Own: true, Expects: "a close from a pane in which Herdr sees no agent is PEER_NOT_FOUND", run: func(t *trial) {
			t.activeIn("w1:p4").refuse("PEER_NOT_FOUND", "herdr_link_close", closeReviewer)
			t.must(t.open("w1:p2"), "the pane to stay", "a closed one")
		}},

		unreachable("server-down", "a Herdr whose server does not run", false, fakeherdr.Fault{Kind: fakeherdr.Down}),
		unreachable("protocol-mismatch", "a Herdr whose program and server do not fit", false, fakeherdr.Fault{Kind: fakeherdr.Mismatch}),
		unreachable("garbage", "output that is not JSON", false, fakeherdr.Fault{Kind: fakeherdr.Garbage}),
		unreachable("empty", "empty output", true, fakeherdr.Fault{Kind: fakeherdr.Empty}),
		unreachable("shape", "JSON of another shape", true, fakeherdr.Fault{Kind: fakeherdr.Shape}),
		unreachable("debug-text", "debug text on stderr", true, fakeherdr.Fault{Kind: fakeherdr.Debug}),
		unreachable("usage-text", "usage text on stderr", true, fakeherdr.Fault{Kind: fakeherdr.Exit2}),
		unreachable("died", "a Herdr call that dies", true, fakeherdr.Fault{Kind: fakeherdr.Die}),
		unreachable("flood", "endless output", true, fakeherdr.Fault{Kind: fakeherdr.Flood}),
		unreachable("time-out", "a Herdr call that hangs longer than HERDR_LINK_TIMEOUT", true, fakeherdr.Fault{Kind: fakeherdr.Hang}, "HERDR_LINK_TIMEOUT=300ms"),

		{Name: "errors/no-binary", Expects: "a HERDR_BIN_PATH without a program is NOT_IN_HERDR", run: func(t *trial) {
			s := t.active("HERDR_BIN_PATH=" + filepath.Join(t.dir, "nothing-here"))
			s.refuse("NOT_IN_HERDR", "herdr_link_peers", "{}")
			s.refuse("NOT_IN_HERDR", "herdr_link_send", sendHi)
			s.refuse("NOT_IN_HERDR", "herdr_link_close", closeReviewer)
		}},
		{Name: "errors/bad-binary", Own: true, Expects: "a HERDR_BIN_PATH that is relative, a folder or no executable is NOT_IN_HERDR", run: func(t *trial) {
			text := filepath.Join(t.dir, "text")
			if err := os.WriteFile(text, []byte("no program"), 0o600); err != nil {
				t.fail("a file", "%v", err)
			}
			for _, bin := range []string{"herdr", t.dir, text} {
				t.active("HERDR_BIN_PATH="+bin).refuse("NOT_IN_HERDR", "herdr_link_peers", "{}")
			}
		}},
		{Name: "errors/outcome-unknown", Own: true, Expects: "a prompt or close that acted and then hung is NOT_IN_HERDR, with the reason that its outcome is unknown", run: func(t *trial) {
			s := t.active("HERDR_LINK_TIMEOUT=300ms")
			t.fault(fakeherdr.Fault{Match: []string{"agent", "prompt"}, Kind: fakeherdr.HangAfter})
			t.fault(fakeherdr.Fault{Match: []string{"pane", "close"}, Kind: fakeherdr.HangAfter})
			for _, text := range []string{
				s.refuse("NOT_IN_HERDR", "herdr_link_send", sendHi),
				s.refuse("NOT_IN_HERDR", "herdr_link_close", closeReviewer),
			} {
				t.must(strings.Contains(text, "unknown"), "a reason with unknown", text)
			}
		}},
		{Name: "errors/not-in-herdr-reasons", Own: true, Expects: "variables, binary, server down, mismatch, time-out and bad output have reasons of their own", run: func(t *trial) {
			seen := map[string]bool{}
			try := func(s *server) {
				text := s.refuse("NOT_IN_HERDR", "herdr_link_peers", "{}")
				t.must(!seen[text], "a reason of its own", text)
				seen[text] = true
			}
			outside := t.start(t.environ())
			outside.initialize("2025-11-25")
			try(outside)
			try(t.active("HERDR_BIN_PATH=" + filepath.Join(t.dir, "nothing-here")))
			s := t.active("HERDR_LINK_TIMEOUT=300ms")
			for _, kind := range []string{fakeherdr.Down, fakeherdr.Mismatch, fakeherdr.Hang, fakeherdr.Garbage} {
				t.change(func(w *fakeherdr.World) { w.Faults = []fakeherdr.Fault{{Kind: kind}} })
				try(s)
			}
		}},
		{Name: "errors/no-leak", Expects: "no reason has an id, a path or what Herdr wrote, or tells to use Herdr's command line", run: func(t *trial) {
			s := t.active()
			var texts []string
			texts = append(texts, s.refuse("PEER_NOT_FOUND", "herdr_link_send", `{"to":"builder","message":"hi"}`))
			for _, f := range []fakeherdr.Fault{
				{Match: []string{"agent", "prompt"}, Kind: fakeherdr.ErrorCode, Code: "agent_not_ready", Text: "agent w1:p2 XYZZY"},
				{Match: []string{"pane", "close"}, Kind: fakeherdr.ErrorCode, Code: "pane_busy", Text: "pane w1:p2 XYZZY"},
				{Kind: fakeherdr.Down}, {Kind: fakeherdr.Garbage, Text: "XYZZY w1:p2"},
			} {
				t.change(func(w *fakeherdr.World) { w.Faults = []fakeherdr.Fault{f} })
				for _, c := range canonicalCalls[1:] {
					if r := s.call(c[0], c[1]); r.IsError {
						texts = append(texts, r.text())
					}
				}
			}
			for _, text := range texts {
				t.tight("a reason", text)
				for _, word := range []string{"XYZZY", "agent rename", "herdr agent", "herdr pane"} {
					t.must(!strings.Contains(text, word), "nothing of "+word, text)
				}
			}
		}},
		{Name: "errors/precedence", Own: true, Expects: "gate before message before name before a Herdr that is down before SELF_UNNAMED before PEER_NOT_FOUND", run: func(t *trial) {
			outside := t.start(t.environ())
			outside.initialize("2025-11-25")
			outside.refuse("NOT_IN_HERDR", "herdr_link_send", `{"to":"Bad","message":""}`)
			t.fault(fakeherdr.Fault{Kind: fakeherdr.Down})
			s := t.activeIn("w1:p4")
			s.refuse("SEND_FAILED", "herdr_link_send", `{"to":"Bad","message":""}`)
			s.refuse("PEER_NOT_FOUND", "herdr_link_send", `{"to":"Bad","message":"hi"}`)
			s.refuse("NOT_IN_HERDR", "herdr_link_send", `{"to":"nobody","message":"hi"}`)
			t.change(func(w *fakeherdr.World) { w.Faults = nil })
			s.refuse("SELF_UNNAMED", "herdr_link_send", `{"to":"nobody","message":"hi"}`)
		}},
	}
}

// named waits until the agent in a pane has a name and returns it.
func (t *trial) named(pane string) (name string) {
	t.eventually("a name for the agent in the own pane", func() bool {
		name = t.world().Pane(pane).Agent.Name
		return name != ""
	})
	return name
}

func bootstrapChecks() []Check {
	return []Check{
		{Name: "bootstrap/names-itself", Expects: "an unnamed agent gets a name hl-… in its own pane, after initialize and without a call", run: func(t *trial) {
			s := t.dormantIn("w1:p3")
			name := t.named("w1:p3")
			t.must(len(name) == 11 && strings.HasPrefix(name, "hl-") && strings.Trim(name[3:], "0123456789abcdef") == "" && envelope.ValidName(name), "hl- and 8 hex digits", name)
			s.ping()
			t.is("of Herdr the renames", t.commands("agent", "rename"), [][]string{{"agent", "rename", "w1:p3", name}})
		}},
		{Name: "bootstrap/sends-as", Expects: "an agent that had no name sends under the one it got", run: func(t *trial) {
			s := t.activeIn("w1:p3")
			s.success("herdr_link_send", sendHi)
			t.is("from", t.lastLine(t.arrive("w1:p2", 1)[0]).From, t.world().Pane("w1:p3").Agent.Name)
		}},
		{Name: "bootstrap/keeps-names", Expects: "nobody is renamed where all that matter have names", run: func(t *trial) {
			s := t.active()
			s.success("herdr_link_peers", "{}")
			t.send(s, "hi")
			t.nothing("agent", "rename")
			t.is("the unnamed neighbour's name", t.world().Pane("w1:p3").Agent.Name, "")
		}},
		{Name: "bootstrap/name-taken", Expects: "a generated name that is taken is replaced by another", run: func(t *trial) {
			t.fault(fakeherdr.Fault{Match: []string{"agent", "rename"}, Kind: fakeherdr.ErrorCode, Code: "agent_name_taken", Left: 1})
			t.dormantIn("w1:p3")
			t.named("w1:p3")
			t.is("of renames the number", len(t.calls("agent", "rename")), 2)
		}},
		{Name: "bootstrap/gives-up", Expects: "after three names that are taken it gives up: SELF_UNNAMED", run: func(t *trial) {
			s := t.dormant()
			t.eventually("a look at the own name", func() bool { // lead has one: no rename yet
				calls := t.calls("agent", "get")
				return len(calls) > 0 && calls[0].Done
			})
			t.fault(fakeherdr.Fault{Match: []string{"agent", "rename"}, Kind: fakeherdr.ErrorCode, Code: "agent_name_taken"})
			t.change(func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Name = "" })
			s.refuse("SELF_UNNAMED", "herdr_link_send", sendHi)
			t.is("of renames the number", len(t.calls("agent", "rename")), 3)
		}},
		{Name: "bootstrap/two-servers", Own: true, Expects: "two servers of one unnamed pane name it once", run: func(t *trial) {
			a, b := t.start(t.in("w1:p3")), t.start(t.in("w1:p3"))
			a.write(request("1", "initialize", initializeParams("2025-11-25")))
			b.write(request("1", "initialize", initializeParams("2025-11-25")))
			a.answer("1")
			b.answer("1")
			x, y := a.begin("herdr_link_peers", "{}"), b.begin("herdr_link_peers", "{}")
			a.succeeded("peers", x)
			b.succeeded("peers", y)
			t.is("of renames the number", len(t.calls("agent", "rename")), 1)
		}},
		{Name: "bootstrap/late-agent", Own: true, Expects: "an agent that Herdr notices only after 400 ms gets its name all the same", run: func(t *trial) {
			t.change(func(w *fakeherdr.World) { w.Pane("w1:p3").Agent.DetectedAt = time.Now().Add(400 * time.Millisecond) })
			t.dormantIn("w1:p3")
			t.named("w1:p3")
		}},
	}
}

func movedChecks() []Check {
	return []Check{
		{Name: "moved/target", Expects: "a peer that was moved to another workspace is PEER_NOT_FOUND", run: func(t *trial) {
			s := t.active()
			s.success("herdr_link_peers", "{}")
			t.change(func(w *fakeherdr.World) { w.Move("w1:p2", "w2") })
			s.refuse("PEER_NOT_FOUND", "herdr_link_send", sendHi)
			s.refuse("PEER_NOT_FOUND", "herdr_link_close", closeReviewer)
			t.nothing("agent", "prompt")
			t.nothing("pane", "close")
		}},
		{Name: "moved/itself", Own: true, Expects: "a caller whose pane was moved sees, reaches and closes the agents of its new workspace, and no longer those of the old one", run: func(t *trial) {
			s := t.active()
			s.success("herdr_link_peers", "{}")
			t.change(func(w *fakeherdr.World) { w.Move("w1:p1", "w2") })
			t.is("the peers", peerNames(t, s.success("herdr_link_peers", "{}")), []string{"builder"})
			s.refuse("PEER_NOT_FOUND", "herdr_link_send", sendHi)
			s.success("herdr_link_send", `{"to":"builder","message":"hi"}`)
			t.is("from", t.lastLine(t.arrive("w2:p1", 1)[0]).From, "lead")
			s.success("herdr_link_close", `{"agent":"builder"}`)
			t.must(!t.open("w2:p1"), "a closed pane", "an open one")
		}},
		{Name: "moved/itself-unnamed", Own: true, Expects: "a moved pane is named under its new id", run: func(t *trial) {
			t.change(func(w *fakeherdr.World) { w.Move("w1:p3", "w2") })
			t.dormantIn("w1:p3")
			name := t.named("w1:p3")
			t.is("of Herdr the renames", t.commands("agent", "rename"), [][]string{{"agent", "rename", t.world().Pane("w1:p3").ID, name}})
		}},
	}
}
