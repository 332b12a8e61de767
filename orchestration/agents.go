package orchestration

import (
	"embed"
	"slices"
	"strings"
)

// The modes that an agent's shells know themselves by, as SHEPHERD_MODE. The
// push policy and herdr_agent_response go by them.
const (
	modePlan      = "plan"
	modeBuild     = "build"
	modeSheepPlan = "sheep-plan"
	modeSheep     = "sheep-build"
	modeReview    = "review"
)

// leaf reports whether a mode is that of an agent which leads nobody.
func leaf(mode string) bool {
	return mode == modeSheepPlan || mode == modeSheep || mode == modeReview
}

// An agent is one of the six, as OpenCode is told of it. All are primary: each
// runs in an OpenCode of its own, in a pane of its own.
type agent struct {
	name        string
	mode        string
	description string
	prompt      string
	model       func(Models) string // nil: the one that is active
	variant     string
	rules       []permission
}

// A permission is what an agent may do with one tool, or with those whose names
// match: one action, or one by what the tool is used on. Order matters.
type permission struct {
	tool   string
	action string // "": see on
	on     []rule
}

// A rule allows or denies what matches the pattern. * stands for anything.
type rule struct{ pattern, action string }

const (
	allow = "allow"
	deny  = "deny"
)

//go:embed prompts
var prompts embed.FS

// prompt joins parts of prompts.
func prompt(parts ...string) string {
	var texts []string
	for _, name := range parts {
		text, err := prompts.ReadFile("prompts/" + name + ".md")
		if err != nil {
			panic(err) // a part that is not there
		}
		texts = append(texts, string(text))
	}
	return strings.TrimSuffix(strings.Join(texts, "\n"), "\n")
}

// The names of the six.
const (
	shepherdPlan  = "shepherd-plan"
	shepherdBuild = "shepherd-build"
	sheepPlan     = "sheep-plan"
	sheepBuild    = "sheep-build"
	shearerLow    = "shearer-review-low"
	shearerMedium = "shearer-review-medium"
)

// Names returns the names of the six agents.
func Names() []string {
	return []string{shepherdPlan, shepherdBuild, sheepPlan, sheepBuild, shearerLow, shearerMedium}
}

// agentTable returns the six. more are tools that shepherd-build may use beside.
// (Specification, sections 2, 3.2 and 3.3.)
func agentTable(more []string) []agent {
	return []agent{
		{
			name: shepherdPlan, mode: modePlan,
			description: "Plans work, with sheep-plan for research, and writes Markdown alone.",
			prompt:      prompt("shepherd-plan", "shepherds", "all"),
			rules: concat(
				one(allow, "grep", "todowrite", "herdr_agent_response"),
				markdown(),
				one(deny, "task"),
				bash(
					on(deny, "*"),
					herdr(),
					starting(sheepPlan),
					gitWriting(),
					on(allow, "git push origin HEAD", "git push -u origin HEAD", "git push --set-upstream origin HEAD"),
					on(deny, "git commit --no-verify*", "git commit * --no-verify*"),
					under(deny, "git push ", "*main*", "*master*", "*:*", "*--no-verify*", "*--force*", "*-f*", "*--delete*"),
					on(deny, "git branch -D*", "git branch -d*", "git worktree remove * --force*"),
					closed(),
					separators(""),
				),
				control(),
			),
		},
		{
			name: shepherdBuild, mode: modeBuild,
			description: "Has an approved plan built, reviewed, integrated and delivered by the others.",
			prompt:      prompt("shepherd-build", "shepherds", "all"),
			rules: concat(
				one(allow, "grep", "herdr_agent_response"),
				one(allow, more...),
				markdown(),
				one(deny, "task"),
				bash(
					on(deny, "*"),
					herdr(),
					starting(sheepPlan, sheepBuild, shearerLow, shearerMedium),
					gitWriting(),
					on(allow, "git push*", "git merge*", "git fetch*", "git pull --ff-only*"),
					under(deny, "git push ", "--force*", "* --force*", "-f*", "* -f*", "*--delete*", "*--no-verify*"),
					on(deny, "git commit *--no-verify*", "git merge *--no-verify*", "git branch -D*", "git branch -d*",
						"git worktree remove * --force*"),
					on(allow, "gh pr create*", "gh pr view*", "gh pr checks*"),
					closed(),
					separators(""),
				),
				control(),
			),
		},
		{
			name: sheepPlan, mode: modeSheepPlan,
			description: "Researches one bounded question and changes nothing.",
			prompt:      prompt("sheep-plan", "all"),
			model:       func(m Models) string { return m.Worker },
			rules: concat(
				one(deny, "*"),
				reading(),
				one(allow, "glob", "grep", "list", "todowrite"),
				one(deny, "edit", "apply_patch", "herdr_agent_response", "task"),
				unattended(),
				bash(on(deny, "*"), gitReading(), separators("")),
			),
		},
		{
			name: sheepBuild, mode: modeSheep,
			description: "Builds one bounded task and commits it locally.",
			prompt:      prompt("sheep-build", "all"),
			model:       func(m Models) string { return m.Worker },
			rules: concat(
				one(allow, "grep"),
				one(deny, "herdr_agent_response", "task"),
				unattended(),
				bash(
					on(allow, "*"),
					on(deny, "git push*", "git merge*", "git pull*", "git branch -D*", "git branch -d*", "git rebase*", "git reset*",
						"git commit *--no-verify*", "git commit --no-verify*"),
					separators("git "),
					on(deny, "*git push*", "git -*", "*git -* push*", "*core.hooksPath*", "*SHEPHERD_MODE*", "*GIT_CONFIG*", "git config*",
						"git remote*", "git fetch*", "git tag*", "git cherry-pick*", "git clean*", "git stash*", "git commit *--amend*",
						"herdr*", "*herdr-link*", "gh*", "npm publish*"),
				),
			),
		},
		shearer(shearerLow, "low", "Reviews a local, mechanical change that has strong checks."),
		shearer(shearerMedium, "medium", "Reviews a change that needs real thought."),
	}
}

