package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

// Each benchmark measures the server and a floor in turns, in one run, and
// reports the ratio of the medians: so the machine's speed and its load cancel
// out. docs/performance.md has the method and the numbers.

// turns runs a and b alternately and returns their median times.
func turns(n int, a, b func(i int)) (medianA, medianB time.Duration) {
	as, bs := make([]time.Duration, n), make([]time.Duration, n)
	for i := range n {
		begun := time.Now()
		a(i)
		as[i] = time.Since(begun)
		begun = time.Now()
		b(i)
		bs[i] = time.Since(begun)
	}
	slices.Sort(as)
	slices.Sort(bs)
	return as[n/2], bs[n/2]
}

// report reports ours as a multiple of the floor.
func report(b *testing.B, ours, floor time.Duration) {
	b.ReportMetric(0, "ns/op") // one operation is the whole benchmark: its time says nothing
	b.ReportMetric(float64(ours.Microseconds())/1000, "ours-ms")
	b.ReportMetric(float64(floor.Microseconds())/1000, "floor-ms")
	b.ReportMetric(float64(ours)/float64(floor), "x-floor")
}

const initializeLine = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"0"}}}`

// BenchmarkStart: from the start of the process to the answer of initialize,
// against the start and end of an empty Go program.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	source, empty := filepath.Join(dir, "empty.go"), filepath.Join(dir, exe("empty"))
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", empty, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	env := inPane(b, newScene(b), "w1:p1")
	for b.Loop() {
		ours, floor := turns(300, func(int) {
			begun := exec.Command(binaries.plain)
			begun.Env = env.vars
			in, _ := begun.StdinPipe()
			out, _ := begun.StdoutPipe()
			if err := begun.Start(); err != nil {
				b.Fatal(err)
			}
			if _, err := io.WriteString(in, initializeLine+"\n"); err != nil {
				b.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, "serverInfo") {
				b.Fatal(line, err)
			}
			b.StopTimer() // not of the start: its end
			_ = begun.Process.Kill()
			go func() { _ = begun.Wait() }()
			b.StartTimer()
		}, func(int) {
			if err := exec.Command(empty).Run(); err != nil {
				b.Fatal(err)
			}
		})
		report(b, ours, floor)
	}
}

// crowd is a scene with n agents more in lead's workspace: a0000 and so on.
func crowd(b *testing.B, n int) (s *fakeherdr.Scene, names []string) {
	s = newScene(b)
	change(b, s, func(w *fakeherdr.World) {
		for i := range n {
			names = append(names, fmt.Sprintf("a%04d", i))
			w.AddPane("w1", "claude", names[i])
		}
	})
	return s, names
}

// herdr runs one command, as a bare loop would.
func herdr(b *testing.B, s *fakeherdr.Scene, env environment, args ...string) {
	cmd := exec.Command(s.Bin(), args...)
	cmd.Env = env.vars
	if out, err := cmd.Output(); err != nil {
		b.Errorf("herdr %q: %v %s", args[:2], err, out)
	}
}

// both runs two commands at the same time.
func both(b *testing.B, s *fakeherdr.Scene, env environment, one, two []string) {
	var wait sync.WaitGroup
	wait.Go(func() { herdr(b, s, env, one...) })
	herdr(b, s, env, two...)
	wait.Wait()
}

// text is as long as a wrapper with a short message.
var text = "[herdr-link/1] " + strings.Repeat("x", 485)

// active starts a server whose tools are listed.
func active(b *testing.B, env environment) *host {
	h := start(b, env)
	h.initialize("2025-11-25")
	h.list()
	h.call("herdr_link_peers", "{}")
	return h
}

const samples = 150

// BenchmarkSend: a send to a target that nobody has written to for a while,
// so that no lock waits, against two lookups side by side and a prompt.
func BenchmarkSend(b *testing.B) {
	s, names := crowd(b, 100)
	env := inPane(b, s, "w1:p1")
	h := active(b, env)
	for b.Loop() {
		report2(b, h, func(i int) string {
			return h.begin("herdr_link_send", `{"to":"`+names[i%100]+`","message":"How far are you?"}`)
		}, func(i int) {
			to := names[i%100]
			both(b, s, env, []string{"agent", "get", "w1:p1"}, []string{"agent", "get", to})
			herdr(b, s, env, "agent", "prompt", to, text)
		})
	}
}

// BenchmarkPeers: against the lookup and the list side by side.
func BenchmarkPeers(b *testing.B) {
	s, _ := crowd(b, 20)
	env := inPane(b, s, "w1:p1")
	h := active(b, env)
	for b.Loop() {
		report2(b, h, func(int) string { return h.begin("herdr_link_peers", "{}") }, func(int) {
			both(b, s, env, []string{"agent", "get", "w1:p1"}, []string{"agent", "list"})
		})
	}
}

// BenchmarkClose: against two lookups side by side and the close.
func BenchmarkClose(b *testing.B) {
	s, names := crowd(b, 2*samples)
	w, err := s.World()
	if err != nil {
		b.Fatal(err)
	}
	panes := map[string]string{}
	for _, p := range w.Panes {
		if p.Agent != nil {
			panes[p.Agent.Name] = p.ID
		}
	}
	env := inPane(b, s, "w1:p1")
	h := active(b, env)
	for b.Loop() {
		report2(b, h, func(i int) string {
			return h.begin("herdr_link_close", `{"agent":"`+names[i]+`"}`)
		}, func(i int) {
			to := names[samples+i]
			both(b, s, env, []string{"agent", "get", "w1:p1"}, []string{"agent", "get", to})
			herdr(b, s, env, "pane", "close", panes[to])
		})
	}
}

// BenchmarkControl: a tool that reads, and one that adds a tab, against their bare
// commands.
func BenchmarkControl(b *testing.B) {
	for _, test := range []struct {
		tool, args string
		argv       []string
	}{
		{"herdr_agent_list", "{}", []string{"agent", "list"}},
		{"herdr_tab_create", `{"workspaceId":"w2"}`, []string{"tab", "create", "--workspace", "w2", "--no-focus"}},
	} {
		b.Run(test.tool, func(b *testing.B) {
			s, _ := crowd(b, 20)
			env := inPane(b, s, "w1:p1")
			h := start(b, env, "--toolsets", "control")
			h.initialize("2025-11-25")
			for b.Loop() {
				report2(b, h, func(int) string { return h.begin(test.tool, test.args) }, func(int) { herdr(b, s, env, test.argv...) })
			}
		})
	}
}

// BenchmarkMeshWaits: how many herdr run per poll while targets are waited for,
// each in a call of its own and all in one more. It is a number, not a time: one,
// whether there is one target or are 16.
func BenchmarkMeshWaits(b *testing.B) {
	if runtime.GOOS == "windows" {
		b.Skip("mesh is not for Windows")
	}
	const polls = 8
	for _, targets := range []int{1, 16} {
		b.Run(fmt.Sprintf("%d targets", targets), func(b *testing.B) {
			s, names := crowd(b, 16)
			change(b, s, func(w *fakeherdr.World) {
				for _, p := range w.Panes {
					if p.Agent != nil {
						p.Agent.Status = fakeherdr.Working
					}
				}
			})
			h := start(b, inPane(b, s, "w1:p1", "HERDR_LINK_OFF=1"), "--toolsets", "mesh")
			h.initialize("2025-11-25")
			for b.Loop() {
				var list []string
				for _, name := range names[:targets] {
					list = append(list, `{"target":"`+name+`"}`)
					h.begin("herdr_agent_wait_settled", `{"target":"`+name+`","timeout_ms":600000}`)
				}
				h.begin("herdr_agent_wait_any", `{"targets":[`+strings.Join(list, ",")+`],"timeout_ms":600000}`)
				awaitCalls(b, s, 4, "agent", "list") // all have joined
				before, begun := len(commands(b, s)), time.Now()
				time.Sleep(polls*meshPoll + meshPoll/2)
				calls := float64(len(commands(b, s)) - before)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(calls/float64(time.Since(begun)/meshPoll), "herdr/poll")
			}
		})
	}
}

// BenchmarkMeshStatus: herdr_bridge_status reads no record, so that 10,000 of
// them cost nothing.
func BenchmarkMeshStatus(b *testing.B) {
	if runtime.GOOS == "windows" {
		b.Skip("mesh is not for Windows")
	}
	s := newScene(b)
	state := filepath.Join(b.TempDir(), "state")
	h := start(b, inPane(b, s, "w1:p1", "HERDR_LINK_OFF=1", "HERDR_MESH_STATE_DIR="+state), "--toolsets", "mesh")
	h.initialize("2025-11-25")
	h.call("herdr_controller_acquire", `{"controller_id":"lead","authority_ref":"T-1","authority_sha256":"`+strings.Repeat("ab", 32)+`"}`)
	for _, dir := range []string{"handoff-receipts", "reviewer-leases/archive"} {
		if err := os.MkdirAll(filepath.Join(state, dir), 0o700); err != nil {
			b.Fatal(err)
		}
		for i := range 5000 { // even of what nobody could read
			if err := os.WriteFile(filepath.Join(state, dir, strconv.Itoa(i)+".json"), []byte("{"), 0o600); err != nil {
				b.Fatal(err)
			}
		}
	}
	for b.Loop() {
		if r := h.call("herdr_bridge_status", "{}"); r.IsError || !strings.Contains(r.text(), `"absent"`) {
			b.Fatalf("%+v", r)
		}
	}
	if took := b.Elapsed() / time.Duration(b.N); took > 50*time.Millisecond {
		b.Errorf("it takes %v", took)
	}
}

// meshPoll is the time between two looks of mesh's watcher in the first 10 s.
const meshPoll = 250 * time.Millisecond

// report2 measures calls that begin starts, to the arrival of their answers,
// against the floor. (What a host does with an answer is not the server's time.)
func report2(b *testing.B, h *host, begin func(int) string, floor func(int)) {
	answers := make([]string, samples)
	ours, bare := turns(samples, func(i int) {
		begin(i)
		answers[i] = <-h.lines
	}, floor)
	for _, line := range answers {
		if !strings.Contains(line, `"structuredContent"`) {
			b.Fatalf("no result: %s", line)
		}
	}
	report(b, ours, bare)
}

// BenchmarkOutstanding: 64 sends at once to 64 targets over a Herdr that takes
// 20 ms a call, against a bare loop that runs the same commands. The rate is
// the bare loop's time over ours.
func BenchmarkOutstanding(b *testing.B) {
	const calls, rounds = 64, 9
	s, names := crowd(b, 3*calls) // a target rests for two rounds: no lock waits
	change(b, s, func(w *fakeherdr.World) {
		w.Faults = append(w.Faults, fakeherdr.Fault{Kind: fakeherdr.Slow, Delay: 20 * time.Millisecond})
	})
	env := inPane(b, s, "w1:p1")
	h := active(b, env)
	for b.Loop() {
		ours, floor := turns(rounds, func(i int) {
			ids := make([]string, calls)
			for j := range ids {
				ids[j] = h.begin("herdr_link_send", `{"to":"`+names[i%3*calls+j]+`","message":"How far are you?"}`)
			}
			for _, id := range ids {
				if r := h.result(id); r.IsError {
					b.Fatal(r.text())
				}
			}
		}, func(i int) {
			var wait sync.WaitGroup
			for j := range calls {
				wait.Go(func() {
					to := names[i%3*calls+j]
					both(b, s, env, []string{"agent", "get", "w1:p1"}, []string{"agent", "get", to})
					herdr(b, s, env, "agent", "prompt", to, text)
				})
			}
			wait.Wait()
		})
		report(b, ours, floor)
		b.ReportMetric(float64(floor)/float64(ours), "of-bare-rate")
	}
}

// BenchmarkMemory: resident memory of the server, from /proc: all of it, and what
// is its own. The rest are pages of the program, which all servers share.
func BenchmarkMemory(b *testing.B) {
	if runtime.GOOS != "linux" {
		b.Skip("reads /proc")
	}
	s, names := crowd(b, 64)
	change(b, s, func(w *fakeherdr.World) { w.EnterDelay = 0 })
	for b.Loop() {
		h := start(b, inPane(b, s, "w1:p1"))
		h.initialize("2025-11-25")
		after, own := status(b, h.cmd.Process.Pid, "VmRSS"), status(b, h.cmd.Process.Pid, "RssAnon")
		var at1000 float64
		const calls, window = 10_000, 16
		ids := []string{}
		for i := range calls {
			switch i % 4 {
			case 0:
				ids = append(ids, h.begin("herdr_link", `{"action":"peers"}`))
			case 1:
				ids = append(ids, h.begin("herdr_link_send", `{"to":"nobody","message":"`+names[i%64]+`"}`))
			default:
				ids = append(ids, h.begin("herdr_link_peers", "{}"))
			}
			if len(ids) == window {
				h.answer(ids[0])
				ids = ids[1:]
			}
			if i == 1000 {
				at1000 = status(b, h.cmd.Process.Pid, "RssAnon")
			}
		}
		for _, id := range ids {
			h.answer(id)
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(after, "MiB-initialized")
		b.ReportMetric(own, "MiB-own")
		b.ReportMetric(status(b, h.cmd.Process.Pid, "VmHWM"), "MiB-peak")
		b.ReportMetric(status(b, h.cmd.Process.Pid, "RssAnon")-at1000, "MiB-growth")
	}
}

// status returns a value of /proc/PID/status, in MiB.
func status(b *testing.B, pid int, key string) float64 {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib / 1024
		}
	}
	b.Fatalf("no %s", key)
	return 0
}
