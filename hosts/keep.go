package hosts

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"herdr-link/adapters"
)

// optionOf returns the value that a command line of ours gives to an option, as
// package flag reads it: the last one counts.
func optionOf(words []string, option string) (value string) {
	for i, w := range words {
		name, joined, has := strings.Cut(w, "=")
		switch {
		case name != "-"+option && name != "--"+option:
		case has:
			value = joined
		case i+1 < len(words):
			value = words[i+1]
		}
	}
	return value
}

// toolsetsOf returns the toolsets of the server that an entry starts.
func toolsetsOf(e map[string]any) []string {
	list := optionOf(commandOf(e), "toolsets")
	if list == "" {
		list = environmentOf(e)["HERDR_LINK_TOOLSETS"]
	}
	if list == "" {
		list = "link"
	}
	return splitList(list)
}

// roleOf returns the role that an entry gives to the caller, or "".
func roleOf(e map[string]any) string {
	if role := optionOf(commandOf(e), "caller-role"); role != "" {
		return role
	}
	return environmentOf(e)["HERDR_LINK_CALLER_ROLE"]
}

func splitList(list string) (names []string) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// offersLink reports whether the server that an entry starts has the tools that
// an adapter has, too.
func offersLink(e map[string]any) bool { return slices.Contains(toolsetsOf(e), "link") }

// keeping returns o with what the operator has chosen for the entry e of ours
// and o does not name. --eager is not among it: that goes by the host. Nor is
// what is for answers, if o names toolsets without them.
func (o Options) keeping(e map[string]any) Options {
	words := commandOf(e)
	keep := func(chosen *string, option string) {
		if *chosen == "" {
			*chosen = optionOf(words, option)
		}
	}
	if o.Toolsets == "" || slices.Contains(splitList(o.Toolsets), "response") {
		keep(&o.CallerRole, "caller-role")
		keep(&o.responseHosts, "response-hosts")
		keep(&o.maxSession, "max-session-bytes")
	}
	keep(&o.Toolsets, "toolsets")
	keep(&o.era, "era")
	o.noClose = slices.Contains(words, "--no-gateway-close")
	return o
}

// beside returns o for an entry e of ours that is to stand beside an adapter,
// and whether there is anything to be kept of it.
func (o Options) beside(e map[string]any) (Options, bool) {
	o = o.keeping(e)
	if !offersLink(e) {
		return o, true
	}
	rest := slices.DeleteFunc(toolsetsOf(e), func(name string) bool { return name == "link" })
	o.Toolsets = strings.Join(rest, ",")
	return o, len(rest) > 0
}

// toolsets are those of the entry that o makes, over the entry e if there is one.
func (o Options) toolsets(e map[string]any) []string {
	if o.Toolsets != "" {
		return splitList(o.Toolsets)
	}
	return toolsetsOf(e)
}

// settled returns o as it counts for the entry that is there, if that is ours.
func (m Machine) settled(h Host, o Options) (_ Options, e map[string]any) {
	e = m.entryThere(h, o)
	if e == nil {
		return o, nil
	}
	if !h.viaAdapter(o) {
		return o.keeping(e), e
	}
	if with, some := o.beside(e); some {
		return with, e
	}
	return o, nil
}

// entryThere returns the entry of ours in the host's file, or nil.
func (m Machine) entryThere(h Host, o Options) map[string]any {
	file, err := m.place(h.file, h.project, o)
	if err != nil {
		return nil
	}
	text, err := read(file)
	if err != nil {
		return nil
	}
	v, found, err := editorOf(h.format).get(text, h.entryPath())
	if err != nil || !found || !ours(v) {
		return nil
	}
	return v.(map[string]any)
}

// options are the arguments of the server that the operator chooses.
func (o Options) options() (args []string) {
	for _, chosen := range [][2]string{{"--toolsets", o.Toolsets}, {"--caller-role", o.CallerRole},
		{"--response-hosts", o.responseHosts}, {"--max-session-bytes", o.maxSession}, {"--era", o.era}} {
		if chosen[1] != "" {
			args = append(args, chosen[:]...)
		}
	}
	return args
}

// chosen says what o, which counts for the entry was, has of it and the call did not
// name, and what that means.
func (o Options) chosen(h Host, call Options, was map[string]any, all []*draft) (notes []string) {
	kept := o
	if call.Toolsets != "" || o.Toolsets == "link" {
		kept.Toolsets = ""
	}
	if call.CallerRole != "" {
		kept.CallerRole = ""
	}
	words := kept.options()
	if o.noClose && h.grant == nil {
		words = append(words, "--no-gateway-close")
	}
	if len(words) > 0 {
		notes = append(notes, "kept "+strings.Join(words, " "))
	}
	for _, d := range all {
		if _, ours := adapters.Mark(d.old); ours && d.new == nil {
			notes = append(notes, "the entry takes the place of its adapter, "+d.path)
		}
	}
	if slices.Contains(o.toolsets(was), "response") && o.CallerRole == "" && roleOf(was) == "" {
		notes = append(notes, "nobody may read answers yet: --caller-role says who the caller is")
	}
	return notes
}

// renewed returns what to write over the entry was, which is ours. What else is
// in it stays in any case. A choice of the user's stays as it is, and what the
// user added to a list or to the variables stays in it.
func renewed(e object, was map[string]any) (object, error) {
	var changed object
	for _, m := range e {
		there, found := was[m.key]
		switch m.key {
		case "enabled", "disabled", "timeout", "tools", "env_keys":
			if found {
				continue
			}
		case "env", "env_vars", "autoApprove":
			if covers(there, plain(m.value)) {
				if found {
					continue
				}
				break
			}
			var err error
			if m.value, err = joined(m.value, there); err != nil {
				return nil, fmt.Errorf("%s.%s: %w", key, m.key, err)
			}
		}
		changed = append(changed, m)
	}
	return changed, nil
}

// joined returns what an entry needs with what is there besides.
func joined(needed, there any) (any, error) {
	switch needed := needed.(type) {
	case list:
		l, _ := there.([]any)
		for _, v := range l {
			if _, ok := v.(string); !ok {
				return nil, fmt.Errorf("%v is no name, and nothing that can be kept", v)
			}
			if !slices.Contains(needed, v) {
				needed = append(needed, v)
			}
		}
		return needed, nil
	case object:
		m, _ := there.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !slices.ContainsFunc(needed, func(n member) bool { return n.key == name }) {
				needed = append(needed, member{name, m[name]})
			}
		}
		return needed, nil
	}
	return needed, nil
}