func shearer(name, variant, description string) agent {
	return agent{
		name: name, mode: modeReview,
		description: description,
		prompt:      strings.ReplaceAll(prompt("shearer", "all"), "@ROLE@", name),
		model:       func(m Models) string { return m.Reviewer },
		variant:     variant,
		rules: concat(
			one(deny, "*"),
			reading(),
			one(allow, "glob", "grep", "list"),
			one(deny, "edit", "apply_patch", "todowrite", "herdr_agent_response", "task"),
			unattended(),
			bash(on(deny, "*"), gitReading(), separators("")),
		),
	}
}

// definition is the agent as OpenCode's configuration has it.
func (a agent) definition(m Models) object {
	o := object{{"description", a.description}, {"mode", "primary"}}
	if a.model != nil && a.model(m) != "" {
		o = append(o, member{"model", a.model(m)})
	}
	if a.variant != "" {
		o = append(o, member{"variant", a.variant})
	}
	permissions := object{}
	for _, p := range a.rules {
		if p.action != "" {
			permissions = append(permissions, member{p.tool, p.action})
			continue
		}
		rules := object{}
		for _, r := range p.on {
			rules = append(rules, member{r.pattern, r.action})
		}
		permissions = append(permissions, member{p.tool, rules})
	}
	return append(o, member{"prompt", a.prompt}, member{"permission", permissions})
}

func concat[T any](lists ...[]T) []T { return slices.Concat(lists...) }

// one makes a permission with one action for each of the tools.
func one(action string, tools ...string) (list []permission) {
	for _, tool := range tools {
		list = append(list, permission{tool: tool, action: action})
	}
	return list
}

func bash(lists ...[]rule) []permission { return []permission{{tool: "bash", on: concat(lists...)}} }

// on makes a rule for each of the patterns.
func on(action string, patterns ...string) []rule { return under(action, "", patterns...) }

// under is on with the same text in front of each pattern.
func under(action, prefix string, patterns ...string) (list []rule) {
	for _, p := range patterns {
		list = append(list, rule{prefix + p, action})
	}
	return list
}

// separators deny what would chain or redirect commands. They are the last
// rules of a list: what comes before cannot allow it.
func separators(prefix string) []rule {
	return under(deny, prefix, "*;*", "*&&*", "*||*", "*|*", "*>*", "*<*")
}

