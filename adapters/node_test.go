package adapters

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// These tests load the adapters in Node, with a stand-in for the host around
// them (testdata/hosts.mjs) and this test binary in the program's place.

// playsProgram is the environment variable with which this test binary plays
// the program. It names the journal: a line a process.
const playsProgram = "HERDR_LINK_TEST_JOURNAL"

func TestMain(m *testing.M) {
	if journal := os.Getenv(playsProgram); journal != "" {
		os.Exit(play(journal, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// described is what the program says about itself: other texts than the real
// ones, so that it shows where they come from.
const described = `{"version":"9.9.9","tools":[
{"name":"herdr_link","title":"T0","description":"D0","inputSchema":{"type":"object","properties":{"action":{"type":"string"},"arguments":{"type":"object"}}},"annotations":{"destructiveHint":true}},
{"name":"herdr_link_peers","title":"T1","description":"D1","inputSchema":{"type":"object","properties":{}},"annotations":{"destructiveHint":false}},
{"name":"herdr_link_send","title":"T2","description":"D2","inputSchema":{"type":"object","properties":{"to":{"type":"string"}}},"annotations":{"destructiveHint":false}},
{"name":"herdr_link_close","title":"T3","description":"D3","inputSchema":{"type":"object","properties":{"agent":{"type":"string"}}},"annotations":{"destructiveHint":true}},
{"name":"another","title":"T4","description":"D4","inputSchema":{"type":"object","properties":{}},"annotations":{"destructiveHint":false}}
],"contract":"CONTRACT","hint":"HINT"}`

// A process is one run of the program, as it wrote it down before it acted.
type process struct {
	Args  []string `json:"args"`
	Stdin string   `json:"stdin"`
	Eager string   `json:"eager"`
	PID   int      `json:"pid"`
	Ended bool     `json:"ended"` // this line is of its end
}

func play(journal string, args []string) int {
	p := process{Args: args, Eager: os.Getenv("HERDR_LINK_EAGER"), PID: os.Getpid()}
	if args[0] == "call" {
		input, err := io.ReadAll(os.Stdin)
		if err != nil {
			return 3
		}
		p.Stdin = string(input)
	}
	if !p.write(journal) {
		return 3
	}
	switch {
	case args[0] == "tools":
		fmt.Println(described)
	case strings.Contains(p.Stdin, `"fail"`):
		fmt.Println(`{"content":[{"type":"text","text":"CODE: why"}],"isError":true}`)
	case strings.Contains(p.Stdin, `"misuse"`):
		fmt.Fprintln(os.Stderr, "what was wrong")
		return 2
	case strings.Contains(p.Stdin, `"flood"`):
		for line := bytes.Repeat([]byte("x"), 1<<20); ; {
			if _, err := os.Stdout.Write(line); err != nil {
				return 1
			}
		}
	case strings.Contains(p.Stdin, `"hang"`):
		time.Sleep(5 * time.Second)
	case p.Stdin == "{}" && args[1] == "herdr_link":
		fmt.Println(`{"content":[{"type":"text","text":"ACTIVE CONTRACT"}],"structuredContent":{"contract":"CONTRACT"}}`)
	case args[0] == "call":
		// These two end behind one that must not wait for them.
		switch {
		case strings.Contains(p.Stdin, `"first"`):
			await(journal, `"beside"`)
		case strings.Contains(p.Stdin, `"slow"`):
			await(journal, `"second"`)
		}
		fmt.Println(`{"content":[{"type":"text","text":"DONE"}],"structuredContent":{"done":true}}`)
	}
	p.Ended = true
	p.write(journal)
	return 0
}

// await waits until a process with that in its arguments has ended.
func await(journal, what string) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		all, err := read(journal)
		if err == nil && slices.ContainsFunc(all, func(p process) bool { return p.Ended && p.has(what) }) {
			time.Sleep(200 * time.Millisecond) // for those that should wait and do not
			return
		}
	}
}

// has says whether what stands in its arguments, be they argv or JSON.
func (p process) has(what string) bool {
	return strings.Contains(strings.Join(p.Args, " ")+" "+p.Stdin, what)
}

func read(journal string) (all []process, err error) {
	data, err := os.ReadFile(journal)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(data) {
		var p process
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func (p process) write(journal string) bool {
	line, _ := json.Marshal(p)
	f, err := os.OpenFile(journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	_, err = f.Write(append(line, '\n'))
	return err == nil && f.Close() == nil
}

// what the stand-in host saw.
type tool struct {
	Name          string          `json:"name"`
	Label         string          `json:"label"`
	Description   string          `json:"description"`
	Parameters    json.RawMessage `json:"parameters"`
	Args          json.RawMessage `json:"args"`
	ExecutionMode string          `json:"executionMode"`
}

type piState struct {
	Active []string `json:"active"`
	Prompt string   `json:"prompt"`
}

type piResult struct {
	Content []struct{ Type, Text string } `json:"content"`
	Details json.RawMessage               `json:"details"`
}

type aborted struct {
	Error     string `json:"error"`
	Lives     bool   `json:"lives"`
	Before    string `json:"before"`
	Processes int    `json:"processes"`
}

// load runs the stand-in of a host and reads what it saw into seen.
func load(t *testing.T, host, binary string, seen any, env ...string) []process {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not on PATH: the adapters are not loaded")
	}
	dir := t.TempDir()
	text := string(makers[host](binary, "V"))
	if host == "pi" { // older Node does not take types away by itself
		for _, types := range []string{"import type { ExtensionAPI } from \"@earendil-works/pi-coding-agent\";\n", ": ExtensionAPI"} {
			if strings.Count(text, types) != 1 {
				t.Fatalf("not once in it: %s", types)
			}
			text = strings.Replace(text, types, "", 1)
		}
	}
	file, journal := filepath.Join(dir, "adapter.mjs"), filepath.Join(dir, "journal")
	for name, content := range map[string]string{file: text, journal: ""} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(node, filepath.Join("testdata", "hosts.mjs"), host, file, journal)
	cmd.Env = append(os.Environ(), "HERDR_ENV=1", "HERDR_PANE_ID=pane", "HERDR_BIN_PATH=herdr", "HERDR_LINK_OFF=", "HERDR_LINK_EAGER=1", "GORACE=atexit_sleep_ms=0", playsProgram+"="+journal)
	cmd.Env = append(cmd.Env, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, &stderr)
	}
	if err := json.Unmarshal(out, seen); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	all, err := read(journal)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

const bootstraps = "HERDR_LINK_TEST_BOOTSTRAPS=1"

func TestPi(t *testing.T) {
	t.Parallel()
	var seen struct {
		Loading                     []string
		Tools                       []tool
		Dormant, Active, Next       piState
		Activation, ByAction, Again piResult
		Error, Misuse, Flood        string
		Abort                       aborted
		Notes                       []string
	}
	all := load(t, "pi", self(t), &seen, bootstraps)

	if len(seen.Loading) != 0 || len(seen.Tools) != 5 {
		t.Fatalf("%d tools while loading, %d then", len(seen.Loading), len(seen.Tools))
	}
	for i, mode := range []string{"sequential", "parallel", "parallel", "sequential", "parallel"} {
		got := seen.Tools[i]
		if got.Label != fmt.Sprint("T", i) || got.Description != fmt.Sprint("D", i) || got.ExecutionMode != mode || !strings.HasPrefix(string(got.Parameters), `{"type":"object"`) {
			t.Errorf("tool %d: %+v", i, got)
		}
	}
	dormant := piState{[]string{"read", "bash", "herdr_link", "another"}, "untouched"}
	active := piState{append(slices.Clone(dormant.Active), "herdr_link_peers", "herdr_link_send", "herdr_link_close"), "BASE\n\nCONTRACT"}
	for name, c := range map[string][2]piState{
		"at the start": {seen.Dormant, dormant}, "activated": {seen.Active, active}, "a new session": {seen.Next, dormant},
	} {
		if !reflect.DeepEqual(c[0], c[1]) {
			t.Errorf("%s: %+v, not %+v", name, c[0], c[1])
		}
	}
	for name, c := range map[string]struct {
		got  piResult
		want []string
	}{
		"the gateway tells the contract itself": {seen.Activation, []string{"ACTIVE CONTRACT"}},
		"another action does not":               {seen.ByAction, []string{"DONE", "CONTRACT"}},
		"once is enough":                        {seen.Again, []string{"DONE"}},
	} {
		var texts []string
		for _, part := range c.got.Content {
			texts = append(texts, part.Text)
		}
		if !slices.Equal(texts, c.want) {
			t.Errorf("%s: %q", name, texts)
		}
	}
	if seen.Error != "Error: CODE: why" || seen.Misuse != "Error: what was wrong" || seen.Flood != "Error: herdr-link: ERR_CHILD_PROCESS_STDIO_MAXBUFFER" {
		t.Errorf("errors: %q, %q, %q", seen.Error, seen.Misuse, seen.Flood)
	}
	if len(seen.Notes) > 0 {
		t.Errorf("noted: %q", seen.Notes)
	}
	checkAbort(t, seen.Abort)
	checkProcesses(t, all)
	checkOrder(t, all)
}

func TestOpenCode(t *testing.T) {
	t.Parallel()
	type result struct {
		Title, Output string
		Metadata      json.RawMessage
	}
	var seen struct {
		Exports              int
		Failed               string
		Tools                map[string]tool
		Definition, Foreign  json.RawMessage
		Dormant, Active      []string
		Both, Idle, Deleted  []string
		Activation, ByAction result
		Error                string
		Abort                aborted
		Asked                []struct {
			Permission string
			Patterns   []string
		}
	}
	all := load(t, "opencode", self(t), &seen, bootstraps)

	if seen.Exports != 1 || seen.Failed != "" {
		t.Errorf("%d exports; failed: %q", seen.Exports, seen.Failed)
	}
	if len(seen.Tools) != 2 || seen.Tools["herdr_link"].Description != "D0" || seen.Tools["another"].Description != "D4" {
		t.Errorf("tools: %+v", seen.Tools)
	}
	if want := `{"type":"object","properties":{"action":{"type":"string"},"arguments":{"type":"object"}}}`; string(seen.Definition) != want {
		t.Errorf("what the model sees: %s", seen.Definition)
	}
	if string(seen.Foreign) != `{"required":["all"]}` {
		t.Errorf("a tool of others was changed: %s", seen.Foreign)
	}
	const with, without = "BASE\n\nCONTRACT", "BASE"
	for name, c := range map[string][2][]string{
		"at the start":                   {seen.Dormant, {without, without, without}},
		"one is activated":               {seen.Active, {with, without, without}},
		"the other, too":                 {seen.Both, {with, with}},
		"nothing but a deletion ends it": {seen.Idle, {with, with}},
		"the first has been deleted":     {seen.Deleted, {without, with}},
	} {
		if !slices.Equal(c[0], c[1]) {
			t.Errorf("%s: %q, not %q", name, c[0], c[1])
		}
	}
	if seen.Activation.Output != "ACTIVE CONTRACT" || seen.ByAction.Output != "DONE" || seen.ByAction.Title != "T0" {
		t.Errorf("results: %+v, %+v", seen.Activation, seen.ByAction)
	}
	if seen.Error != "Error: CODE: why" {
		t.Errorf("error: %q", seen.Error)
	}
	if len(seen.Asked) < 3 || seen.Asked[0].Permission != "herdr_link" || seen.Asked[0].Patterns[0] != "*" || seen.Asked[1].Patterns[0] != "peers" {
		t.Errorf("asked for: %+v", seen.Asked)
	}
	checkAbort(t, seen.Abort)
	checkProcesses(t, all)
	checkOrder(t, all)
}

// checkAbort: the process is gone when the call has settled, and what is
// aborted before it begins starts none.
func checkAbort(t *testing.T, a aborted) {
	t.Helper()
	want := "AbortError: " // and then what Node says
	a.Error, a.Before = a.Error[:min(len(want), len(a.Error))], a.Before[:min(len(want), len(a.Before))]
	if a != (aborted{Error: want, Before: want, Processes: 1}) {
		t.Errorf("aborted: %+v", a)
	}
}

// checkProcesses: asked once, named once a session, arguments never in argv.
func checkProcesses(t *testing.T, all []process) {
	t.Helper()
	count := map[string]int{}
	for _, p := range all {
		if p.Ended {
			continue
		}
		count[p.Args[0]]++
		if p.Eager != "0" {
			t.Errorf("%q: eager is %q", p.Args, p.Eager)
		}
		if p.Args[0] == "call" && (len(p.Args) != 2 || !json.Valid([]byte(p.Stdin))) {
			t.Errorf("%q with stdin %q", p.Args, p.Stdin)
		}
	}
	if count["tools"] != 1 || count["bootstrap"] == 0 || count["bootstrap"] > 2 {
		t.Errorf("processes: %v", count)
	}
}

// checkOrder: calls for one target in the order of their arrival, each behind
// the end of the one before, and a close alone.
func checkOrder(t *testing.T, all []process) {
	t.Helper()
	var order []string
	for _, p := range all {
		for _, name := range []string{"first", "second", "agent", "after the close"} {
			if strings.Contains(p.Stdin, `"`+name+`"`) {
				order = append(order, fmt.Sprintf("%s %v", name, p.Ended))
			}
		}
		if strings.Contains(p.Stdin, "null") && !strings.Contains(p.Stdin, `"action"`) {
			t.Errorf("a null was passed on: %s", p.Stdin)
		}
	}
	want := []string{"first false", "first true", "second false", "second true", "agent false", "agent true", "after the close false", "after the close true"}
	if !slices.Equal(order, want) {
		t.Errorf("order: %q", order)
	}
	last := func(is func(process) bool) int {
		for i := len(all) - 1; i >= 0; i-- {
			if is(all[i]) {
				return i
			}
		}
		return -1
	}
	end := func(what string) int {
		return last(func(p process) bool { return p.Ended && p.has(what) })
	}
	closing := last(func(p process) bool { return !p.Ended && strings.Contains(p.Stdin, `"agent"`) })
	if slow, second := end(`"slow"`), end(`"second"`); second < 0 || second > slow {
		t.Error("a message waited for one to another agent")
	} else if closing < slow {
		t.Error("the close did not wait for a message that was sent before it")
	}
	if peers := end(`"beside"`); peers < 0 || peers > end(`"first"`) {
		t.Error("peers waited for others")
	}
	if end(`"hang"`) >= 0 {
		t.Error("an aborted call went on to its end")
	}
}

// Pi ends if two extensions load a tool of the same name; the second copy keeps
// out of the way, and a model reads the contract once.
func TestPiTwice(t *testing.T) {
	t.Parallel()
	var seen struct {
		Tools           []tool
		Dormant, Active piState
	}
	load(t, "pi", self(t), &seen, bootstraps, "HERDR_LINK_TEST_TWICE=1")
	if len(seen.Tools) != 5 || seen.Dormant.Prompt != "untouched|untouched" || seen.Active.Prompt != "BASE\n\nCONTRACT|untouched" {
		t.Errorf("saw %+v", seen)
	}
}

func TestOutside(t *testing.T) {
	t.Parallel()
	for host := range makers {
		for _, env := range []string{"HERDR_ENV=", "HERDR_ENV=0", "HERDR_PANE_ID=", "HERDR_BIN_PATH=", "HERDR_LINK_OFF=1"} {
			t.Run(host+" "+env, func(t *testing.T) {
				t.Parallel()
				var seen struct {
					Tools   []tool
					Hooks   []string
					Dormant piState
				}
				all := load(t, host, self(t), &seen, env)
				if len(all) > 0 || len(seen.Tools) > 0 || len(seen.Hooks) > 0 {
					t.Errorf("%d processes, saw %+v", len(all), seen)
				}
				if host == "pi" && !slices.Equal(seen.Dormant.Active, []string{"read", "bash"}) {
					t.Errorf("active: %q", seen.Dormant.Active)
				}
			})
		}
	}
}

// A program that is gone must not keep the host from working.
func TestProgramGone(t *testing.T) {
	t.Parallel()
	for host := range makers {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			var seen struct {
				Tools  []tool
				Hooks  []string
				Notes  []string
				Failed string
			}
			load(t, host, filepath.Join(t.TempDir(), "herdr-link"), &seen)
			if len(seen.Tools)+len(seen.Hooks) > 0 || strings.Join(seen.Notes, "")+seen.Failed != "herdr-link: ENOENT" {
				t.Errorf("saw %+v", seen)
			}
		})
	}
}

// A path with all that a language or a shell could take for its own.
func TestOddPath(t *testing.T) {
	t.Parallel()
	odd := "it's \"odd\" \\u0041 $(x) `y` ${z} 程序 😀\n\u2028;&|*"
	if runtime.GOOS == "windows" {
		odd = "it's odd $(x) `y` ${z} 程序 😀\u2028;&"
	}
	for host := range makers {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), odd)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Skip("no such name in this file system: ", err)
			}
			path := filepath.Join(dir, "herdr-link.exe")
			if err := os.Symlink(self(t), path); err != nil {
				t.Skip("no links here: ", err)
			}
			var seen struct{ Activation json.RawMessage }
			if load(t, host, path, &seen, bootstraps); !strings.Contains(string(seen.Activation), "ACTIVE") {
				t.Errorf("activation: %s", seen.Activation)
			}
		})
	}
}
