package link

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"herdr-link/contract"
)

// faultTable is the table faults as PROTOCOL.md has it.
func faultTable() string {
	var b strings.Builder
	b.WriteString("| cause | Herdr's code | code | reason |\n|---|---|---|---|\n")
	for _, r := range faults {
		herdr := "–"
		if r.herdr != "" {
			herdr = "`" + r.herdr + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s |\n", r.text, herdr, r.Code, strings.ReplaceAll(r.Reason, "%d", "N"))
	}
	return b.String()
}

// PROTOCOL.md and the program say the same: the table of errors and the texts
// that models read. On failure, this prints what the document should have.
func TestProtocolErrors(t *testing.T) {
	if sizeUnit != "bytes" {
		t.Skip("PROTOCOL.md has the reasons of Unix")
	}
	data, err := os.ReadFile("../PROTOCOL.md")
	if err != nil {
		t.Error(err)
	}
	document := strings.ReplaceAll(string(data), "\r\n", "\n")

	want := faultTable()
	if got, ok := between(document, "faults"); !ok || strings.Trim(got, "\n") != strings.Trim(want, "\n") {
		t.Errorf("between <!-- faults --> and <!-- /faults --> PROTOCOL.md must have\n%s", want)
	}
	for mark, texts := range map[string][]string{
		"contract": {contract.Rules, contract.Fallback},
		"no-close": {contract.FallbackNoClose},
		"hint":     {contract.Hint},
	} {
		got, ok := between(document, mark)
		if !ok || !slices.Equal(codeBlocks(got), texts) {
			t.Errorf("between <!-- %[1]s --> and <!-- /%[1]s --> PROTOCOL.md must have these code blocks, and no others:\n```\n%[2]s```",
				mark, strings.Join(texts, "```\n\n```\n"))
		}
	}
}

// between returns the lines of a section with that mark.
func between(document, mark string) (section string, ok bool) {
	_, rest, ok := strings.Cut(document, "<!-- "+mark+" -->\n")
	section, _, closed := strings.Cut(rest, "<!-- /"+mark+" -->\n")
	return section, ok && closed
}

// codeBlocks returns what stands between lines of three backticks.
func codeBlocks(text string) (blocks []string) {
	var block *strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case !strings.HasPrefix(line, "```"):
			if block != nil {
				block.WriteString(line)
			}
		case block == nil:
			block = new(strings.Builder)
		default:
			blocks = append(blocks, block.String())
			block = nil
		}
	}
	return blocks
}

// Models read the contract in full each time: it has to stay short.
func TestContractBudget(t *testing.T) {
	t.Parallel()
	if n := len(contract.Rules); n > 1150 {
		t.Errorf("the rules have %d bytes", n)
	}
	if n := len(fullContract()); n > 1500 {
		t.Errorf("the contract has %d bytes", n)
	}
	rules := strings.Split(strings.TrimSuffix(contract.Rules, "\n"), "\n")
	if len(rules) != 8 {
		t.Errorf("%d rules", len(rules))
	}
	for i, rule := range rules {
		if !strings.HasPrefix(rule, fmt.Sprintf("%d. ", i+1)) {
			t.Errorf("rule %d: %s", i+1, rule)
		}
	}
	hint := contract.Hint
	if strings.Count(hint, "\n") != 1 || !strings.HasPrefix(hint, "herdr_link") || !strings.Contains(hint, "[herdr-link/1]") {
		t.Errorf("the hint: %q", hint)
	}
	if strings.Count(contract.Fallback, "\n") != 2 {
		t.Errorf("the fallback: %q", contract.Fallback)
	}
}

// fullContract is what a gateway that closes tells.
func fullContract() string { return contract.Rules + contract.Fallback }

// A gateway that does not close tells nobody to close through it.
func TestContractWithoutClose(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"eager": {Eager: true}, "no-gateway-close": {NoGatewayClose: true}} {
		o.Getenv = func(string) string { return "" }
		if text := New(o).Contract(); strings.Contains(text, `"close"`) || !strings.HasPrefix(text, contract.Rules) {
			t.Errorf("%s: %s", name, text)
		}
	}
}
