package link

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"herdr-link/contract"
	"herdr-link/fakeherdr"
	"herdr-link/mcp"
)

type result struct {
	Content []struct{ Type, Text string }
	// StructuredContent is absent in errors.
	StructuredContent json.RawMessage
	IsError           bool
}

func (r result) text() string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// A talk is what a server said to a client that closed its end.
type talk struct {
	t       *testing.T
	lines   []string                   // in their order
	results map[string]json.RawMessage // by id
}

// serve holds a connection with these requests; the n-th, counted from 1, has
// the id n. A request is a tool with its arguments, or list.
func serve(t *testing.T, l *Link, requests ...string) *talk {
	t.Helper()
	var in, out bytes.Buffer
	fmt.Fprintln(&in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}`)
	for i, r := range requests {
		if r == "list" {
			fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`+"\n", i+1)
			continue
		}
		name, arguments, _ := strings.Cut(r, " ")
		if arguments != "" {
			arguments = `,"arguments":` + arguments
		}
		fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q%s}}`+"\n", i+1, name, arguments)
	}
	server := &mcp.Server{Name: "herdr-link", Version: "0", Instructions: l.Hint(), Tools: l.Tools()}
	if err := server.Serve(t.Context(), &in, &out); err != nil {
		t.Fatal(err)
	}
	a := &talk{t: t, results: map[string]json.RawMessage{}}
	for line := range strings.Lines(out.String()) {
		a.lines = append(a.lines, line)
		var reply struct{ ID, Result, Error json.RawMessage }
		if err := json.Unmarshal([]byte(line), &reply); err != nil {
			t.Fatal(err)
		}
		if reply.Error != nil {
			t.Errorf("a JSON-RPC error: %s", line)
		}
		if reply.ID != nil {
			a.results[string(reply.ID)] = reply.Result
		}
	}
	if len(a.results) != len(requests)+1 {
		t.Fatalf("%d answers to %d requests: %s", len(a.results), len(requests)+1, &out)
	}
	return a
}

func (a *talk) call(n int) (r result) {
	a.t.Helper()
	if err := json.Unmarshal(a.results[fmt.Sprint(n)], &r); err != nil {
		a.t.Fatal(err)
	}
	return r
}

func (a *talk) listed(n int) (names []string) {
	a.t.Helper()
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(a.results[fmt.Sprint(n)], &list); err != nil {
		a.t.Fatal(err)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// changes counts the notifications that the list has changed.
func (a *talk) changes() (n int) {
	for _, line := range a.lines {
		if strings.Contains(line, "notifications/tools/list_changed") {
			n++
		}
	}
	return n
}

var (
	dormantTools = []string{"herdr_link"}
	activeTools  = []string{"herdr_link", "herdr_link_peers", "herdr_link_send", "herdr_link_close"}
)

// What tools/list has in each state is a golden file: hosts and their users
// decide by it.
func TestToolLists(t *testing.T) {
	t.Parallel()
	for state, test := range map[string]struct {
		options  Options
		vars     []string
		requests []string
		names    []string
		budget   int // of names, descriptions and input schemas
	}{
		"outside":          {vars: []string{"HERDR_ENV="}, requests: []string{"list"}},
		"dormant":          {requests: []string{"list"}, names: dormantTools, budget: 800},
		"active":           {requests: []string{"herdr_link {}", "list"}, names: activeTools, budget: 2200},
		"eager":            {options: Options{Eager: true}, requests: []string{"list"}, names: activeTools},
		"no-gateway-close": {options: Options{NoGatewayClose: true}, requests: []string{"herdr_link {}", "list"}, names: activeTools},
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			a := serve(t, newStage(t).with(test.options, "w1:p1", test.vars...), test.requests...)
			n := len(test.requests)
			if got := a.listed(n); !slices.Equal(got, test.names) {
				t.Errorf("listed: %q", got)
			}
			raw := a.results[fmt.Sprint(n)]
			golden(t, "tools-"+state+".json", raw)
			if size := cost(t, raw); test.budget > 0 && size > test.budget {
				t.Errorf("%d bytes, over %d", size, test.budget)
			}
		})
	}
}

// cost is what the tools of a list cost a model: name, description and input
// schema as compact JSON.
func cost(t *testing.T, list json.RawMessage) (bytes int) {
	t.Helper()
	var tools struct {
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"inputSchema"`
		}
	}
	if err := json.Unmarshal(list, &tools); err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools.Tools {
		bytes += len(mcp.Marshal(tool))
	}
	return bytes
}

