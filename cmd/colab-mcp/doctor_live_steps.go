package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
	"colab-mcp/transfer"
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
		if !slices.ContainsFunc(bridge.Catalog(), func(k bridge.Tool) bool { return k.Name == t.Name }) {
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

func (p *probe) oneRun() (string, error) {
	after, ran, err := p.once("import sys\nprint('out')\nprint('err', file=sys.stderr)\n40 + 2")
	if err != nil {
		return "", err
	}
	outs, err := notebook.DecodeOutputs(ran.raw)
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(outs, func(o notebook.Output) bool { return strings.Contains(o.Text, "out") }) {
		return "", fmt.Errorf("what was printed is not in the outputs (%s)", kinds(outs))
	}
	return fmt.Sprintf("%s, outputs %s, execution_count %s, a cell has %s", round(ran.took), kinds(outs), number(after.ExecutionCount), keys(after)), nil
}

// keys says what the tab tells of a cell.
func keys(c notebook.Cell) string {
	list := []string{"cell_type", "id", "source"}
	if c.HasOutputs {
		list = append(list, "outputs")
	}
	if c.HasCount {
		list = append(list, "execution_count")
	}
	if c.Metadata != nil {
		list = append(list, "metadata "+cut(string(c.Metadata)))
	}
	return strings.Join(list, ", ")
}

func kinds(outs []notebook.Output) string {
	var list []string
	for _, o := range outs {
		list = append(list, strings.TrimSuffix(o.Type+" "+o.Name, " "))
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

func number(n *int) string {
	if n == nil {
		return "null"
	}
	return fmt.Sprint(*n)
}

func (p *probe) empty() (string, error) {
	after, ran, err := p.once("pass")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("outputs %s, execution_count %s", cut(string(ran.payload["outputs"])), number(after.ExecutionCount)), nil
}

func (p *probe) exception() (string, error) {
	_, ran, err := p.once("1 / 0")
	if err != nil {
		return "", err
	}
	outs, err := notebook.DecodeOutputs(ran.raw)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(outs, func(o notebook.Output) bool { return o.Type == notebook.ErrorOutput })
	if i < 0 {
		return "", fmt.Errorf("no error among the outputs: %s", kinds(outs))
	}
	return fmt.Sprintf("a result: %s: %s, %d lines of traceback", outs[i].EName, outs[i].EValue, len(outs[i].Traceback)), nil
}

// plotCode needs matplotlib, which Colab has; elsewhere an image is made by
// hand.
const plotCode = `try:
    import matplotlib.pyplot as plt
    plt.plot([1, 2]); plt.show()
except ImportError:
    from IPython.display import Image, display
    display(Image(data=bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c020000000b4944415478da6364f80f00010501012718e3660000000049454e44ae426082")))`

func (p *probe) plot() (string, error) {
	_, ran, err := p.once(plotCode)
	if err != nil {
		return "", err
	}
	outs, err := notebook.DecodeOutputs(ran.raw)
	if err != nil {
		return "", err
	}
	for _, o := range outs {
		if png := o.Data["image/png"]; png != nil {
			return fmt.Sprintf("%s with image/png of %d characters, in %s", o.Type, len(png), round(ran.took)), nil
		}
	}
	return "", fmt.Errorf("no image/png among the outputs: %s", kinds(outs))
}

// busyTime is how long the cell runs whose output is looked at meanwhile.
const busyTime = 6 * time.Second

func (p *probe) liveOutput() (string, error) {
	id, err := p.cell(fmt.Sprintf("import time\nprint('begun', flush=True)\ntime.sleep(%d)", int(busyTime.Seconds())))
	if err != nil {
		return "", err
	}
	began := time.Now()
	ended := make(chan error, 1)
	p.runs.Go(func() {
		ran, err := p.run(id)
		_, err = ran.must(err)
		ended <- err
	})
	seen, reads := time.Duration(0), 0
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				return "", err
			}
			if reads == 0 {
				return "", errors.New("get_cells is not answered while a cell runs")
			}
			if seen == 0 {
				return "", fmt.Errorf("%d reads while it ran, none showed its output", reads)
			}
			return fmt.Sprintf("seen after %s, %d reads while it ran", round(seen), reads), p.remove(id)
		case <-tick.C:
			t, err := p.call(bridge.GetCells, map[string]any{"cellIndexStart": p.size, "cellIndexEnd": p.size, "includeOutputs": true})
			if _, err := t.must(err); err != nil {
				return "", fmt.Errorf("get_cells while a cell runs: %w", err)
			}
			reads++
			if seen == 0 && strings.Contains(string(t.payload["cells"]), "begun\\n") {
				seen = time.Since(began)
			}
		}
	}
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
	none, err := p.call("no_such_tool", map[string]any{})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("missing argument: %s; unknown argument: %s; unknown tool: %s", missing.refusal(), unknown.refusal(), none.refusal()), p.remove(id)
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

// fileSize is what goes both ways.
const fileSize = 1 << 20

// files sends random bytes and fetches them back, as the server's tools do.
func (p *probe) files() (detail string, err error) {
	dir, err := os.MkdirTemp("", "colab-mcp-doctor-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	source, back := filepath.Join(dir, "sent"), filepath.Join(dir, "back")
	data := make([]byte, fileSize)
	rand.Read(data)
	if err := os.WriteFile(source, data, 0o600); err != nil {
		return "", err
	}
	local, err := notebook.NewLocal([]string{dir})
	if err != nil {
		return "", err
	}
	f, ch := &transfer.Files{Local: local}, &probeCells{p: p}
	defer func() { err = errors.Join(err, ch.drop()) }()
	remote := "colab-mcp-doctor-" + strings.ToLower(rand.Text()[:8])
	up, err := f.Upload(p.ctx, ch, transfer.Options{LocalPath: source, RemotePath: remote, Overwrite: true})
	if err != nil {
		return "", err
	}
	down, err := f.Download(p.ctx, ch, transfer.Options{LocalPath: back, RemotePath: up.RemotePath})
	_, _, gone := p.once(fmt.Sprintf("import os\nos.remove(%q)", up.RemotePath))
	if err = errors.Join(err, gone); err != nil {
		return "", err
	}
	if got, err := os.ReadFile(back); err != nil || string(got) != string(data) {
		return "", errors.New("what came back is not what was sent")
	}
	return fmt.Sprintf("1 MiB there in %.1f s and back in %.1f s, the same", up.Seconds, down.Seconds), nil
}

// probeCells is a transfer's channel in cells of ours. A transfer writes one
// while the other runs.
type probeCells struct {
	p   *probe
	ids [2]string
}

func (c *probeCells) Set(_ context.Context, i int, code string) (err error) {
	if c.ids[i] == "" {
		c.ids[i], err = c.p.cell(code)
		return err
	}
	t, err := c.p.call(bridge.UpdateCell, map[string]any{"cellId": c.ids[i], "content": code})
	_, err = t.must(err)
	return err
}

func (c *probeCells) Run(_ context.Context, i int) ([]notebook.Output, time.Duration, error) {
	t, err := c.p.run(c.ids[i])
	if _, err := t.must(err); err != nil {
		return nil, t.took, err
	}
	outs, err := notebook.DecodeOutputs(t.raw)
	return outs, t.took, err
}

func (c *probeCells) drop() error {
	var left error
	for _, id := range c.ids {
		if id != "" {
			left = errors.Join(left, c.p.remove(id))
		}
	}
	return left
}

// The sizes of cell that are tried, in bytes.
const (
	smallestTry = 256 << 10
	largestTry  = 8 << 20
)

func (p *probe) largest() (string, error) {
	id, err := p.cell("")
	if err != nil {
		return "", err
	}
	taken := 0
	end := fmt.Sprintf("%d MiB is taken, more was not tried", largestTry>>20)
	for size := smallestTry; size <= largestTry; size *= 2 {
		source := "#" + strings.Repeat("x", size-1)
		t, err := p.call(bridge.UpdateCell, map[string]any{"cellId": id, "content": source})
		if err == nil && t.form != "" {
			err = errors.New(t.refusal())
		}
		if err == nil {
			var after notebook.Cell
			after, _, err = notebook.Find(p.ctx, p.tab, id, p.size)
			if err == nil && after.Source != source {
				err = fmt.Errorf("%d bytes of it are in the cell", len(after.Source))
			}
		}
		if err != nil {
			end = fmt.Sprintf("%d KiB is the most: of %d KiB: %v", taken>>10, size>>10, err)
			break
		}
		taken = size
	}
	if taken == 0 {
		return "", errors.New(end)
	}
	return end, p.remove(id)
}

// round is a time as one reads it.
func round(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
