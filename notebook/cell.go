package notebook

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrShape means that the tab's answer is not of the shape its tool promises.
// It comes with what was expected; nothing of the answer was used.
var ErrShape = errors.New("unexpected answer from the tab")

// Cell types. The tab may name others; they are kept as it names them.
const (
	Code     = "code"
	Markdown = "markdown" // the tab's "text", too
	Raw      = "raw"
)

// Cell is one cell as the tab showed it.
type Cell struct {
	// Index is the 0-based position in the answer. A caller that asked for a
	// range adds its start.
	Index  int
	Type   string
	ID     string // "" if the tab gave none
	Source string

	// ExecutionCount is nil while the cell runs and when it never ran.
	// HasCount tells such a null from a count that the tab did not mention.
	ExecutionCount *int
	HasCount       bool

	// HasOutputs tells an explicit empty list from outputs that the tab did
	// not mention.
	HasOutputs bool
	Outputs    []Output

	Metadata    json.RawMessage // as it came; nil if absent
	Attachments json.RawMessage // as they came; nil if absent
}

// DecodeCells reads the payload of get_cells, {"cells":[…]}. It refuses only
// what has no list of cells; a cell that makes no sense still takes its place,
// so that indexes hold.
func DecodeCells(payload json.RawMessage) ([]Cell, error) {
	items, err := member(payload, "cells")
	if err != nil {
		return nil, err
	}
	cells := make([]Cell, len(items))
	for i, raw := range items {
		cells[i] = decodeCell(raw)
		cells[i].Index = i
	}
	return cells, nil
}

func decodeCell(raw json.RawMessage) Cell {
	o, ok := decodeObject(raw)
	if !ok {
		return Cell{Type: Raw, Source: text(raw)}
	}
	c := Cell{
		Type:           text(o["cell_type"]),
		ID:             text(o["id"]),
		Source:         text(o["source"]),
		ExecutionCount: count(o["execution_count"]),
		Metadata:       o["metadata"],
		Attachments:    o["attachments"],
	}
	switch c.Type {
	case "text":
		c.Type = Markdown
	case "":
		c.Type = Raw
		if _, has := o["outputs"]; has {
			c.Type = Code
		}
	}
	_, c.HasCount = o["execution_count"]
	if outs, has := o["outputs"]; has {
		items, isList := decodeList(outs)
		c.HasOutputs = isList && items != nil
		c.Outputs = decodeOutputs(items)
	}
	return c
}

// member is the list under name in payload; null counts as an empty one.
func member(payload json.RawMessage, name string) ([]json.RawMessage, error) {
	o, ok := decodeObject(payload)
	if !ok {
		return nil, fmt.Errorf("%w: wanted an object with a list %q, got %s", ErrShape, name, glimpse(payload))
	}
	raw, has := o[name]
	if !has {
		return nil, fmt.Errorf("%w: wanted a list %q, got %s", ErrShape, name, glimpse(payload))
	}
	if string(raw) == "null" {
		return nil, nil
	}
	items, ok := decodeList(raw)
	if !ok {
		return nil, fmt.Errorf("%w: wanted %q to be a list, got %s", ErrShape, name, glimpse(raw))
	}
	return items, nil
}

// glimpse is the beginning of raw for an error's text.
func glimpse(raw json.RawMessage) string {
	const max = 80
	if len(raw) == 0 {
		return "nothing"
	}
	s := compact(raw[:min(len(raw), 4*max)])
	return clip(s, max)
}
