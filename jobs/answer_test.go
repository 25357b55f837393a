package jobs_test

import (
	"encoding/json"
	"testing"
	"time"
)

// cell is a CELL as the agent reads it.
type cell struct {
	Index          *int
	ID             string
	Status         string
	DurationS      float64 `json:"duration_s"`
	ExecutionCount *int    `json:"execution_count"`
	Stdout         string
	Stderr         string
	Result         string
	Error          *struct{ Name, Value, Traceback, Code string }
	Images         int
	Truncated      map[string]int
	OutputRef      string `json:"output_ref"`
	Note           string
	Restarted      bool `json:"kernel_restarted"`
}

type codeAnswer struct {
	cell
	JobID string `json:"job_id"`
}

type cellsAnswer struct {
	Status string
	Cells  []cell
	JobID  string `json:"job_id"`
	Total  int
	Note   string
}

type jobAnswer struct {
	JobID   string `json:"job_id"`
	Kind    string
	Status  string
	Started time.Time `json:"started_at"`
	Elapsed float64   `json:"elapsed_s"`
	Done    int
	Total   int
	Current *cell
	Cells   []cell
	Omitted int `json:"cells_omitted"`
	Result  json.RawMessage
	Error   string
	Note    string
}

// as reads the JSON object that a tool of ours answered.
func as[T any](t testing.TB, r reply) T {
	t.Helper()
	var v T
	if r.err != nil {
		t.Fatalf("the call failed: %v", r.err)
	}
	if err := json.Unmarshal([]byte(r.text), &v); err != nil {
		t.Fatalf("not a JSON object: %v in %.300s", err, r.text)
	}
	return v
}
