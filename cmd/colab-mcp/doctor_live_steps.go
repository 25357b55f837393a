package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
)

// probeStep is one thing tried. must: the server cannot work without it; the
// others differ between builds of Colab, and what they find is the point.
type probeStep struct {
	name string
	must bool
	do   func(*probe) (detail string, err error)
}

var probeSteps = []probeStep{
	{"greeting", true, (*probe).greeting},
	{"tools", true, (*probe).tools},
	{"cells", true, (*probe).cells},
	{"round trip", true, (*probe).roundTrip},
	{"add", true, (*probe).pastTheEnd},
	{"run", true, (*probe).oneRun},
	{"empty run", true, (*probe).empty},
	{"exception", true, (*probe).exception},
	{"plot", false, (*probe).plot},
	{"live output", false, (*probe).liveOutput},
	{"bad id", true, (*probe).badID},
	{"bad call", true, (*probe).badCall},
	{"ranges", true, (*probe).ranges},
	{"move", true, (*probe).move},
	{"files", false, (*probe).files},
	{"large cell", true, (*probe).largest},
}

func (p *probe) greeting() (string, error) {
	var h struct {
		ProtocolVersion, Instructions string
		ServerInfo, Capabilities      json.RawMessage
	}
	if err := json.Unmarshal(p.hello, &h); err != nil {
		return "", fmt.Errorf("initialize: %w", err)
	}
	return fmt.Sprintf("protocol %s, server %s, capabilities %s, instructions %q", h.ProtocolVersion, h.ServerInfo, h.Capabilities, cut(h.Instructions)), nil
}

// tools compares the live list with the one known by heart.
func (p *probe) tools() (string, error) {
	var odd []string
	for _, known := range bridge.Catalog() {
		live, ok := p.tab.Lists(known.Name)
		if !ok {
			return "", errors.New("the tab has no " + known.Name)
		}
		if x, y := properties(known), properties(live); !slices.Equal(x, y) {
			odd = append(odd, fmt.Sprintf("%s takes %s instead of %s", known.Name, strings.Join(y, " "), strings.Join(x, " ")))
		}
	}
	tools := p.tab.Tools()
	for _, t := range tools {
		if _, known := bridge.Known(t.Name); !known {
			odd = append(odd, "new: "+t.Name)
		}
	}
	if len(odd) == 0 {
		return fmt.Sprintf("the %d known ones", len(tools)), nil
	}
	return strings.Join(odd, "; "), nil
}

// properties are the parameters a tool takes.
func properties(t bridge.Tool) []string {
	var schema struct {
		Properties map[string]json.RawMessage
	}
	json.Unmarshal(t.InputSchema, &schema)
	var list []string
	for name := range schema.Properties {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func (p *probe) cells() (string, error) {
	t, err := p.call(bridge.GetCells, map[string]any{})
	if _, err := t.must(err); err != nil {
		return "", err
	}
	cells, err := notebook.DecodeCells(t.raw)
	p.size = len(cells)
	return fmt.Sprintf("%d in the notebook, read in %s", len(cells), round(t.took)), err
}

func (p *probe) roundTrip() (string, error) {
	var reads []time.Duration
	for range 9 {
		t, err := p.call(bridge.GetCells, map[string]any{"cellIndexStart": 0, "cellIndexEnd": 0})
		if _, err := t.must(err); err != nil {
			return "", err
		}
		reads = append(reads, t.took)
	}
	slices.Sort(reads)
	return fmt.Sprintf("get_cells of one cell: median %s, %s to %s", round(reads[4]), round(reads[0]), round(reads[8])), nil
}

func (p *probe) pastTheEnd() (string, error) {
	id, err := p.cell("1")
	if err != nil {
		return "", err
	}
	cells, err := notebook.List(p.ctx, p.tab)
	if err != nil {
		return "", err
	}
	at := indexOf(cells, id)
	if at != len(cells)-1 {
		return "", fmt.Errorf("a cell added at 9999 is at %d of %d", at, len(cells))
	}
	return "at 9999 means at the end; ids are like " + shape(id), p.remove(id)
}

// shape is an id with its letters made one.
func shape(id string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9':
			return '0'
		case r >= 'a' && r <= 'z':
			return 'a'
		case r >= 'A' && r <= 'Z':
			return 'A'
		}
		return r
	}, id)
}

