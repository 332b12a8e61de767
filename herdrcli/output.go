package herdrcli

import (
	"bytes"
	"io"
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

	// file, if not nil, is in the pipe's place: the child writes it itself, and
	// it is only looked at how large it becomes.
	file *os.File
	stop chan struct{} // closed to end that

	sink io.Writer // takes the place of buf, if it is not nil
}

// open makes the pipe; w is the child's end.
func (o *output) open() (err error) {
	if o.file != nil {
		o.w = o.file
		return nil
	}
	o.r, o.w, err = os.Pipe()
	return err
}

// read reads the pipe in the background. The child has its end by now.
func (o *output) read() {
	o.done = make(chan struct{})
	if o.file != nil {
		o.stop = make(chan struct{})
		go o.watch()
		return
	}
	_ = o.w.Close()
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
	kept := p[:min(len(p), max(0, o.max-before))]
	if o.sink != nil {
		_, _ = o.sink.Write(kept)
	} else {
		o.buf.Write(kept)
	}
	if before <= o.max && o.total > o.max && o.overflow != nil {
		o.overflow()
	}
}

// sizeTick is how often the size of a file is looked at that a child writes.
const sizeTick = 20 * time.Millisecond

// watch looks at the file's size until stop is closed, and once more then.
func (o *output) watch() {
	defer close(o.done)
	tick := time.NewTicker(sizeTick)
	defer tick.Stop()
	for last := false; ; {
		if info, err := o.file.Stat(); err == nil && info.Size() > int64(o.max) {
			o.overflow()
			return
		}
		if last {
			return
		}
		select {
		case <-tick.C:
		case <-o.stop:
			last = true
		}
	}
}

// finish returns when all has been read that the child wrote, or when grace is
// over, with what stands in the pipe then. The child's group has been killed:
// who holds the pipe open now has left the group, and is not waited for.
func (o *output) finish(grace <-chan struct{}) {
	if o.file != nil {
		o.abandon()
		return
	}
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
		o.keep(waiting(o.r, min(o.max, maxStdout))) // who writes without end is not read without end
	}
}

// abandon ends the reading of a pipe whose child lives on.
func (o *output) abandon() {
	if o.file != nil {
		close(o.stop)
		<-o.done
		return
	}
	_ = o.r.Close()
	<-o.done
}

func (o *output) close() {
	if o.file != nil {
		return
	}
	_ = o.r.Close()
	_ = o.w.Close()
}
