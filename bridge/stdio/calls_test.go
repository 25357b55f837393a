package stdio_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge/stdio"
)

func TestIDIsEchoedByteForByte(t *testing.T) { // C9
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, new(stdio.Transport), nil)
		for _, id := range []string{
			`0`, `-0`, `-1`, `7`, `9007199254740992`, `9007199254740993`, `-9007199254740993`,
			`18446744073709551616`, `123456789012345678901234567890`,
			`""`, `"a"`, `"7"`, `"\u0061"`, `"<&>"`, `"\u003c"`, `"é"`, `"\/"`, `"\ud800"`, "\"\u2028\"", `"colab-mcp/1"`,
		} {
			c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
			c.want(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
			c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"nonsense"}`)
			if r := c.refused(); string(r.ID) != id || r.Error.Code != -32601 {
				t.Errorf("got id %s, code %d; want %s, -32601", r.ID, r.Error.Code, id)
			}
		}
	})
}

func TestSDKSeesNoRoundedID(t *testing.T) { // C9
	for id, kept := range map[string]bool{
		`7`: true, `"7"`: true, `9007199254740992`: true, `-9007199254740992`: true,
		`9007199254740993`: false, `-9007199254740993`: false, `9223372036854775808`: false,
	} {
		if stdio.SDKKeeps(id) != kept {
			t.Errorf("id %s: the SDK's own form is used: %v, want %v", id, !kept, kept)
		}
	}
}

func TestIDInFlightIsRefusedAndTheFirstLives(t *testing.T) {
	for _, test := range []struct{ first, second string }{
		{`7`, `7`}, {`"a"`, `"\u0061"`}, {`9007199254740993`, `9007199254740993`},
	} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			c := connect(t, new(stdio.Transport), map[string]mcp.ToolHandler{
				"wait": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					<-release
					return text("first"), nil
				},
			})
			c.call(test.first, "wait", "")
			for _, line := range []string{
				`{"jsonrpc":"2.0","id":` + test.second + `,"method":"ping"}`,
				`{"jsonrpc":"1.0","id":` + test.second + `,"method":"ping"}`,
			} {
				c.send(line)
				if r := c.refused(); r.Error.Code != invalidRequest || string(r.ID) != "null" {
					t.Errorf("%s: got code %d, id %s; want %d, null", line, r.Error.Code, r.ID, invalidRequest)
				}
			}
			close(release)
			c.want(`{"jsonrpc":"2.0","id":` + test.first + `,"result":{"content":[{"type":"text","text":"first"}]}}`)
			c.call(test.second, "wait", "") // answered, so the id is free again
			c.want(`{"jsonrpc":"2.0","id":` + test.second + `,"result":{"content":[{"type":"text","text":"first"}]}}`)
		})
	}
}

func TestNeighbouringBigIDsAreToldApart(t *testing.T) { // C9
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{}, 2)
		c := connect(t, new(stdio.Transport), map[string]mcp.ToolHandler{"park": park(ended)})
		c.call(`9007199254740992`, "park", "")
		c.call(`9007199254740993`, "park", "")
		c.want() // both handlers run
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9007199254740993}}`)
		c.want()
		if len(ended) != 1 {
			t.Errorf("%d handlers were cancelled, want 1", len(ended))
		}
	})
}

func TestCancelledRequestIsNotAnswered(t *testing.T) { // C13
	for _, test := range []struct{ id, cancelled string }{
		{`7`, `7`}, {`"a"`, `"\u0061"`}, {`9007199254740993`, `9007199254740993`},
	} {
		t.Run(test.id, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan struct{}, 1)
				c := connect(t, new(stdio.Transport), map[string]mcp.ToolHandler{"park": park(ended)})
				c.call(test.id, "park", "")
				c.want() // the handler runs
				cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + test.cancelled + `,"reason":"bored"}}`
				c.send(cancel)
				c.want()
				if len(ended) != 1 {
					t.Error("the handler was not cancelled")
				}
				c.send(cancel) // of what is over
				c.alive()
				c.session.Close()
				if n := c.transport.Kept(); n != 0 {
					t.Errorf("%d calls are kept", n)
				}
			})
		})
	}
}

func TestCancelRightBehindItsRequestIsNotAnswered(t *testing.T) { // C13
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{}, 100)
		c := connect(t, new(stdio.Transport), map[string]mcp.ToolHandler{"park": park(ended)})
		for i := range 100 {
			c.call(fmt.Sprint(i), "park", "")
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i))
		}
		c.want()
		c.alive()
		if n := c.transport.Kept(); n != 0 {
			t.Errorf("%d calls are kept", n)
		}
	})
}

func TestIDOfCancelledRequestCanBeUsedWhileItsHandlerRuns(t *testing.T) { // C13
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := connect(t, new(stdio.Transport), map[string]mcp.ToolHandler{
			"stubborn": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				<-release
				return text("late"), nil
			},
		})
		c.call("7", "stubborn", "")
		c.want() // the handler runs
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		c.send(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
		c.want(`{"jsonrpc":"2.0","id":7,"result":{}}`)
		close(release)
		c.want()
		if n := c.transport.Kept(); n != 0 {
			t.Errorf("%d calls are kept", n)
		}
	})
}

func TestProgressCarriesTheClientsTokenAndEndsWithTheRequest(t *testing.T) { // C10
	for _, token := range []string{`7`, `7.0`, `"7"`, `"a<b"`, `9007199254740993`} {
		t.Run(token, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var call *mcp.CallToolRequest
				release := make(chan struct{})
				c := connect(t, new(stdio.Transport), map[string]mcp.ToolHandler{
					"work": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
						call = req
						select {
						case <-release:
						case <-ctx.Done():
						}
						return text("done"), nil
					},
				})
				notify := func(n float64) {
					t.Helper()
					err := call.Session.NotifyProgress(t.Context(), &mcp.ProgressNotificationParams{
						ProgressToken: call.Params.GetProgressToken(), Progress: n, Message: "a<b",
					})
					if err != nil {
						t.Error(err)
					}
				}
				start := func(id string) {
					c.call(id, "work", `,"_meta":{"progressToken":`+token+`}`)
					synctest.Wait()
					notify(1)
					got := c.lines()
					if len(got) != 1 {
						t.Fatalf("progress arrived as %q", got)
					}
					if sent := member(t, member(t, got[0], "params"), "progressToken"); sent != token {
						t.Errorf("the token came back as %s, want %s", sent, token)
					}
				}
				start("1")
				c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
				synctest.Wait()
				notify(2)
				c.want() // nothing after the cancel

				start("2")
				close(release)
				c.want(`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"done"}]}}`)
				notify(3)
				c.want() // nothing after the answer
			})
		})
	}
}

func TestProgressWithoutTokenIsSwallowed(t *testing.T) { // C10
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, new(stdio.Transport), map[string]mcp.ToolHandler{
			"work": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				for _, token := range []any{nil, "", 0, 7, "7"} {
					if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token}); err != nil {
						return nil, fmt.Errorf("token %v: %w", token, err)
					}
				}
				return text("done"), nil
			},
		})
		c.call("1", "work", "")
		c.want(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"done"}]}}`)
	})
}
