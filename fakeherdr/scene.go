package fakeherdr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	worldFile   = "scene.json"
	lockFile    = "scene.lock"
	journalFile = "calls.jsonl"
)

// Role says whether a process with this argv[0] has to play herdr: its base
// name is herdr (herdr.exe on Windows) and its directory is a scene, or was one
// until a moment ago: a call that is late for a scene being removed must not
// become something else. If so, it does nothing else but call [Main] with that
// directory.
func Role(argv0 string) (dir string, ok bool) {
	base := filepath.Base(argv0)
	if runtime.GOOS == "windows" {
		base = strings.TrimSuffix(strings.ToLower(base), ".exe")
	}
	if base != "herdr" {
		return "", false
	}
	if filepath.Base(argv0) == argv0 { // found on PATH
		found, err := exec.LookPath(argv0)
		if err != nil {
			return "", false
		}
		argv0 = found
	}
	dir, err := filepath.Abs(filepath.Dir(argv0))
	if err != nil {
		return "", false
	}
	if _, err := os.Stat(filepath.Join(dir, worldFile)); err == nil || os.Getenv(sleepVariable) != "" {
		return dir, true
	}
	_, err = os.Lstat(argv0)
	return dir, errors.Is(err, fs.ErrNotExist)
}

// A Scene is a directory with a simulated Herdr in it. Its methods may be
// called from any number of goroutines and processes.
type Scene struct {
	dir string
}

// Create makes a scene in dir, which is made too (mode 0700) if it is missing.
// executable is the path of the program that shall play herdr there: it has to
// ask [Role] first thing. The world is that of the captures: workspace w1 "api"
// with w1:p1 lead (claude), w1:p2 reviewer (codex), w1:p3 without a name (pi)
// and w1:p4, a plain shell; w2 "web" with w2:p1 builder (claude). A directory
// that is a scene already is an error that wraps fs.ErrExist.
func Create(dir, executable string) (*Scene, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if executable, err = filepath.Abs(executable); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := &Scene{dir}
	if _, err := os.Stat(filepath.Join(dir, worldFile)); err == nil {
		return nil, fmt.Errorf("scene %s: %w", dir, fs.ErrExist)
	}
	if err := link(executable, s.Bin()); err != nil {
		return nil, err
	}
	data, err := encodeWorld(standard())
	if err != nil {
		return nil, err
	}
	return s, s.write(data)
}

