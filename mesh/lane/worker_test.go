//go:build unix

package lane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"herdr-link/mesh/git"
	"herdr-link/mesh/store"
)

// What was true when a start began need not be when it gets the lock: facts 2 and 3
// are looked at again there (mesh.md §4.7, 8).
func TestStartWorkerLate(t *testing.T) {
	t.Parallel()
	f := newField(t)
	s, by := f.lead()
	quickRepo(t, f.dir, "main", "lane")
	lane := filepath.Join(f.dir, "lane")
	bin := filepath.Join(f.dir, "bin")
	real, err := exec.LookPath("git")
	must(t, err)
	must(t, os.Mkdir(bin, 0o700))
	syscall.ForkLock.RLock() // see quickHerdr
	err = os.WriteFile(filepath.Join(bin, "git"), fmt.Appendf(nil, "#!/bin/sh\n%s \"$@\"\ncode=$?\necho \"$*\" >> %s/done\nexit $code\n", real, bin), 0o700)
	syscall.ForkLock.RUnlock()
	must(t, err)
	q, err := quickWorker(lane)
	must(t, err)
	q.ParentPaneID = "w1:p1"
	s.git = git.New(func(name string) string {
		return map[string]string{"PATH": bin + ":" + os.Getenv("PATH"), "HOME": f.dir}[name]
	})

	x, err := s.store.Begin(t.Context())
	must(t, err)
	ended := make(chan error)
	go func() {
		_, err := s.StartWorker(t.Context(), by, q)
		ended <- err
	}()
	for looked := ""; !strings.Contains(looked, " status "); { // the last of its looks without the lock
		select {
		case err := <-ended:
			t.Fatalf("it did not wait for the lock: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
		text, _ := os.ReadFile(filepath.Join(bin, "done"))
		looked = string(text)
	}
	cmd := exec.CommandContext(t.Context(), real, "-C", lane, "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-q", "--allow-empty", "-m", "x")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	x.End()
	got := f.want("a commit meanwhile", <-ended, "HEAD_MISMATCH")
	if got != nil && (got.Details["expected"] != q.Expected.Head || got.Details["current"] == q.Expected.Head) {
		t.Errorf("%v", got.Details)
	}
	all, err := leases[store.Writer](s, nil, nil)
	must(t, err)
	if len(f.calls("tab create")) > 0 || len(all) > 0 {
		t.Error("something was made")
	}
}

// A start whose record would be too large to be read is refused before Herdr is
// asked anything.
func TestStartWorkerLarge(t *testing.T) {
	t.Parallel()
	f := newField(t)
	s, by := f.lead()
	quickRepo(t, f.dir, "main", "lane")
	q, err := quickWorker(filepath.Join(f.dir, "lane"))
	must(t, err)
	q.ParentPaneID = "w1:p1"
	for i := range 500 {
		q.Owned = append(q.Owned, fmt.Sprintf("a%03d/%s", i, strings.Repeat("\"", 195)))
		q.Locked = append(q.Locked, fmt.Sprintf("b%03d/%s", i, strings.Repeat("x", 195)))
	}
	q.Owned, q.Locked = q.Owned[:500], q.Locked[:500]
	before := len(f.calls(""))
	_, err = s.StartWorker(t.Context(), by, q)
	f.want("too much", err, "INVALID_ARGUMENT")
	if n := len(f.calls("")); n != before {
		t.Errorf("Herdr was asked %d times", n-before)
	}
	all, err := leases[store.Writer](s, nil, nil)
	must(t, err)
	if len(all) > 0 {
		t.Error("something was written")
	}
}
