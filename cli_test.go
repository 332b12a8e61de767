package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"herdr-link/fakeherdr"
)

// A command is run in the pane of lead. Words in out and errs are regular
// expressions for all that was printed; "" is nothing at all.
func TestCommands(t *testing.T) {
	t.Parallel()
	const id, notFound = `hl_[a-z0-9]+_[a-z0-9]+\n`, `PEER_NOT_FOUND: no such agent[^\n]*\n`
	usage := func(words string) string { return `herdr-link: [^\n]*` + words + `[^\n]*\n` }
	for name, tc := range map[string]struct {
		args    []string
		stdin   string
		env     []string
		code    int
		out     string
		errs    string
		message string // what reviewer got; "" is nothing
		replies string // the id that it answers
	}{
		"peers":          {args: []string{"peers"}, out: `\* lead\tidle\n  reviewer\tidle\n`},
		"peers --json":   {args: []string{"peers", "--json"}, out: `\{"self":\{"name":"lead","state":"idle"\},"peers":\[\s*\{"name":"reviewer","state":"idle"\}\]\}\n`},
		"peers, a word":  {args: []string{"peers", "x"}, code: 2, errs: usage("no arguments")},
		"peers, unnamed": {args: []string{"peers"}, env: []string{"HERDR_PANE_ID=w1:p3"}, out: `\* hl-[0-9a-f]{8}\tidle\n  lead\tidle\n  reviewer\tidle\n`},

		"send":                      {args: []string{"send", "reviewer", "hi you"}, out: id, message: "hi you"},
		"send, stdin":               {args: []string{"send", "reviewer"}, stdin: "from stdin\nwith lines\n", out: id, message: "from stdin\nwith lines\n"},
		"send, a dash":              {args: []string{"send", "reviewer", "-"}, stdin: "from stdin", out: id, message: "from stdin"},
		"send, reply":               {args: []string{"send", "--reply-to", "hl_a_1", "reviewer", "hi"}, out: id, message: "hi", replies: "hl_a_1"},
		"send, reply behind":        {args: []string{"send", "reviewer", "--reply-to", "hl_a_1", "hi"}, out: id, message: "hi", replies: "hl_a_1"},
		"send, reply at last":       {args: []string{"send", "reviewer", "hi", "--reply-to=hl_a_1"}, out: id, message: "hi", replies: "hl_a_1"},
		"send, dash text":           {args: []string{"send", "reviewer", "--", "--reply-to"}, out: id, message: "--reply-to"},
		"send, -- first":            {args: []string{"send", "--", "reviewer", "-x"}, out: id, message: "-x"},
		"send, -- and stdin":        {args: []string{"send", "--", "reviewer"}, stdin: "hi", out: id, message: "hi"},
		"send, blank":               {args: []string{"send", "reviewer", " \u00a0\t"}, code: 1, errs: `SEND_FAILED: message is blank[^\n]*\n`},
		"send, empty stdin":         {args: []string{"send", "reviewer"}, code: 1, errs: `SEND_FAILED: message is blank[^\n]*\n`},
		"send, too long":            {args: []string{"send", "reviewer"}, stdin: strings.Repeat("x", 121<<10), code: 1, errs: `SEND_FAILED: message is too long: \d+ of at most 122880[^\n]*\n`},
		"send, beyond all":          {args: []string{"send", "reviewer"}, stdin: strings.Repeat("x", 5<<20), code: 1, errs: `SEND_FAILED: message is too long[^\n]*\n`},
		"send, not UTF-8":           {args: []string{"send", "reviewer"}, stdin: "a\xffb", code: 1, errs: `SEND_FAILED: message is not valid Unicode[^\n]*\n`},
		"send, bad reply":           {args: []string{"send", "--reply-to", "x", "reviewer", "hi"}, code: 1, errs: `SEND_FAILED: reply_to[^\n]*\n`},
		"send, empty reply":         {args: []string{"send", "--reply-to", "", "reviewer", "hi"}, code: 1, errs: `SEND_FAILED: reply_to[^\n]*\n`},
		"send, nobody":              {args: []string{"send", "nobody", "hi"}, code: 1, errs: notFound},
		"send, other workspace":     {args: []string{"send", "builder", "hi"}, code: 1, errs: notFound},
		"send, oneself":             {args: []string{"send", "lead", "hi"}, code: 1, errs: notFound},
		"send, no name":             {args: []string{"send"}, stdin: "hi", code: 2, errs: usage("send")},
		"send, three words":         {args: []string{"send", "reviewer", "a", "b"}, code: 2, errs: usage("in quotes, or give them on stdin")},
		"send, bad option":          {args: []string{"send", "--wait", "reviewer", "hi"}, code: 2, errs: usage("no such option: --wait; see herdr-link send --help")},
		"send, no such option":      {args: []string{"send", "reviewer", "-x"}, code: 2, errs: usage(`no such option: -x \(a text that begins with a dash stands behind --\)`)},
		"send, option without word": {args: []string{"send", "reviewer", "hi", "--reply-to"}, code: 2, errs: usage("--reply-to needs a value; see")},

		"close":        {args: []string{"close", "reviewer"}},
		"close, --":    {args: []string{"close", "--", "reviewer"}},
		"close nobody": {args: []string{"close", "nobody"}, code: 1, errs: notFound},
		"close a pane": {args: []string{"close", "w1:p2"}, code: 1, errs: notFound},
		"close, none":  {args: []string{"close"}, code: 2, errs: usage("close")},
		"close two":    {args: []string{"close", "reviewer", "lead"}, code: 2, errs: usage("close")},

		"bootstrap":          {args: []string{"bootstrap"}, out: `lead\n`},
		"bootstrap, unnamed": {args: []string{"bootstrap"}, out: `hl-\w{8}\n`, env: []string{"HERDR_PANE_ID=w1:p3"}},
		"bootstrap, shell":   {args: []string{"bootstrap"}, env: []string{"HERDR_PANE_ID=w1:p4"}, code: 1, errs: `SELF_UNNAMED: [^\n]*\n`},
		"bootstrap, a word":  {args: []string{"bootstrap", "x"}, code: 2, errs: usage("")},

		"call peers":         {args: []string{"call", "herdr_link_peers"}, out: `\{"content":\[.*"structuredContent":\{"self":\{"name":"lead".*\}\n`},
		"call with {}":       {args: []string{"call", "herdr_link_peers"}, stdin: " {} \n", out: `\{"content":\[.*\n`},
		"call gateway":       {args: []string{"call", "herdr_link"}, out: `\{"content":.*"status":"active".*\n`},
		"call by action":     {args: []string{"call", "herdr_link"}, stdin: `{"action":"send","to":"reviewer","message":"hi"}`, out: `\{"content":.*"status":"sent".*\n`, message: "hi"},
		"call send":          {args: []string{"call", "herdr_link_send"}, stdin: `{"to":"reviewer","message":"hi","reply_to":"hl_a_1"}`, out: `\{"content":.*"status":"sent".*\n`, message: "hi", replies: "hl_a_1"},
		"call close":         {args: []string{"call", "herdr_link_close"}, stdin: `{"agent":"reviewer"}`, out: `\{"content":.*"status":"closed".*\n`},
		"call, an error":     {args: []string{"call", "herdr_link_send"}, stdin: `{"to":"nobody","message":"hi"}`, code: 0, out: `\{"content":\[\{"type":"text","text":"PEER_NOT_FOUND: .*"\}\],"isError":true\}\n`},
		"call, bad argument": {args: []string{"call", "herdr_link_send"}, stdin: `{}`, code: 0, out: `.*SEND_FAILED: message.*"isError":true\}\n`},
		"call, an array":     {args: []string{"call", "herdr_link_send"}, stdin: `[]`, code: 0, out: `.*object.*"isError":true\}\n`},
		"call, no JSON":      {args: []string{"call", "herdr_link_send"}, stdin: `{`, code: 2, errs: usage("JSON")},
		"call, not UTF-8":    {args: []string{"call", "herdr_link_send"}, stdin: "{\"to\":\"\xff\"}", code: 2, errs: usage("JSON")},
		"call, too long":     {args: []string{"call", "herdr_link_send"}, stdin: `{"to":"` + strings.Repeat("x", 4<<20) + `"}`, code: 2, errs: usage("longer")},
		"call, unknown":      {args: []string{"call", "herdr_link_dance"}, code: 2, errs: usage(`no such tool: "herdr_link_dance"; herdr-link tools`)},
		"call, other set":    {args: []string{"call", "herdr_agent_response"}, code: 2, errs: usage("no such tool without --toolsets response: herdr_agent_response")},
		"call, link is off":  {args: []string{"call", "herdr_link", "--toolsets", "control"}, code: 2, errs: usage("without --toolsets link: herdr_link")},
		"call, no name":      {args: []string{"call"}, code: 2, errs: usage("call")},
		"call, outside":      {args: []string{"call", "herdr_link_peers"}, env: []string{"HERDR_ENV="}, code: 0, out: `.*NOT_IN_HERDR: .*"isError":true\}\n`},
		"call gateway out":   {args: []string{"call", "herdr_link"}, env: []string{"HERDR_ENV="}, code: 0, out: `.*NOT_IN_HERDR: .*"isError":true\}\n`},

		"outside, peers":     {args: []string{"peers"}, env: []string{"HERDR_ENV="}, code: 1, errs: `NOT_IN_HERDR: [^\n]*\n`},
		"outside, send":      {args: []string{"send", "reviewer", "hi"}, env: []string{"HERDR_LINK_OFF=1"}, code: 1, errs: `NOT_IN_HERDR: [^\n]*\n`},
		"outside, close":     {args: []string{"close", "reviewer"}, env: []string{"HERDR_PANE_ID="}, code: 1, errs: `NOT_IN_HERDR: [^\n]*\n`},
		"outside, referred":  {args: []string{"peers"}, env: []string{"HERDR_BIN_PATH=${HERDR_BIN_PATH}"}, code: 1, errs: `NOT_IN_HERDR: this process is not in a Herdr pane: [^\n]*\n`},
		"outside, pointed":   {args: []string{"peers"}, env: []string{"HERDR_PANE_ID=${env:HERDR_PANE_ID}"}, code: 1, errs: `NOT_IN_HERDR: this process is not in a Herdr pane: [^\n]*\n`},
		"referred":           {args: []string{"peers"}, env: []string{"HERDR_SOCKET_PATH=${HERDR_SOCKET_PATH}", "HERDR_SESSION=${env:HERDR_SESSION}"}, out: `\* lead\t[^\n]*\n  reviewer\t[^\n]*\n`},
		"outside, bootstrap": {args: []string{"bootstrap"}, env: []string{"HERDR_BIN_PATH="}, code: 1, errs: `NOT_IN_HERDR: [^\n]*\n`},

		"version":             {args: []string{"version"}, out: `herdr-link \d+\.\d+\.\d+[^\n]*\n`},
		"--version":           {args: []string{"--version"}, out: `herdr-link \d+\.\d+\.\d+[^\n]*\n`},
		"version --json":      {args: []string{"version", "--json"}, out: `\{"name":"herdr-link","version":"[^"]+","protocol":"herdr-link/1",.*\}\n`},
		"version, a word":     {args: []string{"version", "x"}, code: 2, errs: usage("")},
		"no such command":     {args: []string{"dance"}, code: 2, errs: usage("dance")},
		"no such option":      {args: []string{"--dance"}, code: 2, errs: usage("no such option: --dance")},
		"one dash":            {args: []string{"-dance=x"}, code: 2, errs: usage("no such option: -dance")},
		"three dashes":        {args: []string{"status", "---json"}, code: 2, errs: usage("no such option: ---json")},
		"no truth":            {args: []string{"status", "--json=maybe"}, code: 2, errs: usage(`invalid boolean value "maybe" for --json: parse error`)},
		"no such value":       {args: []string{"orchestration", "install", "--allow-tool", "-json: x"}, code: 2, errs: usage(`for --allow-tool: no tool that can be added`)},
		"server, a word":      {args: []string{"--eager", "x"}, code: 2, errs: usage("")},
		"help of nothing":     {args: []string{"help", "dance"}, code: 2, errs: usage("dance")},
		"server, no input":    {args: nil},
		"server outside":      {args: nil, env: []string{"HERDR_ENV="}},
		"tools":               {args: []string{"tools"}, out: `(herdr_link\w* +[^\n]+\n){4}`},
		"tools, a word":       {args: []string{"tools", "x"}, code: 2, errs: usage("")},
		"tools, unknown set":  {args: []string{"tools", "--json", "--toolsets", "dance"}, code: 2, errs: usage("dance")},
		"timeout, no unit":    {args: nil, env: []string{"HERDR_LINK_TIMEOUT=10"}, code: 2, errs: usage("HERDR_LINK_TIMEOUT")},
		"timeout, zero":       {args: nil, env: []string{"HERDR_LINK_TIMEOUT=0s"}, code: 2, errs: usage("HERDR_LINK_TIMEOUT")},
		"timeout, negative":   {args: []string{"peers"}, env: []string{"HERDR_LINK_TIMEOUT=-1s"}, code: 2, errs: usage("HERDR_LINK_TIMEOUT")},
		"timeout, many lines": {args: []string{"peers"}, env: []string{"HERDR_LINK_TIMEOUT=1\n2\n3"}, code: 2, errs: usage("HERDR_LINK_TIMEOUT")},
		"era, variable":       {args: nil, env: []string{"HERDR_LINK_ERA=2025-11-25"}, code: 2, errs: usage("era")},
		"era, flag":           {args: []string{"--era", "x"}, code: 2, errs: usage("era")},
		"eager, variable":     {args: nil, env: []string{"HERDR_LINK_EAGER=yes"}, code: 2, errs: usage("HERDR_LINK_EAGER")},
		"toolsets, variable":  {args: nil, env: []string{"HERDR_LINK_TOOLSETS=dance"}, code: 2, errs: usage("dance")},
		"send, -h":            {args: []string{"send", "reviewer", "-h"}, code: 2, errs: usage("--")},
		"send, --help":        {args: []string{"send", "reviewer", "--help"}, code: 2, errs: usage("--")},
		"send, -- -h":         {args: []string{"send", "reviewer", "--", "-h"}, out: `hl_\S+\n`, message: "-h"},
		"probe, no program":   {args: []string{"probe", "--", "/nowhere/server"}, code: 2, errs: usage("--run")},
		"probe, no patience":  {args: []string{"probe", "--patience", "0s"}, code: 2, errs: usage("--patience")},
		"probe, patience":     {args: []string{"probe", "--patience", "50ms", "--run", "rpc/ping", "--", "sleep", "60"}, code: 1, out: `FAIL [^\n]*(in 50ms|time of the (check|whole probe) was over)\n.*`},
		"toolsets, none":      {args: []string{"--toolsets", ""}, env: []string{"HERDR_LINK_TOOLSETS=link"}, code: 2, errs: usage("toolset")},
		"toolsets, twice":     {args: []string{"tools", "--toolsets", "link, link"}, out: `herdr_link (.*\n){4}`},
		"toolsets, flag":      {args: []string{"--toolsets", "link,dance"}, code: 2, errs: usage("dance")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			env := inPane(t, s, "w1:p1", tc.env...)
			out, errs, code := run(t, env, tc.stdin, tc.args...)
			if code != tc.code {
				t.Errorf("exit %d, not %d", code, tc.code)
			}
			for stream, texts := range map[string][2]string{"stdout": {out, tc.out}, "stderr": {errs, tc.errs}} {
				if !regexp.MustCompile(`\A(?s:` + texts[1] + `)\z`).MatchString(texts[0]) {
					t.Errorf("%s: %q, not %s", stream, texts[0], texts[1])
				}
			}
			prompts := commands(t, s, "agent", "prompt")
			if tc.message == "" {
				if len(prompts) > 0 {
					t.Errorf("sent: %q", prompts)
				}
				return
			}
			if got := received(t, s, "w1:p2", 1); !slices.Equal(got, []string{tc.message}) {
				t.Errorf("received %q", got)
			}
			if has := strings.Contains(prompts[0][3], `"reply_to":"`+tc.replies+`"`); has != (tc.replies != "") {
				t.Errorf("reply_to: %q", prompts[0][3])
			}
		})
	}
}

