package link

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"herdr-link/envelope"
	"herdr-link/fakeherdr"
)

var (
	startOfTest = time.Now()
	farFuture   = time.Now().Add(1000 * time.Hour)
)

// idLength is what most ids have; one in twenty has a byte less.
var idLength = len("hl_") + len(strconv.FormatInt(startOfTest.UnixMilli(), 36)) + len("_") + 10

// room is how long a message of "x" may be with an id of that length, and still
// be handed over.
func room(t *testing.T, from, to string) int {
	t.Helper()
	id := "hl_a_" + strings.Repeat("a", idLength-len("hl_a_"))
	text, err := envelope.Wrap(envelope.Envelope{ID: id, From: from, To: to, Message: "x"})
	if err != nil {
		t.Fatal(err)
	}
	return maxArg - argSize(text) + 1
}

func TestLimit(t *testing.T) {
	t.Parallel()
	if maxArg != 120<<10 && sizeUnit == "bytes" {
		t.Errorf("the limit is %d", maxArg)
	}
	for _, from := range []string{"x", "lead"} {
		s := newStage(t).noWait()
		s.update(func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Name = from })
		l := s.in("w1:p1")
		n := room(t, from, "reviewer")
		send := func(size int) error {
			for range 50 { // until the id has the usual length
				id, err := l.Send(t.Context(), Message{To: "reviewer", Text: strings.Repeat("x", size)})
				if err == nil && len(id) == idLength || err != nil && strings.Contains(err.Error(), fmt.Sprint(maxArg+1)) {
					return err
				}
				if err != nil && !strings.Contains(err.Error(), fmt.Sprint(maxArg)) {
					t.Fatal(err)
				}
				s = newStage(t).noWait()
				s.update(func(w *fakeherdr.World) { w.Pane("w1:p1").Agent.Name = from })
				l = s.in("w1:p1")
			}
			t.Fatalf("%s: no message of %d bytes gets where it should", from, size)
			return nil
		}

		f := asFault(t, send(n+1))
		if want := fmt.Sprintf("%d of at most %d "+sizeUnit, maxArg+1, maxArg); f.Code != sendFailed || !strings.Contains(f.Reason, want) {
			t.Errorf("%s: one more: %s", from, f)
		}
		if s.ran("agent prompt") != 0 {
			t.Errorf("%s: one more was prompted", from)
		}
		if from == "x" { // with a longer name, its length has to be looked up
			s.wantCalls()
		}
		if err := send(n); err != nil {
			t.Errorf("%s: at the limit: %v", from, err)
		}
		if got := s.received("w1:p2"); len(got) != 1 || argSize(got[0]) != maxArg || parse(t, got[0]).Message != strings.Repeat("x", n) {
			t.Errorf("%s: %d messages received", from, len(got))
		}
	}
}

// Far too long is refused before anything is run, whatever it is made of: what
// counts is the escaped text.
func TestTooLong(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, text := range []string{strings.Repeat("x", 4<<20), strings.Repeat("\x1b", maxArg/6), strings.Repeat("ü", maxArg)} {
		_, err := s.in("w1:p1").Send(t.Context(), Message{To: "reviewer", Text: text})
		if f := asFault(t, err); f.Code != sendFailed || !strings.HasPrefix(f.Reason, "message is too long: ") {
			t.Error(f)
		}
	}
	s.wantCalls()
}

func TestBlank(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, text := range []string{"", " ", "\t\r\n\v\f", "\u00a0", "\ufeff", "\u2003\u3000\u1680", "\u0085\u2028\u2029"} {
		_, err := s.in("w1:p1").Send(t.Context(), Message{To: "reviewer", Text: text})
		wantFault(t, err, errBlank)
	}
	for _, id := range []string{"x", "hl_", "hl_a_", "HL_a_b", "hl_a_b ", "hl_" + strings.Repeat("a", 60) + "_b"} {
		_, err := s.in("w1:p1").Send(t.Context(), Message{To: "reviewer", Text: "x", ReplyTo: id})
		wantFault(t, err, errReplyTo)
	}
	s.wantCalls()
}
