package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
)

// Statuses of a job.
const (
	Queued    = "queued" // waits for its first turn
	Running   = "running"
	Done      = "done"
	Failed    = "failed"    // a cell raised, timed out or did not run
	Cancelled = "cancelled" // the rest was not run
	Lost      = "lost"      // sent, and the tab left before it answered
)

// Job is one piece of work. Its methods are safe for concurrent use; its work
// is one goroutine, owned by the [Manager].
type Job struct {
	ID      string
	Kind    string // the tool that started it
	Started time.Time

	m      *Manager
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended

	show notebook.Renderer // for one goroutine: the work's, then Found's

	mu        sync.Mutex // guards all below
	status    string
	ended     time.Time
	notebook  string
	items     []*item // the cells to run, in order
	now       *item   // the one that runs
	err       error   // what ended it, unless a cell did
	words     string  // err as a person reads it
	relays    bool    // somebody waits for the tab's raw answer,
	handed    bool    // and has stopped waiting
	progress  json.RawMessage
	note      string
	saved     time.Time // when it was last kept
	forgotten bool      // and is not kept again

	peeking chan struct{} // one partial read at a time
	saving  sync.Mutex    // the record that was taken last is written last
}

// item is one cell of a job.
type item struct {
	cell   notebook.Cell // which it is and its count before the run, no more
	view   notebook.View
	ref    string // under which its whole output is kept, "" if it is all in view
	images []notebook.Image
	raw    json.RawMessage // the tab's answer, for who relays it

	partial []notebook.Output // what it showed at the last look, while it runs

	tab     *bridge.Tab     // that runs it
	over    context.Context // ends with the run
	end     func()
	began   time.Time
	heard   time.Time // when its output last changed
	peeked  time.Time
	said    uint64        // hash of the output at the last look
	latest  time.Duration // its deadline, 0 = none
	counted bool          // it is one of the code cells to run
	temp    bool          // a temporary cell, whose place is nobody's business
	large   bool          // its output broke the connection and must not be asked for
}

// finished reports whether the item has its last status.
func (it *item) finished() bool {
	return it.view.Status != "" && it.view.Status != notebook.StatusRunning
}

// blank is a view that says which cell it is.
func (it *item) blank(status string) notebook.View {
	v := notebook.View{Status: status}
	if !it.temp {
		index := it.cell.Index
		v.Index, v.ID = &index, it.cell.ID
	}
	return v
}

// Cancel ends the job after what it is doing now. It is harmless after the
// end, and twice. No cell begins after it.
func (j *Job) Cancel() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cancel()
}

// Done is closed when the job has ended.
func (j *Job) Done() <-chan struct{} { return j.done }

// Err is what ended the job, nil if it ended by itself or has not ended.
func (j *Job) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// String names the job as the gate does.
func (j *Job) String() string { return fmt.Sprintf("%s (%s)", j.Kind, j.ID) }

// Note adds a sentence for who asks for the job.
func (j *Job) Note(s string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.note = s
}

// Report replaces what a job without cells shows of itself, a JSON object.
func (j *Job) Report(v any) {
	raw, err := bridge.EncodeJSON(v)
	if err != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.progress = raw
}

// Reported is what was last reported, nil if nothing was.
func (j *Job) Reported() json.RawMessage {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.progress
}

// Began marks the job as running: its first turn has come.
func (j *Job) Began() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.status == Queued {
		j.status = Running
	}
}

// end is when the job ended, zero if it has not.
func (j *Job) end() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ended
}

// finish gives the job its one last status.
func (j *Job) finish(err error, words func(error) string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended, j.now = time.Now(), nil
	switch {
	case unanswered(err):
		j.status, j.err = Lost, err
	case errors.Is(err, context.Canceled):
		j.status = Cancelled
		if errors.Is(context.Cause(j.ctx), ErrShutdown) {
			j.note = ErrShutdown.Error() + " before the rest was begun"
		}
	case err != nil:
		j.status, j.err = Failed, err
	default:
		j.status = j.outcome()
	}
	if j.err != nil {
		j.words = words(j.err)
	}
	for _, it := range j.items {
		it.tab, it.partial = nil, nil
	}
}

// unanswered reports whether a run was sent and its answer is not known.
func unanswered(err error) bool {
	var left *bridge.UnknownError
	var damaged *bridge.FrameError
	return errors.As(err, &left) || errors.As(err, &damaged)
}

// outcome is the status that the cells amount to. j.mu is held.
func (j *Job) outcome() string {
	status := Done
	for _, it := range j.items {
		switch it.view.Status {
		case notebook.StatusError, notebook.StatusNotRun, notebook.StatusMissing:
			return Failed
		case notebook.StatusCancelled, "":
			status = Cancelled
		}
	}
	return status
}

// count is how many of the code cells to run have had their turn, and how many
// there are. j.mu is held.
func (j *Job) count() (done, total int) {
	for _, it := range j.items {
		if !it.counted {
			continue
		}
		total++
		if s := it.view.Status; it.finished() && s != notebook.StatusSkipped && s != notebook.StatusCancelled {
			done++
		}
	}
	return done, total
}
