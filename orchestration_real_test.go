package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// With HERDR_LINK_HOSTS=DIR, where DIR/opencode/node_modules/.bin has the real
// OpenCode, it must take what orchestration installs as it is meant. It gets a
// home of its own, and a model that does as it is told.
func TestOrchestrationReal(t *testing.T) {
	hosts := os.Getenv("HERDR_LINK_HOSTS")
	if hosts == "" {
		t.Skip("HERDR_LINK_HOSTS is not set: OpenCode is not asked")
	}
	if runtime.GOOS == "windows" {
		t.Skip("its scripts are for sh")
	}
	model := newModel(t)
	env, home := atHome(t)
	config, bin := filepath.Join(home, ".config", "opencode"), filepath.Join(home, "bin")
	settings := filepath.Join(config, "opencode.jsonc")
	mine := fmt.Sprintf(`{
  // mine: comments must stay
  "$schema": "https://opencode.ai/config.json",
  "model": "mock/mock-model", "small_model": "mock/mock-model", "autoupdate": false, "share": "disabled",
  "provider": { "mock": { "npm": "@ai-sdk/openai-compatible", "name": "Mock", "options": { "baseURL": %q, "apiKey": "test-key" },
    "models": { "mock-model": { "name": "Mock", "tool_call": true, "limit": { "context": 128000, "output": 8192 } } } } },
  "agent": { "sheep-plan": { "permission": { "bash": { "git log": "deny", "git log -1": "allow" } } }, /* one rule, and one more */ },
}
`, model.url+"/v1")
	writeFile(t, settings, mine)
	writeFile(t, filepath.Join(config, "agents", "sheep-build.md"), "---\nmodel: mock/mock-model\npermission:\n  webfetch: deny\n---\n")
	// What its shells say about themselves; under Herdr's name, for a shepherd may run nothing else.
	for _, name := range []string{"herdr", "whoami-here"} {
		writeProgram(t, filepath.Join(bin, name), "#!/bin/sh\necho \"mode=$SHEPHERD_MODE hooks=$(git config core.hooksPath)\"\n")
	}
	policy := filepath.Join(home, ".config", "herdr-link", "hooks")
	program := filepath.Join(bin, "herdr-link")
	text, err := os.ReadFile(binaries.plain)
	if err != nil {
		t.Fatal(err)
	}
	writeProgram(t, program, string(text))
	oc := &openCode{t: t, program: filepath.Join(hosts, "opencode", "node_modules", ".bin", "opencode"), dir: filepath.Join(home, "work")}
	oc.env = append(slices.Clone(env.vars), "PATH="+bin+":"+filepath.Dir(oc.program)+":"+os.Getenv("PATH"), "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_SHARE=1", "SHEPHERD_MODE=build", "GIT_CONFIG_COUNT=")
	oc.env = append(oc.env, newScene(t).Env("w1:p1")...)
	if err := os.MkdirAll(oc.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	oc.run("git", "init", "-q")

	out := oc.run(program, "orchestration", "install", "--reviewer-model", "mock/mock-model")
	if strings.Count(out, "created   ") != 3 || strings.Contains(out, "not on PATH") {
		t.Fatalf("install: %s", out)
	}
	var data struct {
		Agents map[string]struct {
			Prompt, Model, Variant string
			Permission             json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, filepath.Join(config, "herdr-link", "orchestration.json"))), &data); err != nil {
		t.Fatal(err)
	}

	t.Run("the agents resolve as they were written", func(t *testing.T) {
		for name, want := range data.Agents {
			var got resolved
			if err := json.Unmarshal([]byte(oc.run(oc.program, "debug", "agent", name)), &got); err != nil {
				t.Fatal(err)
			}
			rules := flat(t, want.Permission)
			switch name {
			case "sheep-plan":
				i := slices.Index(rules, "bash git log allow")
				j := slices.Index(rules, "bash *<* deny")
				rules[i] = "bash git log deny"
				rules = slices.Insert(rules, j+1, "bash git log -1 allow")
			case "sheep-build":
				rules = append(rules, "webfetch * deny")
				want.Model = "mock/mock-model"
			}
			var all []string
			for _, p := range got.Permission {
				all = append(all, p.Permission+" "+p.Pattern+" "+p.Action)
			}
			// Before them are OpenCode's own, and behind them a folder of its own.
			if n := len(all) - 1; n < len(rules) || !slices.Equal(all[n-len(rules):n], rules) {
				t.Errorf("%s: the rules are\n%q\nand should end with\n%q", name, all, rules)
			}
			provider, id, _ := strings.Cut(want.Model, "/")
			if got.Prompt != want.Prompt || got.Mode != "primary" || got.Variant != want.Variant || got.Model.ProviderID != provider || got.Model.ModelID != id {
				t.Errorf("%s: mode %q, model %+v, variant %q, and the prompt %.60q", name, got.Mode, got.Model, got.Variant, got.Prompt)
			}
		}
	})

	oc.run(program, "install", "opencode")
	oc.run(program, "install", "opencode", "--mcp", "--toolsets", "control")
	oc.serve()
	const plan, build = "shepherd-plan", "sheep-build"
	hooks := "hooks=" + policy
	a, b, other := oc.session(), oc.session(), oc.session()
	for _, test := range []struct{ session, agent, command, want string }{
		{a, plan, "herdr agent list", "mode=plan " + hooks},
		{b, build, "whoami-here", "mode=sheep-build " + hooks},
		{a, plan, "herdr agent get x", "mode=plan " + hooks},
		{other, "build", "whoami-here", "mode=none hooks=\n"}, // not what OpenCode itself has inherited
		{a, plan, "whoami-here", "prevents you"},
		{a, plan, "herdr agent list; whoami-here", "prevents you"},
		{a, plan, "git push --force origin HEAD", "prevents you"},
		{b, build, "git push origin HEAD", "prevents you"},
		{b, build, "X=1 git push origin HEAD", "prevents you"},
		{b, build, "git -C . push origin HEAD", "prevents you"},
		{other, "build", "herdr agent list", "mode=none hooks=\n"},
		{a, "build", "whoami-here", "mode=none hooks=\n"}, // the user has switched
		{a, "shepherd-build", "herdr agent list", "mode=build " + hooks},
	} {
		if got := oc.prompt(test.session, test.agent, "shell "+test.command); !strings.Contains(got, test.want) {
			t.Errorf("%s: %s: %q, not %q", test.agent, test.command, got, test.want)
		}
	}

	t.Run("no argument of the tool is required", func(t *testing.T) {
		tools := model.tools("shell herdr agent list")
		var schema struct {
			Properties map[string]any
			Required   []string
		}
		if err := json.Unmarshal(tools["herdr_agent_response"], &schema); err != nil || len(schema.Properties) != 3 || len(schema.Required) != 0 {
			t.Errorf("%v, %s", err, tools["herdr_agent_response"])
		}
	})
	t.Run("a shepherd is denied the tools of control that lead past its rules", func(t *testing.T) {
		oc.prompt(other, "build", "shell whoami-here # 1")
		oc.prompt(a, plan, "shell herdr agent list # 2")
		for prompt, denied := range map[string]bool{"shell whoami-here # 1": false, "shell herdr agent list # 2": true} {
			tools := model.tools(prompt)
			for _, name := range []string{"herdr_pane_run", "herdr_pane_send_text", "herdr_agent_start"} {
				if (tools["herdr_link_"+name] == nil) != denied {
					t.Errorf("%s: %s is among %q: not %t", prompt, name, keys(tools), !denied)
				}
			}
			// Control's others are there, and link's once.
			if tools["herdr_link_herdr_pane_list"] == nil || tools["herdr_link"] == nil || tools["herdr_link_herdr_link"] != nil {
				t.Errorf("%s: %q", prompt, keys(tools))
			}
		}
	})
	t.Run("the program answers for the agent that asks", func(t *testing.T) {
		if got := oc.prompt(a, plan, "ask reviewer"); !strings.Contains(got, `"code":"AGENT_NOT_OPENCODE"`) {
			t.Errorf("%q", got)
		}
		if got := oc.prompt(other, "build", "ask reviewer"); !strings.Contains(got, `"code":"UNAUTHORIZED_AGENT"`) {
			t.Errorf("%q", got)
		}
	})
	t.Run("without the program OpenCode goes on", func(t *testing.T) {
		if err := os.Remove(program); err != nil {
			t.Fatal(err)
		}
		if got := oc.prompt(a, plan, "ask worker"); !strings.Contains(got, `"code":"HELPER_UNAVAILABLE"`) {
			t.Errorf("%q", got)
		}
		if got := oc.prompt(a, plan, "shell herdr agent list"); !strings.Contains(got, "mode=plan") {
			t.Errorf("%q", got)
		}
	})
	oc.end()

	writeProgram(t, program, string(text))
	if out := oc.run(program, "orchestration", "uninstall"); strings.Count(out, "removed   ") != 3 {
		t.Errorf("uninstall: %s", out)
	}
	oc.run(program, "uninstall", "opencode")
	if got := readFile(t, settings); got != mine {
		t.Errorf("the configuration is\n%s", got)
	}
}

