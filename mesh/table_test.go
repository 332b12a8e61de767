package mesh

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"herdr-link/mcp"
)

var update = flag.Bool("update", false, "write the golden files and docs/mesh.md")

// What a model sees is always a diff.
func TestList(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-03-26", mcp.Latest} {
		var all []any
		for _, tool := range New(Options{Getenv: os.Getenv}).Tools() {
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
		t.Errorf("%s is not what the table says; go test ./mesh -update writes it", file)
	}
}

func TestTable(t *testing.T) {
	for _, row := range table() {
		if n := utf8.RuneCountInString(row.description); n == 0 || n > 180 {
			t.Errorf("%s: a description of %d characters", row.name, n)
		}
		if row.run == nil || !slices.Contains([]hints{"RI", "D", "I", "DI", "O", ""}, row.hints) {
			t.Errorf("%s: hints %q, or nothing to run", row.name, row.hints)
		}
		options := false
		for _, a := range row.args {
			if a.Valid != nil && a.Rule == "" {
				t.Errorf("%s: %s has no rule", row.name, a.Name)
			}
			if row.command == "" || a.Name == argRegex { // not an element of argv
				continue
			}
			if options = options || a.flag != ""; options && a.flag == "" {
				t.Errorf("%s: %s stands behind an option", row.name, a.Name)
			}
			if !a.Required && a.flag == "" {
				t.Errorf("%s: %s stands alone and may be missing", row.name, a.Name)
			}
		}
		timed := slices.ContainsFunc(row.args, func(a argument) bool { return a.Name == argTimeout })
		if row.waits != timed {
			t.Errorf("%s: what waits has a time", row.name)
		}
	}
}

// A text of one line has no control character, which a terminal would act on when
// a person looks at a list. What an argument says in its own way about that has a
// code of its own, and a test with it.
func TestNoControlCharacters(t *testing.T) {
	own := []string{"text", "message", "requests[].message", "receipt", "receipts", "owned_scopes", "locked_scopes", "bootstrap_python_locks"}
	texts := 0
	check := func(tool string, p mcp.Property) {
		if p.Type != "string" || p.Enum != nil || slices.Contains(own, p.Name) {
			return
		}
		texts++
		for _, c := range []string{"\x00", "\x01", "\t", "\n", "\r", "\x1b", "\x1f", "\x7f", "\u0080", "\u0085", "\u009b", "\u009f"} {
			for _, text := range []string{c, "/a" + c, "/" + c + "b", "/a" + c + "b"} { // a folder, too
				if p.Name == "protected_branches" { // white space around them is let go
					text = "a" + text + "b"
				}
				if refused := p.Valid != nil && !p.Valid(text); refused == (p.Name == argMatch && c == "\t") {
					t.Errorf("%s: %s may be %q: %v", tool, p.Name, text, !refused)
				}
			}
		}
		for _, text := range []string{"/a b", "/ä", "/\u00a0"} {
			if p.Pattern == "" && p.Valid != nil && !p.Valid(text) {
				t.Errorf("%s: %s may not be %q", tool, p.Name, text)
			}
		}
	}
	for _, row := range table() {
		for _, p := range row.properties() {
			check(row.name, p)
			if p.Items != nil {
				check(row.name, mcp.Property{Name: p.Name, Schema: *p.Items})
			}
		}
	}
	if texts < 100 {
		t.Errorf("%d texts were looked at", texts)
	}
}

