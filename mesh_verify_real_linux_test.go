package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// With HERDR_LINK_VERIFY_TOOLS=HOME, where HOME/.local has the real uv, just and
// mise with its node as a user has them, packages are fetched from their registries
// and tested by gates. Nothing is written there.
func TestMeshVerifyReal(t *testing.T) {
	tools := os.Getenv("HERDR_LINK_VERIFY_TOOLS")
	if tools == "" {
		t.Skip("HERDR_LINK_VERIFY_TOOLS is not set: nothing is fetched")
	}
	c := check(t)
	c.host = coordinate(t, c.s, "w1:p1", "HERDR_MESH_STATE_DIR="+c.state, "HOME="+tools)
	c.host.patience = time.Minute
	const justfile = `
verification-plan *args:
    @sh plan.sh

check-fast:
    cd web && npm test
    PYTHONPATH=$(echo /gate-home/python-bootstrap/*) python3 -m unittest test_six
    test ! -e /gate-home/ran
    mise run offline
`
	// What has the network behind the plan takes nothing from it.
	const plan = `cd /gate-home
mkdir -p .venv/bin .config/mise evil
for name in .venv/bin/python evil/npm; do printf '#!/bin/sh\necho "$0" >> /gate-home/ran\n' > $name; chmod +x $name; done
printf 'home = /usr/bin\n' > .venv/pyvenv.cfg
printf '[env]\n_.path = "/gate-home/evil"\nX = "{{ exec(command=%secho mise >> /gate-home/ran%s) }}"\n' "'" "'" > .config/mise/config.toml
printf 'registry=http://127.0.0.1:1/\n' > .no-user-npmrc
echo 'Minimum final gate: just check-fast'
`
	const lock = `{"name":"web","version":"1.0.0","lockfileVersion":3,"packages":{"":{"name":"web","version":"1.0.0","dependencies":{"is-number":"6.0.0"}},
"node_modules/is-number":{"version":"6.0.0","integrity":"sha512-Wu1VHeILBK8KAWJUAiSZQX94GmOE45Rg6/538fKwiloUu21KncEkYGPqob2oSZ5mUT73vLGrHQjKw3KMPwfDzg=="}}}`
	c.commit(map[string]string{
		".gitignore": "*.log\nnode_modules\n__pycache__\n", "justfile": justfile, "plan.sh": plan,
		"mise.toml":             "[tasks.offline]\nrun = \"! getent ahosts example.org && test ! -e /etc/resolv.conf\"\n",
		"web/package.json":      `{"name":"web","version":"1.0.0","scripts":{"test":"node test.js","postinstall":"touch ran"},"dependencies":{"is-number":"6.0.0"}}`,
		"web/test.js":           "process.exit(require('is-number')(1) && !require('fs').existsSync('ran') ? 0 : 1)\n",
		"web/package-lock.json": lock,
		"py/requirements.lock":  "six==1.16.0 --hash=sha256:8abb2f1d86890a2dfb989f9a77cfcfd3e47c2a354b01111771326f8aa26e0254\n",
		"old/requirements.lock": "docopt==0.6.2 --hash=sha256:49b3a825280bd66b3aa83585ef59c4a8c82f2c8a522dbe754a8bc8d08c85c491\n",
		"test_six.py":           "import unittest, six\nclass Six(unittest.TestCase):\n    def test(self):\n        self.assertTrue(six.PY3)\n",
	})
	c.rebase()
	silent := regexp.MustCompile(`ENOTFOUND|EAI_AGAIN|ECONN[A-Z]+|ETIMEDOUT|code E[45]\d\d|dns error|error sending request|HTTP status`)
	verify := func(more string) verdict {
		t.Helper()
		v := c.verify(more)
		if v.State == "running" {
			t.Skip("a registry does not give the packages in time")
		}
		if why := silent.FindString(v.StderrTail); why != "" && strings.HasSuffix(v.FailureCode, "_BOOTSTRAP_FAILED") {
			t.Skipf("a registry does not give the packages (%s)", why)
		}
		return v
	}
	const both = `,"bootstrap_web":true,"bootstrap_python_locks":["py/requirements.lock"]`
	if v := verify(both); v.State != "passed" {
		t.Fatalf("%+v", v)
	}
	// A package without a wheel would have to be built, with its own code.
	if v := verify(`,"bootstrap_web":true,"bootstrap_python_locks":["old/requirements.lock"]`); v.FailureCode != "PY_BOOTSTRAP_FAILED" || !strings.Contains(v.StderrTail, "no usable wheels") {
		t.Errorf("%+v", v)
	}
	c.commit(map[string]string{"web/package-lock.json": strings.Replace(lock, "sha512-Wu1", "sha512-AAA", 1)})
	if v := verify(both); v.FailureCode != "WEB_BOOTSTRAP_FAILED" || !strings.Contains(v.StderrTail, "EINTEGRITY") {
		t.Errorf("%+v", v)
	}
}
