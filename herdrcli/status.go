package herdrcli

import (
	"context"
	"encoding/json"
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
		Compatible *bool
		Socket     string
	}
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
	if strings.HasPrefix(pane, "-") { // Herdr would take it for an option
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
