package hosts

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A tomlFile is what the editor has to know of a TOML file: its tables and
// keys, with their lines. Values are only measured.
type tomlFile struct {
	text  []byte
	nl    string
	pos   int
	lines []tomlLine
	names tomlNames
}

// A tomlLine is a table's header or a key with its value.
type tomlLine struct {
	kind       byte     // '[' table, '2' array of tables, '=' key
	table      []string // of a key: the table that it stands in
	path       []string // of the table, or of the key within its table
	start, end int      // with the line end
	value      [2]int   // of a key: where its value is
}

// tomlNames are the names that a file has so far: each may stand once, or its
// host cannot read the file.
type tomlNames struct {
	kinds  map[string]byte // of a line, by its whole name
	arrays map[string]int  // how many tables an array has
}

// add reports whether the line's name is a new one, or one more table of an array.
func (n tomlNames) add(l tomlLine) bool {
	full := l.full()
	var b strings.Builder
	for i, part := range full {
		b.WriteString(strconv.Quote(part))
		if tables := n.arrays[b.String()]; tables > 0 && i < len(full)-1 {
			b.WriteString("#" + strconv.Itoa(tables)) // the one that the line stands in
		}
	}
	whole := b.String()
	if was := n.kinds[whole]; was != 0 && (was != '2' || l.kind != '2') {
		return false
	}
	n.kinds[whole] = l.kind
	if l.kind == '2' {
		n.arrays[whole]++
	}
	return true
}

// full is the path from the root.
func (l tomlLine) full() []string {
	return append(l.table[:len(l.table):len(l.table)], l.path...)
}

func parseTOML(text []byte) (*tomlFile, error) {
	f := &tomlFile{text: text, nl: newline(text), names: tomlNames{map[string]byte{}, map[string]int{}}}
	if !utf8.Valid(text) {
		return nil, at(text, 0, "the file is no UTF-8")
	}
	if bytes.HasPrefix(text, []byte(bom)) {
		f.pos = len(bom)
	}
	var table []string
	for f.pos < len(text) {
		start := f.pos
		f.spaces()
		var err error
		switch c := f.peek(); c {
		case '[':
			var l tomlLine
			if l, err = f.header(); err == nil {
				table = l.path
				l.start = start
				f.lines = append(f.lines, l)
			}
		case '#', '\n', '\r', 0:
			err = f.restOfLine()
		default:
			l := tomlLine{kind: '=', table: table, start: start}
			if l.path, err = f.key(); err == nil {
				err = f.assign(&l)
			}
			f.lines = append(f.lines, l)
		}
		if err != nil {
			return nil, err
		}
		if n := len(f.lines); n > 0 && f.lines[n-1].start == start {
			f.lines[n-1].end = f.pos
			if l := f.lines[n-1]; !f.names.add(l) {
				return nil, at(text, start, "%s is there twice", name(l.full()))
			}
		}
	}
	return f, nil
}

// peek returns the next byte, or 0 at the end.
func (f *tomlFile) peek() byte {
	if f.pos < len(f.text) {
		return f.text[f.pos]
	}
	return 0
}

func (f *tomlFile) wrong(what string) error { return at(f.text, f.pos, "no valid TOML: %s", what) }

func (f *tomlFile) spaces() {
	for f.peek() == ' ' || f.peek() == '\t' {
		f.pos++
	}
}

// restOfLine reads blanks, a comment and the line end.
func (f *tomlFile) restOfLine() error {
	f.spaces()
	if f.peek() == '#' {
		for f.pos < len(f.text) && f.peek() != '\n' && f.peek() != '\r' {
			if c := f.peek(); c < ' ' && c != '\t' || c == 0x7f {
				return f.wrong("a control character in a comment")
			}
			f.pos++
		}
	}
	switch {
	case f.pos == len(f.text):
	case f.peek() == '\n':
		f.pos++
	case bytes.HasPrefix(f.text[f.pos:], []byte("\r\n")):
		f.pos += 2
	default:
		return f.wrong("something behind the end of the line's value")
	}
	return nil
}

