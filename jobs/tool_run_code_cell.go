package jobs

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
)

// addRunCodeCell adds the tab's own run tool: its answer is the tab's, but it
// is a job like any run.
func (t *tools) addRunCodeCell() {
	def, _ := bridge.Known(bridge.RunCodeCell)
	bridge.AddRelay(t.tb, def)
}

// relay carries a tool of the tab that may run code. Its arguments are checked.
func (t *tools) relay(ctx context.Context, c *bridge.Call, tool string, args json.RawMessage) (*mcp.CallToolResult, error) {
	r := relayed{tool: tool, args: args}
	if tool == bridge.RunCodeCell {
		var p struct {
			CellID string `json:"cellId"`
		}
		if err := json.Unmarshal(args, &p); err != nil {
			return nil, &bridge.ArgumentError{Tool: tool, Problem: err.Error()}
		}
		r.cell = p.CellID
	}
	if c.Progress.Wanted() {
		r.progress = c.Progress.Relay
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j := t.m.startRelay(r)
	ended, err := t.wait(ctx, c, j)
	raw := j.answer()
	switch {
	case err != nil:
		return nil, err
	case raw != nil:
		return t.tb.Splice(c.Req, raw), nil
	case ended:
		return nil, fmt.Errorf("%s ended before its call was sent: %w", j.ID, context.Canceled)
	}
	return bridge.Answer(struct {
		Status  string            `json:"status"`
		JobID   string            `json:"job_id"`
		Outputs []json.RawMessage `json:"outputs"`
		Note    string            `json:"note,omitempty"`
	}{Running, j.ID, j.soFar(t.budget(c)), j.Remark()})
}
