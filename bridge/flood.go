package bridge

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// maxSilent is how many connections may be open without having asked anything.
// The oldest goes first: a tab asks at once.
const maxSilent = 256

// flood keeps connections that bring nothing from filling the process, and
// counts them: Chrome connects and says nothing when its user blocked the
// permission.
type flood struct {
	mu     sync.Mutex // guards all below
	silent map[net.Conn]*list.Element
	line   *list.List // of net.Conn, oldest first
	blind  int        // connections that ended without a byte
}

func newFlood() *flood { return &flood{silent: map[net.Conn]*list.Element{}, line: list.New()} }

// state is the http.Server's ConnState hook.
func (f *flood) state(c net.Conn, s http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s != http.StateNew {
		f.drop(c)
		return
	}
	f.silent[c] = f.line.PushBack(c)
	if f.line.Len() > maxSilent {
		oldest := f.line.Front().Value.(net.Conn)
		f.drop(oldest)
		oldest.Close()
	}
}

// drop takes a connection out of the line, because it spoke or ended. The
// caller holds f.mu.
func (f *flood) drop(c net.Conn) {
	e, ok := f.silent[c]
	if !ok {
		return
	}
	delete(f.silent, c)
	f.line.Remove(e)
	if t, ok := c.(*traffic); ok && t.received() == 0 {
		f.blind++
	}
}

// blocked is the number of connections since the last ready tab that ended
// without a byte.
func (f *flood) blocked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.blind
}

func (f *flood) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blind = 0
}
