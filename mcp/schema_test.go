package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// tried has an argument of each kind.
var tried = Schema{Type: "object", Properties: []Property{
	{Name: "id", Required: true, Schema: Schema{Type: "string", Pattern: "^x[0-9]$", Rule: "an id such as x1",
		Valid: func(s string) bool { return len(s) == 2 && s[0] == 'x' && s[1] >= '0' && s[1] <= '9' }}},
	{Name: "text", Schema: Schema{Type: "string", MaxBytes: 4, Description: "a < b"}},
	{Name: "label", Schema: Schema{Type: "string", MinLength: 1, MaxLength: 3}},
	{Name: "color", Schema: Schema{Type: "string", Enum: []string{"red", "blue"}, Default: "red"}},
	{Name: "count", Schema: Between("integer", 1, 1000)},
	{Name: "ratio", Schema: Between("number", 0.05, 0.95)},
	{Name: "on", Schema: Schema{Type: "boolean"}},
	{Name: "list", Schema: Schema{Type: "array", MinItems: 1, MaxItems: 3, Unique: true, Items: &Schema{Type: "string", Enum: []string{"a", "b", "c", "d"}}}},
	{Name: "inner", Schema: Schema{Type: "object", Properties: []Property{{Name: "n", Required: true, Schema: Schema{Type: "integer"}}}}},
}}

