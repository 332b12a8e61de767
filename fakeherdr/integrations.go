package fakeherdr

import (
	"path"
	"strings"
	"time"
)

// integrations are the agents that Herdr has a hook for, in its order, each with
// the file of the hook below the home directory.
const integrations = `pi .pi/agent/extensions/herdr-agent-state.ts
omp .omp/agent/extensions/herdr-omp-agent-state.ts
claude .claude/hooks/herdr-agent-state.sh
codex .codex/herdr-agent-state.sh
copilot .copilot/hooks/herdr-agent-state.sh
devin .config/devin/herdr-agent-state.sh
droid .factory/hooks/herdr-agent-state.sh
kimi .kimi-code/hooks/herdr-agent-state.sh
opencode .config/opencode/plugins/herdr-agent-state.js
kilo .config/kilo/plugin/herdr-agent-state.js
hermes .hermes/plugins/herdr-agent-state/__init__.py
qodercli .qoder/hooks/herdr-agent-state.sh
cursor .cursor/herdr-agent-state.sh
mastracode .mastracode/hooks/herdr-agent-state.sh
antigravity-cli .gemini/config/hooks/herdr-agent-state.sh
grok .grok/hooks/herdr-agent-state.sh
`

func (c *call) parseIntegrationStatus(cmd command, args []string) (request, error) {
	if len(args) != 0 {
		return request{}, usage(cmd.usage)
	}
	return request{local: true, run: func(_ *Scene, w *World, _ time.Time) (any, error) {
		var b strings.Builder
		for line := range strings.Lines(integrations) {
			name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
			state := w.Integrations[name]
			if state == "" {
				state = "not installed"
			}
			b.WriteString(name + ": " + state + " (" + path.Join(c.getenv("HOME"), file) + ")\n")
		}
		return plain(b.String()), nil
	}}, nil
}
