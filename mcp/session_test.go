package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestInitialize(t *testing.T) {
	for _, c := range []struct{ params, version string }{
		{`{"protocolVersion":"2024-11-05"}`, v20241105},
		{`{"protocolVersion":"2025-03-26"}`, v20250326},
		{`{"protocolVersion":"2025-06-18"}`, v20250618},
		{`{"protocolVersion":"2025-11-25"}`, Latest},
		{`{"protocolVersion":"2026-07-28"}`, Latest},
		{`{"protocolVersion":"2099-01-01"}`, Latest},
		{`{"protocolVersion":"1.0"}`, Latest},
		{`{"protocolVersion":null}`, Latest},
		{`{"protocolVersion":20241105}`, Latest},
		{`{}`, Latest},
		{``, Latest},
	} {
		for era, s := range map[string]*Server{"": (&bench{}).server(), "modern, too ": both((&bench{}).server())} {
			bubble(t, era+c.params, func(t *testing.T) {
				p := connect(t, s)
				title := ""
				if c.version >= v20250618 {
					title = `"title":"The Bench",`
				}
				want := `{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"` + c.version +
					`","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"bench",` + title + `"version":"7"},"instructions":"ask"}}`
				if got := p.asks(request(`"i"`, "initialize", c.params)); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
				p.ends()
			})
		}
	}
	bubble(t, "without instructions, with a list that stays", func(t *testing.T) {
		s := static()
		s.Title, s.Instructions = "", ""
		p := connect(t, s)
		want := `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"7"}}}`
		if got := p.asks(request("1", "initialize", "")); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
	for name, params := range map[string]string{
		"the version twice": `{"protocolVersion":"2025-06-18","protocolVersion":"2025-06-18"}`,
		"_meta twice":       `{"_meta":{},"_meta":{}}`,
	} {
		bubble(t, name, func(t *testing.T) {
			p := connect(t, static())
			p.say(request("1", "initialize", params), request("2", "initialize", ""))
			p.ends("1 error -32600", "2 result")
		})
	}
	bubble(t, "params that are an array", func(t *testing.T) {
		p := connect(t, static())
		p.say(request("1", "initialize", "[]"), request("2", "initialize", ""))
		p.ends("1 error -32602", "2 result")
	})
}

func TestVersions(t *testing.T) {
	want := []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}
	if got := Versions(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestBeforeInitialize(t *testing.T) {
	for era, s := range map[string]*Server{"legacy": static(), "modern": both(static())} {
		bubble(t, era, func(t *testing.T) {
			discover := "6 error -32601"
			if s.Modern {
				discover = "6 error -32602" // it has no _meta
			}
			p := connect(t, s)
			p.say(request("1", "ping", ""), request("2", "tools/list", ""), call("3", "herdr_link", ""), request("4", "resources/list", ""),
				request("5", "subscriptions/listen", ""), request("6", "server/discover", ""), request("", "notifications/initialized", ""),
				"["+request("7", "ping", "")+"]", request("8", "initialize", ""), request("9", "tools/list", ""))
			p.ends("1 result", "2 error -32600", "3 error -32600", "4 error -32600", "5 error -32600", discover,
				"null error -32600", "8 result", "9 result")
		})
	}
}

func TestInitializeOnce(t *testing.T) {
	bubble(t, "a second one changes nothing", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), v20241105)
		p.say(request("1", "initialize", `{"protocolVersion":"2025-11-25"}`))
		p.hears("1 error -32600")
		if list := p.asks(request("2", "tools/list", "")); strings.Contains(list, "annotations") {
			t.Errorf("the version has changed: %s", list)
		}
	})
	bubble(t, "not in a batch", func(t *testing.T) {
		p := initialized(t, static(), v20250326)
		p.say("[" + request("1", "initialize", "") + "," + request("2", "ping", "") + "]")
		p.ends("[1 error -32600, 2 result]")
	})
	bubble(t, "the hook runs once, and its context ends with the connection", func(t *testing.T) {
		s, b := both(static()), &bench{}
		s.Initialized = func(ctx context.Context) {
			b.note("initialized")
			<-ctx.Done()
			b.note("over")
		}
		p := connect(t, s)
		p.say(request("1", "ping", ""), request("2", "tools/list", ""), modern("3", "server/discover", ""), modern("4", "tools/list", ""))
		if did := b.did(); did != "" {
			t.Errorf("before: %q", did)
		}
		p.say(request("5", "initialize", ""), request("6", "initialize", ""))
		if did := b.did(); did != "initialized" {
			t.Errorf("then: %q", did)
		}
		p.ends("1 result", "2 error -32600", "3 result", "4 result", "5 result", "6 error -32600")
		if did := b.did(); did != "over" {
			t.Errorf("at the end: %q", did)
		}
	})
}

func TestServeWaitsForTheHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, over := static(), false
		s.Initialized = func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(time.Second)
			over = true
		}
		p := initialized(t, s, Latest)
		p.ends()
		if !over {
			t.Error("the hook was still at work")
		}
	})
}

func TestBatches(t *testing.T) {
	at(t, func(t *testing.T, version string) {
		p := initialized(t, (&bench{}).server(), version)
		p.say("[" + request("1", "ping", "") + "," + request("2", "tools/list", "") + "]")
		if version == v20250326 {
			p.ends("[1 result, 2 result]")
		} else {
			p.ends("null error -32600")
		}
	})
}

func TestList(t *testing.T) {
	const (
		gate       = `{"name":"herdr_link","description":"opens","inputSchema":{"type":"object"}}`
		more       = `{"name":"herdr_link_send","description":"does more","inputSchema":{"type":"object"}}`
		gateHints  = `"annotations":{"title":"Gate","readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}`
		moreHints  = `"annotations":{"title":"More","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}`
		gate2025   = `{"name":"herdr_link","description":"opens","inputSchema":{"type":"object"},` + gateHints + `}`
		more2025   = `{"name":"herdr_link_send","description":"does more","inputSchema":{"type":"object"},` + moreHints + `}`
		gateLatest = `{"name":"herdr_link","title":"Gate","description":"opens","inputSchema":{"type":"object"},` + gateHints + `}`
		moreLatest = `{"name":"herdr_link_send","title":"More","description":"does more","inputSchema":{"type":"object"},` +
			`"outputSchema":{"type":"object","title":"out"},` + moreHints + `,"_meta":{"a/b":true}}`
	)
	want := map[string][2]string{
		v20241105: {gate, more}, v20250326: {gate2025, more2025},
		v20250618: {gateLatest, moreLatest}, Latest: {gateLatest, moreLatest},
	}
	at(t, func(t *testing.T, version string) {
		p := initialized(t, (&bench{}).server(), version)
		if got, want := p.asks(request("1", "tools/list", "")), `{"jsonrpc":"2.0","id":1,"result":{"tools":[`+want[version][0]+`]}}`; got != want {
			t.Errorf("dormant\ngot  %s\nwant %s", got, want)
		}
		p.say(call("2", "herdr_link_send", ""))
		p.hears("notifications/tools/list_changed", "2 result")
		if got, want := p.asks(request("3", "tools/list", "{}")), `{"jsonrpc":"2.0","id":3,"result":{"tools":[`+want[version][0]+","+want[version][1]+`]}}`; got != want {
			t.Errorf("active\ngot  %s\nwant %s", got, want)
		}
	})
	bubble(t, "empty", func(t *testing.T) {
		p := initialized(t, &Server{}, Latest)
		if got, want := p.asks(request("1", "tools/list", "")), `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`; got != want {
			t.Errorf("got %s", got)
		}
	})
}

func TestListParams(t *testing.T) {
	for params, want := range map[string]string{
		``: "1 result", `{}`: "1 result", `{"_meta":{"progressToken":0}}`: "1 result",
		`{"cursor":""}`: "1 result", `{"cursor":null}`: "1 result",
		`{"cursor":"x"}`: "1 error -32602", `{"cursor":"x","cursor":"x"}`: "1 error -32600",
		`[]`: "1 error -32602", `null`: "1 error -32600", `{"x":1,"x":1}`: "1 result",
	} {
		bubble(t, params, func(t *testing.T) {
			p := initialized(t, static(), Latest)
			p.say(request("1", "tools/list", params))
			p.ends(want)
		})
	}
}

func TestUnknown(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		p := initialized(t, static(), Latest)
		p.say(request("1", "prompts/list", ""), request("2", "resources/list", "{}"), request("3", "server/discover", ""),
			request("4", "subscriptions/listen", "{}"), request("5", "Ping", ""), request("6", "", ""),
			request("", "notifications/whatever", ""), request("", "tools/list", ""), request("", "ping", "[]"),
			`{"jsonrpc":"2.0","id":0,"result":{"roots":[]}}`, request("7", "ping", ""))
		p.ends("1 error -32601", "2 error -32601", "3 error -32601", "4 error -32601", "5 error -32601", "6 error -32601", "7 result")
	})
}

