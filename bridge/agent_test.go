package bridge_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
)

// An agent is a client of the tools, by hand: it sees every frame as it is.
type agent struct {
	*desk
	box  *bridge.Toolbox
	conn net.Conn

	mu     sync.Mutex
	frames []frame
	last   int
}

type frame struct {
	at     time.Duration // since the agent began
	raw    string
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

// A result is what a tool answered.
type result struct {
	Content []struct {
		Type, Text string
	}
	StructuredContent json.RawMessage
	IsError           bool
}

func (r result) text() string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

type echoParams struct {
	Text  string `json:"text,omitempty" doc:"Said back."`
	Times int    `json:"times,omitempty" doc:"Said back too."`
}

// newAgent returns an agent that has not said a word yet, at a server with the tools of this package, a composite of ours
// named run_code, and jobs that are as small as can be.
func newAgent(t *testing.T, o bridge.Options) *agent {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "colab-mcp", Version: "1"}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
	})
	box := &bridge.Toolbox{Server: server, Facts: bridge.Facts{Version: "1.2.3", PID: 42, StateDir: "/state", LogDir: "/logs", Instance: "primary"}}
	box.Splice = func(_ *mcp.CallToolRequest, raw json.RawMessage) *mcp.CallToolResult {
		res := new(mcp.CallToolResult)
		if err := json.Unmarshal(raw, res); err != nil {
			res.SetError(err)
		}
		return res
	}
	box.Run = func(ctx context.Context, c *bridge.Call, tool string, args json.RawMessage) (*mcp.CallToolResult, error) {
		tab, err := box.Bridge.Tab(ctx, c.Progress.Waiting)
		if err != nil {
			return nil, err
		}
		turn, err := box.Bridge.Gate().Enter(ctx, tool, tab.Gone())
		if err != nil {
			return nil, err
		}
		defer turn.Leave()
		raw, err := tab.Run(tool, args, nil)
		if err != nil {
			return nil, err
		}
		return box.Splice(c.Req, raw), nil
	}
	o.OnTools = func(tools []bridge.Tool) { box.Follow(tools) }
	server.AddReceivingMiddleware(box.Middleware)
	a := &agent{desk: newDesk(t, o), box: box}
	box.Bridge = a.Bridge
	bridge.AddTools(box)
	for _, tool := range bridge.Catalog() {
		if bridge.RunsCode(tool.Name) {
			bridge.AddRelay(box, tool)
		}
	}
	bridge.AddTool(box, &mcp.Tool{Name: "run_code", Description: "A composite."}, func(_ context.Context, c *bridge.Call, p echoParams) (*mcp.CallToolResult, error) {
		return bridge.Answer(p)
	})

	near, far := net.Pipe()
	a.conn = near
	session, err := server.Connect(context.Background(), &mcp.IOTransport{Reader: far, Writer: far, MaxLineLength: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	a.users.Go(func() {
		lines := bufio.NewScanner(near)
		lines.Buffer(nil, 1<<30)
		for lines.Scan() {
			f := frame{at: time.Since(begun), raw: lines.Text()}
			if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
				t.Errorf("the server sent %.100q", f.raw)
			}
			a.mu.Lock()
			a.frames = append(a.frames, f)
			a.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		near.Close()
		session.Wait()
	})
	return a
}

// withAgent runs f in virtual time with an agent that is initialised.
func withAgent(t *testing.T, o bridge.Options, f func(t *testing.T, a *agent)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, o)
		a.initialize()
		f(t, a)
	})
}

func (a *agent) initialize() {
	a.t.Helper()
	a.await(a.request("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`))
	a.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	synctest.Wait()
}

func (a *agent) send(line string) {
	a.t.Helper()
	if _, err := a.conn.Write([]byte(line + "\n")); err != nil {
		a.t.Fatal(err)
	}
}

// request sends a request and returns its id.
func (a *agent) request(method, params string) string {
	a.t.Helper()
	a.last++
	id := fmt.Sprint(a.last)
	a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	synctest.Wait()
	return id
}

// got returns a copy of all frames so far that are wanted.
func (a *agent) got(want func(frame) bool) []frame {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []frame
	for _, f := range a.frames {
		if want(f) {
			list = append(list, f)
		}
	}
	return list
}

func (a *agent) notes(method string) []frame {
	return a.got(func(f frame) bool { return f.Method == method })
}

func (a *agent) answer(id string) (frame, bool) {
	l := a.got(func(f frame) bool { return f.Method == "" && string(f.ID) == id })
	if len(l) > 1 {
		a.t.Errorf("request %s was answered %d times", id, len(l))
	}
	if len(l) == 0 {
		return frame{}, false
	}
	return l[0], true
}

// await lets virtual time pass until the answer is there.
func (a *agent) await(id string) frame {
	a.t.Helper()
	for range 100000 {
		synctest.Wait()
		if f, ok := a.answer(id); ok {
			return f
		}
		time.Sleep(10 * time.Millisecond)
	}
	a.t.Fatalf("request %s was never answered", id)
	return frame{}
}

// start calls a tool and returns the request's id. args is raw JSON, "" leaves it out; token likewise.
func (a *agent) start(tool, args, token string) string {
	a.t.Helper()
	params := fmt.Sprintf(`{"name":%q`, tool)
	if args != "" {
		params += `,"arguments":` + args
	}
	if token != "" {
		params += `,"_meta":{"progressToken":` + token + `}`
	}
	return a.request("tools/call", params+"}")
}

// call calls a tool and returns what it answered. A JSON-RPC error fails the test (C8).
func (a *agent) call(tool, args string) result {
	a.t.Helper()
	return a.result(a.start(tool, args, ""))
}

func (a *agent) result(id string) result {
	a.t.Helper()
	f := a.await(id)
	if f.Error != nil {
		a.t.Fatalf("a JSON-RPC error: %s", f.raw)
	}
	var r result
	if err := json.Unmarshal(f.Result, &r); err != nil {
		a.t.Fatalf("%v in %s", err, f.raw)
	}
	return r
}

// tools lists the visible tools, name and whole definition.
func (a *agent) tools() (names []string, defs map[string]json.RawMessage) {
	a.t.Helper()
	var list struct{ Tools []json.RawMessage }
	if err := json.Unmarshal(a.await(a.request("tools/list", "{}")).Result, &list); err != nil {
		a.t.Fatal(err)
	}
	defs = map[string]json.RawMessage{}
	for _, def := range list.Tools {
		var d struct{ Name string }
		json.Unmarshal(def, &d)
		names, defs[d.Name] = append(names, d.Name), def
	}
	slices.Sort(names)
	return names, defs
}

// object decodes the first block, which is a JSON object.
func object[T any](t *testing.T, r result) T {
	t.Helper()
	var v T
	if r.IsError || r.StructuredContent != nil {
		t.Fatalf("answered %+v", r)
	}
	if err := json.Unmarshal([]byte(r.text()), &v); err != nil || r.text()[0] != '{' {
		t.Fatalf("the first block is %q", r.text())
	}
	return v
}
