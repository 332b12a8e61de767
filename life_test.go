package main

import (
	"slices"
	"testing"
)

func TestFirstUse(t *testing.T) {
	s := newScene(t)
	h := start(t, inPane(t, s, "w1:p1"))
	h.initialize("2025-11-25")
	if got := h.list(); !slices.Equal(got, []string{"herdr_link"}) {
		t.Fatalf("dormant: %v", got)
	}
	h.call("herdr_link", "{}")
	if got := h.list(); len(got) != 4 {
		t.Fatalf("active: %v", got)
	}
	if r := h.call("herdr_link_send", `{"to":"reviewer","message":"hi"}`); r.IsError {
		t.Fatal(r.text())
	}
	h.stdin.Close()
	if code := h.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
}
