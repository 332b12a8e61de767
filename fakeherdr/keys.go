package fakeherdr

import (
	"slices"
	"strings"
	"time"
)

// parseAgentSendKeys only answers: what a key does in a terminal is not played,
// but the journal has it.
func parseAgentSendKeys(c command, args []string) (request, error) {
	if len(args) < 2 {
		return request{}, usage(c.usage)
	}
	target, keys := args[0], args[1:]
	return request{run: func(_ *Scene, w *World, now time.Time) (any, error) {
		p, err := w.agent(target, now)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if !knownKey(key) {
				return nil, failure{"invalid_key", "unsupported key " + key}
			}
		}
		known := slices.Contains(strings.Split(kinds, "|"), p.Agent.Kind)
		if p.Agent.LaunchPending || !known {
			return nil, failure{"agent_not_ready", "agent " + target + " is not an active named agent"}
		}
		return okResult{"ok"}, nil
	}}, nil
}

// knownKey knows the keys of the captures, and those with ctrl.
func knownKey(key string) bool {
	letter, ctrl := strings.CutPrefix(key, "ctrl+")
	return ctrl && len(letter) == 1 || slices.Contains([]string{"enter", "left", "right"}, key)
}
