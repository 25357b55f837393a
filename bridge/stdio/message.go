package stdio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A refusal is the answer to a line that is no acceptable message.
type refusal struct {
	code    int64 // JSON-RPC 2.0, section 5.1
	message string
	id      json.RawMessage // as far as it could be found; nil if not
}

func refuse(code int64, id json.RawMessage, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...), id}
}

// members are the top-level members of a JSON object. Unlike a struct they tell absent from null and "id"
// from "ID".
type members map[string]json.RawMessage

var bom = []byte("\ufeff")

// decode splits a line into members. A blank line has none, and no error.
func decode(text []byte) (members, *refusal) {
	text = bytes.Trim(bytes.TrimPrefix(text, bom), " \t\r")
	switch {
	case len(text) == 0:
		return nil, nil
	case !utf8.Valid(text):
		return nil, refuse(jsonrpc.CodeParseError, nil, "the line is not valid UTF-8; a message is one line of JSON in UTF-8")
	case text[0] != '{' && json.Valid(text):
		return nil, refuse(jsonrpc.CodeInvalidRequest, nil, "the line is not a JSON object; send one message a line, without batches")
	}
	var m members
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, refuse(jsonrpc.CodeParseError, nil, "the line is not JSON: %v; send one message a line", err)
	}
	return m, nil
}

// has reports whether a member is there and is not null.
func (m members) has(name string) bool {
	raw, ok := m[name]
	return ok && !bytes.Equal(raw, null)
}

// text returns a string member.
func (m members) text(name string) (string, bool) {
	var s *string
	if json.Unmarshal(m[name], &s) != nil || s == nil {
		return "", false
	}
	return *s, true
}

// isReply reports whether the client answers one of our requests. Such a line is never answered.
func (m members) isReply() bool {
	_, method := m["method"]
	_, result := m["result"]
	return !method && (result || m.has("error"))
}

// reply returns the client's answer to one of our requests. One that makes no sense fails the request
// rather than leave it waiting; one that belongs to no request at all is nil.
func (m members) reply() *jsonrpc.Response {
	i, ok := parseID(m["id"])
	if !ok {
		return nil
	}
	resp := new(jsonrpc.Response)
	if resp.ID, ok = i.sdk(); !ok {
		return nil
	}
	version, _ := m.text("jsonrpc")
	failure := new(jsonrpc.Error)
	switch {
	case version != "2.0":
		resp.Error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: `the client's answer does not say "jsonrpc":"2.0"`}
	case !m.has("error"):
		resp.Result = m["result"]
	case json.Unmarshal(m["error"], failure) != nil:
		resp.Error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the client answered with a malformed error"}
	default:
		resp.Error = failure
	}
	return resp
}

// A request is a request or a notification of the client.
type request struct {
	method string
	params json.RawMessage // nil if absent or null
	id     id              // zero for a notification
	isCall bool
}

// request checks that m is a request or a notification.
func (m members) request() (request, *refusal) {
	i, legal := parseID(m["id"])
	if version, _ := m.text("jsonrpc"); version != "2.0" {
		return request{}, refuse(jsonrpc.CodeInvalidRequest, i.raw, `this is no JSON-RPC message: it must say "jsonrpc":"2.0"`)
	}
	method, ok := m.text("method")
	if !ok {
		return request{}, refuse(jsonrpc.CodeInvalidRequest, i.raw, `"method" must be a string`)
	}
	r := request{method: method, id: i, isCall: legal}
	if m.has("params") {
		r.params = m["params"]
	}
	_, given := m["id"]
	switch notification := isNotification(method); {
	case notification && m.has("id"):
		return r, refuse(jsonrpc.CodeInvalidRequest, i.raw, "%.100q is a notification and has no id", method)
	case given && !legal && !notification:
		return r, refuse(jsonrpc.CodeInvalidRequest, nil, "a request id must be a string or an integer, not %.40s", m["id"])
	}
	return r, nil
}

func isNotification(method string) bool {
	const prefix = "notifications/"
	return len(method) > len(prefix) && method[:len(prefix)] == prefix
}

// progressToken returns params._meta.progressToken, or nil.
func (r request) progressToken() json.RawMessage {
	if !bytes.Contains(r.params, []byte(`"progressToken"`)) {
		return nil // not worth a second look at what may be megabytes
	}
	var params, meta members
	if json.Unmarshal(r.params, &params) != nil || json.Unmarshal(params["_meta"], &meta) != nil {
		return nil
	}
	return meta["progressToken"]
}

// lastID matches an id that is the last member of an object which ends the text.
var lastID = regexp.MustCompile(`,\s*"id"\s*:\s*("[^"\\]*"|-?[0-9]+)\s*\}\s*$`)

// salvageID finds the id of a request of which only the two ends are known. It returns nil if the head does
// not show that it is a request: an id alone could be that of an answer, which is from another id space.
func salvageID(head, tail []byte) json.RawMessage {
	var found json.RawMessage
	isRequest := false
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(head, bom)))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for {
		name, err := d.Token()
		if err != nil {
			break
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			break
		}
		switch name {
		case "method":
			isRequest = true
		case "id":
			found = value
		}
	}
	if !isRequest {
		return nil
	}
	if m := lastID.FindSubmatch(tail); found == nil && m != nil {
		found = m[1]
	}
	if i, ok := parseID(found); ok {
		return i.raw
	}
	return nil
}
