package herdrcli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// run runs herdr and has its stdout read; read says whether it is what the call
// expects. secret is how many arguments at the end are never logged. Any error
// is an *Error.
func (c *Client) run(ctx context.Context, read func(stdout []byte) bool, command string, secret int, args ...string) error {
	argv := append(strings.Fields(command), args...)
	begun := time.Now()
	stdout, stderr := &output{max: maxStdout}, &output{max: maxStderr}
	e := &Error{Command: command, Exit: -1}
	e.Err = c.start(ctx, job{argv: argv, timeout: c.timeout, gentle: c.gentle}, e, stdout, stderr)
	if e.Err == nil && e.Exit == 1 {
		e.Code = errorCode(stderr.buf.Bytes())
	}
	switch {
	case e.Err != nil:
	case e.Code != "":
		e.Err = ErrRefused
	case e.Exit != 0 || !utf8.Valid(stdout.buf.Bytes()) || !read(stdout.buf.Bytes()):
		e.Err = ErrOutput
	}
	c.record(ctx, e, argv, secret, time.Since(begun), stdout, stderr)
	if e.Err != nil {
		return e
	}
	return nil
}

// A job is a program to be run.
type job struct {
	bin     string
	dir     string // "": this process's own
	env     []string
	argv    []string
	timeout time.Duration
	gentle  bool // it is asked to end before it is killed
	files   []*os.File
	session bool
}

// start is run for herdr.
func (c *Client) start(ctx context.Context, j job, e *Error, stdout, stderr *output) (err error) {
	if j.bin, err = c.Binary(); err != nil {
		return err
	}
	if Reserved(j.argv...) {
		return ErrReserved
	}
	j.env = c.env
	return j.run(ctx, e, stdout, stderr)
}

// run starts the program, waits for its end and fills in e.Started and e.Exit.
// It returns an error if that end was not the program's own doing.
func (j job) run(ctx context.Context, e *Error, stdout, stderr *output) error {
	ctx, stop := context.WithTimeoutCause(ctx, j.timeout, ErrTimeout)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	overflow := func() { cancel(ErrTooMuch) }
	stdout.overflow = overflow
	if stderr.strict {
		stderr.overflow = overflow
	}

	cmd := exec.CommandContext(ctx, j.bin, j.argv...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = j.dir, j.env, j.files
	group := newGroup(cmd)
	if j.session {
		group.session()
	}
	cmd.Cancel = group.kill
	dying := killGrace
	if j.gentle {
		dying += termGrace
		cmd.Cancel = func() error {
			time.AfterFunc(termGrace, func() { _ = group.kill() })
			return group.terminate()
		}
	}
	defer stdout.close()
	defer stderr.close()
	if err := errors.Join(stdout.open(), stderr.open()); err != nil {
		return ErrResources
	}
	cmd.Stdout, cmd.Stderr = stdout.w, stderr.w
	if err := cmd.Start(); err != nil {
		var errno syscall.Errno
		switch {
		case ctx.Err() != nil:
			return cause(ctx)
		case errors.Is(err, syscall.E2BIG) || tooLong(err):
			return ErrTooLong
		case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) ||
			errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE):
			return ErrResources
		case errors.As(err, &errno):
			return fmt.Errorf("%w: %v", ErrBinary, errno) // without the path
		}
		return ErrBinary
	}
	e.Started = true
	group.adopt()
	stdout.read()
	stderr.read()
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		// Nearly every child closes its stdout by exiting. Waiting for that first
		// costs no thread, and does not keep a processor from other goroutines.
		select {
		case <-stdout.done:
		case <-time.After(pipeGrace / 4):
		}
		group.wait()
	}()
	select {
	case <-exited:
	case <-ctx.Done():
		select {
		case <-exited:
		case <-time.After(dying):
			// It cannot be killed: another user's, or stuck in the kernel. It is
			// reaped when it ends.
			go func() {
				<-exited
				_ = cmd.Wait()
			}()
			stdout.abandon()
			stderr.abandon()
			return cause(ctx)
		}
	}
	_ = cmd.Wait() // ProcessState has all that it says
	over := ctx.Err() != nil
	grace, release := context.WithTimeout(context.Background(), pipeGrace)
	defer release()
	stdout.finish(grace.Done())
	stderr.finish(grace.Done())
	switch {
	case errors.Is(context.Cause(ctx), ErrTooMuch):
		return ErrTooMuch
	case cmd.ProcessState == nil:
		return ErrOutput
	case over && !cmd.ProcessState.Success(): // what ended well in the last moment counts
		return cause(ctx)
	}
	e.Exit = cmd.ProcessState.ExitCode()
	return nil
}

// cause is why ctx ended; a deadline of the caller's is a time-out as well.
func cause(ctx context.Context) error {
	err := context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return ErrTimeout
	}
	return err
}

// errorCode returns error.code of Herdr's JSON error, or "".
func errorCode(stderr []byte) string {
	var answer struct{ Error struct{ Code string } }
	if json.Unmarshal(stderr, &answer) != nil {
		return ""
	}
	return answer.Error.Code
}

// maxLogged is how much of stderr a log record has.
const maxLogged = 2 << 10

func (c *Client) record(ctx context.Context, e *Error, argv []string, secret int, took time.Duration, stdout, stderr *output) {
	if !c.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	level, attrs := slog.LevelInfo, []slog.Attr{
		slog.Int("exit", e.Exit),
		slog.Float64("ms", float64(took.Microseconds())/1000),
		slog.Int("stdout_bytes", stdout.total),
		slog.Int("stderr_bytes", stderr.total),
	}
	switch {
	case c.brief:
	case secret > 0:
		// What Herdr says about a message may quote it, so only sizes are kept.
		attrs = append(attrs, slog.Any("argv", argv[:len(argv)-secret]), slog.Int("text_bytes", len(strings.Join(argv[len(argv)-secret:], ""))))
	default:
		attrs = append(attrs, slog.Any("argv", argv))
		if stderr.total > 0 {
			kept := stderr.buf.Bytes()
			attrs = append(attrs, slog.String("stderr", string(kept[:min(len(kept), maxLogged)])))
		}
	}
	if e.Code != "" {
		attrs = append(attrs, slog.String("code", e.Code))
	}
	if e.Err != nil {
		level, attrs = slog.LevelWarn, append(attrs, slog.String("error", e.Err.Error()))
	}
	c.log.LogAttrs(ctx, level, "herdr "+e.Command, attrs...)
}
