package orchestration

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// written is the data file as the plugin gets it, decoded with its order.
func written(t *testing.T, d Data) (agents []entry) {
	t.Helper()
	d.Tool.Properties = json.RawMessage(`{}`)
	text, err := d.encode()
	if err != nil {
		t.Fatal(err)
	}
	root := ordered(t, text)
	return find(t, root, "agents").members
}

// An entry is a member of a JSON object, in the order of the text.
type entry struct {
	key     string
	text    string  // of a string or null
	members []entry // of an object
}

func ordered(t *testing.T, text []byte) []entry {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	var read func() entry
	read = func() (e entry) {
		tok, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		if tok != json.Delim('{') {
			e.text = fmt.Sprint(tok)
			return e
		}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				t.Fatal(err)
			}
			m := read()
			m.key = key.(string)
			e.members = append(e.members, m)
		}
		_, err = dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := read()
	if _, err := dec.Token(); err != io.EOF {
		t.Fatal("more than one value")
	}
	return e.members
}

func find(t *testing.T, list []entry, key string) entry {
	t.Helper()
	i := slices.IndexFunc(list, func(e entry) bool { return e.key == key })
	if i < 0 {
		t.Fatalf("no %q in it", key)
	}
	return list[i]
}

// The file testdata/agents.txt shows what each agent is and may do, in the order
// that counts. It was compared with the specification by hand; a change of it is
// one of what an agent may do.
func TestAgents(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, a := range written(t, Data{Models: Models{"p/worker", "p/reviewer"}, AllowTools: []string{"forge_*", "deploy"}}) {
		fmt.Fprintf(&b, "%s\n", a.key)
		for _, m := range a.members {
			switch m.key {
			case "prompt", "description":
				if m.text == "" {
					t.Errorf("%s has no %s", a.key, m.key)
				}
			case "permission":
				for _, p := range m.members {
					if p.text != "" {
						fmt.Fprintf(&b, "  %-5s %s\n", p.text, p.key)
					}
					for _, r := range p.members {
						fmt.Fprintf(&b, "  %-5s %s: %s\n", r.text, p.key, r.key)
					}
				}
			default:
				fmt.Fprintf(&b, "  %s = %s\n", m.key, m.text)
			}
		}
	}
	const golden = "testdata/agents.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s is not so any more (-update writes it anew):\n%s", golden, b.String())
	}
}

// Every bash list begins with * and ends with what no rule before it can allow.
func TestBashOrder(t *testing.T) {
	t.Parallel()
	last := []string{"*;*", "*&&*", "*||*", "*|*", "*>*", "*<*"}
	for _, a := range written(t, Data{}) {
		rules := find(t, find(t, a.members, "permission").members, "bash").members
		end := slices.Clone(last)
		first := deny
		if a.key == sheepBuild {
			first, end = allow, nil
			for _, p := range last {
				end = append(end, "git "+p)
			}
			end = append(end, "*git push*", "git -*", "*git -* push*", "*core.hooksPath*", "*SHEPHERD_MODE*", "*GIT_CONFIG*", "git config*",
				"git remote*", "git fetch*", "git tag*", "git cherry-pick*", "git clean*", "git stash*", "git commit *--amend*",
				"herdr*", "*herdr-link*", "gh*", "npm publish*")
		}
		if rules[0].key != "*" || rules[0].text != first {
			t.Errorf("%s: the first rule is %+v", a.key, rules[0])
		}
		for i, r := range rules[len(rules)-len(end):] {
			if r.key != end[i] || r.text != deny {
				t.Errorf("%s: rule %d from the end is %+v, want %q denied", a.key, len(end)-i, r, end[i])
			}
		}
	}
}

// JavaScript keeps the first place of a key that comes twice, and the last value.
func TestNoRuleTwice(t *testing.T) {
	t.Parallel()
	var look func(where string, list []entry)
	look = func(where string, list []entry) {
		seen := map[string]bool{}
		for _, e := range list {
			if seen[e.key] {
				t.Errorf("%s has %q twice", where, e.key)
			}
			if seen[e.key] = true; strings.Trim(e.key, "0123456789") == "" {
				t.Errorf("%s has the number %q, which JavaScript puts first", where, e.key)
			}
			look(where+" "+e.key, e.members)
		}
	}
	look("the data", written(t, Data{AllowTools: []string{"a", "b*"}}))
}

