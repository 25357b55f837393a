package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen. It decides nothing:
// it turns a hang into a failure that says what was waited for.
const patience = 2 * time.Minute

// binary is the path of the program; see TestMain.
func binary(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("colab-mcp")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// requireReal skips a test that lacks a real part, such as a browser. Where
// COLAB_MCP_REQUIRE_REAL=1 it fails instead.
func requireReal(t testing.TB, missing string) {
	t.Helper()
	if os.Getenv("COLAB_MCP_REQUIRE_REAL") == "1" {
		t.Fatalf("%s, and COLAB_MCP_REQUIRE_REAL=1 does not let this test be skipped", missing)
	}
	t.Skip(missing)
}

// environment is the test's own without our settings, plus extra. Python is
// the machine's matter and stays. The race detector need not look for a second
// whether a program that ends races still.
func environment(extra ...string) []string {
	env := []string{"GORACE=atexit_sleep_ms=0"}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "COLAB_MCP_") || strings.HasPrefix(kv, "COLAB_MCP_PYTHON=") {
			env = append(env, kv)
		}
	}
	return append(env, extra...)
}

// An agent is a process of the program with the test at its pipes as a plain
// JSON-RPC client. Its methods are for the test's goroutine, except that
// several calls may be pending.
type agent struct {
	t        testing.TB
	StateDir string
	cmd      *exec.Cmd
	in       io.WriteCloser
	stderr   *lockedBuffer
	read     chan struct{} // closed when stdout ended
	ended    error         // of the process; after wait

	mu      sync.Mutex // guards all below
	last    int
	pending map[string]*pending
	notes   []message // notifications, as they came
	strange []string  // lines that are no JSON-RPC
	closed  bool
}

// message is any JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// pending is a request that was sent.
type pending struct {
	a    *agent
	what string
	done chan struct{} // closed when msg is there or nothing can come any more
	msg  *message
}

// startAgent starts the program with a fresh state directory and args, and
// shakes hands. The process is ended with the test, which fails if it does not
// end well or writes anything but JSON-RPC to stdout (I1).
func startAgent(t testing.TB, args ...string) *agent {
	t.Helper()
	a := launchAgent(t, t.TempDir(), args...)
	a.shakeHands("colab-mcp-test")
	return a
}

// launchAgent is startAgent with a given state directory and no handshake.
func launchAgent(t testing.TB, stateDir string, args ...string) *agent {
	t.Helper()
	cmd := exec.Command(binary(t), append([]string{"--state-dir", stateDir}, args...)...)
	cmd.Env = environment()
	return launch(t, stateDir, cmd)
}

// launch is launchAgent for a command that serves, which keeps its state in
// stateDir.
func launch(t testing.TB, stateDir string, cmd *exec.Cmd) *agent {
	t.Helper()
	a := &agent{
		t: t, StateDir: stateDir, cmd: cmd, stderr: &lockedBuffer{},
		read: make(chan struct{}), pending: map[string]*pending{},
	}
	a.cmd.Stderr = a.stderr
	out, err := a.cmd.StdoutPipe()
	if err == nil {
		a.in, err = a.cmd.StdinPipe()
	}
	if err == nil {
		err = a.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go a.receive(out)
	t.Cleanup(func() {
		if err := a.close(); err != nil {
			t.Errorf("the program did not end well: %v", err)
		}
		if t.Failed() {
			t.Logf("stderr:\n%s\nlog:\n%s", a.stderr, a.log())
		}
		for _, line := range a.strange {
			t.Errorf("stdout has a line that is no JSON-RPC: %.200q", line)
		}
	})
	return a
}

// receive sorts what comes until stdout ends.
func (a *agent) receive(out io.Reader) {
	defer close(a.read)
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			a.sort(line)
		}
		if err != nil {
			a.mu.Lock()
			for _, p := range a.pending {
				close(p.done)
			}
			clear(a.pending)
			a.closed = true
			a.mu.Unlock()
			return
		}
	}
}

func (a *agent) sort(line []byte) {
	var m message
	err := json.Unmarshal(line, &m)
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pending[string(m.ID)]
	switch {
	case err != nil || !bytes.Contains(line, []byte(`"jsonrpc":"2.0"`)):
		a.strange = append(a.strange, string(line))
	case m.Method != "" && len(m.ID) == 0:
		a.notes = append(a.notes, m)
	case p == nil:
		a.strange = append(a.strange, "an answer to nothing: "+string(line))
	default:
		delete(a.pending, string(m.ID))
		p.msg = &m
		close(p.done)
	}
}

func (a *agent) shakeHands(client string) {
	a.t.Helper()
	m := a.send("initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": client, "version": "1"},
	}).wait()
	if m.Error != nil {
		a.t.Fatalf("initialize: %s", m.Error)
	}
	a.notify("notifications/initialized", nil)
}

