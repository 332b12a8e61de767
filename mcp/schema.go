package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"herdr-link/jsonrpc"
)

// A Schema is the part of JSON Schema that arguments of opt-in toolsets need.
// tools/list sends what it can say in that language; Read checks that and the
// rest.
type Schema struct {
	Type        string // object, array, string, integer, number or boolean
	Description string
	Default     any // told to the model, and what Read puts in; nil: none

	Enum     []string
	Pattern  string            // what a string looks like, for the model
	Rule     string            // the same, or more than Pattern says, in words
	Valid    func(string) bool // checks Pattern and Rule; nil: there is neither
	MaxBytes int               // of a string's UTF-8; 0: no limit

	MinLength, MaxLength int // of a string, in characters; 0: no limit

	Min, Max *float64 // of a number

	Items              *Schema
	MinItems, MaxItems int  // 0: no limit
	Unique             bool // for items that compare

	Properties []Property // of an object; it takes no others
}

// A Property is a member of an object.
type Property struct {
	Name     string
	Required bool
	Schema
}

// Between returns a schema for numbers of that type from min to max.
func Between(kind string, min, max float64) Schema {
	return Schema{Type: kind, Min: &min, Max: &max}
}

type schemaJSON struct {
	Type        string          `json:"type"`
	Description string          `json:"description,omitempty"`
	Properties  json.RawMessage `json:"properties,omitempty"`
	Required    []string        `json:"required,omitempty"`
	Additional  *bool           `json:"additionalProperties,omitempty"`
	Enum        []string        `json:"enum,omitempty"`
	Pattern     string          `json:"pattern,omitempty"`
	MinLength   int             `json:"minLength,omitempty"`
	MaxLength   int             `json:"maxLength,omitempty"`
	Minimum     *float64        `json:"minimum,omitempty"`
	Maximum     *float64        `json:"maximum,omitempty"`
	Items       json.RawMessage `json:"items,omitempty"`
	MinItems    int             `json:"minItems,omitempty"`
	MaxItems    int             `json:"maxItems,omitempty"`
	Unique      bool            `json:"uniqueItems,omitempty"`
	Default     any             `json:"default,omitempty"`
}

// JSON returns the schema as tools/list sends it. Members stand in the order of
// Properties. A limit in bytes is told as one in characters: no string that
// breaks the latter keeps the former.
func (s *Schema) JSON() json.RawMessage {
	j := schemaJSON{
		Type: s.Type, Description: s.Description, Enum: s.Enum, Pattern: s.Pattern, MinLength: s.MinLength, MaxLength: max(s.MaxBytes, s.MaxLength),
		Minimum: s.Min, Maximum: s.Max, MinItems: s.MinItems, MaxItems: s.MaxItems, Unique: s.Unique, Default: s.Default,
	}
	if s.Items != nil {
		j.Items = s.Items.JSON()
	}
	if s.Type == "object" {
		var members bytes.Buffer
		for i, p := range s.Properties {
			if i > 0 {
				members.WriteByte(',')
			}
			fmt.Fprintf(&members, "%q:%s", p.Name, p.JSON())
			if p.Required {
				j.Required = append(j.Required, p.Name)
			}
		}
		j.Properties = json.RawMessage("{" + members.String() + "}")
		j.Additional = new(bool)
	}
	return Marshal(j)
}

// An ArgumentError says which argument breaks which rule. It never has the
// argument's value.
type ArgumentError struct {
	Name string // with a path below it, such as until[0]
	Rule string
}

func (e *ArgumentError) Error() string { return e.Name + " " + e.Rule }

// Values are arguments by name, as Read decodes them: string, int64, float64,
// bool, []any and Values.
type Values map[string]any

// Text returns the string of that name, or "".
func (v Values) Text(name string) string { s, _ := v[name].(string); return s }

// Int returns the integer of that name, or 0.
func (v Values) Int(name string) int { n, _ := v[name].(int64); return int(n) }

// True reports whether the boolean of that name is true.
func (v Values) True(name string) bool { b, _ := v[name].(bool); return b }

// Texts returns the strings of the list of that name.
func (v Values) Texts(name string) (all []string) {
	list, _ := v[name].([]any)
	for _, e := range list {
		s, _ := e.(string)
		all = append(all, s)
	}
	return all
}

// Read checks a call's arguments by an object's schema and decodes them. An
// argument that is null is as good as absent, unless it is required. The error
// is an *ArgumentError.
func (s *Schema) Read(args Args) (Values, error) {
	known := func(name string) bool {
		return slices.ContainsFunc(s.Properties, func(p Property) bool { return p.Name == name })
	}
	for name := range args {
		if !known(name) {
			return nil, &ArgumentError{strconv.Quote(clip(name)), "is no argument of this tool"}
		}
	}
	v := Values{}
	for i := range s.Properties {
		p := &s.Properties[i]
		raw := args[p.Name]
		switch kind := jsonrpc.Kind(raw); {
		case kind != 0 && kind != 'n':
			value, err := p.read(p.Name, raw)
			if err != nil {
				return nil, err
			}
			v[p.Name] = value
		case p.Required:
			return nil, &ArgumentError{p.Name, "is required"}
		case p.Default != nil:
			v[p.Name] = p.Default
		}
	}
	return v, nil
}

