package mcp

import (
	"context"
	"encoding/json"

	"herdr-link/jsonrpc"
)

// unsupportedVersion is 2026-07-28's error code for a version not served.
const unsupportedVersion = -32022

// listTTL is how long a modern client may keep the list of tools, which never
// changes while the process runs.
const listTTL = 3_600_000 // ms

// modern serves one request of 2026-07-28: by what stands in it alone. It
// neither reads nor changes the state of the session.
func (s *Session) modern(ctx context.Context, req *jsonrpc.Request, p *params) (any, error) {
	if !p.modern || jsonrpc.Kind(p.meta[metaVersion]) != '"' {
		return nil, jsonrpc.Errorf(jsonrpc.InvalidParams, "_meta must have %q", metaVersion)
	}
	if v := text(p.meta[metaVersion]); v != Modern {
		err := jsonrpc.Errorf(unsupportedVersion, "protocol version not supported")
		err.Data = map[string]any{"supported": []string{Modern}, "requested": v}
		return nil, err
	}
	if jsonrpc.Kind(p.meta[metaCapabilities]) != '{' {
		return nil, jsonrpc.Errorf(jsonrpc.InvalidParams, "_meta must have %q", metaCapabilities)
	}
	switch req.Method {
	case "server/discover":
		return s.discover(), nil
	case "tools/list":
		l, err := s.list(p, Modern, false)
		if err != nil {
			return nil, err
		}
		ttl := listTTL
		l.ResultType, l.TTL, l.CacheScope = "complete", &ttl, "private"
		return l, nil
	case "tools/call":
		// To its tools a stateless request is one of an active session.
		return s.call(ctx, req, p, &Session{active: true, behind: s.behind}, Modern)
	}
	return nil, unknownMethod(req)
}

func (s *Session) discover() any {
	meta := map[string]any{"io.modelcontextprotocol/serverInfo": info{s.server.Name, s.server.Title, s.server.Version}}
	encoded, _ := json.Marshal(meta)
	return struct {
		ResultType   string          `json:"resultType"`
		Versions     []string        `json:"supportedVersions"`
		Capabilities capabilities    `json:"capabilities"`
		Instructions string          `json:"instructions,omitempty"`
		TTL          int             `json:"ttlMs"`
		CacheScope   string          `json:"cacheScope"`
		Meta         json.RawMessage `json:"_meta"`
	}{"complete", []string{Modern}, capabilities{}, s.server.Instructions, listTTL, "private", encoded}
}
