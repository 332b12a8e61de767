package jsonrpc

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

var errTooLong = errors.New("line too long")

// A lineReader yields lines of at most max bytes. Of a longer line it reports
// errTooLong once and skips the rest; the next call goes on behind it.
// (bufio.Scanner will not do: it ends at the first line that is too long.)
type lineReader struct {
	r     *bufio.Reader
	max   int
	begun bool
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: bufio.NewReader(r), max: max}
}

// next returns the next line without its end; a last line needs none. The
// bytes are the caller's.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !full && len(part) == 0 && len(line) == 0 && !long {
			return nil, err
		}
		part = bytes.TrimSuffix(part, []byte("\n"))
		if !l.begun {
			part, l.begun = bytes.TrimPrefix(part, []byte("\uFEFF")), true
		}
		switch {
		case long:
		case len(line)+len(part) > l.max:
			line, long = nil, true
		case line == nil && full:
			line = append(make([]byte, 0, 4*len(part)), part...)
		default:
			line = append(line, part...)
		}
		if full {
			continue
		}
		if long {
			return nil, errTooLong
		}
		return line, nil
	}
}
