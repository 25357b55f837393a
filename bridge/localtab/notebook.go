package localtab

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
)

// A notebook is the document in memory. All methods may be called concurrently; none waits for a
// running cell.
type notebook struct {
	mu    sync.Mutex
	cells []*cell // the slice and what the cells hold are guarded by mu
	top   fields  // of the file: all but cells
}

// A cell is known by its id and keeps it when it is edited, moved or run.
type cell struct {
	id     string
	kind   string // "code", "markdown" or "raw"
	source string
	count  int // execution_count; 0 is null
	out    *outputs
	rest   fields // metadata and whatever else its file had
}

// newNotebook is Colab's fresh scratch notebook: one empty code cell.
func newNotebook() *notebook {
	nb := &notebook{top: fields{}}
	nb.cells = []*cell{{id: newID(), kind: "code", out: &outputs{}}}
	return nb
}

// newID returns 12 random characters of [A-Za-z0-9_-], as Colab's ids are.
func newID() string {
	var b [9]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// A wireError is a failure in the words of Colab's page, which clients know; it is answered as isError.
type wireError string

func (e wireError) Error() string { return string(e) }

// find returns the index of the cell with that id. The caller holds mu.
func (nb *notebook) find(id string) (int, error) {
	for i, c := range nb.cells {
		if c.id == id {
			return i, nil
		}
	}
	return 0, wireError("No cell was found with ID '" + id + "'")
}

// insert puts a new cell at index, or at the end if index is past it, and returns its id.
func (nb *notebook) insert(index int, kind, source string) string {
	c := &cell{id: newID(), kind: kind, source: source}
	if kind == "code" {
		c.out = &outputs{}
	}
	nb.mu.Lock()
	defer nb.mu.Unlock()
	nb.cells = slices.Insert(nb.cells, min(index, len(nb.cells)), c)
	return c.id
}

func (nb *notebook) update(id, source string) error {
	nb.mu.Lock()
	defer nb.mu.Unlock()
	i, err := nb.find(id)
	if err == nil {
		nb.cells[i].source = source
	}
	return err
}

// move takes the cell out and puts it back at index, counted without it and clamped to the end.
func (nb *notebook) move(id string, index int) error {
	nb.mu.Lock()
	defer nb.mu.Unlock()
	i, err := nb.find(id)
	if err != nil {
		return err
	}
	c := nb.cells[i]
	nb.cells = slices.Delete(nb.cells, i, i+1)
	nb.cells = slices.Insert(nb.cells, min(index, len(nb.cells)), c)
	return nil
}

// delete removes a cell. A run of it goes on and is answered.
func (nb *notebook) delete(id string) error {
	nb.mu.Lock()
	defer nb.mu.Unlock()
	i, err := nb.find(id)
	if err == nil {
		nb.cells = slices.Delete(nb.cells, i, i+1)
	}
	return err
}

// code returns the code cell with that id and its source.
func (nb *notebook) code(id string) (*cell, string, error) {
	nb.mu.Lock()
	defer nb.mu.Unlock()
	i, err := nb.find(id)
	if err != nil {
		return nil, "", err
	}
	c := nb.cells[i]
	if c.kind != "code" {
		return nil, "", wireError("The cell with ID '" + id + "' is not a code cell")
	}
	return c, c.source, nil
}

// begin shows a run in its cell: no outputs yet, execution_count null.
func (nb *notebook) begin(c *cell, out *outputs) {
	nb.mu.Lock()
	defer nb.mu.Unlock()
	c.out, c.count = out, 0
}

// end records the count of a run, unless the cell has begun another one.
func (nb *notebook) end(c *cell, out *outputs, count int) {
	nb.mu.Lock()
	defer nb.mu.Unlock()
	if c.out == out {
		c.count = count
	}
}

// output adds an event of the kernel to a run. A display that is updated changes wherever it is shown.
func (nb *notebook) output(out *outputs, e Event) error {
	nb.mu.Lock()
	defer nb.mu.Unlock()
	if e.Type != "update_display_data" {
		return out.apply(e)
	}
	changed, err := newOutput("display_data", e.Content)
	if err != nil {
		return err
	}
	shown := []*outputs{out} // its cell may be deleted
	for _, c := range nb.cells {
		if c.out != nil && c.out != out {
			shown = append(shown, c.out)
		}
	}
	for _, outs := range shown {
		for _, o := range outs.list {
			if o.display == changed.display && o.display != "" {
				o.raw = changed.raw
			}
		}
	}
	return nil
}

// outputsOf encodes what a run has shown, as the payload of run_code_cell.
func (nb *notebook) outputsOf(out *outputs) []byte {
	nb.mu.Lock()
	list := out.snapshot()
	nb.mu.Unlock()
	dst := make([]byte, 0, size(list)+32)
	dst = appendOutputs(append(dst, `{"outputs":`...), list)
	return append(dst, '}')
}

// cellsBetween encodes the cells from start to end, both inclusive and clamped, as the payload of
// get_cells. It holds the lock only to copy the range's headers.
func (nb *notebook) cellsBetween(start, end int, withOutputs bool) []byte {
	type view struct {
		cell
		list []output
	}
	nb.mu.Lock()
	end = min(end, len(nb.cells)-1)
	var views []view
	n := 32
	for i := start; i <= end; i++ {
		v := view{cell: *nb.cells[i]}
		if withOutputs {
			v.list = v.out.snapshot()
		}
		n += len(v.source) + len(v.source)/16 + size(v.list) + 128
		views = append(views, v)
	}
	nb.mu.Unlock()

	dst := append(make([]byte, 0, n), `{"cells":[`...)
	for i, v := range views {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendCell(dst, &v.cell)
		if withOutputs && v.kind == "code" {
			dst = appendCount(append(dst, `,"execution_count":`...), v.count)
			dst = appendOutputs(append(dst, `,"outputs":`...), v.list)
		}
		dst = append(dst, '}')
	}
	return append(dst, "]}"...)
}

// appendCell appends what every reader gets of a cell, without the closing brace. Metadata is shown
// where there is some.
func appendCell(dst []byte, c *cell) []byte {
	dst = appendString(append(dst, `{"cell_type":`...), c.kind)
	dst = appendString(append(dst, `,"id":`...), c.id)
	if m := c.rest["metadata"]; len(m) > len("{}") {
		dst = append(append(dst, `,"metadata":`...), m...)
	}
	return appendLines(append(dst, `,"source":`...), c.source)
}

func appendCount(dst []byte, count int) []byte {
	if count == 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, int64(count), 10)
}

// fields are the keys of a JSON object that are kept as they are.
type fields map[string]json.RawMessage
