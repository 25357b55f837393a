package notebook

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
)

type exportParams struct {
	Path      string `json:"path" doc:"File to write on this machine, ending in .ipynb."`
	Overwrite bool   `json:"overwrite,omitempty" doc:"Whether to replace an existing file. Default false."`
	Outputs   *bool  `json:"include_outputs,omitempty" doc:"Whether to include outputs and execution counts. Default true."`
}

type exportResult struct {
	Path       string `json:"path"`
	Bytes      int64  `json:"bytes"`
	Cells      int    `json:"cells"`
	Format     string `json:"nbformat"`
	FromMemory int    `json:"outputs_from_memory"`
}

func addExport(tb *bridge.Toolbox, n *Notebook, local *Local) {
	bridge.AddTool(tb, &mcp.Tool{
		Name:        "export_notebook",
		Title:       "Export the notebook",
		Description: "Writes the notebook as an .ipynb file (nbformat 4.5) on this machine, with its outputs. Opens in Jupyter.",
		Annotations: bridge.Hints("Export the notebook", false, false, true, false),
	}, func(ctx context.Context, c *bridge.Call, p exportParams) (*mcp.CallToolResult, error) {
		if !strings.EqualFold(filepath.Ext(p.Path), ".ipynb") {
			return nil, &bridge.ArgumentError{Tool: "export_notebook", Problem: "path: expected a file name that ends in .ipynb"}
		}
		tab, err := tb.Bridge.Tab(ctx, c.Progress.Waiting)
		if err != nil {
			return nil, err
		}
		res, err := n.exportFile(ctx, tab, local, p)
		if err != nil {
			return nil, err
		}
		return bridge.Answer(res)
	})
}

// exportFile writes the file whole or not at all.
func (n *Notebook) exportFile(ctx context.Context, tab *bridge.Tab, local *Local, p exportParams) (exportResult, error) {
	file, err := local.Stage(p.Path, "", p.Overwrite)
	if err != nil {
		return exportResult{}, err
	}
	defer file.Discard()
	outputs := p.Outputs == nil || *p.Outputs
	done, err := Export(file, n.all(ctx, tab, outputs), ExportOptions{Outputs: outputs, Memory: n.Remembered})
	if err != nil {
		return exportResult{}, err
	}
	if err := file.Commit(); err != nil {
		return exportResult{}, err
	}
	return exportResult{Path: file.Path, Bytes: done.Bytes, Cells: done.Cells, Format: "4.5", FromMemory: done.OutputsFromMemory}, nil
}

// ErrMoved: the notebook changed while it was read.
var ErrMoved = errors.New("the notebook changed while it was read")

var errStopped = errors.New("the reader has enough")

// all iterates over the notebook's cells, without the temporary ones, reading a
// few at a time. A notebook that somebody changes meanwhile is an error: a cell
// would be missing or there twice.
func (n *Notebook) all(ctx context.Context, tab *bridge.Tab, outputs bool) iter.Seq2[Cell, error] {
	return func(yield func(Cell, error) bool) {
		list, err := n.List(ctx, tab)
		if err != nil {
			yield(Cell{}, err)
			return
		}
		if !outputs {
			for _, c := range list {
				if !n.Hidden(c) && !yield(c, nil) {
					return
				}
			}
			return
		}
		w := walk{list: list, temporary: make([]bool, len(list))}
		for i, c := range list {
			w.temporary[i] = n.Hidden(c)
		}
		err = Each(ctx, tab, 0, len(list)-1, func(c Cell) error {
			shown, err := w.next(c, n.Hidden(c))
			if shown && !yield(c, nil) {
				return errStopped
			}
			return err
		})
		if err == nil {
			err = w.end()
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(Cell{}, err)
		}
	}
}

// walk compares the cells that are read one after the other with the list that was read before. Temporary ones may come and go meanwhile:
// other operations use them.
type walk struct {
	list      []Cell
	temporary []bool // of list
	at        int    // the next of list
}

// next reports whether c is to be shown; temporary is whether it is known as one now.
func (w *walk) next(c Cell, temporary bool) (bool, error) {
	for w.at < len(w.list) && w.temporary[w.at] && w.list[w.at].ID != c.ID {
		w.at++ // it is gone
	}
	if w.at < len(w.list) && w.list[w.at].ID == c.ID {
		w.at++
		return !w.temporary[w.at-1], nil
	}
	if temporary {
		return false, nil // it is new
	}
	return false, ErrMoved
}

// end reports whether cells are missing.
func (w *walk) end() error {
	if slices.Contains(w.temporary[w.at:], false) {
		return ErrMoved
	}
	return nil
}
