//go:build unix

package bridge

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// O1: what Open would meet is known beforehand.
func TestProgramSaysWhatOpenWouldStart(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := newTestLauncher(t, "sh -c 'exit 1'", forever).Program(); err != nil || got != sh {
		t.Errorf("a command: %q, %v", got, err)
	}
	if _, err := newTestLauncher(t, "none", forever).Program(); !errors.Is(err, ErrNoBrowser) {
		t.Errorf("none: %v", err)
	}
	var launch *LaunchError
	if _, err := newTestLauncher(t, "/no/such/browser", forever).Program(); !errors.As(err, &launch) {
		t.Errorf("a program that is not there: %v", err)
	}
	if runtime.GOOS == "darwin" {
		return
	}
	for _, v := range []string{"BROWSER", "DISPLAY", "WAYLAND_DISPLAY"} {
		t.Setenv(v, "")
	}
	system := newTestLauncher(t, "", forever)
	if _, err := system.Program(); !errors.Is(err, ErrNoDisplay) {
		t.Errorf("no display: %v", err)
	}
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	t.Setenv("DISPLAY", ":0")
	if _, err := system.Program(); !errors.Is(err, ErrNoOpener) {
		t.Errorf("no opener: %v", err)
	}
	opener := filepath.Join(bin, "xdg-open")
	if err := os.WriteFile(opener, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := system.Program(); err != nil || got != opener {
		t.Errorf("xdg-open: %q, %v", got, err)
	}
}
