package transfer

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
)

type downloadParams struct {
	Remote    string `json:"remote_path" doc:"File in the runtime; relative paths are below /content. Not a directory: pack one first."`
	Local     string `json:"local_path,omitempty" doc:"Where it goes on this machine. Default: the working directory and the file's name."`
	Overwrite bool   `json:"overwrite,omitempty" doc:"Whether to replace an existing file. Default false."`
}

func (t *tools) addDownload() {
	bridge.AddTool(t.tb, &mcp.Tool{
		Name:  "download_file",
		Title: "Download a file from the runtime",
		Description: "Copies a file from the notebook's runtime to this machine, verified by SHA-256; the target is replaced only when all is there. " +
			"An interrupted download goes on where it was when it is repeated. A long one comes back with a job_id for job_status.",
		Annotations: bridge.Hints("Download a file from the runtime", false, false, true, true),
	}, func(ctx context.Context, c *bridge.Call, p downloadParams) (*mcp.CallToolResult, error) {
		return t.run(ctx, c, "download_file", t.files.Download, Options{LocalPath: p.Local, RemotePath: p.Remote, Overwrite: p.Overwrite})
	})
}
