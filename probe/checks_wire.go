package probe

import (
	"slices"
	"strings"
	"time"

	"herdr-link/fakeherdr"
)

func rpcChecks() []Check {
	raw := func(t *trial, line string, code int) {
		s := t.dormant()
		s.write(line)
		s.rejected("null", code)
		s.ping()
	}
	return []Check{
		{Name: "rpc/versions", Expects: "initialize echoes 2024-11-05, 2025-03-26, 2025-06-18 and 2025-11-25", run: func(t *trial) {
			for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
				i := t.start(t.in("w1:p1")).initialize(version)
				t.is("the protocol version", i.ProtocolVersion, version)
				t.must(i.ServerInfo.Name != "" && i.ServerInfo.Version != "", "serverInfo with name and version", i.raw)
			}
		}},
		{Name: "rpc/unknown-version", Own: true, Expects: "initialize answers 2025-11-25 to any other version", run: func(t *trial) {
			for _, version := range []string{"2026-07-28", "1999-01-01", ""} {
				t.is("the protocol version", t.start(t.in("w1:p1")).initialize(version).ProtocolVersion, "2025-11-25")
			}
		}},
		{Name: "rpc/ping", Expects: "ping is answered with {} before and after initialize", run: func(t *trial) {
			s := t.start(t.in("w1:p1"))
			s.ping()
			s.initialize("2025-11-25")
			s.ping()
		}},
		{Name: "rpc/ping-beside", Own: true, Expects: "ping and tools/list are answered while a Herdr call hangs", run: func(t *trial) {
			s := t.active()
			t.fault(fakeherdr.Fault{Match: []string{"agent", "list"}, Kind: fakeherdr.Hang})
			id := s.begin("herdr_link_peers", "{}")
			t.eventually("a hanging call", func() bool { return len(t.calls("agent", "list")) == 1 })
			s.ping()
			t.offers(s)
			s.silent(id)
		}},
		{Name: "rpc/parse-error", Expects: "a line that is not JSON is answered with -32700 and id null, and the session goes on", run: func(t *trial) {
			raw(t, `{"jsonrpc":"2.0","id":1,"method":`, -32700)
		}},
		{Name: "rpc/not-utf8", Own: true, Expects: "a line that is not UTF-8 is answered with -32700", run: func(t *trial) {
			raw(t, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}", -32700)
		}},
		{Name: "rpc/no-request", Expects: "JSON that is no request is answered with -32600", run: func(t *trial) {
			raw(t, `"hello"`, -32600)
		}},
		{Name: "rpc/unknown-method", Expects: "an unknown method is answered with -32601", run: func(t *trial) {
			s := t.dormant()
			s.rejected(s.request("resources/list", ""), -32601)
			s.rejected(s.request("nonsense", "{}"), -32601)
		}},
		{Name: "rpc/discover", Expects: "server/discover is answered with -32601, so that clients fall back to initialize", run: func(t *trial) {
			s := t.start(t.in("w1:p1"))
			s.rejected(s.request("server/discover", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`), -32601)
			s.initialize("2025-11-25")
		}},
		{Name: "rpc/modern-era", Own: true, Expects: "with --era 2026-07-28 server/discover is answered and herdr_link works without initialize", run: func(t *trial) {
			const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
			s := t.start(t.in("w1:p1"), "--era", "2026-07-28")
			m := s.answer(s.request("server/discover", "{"+meta+"}"))
			t.must(m.Error == nil && strings.Contains(m.line, `"supportedVersions":["2026-07-28"]`), "the supported versions", m.line)
			t.is("the tools", names(s.listed(s.request("tools/list", "{"+meta+"}"))), []string{"herdr_link"})
			object := s.succeeded("herdr_link", s.request("tools/call", `{"name":"herdr_link","arguments":{"action":"peers"},`+meta+`}`))
			t.is("the peers", peerNames(t, object), []string{"reviewer"})
			t.is("of list_changed the number", s.changes(), 0)
		}},
		{Name: "rpc/unknown-tool", Expects: "a call of an unknown tool is answered with -32602", run: func(t *trial) {
			s := t.active()
			s.rejected(s.begin("no_such_tool", "{}"), -32602)
			s.rejected(s.begin("HERDR_LINK", "{}"), -32602)
		}},
		{Name: "rpc/no-arguments", Expects: "absent or null arguments are as good as {}, unknown ones are ignored", run: func(t *trial) {
			s := t.active()
			for _, params := range []string{`{"name":"herdr_link_peers"}`, `{"name":"herdr_link_peers","arguments":null}`, `{"name":"herdr_link_peers","arguments":{"wait_for_previous":true,"x":1}}`} {
				t.is("the peers", peerNames(t, s.succeeded("peers", s.request("tools/call", params))), []string{"reviewer"})
			}
		}},
		{Name: "rpc/ids", Expects: "an id comes back as it was: strings, zero, large and negative numbers", run: func(t *trial) {
			s := t.dormant()
			for _, id := range []string{`"a"`, `"7"`, `0`, `-3`, `9007199254740991`, `"héllo \"x\""`, `""`} {
				s.write(request(id, "ping", ""))
				s.answer(id)
			}
		}},
		{Name: "rpc/bad-ids", Own: true, Expects: "an id that is null, a fraction, an object or longer than 256 bytes is answered with -32600 and id null", run: func(t *trial) {
			s := t.dormant()
			for _, id := range []string{"null", "1.5", "true", `{"a":1}`, "[1]", `"` + strings.Repeat("x", 300) + `"`} {
				s.write(request(id, "ping", ""))
				s.rejected("null", -32600)
			}
			s.ping()
		}},
		{Name: "rpc/id-in-flight", Own: true, Expects: "the id of a call in flight is refused with -32600 and id null, and that call is answered", run: func(t *trial) {
			s := t.active()
			t.fault(fakeherdr.Fault{Match: []string{"agent", "list"}, Kind: fakeherdr.Slow, Delay: 300 * time.Millisecond})
			id := s.begin("herdr_link_peers", "{}")
			s.write(request(id, "ping", ""))
			s.rejected("null", -32600)
			s.succeeded("peers", id)
		}},
		{Name: "rpc/twice", Own: true, Expects: "a request with a known key twice is answered with -32600", run: func(t *trial) {
			s := t.dormant()
			s.write(`{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/list"}`)
			s.rejected("7", -32600)
			s.write(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"herdr_link","name":"herdr_link_close","arguments":{}}}`)
			s.rejected("8", -32600)
		}},
		{Name: "rpc/before-initialize", Own: true, Expects: "before initialize any request but ping is answered with -32600", run: func(t *trial) {
			s := t.start(t.in("w1:p1"))
			s.rejected(s.request("tools/list", ""), -32600)
			s.rejected(s.begin("herdr_link", "{}"), -32600)
			s.initialize("2025-11-25")
			t.is("then the tools", s.names(), []string{"herdr_link"})
		}},
		{Name: "rpc/second-initialize", Own: true, Expects: "a second initialize is answered with -32600 and changes nothing", run: func(t *trial) {
			s := t.active()
			s.rejected(s.request("initialize", initializeParams("2024-11-05")), -32600)
			t.is("the tools", s.names(), four)
		}},
		{Name: "rpc/never-answered", Expects: "notifications, known or not, are not answered", run: func(t *trial) {
			s := t.dormant()
			s.write(initialized, `{"jsonrpc":"2.0","method":"notifications/unknown","params":{}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`)
			s.ping()
			for _, m := range s.log {
				t.must(m.taken, "no message but the answers", m.line)
			}
		}},
		{Name: "rpc/responses", Own: true, Expects: "a client's responses are not answered", run: func(t *trial) {
			s := t.dormant()
			s.write(`{"jsonrpc":"2.0","id":5,"result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`)
			s.ping()
			for _, m := range s.log {
				t.must(m.taken, "no message but the answers", m.line)
			}
		}},
		{Name: "rpc/cancel", Own: true, Expects: "a cancelled call is not answered, and its Herdr call ends", run: func(t *trial) {
			s := t.active()
			t.fault(fakeherdr.Fault{Match: []string{"agent", "list"}, Kind: fakeherdr.Hang})
			id := s.begin("herdr_link_peers", "{}")
			t.eventually("a hanging call", func() bool { return len(t.calls("agent", "list")) == 1 })
			s.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"probe"}}`)
			t.gone(t.calls("agent", "list")[0].PID)
			s.silent(id)
		}},
		{Name: "rpc/cancel-finished", Expects: "cancelling what is finished or unknown does no harm", run: func(t *trial) {
			s := t.active()
			id := s.request("ping", "")
			s.answer(id)
			for _, id := range []string{id, `"nobody"`, "12345"} {
				s.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
			}
			s.success("herdr_link_peers", "{}")
		}},
		{Name: "rpc/batch", Own: true, Expects: "a batch is answered with one array under 2025-03-26 and with -32600 under any other version", run: func(t *trial) {
			batch := "[" + request("1001", "ping", "") + "," + initialized + "," + request("1002", "tools/list", "") + "]"
			s := t.start(t.in("w1:p1"))
			s.initialize("2025-03-26")
			s.write(batch)
			m := s.receive("an array")
			var answers []message
			t.decode("the answer to a batch", []byte(m.line), &answers)
			t.is("of answers the number", len(answers), 2)
			raw(t, batch, -32600)
		}},
		{Name: "rpc/odd-lines", Expects: "carriage returns, empty lines, several messages in a write and one in many are fine", run: func(t *trial) {
			s := t.dormant()
			s.writeRaw("\r\n\n" + request("201", "ping", "") + "\r\n" + request("202", "ping", "") + "\n")
			s.answer("201")
			s.answer("202")
			for _, part := range strings.SplitAfter(request("203", "ping", "")+"\n", ",") {
				s.writeRaw(part)
				time.Sleep(5 * time.Millisecond)
			}
			s.answer("203")
		}},
		{Name: "rpc/byte-order-mark", Own: true, Expects: "a byte order mark in front of the first line is dropped", run: func(t *trial) {
			s := t.start(t.in("w1:p1"))
			s.writeRaw("\ufeff")
			s.initialize("2025-11-25")
		}},
		{Name: "rpc/long-line", Own: true, Expects: "a line of more than 4 MiB is answered with -32600, and the session goes on", run: func(t *trial) {
			raw(t, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"`+strings.Repeat("x", 4<<20)+`"}}`, -32600)
		}},
		{Name: "rpc/flood", Own: true, Expects: "of 400 calls at once each is answered, be it with busy, and ping in between", run: func(t *trial) {
			s := t.active()
			t.fault(fakeherdr.Fault{Kind: fakeherdr.Hang})
			var lines []string
			for i := range 400 {
				lines = append(lines, request(`"c`+string(rune('0'+i/100))+string(rune('0'+i/10%10))+string(rune('0'+i%10))+`"`, "tools/call", toolCall("herdr_link_send", `{"to":"reviewer","message":"x"}`)))
			}
			s.write(lines...)
			s.ping()
			busy := 0
			for _, m := range s.log {
				if strings.Contains(m.line, "busy") {
					busy++
				}
			}
			t.must(busy > 0, "an error that says busy for some", busy)
		}},
	}
}

