package tabtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"colab-mcp/bridge/localtab"
)

// PNG is a valid image of one pixel, as the line "image png" shows it.
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="

// A Kernel runs scripts instead of Python. A cell's source is its script, a line at a time:
//
//	print TEXT              stdout, with a newline
//	stderr TEXT             stderr, with a newline
//	sleep 5m                virtual time in a bubble; an interrupt raises KeyboardInterrupt
//	progress 0.1s 100       100 updates of a progress bar, \r between them, that long apart
//	result TEXT             the value of the last expression
//	image png               a display of [PNG]
//	clear | clear wait      clear_output
//	error NAME MESSAGE      raises: the run ends
//	hang                    until an interrupt, a restart or the end
//	restart                 the kernel dies here: the run ends, counts start again at 1
//	empty                   the cell did not run: no outputs, execution_count stays null
//
// Other lines do nothing, so Python may be passed too; [Kernel.On] gives it a meaning. The zero value
// is ready. Methods may be called concurrently.
type Kernel struct {
	mu        sync.Mutex
	handlers  []handler
	count     int
	ran       []string
	interrupt chan struct{} // of the running cell: closed by Interrupt
	die       chan struct{} // of the running cell: closed by Restart and Close
	closed    bool
	running   sync.WaitGroup
}

type handler struct {
	substring string
	run       func(ctx context.Context, code string, s Screen)
}

// On has f run every cell whose code contains substring; the newest matching handler counts. f
// returns when the cell ends, at the latest when ctx does (interrupt, restart, close).
func (k *Kernel) On(substring string, f func(ctx context.Context, code string, s Screen)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.handlers = append(k.handlers, handler{substring, f})
}

// Ran returns the sources of all cells that were executed, in order, the running one included.
func (k *Kernel) Ran() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.ran)
}

// Execute implements [localtab.Kernel].
func (k *Kernel) Execute(ctx context.Context, code string, emit func(localtab.Event)) (localtab.Reply, error) {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return localtab.Reply{}, context.Canceled
	}
	k.running.Add(1)
	defer k.running.Done()
	k.ran = append(k.ran, code)
	k.count++
	k.interrupt, k.die = make(chan struct{}), make(chan struct{})
	r := &execution{Screen: Screen{emit: emit, count: k.count}, interrupt: k.interrupt, die: k.die}
	var run func(context.Context, string, Screen)
	for _, h := range k.handlers {
		if strings.Contains(code, h.substring) {
			run = h.run
		}
	}
	k.mu.Unlock()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.ctx = ctx
	end := completed
	if run != nil {
		end = r.handle(cancel, run, code)
	} else {
		end = r.script(code)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.interrupt, k.die = nil, nil
	switch end {
	case died:
		k.count = 0
		return localtab.Reply{Died: true}, nil
	case notRun:
		k.count--
		return localtab.Reply{}, nil
	}
	return localtab.Reply{Count: k.count}, nil
}

// Interrupt implements [localtab.Kernel].
func (k *Kernel) Interrupt() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.interrupt != nil {
		close(k.interrupt)
		k.interrupt = nil
	}
	return nil
}

// Restart implements [localtab.Kernel].
func (k *Kernel) Restart(context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count = 0
	k.kill()
	return nil
}

// kill ends a running cell. The caller holds mu.
func (k *Kernel) kill() {
	if k.die != nil {
		close(k.die)
		k.die = nil
	}
}

// Close implements [localtab.Kernel].
func (k *Kernel) Close() error {
	k.mu.Lock()
	k.closed = true
	k.kill()
	k.mu.Unlock()
	k.running.Wait()
	return nil
}

// A Screen is where a running cell shows things.
type Screen struct {
	emit  func(localtab.Event)
	count int
}

// Count returns the execution_count of this run.
func (s Screen) Count() int { return s.count }

// Emit shows any event.
func (s Screen) Emit(e localtab.Event) { s.emit(e) }

