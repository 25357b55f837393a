package jobs

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
)

// AddTools adds the tools of this package, and carries the tab's own tools
// that may run code.
func AddTools(tb *bridge.Toolbox, m *Manager) {
	t := &tools{tb, m}
	tb.Run = t.relay
	t.addRunCells()
	t.addRunNotebook()
	t.addRunCode()
	t.addRunCodeCell()
	t.addJobStatus()
	t.addListJobs()
	t.addCancelJob()
	t.addReadOutput()
}

type tools struct {
	tb *bridge.Toolbox
	m  *Manager
}

// budget is how much text this caller can take.
func (t *tools) budget(c *bridge.Call) notebook.Budget {
	return notebook.BudgetOf(c.Client(), t.tb.MaxOutput)
}

// leastWait is how long a job is waited for that was long in coming.
const leastWait = time.Second

// wait is what a foreground call does: it waits for its job up to the soft
// limit, which the wait for a tab counts against. A caller who leaves ends the
// job after its current cell.
func (t *tools) wait(ctx context.Context, c *bridge.Call, j *Job) (ended bool, err error) {
	var tell func(string)
	if c.Progress.Wanted() {
		tell = c.Progress.Say
	}
	limit := t.m.opts.SoftLimit
	ended, err = j.Await(ctx, max(limit-time.Since(c.Began), min(limit, leastWait)), tell)
	if err != nil {
		j.Cancel()
		return false, err
	}
	if !ended {
		j.lastPeek(ctx)
		return false, nil
	}
	return true, j.failure()
}

// prepare gets the tab that a run needs, so that a missing one is the call's
// error and not a job's.
func (t *tools) prepare(ctx context.Context, c *bridge.Call) (*bridge.Tab, error) {
	ctx, stop := context.WithTimeout(ctx, t.m.opts.SoftLimit)
	defer stop()
	return t.tb.Bridge.Tab(ctx, c.Progress.Waiting)
}

// seconds reads a timeout parameter; 0 is none.
func timeout(tool string, s float64) (time.Duration, error) {
	if s < 0 || s > 7*24*3600 {
		return 0, &bridge.ArgumentError{Tool: tool, Problem: "timeout_s: expected seconds between 0 (none) and 604800"}
	}
	return time.Duration(s * float64(time.Second)), nil
}

// images are the pictures of the job's cells as content blocks, at most
// notebook.MaxImages.
func (j *Job) images() []mcp.Content {
	j.mu.Lock()
	defer j.mu.Unlock()
	var blocks []mcp.Content
	for _, it := range j.items {
		for _, img := range it.images {
			if len(blocks) < notebook.MaxImages {
				blocks = append(blocks, &mcp.ImageContent{Data: img.Data, MIMEType: img.MIME})
			}
		}
	}
	return blocks
}