func TestSchemaJSON(t *testing.T) {
	const want = `{"type":"object","properties":{"id":{"type":"string","pattern":"^x[0-9]$"},` +
		`"text":{"type":"string","description":"a < b","maxLength":4},"label":{"type":"string","minLength":1,"maxLength":3},` +
		`"color":{"type":"string","enum":["red","blue"],"default":"red"},` +
		`"count":{"type":"integer","minimum":1,"maximum":1000},"ratio":{"type":"number","minimum":0.05,"maximum":0.95},` +
		`"on":{"type":"boolean"},"list":{"type":"array","items":{"type":"string","enum":["a","b","c","d"]},"minItems":1,"maxItems":3,"uniqueItems":true},` +
		`"inner":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}},` +
		`"required":["id"],"additionalProperties":false}`
	if got := string(tried.JSON()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	empty := Schema{Type: "object"}
	if got := string(empty.JSON()); got != `{"type":"object","properties":{},"additionalProperties":false}` {
		t.Errorf("no properties: %s", got)
	}
}

func TestSchemaRead(t *testing.T) {
	for args, want := range map[string]Values{
		`{"id":"x1"}`:                             {"id": "x1", "color": "red"},
		`{"id":"x1","color":"blue","text":null}`:  {"id": "x1", "color": "blue"},
		`{"id":"x1","count":1,"ratio":0.05}`:      {"id": "x1", "color": "red", "count": int64(1), "ratio": 0.05},
		`{"id":"x1","count":1e3,"ratio":95E-2}`:   {"id": "x1", "color": "red", "count": int64(1000), "ratio": 0.95},
		`{"id":"x1","count":80.0,"on":false}`:     {"id": "x1", "color": "red", "count": int64(80), "on": false},
		`{"id":"\u00781","text":"\ud83d\ude00"}`:  {"id": "x1", "color": "red", "text": "😀"},
		`{"id":"x1","label":"äöü"}`:               {"id": "x1", "color": "red", "label": "äöü"},
		`{"id":"x1","text":"\\ud8"}`:              {"id": "x1", "color": "red", "text": `\ud8`},
		`{"id":"x1","list":["c","a"],"on": true}`: {"id": "x1", "color": "red", "list": []any{"c", "a"}, "on": true},
		`{"id":"x1","inner":{"n":-3}}`:            {"id": "x1", "color": "red", "inner": Values{"n": int64(-3)}},
		`{"id":"x1","wait_for_previous":true}`:    {"id": "x1", "color": "red"},
	} {
		read, problem := ReadArgs(json.RawMessage(args))
		if got, err := tried.Read(read); problem != "" || err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, %v, %v\nwant %v", args, problem, got, err, want)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	for args, want := range map[string]string{
		`{}`:                                         "id is required",
		`{"id":null}`:                                "id is required",
		`{"id":7}`:                                   "id must be a string",
		`{"id":"secret"}`:                            "id must be an id such as x1",
		`{"ID":"x1"}`:                                `"ID" is no argument of this tool`,
		`{"id":"x1","previw":true}`:                  `"previw" is no argument of this tool`,
		`{"id":"x1","text":"12345"}`:                 "text must have at most 4 bytes, and has 5",
		`{"id":"x1","text":"äää"}`:                   "text must have at most 4 bytes, and has 6",
		`{"id":"x1","label":""}`:                     "label must have 1 to 3 characters, and has 0",
		`{"id":"x1","label":"äöüß"}`:                 "label must have 1 to 3 characters, and has 4",
		`{"id":"x1","text":"\ud800"}`:                "text must be Unicode text, without half of a surrogate pair",
		`{"id":"x1","text":"\udc00"}`:                "text must be Unicode text, without half of a surrogate pair",
		`{"id":"x1","text":"\ud800a"}`:               "text must be Unicode text, without half of a surrogate pair",
		`{"id":"x1","color":"green"}`:                "color must be one of red, blue",
		`{"id":"x1","count":0}`:                      "count must be an integer from 1 to 1000",
		`{"id":"x1","count":1001}`:                   "count must be an integer from 1 to 1000",
		`{"id":"x1","count":2.5}`:                    "count must be an integer from 1 to 1000",
		`{"id":"x1","count":1e999}`:                  "count must be an integer from 1 to 1000",
		`{"id":"x1","count":"80"}`:                   "count must be an integer from 1 to 1000",
		`{"id":"x1","ratio":0.96}`:                   "ratio must be a number from 0.05 to 0.95",
		`{"id":"x1","on":"true"}`:                    "on must be true or false",
		`{"id":"x1","on":1}`:                         "on must be true or false",
		`{"id":"x1","list":"a"}`:                     "list must be an array",
		`{"id":"x1","list":[]}`:                      "list must have 1 to 3 items",
		`{"id":"x1","list":["a","b","c","d"]}`:       "list must have 1 to 3 items",
		`{"id":"x1","list":["a","a"]}`:               "list must not have an item twice",
		`{"id":"x1","list":["a","x"]}`:               "list[1] must be one of a, b, c, d",
		`{"id":"x1","inner":[]}`:                     "inner must be an object",
		`{"id":"x1","inner":{}}`:                     "inner.n is required",
		`{"id":"x1","inner":{"n":1,"n":2}}`:          "inner must not have a member twice",
		`{"id":"x1","inner":{"n":9007199254740994}}`: "inner.n must be an integer",
	} {
		read, problem := ReadArgs(json.RawMessage(args))
		got, err := tried.Read(read)
		var e *ArgumentError
		if problem != "" || got != nil || !errors.As(err, &e) || err.Error() != want {
			t.Errorf("%s: %q, %v, %v\nwant %s", args, problem, got, err, want)
		}
	}
	long := fmt.Sprintf(`{"id":"x1",%q:1}`, strings.Repeat("ö", 1000))
	read, _ := ReadArgs(json.RawMessage(long))
	if _, err := tried.Read(read); err == nil || len(err.Error()) > 200 {
		t.Errorf("a long name: %v", err)
	}
}

// Whatever comes, the answer is values that keep the rules, or an error without
// the value.
func FuzzSchema(f *testing.F) {
	for _, seed := range []string{`{"id":"x1"}`, `{"id":"x1","text":"\ud83d\ude00","count":3}`, `{"id":"x1","list":["a"],"inner":{"n":1}}`, `{"id":"x1","ratio":5e-1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		args, problem := ReadArgs(raw)
		if problem != "" {
			return
		}
		v, err := tried.Read(args)
		if err != nil {
			return
		}
		if id := v.Text("id"); len(id) != 2 || len(v.Text("text")) > 4 || v["count"] != nil && (v.Int("count") < 1 || v.Int("count") > 1000) || len(v.Texts("list")) > 3 {
			t.Errorf("%s was read as %v", raw, v)
		}
	})
}
