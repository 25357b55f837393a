package jobs

import (
	"context"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
)

type runNotebookParams struct {
	StopOnError *bool   `json:"stop_on_error,omitempty" doc:"Whether to skip the rest after a cell that fails. Default true."`
	Background  *bool   `json:"background,omitempty" doc:"Answer at once with a job_id for job_status. Default true."`
	TimeoutS    float64 `json:"timeout_s,omitempty" doc:"Seconds after which a cell is interrupted in the kernel, for each cell. Default: no deadline."`
}

func (t *tools) addRunNotebook() {
	bridge.AddTool(t.tb, &mcp.Tool{
		Name:        "run_notebook",
		Title:       "Run the whole notebook",
		Description: "Runs all code cells from top to bottom as a job and answers at once with its job_id; follow it with job_status. Other runs and edits can go between its cells.",
		Annotations: bridge.Hints("Run the whole notebook", false, true, false, true),
	}, t.runNotebook)
}

func (t *tools) runNotebook(ctx context.Context, c *bridge.Call, p runNotebookParams) (*mcp.CallToolResult, error) {
	limit, err := timeout("run_notebook", p.TimeoutS)
	if err != nil {
		return nil, err
	}
	tab, err := t.prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	cells, err := t.m.visible(ctx, tab)
	if err != nil {
		return nil, err
	}
	cells = slices.DeleteFunc(cells, func(c notebook.Cell) bool { return c.Type != notebook.Code })
	stop := p.StopOnError == nil || *p.StopOnError
	background := p.Background == nil || *p.Background
	return t.foreground(ctx, c, plan{kind: "run_notebook", cells: cells, stopOnError: stop, timeout: limit}, background)
}
