package response

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"time"

	"herdr-link/herdrcli"
)

// exportTime is how long opencode export may take.
const exportTime = 60 * time.Second

// isOpenCode reports whether id can be an argument of opencode export: no option,
// and nothing that it reads in another way.
func isOpenCode(id string) bool {
	const set = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-"
	return strings.HasPrefix(id, "ses") && strings.Trim(id, set) == ""
}

// export has OpenCode print a session into a file, which is to be handed to
// discard. Through a pipe it would lose the end of a long one. It runs in an empty
// folder: in a repository it would load and run the plugins of that, and from
// elsewhere it prints the same. The user's own plugins run all the same, Herdr's and
// ours among them: this process's pane is not theirs to speak for.
func (r *Reader) export(ctx context.Context, id string) (*os.File, error) {
	if !isOpenCode(id) {
		return nil, errNoSession
	}
	bin, err := herdrcli.Find(r.getenv("PATH"), "opencode")
	if err != nil {
		return nil, errExport("there is no opencode on PATH")
	}
	dir, err := os.MkdirTemp("", "herdr-link-") // mode 0700
	if err != nil {
		return nil, errExport("there is no room for a temporary folder")
	}
	defer os.RemoveAll(dir)
	file, err := os.CreateTemp("", "herdr-link-") // mode 0600
	if err != nil {
		return nil, errExport("there is no room for a temporary file")
	}
	_ = os.Remove(file.Name()) // Windows refuses that as long as it is open
	out := herdrcli.Program{
		Bin: bin, Dir: dir, Stdout: file, MaxStdout: int(r.max), Timeout: exportTime,
		Environ: append(r.environ[:len(r.environ):len(r.environ)], "OPENCODE_DISABLE_PROJECT_CONFIG=1", "PWD="+dir,
			"HERDR_ENV=", "HERDR_PANE_ID="),
	}.Exec(ctx, "export", id)
	r.log.Info("child", "program", "opencode", "exit", out.Exit, "ms", out.Took.Milliseconds())
	switch {
	case errors.Is(out.Err, herdrcli.ErrTooMuch):
		err = errTooLarge
	case errors.Is(out.Err, herdrcli.ErrTimeout):
		err = errTime
	case ctx.Err() != nil:
		err = errCancelled
	case out.Err != nil:
		err = errExport("opencode cannot be run")
	case out.Exit != 0 && bytes.Contains(out.Stderr, []byte("Session not found")):
		err = errNoSession
	case out.Exit != 0:
		err = errOpenCode(out.Stderr, out.Exit)
	}
	if err != nil {
		discard(file)
		return nil, err
	}
	return file, nil
}

// discard closes the file of an export, and removes it where that could not be
// done before.
func discard(file *os.File) {
	_ = file.Close()
	if runtime.GOOS == "windows" {
		_ = os.Remove(file.Name())
	}
}
