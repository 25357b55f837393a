package main

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// stateless is the first version of MCP in which a client asks for logs with
// each request, and gets none that it did not ask for.
const stateless = "2026-07-28"

// firstState has logs from info on sent to a client that never says
// logging/setLevel, as the specification leaves to the server: most clients
// never do, and what a tab says is for them.
func firstState() *mcp.ServerSessionState {
	return &mcp.ServerSessionState{LogLevel: "info"}
}

// relayLog passes on what the tab logs, from the level on that the client set,
// without secrets: a page knows its link.
func (srv *server) relayLog(params json.RawMessage) {
	//lint:ignore SA1019 deprecated for the newest version only
	p := mcp.LoggingMessageParams{Data: new(json.RawMessage)} // kept as it was written
	if json.Unmarshal([]byte(srv.secrets.Redact(string(params))), &p) != nil {
		return
	}
	for ss := range srv.mcp.Sessions() {
		if hello := ss.InitializeParams(); hello == nil || hello.ProtocolVersion >= stateless {
			continue
		}
		//lint:ignore SA1019 see above
		ss.Log(context.Background(), &p)
	}
}
