package verify

import (
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
		"a\x7f/requirements.lock": false, "a\u009b/requirements.lock": false,
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
