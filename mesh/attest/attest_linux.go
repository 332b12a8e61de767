package attest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// blind: whether a process that the system does not show excuses a missing
// proof. On Linux /proc always answers.
const blind = false

// Boot returns the id of this boot of the machine, or "".
func Boot() string { return line("/proc/sys/kernel/random/boot_id") }

// Host returns the id of this machine, or "".
func Host() string { return line("/etc/machine-id") }

// Namespace returns what tells this process's namespace of ids from others, or "".
func Namespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}

// Start returns when a process was started, in ticks since the boot, or "" if
// that is not known.
func Start(pid int) string {
	p, _ := look(context.Background(), pid)
	return p.start
}

// Exists reports whether there is a process of that id. One that this user may
// not signal is one.
func Exists(pid int) bool {
	return pid > 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func line(path string) string { return strings.TrimSpace(string(read(path))) }

// read reads a small file of the system's.
func read(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 64<<10))
	return text
}

// look reads /proc/PID/stat. The name in its middle may hold anything, even
// brackets and blanks, so fields count from the last bracket: the third is the
// state, the fourth the parent and the 22nd the start.
func look(_ context.Context, pid int) (seen, bool) {
	stat := read(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return parse(stat)
}

func parse(stat []byte) (seen, bool) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return seen{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	if _, e := strconv.ParseUint(fields[19], 10, 64); err != nil || e != nil {
		return seen{}, false
	}
	return seen{parent: parent, start: fields[19], ended: fields[0] == "Z" || fields[0] == "X"}, true
}