func keys[V any](m map[string]V) (list []string) {
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// resolved is an agent as opencode debug agent shows it.
type resolved struct {
	Mode, Prompt, Variant string
	Model                 struct{ ProviderID, ModelID string }
	Permission            []struct{ Permission, Pattern, Action string }
}

// flat returns rules as OpenCode has them, in their order.
func flat(t *testing.T, rules json.RawMessage) (list []string) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(rules))
	next := func() json.Token {
		tok, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	next()
	for dec.More() {
		tool := next()
		if v := next(); v != json.Delim('{') {
			list = append(list, fmt.Sprintf("%s * %s", tool, v))
			continue
		}
		for dec.More() {
			pattern := next()
			list = append(list, fmt.Sprintf("%s %s %s", tool, pattern, next()))
		}
		next()
	}
	return list
}

// openCode is the real one, in a home of its own.
type openCode struct {
	t       *testing.T
	program string
	dir     string
	env     []string
	url     string
	cmd     *exec.Cmd
}

// long is how long OpenCode may take for anything: it may have to install a
// package of its own first, on a machine that is busy.
const long = 5 * time.Minute

func (o *openCode) command(name string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), long)
	o.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = o.dir, o.env, time.Second
	return cmd
}

func (o *openCode) run(name string, args ...string) string {
	o.t.Helper()
	var stderr bytes.Buffer
	cmd := o.command(name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		o.t.Fatalf("%s %q: %v\n%s%s", filepath.Base(name), args, err, out, &stderr)
	}
	return string(out)
}

