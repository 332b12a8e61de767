package herdrcli

import (
	"os"
	"testing"
)

// keepOpen has nothing to do: Windows has no fork.
func keepOpen(*testing.T, *os.File) {}
