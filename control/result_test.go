package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"herdr-link/herdrcli"
)

func exited(code int, stdout, stderr string) herdrcli.Outcome {
	return herdrcli.Outcome{Exit: code, Stdout: []byte(stdout), Stderr: []byte(stderr), Started: true}
}

func ended(err error, started bool) herdrcli.Outcome {
	return herdrcli.Outcome{Exit: -1, Err: err, Started: started, Stderr: []byte("half a line")}
}

// What a command came to, and what the model sees of it.
func TestResult(t *testing.T) {
	const refusal = `{"error":{"code":"pane_not_found","message":"pane  w9:p9\nnot found"},"id":"cli:request"}`
	rows := table()
	row := func(name string) *tool {
		for i := range rows {
			if rows[i].name == name {
				return &rows[i]
			}
		}
		t.Fatal(name)
		return nil
	}
	get, screen, run, create := row("herdr_pane_get"), row("herdr_pane_read"), row("herdr_pane_run"), row("herdr_workspace_create")
	for name, test := range map[string]struct {
		tool *tool
		out  herdrcli.Outcome
		want string // structuredContent
	}{
		"JSON":                 {get, exited(0, `{"id":"x", "result":{"seq":9007199254740993,"s":"<é>"}}`+"\n", ""), `{"ok":true,"command":"herdr pane get","exitCode":0,"data":{"id":"x","result":{"seq":9007199254740993,"s":"<é>"}}}`},
		"JSON and stderr":      {get, exited(0, `{}`, "warning\n"), `{"ok":true,"command":"herdr pane get","exitCode":0,"stderr":"warning\n","data":{}}`},
		"not UTF-8":            {get, exited(0, "{\"a\":\"\xff\"}", ""), `{"ok":true,"command":"herdr pane get","exitCode":0,"data":{"a":"�"}}`},
		"no JSON":              {get, exited(0, "hello", ""), `{"ok":true,"command":"herdr pane get","exitCode":0,"message":"herdr exited with 0, but did not print the JSON expected","stdout":"hello"}`},
		"no JSON, has acted":   {create, exited(0, "", ""), `{"ok":true,"command":"herdr workspace create","exitCode":0,"message":"herdr exited with 0, but did not print the JSON expected; it has acted: do not repeat it","stdout":""}`},
		"a screen":             {screen, exited(0, `{"a":1}`, ""), `{"ok":true,"command":"herdr pane read","exitCode":0,"stdout":"{\"a\":1}"}`},
		"an empty screen":      {screen, exited(0, "", ""), `{"ok":true,"command":"herdr pane read","exitCode":0,"stdout":""}`},
		"nothing":              {run, exited(0, "", ""), `{"ok":true,"command":"herdr pane run","exitCode":0}`},
		"more than nothing":    {run, exited(0, "x", ""), `{"ok":true,"command":"herdr pane run","exitCode":0,"stdout":"x"}`},
		"refused":              {get, exited(1, "", refusal+"\n"), `{"ok":false,"command":"herdr pane get","exitCode":1,"errorCode":"pane_not_found","message":"pane w9:p9 not found","stderr":` + quoted(refusal+"\n") + `,"data":` + refusal + `}`},
		"refused on stdout":    {get, exited(1, refusal, "noise"), `{"ok":false,"command":"herdr pane get","exitCode":1,"errorCode":"pane_not_found","message":"pane w9:p9 not found","stderr":"noise","data":` + refusal + `}`},
		"usage":                {get, exited(2, "", "unknown option: --x"), `{"ok":false,"command":"herdr pane get","exitCode":2,"errorCode":"usage_error","message":"this herdr does not know such a command line: herdr_doctor compares the versions","stderr":"unknown option: --x"}`},
		"no server, old":       {get, exited(1, "", "Error: Os { code: 2, kind: NotFound }"), `{"ok":false,"command":"herdr pane get","exitCode":1,"errorCode":"server_unreachable","message":"no Herdr server answers: start herdr in a terminal","stderr":"Error: Os { code: 2, kind: NotFound }"}`},
		"no server, refused":   {run, exited(1, "", "Error: Os { code: 111, kind: ConnectionRefused }"), `{"ok":false,"command":"herdr pane run","exitCode":1,"errorCode":"server_unreachable","message":"no Herdr server answers: start herdr in a terminal","stderr":"Error: Os { code: 111, kind: ConnectionRefused }"}`},
		"server ended":         {run, exited(1, "", "Error: Custom { kind: Other, error: EmptyResponse }\n"), `{"ok":false,"command":"herdr pane run","exitCode":1,"errorCode":"server_unreachable","message":"the Herdr server did not answer to the end, as when it is stopped meanwhile; MAYBE","stderr":"Error: Custom { kind: Other, error: EmptyResponse }\n"}`},
		"server killed":        {run, exited(1, "", "Error: Os { code: 104, kind: ConnectionReset, message: \"x\" }"), `{"ok":false,"command":"herdr pane run","exitCode":1,"errorCode":"server_unreachable","message":"the Herdr server did not answer to the end, as when it is stopped meanwhile; MAYBE","stderr":"Error: Os { code: 104, kind: ConnectionReset, message: \"x\" }"}`},
		"nobody knows":         {run, exited(1, "", "Error: Custom"), `{"ok":false,"command":"herdr pane run","exitCode":1,"errorCode":"unparsable_output","message":"herdr failed without an error that it has a code for; MAYBE","stderr":"Error: Custom"}`},
		"killed by a signal":   {get, exited(-1, "", ""), `{"ok":false,"command":"herdr pane get","errorCode":"unparsable_output","message":"herdr failed without an error that it has a code for; MAYBE"}`},
		"no program":           {get, ended(herdrcli.ErrNotFound, false), `{"ok":false,"command":"herdr pane get","exitCode":127,"errorCode":"herdr_not_found","message":"the herdr program is not there: fix HERDR_BIN_PATH or PATH of the MCP host","stderr":"half a line"}`},
		"not executable":       {get, ended(herdrcli.ErrBinary, false), `{"ok":false,"command":"herdr pane get","exitCode":126,"errorCode":"herdr_not_executable","message":"the herdr program cannot be run: HERDR_BIN_PATH must be an absolute path to an executable file","stderr":"half a line"}`},
		"out of time":          {run, ended(herdrcli.ErrTimeout, true), `{"ok":false,"command":"herdr pane run","exitCode":124,"errorCode":"cli_timeout","message":"herdr did not end in time and was killed; MAYBE","stderr":"half a line"}`},
		"cancelled":            {run, ended(fmt.Errorf("x: %w", context.Canceled), true), `{"ok":false,"command":"herdr pane run","exitCode":130,"errorCode":"cancelled","message":"the call was cancelled; MAYBE","stderr":"half a line"}`},
		"cancelled before":     {run, ended(errors.New("told to"), false), `{"ok":false,"command":"herdr pane run","exitCode":130,"errorCode":"cancelled","message":"the call was cancelled; nothing was sent","stderr":"half a line"}`},
		"no interpreter":       {get, herdrcli.Outcome{Exit: -1, Err: fmt.Errorf("%w: exec format error", herdrcli.ErrBinary)}, `{"ok":false,"command":"herdr pane get","exitCode":126,"errorCode":"herdr_not_executable","message":"the herdr program cannot be run: HERDR_BIN_PATH must be an absolute path to an executable file","stderr":"herdr cannot be run: exec format error"}`},
		"too deep":             {get, exited(0, deep(maxDepth+1), ""), `{"ok":true,"command":"herdr pane get","exitCode":0,"message":"herdr exited with 0, but did not print the JSON expected","stdout":"` + deep(maxDepth+1) + `"}`},
		"not too deep":         {get, exited(0, deep(maxDepth), ""), `{"ok":true,"command":"herdr pane get","exitCode":0,"data":` + deep(maxDepth) + `}`},
		"brackets in a text":   {get, exited(0, `["\"`+strings.Repeat("[", 300)+`\\"]`, ""), `{"ok":true,"command":"herdr pane get","exitCode":0,"data":["\"` + strings.Repeat("[", 300) + `\\"]}`},
		"too much":             {screen, ended(herdrcli.ErrTooMuch, true), `{"ok":false,"command":"herdr pane read","errorCode":"output_too_large","message":"herdr printed more than 4 MiB: use fewer lines; MAYBE","stderr":"half a line"}`},
		"too long an argument": {run, ended(herdrcli.ErrTooLong, false), `{"ok":false,"command":"herdr pane run","errorCode":"invalid_argument","message":"the system does not take so long a command line: shorten the text; nothing was sent","stderr":"half a line"}`},
		"reserved":             {run, ended(herdrcli.ErrReserved, false), `{"ok":false,"command":"herdr pane run","errorCode":"reserved_argument","message":` + quoted(reservedText+"; nothing was sent") + `,"stderr":"half a line"}`},
	} {
		got := read(test.tool, test.out, "MAYBE").encode()
		if string(got.Structured) != test.want || got.IsError == strings.HasPrefix(test.want, `{"ok":true`) {
			t.Errorf("%s: %t\ngot  %s\nwant %s", name, got.IsError, got.Structured, test.want)
		}
	}
}

