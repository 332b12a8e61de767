package fakeherdr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// What some commands print instead of a reply: text as it is (none: nothing at
// all), on stderr in one case, or JSON of their own.
type (
	plain  string
	notice string
	bare   struct{ value any }
)

// Four things a call can end with that are no success.
type (
	// A failure is Herdr's answer to a request that it understood.
	failure struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	// An unreachable is the client's own word about the server.
	unreachable failure
	// A usage is plain text about a wrong command line.
	usage string
	// A debug is how the client prints an error that it did not expect.
	debug string
)

func (f failure) Error() string     { return f.Message }
func (u unreachable) Error() string { return u.Message }
func (u usage) Error() string       { return string(u) }
func (d debug) Error() string       { return string(d) }

// Keys come in this order: sorted from the server, id first from the client.
type (
	success struct {
		ID     string `json:"id"`
		Result any    `json:"result"`
	}
	serverError struct {
		Error failure `json:"error"`
		ID    string  `json:"id"`
	}
	clientError struct {
		ID    string  `json:"id"`
		Error failure `json:"error"`
	}
)

// finish prints a call's outcome and returns its exit status.
func (c *call) finish(id string, result any, err error) int {
	var (
		fail failure
		away unreachable
		text usage
		dump debug
	)
	switch {
	case err == nil:
		if text, ok := result.(notice); ok {
			return c.say(0, "", string(text))
		}
		return c.say(0, reply(id, result), "")
	case errors.As(err, &fail):
		return c.say(1, "", line(serverError{fail, id}))
	case errors.As(err, &away):
		return c.say(1, "", line(clientError{id, failure(away)}))
	case errors.As(err, &dump):
		return c.say(1, "", "Error: "+string(dump)+"\n")
	case errors.As(err, &text):
		return c.say(2, "", string(text)+"\n")
	}
	// The scene itself is broken: no answer of Herdr's must hide that.
	return c.say(70, "", fmt.Sprintf("fakeherdr: %v\n", err))
}

func reply(id string, result any) string {
	switch r := result.(type) {
	case plain:
		return string(r)
	case bare:
		return line(r.value)
	}
	return line(success{id, result})
}

// line is v as Herdr writes it: one line, nothing escaped for HTML.
func line(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // only our own structs come here
	}
	return b.String()
}

func (c *call) say(exit int, stdout, stderr string) int {
	_, err := io.WriteString(c.stdout, stdout)
	if _, err2 := io.WriteString(c.stderr, stderr); err != nil || err2 != nil {
		return 1
	}
	return exit
}

// flood writes until nobody reads any more.
func flood(w io.Writer) int {
	block := bytes.Repeat([]byte("herdr herdr herdr\n"), 4096)
	for {
		if _, err := w.Write(block); err != nil {
			return 1
		}
	}
}
