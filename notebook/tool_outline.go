package notebook

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
)

type outlineParams struct {
	Start *int `json:"start,omitempty" doc:"Index of the first cell, from 0. Default: the first."`
	End   *int `json:"end,omitempty" doc:"Index of the last cell, included. Default: the last."`
}

func addOutline(tb *bridge.Toolbox, n *Notebook) {
	bridge.AddTool(tb, &mcp.Tool{
		Name:        "get_notebook_outline",
		Title:       "Outline of the notebook",
		Description: "Lists the cells: index, id, type, first line, number of lines, execution count, whether there is output or an error. Much smaller than get_cells; look here first.",
		Annotations: bridge.Hints("Outline of the notebook", true, false, true, false),
		Meta:        bridge.Always(),
	}, func(ctx context.Context, c *bridge.Call, p outlineParams) (*mcp.CallToolResult, error) {
		first, last := 0, -1
		if p.Start != nil {
			first = *p.Start
		}
		if p.End != nil {
			last = *p.End
		}
		if first < 0 || p.End != nil && last < first {
			return nil, &bridge.ArgumentError{Tool: "get_notebook_outline", Problem: "start and end: expected 0 <= start <= end"}
		}
		tab, err := tb.Bridge.Tab(ctx, c.Progress.Waiting)
		if err != nil {
			return nil, err
		}
		lines, total, other, err := n.Outline(ctx, tab, first, last)
		if err != nil {
			return nil, err
		}
		res := outlineResult{Total: total}
		if other {
			res.Note = "the tab shows another notebook than before: none of the cells that were there is in it"
		}
		return res.answer(lines, BudgetOf(c.Client(), tb.MaxOutput))
	})
}

type outlineResult struct {
	Total int    `json:"total"`
	Cells []Line `json:"cells"`
	Next  *int   `json:"next_start,omitempty"` // where to go on, when not all fits
	Note  string `json:"note,omitempty"`
}

// answer shows as many cells as the budget allows.
func (r outlineResult) answer(lines []Line, budget Budget) (*mcp.CallToolResult, error) {
	r.Cells = []Line{}
	room := budget.Most - 200
	for _, l := range lines {
		text, err := bridge.EncodeJSON(l)
		if err != nil {
			return nil, err
		}
		if room -= budget.size(text) + 1; room < 0 {
			r.Next = &l.Index
			break
		}
		r.Cells = append(r.Cells, l)
	}
	return bridge.Answer(r)
}
