package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"herdr-link/envelope"
	"herdr-link/link"
	"herdr-link/mcp"
)

// encode prints v as one line of JSON.
func encode(p *Process, v any) error { return encodeWith(p, v, "") }

// encodeIndented prints v as JSON for people, on many lines.
func encodeIndented(p *Process, v any) error { return encodeWith(p, v, "  ") }

func encodeWith(p *Process, v any, indent string) error {
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return print(p, escaped(text.String()))
}

// escaped returns JSON with DEL and C1 characters as escapes: package json leaves
// them as they are, and a terminal may act on them.
func escaped(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		if r >= 0x7F && r <= 0x9F {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// canonical returns the core as it is inside Herdr, wherever this process is.
func canonical(c *config) *link.Link {
	inside := map[string]string{"HERDR_ENV": "1", "HERDR_BIN_PATH": "herdr", "HERDR_PANE_ID": "pane"}
	return link.New(link.Options{Getenv: func(name string) string { return inside[name] }, Eager: c.eager, NoGatewayClose: c.noClose})
}

func toolsCommand() command {
	var asJSON bool
	var o options
	return command{
		name: "tools", usage: "tools [--json] [--toolsets LIST]",
		short: "print the tools, as an adapter needs them",
		long:  "Prints the tools of an active server, here or outside Herdr. --json prints all about them, with the\ncontract that activation tells and the hint that comes before it.",
		flags: func(f *flag.FlagSet) {
			f.BoolVar(&asJSON, "json", false, "")
			serverFlags(&o)(f)
		},
		run: func(_ context.Context, p *Process, _ *flag.FlagSet, args []string) error {
			if len(args) > 0 {
				return usagef("tools takes no arguments")
			}
			c, err := configure(p, o)
			if err != nil {
				return err
			}
			core := canonical(c)
			tools := c.tools(p, core)
			if !asJSON {
				var b strings.Builder
				for _, t := range tools {
					fmt.Fprintf(&b, "%-18s %s\n", t.Name, t.Title)
				}
				return print(p, b.String())
			}
			described := make([]any, len(tools))
			for i := range tools {
				described[i] = tools[i].Describe(mcp.Latest)
			}
			return encode(p, struct {
				Version  string `json:"version"`
				Tools    []any  `json:"tools"`
				Contract string `json:"contract"`
				Hint     string `json:"hint"`
			}{p.Version, described, core.Contract(), core.Hint()})
		},
	}
}

func callCommand() command {
	var o options
	return command{
		name: "call", usage: "call NAME [--toolsets LIST] [--caller-role ROLE] < ARGUMENTS",
		short: "call one tool: arguments as JSON on stdin, its result on stdout",
		long:  "Calls a tool by its name, with the JSON object on stdin as arguments (nothing: {}), and prints the result\nobject of tools/call. Exit 0 also if that is an error (isError says so); 2 if there is no such tool or no JSON.\nTools of other toolsets than link need --toolsets; for herdr_agent_response --caller-role says what the caller is.",
		flags: serverFlags(&o),
		run: func(ctx context.Context, p *Process, _ *flag.FlagSet, args []string) error {
			if len(args) != 1 {
				return usagef("usage: herdr-link call NAME [--toolsets LIST] [--caller-role ROLE] < ARGUMENTS")
			}
			return watched(ctx, p, o, func(ctx context.Context, c *config) error { return call(ctx, p, c, args[0]) })
		},
	}
}

// call runs one call in a session of its own, which is always active.
func call(ctx context.Context, p *Process, c *config, name string) error {
	var raw []byte
	if !isTerminal(p.Stdin) {
		var err error
		if raw, err = readInput(ctx, p.Stdin, maxInput+1); err != nil {
			return err
		}
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) > maxInput {
		return usagef("the arguments are longer than %d bytes", maxInput)
	}
	tools := c.tools(p, c.core(p))
	if !named(tools, name) {
		if toolset := c.toolsetOf(p, name); toolset != "" {
			return usagef("no such tool without --toolsets %s: %s", toolset, name)
		}
		return usagef("no such tool: %.64q; herdr-link tools prints them, with --toolsets also others", name)
	}
	result, err := mcp.CallOne(ctx, tools, name, raw)
	if err != nil {
		return usagef("%v", err)
	}
	if err := encode(p, result.Encode(mcp.Latest)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errSaid // ended from outside: whatever the result says, it is not the tool's
	}
	return nil
}

func named(tools []mcp.Tool, name string) bool {
	return slices.ContainsFunc(tools, func(t mcp.Tool) bool { return t.Name == name })
}

// toolsetOf returns the toolset that is off and has that tool, or "".
func (c *config) toolsetOf(p *Process, name string) string {
	for _, toolset := range toolsets {
		other := *c
		other.toolsets = []string{toolset}
		if !(toolset == "mesh" && runtime.GOOS == "windows") && named(other.tools(p, c.core(p)), name) {
			return toolset
		}
	}
	return ""
}

func versionCommand() command {
	var asJSON bool
	return command{
		name: "version", usage: "version [--json]",
		short: "print the version",
		long:  "Prints the version. --json adds the protocols that it speaks, and from which commit and\nwith what it was built.",
		flags: func(f *flag.FlagSet) { f.BoolVar(&asJSON, "json", false, "") },
		run: func(_ context.Context, p *Process, _ *flag.FlagSet, args []string) error {
			if len(args) > 0 {
				return usagef("version takes no arguments")
			}
			return printVersion(p, asJSON)
		},
	}
}

func printVersion(p *Process, asJSON bool) error {
	if !asJSON {
		return printLine(p, []byte("herdr-link "+p.Version))
	}
	return encode(p, struct {
		Name     string   `json:"name"`
		Version  string   `json:"version"`
		Protocol string   `json:"protocol"`
		MCP      []string `json:"mcp"`
		Commit   string   `json:"commit,omitempty"`
		Go       string   `json:"go"`
		Platform string   `json:"platform"`
	}{"herdr-link", p.Version, envelope.Protocol, mcp.Versions(), commit(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
}

// commit says what this program was built from: nothing if Go did not note it,
// and with "+dirty" if the tree had changes of its own.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var revision, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + dirty
}
