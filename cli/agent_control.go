package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"herdr-link/mesh"
	"herdr-link/mesh/fault"
	"herdr-link/mesh/handoff"
)

const (
	controlName = "agent-control"
	// controlProgram is the name under which this program is that command alone.
	controlProgram = "herdr-agent-control"
	// exitPartly: the command has answered, and not for all that was asked.
	exitPartly = 3
)

func agentControlCommand() command {
	return command{
		name: controlName, usage: controlName + " status|receipts|ask|ask-many|collect|abandon|unlock [OPTIONS]",
		short: "give tasks to leased agents, from the agent that coordinates",
		long: `For the agent that has a controller's lease (toolset mesh): it needs no token, since its own process is the proof.
AGENT_CONTROL_CONTROLLER_ID names the controller. Prints JSON, as the tools of mesh answer. See docs/mesh.md.

  status                            all agents, and the controller's leases; needs no lease
  receipts                          the receipts of its tasks; needs no lease
  ask TARGET -- MESSAGE…            give a leased agent a task and wait for the answer; words are joined by spaces
  ask TARGET --message-file PATH    the same, with the message in a file; or --stdin. Both may have 65536 bytes
  ask-many --request TARGET=MESSAGE …       1 to 8 tasks: all are sent, or none
  collect --receipt TOKEN …                 wait for the answers of tasks that were sent before; sends nothing
  abandon --receipt TOKEN                   give up a receipt whose agent has settled
  unlock --confirm                          for a person: move a claim of the store lock away that nobody can be using

  --mode all|first    ask-many, collect: wait for all answers (the default), or for the first one
  --timeout-ms N      ask, ask-many, collect: how long to wait, 1 to 600000 (45000)
  --read-lines N      the same: lines of each agent's screen, 1 to 1000 (200)

Exit codes: 0; 1 with CODE: reason on stderr; 2 for a mistake in what was given; 3 if it answered, and "failed" or
"pendingReceipts" is not empty. Under the name ` + controlProgram + `, by a link, the program is this command alone.`,
		raw: agentControl,
	}
}

// isControl reports whether a program of that path is agent-control alone.
func isControl(argv0 string) bool {
	return strings.TrimSuffix(filepath.Base(argv0), ".exe") == controlProgram
}

// An order is a command line of agent-control, with all that can be checked
// without a look at anything.
type order struct {
	verb     string
	requests []handoff.Request // of ask: one, without its message if that is elsewhere,
	file     string            // here,
	stdin    bool              // or there
	receipts []string
	wait     handoff.Wait
}

// controlOptions are the commands and the options of each.
var controlOptions = map[string]string{
	"status": "", "receipts": "",
	"ask":      "message-file stdin timeout-ms read-lines",
	"ask-many": "request mode timeout-ms read-lines",
	"collect":  "receipt mode timeout-ms read-lines",
	"abandon":  "receipt",
	"unlock":   "confirm",
}

// mistake is what is wrong with a command line. It never has a word of a message.
func mistake(format string, args ...any) error { return fault.New("INVALID_ARGUMENT", format, args...) }

// parseOrder reads the words behind agent-control. Codes: INVALID_ARGUMENT,
// RECEIPT_INVALID, MESSAGE_*; flag.ErrHelp if that was asked for.
func parseOrder(args []string) (*order, error) {
	if len(args) == 0 {
		return nil, mistake("it needs a command; see herdr-link agent-control --help")
	}
	o := &order{verb: args[0], wait: handoff.Wait{Timeout: 45 * time.Second, Lines: 200}}
	takes, known := controlOptions[o.verb]
	switch {
	case o.verb == "help" || o.verb == "--help" || o.verb == "-h":
		return nil, flag.ErrHelp
	case !known:
		return nil, mistake("there is no such command; see herdr-link agent-control --help")
	}
	var words []string
	var message *string
	given := map[string]bool{}
	for args = args[1:]; len(args) > 0; {
		word := args[0]
		args = args[1:]
		if word == "--" {
			text := strings.Join(args, " ")
			message, args = &text, nil
			continue
		}
		name, value, joined := strings.Cut(word, "=")
		switch {
		case !strings.HasPrefix(word, "-"):
			words = append(words, word)
			continue
		case word == "--help" || word == "-h":
			return nil, flag.ErrHelp
		case !slices.Contains(strings.Fields(takes), strings.TrimPrefix(name, "--")):
			return nil, mistake("%s has no option of that name; see herdr-link agent-control --help", o.verb)
		case given[name] && name != "--request" && name != "--receipt":
			return nil, mistake("%s is there twice", name)
		}
		given[name] = true
		if bare := name == "--stdin" || name == "--confirm"; bare && joined {
			return nil, mistake("%s takes no value", name)
		} else if !bare && !joined {
			if len(args) == 0 {
				return nil, mistake("%s needs a value", name)
			}
			value, args = args[0], args[1:]
		}
		if err := o.set(name, value); err != nil {
			return nil, err
		}
	}
	return o, o.check(words, message, given)
}

