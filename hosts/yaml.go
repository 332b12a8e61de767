package hosts

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A yamlFile is what the editor has to know of a YAML file: the lines at which
// keys stand, and how far what belongs to them reaches. It understands block
// maps; whatever else is in a file is measured, not understood, and a file
// that cannot be measured is refused.
type yamlFile struct {
	text []byte
	nl   string
	keys []yamlKey
	pos  int
}

// A yamlKey is a line with a key, or with an entry of a sequence.
type yamlKey struct {
	indent     int    // of the line
	seq        bool   // an entry of a sequence
	name       string // "" if it has none
	start      int    // of the line
	value      [2]int // what stands behind the colon, without a comment
	end        int    // behind the last line of its own value
	openScalar bool   // the value is a block scalar
}

func parseYAML(text []byte) (*yamlFile, error) {
	f := &yamlFile{text: text, nl: newline(text)}
	if !utf8.Valid(text) {
		return nil, at(text, 0, "the file is no UTF-8")
	}
	if bytes.HasPrefix(text, []byte(bom)) {
		f.pos = len(bom)
	}
	for i, r := range string(text[f.pos:]) {
		i += f.pos
		switch {
		case r == '\r' && i+1 < len(text) && text[i+1] == '\n', r == '\n', r == '\t':
		case r < ' ', 0x7f <= r && r < 0xa0, r == 0x2028, r == 0x2029, r == 0xfeff:
			return nil, f.wrong(i, "a control character")
		}
	}
	for f.pos < len(text) {
		if err := f.line(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// lineAt returns the line at i without its end, and where the next one begins.
func (f *yamlFile) lineAt(i int) (line []byte, next int) {
	end := lineEnd(f.text, i)
	next = end
	if next < len(f.text) && f.text[next] == '\r' {
		next++
	}
	if next < len(f.text) {
		next++
	}
	return f.text[i:end], next
}

func (f *yamlFile) wrong(i int, what string) error { return at(f.text, i, "%s", what) }

// line reads one line, and those that belong to its value.
func (f *yamlFile) line() error {
	line, next := f.lineAt(f.pos)
	body := bytes.TrimLeft(line, " ")
	indent := len(line) - len(body)
	rest := bytes.TrimLeft(body, "\t ")
	switch {
	case len(rest) == 0 || rest[0] == '#':
		f.pos = next
		return nil
	case body[0] == '\t':
		return f.wrong(f.pos, "a tab in the indentation")
	case indent == 0 && string(body) == "---" && len(f.keys) == 0:
		f.pos = next
		return nil
	case indent == 0 && (bytes.HasPrefix(body, []byte("---")) || bytes.HasPrefix(body, []byte("...")) || body[0] == '%'):
		return f.wrong(f.pos, "more than one document, or a directive")
	}
	k := yamlKey{indent: indent, start: f.pos}
	col := indent // of the key, behind the dashes of sequences
	for len(body) > 0 && body[0] == '-' && (len(body) == 1 || body[1] == ' ') {
		k.seq = true
		after := bytes.TrimLeft(body[1:], " ")
		col += len(body) - len(after)
		body = after
	}
	if len(body) > 0 && (body[0] == '?' && (len(body) == 1 || body[1] == ' ') || body[0] == '\t') {
		return f.wrong(f.pos, "a syntax that is not supported")
	}
	valueAt := f.pos + col
	parent := col
	if n, name, ok := yamlName(body); ok {
		k.name = name
		valueAt += n
	} else if k.seq {
		parent = indent
	} else {
		return f.wrong(f.pos, "a line that has no key")
	}
	err := f.value(&k, valueAt, parent)
	f.keys = append(f.keys, k)
	return err
}

// yamlName reads a key and its colon, and returns how long they are.
func yamlName(body []byte) (n int, name string, ok bool) {
	if len(body) == 0 {
		return 0, "", false
	}
	end := 0
	switch c := body[0]; {
	case c == '"':
		if end = skipString(body, 0); end < 0 || json.Unmarshal(body[:end], &name) != nil {
			return 0, "", false
		}
	case c == '\'':
		if end = 1 + bytes.IndexByte(body[1:], '\''); end < 1 {
			return 0, "", false
		}
		name = string(body[1:end])
		end++
	case strings.IndexByte("[]{},#&*!|>%@`?", c) >= 0:
		return 0, "", false
	default:
		for end = 0; end < len(body); end++ {
			if body[end] == ':' && (end+1 == len(body) || body[end+1] == ' ' || body[end+1] == '\t') {
				break
			}
			if body[end] == '#' && end > 0 && body[end-1] == ' ' {
				return 0, "", false
			}
		}
		name = strings.TrimRight(string(body[:end]), " ")
	}
	for end < len(body) && body[end] == ' ' {
		end++
	}
	if end >= len(body) || body[end] != ':' || end+1 < len(body) && body[end+1] != ' ' && body[end+1] != '\t' {
		return 0, "", false
	}
	return end + 1, name, name != ""
}

// value reads what begins at i, on the key's line. Lines that belong to it are
// those that are indented more than parent.
func (f *yamlFile) value(k *yamlKey, i, parent int) error {
	end := lineEnd(f.text, i)
	for i < end && (f.text[i] == ' ' || f.text[i] == '\t') {
		i++
	}
	k.value = [2]int{i, i}
	for i < end && (f.text[i] == '&' || f.text[i] == '!') { // an anchor or a tag in front
		for i < end && f.text[i] != ' ' {
			i++
		}
		for i < end && f.text[i] == ' ' {
			i++
		}
		k.value[1] = i
	}
	if i == end || f.text[i] == '#' {
		return f.finish(k, i, -1)
	}
	switch f.text[i] {
	case '"', '\'', '[', '{':
		stop, err := f.flow(i, 0)
		if err != nil {
			return err
		}
		k.value[1] = stop
		return f.finish(k, stop, -1)
	case '|', '>':
		k.openScalar = true
		k.value[1] = end
		_, f.pos = f.lineAt(i)
		k.end = f.pos
		for f.pos < len(f.text) {
			line, next := f.lineAt(f.pos)
			if body := bytes.TrimLeft(line, " "); len(body) > 0 && len(line)-len(body) <= parent {
				break
			}
			f.pos, k.end = next, next
		}
		return nil
	}
	k.value[1] = end
	if n := bytes.Index(f.text[i:end], []byte(" #")); n >= 0 {
		k.value[1] = i + n
		return f.finish(k, end, -1)
	}
	return f.finish(k, end, parent)
}

// finish reads the rest of a value's last line, and the lines that continue a
// plain scalar: those indented more than parent, if that is not -1.
func (f *yamlFile) finish(k *yamlKey, i, parent int) error {
	end := lineEnd(f.text, i)
	rest := bytes.TrimLeft(f.text[i:end], " \t")
	if len(rest) > 0 && (rest[0] != '#' || len(rest) == end-i && i > k.value[0]) {
		return f.wrong(i, "something behind the end of a value")
	}
	_, f.pos = f.lineAt(i)
	k.end = f.pos
	for parent >= 0 && f.pos < len(f.text) {
		line, next := f.lineAt(f.pos)
		body := bytes.TrimLeft(line, " \t")
		switch {
		case len(body) == 0: // belongs to it only if more follows
			f.pos = next
			continue
		case body[0] == '#' || len(line)-len(bytes.TrimLeft(line, " ")) <= parent:
			return nil
		case bytes.Contains(body, []byte(": ")) || bytes.HasSuffix(body, []byte(":")) || bytes.Contains(body, []byte(" #")):
			return f.wrong(f.pos, "a line that is indented as no other")
		}
		f.pos, k.end, k.value[1] = next, next, f.pos+len(line)
	}
	return nil
}

// flow returns the offset behind the quoted or bracketed value at i. It may
// have many lines, but none of them begins at the margin.
func (f *yamlFile) flow(i, depth int) (int, error) {
	start := i
	quote := f.text[i]
	margin := func(i int) bool { // text at the begin of a line
		return i > start && f.text[i-1] == '\n' && strings.IndexByte(" \t\r\n", f.text[i]) < 0
	}
	switch {
	case depth > deepest:
		return 0, f.wrong(i, "too many brackets")
	case quote == '"' || quote == '\'':
		for i++; i < len(f.text); i++ {
			switch c := f.text[i]; {
			case margin(i):
				return 0, f.wrong(i, "a value that goes on at the margin")
			case c == '\\' && quote == '"':
				i++
			case c == quote && quote == '\'' && i+1 < len(f.text) && f.text[i+1] == quote:
				i++
			case c == quote:
				return i + 1, nil
			}
		}
		return 0, f.wrong(start, "a string without an end")
	}
	closing := byte(']')
	if quote == '{' {
		closing = '}'
	}
	fresh := true // a quote here begins a string
	for i++; i < len(f.text); i++ {
		switch c := f.text[i]; {
		case margin(i):
			return 0, f.wrong(i, "a value that goes on at the margin")
		case c == closing:
			return i + 1, nil
		case c == ']' || c == '}':
			return 0, f.wrong(i, "brackets that do not match")
		case c == '[' || c == '{' || fresh && (c == '"' || c == '\''):
			end, err := f.flow(i, depth+1)
			if err != nil {
				return 0, err
			}
			i, fresh = end-1, false
		case c == '#' && (f.text[i-1] == ' ' || f.text[i-1] == '\n' || f.text[i-1] == '\t'):
			i = lineEnd(f.text, i) - 1
		case c == ',' || c == ':':
			fresh = true
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			fresh = false
		}
	}
	return 0, f.wrong(start, "a bracket without an end")
}

// A yamlMap is a block map in the file.
type yamlMap struct {
	indent int       // of its keys
	keys   []yamlKey // its own
	ends   []int     // where what belongs to them ends
	scalar []bool    // whether that is a block scalar
}

// mapOf returns the map of the keys from to to.
func (f *yamlFile) mapOf(from, to int) (m yamlMap, err error) {
	for i := from; i < to; i++ {
		k := f.keys[i]
		if len(m.keys) == 0 {
			m.indent = k.indent
		}
		switch {
		case k.indent < m.indent:
			return m, f.wrong(k.start, "a line that is indented as no other")
		case k.indent > m.indent || k.seq && len(m.keys) > 0 && f.noValue(m.keys[len(m.keys)-1]):
			m.ends[len(m.ends)-1] = k.end
			m.scalar[len(m.ends)-1] = k.openScalar
			continue
		case k.seq:
			return m, f.wrong(k.start, "a sequence where a map must be")
		}
		m.keys = append(m.keys, k)
		m.ends = append(m.ends, k.end)
		m.scalar = append(m.scalar, k.openScalar)
	}
	return m, nil
}

func (f *yamlFile) noValue(k yamlKey) bool { return k.value[0] == k.value[1] }

// below returns the map that is the value of the n-th key of m.
func (f *yamlFile) below(m yamlMap, n int, path []string) (yamlMap, error) {
	k := m.keys[n]
	if !f.noValue(k) {
		return yamlMap{}, f.wrong(k.start, name(path)+" is no block map")
	}
	from := 0
	for f.keys[from].start <= k.start {
		if from++; from == len(f.keys) {
			break
		}
	}
	to := from
	for to < len(f.keys) && f.keys[to].start < m.ends[n] {
		to++
	}
	b, err := f.mapOf(from, to)
	if err == nil && len(b.keys) > 0 && b.indent <= m.indent {
		err = f.wrong(b.keys[0].start, "a sequence where a map must be")
	}
	return b, err
}

// lookup returns the index of the key with that name, or -1.
func (f *yamlFile) lookup(m yamlMap, path []string) (int, error) {
	found := -1
	for i, k := range m.keys {
		if k.name != path[len(path)-1] {
			continue
		}
		if found >= 0 {
			return 0, f.wrong(k.start, name(path)+" is there twice")
		}
		found = i
	}
	return found, nil
}

// open finds a path of two keys: the root map with the index of the first one,
// and the map below it with the index of the second; -1 where there is none.
func (f *yamlFile) open(path []string) (root yamlMap, first int, inner yamlMap, second int, err error) {
	second = -1
	if root, err = f.mapOf(0, len(f.keys)); err != nil {
		return
	}
	if len(root.keys) > 0 && root.indent > 0 {
		err = f.wrong(root.keys[0].start, "the first key is indented")
		return
	}
	if first, err = f.lookup(root, path[:1]); err != nil || first < 0 {
		return
	}
	if inner, err = f.below(root, first, path[:1]); err != nil {
		return
	}
	second, err = f.lookup(inner, path)
	return
}

// flowMap returns where the value of a root key is, if that is a JSON object on one
// line, such as {}. It is YAML as well, and the JSON editor changes it.
func (f *yamlFile) flowMap(path []string) (from, to int, ok bool) {
	root, err := f.mapOf(0, len(f.keys))
	if err != nil || root.indent > 0 {
		return 0, 0, false
	}
	n, err := f.lookup(root, path[:1])
	if err != nil || n < 0 {
		return 0, 0, false
	}
	from, to = root.keys[n].value[0], root.keys[n].value[1]
	part := f.text[from:to]
	return from, to, len(part) > 0 && part[0] == '{' && bytes.IndexByte(part, '\n') < 0 && json.Valid(part)
}

// changeFlow makes an edit of such a value.
func (f *yamlFile) changeFlow(from, to int, edit func(flow []byte) ([]byte, error)) ([]byte, error) {
	out, err := edit(f.text[from:to])
	if err != nil {
		return nil, f.wrongFlow(from, err)
	}
	return splice(f.text, from, to, string(out)), nil
}

// wrongFlow is an error of the JSON editor, at the line of the file.
func (f *yamlFile) wrongFlow(from int, err error) error {
	if p := (*place)(nil); errors.As(err, &p) {
		return f.wrong(from, p.text)
	}
	return err
}

// getYAML returns the map at the path of two keys.
func getYAML(text []byte, path []string) (v any, found bool, err error) {
	f, err := parseYAML(text)
	if err != nil {
		return nil, false, err
	}
	if from, to, ok := f.flowMap(path); ok {
		if v, found, err = getJSON(f.text[from:to], path[1:]); err != nil {
			err = f.wrongFlow(from, err)
		}
		return v, found, err
	}
	_, _, inner, n, err := f.open(path)
	if err != nil || n < 0 {
		return nil, false, err
	}
	entry, err := f.below(inner, n, path)
	if err != nil {
		return nil, false, err
	}
	m := map[string]any{}
	for i, k := range entry.keys {
		m[k.name] = f.decode(entry, i)
	}
	return m, true, nil
}

// decode returns the value of the n-th key: a scalar, a list or map of them as
// setYAML writes it, or the text.
func (f *yamlFile) decode(m yamlMap, n int) any {
	k := m.keys[n]
	raw := strings.TrimSpace(string(f.text[k.value[0]:k.value[1]]))
	if raw != "" {
		return yamlScalar(raw)
	}
	var l []any
	object := map[string]any{}
	for _, c := range f.keys {
		if c.start <= k.start || c.start >= m.ends[n] {
			continue
		}
		raw := strings.TrimSpace(string(f.text[c.value[0]:c.value[1]]))
		if c.seq && c.name == "" {
			l = append(l, yamlScalar(raw))
		} else {
			object[c.name] = yamlScalar(raw)
		}
	}
	if l != nil {
		return l
	}
	return object
}

func yamlScalar(raw string) any {
	var v any
	switch {
	case raw == "" || raw == "~" || raw == "null":
		return nil
	case raw[0] == '\'' && len(raw) > 1:
		return strings.ReplaceAll(raw[1:len(raw)-1], "''", "'")
	case json.Unmarshal([]byte(raw), &v) == nil:
		return v
	case raw[0] == '[' && !strings.ContainsAny(raw[1:], "[{\"'#"):
		l := []any{}
		for e := range strings.SplitSeq(strings.Trim(raw, "[]"), ",") {
			if e = strings.TrimSpace(e); e != "" {
				l = append(l, yamlScalar(e))
			}
		}
		return l
	}
	if n, err := strconv.Unquote(raw); err == nil && raw[0] == '"' {
		return n
	}
	return raw
}

// setYAML puts the map at a path of two keys. In one that is there already,
// only the keys that differ are changed.
func setYAML(text []byte, path []string, v object) ([]byte, error) {
	f, err := parseYAML(text)
	if err != nil {
		return nil, err
	}
	if from, to, ok := f.flowMap(path); ok {
		return f.changeFlow(from, to, func(flow []byte) ([]byte, error) {
			if len(bytes.TrimSpace(flow[1:len(flow)-1])) == 0 { // with the mark of an object that was there: see insert
				return splice(flow, 1, 1, " "+printer{spaced: true, inline: true}.member(path[1], v, "")), nil
			}
			return setJSON(flow, path[1:], v)
		})
	}
	root, first, inner, second, err := f.open(path)
	switch {
	case err != nil:
		return nil, err
	case first < 0:
		if n := len(root.ends); n > 0 && root.scalar[n-1] && text[len(text)-1] != '\n' {
			return nil, f.wrong(len(text), "the file ends within a block scalar")
		}
		return f.place(len(text), yamlText("", f.nl, path[0], object{{path[1], v}}, "")), nil
	case second < 0:
		indent, mark, end := "  ", " ", root.keys[first].end
		if n := len(inner.keys); n > 0 {
			indent, mark, end = strings.Repeat(" ", inner.indent), "", inner.ends[n-1]
			if inner.scalar[n-1] && text[end-1] != '\n' {
				return nil, f.wrong(end, "the file ends within a block scalar")
			}
		}
		return f.place(end, yamlText(indent, f.nl, path[1], v, mark)), nil
	}
	entry, err := f.below(inner, second, path)
	if err != nil {
		return nil, err
	}
	indent, end := strings.Repeat(" ", inner.indent+2), inner.keys[second].end
	if n := len(entry.keys); n > 0 {
		indent, end = strings.Repeat(" ", entry.indent), entry.ends[n-1]
		if entry.scalar[n-1] && text[end-1] != '\n' {
			return nil, f.wrong(end, "the file ends within a block scalar")
		}
	}
	added := ""
	out := text
	for i := len(v) - 1; i >= 0; i-- {
		if n, err := f.lookup(entry, append(path[:2:2], v[i].key)); err != nil {
			return nil, err
		} else if n < 0 {
			added = yamlText(indent, f.nl, v[i].key, v[i].value, "") + added
		}
	}
	if added != "" {
		out = f.place(end, added)
	}
	for i := len(entry.keys) - 1; i >= 0; i-- {
		k := entry.keys[i]
		for _, m := range v {
			if m.key == k.name && !reflect.DeepEqual(f.decode(entry, i), plain(m.value)) {
				new := yamlText(indent, f.nl, m.key, m.value, "")
				if text[entry.ends[i]-1] != '\n' {
					new = strings.TrimSuffix(new, f.nl)
				}
				out = splice(out, k.start, entry.ends[i], new)
			}
		}
	}
	return out, nil
}

// place puts whole lines at i. If the file ends there without a line end, so
// do they, by which removeYAML can see how it was.
func (f *yamlFile) place(i int, lines string) []byte {
	if i == len(f.text) && len(bytes.TrimPrefix(f.text, []byte(bom))) > 0 && f.text[i-1] != '\n' {
		lines = f.nl + strings.TrimSuffix(lines, f.nl)
	}
	return splice(f.text, i, i, lines)
}

// yamlText writes a key and its value in whole lines; mark stands at the end of
// the first one.
func yamlText(indent, nl, key string, v any, mark string) string {
	o, ok := v.(object)
	if !ok {
		return indent + key + ": " + printer{spaced: true, inline: true}.text(v, "") + mark + nl
	}
	if len(o) == 0 {
		return indent + key + ": {}" + mark + nl
	}
	var b strings.Builder
	b.WriteString(indent + key + ":" + mark + nl)
	for _, m := range o {
		b.WriteString(yamlText(indent+"  ", nl, m.key, m.value, ""))
	}
	return b.String()
}

// removeYAML takes away the map at a path of two keys, and the one around it
// if it was made for it and is empty now.
func removeYAML(text []byte, path []string) ([]byte, error) {
	f, err := parseYAML(text)
	if err != nil {
		return nil, err
	}
	if from, to, ok := f.flowMap(path); ok {
		return f.changeFlow(from, to, func(flow []byte) ([]byte, error) {
			out, err := removeJSON(flow, path[1:])
			if err == nil && len(out) == 0 {
				out = []byte("{}")
			}
			return out, err
		})
	}
	root, first, inner, second, err := f.open(path)
	if err != nil || second < 0 {
		return text, err
	}
	k := inner.keys[second]
	start, end := k.start, inner.ends[second]
	line, _ := f.lineAt(start)
	if parent := root.keys[first]; len(inner.keys) == 1 && !bytes.HasSuffix(line, []byte(" ")) && parent.end == start {
		if line, _ := f.lineAt(parent.start); bytes.HasSuffix(line, []byte(":")) {
			start = parent.start
		}
	}
	if end == len(text) && text[end-1] != '\n' {
		start = chop(text, start)
	}
	return splice(text, start, end, ""), nil
}
