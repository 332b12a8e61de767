package fakeherdr

import (
	"path"
	"slices"
	"strings"
	"time"
)

// A Process is a program in the foreground of a pane.
type Process struct {
	PID  int
	Name string
	Argv []string
	Cwd  string
}

type (
	processRecord struct {
		Argv    []string `json:"argv,omitempty"`
		Cmdline string   `json:"cmdline,omitempty"`
		Cwd     string   `json:"cwd,omitempty"`
		Name    string   `json:"name"`
		PID     int      `json:"pid"`
	}
	processInfo struct {
		Group     int             `json:"foreground_process_group_id,omitempty"`
		Processes []processRecord `json:"foreground_processes,omitempty"`
		PaneID    string          `json:"pane_id"`
		Shell     int             `json:"shell_pid,omitempty"`
	}
	processResult struct {
		Info processInfo `json:"process_info"`
		Type string      `json:"type"`
	}
)

// parseProcessInfo knows --pane only: without it Herdr takes the pane of the
// environment, or the focused one, and nobody should ask it so.
func parseProcessInfo(_ command, args []string) (request, error) {
	switch {
	case len(args) == 0:
		return request{}, usage("fakeherdr wants --pane")
	case args[0] != "--pane":
		return request{}, usage("unknown option: " + args[0])
	case len(args) == 1:
		return request{}, usage("missing value for --pane")
	case len(args) > 2:
		return request{}, usage("unknown option: " + args[2])
	}
	return request{run: func(_ *Scene, w *World, _ time.Time) (any, error) {
		p := w.paneTarget(args[1])
		if p == nil {
			return nil, failure{"pane_not_found", "pane not found"}
		}
		info := processInfo{PaneID: p.ID, Shell: p.Shell}
		for _, q := range p.Foreground { // the first one leads
			info.Processes = append(info.Processes, processRecord{q.Argv, strings.Join(q.Argv, " "), q.Cwd, q.Name, q.PID})
			info.Group = p.Foreground[0].PID
		}
		return processResult{info, "pane_process_info"}, nil
	}}, nil
}

// Of status Herdr keeps the order of the fields, and writes null.
type (
	clientStatus struct {
		Version  string  `json:"version"`
		Channel  string  `json:"channel"`
		Protocol int     `json:"protocol"`
		Binary   string  `json:"binary"`
		Session  *string `json:"session"`
	}
	serverStatus struct {
		Status        string        `json:"status"`
		Running       bool          `json:"running"`
		Version       *string       `json:"version"`
		Protocol      *int          `json:"protocol"`
		Capabilities  *capabilities `json:"capabilities"`
		Compatible    *bool         `json:"compatible"`
		Socket        string        `json:"socket"`
		Session       *string       `json:"session"`
		RestartNeeded bool          `json:"restart_needed"`
	}
	capabilities struct {
		LiveHandoff bool `json:"live_handoff"`
		Detached    bool `json:"detached_server_daemon"`
	}
	updateStatus struct {
		RestartNeeded bool `json:"restart_needed"`
	}
	fullStatus struct {
		Client clientStatus `json:"client"`
		Server serverStatus `json:"server"`
		Update updateStatus `json:"update"`
	}
)

// status is herdr status --json: a server that does not run, or is of another
// protocol, is no failure of this command.
func (c *call) status(session string) int {
	if !slices.Equal(c.args, []string{"status", "--json"}) {
		return c.say(2, "", statusUsage)
	}
	w, err := c.scene.World()
	if err != nil {
		return c.finish("", nil, err)
	}
	version, protocol, yes := w.client(), clientProtocol, true
	if session == "" && c.getenv("HERDR_SOCKET_PATH") == "" {
		session = c.getenv("HERDR_SESSION")
	}
	s := serverStatus{Status: "running", Running: true, Version: &version, Protocol: &protocol, Capabilities: &capabilities{true, true},
		Compatible: &yes, Socket: c.getenv("HERDR_SOCKET_PATH")}
	config := path.Join(c.getenv("HOME"), ".config/herdr")
	switch {
	case session != "":
		s.Socket = path.Join(config, "sessions", session, "herdr.sock")
	case s.Socket == "":
		s.Socket = path.Join(config, "herdr.sock")
	}
	client := clientStatus{version, "stable", clientProtocol, c.scene.Bin(), nil}
	if session != "" {
		client.Session, s.Session = &session, &session
	}
	switch err := c.reach(session).(type) {
	case nil:
	case unreachable:
		if err.Code == "protocol_mismatch" {
			other, older, no := "0.9.0", c.fault.Protocol, false
			if older == 0 {
				older = clientProtocol + 1
			}
			s.Version, s.Protocol, s.Capabilities, s.Compatible, s.RestartNeeded = &other, &older, nil, &no, true
			break
		}
		s = serverStatus{Status: "not_running", Socket: s.Socket, Session: s.Session}
	default:
		return c.end("cli:status", nil, err)
	}
	if err := c.after(); err != nil {
		return c.finish("", nil, err)
	}
	return c.say(0, line(fullStatus{client, s, updateStatus{s.RestartNeeded}}), "")
}

// client is the version of the program itself.
func (w *World) client() string {
	if w.Client != "" {
		return w.Client
	}
	return w.Version + ".0"
}

// The keys of session list are sorted.
type sessionRecord struct {
	Default bool   `json:"default"`
	Name    string `json:"name"`
	Running bool   `json:"running"`
	Dir     string `json:"session_dir"`
	Socket  string `json:"socket_path"`
}

type sessionsResult struct {
	Sessions []sessionRecord `json:"sessions"`
}

// parseSessionList knows --json only. There is the default session, whose server
// is this scene's.
func (c *call) parseSessionList(cmd command, args []string) (request, error) {
	switch {
	case len(args) == 0:
		return request{}, usage("fakeherdr wants --json")
	case !slices.Equal(args, []string{"--json"}):
		return request{}, usage(cmd.usage)
	}
	return request{local: true, run: func(*Scene, *World, time.Time) (any, error) {
		dir := path.Join(c.getenv("HOME"), ".config/herdr")
		socket := path.Join(dir, "herdr.sock")
		return bare{sessionsResult{[]sessionRecord{{true, "default", c.server(socket) == nil, dir, socket}}}}, nil
	}}, nil
}

const statusUsage = `herdr status commands:
  herdr status [--json]         show local client and running server status
  herdr status server [--json]  show running server status
  herdr status client [--json]  show local client binary status
`
