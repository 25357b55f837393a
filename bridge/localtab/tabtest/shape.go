package tabtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// edit changes an answer of the tab as the knobs that shape payloads say.
func (f *FarTab) edit(req request, k Knobs, frame []byte) []byte {
	switch {
	case req.method == "tools/list":
		return f.editList(k, frame)
	case k.StringText || k.NoIDs || k.NoCounts:
		if req.tool == "get_cells" || req.tool == "run_code_cell" {
			return editPayload(k, frame)
		}
	}
	return frame
}

func (f *FarTab) editList(k Knobs, frame []byte) []byte {
	if k.ToolsList == ListWell && k.ExtraTools == nil && k.WithoutTools == nil {
		return frame
	}
	var m struct {
		ID     json.RawMessage
		Result struct{ Tools []json.RawMessage }
	}
	decode(frame, &m)
	list := slices.DeleteFunc(m.Result.Tools, func(def json.RawMessage) bool { return slices.Contains(k.WithoutTools, nameOf(def)) })
	list = append(list, k.ExtraTools...)
	result := map[string]any{"tools": list}
	if k.ToolsList == ListTwo {
		half := len(list) / 2
		f.mu.Lock()
		f.second = encode(list[half:])
		f.mu.Unlock()
		result = map[string]any{"tools": list[:half], "nextCursor": "second"}
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, encode(result))
}

// editPayload rewrites both copies of the payload.
func editPayload(k Knobs, frame []byte) []byte {
	var m struct {
		ID     json.RawMessage
		Result map[string]any
	}
	decode(frame, &m)
	if p, ok := m.Result["structuredContent"]; ok {
		reshape(k, p)
	}
	if blocks, ok := m.Result["content"].([]any); ok && m.Result["isError"] != true {
		for _, block := range blocks {
			b := block.(map[string]any)
			var payload any
			decode([]byte(b["text"].(string)), &payload)
			reshape(k, payload)
			b["text"] = string(encode(payload))
		}
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, encode(m.Result))
}

func reshape(k Knobs, v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			reshape(k, e)
		}
	case map[string]any:
		if _, cell := v["cell_type"]; cell {
			if k.NoIDs {
				delete(v, "id")
			}
			if k.NoCounts {
				delete(v, "execution_count")
			}
		}
		for key, e := range v {
			if lines, ok := e.([]any); ok && k.StringText && (key == "source" || key == "text") {
				v[key] = joined(lines)
				continue
			}
			reshape(k, e)
		}
	}
}

func joined(lines []any) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.(string))
	}
	return b.String()
}

// decode keeps numbers as they are written.
func decode(data []byte, v any) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		panic(fmt.Sprintf("tabtest: the tab sent %.200s: %v", data, err))
	}
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
