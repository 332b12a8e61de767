package verify

import (
	"strings"
	"testing"
)

func TestGate(t *testing.T) {
	t.Parallel()
	const line = "Minimum final gate: just "
	for plan, want := range map[string]string{
		line + "check-fast\n":          "check-fast",
		"a\n" + line + "check-docs\nb": "check-docs",
		line + "check-fast":            "check-fast",
		line + "No_1":                  "No_1",
		"":                             "",
		line + "\n":                    "",
		" " + line + "check-fast\n":    "",
		line + "check-fast \n":         "",
		line + "check-fast\r\n":        "",
		line + "check fast\n":          "",
		line + "check-fast; rm\n":      "",
		line + "check-fast\n" + line + "check-fast\n":     "",
		line + "check-fast\nMinimum final gate: none\n":   "",
		"Minimum final gate: x\n" + line + "check-fast":   "",
		line + strings.Repeat("a", 101):                   "",
		"minimum final gate: just a\n" + line + "check-x": "check-x",
	} {
		if got := gate(plan); got != want {
			t.Errorf("%q: %q", plan, got)
		}
	}
}
