package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
)

// plan is which cells to run, and how.
type plan struct {
	kind        string
	cells       []notebook.Cell // in order; text cells among them were asked for by id
	stopOnError bool
	timeout     time.Duration // per cell, 0 = none
}

// startCells makes a job of a plan.
func (m *Manager) startCells(p plan) *Job {
	j := m.job(p.kind)
	for _, c := range p.cells {
		it := &item{cell: c, counted: c.Type == notebook.Code, latest: p.timeout}
		it.view = it.blank("")
		if !it.counted {
			it.view.Status = notebook.StatusNotCode
		}
		it.cell.Source = "" // read again when its turn comes
		j.items = append(j.items, it)
	}
	return m.start(j, func(ctx context.Context, j *Job) error { return m.runCells(ctx, j, p) })
}

// runCells runs the cells of a job, each in a turn of its own.
func (m *Manager) runCells(ctx context.Context, j *Job, p plan) error {
	var guard guard
	defer func() { guard.drop(j) }()
	var failed error
	stopped := false
	for _, it := range j.items {
		switch {
		case it.finished():
			continue
		case failed != nil || ctx.Err() != nil:
			j.set(it, notebook.StatusCancelled)
			continue
		case stopped:
			j.set(it, notebook.StatusSkipped)
			continue
		}
		failed = m.runItem(ctx, j, it, &guard)
		j.settle(it, failed)
		m.saveSometimes(j)
		switch j.statusOf(it) {
		case notebook.StatusError, notebook.StatusNotRun:
			stopped = p.stopOnError
		}
	}
	return failed
}

// startingUp is how long a cell that did not run is tried again, while the
// runtime may still be starting.
func (m *Manager) startingUp() time.Duration { return m.opts.SoftLimit }

// runItem runs one cell: it waits for a tab and a turn, and again while the
// runtime does not take it. The error is what kept us from an answer.
func (m *Manager) runItem(ctx context.Context, j *Job, it *item, g *guard) error {
	began, pause := time.Now(), time.Second
	for {
		err := m.tryItem(ctx, j, it, g)
		switch {
		case errors.Is(err, bridge.ErrTabGone):
			if time.Since(began) > m.startingUp() {
				return err
			}
			continue // nothing ran: once more on the tab that is re-opened
		case err != nil || j.statusOf(it) != notebook.StatusNotRun:
			return err
		case time.Since(began)+pause > m.startingUp():
			return nil
		}
		if err := j.pause(ctx, it, &pause, began); err != nil {
			return err
		}
	}
}

