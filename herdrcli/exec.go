package herdrcli

import (
	"context"
	"io"
	"math"
	"os"
	"time"
)

// An Outcome is how one herdr ended and what it printed.
type Outcome struct {
	Exit           int // exit code, -1 if herdr did not start or did not exit by itself
	Stdout, Stderr []byte
	Started        bool // herdr was started, so it may have acted
	Took           time.Duration
	// Err is why it did not end by itself: ErrBinary, ErrResources, ErrReserved,
	// ErrTooLong, ErrTimeout, ErrTooMuch, or the context's error.
	Err error
}

// Exec runs herdr with any arguments and returns the outcome as it is: what the
// exit code and the output mean is the caller's to say. Each of stdout and
// stderr may have 4 MiB. A child that has to end gets SIGTERM and, 500 ms later,
// SIGKILL. timeout 0 is the client's own. Nothing is logged.
func (c *Client) Exec(ctx context.Context, timeout time.Duration, argv ...string) Outcome {
	begun := time.Now()
	if timeout <= 0 {
		timeout = c.timeout
	}
	stdout, stderr := &output{max: maxStdout}, &output{max: maxStdout, strict: true}
	e := &Error{Exit: -1}
	err := c.start(ctx, job{argv: argv, timeout: timeout, gentle: true}, e, stdout, stderr)
	return Outcome{
		Exit: e.Exit, Started: e.Started, Took: time.Since(begun), Err: err,
		Stdout: stdout.buf.Bytes(), Stderr: stderr.buf.Bytes(),
	}
}

// Failure returns an outcome that is none of success as the *Error of a typed
// call of that command, or nil: herdr exited with 0, whatever it printed.
func (o *Outcome) Failure(command string) error {
	e := &Error{Command: command, Exit: o.Exit, Started: o.Started, Err: o.Err}
	switch {
	case o.Err != nil:
		return e
	case o.Exit == 0:
		return nil
	case o.Exit == 1:
		e.Code = errorCode(o.Stderr)
	}
	if e.Err = ErrOutput; e.Code != "" {
		e.Err = ErrRefused
	}
	return e
}

// A Program is another one than herdr, to be run in the same way: argv only,
// bounded, in a process group of its own.
type Program struct {
	Bin     string // an absolute path, as Find gives it
	Dir     string
	Environ []string
	Timeout time.Duration
	// Stdout is a regular file that takes the program's stdout, for programs that
	// lose some of it in a pipe. It may get a little larger than MaxStdout: then
	// the program is ended, and that is ErrTooMuch.
	Stdout *os.File
	// Sink takes the program's stdout where Stdout is nil, through a pipe, as it
	// comes. It is never given more than MaxStdout bytes, and must be one that
	// does not fail, such as a hash or a buffer.
	Sink      io.Writer
	MaxStdout int
	// ErrSink, if not nil, takes all of stderr in the same way, however much it is.
	ErrSink io.Writer
	// Files are the program's descriptors from 3 on. Windows has none.
	Files []*os.File
	// Session has the program lead a session of its own, so without a terminal.
	// Windows has none.
	Session bool
}

// Exec runs the program like Client.Exec. The outcome has no Stdout, and at most
// 64 KiB of Stderr, or none with an ErrSink.
func (p Program) Exec(ctx context.Context, argv ...string) Outcome {
	begun := time.Now()
	stdout, stderr := &output{file: p.Stdout, sink: p.Sink, max: p.MaxStdout}, &output{max: maxStderr, sink: p.ErrSink}
	if p.ErrSink != nil {
		stderr.max = math.MaxInt
	}
	e := &Error{Exit: -1}
	err := executable(p.Bin)
	if err == nil {
		j := job{bin: p.Bin, dir: p.Dir, env: p.Environ, argv: argv, timeout: p.Timeout, gentle: true, files: p.Files, session: p.Session}
		err = j.run(ctx, e, stdout, stderr)
	}
	return Outcome{Exit: e.Exit, Started: e.Started, Took: time.Since(begun), Err: err, Stderr: stderr.buf.Bytes()}
}
