package stdio_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"colab-mcp/bridge/stdio"
)

// childMode makes the test binary act as a program that uses Take.
const childMode = "COLAB_MCP_STDIO_TEST_CHILD"

func child(mode string) int {
	out := stdio.Take()
	if stdio.Take() != out {
		return 3
	}
	fmt.Println("a stray print")
	fmt.Fprintln(out, "the protocol")
	if mode != "broken pipe" {
		return 0
	}
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil { // the parent has closed our stdout
		return 4
	}
	for range 3 {
		if _, err := fmt.Fprintln(out, "nobody reads"); err == nil {
			return 5
		}
	}
	fmt.Fprintln(os.Stderr, "alive")
	return 0
}

func childCommand(t *testing.T, mode string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childMode+"="+mode)
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	return cmd, stderr
}

func TestStrayPrintsGoToStderr(t *testing.T) { // I1
	cmd, stderr := childCommand(t, "print")
	stdout, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if string(stdout) != "the protocol\n" || stderr.String() != "a stray print\n" {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
}

func TestBrokenPipeIsAnErrorAndNoDeath(t *testing.T) { // L14
	if runtime.GOOS == "windows" {
		t.Skip("no SIGPIPE on Windows")
	}
	cmd, stderr := childCommand(t, "broken pipe")
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
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Error(err)
	}
	_ = stdout.Close()
	fmt.Fprintln(stdin, "go")
	if err := cmd.Wait(); err != nil || !strings.Contains(stderr.String(), "alive") {
		t.Errorf("%v: %s", err, stderr)
	}
}
