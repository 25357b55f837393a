package localtab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"

	"github.com/coder/websocket"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxFrame is the largest message accepted from the bridge, in bytes.
const maxFrame = 128 << 20

// arrivalHeader carries a call's number from the transport to its handler; the SDK hands both no
// other common key.
const arrivalHeader = "X-Arrival"

// A conn is one WebSocket as the SDK's transport, one JSON-RPC message per text frame. It adds what
// a page has and the SDK's server has not: tool calls begin in the order they arrive, a cancelled
// request is never answered, and payloads of tens of MB are spliced into the answer, not re-encoded.
type conn struct {
	ws     *websocket.Conn
	log    *slog.Logger
	length int // of the last frame read; for the reader alone

	mu       sync.Mutex
	calls    map[jsonrpc.ID]*call // requests that are not answered
	byNumber map[string]*call     // the same tool calls, by arrivalHeader
	last     *call                // the newest tool call
	arrived  int                  // tool calls so far
	readErr  error                // why the socket ended
}

// A call is a request of the bridge that is not answered yet.
type call struct {
	after   *call         // the tool call before it; nil if that has begun
	begun   chan struct{} // closed when its handler has done its part in order, or it was answered
	once    sync.Once
	long    literals // of its arguments
	silent  bool     // cancelled: must not be answered
	payload []byte   // of the result, if ok
}

func (c *call) begin() { c.once.Do(func() { close(c.begun) }) }

// serve runs an MCP server for t on ws until the socket ends.
func serve(ctx context.Context, t *Tab, ws *websocket.Conn) error {
	ws.SetReadLimit(maxFrame)
	c := &conn{ws: ws, log: t.log, calls: make(map[jsonrpc.ID]*call), byNumber: make(map[string]*call)}
	session, err := newServer(t, c).Connect(context.WithoutCancel(ctx), c, nil)
	if err != nil {
		ws.CloseNow()
		return fmt.Errorf("serve the bridge: %w", err)
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		ws.Close(websocket.StatusGoingAway, "the tab is closed")
	})
	session.Wait()
	if !stop() {
		<-closed
	}
	ws.CloseNow()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch code := websocket.CloseStatus(c.readErr); {
	case ctx.Err() != nil, code == websocket.StatusNormalClosure, code == websocket.StatusGoingAway:
		return nil
	default:
		return fmt.Errorf("the bridge ended the connection: %w", c.readErr)
	}
}

// Connect implements [mcp.Transport]: the socket is there already.
func (c *conn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements [mcp.Connection].
func (c *conn) SessionID() string { return "" }

// Close implements [mcp.Connection]. The SDK calls it when the session ends; serve closes properly.
func (c *conn) Close() error { return c.ws.CloseNow() }

// Read implements [mcp.Connection]. Frames that are no JSON-RPC are passed over, as the page does.
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		frame, err := c.frame(ctx)
		if err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.readErr = err
			for _, call := range c.calls {
				call.begin()
			}
			return nil, err
		}
		short, long := liftLiterals(frame)
		msg, err := jsonrpc.DecodeMessage(short)
		if err != nil {
			c.log.Warn("a frame of the bridge is no JSON-RPC message", "bytes", len(frame), "err", err)
			continue
		}
		if req, ok := msg.(*jsonrpc.Request); ok {
			c.receive(req, long)
		}
		return msg, nil
	}
}

// frame reads a message into memory of its own: as much as the last one took is a good guess.
func (c *conn) frame(ctx context.Context) ([]byte, error) {
	_, r, err := c.ws.Reader(ctx)
	if err != nil {
		return nil, err
	}
	b := bytes.NewBuffer(make([]byte, 0, c.length+bytes.MinRead))
	_, err = b.ReadFrom(r)
	c.length = b.Len()
	return b.Bytes(), err
}

// receive notes a request before the SDK has it.
func (c *conn) receive(req *jsonrpc.Request, long literals) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case req.Method == "notifications/cancelled":
		var p struct {
			RequestID any `json:"requestId"`
		}
		json.Unmarshal(req.Params, &p)
		if id, err := jsonrpc.MakeID(p.RequestID); err == nil && c.calls[id] != nil {
			c.calls[id].silent = true
		}
	case req.Method == "tools/call" && req.IsCall() && c.calls[req.ID] == nil:
		call := &call{after: c.last, begun: make(chan struct{}), long: long}
		c.arrived++
		number := strconv.Itoa(c.arrived)
		c.calls[req.ID], c.byNumber[number], c.last = call, call, call
		req.Extra = &mcp.RequestExtra{Header: http.Header{arrivalHeader: {number}}}
	case req.IsCall() && c.calls[req.ID] == nil:
		c.calls[req.ID] = &call{begun: make(chan struct{})}
	}
}

// inOrder waits until all earlier tool calls have begun and returns the call that req belongs to. The
// handler calls its begin when it has changed what later ones must see.
func (c *conn) inOrder(req *mcp.CallToolRequest) *call {
	number := req.Extra.Header[arrivalHeader][0]
	c.mu.Lock()
	call := c.byNumber[number]
	delete(c.byNumber, number)
	c.mu.Unlock()
	if call.after != nil {
		<-call.after.begun
		call.after = nil // let go of it
	}
	return call
}

// Write implements [mcp.Connection].
func (c *conn) Write(ctx context.Context, msg jsonrpc.Message) error {
	var answered *call
	resp, ok := msg.(*jsonrpc.Response)
	if ok {
		c.mu.Lock()
		answered = c.calls[resp.ID]
		delete(c.calls, resp.ID)
		c.mu.Unlock()
	}
	if answered != nil {
		answered.begin()
		if answered.silent {
			return nil
		}
	}
	var frame []byte
	var err error
	if answered != nil && answered.payload != nil && resp.Error == nil {
		frame, err = appendResult(resp.ID, answered.payload)
	} else {
		frame, err = jsonrpc.EncodeMessage(msg)
	}
	if err != nil {
		return err
	}
	// Not ctx: when a context ends during a write the library closes the socket.
	if err := c.ws.Write(context.WithoutCancel(ctx), websocket.MessageText, frame); err != nil {
		return errors.Join(mcp.ErrConnectionClosed, err)
	}
	return nil
}

// appendResult makes the answer of a call whose result was encoded beforehand.
func appendResult(id jsonrpc.ID, result []byte) ([]byte, error) {
	raw, err := json.Marshal(id.Raw())
	if err != nil {
		return nil, err
	}
	frame := make([]byte, 0, len(result)+len(raw)+64)
	frame = append(append(frame, `{"jsonrpc":"2.0","id":`...), raw...)
	frame = append(append(frame, `,"result":`...), result...)
	return append(frame, '}'), nil
}
