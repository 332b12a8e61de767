package response

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"herdr-link/twin"
)

// A reading is one of the three parsers.
type reading func(text, session, pinned string) (*answer, error)

func openCode(text, session, pinned string) (*answer, error) {
	return readOpenCode(context.Background(), io.NewSectionReader(strings.NewReader(text), 0, int64(len(text))), session, pinned)
}

func claude(text, session, pinned string) (*answer, error) {
	return readClaude(context.Background(), strings.NewReader(text), session, pinned)
}

func codex(text, session, pinned string) (*answer, error) {
	return readCodex(context.Background(), strings.NewReader(text), session, pinned)
}

const (
	first  = "First answer: <one> & \"two\" — done ✓"
	second = "Second answer.\n\nIt has two paragraphs, ümlauts and 🦀."
)

// What real hosts wrote. A pinned answer is found although another turn followed.
func TestRecorded(t *testing.T) {
	for _, test := range []struct {
		file    string
		read    reading
		session string
		pinned  string
		want    answer
		err     error
	}{
		{"opencode-1.18.33.json", openCode, "ses_dd0fc699fffeMecHmS7qEhlPdq", "", answer{role: "build", finish: "stop", text: []byte(second)}, nil},
		{"claude-2.1.197.jsonl", claude, "c36fe9e0-5dfb-4d3c-a1f3-7ad2a93942ef", "", answer{message: "95f52a7b-5cf5-45ee-aa7e-b707e4d901c7", role: "claude", finish: "end_turn", text: []byte(second)}, nil},
		{"claude-2.1.197.jsonl", claude, "c36fe9e0-5dfb-4d3c-a1f3-7ad2a93942ef", "7523e1ef-d32c-493b-b7fc-63169b0f5525", answer{role: "claude", finish: "end_turn", text: []byte(first)}, nil},
		{"claude-2.1.332.jsonl", claude, "", "", answer{role: "claude", finish: "end_turn", text: []byte(second)}, nil},
		{"claude-2.1.197-subagent.jsonl", claude, "93910a49-a93a-4305-ab1d-5a7dc8faa4aa", "", answer{role: "claude", finish: "end_turn", text: []byte("Final answer after the subagent")}, nil},
		{"claude-2.1.332-subagent.jsonl", claude, "60a3cbd8-598d-47d0-bef9-e459db989ab6", "", answer{role: "claude", finish: "end_turn", text: []byte("scenario finished")}, nil},
		{"claude-2.1.197-sidechain.jsonl", claude, "93910a49-a93a-4305-ab1d-5a7dc8faa4aa", "", answer{}, errNoAnswer},
		{"claude-api-error.jsonl", claude, "5f9539e5-ad91-4414-a4f1-13d0f210a2b6", "", answer{}, errNoAnswer},
		{"codex-0.171.0.jsonl", codex, "01a22f03-ae43-7903-a7ff-c3d254c4fe7f", "", answer{message: "01a22f03-af0f-77b3-ba2c-b8df21ad5e48", role: "codex", finish: "stop", text: []byte(second)}, nil},
		{"codex-0.171.0.jsonl", codex, "01a22f03-ae43-7903-a7ff-c3d254c4fe7f", "01a22f03-ae67-7fd0-a488-ab0c9e055e53", answer{role: "codex", finish: "stop", text: []byte(first)}, nil},
		{"codex-0.171.0.jsonl", codex, uuid, "", answer{}, errForeign},
		{"codex-aborted.jsonl", codex, "01a22f08-d380-7911-aba5-f628b36585a2", "", answer{}, errNoAnswer},
		{"codex-aborted.jsonl", codex, "01a22f08-d380-7911-aba5-f628b36585a2", "01a22f08-d39f-7410-baf1-614bbcec820e", answer{role: "codex", finish: "stop", text: []byte("First answer")}, nil},
		{"opencode-1.18.33.json", openCode, "ses_other", "", answer{}, errForeign},
		{"claude-2.1.197.jsonl", claude, uuid, "", answer{}, errForeign},
	} {
		if test.session == "" {
			test.session = claudeSession(t, test.file)
		}
		got, err := test.read(recorded(t, test.file), test.session, test.pinned)
		if err != nil || test.err != nil {
			if !errors.Is(err, test.err) {
				t.Errorf("%s: %v, want %v", test.file, err, test.err)
			}
			continue
		}
		if got.session != test.session || got.role != test.want.role || got.finish != test.want.finish || string(got.text) != string(test.want.text) ||
			got.message == "" || test.want.message != "" && got.message != test.want.message || test.pinned != "" && got.message != test.pinned {
			t.Errorf("%s %s: %+v, %q", test.file, test.pinned, got, got.text)
		}
	}
}

