package response

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestUUID(t *testing.T) {
	for id, want := range map[string]bool{
		uuid: true, strings.ToUpper(uuid): true, "": false, "../../x": false, strings.Replace(uuid, "-", "0", 1): false, strings.Replace(uuid, "0", "-", 1): false,
		strings.Replace(uuid, "0", "g", 1): false, uuid + "0": false, uuid[1:]: false, "../../../../../../../../../../etc/pass": false, strings.Replace(uuid, "0", "/", 1): false,
		strings.Replace(uuid, "0", "\x00", 1): false, strings.Replace(uuid, "01", "ü", 1): false,
	} {
		if got := isUUID(id); got != want {
			t.Errorf("%q: %t", id, got)
		}
	}
}

// A transcript is found by its session's id, in the folders that the host's own
// variables name.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	for host, test := range map[string]struct {
		variable string
		path     func(*stage) string
		answer   func(string) string
	}{
		"claude": {"CLAUDE_CONFIG_DIR", (*stage).claude, claudeAnswer},
		"codex":  {"CODEX_HOME", (*stage).codex, codexAnswer},
	} {
		s := newStage(t)
		path := test.path(s)
		root := filepath.Join(s.home, "."+host)
		load := func() (string, error) {
			a, err := s.reader().load(t.Context(), host, uuid, "")
			if err != nil {
				return "", err
			}
			return string(a.text), nil
		}
		expect := func(what, want string, fails error) {
			t.Helper()
			if got, err := load(); got != want || !errors.Is(err, fails) {
				t.Errorf("%s, %s: %q, %v", host, what, got, err)
			}
		}
		expect("no folder", "", errNoSession)
		s.put(filepath.Join(filepath.Dir(path), "notes.txt"), "x")
		s.put(strings.Replace(path, uuid, uuid[:35]+"0", 1), test.answer("no"))
		expect("no file", "", errNoSession)
		s.put(path, test.answer("yes"))
		expect("there", "yes", nil)
		s.vars[test.variable] = s.tmp
		expect("elsewhere", "", errNoSession)
		s.vars[test.variable] = "." + host
		expect("relative", "", errNoSession)
		s.vars[test.variable] = filepath.Join(s.tmp, "moved")
		if err := os.Rename(root, s.vars[test.variable]); err != nil {
			t.Fatal(err)
		}
		expect("moved", "yes", nil)
		if runtime.GOOS != "windows" {
			if err := os.Symlink(s.vars[test.variable], root); err != nil {
				t.Fatal(err)
			}
			s.vars[test.variable] = ""
			expect("below a link of the user's", "yes", nil)
		}
		s.vars[test.variable], s.opt.Home = "", ""
		expect("without a home", "", errNoSession)
	}
}

// Of several, the last that was written counts; of Codex, that of the last day.
func TestSeveralTranscripts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	old := strings.Replace(s.claude(), "-project", "-a", 1)
	for path, text := range map[string]string{old: "old", s.claude(): "new", strings.Replace(s.claude(), "-project", "-z", 1): "older"} {
		s.put(path, claudeAnswer(text))
		if text != "new" {
			past := time.Now().Add(-time.Hour)
			if err := os.Chtimes(path, past, past); err != nil {
				t.Fatal(err)
			}
		}
	}
	if a, err := s.reader().load(t.Context(), "claude", uuid, ""); err != nil || string(a.text) != "new" {
		t.Errorf("%+v, %v", a, err)
	}
	day := func(path string) string {
		return strings.Replace(s.codex(), filepath.Join("2026", "12", "01"), path, 1)
	}
	for path, text := range map[string]string{filepath.Join("2026", "12", "02"): "new", filepath.Join("2026", "11", "30"): "old", filepath.Join("2025", "12", "31"): "older", filepath.Join("x", "12", "31"): "no"} {
		s.put(day(path), codexAnswer(text))
	}
	if a, err := s.reader().load(t.Context(), "codex", uuid, ""); err != nil || string(a.text) != "new" {
		t.Errorf("%+v, %v", a, err)
	}
}

// One that has been compressed is told apart from one that is not there, unless
// both are.
func TestCompressed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.put(s.codex()+".zst", "x")
	if _, err := s.reader().load(t.Context(), "codex", uuid, ""); !errors.Is(err, errCompressed) {
		t.Error(err)
	}
	s.put(s.codex(), codexAnswer("yes"))
	if _, err := s.reader().load(t.Context(), "codex", uuid, ""); err != nil {
		t.Error(err)
	}
}

