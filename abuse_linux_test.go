package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A log that could block the server, or be its stdout, is not used.
func TestLogIsARegularFile(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newScene(t)
	reader, err := os.OpenFile(fifo, os.O_RDWR, 0) // so that it can be opened for writing, and does block
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, log := range []string{fifo, "/dev/stdout", "/dev/full"} {
		h := eager(t, s, "HERDR_LINK_LOG="+log)
		if r := h.call("herdr_link_peers", ""); r.IsError {
			t.Error(r.text())
		}
		h.stdin.Close()
		if code := h.wait(); code != 0 {
			t.Errorf("%s: exit %d", log, code)
		}
		if said := h.stderr.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "HERDR_LINK_LOG") {
			t.Errorf("%s: stderr: %q", log, said)
		}
	}
}

// A file that stdout goes to is no log either: it would get lines that are no protocol.
func TestLogIsNotStdout(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command(binaries.server)
	cmd.Env = inPane(t, newScene(t), "w1:p1", "HERDR_LINK_LOG="+out).vars
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
	cmd.Stdout = f
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, out); got != `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n" {
		t.Errorf("%q", got)
	}
}

// A machine without room for a file is not a wrong HERDR_BIN_PATH.
func TestNoDescriptors(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	told := false
	for limit := 8; limit < 24; limit++ {
		cmd := exec.Command("/bin/sh", "-c", "ulimit -n "+strconv.Itoa(limit)+"; exec \"$0\" peers", binaries.plain)
		cmd.Env = inPane(t, s, "w1:p1").vars
		var errs bytes.Buffer
		cmd.Stderr = &errs
		_ = cmd.Run()
		said := errs.String()
		switch {
		case strings.HasPrefix(said, "NOT_IN_HERDR: this machine has no room"):
			told = true
		case strings.Contains(said, "HERDR_BIN_PATH"):
			t.Errorf("with %d descriptors: %s", limit, said)
		}
	}
	if !told {
		t.Error("never was there too little room: this test shows nothing")
	}
}

// What was sent is not reported as failed because nobody can read the id.
func TestSentToAFullDevice(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"send", "reviewer", "hi"}, 0, "was sent as hl_"},
		{[]string{"peers"}, 1, "stdout cannot be written"},
		{[]string{"version"}, 1, "stdout cannot be written"},
		{[]string{"tools", "--json"}, 1, "stdout cannot be written"},
		{[]string{"call", "herdr_link_peers"}, 1, "stdout cannot be written"},
	} {
		cmd := exec.Command(binaries.server, test.args...)
		cmd.Env = inPane(t, s, "w1:p1").vars
		var errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &errs
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != test.code || strings.Count(errs.String(), "\n") != 1 ||
			!strings.Contains(errs.String(), test.want) {
			t.Errorf("%q: exit %d, %q", test.args, code, &errs)
		}
	}
	received(t, s, "w1:p2", 1)
}

// A text that is not even read to its end is too long, whatever it begins with.
func TestEndlessMessage(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, text := range []string{"x" + strings.Repeat("é", 5<<19), strings.Repeat(" ", 5<<20)} {
		_, errs, code := run(t, inPane(t, s, "w1:p1"), text, "send", "reviewer")
		if code != 1 || !strings.HasPrefix(errs, "SEND_FAILED: message is too long") {
			t.Errorf("exit %d, %q", code, errs)
		}
	}
}

// Linux ends the children even of a server that is killed.
func TestKilledServerLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGQUIT} {
		s := newScene(t)
		fault(t, s, "hang", "agent", "get")
		h := start(t, inPane(t, s, "w1:p1"), "--eager")
		h.initialize("2025-11-25")
		for range 8 {
			h.begin("herdr_link_peers", "")
		}
		awaitCalls(t, s, 8, "agent", "get")
		if err := h.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		h.wait()
		var left []int
		eventually(t, "the end of all children", func() bool {
			left = h.env.alive()
			return len(left) == 0
		})
	}
}

// A command whose stdout takes nothing more ends with a signal all the same.
func TestStuckOutput(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"tools", "--json"}, {"--help"}, {"version"}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		raw, err := w.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Write(func(fd uintptr) bool { // fill it
			for {
				if n, err := syscall.Write(int(fd), make([]byte, 4096)); n <= 0 || err != nil {
					return true
				}
			}
		})
		cmd := exec.Command(binaries.server, args...)
		cmd.Env, cmd.Stdout = inPane(t, nil, "").vars, w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		eventually(t, "a write to stdout that waits", func() bool {
			tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/task/*/syscall")
			for _, path := range tasks {
				if at, err := os.ReadFile(path); err != nil || strings.HasPrefix(string(at), fmt.Sprintf("%d 0x1 ", syscall.SYS_WRITE)) {
					return true // or it may not be looked at here
				}
			}
			return false
		})
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			t.Errorf("%q does not end", args)
		}
	}
}

// On a full disk the locks exist and cannot be marked. Messages do not merge all
// the same.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if err := syscall.Mount("tmpfs", home, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		t.Skipf("no small disk can be made here: %v", err)
	}
	defer func() { _ = syscall.Unmount(home, 0) }()
	if err := os.MkdirAll(filepath.Join(home, ".local/state/herdr-link/locks"), 0o700); err != nil {
		t.Fatal(err)
	}
	filler, err := os.Create(filepath.Join(home, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	filler.Close()
	s := newScene(t)
	for _, message := range []string{"one", "two", "three"} {
		if _, errs, code := run(t, inPane(t, s, "w1:p1", "HOME="+home), message, "send", "reviewer"); code != 0 {
			t.Fatal(errs)
		}
	}
	if got := received(t, s, "w1:p2", 3); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("received %q", got)
	}
}
