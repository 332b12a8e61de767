package jsonrpc

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// tooLong stands for errTooLong in a list of lines.
const tooLong = "(too long)"

// readAll reads all lines. It keeps the slices until the end, so that one the
// reader still used would show.
func readAll(r io.Reader, max int) (lines []string, err error) {
	l := newLineReader(r, max)
	var kept [][]byte
	for {
		line, err := l.next()
		if errors.Is(err, errTooLong) {
			line, err = []byte(tooLong), nil
		}
		if err != nil {
			for _, k := range kept {
				lines = append(lines, string(k))
			}
			return lines, err
		}
		kept = append(kept, line)
	}
}

func TestLines(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		name, input string
		max         int
		want        []string
	}{
		{"nothing", "", 8, nil},
		{"one", "a\n", 8, []string{"a"}},
		{"several in one write", "a\nb\nc\n", 8, []string{"a", "b", "c"}},
		{"the last one without a newline", "a\nb", 8, []string{"a", "b"}},
		{"blank lines are lines", "\n\na\n\n", 8, []string{"", "", "a", ""}},
		{"CRLF leaves white space", "a\r\nb\r\n", 8, []string{"a\r", "b\r"}},
		{"CR alone ends nothing", "a\rb\n", 8, []string{"a\rb"}},
		{"BOM", "\uFEFFa\nb\n", 8, []string{"a", "b"}},
		{"BOM in front of an empty line", "\uFEFF\na\n", 8, []string{"", "a"}},
		{"BOM alone", "\uFEFF", 8, []string{""}},
		{"only the first BOM", "\uFEFF\uFEFFa\n\uFEFFb\n", 8, []string{"\uFEFFa", "\uFEFFb"}},
		{"BOM does not count", "\uFEFF12345678\n", 8, []string{"12345678"}},
		{"the limit", "12345678\na\n", 8, []string{"12345678", "a"}},
		{"one more", "123456789\na\n", 8, []string{tooLong, "a"}},
		{"the limit at the end", "12345678", 8, []string{"12345678"}},
		{"one more at the end", "123456789", 8, []string{tooLong}},
		{"long ones in a row", "123456789\n123456789\n\na", 8, []string{tooLong, tooLong, "", "a"}},
		{"much longer than the buffer", "a\n" + long(50_000) + "\nb\n", 8, []string{"a", tooLong, "b"}},
		{"much longer, at the end", long(50_000), 8, []string{tooLong}},
		{"around the buffer", long(4095) + "\n" + long(4096) + "\n" + long(4097) + "\n" + long(8192) + "\n" + long(12_289), 20_000,
			[]string{long(4095), long(4096), long(4097), long(8192), long(12_289)}},
		{"the buffer and the end", long(4096), 20_000, []string{long(4096)}},
		{"the limit is the buffer", long(4096) + "\n" + long(4097) + "\na", 4096, []string{long(4096), tooLong, "a"}},
	} {
		for name, through := range map[string]func(io.Reader) io.Reader{
			"at once":       func(r io.Reader) io.Reader { return r },
			"one byte each": iotest.OneByteReader,
			"halves":        iotest.HalfReader,
			"data with EOF": iotest.DataErrReader,
		} {
			got, err := readAll(through(strings.NewReader(c.input)), c.max)
			if !slices.Equal(got, c.want) || !errors.Is(err, io.EOF) {
				t.Errorf("%s, %s: got %.80q, %v; want %.80q", c.name, name, got, err, c.want)
			}
		}
	}
}

func TestLineLimit(t *testing.T) {
	limit := bytes.Repeat([]byte("x"), MaxLine)
	input := slices.Concat(limit, []byte("\n"), limit, []byte("y\nafter\n"))
	got, err := readAll(bytes.NewReader(input), MaxLine)
	if len(got) != 3 || got[0] != string(limit) || got[1] != tooLong || got[2] != "after" || !errors.Is(err, io.EOF) {
		t.Errorf("got %d lines, %v", len(got), err)
	}
}

func TestLinesEndWithTheError(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		r    io.Reader
		want []string
		err  error
	}{
		{iotest.ErrReader(broken), nil, broken},
		{io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), []string{"a", "b"}, broken},
		{io.MultiReader(strings.NewReader("123456789"), iotest.ErrReader(broken)), []string{tooLong}, broken},
	} {
		got, err := readAll(c.r, 8)
		if !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
			t.Errorf("got %q, %v; want %q, %v", got, err, c.want, c.err)
		}
	}
}
