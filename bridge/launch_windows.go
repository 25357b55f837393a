package bridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/pkg/browser"
	"golang.org/x/sys/windows"
)

// ownSession keeps Ctrl-C from the browser, and a console window from a command that has one.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW}
}

// openSystem asks the shell (ShellExecute), which starts nothing of ours. "cmd /c start" would cut
// the link at its first &.
func (l *Launcher) openSystem(_ context.Context, link string) error {
	if err := browser.OpenURL(link); err != nil {
		var code syscall.Errno
		if !errors.As(err, &code) { // a text we do not know may quote the link
			return ErrNoOpener
		}
		return &LaunchError{"ShellExecute", code}
	}
	return nil
}

func systemProgram() (string, error) { return "ShellExecute", nil }

// child is a handle of our own on a process, which can be asked without waiting.
type child struct{ handle windows.Handle }

func newChild() (*child, []*os.File, error) { return &child{}, nil, nil }

// nursed is the program itself: the end of a parent is nobody's end here.
func nursed(path string, args []string) []string { return append([]string{path}, args...) }

func (c *child) adopt(p *os.Process) error {
	h, err := windows.OpenProcess(windows.SYNCHRONIZE|windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(p.Pid))
	c.handle = h
	return errors.Join(err, p.Release())
}

func (c *child) release() {
	if c.handle != 0 {
		_ = windows.CloseHandle(c.handle)
	}
}

// letGo has nothing to do.
func (c *child) letGo() bool { return true }

// poll reports whether the child has ended; err says how it failed.
func (c *child) poll() (ended bool, err error) {
	if e, err := windows.WaitForSingleObject(c.handle, 0); err != nil || e == uint32(windows.WAIT_TIMEOUT) {
		return err != nil, nil
	}
	var code uint32
	if err := windows.GetExitCodeProcess(c.handle, &code); err != nil || code == 0 {
		return true, nil
	}
	return true, fmt.Errorf("exit status %d", code)
}
