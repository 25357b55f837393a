package jobs

import (
	"encoding/json"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
)

// shot is a job's cells at one moment, with all their text, for one answer.
type shot struct {
	m     *Manager
	views []*notebook.View
	refs  map[*notebook.View]string // of those that are kept already
}

// seen is a cell at one moment, without the text that is kept under ref.
type seen struct {
	view notebook.View
	ref  string
}

// shoot takes the cells that have begun or ended; all of them with the ones
// that wait, too. The running one comes first.
func (j *Job) shoot(all bool) shot {
	j.mu.Lock()
	list := j.seen(all)
	j.mu.Unlock()
	return j.m.shot(list)
}

// seen is what shoot takes, for who wants more of the same moment. j.mu is held.
func (j *Job) seen(all bool) (list []seen) {
	now := time.Now()
	for _, it := range j.items {
		if it.view.Status == "" && !all {
			continue
		}
		one := seen{j.liveView(it, now), it.ref}
		if one.view.Status == "" {
			one.view.Status = notebook.StatusRunning // its turn has not come
		}
		if it == j.now {
			list = append([]seen{one}, list...)
		} else {
			list = append(list, one)
		}
	}
	return list
}

// shot reads the texts that are kept.
func (m *Manager) shot(list []seen) shot {
	s := shot{m: m, refs: map[*notebook.View]string{}}
	for _, one := range list {
		v := m.filled(one.view, one.ref)
		s.views = append(s.views, &v)
		if one.ref != "" {
			s.refs[&v] = one.ref
		}
	}
	return s
}

// fit encodes a result around the cells within the budget. What is cut can be
// fetched by its output_ref.
func (s shot) fit(budget notebook.Budget, layout func(shown []*notebook.View, leftOut int) any) ([]byte, error) {
	return notebook.Fit(s.views, budget, layout, func(v *notebook.View) (string, error) {
		if ref, ok := s.refs[v]; ok {
			return ref, nil
		}
		if s.m.opts.Outputs == nil {
			return "", &NotFoundError{"output", "without a state directory"}
		}
		r := notebook.Rendered{Stdout: v.Stdout, Stderr: v.Stderr, Result: v.Result, Error: v.Error}
		return s.m.store(notebook.Keep(nil, r))
	})
}

// soFar is the raw partial output of the running cell, if it is within half of
// the budget and all text, else the end of its text as one stream output. Pictures
// come as blocks with the job's result.
func (j *Job) soFar(budget notebook.Budget) []json.RawMessage {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := []json.RawMessage{}
	if j.now == nil {
		return list
	}
	size, pictures := 0, false
	for _, o := range j.now.partial {
		list = append(list, o.Raw)
		size += len(o.Raw)
		pictures = pictures || o.Pictured()
	}
	if size <= budget.Most/2 && !pictures {
		return list
	}
	v := j.now.view
	text := budget.Tail(v.Stdout + v.Stderr + v.Result)
	raw, err := bridge.EncodeJSON(struct {
		Type string `json:"output_type"`
		Name string `json:"name"`
		Text string `json:"text"`
	}{"stream", "stdout", text})
	if err != nil {
		return []json.RawMessage{}
	}
	return []json.RawMessage{raw}
}

// Remark is what the job says beside its cells; before its first turn, what it
// waits for.
func (j *Job) Remark() string {
	holder, _, _ := j.m.opts.Bridge.Gate().Holder()
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.remark(holder)
}

// remark is Remark while holder, if any, has the turn. j.mu is held.
func (j *Job) remark(holder string) string {
	if holder != "" && holder != j.String() && j.status == Queued && j.note == "" {
		return "not begun: it waits for its turn behind " + holder
	}
	return j.note
}
