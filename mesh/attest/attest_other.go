//go:build !linux && !darwin

package attest

import "context"

const blind = true

// Boot, Host and Namespace are not known here.
func Boot() string      { return "" }
func Host() string      { return "" }
func Namespace() string { return "" }

// Start is not known here.
func Start(int) string { return "" }

// Exists is not known here: every process counts as one that exists.
func Exists(int) bool { return true }

func look(context.Context, int) (seen, bool) { return seen{}, false }