// pause waits before a cell that did not run is tried again, longer each time.
func (j *Job) pause(ctx context.Context, it *item, pause *time.Duration, began time.Time) error {
	j.set(it, "") // it waits again
	j.Note(fmt.Sprintf("the cell did not run yet, waiting for the runtime (%.0f s)", time.Since(began).Seconds()))
	wait := time.NewTimer(*pause)
	defer wait.Stop()
	*pause = min(2**pause, 8*time.Second)
	select {
	case <-wait.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *Manager) tryItem(ctx context.Context, j *Job, it *item, g *guard) error {
	tab, err := m.opts.Bridge.Tab(ctx, nil)
	if err != nil {
		return err
	}
	turn, err := m.opts.Bridge.Gate().Enter(ctx, j.String(), tab.Gone())
	if err != nil {
		return err
	}
	defer turn.Leave()
	before, ok, err := notebook.Find(ctx, tab, it.cell.ID, it.cell.Index)
	switch {
	case errors.Is(err, bridge.ErrTooLarge): // and would be each time
		j.refuse(it, "it was not run: the output that it shows is too large to be read, and broke the connection. Give its code a new cell")
		return nil
	case err != nil:
		return err
	case !ok:
		j.set(it, notebook.StatusMissing)
		return nil
	case before.Type != notebook.Code:
		j.set(it, notebook.StatusNotCode)
		return nil
	case m.ranAfterAll(j, it, before):
		return nil
	}
	before.Outputs = nil // of an earlier run: not held while this one runs
	err = m.attempt(ctx, j, it, g, attempt{
		tab: tab, source: before.Source,
		ready: func(context.Context) (notebook.Cell, error) { return before, nil },
		run:   func() (notebook.Ran, error) { return m.opts.Notebook.Run(tab, before) },
	})
	if isRefusal(err) {
		if _, ok, err := notebook.Find(ctx, tab, before.ID, before.Index); err == nil && !ok {
			j.set(it, notebook.StatusMissing) // deleted at the last moment
			return nil
		}
	}
	return err
}

// ranAfterAll looks, before a cell is tried again, whether it has a count by
// now: a page may show it late, and a cell that ran is not run again.
func (m *Manager) ranAfterAll(j *Job, it *item, now notebook.Cell) bool {
	j.mu.Lock()
	tried := !it.began.IsZero()
	took := time.Since(it.began)
	late := tried && ended(it.cell, now)
	j.mu.Unlock()
	if late {
		m.finish(j, it, notebook.Ran{Outputs: now.Outputs, Count: now.ExecutionCount, Took: took}, nil)
	}
	return late
}

// attempt is how one cell is run once.
type attempt struct {
	tab    *bridge.Tab
	source string
	ready  func(context.Context) (notebook.Cell, error) // the cell, as it is to run
	run    func() (notebook.Ran, error)
}

// attempt runs a cell once, with its deadline if it has one. The caller holds
// the turn.
func (m *Manager) attempt(ctx context.Context, j *Job, it *item, g *guard, a attempt) error {
	timed := it.latest > 0 && strings.TrimSpace(a.source) != "" // no hook sees a blank cell begin
	if timed {
		err := g.arm(ctx, m, a.tab, it.latest, a.source)
		if errors.Is(err, errNotTaken) {
			m.notTaken(j, it)
			return nil
		}
		if err != nil {
			return err
		}
	}
	c, err := a.ready(ctx)
	if err == nil {
		err = m.begin(ctx, j, it, a.tab, c)
	}
	if err != nil {
		if timed {
			g.fired(ctx) // disarms
		}
		return err
	}
	ran, err := a.run()
	if err != nil {
		j.stop(it, ran.Result, err)
		if timed && !unanswered(err) {
			g.fired(ctx)
		}
		return err
	}
	var fired *notebook.Fired
	if timed {
		fired = g.fired(ctx)
	}
	m.finish(j, it, ran, fired)
	return nil
}

// begin marks a cell as the one that runs, unless the job was cancelled: the
// error is then the context's. A cell that runs longer than a moment is kept as
// running, for the process that comes after a kill.
func (m *Manager) begin(ctx context.Context, j *Job, it *item, tab *bridge.Tab, c notebook.Cell) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	j.status, j.now, j.note = Running, it, ""
	it.tab, it.began, it.heard, it.said = tab, time.Now(), time.Now(), 0
	it.cell = notebook.Cell{Index: c.Index, ID: c.ID, Type: c.Type, ExecutionCount: c.ExecutionCount}
	it.view = it.blank(notebook.StatusRunning)
	var over context.CancelFunc
	it.over, over = context.WithCancel(context.Background())
	m.wg.Add(1)
	save := time.AfterFunc(saveEvery, func() {
		defer m.wg.Done()
		m.save(j)
	})
	it.end = func() {
		over()
		if save.Stop() {
			m.wg.Done()
		}
	}
	return nil
}

// stop marks a cell that got an error for an answer, or none. One that the tab
// refused or never got is as if it had not begun.
func (j *Job) stop(it *item, raw json.RawMessage, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rest(it)
	switch {
	case unanswered(err):
		it.view.DurationS = notebook.Seconds(time.Since(it.began))
		if it.large = errors.Is(err, bridge.ErrTooLarge); it.large {
			it.view.AddNote("it ran to its end, and its output is too large to be taken: reading it with get_cells breaks the connection again")
			break
		}
		it.view.AddNote("no answer came: whether it ran to its end is not known")
	case raw != nil || isRefusal(err):
		it.view = it.blank(notebook.StatusError)
		it.view.AddNote(err.Error())
	default:
		it.view = it.blank("")
	}
}

// rest ends the run of a cell, if it runs. j.mu is held.
func (j *Job) rest(it *item) {
	if it.end != nil {
		it.end()
	}
	j.now, it.partial, it.over, it.end = nil, nil, nil, nil
}

// settle gives a cell that an error kept from running its status.
func (j *Job) settle(it *item, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil && it.view.Status == "" {
		it.view.Status = notebook.StatusCancelled
	}
}

func (j *Job) set(it *item, status string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	it.view.Status = status
}

// refuse gives a cell that cannot be run its status, and says why.
func (j *Job) refuse(it *item, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	it.view = it.blank(notebook.StatusError)
	it.view.AddNote(why)
}

func (j *Job) statusOf(it *item) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return it.view.Status
}
