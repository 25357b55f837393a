package stdio

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// DefaultMaxLine is the default of [Transport.MaxLine], in bytes.
const DefaultMaxLine = 64 << 20

// A Transport is an [mcp.Transport] over a pair of streams, for one session.
type Transport struct {
	// In is what the client sends. It is closed with the connection if it is an io.Closer.
	In io.Reader
	// Out is where answers go, usually what [Take] returned. It is not closed. A Write that blocks
	// because nobody reads cannot be interrupted; only the end of the process helps.
	Out io.Writer
	// MaxLine is the size of the longest line that is accepted, in bytes. Default DefaultMaxLine.
	MaxLine int
	// Linger is how long the end of In is kept from the server while requests are unanswered: the SDK
	// drops all answers after it, and `printf '…' | colab-mcp` should print some. Default 0.
	Linger time.Duration
	// Log gets what was refused or ignored, never the content of a message. Default: nowhere.
	Log *slog.Logger

	conn atomic.Pointer[conn] // for Splice, which handlers of other sessions may call too
}

var errConnected = errors.New("stdio: the transport was connected before; make a new one for each session")

// Connect starts reading In. It can be called once.
func (t *Transport) Connect(context.Context) (mcp.Connection, error) {
	c := &conn{
		out:      t.Out,
		linger:   t.Linger,
		log:      t.Log,
		max:      t.MaxLine,
		calls:    newCalls(),
		lines:    make(chan line),
		closed:   make(chan struct{}),
		released: make(chan struct{}),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.max <= 0 {
		c.max = DefaultMaxLine
	}
	if in, ok := t.In.(io.Closer); ok {
		c.in = in
	}
	if !t.conn.CompareAndSwap(nil, c) {
		return nil, errConnected
	}
	go c.readLines(newLineReader(t.In, c.max))
	return c, nil
}

// Released returns a channel that is closed when the connection has let go of In. Closing the connection is
// enough if In can be closed during a Read; a terminal or an inherited pipe cannot, there the reader waits
// for the client or for the end of the process. It is nil before Connect.
func (t *Transport) Released() <-chan struct{} {
	if c := t.conn.Load(); c != nil {
		return c.released
	}
	return nil
}

// A conn is the [mcp.Connection] of a Transport.
type conn struct {
	in     io.Closer // nil if In is none
	linger time.Duration
	log    *slog.Logger
	max    int
	calls  *calls

	lines    chan line     // closed by the reader after it has set readErr
	readErr  error         // why there are no more lines
	released chan struct{} // closed when the reader has ended

	closeOnce sync.Once
	closed    chan struct{}
	closeErr  error

	writeMu  sync.Mutex // held for the whole of one message
	out      io.Writer
	scratch  []byte
	writeErr error // sticky: after half a message nothing can follow
}

// SessionID is empty: a pipe has one session.
func (c *conn) SessionID() string { return "" }

// Close ends Read at once and forgets all calls. It does not wait for the reader, which may be in a Read of
// In that nothing interrupts; whoever owns In waits on [Transport.Released].
func (c *conn) Close() error {
	c.closeOnce.Do(func() {
		close(c.closed)
		c.calls.close()
		if c.in != nil {
			c.closeErr = c.in.Close()
		}
	})
	return c.closeErr
}

// readLines owns In. It ends with In or, once the connection is closed, with the Read it is in.
func (c *conn) readLines(lr *lineReader) {
	defer close(c.released)
	for {
		l, err := lr.next()
		if err != nil {
			c.readErr = err
			close(c.lines)
			return
		}
		select {
		case c.lines <- l:
		case <-c.closed:
			return
		}
	}
}