func clip(name string) string {
	if r := []rune(name); len(r) > 64 {
		return string(r[:64])
	}
	return name
}

func (s *Schema) read(name string, raw json.RawMessage) (any, error) {
	rule := func(format string, args ...any) (any, error) {
		return nil, &ArgumentError{name, fmt.Sprintf(format, args...)}
	}
	switch s.Type {
	case "string":
		text, err := unquote(raw)
		switch {
		case errors.Is(err, errHalf):
			return rule("must be Unicode text, without half of a surrogate pair")
		case err != nil:
			return rule("must be a string")
		case s.Enum != nil && !slices.Contains(s.Enum, text):
			return rule("must be one of %s", strings.Join(s.Enum, ", "))
		case s.MaxBytes > 0 && len(text) > s.MaxBytes:
			return rule("must have at most %d bytes, and has %d", s.MaxBytes, len(text))
		case s.MaxLength > 0 && !s.fits(utf8.RuneCountInString(text)):
			return rule("must have %d to %d characters, and has %d", s.MinLength, s.MaxLength, utf8.RuneCountInString(text))
		case s.Valid != nil && !s.Valid(text):
			return rule("must be %s", s.Rule)
		}
		return text, nil
	case "boolean":
		switch string(raw) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return rule("must be true or false")
	case "integer", "number":
		n, err := strconv.ParseFloat(string(raw), 64)
		whole := s.Type == "integer"
		if err != nil || whole && (n != math.Trunc(n) || math.Abs(n) > 1<<53) || s.Min != nil && n < *s.Min || s.Max != nil && n > *s.Max {
			return rule("must be %s", s.numbers())
		}
		if whole {
			return int64(n), nil
		}
		return n, nil
	case "array":
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil {
			return rule("must be an array")
		}
		if len(items) < s.MinItems || s.MaxItems > 0 && len(items) > s.MaxItems {
			return rule("must have %d to %d items", s.MinItems, s.MaxItems)
		}
		list := make([]any, len(items))
		for i, item := range items {
			var err error
			if list[i], err = s.Items.read(fmt.Sprintf("%s[%d]", name, i), item); err != nil {
				return nil, err
			}
			if s.Unique && slices.Contains(list[:i], list[i]) {
				return rule("must not have an item twice")
			}
		}
		return list, nil
	case "object":
		if jsonrpc.Kind(raw) != '{' {
			return rule("must be an object")
		}
		args := Args{}
		for member, value := range jsonrpc.Members(raw) {
			if args[member] != nil {
				return rule("must not have a member twice")
			}
			args[member] = value
		}
		v, err := s.Read(args)
		if e := (*ArgumentError)(nil); errors.As(err, &e) {
			return nil, &ArgumentError{name + "." + e.Name, e.Rule}
		}
		return v, nil
	}
	return rule("is of a type that nobody knows") // a mistake in the table, which its test finds
}

// fits reports whether a string may have so many characters.
func (s *Schema) fits(n int) bool { return n >= s.MinLength && n <= s.MaxLength }

// numbers says in words which numbers there may be.
func (s *Schema) numbers() string {
	text := map[string]string{"integer": "an integer", "number": "a number"}[s.Type]
	number := func(n *float64) string { return strconv.FormatFloat(*n, 'f', -1, 64) }
	switch {
	case s.Min != nil && s.Max != nil:
		text += " from " + number(s.Min) + " to " + number(s.Max)
	case s.Min != nil:
		text += ", " + number(s.Min) + " or more"
	case s.Max != nil:
		text += ", " + number(s.Max) + " or less"
	}
	return text
}

var errHalf = errors.New("half of a surrogate pair")

// unquote decodes a JSON string, and refuses half of a surrogate pair: package
// json would put U+FFFD in its place.
func unquote(raw json.RawMessage) (text string, err error) {
	if jsonrpc.Kind(raw) != '"' {
		return "", errors.New("not a string")
	}
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", err
	}
	expect := false // the second half of a pair
	for rest := []byte(raw); len(rest) > 0; {
		var unit uint64
		switch {
		case rest[0] == '\\' && rest[1] == 'u':
			unit, _ = strconv.ParseUint(string(rest[2:6]), 16, 16)
			rest = rest[6:]
		case rest[0] == '\\':
			rest = rest[2:]
		default:
			rest = rest[1:]
		}
		if second := unit>>10 == 0xDC00>>10; second != expect {
			return "", errHalf
		}
		expect = unit>>10 == 0xD800>>10
	}
	return text, nil
}
