package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// ErrForeign reports a folder that is open to other users and holds files that are not ours, such as /tmp or a home.
// Making it private could break what else uses it.
var ErrForeign = errors.New("the folder is open to others and holds other files: name an empty one, or make it private (chmod 700)")

const (
	lockName     = "dir.lock"
	ownerName    = "owner.json"
	ownerVersion = 1
)

// Dir is an open state folder, or its stand-in in memory. Its methods are safe for concurrent use; after Close those
// that touch the disk fail with [fs.ErrClosed].
type Dir struct {
	path    string
	primary bool
	lock    *flock.Flock // nil in memory
	main    store        // the folder all processes share
	store   store        // where this process writes: main, or a secondary's own area

	sweeping sync.Mutex // one sweep at a time: another would find a dead area's lock taken

	mu    sync.Mutex // guards blobs
	blobs map[string]store
}

type owner struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

// Open opens the state folder at path and creates it if need be. It does not wait for another process that has it
// open: the result is then secondary. Open a Dir before a log below it, or a loosened folder is taken for a foreign one.
//
// After an error (no permission, no locks on this file system, [ErrForeign]) a caller can go on with [Memory].
func Open(path string) (_ *Dir, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open state folder %s: %w", path, err)
		}
	}()
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if err := makePrivate(path, lockName); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	main := disk{root}
	d := &Dir{path: path, main: main, store: main, blobs: map[string]store{}}
	if d.lock, d.primary, err = claim(filepath.Join(path, lockName)); err != nil {
		root.Close()
		return nil, err
	}
	if d.primary {
		err = d.startPrimary()
	} else {
		err = d.startSecondary()
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Memory returns a Dir that reads and writes nothing outside the process. It is primary.
func Memory() *Dir {
	m := &memory{files: map[string]memoryFile{}}
	return &Dir{primary: true, main: m, store: m, blobs: map[string]store{}}
}

// Path is the folder given to Open, absolute; "" in memory.
func (d *Dir) Path() string { return d.path }

// Primary tells whether this process holds the folder's lock. It does not change while the Dir is open.
func (d *Dir) Primary() bool { return d.primary }

// Holder tells which process is primary in the folder and since when. ok is false if that is not known: the primary
// has just ended, or nothing is on disk. A primary that was killed is named until another takes its place.
func (d *Dir) Holder() (pid int, since time.Time, ok bool) {
	data, err := d.main.read(ownerName)
	if err != nil {
		return 0, time.Time{}, false
	}
	var o owner
	if _, err := decode(data, ownerVersion, &o); err != nil {
		return 0, time.Time{}, false
	}
	return o.PID, o.Since, true
}

// Close gives the folder back. A secondary's own area is removed.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.blobs {
		s.close()
	}
	if d.lock == nil {
		return d.main.close()
	}
	if !d.primary {
		d.store.close()
		err := os.RemoveAll(strings.TrimSuffix(d.lock.Path(), lockSuffix))
		return errors.Join(err, drop(d.lock), d.main.close())
	}
	err := d.main.remove(ownerName)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrClosed) {
		err = nil
	}
	// The lock file stays: it marks the folder as ours.
	return errors.Join(err, d.main.close(), d.lock.Unlock())
}

// startPrimary clears what dead processes left. Nobody else writes here while we hold the lock.
func (d *Dir) startPrimary() error {
	if err := d.main.(disk).sweep(); err != nil {
		return err
	}
	data, err := encode(ownerVersion, owner{os.Getpid(), time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	if err := d.main.write(ownerName, data, true); err != nil {
		return err
	}
	sweepAreas(filepath.Join(d.path, areasName))
	return nil
}

// makePrivate makes the folder at path, or makes the one there private (0700) if it is empty or has the marker in it.
func makePrivate(path, marker string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	if runtime.GOOS == "windows" || fi.Mode().Perm()&0o077 == 0 {
		return nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(path, marker)); len(entries) > 0 && err != nil {
		return ErrForeign
	}
	return os.Chmod(path, 0o700)
}

var goodName = regexp.MustCompile(`^[a-z0-9_][a-z0-9._-]{0,99}$`)

// checkName allows names that are one plain file on every system: Windows and macOS fold case, Windows drops a dot at
// the end and keeps some names for devices.
func checkName(name string) error {
	if !goodName.MatchString(name) || strings.HasSuffix(name, ".") || !filepath.IsLocal(name) {
		return fmt.Errorf("%w: %q is not 1 to 100 of a-z 0-9 . _ -", ErrName, name)
	}
	return nil
}

// ErrName reports a name or key that cannot be a file's.
var ErrName = errors.New("bad name")
