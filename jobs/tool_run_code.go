package jobs

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
)

type runCodeParams struct {
	Code       string  `json:"code" doc:"Code to run in the notebook's runtime."`
	KeepCell   bool    `json:"keep_cell,omitempty" doc:"Leave the code in the notebook as a new last cell. Default false: it runs in a temporary cell."`
	Background bool    `json:"background,omitempty" doc:"Answer at once with a job_id for job_status. Default false."`
	Language   string  `json:"language,omitempty" doc:"python, r or julia. Default python."`
	TimeoutS   float64 `json:"timeout_s,omitempty" doc:"Seconds after which the code is interrupted in the kernel. Default: no deadline."`
}

func (t *tools) addRunCode() {
	bridge.AddTool(t.tb, &mcp.Tool{
		Name:  "run_code",
		Title: "Run code",
		Description: "Runs ad-hoc code in the notebook's runtime, with its variables, and returns the cleaned output and plots as images. The notebook keeps no cell of it unless keep_cell is set. " +
			"What lasts longer than the soft limit goes on as a job: the answer then has status \"running\" and a job_id for job_status.",
		Annotations: bridge.Hints("Run code", false, true, false, true),
		Meta:        bridge.Always(),
	}, t.runCode)
}

// codeResult is a CELL with what the call adds.
type codeResult struct {
	*notebook.View
	JobID string `json:"job_id,omitempty"`
}

func (t *tools) runCode(ctx context.Context, c *bridge.Call, p runCodeParams) (*mcp.CallToolResult, error) {
	limit, err := timeout("run_code", p.TimeoutS)
	if err != nil {
		return nil, err
	}
	switch p.Language {
	case "", "python":
	case "r", "julia":
		if limit > 0 {
			return nil, &bridge.ArgumentError{Tool: "run_code", Problem: "timeout_s: only Python code can be interrupted"}
		}
	default:
		return nil, &bridge.ArgumentError{Tool: "run_code", Problem: "language: expected python, r or julia"}
	}
	if _, err := t.prepare(ctx, c); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j := t.m.startCode(adhoc{code: p.Code, language: p.Language, keep: p.KeepCell, timeout: limit})
	if p.Background {
		return bridge.Answer(struct {
			Status string `json:"status"`
			JobID  string `json:"job_id"`
		}{Running, j.ID})
	}
	ended, err := t.wait(ctx, c, j)
	if err != nil {
		return nil, err
	}
	s := j.shoot(true)
	if note := j.Remark(); note != "" {
		s.views[0].AddNote(note)
	}
	res := codeResult{}
	if !ended {
		res.JobID = j.ID
	}
	text, err := s.fit(t.budget(c), func(shown []*notebook.View, _ int) any {
		res.View = shown[0]
		return res
	})
	if err != nil {
		return nil, err
	}
	return bridge.AnswerText(text, j.images()...), nil
}
