package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"herdr-link/fakeherdr"
)

const secret = "xyzzy-4711-plugh"

// A message's text stands in no answer, no log and no word on stderr, whatever
// goes wrong with it, and even if Herdr repeats it.
func TestMessageStaysSecret(t *testing.T) {
	t.Parallel()
	faults := []fakeherdr.Fault{{Kind: fakeherdr.Slow}}
	for _, match := range [][]string{{"agent", "get", "reviewer"}, {"agent", "prompt"}} {
		for _, f := range []fakeherdr.Fault{
			{Kind: fakeherdr.Hang}, {Kind: fakeherdr.HangAfter}, {Kind: fakeherdr.Flood}, {Kind: fakeherdr.Garbage}, {Kind: fakeherdr.Garbage, Text: secret},
			{Kind: fakeherdr.Empty}, {Kind: fakeherdr.Shape, Text: `{"result":{"type":"` + secret + `"}}`}, {Kind: fakeherdr.Exit2},
			{Kind: fakeherdr.Debug}, {Kind: fakeherdr.Down}, {Kind: fakeherdr.Mismatch}, {Kind: fakeherdr.Die}, {Kind: fakeherdr.DieAfter},
			{Kind: fakeherdr.ErrorCode, Code: "agent_not_ready"}, {Kind: fakeherdr.Grandchild},
		} {
			f.Match = match
			faults = append(faults, f)
		}
	}
	for _, f := range []fakeherdr.Fault{ // a Herdr that repeats what it was given
		{Kind: fakeherdr.Debug, Text: secret}, {Kind: fakeherdr.ErrorCode, Code: "internal_error", Text: secret},
	} {
		f.Match = []string{"agent", "prompt"}
		faults = append(faults, f)
	}
	for i, f := range faults {
		t.Run(fmt.Sprintf("%d %s at %q", i, f.Kind, f.Match), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			change(t, s, func(w *fakeherdr.World) { w.Faults = []fakeherdr.Fault{f} })
			log := filepath.Join(t.TempDir(), "log")
			h := eager(t, s, "HERDR_LINK_LOG="+log, "HERDR_LINK_TIMEOUT=2s")
			var printed strings.Builder
			for _, args := range []string{
				`{"to":"reviewer","message":"` + secret + `"}`,
				`{"to":"reviewer","message":"` + secret + `","reply_to":"no id"}`,
				`{"to":"nobody","message":"` + secret + `"}`,
				`{"to":"reviewer","message":"` + secret + strings.Repeat("x", 120<<10) + `"}`,
				`{"to":"reviewer","message":["` + secret + `"]}`,
				`{"to":"reviewer","message":"\ud800` + secret + `"}`,
			} {
				printed.WriteString(h.answer(h.begin("herdr_link_send", args)).line)
				printed.WriteString(h.answer(h.begin("herdr_link", `{"action":"send","arguments":`+args+`}`)).line)
			}
			h.write(`{"jsonrpc":"2.0","id":7,"method":"` + secret) // no JSON: an error that could quote it
			printed.WriteString(h.read().line)
			h.stdin.Close()
			h.wait()
			stdout, stderr, _ := run(t, h.env, secret, "send", "reviewer")
			printed.WriteString(stdout + stderr + h.stderr.String())
			stdout, stderr, _ = run(t, h.env, `{"to":"reviewer","message":"`+secret+`"}`, "call", "herdr_link_send")
			printed.WriteString(stdout + stderr)
			if strings.Contains(printed.String(), secret) {
				t.Errorf("printed: %s", printed.String())
			}
			data, err := os.ReadFile(log)
			if err != nil || !bytes.Contains(data, []byte("agent get")) {
				t.Fatalf("no log: %v: %s", err, data)
			}
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("the log has it: %s", data)
			}
		})
	}
}

// While a prompt runs, its own process alone has the text in its arguments.
func TestProcessList(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	for name, begin := range map[string]func(env environment, text string){
		"server": func(env environment, text string) {
			h := start(t, env, "--eager")
			h.initialize("2025-11-25")
			h.begin("herdr_link_send", `{"to":"reviewer","message":"`+text+`"}`)
		},
		"send": func(env environment, text string) {
			h := startProgram(t, env, binaries.server, "send", "reviewer")
			h.write(text)
			h.stdin.Close()
		},
		"call": func(env environment, text string) {
			h := startProgram(t, env, binaries.server, "call", "herdr_link_send")
			h.write(`{"to":"reviewer","message":"` + text + `"}`)
			h.stdin.Close()
		},
	} {
		s := newScene(t)
		fault(t, s, fakeherdr.Hang, "agent", "prompt")
		text := secret + "-" + name
		begin(inPane(t, s, "w1:p1"), text)
		awaitCalls(t, s, 1, "agent", "prompt")
		found := 0
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range files {
			argv, err := os.ReadFile(file)
			if err != nil || !bytes.Contains(argv, []byte(text)) {
				continue
			}
			if words := strings.Split(string(argv), "\x00"); words[0] == s.Bin() && words[1] == "agent" && words[2] == "prompt" {
				found++
			} else {
				t.Errorf("%s: it stands in the arguments of %q", name, words)
			}
		}
		if found != 1 {
			t.Errorf("%s: %d prompts have it", name, found)
		}
	}
}

