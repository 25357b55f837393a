package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

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
	j.relays = true
	return m.start(j, func(ctx context.Context, j *Job) error { return m.relay(ctx, j, r) })
}

func (m *Manager) relay(ctx context.Context, j *Job, r relayed) error {
	it := j.items[0]
	err := m.tryRelay(ctx, j, it, r)
	j.settle(it, err)
	return err
}

func (m *Manager) tryRelay(ctx context.Context, j *Job, it *item, r relayed) error {
	tab, err := m.opts.Bridge.Tab(ctx, nil)
	if err != nil {
		return err
	}
	turn, err := m.opts.Bridge.Gate().Enter(ctx, j.String(), tab.Gone())
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
			if err := m.begin(ctx, j, it, tab, before); err != nil {
				return err
			}
			ran, err := m.opts.Notebook.Run(tab, before)
			if err != nil {
				return j.refused(it, ran.Result, err)
			}
			m.finish(j, it, ran, nil)
			if j.relayed(it) {
				m.opts.Notebook.Unsaid(ran) // the tab's own answer does not say it
			}
			return nil
		}
	}
	if err := m.begin(ctx, j, it, tab, it.cell); err != nil {
		return err
	}
	raw, err := tab.Run(r.tool, r.args, r.progress)
	if err != nil {
		return j.refused(it, raw, err)
	}
	m.answered(j, it, r.tool, raw)
	return nil
}

// answered keeps what an unknown tool answered, as a cell's outputs are.
func (m *Manager) answered(j *Job, it *item, tool string, raw json.RawMessage) {
	j.mu.Lock()
	last := &item{view: it.blank(notebook.StatusOK)}
	j.mu.Unlock()
	if _, err := notebook.Payload(tool, raw); isRefusal(err) {
		last.view.Status = notebook.StatusError
	}
	outs := notebook.AnswerOutputs(tool, raw)
	shown := j.show.Render(outs)
	last.view.Show(shown)
	m.keep(last, outs, shown)
	j.mu.Lock()
	defer j.mu.Unlock()
	last.view.DurationS = notebook.Seconds(time.Since(it.began))
	it.view, it.ref, it.images = last.view, last.ref, shown.Images
	j.over(it, raw)
}

// relayed reports whether the tab's answer is there for who waits for it.
func (j *Job) relayed(it *item) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return it.raw != nil
}

// refused ends a run that the tab answered with an error, which is relayed, or
// did not answer.
func (j *Job) refused(it *item, raw json.RawMessage, err error) error {
	j.stop(it, raw, err)
	if raw == nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.handed {
		it.raw = raw
	}
	return nil
}

func isRefusal(err error) bool {
	var said *bridge.ToolError
	return errors.As(err, &said)
}

// answer is what the tab answered, once: a job does not keep it, nor what comes
// later.
func (j *Job) answer() json.RawMessage {
	j.mu.Lock()
	defer j.mu.Unlock()
	raw := j.items[0].raw
	j.items[0].raw, j.handed = nil, true
	return raw
}