func TestCall(t *testing.T) {
	for params, want := range map[string]string{
		``:                                       "1 error -32602",
		`{}`:                                     "1 error -32602",
		`[]`:                                     "1 error -32602",
		`{"name":null}`:                          "1 error -32602",
		`{"name":1}`:                             "1 error -32602",
		`{"name":["x"]}`:                         "1 error -32602",
		`{"name":""}`:                            "1 error -32602",
		`{"name":"nope","arguments":[]}`:         "1 error -32602",
		`{"name":"HIDDEN"}`:                      "1 error -32602",
		`{"Name":"hidden"}`:                      "1 error -32602",
		`{"name":"hidden","name":"hidden"}`:      "1 error -32600",
		`{"name":"hidden","\u006eame":"hidden"}`: "1 error -32600",
		`{"name":"args","arguments":{},"arguments":{}}`:    "1 error -32600",
		`{"name":"hidden"}`:                                "1 result",
		`{"name":"hidden","x":1,"x":2}`:                    "1 result",
		`{"\u006eame":"hidd\u0065n"}`:                      "1 result",
		`{"name":"hidden","_meta":{"progressToken":"00"}}`: "1 result",
		`{"name":"hidden","arguments":7}`:                  "1 failed",
	} {
		bubble(t, params, func(t *testing.T) {
			p := initialized(t, (&bench{}).server(), Latest)
			p.say(request("1", "tools/call", params), request("2", "ping", ""))
			p.ends(want, "2 result")
		})
	}
}

func TestReadArgs(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%d":%d`, i, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	for _, c := range []struct{ arguments, want string }{ // want is empty for a failure
		{``, `{}`}, {`null`, `{}`}, {` null `, `{}`}, {`{}`, `{}`},
		{`{"b":1,"a":{"c":[]}}`, `{"a":{"c":[]},"b":1}`},
		{`{"wait_for_previous":true}`, `{}`},
		{`{"wait_for_previous":false,"a":1}`, `{"a":1}`},
		{`{"Wait_for_previous":false}`, `{"Wait_for_previous":false}`},
		{`{"a":1,"A":2}`, `{"A":2,"a":1}`},
		{`[]`, ``}, {`"{}"`, ``}, {`7`, ``}, {`true`, ``},
		{`{"a":1,"a":1}`, ``}, {`{"a":null,"a":1}`, ``}, {`{"a":1,"\u0061":1}`, ``},
		{`{"wait_for_previous":true,"wait_for_previous":true}`, ``},
		{many(maxArgs + 1), ``},
	} {
		bubble(t, fmt.Sprintf("%.60s", c.arguments), func(t *testing.T) {
			p := initialized(t, (&bench{}).server(), Latest)
			answer := p.asks(call("1", "args", c.arguments))
			switch {
			case c.want == "" && brief(answer) != "1 failed":
				t.Errorf("got %s, want a failure", answer)
			case c.want != "" && (brief(answer) != "1 result" || says(answer) != c.want):
				t.Errorf("got %s, want %s", answer, c.want)
			}
		})
	}
	if args, problem := ReadArgs([]byte(many(maxArgs))); len(args) != maxArgs || problem != "" {
		t.Errorf("%d arguments: %d, %q", maxArgs, len(args), problem)
	}
}

