//go:build unix

package git

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write what must come out into the vectors of testdata/mesh-worktree anew")

const vectorDir = "../../testdata/mesh-worktree"

// A vector is a file of testdata/mesh-worktree; README.md there says what it means.
type vector struct {
	Comment      string `json:"comment"`
	ObjectFormat string `json:"object_format"`
	Base         []file `json:"base"`
	Head         []file `json:"head"`
	Work         []file `json:"work"`
	BaseCommit   string `json:"base_commit"`
	HeadCommit   string `json:"head_commit"`
	Diff         octets `json:"diff"`
	Untracked    []file `json:"untracked"`
	SHA256       string `json:"sha256"`
}

type file struct {
	Name    octets `json:"name"`
	Type    string `json:"type"`
	Content octets `json:"content,omitempty"`
}

// octets are bytes, each written as the character of its number.
type octets string

func (o octets) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	runes := make([]rune, len(o))
	for i := range len(o) {
		runes[i] = rune(o[i])
	}
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(string(runes))
	return out.Bytes(), err
}

func (o *octets) UnmarshalJSON(data []byte) error {
	var s string
	err := json.Unmarshal(data, &s)
	var text []byte
	for _, r := range s {
		if r > 0xff {
			return &json.UnsupportedValueError{Str: "a character that is no byte"}
		}
		text = append(text, byte(r))
	}
	*o = octets(text)
	return err
}

// framed is the format again, from its description.
func framed(fields ...string) string {
	sum := sha256.New()
	for _, f := range fields {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(f)))
		sum.Write(length[:])
		sum.Write([]byte(f))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func (v *vector) digest() string {
	fields := []string{"herdr-link-worktree-v1", v.HeadCommit, string(v.Diff)}
	for _, f := range v.Untracked {
		fields = append(fields, string(f.Name), f.Type, string(f.Content))
	}
	return framed(fields...)
}

func (r *repo) apply(dir string, files []file) {
	r.Helper()
	for _, f := range files {
		path := filepath.Join(dir, string(f.Name))
		must(r.T, os.RemoveAll(path))
		switch f.Type {
		case "absent":
		case "symlink":
			must(r.T, os.MkdirAll(filepath.Dir(path), 0o700))
			must(r.T, os.Symlink(string(f.Content), path))
		case "file", "exec":
			r.write(dir, string(f.Name), string(f.Content))
			if f.Type == "exec" {
				must(r.T, os.Chmod(path, 0o700))
			}
		default:
			r.Fatalf("type %q", f.Type)
		}
	}
}

func TestVectors(t *testing.T) {
	t.Parallel()
	realGit(t)
	paths, err := filepath.Glob(vectorDir + "/*.json")
	if err != nil || len(paths) < 5 {
		t.Fatalf("%d vectors, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			must(t, err)
			var v vector
			d := json.NewDecoder(bytes.NewReader(text))
			d.DisallowUnknownFields()
			must(t, d.Decode(&v))
			if v.ObjectFormat != "sha1" && v.ObjectFormat != "sha256" {
				t.Fatalf("object format %q", v.ObjectFormat)
			}
			if !*update && v.digest() != v.SHA256 {
				t.Errorf("its fields give %s, not %s", v.digest(), v.SHA256)
			}
			if filepath.Base(path) == "names.json" && runtime.GOOS == "darwin" {
				t.Skip("no such names there")
			}

			home, err := filepath.EvalSymlinks(t.TempDir())
			must(t, err)
			r := &repo{T: t, home: home, main: filepath.Join(home, "main"), tree: filepath.Join(home, "tree")}
			r.git(home, "init", "-q", "-b", "main", "--object-format="+v.ObjectFormat, r.main)
			r.apply(r.main, v.Base)
			r.base = r.commit(r.main, "base")
			r.apply(r.main, v.Head)
			head := r.commit(r.main, "head")
			r.git(r.main, "worktree", "add", "-q", "-b", "lane", r.tree)
			r.apply(r.tree, v.Work)
			got := r.digest()
			if *update {
				v.BaseCommit, v.HeadCommit, v.SHA256 = r.base, head, got
				v.Diff = octets(r.git(r.tree, specDiff(r.base)...))
				var out bytes.Buffer
				e := json.NewEncoder(&out)
				e.SetEscapeHTML(false)
				e.SetIndent("", "  ")
				must(t, e.Encode(v))
				must(t, os.WriteFile(path, out.Bytes(), 0o644))
			}
			if r.base != v.BaseCommit || head != v.HeadCommit || got != v.SHA256 {
				t.Errorf("%s, %s, %s", r.base, head, got)
			}
			if diff := r.git(r.tree, specDiff(r.base)...); diff != string(v.Diff) {
				t.Errorf("the diff is\n%s", diff)
			}
			names, err := r.open().untracked(t.Context())
			must(t, err)
			var want []string
			for _, f := range v.Untracked {
				want = append(want, string(f.Name))
			}
			if !slices.Equal(names, want) {
				t.Errorf("untracked: %q, not %q", names, want)
			}
		})
	}
}

// specDiff is the command of mesh.md §4.10, word for word.
func specDiff(base string) []string {
	return []string{"diff", "--no-ext-diff", "--no-textconv", "--no-color", "--binary", "--full-index", "--no-renames", "--diff-algorithm=myers",
		"--src-prefix=a/", "--dst-prefix=b/", base, "--"}
}
