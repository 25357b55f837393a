package jobs

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
)

type jobStatusParams struct {
	JobID string  `json:"job_id" doc:"Id of the job, as the call that started it or list_jobs gave it."`
	WaitS float64 `json:"wait_s,omitempty" doc:"Seconds to wait for the job to end before answering, at most the soft limit. Default 0."`
}

type jobResult struct {
	JobID   string           `json:"job_id"`
	Kind    string           `json:"kind"`
	Status  string           `json:"status"`
	Started string           `json:"started_at"`
	Elapsed float64          `json:"elapsed_s"`
	Done    int              `json:"done"`
	Total   int              `json:"total"`
	Current *notebook.View   `json:"current"`
	Cells   []*notebook.View `json:"cells"`
	Omitted int              `json:"cells_omitted,omitempty"`
	Result  json.RawMessage  `json:"result,omitempty"`
	Error   string           `json:"error,omitempty"`
	Note    string           `json:"note,omitempty"`
}

func (t *tools) addJobStatus() {
	bridge.AddTool(t.tb, &mcp.Tool{
		Name:        "job_status",
		Title:       "Status of a job",
		Description: "Tells how a job stands: its finished cells with their outputs, and the partial output of the one that runs. With wait_s it answers as soon as the job ends, which is cheaper than asking often. Works after a restart of this server and without a connected tab.",
		Annotations: bridge.Hints("Status of a job", true, false, true, false),
	}, t.jobStatus)
}

func (t *tools) jobStatus(ctx context.Context, c *bridge.Call, p jobStatusParams) (*mcp.CallToolResult, error) {
	j, err := t.m.Job(p.JobID)
	if err != nil {
		return nil, err
	}
	if p.WaitS < 0 {
		return nil, &bridge.ArgumentError{Tool: "job_status", Problem: "wait_s: expected 0 or more seconds"}
	}
	var tell func(string)
	if c.Progress.Wanted() {
		tell = c.Progress.Say
	}
	limit := t.m.opts.SoftLimit
	wait := time.Duration(min(p.WaitS, limit.Seconds()) * float64(time.Second))
	ended, err := j.Await(ctx, wait, tell)
	if err != nil {
		return nil, err // who leaves here only asked
	}
	if !ended {
		j.lastPeek(ctx)
	}
	return j.report(t.budget(c))
}

// report is the whole of what can be said of the job.
func (j *Job) report(budget notebook.Budget) (*mcp.CallToolResult, error) {
	holder, _, _ := j.m.opts.Bridge.Gate().Holder()
	j.mu.Lock() // once: a job that is said to be done has no cell that runs
	res := jobResult{JobID: j.ID, Kind: j.Kind, Status: j.status, Started: j.Started.UTC().Format(time.RFC3339), Error: j.words, Note: j.remark(holder), Result: j.progress}
	res.Done, res.Total = j.count()
	end, list := j.ended, j.seen(false)
	j.mu.Unlock()
	s := j.m.shot(list)
	var pictures []mcp.Content
	if end.IsZero() {
		end = time.Now()
	} else {
		pictures = j.images()
	}
	res.Elapsed = notebook.Seconds(end.Sub(j.Started))
	text, err := s.fit(budget, func(shown []*notebook.View, leftOut int) any {
		res.Current, res.Cells, res.Omitted = nil, shown, leftOut
		if res.Status != Lost && len(shown) > 0 && shown[0].Status == notebook.StatusRunning {
			res.Current, res.Cells = shown[0], shown[1:]
		}
		return res
	})
	if err != nil {
		return nil, err
	}
	return bridge.AnswerText(text, pictures...), nil
}
