package envelope_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"herdr-link/envelope"
)

// A vector is one file of testdata/envelope, whose README says what the keys
// mean.
type vector struct {
	name, kind, expect string
	fields             envelope.Envelope
	body               string
}

// kinds lists for each kind what it may expect, and for which of these the
// fields of an envelope stand in the header.
var kinds = map[string]map[string]bool{
	"parse":  {"envelope": true, "malformed": false, "any": false},
	"encode": {"bytes": true, "invalid": true},
	"wrap":   {"bytes": true, "invalid": true},
	"name":   {"valid": false, "invalid": false},
	"id":     {"valid": false, "invalid": false},
	"blank":  {"blank": false, "not-blank": false},
}

func vectors(t testing.TB) []vector {
	t.Helper()
	files, err := filepath.Glob("../testdata/envelope/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no vectors", err)
	}
	var all []vector
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		v, err := readVector(data)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		v.name = strings.TrimSuffix(filepath.Base(file), ".txt")
		all = append(all, v)
	}
	return all
}

func readVector(data []byte) (v vector, err error) {
	head, body, ok := bytes.Cut(data, []byte("\n\n"))
	body, newline := bytes.CutSuffix(body, []byte("\n"))
	if !ok || !newline {
		return v, errors.New("no empty line behind the header, or no newline at the end")
	}
	keys := map[string]string{}
	var repeats []string
	for line := range strings.SplitSeq(string(head), "\n") {
		key, value, ok := strings.Cut(line, ": ")
		_, twice := keys[key]
		switch {
		case !ok || twice:
			return v, fmt.Errorf("header line %q", line)
		case key == "repeat":
			repeats = append(repeats, value)
		default:
			keys[key] = value
		}
	}
	take := func(key string) (value string, ok bool) {
		value, ok = keys[key]
		delete(keys, key)
		return value, ok
	}
	v.kind, _ = take("kind")
	v.expect, _ = take("expect")
	take("comment")
	encoding, _ := take("encoding")
	if v.body, err = decodeBody(encoding, body); err != nil {
		return v, err
	}
	withFields, ok := kinds[v.kind][v.expect]
	if !ok {
		return v, fmt.Errorf("kind %q cannot expect %q", v.kind, v.expect)
	}
	if withFields {
		if err := readFields(&v.fields, take); err != nil {
			return v, err
		}
	}
	if len(keys) > 0 {
		return v, fmt.Errorf("keys that do not belong here: %v", keys)
	}
	for _, rule := range repeats {
		if err := v.repeat(rule); err != nil {
			return v, err
		}
	}
	return v, nil
}

func decodeBody(encoding string, body []byte) (string, error) {
	switch encoding {
	case "", "text":
		return string(body), nil
	case "json":
		var s string
		err := json.Unmarshal(body, &s)
		return s, err
	case "hex":
		b, err := hex.DecodeString(string(bytes.ReplaceAll(body, []byte("\n"), nil)))
		return string(b), err
	}
	return "", fmt.Errorf("unknown encoding %q", encoding)
}

