// Package jsonrpc serves JSON-RPC 2.0 over lines: one message a line, UTF-8,
// as MCP's stdio transport has it.
//
// It reads and checks messages, keeps their order, cancels requests and writes
// answers whole. It knows no method name.
package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// The error codes of JSON-RPC 2.0 that a handler may need, too.
const (
	ParseError     = -32700
	InvalidRequest = -32600
	MethodNotFound = -32601
	InvalidParams  = -32602
	InternalError  = -32603
)

const (
	// MaxLine is the most bytes a line may have, its newline not counted. A
	// longer one is answered with InvalidRequest and skipped.
	MaxLine = 4 << 20
	// MaxID is the most bytes an id may have, as it stands in the message.
	MaxID = 256
)

// An ID is a request's id, byte for byte as it came: a JSON string or integer
// of at most MaxID bytes, so that 1 and "1" differ. A notification's is empty.
type ID string

// key is what makes two ids the same: escapes in a string do not matter.
func (id ID) key() ID {
	var s string
	if !bytes.ContainsRune([]byte(id), '\\') || json.Unmarshal([]byte(id), &s) != nil || strings.Contains(s, "\uFFFD") {
		return id // also where decoding has replaced something
	}
	return ID(`"` + s + `"`)
}

// A Request is a request or, if its ID is empty, a notification.
type Request struct {
	ID     ID
	Method string
	Params json.RawMessage // an object or an array, or nil
	Batch  bool            // it came inside a batch
	Size   int             // bytes of the whole message
}

// An Error is what a request is answered with instead of a result.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Errorf makes an Error without data.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// A Handler begins one request or notification. It is called for one message
// after the other, in the order of arrival, and must not block: here state
// changes and calls are cancelled. Its answer is a value that encodes as JSON,
// or an error (an *Error is sent as it is, any other as InternalError). A
// result of type Later is run beside other requests. What a notification
// yields is dropped.
//
// ctx ends when the request is cancelled, and with Serve.
type Handler func(ctx context.Context, req *Request) (any, error)

// A Later is the slow part of a request.
type Later func() (any, error)
