package notebook

import (
	"math"
	"strings"
	"time"
)

// Statuses of a cell in a result.
const (
	StatusOK        = "ok"
	StatusError     = "error" // it ran and raised
	StatusRunning   = "running"
	StatusSkipped   = "skipped"   // an earlier one raised
	StatusCancelled = "cancelled" // it had not begun
	StatusMissing   = "missing"   // deleted meanwhile
	StatusNotCode   = "not_code"
	StatusNotRun    = "not_run" // the tab answered, and did not run it
)

// View is one cell in a result of ours, the CELL of the tools' contract. Its
// texts are whole until Fit cuts them.
type View struct {
	Index          *int           `json:"index,omitempty"` // nil for a cell that has no place
	ID             string         `json:"id,omitempty"`
	Status         string         `json:"status"`
	DurationS      float64        `json:"duration_s,omitempty"` // seconds
	ExecutionCount *int           `json:"execution_count,omitempty"`
	Stdout         string         `json:"stdout,omitempty"`
	Stderr         string         `json:"stderr,omitempty"`
	Result         string         `json:"result,omitempty"`
	Error          *Error         `json:"error,omitempty"`
	Images         int            `json:"images,omitempty"`    // that follow as blocks
	Truncated      map[string]int `json:"truncated,omitempty"` // bytes omitted, by stream
	OutputRef      string         `json:"output_ref,omitempty"`
	Note           string         `json:"note,omitempty"`

	// KernelRestarted says that the execution count went back: variables are
	// gone.
	KernelRestarted bool `json:"kernel_restarted,omitempty"`

	ends map[string]Ends // what Fill left out, by text
}

// Show fills v from what the cell said. An exception makes the status error;
// any other status is the caller's to set.
func (v *View) Show(r Rendered) {
	v.Stdout, v.Stderr, v.Result = r.Stdout, r.Stderr, r.Result
	v.Images = len(r.Images)
	v.Error = r.Error
	if r.Error != nil {
		v.Status = StatusError
	}
	for _, n := range r.Notes {
		v.AddNote(n)
	}
}

// AddNote appends a sentence to the note.
func (v *View) AddNote(s string) {
	v.Note = strings.TrimPrefix(v.Note+"; "+s, "; ")
}

// Seconds is d for a result: milliseconds below ten seconds, tenths above.
func Seconds(d time.Duration) float64 {
	unit := 1000.0
	if d >= 10*time.Second {
		unit = 10
	}
	return math.Round(d.Seconds()*unit) / unit
}
