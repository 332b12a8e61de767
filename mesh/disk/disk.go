// Package disk does the file operations of toolset mesh: private files and
// folders, each written whole or not at all.
//
// It knows no record. Every operation that changes something passes one seam,
// so that a test can let it fail, or end the process there.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"herdr-link/mesh/fault"
)

// MaxFile is how large a file may be that is read, in bytes (mesh.md §3.2).
const MaxFile = 256 << 10

// A Disk changes files. Its zero value does; its methods may be used by many
// goroutines.
type Disk struct {
	// Before, if not nil, is called before each operation, with the operation's
	// name and path. Its error becomes the operation's, which then does nothing.
	Before func(op, path string) error
}

// The operations, as Before gets them.
const (
	OpMkdir  = "mkdir"
	OpCreate = "create"
	OpWrite  = "write"
	OpSync   = "sync"
	OpLink   = "link"
	OpRename = "rename"
	OpRemove = "remove"
	OpOpen   = "open"
)

func (d *Disk) before(op, path string) error {
	if d.Before == nil {
		return nil
	}
	if err := d.Before(op, path); err != nil {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return nil
}

// Mkdir makes a folder of this user's alone, and those above it that are
// missing. One that is there is fine, whatever its mode: see Folder.
func (d *Disk) Mkdir(path string) error {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := d.Mkdir(parent); err != nil {
			return err
		}
	}
	if err := d.before(OpMkdir, path); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.Sync(parent)
}

// Write makes a new private file with that content, and has it on the medium
// when it returns. What a failure leaves is removed.
func (d *Disk) Write(path string, data []byte) (err error) {
	if err := d.before(OpCreate, path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			_ = d.Remove(path)
		}
	}()
	if err := d.before(OpWrite, path); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := d.before(OpSync, path); err != nil {
		return err
	}
	return f.Sync()
}

// Open opens a private file to be locked, and makes an empty one if there is none.
func (d *Disk) Open(path string) (*os.File, error) {
	if err := d.before(OpOpen, path); err != nil {
		return nil, err
	}
	return open(path, os.O_RDWR|os.O_CREATE)
}

// Link gives a file a second name, which must be free.
func (d *Disk) Link(from, to string) error {
	if err := d.before(OpLink, to); err != nil {
		return err
	}
	return os.Link(from, to)
}

// Rename gives a file or folder another name. A file that has it is replaced.
func (d *Disk) Rename(from, to string) error {
	if err := d.before(OpRename, to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// Claim is Rename to a name that must be free: otherwise it fails with
// fs.ErrExist. (A plain rename would replace an empty folder.)
func (d *Disk) Claim(from, to string) error {
	if err := d.before(OpRename, to); err != nil {
		return err
	}
	return claim(from, to)
}

// Remove removes a file or an empty folder.
func (d *Disk) Remove(path string) error {
	if err := d.before(OpRemove, path); err != nil {
		return err
	}
	return os.Remove(path)
}

// Clear removes a folder with all that is in it. It follows no link.
func (d *Disk) Clear(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		remove := d.Remove
		if e.IsDir() {
			remove = d.Clear
		}
		if err := remove(filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	return d.Remove(path)
}

// Sync has a folder's names on the medium when it returns.
func (d *Disk) Sync(path string) error {
	if err := d.before(OpSync, path); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return syncFolder(f)
}

// Read returns the content of a private file. It fails with fs.ErrNotExist, with
// STATE_INSECURE if others have a say in the file, or it is none, and with
// STATE_CORRUPT if it is too large.
func Read(path string) ([]byte, error) {
	f, err := Look(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return content(f)
}

func content(f *os.File) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(data) > MaxFile {
		return nil, fault.New("STATE_CORRUPT", "%s is larger than %d bytes", f.Name(), MaxFile).With("path", f.Name())
	}
	return data, err
}

// Peek returns the content of a regular file, whoever has a say in it: nothing may
// be done that only its owner could have asked for. It fails as Read does, but for
// the mode.
func Peek(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow|nonBlock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, insecure(path, info)
	}
	return content(f)
}

// Look opens a private file that is there to be read. It fails as Read does.
func Look(path string) (*os.File, error) { return open(path, os.O_RDONLY) }

func open(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|noFollow|nonBlock, 0o600)
	if err != nil {
		if info, e := os.Lstat(path); e == nil && (info.Mode()&fs.ModeSymlink != 0 || info.IsDir()) {
			return nil, insecure(path, info)
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || !private(info)) {
		err = insecure(path, info)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Folder checks that path is a folder in which nobody else has a say: else
// STATE_INSECURE, or fs.ErrNotExist. Nothing is ever mended: that is for the user.
func Folder(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() || !private(info) {
		return insecure(path, info)
	}
	return nil
}

func insecure(path string, info fs.FileInfo) *fault.Fault {
	what := "is open to other users"
	switch {
	case info.IsDir() && private(info): // asked about as a file; Folder finds nothing wrong with it
		what = "is a folder and not a file"
	case info.Mode().IsRegular() && private(info):
		what = "is a file and not a folder"
	case info.Mode()&fs.ModeSymlink != 0:
		what = "is a symbolic link"
	case !info.IsDir() && !info.Mode().IsRegular():
		what = "is neither file nor folder"
	case !own(info):
		what = "belongs to another user"
	}
	mode := fmt.Sprintf("%04o", info.Mode().Perm())
	return fault.New("STATE_INSECURE", "%s %s (mode %s): state must be this user's alone, files 0600 and folders 0700", path, what, mode).
		With("path", path).With("mode", mode)
}

// Fault returns err if it is a fault already, or else STATE_IO. err may name
// paths below the state root, which are no secrets.
func Fault(err error) error {
	var f *fault.Fault
	if err == nil || errors.As(err, &f) {
		return err
	}
	return fault.New("STATE_IO", "the state on disk could not be read or written: %v", err)
}

// Resolved follows the links of a folder's path, as far as it can be seen.
func Resolved(dir string) string {
	if path, err := filepath.EvalSymlinks(dir); err == nil {
		return path
	}
	return dir
}
