package mcp

import (
	"context"
	"encoding/json"
	"time"
)

// maxToken is how long, in bytes, a progress token may be that is sent again
// and again.
const maxToken = 256

// token returns the client's progress token, or nil if it has none that may be
// used: it is a string or a number.
func (p *params) token() json.RawMessage {
	raw := p.meta["progressToken"]
	if len(raw) == 0 || len(raw) > maxToken || raw[0] != '"' && raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return nil
	}
	return raw
}

// progress is how many seconds a call has taken: it grows, as it must.
type progress struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress int64           `json:"progress"`
}

// tell lets the client know, every so often, that the call with that token goes
// on, until ctx ends or stop is called. After stop nothing is said any more.
func (s *Session) tell(ctx context.Context, token json.RawMessage, every time.Duration) (stop func()) {
	if token == nil || every <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	silent := make(chan struct{})
	go func() {
		defer close(silent)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for n := int64(1); ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				s.conn.Notify("notifications/progress", progress{token, n * int64(every/time.Second)})
			}
		}
	}()
	return func() {
		cancel()
		<-silent
	}
}
