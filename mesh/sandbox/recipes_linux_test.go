package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// A recipe is a way out of a sandbox, or what tries one. It fails with the error
// that keeps it inside. The test binary follows it, in a process of its own.
type recipe func(args []string) error

func recipes() map[string]recipe {
	return map[string]recipe{
		"read":     func(a []string) error { _, err := os.ReadFile(a[0]); return err },
		"write":    func(a []string) error { return os.WriteFile(a[0], []byte("x"), 0o600) },
		"writable": func(a []string) error { return syscall.Access(a[0], 2) },
		"tcp":      func(a []string) error { return dial("tcp", a[0]) },
		"unix":     func(a []string) error { return dial("unix", a[0]) },
		"ask":      ask,
		"see":      see,
		"environ":  environ,
		"signal":   func(a []string) error { return syscall.Kill(number(a[0]), syscall.SIGCONT) },
		"trace":    trace,
		"memory":   func(a []string) error { return sharedMemory(number(a[0])) },
		"remount":  remount,
		"remount inside": func(a []string) error {
			if err := syscall.Mount(a[0], a[0], "", syscall.MS_BIND, ""); err != nil {
				return err
			}
			if err := syscall.Mount("none", a[0], "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_NOSUID|syscall.MS_NODEV, ""); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(a[0], "remounted"), nil, 0o600)
		},
		"device":     device,
		"setting":    setting,
		"type":       typeKey,
		"descriptor": func(a []string) error { _, err := syscall.Read(number(a[0]), make([]byte, 1)); return err },
		"fill":       fill,
		"survive":    survive,
		"middle": func(a []string) error {
			return start(syscall.SysProcAttr{Setsid: true}, []*os.File{os.NewFile(3, "")}, "last", a[0])
		},
		"last":  last,
		"sleep": sleep,
		"child": child,
		"guest": guest,
		"bare":  bare,
		"most":  most,
	}
}

const (
	free   = 0 // the exit codes of a recipe
	denied = 1
	broken = 2
)

// follow ends the process as the recipe does. (os.Exit would wait for the race
// detector.)
func follow(name string, args []string) {
	r := recipes()[name]
	if r == nil {
		syscall.Exit(broken)
	}
	err := r(args)
	var exit *exec.ExitError
	var errno syscall.Errno
	switch {
	case err == nil:
		syscall.Exit(free)
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		syscall.Exit(exit.ExitCode())
	case errors.As(err, &errno):
		fmt.Print(errno)
	default:
		fmt.Print(err)
	}
	syscall.Exit(denied)
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		syscall.Exit(broken)
	}
	return n
}

// self is the command that follows a recipe.
func self(args ...string) *exec.Cmd {
	return exec.Command(os.Args[0], append([]string{"recipe"}, args...)...)
}