func claudeSession(t *testing.T, file string) string {
	t.Helper()
	line, _, _ := strings.Cut(recorded(t, file), "\n")
	var r struct{ SessionID string }
	if err := json.Unmarshal([]byte(line), &r); err != nil || r.SessionID == "" {
		t.Fatal(line, err)
	}
	return r.SessionID
}

// Which text is the answer in an export of OpenCode. The answer's id is that of
// the message, "" is none.
func TestOpenCodeAnswers(t *testing.T) {
	done := `"agent":"sheep-plan","finish":"stop"`
	for name, test := range map[string]struct {
		messages     []string
		pinned       string
		message      string
		text         string
		role, finish string
	}{
		"one":               {messages: []string{user("u1"), assistant("a1", "u1", done, part("yes"))}, message: "a1", text: "yes"},
		"no prompt":         {messages: []string{assistant("a1", "u1", done, part("yes"))}},
		"nothing":           {},
		"not answered yet":  {messages: []string{user("u1"), assistant("a1", "u1", done, part("yes")), user("u2")}},
		"another's answer":  {messages: []string{user("u1"), user("u2"), assistant("a1", "u1", done, part("yes"))}},
		"steps":             {messages: []string{user("u1"), assistant("a1", "u1", `"finish":"tool-calls"`, part("I look")), assistant("a2", "u1", done, part("yes"))}, message: "a2", text: "yes"},
		"ends in a call":    {messages: []string{user("u1"), assistant("a1", "u1", `"finish":"tool-calls"`, part("I look"))}},
		"call last":         {messages: []string{user("u1"), assistant("a1", "u1", done, part("yes")), assistant("a2", "u1", `"finish":"tool-calls"`, part("no"))}, message: "a1", text: "yes"},
		"the last of two":   {messages: []string{user("u1"), assistant("a1", "u1", done, part("one")), assistant("a2", "u1", done, part("two"))}, message: "a2", text: "two"},
		"the last has none": {messages: []string{user("u1"), assistant("a1", "u1", done, part("one")), assistant("a2", "u1", done, part(" \n"))}, message: "a1", text: "one"},
		"error":             {messages: []string{user("u1"), assistant("a1", "u1", done+`,"error":{"name":"x"}`, part("no"))}},
		"error is null":     {messages: []string{user("u1"), assistant("a1", "u1", done+`,"error":null`, part("yes"))}, message: "a1", text: "yes"},
		"not completed":     {messages: []string{user("u1"), strings.Replace(assistant("a1", "u1", done, part("no")), `,"completed":2`, "", 1)}},
		"completed is null": {messages: []string{user("u1"), strings.Replace(assistant("a1", "u1", done, part("no")), `"completed":2`, `"completed":null`, 1)}},
		"compaction":        {messages: []string{user("u1"), assistant("a1", "u1", done+`,"summary":true`, part("no"))}},
		"summary object":    {messages: []string{user("u1"), assistant("a1", "u1", done+`,"summary":{"diffs":[]}`, part("yes"))}, message: "a1", text: "yes"},
		"parts": {messages: []string{user("u1"), assistant("a1", "u1", done, `{"type":"step-start"}`, `{"type":"reasoning","text":"hm"}`, part("one"), `{"type":"tool","state":{"output":"x","text":"no"}}`,
			`{"type":"text","text":"no","ignored":true}`, `{"ignored":true,"text":"no","type":"text"}`, part(""), `{"type":"text","text":5}`, `{"type":"text","text":"no","text":5}`, `{"text":"two","type":"text","ignored":false}`, `"no"`)},
			message: "a1", text: "one\n\ntwo"},
		"mode":              {messages: []string{user("u1"), assistant("a1", "u1", `"mode":"plan","finish":"length"`, part("yes"))}, message: "a1", text: "yes", role: "plan", finish: "length"},
		"agent before mode": {messages: []string{user("u1"), assistant("a1", "u1", `"mode":"plan","agent":"x"`, part("yes"))}, message: "a1", text: "yes", role: "x", finish: "unknown"},
		"parts first":       {messages: []string{user("u1"), `{"parts":[` + part("yes") + `],"info":{"parentID":"u1","role":"assistant","id":"a1","time":{"completed":1},` + done + `}}`}, message: "a1", text: "yes"},
		"odd types":         {messages: []string{user("u1"), `5`, `null`, `[]`, `{"info":5,"parts":5}`, `{"info":{"id":5,"role":"assistant","parentID":"u1"}}`, assistant("a1", "u1", done, part("yes"))}, message: "a1", text: "yes"},
		"no parts":          {messages: []string{user("u1"), `{"info":{"parentID":"u1","role":"assistant","id":"a1","time":{"completed":1}}}`}},
		"pinned":            {messages: []string{user("u1"), assistant("a1", "u1", done, part("yes")), user("u2"), assistant("a2", "u2", done, part("no"))}, pinned: "a1", message: "a1", text: "yes"},
		"pinned is gone":    {messages: []string{user("u1"), assistant("a2", "u1", done, part("no"))}, pinned: "a1"},
		"pinned a prompt":   {messages: []string{user("u1"), assistant("a2", "u1", done, part("no"))}, pinned: "u1"},
		"pinned is no more": {messages: []string{user("u1"), assistant("a1", "u1", done+`,"error":{}`, part("no"))}, pinned: "a1"},
	} {
		check(t, name, openCode, session("ses_1", test.messages...), "ses_1", test.pinned,
			answer{"opencode", "ses_1", test.message, orElse(test.role, "sheep-plan"), orElse(test.finish, "stop"), []byte(test.text)})
	}
	for name, text := range map[string]string{
		"cut off": `{"info":{"id":"ses_1"},"messages":[`, "empty": "", "words": "no such thing", "not JSON": `{"info":{"id":"ses_1"},"messages":[}]}`,
	} {
		var f *fault
		if _, err := openCode(text, "ses_1", ""); !errors.As(err, &f) || f.Code != "SESSION_EXPORT_FAILED" || !f.Retryable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := openCode(`{"messages":[]}`, "ses_1", ""); !errors.Is(err, errForeign) {
		t.Errorf("without an id: %v", err)
	}
}

// check compares an answer; without a message there is to be none.
func check(t *testing.T, name string, read reading, text, session, pinned string, want answer) {
	t.Helper()
	got, err := read(text, session, pinned)
	switch {
	case want.message == "":
		if !errors.Is(err, errNoAnswer) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	case err != nil:
		t.Errorf("%s: %v", name, err)
	case fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", want):
		t.Errorf("%s:\n%+v %q\nwant\n%+v %q", name, *got, got.text, want, want.text)
	}
}

// Lines of Claude Code's.
func prompt(content string) string {
	return `{"type":"user","message":{"role":"user","content":` + content + `},"uuid":"p"}`
}

func said(uuid, message, stop, more string, blocks ...string) string {
	return `{"message":{"id":` + quote(message) + `,"content":[` + strings.Join(blocks, ",") + `],"stop_reason":` + stop + `},"type":"assistant","uuid":` + quote(uuid) + more + `}`
}

const (
	end  = `"end_turn"`
	use  = `{"type":"tool_use","name":"Bash","input":{"text":"no","type":"text"}}`
	back = `[{"type":"tool_result","content":[{"type":"text","text":"no"}]}]`
)

func TestClaudeAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		lines   []string
		pinned  string
		message string
		text    string
		finish  string
	}{
		"one":           {lines: []string{prompt(`"do"`), said("a", "m", end, "", part("yes"))}, message: "a", text: "yes"},
		"no prompt":     {lines: []string{said("a", "m", end, "", part("yes"))}, message: "a", text: "yes"}, // resumed: the prompt is in another file
		"nothing":       {},
		"not yet":       {lines: []string{prompt(`"do"`), said("a", "m", end, "", part("no")), prompt(`"again"`)}},
		"blocks":        {lines: []string{prompt(`[{"type":"text","text":"do"}]`), said("a", "m", end, "", part("one"), `{"type":"thinking","thinking":"no","text":"no"}`, part(" "), `{"text":"two","type":"text"}`)}, message: "a", text: "one\n\ntwo"},
		"a text":        {lines: []string{prompt(`"do"`), `{"type":"assistant","uuid":"a","message":{"id":"m","content":"yes","stop_reason":"end_turn"}}`}, message: "a", text: "yes"},
		"records":       {lines: []string{prompt(`"do"`), said("a", "m", "null", "", part("one")), said("b", "m", "null", ""), said("c", "m", end, "", part("two"))}, message: "c", text: "one\n\ntwo"},
		"stop before":   {lines: []string{prompt(`"do"`), said("a", "m", `"max_tokens"`, "", part("yes")), said("b", "m", "null", "")}, message: "b", text: "yes", finish: "max_tokens"},
		"older":         {lines: []string{prompt(`"do"`), said("a", "m", "null", "", part("yes"))}, message: "a", text: "yes", finish: "unknown"},
		"cut":           {lines: []string{prompt(`"do"`), said("a", "m", `"max_tokens"`, "", part("yes"))}, message: "a", text: "yes", finish: "max_tokens"},
		"after a tool":  {lines: []string{prompt(`"do"`), said("a", "m", `"tool_use"`, "", part("I look"), use), prompt(back), said("b", "n", end, "", part("yes"))}, message: "b", text: "yes"},
		"in a tool":     {lines: []string{prompt(`"do"`), said("a", "m", `"tool_use"`, "", part("I look"), use), prompt(back)}},
		"a call, null":  {lines: []string{prompt(`"do"`), said("a", "m", "null", "", part("I look")), said("b", "m", "null", "", use)}},
		"a call before": {lines: []string{prompt(`"do"`), said("a", "m", "null", "", use), said("b", "m", "null", "", part("I look"))}},
		"pause":         {lines: []string{prompt(`"do"`), said("a", "m", `"pause_turn"`, "", part("I look"))}},
		"broken run":    {lines: []string{prompt(`"do"`), said("a", "m", end, "", part("no")), prompt(back), said("b", "m", end, "", part("yes"))}, message: "b", text: "yes"},
		"two messages":  {lines: []string{prompt(`"do"`), said("a", "m", end, "", part("no")), said("b", "n", end, "", part("yes"))}, message: "b", text: "yes"},
		"no ids":        {lines: []string{prompt(`"do"`), said("a", "", end, "", part("no")), said("b", "", end, "", part("yes"))}, message: "b", text: "yes"},
		"no text":       {lines: []string{prompt(`"do"`), said("a", "m", end, "", part("no")), said("b", "n", end, "", part("  "))}},
		"no uuid":       {lines: []string{prompt(`"do"`), said("", "m", end, "", part("no"))}},
		"skipped": {lines: []string{prompt(`"do"`), said("a", "m", end, "", part("one")), `{"type":"summary","summary":"x"}`, `{"isSidechain":true,` + prompt(`"x"`)[1:], said("x", "n", end, `,"isSidechain":true`, part("no")),
			`{"isMeta":true,` + prompt(`"x"`)[1:], said("y", "o", end, `,"isApiErrorMessage":true`, part("API Error")), `5`, `[]`, `{"type":5}`, said("b", "m", end, `,"isMeta":false`, part("two"))}, message: "b", text: "one\n\ntwo"},
		"broken lines":   {lines: []string{prompt(`"do"`), `{"type":"user","message":`, said("a", "m", end, "", part("yes")), prompt(`"x"`) + " x", "\x00\x00"}, message: "a", text: "yes"},
		"pinned":         {lines: []string{prompt(`"do"`), said("a", "m", end, "", part("yes")), prompt(`"do"`), said("b", "n", end, "", part("no"))}, pinned: "a", message: "a", text: "yes"},
		"pinned, last":   {lines: []string{prompt(`"do"`), said("a", "m", end, "", part("yes"))}, pinned: "a", message: "a", text: "yes"},
		"pinned, longer": {lines: []string{prompt(`"do"`), said("a", "m", end, "", part("yes")), said("b", "m", end, "", part("no"))}, pinned: "a"},
		"pinned, gone":   {lines: []string{prompt(`"do"`), said("b", "m", end, "", part("no"))}, pinned: "a"},
	} {
		text := strings.Join(append(test.lines, ""), "\n")
		want := answer{"claude", uuid, test.message, "claude", orElse(test.finish, "end_turn"), []byte(test.text)}
		check(t, name, claude, text, uuid, test.pinned, want)
		check(t, name+", with a line that is being written", claude, text+prompt(`"half"`), uuid, test.pinned, want)
	}
}

