package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"herdr-link/control"
	"herdr-link/herdrcli"
	"herdr-link/link"
	"herdr-link/mcp"
	"herdr-link/mesh"
)

// A config is what flags and environment say, checked.
type config struct {
	getenv   func(string) string
	timeout  time.Duration
	log      *slog.Logger
	toolsets []string
	ceiling  time.Duration // of control's commands; 0: none
	previews bool          // control types nothing that has not been previewed
	reader   readerFlags   // of response
	state    string        // root of mesh's records
	eager    bool
	noClose  bool
	modern   bool
}

// has reports whether a toolset is on.
func (c *config) has(toolset string) bool { return slices.Contains(c.toolsets, toolset) }

// toolsets are all that there are.
var toolsets = []string{"link", "control", "response", "mesh"}

// options are the flags that have a say in the config.
type options struct {
	eager, noGatewayClose bool
	era                   string
	toolsets              *string // nil: not given
	reader                readerFlags
}

// configure reads the environment; a flag that is set wins over its variable.
func configure(p *Process, o options) (*config, error) {
	c := &config{getenv: lookup(p.Environ), timeout: herdrcli.DefaultTimeout, noClose: o.noGatewayClose, reader: o.reader}
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
		name = strings.TrimSpace(name)
		if !slices.Contains(toolsets, name) {
			return nil, usagef("no such toolset: %.64q; there are: %s", name, strings.Join(toolsets, ", "))
		}
		if !c.has(name) {
			c.toolsets = append(c.toolsets, name)
		}
	}
	if c.has("control") {
		if c.ceiling, err = cliTimeout(c.getenv); err != nil {
			return nil, err
		}
		if c.previews, err = previewRequired(c.getenv); err != nil {
			return nil, err
		}
	}
	if err := c.reader.check(); err != nil {
		return nil, err
	}
	if c.has("mesh") {
		if c.state, err = c.meshState(); err != nil {
			return nil, err
		}
	}
	c.log = openLog(c.getenv("HERDR_LINK_LOG"), p.Stdout, p.Stderr)
	return c, nil
}

// cliTimeout reads the ceiling of control's commands, in milliseconds. Its second
// name is that of the toolset's origin.
func cliTimeout(getenv func(string) string) (time.Duration, error) {
	for _, name := range []string{"HERDR_LINK_CLI_TIMEOUT_MS", "DSH_HERDR_CLI_TIMEOUT_MS"} {
		v := getenv(name)
		if v == "" {
			continue
		}
		ms, err := strconv.ParseUint(v, 10, 31)
		if err != nil || ms < 1000 || ms > 3600000 {
			return 0, usagef("%s must be a number of milliseconds from 1000 to 3600000, not %.64q", name, v)
		}
		return time.Duration(ms) * time.Millisecond, nil
	}
	return 0, nil
}

// previewRequired reads control's switch, which has two names, too. A word that
// is neither on nor off is an error: it must not switch a protection off.
func previewRequired(getenv func(string) string) (bool, error) {
	for _, name := range []string{"HERDR_LINK_PREVIEW_REQUIRED", "DSH_HERDR_PREVIEW_REQUIRED"} {
		switch v := getenv(name); strings.ToLower(v) {
		case "":
		case "1", "true", "yes", "on":
			return true, nil
		case "0", "false", "no", "off":
			return false, nil
		default:
			return false, usagef("%s must be 1, true, yes or on, or 0, false, no or off, not %.64q", name, v)
		}
	}
	return false, nil
}

// meshState says where mesh keeps its records, or why mesh cannot be on.
func (c *config) meshState() (string, error) {
	if runtime.GOOS == "windows" {
		return "", usagef("PLATFORM_UNSUPPORTED: the toolset mesh is for Linux and macOS")
	}
	if c.has("control") {
		return "", usagef("the toolsets control and mesh exclude each other: leave one out")
	}
	dir := c.getenv("HERDR_MESH_STATE_DIR")
	if home := c.getenv("HOME"); dir == "" {
		if !filepath.IsAbs(home) {
			return "", usagef("the toolset mesh keeps its records in the home folder: HOME must be an absolute path, not %.64q (or set HERDR_MESH_STATE_DIR)", home)
		}
		dir = filepath.Join(home, ".local", "state", "herdr-mesh")
	}
	if !filepath.IsAbs(dir) {
		return "", usagef("HERDR_MESH_STATE_DIR must be an absolute path, not %.64q", dir)
	}
	return dir, nil
}

// told returns the environment without the HERDR_ variables that hold a reference
// to themselves: an entry names them so, and some hosts (Hermes Agent 0.19.0) hand
// that text on where they have no value.
func told(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "HERDR_") && (value == "${"+name+"}" || value == "${env:"+name+"}")
	})
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
	return link.New(link.Options{
		Getenv: c.getenv,
		Herdr: herdrcli.New(herdrcli.Options{
			Bin: c.getenv("HERDR_BIN_PATH"), Environ: p.Environ, Timeout: c.timeout, Log: c.log,
		}),
		Locks:          locks(),
		Log:            c.log,
		Eager:          c.eager,
		NoGatewayClose: c.noClose,
	})
}

// control makes the toolset of that name for this process.
func (c *config) control(p *Process) *control.Control {
	return control.New(control.Options{
		Getenv: c.getenv,
		Herdr: herdrcli.New(herdrcli.Options{
			Bin: c.getenv("HERDR_BIN_PATH"), Path: c.getenv("PATH"), Environ: p.Environ,
		}),
		Locks:           locks(),
		Log:             c.log,
		Version:         p.Version,
		Toolsets:        c.toolsets,
		Timeout:         c.timeout,
		Ceiling:         c.ceiling,
		PreviewRequired: c.previews,
		AnyAgentArgs:    c.getenv("HERDR_LINK_AGENT_ARGS") == "any",
	})
}

// mesh makes the toolset of that name for this process.
func (c *config) mesh(p *Process) *mesh.Mesh {
	return mesh.New(mesh.Options{
		Getenv:  c.getenv,
		Environ: p.Environ,
		Herdr: herdrcli.New(herdrcli.Options{
			Bin: c.getenv("HERDR_BIN_PATH"), Path: c.getenv("PATH"), Environ: p.Environ, Timeout: c.timeout, Log: c.log, Gentle: true, Brief: true,
		}),
		Locks:   locks(),
		Log:     c.log,
		State:   c.state,
		Version: p.Version,
	})
}

func locks() *herdrcli.Locks {
	home, _ := os.UserHomeDir() // none: no lock can be made
	return herdrcli.NewLocks(home)
}

// tools returns the tools of the toolsets that are on; core is link's.
func (c *config) tools(p *Process, core *link.Link) (all []mcp.Tool) {
	if c.has("link") {
		all = core.Tools()
	}
	if c.has("control") {
		all = append(all, c.control(p).Tools()...)
	}
	if c.has("response") {
		all = append(all, c.answers(p).Tools()...)
	}
	if c.has("mesh") {
		all = append(all, c.mesh(p).Tools()...)
	}
	return all
}
