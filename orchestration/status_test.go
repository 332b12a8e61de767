package orchestration

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// status of a trial whose installed program is this test binary, too.
func (tr *trial) status() Status {
	tr.t.Helper()
	return tr.Status(tr.t.Context(), nil)
}

func TestStatus(t *testing.T) {
	t.Setenv(roleVariable, "herdr-link") // for the program, which gets the environment of this process
	tr := newTrial(t, "")
	s := tr.status()
	if text, err := json.Marshal(s); err != nil || !strings.HasPrefix(string(text), `{"version":"9.9.9","configDir":`) ||
		!strings.Contains(string(text), `"installed":false,"files":[],"binary":null,"models":null,"agents":[{"name":"shepherd-plan","overridden":false},`) ||
		!strings.HasSuffix(string(text), `"opencode":{"version":"1.18.33","supported":true},"integration":null,"conflicts":[],"hooks":null}`) {
		t.Errorf("%v, %s", err, text)
	}
	tr.install(Options{WorkerModel: "p/w", ReviewerModel: Inherit, NoValidate: true})
	s = tr.status()
	if !s.Installed || len(s.Files) != 2 || s.Files[0] != (FileState{tr.Place.path(pluginFile), "ok"}) || s.Files[1].State != "ok" || len(s.Conflicts) > 0 ||
		s.Binary.Path != tr.Data.Program || !s.Binary.Exists || *s.Binary.Version != "9.9.9" || *s.Models.Worker != "p/w" || s.Models.Reviewer != nil {
		t.Errorf("%+v", s)
	}
	line, git := "opencode: current (v3) (/x)", "2.39.5"
	s.Integration = &line
	s.Hooks = &HooksStatus{GitVersion: &git, HookInstalled: true, DigestOK: true}
	if !s.OK() || !s.policed {
		t.Errorf("not OK: %+v", s)
	}
	noGit, noPolicy := s, s
	noGit.Hooks = &HooksStatus{}
	noPolicy.policed, noPolicy.Hooks = false, &HooksStatus{GitVersion: &git}
	if !noGit.OK() || !noPolicy.OK() {
		t.Errorf("not OK: without git %t, without the policy %t", noGit.OK(), noPolicy.OK())
	}
	for what, spoil := range map[string]func(*Status){
		"nothing installed":        func(s *Status) { s.Installed = false },
		"a modified file":          func(s *Status) { s.Files = []FileState{{"", "modified"}} },
		"no program named":         func(s *Status) { s.Binary = nil },
		"no program there":         func(s *Status) { s.Binary = &BinaryState{} },
		"an old OpenCode":          func(s *Status) { s.OpenCode.Supported = false },
		"no word of Herdr's":       func(s *Status) { s.Integration = nil },
		"no integration":           func(s *Status) { l := "opencode: not installed (/x)"; s.Integration = &l },
		"an old integration":       func(s *Status) { l := "opencode: outdated (v1 < v2) (/x)"; s.Integration = &l },
		"a conflict":               func(s *Status) { s.Conflicts = []string{"x"} },
		"nothing known of hooks":   func(s *Status) { s.Hooks = nil },
		"a hook that was changed":  func(s *Status) { s.Hooks = &HooksStatus{GitVersion: &git, HookInstalled: true} },
		"a global hook changed":    func(s *Status) { s.policed, s.Hooks = false, &HooksStatus{GitVersion: &git, Active: true} },
		"a program of another age": func(s *Status) { v := "1.0.0"; s.Binary = &BinaryState{Version: &v} },
	} {
		spoilt := s
		spoil(&spoilt)
		if spoilt.OK() {
			t.Errorf("OK with %s", what)
		}
	}
	before := tr.tree()
	tr.status()
	same(t, "after status", tr.tree(), before)

	tr.put(pluginFile, "mine")
	tr.put("opencode.json", `{"plugin":["opencode-herdr-orchestration"],"mcp":{"x":["--toolsets","response"]}}`)
	tr.put("agents/sheep-plan.md", "")
	if err := os.Remove(tr.Place.path(dataFile)); err != nil {
		t.Fatal(err)
	}
	tr.Data.Version = "9.9.10"
	s = tr.status()
	if s.Files[0].State != "modified" || s.Files[1].State != "missing" || s.Binary != nil || s.Models != nil || len(s.Conflicts) != 3 ||
		!strings.Contains(s.Conflicts[0], "installed by version") || !strings.Contains(s.Conflicts[1], oldPackage) || !strings.Contains(s.Conflicts[2], "toolset response") {
		t.Errorf("%+v", s)
	}
	if i := slices.Index(Names(), sheepPlan); !s.Agents[i].Overridden || s.Agents[i].By[0] != tr.Place.path("agents/sheep-plan.md") || s.Agents[0].Overridden {
		t.Errorf("%+v", s.Agents)
	}
}

func TestSupported(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"1.14.49": true, "1.14.50": true, "1.15.0": true, "1.18.33": true, "1.14.49-beta": true,
		"1.14.48": false, "1.13.99": false, "0.99.99": false, "2.0.0": false, "10.14.49": false, "": false, "1": false, "1.14": false, "x.y.z": false, "-1.0.0": false,
	} {
		if got := supported(version); got != want {
			t.Errorf("supported(%q) = %t", version, got)
		}
	}
}

func TestBrief(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                              "it says nothing",
		"\n \x1b":                       "it says nothing",
		"\x1b[91mError:\x1b[0m a\r\n b": "[91mError: [0m a b",
		"a\xffb\u009bc":                 "a?b c",
		strings.Repeat("ä", 200):        strings.Repeat("ä", 150) + "…",
	} {
		if got := brief([]byte(text)); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