func golden(t *testing.T, name string, raw json.RawMessage) {
	t.Helper()
	var got bytes.Buffer
	if err := json.Indent(&got, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	file := filepath.Join("testdata", name)
	if *updateGolden {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n")), got.Bytes()) {
		t.Errorf("the list is not that of %s (-update writes it anew):\n%s", file, &got)
	}
}

// Before activation nothing but one line tells of the toolset.
func TestDormantIsQuiet(t *testing.T) {
	t.Parallel()
	a := serve(t, newStage(t).in("w1:p1"), "list")
	var greeting struct{ Instructions string }
	if err := json.Unmarshal(a.results["0"], &greeting); err != nil {
		t.Fatal(err)
	}
	if greeting.Instructions != strings.TrimSpace(contract.Hint) {
		t.Errorf("instructions: %q", greeting.Instructions)
	}
	for rule := range strings.Lines(fullContract()) {
		if all := strings.Join(a.lines, ""); strings.Contains(all, strings.TrimSpace(rule)) {
			t.Errorf("dormant, and told: %s", rule)
		}
	}
}

// Outside no tool does anything, in whatever way it is called.
func TestToolsOutside(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := serve(t, s.in("w1:p1", "HERDR_PANE_ID="), "herdr_link", `herdr_link {"action":"peers"}`, "herdr_link_peers", "herdr_link_send {}", "herdr_link_close {}", "list")
	for n := 1; n <= 5; n++ {
		if r := a.call(n); !r.IsError || r.text() != fault(errOutside).Error() {
			t.Errorf("call %d: %+v", n, r)
		}
	}
	if got := a.listed(6); len(got) != 0 || a.changes() != 0 {
		t.Errorf("listed: %q, %d changes", got, a.changes())
	}
	s.wantCalls()
}

func TestActivate(t *testing.T) {
	t.Parallel()
	for _, request := range []string{"herdr_link", "herdr_link {}", "herdr_link null", `herdr_link {"action":"activate"}`,
		`herdr_link {"action":null}`, `herdr_link {"action":null,"arguments":null}`, `herdr_link {"action":"activate","arguments":{"x":1},"y":2}`,
		`herdr_link {"wait_for_previous":true}`} {
		s := newStage(t)
		a := serve(t, s.in("w1:p1"), "list", request, "list", "herdr_link {}")
		if before, after := a.listed(1), a.listed(3); !slices.Equal(before, dormantTools) || !slices.Equal(after, activeTools) {
			t.Errorf("%s: listed %q, then %q", request, before, after)
		}
		want := string(mcp.Marshal(map[string]any{"status": "active", "capabilities": []string{"peers", "send", "close"}, "contract": fullContract()}))
		for _, n := range []int{2, 4} {
			r := a.call(n)
			if r.IsError || len(r.Content) != 1 || !sameJSON(t, r.text(), want) || string(r.StructuredContent) != r.text() {
				t.Errorf("%s: %+v", request, r)
			}
		}
		if a.changes() != 1 || !strings.Contains(a.lines[2], "list_changed") {
			t.Errorf("%s: %d changes in %s", request, a.changes(), a.lines)
		}
		s.wantCalls()
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatalf("%v: %s", err, a)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return string(mcp.Marshal(x)) == string(mcp.Marshal(y))
}

// Whichever call activates, its answer has the contract, as a second text and
// as a field, and no other answer has it.
func TestActivatingCalls(t *testing.T) {
	t.Parallel()
	for _, request := range []string{
		"herdr_link_peers",
		`herdr_link_peers {"unknown":1}`,
		`herdr_link {"action":"peers"}`,
		`herdr_link {"action":"peers","arguments":{}}`,
		`herdr_link {"action":"peers","arguments":null}`,
		`herdr_link_send {"to":"reviewer","message":"hi","priority":9}`,
		`herdr_link_send {"to":"reviewer","message":"hi","reply_to":null}`,
		`herdr_link {"action":"send","arguments":{"to":"reviewer","message":"hi"}}`,
		`herdr_link {"action":"send","to":"reviewer","message":"hi"}`,
		`herdr_link {"action":"send","to":"reviewer","message":"hi","arguments":null}`,
		`herdr_link_close {"agent":"reviewer","force":true}`,
		`herdr_link {"action":"close","arguments":{"agent":"reviewer"}}`,
		`herdr_link {"action":"close","agent":"reviewer"}`,
	} {
		t.Run(request, func(t *testing.T) {
			t.Parallel()
			a := serve(t, newStage(t).noWait().in("w1:p1"), request, "list", "herdr_link_peers")
			if got := a.listed(2); !slices.Equal(got, activeTools) || a.changes() != 1 {
				t.Errorf("listed: %q, %d changes", got, a.changes())
			}
			first, second := a.call(1), a.call(3)
			if first.IsError || len(first.Content) != 2 || first.Content[1].Text != fullContract() {
				t.Fatalf("the answer that activated: %+v", first)
			}
			var object map[string]any
			if err := json.Unmarshal(first.StructuredContent, &object); err != nil || object["contract"] != fullContract() {
				t.Errorf("its structure: %s, %v", first.StructuredContent, err)
			}
			delete(object, "contract")
			if !sameJSON(t, first.text(), string(mcp.Marshal(object))) {
				t.Errorf("text and structure differ:\n%s\n%s", first.text(), first.StructuredContent)
			}
			if second.IsError || len(second.Content) != 1 || strings.Contains(string(a.results["3"]), "contract") {
				t.Errorf("the next answer: %+v", second)
			}
			if !sameJSON(t, second.text(), string(second.StructuredContent)) {
				t.Errorf("text and structure differ:\n%s\n%s", second.text(), second.StructuredContent)
			}
		})
	}
}

// A call that fails activates all the same, and an error is text alone.
func TestActivatingErrors(t *testing.T) {
	t.Parallel()
	a := serve(t, newStage(t).in("w1:p1"), `herdr_link_send {"to":"nobody","message":"hi"}`, "list")
	if r := a.call(1); !r.IsError || len(r.Content) != 1 || r.StructuredContent != nil || r.text() != fault(errNoPeer).Error() {
		t.Errorf("%+v", r)
	}
	if got := a.listed(2); !slices.Equal(got, activeTools) {
		t.Errorf("listed: %q", got)
	}
}

// Each tool's answer as the contract of its outputSchema has it.
func TestAnswers(t *testing.T) {
	t.Parallel()
	s := newStage(t).noWait()
	s.update(func(w *fakeherdr.World) {
		w.AddPane("w1", "pi", "adam").Agent.Status = fakeherdr.Working
		w.AddPane("w1", "pi", "zoe").Agent.Status = fakeherdr.Done
	})
	a := serve(t, s.in("w1:p1"), "herdr_link", "herdr_link_peers")
	const peers = `{"self":{"name":"lead","state":"idle"},"peers":[
{"name":"adam","state":"working"},
{"name":"reviewer","state":"idle"},
{"name":"zoe","state":"done"}]}`
	if r := a.call(2); r.IsError || r.text() != peers || !sameJSON(t, string(r.StructuredContent), peers) {
		t.Errorf("peers: %s", r.text())
	}
	a = serve(t, s.in("w1:p1"), "herdr_link", `herdr_link_send {"to":"zoe","message":"hi","reply_to":"hl_a_b"}`)
	r := a.call(2)
	texts := s.received("w1:p6")
	if len(texts) != 1 {
		t.Fatalf("%+v, received %q", r, texts)
	}
	e := parse(t, texts[0])
	if want := fmt.Sprintf(`{"status":"sent","id":"%s","to":"zoe"}`, e.ID); r.text() != want || e.ReplyTo != "hl_a_b" {
		t.Errorf("send: %s, %+v", r.text(), e)
	}
	a = serve(t, s.in("w1:p1"), "herdr_link", `herdr_link_close {"agent":"zoe"}`)
	if r := a.call(2); r.text() != `{"status":"closed","agent":"zoe"}` {
		t.Errorf("close: %s", r.text())
	}
}

// What is wrong in the arguments is an error of the tool, names the argument,
// and runs nothing.
func TestArguments(t *testing.T) {
	t.Parallel()
	const action = "action must be activate, peers, send or close"
	wrap := func(err error) string { return fault(err).Error() }
	to := peerNotFound + ": to must be a string, the name of a peer."
	text := sendFailed + ": message must be a string, the text for the peer."
	agent := peerNotFound + ": agent must be a string, the name of an agent."
	for request, test := range map[string]struct {
		want      string
		activates bool
	}{
		`herdr_link {"action":"dance"}`:                                                 {action, false},
		`herdr_link {"action":""}`:                                                      {action, false},
		`herdr_link {"action":"Peers"}`:                                                 {action, false},
		`herdr_link {"action":7}`:                                                       {action, false},
		`herdr_link {"action":["peers"]}`:                                               {action, false},
		`herdr_link {"action":"\ud800"}`:                                                {action, false},
		`herdr_link {"action":"peers","arguments":[]}`:                                  {"arguments must be a JSON object", false},
		`herdr_link {"action":"send","arguments":"{}"}`:                                 {"arguments must be a JSON object", false},
		`herdr_link []`:                                                                 {"arguments must be a JSON object", false},
		`herdr_link_peers 7`:                                                            {"arguments must be a JSON object", false},
		`herdr_link_send`:                                                               {text, true},
		`herdr_link_send {"to":"reviewer"}`:                                             {text, true},
		`herdr_link_send {"to":"reviewer","message":null}`:                              {text, true},
		`herdr_link_send {"to":"reviewer","message":{"a":1}}`:                           {text, true},
		`herdr_link_send {"message":"x"}`:                                               {to, true},
		`herdr_link_send {"message":"x","to":null}`:                                     {to, true},
		`herdr_link_send {"message":"x","to":["reviewer"]}`:                             {to, true},
		`herdr_link_send {"to":7,"message":" "}`:                                        {wrap(errBlank), true},
		`herdr_link_send {"to":"reviewer","message":"\ufeff"}`:                          {wrap(errBlank), true},
		`herdr_link_send {"to":"reviewer","message":"\ud83d"}`:                          {wrap(errNotText), true},
		`herdr_link_send {"to":"reviewer","message":"\udE00 x"}`:                        {wrap(errNotText), true},
		`herdr_link_send {"to":"reviewer","message":"x","reply_to":""}`:                 {wrap(errReplyTo), true},
		`herdr_link_send {"to":"reviewer","message":"x","reply_to":7}`:                  {wrap(errReplyTo), true},
		`herdr_link_send {"to":"reviewer","message":"x","reply_to":"w1:p2"}`:            {wrap(errReplyTo), true},
		`herdr_link_send {"to":"w1:p2","message":"x"}`:                                  {wrap(errNoPeer), true},
		`herdr_link_close`:                                                              {agent, true},
		`herdr_link_close {"agent":null}`:                                               {agent, true},
		`herdr_link_close {"agent":1}`:                                                  {agent, true},
		`herdr_link_close {"name":"reviewer"}`:                                          {agent, true},
		`herdr_link_close {"agent":"w1:p2"}`:                                            {wrap(errNoPeer), true},
		`herdr_link {"action":"close","arguments":{}}`:                                  {agent, true},
		`herdr_link {"action":"send","arguments":{},"to":"reviewer","message":"x"}`:     {text, true},
		`herdr_link {"action":"send","arguments":{"to":"\udc00","message":"x"},"to":1}`: {to, true},
	} {
		s := newStage(t)
		a := serve(t, s.in("w1:p1"), request, "list")
		if r := a.call(1); !r.IsError || len(r.Content) != 1 || r.StructuredContent != nil || r.text() != test.want {
			t.Errorf("%s: %+v\nwant %s", request, r, test.want)
		}
		if active := len(a.listed(2)) > 1; active != test.activates || a.changes() != map[bool]int{true: 1}[active] {
			t.Errorf("%s: active: %t, %d changes", request, active, a.changes())
		}
		s.wantCalls()
	}
}

// Both halves of a pair are one character, and arrive.
func TestSurrogatePair(t *testing.T) {
	t.Parallel()
	s := newStage(t).noWait()
	a := serve(t, s.in("w1:p1"), `herdr_link_send {"to":"reviewer","message":"\ud83d\ude00"}`)
	if got := s.received("w1:p2"); len(got) != 1 || parse(t, got[0]).Message != "😀" {
		t.Errorf("%+v, %q", a.call(1), got)
	}
}

// Where the gateway is allowed without asking, it does not close.
func TestGatewayDoesNotClose(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"no-gateway-close": {NoGatewayClose: true}, "eager": {Eager: true}} {
		s := newStage(t).noWait()
		a := serve(t, s.with(o, "w1:p1"),
			`herdr_link {"action":"close","arguments":{"agent":"reviewer"}}`, `herdr_link {"action":"dance"}`, `herdr_link {"action":"peers"}`)
		if r := a.call(1); !r.IsError || !strings.Contains(r.text(), "herdr_link_close") || strings.Contains(r.text(), "reviewer") {
			t.Errorf("%s: %+v", name, r)
		}
		if r := a.call(2); !r.IsError || r.text() != "action must be activate, peers or send" {
			t.Errorf("%s: %+v", name, r)
		}
		if r := a.call(3); r.IsError {
			t.Errorf("%s: %+v", name, r)
		}
		if s.ran("pane close") != 0 {
			t.Errorf("%s: closed", name)
		}
		a = serve(t, s.with(o, "w1:p1"), `herdr_link_close {"agent":"reviewer"}`)
		if r := a.call(1); r.IsError || s.ran("pane close") != 1 {
			t.Errorf("%s: the tool itself: %+v", name, r)
		}
	}
}

// An eager server was active before: no answer has the contract, no list changes.
func TestEager(t *testing.T) {
	t.Parallel()
	a := serve(t, newStage(t).with(Options{Eager: true}, "w1:p1"), "list", "herdr_link_peers")
	if r := a.call(2); r.IsError || len(r.Content) != 1 || strings.Contains(string(a.results["2"]), "contract") {
		t.Errorf("%+v", r)
	}
	if a.changes() != 0 || strings.Contains(string(a.results["0"]), "listChanged") {
		t.Errorf("%s", a.lines)
	}
	if list := string(a.results["1"]); !strings.Contains(list, string(mcp.Marshal(strings.SplitAfter(contract.Rules, "\n")[0])[1:20])) {
		t.Errorf("no contract in the gateway's description: %s", list)
	}
}

// What can be listed and what declares what is a matter of each tool.
func TestToolDeclarations(t *testing.T) {
	t.Parallel()
	for _, tool := range newStage(t).in("w1:p1").Tools() {
		for _, schema := range []json.RawMessage{tool.InputSchema, tool.OutputSchema} {
			if schema != nil && !json.Valid(schema) {
				t.Errorf("%s: %s", tool.Name, schema)
			}
		}
		if (tool.OutputSchema == nil) != (tool.Name == gatewayName) {
			t.Errorf("%s: output schema %s", tool.Name, tool.OutputSchema)
		}
		want := map[string]mcp.Annotations{
			gatewayName: {Destructive: true}, peersName: {ReadOnly: true, Idempotent: true}, sendName: {}, closeName: {Destructive: true},
		}[tool.Name]
		if tool.Annotations != want || tool.Title == "" {
			t.Errorf("%s: %+v, title %q", tool.Name, tool.Annotations, tool.Title)
		}
	}
}

// send and close for one target share a key, peers has none.
func TestKeys(t *testing.T) {
	t.Parallel()
	l := newStage(t).in("w1:p1", "HERDR_BIN_PATH=/nowhere")
	args := mcp.Args{"to": json.RawMessage(`"a"`), "agent": json.RawMessage(`"a"`), "message": json.RawMessage(`"x"`)}
	for name, understand := range map[string]newCall{"a": l.sendCall, "a ": l.closeCall, "": l.peersCall} {
		c, err := understand(args)
		if err != nil || c.target != strings.TrimSpace(name) {
			t.Errorf("%q: %q, %v", name, c.target, err)
		}
	}
}
