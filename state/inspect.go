package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Inspection is what [Inspect] saw of a state folder.
type Inspection struct {
	Loose []string // files and folders in it that others may read, "." for the folder itself
	PID   int      // the primary process, 0 if there is none
	Since time.Time
}

// Inspect looks at a state folder and changes nothing in it. One that is not there gives [fs.ErrNotExist].
//
// Only a lock whose owner is named is tried: it is held, or its owner was killed. So a process that starts meanwhile
// finds it free.
func Inspect(path string) (Inspection, error) {
	var in Inspection
	var err error
	if in.Loose, err = loose(path); err != nil {
		return Inspection{}, fmt.Errorf("inspect state folder: %w", err)
	}
	var o owner
	if _, err := Peek(path, ownerName, ownerVersion, &o); err != nil {
		return in, nil
	}
	lock := filepath.Join(path, lockName)
	if _, err := os.Stat(lock); err != nil { // claim would make it
		return in, nil
	}
	if l, ok, err := claim(lock); ok && err == nil {
		l.Unlock()
		return in, nil
	}
	in.PID, in.Since = o.PID, o.Since
	return in, nil
}

// Peek is [Dir.Load] for whoever has not opened the folder: a damaged file stays where it is ([ErrCorrupt]), and so
// does its mode. changed is when the file was last written.
func Peek(path, name string, version int, v any) (changed time.Time, err error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return time.Time{}, fmt.Errorf("peek: %w", err)
	}
	defer root.Close()
	fi, err := root.Lstat(name)
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%w: %w", ErrCorrupt, errNotFile)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("peek at %s: %w", name, err)
	}
	data, err := root.ReadFile(name)
	if err != nil {
		return time.Time{}, fmt.Errorf("peek at %s: %w", name, err)
	}
	found, err := decode(data, version, v)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("peek at %s: %w: %w", name, ErrCorrupt, err)
	case found > version:
		return time.Time{}, fmt.Errorf("peek: %w", &VersionError{name, found, version})
	}
	return fi.ModTime(), nil
}

// loose lists what below path others could read. What goes away meanwhile is passed over.
func loose(path string) ([]string, error) {
	fi, err := os.Stat(path) // the folder may be a link to one
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		return nil, &fs.PathError{Op: "inspect", Path: path, Err: errors.New("not a folder")}
	}
	if runtime.GOOS == "windows" { // no such modes
		return nil, nil
	}
	var list []string
	err = fs.WalkDir(os.DirFS(path), ".", func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		fi, err := e.Info()
		if name == "." {
			fi, err = os.Stat(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if fi.Mode().Type() != fs.ModeSymlink && fi.Mode().Perm()&0o077 != 0 {
			list = append(list, name)
		}
		return nil
	})
	return list, err
}
