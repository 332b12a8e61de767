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
	outdated := len(args) == 1 && args[0] == "--outdated-only"
	if len(args) != 0 && !outdated {
		return request{}, usage(cmd.usage)
	}
	return request{local: true, run: func(_ *Scene, w *World, _ time.Time) (any, error) {
		if outdated {
			return w.outdated(), nil
		}
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

// outdated is what the real one, not captured, says with --outdated-only: one
// line on stderr, or nothing.
func (w *World) outdated() notice {
	var all []string
	for line := range strings.Lines(integrations) {
		name, _, _ := strings.Cut(line, " ")
		if strings.HasPrefix(w.Integrations[name], "outdated") {
			all = append(all, "herdr integration install "+name)
		}
	}
	if len(all) == 0 {
		return ""
	}
	last := len(all) - 1
	text := all[last]
	if last > 0 {
		text = strings.Join(all[:last], ", ") + " and " + text
	}
	return notice("installed herdr integrations need updating; run " + text + ".\n")
}
