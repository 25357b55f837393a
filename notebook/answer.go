package notebook

import "encoding/json"

// AnswerOutputs is what a tool of the tab answered, whatever it is, as outputs
// of a cell: the outputs it lists, else its texts, of which JSON is told by its
// form, and its pictures. An answer of another shape is one JSON output.
func AnswerOutputs(tool string, result json.RawMessage) []Output {
	if payload, err := Payload(tool, result); err == nil {
		if outs, err := DecodeOutputs(payload); err == nil {
			return outs
		}
	}
	var outs []Output
	show := func(mime string, v json.RawMessage) {
		outs = append(outs, Output{Type: DisplayData, Data: map[string]json.RawMessage{mime: v}, Raw: v})
	}
	answer, _ := decodeObject(result)
	blocks, _ := decodeList(answer["content"])
	for _, raw := range blocks {
		b, _ := decodeObject(raw)
		switch said := text(b["text"]); text(b["type"]) {
		case "text":
			if json.Valid([]byte(said)) {
				show("application/json", json.RawMessage(said))
			} else {
				show("text/plain", b["text"])
			}
		case "image":
			show(text(b["mimeType"]), b["data"])
		default:
			show("application/json", raw)
		}
	}
	if value, ok := answer["structuredContent"]; ok && len(outs) == 0 {
		show("application/json", value)
	}
	if len(outs) == 0 {
		show("application/json", result)
	}
	return outs
}
