package tabtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coder/websocket"
)

// A header is the part of a JSON-RPC message that the relay looks at.
type header struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Cursor    string          `json:"cursor"`
		Meta      struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

// A request was handed to the tab and is not answered.
type request struct{ method, tool string }

// fromBridge reads the bridge's frames until the socket ends.
func (f *FarTab) fromBridge() {
	for {
		_, frame, err := f.outer.Read(context.Background())
		if err != nil {
			f.mu.Lock()
			f.record.closeCode = websocket.CloseStatus(err)
			if e, ok := errors.AsType[websocket.CloseError](err); ok {
				f.record.closeWhy = e.Reason
			}
			f.mu.Unlock()
			close(f.gone)
			f.outer.CloseNow()
			f.inner.Close(websocket.StatusGoingAway, "")
			f.server.Close()
			return
		}
		f.deliver.Lock()
		f.mu.Lock()
		frozen := f.frozen
		if frozen {
			f.heldIn = append(f.heldIn, frame)
		}
		f.mu.Unlock()
		if !frozen {
			f.receive(frame)
		}
		f.deliver.Unlock()
	}
}

// receive does with a frame of the bridge what the knobs say, by default hands it to the tab. The
// caller holds deliver.
func (f *FarTab) receive(frame []byte) {
	var h header
	json.Unmarshal(frame, &h)
	m := Message{Time: time.Now(), Method: h.Method, ID: h.ID, Raw: frame}
	if h.Method == "tools/call" {
		m.Tool, m.Args = h.Params.Name, h.Params.Arguments
	}
	f.mu.Lock()
	f.record.received = append(f.record.received, m)
	n := len(f.record.received)
	k := f.knobs
	if h.Method == "" {
		var id string
		if json.Unmarshal(h.ID, &id) == nil {
			if f.record.replies == nil {
				f.record.replies = make(map[string]json.RawMessage)
			}
			f.record.replies[id] = frame
		}
	}
	if n != k.DropAtMessage && h.ID != nil && h.Method != "" {
		f.calls[string(h.ID)] = request{h.Method, m.Tool}
		if m.Tool == "run_code_cell" {
			f.record.running++
			f.record.maxRuns = max(f.record.maxRuns, f.record.running)
		}
	}
	f.mu.Unlock()

	switch {
	case n == k.DropAtMessage:
		f.tasks.Go(f.drop) // its close handshake needs this reader
	case h.Method == "":
	case h.Method == "initialize" && k.NoInitialize:
	case h.Method == "tools/list" && f.list(h, k):
	case h.Method == "tools/call" && f.call(h, k):
	default:
		f.inner.Write(context.Background(), websocket.MessageText, frame)
	}
}

// list answers tools/list where a knob says so; see edit for the rest.
func (f *FarTab) list(h header, k Knobs) bool {
	page := func(name, cursor string) {
		f.reply(h.ID, fmt.Sprintf(`{"tools":[%s],"nextCursor":%q}`, Tool(name, `{"type":"object"}`), cursor))
	}
	switch k.ToolsList {
	case ListHangs:
	case ListFails:
		f.answered(fmt.Appendf(nil, `{"id":%s}`, h.ID))
		f.Inject(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"the list is not available"}}`, h.ID))
	case ListEmpty:
		f.reply(h.ID, `{"tools":[]}`)
	case ListRepeats:
		page("again", "again")
	case ListEndless:
		f.mu.Lock()
		f.extra++
		n := f.extra
		f.mu.Unlock()
		page(fmt.Sprintf("page_%d", n), fmt.Sprint(n))
	case ListTwo:
		if h.Params.Cursor != "second" {
			return false
		}
		f.mu.Lock()
		second := f.second
		f.mu.Unlock()
		f.reply(h.ID, fmt.Sprintf(`{"tools":%s}`, second))
	default:
		return false
	}
	return true
}

// call answers a tools/call where a knob says so, and does what comes with its arrival.
func (f *FarTab) call(h header, k Knobs) bool {
	tool := h.Params.Name
	for i := range k.Logs {
		f.Inject(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"log %d"}}`, i+1))
	}
	for i := range k.Progress {
		if h.Params.Meta.Token != nil {
			f.Inject(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":%d}}`,
				h.Params.Meta.Token, i+1, k.Progress))
		}
	}
	if tool == "run_code_cell" && k.DropRunAfter > 0 {
		f.later(k.DropRunAfter, f.drop)
	}
	raw, canned := k.Answer[tool]
	if words, fails := k.Fail[tool]; fails && !canned {
		raw, canned = fmt.Sprintf(`{"content":[{"type":"text","text":%s}],"isError":true}`, quote(words)), true
	}
	if !canned && slices.ContainsFunc(k.ExtraTools, func(def json.RawMessage) bool { return nameOf(def) == tool }) {
		raw, canned = fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, quote(string(h.Params.Arguments))), true
	}
	if canned {
		f.dispatch(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, h.ID, raw))
	}
	return canned
}

// reply answers a request of the bridge with a raw result.
func (f *FarTab) reply(id json.RawMessage, result string) {
	frame := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
	f.answered(frame)
	f.send(frame)
}

// fromTab reads the tab's frames until its server ends.
func (f *FarTab) fromTab() {
	for {
		_, frame, err := f.inner.Read(context.Background())
		if err != nil {
			f.inner.CloseNow()
			return
		}
		f.dispatch(frame)
	}
}

// dispatch sends an answer to the bridge now, later or never.
func (f *FarTab) dispatch(frame []byte) {
	var h header
	json.Unmarshal(frame, &h)
	f.mu.Lock()
	k := f.knobs
	req := f.calls[string(h.ID)]
	if slices.Contains(k.Swallow, req.tool) {
		f.swallow = append(f.swallow, frame)
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()
	frame = f.edit(req, k, frame)
	send := func() {
		f.answered(frame)
		f.send(frame)
	}
	if d := k.Delay[req.tool]; d > 0 && req.tool != "" {
		f.later(d, send)
		return
	}
	send()
}

// answered notes that frame answers a request.
func (f *FarTab) answered(frame []byte) {
	var h header
	json.Unmarshal(frame, &h)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls[string(h.ID)].tool == "run_code_cell" {
		f.record.running--
	}
	delete(f.calls, string(h.ID))
}

func nameOf(def json.RawMessage) string {
	var t struct{ Name string }
	json.Unmarshal(def, &t)
	return t.Name
}

func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return b
}
