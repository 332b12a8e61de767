package herdrcli

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

var (
	kernel32                 = syscall.NewLazyDLL("kernel32.dll")
	createJobObject          = kernel32.NewProc("CreateJobObjectW")
	setInformationJobObject  = kernel32.NewProc("SetInformationJobObject")
	assignProcessToJobObject = kernel32.NewProc("AssignProcessToJobObject")
	terminateJobObject       = kernel32.NewProc("TerminateJobObject")
)

// A group is a job object that holds one child and all it starts. Windows
// kills it when the last handle to it closes, so it dies with this process.
type group struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	job syscall.Handle // 0: none
}

func newGroup(cmd *exec.Cmd) *group {
	g := &group{cmd: cmd}
	job, _, _ := createJobObject.Call(0, 0)
	if job == 0 {
		return g
	}
	const extendedLimitInformation, killOnJobClose = 9, 0x2000
	var limits struct { // JOBOBJECT_EXTENDED_LIMIT_INFORMATION
		perProcessTime, perJobTime int64
		flags                      uint32
		minWorkingSet, maxWorking  uintptr
		activeProcesses            uint32
		affinity                   uintptr
		priority, scheduling       uint32
		io                         [6]uint64
		memory                     [4]uintptr
	}
	limits.flags = killOnJobClose
	setInformationJobObject.Call(job, extendedLimitInformation, uintptr(unsafe.Pointer(&limits)), unsafe.Sizeof(limits))
	g.job = syscall.Handle(job)
	return g
}

// session does nothing: there are none.
func (g *group) session() {}

// kill kills all processes of the job.
func (g *group) kill() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.job != 0 {
		terminateJobObject.Call(uintptr(g.job), 1)
	}
	return g.cmd.Process.Kill()
}

// terminate is kill: there is no way to ask.
func (g *group) terminate() error { return g.kill() }

// adopt puts the child into its job.
func (g *group) adopt() {
	_ = g.cmd.Process.WithHandle(func(handle uintptr) {
		if g.job != 0 {
			assignProcessToJobObject.Call(uintptr(g.job), handle)
		}
	})
}

// wait waits until the child has exited, and kills what it left behind.
func (g *group) wait() {
	_ = g.cmd.Process.WithHandle(func(handle uintptr) {
		_, _ = syscall.WaitForSingleObject(syscall.Handle(handle), syscall.INFINITE)
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.job != 0 {
		terminateJobObject.Call(uintptr(g.job), 0)
		_ = syscall.CloseHandle(g.job)
		g.job = 0
	}
}

func runnable(_ fs.FileInfo, path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".exe", ".com":
		return true
	}
	return false
}

// tooLong reports an error of the system that means what E2BIG does.
func tooLong(err error) bool {
	const filenameExcedRange = syscall.Errno(206)
	return errors.Is(err, filenameExcedRange)
}

// waiting returns what can be read from the pipe at once: here, nothing can be
// read without the risk of waiting for more.
func waiting(*os.File, int) []byte { return nil }
