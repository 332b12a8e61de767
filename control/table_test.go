package control

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"herdr-link/mcp"
)

var update = flag.Bool("update", false, "write the golden files and docs/control.md")

func none(string) string { return "" }

// What a model sees is always a diff.
func TestList(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-03-26", mcp.Latest} {
		var all []any
		for _, tool := range New(Options{Getenv: none}).Tools() {
			all = append(all, tool.Describe(version))
		}
		got, err := json.MarshalIndent(all, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata", "tools-"+version+".json"), append(got, '\n'))
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is not what the table says; go test ./control -update writes it", file)
	}
}

func TestTable(t *testing.T) {
	if len(table()) != 24 {
		t.Errorf("%d tools", len(table()))
	}
	for _, row := range table() {
		if n := utf8.RuneCountInString(row.description); n == 0 || n > 160 {
			t.Errorf("%s: a description of %d characters", row.name, n)
		}
		positional := true
		for _, a := range row.args {
			if a.schema.Type == "object" || a.schema.Valid != nil && a.schema.Rule == "" {
				t.Errorf("%s: %s has no rule, or is an object", row.name, a.name)
			}
			switch s := a.schema; {
			case s.Type == "boolean" && s.Default == nil,
				s.Type == "string" && s.Pattern == "" && s.Enum == nil && (s.MinLength == 0 || max(s.MaxBytes, s.MaxLength) == 0):
				t.Errorf("%s: tools/list does not say what %s can be: %s", row.name, a.name, s.JSON())
			}
			if a.name == argPreview || a.name == argToken {
				continue
			}
			if a.flag == "" && !positional {
				t.Errorf("%s: %s stands behind an option", row.name, a.name)
			}
			if positional = a.flag == ""; positional && !a.required {
				t.Errorf("%s: %s stands alone and may be missing", row.name, a.name)
			}
		}
		if (row.class == types) != row.has(argToken) || row.has(argToken) != row.has(argPreview) {
			t.Errorf("%s: previews are for what types", row.name)
		}
	}
}
