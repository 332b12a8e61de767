// Package twin builds the test binary of a package a second time, without the
// race detector. A process of it starts and computes several times as fast: it
// is for what a test starts often and kills, and for what one goroutine does
// alone, in which the detector finds nothing.
//
// It is not part of the program.
package twin

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// twin is the one of this package's tests.
var twin struct {
	sync.Once
	folder string // of the package
	dir    string // what has to be removed at the end
	path   string
	err    error
}

// ofVariable names the test binary, for its twin.
const ofVariable = "HERDR_LINK_TWIN_OF"

// Original returns the path of the test binary that was started to run the
// tests, which has the race detector if they shall: this one, or the one whose
// twin it is.
func Original() (string, error) {
	if path := os.Getenv(ofVariable); path != "" {
		return path, nil
	}
	return os.Executable()
}

// Main runs the tests, and removes the twin at their end. TestMain calls it.
func Main(m *testing.M) (code int) {
	if twin.folder, twin.err = os.Getwd(); twin.err != nil {
		fmt.Fprintln(os.Stderr, twin.err)
		return 1
	}
	defer func() {
		if twin.dir != "" {
			_ = os.RemoveAll(twin.dir)
		}
	}()
	return m.Run()
}

// Path returns the path of the twin, which is built when it is wanted first.
// Without the race detector the test binary is its own twin.
func Path(t testing.TB) string {
	t.Helper()
	twin.Do(func() { twin.path, twin.err = build() })
	if twin.err != nil {
		t.Fatal(twin.err)
	}
	return twin.path
}

func build() (path string, err error) {
	if !RaceDetector {
		return os.Executable()
	}
	if twin.folder == "" {
		return "", errors.New("twin.Main does not run the tests")
	}
	if twin.dir, err = os.MkdirTemp("", "herdr-link-twin-"); err != nil {
		return "", err
	}
	path = filepath.Join(twin.dir, "twin.test")
	cmd := exec.Command("go", "test", "-c", "-trimpath", "-ldflags", "-s -w", "-o", path, ".")
	cmd.Dir = twin.folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "PWD="+twin.folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	return path, nil
}

// Runs reports whether the test, which has no parent, was run in the twin, as it
// is with the race detector; then there is nothing left to do for it here.
func Runs(t *testing.T) bool {
	t.Helper()
	if !RaceDetector {
		return false
	}
	out, err := run(t, Path(t), t.Name())
	if err != nil {
		t.Errorf("without the race detector: %v", err)
	}
	t.Logf("without the race detector:\n%s", out)
	return true
}

// run runs a test of that program, which has to pass: to be skipped is not enough.
func run(t *testing.T, program, name string, env ...string) (out []byte, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"-test.v", "-test.run", "^" + name + "$"}
	for _, arg := range os.Args[1:] {
		if !strings.HasPrefix(arg, "-test.") || strings.HasPrefix(arg, "-test.parallel=") {
			args = append(args, arg)
		}
	}
	if end, ok := t.Deadline(); ok { // it tells where it stands, a moment before this process does
		args = append(args, "-test.timeout", max(time.Second, time.Until(end)-5*time.Second).String())
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(append(os.Environ(), ofVariable+"="+self), env...)
	if out, err = cmd.CombinedOutput(); err == nil && !bytes.Contains(out, []byte("\n--- PASS: "+name+" ")) {
		err = errors.New("it has not passed")
	}
	return out, err
}