func TestEncode(t *testing.T) {
	plain := &Result{Text: []string{"a", "<b>"}}
	object := Structured([]byte(`{"a":1}`))
	for _, c := range []struct {
		result  *Result
		version string
		want    string
	}{
		{plain, v20241105, `{"content":[{"type":"text","text":"a"},{"type":"text","text":"<b>"}]}`},
		{plain, Latest, `{"content":[{"type":"text","text":"a"},{"type":"text","text":"<b>"}]}`},
		{plain, Modern, `{"content":[{"type":"text","text":"a"},{"type":"text","text":"<b>"}],"resultType":"complete"}`},
		{object, v20241105, `{"content":[{"type":"text","text":"{\"a\":1}"}]}`},
		{object, v20250326, `{"content":[{"type":"text","text":"{\"a\":1}"}]}`},
		{object, v20250618, `{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1}}`},
		{object, Latest, `{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1}}`},
		{object, Modern, `{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1},"resultType":"complete"}`},
		{Error("no"), v20241105, `{"content":[{"type":"text","text":"no"}],"isError":true}`},
		{Error("no"), Modern, `{"content":[{"type":"text","text":"no"}],"isError":true,"resultType":"complete"}`},
		{&Result{}, Latest, `{"content":[]}`},
	} {
		s := &Server{Modern: true, Tools: []Tool{{Name: "x", InputSchema: schema, Begin: func(*Session, Args) Call { return Call{Result: c.result} }}}}
		bubble(t, c.version+" "+c.want, func(t *testing.T) {
			var p *peer
			line := call("1", "x", "")
			if c.version == Modern {
				p, line = connect(t, s), modern("1", "tools/call", `"name":"x"`)
			} else {
				p = initialized(t, s, c.version)
			}
			if got, want := p.asks(line), `{"jsonrpc":"2.0","id":1,"result":`+c.want+`}`; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestActivate(t *testing.T) {
	bubble(t, "once, before the answer and before the new list", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		// One write, so that the server has no time between them.
		p.say(request("1", "tools/list", "") + "\n" + call("2", "herdr_link_send", "") + "\n" + request("3", "tools/list", "") + "\n" +
			call("4", "herdr_link", "") + "\n" + call("5", "herdr_link_send", ""))
		got := p.heard()
		// 2 and 5 run beside the others.
		before, behind := slices.IndexFunc(got, func(l string) bool { return brief(l) == changed }), 0
		for i, line := range got {
			switch brief(line) {
			case changed:
				behind++
			case "1 result":
				if names(t, line) != "herdr_link" || i > before {
					t.Errorf("the list before, at place %d: %s", i, line)
				}
			case "3 result":
				if names(t, line) != "herdr_link herdr_link_send" || i < before {
					t.Errorf("the list behind, at place %d: %s", i, line)
				}
			case "2 result", "4 result", "5 result":
				if i < before {
					t.Errorf("%s came before the notification", line)
				}
			default:
				t.Errorf("heard %s", line)
			}
		}
		if behind != 1 || len(got) != 6 {
			t.Errorf("heard %q", got)
		}
	})
	bubble(t, "by the gateway", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		p.say(call("1", "herdr_link", "") + "\n" + request("2", "tools/list", ""))
		list := p.heard()
		if len(list) != 2 || brief(list[0]) != changed || names(t, list[1]) != "herdr_link herdr_link_send" {
			t.Errorf("heard %q", list)
		}
		p.ends("1 result")
	})
	bubble(t, "each connection begins dormant", func(t *testing.T) {
		s := (&bench{}).server()
		first := initialized(t, s, Latest)
		first.say(call("1", "herdr_link_send", ""))
		first.hears(changed, "1 result")
		second := initialized(t, s, Latest)
		if got := second.lists("1", ""); got != "herdr_link" {
			t.Errorf("listed: %s", got)
		}
		if got := first.lists("2", ""); got != "herdr_link herdr_link_send" {
			t.Errorf("listed: %s", got)
		}
	})
	bubble(t, "never where nothing can change", func(t *testing.T) {
		p := initialized(t, static(), Latest)
		p.say(call("1", "herdr_link", ""))
		p.ends("1 result")
	})
}

func TestCallOne(t *testing.T) {
	b := &bench{}
	tools := b.server().Tools
	for _, c := range []struct{ tool, arguments, want string }{ // want is empty for an error
		{"hidden", ``, "found"},
		{"herdr_link", `{}`, "active"}, // no hold, no connection
		{"herdr_link_send", `null`, `{"more":1}`},
		{"args", `{"a":1,"wait_for_previous":true}`, `{"a":1}`},
		{"work", `{"ms":10}`, "worked"},
		{"work", `{"ms":44999}`, "worked"},
		{"work", `{"ms":60000}`, "failed: stopped"},
		{"args", `[]`, "failed: arguments must be a JSON object"},
		{"args", `{"a":1,"a":1}`, "failed: an argument is given twice: each name may stand once"},
		{"args", `{`, ""},
		{"args", "{\"a\":\"\xff\"}", ""},
		{"args", `{} {}`, ""},
		{"nope", `{}`, ""},
	} {
		bubble(t, c.tool+c.arguments, func(t *testing.T) {
			result, err := CallOne(t.Context(), tools, c.tool, []byte(c.arguments))
			got := ""
			if err == nil {
				got = strings.Join(result.Text, "|")
				if result.IsError {
					got = "failed: " + got
				}
			}
			if got != c.want {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
	bubble(t, "its context is the caller's", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan *Result)
		go func() {
			r, _ := CallOne(ctx, tools, "work", []byte(`{"ms":1000}`))
			done <- r
		}()
		synctest.Wait()
		cancel()
		if r := <-done; !r.IsError {
			t.Errorf("got %+v", r)
		}
	})
}
