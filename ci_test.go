package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What .ci/run and its scripts say of a machine that has not everything, and of
// what fails. No network: installers are played by shell scripts, or by the real
// ones with a registry on the loopback that is dead.

// A desk is a folder with the scripts, and a PATH with nothing but what they
// need of every system, and programs that a test adds.
type desk struct{ root, bin string }

func newDesk(t *testing.T) desk {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the scripts are for Unix")
	}
	d := desk{t.TempDir(), t.TempDir()}
	for _, dir := range []string{".ci", "npm", "sdktest"} {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.Type().IsRegular() {
				d.write(t, filepath.Join(d.root, dir, f.Name()), readFile(t, filepath.Join(dir, f.Name())))
			}
		}
	}
	for _, name := range []string{"bash", "/bin/sh", "cat", "dirname", "env", "mkdir", "mktemp", "rm", "sleep", "tail"} {
		d.link(t, name)
	}
	d.play(t, "go", "")
	d.play(t, "ps", "")
	return d
}

func (d desk) write(t *testing.T, path, text string) {
	t.Helper()
	writeProgram(t, path, text)
}

// writeProgram writes a program that can be run at once. A child that another
// test forks meanwhile would have the file open for writing, and the system runs
// no such program.
func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// link takes a program of this machine to the desk.
func (d desk) link(t *testing.T, name string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not here", name)
	}
	if err := os.Symlink(path, filepath.Join(d.bin, filepath.Base(name))); err != nil {
		t.Fatal(err)
	}
}

// play lets a shell script be a program.
func (d desk) play(t *testing.T, name, script string) {
	t.Helper()
	d.write(t, filepath.Join(d.bin, name), "#!/bin/sh\n"+script+"\n")
}

// run returns what a command of the desk prints to both streams, and its exit
// status.
func (d desk) run(t *testing.T, env []string, args ...string) (printed string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = d.root
	cmd.Env = append([]string{"PATH=" + d.bin, "HOME=" + d.root, "TMPDIR=" + t.TempDir(), "HERDR_LINK_BINARY=" + filepath.Join(d.bin, "sh")}, env...)
	if _, err := cmd.StdinPipe(); err != nil { // nothing comes, and it does not end
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestLimit(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, tc := range map[string]struct {
		seconds, script string
		code            int
		want            string
	}{
		"done":              {"60", "echo done", 0, "done\n"},
		"failed":            {"60", "exit 3", 3, ""},
		"no input":          {"60", "cat", 0, ""},
		"too long":          {"1", "sleep 120", 124, "sh -c sleep 120: not done after 1 s\n"},
		"children are left": {"60", "sleep 120 & exit 3", 3, ""},
		"children hang":     {"1", "sleep 120 & wait", 124, "sh -c sleep 120 & wait: not done after 1 s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			// The output ends when nobody holds it any more.
			if got, code := d.run(t, nil, ".ci/limit", tc.seconds, "sh", "-c", tc.script); code != tc.code || got != tc.want {
				t.Errorf("exit %d, %q", code, got)
			}
			if time.Since(begun) > 100*time.Second {
				t.Error("a child was left")
			}
		})
	}
}

// What installers print, and what is made of it.
func TestFetch(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, tc := range map[string]struct {
		script string
		code   int
		want   string
	}{
		"installed":           {"echo noise", 0, ""},
		"nothing listens":     {"echo 'npm error code ECONNREFUSED'; exit 1", 75, "skipped: R does not answer (ECONNREFUSED)\n"},
		"an old npm":          {"echo 'npm ERR! code ENOTFOUND'; exit 1", 75, "skipped: R does not answer (ENOTFOUND)\n"},
		"a proxy's paper":     {"echo 'npm error code SELF_SIGNED_CERT_IN_CHAIN'; exit 1", 75, "skipped: R does not answer (SELF_SIGNED_CERT_IN_CHAIN)\n"},
		"an answer cut off":   {"echo 'npm error code FETCH_ERROR'; exit 1", 75, "skipped: R does not answer (FETCH_ERROR)\n"},
		"refused":             {"echo 'npm error code E403'; exit 1", 75, "skipped: R does not give the packages (code E403)\n"},
		"not there":           {"echo 'npm error code ETARGET'; exit 1", 75, "skipped: R does not give the packages (ETARGET)\n"},
		"pip, nothing":        {"echo \"WARNING: Retrying after NewConnectionError('x')\"; echo 'ERROR: No matching distribution found for x'; exit 1", 75, "skipped: R does not answer (NewConnectionError)\n"},
		"pip, not there":      {"echo 'ERROR: No matching distribution found for x'; exit 1", 75, "skipped: R does not give the packages (No matching distribution)\n"},
		"go, nothing listens": {"echo 'x: Get \"http://127.0.0.1:9/x\": dial tcp 127.0.0.1:9: connect: connection refused'; exit 1", 75, "skipped: R does not answer (connection refused)\n"},
		"go, not there":       {"echo 'reading http://127.0.0.1:9/x.zip: 404 Not Found'; exit 1", 75, "skipped: R does not give the packages (404 Not)\n"},
		"silence":             {"sleep 120", 75, "skipped: R did not answer in 3 s\n"},

		"npm, another package":  {"echo 'npm error code EINTEGRITY'; exit 1", 1, "npm error code EINTEGRITY\nwhat R gave could not be installed\n"},
		"after a mended line":   {"echo ECONNRESET; echo 'npm error code EINTEGRITY'; exit 1", 1, "ECONNRESET\nnpm error code EINTEGRITY\nwhat R gave could not be installed\n"},
		"and then silence":      {"echo EINTEGRITY; sleep 120", 1, "EINTEGRITY\nsh -c echo EINTEGRITY; sleep 120: not done after 3 s\nwhat R gave could not be installed\n"},
		"npm, another lock":     {"echo 'npm error code EUSAGE'; exit 1", 1, "npm error code EUSAGE\nwhat R gave could not be installed\n"},
		"pip, another package":  {"echo 'ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM'; exit 1", 1, "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM\nwhat R gave could not be installed\n"},
		"go, another package":   {"echo 'verifying x: checksum mismatch'; exit 1", 1, "verifying x: checksum mismatch\nwhat R gave could not be installed\n"},
		"something else":        {"echo 'No space left on device'; exit 1", 1, "No space left on device\nwhat R gave could not be installed\n"},
		"an installer's mishap": {"exit 75", 1, "what R gave could not be installed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			note := filepath.Join(t.TempDir(), "note")
			d.write(t, note, "")
			limit := "60"
			if strings.HasSuffix(tc.script, "sleep 120") {
				limit = "3"
			}
			got, code := d.run(t, []string{"FETCH_LIMIT=" + limit, "SKIPPED_FILE=" + note}, ".ci/fetch", "R", "sh", "-c", tc.script)
			if code != tc.code || got != tc.want {
				t.Errorf("exit %d, %q", code, got)
			}
			if noted := readFile(t, note); code == 75 && "skipped: "+noted != got || code != 75 && noted != "" {
				t.Errorf("noted: %q", noted)
			}
		})
	}
}

