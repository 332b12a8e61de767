package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"herdr-link/mesh/fault"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "recipe" {
		follow(os.Args[2], os.Args[3:])
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// A place is a worktree with all that a step needs, and things that it may not reach.
type place struct {
	*Sandbox
	step    Step
	state   string
	program string // this test binary, in the worktree
	outside string // a folder that is not shown
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{Sandbox: new(Sandbox)}
	if err := p.Find(t.Context()); err != nil {
		t.Skipf("%v (apt-get install bubblewrap)", err)
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	in := func(name string) string { return filepath.Join(root, name) }
	for _, dir := range []string{"w/web", "r/.git", "home/.local/bin", "home/.local/share/uv/credentials", "home/.local/share/uv/tools", "home/.ssh", "state", "outside"} {
		must(t, os.MkdirAll(in(dir), 0o700))
	}
	for _, file := range []string{"home/.ssh/key", "home/.local/share/uv/credentials/credentials.toml", "state/secret", "outside/secret", "w/file", "w/web/file"} {
		must(t, os.WriteFile(in(file), []byte("secret"), 0o600))
	}
	p.state, p.outside, p.program = in("state"), in("outside"), in("w/recipes")
	p.step = Step{Worktree: in("w"), GitDir: in("r/.git"), UserHome: in("home"), Home: made(t, p.state, one).Home}
	exe, err := os.Executable()
	must(t, err)
	if os.Link(exe, p.program) != nil { // another file system, or another user's file
		text, err := os.ReadFile("/proc/self/exe")
		must(t, err)
		syscall.ForkLock.RLock() // a child that another test forks must not have it open
		err = os.WriteFile(p.program, text, 0o700)
		syscall.ForkLock.RUnlock()
		must(t, err)
	}
	return p
}

func (p *place) recipe(args ...string) []string {
	return append([]string{p.program, "recipe"}, args...)
}

func (p *place) run(t *testing.T, timeout time.Duration, command ...string) *Result {
	t.Helper()
	r, err := p.Run(t.Context(), &p.step, timeout, command...)
	must(t, err)
	return r
}

// ended reports a result that is not that of a command that has exited with the code.
func ended(t *testing.T, r *Result, exit int) {
	t.Helper()
	if r.Exit == nil || *r.Exit != exit || !r.Began || r.TimedOut || r.Took <= 0 {
		t.Errorf("%+v, exit %v: %s%s", r, r.Exit, r.Stdout.Tail, r.Stderr.Tail)
	}
}

// without returns the arguments without these options, or with --bind for the
// --ro-bind of such a folder.
func without(args, options []string) []string {
	args = slices.Clone(args)
	for _, option := range options {
		switch i := slices.Index(args, option); {
		case i < 0:
			panic("there is no " + option)
		case args[i-1] == "--ro-bind":
			args[i-1] = "--bind"
		case option == "--remount-ro" || option == "--cap-drop":
			args = slices.Delete(args, i, i+2)
		default:
			args = slices.Delete(args, i, i+1)
		}
	}
	return args
}

// A pipe is a named one in the worktree, with which processes of a sandbox show
// that they live.
type pipe struct {
	path string
	file *os.File
}

func (p *place) pipe(t *testing.T) *pipe {
	t.Helper()
	path := filepath.Join(p.step.Worktree, "pipe")
	_ = os.Remove(path)
	must(t, syscall.Mkfifo(path, 0o600))
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return &pipe{path, file}
}

// drain returns what has been written, and whether nobody is left to write more.
func (p *pipe) drain(t *testing.T) (text string, over bool) {
	t.Helper()
	raw, err := p.file.SyscallConn()
	must(t, err)
	for chunk := make([]byte, 1<<16); ; {
		var n int
		var failed error
		must(t, raw.Read(func(fd uintptr) (done bool) {
			n, failed = syscall.Read(int(fd), chunk)
			return true
		}))
		switch {
		case errors.Is(failed, syscall.EINTR):
		case errors.Is(failed, syscall.EAGAIN):
			return text, false
		case failed != nil:
			t.Fatal(failed)
		case n == 0:
			return text, true
		default:
			text += string(chunk[:n])
		}
	}
}

// wait waits for what must come.
func wait(t *testing.T, what string, seen func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !seen(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// lives waits until something more is written.
func (p *pipe) lives(t *testing.T) {
	t.Helper()
	p.drain(t)
	wait(t, "a sign of life", func() bool { text, _ := p.drain(t); return text != "" })
}

// Each recipe works outside, and fails inside for the reason that is meant.
func TestRecipes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { tcp.Close() })
	abstract, err := net.Listen("unix", fmt.Sprintf("@herdr-link-%d", time.Now().UnixNano()))
	must(t, err)
	t.Cleanup(func() { abstract.Close() })
	agent, err := net.Listen("unix", filepath.Join(p.outside, "agent"))
	must(t, err)
	t.Cleanup(func() { agent.Close() })
	resolver, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { resolver.Close() })
	go func() {
		for {
			_, from, err := resolver.ReadFrom(make([]byte, 1))
			if err != nil {
				return
			}
			_, _ = resolver.WriteTo([]byte("!"), from)
		}
	}()
	sleeper := exec.Command(p.program, "recipe", "sleep", "a-marker-", "of-the-sleeper")
	sleeper.Args[4] = sleeper.Args[3] + sleeper.Args[4]
	stdin, err := sleeper.StdinPipe()
	must(t, err)
	stdout, err := sleeper.StdoutPipe()
	must(t, err, sleeper.Start())
	t.Cleanup(func() { stdin.Close(); _ = sleeper.Wait() })
	_, err = io.ReadFull(stdout, make([]byte, len("ready\n")))
	must(t, err)
	pid := strconv.Itoa(sleeper.Process.Pid)
	key := os.Getpid()<<8 | 1
	segment, _, errno := syscall.Syscall(syscall.SYS_SHMGET, uintptr(key), 4096, 0o1600) // IPC_CREAT
	if errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() { _, _, _ = syscall.Syscall(syscall.SYS_SHMCTL, segment, 0, 0) }) // IPC_RMID
	var medium syscall.Stat_t
	must(t, syscall.Stat(p.outside, &medium))

	const (
		missing  = "no such file or directory"
		readOnly = "read-only file system"
		refused  = "connection refused"
		forbid   = "operation not permitted"
		nobody   = "no such process"
	)
	secret := filepath.Join(p.outside, "secret")
	undo, lifted := forbid, []string{p.step.GitDir}
	if root() { // in its sandboxes nobody can map users, for two reasons
		undo, lifted = readOnly, append(lifted, "--remount-ro", "--cap-drop")
	}
	for name, tc := range map[string]struct {
		recipe []string
		want   string   // what keeps it inside
		lifted []string // without these options the recipe works inside as well
		rare   bool     // not everybody can do it outside
		// control, if not nil, is the recipe outside.
		control []string
	}{
		"read another folder":            {recipe: []string{"read", secret}, want: missing},
		"read a key in HOME":             {recipe: []string{"read", p.step.UserHome + "/.ssh/key"}, want: missing},
		"read uv's passwords":            {recipe: []string{"read", p.step.UserHome + "/.local/share/uv/credentials/credentials.toml"}, want: missing},
		"read the state":                 {recipe: []string{"read", p.state + "/secret"}, want: missing},
		"read /etc":                      {recipe: []string{"read", "/etc/hostname"}, want: missing},
		"find a resolver":                {recipe: []string{"read", "/etc/resolv.conf"}, want: missing},
		"read by way of a process":       {recipe: []string{"read", "/proc/" + pid + "/root" + secret}, want: missing},
		"read by way of one's own":       {recipe: []string{"read", "/proc/self/root" + secret}, want: missing},
		"read by way of the first":       {recipe: []string{"read", "/proc/1/root" + secret}, want: missing, control: []string{"read", "/proc/" + pid + "/root" + secret}},
		"read above the root":            {recipe: []string{"read", "/../../../.." + secret}, want: missing},
		"write to another folder":        {recipe: []string{"write", filepath.Join(p.outside, "new")}, want: missing},
		"write to the repository":        {recipe: []string{"write", p.step.GitDir + "/new"}, want: readOnly, lifted: []string{p.step.GitDir}},
		"write to the user's programs":   {recipe: []string{"write", p.step.UserHome + "/.local/bin/uv"}, want: readOnly},
		"write to the system's":          {recipe: []string{"writable", "/usr/bin"}, want: readOnly, rare: true},
		"write where a mount is undone":  {recipe: []string{"remount", p.step.GitDir}, want: undo, lifted: lifted, rare: true},
		"write to the medium":            {recipe: []string{"device", filepath.Join(p.step.Worktree, "node"), fmt.Sprint(medium.Dev)}, want: forbid, rare: true},
		"write a setting of the kernel":  {recipe: []string{"setting"}, want: readOnly, lifted: []string{"--remount-ro"}, rare: true},
		"connect to a server here":       {recipe: []string{"tcp", tcp.Addr().String()}, want: refused, lifted: []string{"--unshare-net"}},
		"ask a resolver here":            {recipe: []string{"ask", resolver.LocalAddr().String()}, want: refused, lifted: []string{"--unshare-net"}},
		"connect to an abstract socket":  {recipe: []string{"unix", abstract.Addr().String()}, want: refused, lifted: []string{"--unshare-net"}},
		"connect to an agent's socket":   {recipe: []string{"unix", agent.Addr().String()}, want: missing},
		"see a process":                  {recipe: []string{"see", "a-marker-", "of-the-sleeper"}, want: errNothing.Error()},
		"signal a process":               {recipe: []string{"signal", pid}, want: nobody},
		"trace a process":                {recipe: []string{"trace", pid}, want: nobody},
		"attach somebody's memory":       {recipe: []string{"memory", strconv.Itoa(key)}, want: missing, lifted: []string{"--unshare-ipc"}},
		"read a process's environment":   {recipe: []string{"read", "/proc/" + pid + "/environ"}, want: missing},
		"write by way of another's root": {recipe: []string{"write", "/proc/" + pid + "/root" + p.outside + "/new"}, want: missing},
	} {
		t.Run(name, func(t *testing.T) {
			command, control := p.recipe(tc.recipe...), p.recipe(tc.recipe...)
			if tc.control != nil {
				control = p.recipe(tc.control...)
			}
			if out, err := exec.Command(control[0], control[1:]...).CombinedOutput(); err != nil {
				if tc.rare || tc.recipe[0] == "read" && strings.HasPrefix(tc.recipe[1], "/etc/") {
					t.Skipf("this user cannot do it outside either: %s", out)
				}
				t.Fatalf("it does not work outside: %v, %s", err, out)
			}
			if tc.lifted != nil {
				args, err := p.step.argv(lstat, root(), command)
				must(t, err)
				r, err := run(t.Context(), p.proved, without(args, tc.lifted), 0, patience)
				must(t, err)
				ended(t, r, free)
			}
			_ = os.Remove(filepath.Join(p.outside, "new"))
			r := p.run(t, patience, command...)
			if ended(t, r, denied); string(r.Stdout.Tail) != tc.want {
				t.Errorf("it fails with %s", r.Stdout.Tail)
			}
			if _, err := os.Lstat(filepath.Join(p.outside, "new")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it has written: %v", err)
			}
		})
	}
}

