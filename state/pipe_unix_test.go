//go:build unix

package state

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// I1: a pipe in the place of a file of ours is refused, not waited for.
func TestPipesAreNotWaitedFor(t *testing.T) {
	for _, name := range []string{lockName, "connection.json", logName, logName + lockSuffix} {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		d, dirErr := Open(dir)
		l, logErr := OpenLog(dir)
		switch name {
		case lockName:
			if !errors.Is(dirErr, errNotFile) {
				t.Errorf("%s: Open: %v", name, dirErr)
			}
		case "connection.json":
			var v any
			if err := d.Load(name, 1, &v); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: Load: %v", name, err)
			}
		default:
			if !errors.Is(logErr, errNotFile) {
				t.Errorf("%s: OpenLog: %v", name, logErr)
			}
		}
		l.Close()
		if d != nil {
			d.Close()
		}
	}
}
