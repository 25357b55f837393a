package stdio

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var (
	errInUse  = errors.New("a request with this id is still in flight")
	errClosed = errors.New("stdio: the connection is closed")
)

// A call is a request of the client that the SDK has not answered yet.
type call struct {
	id     id
	sdk    jsonrpc.ID        // what the SDK knows it by
	extra  *mcp.RequestExtra // handed to the tool handler; its address names the call
	token  json.RawMessage   // progress token as the client wrote it, or nil
	mark   string            // its number; names it in the placeholder that stands for result
	result json.RawMessage   // spliced result, or nil
}

// calls is the table of requests in flight. Every change of it is made by a method here.
//
// The client's view and the SDK's differ: to the client a request is over when it has cancelled it, to the
// SDK when the handler has returned. So a cancelled call leaves open at once and bySDK later.
type calls struct {
	mu      sync.Mutex
	open    map[string]*call // by id.key: those the client waits for
	bySDK   map[jsonrpc.ID]*call
	byExtra map[*mcp.RequestExtra]*call
	last    int           // number of the last call
	idle    chan struct{} // closed when open becomes empty; nil if nobody waits
	closed  bool
}

func newCalls() *calls {
	return &calls{
		open:    make(map[string]*call),
		bySDK:   make(map[jsonrpc.ID]*call),
		byExtra: make(map[*mcp.RequestExtra]*call),
	}
}

// add enters a request. It fails with errInUse or errClosed.
func (t *calls) add(i id, token json.RawMessage) (*call, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errClosed
	}
	if t.open[i.key] != nil {
		return nil, errInUse
	}
	t.last++
	sdk, exact := i.sdk()
	// One of our own for an id that the SDK would change, or that it still knows from a cancelled call.
	for n := t.last; !exact || t.bySDK[sdk] != nil; n++ {
		sdk, exact = sdkID(fmt.Sprintf("colab-mcp/%d", n)), true
	}
	c := &call{
		id: i, sdk: sdk, token: token,
		extra: new(mcp.RequestExtra),
		mark:  strconv.Itoa(t.last),
	}
	t.open[i.key], t.bySDK[sdk], t.byExtra[c.extra] = c, c, c
	return c, nil
}

// inFlight reports whether the client waits for an answer to i.
func (t *calls) inFlight(i id) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[i.key] != nil
}

// cancel notes that the client no longer waits for i. It returns nil if it did not anyway.
func (t *calls) cancel(i id) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.open[i.key]
	if c != nil {
		c.result = nil
		t.leave(c)
	}
	return c
}

// answer removes the call that the SDK answers. It returns nil if the client does not wait for it.
func (t *calls) answer(sdk jsonrpc.ID) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.bySDK[sdk]
	if c == nil {
		return nil
	}
	delete(t.bySDK, sdk)
	delete(t.byExtra, c.extra)
	if t.open[c.id.key] != c {
		return nil
	}
	t.leave(c)
	return c
}

// leave removes c from open. t.mu is held.
func (t *calls) leave(c *call) {
	delete(t.open, c.id.key)
	if len(t.open) == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// splice keeps raw as the result of the call that extra belongs to. It returns the mark of the
// placeholder, and false if extra belongs to no call of this connection. Of a call that nobody waits for
// it keeps nothing.
func (t *calls) splice(extra *mcp.RequestExtra, raw json.RawMessage) (mark string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byExtra[extra]
	switch {
	case c == nil:
		return "", t.closed
	case t.open[c.id.key] == c:
		c.result = raw
	}
	return c.mark, true
}

// token returns the progress token with this key as the client wrote it, or nil if no request in flight
// has it.
func (t *calls) token(key string) json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.open {
		if c.token != nil && tokenKey(c.token) == key {
			return c.token
		}
	}
	return nil
}

// answered returns a channel that is closed when the client waits for nothing.
func (t *calls) answered() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	idle := t.idle
	if len(t.open) == 0 {
		close(idle)
		t.idle = nil
	}
	return idle
}

// close forgets all calls.
func (t *calls) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	clear(t.open)
	clear(t.bySDK)
	clear(t.byExtra)
}