func TestCodexAnswers(t *testing.T) {
	event := func(kind, turn, more string) string {
		return `{"type":"event_msg","payload":{"type":"` + kind + `","turn_id":"` + turn + `"` + more + `}}`
	}
	began := func(turn string) string { return event("task_started", turn, "") }
	ended := func(turn, text string) string { return event("task_complete", turn, `,"last_agent_message":`+text) }
	for name, test := range map[string]struct {
		lines   []string
		pinned  string
		message string
		text    string
	}{
		"one":              {lines: []string{began("1"), ended("1", `"yes"`)}, message: "1", text: "yes"},
		"nothing":          {},
		"not begun":        {lines: []string{ended("1", `"no"`)}},
		"without ids":      {lines: []string{began(""), ended("", `"no"`)}},
		"not ended":        {lines: []string{began("1"), ended("1", `"no"`), began("2")}},
		"another's end":    {lines: []string{began("1"), ended("2", `"no"`)}},
		"end of an older":  {lines: []string{began("1"), began("2"), ended("1", `"no"`)}},
		"empty":            {lines: []string{began("1"), ended("1", `""`)}},
		"null":             {lines: []string{began("1"), ended("1", `null`)}},
		"aborted":          {lines: []string{began("1"), ended("1", `"no"`), began("2"), event("turn_aborted", "2", "")}},
		"aborted at last":  {lines: []string{began("1"), ended("1", `"no"`), event("turn_aborted", "1", "")}},
		"after an abort":   {lines: []string{began("1"), event("turn_aborted", "1", ""), began("2"), ended("2", `"yes"`)}, message: "2", text: "yes"},
		"other records":    {lines: []string{`5`, `{"type":"response_item","payload":{"type":"task_complete","turn_id":"1","last_agent_message":"no"}}`, began("1"), ended("1", `"yes"`), `{"type":"event_msg","payload":[]}`, `{"type":`}, message: "1", text: "yes"},
		"pinned":           {lines: []string{began("1"), ended("1", `"yes"`), began("2"), ended("2", `"no"`)}, pinned: "1", message: "1", text: "yes"},
		"pinned, 2 aborts": {lines: []string{began("1"), ended("1", `"yes"`), began("2"), event("turn_aborted", "2", "")}, pinned: "1", message: "1", text: "yes"},
		"pinned, aborted":  {lines: []string{began("1"), ended("1", `"no"`), event("turn_aborted", "1", "")}, pinned: "1"},
		"pinned, gone":     {lines: []string{began("2"), ended("2", `"no"`)}, pinned: "1"},
	} {
		text := strings.Join(append(test.lines, ""), "\n")
		want := answer{"codex", uuid, test.message, "codex", "stop", []byte(test.text)}
		check(t, name, codex, text, uuid, test.pinned, want)
		check(t, name+", with a line that is being written", codex, text+began("9"), uuid, test.pinned, want)
	}
}