// gone waits until a process has ended.
func (t *trial) gone(pid int) {
	t.eventually("the end of a Herdr call", func() bool { return !alive(pid) })
}

func lifeChecks() []Check {
	// second is a second, and some time for a busy machine.
	const second = 1500 * time.Millisecond
	return []Check{
		{Name: "life/end-of-input", Expects: "at the end of input everything asked is answered, the last line without its newline, too, and the exit is 0", run: func(t *trial) {
			s := t.start(t.in("w1:p1"))
			s.write(request("1", "initialize", initializeParams("2025-11-25")), initialized, request("2", "tools/call", toolCall("herdr_link", "{}")),
				request("3", "tools/call", toolCall("herdr_link_peers", "{}")), request("4", "tools/call", toolCall("herdr_link_send", sendHi)), request("5", "ping", ""))
			s.stdin.Close()
			t.is("the exit status", s.wait(t.o.Patience), 0)
			got := s.order("1", "2", "3", "4", "5")
			slices.Sort(got)
			t.is("the answered requests", got, []string{"1", "2", "3", "4", "5"})
			t.arrive("w1:p2", 1)
		}},
		{Name: "life/last-line", Own: true, Expects: "a last line without its newline counts", run: func(t *trial) {
			s := t.start(t.in("w1:p1"))
			s.writeRaw(request("1", "ping", ""))
			s.stdin.Close()
			t.is("the exit status", s.wait(t.o.Patience), 0)
			t.is("the answers", s.order("1"), []string{"1"})
		}},
		{Name: "life/end-with-slow-call", Expects: "a slow call in flight at the end of input is answered", run: func(t *trial) {
			s := t.active()
			t.fault(fakeherdr.Fault{Match: []string{"agent", "list"}, Kind: fakeherdr.Slow, Delay: 500 * time.Millisecond})
			id := s.begin("herdr_link_peers", "{}")
			s.stdin.Close()
			t.is("the exit status", s.wait(t.o.Patience), 0)
			t.is("the peers", peerNames(t, s.succeeded("peers", id)), []string{"reviewer"})
		}},
		{Name: "life/end-at-once", Expects: "a server that is asked nothing ends with exit 0", run: func(t *trial) {
			s := t.start(t.in("w1:p1"))
			s.stdin.Close()
			t.is("the exit status", s.wait(t.o.Patience), 0)
		}},
		{Name: "life/sigterm", Expects: "SIGTERM ends an idle server within a second", run: func(t *trial) {
			s := t.active()
			s.terminate()
			s.wait(second)
		}},
		{Name: "life/sigterm-no-child", Own: true, Expects: "SIGTERM ends a server with a hanging Herdr call within a second, and that call, too", run: func(t *trial) {
			s := t.active()
			t.fault(fakeherdr.Fault{Match: []string{"agent", "list"}, Kind: fakeherdr.Hang})
			s.begin("herdr_link_peers", "{}")
			t.eventually("a hanging call", func() bool { return len(t.calls("agent", "list")) == 1 })
			s.terminate()
			s.wait(second)
			t.gone(t.calls("agent", "list")[0].PID)
		}},
		{Name: "life/no-grandchild", Own: true, Expects: "what a Herdr call leaves behind in its process group is killed", run: func(t *trial) {
			if !signals {
				t.skip("this system has no process groups to look at")
			}
			s := t.active()
			t.fault(fakeherdr.Fault{Match: []string{"agent", "list"}, Kind: fakeherdr.GrandchildQuiet})
			s.success("herdr_link_peers", "{}")
			t.gone(t.calls("agent", "list")[0].Child)
		}},
		{Name: "life/stdout-closed", Own: true, Expects: "a server whose stdout nobody reads any more ends within a second", run: func(t *trial) {
			s := t.active()
			s.stdout.Close()
			select {
			case <-s.exited:
			case <-time.After(second):
				t.fail("the end of the server", "a process that runs after %v", second)
			}
		}},
		{Name: "life/quiet-stderr", Own: true, Expects: "nothing is written to stderr, whatever fails", run: func(t *trial) {
			s := t.active()
			s.success("herdr_link_peers", "{}")
			t.fault(fakeherdr.Fault{Kind: fakeherdr.Debug})
			s.refuse("NOT_IN_HERDR", "herdr_link_peers", "{}")
			s.stdin.Close()
			s.wait(t.o.Patience)
			t.is("stderr", s.stderr.String(), "")
		}},
	}
}

