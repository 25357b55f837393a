package localtab

import (
	"context"
	"encoding/json"
)

// A Kernel runs the code of cells. [New] makes one of a Python process; tests script their own.
type Kernel interface {
	// Execute runs code to its end and hands over what it shows, in order, from one goroutine. The
	// tab calls it for one run at a time. It returns an error only if the code did not run; code that
	// raises has an "error" event and a Reply. When ctx ends, the kernel is closing: return soon.
	Execute(ctx context.Context, code string, emit func(Event)) (Reply, error)
	// Interrupt raises KeyboardInterrupt in the running code, if any. It does not wait.
	Interrupt() error
	// Restart gives the kernel a fresh state. A running Execute ends as if the kernel had died.
	Restart(ctx context.Context) error
	// Close ends the kernel and a running Execute, and waits for both.
	Close() error
}

// An Event is something a run shows, named as in Jupyter's messaging protocol.
type Event struct {
	Type string // "stream", "display_data", "execute_result", "error", "update_display_data" or "clear_output"

	Name string // of a stream: "stdout" or "stderr"
	Text string // of a stream

	Wait bool // of clear_output

	Content json.RawMessage // of the others: the content of that message
}

// A Reply says how a run ended.
type Reply struct {
	Count int  // execution_count, from 1; 0 leaves the cell's null: it did not run, or the kernel died
	Died  bool // the kernel ended during the run and the next one starts another, which counts from 1
}