// link makes the same program known by another name.
func link(executable, name string) error {
	if runtime.GOOS != "windows" && os.Symlink(executable, name) == nil || os.Link(executable, name) == nil {
		return nil
	}
	from, err := os.Open(executable)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// Open returns the scene in dir, made by [Create] here or in another process.
func Open(dir string) (*Scene, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Scene{dir}
	_, err = s.World()
	return s, err
}

// Dir returns the scene's directory, absolute.
func (s *Scene) Dir() string { return s.dir }

// Bin returns the absolute path of the scene's herdr, for HERDR_BIN_PATH.
func (s *Scene) Bin() string {
	name := "herdr"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(s.dir, name)
}

// Env returns the HERDR_ variables, as "KEY=VALUE", of a process in pane. Like
// a process that was there before, it keeps the id it is asked for: one from
// before a move gives the environment of a process that has been moved.
func (s *Scene) Env(pane string) []string {
	workspace, _, _ := strings.Cut(pane, ":")
	tab := workspace + ":t1"
	if w, err := s.World(); err == nil {
		if p := w.Pane(pane); p != nil && p.ID == pane {
			tab = p.Tab
		}
	}
	return []string{
		"HERDR_ENV=1",
		"HERDR_SOCKET_PATH=" + s.socket(),
		"HERDR_BIN_PATH=" + s.Bin(),
		"HERDR_WORKSPACE_ID=" + workspace,
		"HERDR_TAB_ID=" + tab,
		"HERDR_PANE_ID=" + pane,
	}
}

// socket is where this scene's server listens in theory: there is no such file,
// but a call whose environment names another one meets no server.
func (s *Scene) socket() string { return filepath.Join(s.dir, "herdr.sock") }

// Update changes the world under the scene's lock, which is shared with the
// calls being played: f sees what they did, and they see what f did or nothing
// of it. If f fails, the world stays as it was and Update returns that error;
// so it does for a world that no call could play. f may block other processes,
// so it should not wait for any.
func (s *Scene) Update(f func(*World) error) error {
	unlock, err := lock(filepath.Join(s.dir, lockFile))
	if err != nil {
		return err
	}
	defer unlock()
	w, old, err := s.read(time.Now())
	if err != nil {
		return err
	}
	before := make(map[string]string) // status by terminal
	for _, p := range w.Panes {
		before[p.Terminal] = p.status()
	}
	if err := f(w); err != nil {
		return err
	}
	if err := w.check(); err != nil {
		return err
	}
	for _, p := range w.Panes {
		if err := s.changed(w, p, before[p.Terminal]); err != nil {
			return err
		}
	}
	data, err := encodeWorld(w)
	if err != nil || bytes.Equal(data, old) {
		return err
	}
	return s.write(data)
}

// status is the agent's, or "".
func (p *Pane) status() string {
	if p.Agent == nil {
		return ""
	}
	return p.Agent.Status
}

// changed counts a change of state, and tells the terminal that a dialog opened
// or closed: whom an Enter reaches is for the terminal to say. A look at what is
// done makes it idle, and counts for nothing.
func (s *Scene) changed(w *World, p *Pane, before string) error {
	status := p.status()
	if status == before {
		return nil
	}
	if before != "" && p.Agent != nil && (before != Done || status != Idle) {
		w.count(p)
	}
	if dialog := status == Blocked; dialog != (before == Blocked) {
		return appendLine(s.inputFile(p.Terminal), input{At: time.Now(), Blocked: &dialog})
	}
	return nil
}

func (w *World) count(p *Pane) {
	const kept = 64 // nobody who waits is later than that
	w.Seq++
	p.Revision++
	p.Agent.StateChangeSeq = w.Seq
	w.Changes = append(w.Changes, Change{w.Seq, p.Terminal, p.Agent.Status})
	w.Changes = w.Changes[max(0, len(w.Changes)-kept):]
}

// check refuses what would make a call fail later, where nobody looks.
func (w *World) check() error {
	if w.Version != "0.8" && w.Version != "0.9" {
		return fmt.Errorf("version %q: only 0.8 and 0.9 are known", w.Version)
	}
	for _, f := range w.Faults {
		if err := f.check(); err != nil {
			return err
		}
	}
	return nil
}

// World returns the world as it is now. Changing it changes nothing.
func (s *Scene) World() (*World, error) {
	w, _, err := s.read(time.Now())
	return w, err
}

// read returns the world at a moment: as it was written, with the agents ready
// whose start has come to its end since, and with those dialogs gone that an
// Enter has answered.
func (s *Scene) read(now time.Time) (w *World, data []byte, err error) {
	err = retry(func() error {
		data, err = os.ReadFile(filepath.Join(s.dir, worldFile))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	w = new(World)
	if err := json.Unmarshal(data, w); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", worldFile, err)
	}
	for _, p := range w.Panes {
		w.settle(p, now)
		if p.status() != Blocked {
			continue
		}
		inputs, err := s.inputs(p.Terminal)
		if err != nil {
			return nil, nil, err
		}
		if !replay(inputs, now).blocked {
			p.Agent.Status = Idle
			w.count(p)
		}
	}
	return w, data, nil
}

// encodeWorld is for people too, who look into a failed scene.
func encodeWorld(w *World) ([]byte, error) {
	return json.MarshalIndent(w, "", " ")
}

// write replaces the world in one step, for readers take no lock. Only the
// holder of the lock calls it.
func (s *Scene) write(data []byte) error {
	file := filepath.Join(s.dir, worldFile)
	if err := os.WriteFile(file+".new", data, 0o600); err != nil {
		return err
	}
	return retry(func() error { return os.Rename(file+".new", file) })
}

// Submissions returns what the program in a pane has received up to now, oldest
// first: a prompt whose Enter is still pending is not there yet. pane is any id
// the pane ever had; it may be closed.
func (s *Scene) Submissions(pane string) ([]Submission, error) {
	return s.submissions(pane, time.Now())
}

func (s *Scene) submissions(pane string, now time.Time) ([]Submission, error) {
	p, inputs, err := s.received(pane)
	if err != nil {
		return nil, err
	}
	if !p.ClosedAt.IsZero() && now.After(p.ClosedAt) {
		now = p.ClosedAt
	}
	return replay(inputs, now).submissions, nil
}

// received returns a pane by any id it ever had, and its inputs.
func (s *Scene) received(pane string) (*Pane, []input, error) {
	w, err := s.World()
	if err != nil {
		return nil, nil, err
	}
	p := w.everPane(pane)
	if p == nil {
		return nil, nil, fmt.Errorf("no pane %s in the scene", pane)
	}
	inputs, err := s.inputs(p.Terminal)
	return p, inputs, err
}

// Keystrokes returns all that was written to a pane, in order: prompts, pane run
// and pane send-text, and the commands of agent start. pane is any id the pane
// ever had; it may be closed.
func (s *Scene) Keystrokes(pane string) ([]Keystroke, error) {
	_, inputs, err := s.received(pane)
	if err != nil {
		return nil, err
	}
	var list []Keystroke
	for _, in := range inputs {
		switch {
		case in.Blocked != nil:
		case in.NoEnter:
			list = append(list, Keystroke{At: in.At, Text: in.Text})
		default:
			list = append(list, Keystroke{At: in.At, Text: in.Text, Enter: in.At.Add(in.Enter)})
		}
	}
	return list, nil
}
