package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"herdr-link/envelope"
	"herdr-link/fakeherdr"
)

// A trial is one check while it runs: a scene, and the processes in it. Its
// methods, and those of its servers, end the check if something fails.
type trial struct {
	o       *Options
	ctx     context.Context
	dir     string
	scene   *fakeherdr.Scene
	servers []*server
}

// A failure ends a check. It is thrown, so that checks read as statements.
type failure struct{ expected, got, skip string }

func (t *trial) fail(expected, got string, args ...any) {
	panic(&failure{expected: expected, got: fmt.Sprintf(got, args...)})
}

// skip ends a check that this server cannot be held to.
func (t *trial) skip(why string) { panic(&failure{skip: why}) }

// is fails unless got is want.
func (t *trial) is(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		t.fail(what+" "+show(want), "%s", show(got))
	}
}

// must fails unless ok; got is what there was instead.
func (t *trial) must(ok bool, expected string, got any) {
	if !ok {
		t.fail(expected, "%s", show(got))
	}
}

func show(v any) string {
	switch v := v.(type) {
	case []string, [][]string:
		return fmt.Sprintf("%q", v)
	case nil:
		return "nothing"
	case string:
		if v == "" {
			return `""`
		}
		return v
	}
	return fmt.Sprint(v)
}

// end kills what still runs and clears up.
func (t *trial) end() {
	for _, s := range t.servers {
		s.kill()
	}
	// A call that is being played may still write into the scene.
	for range 20 {
		if os.RemoveAll(t.dir) == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// eventually waits until ok is true.
func (t *trial) eventually(expected string, ok func() bool) {
	limit := time.After(t.o.Patience)
	for !ok() {
		select {
		case <-limit:
			t.fail(expected, "nothing of it in %v", t.o.Patience)
		case <-t.ctx.Done():
			t.fail(expected, "%v", context.Cause(t.ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// environ is the environment of a process outside Herdr.
func (t *trial) environ() []string {
	env := slices.DeleteFunc(slices.Clone(t.o.Environ), func(v string) bool {
		return strings.HasPrefix(strings.ToUpper(v), "HERDR_")
	})
	if !t.o.Home {
		home := filepath.Join(t.dir, "home")
		if err := os.MkdirAll(home, 0o700); err != nil {
			t.fail("a temporary home", "%v", err)
		}
		env = append(env, "HOME="+home, "USERPROFILE="+home)
	}
	return env
}

// in is the environment of a process in a pane, with more variables.
func (t *trial) in(pane string, more ...string) []string {
	return append(append(t.environ(), t.scene.Env(pane)...), more...)
}

// dormant starts a server in lead's pane and initializes it.
func (t *trial) dormant(more ...string) *server { return t.dormantIn("w1:p1", more...) }

func (t *trial) dormantIn(pane string, more ...string) *server {
	s := t.start(t.in(pane, more...))
	s.initialize("2025-11-25")
	return s
}

// active starts a server in lead's pane and activates it.
func (t *trial) active(more ...string) *server { return t.activeIn("w1:p1", more...) }

func (t *trial) activeIn(pane string, more ...string) *server {
	s := t.dormantIn(pane, more...)
	s.activate()
	return s
}

// change changes the world.
func (t *trial) change(f func(*fakeherdr.World)) {
	if err := t.scene.Update(func(w *fakeherdr.World) error { f(w); return nil }); err != nil {
		t.fail("a world that can be played", "%v", err)
	}
}

// fault lets something go wrong in the calls that it matches.
func (t *trial) fault(f fakeherdr.Fault) {
	t.change(func(w *fakeherdr.World) { w.Faults = append(w.Faults, f) })
}

func (t *trial) world() *fakeherdr.World {
	w, err := t.scene.World()
	if err != nil {
		t.fail("a readable scene", "%v", err)
	}
	return w
}

func (t *trial) open(pane string) bool { return t.world().Pane(pane) != nil }

// calls returns Herdr's calls so far whose argv begins with match.
func (t *trial) calls(match ...string) (found []fakeherdr.Call) {
	calls, err := t.scene.Calls()
	if err != nil {
		t.fail("a readable journal", "%v", err)
	}
	for _, c := range calls {
		if len(c.Args) >= len(match) && slices.Equal(c.Args[:len(match)], match) {
			found = append(found, c)
		}
	}
	return found
}

// commands is calls, the argv only.
func (t *trial) commands(match ...string) [][]string {
	found := [][]string{}
	for _, c := range t.calls(match...) {
		found = append(found, c.Args)
	}
	return found
}

// nothing fails if such a command has been run.
func (t *trial) nothing(match ...string) {
	found := t.commands(match...)
	t.must(len(found) == 0, strings.TrimSpace("no call of herdr "+strings.Join(match, " ")), found)
}

// arrive waits until a pane has received n submissions and returns them.
func (t *trial) arrive(pane string, n int) []string {
	var texts []string
	t.eventually(fmt.Sprintf("%d submissions in the pane of the receiver", n), func() bool {
		list, err := t.scene.Submissions(pane)
		if err != nil {
			t.fail("submissions of a pane", "%v", err)
		}
		texts = texts[:0]
		for _, s := range list {
			texts = append(texts, s.Text)
		}
		return len(texts) >= n
	})
	t.must(len(texts) == n, fmt.Sprintf("%d submissions in the pane of the receiver", n), texts)
	return texts
}

// lastLine reads the envelope that must be the last line of a received text.
func (t *trial) lastLine(text string) envelope.Envelope {
	line := text[strings.LastIndexByte(text, '\n')+1:]
	e, err := envelope.Parse(line)
	t.must(err == nil, "a valid envelope as last line", line)
	return e
}

// tight fails if a text has what only Herdr should know: an id of a pane, a tab,
// a workspace or a terminal, or a path of the scene.
func (t *trial) tight(what, text string) {
	w := t.world()
	leak := ""
	if strings.Contains(text, t.dir) {
		leak = t.dir
	}
	for _, p := range slices.Concat(w.Panes, w.Closed) {
		for _, id := range append([]string{p.ID, p.Tab, p.Workspace, p.Terminal}, p.Aliases...) {
			if hasWord(text, id) {
				leak = id
			}
		}
	}
	t.must(leak == "" && !strings.Contains(text, "term_"), "no id and no path in "+what, leak+" in "+text)
}

// hasWord reports whether word, which is not empty, stands in text with no letter
// or digit beside it.
func hasWord(text, word string) bool {
	beside := func(b byte) bool {
		return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
	}
	for from := 0; ; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			return false
		}
		start, end := from+at, from+at+len(word)
		if (start == 0 || !beside(text[start-1])) && (end == len(text) || !beside(text[end])) {
			return true
		}
		from = start + 1
	}
}

// run runs the program as a command and returns what it printed.
func (t *trial) run(env []string, stdin string, args ...string) (stdout, stderr string, code int) {
	ctx, stop := context.WithTimeout(t.ctx, t.o.Patience)
	defer stop()
	argv := append(slices.Clone(t.o.Command), args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdin, cmd.WaitDelay = env, strings.NewReader(stdin), time.Second
	ownGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd) }
	out, errs := &head{max: 1 << 20}, &head{max: 1 << 20}
	cmd.Stdout, cmd.Stderr = out, errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.fail("the command "+strings.Join(args, " ")+" to run and end", "%v", err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// decode reads JSON that must have the shape of v.
func (t *trial) decode(what string, raw []byte, v any) {
	if err := json.Unmarshal(raw, v); err != nil {
		t.fail(what+" as JSON", "%s", raw)
	}
}

func isJSON(s string) bool { return json.Valid([]byte(s)) }

// compact drops the space between the tokens of a JSON text.
func compact(raw []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// quote is s as a JSON string, in printable ASCII.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, unit := range utf16.Encode([]rune(s)) {
		if unit == '\n' {
			b.WriteString(`\n`)
		} else if unit < ' ' || unit > '~' || unit == '"' || unit == '\\' {
			fmt.Fprintf(&b, `\u%04x`, unit)
		} else {
			b.WriteByte(byte(unit))
		}
	}
	b.WriteByte('"')
	return b.String()
}
