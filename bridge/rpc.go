package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

const (
	// maxFrame is the largest message taken from a tab, in bytes.
	maxFrame = 64 << 20
	// writeTimeout is for one message on the slowest tunnel. A connection that
	// takes nothing is found dead long before.
	writeTimeout = 5 * time.Minute
	// maxReplies is how many answers may wait for a tab that reads none; what
	// it asks beyond that is not answered.
	maxReplies = 100
	// closeTimeout is how long a tab may take over its close frame.
	closeTimeout = time.Second
)

// RPCError is a JSON-RPC error object that the tab answered.
type RPCError struct {
	Code    int64
	Message string
}

func (e *RPCError) Error() string { return e.Message }

// FrameError says that an answer of the tab came and could not be taken. The
// tab did what it was asked.
type FrameError struct{ Err error }

func (e *FrameError) Error() string { return "the tab's answer cannot be read: " + e.Err.Error() }
func (e *FrameError) Unwrap() error { return e.Err }

// peer is a raw JSON-RPC client over one WebSocket: it matches answers to
// calls and decodes neither. It is safe for concurrent use. Two goroutines
// serve it, the reader and the writer; close ends them and waits.
type peer struct {
	conn   *websocket.Conn
	log    *slog.Logger
	cut    func()                                      // closes the socket under conn
	notify func(method string, params json.RawMessage) // called by the reader: must not block
	trace  func(sent bool, frame []byte)               // called by reader and writer; may be nil
	out    chan []byte
	done   chan struct{} // closed when the connection is over
	wg     sync.WaitGroup
	owed   atomic.Int32 // answers to the tab that wait to be written

	mu      sync.Mutex // guards all below
	last    int64
	pending map[int64]*call
	err     error // why it is over
}

// call is one request that waits for its answer.
type call struct {
	id       int64
	answer   chan answer // one, buffered
	progress func(params json.RawMessage)
}

type answer struct {
	result json.RawMessage
	err    error
}

func newPeer(conn *websocket.Conn, cut func(), log *slog.Logger, notify func(string, json.RawMessage), trace func(bool, []byte)) *peer {
	conn.SetReadLimit(maxFrame)
	p := &peer{conn: conn, cut: cut, log: log, notify: notify, trace: trace, out: make(chan []byte), done: make(chan struct{}), pending: map[int64]*call{}}
	p.wg.Go(p.read)
	p.wg.Go(p.write)
	return p
}

// start sends a request; its answer comes on the returned call. params is
// given the call's id. After an error the request was not sent.
func (p *peer) start(ctx context.Context, method string, params func(id int64) json.RawMessage, progress func(json.RawMessage)) (*call, error) {
	c := &call{answer: make(chan answer, 1), progress: progress}
	p.mu.Lock()
	if p.err != nil {
		p.mu.Unlock()
		return nil, ErrTabGone
	}
	p.last++
	c.id = p.last
	p.pending[c.id] = c
	p.mu.Unlock()

	if err := p.send(ctx, message(c.id, method, params(c.id))); err != nil {
		p.forget(c)
		return nil, err
	}
	return c, nil
}

// message frames a request, or a notification when id is 0. params is JSON of
// our own making or checked by the agent's transport, and is not looked at
// again: a chunk of a file has megabytes.
func message(id int64, method string, params json.RawMessage) []byte {
	b := make([]byte, 0, len(params)+len(method)+64)
	b = append(b, `{"jsonrpc":"2.0",`...)
	if id != 0 {
		b = append(b, `"id":`...)
		b = strconv.AppendInt(b, id, 10)
		b = append(b, ',')
	}
	b = append(b, `"method":"`...)
	b = append(b, method...)
	b = append(b, '"')
	if params != nil {
		b = append(b, `,"params":`...)
		b = append(b, params...)
	}
	return append(b, '}')
}

// send hands one message to the writer.
func (p *peer) send(ctx context.Context, frame []byte) error {
	select {
	case p.out <- frame:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.done:
		return ErrTabGone
	}
}

// forget drops a call: its answer, should it come, is dropped too.
func (p *peer) forget(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, c.id)
}

// cancel forgets a call and tells the tab so, when the writer gets to it.
func (p *peer) cancel(c *call, why string) {
	frame := message(0, "notifications/cancelled", fmt.Appendf(nil, `{"requestId":%d,"reason":%q}`, c.id, why))
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, c.id)
	if p.err == nil { // nobody waits for the goroutines yet
		p.wg.Go(func() { p.send(context.Background(), frame) })
	}
}

// write owns the socket's write side. A caller's context never reaches the
// socket: an expired one would close it.
func (p *peer) write() {
	for {
		select {
		case frame := <-p.out:
			if p.trace != nil {
				p.trace(true, frame)
			}
			ctx, stop := context.WithTimeout(context.Background(), writeTimeout)
			err := p.conn.Write(ctx, websocket.MessageText, frame)
			stop()
			if err != nil {
				p.end(fmt.Errorf("write: %w", err), p.cut)
				return
			}
		case <-p.done:
			return
		}
	}
}

