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

// ownSession keeps a terminal's Ctrl-C, and a client that kills our process group, from the browser.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// nurse is a shell that starts a program, says so and waits for it. When the nurse is killed, the
// program lives on, as no descendant of ours: opencode ends these together with us.
const nurse = `(echo >&3; exec "$0" "$@" 3>&-); exit $?`

func nursed(path string, args []string) []string {
	return append([]string{"/bin/sh", "-c", nurse, path}, args...)
}

// child is a nurse that is ours to reap.
type child struct {
	pid   int
	begun *os.File // has a byte when the program has a process of its own
}

// newChild is a child that has not started, and the files it will be given.
func newChild() (*child, []*os.File, error) {
	begun, theirs, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return &child{begun: begun}, []*os.File{theirs}, nil
}

func (c *child) adopt(p *os.Process) error {
	c.pid = p.Pid
	return p.Release() // the pid cannot be used again before poll has reaped it
}

func (c *child) release() { c.begun.Close() }

// letGo ends the nurse, if the program has been started, and reports whether it did.
func (c *child) letGo() bool {
	begun := 0
	raw, err := c.begun.SyscallConn()
	if err == nil { // without a deadline, which may be over before the read: Close asks once
		err = raw.Read(func(fd uintptr) bool { begun, _ = syscall.Read(int(fd), make([]byte, 1)); return true })
	}
	if err != nil || begun <= 0 {
		return false
	}
	if c.pid <= 1 {
		return true // to kill(2) that is no child, but everybody
	}
	if err := syscall.Kill(c.pid, syscall.SIGKILL); err != nil {
		return false
	}
	for { // it is on its way
		if _, err := syscall.Wait4(c.pid, nil, 0, nil); err != syscall.EINTR {
			return true
		}
	}
}

// poll reaps the child if it has ended; err says how it failed.
func (c *child) poll() (ended bool, err error) {
	var ws syscall.WaitStatus
	pid, err := syscall.Wait4(c.pid, &ws, syscall.WNOHANG, nil)
	switch {
	case err == syscall.EINTR || err == nil && pid == 0:
		return false, nil
	case err != nil: // reaped for us, because our parent has us ignore SIGCHLD
		return true, nil
	case ws.ExitStatus() > 128 && ws.ExitStatus() < 160: // as shells say it
		signal := syscall.Signal(ws.ExitStatus() - 128)
		return true, fmt.Errorf("ended by signal %d (%v)", signal, signal)
	case ws.ExitStatus() != 0:
		return true, fmt.Errorf("exit status %d", ws.ExitStatus())
	}
	return true, nil
}
