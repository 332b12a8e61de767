package probe

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var scratch string // a folder; written by TestMain alone

// TestMain lets the test binary be a small server.
func TestMain(m *testing.M) {
	if flaw, ok := os.LookupEnv("PROBE_SMALL"); ok {
		smallServer(flaw)
		os.Exit(0)
	}
	var err error
	if scratch, err = os.MkdirTemp("", "probe-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// probing runs checks and returns the report, the names of those that failed,
// and all that was printed.
func probing(t *testing.T, o Options) (report Report, failed []string, printed string) {
	t.Helper()
	var out bytes.Buffer
	report, err := Run(t.Context(), o, &out)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if name, ok := strings.CutPrefix(line, "FAIL "); ok {
			name, what, _ := strings.Cut(name, ": ")
			failed = append(failed, name)
			if !strings.HasPrefix(what, "expected ") || !strings.Contains(what, ", got ") {
				t.Errorf("no expectation in %q", line)
			}
		}
	}
	if len(failed) != report.Failed || report.Passed+report.Failed+report.Skipped != len(o.Checks) ||
		!strings.HasSuffix(out.String(), "\n"+report.String()+"\n") {
		t.Errorf("%v does not fit to\n%s", report, &out)
	}
	return report, failed, out.String()
}

// The programs of these tests are built once, and without the race detector,
// with which they would start slowly: many are started.
var (
	herdrLink = sync.OnceValues(func() (string, error) { // the real program; it also plays herdr
		return build("herdr-link", "build", "herdr-link")
	})
	smallOne = sync.OnceValues(func() (string, error) { // this test binary, as a small server
		return build("small", "test", "-c", "herdr-link/probe")
	})
)

func build(name, command string, args ...string) (string, error) {
	bin := filepath.Join(scratch, name)
	if runtime.GOOS == "windows" {
		bin += ".exe"
	}
	cmd := exec.Command("go", append([]string{command, "-o", bin}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return bin, nil
}

func built(t *testing.T, program func() (string, error)) string {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// withFlaw are options for the small server.
func withFlaw(t *testing.T, flaw string, checks []Check) Options {
	return Options{
		Checks: checks, Command: []string{built(t, smallOne)}, Herdr: built(t, herdrLink),
		Environ: append(os.Environ(), "PROBE_SMALL="+flaw, "HERDR_PANE_ID=w9:p9"),
	}
}

// Not parallel to the others: some promises are about time.
func TestOwnBinary(t *testing.T) {
	bin := built(t, herdrLink)
	report, failed, printed := probing(t, Options{Checks: Select(""), Command: []string{bin}, Own: true, Environ: os.Environ(), Herdr: bin})
	if len(failed) > 0 || signals && report.Skipped > 0 {
		t.Errorf("%v\n%s", report, bad(printed))
	}
	var out bytes.Buffer
	o := Options{Command: []string{bin}, Own: true, Environ: os.Environ(), Herdr: bin}
	if err := Demo(t.Context(), o, &out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if rawControl(out.String()) || strings.Count(out.String(), "\n     | [herdr-link/1]") != 2 || !strings.Contains(out.String(), "SIMULATED") {
		t.Errorf("the demo printed\n%s", &out)
	}
}

// bad are the lines that are not ok.
func bad(printed string) string {
	var b strings.Builder
	for line := range strings.Lines(printed) {
		if !strings.HasPrefix(line, "ok ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// What every server of herdr-link/1 is held to, a small one can keep; nothing
// else is asked of it unless it says that it is ours.
func TestSmallServer(t *testing.T) {
	t.Parallel()
	_, failed, printed := probing(t, withFlaw(t, "", Select("")))
	if len(failed) > 0 {
		t.Errorf("failed:\n%s", bad(printed))
	}
	for _, c := range Select("") {
		if c.Own && !strings.Contains(printed, "\nskip "+c.Name+": only herdr-link's own binary promises this\n") {
			t.Errorf("%s was not skipped", c.Name)
		}
	}
}

func TestNoReplyTo(t *testing.T) {
	t.Parallel()
	report, _, printed := probing(t, withFlaw(t, "no reply_to", Select("send/reply")))
	if report != (Report{Skipped: 1}) {
		t.Errorf("%s", printed)
	}
}

// Each check fails with some server that only breaks a promise: with one of
// the flaws or, if it is our own, with the small server as it is.
func TestEachCheckCanFail(t *testing.T) {
	t.Parallel()
	fails := map[string]bool{}
	for _, test := range flaws {
		for _, name := range strings.Fields(test.want) {
			fails[name] = true
		}
	}
	own := slices.DeleteFunc(Select(""), func(c Check) bool { return !c.Own || fails[c.Name] })
	o := withFlaw(t, "", own)
	o.Own, o.Patience = true, time.Second
	_, failed, _ := probing(t, o)
	for _, name := range failed {
		fails[name] = true
	}
	for _, c := range Select("") {
		if !fails[c.Name] && (signals || c.Name != "life/sigterm") {
			t.Errorf("%s never failed", c.Name)
		}
	}
}

// A hopeless server fails each check, and all together in time.
func TestHopeless(t *testing.T) {
	t.Parallel()
	for flaw, pattern := range map[string]string{"hangs": "", "dies": "life/", "garbage": "gate/"} {
		t.Run(flaw, func(t *testing.T) {
			o := withFlaw(t, flaw, Select(pattern))
			o.Own, o.Patience = true, 100*time.Millisecond
			begun := time.Now()
			report, _, printed := probing(t, o)
			if report.Failed != len(o.Checks) {
				t.Errorf("not all failed:\n%s", printed)
			}
			if took := time.Since(begun); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
			if strings.ContainsRune(printed, '\x1b') {
				t.Error("the server's escape codes were printed")
			}
		})
	}
}

// A server that never stops writing, and one that is stopped from outside.
func TestBounded(t *testing.T) {
	t.Parallel()
	for _, flaw := range []string{"floods", "endless line", "hangs"} {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			o := withFlaw(t, flaw, Select("gate/"))
			o.Limit = time.Second
			begun := time.Now()
			report, _, printed := probing(t, o)
			if report.Passed > 0 || report.Failed == 0 || time.Since(begun) > 8*time.Second {
				t.Errorf("%v after %v\n%s", report, time.Since(begun), printed)
			}
		})
	}
	o := withFlaw(t, "hangs", Select("send/"))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	begun := time.Now()
	report, err := Run(ctx, o, new(bytes.Buffer))
	if err != nil || report.Passed > 0 || time.Since(begun) > 8*time.Second {
		t.Errorf("cancelled: %v, %v after %v", report, err, time.Since(begun))
	}
}

// flaws are those of the small server: each fails the checks in want, and no
// other of those that are run: the ones of every server that begin with a word
// of run, and those of our own that are named there.
var flaws = []struct{ flaw, run, want string }{
	{"no gate", "gate/outside-lists gate/outside-refuses", "gate/outside-lists-nothing gate/outside-refuses-calls"},
	{"half a gate", "gate/outside gate/needs gate/starts-no-child", "gate/needs-each-variable gate/starts-no-child"},
	{"believes variables", "gate/workspace gate/outside", "gate/workspace-variables-unread"},
	{"one version", "rpc/versions gate/outside-i", "gate/outside-initializes rpc/versions"},
	{"no listChanged", "dormant/", "dormant/declares-change"},
	{"tells the contract", "dormant/", "dormant/no-contract"},
	{"lists all at once", "dormant/", "dormant/one-tool dormant/no-contract dormant/per-connection"},
	{"never active", "activate/ gateway/peers", "activate/by-action activate/lists-all activate/in-order activate/idempotent activate/without-herdr gateway/peers"},
	{"strange answers", "activate/ send/answer", "activate/answer activate/by-action activate/idempotent activate/without-herdr send/answer"},
	{"two changes", "activate/ activate/direct-call", "activate/one-change-first activate/in-order activate/idempotent activate/direct-call"},
	{"early change", "activate/no-change activate/answer", "activate/no-change-without"},
	{"late change", "activate/ activate/direct-call", "activate/one-change-first activate/direct-call"},
	{"lazy", "activate/ activate/direct-call gateway/", "activate/direct-call gateway/peers gateway/send-nested gateway/send-flat gateway/close-nested gateway/close-flat"},
	{"empty schemas", "tools/", "tools/schemas"},
	{"titles for all", "tools/ tools/old-version", "tools/old-version"},
	{"no guard", "peers/own errors/peer-o errors/peer-u moved/ peers/live", "peers/own-workspace peers/live errors/peer-other-workspace moved/target"},
	{"raw states", "peers/", "peers/states"},
	{"leaks ids", "peers/", "peers/no-ids"},
	{"looks twice", "peers/live peers/commands send/commands", "peers/commands send/commands"},
	{"raw characters", "send/no-raw send/no-raw-c1 send/opaque", "send/no-raw-escape send/no-raw-c1"},
	{"HTML escapes", "send/no- send/wrapper", "send/no-html-escapes"},
	{"bare", "send/wrapper send/arrives", "send/wrapper"},
	{"verbose", "send/wrapper send/short-wrapper", "send/short-wrapper"},
	{"short", "send/arrives send/long", "send/long"},
	{"more fields", "send/fields send/arrives", "send/fields"},
	{"pane in text", "send/no-ids send/arrives", "send/no-ids"},
	{"trims", "send/opaque send/arrives", "send/opaque"},
	{"waits", "send/plain send/allowed send/answer", "send/plain-prompt send/allowed-commands"},
	{"twice", "send/arrives send/plain send/no-retry send/answer", "send/arrives send/plain-prompt send/no-retry"},
	{"loses messages", "send/arrives send/no-merging send/no-merging-across send/last-words send/answer", "send/arrives send/no-merging send/no-merging-across send/last-words"},
	{"names anew", "bootstrap/keeps bootstrap/two-servers", "bootstrap/keeps-names bootstrap/two-servers"},
	{"no reply", "send/reply send/both", "send/reply send/both-ways"},
	{"believes from", "send/sender send/arrives", "send/sender-is-herdrs"},
	{"particular", "send/any send/answer", "send/any-state"},
	{"sends anything", "errors/send-blank errors/send-no-m errors/send-bad errors/send-refused", "errors/send-blank errors/send-no-message errors/send-bad-reply-to"},
	{"never refused", "errors/send errors/send-not-found-late send/no-retry", "send/no-retry errors/send-refused errors/send-not-found-late"},
	{"any name", "errors/peer-invalid errors/peer-missing errors/peer-unknown", "errors/peer-invalid-name"},
	{"one code", "errors/peer errors/close errors/server errors/proto errors/garb errors/no-binary errors/self-un errors/self-undetected-close gateway/errors moved/target bootstrap/gives",
		"gateway/errors errors/peer-unknown errors/peer-other-workspace errors/peer-invalid-name errors/peer-missing errors/peer-vanished errors/close-refused " +
			"errors/self-unnamed errors/self-undetected errors/self-undetected-close errors/server-down errors/protocol-mismatch errors/garbage errors/no-binary bootstrap/gives-up moved/target"},
	{"optimist", "errors/empty errors/shape errors/debug-text errors/usage-text errors/died errors/bad-binary",
		"errors/empty errors/shape errors/debug-text errors/usage-text errors/died errors/bad-binary"},
	{"quotes Herdr", "errors/no-leak", "errors/no-leak"},
	{"remembers panes", "close/", "close/fresh-pane close/itself"},
	{"closes the focused", "close/closes close/unfocused", "close/closes close/unfocused"},
	{"closes with a name", "close/", "close/unnamed-caller"},
	{"never itself", "close/", "close/itself"},
	{"nested only", "gateway/", "gateway/send-flat gateway/close-flat"},
	{"takes any action", "gateway/bad gateway/peers", "gateway/bad-action"},
	{"no bootstrap", "bootstrap/", "bootstrap/names-itself bootstrap/sends-as bootstrap/name-taken bootstrap/gives-up"},
	{"renames all", "bootstrap/keeps", "bootstrap/keeps-names"},
	{"one name", "bootstrap/name-taken bootstrap/gives bootstrap/names", "bootstrap/name-taken bootstrap/gives-up"},
	{"wrong codes", "rpc/", "rpc/parse-error rpc/no-request rpc/unknown-method rpc/discover rpc/unknown-tool"},
	{"needs arguments", "rpc/no-arguments rpc/ping", "rpc/no-arguments"},
	{"dies of cancelled", "rpc/cancel-finished rpc/ping", "rpc/cancel-finished"},
	{"no empty lines", "rpc/odd rpc/ping", "rpc/odd-lines"},
	{"ids as text", "rpc/ping rpc/ids", "rpc/ping rpc/ids"},
	{"answers notifications", "rpc/never rpc/ping", "rpc/never-answered"},
	{"bad exit", "life/", "life/end-of-input life/end-with-slow-call life/end-at-once"},
	{"abandons calls", "life/end-w life/end-at life/sig", "life/end-with-slow-call"},
	{"needs a newline", "life/end-at life/last-line", "life/last-line"},
	{"chatty", "life/end-at life/quiet-stderr", "life/quiet-stderr"},
	{"ignores SIGTERM", "life/sigterm", "life/sigterm"},
}

// inVain are the flaws with which something is waited for that never comes.
var inVain = []string{"one version", "loses messages", "never itself", "remembers panes", "no bootstrap", "one name", "ids as text", "strange answers", "ignores SIGTERM"}

func TestFlaws(t *testing.T) {
	for _, test := range flaws {
		t.Run(strings.ReplaceAll(test.flaw, " ", "-"), func(t *testing.T) {
			t.Parallel()
			if test.flaw == "ignores SIGTERM" && !signals {
				t.Skip("no SIGTERM here")
			}
			var checks []Check
			for _, c := range Select("") {
				if slices.ContainsFunc(strings.Fields(test.run), func(run string) bool {
					return run == c.Name || !c.Own && strings.HasPrefix(c.Name, run)
				}) {
					checks = append(checks, c)
				}
			}
			o := withFlaw(t, test.flaw, checks)
			o.Own = true
			if slices.Contains(inVain, test.flaw) {
				o.Patience = 3 * time.Second
			}
			_, failed, printed := probing(t, o)
			if want := strings.Fields(test.want); !slices.Equal(failed, want) {
				t.Errorf("failed: %q\nwant:   %q\n%s", failed, want, bad(printed))
			}
		})
	}
}

func TestSelect(t *testing.T) {
	all := Select("")
	seen := map[string]bool{}
	for _, c := range all {
		group, name, ok := strings.Cut(c.Name, "/")
		plainName := strings.Trim(group+name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
		if !ok || !plainName || seen[c.Name] || c.Expects == "" || strings.HasSuffix(c.Expects, ".") || c.run == nil {
			t.Errorf("a bad row: %+v", c)
		}
		seen[c.Name] = true
	}
	for pattern, want := range map[string]bool{"gate/": true, "gate/outside-initializes": true, "*/answer": true, "nonsense": false, "[": false} {
		got := Select(pattern)
		if (len(got) > 0) != want {
			t.Errorf("Select(%q) has %d", pattern, len(got))
		}
		for _, c := range got {
			if ok, _ := path.Match(pattern, c.Name); !ok && !strings.HasPrefix(c.Name, pattern) {
				t.Errorf("Select(%q) has %s", pattern, c.Name)
			}
		}
	}
}

func TestPlain(t *testing.T) {
	if got := plain("a\x1b[2J\nb\u009bc\u2028"); got != `a\u001b[2J\nb\u009bc\u2028` {
		t.Errorf("%q", got)
	}
	if got := plain(strings.Repeat("x", 5000)); len(got) > 500 {
		t.Errorf("%d bytes", len(got))
	}
}