// Whatever is read, an answer has text, in UTF-8, and an id; and a line that is
// being written changes nothing.
func fuzz(f *testing.F, read reading, half string, seeds ...string) {
	for _, text := range seeds {
		f.Add(text)
		f.Add(text[:len(text)*2/3])
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := read(text, uuid, "")
		if err == nil && (!utf8.Valid(a.text) || blank(a.text) || a.message == "" || a.session != uuid || !plain(a.message+a.role+a.finish)) {
			t.Errorf("%+v", a)
		}
		if half != "" && strings.HasSuffix(text, "\n") {
			b, again := read(text+half, uuid, "")
			if !errors.Is(again, err) || err == nil && (string(b.text) != string(a.text) || b.message != a.message) {
				t.Errorf("%+v, %v; then %+v, %v", a, err, b, again)
			}
		}
		if err == nil {
			if b, err := read(text, uuid, a.message); err != nil || b.message != a.message {
				t.Errorf("%s is not found again: %+v, %v", a.message, b, err)
			}
		}
	})
}

func FuzzOpenCode(f *testing.F) {
	fuzz(f, openCode, "", session(uuid), session(uuid, user("u1"), assistant("a1", "u1", `"mode":"x","error":null`, part("one"), `{"type":"reasoning","text":"no"}`, part("two")), user("u2")),
		session(uuid, user("u1"), assistant("a1", "u1", `"finish":"stop"`, part("yes"))))
}

