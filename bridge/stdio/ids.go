package stdio

import (
	"encoding/json"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// An id is a request id as the client wrote it. MCP allows a string or an integer.
type id struct {
	raw json.RawMessage // echoed byte for byte
	key string          // equal for equal ids, however they are escaped
}

var null = json.RawMessage("null")

// parseID reports false for anything that MCP does not allow as an id.
func parseID(raw json.RawMessage) (id, bool) {
	if len(raw) == 0 {
		return id{}, false
	}
	if raw[0] == '"' {
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return id{}, false
		}
		return id{raw, `"` + s}, true
	}
	digits := raw
	if digits[0] == '-' {
		digits = digits[1:]
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return id{}, false
		}
	}
	return id{raw, string(raw)}, len(digits) > 0
}

// sdk returns i in the SDK's form, which holds integers only as far as a float64 does. It reports false
// for one that it would change.
func (i id) sdk() (jsonrpc.ID, bool) {
	if i.key[0] == '"' {
		return sdkID(i.key[1:]), true
	}
	n, err := strconv.ParseInt(i.key, 10, 64)
	const exact = 1 << 53
	if err != nil || n > exact || n < -exact {
		return jsonrpc.ID{}, false
	}
	return sdkID(float64(n)), true
}

// sdkID makes an SDK id of a string or a float64, which cannot fail.
func sdkID(v any) jsonrpc.ID {
	made, err := jsonrpc.MakeID(v)
	if err != nil {
		panic("stdio: " + err.Error())
	}
	return made
}

// tokenKey returns a key that is equal for a progress token as the client sent it and as the SDK sends it
// back, which is through a float64 if it is a number. It is "" for what is no token.
func tokenKey(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return ""
	}
	switch v := v.(type) {
	case string:
		return `"` + v
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}
