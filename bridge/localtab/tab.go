package localtab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/coder/websocket"
)

// Options say what a tab is made of. The zero value is a fresh in-memory notebook on the best Python
// that can be found.
type Options struct {
	Notebook string // path of an .ipynb, made if it does not exist; "" keeps the notebook in memory
	Python   string // interpreter; "" is COLAB_MCP_PYTHON, else the best of python3 on PATH and /usr/bin/python3
	Plain    bool   // plain Python even where ipykernel is installed
	Kernel   Kernel // runs the cells instead of Python; the tab closes it

	// Dial makes the connection to the bridge; nil is the network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	TextOnly       bool // results as text, without structuredContent
	StructuredOnly bool // results as structuredContent, with no content
	// DialogOpen makes every run answer no outputs at once and leave execution_count null, as Colab
	// does while its "Run anyway" dialog waits for the user.
	DialogOpen bool

	Log *slog.Logger // nil discards
}

// Run dials the bridge that link names and serves it until the bridge closes the socket or ctx ends;
// both are no error. It returns when its kernel process and its goroutines are gone.
func Run(ctx context.Context, link string, o Options) error {
	if _, err := parseLink(link); err != nil {
		return err
	}
	t, err := New(o)
	if err != nil {
		return err
	}
	conn, err := t.Dial(ctx, link)
	if err == nil {
		err = t.Serve(ctx, conn)
	} else if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, t.Close())
}

// A Tab is a notebook and its kernel. It serves one connection after another, or several at once;
// all methods may be called concurrently.
type Tab struct {
	o      Options
	log    *slog.Logger
	kernel Kernel
	nb     *notebook
	saver  *saver // nil for a notebook in memory
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	queue  []*run
	queued chan struct{} // capacity 1: there may be something in queue
}

// A run is one execution of one cell. It outlives the request that asked for it.
type run struct {
	source string
	cell   *cell
	out    *outputs
	err    error         // the kernel could not be reached; set before done
	done   chan struct{} // closed when the cell has ended
}

// New makes a tab and starts its kernel in the background. Without a usable Python the error is
// [ErrNoPython]. The caller must Close the tab.
func New(o Options) (*Tab, error) {
	t := &Tab{o: o, log: o.Log, kernel: o.Kernel, queued: make(chan struct{}, 1)}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if t.kernel == nil {
		python, err := FindPython(o.Python)
		if err != nil {
			return nil, err
		}
		t.kernel = newProcessKernel(python, o.Plain, t.log)
	}
	t.nb = newNotebook()
	if o.Notebook != "" {
		var err error
		if t.nb, err = loadNotebook(o.Notebook); err != nil {
			return nil, errors.Join(err, t.kernel.Close())
		}
		t.saver = newSaver(o.Notebook, t.nb, t.log)
	}
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(context.Background())
	t.done.Go(func() { t.runQueue(ctx) })
	return t, nil
}

// Serve answers the bridge at the other end of conn until that closes the socket or ctx ends; both
// are no error. It owns conn. A close that says something, such as 1013 for a second tab, is an error
// from which [websocket.CloseStatus] reads the code.
func (t *Tab) Serve(ctx context.Context, conn *websocket.Conn) error {
	return serve(ctx, t, conn)
}

// Interrupt raises KeyboardInterrupt in the running cell, as Ctrl/Cmd+M I does in Colab. Runs that
// wait behind it go on.
func (t *Tab) Interrupt() {
	if err := t.kernel.Interrupt(); err != nil {
		t.log.Warn("cannot interrupt the kernel", "err", err)
	}
}

// Restart gives the tab a fresh kernel, as "Restart session" does in Colab: cells and ids stay, variables
// are gone, counts start again at 1. A running cell ends with what it has shown.
func (t *Tab) Restart(ctx context.Context) error { return t.kernel.Restart(ctx) }

// Close saves the notebook, ends the kernel and waits for everything New started.
func (t *Tab) Close() error {
	var err error
	if t.saver != nil { // first, and no more: the next tab may be reading the file while the kernel ends
		err = t.saver.close()
	}
	err = errors.Join(err, t.kernel.Close())
	t.cancel() // not before: it kills what drives the kernel, and the kernel with its cell would live on
	t.done.Wait()
	return err
}

// start queues an execution of the code cell with that id, with the source it has now.
func (t *Tab) start(id string) (*run, error) {
	r := &run{done: make(chan struct{}), out: &outputs{}}
	var err error
	if r.cell, r.source, err = t.nb.code(id); err != nil {
		return nil, err
	}
	if t.o.DialogOpen {
		close(r.done)
		return r, nil
	}
	t.mu.Lock()
	t.queue = append(t.queue, r)
	t.mu.Unlock()
	select {
	case t.queued <- struct{}{}:
	default:
	}
	return r, nil
}

// runQueue executes runs one at a time, in the order they were asked for, as a kernel does.
func (t *Tab) runQueue(ctx context.Context) {
	if k, ok := t.kernel.(*processKernel); ok {
		k.warm(ctx)
	}
	for {
		t.mu.Lock()
		var r *run
		if len(t.queue) > 0 {
			r, t.queue = t.queue[0], t.queue[1:]
		}
		t.mu.Unlock()
		if r != nil {
			t.execute(ctx, r)
			close(r.done)
			continue
		}
		select {
		case <-t.queued:
		case <-ctx.Done():
			return
		}
	}
}

func (t *Tab) execute(ctx context.Context, r *run) {
	if ctx.Err() != nil {
		r.err = ctx.Err()
		return
	}
	t.nb.begin(r.cell, r.out)
	reply, err := t.kernel.Execute(ctx, r.source, func(e Event) {
		if err := t.nb.output(r.out, e); err != nil {
			t.log.Warn("an output cannot be read", "err", err)
		}
	})
	if err != nil {
		r.err = fmt.Errorf("the runtime is not available: %w", err)
		t.log.Warn("a run failed", "err", err)
		return
	}
	if reply.Died {
		t.log.Warn("the kernel died and is started again")
	}
	t.nb.end(r.cell, r.out, reply.Count)
	t.changed()
}

// changed has the notebook saved soon, if it is a file.
func (t *Tab) changed() {
	if t.saver != nil {
		t.saver.soon()
	}
}
