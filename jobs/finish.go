package jobs

import (
	"encoding/json"
	"fmt"

	"colab-mcp/notebook"
)

// finish makes a cell's run its last view.
func (m *Manager) finish(j *Job, it *item, ran notebook.Ran, fired *notebook.Fired) {
	j.mu.Lock()
	v := it.blank(notebook.StatusOK)
	j.mu.Unlock()
	v.ExecutionCount, v.DurationS = ran.Count, notebook.Seconds(ran.Took)
	v.KernelRestarted = ran.Restarted || ran.Died
	shown := j.show.Render(ran.Outputs)
	v.Show(shown)
	switch {
	case fired != nil && fired.Fired:
		timedOut(&v, it)
	case fired != nil && fired.Known && !fired.Started && !ran.NotRun:
		v.AddNote("timeout_s was not kept: the kernel did not see this cell begin within ten minutes of setting it")
	case ran.Died:
		v.Status = notebook.StatusError
		v.Error = &notebook.Error{Name: "KernelDied", Value: "the kernel died or was disconnected while this cell ran: its variables are gone", Code: "kernel_died"}
		v.Error.Traceback = v.Error.Name + ": " + v.Error.Value
	case ran.NotRun:
		v.Status = notebook.StatusNotRun
		v.AddNote(whyNotRun)
	}
	shown.Error = v.Error
	last := &item{view: v}
	m.keep(last, ran.Outputs, shown)
	j.mu.Lock()
	defer j.mu.Unlock()
	it.view, it.ref, it.images = last.view, last.ref, shown.Images
	j.over(it, ran.Result)
}

// over ends a run that was answered. Only who relays the answer wants it raw.
// j.mu is held.
func (j *Job) over(it *item, raw json.RawMessage) {
	j.rest(it)
	if j.relays && !j.handed {
		it.raw = raw
	}
}

const whyNotRun = "the cell did not run. Likely causes: the page shows a dialog (\"Run anyway\" for a notebook from GitHub, or sign in), the runtime is still starting, or the kernel is stuck. Ask the user to look at the tab, then run it again"

// notTaken is the view of a cell that was not even tried, because the runtime
// did not run what comes before it.
func (m *Manager) notTaken(j *Job, it *item) {
	j.mu.Lock()
	defer j.mu.Unlock()
	it.view = it.blank(notebook.StatusNotRun)
	it.view.AddNote(whyNotRun)
}

// timedOut puts the deadline in the place of the KeyboardInterrupt by which it
// ended the cell. A shell command ends without even that.
func timedOut(v *notebook.View, it *item) {
	v.Status = notebook.StatusError
	if v.Error == nil {
		v.Error = &notebook.Error{Name: "Timeout"}
	}
	v.Error.Code = "timeout"
	v.Error.Value = fmt.Sprintf("timeout_s = %g passed and the cell was interrupted", it.latest.Seconds())
	if v.Error.Traceback == "" {
		v.Error.Traceback = v.Error.Name + ": " + v.Error.Value
	}
}
