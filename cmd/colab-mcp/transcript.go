package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"colab-mcp/bridge"
	"colab-mcp/state"
)

// transcript writes what goes over the wire to a tab, one JSON object a line,
// so that somebody else can look at it and replay it. Tokens are redacted,
// long strings are cut, and of cells that are not ours only the form is kept.
// Safe for concurrent use.
type transcript struct {
	secrets *state.Redactor
	began   time.Time

	mu     sync.Mutex // guards all below
	w      io.Writer
	err    error           // the first of w
	asked  map[string]line // requests that are not answered, by id
	ours   map[string]bool // ids of cells that were added here
	server json.RawMessage // the tab's answer to initialize
}

// line is one line of a transcript: a frame, or a fact (Fact and Says) that
// was found.
type line struct {
	At     float64         `json:"t"`             // seconds since it began
	Dir    string          `json:"dir,omitempty"` // out: to the tab; in: from it
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"` // of an answer: what was asked
	Tool   string          `json:"tool,omitempty"`   // of tools/call
	Bytes  int             `json:"bytes,omitempty"`  // of the frame as it was
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
	Fact   string          `json:"fact,omitempty"`
	Says   string          `json:"says,omitempty"`
}

// longest is the most of a string that is kept, in runes; a hash of what goes
// is not, since short text could be guessed from it.
const longest = 200

func newTranscript(w io.Writer, secrets *state.Redactor) *transcript {
	return &transcript{w: w, secrets: secrets, began: time.Now(), asked: map[string]line{}, ours: map[string]bool{}}
}

// frame takes a frame from the wire; it has the form of [bridge.Options.Trace].
func (t *transcript) frame(sent bool, frame []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := line{Dir: "in", Bytes: len(frame)}
	if sent {
		l.Dir = "out"
	}
	fields, err := bridge.Fields(frame)
	if err != nil {
		l.Fact, l.Says = "no JSON object", err.Error()
		t.write(l)
		return
	}
	l.ID = fields["id"]
	json.Unmarshal(fields["method"], &l.Method)
	if l.Method == "tools/call" {
		var p struct{ Name string }
		json.Unmarshal(fields["params"], &p)
		l.Tool = p.Name
	}
	id := string(l.ID)
	if sent && l.Method != "" && id != "" {
		t.asked[id] = l
	}
	if q, ok := t.asked[id]; ok && !sent && l.Method == "" {
		l.Method, l.Tool = q.Method, q.Tool
		delete(t.asked, id)
	}
	if l.Method == "initialize" && !sent {
		t.server = bytes.Clone(fields["result"])
	}
	l.Params, l.Result, l.Error = t.show(fields["params"]), t.show(fields["result"]), t.show(fields["error"])
	t.write(l)
}

// fact notes what was found out between two frames.
func (t *transcript) fact(name, says string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.write(line{Fact: name, Says: says})
}

// hello is the tab's answer to initialize.
func (t *transcript) hello() json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.server
}

// write is called with t.mu held.
func (t *transcript) write(l line) {
	l.At = float64(time.Since(t.began).Milliseconds()) / 1000
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(l)
	if err == nil {
		_, err = io.WriteString(t.w, t.secrets.Redact(b.String()))
	}
	if t.err == nil {
		t.err = err
	}
}

// show is a value as it may be shown: numbers as they were written, strings
// cut, cells of others without their text.
func (t *transcript) show(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return json.RawMessage(fmt.Sprintf("%q", "not JSON: "+err.Error()))
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(t.shown(v, cut)) != nil {
		return nil // cannot be: it was decoded
	}
	return bytes.TrimSpace(b.Bytes())
}

// shown copies v with text put through f.
func (t *transcript) shown(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = t.shown(v[i], f)
		}
		return out
	case map[string]any:
		if id, ok := v["newCellId"].(string); ok {
			t.ours[id] = true
		}
		if v["type"] == "text" {
			return t.block(v, f)
		}
		if v["cell_type"] != nil {
			if id, _ := v["id"].(string); !t.ours[id] {
				f = length
			}
		}
		out := map[string]any{}
		for k := range v {
			if names[k] {
				out[k] = t.shown(v[k], cut)
				continue
			}
			out[k] = t.shown(v[k], f)
		}
		return out
	}
	return v
}

// names are keys whose values are not a user's text.
var names = map[string]bool{"id": true, "cell_type": true, "output_type": true, "newCellId": true}

// block shows a text block: one that is a payload as JSON is put through the
// same sieve, under the key "json".
func (t *transcript) block(v map[string]any, f func(string) string) any {
	text, _ := v["text"].(string)
	var payload map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&payload) == nil && payload != nil {
		return map[string]any{"type": "text", "json": t.shown(payload, f)}
	}
	return map[string]any{"type": "text", "text": f(text)}
}

func cut(s string) string {
	n := utf8.RuneCountInString(s)
	if n <= longest {
		return s
	}
	return fmt.Sprintf("%s… %d more", string([]rune(s[:min(len(s), 4*longest)])[:longest]), n-longest)
}

// length is what is shown of a text that is not ours.
func length(s string) string {
	if s == "stdout" || s == "stderr" {
		return s
	}
	return fmt.Sprintf("‹%d›", utf8.RuneCountInString(s))
}
