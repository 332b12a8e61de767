package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"herdr-link/link"
	"herdr-link/mcp"
)

func serverFlags(o *options) func(*flag.FlagSet) {
	return func(f *flag.FlagSet) {
		f.BoolVar(&o.eager, "eager", false, "")
		f.BoolVar(&o.noGatewayClose, "no-gateway-close", false, "")
		f.StringVar(&o.era, "era", "", "")
		f.Func("toolsets", "", func(list string) error {
			o.toolsets = &list
			return nil
		})
		o.reader.define(f)
	}
}

func serveCommand() command {
	var o options
	return command{
		usage: "[--eager] [--no-gateway-close] [--era 2026-07-28] [--toolsets LIST]",
		long: `Without a command it is an MCP server on stdin and stdout, to be started by an MCP host.
It offers one small tool, herdr_link, until that is called.

  --eager               offer all tools at once, for hosts that never list them again
  --no-gateway-close    herdr_link does not close; herdr_link_close does
  --era 2026-07-28      serve that stateless MCP version, too
  --toolsets LIST       toolsets to offer, with commas between them: link (the default), control, response, mesh
` + readerHelp,
		flags: serverFlags(&o),
		run: func(ctx context.Context, p *Process, _ *flag.FlagSet, args []string) error {
			if len(args) > 0 {
				return usagef("too many arguments; see herdr-link --help")
			}
			if isTerminal(p.Stdin) {
				_, _ = io.WriteString(p.Stderr, overview(commands()))
				return usagef("an MCP host starts this server; stdin is a terminal")
			}
			return watched(ctx, p, o, func(ctx context.Context, c *config) error { return serve(ctx, p, c) })
		},
	}
}

// heapGrowth keeps the heap small, in percent of what is in use: dozens of idle
// servers share a machine. (A memory limit would not do: at 64 calls at a time
// the collector then never rests.)
const heapGrowth = 40

func serve(ctx context.Context, p *Process, c *config) error {
	debug.SetGCPercent(heapGrowth)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go leaveDeafHost(ctx, p.Stdin, stop)
	core := c.core(p)
	c.log.Info("start", "version", p.Version, "inside", core.Inside(), "toolsets", c.toolsets)
	err := c.server(p, core).Serve(ctx, parked(p.Stdin), p.Stdout)
	c.log.Info("end", "cause", fmt.Sprint(err))
	switch {
	case err == nil, errors.Is(err, context.Canceled) && !errors.Is(err, errNobody):
		return nil
	}
	return errSaid // whoever read stdout is gone; there is nobody to tell
}

// deafTime is how long a host that has closed stdin may take to read its answers:
// a little longer than the longest call.
const deafTime = 46 * time.Second

// leaveDeafHost stops everything some time after stdin has been closed. The
// server itself does not see that while it waits for its answers to be read.
func leaveDeafHost(ctx context.Context, stdin *os.File, stop context.CancelCauseFunc) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for !broken(stdin) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(deafTime):
		stop(errNobody)
	}
}

func (c *config) server(p *Process, core *link.Link) *mcp.Server {
	s := &mcp.Server{
		Name:    "herdr-link",
		Title:   "Herdr Link",
		Version: p.Version,
		Tools:   c.tools(p, core),
		Modern:  c.modern,
	}
	if c.has("link") {
		s.Instructions = core.Hint()
		if core.Inside() {
			s.Initialized = func(ctx context.Context) { _, _ = core.Bootstrap(ctx) }
		}
	}
	return s
}
