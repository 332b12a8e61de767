package mesh

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"herdr-link/mcp"
	"herdr-link/mesh/git"
)

// The example of docs/mesh-governance.md is one: the tools take its manifests, the
// digests are those of its files, and the page shows the files as they are.
func TestGovernance(t *testing.T) {
	const dir = "../testdata/mesh-governance"
	const id = "0f9d2c7e-3b1a-4c5d-8e6f-001122334455"
	page, err := os.ReadFile("../docs/mesh-governance.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := table()
	// read returns a file and its digest. One with a tool is that tool's arguments.
	read := func(name, of string) (m map[string]any, digest string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = json.Unmarshal(text, &m)
		}
		if err != nil {
			t.Fatal(err)
		}
		if shown := "`" + name + "`\n\n    " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ") + "\n"; !strings.Contains(string(page), shown) {
			t.Errorf("docs/mesh-governance.md does not show %s as it is", name)
		}
		sum := sha256.Sum256(text)
		if of == "" {
			return m, hex.EncodeToString(sum[:])
		}
		row := &rows[slices.IndexFunc(rows, func(row tool) bool { return row.name == of })]
		schema := row.schema()
		proof := `{"controller_id":"lead","controller_lease_id":"` + id + `","controller_fence_token":"` + id + `",`
		args, problem := mcp.ReadArgs([]byte(strings.Replace(string(text), "{", proof, 1)))
		values, err := schema.Read(args)
		if problem != "" || err != nil {
			t.Fatalf("%s: %s %v", name, problem, err)
		}
		c := &call{tool: row, args: values}
		if f := c.check(); f != nil {
			t.Errorf("%s: %v", name, f)
		}
		if strings.Contains(string(text), "fence") {
			t.Errorf("%s has a fence token", name)
		}
		return m, hex.EncodeToString(sum[:])
	}
	authority, decided := read("authority.json", "")
	start, _ := read("start.json", "herdr_owned_worker_start")
	checkpoint, came := read("checkpoint.json", "")
	release, _ := read("release.json", "herdr_owned_worker_release")
	for _, pair := range [][2]any{
		{start["authority_sha256"], decided}, {start["ticket_ref"], authority["ticket"]}, {start["base_commit"], authority["base_commit"]},
		{release["checkpoint_sha256"], came}, {release["expected_head"], checkpoint["head_commit"]},
		{checkpoint["branch"], start["branch"]}, {checkpoint["base_commit"], start["base_commit"]}, {checkpoint["ticket"], start["ticket_ref"]},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%v is not %v", pair[0], pair[1])
		}
	}
	texts := func(value any) (all []string) {
		for _, v := range value.([]any) {
			all = append(all, v.(string))
		}
		return all
	}
	for _, name := range []string{"owned_scopes", "locked_scopes", "protected_branches"} {
		if !slices.Equal(texts(start[name]), texts(authority[name])) {
			t.Errorf("%s: %v, but %v was decided", name, start[name], authority[name])
		}
	}
	owned, _, err := git.Scopes(t.TempDir(), texts(start["owned_scopes"]), texts(start["locked_scopes"]), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range texts(checkpoint["changed"]) {
		if !slices.ContainsFunc(owned, func(scope string) bool { return git.Overlap(scope, file, false) }) {
			t.Errorf("%s is in no scope", file)
		}
	}
}
