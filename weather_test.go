package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A weather makes random messages and knows what is due to them.
type weather struct {
	r         *rand.Rand
	batches   bool
	next      int
	want      map[string]string // by id: "result" or an error's code
	cancelled map[string]bool   // these may be answered, or not
	nulls     int               // answers with id null
	calls     []string          // ids of calls that take a while
}

// line is a message or, where there are batches, now and then a batch.
func (w *weather) line() string {
	if w.r.IntN(20) > 0 {
		return w.message(false)
	}
	var batch []string
	for range w.r.IntN(5) {
		batch = append(batch, w.message(true))
	}
	if len(batch) == 0 || !w.batches { // refused as a whole
		w.nulls++
	}
	return "[" + strings.Join(batch, ",") + "]"
}

// message is one message; in a batch each is JSON at least, and where batches
// are refused nothing in it counts.
func (w *weather) message(inBatch bool) string {
	if inBatch && !w.batches {
		return `{"jsonrpc":"2.0","id":"in a batch","method":"ping"}`
	}
	kinds := []func() string{w.good, w.good, w.good, w.refused, w.silent, w.anonymous}
	if !inBatch {
		kinds = append(kinds, w.broken)
	}
	return kinds[w.r.IntN(len(kinds))]()
}

func (w *weather) id(due string) string {
	w.next++
	id := fmt.Sprint(w.next)
	switch w.r.IntN(4) {
	case 0:
		id = "-" + id
	case 1:
		id = `"` + id + `"`
	case 2:
		id = fmt.Sprintf(`"\u00e4%d ü \\ %s"`, w.next, strings.Repeat("x", w.r.IntN(200)))
	}
	w.want[id] = due
	return id
}

func (w *weather) of(texts ...string) string { return texts[w.r.IntN(len(texts))] }

// good is a request that has a result, if that of a tool that failed.
func (w *weather) good() string {
	id := w.id("result")
	call := func(params string) string {
		return `{"jsonrpc":"2.0","method":"tools/call","params":{` + params + `},"id":` + id + `}`
	}
	switch n := w.r.IntN(60); {
	case n == 0 && len(w.calls) < 20: // with processes of Herdr
		w.calls = append(w.calls, id)
		return call(`"name":"herdr_link_send","arguments":{"to":"nobody` + w.of("1", "2", "3", "4") + `","message":"hi"}`)
	case n <= 4:
		return `{"id":` + id + `,"jsonrpc":"2.0","method":"tools/list"}`
	case n <= 6:
		return call(w.of(`"name":"herdr_link"`, `"name":"herdr_link","arguments":{"action":"activate"}`))
	case n <= 10:
		return call(`"arguments":` + w.of(`{"action":"dance"}`, `[]`, `7`, `{"a":1,"a":2}`, `{"action":"send","arguments":"x"}`) + `,"name":"herdr_link"`)
	case n <= 14:
		return call(`"name":"herdr_link_send","arguments":` + w.of(`{}`, `null`, `{"to":"X","message":"hi"}`, `{"to":"reviewer","message":" "}`, `{"to":7,"message":"\ud800"}`))
	case n <= 16:
		return call(`"name":"herdr_link_close","arguments":` + w.of(`{}`, `{"agent":null}`, `{"agent":"-x"}`))
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"` + w.of("", `,"params":{}`, `,"extra":"\u0000"`, `,"params":{"_meta":{"progressToken":1}}`) + `}`
}

// refused is a request with a good id that is answered by an error.
func (w *weather) refused() string {
	switch w.r.IntN(4) {
	case 0:
		return `{"jsonrpc":"2.0","id":` + w.id("-32601") + `,"method":` + w.of(`"x"`, `""`, `"notifications/initialized"`, `"resources/list"`, `"server/discover"`) + `}`
	case 1:
		return `{"jsonrpc":"2.0","id":` + w.id("-32602") + `,"method":"tools/call"` + w.of(``, `,"params":{}`, `,"params":{"name":"x"}`, `,"params":{"name":null}`, `,"params":[]`) + `}`
	case 2:
		return `{"jsonrpc":"2.0","id":` + w.id("-32600") + `,` + w.of(`"method":"ping","method":"ping"`, `"method":{}`, `"params":{}`, `"method":"ping","params":7`, `"method":"initialize","jsonrpc":"2.0"`) + `}`
	}
	return `{"id":` + w.id("-32600") + `,"method":"ping"` + w.of(``, `,"jsonrpc":"2.1"`, `,"jsonrpc":2.0`, `,"jsonrpc":null`) + `}`
}

// silent is a message without an answer.
func (w *weather) silent() string {
	if len(w.calls) > 0 && w.r.IntN(4) == 0 {
		id := w.calls[w.r.IntN(len(w.calls))]
		if w.cancelled == nil {
			w.cancelled = map[string]bool{}
		}
		w.cancelled[id] = true
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"x"}}`
	}
	return w.of(
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","method":"notifications/x","params":{"a":[1,2,{}]}}`,
		`{"jsonrpc":"2.0","method":"ping"}`,
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"herdr_link_close","arguments":{"agent":"reviewer"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody's"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`,
		`{"jsonrpc":"2.0","id":5,"result":{}}`,
		`{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":""}}`,
	)
}

// anonymous is JSON that is answered with id null.
func (w *weather) anonymous() string {
	w.nulls++
	return w.of(`7`, `"x"`, `null`, `true`, `{}`, `{"jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}`, `{"jsonrpc":"2.0","method":"ping","params":7}`, `{"jsonrpc":"2.0","id":"`+strings.Repeat("x", 300)+`","method":"ping"}`)
}

// broken is no JSON at all.
func (w *weather) broken() string {
	w.nulls++
	const good = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":["ü",1.5e3,null]}}`
	switch w.r.IntN(4) {
	case 0:
		return good[:1+w.r.IntN(len(good)-1)]
	case 1:
		at := w.r.IntN(len(good))
		return good[:at] + "\xfe" + good[at:]
	case 2:
		return strings.Repeat("[", 1+w.r.IntN(20_000))
	}
	return w.of("x", "{}{}", "Content-Length: 52", "'", "\x00", good+",", "[1,2", strings.Repeat("{\"a\":", 11_000)+"1"+strings.Repeat("}", 11_000))
}

// messagesOf returns the messages of a line: more than one if it is a batch.
func messagesOf(t *testing.T, line string) (all []message) {
	t.Helper()
	raw := []json.RawMessage{json.RawMessage(line)}
	if strings.HasPrefix(line, "[") {
		if err := json.Unmarshal([]byte(line), &raw); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
	}
	for _, one := range raw {
		m := message{line: string(one)}
		if err := json.Unmarshal(one, &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, m)
	}
	return all
}