func readFields(e *envelope.Envelope, take func(string) (string, bool)) error {
	for key, field := range map[string]*string{"id": &e.ID, "from": &e.From, "to": &e.To, "reply_to": &e.ReplyTo, "message": &e.Message} {
		value, ok := take(key)
		if !ok {
			if digits, isHex := take(key + "-hex"); isHex && key == "message" {
				b, err := hex.DecodeString(digits)
				if err != nil {
					return err
				}
				*field = string(b)
			} else if key != "reply_to" {
				return fmt.Errorf("no %s", key)
			}
			continue
		}
		if err := json.Unmarshal([]byte(value), field); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// repeat applies one rule TOKEN COUNT STRING.
func (v *vector) repeat(rule string) error {
	parts := strings.SplitN(rule, " ", 3)
	if len(parts) != 3 || !strings.Contains(v.body+v.fields.Message, parts[0]) {
		return fmt.Errorf("repeat: %q", rule)
	}
	count, err := strconv.Atoi(parts[1])
	if err != nil {
		return err
	}
	var s string
	if err := json.Unmarshal([]byte(parts[2]), &s); err != nil {
		return err
	}
	s = strings.Repeat(s, count)
	v.body = strings.ReplaceAll(v.body, parts[0], s)
	v.fields.Message = strings.ReplaceAll(v.fields.Message, parts[0], s)
	return nil
}

func TestVectors(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range vectors(t) {
		seen[v.kind+" "+v.expect] = true
		t.Run(v.name, func(t *testing.T) {
			if !strings.HasPrefix(v.name, v.kind+"-") {
				t.Errorf("named %s, of kind %s", v.name, v.kind)
			}
			v.run(t)
		})
	}
	for kind, expects := range kinds {
		for expect := range expects {
			if !seen[kind+" "+expect] {
				t.Errorf("no vector of kind %s that expects %s", kind, expect)
			}
		}
	}
}

func (v vector) run(t *testing.T) {
	verdict := func(got bool, yes, no string) {
		t.Helper()
		if want := v.expect == yes; got != want {
			t.Errorf("%s: got %t, want %t, for %.200q", v.kind, got, want, v.body)
		}
	}
	written := func(got string, err error) {
		t.Helper()
		switch {
		case v.expect == "invalid" && (err == nil || got != ""):
			t.Errorf("wrote %.400q, %v", got, err)
		case v.expect == "bytes" && (err != nil || got != v.body):
			t.Errorf("got %.800q, %v\nwant %.800q", got, err, v.body)
		}
	}
	switch v.kind {
	case "parse":
		e, err := envelope.Parse(v.body)
		switch {
		case err != nil && (!errors.Is(err, envelope.ErrNone) || e != envelope.Envelope{}):
			t.Errorf("got %.400q, %v", e, err)
		case v.expect == "envelope" && (err != nil || e != v.fields):
			t.Errorf("got %.400q, %v\nwant %.400q", e, err, v.fields)
		case v.expect == "malformed" && err == nil:
			t.Errorf("got %.400q", e)
		}
	case "encode":
		line, err := envelope.Encode(v.fields)
		written(string(line), err)
	case "wrap":
		written(envelope.Wrap(v.fields))
	case "name":
		verdict(envelope.ValidName(v.body), "valid", "invalid")
	case "id":
		verdict(envelope.ValidID(v.body), "valid", "invalid")
	case "blank":
		verdict(envelope.Blank(v.body), "blank", "not-blank")
	}
}

// TestVectorReader: a slip in a vector must not skip its check.
func TestVectorReader(t *testing.T) {
	const good = "kind: name\nexpect: valid\n\nbrain\n"
	if v, err := readVector([]byte(good)); err != nil || v.body != "brain" {
		t.Fatalf("got %+v, %v", v, err)
	}
	for _, bad := range []string{
		"",
		"kind: name\nexpect: valid\n",
		strings.TrimSuffix(good, "\n"),
		"expected: valid\n" + good,
		"kind: name\n" + good,
		"comment:none\n" + good,
		"id: \"hl_a_b\"\n" + good,
		"encoding: base64\n" + good,
		"encoding: hex\n" + good,
		"encoding: json\n" + good,
		"repeat: brian 2 \"x\"\n" + good,
		"repeat: brain two \"x\"\n" + good,
		"repeat: brain 2 x\n" + good,
		"kind: names\nexpect: valid\n\nbrain\n",
		"kind: name\nexpect: envelope\n\nbrain\n",
		"kind: parse\nexpect: envelope\nid: \"hl_a_b\"\nfrom: \"a\"\nto: \"a\"\n\n\n",
		"kind: parse\nexpect: envelope\nid: \"hl_a_b\"\nfrom: a\nto: \"a\"\nmessage: \"m\"\n\n\n",
		"kind: encode\nexpect: invalid\nid: \"hl_a_b\"\nfrom: \"a\"\nto: \"a\"\nmessage: \"m\"\nmessage-hex: ff\n\n\n",
	} {
		if v, err := readVector([]byte(bad)); err == nil {
			t.Errorf("read %q as %+v", bad, v)
		}
	}
}

// TestVectorsStandAlone: every vector is there to be found by its README, and
// nothing else lies beside them.
func TestVectorsStandAlone(t *testing.T) {
	entries, err := os.ReadDir("../testdata/envelope")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if name := entry.Name(); filepath.Ext(name) != ".txt" && !slices.Contains([]string{"README.md", ".gitattributes"}, name) {
			t.Errorf("testdata/envelope/%s is no vector", name)
		}
	}
}
