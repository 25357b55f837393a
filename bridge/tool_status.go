package bridge

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Facts are what the process knows about itself.
type Facts struct {
	Version  string
	PID      int
	StateDir string
	LogDir   string
	Instance string // primary or secondary
	Note     string // of the instance, for a person
	// Other tells whether the tab shows another notebook than when it
	// connected.
	Other func() bool
	// Running names the job that runs, also between two of its cells.
	Running func() (op string, since time.Time, busy bool)
}

type statusResult struct {
	Connected bool       `json:"connected"`
	State     string     `json:"state"`
	Notebook  string     `json:"notebook_url,omitempty"`
	Requested string     `json:"requested_url,omitempty"`
	Previous  string     `json:"previous_notebook_url,omitempty"`
	Port      int        `json:"port"`
	PortError string     `json:"port_error,omitempty"`
	PID       int        `json:"pid"`
	Version   string     `json:"version"`
	StateDir  string     `json:"state_dir"`
	LogDir    string     `json:"log_dir"`
	Dead      bool       `json:"session_dead"`
	Dropped   string     `json:"last_drop,omitempty"`
	Instance  string     `json:"instance"`
	Running   *running   `json:"running"`
	Tab       *tabReport `json:"tab,omitempty"`
	Blocked   int        `json:"blocked_connects"`
	Moved     bool       `json:"notebook_changed,omitempty"`
	Note      string     `json:"note,omitempty"`
}

type running struct {
	Op    string  `json:"op"`
	Since float64 `json:"since_s"`
}

type tabReport struct {
	Connected float64         `json:"connected_s"`
	Protocol  string          `json:"protocol"`
	Server    json.RawMessage `json:"server,omitempty"`
	Tools     int             `json:"tools"`
	Missing   []string        `json:"missing_tools,omitempty"`
}

func addStatus(tb *Toolbox) {
	AddTool(tb, &mcp.Tool{
		Name:        "colab_connection_status",
		Title:       "Connection status",
		Description: "Tells whether a Colab tab is connected, which notebook, what runs, and what went wrong last. Never opens the browser.",
		Annotations: hints("Connection status", true, false, true),
	}, tb.status)
}

func (tb *Toolbox) status(context.Context, *Call, struct{}) (*mcp.CallToolResult, error) {
	s, f := tb.Bridge.Status(), tb.Facts
	res := statusResult{
		Connected: s.Connected, State: s.State, Notebook: s.Notebook, Requested: s.Requested, Previous: s.Previous,
		Port: s.Port, PID: f.PID, Version: f.Version, StateDir: f.StateDir, LogDir: f.LogDir, Instance: f.Instance,
		Dead: !s.Connected && s.Dropped != "", Dropped: s.Dropped, Blocked: s.Blocked, Note: f.Note + s.Note,
	}
	if s.Listening != nil {
		res.PortError = s.Listening.Error()
	}
	if f.Running != nil {
		if op, since, busy := f.Running(); busy {
			s.Running, s.RunSince = op, since
		}
	}
	if f.Other != nil && s.Connected {
		res.Moved = f.Other()
	}
	if s.Running != "" {
		res.Running = &running{s.Running, seconds(time.Since(s.RunSince))}
	}
	if t := s.Tab; t != nil {
		res.Tab = &tabReport{seconds(time.Since(t.Since)), t.Protocol, t.Server, t.Tools, t.Missing}
	}
	return Answer(res)
}

// seconds is a duration as results give it, to a tenth.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*10) / 10 }
