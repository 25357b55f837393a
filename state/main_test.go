package state

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is also the other process: STATE_CHILD names what it does and STATE_DIR where.
func TestMain(m *testing.M) {
	dir := os.Getenv("STATE_DIR")
	switch os.Getenv("STATE_CHILD") {
	case "":
		goleak.VerifyTestMain(m)
	case "crash":
		crashAtStep(os.Getenv("STATE_STEP"))
		childMust(writeEverything(dir))
	case "count":
		saveForever(dir)
	case "hold":
		d, err := Open(dir)
		childMust(err)
		fmt.Println(d.Primary())
		io.Copy(io.Discard, os.Stdin)
		childMust(d.Close())
	case "log":
		l, err := OpenLog(dir)
		childMust(err)
		fmt.Println(l.Path())
		io.Copy(io.Discard, os.Stdin)
		fmt.Fprintln(l, "time=2026-01-02T00:00:02 from the child")
	}
}

func childMust(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// die is kill -9 from inside.
func die() {
	self, _ := os.FindProcess(os.Getpid())
	self.Kill()
	for {
		runtime.Gosched()
	}
}

func crashAtStep(s string) {
	left, err := strconv.Atoi(s)
	childMust(err)
	atStep = func(string) {
		if left == 0 {
			die()
		}
		left--
	}
}

func child(t *testing.T, what, dir string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), "STATE_CHILD="+what, "STATE_DIR="+dir), env...)
	cmd.Stderr = os.Stderr
	return cmd
}

// start runs a child until the test ends or closes its input, and returns its first line.
func start(t *testing.T, what, dir string) (cmd *exec.Cmd, in io.Closer, out *bufio.Reader, line string) {
	t.Helper()
	cmd = child(t, what, dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	out = bufio.NewReader(stdout)
	if line, err = out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd, stdin, out, strings.TrimSpace(line)
}

func open(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func wantMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	fi, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := fi.Mode().Perm(); got != want && runtime.GOOS != "windows" {
		t.Errorf("%s has mode %o, want %o", filepath.Base(path), got, want)
	}
}

func put(t *testing.T, path, text string, perm fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), perm); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, perm); err != nil { // past the umask
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func wantNoTemp(t *testing.T, dir string) {
	t.Helper()
	for _, n := range names(t, dir) {
		if strings.HasPrefix(n, tempPrefix) {
			t.Errorf("%s is left in %s", n, dir)
		}
	}
}
