package hosts

import (
	"slices"
	"strings"
)

// ours reports whether an entry starts herdr-link.
func ours(v any) bool {
	e, ok := v.(map[string]any)
	if !ok {
		return false
	}
	words := commandOf(e)
	for len(words) > 0 {
		switch Base(words[0]) {
		case "herdr-link":
			return true
		case "cmd":
			if words = words[1:]; len(words) > 0 && strings.EqualFold(words[0], "/c") {
				words = words[1:]
				continue
			}
			return false
		case "npx":
			return slices.ContainsFunc(words[1:], func(w string) bool { return w == "herdr-link" || strings.HasPrefix(w, "herdr-link@") })
		}
		return false
	}
	return false
}

// commandOf returns program and arguments, in whatever form they are there.
func commandOf(e map[string]any) (words []string) {
	if inner, ok := e["transport"].(map[string]any); ok { // Cline's form
		e = inner
	}
	for _, name := range []string{"command", "cmd", "args"} {
		switch v := e[name].(type) {
		case string:
			words = append(words, v)
		case []any:
			for _, w := range v {
				s, _ := w.(string)
				words = append(words, s)
			}
		}
	}
	return words
}

// Base is a program's name without its folder, on whatever system.
func Base(program string) string {
	name := program[strings.LastIndexAny(program, `/\`)+1:]
	for _, ext := range []string{".exe", ".cmd", ".bat"} {
		if n := len(name) - len(ext); n > 0 && strings.EqualFold(name[n:], ext) {
			return strings.ToLower(name[:n])
		}
	}
	return name
}

// environmentOf returns the variables that an entry gives to its server.
func environmentOf(e map[string]any) map[string]string {
	all := map[string]string{}
	for _, name := range []string{"env", "environment", "envs"} {
		m, _ := e[name].(map[string]any)
		for k, v := range m {
			if s, ok := v.(string); ok {
				all[k] = s
			}
		}
	}
	return all
}