// set takes the value of an option.
func (o *order) set(name, value string) error {
	switch name {
	case "--message-file":
		if value == "" {
			return mistake("--message-file needs a path")
		}
		o.file = value
	case "--stdin":
		o.stdin = true
	case "--request":
		target, message, found := strings.Cut(value, "=")
		if !found {
			return mistake("--request must be TARGET=MESSAGE")
		}
		o.requests = append(o.requests, handoff.Request{Target: target, Message: message})
	case "--receipt":
		if !handoff.IsToken(value) {
			return fault.New("RECEIPT_INVALID", "--receipt must be herdr-receipt-v1. and a UUID")
		}
		token := strings.ToLower(value)
		if slices.Contains(o.receipts, token) {
			return mistake("a receipt is there twice")
		}
		o.receipts = append(o.receipts, token)
	case "--mode":
		if value != "all" && value != "first" {
			return mistake("--mode must be all or first")
		}
		o.wait.First = value == "first"
	case "--timeout-ms":
		ms, err := strconv.ParseUint(value, 10, 32)
		if err != nil || ms < 1 || ms > 600000 {
			return mistake("--timeout-ms must be an integer from 1 to 600000")
		}
		o.wait.Timeout = time.Duration(ms) * time.Millisecond
	case "--read-lines":
		lines, err := strconv.ParseUint(value, 10, 32)
		if err != nil || lines < 1 || lines > 1000 {
			return mistake("--read-lines must be an integer from 1 to 1000")
		}
		o.wait.Lines = int(lines)
	}
	return nil
}

// check holds the order to what its command needs. words are those that are no
// options, message is what stands behind --.
func (o *order) check(words []string, message *string, given map[string]bool) error {
	if o.verb != "ask" && (len(words) > 0 || message != nil) {
		return mistake("%s takes options alone", o.verb)
	}
	switch o.verb {
	case "ask":
		sources := 0
		for _, there := range []bool{message != nil, given["--message-file"], given["--stdin"]} {
			if there {
				sources++
			}
		}
		switch {
		case len(words) == 0:
			return mistake("ask needs the name of a leased agent")
		case len(words) > 1:
			return mistake("ask takes one name; the message stands behind --, in --message-file or on --stdin")
		case sources != 1:
			return mistake("ask needs one message: behind --, in --message-file or on --stdin")
		}
		o.requests = []handoff.Request{{Target: words[0]}}
		if message == nil {
			_, err := handoff.Check([]handoff.Request{{Target: words[0], Message: "to be read"}})
			return err
		}
		o.requests[0].Message = *message
		return o.checkRequests()
	case "ask-many":
		return o.checkRequests()
	case "collect":
		if len(o.receipts) == 0 || len(o.receipts) > handoff.MaxRequests {
			return mistake("collect needs 1 to %d of --receipt", handoff.MaxRequests)
		}
	case "abandon":
		if len(o.receipts) != 1 {
			return mistake("abandon needs one --receipt")
		}
	case "unlock":
		if !given["--confirm"] {
			return mistake("unlock is for a person who knows that no bridge uses this state: say so with --confirm")
		}
	}
	return nil
}

func (o *order) checkRequests() (err error) {
	o.requests, err = handoff.Check(o.requests)
	return err
}

