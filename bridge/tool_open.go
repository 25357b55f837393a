package bridge

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const openName = "open_colab_browser_connection"

type openParams struct {
	URL   string `json:"notebook_url,omitempty" doc:"Link of the notebook: Colab, Google Drive, GitHub or gist. Default: the notebook that is connected or was last opened here, else a new scratch notebook."`
	Force bool   `json:"force,omitempty" doc:"Open anew although the notebook is connected, something is running in it, or a tab is already waiting for its user. Default false."`
}

type openResult struct {
	Result   bool     `json:"result"`
	State    string   `json:"state"`
	Notebook string   `json:"notebook_url,omitempty"`
	Waited   float64  `json:"waited_s,omitempty"`
	Note     string   `json:"note,omitempty"`
	Causes   []string `json:"causes,omitempty"`
	Manual   string   `json:"manual_url,omitempty"`
}

func addOpen(tb *Toolbox) {
	AddTool(tb, &mcp.Tool{
		Name:  openName,
		Title: "Open a notebook in Colab",
		Description: "Connects to a Google Colab notebook: opens it in the user's browser and waits until the user accepts the dialog in the tab. " +
			"Call it first, and again if it answers state \"waiting\": a repeat keeps waiting and opens no second tab. " +
			"With another notebook_url than the connected one the current tab is closed and the new one opened.",
		Annotations: Hints("Open a notebook in Colab", false, false, true, true),
		Meta:        Always(),
	}, tb.open)
}

func (tb *Toolbox) open(ctx context.Context, c *Call, p openParams) (*mcp.CallToolResult, error) {
	ask := Ask{Force: p.Force, Tell: c.Progress.Waiting}
	if p.URL != "" {
		link, err := ParseLink(p.URL)
		if err != nil {
			return nil, err
		}
		ask.Link = &link
	}
	got, err := tb.Bridge.Open(ctx, ask)
	if err != nil {
		return nil, err
	}
	if tab := tb.Bridge.Live(); got.Ready && tab != nil {
		tb.follow(tab.Tools)
		tb.settle(ctx)
	}
	res := openResult{Result: got.Ready, State: "ready", Notebook: got.Notebook, Waited: seconds(got.Waited), Note: got.Note}
	if !got.Ready {
		res.State, res.Causes, res.Manual = "waiting", got.Causes, got.Manual
	}
	return Answer(res)
}
