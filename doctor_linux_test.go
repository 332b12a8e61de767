package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"herdr-link/fakeherdr"
	"herdr-link/mesh/sandbox"
)

// On a terminal it is a table with marks, and with colours unless they are
// unwanted.
func TestDoctorOnTerminal(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env     []string
		colours bool
	}{
		"colours":        {[]string{"TERM=xterm", "NO_COLOR="}, true},
		"none wanted":    {[]string{"TERM=xterm", "NO_COLOR=1"}, false},
		"none possible":  {[]string{"TERM=dumb", "NO_COLOR="}, false},
		"no colour, dim": {[]string{"TERM=dumb", "NO_COLOR=0"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, env, _ := patient(t, "w1:p4", tc.env...)
			master, terminal := openPair(t)
			read := make(chan string)
			go func() {
				var all bytes.Buffer
				_, _ = io.Copy(&all, master) // ends with an error when the terminal is closed
				read <- all.String()
			}()
			cmd := exec.Command(binaries.server, "doctor")
			cmd.Env, cmd.Stdout = env.vars, terminal
			if err := cmd.Run(); err != nil {
				t.Errorf("%v", err)
			}
			terminal.Close()
			out := <-read
			if !strings.Contains(out, "✓ ok") || !strings.Contains(out, "! warn") || !strings.Contains(out, " → ") {
				t.Errorf("no marks: %q", out)
			}
			if colours := strings.Contains(out, "\x1b[32m✓ ok  \x1b[0m"); colours != tc.colours || strings.Contains(out, "\x1b") != tc.colours {
				t.Errorf("colours: %q", out)
			}
			if bare := colour.ReplaceAllString(out, ""); strings.Contains(bare, "\x1b") || strings.Count(bare, "environment") != 1 {
				t.Errorf("%q", bare)
			}
		})
	}
}

// Another one owns the pane: this process has its variables by inheritance.
func TestDoctorInherited(t *testing.T) {
	t.Parallel()
	s, env, _ := patient(t, "w1:p1")
	change(t, s, func(w *fakeherdr.World) {
		p := w.Pane("w1:p1")
		p.Shell, p.Foreground = nobody, []fakeherdr.Process{{PID: nobody + 1, Name: "claude"}}
	})
	diagnose(t, env).want(t, "pane owner", "warn inherited, or in a container", "HERDR_LINK_OFF=1")
	change(t, s, func(w *fakeherdr.World) { w.Pane("w1:p1").Shell = os.Getpid() })
	diagnose(t, env).want(t, "pane owner", "warn another process owns the pane: claude")
}

// An agent inside the pane's agent speaks in that one's name.
func TestDoctorNested(t *testing.T) {
	t.Parallel()
	_, env, home := patient(t, "w1:p1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"codex": "warn  pane         owner      inherited: codex runs inside claude", "claude": "ok    pane         owner      this process belongs to claude"} {
		program := filepath.Join(home, name)
		if err := os.Symlink(self, program); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, "doctor")
		cmd.Env = append(env.vars, parentOf+"="+binaries.server)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}

// Two servers in one pane are one too many; a server of another pane, or of
// another Herdr, does not count.
func TestDoctorServers(t *testing.T) {
	t.Parallel()
	s, env, home := patient(t, "w1:p1")
	writeFile(t, filepath.Join(home, ".claude.json"), `{"mcpServers":{"herdr_link":{"type":"stdio","command":`+jsonString(binaries.server)+`}}}`)
	d := diagnose(t, env)
	d.want(t, "pane servers", "warn none runs in this pane, though claude is to start one -- restart claude")
	other := newScene(t)
	for _, e := range []environment{inPane(t, s, "w1:p2"), inPane(t, other, "w1:p1")} {
		start(t, e).initialize("2025-11-25")
	}
	first := start(t, env)
	first.initialize("2025-11-25")
	diagnose(t, env).want(t, "pane servers", fmt.Sprintf("ok one runs in this pane: process %d", first.cmd.Process.Pid))
	second := start(t, env, "--eager")
	second.initialize("2025-11-25")
	d = diagnose(t, env)
	d.want(t, "pane servers", "warn 2 run in this pane: processes ", fmt.Sprint(first.cmd.Process.Pid), fmt.Sprint(second.cmd.Process.Pid), "register it once")
	if d.code != 0 {
		t.Errorf("exit %d", d.code)
	}
}

// What is no file is not opened; what is not ours alone is told.
func TestDoctorFiles(t *testing.T) {
	t.Parallel()
	_, env, home := patient(t, "w1:p1")
	fifo, open := filepath.Join(home, "fifo"), filepath.Join(home, "open")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(home, ".claude.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	writeFile(t, open, "")
	locks := filepath.Join(home, ".local", "state", "herdr-link", "locks")
	if err := os.MkdirAll(locks, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{open: 0o644, locks: 0o770} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	env.vars = append(env.vars, "HERDR_LINK_LOG="+fifo)
	d := diagnose(t, env)
	d.want(t, "files log", "fail", "not a regular file")
	d.want(t, "files locks", "fail", "writable by others")
	d.want(t, "hosts claude", "fail", "not a regular file")
	env.vars = append(env.vars, "HERDR_LINK_LOG="+open)
	diagnose(t, env).want(t, "files log", "warn", "read by others", "chmod 600")
	if info, err := os.Stat(open); err != nil || info.Mode().Perm() != 0o644 {
		t.Error("it changed the mode")
	}
}

// A lock that is held is told, and so is what verification lacks.
func TestDoctorMesh(t *testing.T) {
	t.Parallel()
	_, env, home := patient(t, "w1:p1")
	meshEntry("", "controller-leases/.reservation-flock=")(t, home)
	diagnose(t, env).want(t, "mesh lock", "ok free")
	file, err := os.Open(filepath.Join(home, ".local", "state", "herdr-mesh", "controller-leases", ".reservation-flock"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	d := diagnose(t, env)
	d.want(t, "mesh lock", "warn active: a process holds the file lock", "LOCK_BUSY")
	if err := new(sandbox.Sandbox).Find(t.Context()); err != nil {
		d.want(t, "mesh sandbox", "warn "+err.Error(), "all else of mesh does without")
		t.Skipf("%v (apt-get install bubblewrap)", err)
	}
	d.want(t, "mesh sandbox", "ok bubblewrap makes sandboxes")

	// Once more where there is no bubblewrap.
	args := []string{"--dev-bind", "/", "/"}
	for _, dir := range []string{"/usr/bin", "/usr/local/bin"} {
		if _, err := os.Stat(filepath.Join(dir, "bwrap")); err == nil {
			args = append(args, "--tmpfs", dir)
		}
	}
	bare := exec.Command("bwrap", append(args, "--", binaries.server, "doctor", "--json")...)
	bare.Env = env.vars
	out, err := bare.Output()
	if err != nil || !strings.Contains(string(out), `"name":"sandbox","state":"warn","detail":"VERIFY_UNAVAILABLE: verification needs bubblewrap, and there is no program /usr/bin/bwrap or /usr/local/bin/bwrap"`) {
		t.Errorf("%v, %s", err, out)
	}
}