// No process outlives the command, however it left it, nor Run.
func TestNobodySurvives(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pipe := p.pipe(t)
	command := p.recipe("survive", pipe.path)
	must(t, exec.Command(command[0], command[1:]...).Run())
	pipe.lives(t) // outside
	must(t, pipe.file.Close())
	for range 5 {
		pipe = p.pipe(t)
		ended(t, p.run(t, patience, command...), free)
		if text, over := pipe.drain(t); text == "" || !over {
			t.Fatalf("it wrote %d bytes, is gone: %v", len(text), over)
		}
	}
}

// A command that makes processes without end has its time, and then all are gone.
func TestForks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pipe := p.pipe(t)
	command := []string{"/bin/sh", "-c", `exec 9>"$1"; trap "" TERM; while :; do sleep 1000 & echo x >&9; done`, "sh", pipe.path}
	many := func() bool { text, _ := pipe.drain(t); return len(text) > 10 }

	cmd := exec.Command(command[0], command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	wait(t, "processes", many)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if _, over := pipe.drain(t); over {
		t.Error("nothing is left outside either")
	}
	must(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
	wait(t, "their end", func() bool { _, over := pipe.drain(t); return over })

	begun := time.Now()
	r := p.run(t, time.Second, command...)
	if !r.TimedOut || r.Exit != nil || r.Took < time.Second || time.Since(begun) > patience {
		t.Errorf("%+v", r)
	}
	if text, over := pipe.drain(t); len(text) <= 10 || !over {
		t.Errorf("%d bytes, gone: %v", len(text), over)
	}
	if r := p.run(t, time.Nanosecond, command...); !r.TimedOut || r.Exit != nil {
		t.Errorf("no time at all: %+v", r)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pipe := p.pipe(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for text := ""; text == ""; time.Sleep(time.Millisecond) {
			text, _ = pipe.drain(t)
		}
	}()
	r, err := p.Run(ctx, &p.step, patience, "/bin/sh", "-c", `exec 9>"$1"; echo before; echo x >&9; sleep 1000 & wait`, "sh", pipe.path)
	if fault.Code(err) != "CANCELLED" || r == nil || r.Exit != nil || r.TimedOut || string(r.Stdout.Tail) != "before\n" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, over := pipe.drain(t); !over {
		t.Error("it lives on")
	}
	if r, err := p.Run(ctx, &p.step, patience, "true"); fault.Code(err) != "CANCELLED" || r.Exit != nil || r.Began {
		t.Errorf("before the beginning: %+v, %v", r, err)
	}
}

// A run that is cancelled while bubblewrap is still at work leaves nothing either.
func TestCancelledEarly(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pipe := p.pipe(t)
	command := []string{"/bin/sh", "-c", `exec 9>"$1"; while :; do echo x >&9; sleep 0.001; done`, "sh", pipe.path}
	for i := range 40 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(i)*500*time.Microsecond, errors.New("cancelled"))
		_, err := p.Run(ctx, &p.step, patience, command...)
		cancel()
		if fault.Code(err) != "CANCELLED" {
			t.Errorf("%d: %v", i, err)
		}
		if _, over := pipe.drain(t); !over {
			t.Fatalf("%d: it lives on", i)
		}
	}
}