// The log has a line for each call, is the user's own, and several servers may
// share it.
func TestLog(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	log := filepath.Join(t.TempDir(), "log")
	var hosts []*host
	const servers, calls = 4, 20
	for range servers {
		hosts = append(hosts, eager(t, s, "HERDR_LINK_LOG="+log))
	}
	for range calls {
		for _, h := range hosts {
			h.begin("herdr_link_close", `{"agent":"nobody"}`)
		}
	}
	for _, h := range hosts {
		for range calls {
			h.read()
		}
		h.stdin.Close()
		h.wait()
		if h.stderr.Len() > 0 {
			t.Errorf("stderr: %s", h.stderr)
		}
	}
	if info, err := os.Stat(log); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lookups := map[float64]int{}
	for line := range bytes.Lines(data) {
		var record map[string]any
		if err := json.Unmarshal(line, &record); err != nil || record["time"] == nil || record["pid"] == nil {
			t.Fatalf("%v: %q", err, line)
		}
		argv, _ := record["argv"].([]any)
		if len(argv) == 3 && argv[2] == "nobody" && record["code"] == "agent_not_found" && record["exit"] == 1.0 && record["tool"] == "herdr_link_close" {
			lookups[record["pid"].(float64)]++
		}
	}
	for _, h := range hosts {
		if n := lookups[float64(h.cmd.Process.Pid)]; n != calls {
			t.Errorf("%d records of %d lookups", n, calls)
		}
	}
}

// A log that cannot be written is one line on stderr, and no more.
func TestUnwritableLog(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := eager(t, s, "HERDR_LINK_LOG="+filepath.Join(s.Dir(), "no such folder", "log"))
	if r := h.call("herdr_link_peers", ""); r.IsError {
		t.Error(r.text())
	}
	h.stdin.Close()
	if code := h.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if said := h.stderr.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "HERDR_LINK_LOG") {
		t.Errorf("stderr: %q", said)
	}
}

// Each tool call has a record, those too that ran no command.
func TestLogHasEveryCall(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h := start(t, inPane(t, newScene(t), "w1:p1", "HERDR_LINK_LOG="+log))
	h.initialize("2025-11-25")
	h.call("herdr_link", "")
	h.call("herdr_link_send", `{"to":"reviewer","message":" "}`)
	h.call("herdr_link_peers", "")
	h.stdin.Close()
	h.wait()
	var got []string
	for line := range strings.Lines(readFile(t, log)) {
		var r struct{ Msg, Tool, Error string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Msg == "call" {
			code, _, _ := strings.Cut(r.Error, ":")
			got = append(got, strings.TrimSpace(r.Tool+" "+code))
		}
	}
	if want := []string{"herdr_link", "herdr_link_send SEND_FAILED", "herdr_link_peers"}; !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
	if info, err := os.Stat(log); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// The folder of the locks is the user's own, wherever the host's variables
// point, and its files hold no word.
func TestLockFolder(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	home, other := t.TempDir(), t.TempDir()
	h := eager(t, s, "HOME="+home, "USERPROFILE="+home, "XDG_STATE_HOME="+other, "TMPDIR="+other)
	if r := h.call("herdr_link_send", `{"to":"reviewer","message":"`+secret+`"}`); r.IsError {
		t.Fatal(r.text())
	}
	folder := filepath.Join(home, ".local", "state", "herdr-link", "locks")
	info, err := os.Stat(folder)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Fatalf("%v, %v", info, err)
	}
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	w, err := s.World()
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(folder, files[0].Name())); err != nil || len(data) > 1 || strings.Contains(files[0].Name(), w.Pane("w1:p2").Terminal) {
		t.Errorf("%s: %q, %v", files[0].Name(), data, err)
	}
	if left, err := os.ReadDir(other); err != nil || len(left) > 0 {
		t.Errorf("elsewhere: %v, %v", left, err)
	}
}
