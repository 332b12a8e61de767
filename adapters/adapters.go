// Package adapters holds the JavaScript that brings herdr-link into hosts which
// take no MCP server, or better a file of their own: Pi's extension and
// OpenCode's plugin.
//
// It makes the text of these files and recognises them. Where they go, and
// whether they may, is package hosts' business. What a model reads is in none of
// them: they ask the program.
package adapters

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"io"
	"strings"
)

var (
	//go:embed program.js
	program string
	//go:embed pi.ts
	pi string
	//go:embed opencode.js
	openCode string
)

const mark = "// herdr-link adapter, version "

// Pi returns the extension for both Pi 0.73 and 1.x, which starts the program
// at the absolute path binary. JavaScript can name no path that is not UTF-8.
func Pi(binary, version string) []byte { return adapter(pi, binary, version) }

// OpenCode returns the plugin for OpenCode; see [Pi].
func OpenCode(binary, version string) []byte { return adapter(openCode, binary, version) }

// adapter puts what the adapters share in front of a host's part. The
// placeholders are JSON strings, and JSON's escapes are JavaScript's: no path
// can end the string it is in.
func adapter(host, binary, version string) []byte {
	return []byte(strings.NewReplacer(`"@HERDR_LINK@"`, literal(binary), `"@VERSION@"`, literal(version)).Replace(program + host))
}

func literal(s string) string {
	b, _ := json.Marshal(s) // a string always has a JSON form
	return string(b)
}

// Mark reports whether a file is an adapter made by this package, in whatever
// version, and which version that was.
func Mark(file []byte) (version string, ours bool) {
	rest, ours := bytes.CutPrefix(file, []byte(mark))
	if !ours {
		return "", false
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	d := json.NewDecoder(bytes.NewReader(line))
	if d.Decode(&version) != nil {
		return "", false
	}
	_, err := d.Token()
	return version, err == io.EOF
}

// Program returns the program that an adapter made by this package starts, or "".
func Program(file []byte) (path string) {
	const before = "\nconst PROGRAM = "
	_, rest, _ := bytes.Cut(file, []byte(before))
	line, _, found := bytes.Cut(rest, []byte(";\n"))
	if !found || json.Unmarshal(line, &path) != nil {
		return ""
	}
	return path
}
