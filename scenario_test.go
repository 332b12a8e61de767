package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

// TestScenarios plays the files of testdata/scenarios; README.md there says
// what they mean.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			play(t, readScenario(t, file))
		})
	}
}

// A section is one step of a scenario.
type section struct {
	name  string
	lines []string
}

// readScenario splits a file at its lines of the form "-- name --".
func readScenario(t *testing.T, file string) (sections []section) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(string(data), "-- ") {
		t.Errorf("%s does not say what it shows", file)
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		name, begins := strings.CutPrefix(line, "-- ")
		name, ends := strings.CutSuffix(name, " --")
		switch {
		case begins && ends:
			sections = append(sections, section{name: name})
		case len(sections) > 0 && line != "":
			last := &sections[len(sections)-1]
			last.lines = append(last.lines, line)
		}
	}
	return sections
}

// play does the sections one after the other, then ends the input: after that
// the server has nothing more to say, and no other call of Herdr was made.
func play(t *testing.T, sections []section) {
	s := newScene(t)
	env := inPane(t, s, "w1:p1")
	var (
		args  []string
		h     *host
		herdr []string
	)
	server := func() *host {
		if h == nil {
			h = start(t, env, args...)
		}
		return h
	}
	for _, sec := range sections {
		switch sec.name {
		case "scene":
			for _, line := range sec.lines {
				arrange(t, s, line)
			}
		case "env", "args":
			if h != nil {
				t.Fatalf("-- %s -- stands behind the server's start", sec.name)
			}
			if sec.name == "args" {
				args = append(args, sec.lines...)
			}
			for _, v := range sec.lines {
				env.vars = set(env.vars, v)
			}
		case "client":
			server().write(sec.lines...)
		case "server":
			for _, want := range sec.lines {
				if got := server().read(); !matchLine(t, want, got.line) {
					t.Fatalf("the server says\n%s\nnot\n%s", got.line, want)
				}
			}
		case "herdr":
			herdr = append(herdr, sec.lines...)
			eventually(t, "the calls of Herdr", func() bool { return ended(t, s) >= len(herdr) })
		default:
			t.Fatalf("unknown section: %q", sec.name)
		}
	}
	h = server()
	h.stdin.Close()
	if code := h.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
	for line := range h.lines {
		t.Errorf("one line too many: %s", line)
	}
	if h.stderr.Len() > 0 {
		t.Errorf("stderr: %s", h.stderr)
	}
	compareCalls(t, s, herdr)
}

// set sets a variable, "NAME=VALUE", or takes one out, "NAME".
func set(vars []string, v string) []string {
	name, _, given := strings.Cut(v, "=")
	vars = slices.DeleteFunc(slices.Clone(vars), func(old string) bool { return strings.HasPrefix(old, name+"=") })
	if given {
		vars = append(vars, v)
	}
	return vars
}

func ended(t *testing.T, s *fakeherdr.Scene) (n int) {
	calls, err := s.Calls()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		if c.Done {
			n++
		}
	}
	return n
}

// compareCalls holds the journal to the expected calls, in any order. Those
// with a placeholder choose last.
func compareCalls(t *testing.T, s *fakeherdr.Scene, want []string) {
	t.Helper()
	want = slices.Clone(want)
	slices.SortStableFunc(want, func(a, b string) int { return strings.Count(a, "*") - strings.Count(b, "*") })
	var got []string
	for _, args := range commands(t, s) {
		line, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(line))
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(g string) bool { return matchLine(t, w, g) })
		if i < 0 {
			t.Errorf("no call of Herdr like %s", w)
			continue
		}
		got = slices.Delete(got, i, i+1)
	}
	for _, g := range got {
		t.Errorf("a call of Herdr that was not to be: %s", g)
	}
}

// arrange changes the scene as one line of a section says.
func arrange(t *testing.T, s *fakeherdr.Scene, line string) {
	t.Helper()
	words := strings.Fields(line)
	word := func(i int) string {
		if i >= len(words) {
			t.Fatalf("too short: %q", line)
		}
		return words[i]
	}
	change(t, s, func(w *fakeherdr.World) {
		agent := func() *fakeherdr.Agent { return w.Pane(word(1)).Agent }
		switch word(0) {
		case "fault":
			w.Faults = append(w.Faults, readFault(t, words[1:]))
		case "well":
			w.Faults = nil
		case "version":
			w.Version = word(1)
		case "status":
			agent().Status = word(2)
		case "name":
			agent().Name = strings.Trim(word(2), "-")
		case "hide":
			agent().DetectedAt = time.Now().Add(time.Hour)
		case "starting":
			agent().LaunchPending = true
		case "session":
			agent().Session = &fakeherdr.Session{Source: word(2), Agent: word(3), Kind: word(4), Value: word(5)}
		case "move":
			w.Move(word(1), word(2))
		case "open":
			w.AddPane(word(1), word(2), strings.Trim(word(3), "-"))
		default:
			t.Fatalf("unknown in a scene: %q", line)
		}
	})
}

func readFault(t *testing.T, words []string) (f fakeherdr.Fault) {
	t.Helper()
	f.Kind = words[0]
	for i, w := range words[1:] {
		name, value, given := strings.Cut(w, "=")
		var err error
		switch {
		case !given:
			f.Match = words[1+i:]
			return f
		case name == "left":
			f.Left, err = strconv.Atoi(value)
		case name == "code":
			f.Code = value
		default:
			err = fmt.Errorf("unknown in a fault: %q", w)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// matchLine compares two JSON values. In want, a string with * stands for every
// string that fits, "*" alone for every value, and an object with a member
// "*" may have members that are not named.
func matchLine(t *testing.T, want, got string) bool {
	t.Helper()
	w, err := decode(want)
	if err != nil {
		t.Fatalf("no JSON in the scenario: %v: %s", err, want)
	}
	g, err := decode(got)
	return err == nil && match(w, g)
}

func decode(line string) (v any, err error) {
	dec := json.NewDecoder(strings.NewReader(line))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}

func match(want, got any) bool {
	switch w := want.(type) {
	case string:
		g, ok := got.(string)
		return w == "*" || ok && wild(w, g)
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return false
		}
		_, open := w["*"]
		for key := range g {
			if _, named := w[key]; !named && !open {
				return false
			}
		}
		for key, value := range w {
			other, given := g[key]
			if key != "*" && (!given || !match(value, other)) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		return ok && slices.EqualFunc(w, g, match)
	}
	return want == got
}

// wild reports whether text fits a pattern in which * is any run of characters.
func wild(pattern, text string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	text, ok := strings.CutPrefix(text, head)
	if !star || !ok {
		return ok && text == ""
	}
	for i := 0; i <= len(text); i++ {
		if wild(rest, text[i:]) {
			return true
		}
	}
	return false
}
