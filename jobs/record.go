package jobs

import (
	"encoding/json"
	"slices"
	"time"

	"colab-mcp/notebook"
)

// record is a job as it is kept on disk.
type record struct {
	ID       string          `json:"id"`
	Kind     string          `json:"kind"`
	Status   string          `json:"status"`
	Started  time.Time       `json:"started"`
	Ended    time.Time       `json:"ended,omitzero"`
	Notebook string          `json:"notebook,omitempty"`
	Words    string          `json:"words,omitempty"`
	Note     string          `json:"note,omitempty"`
	Progress json.RawMessage `json:"progress,omitempty"`
	Cells    []cellRecord    `json:"cells,omitempty"`
}

type cellRecord struct {
	ID      string        `json:"id,omitempty"`
	Index   int           `json:"index"`
	Before  *int          `json:"before,omitempty"` // execution count before the run
	Counted bool          `json:"counted,omitempty"`
	Temp    bool          `json:"temp,omitempty"`
	Large   bool          `json:"large,omitempty"`
	Began   time.Time     `json:"began,omitzero"`
	View    notebook.View `json:"view"`
	Ref     string        `json:"ref,omitempty"`
}

// restarted is what a job is told that ran when its server ended.
const restarted = "the server ended while this job ran: what was running went on in the notebook, and the cells after it were not started. Cells that are not listed may have run in its last second: see their execution counts"

func (j *Job) record() record {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := record{ID: j.ID, Kind: j.Kind, Status: j.status, Started: j.Started, Ended: j.ended, Notebook: j.notebook, Words: j.words, Note: j.note, Progress: j.progress}
	for _, it := range j.items {
		r.Cells = append(r.Cells, cellRecord{ID: it.cell.ID, Index: it.cell.Index, Before: it.cell.ExecutionCount, Counted: it.counted, Temp: it.temp, Large: it.large, Began: it.began, View: it.view, Ref: it.ref})
	}
	return r
}

// save keeps the job as it is. A disk that takes nothing costs the memory of
// an earlier process, never the job.
func (m *Manager) save(j *Job) {
	if m.opts.Records == nil {
		return
	}
	j.saving.Lock()
	defer j.saving.Unlock()
	raw, err := json.Marshal(j.record())
	if err == nil {
		err = m.opts.Records.Put(j.ID, raw)
	}
	if err != nil {
		m.opts.Log.Warn("job not kept", "job", j.ID, "err", err)
	}
	j.mu.Lock()
	j.saved = time.Now()
	gone := j.forgotten
	j.mu.Unlock()
	if gone {
		m.drop(j.ID)
	}
}

// saveEvery is how often a job that makes progress is kept.
const saveEvery = time.Second

// saveSometimes keeps a job of many quick cells without a write for each.
func (m *Manager) saveSometimes(j *Job) {
	j.mu.Lock()
	recent := time.Since(j.saved) < saveEvery
	j.mu.Unlock()
	if !recent {
		m.save(j)
	}
}

// load reads the jobs of earlier processes. One that was running is lost.
func (m *Manager) load() {
	if m.opts.Records == nil {
		return
	}
	for _, key := range m.opts.Records.Keys() {
		raw, err := m.opts.Records.Get(key)
		var r record
		if err != nil || json.Unmarshal(raw, &r) != nil || r.ID != key {
			m.opts.Log.Warn("kept job cannot be read", "job", key, "err", err)
			continue
		}
		j := m.restore(r)
		m.jobs = append(m.jobs, j)
		if r.Status != j.status {
			m.save(j)
		}
	}
	slices.SortStableFunc(m.jobs, func(a, b *Job) int { return a.Started.Compare(b.Started) })
}

func (m *Manager) restore(r record) *Job {
	j := &Job{ID: r.ID, Kind: r.Kind, Started: r.Started, m: m, cancel: func() {}, done: make(chan struct{})}
	j.status, j.ended, j.notebook, j.words, j.note, j.progress = r.Status, r.Ended, r.Notebook, r.Words, r.Note, r.Progress
	for _, c := range r.Cells {
		it := &item{counted: c.Counted, temp: c.Temp, large: c.Large, began: c.Began, view: c.View, ref: c.Ref}
		it.cell = notebook.Cell{ID: c.ID, Index: c.Index, Type: notebook.Code, ExecutionCount: c.Before}
		it.view.Images = 0 // they are not kept
		j.items = append(j.items, it)
	}
	if j.status == Queued || j.status == Running {
		j.status, j.ended, j.words = Lost, time.Now(), restarted
	}
	close(j.done)
	return j
}
