package disk

import (
	"strings"
	"testing"
)

func TestID(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		id := NewID()
		if !IsID(id) || id[14] != '4' || !strings.Contains("89ab", id[19:20]) || id != strings.ToLower(id) || seen[id] {
			t.Fatalf("%q", id)
		}
		seen[id] = true
	}
	for id, want := range map[string]bool{
		"": false, "0f9d2c7e-3b1a-4c5d-8e6f-001122334455": true, "0F9D2C7E-3B1A-1C5D-0E6F-001122334455": true,
		"0f9d2c7e-3b1a-4c5d-8e6f-00112233445": false, "0f9d2c7e-3b1a-4c5d-8e6f-0011223344556": false,
		"0f9d2c7e03b1a-4c5d-8e6f-001122334455": false, "0f9d2c7e-3b1a-4c5d-8e6f-00112233445g": false, "0f9d2c7e-3b1a-4c5d-8e6f-0011-2334455": false,
	} {
		if IsID(id) != want {
			t.Errorf("IsID(%q)", id)
		}
	}
}