func (f *tomlFile) header() (l tomlLine, err error) {
	l.kind = '['
	closing := "]"
	f.pos++
	if f.peek() == '[' {
		f.pos++
		l.kind, closing = '2', "]]"
	}
	if l.path, err = f.key(); err != nil {
		return l, err
	}
	if !bytes.HasPrefix(f.text[f.pos:], []byte(closing)) {
		return l, f.wrong("a table's name that does not end")
	}
	f.pos += len(closing)
	return l, f.restOfLine()
}

// key reads names with dots between them, and the blanks around them.
func (f *tomlFile) key() (path []string, err error) {
	for {
		f.spaces()
		start := f.pos
		switch c := f.peek(); c {
		case '"', '\'':
			if err := f.quoted(c); err != nil {
				return nil, err
			}
			s, ok := tomlString(f.text[start:f.pos])
			if !ok || bytes.HasPrefix(f.text[start:], bytes.Repeat([]byte{c}, 3)) {
				return nil, at(f.text, start, "no valid TOML: a name that cannot be read")
			}
			path = append(path, s)
		default:
			for bareKey(f.peek()) {
				f.pos++
			}
			if f.pos == start {
				return nil, f.wrong("no name where one must be")
			}
			path = append(path, string(f.text[start:f.pos]))
		}
		f.spaces()
		if f.peek() != '.' {
			return path, nil
		}
		f.pos++
	}
}

func bareKey(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// quoted reads a string on one line, or on many between three quotes.
func (f *tomlFile) quoted(q byte) error {
	start, one, three := f.pos, []byte{q}, bytes.Repeat([]byte{q}, 3)
	many := bytes.HasPrefix(f.text[f.pos:], three)
	end := one
	if many {
		end = three
	}
	f.pos += len(end)
	for f.pos < len(f.text) {
		switch c := f.peek(); {
		case bytes.HasPrefix(f.text[f.pos:], end):
			f.pos += len(end)
			for n := 0; many && n < 2 && f.peek() == q; n++ { // quotes in front of the last three
				f.pos++
			}
			return nil
		case c == '\\' && q == '"':
			f.pos++
			if next := f.peek(); strings.IndexByte(`btnfre"\uUx`, next) < 0 && (!many || strings.IndexByte(" \t\r\n", next) < 0) {
				return f.wrong("an escape that is none")
			}
			f.pos++
		case c == '\r' && many && bytes.HasPrefix(f.text[f.pos:], []byte("\r\n")):
			f.pos += 2
		case c < ' ' && c != '\t' && (c != '\n' || !many), c == 0x7f:
			return f.wrong("a control character in a string")
		default:
			f.pos++
		}
	}
	f.pos = start
	return f.wrong("a string without an end")
}

// assign reads the equals sign, the value and the rest of its line.
func (f *tomlFile) assign(l *tomlLine) error {
	if f.peek() != '=' {
		return f.wrong("a name without a value")
	}
	f.pos++
	f.spaces()
	l.value[0] = f.pos
	if err := f.skipValue(0); err != nil {
		return err
	}
	l.value[1] = f.pos
	return f.restOfLine()
}

const deepest = 1000 // values inside of values

func (f *tomlFile) skipValue(depth int) error {
	switch c := f.peek(); {
	case depth > deepest:
		return f.wrong("too many brackets")
	case c == '"' || c == '\'':
		return f.quoted(c)
	case c == '[':
		return f.skipMany(']', depth)
	case c == '{':
		return f.skipMany('}', depth)
	}
	start := f.pos
	for c := f.peek(); bareKey(c) || c == '+' || c == '.' || c == ':'; c = f.peek() {
		f.pos++
		if f.pos-start == len("2026-01-31") && f.peek() == ' ' && f.pos+1 < len(f.text) && f.text[f.pos+1]-'0' < 10 {
			f.pos++ // a blank between date and time
		}
	}
	word := strings.TrimLeft(string(f.text[start:f.pos]), "+-")
	if !slices.Contains([]string{"true", "false", "inf", "nan"}, word) && (word == "" || word[0]-'0' > 9) {
		f.pos = start
		return f.wrong("no value where one must be")
	}
	return nil
}

// skipMany reads an array or an inline table. Line ends may be in both.
func (f *tomlFile) skipMany(closing byte, depth int) error {
	f.pos++
	gap := func() error {
		for {
			f.spaces()
			if c := f.peek(); c != '#' && c != '\n' && c != '\r' {
				return nil
			}
			if err := f.restOfLine(); err != nil {
				return err
			}
		}
	}
	for {
		if err := gap(); err != nil {
			return err
		}
		if f.peek() == closing {
			f.pos++
			return nil
		}
		if closing == '}' {
			if _, err := f.key(); err != nil {
				return err
			}
			if f.peek() != '=' {
				return f.wrong("a name without a value")
			}
			f.pos++
			f.spaces()
		}
		if err := f.skipValue(depth + 1); err != nil {
			return err
		}
		if err := gap(); err != nil {
			return err
		}
		switch f.peek() {
		case ',':
			f.pos++
		case closing:
		default:
			return f.wrong("a bracket without an end")
		}
	}
}

// tomlString decodes a string on one line.
func tomlString(raw []byte) (string, bool) {
	if len(raw) < 2 {
		return "", false
	}
	if raw[0] == '\'' {
		return string(raw[1 : len(raw)-1]), true
	}
	var s string
	err := json.Unmarshal(raw, &s)
	if err != nil { // escapes that JSON has not
		s, err = strconv.Unquote(string(raw))
	}
	return s, err == nil
}

// tomlValue decodes a string, a bool, a whole number, or an array or inline table of
// them; of anything else it returns the text.
func tomlValue(raw []byte) any {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0:
	case raw[0] == '"' || raw[0] == '\'':
		if s, ok := tomlString(raw); ok {
			return s
		}
	case raw[0] == '[':
		f := &tomlFile{text: raw, pos: 1}
		l := []any{}
		for f.pos < len(raw) {
			if strings.IndexByte(" \t\r\n,]", f.peek()) >= 0 {
				f.pos++
				continue
			}
			if f.peek() == '#' {
				_ = f.restOfLine()
				continue
			}
			start := f.pos
			if f.skipValue(0) != nil {
				return string(raw)
			}
			l = append(l, tomlValue(raw[start:f.pos]))
		}
		return l
	case raw[0] == '{':
		f := &tomlFile{text: raw, pos: 1}
		m := map[string]any{}
		for f.pos < len(raw)-1 {
			if strings.IndexByte(" \t\r\n,", f.peek()) >= 0 {
				f.pos++
				continue
			}
			if f.peek() == '#' {
				_ = f.restOfLine()
				continue
			}
			path, err := f.key()
			if err != nil || f.peek() != '=' {
				return string(raw)
			}
			f.pos++
			f.spaces()
			start := f.pos
			if f.skipValue(0) != nil {
				return string(raw)
			}
			m[name(path)] = tomlValue(raw[start:f.pos])
		}
		return m
	case string(raw) == "true" || string(raw) == "false":
		return string(raw) == "true"
	default:
		if n, err := strconv.ParseFloat(string(raw), 64); err == nil {
			return n
		}
	}
	return string(raw)
}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