// send prints the id that the message has.
func TestSendPrintsID(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	out, errs, code := run(t, inPane(t, s, "w1:p1"), "", "send", "reviewer", "hi")
	id := strings.TrimSuffix(out, "\n")
	if prompts := commands(t, s, "agent", "prompt"); code != 0 || len(prompts) != 1 || !strings.Contains(prompts[0][3], `"id":"`+id+`"`) {
		t.Errorf("%q, %s, %q", out, errs, prompts)
	}
}

// A command really does what it says.
func TestCommandEffects(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	if out, errs, code := run(t, inPane(t, s, "w1:p3"), "", "bootstrap"); code != 0 || !strings.HasPrefix(out, "hl-") || errs != "" {
		t.Errorf("bootstrap: %d, %s%s", code, out, errs)
	}
	if out, errs, code := run(t, inPane(t, s, "w1:p1"), "", "close", "reviewer"); code != 0 || out+errs != "" {
		t.Errorf("close: %d, %s%s", code, out, errs)
	}
	w, err := s.World()
	if err != nil {
		t.Fatal(err)
	}
	if w.Pane("w1:p2") != nil || !regexp.MustCompile(`^hl-[0-9a-f]{8}$`).MatchString(w.Pane("w1:p3").Agent.Name) || w.Pane("w1:p1").Agent.Name != "lead" {
		t.Errorf("the world: %+v", w)
	}
}