// decide is how OpenCode 1.18 decides: over its own base rules and the agent's,
// the last that matches. In a pattern a blank and * at the end may be missing.
func decide(t *testing.T, agents []entry, name, tool, on string) string {
	t.Helper()
	matches := func(pattern, text string) bool {
		expr := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(pattern))
		if rest, ok := strings.CutSuffix(expr, ` .*`); ok {
			expr = rest + `( .*)?`
		}
		return regexp.MustCompile(`(?s)\A` + expr + `\z`).MatchString(text)
	}
	action := allow
	if tool == "doom_loop" || tool == "external_directory" {
		action = "ask"
	}
	for _, p := range find(t, find(t, agents, name).members, "permission").members {
		if !matches(p.key, tool) {
			continue
		}
		if p.text != "" {
			action = p.text
		}
		for _, r := range p.members {
			if matches(r.key, on) {
				action = r.text
			}
		}
	}
	return action
}

// What the rules come to, for each of the six.
func TestDecisions(t *testing.T) {
	t.Parallel()
	agents := written(t, Data{AllowTools: []string{"forge_*"}})
	for _, test := range []struct {
		agents, tool string
		allowed      []string
		denied       []string
	}{
		{"shepherd-plan shepherd-build", "bash", []string{
			"printenv HERDR_ENV", "herdr agent list", "herdr agent prompt worker do it", "herdr agent wait worker --until done", "herdr agent get w",
			"herdr agent read w --lines 40", "herdr pane split w1:p1 --direction right", "herdr pane get w1:p2", "herdr tab create", "herdr tab list",
			"herdr worktree create feature", "herdr worktree open feature", "herdr worktree list", "herdr-link orchestration interrupt w",
			"herdr agent start a --kind opencode --pane w1:p4 -- --agent sheep-plan",
			"git status", "git status --short", "git diff HEAD~1", "git log -3 --stat", "git add plan.md", "git add docs/plan.md", "git commit -m plan",
			"git worktree add ../x", "git worktree remove ../x", "git branch feature", "git push origin HEAD", "git push -u origin HEAD", "git push --set-upstream origin HEAD",
		}, []string{
			"ls", "cat x", "printenv", "herdr agent send-keys w ctrl+c", "herdr agent rename w x", "herdr pane run w1:p4 ls", "herdr pane send-text w1:p4 x",
			"herdr pane close w1:p2", "herdr worktree remove feature", "herdr-link peers", "herdr-link orchestration install", "herdr-link send w x",
			"herdr agent start a --kind claude --pane w1:p4 -- --agent sheep-plan", "herdr agent start a --kind opencode --pane w1:p4 -- --agent build",
			"herdr agent start a --kind opencode --pane w1:p4 -- --model x -- --agent sheep-plan",
			"herdr agent start a --kind opencode --pane w1:p4 --auto -- --agent sheep-plan",
			"herdr agent start a --kind opencode --pane w1:p4 -- --auto --agent sheep-plan",
			"herdr agent start a -- --kind opencode --pane w1:p4 -- --agent sheep-plan",
			"git add main.go", "git push --force origin HEAD", "git push -f", "git push origin +HEAD", "git push --mirror", "git push --prune origin",
			"git push --force-with-lease origin HEAD", "git push -d origin x", "git push origin -d x", "git push origin :x", "git push origin --delete x",
			"git push --receive-pack=x origin HEAD", "git push --exec=x origin", "git push --no-verify origin HEAD",
			"git commit -a -m x", "git commit --all -m x", "git commit -m x --all", "git commit -m x -am", "git commit -n -m x", "git commit -m x -n",
			"git commit --amend", "git commit -m x --amend", "git commit --no-verify -m x", "git commit -m x --no-verify",
			"git branch -m x", "git branch -M x", "git branch -f x", "git branch --force x", "git branch --delete x", "git branch -d x", "git branch -D x",
			"git worktree remove --force x", "git worktree remove -f x", "git worktree remove x --force",
			"git diff --output=x", "git log --output x", "git show HEAD --ext-diff", "git diff --textconv", "X=1 git status", "git -c a=b status",
			"git status; ls", "git status && ls", "git status || ls", "git log | head", "git log > x", "git log < x", "herdr agent prompt w a > b",
		}},
		{"shepherd-plan", "bash", nil, []string{
			"git push", "git push origin main", "git push origin master", "git push origin HEAD:main", "git push origin feature", "git merge x", "git fetch", "git pull --ff-only",
			"herdr agent start a --kind opencode --pane w1:p4 -- --agent sheep-build", "herdr agent start a --kind opencode --pane w1:p4 -- --agent shearer-review-low",
			"gh pr create", "gh pr view",
		}},
		{"shepherd-build", "bash", []string{
			"git push", "git push origin main", "git push origin HEAD:feature", "git merge x", "git fetch origin", "git pull --ff-only", "gh pr create --fill", "gh pr view 3", "gh pr checks",
			"herdr agent start a --kind opencode --pane w1:p4 -- --agent sheep-build", "herdr agent start a --kind opencode --pane w1:p4 -- --agent shearer-review-low",
			"herdr agent start a --kind opencode --pane w1:p4 -- --agent shearer-review-medium",
		}, []string{"git pull", "git merge x --no-verify", "gh pr merge 3", "gh repo delete", "git rebase main", "git reset --hard"}},
		{"shepherd-plan shepherd-build", "edit", []string{"plan.md", "docs/plan.md", "docs/a/b.md"}, []string{
			"main.go", "AGENTS.md", "docs/AGENTS.md", "CLAUDE.md", ".claude/x.md", ".opencode/agent/sheep-build.md", "sub/.opencode/x.md", ".agents/x.md",
			".github/x.md", "skills/x/SKILL.md", "x.md.go",
		}},
		{"shepherd-plan shepherd-build", "apply_patch", []string{"plan.md"}, []string{"main.go", "AGENTS.md"}},
		{"sheep-plan shearer-review-low shearer-review-medium", "bash", []string{
			"git status", "git diff --cached --stat", "git log --oneline -10", "git show", "git ls-files", "git merge-base HEAD main", "git rev-parse HEAD", "git branch --list",
		}, []string{
			"ls", "cat x", "git show HEAD", "git log -3", "git branch x", "git commit -m x", "git push", "git status; ls", "git diff > x", "herdr agent list", "printenv",
		}},
		{"sheep-build", "bash", []string{
			"ls", "go test ./...", "git add main.go", "git commit -m x", "git status", "ls > x; true", "git log", "npm ci",
		}, []string{
			"git push", "git push origin HEAD", "git merge x", "git pull", "git branch -D x", "git branch -d x", "git rebase main", "git reset --hard", "git commit --no-verify -m x",
			"git commit -m x --no-verify", "git commit -m x --amend", "git commit --amend", "git -c x=y push", "git -C dir push", "git -C dir status", "X=1 git push", "sh -c 'git push'",
			"sh -c 'git -C x push'", "git status; ls", "git log | head", "git config user.name x", "git remote add x", "git fetch", "git tag v1", "git cherry-pick x", "git clean -fd",
			"git stash", "herdr agent list", "/usr/bin/herdr-link peers", "herdr-link peers", "gh pr create", "npm publish", "SHEPHERD_MODE=none git status",
			"GIT_CONFIG_COUNT=0 git status", "git -c core.hooksPath=/x push", "x core.hooksPath",
		}},
		{"sheep-plan shearer-review-low shearer-review-medium", "read", []string{"main.go", "a/.env.example"}, []string{".env", "a/.env", ".env.local"}},
	} {
		for name := range strings.FieldsSeq(test.agents) {
			for _, on := range test.allowed {
				if got := decide(t, agents, name, test.tool, on); got != allow {
					t.Errorf("%s: %s of %q: %s", name, test.tool, on, got)
				}
			}
			for _, on := range test.denied {
				if got := decide(t, agents, name, test.tool, on); got != deny {
					t.Errorf("%s: %s of %q: %s", name, test.tool, on, got)
				}
			}
		}
	}
	for name, tools := range map[string]struct{ allowed, denied string }{
		shepherdPlan: {"grep todowrite herdr_agent_response herdr_link herdr_link_send herdr_link_herdr_pane_read",
			"task herdr_link_herdr_pane_run herdr_link_herdr_pane_send_text herdr_link_herdr_agent_start herdr_link_herdr_owned_agent_start"},
		shepherdBuild: {"grep herdr_agent_response forge_deploy herdr_link_send",
			"task herdr_link_herdr_pane_run herdr_pane_send_text herdr_link_herdr_agent_start herdr_link_herdr_owned_lane_start"},
		sheepPlan: {"glob grep list todowrite",
			"edit apply_patch task herdr_agent_response webfetch skill herdr_link herdr_link_send herdr-link_herdr_link other_tool external_directory doom_loop question"},
		sheepBuild:    {"grep edit apply_patch webfetch read", "task herdr_agent_response herdr_link herdr_link_send x_herdr-link_send external_directory doom_loop question"},
		shearerLow:    {"glob grep list", "edit apply_patch todowrite task herdr_agent_response webfetch herdr_link external_directory doom_loop question"},
		shearerMedium: {"glob grep list", "edit apply_patch todowrite task herdr_agent_response webfetch herdr_link external_directory doom_loop question"},
	} {
		for tool := range strings.FieldsSeq(tools.allowed) {
			if got := decide(t, agents, name, tool, "x"); got != allow {
				t.Errorf("%s: %s: %s", name, tool, got)
			}
		}
		for tool := range strings.FieldsSeq(tools.denied) {
			if got := decide(t, agents, name, tool, "x"); got != deny {
				t.Errorf("%s: %s: %s", name, tool, got)
			}
		}
	}
}

