package mesh

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"herdr-link/mesh/fault"
)

// The first block is the JSON without terminals' texts; these follow in its
// order, and the structure has all.
func TestSucceeded(t *testing.T) {
	answer := `{"mode":"all","completed":[{"target":"a","output":"<one>\n","n":9007199254740993},{"output":"two","target":"b"},{"target":"c","output":""}],` +
		`"failed":[],"none":{},"record":{"stdoutTail":"three","stderrTail":"","ok":true},"terminalOutput":"four","output":{"output":["odd",null,1.50]}}`
	r := succeeded(json.RawMessage(answer))
	if string(r.Structured) != answer || r.IsError {
		t.Errorf("structure %s", r.Structured)
	}
	if want := []string{"<one>\n", "two", "three", "four"}; !reflect.DeepEqual(r.Text[1:], want) {
		t.Errorf("texts %q", r.Text[1:])
	}
	var brief strings.Builder
	for line := range strings.Lines(r.Text[0]) {
		brief.WriteString(strings.TrimSpace(line))
		if len(line) > 60 {
			t.Errorf("a long line: %s", line)
		}
	}
	want := `{"mode": "all","completed": [{"target": "a","n": 9007199254740993},{"target": "b"},{"target": "c","output": ""}],` +
		`"failed": [],"none": {},"record": {"stderrTail": "","ok": true},"output": {"output": ["odd",null,1.50]}}`
	if brief.String() != want {
		t.Errorf("got  %s\nwant %s", &brief, want)
	}
}

func TestFailed(t *testing.T) {
	r := failed(fault.New("WAIT_TIMEOUT", "too <late>").With("last", []agent{{Target: "a", Status: "working", Cursor: 7}}))
	const want = `{"error":{"code":"WAIT_TIMEOUT","message":"too <late>","retryable":true,` +
		`"details":{"last":[{"target":"a","status":"working","paneId":"","terminalId":"","stateChangeSeq":7}]}}}`
	if string(r.Structured) != want || !r.IsError || !reflect.DeepEqual(r.Text, []string{"WAIT_TIMEOUT: too <late>"}) {
		t.Errorf("%s, %q", r.Structured, r.Text)
	}
	if r := failed(fault.New("INTERNAL", "x")); strings.Contains(string(r.Structured), "details") || !strings.Contains(string(r.Structured), `"retryable":false`) {
		t.Errorf("%s", r.Structured)
	}
}
