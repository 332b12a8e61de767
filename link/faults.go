package link

import (
	"context"
	"errors"
	"fmt"

	"herdr-link/herdrcli"
)

// The five codes of herdr-link/1.
const (
	notInHerdr   = "NOT_IN_HERDR"
	selfUnnamed  = "SELF_UNNAMED"
	peerNotFound = "PEER_NOT_FOUND"
	sendFailed   = "SEND_FAILED"
	closeFailed  = "CLOSE_FAILED"
)

// A Fault is a failure as the model sees it: fixed words for each cause, with
// no id, no path and nothing that Herdr wrote.
type Fault struct{ Code, Reason string }

func (f *Fault) Error() string { return f.Code + ": " + f.Reason }

// Causes that are not herdrcli's.
var (
	errOutside         = errors.New("not in a pane of Herdr")
	errUnnamed         = errors.New("no valid own name")
	errNoSelf          = fmt.Errorf("own pane not detected: %w", errUnnamed)
	errNoPeer          = errors.New("no such peer")
	errBlank           = errors.New("blank message")
	errNotText         = errors.New("message is not Unicode text")
	errTooLong         = errors.New("message too long")
	errReplyTo         = errors.New("invalid reply_to")
	errBlocked         = errors.New("peer is blocked")
	errSendBusy        = errors.New("target is being written to")
	errCloseBusy       = errors.New("pane is being written to")
	errPrompt          = errors.New("agent prompt")
	errPromptUncertain = errors.New("agent prompt, outcome unknown")
	errClose           = errors.New("pane close")
	errCloseUncertain  = errors.New("pane close, outcome unknown")
)

// A tooLong is errTooLong with the size of the text, in sizeUnit.
type tooLong struct{ size int }

func (*tooLong) Error() string        { return errTooLong.Error() }
func (*tooLong) Is(target error) bool { return target == errTooLong }

// A row of faults: an error that is all of step, cause and has Herdr's code
// herdr, as far as they are set, is the fault.
type row struct {
	text  string // the cause, for PROTOCOL.md
	step  error
	cause error
	herdr string
	Fault
}

