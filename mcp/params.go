package mcp

import (
	"encoding/json"

	"herdr-link/jsonrpc"
)

// params are the members of a request's params that this package reads.
type params struct {
	fields map[string]json.RawMessage
	modern bool // _meta names a protocol version
	meta   map[string]json.RawMessage
}

// The _meta keys of 2026-07-28.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
)

// readParams reads a request's params. A member that counts must not come
// twice: which of two tools is meant would be a guess.
func readParams(raw json.RawMessage) (*params, error) {
	p := &params{fields: map[string]json.RawMessage{}, meta: map[string]json.RawMessage{}}
	switch jsonrpc.Kind(raw) {
	case 0:
		return p, nil
	case '{':
	default:
		return nil, jsonrpc.Errorf(jsonrpc.InvalidParams, "params must be an object")
	}
	for key, value := range jsonrpc.Members(raw) {
		switch key {
		case "name", "arguments", "protocolVersion", "cursor", "_meta":
			if p.fields[key] != nil {
				return nil, jsonrpc.Errorf(jsonrpc.InvalidRequest, "%q stands in params twice", key)
			}
			p.fields[key] = value
		}
	}
	for key, value := range jsonrpc.Members(p.fields["_meta"]) {
		switch key {
		case metaVersion, metaCapabilities, "progressToken":
			if p.meta[key] != nil {
				return nil, jsonrpc.Errorf(jsonrpc.InvalidRequest, "%q stands in _meta twice", key)
			}
			p.meta[key] = value
		}
	}
	p.modern = p.meta[metaVersion] != nil
	return p, nil
}

// text returns a member that is a string, or "".
func (p *params) text(key string) string { return text(p.fields[key]) }

func text(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// maxArgs is how many arguments a call may have.
const maxArgs = 256

// ReadArgs reads a call's arguments, valid JSON: an object; absent or null is
// an empty one. It says what is wrong with them, or "". Gemini CLI adds an
// argument of its own to every tool; it is dropped here.
func ReadArgs(raw json.RawMessage) (args Args, problem string) {
	args = Args{}
	switch jsonrpc.Kind(raw) {
	case 0, 'n':
		return args, ""
	case '{':
	default:
		return nil, "arguments must be a JSON object"
	}
	for key, value := range jsonrpc.Members(raw) {
		if _, twice := args[key]; twice {
			return nil, "an argument is given twice: each name may stand once"
		}
		if len(args) == maxArgs {
			return nil, "too many arguments"
		}
		args[key] = value
	}
	delete(args, "wait_for_previous")
	return args, ""
}
