package fakeherdr

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Submission is what one Enter did in a terminal.
type Submission struct {
	Text   string    // what stood in the input line
	At     time.Time // when Enter was pressed
	Empty  bool      // nothing stood there: an Enter that came after a merged one
	Dialog bool      // the Enter answered a dialog, and Text was lost
}

// A Keystroke is one write to a terminal: all of a text at once. Several that
// come before an Enter are one submission.
type Keystroke struct {
	At    time.Time
	Text  string    // as it was given, without the marks of a paste
	Enter time.Time // when Enter follows, or followed; zero: never
}

// An input is a line of a terminal's file: one thing that happened to it. All
// lines are written under the scene's lock, so they are in order.
type input struct {
	At      time.Time
	Text    string        `json:",omitempty"` // what is typed
	Enter   time.Duration `json:",omitempty"` // from the text to its Enter
	NoEnter bool          `json:",omitempty"` // and no Enter after it
	NoPaste bool          `json:",omitempty"`
	Blocked *bool         `json:",omitempty"` // a dialog opens, or closes by itself
}

const (
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// A terminal replays its inputs.
type terminal struct {
	line        strings.Builder
	pasting     bool
	blocked     bool
	enters      []time.Time // pressed later, earliest first
	submissions []Submission
}

// replay returns the terminal as it is at now. For a closed pane, now is the
// moment of its closing: what was pending then is lost.
func replay(inputs []input, now time.Time) *terminal {
	t := new(terminal)
	for _, in := range inputs {
		t.press(in.At)
		switch {
		case in.Blocked != nil:
			t.blocked = *in.Blocked
		default:
			t.write(in)
		}
	}
	t.press(now)
	return t
}

// write types a text as the server does: bracketed if the program asked for
// it, otherwise bare, and never cleaned.
func (t *terminal) write(in input) {
	text := in.Text
	if !in.NoPaste {
		text = pasteBegin + text + pasteEnd
	}
	for text != "" {
		switch {
		case strings.HasPrefix(text, pasteBegin):
			t.pasting, text = true, text[len(pasteBegin):]
		case strings.HasPrefix(text, pasteEnd):
			t.pasting, text = false, text[len(pasteEnd):]
		case !t.pasting && (text[0] == '\r' || text[0] == '\n'):
			t.enter(in.At)
			text = text[1:]
		default:
			t.line.WriteByte(text[0])
			text = text[1:]
		}
	}
	if in.NoEnter {
		return
	}
	t.enters = append(t.enters, in.At.Add(in.Enter))
	slices.SortFunc(t.enters, time.Time.Compare)
}

// press presses every Enter that is due at now.
func (t *terminal) press(now time.Time) {
	for len(t.enters) > 0 && !t.enters[0].After(now) {
		t.enter(t.enters[0])
		t.enters = t.enters[1:]
	}
}

func (t *terminal) enter(at time.Time) {
	text := t.line.String()
	t.line.Reset()
	t.submissions = append(t.submissions, Submission{Text: text, At: at, Empty: text == "", Dialog: t.blocked})
	t.blocked = false
}

func (s *Scene) inputFile(terminal string) string {
	return filepath.Join(s.dir, "input-"+terminal+".jsonl")
}

func (s *Scene) inputs(terminal string) ([]input, error) {
	return readLines[input](s.inputFile(terminal))
}

// appendLine writes v as one line in one write, so that lines of parallel
// processes stay whole.
func appendLine(file string, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// readLines reads what appendLine wrote; a missing file has no lines. A last
// line without its end is still being written: it has not happened yet.
func readLines[T any](file string) ([]T, error) {
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []T
	for line := range bytes.Lines(data) {
		if line[len(line)-1] != '\n' {
			break
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}
