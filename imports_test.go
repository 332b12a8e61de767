package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "herdr-link"

// mayImport is the structure of the code: a row for each folder with Go files,
// and what it may import of this module. Imports only point down.
var mayImport = map[string]string{
	".":   "cli",
	"cli": "jsonrpc herdrcli envelope contract adapters fakeherdr mcp link control mesh mesh/fault mesh/handoff response orchestration hosts probe",

	"link":          "mcp envelope contract herdrcli",
	"control":       "mcp herdrcli",
	"mesh":          "mcp herdrcli mesh/controller mesh/disk mesh/fault mesh/git mesh/handoff mesh/lane mesh/lease mesh/ledger mesh/lock mesh/screen mesh/store mesh/verify mesh/watch",
	"response":      "mcp herdrcli",
	"orchestration": "mcp contract herdrcli",
	"hosts":         "adapters contract herdrcli",
	"probe":         "fakeherdr envelope contract",

	// The parts of mesh stand on each other, the lower ones further down.
	"mesh/watch":      "herdrcli",
	"mesh/screen":     "",
	"mesh/handoff":    "herdrcli mesh/controller mesh/disk mesh/fault mesh/lease mesh/screen mesh/store mesh/watch",
	"mesh/ledger":     "herdrcli mesh/controller mesh/fault mesh/git mesh/lease mesh/store",
	"mesh/lane":       "herdrcli mesh/controller mesh/disk mesh/fault mesh/git mesh/lease mesh/screen mesh/store",
	"mesh/verify":     "herdrcli mesh/attest mesh/controller mesh/disk mesh/fault mesh/git mesh/lease mesh/sandbox mesh/screen mesh/store",
	"mesh/controller": "herdrcli mesh/attest mesh/disk mesh/fault mesh/lease mesh/store",
	"mesh/lease":      "herdrcli mesh/disk mesh/fault mesh/store",
	"mesh/git":        "herdrcli mesh/fault",
	"mesh/sandbox":    "herdrcli mesh/fault",
	"mesh/attest":     "herdrcli mesh/fault",
	"mesh/store":      "mesh/attest mesh/disk mesh/fault mesh/lock",
	"mesh/lock":       "mesh/attest mesh/disk mesh/fault",
	"mesh/disk":       "mesh/fault",
	"mesh/fault":      "herdrcli",

	"mcp": "jsonrpc",

	"jsonrpc":   "",
	"herdrcli":  "",
	"envelope":  "",
	"contract":  "",
	"adapters":  "",
	"fakeherdr": "",

	// Not part of the program:
	"mesh/crash":    "mesh/disk mesh/fault twin",
	"sdktest/scene": "fakeherdr",
	"twin":          "",
}

func TestImports(t *testing.T) {
	t.Parallel()
	for _, problem := range structure(os.DirFS("."), mayImport) {
		t.Error(problem)
	}
}

// The test above would be none if it never found anything.
func TestImportsFail(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ file, text, want string }{
		"a folder without a row": {"extra/x.go", "package extra", "extra: no row"},
		"one further down":       {"mesh/extra/x.go", "package extra", "mesh/extra: no row"},
		"a test alone":           {"extra/x_test.go", "package extra", "extra: no row"},
		"an import upwards":      {"jsonrpc/x.go", "package jsonrpc\nimport _ \"herdr-link/mcp\"", "jsonrpc/x.go imports herdr-link/mcp"},
		"an import sideways":     {"link/x.go", "package link\nimport _ \"herdr-link/control\"", "link/x.go imports herdr-link/control"},
		"a stranger":             {"mcp/x.go", "package mcp\nimport _ \"example.com/x\"", "mcp/x.go imports example.com/x"},
		"a stranger in a test":   {"mcp/x_test.go", "package mcp\nimport _ \"example.com/x\"", "mcp/x_test.go imports example.com/x"},
		"C":                      {"mcp/x.go", "package mcp\nimport \"C\"", "mcp/x.go imports C"},
		"init":                   {"mcp/x.go", "package mcp\nfunc init() {}", "mcp/x.go has a func init"},
		"a drawer":               {"mcp/x.go", "package utils", "mcp/x.go is of package utils"},
		"a requirement":          {"go.mod", "module herdr-link\n\ngo 1.26\n\nrequire example.com/x v1.0.0\n", "go.mod requires"},
	} {
		tree := memory{tc.file: tc.text}
		if tc.file != "go.mod" {
			tree["go.mod"] = "module herdr-link\n\ngo 1.26\n"
		}
		problems := structure(tree.files(t), mayImport)
		if len(problems) != 1 || !strings.HasPrefix(problems[0], tc.want) {
			t.Errorf("%s: %q, not %q", name, problems, tc.want)
		}
	}
	good := memory{"go.mod": "module herdr-link\n\ngo 1.26\n", "mcp/x.go": "package mcp\nimport (\n\"fmt\"\n\"herdr-link/jsonrpc\"\n)\ntype x int\nfunc (x) init() {}",
		"mcp/x_test.go": "package mcp_test\nimport _ \"herdr-link/fakeherdr\"", "tools/go.mod": "module x", "tools/x.go": "package utils", "link/testdata/x.go": "package utils"}
	if problems := structure(good.files(t), mayImport); len(problems) > 0 {
		t.Errorf("nothing is wrong there, but: %q", problems)
	}
}

// A memory is a tree of files by their paths.
type memory map[string]string

func (m memory) files(t *testing.T) fs.FS {
	t.Helper()
	dir := t.TempDir()
	for name, text := range m {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return os.DirFS(dir)
}

// structure says what is wrong with a tree.
func structure(tree fs.FS, rows map[string]string) (problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	mod, err := fs.ReadFile(tree, "go.mod")
	if err != nil {
		complain("%v", err)
	}
	if strings.Contains(string(mod), "require") || strings.Contains(string(mod), "replace") {
		complain("go.mod requires something")
	}
	unlisted := map[string]bool{}
	err = fs.WalkDir(tree, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		dir, base := path.Dir(file), path.Base(file)
		if d.IsDir() {
			_, err := fs.Stat(tree, file+"/go.mod")
			otherModule := file != "." && err == nil
			if otherModule || base == "testdata" || base == "node_modules" || file != "." && strings.HasPrefix(base, ".") {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(file) != ".go" {
			return nil
		}
		allowed, listed := rows[dir]
		if !listed {
			if !unlisted[dir] {
				complain("%s: no row in the table of imports", dir)
			}
			unlisted[dir] = true
			return nil
		}
		return look(tree, file, strings.Fields(allowed), complain)
	})
	if err != nil {
		complain("%v", err)
	}
	return problems
}

// look reads one file. Tests may import every package of this module, but
// nothing of others.
func look(tree fs.FS, file string, allowed []string, complain func(string, ...any)) error {
	data, err := fs.ReadFile(tree, file)
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, data, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "misc", "shared"}, f.Name.Name) {
		complain("%s is of package %s", file, f.Name.Name)
	}
	for _, spec := range f.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		first, rest, _ := strings.Cut(name, "/")
		test := strings.HasSuffix(file, "_test.go")
		if first == module && !test && !slices.Contains(allowed, rest) || strings.Contains(first, ".") || name == "C" {
			complain("%s imports %s", file, name)
		}
	}
	for _, decl := range f.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			complain("%s has a func init", file)
		}
	}
	return nil
}
