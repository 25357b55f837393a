package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
	"colab-mcp/state"
)

// NotFoundError says that there is no such job or output.
type NotFoundError struct {
	What string // "job" or "output"
	ID   string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("no %s %q", e.What, e.ID) }

// ErrShutdown ends the jobs of a server that stops.
var ErrShutdown = errors.New("the server stopped")

// Options are what a Manager is made of.
type Options struct {
	Bridge   *bridge.Bridge
	Notebook *notebook.Notebook
	// SoftLimit is how long a foreground call waits. Default 45 s.
	SoftLimit time.Duration
	Records   *state.Blobs // ended jobs by id; nil keeps none
	Outputs   *state.Blobs // what results were cut of, by output_ref; nil keeps none
	// Words puts an error as a person reads it. Default: its text.
	Words func(error) string
	Log   *slog.Logger
}

// Manager owns the jobs and their goroutines. It is safe for concurrent use.
type Manager struct {
	opts Options
	root context.Context
	stop context.CancelCauseFunc
	wg   sync.WaitGroup

	finding sync.Mutex // one reading back at a time

	mu     sync.Mutex // guards all below
	jobs   []*Job     // oldest first
	closed bool
}

// keepJobs is how many ended jobs are kept, and keepFor for how long.
const (
	keepJobs = 64
	keepFor  = 24 * time.Hour
)

// RecordLimits and OutputLimits are the bounds for Options' blobs.
var (
	RecordLimits = state.Limits{Count: 4 * keepJobs, Bytes: 64 << 20} // the jobs themselves are counted here
	OutputLimits = state.Limits{Bytes: 256 << 20}
)

// New returns a Manager that knows the jobs an earlier process kept.
func New(o Options) *Manager {
	if o.SoftLimit == 0 {
		o.SoftLimit = 45 * time.Second
	}
	if o.Words == nil {
		o.Words = error.Error
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m := &Manager{opts: o}
	m.root, m.stop = context.WithCancelCause(context.Background())
	m.load()
	return m
}

// SoftLimit is how long a foreground call waits for its job.
func (m *Manager) SoftLimit() time.Duration { return m.opts.SoftLimit }

// Stop cancels all jobs: none begins another cell.
func (m *Manager) Stop() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop(ErrShutdown)
}

// Close stops all jobs and waits for them: a cell that runs is waited for
// until it ends or the tab is closed.
func (m *Manager) Close() {
	m.Stop()
	m.wg.Wait()
}

// Start makes a job of work, which must end soon after its context does, and
// takes its turns itself.
func (m *Manager) Start(kind string, work func(ctx context.Context, j *Job) error) *Job {
	return m.start(m.job(kind), work)
}

// job is a job that has not started.
func (m *Manager) job(kind string) *Job {
	return &Job{
		Kind: kind, Started: time.Now(), m: m, status: Queued, done: make(chan struct{}),
		peeking: make(chan struct{}, 1), notebook: m.opts.Bridge.Status().Notebook,
	}
}

func (m *Manager) start(j *Job, work func(ctx context.Context, j *Job) error) *Job {
	j.ctx, j.cancel = context.WithCancel(m.root)
	m.mu.Lock()
	for j.ID == "" || m.find(j.ID) != nil {
		j.ID = "job-" + uuid.NewString()[:8]
	}
	m.jobs = append(m.jobs, j)
	m.forget()
	closed := m.closed
	if !closed {
		m.wg.Add(1)
	}
	others := m.active()
	m.mu.Unlock()
	if closed {
		j.finish(ErrShutdown, m.opts.Words)
		close(j.done)
		return j
	}
	m.save(j)
	for _, other := range others { // or a long one would be the oldest on disk
		m.saveSometimes(other)
	}
	go func() {
		defer m.wg.Done()
		err := work(j.ctx, j)
		j.finish(err, m.opts.Words)
		j.cancel()
		m.save(j)
		close(j.done)
	}()
	return j
}

// find returns a job by id. m.mu is held.
func (m *Manager) find(id string) *Job {
	i := slices.IndexFunc(m.jobs, func(j *Job) bool { return j.ID == id })
	if i < 0 {
		return nil
	}
	return m.jobs[i]
}

// active lists the jobs that have not ended. m.mu is held.
func (m *Manager) active() []*Job {
	return slices.DeleteFunc(slices.Clone(m.jobs), func(j *Job) bool { return !j.end().IsZero() })
}

// forget drops the jobs over the bounds, those first that ended first. m.mu is
// held.
func (m *Manager) forget() {
	ended := slices.DeleteFunc(slices.Clone(m.jobs), func(j *Job) bool { return j.end().IsZero() })
	slices.SortStableFunc(ended, func(a, b *Job) int { return a.end().Compare(b.end()) })
	for i, j := range ended {
		if i >= len(m.jobs)-keepJobs && time.Since(j.end()) <= keepFor {
			ended = ended[:i]
			break
		}
	}
	if len(ended) == 0 {
		return
	}
	m.jobs = slices.DeleteFunc(m.jobs, func(j *Job) bool { return slices.Contains(ended, j) })
	for _, j := range ended {
		j.mu.Lock()
		j.forgotten = true
		j.mu.Unlock()
		m.drop(j.ID)
	}
}

// drop removes what is kept of a job on disk.
func (m *Manager) drop(id string) {
	if m.opts.Records == nil {
		return
	}
	if err := m.opts.Records.Delete(id); err != nil {
		m.opts.Log.Warn("job still on disk", "job", id, "err", err)
	}
}

// Job returns a job by id; the error is a *[NotFoundError].
func (m *Manager) Job(id string) (*Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	if j := m.find(id); j != nil {
		return j, nil
	}
	return nil, &NotFoundError{"job", id}
}

// List returns the jobs, newest first.
func (m *Manager) List() []*Job {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	list := slices.Clone(m.jobs)
	slices.Reverse(list)
	return list
}

// Busy names the job that has the turn, or else the next that runs or waits,
// for who would take its tab away.
func (m *Manager) Busy() (op string, since time.Time, busy bool) {
	holder, _, _ := m.opts.Bridge.Gate().Holder()
	for _, j := range m.List() {
		if !j.end().IsZero() {
			continue
		}
		op, since, busy = j.String(), j.Started, true
		if op == holder {
			break
		}
	}
	return op, since, busy
}
