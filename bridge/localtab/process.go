package localtab

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

//go:embed kernel.py
var kernelPy []byte

// bootstrap reads the program from stdin: it is too long for a command line and leaves no file.
const bootstrap = `import sys; exec(compile(sys.stdin.buffer.read(int(sys.argv.pop(1))), "kernel.py", "exec"))`

// startTimeout bounds the start of a kernel; a cold disk takes ipykernel some 10 s.
const startTimeout = 90 * time.Second

// endTimeout is how long a kernel may take to leave by itself before it is killed.
const endTimeout = time.Second

// errClosed is returned by a kernel after Close.
var errClosed = errors.New("the kernel is closed")

// A processKernel is a Python process that runs kernel.py. It is started when it is needed and again
// after it died.
type processKernel struct {
	python string
	plain  bool
	log    *slog.Logger

	turn chan struct{} // capacity 1: held by whoever starts or reads the process

	mu     sync.Mutex
	proc   *process // nil until started and after it ended
	closed bool

	next int // id of the last execute; guarded by turn
}

func newProcessKernel(python string, plain bool, log *slog.Logger) *processKernel {
	return &processKernel{python: python, plain: plain, log: log, turn: make(chan struct{}, 1)}
}

// warm starts the process ahead of the first run. The run itself will report what is wrong.
func (k *processKernel) warm(ctx context.Context) {
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	if _, err := k.started(ctx); err != nil && ctx.Err() == nil {
		k.log.Warn("cannot start the kernel", "err", err)
	}
}

// Execute implements [Kernel].
func (k *processKernel) Execute(ctx context.Context, code string, emit func(Event)) (Reply, error) {
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	for attempt := 0; ; attempt++ {
		p, err := k.started(ctx)
		if err != nil {
			return Reply{}, err
		}
		k.next++
		started, reply, err := p.execute(ctx, k.next, code, emit)
		if err == nil {
			return reply, nil
		}
		k.ended(p)
		if started {
			return Reply{Died: true}, nil
		}
		// It died between two runs: nothing of this one has happened.
		if attempt > 0 || ctx.Err() != nil {
			return Reply{}, err
		}
	}
}

// started returns the running process, or a new one. The caller holds the turn.
func (k *processKernel) started(ctx context.Context) (*process, error) {
	k.mu.Lock()
	if k.closed || k.proc != nil {
		defer k.mu.Unlock()
		if k.closed {
			return nil, errClosed
		}
		return k.proc, nil
	}
	p, err := startProcess(k.python, k.plain)
	k.proc = p
	k.mu.Unlock()
	if err != nil {
		return nil, err
	}
	kind, err := p.ready(ctx)
	if err != nil {
		k.ended(p)
		return nil, err
	}
	k.log.Info("the kernel is ready", "kind", kind, "python", k.python)
	return p, nil
}

// ended forgets a process and waits for its end.
func (k *processKernel) ended(p *process) {
	p.end()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.proc == p {
		k.proc = nil
	}
}

func (k *processKernel) current() *process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.proc
}

// Interrupt implements [Kernel].
func (k *processKernel) Interrupt() error {
	if p := k.current(); p != nil {
		return p.send(frame{Op: "interrupt"}, "")
	}
	return nil
}

// Restart implements [Kernel].
func (k *processKernel) Restart(ctx context.Context) error {
	if p := k.current(); p != nil {
		k.ended(p)
	}
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	_, err := k.started(ctx)
	return err
}

// Close implements [Kernel].
func (k *processKernel) Close() error {
	k.mu.Lock()
	k.closed = true
	p := k.proc
	k.mu.Unlock()
	if p != nil {
		k.ended(p)
	}
	k.turn <- struct{}{} // Execute has returned
	<-k.turn
	return nil
}

// A process is one life of kernel.py.
type process struct {
	cmd     *exec.Cmd
	scratch string // sockets of the real kernel; a directory only this user can enter
	out     *bufio.Reader
	stderr  tail

	write sync.Mutex // one frame at a time, and none before the program
	in    io.WriteCloser

	endOnce sync.Once
}

// A frame is the header of what travels; see kernel.py.
type frame struct {
	Op    string `json:"op,omitempty"`
	Event string `json:"event,omitempty"`
	Kind  string `json:"kind,omitempty"`
	ID    int    `json:"id,omitempty"`
	Name  string `json:"name,omitempty"`
	Type  string `json:"type,omitempty"`
	Count int    `json:"count,omitempty"`
	Size  int    `json:"size,omitempty"`
}

