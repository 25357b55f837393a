package jobs

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
)

type jobLine struct {
	JobID   string  `json:"job_id"`
	Kind    string  `json:"kind"`
	Status  string  `json:"status"`
	Started string  `json:"started_at"`
	Elapsed float64 `json:"elapsed_s"`
	Done    int     `json:"done"`
	Total   int     `json:"total"`
}

func (t *tools) addListJobs() {
	bridge.AddTool(t.tb, &mcp.Tool{
		Name:        "list_jobs",
		Title:       "List jobs",
		Description: "Lists the runs and transfers of the last day, newest first, with their status. For outputs ask job_status.",
		Annotations: bridge.Hints("List jobs", true, false, true, false),
	}, t.listJobs)
}

type jobList struct {
	Jobs    []jobLine `json:"jobs"`
	Omitted int       `json:"jobs_omitted,omitempty"` // the oldest, of which the answer has no room
}

func (t *tools) listJobs(_ context.Context, c *bridge.Call, _ struct{}) (*mcp.CallToolResult, error) {
	list := jobList{Jobs: []jobLine{}}
	room := t.budget(c).Most - 100
	for _, j := range t.m.List() {
		j.mu.Lock()
		l := jobLine{JobID: j.ID, Kind: j.Kind, Status: j.status, Started: j.Started.UTC().Format(time.RFC3339)}
		l.Done, l.Total = j.count()
		end := j.ended
		j.mu.Unlock()
		if end.IsZero() {
			end = time.Now()
		}
		l.Elapsed = notebook.Seconds(end.Sub(j.Started))
		text, err := bridge.EncodeJSON(l)
		if err != nil {
			return nil, err
		}
		if room -= len(text) + 1; room < 0 {
			list.Omitted++
			continue
		}
		list.Jobs = append(list.Jobs, l)
	}
	return bridge.Answer(list)
}
