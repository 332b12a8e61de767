package verify

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"herdr-link/mesh/fault"
)

// checkLocks holds the paths of Python locks to mesh.md §6.3:
// BOOTSTRAP_LOCK_INVALID.
func checkLocks(paths []string) error {
	for i, p := range paths {
		bad := path.IsAbs(p) || strings.Contains(p, `\`) || path.Base(p) != "requirements.lock" || slices.Contains(paths[:i], p) ||
			strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7F })
		for part := range strings.SplitSeq(p, "/") {
			bad = bad || part == "" || part == "." || part == ".." || strings.TrimSpace(part) != part
		}
		if bad {
			return fault.New("BOOTSTRAP_LOCK_INVALID", "argument bootstrap_python_locks[%d] must be the path of a requirements.lock below the worktree, "+
				"with / between its parts and none of them . or .., and not be there twice", i)
		}
	}
	return nil
}

// A package of a requirements.lock: its name, perhaps with extras, its version
// and perhaps a marker. What follows are hashes alone.
var (
	requirement = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._, -]*\])?==[A-Za-z0-9][A-Za-z0-9.!+_-]*$`)
	hashOption  = regexp.MustCompile(`^--hash=sha256:[0-9a-fA-F]{64}$`)
	// A marker compares names and quoted words: nothing else, and no option.
	marker = regexp.MustCompile(`^(?:[a-z_]+|'[A-Za-z0-9._ +*-]*'|"[A-Za-z0-9._ +*-]*"|[()]|[<>=!~]=?=?|\s)+$`)
)

// pinnedPython reports whether a requirements.lock has nothing but packages that
// are pinned by version and hash, and at least one.
func pinnedPython(text []byte) bool {
	if !utf8.Valid(text) {
		return false
	}
	entries, entry := 0, ""
	for line := range strings.SplitSeq(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n") {
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7F || r == 0x85 || r == 0x2028 || r == 0x2029 }) {
			return false // something that others may take for the end of a line
		}
		if trimmed := strings.TrimSpace(line); entry == "" && (trimmed == "" || strings.HasPrefix(trimmed, "#")) {
			continue
		}
		part, goesOn := strings.CutSuffix(line, `\`)
		entry += part + " "
		if goesOn {
			continue
		}
		if !pinned(entry) {
			return false
		}
		entries, entry = entries+1, ""
	}
	return entries > 0 && entry == ""
}

// pinned reports whether an entry, its lines joined, is one package with hashes.
func pinned(entry string) bool {
	what, hashes, _ := strings.Cut(entry, "--hash")
	what, condition, conditional := strings.Cut(what, ";")
	if !requirement.MatchString(strings.TrimSpace(what)) || conditional && !marker.MatchString(condition) {
		return false
	}
	options := strings.Fields("--hash" + hashes)
	for _, o := range options {
		if !hashOption.MatchString(o) {
			return false
		}
	}
	return true
}

// pinnedWeb reports whether a package-lock.json has npm fetch nothing but what
// it pins, over https.
func pinnedWeb(text []byte) bool {
	// Names of members are compared as npm does, not as encoding/json would do for
	// a struct: letters of another size make another member.
	var lock map[string]json.RawMessage
	var version int
	var packages map[string]map[string]any
	if json.Unmarshal(text, &lock) != nil || json.Unmarshal(lock["lockfileVersion"], &version) != nil || version != 2 && version != 3 ||
		json.Unmarshal(lock["packages"], &packages) != nil || len(packages) == 0 {
		return false
	}
	for where, p := range packages {
		if !pinnedPackage(where, p) {
			return false
		}
	}
	return true
}

// pinnedPackage reports whether a package is this repository's own, is part of
// another one, or is pinned.
func pinnedPackage(where string, p map[string]any) bool {
	resolved, has := p["resolved"].(string)
	integrity, _ := p["integrity"].(string)
	switch {
	case p["resolved"] != nil && !has:
		return false
	case p["link"] == true: // to a folder below web: no other one is there
		return has && !strings.Contains(resolved, ":")
	case has:
		return strings.HasPrefix(resolved, "https://") && integrity != "" || strings.HasPrefix(resolved, "file:") && !strings.HasPrefix(resolved, "file://")
	case !strings.Contains("/"+where+"/", "/node_modules/"):
		return true
	}
	return p["inBundle"] == true || integrity != ""
}
