package jobs

import (
	"context"
	"errors"
	"fmt"
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
		if errors.Is(failed, context.Canceled) && ctx.Err() != nil {
			j.set(it, notebook.StatusCancelled)
		}
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
		if !j.pause(ctx, &pause, began) {
			return nil // not run is what it is
		}
	}
}

// pause waits before a cell that did not run is tried again, longer each time.
func (j *Job) pause(ctx context.Context, pause *time.Duration, began time.Time) bool {
	j.Note(fmt.Sprintf("the cell did not run yet, waiting for the runtime (%.0f s)", time.Since(began).Seconds()))
	wait := time.NewTimer(*pause)
	defer wait.Stop()
	*pause = min(2**pause, 8*time.Second)
	select {
	case <-wait.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (m *Manager) tryItem(ctx context.Context, j *Job, it *item, g *guard) error {
	tab, err := m.opts.Bridge.Tab(ctx, nil)
	if err != nil {
		return err
	}
	turn, err := m.opts.Bridge.Gate().Enter(ctx, fmt.Sprintf("%s (%s)", j.Kind, j.ID), tab.Gone())
	if err != nil {
		return err
	}
	defer turn.Leave()
	before, ok, err := notebook.Find(ctx, tab, it.cell.ID, it.cell.Index)
	switch {
	case err != nil:
		return err
	case !ok:
		j.set(it, notebook.StatusMissing)
		return nil
	case before.Type != notebook.Code:
		j.set(it, notebook.StatusNotCode)
		return nil
	}
	if it.latest > 0 {
		if err := g.arm(ctx, m, tab, it.latest, before.Source); err != nil {
			return err
		}
	}
	before.Outputs = nil // of an earlier run: not kept while this one runs
	j.begin(it, tab, before)
	ran, err := m.opts.Notebook.Run(tab, before)
	if err != nil {
		j.stop(it)
		return err
	}
	var fired *notebook.Fired
	if it.latest > 0 {
		fired = g.fired(ctx)
	}
	m.finish(j, it, ran, fired)
	return nil
}

// begin marks a cell as the one that runs.
func (j *Job) begin(it *item, tab *bridge.Tab, c notebook.Cell) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.status, j.now, j.note = Running, it, ""
	it.tab, it.cell, it.began, it.heard, it.said = tab, c, time.Now(), time.Now(), 0
	it.view = it.blank(notebook.StatusRunning)
}

// stop marks a cell whose answer will not come.
func (j *Job) stop(it *item) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.now = nil
	it.view.DurationS = notebook.Seconds(time.Since(it.began))
	it.view.AddNote("no answer came: whether it ran to its end is not known")
}

func (j *Job) set(it *item, status string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	it.view.Status = status
}

func (j *Job) statusOf(it *item) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return it.view.Status
}
