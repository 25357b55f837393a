package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// relayed is what we tell clients about the tools that are the tab's own.
var relayed = map[string]*mcp.ToolAnnotations{
	GetCells:    hints("Read cells", true, false, true),
	AddCodeCell: hints("Add a code cell", false, false, false),
	AddTextCell: hints("Add a text cell", false, false, false),
	UpdateCell:  hints("Replace a cell's source", false, true, true),
	MoveCell:    hints("Move a cell", false, false, true),
	DeleteCell:  hints("Delete a cell", false, true, true),
	RunCodeCell: Hints("Run a cell", false, true, false, true),
}

// AddRelay adds a tool that is the tab's own: its schema, its answer.
func AddRelay(tb *Toolbox, def Tool) {
	tb.add(relayTool(def), ParseParams(def.InputSchema), tb.Relay(def.Name))
}

func relayTool(def Tool) *mcp.Tool {
	a := relayed[def.Name]
	if a == nil {
		a = Hints(def.Name, false, true, false, true)
	}
	return &mcp.Tool{Name: def.Name, Description: def.Description, Title: a.Title, Annotations: a}
}

// Relay answers a call with what the tab answers, byte for byte. A tool that
// may run code goes through tb.Run.
func (tb *Toolbox) Relay(tool string) handler {
	return func(ctx context.Context, c *Call, args json.RawMessage) (*mcp.CallToolResult, error) {
		if params, ok := tb.shown(tool); ok && tb.Bridge.Live() == nil { // a wrong call opens no browser
			if _, err := params.Normalize(tool, args); err != nil {
				return nil, err
			}
		}
		tab, err := tb.Bridge.Tab(ctx, c.Progress.Waiting)
		if err != nil {
			return nil, err
		}
		args, err = Arguments(tab, tool, args)
		if err != nil {
			return nil, err
		}
		if RunsCode(tool) {
			return tb.Run(ctx, c, tool, args)
		}
		if adds(tool) && tb.Guard != nil {
			if err := tb.Guard(ctx, tab); err != nil {
				return nil, err
			}
		}
		raw, err := tab.Call(ctx, tool, args, c.relayProgress())
		if errors.Is(err, ErrTabGone) { // nothing happened: once more, on the tab that is re-opened
			if tab, err = tb.Bridge.Tab(ctx, c.Progress.Waiting); err != nil {
				return nil, err
			}
			raw, err = tab.Call(ctx, tool, args, c.relayProgress())
		}
		if err != nil {
			return nil, toolError(tool, err)
		}
		if adds(tool) && tb.Added != nil {
			if m := newCell.FindSubmatch(raw); m != nil {
				tb.Added(tab, string(m[1]))
			}
		}
		return tb.Splice(c.Req, raw), nil
	}
}

// adds tells the tools that no cell id protects from going to another notebook.
func adds(tool string) bool { return tool == AddCodeCell || tool == AddTextCell }

// newCell finds the id in the answer of a tool that adds, structured or as
// text.
var newCell = regexp.MustCompile(`newCellId\\?"\s*:\s*\\?"([A-Za-z0-9_-]+)`)

func (c *Call) relayProgress() func(json.RawMessage) {
	if !c.Progress.Wanted() {
		return nil
	}
	return c.Progress.Relay
}

// Arguments makes a call's arguments what the live tab accepts: checked by its
// schema, with the defaults that our list promises.
func Arguments(tab *Tab, tool string, args json.RawMessage) (json.RawMessage, error) {
	def, ok := tab.parse(tool)
	if !ok {
		return nil, &MissingToolError{tool, names(tab.Tools())}
	}
	if def.opaque {
		return withoutExtra(tool, args)
	}
	params, filled := def.params, def.filled
	args, err := params.Normalize(tool, args)
	if err != nil || len(filled) == 0 {
		return args, err
	}
	list, _, err := splitArguments(tool, args)
	if err != nil {
		return nil, err
	}
	n := len(list)
	for _, p := range params {
		v, ok := filled[p.Name]
		if ok && !slices.ContainsFunc(list, func(a argument) bool { return a.name == p.Name }) {
			list = append(list, argument{p.Name, v})
		}
	}
	if len(list) == n {
		return args, nil
	}
	return joinArguments(list), nil
}

// pastEnd is an index that appends: the tab clamps it.
const pastEnd = "9999999"

// defaults are the required arguments that our list calls optional.
func defaults(tool string, params Params) map[string]json.RawMessage {
	if tool != AddCodeCell && tool != AddTextCell {
		return nil
	}
	known := map[string]json.RawMessage{"cellIndex": json.RawMessage(pastEnd)}
	if tool == AddCodeCell {
		known["language"] = json.RawMessage(`"python"`)
	}
	for name := range known {
		if p, ok := params.Find(name); !ok || !p.Required {
			delete(known, name)
		}
	}
	return known
}

func names(tools []Tool) []string {
	list := make([]string, len(tools))
	for i, t := range tools {
		list[i] = t.Name
	}
	return list
}
