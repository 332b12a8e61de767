// Package orchestration sets OpenCode up for work that several agents share:
// six agent definitions, and one plugin that brings them, and the tool with
// which the two leading ones read the others' answers, into OpenCode. It
// installs, removes and reports on these files, and presses the one key that a
// leader may press in a worker's terminal.
//
// It edits no file of the user's, and starts or stops neither OpenCode nor Herdr
// (it asks both a question, as a user could). What the tool answers is package
// response's business.
package orchestration

import (
	"encoding/json"
	"strings"
)

// Where the files go, from OpenCode's configuration folder on, with slashes.
const (
	pluginFile   = "plugins/herdr-link-orchestration.js" // OpenCode finds it there
	dataFile     = "herdr-link/orchestration.json"
	manifestFile = "herdr-link/manifest.json"
)

// A Tool is herdr_agent_response as the plugin offers it.
type Tool struct {
	Description string
	// Properties is the JSON object of the arguments' schemas by their names.
	Properties json.RawMessage
}

// Models are those of the workers and the reviewers, as "provider/model". ""
// leaves it to OpenCode.
type Models struct{ Worker, Reviewer string }

// Data is what the plugin reads when OpenCode starts.
type Data struct {
	Program string // absolute path of herdr-link
	Version string
	// Hooks is the folder of the push policy, which the shells of these agents
	// get as core.hooksPath; "": they do not.
	Hooks      string
	Models     Models
	AllowTools []string // more tools for shepherd-build
	Tool       Tool
}

// encode makes the text of the data file. Its rules keep their order.
func (d Data) encode() ([]byte, error) {
	agents, modes := object{}, object{}
	for _, a := range agentTable(d.AllowTools) {
		agents = append(agents, member{a.name, a.definition(d.Models)})
		modes = append(modes, member{a.name, a.mode})
	}
	return encode(object{
		{"version", d.Version},
		{"binary", d.Program},
		{"hooksPath", orNull(d.Hooks)},
		{"models", object{{"worker", orNull(d.Models.Worker)}, {"reviewer", orNull(d.Models.Reviewer)}}},
		{"tool", object{{"description", d.Tool.Description}, {"args", d.Tool.Properties}}},
		{"modes", modes},
		{"agents", agents},
	})
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// IsModel reports whether s names a model of a provider.
func IsModel(s string) bool {
	provider, model, ok := strings.Cut(s, "/")
	return ok && provider != "" && model != "" && len(s) <= 256 && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) < 0
}
