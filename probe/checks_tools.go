package probe

import (
	"slices"
	"strings"

	"herdr-link/envelope"
	"herdr-link/fakeherdr"
)

func toolsChecks() []Check {
	return []Check{
		{Name: "tools/schemas", Expects: "each input schema is an object; send takes to, message and requires both, close requires agent", run: func(t *trial) {
			tools := t.active().list()
			for name, tool := range tools {
				t.must(tool.InputSchema != nil && tool.InputSchema.Type == "object", "an object as input schema of "+name, tool.InputSchema)
				t.must(tool.Description != "", "a description of "+name, "none")
			}
			for _, name := range four {
				t.must(tools[name].Name != "", "a tool "+name, names(tools))
			}
			required := func(name string) []string { return slices.Sorted(slices.Values(tools[name].InputSchema.Required)) }
			t.is("of send the required arguments", required("herdr_link_send"), []string{"message", "to"})
			t.is("of close the required arguments", required("herdr_link_close"), []string{"agent"})
			t.is("of the gateway the required arguments", len(required("herdr_link")), 0)
		}},
		{Name: "tools/annotations", Own: true, Expects: "every hint is explicit and true to the tool, and there are titles", run: func(t *trial) {
			want := map[string][4]bool{ // read-only, destructive, idempotent, open world
				"herdr_link": {false, true, false, false}, "herdr_link_peers": {true, false, true, false},
				"herdr_link_send": {false, false, false, false}, "herdr_link_close": {false, true, false, false},
			}
			for name, tool := range t.active().list() {
				a := tool.Annotations
				t.must(tool.Title != "" && a != nil && a.ReadOnlyHint != nil && a.DestructiveHint != nil && a.IdempotentHint != nil && a.OpenWorldHint != nil,
					"a title and all four hints of "+name, "less")
				t.is("of "+name+" the hints", [4]bool{*a.ReadOnlyHint, *a.DestructiveHint, *a.IdempotentHint, *a.OpenWorldHint}, want[name])
			}
		}},
		{Name: "tools/output-schemas", Own: true, Expects: "peers, send and close declare an output schema, the gateway does not", run: func(t *trial) {
			for name, tool := range t.active().list() {
				t.is("of "+name+" an output schema", tool.OutputSchema != nil, name != "herdr_link")
			}
		}},
		{Name: "tools/always-load", Own: true, Expects: "the gateway asks Claude Code not to hide it", run: func(t *trial) {
			t.is("anthropic/alwaysLoad", string(t.dormant().list()["herdr_link"].Meta["anthropic/alwaysLoad"]), "true")
		}},
		{Name: "tools/structured", Own: true, Expects: "a success has the same JSON as text and as structuredContent, an error has text only", run: func(t *trial) {
			s := t.active()
			for _, c := range [][2]string{{"herdr_link", "{}"}, {"herdr_link_peers", "{}"}, {"herdr_link_send", `{"to":"reviewer","message":"hi"}`}} {
				r := s.call(c[0], c[1])
				t.is("structuredContent of "+c[0], compact(r.StructuredContent), compact([]byte(r.text())))
			}
			r := s.call("herdr_link_close", `{"agent":"nobody"}`)
			t.must(r.IsError && r.StructuredContent == nil, "an error without structuredContent", string(r.StructuredContent))
		}},
		{Name: "tools/old-version", Own: true, Expects: "under 2024-11-05 there is no structuredContent, no annotation and no output schema", run: func(t *trial) {
			s := t.start(t.in("w1:p1"))
			s.initialize("2024-11-05")
			s.activate()
			r := s.call("herdr_link_peers", "{}")
			t.must(r.StructuredContent == nil, "no structuredContent", string(r.StructuredContent))
			for name, tool := range s.list() {
				t.must(tool.Annotations == nil && tool.OutputSchema == nil && tool.Title == "", name+" as 2024-11-05 has it", tool.Title)
			}
		}},
	}
}

type peer struct{ Name, State string }

func peers(t *trial, object map[string]any) (self peer, list []peer) {
	read := func(v any) peer {
		m, _ := v.(map[string]any)
		name, ok1 := m["name"].(string)
		state, ok2 := m["state"].(string)
		t.must(ok1 && ok2 && len(m) == 2, "an agent with name and state, and no more", v)
		return peer{name, state}
	}
	entries, ok := object["peers"].([]any)
	t.must(ok, "an array of peers", object["peers"])
	for _, v := range entries {
		list = append(list, read(v))
	}
	return read(object["self"]), list
}