// The official clients, with every program played.
func TestSDKTestSkips(t *testing.T) {
	t.Parallel()
	const (
		fine   = `exit 0`
		node   = `case $1 in -e) exit 0;; esac; echo "$1"`
		python = `case $* in *venv*) mkdir -p .venv/bin; printf '#!/bin/sh\ncase $1 in *.py) echo $1;; esac\n' >.venv/bin/python; /bin/chmod +x .venv/bin/python;; esac`
	)
	for name, tc := range map[string]struct {
		npm, node, python string // "": not there
		code              int
		want              string
	}{
		"all":                                    {fine, node, python, 0, "typescript.mjs\ninspector.mjs\npython.py\n"},
		"no npm":                                 {"", node, python, 0, "skipped: the clients in JavaScript: npm is not here\npython.py\n"},
		"nothing":                                {"", "", "", 0, "skipped: the clients in JavaScript: npm is not here\nskipped: the client in Python: Python is not here\n"},
		"an old Node":                            {fine, `case $1 in -e) exit 1;; esac; echo v18.1.0`, "", 0, "skipped: the clients in JavaScript: they need Node 20, here is v18.1.0\nskipped: the client in Python: Python is not here\n"},
		"an old Python":                          {"", "", `case $1 in --version) echo Python 3.9.1;; esac; exit 1`, 0, "skipped: the clients in JavaScript: npm is not here\nskipped: the client in Python: it needs Python 3.10, here is Python 3.9.1\n"},
		"no venv":                                {"", "", `case $* in *venv*) echo no ensurepip; exit 1;; esac`, 0, "skipped: the clients in JavaScript: npm is not here\nskipped: the client in Python: no virtual environment can be made: no ensurepip\n"},
		"npm is silent":                          {"sleep 120", node, python, 0, "skipped: the npm registry did not answer in 3 s\npython.py\n"},
		"a wrong npm":                            {"echo EINTEGRITY; exit 1", node, python, 1, "EINTEGRITY\nwhat the npm registry gave could not be installed\n"},
		"a client fails, and the others are run": {fine, `case $1 in -e) exit 0;; t*) exit 1;; esac; echo "$1"`, python, 1, "inspector.mjs\npython.py\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			for program, script := range map[string]string{"npm": tc.npm, "node": tc.node, "python3": tc.python} {
				if script != "" {
					d.play(t, program, script)
				}
			}
			limit := "60"
			if tc.npm == "sleep 120" {
				limit = "3"
			}
			if got, code := d.run(t, []string{"FETCH_LIMIT=" + limit}, "sdktest/run"); code != tc.code || got != tc.want {
				t.Errorf("exit %d, %q", code, got)
			}
		})
	}
}

