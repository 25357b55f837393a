package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"time"
)

var (
	// ErrNoBrowser is the answer of a Launcher that was told to start none.
	ErrNoBrowser = errors.New(`the browser is set to "none"`)
	// ErrNoDisplay means that there is no screen a browser could appear on.
	ErrNoDisplay = errors.New("there is no display: DISPLAY, WAYLAND_DISPLAY and BROWSER are not set")
	// ErrNoOpener means that the system has no program that opens links.
	ErrNoOpener = errors.New("no program that opens links was found: install xdg-utils or name a browser with --browser")
)

// LaunchError is a browser command that did not start, or failed at once. Its text never contains
// the link.
type LaunchError struct {
	Program string
	Err     error
}

func (e *LaunchError) Error() string { return fmt.Sprintf("browser command %q: %v", e.Program, e.Err) }
func (e *LaunchError) Unwrap() error { return e.Err }

// launchGrace is how long a command may take to fail. One that lives longer is a browser that stays
// in the foreground.
const launchGrace = 1500 * time.Millisecond

// Launcher opens links in the user's browser. The commands it starts get no stdio, a session of
// their own, and soon another parent, so that whatever ends us does not end the user's browser. Each
// has a goroutine until then; Close ends these. Safe for concurrent use.
type Launcher struct {
	argv  []string // nil: the system's opener
	none  bool
	grace time.Duration

	stop    chan struct{}
	reapers sync.WaitGroup

	mu     sync.Mutex // guards closed, and reapers growing before it
	closed bool
}

// NewLauncher takes the value of --browser: "" for the system's opener, "none" for no browser, or a
// command. That is split as a shell would split it, but no shell ever sees it: the link is added as
// its last argument. Whether the program exists is found out by Open.
func NewLauncher(command string) (*Launcher, error) {
	l := &Launcher{grace: launchGrace, stop: make(chan struct{})}
	switch command {
	case "":
	case "none":
		l.none = true
	default:
		argv, err := browserCommand(command)
		if err != nil {
			return nil, fmt.Errorf("browser command: %w", err)
		}
		l.argv = argv
	}
	return l, nil
}

// Open starts the browser with link. It returns when the command has ended, or has lived for a
// moment: nil then says that it was started, not that a page was shown. When ctx ends Open returns
// its error and leaves the command alone. Other errors are ErrNoBrowser, ErrNoDisplay, ErrNoOpener,
// os.ErrClosed after Close, or a *LaunchError.
func (l *Launcher) Open(ctx context.Context, link string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case l.none:
		return ErrNoBrowser
	case l.argv == nil:
		return l.openSystem(ctx, link)
	}
	return l.run(ctx, append(l.argv[:len(l.argv):len(l.argv)], link))
}

// Program is the program that Open would start, and starts nothing. The errors are Open's.
func (l *Launcher) Program() (string, error) {
	switch {
	case l.none:
		return "", ErrNoBrowser
	case l.argv == nil:
		return systemProgram()
	}
	path, err := exec.LookPath(l.argv[0])
	if err != nil {
		return "", &LaunchError{l.argv[0], plainCause(err)}
	}
	return path, nil
}

// Close stops looking after the commands and waits for the goroutines that did. The commands live
// on.
func (l *Launcher) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.stop)
	}
	l.mu.Unlock()
	l.reapers.Wait()
}

func (l *Launcher) run(ctx context.Context, argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return &LaunchError{argv[0], plainCause(err)}
	}
	ended, left := make(chan error, 1), make(chan struct{})
	defer close(left)
	if err := l.start(path, argv[1:], ended, left); err != nil {
		return &LaunchError{argv[0], plainCause(err)}
	}
	grace := time.NewTimer(l.grace)
	defer grace.Stop()
	select {
	case err := <-ended:
		if err != nil {
			return &LaunchError{argv[0], err}
		}
		return nil
	case <-grace.C:
		return nil
	case <-l.stop:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start starts a program and its reaper, which tells ended how it ended, unless left is closed first.
func (l *Launcher) start(path string, args []string, ended chan<- error, left <-chan struct{}) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return os.ErrClosed
	}
	c, theirs, err := newChild()
	if err != nil {
		return err
	}
	argv := nursed(path, args)
	cmd := exec.Command(argv[0], argv[1:]...) // not CommandContext: ctx must not end the browser
	cmd.SysProcAttr, cmd.ExtraFiles = ownSession(), theirs
	err = cmd.Start()
	for _, f := range theirs {
		f.Close()
	}
	if err == nil {
		err = c.adopt(cmd.Process)
	}
	if err != nil {
		c.release()
		return err
	}
	l.reapers.Go(func() { c.reap(l.stop, ended, left) })
	return nil
}

// reap waits for the child by asking, at growing intervals: os.Process.Wait cannot be told to give
// up, and would outlive Close for as long as the user keeps the browser open. When nobody wants to
// know any more, it lets the child go.
func (c *child) reap(stop <-chan struct{}, ended chan<- error, left <-chan struct{}) {
	defer c.release()
	const first, last = 10 * time.Millisecond, time.Second
	pause, alone, stopped := first, false, false
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			alone, stopped = true, true
		case <-left:
			pause, alone, left = first, true, nil
		case <-timer.C:
		}
		if done, err := c.poll(); done {
			ended <- err
			return
		}
		if alone && c.letGo() || stopped {
			return
		}
		pause = min(2*pause, last)
		timer.Reset(pause)
	}
}

// plainCause is the cause without the program's name, which LaunchError gives.
func plainCause(err error) error {
	var notFound *exec.Error
	if errors.As(err, &notFound) {
		return notFound.Err
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