// gitReading allows to look at a repository, with exactly these commands.
func gitReading() []rule {
	return under(allow, "git ",
		"status", "status --short", "status --porcelain", "diff", "diff --cached", "diff --stat", "diff --cached --stat",
		"log", "log --oneline", "log --oneline -10", "show", "branch --show-current", "branch --list", "rev-parse HEAD",
		"rev-parse --show-toplevel", "rev-parse --abbrev-ref HEAD", "merge-base HEAD main", "merge-base HEAD master", "ls-files")
}

// gitWriting allows to look with any options, to commit Markdown, and worktrees.
func gitWriting() []rule {
	return under(allow, "git ",
		"status*", "diff*", "log*", "show*", "branch*", "rev-parse*", "merge-base*", "worktree*", "add *.md", "add **/*.md", "commit*")
}

// herdr allows what a shepherd needs of Herdr. A keyboard is not among it.
func herdr() []rule {
	return on(allow,
		"Get-Item Env:HERDR_ENV", "printenv HERDR_ENV",
		"herdr --help", "herdr agent", "herdr agent list*", "herdr agent prompt*", "herdr agent wait*", "herdr agent get*", "herdr agent read*",
		"herdr-link orchestration interrupt *",
		"herdr pane current*", "herdr pane list*", "herdr pane layout*", "herdr pane split*", "herdr pane read*",
		"herdr tab list*", "herdr tab create*", "herdr pane get*",
		"herdr worktree list*", "herdr worktree create *", "herdr worktree open *")
}

// starting allows to start these roles, and no other arguments for OpenCode.
func starting(roles ...string) (list []rule) {
	list = under(allow, "herdr agent start * --kind opencode --pane * -- --agent ", roles...)
	return append(list, on(deny, "herdr agent start *-- *-- *", "herdr agent start *--auto*")...)
}

// closed denies a shepherd the other spellings of what it may not do with Git.
func closed() []rule {
	return concat(
		under(deny, "git ", "* --output*", "* --ext-diff*", "* --textconv*"),
		under(deny, "git push ", "*+*", "*--mirror*", "*--prune*", "*--force-*", "-d *", "* -d *", "* :*", "*--receive-pack*", "*--exec*"),
		under(deny, "git commit ", "-a*", "--all*", "* --all*", "* -a*", "-n*", "* -n *", "--amend*", "* --amend*"),
		under(deny, "git branch ", "-m*", "-M*", "-f*", "--force*", "--delete*"),
		under(deny, "git worktree remove ", "--force*", "-f*"),
	)
}

// markdown allows to write Markdown, but none that instructs agents.
func markdown() []permission {
	rules := concat(
		on(deny, "*"), on(allow, "*.md", "**/*.md"),
		on(deny, "*.opencode/*", "*.claude/*", "*.agents/*", "*.github/*", "*AGENTS.md", "*CLAUDE.md", "*SKILL.md"))
	return []permission{{tool: "edit", on: rules}, {tool: "apply_patch", on: rules}}
}

// reading allows to read all but secrets, for which OpenCode would ask.
func reading() []permission {
	return []permission{{tool: "read", on: concat(on(allow, "*"), on(deny, "*.env", "*.env.*"), on(allow, "*.env.example"))}}
}

// unattended denies a leaf what it would have to ask for, since nobody is there
// to answer, and the tools with which it could lead.
func unattended() []permission {
	return one(deny, "external_directory", "doom_loop", "question", "herdr*", "*herdr-link*")
}

// control denies a shepherd the tools of other toolsets that would lead it past
// its rules for bash. It stands last.
func control() []permission {
	return one(deny, "*herdr_pane_run", "*herdr_pane_send_text", "*herdr_agent_start", "*herdr_owned_*_start")
}

// IsTool reports whether a name can be one of a tool that shepherd-build is
// allowed beside. It may have * in it, but must not be one that it has a rule for.
func IsTool(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if name == "" || len(name) > 128 || strings.Trim(name, letters+"0123456789_-*") != "" || !strings.Contains(letters, name[:1]) {
		return false
	}
	return !slices.ContainsFunc(agentTable(nil)[1].rules, func(p permission) bool { return p.tool == name })
}
