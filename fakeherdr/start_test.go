package fakeherdr

import (
	"slices"
	"testing"
	"time"
)

func TestStart(t *testing.T) {
	s := newScene(t)
	update(t, s, func(w *World) { w.StartDelay = long })
	call := startWait(t, s, "agent", "start", "helper", "--kind", "cursor", "--pane", "w1:p4", "--", "--model", "opus 4", "--session=x", "", "it's")
	wantCode(t, s, "agent_not_ready", "agent", "prompt", "helper", "hello")
	wantCode(t, s, "agent_launch_pending", "agent", "rename", "w1:p4", "other")
	wantCode(t, s, "agent_pane_busy", "agent", "start", "second", "--kind", "pi", "--pane", "w1:p4")
	wantCode(t, s, "agent_name_taken", "agent", "start", "helper", "--kind", "pi", "--pane", "w1:p1")
	update(t, s, func(w *World) { w.Pane("w1:p4").Agent.Launch.ReadyAt = time.Now() })
	if got := call.end(t); got != Idle {
		t.Errorf("started: %s", got)
	}
	got := ask[agentResult](t, s, "agent", "get", "helper").Agent
	if got.Agent != "cursor" || !got.InteractiveReady || got.PaneID != "w1:p4" || got.Title != "cursor ready" {
		t.Errorf("%+v", got)
	}
	keys, err := s.Keystrokes("w1:p4")
	if err != nil || len(keys) != 1 || keys[0].Text != `cursor-agent --model 'opus 4' --session=x '' 'it'\''s'` || keys[0].Enter.IsZero() {
		t.Errorf("typed %+v, %v", keys, err)
	}
	mustRun(t, s, "agent", "prompt", "helper", "hello")
}

// What may become of an agent start.
func TestStartEnds(t *testing.T) {
	for name, test := range map[string]struct {
		setup func(*World)
		then  func(*World)
		args  []string
		want  string
		after string // kind and name of the agent that is there then
	}{
		"in time":                              {nil, nil, nil, Idle, "pi helper"},
		"moved":                                {func(w *World) { w.StartDelay = long }, func(w *World) { w.Move("w1:p4", "w2").Agent.Launch.ReadyAt = time.Now() }, nil, Idle, "pi helper"},
		"too slow":                             {func(w *World) { w.StartDelay = long }, nil, []string{"--timeout", "3001"}, "timeout", "pi "},
		"not there":                            {func(w *World) { w.Executables = map[string]string{"pi": ""} }, nil, []string{"--timeout", "3001"}, "timeout", ""},
		"another":                              {func(w *World) { w.Executables = map[string]string{"pi": "omp"} }, nil, nil, "agent_kind_mismatch", "omp "},
		"renamed":                              {func(w *World) { w.StartDelay = long }, func(w *World) { w.Pane("w1:p4").Agent.Name = "x" }, nil, "agent_name_not_found", "pi x"},
		"by an old id":                         {func(w *World) { w.Move("w1:p4", "w2") }, nil, nil, "agent_pane_not_found", ""},
		"too hasty":                            {nil, nil, []string{"--timeout", "3000"}, "invalid_agent_timeout", ""},
		"too patient":                          {nil, nil, []string{"--timeout", "300001"}, "invalid_agent_timeout", ""},
		"a wrong argument before a taken name": {func(w *World) { w.Pane("w1:p1").Agent.Name = "helper" }, nil, []string{"--", "a\x01"}, "invalid_agent_argument", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			update(t, s, func(w *World) {
				w.Haste = 20
				if test.setup != nil {
					test.setup(w)
				}
			})
			call := startWait(t, s, slices.Concat([]string{"agent", "start", "helper", "--kind", "pi", "--pane", "w1:p4"}, test.args)...)
			if test.then != nil {
				update(t, s, test.then)
			}
			if got := call.end(t); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			got := ""
			if a := world(t, s).Pane("w1:p4").Agent; a != nil {
				got = a.Kind + " " + a.Name
			}
			if got != test.after {
				t.Errorf("there is %q, want %q", got, test.after)
			}
		})
	}
}

// The server goes on with what its client began.
func TestStartWithoutItsClient(t *testing.T) {
	s := newScene(t)
	update(t, s, func(w *World) { w.StartDelay = long })
	call := startWait(t, s, "agent", "start", "helper", "--kind", "pi", "--pane", "w1:p4")
	if err := call.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = call.cmd.Wait()
	update(t, s, func(w *World) { w.Pane("w1:p4").Agent.Launch.ReadyAt = time.Now() })
	if got := ask[agentResult](t, s, "agent", "get", "helper").Agent; !got.InteractiveReady || got.LaunchPending {
		t.Errorf("%+v", got)
	}
}
