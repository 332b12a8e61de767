package store

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"herdr-link/mesh/disk"
	"herdr-link/mesh/fault"
)

// decode reads a record. file is what errors name: STATE_CORRUPT or
// STATE_VERSION. Members that nobody knows are let go.
func decode(file string, data []byte, into Record) error {
	corrupt := func(what string) error {
		return fault.New("STATE_CORRUPT", "%s: %s", file, what).With("path", file)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return corrupt("it is not JSON")
	}
	if repeats(data) {
		return corrupt("a member is there twice")
	}
	var version int
	if json.Unmarshal(members["version"], &version) != nil {
		return corrupt("it has no version")
	}
	if p := into.place(); version < 1 || version > p.versions {
		return fault.New("STATE_VERSION", "%s: version %d of the record is not known here", file, version).With("path", file)
	}
	// Package json would take "STATE" for "state" and null for nothing.
	known := map[string]json.RawMessage{}
	for _, f := range fields(into) {
		raw, there := members[f.name]
		null := string(raw) == "null"
		switch {
		case !there && f.optional:
		case !there:
			return corrupt(f.name + " is missing")
		case null && f.name == "exitCode":
		case null:
			return corrupt(f.name + " is null")
		default:
			known[f.name] = raw
		}
	}
	exact, err := json.Marshal(known)
	if err != nil || json.Unmarshal(exact, into) != nil {
		return corrupt("a field is of the wrong type")
	}
	var c rules
	if into.check(&c); c.broken != "" {
		return corrupt(c.broken + " breaks a rule")
	}
	return nil
}

// repeats reports whether an object in a JSON text has a member twice: readers do
// not agree about which one counts. Below the record itself, where package json
// reads the names, the size of letters makes no difference.
func repeats(data []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var open []map[string]bool // the members of objects that have begun; nil: an array
	name := false              // a name of a member is next
	for {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		d, _ := token.(json.Delim)
		switch s, ok := token.(string); {
		case d == '{':
			open = append(open, map[string]bool{})
		case d == '[':
			open = append(open, nil)
		case d == '}' || d == ']':
			open = open[:len(open)-1]
		case ok && name:
			if len(open) > 1 {
				s = strings.ToLower(strings.ToUpper(s))
			}
			seen := open[len(open)-1]
			if seen[s] {
				return true
			}
			seen[s], name = true, false
			continue
		}
		name = len(open) > 0 && open[len(open)-1] != nil
	}
}

type field struct {
	name     string
	optional bool
}

// fields are those of a record's file.
func fields(r Record) (all []field) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(r).Elem()) {
		if name, option, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			all = append(all, field{name, option == "omitempty"})
		}
	}
	return all
}

// room is more than a lease grows by from its start to its end: ids, digests and
// times, the reference of its checkpoint and the failure, all at their longest.
const room = 16 << 10

// Fits fails with INVALID_ARGUMENT if a new record may grow larger than can be
// read. What is not known yet may be missing in it.
func Fits(r Record) error {
	b, err := text(r)
	switch {
	case err != nil:
		return fault.New("INTERNAL", "a record cannot be written as text")
	case b.Len() > disk.MaxFile-room:
		return fault.New("INVALID_ARGUMENT", "the record of this would be larger than %d bytes: give fewer or shorter scopes, branches and texts", disk.MaxFile-room).
			With("bytes", b.Len())
	}
	return nil
}

func text(r Record) (*bytes.Buffer, error) {
	b := new(bytes.Buffer)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return b, enc.Encode(r)
}

// encode writes a record, and makes sure that it can be read again.
func encode(r Record) ([]byte, error) {
	b, err := text(r)
	if err != nil {
		return nil, err
	}
	if b.Len() > disk.MaxFile {
		return nil, fault.New("STATE_IO", "a record of %d bytes was not written: none larger than %d can be read", b.Len(), disk.MaxFile)
	}
	again := reflect.New(reflect.TypeOf(r).Elem()).Interface().(Record)
	if err := decode(r.place().folder, b.Bytes(), again); err != nil {
		return nil, fault.New("INTERNAL", "a record was about to be written that nobody could read: %v", err)
	}
	return b.Bytes(), nil
}