// find returns the index of the table's header, or -1. It refuses what this
// editor cannot change: the path as an inline table, as dotted keys, or as an
// array of tables.
func (f *tomlFile) find(path []string) (int, error) {
	found := -1
	for i, l := range f.lines {
		switch full := l.full(); {
		case l.kind == '2' && hasPrefix(path, full):
			return 0, at(f.text, l.start, "%s is an array of tables", name(full))
		case l.kind == '[' && slices.Equal(full, path):
			found = i
		case l.kind == '=' && hasPrefix(path, full):
			return 0, at(f.text, l.start, "%s is an inline table or no table", name(full))
		case l.kind == '=' && len(l.table) < len(path) && len(l.path) > 1 && hasPrefix(path, append(l.table[:len(l.table):len(l.table)], l.path[0])):
			return 0, at(f.text, l.start, "%s has dotted keys", name(full[:len(full)-1]))
		}
	}
	return found, nil
}

// keysOf returns the keys of the table with that header.
func (f *tomlFile) keysOf(header int) []tomlLine {
	n := header + 1
	for n < len(f.lines) && f.lines[n].kind == '=' {
		n++
	}
	return f.lines[header+1 : n]
}

// getTOML returns the keys of the table at the path, and the tables right below it.
func getTOML(text []byte, path []string) (v any, found bool, err error) {
	f, err := parseTOML(text)
	if err != nil {
		return nil, false, err
	}
	header, err := f.find(path)
	if err != nil || header < 0 {
		return nil, false, err
	}
	m := map[string]any{}
	for _, l := range f.keysOf(header) {
		m[name(l.path)] = tomlValue(text[l.value[0]:l.value[1]])
	}
	for i, l := range f.lines { // the tables right below it
		if l.kind != '[' || len(l.path) != len(path)+1 || !hasPrefix(l.path, path) || m[l.path[len(path)]] != nil {
			continue
		}
		below := map[string]any{}
		for _, k := range f.keysOf(i) {
			below[name(k.path)] = tomlValue(text[k.value[0]:k.value[1]])
		}
		m[l.path[len(path)]] = below
	}
	return m, true, nil
}

