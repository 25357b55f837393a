package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const methodCancelled = "notifications/cancelled"

// Read returns the next message for the server. What is none is answered or ignored here. It returns io.EOF
// at the end of In and when the connection is closed, and fails if an answer of its own cannot be written.
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.closed:
			return nil, io.EOF
		case l, ok := <-c.lines:
			if !ok {
				c.waitForAnswers(ctx)
				return nil, c.readErr
			}
			msg, refused := c.accept(l)
			if refused != nil {
				if err := c.refuse(refused); err != nil {
					return nil, err
				}
			}
			if msg != nil {
				return msg, nil
			}
		}
	}
}

// waitForAnswers returns when the client waits for nothing, and after the linger time in any case.
func (c *conn) waitForAnswers(ctx context.Context) {
	timeout := time.NewTimer(c.linger)
	defer timeout.Stop()
	select {
	case <-c.calls.answered():
	case <-timeout.C:
	case <-ctx.Done():
	case <-c.closed:
	}
}

// accept turns a line into a message for the server, a refusal, or neither.
func (c *conn) accept(l line) (jsonrpc.Message, *refusal) {
	if l.tooLong() {
		return nil, refuse(jsonrpc.CodeInvalidRequest, salvageID(l.text, l.tail),
			"the line has %d bytes, more than the limit of %d; send less in one message", l.size, c.max)
	}
	m, refused := decode(l.text)
	if refused != nil || m == nil {
		return nil, refused
	}
	if m.isReply() {
		if resp := m.reply(); resp != nil {
			return resp, nil
		}
		c.log.Debug("ignored an answer to nothing")
		return nil, nil
	}
	r, refused := m.request()
	if refused != nil {
		return nil, refused
	}
	if r.method == methodCancelled {
		return c.cancel(r.params), nil
	}
	msg := &jsonrpc.Request{Method: r.method, Params: r.params}
	if r.isCall {
		entry, err := c.calls.add(r.id, r.progressToken())
		if errors.Is(err, errClosed) {
			return nil, nil
		}
		if err != nil {
			return nil, refuse(jsonrpc.CodeInvalidRequest, nil, "%v: %.100s; use a new one", err, r.id.raw)
		}
		msg.ID, msg.Extra = entry.sdk, entry.extra
	}
	return msg, nil
}

// cancel returns the notification for the server, with the id the server knows, or nil if the client waits
// for no such request.
func (c *conn) cancel(params json.RawMessage) jsonrpc.Message {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
		Reason    json.RawMessage `json:"reason"`
	}
	var reason string
	if json.Unmarshal(params, &p) == nil {
		_ = json.Unmarshal(p.Reason, &reason) // a reason that is no string is none
	}
	i, ok := parseID(p.RequestID)
	if !ok {
		c.log.Debug("ignored a cancel without a request id")
		return nil
	}
	entry := c.calls.cancel(i)
	if entry == nil {
		c.log.Debug("ignored a cancel of a request that is not in flight")
		return nil
	}
	own, err := json.Marshal(map[string]any{"requestId": entry.sdk.Raw(), "reason": reason})
	if err != nil {
		panic(fmt.Sprintf("stdio: encode two plain values: %v", err))
	}
	return &jsonrpc.Request{Method: methodCancelled, Params: own}
}
