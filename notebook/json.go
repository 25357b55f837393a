package notebook

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// EncodeJSON is the JSON text of v as our results carry it: `<`, `>` and `&`
// stay themselves, and no newline ends it.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// object is a JSON object whose members are still as they came. Decoding into
// it, and not into a struct, tells an absent key from an empty one and matches
// names exactly (encoding/json folds case for structs).
type object map[string]json.RawMessage

func decodeObject(raw json.RawMessage) (object, bool) {
	var o object
	if err := json.Unmarshal(raw, &o); err != nil || o == nil {
		return nil, false
	}
	return o, true
}

func decodeList(raw json.RawMessage) ([]json.RawMessage, bool) {
	var l []json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &l) != nil {
		return nil, false
	}
	return l, true
}

// text reads nbformat's multiline string: a string, or a list of strings to be
// joined. Anything else is shown as its JSON rather than lost; null and an
// absent value are "".
func text(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if raw[0] == '"' {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return s
		}
	}
	if raw[0] == '[' {
		if parts, ok := textList(raw); ok {
			return strings.Join(parts, "")
		}
	}
	return compact(raw)
}

// textList reads a list of strings; one element of another kind refuses it.
func textList(raw json.RawMessage) ([]string, bool) {
	var parts []*string // a null element is no string
	if len(raw) == 0 || json.Unmarshal(raw, &parts) != nil || parts == nil {
		return nil, false
	}
	out := make([]string, len(parts))
	for i, p := range parts {
		if p == nil {
			return nil, false
		}
		out[i] = *p
	}
	return out, true
}

// compact is raw without insignificant space, with valid UTF-8 only.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return strings.ToValidUTF8(string(raw), "\uFFFD")
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// count reads an execution count; null, absent and anything but a plain
// integer is nil.
func count(raw json.RawMessage) *int {
	n, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return nil
	}
	return &n
}
