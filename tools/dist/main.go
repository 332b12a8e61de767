// Command dist packs binaries that are built already: archives, npm packages,
// release notes, a software bill of materials and checksums.
//
// It starts no process, asks no network and reads no clock: commit, date and
// Go version are those that the binaries themselves tell, so equal binaries
// give equal files.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	var d dist
	flag.StringVar(&d.root, "root", ".", "the repository")
	flag.StringVar(&d.out, "out", "dist", "where bin/GOOS/GOARCH/ is, and everything else goes")
	flag.StringVar(&d.goLicense, "go-license", "", "the licence of Go's standard library, a file")
	flag.Parse()
	if err := d.run(); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// A dist is one run.
type dist struct {
	root, out, goLicense string

	version string
	builds  []build   // in the order of their platforms
	commit  string    // empty: not known
	when    time.Time // of the commit
	golang  string    // "go1.26.0"
	dirty   bool
	notices []file // go into every archive and package
}

// A build is a binary and its platform.
type build struct {
	goos, goarch string
	binary       file
}

// A file is one that goes into an archive or a folder.
type file struct {
	name string // with slashes
	mode os.FileMode
	data []byte
}

func (d *dist) run() error {
	for _, step := range []func() error{d.readTexts, d.readBuilds, d.archives, d.npm, d.notes, d.sbom, d.checksums} {
		if err := step(); err != nil {
			return err
		}
	}
	fmt.Printf("herdr-link %s, commit %.12s, %s, %d platforms\n", d.version, d.commit, d.golang, len(d.builds))
	if d.dirty || d.commit == "" {
		fmt.Println("note: not built from a clean commit, so nobody can build the same: fit for tests, not for a release")
	}
	return nil
}

// source reads a file of the repository.
func (d *dist) source(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(d.root, filepath.FromSlash(name)))
}

var pluginVersion = regexp.MustCompile(`(?m)^version = "([^"]*)"$`)

func (d *dist) readTexts() error {
	version, err := d.source("version.txt")
	if err != nil {
		return err
	}
	d.version = strings.TrimSpace(string(version))
	plugin, err := d.source("herdr-plugin.toml")
	if err != nil {
		return err
	}
	if m := pluginVersion.FindSubmatch(plugin); m == nil || string(m[1]) != d.version {
		return fmt.Errorf("herdr-plugin.toml has not the version of version.txt, %s", d.version)
	}
	licence, err := d.source("LICENSE")
	if err != nil {
		return err
	}
	golang, err := os.ReadFile(d.goLicense)
	if err != nil {
		return fmt.Errorf("the licence of Go's standard library, which is part of every binary: %w", err)
	}
	d.notices = []file{{"LICENSE", 0o644, licence}, {"LICENSE-GO", 0o644, golang}}
	return nil
}

// readBuilds reads bin/GOOS/GOARCH/ and holds all binaries to one source.
func (d *dist) readBuilds() error {
	paths, err := filepath.Glob(filepath.Join(d.out, "bin", "*", "*", "herdr-link*"))
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("no binaries in %s: make dist builds them", filepath.Join(d.out, "bin"))
	}
	slices.Sort(paths)
	for i, path := range paths {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return err
		}
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		switch {
		case len(info.Deps) > 0:
			return fmt.Errorf("%s contains modules that the bill of materials does not know: %v", path, info.Deps)
		case settings["CGO_ENABLED"] != "0" || settings["-trimpath"] != "true":
			return fmt.Errorf("%s is not built as make dist does", path)
		case i > 0 && (settings["vcs.revision"] != d.commit || info.GoVersion != d.golang):
			return fmt.Errorf("%s comes from another commit or Go than the others", path)
		}
		d.commit, d.golang = settings["vcs.revision"], info.GoVersion
		d.dirty = d.dirty || settings["vcs.modified"] == "true"
		d.when = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
		if at := settings["vcs.time"]; at != "" {
			if d.when, err = time.Parse(time.RFC3339, at); err != nil {
				return err
			}
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.Chmod(path, 0o755); err != nil { // go build heeds the umask
			return err
		}
		d.builds = append(d.builds, build{settings["GOOS"], settings["GOARCH"], file{filepath.Base(path), 0o755, data}})
	}
	return nil
}

// write writes files below a folder of the output, with exactly their modes.
func (d *dist) write(dir string, files ...file) error {
	for _, f := range files {
		path := filepath.Join(d.out, filepath.FromSlash(dir), filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.data, f.mode); err != nil {
			return err
		}
		if err := os.Chmod(path, f.mode); err != nil { // whatever the umask
			return err
		}
	}
	return nil
}

// notes writes what CHANGELOG.md says about this version.
func (d *dist) notes() error {
	changes, err := d.source("CHANGELOG.md")
	if err != nil {
		return err
	}
	_, rest, found := strings.Cut(string(changes), "\n## ["+d.version+"]")
	if !found {
		return fmt.Errorf("CHANGELOG.md says nothing about %s", d.version)
	}
	_, rest, _ = strings.Cut(rest, "\n") // the date
	rest, _, _ = strings.Cut(rest, "\n## ")
	return d.write("", file{"release-notes.md", 0o644, []byte(strings.TrimSpace(rest) + "\n")})
}

// checksums writes SHA256SUMS over the files that people download.
func (d *dist) checksums() error {
	var b strings.Builder
	for _, pattern := range []string{"*.spdx.json", "*.tar.gz", "*.zip"} {
		paths, err := filepath.Glob(filepath.Join(d.out, pattern))
		if err != nil {
			return err
		}
		for _, path := range paths { // sorted by Glob
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), filepath.Base(path))
		}
	}
	return d.write("", file{"SHA256SUMS", 0o644, []byte(b.String())})
}
