package main

import (
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The version stands in version.txt; what repeats it says the same.
func TestVersionIsOne(t *testing.T) {
	t.Parallel()
	want := strings.TrimSpace(version)
	heading := regexp.MustCompile(`(?m)^## \[(\d[^\]]*)\]`).FindStringSubmatch(readFile(t, "CHANGELOG.md"))
	if heading == nil || heading[1] != want {
		t.Errorf("CHANGELOG.md has %q, version.txt %q", heading, want)
	}
	if out, _, _ := run(t, inPane(t, nil, ""), "", "version"); out != "herdr-link "+want+"\n" {
		t.Errorf("version prints %q", out)
	}
}

// A readme has two commands for a fresh machine, and CI runs the second one.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"README.md", "README.zh-CN.md"} {
		var got []string
		for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(readFile(t, path), -1) {
			got = append(got, block[1])
		}
		if want := []string{"make demo\n", "make test\n"}; !slices.Equal(got, want) {
			t.Errorf("%s has the commands %q, want %q", path, got, want)
		}
	}
	if !regexp.MustCompile(`(?m)^step \d+ make test$`).MatchString(readFile(t, ".ci/run")) {
		t.Error(".ci/run does not run the readme's test command")
	}
}

// Every command and variable of the overview is in the readmes.
func TestReadmeIsComplete(t *testing.T) {
	t.Parallel()
	out, _, _ := run(t, inPane(t, nil, ""), "", "--help")
	words := regexp.MustCompile(`(?m)^  ([a-z]+|HERDR_LINK_[A-Z]+)\b`).FindAllStringSubmatch(out, -1)
	if len(words) < 14 {
		t.Fatalf("found only %q in\n%s", words, out)
	}
	for _, path := range []string{"README.md", "README.zh-CN.md"} {
		text := readFile(t, path)
		for _, w := range words {
			if !strings.Contains(text, w[1]) {
				t.Errorf("%s does not name %s", path, w[1])
			}
		}
	}
}

// Herdr's plugin has these actions, and each runs a command that there is.
func TestPluginActions(t *testing.T) {
	t.Parallel()
	help, _, _ := run(t, inPane(t, nil, ""), "", "--help")
	var got []string
	for _, a := range regexp.MustCompile(`(?m)^id = "(.+)"\ntitle = ".+"\ncontexts = \[.+\]\ncommand = \["build/herdr-link", "(.+)"\]$`).FindAllStringSubmatch(readFile(t, "herdr-plugin.toml"), -1) {
		got = append(got, a[1])
		if a[1] != a[2] || !strings.Contains(help, "\n  "+a[2]+" ") {
			t.Errorf("the action %s runs %s", a[1], a[2])
		}
	}
	if want := []string{"doctor", "peers", "install"}; !slices.Equal(got, want) {
		t.Errorf("actions %q, not %q", got, want)
	}
}

// A promise of docs/performance.md that needs no clock.
func TestBinarySize(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("promised for amd64 and arm64")
	}
	info, err := os.Stat(binaries.plain)
	if err != nil {
		t.Fatal(err)
	}
	if limit := int64(13 << 19); info.Size() > limit {
		t.Errorf("the binary has %d bytes, at most %d are promised", info.Size(), limit)
	}
}
