package state

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

const (
	areasName  = "secondary"
	lockSuffix = ".lock"
)

// claim takes the lock at path without waiting; ok is false if another holds it. The file may be removed by whoever
// holds the lock, so after locking it must still be the one at path.
func claim(path string) (_ *flock.Flock, ok bool, err error) {
	for {
		// Opening a pipe would wait for its other end.
		if fi, err := os.Lstat(path); err == nil && !fi.Mode().IsRegular() {
			return nil, false, &fs.PathError{Op: "lock", Path: path, Err: errNotFile}
		}
		l := flock.New(path, flock.SetPermissions(0o600))
		if ok, err := l.TryLock(); !ok || err != nil {
			return nil, false, err
		}
		held, err := l.Stat()
		if err == nil {
			var there fs.FileInfo
			if there, err = os.Stat(path); err == nil && os.SameFile(held, there) {
				return l, true, nil
			}
		}
		l.Unlock()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, false, err
		}
	}
}

// drop removes the lock's file and releases it.
func drop(l *flock.Flock) error {
	removed := os.Remove(l.Path())
	err := l.Unlock()
	if removed != nil { // Windows keeps an open file
		os.Remove(l.Path())
	}
	return err
}

// startSecondary makes this process an area: secondary/PID-RANDOM, with the lock secondary/PID-RANDOM.lock beside it.
// The lock comes first, so no area is ever there without a living owner.
func (d *Dir) startSecondary() error {
	areas, err := d.main.sub(areasName)
	if err != nil {
		return err
	}
	defer areas.close()
	name := strconv.Itoa(os.Getpid()) + "-" + strings.ToLower(rand.Text()[:8])
	lock, ok, err := claim(filepath.Join(d.path, areasName, name+lockSuffix))
	if err != nil {
		return err
	}
	if !ok { // a primary looked at it just now
		return d.startSecondary()
	}
	area, err := areas.sub(name)
	if err != nil {
		drop(lock)
		return err
	}
	d.lock, d.store = lock, area
	return nil
}

// Secondaries lists the process ids of those that have the folder open beside the primary, in order. Only the primary
// can tell; for others, and in memory, there are none.
func (d *Dir) Secondaries() []int {
	if !d.primary || d.lock == nil {
		return nil
	}
	d.sweeping.Lock()
	defer d.sweeping.Unlock()
	return sweepAreas(filepath.Join(d.path, areasName))
}

// sweepAreas removes the areas whose owners are dead and lists the others, of which it asks nothing but the lock. What
// cannot be removed is left for the next start.
func sweepAreas(dir string) (living []int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), lockSuffix)
		area := filepath.Join(dir, name)
		l, ok, err := claim(area + lockSuffix)
		if ok && err == nil {
			os.RemoveAll(area)
			drop(l)
			continue
		}
		pid, _, _ := strings.Cut(name, "-")
		if n, err := strconv.Atoi(pid); err == nil && !slices.Contains(living, n) {
			living = append(living, n)
		}
	}
	slices.Sort(living)
	return living
}
