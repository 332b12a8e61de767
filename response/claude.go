package response

import (
	"context"
	"errors"
	"io"
)

// A record is what counts of a line in a transcript of Claude Code.
type record struct {
	kind          string // user, assistant or one that says nothing here
	skip          bool   // a subagent's, a note of Claude Code's own, or an error of the API
	uuid, session string
	message, stop string
	result, use   bool // it has a tool's result, a call of a tool
	text          []byte
}

// A run is what one message of the model became: unbroken records with its id.
type run struct {
	record
	open bool // the next record may belong to it
}

// complete reports whether a turn ends with the run.
func (r *run) complete() bool {
	return r != nil && r.uuid != "" && !r.use && r.stop != "tool_use" && r.stop != "pause_turn" && !blank(r.text)
}

// readClaude reads a transcript of Claude Code. It returns the answer to the last
// prompt or, if pinned is not "", the one whose last record is pinned.
func readClaude(ctx context.Context, transcript io.Reader, session, pinned string) (*answer, error) {
	var last, found *run
	end := func() { // of a run
		if pinned != "" && last.complete() && last.uuid == pinned {
			found = last
		}
	}
	s := newScanner(patient{ctx, transcript})
	for s.line() {
		r := readRecord(s)
		if !s.lineEnds() || r.skip { // not JSON, or still being written
			continue
		}
		switch {
		case r.kind == "assistant" && last != nil && last.open && r.message != "" && r.message == last.message:
			if len(r.text) > 0 {
				last.text = append(separate(last.text), r.text...)
			}
			r.text, r.use = last.text, r.use || last.use
			r.stop = orElse(r.stop, last.stop)
			last.record = *r
		case r.kind == "assistant":
			end()
			last = &run{*r, true}
		case r.kind == "user" && !r.result:
			end()
			last = nil
		case r.kind == "user" && last != nil:
			last.open = false
		}
	}
	if !errors.Is(s.err, errEnd) {
		return nil, s.err
	}
	end()
	if pinned == "" {
		found = last
	}
	switch {
	case !found.complete():
		return nil, errNoAnswer
	case found.session != "" && found.session != session:
		return nil, errForeign
	}
	return &answer{"claude", session, found.uuid, "claude", orElse(found.stop, "unknown"), found.text}, nil
}

func readRecord(s *scanner) *record {
	r := &record{}
	s.object(func(key []byte) {
		switch string(key) {
		case "type":
			r.kind = s.short()
		case "isSidechain", "isMeta", "isApiErrorMessage":
			r.skip = s.isTrue() || r.skip
		case "uuid":
			r.uuid = s.short()
		case "sessionId":
			r.session = s.short()
		case "message":
			s.object(func(key []byte) {
				switch string(key) {
				case "id":
					r.message = s.short()
				case "stop_reason":
					r.stop = s.short()
				case "content":
					r.readContent(s)
				}
			})
		}
	})
	return r
}

// readContent reads a text or blocks.
func (r *record) readContent(s *scanner) {
	if s.peek() == '"' {
		r.text, _ = s.text(nil)
		return
	}
	s.array(func() {
		var kind string
		begin := len(r.text)
		s.object(func(key []byte) {
			switch string(key) {
			case "type":
				kind = s.short()
			case "text":
				r.text, _ = s.text(separate(r.text[:begin]))
			}
		})
		r.result = r.result || kind == "tool_result"
		r.use = r.use || kind == "tool_use"
		if kind != "text" || blank(r.text[begin:]) {
			r.text = r.text[:begin]
		}
	})
}
