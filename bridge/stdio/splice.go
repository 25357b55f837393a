package stdio

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// markMeta is in the _meta of a placeholder and names its call. It never reaches the wire.
const markMeta = "colab-mcp/spliced"

// Splice registers raw as the result of req and returns a placeholder for the tool handler to return. The
// client gets raw byte for byte. Raw must be one JSON object without a newline byte; that is not checked
// here, and it must not be changed afterwards. A middleware that returns another result or an error instead
// of the placeholder wins.
//
// A request that did not come through t (a test's in-memory session) gets raw decoded. Splice may be called
// concurrently.
func (t *Transport) Splice(req *mcp.CallToolRequest, raw json.RawMessage) *mcp.CallToolResult {
	if c := t.conn.Load(); c != nil && req.Extra != nil {
		if mark, ok := c.calls.splice(req.Extra, raw); ok {
			return &mcp.CallToolResult{
				Meta:    mcp.Meta{markMeta: mark},
				Content: []mcp.Content{},
			}
		}
	}
	res := new(mcp.CallToolResult)
	if err := json.Unmarshal(raw, res); err != nil {
		res = new(mcp.CallToolResult)
		res.SetError(fmt.Errorf("stdio: decode a tool result: %w", err))
	}
	return res
}

// spliced reports whether resp carries the placeholder of c's spliced result.
func (c *call) spliced(resp *jsonrpc.Response) bool {
	return c.result != nil && resp.Error == nil &&
		bytes.Contains(resp.Result, []byte(`"`+markMeta+`":"`+c.mark+`"`))
}
