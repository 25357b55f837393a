package notebook

import (
	"encoding/json"
	"fmt"

	"colab-mcp/bridge"
)

// Payload is what a tab's tool answered, out of the MCP result around it: the
// structured content, or else the text, of which builds of Colab send one or
// both. A refusal is a *[bridge.ToolError] in the tab's own words.
func Payload(tool string, result json.RawMessage) (json.RawMessage, error) {
	r, err := bridge.Fields(result)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrShape, tool, err)
	}
	structured := r["structuredContent"]
	refused := string(r["isError"]) == "true"
	if !refused && len(structured) > 0 && structured[0] == '{' {
		return structured, nil
	}
	said := firstText(r["content"])
	if refused {
		return nil, &bridge.ToolError{Tool: tool, Text: said}
	}
	payload := json.RawMessage(said)
	if len(payload) == 0 || payload[0] != '{' || !json.Valid(payload) {
		return nil, fmt.Errorf("%w: %s: neither structured content nor a JSON object as text", ErrShape, tool)
	}
	return payload, nil
}

// firstText is the first text block of a result's content, "" if none.
func firstText(content json.RawMessage) string {
	blocks, _ := decodeList(content)
	for _, raw := range blocks {
		if b, ok := decodeObject(raw); ok && text(b["type"]) == "text" {
			return text(b["text"])
		}
	}
	return ""
}
