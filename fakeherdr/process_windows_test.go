package fakeherdr

import (
	"os"
	"os/exec"
	"testing"
)

func newGroup(*exec.Cmd) {}

func killed(err *exec.ExitError) bool { return err.ExitCode() == 1 }

func checkGroup(*testing.T, string, int, int) {}

func checkAlive(*testing.T, *os.Process) {} // FindProcess fails there for a dead one