// A Herdr that does not run is told on stderr, with exit 1.
func TestCommandsWithoutServer(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	fault(t, s, fakeherdr.Down)
	for _, args := range [][]string{{"peers"}, {"send", "reviewer", "hi"}, {"close", "reviewer"}, {"bootstrap"}} {
		out, errs, code := run(t, inPane(t, s, "w1:p1"), "", args...)
		if code != 1 || out != "" || !strings.HasPrefix(errs, "NOT_IN_HERDR: ") || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, errs)
		}
	}
}

// Help is on stdout, with exit 0, for all there is.
func TestHelp(t *testing.T) {
	t.Parallel()
	env := inPane(t, nil, "")
	overview, _, code := run(t, env, "", "--help")
	if code != 0 {
		t.Fatalf("exit %d", code)
	}
	for _, args := range [][]string{{"-h"}, {"help"}, {"--eager", "--help"}} {
		if out, errs, code := run(t, env, "", args...); code != 0 || out != overview || errs != "" {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, errs)
		}
	}
	for _, name := range []string{"peers", "send", "close", "bootstrap", "tools", "call", "version"} {
		if !strings.Contains(overview, "\n  "+name+" ") {
			t.Errorf("the overview lacks %s", name)
		}
		for _, args := range [][]string{{name, "--help"}, {name, "-h"}, {"help", name}, {name, "x", "--help"}} {
			if name == "send" && args[1] == "x" {
				continue // it could be meant as the message: see TestCommands
			}
			if out, errs, code := run(t, env, "", args...); code != 0 || !strings.HasPrefix(out, "Usage: herdr-link "+name) || errs != "" {
				t.Errorf("%s: exit %d, %q, %q", args, code, out, errs)
			}
		}
	}
	for _, name := range []string{"HERDR_LINK_OFF", "HERDR_LINK_EAGER", "HERDR_LINK_ERA", "HERDR_LINK_TOOLSETS", "HERDR_LINK_TIMEOUT", "HERDR_LINK_LOG",
		"HERDR_LINK_CLI_TIMEOUT_MS", "HERDR_LINK_PREVIEW_REQUIRED", "HERDR_LINK_AGENT_ARGS", "HERDR_MESH_STATE_DIR"} {
		if !strings.Contains(overview, name) {
			t.Errorf("the overview lacks %s", name)
		}
	}
}

