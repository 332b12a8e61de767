package verify

import (
	"slices"
	"strings"
)

// A plan names the gate in one line that begins so, with its name behind that.
const (
	gatePrefix = "Minimum final gate:"
	gateLine   = gatePrefix + " just "
	maxGate    = 100 // characters of a name
)

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
		found, ok := strings.CutPrefix(line, gateLine)
		if !ok || name != "" || len(found) > maxGate || !begins(found, alnum+"_-", alnum+"_-") {
			return ""
		}
		name = found
	}
	return name
}

func isLocal(gate string) bool { return slices.Contains(gates, gate) }
