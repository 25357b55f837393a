//go:build unix

package bridge

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// ownSession keeps a terminal's Ctrl-C, and a client that kills our process group, from the browser.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// openSystem starts the programs that github.com/pkg/browser would, by run: that package leaves them
// in our process group and waits for them without end. It is used where it does neither, on Windows.
func (l *Launcher) openSystem(ctx context.Context, link string) error {
	argv, err := systemCommand(link)
	if err != nil {
		return err
	}
	return l.run(ctx, argv)
}

func systemProgram() (string, error) {
	argv, err := systemCommand("")
	if err != nil {
		return "", err
	}
	return exec.LookPath(argv[0])
}

func systemCommand(link string) ([]string, error) {
	if runtime.GOOS == "darwin" {
		return []string{"open", link}, nil
	}
	browser := os.Getenv("BROWSER")
	if browser == "" && os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return nil, ErrNoDisplay // xdg-open would try text browsers
	}
	if argv := browserVariable(browser, link); argv != nil {
		return argv, nil
	}
	for _, opener := range []string{"xdg-open", "x-www-browser", "www-browser"} {
		if _, err := exec.LookPath(opener); err == nil {
			return []string{opener, link}, nil
		}
	}
	return nil, ErrNoOpener
}

// browserVariable is the first command in BROWSER that exists. Remote editors set it to a helper in
// containers without xdg-open, which would read it too. Its form is that of xdg-open(1): commands
// separated by colons, %s for the link.
func browserVariable(value, link string) []string {
	for command := range strings.SplitSeq(value, ":") {
		argv := strings.Fields(command)
		if len(argv) == 0 {
			continue
		}
		if _, err := exec.LookPath(argv[0]); err != nil {
			continue
		}
		placed := false
		for i := 1; i < len(argv); i++ {
			if strings.Contains(argv[i], "%s") {
				argv[i] = strings.ReplaceAll(argv[i], "%s", link)
				placed = true
			}
		}
		if !placed {
			argv = append(argv, link)
		}
		return argv
	}
	return nil
}

// child is a process that is ours to reap.
type child struct{ pid int }

func adopt(p *os.Process) (*child, error) {
	c := &child{p.Pid}
	return c, p.Release() // the pid cannot be used again before poll has reaped it
}

func (c *child) release() {}

// poll reaps the child if it has ended; err says how it failed.
func (c *child) poll() (ended bool, err error) {
	var ws syscall.WaitStatus
	pid, err := syscall.Wait4(c.pid, &ws, syscall.WNOHANG, nil)
	switch {
	case err == syscall.EINTR || err == nil && pid == 0:
		return false, nil
	case err != nil: // reaped for us, because our parent has us ignore SIGCHLD
		return true, nil
	case ws.Signaled():
		return true, fmt.Errorf("ended by signal %d (%v)", ws.Signal(), ws.Signal())
	case ws.ExitStatus() != 0:
		return true, fmt.Errorf("exit status %d", ws.ExitStatus())
	}
	return true, nil
}
