// Package herdrcli runs the herdr command line: argv only, bounded in time and
// output, in a process group that is killed when the call ends. It also has the
// lock that keeps two writers from typing into one pane at once.
//
// It decodes what Herdr answers and classifies how a call failed. It knows
// nothing of MCP and decides nothing about who may talk to whom.
package herdrcli

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	// maxStdout is the most that a call may print. Beyond it the call is
	// killed and fails with ErrOutput.
	maxStdout = 4 << 20
	// maxStderr is how much of stderr is kept; the rest is read and dropped.
	maxStderr = 64 << 10
	// pipeGrace is how long a pipe may stay open behind a herdr that has exited.
	// Only what left its process group can hold it then.
	pipeGrace = 100 * time.Millisecond
	// termGrace is how long a child that has been asked to end may take before
	// it is killed.
	termGrace = 500 * time.Millisecond
	// killGrace is how long a child that has been killed may take to exit.
	killGrace = 500 * time.Millisecond
	// DefaultTimeout is the time of a call unless Options say another.
	DefaultTimeout = 10 * time.Second
)

// Why a call failed, beside an error code of Herdr's own. Test with errors.Is.
var (
	// ErrBinary: the program is not an absolute path to an executable file, or did not start.
	ErrBinary = errors.New("herdr cannot be run")
	// ErrNotFound is the ErrBinary of a program that is not there at all.
	ErrNotFound = fmt.Errorf("%w: no such file", ErrBinary)
	// ErrResources: the system has no room for another process or open file now.
	ErrResources = errors.New("no room for another process or open file")
	// ErrTimeout: Herdr did not answer in time and was killed.
	ErrTimeout = errors.New("herdr did not answer in time")
	// ErrOutput: Herdr ended, but not with what the call expects.
	ErrOutput = errors.New("unexpected output of herdr")
	// ErrTooMuch is the ErrOutput of a call that printed more than it may.
	ErrTooMuch = fmt.Errorf("%w: too much of it", ErrOutput)
	// ErrReserved: an argument is one of Herdr's own words. Herdr was not started.
	ErrReserved = errors.New("argument is reserved by herdr")
	// ErrTooLong: an argument is longer than the system takes. Herdr was not started.
	ErrTooLong = errors.New("argument too long for the system")
	// ErrRefused: Herdr answered with an error; Error.Code has its code.
	ErrRefused = errors.New("refused by herdr")
)

// An Error is a call that failed. Err is one of the causes above, or the
// context's error if the caller gave up.
type Error struct {
	Command string // such as "agent get"
	Code    string // Herdr's error.code, empty if there was none
	Exit    int    // exit code, -1 if herdr did not start or did not exit by itself
	Started bool   // herdr was started, so it may have acted
	Err     error
}

// Error names no id, no path and nothing that Herdr wrote.
func (e *Error) Error() string {
	if e.Code != "" {
		return fmt.Sprintf("herdr %s: %v (%s)", e.Command, e.Err, e.Code)
	}
	return fmt.Sprintf("herdr %s: %v", e.Command, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Code returns Herdr's own error code if err is an answer of Herdr's, else "".
func Code(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Options are what a Client needs to know.
type Options struct {
	Bin     string        // from HERDR_BIN_PATH
	Path    string        // from PATH, if herdr may be found there when Bin is empty
	Environ []string      // as os.Environ gives it
	Timeout time.Duration // of each call; 0: DefaultTimeout
	Log     *slog.Logger  // a record a call; nil: none
	Gentle  bool          // a child that has to end is asked to, 500 ms before it is killed
	Brief   bool          // records tell the command, its end and its time, and no arguments or output
}

// A Client runs herdr. Its methods may be used by many goroutines.
type Client struct {
	bin     string
	path    string
	env     []string
	timeout time.Duration
	log     *slog.Logger
	gentle  bool
	brief   bool
}

// New returns a client. Nothing is checked before the first call.
func New(o Options) *Client {
	c := &Client{bin: o.Bin, path: o.Path, timeout: o.Timeout, log: o.Log, gentle: o.Gentle, brief: o.Brief}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	// Herdr takes an empty value of these for a path and fails.
	c.env = slices.DeleteFunc(slices.Clone(o.Environ), func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return value == "" && (name == "HERDR_SOCKET_PATH" || name == "HERDR_SESSION")
	})
	return c
}

// For returns the client with the tool's name in its log records.
func (c *Client) For(tool string) *Client {
	d := *c
	d.log = c.log.With("tool", tool)
	return &d
}

// At returns the client for the server at another socket.
func (c *Client) At(socket string) *Client {
	d := *c
	d.env = append(slices.DeleteFunc(slices.Clone(c.env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == "HERDR_SOCKET_PATH" || name == "HERDR_SESSION"
	}), "HERDR_SOCKET_PATH="+socket)
	return &d
}

// Binary returns the absolute path of the program that is run now. The error is
// an ErrBinary.
func (c *Client) Binary() (string, error) {
	if c.bin != "" || c.path == "" {
		return c.bin, executable(c.bin)
	}
	return Find(c.path, "herdr")
}

// Find returns the absolute path of the program of that name in one of the
// absolute folders of path, a PATH. The error is ErrNotFound.
func Find(path, name string) (string, error) {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	for _, dir := range filepath.SplitList(path) {
		if file := filepath.Join(dir, name); executable(file) == nil {
			return file, nil
		}
	}
	return "", ErrNotFound
}

// executable checks what is about to be run. Windows runs .bat and .cmd files
// through a shell, which would read the arguments.
func executable(path string) error {
	if path == "" {
		return ErrNotFound
	}
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%w: the path is not absolute", ErrBinary)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrNotFound
	case err != nil || !info.Mode().IsRegular() || !runnable(info, path):
		return fmt.Errorf("%w: no executable file", ErrBinary)
	}
	return nil
}

// Reserved reports whether an argument, before a bare "--", is one of the words
// that Herdr's launcher takes out of any position, or acts on there, even if it
// is meant as text. A text that merely contains such a word is fine.
// (herdr-cli.md §5, point 8)
func Reserved(argv ...string) bool {
	for _, arg := range argv {
		if arg == "--" {
			break
		}
		name, _, _ := strings.Cut(arg, "=")
		switch name {
		case "--session", "--remote", "--remote-keybindings", "--handoff":
			return true
		}
	}
	return false
}
