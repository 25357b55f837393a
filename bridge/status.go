package bridge

import (
	"encoding/json"
	"time"
)

// Status is what can be told about the connection without touching the
// browser. It holds no token.
type Status struct {
	Connected bool
	State     string // disconnected, opening, socket or ready
	Notebook  string // what is connected
	Requested string // what is being opened or was opened here
	Previous  string // the notebook of an earlier process
	Port      int    // 0 while there is none
	Listening error  // why not, nil if it is
	Blocked   int    // connections without a byte since the last ready tab
	Dropped   string // how the last tab ended
	Note      string // of the requested notebook, for a person
	Running   string // what holds the gate, "" if nothing
	RunSince  time.Time
	Tab       *TabStatus // nil while there is none
}

// TabStatus describes the live tab.
type TabStatus struct {
	Since    time.Time
	Protocol string
	Server   json.RawMessage // its serverInfo
	Tools    int
	Missing  []string // tools of the seven that it lacks
}

// Status describes the connection as it is now.
func (b *Bridge) Status() Status {
	var st Status
	b.look(func(s *state) {
		st = Status{State: s.phase(), Port: s.id.Port, Listening: s.listenErr, Dropped: s.drop}
		if s.notebook != (Link{}) && s.ours {
			st.Requested, st.Note = s.notebook.URL(), s.notebook.Note()
		}
		if b.opts.Previous != (Link{}) {
			st.Previous = b.opts.Previous.URL()
		}
		if t := s.ready(); t != nil {
			st.Connected = true
			if s.notebook != (Link{}) {
				st.Notebook = s.notebook.URL()
			}
			st.Tab = t.status()
		}
	})
	st.Blocked = b.flood.blocked()
	if op, since, held := b.gate.Holder(); held {
		st.Running, st.RunSince = op, since
	}
	return st
}

func (s *state) phase() string {
	switch {
	case s.ready() != nil:
		return "ready"
	case s.slot != nil:
		return "socket"
	case s.opening != nil:
		return "opening"
	}
	return "disconnected"
}

func (t *Tab) status() *TabStatus {
	st := &TabStatus{Since: t.since, Protocol: t.version, Server: t.server, Tools: len(t.Tools())}
	for _, known := range Catalog() {
		if _, ok := t.Lists(known.Name); !ok {
			st.Missing = append(st.Missing, known.Name)
		}
	}
	return st
}
