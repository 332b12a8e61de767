package lock

import (
	"os"

	"herdr-link/mesh/fault"
)

func flock(*os.File, bool) (bool, error) {
	return false, fault.New("PLATFORM_UNSUPPORTED", "there is no such lock on Windows")
}

func unlock(f *os.File) { _ = f.Close() }