// host starts a process that follows a recipe in another way: see child.
func (p *place) host(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(p.program, append([]string{"recipe"}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	return cmd
}

func (p *place) json(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(p.step)
	must(t, err)
	return string(text)
}

// exits checks how the process ends.
func exits(t *testing.T, what string, cmd *exec.Cmd, code int, printed string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code || string(out) != printed {
		t.Errorf("%s: exit %d, %q", what, got, out)
	}
}

// If this process is killed, the sandbox goes with it.
func TestDiesWithParent(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pipe := p.pipe(t)
	cmd := p.host(t, "guest", p.json(t), "last", pipe.path)
	must(t, cmd.Start())
	pipe.lives(t)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	wait(t, "the end of the sandbox", func() bool { _, over := pipe.drain(t); return over })
}

// Descriptors that this process was born with are not handed on.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	secret, err := os.Open(filepath.Join(p.outside, "secret"))
	must(t, err)
	defer secret.Close()
	for _, tc := range []struct {
		name, printed string
		args          []string
		code          int
	}{
		{"outside", "", []string{"child", "descriptor", "4"}, free},
		{"inside", "bad file descriptor", []string{"guest", p.json(t), "descriptor", "4"}, denied},
		{"that of Run", "bad file descriptor", []string{"guest", p.json(t), "descriptor", "3"}, denied},
	} {
		cmd := p.host(t, tc.args...)
		cmd.ExtraFiles = []*os.File{secret, secret}
		exits(t, tc.name, cmd, tc.code, tc.printed)
	}
	r := p.run(t, patience, "ls", "/proc/self/fd")
	if ended(t, r, 0); string(r.Stdout.Tail) != "0\n1\n2\n3\n" { // 3 is the folder
		t.Errorf("%q", r.Stdout.Tail)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, tc := range []struct {
		name, printed string
		args          []string
		code          int
	}{
		{"outside", "", []string{"child", "environ", "a-secret-", "of-the-host"}, free},
		{"inside", errNothing.Error(), []string{"guest", p.json(t), "environ", "a-secret-", "of-the-host"}, denied},
	} {
		cmd := p.host(t, tc.args...)
		cmd.Env = append(cmd.Env, "TOKEN=a-secret-of-the-host")
		cmd.ExtraFiles = []*os.File{os.Stdin, os.Stdin}
		exits(t, tc.name, cmd, tc.code, tc.printed)
	}
	p.step.Environ = append(os.Environ(), "LANG=C.UTF-8", "TOKEN=x")
	r := p.run(t, patience, "env")
	ended(t, r, 0)
	got := strings.Split(strings.TrimSuffix(string(r.Stdout.Tail), "\n"), "\n")
	want := []string{"PWD=" + p.step.Worktree} // bubblewrap's
	for _, v := range p.step.environ(lstat) {
		want = append(want, v[0]+"="+v[1])
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What is typed into the terminal of this process is read by the agent's shell.
func TestTerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, tc := range []struct {
		name, printed string
		args          []string
		code          int
	}{
		{"outside", "", []string{"type"}, free},
		{"without a session of its own", "", []string{"bare", p.json(t), "--new-session", "type"}, free},
		{"by the option alone", "no such device or address", []string{"bare", p.json(t), "--unshare-ipc", "type"}, denied},
		{"by Run alone", "no such device or address", []string{"most", p.json(t), "--new-session", "type"}, denied},
		{"inside", "no such device or address", []string{"guest", p.json(t), "type"}, denied},
	} {
		cmd := p.host(t, tc.args...)
		cmd.Stdin = terminal(t)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if tc.name == "outside" {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Skipf("this system does not let programs type: %v, %s", err, out) // dev.tty.legacy_tiocsti = 0
			}
			continue
		}
		exits(t, tc.name, cmd, tc.code, tc.printed)
	}
}

// terminal opens a pseudo-terminal and returns the end that a program has.
func terminal(t *testing.T) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { master.Close() })
	var unlock, number int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Skip("no pseudo-terminals here: ", errno)
		}
	}
	f, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// What a gate writes is in memory and gone with it, but for the worktree and its
