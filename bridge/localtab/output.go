package localtab

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// outputs are what one run of a cell has shown so far. The notebook's lock guards them.
type outputs struct {
	list         []*output
	clearPending bool // clear_output(wait=True): clear when the next output comes
}

// An output is one nbformat 4 output.
type output struct {
	stream  string // "stdout" or "stderr" of a stream output, whose text grows
	text    []byte // appended to only, so a prefix taken under the lock stays valid
	raw     json.RawMessage
	display string // display_id, for update_display_data
}

// stream appends text, to the last output if that is the same stream, as front ends do.
func (o *outputs) stream(name, text string) {
	o.clearIfPending()
	if n := len(o.list); n > 0 && o.list[n-1].stream == name {
		o.list[n-1].text = append(o.list[n-1].text, text...)
		return
	}
	o.list = append(o.list, &output{stream: name, text: []byte(text)})
}

func (o *outputs) add(out *output) {
	o.clearIfPending()
	o.list = append(o.list, out)
}

func (o *outputs) clear(wait bool) {
	o.clearPending = wait
	if !wait {
		o.list = nil
	}
}

func (o *outputs) clearIfPending() {
	if o.clearPending {
		o.list, o.clearPending = nil, false
	}
}

// snapshot copies what is there now; the copy can be encoded without the lock.
func (o *outputs) snapshot() []output {
	if o == nil {
		return nil
	}
	list := make([]output, len(o.list))
	for i, out := range o.list {
		list[i] = *out
	}
	return list
}

// appendOutputs appends list as the value of a cell's "outputs".
func appendOutputs(dst []byte, list []output) []byte {
	dst = append(dst, '[')
	for i, out := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		if out.stream == "" {
			dst = append(dst, out.raw...)
			continue
		}
		dst = append(dst, `{"output_type":"stream","name":`...)
		dst = appendString(dst, out.stream)
		dst = append(dst, `,"text":`...)
		dst = appendLines(dst, out.text)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// size estimates the encoded length, so that the buffer is made once.
func size(list []output) int {
	n := 0
	for _, out := range list {
		n += len(out.text) + len(out.text)/16 + len(out.raw) + 64
	}
	return n
}

// newOutput makes an output of a Jupyter message: display_data, execute_result or error. Its data is
// written as nbformat does, text as a list of lines and base64 as one string.
func newOutput(kind string, content json.RawMessage) (*output, error) {
	var m struct {
		Data      map[string]json.RawMessage `json:"data"`
		Metadata  json.RawMessage            `json:"metadata"`
		Transient struct {
			DisplayID string `json:"display_id"`
		} `json:"transient"`
		Count     *int            `json:"execution_count"`
		EName     string          `json:"ename"`
		EValue    string          `json:"evalue"`
		Traceback json.RawMessage `json:"traceback"`
	}
	if err := json.Unmarshal(content, &m); err != nil {
		return nil, fmt.Errorf("%s message: %w", kind, err)
	}
	out := &output{display: m.Transient.DisplayID}
	if kind == "error" {
		raw := appendString([]byte(`{"output_type":"error","ename":`), m.EName)
		raw = appendString(append(raw, `,"evalue":`...), m.EValue)
		raw = append(raw, `,"traceback":`...)
		if len(m.Traceback) == 0 {
			m.Traceback = json.RawMessage("[]")
		}
		out.raw = append(append(raw, m.Traceback...), '}')
		return out, nil
	}
	raw := append([]byte(`{"output_type":"`), kind...)
	raw = append(raw, `","data":{`...)
	for i, mime := range slices.Sorted(maps.Keys(m.Data)) {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(appendString(raw, mime), ':')
		raw = appendData(raw, mime, m.Data[mime])
	}
	raw = append(raw, `},"metadata":`...)
	if len(m.Metadata) == 0 {
		m.Metadata = json.RawMessage("{}")
	}
	raw = append(raw, m.Metadata...)
	if kind == "execute_result" {
		raw = append(raw, `,"execution_count":`...)
		if m.Count == nil {
			raw = append(raw, "null"...)
		} else {
			raw = strconv.AppendInt(raw, int64(*m.Count), 10)
		}
	}
	out.raw = append(raw, '}')
	return out, nil
}

// appendData appends one value of a mime bundle, as nbformat's split_lines does.
func appendData(dst []byte, mime string, value json.RawMessage) []byte {
	if strings.HasPrefix(mime, "text/") || mime == "application/javascript" || mime == "image/svg+xml" {
		var s string
		if json.Unmarshal(value, &s) == nil {
			return appendLines(dst, s)
		}
	}
	return append(dst, value...)
}

// apply changes o by one event of the kernel that concerns this run alone.
func (o *outputs) apply(e Event) error {
	switch e.Type {
	case "stream":
		text := e.Text
		if !utf8.ValidString(text) {
			text = strings.ToValidUTF8(text, "\ufffd")
		}
		o.stream(e.Name, text)
	case "clear_output":
		o.clear(e.Wait)
	default:
		out, err := newOutput(e.Type, e.Content)
		if err != nil {
			return err
		}
		o.add(out)
	}
	return nil
}
