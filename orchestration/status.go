package orchestration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"herdr-link/herdrcli"
)

// Status is how it stands.
type Status struct {
	Version     string        `json:"version"` // of this program
	ConfigDir   string        `json:"configDir"`
	Installed   bool          `json:"installed"`
	Files       []FileState   `json:"files"`
	Binary      *BinaryState  `json:"binary"` // the program that the plugin runs; null if nothing is installed
	Models      *ModelState   `json:"models"` // null if nothing is installed; a null in it: the active model
	Agents      []AgentState  `json:"agents"`
	OpenCode    OpenCodeState `json:"opencode"`
	Integration *string       `json:"integration"` // what Herdr says of its own integration; null if it cannot be asked
	Conflicts   []string      `json:"conflicts"`
	Hooks       *HooksStatus  `json:"hooks"` // the push policy, as its own command tells it; null if that fails

	policed bool // the shells of these agents shall have the push policy
}

// FileState is ok, modified or missing.
type FileState struct {
	Path  string `json:"path"`
	State string `json:"state"`
}

// BinaryState is about the program that the plugin runs.
type BinaryState struct {
	Path    string  `json:"path"`
	Exists  bool    `json:"exists"`
	Version *string `json:"version"`
}

// ModelState has the models that were written.
type ModelState struct {
	Worker   *string `json:"worker"`
	Reviewer *string `json:"reviewer"`
}

// AgentState says whether files of the user's or the project's have a say in an
// agent, and which.
type AgentState struct {
	Name       string   `json:"name"`
	Overridden bool     `json:"overridden"`
	By         []string `json:"by,omitempty"`
}

// OpenCodeState is about OpenCode.
type OpenCodeState struct {
	Version   string `json:"version,omitempty"`
	Supported bool   `json:"supported"`
}

// Status looks at everything and changes nothing. herdr may be nil.
func (i Installer) Status(ctx context.Context, herdr *herdrcli.Client) Status {
	s := Status{Version: i.Data.Version, ConfigDir: i.Place.Dir, Files: []FileState{}, Conflicts: []string{}}
	complain := func(format string, args ...any) { s.Conflicts = append(s.Conflicts, fmt.Sprintf(format, args...)) }
	var asking sync.WaitGroup
	if i.OpenCode != nil {
		asking.Go(func() {
			s.OpenCode.Version = i.OpenCode.version(ctx)
			s.OpenCode.Supported = supported(s.OpenCode.Version)
		})
	}
	if herdr != nil {
		asking.Go(func() { s.Integration = integration(ctx, herdr) })
	}
	m, err := i.Place.readManifest()
	if err != nil {
		complain("%s: %v", i.Place.path(manifestFile), err)
	}
	if s.Installed = m != nil; s.Installed {
		for _, f := range m.Files {
			s.Files = append(s.Files, FileState{i.Place.path(f.Path), i.Place.state(f)})
		}
		if m.Version != i.Data.Version {
			complain("installed by version %.64q: install renews it", m.Version)
		}
		s.Binary, s.Models, s.policed = i.written(ctx)
	}
	for _, name := range Names() {
		by := i.Settings.overriding(name)
		s.Agents = append(s.Agents, AgentState{name, len(by) > 0, by})
	}
	old, doubles := i.Settings.conflicts()
	for _, path := range old {
		complain("%s names the package %s, which defines the same agents and tool", path, oldPackage)
	}
	for _, path := range doubles {
		complain("%s has an entry with the toolset response, which this plugin stands in for", path)
	}
	asking.Wait()
	return s
}

// OK reports whether everything is as it should be. What a user has set for an
// agent is the user's. Where the push policy shall be, in the shells of these
// agents or in all, its hooks must be there; without a git there is none to push.
func (s Status) OK() bool {
	if h := s.Hooks; s.policed && h == nil || h != nil && (s.policed || h.Active) && h.GitVersion != nil && !h.DigestOK {
		return false
	}
	for _, f := range s.Files {
		if f.State != "ok" {
			return false
		}
	}
	return s.Installed && s.Binary != nil && s.Binary.Version != nil && *s.Binary.Version == s.Version &&
		s.OpenCode.Supported && s.Integration != nil && strings.HasPrefix(*s.Integration, "opencode: current") && len(s.Conflicts) == 0
}

func (p Place) state(f owned) string {
	text, err := p.read(f.Path)
	switch {
	case err == nil && text == nil:
		return "missing"
	case err == nil && sum(text) == f.SHA:
		return "ok"
	}
	return "modified"
}

// written returns what the data file says, and whether it names the hooks of the
// push policy; nil if it cannot be read.
func (i Installer) written(ctx context.Context) (b *BinaryState, models *ModelState, policed bool) {
	var data struct {
		Binary    string
		Models    ModelState
		HooksPath string
	}
	text, err := i.Place.read(dataFile)
	if err != nil || json.Unmarshal(text, &data) != nil || data.Binary == "" {
		return nil, nil, false
	}
	b = &BinaryState{Path: data.Binary}
	if info, err := os.Stat(b.Path); err == nil && info.Mode().IsRegular() {
		b.Exists = true
		out := herdrcli.New(herdrcli.Options{Bin: b.Path, Environ: os.Environ()}).Exec(ctx, 10*time.Second, "version")
		if version, ok := strings.CutPrefix(strings.TrimSpace(string(out.Stdout)), "herdr-link "); ok && out.Err == nil && out.Exit == 0 {
			b.Version = &version
		}
	}
	return b, &data.Models, data.HooksPath != ""
}

// integration is Herdr's line about its integration with OpenCode, without
// which it knows no session of OpenCode's.
func integration(ctx context.Context, herdr *herdrcli.Client) *string {
	out := herdr.Exec(ctx, 0, "integration", "status")
	if out.Err != nil || out.Exit != 0 {
		return nil
	}
	for line := range strings.Lines(string(out.Stdout)) {
		if strings.HasPrefix(line, "opencode:") {
			line = strings.TrimRight(line, "\r\n")
			return &line
		}
	}
	return nil
}
