package transfer

import (
	"context"
	"fmt"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/jobs"
	"colab-mcp/notebook"
)

// cells is the [Channel] through a notebook: a second cell is added when it is
// first used, and both are deleted at the end. It stays with one tab.
type cells struct {
	job      *jobs.Job
	bridge   *bridge.Bridge
	notebook *notebook.Notebook
	tab      *bridge.Tab
	scratch  [2]*notebook.Scratch
}

func (c *cells) Set(ctx context.Context, i int, code string) error {
	if c.scratch[i] != nil {
		return c.scratch[i].Set(ctx, code)
	}
	s, err := c.notebook.Scratch(ctx, c.tab, "", code)
	c.scratch[i] = s
	return err
}

func (c *cells) Run(ctx context.Context, i int) ([]notebook.Output, time.Duration, error) {
	turn, err := c.bridge.Gate().Enter(ctx, c.job.String(), c.tab.Gone())
	if err != nil {
		return nil, 0, err
	}
	defer turn.Leave()
	c.job.Began()
	return c.scratch[i].RunPlain()
}

// dropTime bounds the clean-up of a transfer.
const dropTime = 30 * time.Second

// drop deletes the cells. What cannot be deleted now is swept when the notebook
// is next connected, and said.
func (c *cells) drop() {
	ctx, stop := context.WithTimeout(context.Background(), dropTime)
	defer stop()
	for _, s := range c.scratch {
		if s == nil {
			continue
		}
		if err := s.Drop(ctx); err != nil {
			c.job.Note(fmt.Sprintf("a temporary cell (%s) is still there and is deleted when the notebook is next connected: %v", s.ID(), err))
		}
	}
}
