package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
)

type cancelJobParams struct {
	JobID string `json:"job_id" doc:"Id of the job."`
}

func (t *tools) addCancelJob() {
	bridge.AddTool(t.tb, &mcp.Tool{
		Name:        "cancel_job",
		Title:       "Cancel a job",
		Description: "Cancels what a job has not begun yet. A cell that is running cannot be stopped from here, unless it was started with timeout_s: it finishes, and the note says so. Cancelling twice is harmless.",
		Annotations: bridge.Hints("Cancel a job", false, false, true, false),
	}, t.cancelJob)
}

func (t *tools) cancelJob(_ context.Context, _ *bridge.Call, p cancelJobParams) (*mcp.CallToolResult, error) {
	j, err := t.m.Job(p.JobID)
	if err != nil {
		return nil, err
	}
	j.Cancel()
	status, note := j.afterCancel()
	return bridge.Answer(struct {
		JobID  string `json:"job_id"`
		Status string `json:"status"`
		Note   string `json:"note"`
	}{j.ID, status, note})
}

// waits reports whether a cell of the job has not begun. j.mu is held.
func (j *Job) waits() bool {
	return slices.ContainsFunc(j.items, func(it *item) bool { return !it.finished() })
}

// afterCancel says honestly what will still finish.
func (j *Job) afterCancel() (status, note string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch it := j.now; {
	case !j.ended.IsZero():
		return j.status, "the job had ended before"
	case len(j.items) == 0:
		return j.status, "it stops after the step that is on its way"
	case it == nil && !j.waits():
		return j.status, "all of it had run"
	case it == nil:
		return Cancelled, "nothing of it runs; what was not begun is not run"
	case it.latest > 0 && it.left(time.Now()) < 0:
		return j.status, "the running cell goes on until it ends. Its deadline was due: " + overdue + "; the rest is not run"
	case it.latest > 0:
		return j.status, fmt.Sprintf("the running cell goes on until it ends, in %.0f s at the latest, when its deadline interrupts it; the rest is not run", it.left(time.Now()).Seconds())
	default:
		return j.status, "the running cell cannot be stopped from here and goes on until it ends (the user can interrupt it in the tab with Ctrl+M I); the rest is not run"
	}
}
