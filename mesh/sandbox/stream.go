package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// MaxTail is how much of the end of a stream is kept (mesh.md §6.1).
const MaxTail = 32 << 10

// A Stream is what is known of a command's stdout or stderr.
type Stream struct {
	SHA256 string // of all of it
	Bytes  int64
	Head   []byte // its beginning, as much as the step asked for
	Tail   []byte // its end, at most MaxTail bytes; it may begin inside a character
}

// Whole reports whether Head is all of the stream.
func (s *Stream) Whole() bool { return int64(len(s.Head)) == s.Bytes }

// A digester reads a stream.
type digester struct {
	hash  hash.Hash
	bytes int64
	head  []byte
	max   int // of head
	tail  []byte
}

func newDigester(head int) *digester { return &digester{hash: sha256.New(), max: head} }

func (d *digester) Write(p []byte) (int, error) {
	d.hash.Write(p)
	d.bytes += int64(len(p))
	d.head = append(d.head, p[:min(len(p), d.max-len(d.head))]...)
	d.tail = append(d.tail, p[max(0, len(p)-MaxTail):]...)
	if len(d.tail) > 2*MaxTail { // not at every Write, for the sake of small ones
		d.tail = d.tail[:copy(d.tail, d.tail[len(d.tail)-MaxTail:])]
	}
	return len(p), nil
}

func (d *digester) stream() Stream {
	return Stream{
		SHA256: hex.EncodeToString(d.hash.Sum(nil)), Bytes: d.bytes,
		Head: d.head, Tail: d.tail[max(0, len(d.tail)-MaxTail):],
	}
}
