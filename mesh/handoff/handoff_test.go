package handoff

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"herdr-link/herdrcli"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/store"
)

func TestCheckMessage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want, code string }{
		{"look at it", "look at it", ""},
		{"a\tb\nc", "a\tb\nc", ""},
		{"a\r\nb\r\n", "a\nb\n", ""},
		{"ä \u00a0\u2028\U0001F600", "ä \u00a0\u2028\U0001F600", ""},
		{"--sessions", "--sessions", ""},
		{"-x", "-x", ""},
		{strings.Repeat("x", MaxMessage), strings.Repeat("x", MaxMessage), ""},
		{strings.Repeat("\r\n", MaxMessage), strings.Repeat("\n", MaxMessage), ""}, // as it is sent
		{"", "", "INVALID_ARGUMENT"},
		{strings.Repeat("x", MaxMessage+1), "", "MESSAGE_TOO_LARGE"},
		{strings.Repeat("ä", MaxMessage/2) + "x", "", "MESSAGE_TOO_LARGE"},
		{"a\rb", "", "MESSAGE_FORBIDDEN_BYTES"},
		{"a\r\r\n", "", "MESSAGE_FORBIDDEN_BYTES"},
		{"\x00", "", "MESSAGE_FORBIDDEN_BYTES"},
		{"a\x1b[201~\rb", "", "MESSAGE_FORBIDDEN_BYTES"},
		{"a\x1f", "", "MESSAGE_FORBIDDEN_BYTES"},
		{"a\x7f", "", "MESSAGE_FORBIDDEN_BYTES"},
		{"a\u0080", "", "MESSAGE_FORBIDDEN_BYTES"},
		{"a\u009b201~", "", "MESSAGE_FORBIDDEN_BYTES"},
		{"a\u009f", "", "MESSAGE_FORBIDDEN_BYTES"},
		{"a\xffb", "", "MESSAGE_FORBIDDEN_BYTES"},
		{"--session", "", "INVALID_ARGUMENT"},
		{"--session=x", "", "INVALID_ARGUMENT"},
		{"--remote", "", "INVALID_ARGUMENT"},
		{"--remote-keybindings=x", "", "INVALID_ARGUMENT"},
	} {
		got, err := checkMessage(test.text)
		if got != test.want || fault.Code(err) != test.code {
			t.Errorf("%.40q: %.40q, %v", test.text, got, err)
		}
		if n := len(test.text); err != nil && n > 3 && strings.Contains(err.Error(), test.text) && !strings.HasPrefix(test.text, "--") {
			t.Errorf("%.40q is in %v", test.text, err)
		}
	}
}

// Whatever passes reaches a terminal as text and not as keys, and as one argument.
func FuzzCheckMessage(f *testing.F) {
	for _, text := range []string{"look at it", "a\r\nb", "\x1b[201~\r", "\u009b", "--session=x", "\r", "\xff", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := checkMessage(text)
		if err != nil {
			if got != "" || fault.Code(err) == "" {
				t.Errorf("%q, %v", got, err)
			}
			return
		}
		if got == "" || len(got) > MaxMessage || !utf8.ValidString(got) || strings.ReplaceAll(text, "\r\n", "\n") != got || herdrcli.Reserved(got) {
			t.Errorf("%q became %q", text, got)
		}
		for _, r := range got {
			if r != '\t' && r != '\n' && (r < 0x20 || r >= 0x7F && r < 0xA0) {
				t.Errorf("%q has %U", got, r)
			}
		}
		if again, err := checkMessage(got); again != got || err != nil {
			t.Errorf("%q became %q, %v", got, again, err)
		}
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	many := func(n int) (all []Request) {
		for i := range n {
			all = append(all, Request{fmt.Sprintf("agent%d", i), "x\r\n"})
		}
		return all
	}
	for name, test := range map[string]struct {
		requests []Request
		code     string
	}{
		"one":             {many(1), ""},
		"eight":           {many(MaxRequests), ""},
		"none":            {nil, "INVALID_ARGUMENT"},
		"nine":            {many(MaxRequests + 1), "INVALID_ARGUMENT"},
		"twice the same":  {append(many(2), Request{"agent0", "y"}), "INVALID_ARGUMENT"},
		"a pane":          {[]Request{{"w1:p1", "x"}}, "INVALID_ARGUMENT"},
		"no name":         {[]Request{{"", "x"}}, "INVALID_ARGUMENT"},
		"a bad last one":  {append(many(2), Request{"x", "\x1b"}), "MESSAGE_FORBIDDEN_BYTES"},
		"an option":       {[]Request{{"--session", "x"}}, "INVALID_ARGUMENT"},
		"a large message": {[]Request{{"x", strings.Repeat("x", MaxMessage+1)}}, "MESSAGE_TOO_LARGE"},
	} {
		got, err := Check(test.requests)
		if fault.Code(err) != test.code || (err == nil) != (len(got) == len(test.requests) && got != nil) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if name == "a bad last one" { // of several messages, the one that is meant
			var f *fault.Fault
			if !errors.As(err, &f) || f.Details["target"] != "x" || !strings.HasPrefix(f.Message, "x: ") {
				t.Errorf("%s: %v", name, err)
			}
		}
		for i, q := range got {
			if q.Target != test.requests[i].Target || q.Message != "x\n" || test.requests[i].Message != "x\r\n" {
				t.Errorf("%s: %+v", name, q)
			}
		}
	}
}

const someID = "0f9d2c7e-3b1a-4c5d-8e6f-001122334455"

func TestParseToken(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		store.TokenPrefix + someID:                     someID,
		strings.ToUpper(store.TokenPrefix + someID):    someID,
		"Herdr-Receipt-V1." + someID:                   someID,
		token(someID):                                  someID,
		someID:                                         "",
		"":                                             "",
		store.TokenPrefix:                              "",
		store.TokenPrefix + someID + "0":               "",
		store.TokenPrefix + someID[1:]:                 "",
		" " + store.TokenPrefix + someID:               "",
		store.TokenPrefix + someID + "\n":              "",
		"herdr-receipt-v2." + someID:                   "",
		store.TokenPrefix + store.TokenPrefix + someID: "",
		store.TokenPrefix + "../../../../etc/passwd-and-some-more": "",
		"herdr-rece\u0130pt-v1." + someID:                          "", // its small letter is an i
	} {
		id, err := parseToken(text)
		if id != want || (err == nil) != (want != "") || err != nil && fault.Code(err) != "RECEIPT_INVALID" || IsToken(text) != (err == nil) {
			t.Errorf("%q: %q, %v", text, id, err)
		}
	}
}

