package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Toolbox is an MCP server's tool list and what every tool of it shares. Other
// packages add their tools with [AddTool].
type Toolbox struct {
	Server *mcp.Server
	Bridge *Bridge
	// Splice answers a request with a tab's raw result.
	Splice func(*mcp.CallToolRequest, json.RawMessage) *mcp.CallToolResult
	// Run carries a tool that may run code; the package of jobs provides it.
	Run func(ctx context.Context, c *Call, tool string, args json.RawMessage) (*mcp.CallToolResult, error)
	// Guard is asked before a cell is added, and Added is told of its id; the
	// package of notebooks provides both.
	Guard func(context.Context, *Tab) error
	Added func(tab *Tab, id string)
	// MaxOutput is the budget for the text of one result in runes; 0 = by
	// client.
	MaxOutput int
	Facts     Facts

	own  []string // names of our tools, the seven included
	live liveTools
}

// AddTools adds the tools of this package. run_code_cell is not among them: it
// is a job.
func AddTools(tb *Toolbox) {
	addOpen(tb)
	addStatus(tb)
	addListColabTools(tb)
	addCallColabTool(tb)
	tb.Server.AddSendingMiddleware(tb.quietAtFirst)
	for _, t := range Catalog() {
		if !RunsCode(t.Name) {
			AddRelay(tb, t)
		}
	}
}

// Call is one call of a tool.
type Call struct {
	Req      *mcp.CallToolRequest
	Progress *Progress
	Began    time.Time // before any wait for a tab
}

// Client is the name the agent's program gave itself, "" if none.
func (c *Call) Client() string {
	if info := c.Req.ClientInfo(); info != nil {
		return info.Name
	}
	return ""
}

// AddTool adds a tool whose parameters are the fields of P, see [ParamsOf]. An
// error of h becomes a result the model can read, never a JSON-RPC error.
func AddTool[P any](tb *Toolbox, t *mcp.Tool, h func(context.Context, *Call, P) (*mcp.CallToolResult, error)) {
	params := ParamsOf(reflect.TypeFor[P]())
	tb.add(t, params, func(ctx context.Context, c *Call, args json.RawMessage) (*mcp.CallToolResult, error) {
		args, err := params.Normalize(t.Name, args)
		if err != nil {
			return nil, err
		}
		var p P
		if len(args) > 0 {
			if err := json.Unmarshal(args, &p); err != nil {
				return nil, &ArgumentError{t.Name, tooLarge(err)}
			}
		}
		return h(ctx, c, p)
	})
}

// tooLarge says of arguments that have the declared types why they could not be
// taken: a number that is too large for its.
func tooLarge(err error) string {
	if odd, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s: expected an %s, got %s", odd.Field, odd.Type, odd.Value)
	}
	return err.Error()
}

type handler func(ctx context.Context, c *Call, args json.RawMessage) (*mcp.CallToolResult, error)

// add puts a tool of ours on the list, for good.
func (tb *Toolbox) add(t *mcp.Tool, params Params, h handler) {
	if !slices.Contains(tb.own, t.Name) {
		tb.own = append(tb.own, t.Name)
	}
	tb.set(t, params, h)
}

// set makes the server answer for a tool.
func (tb *Toolbox) set(t *mcp.Tool, params Params, h handler) {
	t.InputSchema = params.Schema()
	tb.Server.AddTool(t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		c := &Call{Req: req, Progress: newProgress(ctx, req), Began: time.Now()}
		defer c.Progress.end()
		res, err := h(ctx, c, req.Params.Arguments)
		if err != nil {
			res = &mcp.CallToolResult{}
			res.SetError(err)
		}
		return res, nil
	})
}

// Owns reports whether name is a tool of this server rather than of a tab.
func (tb *Toolbox) Owns(name string) bool { return slices.Contains(tb.own, name) }

// Answer is a result whose first block is v as a JSON object. It is for text
// and images only: clients that see structured content hide the rest.
func Answer(v any, more ...mcp.Content) (*mcp.CallToolResult, error) {
	object, err := EncodeJSON(v)
	if err != nil {
		return nil, err
	}
	return AnswerText(object, more...), nil
}

// AnswerText is Answer for a JSON object that is encoded already.
func AnswerText(object []byte, more ...mcp.Content) *mcp.CallToolResult {
	text := &mcp.TextContent{Text: string(object)}
	return &mcp.CallToolResult{Content: append([]mcp.Content{text}, more...)}
}

// hints are what a client may assume of a tool that stays on this machine and
// in this notebook.
func hints(title string, readOnly, destructive, idempotent bool) *mcp.ToolAnnotations {
	no := false
	return &mcp.ToolAnnotations{Title: title, ReadOnlyHint: readOnly, DestructiveHint: &destructive, IdempotentHint: idempotent, OpenWorldHint: &no}
}

// Hints are the annotations of a tool.
func Hints(title string, readOnly, destructive, idempotent, openWorld bool) *mcp.ToolAnnotations {
	a := hints(title, readOnly, destructive, idempotent)
	a.OpenWorldHint = &openWorld
	return a
}

// Always marks the few tools that a client should not have to search for.
func Always() mcp.Meta { return mcp.Meta{"anthropic/alwaysLoad": true} }

// toolError is what a tab said instead of a result.
func toolError(tool string, err error) error {
	var said *RPCError
	if errors.As(err, &said) {
		return &ToolError{tool, said.Message}
	}
	return err
}

// ToolError is a refusal of the tab, in its own words.
type ToolError struct{ Tool, Text string }

func (e *ToolError) Error() string { return e.Tool + ": " + e.Text }

// MissingToolError says that the connected tab lacks a tool.
type MissingToolError struct {
	Tool string
	Live []string
}

func (e *MissingToolError) Error() string {
	return "the connected tab has no tool " + e.Tool + "; it has " + join(e.Live)
}

func join(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
