package hosts

import (
	"slices"
	"strings"
)

// hookEdit adds the hint's hook, or renews it.
func (m Machine) hookEdit(h Host, o Options, e *edits) {
	file := m.pick(h.hook.file)
	if file == "" {
		return
	}
	wanted := h.hook.make(hookCommand(o.command(m.OS), h.Name, m.OS))
	same := func(v any) bool { return isHook(v, h.Name) }
	e.add(file, func(text []byte) ([]byte, error) {
		if len(h.hook.path) > 0 {
			return addJSON(text, h.hook.path, wanted, same)
		}
		if v, found, err := getJSON(text, []string{"herdr-link"}); err == nil && found && !same(v) && !o.Force {
			return nil, errForeign
		}
		return setJSON(text, []string{"herdr-link"}, wanted)
	})
}

// hinted reports whether the hook is there already.
func (m Machine) hinted(h Host) bool {
	if h.hook == nil {
		return false
	}
	text, err := read(m.pick(h.hook.file))
	return err == nil && hasHook(text, h)
}

func hasHook(text []byte, h Host) bool {
	if len(h.hook.path) == 0 {
		v, found, err := getJSON(text, []string{"herdr-link"})
		return err == nil && found && isHook(v, h.Name)
	}
	v, _, _ := getJSON(text, h.hook.path)
	l, _ := v.([]any)
	return slices.ContainsFunc(l, func(v any) bool { return isHook(v, h.Name) })
}

// isHook reports whether v holds our command for that host, and no other one.
func isHook(v any, host string) bool {
	commands := 0
	mine := false
	var look func(any)
	look = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if c, ok := v["command"].(string); ok {
				commands++
				mine = strings.Contains(c, "herdr-link") && strings.HasSuffix(c, " hint "+host)
			}
			for _, e := range v {
				look(e)
			}
		case []any:
			for _, e := range v {
				look(e)
			}
		}
	}
	look(v)
	return mine && commands == 1
}

// hookCommand is the command line of the hint, for the shell that runs it.
func hookCommand(c Command, host, os string) string {
	words := append(append([]string{c.Program}, c.Args...), "hint", host)
	for i, w := range words {
		safe := strings.IndexFunc(w, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./@:", r)
		}) < 0
		switch {
		case safe:
		case os == "windows":
			words[i] = `"` + w + `"` // no file's name has a quote
		default:
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
