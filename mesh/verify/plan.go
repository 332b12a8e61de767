package verify

import (
	"regexp"
	"slices"
	"strings"
)

// A plan names the gate in one line of this form.
var gateLine = regexp.MustCompile(`^Minimum final gate: just ([A-Za-z0-9_-]{1,100})$`)

const gatePrefix = "Minimum final gate:"

// gates are those that can do without a network and other services. No other
// one is run here.
var gates = []string{"check-docs", "check-authority", "check-fast"}

// gate returns the gate that a plan names, or "" if it does not name exactly one.
func gate(plan string) string {
	name := ""
	for line := range strings.Lines(plan) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, gatePrefix) {
			continue
		}
		found := gateLine.FindStringSubmatch(line)
		if found == nil || name != "" {
			return ""
		}
		name = found[1]
	}
	return name
}

func isLocal(gate string) bool { return slices.Contains(gates, gate) }
