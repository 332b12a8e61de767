package orchestration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"herdr-link/herdrcli"
)

const (
	// askTime is how long OpenCode may take to answer one question.
	askTime = 30 * time.Second
	// firstTime is how long it may take the first time: with any plugin, it
	// installs a package of its own at its next start, or waits for the network.
	firstTime = 3 * time.Minute
)

// OpenCode is the program, to be asked.
type OpenCode struct{ run *herdrcli.Client }

// FindOpenCode looks for it on that PATH; nil if it is not there. environ is
// what it gets, with dir as its configuration folder; "" leaves it to OpenCode.
// A project's files, which may run programs, are left out.
func FindOpenCode(path, dir string, environ []string) *OpenCode {
	bin, err := herdrcli.Find(path, "opencode")
	if err != nil {
		return nil
	}
	environ = append(slices.Clone(environ), "OPENCODE_DISABLE_PROJECT_CONFIG=1")
	if dir != "" {
		environ = append(environ, "OPENCODE_CONFIG_DIR="+dir)
	}
	return &OpenCode{herdrcli.New(herdrcli.Options{Bin: bin, Environ: environ})}
}

// ask runs it and returns what it printed.
func (o *OpenCode) ask(ctx context.Context, patience time.Duration, args ...string) ([]byte, error) {
	out := o.run.Exec(ctx, patience, args...)
	switch {
	case errors.Is(out.Err, herdrcli.ErrTimeout):
		return nil, fmt.Errorf("opencode %s took longer than %v", strings.Join(args, " "), patience)
	case errors.Is(out.Err, herdrcli.ErrBinary):
		return nil, errors.New("opencode cannot be run")
	case out.Err != nil:
		return nil, out.Err
	case out.Exit != 0:
		return nil, fmt.Errorf("opencode %s failed: %s", strings.Join(args, " "), brief(out.Stderr))
	}
	return out.Stdout, nil
}

// brief makes one short line of what a program said, without anything that a
// terminal would take for a command.
func brief(text []byte) string {
	s := strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(text), "?"))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	if s == "" {
		return "it says nothing"
	}
	return s
}

// check asks it for each of the six.
func (o *OpenCode) check(ctx context.Context) error {
	patience := firstTime
	for _, name := range Names() {
		text, err := o.ask(ctx, patience, "debug", "agent", name)
		if err != nil {
			return err
		}
		patience = askTime
		var got struct{ Name, Mode string }
		if i := bytes.IndexByte(text, '{'); i < 0 || json.Unmarshal(text[i:], &got) != nil {
			return fmt.Errorf("opencode does not show the agent %s", name)
		}
		if got.Name != name || got.Mode != "primary" {
			return fmt.Errorf("opencode has the agent %s as %.64q with mode %.64q, not primary", name, got.Name, got.Mode)
		}
	}
	return nil
}

// lists reports whether OpenCode can use that model.
func (o *OpenCode) lists(ctx context.Context, model string) bool {
	provider, _, _ := strings.Cut(model, "/")
	text, err := o.ask(ctx, askTime, "models", provider)
	return err == nil && slices.Contains(strings.Fields(string(text)), model)
}

// version returns its version, or "".
func (o *OpenCode) version(ctx context.Context) string {
	text, err := o.ask(ctx, askTime, "--version")
	if v := strings.TrimSpace(string(text)); err == nil && len(v) <= 64 && isVersion(v) {
		return v
	}
	return ""
}

// OpenCode 1 is supported from 1.14.49 on: plugins of older versions cannot
// describe the arguments of their tools as plain schemas, and version 2 has
// another form of configuration.
const (
	majorVersion           = 1
	minMinor, minMinorsFix = 14, 49
)

// supported reports whether a version of OpenCode is one of those.
func supported(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 {
		return false
	}
	var n [3]int
	for i, part := range parts {
		var err error
		if n[i], err = strconv.Atoi(leadingDigits(part)); err != nil {
			return false
		}
	}
	return n[0] == majorVersion && (n[1] > minMinor || n[1] == minMinor && n[2] >= minMinorsFix)
}

func isVersion(s string) bool { return leadingDigits(s) != "" && strings.Count(s, ".") >= 2 }

func leadingDigits(s string) string { return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))] }