// An id names one file and nothing else.
func FuzzParseToken(f *testing.F) {
	for _, text := range []string{store.TokenPrefix + someID, strings.ToUpper(store.TokenPrefix + someID), someID, store.TokenPrefix + "..", "herdr-rece\u0130pt-v1." + someID} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := parseToken(text)
		if err != nil {
			if id != "" || fault.Code(err) != "RECEIPT_INVALID" {
				t.Errorf("%q: %q, %v", text, id, err)
			}
			return
		}
		if len(id) != 36 || strings.Trim(id, "0123456789abcdef-") != "" || len(text) != len(store.TokenPrefix)+36 || !strings.EqualFold(text, token(id)) {
			t.Errorf("%q became %q", text, id)
		}
		if again, err := parseToken(token(id)); again != id || err != nil {
			t.Errorf("%q became %q, %v", id, again, err)
		}
	})
}

// mesh.md §4.4, 7.
func TestNever(t *testing.T) {
	t.Parallel()
	refused := func(code string) error {
		return &herdrcli.Error{Command: "agent prompt", Code: code, Exit: 1, Started: true, Err: herdrcli.ErrRefused}
	}
	for _, code := range []string{"empty_agent_prompt", "agent_not_found", "agent_not_ready", "agent_blocked", "agent_launch_pending",
		"agent_target_ambiguous", "server_not_running", "protocol_mismatch"} {
		if !never(fmt.Errorf("around: %w", refused(code))) {
			t.Errorf("%s may have typed", code)
		}
	}
	ended := func(started bool, exit int, err error) error {
		return &herdrcli.Error{Command: "agent prompt", Exit: exit, Started: started, Err: err}
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"another code":      {refused("weather"), false},
		"time-out":          {refused("timeout"), false},
		"no such program":   {ended(false, -1, herdrcli.ErrNotFound), true},
		"too long":          {ended(false, -1, herdrcli.ErrTooLong), true},
		"a word of Herdr's": {ended(false, -1, herdrcli.ErrReserved), true},
		"cancelled before":  {ended(false, -1, context.Canceled), true},
		"cancelled":         {ended(true, -1, context.Canceled), false},
		"killed":            {ended(true, -1, herdrcli.ErrTimeout), false},
		"usage":             {ended(true, 2, herdrcli.ErrOutput), true},
		"exit 1":            {ended(true, 1, herdrcli.ErrOutput), false},
		"odd output":        {ended(true, 0, herdrcli.ErrOutput), false},
		"a stranger":        {errors.New("x"), false},
	} {
		if never(test.err) != test.want {
			t.Errorf("%s: %v", name, !test.want)
		}
	}
}
