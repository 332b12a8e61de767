package crash

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"herdr-link/mesh/disk"
)

// It runs against a stand-in for a test, whose failure is what is expected.
func TestNoFence(t *testing.T) {
	t.Parallel()
	token, other := disk.NewID(), disk.NewID()
	sum := sha256.Sum256([]byte(token))
	for name, tc := range map[string]struct {
		files  map[string]string
		tokens []string
		fails  bool
	}{
		"nothing":          {map[string]string{"a": hex.EncodeToString(sum[:]), "b": other}, []string{token}, false},
		"known":            {map[string]string{"a": "x" + token + "y"}, []string{token}, true},
		"by its digest":    {map[string]string{"a": hex.EncodeToString(sum[:]), "b": "x" + token + "y"}, nil, true},
		"in a file's name": {map[string]string{"a": hex.EncodeToString(sum[:]), token: ""}, nil, true},
	} {
		dir := t.TempDir()
		for file, text := range tc.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		stand := new(testing.T)
		NoFence(stand, dir, tc.tokens...)
		if stand.Failed() != tc.fails {
			t.Errorf("%s: failed %t", name, stand.Failed())
		}
	}
}