// The workers' model is that of both sheep and of no reviewer, and the other way
// round. The reviewers have their variant in any case.
func TestModels(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		models Models
		want   map[string]string
	}{
		{Models{}, map[string]string{}},
		{Models{Worker: "p/w"}, map[string]string{sheepPlan: "p/w", sheepBuild: "p/w"}},
		{Models{Reviewer: "p/r"}, map[string]string{shearerLow: "p/r", shearerMedium: "p/r"}},
	} {
		for _, a := range written(t, Data{Models: test.models}) {
			got := map[string]string{}
			for _, m := range a.members {
				got[m.key] = m.text
			}
			if got["model"] != test.want[a.key] {
				t.Errorf("%+v: %s has the model %q", test.models, a.key, got["model"])
			}
			variant := map[string]string{shearerLow: "low", shearerMedium: "medium"}[a.key]
			if got["variant"] != variant || got["mode"] != "primary" {
				t.Errorf("%s: variant %q, mode %q", a.key, got["variant"], got["mode"])
			}
		}
	}
}

// Each prompt names what it must make its agent do.
func TestPrompts(t *testing.T) {
	t.Parallel()
	all := "instructions of the repository first|not yours|Do not guess|stop and report"
	leads := "HERDR_ENV|say that you need a pane|--kind opencode --pane PANE -- --agent ROLE|no model, no `--auto`|unique|herdr_agent_response alone|each cursor|in order|" +
		"Never take it for the result|wait, and try again|partial state|finish other than stop|length|herdr-link orchestration interrupt NAME|truly stuck|Never type commands|" +
		"generators|keep the parts|do not repeat|; & \\| < >|tools of herdr-link|amend|" +
		"--until working --timeout 20000|before OpenCode takes input is lost|none of this task|narrower than 40 columns|herdr tab create|ends OpenCode itself|free shell again"
	for name, facts := range map[string]string{
		shepherdPlan: leads + "|status, branches, worktrees, HEAD and history|todo|Markdown alone|plans, research notes, briefs, handoffs|Never start a role that can implement|" +
			"git push origin HEAD|git push -u origin HEAD|git push --set-upstream origin HEAD|right before a push|detached HEAD|orchestration.protectedBranch|sheep-plan alone|" +
			"Plan-ID: <topic>-<YYYYMMDD>-<sequence>|Base-Commit: <full hash>|Status: PROPOSED|scope|tasks in order|files and symbols|dependencies|limits of what is delegated|" +
			"acceptance criteria|verification|order of\n?integration|risks|open decisions|and stop|switches to shepherd-build",
		shepherdBuild: leads + "|approves the plan that was shown last|Without a plan|Executing Plan-ID|Approved Base-Commit|Current HEAD|diverged|mechanical\ndrift|Plan anew or ask|" +
			"from a commit of\nsheep-build|Never force a push|rewrite history|task_id, plan_id, base_commit, objective, owned_paths, forbidden_paths, dependencies, acceptance_criteria|" +
			"verification, escalate_if, deliver|Settle what is ambiguous|contradicts the contract|scope grows|migration|permission is missing|step fails again|" +
			"sheep-plan for research|sheep-build for code|strong deterministic checks|security, architecture, migrations, public API, deployment|before a review|" +
			"Never what the worker said|PASS|REWORK|ESCALATE|two failed rounds|reviewed commits alone|whole repository afterwards|only on GitHub|within what the user asked|" +
			"assignments, commits, checks, verdicts|deviations, open risks|source of truth|its logs",
		sheepPlan: "one bounded question|no edit, commit, change of a branch or worktree, push, installation|start of an agent|across boundaries|cite files and symbols|current behaviour, recommendation, alternatives|" +
			"dependencies, edge cases, risks|uncertainties, blockers",
		sheepBuild: "smallest complete change|inside the paths that it owns|repository's checks|all intended changes locally|start agents|push, pull, merge, rebase, reset, delete a branch|" +
			"pull request|deploy|round a hook|in stages|exact partial state|task id, plan id, commit, files, commands and their results, assumptions, risks, blockers",
		shearerLow:    "review independently|change nothing|evidence in the repository|Ignore how the worker argues|never repair|format, lint, types, tests, build and secrets|edge cases|exactly one word|PASS|REWORK|ESCALATE|comes after the findings",
		shearerMedium: "review independently|exactly one word",
	} {
		var text string
		for _, a := range agentTable(nil) {
			if a.name == name {
				text = a.prompt
			}
		}
		flat := strings.Join(strings.Fields(text), " ")
		if !strings.HasPrefix(flat, "You are "+name+".") || strings.Contains(flat, "@") || strings.HasSuffix(text, "\n") {
			t.Errorf("%s: %q", name, text)
		}
		for _, fact := range strings.Split(strings.ReplaceAll(facts+"|"+all, `\|`, "\x00"), "|") {
			fact = strings.Join(strings.Fields(strings.ReplaceAll(strings.ReplaceAll(fact, "\x00", "|"), "\n?", " ")), " ")
			if !strings.Contains(flat, fact) {
				t.Errorf("%s is not told %q", name, fact)
			}
		}
	}
}

func TestIsTool(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"forge_deploy": true, "forge_*": true, "a-b": true, "A1": true,
		"": false, "*": false, "1a": false, "_a": false, "a b": false, "a\n": false, "ä": false, strings.Repeat("a", 129): false,
		"bash": false, "edit": false, "apply_patch": false, "task": false, "grep": false, "herdr_agent_response": false,
	} {
		if got := IsTool(name); got != want {
			t.Errorf("IsTool(%q) = %t", name, got)
		}
	}
}

func TestIsModel(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"a/b": true, "openrouter/x/y": true, "litellm/glm-5.3-flash": true,
		"": false, "a": false, "/b": false, "a/": false, "a /b": false, "a/b\n": false, "a/\x7f": false, "a/" + strings.Repeat("b", 300): false,
	} {
		if got := IsModel(s); got != want {
			t.Errorf("IsModel(%q) = %t", s, got)
		}
	}
}
