package state

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// File is a file being written under a temporary name beside its target. The target changes at Commit, whole, or
// not at all. Not safe for concurrent use.
type File struct {
	root      *os.Root // the target's folder
	ownRoot   bool     // root is to be closed with the file
	f         *os.File
	name      string
	tmp       string // "" once there is none
	keep      fs.FileMode
	overwrite bool
	durable   bool
	at        time.Time // the modification time, if not zero
	size      int64
	err       error // the first failure of Write
}

// atStep is called at each step that a crash could separate from the next; tests die in it.
var atStep = func(string) {}

// Create begins a user's file at path, which must be in a folder that is there. perm is cut by the umask; a file that
// is replaced hands on its own mode. A symlink at path is replaced, not followed. What is there already fails with
// [fs.ErrExist] unless overwrite is set, now and again at Commit; a folder or device is never replaced.
//
// The caller ends with Commit, and may always call Abort after that.
func Create(path string, perm fs.FileMode, overwrite bool) (*File, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	f, err := begin(root, filepath.Base(path), perm, overwrite)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	return f, nil
}

// begin owns root, whatever it returns.
func begin(root *os.Root, name string, perm fs.FileMode, overwrite bool) (*File, error) {
	keep, err := replaced(root, name, overwrite)
	if err != nil {
		root.Close()
		return nil, err
	}
	if keep != 0 {
		perm = 0o600
	}
	f, err := newFile(root, name, perm)
	if err != nil {
		root.Close()
		return nil, err
	}
	f.ownRoot, f.keep, f.overwrite, f.durable = true, keep, overwrite, true
	return f, nil
}

// replaced returns the mode of the file that would be replaced, 0 if there is none.
func replaced(root *os.Root, name string, overwrite bool) (fs.FileMode, error) {
	fi, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, err
	case fi.Mode().IsRegular() && overwrite:
		return fi.Mode().Perm(), nil
	case fi.Mode().Type() == fs.ModeSymlink && overwrite:
		return 0, nil
	case fi.IsDir():
		return 0, errors.New("there is a folder of that name")
	case !overwrite:
		return 0, fs.ErrExist
	}
	return 0, errNotFile
}

func newFile(root *os.Root, name string, perm fs.FileMode) (*File, error) {
	tmp := tempPrefix + rand.Text()
	f, err := root.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return nil, err
	}
	atStep("created")
	return &File{root: root, f: f, name: name, tmp: tmp}, nil
}

// Write appends to the file. After a failure every later call, and Commit, fails the same way.
func (f *File) Write(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.f.Write(p)
	f.size += int64(n)
	f.err = err
	atStep("written")
	return n, err
}

// Commit puts the file in its place, or removes it and says why not.
func (f *File) Commit() error {
	if err := f.commit(); err != nil {
		return fmt.Errorf("write %s: %w", f.name, err)
	}
	return nil
}

func (f *File) commit() error {
	defer f.Abort()
	if f.err != nil {
		return f.err
	}
	if err := f.finish(); err != nil {
		return err
	}
	if err := f.place(); err != nil {
		return err
	}
	atStep("placed")
	if !f.durable {
		return nil
	}
	return syncFolder(f.root)
}

// finish makes the temporary file complete on disk and closes it.
func (f *File) finish() error {
	fi, err := f.f.Stat()
	if err != nil {
		return err
	}
	if fi.Size() != f.size {
		return fmt.Errorf("%w: %d bytes written, %d in the file", io.ErrShortWrite, f.size, fi.Size())
	}
	if f.keep != 0 {
		if err := f.f.Chmod(f.keep); err != nil {
			return err
		}
	}
	if f.durable {
		if err := f.f.Sync(); err != nil {
			return err
		}
	}
	if err := f.f.Close(); err != nil {
		return err
	}
	atStep("synced")
	if !f.at.IsZero() {
		return f.root.Chtimes(f.tmp, f.at, f.at)
	}
	return nil
}

// place gives the file its name. A hard link is the one portable way that fails if the name was taken meanwhile.
func (f *File) place() error {
	if f.overwrite {
		return f.rename()
	}
	err := f.root.Link(f.tmp, f.name) // Abort removes the other name
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return f.placeUnlinked()
}

// placeUnlinked is for file systems without hard links (FAT, some network shares): an empty file holds the name.
func (f *File) placeUnlinked() error {
	hold, err := f.root.OpenFile(f.name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	hold.Close()
	if err := f.rename(); err != nil {
		f.root.Remove(f.name)
		return err
	}
	return nil
}

func (f *File) rename() error {
	err := f.root.Rename(f.tmp, f.name)
	if err == nil {
		f.tmp = ""
	}
	return err
}

// Abort removes what was written and leaves the target as it was. After Commit or Abort it does nothing.
func (f *File) Abort() {
	f.f.Close()
	if f.tmp != "" {
		f.root.Remove(f.tmp)
		f.tmp = ""
	}
	if f.err == nil {
		f.err = fs.ErrClosed
	}
	if f.ownRoot {
		f.root.Close()
	}
}