// tools --json says everywhere the same, and the same as an active server.
func TestToolsJSON(t *testing.T) {
	t.Parallel()
	type listed struct {
		Version  string
		Tools    []json.RawMessage
		Contract string
		Hint     string
	}
	s := newScene(t)
	inside, _, _ := run(t, inPane(t, s, "w1:p1"), "", "tools", "--json")
	outside, errs, code := run(t, inPane(t, nil, ""), "", "tools", "--json", "--toolsets", "link")
	if code != 0 || errs != "" || inside != outside {
		t.Errorf("exit %d, %s; inside %.300s, outside %.300s", code, errs, inside, outside)
	}
	var l listed
	if err := json.Unmarshal([]byte(outside), &l); err != nil || strings.Count(outside, "\n") != 1 {
		t.Fatal(err)
	}
	version, err := os.ReadFile("version.txt")
	if err != nil || l.Version != strings.TrimSpace(string(version)) {
		t.Errorf("version %q, %v", l.Version, err)
	}
	h := start(t, inPane(t, s, "w1:p1"))
	var hello struct{ Instructions string }
	if err := json.Unmarshal(h.initialize("2025-11-25"), &hello); err != nil || l.Hint == "" || hello.Instructions != l.Hint {
		t.Errorf("hint %q, instructions %q", l.Hint, hello.Instructions)
	}
	var active struct{ Contract string }
	if err := json.Unmarshal(h.call("herdr_link", "{}").StructuredContent, &active); err != nil || l.Contract == "" || active.Contract != l.Contract {
		t.Errorf("contract %q, %q", l.Contract, active.Contract)
	}
	var served struct{ Tools []json.RawMessage }
	if err := json.Unmarshal(h.answer(h.request("tools/list", "")).Result, &served); err != nil || !slices.EqualFunc(served.Tools, l.Tools, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
		t.Errorf("served %s, printed %s", served.Tools, l.Tools)
	}
	if n := len(commands(t, s)); n > 1 {
		t.Errorf("%d calls of Herdr", n)
	}
}
