package bridge

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type colabTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

func addListColabTools(tb *Toolbox) {
	AddTool(tb, &mcp.Tool{
		Name:        "list_colab_tools",
		Title:       "List the tab's own tools",
		Description: "Lists the tools of the connected Colab tab as it describes them, for call_colab_tool. Never opens the browser.",
		Annotations: hints("List the tab's own tools", true, false, true),
	}, func(context.Context, *Call, struct{}) (*mcp.CallToolResult, error) {
		tab := tb.Bridge.Live()
		if tab == nil {
			return nil, tb.Bridge.Missing()
		}
		list := []colabTool{}
		for _, t := range tab.Tools() {
			if len(t.InputSchema) == 0 {
				t.InputSchema = json.RawMessage(`{}`)
			}
			list = append(list, colabTool(t))
		}
		return Answer(struct {
			Tools []colabTool `json:"tools"`
		}{list})
	})
}

type callParamsOf struct {
	Name      string          `json:"name" doc:"Name of the tool, as list_colab_tools gives it."`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"Arguments of the tool, as its input_schema describes them."`
}

func addCallColabTool(tb *Toolbox) {
	AddTool(tb, &mcp.Tool{
		Name:        "call_colab_tool",
		Title:       "Call a tool of the tab",
		Description: "Calls any tool that the connected Colab tab lists, for tools this server has no own entry for, and returns the tab's answer unchanged.",
		Annotations: Hints("Call a tool of the tab", false, true, false, true),
	}, func(ctx context.Context, c *Call, p callParamsOf) (*mcp.CallToolResult, error) {
		if _, tabs := Known(p.Name); tb.Owns(p.Name) && !tabs {
			return nil, &ArgumentError{"call_colab_tool", fmt.Sprintf("%s is a tool of this server, not of the tab: call it directly", p.Name)}
		}
		return tb.Relay(p.Name)(ctx, c, p.Arguments)
	})
}
