package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// maxProc is how much of a file below /proc is read, in bytes.
const maxProc = 1 << 20

// lineage returns this process, its parent and so on, or nothing.
func lineage(context.Context) (all []process) {
	for pid := os.Getpid(); pid > 0 && len(all) < maxLineage; {
		p, ok := look(pid)
		if !ok {
			break
		}
		all = append(all, p)
		pid = p.parent
	}
	return all
}

// look reads what /proc has of a process.
func look(pid int) (process, bool) {
	stat := proc(pid, "stat")
	// The name in the middle may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	p := process{pid: pid, parent: parent}
	for word := range strings.SplitSeq(strings.TrimSuffix(string(proc(pid, "cmdline")), "\x00"), "\x00") {
		p.argv = append(p.argv, word)
	}
	return p, err == nil
}

func proc(pid int, name string) []byte {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), name))
	if err != nil {
		return nil
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxProc))
	return text
}

// servers returns the MCP servers of herdr-link that this user runs with these
// values of variables. known is false where that cannot be found out.
func servers(ctx context.Context, vars map[string]string) (found []process, known bool) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false
	}
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || ctx.Err() != nil {
			continue
		}
		info, err := d.Info()
		if err != nil {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
			continue
		}
		p, ok := look(pid)
		if !ok || !p.serves() {
			continue
		}
		getenv := lookup(strings.Split(string(proc(pid, "environ")), "\x00"))
		same := true
		for name, value := range vars {
			same = same && getenv(name) == value
		}
		if same {
			found = append(found, p)
		}
	}
	return found, ctx.Err() == nil
}
