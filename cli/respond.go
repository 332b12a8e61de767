package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/response"
)

// readerFlags are the options of the toolset response.
type readerFlags struct {
	role  string
	hosts string
	max   string

	enabled []string // hosts, checked
	bytes   int64    // max, checked
}

const readerHelp = `
For the toolset response:
  --caller-role ROLE       what the caller is: shepherd-plan, shepherd-build or coordinator; else it may read nothing
  --response-hosts LIST    whose sessions a coordinator may read: opencode, claude, codex (default: all three)
  --max-session-bytes N    how large a session may be (default: 67108864, at least 1048576)`

func (f *readerFlags) define(flags *flag.FlagSet) {
	flags.StringVar(&f.role, "caller-role", "", "")
	flags.StringVar(&f.hosts, "response-hosts", "", "")
	flags.StringVar(&f.max, "max-session-bytes", "", "")
}

// check reads the options. A role that there is not is no mistake: the tool says so.
func (f *readerFlags) check() error {
	f.enabled = response.Hosts()
	if f.hosts != "" {
		f.enabled = nil
		for name := range strings.SplitSeq(f.hosts, ",") {
			name = strings.TrimSpace(name)
			if !slices.Contains(response.Hosts(), name) {
				return usagef("no such host: %.64q; --response-hosts knows %s", name, strings.Join(response.Hosts(), ", "))
			}
			f.enabled = append(f.enabled, name)
		}
	}
	f.bytes = response.DefaultMaxBytes
	if f.max != "" {
		n, err := strconv.ParseInt(f.max, 10, 64)
		if err != nil || n < response.MinMaxBytes {
			return usagef("--max-session-bytes must be a number of %d or more, not %.64q", response.MinMaxBytes, f.max)
		}
		f.bytes = n
	}
	return nil
}

// answers makes the toolset response for this process.
func (c *config) answers(p *Process) *response.Reader {
	return response.New(c.readerOptions(p, or(c.reader.role, c.getenv("HERDR_LINK_CALLER_ROLE"))))
}

func (c *config) readerOptions(p *Process, role string) response.Options {
	home, _ := os.UserHomeDir() // none: no transcripts there
	return response.Options{
		Getenv: c.getenv, Environ: p.Environ, Home: home,
		// Without a log: it would have argv.
		Herdr: herdrcli.New(herdrcli.Options{Bin: c.getenv("HERDR_BIN_PATH"), Path: c.getenv("PATH"), Environ: p.Environ, Timeout: c.timeout}),
		Log:   c.log,
		Role:  role, Hosts: c.reader.enabled, MaxBytes: c.reader.bytes,
	}
}

const (
	// maxRequest is the size of a request of the plugin's.
	maxRequest = 64 << 10
	// respondTime is how long one may take: the plugin gives up at 90 s.
	respondTime = 85 * time.Second
)

// respond answers one request of the plugin's: who asks, what, and the secret
// that signs cursors as long as OpenCode runs.
func respond(ctx context.Context, p *Process, c *config) error {
	if isTerminal(p.Stdin) {
		return usagef("orchestration respond reads its request from stdin, which is a terminal")
	}
	raw, err := readInput(ctx, p.Stdin, maxRequest+1)
	if err != nil {
		return err
	}
	var request struct {
		V      int
		Secret string
		Agent  string
		Args   json.RawMessage
	}
	if len(raw) > maxRequest {
		return usagef("the request is longer than %d bytes", maxRequest)
	}
	if json.Unmarshal(raw, &request) != nil || request.V != 1 {
		return usagef("the request is not one of version 1")
	}
	secret, err := base64.RawURLEncoding.DecodeString(request.Secret)
	if err != nil || len(secret) != response.SecretSize {
		return usagef("the request's secret must have %d bytes", response.SecretSize)
	}
	role := request.Agent
	if role == response.Coordinator { // that is a server's role, and nobody's name
		role = ""
	}
	o := c.readerOptions(p, role)
	o.Secret = secret
	ctx, stop := context.WithTimeout(ctx, respondTime)
	defer stop()
	answer := response.New(o).Respond(ctx, request.Args)
	if context.Cause(ctx) != nil && ctx.Err() == context.Canceled {
		return errSaid // ended from outside: nobody waits for it
	}
	return printLine(p, answer)
}
