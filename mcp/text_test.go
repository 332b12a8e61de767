package mcp

import "testing"

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