// serve starts its server.
func (o *openCode) serve() {
	o.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		o.t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	o.url = "http://127.0.0.1:" + port
	o.cmd = o.command(o.program, "serve", "--hostname", "127.0.0.1", "--port", port, "--print-logs")
	log, err := os.Create(filepath.Join(o.t.TempDir(), "log"))
	if err != nil {
		o.t.Fatal(err)
	}
	o.cmd.Stderr = log
	o.t.Cleanup(func() {
		log.Close()
		if o.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			o.t.Logf("OpenCode says\n%s", text[max(0, len(text)-8<<10):])
		}
	})
	if err := o.cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(o.end)
	client := http.Client{Timeout: 20 * time.Second}
	for end := time.Now().Add(long); ; time.Sleep(50 * time.Millisecond) {
		res, err := client.Get(o.url + "/config")
		if err == nil {
			res.Body.Close()
			return
		}
		if time.Now().After(end) {
			o.t.Fatal("OpenCode does not serve", err)
		}
	}
}

func (o *openCode) end() {
	_ = o.cmd.Process.Signal(syscall.SIGTERM)
	_ = o.cmd.Wait()
}

func (o *openCode) post(path string, body, into any) {
	o.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		o.t.Fatal(err)
	}
	client := http.Client{Timeout: long}
	res, err := client.Post(o.url+path, "application/json", bytes.NewReader(text))
	if err != nil {
		o.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err = errors.Join(err, json.Unmarshal(answer, into)); err != nil || res.StatusCode != http.StatusOK {
		o.t.Fatalf("%s: %s, %v: %s", path, res.Status, err, answer)
	}
}