// home, which only the disk bounds.
func TestFilling(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	name := fmt.Sprintf("herdr-link-filling-%d", time.Now().UnixNano())
	r := p.run(t, patience, p.recipe("fill", "/"+name, "/tmp/"+name, "/dev/shm/"+name, home+"/"+name, p.step.Worktree+"/"+name)...)
	kept := []string{p.step.Home + "/" + name, p.step.Worktree + "/" + name}
	if ended(t, r, free); !strings.HasPrefix(string(r.Stdout.Tail), "true\ntrue\ntrue\n") {
		t.Errorf("in memory: %q", r.Stdout.Tail)
	}
	for _, path := range []string{"/" + name, "/tmp/" + name, "/dev/shm/" + name} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	for _, path := range kept {
		if info, err := os.Lstat(path); err != nil || info.Size() != filling {
			t.Errorf("%v, %v", info, err)
		}
	}
	must(t, RemoveScratch(p.state, one))
	if _, err := os.Lstat(kept[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the home is left: %v", err)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	tool := filepath.Join(p.step.UserHome, ".local/bin/a-tool")
	writeProgram(t, tool, "#!/bin/sh\necho tool\n")
	p.step.Head = 5
	for name, tc := range map[string]struct {
		command, stdout, stderr string
		exit                    int
	}{
		"both streams":           {"echo to stdout; echo to stderr >&2; exit 3", "to stdout\n", "to stderr\n", 3},
		"killed from inside":     {"kill -9 $$", "", "", 137},
		"no input":               {"cat; echo $?", "0\n", "", 0},
		"a tool of the user's":   {"a-tool", "tool\n", "", 0},
		"in the worktree":        {"pwd; cat file; echo x >new; rm new", p.step.Worktree + "\nsecret", "", 0},
		"a home":                 {"cd && pwd && echo x >.new && cat .new", home + "\nx\n", "", 0},
		"and it is kept":         {"cat ~/.old", "before\n", "", 0},
		"no more of this system": {"echo /*; ls /run", "/bin /dev /etc /gate-home", "ls: cannot access '/run'", 2},
	} {
		must(t, os.WriteFile(filepath.Join(p.step.Home, ".old"), []byte("before\n"), 0o600))
		r := p.run(t, patience, "/bin/sh", "-c", tc.command)
		ended(t, r, tc.exit)
		for _, s := range []struct {
			Stream
			want string
			head int
		}{{r.Stdout, tc.stdout, 5}, {r.Stderr, tc.stderr, 0}} {
			if !strings.HasPrefix(string(s.Tail), s.want) || s.want == "" && s.Bytes > 0 || s.SHA256 != digest(s.Tail) ||
				s.Bytes != int64(len(s.Tail)) || string(s.Head) != string(s.Tail[:min(s.head, len(s.Tail))]) {
				t.Errorf("%s: %q of %d bytes, %s", name, s.Tail, s.Bytes, s.SHA256)
			}
		}
	}
}

// A command that never began is told from one that failed.
func TestNotBegun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	step := p.step
	for name, change := range map[string]func() string{
		"no such program": func() string { return "no-such-program" },
		"no worktree":     func() string { p.step.Worktree += "/none"; return "true" },
		"no home":         func() string { p.step.Home += "x"; return "true" },
	} {
		p.step = step
		r := p.run(t, patience, change())
		if r.Began || r.Exit == nil || *r.Exit != 1 || !bytes.HasPrefix(r.Stderr.Tail, []byte("bwrap: ")) {
			t.Errorf("%s: %+v, %s", name, r, r.Stderr.Tail)
		}
	}
	p.step = step
	p.step.Worktree = "relative"
	if r, err := p.Run(t.Context(), &p.step, patience, "true"); fault.Code(err) != "VERIFY_UNAVAILABLE" || r != nil {
		t.Errorf("%+v, %v", r, err)
	}
	p.step = step
	if r, err := p.Run(t.Context(), &p.step, patience, "true", strings.Repeat("x", 1<<20)); fault.Code(err) != "INVALID_ARGUMENT" || r != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// Output without end is hashed to the end, and little of it is kept.
func TestEndlessOutput(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const head = 64 << 10 // a small part of what comes in a second, also on a slow machine
	p.step.Head = head
	r := p.run(t, time.Second, "/bin/sh", "-c", "yes & yes >&2")
	if !r.TimedOut || r.Exit != nil {
		t.Errorf("%v, %v", r.TimedOut, r.Exit)
	}
	for _, s := range []Stream{r.Stdout, r.Stderr} {
		text := bytes.Repeat([]byte("y\n"), int(s.Bytes+1)/2)[:s.Bytes]
		if s.Bytes <= head || s.Whole() || len(s.Head) > head || len(s.Tail) != MaxTail || !bytes.HasSuffix(text, s.Tail) || s.SHA256 != digest(text) {
			t.Errorf("%d bytes, %d and %d kept", s.Bytes, len(s.Head), len(s.Tail))
		}
	}
	if len(r.Stdout.Head) != head || len(r.Stderr.Head) != 0 {
		t.Errorf("%d and %d bytes of head", len(r.Stdout.Head), len(r.Stderr.Head))
	}
}

// With the network a step sees next to nothing else.
func TestBootstraps(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if _, err := regular(lstat, "/etc/resolv.conf"); err != nil {
		t.Skip(err)
	}
	server, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer server.Close()
	lock := filepath.Join(p.state, inputsFolder, one, "abc-requirements.lock")
	must(t, os.WriteFile(lock, []byte("locked"), 0o400))
	// The programs are where a bootstrap can see them.
	program := filepath.Join(p.step.UserHome, ".local/bin/recipes")
	must(t, os.Link(p.program, program))
	resolver, err := os.ReadFile("/etc/resolv.conf")
	must(t, err)
	for name, tc := range map[string]struct {
		kind     Kind
		see, not []string
		write    string
	}{
		"web": {Web, []string{p.step.Worktree + "/web/file"},
			[]string{p.step.Worktree + "/file", p.step.GitDir, "/run", inputs}, p.step.Worktree + "/web/new"},
		"Python": {Python, []string{inputs + "/abc-requirements.lock"},
			[]string{p.step.Worktree, p.step.GitDir, "/run", p.state}, home + "/new"},
	} {
		t.Run(name, func(t *testing.T) {
			step := p.step
			step.Kind, step.Lock = tc.kind, lock
			try := func(exit int, command ...string) *Result {
				t.Helper()
				r, err := p.Run(t.Context(), &step, patience, command...)
				must(t, err)
				ended(t, r, exit)
				return r
			}
			try(free, "recipes", "recipe", "tcp", server.Addr().String())
			if r := try(0, "cat", "/etc/resolv.conf"); string(r.Stdout.Tail) != string(resolver) {
				t.Errorf("its resolver: %q", r.Stdout.Tail)
			}
			for _, path := range tc.see {
				try(free, "recipes", "recipe", "read", path)
			}
			for _, path := range tc.not {
				if r := try(denied, "recipes", "recipe", "read", path); string(r.Stdout.Tail) != "no such file or directory" {
					t.Errorf("%s: %s", path, r.Stdout.Tail)
				}
			}
			try(free, "recipes", "recipe", "write", tc.write)
			for _, path := range []string{inputs + "/abc-requirements.lock", "/etc/resolv.conf"} {
				if tc.kind == Python || path == "/etc/resolv.conf" {
					if r := try(denied, "recipes", "recipe", "write", path); !strings.Contains(string(r.Stdout.Tail), "read-only") && !strings.Contains(string(r.Stdout.Tail), "denied") {
						t.Errorf("%s: %s", path, r.Stdout.Tail)
					}
				}
			}
		})
	}
}

// Git works in a linked worktree as far as it only reads.
func TestGit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if _, err := os.Stat("/usr/bin/git"); err != nil {
		t.Skip(err)
	}
	root := filepath.Join(p.outside, "repo.git")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("/usr/bin/git", append([]string{"-c", "user.name=x", "-c", "user.email=x", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v, %s", args, err, out)
		}
	}
	first := filepath.Join(p.outside, "first")
	git("init", "-q", first)
	must(t, os.WriteFile(filepath.Join(first, "file"), []byte("x\n"), 0o600))
	git("-C", first, "add", "file")
	git("-C", first, "commit", "-qm", "x")
	git("clone", "-q", "--bare", first, root)
	for _, worktree := range []string{filepath.Join(p.outside, "w"), filepath.Join(root, "w")} { // beside the repository, and inside
		git("-C", root, "worktree", "add", "-q", "--detach", worktree)
		must(t, os.WriteFile(filepath.Join(worktree, "file"), []byte("y\n"), 0o600))
		p.step.Worktree, p.step.GitDir = worktree, root
		r := p.run(t, patience, "git", "status", "--porcelain")
		if ended(t, r, 0); string(r.Stdout.Tail) != " M file\n" {
			t.Errorf("%q, %s", r.Stdout.Tail, r.Stderr.Tail)
		}
		r = p.run(t, patience, "/bin/sh", "-c", "echo z >file && ! git add file")
		if ended(t, r, 0); !strings.Contains(string(r.Stderr.Tail), "ead-only file system") {
			t.Errorf("%s", r.Stderr.Tail)
		}
	}
}

func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock() // a child that another test forks must not have it open
	err := os.WriteFile(path, []byte(text), 0o700)
	syscall.ForkLock.RUnlock()
	must(t, err)
}

func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	none, folder, text, program := filepath.Join(dir, "none"), filepath.Join(dir, "folder"), filepath.Join(dir, "text"), filepath.Join(dir, "program")
	must(t, os.Mkdir(folder, 0o700), os.WriteFile(text, nil, 0o600))
	s := &Sandbox{programs: []string{none, folder, text}}
	if err := s.Find(t.Context()); fault.Code(err) != "VERIFY_UNAVAILABLE" || !strings.Contains(err.Error(), none+" or "+folder) {
		t.Errorf("none: %v", err)
	}
	if _, err := s.Run(t.Context(), new(Step), patience, "true"); fault.Code(err) != "VERIFY_UNAVAILABLE" {
		t.Errorf("none: %v", err)
	}
	s = &Sandbox{programs: []string{none, folder, text, program, none}}
	for body, want := range map[string]string{
		"echo 'bwrap: No permissions to create new namespace' >&2; exit 1": "gives users no namespaces",
		"exit 0":                                          "nothing of the cause", // it has not said that the command began
		"echo '{\"exit-code\":0}' >&3; exit 1":            "nothing of the cause",
		"echo '{\"exit-code\":0}' >&3; kill -9 $$":        "nothing of the cause",
		"echo 'bwrap: something new' >&2; echo x; exit 1": "bwrap: something new",
	} {
		writeProgram(t, program, "#!/bin/sh\n"+body+"\n")
		if err := s.Find(t.Context()); fault.Code(err) != "VERIFY_UNAVAILABLE" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
	writeProgram(t, program, "not a program")
	if err := s.Find(t.Context()); fault.Code(err) != "VERIFY_UNAVAILABLE" || !strings.Contains(err.Error(), "cannot be started") {
		t.Errorf("not a program: %v", err)
	}
	writeProgram(t, program, "#!/bin/sh\nexec sleep 1000\n")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := s.Find(ctx); fault.Code(err) != "CANCELLED" {
		t.Errorf("cancelled: %v", err)
	}

	// It works again as soon as it can, and is not tried twice then.
	counted := filepath.Join(dir, "counted")
	writeProgram(t, program, "#!/bin/sh\necho x >>"+counted+"\necho '{\"exit-code\":0}' >&3\n")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := s.Find(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if lines, err := os.ReadFile(counted); err != nil || string(lines) != "x\n" {
		t.Errorf("%q, %v", lines, err)
	}
	if got := bubblewrap(); !slices.Equal(got, []string{"/usr/bin/bwrap", "/usr/local/bin/bwrap"}) {
		t.Errorf("%q", got)
	}
}
