package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// told says in short what parse made of a message: "request ID METHOD PARAMS",
// "notification METHOD PARAMS", "nothing", or "refused CODE ID".
func told(line string) string {
	if err := check([]byte(line)); err != nil {
		return fmt.Sprintf("refused %d null", err.Code)
	}
	req, err := parse([]byte(line))
	switch {
	case req == nil && err == nil:
		return "nothing"
	case err != nil && req.ID == "":
		return fmt.Sprintf("refused %d null", err.Code)
	case err != nil:
		return fmt.Sprintf("refused %d %s", err.Code, req.ID)
	case req.ID == "":
		return strings.TrimSpace(fmt.Sprintf("notification %s %s", req.Method, req.Params))
	}
	return strings.TrimSpace(fmt.Sprintf("request %s %s %s", req.ID, req.Method, req.Params))
}

func TestParse(t *testing.T) {
	const bad = "refused -32600 "
	id256, id257 := `"`+strings.Repeat("i", 254)+`"`, `"`+strings.Repeat("i", 255)+`"`
	with := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"m"}` }
	for _, c := range []struct{ name, line, want string }{
		{"request", with("1"), "request 1 m"},
		{"request with an object", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1]}}`, `request 1 m {"a":[1]}`},
		{"request with an array", `{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`, `request 1 m [1]`},
		{"notification", `{"jsonrpc":"2.0","method":"m","params":{}}`, "notification m {}"},
		{"any order, blanks, unknown members", ` { "x":1, "method" : "m", "id":1, "jsonrpc":"2.0", "y":{} } `, "request 1 m"},
		{"carriage return at the end", with("1") + "\r", "request 1 m"},
		{"empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, "request 1"},
		{"escapes in a key", `{"jsonrpc":"2.0","id":1,"\u006dethod":"m"}`, "request 1 m"},
		{"escapes in the method", `{"jsonrpc":"2.0","id":1,"method":"\u006d"}`, "request 1 m"},
		{"unknown member twice", `{"jsonrpc":"2.0","id":1,"method":"m","x":1,"x":2}`, "request 1 m"},

		{"id zero", with("0"), "request 0 m"},
		{"id negative", with("-7"), "request -7 m"},
		{"id beyond 64 bits", with("123456789012345678901234567890"), "request 123456789012345678901234567890 m"},
		{"id string", with(`"1"`), `request "1" m`},
		{"id empty string", with(`""`), `request "" m`},
		{"id string with escapes stays as it came", with(`"\u0061\/"`), `request "\u0061\/" m`},
		{"id of 256 bytes", with(id256), "request " + id256 + " m"},
		{"id of 257 bytes", with(id257), bad + "null"},
		{"id null", with("null"), bad + "null"},
		{"id fraction", with("1.5"), bad + "null"},
		{"id whole fraction", with("1.0"), bad + "null"},
		{"id exponent", with("1e3"), bad + "null"},
		{"id true", with("true"), bad + "null"},
		{"id object", with("{}"), bad + "null"},
		{"id array", with("[1]"), bad + "null"},
		{"id in another case is no id", `{"jsonrpc":"2.0","Id":1,"method":"m"}`, "notification m"},

		{"id twice", `{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}`, bad + "null"},
		{"id twice, by escape", `{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"m"}`, bad + "null"},
		{"id twice, first null", `{"jsonrpc":"2.0","id":null,"id":2,"method":"m"}`, bad + "null"},
		{"id twice and then method twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"m","method":"n"}`, bad + "null"},
		{"method twice and then id twice", `{"jsonrpc":"2.0","method":"m","method":"n","id":1,"id":2}`, bad + "null"},
		{"method twice", `{"jsonrpc":"2.0","id":1,"method":"m","method":"m"}`, bad + "1"},
		{"params twice", `{"jsonrpc":"2.0","id":1,"method":"m","params":{},"params":{}}`, bad + "1"},
		{"version twice", `{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"m"}`, bad + "1"},
		{"method twice in a notification", `{"jsonrpc":"2.0","method":"m","method":"m"}`, bad + "null"},

		{"version missing", `{"id":1,"method":"m"}`, bad + "1"},
		{"version 1.0", `{"jsonrpc":"1.0","id":1,"method":"m"}`, bad + "1"},
		{"version a number", `{"jsonrpc":2.0,"id":1,"method":"m"}`, bad + "1"},
		{"version null", `{"jsonrpc":null,"id":1,"method":"m"}`, bad + "1"},
		{"version in another case", `{"JSONRPC":"2.0","id":1,"method":"m"}`, bad + "1"},

		{"method missing", `{"jsonrpc":"2.0","id":1}`, bad + "1"},
		{"method in another case", `{"jsonrpc":"2.0","id":1,"Method":"m"}`, bad + "1"},
		{"method null", `{"jsonrpc":"2.0","id":1,"method":null}`, bad + "1"},
		{"method a number", `{"jsonrpc":"2.0","id":1,"method":1}`, bad + "1"},
		{"method missing, id bad", `{"jsonrpc":"2.0","id":1.5}`, bad + "null"},
		{"empty object", `{}`, bad + "null"},

		{"params null", `{"jsonrpc":"2.0","id":1,"method":"m","params":null}`, bad + "1"},
		{"params a string", `{"jsonrpc":"2.0","id":1,"method":"m","params":"p"}`, bad + "1"},
		{"params a number", `{"jsonrpc":"2.0","id":1,"method":"m","params":0}`, bad + "1"},
		{"params a number in a notification", `{"jsonrpc":"2.0","method":"m","params":0}`, bad + "null"},

		{"response", `{"jsonrpc":"2.0","id":1,"result":{}}`, "nothing"},
		{"response null", `{"jsonrpc":"2.0","id":1,"result":null}`, "nothing"},
		{"error response", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`, "nothing"},
		{"error response without id", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`, "nothing"},
		{"request with a result, too", `{"jsonrpc":"2.0","id":1,"method":"m","result":1}`, "request 1 m"},

		{"string", `"m"`, bad + "null"},
		{"null", `null`, bad + "null"},
		{"array, as inside a batch", `[]`, bad + "null"},

		{"no JSON", `hello`, "refused -32700 null"},
		{"cut off", `{"jsonrpc":"2.0","id":1`, "refused -32700 null"},
		{"two values", with("1") + with("2"), "refused -32700 null"},
		{"raw control byte", with("\"\x01\""), "refused -32700 null"},
		{"not UTF-8", with("\"\xff\""), "refused -32700 null"},
		{"surrogate as UTF-8", with("\"\xed\xa0\x80\""), "refused -32700 null"},
		{"nested too deeply", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), "refused -32700 null"},
		{"deep params", `{"jsonrpc":"2.0","id":1,"method":"m","params":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + `}`,
			"request 1 m " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000)},
	} {
		if got := told(c.line); got != c.want {
			t.Errorf("%s: %.200s\n got %.200s\nwant %.200s", c.name, c.line, got, c.want)
		}
	}
}

func TestParseSize(t *testing.T) {
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"m"}  `)
	if req, err := parse(line); err != nil || req.Size != len(line) {
		t.Errorf("got %+v, %v; want a size of %d", req, err, len(line))
	}
}