func (s *server) terminate() {
	if !signals {
		s.t.skip("this system has no SIGTERM")
	}
	if err := terminate(s.cmd.Process); err != nil {
		s.t.fail("a process to end", "%v%s", err, s.how())
	}
}

func cliChecks() []Check {
	ok := func(t *trial, stdin string, args ...string) string {
		out, errs, code := t.run(t.in("w1:p1"), stdin, args...)
		t.must(code == 0 && errs == "", strings.Join(args, " ")+" to exit 0 and say nothing on stderr", errs)
		return out
	}
	fails := func(t *trial, env []string, want int, begin, stdin string, args ...string) {
		out, errs, code := t.run(env, stdin, args...)
		t.is(strings.Join(args, " ")+" exit", code, want)
		t.must(strings.HasPrefix(errs, begin) && out == "", "stderr to begin with "+begin+" and nothing on stdout", errs+out)
	}
	checks := []Check{
		{Name: "cli/peers", Expects: "peers prints the caller with a star and the peers, with their states", run: func(t *trial) {
			t.is("stdout", ok(t, "", "peers"), "* lead\tidle\n  reviewer\tidle\n")
		}},
		{Name: "cli/peers-json", Expects: "peers --json prints what the tool returns", run: func(t *trial) {
			var object map[string]any
			t.decode("stdout", []byte(ok(t, "", "peers", "--json")), &object)
			t.is("the peers", peerNames(t, object), []string{"reviewer"})
		}},
		{Name: "cli/send-stdin", Expects: "send NAME takes the message from stdin and prints its id", run: func(t *trial) {
			id := strings.TrimSpace(ok(t, "two\nlines", "send", "reviewer"))
			e := t.lastLine(t.arrive("w1:p2", 1)[0])
			t.is("the message", e.Message, "two\nlines")
			t.is("the id", id, e.ID)
		}},
		{Name: "cli/send-argument", Expects: "send takes the message as an argument, --reply-to, and what begins with a dash behind --", run: func(t *trial) {
			ok(t, "", "send", "reviewer", "one", "--reply-to", "hl_a_1")
			ok(t, "", "send", "--", "reviewer", "--two")
			texts := t.arrive("w1:p2", 2)
			t.is("reply_to", t.lastLine(texts[0]).ReplyTo, "hl_a_1")
			t.is("the message", t.lastLine(texts[1]).Message, "--two")
		}},
		{Name: "cli/close", Expects: "close NAME closes that pane", run: func(t *trial) {
			ok(t, "", "close", "reviewer")
			t.must(!t.open("w1:p2"), "a closed pane", "an open one")
		}},
		{Name: "cli/failures", Expects: "a failure is exit 1 with CODE: reason on stderr", run: func(t *trial) {
			fails(t, t.environ(), 1, "NOT_IN_HERDR: ", "", "peers")
			fails(t, t.in("w1:p1"), 1, "PEER_NOT_FOUND: ", "", "close", "nobody")
			fails(t, t.in("w1:p1"), 1, "PEER_NOT_FOUND: ", "hi", "send", "builder")
			fails(t, t.in("w1:p1"), 1, "SEND_FAILED: ", " ", "send", "reviewer")
			fails(t, t.in("w1:p4"), 1, "SELF_UNNAMED: ", "", "peers")
		}},
		{Name: "cli/usage", Expects: "wrong usage is exit 2 with one line on stderr", run: func(t *trial) {
			for _, args := range [][]string{{"close"}, {"send"}, {"peers", "--nonsense"}, {"nonsense"}} {
				fails(t, t.in("w1:p1"), 2, "herdr-link: ", "", args...)
			}
			fails(t, t.in("w1:p1", "HERDR_LINK_TIMEOUT=soon"), 2, "herdr-link: ", "", "peers")
			t.nothing()
		}},
		{Name: "cli/tools", Expects: "tools --json prints the four tools, the contract and the hint, outside Herdr, too", run: func(t *trial) {
			out, errs, code := t.run(t.environ(), "", "tools", "--json")
			t.must(code == 0, "exit 0", errs)
			var v struct {
				Version, Contract, Hint string
				Tools                   []tool
			}
			t.decode("stdout", []byte(out), &v)
			got := map[string]tool{}
			for _, tool := range v.Tools {
				got[tool.Name] = tool
			}
			t.is("the tools", names(got), four)
			t.must(v.Version != "" && v.Contract != "" && v.Hint != "", "version, contract and hint", out)
		}},
		{Name: "cli/version", Expects: "version --json names the program, its version and the protocols, as serverInfo does", run: func(t *trial) {
			var v struct {
				Name, Version, Protocol string
				MCP                     []string
			}
			t.decode("stdout", []byte(ok(t, "", "version", "--json")), &v)
			info := t.start(t.in("w1:p1")).initialize("2025-11-25").ServerInfo
			t.is("name and version", [2]string{v.Name, v.Version}, [2]string{info.Name, info.Version})
			t.must(v.Protocol == "herdr-link/1" && slices.Contains(v.MCP, "2025-11-25"), "the protocols", v)
		}},
		{Name: "cli/call", Expects: "call NAME takes arguments as JSON on stdin and prints the result object, exit 0 also for one that is an error", run: func(t *trial) {
			var r result
			t.decode("stdout", []byte(ok(t, sendHi, "call", "herdr_link_send")), &r)
			t.must(!r.IsError && strings.Contains(r.text(), `"sent"`), "a success", r.text())
			t.arrive("w1:p2", 1)
			out, _, code := t.run(t.in("w1:p1"), `{"agent":"nobody"}`, "call", "herdr_link_close")
			t.decode("stdout", []byte(out), &r)
			t.must(code == 0 && r.IsError && strings.HasPrefix(r.text(), "PEER_NOT_FOUND: "), "exit 0 and a result that is an error", out)
		}},
		{Name: "cli/bootstrap", Expects: "bootstrap names the own pane, exit 0; where there is no agent, exit 1", run: func(t *trial) {
			_, errs, code := t.run(t.in("w1:p3"), "", "bootstrap")
			t.must(code == 0, "exit 0", errs)
			t.must(strings.HasPrefix(t.world().Pane("w1:p3").Agent.Name, "hl-"), "a name", t.world().Pane("w1:p3").Agent.Name)
			fails(t, t.in("w1:p4"), 1, "SELF_UNNAMED: ", "", "bootstrap")
		}},
	}
	for i := range checks {
		checks[i].Own = true
	}
	return checks
}
