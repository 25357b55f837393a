package transfer

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
)

type uploadParams struct {
	Local     string `json:"local_path" doc:"File on this machine. Not a directory: pack one first."`
	Remote    string `json:"remote_path,omitempty" doc:"Where it goes in the runtime; relative paths are below /content. Default: the file's name."`
	Overwrite *bool  `json:"overwrite,omitempty" doc:"Whether to replace an existing file. Default true."`
}

func (t *tools) addUpload() {
	bridge.AddTool(t.tb, &mcp.Tool{
		Name:  "upload_file",
		Title: "Upload a file to the runtime",
		Description: "Copies a file from this machine into the notebook's runtime, verified by SHA-256; the target is replaced only when all is there. " +
			"An interrupted upload goes on where it was when it is repeated. A long one comes back with a job_id for job_status.",
		Annotations: bridge.Hints("Upload a file to the runtime", false, true, true, true),
	}, func(ctx context.Context, c *bridge.Call, p uploadParams) (*mcp.CallToolResult, error) {
		overwrite := p.Overwrite == nil || *p.Overwrite
		return t.run(ctx, c, "upload_file", t.files.Upload, Options{LocalPath: p.Local, RemotePath: p.Remote, Overwrite: overwrite})
	})
}
