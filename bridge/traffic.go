package bridge

import (
	"context"
	"net"
	"sync/atomic"
)

// quiet is how many bytes may arrive, in WebSocket control frames, from a page
// that sends no message.
const quiet = 256

// piece is how much is written at a time, in bytes.
const piece = 64 << 10

// traffic counts what a connection has brought and taken. A pong waits behind
// data, and a ping too, so only a connection that does neither may be called
// dead.
type traffic struct {
	net.Conn
	in, out atomic.Int64
}

func (t *traffic) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.in.Add(int64(n))
	return n, err
}

// Write hands on a large message in pieces: what was taken is known while the
// rest still waits.
func (t *traffic) Write(p []byte) (n int, err error) {
	for err == nil {
		var m int
		m, err = t.Conn.Write(p[n:min(len(p), n+piece)])
		t.out.Add(int64(m))
		if n += m; n == len(p) {
			break
		}
	}
	return n, err
}

// sent is the number of bytes written so far.
func (t *traffic) sent() int64 { return t.out.Load() }

// received is the number of bytes read so far.
func (t *traffic) received() int64 { return t.in.Load() }

// counted wraps a listener's connections in traffic.
type counted struct{ net.Listener }

func (l counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &traffic{Conn: c}, nil
}

type trafficKey struct{}

// withTraffic is the http.Server's ConnContext: a handler finds its connection
// there.
func withTraffic(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, trafficKey{}, c)
}

func trafficOf(ctx context.Context) *traffic {
	t, _ := ctx.Value(trafficKey{}).(*traffic)
	return t
}
