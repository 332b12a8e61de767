package link

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"herdr-link/herdrcli"
)

// The system counts arguments and environment together: what is under the limit
// for one argument can be too much all the same, and is then too long.
func TestHugeEnvironment(t *testing.T) {
	t.Parallel()
	var stack syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_STACK, &stack); err != nil {
		t.Fatal(err)
	}
	total := int(min(max(stack.Cur/4, 128<<10), 6<<20)) // what execve takes (fs/exec.c)
	const message = 100 << 10
	total -= message * 3 / 4 // so that a lookup fits, and the message does not
	for _, v := range os.Environ() {
		total -= len(v) + 1 + 8
	}
	var vars []string
	for i := 0; total > 0; i++ {
		v := fmt.Sprintf("FILL%d=%s", i, strings.Repeat("x", min(total, 100<<10)))
		vars = append(vars, v)
		total -= len(v) + 1 + 8
	}
	s := newStage(t).noWait()
	l := s.in("w1:p1", vars...)
	if _, err := l.Send(t.Context(), Message{To: "reviewer", Text: "short"}); err != nil {
		t.Fatalf("a short message: %v", err)
	}
	_, _, err := s.in("w1:p1", append(vars, "MORE="+strings.Repeat("x", message))...).Peers(t.Context())
	wantFault(t, err, herdrcli.ErrTooLong)
	if asFault(t, err).Code != notInHerdr {
		t.Error(err)
	}
	_, err = l.Send(t.Context(), Message{To: "reviewer", Text: strings.Repeat("x", message)})
	wantFault(t, err, during(errPrompt, errPromptUncertain, &herdrcli.Error{Err: herdrcli.ErrTooLong}))
	if asFault(t, err).Code != sendFailed || s.ran("agent prompt") != 1 {
		t.Errorf("%v, %q", err, s.calls())
	}
}
