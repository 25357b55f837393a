package tabtest

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// A Net is a loopback without sockets. The zero value is ready; its methods may be called concurrently.
type Net struct {
	mu        sync.Mutex
	listeners map[int]*listener
	lastPort  int
}

// Listen opens a port of its own, from 49152 up, on the address 127.0.0.1.
func (n *Net) Listen() net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.listeners, n.lastPort = make(map[int]*listener), 49151
	}
	n.lastPort++
	l := &listener{net: n, port: n.lastPort, conns: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[l.port] = l
	return l
}

// Dial connects to the listener on addr's port, whatever the host; without one it is refused.
func (n *Net) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	_, s, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, _ := strconv.Atoi(s)
	n.mu.Lock()
	l := n.listeners[port]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: network, Addr: tcpAddr(port), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	if l == nil {
		return nil, refused
	}
	near, far := net.Pipe()
	select {
	case l.conns <- pipe{far, l.port, 1024}:
		return pipe{near, 1024, l.port}, nil
	case <-l.closed:
		err = refused
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(err, near.Close(), far.Close())
}

type listener struct {
	net    *Net
	port   int
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		delete(l.net.listeners, l.port)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return tcpAddr(l.port) }

// A pipe is a net.Pipe that has the addresses of a loopback connection.
type pipe struct {
	net.Conn
	local, remote int
}

func (p pipe) LocalAddr() net.Addr  { return tcpAddr(p.local) }
func (p pipe) RemoteAddr() net.Addr { return tcpAddr(p.remote) }

func tcpAddr(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }

// A valve is a connection whose reading can be stopped from outside, also under a blocked Read: the
// peer's bytes stay in the pipe, and pings are not answered.
type valve struct {
	net.Conn
	mu     sync.Mutex
	open   chan struct{} // closed while reading is allowed
	closed chan struct{}
	once   sync.Once
}

func newValve(c net.Conn) *valve {
	v := &valve{Conn: c, open: make(chan struct{}), closed: make(chan struct{})}
	close(v.open)
	return v
}

func (v *valve) gate() chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.open
}

func (v *valve) Read(b []byte) (int, error) {
	for {
		gate := v.gate()
		select {
		case <-gate:
		case <-v.closed:
			return 0, net.ErrClosed
		}
		n, err := v.Conn.Read(b)
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && v.gate() != gate {
			continue
		}
		return n, err
	}
}

func (v *valve) stop() {
	v.mu.Lock()
	v.open = make(chan struct{})
	v.mu.Unlock()
	v.Conn.SetReadDeadline(past)
}

func (v *valve) Close() error {
	v.once.Do(func() { close(v.closed) })
	return v.Conn.Close()
}
