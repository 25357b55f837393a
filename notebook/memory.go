package notebook

import (
	"container/list"
	"encoding/json"
)

// memoryBytes bounds what is remembered of runs, for the export of cells whose
// outputs the tab does not give.
const memoryBytes = 32 << 20

// memory holds what the last run here of each cell returned, newest runs
// first. Its owner guards it.
type memory struct {
	byID  map[string]*list.Element
	order list.List // of *lastRun, newest first
	bytes int
}

type lastRun struct {
	id, source string
	outputs    []json.RawMessage
	bytes      int
}

func (m *memory) put(id, source string, outs []Output) {
	m.drop(id)
	r := &lastRun{id: id, source: source, bytes: len(source)}
	for _, o := range outs {
		r.outputs = append(r.outputs, o.Raw)
		r.bytes += len(o.Raw)
	}
	if r.bytes > memoryBytes {
		return
	}
	if m.byID == nil {
		m.byID = map[string]*list.Element{}
	}
	m.byID[id] = m.order.PushFront(r)
	m.bytes += r.bytes
	for m.bytes > memoryBytes {
		m.drop(m.order.Back().Value.(*lastRun).id)
	}
}

func (m *memory) drop(id string) {
	e, ok := m.byID[id]
	if !ok {
		return
	}
	delete(m.byID, id)
	m.bytes -= m.order.Remove(e).(*lastRun).bytes
}

func (m *memory) clear() { *m = memory{} }

// Remembered is what the last run here of a cell returned, if its source has
// not changed since.
func (n *Notebook) Remembered(id, source string) ([]json.RawMessage, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.here()
	e, ok := n.runs.byID[id]
	if !ok || e.Value.(*lastRun).source != source {
		return nil, false
	}
	return e.Value.(*lastRun).outputs, true
}
