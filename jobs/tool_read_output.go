package jobs

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
)

type readOutputParams struct {
	Ref    string `json:"output_ref" doc:"The output_ref of a cell in a result."`
	Stream string `json:"stream,omitempty" doc:"stdout, stderr, result, traceback, or another name that an answer lists. Default: the first there is."`
	Offset int    `json:"offset,omitempty" doc:"Byte to start at; next_offset of the last answer goes on. Default 0."`
	Limit  int    `json:"limit,omitempty" doc:"Most bytes to return. Default: as many as fit."`
	Tail   int    `json:"tail,omitempty" doc:"Return the last lines instead, so many of them."`
	Grep   string `json:"grep,omitempty" doc:"Return the lines that match this regular expression (RE2), with their numbers."`
}

func (t *tools) addReadOutput() {
	bridge.AddTool(t.tb, &mcp.Tool{
		Name:        "read_output",
		Title:       "Read a cut output",
		Description: "Pages through or searches the whole output of a cell whose result was cut: give the output_ref of that cell. Needs no connected tab.",
		Annotations: bridge.Hints("Read a cut output", true, false, true, false),
	}, t.readOutput)
}

func (t *tools) readOutput(_ context.Context, c *bridge.Call, p readOutputParams) (*mcp.CallToolResult, error) {
	k, err := t.m.fetch(p.Ref)
	if err != nil {
		return nil, err
	}
	page, err := k.Read(notebook.Query{OutputRef: p.Ref, Stream: p.Stream, Offset: p.Offset, Limit: p.Limit, Tail: p.Tail, Grep: p.Grep}, t.budget(c))
	if err != nil {
		return nil, err
	}
	return bridge.Answer(page)
}
