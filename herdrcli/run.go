package herdrcli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

// run runs herdr and returns its stdout. secret is how many arguments at the
// end are never logged. Any error is an *Error.
func (c *Client) run(ctx context.Context, command string, secret int, args ...string) ([]byte, error) {
	argv := append(strings.Fields(command), args...)
	begun := time.Now()
	stdout, stderr := limited{max: maxStdout}, limited{max: maxStderr}
	e := &Error{Command: command, Exit: -1}
	e.Err = c.start(ctx, argv, e, &stdout, &stderr)
	if e.Err == nil && e.Exit == 1 {
		e.Code = errorCode(stderr.buf.Bytes())
	}
	switch {
	case e.Err != nil:
	case e.Code != "":
		e.Err = ErrRefused
	case e.Exit != 0 || !utf8.Valid(stdout.buf.Bytes()):
		e.Err = ErrOutput
	}
	c.record(ctx, e, argv, secret, time.Since(begun), &stdout, &stderr)
	if e.Err != nil {
		return nil, e
	}
	return stdout.buf.Bytes(), nil
}

// start starts herdr, waits for its end and fills in e.Started and e.Exit. It
// returns an error if that end was not herdr's own doing.
func (c *Client) start(ctx context.Context, argv []string, e *Error, stdout, stderr *limited) error {
	if err := executable(c.bin); err != nil {
		return err
	}
	ctx, stop := context.WithTimeoutCause(ctx, c.timeout, ErrTimeout)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdout.overflow = func() { cancel(ErrOutput) }

	cmd := exec.CommandContext(ctx, c.bin, argv...)
	cmd.Env = c.env
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = pipeGrace
	group := newGroup(cmd)
	cmd.Cancel = group.kill
	if err := cmd.Start(); err != nil {
		switch {
		case ctx.Err() != nil:
			return cause(ctx)
		case errors.Is(err, syscall.E2BIG) || tooLong(err):
			return ErrTooLong
		}
		return ErrBinary
	}
	e.Started = true
	group.started()
	err := cmd.Wait()
	if ctx.Err() != nil {
		return cause(ctx)
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // herdr itself has exited well; something it left behind held the pipe
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return ErrOutput
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

func (c *Client) record(ctx context.Context, e *Error, argv []string, secret int, took time.Duration, stdout, stderr *limited) {
	if !c.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	level, attrs := slog.LevelInfo, []slog.Attr{
		slog.Any("argv", argv[:len(argv)-secret]),
		slog.Int("exit", e.Exit),
		slog.Float64("ms", float64(took.Microseconds())/1000),
		slog.Int("stdout_bytes", stdout.total),
		slog.Int("stderr_bytes", stderr.total),
	}
	if secret > 0 {
		// What Herdr says about a message may quote it, so only sizes are kept.
		attrs = append(attrs, slog.Int("text_bytes", len(strings.Join(argv[len(argv)-secret:], ""))))
	} else if stderr.total > 0 {
		kept := stderr.buf.Bytes()
		attrs = append(attrs, slog.String("stderr", string(kept[:min(len(kept), maxLogged)])))
	}
	if e.Code != "" {
		attrs = append(attrs, slog.String("code", e.Code))
	}
	if e.Err != nil {
		level, attrs = slog.LevelWarn, append(attrs, slog.String("error", e.Err.Error()))
	}
	c.log.LogAttrs(ctx, level, "herdr "+e.Command, attrs...)
}

// A limited keeps the first max bytes written to it and swallows the rest, so
// that a chatty child is neither blocked nor believed. (The buffer is a field
// with a name: embedded, it would lend its ReadFrom, which knows no limit.)
type limited struct {
	buf      bytes.Buffer
	max      int
	total    int
	overflow func() // called once when more than max bytes came; may be nil
	once     sync.Once
}

func (l *limited) Write(p []byte) (int, error) {
	l.total += len(p)
	l.buf.Write(p[:min(len(p), l.max-l.buf.Len())])
	if l.total > l.max && l.overflow != nil {
		l.once.Do(l.overflow)
	}
	return len(p), nil
}

// ReadFrom spares io.Copy its buffer of 32 KiB: most answers have less than one.
func (l *limited) ReadFrom(r io.Reader) (n int64, err error) {
	chunk := make([]byte, 1024)
	for {
		m, err := r.Read(chunk)
		_, _ = l.Write(chunk[:m])
		n += int64(m)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if m == len(chunk) && m < 64<<10 {
			chunk = make([]byte, 4*m)
		}
	}
}
