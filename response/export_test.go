package response

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"herdr-link/mcp"
	"herdr-link/twin"
)

// exports is a stage whose TMPDIR is its own. It sets a variable of this process,
// so its tests run one after the other.
func exports(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	t.Setenv("TMPDIR", s.tmp)
	t.Setenv("TMP", s.tmp)
	s.session("w1:p2", "opencode", worker)
	t.Cleanup(func() {
		if left, err := os.ReadDir(s.tmp); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return s
}

func (s *stage) mode(mode string) { s.put(filepath.Join(s.bin, "mode"), mode) }

// A long export arrives whole, made in an empty folder, without project plugins,
// and outside of Herdr for those of the user.
func TestExport(t *testing.T) {
	t.Setenv("HERDR_ENV", "1")
	t.Setenv("HERDR_PANE_ID", "w1:p1")
	s := exports(t)
	text := strings.Repeat("0123456789abcdef", 25<<10)
	s.export(worker, "sheep-plan", text)
	s.mode("litter")
	got, list := all(t, s.reader(), "reviewer", maxPage)
	if got != text || len(list) != 25 {
		t.Errorf("%d bytes of %d in %d pages", len(got), len(text), len(list))
	}
	report, err := os.ReadFile(filepath.Join(s.bin, "report"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(report), "\n")
	if dir, _ := filepath.EvalSymlinks(s.tmp); filepath.Dir(lines[1]) != s.tmp || lines[0] != filepath.Join(dir, filepath.Base(lines[1])) || lines[2] != "1" || lines[3] != "0" || lines[4] != "true" || lines[5] != "" {
		t.Errorf("it ran in %q", lines)
	}
}

// Why an export fails.
func TestExportFails(t *testing.T) {
	s := exports(t)
	expect := func(what, code string, retry bool, word string) {
		t.Helper()
		a := ask(t, s.reader(), `"target":"reviewer"`)
		if a.code() != code || a.Error.Retryable != retry || !strings.Contains(a.Error.Message, word) {
			t.Errorf("%s: %s", what, a.raw)
		}
	}
	expect("no session", "SESSION_NOT_FOUND", false, "")
	for _, id := range []string{"--help", "-x", "ses_/../x", "msg_1", "ses_x y"} {
		s.session("w1:p2", "opencode", id)
		s.put(filepath.Join(s.bin, "report"), "")
		expect(id, "SESSION_NOT_FOUND", false, "")
		if report, _ := os.ReadFile(filepath.Join(s.bin, "report")); len(report) > 0 {
			t.Errorf("%s reached opencode", id)
		}
	}
	s.session("w1:p2", "opencode", worker)
	s.put(filepath.Join(s.bin, worker), "nothing to see")
	expect("no JSON", "SESSION_EXPORT_FAILED", true, "not a whole session")
	s.put(filepath.Join(s.bin, worker), session(worker)[:40])
	expect("cut off", "SESSION_EXPORT_FAILED", true, "not a whole session")
	s.put(filepath.Join(s.bin, worker), session("ses_other"))
	expect("another one", "SESSION_EXPORT_FAILED", false, "another session")
	s.mode("fail")
	expect("failed", "SESSION_EXPORT_FAILED", true, "exit code 3: Exporting session: "+worker+" Error: the database is locked \ufffdéé")
	if a := ask(t, s.reader(), `"target":"reviewer"`); len([]rune(a.Error.Message)) > maxDetail+100 {
		t.Errorf("%d characters", len([]rune(a.Error.Message)))
	}
	s.mode("flood")
	s.opt.MaxBytes = MinMaxBytes
	expect("too much", "SESSION_EXPORT_TOO_LARGE", false, "")
	s.mode("")
	s.put(filepath.Join(s.bin, worker), session(worker)+strings.Repeat(" ", MinMaxBytes))
	expect("too much at its end", "SESSION_EXPORT_TOO_LARGE", false, "")
	s.vars["PATH"] = s.scene.Dir()
	expect("no opencode", "SESSION_EXPORT_FAILED", true, "PATH")
}

// An export that never ends is over with the call, with all its processes.
func TestExportHangs(t *testing.T) {
	for name, want := range map[string]string{"time": "could not be read in time", "cancel": "cancelled"} {
		s := exports(t)
		s.mode("hang")
		ctx, stop := context.WithCancel(t.Context())
		if name == "time" {
			ctx, stop = context.WithTimeout(t.Context(), endMargin+2*time.Second)
		}
		defer stop()
		pids := make(chan []int, 1)
		go func() {
			var one, other int
			for {
				text, err := os.ReadFile(filepath.Join(s.bin, "pids"))
				if _, err2 := fmt.Sscan(string(text), &one, &other); err == nil && err2 == nil {
					break
				}
				if ctx.Err() != nil {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			pids <- []int{one, other}
			if name == "cancel" {
				stop()
			}
		}()
		r, err := mcp.CallOne(ctx, s.reader().Tools(), Name, []byte(`{"target":"reviewer"}`))
		if err != nil || !r.IsError || !strings.Contains(r.Text[0], "SESSION_EXPORT_FAILED") || !strings.Contains(r.Text[0], want) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if name == "time" && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Error("the answer came when the call's time was over")
		}
		for _, pid := range <-pids {
			for end := time.Now().Add(10 * time.Second); pid == 0 || alive(pid); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%s: process %d lives", name, pid)
				}
			}
		}
	}
}

// An export of 64 MiB is read with little memory.
func TestLargeExport(t *testing.T) {
	if twin.Runs(t) { // smaller ones are read with the race detector
		return
	}
	for name, fill := range fillers {
		file, err := os.Create(filepath.Join(t.TempDir(), "export"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		fmt.Fprint(file, `{"info":{"id":"`+worker+`","x":[]},"messages":[`+user("u1")+`,{"info":{"role":"assistant","parentID":"u1","id":"a1","x":`)
		fill(file, DefaultMaxBytes/2-1<<16)
		fmt.Fprint(file, `},"parts":[{"type":"tool","output":`)
		fill(file, DefaultMaxBytes/2-1<<16)
		fmt.Fprint(file, `}]},`+assistant("a2", "u1", `"agent":"sheep-plan"`, part("yes"))+`]}`)
		info, err := file.Stat()
		if err != nil || info.Size() > DefaultMaxBytes {
			t.Fatal(info.Size(), err)
		}
		var a *answer
		if got := allocated(func() { a, err = readOpenCode(t.Context(), io.NewSectionReader(file, 0, info.Size()), worker, "") }); err != nil || string(a.text) != "yes" || got > 1<<20 {
			t.Errorf("%s: %v, %v, %d bytes allocated", name, a, err, got)
		}
	}
}