func TestMembers(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{`{"b":1,"a":"x","b":null, "\u0061" : { "c" : 2 } }`, `b=1 a="x" b=null a={ "c" : 2 }`},
		{`{}`, ``}, {`[1,2]`, ``}, {`"x"`, ``}, {`null`, ``}, {``, ``},
	} {
		var got []string
		for key, value := range Members([]byte(c.raw)) {
			got = append(got, key+"="+string(value))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: got %q, want %q", c.raw, s, c.want)
		}
	}
	for key := range Members([]byte(`{"a":1,"b":2}`)) { // leaving early is allowed
		if key != "a" {
			t.Errorf("%q after a break", key)
		}
		break
	}
}

func TestKind(t *testing.T) {
	for raw, want := range map[string]byte{
		`{}`: '{', " \t\r\n[1]": '[', `"x"`: '"', `null`: 'n', `-1`: '-', ``: 0, " \n": 0,
	} {
		if got := Kind([]byte(raw)); got != want {
			t.Errorf("Kind(%q) = %q, want %q", raw, got, want)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		raw   string
		limit int
		want  []string
	}{
		{`[]`, 3, nil},
		{`[1, {"a":[2]} ,"x"]`, 3, []string{`1`, `{"a":[2]}`, `"x"`}},
		{`[1,2,3]`, 2, []string{`1`, `2`}},
	} {
		var got []string
		for _, m := range split([]byte(c.raw), c.limit) {
			got = append(got, string(m))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("split(%s, %d) = %q, want %q", c.raw, c.limit, got, c.want)
		}
	}
}

func TestSameID(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`1`, `1`, true},
		{`1`, `"1"`, false},
		{`"a"`, `"\u0061"`, true},
		{`"a/b"`, `"a\/b"`, true},
		{`"a"`, `"b"`, false},
		{`"\""`, `"\u0022"`, true},
		{`0`, `-0`, false},
		{`"\ud800"`, `"\ud801"`, false}, // what decoding would replace
		{`"\ud800"`, `"\ufffd"`, false},
	} {
		if got := ID(c.a).key() == ID(c.b).key(); got != c.same {
			t.Errorf("%s and %s the same id: %t", c.a, c.b, got)
		}
	}
}