// peerNames are the names, sorted.
func peerNames(t *trial, object map[string]any) []string {
	names := []string{}
	_, list := peers(t, object)
	for _, p := range list {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

func peersChecks() []Check {
	crowd := func(t *trial) {
		t.change(func(w *fakeherdr.World) {
			w.AddPane("w1", "claude", "zoe").Agent.Status = fakeherdr.Working
			w.AddPane("w1", "pi", "amy").Agent.Status = fakeherdr.Done
			w.AddPane("w2", "pi", "bob")
		})
	}
	return []Check{
		{Name: "peers/own-workspace", Expects: "peers are the named agents of the own workspace: no shell, no unnamed agent, not the caller", run: func(t *trial) {
			crowd(t)
			object := t.active().success("herdr_link_peers", "{}")
			t.is("the peers", peerNames(t, object), []string{"amy", "reviewer", "zoe"})
			self, _ := peers(t, object)
			t.is("self", self, peer{"lead", "idle"})
		}},
		{Name: "peers/states", Expects: "each peer has its state; one that is none of the five is unknown", run: func(t *trial) {
			crowd(t)
			t.change(func(w *fakeherdr.World) {
				w.AddPane("w1", "pi", "odd").Agent.Status = "pondering"
				w.AddPane("w1", "pi", "wait").Agent.Status = fakeherdr.Blocked
			})
			_, list := peers(t, t.active().success("herdr_link_peers", "{}"))
			got := map[string]string{}
			for _, p := range list {
				got[p.Name] = p.State
			}
			t.is("the states", got, map[string]string{"amy": "done", "odd": "unknown", "reviewer": "idle", "wait": "blocked", "zoe": "working"})
		}},
		{Name: "peers/sorted", Own: true, Expects: "peers are sorted by name, each on a line of its own", run: func(t *trial) {
			crowd(t)
			r := t.active().call("herdr_link_peers", "{}")
			at := -1
			for _, name := range []string{"amy", "reviewer", "zoe"} {
				next := strings.Index(r.text(), `"name":"`+name+`"`)
				t.must(next > at && strings.Contains(r.text()[max(at, 0):next], "\n"), "amy, reviewer and zoe, a line each", r.text())
				at = next
			}
		}},
		{Name: "peers/no-ids", Expects: "no id of a pane, tab, workspace or terminal is in the answer", run: func(t *trial) {
			m := t.active()
			id := m.begin("herdr_link_peers", "{}")
			m.result(id)
			for _, line := range m.log {
				if string(line.ID) == id {
					t.tight("the answer", string(line.Result))
				}
			}
		}},
		{Name: "peers/live", Expects: "each call reads anew: who came is there, who left is not", run: func(t *trial) {
			s := t.active()
			t.is("the peers", peerNames(t, s.success("herdr_link_peers", "{}")), []string{"reviewer"})
			t.change(func(w *fakeherdr.World) {
				w.Move("w1:p2", "w2")
				w.AddPane("w1", "pi", "late")
			})
			t.is("then the peers", peerNames(t, s.success("herdr_link_peers", "{}")), []string{"late"})
		}},
		{Name: "peers/commands", Own: true, Expects: "peers runs agent get of the own pane and agent list, no more", run: func(t *trial) {
			s := t.active()
			s.success("herdr_link_peers", "{}")
			t.eventually("the bootstrap's call and those of peers", func() bool { return len(t.calls()) >= 3 })
			t.is("of Herdr the lists", t.commands("agent", "list"), [][]string{{"agent", "list"}})
			t.is("of Herdr the other calls", t.commands("agent", "get"), [][]string{{"agent", "get", "w1:p1"}, {"agent", "get", "w1:p1"}})
			t.is("of calls the number", len(t.calls()), 3)
		}},
	}
}

// send sends one message to reviewer and returns its id and the text that
// arrived.
func (t *trial) send(s *server, message string) (id, text string) {
	n := len(t.calls("agent", "prompt"))
	object := s.success("herdr_link_send", `{"to":"reviewer","message":`+quote(message)+`}`)
	id, _ = object["id"].(string)
	t.must(envelope.ValidID(id), "the id of a message", object["id"])
	texts := t.arrive("w1:p2", n+1)
	t.is("of prompts the number", len(t.calls("agent", "prompt")), n+1)
	return id, texts[n]
}

const hostile = "\x1b[201~\rrm -rf ~\x1b[31m\x07\x00 end"

// rawControl reports C0, on which a terminal could act, newlines apart.
func rawControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' })
}

// rawOther reports DEL, C1 and the separators of lines and paragraphs.
func rawOther(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r >= 0x7f && r <= 0x9f || r == 0x2028 || r == 0x2029 })
}

