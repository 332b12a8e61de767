package attest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"herdr-link/fakeherdr"
	"herdr-link/herdrcli"
	"herdr-link/mesh/fault"
)

func TestMain(m *testing.M) {
	if dir, ok := fakeherdr.Role(os.Args[0]); ok {
		os.Exit(fakeherdr.Main(dir, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// The name of a process may look like the rest of the line.
func TestParse(t *testing.T) {
	t.Parallel()
	const tail = " 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 1 2 3"
	got, known := parse([]byte("12 (a) S 1 (b)) R" + tail))
	if want := (seen{7, "4242", false}); !known || got != want {
		t.Errorf("%+v, %t", got, known)
	}
	if got, known := parse([]byte("12 (a) Z" + tail)); !known || !got.ended {
		t.Errorf("a zombie: %+v, %t", got, known)
	}
	for _, text := range []string{"", "12 (a", "12 (a) R 7", "12 (a) R x" + tail[2:], strings.Replace("12 (a) R"+tail, "4242", "late", 1)} {
		if got, known := parse([]byte(text)); known {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// A process that has ended is gone before anybody reaps it.
func TestZombie(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/bin/cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Process{cmd.Process.Pid, Boot(), Start(cmd.Process.Pid)}
	if p.Gone(t.Context()) {
		t.Error("gone while it runs")
	}
	_ = stdin.Close()
	for end := time.Now().Add(20 * time.Second); !p.Gone(t.Context()) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if !Exists(p.PID) {
		t.Error("it was reaped: this test shows nothing")
	}
	_ = cmd.Wait()
	if !p.Gone(t.Context()) {
		t.Error("not gone after its end")
	}
}

// Herdr says what the shell is.
func TestCallerOfHerdr(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	scene, err := fakeherdr.Create(filepath.Join(t.TempDir(), "scene"), program)
	if err != nil {
		t.Fatal(err)
	}
	shell := func(pid int) {
		if err := scene.Update(func(w *fakeherdr.World) error { w.Pane("w1:p1").Shell = pid; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	herdr := herdrcli.New(herdrcli.Options{Bin: scene.Bin(), Environ: append(os.Environ(), scene.Env("w1:p1")...)})
	shell(os.Getppid())
	if p, err := Caller(t.Context(), herdr, "w1:p1", false); err != nil || p == nil || p.PID != os.Getppid() || p.Gone(t.Context()) {
		t.Errorf("%+v, %v", p, err)
	}
	shell(1 << 29)
	if p, err := Caller(t.Context(), herdr, "w1:p1", false); fault.Code(err) != "CALLER_PANE_UNPROVEN" || p != nil {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := Caller(t.Context(), herdr, "w9:p9", true); fault.Code(err) != "PANE_NOT_FOUND" {
		t.Errorf("%v", err)
	}
}

func TestSelf(t *testing.T) {
	t.Parallel()
	p := Self(t.Context())
	if p == nil || p.PID != os.Getpid() || p.BootID != Boot() || p.StartTicks != Start(os.Getpid()) || p.StartTicks == "" || p.Gone(t.Context()) {
		t.Errorf("%+v", p)
	}
}
