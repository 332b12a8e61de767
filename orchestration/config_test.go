package orchestration

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]token{
		``:                             nil,
		`{}`:                           nil,
		`{"a": "b"}`:                   {{"a", true}, {"b", false}},
		`{"a" /* x: */ : "b"}`:         {{"a", true}, {"b", false}},
		"{\"a\" // \"c\": 1\n : 1}":    {{"a", true}},
		`["a\"b", "\u0061"]`:           {{`a"b`, false}, {"a", false}},
		"// \"a\"\n/* \"b\" */ \"c\"":  {{"c", false}},
		`"http://x/*y*/" "z"`:          {{"http://x/*y*/", false}, {"z", false}},
		"\"open\n\"a\":":               {{"a", true}},
		`"\`:                           nil,
		`/* "a"`:                       nil,
		`// "a"`:                       nil,
		`"a`:                           nil,
		"/ \"a\"":                      {{"a", false}},
		`{"a":{"b":["c",],},}`:         {{"a", true}, {"b", true}, {"c", false}},
		"\ufeff{\"a\":1}":              {{"a", true}},
		`{"x":"opencode-herdr"} "y" :`: {{"x", true}, {"opencode-herdr", false}, {"y", true}},
	} {
		if got := tokens([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q: %v, not %v", text, got, want)
		}
	}
}

// tree writes files, with their folders, and returns the folder of all.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ old, doubles bool }{
		`{"plugin":["opencode-herdr-orchestration"]}`:                                               {old: true},
		`{"plugin":["a",["opencode-herdr-orchestration@0.3.4",{}]]}`:                                {old: true},
		`{"plugin":["file:///x/opencode-herdr-orchestration/index.js"]}`:                            {old: true},
		`{"plugin":["opencode-herdr-orchestration-else"]} // opencode-herdr-orchestration`:          {},
		`{"plugin":[/* "opencode-herdr-orchestration" */]}`:                                         {},
		`{"mcp":{"herdr_link":{"command":["/x/herdr-link","--toolsets","link, response"]}}}`:        {},
		`{"mcp":{"herdr_link":{"command":["/x/herdr-link","--toolsets","link,response"]}}}`:         {doubles: true},
		`{"mcp":{"herdr_link":{"command":["/x/herdr-link","--toolsets","control"]}}} "response" //`: {},
		`{"x":"--toolsets"`: {},
	} {
		root := tree(t, map[string]string{"user/opencode.jsonc": text, "other.json": text, "project/opencode.json": text})
		s := Settings{Dirs: []string{filepath.Join(root, "user")}, Files: []string{filepath.Join(root, "other.json")}, Project: filepath.Join(root, "project")}
		paths := []string{filepath.Join(root, "user", "opencode.jsonc"), filepath.Join(root, "other.json")}
		old, doubles := s.conflicts()
		for _, c := range []struct {
			what string
			got  []string
			want bool
		}{{"old", old, want.old}, {"doubles", doubles, want.doubles}} {
			if c.want && !slices.Equal(c.got, paths) || !c.want && len(c.got) > 0 {
				t.Errorf("%s: %s: %q", text, c.what, c.got)
			}
		}
	}
}

// The user's and the project's files count, from where OpenCode starts up to the
// repository's root.
func TestOverriding(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{
		"opencode.json":                           `{"agent":{"sheep-build":{}}}`, // above the repository
		"user/agents/sheep-plan.md":               "",
		"user/agent/other.md":                     "",
		"user/opencode.json":                      `{"x":"shepherd-plan", /* "shepherd-plan": */ "agent":{"shepherd-build":{}}}`,
		"repo/.git/HEAD":                          "",
		"repo/opencode.jsonc":                     `{"agent":{"shearer-review-low":{}}}`,
		"repo/.opencode/agent/sheep-plan.md":      "",
		"repo/a/.opencode/opencode.json":          `{"agent":{"shearer-review-low":{}}}`,
		"repo/a/b/x":                              "",
		"repo/a/c/.opencode/agents/sheep-plan.md": "",
	})
	s := Settings{Dirs: []string{filepath.Join(root, "user")}, Project: filepath.Join(root, "repo", "a", "b")}
	for name, want := range map[string][]string{
		shepherdPlan:  nil,
		shepherdBuild: {"user/opencode.json"},
		sheepPlan:     {"user/agents/sheep-plan.md", "repo/.opencode/agent/sheep-plan.md"},
		sheepBuild:    nil,
		shearerLow:    {"repo/a/.opencode/opencode.json", "repo/opencode.jsonc"},
		shearerMedium: nil,
	} {
		var full []string
		for _, path := range want {
			full = append(full, filepath.Join(root, filepath.FromSlash(path)))
		}
		if got := s.overriding(name); !slices.Equal(got, full) {
			t.Errorf("%s: %q, not %q", name, got, full)
		}
	}
}