// send sends a request; its answer comes by wait.
func (a *agent) send(method string, params any) *pending {
	a.t.Helper()
	a.mu.Lock()
	a.last++
	id := a.last
	p := &pending{a: a, what: method, done: make(chan struct{})}
	if a.closed {
		close(p.done)
	} else {
		a.pending[fmt.Sprint(id)] = p
	}
	a.mu.Unlock()
	a.write(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	return p
}

func (a *agent) notify(method string, params any) {
	a.t.Helper()
	m := map[string]any{"jsonrpc": "2.0", "method": method}
	if params != nil {
		m["params"] = params
	}
	a.write(m)
}

func (a *agent) write(m any) {
	a.t.Helper()
	line, err := json.Marshal(m)
	if err == nil {
		_, err = a.in.Write(append(line, '\n'))
	}
	if err != nil {
		a.t.Fatalf("write to the program: %v\n%s", err, a.stderr)
	}
}

// wait returns the answer.
func (p *pending) wait() message {
	p.a.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.a.t.Fatalf("%s was not answered in %v", p.what, patience)
	}
	if p.msg == nil {
		p.a.t.Fatalf("%s was not answered: the program ended\n%s", p.what, p.a.stderr)
	}
	return *p.msg
}

// args are the arguments of a tool.
type args map[string]any

// begin calls a tool without waiting for it.
func (a *agent) begin(tool string, arguments args) *pending {
	a.t.Helper()
	params := map[string]any{"name": tool}
	if arguments != nil {
		params["arguments"] = arguments
	}
	p := a.send("tools/call", params)
	p.what = tool
	return p
}

// call calls a tool and returns what it answered, an isError answer included.
func (a *agent) call(tool string, arguments args) answer {
	a.t.Helper()
	return a.begin(tool, arguments).answer()
}

// answer is a tool's result.
type answer struct {
	t       testing.TB
	tool    string
	Raw     json.RawMessage // the whole result, as it came
	IsError bool            `json:"isError"`
	Content []struct {
		Type, Text, Data, MIMEType string
	} `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
}

// answer waits for a tool's result.
func (p *pending) answer() answer {
	p.a.t.Helper()
	m := p.wait()
	if m.Error != nil {
		p.a.t.Fatalf("%s: a JSON-RPC error: %s", p.what, m.Error)
	}
	res := answer{t: p.a.t, tool: p.what, Raw: m.Result}
	if err := json.Unmarshal(m.Result, &res); err != nil || len(res.Content) == 0 {
		p.a.t.Fatalf("%s: a result without content (%v): %.500s", p.what, err, m.Result)
	}
	return res
}

// text is the first block.
func (r answer) text() string { return r.Content[0].Text }

// into decodes the first block of a result that must be no error.
func (r answer) into(v any) {
	r.t.Helper()
	if r.IsError {
		r.t.Fatalf("%s: %s", r.tool, r.text())
	}
	if err := json.Unmarshal([]byte(r.text()), v); err != nil {
		r.t.Fatalf("%s: the first block is no such JSON: %v\n%.500s", r.tool, err, r.text())
	}
}

// code is the code of a failure: what is before the first colon.
func (r answer) code() string {
	r.t.Helper()
	if !r.IsError {
		r.t.Fatalf("%s: wanted a failure, got %.500s", r.tool, r.text())
	}
	code, _, _ := strings.Cut(r.text(), ":")
	return code
}

// notifications are those of a method so far.
func (a *agent) notifications(method string) []message {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []message
	for _, m := range a.notes {
		if m.Method == method {
			list = append(list, m)
		}
	}
	return list
}

// close closes the program's stdin, as an agent does that goes, and waits for
// its end. A second call does nothing.
func (a *agent) close() error {
	if a.cmd.ProcessState == nil {
		a.in.Close()
	}
	return a.wait("its stdin was closed")
}

// signal sends the program a signal and waits for its end.
func (a *agent) signal(sig os.Signal) error {
	if err := a.cmd.Process.Signal(sig); err != nil {
		return err
	}
	return a.wait(sig.String())
}

// kill ends the program as a crash does.
func (a *agent) kill() {
	a.cmd.Process.Kill()
	<-a.read
	a.cmd.Wait()
}

// wait waits for the program's end after what was done to it.
func (a *agent) wait(after string) error {
	if a.cmd.ProcessState != nil {
		return a.ended
	}
	kill := time.AfterFunc(patience, func() { a.cmd.Process.Kill() })
	<-a.read
	a.ended = a.cmd.Wait()
	if !kill.Stop() {
		a.ended = errors.Join(fmt.Errorf("still running %v after %s", patience, after), a.ended)
	}
	return a.ended
}

// log is all that the program has logged into its state directory.
func (a *agent) log() string {
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(a.StateDir, "logs", "*"))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		all.Write(b)
	}
	return all.String()
}

// lockedBuffer is written by a process and read by the test.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
