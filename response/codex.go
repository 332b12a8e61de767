package response

import (
	"context"
	"errors"
	"io"
)

// An event is what counts of a line in a rollout of Codex.
type event struct {
	kind    string // session_meta, event_msg or one that says nothing here
	payload string // its type
	id      string
	turn    string
	text    []byte
}

// readCodex reads a rollout of Codex. It returns the answer of the last turn or,
// if pinned is not "", of the turn with that id.
func readCodex(ctx context.Context, rollout io.Reader, session, pinned string) (*answer, error) {
	var turn, of string // the last turn that began, and the one that text is of
	var text []byte
	first := true
	s := newScanner(patient{ctx, rollout})
	for s.line() {
		e := readEvent(s)
		if !s.lineEnds() {
			continue
		}
		if e.kind == "session_meta" && first && e.id != session {
			return nil, errForeign
		}
		first = false
		if e.kind != "event_msg" {
			continue
		}
		switch e.payload {
		case "task_started":
			turn = e.turn
			if pinned == "" || turn == pinned {
				text, of = nil, ""
			}
		case "task_complete":
			if turn != "" && e.turn == turn && (pinned == "" || turn == pinned) && !blank(e.text) {
				text, of = e.text, turn
			}
		case "turn_aborted":
			if turn == of {
				text = nil
			}
		}
	}
	switch {
	case !errors.Is(s.err, errEnd):
		return nil, s.err
	case text == nil:
		return nil, errNoAnswer
	}
	return &answer{"codex", session, of, "codex", "stop", text}, nil
}

func readEvent(s *scanner) *event {
	e := &event{}
	s.object(func(key []byte) {
		switch string(key) {
		case "type":
			e.kind = s.short()
		case "payload":
			s.object(func(key []byte) {
				switch string(key) {
				case "type":
					e.payload = s.short()
				case "id":
					e.id = s.short()
				case "turn_id":
					e.turn = s.short()
				case "last_agent_message":
					e.text, _ = s.text(nil)
				}
			})
		}
	})
	return e
}
