package herdrcli

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// A Status is what herdr says of itself and of its server. What is not known,
// or has no server to know it, is zero.
type Status struct {
	Client struct {
		Version  string
		Protocol int
	}
	Server struct {
		Running  bool
		Version  string
		Protocol int
		// Compatible is nil if the server did not tell its protocol.
		Compatible    *bool
		RestartNeeded *bool `json:"restart_needed"`
		Socket        string
		Session       string
	}
}

// MinVersion is the oldest herdr whose commands are those that are known here: the
// first with agent prompt, and start and waits as they are now. (control.md §11)
const MinVersion = "0.7.5"

// Supported reports whether a version is MinVersion or a newer one.
func Supported(numbers [3]int) bool {
	least, _ := ParseVersion(MinVersion)
	return slices.Compare(numbers[:], least[:]) >= 0
}

// ParseVersion reads the three numbers of a version such as 0.8.0 or
// 0.9.0-preview.2.
func ParseVersion(version string) (numbers [3]int, ok bool) {
	core, _, _ := strings.Cut(version, "-")
	core, _, _ = strings.Cut(core, "+")
	parts := strings.Split(core, ".")
	if len(parts) != len(numbers) {
		return numbers, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return numbers, false
		}
		numbers[i] = int(n)
	}
	return numbers, true
}

// An Integration is a line of what `herdr integration status` prints.
type Integration struct {
	Name  string
	State string // not installed, current (v8), outdated (v7 < v8), legacy
	Path  string // "" if the line has none
}

// Integrations reads lines such as "pi: current (v8) (/path)". Others are passed
// over.
func Integrations(text string) (all []Integration) {
	for line := range strings.Lines(text) {
		name, state, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}
		i := Integration{Name: name, State: state}
		if at := pathAt(state); at >= 0 {
			i.State, i.Path = state[:at], strings.TrimSuffix(state[at+len(" ("):], ")")
		}
		all = append(all, i)
	}
	return all
}

// pathAt returns where " (/path)" or " (C:\path)" begins, or -1: a version stands
// in such brackets, too.
func pathAt(state string) int {
	for i := range len(state) - 3 {
		if rest := state[i:]; strings.HasPrefix(rest, " (/") || strings.HasPrefix(rest, " (") && rest[3] == ':' {
			return i
		}
	}
	return -1
}

// Processes is what Herdr knows of the processes in a pane. Ids are those of
// the system, 0 where Herdr has none.
type Processes struct {
	Pane       string    `json:"pane_id"`
	Shell      int       `json:"shell_pid"`
	Group      int       `json:"foreground_process_group_id"` // also the id of its leader
	Foreground []Process `json:"foreground_processes"`
}

// A Process is a member of the pane's foreground process group.
type Process struct {
	PID  int
	Name string
}

// maxVersion is more than any version has, in bytes.
const maxVersion = 64

// Version returns the version of the program, such as 0.8.0. No server is
// needed for it.
func (c *Client) Version(ctx context.Context) (version string, err error) {
	err = c.run(ctx, func(stdout []byte) bool {
		rest, ok := strings.CutPrefix(strings.TrimSpace(string(stdout)), "herdr ")
		version = rest
		return ok && rest != "" && len(rest) <= maxVersion && !strings.ContainsAny(rest, " \t\r\n")
	}, "--version", 0)
	if err != nil {
		return "", err
	}
	return version, nil
}

// Status returns how it is with the program and its server. A server that does
// not run, or speaks another protocol, is no error.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	err = c.run(ctx, func(stdout []byte) bool {
		return json.Unmarshal(stdout, &s) == nil && s.Client.Version != ""
	}, "status --json", 0)
	if err != nil {
		return Status{}, err
	}
	return s, nil
}

// PaneProcesses returns the processes of a pane; an id from before a move will
// do, and the answer has the current one. Herdr's code for none: pane_not_found.
func (c *Client) PaneProcesses(ctx context.Context, pane string) (Processes, error) {
	const command = "pane process-info --pane"
	if optional(pane) {
		return Processes{}, &Error{Command: command, Exit: -1, Err: ErrOutput}
	}
	var a struct {
		Result struct {
			Type string
			Info Processes `json:"process_info"`
		}
	}
	err := c.run(ctx, func(stdout []byte) bool {
		return json.Unmarshal(stdout, &a) == nil && a.Result.Type == "pane_process_info" && a.Result.Info.Pane != ""
	}, command, 0, pane)
	if err != nil {
		return Processes{}, err
	}
	return a.Result.Info, nil
}
