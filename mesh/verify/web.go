package verify

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"strings"
)

// packages are those of a package-lock.json, by the folders that they are for.
type packages map[string]map[string]any

// pinnedWeb reports whether npm fetches nothing by a package-lock.json but what it
// pins, over https. npm takes nothing from the lock for a dependency that names
// where it is to be fetched from, be it the lock's or that of a package.json; these
// are read by manifest, for the repository's own packages. Its error is
// fs.ErrNotExist if there is none.
func pinnedWeb(text []byte, manifest func(folder string) ([]byte, error)) bool {
	// Names of members are compared as npm does, not as encoding/json would do for
	// a struct: letters of another size make another member.
	var lock map[string]json.RawMessage
	var version int
	var all packages
	if json.Unmarshal(text, &lock) != nil || json.Unmarshal(lock["lockfileVersion"], &version) != nil || version != 2 && version != 3 ||
		json.Unmarshal(lock["packages"], &all) != nil || len(all) == 0 {
		return false
	}
	for where, p := range all {
		if !all.pinned(where) || !all.provides(where, p) {
			return false
		}
		if resolved, _ := p["resolved"].(string); p["link"] == true {
			where = resolved
		}
		if inModules(where) {
			continue
		}
		text, err := manifest(where)
		var own map[string]any
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil || json.Unmarshal(text, &own) != nil || !all.provides(where, own):
			return false
		}
	}
	return true
}

// provides reports whether each dependency of a package, the lock's entry or
// package.json of which p is, is left to the lock.
func (all packages) provides(where string, p map[string]any) bool {
	for _, kind := range []string{"dependencies", "devDependencies", "optionalDependencies", "peerDependencies"} {
		names, ok := p[kind].(map[string]any)
		if !ok && p[kind] != nil {
			return false
		}
		for name, wanted := range names {
			spec, ok := wanted.(string)
			if !ok || !isLocked(spec) && !all.has(where, name, spec) {
				return false
			}
		}
	}
	return locksOverrides(p["overrides"])
}

// isLocked reports whether a dependency names a version, or a name of one, or what
// is in a folder. What is none of it has a / or a : as a repository or an address.
func isLocked(spec string) bool {
	if strings.HasPrefix(spec, "file:") {
		return true
	}
	if alias, ok := strings.CutPrefix(spec, "npm:"); ok {
		spec = alias
		if strings.HasPrefix(alias, "@") {
			_, spec, _ = strings.Cut(alias, "/")
		}
	}
	return !strings.ContainsAny(spec, "/:")
}

// has reports whether what a package finds under that name was fetched from that
// address.
func (all packages) has(where, name, address string) bool {
	for dir := where; strings.HasPrefix(address, "https://"); dir = path.Dir(dir) {
		if p, ok := all[path.Join(dir, "node_modules", name)]; ok {
			return p["resolved"] == address
		}
		if dir == "." || dir == "/" {
			break
		}
	}
	return false
}

// locksOverrides reports whether the overrides of a package.json are left to the lock.
func locksOverrides(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return isLocked(v)
	case map[string]any:
		for _, inner := range v {
			if !locksOverrides(inner) {
				return false
			}
		}
		return true
	}
	return false
}

// bundled reports whether a package is inside of one that brings others along. What
// this repository's own packages bundle is fetched.
func (all packages) bundled(where string) bool {
	for i := strings.LastIndex(where, "/node_modules/"); i >= 0; i = strings.LastIndex(where, "/node_modules/") {
		where = where[:i]
		if names, _ := all[where]["bundleDependencies"].([]any); len(names) > 0 && inModules(where) {
			return true
		}
	}
	return false
}

func inModules(where string) bool { return strings.Contains("/"+where+"/", "/node_modules/") }

// pinned reports whether a package is this repository's own, is part of
// another one, or is pinned.
func (all packages) pinned(where string) bool {
	p := all[where]
	resolved, has := p["resolved"].(string)
	integrity, _ := p["integrity"].(string)
	switch {
	case p["resolved"] != nil && !has:
		return false
	case p["link"] == true: // to a folder below web: no other one is there
		return has && !strings.Contains(resolved, ":")
	case has:
		return strings.HasPrefix(resolved, "https://") && isIntegrity(integrity) || strings.HasPrefix(resolved, "file:") && !strings.HasPrefix(resolved, "file://")
	case !inModules(where):
		return true
	}
	return isIntegrity(integrity) || p["inBundle"] == true && all.bundled(where)
}

// isIntegrity reports whether s has nothing but hashes that pin. npm takes what it
// does not know for none, and then looks at no hash.
func isIntegrity(s string) bool {
	sizes := map[string]int{"sha1": 20, "sha256": 32, "sha384": 48, "sha512": 64}
	all := strings.Fields(s)
	for _, hash := range all {
		name, text, _ := strings.Cut(hash, "-")
		sum, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || len(sum) != sizes[name] || len(sum) == 0 {
			return false
		}
	}
	return len(all) > 0
}