func (p *peer) read() {
	in := frames{conn: p.conn}
	for {
		kind, frame, err := in.next(context.Background())
		if err != nil {
			p.end(err, func() { p.conn.CloseNow() })
			return
		}
		if kind != websocket.MessageText {
			p.log.Warn("tab sent a binary frame", "bytes", len(frame))
			continue
		}
		if p.trace != nil {
			p.trace(false, frame)
		}
		p.receive(frame)
	}
}

func (p *peer) receive(frame []byte) {
	env, err := scan(frame)
	id, isNumber := callID(env.id)
	switch {
	case err != nil:
		p.salvage(frame, env, err)
	case env.method != nil && env.id != nil:
		p.serve(env)
	case env.method != nil:
		p.heard(env)
	case isNumber && env.err != nil:
		p.resolve(id, answer{err: rpcError(env.err)})
	case isNumber && bytes.HasPrefix(env.result, []byte("{")):
		p.resolve(id, answer{result: env.result})
	case isNumber:
		p.resolve(id, answer{err: &FrameError{errors.New("neither an error nor a result that is an object")}})
	default:
		p.log.Warn("tab sent a message that is no call and no answer", "bytes", len(frame))
	}
}

// salvage fails the call that a broken frame answers: dropping the frame would
// hang the call. One with a method answers nothing, its id is the tab's.
func (p *peer) salvage(frame []byte, env envelope, err error) {
	p.log.Warn("tab sent a frame that cannot be read", "bytes", len(frame), "err", err)
	if env.method != nil {
		return
	}
	if id, ok := callID(env.id); ok {
		p.resolve(id, answer{err: &FrameError{err}})
		return
	}
	var found []int64
	for _, m := range idMember.FindAllSubmatch(frame, -1) {
		if id, ok := callID(m[1]); ok && p.waits(id) {
			found = append(found, id)
		}
	}
	if len(found) == 1 {
		p.resolve(found[0], answer{err: &FrameError{err}})
	}
}

var idMember = regexp.MustCompile(`"id"\s*:\s*([0-9]{1,18})`)

func (p *peer) waits(id int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending[id] != nil
}

func (p *peer) resolve(id int64, a answer) {
	p.mu.Lock()
	c := p.pending[id]
	delete(p.pending, id)
	p.mu.Unlock()
	if c == nil {
		p.log.Debug("tab answered a call that nobody waits for", "id", id)
		return
	}
	c.answer <- a
}

// serve answers what the tab asks of its client: it may ping, no more.
func (p *peer) serve(env envelope) {
	reply := `"error":{"code":-32601,"message":"method not found: this client offers nothing but ping"}}`
	if string(env.method) == `"ping"` {
		reply = `"result":{}}`
	}
	frame := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%s`, env.id, reply)
	if p.owed.Add(1) > maxReplies {
		p.owed.Add(-1)
		return
	}
	p.wg.Go(func() { // the reader must go on: the writer may wait for the tab to read
		select {
		case p.out <- frame:
		case <-p.done:
		}
		p.owed.Add(-1)
	})
}

func (p *peer) heard(env envelope) {
	var method string
	if json.Unmarshal(env.method, &method) != nil {
		return
	}
	if method != "notifications/progress" {
		p.notify(method, env.params)
		return
	}
	var about struct {
		Token int64 `json:"progressToken"`
	}
	if json.Unmarshal(env.params, &about) != nil {
		return // a token that is not ours
	}
	p.mu.Lock()
	c := p.pending[about.Token]
	p.mu.Unlock()
	if c != nil && c.progress != nil {
		c.progress(env.params)
	}
}

// end fails everything that waits, then hangs up. Only the first call counts.
func (p *peer) end(why error, hangUp func()) {
	p.mu.Lock()
	first := p.err == nil
	if first {
		p.err, p.pending = why, nil
		close(p.done)
	}
	p.mu.Unlock()
	if first {
		hangUp()
	}
}

// close ends the connection with a close frame and waits for the goroutines.
func (p *peer) close(code websocket.StatusCode, reason string) {
	p.end(hungUpError(reason), func() { hangUp(p.conn, p.cut, code, reason) })
	p.wg.Wait()
}

// hangUp closes a socket with a close frame. A tab that does not answer it in
// closeTimeout is cut off.
func hangUp(conn *websocket.Conn, cut func(), code websocket.StatusCode, reason string) {
	late := time.AfterFunc(closeTimeout, cut)
	defer late.Stop()
	conn.Close(code, reason)
}

// hungUpError is the end of a connection that this side closed.
type hungUpError string

func (e hungUpError) Error() string { return string(e) }

// why says how the connection ended, nil while it has not.
func (p *peer) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func callID(raw []byte) (int64, bool) {
	id, err := strconv.ParseInt(string(raw), 10, 64)
	return id, err == nil
}

// rpcError takes what there is of an error object: its words matter most.
func rpcError(raw []byte) error {
	e := new(RPCError)
	fields := struct {
		Code    *int64
		Message *string
	}{&e.Code, &e.Message}
	if lenient(raw, &fields) != nil || e.Message == "" && (json.Unmarshal(raw, &e.Message) != nil || e.Message == "") {
		e.Message = "the tab answered an error without a message"
	}
	return e
}
