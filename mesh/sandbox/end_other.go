//go:build !linux

package sandbox

import (
	"os"
	"time"
)

// No sandbox is ever made there.

func seal() {}

func end(*os.Process, time.Duration) bool { return false }
