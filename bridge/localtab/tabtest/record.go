package tabtest

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/coder/websocket"
)

// A Message is something the bridge sent.
type Message struct {
	Time   time.Time
	Method string          // "" for an answer
	ID     json.RawMessage // as it came; nil for a notification
	Tool   string          // of tools/call
	Args   json.RawMessage // of tools/call, as they came; nil if omitted
	Raw    []byte          // the whole frame
}

// A record is what a far tab has seen. FarTab.mu guards it.
type record struct {
	received  []Message
	replies   map[string]json.RawMessage
	running   int
	maxRuns   int
	deaf      bool
	closeCode websocket.StatusCode
	closeWhy  string
}

// Received returns all messages of the bridge so far, in order.
func (f *FarTab) Received() []Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.record.received)
}

// Calls returns the tools/call messages among them that call the named tool.
func (f *FarTab) Calls(tool string) []Message {
	return slices.DeleteFunc(f.Received(), func(m Message) bool { return m.Tool != tool })
}

// Replies returns the bridge's answers to requests of the tab, whole frames by id; see [FarTab.Request].
func (f *FarTab) Replies() map[string]json.RawMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]json.RawMessage, len(f.record.replies))
	for id, raw := range f.record.replies {
		out[id] = raw
	}
	return out
}

// RunsInFlight returns how many run_code_cell requests have arrived and are not answered.
func (f *FarTab) RunsInFlight() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record.running
}

// MaxRunsInFlight returns the most that [FarTab.RunsInFlight] has been.
func (f *FarTab) MaxRunsInFlight() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record.maxRuns
}

// CloseCode returns the code and reason the bridge closed the socket with, or -1 before that and where
// there was no close frame.
func (f *FarTab) CloseCode() (websocket.StatusCode, string) {
	select {
	case <-f.gone:
	default:
		return -1, ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record.closeCode, f.record.closeWhy
}
