package mesh

import (
	"testing"

	"herdr-link/herdrcli"
)

func TestLook(t *testing.T) {
	at := func(name, pane, terminal, status string, cursor int64) herdrcli.Agent {
		return herdrcli.Agent{Name: name, PaneID: pane, TerminalID: terminal, Status: status, Cursor: cursor}
	}
	type step struct {
		now     []herdrcli.Agent
		settled bool
		code    string
	}
	other := at("other", "w1:p9", "t9", "idle", 99)
	a := func(status string, cursor int64) []herdrcli.Agent {
		return []herdrcli.Agent{other, at("a", "w1:p1", "t1", status, cursor)}
	}
	for name, test := range map[string]struct {
		target string
		after  int64
		steps  []step
	}{
		"settled at once":                    {"a", -1, []step{{a("idle", 0), true, ""}}},
		"done and blocked are settled":       {"a", -1, []step{{a("done", 3), true, ""}, {a("blocked", 4), true, ""}}},
		"working and unknown are not":        {"a", -1, []step{{a("working", 3), false, ""}, {a("unknown", 4), false, ""}, {a("idle", 5), true, ""}}},
		"only above the cursor":              {"a", 5, []step{{a("idle", 5), false, ""}, {a("working", 6), false, ""}, {a("idle", 9), true, ""}}},
		"above zero":                         {"a", 0, []step{{a("idle", 0), false, ""}, {a("idle", 1), true, ""}}},
		"looked at, which moves nothing":     {"a", 5, []step{{a("done", 5), false, ""}, {a("idle", 5), false, ""}}},
		"a counter that began anew":          {"a", 5, []step{{a("idle", 4), false, "CURSOR_REGRESSED"}}},
		"one that began anew while it works": {"a", 5, []step{{a("working", 1), false, "CURSOR_REGRESSED"}}},
		"nobody":                             {"b", -1, []step{{a("idle", 1), false, "AGENT_NOT_FOUND"}}},
		"by pane":                            {"w1:p1", -1, []step{{a("working", 1), false, ""}, {a("idle", 2), true, ""}}},
		"by another pane":                    {"w1:p2", -1, []step{{a("idle", 1), false, "AGENT_NOT_FOUND"}}},
		"a pane is no name":                  {"t1", -1, []step{{a("idle", 1), false, "AGENT_NOT_FOUND"}}},
		"moved": {"a", 1, []step{{a("working", 2), false, ""},
			{[]herdrcli.Agent{at("a", "w2:p1", "t1", "idle", 3)}, true, ""}}},
		"moved, by pane": {"w1:p1", 1, []step{{a("working", 2), false, ""},
			{[]herdrcli.Agent{at("b", "w1:p1", "t2", "idle", 9), at("a", "w2:p1", "t1", "idle", 3)}, true, ""}}},
		"gone": {"a", 1, []step{{a("working", 2), false, ""}, {[]herdrcli.Agent{other}, false, "AGENT_NOT_FOUND"}}},
		"the name is another one's": {"a", 1, []step{{a("working", 2), false, ""},
			{[]herdrcli.Agent{at("a", "w1:p1", "t2", "idle", 1)}, false, "AGENT_NOT_FOUND"}}},
		"renamed": {"a", 1, []step{{a("working", 2), false, ""},
			{[]herdrcli.Agent{at("b", "w1:p1", "t1", "idle", 3)}, false, "AGENT_NOT_FOUND"}}},
		"named, by pane": {"w1:p1", 1, []step{{[]herdrcli.Agent{at("", "w1:p1", "t1", "working", 2)}, false, ""}, {a("idle", 3), true, ""}}},
	} {
		g := &target{target: test.target, after: test.after}
		for i, step := range test.steps {
			settled, code := g.look(step.now), ""
			if g.failed != nil {
				code = g.failed.Code
			}
			if settled != step.settled || code != step.code {
				t.Errorf("%s, step %d: %t, %q", name, i, settled, code)
			}
		}
	}
}
