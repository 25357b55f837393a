package notebook

import (
	"encoding/json"
	"strings"
)

// Output types of nbformat 4, and the message that redraws a display. The tab
// may send others; they are kept as they came.
const (
	Stream            = "stream"
	ExecuteResult     = "execute_result"
	DisplayData       = "display_data"
	UpdateDisplayData = "update_display_data"
	ErrorOutput       = "error"
)

// Output is one output of a code cell. Which fields are set depends on Type.
type Output struct {
	Type string

	Name string // Stream: "stdout" if the tab gave none
	Text string // Stream: joined

	Data           map[string]json.RawMessage // displays and results, by mime type
	ExecutionCount *int                       // ExecuteResult

	EName, EValue string // ErrorOutput
	Traceback     []string

	Raw json.RawMessage // all of it, as the tab sent it
}

// DecodeOutputs reads the payload of run_code_cell, {"outputs":[…]}. It
// refuses only what has no list of outputs.
func DecodeOutputs(payload json.RawMessage) ([]Output, error) {
	items, err := member(payload, "outputs")
	if err != nil {
		return nil, err
	}
	return decodeOutputs(items), nil
}

func decodeOutputs(items []json.RawMessage) []Output {
	outs := make([]Output, len(items))
	for i, raw := range items {
		outs[i] = DecodeOutput(raw)
	}
	return outs
}

// DecodeOutput reads one output. It never fails: what it does not know is in
// Raw.
func DecodeOutput(raw json.RawMessage) Output {
	out := Output{Raw: raw}
	o, ok := decodeObject(raw)
	if !ok {
		return out
	}
	out.Type = text(o["output_type"])
	switch out.Type {
	case Stream:
		out.Name = text(o["name"])
		if out.Name == "" {
			out.Name = "stdout"
		}
		out.Text = text(o["text"])
	case ErrorOutput:
		out.EName = text(o["ename"])
		out.EValue = text(o["evalue"])
		if lines, ok := textList(o["traceback"]); ok {
			out.Traceback = lines
		} else if s := text(o["traceback"]); s != "" {
			out.Traceback = []string{s}
		}
	default:
		if data, ok := decodeObject(o["data"]); ok {
			out.Data = data
		}
		out.ExecutionCount = count(o["execution_count"])
	}
	return out
}

// Pictured reports whether o has a picture in it, as base64 or as an SVG.
func (o Output) Pictured() bool {
	for mime := range o.Data {
		if isImage(mime) {
			return true
		}
	}
	return false
}

// mime is the text under a mime type, and whether it is there.
func (o Output) mime(name string) (string, bool) {
	raw, ok := o.Data[name]
	if !ok {
		return "", false
	}
	return strings.ToValidUTF8(text(raw), "\uFFFD"), true
}