func (o *openCode) session() string {
	o.t.Helper()
	var s struct{ ID string }
	o.post("/session", map[string]any{}, &s)
	return s.ID
}

// prompt lets the model do as the text says, and returns what came of it.
func (o *openCode) prompt(session, agent, text string) string {
	o.t.Helper()
	var m struct {
		Parts []struct{ Type, Text string }
	}
	o.post("/session/"+session+"/message", map[string]any{"agent": agent, "parts": []any{map[string]any{"type": "text", "text": text}}}, &m)
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Type == "text" {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// A scripted is a model that does what the last prompt says: "shell COMMAND"
// or "ask TARGET". Then it repeats what the tool has answered.
type scripted struct {
	url string

	mu      sync.Mutex
	offered map[string]map[string]json.RawMessage // tools by the prompt's text
}

func newModel(t *testing.T) *scripted {
	m := &scripted{offered: map[string]map[string]json.RawMessage{}}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

// tools returns the schemas of the tools that came with a prompt, by their names.
func (m *scripted) tools(prompt string) map[string]json.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.offered[prompt]
}

func (m *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Messages []struct {
			Role    string
			Content any
		}
		Tools []struct {
			Function struct {
				Name       string
				Parameters json.RawMessage
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	prompt, answer := "", ""
	for _, msg := range req.Messages {
		text := contentText(msg.Content)
		switch {
		case msg.Role == "user" && (strings.HasPrefix(text, "shell ") || strings.HasPrefix(text, "ask ")):
			prompt, answer = text, ""
		case msg.Role == "tool":
			answer = "the tool said: " + text
		}
	}
	delta := map[string]any{"role": "assistant", "content": "a title"}
	finish := "stop"
	if len(req.Tools) > 0 {
		m.mu.Lock()
		m.offered[prompt] = map[string]json.RawMessage{}
		for _, tool := range req.Tools {
			m.offered[prompt][tool.Function.Name] = tool.Function.Parameters
		}
		m.mu.Unlock()
		delta["content"] = answer
		if answer == "" {
			name, args := "bash", map[string]any{"command": strings.TrimPrefix(prompt, "shell "), "description": "as told"}
			if target, ok := strings.CutPrefix(prompt, "ask "); ok {
				name, args = "herdr_agent_response", map[string]any{"target": target}
			}
			text, _ := json.Marshal(args)
			delta = map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{
				"index": 0, "id": fmt.Sprintf("call_%d", len(req.Messages)), "type": "function", "function": map[string]any{"name": name, "arguments": string(text)},
			}}}
			finish = "tool_calls"
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, choice := range []map[string]any{{"index": 0, "delta": delta}, {"index": 0, "delta": map[string]any{}, "finish_reason": finish}} {
		text, _ := json.Marshal(map[string]any{"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "mock-model", "choices": []any{choice}})
		fmt.Fprintf(w, "data: %s\n\n", text)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// contentText is a message's text, in whatever form it came.
func contentText(content any) string {
	switch c := content.(type) {
	case string:
		return c
	case []any:
		var b strings.Builder
		for _, part := range c {
			p, _ := part.(map[string]any)
			text, _ := p["text"].(string)
			b.WriteString(text)
		}
		return b.String()
	}
	return ""
}
