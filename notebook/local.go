package notebook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// Errors of local files. That of a path outside reads the same whether or not anything is there.
var (
	ErrNotAllowed   = errors.New("this path is not open to us")
	ErrExists       = errors.New("there is a file already")
	ErrNotRegular   = errors.New("not a regular file")
	ErrIsDirectory  = errors.New("a directory, not a file")
	ErrNoSpace      = errors.New("no space left for the file")
	ErrNeedAbsolute = errors.New("a relative path means nothing here, give an absolute one")
)

// Local is which local files an agent may touch: those below the Allow directories, or without any, all but hidden ones
// and the system's own. Symbolic links are resolved first, and only as far as they stay inside. It may be used concurrently.
type Local struct {
	allow []string // as given, absolute
	roots []string // the same directories, resolved
}

// NewLocal checks the directories, which must exist. None means no list.
func NewLocal(allow []string) (*Local, error) {
	l := &Local{}
	for _, dir := range allow {
		abs, err := Abs(dir)
		if err != nil {
			return nil, err
		}
		root, err := filepath.EvalSymlinks(abs)
		if err != nil {
			return nil, fmt.Errorf("allowed directory: %w", err)
		}
		if info, err := os.Stat(root); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("allowed directory %s: not a directory", abs)
		}
		l.allow, l.roots = append(l.allow, abs), append(l.roots, root)
	}
	return l, nil
}

// Abs makes a path as agents write it absolute: ~ is the user's home. With / as working directory, where clients of MCP often start us, a
// relative path is ErrNeedAbsolute.
func Abs(path string) (string, error) {
	if path == "~" || strings.HasPrefix(path, "~/") || strings.HasPrefix(path, `~\`) && filepath.Separator == '\\' {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("%q: %w", path, err)
		}
		path = filepath.Join(home, path[1:])
	}
	if path == "" || strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("%q: %w", path, fs.ErrInvalid)
	}
	if !filepath.IsAbs(path) {
		cwd, err := os.Getwd()
		if err != nil || filepath.Dir(cwd) == cwd {
			return "", fmt.Errorf("%q: %w", path, ErrNeedAbsolute)
		}
		path = filepath.Join(cwd, path)
	}
	return filepath.Clean(path), nil
}

// Open opens a regular file for reading and returns its absolute path, links resolved. It does not wait for the other end of a pipe.
func (l *Local) Open(path string) (*os.File, string, error) {
	root, rel, err := l.resolve(path)
	if err != nil {
		return nil, "", err
	}
	defer root.Close()
	abs := filepath.Join(root.Name(), rel)
	info, err := root.Lstat(rel) // opening a device may do something
	if err != nil {
		return nil, "", rooted(path, err)
	}
	if err := regular(info); err != nil {
		return nil, "", fmt.Errorf("%q: %w", path, err)
	}
	f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, "", rooted(path, err)
	}
	if info, err = f.Stat(); err == nil {
		err = regular(info)
	}
	if err != nil {
		f.Close()
		return nil, "", fmt.Errorf("%q: %w", path, err)
	}
	return f, abs, nil
}

// Resolve is the absolute path that Open or Stage would use, and whether it is a directory.
func (l *Local) Resolve(path string) (abs string, dir bool, err error) {
	root, rel, err := l.resolve(path)
	if err != nil {
		return "", false, err
	}
	defer root.Close()
	info, err := root.Lstat(rel)
	return filepath.Join(root.Name(), rel), err == nil && info.IsDir(), nil
}

func regular(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return ErrIsDirectory
	case !info.Mode().IsRegular():
		return ErrNotRegular
	}
	return nil
}

// rooted gives an error of os.Root our words: one that escapes was changed into a link after we looked.
func rooted(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%q: %w", path, errors.Unwrap(err))
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		if _, system := pathErr.Err.(syscall.Errno); system {
			return fmt.Errorf("%q: %w", path, pathErr.Err)
		}
	}
	return fmt.Errorf("%q: %w", path, ErrNotAllowed)
}

// resolve follows the links of a path one by one and refuses before it looks at anything outside. The path need not exist.
func (l *Local) resolve(path string) (*os.Root, string, error) {
	abs, err := Abs(path)
	if err != nil {
		return nil, "", err
	}
	root, rest := l.under(abs)
	at := root
	for links := 0; len(rest) > 0; {
		if root == "" || links > 40 {
			return nil, "", fmt.Errorf("%q: %w", path, ErrNotAllowed)
		}
		next := filepath.Join(at, rest[0]) // ".." too: what is behind is resolved
		if !l.inside(root, next) {
			return nil, "", fmt.Errorf("%q: %w", path, ErrNotAllowed)
		}
		target, err := os.Readlink(next)
		if err != nil { // no link, or nothing there
			at, rest = next, rest[1:]
			continue
		}
		links++
		behind := rest[1:]
		if filepath.IsAbs(target) {
			root, rest = l.under(filepath.Clean(target))
			at = root
		} else {
			rest = parts(target)
		}
		rest = slices.Concat(rest, behind)
	}
	if root == "" {
		return nil, "", fmt.Errorf("%q: %w", path, ErrNotAllowed)
	}
	rel, err := filepath.Rel(root, at)
	if err != nil {
		return nil, "", fmt.Errorf("%q: %w", path, err)
	}
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, "", fmt.Errorf("%q: %w", path, err)
	}
	return dir, rel, nil
}

// under finds the allowed directory of an absolute path and the way from there; "" = none.
func (l *Local) under(abs string) (root string, rest []string) {
	if l.allow == nil {
		volume := filepath.VolumeName(abs) + string(filepath.Separator)
		return volume, parts(strings.TrimPrefix(abs, volume))
	}
	for i := range l.allow {
		for _, dir := range []string{l.allow[i], l.roots[i]} {
			if rel, err := filepath.Rel(dir, abs); err == nil && filepath.IsLocal(rel) {
				return l.roots[i], parts(rel)
			}
		}
	}
	return "", nil
}

// inside tells whether a path without links may be looked at.
func (l *Local) inside(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	if err != nil || !filepath.IsLocal(rel) {
		return false
	}
	if l.allow != nil {
		return true
	}
	for i, name := range parts(rel) {
		if strings.HasPrefix(name, ".") && name != "." {
			return false
		}
		if i == 0 && runtime.GOOS != "windows" && (name == "proc" || name == "sys" || name == "dev") {
			return false // /proc/self/environ is a regular file
		}
	}
	return true
}

func parts(rel string) []string {
	return slices.DeleteFunc(strings.Split(filepath.ToSlash(rel), "/"), func(s string) bool { return s == "" || s == "." })
}
