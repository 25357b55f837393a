package localtab

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kinds runs f against plain Python and against a real ipykernel.
func kinds(t *testing.T, f func(t *testing.T, p *peer, tab *Tab)) {
	for _, plain := range []bool{true, false} {
		t.Run(map[bool]string{true: "plain", false: "ipykernel"}[plain], func(t *testing.T) {
			tab := newPythonTab(t, plain)
			f(t, connect(t, tab), tab)
		})
	}
}

func newPythonTab(t testing.TB, plain bool) *Tab {
	t.Helper()
	python, err := FindPython("")
	missing := ""
	switch {
	case err != nil:
		missing = err.Error()
	case !plain && probePython(python) != 0:
		missing = "no python3 here has ipykernel and jupyter_client (Debian: apt install python3-ipykernel python3-jupyter-client)"
	}
	if missing != "" {
		if os.Getenv("COLAB_MCP_REQUIRE_REAL") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	tab, err := New(Options{Plain: plain, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tab.Close(); err != nil {
			t.Error(err)
		}
	})
	return tab
}

func text(c nbCell, stream string) string {
	var b strings.Builder
	for _, o := range c.Outputs {
		if o.Type == "stream" && o.Name == stream {
			b.WriteString(strings.Join(o.Text, ""))
		}
	}
	return b.String()
}

func errorOf(t *testing.T, c nbCell) nbOutput {
	t.Helper()
	for _, o := range c.Outputs {
		if o.Type == "error" {
			return o
		}
	}
	t.Fatalf("no error in %+v", c.Outputs)
	return nbOutput{}
}

func TestCellShowsStreamsValueAndCount(t *testing.T) {
	kinds(t, func(t *testing.T, p *peer, _ *Tab) {
		c := p.run("import sys, subprocess\nprint('a<b')\nprint('é')\nsys.stderr.write('oops\\n')\nx = 6\nx * 7")
		if got := text(c, "stdout"); got != "a<b\né\n" {
			t.Errorf("stdout %q", got)
		}
		if got := text(c, "stderr"); got != "oops\n" {
			t.Errorf("stderr %q", got)
		}
		last := c.Outputs[len(c.Outputs)-1]
		if last.Type != "execute_result" || string(last.Data["text/plain"]) != `["42"]` || *last.Count != 1 {
			t.Errorf("result %+v", last)
		}
		if c.Count == nil || *c.Count != 1 {
			t.Errorf("execution_count %v, want 1", c.Count)
		}
		if c := p.run("subprocess.run(['echo', 'child'])\nx"); *c.Count != 2 || text(c, "stdout") != "child\n" {
			t.Errorf("second cell %+v", c)
		}
	})
}

func TestExceptionIsAResult(t *testing.T) {
	kinds(t, func(t *testing.T, p *peer, _ *Tab) {
		c := p.run("def f():\n    raise ValueError('bad\\nvalue')\nf()")
		e := errorOf(t, c)
		if e.EName != "ValueError" || e.EValue != "bad\nvalue" {
			t.Errorf("%s: %q", e.EName, e.EValue)
		}
		if tb := strings.Join(e.Traceback, "\n"); !strings.Contains(tb, "raise") || strings.Contains(tb, "kernel.py") {
			t.Errorf("traceback %s", tb)
		}
		if *c.Count != 1 {
			t.Errorf("count %d", *c.Count)
		}
		if e := errorOf(t, p.run("x = (")); e.EName != "SyntaxError" && e.EName != "_IncompleteInputError" {
			t.Errorf("syntax error is %+v", e)
		}
		if e := errorOf(t, p.run("input('name? ')")); e.EName != "StdinNotImplementedError" {
			t.Errorf("input() raised %+v", e)
		}
	})
}

func TestRichReprs(t *testing.T) {
	kinds(t, func(t *testing.T, p *peer, _ *Tab) {
		c := p.run("class R:\n  def _repr_html_(self): return '<b>\\n'\n  def _repr_png_(self): return b'\\x89PNG'\n  def __repr__(self): return 'R'\n" +
			"display(R())\nR()")
		if len(c.Outputs) != 2 || c.Outputs[0].Type != "display_data" {
			t.Fatalf("%+v", c.Outputs)
		}
		for _, o := range c.Outputs {
			if !strings.HasPrefix(string(o.Data["image/png"]), `"iVBORw==`) || string(o.Data["text/html"]) != `["<b>\n"]` || string(o.Data["text/plain"]) != `["R"]` {
				t.Errorf("%s", o.Data)
			}
		}
	})
}

func TestPartialOutputIsReadWhileTheCellRuns(t *testing.T) {
	kinds(t, func(t *testing.T, p *peer, tab *Tab) {
		id := p.addCode("import time\nprint('so far')\ntime.sleep(600)")
		_, done := p.startTool("run_code_cell", obj{"cellId": id})
		for {
			c := p.cells(obj{"cellIndexStart": 1, "cellIndexEnd": 1, "includeOutputs": true})[0]
			if c.Count != nil {
				t.Fatalf("count %d while running", *c.Count)
			}
			if text(c, "stdout") == "so far\n" {
				break
			}
		}
		tab.Interrupt()
		r := p.decode(<-done)
		if !strings.Contains(string(r.Structured), "KeyboardInterrupt") || !strings.Contains(string(r.Structured), "so far") {
			t.Errorf("after the interrupt: %s", r.Structured)
		}
		if c := p.run("1"); *c.Count != 2 {
			t.Errorf("the kernel did not survive the interrupt: %+v", c)
		}
	})
}

func TestInterruptWhileIdleIsHarmless(t *testing.T) {
	kinds(t, func(t *testing.T, p *peer, tab *Tab) {
		p.run("x = 5")
		tab.Interrupt()
		if c := p.run("print(x)"); text(c, "stdout") != "5\n" || *c.Count != 2 {
			t.Errorf("%+v", c)
		}
	})
}

// An interrupt that comes while the kernel is being started is none of its program.
func TestInterruptBeforeTheProgram(t *testing.T) {
	tab := newPythonTab(t, true)
	p, err := startProcess(tab.kernel.(*processKernel).python, true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.end()
	if p.write.TryLock() {
		t.Error("a frame can be sent before the program")
		p.write.Unlock()
	}
	sent := make(chan error, 1)
	go func() { sent <- p.send(frame{Op: "interrupt"}, "") }()
	if _, err := p.ready(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// A crash answers with what was shown so far, leaves the count null, and the next run counts from 1.
func TestKernelCrashEndsTheRunAndRestarts(t *testing.T) {
	for name, crash := range map[string]string{"exit": "os._exit(1)", "kill": "os.kill(os.getpid(), 9)"} {
		t.Run(name, func(t *testing.T) {
			kinds(t, func(t *testing.T, p *peer, _ *Tab) {
				p.run("x = 1")
				if c := p.run("import os\n" + crash); len(c.Outputs) != 0 || c.Count != nil {
					t.Errorf("crashed cell %+v", c)
				}
				c := p.run("'x' in globals()")
				if *c.Count != 1 || string(c.Outputs[0].Data["text/plain"]) != `["False"]` {
					t.Errorf("after the crash %+v", c)
				}
			})
		})
	}
}

func TestKernelThatDiedBetweenRunsIsReplaced(t *testing.T) {
	kinds(t, func(t *testing.T, p *peer, _ *Tab) {
		p.run("import os, threading\nthreading.Timer(0.05, os._exit, [1]).start()")
		for { // some run, at the latest the next but one after the death, is on a new kernel
			if c := p.run("1"); c.Count != nil && *c.Count == 1 {
				return
			}
		}
	})
}

func TestClearOutputAndUpdateDisplay(t *testing.T) {
	kinds(t, func(t *testing.T, p *peer, _ *Tab) {
		setup := "import builtins\nif not hasattr(builtins, 'clear_output'):\n  from IPython.display import clear_output, update_display\n"
		c := p.run(setup + "print('a'); clear_output()\nprint('b'); clear_output(wait=True)\nprint('c')")
		if got := text(c, "stdout"); got != "c\n" {
			t.Errorf("after clear_output: %q", got)
		}
		if c := p.run("print('kept'); clear_output(wait=True)"); text(c, "stdout") != "kept\n" {
			t.Errorf("clear_output(wait) without output after it: %+v", c.Outputs)
		}
		first := p.run("display('one', display_id='d')")
		p.run("update_display('two', display_id='d')")
		for _, c := range p.cells(obj{"includeOutputs": true}) {
			if c.ID == first.ID && string(c.Outputs[0].Data["text/plain"]) != `["'two'"]` {
				t.Errorf("the display of an earlier cell shows %s", c.Outputs[0].Data)
			}
		}
	})
}

func TestBigOutputAndBigSource(t *testing.T) {
	kinds(t, func(t *testing.T, p *peer, _ *Tab) {
		const n = 16 << 20
		_, ch := p.startTool("run_code_cell", obj{"cellId": p.addCode(fmt.Sprintf("print('x' * %d)", n))})
		// Once as text, once as structuredContent; encoding/json would take seconds under -race.
		if got := bytes.Count((<-ch).Result, []byte("xxxxxxxxxxxxxxxx")); got != 2*n/16 {
			t.Errorf("%d runs of 16 bytes of output, want %d", got, 2*n/16)
		}
		_, ch = p.startTool("run_code_cell", obj{"cellId": p.addCode("print(len('" + strings.Repeat("y", 4<<20) + "'))")})
		if r := p.decode(<-ch); string(r.Structured) != `{"outputs":[{"output_type":"stream","name":"stdout","text":["4194304\n"]}]}` {
			t.Errorf("source of 4 MiB: %s", r.Structured)
		}
	})
}

// Two runs sent at once execute in the order they were sent.
func TestRunsAreFIFO(t *testing.T) {
	kinds(t, func(t *testing.T, p *peer, _ *Tab) {
		p.run("log = []")
		var answers []chan answer
		for i := range 10 {
			id := p.addCode(fmt.Sprintf("log.append(%d)", i))
			_, ch := p.startTool("run_code_cell", obj{"cellId": id})
			answers = append(answers, ch)
		}
		for _, ch := range answers {
			<-ch
		}
		if c := p.run("log"); string(c.Outputs[0].Data["text/plain"]) != `["[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"]` {
			t.Errorf("%s", c.Outputs[0].Data)
		}
	})
}

func TestCloseEndsARunningKernel(t *testing.T) {
	for _, code := range []string{"import time; time.sleep(600)", "sum(range(10**12))"} {
		kinds(t, func(t *testing.T, p *peer, tab *Tab) {
			// The cell tells that it runs by a socket of its own: what it prints before it takes the
			// interpreter's lock for good may stay in ipykernel 6.17.
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			port := ln.Addr().(*net.TCPAddr).Port
			p.startTool("run_code_cell", obj{"cellId": p.addCode(fmt.Sprintf("import socket; s = socket.create_connection(('127.0.0.1', %d)); %s", port, code))})
			conn, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			proc := tab.kernel.(*processKernel).current()
			if err := tab.Close(); err != nil {
				t.Error(err)
			}
			if proc.cmd.ProcessState == nil {
				t.Error("the process runs on")
			}
			conn.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) { // the cell held its end
				t.Error("the kernel runs on")
			}
			if _, err := os.Stat(proc.scratch); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("scratch directory is left: %v", err)
			}
		})
	}
}

func TestRestartForgetsVariables(t *testing.T) {
	kinds(t, func(t *testing.T, p *peer, tab *Tab) {
		p.run("x = 1")
		if err := tab.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c := p.run("'x' in globals()"); *c.Count != 1 || string(c.Outputs[0].Data["text/plain"]) != `["False"]` {
			t.Errorf("%+v", c)
		}
	})
}

func TestMissingPythonSaysWhatToInstall(t *testing.T) {
	t.Setenv("COLAB_MCP_PYTHON", "/nonexistent/python3")
	_, err := New(Options{})
	if !errors.Is(err, ErrNoPython) || !strings.Contains(err.Error(), "install Python") {
		t.Errorf("error %v", err)
	}
	// Something that is no Python, as the app store's stand-in on Windows.
	if _, err := New(Options{Python: "false"}); !errors.Is(err, ErrNoPython) {
		t.Errorf("error %v", err)
	}
}

// A stand-in for pyplot: the real one is not installed everywhere.
func TestPlainPythonShowsFiguresOfTheCell(t *testing.T) {
	p := connect(t, newPythonTab(t, true))
	p.run(`import sys, types
class Figure:
  def savefig(self, out, format, bbox_inches): out.write(b'\x89PNG')
plt = types.ModuleType('matplotlib.pyplot')
plt.open = []
plt.get_fignums = lambda: list(plt.open)
plt.figure = lambda n: Figure()
plt.close = lambda fig: plt.open.clear()
sys.modules['matplotlib.pyplot'] = plt`)
	if c := p.run("plt.open.append(1)"); len(c.Outputs) != 1 || string(c.Outputs[0].Data["image/png"]) != `"iVBORw=="` {
		t.Errorf("%+v", c.Outputs)
	}
	if c := p.run("1"); len(c.Outputs) != 1 {
		t.Errorf("the figure is shown again: %+v", c.Outputs)
	}
}

// A child that a cell left running ends with the kernel, and a forked one does not speak for it.
func TestChildrenOfCells(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no fork")
	}
	kinds(t, func(t *testing.T, p *peer, tab *Tab) {
		c := p.run("import os, sys, subprocess\npid = os.fork()\nif pid == 0:\n  print('from the child', flush=True)\n  os._exit(0)\n_ = os.waitpid(pid, 0)")
		if got := text(c, "stdout"); got != "from the child\n" {
			t.Errorf("forked: %q", got)
		}
		c = p.run("print(subprocess.Popen(['sleep', '600']).pid)")
		pid, err := strconv.Atoi(strings.TrimSpace(text(c, "stdout")))
		if err != nil {
			t.Fatal(err)
		}
		child, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := tab.kernel.Close(); err != nil {
			t.Fatal(err)
		}
		for child.Signal(syscall.Signal(0)) == nil { // until init has reaped it
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && bytes.Contains(stat, []byte(") Z ")) {
				break
			}
		}
	})
}
