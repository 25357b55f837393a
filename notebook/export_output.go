package notebook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"colab-mcp/bridge"
)

// unknownMIME holds an output whose type nbformat does not know.
const unknownMIME = "application/vnd.colab-mcp.output+json"

// The outputs of the schema, their keys in Jupyter's order. The schema allows
// no others.
type (
	streamOutput struct {
		Name       string   `json:"name"`
		OutputType string   `json:"output_type"`
		Text       []string `json:"text"`
	}
	displayOutput struct {
		Data       map[string]any  `json:"data"`
		Metadata   json.RawMessage `json:"metadata"`
		OutputType string          `json:"output_type"`
	}
	resultOutput struct {
		Data           map[string]any  `json:"data"`
		ExecutionCount *int            `json:"execution_count"`
		Metadata       json.RawMessage `json:"metadata"`
		OutputType     string          `json:"output_type"`
	}
	errorOutput struct {
		EName      string   `json:"ename"`
		EValue     string   `json:"evalue"`
		OutputType string   `json:"output_type"`
		Traceback  []string `json:"traceback"`
	}
)

// legalOutput is o as the schema wants it; executed is its cell's count.
func legalOutput(o Output, executed *int) (json.RawMessage, error) {
	switch {
	case o.Type == Stream:
		return bridge.EncodeJSON(streamOutput{o.Name, Stream, lines(o.Text)})
	case o.Type == ErrorOutput:
		traceback := o.Traceback
		if traceback == nil {
			traceback = []string{}
		}
		return bridge.EncodeJSON(errorOutput{o.EName, o.EValue, ErrorOutput, traceback})
	case o.Data != nil && o.Type == ExecuteResult:
		n := o.ExecutionCount
		if n == nil {
			n = executed
		}
		return bridge.EncodeJSON(resultOutput{legalBundle(o.Data), legalCount(n), outputMetadata(o), ExecuteResult})
	case o.Data != nil && (o.Type == DisplayData || o.Type == UpdateDisplayData):
		return bridge.EncodeJSON(displayOutput{legalBundle(o.Data), outputMetadata(o), DisplayData})
	}
	note := fmt.Sprintf("[an output of unknown type %q, kept as %s]", o.Type, unknownMIME)
	return bridge.EncodeJSON(displayOutput{map[string]any{
		unknownMIME:  legalJSON(o.Raw),
		"text/plain": lines(note),
	}, json.RawMessage("{}"), DisplayData})
}

func outputMetadata(o Output) json.RawMessage {
	all, _ := decodeObject(o.Raw)
	if _, ok := decodeObject(all["metadata"]); !ok {
		return json.RawMessage("{}")
	}
	return legalJSON(all["metadata"])
}

// jsonMIME matches the types whose value may be any JSON; others are text.
var jsonMIME = regexp.MustCompile(`^application/(.*\+)?json$`)

func legalBundle(data map[string]json.RawMessage) map[string]any {
	legal := make(map[string]any, len(data))
	for mime, raw := range data {
		switch parts, isList := textList(raw); {
		case jsonMIME.MatchString(mime):
			legal[mime] = legalJSON(raw)
		case isList:
			legal[mime] = parts
		case strings.HasPrefix(mime, "text/") || mime == "image/svg+xml" || mime == "application/javascript":
			legal[mime] = lines(text(raw))
		default:
			legal[mime] = text(raw)
		}
	}
	return legal
}

// lines is s as nbformat stores text: a list of lines with their ends. Joined
// they are s.
func lines(s string) []string {
	l := strings.SplitAfter(s, "\n")
	if l[len(l)-1] == "" {
		l = l[:len(l)-1]
	}
	return l
}

// surrogates matches half of a UTF-16 pair, written as an escape, together
// with what keeps it from being one: RE2 cannot look ahead.
var surrogates = regexp.MustCompile(`\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}`)

// legalJSON is raw in UTF-8 that can be written again: readers choke on half a
// surrogate pair, which JSON as such allows.
func legalJSON(raw json.RawMessage) json.RawMessage {
	raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	if !json.Valid(raw) {
		raw, _ = json.Marshal(string(raw))
	}
	if !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)) {
		return raw
	}
	return surrogates.ReplaceAllFunc(raw, func(m []byte) []byte {
		if len(m) == len(`\ud800`) {
			return []byte(`\ufffd`)
		}
		return m
	})
}
