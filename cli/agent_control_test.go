package cli

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"herdr-link/mesh/fault"
	"herdr-link/mesh/handoff"
)

const receipt = "herdr-receipt-v1.0f9d2c7e-3b1a-4c5d-8e6f-00112233445"

// shown tells all of an order in one line.
func (o *order) shown() string {
	text := o.verb
	for _, q := range o.requests {
		text += fmt.Sprintf(" %s=%q", q.Target, q.Message)
	}
	for _, r := range o.receipts {
		text += " " + strings.TrimPrefix(r, receipt)
	}
	if o.file != "" {
		text += " file " + o.file
	}
	if o.stdin {
		text += " stdin"
	}
	if o.wait.First {
		text += " first"
	}
	return fmt.Sprintf("%s %d %d", text, o.wait.Timeout/time.Millisecond, o.wait.Lines)
}

// mesh.md §5.1: what is right, and what is wrong without a look at anything.
func TestParseOrder(t *testing.T) {
	t.Parallel()
	nine := strings.Repeat(" --request r%d=x", 9)
	for i := range 9 {
		nine = strings.Replace(nine, "%d", fmt.Sprint(i), 1)
	}
	receipts := ""
	for i := range 9 {
		receipts += fmt.Sprintf(" --receipt %s%d", receipt, i)
	}
	eight := func(s string) string { return s[:strings.LastIndex(s, " --")] }
	for line, want := range map[string]string{
		"status":                                              "status 45000 200",
		"receipts":                                            "receipts 45000 200",
		"ask reviewer -- look at it":                          `ask reviewer="look at it" 45000 200`,
		"ask reviewer -- --mode x":                            `ask reviewer="--mode x" 45000 200`,
		"ask reviewer -- a -- b":                              `ask reviewer="a -- b" 45000 200`,
		"ask --timeout-ms 1 reviewer -- x":                    `ask reviewer="x" 1 200`,
		"ask reviewer --read-lines=1000 -- x":                 `ask reviewer="x" 45000 1000`,
		"ask reviewer --message-file a=b":                     "ask reviewer=\"\" file a=b 45000 200",
		"ask reviewer --message-file=a=b":                     "ask reviewer=\"\" file a=b 45000 200",
		"ask reviewer --stdin --timeout-ms 600000":            "ask reviewer=\"\" stdin 600000 200",
		"ask-many --request a=b=c --mode first":               `ask-many a="b=c" first 45000 200`,
		"ask-many --request=a=b=c --request b=--x":            `ask-many a="b=c" b="--x" 45000 200`,
		"ask-many" + eight(nine):                              `ask-many r0="x" r1="x" r2="x" r3="x" r4="x" r5="x" r6="x" r7="x" 45000 200`,
		"collect --receipt " + receipt + "1":                  "collect 1 45000 200",
		"collect --mode all" + eight(receipts):                "collect 0 1 2 3 4 5 6 7 45000 200",
		"collect --receipt " + strings.ToUpper(receipt) + "A": "collect a 45000 200",
		"abandon --receipt=" + receipt + "1":                  "abandon 1 45000 200",
		"unlock --confirm":                                    "unlock 45000 200",
	} {
		o, err := parseOrder(strings.Fields(line))
		if err != nil || o.shown() != want {
			t.Errorf("%s: %v, %v; want %s", line, o, err, want)
		}
	}
	const invalid = "INVALID_ARGUMENT: "
	for line, want := range map[string]string{
		"":                                      invalid + "it needs a command",
		"delete":                                invalid + "there is no such command",
		"--mode all status":                     invalid + "there is no such command",
		"status x":                              invalid + "status takes options alone",
		"status --":                             invalid + "status takes options alone",
		"status --mode all":                     invalid + "status has no option",
		"receipts --receipt x":                  invalid + "receipts has no option",
		"ask":                                   invalid + "ask needs the name",
		"ask reviewer":                          invalid + "ask needs one message",
		"ask reviewer hello":                    invalid + "ask takes one name",
		"ask reviewer --":                       invalid + "a message must not be empty",
		"ask -- hello":                          invalid + "ask needs the name",
		"ask reviewer --stdin -- hello":         invalid + "ask needs one message",
		"ask reviewer --stdin=1":                invalid + "--stdin takes no value",
		"ask reviewer --stdin --message-file x": invalid + "ask needs one message",
		"ask reviewer --message-file":           invalid + "--message-file needs a value",
		"ask reviewer --message-file=":          invalid + "--message-file needs a path",
		"ask reviewer --mode all -- x":          invalid + "ask has no option",
		"ask reviewer -x -- x":                  invalid + "ask has no option",
		"ask reviewer -stdin":                   invalid + "ask has no option",
		"ask reviewer - -- x":                   invalid + "ask has no option",
		"ask Reviewer -- x":                     invalid + "a target must be the name",
		"ask Reviewer --stdin":                  invalid + "a target must be the name",
		"ask w1:p2 -- x":                        invalid + "a target must be the name",
		"ask reviewer -- --session=x":           invalid + "a message must not be, nor begin as, --session",
		"ask reviewer -- \x1b[201~":             "MESSAGE_FORBIDDEN_BYTES: ",
		"ask reviewer -- " + strings.Repeat("x", 65537):                 "MESSAGE_TOO_LARGE: ",
		"ask reviewer --timeout-ms 0 -- x":                              invalid + "--timeout-ms must be",
		"ask reviewer --timeout-ms 600001 -- x":                         invalid + "--timeout-ms must be",
		"ask reviewer --timeout-ms +5 -- x":                             invalid + "--timeout-ms must be",
		"ask reviewer --timeout-ms 5s -- x":                             invalid + "--timeout-ms must be",
		"ask reviewer --timeout-ms 5 --timeout-ms=6 -- x":               invalid + "--timeout-ms is there twice",
		"ask reviewer --read-lines 0 -- x":                              invalid + "--read-lines must be",
		"ask reviewer --read-lines 1001 -- x":                           invalid + "--read-lines must be",
		"ask-many":                                                      invalid + "there must be 1 to 8 requests",
		"ask-many" + nine:                                               invalid + "there must be 1 to 8 requests",
		"ask-many reviewer -- x":                                        invalid + "ask-many takes options alone",
		"ask-many --request reviewer":                                   invalid + "--request must be TARGET=MESSAGE",
		"ask-many --request =x":                                         invalid + "a target must be the name",
		"ask-many --request a=":                                         invalid + "a message must not be empty",
		"ask-many --request a=x --request a=y":                          invalid + "the target a must not be there twice",
		"ask-many --request a=x --mode some":                            invalid + "--mode must be all or first",
		"ask-many --request":                                            invalid + "--request needs a value",
		"collect":                                                       invalid + "collect needs 1 to 8",
		"collect" + receipts:                                            invalid + "collect needs 1 to 8",
		"collect --receipt x":                                           "RECEIPT_INVALID: ",
		"collect --receipt " + receipt:                                  "RECEIPT_INVALID: ",
		"collect --receipt " + receipt + "a --receipt " + receipt + "A": invalid + "a receipt is there twice",
		"abandon":                    invalid + "abandon needs one",
		"abandon" + eight(receipts):  invalid + "abandon needs one",
		"abandon " + receipt + "1":   invalid + "abandon takes options alone",
		"unlock":                     invalid + "unlock is for a person",
		"unlock --confirm=yes":       invalid + "--confirm takes no value",
		"unlock --confirm --confirm": invalid + "--confirm is there twice",
	} {
		if o, err := parseOrder(strings.Fields(line)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.80s: %v, %v; want %s", line, o, err, want)
		}
	}
	for _, line := range []string{"--help", "-h", "help", "ask --help", "collect -h x"} {
		if _, err := parseOrder(strings.Fields(line)); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// Whatever the words are: an order obeys the limits, and a mistake tells none of
// them.
func FuzzParseOrder(f *testing.F) {
	for _, line := range []string{"status", "ask reviewer -- look at it", "ask r --stdin --timeout-ms 5", "ask-many --request a=b --request=c=d --mode first",
		"collect --receipt " + receipt + "1 --read-lines 3", "abandon --receipt " + receipt + "2", "unlock --confirm", "ask a --message-file x -- y", "ask a -- \x1b"} {
		f.Add(strings.ReplaceAll(line, " ", "\x00"))
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		o, err := parseOrder(args)
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		if err != nil {
			if fault.Code(err) == "" || len(err.Error()) > 300 || !utf8.ValidString(err.Error()) {
				t.Errorf("%q", err)
			}
			for _, word := range args {
				if len(word) > 32 && strings.Contains(err.Error(), word) {
					t.Errorf("%q tells %q", err, word)
				}
			}
			return
		}
		read := o.verb == "ask" && (o.stdin || o.file != "")
		if o.stdin && o.file != "" || o.verb != "ask" && (o.stdin || o.file != "") {
			t.Errorf("two messages, or one of nobody: %q", args)
		}
		if !read && len(o.requests) > 0 {
			if again, err := handoff.Check(o.requests); err != nil || fmt.Sprint(again) != fmt.Sprint(o.requests) {
				t.Errorf("%q: %v", args, err)
			}
		}
		asks := o.verb == "ask" || o.verb == "ask-many"
		collects := o.verb == "collect" || o.verb == "abandon"
		if asks != (len(o.requests) > 0) || collects != (len(o.receipts) > 0) || o.verb == "ask" && len(o.requests) != 1 ||
			len(o.receipts) > handoff.MaxRequests || o.verb == "abandon" && len(o.receipts) != 1 {
			t.Errorf("%q: %s", args, o.shown())
		}
		if o.wait.Timeout < time.Millisecond || o.wait.Timeout > 10*time.Minute || o.wait.Lines < 1 || o.wait.Lines > 1000 {
			t.Errorf("%q: %s", args, o.shown())
		}
	})
}

func TestReadMessage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "message")
	for name, text := range map[string]string{"short": "look\r\nat it", "as long as may be": strings.Repeat("x", handoff.MaxMessage), "empty": ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readMessage(path); err != nil || string(got) != text {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	if got, err := readMessage(path); err != nil || len(got) != handoff.MaxMessage+1 {
		t.Errorf("a large one: %d bytes, %v", len(got), err)
	}
	for _, name := range []string{"none", ""} {
		if _, err := readMessage(filepath.Join(dir, name)); fault.Code(err) != "INVALID_ARGUMENT" || strings.Contains(err.Error(), dir) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Records of the older bridge, and names of files, may have what a terminal acts on.
func TestNothingForTheTerminal(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var errs strings.Builder
	p := &Process{Stdout: file, Stderr: &errs}
	text := "a\x1b\x7f\u0080\u009b2J\u009f\u00a0\u1234😀\n"
	if err := encode(p, map[string]string{"text": text}); err != nil {
		t.Fatal(err)
	}
	sayControl(p, "STATE_CORRUPT: "+text)
	printed, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{string(printed), errs.String()} {
		line, found := strings.CutSuffix(s, "\n")
		if !found || strings.ContainsFunc(line, unicode.IsControl) || !strings.Contains(s, `\u009b2J`) || !strings.Contains(s, "\u1234😀") {
			t.Errorf("%q", s)
		}
	}
	var again map[string]string
	if err := json.Unmarshal(printed, &again); err != nil || again["text"] != text {
		t.Errorf("%v, %q", err, again)
	}
}
