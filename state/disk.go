package state

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// disk is a folder of ours. All access goes through an os.Root, so no symlink leads out of it.
type disk struct{ root *os.Root }

// tempPrefix begins the name of every unfinished file.
const tempPrefix = ".tmp-"

var errNotFile = errors.New("not a regular file")

func (d disk) read(name string) ([]byte, error) {
	fi, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errNotFile}
	}
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi.Mode().Perm()&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(f)
}

func (d disk) write(name string, data []byte, durable bool) error {
	f, err := newFile(d.root, name, 0o600)
	if err != nil {
		return err
	}
	defer f.Abort()
	f.overwrite, f.durable = true, durable
	f.at = time.Now() // the kernel's clock is not the one of a test
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.commit()
}

func (d disk) rename(from, to string) error {
	if err := d.root.Rename(from, to); err != nil {
		return err
	}
	atStep("renamed")
	return syncFolder(d.root)
}

func (d disk) remove(name string) error { return d.root.Remove(name) }

func (d disk) list() ([]stored, error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var all []stored
	for _, e := range entries {
		fi, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if fi.Mode().IsRegular() {
			all = append(all, stored{e.Name(), fi.Size(), fi.ModTime()})
		}
	}
	return all, nil
}

func (d disk) sub(name string) (store, error) {
	if err := d.root.MkdirAll(name, 0o700); err != nil {
		return nil, err
	}
	fi, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a folder of ours: move it away")}
	}
	if fi.Mode().Perm()&0o077 != 0 {
		if err := d.root.Chmod(name, 0o700); err != nil {
			return nil, err
		}
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	s := disk{root}
	if err := s.sweep(); err != nil {
		root.Close()
		return nil, err
	}
	return s, nil
}

func (d disk) close() error { return d.root.Close() }

// sweep removes unfinished files. Only for a folder that no other process writes to.
func (d disk) sweep() error {
	all, err := d.list()
	if err != nil {
		return err
	}
	for _, f := range all {
		if !strings.HasPrefix(f.name, tempPrefix) {
			continue
		}
		if err := d.root.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
