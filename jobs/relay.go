package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
)

// relayed is a call of a tab's own tool that may run code.
type relayed struct {
	tool     string
	args     json.RawMessage
	cell     string                // the cell it runs, "" if that is not known
	progress func(json.RawMessage) // of the tab
}

// startRelay makes a job of a call whose answer is wanted as the tab gives it.
func (m *Manager) startRelay(r relayed) *Job {
	j := m.job(r.tool)
	j.items = []*item{{cell: notebook.Cell{ID: r.cell, Index: -1}, counted: true, temp: r.cell == ""}}
	return m.start(j, func(ctx context.Context, j *Job) error { return m.relay(ctx, j, r) })
}

func (m *Manager) relay(ctx context.Context, j *Job, r relayed) error {
	it := j.items[0]
	tab, err := m.opts.Bridge.Tab(ctx, nil)
	if err != nil {
		return err
	}
	turn, err := m.opts.Bridge.Gate().Enter(ctx, fmt.Sprintf("%s (%s)", j.Kind, j.ID), tab.Gone())
	if err != nil {
		return err
	}
	defer turn.Leave()
	if r.tool == bridge.RunCodeCell {
		before, ok, err := notebook.Find(ctx, tab, r.cell, it.cell.Index)
		if err != nil {
			return err
		}
		if ok {
			before.Outputs = nil
			j.begin(it, tab, before)
			ran, err := m.opts.Notebook.Run(tab, before)
			if err != nil {
				return j.refused(it, ran.Result, err)
			}
			m.finish(j, it, ran, nil)
			return nil
		}
	}
	j.begin(it, tab, it.cell)
	raw, err := tab.Run(r.tool, r.args, r.progress)
	if err != nil {
		return j.refused(it, raw, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	it.raw, j.now = raw, nil
	it.view = it.blank(notebook.StatusOK)
	if _, err := notebook.Payload(r.tool, raw); isRefusal(err) {
		it.view.Status = notebook.StatusError
	}
	if len(raw) <= maxReported {
		j.progress = raw
	}
	return nil
}

// maxReported is the largest answer of an unknown tool that a job keeps.
const maxReported = 1 << 20

// refused ends a run that the tab answered with an error, or did not answer.
func (j *Job) refused(it *item, raw json.RawMessage, err error) error {
	j.stop(it)
	if raw == nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	it.raw = raw
	it.view = it.blank(notebook.StatusError)
	it.view.AddNote(err.Error())
	return nil
}

func isRefusal(err error) bool {
	var said *bridge.ToolError
	return errors.As(err, &said)
}

// answer is what the tab answered, once: a job does not keep it.
func (j *Job) answer() json.RawMessage {
	j.mu.Lock()
	defer j.mu.Unlock()
	raw := j.items[0].raw
	j.items[0].raw = nil
	return raw
}
