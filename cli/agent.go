package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"herdr-link/link"
)

// pane runs a command that uses the core without MCP, for agents and scripts.
func pane(ctx context.Context, p *Process, do func(context.Context, *link.Link) error) error {
	return watched(ctx, p, options{}, func(ctx context.Context, c *config) error { return do(ctx, c.core(p)) })
}

func peersCommand() command {
	var asJSON bool
	return command{
		name: "peers", usage: "peers [--json]",
		short: "list the agents of this workspace",
		long:  "Prints a line for each live, named agent of the own workspace: its name and its state.\nThe first line is the caller itself, with a star in front. --json prints what the tool herdr_link_peers returns.",
		flags: func(f *flag.FlagSet) { f.BoolVar(&asJSON, "json", false, "") },
		run: func(ctx context.Context, p *Process, _ *flag.FlagSet, args []string) error {
			if len(args) > 0 {
				return usagef("peers takes no arguments")
			}
			return pane(ctx, p, func(ctx context.Context, l *link.Link) error {
				self, peers, err := l.Peers(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return printLine(p, link.PeersJSON(self, peers))
				}
				var b strings.Builder
				fmt.Fprintf(&b, "* %s\t%s\n", self.Name, self.State)
				for _, peer := range peers {
					fmt.Fprintf(&b, "  %s\t%s\n", peer.Name, peer.State)
				}
				return print(p, b.String())
			})
		},
	}
}

// maxInput is how much of stdin a message may be made of: what is more than
// this is too long in any case, and is not read.
const maxInput = 4 << 20

func sendCommand() command {
	var replyTo string
	return command{
		name: "send", usage: "send [--reply-to ID] NAME [MESSAGE|-]",
		short: "send a message to an agent",
		long: "Sends MESSAGE, or stdin if there is none or it is -, to the agent NAME, and prints the message's id.\n" +
			"Options may stand before or behind NAME; what begins with a dash and is none stands behind --.\n" +
			"A message given as an argument can be seen in the list of processes; stdin cannot.\n\n" +
			"  --reply-to ID   the id of the message that this one answers",
		flags: func(f *flag.FlagSet) { f.StringVar(&replyTo, "reply-to", "", "") },
		text:  true,
		run: func(ctx context.Context, p *Process, flags *flag.FlagSet, args []string) error {
			if len(args) > 2 {
				return usagef("send takes one message: put its words in quotes, or give them on stdin")
			}
			if len(args) < 1 {
				return usagef("usage: herdr-link send [--reply-to ID] NAME [MESSAGE|-]")
			}
			m := link.Message{To: args[0], ReplyTo: replyTo}
			flags.Visit(func(f *flag.Flag) {
				if f.Name == "reply-to" && replyTo == "" {
					m.ReplyTo = "-" // given, and no id
				}
			})
			given := len(args) == 2 && args[1] != "-"
			if given {
				m.Text = args[1]
			} else if isTerminal(p.Stdin) {
				return usagef("no message: give it as an argument or on stdin")
			}
			return pane(ctx, p, func(ctx context.Context, l *link.Link) error {
				if !given {
					text, err := readInput(ctx, p.Stdin, maxInput+1)
					if err != nil {
						return err
					}
					if len(text) > maxInput {
						return link.TooLong(len(text))
					}
					m.Text = string(text)
				}
				id, err := l.Send(ctx, m)
				if err != nil {
					return err
				}
				if printLine(p, []byte(id)) != nil { // but it is done: nobody shall do it again
					fmt.Fprintf(p.Stderr, "herdr-link: the message was sent as %s, but stdout cannot be written\n", id)
				}
				return nil
			})
		},
	}
}

// readInput reads stdin, at most max bytes of it, until ctx ends: a Read cannot
// be cancelled, but it can be left behind.
func readInput(ctx context.Context, stdin io.Reader, max int64) ([]byte, error) {
	type input struct {
		text []byte
		err  error
	}
	read := make(chan input, 1)
	go func() {
		text, err := io.ReadAll(io.LimitReader(stdin, max))
		read <- input{text, err}
	}()
	select {
	case in := <-read:
		if in.err != nil {
			return nil, errors.New("herdr-link: stdin cannot be read")
		}
		return in.text, nil
	case <-ctx.Done():
		return nil, errSaid // by a signal, or to nobody
	}
}

func closeCommand() command {
	return command{
		name: "close", usage: "close NAME",
		short: "close the pane of an agent",
		long:  "Closes the pane of the agent NAME in the own workspace, and ends what runs in it.",
		run: func(ctx context.Context, p *Process, _ *flag.FlagSet, args []string) error {
			if len(args) != 1 {
				return usagef("usage: herdr-link close NAME")
			}
			return pane(ctx, p, func(ctx context.Context, l *link.Link) error { return l.Close(ctx, args[0]) })
		},
	}
}

func bootstrapCommand() command {
	return command{
		name: "bootstrap", usage: "bootstrap",
		short: "give the own agent a name, if it has none",
		long:  "Names the agent in the own pane, if it has no valid name, so that peers can reach it, and prints the name that it\nhas then. The server does this by itself.",
		run: func(ctx context.Context, p *Process, _ *flag.FlagSet, args []string) error {
			if len(args) > 0 {
				return usagef("bootstrap takes no arguments")
			}
			return pane(ctx, p, func(ctx context.Context, l *link.Link) error {
				self, err := l.Bootstrap(ctx)
				if err != nil {
					return err
				}
				return printLine(p, []byte(self.Name))
			})
		},
	}
}

func printLine(p *Process, line []byte) error { return print(p, string(line)+"\n") }

func print(p *Process, text string) error {
	if _, err := io.WriteString(p.Stdout, text); err != nil {
		return errors.New("herdr-link: stdout cannot be written")
	}
	return nil
}
