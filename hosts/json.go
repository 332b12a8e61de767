package hosts

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// A jsonFile is JSON as hosts read it: comments, trailing commas and a byte
// order mark may be in it. The views have the same length as the text, so that
// an offset means the same in all three.
type jsonFile struct {
	text []byte
	bare []byte // comments are blanks
	pure []byte // trailing commas are, too: strict JSON
	nl   string
	unit string // of indentation
}

func parseJSON(text []byte) (*jsonFile, error) {
	f := &jsonFile{text: text, nl: newline(text), unit: indentation(text)}
	if err := f.strip(); err != nil {
		return nil, err
	}
	if f.blank() {
		return f, nil
	}
	var v any
	if err := json.Unmarshal(f.pure, &v); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, at(text, int(syntax.Offset)-1, "no valid JSON: %v", err)
		}
		return nil, at(text, 0, "no valid JSON: %v", err)
	}
	return f, nil
}

func (f *jsonFile) blank() bool {
	return f.blanks(0) == len(f.pure) && f.noComments(0, len(f.text))
}

// noComments reports whether nothing but white space and JSON is in that range.
func (f *jsonFile) noComments(from, to int) bool {
	part := f.text[from:to]
	if from == 0 {
		part = bytes.TrimPrefix(part, []byte(bom))
	}
	return bytes.HasSuffix(f.bare[:to], part)
}

// strip fills the views.
func (f *jsonFile) strip() error {
	f.bare = bytes.Clone(f.text)
	wipe := func(from, to int) {
		for i := from; i < to; i++ {
			if c := f.bare[i]; c != '\n' && c != '\r' {
				f.bare[i] = ' '
			}
		}
	}
	i := 0
	if bytes.HasPrefix(f.text, []byte(bom)) {
		wipe(0, len(bom))
		i = len(bom)
	}
	var commas []int // after a value, and nothing but blanks since
	last := byte(0)  // the last byte that is no blank
	f.pure = nil
	var trailing []int
	for i < len(f.text) {
		switch c := f.text[i]; {
		case c == '"':
			end := skipString(f.text, i)
			if end < 0 {
				return at(f.text, i, "a string without an end")
			}
			i, last, commas = end, c, nil
		case c == '/' && bytes.HasPrefix(f.text[i:], []byte("//")):
			end := lineEnd(f.text, i)
			if bytes.IndexByte(f.text[i:end], '\r') >= 0 {
				return at(f.text, i, "a carriage return in a comment")
			}
			wipe(i, end)
			i = end
		case c == '/' && bytes.HasPrefix(f.text[i:], []byte("/*")):
			n := bytes.Index(f.text[i+2:], []byte("*/"))
			if n < 0 {
				return at(f.text, i, "a comment without an end")
			}
			wipe(i, i+n+4)
			i += n + 4
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		default:
			if (c == '}' || c == ']') && len(commas) == 1 {
				trailing = append(trailing, commas[0])
			}
			commas = nil
			if c == ',' && last != 0 && !strings.ContainsRune("{[,:", rune(last)) {
				commas = []int{i}
			}
			last = c
			i++
		}
	}
	f.pure = bytes.Clone(f.bare)
	for _, i := range trailing {
		f.pure[i] = ' '
	}
	return nil
}

