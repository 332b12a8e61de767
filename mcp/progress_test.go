package mcp

import (
	"strings"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	long := func(id, token, more string) string {
		return request(id, "tools/call", `{"name":"work","arguments":{"name":"`+id+`","ms":40000,"progress":15`+more+`},"_meta":{`+token+`}}`)
	}
	bubble(t, "as long as the call runs, and with its own token", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		p.say(long("1", `"progressToken":"a\u00e4"`, ""))
		time.Sleep(15*time.Second - after)
		p.hears()
		time.Sleep(2 * after)
		if got := p.heard(); len(got) != 1 || got[0] != `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"a\u00e4","progress":15}}` {
			t.Errorf("heard %q", got)
		}
		time.Sleep(15 * time.Second)
		if got := p.heard(); len(got) != 1 || !strings.Contains(got[0], `"progress":30}`) {
			t.Errorf("heard %q", got)
		}
		time.Sleep(time.Minute)
		p.hears("1 result")
	})
	bubble(t, "not after it was cancelled", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		p.say(long("1", `"progressToken":7`, `,"stubborn":true`), request("", "notifications/cancelled", `{"requestId":1}`))
		time.Sleep(time.Minute)
		p.hears()
	})
	bubble(t, "not for whom it is nothing", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		for i, token := range []string{``, `"progressToken":null`, `"progressToken":{}`, `"progressToken":true`, `"progressToken":"` + strings.Repeat("x", maxToken) + `"`} {
			p.say(long(string('1'+rune(i)), token, ""))
		}
		p.say(request("9", "tools/call", `{"name":"work","arguments":{"ms":40000},"_meta":{"progressToken":1}}`))
		time.Sleep(39 * time.Second)
		p.hears()
		time.Sleep(time.Minute)
		if got := p.heard(); len(got) != 6 {
			t.Errorf("heard %q", got)
		}
	})
	bubble(t, "in the stateless era, too", func(t *testing.T) {
		p := connect(t, both((&bench{}).server()))
		p.say(request("1", "tools/call", `{"name":"work","arguments":{"ms":20000,"progress":15},"_meta":{"progressToken":-1,"`+metaVersion+`":"`+Modern+`","`+metaCapabilities+`":{}}}`))
		time.Sleep(15*time.Second + after)
		if got := p.heard(); len(got) != 1 || !strings.Contains(got[0], `{"progressToken":-1,"progress":15}`) {
			t.Errorf("heard %q", got)
		}
	})
}

// A tool has its own words for arguments that are none.
func TestRefuse(t *testing.T) {
	bubble(t, "in a session", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		if got := p.asks(call("1", "work", "[]")); !strings.Contains(got, `"no: arguments must be a JSON object"`) || !strings.Contains(got, `"isError":true`) {
			t.Errorf("heard %s", got)
		}
	})
	r, err := CallOne(t.Context(), (&bench{}).server().Tools, "work", []byte(`{"ms":1,"ms":2}`))
	if err != nil || !r.IsError || !strings.HasPrefix(r.Text[0], "no: an argument is given twice") {
		t.Errorf("%+v, %v", r, err)
	}
}
