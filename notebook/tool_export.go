package notebook

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
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
		at := 0
		err = Each(ctx, tab, 0, len(list)-1, func(c Cell) error {
			if c.ID != list[at].ID {
				return ErrMoved
			}
			at++
			if n.Hidden(c) {
				return nil
			}
			if !yield(c, nil) {
				return errStopped
			}
			return nil
		})
		switch {
		case errors.Is(err, errStopped):
		case err != nil:
			yield(Cell{}, err)
		case at < len(list):
			yield(Cell{}, ErrMoved)
		}
	}
}