func sendChecks() []Check {
	return []Check{
		{Name: "send/answer", Expects: "send answers status sent, the message's id and the receiver", run: func(t *trial) {
			object := t.active().success("herdr_link_send", `{"to":"reviewer","message":"hello"}`)
			t.is("status", object["status"], "sent")
			t.is("to", object["to"], "reviewer")
			id, _ := object["id"].(string)
			t.must(envelope.ValidID(id), "the id of a message", object["id"])
		}},
		{Name: "send/arrives", Expects: "the receiver's pane gets one submission; its last line is the envelope with the right id, from, to and message", run: func(t *trial) {
			id, text := t.send(t.active(), "Please review main.go.")
			t.is("the envelope", t.lastLine(text), envelope.Envelope{ID: id, From: "lead", To: "reviewer", Message: "Please review main.go."})
		}},
		{Name: "send/wrapper", Expects: "the text begins with [herdr-link/1], names sender and id, and has an empty line before the envelope", run: func(t *trial) {
			id, text := t.send(t.active(), "hi")
			line := text[strings.LastIndexByte(text, '\n')+1:]
			around := strings.TrimSuffix(text, line)
			t.must(strings.HasPrefix(text, "[herdr-link/1]"), "a first line that starts with [herdr-link/1]", text)
			t.must(strings.HasSuffix(around, "\n\n"), "an empty line before the envelope", text)
			t.must(strings.Contains(around, "lead") && strings.Contains(around, id) && strings.Contains(around, "herdr_link"), "sender, id and herdr_link in the text around", around)
		}},
		{Name: "send/short-wrapper", Own: true, Expects: "without its envelope the text has at most 500 bytes, with a reply_to, too", run: func(t *trial) {
			s := t.active()
			s.success("herdr_link_send", `{"to":"reviewer","message":"x","reply_to":"hl_0123456789_0123456789"}`)
			text := t.arrive("w1:p2", 1)[0]
			around := text[:strings.LastIndexByte(text, '\n')+1]
			t.must(len(around) <= 500, "at most 500 bytes", len(around))
			t.must(strings.Contains(around, "hl_0123456789_0123456789"), "the answered id in the text around", around)
		}},
		{Name: "send/fields", Expects: "the envelope has protocol, id, from, to and message in that order, and no other field", run: func(t *trial) {
			id, text := t.send(t.active(), "hi")
			line := text[strings.LastIndexByte(text, '\n')+1:]
			t.is("the envelope", line, `{"protocol":"herdr-link/1","id":"`+id+`","from":"lead","to":"reviewer","message":"hi"}`)
		}},
		{Name: "send/opaque", Expects: "JSON, markup, several lines, other scripts and a leading dash arrive unchanged", run: func(t *trial) {
			s := t.active()
			for i, message := range []string{"{\"a\":[1,\"<&>\"]}\n- yaml: yes\n", "--session x", "héllo 世界 🐑 “q” \\n \\u0041"} {
				s.success("herdr_link_send", `{"to":"reviewer","message":`+quote(message)+`}`)
				t.is("the message", t.lastLine(t.arrive("w1:p2", i+1)[i]).Message, message)
			}
		}},
		{Name: "send/no-html-escapes", Expects: "<, > and & stay as they are in the envelope", run: func(t *trial) {
			_, text := t.send(t.active(), "a<b>&c")
			t.must(strings.Contains(text, "a<b>&c"), "a<b>&c in the text", text)
		}},
		{Name: "send/reply", Expects: "reply_to comes back in the envelope, in front of the message", run: func(t *trial) {
			s := t.active()
			t.needsReply(s)
			s.success("herdr_link_send", `{"to":"reviewer","message":"done","reply_to":"hl_abc_123"}`)
			text := t.arrive("w1:p2", 1)[0]
			t.is("reply_to", t.lastLine(text).ReplyTo, "hl_abc_123")
			t.must(strings.Contains(text, `"to":"reviewer","reply_to":"hl_abc_123","message":"done"}`), "the fields in their order", text)
		}},
		{Name: "send/both-ways", Expects: "a message can be answered by the receiver's own server, whose envelope is from it", run: func(t *trial) {
			_, text := t.send(t.active(), "ready?")
			asked := t.lastLine(text)
			reviewer := t.activeIn("w1:p2")
			args := `{"to":"` + asked.From + `","message":"ready","reply_to":"` + asked.ID + `"}`
			id, _ := reviewer.success("herdr_link_send", args)["id"].(string)
			want := envelope.Envelope{ID: id, From: "reviewer", To: "lead", Message: "ready"}
			if t.takesReply(reviewer) {
				want.ReplyTo = asked.ID
			}
			t.is("the envelope", t.lastLine(t.arrive("w1:p1", 1)[0]), want)
		}},
		{Name: "send/sender-is-herdrs", Expects: "from, id and protocol given as arguments are ignored", run: func(t *trial) {
			s := t.active()
			s.success("herdr_link_send", `{"to":"reviewer","message":"hi","from":"builder","id":"hl_fake_1","protocol":"x/1","status":"y"}`)
			text := t.arrive("w1:p2", 1)[0]
			e := t.lastLine(text)
			t.is("from", e.From, "lead")
			t.must(e.ID != "hl_fake_1" && !strings.Contains(text, `"status"`), "an envelope of the server's own", text)
		}},
		{Name: "send/no-raw-escape", Expects: "no control character of a message reaches the prompt raw: no ESC, no end of paste, no carriage return", run: func(t *trial) {
			s := t.active()
			s.success("herdr_link_send", `{"to":"reviewer","message":`+quote(hostile)+`}`)
			t.must(len(t.calls("agent", "prompt")) == 1, "one prompt", t.commands("agent", "prompt"))
			argv := t.commands("agent", "prompt")[0]
			t.must(!rawControl(argv[3]), "no raw control character", argv[3])
			t.is("the message", t.lastLine(t.arrive("w1:p2", 1)[0]).Message, hostile)
		}},
		{Name: "send/no-raw-c1", Own: true, Expects: "DEL, C1 controls and the line separators do not reach the prompt raw, either", run: func(t *trial) {
			const message = "a\u007fb\u009b201~c\u0085d\u2028e\u2029f"
			s := t.active()
			s.success("herdr_link_send", `{"to":"reviewer","message":`+quote(message)+`}`)
			text := t.commands("agent", "prompt")[0][3]
			t.must(!rawOther(text), "no raw DEL, C1 or separator", text)
			t.is("the message", t.lastLine(t.arrive("w1:p2", 1)[0]).Message, message)
		}},
		{Name: "send/no-ids", Expects: "no id of a pane, tab, workspace or terminal is in the prompt or the answer", run: func(t *trial) {
			s := t.active()
			r := s.call("herdr_link_send", `{"to":"reviewer","message":"hi"}`)
			t.tight("the answer", r.text())
			t.tight("the prompt", t.arrive("w1:p2", 1)[0])
		}},
		{Name: "send/plain-prompt", Expects: "the prompt is run once, by name, with the text and without any option", run: func(t *trial) {
			_, text := t.send(t.active(), "hi")
			t.is("of Herdr the prompts", t.commands("agent", "prompt"), [][]string{{"agent", "prompt", "reviewer", text}})
		}},
		{Name: "send/allowed-commands", Expects: "send, peers and close run none of Herdr's commands that wait, read, start or press keys", run: func(t *trial) {
			s := t.active()
			s.success("herdr_link_peers", "{}")
			t.send(s, "hi")
			s.success("herdr_link_close", `{"agent":"reviewer"}`)
			for _, argv := range t.commands() {
				ok := len(argv) > 2 && slices.Contains([]string{"agent get", "agent list", "agent prompt", "pane close", "pane get", "agent rename"}, argv[0]+" "+argv[1]) || slices.Equal(argv, []string{"agent", "list"})
				t.must(ok && !slices.Contains(argv, "--wait"), "only agent get, list, prompt, rename and pane get, close", argv)
			}
		}},
		{Name: "send/commands", Own: true, Expects: "send runs agent get of both sides and one prompt", run: func(t *trial) {
			s := t.active()
			t.eventually("the bootstrap's call", func() bool { return len(t.calls()) > 0 })
			t.send(s, "hi")
			t.is("of own lookups the number", len(t.commands("agent", "get", "w1:p1")), 2)
			t.is("of lookups of the receiver the number", len(t.commands("agent", "get", "reviewer")), 1)
			t.is("of calls the number", len(t.calls()), 4)
		}},
		{Name: "send/no-retry", Expects: "a prompt that Herdr refuses is not tried again", run: func(t *trial) {
			t.fault(fakeherdr.Fault{Match: []string{"agent", "prompt"}, Kind: fakeherdr.ErrorCode, Code: "agent_not_ready"})
			t.active().refuse("SEND_FAILED", "herdr_link_send", `{"to":"reviewer","message":"hi"}`)
			t.is("of prompts the number", len(t.calls("agent", "prompt")), 1)
		}},
		{Name: "send/any-state", Expects: "a working, done or unknown receiver gets the message, too", run: func(t *trial) {
			s := t.active()
			for i, state := range []string{fakeherdr.Working, fakeherdr.Done, fakeherdr.Unknown} {
				t.change(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = state })
				s.success("herdr_link_send", `{"to":"reviewer","message":"hi"}`)
				t.arrive("w1:p2", i+1)
			}
		}},
		{Name: "send/blocked", Own: true, Expects: "a blocked receiver is not prompted: SEND_FAILED, and its dialog stays", run: func(t *trial) {
			t.change(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Blocked })
			text := t.active().refuse("SEND_FAILED", "herdr_link_send", `{"to":"reviewer","message":"hi"}`)
			t.nothing("agent", "prompt")
			t.must(strings.Contains(text, "again"), "a reason that says to send again later", text)
			t.is("the receiver's state", t.world().Pane("w1:p2").Agent.Status, fakeherdr.Blocked)
		}},
		{Name: "send/blocked-0.9", Own: true, Expects: "a receiver that a newer Herdr calls blocked is SEND_FAILED with the same reason", run: func(t *trial) {
			t.change(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Blocked })
			s := t.active()
			first := s.refuse("SEND_FAILED", "herdr_link_send", `{"to":"reviewer","message":"hi"}`)
			t.change(func(w *fakeherdr.World) { w.Pane("w1:p2").Agent.Status = fakeherdr.Idle })
			t.fault(fakeherdr.Fault{Match: []string{"agent", "prompt"}, Kind: fakeherdr.ErrorCode, Code: "agent_blocked"})
			t.is("the reason", s.refuse("SEND_FAILED", "herdr_link_send", `{"to":"reviewer","message":"hi"}`), first)
		}},
		{Name: "send/no-merging", Own: true, Expects: "two sends in a row arrive as two submissions, in their order", run: func(t *trial) {
			s := t.active()
			a := s.begin("herdr_link_send", `{"to":"reviewer","message":"first"}`)
			b := s.begin("herdr_link_send", `{"to":"reviewer","message":"second"}`)
			s.succeeded("the first send", a)
			s.succeeded("the second send", b)
			t.inOrder("first", "second")
		}},
		{Name: "send/no-merging-across", Own: true, Expects: "sends of two servers to one receiver arrive as two submissions", run: func(t *trial) {
			lead, other := t.active(), t.activeIn("w1:p3")
			a := lead.begin("herdr_link_send", `{"to":"reviewer","message":"first"}`)
			b := other.begin("herdr_link_send", `{"to":"reviewer","message":"second"}`)
			lead.succeeded("the send of lead", a)
			other.succeeded("the send of another", b)
			for _, text := range t.arrive("w1:p2", 2) {
				t.must(strings.Count(text, "[herdr-link/1]") == 1, "one message a submission", text)
			}
		}},
		{Name: "send/last-words", Own: true, Expects: "a close right behind a send does not swallow the message", run: func(t *trial) {
			s := t.active()
			a := s.begin("herdr_link_send", `{"to":"reviewer","message":"last words"}`)
			b := s.begin("herdr_link_close", `{"agent":"reviewer"}`)
			s.succeeded("send", a)
			s.succeeded("close", b)
			t.must(!t.open("w1:p2"), "a closed pane", "an open one")
			t.inOrder("last words")
		}},
		{Name: "send/too-long", Own: true, Expects: "a message of 200 KiB is SEND_FAILED with limit and size, and no prompt is run", run: func(t *trial) {
			text := t.active().refuse("SEND_FAILED", "herdr_link_send", `{"to":"reviewer","message":"`+strings.Repeat("x", 200<<10)+`"}`)
			numbers := strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
			t.must(len(numbers) >= 2, "a reason with limit and size", text)
			t.nothing("agent", "prompt")
		}},
		{Name: "send/long", Own: true, Expects: "a message of 100 KiB arrives whole", run: func(t *trial) {
			message := strings.Repeat("x", 100<<10)
			_, text := t.send(t.active(), message)
			t.must(t.lastLine(text).Message == message, "the whole message", len(text))
		}},
	}
}

