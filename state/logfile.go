package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gofrs/flock"
)

const (
	logName  = "colab-mcp.log"
	logFiles = 5       // the one written to, and .1 (newest) to .4
	logSize  = 5 << 20 // bytes of a file
	logsKept = 4       // logs of dead processes that were not the first in the folder
)

// Log is a rotating log file, or discards all if it could not be opened. Safe for concurrent use; each Write is one
// line and stays in one file.
type Log struct {
	dir  string
	name string
	size int64 // of a file, at most

	mu      sync.Mutex // guards the following
	root    *os.Root
	lock    *flock.Flock
	f       *os.File // nil when discarding
	written int64
	rotate  int64 // rotate when written would pass this
}

// OpenLog opens colab-mcp.log in dir, which is made if need be. While another process writes that, it is
// colab-mcp-PID.log. The Log is never nil: after an error it discards, and the caller says so where it can.
func OpenLog(dir string) (*Log, error) {
	l := &Log{dir: dir, size: logSize}
	if err := l.open(); err != nil {
		l.Close()
		return l, fmt.Errorf("open log in %s (nothing is logged): %w", dir, err)
	}
	return l, nil
}

// Path is the file written to, "" when discarding.
func (l *Log) Path() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return ""
	}
	return filepath.Join(l.dir, l.name)
}

func (l *Log) open() (err error) {
	// A folder shared with others, such as /var/log, stays as it is.
	if err := makePrivate(l.dir, logName); err != nil && !errors.Is(err, ErrForeign) {
		return err
	}
	if l.root, err = os.OpenRoot(l.dir); err != nil {
		return err
	}
	names := []string{logName, fmt.Sprintf("colab-mcp-%d.log", os.Getpid())}
	for i := 2; i < 10; i++ { // two containers on one volume may have one process id
		names = append(names, fmt.Sprintf("colab-mcp-%d-%d.log", os.Getpid(), i))
	}
	for _, l.name = range names {
		var ok bool
		if l.lock, ok, err = claim(filepath.Join(l.dir, l.name+lockSuffix)); err != nil {
			return err
		}
		if ok {
			break
		}
	}
	if l.lock == nil {
		return errors.New("every name is in use")
	}
	l.sweep()
	return l.openFile()
}

func (l *Log) openFile() error {
	// Opening a pipe would wait for its other end.
	if fi, err := l.root.Lstat(l.name); err == nil && !fi.Mode().IsRegular() {
		return &fs.PathError{Op: "open", Path: l.name, Err: errNotFile}
	}
	f, err := l.root.OpenFile(l.name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	if err == nil && fi.Mode().Perm()&0o077 != 0 {
		err = f.Chmod(0o600)
	}
	if err != nil {
		f.Close()
		return err
	}
	l.f, l.written, l.rotate = f, fi.Size(), l.size
	return nil
}

// Write logs one line.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return len(p), nil
	}
	if l.written > 0 && l.written+int64(len(p)) > l.rotate {
		l.turn()
	}
	if l.f == nil {
		return 0, os.ErrClosed
	}
	n, err := l.f.Write(p)
	l.written += int64(n)
	if err != nil {
		return n, fmt.Errorf("log: %w", err)
	}
	return n, nil
}

// turn starts a new file. If the old one cannot be renamed (Windows, while somebody reads it) it grows on, and the
// next try is a file's size later.
func (l *Log) turn() {
	l.f.Close()
	l.f = nil
	for i := logFiles - 2; i > 0; i-- {
		l.root.Rename(generation(l.name, i), generation(l.name, i+1))
	}
	renamed := l.root.Rename(l.name, generation(l.name, 1))
	if err := l.openFile(); err == nil && renamed != nil {
		l.rotate = l.written + l.size
	}
}

// Close gives the file back to other processes. Later writes are discarded.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.f != nil {
		err = l.f.Close()
		l.f = nil
	}
	if l.lock != nil {
		err = errors.Join(err, drop(l.lock))
		l.lock = nil
	}
	if l.root != nil {
		err = errors.Join(err, l.root.Close())
	}
	return err
}

var otherLog = regexp.MustCompile(`^colab-mcp-[0-9-]+\.log$`)

// sweep removes the logs of dead processes but for the newest few.
func (l *Log) sweep() {
	all, err := disk{l.root}.list()
	if err != nil {
		return
	}
	all = slices.DeleteFunc(all, func(f stored) bool { return !otherLog.MatchString(f.name) || f.name == l.name })
	slices.SortFunc(all, func(x, y stored) int { return y.at.Compare(x.at) })
	dead := 0
	for _, f := range all {
		lock, ok, err := claim(filepath.Join(l.dir, f.name+lockSuffix))
		if !ok || err != nil {
			continue
		}
		if dead++; dead > logsKept {
			for i := range logFiles {
				l.root.Remove(generation(f.name, i))
			}
		}
		drop(lock)
	}
}

// generation names the file that was rotated i times.
func generation(name string, i int) string {
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s.%d", name, i)
}

// logFamily tells the file a name is a generation of, if it is one of ours.
func logFamily(name string) (family string, ok bool) {
	family = strings.TrimRight(name, "0123456789")
	family = strings.TrimSuffix(family, ".")
	return family, family == logName || otherLog.MatchString(family)
}
