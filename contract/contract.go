// Package contract holds the texts that models read, as files: PROTOCOL.md has
// the same, and a test keeps the two equal.
package contract

import _ "embed"

// These are constants but for the embedding: nobody writes to them.
var (
	// Rules is the Communication Contract: eight lines, each with its newline.
	//go:embed rules.txt
	Rules string
	// Fallback is two lines for hosts whose list of tools did not change.
	//go:embed fallback.txt
	Fallback string
	// FallbackNoClose is the same where herdr_link does not close.
	//go:embed fallback-no-close.txt
	FallbackNoClose string
	// Hint is the line that a model sees before herdr_link has been called.
	//go:embed hint.txt
	Hint string
)
