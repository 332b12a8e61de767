package response

import (
	"context"
	"errors"
	"io"
	"slices"
)

// A message is what counts of one in an export of OpenCode.
type message struct {
	id, role, parent    string
	agent, mode, finish string
	completed, failed   bool
	summary             bool  // of a compaction
	parts               int64 // where they stand in the export; -1: nowhere
}

// final reports whether a turn can end with the message, if it has text.
func (m *message) final() bool {
	return m.role == "assistant" && m.id != "" && m.completed && !m.failed && !m.summary &&
		m.finish != "tool-calls" && m.parts >= 0
}

// maxFinal is how many messages are remembered that may be the answer. There is
// more than one only if the last one has no text.
const maxFinal = 64

// readOpenCode reads what opencode export printed. It returns the answer to the
// newest prompt or, if pinned is not "", the message with that id.
func readOpenCode(ctx context.Context, export *io.SectionReader, session, pinned string) (*answer, error) {
	var id, prompt string
	var final []*message
	s := newScanner(patient{ctx, export})
	s.until('{') // OpenCode may have said something before
	s.object(func(key []byte) {
		switch string(key) {
		case "info":
			s.object(func(key []byte) {
				if string(key) == "id" {
					id = s.short()
				}
			})
		case "messages":
			s.array(func() {
				m := readMessage(s)
				switch {
				case pinned == "" && m.role == "user" && m.id != "":
					prompt, final = m.id, nil
				case m.final() && (m.id == pinned || pinned == "" && prompt != "" && m.parent == prompt):
					final = append(final[max(0, len(final)+1-maxFinal):], m)
				}
			})
		}
	})
	switch {
	case errors.Is(s.err, errSyntax) || errors.Is(s.err, errEnd):
		return nil, errExport("what opencode export printed is not a whole session")
	case s.err != nil:
		return nil, s.err
	case id != session:
		return nil, errForeign
	}
	for _, m := range slices.Backward(final) {
		s.reset(patient{ctx, io.NewSectionReader(export, m.parts, export.Size()-m.parts)})
		text := readParts(s)
		if s.err != nil {
			return nil, s.err
		}
		if !blank(text) {
			return &answer{"opencode", id, m.id, orElse(m.agent, m.mode), orElse(m.finish, "unknown"), text}, nil
		}
	}
	return nil, errNoAnswer
}

func readMessage(s *scanner) *message {
	m := &message{parts: -1}
	s.object(func(key []byte) {
		switch string(key) {
		case "info":
			s.object(func(key []byte) { m.readInfo(s, key) })
		case "parts":
			m.parts = s.offset()
		}
	})
	return m
}

func (m *message) readInfo(s *scanner, key []byte) {
	switch string(key) {
	case "id":
		m.id = s.short()
	case "role":
		m.role = s.short()
	case "parentID":
		m.parent = s.short()
	case "agent":
		m.agent = s.short()
	case "mode":
		m.mode = s.short()
	case "finish":
		m.finish = s.short()
	case "error":
		m.failed = s.isSet()
	case "summary":
		m.summary = s.isTrue()
	case "time":
		s.object(func(key []byte) {
			if string(key) == "completed" {
				m.completed = s.isSet()
			}
		})
	}
}

// readParts reads the text of a message: its parts of type text, without those
// that are marked as ignored.
func readParts(s *scanner) (text []byte) {
	s.array(func() {
		var kind string
		var ignored, isText bool
		begin := len(text)
		s.object(func(key []byte) {
			switch string(key) {
			case "type":
				kind = s.short()
			case "ignored":
				ignored = s.isTrue()
			case "text":
				if text, isText = s.text(separate(text[:begin])); !isText {
					text = text[:begin]
				}
			}
		})
		if kind != "text" || ignored || !isText || blank(text[begin:]) {
			text = text[:begin]
		}
	})
	return text
}
