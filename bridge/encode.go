package bridge

import (
	"bytes"
	"encoding/json"
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