func TestErrorText(t *testing.T) {
	if got := Errorf(InvalidParams, "no %s", "cursor").Error(); got != "no cursor (-32602)" {
		t.Errorf("got %q", got)
	}
}

// What parse accepts agrees with encoding/json, and is accepted again, the
// same, when it is written anew from what parse found.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}`,
		`{"jsonrpc":"2.0","id":"\u0061","method":"m\n","params":[]}`,
		`{"jsonrpc":"2.0","method":"m"}`,
		`{"jsonrpc":"2.0","id":-1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}`,
		`{"jsonrpc":"2.0","id":1.0,"method":"m","\u0070arams":{}}`,
		`[{"jsonrpc":"2.0"}]`, `null`, `"`, "\xff", "\uFEFF{}",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if check(line) != nil {
			return
		}
		req, bad := parse(line)
		fields := map[string]json.RawMessage{}
		_ = json.Unmarshal(line, &fields)
		if req == nil {
			if bad != nil || fields["method"] != nil || fields["result"] == nil && fields["error"] == nil {
				t.Fatalf("%q was taken for a response, with the error %v", line, bad)
			}
			return
		}
		if req.ID != "" && (len(req.ID) > MaxID || !bytes.Contains(line, []byte(req.ID))) {
			t.Errorf("%q has the id %q", line, req.ID)
		}
		if bad != nil {
			if bad.Code != InvalidRequest {
				t.Errorf("%q is refused with %d", line, bad.Code)
			}
			return
		}
		var method, version string
		if json.Unmarshal(fields["method"], &method) != nil || method != req.Method ||
			json.Unmarshal(fields["jsonrpc"], &version) != nil || version != "2.0" ||
			string(fields["id"]) != string(req.ID) || string(fields["params"]) != string(req.Params) {
			t.Errorf("%q was read as %+v", line, req)
		}
		again := map[string]any{"jsonrpc": "2.0", "method": req.Method}
		if req.ID != "" {
			again["id"] = json.RawMessage(req.ID)
		}
		if req.Params != nil {
			again["params"] = req.Params
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(again); err != nil {
			t.Fatal(err)
		}
		second, bad := parse(b.Bytes())
		if bad != nil || second == nil || second.ID != req.ID || second.Method != req.Method {
			t.Errorf("%q was read as %+v, and written again as %+v, %v", line, req, second, bad)
		}
	})
}
