package jobs

import (
	"context"
	"fmt"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
)

// Found looks for the cells of lost jobs in a notebook that is connected
// again: each is read once. A cell whose execution count has changed since has
// ended, with the outputs it shows; any other stays lost. Nothing is run.
func (m *Manager) Found(ctx context.Context, tab *bridge.Tab, name string) {
	m.finding.Lock()
	defer m.finding.Unlock()
	for _, j := range m.List() {
		j.mu.Lock()
		var it *item
		if j.status == Lost && j.notebook == name && name != "" {
			it = j.lostItem()
		}
		j.mu.Unlock()
		if it == nil {
			continue
		}
		c, ok, err := notebook.Find(ctx, tab, it.cell.ID, it.cell.Index)
		if err != nil {
			return
		}
		if !ok || !ended(it.cell, c) {
			j.Note("the notebook is connected again; the cell's outcome cannot be read from it yet")
			continue
		}
		m.recover(j, it, c)
	}
}

// lostItem is the cell that ran when the job was lost. j.mu is held.
func (j *Job) lostItem() *item {
	for _, it := range j.items {
		if it.view.Status == notebook.StatusRunning && it.cell.ID != "" && !it.large {
			return it
		}
	}
	return nil
}

// ended reports whether a cell has run to its end since it was last seen: it
// has a count, and another one.
func ended(before, now notebook.Cell) bool {
	return now.ExecutionCount != nil && (before.ExecutionCount == nil || *before.ExecutionCount != *now.ExecutionCount)
}

// recover makes what the cell shows the outcome of its job.
func (m *Manager) recover(j *Job, it *item, c notebook.Cell) {
	took := time.Since(it.began)
	m.finish(j, it, notebook.Ran{Outputs: c.Outputs, Count: c.ExecutionCount, Took: took}, nil)
	j.mu.Lock()
	it.view.DurationS = 0 // nobody saw it end
	it.view.AddNote("the tab had left while this ran; read back when the notebook returned")
	j.err, j.words = nil, ""
	j.status = j.outcome()
	if j.status == Cancelled {
		j.status, j.note = Failed, "the cell that ran was read back; the cells after it were not run"
	}
	j.mu.Unlock()
	m.save(j)
	m.opts.Log.Info("lost job found", "job", j.ID)
}

// LostError says that a foreground run's tab left. The job stays to be asked.
type LostError struct {
	JobID string
	Err   error
}

func (e *LostError) Error() string { return e.Err.Error() + " (" + e.JobID + ")" }
func (e *LostError) Unwrap() error { return e.Err }

// failure is the error that a foreground caller gets, nil for a job whose
// cells tell it all. It names a job that has more to tell.
func (j *Job) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	done, _ := j.count()
	switch {
	case unanswered(j.err):
		return &LostError{j.ID, j.err}
	case j.err != nil && done > 0 && len(j.items) > 1:
		return fmt.Errorf("%w (job_status of %s has the cells that ran)", j.err, j.ID)
	}
	return j.err
}
