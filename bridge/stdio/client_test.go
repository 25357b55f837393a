package stdio_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"colab-mcp/bridge/stdio"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		os.Exit(child(mode))
	}
	goleak.VerifyTestMain(m)
}

// A client is a scripted MCP client on the far end of a pipe to a real SDK server. It belongs in a synctest
// bubble: lines waits until the server has nothing more to do.
type client struct {
	t         *testing.T
	transport *stdio.Transport
	server    *mcp.Server
	session   *mcp.ServerSession
	stdin     *io.PipeWriter

	mu  sync.Mutex
	got []string // lines of stdout that lines has not returned
}

// connect is raw with some tools and an initialized session.
func connect(t *testing.T, transport *stdio.Transport, tools map[string]mcp.ToolHandler) *client {
	t.Helper()
	c := raw(t, transport)
	for name, handler := range tools {
		c.server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, handler)
	}
	c.initialize()
	return c
}

// raw starts a server on transport, whose In and Out it sets. Everything has ended when the test has.
func raw(t *testing.T, transport *stdio.Transport) *client {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	transport.In, transport.Out = inR, outW
	c := &client{t: t, transport: transport, stdin: inW}
	c.server = mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	session, err := c.server.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.session = session
	read := make(chan struct{})
	go func() {
		defer close(read)
		r := bufio.NewReader(outR)
		for {
			l, err := r.ReadString('\n')
			if err != nil {
				return
			}
			c.mu.Lock()
			c.got = append(c.got, l[:len(l)-1])
			c.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		inW.Close()
		_ = session.Wait()
		<-transport.Released()
		outW.Close()
		<-read
	})
	return c
}

func (c *client) initialize() {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if got := c.lines(); len(got) != 1 || !json.Valid([]byte(got[0])) {
		c.t.Fatalf("initialize was answered with %q", got)
	}
}

// send writes s and a newline to the server's stdin.
func (c *client) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.stdin, s+"\n"); err != nil {
		c.t.Fatalf("write %.60q: %v", s, err)
	}
}

// call sends a tools/call. More is appended to params.
func (c *client) call(id, tool, more string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{}` + more + `}}`)
}

// lines waits until the server is idle and returns what it has written since the last time.
func (c *client) lines() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.got
	c.got = nil
	return got
}

// want fails unless the server has written exactly these lines, in this order.
func (c *client) want(lines ...string) {
	c.t.Helper()
	got := c.lines()
	if len(got) != len(lines) {
		c.t.Fatalf("got %d lines %.300q, want %d: %.300q", len(got), got, len(lines), lines)
	}
	for i := range lines {
		if got[i] != lines[i] {
			c.t.Errorf("line %d\n got %.300s\nwant %.300s", i, got[i], lines[i])
		}
	}
}

// alive fails unless the session still answers.
func (c *client) alive() {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":"alive","method":"ping"}`)
	c.want(`{"jsonrpc":"2.0","id":"alive","result":{}}`)
}

// refusal is what an answered line says.
type refusal struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// refused returns the only line written, which must be an error.
func (c *client) refused() refusal {
	c.t.Helper()
	got := c.lines()
	if len(got) != 1 {
		c.t.Fatalf("got %d lines %.300q, want one error", len(got), got)
	}
	var r refusal
	if err := json.Unmarshal([]byte(got[0]), &r); err != nil || r.Version != "2.0" || r.Error.Message == "" {
		c.t.Fatalf("got %.300s, want an error", got[0])
	}
	return r
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// park returns a tool that waits until its request is cancelled and says so on ended.
func park(ended chan<- struct{}) mcp.ToolHandler {
	return func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		ended <- struct{}{}
		return text("late"), nil
	}
}