// Write writes text to stdout as it is.
func (s Screen) Write(text string) {
	s.emit(localtab.Event{Type: "stream", Name: "stdout", Text: text})
}

// Stderr writes text to stderr as it is.
func (s Screen) Stderr(text string) {
	s.emit(localtab.Event{Type: "stream", Name: "stderr", Text: text})
}

// Result shows the value of the last expression.
func (s Screen) Result(text string) {
	s.message("execute_result", map[string]any{"data": map[string]any{"text/plain": text}, "metadata": map[string]any{}, "execution_count": s.count})
}

// Display shows values by mime type; images as base64.
func (s Screen) Display(data map[string]any) {
	s.message("display_data", map[string]any{"data": data, "metadata": map[string]any{}})
}

// Error shows an exception. The handler returns after it.
func (s Screen) Error(name, message string) {
	s.message("error", map[string]any{"ename": name, "evalue": message, "traceback": []string{
		"\x1b[0;31m" + strings.Repeat("-", 75) + "\x1b[0m", "\x1b[0;31m" + name + "\x1b[0m: " + message}})
}

func (s Screen) message(kind string, content map[string]any) {
	raw, err := json.Marshal(content)
	if err != nil {
		panic(err) // a test passed something that is no JSON
	}
	s.emit(localtab.Event{Type: kind, Content: raw})
}

// An execution is one run of one cell.
type execution struct {
	Screen
	ctx            context.Context
	interrupt, die <-chan struct{}
}

type ending int

const (
	completed ending = iota
	died
	notRun
)

// wait lets d pass, or waits for ever if d < 0. It reports whether the run goes on, and if not, how it ends.
func (r *execution) wait(d time.Duration) (bool, ending) {
	var after <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-after:
		return true, completed
	case <-r.interrupt:
		r.Error("KeyboardInterrupt", "")
		return false, completed
	case <-r.die:
	case <-r.ctx.Done():
	}
	return false, died
}

func (r *execution) handle(cancel context.CancelFunc, run func(context.Context, string, Screen), code string) ending {
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(r.ctx, code, r.Screen)
	}()
	end := completed
	select {
	case <-done:
	case <-r.interrupt:
	case <-r.die:
		end = died
	}
	cancel()
	<-done
	return end
}

func (r *execution) script(code string) ending {
	for line := range strings.Lines(code) {
		line = strings.TrimRight(line, "\r\n")
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "print":
			r.Write(rest + "\n")
		case "stderr":
			r.Stderr(rest + "\n")
		case "result":
			r.Result(rest)
		case "image":
			r.Display(map[string]any{"text/plain": "<Figure size 1x1 with 1 Axes>", "image/png": PNG})
		case "clear":
			r.Emit(localtab.Event{Type: "clear_output", Wait: rest == "wait"})
		case "error":
			name, message, _ := strings.Cut(rest, " ")
			r.Error(name, message)
			return completed
		case "restart":
			return died
		case "empty":
			return notRun
		case "hang":
			_, end := r.wait(-1)
			return end
		case "sleep":
			if on, end := r.wait(duration(rest)); !on {
				return end
			}
		case "progress":
			each, n, _ := strings.Cut(rest, " ")
			total, err := strconv.Atoi(n)
			if err != nil {
				panic("tabtest: progress DURATION COUNT, not " + line)
			}
			for i := 1; i <= total; i++ {
				if on, end := r.wait(duration(each)); !on {
					return end
				}
				r.Stderr(fmt.Sprintf("\r%3d%%|%s| %d/%d", 100*i/total, strings.Repeat("#", 10*i/total), i, total))
			}
			r.Stderr("\n")
		}
	}
	return completed
}

// duration reads "5m" or plain seconds.
func duration(s string) time.Duration {
	if d, err := time.ParseDuration(s); err == nil {
		return d
	}
	d, err := time.ParseDuration(s + "s")
	if err != nil {
		panic("tabtest: not a duration: " + s)
	}
	return d
}
