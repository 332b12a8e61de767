package disk

import (
	"io/fs"
	"os"
)

// rename is claim where the system has none: it looks first. What is made in
// between is only replaced if it is an empty folder.
func rename(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	}
	return os.Rename(from, to)
}