func startProcess(python string, plain bool) (*process, error) {
	scratch, err := os.MkdirTemp("", "colab-mcp-")
	if err != nil {
		return nil, fmt.Errorf("start the kernel: %w", err)
	}
	args := []string{"-c", bootstrap, strconv.Itoa(len(kernelPy)), scratch}
	if plain {
		args = append(args, "--plain")
	}
	p := &process{cmd: exec.Command(python, args...), scratch: scratch}
	p.cmd.Env = append(os.Environ(), "PYTHONIOENCODING=utf-8", "PYTHONUNBUFFERED=1")
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = endTimeout // a child of the user's code may keep stderr open
	ownGroup(p.cmd)
	p.in, err = p.cmd.StdinPipe()
	var out io.ReadCloser
	if err == nil {
		out, err = p.cmd.StdoutPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		os.RemoveAll(scratch)
		return nil, fmt.Errorf("start the kernel: %w", err)
	}
	p.out = bufio.NewReaderSize(out, 256<<10)
	p.write.Lock() // an interrupt now would be read as program: see ready
	return p, nil
}

// ready hands over the program and waits until it can run code. It returns what kind of kernel it is.
// It must be called, once: until then nothing can be sent.
func (p *process) ready(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, p.kill)
	defer stop()
	_, err := p.in.Write(kernelPy)
	p.write.Unlock()
	for err == nil {
		var f frame
		if f, _, err = p.receive(); err == nil && f.Event == "ready" {
			return f.Kind, nil
		}
	}
	p.end() // the rest of stderr
	return "", fmt.Errorf("the kernel did not start: %w\n%s", err, p.stderr.String())
}

// execute runs code. An error means that the process ended; started says whether the code had begun.
func (p *process) execute(ctx context.Context, id int, code string, emit func(Event)) (started bool, _ Reply, _ error) {
	stop := context.AfterFunc(ctx, p.kill)
	defer stop()
	if err := p.send(frame{Op: "execute", ID: id, Size: len(code)}, code); err != nil {
		return false, Reply{}, err
	}
	for {
		f, body, err := p.receive()
		if err != nil {
			return started, Reply{}, err
		}
		if f.ID != id {
			continue // a thread of an earlier run
		}
		switch f.Event {
		case "start":
			started = true
		case "stream":
			emit(Event{Type: "stream", Name: f.Name, Text: string(body)})
		case "output":
			e := Event{Type: f.Type, Content: body}
			if f.Type == "clear_output" {
				var c struct{ Wait bool }
				json.Unmarshal(e.Content, &c)
				e.Wait = c.Wait
			}
			emit(e)
		case "done":
			return true, Reply{Count: f.Count}, nil
		}
	}
}

func (p *process) send(f frame, body string) error {
	head, err := json.Marshal(f)
	if err != nil {
		return err
	}
	p.write.Lock()
	defer p.write.Unlock()
	if _, err := p.in.Write(append(head, '\n')); err != nil {
		return err
	}
	_, err = io.WriteString(p.in, body)
	return err
}

func (p *process) receive() (f frame, body []byte, err error) {
	head, err := p.out.ReadSlice('\n')
	if err != nil {
		return f, nil, err
	}
	if err := json.Unmarshal(head, &f); err != nil {
		return f, nil, fmt.Errorf("kernel.py: %w", err)
	}
	if f.Size > 0 {
		body = make([]byte, f.Size)
		_, err = io.ReadFull(p.out, body)
	}
	return f, body, err
}

// end asks the process to leave, kills it if it does not, and waits. It may be called twice.
func (p *process) end() {
	p.endOnce.Do(func() {
		p.in.Close()
		timer := time.AfterFunc(endTimeout, p.kill)
		defer timer.Stop()
		// Wait closes the pipe, under a reader too: a running execute sees its end.
		p.cmd.Wait()
		os.RemoveAll(p.scratch)
	})
}

func (p *process) kill() { killGroup(p.cmd) }

// A tail keeps the last KiB written to it, for an error message.
type tail struct {
	mu   sync.Mutex
	last []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if over := len(t.last) - 1024; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.last))
}