func indexOf(cells []notebook.Cell, id string) int {
	return slices.IndexFunc(cells, func(c notebook.Cell) bool { return c.ID == id })
}

// noCell is of the form of an id.
const noCell = "no-such-cell"

func (p *probe) badID() (string, error) {
	var said []string
	for _, c := range []struct {
		tool string
		args map[string]any
	}{
		{bridge.UpdateCell, map[string]any{"cellId": noCell, "content": "x"}},
		{bridge.DeleteCell, map[string]any{"cellId": noCell}},
		{bridge.MoveCell, map[string]any{"cellId": noCell, "cellIndex": 0}},
	} {
		t, err := p.call(c.tool, c.args)
		if err != nil {
			return "", err
		}
		said = append(said, c.tool+": "+t.refusal())
	}
	t, err := p.run(noCell)
	if err != nil {
		return "", err
	}
	return strings.Join(append(said, bridge.RunCodeCell+": "+t.refusal()), "; "), nil
}

func (p *probe) badCall() (string, error) {
	id, err := p.cell("1")
	if err != nil {
		return "", err
	}
	missing, err := p.call(bridge.MoveCell, map[string]any{"cellId": id})
	if err != nil {
		return "", err
	}
	unknown, err := p.call(bridge.GetCells, map[string]any{"nope": 1})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("missing argument: %s; unknown argument: %s", missing.refusal(), unknown.refusal()), p.remove(id)
}

func (p *probe) ranges() (string, error) {
	var said []string
	for _, r := range []struct {
		what       string
		start, end int
	}{{"start > end", 1, 0}, {"start past the end", p.size + 1000, p.size + 1001}, {"end past the end", 0, p.size + 1000}} {
		t, err := p.call(bridge.GetCells, map[string]any{"cellIndexStart": r.start, "cellIndexEnd": r.end})
		if err != nil {
			return "", err
		}
		word := t.refusal()
		if t.form == "" {
			cells, err := notebook.DecodeCells(t.raw)
			if err != nil {
				return "", err
			}
			word = fmt.Sprintf("%d cells", len(cells))
		}
		said = append(said, r.what+": "+word)
	}
	return strings.Join(said, "; "), nil
}

// move finds out what an index means to move_cell: a place among the cells as
// they are, or as they are without the one that moves.
func (p *probe) move() (string, error) {
	ids := make([]string, 3)
	for i := range ids {
		var err error
		if ids[i], err = p.cell(fmt.Sprint(i)); err != nil {
			return "", err
		}
	}
	before, err := notebook.List(p.ctx, p.tab)
	if err != nil {
		return "", err
	}
	first := indexOf(before, ids[0])
	t, err := p.call(bridge.MoveCell, map[string]any{"cellId": ids[0], "cellIndex": first + 1})
	if _, err := t.must(err); err != nil {
		return "", err
	}
	after, err := notebook.List(p.ctx, p.tab)
	if err != nil {
		return "", err
	}
	detail := ""
	switch now := indexOf(after, ids[0]); now {
	case first + 1:
		detail = "the index counts after the cell was taken out"
	case first:
		detail = "the index counts before the cell is taken out"
	default:
		return "", fmt.Errorf("a cell moved from %d to %d is at %d", first, first+1, now)
	}
	for _, id := range ids {
		if err := p.remove(id); err != nil {
			return "", err
		}
	}
	return detail, nil
}

// round is a time as one reads it.
func round(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