// faults is the only place where causes become what the model sees; the first
// row that matches wins. PROTOCOL.md, Errors, has the same rows.
var faults = [...]row{
	{"not in a pane, or switched off there", nil, errOutside, "", Fault{notInHerdr,
		"this process is not in a Herdr pane: HERDR_ENV=1, HERDR_BIN_PATH and HERDR_PANE_ID must reach it, and HERDR_LINK_OFF must not be 1. Tell the user; do not try again."}},
	{"HERDR_BIN_PATH is missing, relative or not executable", nil, herdrcli.ErrBinary, "", Fault{notInHerdr,
		"the Herdr program named by HERDR_BIN_PATH cannot be run. Tell the user."}},
	{"no room for another process or open file", nil, herdrcli.ErrResources, "", Fault{notInHerdr,
		"this machine has no room for another process or open file right now; nothing was sent or closed. Try again later."}},
	{"the server does not run", nil, herdrcli.ErrRefused, "server_not_running", Fault{notInHerdr,
		"the Herdr server is not running. Tell the user."}},
	{"program and server speak different protocols", nil, herdrcli.ErrRefused, "protocol_mismatch", Fault{notInHerdr,
		"the Herdr program and the running Herdr server do not match: the user has to restart Herdr after its update."}},
	{"the system refused so long an argument", errPrompt, herdrcli.ErrTooLong, "", Fault{sendFailed,
		"the message is too long for this system to hand over; nothing was sent. Shorten it, or write it to a file and send where it is."}},
	{"the environment leaves no room for a command", nil, herdrcli.ErrTooLong, "", Fault{notInHerdr,
		"the environment of this process is too large to run Herdr. Tell the user."}},
	{"`agent prompt` timed out, was killed or gave no answer", errPromptUncertain, nil, "", Fault{notInHerdr,
		"Herdr gave no clear answer, so it is unknown whether the message arrived. Do not send it again blindly: the peer may have it."}},
	{"`pane close` timed out, was killed or gave no answer", errCloseUncertain, nil, "", Fault{notInHerdr,
		"Herdr gave no clear answer, so it is unknown whether the pane was closed. Look with herdr_link_peers before you try again."}},
	{"a call took too long", nil, herdrcli.ErrTimeout, "", Fault{notInHerdr,
		"Herdr did not answer in time; nothing was sent or closed. Try again later."}},
	{"output that is not what the call expects, or too large", nil, herdrcli.ErrOutput, "", Fault{notInHerdr,
		"Herdr's answer could not be understood. Tell the user: its version may not fit."}},
	{"the call was cancelled", nil, context.Canceled, "", Fault{notInHerdr,
		"the call was cancelled before Herdr had answered."}},
	{"own pane not detected as an agent, or no valid name could be given to it", nil, errUnnamed, "", Fault{selfUnnamed,
		"Herdr does not see a named agent in this pane, so peers could not answer it. Try again once in a few seconds; if that fails, tell the user."}},
	{"unknown, invalid, oneself, another workspace or none", nil, errNoPeer, "", Fault{peerNotFound,
		"no such agent in this workspace. herdr_link_peers lists the names that can be used."}},
	{"`message` is blank", nil, errBlank, "", Fault{sendFailed,
		"message is blank; it needs at least one visible character."}},
	{"`message` has half a surrogate pair or is not UTF-8", nil, errNotText, "", Fault{sendFailed,
		"message is not valid Unicode text: it has half a surrogate pair, or bytes that are not UTF-8."}},
	{"`message` is over the limit", nil, errTooLong, "", Fault{sendFailed,
		"message is too long: %d of at most %d " + sizeUnit + " with its wrapper; nothing was sent. Shorten it, or write it to a file and send where it is."}},
	{"`reply_to` is not a message id", nil, errReplyTo, "", Fault{sendFailed,
		"reply_to must be the id of a received message (hl_…), or be left out."}},
	{"the target's state is blocked", nil, errBlocked, "", Fault{sendFailed,
		"the peer waits for its human to answer a dialog; nothing was sent. Send again later."}},
	{"Herdr refused a blocked target", errPrompt, nil, "agent_blocked", Fault{sendFailed,
		"the peer waits for its human to answer a dialog; nothing was sent. Send again later."}},
	{"the target is starting or has just ended", errPrompt, nil, "agent_not_ready", Fault{sendFailed,
		"the peer is not ready yet, or has just ended; nothing was sent. Send again in a few seconds."}},
	{"the target's lock was not free in 30 s", nil, errSendBusy, "", Fault{sendFailed,
		"the peer is busy receiving other messages; nothing was sent. Try again."}},
	{"the target ended before the prompt", errPrompt, nil, "agent_not_running", Fault{sendFailed,
		"Herdr refused the message; nothing was sent. The peer may be gone: look with herdr_link_peers."}},
	{"the target vanished before the prompt", errPrompt, nil, "agent_not_found", Fault{sendFailed,
		"Herdr refused the message; nothing was sent. The peer may be gone: look with herdr_link_peers."}},
	{"any other refusal of `agent prompt`", errPrompt, nil, "", Fault{sendFailed,
		"Herdr refused the message; nothing was sent. The peer may be gone: look with herdr_link_peers."}},
	{"the pane's lock was not free in 30 s", nil, errCloseBusy, "", Fault{closeFailed,
		"the agent is busy receiving messages; nothing was closed. Try again."}},
	{"any refusal of `pane close`", errClose, nil, "", Fault{closeFailed,
		"Herdr refused to close the pane. The agent may be gone: look with herdr_link_peers."}},
	{"an unexpected refusal of any other command", nil, herdrcli.ErrRefused, "", Fault{notInHerdr,
		"Herdr's answer could not be understood. Tell the user: its version may not fit."}},
}

func (r *row) matches(err error) bool {
	return (r.step == nil || errors.Is(err, r.step)) &&
		(r.cause == nil || errors.Is(err, r.cause)) &&
		(r.herdr == "" || herdrcli.Code(err) == r.herdr)
}

// fault turns any error of this package into the *Fault that the model sees.
func fault(err error) error {
	var f *Fault
	if err == nil || errors.As(err, &f) {
		return err
	}
	for i := range faults {
		if !faults[i].matches(err) {
			continue
		}
		f := faults[i].Fault
		var long *tooLong
		if errors.As(err, &long) {
			f.Reason = fmt.Sprintf(f.Reason, long.size, maxArg)
		}
		return &f
	}
	return &Fault{notInHerdr, "the call failed inside herdr-link. Tell the user; its log may say why."}
}

// TooLong is the fault of a message of so many bytes, for one that was not even
// read to its end.
func TooLong(size int) error { return fault(&tooLong{size}) }

// invalid is the fault of an argument that is missing or of the wrong kind.
func invalid(code, argument, valid string) *Fault {
	return &Fault{code, argument + " must be " + valid}
}