func TestArgv(t *testing.T) {
	rows := table()
	for _, test := range []struct{ tool, args, argv string }{
		{"herdr_agent_list", `{}`, "agent list"},
		{"herdr_agent_get", `{"target":"reviewer"}`, "agent get reviewer"},
		{"herdr_agent_get", `{"target":"w1:p2"}`, "agent get w1:p2"},
		{"herdr_agent_read", `{"target":"reviewer"}`, "agent read reviewer --source visible --lines 200 --format text"},
		{"herdr_agent_read", `{"target":"reviewer","source":"recent-unwrapped","lines":1000}`, "agent read reviewer --source recent-unwrapped --lines 1000 --format text"},
		{"herdr_agent_wait", `{"target":"reviewer","status":"working"}`, "agent wait reviewer --until working --timeout 45000"},
		{"herdr_agent_wait", `{"target":"reviewer","status":"idle","timeout_ms":1}`, "agent wait reviewer --until idle --until done --timeout 1"},
		{"herdr_agent_wait", `{"target":"reviewer","status":"done","timeout_ms":600000}`, "agent wait reviewer --until idle --until done --timeout 600000"},
		{"herdr_wait_output", `{"pane_id":"w1:p2","match":"a b"}`, "pane wait-output w1:p2 --match a b --timeout 45000"},
		{"herdr_wait_output", `{"pane_id":"w1:p2","match":"a.b","regex":true,"source":"visible"}`, "pane wait-output w1:p2 --regex a.b --source visible --timeout 45000"},
		{"herdr_wait_output", `{"pane_id":"w1:p2","match":"--x","regex":false}`, "pane wait-output w1:p2 --match --x --timeout 45000"},
		{"herdr_session_list", `{}`, "session list --json"},
		{"herdr_pane_list", `{}`, "pane list"},
		{"herdr_pane_list", `{"workspace":"w1"}`, "pane list --workspace w1"},
		{"herdr_pane_get", `{"pane_id":"w1:p2"}`, "pane get w1:p2"},
		{"herdr_pane_read", `{"pane_id":"w1:p2","source":"recent"}`, "pane read w1:p2 --source recent --lines 200 --format text"},
		{"herdr_tab_list", `{"workspace":"w1"}`, "tab list --workspace w1"},
		{"herdr_tab_get", `{"tab_id":"w1:t1"}`, "tab get w1:t1"},
		{"herdr_workspace_list", `{}`, "workspace list"},
		{"herdr_workspace_get", `{"workspace_id":"w1"}`, "workspace get w1"},
		{"herdr_integration_status", `{}`, "integration status"},
		{"herdr_integration_status", `{"outdated_only":false}`, "integration status"},
		{"herdr_integration_status", `{"outdated_only":true}`, "integration status --outdated-only"},
	} {
		row := &rows[slices.IndexFunc(rows, func(row tool) bool { return row.name == test.tool })]
		args, problem := mcp.ReadArgs([]byte(test.args))
		schema := row.schema()
		v, err := schema.Read(args)
		if err != nil || problem != "" {
			t.Errorf("%s %s: %v %s", test.tool, test.args, err, problem)
			continue
		}
		if got := strings.Join(row.argv(v), " "); got != test.argv {
			t.Errorf("%s %s: %s, want %s", test.tool, test.args, got, test.argv)
		}
	}
}

// What may wait for ever takes nobody's place, and the client hears of it.
func TestWaits(t *testing.T) {
	for _, tool := range New(Options{Getenv: os.Getenv}).Tools() {
		args := map[string]string{
			"herdr_agent_wait":         `{"target":"a","status":"idle","timeout_ms":600000}`,
			"herdr_agent_wait_settled": `{"target":"a","timeout_ms":600000}`,
			"herdr_agent_wait_any":     `{"targets":[{"target":"a"}],"timeout_ms":600000}`,
			"herdr_wait_output":        `{"pane_id":"w1:p1","match":"x","timeout_ms":600000}`,
		}[tool.Name]
		if args == "" {
			continue
		}
		read, _ := mcp.ReadArgs([]byte(args))
		if c := tool.Begin(nil, read); c.Run == nil || !c.Waits || c.Time <= 10*time.Minute || c.Progress != 15*time.Second {
			t.Errorf("%s: %+v", tool.Name, c)
		}
	}
}

// A start may take longer than other calls, and so may a cleanup. Neither waits
// for something that may never happen.
func TestTimes(t *testing.T) {
	const id = "0f9d2c7e-3b1a-4c5d-8e6f-001122334455"
	const proof = `"controller_id":"lead","controller_lease_id":"` + id + `","controller_fence_token":"` + id + `"`
	digest, commit := strings.Repeat("1", 64), strings.Repeat("1", 40)
	for name, tc := range map[string]struct {
		args     string
		min, max time.Duration
	}{
		"herdr_owned_reviewer_start": {`{` + proof + `,"purpose":"x","parent_pane_id":"w1:p1","cwd":"/","name":"a","kind":"pi","start_timeout_ms":300000}`, 330 * time.Second, 10 * time.Minute},
		"herdr_owned_worker_start": {`{` + proof + `,"purpose":"x","ticket_ref":"x","authority_ref":"x","authority_sha256":"` + digest + `","parent_pane_id":"w1:p1","worktree":"/","branch":"x","base_commit":"` + commit +
			`","expected_head":"` + commit + `","expected_status_sha256":"` + digest + `","owned_scopes":["x"],"locked_scopes":[],"protected_branches":["x"],"name":"a","kind":"pi"}`, 60 * time.Second, 5 * time.Minute},
		"herdr_owned_reviewer_cleanup": {`{` + proof + `,"dry_run":false}`, 80 * time.Second, 2 * time.Minute},
		"herdr_owned_reviewer_close":   {`{` + proof + `,"lease_id":"` + id + `","agent_exited":true}`, 0, 0},
	} {
		tools := New(Options{Getenv: os.Getenv}).Tools()
		tool := tools[slices.IndexFunc(tools, func(tool mcp.Tool) bool { return tool.Name == name })]
		read, _ := mcp.ReadArgs([]byte(tc.args))
		if c := tool.Begin(nil, read); c.Run == nil || c.Waits || c.Time < tc.min || c.Time > tc.max || (c.Progress > 0) != (c.Time > 0) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
