package fakeherdr

import (
	"strings"
	"time"
)

// A command is a row of the table: what later toolsets need is added there.
type command struct {
	words []string // how argv begins
	usage string

	// parse looks at the arguments after words. A [usage] error is a wrong
	// command line; the request is what the server is asked for.
	parse func(c command, args []string) (request, error)
}

// A request does its work on the world, under the scene's lock if it writes,
// and returns the result to print, or a [pending]. A [failure] is Herdr's refusal.
type request struct {
	writes bool
	local  bool // the client knows the answer itself and needs no server
	run    func(s *Scene, w *World, now time.Time) (any, error)
}

// A pending is the part of a call that waits, without the lock.
type pending func() (result any, err error)

func (c *call) commands() []command {
	return []command{
		{[]string{"agent", "list"}, "usage: herdr agent list", parseAgentList},
		{[]string{"agent", "get"}, "usage: herdr agent get <target>", parseAgentGet},
		{[]string{"agent", "prompt"}, "usage: herdr agent prompt <target> <text> [--wait] [--until STATUS]... [--timeout MS]", c.parseAgentPrompt},
		{[]string{"agent", "rename"}, "usage: herdr agent rename <target> <name>|--clear", parseAgentRename},
		{[]string{"agent", "read"}, "usage: herdr agent read <target> [--source visible|recent|recent-unwrapped] [--lines N] [--format text|ansi] [--ansi]", parseAgentRead},
		{[]string{"agent", "wait"}, "usage: herdr agent wait <target> [--until STATUS]... [--timeout MS]", c.parseAgentWait},
		{[]string{"agent", "explain"}, "usage: herdr agent explain <target> [--json]", parseAgentExplain},
		{[]string{"agent", "start"}, "usage: herdr agent start <name> --kind KIND --pane ID [--timeout MS] [-- <agent-args...>]", c.parseAgentStart},
		{[]string{"pane", "list"}, "", parsePaneList},
		{[]string{"pane", "current"}, "", c.parsePaneCurrent},
		{[]string{"agent", "send-keys"}, "usage: herdr agent send-keys <target> <key> [key ...]", parseAgentSendKeys},
		{[]string{"pane", "get"}, "usage: herdr pane get <pane_id>", parsePaneGet},
		{[]string{"pane", "layout"}, "", c.parsePaneLayout},
		{[]string{"pane", "read"}, "usage: herdr pane read <pane_id> [--source visible|recent|recent-unwrapped] [--lines N] [--format text|ansi] [--ansi]", parsePaneRead},
		{[]string{"pane", "wait-output"}, "usage: herdr pane wait-output <pane_id> (--match TEXT | --regex PATTERN) [--source visible|recent|recent-unwrapped] [--lines N] [--timeout MS] [--raw]", c.parseWaitOutput},
		{[]string{"pane", "split"}, "usage: herdr pane split [<pane_id>|--pane ID|--current] --direction right|down [--ratio FLOAT] [--cwd PATH] [--env KEY=VALUE] [--right-click herdr|pane] [--focus] [--no-focus]", c.parsePaneSplit},
		{[]string{"pane", "run"}, "usage: herdr pane run <pane_id> <command>", parsePaneRun},
		{[]string{"pane", "send-text"}, "usage: herdr pane send-text <pane_id> <text>", parseSendText},
		{[]string{"pane", "close"}, "usage: herdr pane close <pane_id>", parsePaneClose},
		{[]string{"pane", "process-info"}, "", parseProcessInfo},
		{[]string{"tab", "list"}, "", parseTabList},
		{[]string{"tab", "get"}, "usage: herdr tab get <tab_id>", parseTabGet},
		{[]string{"tab", "create"}, "", c.parseTabCreate},
		{[]string{"workspace", "list"}, "usage: herdr workspace list", parseWorkspaceList},
		{[]string{"workspace", "get"}, "usage: herdr workspace get <workspace_id>", parseWorkspaceGet},
		{[]string{"workspace", "create"}, "", c.parseWorkspaceCreate},
		{[]string{"integration", "status"}, "usage: herdr integration status [--outdated-only]", c.parseIntegrationStatus},
		{[]string{"session", "list"}, "usage: herdr session list [--json]", c.parseSessionList},
	}
}

// id is what Herdr's client calls its request.
func (c command) id() string {
	switch c.words[1] {
	case "run", "send-text":
		return "cli:request"
	case "process-info":
		return "cli:pane:process_info"
	}
	return "cli:" + strings.Join(c.words, ":")
}
