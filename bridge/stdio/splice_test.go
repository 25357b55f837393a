package stdio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge/stdio"
)

// member returns a member of a JSON object as it stands there.
func member(t *testing.T, object, name string) string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &m); err != nil {
		t.Fatalf("%.300s: %v", object, err)
	}
	return string(m[name])
}

func TestSplicedResultPassesUnchanged(t *testing.T) { // C9
	odd := []string{
		`{}`,
		`{"content":[]}`,
		`{"content":[{"type":"text","text":"9007199254740993"}],"structuredContent":{"n":9007199254740993,"x":1e400,"y":1.0,"z":-0}}`,
		`{"z":1,"a":2,"content":null,"unknown":{"k":[1,2,{"q":null}]}}`,
		`{"content":[{"type":"hologram","data":"base64url-_8"}]}`,
		`{"content":[{"type":"image","data":"AA-_","mimeType":"image/png"}],"isError":true}`,
		`{"content":[{"type":"text","text":"a<b && c>d"}]}`,
		`{"content":[{"type":"text","text":"\u003c \/ \ud83d\ude00 \ud800"}]}`,
		"{\"content\":[{\"type\":\"text\",\"text\":\"line\u2028sep\u2029 é 漢\"}]}",
		`{ "content" : [ ] , "isError" : false }`,
		`{"a":1,"a":2}`,
		`{"content":[{"type":"text","text":"` + strings.Repeat("0123456789abcdef", 1<<16) + `"}]}`,
	}
	synctest.Test(t, func(t *testing.T) {
		var next string
		tr := new(stdio.Transport)
		c := connect(t, tr, map[string]mcp.ToolHandler{
			"raw": func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return tr.Splice(req, json.RawMessage(next)), nil
			},
		})
		for i, raw := range odd {
			next = raw
			c.call(fmt.Sprint(i), "raw", "")
			c.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, i, raw))
		}
		if n := tr.Kept(); n != 0 {
			t.Errorf("%d calls are kept", n)
		}
	})
}

func TestSplicedResultPassesUnchangedInTheNewestProtocol(t *testing.T) { // C9
	synctest.Test(t, func(t *testing.T) {
		tr := new(stdio.Transport)
		c := connect(t, tr, map[string]mcp.ToolHandler{
			"raw": func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return tr.Splice(req, json.RawMessage(`{"x":1e400}`)), nil
			},
		})
		c.call("1", "raw", `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{"x":1e400}}`)
	})
}

func TestSpliceOfCancelledRequestKeepsAndWritesNothing(t *testing.T) { // C13
	synctest.Test(t, func(t *testing.T) {
		tr := new(stdio.Transport)
		c := connect(t, tr, map[string]mcp.ToolHandler{
			"raw": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				early := tr.Splice(req, json.RawMessage(`{"early":true}`))
				if n := tr.KeptBytes(); n != len(`{"early":true}`) {
					t.Errorf("%d bytes are kept of the result", n)
				}
				<-ctx.Done()
				if n := tr.KeptBytes(); n != 0 {
					t.Errorf("%d bytes are kept after the cancel", n)
				}
				if late := tr.Splice(req, json.RawMessage(`not even JSON`)); late.IsError {
					t.Error("the result of a cancelled request was decoded")
				}
				if n := tr.KeptBytes(); n != 0 {
					t.Errorf("%d bytes are kept of what nobody waits for", n)
				}
				return early, nil
			},
		})
		c.call("1", "raw", "")
		synctest.Wait()
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		c.want()
		if n := tr.Kept(); n != 0 {
			t.Errorf("%d calls are kept", n)
		}
	})
}

func TestWhatReplacesThePlaceholderWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := new(stdio.Transport)
		c := connect(t, tr, map[string]mcp.ToolHandler{
			"fail": func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				tr.Splice(req, json.RawMessage(`{"spliced":true}`))
				return nil, errors.New("boom")
			},
			"other": func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				tr.Splice(req, json.RawMessage(`{"spliced":true}`))
				return text("other"), nil
			},
			"twice": func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				tr.Splice(req, json.RawMessage(`{"n":1}`))
				return tr.Splice(req, json.RawMessage(`{"n":2}`)), nil
			},
		})
		c.call("1", "fail", "")
		if r := c.refused(); r.Error.Message != "boom" {
			t.Errorf("got %q, want boom", r.Error.Message)
		}
		c.call("2", "other", "")
		c.want(`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"other"}]}}`)
		c.call("3", "twice", "")
		c.want(`{"jsonrpc":"2.0","id":3,"result":{"n":2}}`)
		if n := tr.Kept(); n != 0 {
			t.Errorf("%d calls are kept", n)
		}
	})
}

func TestSpliceOfForeignRequestDecodes(t *testing.T) {
	for name, tr := range map[string]*stdio.Transport{
		"unconnected": new(stdio.Transport),
		"connected":   {In: bytes.NewReader(nil), Out: new(bytes.Buffer)},
	} {
		t.Run(name, func(t *testing.T) {
			if tr.In != nil {
				conn, err := tr.Connect(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close(); <-tr.Released() }()
			}
			server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
			answers := map[string]string{"good": `{"content":[{"type":"text","text":"hi"}]}`, "bad": `[]`}
			for tool, answer := range answers {
				server.AddTool(&mcp.Tool{Name: tool, InputSchema: json.RawMessage(`{"type":"object"}`)},
					func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
						return tr.Splice(req, json.RawMessage(answer)), nil
					})
			}
			here, there := mcp.NewInMemoryTransports()
			ss, err := server.Connect(t.Context(), there, nil)
			if err != nil {
				t.Fatal(err)
			}
			cs, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), here, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cs.Close(); _ = ss.Wait() }()
			for tool, isError := range map[string]bool{"good": false, "bad": true} {
				res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
				if err != nil {
					t.Fatal(err)
				}
				content, ok := res.Content[0].(*mcp.TextContent)
				if res.IsError != isError || !ok || (tool == "good" && content.Text != "hi") {
					t.Errorf("%s: got %+v", tool, res)
				}
			}
		})
	}
}
