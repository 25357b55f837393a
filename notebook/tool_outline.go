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
		lines, total, err := n.Outline(ctx, tab, first, last)
		if err != nil {
			return nil, err
		}
		return outlineAnswer(lines, total, Budget(c.Client(), tb.MaxOutput))
	})
}

type outlineResult struct {
	Total int    `json:"total"`
	Cells []Line `json:"cells"`
	Next  *int   `json:"next_start,omitempty"` // where to go on, when not all fits
}

// outlineAnswer shows as many cells as the budget allows.
func outlineAnswer(lines []Line, total, budget int) (*mcp.CallToolResult, error) {
	res := outlineResult{Total: total, Cells: []Line{}}
	room := budget - 100
	for _, l := range lines {
		text, err := EncodeJSON(l)
		if err != nil {
			return nil, err
		}
		if room -= len([]rune(string(text))) + 1; room < 0 {
			next := l.Index
			res.Next = &next
			break
		}
		res.Cells = append(res.Cells, l)
	}
	return bridge.Answer(res)
}
