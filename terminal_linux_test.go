package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// openTerminal opens a pseudo-terminal and returns the end that a program has.
func openTerminal(t *testing.T) *os.File {
	t.Helper()
	_, terminal := openPair(t)
	return terminal
}

// openPair opens a pseudo-terminal and returns both ends.
func openPair(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { master.Close() })
	control := func(request uintptr, arg unsafe.Pointer) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(arg)); errno != 0 {
			t.Skip("no pseudo-terminals here: ", errno)
		}
	}
	var unlock, number int32
	control(syscall.TIOCSPTLCK, unsafe.Pointer(&unlock))
	control(syscall.TIOCGPTN, unsafe.Pointer(&number))
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { terminal.Close() })
	return master, terminal
}

// A person at a terminal is told how to use it: nobody types JSON.
func TestTerminal(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	overview, _, _ := run(t, inPane(t, s, "w1:p1"), "", "--help")
	for _, tc := range []struct {
		args []string
		code int
		errs string // that stderr begins with
		out  string // that stdout begins with
	}{
		{nil, 2, overview, ""},
		{[]string{"--eager"}, 2, overview, ""},
		{[]string{"send", "reviewer"}, 2, "herdr-link: ", ""},
		{[]string{"send", "reviewer", "-"}, 2, "herdr-link: ", ""},
		{[]string{"call", "herdr_link_peers"}, 0, "", `{"content":`},
	} {
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		cmd := exec.CommandContext(ctx, binaries.server, tc.args...)
		cmd.Env = inPane(t, s, "w1:p1").vars
		cmd.Stdin = openTerminal(t)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != tc.code {
			t.Errorf("%q: exit %d", tc.args, code)
		}
		if !strings.HasPrefix(errs.String(), tc.errs) || tc.errs == "" && errs.Len() > 0 {
			t.Errorf("%q: stderr %q", tc.args, errs.String())
		}
		if !strings.HasPrefix(out.String(), tc.out) || tc.out == "" && out.Len() > 0 {
			t.Errorf("%q: stdout %q", tc.args, out.String())
		}
	}
	if len(commands(t, s, "agent", "prompt")) > 0 {
		t.Error("something was sent")
	}
}

// The lines of a dry run's diff are others' words. On a terminal they do nothing
// to it; in a file they are as they are, for patch.
func TestDiffOnTerminal(t *testing.T) {
	t.Parallel()
	env, home := atHome(t)
	const evil = "\t// \x1b]0;x\a\u202e"
	writeFile(t, home+"/.claude.json", "{"+evil+"\n}\n")
	if out, errs, code := run(t, env, "", "install", "--dry-run", "claude"); code != 0 || !strings.Contains(out, evil) {
		t.Errorf("%d, %q, %s", code, out, errs)
	}
	master, terminal := openPair(t)
	read := make(chan string)
	go func() {
		var all bytes.Buffer
		_, _ = all.ReadFrom(master) // ends with an error when the terminal is closed
		read <- all.String()
	}()
	cmd := exec.Command(binaries.server, "install", "--dry-run", "claude")
	cmd.Env, cmd.Stdout = env.vars, terminal
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	terminal.Close()
	if out := <-read; !strings.Contains(out, `// \u001b]0;x\u0007\u202e`) || strings.ContainsAny(out, "\x1b\a") {
		t.Errorf("%q", out)
	}
}