func TestNpmTestSkips(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		node, ps string // "": npm is not there
		code     int
		want     string
	}{
		"no npm":      {"", "", 0, "skipped: the npm packages: npm is not here\n"},
		"an old Node": {`case $1 in -e) exit 1;; esac; echo v18.1.0`, "", 0, "skipped: the npm packages: their tests need Node 20, here is v18.1.0\n"},
		"a small ps":  {"", "exit 1", 0, "skipped: the npm packages: there is no ps that lists all processes\n"},
		"passed":      {`test "$1" = -e || echo "$@"`, "", 0, "--test npm/npm.test.mjs\n"},
		"failed":      {`test "$1" = -e`, "", 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			if name != "no npm" {
				d.play(t, "npm", "")
				d.play(t, "node", tc.node)
			}
			d.play(t, "ps", tc.ps)
			if got, code := d.run(t, nil, "npm/run"); code != tc.code || got != tc.want {
				t.Errorf("exit %d, %q", code, got)
			}
		})
	}
}

// The whole run, with make played.
func TestCIRun(t *testing.T) {
	t.Parallel()
	const all = "test\nlint\nprobe\ndist-test\ndist\nnpm-test\nsdk-test\n"
	for name, tc := range map[string]struct {
		make, git string
		code      int
		want      string
	}{
		"everything": {`echo "$1"`, "", 0, all + "passed, and nothing was skipped\n"},
		"two skips":  {`case $1 in lint) .ci/skip a thing;; probe) .ci/skip "an  other";; *) echo "$1";; esac`, "", 0, strings.Replace(all, "lint\nprobe\n", "skipped: a thing\nskipped: an  other\n", 1) + "passed, but for what was skipped:\n  skipped: a thing\n  skipped: an  other\n"},
		"a failure":  {`echo "$1"; test "$1" != npm-test`, "", 1, strings.TrimSuffix(all, "sdk-test\n") + "failed: make npm-test\n"},
		"tests fail": {`echo "$1"; test "$1" != test`, "", 1, "test\nfailed: make test\n"},
		"no commit":  {`echo "$1"`, "exit 128", 0, "test\nlint\nprobe\nskipped: dist and its npm packages: git knows no commit of this folder\nsdk-test\npassed, but for what was skipped:\n  skipped: dist and its npm packages: git knows no commit of this folder\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.play(t, "make", tc.make)
			d.play(t, "git", tc.git)
			if got, code := d.run(t, nil, ".ci/run"); code != tc.code || got != tc.want {
				t.Errorf("exit %d, %q", code, got)
			}
		})
	}
}

// The real npm and go, with a registry where nobody listens, and one that takes
// connections and says nothing.
func TestDeadRegistry(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, tc := range map[string]struct{ address, limit, want string }{
		"nobody":  {closed.Addr().String(), "60", "does not answer ("},
		"silence": {silent.Addr().String(), "3", "did not answer in 3 s\n"},
	} {
		t.Run("npm, "+name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.link(t, "npm")
			d.link(t, "node")
			got, code := d.run(t, []string{"FETCH_LIMIT=" + tc.limit, "NPM_CONFIG_REGISTRY=http://" + tc.address}, "sdktest/run")
			if old := strings.Contains(got, "they need Node 20"); code != 0 || !old && !strings.Contains(got, "skipped: the npm registry "+tc.want) {
				t.Errorf("exit %d, %s", code, got)
			}
		})
		t.Run("go, "+name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			if err := os.Remove(filepath.Join(d.bin, "go")); err != nil {
				t.Fatal(err)
			}
			d.link(t, "go")
			d.link(t, "make")
			for _, name := range []string{"Makefile", "tools/go.mod", "tools/go.sum"} {
				d.write(t, filepath.Join(d.root, name), readFile(t, name))
			}
			env := []string{"FETCH_LIMIT=" + tc.limit, "GOPROXY=http://" + tc.address, "GOMODCACHE=" + t.TempDir(), "GOFLAGS=-modcacherw"}
			if got, code := d.run(t, env, "make", "staticcheck"); code != 0 || !strings.HasPrefix(got, "skipped: the Go module proxy "+tc.want) {
				t.Errorf("exit %d, %s", code, got)
			}
		})
	}
}
