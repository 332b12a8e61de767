package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestDist builds everything twice, in two folders and two environments, and
// looks at what came out. Packages that both builds compile from the same input
// come from one cache the second time, so it also builds two platforms with
// none: what the compiler makes of that input is the same, too.
func TestDist(t *testing.T) {
	root := snapshot(t)
	one, two, three := filepath.Join(root, "dist"), filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "out")
	jobs := fmt.Sprintf("-j%d", runtime.NumCPU())
	command(t, root, nil, "make", jobs, "dist")

	other := filepath.Join(t.TempDir(), "another", "place")
	if err := os.CopyFS(other, os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(other, "dist")); err != nil {
		t.Fatal(err)
	}
	env := []string{"GOFLAGS=-buildvcs=false", "GOAMD64=v3", "CGO_ENABLED=1", "TZ=Pacific/Kiritimati", "SOURCE_DATE_EPOCH=1"}
	command(t, other, env, "/bin/sh", "-c", `umask 077; exec make "$0" dist "DIST=$1"`, jobs, two)
	fresh := []string{runtime.GOOS + "/" + runtime.GOARCH, "windows/arm64"}
	command(t, other, append(env, "GOCACHE="+t.TempDir()),
		"/bin/sh", "-c", `umask 022; exec make "$0" "dist-$1" "dist-$2" "DIST=$3"`, jobs, fresh[0], fresh[1], three)

	t.Run("equal", func(t *testing.T) { equal(t, one, two, 40) })
	t.Run("equal without a cache", func(t *testing.T) {
		for _, platform := range fresh {
			path := filepath.Join("bin", filepath.FromSlash(platform))
			equal(t, filepath.Join(one, path), filepath.Join(three, path), 1)
		}
	})
	t.Run("complete", func(t *testing.T) { complete(t, root, one) })
}

// snapshot copies the repository as it is now, with its history and without
// what git ignores, so that edits meanwhile do not count.
func snapshot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	list := command(t, root, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // deleted, and git does not know yet
		}
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	command(t, dir, nil, "git", "clone", "--quiet", "--bare", root, ".git")
	command(t, dir, nil, "git", "config", "core.bare", "false")
	command(t, dir, nil, "git", "reset", "--quiet")
	return dir
}

func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	// make must not think that it is part of the make which runs this test.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS") })
	cmd.Env = append(cmd.Env, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, stderr.Bytes())
	}
	return string(out)
}

// equal holds two folders to the same files, modes and bytes, and to a least
// number of files.
func equal(t *testing.T, a, b string, least int) {
	list := func(dir string) (files []string) {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			data, err := os.ReadFile(path)
			files = append(files, fmt.Sprintf("%s %v %d bytes %x", strings.TrimPrefix(path, dir), info.Mode(), info.Size(), sha256.Sum256(data)))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	first, second := list(a), list(b)
	if len(first) < least || len(first) != len(second) {
		t.Errorf("%d and %d files", len(first), len(second))
	}
	for _, f := range first {
		if !slices.Contains(second, f) {
			t.Errorf("only the first build has %s", f)
		}
	}
}

func complete(t *testing.T, root, dist string) {
	read := func(elem ...string) []byte {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(append([]string{dist}, elem...)...))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	version := strings.TrimSpace(command(t, root, nil, "cat", "version.txt"))
	commit := strings.TrimSpace(command(t, root, nil, "git", "rev-parse", "HEAD"))
	goroot := strings.TrimSpace(command(t, root, nil, "go", "env", "GOROOT"))

	var sums []string
	for line := range strings.Lines(string(read("SHA256SUMS"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if got := sha256.Sum256(read(name)); hex.EncodeToString(got[:]) != sum {
			t.Errorf("SHA256SUMS has %s for %s", sum, name)
		}
		sums = append(sums, name)
	}
	if len(sums) != 7 {
		t.Errorf("SHA256SUMS names %q", sums)
	}

	var bill spdxDocument
	if err := json.Unmarshal(read("herdr-link-"+version+".spdx.json"), &bill); err != nil {
		t.Fatal(err)
	}
	known := string(read("herdr-link-" + version + ".spdx.json"))

	var main struct {
		Version  string
		Optional map[string]string `json:"optionalDependencies"`
	}
	if err := json.Unmarshal(read("npm", "herdr-link", "package.json"), &main); err != nil {
		t.Fatal(err)
	}
	if main.Version != version || len(main.Optional) != 6 {
		t.Errorf("the npm package is %+v", main)
	}

	for _, platform := range []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"} {
		goos, goarch, _ := strings.Cut(platform, "/")
		name, suffix, open := "herdr-link", ".tar.gz", untar
		if goos == "windows" {
			name, suffix, open = "herdr-link.exe", ".zip", unzip
		}
		binary := read("bin", goos, goarch, name)
		top := fmt.Sprintf("herdr-link-%s-%s-%s", version, goos, goarch)
		entries := open(t, read(top+suffix))
		if got := entries[top+"/"+name]; !bytes.Equal(got, binary) {
			t.Errorf("%s has not the binary", top)
		}
		for _, text := range []string{"README.md", "LICENSE", "LICENSE-GO"} {
			if len(entries[top+"/"+text]) == 0 {
				t.Errorf("%s has no %s", top, text)
			}
		}
		if len(entries) != 4 {
			t.Errorf("%s has %d files", top, len(entries))
		}
		if sum := sha256.Sum256(binary); !strings.Contains(known, hex.EncodeToString(sum[:])) {
			t.Errorf("the bill of materials does not know the binary for %s", platform)
		}
		if bytes.Contains(binary, []byte(root)) || bytes.Contains(binary, []byte(goroot)) {
			t.Errorf("the binary for %s has a path of this machine in it", platform)
		}
		if goos == "linux" {
			static(t, platform, binary)
		}

		p := "@herdr-link/" + npmOS[goos] + "-" + npmCPU[goarch]
		var pkg struct {
			Name, Version string
			OS, CPU       []string
		}
		if err := json.Unmarshal(read("npm", p, "package.json"), &pkg); err != nil {
			t.Fatal(err)
		}
		if pkg.Name != p || pkg.Version != version || main.Optional[p] != version || pkg.OS[0] != npmOS[goos] || pkg.CPU[0] != npmCPU[goarch] {
			t.Errorf("the package for %s is %+v", platform, pkg)
		}
		if !bytes.Equal(read("npm", p, "bin", name), binary) {
			t.Errorf("%s has not the binary", p)
		}
	}

	var told struct{ Version, Commit, Go, Platform string }
	here := filepath.Join(dist, "bin", runtime.GOOS, runtime.GOARCH, "herdr-link")
	if err := json.Unmarshal([]byte(command(t, root, nil, here, "version", "--json")), &told); err != nil {
		t.Fatal(err)
	}
	if told.Version != version || strings.TrimSuffix(told.Commit, "+dirty") != commit || told.Go == "" || told.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("version --json says %+v, the commit is %s", told, commit)
	}
}

func untar(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err == nil {
			files[h.Name], err = io.ReadAll(r)
		}
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(0o755); strings.HasSuffix(h.Name, "/herdr-link") != (h.Mode == want) || h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s has mode %o and owner %d %q", h.Name, h.Mode, h.Uid, h.Uname)
		}
	}
}

func unzip(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err == nil {
			files[f.Name], err = io.ReadAll(r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// static fails if a binary asks for a dynamic linker.
func static(t *testing.T, platform string, binary []byte) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("the binary for %s is not static", platform)
		}
	}
	if f.Section(".symtab") != nil {
		t.Errorf("the binary for %s is not stripped", platform)
	}
}
