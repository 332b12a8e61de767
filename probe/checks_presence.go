package probe

import (
	"slices"
	"strings"
	"time"

	"herdr-link/contract"
	"herdr-link/fakeherdr"
)

var four = []string{"herdr_link", "herdr_link_close", "herdr_link_peers", "herdr_link_send"}

// canonicalCalls are valid calls of the four tools.
var canonicalCalls = [][2]string{
	{"herdr_link", "{}"},
	{"herdr_link_peers", "{}"},
	{"herdr_link_send", `{"to":"reviewer","message":"hello"}`},
	{"herdr_link_close", `{"agent":"reviewer"}`},
}

// without is the environment in lead's pane, but for one variable.
func (t *trial) without(name string) []string {
	return slices.DeleteFunc(t.in("w1:p1"), func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

// offers fails unless all four tools are listed. Another version may have more.
func (t *trial) offers(s *server) {
	got := s.names()
	for _, name := range four {
		t.must(slices.Contains(got, name), "the tools "+show(four)+" in the list", got)
	}
}

func gateChecks() []Check {
	outside := func(t *trial) *server {
		s := t.start(t.environ())
		s.initialize("2025-11-25")
		return s
	}
	return []Check{
		{Name: "gate/outside-initializes", Expects: "without Herdr's variables, initialize works", run: func(t *trial) {
			s := t.start(t.environ())
			t.is("the protocol version", s.initialize("2025-11-25").ProtocolVersion, "2025-11-25")
		}},
		{Name: "gate/outside-lists-nothing", Expects: "without Herdr's variables, tools/list is empty", run: func(t *trial) {
			t.is("the tools", outside(t).names(), []string{})
		}},
		{Name: "gate/outside-refuses-calls", Expects: "without Herdr's variables, a call of any of the four tools is NOT_IN_HERDR", run: func(t *trial) {
			s := outside(t)
			for _, c := range canonicalCalls {
				s.refuse("NOT_IN_HERDR", c[0], c[1])
			}
			t.is("afterwards the tools", s.names(), []string{})
			t.is("of list_changed the number", s.changes(), 0)
		}},
		{Name: "gate/outside-declares-no-change", Own: true, Expects: "without Herdr's variables, listChanged is not declared and there are no instructions", run: func(t *trial) {
			i := t.start(t.environ()).initialize("2025-11-25")
			t.must(i.Capabilities.Tools == nil || !i.Capabilities.Tools.ListChanged, "no listChanged", i.raw)
			t.is("the instructions", i.Instructions, "")
		}},
		{Name: "gate/needs-each-variable", Expects: "without one of HERDR_ENV, HERDR_BIN_PATH, HERDR_PANE_ID nothing is listed, calls are NOT_IN_HERDR, and nothing is sent or closed", run: func(t *trial) {
			for _, name := range []string{"HERDR_ENV", "HERDR_BIN_PATH", "HERDR_PANE_ID"} {
				s := t.start(t.without(name))
				s.initialize("2025-11-25")
				t.is("without "+name+" the tools", s.names(), []string{})
				for _, c := range canonicalCalls {
					s.refuse("NOT_IN_HERDR", c[0], c[1])
				}
			}
			t.nothing("agent", "prompt")
			t.nothing("pane", "close")
		}},
		{Name: "gate/starts-no-child", Own: true, Expects: "with a variable missing, no Herdr command is run at all", run: func(t *trial) {
			for _, env := range [][]string{t.without("HERDR_PANE_ID"), t.without("HERDR_ENV"), t.in("w1:p1", "HERDR_ENV=0")} {
				s := t.start(env)
				s.initialize("2025-11-25")
				for _, c := range canonicalCalls {
					s.refuse("NOT_IN_HERDR", c[0], c[1])
				}
			}
			t.nothing()
		}},
		{Name: "gate/off-switch", Own: true, Expects: "HERDR_LINK_OFF=1 in a pane is as good as being outside", run: func(t *trial) {
			s := t.dormant("HERDR_LINK_OFF=1")
			t.is("the tools", s.names(), []string{})
			s.refuse("NOT_IN_HERDR", "herdr_link_peers", "{}")
			t.nothing()
		}},
		{Name: "gate/workspace-variables-unread", Expects: "stale HERDR_WORKSPACE_ID and HERDR_TAB_ID change nothing", run: func(t *trial) {
			s := t.active("HERDR_WORKSPACE_ID=w2", "HERDR_TAB_ID=w2:t1")
			t.is("the peers", peerNames(t, s.success("herdr_link_peers", "{}")), []string{"reviewer"})
		}},
	}
}

func dormantChecks() []Check {
	return []Check{
		{Name: "dormant/one-tool", Expects: "before activation tools/list has exactly herdr_link", run: func(t *trial) {
			t.is("the tools", t.dormant().names(), []string{"herdr_link"})
		}},
		{Name: "dormant/declares-change", Expects: "in a pane, initialize declares that the list of tools can change", run: func(t *trial) {
			i := t.start(t.in("w1:p1")).initialize("2025-11-25")
			t.must(i.Capabilities.Tools != nil && i.Capabilities.Tools.ListChanged, "capabilities.tools.listChanged", i.raw)
		}},
		{Name: "dormant/no-contract", Expects: "before activation no rule of the contract is told, and nothing about reply_to", run: func(t *trial) {
			s := t.start(t.in("w1:p1"))
			told := s.initialize("2025-11-25").raw + s.answer(s.request("tools/list", "")).line
			for rule := range strings.Lines(contract.Rules) {
				rule = strings.TrimLeft(strings.TrimSpace(rule), "0123456789. ")
				t.must(!strings.Contains(told, strings.ReplaceAll(rule, `"`, `\"`)), "no rule of the contract", rule)
			}
			t.must(!strings.Contains(told, "reply_to"), "nothing about reply_to", told)
		}},
		{Name: "dormant/instructions", Own: true, Expects: "the instructions' first line names herdr_link and says when to call it", run: func(t *trial) {
			text := t.start(t.in("w1:p1")).initialize("2025-11-25").Instructions
			first, _, _ := strings.Cut(text, "\n")
			t.must(strings.Contains(first, "herdr_link") && strings.Contains(first, "[herdr-link/1]"), "a first line with herdr_link and [herdr-link/1]", text)
			t.must(len(text) <= 500, "one short hint", text)
		}},
		{Name: "dormant/quiet-start", Own: true, Expects: "no Herdr command is run before initialize", run: func(t *trial) {
			s := t.start(t.in("w1:p3"))
			s.ping()
			time.Sleep(200 * time.Millisecond)
			s.ping()
			t.nothing()
		}},
		{Name: "dormant/per-connection", Expects: "activation of one server leaves others dormant, at the same time and afterwards", run: func(t *trial) {
			beside := t.dormant()
			t.active()
			t.is("the tools of the other", beside.names(), []string{"herdr_link"})
			t.is("the tools of a later one", t.dormant().names(), []string{"herdr_link"})
		}},
	}
}

func activateChecks() []Check {
	answer := func(t *trial, object map[string]any) {
		t.is("status", object["status"], "active")
		list, _ := object["capabilities"].([]any)
		for _, name := range []string{"peers", "send", "close"} {
			t.must(slices.Contains(list, any(name)), "the capabilities peers, send and close", object["capabilities"])
		}
	}
	return []Check{
		{Name: "activate/answer", Expects: "herdr_link {} answers status active and the capabilities", run: func(t *trial) {
			answer(t, t.dormant().activate())
		}},
		{Name: "activate/by-action", Expects: `herdr_link {"action":"activate"} does the same`, run: func(t *trial) {
			s := t.dormant()
			answer(t, s.success("herdr_link", `{"action":"activate"}`))
			t.offers(s)
		}},
		{Name: "activate/one-change-first", Expects: "exactly one list_changed is sent, before the activating answer", run: func(t *trial) {
			s := t.dormant()
			id := s.begin("herdr_link", "{}")
			s.succeeded("herdr_link {}", id)
			t.is("before the answer, of list_changed the number", s.before(id), 1)
			s.ping()
			t.is("in all, of list_changed the number", s.changes(), 1)
		}},
		{Name: "activate/no-change-without", Expects: "no list_changed is sent without an activation", run: func(t *trial) {
			s := t.dormant()
			s.list()
			s.ping()
			t.is("of list_changed the number", s.changes(), 0)
		}},
		{Name: "activate/lists-all", Expects: "afterwards tools/list has herdr_link, peers, send and close", run: func(t *trial) {
			t.offers(t.active())
		}},
		{Name: "activate/exactly-four", Own: true, Expects: "afterwards tools/list has those four and no other", run: func(t *trial) {
			t.is("the tools", t.active().names(), four)
		}},
		{Name: "activate/in-order", Expects: "a tools/list sent right behind herdr_link {} has the new tools, and list_changed comes before it", run: func(t *trial) {
			s := t.dormant()
			s.write(request("101", "tools/call", toolCall("herdr_link", "{}")), request("102", "tools/list", ""))
			tools := s.listed("102")
			t.must(tools["herdr_link_send"].Name != "", "the new tools", names(tools))
			t.is("before the list, of list_changed the number", s.before("102"), 1)
			s.succeeded("herdr_link {}", "101")
		}},
		{Name: "activate/idempotent", Expects: "a second herdr_link {} succeeds and sends no list_changed", run: func(t *trial) {
			s := t.active()
			answer(t, s.activate())
			s.ping()
			t.is("of list_changed the number", s.changes(), 1)
			t.offers(s)
		}},
		{Name: "activate/without-herdr", Expects: "activation needs no answer of Herdr's and no name", run: func(t *trial) {
			t.fault(fakeherdr.Fault{Kind: fakeherdr.Down})
			s := t.dormantIn("w1:p3")
			answer(t, s.activate())
			t.offers(s)
		}},
		{Name: "activate/direct-call", Own: true, Expects: "a direct call of herdr_link_peers while dormant is carried out and activates, with one list_changed", run: func(t *trial) {
			s := t.dormant()
			id := s.begin("herdr_link_peers", "{}")
			t.is("the peers", peerNames(t, s.succeeded("herdr_link_peers", id)), []string{"reviewer"})
			t.is("before the answer, of list_changed the number", s.before(id), 1)
			t.offers(s)
			t.is("in all, of list_changed the number", s.changes(), 1)
		}},
		{Name: "activate/contract", Own: true, Expects: "the activating answer has the contract: the eight rules and how to call through action", run: func(t *trial) {
			s := t.dormant()
			t.is("the contract", s.activate()["contract"], contract.Rules+contract.Fallback)
			t.is("again the contract", s.activate()["contract"], contract.Rules+contract.Fallback)
		}},
		{Name: "activate/contract-otherwise", Own: true, Expects: "if another call activates, its answer carries the contract as second text and in its structure; later ones do not", run: func(t *trial) {
			s := t.dormant()
			r := s.call("herdr_link", `{"action":"peers"}`)
			t.must(!r.IsError && len(r.Content) == 2, "two texts", r.text())
			t.is("the second text", r.Content[1].Text, contract.Rules+contract.Fallback)
			var v struct{ Contract string }
			t.decode("structuredContent", r.StructuredContent, &v)
			t.is("the field contract", v.Contract, contract.Rules+contract.Fallback)
			t.is("later, of texts the number", len(s.call("herdr_link_peers", "{}").Content), 1)
		}},
		{Name: "activate/hold", Own: true, Expects: "the activating answer waits until the tools have been listed again; other requests do not wait", run: func(t *trial) {
			s := t.dormant()
			call := s.begin("herdr_link", "{}")
			ping := s.request("ping", "")
			s.answer(ping)
			list := s.request("tools/list", "")
			s.listed(list)
			s.result(call)
			t.is("the order of the answers", s.order(call, ping, list), []string{ping, list, call})
		}},
		{Name: "activate/hold-ends", Own: true, Expects: "without a tools/list the activating answer comes after half a second", run: func(t *trial) {
			s := t.dormant()
			begun := time.Now()
			s.call("herdr_link", "{}")
			took := time.Since(begun)
			t.must(took > 300*time.Millisecond && took < 2*time.Second, "an answer after some 500ms", took)
		}},
		{Name: "activate/eager", Own: true, Expects: "--eager lists all four from the start, declares no listChanged, tells the contract in the gateway and takes close out of it", run: func(t *trial) {
			s := t.start(t.in("w1:p1"), "--eager")
			i := s.initialize("2025-11-25")
			t.must(i.Capabilities.Tools == nil || !i.Capabilities.Tools.ListChanged, "no listChanged", i.raw)
			tools := s.list()
			t.is("the tools", names(tools), four)
			t.must(strings.Contains(tools["herdr_link"].Description, contract.Rules), "the contract in the gateway's description", tools["herdr_link"].Description)
			t.must(s.call("herdr_link", `{"action":"close","arguments":{"agent":"reviewer"}}`).IsError, "no close through the gateway", "a success")
			s.activate()
			t.is("of list_changed the number", s.changes(), 0)
			t.is("the peers", peerNames(t, s.success("herdr_link_peers", "{}")), []string{"reviewer"})
		}},
	}
}

// order returns those ids in the order in which their answers came.
func (s *server) order(ids ...string) (list []string) {
	for _, m := range s.log {
		if m.Method == "" && slices.Contains(ids, string(m.ID)) {
			list = append(list, string(m.ID))
		}
	}
	return list
}
