package transfer

import (
	"context"
	"time"

	"colab-mcp/notebook"
)

// Channel is two temporary cells in the notebook.
type Channel interface {
	// Set writes the source of cell 0 or 1, beside whatever runs, the other one included.
	Set(ctx context.Context, cell int, code string) error
	// Run takes a turn, runs the cell and gives the turn up. It returns what the cell put out and how long it ran, the wait for the
	// turn not counted. An error means that the channel broke: nothing is sent through it again but one call to clean up.
	Run(ctx context.Context, cell int) ([]notebook.Output, time.Duration, error)
}
