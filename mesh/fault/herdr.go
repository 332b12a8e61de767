package fault

import (
	"context"
	"errors"

	"herdr-link/herdrcli"
)

// Herdr returns the fault of a call that package herdrcli failed with. It names
// the command group and Herdr's code, never an argument or Herdr's words.
func Herdr(err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	command := "herdr"
	var e *herdrcli.Error
	if errors.As(err, &e) {
		command += " " + e.Command
	}
	switch {
	case errors.Is(err, herdrcli.ErrBinary):
		return New("HERDR_NOT_FOUND", "the herdr program cannot be run: HERDR_BIN_PATH must be the absolute path of an executable file, or herdr be found on PATH")
	case errors.Is(err, herdrcli.ErrTimeout):
		return New("HERDR_TIMEOUT", "%s did not end in time", command)
	case errors.Is(err, herdrcli.ErrTooMuch):
		return New("HERDR_OUTPUT_TOO_LARGE", "%s printed more than 4 MiB", command)
	case errors.Is(err, herdrcli.ErrReserved):
		return New("INVALID_ARGUMENT", "an argument is one of the words that Herdr's launcher takes for its own options")
	case errors.Is(err, herdrcli.ErrTooLong):
		return New("INVALID_ARGUMENT", "an argument is longer than the system takes")
	case errors.Is(err, herdrcli.ErrResources):
		return New("INTERNAL", "the system has no room for another process or open file now")
	case errors.Is(err, context.Canceled):
		return New("CANCELLED", "the call was cancelled")
	case e == nil:
		return New("INTERNAL", "%s failed in a way that nobody knows", command)
	case e.Code == "" && e.Exit == 2:
		return New("INTERNAL", "%s does not know such a command line: its version is another one", command)
	case e.Code == "":
		return New("HERDR_BAD_OUTPUT", "%s did not print what was expected", command)
	}
	if code, known := ofHerdr[e.Code]; known {
		return New(code, "%s was refused: %s", command, e.Code).With("herdrCode", e.Code)
	}
	return New("HERDR_ERROR", "%s was refused by Herdr", command).With("herdrCode", e.Code)
}

// ofHerdr are the codes of Herdr that have one of their own here (mesh.md §2.9).
var ofHerdr = map[string]string{
	"invalid_regex":          "INVALID_ARGUMENT",
	"server_not_running":     "HERDR_SERVER_DOWN",
	"protocol_mismatch":      "HERDR_PROTOCOL_MISMATCH",
	"timeout":                "WAIT_TIMEOUT",
	"agent_not_found":        "AGENT_NOT_FOUND",
	"agent_not_running":      "AGENT_NOT_FOUND",
	"agent_target_ambiguous": "AGENT_AMBIGUOUS",
	"agent_not_ready":        "AGENT_NOT_READY",
	"agent_launch_pending":   "AGENT_NOT_READY",
	"agent_name_taken":       "AGENT_NAME_TAKEN",
	"agent_pane_busy":        "AGENT_PANE_BUSY",
	"agent_blocked":          "AGENT_BLOCKED",
	"pane_not_found":         "PANE_NOT_FOUND",
	"agent_pane_not_found":   "PANE_NOT_FOUND",
	"tab_not_found":          "TAB_NOT_FOUND",
	"workspace_not_found":    "WORKSPACE_NOT_FOUND",
	"confirmation_required":  "CLOSE_NEEDS_CONFIRMATION",
}
