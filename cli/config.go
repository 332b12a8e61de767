package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/link"
	"herdr-link/mcp"
)

// A config is what flags and environment say, checked.
type config struct {
	getenv  func(string) string
	timeout time.Duration
	log     *slog.Logger
	eager   bool
	noClose bool
	modern  bool
}

// options are the flags that have a say in the config.
type options struct {
	eager, noGatewayClose bool
	era                   string
	toolsets              *string // nil: not given
}

// configure reads the environment; a flag that is set wins over its variable.
func configure(p *Process, o options) (*config, error) {
	c := &config{getenv: lookup(p.Environ), timeout: herdrcli.DefaultTimeout, noClose: o.noGatewayClose}
	var err error
	if v := c.getenv("HERDR_LINK_TIMEOUT"); v != "" {
		if c.timeout, err = time.ParseDuration(v); err != nil || c.timeout <= 0 {
			return nil, usagef("HERDR_LINK_TIMEOUT must be a positive duration such as 10s or 500ms, not %.64q", v)
		}
	}
	switch v := c.getenv("HERDR_LINK_EAGER"); v {
	case "", "0", "1":
		c.eager = o.eager || v == "1"
	default:
		return nil, usagef("HERDR_LINK_EAGER must be 1 or 0, not %.64q", v)
	}
	switch v := or(o.era, c.getenv("HERDR_LINK_ERA")); v {
	case "":
	case mcp.Modern:
		c.modern = true
	default:
		return nil, usagef("the era must be %s, not %.64q", mcp.Modern, v)
	}
	list := or(c.getenv("HERDR_LINK_TOOLSETS"), "link")
	if o.toolsets != nil {
		list = *o.toolsets
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "link" {
			return nil, usagef("no such toolset: %.64q; there is: link", name)
		}
	}
	c.log = openLog(c.getenv("HERDR_LINK_LOG"), p.Stdout, p.Stderr)
	return c, nil
}

// lookup is os.Getenv for that environment; the last one of a name counts.
func lookup(environ []string) func(string) string {
	return func(name string) string {
		for i := len(environ) - 1; i >= 0; i-- {
			if n, v, _ := strings.Cut(environ[i], "="); n == name {
				return v
			}
		}
		return ""
	}
}

func or(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// openLog opens the operator's log. Records are appended in one write each, so
// that several servers may share the file. A file that cannot be written is
// told once on stderr, and the server goes on. Only a regular file will do:
// anything else could block, or be stdout.
func openLog(path string, stdout *os.File, stderr io.Writer) *slog.Logger {
	if path == "" {
		return slog.New(slog.DiscardHandler)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|nonBlock, 0o600)
	if err == nil {
		var info, protocol os.FileInfo
		info, err = f.Stat()
		if err == nil {
			protocol, _ = stdout.Stat()
			if !info.Mode().IsRegular() || os.SameFile(info, protocol) {
				err = errors.New("it is not a regular file of its own")
			} else if info.Mode().Perm()&0o077 != 0 {
				err = f.Chmod(0o600)
			}
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "herdr-link: HERDR_LINK_LOG cannot be used, going on without: %v\n", err)
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewJSONHandler(&logFile{file: f, stderr: stderr}, nil)).With("pid", os.Getpid())
}

// A logFile tells once that it cannot be written any more.
type logFile struct {
	file   *os.File
	stderr io.Writer
	once   sync.Once
}

func (l *logFile) Write(record []byte) (int, error) {
	n, err := l.file.Write(record)
	if err != nil {
		l.once.Do(func() { fmt.Fprintf(l.stderr, "herdr-link: HERDR_LINK_LOG cannot be written any more: %v\n", err) })
	}
	return n, err
}

// core makes the herdr-link core for this process.
func (c *config) core(p *Process) *link.Link {
	home, _ := os.UserHomeDir() // none: sending goes on without locks
	return link.New(link.Options{
		Getenv: c.getenv,
		Herdr: herdrcli.New(herdrcli.Options{
			Bin: c.getenv("HERDR_BIN_PATH"), Environ: p.Environ, Timeout: c.timeout, Log: c.log,
		}),
		Locks:          herdrcli.NewLocks(home),
		Log:            c.log,
		Eager:          c.eager,
		NoGatewayClose: c.noClose,
	})
}
