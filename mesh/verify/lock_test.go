package verify

import (
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

func TestCheckLocks(t *testing.T) {
	t.Parallel()
	for path, ok := range map[string]bool{
		"requirements.lock": true, "a/b c/requirements.lock": true, ".x/requirements.lock": true,
		"": false, "/requirements.lock": false, "./requirements.lock": false, "a/../requirements.lock": false, "a//requirements.lock": false,
		"a/requirements.lock/": false, `a\requirements.lock`: false, "requirements.txt": false, "a/Requirements.lock": false, "xrequirements.lock": false,
		" requirements.lock": false, "requirements.lock ": false, "a /requirements.lock": false, "a\x00/requirements.lock": false, "..": false, "a\n/requirements.lock": false,
	} {
		if err := checkLocks([]string{"ok/requirements.lock", path}); (err == nil) != ok {
			t.Errorf("%q: %v", path, err)
		}
	}
	if checkLocks(nil) != nil || checkLocks([]string{"a/requirements.lock", "a/requirements.lock"}) == nil {
		t.Error("none, or one twice")
	}
}

// mesh.md §8, 46.
func TestPinnedPython(t *testing.T) {
	t.Parallel()
	hash := "--hash=sha256:" + strings.Repeat("0a", 32)
	for text, want := range map[string]bool{
		"a==1 " + hash: true,
		"# all\n\na-b.c[x,y]==1.2.3+local.1 \\\n    " + hash + " \\\n    " + hash + "\n    # via b\nb==2!1.0rc1 ; python_version >= '3.9' and sys_platform == \"linux\" \\\n  " + hash + "\n": true,
		"a==1 " + hash + "\r\nb==2 " + hash + "\r\n":       true,
		"a==1;python_version<'3' " + hash:                  true,
		"a==1;(os_name == 'nt' or extra in 'x y') " + hash: true,
		"":                           false,
		"# nothing\n":                false,
		"a==1":                       false,
		"a==1 --hash=sha256:" + "00": false,
		"a==1 --hash=md5:" + strings.Repeat("0", 32):    false,
		"a==1 " + hash + "0":                            false,
		"a>=1 " + hash:                                  false,
		"a==1.* " + hash:                                false,
		"a==1,<2 " + hash:                               false,
		"a " + hash:                                     false,
		"a==1 " + hash + "\n-r other.txt":               false,
		"-r other.txt":                                  false,
		"-e . " + hash:                                  false,
		"a @ https://example.org/a.whl " + hash:         false,
		"https://example.org/a.whl " + hash:             false,
		"./a.whl " + hash:                               false,
		"--index-url https://example.org\na==1 " + hash: false,
		"a==1 --index-url=https://example.org " + hash:  false,
		"a==1 " + hash + " --index-url=x":               false,
		"a==1 " + hash + " # comment":                   false,
		"a==1 \\\n# comment\n" + hash:                   false,
		"a==1 \\\n\n" + hash:                            false,
		"a==1 " + hash + " \\\n-r x":                    false,
		"a==1; x --index-url y " + hash:                 false,
		"a==1\x0b" + hash:                               false,
		"a==1 " + hash + "\r-r x":                       false,
		"a==1 " + hash + "\u2028-r x":                   false,
		"a==1 " + hash + "\xff":                         false,
		"\ufeffa==1 " + hash:                            false,
	} {
		if got := pinnedPython([]byte(text)); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestPinnedWeb(t *testing.T) {
	t.Parallel()
	const from = `"resolved":"https://registry.example.org/a/-/a-1.0.0.tgz"`
	sum := "sha512-" + base64.StdEncoding.EncodeToString(make([]byte, sha512.Size))
	for packages, want := range map[string]bool{
		`"":{"name":"web"},"node_modules/a":{"version":"1.0.0",` + from + `,"integrity":"SUM"}`:     true,
		`"":{},"node_modules/a":{"resolved":"packages/a","link":true},"packages/a":{"version":"1"}`: true,
		`"":{},"node_modules/a":{"version":"1","integrity":"SUM","bundleDependencies":["b"]},"node_modules/a/node_modules/b":{"version":"1","inBundle":true},` +
			`"node_modules/a/node_modules/b/node_modules/c":{"version":"1","inBundle":true}`: true,
		`"":{},"node_modules/a":{"version":"1","integrity":"sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="}`:                 true,
		`"":{},"node_modules/a":{"version":"1","integrity":"sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk= SUM"}`:             true,
		`"":{},"node_modules/a":{"version":"file:a.tgz","resolved":"file:a.tgz"}`:                                true,
		`"":{},"node_modules/a":{"version":"1","integrity":"SUM"}`:                                               true,
		`"":{},"node_modules/a":{"version":"1",` + from + `}`:                                                    false,
		`"":{},"node_modules/a":{"version":"1",` + from + `,"integrity":""}`:                                     false,
		`"":{},"node_modules/a":{"version":"1"}`:                                                                 false,
		`"":{},"node_modules/a":{"resolved":"http://r.example.org/a.tgz","integrity":"SUM"}`:                     false,
		`"":{},"node_modules/a":{"resolved":"HTTPS://r.example.org/a.tgz","integrity":"SUM"}`:                    false,
		`"":{},"node_modules/a":{"resolved":"git+ssh://git@example.org/a.git#0","integrity":"SUM"}`:              false,
		`"":{},"node_modules/a":{"resolved":"git@example.org:a/b.git","integrity":"SUM"}`:                        false,
		`"":{},"node_modules/a":{"resolved":"owner/name","integrity":"SUM"}`:                                     false,
		`"":{},"node_modules/a":{"resolved":"file://host/a.tgz","integrity":"SUM"}`:                              false,
		`"":{},"node_modules/a":{"resolved":"https://e.org/a","link":true}`:                                      false,
		`"":{},"node_modules/a":{"link":true}`:                                                                   false,
		`"":{},"node_modules/a":{"resolved":7,"integrity":"SUM"}`:                                                false,
		`"":{},"node_modules/a":{"resolved":"git+ssh://e.org/a","Resolved":"https://e.org/a","integrity":"SUM"}`: false,
		`"":{},"packages/a":{"resolved":"http://e.org/a.tgz","integrity":"SUM"}`:                                 false,
		// npm takes these for no integrity at all, or fetches the package all the same.
		`"":{},"node_modules/a":{"version":"1","integrity":"x"}`:                                                                                           false,
		`"":{},"node_modules/a":{"version":"1","integrity":" "}`:                                                                                           false,
		`"":{},"node_modules/a":{"version":"1","integrity":"sha512-x"}`:                                                                                    false,
		`"":{},"node_modules/a":{"version":"1","integrity":"SUM x"}`:                                                                                       false,
		`"":{},"node_modules/a":{"version":"1","integrity":"SUM?x"}`:                                                                                       false,
		`"":{},"node_modules/a":{"version":"1","integrity":"md5-1B2M2Y8AsgTpgAmy7PhCfg=="}`:                                                                false,
		`"":{},"node_modules/a":{"version":"1","integrity":"sha512-2jmj7l5rSw0yVb/vlWAYkK/YBwk="}`:                                                         false,
		`"":{},"node_modules/a":{"version":"1","inBundle":true}`:                                                                                           false,
		`"":{"bundleDependencies":["a"]},"node_modules/a":{"version":"1","inBundle":true}`:                                                                 false,
		`"":{},"packages/w":{"bundleDependencies":["a"]},"packages/w/node_modules/a":{"version":"1","inBundle":true}`:                                      false,
		`"":{},"node_modules/a":{"version":"1","integrity":"SUM"},"node_modules/a/node_modules/b":{"version":"1","inBundle":true}`:                         false,
		`"":{},"node_modules/a":{"version":"1","integrity":"SUM","bundleDependencies":[]},"node_modules/a/node_modules/b":{"version":"1","inBundle":true}`: false,
		``: false,
	} {
		if got := pinnedWeb(fmt.Appendf(nil, `{"lockfileVersion":3,"packages":{%s}}`, strings.ReplaceAll(packages, "SUM", sum))); got != want {
			t.Errorf("%s: %t", packages, got)
		}
	}
	for text, want := range map[string]bool{
		`{"lockfileVersion":2,"packages":{"":{}},"dependencies":{}}`: true,
		`{"lockfileVersion":1,"packages":{"":{}}}`:                   false,
		`{"packages":{"":{}}}`:                                       false,
		`{"lockfileVersion":3}`:                                      false,
		`{"lockfileVersion":3,"packages":{"":[]}}`:                   false,
		`[]`: false,
		`{"lockfileVersion":3,"packages":{"":{}}} x`: false,
	} {
		if got := pinnedWeb([]byte(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}
