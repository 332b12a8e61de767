package fakeherdr

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// readOptions are what of a terminal is read, and how.
type readOptions struct {
	source string
	lines  *uint64
	format string
}

// options are what the readers have in common. The client finds mistakes in
// values only after the usage, and calls them errors of its own.
func (o *readOptions) options() options {
	o.source, o.format = "recent", "text"
	return options{
		"--source": {set: func(value string) error {
			if o.source = strings.ReplaceAll(value, "_", "-"); !slices.Contains([]string{"visible", "recent", "recent-unwrapped", "detection"}, o.source) {
				return rustError("invalid read source: " + value)
			}
			return nil
		}},
		"--lines": number("--lines", 32, &o.lines, rustError),
	}
}

// formats are the options that only those have that print a terminal.
func (o *readOptions) formats() options {
	known := o.options()
	known["--ansi"] = flag(&o.format, "ansi")
	known["--format"] = option{set: func(value string) error {
		if o.format = value; value != "text" && value != "ansi" {
			return rustError("invalid read format: " + value)
		}
		return nil
	}}
	return known
}

func parseAgentRead(c command, args []string) (request, error) {
	var o readOptions
	return c.reads(args, &o, o.formats(), func(w *World, now time.Time) (*Pane, error) { return w.agent(args[0], now) })
}

func parsePaneRead(c command, args []string) (request, error) {
	var o readOptions
	known := o.formats()
	known["--raw"] = known["--ansi"]
	return c.reads(args, &o, known, func(w *World, _ time.Time) (*Pane, error) { return w.pane(args[0]) })
}

func (c command) reads(args []string, o *readOptions, known options, find func(*World, time.Time) (*Pane, error)) (request, error) {
	if len(args) == 0 {
		return request{}, usage(c.usage)
	}
	if err := known.parse(args[1:]); err != nil {
		return request{}, err
	}
	return request{run: func(_ *Scene, w *World, now time.Time) (any, error) {
		p, err := find(w, now)
		if err != nil {
			return nil, err
		}
		text, _ := p.read(*o)
		return plain(text), nil
	}}, nil
}

func (c *call) parseWaitOutput(cmd command, args []string) (request, error) {
	var (
		o              readOptions
		wait           waitOptions
		match, pattern *string
	)
	matcher := func(to **string) option {
		return option{set: func(value string) error {
			if match != nil || pattern != nil {
				return usage("--match and --regex are mutually exclusive")
			}
			*to = &value
			return nil
		}}
	}
	known := o.options()
	known["--match"], known["--regex"] = matcher(&match), matcher(&pattern)
	known["--timeout"] = number("--timeout", 64, &wait.timeout, rustError)
	known["--raw"] = option{alone: true, set: func(string) error { return nil }}
	if len(args) == 0 {
		return request{}, usage(cmd.usage)
	}
	if err := known.parse(args[1:]); err != nil {
		return request{}, err
	}
	if match == nil && pattern == nil {
		return request{}, usage("missing required --match or --regex")
	}
	if o.source == "recent" {
		o.source = "recent-unwrapped" // a match must not end where a row does
	}
	return request{run: func(_ *Scene, w *World, now time.Time) (any, error) {
		matches := func(line string) bool { return strings.Contains(line, *match) }
		if pattern != nil {
			re, err := compileRegex(*pattern)
			if err != nil {
				return nil, err
			}
			matches = re.match
		}
		deadline := wait.deadline(w, now)
		return pending(func() (any, error) { return c.awaitOutput(args[0], o, matches, deadline) }), nil
	}}, nil
}