func FuzzClaude(f *testing.F) {
	fuzz(f, claude, prompt(`"half"`), strings.ReplaceAll(recorded(f, "claude-2.1.197.jsonl"), "c36fe9e0-5dfb-4d3c-a1f3-7ad2a93942ef", uuid),
		claudeAnswer("yes"), prompt(`"do"`)+"\n"+said("a", "m", "null", "", part("one"))+"\n"+said("b", "m", "null", "", use)+"\n")
}

func FuzzCodex(f *testing.F) {
	fuzz(f, codex, `{"type":"event_msg","payload":{"type":"task_started","turn_id":"t9"}}`,
		codexAnswer("yes"), codexAnswer("yes")+`{"type":"event_msg","payload":{"type":"turn_aborted","turn_id":"t1"}}`+"\n", "{}\n"+codexAnswer(""))
}

// filler is a value that is large and of no interest: in one piece, in many
// members, or deep.
var fillers = map[string]func(w io.Writer, size int){
	"a string": func(w io.Writer, size int) {
		fmt.Fprint(w, `"`)
		pour(w, `text \" \u00e4 `, size)
		fmt.Fprint(w, `"`)
	},
	"an array": func(w io.Writer, size int) {
		fmt.Fprint(w, "[0")
		pour(w, `,{"text":"no","type":"x"}`, size)
		fmt.Fprint(w, "]")
	},
	"one object": func(w io.Writer, size int) { fmt.Fprint(w, `{"":0`); pour(w, `,"key":[{}]`, size); fmt.Fprint(w, "}") },
}

