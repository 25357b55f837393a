//go:build unix

package notebook_test

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"colab-mcp/notebook"
)

func TestLocalOpensNoPipe(t *testing.T) { // S5: a fifo must not block
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, allow := range [][]string{nil, {dir}} {
		l := local(t, allow...)
		if _, _, err := l.Open(fifo); !errors.Is(err, notebook.ErrNotRegular) {
			t.Errorf("allow %v: %v", allow, err)
		}
		if _, err := l.Stage(fifo, "", true); !errors.Is(err, notebook.ErrNotRegular) {
			t.Errorf("allow %v: writing: %v", allow, err)
		}
	}
	for _, path := range []string{"/dev/zero", "/dev/null", "/proc/self/environ", "/proc/1/environ", "/dev/stdin"} {
		if _, _, err := local(t).Open(path); !errors.Is(err, notebook.ErrNotAllowed) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestStageOnAFullDisk(t *testing.T) { // F1, E5: the old file stays, and nothing else
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := notebook.NewLocal([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	// A limit on the size of files is as good as a full disk.
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
	small := limit
	small.Cur = 4096
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	s, err := l.Stage(path, "", true)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Write(make([]byte, 5000)); !errors.Is(err, notebook.ErrNoSpace) || n != 4096 || !strings.Contains(err.Error(), path) {
		t.Errorf("%d bytes, %v, want ErrNoSpace", n, err)
	}
	s.Discard()
	if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
		t.Errorf("%q, %v", b, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}
