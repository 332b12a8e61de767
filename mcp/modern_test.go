package mcp

import (
	"strings"
	"testing"
	"time"
)

func TestDiscover(t *testing.T) {
	const want = `{"jsonrpc":"2.0","id":"d","result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},` +
		`"instructions":"ask","ttlMs":3600000,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bench","title":"The Bench","version":"7"}}}}`
	bubble(t, "before, between and after", func(t *testing.T) {
		p := connect(t, both((&bench{}).server()))
		for range 2 {
			if got := p.asks(modern(`"d"`, "server/discover", "")); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
		p.say(request("1", "initialize", ""))
		p.hears("1 result")
		if got := p.asks(modern(`"d"`, "server/discover", "")); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
	bubble(t, "switched off", func(t *testing.T) {
		p := connect(t, static())
		p.say(modern("1", "server/discover", ""), request("2", "server/discover", ""), request("3", "initialize", ""),
			modern("4", "server/discover", ""), request("5", "server/discover", ""))
		p.ends("1 error -32601", "2 error -32601", "3 result", "4 error -32601", "5 error -32601")
	})
	bubble(t, "switched off, modern _meta means nothing", func(t *testing.T) {
		p := connect(t, (&bench{}).server())
		p.say(modern("1", "tools/list", ""), modern("2", "ping", ""), modern("3", "initialize", ""), modern("4", "tools/list", ""))
		got := p.heard()
		if len(got) != 4 || brief(got[0]) != "1 error -32600" || brief(got[1]) != "2 result" || brief(got[2]) != "3 result" ||
			strings.Contains(got[3], "resultType") {
			t.Errorf("heard %q", got)
		}
	})
}

func TestModernList(t *testing.T) {
	const want = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[{"name":"herdr_link","title":"Gate","description":"opens",` +
		`"inputSchema":{"type":"object"},"annotations":{"title":"Gate","readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}}],` +
		`"ttlMs":3600000,"cacheScope":"private"}}`
	bubble(t, "never changes", func(t *testing.T) {
		p := connect(t, both((&bench{}).server()))
		p.say(modern("2", "tools/call", `"name":"herdr_link_send"`))
		p.hears("2 result") // and no list_changed
		if got := p.asks(modern("1", "tools/list", "")); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		p.say(modern("2", "tools/list", `"cursor":"x"`))
		p.ends("2 error -32602")
	})
	bubble(t, "all of a list that cannot change", func(t *testing.T) {
		s := both((&bench{}).server())
		for i := range s.Tools {
			s.Tools[i].Listing = Always
		}
		p := connect(t, s)
		if got := names(t, p.asks(modern("1", "tools/list", ""))); got != "herdr_link herdr_link_send hidden args work" {
			t.Errorf("listed: %s", got)
		}
	})
}

func TestModernCall(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		b := &bench{}
		p := connect(t, both(b.server()))
		want := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"active"}],"resultType":"complete"}}`
		if got := p.asks(modern("1", "tools/call", `"name":"herdr_link"`)); got != want { // at once
			t.Errorf("got  %s\nwant %s", got, want)
		}
		want = `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"{\"more\":1}"}],"structuredContent":{"more":1},"resultType":"complete"}}`
		if got := p.asks(modern("2", "tools/call", `"name":"herdr_link_send"`)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		p.say(modern("3", "tools/call", `"name":"nope"`), modern("4", "tools/call", `"name":7`), modern("5", "tools/call", ""),
			modern("6", "tools/call", `"name":"args","arguments":[]`), modern("7", "tools/call", `"name":"args","name":"args"`))
		p.hears("3 error -32602", "4 error -32602", "5 error -32602", "6 failed", "7 error -32600")
		p.say(modern("8", "tools/call", `"name":"work","arguments":{"name":"8","ms":1000}`), request("", "notifications/cancelled", `{"requestId":8}`))
		if did := b.did(); did != "start:8 end:8" {
			t.Errorf("it did %q", did)
		}
		p.ends()
	})
	bubble(t, "nothing is held, whatever the tool wants", func(t *testing.T) {
		s := both((&bench{}).server())
		s.Tools = append(s.Tools, Tool{Name: "held", InputSchema: schema, Begin: func(*Session, Args) Call {
			return Call{Result: &Result{}, Hold: true}
		}})
		p := connect(t, s)
		p.say(modern("1", "tools/call", `"name":"held"`))
		p.hears("1 result")
	})
}

func TestModernRefusals(t *testing.T) {
	const (
		capabilities = `"io.modelcontextprotocol/clientCapabilities":{}`
		version      = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	)
	meta := func(members string) string { return `{"_meta":{` + members + `}}` }
	for _, c := range []struct{ name, line, want string }{
		{"ping", modern("1", "ping", ""), "1 error -32601"},
		{"initialize", modern("1", "initialize", ""), "1 error -32601"},
		{"listen", modern("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), "1 error -32601"},
		{"prompts", modern("1", "prompts/list", ""), "1 error -32601"},
		{"no params", request("1", "server/discover", ""), "1 error -32602"},
		{"no _meta", request("1", "server/discover", "{}"), "1 error -32602"},
		{"_meta is null", request("1", "server/discover", `{"_meta":null}`), "1 error -32602"},
		{"_meta is a list", request("1", "server/discover", `{"_meta":[]}`), "1 error -32602"},
		{"no version", request("1", "server/discover", meta(capabilities)), "1 error -32602"},
		{"no capabilities", request("1", "server/discover", meta(version)), "1 error -32602"},
		{"no capabilities to list", request("1", "tools/list", meta(version)), "1 error -32602"},
		{"no capabilities to ping", request("1", "ping", meta(version)), "1 error -32602"},
		{"capabilities are null", request("1", "server/discover", meta(version+`,"io.modelcontextprotocol/clientCapabilities":null`)), "1 error -32602"},
		{"version is null", request("1", "tools/list", meta(`"io.modelcontextprotocol/protocolVersion":null,`+capabilities)), "1 error -32602"},
		{"version is a number", request("1", "tools/list", meta(`"io.modelcontextprotocol/protocolVersion":2026,`+capabilities)), "1 error -32602"},
		{"version twice", request("1", "tools/list", meta(version+","+version+","+capabilities)), "1 error -32600"},
		{"_meta twice", request("1", "tools/list", `{`+modernMeta+`,`+modernMeta+`}`), "1 error -32600"},
		{"params are a list", request("1", "server/discover", "[]"), "1 error -32602"},
		{"another version", request("1", "tools/list", meta(`"io.modelcontextprotocol/protocolVersion":"2025-11-25",`+capabilities)), "1 error -32022"},
		{"another version and no capabilities", request("1", "ping", meta(`"io.modelcontextprotocol/protocolVersion":"2099-01-01"`)), "1 error -32022"},
		{"notifications", modern("", "tools/call", `"name":"hidden"`), ""},
	} {
		bubble(t, c.name, func(t *testing.T) {
			p := connect(t, both((&bench{}).server()))
			p.say(c.line)
			if got := p.heard(); len(got) > 1 || len(got) == 1 && brief(got[0]) != c.want || len(got) == 0 && c.want != "" {
				t.Errorf("heard %q, want %q", got, c.want)
			}
			p.say(modern("2", "tools/list", ""), request("3", "initialize", ""))
			p.ends("2 result", "3 result")
		})
	}
	bubble(t, "the data of a wrong version", func(t *testing.T) {
		p := connect(t, both(static()))
		got := p.asks(request("1", "server/discover", meta(`"io.modelcontextprotocol/protocolVersion":"2025-11-25",`+capabilities)))
		if want := `"code":-32022,"message":"protocol version not supported","data":{"requested":"2025-11-25","supported":["2026-07-28"]}}}`; !strings.HasSuffix(got, want) {
			t.Errorf("got %s\nwant …%s", got, want)
		}
	})
}

// Requests of both eras on one connection: each is served by what stands in it.
func TestBothEras(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := both((&bench{}).server())
		s.Tools = append(s.Tools, Tool{Name: "held", Listing: Never, InputSchema: schema, Begin: func(*Session, Args) Call {
			return Call{Result: &Result{}, Hold: true}
		}})
		p := connect(t, s)
		list := func(line, want string) {
			t.Helper()
			if got := names(t, p.asks(line)); got != want {
				t.Errorf("listed: %s", got)
			}
		}
		// A modern request neither initializes nor activates.
		p.say(modern("1", "tools/call", `"name":"herdr_link_send"`), request("2", "tools/list", ""))
		p.hears("1 result", "2 error -32600")
		p.say(request("3", "initialize", `{"protocolVersion":"2025-03-26"}`))
		p.hears("3 result")
		p.say(modern("4", "tools/call", `"name":"herdr_link"`))
		p.hears("4 result")
		list(request("5", "tools/list", ""), "herdr_link")

		// A legacy activation does not change a modern list, and a modern list
		// does not end a legacy hold.
		p.say(call("6", "herdr_link", ""))
		p.hears(changed)
		list(modern("7", "tools/list", ""), "herdr_link")
		p.say(modern("8", "tools/call", `"name":"held"`))
		p.hears("8 result")
		time.Sleep(holdSettle + after)
		p.hears()
		list(request("9", "tools/list", ""), "herdr_link herdr_link_send")
		time.Sleep(holdSettle + after)
		p.hears("6 result")

		// _meta without the version is legacy; a batch may have both.
		list(request("10", "tools/list", `{"_meta":{"progressToken":1}}`), "herdr_link herdr_link_send")
		p.say("[" + request("11", "ping", "") + "," + modern("12", "ping", "") + "," + modern("13", "tools/list", "") + "]")
		p.hears("[11 result, 12 error -32601, 13 result]")

		// An id in flight is one, whatever the era.
		p.say(work("14", "", time.Second), modern("14", "tools/list", ""))
		p.hears("null error -32600")
		p.ends("14 result")
	})
	bubble(t, "they share the limits", func(t *testing.T) {
		b := &bench{}
		p := initialized(t, both(b.server()), Latest)
		p.say(work("1", "k", time.Second), modern("2", "tools/call", `"name":"work","arguments":{"name":"2","key":"k","ms":1000}`))
		if did := b.did(); did != "start:1" {
			t.Errorf("it did %q", did)
		}
		p.ends("1 result", "2 result")
	})
}
