//go:build unix

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"herdr-link/mesh/crash"
	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/store"
	"herdr-link/twin"
)

// credVariable has the credential of the generation before, for the process that
// is going to crash. It is in no file.
const credVariable = "HERDR_LINK_TEST_CREDENTIAL"

func envCredential(env []string) Credential {
	for _, v := range env {
		if words := strings.Fields(strings.TrimPrefix(v, credVariable+"=")); strings.HasPrefix(v, credVariable+"=") {
			return Credential{words[0], words[1], words[2]}
		}
	}
	return Credential{}
}

// plays are the controller's operations. Each but acquire begins with a lease of
// the agent in w1:p1; takeover comes from another pane, after its time.
func plays() []crash.Play {
	play := func(name, pane string, run func(context.Context, *Controllers, Credential) (any, error)) crash.Play {
		return crash.Play{
			Name: name,
			Run: func(ctx context.Context, dir string, d *disk.Disk) (any, error) {
				return run(ctx, controllers(dir, os.Environ(), d, nil), envCredential(os.Environ()))
			},
			Prepare: func(t *testing.T, dir string) []string {
				quickHerdr(t, dir)
				quickAgents(t, dir, "working")
				if name == "acquire" {
					return quickEnv(dir, pane)
				}
				r, err := controllers(dir, quickEnv(dir, "w1:p1"), nil, nil).Acquire(t.Context(), request("lead"))
				must(t, err)
				if name == "takeover" {
					(&field{t: t, dir: dir}).edit("lead", func(m map[string]any) { m["expiresAt"] = "2026-01-01T00:00:00.000Z" })
					quickAgents(t, dir, "working", "blocked") // the caller, and the predecessor
				}
				return append(quickEnv(dir, pane), credVariable+"="+strings.Join([]string{r.ControllerID, r.LeaseID, r.FenceToken}, " "))
			},
			Check: func(t *testing.T, end crash.End) { check(t, name, pane, end) },
		}
	}
	return []crash.Play{
		play("acquire", "w1:p1", func(ctx context.Context, c *Controllers, _ Credential) (any, error) {
			return c.Acquire(ctx, request("lead"))
		}),
		play("resume", "w1:p1", func(ctx context.Context, c *Controllers, _ Credential) (any, error) {
			return c.Resume(ctx, request("lead"))
		}),
		play("takeover", "w1:p0", func(ctx context.Context, c *Controllers, cred Credential) (any, error) {
			return c.Takeover(ctx, request("lead"), cred.LeaseID, false)
		}),
		play("renew", "w1:p1", func(ctx context.Context, c *Controllers, cred Credential) (any, error) {
			return c.Renew(ctx, cred, 1800*time.Second)
		}),
		play("release", "w1:p1", func(ctx context.Context, c *Controllers, cred Credential) (any, error) {
			return c.Release(ctx, cred, "C-1", sum)
		}),
	}
}

// check holds what a crash left to the invariants and the crash table.
func check(t *testing.T, name, pane string, end crash.End) {
	old := envCredential(end.Env)
	var answer store.Controller
	if end.Code == "" && !end.Killed {
		must(t, json.Unmarshal(end.Answer, &answer))
	}
	if end.Code != "" && end.Code != "STATE_IO" {
		t.Errorf("the operation failed with %s", end.Code)
	}
	crash.NoFence(t, end.Dir, old.Fence, answer.FenceToken) // I10
	f := &field{t: t, dir: end.Dir}
	c := controllers(end.Dir, end.Env, nil, nil)
	at, err := c.Terminal(t.Context())
	must(t, err)
	authorised := func(cred Credential) error {
		t.Helper()
		return f.authorise(c, cred, at)
	}

	// What is on disk is the generation before or the new one, whole.
	now := new(store.Controller)
	err = c.store.Load("lead", now)
	if errors.Is(err, fs.ErrNotExist) && name == "acquire" {
		now = nil
	} else if err != nil {
		t.Fatal(err)
	}
	before := name != "acquire" && now.LeaseID == old.LeaseID
	switch {
	case end.Code == "" && !end.Killed && name != "renew" && name != "release" && (now == nil || now.LeaseID != answer.LeaseID):
		t.Errorf("it was answered, and there is %+v", now)
	case before && name != "takeover" && now.State == store.Active:
		must(t, authorised(old)) // I3: nothing came of it, or a renewal
	case before && name == "release" && now.State == store.Released:
		f.want("after the release", authorised(old), "CONTROLLER_RELEASED")
	case now != nil && !before && name != "acquire":
		f.want("the old credential", authorised(old), "FENCE_MISMATCH")
	}
	if answer.FenceToken != "" {
		must(t, authorised(credential(&answer)))
	}

	// A new process goes on at once.
	begun := time.Now()
	next, err := c.Resume(t.Context(), request("lead"))
	if err != nil {
		expected := map[string][]string{"acquire": {"CONTROLLER_NOT_FOUND"}, "release": {"CONTROLLER_RELEASED"}, "takeover": {"CONTROLLER_IDENTITY_CHANGED"}}[name]
		if !slices.Contains(expected, fault.Code(err)) {
			t.Fatalf("resume: %v", err)
		}
		if name == "takeover" {
			next, err = c.Takeover(t.Context(), request("lead"), old.LeaseID, false)
		} else {
			next, err = c.Acquire(t.Context(), request("lead"))
		}
		must(t, err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	must(t, authorised(credential(next)))
	generation := int64(1)
	if now != nil {
		generation = now.Generation + 1
	}
	if next.Generation != generation {
		t.Errorf("generation %d, not %d", next.Generation, generation)
	}
	crash.NoFence(t, end.Dir, old.Fence, answer.FenceToken, next.FenceToken)
	if temps, _ := filepath.Glob(filepath.Join(end.Dir, "state", "*", ".*.tmp")); len(temps) > 0 && !end.Killed && !strings.HasPrefix(end.Op, disk.OpRemove) {
		t.Errorf("left: %q", temps)
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	if twin.Runs(t) { // but for the plays that nobody kills
		return
	}
	for _, p := range plays() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			p.Each(t)
		})
	}
}
