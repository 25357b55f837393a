//go:build unix

package notebook_test

import (
	"errors"
	"path/filepath"
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
