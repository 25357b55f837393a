package notebook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"colab-mcp/bridge"
)

// Notebook is the notebook that the tab shows, as composite tools use it. It
// remembers which cells are ours and what ran here. Safe for concurrent use;
// who runs a cell holds the turn.
type Notebook struct {
	// Keep is told of every change of the temporary cells that are about, so
	// that another process can sweep them. It must not block; nil keeps nothing.
	Keep func([]Temp)
	// Where names the notebook that the tab shows; nil if there is only one.
	Where func() string
	Log   *slog.Logger

	mu    sync.Mutex // guards all below
	temps []Temp
	noted int    // temporary cells so far
	last  int    // execution count that this runtime has reached at least, 0 if none was seen
	anew  bool   // it has started anew, and no result has said so
	of    string // the notebook that all this is about
	runs  memory

	sight sight
}

// New returns a Notebook that knows of the temporary cells an earlier process
// left about.
func New(left []Temp, log *slog.Logger) *Notebook {
	n := &Notebook{Log: log}
	for _, t := range left {
		n.note(nil, &t)
	}
	return n
}

// here names the notebook that the tab shows, or showed last; what is
// remembered of another one is forgotten, its temporary cells apart. n.mu is
// held.
func (n *Notebook) here() string {
	if n.Where == nil {
		return n.of
	}
	if now := n.Where(); now != "" && now != n.of {
		n.of, n.last, n.anew = now, 0, false
		n.runs.clear()
	}
	return n.of
}

// Cells reads the cells first to last, both included and from 0; last < 0 is
// the notebook's end. Indexes are the notebook's.
func Cells(ctx context.Context, tab *bridge.Tab, first, last int, outputs bool) ([]Cell, error) {
	args := fmt.Appendf(nil, `{"cellIndexStart":%d,"includeOutputs":%t`, first, outputs)
	if last >= 0 {
		args = fmt.Appendf(args, `,"cellIndexEnd":%d`, last)
	}
	payload, err := ask(ctx, tab, bridge.GetCells, append(args, '}'))
	if err != nil {
		return nil, err
	}
	cells, err := DecodeCells(payload)
	for i := range cells {
		cells[i].Index += first
	}
	return cells, err
}

// List reads all cells without outputs, temporary ones included.
func List(ctx context.Context, tab *bridge.Tab) ([]Cell, error) {
	payload, err := ask(ctx, tab, bridge.GetCells, json.RawMessage(`{}`))
	if err != nil {
		return nil, err
	}
	return DecodeCells(payload)
}

// ask calls a tool that runs no code and returns its payload.
func ask(ctx context.Context, tab *bridge.Tab, tool string, args json.RawMessage) (json.RawMessage, error) {
	raw, err := tab.Call(ctx, tool, args, nil)
	var said *bridge.RPCError
	if errors.As(err, &said) {
		return nil, &bridge.ToolError{Tool: tool, Text: said.Message}
	}
	if err != nil {
		return nil, err
	}
	return Payload(tool, raw)
}

// Find reads one cell by id, with its outputs. at is where it was last seen.
// ok is false when the notebook has no such cell.
func Find(ctx context.Context, tab *bridge.Tab, id string, at int) (c Cell, ok bool, err error) {
	return find(ctx, tab, id, at, true)
}

func find(ctx context.Context, tab *bridge.Tab, id string, at int, outputs bool) (c Cell, ok bool, err error) {
	if at >= 0 {
		cells, err := Cells(ctx, tab, at, at, outputs)
		if err != nil && !refused(err) { // an index past the end may be refused
			return Cell{}, false, err
		}
		if len(cells) == 1 && cells[0].ID == id {
			return cells[0], true, nil
		}
	}
	all, err := List(ctx, tab)
	if err != nil {
		return Cell{}, false, err
	}
	for _, c := range all {
		if c.ID != id {
			continue
		}
		if !outputs {
			return c, true, nil
		}
		cells, err := Cells(ctx, tab, c.Index, c.Index, true)
		if err == nil && len(cells) == 1 && cells[0].ID == id {
			return cells[0], true, nil
		}
		return c, true, err
	}
	return Cell{}, false, nil
}

func refused(err error) bool {
	var said *bridge.ToolError
	return errors.As(err, &said)
}
