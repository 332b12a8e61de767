package main

import (
	"strings"
	"testing"
)

// mesh.md, scenario 49: no mesh on Windows, and nothing else is the worse for it.
func TestMeshIsNotForWindows(t *testing.T) {
	t.Parallel()
	env := inPane(t, newScene(t), "w1:p1")
	_, errs, code := run(t, env, "", "--toolsets", "link,mesh")
	if code != 2 || !strings.Contains(errs, "PLATFORM_UNSUPPORTED") || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d, %q", code, errs)
	}
	_, errs, code = run(t, env, "", "agent-control", "status")
	if code != 2 || !strings.HasPrefix(errs, "herdr-link agent-control: PLATFORM_UNSUPPORTED: ") || strings.Count(errs, "\n") != 1 {
		t.Errorf("agent-control: exit %d, %q", code, errs)
	}
	h := start(t, env, "--toolsets", "link")
	h.initialize("2025-11-25")
	if all := h.list(); len(all) != 1 {
		t.Errorf("link alone: %q", all)
	}
}
