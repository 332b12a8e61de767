package herdrcli

import "strings"

// What Herdr's ids and names look like, as regular expressions. Ids are opaque
// beyond that. (herdr-cli.md §4; control.md §2)
const (
	WorkspacePattern = `^w[0-9A-Za-z]{1,16}$`
	TabPattern       = `^w[0-9A-Za-z]{1,16}:t[0-9A-Za-z]{1,16}$`
	PanePattern      = `^w[0-9A-Za-z]{1,16}:p[0-9A-Za-z]{1,16}$`
	NamePattern      = `^[a-z][a-z0-9_-]{0,31}$`
	// TargetPattern is a name or a pane's id.
	TargetPattern = `^([a-z][a-z0-9_-]{0,31}|w[0-9A-Za-z]{1,16}:p[0-9A-Za-z]{1,16})$`
)

// Kinds are the agents that Herdr can start.
const Kinds = "pi claude codex gemini cursor devin agy cline omp mastracode opencode copilot kimi kiro droid amp grok hermes kilo qodercli maki"

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
	alnum  = digits + lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// only reports whether s has from min to max bytes, all of set.
func only(s, set string, min, max int) bool {
	return len(s) >= min && len(s) <= max && strings.Trim(s, set) == ""
}

// IsWorkspace reports whether s matches WorkspacePattern.
func IsWorkspace(s string) bool {
	rest, ok := strings.CutPrefix(s, "w")
	return ok && only(rest, alnum, 1, 16)
}

// IsTab reports whether s matches TabPattern.
func IsTab(s string) bool { return isPart(s, "t") }

// IsPane reports whether s matches PanePattern.
func IsPane(s string) bool { return isPart(s, "p") }

func isPart(s, kind string) bool {
	workspace, part, _ := strings.Cut(s, ":")
	rest, ok := strings.CutPrefix(part, kind)
	return ok && IsWorkspace(workspace) && only(rest, alnum, 1, 16)
}

// IsName reports whether s matches NamePattern.
func IsName(s string) bool {
	return s != "" && strings.Contains(lower, s[:1]) && only(s, lower+digits+"_-", 1, 32)
}

// IsTarget reports whether s matches TargetPattern.
func IsTarget(s string) bool { return IsName(s) || IsPane(s) }
