package herdrcli

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

// A logbook is a log that can be read.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logbook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logbook) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(b, nil)) }

// last is the latest record.
func (b *logbook) last(t *testing.T) (record map[string]any) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(b.buf.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &record); err != nil {
		t.Fatal(err)
	}
	return record
}

// A brief record has nothing that a caller gave, or that Herdr wrote.
func TestBriefLog(t *testing.T) {
	t.Parallel()
	var log logbook
	_, c := newScene(t, Options{Log: log.logger(), Brief: true})
	c.AgentGet(t.Context(), "swordfish")
	got := log.last(t)
	if got["msg"] != "herdr agent get" || got["code"] != "agent_not_found" || got["exit"] != 1.0 || got["argv"] != nil || got["stderr"] != nil || got["stderr_bytes"] == nil {
		t.Errorf("%v", got)
	}
	c.AgentPrompt(t.Context(), "swordfish", "hello")
	if got := log.last(t); got["msg"] != "herdr agent prompt" || got["argv"] != nil || got["text_bytes"] != nil {
		t.Errorf("%v", got)
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	var log logbook
	s, c := newScene(t, Options{Log: log.logger()})
	c = c.For("herdr_link_send")
	fault := func(f ...fakeherdr.Fault) { update(t, s, func(w *fakeherdr.World) { w.Faults = f }) }
	check := func(want map[string]any, absent ...string) {
		t.Helper()
		got := log.last(t)
		for key, value := range want {
			a, _ := json.Marshal(got[key])
			b, _ := json.Marshal(value)
			if !bytes.Equal(a, b) {
				t.Errorf("%s is %s, not %s", key, a, b)
			}
		}
		for _, key := range absent {
			if value, there := got[key]; there {
				t.Errorf("%s is there: %v", key, value)
			}
		}
		if ms, ok := got["ms"].(float64); !ok || ms <= 0 {
			t.Errorf("ms is %v", got["ms"])
		}
	}

	c.AgentGet(t.Context(), "lead")
	check(map[string]any{"level": "INFO", "msg": "herdr agent get", "tool": "herdr_link_send",
		"argv": []string{"agent", "get", "lead"}, "exit": 0, "stderr_bytes": 0}, "stderr", "code", "error", "text_bytes")

	c.AgentPrompt(t.Context(), "lead", "hello")
	check(map[string]any{"level": "INFO", "msg": "herdr agent prompt", "argv": []string{"agent", "prompt", "lead"},
		"exit": 0, "text_bytes": 5}, "stderr", "code", "error")

	fault(fakeherdr.Fault{Kind: fakeherdr.ErrorCode, Code: "agent_not_ready", Text: "wait"})
	c.AgentGet(t.Context(), "lead")
	const answer = `{"error":{"code":"agent_not_ready","message":"wait"},"id":"cli:agent:get"}` + "\n"
	check(map[string]any{"level": "WARN", "exit": 1, "code": "agent_not_ready", "stderr": answer, "stderr_bytes": len(answer), "error": "refused by herdr"})

	c.AgentPrompt(t.Context(), "lead", "hello")
	check(map[string]any{"level": "WARN", "exit": 1, "code": "agent_not_ready", "text_bytes": 5, "error": "refused by herdr"}, "stderr")

	fault(fakeherdr.Fault{Kind: fakeherdr.Debug, Text: strings.Repeat("x", 5000)})
	c.AgentGet(t.Context(), "lead")
	check(map[string]any{"exit": 1, "stderr": ("Error: " + strings.Repeat("x", 5000))[:2048], "stderr_bytes": 5008}, "code")

	fault(fakeherdr.Fault{Kind: fakeherdr.Die})
	c.AgentGet(t.Context(), "lead")
	check(map[string]any{"exit": dead, "error": "unexpected output of herdr"}, "stderr", "code")

	fault(fakeherdr.Fault{Kind: fakeherdr.Garbage})
	c.AgentGet(t.Context(), "lead")
	check(map[string]any{"exit": 0, "level": "WARN", "error": "unexpected output of herdr"}, "stderr", "code")
}

// In whatever way a prompt fails, and whatever Herdr makes of its text, neither
// the log nor the error has a word of it.
func TestLogNeverHasTheText(t *testing.T) {
	t.Parallel()
	const secret = "correct horse battery staple"
	faults := []fakeherdr.Fault{
		{Kind: fakeherdr.Slow},
		{Kind: fakeherdr.Garbage, Text: secret},
		{Kind: fakeherdr.Shape, Text: `{"result":{"type":"` + secret + `"}}`},
		{Kind: fakeherdr.Empty},
		{Kind: fakeherdr.Exit2},
		{Kind: fakeherdr.Debug, Text: secret},
		{Kind: fakeherdr.ErrorCode, Code: "agent_not_ready", Text: secret},
		{Kind: fakeherdr.Down},
		{Kind: fakeherdr.Mismatch},
		{Kind: fakeherdr.Die},
		{Kind: fakeherdr.DieAfter},
		{Kind: fakeherdr.Flood},
		{Kind: fakeherdr.FloodStderr},
		{Kind: fakeherdr.Hang},
		{Kind: fakeherdr.HangAfter},
		{Kind: fakeherdr.Grandchild},
	}
	for _, f := range faults {
		t.Run(f.Kind, func(t *testing.T) {
			t.Parallel()
			var log logbook
			o := Options{Log: log.logger(), Timeout: patience}
			if slices.Contains([]string{fakeherdr.FloodStderr, fakeherdr.Hang, fakeherdr.HangAfter}, f.Kind) {
				o.Timeout = time.Second
			}
			_, c := newScene(t, o, f)
			silent(t, &log, c.AgentPrompt(t.Context(), "lead", secret))
		})
	}
	for name, bin := range map[string]string{"no program": "", "too long": executableFile(t)} {
		var log logbook
		c := New(Options{Bin: bin, Log: log.logger(), Environ: quick(roleVariable + "=print")})
		silent(t, &log, c.AgentPrompt(t.Context(), "lead", strings.Repeat(secret, 1<<18)))
		if !strings.Contains(log.buf.String(), `"text_bytes"`) {
			t.Errorf("%s: no record", name)
		}
	}
}

func silent(t *testing.T, log *logbook, err error) {
	t.Helper()
	log.mu.Lock()
	defer log.mu.Unlock()
	if log.buf.Len() == 0 {
		t.Error("no record")
	}
	for _, word := range []string{"correct", "horse", "staple"} {
		if strings.Contains(log.buf.String(), word) {
			t.Errorf("in the log: %.1000s", &log.buf)
		}
		if err != nil && strings.Contains(err.Error(), word) {
			t.Errorf("in the error: %.1000s", err)
		}
	}
}
