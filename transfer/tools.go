package transfer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
	"colab-mcp/jobs"
	"colab-mcp/notebook"
)

// AddTools adds the tools of this package.
func AddTools(tb *bridge.Toolbox, m *jobs.Manager, n *notebook.Notebook, f *Files) {
	t := &tools{tb, m, n, f}
	t.addUpload()
	t.addDownload()
}

type tools struct {
	tb       *bridge.Toolbox
	jobs     *jobs.Manager
	notebook *notebook.Notebook
	files    *Files
}

// move is Files.Upload or Files.Download.
type move func(context.Context, Channel, Options) (Result, error)

// run makes a job of a transfer and waits for it up to the soft limit.
func (t *tools) run(ctx context.Context, c *bridge.Call, kind string, f move, o Options) (*mcp.CallToolResult, error) {
	tab, err := t.tb.Bridge.Tab(ctx, c.Progress.Waiting)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j := t.jobs.Start(kind, func(ctx context.Context, j *jobs.Job) error {
		ch := &cells{job: j, bridge: t.tb.Bridge, notebook: t.notebook, tab: tab}
		defer ch.drop()
		o.Progress = func(p Progress) {
			j.Report(reportOf(p))
			c.Progress.Report(p.words(kind), float64(p.Bytes), float64(p.Total))
		}
		res, err := f(ctx, ch, o)
		if err == nil {
			j.Report(res)
		}
		return err
	})
	ended, err := j.Await(ctx, t.jobs.SoftLimit(), nil)
	if err != nil {
		j.Cancel()
		return nil, err
	}
	if ended {
		if err := j.Err(); err != nil {
			return nil, err
		}
		return bridge.AnswerText(j.Reported()), nil
	}
	return bridge.Answer(struct {
		Status   string          `json:"status"`
		JobID    string          `json:"job_id"`
		Progress json.RawMessage `json:"progress,omitempty"`
		Note     string          `json:"note,omitempty"`
	}{jobs.Running, j.ID, j.Reported(), j.Remark()})
}

// report is how a transfer under way shows in results.
type report struct {
	Bytes     int64   `json:"bytes"`
	Total     int64   `json:"total"`
	BytesPerS float64 `json:"bytes_per_s,omitempty"`
	ETA       float64 `json:"eta_s,omitempty"`
}

func reportOf(p Progress) report {
	return report{p.Bytes, p.Total, float64(int64(p.Rate)), notebook.Seconds(p.ETA)}
}

// words is a progress message.
func (p Progress) words(kind string) string {
	percent := int64(100)
	if p.Total > 0 {
		percent = p.Bytes * 100 / p.Total
	}
	return fmt.Sprintf("%s: %d %% of %.1f MB, %.1f MB/s, %s left", kind, percent, float64(p.Total)/1e6, p.Rate/1e6, p.ETA.Round(time.Second))
}
