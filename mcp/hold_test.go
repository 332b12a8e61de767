package mcp

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

const changed = "notifications/tools/list_changed"

func TestHold(t *testing.T) {
	bubble(t, "until the list was asked for again, and a little more", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		p.say(request("1", "tools/list", ""))
		p.hears("1 result")
		p.say(call("2", "herdr_link", "{}"))
		p.hears(changed)
		time.Sleep(100 * time.Millisecond)
		if got := p.lists("3", ""); got != "herdr_link herdr_link_send" {
			t.Errorf("listed: %s", got)
		}
		time.Sleep(holdSettle - after)
		p.hears()
		time.Sleep(2 * after)
		p.hears("2 result")
	})
	bubble(t, "a list in the same write counts, one before it does not", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		p.say(request("1", "tools/list", "") + "\n" + call("2", "herdr_link", ""))
		p.hears("1 result", changed)
		time.Sleep(holdSettle + after)
		p.hears()
		time.Sleep(holdMax - holdSettle)
		p.hears("2 result")

		p = initialized(t, (&bench{}).server(), Latest)
		p.say(call("2", "herdr_link", "") + "\n" + request("3", "tools/list", ""))
		p.hears(changed, "3 result")
		time.Sleep(holdSettle + after)
		p.hears("2 result")
	})
	bubble(t, "at most", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		p.say(call("1", "herdr_link", ""))
		p.hears(changed)
		time.Sleep(holdMax - after)
		p.hears()
		time.Sleep(2 * after)
		p.hears("1 result")
	})
	bubble(t, "at most, also where the list comes late", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		p.say(call("1", "herdr_link", ""))
		p.hears(changed)
		time.Sleep(holdMax - 10*time.Millisecond)
		p.say(request("2", "tools/list", ""))
		p.hears("2 result")
		time.Sleep(10*time.Millisecond + after)
		p.hears("1 result")
	})
	bubble(t, "others are served meanwhile", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		p.say(call("1", "herdr_link", ""), request("2", "ping", ""), call("3", "herdr_link", ""), call("4", "herdr_link_send", ""),
			call("5", "nope", ""))
		p.hears(changed, "2 result", "3 result", "4 result", "5 error -32602")
		time.Sleep(holdMax + after)
		p.hears("1 result")
	})
	bubble(t, "two held answers both hear of the list", func(t *testing.T) {
		s := (&bench{}).server()
		s.Tools = append(s.Tools, Tool{Name: "held", InputSchema: schema, Begin: func(*Session, Args) Call {
			return Call{Result: &Result{}, Hold: true}
		}})
		p := initialized(t, s, Latest)
		p.say(call("1", "held", ""), call("2", "held", ""), request("3", "tools/list", ""))
		p.hears("3 result")
		time.Sleep(holdSettle + after)
		if got := len(p.heard()); got != 2 {
			t.Errorf("%d of 2 held answers came", got)
		}
	})
	bubble(t, "the end of stdin ends it", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		p.say(call("1", "herdr_link", ""))
		start := time.Now()
		p.ends(changed, "1 result")
		if took := time.Since(start); took != 0 {
			t.Errorf("the answer came %v later", took)
		}
	})
	bubble(t, "the end of stdin ends it after the list, too", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		start := time.Now()
		p.say(call("1", "herdr_link", ""), request("2", "tools/list", ""))
		p.ends(changed, "2 result", "1 result")
		if took := time.Since(start); took != 0 {
			t.Errorf("the answer came %v later", took)
		}
	})
	bubble(t, "cancelled: no answer, and it stays active", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		p.say(call("1", "herdr_link", ""), request("", "notifications/cancelled", `{"requestId":1}`))
		p.hears(changed)
		if got := p.lists("2", ""); got != "herdr_link herdr_link_send" {
			t.Errorf("listed: %s", got)
		}
		time.Sleep(holdMax + after)
		p.say(call("1", "herdr_link", "")) // the id is free again, and nothing is held
		p.ends("1 result")
	})
	bubble(t, "cancelled after the list", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		p.say(call("1", "herdr_link", ""), request("2", "tools/list", ""), request("", "notifications/cancelled", `{"requestId":1}`))
		time.Sleep(holdMax + after)
		p.ends(changed, "2 result")
	})
	bubble(t, "not in a batch", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), v20250326)
		p.say("[" + call("1", "herdr_link", "") + "," + request("2", "ping", "") + "]")
		p.hears(changed, "[1 result, 2 result]")
		if got := p.lists("3", ""); got != "herdr_link herdr_link_send" {
			t.Errorf("listed: %s", got)
		}
	})
	bubble(t, "the end of the connection ends it", func(t *testing.T) {
		p := initialized(t, (&bench{}).server(), Latest)
		p.say(call("1", "herdr_link", ""))
		p.stop()
		if err := <-p.done; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestCancelled(t *testing.T) {
	for name, c := range map[string]struct{ params, did, heard string }{
		"by its id":         {`{"requestId":1,"reason":"x"}`, "start:1 end:1", ""},
		"another id":        {`{"requestId":2}`, "start:1", "1 result"},
		"another type":      {`{"requestId":"1"}`, "start:1", "1 result"},
		"an id in blanks":   {`{"requestId" : 1 }`, "start:1 end:1", ""},
		"no id":             {`{}`, "start:1", "1 result"},
		"an object":         {`{"requestId":{"a":1}}`, "start:1", "1 result"},
		"params in a list":  {`[1]`, "start:1", "1 result"},
		"no params":         {``, "start:1", "1 result"},
		"with modern _meta": {`{` + modernMeta + `,"requestId":1}`, "start:1 end:1", ""},
	} {
		bubble(t, name, func(t *testing.T) {
			b := &bench{}
			p := initialized(t, both(b.server()), Latest)
			p.say(work("1", "", time.Second), request("", "notifications/cancelled", c.params))
			if did := b.did(); did != c.did {
				t.Errorf("it did %q, want %q", did, c.did)
			}
			p.hears()
			time.Sleep(time.Second + after)
			p.say(request("3", "ping", ""))
			if c.heard != "" {
				p.hears(c.heard, "3 result")
				p.ends()
			} else {
				p.ends("3 result")
			}
		})
	}
}

func TestEndOfInput(t *testing.T) {
	bubble(t, "calls in flight and waiting are answered", func(t *testing.T) {
		b := &bench{}
		p := initialized(t, b.server(), Latest)
		p.say(work("1", "k", 20*time.Second), work("2", "k", 20*time.Second), work("3", "", time.Second))
		start := time.Now()
		p.ends("3 result", "1 result", "2 result")
		if took := time.Since(start); took != 40*time.Second {
			t.Errorf("took %v", took)
		}
	})
	bubble(t, "but no longer than a call may take", func(t *testing.T) {
		b := &bench{}
		p := initialized(t, b.server(), Latest)
		p.say(call("1", "work", `{"name":"1","ms":3600000}`))
		start := time.Now()
		p.ends("1 failed")
		if took := time.Since(start); took != callTime {
			t.Errorf("took %v", took)
		}
	})
	bubble(t, "an answer that nobody reads does not keep it", func(t *testing.T) {
		in, end := io.Pipe()
		_, out := io.Pipe()
		done := make(chan error)
		go func() { done <- static().Serve(t.Context(), in, out) }()
		_, _ = io.WriteString(end, request("1", "ping", "")+"\n")
		_ = end.Close()
		start := time.Now()
		if err := <-done; err == nil {
			t.Error("Serve has no error to tell")
		}
		if took := time.Since(start); took != callTime+endGrace {
			t.Errorf("took %v", took)
		}
		_ = out.Close()
	})
	bubble(t, "nothing lingers before the end", func(t *testing.T) {
		p := initialized(t, static(), Latest)
		time.Sleep(time.Hour)
		p.say(request("1", "ping", ""))
		p.ends("1 result")
		synctest.Wait()
	})
}
