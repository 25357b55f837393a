package notebook

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Staging files are hidden, beside their target: ".NAME.colab-mcp-KEY.part".
const (
	stageInfix  = ".colab-mcp-"
	stageSuffix = ".part"
	stageAge    = 72 * time.Hour // an abandoned one is swept after this
)

// diskFull is ERROR_DISK_FULL of Windows, for which package syscall has no name.
const diskFull = syscall.Errno(112)

// ErrStaging: the same file is being written by another call.
var ErrStaging = errors.New("this file is being written by another call")

// Stage is a file that is being written: beside its target until Commit renames it. Exactly one of Commit, Keep and Discard ends it; Discard after
// another is harmless.
type Stage struct {
	*os.File
	Path  string // absolute, of the target
	Stale bool   // what an earlier call left for this target had another key, and is gone

	root      *os.Root
	rel, temp string // target and staging file below root
	overwrite bool
	mode      fs.FileMode // of the file that will be replaced, 0 = none
	done      bool
}

var staging sync.Map // paths of staging files that are open in this process

// Stage begins to write path. With a key, what an earlier call with it left is still there, to be continued at the end of the file; without, the
// staging file is new. Abandoned staging files in the directory are removed. An existing target is ErrExists unless overwrite.
func (l *Local) Stage(path, key string, overwrite bool) (*Stage, error) {
	root, rel, err := l.resolve(path)
	if err != nil {
		return nil, err
	}
	s := &Stage{Path: filepath.Join(root.Name(), rel), root: root, rel: rel, overwrite: overwrite}
	if err := s.open(key); err != nil {
		root.Close()
		return nil, err
	}
	return s, nil
}

func (s *Stage) open(key string) error {
	switch info, err := s.root.Lstat(s.rel); {
	case err == nil:
		if err := regular(info); err != nil {
			return fmt.Errorf("%q: %w", s.Path, err)
		}
		if !s.overwrite {
			return fmt.Errorf("%q: %w", s.Path, ErrExists)
		}
		s.mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return rooted(s.Path, err)
	}
	flags := os.O_RDWR | os.O_CREATE
	if key == "" {
		key, flags = rand.Text(), flags|os.O_EXCL
	}
	dir, name := filepath.Split(s.rel)
	if len(name) > 180 { // names are limited to 255 bytes
		name = name[:180]
	}
	s.temp = dir + "." + strings.ToValidUTF8(name, "") + stageInfix + key + stageSuffix
	if _, taken := staging.LoadOrStore(s.tempPath(), true); taken {
		return fmt.Errorf("%q: %w", s.Path, ErrStaging)
	}
	s.sweep(filepath.Clean("./" + dir))
	if info, err := s.root.Lstat(s.temp); err == nil && !info.Mode().IsRegular() {
		s.root.Remove(s.temp) // not ours, whoever put it there
	}
	var err error
	if s.File, err = s.root.OpenFile(s.temp, flags, 0o666); err != nil {
		staging.Delete(s.tempPath())
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%q: its directory: %w", s.Path, fs.ErrNotExist)
		}
		return rooted(s.Path, err)
	}
	return nil
}

func (s *Stage) tempPath() string { return filepath.Join(s.root.Name(), s.temp) }

// sweep removes staging files of this target under another key, and any that are old.
func (s *Stage) sweep(dir string) {
	d, err := s.root.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	entries, _ := d.ReadDir(-1)
	target, _, _ := strings.Cut(filepath.Base(s.temp), stageInfix)
	for _, e := range entries {
		name := e.Name()
		own, rest, found := strings.Cut(name, stageInfix)
		path := filepath.Join(dir, name)
		if !found || !strings.HasPrefix(own, ".") || !strings.HasSuffix(rest, stageSuffix) || path == filepath.Clean(s.temp) {
			continue
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || own != target && time.Since(info.ModTime()) <= stageAge {
			continue
		}
		claim := filepath.Join(s.root.Name(), path)
		if _, open := staging.LoadOrStore(claim, true); open { // or a call may go on with what is removed here
			continue
		}
		s.Stale = s.root.Remove(path) == nil && own == target || s.Stale
		staging.Delete(claim)
	}
}

// Write appends to the file. A full disk is ErrNoSpace.
func (s *Stage) Write(b []byte) (int, error) {
	n, err := s.File.Write(b)
	return n, s.named(err)
}

// named gives an error of the staging file the target's name.
func (s *Stage) named(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) || runtime.GOOS == "windows" && errors.Is(err, diskFull) {
		err = ErrNoSpace
	}
	return fmt.Errorf("%q: %w", s.Path, err)
}

// Commit makes the file durable under its name. The target is as it was if it fails, and the staging file is gone.
func (s *Stage) Commit() error {
	defer s.Discard()
	if s.mode != 0 {
		if err := s.File.Chmod(s.mode); err != nil {
			return fmt.Errorf("%q: %w", s.Path, err)
		}
	}
	if err := s.File.Sync(); err != nil {
		return s.named(err)
	}
	if err := s.File.Close(); err != nil {
		return s.named(err)
	}
	if err := s.rename(); err != nil {
		return err
	}
	if dir, err := s.root.Open(filepath.Dir(s.rel)); err == nil {
		dir.Sync() // not every file system can
		dir.Close()
	}
	return nil
}

func (s *Stage) rename() error {
	if !s.overwrite {
		// A link never replaces what somebody else put there meanwhile; a rename would.
		err := s.root.Link(s.temp, s.rel)
		if err == nil {
			return nil // Discard takes the other name away
		}
		if _, there := s.root.Lstat(s.rel); there == nil {
			return fmt.Errorf("%q: %w", s.Path, ErrExists)
		}
	}
	if err := s.root.Rename(s.temp, s.rel); err != nil {
		return rooted(s.Path, err)
	}
	return nil
}

// Keep leaves the staging file for a later call with the same key.
func (s *Stage) Keep() {
	if !s.done {
		s.end()
	}
}

// Discard removes the staging file.
func (s *Stage) Discard() {
	if !s.done {
		s.File.Close()
		s.root.Remove(s.temp)
		s.end()
	}
}

func (s *Stage) end() {
	s.done = true
	s.File.Close()
	staging.Delete(s.tempPath())
	s.root.Close()
}
