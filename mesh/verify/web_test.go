package verify

import (
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// none is a repository without a package.json.
func none(string) ([]byte, error) { return nil, fs.ErrNotExist }

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
		if got := pinnedWeb(fmt.Appendf(nil, `{"lockfileVersion":3,"packages":{%s}}`, strings.ReplaceAll(packages, "SUM", sum)), none); got != want {
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
		if got := pinnedWeb([]byte(text), none); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

// npm goes by what a dependency says, not by the lock, if that is an address.
func TestPinnedWebDependencies(t *testing.T) {
	t.Parallel()
	const lock = `{"lockfileVersion":3,"packages":{"":{"name":"web"},"node_modules/w":{"resolved":"packages/w","link":true},"packages/w":{"version":"1.0.0"},
"node_modules/a":{"version":"1.0.0","resolved":"https://e.example.org/a.tgz","integrity":"sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="%s},
"node_modules/a/node_modules/b":{"version":"1.0.0","resolved":"https://e.example.org/b.tgz","integrity":"sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="}}}`
	for text, want := range map[string]bool{
		`{}`: true,
		`{"dependencies":null,"devDependencies":{},"peerDependencies":{"a":"^1 || ~2.0 - 3"},"optionalDependencies":{"a":"latest","b":"","c":"*"}}`: true,
		`{"dependencies":{"w":"file:packages/w","a":"npm:@scope/name@^1","b":"npm:name@1"}}`:                                                        true,
		`{"dependencies":{"a":"https://e.example.org/a.tgz"},"overrides":{"b":"1","a":{".":"$c","d":{"e":"npm:@f/g@1"}}}}`:                          true,
		`{"dependencies":{"b":"https://e.example.org/b.tgz"}}`:                                                                                      false,
		`{"dependencies":{"a":"https://e.example.org/b.tgz"}}`:                                                                                      false,
		`{"dependencies":{"c":"https://e.example.org/a.tgz"}}`:                                                                                      false,
		`{"dependencies":{"a":"http://e.example.org/a.tgz"}}`:                                                                                       false,
		`{"devDependencies":{"a":"git+https://e.example.org/a.git"}}`:                                                                               false,
		`{"optionalDependencies":{"a":"git://e.example.org/a.git#semver:1"}}`:                                                                       false,
		`{"peerDependencies":{"a":"github:owner/name"}}`:                                                                                            false,
		`{"dependencies":{"a":"owner/name"}}`:                                                                                                       false,
		`{"dependencies":{"a":"git@example.org:a.git"}}`:                                                                                            false,
		`{"dependencies":{"a":"npm:github:owner/name"}}`:                                                                                            false,
		`{"dependencies":{"a":"npm:@scope/owner/name"}}`:                                                                                            false,
		`{"dependencies":{"a":1}}`:                                                                                                                  false,
		`{"dependencies":["a@owner/name"]}`:                                                                                                         false,
		`{"dependencies":"a@owner/name"}`:                                                                                                           false,
		`{"overrides":{"b":{"a":"owner/name"}}}`:                                                                                                    false,
		`{"overrides":{"b":[]}}`:                                                                                                                    false,
		`[]`:                                                                                                                                        false,
	} {
		for _, folder := range []string{"", "packages/w"} {
			got := pinnedWeb(fmt.Appendf(nil, lock, ""), func(f string) ([]byte, error) {
				if f != folder {
					return nil, fs.ErrNotExist
				}
				return []byte(text), nil
			})
			if got != want {
				t.Errorf("%q, %s: %t", folder, text, got)
			}
		}
	}
	for entry, want := range map[string]bool{
		`,"dependencies":{"b":"^1","c":"npm:d@1"}`:               true,
		`,"dependencies":{"b":"https://e.example.org/b.tgz"}`:    true,
		`,"dependencies":{"b":"https://e.example.org/else.tgz"}`: false,
		`,"optionalDependencies":{"b":"owner/name"}`:             false,
	} {
		if got := pinnedWeb(fmt.Appendf(nil, lock, entry), none); got != want {
			t.Errorf("%s: %t", entry, got)
		}
	}
	if pinnedWeb(fmt.Appendf(nil, lock, ""), func(string) ([]byte, error) { return nil, fs.ErrPermission }) {
		t.Error("a package.json that cannot be read")
	}
}
