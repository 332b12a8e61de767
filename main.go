// Command herdr-link lets coding agents in the panes of a Herdr workspace talk
// to each other: an MCP server on stdio, and the same on the command line.
package main

import (
	_ "embed"
	"os"
	"strings"

	"herdr-link/cli"
)

//go:embed version.txt
var version string

func main() {
	os.Exit(cli.Main(&cli.Process{
		Args:    os.Args,
		Environ: os.Environ(),
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Version: strings.TrimSpace(version),
	}))
}
