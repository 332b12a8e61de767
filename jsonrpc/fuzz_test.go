package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// Whatever comes in: each line that leaves is one response or notification, or
// an array of responses; no id is answered more often than it stands in the
// input; and a request behind it all is answered as ever.
func FuzzConn(f *testing.F) {
	for _, seed := range []string{
		message("1", "now", ""),
		message("1", "echo", "") + "\n" + message("1", "now", "") + "\n" + message("", "cancel", "[1]"),
		message(`"\u0061"`, "announce", "") + "\r\n\r\n{}\n[]\nnull",
		"[" + message("1", "echo", "") + "," + message("2", "fail", "") + "," + message("", "now", "") + ",1]",
		message("1", "no JSON", "") + "\n" + message("2", "html", ""),
		"\uFEFF" + message("1", "refuse", "{}"), "\xff\n\x00\n\"", `{"jsonrpc":"2.0","id":1,"id":2,"method":"now"}`,
		`{"jsonrpc":"2.0","method":"cancel","params":[]}`,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	const id = `"behind it all"`
	f.Fuzz(func(t *testing.T, data []byte, batches bool) {
		if bytes.Contains(data, []byte("behind")) {
			return
		}
		var out bytes.Buffer
		p := &peer{t: t}
		p.conn = NewConn(func(ctx context.Context, req *Request) (any, error) {
			if req.Method == "wait" || req.Method == "stubborn" {
				req.Method = "echo" // no time here
			}
			return p.handle(ctx, req)
		})
		p.conn.Batches = func() bool { return batches }
		in := append(bytes.Clone(data), "\n"+message(id, "now", "")+"\n"...)
		if err := p.conn.Serve(t.Context(), bytes.NewReader(in), &out); err != nil {
			t.Fatal(err)
		}
		answers := map[string]int{}
		one := func(raw string) {
			said := brief(raw)
			if strings.HasPrefix(said, "no message") {
				t.Fatalf("after %q: %s", data, said)
			}
			var m struct{ ID json.RawMessage }
			_ = json.Unmarshal([]byte(raw), &m)
			answers[string(m.ID)]++
		}
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSuffix(line, "\n")
			if !strings.HasPrefix(line, "[") {
				one(line)
				continue
			}
			var all []json.RawMessage
			if err := json.Unmarshal([]byte(line), &all); err != nil || len(all) == 0 || !batches {
				t.Fatalf("after %q: %s", data, line)
			}
			for _, m := range all {
				one(string(m))
			}
		}
		if answers[id] != 1 {
			t.Errorf("after %q the request behind it was answered %d times: %q", data, answers[id], out.String())
		}
		for id, n := range answers {
			if id != "" && id != "null" && n > bytes.Count(in, []byte(id)) {
				t.Errorf("after %q the id %s was answered %d times", data, id, n)
			}
		}
		if len(p.conn.inFlight) != 0 {
			t.Errorf("after %q still in flight: %v", data, p.conn.inFlight)
		}
	})
}
