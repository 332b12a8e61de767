package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Versions returns the protocol versions that a Server can speak, the oldest
// first.
func Versions() []string { return []string{v20241105, v20250326, v20250618, Latest, Modern} }

// CallOne calls a tool outside any connection, as in a session that is active.
// arguments may be empty. It returns when what goes on behind the call is over,
// too. An error means that there is no such tool or that the arguments are no
// JSON; anything else is the tool's to say.
func CallOne(ctx context.Context, tools []Tool, name string, arguments []byte) (*Result, error) {
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("no such tool: %.64q", name)
	}
	if len(arguments) > 0 && (!utf8.Valid(arguments) || !json.Valid(arguments)) {
		return nil, fmt.Errorf("the arguments are not JSON")
	}
	args, problem := ReadArgs(arguments)
	if problem != "" {
		return tools[i].refuse(problem), nil
	}
	session := &Session{active: true, behind: &behind{ctx: ctx}}
	call := tools[i].Begin(session, args)
	if call.Run == nil {
		return call.Result, nil
	}
	defer session.behind.all.Wait()
	ctx, stop := context.WithTimeout(ctx, call.limit())
	defer stop()
	return call.Run(ctx), nil
}
