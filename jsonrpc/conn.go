package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
)

// outbox is how many answers may wait for a slow reader of stdout. Beyond it
// reading stops as well: memory stays bounded whatever the peer does.
const outbox = 64

// maxBatch is how many messages a batch may have.
const maxBatch = 1024

// A Conn is one connection; NewConn makes it, Serve is called once.
type Conn struct {
	Batches func() bool // whether batches are accepted now; nil: never

	handle Handler
	ended  chan struct{}
	out    chan []byte
	ctx    context.Context // Serve's own: ends with it

	mu       sync.Mutex
	inFlight map[ID]*call
}

type call struct {
	cancel    context.CancelFunc
	cancelled bool
}

// NewConn returns a connection whose messages h begins.
func NewConn(h Handler) *Conn {
	return &Conn{
		handle:   h,
		ended:    make(chan struct{}),
		out:      make(chan []byte, outbox),
		inFlight: map[ID]*call{},
	}
}

// Ended is closed when no more requests begin: the input has ended, or Serve is
// about to. Answers may still follow.
func (c *Conn) Ended() <-chan struct{} { return c.ended }

// Serve answers the messages on r until it ends, then waits for those in
// flight, so that a peer which closes its end still gets every answer. It
// returns nil then. If ctx ends or w fails, the requests in flight are
// cancelled and Serve returns that error, without waiting for r.
func (c *Conn) Serve(ctx context.Context, r io.Reader, w io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c.ctx = ctx

	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write(w, stop)
	}()
	var calls sync.WaitGroup
	c.read(ctx, r, &calls)
	close(c.ended)
	calls.Wait()
	close(c.out)
	select {
	case <-written:
	case <-ctx.Done(): // a write may hang for ever
	}
	return context.Cause(ctx)
}

// write is the only writer of w, so lines leave whole and in the order of the
// queue. After a failure it goes on draining: nobody may block on a dead peer.
func (c *Conn) write(w io.Writer, stop context.CancelCauseFunc) {
	failed := false
	for line := range c.out {
		if failed || line == nil {
			continue
		}
		if _, err := w.Write(line); err != nil {
			failed = true
			stop(err)
		}
	}
}

type input struct {
	line []byte
	err  error
}

// read begins one message after the other until the input ends or ctx does.
func (c *Conn) read(ctx context.Context, r io.Reader, calls *sync.WaitGroup) {
	inputs := make(chan input)
	go func() { // a goroutine of its own, since a Read cannot be cancelled
		lines := newLineReader(r, MaxLine)
		for {
			line, err := lines.next()
			select {
			case inputs <- input{line, err}:
			case <-ctx.Done():
				return
			}
			if err != nil && !errors.Is(err, errTooLong) {
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case in := <-inputs:
			if len(c.out) == cap(c.out) {
				c.send(nil) // nothing, but behind the late answers that wait for room already
			}
			switch {
			case errors.Is(in.err, errTooLong):
				c.send(answer("", nil, Errorf(InvalidRequest, "the message is longer than %d bytes", MaxLine)))
			case in.err != nil:
				return
			case len(bytes.TrimSpace(in.line)) > 0:
				c.message(ctx, in.line, calls)
			}
		}
	}
}

func (c *Conn) message(ctx context.Context, line []byte, calls *sync.WaitGroup) {
	if err := check(line); err != nil {
		c.send(answer("", nil, err))
		return
	}
	if Kind(line) != '[' {
		c.begun(ctx, line, false, calls, func(reply []byte) { c.send(reply) })
		return
	}
	if c.Batches == nil || !c.Batches() {
		c.send(answer("", nil, Errorf(InvalidRequest, "this protocol version has no batches")))
		return
	}
	messages := split(line, maxBatch+1)
	if len(messages) == 0 || len(messages) > maxBatch {
		c.send(answer("", nil, Errorf(InvalidRequest, "a batch has 1 to %d messages", maxBatch)))
		return
	}
	c.batch(ctx, messages, calls)
}

// batch begins the messages of a batch in their order and sends all answers in
// one array when the last one is there.
func (c *Conn) batch(ctx context.Context, messages []json.RawMessage, calls *sync.WaitGroup) {
	var (
		mu      sync.Mutex
		replies [][]byte
		all     sync.WaitGroup
	)
	for _, m := range messages {
		c.begun(ctx, m, true, &all, func(reply []byte) {
			mu.Lock()
			defer mu.Unlock()
			replies = append(replies, bytes.TrimSuffix(reply, []byte("\n")))
		})
	}
	calls.Go(func() {
		all.Wait()
		if len(replies) > 0 {
			c.send(append(append([]byte("["), bytes.Join(replies, []byte(","))...), "]\n"...))
		}
	})
}

// begun begins one message. Its answer, if there is one, goes to reply.
func (c *Conn) begun(ctx context.Context, raw []byte, batch bool, calls *sync.WaitGroup, reply func([]byte)) {
	req, bad := parse(raw)
	if req == nil {
		return
	}
	if bad != nil {
		reply(answer(req.ID, nil, bad))
		return
	}
	req.Batch = batch
	if req.ID == "" {
		_, _ = c.handle(ctx, req)
		return
	}
	callCtx, entry := c.admit(ctx, req.ID)
	if entry == nil {
		reply(answer("", nil, Errorf(InvalidRequest, "a request with this id is still in flight")))
		return
	}
	finish := func(result any, err error) {
		// The id is free before the answer leaves: the peer may use it again at once.
		if !c.release(req.ID, entry) {
			reply(answer(req.ID, result, err))
		}
	}
	result, err := c.handle(callCtx, req)
	later, ok := result.(Later)
	if !ok || err != nil {
		finish(result, err)
		return
	}
	calls.Go(func() { finish(later()) })
}

func (c *Conn) admit(ctx context.Context, id ID) (context.Context, *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := id.key()
	if c.inFlight[key] != nil {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	entry := &call{cancel: cancel}
	c.inFlight[key] = entry
	return ctx, entry
}

func (c *Conn) release(id ID, entry *call) (cancelled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inFlight, id.key())
	entry.cancel()
	return entry.cancelled
}

// Cancel ends a request's context and drops its answer. An id that is unknown
// or already answered is no error: cancelling races with finishing.
func (c *Conn) Cancel(id ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry := c.inFlight[id.key()]; entry != nil {
		entry.cancelled = true
		entry.cancel()
	}
}

// Notify sends a notification; params are nil if it has none. Called while a
// request begins, it leaves before every answer of that request and of later ones.
func (c *Conn) Notify(method string, params any) {
	line, _ := json.Marshal(struct { // params are plain values, which always have a JSON form
		Version string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  any    `json:"params,omitempty"`
	}{"2.0", method, params})
	c.send(append(line, '\n'))
}

func (c *Conn) send(line []byte) {
	select {
	case c.out <- line:
	case <-c.ctx.Done():
	}
}

// answer encodes a response, with id null if there is none to name.
func answer(id ID, result any, err error) []byte {
	if id == "" {
		id = "null"
	}
	key, value := "result", result
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			e = Errorf(InternalError, "internal error")
		}
		key, value = "error", e
	}
	var b bytes.Buffer
	b.WriteString(`{"jsonrpc":"2.0","id":` + string(id) + `,"` + key + `":`)
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(value) != nil {
		return answer(id, nil, Errorf(InternalError, "the result has no JSON form"))
	}
	b.Truncate(b.Len() - 1) // the encoder's newline
	b.WriteString("}\n")
	return b.Bytes()
}