// awaitOutput waits for a line that matches. After the deadline, or the zero
// time for none, it is a time-out.
func (c *call) awaitOutput(pane string, o readOptions, matches func(line string) bool, deadline time.Time) (any, error) {
	return c.watch(func(w *World, now time.Time) (any, error) {
		p, err := w.pane(pane)
		if err != nil {
			return nil, err
		}
		text, truncated := p.read(o)
		for line := range strings.Lines(text) {
			if line = strings.TrimSuffix(line, "\n"); matches(line) {
				read := readRecord{o.format, p.ID, 0, strings.ReplaceAll(o.source, "-", "_"), p.Tab, text, truncated, p.Workspace}
				return matchedResult{line, p.ID, read, 0, "output_matched"}, nil
			}
		}
		if !deadline.IsZero() && !now.Before(deadline) {
			return nil, failure{"timeout", "timed out waiting for output match"}
		}
		return nil, nil
	})
}

// A row is a line of the screen. If more, its text goes on in the next one.
type row struct {
	text string
	more bool
}

// lines returns all rows of a terminal, down to the last of the screen.
func (p *Pane) lines() []row {
	var rows []row
	for _, line := range p.Text {
		for p.Cols > 0 {
			end := columns(line, p.Cols)
			if end == len(line) {
				break
			}
			rows = append(rows, row{line[:end], true})
			line = line[end:]
		}
		rows = append(rows, row{line, false})
	}
	for len(rows) < p.Rows {
		rows = append(rows, row{})
	}
	return rows
}

// columns returns how many bytes of a line fill n columns: every character one,
// escape sequences none.
func columns(line string, n int) int {
	end := 0
	for end < len(line) {
		if size := escape(line[end:]); size > 0 {
			end += size
			continue
		}
		if n--; n < 0 {
			break
		}
		_, size := utf8.DecodeRuneInString(line[end:])
		end += size
	}
	return end
}

// escape returns the size of the escape sequence that a text begins with, or 0.
func escape(text string) int {
	if !strings.HasPrefix(text, "\x1b[") {
		return 0
	}
	for i := 2; i < len(text); i++ {
		if text[i] >= '@' && text[i] <= '~' {
			return i + 1
		}
	}
	return len(text)
}

func bareText(line string) string {
	var b strings.Builder
	for line != "" {
		if size := escape(line); size > 0 {
			line = line[size:]
			continue
		}
		_, size := utf8.DecodeRuneInString(line)
		b.WriteString(line[:size])
		line = line[size:]
	}
	return b.String()
}

// read returns a part of a terminal, and whether there is more above it. Recent
// sources count rows from the bottom of the screen up, blank ones too, and have
// 80 of them without a word; the others are the screen, of which --lines leaves
// the last that are not blank. No more than 1000 are read.
func (p *Pane) read(o readOptions) (text string, truncated bool) {
	rows, limit := p.lines(), 80
	if o.lines != nil {
		limit = int(min(*o.lines, 1000))
	}
	recent := strings.HasPrefix(o.source, "recent")
	if !recent {
		rows = rows[max(0, len(rows)-p.Rows):]
	} else {
		truncated = len(rows) > limit
		rows = rows[max(0, len(rows)-limit):]
	}
	text = render(rows, o.format == "ansi" && o.source != "detection", o.source == "recent-unwrapped")
	if !recent && o.lines != nil {
		lines := slices.Collect(strings.Lines(text))
		truncated = len(lines) > limit
		text = strings.Join(lines[max(0, len(lines)-limit):], "")
	}
	return text, truncated
}

// render prints rows without the blank ones at their end. Text has no colours,
// no blanks at the end of a row, and an end of its last line, unless it is
// unwrapped.
func render(rows []row, ansi, unwrap bool) string {
	var lines []string
	joins := false
	for _, r := range rows {
		if joins {
			lines[len(lines)-1] += r.text
		} else {
			lines = append(lines, r.text)
		}
		joins = unwrap && r.more
	}
	for i, line := range lines {
		if !ansi {
			lines[i] = strings.TrimRight(bareText(line), " ")
		}
	}
	for len(lines) > 0 && strings.TrimSpace(bareText(lines[len(lines)-1])) == "" {
		lines = lines[:len(lines)-1]
	}
	switch {
	case ansi:
		return strings.Join(lines, "\r\n")
	case unwrap || len(lines) == 0:
		return strings.Join(lines, "\n")
	}
	return strings.Join(lines, "\n") + "\n"
}
