package bridge

import (
	_ "embed"
	"encoding/json"
	"slices"
)

// Tool is one tool as an MCP server lists it.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// The names of the seven tools every Colab tab has.
const (
	GetCells    = "get_cells"
	AddCodeCell = "add_code_cell"
	AddTextCell = "add_text_cell"
	UpdateCell  = "update_cell"
	MoveCell    = "move_cell"
	DeleteCell  = "delete_cell"
	RunCodeCell = "run_code_cell"
)

//go:embed catalog.json
var catalogJSON []byte

// Catalog lists the seven tools as captured from a live tab, with descriptions
// of our own. A tab that lists them otherwise is believed.
func Catalog() []Tool {
	var tools []Tool
	if err := json.Unmarshal(catalogJSON, &tools); err != nil {
		panic("bridge: catalog.json: " + err.Error())
	}
	return tools
}

// Known is the captured definition of a tool, if it is one of the seven.
func Known(name string) (Tool, bool) {
	tools := Catalog()
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return Tool{}, false
	}
	return tools[i], true
}

// readOnly tells the tools that may be asked again when an answer was lost.
func readOnly(tool string) bool { return tool == GetCells }

// RunsCode tells whether a call of the tool may run the user's code. Nothing
// is known of tools that a tab adds, so they might.
func RunsCode(tool string) bool {
	switch tool {
	case GetCells, AddCodeCell, AddTextCell, UpdateCell, MoveCell, DeleteCell:
		return false
	}
	return true
}
