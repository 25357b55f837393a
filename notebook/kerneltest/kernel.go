package kerneltest

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"sync"
	"testing"

	"colab-mcp/notebook"
)

//go:embed driver.py
var driver string

// Kernel is one running Python. Its methods may be called concurrently; cells run one after another.
type Kernel struct {
	tb     testing.TB
	mu     sync.Mutex // one request and its answer
	stdin  *json.Encoder
	stdout *bufio.Reader
	cmd    *exec.Cmd
}

// Plain starts an interpreter without IPython. python is a command, "" = python3.
func Plain(tb testing.TB, python string) *Kernel {
	tb.Helper()
	if python == "" {
		python = "python3"
	}
	if _, err := exec.LookPath(python); err != nil {
		missing(tb, python+" is not installed")
	}
	return start(tb, python, "plain")
}

// IPython starts an ipykernel. A machine without one skips the test, or fails it where COLAB_MCP_REQUIRE_REAL is set.
func IPython(tb testing.TB) *Kernel {
	tb.Helper()
	for _, python := range []string{"/usr/bin/python3", "python3"} { // Debian's packages are for its own
		if exec.Command(python, "-c", "import ipykernel, jupyter_client").Run() == nil {
			return start(tb, python, "ipykernel")
		}
	}
	missing(tb, "no python3 has ipykernel and jupyter_client (Debian: apt-get install python3-ipykernel python3-jupyter-client)")
	return nil
}

func missing(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("COLAB_MCP_REQUIRE_REAL") != "" {
		tb.Fatal(what)
	}
	tb.Skip(what)
}

func start(tb testing.TB, python, mode string) *Kernel {
	tb.Helper()
	k := &Kernel{tb: tb, cmd: exec.Command(python, "-c", driver, mode)}
	k.cmd.Dir = tb.TempDir()
	k.cmd.Stderr = os.Stderr
	k.cmd.Env = append(os.Environ(),
		"PYDEVD_DISABLE_FILE_VALIDATION=1", // a debugger's warning about frozen modules
		"PYTHONUNBUFFERED=")                // without a buffer Python drops the rest of a write that a stop of the process cuts
	stdin, err := k.cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := k.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	k.stdin, k.stdout = json.NewEncoder(stdin), bufio.NewReaderSize(stdout, 1<<20)
	k.stdin.SetEscapeHTML(false)
	if err := k.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		stdin.Close()
		k.cmd.Wait()
	})
	return k
}

// Dir is the working directory the kernel was started in.
func (k *Kernel) Dir() string { return k.cmd.Dir }

// Run runs one cell and returns its outputs.
func (k *Kernel) Run(code string) []notebook.Output {
	outs, _ := k.RunCount(code)
	return outs
}

// RunCount also returns the cell's execution count, 0 in a plain interpreter.
func (k *Kernel) RunCount(code string) ([]notebook.Output, int) {
	k.tb.Helper()
	line := k.ask(map[string]string{"code": code})
	outs, err := notebook.DecodeOutputs(line)
	if err != nil {
		k.tb.Fatalf("kernel answered %.200q: %v", line, err)
	}
	var count struct {
		N int `json:"execution_count"`
	}
	if err := json.Unmarshal(line, &count); err != nil {
		k.tb.Fatal(err)
	}
	return outs, count.N
}

// Restart gives the kernel a fresh state; files stay.
func (k *Kernel) Restart() {
	k.tb.Helper()
	k.ask(map[string]string{"op": "restart"})
}

func (k *Kernel) ask(request any) json.RawMessage {
	k.tb.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.stdin.Encode(request); err != nil {
		k.tb.Fatalf("kernel is gone: %v", err)
	}
	line, err := k.stdout.ReadBytes('\n')
	if err != nil {
		k.tb.Fatalf("kernel is gone: %v", err)
	}
	return line
}

// Fail fails the test the kernel was started for.
func (k *Kernel) Fail(why string) { k.tb.Error(why) }
