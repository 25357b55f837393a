package stdio

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const methodProgress = "notifications/progress"

// coalesce is the size of an answer, in bytes, up to which it is copied into one write. Beyond it a copy
// costs more than two more system calls.
const coalesce = 64 << 10

// Write writes one message as one line. It may be called concurrently. What the client no longer waits for
// is dropped without an error. Once a write has failed, every later one fails alike without being tried.
func (c *conn) Write(ctx context.Context, msg jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch msg := msg.(type) {
	case *jsonrpc.Response:
		return c.writeAnswer(msg)
	case *jsonrpc.Request:
		if msg.Method == methodProgress {
			return c.writeProgress(msg)
		}
		return c.writeMessage(msg)
	default:
		return fmt.Errorf("stdio: cannot write a %T", msg)
	}
}

func (c *conn) writeMessage(msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("stdio: %w", err)
	}
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	return c.send(nil, data, "\n")
}

// writeProgress drops progress of a request that is answered, cancelled or unknown. The lock is held from the
// check to the end of the write, so that the answer cannot come between.
func (c *conn) writeProgress(msg *jsonrpc.Request) error {
	var params members
	if err := json.Unmarshal(msg.Params, &params); err != nil {
		return fmt.Errorf("stdio: progress: %w", err)
	}
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	token := c.calls.token(tokenKey(params["progressToken"]))
	if token == nil {
		c.log.Debug("dropped progress of no request in flight")
		return nil
	}
	if string(token) != string(params["progressToken"]) {
		// A number that the SDK has taken through a float64.
		params["progressToken"] = token
		own := *msg
		var err error
		if own.Params, err = json.Marshal(params); err != nil {
			return fmt.Errorf("stdio: progress: %w", err)
		}
		msg = &own
	}
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("stdio: %w", err)
	}
	return c.send(nil, data, "\n")
}

// writeAnswer writes the server's answer under the id that the client used.
func (c *conn) writeAnswer(resp *jsonrpc.Response) error {
	name, body := "result", resp.Result
	if resp.Error != nil {
		var err error
		if name, body, err = encodeError(resp.Error); err != nil {
			return err
		}
	}
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	entry := c.calls.answer(resp.ID)
	if entry == nil {
		c.log.Debug("dropped an answer that nobody waits for")
		return nil
	}
	if entry.spliced(resp) {
		body = entry.result
	}
	return c.send(head(entry.id.raw, name), body, "}\n")
}

// refuse answers a line that did not become a message. The id of a request in flight is left out: the client
// would take the refusal for that request's answer.
func (c *conn) refuse(r *refusal) error {
	c.log.Warn("refused a line from the client", "code", r.code, "why", r.message)
	if i, ok := parseID(r.id); !ok || c.calls.inFlight(i) {
		r.id = null
	}
	name, body, err := encodeError(&jsonrpc.Error{Code: r.code, Message: r.message})
	if err != nil {
		return err
	}
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	return c.send(head(r.id, name), body, "}\n")
}

// encodeError returns the error member of an answer, in the SDK's encoding.
func encodeError(err error) (name string, body json.RawMessage, _ error) {
	data, encErr := jsonrpc.EncodeMessage(&jsonrpc.Response{Error: err})
	if encErr != nil {
		return "", nil, fmt.Errorf("stdio: %w", encErr)
	}
	var m members
	if err := json.Unmarshal(data, &m); err != nil {
		return "", nil, fmt.Errorf("stdio: %w", err)
	}
	return "error", m["error"], nil
}

func head(id json.RawMessage, name string) []byte {
	b := make([]byte, 0, 64+len(id))
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	b = append(b, `,"`...)
	b = append(b, name...)
	return append(b, `":`...)
}

// send writes one line, in one write if it is small. c.writeMu is held.
func (c *conn) send(head, body []byte, end string) error {
	select {
	case <-c.closed:
		return errClosed
	default:
	}
	if len(body) <= coalesce {
		c.scratch = append(append(append(c.scratch[:0], head...), body...), end...)
		c.put(c.scratch)
	} else {
		c.put(head)
		c.put(body)
		c.put([]byte(end))
	}
	return c.writeErr
}

// put writes b unless a write has failed.
func (c *conn) put(b []byte) {
	if c.writeErr != nil || len(b) == 0 {
		return
	}
	n, err := c.out.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		c.writeErr = fmt.Errorf("stdio: write: %w", err)
	}
}