func deep(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func quoted(s string) string {
	text, _ := json.Marshal(s)
	return strings.ReplaceAll(string(text), `\u003c`, "<")
}

// The first block has many short lines and no terminal text, the second is
// exactly that text.
func TestResultText(t *testing.T) {
	matched := `{"id":"x","result":{"read":{"format":"text","n":9007199254740993,"text":"a\n\"b\"\n"},"type":"output_matched"}}`
	for name, test := range map[string]struct {
		out  result
		want []string
	}{
		"JSON":         {result{OK: true, Command: "herdr x", Data: json.RawMessage(`{"a":[1,2]}`)}, []string{"{\n  \"ok\": true,\n  \"command\": \"herdr x\",\n  \"data\": {\n    \"a\": [\n      1,\n      2\n    ]\n  }\n}"}},
		"a screen":     {result{OK: true, Command: "herdr x", Stdout: pointer(`{"a":1}`)}, []string{"{\n  \"ok\": true,\n  \"command\": \"herdr x\"\n}", `{"a":1}`}},
		"an empty one": {result{OK: true, Command: "herdr x", Stdout: pointer("")}, []string{"{\n  \"ok\": true,\n  \"command\": \"herdr x\"\n}"}},
		"a match": {result{OK: true, Command: "herdr x", Data: json.RawMessage(matched)}, []string{
			"{\n  \"ok\": true,\n  \"command\": \"herdr x\",\n  \"data\": {\n    \"id\": \"x\",\n    \"result\": {\n      \"read\": {\n        \"format\": \"text\",\n        \"n\": 9007199254740993\n      },\n      \"type\": \"output_matched\"\n    }\n  }\n}",
			"a\n\"b\"\n"}},
	} {
		got := test.out.encode()
		if fmt.Sprintf("%q", got.Text) != fmt.Sprintf("%q", test.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got.Text, test.want)
		}
		if name == "a match" && !strings.Contains(string(got.Structured), `"data":`+matched) {
			t.Errorf("the structure is not whole: %s", got.Structured)
		}
	}
}

func pointer(s string) *string { return &s }

func TestShorten(t *testing.T) {
	if got := shorten(" a\n\tb  c "); got != "a b c" {
		t.Errorf("%q", got)
	}
	if got := shorten(strings.Repeat("ä ", 2000)); len([]rune(got)) != maxMessage {
		t.Errorf("%d characters", len([]rune(got)))
	}
}
