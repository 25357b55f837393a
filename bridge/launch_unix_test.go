//go:build unix

package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// secretLink is one whose parts must be in no error.
const secretLink = "https://colab.research.google.com/drive/x?a=1&b='$(id)'#mcpProxyToken=TOKEN&mcpProxyPort=40000"

// forever is a grace that no test waits for.
const forever = time.Hour

// newTestLauncher has a grace that fits the command: forever for one that ends, almost nothing for
// one that stays.
func newTestLauncher(t *testing.T, command string, grace time.Duration) *Launcher {
	t.Helper()
	l, err := NewLauncher(command)
	if err != nil {
		t.Fatal(err)
	}
	l.grace = grace
	t.Cleanup(l.Close)
	return l
}

// argsScript is a command that writes its arguments to the file out, one a line.
func argsScript(out string) string {
	return `sh -c 'printf "%s\n" "$@" >"$0"' '` + out + `' `
}

func readLines(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// O4
func TestLinkIsTheLastArgumentAndNoShellSeesIt(t *testing.T) {
	out := filepath.Join(t.TempDir(), "args")
	l := newTestLauncher(t, argsScript(out)+`--profile-directory="Profile 3" '$(id)' ''`, forever)
	for range 2 { // a second link must not come on top of the first
		if err := l.Open(t.Context(), secretLink); err != nil {
			t.Fatal(err)
		}
		want := []string{"--profile-directory=Profile 3", "$(id)", "", secretLink}
		if got := readLines(t, out); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("the command got %q, want %q", got, want)
		}
	}
}

// The splitter agrees with the shell of this machine.
func TestSplitAgreesWithSh(t *testing.T) {
	for _, command := range []string{
		`a 'b "c" \d' e`, `a "b 'c'" d`, `a "\"\\\$" "\x"`, `a '' ""`, `a'b'"c"d`, "a b\\\nc", "a \"b\\\nc\"",
		`/opt/My\ Chrome/chrome \'x\' \"y\" \\`, "  a\t b \n", `"a  b"'  'c`, "\"\\`\" \\`", `a\bc "a\bc" 'a\bc'`,
	} {
		out, err := exec.Command("sh", "-c", `printf '%s\0' `+strings.TrimSpace(command)).Output()
		if err != nil {
			t.Fatal(err)
		}
		got, err := splitCommand(command, true)
		if err != nil || strings.Join(got, "\x00")+"\x00" != string(out) {
			t.Errorf("%s splits into %q, %v; sh says %q", command, got, err, out)
		}
	}
}

// O1, S4
func TestFailedBrowserIsAnErrorWithoutTheLink(t *testing.T) {
	notExecutable := filepath.Join(t.TempDir(), "browser")
	if err := os.WriteFile(notExecutable, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command, want string
		is            error
	}{
		{"false", `browser command "false": exit status 1`, nil},
		{"sh -c 'echo $0 $@; echo $0 $@ >&2; exit 7'", "exit status 7", nil},
		{"sh -c 'kill -9 $$'", "signal 9", nil},
		{"no-such-browser --x", `browser command "no-such-browser": executable file not found`, exec.ErrNotFound},
		{"/no/such/browser", "no such file", fs.ErrNotExist},
		{notExecutable, "permission denied", fs.ErrPermission},
	} {
		err := newTestLauncher(t, c.command, forever).Open(t.Context(), secretLink)
		var le *LaunchError
		if !errors.As(err, &le) || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want a *LaunchError with %q", c.command, err, c.want)
			continue
		}
		if strings.Contains(err.Error(), "TOKEN") || strings.Contains(err.Error(), "colab.research") {
			t.Errorf("%s: the error shows the link: %v", c.command, err)
		}
	}
}

// foreground is a browser command that prints, tells the test about itself and stays.
type foreground struct {
	command string
	fifo    string
}

func newForeground(t *testing.T) foreground {
	t.Helper()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	return foreground{fifo: fifo, command: `sh -c 'echo noise; echo noise >&2
		echo $$ $(readlink /proc/$$/fd/0) $(readlink /proc/$$/fd/1) $(readlink /proc/$$/fd/2) >"$0"; exec sleep 600' '` + fifo + `'`}
}

// wait is the pid of the started command, and where its stdio leads, if the system tells.
func (f foreground) wait(t *testing.T) (pid int, stdio []string) {
	t.Helper()
	b, err := os.ReadFile(f.fifo) // returns when the command has written and closed its end
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(b))
	if len(words) == 0 {
		t.Fatal("the command told nothing")
	}
	if pid, err = strconv.Atoi(words[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid, words[1:]
}

// stat is a process's state letter and its parent, "" if there is none: of Linux's /proc, of ps elsewhere.
func stat(t *testing.T, pid int) (state string, parent int) {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // proc(5): pid (name) state ppid …
	if raw = raw[bytes.LastIndexByte(raw, ')')+1:]; runtime.GOOS != "linux" {
		raw, err = exec.Command("ps", "-o", "stat=,ppid=", "-p", strconv.Itoa(pid)).Output()
	}
	if err != nil {
		return "", 0
	}
	if _, err := fmt.Sscan(string(raw), &state, &parent); err != nil {
		t.Fatalf("stat of %d: %q, %v", pid, raw, err)
	}
	return state, parent
}

// isDescendant reports whether pid, which must live, is a child of ours, or a child's child.
func isDescendant(t *testing.T, pid int) bool {
	t.Helper()
	for pid > 1 {
		if pid == os.Getpid() {
			return true
		}
		state, parent := stat(t, pid)
		if state == "" {
			t.Fatalf("process %d is gone", pid)
		}
		pid = parent
	}
	return false
}

// kill ends the command, which must live.
func (f foreground) kill(t *testing.T, pid int) {
	t.Helper()
	if state, _ := stat(t, pid); state == "" || strings.HasPrefix(state, "Z") {
		t.Errorf("the browser is gone: %q", state)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the browser is gone: %v", err)
	}
}

// O3; opencode ends every descendant of a server, with the server.
func TestForegroundBrowserDoesNotBlockUs(t *testing.T) {
	f := newForeground(t)
	l := newTestLauncher(t, f.command, time.Millisecond)
	if err := l.Open(t.Context(), secretLink); err != nil {
		t.Fatal(err)
	}
	pid, stdio := f.wait(t)
	ours, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	if sid, err := unix.Getsid(pid); err != nil || sid == ours {
		t.Errorf("the command is in session %d, %v; want another than ours, %d", sid, err, ours)
	}
	if runtime.GOOS == "linux" && fmt.Sprint(stdio) != "[/dev/null /dev/null /dev/null]" {
		t.Errorf("the command's stdio is %v", stdio)
	}
	l.reapers.Wait() // it is somebody else's now
	if isDescendant(t, pid) {
		t.Error("the command is a descendant of ours")
	}
	var ws syscall.WaitStatus
	if got, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("a child of ours is left: wait4 says %d, %v", got, err)
	}
	f.kill(t, pid)
}

