package control

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"herdr-link/herdrcli"
	"herdr-link/mcp"
)

// A diagnosis is what herdr_doctor returns as data (control.md §9).
type diagnosis struct {
	Checks []check `json:"checks"`
	Herdr  struct {
		Version        string `json:"version,omitempty"`
		ClientProtocol int    `json:"clientProtocol,omitempty"`
		ServerProtocol int    `json:"serverProtocol,omitempty"`
		Running        bool   `json:"running"`
		Compatible     *bool  `json:"compatible,omitempty"`
		RestartNeeded  *bool  `json:"restartNeeded,omitempty"`
		Socket         string `json:"socket,omitempty"`
		Session        string `json:"session,omitempty"`
	} `json:"herdr"`
	Pane struct {
		InHerdr     bool   `json:"inHerdr"`
		PaneID      string `json:"paneId,omitempty"`
		WorkspaceID string `json:"workspaceId,omitempty"`
	} `json:"pane"`
	Integrations []integration `json:"integrations"`
	Link         struct {
		Version         string   `json:"version"`
		Toolsets        []string `json:"toolsets"`
		PreviewRequired bool     `json:"previewRequired"`
		CLITimeoutMs    int64    `json:"cliTimeoutMs,omitempty"`
	} `json:"link"`
}

type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
}

type integration struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// doctor makes the three runs of herdr_doctor and judges what they print.
func (c *Control) doctor(ctx context.Context) *result {
	t := &tool{name: "herdr_doctor", command: "status", output: printsJSON}
	var version, state, list herdrcli.Outcome
	var wait sync.WaitGroup
	wait.Go(func() { version = c.Herdr.Exec(ctx, c.Timeout, "--version") })
	wait.Go(func() { list = c.Herdr.Exec(ctx, c.Timeout, "integration", "status") })
	state = c.Herdr.Exec(ctx, c.Timeout, "status", "--json")
	wait.Wait()

	r := read(t, state, "")
	var s herdrcli.Status
	known := r.OK && json.Unmarshal(r.Data, &s) == nil && s.Client.Protocol != 0
	d := &diagnosis{Integrations: integrations(list)}
	fail := func(name, code, detail string) { d.Checks = append(d.Checks, check{name, false, code, detail}) }
	pass := func(name, detail string) { d.Checks = append(d.Checks, check{name, true, "", detail}) }

	if first := read(t, version, ""); version.Err != nil {
		fail("binary", first.ErrorCode, first.Message)
	} else if path, err := c.Herdr.Binary(); err == nil {
		pass("binary", path)
	}
	d.Herdr.Version = strings.TrimPrefix(strings.TrimSpace(clean(version.Stdout)), "herdr ")
	switch numbers, ok := herdrcli.ParseVersion(d.Herdr.Version); {
	case version.Err != nil || version.Exit != 0 || !ok:
		d.Herdr.Version = ""
		fail("version", "unparsable_output", "herdr --version does not tell a version")
	case !herdrcli.Supported(numbers):
		fail("version", "usage_error", "herdr "+d.Herdr.Version+" is older than "+herdrcli.MinVersion+": some tools do not work with it")
	default:
		pass("version", d.Herdr.Version)
	}
	switch {
	case !known && r.OK:
		fail("server", "unparsable_output", "herdr status --json does not print the JSON expected")
	case !known:
		fail("server", r.ErrorCode, r.Message)
	case !s.Server.Running:
		fail("server", "server_not_running", "no Herdr server runs: start herdr in a terminal")
	default:
		pass("server", s.Server.Socket)
	}
	switch {
	case !known || !s.Server.Running:
		fail("protocol", "server_not_running", "there is no server to compare with")
	case s.Server.Compatible != nil && !*s.Server.Compatible,
		s.Server.Compatible == nil && s.Server.Protocol != 0 && s.Server.Protocol != s.Client.Protocol:
		fail("protocol", "protocol_mismatch", "the herdr program and the running server do not match: restart Herdr")
	default:
		pass("protocol", strconv.Itoa(s.Client.Protocol))
	}
	if d.Pane.PaneID = c.pane; c.pane == "" {
		fail("pane", "not_in_herdr", "HERDR_PANE_ID is not set")
	} else {
		pass("pane", c.pane)
	}
	d.Pane.InHerdr = c.Getenv("HERDR_ENV") == "1" && c.pane != ""
	if w := c.Getenv("HERDR_WORKSPACE_ID"); herdrcli.IsWorkspace(w) {
		d.Pane.WorkspaceID = w // as it was when the process started
	}
	d.Herdr.ClientProtocol, d.Herdr.ServerProtocol = s.Client.Protocol, s.Server.Protocol
	d.Herdr.Running, d.Herdr.Compatible, d.Herdr.RestartNeeded = s.Server.Running, s.Server.Compatible, s.Server.RestartNeeded
	d.Herdr.Socket, d.Herdr.Session = s.Server.Socket, s.Server.Session
	d.Link.Version, d.Link.Toolsets, d.Link.PreviewRequired = c.Version, c.Toolsets, c.PreviewRequired
	d.Link.CLITimeoutMs = c.Ceiling.Milliseconds()

	r.OK, r.ErrorCode, r.Message, r.Stdout = true, "", "", nil
	for _, ch := range d.Checks {
		if !ch.OK && ch.Name != "pane" {
			r.OK, r.ErrorCode, r.Message = false, ch.Code, shorten(ch.Detail)
			break
		}
	}
	r.Data = mcp.Marshal(d)
	c.record(t, state.Took, r)
	return r
}

// integrations are those that herdr lists, without their paths.
func integrations(out herdrcli.Outcome) []integration {
	all := []integration{}
	if out.Err != nil || out.Exit != 0 {
		return all
	}
	for _, i := range herdrcli.Integrations(clean(out.Stdout)) {
		all = append(all, integration{i.Name, i.State})
	}
	return all
}
