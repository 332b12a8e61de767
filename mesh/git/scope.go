package git

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"herdr-link/mesh/fault"
)

const (
	maxScope  = 200 // bytes
	maxScopes = 500
)

// Scopes checks the paths that a writer wants to own and those that it wants
// nobody to change, and returns them cleaned, sorted and unique. root is that of
// the worktree. Codes: SCOPE_INVALID, SCOPE_SYMLINK, SCOPE_LOCKED.
func Scopes(root string, owned, locked []string, ignoreCase bool) ([]string, []string, error) {
	if len(owned) == 0 {
		return nil, nil, invalid("a writer has to own a path at least")
	}
	owned, err := scopes(root, owned)
	if err != nil {
		return nil, nil, err
	}
	locked, err = scopes(root, locked)
	if err != nil {
		return nil, nil, err
	}
	if a, b, found := first(owned, locked, ignoreCase); found {
		return nil, nil, fault.New("SCOPE_LOCKED", "a path is to be owned and locked").With("owned", a).With("locked", b)
	}
	return owned, locked, nil
}

func invalid(format string, args ...any) *fault.Fault {
	return fault.New("SCOPE_INVALID", format, args...)
}

func scopes(root string, list []string) ([]string, error) {
	if len(list) > maxScopes {
		return nil, invalid("there are more than %d scopes", maxScopes)
	}
	clean := make([]string, 0, len(list))
	for _, s := range list {
		c, err := Scope(s)
		if err == nil {
			err = plain(root, c)
		}
		if err != nil {
			return nil, err
		}
		clean = append(clean, c)
	}
	slices.Sort(clean)
	return slices.Compact(clean), nil
}

// Scope reads one scope, a path from the worktree's root of a file or folder that
// need not exist, and returns it cleaned. Nothing is looked at. Code: SCOPE_INVALID.
func Scope(s string) (string, error) {
	refuse := func(rule string) (string, error) {
		return "", invalid("a scope %s", rule).With("scope", s)
	}
	switch {
	case s == "" || len(s) > maxScope:
		return "", invalid("a scope has 1 to %d bytes", maxScope)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, breaks):
		return "", invalid("a scope is UTF-8 without control characters and line breaks")
	case strings.Contains(s, `\`):
		return refuse("has no backslash")
	case strings.ContainsAny(s, "*?[]{}"):
		return refuse("is a path and no pattern")
	case strings.HasPrefix(s, "/"):
		return refuse("is relative to the worktree")
	case slices.Contains(strings.Split(s, "/"), ".."):
		return refuse("has no ..")
	}
	if s = path.Clean(s); s == "." {
		return refuse("is not the whole worktree")
	}
	return s, nil
}

// breaks reports whether a character is a control character or breaks a line. A
// record has six bytes for most of them, and a log or screen other things.
func breaks(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }

// plain reports that no part of a scope that exists is a symlink: through one,
// two scopes could be one.
func plain(root, scope string) error {
	at := root
	for part := range strings.SplitSeq(scope, "/") {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return invalid("the path of a scope cannot be looked at").With("scope", scope)
		case info.Mode()&fs.ModeSymlink != 0:
			return fault.New("SCOPE_SYMLINK", "a scope leads through a symlink").With("scope", scope)
		case !info.IsDir(): // nothing can be below
			return nil
		}
	}
	return nil
}

// Overlap reports whether two scopes are equal or one is below the other.
func Overlap(a, b string, ignoreCase bool) bool {
	for {
		var x, y string
		var more, long bool
		x, a, more = strings.Cut(a, "/")
		y, b, long = strings.Cut(b, "/")
		if !equal(x, y, ignoreCase) {
			return false
		}
		if !more || !long {
			return true
		}
	}
}

// equal compares names as the file system does. (That some also take a letter
// and its accent for the letter with it, is not seen.)
func equal(a, b string, ignoreCase bool) bool {
	return a == b || ignoreCase && strings.EqualFold(a, b)
}

func first(as, bs []string, ignoreCase bool) (a, b string, found bool) {
	for _, a := range as {
		for _, b := range bs {
			if Overlap(a, b, ignoreCase) {
				return a, b, true
			}
		}
	}
	return "", "", false
}

// A Lane is where one writer works and what it has to itself.
type Lane struct {
	CommonDir     string
	Worktree      string
	Branch        string
	Owned, Locked []string // as Scopes gives them
}

// Beside reports that a new lane can be beside one that is retained (mesh.md
// §4.7.8). Codes: LANE_RETAINED, SCOPE_OVERLAP, SCOPE_LOCKED.
func (l Lane) Beside(retained Lane, ignoreCase bool) error {
	if Overlap(l.Worktree, retained.Worktree, ignoreCase) {
		return fault.New("LANE_RETAINED", "another writer has that worktree, or one that is inside of it or around it")
	}
	if !equal(l.CommonDir, retained.CommonDir, ignoreCase) {
		return nil
	}
	if equal(l.Branch, retained.Branch, ignoreCase) {
		return fault.New("LANE_RETAINED", "another writer has that branch")
	}
	for _, rule := range []struct {
		ours, theirs  []string
		code, message string
	}{
		{l.Owned, retained.Owned, "SCOPE_OVERLAP", "another writer owns such a path"},
		{l.Owned, retained.Locked, "SCOPE_LOCKED", "another writer has locked such a path"},
		{l.Locked, retained.Owned, "SCOPE_LOCKED", "another writer owns a path that is to be locked"},
	} {
		if a, b, found := first(rule.ours, rule.theirs, ignoreCase); found {
			return fault.New(rule.code, "%s", rule.message).With("scope", a).With("other", b)
		}
	}
	return nil
}
