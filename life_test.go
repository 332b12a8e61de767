package main

import (
	"slices"
	"strings"
	"testing"
)

func TestFirstUse(t *testing.T) {
	s := newScene(t)
	h := start(t, inPane(t, s, "w1:p1"))
	h.initialize("2025-11-25")
	if got := h.list(); !slices.Equal(got, []string{"herdr_link"}) {
		t.Fatalf("dormant: %v", got)
	}
	h.call("herdr_link", "{}")
	if got := h.list(); len(got) != 4 {
		t.Fatalf("active: %v", got)
	}
	if r := h.call("herdr_link_send", `{"to":"reviewer","message":"hi"}`); r.IsError {
		t.Fatal(r.text())
	}
	h.stdin.Close()
	if code := h.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// What a shell pipes in is answered to the last call, though the input ends
// long before: printf … | herdr-link.
func TestPipe(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	out, errs, code := run(t, inPane(t, s, "w1:p1"), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"herdr_link"}}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"herdr_link_peers"}}
{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"herdr_link_send","arguments":{"to":"reviewer","message":"last words"}}}
{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"herdr_link_close","arguments":{"agent":"reviewer"}}}
{"jsonrpc":"2.0","id":6,"method":"ping"}`)
	if code != 0 || errs != "" {
		t.Errorf("exit %d, %s", code, errs)
	}
	var ids []string
	for line := range strings.Lines(out) {
		for _, m := range messagesOf(t, line) {
			if m.Error != nil || strings.Contains(m.line, `"isError":true`) {
				t.Error(m.line)
			}
			if m.Method == "" {
				ids = append(ids, string(m.ID))
			}
		}
	}
	slices.Sort(ids)
	if !slices.Equal(ids, []string{"1", "2", "3", "4", "5", "6"}) {
		t.Errorf("answered: %s", ids)
	}
	if got := received(t, s, "w1:p2", 1); !slices.Equal(got, []string{"last words"}) {
		t.Errorf("received %q", got)
	}
}

// If the call that activated fails, the contract comes with the next answer that
// does not, and once.
func TestContractIsOwed(t *testing.T) {
	t.Parallel()
	for _, calls := range [][]string{
		{`herdr_link_send {"to":"nobody","message":"hi"}`, `herdr_link_peers {}`, `herdr_link_peers {}`},
		{`herdr_link_send {}`, `herdr_link_close {"agent":"nobody"}`, `herdr_link {"action":"peers"}`, `herdr_link_peers {}`},
		{`herdr_link_send {}`, `herdr_link {}`, `herdr_link_peers {}`},
	} {
		h := start(t, inPane(t, newScene(t), "w1:p1"))
		h.initialize("2025-11-25")
		told := 0
		for _, call := range calls {
			tool, args, _ := strings.Cut(call, " ")
			for i, c := range h.call(tool, args).Content {
				if strings.Contains(c.Text, "8. Agents of other") {
					told++
					if i == 0 && tool != "herdr_link" {
						t.Errorf("%s: the contract is in the first text", call)
					}
				}
			}
		}
		if told != 1 {
			t.Errorf("%q: the contract is told %d times", calls, told)
		}
	}
}
