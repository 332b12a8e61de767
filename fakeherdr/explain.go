package fakeherdr

import (
	"strings"
	"time"
)

// An explanation is how Herdr comes to an agent's state. It is always that of an
// agent that reports its state itself, for which the real one looks at no screen
// either.
type explanation struct {
	Agent               string  `json:"agent"`
	CachedRemoteVersion *string `json:"cached_remote_version"`
	EvaluatedRules      []any   `json:"evaluated_rules"`
	FallbackReason      *string `json:"fallback_reason"`
	LocalOverride       bool    `json:"local_override_shadowing_remote"`
	ManifestSource      *string `json:"manifest_source"`
	ManifestVersion     *string `json:"manifest_version"`
	MatchedRule         *string `json:"matched_rule"`
	RemoteUpdateError   *string `json:"remote_update_error"`
	RemoteUpdateStatus  *string `json:"remote_update_status"`
	SkipReason          string  `json:"screen_detection_skip_reason"`
	ScreenSkipped       bool    `json:"screen_detection_skipped"`
	SkipStateUpdate     bool    `json:"skip_state_update"`
	SkippedUpdateReason *string `json:"skipped_update_reason"`
	State               string  `json:"state"`
	VisibleBlocker      bool    `json:"visible_blocker"`
	VisibleIdle         bool    `json:"visible_idle"`
	VisibleWorking      bool    `json:"visible_working"`
	Warning             *string `json:"warning"`
}

func parseAgentExplain(c command, args []string) (request, error) {
	var targets []string
	var json bool
	known := options{"--json": flag(&json, true), "--format": {set: func(value string) error {
		if json = value == "json"; !json && value != "text" {
			return usage("invalid --format: " + value + " (expected text or json)")
		}
		return nil
	}}}
	for len(args) > 0 { // the target may stand anywhere
		n := 1
		switch {
		case !strings.HasPrefix(args[0], "-"):
			targets = append(targets, args[0])
		default:
			n = min(len(args), known.size(args[0]))
			if err := known.parse(args[:n]); err != nil {
				return request{}, err
			}
		}
		args = args[n:]
	}
	switch len(targets) {
	case 0:
		return request{}, usage(c.usage + "\nusage: herdr agent explain --file PATH --agent LABEL [--json]")
	case 1:
	default:
		return request{}, usage(c.usage)
	}
	return request{run: func(_ *Scene, w *World, now time.Time) (any, error) {
		p, err := w.agent(targets[0], now)
		if err != nil {
			return nil, err
		}
		if !knownKind(p.Agent.Kind) {
			return nil, failure{"agent_explain_unavailable", "agent target " + targets[0] + " does not have a detected agent label"}
		}
		e := explain(p.Agent)
		if json {
			return bare{e}, nil
		}
		return plain(e.String()), nil
	}}, nil
}

func explain(a *Agent) explanation {
	e := explanation{
		Agent:          a.Kind,
		EvaluatedRules: []any{}, // [], not null
		SkipReason:     "full_lifecycle_hook_authority",
		ScreenSkipped:  true,
		State:          a.Status,
	}
	if a.Status == Done { // only a tab that nobody has looked at makes it more than idle
		e.State = Idle
	}
	return e
}

func (e explanation) String() string {
	return "agent: " + e.Agent + "\nstate: " + e.State + "\nmanifest: none unknown\nrule: none\nscreen_detection_skip_reason: " + e.SkipReason + "\n"
}