// skipString returns the offset behind the string that begins at i, or -1.
func skipString(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// lineEnd is the offset of the line end that follows i.
func lineEnd(text []byte, i int) int {
	n := bytes.IndexByte(text[i:], '\n')
	if n < 0 {
		return len(text)
	}
	i += n
	if i > 0 && text[i-1] == '\r' {
		i--
	}
	return i
}

// indentation is how a file indents: by tabs, or by as many spaces as its
// first indented line has.
func indentation(text []byte) string {
	for line := range bytes.Lines(text) {
		n := len(line) - len(bytes.TrimLeft(line, " \t"))
		if n > 0 && n < len(line) && (line[n] == '"' || line[n] == '{') {
			if line[0] == '\t' {
				return "\t"
			}
			return string(line[:min(n, 8)])
		}
	}
	return "  "
}

// A box is an object or an array.
type box struct {
	open, end int // of its brackets
	owner     int // where the member or element that holds it begins; -1: none
	items     []item
}

type item struct {
	key        string
	start      int // of the key, or of the value in an array
	value, end int
}

func (f *jsonFile) blanks(i int) int {
	for i < len(f.pure) && strings.IndexByte(" \t\r\n", f.pure[i]) >= 0 {
		i++
	}
	return i
}

func (f *jsonFile) valueEnd(i int) int {
	switch f.pure[i] {
	case '"':
		return skipString(f.pure, i)
	case '{', '[':
		depth := 0
		for {
			switch f.pure[i] {
			case '"':
				i = skipString(f.pure, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
	}
	for i < len(f.pure) && strings.IndexByte(" \t\r\n,]}", f.pure[i]) < 0 {
		i++
	}
	return i
}

// box reads the object or array that begins at open.
func (f *jsonFile) box(open, owner int) box {
	b := box{open: open, owner: owner}
	i := f.blanks(open + 1)
	for f.pure[i] != '}' && f.pure[i] != ']' {
		it := item{start: i, value: i}
		if f.pure[open] == '{' {
			end := skipString(f.pure, i)
			_ = json.Unmarshal(f.pure[i:end], &it.key)
			it.value = f.blanks(f.blanks(end) + 1)
		}
		it.end = f.valueEnd(it.value)
		b.items = append(b.items, it)
		if i = f.blanks(it.end); f.pure[i] == ',' {
			i = f.blanks(i + 1)
		}
	}
	b.end = i
	return b
}

// walk follows the path from the root as far as it exists. It returns the
// boxes on the way, and in at[n] the index of the item that was taken in
// boxes[n]. Each box that is gone through must be an object.
func (f *jsonFile) walk(path []string) (boxes []box, taken []int, err error) {
	i, owner := f.blanks(0), -1
	for n, key := range path {
		if f.pure[i] != '{' {
			return nil, nil, at(f.text, i, "%s is no object", name(path[:n]))
		}
		b := f.box(i, owner)
		boxes = append(boxes, b)
		found := -1
		for k, it := range b.items {
			if it.key != key {
				continue
			}
			if found >= 0 {
				return nil, nil, at(f.text, it.start, "%s is there twice", name(path[:n+1]))
			}
			found = k
		}
		if found < 0 {
			return boxes, taken, nil
		}
		taken = append(taken, found)
		i, owner = b.items[found].value, b.items[found].start
	}
	return boxes, taken, nil
}

func name(path []string) string {
	if len(path) == 0 {
		return "the file"
	}
	return strings.Join(path, ".")
}

func (f *jsonFile) decode(it item) any {
	var v any
	_ = json.Unmarshal(f.pure[it.value:it.end], &v) // valid, or the file were not
	return v
}

// getJSON returns the value at the path.
func getJSON(text []byte, path []string) (v any, found bool, err error) {
	f, err := parseJSON(text)
	if err != nil || f.blank() {
		return nil, false, err
	}
	boxes, taken, err := f.walk(path)
	if err != nil || len(taken) < len(path) {
		return nil, false, err
	}
	return f.decode(boxes[len(path)-1].items[taken[len(path)-1]]), true, nil
}

// setJSON puts the value at the path. Of an object that is there already, only
// the members that differ are changed.
func setJSON(text []byte, path []string, v any) ([]byte, error) {
	f, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	if f.blank() {
		p := printer{nl: f.nl, unit: f.unit, spaced: true}
		return append(bytes.Clone(text), p.text(nest(path, v), "")+f.nl...), nil
	}
	boxes, taken, err := f.walk(path)
	if err != nil {
		return nil, err
	}
	if n := len(taken); n < len(path) {
		return f.insert(boxes[n], path[n], nest(path[n+1:], v)), nil
	}
	it := boxes[len(path)-1].items[taken[len(path)-1]]
	old := f.decode(it)
	if reflect.DeepEqual(old, plain(v)) {
		return text, nil
	}
	if o, ok := v.(object); ok && f.pure[it.value] == '{' {
		for _, m := range o {
			if text, err = setJSON(text, append(path[:len(path):len(path)], m.key), m.value); err != nil {
				return nil, err
			}
		}
		return text, nil
	}
	indent, multi := f.lineIndent(it.start)
	p := printer{nl: f.nl, unit: f.unit, spaced: true, inline: !multi}
	return splice(text, it.value, it.end, p.text(v, indent)), nil
}

// nest returns v inside of objects with these keys.
func nest(path []string, v any) any {
	for i := len(path) - 1; i >= 0; i-- {
		v = object{{path[i], v}}
	}
	return v
}

// lineIndent returns the white space in front of the line with offset i, and
// whether nothing but that, or a comment, stands before i.
func (f *jsonFile) lineIndent(i int) (indent string, first bool) {
	start := lineStart(f.text, i)
	line := f.text[start:i]
	indent = string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
	return indent, start > 0 && len(bytes.TrimSpace(f.bare[start:i])) == 0
}

// insert puts a new last member, or element if the box is an array.
//
// An empty box that is there already gets a blank behind its opening bracket,
// by which cut knows that it has to stay; a box that is made here has none.
func (f *jsonFile) insert(b box, key string, v any) []byte {
	p := printer{nl: f.nl, unit: f.unit, spaced: true}
	item := func(indent string) string {
		if f.text[b.open] == '[' {
			return p.text(v, indent)
		}
		return p.member(key, v, indent)
	}
	if len(b.items) == 0 {
		indent, _ := f.lineIndent(b.open)
		if b.owner >= 0 {
			if _, first := f.lineIndent(b.owner); !first {
				p.inline = true
				return splice(f.text, b.open+1, b.open+1, " "+item(""))
			}
		}
		return splice(f.text, b.open+1, b.open+1, " "+f.nl+indent+p.unit+item(indent+p.unit)+f.nl+indent)
	}
	last := b.items[len(b.items)-1]
	pos, tail := last.end, ""
	if i := f.comma(last.end); i >= 0 {
		pos, tail = i+1, ","
	}
	indent, multi := f.lineIndent(last.start)
	var piece string
	if multi {
		if outer, _ := f.lineIndent(b.open); strings.HasPrefix(indent, outer) && len(indent) > len(outer) {
			p.unit = indent[len(outer):]
		}
		pos = f.pastComments(pos)
		piece = f.nl + indent + item(indent) + tail
	} else {
		p.inline = true
		p.spaced = bytes.Contains(f.bare, []byte(": ")) || bytes.Contains(f.bare, []byte(", "))
		piece = item("") + tail
		if p.spaced {
			piece = " " + piece
		}
	}
	out := splice(f.text, pos, pos, piece)
	if tail == "" {
		out = splice(out, last.end, last.end, ",")
	}
	return out
}

// comma returns where the comma is that follows i, or -1.
func (f *jsonFile) comma(i int) int {
	for i < len(f.bare) && strings.IndexByte(" \t\r\n", f.bare[i]) >= 0 {
		i++
	}
	if i < len(f.bare) && f.bare[i] == ',' {
		return i
	}
	return -1
}

// pastComments returns the offset behind the comments that follow i on the
// same line.
func (f *jsonFile) pastComments(i int) int {
	for j := i; j < len(f.text); {
		rest := f.text[j:]
		switch {
		case rest[0] == ' ' || rest[0] == '\t':
			j++
			continue
		case bytes.HasPrefix(rest, []byte("//")):
			return lineEnd(f.text, j)
		case bytes.HasPrefix(rest, []byte("/*")):
			n := bytes.Index(rest[2:], []byte("*/"))
			if bytes.IndexByte(rest[:n+4], '\n') >= 0 {
				return i
			}
			j += n + 4
			i = j
			continue
		}
		return i
	}
	return i
}

// removeJSON takes the value at the path away, and the objects around it that
// were made for it and are empty now.
func removeJSON(text []byte, path []string) ([]byte, error) {
	f, err := parseJSON(text)
	if err != nil || f.blank() {
		return text, err
	}
	boxes, taken, err := f.walk(path)
	if err != nil || len(taken) < len(path) {
		return text, err
	}
	return f.cut(boxes, taken), nil
}

// cut takes away the item that is taken in the last box.
func (f *jsonFile) cut(boxes []box, taken []int) []byte {
	n := len(boxes) - 1
	b := boxes[n]
	it := b.items[taken[n]]
	if len(b.items) == 1 && f.comma(it.end) < 0 {
		return f.cutOnly(boxes, taken)
	}
	from := it.start
	for from > 0 && (f.text[from-1] == ' ' || f.text[from-1] == '\t') {
		from--
	}
	if from = chop(f.text, from); f.text[from] != '\n' && f.text[from] != '\r' {
		from = it.start
		if f.text[from-1] == ' ' {
			from--
		}
	}
	if i := f.comma(it.end); i >= 0 { // the comma behind it goes with it, comments between stay
		out := splice(f.text, i, i+1, "")
		return splice(out, from, it.end, "")
	}
	before := bytes.LastIndexByte(f.bare[:it.start], ',')
	out := splice(f.text, from, it.end, "")
	return splice(out, before, before+1, "")
}

// cutOnly takes away the only item of the last box.
func (f *jsonFile) cutOnly(boxes []box, taken []int) []byte {
	n := len(boxes) - 1
	b := boxes[n]
	it := b.items[0]
	if b.open+1 < it.start && f.text[b.open+1] == ' ' && f.noComments(b.open, it.start) { // it was there: see insert
		end := it.end
		indent, _ := f.lineIndent(b.open)
		if bytes.IndexByte(f.text[b.open:it.start], '\n') >= 0 && bytes.HasPrefix(f.text[end:], []byte(f.nl+indent)) {
			end += len(f.nl + indent)
		}
		return splice(f.text, b.open+1, end, "")
	}
	switch {
	case !f.noComments(b.open, b.end):
		return splice(f.text, it.start, it.end, "")
	case n > 0:
		return f.cut(boxes[:n], taken[:n])
	case f.noComments(0, len(f.text)) && (b.end+1 == len(f.text) || string(f.text[b.end+1:]) == f.nl):
		return bytes.Clone(f.text[:b.open])
	}
	return splice(f.text, b.open+1, b.end, "")
}

// addJSON adds an element to the array at the path, unless one is the same.
func addJSON(text []byte, path []string, v any, same func(any) bool) ([]byte, error) {
	f, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	b, found, err := f.array(path)
	if err != nil {
		return nil, err
	}
	if !found {
		return setJSON(text, path, list{v})
	}
	for _, it := range b[len(b)-1].items {
		if same(f.decode(it)) {
			if reflect.DeepEqual(f.decode(it), plain(v)) {
				return text, nil
			}
			indent, multi := f.lineIndent(it.start)
			p := printer{nl: f.nl, unit: f.unit, spaced: true, inline: !multi}
			return splice(text, it.value, it.end, p.text(v, indent)), nil
		}
	}
	return f.insert(b[len(b)-1], "", v), nil
}

// array returns the boxes down to the array at the path.
func (f *jsonFile) array(path []string) (boxes []box, found bool, err error) {
	if f.blank() {
		return nil, false, nil
	}
	boxes, taken, err := f.walk(path)
	if err != nil || len(taken) < len(path) {
		return nil, false, err
	}
	it := boxes[len(path)-1].items[taken[len(path)-1]]
	if f.pure[it.value] != '[' {
		return nil, false, at(f.text, it.value, "%s is no array", name(path))
	}
	return append(boxes, f.box(it.value, it.start)), true, nil
}

// dropJSON removes the last element of the array at the path that is the same.
func dropJSON(text []byte, path []string, same func(any) bool) ([]byte, error) {
	f, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	b, found, err := f.array(path)
	if err != nil || !found {
		return text, err
	}
	_, taken, _ := f.walk(path)
	items := b[len(b)-1].items
	for i := len(items) - 1; i >= 0; i-- {
		if same(f.decode(items[i])) {
			return f.cut(b, append(taken, i)), nil
		}
	}
	return text, nil
}

// A printer writes new JSON.
type printer struct {
	nl, unit string
	spaced   bool // with blanks behind colons and commas
	inline   bool // on one line
}

func (p printer) member(key string, v any, indent string) string {
	if p.spaced {
		return quote(key) + ": " + p.text(v, indent)
	}
	return quote(key) + ":" + p.text(v, indent)
}

// text returns v; lines behind the first are indented.
func (p printer) text(v any, indent string) string {
	var parts []string
	brackets := "{}"
	flat := p.inline
	switch v := v.(type) {
	case object:
		for _, m := range v {
			parts = append(parts, p.member(m.key, m.value, indent+p.unit))
		}
	case list:
		brackets = "[]"
		scalars := true
		for _, e := range v {
			switch e.(type) {
			case object, list:
				scalars = false
			}
			parts = append(parts, p.text(e, indent+p.unit))
		}
		flat = flat || scalars
	case string:
		return quote(v)
	default:
		b, _ := json.Marshal(v) // bool, int
		return string(b)
	}
	switch comma := ", "; {
	case len(parts) == 0:
		return brackets
	case flat:
		if !p.spaced {
			comma = ","
		}
		return brackets[:1] + strings.Join(parts, comma) + brackets[1:]
	}
	in := p.nl + indent + p.unit
	return brackets[:1] + in + strings.Join(parts, ","+in) + p.nl + indent + brackets[1:]
}