// agentControl runs the command and says what is wrong.
func agentControl(ctx context.Context, p *Process, args []string) error {
	o, err := parseOrder(args)
	if errors.Is(err, flag.ErrHelp) {
		return help(p, commands(), []string{controlName})
	}
	exit := exitUsage // until something has been looked at
	if err == nil {
		toolset := "mesh"
		err = watched(ctx, p, options{toolsets: &toolset}, func(ctx context.Context, c *config) (err error) {
			exit, err = o.run(ctx, p, c)
			return err
		})
	}
	var usage *usageError
	var f *fault.Fault
	switch {
	case err == nil || errors.Is(err, errSaid):
	case errors.As(err, &usage): // of the environment
		text := usage.text
		if !strings.HasPrefix(text, "PLATFORM_UNSUPPORTED: ") {
			text = "INVALID_ARGUMENT: " + text
		}
		sayControl(p, text)
	case errors.As(err, &f):
		sayControl(p, f.Error())
	default:
		sayControl(p, "INTERNAL: "+strings.TrimPrefix(err.Error(), "herdr-link: "))
	}
	if errors.Is(err, errSaid) {
		exit = exitFailed // ended from outside
	}
	return exitStatus(exit)
}

func sayControl(p *Process, text string) {
	fmt.Fprintf(p.Stderr, "herdr-link %s: %s\n", controlName, visible(text))
}

// run carries out an order and returns the exit code, which is exitUsage as long
// as nothing but what was given has been looked at.
func (o *order) run(ctx context.Context, p *Process, c *config) (exit int, err error) {
	if err := o.read(ctx, p); err != nil {
		return exitUsage, err
	}
	m := c.mesh(p)
	if o.verb == "unlock" {
		answer, err := m.Unlock()
		return o.say(p, answer, err)
	}
	a, err := m.AgentControl(c.getenv)
	if err != nil {
		if fault.Code(err) == "INVALID_ARGUMENT" {
			return exitUsage, err
		}
		return exitFailed, err
	}
	return o.control(ctx, p, a)
}

// control does what needs a controller.
func (o *order) control(ctx context.Context, p *Process, a *mesh.AgentControl) (exit int, err error) {
	var answer any
	var handed *handoff.Answer
	switch o.verb {
	case "status":
		answer, err = a.Status(ctx)
	case "receipts":
		answer, err = a.Receipts()
	case "ask", "ask-many":
		handed, err = a.Ask(ctx, o.requests, o.wait)
		answer = handed
	case "collect":
		handed, err = a.Collect(ctx, o.receipts, o.wait)
		answer = handed
	case "abandon":
		answer, err = a.Abandon(ctx, o.receipts[0])
	}
	exit, err = o.say(p, answer, err)
	if err == nil && handed != nil && len(handed.Failed)+len(handed.Pending) > 0 {
		exit = exitPartly
	}
	return exit, err
}

// say prints the answer, if there is no error.
func (o *order) say(p *Process, answer any, err error) (int, error) {
	if err != nil {
		return exitFailed, fault.Herdr(err)
	}
	if err := encode(p, answer); err != nil {
		return exitFailed, err
	}
	return exitOK, nil
}

// read gets the message of ask from where it is.
func (o *order) read(ctx context.Context, p *Process) error {
	var text []byte
	var err error
	switch {
	case o.stdin && isTerminal(p.Stdin):
		return mistake("--stdin is a terminal: give the message behind --")
	case o.stdin:
		text, err = readInput(ctx, p.Stdin, handoff.MaxMessage+1)
		if err != nil && !errors.Is(err, errSaid) {
			err = mistake("stdin cannot be read")
		}
	case o.file != "":
		text, err = readMessage(o.file)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	if len(text) > handoff.MaxMessage { // before any of it is dropped
		return fault.New("MESSAGE_TOO_LARGE", "the message has more than %d bytes: write the rest to a file and name it", handoff.MaxMessage)
	}
	o.requests[0].Message = string(text)
	return o.checkRequests()
}

// readMessage reads a regular file, and a byte more than a message may have. What
// else there may be at the path could block for ever.
func readMessage(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonBlock, 0)
	if err != nil {
		return nil, mistake("--message-file cannot be opened")
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, mistake("--message-file must be a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, handoff.MaxMessage+1))
	if err != nil {
		return nil, mistake("--message-file cannot be read")
	}
	return text, nil
}