func start(attr syscall.SysProcAttr, files []*os.File, args ...string) error {
	cmd := self(args...)
	cmd.SysProcAttr, cmd.ExtraFiles = &attr, files
	return cmd.Start()
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, 10*time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

// ask sends a datagram and waits for the answer, as a resolver is asked.
func ask(a []string) error {
	c, err := net.Dial("udp", a[0])
	if err != nil {
		return err
	}
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("?")); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

var errNothing = errors.New("nothing of it")

// inProc looks for two texts, one right after the other, in a file of each process.
func inProc(file string, a []string) error {
	files, _ := filepath.Glob("/proc/[0-9]*/" + file)
	for _, f := range files {
		if text, _ := os.ReadFile(f); strings.Contains(string(text), a[0]+a[1]) { // not as our own arguments have it
			return nil
		}
	}
	if len(files) == 0 {
		return errors.New("there is no /proc")
	}
	return errNothing
}

func see(a []string) error { return inProc("cmdline", a) }

func environ(a []string) error { return inProc("environ", a) }

func trace(a []string) error {
	runtime.LockOSThread()
	pid := number(a[0])
	if err := syscall.PtraceAttach(pid); err != nil {
		return err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return err
	}
	return syscall.PtraceDetach(pid)
}

func sharedMemory(key int) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_SHMGET, uintptr(key), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// remount tries to get a mount writable in namespaces of its own.
func remount(a []string) error {
	cmd := self("remount inside", a[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	cmd.Stdout = os.Stdout
	return cmd.Run()
}

// device opens the medium of a folder through a node of its own.
func device(a []string) error {
	if err := syscall.Mknod(a[0], syscall.S_IFBLK|0o600, number(a[1])); err != nil {
		return err
	}
	f, err := os.Open(a[0])
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(a[0]))
}

// setting writes a setting of the kernel as it is.
func setting([]string) error {
	const file = "/proc/sys/kernel/printk_ratelimit"
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// typeKey types into the terminal, for the program that reads from it next.
func typeKey([]string) error {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	key := byte('x')
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCSTI, uintptr(unsafe.Pointer(&key))); errno != 0 {
		return errno
	}
	return nil
}

const filling = 4 << 20

// fill writes files and prints whether each is in memory.
func fill(paths []string) error {
	for _, path := range paths {
		if err := os.WriteFile(path, make([]byte, filling), 0o600); err != nil {
			return err
		}
		var fs syscall.Statfs_t
		if err := syscall.Statfs(path, &fs); err != nil {
			return err
		}
		const tmpfs = 0x01021994
		fmt.Println(fs.Type == tmpfs)
	}
	return nil
}

// survive leaves a process behind that is in no group, session or parent's care.
func survive(a []string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	if err := start(syscall.SysProcAttr{Setsid: true}, []*os.File{w}, "middle", a[0]); err != nil {
		return err
	}
	_ = w.Close()
	_, err = r.Read(make([]byte, 1))
	return err
}

// last is that process: it writes as long as somebody reads.
func last(a []string) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	pipe, err := os.OpenFile(a[0], os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for begun := false; ; time.Sleep(time.Millisecond) {
		if _, err := pipe.Write([]byte("x")); err != nil {
			return err
		}
		if !begun {
			begun = true
			_, _ = os.NewFile(3, "").Write([]byte("x"))
		}
	}
}

// sleep lasts as long as its stdin, and may be traced.
func sleep([]string) error {
	const setPtracer, anyone = 0x59616d61, ^uintptr(0)
	_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, setPtracer, anyone, 0)
	fmt.Println("ready")
	_, err := os.Stdin.Read(make([]byte, 1))
	return err
}

// These follow a recipe in another way, for the sake of what they hand on to it:
// child as a child that inherits all.
func child(a []string) error {
	var files []*os.File
	for fd := uintptr(3); fd <= 4; fd++ {
		files = append(files, os.NewFile(fd, ""))
	}
	cmd := self(a...)
	cmd.Stdout, cmd.ExtraFiles = os.Stdout, files
	return cmd.Run()
}

// guest as Run does.
func guest(a []string) error {
	var step Step
	if err := json.Unmarshal([]byte(a[0]), &step); err != nil {
		return err
	}
	return printed(new(Sandbox).Run(context.Background(), &step, patience, append([]string{os.Args[0], "recipe"}, a[1:]...)...))
}

// bare in bubblewrap without Run, and without one of its options.
func bare(a []string) error {
	program, args, err := lifted(a)
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout = os.Stdout
	return cmd.Run()
}

// most as Run does, but for one option.
func most(a []string) error {
	program, args, err := lifted(a)
	if err != nil {
		return err
	}
	return printed(run(context.Background(), program, args, 0, patience))
}

func lifted(a []string) (program string, args []string, err error) {
	var step Step
	if err := json.Unmarshal([]byte(a[0]), &step); err != nil {
		return "", nil, err
	}
	if args, err = step.argv(lstat, root(), append([]string{os.Args[0], "recipe"}, a[2:]...)); err != nil {
		return "", nil, err
	}
	program, err = new(Sandbox).find(context.Background())
	return program, without(args, a[1:2]), err
}

// printed ends the process as the command has ended.
func printed(r *Result, err error) error {
	if err != nil {
		return err
	}
	_, _ = os.Stdout.Write(r.Stdout.Tail)
	if r.Exit == nil || !r.Began {
		syscall.Exit(broken)
	}
	syscall.Exit(*r.Exit)
	return nil
}
