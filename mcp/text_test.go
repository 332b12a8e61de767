package mcp

import (
	"strings"
	"testing"
)

func TestMarshal(t *testing.T) {
	if got := string(Marshal(map[string]any{"a": "<&>é\n", "b": []int{1}})); got != `{"a":"<&>é\n","b":[1]}` {
		t.Error(got)
	}
}

func TestLines(t *testing.T) {
	if got := Lines([]byte(`{"a":[9007199254740993],"b":"<"}`)); got != "{\n  \"a\": [\n    9007199254740993\n  ],\n  \"b\": \"<\"\n}" {
		t.Error(got)
	}
}

// Nothing that is nested makes more of itself than it is.
func TestLayout(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{`{}`: 1, `[[],{"a":[1,"]]]"]}]`: 3, `"[[["`: 0, `"\\"`: 0, `["\"[["]`: 1, `7`: 0} {
		if got := Depth([]byte(text)); got != want {
			t.Errorf("%s: %d", text, got)
		}
	}
	for _, text := range []string{`{"a":[1,2,{"b":"c,}]"}],"d":{}}`, `[1,2]`, `{"a":{"b":{"c":[[[1]]]}}}`} {
		_, blank := layout([]byte(text))
		if added := len(Lines([]byte(text))) - len(text); added < blank/2 || added > blank {
			t.Errorf("%s: %d bytes more, and %d were expected", text, added, blank)
		}
	}
	deep := strings.Repeat("[", 200) + strings.Repeat("1,", 100000) + "1" + strings.Repeat("]", 200)
	if got := Lines([]byte(deep)); got != deep {
		t.Errorf("%d bytes became %d", len(deep), len(got))
	}
}