// O3; that no goroutine stays is goleak's to see
func TestCloseLeavesTheBrowserOpen(t *testing.T) {
	f := newForeground(t)
	l := newTestLauncher(t, f.command, time.Millisecond)
	if err := l.Open(t.Context(), secretLink); err != nil {
		t.Fatal(err)
	}
	pid, _ := f.wait(t)
	l.Close()
	l.Close()
	if err := l.Open(t.Context(), secretLink); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Open after Close: %v, want os.ErrClosed", err)
	}
	f.kill(t, pid)
}

func TestCallerWhoLeavesDoesNotEndTheBrowser(t *testing.T) {
	f := newForeground(t)
	l := newTestLauncher(t, f.command, forever)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- l.Open(ctx, secretLink) }()
	pid, _ := f.wait(t)
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v, want context.Canceled", err)
	}
	l.reapers.Wait()
	f.kill(t, pid)
	if err := l.Open(ctx, secretLink); !errors.Is(err, context.Canceled) {
		t.Errorf("Open for a caller who has left: %v", err)
	}
}

func TestCloseEndsTheWaitForABrowserThatStays(t *testing.T) {
	f := newForeground(t)
	l := newTestLauncher(t, f.command, forever)
	answer := make(chan error, 1)
	go func() { answer <- l.Open(t.Context(), secretLink) }()
	pid, _ := f.wait(t)
	l.Close()
	if err := <-answer; err != nil {
		t.Errorf("Open: %v; the browser had been started", err)
	}
	f.kill(t, pid)
}

// systemEnv is a machine with just these programs, which write their name and arguments to the
// returned file, and these variables.
func systemEnv(t *testing.T, env map[string]string, programs ...string) (out string) {
	t.Helper()
	if runtime.GOOS == "darwin" {
		t.Skip("macOS has one opener and always a display")
	}
	dir := t.TempDir()
	out = filepath.Join(dir, "out")
	for _, p := range programs {
		script := "#!/bin/sh\nprintf '%s\\n' " + p + " \"$@\" >'" + out + "'\n"
		if err := os.WriteFile(filepath.Join(dir, p), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	for _, name := range []string{"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"} {
		t.Setenv(name, env[name])
	}
	return out
}

// O1
func TestSystemWithoutDisplaySaysSoAndStartsNothing(t *testing.T) {
	out := systemEnv(t, nil, "xdg-open")
	err := newTestLauncher(t, "", forever).Open(t.Context(), secretLink)
	if !errors.Is(err, ErrNoDisplay) {
		t.Errorf("Open: %v, want ErrNoDisplay", err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("xdg-open was started")
	}
}

// O1
func TestSystemWithoutOpenerSaysSo(t *testing.T) {
	systemEnv(t, map[string]string{"DISPLAY": ":0"})
	if err := newTestLauncher(t, "", forever).Open(t.Context(), secretLink); !errors.Is(err, ErrNoOpener) {
		t.Errorf("Open: %v, want ErrNoOpener", err)
	}
}

func TestSystemOpenerIsChosen(t *testing.T) {
	for _, c := range []struct {
		name     string
		env      map[string]string
		programs []string
		want     string
	}{
		{"xdg-open first", map[string]string{"DISPLAY": ":0"}, []string{"x-www-browser", "xdg-open"}, "xdg-open\n" + secretLink},
		{"wayland", map[string]string{"WAYLAND_DISPLAY": "wayland-0"}, []string{"www-browser"}, "www-browser\n" + secretLink},
		{"BROWSER without display", map[string]string{"BROWSER": "helper"}, []string{"helper"}, "helper\n" + secretLink},
		{"BROWSER before xdg-open", map[string]string{"BROWSER": "gone:helper --new %s:other", "DISPLAY": ":0"}, []string{"xdg-open", "helper", "other"}, "helper\n--new\n" + secretLink},
		{"BROWSER names nothing here", map[string]string{"BROWSER": "gone: :", "DISPLAY": ":0"}, []string{"xdg-open"}, "xdg-open\n" + secretLink},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := systemEnv(t, c.env, c.programs...)
			if err := newTestLauncher(t, "", forever).Open(t.Context(), secretLink); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(readLines(t, out), "\n"); got != c.want {
				t.Errorf("started %q, want %q", got, c.want)
			}
		})
	}
}
