package herdrcli

import (
	"bytes"
	"os"
	"time"
)

// An output is the pipe on which a child writes. It keeps the first max bytes
// and swallows the rest, so that a chatty child is neither blocked nor
// believed.
//
// It is read here rather than by package os/exec, which closes a pipe that is
// still open some time after the child's end, and drops what it has not read
// by then. On a busy machine that was the whole answer.
type output struct {
	buf      bytes.Buffer
	max      int
	total    int
	strict   bool   // more than max bytes are not swallowed, but end the call
	overflow func() // called once when more than max bytes came; may be nil
	r, w     *os.File
	done     chan struct{} // closed when the pipe has been read
}

// open makes the pipe; w is the child's end.
func (o *output) open() (err error) {
	o.r, o.w, err = os.Pipe()
	return err
}

// read reads the pipe in the background. The child has its end by now.
func (o *output) read() {
	_ = o.w.Close()
	o.done = make(chan struct{})
	go func() {
		defer close(o.done)
		chunk := make([]byte, 1024) // most answers fit in it
		for {
			n, err := o.r.Read(chunk)
			o.keep(chunk[:n])
			if err != nil {
				return
			}
			if n == len(chunk) && n < 64<<10 {
				chunk = make([]byte, 4*n)
			}
		}
	}()
}

func (o *output) keep(p []byte) {
	before := o.total
	o.total += len(p)
	o.buf.Write(p[:min(len(p), o.max-o.buf.Len())])
	if before <= o.max && o.total > o.max && o.overflow != nil {
		o.overflow()
	}
}

// finish returns when all has been read that the child wrote, or when grace is
// over, with what stands in the pipe then. The child's group has been killed:
// who holds the pipe open now has left the group, and is not waited for.
func (o *output) finish(grace <-chan struct{}) {
	select {
	case <-o.done:
		return
	case <-grace:
	}
	if o.r.SetReadDeadline(time.Unix(1, 0)) != nil { // this system has none for pipes
		_ = o.r.Close()
	}
	<-o.done
	if o.r.SetReadDeadline(time.Time{}) == nil {
		o.keep(waiting(o.r, o.max))
	}
}

// abandon ends the reading of a pipe whose child lives on.
func (o *output) abandon() {
	_ = o.r.Close()
	<-o.done
}

func (o *output) close() {
	_ = o.r.Close()
	_ = o.w.Close()
}
