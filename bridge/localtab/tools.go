package localtab

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A tool is one of the seven of Colab's page.
type tool struct {
	name, description string
	params            []param
	run               func(ctx context.Context, t *Tab, a arguments, begun func()) (payload []byte, err error)
}

// tools is the whole list, in the page's order. A run function does what later calls must see, calls
// begun, and may then wait.
var tools = []tool{
	{"add_code_cell", "Add a code cell to the notebook.", []param{
		{name: "cellIndex", kind: isIndex, required: true, doc: "The index at which to add the cell."},
		{name: "language", kind: isLanguage, required: true, doc: "The language of the cell."},
		{name: "code", kind: isString, required: true, doc: "The code of the cell."},
	}, func(_ context.Context, t *Tab, a arguments, _ func()) ([]byte, error) {
		return t.added(t.nb.insert(a.index("cellIndex", 0), "code", a.text("code"))), nil
	}},
	{"add_text_cell", "Add a text cell to the notebook.", []param{
		{name: "cellIndex", kind: isIndex, required: true, doc: "The index at which to add the cell."},
		{name: "content", kind: isString, required: true, doc: "The Markdown of the cell."},
	}, func(_ context.Context, t *Tab, a arguments, _ func()) ([]byte, error) {
		return t.added(t.nb.insert(a.index("cellIndex", 0), "markdown", a.text("content"))), nil
	}},
	{"delete_cell", "Delete a cell.", []param{cellID}, func(_ context.Context, t *Tab, a arguments, _ func()) ([]byte, error) {
		return t.edited(t.nb.delete(a.text("cellId")))
	}},
	{"get_cells", "Get cells of the notebook.", []param{
		{name: "cellIndexStart", kind: isIndex, doc: "The index of the first cell, 0 by default."},
		{name: "cellIndexEnd", kind: isIndex, doc: "The index of the last cell, inclusive; the last of the notebook by default."},
		{name: "includeOutputs", kind: isBool, doc: "Whether to include outputs, false by default."},
	}, func(_ context.Context, t *Tab, a arguments, _ func()) ([]byte, error) {
		return t.nb.cellsBetween(a.index("cellIndexStart", 0), a.index("cellIndexEnd", maxIndex), a.bool("includeOutputs")), nil
	}},
	{"move_cell", "Move a cell to another index.", []param{
		cellID,
		{name: "cellIndex", kind: isIndex, required: true, doc: "The index to move the cell to."},
	}, func(_ context.Context, t *Tab, a arguments, _ func()) ([]byte, error) {
		return t.edited(t.nb.move(a.text("cellId"), a.index("cellIndex", 0)))
	}},
	{"run_code_cell", "Run a code cell and wait for its outputs.", []param{cellID}, runCodeCell},
	{"update_cell", "Replace the content of a cell.", []param{
		cellID,
		{name: "content", kind: isString, required: true, doc: "The new content of the cell."},
	}, func(_ context.Context, t *Tab, a arguments, _ func()) ([]byte, error) {
		return t.edited(t.nb.update(a.text("cellId"), a.text("content")))
	}},
}

var cellID = param{name: "cellId", kind: isString, required: true, doc: "The ID of the cell."}

func runCodeCell(ctx context.Context, t *Tab, a arguments, begun func()) ([]byte, error) {
	r, err := t.start(a.text("cellId"))
	begun()
	if err != nil {
		return nil, err
	}
	select {
	case <-r.done:
	case <-ctx.Done(): // nobody listens any more; the cell runs on
		return nil, ctx.Err()
	}
	if r.err != nil {
		return nil, r.err
	}
	return t.nb.outputsOf(r.out), nil
}

func (t *Tab) added(id string) []byte {
	t.changed()
	return append(appendString([]byte(`{"newCellId":`), id), '}')
}

func (t *Tab) edited(err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	t.changed()
	return []byte("{}"), nil
}

// newServer makes the MCP server of one connection.
func newServer(t *Tab, c *conn) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "colab-mcp-localtab", Version: "1"}, &mcp.ServerOptions{
		Logger:       t.log,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
		// The ones a Colab tab is known to speak.
		SupportedProtocolVersions: []string{"2025-06-18", "2024-11-05"},
	})
	for _, tool := range tools {
		s.AddTool(&mcp.Tool{Name: tool.name, Description: tool.description, InputSchema: tool.schema()},
			func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				call := c.inOrder(req)
				defer call.begin()
				args, err := tool.parse(req.Params.Arguments, call.long)
				var payload []byte
				if err == nil {
					payload, err = tool.run(ctx, t, args, call.begin)
				}
				if err != nil {
					return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
				}
				call.payload = t.envelope(payload)
				return &mcp.CallToolResult{Content: []mcp.Content{}}, nil // conn.Write sends the payload
			})
	}
	return s
}

// envelope wraps a payload as the page does: as text and as structuredContent.
func (t *Tab) envelope(payload []byte) []byte {
	dst := make([]byte, 0, 2*len(payload)+len(payload)/8+128)
	dst = append(dst, `{"content":[`...)
	if !t.o.StructuredOnly {
		dst = append(appendString(append(dst, `{"type":"text","text":`...), payload), '}')
	}
	dst = append(dst, ']')
	if !t.o.TextOnly {
		dst = append(append(dst, `,"structuredContent":`...), payload...)
	}
	return append(dst, '}')
}

// schema is the tool's inputSchema, exactly as captured from Colab.
func (t *tool) schema() json.RawMessage {
	var props, required []string
	for _, p := range t.params {
		props = append(props, fmt.Sprintf("%q:%s", p.name, p.schema()))
		if p.required {
			required = append(required, fmt.Sprintf("%q", p.name))
		}
	}
	s := `{"type":"object","properties":{` + strings.Join(props, ",") + `}`
	if required != nil {
		s += `,"required":[` + strings.Join(required, ",") + `]`
	}
	return json.RawMessage(s + `,"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}`)
}