// setTOML puts the table at the path. In a table that is there already, only
// the keys that differ are changed.
func setTOML(text []byte, path []string, v object) ([]byte, error) {
	f, err := parseTOML(text)
	if err != nil {
		return nil, err
	}
	header, err := f.find(path)
	if err != nil {
		return nil, err
	}
	if header < 0 {
		return f.add(path, v), nil
	}
	keys := f.keysOf(header)
	end := f.lines[header].end
	if len(keys) > 0 {
		end = keys[len(keys)-1].end
	}
	var added strings.Builder
	changes := map[int]string{} // by the index of the key
	for _, m := range v {
		i := slices.IndexFunc(keys, func(l tomlLine) bool { return l.path[0] == m.key })
		switch {
		case i < 0:
			added.WriteString(m.key + " = " + tomlText(m.value) + f.nl)
		case len(keys[i].path) > 1:
			return nil, at(text, keys[i].start, "%s has dotted keys", name(append(path[:len(path):len(path)], m.key)))
		case !reflect.DeepEqual(tomlValue(text[keys[i].value[0]:keys[i].value[1]]), plain(m.value)):
			changes[i] = tomlText(m.value)
		}
	}
	out := text
	if added.Len() > 0 {
		more := added.String()
		if text[end-1] != '\n' {
			more = f.nl + strings.TrimSuffix(more, f.nl)
		}
		out = splice(out, end, end, more)
	}
	for i := len(keys) - 1; i >= 0; i-- {
		if new, ok := changes[i]; ok {
			out = splice(out, keys[i].value[0], keys[i].value[1], new)
		}
	}
	return out, nil
}

// add puts a new table at the end, behind an empty line. It ends with a line
// end only if the file does, so that removeTOML can see how it was.
func (f *tomlFile) add(path []string, v object) []byte {
	var b strings.Builder
	whole := len(bytes.TrimPrefix(f.text, []byte(bom))) == 0 || f.text[len(f.text)-1] == '\n'
	if !whole {
		b.WriteString(f.nl)
	}
	if len(bytes.TrimPrefix(f.text, []byte(bom))) > 0 {
		b.WriteString(f.nl)
	}
	b.WriteString("[" + tomlKeys(path) + "]" + f.nl)
	for _, m := range v {
		b.WriteString(m.key + " = " + tomlText(m.value) + f.nl)
	}
	block := b.String()
	if !whole {
		block = strings.TrimSuffix(block, f.nl)
	}
	return append(bytes.Clone(f.text), block...)
}

// tomlKeys writes a table's name. Our paths are bare words.
func tomlKeys(path []string) string { return strings.Join(path, ".") }

func tomlText(v any) string {
	return printer{spaced: true, inline: true}.text(v, "")
}

// removeTOML takes away the table at the path and the tables below it.
func removeTOML(text []byte, path []string) ([]byte, error) {
	f, err := parseTOML(text)
	if err != nil {
		return nil, err
	}
	if _, err := f.find(path); err != nil {
		return nil, err
	}
	for i := len(f.lines) - 1; i >= 0; i-- {
		l := f.lines[i]
		if l.kind == '=' || !hasPrefix(l.path, path) {
			continue
		}
		end := l.end
		if keys := f.keysOf(i); len(keys) > 0 {
			end = keys[len(keys)-1].end
		}
		end = min(end, len(text)) // what followed may have taken this line end with it
		start := l.start
		if before := chop(text, start); before < start && (before == 0 || text[before-1] == '\n') {
			start = before // the empty line in front of it
		}
		if end == len(text) && text[end-1] != '\n' {
			start = chop(text, start)
		}
		text = splice(text, start, end, "")
	}
	return text, nil
}
