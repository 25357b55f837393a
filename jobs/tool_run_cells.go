package jobs

import (
	"context"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
)

type runCellsParams struct {
	CellIDs     []string `json:"cell_ids,omitempty" doc:"Ids of the cells to run, in this order. Or give start and end."`
	Start       *int     `json:"start,omitempty" doc:"Index of the first cell to run, from 0."`
	End         *int     `json:"end,omitempty" doc:"Index of the last cell to run, included. Default: the last cell."`
	StopOnError *bool    `json:"stop_on_error,omitempty" doc:"Whether to skip the rest after a cell that fails. Default true."`
	Background  bool     `json:"background,omitempty" doc:"Answer at once with a job_id for job_status. Default false."`
	TimeoutS    float64  `json:"timeout_s,omitempty" doc:"Seconds after which a cell is interrupted in the kernel, for each cell. Default: no deadline."`
}

func (t *tools) addRunCells() {
	bridge.AddTool(t.tb, &mcp.Tool{
		Name:  "run_cells",
		Title: "Run cells",
		Description: "Runs code cells of the notebook, by ids or by a range of indexes, one after another, and returns their cleaned outputs. " +
			"What lasts longer than the soft limit goes on as a job: the answer then has status \"running\", a job_id and the output so far; ask job_status for the rest.",
		Annotations: bridge.Hints("Run cells", false, true, false, true),
		Meta:        bridge.Always(),
	}, t.runCells)
}

func (t *tools) runCells(ctx context.Context, c *bridge.Call, p runCellsParams) (*mcp.CallToolResult, error) {
	limit, err := timeout("run_cells", p.TimeoutS)
	if err != nil {
		return nil, err
	}
	byRange := p.Start != nil || p.End != nil
	if byRange == (len(p.CellIDs) > 0) {
		return nil, &bridge.ArgumentError{Tool: "run_cells", Problem: "give either cell_ids or start and end; run_notebook runs all cells"}
	}
	tab, err := t.prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	all, err := t.m.visible(ctx, tab)
	if err != nil {
		return nil, err
	}
	pick := func() ([]notebook.Cell, error) { return byIDs(all, p.CellIDs) }
	if byRange {
		pick = func() ([]notebook.Cell, error) { return byIndex(all, p.Start, p.End) }
	}
	cells, err := pick()
	if err != nil {
		return nil, err
	}
	stop := p.StopOnError == nil || *p.StopOnError
	return t.foreground(ctx, c, plan{kind: "run_cells", cells: cells, stopOnError: stop, timeout: limit}, p.Background)
}

// visible lists the notebook's cells, without the temporary ones.
func (m *Manager) visible(ctx context.Context, tab *bridge.Tab) ([]notebook.Cell, error) {
	all, err := m.opts.Notebook.List(ctx, tab)
	return slices.DeleteFunc(all, m.opts.Notebook.Hidden), err
}

func byIDs(all []notebook.Cell, ids []string) ([]notebook.Cell, error) {
	var cells []notebook.Cell
	for _, id := range ids {
		i := slices.IndexFunc(all, func(c notebook.Cell) bool { return c.ID == id })
		if i < 0 {
			return nil, &NotFoundError{"cell", id}
		}
		cells = append(cells, all[i])
	}
	return cells, nil
}

// byIndex resolves a range once; its text cells are passed over.
func byIndex(all []notebook.Cell, start, end *int) ([]notebook.Cell, error) {
	from, to := 0, len(all)-1
	if start != nil {
		from = *start
	}
	if end != nil {
		to = min(*end, to)
	}
	if from < 0 || from >= len(all) || to < from {
		return nil, &bridge.ArgumentError{Tool: "run_cells", Problem: fmt.Sprintf("start and end: expected 0 <= start <= end in a notebook of %d cells", len(all))}
	}
	var cells []notebook.Cell
	for _, c := range all[from : to+1] {
		if c.Type == notebook.Code {
			cells = append(cells, c)
		}
	}
	return cells, nil
}

type cellsResult struct {
	Status  string           `json:"status"`
	Cells   []*notebook.View `json:"cells"`
	Omitted int              `json:"cells_omitted,omitempty"`
	JobID   string           `json:"job_id,omitempty"`
	Note    string           `json:"note,omitempty"`
}

// foreground starts a plan and answers for it, at once or when it has ended.
func (t *tools) foreground(ctx context.Context, c *bridge.Call, p plan, background bool) (*mcp.CallToolResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j := t.m.startCells(p)
	if background {
		j.mu.Lock()
		_, total := j.count()
		j.mu.Unlock()
		return bridge.Answer(struct {
			JobID  string `json:"job_id"`
			Status string `json:"status"`
			Total  int    `json:"total"`
		}{j.ID, Running, total})
	}
	ended, err := t.wait(ctx, c, j)
	if err != nil {
		return nil, err
	}
	res := cellsResult{Status: j.foregroundStatus(ended), Note: j.Remark()}
	if !ended {
		res.JobID = j.ID
	}
	text, err := j.shoot(false).fit(t.budget(c), func(shown []*notebook.View, leftOut int) any {
		res.Cells, res.Omitted = shown, leftOut
		return res
	})
	if err != nil {
		return nil, err
	}
	return bridge.AnswerText(text, j.images()...), nil
}

// foregroundStatus is a job's status as a call that waited for it says it.
func (j *Job) foregroundStatus(ended bool) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case !ended:
		return "running"
	case j.status == Done:
		return "ok"
	}
	return "error"
}
