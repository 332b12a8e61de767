package verify

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"herdr-link/mesh/fault"
	"herdr-link/mesh/store"
)

// checkLocks holds the paths of Python locks to mesh.md §6.3:
// BOOTSTRAP_LOCK_INVALID.
func checkLocks(paths []string) error {
	for i, p := range paths {
		bad := path.IsAbs(p) || strings.Contains(p, `\`) || path.Base(p) != "requirements.lock" || slices.Contains(paths[:i], p) ||
			strings.ContainsFunc(p, unicode.IsControl)
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

const (
	digits  = "0123456789"
	letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	alnum   = letters + digits
)

// begins reports whether s has nothing but characters of all, and one of first at
// its beginning.
func begins(s, first, all string) bool {
	return s != "" && strings.ContainsRune(first, rune(s[0])) && strings.Trim(s, all) == ""
}

// isRequirement reports whether s is a package with its version, such as
// name[extra]==1.0.
func isRequirement(s string) bool {
	name, version, ok := strings.Cut(s, "==")
	if rest, extra := strings.CutSuffix(name, "]"); extra {
		var extras string
		if name, extras, ok = strings.Cut(rest, "["); !ok || strings.Trim(extras, alnum+"._, -") != "" {
			return false
		}
	}
	return ok && begins(name, alnum, alnum+"._-") && strings.ContainsRune(alnum, rune(name[len(name)-1])) && begins(version, alnum, alnum+".!+_-")
}

// isHash reports whether s is an option with a hash that pins.
func isHash(s string) bool {
	sum, ok := strings.CutPrefix(s, "--hash=sha256:")
	return ok && store.IsDigest(sum)
}

// isMarker reports whether s compares names and quoted words, and has nothing
// else, and no option.
func isMarker(s string) bool {
	if s == "" {
		return false
	}
	for s != "" {
		switch c := s[0]; {
		case c == '\'' || c == '"':
			word, rest, ok := strings.Cut(s[1:], s[:1])
			if !ok || strings.Trim(word, alnum+"._ +*-") != "" {
				return false
			}
			s = rest
		case strings.IndexByte("<>=!~", c) >= 0:
			s = strings.TrimPrefix(s[1:], "=")
			s = strings.TrimPrefix(s, "=")
		case strings.IndexByte("abcdefghijklmnopqrstuvwxyz_() \t\n\f\r", c) >= 0:
			s = s[1:]
		default:
			return false
		}
	}
	return true
}

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
	if !isRequirement(strings.TrimSpace(what)) || conditional && !isMarker(condition) {
		return false
	}
	options := strings.Fields("--hash" + hashes)
	for _, o := range options {
		if !isHash(o) {
			return false
		}
	}
	return true
}