// inOrder fails unless reviewer's submissions are these messages.
func (t *trial) inOrder(messages ...string) {
	got := []string{}
	for _, text := range t.arrive("w1:p2", len(messages)) {
		t.must(strings.Count(text, "[herdr-link/1]") == 1, "one message a submission", text)
		got = append(got, t.lastLine(text).Message)
	}
	t.is("the messages", got, messages)
}

// takesReply says whether the server's send has a reply_to. Ours must; some
// other versions of herdr-link/1 have none.
func (t *trial) takesReply(s *server) bool {
	schema := s.list()["herdr_link_send"].InputSchema
	return t.o.Own || schema == nil || schema.Properties["reply_to"] != nil
}

// needsReply skips the check for a server whose send has no reply_to.
func (t *trial) needsReply(s *server) {
	if !t.takesReply(s) {
		t.skip("this server's send takes no reply_to")
	}
}

func closeChecks() []Check {
	return []Check{
		{Name: "close/closes", Expects: "close answers status closed and the name; that pane is gone, and no other", run: func(t *trial) {
			object := t.active().success("herdr_link_close", `{"agent":"reviewer"}`)
			t.is("status", object["status"], "closed")
			t.is("agent", object["agent"], "reviewer")
			var open []string
			for _, p := range t.world().Panes {
				open = append(open, p.ID)
			}
			slices.Sort(open)
			t.is("the open panes", open, []string{"w1:p1", "w1:p3", "w1:p4", "w2:p1"})
		}},
		{Name: "close/fresh-pane", Expects: "close takes the pane from a fresh record: a name that moved to another pane closes that one", run: func(t *trial) {
			s := t.active()
			s.success("herdr_link_peers", "{}")
			t.change(func(w *fakeherdr.World) {
				w.Pane("w1:p2").Agent.Name, w.Pane("w1:p3").Agent.Name = "former", "reviewer"
			})
			s.success("herdr_link_close", `{"agent":"reviewer"}`)
			t.is("of Herdr the closes", t.commands("pane", "close"), [][]string{{"pane", "close", "w1:p3"}})
			t.must(t.open("w1:p2"), "the other pane to stay", "a closed one")
		}},
		{Name: "close/unfocused", Expects: "the pane that has the focus is not the one that is closed", run: func(t *trial) {
			t.change(func(w *fakeherdr.World) {
				for _, p := range w.Panes {
					p.Focused = p.ID == "w1:p3"
				}
			})
			t.active().success("herdr_link_close", `{"agent":"reviewer"}`)
			t.must(t.open("w1:p3") && !t.open("w1:p2"), "reviewer's pane closed, the focused one open", t.commands("pane", "close"))
		}},
		{Name: "close/unnamed-caller", Expects: "a caller without a name can close", run: func(t *trial) {
			t.fault(fakeherdr.Fault{Match: []string{"agent", "rename"}, Kind: fakeherdr.ErrorCode, Code: "agent_launch_pending"})
			t.activeIn("w1:p3").success("herdr_link_close", `{"agent":"reviewer"}`)
			t.must(!t.open("w1:p2"), "a closed pane", "an open one")
		}},
		{Name: "close/itself", Expects: "an agent may close its own pane", run: func(t *trial) {
			t.active().begin("herdr_link_close", `{"agent":"lead"}`)
			t.eventually("the own pane to close", func() bool { return !t.open("w1:p1") })
		}},
	}
}

