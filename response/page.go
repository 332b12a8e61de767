package response

import (
	"unicode/utf8"

	"herdr-link/mcp"
)

// maxResult is the size of a result in bytes of compact JSON, without escapes for
// HTML: hosts cut what is longer.
const maxResult = 32768

// A page is a result that is one.
type page struct {
	OK         bool    `json:"ok"`
	Host       string  `json:"host"`
	Target     string  `json:"target"`
	SessionID  string  `json:"sessionID"`
	MessageID  string  `json:"messageID"`
	Role       string  `json:"role"`
	Finish     string  `json:"finish"`
	Offset     int     `json:"offset"`
	NextOffset int     `json:"nextOffset"`
	TotalBytes int     `json:"totalBytes"`
	Complete   bool    `json:"complete"`
	Cursor     *string `json:"cursor"` // of the next page; null when complete
	Text       *string `json:"text,omitempty"`
}

// cut makes the page of an answer that begins where the cursor is, with at most n
// bytes of text. A character is never cut. A page whose JSON is too large gets
// half of the bytes, as often as need be.
func (r *Reader) cut(a *answer, at cursor, n int) (*page, error) {
	for ; n >= minPage; n /= 2 {
		end := min(len(a.text), at.Offset+n)
		for end < len(a.text) && !utf8.RuneStart(a.text[end]) {
			end--
		}
		text := string(a.text[at.Offset:end])
		p := &page{
			OK: true, Host: a.host, Target: at.Target, SessionID: a.session, MessageID: a.message, Role: a.role, Finish: a.finish,
			Offset: at.Offset, NextOffset: end, TotalBytes: len(a.text), Complete: end == len(a.text), Text: &text,
		}
		if !p.Complete {
			next := at
			next.Offset = end
			signed := next.sign(r.secret)
			p.Cursor = &signed
		}
		if len(mcp.Marshal(p)) <= maxResult && (p.Complete || len(*p.Cursor) <= maxCursor) {
			return p, nil
		}
	}
	return nil, errBudget
}
