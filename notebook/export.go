package notebook

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
)

// ExportOptions say what goes into the file besides the cells' sources.
type ExportOptions struct {
	// Outputs includes outputs and execution counts.
	Outputs bool

	// Memory is what the last run here of a cell returned, if its source is
	// still the same. It is asked only for code cells of which the tab
	// mentioned no outputs; an explicit empty list wins. nil is no memory.
	Memory func(cellID, source string) ([]json.RawMessage, bool)
}

// Exported is what Export wrote.
type Exported struct {
	Bytes             int64
	Cells             int
	OutputsFromMemory int // cells
}

// Export writes cells as a notebook in nbformat 4.5, laid out as Jupyter does.
// Every cell is written as it comes and then forgotten, so cells may be fetched
// in batches. An error of the iterator ends it and is returned as it is; what
// was written by then is no notebook.
//
// The same cells give the same bytes. What the format does not allow in its
// place is kept where it does: an unknown output as a display that says so, a
// malformed reserved metadata key under "colab-mcp/" and its name.
func Export(w io.Writer, cells iter.Seq2[Cell, error], o ExportOptions) (Exported, error) {
	e := exporter{w: bufio.NewWriterSize(w, 1<<16), options: o}
	e.write("{\n \"cells\": [")
	for c, err := range cells {
		if err != nil {
			return e.done, err
		}
		if err := e.cell(c); err != nil {
			return e.done, fmt.Errorf("export of cell %d: %w", e.done.Cells, err)
		}
	}
	if e.done.Cells > 0 {
		e.write("\n ")
	}
	e.write(`],
 "metadata": {
  "kernelspec": {
   "display_name": "Python 3",
   "name": "python3"
  },
  "language_info": {
   "name": "python"
  }
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
`)
	if err := e.w.Flush(); err != nil {
		return e.done, fmt.Errorf("export: %w", err)
	}
	return e.done, nil
}

type exporter struct {
	w       *bufio.Writer // its error sticks until Flush
	buf     bytes.Buffer  // one cell
	ids     ids
	options ExportOptions
	done    Exported
}

func (e *exporter) write(s string) {
	n, _ := e.w.WriteString(s)
	e.done.Bytes += int64(n)
}

// The cells of the schema, their keys in Jupyter's order.
type (
	codeCell struct {
		CellType       string            `json:"cell_type"`
		ExecutionCount *int              `json:"execution_count"`
		ID             string            `json:"id"`
		Metadata       object            `json:"metadata"`
		Outputs        []json.RawMessage `json:"outputs"`
		Source         []string          `json:"source"`
	}
	textCell struct {
		Attachments json.RawMessage `json:"attachments,omitempty"`
		CellType    string          `json:"cell_type"`
		ID          string          `json:"id"`
		Metadata    object          `json:"metadata"`
		Source      []string        `json:"source"`
	}
)

func (e *exporter) cell(c Cell) error {
	var v any
	meta := cellMetadata(c)
	id := e.ids.assign(c)
	if c.Type == Code {
		outs := []json.RawMessage{}
		var executed *int
		if e.options.Outputs {
			executed = legalCount(c.ExecutionCount)
			var err error
			if outs, err = e.outputs(c); err != nil {
				return err
			}
		}
		v = codeCell{Code, executed, id, meta, outs, lines(c.Source)}
	} else {
		kind := Raw
		if c.Type == Markdown {
			kind = Markdown
		}
		v = textCell{legalAttachments(c.Attachments), kind, id, meta, lines(c.Source)}
	}
	e.buf.Reset()
	enc := json.NewEncoder(&e.buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("  ", " ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	if e.done.Cells > 0 {
		e.write(",")
	}
	e.write("\n  ")
	n, err := e.w.Write(bytes.TrimSuffix(e.buf.Bytes(), []byte("\n")))
	e.done.Bytes += int64(n)
	e.done.Cells++
	return err
}

// outputs are the cell's, or those remembered of its last run.
func (e *exporter) outputs(c Cell) ([]json.RawMessage, error) {
	outs := c.Outputs
	if !c.HasOutputs && e.options.Memory != nil {
		if raw, ok := e.options.Memory(c.ID, c.Source); ok {
			outs = decodeOutputs(raw)
			e.done.OutputsFromMemory++
		}
	}
	legal := make([]json.RawMessage, len(outs))
	for i, o := range outs {
		var err error
		if legal[i], err = legalOutput(o, c.ExecutionCount); err != nil {
			return nil, fmt.Errorf("output %d: %w", i, err)
		}
	}
	return legal, nil
}

// legalCount is n if the schema takes it.
func legalCount(n *int) *int {
	if n == nil || *n < 0 {
		return nil
	}
	return n
}