// No id leads out of the root, and nothing but a regular file in regular folders
// is opened.
func TestTraps(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs links")
	}
	for host, test := range map[string]struct {
		path   func(*stage) string
		answer func(string) string
		levels int // of folders below the root
	}{"claude": {(*stage).claude, claudeAnswer, 1}, "codex": {(*stage).codex, codexAnswer, 3}} {
		fails := func(s *stage, what string) {
			t.Helper()
			if a, err := s.reader().load(t.Context(), host, uuid, ""); !errors.Is(err, errNoSession) {
				t.Errorf("%s, %s: %+v, %v", host, what, a, err)
			}
		}
		for level := 0; level <= test.levels; level++ { // a link to what is outside, and to what is inside
			for _, inside := range []bool{false, true} {
				if inside && host == "claude" && level == 1 {
					continue // TestLinkedProjects
				}
				s := newStage(t)
				path := test.path(s)
				s.put(path, test.answer("no"))
				at := path
				for range level {
					at = filepath.Dir(at)
				}
				to := filepath.Join(s.tmp, "hidden")
				if inside {
					to = filepath.Join(filepath.Dir(at), "hidden")
				}
				if err := errors.Join(os.Rename(at, to), os.Symlink(to, at)); err != nil {
					t.Fatal(err)
				}
				fails(s, "a link at "+strings.TrimPrefix(at, s.home))
			}
		}
		s := newStage(t)
		path := test.path(s)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		fails(s, "a folder")
		if err := errors.Join(os.Remove(path), mkfifo(path)); err != nil {
			t.Fatal(err)
		}
		fails(s, "a FIFO")
		s.put(filepath.Join(s.home, "x.jsonl"), test.answer("no"))
		for _, id := range []string{"../../x", "../../../x", filepath.Join(s.home, "x"), "x", ".", ""} {
			if a, err := s.reader().load(t.Context(), host, id, ""); !errors.Is(err, errNoSession) {
				t.Errorf("%s, %q: %+v, %v", host, id, a, err)
			}
		}
	}
}

// A transcript may have its limit, and no byte more.
func TestTranscriptTooLarge(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.opt.MaxBytes = MinMaxBytes
	text := claudeAnswer("yes")
	for size, want := range map[int]error{MinMaxBytes: nil, MinMaxBytes + 1: errTooLarge} {
		s.put(s.claude(), text[:strings.Index(text, "\n")+1]+strings.Repeat(" ", size-len(text)-1)+"\n"+text[strings.Index(text, "\n")+1:])
		if a, err := s.reader().load(t.Context(), "claude", uuid, ""); !errors.Is(err, want) || err == nil && string(a.text) != "yes" {
			t.Errorf("%d bytes: %v, %v", size, a, err)
		}
	}
}

// Links, and what is no file, do not hide the transcript that is there, however
// new they are.
func TestLinkedProjects(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs links")
	}
	s := newStage(t)
	s.put(s.claude(), claudeAnswer("yes"))
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(s.claude(), past, past); err != nil {
		t.Fatal(err)
	}
	projects := filepath.Dir(filepath.Dir(s.claude()))
	s.put(filepath.Join(projects, "deep", "inner", uuid+".jsonl"), claudeAnswer("no"))
	err := errors.Join(os.Symlink(filepath.Join("deep", "inner"), filepath.Join(projects, "link")), os.MkdirAll(filepath.Join(projects, "folder", uuid+".jsonl"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	if a, err := s.reader().load(t.Context(), "claude", uuid, ""); err != nil || string(a.text) != "yes" {
		t.Errorf("%+v, %v", a, err)
	}
}

// A link that takes a file's place in the moment of its opening is not followed.
func TestSwappedFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs links")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"yes", "no"} {
		if err := os.WriteFile(at(name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	done := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			_ = os.Link(at("yes"), at("next"))
			_ = os.Rename(at("next"), at("file"))
			_ = os.Symlink("no", at("next"))
			_ = os.Rename(at("next"), at("file"))
		}
	})
	defer swapping.Wait()
	defer close(done)
	opened := 0
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		f, err := openIn(root, "file")
		if err != nil {
			continue
		}
		opened++
		text, _ := io.ReadAll(f)
		f.Close()
		if string(text) != "yes" {
			t.Fatalf("it reads %q", text)
		}
	}
	if opened == 0 {
		t.Error("it was never opened")
	}
}