func pour(w io.Writer, text string, size int) {
	piece := []byte(strings.Repeat(text, 4096))
	for ; size > len(piece); size -= len(piece) {
		_, _ = w.Write(piece)
	}
}

// A session of 64 MiB is read with little memory, wherever the bulk of it is.
func TestLargeSessions(t *testing.T) {
	if twin.Runs(t) { // smaller ones are read with the race detector
		return
	}
	const size = 64<<20 - 1<<16
	for name, fill := range fillers {
		for host, test := range map[string]struct {
			head, tail string
			read       func(ctx context.Context, r io.Reader) (*answer, error)
		}{
			"claude": {prompt(`"do"`) + "\n" + `{"type":"user","toolUseResult":`, "}\n" + said("a", "m", end, "", part("yes")) + "\n",
				func(ctx context.Context, r io.Reader) (*answer, error) { return readClaude(ctx, r, uuid, "") }},
			"codex": {`{"type":"response_item","payload":`, "}\n" + codexAnswer("yes"),
				func(ctx context.Context, r io.Reader) (*answer, error) { return readCodex(ctx, r, uuid, "") }},
		} {
			r, w := io.Pipe()
			go func() {
				fmt.Fprint(w, test.head)
				fill(w, size)
				fmt.Fprint(w, test.tail)
				w.Close()
			}()
			var a *answer
			var err error
			if got := allocated(func() { a, err = test.read(t.Context(), r) }); err != nil || string(a.text) != "yes" || got > 1<<20 {
				t.Errorf("%s with %s: %v, %v, %d bytes allocated", host, name, a, err, got)
			}
		}
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
