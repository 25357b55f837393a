package state

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func create(t *testing.T, path string, overwrite bool) *File {
	t.Helper()
	f, err := Create(path, 0o644, overwrite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Abort)
	if _, err := io.Copy(f, io.MultiReader(strings.NewReader("one "), strings.NewReader("two"))); err != nil {
		t.Fatal(err)
	}
	return f
}

// E5
func TestFileAppearsAtCommit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "n.ipynb")
	f := create(t, path, false)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there before Commit: %v", err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	f.Abort()
	if got := content(t, path); got != "one two" {
		t.Errorf("got %q", got)
	}
	if err := f.Commit(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second Commit: %v", err)
	}
	if _, err := f.Write([]byte("x")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Write after Commit: %v", err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left: %v", got)
	}
}

// E5
func TestAbortLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	create(t, filepath.Join(dir, "n.ipynb"), false).Abort()
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

// E5: also if the name is taken while we write, with hard links and without.
func TestNothingIsOverwrittenUnasked(t *testing.T) {
	dir := t.TempDir()
	for name, finish := range map[string]func(*File) error{
		"links":    (*File).Commit,
		"no links": func(f *File) error { defer f.Abort(); return errors.Join(f.finish(), f.placeUnlinked()) },
	} {
		path := filepath.Join(dir, name)
		if err := finish(create(t, path, false)); err != nil || content(t, path) != "one two" {
			t.Errorf("%s: a free name: %v", name, err)
		}
		os.Remove(path)
		f := create(t, path, false)
		put(t, path, "theirs", 0o644)
		if err := finish(f); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: Commit: %v", name, err)
		}
		if _, err := Create(path, 0o644, false); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: Create: %v", name, err)
		}
		if got := content(t, path); got != "theirs" {
			t.Errorf("%s: now %q", name, got)
		}
	}
	wantNoTemp(t, dir)
}

func TestReplacedFileHandsOnItsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n.ipynb")
	for _, mode := range []fs.FileMode{0o600, 0o664} {
		put(t, path, "before", mode)
		if err := create(t, path, true).Commit(); err != nil {
			t.Fatal(err)
		}
		if got := content(t, path); got != "one two" {
			t.Errorf("got %q", got)
		}
		wantMode(t, path, mode)
	}
}

func TestOnlyFilesAreReplaced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symlinks need a privilege on Windows")
	}
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	put(t, victim, "theirs", 0o644)
	link := filepath.Join(dir, "link")
	os.Symlink(victim, link)
	if _, err := Create(link, 0o644, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a link, unasked: %v", err)
	}
	if err := create(t, link, true).Commit(); err != nil {
		t.Error(err)
	}
	if content(t, victim) != "theirs" || content(t, link) != "one two" {
		t.Error("a link was followed")
	}
	folder := filepath.Join(dir, "folder")
	os.Mkdir(folder, 0o755)
	for _, path := range []string{folder, os.DevNull, dir + "/.."} {
		if _, err := Create(path, 0o644, true); err == nil {
			t.Errorf("%s can be replaced", path)
		}
	}
	wantNoTemp(t, dir)
}

func TestFailedWriteNeverReachesTheTarget(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "n.ipynb")
	put(t, path, "before", 0o644)

	f := create(t, path, true)
	f.f.Close() // as a full disk would, every write fails from here on
	_, failed := f.Write([]byte("x"))
	if failed == nil {
		t.Fatal("no failure")
	}
	if err := f.Commit(); !errors.Is(err, failed) {
		t.Errorf("Commit: %v, want %v", err, failed)
	}

	f = create(t, path, true)
	if err := os.Truncate(filepath.Join(dir, f.tmp), 3); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Commit of a short file: %v", err)
	}

	if got := content(t, path); got != "before" {
		t.Errorf("the target is %q", got)
	}
	wantNoTemp(t, dir)
}

func TestCreateNeedsTheFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "x")
	if _, err := Create(path, 0o644, false); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}