func gatewayChecks() []Check {
	dispatch := func(name, expects, args string, verify func(*trial, map[string]any)) Check {
		return Check{Name: "gateway/" + name, Expects: expects, run: func(t *trial) {
			s := t.dormant()
			id := s.begin("herdr_link", args)
			object := s.succeeded("herdr_link "+args, id)
			verify(t, object)
			t.is("before the answer, of list_changed the number", s.before(id), 1)
			t.offers(s)
			t.is("in all, of list_changed the number", s.changes(), 1)
		}}
	}
	sent := func(t *trial, object map[string]any) {
		t.is("status", object["status"], "sent")
		t.is("the message", t.lastLine(t.arrive("w1:p2", 1)[0]).Message, "hi")
	}
	closed := func(t *trial, object map[string]any) {
		t.is("status", object["status"], "closed")
		t.must(!t.open("w1:p2"), "a closed pane", "an open one")
	}
	return []Check{
		dispatch("peers", "herdr_link with action peers activates and lists the peers", `{"action":"peers"}`, func(t *trial, object map[string]any) {
			t.is("the peers", peerNames(t, object), []string{"reviewer"})
		}),
		dispatch("send-nested", "herdr_link with action send and its arguments in arguments activates and sends", `{"action":"send","arguments":{"to":"reviewer","message":"hi"}}`, sent),
		dispatch("send-flat", "herdr_link with action send and its arguments beside it activates and sends", `{"action":"send","to":"reviewer","message":"hi"}`, sent),
		dispatch("close-nested", "herdr_link with action close and its argument in arguments activates and closes", `{"action":"close","arguments":{"agent":"reviewer"}}`, closed),
		dispatch("close-flat", "herdr_link with action close and its argument beside it activates and closes", `{"action":"close","agent":"reviewer"}`, closed),
		{Name: "gateway/errors", Expects: "an action fails with the code of its tool", run: func(t *trial) {
			s := t.dormant()
			s.refuse("PEER_NOT_FOUND", "herdr_link", `{"action":"send","arguments":{"to":"nobody","message":"hi"}}`)
			s.refuse("SEND_FAILED", "herdr_link", `{"action":"send","arguments":{"to":"reviewer","message":" "}}`)
			s.refuse("PEER_NOT_FOUND", "herdr_link", `{"action":"close","arguments":{"agent":"nobody"}}`)
		}},
		{Name: "gateway/bad-action", Expects: "an unknown action is an error and does nothing", run: func(t *trial) {
			s := t.active()
			for _, args := range []string{`{"action":"destroy"}`, `{"action":7}`} {
				m := s.answer(s.begin("herdr_link", args))
				var r result
				t.must(m.Error != nil || isJSON(string(m.Result)) && s.isError(m, &r), "an error", m.line)
			}
			t.nothing("agent", "prompt")
			t.nothing("pane", "close")
		}},
		{Name: "gateway/bad-action-named", Own: true, Expects: "an unknown action is an error of the tool that names what is valid", run: func(t *trial) {
			r := t.dormant().call("herdr_link", `{"action":"destroy"}`)
			for _, word := range []string{"action", "activate", "peers", "send", "close"} {
				t.must(r.IsError && strings.Contains(r.text(), word), "an error that names "+word, r.text())
			}
		}},
		{Name: "gateway/no-close", Own: true, Expects: "--no-gateway-close: action close names herdr_link_close and closes nothing", run: func(t *trial) {
			s := t.start(t.in("w1:p1"), "--no-gateway-close")
			s.initialize("2025-11-25")
			r := s.call("herdr_link", `{"action":"close","arguments":{"agent":"reviewer"}}`)
			t.must(r.IsError && strings.Contains(r.text(), "herdr_link_close"), "an error that names herdr_link_close", r.text())
			t.nothing("pane", "close")
			s.success("herdr_link_close", `{"agent":"reviewer"}`)
		}},
	}
}

// isError decodes the result of m and says whether it is an error.
func (s *server) isError(m *message, r *result) bool {
	s.t.decode("the result", m.Result, r)
	return r.IsError
}
