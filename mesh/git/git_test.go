//go:build unix

package git

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What a child gets is all that it gets.
func TestChild(t *testing.T) {
	t.Parallel()
	g, dir := fake(t, role{Report: true})
	for command, more := range map[string][]string{"status": nil, "diff": exact} {
		if _, err := g.run(t.Context(), "/some where", io.Discard, maxText, command, "-x"); err != nil {
			t.Fatal(err)
		}
		var got report
		text, err := os.ReadFile(filepath.Join(dir, "report"))
		must(t, err)
		must(t, json.Unmarshal(text, &got))
		argv := slices.Concat([]string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat", "-C", "/some where"}, more, []string{command, "-x"})
		environ := []string{"PATH=" + dir, "HOME=" + dir, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=", "GIT_NO_LAZY_FETCH=1"}
		if !slices.Equal(got.Argv, argv) || !slices.Equal(got.Environ, environ) || !got.StdinEmpty {
			t.Errorf("%s: %+v", command, got)
		}
	}
	g = New(environment{"PATH": "/p", "HOME": "/h", "XDG_CONFIG_HOME": "/x", "GIT_DIR": "/d", "HERDR_PANE_ID": "w1:p1"}.get)
	if text := strings.Join(g.environ, " "); !strings.HasPrefix(text, "PATH=/p HOME=/h XDG_CONFIG_HOME=/x LC_ALL=C") || strings.Contains(text, "GIT_DIR") || strings.Contains(text, "HERDR") {
		t.Errorf("environment %q", g.environ)
	}
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	text := func(g *Git) error {
		_, err := g.text(t.Context(), "/", "rev-parse")
		return err
	}
	for name, tc := range map[string]struct {
		role role
		code string
	}{
		"well":               {role{Out: 3}, ""},
		"a refusal":          {role{Exit: 128}, "GIT_FAILED"},
		"an answer unsought": {role{Exit: 1}, "GIT_FAILED"},
		"enough":             {role{Out: maxText}, ""},
		"too much":           {role{Out: maxText + 1}, "GIT_FAILED"},
	} {
		g, _ := fake(t, tc.role)
		wantCode(t, name, text(g), tc.code)
	}
	g := New(environment{"PATH": t.TempDir() + ":relative:."}.get)
	wantCode(t, "no git", text(g), "GIT_NOT_FOUND")
	g, dir := fake(t, role{})
	must(t, os.Remove(filepath.Join(dir, "git")))
	syscall.ForkLock.RLock()
	err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/no/such/shell\n"), 0o700)
	syscall.ForkLock.RUnlock()
	must(t, err)
	wantCode(t, "a broken git", text(g), "GIT_NOT_FOUND")
}

// A git that does not end is ended: after its time, with the call, and when the
// call's time is over.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		own  time.Duration
		call func(context.Context, string) (context.Context, context.CancelFunc)
		code string
	}{
		"its time": {time.Second, func(ctx context.Context, _ string) (context.Context, context.CancelFunc) {
			return ctx, func() {}
		}, "GIT_FAILED"},
		"the call's time": {time.Minute, func(ctx context.Context, _ string) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, "HERDR_TIMEOUT"},
		"the call": {time.Minute, func(ctx context.Context, file string) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			go func() {
				defer cancel()
				for ctx.Err() == nil && pid(file) == 0 {
					time.Sleep(5 * time.Millisecond)
				}
			}()
			return ctx, cancel
		}, "CANCELLED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, dir := fake(t, role{Sleep: true})
			g.timeout = tc.own
			asleep := filepath.Join(dir, "asleep")
			ctx, cancel := tc.call(t.Context(), asleep)
			defer cancel()
			_, err := g.text(ctx, "/", "rev-parse")
			wantCode(t, name, err, tc.code)
			if p := pid(asleep); p == 0 {
				t.Log("it had not begun")
			} else if !errors.Is(syscall.Kill(p, 0), syscall.ESRCH) {
				t.Errorf("process %d is still there", p)
			}
		})
	}
}

func pid(file string) int {
	text, _ := os.ReadFile(file)
	n, _ := strconv.Atoi(string(text))
	return n
}
