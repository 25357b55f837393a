package bridge

import (
	"context"
	"errors"
	"time"
)

const (
	pingEvery  = 20 * time.Second
	pingWithin = 10 * time.Second // for the regular ping
	probeTime  = 2 * time.Second  // when another tab wants the place
)

// errDead is the end of a connection over which nothing comes any more.
var errDead = errors.New("the tab's machine or network does not answer")

// alive reports whether anything at all arrives within limit of a WebSocket
// ping (RFC 6455, 5.5.2). The pong waits behind data that is on its way, so any
// byte counts, and so does data of ours that is still being taken, behind which
// the ping waits. A frozen page is alive, since its browser answers.
func (t *Tab) alive(limit time.Duration) bool {
	received, sent := t.traffic.received(), t.traffic.sent()
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	return t.peer.conn.Ping(ctx) == nil || t.traffic.received() > received || t.traffic.sent() > sent+quiet
}

// watch ends a connection that died without a word: a laptop that slept, a
// cable that was pulled.
func (t *Tab) watch() {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-t.peer.done:
			return
		case <-tick.C:
			if !t.alive(pingWithin) {
				t.peer.end(errDead, t.peer.cut)
				return
			}
		}
	}
}
