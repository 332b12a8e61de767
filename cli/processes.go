package cli

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"herdr-link/herdrcli"
	"herdr-link/hosts"
)

// A process is one of this machine, as far as the system shows it.
type process struct {
	pid, parent int
	argv        []string
	env         string // as ps shows it
}

// maxLineage is how many generations are looked at.
const maxLineage = 256

// host returns the agent host whose program this is, or "". Interpreters are
// looked through.
func (p process) host() string {
	word := ""
	if len(p.argv) > 0 {
		word = p.argv[0]
	}
	if interprets(word) {
		word = ""
		if i := slices.IndexFunc(p.argv[1:], func(w string) bool { return !strings.HasPrefix(w, "-") }); i >= 0 {
			word = p.argv[1+i]
		}
	}
	return hosts.Of(word)
}

func interprets(program string) bool {
	name := hosts.Base(program)
	return strings.HasPrefix(name, "python") || slices.Contains([]string{"node", "bun", "deno", "sh", "bash", "zsh", "dash"}, name)
}

// serves reports whether it is an MCP server of herdr-link: the program without
// a command. A launcher may stand in front.
func (p process) serves() bool {
	argv := p.argv
	if len(argv) > 1 && interprets(argv[0]) {
		argv = argv[1:]
	}
	if len(argv) == 0 || hosts.Base(argv[0]) != "herdr-link" {
		return false
	}
	return len(argv) == 1 || strings.HasPrefix(argv[1], "-") && argv[1] != "--version" && argv[1] != "--help"
}

// alone leaves out the launchers of others that are there.
func alone(all []process) (rest []process) {
	for _, p := range all {
		if !slices.ContainsFunc(all, func(q process) bool { return q.parent == p.pid }) {
			rest = append(rest, p)
		}
	}
	return rest
}

// ancestors picks a process, its parent and so on.
func ancestors(pid int, of []process) (all []process) {
	for len(all) < maxLineage {
		i := slices.IndexFunc(of, func(p process) bool { return p.pid == pid })
		if i < 0 || pid == 0 {
			break
		}
		all = append(all, of[i])
		pid = of[i].parent
	}
	return all
}

// listed reads what ps prints: a line a process, with its id, its parent's,
// the words of its command line and, where ps shows it, its environment.
func listed(text string) (all []process) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue
		}
		pid, err1 := strconv.Atoi(words[0])
		parent, err2 := strconv.Atoi(words[1])
		if err1 != nil || err2 != nil {
			continue
		}
		p := process{pid: pid, parent: parent, argv: words[2:]}
		if i := slices.IndexFunc(p.argv, isVariable); i > 0 {
			p.argv, p.env = p.argv[:i], " "+strings.Join(p.argv[i:], " ")+" "
		}
		all = append(all, p)
	}
	return all
}

func isVariable(word string) bool {
	name, _, found := strings.Cut(word, "=")
	return found && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// has reports whether the environment that ps shows has these values; "" is
// none.
func (p process) has(vars map[string]string) bool {
	for name, value := range vars {
		if value != "" && !strings.Contains(p.env, " "+name+"="+value+" ") || value == "" && strings.Contains(p.env, " "+name+"=") {
			return false
		}
	}
	return true
}

// owner says whether a process with that lineage (itself, its parent and so on)
// belongs to the agent that Herdr sees in the pane, or to another one that got
// the pane's variables by inheritance. kind is that agent's, "" where there is
// none.
func owner(lineage []process, in herdrcli.Processes, kind string) (state, detail, fix string) {
	const off = "set HERDR_LINK_OFF=1 for what runs here"
	if len(lineage) == 0 {
		return hosts.OK, "not known on this system", ""
	}
	if in.Shell == 0 && len(in.Foreground) == 0 {
		return hosts.OK, "not known: Herdr knows no process of this pane", ""
	}
	at := func(pid int) int {
		if pid == 0 {
			return -1
		}
		return slices.IndexFunc(lineage, func(p process) bool { return p.pid == pid })
	}
	shell, leader := at(in.Shell), at(in.Group)
	foreground := slices.ContainsFunc(in.Foreground, func(p herdrcli.Process) bool { return at(p.PID) >= 0 })
	switch {
	case shell < 0 && leader < 0 && !foreground:
		return hosts.Warn, "inherited, or in a container: this process does not descend from the pane's", "run it in the pane, or " + off
	case kind == "":
		return hosts.OK, "the pane's own shell", ""
	case leader < 0 && !foreground:
		return hosts.Warn, "another process owns the pane: " + kind + ", which did not start this one", "ask " + kind + " to run it, or " + off
	}
	// From the pane's process down to this one: an agent inside another has a
	// program of its own. One that starts itself again is still one.
	top := leader
	if top < 0 {
		top = shell
	}
	if top < 0 {
		top = len(lineage) - 1
	}
	agent := lineage[top].host()
	first := agent == "" // the agent's program is yet to come, behind a wrapper of some kind
	inside, before := []string{cmp.Or(agent, kind)}, agent
	for _, p := range slices.Backward(lineage[:top]) {
		h := p.host()
		if h != "" && h != before && !(first && h == kind) {
			inside = append(inside, h)
		}
		first = first && h == ""
		before = h
	}
	if len(inside) > 1 {
		last := inside[len(inside)-1]
		return hosts.Warn, "inherited: " + last + " runs inside " + inside[0] + ", and speaks in its name", off
	}
	return hosts.OK, "this process belongs to " + kind + ", which owns the pane", ""
}
