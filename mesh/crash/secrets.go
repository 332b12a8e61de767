package crash

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"herdr-link/mesh/disk"
)

// NoFence fails if a file below dir, or its name, has a fence token: one of
// those given, or any id of which some file has the digest.
func NoFence(t *testing.T, dir string, tokens ...string) {
	t.Helper()
	ids, digests := map[string]string{}, map[string]bool{} // ids by what they would be a fence of
	look := func(where, text string) {
		for i := 0; i < len(text); i++ {
			if i+36 <= len(text) && disk.IsID(text[i:i+36]) {
				sum := sha256.Sum256([]byte(strings.ToLower(text[i : i+36])))
				ids[hex.EncodeToString(sum[:])] = where
			}
			if i+64 <= len(text) && strings.Trim(text[i:i+64], "0123456789abcdef") == "" {
				digests[text[i:i+64]] = true
			}
		}
		for _, token := range tokens {
			if token != "" && strings.Contains(strings.ToLower(text), strings.ToLower(token)) {
				t.Errorf("a fence token is in %s", where)
			}
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		look(path, path+"\n"+string(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for digest, where := range ids {
		if digests[digest] {
			t.Errorf("the token of a fence is in %s", where)
		}
	}
}
